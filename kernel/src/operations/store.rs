//! Pages of objects that leave memory for a store and come back: what whoever has the Pool may ask.
//!
//! The store is none of the kernel's business: contents go to memory of the invoker, and come from there. What the kernel answers for
//! is that each entry leads to one slot, that a slot is free when no entry leads to it, and that a page which comes in comes to where its
//! slot is, and nowhere else.

use super::taking::taking;
use crate::cores::PoolState;
use crate::driver::CpuDriver;
use crate::morsels::{self, Objects};
use crate::object::{mem, Walk};
use crate::operations::morsels::{number_of, with_pool};
use ::morsel::{Frame, Record, Refused};
use captypes::invocations::{LookedOver, Value};
use captypes::Status;
use mdb::RawCap;
use paging::PAGE;
use pool::{CHILD, TREE};

type Result<T> = core::result::Result<T, Status>;

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

/// Has a page leave; see [`captypes::op::PageOut`].
pub fn page_out(
    cpu: &mut CpuDriver,
    pool: &RawCap,
    root: u64,
    (record, page): (u32, u64),
    (tree, to): (u64, u64),
) -> Result<u64> {
    let to = page_of(root, to, true)?;
    let (number, shared) = number_of(cpu, pool)?;
    if !shared.is_apart() {
        return Err(Status::Unsupported);
    }
    let object = morsels::object(number, record);
    taking(cpu, object, page..page.saturating_add(1), |cpu| {
        with_pool(cpu, number, |objects| {
            let record = objects.open(record)?;
            let allocator = objects.pages.pool();
            let Some(slot) = allocator.take_slot(tree as usize) else { return Ok(None) };
            let frame = Frame((shared.base() >> 12) + slot as u64);
            let copied = |from: Frame| {
                objects.memory.with_vectors(|| mem::copy_page(to, from.0 * PAGE));
            };
            let left = page_out_once(objects, record, page, frame, copied);
            if left != Ok(true) {
                objects.give_page(frame);
            }
            left.map(|left| left.then_some(slot as u64).ok_or(Status::Empty)).map(Some)
        })
    })?
    .unwrap_or(Err(Status::Occupied))
}

/// A page of 2 MiB is divided first.
fn page_out_once(
    objects: &Objects<'_, '_, crate::dispatch::Scheduler>,
    record: Record,
    page: u64,
    slot: Frame,
    mut keep: impl FnMut(Frame),
) -> core::result::Result<bool, Refused> {
    match objects.page_out(record, page, slot, &mut keep) {
        Err(Refused::Again) => objects.page_out(record, page, slot, keep),
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

/// Brings a page back; see [`captypes::op::PageIn`].
pub fn page_in(
    cpu: &mut CpuDriver,
    pool: &RawCap,
    root: u64,
    (record, page): (u32, u64),
    (slot, from): (u64, u64),
) -> Result<()> {
    let from = page_of(root, from, false)?;
    let (number, shared) = number_of(cpu, pool)?;
    if slot >= shared.frames() {
        return Err(Status::OutOfRange);
    }
    let slot = Frame((shared.base() >> 12) + slot);
    let come = with_pool(cpu, number, |objects| {
        objects.page_in(objects.open(record)?, page, slot, |frame| {
            objects.memory.with_vectors(|| mem::copy_page(frame.0 * PAGE, from));
        })
    })?;
    come.then_some(()).ok_or(Status::Empty)
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

/// The page of the invoker at an address.
fn page_of(root: u64, va: u64, writes: bool) -> Result<u64> {
    if va & (PAGE - 1) != 0 {
        return Err(Status::OutOfRange);
    }
    Walk::new(root, writes).page(va).map(|(page, _)| page).ok_or(Status::NoRights)
}
