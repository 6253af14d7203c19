//! The contents of a file as a list of extents, each backed by something that the owner knows.

use alloc::vec::Vec;
use paging::PAGE;

/// Part of a file that lies in one piece of memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Extent<H> {
    /// First byte in the file, a multiple of [`PAGE`].
    pub start: u64,
    /// Bytes, a multiple of [`PAGE`].
    pub bytes: u64,
    /// May be written in place.
    pub writable: bool,
    /// What holds the bytes.
    pub handle: H,
}

impl<H> Extent<H> {
    /// First byte behind it.
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// The extents of a file, in order, never overlapping. What they leave out is zeros.
#[derive(Debug, PartialEq, Eq)]
pub struct Extents<H> {
    list: Vec<Extent<H>>,
}

impl<H> Default for Extents<H> {
    fn default() -> Self {
        Extents { list: Vec::new() }
    }
}

impl<H> Extents<H> {
    fn index(&self, offset: u64) -> Result<usize, usize> {
        let at = self.list.partition_point(|e| e.end() <= offset);
        match self.list.get(at) {
            Some(extent) if extent.start <= offset => Ok(at),
            _ => Err(at),
        }
    }
    /// The extent that holds a byte; else the hole around it as first byte and byte behind.
    pub fn find(&self, offset: u64) -> Result<&Extent<H>, (u64, u64)> {
        match self.index(offset) {
            Ok(at) => Ok(&self.list[at]),
            Err(at) => {
                let start = if at == 0 { 0 } else { self.list[at - 1].end() };
                let end = self.list.get(at).map_or(!(PAGE - 1), |e| e.start);
                Err((start, end))
            }
        }
    }
    /// Puts an extent into a hole. Gives it back if it is empty or overlaps another, or if there is no
    /// memory to note it.
    pub fn insert(&mut self, extent: Extent<H>) -> Result<(), Extent<H>> {
        let aligned = (extent.start | extent.bytes) & (PAGE - 1) == 0;
        match self.index(extent.start) {
            Err(at) if aligned && extent.bytes > 0 => {
                if self.list.get(at).is_some_and(|next| next.start < extent.end()) {
                    return Err(extent);
                }
                if self.list.try_reserve(1).is_err() {
                    return Err(extent);
                }
                self.list.insert(at, extent);
                Ok(())
            }
            _ => Err(extent),
        }
    }
    /// Takes the extent that holds a byte out.
    pub fn take(&mut self, offset: u64) -> Option<Extent<H>> {
        let at = self.index(offset).ok()?;
        Some(self.list.remove(at))
    }
    /// Drops every extent that starts at or behind `size` (rounded up to a page). True if any was.
    pub fn truncate(&mut self, size: u64) -> bool {
        let keep = self.list.partition_point(|e| e.start < size);
        let any = keep < self.list.len();
        self.list.truncate(keep);
        any
    }
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Extent<H>> {
        self.list.iter()
    }
    /// Bytes of memory in all.
    pub fn allocated(&self) -> u64 {
        self.list.iter().map(|e| e.bytes).sum()
    }
    /// First byte behind the last extent.
    pub fn end(&self) -> u64 {
        self.list.last().map_or(0, Extent::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, pages: u64) -> Extent<u64> {
        Extent { start: start * PAGE, bytes: pages * PAGE, writable: true, handle: start }
    }

    #[test]
    fn holes_and_extents_are_found() {
        let mut list = Extents::default();
        assert_eq!(list.insert(extent(4, 2)), Ok(()));
        assert_eq!(list.insert(extent(0, 1)), Ok(()));
        assert!(list.insert(extent(3, 2)).is_err());
        assert!(list.insert(extent(5, 1)).is_err());
        assert!(list.insert(extent(8, 0)).is_err());
        assert_eq!(list.find(PAGE), Err((PAGE, 4 * PAGE)));
        assert_eq!(list.find(6 * PAGE - 1).map(|e| e.handle), Ok(4));
        assert_eq!(list.find(6 * PAGE).map_err(|hole| hole.0).err(), Some(6 * PAGE));
        assert_eq!(list.allocated(), 3 * PAGE);
    }

    #[test]
    fn truncation_keeps_what_begins_before() {
        let mut list = Extents::default();
        for start in [0, 1, 2] {
            assert_eq!(list.insert(extent(start, 1)), Ok(()));
        }
        assert!(list.truncate(PAGE + 1));
        assert_eq!(list.end(), 2 * PAGE);
        assert!(!list.truncate(2 * PAGE));
    }
}
