//! The table of capability types.
//!
//! | column | says |
//! |---|---|
//! | `tree` | in which tree of the forest it is |
//! | `rank` | its order among capabilities of the same range: ancestors first |
//! | `size` | of its objects |
//! | `from` | what it may be retyped from |
//! | `rights` | that mean something, besides `REVOKE` |
//! | `is` | the [sets](TypeSet) that it is in |
//! | `level` | of a page table |
//! | `identity` | what else tells its [objects](IdentityField) apart |
//! | `wire` | what [other cores](Wire) may have of it |
//! | `born` | what a retype [does](Birth) to its memory |
//! | `last` | what [must happen](Finaliser) when the last capability goes |
//! | `seen as` | the type that user mode takes it for, if that is another |
//!
//! Numbers are below 32: sets of types and the parts of [`RetypeMany`](crate::op::RetypeMany) rely on it. Those of
//! one kind, of which the kernel asks often, follow each other (containers, tables, Mapping and Loan): then the
//! question is one comparison.

pub use crate::rights::{RamAttrs, Rights};
use crate::schema::capability_types;
pub use crate::schema::{
    Birth, Finaliser, IdentityField, ObjectSize, Property, Tree, TypeSet, Wire,
};

const PAGES: ObjectSize = ObjectSize::Multiple(4096);
const PAGE: ObjectSize = ObjectSize::Fixed(4096);
const NOTHING: ObjectSize = ObjectSize::None;

capability_types! {
    /// An empty slot.
    0 Null {
        tree None, rank 0, size NOTHING, from [], rights [], is [],
        identity None, wire Never, born Kept, last Forget
    }
    /// A range of physical addresses, of unknown contents.
    1 PhysAddr {
        tree Memory, rank 0, size PAGES, from [PhysAddr], rights [], is [Copyable],
        identity None, wire Moves, born Kept, last Forget
    }
    /// Memory that nobody can read yet. What is made of it is zeroed first; what is made of persistent RAM keeps its
    /// contents, and is no kernel object.
    2 Ram {
        tree Memory, rank 1, size PAGES, from [PhysAddr Ram], rights [], is [Copyable],
        identity None, wire Moves, born Kept, last Forget
    }
    /// Device registers: mappable, never zeroed, never RAM.
    3 DevFrame {
        tree Memory, rank 2, size PAGES, from [PhysAddr DevFrame],
        rights [READ WRITE EXEC], is [Copyable Frame],
        identity None, wire Moves, born Kept, last Unmap
    }
    /// Memory that can be mapped in an address space.
    4 Frame {
        tree Memory, rank 2, size PAGES, from [Ram Frame],
        rights [READ WRITE EXEC WRITE_ALONE], is [Copyable Frame Alone],
        identity None, wire Moves, born Zeroed, last Unmap
    }
    /// Page table of level 5 (x86-64 with LA57).
    5 Pml5 {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [READ WRITE], is [Copyable KernelObject], level 5,
        identity None, wire Pinned, born Table, last TearDown
    }
    /// Page table of level 4.
    6 Pml4 {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [READ WRITE], is [Copyable KernelObject], level 4,
        identity None, wire Pinned, born Table, last TearDown
    }
    /// Page table of level 3, or page directory pointer table: one entry covers 1 GiB.
    7 Pdpt {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [READ WRITE], is [Copyable KernelObject], level 3,
        identity None, wire Pinned, born Table, last TearDown
    }
    /// Page table of level 2, or page directory: one entry covers 2 MiB.
    8 Pd {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [READ WRITE], is [Copyable KernelObject], level 2,
        identity None, wire Pinned, born Table, last TearDown
    }
    /// Page table of level 1: one entry covers 4 KiB.
    9 Pt {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [READ WRITE WRITE_ALONE], is [Copyable KernelObject Alone], level 1,
        identity None, wire Pinned, born Table, last TearDown
    }
    /// Root of a CSpace: slots for L2CNodes, 64 in each page.
    10 L1CNode {
        tree Memory, rank 3, size PAGES, from [Ram],
        rights [], is [Copyable Container KernelObject],
        identity None, wire Pinned, born Zeroed, last EmptyCNode
    }
    /// 256 slots.
    11 L2CNode {
        tree Memory, rank 3, size ObjectSize::Fixed(crate::place::L2_BYTES), from [Ram],
        rights [WRITE WRITE_ALONE], is [Copyable Container KernelObject Alone],
        identity None, wire Pinned, born Zeroed, last EmptyCNode
    }
    /// What the kernel schedules.
    12 Dispatcher {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [], is [Copyable Container KernelObject],
        identity None, wire Pinned, born Dispatcher, last StopDispatcher
    }
    /// Where messages are sent and received. Minted copies carry a badge.
    13 Endpoint {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [SEND RECV], is [Copyable KernelObject],
        identity Badge, wire Pinned, born Zeroed, last Close
    }
    /// The record of entries in one table; deleting it removes them.
    30 Mapping {
        tree Memory, rank 5, size NOTHING, from [], rights [], is [],
        identity FirstEntry, wire Never, born Kept, last ClearEntries
    }
    /// A part of a Frame that was lent: bytes, not pages, and each act of lending for itself. The lender's
    /// capability has `REVOKE`, the borrower's has not.
    29 Loan {
        tree Memory, rank 4, size NOTHING, from [], rights [READ WRITE], is [Copyable],
        identity Serial, wire Never, born Kept, last Return
    }
    /// An interrupt line.
    16 Irq {
        tree Irq, rank 0, size NOTHING, from [Irq], rights [], is [Copyable],
        identity None, wire Moves, born Kept, last Unbind
    }
    /// A range of I/O ports.
    17 Io {
        tree Io, rank 0, size NOTHING, from [Io], rights [READ WRITE], is [Copyable],
        identity None, wire Moves, born Kept, last Forget
    }
    /// An unforgeable number; or, with more than one, the right to make fresh ones.
    18 Id {
        tree Id, rank 0, size NOTHING, from [], rights [], is [Copyable],
        identity None, wire Moves, born Kept, last Forget
    }
    /// The performance counters of this core.
    19 PerfMon {
        tree Singleton, rank 0, size NOTHING, from [], rights [READ WRITE], is [Copyable],
        identity None, wire Local, born Kept, last Forget
    }
    /// The first slot of a large retype that has not come to its end. It can be deleted, moved and
    /// identified, and holds the memory until the retype is repeated to its end.
    20 Blank {
        tree Memory, rank 3, size PAGES, from [], rights [], is [KernelObject],
        identity None, wire Local, born Kept, last Forget
    }
    /// The CPU driver of this core.
    21 Kernel {
        tree Singleton, rank 0, size NOTHING, from [], rights [], is [Copyable],
        identity None, wire Local, born Kept, last Forget
    }
    /// A pool of pages, of which objects are made that are subtrees of page tables (morsels). Its memory is its objects' and its
    /// own: nobody maps it.
    22 Pool {
        tree Memory, rank 2, size ObjectSize::Multiple(crate::place::POOL_BYTES), from [Ram],
        rights [READ WRITE], is [Copyable],
        identity None, wire Local, born Kept, last ClosePool
    }
    /// Pages of an object of a pool, which are mapped by one entry above their table.
    23 Morsel {
        tree Morsel, rank 3, size NOTHING, from [], rights [READ WRITE EXEC], is [Copyable],
        identity None, wire Unowned, born Kept, last UnmapMorsel
    }
    /// What a device can reach: the top table of a translation of its addresses, of which an entry covers 1 GiB and shows a
    /// Morsel of order 2.
    25 DeviceSpace {
        tree Memory, rank 3, size PAGE, from [Ram],
        rights [READ WRITE], is [Copyable KernelObject],
        identity None, wire Local, born Zeroed, last CloseDeviceSpace
    }
    /// Functions on the PCI bus, each a number: bus × 256 + device × 8 + function. There are some if the machine has an
    /// IOMMU that the kernel uses.
    26 PciFunction {
        tree Function, rank 0, size NOTHING, from [PciFunction], rights [READ WRITE], is [Copyable],
        identity None, wire Local, born Kept, last Forget
    }
    /// RAM that a pool has been given: pages of it are its objects', until it is taken back, free, or the pool goes.
    27 Chunk {
        tree Memory, rank 2, size NOTHING, from [], rights [], is [],
        identity None, wire Local, born Kept, last LeavePool
    }
    /// The record of an entry that shows a morsel.
    31 MorselMapping {
        tree Morsel, rank 5, size NOTHING, from [], rights [], is [],
        identity FirstEntry, wire Never, born Kept, last ClearEntries,
        seen as Mapping
    }
    /// The home of RAM, with which the memory server begins: it keeps no memory alive, and what is
    /// made of it of the same size descends from it. Shown as `Ram` with the attribute `HOME`.
    28 HomeRam {
        tree Memory, rank 0, size PAGES, from [], rights [], is [Copyable],
        identity None, wire Local, born Kept, last Forget,
        seen as Ram
    }
}

/// How many rows are what they seem to user mode.
const SEEN: usize = {
    let (mut seen, mut at) = (0, 0);
    while at < CapType::ROWS.len() {
        seen += CapType::ROWS[at].is_seen() as usize;
        at += 1;
    }
    seen
};

impl CapType {
    /// Every type that user mode sees, in the order of the table.
    pub const ALL: &'static [CapType] = &{
        let (mut types, mut seen, mut at) = ([CapType::Null; SEEN], 0, 0);
        while at < CapType::ROWS.len() {
            if CapType::ROWS[at].is_seen() {
                types[seen] = CapType::ROWS[at];
                seen += 1;
            }
            at += 1;
        }
        types
    };

    /// Returns `true` if user mode sees it as what it is.
    #[inline(always)]
    const fn is_seen(self) -> bool {
        self.seen() as u8 == self as u8
    }

    /// Returns `true` if objects of this type may be born with [`Rights::WRITE_ALONE`].
    pub const fn can_be_alone(self) -> bool {
        TypeSet::ALONE.has(self)
    }

    /// An object of this type with [`Rights::WRITE_ALONE`] instead of `WRITE`.
    pub const fn alone(self) -> ObjectKind {
        ObjectKind { ty: self, alone: true }
    }

    /// Returns `true` if there may be several capabilities to the same object, in several slots.
    pub const fn can_be_copied(self) -> bool {
        TypeSet::COPYABLE.has(self)
    }

    /// Returns `true` for objects with slots in them.
    pub const fn is_container(self) -> bool {
        TypeSet::CONTAINERS.has(self)
    }

    /// Returns `true` for Frames and DevFrames, of which pages are mapped.
    pub const fn is_frame(self) -> bool {
        TypeSet::FRAMES.has(self)
    }

    /// Returns `true` for kernel objects: memory that must never be mapped writable in user mode.
    pub const fn is_kernel_object(self) -> bool {
        TypeSet::KERNEL_OBJECTS.has(self)
    }

    /// Returns `true` if other cores can have copies: of the others each core has its own.
    pub const fn can_travel(self) -> bool {
        match self.wire() {
            Wire::Never | Wire::Local => false,
            Wire::Pinned | Wire::Moves | Wire::Unowned => true,
        }
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

/// What several columns say must agree.
const _: () = {
    let mut at = 0;
    while at < CapType::ROWS.len() {
        let ty = CapType::ROWS[at];
        assert!((ty as u8) < 32, "sets of types have 32 bits");
        assert!(!ty.is_container() || ty.is_kernel_object(), "slots are the kernel's");
        assert!(!ty.can_travel() || ty.can_be_copied(), "what goes to another core is a copy");
        let moves = matches!(ty.wire(), Wire::Moves);
        assert!(!moves || !ty.is_kernel_object(), "kernel objects are used where they are");
        let table = matches!(ty.finaliser(), Finaliser::TearDown);
        assert!(table == ty.table_level().is_some(), "tables, and they alone, are torn down");
        let emptied = matches!(ty.finaliser(), Finaliser::EmptyCNode | Finaliser::StopDispatcher);
        assert!(emptied == ty.is_container(), "containers, and they alone, are emptied");
        at += 1;
    }
};
