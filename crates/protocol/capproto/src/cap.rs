//! What the protocol knows of a capability.

use captypes::types::{IdentityField, Wire};
pub use captypes::WireCap;
use captypes::{CapType, Tree};

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

/// What the protocol asks of a capability on its way between cores.
pub trait Relations {
    /// What it covers.
    fn region(&self) -> Region;
    /// Order among capabilities to the same region: an ancestor has the lower rank.
    fn rank(&self) -> u8;
    /// Returns `true` if another core can become the owner. Objects of the CPU driver stay where they are
    /// (G18 §4.2).
    fn is_moveable(&self) -> bool;
}

impl Relations for WireCap {
    fn region(&self) -> Region {
        let tree = self.kind().map_or(Tree::None, CapType::tree) as u8;
        Region { tree, base: self.base, end: self.base.saturating_add(self.size.max(1)) }
    }
    fn rank(&self) -> u8 {
        let Some(kind) = self.kind() else { return 0 };
        match kind.identity() {
            IdentityField::Badge if self.aux != 0 => BADGED,
            IdentityField::Serial => BADGED,
            IdentityField::Badge | IdentityField::None | IdentityField::FirstEntry => kind.rank(),
        }
    }
    fn is_moveable(&self) -> bool {
        match self.kind().map(CapType::wire) {
            Some(Wire::Moves) => true,
            // What goes with a pool goes on all cores.
            Some(Wire::Unowned) => !self.is_all_of_pool(),
            Some(Wire::Never | Wire::Local | Wire::Pinned) | None => false,
        }
    }
}
