//! G18 figure 3.6: GCBench, with a write barrier by protection faults and by dirty bits.

use crate::lab::{Lab, PLAY_VA};
use crate::region::{view, Region};
use crate::report::{ticks, Case};
use crate::self_paging::{invoking, run, Fault};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use libos::captypes::invocations::StatusBits;
use libos::status::TableView;
use libos::vspace::{R, RW};
use libos::{log, Cap, CapAddr, Status, PAGE};
use workloads::gc::{gc_bench, tree_objects, Barrier, Heap, Statistics, Wrong};

const FIGURE: &str = "G18-figure-3.6";
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
    for depth in DEPTHS {
        let protection = protection(lab, depth)?;
        lab.clean()?;
        let dirty_bits = dirty_bits(lab, depth)?;
        lab.clean()?;
        let none = none(lab, depth)?;
        lab.clean()?;
        // Both barriers see the same writes, so the collector does the same.
        if protection.statistics != dirty_bits.statistics {
            log!("papers: GCBench: the barriers differ at depth {depth}");
            return Err(Status::Invalid);
        }
        let case = |name| Case::new(FIGURE, name).at(depth.into(), "levels");
        case("protection").samples(&[protection.cost]);
        case("dirty_bits").samples(&[dirty_bits.cost]);
        case("no_barrier").samples(&[none.cost]);
        case("dirty_over_protection").ratio(dirty_bits.cost, protection.cost);
        let Statistics { minor, full, dirty_pages, freed, .. } = protection.statistics;
        case("minor").value(minor, "collections");
        case("full").value(full, "collections");
        case("dirty_pages").value(dirty_pages, "pages");
        case("freed").value(freed, "objects");
        case("heap_KiB").value(heap_bytes(depth) >> 10, "KiB");
    }
    Ok(())
}

/// How a run went.
#[derive(Clone, Copy)]
struct Run {
    cost: u64,
    statistics: Statistics,
}

/// Bytes of the heap: twice what lives at most.
fn heap_bytes(depth: u32) -> u64 {
    (2 * OBJECT * tree_objects(depth)).next_multiple_of(PAGE)
}

/// Runs it, enabled, in the second dispatcher.
fn bench<B: Barrier>(region: &Region, depth: u32, barrier: B) -> Result<Run, Wrong> {
    // SAFETY: the region is mapped writable; faults on it are repaired.
    let words: &mut [u64] = unsafe { view(region.va, region.bytes as usize / 8) };
    let mut heap = invoking(|| {
        // The allocator behind the collector's lists grows by invocations, which an enabled
        // program cannot make: let it grow now.
        drop(Vec::<u8>::with_capacity(LISTS));
        Heap::new(words, barrier)
    });
    let before = ticks();
    gc_bench(&mut heap, depth)?;
    Ok(Run { cost: ticks() - before, statistics: heap.statistics() })
}

/// Runs `body` in the second dispatcher.
fn run_bench<H: Fn(&mut Fault)>(
    lab: &mut Lab,
    handler: &H,
    body: impl Fn() -> Result<Run, Wrong>,
) -> Result<Run, Status> {
    let result = Cell::new(Err(Wrong::Exhausted));
    run(lab, handler, &mut || result.set(body()))?;
    result.get().map_err(|wrong| {
        log!("papers: GCBench: {wrong:?}");
        Status::Invalid
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

fn protection(lab: &mut Lab, depth: u32) -> Result<Run, Status> {
    let region = Region::make(lab, PLAY_VA, heap_bytes(depth), 1, RW)?;
    let dirty: Vec<_> = vec![Cell::new(false); (region.bytes / PAGE) as usize];
    let handler = |fault: &mut Fault| {
        let page = (fault.address - PLAY_VA) / PAGE;
        dirty[page as usize].set(true);
        region.protect_page(page as u32, RW).expect("a page of the heap can be unprotected");
    };
    run_bench(lab, &handler, || {
        bench(&region, depth, Protection { region: &region, dirty: &dirty })
    })
}

/// Pages that are written to are known from the page tables.
struct DirtyBits<'a> {
    tables: &'a [CapAddr],
}

impl DirtyBits<'_> {
    fn view(&self, table: usize) -> TableView<'_> {
        // SAFETY: `dirty_bits` has mapped the tables there, before this value was made.
        unsafe { TableView::at((VIEW_VA + table as u64 * PAGE) as *const _) }
    }
}

impl Barrier for DirtyBits<'_> {
    #[inline(always)]
    fn wrote(&mut self, _: usize) {}

    fn arm(&mut self, _: usize) {
        invoking(|| {
            for table in self.tables {
                table.clear_status(0, 512, StatusBits::DIRTY).expect("the heap's own table");
            }
        });
    }

    fn is_dirty(&self, page: usize) -> bool {
        self.view(page / 512).is_dirty(page as u32 % 512)
    }
}

fn dirty_bits(lab: &mut Lab, depth: u32) -> Result<Run, Status> {
    let region = Region::make(lab, PLAY_VA, heap_bytes(depth), 1, RW)?;
    let tables: Vec<_> = region.tables().collect();
    let views = lab.table(1, VIEW_VA)?;
    for (entry, &table) in tables.iter().enumerate() {
        views.map(entry as u32, 1, table, 0, R, lab.slots(1)?)?;
    }
    run_bench(lab, &unexpected, || bench(&region, depth, DirtyBits { tables: &tables }))
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

fn none(lab: &mut Lab, depth: u32) -> Result<Run, Status> {
    let region = Region::make(lab, PLAY_VA, heap_bytes(depth), 1, RW)?;
    run_bench(lab, &unexpected, || bench(&region, depth, Everything))
}

/// Handles faults where there are none.
fn unexpected(fault: &mut Fault) {
    panic!("a fault at {:#x}", fault.address)
}
