//! The domain of a Linux process: where its capabilities are, and how one is built.
//!
//! `unixd` builds the first process so, and the library in each process builds its children.
//!
//! ```text
//! root index   L2CNode
//! 0            abi::slots, then what `own` names: pieces of private memory, tables
//! 1            last-level tables for a large heap; slot + 128: their Mappings
//! 2, 3         further pieces of private memory; slot + 128: their Mappings
//! 4 … 16       roots of further CSpaces, when node 0 is full
//! 17 … 31      dispatchers, frames and stacks of threads
//! 32, 33       windows on files
//! 34 …         chunks of the amap, Mappings of the program's last-level tables, and what of tables
//!              and of Frames of mapped files does not fit into node 0
//! ```
//!
//! The root has 64 slots at first, and 256 once a process has CNodes for more than those.
//!
//! The library's private memory (data with the stack in it, heap) consists of *pieces*, Frames that
//! lie one behind the other in the address space.
//!
//! Steps of a builder, each a function here:
//!
//! 1. [`make_spaces`]: CSpace, page tables of the library's part, dispatcher.
//! 2. Give capabilities: `FRAME`, `MEMD`, `UNIXD`, `SESSION`, `LIBUNIX_ELF` into their slots.
//! 3. Make the first piece, [`Image::first_pages`], at `own::PIECES`, and fill it.
//! 4. [`map_library`] and [`map_piece`]: everything of the library's part.
//! 5. Write [`first_frame`]'s registers to the kernel frame, [`configure`].
//! 6. Give root and dispatcher to `unixd`, which starts it.
#![no_std]

pub mod fresh;
pub mod owner;

use abi::dispatcher::{Regs, USER_CS, USER_SS};
use abi::layout::*;
use abi::slots;
use captypes::invocations::MapFlags;
use captypes::place::{L2_BYTES, SLOT_BYTES};
use captypes::{op, CapAddr, CapType, Place, Status};
use core::sync::atomic::{AtomicU8, Ordering};
use libos::ram::Ram;
use libos::{invoke, Cap};

/// Slots of the L2CNode at root index 0 that the library uses.
pub mod own {
    use captypes::CapAddr;
    /// RAM from which the process makes its objects.
    pub const ARENA: CapAddr = CapAddr(16);
    /// Received or passing capabilities; four slots.
    pub const SCRATCH: CapAddr = CapAddr(17);
    /// Mapping of the kernel's frame.
    pub const FRAME_MAPPING: CapAddr = CapAddr(21);
    /// Mapping of the session frame.
    pub const SESSION_MAPPING: CapAddr = CapAddr(22);
    /// Mapping of the library's text.
    pub const TEXT_MAPPING: CapAddr = CapAddr(23);
    /// Mapping of its read-only data.
    pub const RODATA_MAPPING: CapAddr = CapAddr(24);
    /// The third-level table of the library's part.
    pub const PDPT: CapAddr = CapAddr(25);
    /// Its second-level table.
    pub const PD: CapAddr = CapAddr(26);
    /// Its first last-level table.
    pub const PT: CapAddr = CapAddr(27);
    /// The Mappings of these three.
    pub const TABLE_MAPPINGS: CapAddr = CapAddr(28);
    /// A page of zeroes, for holes in files.
    pub const ZERO_PAGE: CapAddr = CapAddr(31);
    /// Dispatcher of a child being made.
    pub const CHILD_DISPATCHER: CapAddr = CapAddr(32);
    /// Its root CNode, in the slot behind, as `unixd` expects them.
    pub const CHILD_ROOT: CapAddr = CapAddr(33);
    /// A larger root, until it has taken the place of the own one.
    pub const NEW_ROOT: CapAddr = CapAddr(36);
    /// RAM from which the library's own memory is made.
    pub const HEAP_RAM: CapAddr = CapAddr(37);
    /// Mapping of the page at `LIBRARY_PEEK`.
    pub const PEEK_MAPPING: CapAddr = CapAddr(38);
    /// Endpoint and session frame of the parent while the process acts as its child; two slots.
    pub const PARENT: CapAddr = CapAddr(39);
    /// The root page table, of level 5, where paging has five levels; else empty. The table in
    /// `VSPACE` is its first.
    pub const ROOT_TABLE: CapAddr = CapAddr(46);
    /// The Mapping of that.
    pub const ROOT_TABLE_MAPPING: CapAddr = CapAddr(47);
    /// The first Frames of mapped files; children get copies. To `PIECES`.
    pub const EXTENTS: CapAddr = CapAddr(48);
    /// Pieces of private memory.
    pub const PIECES: CapAddr = CapAddr(64);
    /// Their Mappings.
    pub const PIECE_MAPPINGS: CapAddr = CapAddr(80);
    /// The first tables for program memory.
    pub const TABLES: CapAddr = CapAddr(96);
    /// Their Mappings.
    pub const TABLES_MAPPINGS: CapAddr = CapAddr(144);
    /// Roots of further CSpaces, when the process's own has no room; to the end of the CNode.
    pub const EXTENSIONS: CapAddr = CapAddr(192);
}

/// Frames of mapped files in the CNode at root index 0.
pub const NEAR_EXTENTS: u32 = 16;
/// Pieces of private memory whose slots are in the CNode at root index 0.
pub const NEAR_PIECES: u32 = 16;
/// Most tables in the CNode at root index 0.
pub const NEAR_TABLES: u32 = 48;
/// Most extensions whose roots are in the CNode at root index 0.
pub const NEAR_EXTENSIONS: u32 = 64;
/// Root index of tables for a large heap.
pub const LIBRARY_TABLES_L1: u32 = 1;
/// First root index of further pieces of private memory.
pub const PIECES_L1: u32 = 2;
/// First root index of the roots of further extensions.
pub const EXTENSIONS_L1: u32 = 4;
/// First root index behind those.
pub const EXTENSIONS_END_L1: u32 = 17;
/// First root index of what threads are made of.
pub const THREADS_L1: u32 = EXTENSIONS_END_L1;
/// Most groups of threads, each with a root index.
pub const THREAD_GROUPS: u32 = WINDOWS_L1 - THREADS_L1;
/// First root index of windows on files.
pub const WINDOWS_L1: u32 = 32;
/// Root index of rings that are lent to it.
pub const RINGS_L1: u32 = 33;
/// First root index of CNodes that a process makes as it needs them.
pub const NODES_L1: u32 = 34;
/// Root indexes of a process that has grown.
pub const ROOT_SLOTS: u32 = 256;
/// Bytes of its root CNode.
pub const ROOT_BYTES: u64 = ROOT_SLOTS as u64 * SLOT_BYTES;
/// Root indexes of a small one: what fits into a page.
pub const FIRST_ROOT_SLOTS: u32 = (PAGE / SLOT_BYTES) as u32;
/// In a node that holds things and their Mappings: from here on Mappings.
pub const MAPPINGS: u32 = 128;

/// Most pieces of private memory.
pub const PIECES: u32 = NEAR_PIECES + (EXTENSIONS_L1 - PIECES_L1) * MAPPINGS;

/// The slot of a piece of private memory.
pub const fn piece_slot(index: u32) -> CapAddr {
    match index.checked_sub(NEAR_PIECES) {
        None => own::PIECES.plus(index),
        Some(far) => CapAddr::new(PIECES_L1 + far / MAPPINGS, far % MAPPINGS),
    }
}

/// The slot of its Mapping.
pub const fn piece_mapping(index: u32) -> CapAddr {
    match index < NEAR_PIECES {
        true => own::PIECE_MAPPINGS.plus(index),
        false => piece_slot(index).plus(MAPPINGS),
    }
}

/// The root index of the CNode that has to be made for a piece, if it is the first there.
pub const fn piece_node(index: u32) -> Option<u32> {
    match index.checked_sub(NEAR_PIECES) {
        Some(far) if far % MAPPINGS == 0 => Some(PIECES_L1 + far / MAPPINGS),
        _ => None,
    }
}

/// Pages of heap in the first piece.
pub const HEAP_PAGES: u32 = 3;

/// The library's image, as page numbers from `LIBRARY_IMAGE`; also pages of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image {
    /// First page of the text.
    pub text: u32,
    /// First page of read-only data, behind the text.
    pub rodata: u32,
    /// First page of the stack and the data, behind that.
    pub data: u32,
    /// First page behind the data.
    pub end: u32,
}

impl Image {
    /// Pages of the first piece: stack, data, and the start of the heap.
    pub const fn first_pages(&self) -> u32 {
        self.end - self.data + HEAP_PAGES
    }
    /// Where private memory starts.
    pub const fn private_start(&self) -> u64 {
        LIBRARY_IMAGE + self.data as u64 * PAGE
    }
    /// Where the heap starts.
    pub const fn heap_start(&self) -> u64 {
        LIBRARY_IMAGE + self.end as u64 * PAGE
    }
}

/// A slot of the CSpace at `root`; null is the own one.
pub const fn at(root: CapAddr, slot: CapAddr) -> Place {
    Place::within(root, slot)
}

/// Makes CSpace, dispatcher and the library's page tables of a new domain: `root`
/// and `dispatcher` are empty slots of the caller. The root has `root_slots` slots.
pub fn make_spaces(
    ram: &mut impl Ram,
    root: CapAddr,
    root_slots: u32,
    dispatcher: CapAddr,
) -> Result<(), Status> {
    ram.make(CapType::L1CNode, u64::from(root_slots) * SLOT_BYTES, 1, root.into())?;
    ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(root, 0))?;
    ram.make(CapType::Dispatcher, PAGE, 1, dispatcher.into())?;
    ram.make(CapType::Pml4, PAGE, 1, at(root, slots::VSPACE))?;
    if has_five_levels() {
        let (top, mapping) = (at(root, own::ROOT_TABLE), at(root, own::ROOT_TABLE_MAPPING));
        ram.make(CapType::Pml5, PAGE, 1, top)?;
        top.map(0, 1, at(root, slots::VSPACE), 0, RWX, mapping)?;
    }
    ram.make(CapType::Pdpt, PAGE, 1, at(root, own::PDPT))?;
    ram.make(CapType::Pd, PAGE, 1, at(root, own::PD))?;
    ram.make(CapType::Pt, PAGE, 1, at(root, own::PT))?;
    let tables = [slots::VSPACE, own::PDPT, own::PD, own::PT];
    let entries = [39, 30, 21].map(|shift| (LIBRARY_START >> shift) as u32 & 511);
    for (n, entry) in entries.into_iter().enumerate() {
        let mapping = at(root, own::TABLE_MAPPINGS.plus(n as u32));
        at(root, tables[n]).map(entry, 1, at(root, tables[n + 1]), 0, RWX, mapping)?;
    }
    Ok(())
}

/// Does paging have five levels? Then whoever calls this has a root table of level 5: the server as
/// a native domain, a process as one that was made here.
fn has_five_levels() -> bool {
    static LEVELS: AtomicU8 = AtomicU8::new(0);
    if LEVELS.load(Ordering::Relaxed) == 0 {
        let is_top = |slot: CapAddr| slot.identify().is_ok_and(|what| what.ty == CapType::Pml5);
        let five = is_top(slots::ROOT_TABLE) || is_top(own::ROOT_TABLE);
        LEVELS.store(if five { 5 } else { 4 }, Ordering::Relaxed);
    }
    LEVELS.load(Ordering::Relaxed) == 5
}

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const RX: MapFlags = MapFlags::READ.or(MapFlags::EXEC);
/// Rights of tables: the choice is left to the entries below.
pub const RWX: MapFlags = RW.or(MapFlags::EXEC);

/// Maps text, read-only data and the two frames. Their capabilities are in their slots already.
pub fn map_library(root: CapAddr, image: &Image) -> Result<(), Status> {
    let table = at(root, own::PT);
    let elf = at(root, slots::LIBUNIX_ELF);
    for (first, end, flags, mapping) in [
        (image.text, image.rodata, RX, own::TEXT_MAPPING),
        (image.rodata, image.data, MapFlags::READ, own::RODATA_MAPPING),
    ] {
        if first < end {
            let (va, offset) = (LIBRARY_IMAGE + first as u64 * PAGE, first as u64 * PAGE);
            table.map(entry_of(va), end - first, elf, offset, flags, at(root, mapping))?;
        }
    }
    let frame = (slots::FRAME, DISPATCHER_FRAME, 1, own::FRAME_MAPPING);
    let session = (slots::SESSION, SESSION_FRAME, SESSION_PAGES, own::SESSION_MAPPING);
    for (slot, va, count, mapping) in [frame, session] {
        table.map(entry_of(va), count, at(root, slot), 0, RW, at(root, mapping))?;
    }
    Ok(())
}

/// Pages of the session frame.
pub const SESSION_PAGES: u32 = 4;

/// Maps piece `index`, of `pages` pages, at `va`, all in the 2 MiB of `table`.
pub fn map_piece(
    root: CapAddr,
    table: CapAddr,
    index: u32,
    va: u64,
    pages: u32,
) -> Result<(), Status> {
    let frame = at(root, piece_slot(index));
    let mapping = at(root, piece_mapping(index));
    at(root, table).map(entry_of(va), pages, frame, 0, RW, mapping)
}

/// The entry of its last-level table that maps `va`.
pub const fn entry_of(va: u64) -> u32 {
    (va / PAGE % 512) as u32
}

/// Registers with which the library of a new domain starts at `entry`.
pub const fn first_frame(entry: u64) -> Regs {
    Regs {
        rax: 0,
        rbx: 0,
        rcx: 0,
        rdx: 0,
        rsi: 0,
        rdi: DISPATCHER_FRAME,
        rbp: 0,
        r8: 0,
        r9: 0,
        r10: 0,
        r11: 0,
        r12: 0,
        r13: 0,
        r14: 0,
        r15: 0,
        rip: entry,
        cs: USER_CS,
        rflags: 0x202,
        // The library's entry points set it.
        rsp: 0,
        ss: USER_SS,
    }
}

/// Gives the dispatcher its address space and its frame. `options` are those of `Configure`. Its CSpace
/// it gets from `unixd`, and so do the slots `ROOT` and `DISPATCHER` what belongs there.
pub fn configure(root: CapAddr, dispatcher: CapAddr, options: u32) -> Result<(), Status> {
    let configuration = op::Configure {
        cspace: Place::NULL,
        vspace: at(root, if has_five_levels() { own::ROOT_TABLE } else { slots::VSPACE }),
        frame: at(root, slots::FRAME),
        frame_va: DISPATCHER_FRAME,
        fault_ep: Place::NULL,
        options,
    };
    invoke(dispatcher, configuration)
}
