//! `brk`.

use crate::backend::Backend;
use crate::map::Entry;
use crate::space::Space;
use crate::types::{Prot, PAGE};

impl Space {
    /// Sets where the heap starts, and makes it empty.
    pub fn set_brk_start(&mut self, addr: u64) {
        self.brk_start = addr;
        self.brk = addr;
    }
    /// Start and end of the heap.
    pub fn heap(&self) -> (u64, u64) {
        (self.brk_start, self.brk)
    }

    /// `brk`: moves the end of the heap, if that is possible, and answers where it is.
    pub fn brk(&mut self, b: &mut impl Backend, addr: u64) -> u64 {
        if addr < self.brk_start || addr > self.high * PAGE {
            return self.brk;
        }
        let (old, new) = (self.brk.div_ceil(PAGE), addr.div_ceil(PAGE));
        if new < old {
            if self.unmap_pages(b, new, old).is_err() {
                return self.brk;
            }
        } else if new > old {
            let too_much = addr - self.brk_start > self.limits.data
                || !self.may_add(new - old)
                || new - old > self.limits.commit / PAGE
                || !self.map.has_room(1);
            let too_much = too_much || self.pmap.drop_condemned(b).is_err();
            // One page stays free behind the heap.
            if too_much || !self.map.is_free_with_guard(old, new + 1) {
                return self.brk;
            }
            if self.make_way(b, old, new).is_err() {
                return self.brk;
            }
            let prot = Prot::READ.or(Prot::WRITE);
            let flags = self.new_flags();
            let heap = Entry { start: old, end: new, offset: 0, object: None, prot, flags };
            if self.map.insert(heap).is_err() {
                return self.brk;
            }
        }
        self.brk = addr;
        addr
    }
}
