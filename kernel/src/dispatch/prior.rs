//! Those of the run queue that have a priority: a list for each.
//!
//! While others wait they get [`PART`] of each second only: a program in an endless loop must not be the last thing that
//! happens.

use crate::object::schedule::PRIORITY_MOST;
use crate::object::{DcbList, DcbRef};

/// Of each period they get so many of so many parts, if others wait.
const PART: (u64, u64) = (19, 20);
/// How often they take turns in a period, if they do.
const TURNS: u64 = 10;

/// How much is used of a turn that was given away.
pub(super) const OVER: u64 = u64::MAX;

/// See the head of this file.
pub(super) struct Prior {
    lists: [DcbList; PRIORITY_MOST as usize + 1],
    /// Which of them are not empty.
    used: u128,
    /// Length of a period, a second, in ticks.
    period: u64,
    /// When the present one began, and how much of it they had.
    since: u64,
    had: u64,
    /// They have had what they get of it.
    is_spent: bool,
}

impl Prior {
    /// There are none.
    pub(super) const fn new() -> Prior {
        let lists = [const { DcbList::new() }; PRIORITY_MOST as usize + 1];
        Prior { lists, used: 0, period: u64::MAX, since: 0, had: 0, is_spent: false }
    }

    /// So many ticks are a second.
    pub(super) fn set_period(&mut self, ticks: u64) {
        self.period = ticks;
    }

    /// Does none wait?
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Have they had what they get of this period?
    #[inline]
    pub(super) fn are_spent(&self) -> bool {
        self.is_spent
    }

    /// The highest priority of those that wait; 0 if none does.
    pub(super) fn highest(&self) -> u8 {
        self.used.checked_ilog2().unwrap_or(0) as u8
    }

    /// The first of all.
    pub(super) fn first(&self) -> Option<DcbRef> {
        self.lists[usize::from(self.highest())].first()
    }

    /// Lists that are not empty, the highest priority first.
    pub(super) fn lists(&self) -> impl Iterator<Item = &DcbList> {
        let mut used = self.used;
        core::iter::from_fn(move || {
            let priority = used.checked_ilog2()?;
            used &= !(1 << priority);
            self.lists.get(priority as usize)
        })
    }

    /// Puts one in that has waited, behind those of its priority. It keeps the rest of its turn.
    pub(super) fn push(&mut self, dcb: DcbRef, priority: u8) {
        dcb.time.has_waited();
        self.append(dcb, priority);
    }

    fn append(&mut self, dcb: DcbRef, priority: u8) {
        if dcb.share.turn.get() >= self.turn() {
            dcb.share.turn.set(0);
        }
        self.lists[usize::from(priority)].push(dcb);
        self.used |= 1 << priority;
    }

    /// Puts one in that has run: before those of its priority, unless its turn is over.
    pub(super) fn put_back(&mut self, dcb: DcbRef, priority: u8) {
        let share = &dcb.share;
        let turn = if share.schedule().takes_turns() { self.turn() } else { OVER };
        if share.turn.get() >= turn {
            return self.append(dcb, priority);
        }
        self.lists[usize::from(priority)].push_front(dcb);
        self.used |= 1 << priority;
    }

    /// Takes one out that was put in with a priority.
    pub(super) fn remove(&mut self, dcb: DcbRef, priority: u8) {
        let list = &self.lists[usize::from(priority)];
        list.remove(dcb);
        if list.first().is_none() {
            self.used &= !(1 << priority);
        }
    }

    /// One has run for so many ticks, until `now`.
    pub(super) fn charge(&mut self, used: u64, now: u64) {
        let (part, parts) = PART;
        self.look(now);
        self.had = self.had.saturating_add(used);
        self.is_spent = self.had >= self.period / parts * part;
    }

    /// Is it time for another period?
    pub(super) fn look(&mut self, now: u64) {
        if now.saturating_sub(self.since) >= self.period {
            (self.since, self.had, self.is_spent) = (now, 0, false);
        }
    }

    fn turn(&self) -> u64 {
        self.period / TURNS
    }
}
