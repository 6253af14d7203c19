//! What the process says of its memory, for `/proc`, `getrusage` and whoever waits for it.
//!
//! What is known anyway is told as it changes. What has to be counted is told at `exec` and `fork`, when the
//! process opens one of its own files in `/proc`, and after as many faults as make it cheap.

use super::Mm;
use crate::server::main_header;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::session::Memory;
use uvm::{Flags, Prot, Usage};

/// Faults between two counts, at least; and for each page table that is counted.
const FAULTS_MIN: u64 = 32;
const FAULTS_PER_TABLE: u64 = 16;

/// A fault has been handled.
#[inline(always)]
pub fn faulted(mm: &mut Mm) {
    let memory = &main_header().memory;
    memory.resident.store(mm.space.amap().pages(), Relaxed);
    memory.faults.store(mm.faults, Relaxed);
    if mm.faults >= mm.count_at {
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

/// A process begins, of which nothing has been told.
pub fn begin(mm: &mut Mm) {
    let Memory { most_mapped, most_resident, .. } = &main_header().memory;
    most_mapped.store(0, Relaxed);
    most_resident.store(0, Relaxed);
    count(mm);
}

/// Counts and tells everything.
#[cold]
#[inline(never)]
pub fn count(mm: &mut Mm) {
    let memory = &main_header().memory;
    changed(mm);
    shrinks(mm);
    memory.faults.store(mm.faults, Relaxed);
    memory.copies.store(mm.space.copies, Relaxed);
    let (mut data, mut stack, mut text, mut locked) = (0, 0, 0, 0);
    for entry in mm.space.map().entries() {
        let pages = entry.end - entry.start;
        let is_private = !entry.flags.has(Flags::SHARED);
        if entry.flags.has(Flags::STACK) {
            stack += pages;
        } else if is_private && entry.prot.has(Prot::WRITE) {
            data += pages;
        } else if entry.prot.has(Prot::EXEC) {
            text += pages;
        }
        if entry.flags.has(Flags::LOCKED) {
            locked += pages;
        }
    }
    let Usage { files, tables, shared_tables } = mm.space.usage();
    mm.count_at = mm.faults + (tables * FAULTS_PER_TABLE).max(FAULTS_MIN);
    let words = [
        (&memory.data, data),
        (&memory.stack, stack),
        (&memory.text, text),
        (&memory.locked, locked),
        (&memory.files, files),
        (&memory.tables, tables),
        (&memory.shared_tables, shared_tables),
    ];
    words.into_iter().for_each(|(word, pages)| word.store(pages, Relaxed));
}
