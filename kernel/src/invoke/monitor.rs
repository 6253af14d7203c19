//! Invocations of the kernel for the core's monitor. It is trusted to run the protocol; but whatever it
//! says, the kernel touches nothing outside of objects, and ends.

use super::endpoint::endpoint;
use super::redirect;
use super::{operations, run, Outcome};
use crate::cap::asks::Ask;
use crate::cap::lookup::{free_slot, slot, used_slot};
use crate::cap::protocol::from_wire;
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::ipc::MonitorRef;
use crate::object::{DcbRef, SlotRef};
use crate::operations::{delete, leave, morsels, protocol};
use captypes::invocations::{Asked, Held, MonitorOp, Need, Span, Value};
use captypes::{op, CapType, Rights, Status, WireCap};

/// For the monitor.
#[inline(never)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: MonitorOp) -> Outcome {
    local.caps.budget.begin();
    let known = |local: &CpuDriver, slot| local.caps.slot_at_pa(slot).ok_or(Status::NoSlot);
    let yes = |answer: bool| Value { value: u64::from(answer) };
    operations! { local, dcb, op: MonitorOp;
        SetMonitor |_, a| set_monitor(local, dcb, a);
        Proceed |_, a| redirect::proceed(local, dcb, a.client, a.ticket, a.checked);
        Finish |_, a| redirect::finish(local, dcb, a.client, a.ticket, a.status);
        SlotAt |_, a| slot(dcb, a.place).map(|slot| Value { value: slot.pa() });
        HeldAt |_, a| {
            let mut held = local.caps.held(known(local, a.slot)?)?;
            let stays = stays(local, &held.cap);
            held.flags |= if stays { Held::STAYS } else { 0 };
            Ok(held)
        };
        DeleteAt |_, a| delete_at(local, known(local, a.slot)?);
        NextLeft |_, _| {
            let left = leave::next_left(&local.caps, &mut local.monitor);
            Ok(Value { value: left.map_or(0, SlotRef::pa) })
        };
        Share |_, a| {
            let cap = from_wire(&a.cap)?;
            morsels::set_away(local, &cap);
            local.caps.share(&cap)
        };
        RevokeRest |_, a| {
            let cap = from_wire(&a.cap)?;
            Ok(protocol::revoke_rest(local, local.caps.slot_at_pa(a.slot), &cap)?)
        };
        Disown |_, a| {
            local.caps.disown(&from_wire(&a.cap)?);
            Ok(())
        };
        Own |_, a| Ok(yes(local.caps.own(&from_wire(&a.cap)?)));
        HasCopy |_, a| Ok(yes(local.caps.has_copy(&from_wire(&a.cap)?)));
        DeleteEverywhere |_, a| Ok(protocol::delete_everywhere(local, &from_wire(&a.cap)?)?);
        InsertCopy |_, a| {
            let cap = from_wire(&a.cap)?;
            if a.cap.is_all_of_pool() || stays(local, &a.cap) {
                return Err(Status::WrongState);
            }
            local.caps.insert_remote(&cap, free_slot(&local.caps, dcb, a.dst)?)
        };
        InUse |_, a| {
            let cap = from_wire(&a.cap)?;
            Ok(yes(match cap.is(CapType::Morsel) {
                true => morsels::in_use(local, &cap),
                false => local.caps.in_use(&cap, a.start, a.bytes),
            }))
        };
        Makers |_, a| Ok(Value { value: morsels::makers(local, a.base) });
        Lock |_, a| local.caps.lock(&from_wire(&a.cap)?);
        Unlock |_, a| {
            local.caps.unlock(&from_wire(&a.cap)?);
            Ok(())
        };
        Sweep |_, a| Ok(protocol::sweep_all(local, &from_wire(&a.cap)?)?);
        FirstCover |_, a| {
            let (base, bytes) = local.caps.first_cover(a.start, a.bytes).unwrap_or((0, 0));
            Ok(Span { base, bytes })
        };
        GiveBack |_, a| protocol::give_back_region(local, a.start, a.bytes);
    }
}

/// Must a capability stay on its core, whatever other capabilities of its type do?
fn stays(local: &mut CpuDriver, cap: &WireCap) -> bool {
    cap.kind() == Some(CapType::Morsel)
        && !cap.is_all_of_pool()
        && from_wire(cap).is_ok_and(|cap| !morsels::may_travel(local, &cap))
}

impl From<Ask> for Asked {
    fn from(ask: Ask) -> Asked {
        Asked { need: ask.need, slot: ask.slot.pa(), base: ask.base, bytes: ask.bytes }
    }
}

/// Nothing is needed any more.
pub(super) const DONE: Asked = Asked { need: Need::Nothing, slot: 0, base: 0, bytes: 0 };

/// Names the monitor.
fn set_monitor(local: &mut CpuDriver, dcb: DcbRef, args: op::SetMonitor) -> Result<(), Status> {
    let (endpoint, _) = endpoint(dcb, args.endpoint, Rights::RECV)?;
    let left = used_slot(dcb, args.left)?.cap();
    if !left.is(CapType::L2CNode) || left.is_foreign() {
        return Err(Status::WrongType);
    }
    local.monitor.set(MonitorRef { endpoint, bits: args.bits, left: left.base });
    Ok(())
}

/// Deletes what a slot holds, or says what that needs.
fn delete_at(local: &mut CpuDriver, slot: SlotRef) -> Result<Asked, Status> {
    match delete::delete(local, slot) {
        Err(Status::RetryThroughMonitor) => {
            local.caps.asks.take().map(Asked::from).ok_or(Status::RetryThroughMonitor)
        }
        result => result.map(|()| DONE),
    }
}
