//! The amap: the anonymous layer of the address space (UVM §3.3).
//!
//! An *anon* is one page of private memory, a Frame capability. The amap is a sparse table of
//! chunks of 256 pages each. Of a chunk that is *dense* the anons are the slots of one CNode; of one
//! that is *sparse*, with few anons, they are in [pairs](crate::pairs). The Frame capability's
//! copies are the anon's reference count, and the CNode's copies are the chunk's: after a fork
//! both processes hold the same CNodes, and whoever first changes a chunk makes its own CNode with
//! copies of the Frame capabilities (never of pages). This is `NEEDS_COPY`, for each MiB. Sparse
//! chunks are never shared: the child starts with copies of the Frame capabilities.

use crate::backend::{Backend, CNode};
use crate::bits::Bits;
use crate::chunk::Store;
use crate::pairs::{mapping_of, Pair, Pairs, Shelves, MOST};
use crate::region::drop_or_lose;
use crate::types::{NoMemory, Refused};
use tables::Sparse;

pub use crate::chunk::{Chunk, Place};

/// Empty chunks that are kept for the next use. Of those that are sparse there is only the record.
const SPARE: u32 = 4;
const SPARE_SPARSE: u32 = 16;
/// A fault that fills so many pages makes a chunk dense.
const DENSE_RUN: u32 = 8;

/// How many chunks without anons there are.
#[derive(Clone, Copy, Default)]
struct Spare {
    dense: u32,
    sparse: u32,
}

impl Spare {
    const NONE: Spare = Spare { dense: 0, sparse: 0 };

    fn is_empty(&self) -> bool {
        self.dense + self.sparse == 0
    }
    #[inline]
    fn of(&mut self, chunk: &Chunk) -> &mut u32 {
        match chunk.is_sparse() {
            true => &mut self.sparse,
            false => &mut self.dense,
        }
    }
    #[inline]
    fn enter(&mut self, chunk: &Chunk) {
        *self.of(chunk) += 1;
    }
    #[inline]
    fn leave(&mut self, chunk: &Chunk) {
        let count = self.of(chunk);
        *count = count.saturating_sub(1);
    }
}

/// All chunks, by number (page number / 256).
#[derive(Clone, Default)]
pub struct Amap {
    chunks: Sparse<Chunk, 16>,
    shelves: Shelves,
    spare: Spare,
    /// Number of anons.
    pages: u64,
}

impl Amap {
    /// No anons.
    pub const fn new() -> Self {
        Amap { chunks: Sparse::new(), shelves: Shelves::new(), spare: Spare::NONE, pages: 0 }
    }
    /// The chunk with this number.
    #[inline]
    pub fn chunk(&self, key: u64) -> Option<&Chunk> {
        self.chunks.get(key)
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
    /// Pairs in use.
    pub fn shelves(&self) -> &Shelves {
        &self.shelves
    }
    /// The chunk with this number, if its anons are in pairs.
    #[inline]
    pub fn sparse(&self, key: u64) -> Option<&Chunk> {
        self.chunks.get(key).filter(|chunk| chunk.is_sparse())
    }

    /// Where the anons of pages `slot..end` are, of which the first has one: as many as have
    /// consecutive slots.
    #[inline]
    pub fn run(&self, key: u64, slot: u32, end: u32) -> Option<(Place, u32)> {
        let chunk = self.chunks.get(key)?;
        match &chunk.store {
            Store::Dense { node, .. } => {
                let one = end == slot + 1;
                let count = if one { 1 } else { chunk.filled.next_clear(slot).min(end) - slot };
                Some((Place { node: *node, slot, pair: None }, count))
            }
            Store::Sparse(pairs) => {
                let (pair, count) = pairs.run(slot, end)?;
                let (node, slot) = self.shelves.frame(pair)?;
                Some((Place { node, slot, pair: Some(pair) }, count))
            }
        }
    }

    /// Where the anon of a page is, if this process may change that, and whether perhaps another process
    /// has the anon, too.
    #[inline]
    pub fn own_place(&self, key: u64, slot: u32) -> Option<(Place, bool)> {
        let chunk = self.chunks.get(key)?;
        let place = match &chunk.store {
            Store::Dense { shared: true, .. } => return None,
            Store::Dense { node, .. } => Place { node: *node, slot, pair: None },
            Store::Sparse(pairs) => {
                let pair = pairs.get(slot)?;
                let (node, slot) = self.shelves.frame(pair)?;
                Place { node, slot, pair: Some(pair) }
            }
        };
        Some((place, chunk.aliased.get(slot)))
    }

    /// The slot of the Mapping of a page's anon, if it is in a pair.
    #[inline]
    pub fn mapping(&self, key: u64, slot: u32) -> Option<(CNode, u32)> {
        let Store::Sparse(pairs) = &self.chunks.get(key)?.store else { return None };
        let (node, frame) = self.shelves.frame(pairs.get(slot)?)?;
        Some((node, mapping_of(frame)))
    }

    /// Finds out whether a chunk that is marked as shared still is. Answers whether its CNode must
    /// not be changed.
    pub fn still_shared(&mut self, b: &mut impl Backend, key: u64) -> bool {
        self.is_held_by_another(b, key).unwrap_or(true)
    }

    /// The same.
    ///
    /// # Errors
    ///
    /// No other process holds it, but the backend refuses to empty slots of it: until these are empty
    /// nothing can be put there.
    fn is_held_by_another(&mut self, b: &mut impl Backend, key: u64) -> Result<bool, Refused> {
        let Some(chunk) = self.chunks.get_mut(key) else { return Ok(false) };
        let Store::Dense { node, stale, shared } = &mut chunk.store else { return Ok(false) };
        if !*shared || b.cnode_shared(*node) {
            return Ok(*shared);
        }
        stale.runs().try_for_each(|(lo, hi)| b.slots_drop(*node, lo, hi - lo))?;
        // The other holder is gone, but may have left with copies of the Frames.
        (*stale, *shared) = (Bits::EMPTY, false);
        chunk.aliased = chunk.filled;
        Ok(false)
    }

    /// Makes sure that there is a chunk with this number, and that this process may change where its
    /// anons are. A new one has pairs, unless it is to be `dense`.
    #[inline]
    pub fn make_own(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        dense: bool,
    ) -> Result<(), NoMemory> {
        match self.chunks.get(key) {
            Some(chunk) if !chunk.is_shared() => Ok(()),
            Some(_) => self.leave(b, key),
            None => self.add(b, key, dense),
        }
    }

    #[cold]
    fn add(&mut self, b: &mut impl Backend, key: u64, dense: bool) -> Result<(), NoMemory> {
        let chunk;
        if dense || self.shelves.are_full() {
            let node = b.cnode_new()?;
            chunk = Chunk::new(Store::dense(node));
            self.chunks.insert(key, chunk).inspect_err(|_| drop_or_lose(b, node))?;
        } else {
            chunk = Chunk::new(Store::Sparse(Pairs::default()));
            self.chunks.insert(key, chunk)?;
        }
        self.spare.enter(&chunk);
        Ok(())
    }

    /// Leaves the other process that holds the CNode of a chunk: `amap_copy`.
    #[cold]
    fn leave(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        // Where that cannot be told nothing is copied: what is mapped as the process's own, which it is, would
        // have a second holder, should the old CNode be lost.
        if !self.is_held_by_another(b, key)? {
            return Ok(());
        }
        let Some(chunk) = self.chunks.get_mut(key) else { return Ok(()) };
        let Store::Dense { node: old, .. } = chunk.store else { return Ok(()) };
        let node = b.cnode_new()?;
        for (lo, hi) in chunk.filled.runs() {
            if let Err(error) = b.slots_copy(old, node, lo, hi - lo) {
                drop_or_lose(b, node);
                return Err(error);
            }
        }
        drop_or_lose(b, old);
        chunk.store = Store::dense(node);
        chunk.aliased = chunk.filled;
        Ok(())
    }

    /// Is there no room for another anon in a chunk unless it becomes dense, or does it become so
    /// because a fault is to fill `want` pages?
    pub fn becomes_dense(&self, key: u64, want: u32) -> bool {
        match self.chunks.get(key).map(|chunk| &chunk.store) {
            Some(Store::Sparse(pairs)) => {
                want >= DENSE_RUN || pairs.count() >= MOST || self.shelves.are_full()
            }
            _ => false,
        }
    }

    /// The same as [`room`](Self::room), if nothing has to be made for it.
    #[inline]
    pub fn ready_room(&self, key: u64, slot: u32, want: u32) -> Option<(Place, u32)> {
        let chunk = self.chunks.get(key)?;
        match &chunk.store {
            Store::Dense { node, shared: false, .. } => {
                let one = want == 1;
                let count = if one { 1 } else { want.min(chunk.filled.next_set(slot) - slot) };
                Some((Place { node: *node, slot, pair: None }, count))
            }
            Store::Sparse(pairs) if want == 1 && pairs.count() < MOST => {
                let pair = self.shelves.ready()?;
                let (node, slot) = self.shelves.frame(pair)?;
                Some((Place { node, slot, pair: Some(pair) }, 1))
            }
            _ => None,
        }
    }

    /// Slots for the anons of up to `want` pages of a chunk from `slot` on, of which the first has
    /// none. Followed by [`fill`](Self::fill) when the Frames are there.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn room(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        slot: u32,
        want: u32,
    ) -> Result<(Place, u32), NoMemory> {
        self.make_own(b, key, want >= DENSE_RUN)?;
        let chunk = self.chunks.get(key).ok_or(NoMemory)?;
        let Store::Sparse(pairs) = &chunk.store else {
            return self.ready_room(key, slot, want).ok_or(NoMemory);
        };
        let gap = if want == 1 { 1 } else { chunk.filled.next_set(slot) - slot };
        let left = MOST - pairs.count();
        if left == 0 {
            return Err(NoMemory);
        }
        let (pair, count) = self.shelves.room(b, want.min(gap).min(left))?;
        let (node, slot) = self.shelves.frame(pair).ok_or(NoMemory)?;
        Ok((Place { node, slot, pair: Some(pair) }, count))
    }

    /// Notes that pages `lo..hi` of an own chunk, which had none, have anons now, in `place`.
    #[inline]
    pub fn fill(&mut self, key: u64, lo: u32, hi: u32, place: &Place) {
        let Some(chunk) = self.chunks.get_mut(key) else { return };
        if chunk.filled.is_empty() {
            self.spare.leave(chunk);
        }
        if let (Store::Sparse(pairs), Some(pair)) = (&mut chunk.store, place.pair) {
            self.shelves.take(pair, hi - lo);
            (lo..hi).zip(pair.from_here()).for_each(|(slot, pair)| pairs.add(slot, pair));
        }
        self.pages += (hi - lo) as u64;
        chunk.filled.set_range(lo, hi);
        chunk.aliased.clear_range(lo, hi);
    }

    /// Notes that the anon in `slot` of an own chunk belongs to nobody else.
    #[inline]
    pub fn is_own(&mut self, key: u64, slot: u32) {
        if let Some(chunk) = self.chunks.get_mut(key) {
            chunk.aliased.clear(slot);
        }
    }

    /// Gives up the anons in `lo..hi` of a chunk. Those that are in pairs are not mapped, or nobody
    /// else's.
    ///
    /// # Errors
    ///
    /// The backend refuses. They are not noted any more, but may still be there, and mapped: their slots
    /// are not used before they are empty.
    #[inline]
    pub fn free(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        lo: u32,
        hi: u32,
    ) -> Result<(), Refused> {
        match self.chunks.get_mut(key).map(|chunk| &mut chunk.store) {
            Some(Store::Dense { .. }) => self.free_dense(b, key, lo, hi),
            Some(Store::Sparse(_)) => self.free_sparse(b, key, lo, hi),
            None => Ok(()),
        }
    }

    fn free_sparse(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        lo: u32,
        hi: u32,
    ) -> Result<(), Refused> {
        let Some(chunk) = self.chunks.get_mut(key) else { return Ok(()) };
        let Store::Sparse(pairs) = &mut chunk.store else { return Ok(()) };
        let before = pairs.count();
        let mut result = Ok(());
        while let Some((slot, pair, count)) = pairs.take_run(lo, hi) {
            let place = self.shelves.frame(pair);
            match place.map_or(Ok(()), |(node, frame)| b.slots_drop(node, frame, count)) {
                Ok(()) => self.shelves.free(b, pair, count),
                // The pairs stay in use until the shelves are cleared.
                refused => result = refused,
            }
            chunk.filled.clear_range(slot, slot + count);
            chunk.aliased.clear_range(slot, slot + count);
        }
        let left = pairs.count();
        self.pages -= (before - left) as u64;
        if left == 0 && before != 0 {
            if self.spare.sparse < SPARE_SPARSE {
                self.spare.sparse += 1;
            } else {
                self.chunks.remove(key);
            }
        }
        result
    }

    fn free_dense(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        lo: u32,
        hi: u32,
    ) -> Result<(), Refused> {
        let Some(chunk) = self.chunks.get(key) else { return Ok(()) };
        let going = chunk.filled.within(lo, hi);
        if going.is_empty() {
            return Ok(());
        }
        let left = chunk.filled.minus(&going);
        self.pages -= going.count() as u64;
        if left.is_empty() && (chunk.is_shared() || self.spare.dense >= SPARE) {
            if let Some(Chunk { store: Store::Dense { node, .. }, .. }) = self.chunks.remove(key) {
                return b.cnode_drop(node);
            }
            return Ok(());
        }
        let must_stay = self.still_shared(b, key);
        let Some(chunk) = self.chunks.get_mut(key) else { return Ok(()) };
        let Store::Dense { node, stale, shared } = &mut chunk.store else { return Ok(()) };
        chunk.filled = left;
        if must_stay {
            *stale = stale.or(&going);
            return Ok(());
        }
        self.spare.dense += left.is_empty() as u32;
        chunk.aliased = chunk.aliased.and(&left);
        let dropped = b.slots_drop(*node, lo, hi - lo);
        if dropped.is_err() {
            // As if somebody else had them: whoever next changes the chunk tries again.
            (*stale, *shared) = (going, true);
        }
        dropped
    }

    /// Makes a sparse chunk dense. `mappings` is the CNode for the Mappings of those of its pages that
    /// are `mapped`.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed. Should the backend refuse twice, the chunk is dense, but
    /// has not all of its anons, and they may be mapped by whatever Mappings.
    pub fn make_dense(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        mapped: &Bits<4>,
        mappings: Option<CNode>,
    ) -> Result<(), NoMemory> {
        let Some(chunk) = self.chunks.get_mut(key) else { return Ok(()) };
        let Store::Sparse(pairs) = chunk.store else { return Ok(()) };
        let node = b.cnode_new()?;
        let mut result = Ok(());
        let places = |slot: u32, pair: Pair| {
            let (shelf, from) = self.shelves.frame(pair)?;
            let mapping = mappings.filter(|_| mapped.get(slot));
            let mapping = mapping.map(|node| ((shelf, mapping_of(from)), (node, slot)));
            Some((((shelf, from), (node, slot)), mapping))
        };
        for (done, (slot, pair)) in pairs.iter().enumerate() {
            let Some((frame, mapping)) = places(slot, pair) else { continue };
            let Err(Stuck(stuck)) = move_both(b, frame, mapping) else { continue };
            let back = |((from, to), mapping): (Move, Option<Move>), b: &mut _| {
                move_both(b, (to, from), mapping.map(|(from, to)| (to, from)))
            };
            let mut moved = pairs.iter().take(done).filter_map(|(slot, pair)| places(slot, pair));
            if !stuck && moved.try_for_each(|place| back(place, b)).is_ok() {
                drop_or_lose(b, node);
                return Err(NoMemory);
            }
            // Neither here nor there: as much as can be becomes dense. Who touches what does not hears of it.
            result = Err(NoMemory);
        }
        if result.is_ok() {
            pairs.iter().for_each(|(_, pair)| self.shelves.free(b, pair, 1));
        }
        if chunk.filled.is_empty() {
            self.spare.leave(chunk);
        }
        chunk.store = Store::dense(node);
        if chunk.filled.is_empty() {
            self.spare.enter(chunk);
        }
        result
    }

    /// Could the chunk take `more` anons that are in pairs, without becoming dense?
    pub fn takes_pairs(&self, key: u64, more: u32) -> bool {
        match self.chunks.get(key).map(|chunk| &chunk.store) {
            None => more <= MOST,
            Some(Store::Sparse(pairs)) => pairs.count() + more <= MOST,
            Some(Store::Dense { .. }) => false,
        }
    }

    /// Moves the anon of page `from`, which is not mapped, to page `to`, which has none. Both chunks are
    /// own; that of `to` is sparse only if the other is, too, and has room for it.
    ///
    /// # Errors
    ///
    /// The backend refuses: nothing has changed.
    pub fn move_anon(&mut self, b: &mut impl Backend, from: u64, to: u64) -> Result<(), Refused> {
        let (key, slot) = split(from);
        let (place, _) = self.run(key, slot, slot + 1).ok_or(Refused)?;
        let (target, at) = split(to);
        match (self.chunks.get(target).map(|chunk| &chunk.store).ok_or(Refused)?, place.pair) {
            (Store::Dense { node, .. }, _) => b.slot_move((place.node, place.slot), (*node, at))?,
            (Store::Sparse(_), Some(_)) => {}
            (Store::Sparse(_), None) => return Err(Refused),
        }
        let Some(source) = self.chunks.get_mut(key) else { return Ok(()) };
        let aliased = source.aliased.get(slot);
        if let Store::Sparse(pairs) = &mut source.store {
            pairs.take_run(slot, slot + 1);
        }
        source.filled.clear(slot);
        source.aliased.clear(slot);
        if source.filled.is_empty() {
            self.spare.enter(source);
        }
        self.put_anon(b, (target, at), &place, aliased);
        Ok(())
    }

    /// Notes an anon that has been moved to a chunk, or takes its pair over.
    fn put_anon(
        &mut self,
        b: &mut impl Backend,
        (key, slot): (u64, u32),
        place: &Place,
        aliased: bool,
    ) {
        let Some(target) = self.chunks.get_mut(key) else { return };
        if target.filled.is_empty() {
            self.spare.leave(target);
        }
        match (&mut target.store, place.pair) {
            (Store::Dense { .. }, pair) => {
                if let Some(pair) = pair {
                    self.shelves.free(b, pair, 1);
                }
            }
            (Store::Sparse(pairs), Some(pair)) => pairs.add(slot, pair),
            (Store::Sparse(_), None) => return,
        }
        target.filled.set(slot);
        if aliased {
            target.aliased.set(slot);
        }
    }

    /// Gives back chunks without anons, and what else is kept for the next use.
    pub fn drop_spare(&mut self, b: &mut impl Backend) {
        self.shelves.drop_spare(b);
        if self.spare.is_empty() {
            return;
        }
        self.chunks.retain(|chunk| {
            let is_empty = chunk.filled.is_empty();
            if let Store::Dense { node, .. } = chunk.store {
                if is_empty {
                    drop_or_lose(b, node);
                }
            }
            !is_empty
        });
        self.spare = Spare::NONE;
    }

    /// Forgets all, without giving anything up.
    pub fn abandon(&mut self) {
        self.chunks.clear();
        self.shelves.abandon();
        (self.spare, self.pages) = (Spare::NONE, 0);
    }

    /// Gives every anon up. Up to `spare` dense chunks stay, empty.
    ///
    /// # Errors
    ///
    /// The backend refuses. No anon is noted any more, but some may still be there, and mapped.
    pub fn clear(&mut self, b: &mut impl Backend, spare: usize) -> Result<(), Refused> {
        self.spare = Spare::NONE;
        self.pages = 0;
        let kept = &mut self.spare.dense;
        let mut result = self.shelves.clear(b, spare > 0);
        self.chunks.retain(|chunk| {
            let Store::Dense { node, shared, .. } = chunk.store else { return false };
            if !shared && (*kept as usize) < spare {
                let filled = chunk.filled.span();
                let dropped = filled.map_or(Ok(()), |(lo, hi)| b.slots_drop(node, lo, hi - lo));
                if dropped.is_ok() {
                    *chunk = Chunk::new(Store::dense(node));
                    *kept += 1;
                    return true;
                }
            }
            result = result.and(b.cnode_drop(node));
            false
        });
        result
    }

    /// For a fork: gives the child a CNode of its own for a dense chunk.
    pub fn copy_for_child(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        let Some(chunk) = self.chunks.get_mut(key) else { return Ok(()) };
        if let Store::Dense { node, .. } = chunk.store {
            b.child_node(node)?;
            for (lo, hi) in chunk.filled.runs() {
                b.child_slots(node, lo, hi - lo)?;
            }
            chunk.aliased = chunk.filled;
        }
        Ok(())
    }

    /// For a fork: gives the child copies of all anons in pairs. They become read-only. Followed by
    /// [`share`](Self::share), or by [`alias_pairs`](Self::alias_pairs) if there will be no child.
    ///
    /// # Errors
    ///
    /// There is no memory: the child has some of them. Some may be read-only.
    pub fn copy_pairs_for_child(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        self.shelves.copy_for_child(b)?;
        Ok(self.shelves.lower(b).inspect_err(|_| self.alias_pairs())?)
    }

    /// Marks every anon in a pair as one that perhaps another process has, too.
    pub fn alias_pairs(&mut self) {
        let sparse = self.chunks.values_mut().filter(|chunk| chunk.is_sparse());
        sparse.for_each(|chunk| chunk.aliased = chunk.filled);
    }

    /// Marks every dense chunk as held by two processes, but those of the regions `copied`, and
    /// every anon in a pair as one that another process has, too.
    pub fn share(&mut self, copied: &[u64]) {
        self.chunks.values_mut().for_each(|chunk| match &mut chunk.store {
            Store::Dense { shared, .. } => *shared = true,
            Store::Sparse(_) => chunk.aliased = chunk.filled,
        });
        for key in copied.iter().flat_map(|region| [region * 2, region * 2 + 1]) {
            if let Some(chunk) = self.chunks.get_mut(key) {
                chunk.set_shared(false);
            }
        }
    }
}

/// From a slot to another.
type Move = ((CNode, u32), (CNode, u32));

/// Not both have been moved: none of them, or `true`, one.
struct Stuck(bool);

/// Moves the Frame of a page, and its Mapping if there is one.
fn move_both(b: &mut impl Backend, (from, to): Move, mapping: Option<Move>) -> Result<(), Stuck> {
    b.slot_move(from, to).map_err(|Refused| Stuck(false))?;
    let Some((old, new)) = mapping else { return Ok(()) };
    b.slot_move(old, new).map_err(|Refused| Stuck(b.slot_move(to, from).is_err()))
}

/// Chunk and slot of a page.
#[inline]
pub fn split(page: u64) -> (u64, u32) {
    (page >> 8, (page & 255) as u32)
}

#[cfg(test)]
impl Amap {
    /// Slots of all pairs in use: of the Frame, of the Mapping, and the page.
    pub(crate) fn pairs(&self) -> Vec<(CNode, u32, u32, u64)> {
        let mut all = Vec::new();
        for (key, chunk) in self.chunks() {
            let Store::Sparse(pairs) = &chunk.store else { continue };
            for (slot, pair) in pairs.iter() {
                let (node, frame) = self.shelves.frame(pair).unwrap();
                all.push((node, frame, mapping_of(frame), (key << 8) + slot as u64));
            }
        }
        all
    }
}
