//! How processes are scheduled: numbers of `Schedule`.

/// The nice value, told as 20 minus it.
pub const GET_NICE: u32 = 0;
/// Sets it.
pub const SET_NICE: u32 = 1;
/// Policy and priority of a thread, as a [`Policy`] in a word.
pub const GET_POLICY: u32 = 2;
/// Sets both, and the nice value if it is said.
pub const SET_POLICY: u32 = 3;
/// Class and level of input and output.
pub const GET_IO: u32 = 4;
/// Sets them.
pub const SET_IO: u32 = 5;

/// The cores on which a thread may run, bit n for core n; 0: all.
pub const GET_CORES: u32 = 6;
/// Sets them, of any thread but the caller.
pub const SET_CORES: u32 = 7;

/// A thread.
pub const PROCESS: u32 = 0;
/// The threads of the processes of a group.
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

/// What `SET_POLICY` sets and `GET_POLICY` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// `SCHED_*`, with [`RESET_ON_FORK`].
    pub policy: u32,
    pub priority: u8,
    /// The nice value, if that is set, too.
    pub nice: Option<i8>,
}

/// Where the parts of a word are.
const PRIORITY_SHIFT: u32 = 32;
const NICE_SHIFT: u32 = 40;
const HAS_NICE: u64 = 1 << 48;

impl Policy {
    /// In a word.
    pub fn word(self) -> u64 {
        let nice = self.nice.map_or(0, |nice| u64::from(nice as u8) << NICE_SHIFT | HAS_NICE);
        u64::from(self.policy) | u64::from(self.priority) << PRIORITY_SHIFT | nice
    }
    /// From a word.
    pub fn of(word: u64) -> Policy {
        let nice = (word & HAS_NICE != 0).then_some((word >> NICE_SHIFT) as i8);
        Policy { policy: word as u32, priority: (word >> PRIORITY_SHIFT) as u8, nice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_fit_in_words() {
        for nice in [None, Some(-20), Some(19), Some(0)] {
            let policy = Policy { policy: BATCH | RESET_ON_FORK, priority: 255, nice };
            assert_eq!(Policy::of(policy.word()), policy);
        }
    }
}
