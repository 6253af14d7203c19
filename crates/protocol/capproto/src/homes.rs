//! Which core is the home of which memory: what each had at the start, and what has changed since.

use crate::CoreId;
use alloc::vec::Vec;
use core::ops::Range;

/// Ranges that do not overlap, by their place, with their homes. All that is in none of them is at home on the boot core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Homes(Vec<(Range<u64>, CoreId)>);

/// The core of what is in no range.
const BOOT: CoreId = CoreId(0);

impl Homes {
    /// By number of the core, the memory that each had at the start; that of the boot core is all the rest.
    pub fn new(homes: Vec<Range<u64>>) -> Homes {
        let others = homes.into_iter().enumerate().skip(1).filter(|(_, home)| !home.is_empty());
        let mut homes: Vec<_> = others.map(|(core, home)| (home, CoreId(core as u8))).collect();
        homes.sort_unstable_by_key(|(home, _)| home.start);
        Homes(homes)
    }

    /// The home of a range; `None` if it has several.
    pub fn of(&self, memory: Range<u64>) -> Option<CoreId> {
        // The first that may touch it.
        let at = self.0.partition_point(|(home, _)| home.end <= memory.start);
        match self.0.get(at) {
            Some((home, core)) if home.start < memory.end => {
                (home.start <= memory.start && memory.end <= home.end).then_some(*core)
            }
            _ => Some(BOOT),
        }
    }

    /// A range has this home from now on. Ranges that meet and have the same one become one.
    pub fn set(&mut self, memory: Range<u64>, core: CoreId) {
        if memory.is_empty() {
            return;
        }
        // All that touch it, also at its ends.
        let first = self.0.partition_point(|(home, _)| home.end < memory.start);
        let past = self.0.partition_point(|(home, _)| home.start <= memory.end);
        let mut new = memory.clone();
        let mut left = Vec::new();
        for (home, of) in self.0.drain(first..past.max(first)) {
            if of == core {
                new = new.start.min(home.start)..new.end.max(home.end);
                continue;
            }
            let (before, behind) =
                (home.start..home.end.min(memory.start), home.start.max(memory.end)..home.end);
            left.extend(
                [before, behind].into_iter().filter(|part| !part.is_empty()).map(|part| (part, of)),
            );
        }
        if core != BOOT {
            left.push((new, core));
        }
        left.sort_unstable_by_key(|(home, _)| home.start);
        self.0.splice(first..first, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn what_each_had_at_the_start_is_its_home() {
        let homes = Homes::new(vec![0..0, 30..40, 10..20]);
        assert_eq!(homes.of(10..20), Some(CoreId(2)));
        assert_eq!(homes.of(30..31), Some(CoreId(1)));
        assert_eq!(homes.of(20..30), Some(BOOT));
        assert_eq!(homes.of(19..21), None);
    }

    proptest! {
        #[test]
        fn homes_are_those_that_were_set_last(
            set in prop::collection::vec((0u64..64, 1u64..16, 0u8..4), 0..40),
            asked in prop::collection::vec((0u64..80, 1u64..8), 1..40),
        ) {
            let mut homes = Homes::new(vec![0..0, 8..24, 40..48]);
            let mut model = [0u8; 96];
            model[8..24].fill(1);
            model[40..48].fill(2);
            for (start, len, core) in set {
                homes.set(start..start + len, CoreId(core));
                model[start as usize..(start + len) as usize].fill(core);
                for pair in homes.0.windows(2) {
                    let meet = pair[0].0.end == pair[1].0.start;
                    prop_assert!(pair[0].0.end <= pair[1].0.start);
                    prop_assert!(!meet || pair[0].1 != pair[1].1, "two that should be one");
                }
            }
            for (start, len) in asked {
                let of = &model[start as usize..(start + len) as usize];
                let one = of.iter().all(|core| *core == of[0]).then_some(CoreId(of[0]));
                prop_assert_eq!(homes.of(start..start + len), one);
            }
        }
    }
}
