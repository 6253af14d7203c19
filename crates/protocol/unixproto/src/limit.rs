//! Limits of a process that `unixd` enforces, by their numbers in Linux.

/// `RLIMIT_CPU`: processor time, seconds.
pub const CPU: u32 = 0;
/// `RLIMIT_FSIZE`: how large the process makes files, bytes.
pub const FSIZE: u32 = 1;
/// `RLIMIT_NPROC`: how many threads its user may have for it to make another.
pub const NPROC: u32 = 6;
/// These.
pub const ENFORCED: [u32; 3] = [CPU, FSIZE, NPROC];
/// No limit.
pub const NONE: u64 = u64::MAX;
/// `RLIMIT_NPROC` of the first process, soft and hard.
pub const FIRST_NPROC: u64 = 4096;
