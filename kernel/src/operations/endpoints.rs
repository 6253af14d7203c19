//! The end of endpoints and of those who receive there.

use crate::cap::budget::{Pause, Progress};
use crate::dispatch::close_arrivals;
use crate::driver::CpuDriver;
use crate::ipc;
use crate::object::{DcbRef, EndpointRef, Listener};
use captypes::Status;

/// Dispatchers from other cores that are passed over for the price of one step.
pub const ARRIVALS_PER_STEP: u32 = 16;

/// The endpoint goes: everybody who waits is told, as far as the work of this event allows.
pub fn close_endpoint(cpu: &mut CpuDriver, endpoint: EndpointRef) -> Progress {
    ipc::dismiss_callers(&mut cpu.sched, &mut cpu.caps, endpoint)?;
    let passed = close_arrivals(&mut cpu.sched, endpoint.pa());
    cpu.caps.spend(passed / ARRIVALS_PER_STEP);
    cpu.irqs.silence(Listener::Endpoint(endpoint));
    cpu.monitor.forget(endpoint);
    tell_watcher(cpu, endpoint);
    if let Some(receiver) = endpoint.receiver.take() {
        receiver.endpoint.set(None);
        crate::dispatch::interrupted(receiver, Status::PeerGone);
        cpu.sched.wake(receiver);
    }
    endpoint.unbind();
    Ok(())
}

/// A dispatcher is deleted: the endpoints that it served have no server any more.
pub fn abandon_callers(cpu: &mut CpuDriver, dcb: DcbRef) -> Progress {
    while let Some(endpoint) = dcb.serves.get() {
        if !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
        ipc::dismiss_callers(&mut cpu.sched, &mut cpu.caps, endpoint)?;
        endpoint.unbind();
        endpoint.orphaned.set(true);
        tell_watcher(cpu, endpoint);
    }
    Ok(())
}

/// Has the endpoint a server? If so the monitor is told when it has none; see
/// [`captypes::op::Watch`].
pub fn watch(endpoint: EndpointRef, bits: u64) -> bool {
    let served = endpoint.server.get().is_some();
    endpoint.watch.set(if served { bits } else { 0 });
    served
}

/// The endpoint has no server any more.
fn tell_watcher(cpu: &mut CpuDriver, endpoint: EndpointRef) {
    let bits = endpoint.watch.take();
    if bits != 0 {
        cpu.monitor.notify(bits, &mut cpu.sched);
    }
}
