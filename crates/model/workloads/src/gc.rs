//! A generational mark-and-sweep collector that never moves anything, with a write barrier by pages;
//! and GCBench (Boehm) on it. What G18 §3.6.5 measures with the collector of Boehm, Demers and
//! Shenker.
//!
//! Objects that survive a collection keep their mark and are *old*. A minor collection traces from
//! the roots and from the old objects in pages that were written since the last collection; it
//! frees what was made since then and is not reached. A full collection forgets all marks first.
//! Which pages were written is for the [`Barrier`] to know: by faults on protected pages, or by the
//! processor's dirty bits.
//!
//! Marks and free cells are kept outside of the heap's pages, so that collecting writes none.

use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a page.
pub const PAGE_BYTES: usize = paging::PAGE as usize;
/// Words of an object: two references and two numbers.
const CELL_WORDS: usize = 4;
/// Objects on a page.
const CELLS: usize = PAGE_BYTES / 8 / CELL_WORDS;
/// Words of a page's bitmap.
const MAP_WORDS: usize = CELLS / 64;

/// Knows which pages of the heap were written.
pub trait Barrier {
    /// Page `page` is about to be written. Hardware sees that itself.
    fn wrote(&mut self, page: usize);
    /// From now on, remembers only what is written from now on, in the first `pages` pages.
    fn arm(&mut self, pages: usize);
    /// Was it written since the last `arm`?
    fn is_dirty(&self, page: usize) -> bool;
}

/// An object; nothing else is comparable to a pointer here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object(u32);

/// The fields that refer to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    Left,
    Right,
}

/// What the collector did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    pub minor: u64,
    pub full: u64,
    pub allocated: u64,
    pub freed: u64,
    /// Dirty pages that minor collections looked through.
    pub dirty_pages: u64,
}

/// There is no memory even after a full collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted;

/// The heap.
pub struct Heap<'a, B> {
    words: &'a mut [u64],
    pages: usize,
    allocated: Vec<u64>,
    marks: Vec<u64>,
    /// Objects in use by the program.
    roots: Vec<Object>,
    /// The word of `allocated` in which the next free cell is looked for.
    cursor: usize,
    /// Objects made since the last collection, and how many trigger the next.
    young: usize,
    young_limit: usize,
    full_next: bool,
    barrier: B,
    statistics: Statistics,
}

impl<'a, B: Barrier> Heap<'a, B> {
    /// A heap in `words`, whole pages.
    pub fn new(words: &'a mut [u64], mut barrier: B) -> Self {
        let pages = words.len() * 8 / PAGE_BYTES;
        barrier.arm(pages);
        Heap {
            words,
            pages,
            allocated: vec![0; pages * MAP_WORDS],
            marks: vec![0; pages * MAP_WORDS],
            roots: Vec::with_capacity(64),
            cursor: 0,
            young: 0,
            young_limit: pages * CELLS / 8,
            full_next: false,
            barrier,
            statistics: Statistics::default(),
        }
    }

    /// Makes an object with these numbers, without references. What is not reachable from a root may
    /// go before.
    pub fn make(&mut self, numbers: [u64; 2]) -> Result<Object, Exhausted> {
        if self.young >= self.young_limit {
            self.collect();
        }
        let cell = match self.free_cell() {
            Some(cell) => cell,
            None => {
                self.full_next = true;
                self.collect();
                self.free_cell().ok_or(Exhausted)?
            }
        };
        self.allocated[cell / 64] |= 1 << (cell % 64);
        self.young += 1;
        self.statistics.allocated += 1;
        self.barrier.wrote(cell / CELLS);
        let at = cell * CELL_WORDS;
        self.words[at..at + CELL_WORDS].copy_from_slice(&[0, 0, numbers[0], numbers[1]]);
        Ok(Object(cell as u32))
    }

    fn free_cell(&mut self) -> Option<usize> {
        while let Some(&used) = self.allocated.get(self.cursor) {
            if used != u64::MAX {
                return Some(self.cursor * 64 + used.trailing_ones() as usize);
            }
            self.cursor += 1;
        }
        None
    }

    /// What a field refers to.
    pub fn get(&self, object: Object, field: Field) -> Option<Object> {
        match self.words[object.0 as usize * CELL_WORDS + field as usize] {
            0 => None,
            reference => Some(Object((reference - 1) as u32)),
        }
    }

    /// Makes a field refer to something.
    pub fn set(&mut self, object: Object, field: Field, to: Option<Object>) {
        let cell = object.0 as usize;
        self.barrier.wrote(cell / CELLS);
        self.words[cell * CELL_WORDS + field as usize] = to.map_or(0, |to| u64::from(to.0) + 1);
    }

    /// An object's numbers.
    pub fn numbers(&self, object: Object) -> [u64; 2] {
        let at = object.0 as usize * CELL_WORDS;
        [self.words[at + 2], self.words[at + 3]]
    }

    /// Keeps an object until the matching `pop`.
    pub fn push(&mut self, object: Object) {
        self.roots.push(object);
    }

    /// Gives the last root up.
    pub fn pop(&mut self) {
        self.roots.pop();
    }

    /// Collects: minor, or full where the last minor collection did not free enough.
    fn collect(&mut self) {
        if core::mem::take(&mut self.full_next) {
            self.marks.fill(0);
            self.statistics.full += 1;
            self.collect_with(Vec::new());
            return;
        }
        self.statistics.minor += 1;
        let remembered = self.remembered();
        let freed = self.collect_with(remembered);
        self.full_next = freed < self.young_limit / 4;
    }

    /// Forgets all marks, then keeps exactly what is reachable.
    pub fn collect_all(&mut self) {
        self.full_next = true;
        self.collect();
    }

    /// What old objects in dirty pages refer to.
    fn remembered(&mut self) -> Vec<Object> {
        let mut found = Vec::new();
        for page in 0..self.pages {
            if !self.barrier.is_dirty(page) {
                continue;
            }
            self.statistics.dirty_pages += 1;
            for map in page * MAP_WORDS..(page + 1) * MAP_WORDS {
                let mut old = self.marks[map] & self.allocated[map];
                while old != 0 {
                    let object = Object((map * 64) as u32 + old.trailing_zeros());
                    old &= old - 1;
                    found.extend(self.get(object, Field::Left));
                    found.extend(self.get(object, Field::Right));
                }
            }
        }
        found
    }

    /// Marks from the roots and `grey`, and frees the rest; answers how many objects.
    fn collect_with(&mut self, mut grey: Vec<Object>) -> usize {
        grey.extend_from_slice(&self.roots);
        while let Some(object) = grey.pop() {
            let (word, bit) = (object.0 as usize / 64, 1u64 << (object.0 % 64));
            if self.marks[word] & bit != 0 {
                continue;
            }
            self.marks[word] |= bit;
            grey.extend(self.get(object, Field::Left));
            grey.extend(self.get(object, Field::Right));
        }
        let mut freed = 0;
        for (allocated, &marks) in self.allocated.iter_mut().zip(&self.marks) {
            freed += (*allocated & !marks).count_ones() as usize;
            *allocated &= marks;
        }
        self.barrier.arm(self.pages);
        (self.cursor, self.young) = (0, 0);
        self.statistics.freed += freed as u64;
        freed
    }

    /// Objects that exist.
    pub fn objects(&self) -> u64 {
        self.allocated.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// What the collector did so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }
}

/// Objects of a full binary tree.
pub const fn tree_objects(depth: u32) -> u64 {
    (2 << depth) - 1
}

/// Why the heap is wrong after GCBench.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// No memory.
    Exhausted,
    /// The long-lived tree has not its shape or its numbers any more.
    Tree,
    /// After a full collection there are more or fewer objects than are reachable.
    Objects(u64),
}

impl From<Exhausted> for Wrong {
    fn from(_: Exhausted) -> Self {
        Wrong::Exhausted
    }
}

/// GCBench with trees up to `depth`: a tree that stretches the heap; one that lives to the end, two
/// levels lower; then for each depth from 4 on as many trees, built from the root down and from the
/// leaves up, as twice the first had objects.
pub fn gc_bench<B: Barrier>(heap: &mut Heap<B>, depth: u32) -> Result<(), Wrong> {
    bottom_up(heap, depth)?;
    let lasting = depth - 2;
    let root = heap.make([lasting as u64, 1])?;
    heap.push(root);
    top_down(heap, root, lasting, 1)?;
    for short in (4..=lasting).step_by(2) {
        let trees = 2 * tree_objects(depth) / tree_objects(short);
        for _ in 0..trees {
            let tree = heap.make([short as u64, 1])?;
            heap.push(tree);
            top_down(heap, tree, short, 1)?;
            heap.pop();
        }
        for _ in 0..trees {
            bottom_up(heap, short)?;
        }
    }
    check(heap, root, lasting)
}

/// Gives `parent`, number `name` of its tree, whole subtrees of `depth` levels.
fn top_down<B: Barrier>(
    heap: &mut Heap<B>,
    parent: Object,
    depth: u32,
    name: u64,
) -> Result<(), Exhausted> {
    if depth == 0 {
        return Ok(());
    }
    for (field, name) in [(Field::Left, 2 * name), (Field::Right, 2 * name + 1)] {
        let child = heap.make([u64::from(depth) - 1, name])?;
        heap.set(parent, field, Some(child));
    }
    for (field, name) in [(Field::Left, 2 * name), (Field::Right, 2 * name + 1)] {
        if let Some(child) = heap.get(parent, field) {
            top_down(heap, child, depth - 1, name)?;
        }
    }
    Ok(())
}

fn bottom_up<B: Barrier>(heap: &mut Heap<B>, depth: u32) -> Result<Object, Exhausted> {
    if depth == 0 {
        return heap.make([0, 0]);
    }
    let left = bottom_up(heap, depth - 1)?;
    heap.push(left);
    let right = bottom_up(heap, depth - 1)?;
    heap.push(right);
    let parent = heap.make([depth.into(), 0])?;
    heap.set(parent, Field::Left, Some(left));
    heap.set(parent, Field::Right, Some(right));
    heap.pop();
    heap.pop();
    Ok(parent)
}

/// Is the tree whole, and is it all that a full collection leaves?
fn check<B: Barrier>(heap: &mut Heap<B>, root: Object, depth: u32) -> Result<(), Wrong> {
    if !is_whole(heap, Some(root), depth, 1) {
        return Err(Wrong::Tree);
    }
    heap.collect_all();
    let left = heap.objects();
    let statistics = heap.statistics();
    if left != tree_objects(depth) || statistics.allocated - statistics.freed != left {
        return Err(Wrong::Objects(left));
    }
    match is_whole(heap, Some(root), depth, 1) {
        true => Ok(()),
        false => Err(Wrong::Tree),
    }
}

fn is_whole<B: Barrier>(heap: &Heap<B>, tree: Option<Object>, depth: u32, name: u64) -> bool {
    let Some(tree) = tree else { return false };
    let (left, right) = (heap.get(tree, Field::Left), heap.get(tree, Field::Right));
    heap.numbers(tree) == [depth.into(), name]
        && match depth {
            0 => left.is_none() && right.is_none(),
            _ => {
                is_whole(heap, left, depth - 1, 2 * name)
                    && is_whole(heap, right, depth - 1, 2 * name + 1)
            }
        }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashSet;

    /// Remembers pages, or (blind) nothing.
    #[derive(Default)]
    struct Remembers {
        dirty: HashSet<usize>,
        blind: bool,
    }

    impl Barrier for Remembers {
        fn wrote(&mut self, page: usize) {
            self.dirty.insert(page);
        }
        fn arm(&mut self, _: usize) {
            self.dirty.clear();
        }
        fn is_dirty(&self, page: usize) -> bool {
            !self.blind && self.dirty.contains(&page)
        }
    }

    #[test]
    fn what_is_reachable_stays() {
        for depth in [8, 10, 11] {
            let words = tree_objects(depth) as usize * CELL_WORDS * 3 / 2;
            let mut words = vec![0; words.next_multiple_of(PAGE_BYTES / 8)];
            let mut heap = Heap::new(&mut words, Remembers::default());
            assert_eq!(gc_bench(&mut heap, depth), Ok(()));
            let statistics = heap.statistics();
            assert!(statistics.minor > 10 && statistics.full > 0 && statistics.dirty_pages > 0);
            assert!(statistics.freed > 5 * tree_objects(depth));
        }
    }

    /// Without a barrier the new children of old parents are lost, and that is noticed.
    #[test]
    fn a_missing_barrier_is_noticed() {
        let mut words = vec![0; 40 * PAGE_BYTES / 8];
        let mut heap = Heap::new(&mut words, Remembers { blind: true, ..Default::default() });
        let result = gc_bench(&mut heap, 11);
        assert!(matches!(result, Err(Wrong::Tree | Wrong::Objects(_))), "{result:?}");
    }

    #[test]
    fn a_full_heap_is_an_error() {
        let mut words = vec![0; 2 * PAGE_BYTES / 8];
        let mut heap = Heap::new(&mut words, Remembers::default());
        assert_eq!(gc_bench(&mut heap, 10), Err(Wrong::Exhausted));
    }
}
