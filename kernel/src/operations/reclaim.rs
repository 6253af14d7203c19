//! Memory comes back, but not before other cores have forgotten it.

use crate::driver::CpuDriver;

/// Puts `[base, base + bytes)` on the list, which only a home covers.
#[inline]
pub fn reclaim(cpu: &mut CpuDriver, base: u64, bytes: u64) {
    cpu.caps.asks.away.remove(base, base + bytes);
    if cpu.vm.is_pending_elsewhere() {
        return reclaim_later(cpu, base, bytes);
    }
    reclaim_now(cpu, base, bytes);
}

/// The same with memory that programs on other cores may be writing to: the list is in there.
#[inline(never)]
fn reclaim_later(cpu: &mut CpuDriver, base: u64, bytes: u64) {
    if !cpu.reclaim.keep(base, bytes) {
        let CpuDriver { vm, sched, .. } = cpu;
        vm.shoot_down(|| sched.wait_for_others());
        reclaim_kept(cpu);
        reclaim_now(cpu, base, bytes);
    }
}

/// Has forgotten, here and elsewhere, what the present event has taken away. Memory that had to wait for
/// that comes back.
#[inline(never)]
pub fn flush_translations(cpu: &mut CpuDriver) {
    let CpuDriver { vm, sched, .. } = cpu;
    vm.flush(|| sched.wait_for_others());
    reclaim_kept(cpu);
}

/// Nobody writes any more to what was kept.
#[inline]
fn reclaim_kept(cpu: &mut CpuDriver) {
    for n in 0..cpu.reclaim.release() {
        if let Some((base, bytes)) = cpu.reclaim.released(n) {
            reclaim_now(cpu, base, bytes);
        }
    }
}

#[inline]
fn reclaim_now(cpu: &mut CpuDriver, base: u64, bytes: u64) {
    if let Some((dcb, bits)) = cpu.reclaim.add(base, bytes) {
        cpu.sched.notify(dcb, bits);
    }
}
