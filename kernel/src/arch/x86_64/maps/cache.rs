//! Windows through which a core sees memory of programs: a mapping cache of its own, at addresses of its own. No
//! other core uses them, so all mappings are private, and what is forgotten is forgotten here. (In the kernel that
//! mapping caches are compared with nothing is kept, and all forget.)

use super::super::flush_page;
use super::super::memory::{phys_to_virt, window_table, BootPages, WINDOWS};
use super::others;
use crate::arch::context::CORE_MAPS;
use core::arch::asm;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(tessera_map_uncached))]
use ephemeral::Cache as Kind;
#[cfg(tessera_map_uncached)]
use ephemeral::Uncached as Kind;
use ephemeral::{Alone, Cores, Guarded, Machine, State};
use paging::{Entry, Flags, Level, VirtAddr, ENTRIES, PAGE};

/// Windows for single pages. The kernel looks at three at once at most; the others remember.
/// As many as show the buffers of both ends of a pipe and what is looked at between.
const SINGLES: usize = 256;
/// For runs.
const RUNS: usize = 2;

/// What a window's entry is, but for the page. Not accessed: that is how its use is seen.
const FLAGS: Flags = Flags::PRESENT
    .with(Flags::WRITE)
    .with(Flags::DIRTY)
    .with(Flags::NO_EXECUTE)
    .with(Flags::GLOBAL);

/// The windows of a core.
pub struct Mmu {
    entries: &'static [AtomicU64; ENTRIES],
    start: u64,
    core: usize,
}

type Windows = Kind<Mmu, SINGLES, RUNS>;

/// How this kernel sees the memory of programs.
pub type Maps = Guarded<Alone<State<Windows>>, Windows>;

/// What a core keeps for it.
pub struct CoreMaps {
    maps: Maps,
    /// See [`take_hidden`](super::take_hidden).
    hidden: Cell<bool>,
}

/// What core `id` needs for it.
pub fn make(id: u32, pages: &mut BootPages) -> &'static CoreMaps {
    let start = WINDOWS + u64::from(id) * Level::Pd.entry_span();
    let table = phys_to_virt(window_table(start, pages)).cast();
    // SAFETY: a page table that was made for this, and stays; zeros are empty entries.
    let mmu = Mmu { entries: unsafe { &*table }, start, core: id as usize };
    let maps = Guarded::new(Alone::new(State::new(Kind::new(mmu))));
    pages.keep(CoreMaps { maps, hidden: Cell::new(false) })
}

/// This core's, which it finds through GS.
#[inline(always)]
fn core_maps() -> &'static CoreMaps {
    let maps: *const CoreMaps;
    // SAFETY: `smp::use_core` has set GS to the core's head, whose word at this place holds what `make` returned:
    // for ever, and used by nobody else.
    unsafe {
        asm!("mov {}, gs:[{MAPS}]", out(reg) maps, MAPS = const CORE_MAPS,
             options(pure, readonly, nostack, preserves_flags));
        &*maps
    }
}

/// This core's.
#[inline]
pub fn maps() -> &'static Maps {
    &core_maps().maps
}

/// This core's note.
#[inline]
pub(super) fn hidden() -> &'static Cell<bool> {
    &core_maps().hidden
}

/// Do the windows show what they should?
pub fn is_sound() -> bool {
    maps().with(|windows| {
        let mut shown = [0; Windows::WINDOWS];
        windows.for_each(|window, page, _| {
            if let Some(place) = shown.get_mut(window) {
                *place = page;
            }
        });
        let entries = windows.machine().entries.iter().zip(0..);
        let all_known = entries.map(|(entry, n)| (entry.load(Ordering::Relaxed), n)).all(
            |(entry, n): (u64, usize)| {
                let known = shown.get(n).copied().unwrap_or(0);
                entry == 0 || Entry::from_bits(entry).address() == known
            },
        );
        windows.check().is_ok() && all_known
    })
}

impl Mmu {
    fn at(&self, window: usize) -> VirtAddr {
        VirtAddr(self.start + window as u64 * PAGE)
    }
}

impl Machine for Mmu {
    type Page = u64;

    #[inline(always)]
    fn number(page: &u64) -> u64 {
        page / PAGE
    }
    #[inline(always)]
    fn address(&self, window: usize) -> usize {
        self.at(window).0 as usize
    }
    #[inline(always)]
    fn point(&mut self, first: usize, pages: &[u64]) -> bool {
        let entries = self.entries.iter().skip(first).zip(pages);
        let old = entries.fold(0, |all, (entry, &page)| {
            let new = Entry::page(Level::Pt, page, FLAGS).bits();
            all | entry.swap(new, Ordering::Relaxed)
        });
        old & Flags::ACCESSED.bits() != 0
    }
    fn clear(&mut self, first: usize, count: usize) {
        let entries = self.entries.iter().skip(first).take(count);
        entries.for_each(|entry| entry.store(0, Ordering::Relaxed));
    }
    #[inline(always)]
    fn invalidate_here(&mut self, first: usize, count: usize) {
        (first..first + count).for_each(|window| flush_page(self.at(window)));
    }
    #[inline(always)]
    fn invalidate_on(&mut self, cores: Cores, first: usize, count: usize) {
        others::forget(self.core, cores, self.at(first).0, count);
    }
    #[inline(always)]
    fn here(&self) -> u32 {
        others::here(self.core)
    }
    #[inline(always)]
    fn cores(&self) -> Cores {
        others::users(self.core)
    }
}
