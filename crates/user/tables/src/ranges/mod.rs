//! Ranges in order: a B+ tree whose inner nodes also know how large the free gaps below them are.
//!
//! The leaves hold up to [`LEAF`] items each and are linked with their neighbours; a small table is one
//! leaf, which is a sorted array. An inner node has a *branch* for each child: a key that is not above
//! the start of the child's first item and above the starts of all items in front of it, and a bound of
//! the gaps in front of the child's items. A *gap* belongs to the item behind it. The bound is never too
//! low. It may be too high after gaps have been filled: a search that was misled makes it exact.
//!
//! Nodes are named by numbers and know their parents, so a place is a leaf and an index.

mod gaps;
mod grow;
mod shrink;

use crate::slab::Slab;
use crate::NoMemory;
use alloc::vec::Vec;
use core::cell::Cell;

/// Something that covers `start()..end()`.
pub trait Item: Copy {
    /// First number covered.
    fn start(&self) -> u64;
    /// First number behind; greater than the start.
    fn end(&self) -> u64;
}

/// Most items of a leaf.
const LEAF: usize = 32;
/// Room in the first leaf at first.
const FIRST: usize = 12;
/// Most branches of an inner node.
const FAN: usize = 32;
/// A node with fewer is merged with a neighbour, if both together leave some room in one.
const FEW: usize = 8;
const ROOMY: usize = 24;
/// No node.
const NONE: u32 = u32::MAX;

/// Where an item is, or, behind the last one, where the next would be. Good until the table changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    leaf: u32,
    index: u32,
}

impl Place {
    /// Where nothing is.
    pub const NONE: Place = Place { leaf: NONE, index: 0 };
}

impl Default for Place {
    fn default() -> Self {
        Place::NONE
    }
}

#[derive(Clone)]
struct Leaf<T> {
    items: Vec<T>,
    parent: u32,
    before: u32,
    behind: u32,
}

impl<T> Default for Leaf<T> {
    fn default() -> Self {
        Leaf { items: Vec::new(), parent: NONE, before: NONE, behind: NONE }
    }
}

#[derive(Clone, Copy)]
struct Branch {
    key: u64,
    child: u32,
    /// No gap below is larger, unless this is `u32::MAX`.
    gap: u32,
}

#[derive(Clone, Default)]
struct Inner {
    /// At least one; two where this is the root.
    branches: Vec<Branch>,
    parent: u32,
    /// Are the children leaves?
    above_leaves: bool,
}

impl Inner {
    fn largest_gap(&self) -> u32 {
        self.branches.iter().map(|branch| branch.gap).max().unwrap_or(0)
    }
}

/// Items that do not overlap, in order.
#[derive(Clone)]
pub struct Ranges<T> {
    leaves: Slab<Leaf<T>>,
    inners: Slab<Inner>,
    /// An inner node, or the only leaf, or `NONE`.
    root: u32,
    /// Inner nodes between the root and a leaf, the root included.
    height: u32,
    len: usize,
    /// Where the last search ended: the next one often ends there, too.
    hint: Cell<Place>,
    /// Start of the item that was entered last.
    entered: u64,
}

impl<T: Item> Default for Ranges<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Ranges<T> {
    /// No items.
    pub const fn new() -> Self {
        Ranges {
            leaves: Slab::new(),
            inners: Slab::new(),
            root: NONE,
            height: 0,
            len: 0,
            hint: Cell::new(Place::NONE),
            entered: 0,
        }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Looking.
impl<T: Item> Ranges<T> {
    /// The item at a place; none behind the last.
    #[inline]
    pub fn get(&self, place: Place) -> Option<&T> {
        self.leaves.get(place.leaf)?.items.get(place.index as usize)
    }

    /// The place of the first item that ends behind `at`.
    #[inline]
    pub fn seek(&self, at: u64) -> Place {
        let place = self.near_hint(at).unwrap_or_else(|| self.search(at));
        self.hint.set(place);
        place
    }

    /// The same where the last search ended, or behind that, if this is seen at once.
    #[inline]
    fn near_hint(&self, at: u64) -> Option<Place> {
        let hint = self.hint.get();
        let leaf = self.leaves.get(hint.leaf)?;
        let index = hint.index as usize;
        let item = leaf.items.get(index)?;
        if at < item.end() {
            let before = || leaf.items.get(index.wrapping_sub(1));
            let is_first = item.start() <= at || before().is_some_and(|it| it.end() <= at);
            return is_first.then_some(hint);
        }
        let is_next = match leaf.items.get(index + 1) {
            Some(next) => at < next.end(),
            None => leaf.behind == NONE,
        };
        is_next.then_some(Place { index: hint.index + 1, ..hint })
    }

    fn search(&self, at: u64) -> Place {
        if self.height == 0 {
            let items = self.items(self.root);
            let index = items.partition_point(|item| item.end() <= at) as u32;
            return Place { leaf: self.root, index };
        }
        self.search_below(at)
    }

    #[inline(never)]
    fn search_below(&self, at: u64) -> Place {
        let leaf = self.leaf_for(at);
        let items = self.items(leaf);
        let index = items.partition_point(|item| item.end() <= at);
        if index == 0 {
            // The item in front may reach into the keys of this leaf.
            let before = self.before(Place { leaf, index: 0 });
            if let Some(place) = before.filter(|&p| self.get(p).is_some_and(|i| i.end() > at)) {
                return place;
            }
        }
        self.settled(Place { leaf, index: index as u32 })
    }

    /// The place of the first item that starts at or behind `at`.
    #[inline]
    pub fn seek_start(&self, at: u64) -> Place {
        let leaf = self.leaf_for(at);
        let index = self.items(leaf).partition_point(|item| item.start() < at) as u32;
        self.settled(Place { leaf, index })
    }

    /// The items in front of a place, at it, and behind that.
    #[inline]
    pub fn around(&self, place: Place) -> [Option<&T>; 3] {
        let Some(leaf) = self.leaves.get(place.leaf) else { return [None; 3] };
        let index = place.index as usize;
        let before = match index.checked_sub(1) {
            Some(before) => leaf.items.get(before),
            None => self.items(leaf.before).last(),
        };
        let behind = match leaf.items.get(index + 1) {
            None => self.items(leaf.behind).first(),
            behind => behind,
        };
        [before, leaf.items.get(index), behind]
    }

    /// The item that covers `at`.
    #[inline]
    pub fn find(&self, at: u64) -> Option<&T> {
        self.get(self.seek(at)).filter(|item| item.start() <= at)
    }

    /// The place of the first item.
    pub fn first(&self) -> Place {
        let mut node = self.root;
        for _ in 0..self.height {
            node = self.branches(node).first().map_or(NONE, |branch| branch.child);
        }
        Place { leaf: node, index: 0 }
    }

    /// The place behind the last item.
    pub fn end(&self) -> Place {
        let mut node = self.root;
        for _ in 0..self.height {
            node = self.branches(node).last().map_or(NONE, |branch| branch.child);
        }
        Place { leaf: node, index: self.items(node).len() as u32 }
    }

    /// The place behind an item's.
    #[inline]
    pub fn next(&self, place: Place) -> Place {
        self.settled(Place { index: place.index + 1, ..place })
    }

    /// The place of the item in front of a place.
    #[inline]
    pub fn before(&self, place: Place) -> Option<Place> {
        if place.index > 0 {
            return Some(Place { index: place.index - 1, ..place });
        }
        let leaf = self.leaves.get(place.leaf)?.before;
        let index = self.leaves.get(leaf)?.items.len() as u32;
        Some(Place { leaf, index: index.checked_sub(1)? })
    }

    /// A place behind the end of a leaf is that at the start of the next.
    #[inline]
    fn settled(&self, place: Place) -> Place {
        match self.leaves.get(place.leaf) {
            Some(leaf) if place.index as usize == leaf.items.len() && leaf.behind != NONE => {
                Place { leaf: leaf.behind, index: 0 }
            }
            _ => place,
        }
    }

    /// All items from a place on.
    #[inline]
    pub fn iter_from(&self, place: Place) -> Iter<'_, T> {
        let items = self.items(place.leaf).get(place.index as usize..).unwrap_or_default().iter();
        Iter { ranges: self, items, leaf: place.leaf }
    }

    /// All items.
    pub fn iter(&self) -> Iter<'_, T> {
        self.iter_from(self.first())
    }

    #[inline]
    fn items(&self, leaf: u32) -> &[T] {
        self.leaves.get(leaf).map_or(&[], |leaf| &leaf.items)
    }

    #[inline]
    fn branches(&self, inner: u32) -> &[Branch] {
        self.inners.get(inner).map_or(&[], |inner| &inner.branches)
    }

    /// The leaf whose keys `at` is among.
    fn leaf_for(&self, at: u64) -> u32 {
        let mut node = self.root;
        for _ in 0..self.height {
            let branches = self.branches(node);
            let behind = branches.partition_point(|branch| branch.key <= at);
            node = branches.get(behind.saturating_sub(1)).map_or(NONE, |branch| branch.child);
        }
        node
    }

    /// Where the gap in front of a place begins.
    #[inline]
    fn gap_start(&self, place: Place) -> u64 {
        self.before(place).and_then(|before| self.get(before)).map_or(0, Item::end)
    }
}

/// Items from a place on.
#[derive(Clone)]
pub struct Iter<'a, T> {
    ranges: &'a Ranges<T>,
    /// What is left of a leaf.
    items: core::slice::Iter<'a, T>,
    leaf: u32,
}

impl<'a, T: Item> Iterator for Iter<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            let leaf = self.ranges.leaves.get(self.leaf)?.behind;
            self.items = self.ranges.leaves.get(leaf)?.items.iter();
            self.leaf = leaf;
        }
    }
}

/// Changing.
impl<T: Item> Ranges<T> {
    /// Enters an item that overlaps none. Answers its place.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn insert(&mut self, item: T) -> Result<Place, NoMemory> {
        self.insert_at(self.seek(item.start()), item)
    }

    /// The same, given the place of the first item behind it.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    #[inline]
    pub fn insert_at(&mut self, place: Place, item: T) -> Result<Place, NoMemory> {
        let is_simple = place.index > 0 || self.height == 0;
        let leaf = self.leaves.get_mut(place.leaf);
        match leaf.filter(|leaf| leaf.items.len() < leaf.items.capacity().min(LEAF)) {
            Some(leaf) if is_simple => leaf.items.insert(place.index as usize, item),
            _ => return self.insert_with_care(place, item),
        }
        Ok(self.inserted(place, item.start()))
    }

    /// The same where there may be no room, or a leaf whose first item it will be.
    #[inline(never)]
    fn insert_with_care(&mut self, place: Place, item: T) -> Result<Place, NoMemory> {
        let mut place = match place.index {
            0 if self.height > 0 => self.after_the_last(place)?,
            _ => place,
        };
        match self.leaves.get_mut(place.leaf) {
            Some(leaf) if leaf.items.len() < LEAF => {
                if leaf.items.len() == leaf.items.capacity() {
                    leaf.items.try_reserve_exact(LEAF - leaf.items.len())?;
                }
            }
            Some(_) => place = self.make_room(place, &item)?,
            None => {
                let mut items = Vec::new();
                items.try_reserve_exact(FIRST)?;
                let leaf = Leaf { items, parent: NONE, before: NONE, behind: NONE };
                (self.root, self.height) = (self.leaves.add(leaf)?, 0);
                place = Place { leaf: self.root, index: 0 };
            }
        }
        if let Some(leaf) = self.leaves.get_mut(place.leaf) {
            leaf.items.insert(place.index as usize, item);
        }
        Ok(self.inserted(place, item.start()))
    }

    #[inline]
    fn inserted(&mut self, place: Place, start: u64) -> Place {
        self.len += 1;
        self.hint.set(place);
        self.entered = start;
        if self.height > 0 {
            if place.index == 0 {
                self.lower_key(place.leaf, start);
            }
            self.note_gap(place);
        }
        place
    }

    /// Takes all items out. A small table keeps its memory.
    pub fn clear(&mut self) {
        match self.leaves.get_mut(self.root) {
            Some(leaf) if self.height == 0 => leaf.items.clear(),
            _ => *self = Ranges::new(),
        }
        self.len = 0;
    }

    /// Takes the item at a place out. Answers the place of what was behind it.
    pub fn remove(&mut self, place: Place) -> Place {
        let Some(leaf) = self.leaves.get_mut(place.leaf) else { return place };
        if place.index as usize >= leaf.items.len() {
            return place;
        }
        leaf.items.remove(place.index as usize);
        let left = leaf.items.len();
        self.len -= 1;
        if self.height == 0 {
            return place;
        }
        let behind = match left {
            0 => self.drop_leaf(place.leaf),
            1..FEW => self.merge_leaf(place),
            _ => self.settled(place),
        };
        self.note_gap(behind);
        behind
    }

    /// Takes items out from a place on, as long as `goes` says so. Answers the place of the first that
    /// stays.
    pub fn remove_while(&mut self, place: Place, mut goes: impl FnMut(&T) -> bool) -> Place {
        let mut place = place;
        loop {
            let Some(leaf) = self.leaves.get_mut(place.leaf) else { return place };
            let first = place.index as usize;
            let rest = leaf.items.get(first..).unwrap_or_default();
            let count = rest.iter().take_while(|item| goes(item)).count();
            let is_rest = count == rest.len();
            if count == 0 {
                return place;
            }
            leaf.items.drain(first..first + count);
            let left = leaf.items.len();
            self.len -= count;
            if self.height == 0 {
                return place;
            }
            place = match left {
                0 => self.drop_leaf(place.leaf),
                1..FEW => self.merge_leaf(place),
                _ => self.settled(place),
            };
            self.note_gap(place);
            if !is_rest {
                return place;
            }
        }
    }

    /// Changes the item at a place. It stays between its neighbours.
    #[inline]
    pub fn replace(&mut self, place: Place, item: T) {
        let leaf = self.leaves.get_mut(place.leaf);
        let Some(old) = leaf.and_then(|leaf| leaf.items.get_mut(place.index as usize)) else {
            return;
        };
        if self.height == 0 {
            *old = item;
            return;
        }
        let before = core::mem::replace(old, item);
        self.follow(place, &before, &item);
    }

    /// The items in front of a place, at it and behind it, if they are in one leaf. The limits between
    /// them may be moved, but none of the gaps may grow.
    #[inline]
    pub fn window(&mut self, place: Place) -> Option<&mut [T; 3]> {
        let items = &mut self.leaves.get_mut(place.leaf)?.items;
        let first = (place.index as usize).wrapping_sub(1);
        items.get_mut(first..)?.first_chunk_mut()
    }

    /// Enters two items that touch, in front of a place and behind an item that they touch, if that is
    /// simple. Answers whether it is.
    #[inline]
    pub fn insert_two(&mut self, place: Place, items: [T; 2]) -> bool {
        let Some(leaf) = self.leaves.get_mut(place.leaf) else { return false };
        let index = place.index as usize;
        let len = leaf.items.len();
        if index == 0 || index > len || len + 2 > leaf.items.capacity().min(LEAF) {
            return false;
        }
        self.entered = items[1].start();
        leaf.items.extend_from_slice(&items);
        leaf.items.copy_within(index..len, index + 2);
        if let Some(two) = leaf.items.get_mut(index..).and_then(|rest| rest.first_chunk_mut()) {
            *two = items;
        }
        self.len += 2;
        true
    }

    /// Divides the leaf of a place in the middle, if it has no room for two more items. Answers where the place is then, if it was divided.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn divide(&mut self, place: Place) -> Result<Option<Place>, NoMemory> {
        const HALF: u32 = LEAF as u32 / 2;
        if self.items(place.leaf).len() + 2 <= LEAF {
            return Ok(None);
        }
        let right = self.split_leaf(place.leaf, HALF as usize)?;
        Ok(Some(match place.index.checked_sub(HALF) {
            Some(index) => Place { leaf: right, index },
            None => place,
        }))
    }

    /// Takes the items at a place and behind it out if that is simple. What they covered is covered by
    /// the item in front. Answers whether it is.
    #[inline]
    pub fn remove_two(&mut self, place: Place) -> bool {
        let Some(leaf) = self.leaves.get_mut(place.leaf) else { return false };
        let index = place.index as usize;
        let stays = self.height == 0 || leaf.items.len() >= FEW + 2;
        if index == 0 || index + 2 > leaf.items.len() || !stays {
            return false;
        }
        let len = leaf.items.len();
        leaf.items.copy_within(index + 2.., index);
        leaf.items.truncate(len - 2);
        self.len -= 2;
        true
    }

    /// Brings keys and bounds up to date after an item was changed.
    fn follow(&mut self, place: Place, old: &T, new: &T) {
        if new.start() < old.start() && place.index == 0 {
            self.lower_key(place.leaf, new.start());
        }
        if new.start() > old.start() {
            self.note_gap(place);
            let next = self.next(place);
            if next.leaf != place.leaf {
                self.tighten_key(next.leaf);
            }
        }
        if new.end() < old.end() {
            self.note_gap(self.next(place));
        }
    }

    /// Makes the key of a leaf, and of what is above it as far as it is the first there, at most `key`.
    fn lower_key(&mut self, leaf: u32, key: u64) {
        self.climb(leaf, |inner, index| {
            inner.branches[index].key = inner.branches[index].key.min(key);
            index == 0
        });
    }

    /// The gap in front of a place may have grown: nothing above may say that it is smaller.
    fn note_gap(&mut self, place: Place) {
        let Some(item) = self.get(place) else { return };
        let gap = bounded(item.start().saturating_sub(self.gap_start(place)));
        self.raise(place.leaf, gap);
    }

    fn raise(&mut self, leaf: u32, gap: u32) {
        self.climb(leaf, |inner, index| {
            let is_higher = inner.branches[index].gap < gap;
            inner.branches[index].gap = inner.branches[index].gap.max(gap);
            is_higher
        });
    }

    /// Visits the inner nodes above a leaf, from below, with the index of the branch that leads to it,
    /// as long as `visit` wants to go on.
    fn climb(&mut self, leaf: u32, mut visit: impl FnMut(&mut Inner, usize) -> bool) {
        let (mut child, mut parent) = (leaf, self.parent(true, leaf));
        while let Some((index, inner)) = self.branch_of(parent, child) {
            let above = inner.parent;
            if !visit(inner, index) {
                return;
            }
            (child, parent) = (parent, above);
        }
    }

    /// The inner node `parent`, and which of its branches leads to `child`.
    fn branch_of(&mut self, parent: u32, child: u32) -> Option<(usize, &mut Inner)> {
        let inner = self.inners.get_mut(parent)?;
        let index = inner.branches.iter().position(|branch| branch.child == child)?;
        Some((index, inner))
    }

    fn parent(&self, is_leaf: bool, node: u32) -> u32 {
        match is_leaf {
            true => self.leaves.get(node).map_or(NONE, |leaf| leaf.parent),
            false => self.inners.get(node).map_or(NONE, |inner| inner.parent),
        }
    }

    fn set_parent(&mut self, above_leaves: bool, child: u32, parent: u32) {
        if above_leaves {
            if let Some(leaf) = self.leaves.get_mut(child) {
                leaf.parent = parent;
            }
        } else if let Some(inner) = self.inners.get_mut(child) {
            inner.parent = parent;
        }
    }
}

/// A gap as branches keep it.
fn bounded(gap: u64) -> u32 {
    u32::try_from(gap).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
