//! Invocations of Dispatchers.

use super::{endpoint, object, outcome, redirect, run, settled, survived, Outcome};
use crate::arch::{self, Breakpoints};
use crate::cap::lookup::used_slot;
use crate::cap::CapExt;
use crate::dispatch;
use crate::driver::CpuDriver;
use crate::object::dcb::flag;
use crate::object::{Dcb, DcbRef, Schedule, SlotRef};
use crate::operations::calls::{self, Lent};
use crate::operations::{configure, hiding, raising, Settings};
use crate::vspace::protect_here;
use captypes::invocations::{DispatcherOp, Value, LENDS_READ, LENDS_WRITE};
use captypes::{op, CapType, Invocation, Place, Rights, Status};

/// Of Dispatchers.
#[inline(never)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: DispatcherOp) -> Outcome {
    let dispatcher = |target| object::<Dcb>(dcb, target);
    match op {
        DispatcherOp::Reply => outcome(endpoint::reply(local, dcb)),
        DispatcherOp::Configure => configure(local, dcb),
        DispatcherOp::Start => {
            run(local, dcb, |local, t, _: op::Start| local.sched.start(dcb, dispatcher(t)?))
        }
        DispatcherOp::Suspend => {
            let outcome = run(local, dcb, |local, t, _: op::Suspend| {
                let target = dispatcher(t);
                if target != Ok(dcb) {
                    check_authority(dcb, t, target, Rights::REVOKE)?;
                }
                local.sched.suspend(target?)
            });
            endpoint::or_abroad(local, dcb, outcome)
        }
        DispatcherOp::Continue => {
            let outcome = run(local, dcb, |local, t, _: op::Continue| {
                let target = dispatcher(t);
                check_authority(dcb, t, target, op::Continue::NEEDS)?;
                local.sched.resume(target?)
            });
            endpoint::or_abroad(local, dcb, outcome)
        }
        DispatcherOp::Yield => run(local, dcb, |local, t, _: op::Yield| {
            if dispatcher(t)? != dcb {
                return Err(Status::WrongState);
            }
            local.sched.yield_now(dcb);
            Ok(())
        }),
        DispatcherOp::Wait => settled(wait(local, dcb)),
        DispatcherOp::SetTimer => run(local, dcb, |local, t, a: op::SetTimer| {
            local.sched.set_timer(dispatcher(t)?, a.deadline);
            Ok(())
        }),
        DispatcherOp::SetFsBase => {
            run(local, dcb, |local, t, a: op::SetFsBase| set_fs_base(local, dispatcher(t)?, a.base))
        }
        DispatcherOp::SetBreakpoints => run(local, dcb, |local, t, a: op::SetBreakpoints| {
            set_breakpoints(local, dispatcher(t)?, &a)
        }),
        DispatcherOp::SetAffinity => run(local, dcb, |local, t, a: op::SetAffinity| {
            local.sched.set_affinity(dispatcher(t)?, a.mask)
        }),
        DispatcherOp::SetSchedule => {
            let outcome = run(local, dcb, |local, t, args: op::SetSchedule| {
                let target = dispatcher(t);
                check_authority(dcb, t, target, op::SetSchedule::NEEDS)?;
                if !used_slot(dcb, args.kernel)?.cap().is(CapType::Kernel) {
                    return Err(Status::WrongType);
                }
                let schedule = schedule(&args)?;
                dispatch::set_schedule(&mut local.sched, target?, schedule);
                Ok(())
            });
            endpoint::or_abroad(local, dcb, outcome)
        }
        DispatcherOp::CopyFromCaller => run(local, dcb, |local, t, a: op::CopyFromCaller| {
            let lent = Lent::of(dcb, endpoint::caller(local, dcb, t)?, LENDS_READ)?;
            Ok(calls::copy_out(local, dcb, lent, a))
        }),
        DispatcherOp::CopyToCaller => run(local, dcb, |local, t, a: op::CopyToCaller| {
            let lent = Lent::of(dcb, endpoint::caller(local, dcb, t)?, LENDS_WRITE)?;
            Ok(calls::copy_in(local, dcb, lent, a))
        }),
        DispatcherOp::CopyBetween => run(local, dcb, |local, t, a: op::CopyBetween| {
            let from = Lent::of(dcb, endpoint::caller(local, dcb, t)?, LENDS_READ)?;
            let to = Lent::of(dcb, endpoint::caller(local, dcb, a.to)?, LENDS_WRITE)?;
            Ok(calls::copy_between(local, from, to, a))
        }),
        DispatcherOp::ProtectHere => run(local, dcb, |local, _, args: op::ProtectHere| {
            let space = (dcb.root.get(), dcb.home.get());
            let CpuDriver { vm, sched, .. } = local;
            protect_here(vm, space, (args.at, args.bytes), args.flags, || sched.wait_for_others())
        }),
        DispatcherOp::HideHere => run(local, dcb, |local, _, args: op::HideHere| {
            let value = hiding::hide(local, dcb, args.at, args.first..args.end)?;
            Ok(Value { value })
        }),
        DispatcherOp::ShowHere => {
            run(local, dcb, |_, _, args: op::ShowHere| hiding::show(dcb, args.at))
        }
        DispatcherOp::RaiseHere => run(local, dcb, |local, _, args: op::RaiseHere| {
            raising::raise(local, dcb, args.at, (args.from, args.to))
        }),
        DispatcherOp::Usage => {
            let outcome =
                run(local, dcb, |local, t, _: op::Usage| Ok(local.sched.usage(dispatcher(t)?)));
            endpoint::or_abroad(local, dcb, outcome)
        }
    }
}

/// May the invoker decide whether somebody else runs, here or on another core? Only who could take it away altogether.
fn check_authority(
    dcb: DcbRef,
    place: Place,
    target: Result<DcbRef, Status>,
    right: Rights,
) -> Result<(), Status> {
    if !matches!(target, Ok(_) | Err(Status::Unsupported)) {
        return target.map(drop);
    }
    match used_slot(dcb, place)?.cap().rights_set().has(right) {
        true => Ok(()),
        false => Err(Status::NoRights),
    }
}

/// What [`op::SetSchedule`] says.
pub(super) fn schedule(args: &op::SetSchedule) -> Result<Schedule, Status> {
    const TAKES_TURNS: u32 = 1;
    if args.options & !TAKES_TURNS != 0 {
        return Err(Status::Invalid);
    }
    let takes_turns = args.options & TAKES_TURNS != 0;
    Schedule::new(args.priority, takes_turns, args.weight).ok_or(Status::Invalid)
}

/// May take several events, and delete its own dispatcher.
fn configure(local: &mut CpuDriver, dcb: DcbRef) -> Outcome {
    local.caps.budget.begin();
    let outcome = run(local, dcb, |local, target, args| {
        let (target, settings) = (object::<Dcb>(dcb, target)?, settings(dcb, args)?);
        configure::configure(local, dcb, target, settings)
    });
    if redirect::is_alive(local, dcb) {
        dcb.clear(flag::CONFIGURING);
        if outcome == Status::Again.to_word() {
            dcb.set(flag::CONFIGURING);
        }
    }
    survived(local, dcb, outcome)
}

/// What the slots that are named hold.
fn settings(dcb: DcbRef, args: op::Configure) -> Result<Settings, Status> {
    let find = |place: Place| -> Result<Option<SlotRef>, Status> {
        if place.is_null() {
            Ok(None)
        } else {
            used_slot(dcb, place).map(Some)
        }
    };
    Ok(Settings {
        cspace: find(args.cspace)?,
        vspace: find(args.vspace)?,
        frame: find(args.frame)?,
        frame_va: args.frame_va,
        fault_ep: find(args.fault_ep)?,
        options: args.options,
    })
}

fn wait(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    if object::<Dcb>(dcb, Place(dcb.ctx.rdi.get()))? != dcb {
        return Err(Status::WrongState);
    }
    local.sched.wait(dcb);
    Ok(())
}

fn set_fs_base(local: &mut CpuDriver, target: DcbRef, base: u64) -> Result<(), Status> {
    if base >= arch::user_end() {
        return Err(Status::OutOfRange);
    }
    // While it waits at another core nobody loads them there.
    if !target.trip.abroad.get() {
        local.sched.bring_home(target);
    }
    target.bases.fs.set(base);
    if local.sched.current() == Some(target) {
        arch::write_fs_base(base);
    }
    Ok(())
}

fn set_breakpoints(
    local: &mut CpuDriver,
    target: DcbRef,
    args: &op::SetBreakpoints,
) -> Result<(), Status> {
    /// What `control` may have: switches and kinds.
    const MEANT: u64 = 0xffff_00ff;
    /// A breakpoint's bytes at most.
    const LONGEST: u64 = 8;
    let &op::SetBreakpoints { address0, address1, address2, address3, control } = args;
    let addresses = [address0, address1, address2, address3];
    let watches_ports = (16..32).step_by(4).any(|bit| control >> bit & 3 == 2);
    if control & !MEANT != 0 || watches_ports {
        return Err(Status::Invalid);
    }
    if addresses.iter().any(|&address| address > arch::user_end() - LONGEST) {
        return Err(Status::OutOfRange);
    }
    if target.trip.abroad.get() {
        return Err(Status::WrongState);
    }
    local.sched.bring_home(target);
    dispatch::set_breakpoints(&mut local.sched, target, Breakpoints { addresses, control });
    Ok(())
}
