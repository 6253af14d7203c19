//! A direct map of kernel objects and what else is the kernel's: with pages of 4 KiB, present while they are.
//!
//! An entry says why it is present: the memory is that of an object, or a frame that dispatchers share with the
//! kernel, or cores that start have yet to read it. Memory belongs to one core, but a frame may have copies on others,
//! so entries are changed atomically, and a lock is around the counts of who shares. Entries are born accessed and
//! dirty: no processor writes them. They are not global: whoever loads a root has forgotten them.

use super::super::memory::{phys_to_virt, Image, Tables};
use super::super::{flush_page, flush_tlb, relax};
use super::cache::hidden;
use crate::arch::boot_info::{BootInfo, RegionKind};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use paging::{Entry, Flags, Level, VirtAddr, ENTRIES, PAGE};

/// It is memory of an object, or the kernel's own.
const OBJECT: u64 = 1 << 9;
/// Dispatchers share it.
const SHARED: u64 = 1 << 10;
/// Cores that start read it.
const READ_AT_START: u64 = 1 << 11;
/// All reasons.
const REASONS: u64 = OBJECT | SHARED | READ_AT_START;

const READ: Flags = Flags::PRESENT.with(Flags::NO_EXECUTE).with(Flags::ACCESSED).with(Flags::DIRTY);
const READ_WRITE: Flags = READ.with(Flags::WRITE);

/// What a table covers.
const PIECE: u64 = PAGE * ENTRIES as u64;

type PageTable = [AtomicU64; ENTRIES];

/// For each page of a piece how many dispatchers share it. Changed under [`SHARING`].
type Sharers = [AtomicU32; ENTRIES];

/// What there is for a piece of physical addresses: nothing where there is no memory.
struct Piece {
    table: Option<&'static PageTable>,
    sharers: Option<&'static Sharers>,
}

/// All pieces. Never changes after [`build`].
static PIECES: AtomicPtr<Piece> = AtomicPtr::new(core::ptr::null_mut());
/// How many.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// Some core is about to change a count and the entry with it, which takes it some ten instructions.
static SHARING: AtomicBool = AtomicBool::new(false);
/// Cores that have yet to read what is [`READ_AT_START`].
static READERS: AtomicU32 = AtomicU32::new(0);

fn pieces() -> &'static [Piece] {
    let count = COUNT.load(Ordering::Relaxed) as usize;
    // SAFETY: made in `build` with so many, and never freed; empty before.
    match count {
        0 => &[],
        _ => unsafe { core::slice::from_raw_parts(PIECES.load(Ordering::Relaxed), count) },
    }
}

/// The entry that shows the page at `pa`, if that is memory.
#[inline]
fn entry(pa: u64) -> Option<&'static AtomicU64> {
    pieces().get((pa / PIECE) as usize)?.table?.get((pa / PAGE) as usize % ENTRIES)
}

/// How many dispatchers share the page at `pa`, if that is memory.
fn count_of(pa: u64) -> Option<&'static AtomicU32> {
    pieces().get((pa / PIECE) as usize)?.sharers?.get((pa / PAGE) as usize % ENTRIES)
}

fn pages(base: u64, bytes: u64) -> impl Iterator<Item = u64> {
    (base & !(PAGE - 1)..base.saturating_add(bytes)).step_by(PAGE as usize)
}

/// Changes the entry of the page at `pa`. Returns what it becomes.
#[inline]
fn change(pa: u64, new: impl Fn(u64) -> u64) -> u64 {
    let Some(entry) = entry(pa) else { return 0 };
    let mut old = entry.load(Ordering::Relaxed);
    loop {
        let wanted = new(old);
        match entry.compare_exchange_weak(old, wanted, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return wanted,
            Err(now) => old = now,
        }
    }
}

/// An entry without a reason shows nothing.
fn if_wanted(entry: u64) -> u64 {
    match entry & REASONS {
        0 => 0,
        _ => entry,
    }
}

fn shown(pa: u64) -> u64 {
    Entry::page(Level::Pt, pa, READ_WRITE).bits()
}

/// Forgets the page at `pa` here, and notes that the others are to.
fn forget(pa: u64) {
    flush_page(VirtAddr(phys_to_virt(pa) as u64));
    hidden().set(true);
}

/// The `bytes` of memory at `base` are those of kernel objects from now on.
#[inline]
pub fn show(base: u64, bytes: u64) {
    for pa in pages(base, bytes) {
        if let Some(entry) = entry(pa) {
            entry.fetch_or(shown(pa) | OBJECT, Ordering::AcqRel);
        }
    }
}

/// They are not any more.
#[inline]
pub fn hide(base: u64, bytes: u64) {
    for pa in pages(base, bytes) {
        if change(pa, |old| if_wanted(old & !OBJECT)) == 0 {
            forget(pa);
        }
    }
}

/// Does something that no other core does at the same time.
fn alone(work: impl FnOnce()) {
    while SHARING.swap(true, Ordering::Acquire) {
        relax();
    }
    work();
    SHARING.store(false, Ordering::Release);
}

/// One more dispatcher shares the frame at `pa` with the kernel.
pub fn share(pa: u64) {
    let Some(count) = count_of(pa) else { return };
    alone(|| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            change(pa, |old| old | shown(pa) | SHARED);
        }
    });
}

/// One less.
pub fn unshare(pa: u64) {
    let Some(count) = count_of(pa) else { return };
    alone(|| {
        let is_last = count.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && change(pa, |old| if_wanted(old & !SHARED)) == 0 {
            forget(pa);
        }
    });
}

/// How many do.
pub fn sharers(pa: u64) -> u32 {
    count_of(pa).map_or(0, |count| count.load(Ordering::Relaxed))
}

/// So many cores will start, and read this.
pub fn lend_at_start(range: &Range<u64>, cores: u32) {
    READERS.store(cores, Ordering::Relaxed);
    if cores != 0 {
        pages(range.start, range.end - range.start).for_each(|pa| {
            change(pa, |old| old | shown(pa) | READ_AT_START);
        });
    }
}

/// One of them has read it, or will not start.
pub fn was_read(range: &Range<u64>) {
    if READERS.fetch_sub(1, Ordering::AcqRel) == 1 {
        pages(range.start, range.end - range.start).for_each(|pa| {
            change(pa, |old| if_wanted(old & !READ_AT_START));
        });
        flush_tlb();
        hidden().set(true);
    }
}

/// Is the page at `pa` that of objects?
pub fn is_shown(pa: u64) -> bool {
    entry(pa).is_some_and(|entry| entry.load(Ordering::Relaxed) & OBJECT != 0)
}

/// Has anything been hidden since the last call that other cores may have cached?
#[inline]
pub fn take_hidden() -> bool {
    hidden().replace(false)
}

/// Has it, without that it counts as a call?
#[inline]
pub fn has_hidden() -> bool {
    hidden().get()
}

/// Shows all memory, for the time until [`seal`].
pub fn build(map: &mut Tables<'_>, info: &BootInfo, image: &Image) {
    let count = info.top_of_memory().div_ceil(PIECE);
    let bytes = (count * size_of::<Piece>() as u64).next_multiple_of(PAGE);
    let all: *mut Piece = phys_to_virt(map.take(bytes / PAGE)).cast();
    for number in 0..count {
        let (start, end) = (number * PIECE, (number + 1) * PIECE);
        let regions = info.memory.as_slice().iter();
        let mut memory = regions.filter(|r| r.kind != RegionKind::Reserved);
        if start != 0 && !memory.any(|r| r.start < end && r.end > start) {
            continue;
        }
        let (table, counts) = (map.take(1), map.take(1));
        // SAFETY: fresh pages, full of zeros, which stay for ever; the array has a place for each number.
        let table_entries: &PageTable = unsafe {
            let entries = &*phys_to_virt(table).cast();
            let piece =
                Piece { table: Some(entries), sharers: Some(&*phys_to_virt(counts).cast()) };
            all.add(number as usize).write(piece);
            entries
        };
        for (pa, entry) in pages(start, PIECE).zip(table_entries) {
            let is_code = image.constant().contains(&pa);
            let flags = if is_code { READ } else { READ_WRITE };
            entry.store(Entry::page(Level::Pt, pa, flags).bits() | OBJECT, Ordering::Relaxed);
        }
        let upper = Entry::new(table, Flags::PRESENT | Flags::WRITE);
        map.put(phys_to_virt(start) as u64, upper, Level::Pd);
    }
    PIECES.store(all, Ordering::Relaxed);
    COUNT.store(count, Ordering::Relaxed);
}

/// From now on, of all memory only that in `kept` is shown, and what is shared.
pub fn seal(kept: &[Range<u64>]) {
    for (number, piece) in (0..).zip(pieces()) {
        if piece.table.is_none() {
            continue;
        }
        for pa in pages(number * PIECE, PIECE) {
            if !kept.iter().any(|range| range.contains(&pa)) {
                change(pa, |old| if_wanted(old & !OBJECT));
            }
        }
    }
    flush_tlb();
}

/// Calls `visit` with each page that is shown, whether it is that of objects, and how many dispatchers share it.
pub fn for_each_shown(mut visit: impl FnMut(u64, bool, u32)) {
    for (number, piece) in (0..).zip(pieces()) {
        let Some(table) = piece.table else { continue };
        for (pa, entry) in pages(number * PIECE, PIECE).zip(table) {
            let entry = entry.load(Ordering::Relaxed);
            if entry != 0 {
                visit(pa, entry & OBJECT != 0, sharers(pa));
            }
        }
    }
}
