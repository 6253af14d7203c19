//! The amap: the anonymous layer of the address space (UVM §3.3).
//!
//! An *anon* is one page of private memory, a Frame capability. The amap is a sparse table of
//! chunks of 256 pages each; a chunk's anons are the slots of one CNode. The Frame capability's
//! copies are the anon's reference count, and the CNode's copies are the chunk's: after a fork
//! both processes hold the same CNodes, and whoever first changes a chunk makes its own CNode with
//! copies of the Frame capabilities (never of pages). This is `NEEDS_COPY`, for each MiB.

use crate::backend::{Backend, CNode};
use crate::bits::Bits;
use crate::types::NoMemory;
use tables::Sparse;

/// The anons of 256 consecutive pages.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Where the Frames are.
    pub node: CNode,
    /// Pages that have an anon.
    pub filled: Bits<4>,
    /// Anons that perhaps belong to another process too. Meaningful unless `shared`.
    pub aliased: Bits<4>,
    /// Slots whose contents this process has given up while it could not change the CNode.
    pub stale: Bits<4>,
    /// Perhaps another process holds the CNode: it must not be changed.
    pub shared: bool,
}

impl Chunk {
    fn new(node: CNode) -> Self {
        let none = Bits::EMPTY;
        Chunk { node, filled: none, aliased: none, stale: none, shared: false }
    }
    /// Anons that are this process's alone, for certain.
    #[inline]
    pub fn own(&self) -> Bits<4> {
        if self.shared {
            Bits::EMPTY
        } else {
            self.filled.minus(&self.aliased)
        }
    }
    /// Is the anon in `slot` this process's alone, for certain?
    #[inline]
    pub fn owns(&self, slot: u32) -> bool {
        !self.shared && self.filled.get(slot) && !self.aliased.get(slot)
    }
}

/// Empty chunks that are kept for the next use.
const SPARE: u32 = 4;

/// All chunks, by number (page number / 256).
#[derive(Clone, Default)]
pub struct Amap {
    chunks: Sparse<Chunk, 16>,
    spare: u32,
    /// Number of anons.
    pages: u64,
}

impl Amap {
    /// No anons.
    pub const fn new() -> Self {
        Amap { chunks: Sparse::new(), spare: 0, pages: 0 }
    }
    /// The chunk with this number.
    #[inline]
    pub fn chunk(&self, key: u64) -> Option<&Chunk> {
        self.chunks.get(key)
    }
    /// The chunk with this number.
    #[inline]
    pub fn chunk_mut(&mut self, key: u64) -> Option<&mut Chunk> {
        self.chunks.get_mut(key)
    }
    /// All chunks, by number.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &Chunk)> {
        self.chunks.iter()
    }
    /// The first chunk at or behind a number.
    pub fn next_key(&self, key: u64) -> Option<u64> {
        self.chunks.next_key(key)
    }
    /// Number of anons.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Finds out whether a chunk that is marked `shared` still is. Answers whether its CNode must
    /// not be changed.
    pub fn still_shared(&mut self, b: &mut impl Backend, key: u64) -> bool {
        let Some(chunk) = self.chunks.get_mut(key) else { return false };
        if !chunk.shared {
            return false;
        }
        if b.cnode_shared(chunk.node) {
            return true;
        }
        // The other holder is gone, but may have left with copies of the Frames.
        chunk.shared = false;
        chunk.aliased = chunk.filled;
        for (lo, hi) in chunk.stale.runs() {
            b.slots_drop(chunk.node, lo, hi - lo);
        }
        chunk.stale = Bits::EMPTY;
        false
    }

    /// The chunk with this number, made if there was none, whose CNode this process may change.
    #[inline]
    pub fn own_chunk(&mut self, b: &mut impl Backend, key: u64) -> Result<&mut Chunk, NoMemory> {
        if self.chunks.get(key).is_none_or(|chunk| chunk.shared) {
            self.make_own(b, key)?;
        }
        self.chunks.get_mut(key).ok_or(NoMemory)
    }

    #[cold]
    fn make_own(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        if self.chunks.get(key).is_none() {
            let node = b.cnode_new()?;
            self.chunks.insert(key, Chunk::new(node)).inspect_err(|_| b.cnode_drop(node))?;
            self.spare += 1;
        } else if self.still_shared(b, key) {
            self.unshare(b, key)?;
        }
        Ok(())
    }

    /// Gives the process its own CNode for a chunk: `amap_copy`.
    fn unshare(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        let Some(chunk) = self.chunks.get_mut(key) else { return Ok(()) };
        let node = b.cnode_new()?;
        for (lo, hi) in chunk.filled.runs() {
            if let Err(error) = b.slots_copy(chunk.node, node, lo, hi - lo) {
                b.cnode_drop(node);
                return Err(error);
            }
        }
        b.cnode_drop(chunk.node);
        *chunk = Chunk { node, aliased: chunk.filled, ..Chunk::new(node) }.with(chunk.filled);
        Ok(())
    }

    /// Notes that `lo..hi` of an own chunk have an anon now that belongs to nobody else. Either all
    /// of them had one before or none.
    #[inline]
    pub fn filled(&mut self, key: u64, lo: u32, hi: u32) {
        if let Some(chunk) = self.chunks.get_mut(key) {
            if chunk.filled.is_empty() {
                self.spare = self.spare.saturating_sub(1);
            }
            if !chunk.filled.get(lo) {
                self.pages += (hi - lo) as u64;
            }
            chunk.filled.set_range(lo, hi);
            chunk.aliased.clear_range(lo, hi);
        }
    }

    /// Gives up the anons in `lo..hi` of a chunk.
    pub fn free(&mut self, b: &mut impl Backend, key: u64, lo: u32, hi: u32) {
        let Some(chunk) = self.chunks.get_mut(key) else { return };
        let going = chunk.filled.within(lo, hi);
        if going.is_empty() {
            return;
        }
        let left = chunk.filled.minus(&going);
        self.pages -= going.count() as u64;
        if left.is_empty() && (chunk.shared || self.spare >= SPARE) {
            b.cnode_drop(chunk.node);
            self.chunks.remove(key);
            return;
        }
        if self.still_shared(b, key) {
            if let Some(chunk) = self.chunks.get_mut(key) {
                chunk.filled = left;
                chunk.stale = chunk.stale.or(&going);
            }
            return;
        }
        if let Some(chunk) = self.chunks.get_mut(key) {
            b.slots_drop(chunk.node, lo, hi - lo);
            chunk.filled = left;
            chunk.aliased = chunk.aliased.and(&left);
            self.spare += left.is_empty() as u32;
        }
    }

    /// Notes that the anon in a slot of an own chunk was moved away.
    pub fn taken(&mut self, key: u64, slot: u32) {
        if let Some(chunk) = self.chunks.get_mut(key) {
            chunk.filled.clear(slot);
            chunk.aliased.clear(slot);
            self.pages -= 1;
            self.spare += chunk.filled.is_empty() as u32;
        }
    }

    /// Gives back chunks without anons.
    pub fn drop_spare(&mut self, b: &mut impl Backend) {
        if self.spare == 0 {
            return;
        }
        let mut from = 0;
        while let Some(key) = self.chunks.next_key(from) {
            from = key + 1;
            if let Some(chunk) = self.chunks.get(key).filter(|chunk| chunk.filled.is_empty()) {
                b.cnode_drop(chunk.node);
                self.chunks.remove(key);
            }
        }
        self.spare = 0;
    }

    /// Forgets all, without giving anything up.
    pub fn abandon(&mut self) {
        self.chunks.clear();
        (self.spare, self.pages) = (0, 0);
    }

    /// Gives every anon up. Up to `spare` chunks stay, empty.
    pub fn clear(&mut self, b: &mut impl Backend, spare: usize) {
        self.spare = 0;
        self.pages = 0;
        let kept = &mut self.spare;
        self.chunks.retain(|chunk| {
            if chunk.shared || *kept as usize >= spare {
                b.cnode_drop(chunk.node);
                return false;
            }
            if let Some((first, last)) = chunk.filled.span() {
                b.slots_drop(chunk.node, first, last - first);
            }
            *chunk = Chunk::new(chunk.node);
            *kept += 1;
            true
        });
    }

    /// For a fork: gives the child a CNode of its own for a chunk.
    pub fn copy_for_child(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        if let Some(chunk) = self.chunks.get_mut(key) {
            b.child_node(chunk.node)?;
            for (lo, hi) in chunk.filled.runs() {
                b.child_slots(chunk.node, lo, hi - lo)?;
            }
            chunk.aliased = chunk.filled;
        }
        Ok(())
    }

    /// Marks every chunk as held by two processes, but those of the regions `kept`.
    pub fn share(&mut self, kept: &[u64]) {
        self.chunks.values_mut().for_each(|chunk| chunk.shared = true);
        for key in kept.iter().flat_map(|region| [region * 2, region * 2 + 1]) {
            if let Some(chunk) = self.chunks.get_mut(key) {
                chunk.shared = false;
            }
        }
    }
}

impl Chunk {
    fn with(mut self, filled: Bits<4>) -> Self {
        self.filled = filled;
        self
    }
}
