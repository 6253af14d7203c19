//! What the process says of its memory, for `/proc`, `getrusage` and whoever waits for it.
//!
//! What is known anyway is told as it changes. What has to be counted is counted at `exec`, when the process opens one
//! of its own files in `/proc`, and after as many faults as make it cheap; a child begins with what its parent knew.

use super::Mm;
use crate::server::main_header;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::session::Memory;
use uvm::{Flags, Prot, Usage};

/// Faults between two counts, at least, a power of two; and for each page table that is counted.
const FAULTS_MIN: u64 = 128;
const FAULTS_PER_TABLE: u64 = 16;

/// What was counted last, in the order in which [`Memory`] has it.
#[derive(Clone, Copy)]
pub struct Counted {
    /// How many faults there had been.
    faults: u64,
    files: u64,
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
        faults: 0,
        files: 0,
        data: 0,
        stack: 0,
        text: 0,
        locked: 0,
        tables: 0,
        shared_tables: 0,
    };
}

/// A fault has been handled. Here alone faults are counted.
#[inline(always)]
pub fn faulted(mm: &mut Mm) {
    let memory = &main_header().memory;
    let faults = memory.faults.load(Relaxed) + 1;
    memory.faults.store(faults, Relaxed);
    memory.resident.store(mm.space.amap().pages(), Relaxed);
    if faults.is_multiple_of(FAULTS_MIN) {
        count_if_cheap(mm, faults);
    }
}

#[cold]
#[inline(never)]
fn count_if_cheap(mm: &mut Mm, faults: u64) {
    if faults.wrapping_sub(mm.counted.faults) >= mm.counted.tables * FAULTS_PER_TABLE {
        count(mm);
    }
}

/// Something has been mapped or unmapped.
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
    raise(&memory.most_resident, mm.space.amap().pages());
}

#[inline]
fn raise(most: &AtomicU64, now: u64) {
    if most.load(Relaxed) < now {
        most.store(now, Relaxed);
    }
}

/// A program begins.
pub fn begin(mm: &Mm) {
    let Memory { most_mapped, most_resident, .. } = &main_header().memory;
    [most_mapped, most_resident].into_iter().for_each(|word| word.store(0, Relaxed));
    tell(mm);
}

/// A child begins, of which nothing has been told.
pub fn begin_child(mm: &Mm) {
    main_header().memory.faults.store(0, Relaxed);
    begin(mm);
}

/// Tells what is known, without counting.
pub fn tell(mm: &Mm) {
    let memory = &main_header().memory;
    changed(mm);
    shrinks(mm);
    memory.copies.store(mm.space.copies, Relaxed);
    let Counted { faults: _, files, data, stack, text, locked, tables, shared_tables } = mm.counted;
    let words = [
        (&memory.files, files),
        (&memory.data, data),
        (&memory.stack, stack),
        (&memory.text, text),
        (&memory.locked, locked),
        (&memory.tables, tables),
        (&memory.shared_tables, shared_tables),
    ];
    words.into_iter().for_each(|(word, pages)| word.store(pages, Relaxed));
}

/// Counts, and tells everything.
#[cold]
#[inline(never)]
pub fn count(mm: &mut Mm) {
    let Usage { files, tables, shared_tables } = mm.space.usage();
    let faults = main_header().memory.faults.load(Relaxed);
    let mut counted = Counted { faults, files, tables, shared_tables, ..Counted::NONE };
    for entry in mm.space.map().entries() {
        let pages = entry.end - entry.start;
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
