//! Time, and the timer.

use core::cell::Cell;
use libos::abi::dispatcher::DispatcherFrame;
use libos::abi::slots::DISPATCHER;
use libos::{invoke, op};

const SECOND_US: u128 = 1_000_000;

/// Microseconds since the machine began, and when the timer goes off.
pub struct Clock {
    hz: u64,
    armed: Cell<Option<i64>>,
}

impl Clock {
    pub fn new(frame: &DispatcherFrame) -> Clock {
        Clock { hz: frame.tsc_hz.max(1), armed: Cell::new(None) }
    }

    pub fn now(&self) -> i64 {
        (u128::from(ticks()) * SECOND_US / u128::from(self.hz)) as i64
    }

    /// The timer went off.
    pub fn expired(&self) {
        self.armed.set(None);
    }

    /// Has it go off at a time, or earlier.
    pub fn arm(&self, at: i64) {
        if self.armed.get().is_some_and(|armed| armed <= at) {
            return;
        }
        self.armed.set(Some(at));
        let ticks = (at.max(0) as u128 * u128::from(self.hz)).div_ceil(SECOND_US);
        let deadline = u64::try_from(ticks).unwrap_or(u64::MAX).max(1);
        // The own dispatcher has a timer.
        let _ = invoke(DISPATCHER, op::SetTimer { deadline });
    }
}

pub fn ticks() -> u64 {
    // SAFETY: reads the time-stamp counter, which every x86-64 has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What nobody outside can know: random bits of the processor, if it has some, and the time.
pub fn seed() -> u64 {
    let mut random = 0;
    let [_, _, features, _] = cpuid(1);
    if features & RDRAND != 0 {
        // SAFETY: the processor has the instruction.
        unsafe { random_bits(&mut random) };
    }
    random ^ ticks()
}

/// A bit of `ecx` of leaf 1.
const RDRAND: u32 = 1 << 30;

fn cpuid(leaf: u32) -> [u32; 4] {
    let all = core::arch::x86_64::__cpuid(leaf);
    [all.eax, all.ebx, all.ecx, all.edx]
}

#[target_feature(enable = "rdrand")]
fn random_bits(to: &mut u64) {
    core::arch::x86_64::_rdrand64_step(to);
}
