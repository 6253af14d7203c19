//! Invocations of the kernel for the core's monitor. It is trusted to run the protocol; but whatever it
//! says, the kernel touches nothing outside of objects, and ends.

use super::endpoint::endpoint;
use super::{operations, run, Outcome};
use crate::cap::lookup::{free_slot, slot, used_slot};
use crate::cap::protocol::from_wire;
use crate::cap::remote::{Ask, MonitorRef};
use crate::cap::{CapExt, SlotRef};
use crate::dispatch::{DcbRef, Local};
use captypes::invocations::{Asked, MonitorOp, Need, Span, Value};
use captypes::{op, CapType, Rights, Status};

/// For the monitor.
#[inline(never)]
pub(super) fn dispatch(local: &mut Local, dcb: DcbRef, op: MonitorOp) -> Outcome {
    local.work = local.budget;
    let known = |local: &Local, slot| local.slot_at_pa(slot).ok_or(Status::NoSlot);
    let yes = |answer: bool| Value { value: u64::from(answer) };
    operations! { local, dcb, op: MonitorOp;
        SetMonitor |_, a| set_monitor(local, dcb, a);
        Proceed |_, a| local.proceed(dcb, a.client, a.ticket, a.checked);
        Finish |_, a| local.finish(dcb, a.client, a.ticket, a.status);
        SlotAt |_, a| slot(dcb, a.place).map(|slot| Value { value: slot.pa() });
        HeldAt |_, a| local.held(known(local, a.slot)?);
        DeleteAt |_, a| delete_at(local, known(local, a.slot)?);
        NextLeft |_, _| Ok(Value { value: local.next_left().map_or(0, SlotRef::pa) });
        Share |_, a| local.share(&from_wire(&a.cap)?);
        RevokeRest |_, a| {
            let cap = from_wire(&a.cap)?;
            Ok(local.revoke_rest(local.slot_at_pa(a.slot), &cap)?)
        };
        Disown |_, a| {
            local.disown(&from_wire(&a.cap)?);
            Ok(())
        };
        Own |_, a| Ok(yes(local.own(&from_wire(&a.cap)?)));
        HasCopy |_, a| Ok(yes(local.has_copy(&from_wire(&a.cap)?)));
        DeleteEverywhere |_, a| Ok(local.delete_everywhere(&from_wire(&a.cap)?)?);
        InsertCopy |_, a| {
            let cap = from_wire(&a.cap)?;
            local.insert_remote(&cap, free_slot(local, dcb, a.dst)?)
        };
        InUse |_, a| Ok(yes(local.in_use(&from_wire(&a.cap)?, a.start, a.bytes)));
        Lock |_, a| local.lock(&from_wire(&a.cap)?);
        Unlock |_, a| {
            local.unlock(&from_wire(&a.cap)?);
            Ok(())
        };
        Sweep |_, a| Ok(local.sweep_all(&from_wire(&a.cap)?)?);
        FirstCover |_, a| {
            let (base, bytes) = local.first_cover(a.start, a.bytes).unwrap_or((0, 0));
            Ok(Span { base, bytes })
        };
        GiveBack |_, a| local.give_back_region(a.start, a.bytes);
    }
}

impl From<Ask> for Asked {
    fn from(ask: Ask) -> Asked {
        Asked { need: ask.need, slot: ask.slot.pa(), base: ask.base, bytes: ask.bytes }
    }
}

/// Nothing is needed any more.
pub(super) const DONE: Asked = Asked { need: Need::Nothing, slot: 0, base: 0, bytes: 0 };

/// Names the monitor.
fn set_monitor(local: &mut Local, dcb: DcbRef, args: op::SetMonitor) -> Result<(), Status> {
    let (endpoint, _) = endpoint(dcb, args.endpoint, Rights::RECV)?;
    let left = used_slot(dcb, args.left)?.cap();
    if !left.is(CapType::L2CNode) || left.is_foreign() {
        return Err(Status::WrongType);
    }
    local.set_monitor(MonitorRef { endpoint, bits: args.bits, left: left.base });
    Ok(())
}

/// Deletes what a slot holds, or says what that needs.
fn delete_at(local: &mut Local, slot: SlotRef) -> Result<Asked, Status> {
    match local.delete(slot) {
        Err(Status::RetryThroughMonitor) => {
            local.remote.ask.take().map(Asked::from).ok_or(Status::RetryThroughMonitor)
        }
        result => result.map(|()| DONE),
    }
}
