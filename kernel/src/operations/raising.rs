//! Limits of objects that programs raise on the core where they are.
//!
//! Memory that is made usable piece by piece is an object that becomes larger. Its owner says once how large it may become, and from then on the program moves the
//! limit itself: neither home is visited nor a server asked. As with [`hiding`](super::hiding), the object is known by the address at which an entry shows it, in the address space
//! that this core has loaded, and is seen to be shown there during the walk in which its record changes: who ends an object waits for walks.
//!
//! Nothing is taken away by it, so no core has anything to forget. What shows the object elsewhere shows what it has gained, too, as when its owner
//! makes it larger.

use super::morsels::allow_raising;
use super::taking::taking;
use crate::cores::ThisCore;
use crate::driver::CpuDriver;
use crate::morsels::fault::{self, Below};
use crate::morsels::{self, object_of};
use crate::object::DcbRef;
use captypes::Status;
use mdb::RawCap;

type Result<T> = core::result::Result<T, Status>;

/// Allows that the limit is raised; see [`captypes::op::AllowRaising`]. Nobody sets it meanwhile.
pub fn allow(cpu: &mut CpuDriver, cap: &RawCap, pages: u64) -> Result<u64> {
    taking(cpu, object_of(cap), 0..0, |cpu| allow_raising(cpu, cap, pages))
}

/// Raises the limit of what is shown at an address; see [`captypes::op::RaiseHere`].
pub fn raise(cpu: &mut CpuDriver, dcb: DcbRef, at: u64, (from, to): (u64, u64)) -> Result<()> {
    let below = fault::written(dcb.root.get(), at).ok_or(Status::Unsupported)?;
    let CpuDriver { core, sched, .. } = cpu;
    let core = *core;
    core.shared.pool_use.turn();
    let shown = shown_by(core, below, at);
    core.shared.pool_use.turn();
    let (pool, record) = shown.ok_or(Status::Unsupported)?;
    morsels::open_pool(core, pool).ok_or(Status::Unsupported)?;
    let raised = morsels::with(core, pool, sched, None, |objects| {
        let record = objects.open(record)?;
        let is_there = || shown_by(core, below, at) == Some((pool, record.id));
        objects.raise_while(record, (from, to), is_there)
    });
    raised.ok_or(Status::Unsupported)?.map_err(morsels::status)
}

/// The numbers of the pool and of the object of which an entry shows a table, as long as it is what it was. During a walk.
fn shown_by(core: ThisCore, below: Below, at: u64) -> Option<(usize, u32)> {
    let wanted = below.is_there().then(|| below.wanted(core.cores.pools(), at)).flatten()?;
    Some((wanted.pool, wanted.record))
}
