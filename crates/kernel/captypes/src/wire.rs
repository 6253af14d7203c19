//! The form in which cores and their monitors tell each other of capabilities.

use crate::schema::IdentityField;
use crate::types::ObjectSize;
use crate::words::Words;
use crate::{CapType, RamAttrs, Rights, Status, TypeSet};

/// A capability on its way between cores: what a slot holds but for links, owner and hints. In three words:
///
/// ```text
/// head   bits 0..8 type, 8..16 rights, 16..32 attributes, 32..64 what `aux` holds
/// base   first byte (port, line, number), in the units of the kernel's database
/// size   likewise
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WireCap {
    /// Number of its type: that which user mode sees.
    pub ty: u8,
    /// Rights. Copies may differ in them.
    pub rights: u8,
    /// Attributes, as [`RamAttrs`] has them. Copies may differ in them.
    pub attrs: u16,
    /// What [`CapType::identity`] says of its type: the badge of an Endpoint.
    pub aux: u32,
    /// First physical byte address, or number.
    pub base: u64,
    /// Bytes, or how many; 0 counts as 1.
    pub size: u64,
}

/// What is on the wire ends below this address.
const END: u64 = 1 << 52;
/// Addresses and sizes are multiples of this.
const PAGE: u64 = 4096;

impl WireCap {
    /// Type, rights, attributes and `aux` in one word.
    pub const fn head(&self) -> u64 {
        self.ty as u64
            | (self.rights as u64) << 8
            | (self.attrs as u64) << 16
            | (self.aux as u64) << 32
    }
    /// The three words.
    #[inline(always)]
    pub const fn words(&self) -> [u64; 3] {
        [self.head(), self.base, self.size]
    }
    /// What three words say; nothing is checked.
    #[inline(always)]
    pub const fn from_words([head, base, size]: [u64; 3]) -> WireCap {
        let (ty, rights, attrs) = (head as u8, (head >> 8) as u8, (head >> 16) as u16);
        WireCap { ty, rights, attrs, aux: (head >> 32) as u32, base, size }
    }
    /// The type; `None` for a number that is none.
    pub const fn kind(&self) -> Option<CapType> {
        CapType::from_u8(self.ty)
    }
    /// The rights as a set.
    pub const fn rights_set(&self) -> Rights {
        Rights(self.rights)
    }
    /// Returns `true` for memory of which the memory server keeps the home.
    pub const fn is_home(&self) -> bool {
        self.ty == CapType::Ram as u8 && RamAttrs(self.attrs).has(RamAttrs::HOME)
    }
    /// Returns `true` if other cores can have copies of it.
    pub fn can_travel(&self) -> bool {
        !self.is_home() && self.kind().is_some_and(CapType::can_travel)
    }

    /// The row of the table that it belongs to.
    ///
    /// # Errors
    ///
    /// `Invalid` if no slot of any core can hold it.
    pub fn check(&self) -> Result<CapType, Status> {
        let ty = self.kind().filter(|&ty| NAMED.has(ty)).ok_or(Status::Invalid)?;
        let fits = match ty.object_size() {
            ObjectSize::Fixed(size) => self.size == size,
            ObjectSize::Multiple(unit) => self.size != 0 && self.size.is_multiple_of(unit),
            ObjectSize::None => self.size != 0,
        };
        let aligned = (self.base | self.size) & (PAGE - 1) == 0;
        if !fits || !aligned || self.base > END || self.size > END - self.base {
            return Err(Status::Invalid);
        }
        Ok(if self.is_home() { CapType::HomeRam } else { ty })
    }
}

impl CapType {
    /// What `aux` of a slot says on the wire: what tells objects of a type apart, and else nothing.
    pub const fn wire_aux(self, aux: u32) -> u32 {
        match self.identity() {
            IdentityField::Badge | IdentityField::Serial => aux,
            IdentityField::None | IdentityField::FirstEntry => 0,
        }
    }
}

/// What can be named on the wire at all.
const NAMED: TypeSet = TypeSet::on_wire();

impl Words for WireCap {
    const WORDS: usize = 3;
    #[inline(always)]
    fn put(self, words: &mut [u64], at: usize) {
        [words[at], words[at + 1], words[at + 2]] = self.words();
    }
    #[inline(always)]
    fn take(words: &[u64], at: usize) -> Result<Self, Status> {
        Ok(WireCap::from_words([words[at], words[at + 1], words[at + 2]]))
    }
}
