//! Addresses that are lent to a thread, in which it maps private memory and unmaps it again without asking anybody, as long as
//! nobody has touched it.
//!
//! The map has an entry for them, so that nothing else goes there. What the thread has mapped is told when the lending
//! ends, which it does before anybody looks at anything there: [`Space`] itself never sees such an entry but to pass it by.

use crate::backend::Backend;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{NoMemory, Prot};

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
            prot: Prot::READ.or(Prot::WRITE),
            flags: Flags::default(),
        });
        self.map.end_lending(start, mapped);
    }
}
