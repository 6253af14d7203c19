//! Rights of capabilities, and attributes of the memory behind them.

/// Rights of a capability, and of a mapping. A set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Rights(pub u8);

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);
    /// Frames and page tables: may be mapped readable. Ports and counters: may be read.
    pub const READ: Rights = Rights(1);
    /// Frames: may be mapped writable. Page tables: entries may be changed. L2CNodes: slots may be
    /// changed. Ports and counters: may be written.
    pub const WRITE: Rights = Rights(2);
    /// Frames: may be mapped executable.
    pub const EXEC: Rights = Rights(4);
    /// Endpoints: may be sent to.
    pub const SEND: Rights = Rights(8);
    /// Endpoints: may be received from.
    pub const RECV: Rights = Rights(16);
    /// Copies and descendants may be revoked. What a server hands out lacks it, lest a client take
    /// an object from everybody else. Dispatchers: may be suspended and continued.
    pub const REVOKE: Rights = Rights(32);
    /// As `WRITE`, but only while nobody else has the object: neither the capability nor the CNode
    /// that holds it has a copy. Copy-on-write memory and what keeps its books are born with it.
    pub const WRITE_ALONE: Rights = Rights(64);
    /// What an object is born with.
    pub const ALL: Rights = Rights(63);
    /// What an object is born with that may be written to only while it is not shared. Whoever gets
    /// a copy cannot take it from the others either.
    pub const ALONE: Rights = Rights(1 | 4 | 64);
    /// Every bit that means something.
    pub const KNOWN: Rights = Rights(127);

    /// The rights in both.
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }
    /// The rights in either.
    pub const fn or(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
    /// Returns `true` if all of `other` are in `self`.
    pub const fn has(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Attributes of RAM, inherited by what is made of it: bits 0..6 are the NUMA node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct RamAttrs(pub u16);

impl RamAttrs {
    /// The bits of the NUMA node.
    pub const NODE: u16 = 0x3f;
    /// Keeps its contents without power: no retype clears it, no kernel object is made of it, it has no home.
    pub const PERSISTENT: RamAttrs = RamAttrs(1 << 6);
    /// Held by the memory server as the home of its RAM: it does not keep memory alive.
    pub const HOME: RamAttrs = RamAttrs(1 << 7);

    /// The NUMA node, 0 to 63.
    pub const fn node(self) -> u8 {
        (self.0 & Self::NODE) as u8
    }
    /// Returns `true` if all bits of `other` are set.
    pub const fn has(self, other: RamAttrs) -> bool {
        self.0 & other.0 == other.0
    }
}
