//! How processes are scheduled: numbers of `Schedule`.

/// The nice value, told as 20 minus it.
pub const GET_NICE: u32 = 0;
/// Sets it.
pub const SET_NICE: u32 = 1;
/// Policy and priority of a thread, as a [`Policy`] in a word.
pub const GET_POLICY: u32 = 2;
/// Sets both, and the nice value if it is said. Of [`DEADLINE`] `a` has its [`Budget`].
pub const SET_POLICY: u32 = 3;
/// Class and level of input and output.
pub const GET_IO: u32 = 4;
/// Sets them.
pub const SET_IO: u32 = 5;

/// The cores on which a thread may run, bit n for core n; 0: all.
pub const GET_CORES: u32 = 6;
/// Sets them, of any thread but the caller.
pub const SET_CORES: u32 = 7;

/// What a thread of the policy [`DEADLINE`] has: data is its [`Budget`]. Answers how many bytes that is: none of any other.
pub const GET_BUDGET: u32 = 8;

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

/// What a thread of the policy [`DEADLINE`] asks for: in each period so long, by then. Nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    pub runtime: u64,
    pub deadline: u64,
    /// Never 0.
    pub period: u64,
    /// [`Budget::FLAGS`].
    pub flags: u64,
}

impl Budget {
    /// Bytes of one in a request.
    pub const BYTES: usize = 32;
    /// `SCHED_FLAG_RECLAIM`, `SCHED_FLAG_DL_OVERRUN`: remembered, without effect.
    pub const FLAGS: u64 = 6;

    /// As `struct sched_attr` says it, where a period of 0 is the deadline. `None`: nobody can have that.
    pub fn new(runtime: u64, deadline: u64, period: u64, flags: u64) -> Option<Budget> {
        const RUNTIME_LEAST: u64 = 1 << 10;
        const PERIODS: core::ops::RangeInclusive<u64> = 100_000..=(1 << 22) * 1000;
        let period = if period == 0 { deadline } else { period };
        let is_one = deadline != 0
            && RUNTIME_LEAST <= runtime
            && runtime <= deadline
            && deadline <= period
            && PERIODS.contains(&period);
        is_one.then_some(Budget { runtime, deadline, period, flags: flags & Budget::FLAGS })
    }
    /// What part of one core that is, in units of 2⁻²⁰, rounded down.
    pub fn share(self) -> u64 {
        ((u128::from(self.runtime) << 20) / u128::from(self.period.max(1))) as u64
    }
    /// In a request.
    pub fn bytes(self) -> [u8; Budget::BYTES] {
        let mut bytes = [0; Budget::BYTES];
        let words = [self.runtime, self.deadline, self.period, self.flags];
        for (at, word) in bytes.chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
    /// From a request. `None`: that is none.
    pub fn of(bytes: &[u8]) -> Option<Budget> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let &[runtime, deadline, period, flags] = words else { return None };
        let [runtime, deadline, period, flags] =
            [runtime, deadline, period, flags].map(u64::from_le_bytes);
        Budget::new(runtime, deadline, period, flags)
    }
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
    fn budgets_are_checked() {
        let one = Budget::new(2_000_000, 10_000_000, 0, 7).unwrap();
        assert_eq!(Budget::of(&one.bytes()), Some(one));
        assert_eq!((one.period, one.flags, one.share()), (10_000_000, 6, (1 << 20) / 5));
        for (runtime, deadline, period) in [
            (1023, 1_000_000, 0),
            (2_000_000, 1_000_000, 0),
            (1_000_000, 2_000_000, 1_000_000),
            (50_000, 99_999, 0),
            (1_000_000, 1_000_000, 4_194_304_001),
            (1_000_000, u64::MAX, u64::MAX),
            (0, 0, 0),
        ] {
            assert_eq!(Budget::new(runtime, deadline, period, 0), None);
        }
        assert_eq!(Budget::of(&[0; 31]), None);
        assert_eq!(Budget::of(&[0; 32]), None);
    }

    #[test]
    fn policies_fit_in_words() {
        for nice in [None, Some(-20), Some(19), Some(0)] {
            let policy = Policy { policy: BATCH | RESET_ON_FORK, priority: 255, nice };
            assert_eq!(Policy::of(policy.word()), policy);
        }
    }
}
