//! Limits of a process that `unixd` enforces, by their numbers in Linux.

/// `RLIMIT_CPU`: processor time, seconds.
pub const CPU: u32 = 0;
/// `RLIMIT_FSIZE`: how large the process makes files, bytes.
pub const FSIZE: u32 = 1;
/// How many these are.
pub const COUNT: usize = 2;
/// No limit.
pub const NONE: u64 = u64::MAX;
