//! What the process says of its memory, for `/proc`, `getrusage` and whoever waits for it.
//!
//! What is known anyway is told as it changes. What has to be counted is counted at `exec`, when the process opens one
//! of its own files in `/proc`, and after as many faults as make it cheap; a child begins with what its parent knew.

use super::Mm;
use crate::server::main_header;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::session::Memory;
use uvm::{Flags, Prot, Usage, PAGE, REGION_PAGES};

/// Faults from the beginning to the first count; to each further one it is twice as many, up to the most.
const FIRST_FAULTS: u64 = 16;
const MOST_FAULTS: u64 = 1024;
/// Faults for each page table that is counted, at least.
const FAULTS_PER_TABLE: u64 = 128;
/// Objects of the process's own are counted again when this part of what they had may have been given up. To count a page there costs some 10
/// instructions, so it is some 200 for each page that is given up, however large the process is; and the most that was in memory may have
/// been by this part more than what is told.
const UNSEEN: u64 = 16;

/// What was counted last, and when that is done again.
#[derive(Clone, Copy)]
pub struct Counted {
    /// So many more faults.
    faults_left: u64,
    /// So many there were in all.
    period: u64,
    files: u64,
    shared_memory: u64,
    /// Those of them that tables show which are parts of objects: only who asks has them counted.
    wholes: (u64, u64),
    /// Pages of large private memory, likewise.
    own: u64,
    /// So many pages may have been given up since that was counted.
    given_up: u64,
    data: u64,
    stack: u64,
    text: u64,
    locked: u64,
    tables: u64,
    shared_tables: u64,
}

impl Counted {
    /// Nothing.
    pub const NONE: Counted = Counted {
        faults_left: FIRST_FAULTS,
        period: FIRST_FAULTS,
        files: 0,
        shared_memory: 0,
        wholes: (0, 0),
        own: 0,
        given_up: 0,
        data: 0,
        stack: 0,
        text: 0,
        locked: 0,
        tables: 0,
        shared_tables: 0,
    };

    /// The next count is as far away as after the beginning.
    fn restart(&mut self) {
        (self.faults_left, self.period) = (FIRST_FAULTS, FIRST_FAULTS);
    }
}

/// Pages of private memory that are there, as far as they are known. Of large ones others ask `unixd`.
#[inline(always)]
fn resident(mm: &Mm) -> u64 {
    mm.space.amap().pages() + mm.counted.own
}

/// A fault has been handled. Here alone faults are counted.
#[inline(always)]
pub fn faulted(mm: &mut Mm) {
    let memory = &main_header().memory;
    memory.faults.store(memory.faults.load(Relaxed) + 1, Relaxed);
    memory.resident.store(mm.space.amap().pages(), Relaxed);
    mm.counted.faults_left -= 1;
    if mm.counted.faults_left == 0 {
        count(mm);
    }
}

/// Something has been mapped.
#[inline]
pub fn mapped(mm: &Mm) {
    main_header().memory.mapped.store(mm.space.map().pages(), Relaxed);
}

/// Something has been unmapped, or mapped and touched.
#[inline]
pub fn changed(mm: &Mm) {
    let memory = &main_header().memory;
    memory.mapped.store(mm.space.map().pages(), Relaxed);
    memory.resident.store(mm.space.amap().pages(), Relaxed);
}

/// Something will be unmapped: there may never be as much again.
#[inline]
pub fn shrinks(mm: &Mm) {
    let memory = &main_header().memory;
    raise(&memory.most_mapped, mm.space.map().pages());
    raise(&memory.most_resident, resident(mm));
}

/// So many bytes from an address on will perhaps be given up. What of large private memory is there is counted before much of it can have
/// gone unseen: [one part](UNSEEN) of what there was.
#[inline]
pub fn shrinks_by(mm: &mut Mm, addr: u64, bytes: u64) {
    if mm.space.map().may_have(Flags::OWN) {
        gives_up(mm, addr, bytes);
    }
    shrinks(mm);
}

#[inline(never)]
fn gives_up(mm: &mut Mm, addr: u64, bytes: u64) {
    let pages = match bytes / PAGE {
        few if few < REGION_PAGES => few,
        // Most of a stack was never there, and to find that is less than to count all.
        many => mm.space.own_there(&mm.caps, addr / PAGE, (addr / PAGE).saturating_add(many)),
    };
    mm.counted.given_up = mm.counted.given_up.saturating_add(pages);
    if mm.counted.given_up >= REGION_PAGES.max(mm.counted.own / UNSEEN) {
        (mm.counted.own, mm.counted.given_up) = (mm.space.own_pages(&mm.caps), 0);
    }
}

#[inline]
fn raise(most: &AtomicU64, now: u64) {
    if most.load(Relaxed) < now {
        most.store(now, Relaxed);
    }
}

/// A program begins.
pub fn begin(mm: &mut Mm) {
    let Memory { most_mapped, most_resident, .. } = &main_header().memory;
    [most_mapped, most_resident].into_iter().for_each(|word| word.store(0, Relaxed));
    mm.counted.restart();
    tell(mm);
}

/// A child begins, of which nothing has been told.
pub fn begin_child(mm: &mut Mm) {
    main_header().memory.faults.store(0, Relaxed);
    begin(mm);
}

/// Tells what is known, without counting.
pub fn tell(mm: &Mm) {
    let memory = &main_header().memory;
    changed(mm);
    shrinks(mm);
    memory.copies.store(mm.space.copies, Relaxed);
    let Counted { files, shared_memory, data, stack, text, locked, tables, shared_tables, .. } =
        mm.counted;
    let words = [
        (&memory.files, files),
        (&memory.shared_memory, shared_memory),
        (&memory.data, data),
        (&memory.stack, stack),
        (&memory.text, text),
        (&memory.locked, locked),
        (&memory.tables, tables),
        (&memory.shared_tables, shared_tables),
    ];
    words.into_iter().for_each(|(word, pages)| word.store(pages, Relaxed));
}

/// Counts what is shown by tables that are parts of objects, and everything else, and tells it.
#[cold]
pub fn count_all(mm: &mut Mm) {
    let mut wholes = Usage::default();
    mm.space.add_wholes(&mm.caps, &mut wholes);
    mm.counted.wholes = (wholes.files, wholes.shared_memory);
    (mm.counted.own, mm.counted.given_up) = (wholes.own, 0);
    count(mm);
}

/// Tells what is known, and counts what nobody has counted if there may be much of it: the process ends, or asks.
pub fn tell_all(mm: &mut Mm) {
    match mm.space.map().may_have(Flags::OWN) {
        true => count_all(mm),
        false => tell(mm),
    }
}

/// Counts, and tells everything.
#[cold]
#[inline(never)]
pub fn count(mm: &mut Mm) {
    let Usage { files, shared_memory, tables, shared_tables, .. } = mm.space.usage(&mm.caps);
    let wholes = match mm.space.pmap().wholes() {
        0 => (0, 0),
        _ => mm.counted.wholes,
    };
    let (files, shared_memory) = (files + wholes.0, shared_memory + wholes.1);
    let wanted = (mm.counted.period * 2).min(MOST_FAULTS).max(tables * FAULTS_PER_TABLE);
    let (faults_left, period) = (wanted, wanted);
    let mut counted =
        Counted { faults_left, period, files, tables, shared_tables, ..Counted::NONE };
    (counted.shared_memory, counted.wholes) = (shared_memory, wholes);
    counted.given_up = mm.counted.given_up;
    for entry in mm.space.map().entries() {
        let pages = entry.end - entry.start;
        if entry.flags.has(Flags::OWN) {
            counted.own = mm.counted.own;
        }
        if entry.flags.has(Flags::STACK) {
            counted.stack += pages;
        } else if !entry.flags.has(Flags::SHARED) && entry.prot.has(Prot::WRITE) {
            counted.data += pages;
        } else if entry.prot.has(Prot::EXEC) {
            counted.text += pages;
        }
        if entry.flags.has(Flags::LOCKED) {
            counted.locked += pages;
        }
    }
    mm.counted = counted;
    tell(mm);
}

/// The most that was in memory counts from now on.
pub fn forget_most(mm: &Mm) {
    main_header().memory.most_resident.store(resident(mm), Relaxed);
}
