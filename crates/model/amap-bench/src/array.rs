//! An array with a place for each slot (UVM figure 3.3).

use crate::{Anon, Layout, Occupied};
use std::mem::size_of_val;

/// Finds at once; who visits all anons looks at all slots.
#[derive(Clone)]
pub struct Array(Vec<Option<Anon>>);

impl Layout for Array {
    const NAME: &'static str = "array";

    fn new(slots: u32) -> Array {
        Array(vec![None; slots as usize])
    }
    fn slots(&self) -> u32 {
        self.0.len() as u32
    }
    fn extend(&mut self, by: u32) {
        self.0.resize(self.0.len() + by as usize, None);
    }
    fn add(&mut self, slot: u32, anon: Anon) -> Result<(), Occupied> {
        let place = &mut self.0[slot as usize];
        if place.is_some() {
            return Err(Occupied);
        }
        *place = Some(anon);
        Ok(())
    }
    fn unadd(&mut self, slot: u32) -> Option<Anon> {
        self.0[slot as usize].take()
    }
    fn lookup(&self, slot: u32) -> Option<Anon> {
        self.0[slot as usize]
    }
    fn each(&self, mut visit: impl FnMut(u32, Anon)) {
        for (slot, anon) in (0..).zip(&self.0) {
            if let Some(anon) = anon {
                visit(slot, *anon);
            }
        }
    }
    fn bytes(&self) -> usize {
        size_of_val(&self.0[..])
    }
}
