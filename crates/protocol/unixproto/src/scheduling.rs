//! How processes are scheduled: numbers of `Schedule`.

/// The nice value, told as 20 minus it.
pub const GET_NICE: u32 = 0;
/// Sets it.
pub const SET_NICE: u32 = 1;
/// The policy, with [`RESET_ON_FORK`], and in the upper half its priority.
pub const GET_POLICY: u32 = 2;
/// Sets both.
pub const SET_POLICY: u32 = 3;
/// Class and level of input and output.
pub const GET_IO: u32 = 4;
/// Sets them.
pub const SET_IO: u32 = 5;

/// A process or one of its threads.
pub const PROCESS: u32 = 0;
/// The processes of a group.
pub const GROUP: u32 = 1;
/// Those of a user.
pub const USER: u32 = 2;

/// `SCHED_*`.
pub const NORMAL: u32 = 0;
pub const FIFO: u32 = 1;
pub const ROUND_ROBIN: u32 = 2;
pub const BATCH: u32 = 3;
pub const IDLE: u32 = 5;
pub const DEADLINE: u32 = 6;
/// The highest priority, of policies that have some.
pub const PRIORITY_MOST: u32 = 99;
/// Children have the usual policy.
pub const RESET_ON_FORK: u32 = 0x4000_0000;

/// Where the class of input and output is.
pub const IO_CLASS_SHIFT: u32 = 13;
/// `IOPRIO_CLASS_*`.
pub const IO_NONE: u32 = 0;
pub const IO_TIMED: u32 = 1;
pub const IO_USUAL: u32 = 2;
pub const IO_IDLE: u32 = 3;
