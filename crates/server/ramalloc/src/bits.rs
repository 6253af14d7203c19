//! A set of small numbers: a bitmap, above it a bitmap of its non-zero words, and so on up to one
//! word. All operations take a step for each level; a level is 64 times smaller than the one below.

/// Most levels: enough for 2^30 members.
const LEVELS: usize = 5;

/// Where the levels of one set lie in the words of its owner.
#[derive(Clone, Copy, Debug)]
pub struct BitSet {
    /// First word of each level, and the end of the last.
    start: [usize; LEVELS + 1],
    levels: usize,
    len: u64,
    members: u64,
}

impl BitSet {
    /// The set with room for `0..len`, at `first` of the owner's words.
    pub const fn new(first: usize, len: u64) -> Self {
        let mut set = BitSet { start: [first; LEVELS + 1], levels: 0, len, members: 0 };
        let mut bits = len;
        loop {
            bits = bits.div_ceil(64);
            set.start[set.levels + 1] = set.start[set.levels] + bits as usize;
            set.levels += 1;
            if bits <= 1 || set.levels == LEVELS {
                return set;
            }
        }
    }

    /// The first word behind the set.
    pub const fn end(&self) -> usize {
        self.start[self.levels]
    }

    /// How many numbers it holds.
    pub const fn members(&self) -> u64 {
        self.members
    }

    /// Is `i` a member? Numbers beyond the set are not.
    pub fn contains(&self, words: &[u64], i: u64) -> bool {
        i < self.len && words[self.start[0] + (i / 64) as usize] >> (i % 64) & 1 != 0
    }

    /// Adds `i`, which must be in `0..len` and no member.
    pub fn insert(&mut self, words: &mut [u64], i: u64) {
        debug_assert!(i < self.len && !self.contains(words, i));
        self.members += 1;
        let mut i = i;
        for level in 0..self.levels {
            let word = &mut words[self.start[level] + (i / 64) as usize];
            let was_empty = *word == 0;
            *word |= 1 << (i % 64);
            if !was_empty {
                return;
            }
            i /= 64;
        }
    }

    /// Removes the member `i`.
    pub fn remove(&mut self, words: &mut [u64], i: u64) {
        debug_assert!(self.contains(words, i));
        self.members -= 1;
        let mut i = i;
        for level in 0..self.levels {
            let word = &mut words[self.start[level] + (i / 64) as usize];
            *word &= !(1 << (i % 64));
            if *word != 0 {
                return;
            }
            i /= 64;
        }
    }

    /// The smallest member.
    pub fn first(&self, words: &[u64]) -> Option<u64> {
        if self.members == 0 {
            return None;
        }
        let mut i = 0;
        for level in (0..self.levels).rev() {
            let word = words[self.start[level] + i as usize];
            i = i * 64 + word.trailing_zeros() as u64;
        }
        Some(i)
    }

    /// The smallest member that is not below `from`.
    pub fn next(&self, words: &[u64], from: u64) -> Option<u64> {
        let mut i = from;
        for level in 0..self.levels {
            let (start, end) = (self.start[level], self.start[level + 1]);
            let word = words[start..end].get((i / 64) as usize)? & u64::MAX << (i % 64);
            if word != 0 {
                let found = i / 64 * 64 + u64::from(word.trailing_zeros());
                return Some(self.descend(words, level, found));
            }
            i = i / 64 + 1;
        }
        None
    }

    /// The smallest member below bit `i` of a level.
    fn descend(&self, words: &[u64], level: usize, i: u64) -> u64 {
        (0..level).rev().fold(i, |i, below| {
            i * 64 + u64::from(words[self.start[below] + i as usize].trailing_zeros())
        })
    }

    /// Is any of `low..high` a member?
    pub fn any(&self, words: &[u64], low: u64, high: u64) -> bool {
        let high = high.min(self.len);
        if low >= high {
            return false;
        }
        let (first, last) = (low / 64, (high - 1) / 64);
        (first..=last).any(|index| {
            let mut word = words[self.start[0] + index as usize];
            if index == first {
                word &= u64::MAX << (low % 64);
            }
            if index == last {
                word &= u64::MAX >> (63 - (high - 1) % 64);
            }
            word != 0
        })
    }
}
