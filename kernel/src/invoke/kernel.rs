//! Invocations of the Kernel.

use super::endpoint::endpoint;
use super::{operations, run, Outcome};
use crate::cap::lookup::{free_slot, slot_to_change, used_slot};
use crate::cap::ops::holder;
use crate::cap::MEMORY;
use crate::driver::CpuDriver;
use crate::machine;
use crate::object::DcbRef;
use crate::operations;
use captypes::invocations::{FlushPolicy, KernelOp, Value};
use captypes::{Rights, Status};

/// Of the Kernel.
#[inline(never)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: KernelOp) -> Outcome {
    operations! { local, dcb, op: KernelOp;
        Shutdown |_, a| machine::shutdown(local, a.status);
        Log |_, a| machine::log_bytes(local, a.len, [a.w0, a.w1, a.w2, a.w3, a.w4]);
        CollectReclaimed |_, _| Ok(local.reclaim.collect(&local.caps.db));
        ReadCounter |_, a| machine::read_counter(local, a.counter, a.core);
        CheckInvariants |_, _| crate::check::check_and_log(local);
        CapabilityAt |_, a| {
            let mut slots = local.caps.db.iter(MEMORY);
            let slot = slots.nth(a.number as usize).ok_or(Status::OutOfRange)?;
            Ok(local.caps.identify(slot))
        };
        HolderAt |_, a| {
            let mut slots = local.caps.db.iter(MEMORY);
            let slot = slots.nth(a.number as usize).ok_or(Status::OutOfRange)?;
            holder(&local.caps.db, slot, a.copy).ok_or(Status::OutOfRange)
        };
        NotifyReclaimed |_, a| {
            local.reclaim.listen(dcb, a.bits);
            Ok(())
        };
        SetFlushPolicy |_, a| {
            let policy = FlushPolicy { strategy: a.strategy, threshold: a.threshold };
            Ok(core::mem::replace(&mut local.vm.policy, policy))
        };
        CollectCycles |_, _| {
            local.caps.budget.begin();
            operations::cycles::collect_cycles(local)
        };
        RingCore |_, a| local.doorbell.ring(local.core, a.core, &mut local.sched);
        NotifyRung |_, a| {
            local.doorbell.listen(dcb, a.bits);
            Ok(())
        };
        Watch |_, a| {
            let (watched, _) = endpoint(dcb, a.endpoint, Rights::SEND)?;
            Ok(Value { value: u64::from(operations::endpoints::watch(watched, a.bits)) })
        };
        CedeHome |_, a| {
            let (home, dst) = (used_slot(dcb, a.home)?, free_slot(&local.caps, dcb, a.dst)?);
            operations::homes::cede(&mut local.caps, home, a.offset, a.bytes, dst)
        };
        AdoptHome |_, a| {
            let dst = slot_to_change(&local.caps, dcb, a.dst)?;
            operations::homes::adopt(&mut local.caps, a.base, a.bytes, a.attrs, dst)
        };
    }
}
