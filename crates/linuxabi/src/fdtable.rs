//! The table of file descriptors: small integers that name open files.

use alloc::vec::Vec;

/// What a descriptor names, and whether it survives `execve`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Index of the open file.
    pub file: u32,
    /// `FD_CLOEXEC`.
    pub cloexec: bool,
}

/// A table. Descriptors are handed out lowest first.
#[derive(Clone)]
pub struct FdTable {
    entries: Vec<Option<Entry>>,
    /// No descriptor below this one is free.
    lowest: usize,
}

impl FdTable {
    /// An empty one.
    pub const fn new() -> FdTable {
        FdTable { entries: Vec::new(), lowest: 0 }
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
    pub fn lowest_free(&self, min: usize, limit: usize) -> Option<i32> {
        let start = min.max(self.lowest);
        let taken = self.entries.iter().skip(start).take_while(|e| e.is_some()).count();
        let fd = start + taken;
        (fd < limit).then_some(fd as i32)
    }

    /// Puts `entry` at the lowest free descriptor from `min` on that is below `limit`.
    pub fn insert(&mut self, entry: Entry, min: usize, limit: usize) -> Option<i32> {
        let fd = self.lowest_free(min, limit)?;
        self.put(fd, entry);
        if min <= self.lowest {
            self.lowest = fd as usize + 1;
        }
        Some(fd)
    }

    /// Puts `entry` at `fd` and answers what was there. `fd` is not negative.
    pub fn put(&mut self, fd: i32, entry: Entry) -> Option<Entry> {
        let fd = fd as usize;
        if fd >= self.entries.len() {
            self.entries.resize(fd + 1, None);
        }
        self.entries[fd].replace(entry)
    }

    /// Takes `fd` out.
    pub fn remove(&mut self, fd: i32) -> Option<Entry> {
        let entry = self.entries.get_mut(fd as usize)?.take()?;
        self.lowest = self.lowest.min(fd as usize);
        Some(entry)
    }

    /// Every descriptor, in order.
    pub fn iter(&self) -> impl Iterator<Item = (i32, Entry)> + '_ {
        self.entries.iter().enumerate().filter_map(|(fd, e)| Some((fd as i32, (*e)?)))
    }

    /// One more than the highest descriptor.
    pub fn end(&self) -> i32 {
        self.entries.iter().rposition(|e| e.is_some()).map_or(0, |fd| fd as i32 + 1)
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
            assert_eq!(t.insert(E, 0, 100), Some(want));
        }
        t.remove(1);
        t.remove(3);
        assert_eq!(t.insert(E, 2, 100), Some(3));
        assert_eq!(t.insert(E, 0, 100), Some(1));
        assert_eq!(t.insert(E, 0, 100), Some(5));
        assert_eq!(t.insert(E, 0, 6), None);
        assert_eq!(t.insert(E, 50, 100), Some(50));
        assert_eq!((t.end(), t.lowest_free(0, 100)), (51, Some(6)));
        t.put(6, E);
        assert_eq!(t.insert(E, 0, 100), Some(7));
    }

    #[test]
    fn wrong_descriptors() {
        let mut t = FdTable::new();
        assert_eq!(t.get(-1), None);
        assert_eq!(t.remove(-1), None);
        assert!(!t.set_cloexec(0, true));
    }
}
