//! Limits of a process that `unixd` enforces or shows, by their numbers in Linux.

use linux_raw_sys::general::{
    RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_RSS, RLIMIT_SIGPENDING,
};

/// `RLIMIT_CPU`: processor time, seconds.
pub const CPU: u32 = RLIMIT_CPU;
/// `RLIMIT_FSIZE`: how large the process makes files, bytes.
pub const FSIZE: u32 = RLIMIT_FSIZE;
/// `RLIMIT_NPROC`: how many threads its user may have for it to make another.
pub const NPROC: u32 = RLIMIT_NPROC;
/// `RLIMIT_RSS`, `RLIMIT_SIGPENDING`: only shown.
pub const RSS: u32 = RLIMIT_RSS;
pub const SIGPENDING: u32 = RLIMIT_SIGPENDING;
/// Those that it enforces.
pub const ENFORCED: [u32; 3] = [CPU, FSIZE, NPROC];
/// No limit.
pub const NONE: u64 = u64::MAX;
/// `RLIMIT_NPROC` of the first process, soft and hard.
pub const FIRST_NPROC: u64 = 4096;
