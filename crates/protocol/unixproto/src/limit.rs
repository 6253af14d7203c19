//! Limits of a process that `unixd` enforces or shows, by their numbers in Linux.

use crate::session::LIMITS;
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

/// The limit on descriptors cannot be raised beyond this.
pub const FILES_MOST: u64 = 4096;

/// What the first process has, soft and hard, by number.
pub const FIRST: [[u64; 2]; LIMITS] = {
    let mut limits = [[NONE; 2]; LIMITS];
    limits[3] = [8 << 20, NONE]; // RLIMIT_STACK
    limits[4] = [0, NONE]; // RLIMIT_CORE
    limits[NPROC as usize] = [FIRST_NPROC; 2];
    limits[7] = [1024, FILES_MOST]; // RLIMIT_NOFILE
    limits[8] = [8 << 20; 2]; // RLIMIT_MEMLOCK
    limits[11] = [4096; 2]; // RLIMIT_SIGPENDING
    limits[12] = [819_200; 2]; // RLIMIT_MSGQUEUE
    limits[13] = [0; 2]; // RLIMIT_NICE
    limits[14] = [0; 2]; // RLIMIT_RTPRIO
    limits
};
