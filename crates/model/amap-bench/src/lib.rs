//! The three layouts of amaps that UVM describes (§3.2.3, §3.2.4), and chunks, as the amap of a Linux process here has them
//! ([`uvm`](../uvm)), with the same interface.
//!
//! An *amap* says for each page (*slot*) of a range of private memory which anon it has, if any. An [`Anon`] is a page,
//! with a count of the amaps that have it; here it is a number. For comparison only: nothing here is part of Tessera.

#![forbid(unsafe_code)]

mod anons;
mod array;
mod chunks;
mod hybrid;
mod list;
pub mod measure;
mod refs;

pub use anons::{Anon, Anons};
pub use array::Array;
pub use chunks::Chunks;
pub use hybrid::Hybrid;
pub use list::List;
pub use refs::Aref;

/// A slot has an anon already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupied;

/// A layout of an amap: what UVM calls `amap_alloc`, `amap_add` and so on.
///
/// Slots are below [`slots`](Layout::slots).
pub trait Layout: Clone {
    /// A heading of a table.
    const NAME: &'static str;

    /// So many slots without anons.
    fn new(slots: u32) -> Self;

    /// How many slots there are.
    fn slots(&self) -> u32;

    /// Adds slots without anons at the end.
    fn extend(&mut self, by: u32);

    /// Gives a slot an anon.
    fn add(&mut self, slot: u32, anon: Anon) -> Result<(), Occupied>;

    /// Takes it out again.
    fn unadd(&mut self, slot: u32) -> Option<Anon>;

    /// The anon of a slot.
    fn lookup(&self, slot: u32) -> Option<Anon>;

    /// Every slot that has one, in no order.
    fn each(&self, visit: impl FnMut(u32, Anon));

    /// Bytes that this takes, without the anons.
    fn bytes(&self) -> usize;

    /// A second amap with the same anons, which each have one more that holds them (UVM's `amap_copy`).
    fn copy(&self, anons: &mut Anons) -> Self {
        self.each(|_, anon| anons.hold(anon));
        self.clone()
    }

    /// A second amap with copies of the anons (UVM's `amap_cow_now`: what a fork without copy-on-write does).
    fn copy_deeply(&self, anons: &mut Anons) -> Self {
        let mut copy = Self::new(self.slots());
        self.each(|slot, _| {
            let added = copy.add(slot, anons.make());
            debug_assert_eq!(added, Ok(()), "each slot comes once");
        });
        copy
    }

    /// The end of the amap: its anons have one less that holds them.
    fn free(self, anons: &mut Anons) {
        self.each(|_, anon| anons.drop(anon));
    }
}
