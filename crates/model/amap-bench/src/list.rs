//! A linked list of the slots that have anons (UVM figure 3.4).

use crate::{Anon, Layout, Occupied};
use std::iter::successors;

struct Item {
    slot: u32,
    anon: Anon,
    next: Link,
}

type Link = Option<Box<Item>>;

/// As large as what it holds; who looks for one anon looks at all of them. The newest comes first.
pub struct List {
    slots: u32,
    used: usize,
    first: Link,
}

impl List {
    fn items(&self) -> impl Iterator<Item = &Item> {
        successors(self.first.as_deref(), |item| item.next.as_deref())
    }

    /// Puts one in front, as the caller knows that its slot has none.
    fn push(&mut self, slot: u32, anon: Anon) {
        let next = self.first.take();
        self.first = Some(Box::new(Item { slot, anon, next }));
        self.used += 1;
    }
}

impl Layout for List {
    const NAME: &'static str = "list";

    fn new(slots: u32) -> List {
        List { slots, used: 0, first: None }
    }
    fn slots(&self) -> u32 {
        self.slots
    }
    fn extend(&mut self, by: u32) {
        self.slots += by;
    }
    fn add(&mut self, slot: u32, anon: Anon) -> Result<(), Occupied> {
        if self.lookup(slot).is_some() {
            return Err(Occupied);
        }
        self.push(slot, anon);
        Ok(())
    }
    fn unadd(&mut self, slot: u32) -> Option<Anon> {
        let mut link = &mut self.first;
        while link.as_ref().is_some_and(|item| item.slot != slot) {
            link = &mut link.as_mut()?.next;
        }
        let Item { anon, next, .. } = *link.take()?;
        *link = next;
        self.used -= 1;
        Some(anon)
    }
    fn lookup(&self, slot: u32) -> Option<Anon> {
        self.items().find(|item| item.slot == slot).map(|item| item.anon)
    }
    fn each(&self, mut visit: impl FnMut(u32, Anon)) {
        self.items().for_each(|item| visit(item.slot, item.anon));
    }
    fn bytes(&self) -> usize {
        self.used * size_of::<Item>()
    }

    /// Not one by one through [`add`](Layout::add), which looks whether a slot has an anon.
    fn copy_deeply(&self, anons: &mut crate::Anons) -> List {
        let mut copy = List::new(self.slots);
        self.items().for_each(|item| copy.push(item.slot, anons.make()));
        copy
    }
}

/// Without recursion, as a list may be long.
impl Clone for List {
    fn clone(&self) -> List {
        let mut copy = List::new(self.slots);
        self.items().for_each(|item| copy.push(item.slot, item.anon));
        copy
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut link = self.first.take();
        while let Some(mut item) = link {
            link = item.next.take();
        }
    }
}
