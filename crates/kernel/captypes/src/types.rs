//! The table of capability types.

/// The trees of the forest. Capabilities of different trees never overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Tree {
    /// Empty slots.
    None,
    /// Physical memory and everything made of it.
    Memory,
    /// Interrupt lines.
    Irq,
    /// I/O ports.
    Io,
    /// The kernel of this core, and other things without extent.
    Singleton,
    /// Unforgeable names.
    Id,
}

/// How large the object behind a capability is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectSize {
    /// No object in memory.
    None,
    /// Always this many bytes.
    Fixed(u64),
    /// Any multiple of this many bytes, chosen at retype.
    Multiple(u64),
}

macro_rules! cap_types {
    ($($(#[$doc:meta])* $id:literal $name:ident: $tree:ident, rank $rank:literal, $size:expr, from [$($from:ident)*];)*) => {
        /// What a capability is for.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum CapType { $($(#[$doc])* $name = $id,)* }

        impl CapType {
            /// Every type, in the order of the table.
            pub const ALL: &'static [CapType] = &[$(CapType::$name),*];

            /// The type with this number.
            pub const fn from_u8(id: u8) -> Option<CapType> {
                match id { $($id => Some(CapType::$name),)* _ => None }
            }
            /// The tree that it belongs to.
            pub const fn tree(self) -> Tree {
                match self { $(CapType::$name => Tree::$tree,)* }
            }
            /// Order among capabilities of the same range: an ancestor's type comes first. An
            /// Endpoint with a badge is made of the one without, and comes one behind it.
            pub const fn rank(self) -> u8 {
                match self { $(CapType::$name => $rank,)* }
            }
            /// Size of the object that a retype to this type makes.
            pub const fn object_size(self) -> ObjectSize {
                match self { $(CapType::$name => $size,)* }
            }
            /// May a capability of type `self` be retyped to `to`?
            pub const fn can_retype_to(self, to: CapType) -> bool {
                match to { $(CapType::$name => { $(if matches!(self, CapType::$from) { return true; })* false })* }
            }
            /// What the table says of it, as the compiler keeps it: `doc = "text"`.
            pub const fn docs(self) -> &'static [&'static str] {
                match self { $(CapType::$name => &[$(stringify!($doc)),*],)* }
            }
            /// The types that it may be made of by a retype.
            pub const fn sources(self) -> &'static [CapType] {
                match self { $(CapType::$name => &[$(CapType::$from),*],)* }
            }
            /// The name in the table.
            pub const fn name(self) -> &'static str {
                match self { $(CapType::$name => stringify!($name),)* }
            }
        }
    };
}

const PAGE: ObjectSize = ObjectSize::Multiple(4096);
const TABLE: ObjectSize = ObjectSize::Fixed(4096);
const NOTHING: ObjectSize = ObjectSize::None;

cap_types! {
    /// An empty slot.
    0 Null: None, rank 0, NOTHING, from [];
    /// A range of physical addresses, of unknown contents.
    1 PhysAddr: Memory, rank 0, PAGE, from [PhysAddr];
    /// Memory that nobody can read yet. What is made of it is zeroed first.
    2 Ram: Memory, rank 1, PAGE, from [PhysAddr Ram];
    /// Device registers: mappable, never zeroed, never RAM.
    3 DevFrame: Memory, rank 2, PAGE, from [PhysAddr DevFrame];
    /// Memory that can be mapped in an address space.
    4 Frame: Memory, rank 2, PAGE, from [Ram Frame];
    /// Page table of level 5 (x86-64 with LA57).
    5 Pml5: Memory, rank 3, TABLE, from [Ram];
    /// Page table of level 4.
    6 Pml4: Memory, rank 3, TABLE, from [Ram];
    /// Page table of level 3, or page directory pointer table: one entry covers 1 GiB.
    7 Pdpt: Memory, rank 3, TABLE, from [Ram];
    /// Page table of level 2, or page directory: one entry covers 2 MiB.
    8 Pd: Memory, rank 3, TABLE, from [Ram];
    /// Page table of level 1: one entry covers 4 KiB.
    9 Pt: Memory, rank 3, TABLE, from [Ram];
    /// Root of a CSpace: slots for L2CNodes, 64 in each page.
    10 L1CNode: Memory, rank 3, PAGE, from [Ram];
    /// 256 slots.
    11 L2CNode: Memory, rank 3, ObjectSize::Fixed(16384), from [Ram];
    /// What the kernel schedules.
    12 Dispatcher: Memory, rank 3, ObjectSize::Fixed(4096), from [Ram];
    /// Where messages are sent and received. Minted copies carry a badge.
    13 Endpoint: Memory, rank 3, ObjectSize::Fixed(4096), from [Ram];
    /// The record of entries in one table; deleting it removes them.
    14 Mapping: Memory, rank 5, NOTHING, from [];
    /// The CPU driver of this core.
    15 Kernel: Singleton, rank 0, NOTHING, from [];
    /// An interrupt line.
    16 Irq: Irq, rank 0, NOTHING, from [Irq];
    /// A range of I/O ports.
    17 Io: Io, rank 0, NOTHING, from [Io];
    /// An unforgeable number; or, with more than one, the right to make fresh ones.
    18 Id: Id, rank 0, NOTHING, from [];
    /// The performance counters of this core.
    19 PerfMon: Singleton, rank 0, NOTHING, from [];
    /// The first slot of a large retype that has not come to its end. It can be deleted, moved and
    /// identified, and holds the memory until the retype is repeated to its end.
    20 Blank: Memory, rank 3, PAGE, from [];
}

impl CapType {
    /// The level of a page table: 1 for `Pt` to 5 for `Pml5`; `None` for anything else.
    pub const fn table_level(self) -> Option<u8> {
        match self {
            CapType::Pt => Some(1),
            CapType::Pd => Some(2),
            CapType::Pdpt => Some(3),
            CapType::Pml4 => Some(4),
            CapType::Pml5 => Some(5),
            _ => None,
        }
    }

    /// The page table type of a level, 1 to 5.
    pub const fn table_of_level(level: u8) -> Option<CapType> {
        match level {
            1 => Some(CapType::Pt),
            2 => Some(CapType::Pd),
            3 => Some(CapType::Pdpt),
            4 => Some(CapType::Pml4),
            5 => Some(CapType::Pml5),
            _ => None,
        }
    }

    /// The rights that mean something for this type, besides [`Rights::REVOKE`], which every
    /// capability may have. A Mint may take any of them away, and the operations that need them
    /// then answer `NoRights`.
    pub const fn rights(self) -> Rights {
        match self {
            CapType::Frame => Rights::ALONE.or(Rights::WRITE),
            CapType::DevFrame => Rights::READ.or(Rights::WRITE).or(Rights::EXEC),
            CapType::Pt => Rights::READ.or(Rights::WRITE).or(Rights::WRITE_ALONE),
            CapType::L2CNode => Rights::WRITE.or(Rights::WRITE_ALONE),
            CapType::Endpoint => Rights::SEND.or(Rights::RECV),
            CapType::Io => Rights::READ.or(Rights::WRITE),
            CapType::PerfMon => Rights::READ.or(Rights::WRITE),
            _ if self.table_level().is_some() => Rights::READ.or(Rights::WRITE),
            _ => Rights::NONE,
        }
    }

    /// May objects of this type be born with [`Rights::WRITE_ALONE`]? Pages, what holds their
    /// capabilities and those of their Mappings, and the tables that map them.
    pub const fn can_be_alone(self) -> bool {
        matches!(self, CapType::Frame | CapType::Pt | CapType::L2CNode)
    }

    /// An object of this type with [`Rights::WRITE_ALONE`] instead of `WRITE`.
    pub const fn alone(self) -> ObjectKind {
        ObjectKind { ty: self, alone: true }
    }

    /// May there be several capabilities to the same object, in several slots?
    pub const fn can_be_copied(self) -> bool {
        !matches!(self, CapType::Null | CapType::Mapping | CapType::Blank)
    }

    /// Objects with slots in them.
    pub const fn is_container(self) -> bool {
        matches!(self, CapType::L1CNode | CapType::L2CNode | CapType::Dispatcher)
    }

    /// Kernel objects: memory that must never be mapped writable in user mode.
    pub const fn is_kernel_object(self) -> bool {
        matches!(
            self,
            CapType::Pml5
                | CapType::Pml4
                | CapType::Pdpt
                | CapType::Pd
                | CapType::Pt
                | CapType::L1CNode
                | CapType::L2CNode
                | CapType::Dispatcher
                | CapType::Endpoint
                | CapType::Blank
        )
    }
}

/// What a retype makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectKind {
    /// Its type.
    pub ty: CapType,
    /// Is it born with [`Rights::ALONE`], and not with [`Rights::ALL`]?
    pub alone: bool,
}

impl ObjectKind {
    /// The rights of a new object.
    pub const fn rights(self) -> Rights {
        if self.alone {
            Rights::ALONE
        } else {
            Rights::ALL
        }
    }
}

impl From<CapType> for ObjectKind {
    #[inline(always)]
    fn from(ty: CapType) -> ObjectKind {
        ObjectKind { ty, alone: false }
    }
}

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
    /// Are all of `other` in `self`?
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
    /// Survives a power cut.
    pub const PERSISTENT: RamAttrs = RamAttrs(1 << 6);
    /// Held by the memory server as the home of its RAM: it does not keep memory alive.
    pub const HOME: RamAttrs = RamAttrs(1 << 7);

    /// The NUMA node, 0 to 63.
    pub const fn node(self) -> u8 {
        (self.0 & Self::NODE) as u8
    }
    /// Are all bits of `other` set?
    pub const fn has(self, other: RamAttrs) -> bool {
        self.0 & other.0 == other.0
    }
}
