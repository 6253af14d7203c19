//! Which slots of the own CSpace are free.
//!
//! [`NodeSlots`] knows one L2CNode. [`SlotAllocator`] adds more of them at the root as it needs
//! them. Neither needs a heap: a node costs 40 bytes here.

use crate::ram::Ram;
use captypes::place::{L2_BYTES, L2_SLOTS};
use captypes::{CapAddr, CapType, Place, Status};

const WORDS: usize = L2_SLOTS as usize / 64;

/// The slots of one L2CNode of the own CSpace.
#[derive(Clone, Copy, Debug)]
pub struct NodeSlots {
    l1: u32,
    /// A set bit is a slot in use.
    used: [u64; WORDS],
}

impl NodeSlots {
    /// The node at root index `l1`, in which slots below `first` belong to somebody else.
    pub const fn new(l1: u32, first: u32) -> Self {
        let mut used = [0; WORDS];
        let mut slot = 0;
        while slot < first {
            used[slot as usize / 64] |= 1 << (slot % 64);
            slot += 1;
        }
        NodeSlots { l1, used }
    }

    /// A free slot, now in use.
    pub fn alloc(&mut self) -> Option<CapAddr> {
        let word = self.used.iter().position(|&used| used != u64::MAX)?;
        let bit = self.used[word].trailing_ones();
        self.used[word] |= 1 << bit;
        Some(CapAddr::new(self.l1, word as u32 * 64 + bit))
    }

    /// `count` consecutive free slots, now in use: the first of them.
    pub fn alloc_range(&mut self, count: u32) -> Option<CapAddr> {
        let mut first = 0;
        for slot in 0..L2_SLOTS {
            if self.is_used(slot) {
                first = slot + 1;
            } else if slot + 1 - first == count {
                (first..=slot).for_each(|slot| self.mark(slot));
                return Some(CapAddr::new(self.l1, first));
            }
        }
        None
    }

    /// Takes an empty slot back.
    pub fn free(&mut self, slot: CapAddr) {
        debug_assert!(slot.l1() == self.l1 && self.is_used(slot.l2()));
        self.used[slot.l2() as usize / 64] &= !(1 << (slot.l2() % 64));
    }

    fn is_used(&self, slot: u32) -> bool {
        self.used[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    fn mark(&mut self, slot: u32) {
        self.used[slot as usize / 64] |= 1 << (slot % 64);
    }
}

/// Most L2CNodes of a [`SlotAllocator`].
pub const MAX_NODES: usize = 64;

/// All free slots of the own CSpace: the rest of the L2CNode that every domain starts with, and
/// L2CNodes made of RAM when those are used up.
#[derive(Debug)]
pub struct SlotAllocator {
    nodes: [NodeSlots; MAX_NODES],
    count: usize,
    first_l1: u32,
    /// Where the search starts: no node before it has a free slot.
    hint: usize,
}

impl SlotAllocator {
    /// Slots of the node at root index 0 from `first` on, and further nodes at the root indexes
    /// from `first_l1` on.
    pub const fn new(first: u32, first_l1: u32) -> Self {
        let nodes = [NodeSlots::new(0, first); MAX_NODES];
        SlotAllocator { nodes, count: 1, first_l1, hint: 0 }
    }

    /// L2CNodes that were made.
    pub const fn made(&self) -> u64 {
        self.count as u64 - 1
    }

    /// A free slot.
    pub fn alloc(&mut self, ram: &mut impl Ram) -> Result<CapAddr, Status> {
        loop {
            while self.hint < self.count {
                if let Some(slot) = self.nodes[self.hint].alloc() {
                    return Ok(slot);
                }
                self.hint += 1;
            }
            self.grow(ram)?;
        }
    }

    /// The first of `count` (at most 256) consecutive free slots.
    pub fn alloc_range(&mut self, count: u32, ram: &mut impl Ram) -> Result<CapAddr, Status> {
        if count > L2_SLOTS {
            return Err(Status::OutOfRange);
        }
        loop {
            let mut nodes = self.nodes[..self.count].iter_mut();
            if let Some(first) = nodes.find_map(|node| node.alloc_range(count)) {
                return Ok(first);
            }
            self.grow(ram)?;
        }
    }

    /// Takes an empty slot back.
    pub fn free(&mut self, slot: CapAddr) {
        let Some(index) = self.nodes[..self.count].iter().position(|node| node.l1 == slot.l1())
        else {
            return;
        };
        self.nodes[index].free(slot);
        self.hint = self.hint.min(index);
    }

    fn grow(&mut self, ram: &mut impl Ram) -> Result<(), Status> {
        if self.count == MAX_NODES {
            return Err(Status::NoSlot);
        }
        let l1 = self.first_l1 + self.count as u32 - 1;
        ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(CapAddr::NULL, l1))?;
        self.nodes[self.count] = NodeSlots::new(l1, 0);
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what is made.
    struct Counted(u32);

    impl Ram for Counted {
        fn make(&mut self, _: CapType, _: u64, count: u32, _: Place) -> Result<(), Status> {
            self.0 += count;
            Ok(())
        }
    }

    #[test]
    fn slots_are_distinct_and_come_back() {
        let mut ram = Counted(0);
        let mut slots = SlotAllocator::new(20, 8);
        let mut all: [CapAddr; 600] = core::array::from_fn(|_| slots.alloc(&mut ram).unwrap());
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(all[0], CapAddr::new(0, 20));
        assert_eq!((all[236], ram.0), (CapAddr::new(8, 0), 2));
        slots.free(all[5]);
        assert_eq!(slots.alloc(&mut ram), Ok(all[5]));
    }

    #[test]
    fn ranges_do_not_cross_nodes() {
        let mut ram = Counted(0);
        let mut slots = SlotAllocator::new(16, 8);
        assert_eq!(slots.alloc_range(200, &mut ram), Ok(CapAddr::new(0, 16)));
        assert_eq!(slots.alloc_range(200, &mut ram), Ok(CapAddr::new(8, 0)));
        assert_eq!(slots.alloc_range(40, &mut ram), Ok(CapAddr::new(0, 216)));
        assert_eq!(slots.alloc_range(257, &mut ram), Err(Status::OutOfRange));
        assert_eq!(ram.0, 1);
    }

    #[test]
    fn the_root_is_not_endless() {
        let mut ram = Counted(0);
        let mut slots = SlotAllocator::new(16, 8);
        while slots.alloc(&mut ram).is_ok() {}
        assert_eq!(slots.alloc(&mut ram), Err(Status::NoSlot));
        assert_eq!(ram.0 as usize, MAX_NODES - 1);
    }
}
