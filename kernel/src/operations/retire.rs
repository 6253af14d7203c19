//! The end of a dispatcher.

use super::endpoints::{abandon_callers, ARRIVALS_PER_STEP};
use crate::cap::budget::Progress;
use crate::dispatch::close_arrivals;
use crate::driver::CpuDriver;
use crate::object::{DcbRef, Listener};

/// A dispatcher that is to be taken apart leaves everything that it is in.
pub fn retire(cpu: &mut CpuDriver, dcb: DcbRef) -> Progress {
    abandon_callers(cpu, dcb)?;
    let passed = close_arrivals(&mut cpu.sched, dcb.pa());
    cpu.caps.spend(passed / ARRIVALS_PER_STEP);
    cpu.sched.stop(dcb);
    cpu.sched.forget(dcb);
    cpu.monitor.forget_client(dcb);
    cpu.caps.forget(dcb);
    cpu.reclaim.forget(dcb);
    cpu.doorbell.forget(dcb);
    cpu.irqs.silence(Listener::Dispatcher(dcb));
    Ok(())
}
