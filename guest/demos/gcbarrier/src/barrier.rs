//! Which pages of the heap were written to?
//!
//! The heap is one Frame, mapped through one page table, both made here by hand from capabilities:
//!
//! ```text
//!   Pd ──► Pt of the heap ──► Frame: 512 pages
//!   Pd ──► another Pt ──────► the Pt of the heap, as a read-only page
//! ```

use crate::heap::PAGES;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tessera::captypes::invocations::StatusBits;
use tessera::local::Local;
use tessera::status::TableView;
use tessera::upcall::{self, Fault};
use tessera::vspace::{AddressSpace, Supplies, R, RW};
use tessera::{abi, domain, Cap as _, CapAddr, CapType, Place, Status, PAGE};

/// Where the heap of the first collector is; each takes the next 2 MiB, and the page behind those
/// for its view of the table.
const HEAPS: u64 = 0x7100_0000_0000;
const STRIDE: u64 = 4 << 20;
const BYTES: u64 = PAGES as u64 * PAGE;

/// A write barrier by pages.
pub trait Barrier: Sized {
    /// With a new heap of [`PAGES`] pages.
    fn new() -> Result<Self, Status>;
    /// Where that is.
    fn heap(&self) -> *mut u8;
    /// Pages that were written to since the last call.
    fn dirty_pages(&mut self) -> Vec<usize>;
    /// Faults so far.
    fn faults(&self) -> u64 {
        0
    }
    /// Invocations so far.
    fn system_calls(&self) -> u64;
}

/// The heap's memory.
struct Memory {
    va: u64,
    /// The page table, and the Mapping of the frame in it.
    table: Place,
    mapping: CapAddr,
}

/// Tables and slots come from the domain.
struct FromDomain;

impl Supplies for FromDomain {
    fn table(&mut self, ty: CapType) -> Result<Place, Status> {
        domain::with(|domain| domain.make(ty, PAGE)).map(Place::own)
    }
    fn slot(&mut self) -> Result<Place, Status> {
        domain::with(|domain| domain.slot()).map(Place::own)
    }
}

impl Memory {
    fn new() -> Result<Memory, Status> {
        static HEAPS_MADE: AtomicU64 = AtomicU64::new(0);
        let va = HEAPS + HEAPS_MADE.fetch_add(1, Relaxed) * STRIDE;
        let frame = domain::with(|domain| domain.make(CapType::Frame, BYTES))?;
        let mapping = domain::with(|domain| domain.slot())?;
        let table = last_level_table(va)?;
        table.map(0, PAGES as u32, frame, 0, RW, mapping)?;
        Ok(Memory { va, table, mapping })
    }
}

/// The tables of these addresses, which nothing else in the program uses.
static SPACE: Local<AddressSpace> = Local::new(AddressSpace::new(Place::own(abi::slots::VSPACE)));

/// The last-level table that maps `va`, made if need be.
fn last_level_table(va: u64) -> Result<Place, Status> {
    let table = SPACE.try_with(|space| space.table(1, va, &mut FromDomain));
    table.unwrap_or(Err(Status::WrongState))
}

/// The processor notes which pages are written to, in their page-table entries.
pub struct DirtyBits {
    memory: Memory,
    view: TableView<'static>,
    calls: u64,
}

impl Barrier for DirtyBits {
    fn new() -> Result<Self, Status> {
        let memory = Memory::new()?;
        let view_va = memory.va + BYTES;
        let other = last_level_table(view_va)?;
        // The table is an object of the kernel: it can be mapped, but not writable.
        other.map(0, 1, memory.table, 0, R, FromDomain.slot()?)?;
        // SAFETY: mapped just now, for good.
        let view = unsafe { TableView::at(view_va as *const _) };
        Ok(DirtyBits { memory, view, calls: 0 })
    }
    fn heap(&self) -> *mut u8 {
        self.memory.va as *mut u8
    }
    fn dirty_pages(&mut self) -> Vec<usize> {
        // 512 loads, no system call.
        let dirty: Vec<usize> = self.view.dirty().map(|page| page as usize).collect();
        let cleared = self.memory.table.clear_status(0, PAGES as u32, StatusBits::DIRTY);
        cleared.expect("the table is there");
        self.calls += 1;
        dirty
    }
    fn system_calls(&self) -> u64 {
        self.calls
    }
}

/// Pages are read-only until the first write, which faults.
pub struct Protection {
    calls: u64,
}

/// What the fault handler, a plain function, knows.
struct Watched {
    va: AtomicU64,
    mapping: Cell<CapAddr>,
    written: [AtomicBool; PAGES],
    faults: AtomicU64,
}

// SAFETY: the cell is written before the handler is installed, and read from then on.
unsafe impl Sync for Watched {}

static WATCHED: Watched = Watched {
    va: AtomicU64::new(0),
    mapping: Cell::new(CapAddr::NULL),
    written: [const { AtomicBool::new(false) }; PAGES],
    faults: AtomicU64::new(0),
};

/// The program has written to a read-only page: it is noted, and made writable.
fn on_fault(fault: &Fault) -> bool {
    let page = fault.address.wrapping_sub(WATCHED.va.load(Relaxed)) / PAGE;
    if !fault.is_write() || page >= PAGES as u64 {
        return false;
    }
    WATCHED.written[page as usize].store(true, Relaxed);
    WATCHED.faults.fetch_add(1, Relaxed);
    WATCHED.mapping.get().protect(page as u32, 1, RW).is_ok()
}

impl Barrier for Protection {
    fn new() -> Result<Self, Status> {
        let memory = Memory::new()?;
        WATCHED.va.store(memory.va, Relaxed);
        WATCHED.mapping.set(memory.mapping);
        upcall::set_fault_handler(on_fault);
        Ok(Protection { calls: 0 })
    }
    fn heap(&self) -> *mut u8 {
        WATCHED.va.load(Relaxed) as *mut u8
    }
    fn dirty_pages(&mut self) -> Vec<usize> {
        let dirty = (0..PAGES).filter(|&page| WATCHED.written[page].swap(false, Relaxed)).collect();
        WATCHED.mapping.get().protect(0, PAGES as u32, R).expect("the mapping is there");
        self.calls += 1;
        dirty
    }
    fn faults(&self) -> u64 {
        WATCHED.faults.load(Relaxed)
    }
    fn system_calls(&self) -> u64 {
        self.calls + self.faults()
    }
}

/// Nobody notices anything.
pub struct NoBarrier(Memory);

impl Barrier for NoBarrier {
    fn new() -> Result<Self, Status> {
        Memory::new().map(NoBarrier)
    }
    fn heap(&self) -> *mut u8 {
        self.0.va as *mut u8
    }
    fn dirty_pages(&mut self) -> Vec<usize> {
        Vec::new()
    }
    fn system_calls(&self) -> u64 {
        0
    }
}
