//! The layout of UVM itself (figure 3.5, listing 5): an array by slot, a list of the slots in use, and for each slot its position in the list.

use crate::{Anon, Layout, Occupied};
use std::mem::size_of_val;

/// Finds at once and visits only what there is, with three arrays.
#[derive(Clone)]
pub struct Hybrid {
    /// `am_anon`.
    anons: Vec<Option<Anon>>,
    /// `am_slots`: those in use, in no order.
    used: Vec<u32>,
    /// `am_bckptr`: where in `used` a slot is. Of slots not in use, anything.
    positions: Vec<u32>,
}

impl Layout for Hybrid {
    const NAME: &'static str = "hybrid";

    fn new(slots: u32) -> Hybrid {
        let count = slots as usize;
        let anons = vec![None; count];
        Hybrid { anons, used: Vec::with_capacity(count), positions: vec![0; count] }
    }
    fn slots(&self) -> u32 {
        self.anons.len() as u32
    }
    fn extend(&mut self, by: u32) {
        let slots = self.anons.len() + by as usize;
        self.anons.resize(slots, None);
        self.positions.resize(slots, 0);
        self.used.reserve_exact(slots - self.used.len());
    }
    fn add(&mut self, slot: u32, anon: Anon) -> Result<(), Occupied> {
        let place = &mut self.anons[slot as usize];
        if place.is_some() {
            return Err(Occupied);
        }
        *place = Some(anon);
        self.positions[slot as usize] = self.used.len() as u32;
        self.used.push(slot);
        Ok(())
    }
    fn unadd(&mut self, slot: u32) -> Option<Anon> {
        let anon = self.anons[slot as usize].take()?;
        let at = self.positions[slot as usize];
        self.used.swap_remove(at as usize);
        if let Some(&moved) = self.used.get(at as usize) {
            self.positions[moved as usize] = at;
        }
        Some(anon)
    }
    fn lookup(&self, slot: u32) -> Option<Anon> {
        self.anons[slot as usize]
    }
    fn each(&self, mut visit: impl FnMut(u32, Anon)) {
        for &slot in &self.used {
            if let Some(anon) = self.anons[slot as usize] {
                visit(slot, anon);
            }
        }
    }
    fn bytes(&self) -> usize {
        // The list has room for all slots, so that to add an anon never needs memory.
        size_of_val(&self.anons[..]) + 2 * size_of_val(&self.positions[..])
    }
}
