//! Invocations of the kernel for the core's monitor. It is trusted to run the protocol; but whatever it
//! says, the kernel touches nothing outside of objects, and ends.

use super::redirect;
use super::{endpoint, run, Outcome};
use crate::cap::asks::Ask;
use crate::cap::lookup::{free_slot, slot, used_slot};
use crate::cap::protocol::from_wire;
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::ipc;
use crate::object::{DcbRef, SlotRef};
use crate::operations;
use captypes::invocations::{Asked, Need, Span, Value, WireWords};
use captypes::{op, CapType, Label, Rights, Status};
use mdb::RawCap;

/// Of the monitor.
#[inline(never)]
pub fn dispatch(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    local.caps.budget.begin();
    match label as u16 {
        ..97 => dispatch_clients(local, dcb, label),
        _ => dispatch_steps(local, dcb, label),
    }
}

fn kernel(dcb: DcbRef, target: captypes::Place) -> Result<RawCap, Status> {
    super::rare::device(dcb, target, CapType::Kernel)
}

impl From<Ask> for Asked {
    fn from(ask: Ask) -> Asked {
        Asked { need: ask.need, slot: ask.slot.pa(), base: ask.base, bytes: ask.bytes }
    }
}

/// Nothing is needed any more.
pub(super) const DONE: Asked = Asked { need: Need::Nothing, slot: 0, base: 0, bytes: 0 };

/// Requests of others, and slots.
#[inline(never)]
fn dispatch_clients(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let known = |local: &CpuDriver, slot| local.caps.slot_at_pa(slot).ok_or(Status::NoSlot);
    match label {
        Label::SetMonitor => run(local, dcb, |local, t, a: op::SetMonitor| {
            kernel(dcb, t)?;
            let (endpoint, _) = endpoint(dcb, a.endpoint, Rights::RECV)?;
            let left = used_slot(dcb, a.left)?.cap();
            if !left.is(CapType::L2CNode) || left.is_foreign() {
                return Err(Status::WrongType);
            }
            local.monitor.set(ipc::MonitorRef { endpoint, bits: a.bits, left: left.base });
            Ok(())
        }),
        Label::Proceed => run(local, dcb, |local, t, a: op::Proceed| {
            kernel(dcb, t)?;
            redirect::proceed(local, dcb, a.client, a.ticket, a.checked)
        }),
        Label::Finish => run(local, dcb, |local, t, a: op::Finish| {
            kernel(dcb, t)?;
            redirect::finish(local, dcb, a.client, a.ticket, a.status)
        }),
        Label::SlotAt => run(local, dcb, |_, t, a: op::SlotAt| {
            kernel(dcb, t)?;
            slot(dcb, a.place).map(|slot| Value { value: slot.pa() })
        }),
        Label::HeldAt => run(local, dcb, |local, t, a: op::HeldAt| {
            kernel(dcb, t)?;
            local.caps.held(known(local, a.slot)?)
        }),
        Label::DeleteAt => run(local, dcb, |local, t, a: op::DeleteAt| {
            kernel(dcb, t)?;
            delete_at(local, known(local, a.slot)?)
        }),
        Label::NextLeft => run(local, dcb, |local, t, _: op::NextLeft| {
            kernel(dcb, t)?;
            Ok(Value {
                value: operations::leave::next_left(&local.caps, &mut local.monitor)
                    .map_or(0, SlotRef::pa),
            })
        }),
        _ => Status::Invalid.to_word(),
    }
}

/// Deletes what a slot holds, or says what that needs.
fn delete_at(local: &mut CpuDriver, slot: SlotRef) -> Result<Asked, Status> {
    match operations::delete::delete(local, slot) {
        Err(Status::RetryThroughMonitor) => {
            local.caps.asks.take().map(Asked::from).ok_or(Status::RetryThroughMonitor)
        }
        result => result.map(|()| DONE),
    }
}

/// The capability of three words.
fn wire(head: u64, base: u64, size: u64) -> Result<RawCap, Status> {
    from_wire(&WireWords { head, base, size })
}

macro_rules! steps {
    ($local:ident, $dcb:ident, $label:ident;
     $($op:ident |$args:ident, $cap:ident| $body:expr;)*) => {
        match $label {
            $(Label::$op => run($local, $dcb, |$local, target, $args: op::$op| {
                kernel($dcb, target)?;
                let $cap = &wire($args.head, $args.base, $args.size)?;
                $body
            }),)*
            _ => dispatch_memory($local, $dcb, $label),
        }
    };
}

/// Steps of the protocol.
#[inline(never)]
fn dispatch_steps(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let yes = |answer: bool| Value { value: u64::from(answer) };
    steps! { local, dcb, label;
        Share |a, cap| local.caps.share(cap);
        RevokeRest |a, cap| Ok(operations::protocol::revoke_rest(local, local.caps.slot_at_pa(a.slot), cap)?);
        Disown |a, cap| {
            local.caps.disown(cap);
            Ok(())
        };
        Own |a, cap| Ok(yes(local.caps.own(cap)));
        HasCopy |a, cap| Ok(yes(local.caps.has_copy(cap)));
        DeleteEverywhere |a, cap| Ok(operations::protocol::delete_everywhere(local, cap)?);
        InsertCopy |a, cap| local.caps.insert_remote(cap, free_slot(&local.caps, dcb, a.dst)?);
        InUse |a, cap| Ok(yes(local.caps.in_use(cap, a.start, a.bytes)));
        Lock |a, cap| local.caps.lock(cap);
        Unlock |a, cap| {
            local.caps.unlock(cap);
            Ok(())
        };
        Sweep |a, cap| Ok(operations::protocol::sweep_all(local, cap)?);
    }
}

/// Where memory goes.
fn dispatch_memory(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    match label {
        Label::FirstCover => run(local, dcb, |local, t, a: op::FirstCover| {
            kernel(dcb, t)?;
            let (base, bytes) = local.caps.first_cover(a.start, a.bytes).unwrap_or((0, 0));
            Ok(Span { base, bytes })
        }),
        Label::GiveBack => run(local, dcb, |local, t, a: op::GiveBack| {
            kernel(dcb, t)?;
            operations::protocol::give_back_region(local, a.start, a.bytes)
        }),
        _ => Status::Invalid.to_word(),
    }
}
