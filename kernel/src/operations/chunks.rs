//! Memory of pools whose pages come and go.
//!
//! ```text
//!                AddChunk                             RemoveChunk: all of it is free
//!  RAM ─────────────────────────► Chunk ─────────────────────────────────────────────► RAM
//!   in a slot of the invoker        │     in the same slot
//!                                   │ deleted, or revoked by whoever has the RAM above
//!                                   ▼
//!                       free: it goes home; else the pool is closed first
//! ```
//!
//! The capability stays with whoever gave the memory, and covers it as long as pages of it may be in use. When the pool goes first,
//! Chunks are memory of nothing, and go home one by one.

use super::delete::has_parts;
use super::morsels::close;
use crate::cap::budget::{Pause, Progress};
use crate::cap::{attr, CapExt, MEMORY};
use crate::cores::{PoolState, SharedPool};
use crate::driver::CpuDriver;
use crate::morsels::{self, status};
use crate::object::SlotRef;
use captypes::place::{CHUNK_BYTES, POOL_BYTES};
use captypes::{CapType, RamAttrs, Status};
use core::sync::atomic::Ordering::Relaxed;
use mdb::RawCap;
use pool::CHILD;

/// How much of a Chunk comes in one event: each 2 MiB are some 520 stores.
const STEPS: u32 = 16;
/// Trees of the allocator that are searched in one event, a few times.
const TREES: usize = 256;
const SEARCHES: usize = 4;

type Result<T> = core::result::Result<T, Status>;
type Growing = (usize, &'static SharedPool);

/// The pool of a capability, if its pages come and go.
fn growing(cpu: &CpuDriver, pool: &RawCap) -> Result<Growing> {
    let found = cpu.core.cores.pools().headed(pool.base);
    let found = found.filter(|(_, shared)| shared.is_apart());
    found
        .filter(|(_, shared)| matches!(shared.state(), PoolState::Open | PoolState::Empty))
        .ok_or(Status::WrongState)
}

/// The number of the first 2 MiB of a Chunk, and of how many it is.
fn children(shared: &SharedPool, cap: &RawCap) -> (usize, u32) {
    let first = cap.base.wrapping_sub(shared.base()) / POOL_BYTES;
    (first as usize, (cap.word / POOL_BYTES) as u32)
}

/// Gives RAM to a pool; see [`captypes::op::AddChunk`].
pub fn add(cpu: &mut CpuDriver, pool: &RawCap, slot: SlotRef) -> Result<u64> {
    let (number, shared) = growing(cpu, pool)?;
    cpu.caps.check_lock(slot)?;
    let cap = slot.cap();
    if slot.is_empty() {
        return Err(Status::Empty);
    }
    if cap.is(CapType::Chunk) {
        check_begun(cpu, number, shared, &cap)?;
    } else {
        check_memory(cpu, shared, slot)?;
        become_type(cpu, slot, CapType::Chunk);
    }
    let (first, count) = children(shared, &cap);
    let end = count.min(slot.cap().aux + STEPS);
    let added = morsels::with(cpu.core, number, &mut cpu.sched, None, |objects| {
        let allocator = objects.pages.pool();
        for n in slot.cap().aux..end {
            // It cannot be there: its memory was nobody's.
            allocator.add(first + n as usize).map_err(|_| Status::Invalid)?;
            slot.set_aux(n + 1);
            shared.growth.set_present(shared.growth.present() + CHILD as u64);
            if shared.state() == PoolState::Empty {
                objects.format().map_err(status)?;
                shared.set_state(PoolState::Open);
            }
        }
        Ok::<(), Status>(())
    });
    added.ok_or(Status::WrongState)??;
    match end == count {
        true => Ok(cap.base),
        false => Err(Status::Again),
    }
}

/// Is there more of a Chunk to come?
fn check_begun(cpu: &CpuDriver, number: usize, shared: &SharedPool, cap: &RawCap) -> Result<()> {
    let around = morsels::around(cpu.core.cores.pools(), cap.base).map(|(around, _)| around);
    let is_part = cap.aux < children(shared, cap).1;
    (around == Some(number) && is_part).then_some(()).ok_or(Status::WrongState)
}

fn check_memory(cpu: &CpuDriver, shared: &SharedPool, slot: SlotRef) -> Result<()> {
    let cap = slot.cap();
    let elsewhere = attr::FOREIGN | attr::PARKED | attr::IN_DISPATCHER;
    if !cap.is(CapType::Ram) || cap.attrs & (RamAttrs::PERSISTENT.0 | elsewhere) != 0 {
        return Err(Status::WrongType);
    }
    let from = cap.base.wrapping_sub(shared.base());
    let bytes = shared.frames() * paging::PAGE;
    let inside = from < bytes && cap.word <= bytes - from;
    let aligned = (cap.base | cap.word) & (POOL_BYTES - 1) == 0;
    if !inside || !aligned || !(POOL_BYTES..=CHUNK_BYTES).contains(&cap.word) {
        return Err(Status::OutOfRange);
    }
    let others = cpu.caps.db.has_copies(slot) || has_parts(&cpu.caps, slot, &cap);
    if others || cap.has_remote(attr::COPIES_OR_DESCENDANTS) {
        return Err(Status::HasDescendants);
    }
    Ok(())
}

/// The capability in a slot is one of another type to the same memory.
fn become_type(cpu: &mut CpuDriver, slot: SlotRef, ty: CapType) {
    let cap = cpu.caps.db.remove(slot);
    cpu.caps.db.insert(slot, RawCap { ty: ty as u8, aux: 0, ..cap });
}

/// Takes back what is free; see [`captypes::op::RemoveChunk`].
pub fn remove(cpu: &mut CpuDriver, pool: &RawCap) -> Result<u64> {
    let growing = growing(cpu, pool)?;
    let shared = growing.1;
    let all = shared.frames() / CHILD as u64;
    for _ in 0..SEARCHES {
        let from = shared.growth.cursor.load(Relaxed);
        let (chunk, next) = find(cpu, growing, from as usize)?;
        let next = next as u64;
        shared.growth.cursor.store(if next < all { next } else { 0 }, Relaxed);
        let searched = shared.growth.searched.load(Relaxed) + next.saturating_sub(from);
        if let Some(slot) = chunk {
            cpu.caps.check_lock(slot)?;
            if take_all(cpu, growing, slot) {
                become_type(cpu, slot, CapType::Ram);
                shared.growth.searched.store(0, Relaxed);
                return Ok(slot.cap().base);
            }
        }
        let is_empty = searched >= all;
        shared.growth.searched.store(if is_empty { 0 } else { searched }, Relaxed);
        if is_empty {
            return Err(Status::Empty);
        }
    }
    Err(Status::Again)
}

/// The next Chunk of which some 2 MiB are free, if there is one soon, and where to go on.
fn find(
    cpu: &mut CpuDriver,
    (number, shared): Growing,
    from: usize,
) -> Result<(Option<SlotRef>, usize)> {
    let found = morsels::with(cpu.core, number, &mut cpu.sched, None, |objects| {
        objects.pages.pool().find_free(from, TREES)
    });
    let child = match found.ok_or(Status::WrongState)? {
        Ok(child) => child,
        Err(next) => return Ok((None, next)),
    };
    let base = shared.base() + child as u64 * POOL_BYTES;
    let slot = cpu.caps.db.surrounding(MEMORY, base, POOL_BYTES, CapType::Chunk.rank());
    // Each page of the pool is covered by one.
    let slot = slot.filter(|slot| slot.cap().is(CapType::Chunk)).ok_or(Status::Invalid)?;
    let (first, count) = children(shared, &slot.cap());
    Ok((Some(slot), first + count as usize))
}

/// Takes all of a Chunk out of the pool, if all of it is free: from its end on, so that a count says what is left.
fn take_all(cpu: &mut CpuDriver, (number, shared): Growing, slot: SlotRef) -> bool {
    let (first, _) = children(shared, &slot.cap());
    let count = slot.cap().aux as usize;
    let taken = morsels::with(cpu.core, number, &mut cpu.sched, None, |objects| {
        let allocator = objects.pages.pool();
        if !(0..count).all(|n| allocator.is_all_free(first + n)) {
            return false;
        }
        for n in (0..count).rev() {
            if !allocator.remove(first + n) {
                // Another core has been faster.
                for n in n + 1..count {
                    let back = allocator.add(first + n);
                    debug_assert_eq!(back, Ok(()), "nobody else adds it");
                }
                return false;
            }
        }
        shared.growth.set_present(shared.growth.present() - (count * CHILD) as u64);
        true
    });
    taken == Some(true)
}

/// Before the last capability to a Chunk goes: the pool has it no more.
pub(super) fn leave(cpu: &mut CpuDriver, slot: SlotRef, cap: &RawCap) -> Progress {
    let Some((number, shared)) = morsels::around(cpu.core.cores.pools(), cap.base) else {
        return Ok(());
    };
    let (first, _) = children(shared, cap);
    while slot.cap().aux > 0 {
        if !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
        let last = slot.cap().aux - 1;
        let removed = morsels::with(cpu.core, number, &mut cpu.sched, None, |objects| {
            objects.pages.pool().remove(first + last as usize)
        });
        if removed != Some(true) {
            return close(cpu, number);
        }
        slot.set_aux(last);
        shared.growth.set_present(shared.growth.present() - CHILD as u64);
    }
    Ok(())
}
