//! The domain of a Linux process: where its capabilities are, and how one is built.
//!
//! `unixd` builds the first process so, and the library in each process builds its children.
//!
//! ```text
//! root index   L2CNode
//! 0            abi::slots, and from slot 16 on what `own` names
//! 1            private pages of the library 0..128: Frames; slot + 128: their Mappings
//! 2            last-level tables for a large heap; slot + 128: their Mappings
//! 3 … 16       private pages 128 and on, as in 1
//! 17 … 31      tables for program memory; slot + 128: their Mappings
//! 32, 33       windows on files
//! 34 … 63      Frames of mapped files
//! 64 …         chunks of the amap, and Mappings of the program's last-level tables
//! ```
//!
//! Steps of a builder, each a function here:
//!
//! 1. [`make_spaces`]: CSpace, page tables of the library's part, dispatcher.
//! 2. Give capabilities: `FRAME`, `MEMD`, `UNIXD`, `SESSION`, `LIBUNIX_ELF` into their slots.
//! 3. Make the Frames of the private pages in [`page_slot`]s and fill them.
//! 4. [`map_library`]: everything of the library's part.
//! 5. Write [`first_frame`]'s registers to the kernel frame, `Configure`, `Start`.
#![no_std]

use abi::dispatcher::{Regs, USER_CS, USER_SS};
use abi::layout::*;
use abi::slots;
use captypes::invocations::MapFlags;
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Place, Status};
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
    /// What `unixd` answers to `Fork`: the child's endpoint and session frame.
    pub const CHILD_GIFTS: CapAddr = CapAddr(34);
    /// RAM from which the library's own memory is made.
    pub const HEAP_RAM: CapAddr = CapAddr(37);
    /// Roots of further CSpaces, when the process's own has no room; to the end of the CNode.
    pub const EXTENSIONS: CapAddr = CapAddr(128);
}

/// Root index of tables for a large heap.
pub const LIBRARY_TABLES_L1: u32 = 2;
/// First root index of tables for program memory.
pub const TABLES_L1: u32 = 17;
/// First root index of windows on files.
pub const WINDOWS_L1: u32 = 32;
/// First root index of Frames of mapped files.
pub const EXTENTS_L1: u32 = 34;
/// First root index of chunks and Mapping nodes.
pub const NODES_L1: u32 = 64;
/// Root indexes of a process.
pub const ROOT_SLOTS: u32 = 256;
/// Bytes of its root CNode.
pub const ROOT_BYTES: u64 = ROOT_SLOTS as u64 * 64;
/// In a node that holds things and their Mappings: from here on Mappings.
pub const MAPPINGS: u32 = 128;

/// Pages of the library's stack.
pub const STACK_PAGES: u32 = 8;
/// Most private pages: root indexes 1 and 3 to 16.
pub const MAX_PRIVATE: u32 = 15 * 128;

/// The library's image, as page numbers from `LIBRARY_IMAGE`; also pages of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image {
    /// First page of the text.
    pub text: u32,
    /// First page of read-only data, behind the text.
    pub rodata: u32,
    /// First page of data, behind that.
    pub data: u32,
    /// First page behind the data.
    pub end: u32,
}

impl Image {
    /// Private pages without heap: data and stack.
    pub const fn private_pages(&self) -> u32 {
        self.end - self.data + STACK_PAGES
    }
    /// Address of private page `index`.
    pub const fn private_va(&self, index: u32) -> u64 {
        let data = self.end - self.data;
        if index < data {
            LIBRARY_IMAGE + (self.data + index) as u64 * PAGE
        } else if index < data + STACK_PAGES {
            LIBRARY_STACK_TOP - (STACK_PAGES - (index - data)) as u64 * PAGE
        } else {
            LIBRARY_HEAP + (index - data - STACK_PAGES) as u64 * PAGE
        }
    }
}

/// Slot of the Frame of private page `index`.
pub const fn page_slot(index: u32) -> CapAddr {
    let l1 = if index < MAPPINGS { 1 } else { 2 + index / MAPPINGS };
    CapAddr::new(l1, index % MAPPINGS)
}

/// A slot of the CSpace at `root`; null is the own one.
pub const fn at(root: CapAddr, slot: CapAddr) -> Place {
    Place::within(root, slot)
}

/// Makes CSpace, dispatcher and the library's page tables of a new domain: `root`
/// and `dispatcher` are empty slots of the caller.
pub fn make_spaces(
    ram: &mut impl Ram,
    root: CapAddr,
    dispatcher: CapAddr,
) -> Result<(), Status> {
    ram.make(CapType::L1CNode, ROOT_BYTES, 1, root.into())?;
    ram.make(CapType::L2CNode, L2_BYTES, 2, Place::l1(root, 0))?;
    ram.make(CapType::Dispatcher, PAGE, 1, dispatcher.into())?;
    root.copy_to(at(root, slots::ROOT))?;
    dispatcher.copy_to(at(root, slots::DISPATCHER))?;
    ram.make(CapType::Pml4, PAGE, 1, at(root, slots::VSPACE))?;
    ram.make(CapType::Pdpt, PAGE, 1, at(root, own::PDPT))?;
    ram.make(CapType::Pd, PAGE, 1, at(root, own::PD))?;
    ram.make(CapType::Pt, PAGE, 1, at(root, own::PT))?;
    let tables = [slots::VSPACE, own::PDPT, own::PD, own::PT];
    let entries = [(LIBRARY_START >> 39) as u32, 0, 0];
    for (n, entry) in entries.into_iter().enumerate() {
        let mapping = at(root, own::TABLE_MAPPINGS.plus(n as u32));
        at(root, tables[n]).map(entry, 1, at(root, tables[n + 1]), 0, RWX, mapping)?;
    }
    Ok(())
}

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const RX: MapFlags = MapFlags::READ.or(MapFlags::EXEC);
/// Rights of tables: the choice is left to the entries below.
pub const RWX: MapFlags = RW.or(MapFlags::EXEC);

/// Maps text, read-only data, the two frames and private pages `0..pages`, as far as they lie in
/// the library's first 2 MiB. Their capabilities are in their slots already.
pub fn map_library(root: CapAddr, image: &Image, pages: u32) -> Result<(), Status> {
    let table = at(root, own::PT);
    let elf = at(root, slots::LIBUNIX_ELF);
    for (first, end, flags, mapping) in [
        (image.text, image.rodata, RX, own::TEXT_MAPPING),
        (image.rodata, image.data, MapFlags::READ, own::RODATA_MAPPING),
    ] {
        if first < end {
            let offset = first as u64 * PAGE;
            table.map(first, end - first, elf, offset, flags, at(root, mapping))?;
        }
    }
    let frame = (slots::FRAME, DISPATCHER_FRAME, 1, own::FRAME_MAPPING);
    let session = (slots::SESSION, SESSION_FRAME, SESSION_PAGES, own::SESSION_MAPPING);
    for (slot, va, count, mapping) in [frame, session] {
        table.map(entry_of(va), count, at(root, slot), 0, RW, at(root, mapping))?;
    }
    map_private(root, table, image, 0, pages.min(first_table_pages(image)))
}

/// Pages of the session frame.
pub const SESSION_PAGES: u32 = 8;

/// How many private pages lie in the library's first 2 MiB.
pub const fn first_table_pages(image: &Image) -> u32 {
    image.private_pages() + ((LIBRARY_IMAGE + (2 << 20) - LIBRARY_HEAP) / PAGE) as u32
}

/// Maps private pages `first..end`, all in the 2 MiB of `table`.
pub fn map_private(
    root: CapAddr,
    table: Place,
    image: &Image,
    first: u32,
    end: u32,
) -> Result<(), Status> {
    let mut index = first;
    while index < end {
        // Up to where the address or the node jumps.
        let va = image.private_va(index);
        let mut count = 1;
        while index + count < end
            && (index + count) % MAPPINGS != 0
            && image.private_va(index + count) == va + count as u64 * PAGE
        {
            count += 1;
        }
        let slot = page_slot(index);
        let mapping = at(root, slot.plus(MAPPINGS));
        let mapped = table.map_many(entry_of(va), count, at(root, slot), RW, mapping)?;
        if mapped != count {
            return Err(Status::Occupied);
        }
        index += count;
    }
    Ok(())
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
        // As if it had been called.
        rsp: LIBRARY_STACK_TOP - 8,
        ss: USER_SS,
    }
}

/// Gives the dispatcher its spaces. `options` are those of `Configure`.
pub fn configure(root: CapAddr, dispatcher: CapAddr, options: u32) -> Result<(), Status> {
    let configuration = op::Configure {
        cspace: root.into(),
        vspace: at(root, slots::VSPACE),
        frame: at(root, slots::FRAME),
        frame_va: DISPATCHER_FRAME,
        fault_ep: Place::NULL,
        options,
    };
    invoke(dispatcher, configuration)
}
