//! Numbers of clocks, and of timers.

/// Where among the offsets of a name space of times that of a clock is, by its number (`CLOCK_MONOTONIC` and its relatives,
/// `CLOCK_BOOTTIME` and its own); `None`: the clock does not count from boot.
pub const fn offset_of(clock: u32) -> Option<usize> {
    match clock {
        1 | 4 | 6 => Some(0),
        7 | 9 => Some(1),
        _ => None,
    }
}

/// Of a process, as `CLOCK_PROCESS_CPUTIME_ID`.
pub const PROCESS_CPU: u32 = 2;
/// Of a thread, as `CLOCK_THREAD_CPUTIME_ID`.
pub const THREAD_CPU: u32 = 3;
/// Bit: only what the program uses counts, not the system's part.
pub const USER_ONLY: u32 = 16;
/// Bit of a timer's signal: the timer's number comes with it.
pub const OWN_VALUE: u32 = 256;
