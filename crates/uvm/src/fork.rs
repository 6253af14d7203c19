//! What fork and exec do to the address space.
//!
//! Fork copies nothing here. The parent marks every chunk and every region as shared; the library
//! then copies itself, with these records, into the child, and gives the child capabilities to the
//! same CNodes and tables under the same numbers.

use crate::backend::{Backend, ObjectId};
use crate::map::{Entry, Flags, Map};
use crate::space::Space;
use crate::types::PAGE;
use alloc::vec::Vec;

impl Space {
    /// Gets ready to be copied into a child.
    pub fn fork(&mut self, b: &mut impl Backend) {
        self.amap.drop_spare(b);
        let mut at = 0;
        while let Some(key) = self.pmap.next_key(at) {
            self.pmap.drop_if_empty(b, key);
            at = key + 1;
        }
        self.amap.share_all();
        self.pmap.share_all();
    }

    /// In the child: removes or wipes what `madvise` said that it must not see.
    pub fn after_fork(&mut self, b: &mut impl Backend) {
        let special = Flags::DONT_FORK.or(Flags::WIPE_ON_FORK);
        let entries: Vec<Entry> =
            self.map.entries().iter().filter(|e| e.flags.0 & special.0 != 0).copied().collect();
        for entry in entries {
            if entry.flags.has(Flags::DONT_FORK) {
                self.unmap_pages(b, entry.start, entry.end);
            } else {
                self.discard(b, entry.start, entry.end, entry.is_pure_anonymous());
            }
        }
        self.map.change(0, self.high, |entry| entry.flags = entry.flags.without(Flags::LOCKED));
    }

    /// Gives everything up, for a new program.
    pub fn clear(&mut self, b: &mut impl Backend) {
        let mut objects: Vec<ObjectId> = Vec::new();
        objects.extend(self.map.entries().iter().filter_map(|entry| entry.object));
        self.map = Map::new();
        while let Some(key) = self.pmap.next_key(0) {
            self.pmap.drop_region(b, key);
        }
        self.amap.clear(b);
        self.release(b, &objects);
        *self = Space { limits: self.limits, ..Space::new(self.low * PAGE, self.high * PAGE) };
    }
}
