//! Invocations that need not be fast: of dispatchers, the kernel, ports, interrupt lines, counters.

use super::{endpoint, object, run, settled, Outcome};
use crate::arch;
use crate::cap::lookup::{free_slot, used_slot};
use crate::cap::{CapExt, MEMORY};
use crate::dispatch::line;
use crate::driver::CpuDriver;
use crate::ipc;
use crate::machine;
use crate::object::{Dcb, DcbRef, Listener, Obj, SlotRef};
use crate::operations;
use crate::operations::Settings;
use crate::vspace;
use captypes::invocations::{FlushPolicy, Value};
use captypes::{op, CapType, Label, Place, Rights, Status};
use mdb::RawCap;

/// Which table of operations the label is in.
#[inline(never)]
pub fn dispatch(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    match label as u16 {
        ..40 => dispatch_any(local, dcb, label),
        40..60 => dispatch_dispatcher(local, dcb, label),
        60..70 => dispatch_kernel(local, dcb, label),
        70..80 => dispatch_device(local, dcb, label),
        80..90 => dispatch_perf(local, dcb, label),
        90..110 => super::monitor::dispatch(local, dcb, label),
        _ => dispatch_bell(local, dcb, label),
    }
}

/// Of any capability.
#[inline(never)]
fn dispatch_any(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    match label {
        Label::Compare => run(local, dcb, |local, t, a: op::Compare| {
            let same = local.caps.compare(used_slot(dcb, t)?, used_slot(dcb, a.other)?);
            Ok(Value { value: u64::from(same) })
        }),
        Label::Locate => run(local, dcb, |local, t, a: op::Locate| {
            vspace::locate(&local.caps, used_slot(dcb, t)?, used_slot(dcb, a.root)?, a.number)
        }),
        Label::Listen => run(local, dcb, |local, t, a: op::Listen| {
            let (endpoint, _) = endpoint(dcb, t, Rights::RECV)?;
            ipc::listen(&mut local.sched, dcb, endpoint, a.bits);
            Ok(())
        }),
        Label::NewId => run(local, dcb, |local, t, a: op::NewId| {
            let value =
                local.caps.new_id(used_slot(dcb, t)?, free_slot(&local.caps, dcb, a.dst)?)?;
            Ok(Value { value })
        }),
        _ => Status::Invalid.to_word(),
    }
}

/// Of dispatchers.
#[inline(never)]
fn dispatch_dispatcher(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let dispatcher = |target| object::<Dcb>(dcb, target);
    match label {
        Label::Notify => run(local, dcb, |local, t, a: op::Notify| notify(local, dcb, t, a.bits)),
        Label::Configure => run(local, dcb, |local, t, a| configure(local, dcb, dispatcher(t)?, a)),
        Label::Start => {
            run(local, dcb, |local, t, _: op::Start| local.sched.start(dcb, dispatcher(t)?))
        }
        Label::Suspend => run(local, dcb, |local, t, _: op::Suspend| {
            let target = dispatcher(t)?;
            if target != dcb {
                check_authority(dcb, t)?;
            }
            local.sched.suspend(target)
        }),
        Label::Continue => run(local, dcb, |local, t, _: op::Continue| {
            let target = dispatcher(t)?;
            check_authority(dcb, t)?;
            local.sched.resume(target)
        }),
        Label::Yield => run(local, dcb, |local, t, _: op::Yield| {
            if dispatcher(t)? != dcb {
                return Err(Status::WrongState);
            }
            local.sched.yield_now(dcb);
            Ok(())
        }),
        Label::Wait => settled(wait(local, dcb)),
        Label::SetTimer => run(local, dcb, |local, t, a: op::SetTimer| {
            local.sched.set_timer(dispatcher(t)?, a.deadline);
            Ok(())
        }),
        Label::SetFsBase => {
            run(local, dcb, |local, t, a: op::SetFsBase| set_fs_base(local, dispatcher(t)?, a.base))
        }
        Label::SetAffinity => run(local, dcb, |local, t, a: op::SetAffinity| {
            local.sched.set_affinity(dispatcher(t)?, a.mask)
        }),
        Label::Usage => run(local, dcb, |local, t, _: op::Usage| {
            Ok(Value { value: local.sched.usage(dispatcher(t)?) })
        }),
        _ => Status::Invalid.to_word(),
    }
}

/// May the invoker decide whether somebody else runs? Only who could take it away altogether.
fn check_authority(dcb: DcbRef, target: Place) -> Result<(), Status> {
    match used_slot(dcb, target)?.cap().rights_set().has(Rights::REVOKE) {
        true => Ok(()),
        false => Err(Status::NoRights),
    }
}

/// The capability that `target` names, of type `ty`.
pub(super) fn device(dcb: DcbRef, target: Place, ty: CapType) -> Result<RawCap, Status> {
    let cap = used_slot(dcb, target)?.cap();
    if cap.is_foreign() {
        Err(Status::Unsupported)
    } else if cap.is(ty) {
        Ok(cap)
    } else {
        Err(Status::WrongType)
    }
}

/// The same, with a right.
fn device_with(dcb: DcbRef, target: Place, ty: CapType, right: Rights) -> Result<RawCap, Status> {
    let cap = device(dcb, target, ty)?;
    if cap.rights_set().has(right) {
        Ok(cap)
    } else {
        Err(Status::NoRights)
    }
}

/// Of the kernel.
#[inline(never)]
fn dispatch_kernel(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let kernel = |target| device(dcb, target, CapType::Kernel);
    match label {
        Label::Shutdown => run(local, dcb, |local, t, a: op::Shutdown| {
            kernel(t)?;
            machine::shutdown(local, a.status)
        }),
        Label::Log => run(local, dcb, |local, t, a: op::Log| {
            kernel(t)?;
            machine::log_bytes(local, a.len, [a.w0, a.w1, a.w2, a.w3, a.w4])
        }),
        Label::CollectReclaimed => run(local, dcb, |local, t, _: op::CollectReclaimed| {
            kernel(t)?;
            Ok(local.reclaim.collect(&local.caps.db))
        }),
        Label::ReadCounter => run(local, dcb, |local, t, a: op::ReadCounter| {
            kernel(t)?;
            machine::read_counter(local, a.counter, a.core)
        }),
        Label::CheckInvariants => run(local, dcb, |local, t, _: op::CheckInvariants| {
            kernel(t)?;
            crate::check::check_and_log(local)
        }),
        Label::CapabilityAt => run(local, dcb, |local, t, a: op::CapabilityAt| {
            kernel(t)?;
            let slot =
                local.caps.db.iter(MEMORY).nth(a.number as usize).ok_or(Status::OutOfRange)?;
            Ok(local.caps.identify(slot))
        }),
        Label::NotifyReclaimed => run(local, dcb, |local, t, a: op::NotifyReclaimed| {
            kernel(t)?;
            local.reclaim.listen(dcb, a.bits);
            Ok(())
        }),
        Label::SetFlushPolicy => run(local, dcb, |local, t, a: op::SetFlushPolicy| {
            kernel(t)?;
            let policy = FlushPolicy { strategy: a.strategy, threshold: a.threshold };
            Ok(core::mem::replace(&mut local.vm.policy, policy))
        }),
        Label::CollectCycles => run(local, dcb, |local, t, _: op::CollectCycles| {
            kernel(t)?;
            local.caps.budget.begin();
            operations::cycles::collect_cycles(local)
        }),
        _ => Status::Invalid.to_word(),
    }
}

/// Of ports and interrupt lines.
#[inline(never)]
fn dispatch_device(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let io = |target, right| device_with(dcb, target, CapType::Io, right);
    let irq = |target| device(dcb, target, CapType::Irq);
    match label {
        Label::PortIn => run(local, dcb, |_, t, a: op::PortIn| {
            machine::port_in(&io(t, Rights::READ)?, a.port, a.width)
        }),
        Label::PortOut => run(local, dcb, |_, t, a: op::PortOut| {
            machine::port_out(&io(t, Rights::WRITE)?, a.port, a.width, a.value)
        }),
        Label::PortOutBytes => run(local, dcb, |_, t, a: op::PortOutBytes| {
            let words = [a.w0, a.w1, a.w2, a.w3, a.w4];
            machine::port_out_bytes(&io(t, Rights::WRITE)?, a.port, a.len, words)
        }),
        Label::IrqBind => run(local, dcb, |local, t, a: op::IrqBind| {
            let cap = irq(t)?;
            let to = if a.to.is_null() { Listener::Dispatcher(dcb) } else { listener(dcb, a.to)? };
            local.irqs.bind(line(&cap)?, to, a.bits)
        }),
        Label::IrqAck => {
            run(local, dcb, |local, t, _: op::IrqAck| local.irqs.acknowledge(line(&irq(t)?)?))
        }
        _ => Status::Invalid.to_word(),
    }
}

/// Of performance counters.
#[inline(never)]
fn dispatch_perf(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let perf = |target, right| device_with(dcb, target, CapType::PerfMon, right);
    match label {
        Label::PerfInfo => run(local, dcb, |_, t, _: op::PerfInfo| {
            perf(t, Rights::READ)?;
            Ok(Value { value: machine::perf_info() })
        }),
        Label::PerfProgram => run(local, dcb, |_, t, a: op::PerfProgram| {
            perf(t, Rights::WRITE)?;
            machine::perf_program(a.counter, a.event)
        }),
        Label::PerfRead => run(local, dcb, |_, t, a: op::PerfRead| {
            perf(t, Rights::READ)?;
            machine::perf_read(a.counter)
        }),
        _ => Status::Invalid.to_word(),
    }
}

/// Of doorbells, and of who has gone.
#[inline(never)]
fn dispatch_bell(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    let kernel = |target| device(dcb, target, CapType::Kernel);
    match label {
        Label::RingCore => run(local, dcb, |local, t, a: op::RingCore| {
            kernel(t)?;
            local.doorbell.ring(local.core, a.core, &mut local.sched)
        }),
        Label::NotifyRung => run(local, dcb, |local, t, a: op::NotifyRung| {
            kernel(t)?;
            local.doorbell.listen(dcb, a.bits);
            Ok(())
        }),
        Label::Watch => run(local, dcb, |_, t, a: op::Watch| {
            kernel(t)?;
            let (watched, _) = endpoint(dcb, a.endpoint, Rights::SEND)?;
            Ok(Value { value: u64::from(operations::endpoints::watch(watched, a.bits)) })
        }),
        _ => Status::Invalid.to_word(),
    }
}

/// Who is notified through a capability: a dispatcher, or whoever receives at an endpoint.
fn listener(dcb: DcbRef, target: Place) -> Result<Listener, Status> {
    let cap = used_slot(dcb, target)?.cap();
    match Obj::<Dcb>::of(&cap) {
        Some(target) => Ok(Listener::Dispatcher(target)),
        None => Ok(Listener::Endpoint(endpoint(dcb, target, Rights::SEND)?.0)),
    }
}

/// Notifies a dispatcher, or the receiver of an endpoint.
fn notify(local: &mut CpuDriver, dcb: DcbRef, target: Place, bits: u64) -> Result<(), Status> {
    let target = listener(dcb, target)?.dispatcher().ok_or(Status::WrongState)?;
    local.sched.notify(target, bits);
    Ok(())
}

fn configure(
    local: &mut CpuDriver,
    dcb: DcbRef,
    target: DcbRef,
    args: op::Configure,
) -> Result<(), Status> {
    local.caps.budget.begin();
    let find = |place: Place| -> Result<Option<SlotRef>, Status> {
        if place.is_null() {
            Ok(None)
        } else {
            used_slot(dcb, place).map(Some)
        }
    };
    let settings = Settings {
        cspace: find(args.cspace)?,
        vspace: find(args.vspace)?,
        frame: find(args.frame)?,
        frame_va: args.frame_va,
        fault_ep: find(args.fault_ep)?,
        options: args.options,
    };
    operations::configure::configure(local, dcb, target, settings)
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
    local.sched.bring_home(target);
    target.fs_base.set(base);
    if local.sched.current() == Some(target) {
        arch::write_fs_base(base);
    }
    Ok(())
}
