//! What to look at after an operation: the slots that it changed, some of their relatives and some
//! others, and addresses that it may have concerned.

use crate::random::Source;
use crate::view::View;
use crate::{page_bytes, Access, Cap, Model, SlotKey};
use captypes::Place;

/// Most slots looked at because they changed.
const CHANGED: usize = 6;
/// Others.
const OTHERS: usize = 2;
/// Addresses that are remembered.
const ADDRESSES: usize = 24;

/// An address that will be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The address.
    pub va: u64,
    /// How.
    pub access: Access,
    /// What is written.
    pub value: u64,
}

/// Remembers addresses of one executor, so that they are used before and after they change.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    addresses: Vec<u64>,
}

impl Source {
    /// Slots to identify after an operation by `who`, and their places.
    pub fn slots_to_see(&mut self, model: &Model, who: usize) -> Vec<(Place, SlotKey)> {
        let view = View::of(model, who);
        let mut keys: Vec<SlotKey> = Vec::new();
        for &key in model.changed().iter().rev() {
            if keys.len() < CHANGED && !keys.contains(&key) {
                keys.push(key);
            }
        }
        let relatives: Vec<SlotKey> = keys
            .iter()
            .filter_map(|&key| model.cap(key))
            .flat_map(|cap| {
                let near = view.caps.iter().filter(|n| n.cap.overlaps(cap.base, cap.end()));
                near.map(|named| named.key)
            })
            .collect();
        keys.extend(self.random.pick(&relatives));
        for _ in 0..OTHERS {
            let other = self.random.pick(&view.caps);
            keys.extend(other.map(|named| named.key));
        }
        let place = |key: SlotKey| view.place_of(key).map(|place| (place, key));
        keys.into_iter().filter_map(place).collect()
    }

    /// Every CNode that can be named: the place of its first slot, and its address.
    pub fn nodes_to_sweep(&self, model: &Model, who: usize) -> Vec<(Place, u64)> {
        let mut nodes: Vec<(Place, u64)> = Vec::new();
        for node in &View::of(model, who).nodes {
            if !nodes.iter().any(|&(_, base)| base == node.base) {
                nodes.push((node.place(0), node.base));
            }
        }
        // The null address names no slot.
        nodes.retain(|&(place, _)| !place.is_null());
        nodes
    }

    /// Addresses to use after an operation. Writing changes the model's pages: perform these in order.
    pub fn touches(&mut self, model: &Model, who: usize, watch: &mut Watch) -> Option<Touch> {
        let va = match self.random.pick(&watch.addresses) {
            Some(known) if !self.random.one_in(3) => known,
            _ => {
                let mapped = self.mapped_address(model, who);
                let va = mapped.unwrap_or_else(|| self.address(model, who));
                if watch.addresses.len() == ADDRESSES {
                    let at = self.random.below(ADDRESSES as u64) as usize;
                    watch.addresses.swap_remove(at);
                }
                watch.addresses.push(va);
                va
            }
        };
        let access = match self.random.below(8) {
            0 => Access::Execute,
            1..=3 => Access::Write,
            _ => Access::Read,
        };
        // A return instruction, so that it may be executed.
        let value = self.random.word() << 8 | 0xc3;
        model.is_harmless(who, va, access).then_some(Touch { va, access, value })
    }

    /// An address at which something is mapped, if one is found quickly.
    fn mapped_address(&mut self, model: &Model, who: usize) -> Option<u64> {
        let root = model.executors()[who].vspace;
        let pages = |cap: &Cap| cap.mapping.filter(|mapping| !mapping.is_table);
        let changed = model.changed().iter().filter_map(|&key| model.cap(key));
        let mut leaves: Vec<_> = changed.filter_map(pages).collect();
        if leaves.is_empty() || self.random.one_in(3) {
            leaves = model.slots().filter_map(|(_, cap)| pages(cap)).collect();
        }
        for _ in 0..3 {
            let mapping = self.random.pick(&leaves)?;
            let mut places = Vec::new();
            model.add_places(root, mapping.table, 0, &mut places);
            let Some(place) = self.random.pick(&places) else { continue };
            let index = mapping.first + self.random.below(u64::from(mapping.count)) as u32;
            let entry = model.entry(mapping.table, index)?;
            let inside = crate::PAGE * self.random.below(entry.page / crate::PAGE);
            let va = place + u64::from(index) * page_bytes(mapping.level) + inside;
            return Some(va + self.word_of(model, &entry));
        }
        None
    }

    /// An address in an executor's space: along entries that are in use, mostly.
    fn address(&mut self, model: &Model, who: usize) -> u64 {
        let (mut table, mut va) = (model.executors()[who].vspace, 0);
        for level in (1..=4).rev() {
            let own = |index: u32| level < 4 || index >= 4;
            let used = model.entries_of(table).filter(|&(index, _)| own(index)).collect::<Vec<_>>();
            let Some((index, entry)) = self.random.pick(&used).filter(|_| !self.random.one_in(6))
            else {
                let index =
                    if level == 4 { 4 + self.random.below(3) } else { self.random.below(8) };
                va += index * page_bytes(level);
                continue;
            };
            va += u64::from(index) * page_bytes(level);
            if entry.page != 0 {
                // Any small page of a large one.
                let pages = entry.page / crate::PAGE;
                return va + crate::PAGE * self.random.below(pages) + self.word_of(model, &entry);
            }
            table = entry.address;
        }
        va
    }

    /// Of a table that is mapped any entry is worth a look; of other pages the first word.
    fn word_of(&mut self, model: &Model, entry: &crate::Entry) -> u64 {
        if model.shows_table(entry) {
            8 * self.random.below(32)
        } else {
            0
        }
    }
}
