//! Numbers of clocks of processor time, and of timers.

/// Of a process, as `CLOCK_PROCESS_CPUTIME_ID`.
pub const PROCESS_CPU: u32 = 2;
/// Of a thread, as `CLOCK_THREAD_CPUTIME_ID`.
pub const THREAD_CPU: u32 = 3;
/// Bit: only what the program uses counts, not the system's part.
pub const USER_ONLY: u32 = 16;
/// Bit of a timer's signal: the timer's number comes with it.
pub const OWN_VALUE: u32 = 256;
