//! Who holds which of some things that several may hold, and how many each user's holders hold.

use crate::{ByNumber, Limits, Shares};
use alloc::vec::Vec;

/// How much may be held.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// So many each holder has without being counted.
    pub few: usize,
    /// The most that one holder has.
    pub most: usize,
    /// What holders have beyond those few, together and of each user.
    pub more: Limits,
}

/// Why somebody may not hold more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRoom {
    /// It is the most that one may hold.
    Holder,
    /// The holders of its user, or all, hold too much.
    User,
}

/// What one holds.
#[derive(Default)]
struct Holding {
    /// In order.
    ids: Vec<u32>,
    /// The user for whom what it holds is counted.
    user: u32,
}

/// Who holds which of some things, by numbers; one that many hold is 4 bytes more for each of them, so a few of them can be much
/// memory. What one holds beyond [a few](Bounds::few) is counted for the user who made it.
pub struct Holdings {
    of: ByNumber<Holding>,
    bounds: Bounds,
    counted: Shares,
}

impl Holdings {
    /// Nobody holds anything.
    pub fn new(bounds: Bounds) -> Holdings {
        Holdings { of: ByNumber::default(), bounds, counted: Shares::new(bounds.more) }
    }

    /// Is it noted what somebody holds?
    pub fn contains(&self, holder: u32) -> bool {
        self.of.contains(holder)
    }

    /// What somebody holds, in order.
    #[inline]
    pub fn of(&self, holder: u32) -> &[u32] {
        self.of.get(holder).map_or(&[], |holding| &holding.ids)
    }

    /// How much of what somebody holds is counted.
    fn counted(&self, held: &[u32]) -> usize {
        held.len().saturating_sub(self.bounds.few)
    }

    /// May somebody hold `count` more?
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn room(&self, holder: u32, count: usize) -> Result<(), NoRoom> {
        let (ids, user) = self.of.get(holder).map_or((&[][..], 0), |it| (&it.ids, it.user));
        match ids.len() + count {
            all if all <= self.bounds.few => Ok(()),
            all if all > self.bounds.most => Err(NoRoom::Holder),
            all if self.counted.has_room(user, all - self.bounds.few - self.counted(ids)) => Ok(()),
            _ => Err(NoRoom::User),
        }
    }

    /// May a user make somebody who holds the same?
    pub fn has_room_for_heir(&self, holder: u32, user: u32) -> bool {
        match self.counted(self.of(holder)) {
            0 => true,
            more => self.counted.has_room(user, more),
        }
    }

    /// Somebody holds one more, for which there was [room](Self::room). `false`: it was held already.
    #[inline]
    pub fn add(&mut self, holder: u32, id: u32) -> bool {
        let Holding { ids, user } = self.of.entry(holder);
        let Err(at) = ids.binary_search(&id) else { return false };
        ids.insert(at, id);
        if ids.len() > self.bounds.few {
            self.counted.take(*user, 1);
        }
        true
    }

    /// Somebody holds one less. `false`: it was not held.
    #[inline]
    pub fn remove(&mut self, holder: u32, id: u32) -> bool {
        let Some(Holding { ids, user }) = self.of.get_mut(holder) else { return false };
        let Ok(at) = ids.binary_search(&id) else { return false };
        ids.remove(at);
        if ids.len() >= self.bounds.few {
            self.counted.give_back(*user, 1);
        }
        true
    }

    /// Somebody whom a user has made holds these, in order, and nothing else.
    pub fn begin(&mut self, holder: u32, ids: Vec<u32>, user: u32) {
        self.end(holder);
        if let more @ 1.. = self.counted(&ids) {
            self.counted.take(user, more);
        }
        self.of.insert(holder, Holding { ids, user });
    }

    /// Somebody holds nothing any more: what it was.
    pub fn end(&mut self, holder: u32) -> Vec<u32> {
        let Holding { ids, user } = self.of.remove(holder).unwrap_or_default();
        if let more @ 1.. = self.counted(&ids) {
            self.counted.give_back(user, more);
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};

    const FEW: usize = 1024;
    const HELD_MAX: usize = 16384;
    const MANY: usize = 1 << 20;
    const BOUNDS: Bounds = Bounds { few: FEW, most: HELD_MAX, more: Limits::of(MANY) };

    /// Random operations beside sets, whose sizes are counted again after each.
    #[test]
    fn what_is_counted_is_what_is_held() {
        let seed = 0x5eed_0271_u64;
        let mut state = seed;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut all = Holdings::new(BOUNDS);
        let mut model: BTreeMap<u32, (u32, BTreeSet<u32>)> = BTreeMap::new();
        for step in 0..1_500 {
            let (pid, id) = (random(6) as u32 + 1, random(2_400) as u32);
            match random(16) {
                0 => {
                    let ended: BTreeSet<u32> = all.end(pid).into_iter().collect();
                    assert_eq!(ended, model.remove(&pid).unwrap_or_default().1, "{seed:#x} {step}");
                }
                1..=2 => {
                    let (ids, uid) = (all.of(pid).to_vec(), 1_000 + random(2) as u32);
                    let child = random(6) as u32 + 1;
                    model.insert(child, (uid, ids.iter().copied().collect()));
                    all.begin(child, ids, uid);
                }
                // Many at once, since what is counted begins with the 1,025th.
                3..=9 => (id..id + 200).for_each(|id| {
                    let was = model.get_mut(&pid).is_some_and(|(_, ids)| ids.remove(&id));
                    assert_eq!(all.remove(pid, id), was, "{seed:#x} {step}");
                }),
                _ => (id..id + 200).for_each(|id| {
                    let is_new = model.entry(pid).or_default().1.insert(id);
                    assert_eq!(all.add(pid, id), is_new, "{seed:#x} {step}");
                }),
            }
            for uid in [0, 1_000, 1_001] {
                let of_user = model.values().filter(|(of, _)| *of == uid);
                let counted = of_user.map(|(_, ids)| ids.len().saturating_sub(FEW)).sum();
                assert_eq!(all.counted.of(uid), counted, "{seed:#x} {step}: user {uid}");
            }
            let held = model.get(&pid).map(|(_, ids)| ids.iter().copied().collect::<Vec<_>>());
            assert_eq!(all.of(pid), held.unwrap_or_default(), "{seed:#x} {step}");
        }
        assert!(all.counted.taken() > 0, "nobody ever held more than {FEW}");
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let mut all = Holdings::new(BOUNDS);
        let most: Vec<u32> = (0..HELD_MAX as u32).collect();
        let mut made = 0;
        all.begin(1, most.clone(), 1_000);
        while all.has_room_for_heir(1, 1_000) {
            made += 1;
            all.begin(1 + made, most.clone(), 1_000);
        }
        assert_eq!(made as usize + 1, MANY / 2 / (HELD_MAX - FEW));
        assert_eq!(all.room(1, 1), Err(NoRoom::Holder));
        // Fewer than half of them fit now, and another user's process may have as many as any.
        all.begin(900, (0..FEW as u32).collect(), 1_000);
        let left = MANY / 2 - all.counted.of(1_000);
        assert_eq!(all.room(900, left), Ok(()));
        assert_eq!(all.room(900, left + 1), Err(NoRoom::User));
        assert!(all.has_room_for_heir(1, 1_001));
        // Each may have a few at any time.
        assert_eq!(all.room(901, FEW), Ok(()));
    }
}
