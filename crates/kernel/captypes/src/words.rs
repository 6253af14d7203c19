//! How the values of invocations cross in machine words.

use crate::{CapAddr, CapType, ObjectKind, Place, RamAttrs, Rights, Status};

/// Arguments as they cross: nine words.
pub type ArgWords = [u64; 9];
/// Results as they cross: six words.
pub type ReplyWords = [u64; 6];

/// A value that crosses the system call in one word.
pub trait Word: Sized {
    /// The word.
    fn to_word(self) -> u64;
    /// The value, or `Invalid` for a word that stands for none.
    fn from_word(word: u64) -> Result<Self, Status>;
}

macro_rules! plain_words {
    ($($ty:ty),*) => { $(impl Word for $ty {
        #[inline(always)]
        fn to_word(self) -> u64 { self as u64 }
        #[inline(always)]
        fn from_word(word: u64) -> Result<Self, Status> {
            <$ty>::try_from(word).map_err(|_| Status::Invalid)
        }
    })* };
}
plain_words!(u64, u32, u16, u8);

impl Word for bool {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        match word {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Status::Invalid),
        }
    }
}

impl Word for Place {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        Ok(Place(word))
    }
}

impl Word for CapAddr {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.0 as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        u32::from_word(word).map(CapAddr)
    }
}

impl Word for Rights {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.0 as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        Ok(Rights(u8::from_word(word)?).and(Rights::KNOWN))
    }
}

impl Word for RamAttrs {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.0 as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        u16::from_word(word).map(RamAttrs)
    }
}

impl Word for CapType {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        u8::try_from(word).ok().and_then(CapType::from_u8).ok_or(Status::Invalid)
    }
}

/// Bits 0..8: the type; bit 8: born with `WRITE_ALONE`.
impl Word for ObjectKind {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.ty as u64 | (self.alone as u64) << 8
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        let ty = CapType::from_u8(word as u8).ok_or(Status::Invalid)?;
        let alone = bool::from_word(word >> 8)?;
        if alone && !ty.can_be_alone() {
            return Err(Status::Invalid);
        }
        Ok(ObjectKind { ty, alone })
    }
}

/// How a map or protect treats its pages. A set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct MapFlags(pub u32);

impl MapFlags {
    /// Readable (always, when present).
    pub const READ: MapFlags = MapFlags(1);
    /// Writable.
    pub const WRITE: MapFlags = MapFlags(2);
    /// Executable.
    pub const EXEC: MapFlags = MapFlags(4);
    /// Writable only where the mapped capability has no copies and, if its right to write is
    /// `WRITE_ALONE`, the CNode that holds it has none (copy-on-write: the last owner).
    pub const IF_EXCLUSIVE: MapFlags = MapFlags(8);
    /// Uncached, for device registers.
    pub const UNCACHED: MapFlags = MapFlags(16);
    /// Forget stale translations by [`FlushStrategy::Full`], whatever the core's policy says. With
    /// `FLUSH_PAGES`: by [`FlushStrategy::Hybrid`].
    pub const FLUSH_ALL: MapFlags = MapFlags(32);
    /// Forget stale translations by [`FlushStrategy::Selective`].
    pub const FLUSH_PAGES: MapFlags = MapFlags(64);

    /// The flags in either.
    pub const fn or(self, other: MapFlags) -> MapFlags {
        MapFlags(self.0 | other.0)
    }
    /// Are all of `other` set?
    pub const fn has(self, other: MapFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Word for MapFlags {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.0 as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        if word >> 7 != 0 {
            return Err(Status::Invalid);
        }
        Ok(MapFlags(word as u32))
    }
}

/// The bits of page-table entries that the processor sets. A set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct StatusBits(pub u8);

impl StatusBits {
    /// The entry was used for a translation.
    pub const ACCESSED: StatusBits = StatusBits(1);
    /// The page was written to. Only entries that map a page have it.
    pub const DIRTY: StatusBits = StatusBits(2);
    /// Both.
    pub const ALL: StatusBits = StatusBits(3);

    /// Are all of `other` set?
    pub const fn has(self, other: StatusBits) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Word for StatusBits {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.0 as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        if word & !(Self::ALL.0 as u64) != 0 {
            return Err(Status::Invalid);
        }
        Ok(StatusBits(word as u8))
    }
}

/// How translations that are stale are forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FlushStrategy {
    /// All at once.
    Full = 0,
    /// One by one, however many.
    Selective = 1,
    /// One by one up to a threshold in each event of the kernel, then all at once.
    Hybrid = 2,
}

impl Word for FlushStrategy {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        match word {
            0 => Ok(FlushStrategy::Full),
            1 => Ok(FlushStrategy::Selective),
            2 => Ok(FlushStrategy::Hybrid),
            _ => Err(Status::Invalid),
        }
    }
}

/// A capability as cores tell each other of it: what a slot holds but for links, owner and hints.
///
/// ```text
/// head   bits 0..8 type, 8..16 rights, 16..32 attributes, 32..64 badge of an Endpoint
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireWords {
    /// See above.
    pub head: u64,
    /// First byte (port, line, number), in the units of the kernel's database.
    pub base: u64,
    /// Size, likewise.
    pub size: u64,
}

impl WireWords {
    /// The words of a capability.
    pub const fn new(
        ty: CapType,
        rights: Rights,
        attrs: RamAttrs,
        aux: u32,
        base: u64,
        size: u64,
    ) -> WireWords {
        let head = ty as u64 | (rights.0 as u64) << 8 | (attrs.0 as u64) << 16 | (aux as u64) << 32;
        WireWords { head, base, size }
    }
    /// The type, if it is one.
    pub const fn kind(&self) -> Option<CapType> {
        CapType::from_u8(self.head as u8)
    }
    /// The rights.
    pub const fn rights(&self) -> u8 {
        (self.head >> 8) as u8
    }
    /// The attributes.
    pub const fn attrs(&self) -> u16 {
        (self.head >> 16) as u16
    }
    /// The badge of an Endpoint.
    pub const fn aux(&self) -> u32 {
        (self.head >> 32) as u32
    }
}

/// What an invocation needs of other cores before it can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Need {
    /// Nothing: it has come to its end.
    Nothing = 0,
    /// The capability is locked: nothing but that the lock goes.
    Unlocked = 1,
    /// The last capability on its owner core is to be deleted.
    Delete = 2,
    /// Copies and descendants are to be deleted on all cores.
    Revoke = 3,
    /// Something is to be made of a range of it.
    Retype = 4,
}

impl Word for Need {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        use Need::*;
        let all = [Nothing, Unlocked, Delete, Revoke, Retype];
        all.get(usize::try_from(word).unwrap_or(usize::MAX)).copied().ok_or(Status::Invalid)
    }
}

/// One part of a [`RetypeMany`](crate::op::RetypeMany): `count` objects of a type, of adjacent
/// sub-ranges. Offset and size are counted in pages (memory), ports or lines.
///
/// ```text
/// bits 0..26   first unit of the source     bits 46..58  objects; none: no part
/// bits 26..46  units of each object         bits 58..63  type
///                                           bit 63       born with `WRITE_ALONE`
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Part(pub u64);

impl Part {
    /// No part.
    pub const NONE: Part = Part(0);
    /// Most parts of one operation.
    pub const MOST: usize = 7;
    const UNITS_AT: u32 = 26;
    const COUNT_AT: u32 = 46;
    const TYPE_AT: u32 = 58;
    const ALONE: u64 = 1 << 63;

    /// `count` objects of `units` each from `first` on; `None` if a number is too large.
    pub const fn new(ty: CapType, first: u64, units: u64, count: u32) -> Option<Part> {
        if first >> Self::UNITS_AT != 0 || units >> 20 != 0 || count >> 12 != 0 {
            return None;
        }
        Some(Part(
            first
                | units << Self::UNITS_AT
                | (count as u64) << Self::COUNT_AT
                | (ty as u64) << Self::TYPE_AT,
        ))
    }
    /// First unit in the source.
    pub const fn first(self) -> u64 {
        self.0 & ((1 << Self::UNITS_AT) - 1)
    }
    /// Units of each object.
    pub const fn units(self) -> u64 {
        self.0 >> Self::UNITS_AT & 0xf_ffff
    }
    /// Objects.
    pub const fn count(self) -> u32 {
        (self.0 >> Self::COUNT_AT) as u32 & 0xfff
    }
    /// The same, with objects that are born with `WRITE_ALONE`.
    pub const fn alone(self) -> Part {
        Part(self.0 | Self::ALONE)
    }
    /// What they are, if there is such.
    pub const fn kind(self) -> Option<ObjectKind> {
        let alone = self.0 & Self::ALONE != 0;
        match CapType::from_u8(((self.0 & !Self::ALONE) >> Self::TYPE_AT) as u8) {
            Some(ty) if !alone || ty.can_be_alone() => Some(ObjectKind { ty, alone }),
            _ => None,
        }
    }
}

impl Word for Part {
    #[inline(always)]
    fn to_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Result<Self, Status> {
        Ok(Part(word))
    }
}
