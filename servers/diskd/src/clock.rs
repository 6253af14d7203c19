//! What time it is.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use libos::abi::dispatcher::DispatcherFrame;

const SECOND: u128 = 1_000_000_000;
/// Ticks of the clock in a second, and nanoseconds since 1970 when it was zero: written once, at the start.
static HZ: AtomicU64 = AtomicU64::new(1);
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Takes what the kernel has put into the frame.
pub fn start(frame: &DispatcherFrame) {
    HZ.store(frame.tsc_hz.max(1), Relaxed);
    EPOCH.store(frame.epoch_ns, Relaxed);
}

/// Nanoseconds since 1970.
pub fn now() -> i64 {
    // SAFETY: reads the time-stamp counter, which every x86-64 has.
    let ticks = unsafe { core::arch::x86_64::_rdtsc() };
    let since = (u128::from(ticks) * SECOND / u128::from(HZ.load(Relaxed))) as u64;
    EPOCH.load(Relaxed).saturating_add(since) as i64
}
