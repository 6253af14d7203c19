//! Invocations of ports, interrupt lines and performance counters.

use super::endpoint::listener;
use super::{operations, run, Outcome};
use crate::dispatch::line;
use crate::driver::CpuDriver;
use crate::machine;
use crate::object::{DcbRef, Listener};
use captypes::invocations::{IoOp, IrqOp, PerfMonOp, Value};

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

/// Of performance counters.
#[inline(never)]
pub(super) fn dispatch_perf(local: &mut CpuDriver, dcb: DcbRef, op: PerfMonOp) -> Outcome {
    operations! { local, dcb, op: PerfMonOp;
        PerfInfo |_, _| Ok(Value { value: machine::perf_info() });
        PerfProgram |_, a| machine::perf_program(a.counter, a.event);
        PerfRead |_, a| machine::perf_read(a.counter);
    }
}
