//! Invocations of the Kernel.

use super::endpoint::endpoint;
use super::{operations, run, Outcome};
use crate::cap::MEMORY;
use crate::dispatch::{DcbRef, Local};
use crate::machine;
use captypes::invocations::{FlushPolicy, KernelOp, Value};
use captypes::{Rights, Status};

/// Of the Kernel.
#[inline(never)]
pub(super) fn dispatch(local: &mut Local, dcb: DcbRef, op: KernelOp) -> Outcome {
    operations! { local, dcb, op: KernelOp;
        Shutdown |_, a| machine::shutdown(local, a.status);
        Log |_, a| machine::log_bytes(local, a.len, [a.w0, a.w1, a.w2, a.w3, a.w4]);
        CollectReclaimed |_, _| Ok(local.collect_reclaimed());
        ReadCounter |_, a| machine::read_counter(local, a.counter, a.core);
        CheckInvariants |_, _| crate::check::check_and_log(local);
        CapabilityAt |_, a| {
            let slot = local.db.iter(MEMORY).nth(a.number as usize).ok_or(Status::OutOfRange)?;
            Ok(local.identify(slot))
        };
        NotifyReclaimed |_, a| {
            (local.reclaim.notify, local.reclaim.bits) = (Some(dcb), a.bits);
            Ok(())
        };
        SetFlushPolicy |_, a| {
            let policy = FlushPolicy { strategy: a.strategy, threshold: a.threshold };
            Ok(core::mem::replace(&mut local.tlb.policy, policy))
        };
        CollectCycles |_, _| {
            local.work = local.budget;
            local.collect_cycles()
        };
        RingCore |_, a| local.ring_core(a.core);
        NotifyRung |_, a| {
            local.doorbell.listen(dcb, a.bits);
            Ok(())
        };
        Watch |_, a| {
            let (watched, _) = endpoint(dcb, a.endpoint, Rights::SEND)?;
            Ok(Value { value: u64::from(local.watch(watched, a.bits)) })
        };
    }
}
