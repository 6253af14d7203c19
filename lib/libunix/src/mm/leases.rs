//! Private memory that threads map and unmap without the lock of the library, as long as nobody touches it.
//!
//! A thread that unmaps what nobody has touched, and so will perhaps do so again, is lent addresses ([`glance::Lease`]). In these it needs
//! nobody. The map of the process has an entry there that keeps all others away. Whoever has the lock and is about to look at addresses that
//! are lent, or to change them, ends that first: what the thread has mapped there becomes an entry like all others. A page that is
//! touched is one of these: the fault ends it. So nothing that is lent is ever in a page table, and to unmap it is to forget it.
//!
//! Who has the lock need not end it as long as he looks at other addresses only ([`minds`]).
//!
//! Memory that threads do touch is [kept](glance::Kept) by them in the same way, if it is an object of the process's own that one entry shows: the kernel [hides
//! it, and takes its pages away](op::HideHere), where the thread is, and [shows it again](op::ShowHere). It is mapped and unmapped as a whole.
//!
//! The same is done for [rights of pages](super::rights) that a thread takes and gives back again and again.

use super::rights::{self, LentRights};
use super::{take_limits, usage, Mm};
use crate::process::Io;
use crate::signal::Own;
use crate::thread::area;
use abi::layout::PAGE;
use abi::Regs;
use captypes::{op, Status};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use glance::{Kept, Lease, Taken, MOST_KEPT, PAGES};
use libos::invoke;
use uvm::{Flags, OWN_LEAST};

/// What there is for each thread.
struct Place {
    lease: Lease<AtomicU64>,
    leases: Wish,
    kept: Kept<AtomicU64>,
    keeps: Wish,
    /// How often what is kept was used when it was last of no use.
    idle: AtomicU64,
    rights: LentRights,
}

/// How often a thread is to unmap what it could be lent before it is lent it (again), and how often it has done so. With the lock.
struct Wish {
    wanted: AtomicU32,
    seen: AtomicU32,
}

impl Wish {
    const fn new() -> Wish {
        Wish { wanted: AtomicU32::new(0), seen: AtomicU32::new(0) }
    }

    fn wanted(&self) -> u32 {
        self.wanted.load(Relaxed).max(FEWEST)
    }

    /// It has done so once more: is that often enough?
    fn is_due(&self) -> bool {
        let seen = self.seen.load(Relaxed) + 1;
        let is_due = seen >= self.wanted();
        self.seen.store(if is_due { 0 } else { seen }, Relaxed);
        is_due
    }

    /// What was lent ends after so many uses.
    fn ends(&self, uses: u64) {
        let wanted = match uses >= WORTH {
            true => FEWEST,
            false => (self.wanted() * 2).min(MOST),
        };
        self.wanted.store(wanted, Relaxed);
    }
}

const ALL: usize = area::AREAS as usize + 1;

/// By area.
static PLACES: [Place; ALL] = [const {
    Place {
        lease: Lease::new(AtomicU64::new(0), AtomicU64::new(0)),
        leases: Wish::new(),
        kept: Kept::new(AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)),
        keeps: Wish::new(),
        idle: AtomicU64::new(0),
        rights: LentRights::new(),
    }
}; ALL];

/// How many leases are given, and the first area behind all that ever were. Changed with the lock.
static GIVEN: AtomicU32 = AtomicU32::new(0);
static END: AtomicU32 = AtomicU32::new(0);

/// Bounds of `wanted`: twice as often after a lease that was of little use.
const FEWEST: u32 = 1;
const MOST: u32 = 64;
/// It was of use if it was used so often: to give and to end it costs as much as some calls.
const WORTH: u64 = 8;

/// Pages below an entry that grows downward whose being mapped matters to it.
const BELOW: u64 = uvm::map::GUARD_PAGES;

/// A call without the lock, if it is one that a lease is for.
pub fn own_call(_: &mut Own, regs: &Regs) -> Option<u64> {
    const MMAP: u64 = 9;
    const MPROTECT: u64 = 10;
    const MUNMAP: u64 = 11;
    match regs.rax {
        MMAP => own_mmap(regs),
        MPROTECT => rights::own_mprotect(own_rights(), regs),
        MUNMAP => own_munmap(regs),
        _ => None,
    }
}

/// `mmap`, of private memory anywhere that can be read and written.
fn own_mmap(regs: &Regs) -> Option<u64> {
    const PRIVATE_ANONYMOUS: u32 = 0x22;
    const READ_WRITE: u32 = 3;
    let is_plain = regs.rdi == 0
        && regs.rdx as u32 == READ_WRITE
        && regs.r10 as u32 == PRIVATE_ANONYMOUS
        && regs.r9.is_multiple_of(PAGE)
        && (1..OWN_LEAST).contains(&regs.rsi);
    if !is_plain {
        return None;
    }
    let (own, pages) = (own(), regs.rsi.div_ceil(PAGE));
    let kept = map_kept(&own.kept, pages);
    kept.or_else(|| own.lease.map(pages)).map(|first| first * PAGE)
}

/// Maps what is kept, if it is that many pages.
#[inline(always)]
fn map_kept(kept: &Kept<AtomicU64>, pages: u64) -> Option<u64> {
    let begun = kept.map(pages)?;
    let show = op::ShowHere { at: begun.start * PAGE };
    let is_shown = invoke(area::own_dispatcher(), show).is_ok();
    // If it was taken meanwhile, it is not mapped, nor is there an entry that could be shown.
    (kept.done(begun, is_shown) && is_shown).then_some(begun.start)
}

/// Unmaps what is kept, if it is these pages.
#[inline]
fn unmap_kept(kept: &Kept<AtomicU64>, page: u64, pages: u64) -> Option<()> {
    let begun = kept.unmap(page, pages)?;
    let is_empty = hide_all(page * PAGE, pages);
    // If it was taken meanwhile, it is not mapped: then there may be something else already. Otherwise it is mapped as long as it is not empty, and
    // is unmapped with the lock.
    (!kept.done(begun, !is_empty) || is_empty).then_some(())
}

/// Hides these pages, and takes them away. `false`: some are left, perhaps.
fn hide_all(at: u64, pages: u64) -> bool {
    /// Others take pages of objects away, too, which they do in one event.
    const TRIES: u32 = 8;
    let (mut first, mut tries) = (0, TRIES);
    while tries > 0 {
        match invoke(area::own_dispatcher(), op::HideHere { at, first, end: pages as u32 }) {
            Ok(reached) if reached.value >= pages => return true,
            Ok(reached) if reached.value > u64::from(first) => first = reached.value as u32,
            Ok(_) | Err(Status::Again) => tries -= 1,
            Err(_) => return false,
        }
    }
    false
}

fn own_munmap(regs: &Regs) -> Option<u64> {
    let is_plain =
        regs.rdi.is_multiple_of(PAGE) && (1..=PAGES.max(MOST_KEPT) * PAGE).contains(&regs.rsi);
    if !is_plain {
        return None;
    }
    let (own, page, pages) = (own(), regs.rdi / PAGE, regs.rsi.div_ceil(PAGE));
    unmap_kept(&own.kept, page, pages).or_else(|| own.lease.unmap(page, pages)).map(|()| 0)
}

#[inline(always)]
fn own() -> &'static Place {
    &PLACES[area::own_index() as usize]
}

/// The rights that the calling thread may be lent.
pub fn own_rights() -> &'static LentRights {
    &own().rights
}

/// Ends the lending of rights, which are lent.
pub fn end_rights(mm: &mut Mm, rights: &LentRights) {
    GIVEN.store(GIVEN.load(Relaxed) - 1, Relaxed);
    rights.end(mm);
}

/// Something more is lent to the calling thread. With the lock.
pub fn note_given() {
    GIVEN.store(GIVEN.load(Relaxed) + 1, Relaxed);
    END.store(END.load(Relaxed).max(area::own_index() + 1), Relaxed);
}

/// Is anything lent?
#[inline(always)]
pub fn are_given() -> bool {
    GIVEN.load(Relaxed) != 0
}

/// Ends all.
#[inline(always)]
pub fn end_all(mm: &mut Mm) {
    if are_given() {
        end_each(mm, |_, _| true, |_, _| true);
    }
}

/// Ends those in which one of these bytes is. Nothing happens to anything else.
#[inline(always)]
pub fn end(mm: &mut Mm, addr: u64, len: u64) {
    if are_given() {
        let end = addr.saturating_add(len).div_ceil(PAGE).max(addr / PAGE + 1);
        end_within(mm, addr / PAGE, (addr / PAGE, end));
    }
}

/// The same for a byte that is about to be used, and what decides whether a stack can grow there.
#[inline(always)]
pub fn end_around(mm: &mut Mm, addr: u64) {
    if are_given() {
        let page = addr / PAGE;
        end_within(mm, page.saturating_sub(BELOW), (page, page + 1));
    }
}

/// Ends addresses that are lent from page `below` on, and rights from `from` on, up to page `to`. Most often none are. The map says so, however
/// many threads have some.
#[cold]
#[inline(never)]
fn end_within(mm: &mut Mm, below: u64, (from, to): (u64, u64)) {
    const ANY: Flags = Flags::LENT.or(Flags::RIGHTS_LENT);
    if mm.space.map().within(below, to).any(|entry| entry.flags.has_any(ANY)) {
        let addresses = |start, pages| start < to && below < start + pages;
        end_each(mm, addresses, |start, pages| start < to && from < start + pages);
    }
}

/// Ends those of which `ends` says so, and rights of which `rights` does, by the first page and how many there are.
#[cold]
#[inline(never)]
fn end_each(mm: &mut Mm, ends: impl Fn(u64, u64) -> bool, rights: impl Fn(u64, u64) -> bool) {
    for place in &PLACES[..END.load(Relaxed) as usize] {
        if place.rights.pages().is_some_and(|(start, pages)| rights(start, pages)) {
            end_rights(mm, &place.rights);
        }
        if place.kept.pages().is_some_and(|(start, pages)| ends(start, pages)) {
            end_kept(mm, place);
        }
        let is_there = place.lease.start().is_some_and(|start| ends(start, PAGES));
        let Some(taken) = is_there.then(|| place.lease.take()).flatten() else { continue };
        end_one(mm, place, taken);
    }
}

fn end_one(mm: &mut Mm, place: &Place, Taken { start, first, count, uses }: Taken) {
    GIVEN.store(GIVEN.load(Relaxed) - 1, Relaxed);
    place.leases.ends(uses);
    mm.space.end_lending(start, (first, count));
    usage::mapped(mm);
}

fn end_kept(mm: &mut Mm, place: &Place) {
    let Some(taken) = place.kept.take() else { return };
    GIVEN.store(GIVEN.load(Relaxed) - 1, Relaxed);
    place.keeps.ends(taken.uses);
    let Mm { space, caps, .. } = mm;
    let object = space.end_lending_mapped(caps, taken.start, taken.is_mapped);
    if !taken.is_mapped && !taken.was_busy {
        object.into_iter().for_each(|object| caps.objects.has_no_pages(object));
    }
    usage::changed(mm);
}

/// The thread unmaps these bytes, of which nothing is lent: perhaps it keeps them, to map them again. Answers whether that is done.
#[inline(never)]
pub fn keeps(mm: &mut Mm, addr: u64, len: u64) -> bool {
    let (start, pages) = (addr / PAGE, len.div_ceil(PAGE));
    if !addr.is_multiple_of(PAGE) || !(1..=MOST_KEPT).contains(&pages) {
        return false;
    }
    let place = own();
    if place.kept.pages().is_some() {
        // It is of no use if the thread has done without it since the last time.
        let uses = place.kept.uses();
        if place.idle.swap(uses, Relaxed) != uses {
            return false;
        }
        end_kept(mm, place);
    }
    let is_late = || PLACES[..END.load(Relaxed) as usize].iter().any(|of| of.kept.is_late(start));
    if !place.keeps.is_due() || mm.space.locks_new || !mm.has_no_notes() || is_late() {
        return false;
    }
    let Mm { space, caps, .. } = mm;
    if !space.lend_mapped(caps, start, start + pages) {
        return false;
    }
    place.kept.give(start, pages);
    place.idle.store(u64::MAX, Relaxed);
    note_given();
    let is_unmapped = unmap_kept(&place.kept, start, pages).is_some();
    if !is_unmapped {
        end_kept(mm, place);
    }
    is_unmapped
}

/// The thread has unmapped so many bytes which nobody has touched: perhaps it is lent addresses to do so again.
#[inline(never)]
pub fn unmapped_untouched(io: &mut Io, len: u64) {
    let place = own();
    if len >= OWN_LEAST || place.lease.start().is_some() {
        return;
    }
    if !place.leases.is_due() {
        return;
    }
    let (mm, limits) = io.memory();
    // What is mapped there is not locked.
    if mm.space.locks_new {
        return;
    }
    // Whoever has a limit must be counted: nobody is lent anything then.
    take_limits(mm, limits);
    let Mm { space, caps, .. } = mm;
    // Without memory for it all is as it is without.
    let Ok(Some(start)) = space.lend(caps, PAGES) else { return };
    place.lease.give(start);
    note_given();
}

/// May a call that has the lock look at addresses which are lent? Those that do not mind say of which addresses theirs are, or copy
/// from and to the program, which [ends](end_around) what is in the way.
pub fn minds(number: u64) -> bool {
    /// `read`, `write`, `close`, `fstat`, `lseek`; `mmap`, `mprotect`, `munmap`; `pread64`, `pwrite64`; `sched_yield`; `madvise`; `nanosleep`;
    /// `futex`, `clock_nanosleep`.
    const DO_NOT: [u64; 15] = [0, 1, 3, 5, 8, 9, 10, 11, 17, 18, 24, 28, 35, 202, 230];
    !DO_NOT.contains(&number)
}
