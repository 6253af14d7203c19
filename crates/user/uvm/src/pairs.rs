//! Pairs: the Frame and the Mapping of one anon each, for memory of which little is touched.
//!
//! A chunk that is dense has a CNode for its Frames, and its half of a region one for the Mappings,
//! 12 KiB each. Where few pages of a MiB have anons, those are in pairs of slots instead: of each
//! CNode here (a *shelf*) slots 0 to 127 hold Frames, and slots 128 to 255 the Mappings of the same
//! anons. A pair belongs to one anon from the moment it has a Frame until that has gone; which pairs
//! are a chunk's, says the chunk.
//!
//! Shelves are never shared. The child of a fork gets its own, under the same numbers, with copies
//! of the Frames.

use crate::backend::{Backend, CNode};
use crate::bits::Bits;
use crate::region::drop_or_lose;
use crate::types::{NoMemory, Prot, Refused};
use alloc::vec::Vec;

/// Pairs of a shelf.
pub const EACH: u32 = 128;
/// Most shelves: a number of a pair has 16 bits. Chunks made behind that are dense. Tests meet the end
/// sooner.
pub const SHELVES: usize = if cfg!(test) { 3 } else { 512 };
/// Most anons of a chunk that are in pairs.
pub const MOST: u32 = 12;

/// Number of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pair(u16);

impl Pair {
    fn new(shelf: usize, slot: u32) -> Pair {
        Pair((shelf as u32 * EACH + slot) as u16)
    }
    /// This one and those that follow it.
    pub fn from_here(self) -> impl Iterator<Item = Pair> {
        (self.0..=u16::MAX).map(Pair)
    }
    fn shelf(self) -> usize {
        self.0 as usize / EACH as usize
    }
    fn slot(self) -> u32 {
        self.0 as u32 % EACH
    }
    /// The pair `n` numbers on, if it is in the same shelf.
    fn plus(self, n: u32) -> Option<Pair> {
        let slot = self.slot() + n;
        (slot < EACH).then(|| Pair::new(self.shelf(), slot))
    }
}

/// The pairs of a chunk, and the slots that its pages have in a dense one; in no certain order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pairs {
    count: u8,
    slots: [u8; MOST as usize],
    pairs: [Pair; MOST as usize],
}

impl Pairs {
    /// How many there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count as u32
    }
    #[inline]
    fn find(&self, slot: u32) -> Option<usize> {
        let slots = self.slots.get(..self.count as usize)?;
        slots.iter().position(|&used| used as u32 == slot)
    }
    /// The pair of a page.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<Pair> {
        self.pairs.get(self.find(slot)?).copied()
    }
    /// The pair of page `slot`, and of how many pages from there on, at most to page `end`, the pairs
    /// are known to be consecutive.
    #[inline]
    pub fn run(&self, slot: u32, end: u32) -> Option<(Pair, u32)> {
        let at = self.find(slot)?;
        let first = *self.pairs.get(at)?;
        let mut count = 1;
        while slot + count < end && self.follows(at, (slot, first), count) {
            count += 1;
        }
        Some((first, count))
    }
    /// Are page and pair with number `at + n` the `n`th behind these?
    fn follows(&self, at: usize, (slot, first): (u32, Pair), n: u32) -> bool {
        let at = at + n as usize;
        at < self.count as usize
            && self.slots.get(at).is_some_and(|&next| next as u32 == slot + n)
            && self.pairs.get(at).copied() == first.plus(n)
    }
    /// Adds a page, if there is room.
    #[inline]
    pub fn add(&mut self, slot: u32, pair: Pair) {
        let at = self.count as usize;
        if let (Some(slots), Some(pairs)) = (self.slots.get_mut(at), self.pairs.get_mut(at)) {
            (*slots, *pairs) = (slot as u8, pair);
            self.count += 1;
        }
    }
    /// Removes some of pages `lo..hi`, which have consecutive pairs. Answers the first one's slot and
    /// pair, and how many there are.
    #[inline]
    pub fn take_run(&mut self, lo: u32, hi: u32) -> Option<(u32, Pair, u32)> {
        let slots = self.slots.get(..self.count as usize)?;
        let at = slots.iter().position(|&slot| (lo..hi).contains(&(slot as u32)))?;
        let (slot, first) = (*self.slots.get(at)? as u32, *self.pairs.get(at)?);
        let mut count = 1;
        while slot + count < hi && self.follows(at, (slot, first), count) {
            count += 1;
        }
        let (behind, end) = (at + count as usize, self.count as usize);
        if behind < end && end <= MOST as usize {
            self.slots.copy_within(behind..end, at);
            self.pairs.copy_within(behind..end, at);
        }
        self.count -= count as u8;
        Some((slot, first, count))
    }
    /// All pages, by their slots, and their pairs.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Pair)> + '_ {
        let all = self.slots.iter().zip(&self.pairs).take(self.count as usize);
        all.map(|(&slot, &pair)| (slot as u32, pair))
    }
}

#[derive(Clone, Debug)]
struct Shelf {
    node: CNode,
    /// Pairs that belong to an anon.
    used: Bits<2>,
}

impl Shelf {
    fn empty(&self, b: &mut impl Backend) -> Result<(), Refused> {
        let Some((lo, hi)) = self.used.span() else { return Ok(()) };
        // First the Frames: with the last capability to each its Mapping goes.
        b.slots_drop(self.node, lo, hi - lo)?;
        b.slots_drop(self.node, mapping_of(lo), hi - lo)
    }
}

/// All shelves of a process.
#[derive(Clone, Default)]
pub struct Shelves {
    shelves: Vec<Option<Shelf>>,
    /// No shelf in front of this one has room.
    open: usize,
    /// Pairs in use.
    used: u32,
    /// A shelf without a pair in use; there is no other.
    empty: Option<usize>,
}

impl Shelves {
    /// None.
    pub const fn new() -> Self {
        Shelves { shelves: Vec::new(), open: 0, used: 0, empty: None }
    }

    #[inline]
    fn shelf(&self, shelf: usize) -> Option<&Shelf> {
        self.shelves.get(shelf)?.as_ref()
    }

    /// Is no pair in use?
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// May there be no more pairs?
    pub fn are_full(&self) -> bool {
        self.used == SHELVES as u32 * EACH
    }

    /// The slot of a pair's Frame; see [`mapping_of`] for the other one.
    #[inline]
    pub fn frame(&self, pair: Pair) -> Option<(CNode, u32)> {
        Some((self.shelf(pair.shelf())?.node, pair.slot()))
    }

    /// A free pair, if no shelf has to be made for it.
    #[inline]
    pub fn ready(&self) -> Option<Pair> {
        let used = &self.shelf(self.open)?.used;
        let slot = used.next_clear(0);
        (slot < EACH).then(|| Pair::new(self.open, slot))
    }

    /// Finds free pairs with consecutive numbers: one, or up to `most`. They are free until
    /// [`take`](Self::take) says that they are not.
    ///
    /// # Errors
    ///
    /// There is no memory for another shelf, or there are all that there may be.
    #[inline]
    pub fn room(&mut self, b: &mut impl Backend, most: u32) -> Result<(Pair, u32), NoMemory> {
        let at = match self.shelf(self.open) {
            Some(shelf) if !shelf.used.is_full() => self.open,
            _ => self.find_shelf(b)?,
        };
        let shelf = self.shelf(at).ok_or(NoMemory)?;
        let lo = shelf.used.next_clear(0);
        let count = if most == 1 { 1 } else { most.min(shelf.used.next_set(lo) - lo) };
        Ok((Pair::new(at, lo), count))
    }

    /// A shelf that has room.
    #[cold]
    fn find_shelf(&mut self, b: &mut impl Backend) -> Result<usize, NoMemory> {
        let full = |shelf: &Option<Shelf>| shelf.as_ref().is_some_and(|s| s.used.is_full());
        while self.shelves.get(self.open).is_some_and(full) {
            self.open += 1;
        }
        let at = match self.empty {
            Some(empty) if self.shelf(self.open).is_none() => empty,
            _ => self.open,
        };
        if self.shelf(at).is_none() {
            self.add(b, at)?;
        }
        Ok(at)
    }

    /// Makes a shelf where there is none.
    #[cold]
    fn add(&mut self, b: &mut impl Backend, at: usize) -> Result<(), NoMemory> {
        if at >= SHELVES {
            return Err(NoMemory);
        }
        if at == self.shelves.len() {
            self.shelves.try_reserve(1)?;
            self.shelves.push(None);
        }
        let node = b.cnode_new()?;
        if let Some(place) = self.shelves.get_mut(at) {
            *place = Some(Shelf { node, used: Bits::EMPTY });
        }
        self.replace_empty(b, Some(at));
        Ok(())
    }

    /// Of the shelves that are empty only the last one stays.
    #[cold]
    fn replace_empty(&mut self, b: &mut impl Backend, shelf: Option<usize>) {
        let old = core::mem::replace(&mut self.empty, shelf);
        if let Some(old) = old.filter(|_| old != shelf) {
            if let Some(shelf) = self.shelves.get_mut(old).and_then(Option::take) {
                drop_or_lose(b, shelf.node);
            }
        }
    }

    /// A pair that was free has a Frame now.
    #[inline]
    pub fn take(&mut self, first: Pair, count: u32) {
        let (at, slot) = (first.shelf(), first.slot());
        if let Some(shelf) = self.shelves.get_mut(at).and_then(Option::as_mut) {
            shelf.used.set_range(slot, slot + count);
            self.used += count;
            if self.empty == Some(at) {
                self.empty = None;
            }
        }
    }

    /// Both slots of these pairs are empty again.
    #[inline]
    pub fn free(&mut self, b: &mut impl Backend, first: Pair, count: u32) {
        let (at, slot) = (first.shelf(), first.slot());
        let Some(shelf) = self.shelves.get_mut(at).and_then(Option::as_mut) else { return };
        shelf.used.clear_range(slot, slot + count);
        self.used -= count;
        self.open = self.open.min(at);
        if shelf.used.is_empty() {
            self.replace_empty(b, Some(at));
        }
    }

    /// Gives back the shelf that is empty.
    pub fn drop_spare(&mut self, b: &mut impl Backend) {
        self.replace_empty(b, None);
    }

    /// Forgets all, without giving anything up.
    pub fn abandon(&mut self) {
        *self = Shelves::new();
    }

    /// Empties all. One stays if `keep`.
    ///
    /// # Errors
    ///
    /// The backend refuses: of those that are forgotten some are not empty.
    pub fn clear(&mut self, b: &mut impl Backend, keep: bool) -> Result<(), Refused> {
        let mut result = Ok(());
        let old = core::mem::take(self);
        for shelf in old.shelves.into_iter().flatten() {
            let keep = keep && self.shelves.is_empty() && self.shelves.try_reserve(1).is_ok();
            if !keep || shelf.empty(b).is_err() {
                result = result.and(b.cnode_drop(shelf.node));
                continue;
            }
            self.shelves.push(Some(Shelf { used: Bits::EMPTY, ..shelf }));
            self.empty = Some(0);
        }
        result
    }

    fn runs(&self) -> impl Iterator<Item = (CNode, u32, u32)> + '_ {
        let each = |shelf: &Shelf| {
            let node = shelf.node;
            shelf.used.runs().map(move |(lo, hi)| (node, lo, hi - lo))
        };
        self.shelves.iter().flatten().flat_map(each)
    }

    /// For a fork: gives the child shelves of its own, with copies of all Frames.
    ///
    /// # Errors
    ///
    /// There is no memory: the child has some of them.
    pub fn copy_for_child(&self, b: &mut impl Backend) -> Result<(), NoMemory> {
        self.shelves.iter().flatten().try_for_each(|shelf| b.child_node(shelf.node))?;
        self.runs().try_for_each(|(node, first, count)| b.child_slots(node, first, count))
    }

    /// Takes the right to write from all Mappings.
    ///
    /// # Errors
    ///
    /// The backend refuses: some have it still.
    pub fn lower(&self, b: &mut impl Backend) -> Result<(), Refused> {
        let mut runs = self.runs();
        runs.try_for_each(|(node, first, n)| b.protect(node, mapping_of(first), n, Prot::READ))
    }
}

/// The slot of the Mapping of the pair whose Frame is in `slot`.
#[inline]
pub const fn mapping_of(slot: u32) -> u32 {
    slot + EACH
}

#[cfg(test)]
impl Shelves {
    /// CNodes of the shelves, and which pairs are in use.
    pub fn nodes(&self) -> impl Iterator<Item = (CNode, Bits<2>)> + '_ {
        self.shelves.iter().flatten().map(|shelf| (shelf.node, shelf.used))
    }
    /// Pairs in use.
    pub fn used(&self) -> u32 {
        self.used
    }
}
