//! The form in which cores and their monitors tell each other of capabilities.

use crate::schema::{IdentityField, Tree};
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
    /// What [`CapType::identity`] says of its type: the badge of an Endpoint. Of a Morsel: the core of its pool.
    pub aux: u32,
    /// First physical byte address, or number. Of a Morsel: its address in the tree of objects, in pages.
    pub base: u64,
    /// Bytes, or how many; 0 counts as 1. Of a Morsel: pages.
    pub size: u64,
}

/// Pages that a capability to all of an object covers, whatever its order is.
pub const PAGES_OF_MORSEL: u64 = 1 << 36;
/// Pages that the addresses of all objects of a pool have.
pub const PAGES_OF_POOL: u64 = 1 << 60;
/// Most pools of a machine: their numbers are the upper four bits of addresses of objects.
pub const MOST_POOLS: u64 = 15;
/// Cores are numbered below this.
const MOST_CORES: u32 = 64;

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
    /// Returns `true` for all objects of a pool, as the monitors call what goes with it.
    pub const fn is_all_of_pool(&self) -> bool {
        self.ty == CapType::Morsel as u8 && self.size == PAGES_OF_POOL
    }
    /// Returns `true` if other cores can have copies of it.
    pub fn can_travel(&self) -> bool {
        !self.is_home() && !self.is_all_of_pool() && self.kind().is_some_and(CapType::can_travel)
    }

    /// The row of the table that it belongs to.
    ///
    /// # Errors
    ///
    /// `Invalid` if no slot of any core can hold it.
    pub fn check(&self) -> Result<CapType, Status> {
        let ty = self.kind().filter(|&ty| NAMED.has(ty)).ok_or(Status::Invalid)?;
        if ty.tree() == Tree::Morsel {
            return if self.is_morsel() { Ok(ty) } else { Err(Status::Invalid) };
        }
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

    /// Is it a part of an object, all of one, or all of a pool, that could be there?
    const fn is_morsel(&self) -> bool {
        let is_part = matches!(self.size, 0x200 | 0x4_0000 | 0x800_0000);
        let of_object = is_part || self.size == PAGES_OF_MORSEL;
        // Record 0 is that of the records themselves.
        let names_object = self.base % PAGES_OF_POOL >= PAGES_OF_MORSEL;
        (of_object && names_object || self.is_all_of_pool())
            && self.base.is_multiple_of(self.size)
            && self.base / PAGES_OF_POOL < MOST_POOLS
            && self.aux < MOST_CORES
    }
}

impl CapType {
    /// What `aux` of a slot says on the wire: what tells objects of a type apart, or where they are, and else nothing.
    pub const fn wire_aux(self, aux: u32) -> u32 {
        match (self.identity(), self.tree()) {
            (IdentityField::Badge | IdentityField::Serial, _) => aux,
            (_, Tree::Morsel) => aux % MOST_CORES,
            (IdentityField::None | IdentityField::FirstEntry, _) => 0,
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
