//! Performance counters: the architectural ones of Intel, as CPUID leaf 0xa describes them.
//!
//! They count and never interrupt. Where the leaf says nothing, as in an emulator without them, there
//! are none.

use super::cpu::{cpuid, read_msr, write_msr};
use crate::arch::{PerfCounter, PerfFacts};

mod msr {
    pub const COUNTER: u32 = 0xc1;
    pub const EVENT: u32 = 0x186;
    pub const FIXED: u32 = 0x309;
    pub const FIXED_CONTROL: u32 = 0x38d;
    pub const GLOBAL_CONTROL: u32 = 0x38f;
}

/// Bits of an event that programs may choose: event, unit mask, and from bit 16 on user and kernel.
const EVENT_BITS: u64 = 0xffff;
const MODES_AT: u32 = 16;
const ENABLE: u64 = 1 << 22;

/// What this processor has.
pub fn perf_facts() -> PerfFacts {
    let leaf = cpuid(0xa, 0);
    let version = leaf.eax as u8;
    if version == 0 {
        return PerfFacts::default();
    }
    let events = leaf.eax >> 24;
    let known = if events >= 32 { u32::MAX } else { (1 << events) - 1 };
    PerfFacts {
        version,
        programmable: (leaf.eax >> 8) as u8,
        width: (leaf.eax >> 16) as u8,
        fixed: if version >= 2 { leaf.edx as u8 & 0x1f } else { 0 },
        missing: leaf.ebx & known | !known,
    }
}

/// Sets a counter to zero and lets it count `event`, or stops it if no mode is asked for.
///
/// # Safety
/// [`perf_facts`] says that there is such a counter; `event` has at most 18 bits.
pub unsafe fn perf_start(counter: PerfCounter, event: u64) {
    let modes = event >> MODES_AT & 3;
    // SAFETY: the caller's promise; the counters do not reach memory.
    unsafe {
        let global = match counter {
            PerfCounter::Programmable(n) => {
                write_msr(msr::EVENT + n, 0);
                write_msr(msr::COUNTER + n, 0);
                let enable = if modes != 0 { ENABLE } else { 0 };
                write_msr(msr::EVENT + n, event & EVENT_BITS | modes << MODES_AT | enable);
                1 << n
            }
            PerfCounter::Fixed(n) => {
                // Bit 0 of the control field: kernel; bit 1: user.
                let field = (modes >> 1 | (modes & 1) << 1) << (4 * n);
                let others = read_msr(msr::FIXED_CONTROL) & !(0xf << (4 * n));
                write_msr(msr::FIXED_CONTROL, others);
                write_msr(msr::FIXED + n, 0);
                write_msr(msr::FIXED_CONTROL, others | field);
                1 << (32 + n)
            }
        };
        if perf_facts().version >= 2 {
            write_msr(msr::GLOBAL_CONTROL, read_msr(msr::GLOBAL_CONTROL) | global);
        }
    }
}

/// A counter's value.
///
/// # Safety
/// [`perf_facts`] says that there is such a counter.
pub unsafe fn perf_read(counter: PerfCounter) -> u64 {
    let register = match counter {
        PerfCounter::Programmable(n) => msr::COUNTER + n,
        PerfCounter::Fixed(n) => msr::FIXED + n,
    };
    // SAFETY: the caller's promise.
    unsafe { read_msr(register) }
}
