//! Decoding an invocation: registers to typed arguments, places to slots, and one function.
//!
//! Everything that arrives here is user input. What is decoded is checked by the type of the
//! argument; what a place names is checked by `lookup`; all other checks are in the functions.

use crate::arch;
use crate::cap::delete::BUDGET;
use crate::cap::lookup::{free_slot, own_slot, slot, slots, used_slot};
use crate::cap::mem::Obj;
use crate::cap::retype::Order;
use crate::cap::{CapExt, SlotRef};
use crate::dispatch::dcb::flag;
use crate::dispatch::{Dcb, DcbRef, Local, Settings};
use crate::ipc::Endpoint;
use crate::machine;
use crate::vspace::MapArgs;
use captypes::invocations::{Counter, Reply, Value};
use captypes::{op, CapAddr, CapType, Invocation, Label, Place, Rights, Status};

/// What an invocation has come to.
enum Outcome {
    /// Results or a status for the invoker.
    Done(Result<(), Status>),
    /// The registers are as they should be, or the invoker waits.
    Settled,
}

/// Decodes the arguments, runs `f`, and stores its results.
#[inline(always)]
fn run<I: Invocation>(
    local: &mut Local,
    dcb: DcbRef,
    f: impl FnOnce(&mut Local, I) -> Result<I::Reply, Status>,
) -> Outcome {
    let result = I::decode(&dcb.ctx.args()).and_then(|args| f(local, args));
    Outcome::Done(result.map(|reply| {
        if size_of::<I::Reply>() != 0 {
            dcb.ctx.set_words(&reply.encode());
        }
    }))
}

/// Performs the invocation in the registers of `dcb`, the current dispatcher.
pub fn invoke(local: &mut Local, dcb: DcbRef) {
    local.add(Counter::Invocations, 1);
    let outcome = match Label::from_u16(dcb.ctx.rax.get() as u16) {
        Some(label) => dispatch(local, dcb, label),
        None => Outcome::Done(Err(Status::Invalid)),
    };
    // A dispatcher that has deleted itself is not current any more, and must not be written to.
    if let (Outcome::Done(result), true) = (outcome, local.current == Some(dcb)) {
        dcb.ctx.set_status(result);
    }
}

#[inline(always)]
fn dispatch(local: &mut Local, dcb: DcbRef, label: Label) -> Outcome {
    let target = Place(dcb.ctx.rdi.get());
    let used = |place| used_slot(dcb, place);
    let free = |place| free_slot(dcb, place);
    match label {
        Label::Copy => run(local, dcb, |local, a: op::Copy| {
            let (src, dst) = (used(target)?, free(a.dst)?);
            local.copy(src, dst)
        }),
        Label::Mint => run(local, dcb, |local, a: op::Mint| {
            local.mint(used(target)?, free(a.dst)?, a.rights, a.badge)
        }),
        Label::Move => run(local, dcb, |local, a: op::Move| {
            local.move_cap(used(target)?, free(a.dst)?);
            Ok(())
        }),
        Label::Retype => run(local, dcb, |local, a: op::Retype| {
            let order = Order { ty: a.ty, offset: a.offset, bytes: a.bytes, count: a.count };
            local.retype(used(target)?, order, slots(dcb, a.dst, a.count)?)
        }),
        Label::RetypeCopy => run(local, dcb, |local, a: op::RetypeCopy| {
            let (ram, src, dst) = (used(target)?, used(a.src)?, slot(dcb, a.dst)?);
            if dst != src && !dst.is_empty() {
                return Err(Status::Occupied);
            }
            local.work = BUDGET;
            local.retype_copy(ram, a.offset, src, a.src_offset, dst)
        }),
        Label::Identify => {
            run(local, dcb, |local, _: op::Identify| Ok(local.identify(used(target)?)))
        }
        Label::CopyRange => run(local, dcb, |local, a: op::CopyRange| {
            let (src, dst) = (slots(dcb, target, a.count)?, slots(dcb, a.dst, a.count)?);
            local.copy_range(src, dst, a.only)
        }),
        Label::Delete | Label::Revoke | Label::DeleteRange => destroy(local, dcb, label, target),
        Label::Map => run(local, dcb, |local, a: op::Map| {
            let args = MapArgs { entry: a.entry, count: a.count, offset: a.offset, flags: a.flags };
            local.map(used(target)?, used(a.src)?, args, free(a.mapping)?)
        }),
        Label::MapMany => run(local, dcb, |local, a: op::MapMany| {
            let (src, dst) = (slots(dcb, a.src, a.count)?, slots(dcb, a.mapping, a.count)?);
            local.map_many(used(target)?, src, a.entry, a.flags, dst)
        }),
        Label::Protect => run(local, dcb, |local, a: op::Protect| {
            local.protect(used(target)?, a.first, a.count, a.flags)
        }),
        Label::ProtectMany => run(local, dcb, |local, a: op::ProtectMany| {
            local.protect_many(slots(dcb, target, a.count)?, a.flags)
        }),
        Label::Unmap => run(local, dcb, |local, a: op::Unmap| {
            local.unmap(used(target)?, a.first, a.count, free(a.rest))
        }),
        Label::ReadEntry => run(local, dcb, |local, a: op::ReadEntry| {
            local.read_entry(used(target)?, a.entry).map(|value| Value { value })
        }),
        Label::Call => message(call(local, dcb, target)),
        Label::ReplyRecv => message(reply_recv(local, dcb, target)),
        Label::Poll => message(poll(local, dcb, target)),
        Label::Reply => Outcome::Done(reply(local, dcb, target)),
        _ => dispatch_rare(local, dcb, label, target),
    }
}

fn destroy(local: &mut Local, dcb: DcbRef, label: Label, target: Place) -> Outcome {
    local.work = BUDGET;
    let repeated = dcb.has(flag::AGAIN);
    dcb.clear(flag::AGAIN);
    let outcome = match label {
        Label::Delete => run(local, dcb, |local, _: op::Delete| {
            let slot = slot(dcb, target)?;
            // The repetition may find the slot empty, and something else left to do.
            if slot.is_empty() && !repeated {
                return Err(Status::Empty);
            }
            local.delete(slot)
        }),
        Label::Revoke => {
            run(local, dcb, |local, _: op::Revoke| local.revoke(used_slot(dcb, target)?))
        }
        _ => run(local, dcb, |local, a: op::DeleteRange| {
            local.delete_range(slots(dcb, target, a.count)?)
        }),
    };
    if matches!(outcome, Outcome::Done(Err(Status::Again))) && local.current == Some(dcb) {
        dcb.set(flag::AGAIN);
    }
    outcome
}

/// The object of type `T` that `target` names.
#[inline]
fn object<T: crate::cap::mem::Object>(dcb: DcbRef, target: Place) -> Result<Obj<T>, Status> {
    Obj::of(&used_slot(dcb, target)?.cap()).ok_or(Status::WrongType)
}

/// The endpoint that `target` names with a right, and its badge.
#[inline]
fn endpoint(dcb: DcbRef, target: Place, right: Rights) -> Result<(Obj<Endpoint>, u32), Status> {
    let cap = used_slot(dcb, target)?.cap();
    let endpoint = Obj::of(&cap).ok_or(Status::WrongType)?;
    if !cap.rights_set().has(right) {
        return Err(Status::NoRights);
    }
    Ok((endpoint, cap.aux))
}

/// The dispatcher to answer.
#[inline]
fn caller(dcb: DcbRef, place: Place) -> Result<DcbRef, Status> {
    if place == Place::CALLER {
        return dcb.caller.get().ok_or(Status::WrongState);
    }
    object::<Dcb>(dcb, place)
}

#[inline]
fn message(result: Result<(), Status>) -> Outcome {
    match result {
        Ok(()) => Outcome::Settled,
        Err(status) => Outcome::Done(Err(status)),
    }
}

#[inline]
fn call(local: &mut Local, dcb: DcbRef, target: Place) -> Result<(), Status> {
    let (endpoint, badge) = endpoint(dcb, target, Rights::SEND)?;
    local.call_endpoint(dcb, endpoint, badge);
    Ok(())
}

#[inline]
fn reply_recv(local: &mut Local, dcb: DcbRef, target: Place) -> Result<(), Status> {
    let (endpoint, _) = endpoint(dcb, target, Rights::RECV)?;
    let to = Place(dcb.ctx.r15.get());
    let to = if to.is_null() { None } else { caller(dcb, to).ok() };
    local.reply_recv(dcb, endpoint, to)
}

fn poll(local: &mut Local, dcb: DcbRef, target: Place) -> Result<(), Status> {
    let (endpoint, _) = endpoint(dcb, target, Rights::RECV)?;
    // `Poll` names no slots: whatever the register holds is not meant, and stays.
    let kept = dcb.ctx.r14.replace(0);
    let received = local.receive_now(dcb, endpoint);
    dcb.ctx.r14.set(kept);
    if received {
        Ok(())
    } else {
        Err(Status::Empty)
    }
}

fn reply(local: &mut Local, dcb: DcbRef, target: Place) -> Result<(), Status> {
    local.reply(dcb, caller(dcb, target)?)
}

/// Invocations that need not be fast.
#[inline(never)]
fn dispatch_rare(local: &mut Local, dcb: DcbRef, label: Label, target: Place) -> Outcome {
    let dispatcher = || object::<Dcb>(dcb, target);
    match label {
        Label::Notify => run(local, dcb, |local, a: op::Notify| notify(local, dcb, target, a.bits)),
        Label::Configure => run(local, dcb, |local, a| configure(local, dcb, dispatcher()?, a)),
        Label::Start => run(local, dcb, |local, _: op::Start| local.start(dispatcher()?)),
        Label::Suspend => run(local, dcb, |local, _: op::Suspend| local.suspend(dispatcher()?)),
        Label::Continue => run(local, dcb, |local, _: op::Continue| local.resume(dispatcher()?)),
        Label::Yield => run(local, dcb, |local, _: op::Yield| {
            if dispatcher()? != dcb {
                return Err(Status::WrongState);
            }
            local.yield_now(dcb);
            Ok(())
        }),
        Label::Wait => wait(local, dcb, dispatcher()),
        Label::SetTimer => run(local, dcb, |local, a: op::SetTimer| {
            local.set_timer(dispatcher()?, a.deadline);
            Ok(())
        }),
        Label::SetFsBase => run(local, dcb, |local, a: op::SetFsBase| {
            set_fs_base(local, dispatcher()?, a.base)
        }),
        Label::Usage => run(local, dcb, |local, _: op::Usage| {
            Ok(Value { value: local.usage(dispatcher()?) })
        }),
        _ => dispatch_machine(local, dcb, label, target),
    }
}

fn dispatch_machine(local: &mut Local, dcb: DcbRef, label: Label, target: Place) -> Outcome {
    let device = |ty| {
        let cap = used_slot(dcb, target)?.cap();
        if cap.is(ty) { Ok(cap) } else { Err(Status::WrongType) }
    };
    let kernel = || device(CapType::Kernel);
    match label {
        Label::Shutdown => run(local, dcb, |_, a: op::Shutdown| {
            kernel()?;
            machine::shutdown(a.status)
        }),
        Label::Log => run(local, dcb, |_, a: op::Log| {
            kernel()?;
            machine::log_bytes(a.len, [a.w0, a.w1, a.w2, a.w3, a.w4])
        }),
        Label::CollectReclaimed => run(local, dcb, |local, _: op::CollectReclaimed| {
            kernel()?;
            Ok(local.collect_reclaimed())
        }),
        Label::ReadCounter => run(local, dcb, |local, a: op::ReadCounter| {
            kernel()?;
            machine::read_counter(local, a.counter)
        }),
        Label::CheckInvariants => run(local, dcb, |local, _: op::CheckInvariants| {
            kernel()?;
            crate::check::check_and_log(local)
        }),
        Label::NotifyReclaimed => run(local, dcb, |local, a: op::NotifyReclaimed| {
            kernel()?;
            (local.reclaim.notify, local.reclaim.bits) = (Some(dcb), a.bits);
            Ok(())
        }),
        Label::PortIn => run(local, dcb, |_, a: op::PortIn| {
            machine::port_in(&device(CapType::Io)?, a.port, a.width)
        }),
        Label::PortOut => run(local, dcb, |_, a: op::PortOut| {
            machine::port_out(&device(CapType::Io)?, a.port, a.width, a.value)
        }),
        Label::PortOutBytes => run(local, dcb, |_, a: op::PortOutBytes| {
            let words = [a.w0, a.w1, a.w2, a.w3, a.w4];
            machine::port_out_bytes(&device(CapType::Io)?, a.port, a.len, words)
        }),
        Label::IrqBind => run(local, dcb, |local, a: op::IrqBind| {
            local.bind_irq(&device(CapType::Irq)?, dcb, a.bits)
        }),
        Label::IrqAck => {
            run(local, dcb, |local, _: op::IrqAck| local.ack_irq(&device(CapType::Irq)?))
        }
        _ => Outcome::Done(Err(Status::Invalid)),
    }
}

/// Notifies a dispatcher, or the receiver of an endpoint.
fn notify(local: &mut Local, dcb: DcbRef, target: Place, bits: u64) -> Result<(), Status> {
    let cap = used_slot(dcb, target)?.cap();
    let target = match Obj::<Dcb>::of(&cap) {
        Some(target) => target,
        None => {
            let (endpoint, _) = endpoint(dcb, target, Rights::SEND)?;
            Local::receiver_of(endpoint).ok_or(Status::WrongState)?
        }
    };
    local.notify(target, bits);
    Ok(())
}

fn configure(
    local: &mut Local,
    dcb: DcbRef,
    target: DcbRef,
    args: op::Configure,
) -> Result<(), Status> {
    local.work = BUDGET;
    let find = |place: Place| -> Result<Option<SlotRef>, Status> {
        if place.is_null() { Ok(None) } else { used_slot(dcb, place).map(Some) }
    };
    let settings = Settings {
        cspace: find(args.cspace)?,
        vspace: find(args.vspace)?,
        frame: find(args.frame)?,
        frame_va: args.frame_va,
        fault_ep: find(args.fault_ep)?,
        options: args.options,
    };
    local.configure(dcb, target, settings)
}

fn wait(local: &mut Local, dcb: DcbRef, target: Result<DcbRef, Status>) -> Outcome {
    match target {
        Ok(target) if target == dcb => match local.wait(dcb) {
            Some(value) => {
                dcb.ctx.set_words(&Value { value }.encode());
                Outcome::Done(Ok(()))
            }
            None => Outcome::Settled,
        },
        Ok(_) => Outcome::Done(Err(Status::WrongState)),
        Err(status) => Outcome::Done(Err(status)),
    }
}

fn set_fs_base(local: &mut Local, target: DcbRef, base: u64) -> Result<(), Status> {
    if !paging::is_user(base) {
        return Err(Status::OutOfRange);
    }
    target.fs_base.set(base);
    if local.current == Some(target) {
        arch::write_fs_base(base);
    }
    Ok(())
}

/// The slot of a dispatcher's own CSpace, for the code that starts `init`.
pub fn slot_of(dcb: DcbRef, addr: CapAddr) -> Result<SlotRef, Status> {
    own_slot(dcb, addr)
}
