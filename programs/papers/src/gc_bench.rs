//! G18 figure 3.6: GCBench, with a write barrier by protection faults and by dirty bits.

use crate::lab::{Lab, PLAY_VA};
use crate::region::{view, Region};
use crate::report::{ticks, Case};
use crate::self_paging::{invoking, run, Fault};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use libos::captypes::invocations::StatusBits;
use libos::status::TableView;
use libos::vspace::{R, RW};
use libos::{log, Cap, CapAddr, Status};
use workloads::gc::{gc_bench, tree_objects, Barrier, Heap};

const FIGURE: &str = "G18-figure-3.6";
const PAGE: u64 = 4096;
/// Where the heap's page tables are mapped as pages.
const VIEW_VA: u64 = PLAY_VA + (64 << 30);
/// Depths of the largest trees, from C1 to C5.
const DEPTHS: [u32; 5] = [12, 13, 14, 15, 16];
/// Bytes for the collector's own lists.
const LISTS: usize = 8 << 20;
/// Bytes of an object.
const OBJECT: u64 = 32;

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    for (number, depth) in DEPTHS.into_iter().enumerate() {
        let name = format!("C{}", number + 1);
        protection(lab, &name, depth)?;
        lab.clean()?;
        dirty_bits(lab, &name, depth)?;
        lab.clean()?;
        none(lab, &name, depth)?;
        lab.clean()?;
    }
    Ok(())
}

/// Bytes of the heap: twice what lives at most.
fn heap_bytes(depth: u32) -> u64 {
    (2 * OBJECT * tree_objects(depth)).next_multiple_of(PAGE)
}

/// Runs it and reports. Enabled, in the second dispatcher.
fn bench<B: Barrier>(region: &Region, kind: &str, name: &str, depth: u32, barrier: B) -> bool {
    // SAFETY: the region is mapped writable; faults on it are repaired.
    let words: &mut [u64] = unsafe { view(region.va, region.bytes as usize / 8) };
    let mut heap = invoking(|| {
        // The allocator behind the collector's lists grows by invocations, which an enabled
        // program cannot make: let it grow now.
        drop(Vec::<u8>::with_capacity(LISTS));
        Heap::new(words, barrier)
    });
    let before = ticks();
    let result = gc_bench(&mut heap, depth);
    let cost = ticks() - before;
    invoking(|| {
        if let Err(wrong) = result {
            log!("papers: GCBench {name} with {kind}: {wrong:?}");
            return false;
        }
        let done = heap.statistics();
        let report = |what: &str, value, unit| {
            Case::new(FIGURE, &format!("{name}_{kind}{what}")).value(value, unit);
        };
        report("", cost, "instructions");
        report("_minor", done.minor, "collections");
        report("_full", done.full, "collections");
        report("_dirty", done.dirty_pages, "pages");
        report("_freed", done.freed, "objects");
        report("_heap", region.bytes >> 10, "KiB");
        true
    })
}

/// Pages that are written to are known by a fault each.
struct Protection<'a> {
    region: &'a Region,
    dirty: &'a [Cell<bool>],
}

impl Barrier for Protection<'_> {
    #[inline(always)]
    fn wrote(&mut self, _: usize) {}

    fn arm(&mut self, _: usize) {
        self.dirty.iter().for_each(|dirty| dirty.set(false));
        invoking(|| self.region.protect(R)).expect("the heap can be protected");
    }

    fn is_dirty(&self, page: usize) -> bool {
        self.dirty[page].get()
    }
}

fn protection(lab: &mut Lab, name: &str, depth: u32) -> Result<(), Status> {
    let region = Region::make(lab, PLAY_VA, heap_bytes(depth), 1, RW)?;
    let dirty: Vec<_> = vec![Cell::new(false); (region.bytes / PAGE) as usize];
    let failed = Cell::new(false);
    let handler = |fault: &mut Fault| {
        let page = (fault.address - PLAY_VA) / PAGE;
        dirty[page as usize].set(true);
        region.protect_page(page as u32, RW).expect("a page of the heap can be unprotected");
    };
    let mut body = || {
        let barrier = Protection { region: &region, dirty: &dirty };
        failed.set(!bench(&region, "protection", name, depth, barrier));
    };
    run(lab, &handler, &mut body)?;
    if failed.get() {
        Err(Status::Invalid)
    } else {
        Ok(())
    }
}

/// Pages that are written to are known from the page tables.
struct DirtyBits {
    tables: Vec<CapAddr>,
}

impl DirtyBits {
    fn view(&self, table: usize) -> TableView<'_> {
        // SAFETY: `dirty_bits` has mapped the tables there, before this value was made.
        unsafe { TableView::at((VIEW_VA + table as u64 * PAGE) as *const _) }
    }
}

impl Barrier for DirtyBits {
    #[inline(always)]
    fn wrote(&mut self, _: usize) {}

    fn arm(&mut self, _: usize) {
        invoking(|| {
            for table in &self.tables {
                table.clear_status(0, 512, StatusBits::DIRTY).expect("the heap's own table");
            }
        });
    }

    fn is_dirty(&self, page: usize) -> bool {
        self.view(page / 512).is_dirty(page as u32 % 512)
    }
}

fn dirty_bits(lab: &mut Lab, name: &str, depth: u32) -> Result<(), Status> {
    let region = Region::make(lab, PLAY_VA, heap_bytes(depth), 1, RW)?;
    let tables: Vec<_> = region.tables().collect();
    let views = lab.table(1, VIEW_VA)?;
    for (entry, &table) in tables.iter().enumerate() {
        views.map(entry as u32, 1, table, 0, R, lab.slots(1)?)?;
    }
    run_without_faults(lab, || {
        bench(&region, "dirty-bits", name, depth, DirtyBits { tables: tables.clone() })
    })
}

/// Every page counts as written: what the barrier saves.
struct Everything;

impl Barrier for Everything {
    #[inline(always)]
    fn wrote(&mut self, _: usize) {}
    fn arm(&mut self, _: usize) {}
    fn is_dirty(&self, _: usize) -> bool {
        true
    }
}

fn none(lab: &mut Lab, name: &str, depth: u32) -> Result<(), Status> {
    let region = Region::make(lab, PLAY_VA, heap_bytes(depth), 1, RW)?;
    run_without_faults(lab, || bench(&region, "no-barrier", name, depth, Everything))
}

/// Runs `work` in the second dispatcher, like the others; no fault is expected.
fn run_without_faults(lab: &mut Lab, work: impl Fn() -> bool) -> Result<(), Status> {
    let failed = Cell::new(false);
    let handler = |fault: &mut Fault| panic!("a fault at {:#x}", fault.address);
    run(lab, &handler, &mut || failed.set(!work()))?;
    if failed.get() {
        Err(Status::Invalid)
    } else {
        Ok(())
    }
}
