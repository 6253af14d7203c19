//! Invocations of ports, interrupt lines, PCI functions and performance counters.

use super::endpoint::listener;
use super::{operations, run, Outcome};
use crate::cap::lookup::used_slot;
use crate::cap::CapExt;
use crate::devices;
use crate::dispatch::line;
use crate::driver::CpuDriver;
use crate::machine;
use crate::object::{DcbRef, Listener};
use captypes::invocations::{IoOp, IrqOp, PciFunctionOp, PerfMonOp, Value};
use captypes::{CapType, Place, Status};
use mdb::RawCap;

/// Of ports.
#[inline(never)]
pub(super) fn dispatch_io(local: &mut CpuDriver, dcb: DcbRef, op: IoOp) -> Outcome {
    operations! { local, dcb, op: IoOp;
        PortIn |ports, a| machine::port_in(ports, a.port, a.width);
        PortOut |ports, a| machine::port_out(ports, a.port, a.width, a.value);
        PortOutBytes |ports, a| {
            machine::port_out_bytes(ports, a.port, a.len, [a.w0, a.w1, a.w2, a.w3, a.w4])
        };
    }
}

/// Of interrupt lines.
#[inline(never)]
pub(super) fn dispatch_irq(local: &mut CpuDriver, dcb: DcbRef, op: IrqOp) -> Outcome {
    operations! { local, dcb, op: IrqOp;
        IrqBind |cap, a| {
            let to = if a.to.is_null() { Listener::Dispatcher(dcb) } else { listener(dcb, a.to)? };
            local.irqs.bind(line(cap)?, to, a.bits)
        };
        IrqAck |cap, _| local.irqs.acknowledge(line(cap)?);
        IrqMessage |cap, _| machine::irq_message(line(cap)?);
    }
}

/// Of PCI functions.
#[inline(never)]
pub(super) fn dispatch_function(local: &mut CpuDriver, dcb: DcbRef, op: PciFunctionOp) -> Outcome {
    operations! { local, dcb, op: PciFunctionOp;
        AttachFunction |cap, a| devices::attach(cap, &device_space(dcb, a.space)?);
        BlockFunction |cap, _| devices::block(cap);
        NextDeviceFault |cap, _| local.refused.next(cap).ok_or(Status::Empty);
    }
}

fn device_space(dcb: DcbRef, place: Place) -> Result<RawCap, Status> {
    let cap = used_slot(dcb, place)?.cap();
    match cap.is(CapType::DeviceSpace) {
        true => Ok(cap),
        false => Err(Status::WrongType),
    }
}

/// Of performance counters.
#[inline(never)]
pub(super) fn dispatch_perf(local: &mut CpuDriver, dcb: DcbRef, op: PerfMonOp) -> Outcome {
    operations! { local, dcb, op: PerfMonOp;
        PerfInfo |_, _| Ok(Value { value: machine::perf_info() });
        PerfProgram |_, a| machine::perf_program(a.counter, a.event);
        PerfRead |_, a| machine::perf_read(a.counter);
    }
}
