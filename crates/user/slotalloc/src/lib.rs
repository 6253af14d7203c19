//! Which slots of a CSpace are free.
//!
//! [`NodeSlots`] knows one L2CNode. [`TwoLevel`] adds more of them at the root as it needs them, and
//! has the root made larger when that is full. Neither needs a heap, which itself is made of memory
//! that takes slots to get: a node costs 32 bytes.
#![no_std]
#![forbid(unsafe_code)]

use captypes::place::L2_SLOTS;
use captypes::{CapAddr, Status};

const WORDS: usize = L2_SLOTS as usize / 64;

/// A bit for each slot of an L2CNode: set where it is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Used([u64; WORDS]);

impl Used {
    const NONE: Used = Used([0; WORDS]);
    const ALL: Used = Used([u64::MAX; WORDS]);

    /// Slots below `first` are in use.
    const fn below(first: u32) -> Self {
        let mut used = [0; WORDS];
        let mut slot = 0;
        while slot < first {
            used[slot as usize / 64] |= 1 << (slot % 64);
            slot += 1;
        }
        Used(used)
    }

    fn take(&mut self) -> Option<u32> {
        let word = self.0.iter().position(|&used| used != u64::MAX)?;
        let bit = self.0[word].trailing_ones();
        self.0[word] |= 1 << bit;
        Some(word as u32 * 64 + bit)
    }

    fn take_range(&mut self, count: u32) -> Option<u32> {
        if count == 0 {
            return None;
        }
        let mut first = self.next(0, false)?;
        loop {
            let end = self.next(first, true).unwrap_or(L2_SLOTS);
            if end - first >= count {
                let range = first..first + count;
                range.for_each(|slot| self.0[slot as usize / 64] |= 1 << (slot % 64));
                return Some(first);
            }
            first = self.next(end, false)?;
        }
    }

    /// The first slot from `from` on that is in use, or is not.
    fn next(&self, from: u32, in_use: bool) -> Option<u32> {
        let flip = if in_use { 0 } else { u64::MAX };
        let mut mask = u64::MAX << (from % 64);
        for word in from as usize / 64..WORDS {
            let found = (self.0[word] ^ flip) & mask;
            if found != 0 {
                return Some(word as u32 * 64 + found.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    /// Answers whether it was in use.
    fn free(&mut self, slot: u32) -> bool {
        let was = self.contains(slot);
        self.0[slot as usize / 64] &= !(1 << (slot % 64));
        was
    }

    fn contains(&self, slot: u32) -> bool {
        self.0[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// The slots of one L2CNode of the own CSpace.
#[derive(Clone, Copy, Debug)]
pub struct NodeSlots {
    l1: u32,
    used: Used,
}

impl NodeSlots {
    /// The node at root index `l1`, in which slots below `first` belong to somebody else.
    pub const fn new(l1: u32, first: u32) -> Self {
        NodeSlots { l1, used: Used::below(first) }
    }

    /// A free slot, now in use: the lowest.
    pub fn alloc(&mut self) -> Option<CapAddr> {
        self.used.take().map(|slot| CapAddr::new(self.l1, slot))
    }

    /// The first of `count` consecutive free slots, now in use.
    pub fn alloc_range(&mut self, count: u32) -> Option<CapAddr> {
        self.used.take_range(count).map(|slot| CapAddr::new(self.l1, slot))
    }

    /// Takes an empty slot back; slots of other nodes are none of its business.
    pub fn free(&mut self, slot: CapAddr) {
        if slot.l1() == self.l1 {
            self.used.free(slot.l2());
        }
    }

    /// Slots in use.
    pub fn in_use(&self) -> u32 {
        self.used.count()
    }
}

/// What makes a [`TwoLevel`] allocator grow.
pub trait Grow {
    /// Puts a new L2CNode in the free slot `l1` of the root.
    fn make_node(&mut self, l1: u32) -> Result<(), Status>;
    /// Deletes the L2CNode in slot `l1` of the root, which holds nothing.
    fn drop_node(&mut self, l1: u32) -> Result<(), Status>;
    /// Slots of the root as it is.
    fn root_slots(&mut self) -> Result<u32, Status>;
    /// Makes the root larger, if it can, with the help of the free slot `spare`, which is free again
    /// afterwards.
    fn grow_root(&mut self, spare: CapAddr) -> Result<(), Status>;
}

/// All free slots of the own CSpace: the rest of the L2CNode that every domain starts with, and up
/// to `MAX - 1` further ones.
#[derive(Debug)]
pub struct TwoLevel<const MAX: usize> {
    /// The first is the node at root index 0, number `n` the one at `first_l1 + n - 1`. A node that is not
    /// there has no slot that is free.
    nodes: [Used; MAX],
    is_made: [bool; MAX],
    /// The number of the last node that there ever was, and one.
    count: usize,
    /// How many nodes there are.
    made: usize,
    first_l1: u32,
    /// No node before it has a free slot.
    hint: usize,
    /// Slots of the root, as far as is known.
    root: u32,
}

impl<const MAX: usize> TwoLevel<MAX> {
    /// Slots of the node at root index 0 from `first` on, and further nodes at the root indexes
    /// from `first_l1` on.
    pub const fn new(first: u32, first_l1: u32) -> Self {
        let (mut nodes, mut is_made) = ([Used::ALL; MAX], [false; MAX]);
        (nodes[0], is_made[0]) = (Used::below(first), true);
        TwoLevel { nodes, is_made, count: 1, made: 1, first_l1, hint: 0, root: 0 }
    }

    /// L2CNodes that were made and are still there.
    pub const fn made(&self) -> u64 {
        self.made as u64 - 1
    }

    /// A free slot, now in use: the lowest.
    pub fn alloc(&mut self, grow: &mut impl Grow) -> Result<CapAddr, Status> {
        loop {
            if let Some(slot) = self.take() {
                return Ok(slot);
            }
            self.add_node(grow)?;
        }
    }

    /// The first of `count` (1 to 256) consecutive free slots, now in use.
    pub fn alloc_range(&mut self, count: u32, grow: &mut impl Grow) -> Result<CapAddr, Status> {
        if count == 0 || count > L2_SLOTS {
            return Err(Status::OutOfRange);
        }
        loop {
            for index in self.hint..self.count {
                if let Some(slot) = self.nodes[index].take_range(count) {
                    return Ok(CapAddr::new(self.l1(index), slot));
                }
            }
            self.add_node(grow)?;
        }
    }

    /// Takes an empty slot back.
    pub fn free(&mut self, slot: CapAddr) {
        let index = match slot.l1() {
            0 => 0,
            l1 => (l1.wrapping_sub(self.first_l1) as usize).wrapping_add(1),
        };
        let is_own = index < self.count && self.is_made[index] && self.l1(index) == slot.l1();
        if is_own && self.nodes[index].free(slot.l2()) {
            self.hint = self.hint.min(index);
        }
    }

    /// Deletes nodes without a slot in use, all but one and not more than `most`. Returns `true` if there
    /// may be more.
    ///
    /// # Errors
    ///
    /// What [`Grow::drop_node`] answers; the node stays.
    pub fn release(&mut self, most: usize, grow: &mut impl Grow) -> Result<bool, Status> {
        let (mut kept, mut gone) = (false, 0);
        for index in 1..self.count {
            if !self.is_made[index] || self.nodes[index] != Used::NONE {
                continue;
            }
            // So that the next slot need not make it again.
            if !core::mem::replace(&mut kept, true) {
                continue;
            }
            if gone == most {
                return Ok(true);
            }
            grow.drop_node(self.l1(index))?;
            (self.nodes[index], self.is_made[index]) = (Used::ALL, false);
            self.made -= 1;
            gone += 1;
        }
        Ok(false)
    }

    fn take(&mut self) -> Option<CapAddr> {
        while self.hint < self.count {
            if let Some(slot) = self.nodes[self.hint].take() {
                return Some(CapAddr::new(self.l1(self.hint), slot));
            }
            self.hint += 1;
        }
        None
    }

    fn l1(&self, index: usize) -> u32 {
        if index == 0 {
            0
        } else {
            self.first_l1 + index as u32 - 1
        }
    }

    fn add_node(&mut self, grow: &mut impl Grow) -> Result<(), Status> {
        let missing = match self.made == self.count {
            true => None,
            false => self.is_made[..self.count].iter().position(|is_made| !is_made),
        };
        let index = missing.unwrap_or(self.count);
        let l1 = self.l1(index);
        if index == MAX {
            return Err(Status::NoSlot);
        }
        if l1 >= self.root {
            self.root = grow.root_slots()?;
        }
        if l1 >= self.root {
            return Err(Status::NoSlot);
        }
        grow.make_node(l1)?;
        (self.nodes[index], self.is_made[index]) = (Used::NONE, true);
        self.made += 1;
        self.count = self.count.max(index + 1);
        self.hint = self.hint.min(index);
        if l1 + 1 == self.root && self.count < MAX {
            self.grow_root(index, grow);
        }
        Ok(())
    }

    /// The last slot of the root was taken. As long as there is a slot to do it with, the root is
    /// made larger; if that fails, there are 256 slots more before anybody needs to know.
    fn grow_root(&mut self, last: usize, grow: &mut impl Grow) {
        if let Some(slot) = self.nodes[last].take() {
            // There is no larger one then: the search goes on with what there is.
            let _ = grow.grow_root(CapAddr::new(self.l1(last), slot));
            self.nodes[last].free(slot);
        }
    }
}
