//! A sparse table: few keys out of many, found fast when the same one is asked for again.

use alloc::vec::Vec;

/// Values by key, in the order of the keys.
#[derive(Clone)]
pub struct Sparse<T> {
    keys: Vec<u64>,
    values: Vec<T>,
    last: usize,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Sparse<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Sparse { keys: Vec::new(), values: Vec::new(), last: 0 }
    }
    #[inline]
    fn index(&self, key: u64) -> Result<usize, usize> {
        if self.keys.get(self.last) == Some(&key) {
            return Ok(self.last);
        }
        self.keys.binary_search(&key)
    }
    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&T> {
        self.values.get(self.index(key).ok()?)
    }
    /// The value of `key`.
    #[inline]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let index = self.index(key).ok()?;
        self.last = index;
        self.values.get_mut(index)
    }
    /// Adds a key that the table does not have, or replaces its value.
    pub fn insert(&mut self, key: u64, value: T) {
        match self.keys.binary_search(&key) {
            Ok(index) => self.values[index] = value,
            Err(index) => {
                self.keys.insert(index, key);
                self.values.insert(index, value);
                self.last = index;
            }
        }
    }
    /// Removes a key.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let index = self.keys.binary_search(&key).ok()?;
        self.keys.remove(index);
        Some(self.values.remove(index))
    }
    /// Removes the values for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let (mut index, mut kept) = (0, 0);
        self.values.retain_mut(|value| {
            let stays = keep(value);
            if stays {
                self.keys[kept] = self.keys[index];
                kept += 1;
            }
            index += 1;
            stays
        });
        self.keys.truncate(kept);
    }
    /// The first key at or behind `key`.
    #[inline]
    pub fn next_key(&self, key: u64) -> Option<u64> {
        match self.index(key) {
            Ok(_) => Some(key),
            Err(index) => self.keys.get(index).copied(),
        }
    }
    /// All keys and values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.keys.iter().copied().zip(self.values.iter())
    }
    /// All keys and values, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.keys.iter().copied().zip(self.values.iter_mut())
    }
}
