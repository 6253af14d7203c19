//! Map, protect, unmap, forget: ranges of addresses as operations on single tables.

use crate::tree::{Item, ItemRun, ROOT};
use crate::{entry_of, Backend, Error, PageSize, Pmap, Run, Runs, Shadow, Values, ENTRIES};

/// Mappings that are removed, or get new rights, in one step.
const BATCH: usize = 64;

impl<B: Backend, S: Shadow> Pmap<B, S> {
    /// Maps the `bytes` of `frame` from `offset` on at `va`, in pages of `size`; `va` and `bytes` are
    /// multiples of that, and the frame's memory must be, as the backend will see. Nothing may be
    /// mapped there.
    #[allow(clippy::too_many_arguments)]
    pub fn map(
        &mut self,
        b: &mut B,
        va: u64,
        frame: B::Frame,
        offset: u64,
        bytes: u64,
        rights: B::Rights,
        size: PageSize,
    ) -> Result<(), Error<B::Error>> {
        let end = self.check(va, bytes)?;
        if !(va | bytes).is_multiple_of(size.bytes()) {
            return Err(Error::Misaligned);
        }
        if bytes > size.bytes() && !self.is_free(va, bytes) {
            return Err(Error::Occupied);
        }
        let mut at = va;
        while at < end {
            let count = u64::from(ENTRIES - entry_of(size.level(), at));
            let until = end.min(at + count * size.bytes());
            let part = (frame, offset + (at - va));
            if let Err(error) = self.map_in_table(b, (at, until), part, rights, size) {
                self.prune_at(b, at);
                if at > va {
                    // Whole Mappings: nothing to fail.
                    let _ = self.unmap(b, va, at - va);
                }
                return Err(error);
            }
            at = until;
        }
        Ok(())
    }

    /// Maps what belongs to one table.
    fn map_in_table(
        &mut self,
        b: &mut B,
        (va, end): (u64, u64),
        (frame, offset): (B::Frame, u64),
        rights: B::Rights,
        size: PageSize,
    ) -> Result<(), Error<B::Error>> {
        let number = self.make_node(b, va, size.level())?;
        let node = self.node_mut(number);
        let (first, count) = (entry_of(size.level(), va), ((end - va) / size.bytes()) as u32);
        if node.items.next(first).is_some_and(|next| next.first < first + count) {
            return Err(Error::Occupied);
        }
        node.items.reserve(1)?;
        node.rights.reserve(rights)?;
        let mapping = b.map(node.table, first, count, frame, offset, rights);
        let value = Item::Pages { mapping: mapping.map_err(Error::Backend)?, frame, offset };
        node.items.insert(Run { first, count, value });
        node.rights.set(first, first + count, rights);
        Ok(())
    }

    /// Sets the rights of whatever is mapped in `[va, va + bytes)`. A backend that refuses in the
    /// middle has changed what is before that.
    pub fn protect(
        &mut self,
        b: &mut B,
        va: u64,
        bytes: u64,
        rights: B::Rights,
    ) -> Result<(), Error<B::Error>> {
        let end = self.check(va, bytes)?;
        self.cut(b, va)?;
        self.cut(b, end)?;
        let mut at = va;
        while let Some((number, run)) = self.next_leaf(ROOT, at, end) {
            at = self.protect_some(b, number, run, (at, end), rights)?;
        }
        Ok(())
    }

    /// Sets the rights of `run` and of the runs that follow it in the same table, up to a batch.
    /// Answers the address behind.
    fn protect_some(
        &mut self,
        b: &mut B,
        number: u32,
        run: ItemRun<B>,
        (low, high): (u64, u64),
        rights: B::Rights,
    ) -> Result<u64, Error<B::Error>> {
        let node = self.node_mut(number);
        let (low, high) = node.entries(low, high);
        let (first, end) = (run.first.max(low), run.end().min(high));
        node.rights.reserve(rights)?;
        if first > run.first || end < run.end() {
            let mapping = mapping_of(&run);
            b.protect(mapping, first - run.first, end - first, rights).map_err(Error::Backend)?;
            node.rights.set(first, end, rights);
            return Ok(node.address(end));
        }
        let mut batch = [(mapping_of(&run), run.count); BATCH];
        let (mut count, mut behind) = (1, end);
        while let Some(next) = node.items.get(behind).filter(|next| next.end() <= high) {
            if count == BATCH || matches!(next.value, Item::Table { .. }) {
                break;
            }
            batch[count] = (mapping_of(&next), next.count);
            (count, behind) = (count + 1, next.end());
        }
        b.protect_many(&batch[..count], rights).map_err(Error::Backend)?;
        node.rights.set(first, behind, rights);
        Ok(node.address(behind))
    }

    /// Removes whatever is mapped in `[va, va + bytes)`, and the tables that are empty then.
    pub fn unmap(&mut self, b: &mut B, va: u64, bytes: u64) -> Result<(), Error<B::Error>> {
        let end = self.check(va, bytes)?;
        self.cut(b, va)?;
        self.cut(b, end)?;
        let mut at = va;
        while let Some((number, run)) = self.next_leaf(ROOT, at, end) {
            at = self.unmap_some(b, number, run, (at, end))?;
            self.prune(b, number);
        }
        Ok(())
    }

    /// Removes `run`, or the part of it inside of the range, and the runs that follow in the same
    /// table, up to a batch. Answers the address behind.
    fn unmap_some(
        &mut self,
        b: &mut B,
        number: u32,
        run: ItemRun<B>,
        (low, high): (u64, u64),
    ) -> Result<u64, Error<B::Error>> {
        let node = self.node(number);
        let (low, high) = node.entries(low, high);
        let (first, end) = (run.first.max(low), run.end().min(high));
        if first > run.first || end < run.end() {
            self.carve(b, number, run, first, end)?;
            return Ok(self.node(number).address(end));
        }
        let mut batch = [mapping_of(&run); BATCH];
        let (mut count, mut behind) = (0, first);
        let node = self.node_mut(number);
        while let Some(next) = node.items.get(behind).filter(|next| next.end() <= high) {
            if count == BATCH || matches!(next.value, Item::Table { .. }) {
                break;
            }
            batch[count] = mapping_of(&next);
            node.items.remove(next.first);
            (count, behind) = (count + 1, next.end());
        }
        b.delete(&batch[..count]);
        node.rights.clear(first, behind);
        Ok(node.address(behind))
    }

    /// Removes entries `first..end` of a run of pages that is longer.
    pub(crate) fn carve(
        &mut self,
        b: &mut B,
        number: u32,
        run: ItemRun<B>,
        first: u32,
        end: u32,
    ) -> Result<(), Error<B::Error>> {
        let node = self.node_mut(number);
        let Item::Pages { mapping, frame, offset } = run.value else { return Err(Error::Foreign) };
        node.items.reserve(1)?;
        let splits = first > run.first && end < run.end();
        let rest = b.unmap(mapping, first - run.first, end - first, splits);
        let rest = rest.map_err(Error::Backend)?;
        let page = crate::entry_bytes(node.level);
        node.items.remove(run.first);
        if first > run.first {
            node.items.insert(Run { count: first - run.first, ..run });
        }
        if end < run.end() {
            let offset = offset + u64::from(end - run.first) * page;
            let value = Item::Pages { mapping: rest.unwrap_or(mapping), frame, offset };
            node.items.insert(Run { first: end, count: run.end() - end, value });
        }
        node.rights.clear(first, end);
        Ok(())
    }

    /// Notes that all Mappings that reach into `[va, va + bytes)` are gone with all their entries,
    /// because what they mapped is.
    pub fn forget(&mut self, b: &mut B, va: u64, bytes: u64) -> Result<(), Error<B::Error>> {
        let end = self.check(va, bytes)?;
        while let Some((number, run)) = self.next_leaf(ROOT, va, end) {
            b.forget(mapping_of(&run));
            let node = self.node_mut(number);
            node.items.remove(run.first);
            node.rights.clear(run.first, run.end());
            self.prune(b, number);
        }
        Ok(())
    }

    /// The end of a range of whole pages.
    pub(crate) fn check(&self, va: u64, bytes: u64) -> Result<u64, Error<B::Error>> {
        if bytes == 0 || !(va | bytes).is_multiple_of(PageSize::Base.bytes()) {
            return Err(Error::Misaligned);
        }
        va.checked_add(bytes).filter(|&end| end <= self.end()).ok_or(Error::OutOfRange)
    }
}

/// The Mapping behind a run.
pub(crate) fn mapping_of<B: Backend>(run: &ItemRun<B>) -> B::Mapping {
    match run.value {
        Item::Table { mapping, .. }
        | Item::Foreign { mapping, .. }
        | Item::Pages { mapping, .. } => mapping,
    }
}
