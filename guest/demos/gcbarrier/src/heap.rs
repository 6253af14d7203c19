//! The heap: cells of two references and a value, marked and swept. An object that has been marked
//! stays marked, and is *old*, until a full collection.

use crate::barrier::Barrier;
use alloc::vec;
use alloc::vec::Vec;
use tessera::{Status, PAGE};

/// Pages of the heap: what one page table maps.
pub const PAGES: usize = 512;
/// Cells of a page, and of the heap.
const IN_PAGE: usize = PAGE as usize / size_of::<Cell>();
const CELLS: usize = PAGES * IN_PAGE;

/// An object, or nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ref(u32);

impl Ref {
    /// Nothing.
    pub const NONE: Ref = Ref(u32::MAX);
}

/// An object.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Cell {
    pub left: Ref,
    pub right: Ref,
    pub value: u64,
    _room: [u64; 2],
}

/// The heap and its collector.
pub struct Heap<B: Barrier> {
    cells: *mut Cell,
    /// Old objects. Outside of the heap, so that marking makes no page dirty.
    marked: Vec<bool>,
    /// Objects, old or young.
    used: Vec<bool>,
    /// Where the search for a free cell goes on.
    next: usize,
    /// What the program itself refers to.
    pub roots: Vec<Ref>,
    pub barrier: B,
    pub collections: u64,
    pub dirty_pages: u64,
}

impl<B: Barrier> Heap<B> {
    pub fn new() -> Result<Self, Status> {
        let barrier = B::new()?;
        Ok(Heap {
            cells: barrier.heap().cast(),
            marked: vec![false; CELLS],
            used: vec![false; CELLS],
            next: 0,
            roots: Vec::new(),
            barrier,
            collections: 0,
            dirty_pages: 0,
        })
    }

    /// The object; `None` for nothing.
    pub fn get(&self, object: Ref) -> Option<Cell> {
        // SAFETY: references are indexes below `CELLS`, all of which are mapped readable.
        (object != Ref::NONE).then(|| unsafe { self.cells.add(object.0 as usize).read() })
    }

    /// Makes an old or young object point to another. No code for the barrier is needed here.
    pub fn set_left(&mut self, object: Ref, left: Ref) {
        assert!(object != Ref::NONE);
        // SAFETY: as in `get`; where the page is read-only, the barrier makes it writable.
        unsafe { (*self.cells.add(object.0 as usize)).left = left };
    }

    /// A new object, young.
    pub fn allocate(&mut self, value: u64, left: Ref, right: Ref) -> Ref {
        for collected in 0..3 {
            if let Some(free) = (self.next..CELLS).find(|&cell| !self.used[cell]) {
                (self.next, self.used[free]) = (free + 1, true);
                // SAFETY: as in `set_left`.
                unsafe { self.cells.add(free).write(Cell { left, right, value, _room: [0; 2] }) };
                return Ref(free as u32);
            }
            // The arguments are of interest to nobody else yet.
            let roots = self.roots.len();
            self.roots.extend([left, right]);
            if collected == 0 {
                self.collect_young()
            } else {
                self.collect_all()
            }
            self.roots.truncate(roots);
        }
        panic!("the heap is full of live objects")
    }

    /// Frees young objects that nobody refers to: neither a root, nor an old object on a page that
    /// was written to since the last collection, nor what these refer to.
    pub fn collect_young(&mut self) {
        let dirty = self.barrier.dirty_pages();
        self.dirty_pages += dirty.len() as u64;
        let mut gray = self.roots.clone();
        for page in dirty {
            for cell in page * IN_PAGE..(page + 1) * IN_PAGE {
                if self.marked[cell] {
                    gray.extend(self.get(Ref(cell as u32)).iter().flat_map(|c| [c.left, c.right]));
                }
            }
        }
        self.mark_and_sweep(gray);
    }

    /// Frees everything that no root leads to.
    pub fn collect_all(&mut self) {
        self.barrier.dirty_pages();
        self.marked.fill(false);
        self.mark_and_sweep(self.roots.clone());
    }

    fn mark_and_sweep(&mut self, mut gray: Vec<Ref>) {
        while let Some(object) = gray.pop() {
            let Some(cell) = self.get(object) else { continue };
            if !core::mem::replace(&mut self.marked[object.0 as usize], true) {
                gray.extend([cell.left, cell.right]);
            }
        }
        self.used.copy_from_slice(&self.marked);
        self.next = 0;
        self.collections += 1;
    }

    /// Objects that are kept.
    pub fn live(&self) -> usize {
        self.used.iter().filter(|used| **used).count()
    }
}
