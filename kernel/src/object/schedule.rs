//! How a dispatcher competes with others for a core.

/// One word, so that another core may write it; 0 is the usual one.
///
/// | bits | |
/// |---|---|
/// | 0 to 7 | priority; 0: none |
/// | 8 | takes turns with others of its priority |
/// | 32 to 63 | how much its time counts, in 65,536ths; 0: as much as it is |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule(u64);

/// The highest priority.
pub const PRIORITY_MOST: u32 = 99;
/// The usual weight, and the largest.
const WEIGHT: u32 = 1024;
const WEIGHT_MOST: u32 = 100_000;
const TURNS: u64 = 1 << 8;
const FACTOR_SHIFT: u32 = 32;
/// Time that counts as what it is.
const ONE: u64 = 1 << 16;

impl Schedule {
    /// `None`: there is no such priority or weight.
    pub fn new(priority: u32, takes_turns: bool, weight: u32) -> Option<Schedule> {
        if priority > PRIORITY_MOST || weight > WEIGHT_MOST {
            return None;
        }
        let turns = if takes_turns { TURNS } else { 0 };
        let factor = match weight {
            0 | WEIGHT => 0,
            weight => u64::from(WEIGHT) * ONE / u64::from(weight),
        };
        Some(Schedule(u64::from(priority) | turns | factor << FACTOR_SHIFT))
    }
    /// As it is kept.
    #[inline(always)]
    pub fn from_word(word: u64) -> Schedule {
        Schedule(word)
    }
    /// To be kept.
    pub fn word(self) -> u64 {
        self.0
    }
    /// Neither a priority nor another weight.
    #[inline(always)]
    pub fn is_usual(self) -> bool {
        self.0 == 0
    }
    /// Its priority; 0: none.
    #[inline]
    pub fn priority(self) -> u8 {
        self.0 as u8
    }
    /// Does it take turns with others of its priority?
    pub fn takes_turns(self) -> bool {
        self.0 & TURNS != 0
    }
    fn factor(self) -> u64 {
        match self.0 >> FACTOR_SHIFT {
            0 => ONE,
            factor => factor,
        }
    }
    /// As how much time of the usual weight this time counts.
    pub fn virtual_time(self, ticks: u64) -> u64 {
        let product = u128::from(ticks) * u128::from(self.factor());
        u64::try_from(product / u128::from(ONE)).unwrap_or(u64::MAX)
    }
    /// Is its weight several times another's? Then it need not wait for the end of that one's slice.
    pub fn outweighs(self, other: Schedule) -> bool {
        const TIMES: u64 = 4;
        self.factor() * TIMES <= other.factor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_by_weight() {
        let of = |weight| Schedule::new(0, false, weight).unwrap();
        assert!(of(0).is_usual() && of(1024).is_usual() && !of(1023).is_usual());
        assert_eq!(of(0).virtual_time(1_000), 1_000);
        assert_eq!(of(512).virtual_time(1_000), 2_000);
        assert_eq!(of(1).virtual_time(1_000), 1_024_000);
        assert_eq!(of(2048).virtual_time(u64::MAX), u64::MAX / 2);
        assert_eq!(of(1).virtual_time(u64::MAX), u64::MAX);
        assert!(
            Schedule::new(100, false, 0).is_none() && Schedule::new(0, false, 100_001).is_none()
        );
        assert!(
            of(0).outweighs(of(256)) && !of(0).outweighs(of(257)) && of(88_761).outweighs(of(0))
        );
    }
}
