//! Badges: numbers of 32 bits that stand for a client each, and are never given twice.
//!
//! The lower half is the index of a place in a table, so that a client is found by one access; the
//! upper half counts the lives of that place, from 1 on. A place whose count is used up is not used
//! any more. So there are 2³² badges less one for each place, whatever their order; after the last
//! one there are no new clients (`docs/decisions/0022-badges.md`).

use crate::teardown::{Parts, Teardown};
use alloc::vec::Vec;

const INDEX_BITS: u32 = 16;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
/// Most places, and most lives of each.
const MOST: u32 = 1 << INDEX_BITS;

/// A badge, never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Badge(u32);

impl Badge {
    /// As the kernel knows it.
    pub const fn number(self) -> u32 {
        self.0
    }
    fn index(self) -> usize {
        (self.0 & INDEX_MASK) as usize
    }
}

/// What a place of the table is used for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Life<W> {
    /// Nothing, at the moment or for ever.
    Free,
    /// The badge of a client.
    Speaks(W),
    /// The badge of a client that has ended, and that others may still have.
    Ending,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Place<W> {
    /// The upper half of the badge.
    life: u32,
    state: Life<W>,
}

/// The badges of an endpoint, each for a client `W`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Badges<W> {
    places: Vec<Place<W>>,
    free: Vec<u32>,
    /// Most places, and most lives of each.
    limits: (u32, u32),
}

impl<W> Default for Badges<W> {
    fn default() -> Self {
        Badges::with_limits(MOST, MOST - 1)
    }
}

impl<W> Badges<W> {
    /// With fewer places, and fewer lives of each: to see what comes after the last one.
    pub fn with_limits(places: u32, lives: u32) -> Self {
        let limits = (places.min(MOST), lives.min(MOST - 1));
        Badges { places: Vec::new(), free: Vec::new(), limits }
    }

    /// How many are given or still being taken back.
    pub fn in_use(&self) -> usize {
        self.places.iter().filter(|place| !matches!(place.state, Life::Free)).count()
    }
}

impl<W: Copy> Badges<W> {
    /// A badge that was never given, for `who`. `None`: there is none any more, or no memory.
    pub fn give(&mut self, who: W) -> Option<Badge> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.new_place()?,
        };
        let place = self.places.get_mut(index as usize)?;
        place.life += 1;
        place.state = Life::Speaks(who);
        Some(Badge(place.life << INDEX_BITS | index))
    }

    fn new_place(&mut self) -> Option<u32> {
        let index = self.places.len() as u32;
        if index >= self.limits.0 || self.limits.1 == 0 {
            return None;
        }
        self.places.try_reserve(1).ok()?;
        // When the place is free again, its index has room here: that cannot be refused then.
        let wanted = self.places.len() + 1;
        self.free.try_reserve(wanted - self.free.len()).ok()?;
        self.places.push(Place { life: 0, state: Life::Free });
        Some(index)
    }

    /// Who speaks under a badge that came with a message. `None`: nobody (any more).
    #[inline]
    pub fn who(&self, badge: u64) -> Option<W> {
        let badge = Badge(u32::try_from(badge).ok()?);
        match self.place(badge)?.state {
            Life::Speaks(who) => Some(who),
            _ => None,
        }
    }

    #[inline]
    fn place(&self, badge: Badge) -> Option<&Place<W>> {
        let place = self.places.get(badge.index())?;
        (place.life == badge.0 >> INDEX_BITS).then_some(place)
    }

    /// The client has ended: nobody speaks under its badge any more. What it was given is to be taken
    /// back as the answer says. `None`: it has ended already.
    pub fn end(&mut self, badge: Badge, parts: Parts) -> Option<Teardown> {
        self.who(badge.0.into())?;
        self.places.get_mut(badge.index())?.state = Life::Ending;
        Some(Teardown::new(Some(badge), parts))
    }

    /// Nobody has a capability with the badge: its place is free for the next life.
    pub(crate) fn forget(&mut self, badge: Badge) {
        let Some(place) = self.places.get_mut(badge.index()) else { return };
        if place.life != badge.0 >> INDEX_BITS || !matches!(place.state, Life::Ending) {
            return;
        }
        place.state = Life::Free;
        if place.life < self.limits.1 {
            self.free.push(badge.0 & INDEX_MASK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;
    use alloc::collections::BTreeSet;

    fn end(badges: &mut Badges<u32>, badge: Badge) {
        let Some(mut teardown) = badges.end(badge, Parts::ALL) else { panic!("it speaks") };
        while teardown.step().is_some() {
            teardown.done(false);
        }
        assert!(teardown.finish(badges));
    }

    #[test]
    fn a_badge_stands_for_its_client_until_that_ends() {
        let mut badges = Badges::default();
        let (one, two) = (badges.give(1).unwrap(), badges.give(2).unwrap());
        assert_eq!(badges.who(one.number().into()), Some(1));
        assert_eq!(badges.who(two.number().into()), Some(2));
        let teardown = badges.end(one, Parts::ALL).unwrap();
        assert_eq!(badges.who(one.number().into()), None);
        assert!(badges.end(one, Parts::ALL).is_none());
        assert_eq!(teardown.step(), Some(Step::Revoke(crate::Part::Dispatcher)));
        assert_eq!(badges.in_use(), 2);
    }

    #[test]
    fn what_is_no_badge_stands_for_nobody() {
        let mut badges = Badges::default();
        let badge = u64::from(badges.give(1).unwrap().number());
        for other in [0, 1, badge + 1, badge + (1 << 16), badge | 1 << 32, u64::MAX] {
            assert_eq!(badges.who(other), None, "{other:#x}");
        }
    }

    #[test]
    fn a_place_is_not_used_before_the_teardown_has_finished() {
        let mut badges = Badges::with_limits(1, 9);
        let badge = badges.give(1).unwrap();
        let mut teardown = badges.end(badge, Parts::ALL).unwrap();
        while teardown.step().is_some() {
            assert!(badges.give(2).is_none());
            assert!(!teardown.finish(&mut badges));
            teardown.done(false);
        }
        assert!(teardown.finish(&mut badges));
        assert!(badges.give(2).is_some());
    }

    /// However clients come and go, no badge comes twice, and all are given before there is none.
    #[test]
    fn no_badge_is_given_twice() {
        for order in 0..3 {
            let mut badges = Badges::with_limits(5, 7);
            let (mut given, mut live) = (BTreeSet::new(), Vec::new());
            let mut state = order + 1u32;
            loop {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if live.len() == 5 || state >> 30 == 0 && !live.is_empty() {
                    let at = state as usize / 7 % live.len();
                    end(&mut badges, live.swap_remove(at));
                }
                match badges.give(0) {
                    Some(badge) => {
                        assert!(given.insert(badge), "{badge:?} again");
                        live.push(badge);
                    }
                    None if live.is_empty() => break,
                    None => end(&mut badges, live.swap_remove(0)),
                }
            }
            assert_eq!(given.len(), 35);
        }
    }

    #[test]
    fn a_place_has_as_many_lives_as_there_are_numbers() {
        let mut badges = Badges::with_limits(1, u32::MAX);
        let mut last = 0;
        for _ in 1..MOST {
            let badge = badges.give(7).unwrap();
            assert!(badge.number() > last);
            last = badge.number();
            end(&mut badges, badge);
        }
        assert_eq!(badges.give(7), None);
    }
}
