//! Sets of cores.

/// A set of cores, of at most 64.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cores(u64);

impl Cores {
    /// None.
    pub const NONE: Cores = Cores(0);
    /// One alone.
    #[inline]
    pub const fn one(core: u32) -> Cores {
        Cores(1 << (core & 63))
    }
    /// Those below `count`.
    pub const fn first(count: u32) -> Cores {
        match count {
            64.. => Cores(u64::MAX),
            _ => Cores((1 << count) - 1),
        }
    }
    /// Those in either.
    #[inline]
    pub const fn with(self, other: Cores) -> Cores {
        Cores(self.0 | other.0)
    }
    /// Those that are not in `other`.
    #[inline]
    pub const fn without(self, other: Cores) -> Cores {
        Cores(self.0 & !other.0)
    }
    /// Is it a member?
    #[inline]
    pub const fn has(self, core: u32) -> bool {
        self.0 >> (core & 63) & 1 != 0
    }
    /// Are there none?
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |&core| self.has(core))
    }
}
