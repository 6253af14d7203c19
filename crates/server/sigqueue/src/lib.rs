//! Signals that wait behind one of the same number, and how many each user has.
//!
//! A process, and each of its threads, has a place for one signal of each number that its library sees. Those that come while it
//! is taken wait here, first in, first out. Whoever may have no more is refused before anything is stored, so that what is here
//! is bounded for each user and for all of them together.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::{BTreeMap, VecDeque};
use piecewise::{Limits, Shares};

/// For whom signals wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// For whichever thread of a process takes them.
    Process(u32),
    /// For one thread.
    Thread(u32),
}

/// A signal that waits, and who has it counted.
struct Item<T> {
    user: Option<u32>,
    what: T,
}

/// All queues. None of them is empty.
pub struct Queues<T> {
    lists: BTreeMap<(Owner, u32), VecDeque<Item<T>>>,
    shares: Shares,
}

impl<T> Queues<T> {
    /// None, for so many signals in all.
    pub fn new(all: usize) -> Queues<T> {
        Queues { lists: BTreeMap::new(), shares: Shares::new(Limits::of(all)) }
    }

    /// How many places a user has.
    pub fn of(&self, user: u32) -> usize {
        self.shares.of(user)
    }

    /// May a user have one more?
    pub fn has_room(&self, user: u32) -> bool {
        self.shares.has_room(user, 1)
    }

    /// A user has a place from now on whether anything is in it or not.
    pub fn reserve(&mut self, user: u32) {
        self.shares.take(user, 1);
    }

    /// It has not any more.
    pub fn release(&mut self, user: u32) {
        self.shares.give_back(user, 1);
    }

    /// Adds a signal, as one of a user, or with a place that is [reserved](Self::reserve).
    pub fn push(&mut self, owner: Owner, signal: u32, user: Option<u32>, what: T) {
        user.inspect(|&user| self.shares.take(user, 1));
        self.lists.entry((owner, signal)).or_default().push_back(Item { user, what });
    }

    /// Does one wait?
    pub fn has(&self, owner: Owner, signal: u32) -> bool {
        self.lists.contains_key(&(owner, signal))
    }

    /// All of a number, in the order in which they came.
    pub fn all_of(&self, owner: Owner, signal: u32) -> impl Iterator<Item = &T> {
        let list = self.lists.get(&(owner, signal));
        list.into_iter().flatten().map(|item| &item.what)
    }

    /// Takes the one that has waited longest.
    pub fn pop(&mut self, owner: Owner, signal: u32) -> Option<T> {
        let list = self.lists.get_mut(&(owner, signal))?;
        let item = list.pop_front()?;
        if list.is_empty() {
            self.lists.remove(&(owner, signal));
        }
        item.user.inspect(|&user| self.shares.give_back(user, 1));
        Some(item.what)
    }

    /// The numbers of those that wait: bit N-1 for signal N.
    pub fn signals(&self, owner: Owner) -> u64 {
        self.numbers(owner).fold(0, |set, signal| set | bit(signal))
    }

    fn numbers(&self, owner: Owner) -> impl Iterator<Item = u32> + '_ {
        self.lists.range((owner, 0)..=(owner, u32::MAX)).map(|(&(_, signal), _)| signal)
    }

    fn first_of(&self, owner: Owner, set: u64) -> Option<u32> {
        self.numbers(owner).find(|&signal| bit(signal) & set != 0)
    }

    /// Takes all of a set away.
    pub fn forget(&mut self, owner: Owner, set: u64) {
        while let Some(signal) = self.first_of(owner, set) {
            let list = self.lists.remove(&(owner, signal)).unwrap_or_default();
            for user in list.into_iter().filter_map(|item| item.user) {
                self.shares.give_back(user, 1);
            }
        }
    }

    /// What waits for one is for another from now on, for whom nothing waits that was there before.
    pub fn hand_over(&mut self, from: Owner, to: Owner) {
        if from == to {
            return;
        }
        self.forget(to, u64::MAX);
        while let Some(signal) = self.first_of(from, u64::MAX) {
            let Some(list) = self.lists.remove(&(from, signal)) else { break };
            self.lists.insert((to, signal), list);
        }
    }
}

const fn bit(signal: u32) -> u64 {
    match signal {
        1..=64 => 1 << (signal - 1),
        _ => 0,
    }
}
