//! Sets of page numbers inside a chunk or a region, one bit each.

/// `64 * W` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits<const W: usize>(pub [u64; W]);

impl<const W: usize> Default for Bits<W> {
    fn default() -> Self {
        Bits([0; W])
    }
}

/// The bits `lo..hi` of the word whose first bit has number `base`.
#[inline]
fn mask(base: u32, lo: u32, hi: u32) -> u64 {
    let below = |n: u32| match n.saturating_sub(base) {
        n if n >= 64 => u64::MAX,
        n => (1 << n) - 1,
    };
    below(hi) & !below(lo)
}

impl<const W: usize> Bits<W> {
    /// Number of bits.
    pub const LEN: u32 = 64 * W as u32;
    /// The empty set.
    pub const EMPTY: Self = Bits([0; W]);
    /// All.
    pub const FULL: Self = Bits([u64::MAX; W]);

    /// Is `n` in the set?
    #[inline]
    pub fn get(&self, n: u32) -> bool {
        self.0[n as usize / 64 % W] >> (n % 64) & 1 != 0
    }
    /// Adds `n`.
    #[inline]
    pub fn set(&mut self, n: u32) {
        self.0[n as usize / 64 % W] |= 1 << (n % 64);
    }
    /// Removes `n`.
    #[inline]
    pub fn clear(&mut self, n: u32) {
        self.0[n as usize / 64 % W] &= !(1 << (n % 64));
    }
    /// Adds `lo..hi`.
    #[inline]
    pub fn set_range(&mut self, lo: u32, hi: u32) {
        if hi == lo + 1 {
            return self.set(lo);
        }
        for i in lo / 64..hi.div_ceil(64) {
            self.0[i as usize % W] |= mask(64 * i, lo, hi);
        }
    }
    /// Removes `lo..hi`.
    #[inline]
    pub fn clear_range(&mut self, lo: u32, hi: u32) {
        if hi == lo + 1 {
            return self.clear(lo);
        }
        for i in lo / 64..hi.div_ceil(64) {
            self.0[i as usize % W] &= !mask(64 * i, lo, hi);
        }
    }
    /// The members in `lo..hi`.
    #[inline]
    pub fn within(&self, lo: u32, hi: u32) -> Self {
        let mut out = Self::EMPTY;
        for i in lo / 64..hi.div_ceil(64) {
            out.0[i as usize % W] = self.0[i as usize % W] & mask(64 * i, lo, hi);
        }
        out
    }
    /// Is any of `lo..hi` a member?
    #[inline]
    pub fn any_within(&self, lo: u32, hi: u32) -> bool {
        if hi <= lo + 1 {
            return lo < hi && self.get(lo);
        }
        let (first, last) = (lo as usize / 64 % W, (hi - 1) as usize / 64 % W);
        let (from_lo, below_hi) = (u64::MAX << (lo % 64), u64::MAX >> (63 - (hi - 1) % 64));
        if first == last {
            return self.0[first] & from_lo & below_hi != 0;
        }
        let between = self.0.get(first + 1..last).unwrap_or_default();
        self.0[first] & from_lo != 0
            || self.0[last] & below_hi != 0
            || between.iter().any(|&word| word != 0)
    }
    /// Members of both.
    #[inline]
    pub fn and(&self, other: &Self) -> Self {
        let mut out = *self;
        out.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
        out
    }
    /// Members of either.
    #[inline]
    pub fn or(&self, other: &Self) -> Self {
        let mut out = *self;
        out.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
        out
    }
    /// Members of `self` that are not in `other`.
    #[inline]
    pub fn minus(&self, other: &Self) -> Self {
        let mut out = *self;
        out.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= !b);
        out
    }
    /// Is nothing in the set?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
    /// Are there at most `most` members?
    pub fn count_within(&self, most: u32) -> bool {
        let mut count = 0;
        self.0.iter().all(|word| {
            count += word.count_ones();
            count <= most
        })
    }
    /// Number of members.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
    /// Is everything in the set?
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.iter().all(|&word| word == u64::MAX)
    }
    /// The first member and what is behind the last.
    pub fn span(&self) -> Option<(u32, u32)> {
        let first = self.next_set(0);
        (first < Self::LEN).then(|| (first, self.prev_set(Self::LEN - 1).unwrap_or(first) + 1))
    }
    /// The first member at or behind `from`, or `LEN`.
    #[inline]
    pub fn next_set(&self, from: u32) -> u32 {
        self.scan(from, 0)
    }
    /// The first non-member at or behind `from`, or `LEN`.
    #[inline]
    pub fn next_clear(&self, from: u32) -> u32 {
        self.scan(from, u64::MAX)
    }
    #[inline]
    fn scan(&self, from: u32, flip: u64) -> u32 {
        let mut at = from;
        while at < Self::LEN {
            let rest = (self.0[at as usize / 64] ^ flip) >> (at % 64);
            if rest != 0 {
                return at + rest.trailing_zeros();
            }
            at = (at / 64 + 1) * 64;
        }
        Self::LEN
    }
    /// The last member at or before `from`.
    #[inline]
    pub fn prev_set(&self, from: u32) -> Option<u32> {
        let mut word = from as usize / 64 % W;
        let mut bits = self.0[word] << (63 - from % 64);
        let mut top = from;
        loop {
            if bits != 0 {
                return Some(top - bits.leading_zeros());
            }
            if word == 0 {
                return None;
            }
            word -= 1;
            bits = self.0[word];
            top = 64 * word as u32 + 63;
        }
    }
    /// The first run of members at or behind `from`.
    #[inline]
    pub fn next_run(&self, from: u32) -> Option<(u32, u32)> {
        let lo = self.next_set(from);
        (lo < Self::LEN).then(|| (lo, self.next_clear(lo)))
    }
    /// All runs of members, as `(first, behind the last)`.
    pub fn runs(self) -> impl Iterator<Item = (u32, u32)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let run = self.next_run(at)?;
            at = run.1;
            Some(run)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(ops in proptest::collection::vec((0u8..4, 0u32..256, 0u32..256), 0..40)) {
            let mut bits = Bits::<4>::EMPTY;
            let mut set = BTreeSet::new();
            for (op, a, b) in ops {
                let (lo, hi) = (a.min(b), a.max(b) + 1);
                match op {
                    0 => { bits.set_range(lo, hi); set.extend(lo..hi); }
                    1 => { bits.clear_range(lo, hi); set.retain(|n| !(lo..hi).contains(n)); }
                    2 => { bits.set(a); set.insert(a); }
                    _ => { bits.clear(a); set.remove(&a); }
                }
                prop_assert_eq!(bits.count() as usize, set.len());
                prop_assert_eq!(bits.next_set(a), set.range(a..).next().copied().unwrap_or(256));
                prop_assert_eq!(bits.prev_set(a), set.range(..=a).next_back().copied());
                let next_clear = (a..256).find(|n| !set.contains(n)).unwrap_or(256);
                prop_assert_eq!(bits.next_clear(a), next_clear);
                let from_runs: Vec<u32> = bits.runs().flat_map(|(lo, hi)| lo..hi).collect();
                prop_assert_eq!(from_runs, set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(bits.any_within(lo, hi), set.range(lo..hi).next().is_some());
                prop_assert_eq!(bits.within(lo, hi).count() as usize, set.range(lo..hi).count());
                prop_assert_eq!(bits.is_full(), set.len() == 256);
            }
        }
    }
}
