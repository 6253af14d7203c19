//! What the protocol knows of a capability.

use captypes::{CapType, Rights, Tree};

/// A core: 0 to 63.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CoreId(pub u8);

/// How many cores there can be.
pub const MAX_CORES: u8 = 64;

/// A set of cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Cores(pub u64);

impl Cores {
    /// No core.
    pub const NONE: Cores = Cores(0);

    /// Just this one.
    pub const fn only(core: CoreId) -> Cores {
        Cores(1 << (core.0 % MAX_CORES))
    }
    /// Those in either set.
    pub const fn or(self, other: Cores) -> Cores {
        Cores(self.0 | other.0)
    }
    /// Those in `self` and not in `other`.
    pub const fn without(self, other: Cores) -> Cores {
        Cores(self.0 & !other.0)
    }
    /// Is `core` one of them?
    pub const fn has(self, core: CoreId) -> bool {
        self.0 & Cores::only(core).0 != 0
    }
    /// How many.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
    /// Is it none?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// One after the other, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = CoreId> {
        (0..MAX_CORES).map(CoreId).filter(move |&core| self.has(core))
    }
}

/// A part of one tree of capabilities: physical memory, or numbers of lines, ports or names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Region {
    /// Number of the tree, a [`captypes::Tree`].
    pub tree: u8,
    /// First byte (line, port, number).
    pub base: u64,
    /// The one behind the last.
    pub end: u64,
}

impl Region {
    /// Have they something in common?
    pub const fn overlaps(self, other: Region) -> bool {
        self.tree == other.tree && self.base < other.end && other.base < self.end
    }
    /// Is all of `other` in `self`?
    pub const fn contains(self, other: Region) -> bool {
        self.tree == other.tree && self.base <= other.base && other.end <= self.end
    }
    /// Is it physical memory, which can be given back?
    pub const fn is_memory(self) -> bool {
        self.tree == Tree::Memory as u8
    }
}

/// Rank of what has a badge. Several different capabilities of a region may have it, of which none
/// was made of another.
pub const BADGED: u8 = u8::MAX;

/// A capability on its way between cores: what a slot holds but for links, owner and hints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WireCap {
    /// Number of its type, a [`captypes::CapType`]: that which user mode sees.
    pub ty: u8,
    /// Rights. Copies may differ in them.
    pub rights: u8,
    /// Attributes. Copies may differ in them.
    pub attrs: u16,
    /// Specific to the type, as in `mdb::RawCap`.
    pub aux: u32,
    /// First physical byte address, or number.
    pub base: u64,
    /// Bytes, or how many; 0 counts as 1.
    pub size: u64,
}

impl WireCap {
    /// Type, rights, attributes and `aux` in one word, in this order from bit 0 on.
    pub const fn head(&self) -> u64 {
        self.ty as u64
            | (self.rights as u64) << 8
            | (self.attrs as u64) << 16
            | (self.aux as u64) << 32
    }
    /// The type; `None` for a number that is none.
    pub const fn kind(&self) -> Option<CapType> {
        CapType::from_u8(self.ty)
    }
    /// The rights as a set.
    pub const fn rights_set(&self) -> Rights {
        Rights(self.rights)
    }
    /// What it covers.
    pub fn region(&self) -> Region {
        let tree = self.kind().map_or(Tree::None, CapType::tree) as u8;
        Region { tree, base: self.base, end: self.base.saturating_add(self.size.max(1)) }
    }
    /// Order among capabilities to the same region: an ancestor has the lower rank.
    pub fn rank(&self) -> u8 {
        match self.kind() {
            Some(CapType::Endpoint) if self.aux != 0 => BADGED,
            kind => kind.map_or(0, CapType::rank),
        }
    }
    /// Can another core become the owner? Objects of the CPU driver stay where they are (G18 §4.2).
    pub fn is_moveable(&self) -> bool {
        self.kind().is_some_and(|kind| !kind.is_kernel_object())
    }
}
