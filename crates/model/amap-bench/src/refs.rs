//! How an entry of a map refers to a part of an amap (UVM §3.2.1).

use crate::{Anon, Anons, Layout, Occupied};
use std::cell::RefCell;
use std::rc::Rc;

/// An amap, and where in it the entry begins. An entry that is divided gives two of the same amap; one that a fork makes is of the
/// same amap, too, until one of both needs its own.
pub struct Aref<L> {
    amap: Rc<RefCell<L>>,
    offset: u32,
    slots: u32,
    /// `NEEDS_COPY`: perhaps another process has the amap.
    needs_copy: bool,
}

impl<L: Layout> Aref<L> {
    /// All of a new amap.
    pub fn new(slots: u32) -> Aref<L> {
        let amap = Rc::new(RefCell::new(L::new(slots)));
        Aref { amap, offset: 0, slots, needs_copy: false }
    }

    /// How many slots the entry has.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Divides it; the part from slot `at` on is answered.
    pub fn split(&mut self, at: u32) -> Aref<L> {
        let at = at.min(self.slots);
        let rest = Aref {
            amap: self.amap.clone(),
            offset: self.offset + at,
            slots: self.slots - at,
            needs_copy: self.needs_copy,
        };
        self.slots = at;
        rest
    }

    /// A second entry of the same amap, for the child of a fork. Whichever is changed first [gets its own](Aref::unshare).
    pub fn fork(&mut self) -> Aref<L> {
        self.needs_copy = true;
        Aref { amap: self.amap.clone(), ..*self }
    }

    /// Before something is changed: if another process may have the amap, the entry gets one of its own, with the same anons.
    pub fn unshare(&mut self, anons: &mut Anons) {
        if !std::mem::take(&mut self.needs_copy) || Rc::strong_count(&self.amap) == 1 {
            return;
        }
        let mut own = L::new(self.slots);
        self.amap.borrow().each(|slot, anon| {
            let at = slot.wrapping_sub(self.offset);
            if at < self.slots {
                anons.hold(anon);
                let added = own.add(at, anon);
                debug_assert_eq!(added, Ok(()), "each slot comes once");
            }
        });
        (self.amap, self.offset) = (Rc::new(RefCell::new(own)), 0);
    }

    /// The anon of a slot of the entry.
    pub fn lookup(&self, slot: u32) -> Option<Anon> {
        assert!(slot < self.slots);
        self.amap.borrow().lookup(self.offset + slot)
    }

    /// Gives a slot of the entry one.
    pub fn add(&mut self, slot: u32, anon: Anon) -> Result<(), Occupied> {
        assert!(slot < self.slots && !self.needs_copy);
        self.amap.borrow_mut().add(self.offset + slot, anon)
    }

    /// The entry ends, and with the last one the amap. Anons of a part that ends before the others stay until then: UVM has counts by part for
    /// them (`am_ppref`), which no layout differs in.
    pub fn free(self, anons: &mut Anons) {
        if let Ok(amap) = Rc::try_unwrap(self.amap) {
            amap.into_inner().free(anons);
        }
    }
}
