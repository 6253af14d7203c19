//! A sparse table: few keys out of many, found fast when the same one is asked for again.

use crate::ranges::{Item, Ranges};
use crate::slab::Slab;
use crate::NoMemory;
use core::cell::Cell;

/// A key, and the number of its value, or [`ABSENT`].
#[derive(Clone, Copy, Debug)]
struct Key {
    key: u64,
    value: u32,
}

/// The table does not have the key.
const ABSENT: u32 = u32::MAX;

impl Item for Key {
    #[inline]
    fn start(&self) -> u64 {
        self.key
    }
    #[inline]
    fn end(&self) -> u64 {
        self.key + 1
    }
}

/// Values by key (below 2⁶⁴ - 1), in the order of the keys. So many keys are remembered (a power of two).
#[derive(Clone)]
pub struct Sparse<T, const RECENT: usize = 1> {
    keys: Ranges<Key>,
    values: Slab<Option<T>>,
    /// Keys that were asked for last, each at its place, whether the table has them or not.
    recent: [Cell<Key>; RECENT],
}

impl<T, const RECENT: usize> Default for Sparse<T, RECENT> {
    fn default() -> Self {
        Self::new()
    }
}

/// What is remembered where no key was used.
const NOBODY: Key = Key { key: u64::MAX, value: ABSENT };

impl<T, const RECENT: usize> Sparse<T, RECENT> {
    /// An empty table.
    pub const fn new() -> Self {
        let recent = [const { Cell::new(NOBODY) }; RECENT];
        Sparse { keys: Ranges::new(), values: Slab::new(), recent }
    }

    /// Where a key is remembered. Keys whose distance is a power of two are not at one place.
    #[inline(always)]
    fn place(key: u64) -> usize {
        match RECENT {
            1 => 0,
            _ => {
                (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.trailing_zeros())) as usize
            }
        }
    }

    /// The number of the value of `key`, or [`ABSENT`], where no value is.
    #[inline]
    fn find(&self, key: u64) -> u32 {
        let recent = self.recent[Self::place(key)].get();
        match recent.key == key {
            true => recent.value,
            false => self.search(key),
        }
    }

    #[inline(never)]
    fn search(&self, key: u64) -> u32 {
        let found = self.keys.get(self.keys.seek_start(key)).filter(|found| found.key == key);
        let value = found.map_or(ABSENT, |found| found.value);
        self.remember(Key { key, value });
        value
    }

    fn remember(&self, key: Key) {
        self.recent[Self::place(key.key)].set(key);
    }

    fn forget(&self, key: u64) {
        self.remember(Key { key, value: ABSENT });
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&T> {
        self.values.get(self.find(key))?.as_ref()
    }

    /// The value of `key`.
    #[inline]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.values.get_mut(self.find(key))?.as_mut()
    }

    /// Adds a key that the table does not have, or replaces its value.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn insert(&mut self, key: u64, value: T) -> Result<(), NoMemory> {
        let place = self.keys.seek_start(key);
        if let Some(old) = self.keys.get(place).filter(|found| found.key == key) {
            if let Some(old) = self.values.get_mut(old.value) {
                *old = Some(value);
            }
            return Ok(());
        }
        let value = self.values.add(Some(value))?;
        let new = Key { key, value };
        if let Err(error) = self.keys.insert_at(place, new) {
            self.values.remove(value);
            return Err(error);
        }
        self.remember(new);
        Ok(())
    }

    /// Removes a key.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let place = self.keys.seek_start(key);
        let found = *self.keys.get(place).filter(|found| found.key == key)?;
        self.keys.remove(place);
        self.forget(key);
        self.values.remove(found.value)
    }

    /// Removes all. A small table keeps its memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.recent.iter().for_each(|recent| recent.set(NOBODY));
    }

    /// Removes the values for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let mut place = self.keys.first();
        while let Some(&found) = self.keys.get(place) {
            let value = self.values.get_mut(found.value).and_then(Option::as_mut);
            place = match value.map(&mut keep) {
                Some(true) => self.keys.next(place),
                _ => {
                    self.values.remove(found.value);
                    self.forget(found.key);
                    self.keys.remove(place)
                }
            };
        }
    }

    /// The first key at or behind `key`.
    #[inline]
    pub fn next_key(&self, key: u64) -> Option<u64> {
        let recent = self.recent[Self::place(key)].get();
        if recent.key == key && recent.value != ABSENT {
            return Some(key);
        }
        self.keys.get(self.keys.seek_start(key)).map(|found| found.key)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All keys and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.keys
            .iter()
            .filter_map(|found| Some((found.key, self.values.get(found.value)?.as_ref()?)))
    }

    /// Calls `f` with all keys and values, in order.
    pub fn for_each_mut(&mut self, mut f: impl FnMut(u64, &mut T)) {
        for found in self.keys.iter() {
            if let Some(value) = self.values.get_mut(found.value).and_then(Option::as_mut) {
                f(found.key, value);
            }
        }
    }

    /// All values, in no order.
    #[inline]
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64, u32),
        Run(u64, u64),
        Remove(u64),
        RemoveRun(u64, u64),
        Retain(u32),
    }

    fn key() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..40, 0u64..3000, 1u64 << 27..(1 << 27) + 3000]
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (key(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
            2 => (key(), 1u64..400).prop_map(|(key, count)| Op::Run(key, count)),
            3 => key().prop_map(Op::Remove),
            1 => (key(), 1u64..400).prop_map(|(key, count)| Op::RemoveRun(key, count)),
            1 => (1u32..5).prop_map(Op::Retain),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(ops in proptest::collection::vec((op(), key()), 0..60)) {
            let mut table = Sparse::<u32, 4>::new();
            let mut map = BTreeMap::new();
            for (op, probe) in ops {
                match op {
                    Op::Insert(key, value) => {
                        table.insert(key, value).unwrap();
                        map.insert(key, value);
                    }
                    Op::Run(key, count) => for key in key..key + count {
                        table.insert(key, key as u32).unwrap();
                        map.insert(key, key as u32);
                    },
                    Op::Remove(key) => prop_assert_eq!(table.remove(key), map.remove(&key)),
                    Op::RemoveRun(key, count) => for key in key..key + count {
                        prop_assert_eq!(table.remove(key), map.remove(&key));
                    },
                    Op::Retain(n) => {
                        table.retain(|value| *value % n != 0);
                        map.retain(|_, value| *value % n != 0);
                    }
                }
                if let Some(value) = table.get_mut(probe) {
                    *value = value.wrapping_add(1);
                }
                if let Some(value) = map.get_mut(&probe) {
                    *value = value.wrapping_add(1);
                }
                prop_assert_eq!(table.get(probe), map.get(&probe));
                prop_assert_eq!(table.next_key(probe), map.range(probe..).next().map(|(key, _)| *key));
                prop_assert_eq!(table.len(), map.len());
            }
            let mut changed = Vec::new();
            table.for_each_mut(|key, value| {
                *value = value.wrapping_mul(3);
                changed.push((key, *value));
            });
            map.values_mut().for_each(|value| *value = value.wrapping_mul(3));
            prop_assert_eq!(changed, map.clone().into_iter().collect::<Vec<_>>());
            let all: Vec<(u64, u32)> = table.iter().map(|(key, value)| (key, *value)).collect();
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
        }
    }
}
