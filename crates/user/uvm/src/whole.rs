//! Regions that one entry of the directory maps: parts of a shared object that are page tables themselves. Faults there are the
//! kernel's; nothing is known here of pages.
//!
//! An entry has one set of rights, and is there or is not. So whatever concerns less than all of the region, or its rights,
//! takes it away: the next fault maps what is right then.

use crate::backend::{Backend, Extent, ObjectError, Table};
use crate::pmap::Pmap;
use crate::types::{NoMemory, Prot};

impl Pmap {
    /// Is a region mapped by one entry?
    #[inline]
    pub fn is_whole(&self, key: u64) -> bool {
        self.has_wholes && self.find_whole(key)
    }

    #[cold]
    #[inline(never)]
    fn find_whole(&self, key: u64) -> bool {
        self.wholes.get(key).is_some()
    }

    /// How many regions are.
    pub fn wholes(&self) -> usize {
        self.wholes.len()
    }

    /// Maps a region by one entry to the pages of an object from `object_page` on. All that was mapped there was of that
    /// object, too.
    pub fn enter_whole(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        extent: &Extent,
        object_page: u64,
        prot: Prot,
    ) -> Result<(), ObjectError> {
        self.drop_region(b, key)?;
        let entry = b.whole_new(key, extent, object_page, prot)?;
        if let Err(NoMemory) = self.wholes.insert(key, entry) {
            // If it cannot be dropped either, it is lost, but nobody else maps anything there.
            let _ = b.whole_drop(key, entry);
            return Err(ObjectError::NoMemory);
        }
        self.has_wholes = true;
        Ok(())
    }

    /// Takes the entry of a region away that is mapped by one.
    ///
    /// # Errors
    ///
    /// The backend refuses: nothing has changed.
    #[inline]
    pub(crate) fn leave_whole(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        match self.is_whole(key) {
            true => self.drop_whole(b, key),
            false => Ok(()),
        }
    }

    #[cold]
    fn drop_whole(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        if let Some(&entry) = self.wholes.get(key) {
            b.whole_drop(key, entry)?;
            self.wholes.remove(key);
            self.has_wholes = !self.wholes.is_empty();
        }
        Ok(())
    }

    /// Takes all such entries away.
    pub(crate) fn drop_wholes(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        let mut result = Ok(());
        let mut at = 0;
        while let Some(key) = self.wholes.next_key(at) {
            at = key + 1;
            result = result.and(self.drop_whole(b, key));
        }
        result
    }

    /// In a child: it has none of them.
    pub(crate) fn forget_wholes(&mut self, b: &mut impl Backend) {
        self.wholes.iter().for_each(|(_, &entry): (u64, &Table)| b.not_inherited(entry, [None; 2]));
        self.wholes.clear();
        self.has_wholes = false;
    }
}
