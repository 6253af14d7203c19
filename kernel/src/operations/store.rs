//! Pages of objects that leave memory for a store and come back: what whoever has the Pool may ask.
//!
//! The store is none of the kernel's business: contents go to a Frame, and come from there. What the kernel answers for
//! is that each entry leads to one slot, that a slot is free when no entry leads to it, and that a page which comes in comes to where its
//! slot is, and nowhere else.

use super::taking::taking;
use crate::cap::CapExt;
use crate::cores::PoolState;
use crate::driver::CpuDriver;
use crate::morsels::{self, Objects};
use crate::object::mem;
use crate::operations::morsels::{number_of, with_pool};
use ::morsel::{Frame, Record, Refused, TOGETHER};
use captypes::invocations::{LookedOver, PagedOut, Value};
use captypes::{CapType, Rights, Status};
use mdb::RawCap;
use paging::PAGE;
use pool::{CHILD, TREE};

type Result<T> = core::result::Result<T, Status>;
/// A Frame, and a byte of it.
type Part<'a> = (&'a RawCap, u64);

/// Frames of a tree.
const TREE_FRAMES: u64 = (CHILD * TREE) as u64;

/// Makes slots; see [`captypes::op::AddSlots`].
pub fn add(cpu: &mut CpuDriver, pool: &RawCap, tree: u64) -> Result<u64> {
    let found = cpu.core.cores.pools().headed(pool.base);
    let found = found.filter(|(_, shared)| {
        shared.is_apart() && matches!(shared.state(), PoolState::Open | PoolState::Empty)
    });
    let (number, shared) = found.ok_or(Status::WrongState)?;
    let trees = shared.frames().div_ceil(TREE_FRAMES);
    if tree >= trees {
        return Err(Status::OutOfRange);
    }
    // What is memory is no store, whoever has it.
    let (first, last) = (tree * TREE_FRAMES, (tree + 1) * TREE_FRAMES - 1);
    let is_memory = |frame| crate::arch::is_memory(shared.base() + frame * PAGE);
    if is_memory(first) || is_memory(last) {
        return Err(Status::Occupied);
    }
    let added = morsels::with(cpu.core, number, &mut cpu.sched, None, |objects| {
        objects.pages.pool().add_slots(tree as usize)
    });
    match added {
        Some(true) => Ok(first),
        _ => Err(Status::Occupied),
    }
}

/// Has pages leave; see [`captypes::op::PageOut`].
pub fn page_out(
    cpu: &mut CpuDriver,
    pool: &RawCap,
    (record, page, wanted): (u32, u64, u64),
    tree: u64,
    buffer: Part<'_>,
) -> Result<PagedOut> {
    let wanted = first_of(wanted);
    let to = pages_of(buffer, wanted.count_ones().into(), Rights::WRITE)?;
    let (number, shared) = number_of(cpu, pool)?;
    if !shared.is_apart() {
        return Err(Status::Unsupported);
    }
    let object = morsels::object(number, record);
    let row = page & !63;
    let behind = u64::from(64 - wanted.leading_zeros());
    let all = row + u64::from(wanted.trailing_zeros() & 63)..row.saturating_add(behind);
    taking(cpu, object, all, |cpu| {
        with_pool(cpu, number, |objects| {
            let record = objects.open(record)?;
            let most = wanted.count_ones().max(1) as usize;
            let taken = objects.pages.pool().take_slots(tree as usize, most);
            let Some((slot, count)) = taken.map(|(slot, count)| (slot as u64, count as u64)) else {
                return Ok(Err(Status::Occupied));
            };
            let frame = |n| Frame((shared.base() >> 12) + slot + n);
            let copied = |from: &[Frame]| {
                objects.memory.with_vectors(|| {
                    for (n, from) in (0..).zip(from) {
                        mem::copy_page(to + n * PAGE, from.0 * PAGE);
                    }
                });
            };
            let slots = (frame(0), count as usize);
            let left = page_out_once(objects, record, (row, wanted), slots, copied);
            let used = left.map_or(0, |left| u64::from(left.count_ones()));
            (used..count).for_each(|n| objects.give_page(frame(n)));
            let pages = left?;
            Ok(if pages == 0 { Err(Status::Empty) } else { Ok(PagedOut { slot, pages }) })
        })
    })?
}

/// The lowest bits, as many as pages leave together.
fn first_of(pages: u64) -> u64 {
    let (mut first, mut rest) = (0, pages);
    for _ in 0..TOGETHER {
        first |= rest & rest.wrapping_neg();
        rest &= rest.wrapping_sub(1);
    }
    first
}

/// A page of 2 MiB is divided first.
fn page_out_once(
    objects: &Objects<'_, '_, crate::dispatch::Scheduler>,
    record: Record,
    pages: (u64, u64),
    slots: (Frame, usize),
    mut keep: impl FnMut(&[Frame]),
) -> core::result::Result<u64, Refused> {
    match objects.page_out(record, pages, slots, &mut keep) {
        Err(Refused::Again) => objects.page_out(record, pages, slots, keep),
        done => done,
    }
}

/// Where a page is in the store; see [`captypes::op::SlotOf`].
pub fn slot_of(cpu: &mut CpuDriver, pool: &RawCap, record: u32, page: u64) -> Result<Value> {
    let (number, shared) = number_of(cpu, pool)?;
    let base = shared.base() >> 12;
    let slot = with_pool(cpu, number, |objects| objects.slot_of(objects.open(record)?, page))?;
    slot.map(|slot| Value { value: slot.0 - base }).ok_or(Status::Empty)
}

/// Brings pages back; see [`captypes::op::PageIn`].
pub fn page_in(
    cpu: &mut CpuDriver,
    pool: &RawCap,
    (record, page, count): (u32, u64, u64),
    slot: u64,
    buffer: Part<'_>,
) -> Result<Value> {
    let count = count.min(TOGETHER as u64);
    let from = pages_of(buffer, count, Rights::READ)?;
    let (number, shared) = number_of(cpu, pool)?;
    if slot >= shared.frames() || count > shared.frames() - slot {
        return Err(Status::OutOfRange);
    }
    let slot = Frame((shared.base() >> 12) + slot);
    let come = with_pool(cpu, number, |objects| {
        objects.page_in(objects.open(record)?, (page, count), slot, |n, frame| {
            objects.memory.with_vectors(|| mem::copy_page(frame.0 * PAGE, from + n * PAGE));
        })
    })?;
    if come == 0 {
        return Err(Status::Empty);
    }
    Ok(Value { value: come })
}

/// Which pages were used; see [`captypes::op::LookOver`].
pub fn look_over(
    cpu: &mut CpuDriver,
    pool: &RawCap,
    (record, page): (u32, u64),
    rests: bool,
) -> Result<LookedOver> {
    let (number, _) = number_of(cpu, pool)?;
    let seen =
        with_pool(cpu, number, |objects| objects.look_over(objects.open(record)?, page, rests))?;
    let ::morsel::Seen { next, there, used, out } = seen;
    Ok(LookedOver { next, there, used, out })
}

/// The physical address of so many pages of a Frame, which are neighbours.
fn pages_of((frame, offset): Part<'_>, count: u64, needed: Rights) -> Result<u64> {
    if frame.is_foreign() {
        return Err(Status::Unsupported);
    }
    if !frame.is(CapType::Frame) {
        return Err(Status::WrongType);
    }
    if !frame.rights_set().has(needed) {
        return Err(Status::NoRights);
    }
    let fits = offset.checked_add(count * PAGE).is_some_and(|end| end <= frame.word);
    if offset & (PAGE - 1) != 0 || !fits {
        return Err(Status::OutOfRange);
    }
    Ok(frame.base + offset)
}
