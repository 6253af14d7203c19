//! Names of capability slots.

/// An address in a CSpace: 24 bits of L1 index and 8 bits of L2 index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct CapAddr(pub u32);

/// Slots of an L2CNode.
pub const L2_SLOTS: u32 = 256;
/// Bytes of an L2CNode: 256 slots of one cache line.
pub const L2_BYTES: u64 = 16 * 1024;
/// Pools are multiples of so many bytes, and aligned to them.
pub const POOL_BYTES: u64 = 2 << 20;
/// Most bytes of a Chunk of a pool.
pub const CHUNK_BYTES: u64 = 1 << 30;
/// Bytes of one slot.
pub const SLOT_BYTES: u64 = 64;

impl CapAddr {
    /// The null address. Slot 0 of L2CNode 0 is never used.
    pub const NULL: CapAddr = CapAddr(0);

    /// The address of slot `l2` in the L2CNode at `l1`.
    pub const fn new(l1: u32, l2: u32) -> Self {
        CapAddr(l1 << 8 | (l2 & 0xff))
    }
    /// Index in the root CNode.
    pub const fn l1(self) -> u32 {
        self.0 >> 8
    }
    /// Index in the L2CNode.
    pub const fn l2(self) -> u32 {
        self.0 & 0xff
    }
    /// The slot `n` further on. The caller keeps it inside one L2CNode.
    pub const fn plus(self, n: u32) -> Self {
        CapAddr(self.0 + n)
    }
    /// True for the null address.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

/// Which CNode of a CSpace an address ends in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// A slot of the root: the address is a plain index into it.
    L1,
    /// A slot of an L2CNode.
    L2,
}

/// A slot of any CSpace: the CSpace's root (a capability in the caller's own CSpace; null means
/// the caller's own root), the level, and the address there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Place(pub u64);

const LEVEL1: u64 = 1 << 63;
const ROOT_MASK: u64 = 0x7fff_ffff;

impl Place {
    /// No slot.
    pub const NULL: Place = Place(0);
    /// No slot but a dispatcher: the one whose call the invoker received last and has not answered.
    /// It stands for that dispatcher as `to` of a `ReplyRecv` and as the target of a `Reply`, so
    /// that a server needs no capability to the dispatchers of its clients.
    pub const CALLER: Place = Place(u64::MAX);

    /// A slot of the caller's own CSpace.
    pub const fn own(addr: CapAddr) -> Self {
        Place(addr.0 as u64)
    }
    /// A slot of the CSpace whose root is the L1CNode capability at `root` (31 bits).
    pub const fn within(root: CapAddr, addr: CapAddr) -> Self {
        Place((root.0 as u64 & ROOT_MASK) << 32 | addr.0 as u64)
    }
    /// Slot `index` of the root CNode itself: the place of an L2CNode capability.
    pub const fn l1(root: CapAddr, index: u32) -> Self {
        Place(LEVEL1 | (root.0 as u64 & ROOT_MASK) << 32 | index as u64)
    }
    /// The capability that names the CSpace; null for the caller's own.
    pub const fn root(self) -> CapAddr {
        CapAddr((self.0 >> 32 & ROOT_MASK) as u32)
    }
    /// The address inside that CSpace.
    pub const fn addr(self) -> CapAddr {
        CapAddr(self.0 as u32)
    }
    /// The level at which the address ends.
    pub const fn level(self) -> Level {
        if self.0 & LEVEL1 != 0 {
            Level::L1
        } else {
            Level::L2
        }
    }
    /// The place `n` slots further on in the same CNode.
    pub const fn plus(self, n: u32) -> Self {
        Place(self.0 + n as u64)
    }
    /// True when no slot is named.
    pub const fn is_null(self) -> bool {
        self.0 & !LEVEL1 == 0 && self.0 & LEVEL1 == 0
    }
}

impl From<CapAddr> for Place {
    fn from(addr: CapAddr) -> Self {
        Place::own(addr)
    }
}
