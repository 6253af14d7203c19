//! `munmap`.

use crate::backend::{Backend, ObjectId};
use crate::map::Removed;
use crate::space::Space;
use crate::types::{Error, NoMemory, PAGE};

impl Space {
    /// `munmap`.
    pub fn munmap(&mut self, b: &mut impl Backend, addr: u64, len: u64) -> Result<(), Error> {
        let (start, end) = self.range(addr, len).map_err(|_| Error::Invalid)?;
        if end == start || end > self.high || len > self.high * PAGE {
            return Err(Error::Invalid);
        }
        if self.map.cuts_large(start, end) {
            return Err(Error::Invalid);
        }
        if !self.map.has_room(2) && self.map.splits(start, end) == 2 {
            return Err(Error::NoMemory);
        }
        self.pmap.drop_condemned(b)?;
        Ok(self.unmap_pages(b, start, end)?)
    }

    /// An object has only `pages` pages left: what is behind goes out of memory, with the private
    /// copies of it. The entries stay: who uses them gets [`NoPage`](crate::FaultError::NoPage).
    ///
    /// # Errors
    ///
    /// The backend refuses: some may be visible.
    pub fn object_cut(
        &mut self,
        b: &mut impl Backend,
        object: ObjectId,
        pages: u64,
    ) -> Result<(), NoMemory> {
        let (mut at, mut result) = (0, Ok(()));
        for _ in 0..self.map.users(object) {
            let mut entries = self.map.entries_from(at);
            let Some(&entry) = entries.find(|entry| entry.object == Some(object)) else { break };
            let kept = pages.saturating_sub(entry.object_page(entry.start));
            if kept < entry.pages() {
                result = result.and(self.discard(b, entry.start + kept, entry.end, false));
            }
            at = entry.end;
        }
        result
    }

    /// Removes entries and pages `start..end`.
    ///
    /// # Errors
    ///
    /// There is no memory to divide an entry: nothing has changed. Or the backend refuses: the entries have
    /// gone, and where pages are left the regions are condemned.
    pub(crate) fn unmap_pages(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), NoMemory> {
        let own = self.own_within(start, end)?;
        let removed = self.remove_pages(b, start, end);
        self.give_up(b, own);
        self.release(b);
        removed
    }

    /// The same, but objects that nothing maps any more are [released](Space::release) later: one of them may be
    /// what is mapped there next; and [its own](crate::own) keep what they have.
    pub(crate) fn remove_pages(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), NoMemory> {
        let Some(Removed { first, last, pure }) = self.map.remove(start, end)? else {
            return Ok(());
        };
        let discarded = self.discard(b, first, last, pure);
        let dropped = self.drop_unused_tables(b, first, last);
        discarded.and(dropped)
    }

    /// Gives back tables that no entry needs any more, if the range was large.
    fn drop_unused_tables(
        &mut self,
        b: &mut impl Backend,
        first: u64,
        last: u64,
    ) -> Result<(), NoMemory> {
        if last - first < 64 {
            return Ok(());
        }
        let mut at = first >> 9;
        while let Some(key) = self.pmap.next_key(at).filter(|&key| key << 9 < last) {
            if self.map.is_free(key << 9, (key + 1) << 9) {
                self.pmap.drop_region(b, key)?;
            }
            at = key + 1;
        }
        Ok(())
    }
}
