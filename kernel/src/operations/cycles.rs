//! The sweep of the collector of [`cap::cycles`](crate::cap::cycles): what nobody can reach is deleted.

use super::delete::{delete_slot, drop_slot, reap_all};
use super::leave::leave_slot;
use crate::cap::attr;
use crate::cap::budget::{Pause, Progress};
use crate::cap::cycles::{clear_marks, Again};
use crate::driver::CpuDriver;
use crate::object::SlotRef;
use captypes::invocations::Count;
use captypes::Status;

/// Takes containers apart that nobody can reach; see [`captypes::op::CollectCycles`].
pub fn collect_cycles(cpu: &mut CpuDriver) -> Result<Count, Status> {
    if !cpu.caps.begin_to_collect(cpu.sched.current())? {
        return Ok(Count { count: 0 });
    }
    sweep(cpu)?;
    Ok(Count { count: cpu.caps.end_collection() })
}

/// Goes over all containers: marks are cleared, what has none is deleted.
fn sweep(cpu: &mut CpuDriver) -> Progress {
    reap_all(cpu)?;
    loop {
        let found = match cpu.caps.next_container() {
            Ok(Some(found)) => found,
            Ok(None) => return reap_all(cpu),
            Err(Again) => return Err(Pause::Again),
        };
        let cap = found.cap();
        let is_used = cap.attrs & attr::MARKED != 0;
        if is_used {
            clear_marks(found);
        } else {
            let noted = cpu.caps.suspected();
            let progress = discard(cpu, found);
            cpu.caps.forget_suspects(noted);
            progress?;
        }
        cpu.caps.pass_container(cap.base, !is_used);
    }
}

/// Deletes all capabilities to a container, or leaves the last one to the monitor. One on which
/// monitors work is passed over.
fn discard(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    if cpu.caps.db.locks.keeps(&slot.cap()) {
        return Ok(());
    }
    while let Some(copy) = cpu.caps.db.a_copy(slot) {
        if !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
        drop_slot(&mut cpu.caps, &mut cpu.sched, copy);
    }
    let cap = slot.cap();
    match delete_slot(cpu, slot) {
        Err(Pause::Remote) => leave_slot(cpu, slot)?,
        other => return other,
    }
    // It has come to a container in use, which marked it; but it is the monitor's to delete.
    if let Some(left) = cpu.caps.db.find(&cap) {
        clear_marks(left);
    }
    Ok(())
}
