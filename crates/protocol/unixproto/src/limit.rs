//! Limits of a process that `unixd` enforces or shows, by their numbers in Linux.

use crate::session::LIMITS;
use linux_raw_sys::general::{
    RLIMIT_CORE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE, RLIMIT_NICE,
    RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_RSS, RLIMIT_RTPRIO, RLIMIT_RTTIME, RLIMIT_SIGPENDING,
    RLIMIT_STACK,
};

/// `RLIMIT_CPU`: processor time, seconds.
pub const CPU: u32 = RLIMIT_CPU;
/// `RLIMIT_FSIZE`: how large the process makes files, bytes.
pub const FSIZE: u32 = RLIMIT_FSIZE;
/// `RLIMIT_NPROC`: how many threads its user may have for it to make another.
pub const NPROC: u32 = RLIMIT_NPROC;
/// `RLIMIT_NOFILE`: descriptors are below this.
pub const FILES: u32 = RLIMIT_NOFILE;
/// `RLIMIT_RSS`, `RLIMIT_SIGPENDING`: only shown.
pub const RSS: u32 = RLIMIT_RSS;
pub const SIGPENDING: u32 = RLIMIT_SIGPENDING;
/// `RLIMIT_MSGQUEUE`: bytes that the message queues of a user may need.
pub const MSGQUEUE: u32 = RLIMIT_MSGQUEUE;
/// `RLIMIT_NICE`: 20 less the lowest nice value.
pub const NICE: u32 = RLIMIT_NICE;
/// `RLIMIT_RTPRIO`: the highest priority.
pub const RTPRIO: u32 = RLIMIT_RTPRIO;
/// `RLIMIT_RTTIME`: how long a thread with a priority runs without waiting for anything, microseconds.
pub const RTTIME: u32 = RLIMIT_RTTIME;
/// Those that it enforces.
pub const ENFORCED: [u32; 6] = [CPU, FSIZE, NPROC, NICE, RTPRIO, RTTIME];
/// No limit.
pub const NONE: u64 = u64::MAX;
/// `RLIMIT_NPROC` of the first process, soft and hard.
pub const FIRST_NPROC: u64 = 4096;

/// The limit on descriptors cannot be raised beyond this, and beyond the first only by the administrator.
pub const FILES_MOST: u64 = 16384;
/// `RLIMIT_NOFILE` of the first process, soft and hard, as Linux begins: each description that a process holds takes memory of `unixd`'s.
pub const FIRST_FILES: [u64; 2] = [1024, 4096];

/// What the first process has, soft and hard, by number.
pub const FIRST: [[u64; 2]; LIMITS] = {
    let mut limits = [[NONE; 2]; LIMITS];
    limits[RLIMIT_STACK as usize] = [8 << 20, NONE];
    limits[RLIMIT_CORE as usize] = [0, NONE];
    limits[NPROC as usize] = [FIRST_NPROC; 2];
    limits[RLIMIT_NOFILE as usize] = FIRST_FILES;
    limits[RLIMIT_MEMLOCK as usize] = [8 << 20; 2];
    limits[SIGPENDING as usize] = [4096; 2];
    limits[MSGQUEUE as usize] = [819_200; 2];
    limits[NICE as usize] = [0; 2];
    limits[RTPRIO as usize] = [0; 2];
    limits
};
