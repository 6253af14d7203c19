//! Processor time.

use crate::clock::Clock;
use captypes::op;
use core::ops::{Add, AddAssign};
use libos::{invoke, CapAddr};

/// Processor time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuTime {
    /// All of it.
    pub ns: u64,
    /// How much of that is the system's: of the library and the kernel. The kernel samples it.
    pub system: u64,
}

impl CpuTime {
    /// What a dispatcher has used; nothing if it is gone.
    pub fn of(dispatcher: CapAddr, clock: &Clock) -> CpuTime {
        let used = invoke(dispatcher, op::Usage {}).ok();
        used.map_or_else(CpuTime::default, |used| CpuTime {
            ns: clock.ns(used.ticks),
            system: clock.ns(used.system),
        })
    }
    /// What a dispatcher with a priority has used since it waited for anything, in nanoseconds.
    pub fn unbroken(dispatcher: CapAddr, clock: &Clock) -> u64 {
        invoke(dispatcher, op::Usage {}).map_or(0, |used| clock.ns(used.unbroken))
    }
    /// How much of it is the program's.
    pub fn user(self) -> u64 {
        self.ns.saturating_sub(self.system)
    }
}

impl Add for CpuTime {
    type Output = CpuTime;
    fn add(self, other: CpuTime) -> CpuTime {
        CpuTime { ns: self.ns + other.ns, system: self.system + other.system }
    }
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: CpuTime) {
        *self = *self + other;
    }
}
