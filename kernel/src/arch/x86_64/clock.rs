//! How fast the counters run, and what time it is.
//!
//! The time stamp counter is the kernel's only clock. Its frequency comes from CPUID or from the
//! hypervisor where they tell; else it is measured for some milliseconds against the programmable
//! interval timer, together with the local APIC's timer, which nobody tells about.

use super::cpu::{self, tsc, Features};
use super::port::{in8, out8};

/// Frequency of the interval timer.
const PIT_HZ: u64 = 1_193_182;
/// For how many of its ticks we measure at least: 5 ms.
const SHORTEST: u64 = PIT_HZ / 200;

/// Ticks a second of the two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub tsc_hz: u64,
    /// Of the local APIC's timer at the divisor that `apic` uses.
    pub apic_hz: u64,
}

/// Finds the rates. `apic_ticks` reads how far the local APIC's timer, which runs, has counted.
pub fn measure(features: &Features, apic_ticks: impl Fn() -> u64) -> Rates {
    let (before, after) = measure_against_pit(apic_ticks);
    let pit_ticks = after.pit - before.pit;
    let per_second = |ticks: u64| ticks * PIT_HZ / pit_ticks;
    let tsc_hz = told_tsc_hz(features).unwrap_or_else(|| per_second(after.tsc - before.tsc));
    Rates { tsc_hz, apic_hz: per_second(after.apic - before.apic).max(1) }
}

/// The frequency of the time stamp counter, if CPUID has it.
fn told_tsc_hz(features: &Features) -> Option<u64> {
    const HYPERVISOR_FREQUENCIES: u32 = 0x4000_0010;
    let told = cpu::cpuid(0x15, 0);
    if told.eax != 0 && told.ebx != 0 && told.ecx != 0 {
        return Some(u64::from(told.ecx) * u64::from(told.ebx) / u64::from(told.eax));
    }
    if features.hypervisor && cpu::cpuid(0x4000_0000, 0).eax >= HYPERVISOR_FREQUENCIES {
        let khz = cpu::cpuid(HYPERVISOR_FREQUENCIES, 0).eax;
        return (khz != 0).then_some(u64::from(khz) * 1000);
    }
    let mhz = cpu::cpuid(0x16, 0).eax & 0xffff;
    (mhz != 0).then_some(u64::from(mhz) * 1_000_000)
}

/// The three counters at one moment.
struct Sample {
    tsc: u64,
    apic: u64,
    /// Ticks since the interval timer was started.
    pit: u64,
}

const CHANNEL_2: u16 = 0x42;
const COMMAND: u16 = 0x43;

/// Reads the counters twice, at least [`SHORTEST`] apart. Tries again if the interval timer, whose
/// count has 16 bits, came round in between: a guest may have been away for long.
fn measure_against_pit(apic_ticks: impl Fn() -> u64) -> (Sample, Sample) {
    const GATE: u16 = 0x61;
    /// Channel 2, both bytes, count down once.
    const ONE_SHOT: u8 = 0b1011_0000;
    const CAME_ROUND: u8 = 1 << 5;
    loop {
        // SAFETY: the timer and the speaker's gate do not reach memory.
        unsafe {
            out8(GATE, in8(GATE) & !0b11 | 1);
            out8(COMMAND, ONE_SHOT);
            out8(CHANNEL_2, 0xff);
            out8(CHANNEL_2, 0xff);
        }
        let before = sample(&apic_ticks);
        while read_all(&apic_ticks).0.pit - before.pit < SHORTEST {}
        let after = sample(&apic_ticks);
        // SAFETY: as above.
        let gate = unsafe { in8(GATE) };
        if gate & CAME_ROUND == 0 {
            return (before, after);
        }
    }
}

/// The best of some readings: the one in which the least time passed.
fn sample(apic_ticks: &impl Fn() -> u64) -> Sample {
    let mut best = read_all(apic_ticks);
    for _ in 1..8 {
        let next = read_all(apic_ticks);
        if next.1 < best.1 {
            best = next;
        }
    }
    best.0
}

/// Reads all three, and says how long that took. One copy of the code for all readings: the first
/// time that an emulator meets it is much slower than the others.
#[inline(never)]
fn read_all(apic_ticks: &impl Fn() -> u64) -> (Sample, u64) {
    /// Holds the count of channel 2 until it is read.
    const LATCH: u8 = 0b1000_0000;
    let start = tsc();
    // SAFETY: the timer does not reach memory.
    unsafe { out8(COMMAND, LATCH) };
    let apic = apic_ticks();
    let end = tsc();
    // SAFETY: as above.
    let (low, high) = unsafe { (in8(CHANNEL_2), in8(CHANNEL_2)) };
    let pit = 0xffff - u64::from(u16::from_le_bytes([low, high]));
    (Sample { tsc: start + (end - start) / 2, apic, pit }, end - start)
}

/// The battery-backed clock's time, in seconds since 1970.
pub fn epoch_seconds() -> u64 {
    // The clock may change while it is read: the same twice is right.
    let mut before = read_clock();
    loop {
        let now = read_clock();
        if now == before {
            return seconds_since_1970(now);
        }
        before = now;
    }
}

/// Year, month, day, hour, minute, second.
type DateTime = [u64; 6];

fn read_clock() -> DateTime {
    const REGISTERS: [u8; 6] = [9, 8, 7, 4, 2, 0];
    const STATUS_A: u8 = 10;
    const STATUS_B: u8 = 11;
    const UPDATING: u8 = 1 << 7;
    const BINARY: u8 = 1 << 2;
    const HOURS_24: u8 = 1 << 1;
    const AFTERNOON: u8 = 1 << 7;
    while cmos(STATUS_A) & UPDATING != 0 {}
    let status = cmos(STATUS_B);
    let number = |raw: u8| {
        let decimal = (raw >> 4) * 10 + (raw & 15);
        u64::from(if status & BINARY != 0 { raw } else { decimal })
    };
    let mut now = REGISTERS.map(|register| number(cmos(register)));
    let raw_hour = cmos(REGISTERS[3]);
    if status & HOURS_24 == 0 {
        let afternoon = u64::from(raw_hour & AFTERNOON != 0) * 12;
        now[3] = number(raw_hour & !AFTERNOON) % 12 + afternoon;
    }
    now[0] += 2000;
    now
}

fn cmos(register: u8) -> u8 {
    // SAFETY: the clock's ports do not reach memory.
    unsafe {
        out8(0x70, register);
        in8(0x71)
    }
}

fn seconds_since_1970([year, month, day, hour, minute, second]: DateTime) -> u64 {
    // Counting years from March puts the leap day last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_to_march_1970 = 719_468;
    let days = 365 * year + year / 4 - year / 100 + year / 400;
    let days = days + (153 * month + 2) / 5 + day - 1 - days_to_march_1970;
    ((days * 24 + hour) * 60 + minute) * 60 + second
}
