//! What is lent to a thread, which needs nobody for it then.
//!
//! **Addresses**, in which it maps private memory and unmaps it again, as long as nobody has touched it.
//!
//! The map has an entry for them, so that nothing else goes there. What the thread has mapped is told when the lending
//! ends, which it does before anybody looks at anything there: [`Space`] itself never sees such an entry but to pass it by.
//!
//! **Memory that has contents**: a region that one entry shows, which is an object of the process's own. It is as with addresses, but that there is an entry in
//! the page tables, which the thread hides and shows again where it runs, and that the object has no pages while it is not mapped.
//!
//! **The rights of pages**, which are an entry of their own meanwhile. The thread takes rights from the pages, and gives them back, where it
//! runs; here they are what they were. When it ends the page tables become what the thread said last, whether its own change has come there
//! or is still to come: then it changes nothing any more, since it can only give back what it has taken.

use crate::backend::{Backend, ObjectId};
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{NoMemory, Prot, REGION_PAGES};

/// What can be read and written, as all is that is lent.
const READ_WRITE: Prot = Prot::READ.or(Prot::WRITE);

impl Space {
    /// Lends addresses for so many pages. Answers where they begin; `None`: there is no room.
    ///
    /// # Errors
    ///
    /// There is no memory to note it.
    pub fn lend(&mut self, b: &mut impl Backend, pages: u64) -> Result<Option<u64>, NoMemory> {
        if self.limits.address_space != u64::MAX || !self.map.has_room(2) {
            return Ok(None);
        }
        let Some(start) = self.find_space(pages) else { return Ok(None) };
        self.make_way(b, start, start + pages)?;
        self.map.lend(start, start + pages)?;
        Ok(Some(start))
    }

    /// Ends the lending that began at page `start`: what the thread has mapped are `count` pages from `first` on, readable
    /// and writable. This cannot fail.
    pub fn end_lending(&mut self, start: u64, (first, count): (u64, u64)) {
        let mapped = (count > 0).then_some(Entry {
            start: first,
            end: first + count,
            offset: 0,
            object: None,
            prot: READ_WRITE,
            flags: Flags::default(),
        });
        self.map.end_lending(start, mapped);
    }

    /// Lends pages `start..end`, which are mapped and stay so for the thread. Answers `false` if they are not all of an object of the process's own
    /// that nothing else maps, and that one entry shows which the thread can hide.
    pub fn lend_mapped(&mut self, b: &mut impl Backend, start: u64, end: u64) -> bool {
        let Some((place, &entry)) = self.map.first_from(start) else { return false };
        let is_all = (entry.start, entry.end) == (start, end)
            && start.is_multiple_of(REGION_PAGES)
            && end - start <= REGION_PAGES;
        let is_plain = entry.flags == Flags::OWN && entry.prot == READ_WRITE && entry.offset == 0;
        let Some(object) = entry.object.filter(|_| is_all && is_plain) else { return false };
        let is_alone = self.map.users(object) == 1
            && !self.aside.holds(object)
            && b.object_pages(object) == end - start;
        let is_limited =
            self.limits.address_space != u64::MAX || self.eager || self.has_limited(&(start..end));
        let shown = self.pmap.region_shown(start / REGION_PAGES);
        let Some(shown) = shown.filter(|_| is_alone && !is_limited) else { return false };
        if b.whole_allow_hiding(shown, true).is_err() {
            return false;
        }
        // An entry as a whole can always be changed.
        let lent = self.map.lend_entry(place, (start, end));
        debug_assert!(lent.is_ok());
        lent.is_ok()
    }

    /// Ends that, of pages from `start` on: they are mapped, or nothing is there any more. Answers the object that they were, or are. This cannot fail: what the
    /// page tables cannot follow is condemned.
    pub fn end_lending_mapped(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        is_mapped: bool,
    ) -> Option<ObjectId> {
        let (_, &lent) = self.map.first_from(start)?;
        debug_assert!(lent.start == start && lent.flags.has(Flags::LENT));
        self.map.end_lending(start, Some(Entry { prot: READ_WRITE, flags: Flags::OWN, ..lent }));
        self.pmap.written.add(lent.start, lent.end);
        if is_mapped {
            if let Some(shown) = self.pmap.region_shown(start / REGION_PAGES) {
                // If that is refused, the entry has gone, and the next fault makes one.
                let _ = b.whole_allow_hiding(shown, false);
            }
        } else {
            let _condemned = self.remove_pages(b, lent.start, lent.end);
            self.release(b);
        }
        lent.object
    }

    /// Lends the rights of pages `start..end`. Answers what they are; `None`: they are not all private memory with the same rights, or there are none
    /// that the kernel could change where the thread is.
    ///
    /// # Errors
    ///
    /// There is no memory to note it.
    pub fn lend_rights(&mut self, start: u64, end: u64) -> Result<Option<Prot>, NoMemory> {
        const NOT: Flags =
            Flags::SHARED.or(Flags::LENT).or(Flags::RIGHTS_LENT).or(Flags::LARGE_PAGES);
        let Some((place, &entry)) = self.map.first_from(start) else { return Ok(None) };
        let suits = entry.start <= start
            && end <= entry.end
            && entry.is_private_anonymous()
            && !entry.flags.has_any(NOT)
            && entry.prot != Prot::NONE;
        if !suits || !self.map.has_room(2) {
            return Ok(None);
        }
        let flags = entry.flags.or(Flags::RIGHTS_LENT);
        self.map.change_in(place, start, end, (entry.prot, flags))?;
        Ok(Some(entry.prot))
    }

    /// Ends it: pages `start..end` have these rights. What the page tables cannot follow is condemned, and they follow later.
    pub fn end_lending_rights(
        &mut self,
        b: &mut impl Backend,
        (start, end): (u64, u64),
        prot: Prot,
    ) {
        let Some((place, &entry)) = self.map.first_from(start) else { return };
        debug_assert!((entry.start, entry.end) == (start, end));
        debug_assert!(entry.flags.has(Flags::RIGHTS_LENT));
        let flags = entry.flags.without(Flags::RIGHTS_LENT);
        // An entry as a whole can always be changed.
        let changed = self.map.change_in(place, start, end, (prot, flags));
        debug_assert!(changed.is_ok());
        // Whatever they allow now.
        let _condemned = self.protect_range(b, (start, end), flags, (Prot::ALL, prot));
    }
}
