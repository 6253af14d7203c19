//! What the kernel sees of the pretended machine's memory: as in a kernel without a direct map of user memory, so that
//! the tests check what such a kernel must do. (All memory can be reached all the same, so that what is not shown and
//! used nevertheless is seen by the check of the invariants alone.)

use super::host::phys_to_virt;
use core::ops::Range;
use ephemeral::{Alone, Cache, Cores, Counters, Ephemeral as _, Guarded, Machine, State};
use paging::PAGE;
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Is memory of programs seen only while it is looked at?
pub const SPARSE: bool = true;

/// Windows, by what they show.
pub struct Windows([u64; SINGLES + RUNS * ephemeral::RUN]);

const SINGLES: usize = 8;
const RUNS: usize = 2;

type Cached = Cache<Windows, SINGLES, RUNS>;

/// How the kernel sees the memory of programs.
pub type Maps = Guarded<Alone<State<Cached>>, Cached>;

/// What a core keeps for it: nothing here.
pub struct CoreMaps;

/// Why a page is in the direct map.
#[derive(Clone, Copy, Default)]
struct Shown {
    object: bool,
    sharers: u32,
}

thread_local! {
    static MAPS: Cell<Option<&'static Maps>> = const { Cell::new(None) };
    static SHOWN: RefCell<BTreeMap<u64, Shown>> = const { RefCell::new(BTreeMap::new()) };
}

/// There is another memory on this thread, of which nothing is shown.
pub(super) fn begin() {
    SHOWN.take();
    let windows = Windows([0; SINGLES + RUNS * ephemeral::RUN]);
    let maps = Guarded::new(Alone::new(State::new(Cache::new(windows))));
    MAPS.set(Some(Box::leak(Box::new(maps))));
}

/// This thread's.
pub fn maps() -> &'static Maps {
    MAPS.get().expect("there is memory")
}

/// What it came to.
pub fn maps_counters() -> Counters {
    MAPS.get().map_or(Counters::default(), |maps| maps.counters())
}

fn change(base: u64, bytes: u64, change: impl Fn(&mut Shown)) {
    for pa in (base & !(PAGE - 1)..base + bytes).step_by(PAGE as usize) {
        SHOWN.with_borrow_mut(|all| {
            let mut shown = all.remove(&pa).unwrap_or_default();
            change(&mut shown);
            if shown.object || shown.sharers != 0 {
                all.insert(pa, shown);
            }
        });
    }
}

/// The `bytes` of memory at `base` are those of kernel objects from now on.
pub fn show(base: u64, bytes: u64) {
    change(base, bytes, |shown| shown.object = true);
}

/// They are not any more.
pub fn hide(base: u64, bytes: u64) {
    change(base, bytes, |shown| shown.object = false);
}

/// One more dispatcher shares the frame at `pa` with the kernel.
pub fn share(pa: u64) {
    change(pa, 1, |shown| shown.sharers += 1);
}

/// One less.
pub fn unshare(pa: u64) {
    change(pa, 1, |shown| shown.sharers -= 1);
}

/// How many do.
pub fn sharers(pa: u64) -> u32 {
    SHOWN.with_borrow(|all| all.get(&(pa & !(PAGE - 1))).map_or(0, |shown| shown.sharers))
}

/// So many cores will start, and read this: none here.
pub fn lend_at_start(_range: &Range<u64>, _cores: u32) {}

/// One of them has read it.
pub fn was_read(_range: &Range<u64>) {}

/// Core `_core` takes interrupts from now on.
pub fn join_maps(_core: usize) {}

/// Core `_core` forgets what others ask for: nobody does.
#[inline(always)]
pub fn answer_maps(_core: usize) {}

/// Is the page at `pa` that of objects?
pub fn is_shown(pa: u64) -> bool {
    SHOWN.with_borrow(|all| all.get(&(pa & !(PAGE - 1))).is_some_and(|shown| shown.object))
}

/// Has anything been hidden that other cores may have cached? They have no caches for that here.
pub fn take_hidden() -> bool {
    false
}

/// Has it, without that it counts as a call?
pub fn has_hidden() -> bool {
    false
}

/// From now on, of all memory only that in `kept` is shown, and what is shared.
pub fn seal(kept: &[Range<u64>]) {
    let is_kept = |pa| kept.iter().any(|range| range.contains(&pa));
    SHOWN.with_borrow_mut(|all| all.retain(|&pa, shown| shown.sharers != 0 || is_kept(pa)));
}

/// Calls `visit` with each page that is shown, whether it is that of objects, and how many dispatchers share it.
pub fn for_each_shown(mut visit: impl FnMut(u64, bool, u32)) {
    let all = SHOWN.with_borrow(BTreeMap::clone);
    all.into_iter().for_each(|(pa, shown)| visit(pa, shown.object, shown.sharers));
}

/// Do the windows show what they should?
pub fn is_sound() -> bool {
    maps().with(|windows| windows.check().is_ok())
}

impl Machine for Windows {
    type Page = u64;
    fn number(page: &u64) -> u64 {
        page / PAGE
    }
    fn address(&self, window: usize) -> usize {
        phys_to_virt(self.0[window]) as usize
    }
    fn point(&mut self, first: usize, pages: &[u64]) -> bool {
        self.0[first..first + pages.len()].copy_from_slice(pages);
        true
    }
    fn clear(&mut self, first: usize, count: usize) {
        self.0[first..first + count].fill(0);
    }
    fn invalidate_here(&mut self, _: usize, _: usize) {}
    fn invalidate_on(&mut self, _: Cores, _: usize, _: usize) {}
    fn here(&self) -> u32 {
        0
    }
    fn cores(&self) -> Cores {
        Cores::one(0)
    }
}
