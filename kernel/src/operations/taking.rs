//! Who takes pages of objects away, and creates or ends objects, where several cores may.
//!
//! The algorithms let any core populate at any time. What takes away, or changes what an object is, one core does at a time, in one
//! event: whoever comes second answers `Again`. Of entries that show single pages, each is in the database of one core only. So:
//!
//! ```text
//! takes away, core 1                      shows single pages, core 0
//!   claim ─► who shows any? ─── none      count ─► is it claimed? ── yes ─► Again
//!                │ cores                                │ no
//!                ▼ ask, and wait                        ▼
//!   pages go ◄── cleared at those cores   page found and shown
//! ```
//!
//! Either core 1 sees the count, or core 0 the claim. A core that is asked answers between two events, or while it waits for such an
//! answer itself, which is before its own event has begun to change anything: so two that ask each other both go on.
//! As long as nothing of a pool was sent to another core, all of this is one load.

use crate::cores::{CoreId, SharedPool};
use crate::driver::CpuDriver;
use crate::morsels::{self, pool_of};
use crate::vspace::unmap_borrowed;
use captypes::Status;
use core::ops::Range;

type Result<T> = core::result::Result<T, Status>;

/// Mappings that are removed for another core in one event.
const MOST_REMOVED: u32 = 64;

/// Does something that may take these pages of an object away. Nobody else does meanwhile, nor does any other core show one of them
/// alone.
///
/// # Errors
/// `Again` if another core is at it, or has more of such entries than it removes at once.
pub fn taking<R>(
    cpu: &mut CpuDriver,
    object: u64,
    pages: Range<u64>,
    work: impl FnOnce(&mut CpuDriver) -> Result<R>,
) -> Result<R> {
    let shared = morsels::open_pool(cpu.core, pool_of(object)).ok_or(Status::WrongState)?;
    if !shared.reach.is_shared() {
        return work(cpu);
    }
    take_from_all(cpu, object, pages, work)
}

#[inline(never)]
fn take_from_all<R>(
    cpu: &mut CpuDriver,
    object: u64,
    pages: Range<u64>,
    work: impl FnOnce(&mut CpuDriver) -> Result<R>,
) -> Result<R> {
    let (pools, id) = (cpu.core.cores.pools(), cpu.core.id);
    if !pools.taking(object).take(id) {
        return Err(Status::Again);
    }
    let done = clear_elsewhere(cpu, object, pages).and_then(|()| work(cpu));
    pools.taking(object).give_back();
    done
}

/// Does something that creates, opens or ends objects of a pool. No other core does meanwhile.
///
/// # Errors
/// `Again` if one does.
pub fn changing<R>(
    cpu: &mut CpuDriver,
    shared: &'static SharedPool,
    work: impl FnOnce(&mut CpuDriver) -> Result<R>,
) -> Result<R> {
    if !shared.reach.is_away() {
        return work(cpu);
    }
    if !shared.changes.claim(cpu.core.id) {
        return Err(Status::Again);
    }
    let done = work(cpu);
    shared.changes.unclaim();
    done
}

/// Does something that may show single pages of an object.
///
/// # Errors
/// `Again` if another core takes pages of it away.
pub fn showing<R>(
    cpu: &mut CpuDriver,
    object: u64,
    work: impl FnOnce(&mut CpuDriver) -> Result<R>,
) -> Result<R> {
    let pools = cpu.core.cores.pools();
    if !pools.get(pool_of(object)).is_some_and(|shared| shared.reach.is_shared()) {
        return work(cpu);
    }
    let shared = cpu.core.shared;
    shared.pool_use.shows_single(object);
    let done = match pools.taking(object).is_taken() {
        true => Err(Status::Again),
        false => work(cpu),
    };
    shared.pool_use.shows_single_no_more(object);
    done
}

/// Has other cores remove their entries that show these pages of a claimed object one by one.
fn clear_elsewhere(cpu: &mut CpuDriver, object: u64, pages: Range<u64>) -> Result<()> {
    let core = cpu.core;
    let shows = |id: CoreId| {
        id != core.id && core.cores.get(id).pool_use.may_show_single(object) && !pages.is_empty()
    };
    let whom = core.cores.iter().filter(|&(id, _)| shows(id));
    let whom = whom.fold(0, |all, (id, _)| all | id.bit());
    if whom == 0 {
        return Ok(());
    }
    let wanted = &core.shared.pool_use.wanted;
    wanted.begin(object, pages, whom);
    for (id, shared) in core.cores.iter().filter(|(id, _)| whom & id.bit() != 0) {
        shared.pool_use.ask(core.id);
        core.interrupt(id);
    }
    while !wanted.is_answered() {
        clear_for_others(cpu);
        cpu.sched.wait_for_others();
    }
    match wanted.is_done() {
        true => Ok(()),
        false => Err(Status::Again),
    }
}

/// Removes what other cores want to have removed. Only where nothing of this core's event is half done.
#[inline]
pub fn clear_for_others(cpu: &mut CpuDriver) {
    let whom = cpu.core.shared.pool_use.take_asked();
    if whom != 0 {
        clear_for(cpu, whom);
    }
}

#[cold]
#[inline(never)]
fn clear_for(cpu: &mut CpuDriver, whom: u64) {
    let CpuDriver { core, vm, caps, .. } = cpu;
    for (_, shared) in core.cores.iter().filter(|(id, _)| whom & id.bit() != 0) {
        let wanted = &shared.pool_use.wanted;
        let (object, pages) = wanted.what();
        let mut left = MOST_REMOVED;
        let done = unmap_borrowed(vm, caps, object, pages, |_| {
            let goes = left > 0;
            left -= u32::from(goes);
            goes
        });
        wanted.answer(core.id, done.is_ok());
    }
}
