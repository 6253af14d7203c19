//! The table of file descriptors: small integers that name open files.

use alloc::vec::Vec;
use tables::{NoMemory, Numbers};

/// What a descriptor names, and whether it survives `execve`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Index of the open file.
    pub file: u32,
    /// `FD_CLOEXEC`.
    pub cloexec: bool,
}

/// A table. Descriptors are handed out lowest first, in a few steps however many there are.
#[derive(Clone)]
pub struct FdTable {
    entries: Vec<Option<Entry>>,
    /// Descriptors in use.
    used: Numbers,
}

impl FdTable {
    /// An empty one.
    pub const fn new() -> FdTable {
        FdTable { entries: Vec::new(), used: Numbers::new() }
    }

    /// What `fd` names.
    #[inline]
    pub fn get(&self, fd: i32) -> Option<Entry> {
        *self.entries.get(fd as usize)?
    }

    /// Changes whether `fd` survives `execve`. False if there is no such descriptor.
    pub fn set_cloexec(&mut self, fd: i32, cloexec: bool) -> bool {
        match self.entries.get_mut(fd as usize) {
            Some(Some(entry)) => {
                entry.cloexec = cloexec;
                true
            }
            _ => false,
        }
    }

    /// The lowest free descriptor that is at least `min`, if it is below `limit`.
    pub fn lowest_free(&self, min: u32, limit: u32) -> Option<i32> {
        let fd = self.used.next_free(min);
        (fd < limit).then_some(fd as i32)
    }

    /// Puts `entry` at the lowest free descriptor from `min` on that is below `limit`.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn insert(&mut self, entry: Entry, min: u32, limit: u32) -> Result<Option<i32>, NoMemory> {
        let Some(fd) = self.lowest_free(min, limit) else { return Ok(None) };
        self.put(fd, entry)?;
        Ok(Some(fd))
    }

    /// Puts `entry` at `fd` and answers what was there. `fd` is not negative.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn put(&mut self, fd: i32, entry: Entry) -> Result<Option<Entry>, NoMemory> {
        let index = fd as usize;
        if index >= self.entries.len() {
            self.entries.try_reserve(index + 1 - self.entries.len())?;
        }
        self.used.mark(fd as u32)?;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, None);
        }
        Ok(self.entries[index].replace(entry))
    }

    /// Takes `fd` out.
    pub fn remove(&mut self, fd: i32) -> Option<Entry> {
        let entry = self.entries.get_mut(fd as usize)?.take()?;
        self.used.free(fd as u32);
        Some(entry)
    }

    /// Every descriptor from `min` on, in order.
    pub fn from(&self, min: i32) -> impl Iterator<Item = (i32, Entry)> + '_ {
        let entries = self.entries.iter().enumerate().skip(min.max(0) as usize);
        entries.filter_map(|(fd, entry)| Some((fd as i32, (*entry)?)))
    }

    /// One more than the highest descriptor.
    pub fn end(&self) -> i32 {
        self.used.end() as i32
    }
}

impl Default for FdTable {
    fn default() -> Self {
        FdTable::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: Entry = Entry { file: 3, cloexec: false };

    #[test]
    fn lowest_first_with_holes() {
        let mut t = FdTable::new();
        for want in 0..5 {
            assert_eq!(t.insert(E, 0, 100), Ok(Some(want)));
        }
        t.remove(1);
        t.remove(3);
        assert_eq!(t.insert(E, 2, 100), Ok(Some(3)));
        assert_eq!(t.insert(E, 0, 100), Ok(Some(1)));
        assert_eq!(t.insert(E, 0, 100), Ok(Some(5)));
        assert_eq!(t.insert(E, 0, 6), Ok(None));
        assert_eq!(t.insert(E, 50, 100), Ok(Some(50)));
        assert_eq!((t.end(), t.lowest_free(0, 100)), (51, Some(6)));
        assert_eq!(t.put(6, E), Ok(None));
        assert_eq!(t.put(6, E), Ok(Some(E)));
        assert_eq!(t.insert(E, 0, 100), Ok(Some(7)));
        assert_eq!(t.from(5).map(|(fd, _)| fd).collect::<Vec<_>>(), [5, 6, 7, 50]);
        t.remove(50);
        assert_eq!(t.end(), 8);
    }

    #[test]
    fn wrong_descriptors() {
        let mut t = FdTable::new();
        assert_eq!(t.get(-1), None);
        assert_eq!(t.remove(-1), None);
        assert!(!t.set_cloexec(0, true));
    }
}
