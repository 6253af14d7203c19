//! What the table of one region holds.

use crate::amap::Amap;
use crate::backend::{Backend, CNode, Table};
use crate::bits::Bits;
use crate::pmap::HALF;
use crate::types::{NoMemory, Prot, Refused};

/// What a table holds.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The table.
    pub table: Table,
    /// CNodes with the Mappings of the halves, made when first needed.
    pub nodes: [Option<CNode>; 2],
    /// Entries that are present.
    pub present: Bits<8>,
    /// Entries where a Mapping begins.
    pub(crate) head: Bits<8>,
    /// Entries that show the page of zeros: nobody has written to these pages. They have no Mapping,
    /// and do not count as present.
    zeros: Bits<8>,
    /// There may be such entries. Mostly there are none, and nobody looks for them.
    shows_zeros: bool,
    /// Entries that may be writable. Exact but for anons that are not owned for certain.
    pub(crate) writable: Bits<8>,
    /// Perhaps another process maps the table too: it must not be changed.
    pub shared: bool,
    /// The child of a fork that is going on is not to have the table.
    pub kept: bool,
    /// Entries are not what is noted here, and the table could not be dropped. It is `shared`, too, so
    /// that whoever means to change it must look.
    pub(crate) condemned: bool,
    /// Of each half, whether Mappings of its entries may be in pairs.
    pub(crate) paired: [bool; 2],
}

impl Region {
    pub(crate) fn new(table: Table) -> Self {
        let none = Bits::EMPTY;
        let (nodes, shared, kept) = ([None; 2], false, false);
        Region {
            table,
            nodes,
            present: none,
            head: none,
            zeros: none,
            shows_zeros: false,
            writable: none,
            shared,
            kept,
            condemned: false,
            paired: [false; 2],
        }
    }
    /// First entry behind the Mapping that begins at `head`.
    pub(crate) fn mapping_end(&self, head: u32) -> u32 {
        let next = if head + 1 < 512 { self.head.next_set(head + 1) } else { 512 };
        next.min(self.present.next_clear(head)).min((head / HALF + 1) * HALF)
    }
    /// Is the entry present, with a Mapping of its own?
    pub(crate) fn is_alone(&self, at: u32) -> bool {
        let end = at + 1;
        let next_is_apart =
            end.is_multiple_of(HALF) || self.head.get(end) || !self.present.get(end);
        self.present.get(at) && self.head.get(at) && next_is_apart
    }
    /// First entry of the Mapping that covers the present entry `at`.
    pub(crate) fn mapping_start(&self, at: u32) -> u32 {
        self.head.prev_set(at).unwrap_or(at)
    }
    #[inline]
    pub(crate) fn node(&mut self, b: &mut impl Backend, half: u32) -> Result<CNode, NoMemory> {
        match self.nodes[half as usize % 2] {
            Some(node) => Ok(node),
            None => {
                let node = b.cnode_new()?;
                self.nodes[half as usize % 2] = Some(node);
                Ok(node)
            }
        }
    }
    /// The slot of the Mapping that begins at the present entry `at`.
    #[inline]
    pub(crate) fn mapping(&self, amap: &Amap, key: u64, at: u32) -> Option<(CNode, u32)> {
        let (half, slot) = (at / HALF, at % HALF);
        if self.paired[half as usize % 2] {
            if let Some(mapping) = amap.mapping(key * 2 + half as u64, slot) {
                return Some(mapping);
            }
        }
        Some((self.nodes[half as usize % 2]?, slot))
    }
    /// Those of the anons of this half's chunk that are in pairs, if any Mapping may be.
    #[inline]
    fn paired_anons<'a>(&self, amap: &'a Amap, chunk: u64) -> Option<&'a Bits<4>> {
        let chunk = self.paired[(chunk % 2) as usize].then(|| amap.sparse(chunk))??;
        Some(&chunk.filled)
    }
    /// Does another process hold the table, or still one of the CNodes? It gives them up one after
    /// the other, and may be interrupted in between.
    pub(crate) fn is_held_by_another(&self, b: &mut impl Backend) -> bool {
        b.table_shared(self.table)
            || self.nodes.into_iter().flatten().any(|node| b.cnode_shared(node))
    }
    /// Gives up the table and the CNodes.
    ///
    /// # Errors
    ///
    /// The table is still there; nothing has changed.
    pub(crate) fn drop_all(&self, b: &mut impl Backend, key: u64) -> Result<(), Refused> {
        b.table_drop(key, self.table)?;
        self.nodes.into_iter().flatten().for_each(|node| drop_or_lose(b, node));
        Ok(())
    }
    pub(crate) fn note(&mut self, lo: u32, hi: u32, prot: Prot) {
        self.present.set_range(lo, hi);
        if self.shows_zeros {
            self.zeros.clear_range(lo, hi);
        }
        self.set_writable(lo, hi, prot);
    }
    /// Notes that `lo..hi` show the page of zeros.
    pub(crate) fn note_zeros(&mut self, lo: u32, hi: u32) {
        self.shows_zeros = true;
        self.zeros.set_range(lo, hi);
    }
    /// Returns `true` if an entry of `lo..hi` shows the page of zeros.
    #[inline]
    pub(crate) fn shows_zeros(&self, lo: u32, hi: u32) -> bool {
        self.shows_zeros && self.zeros.any_within(lo, hi)
    }
    pub(crate) fn set_writable(&mut self, lo: u32, hi: u32, prot: Prot) {
        if prot.has(Prot::WRITE) {
            self.writable.set_range(lo, hi);
        } else {
            self.writable.clear_range(lo, hi);
        }
    }
    /// Entries of a half that may be writable.
    pub(crate) fn writable_half(&self, half: u32) -> Bits<4> {
        let words = &self.writable.0[half as usize * 4..];
        Bits([words[0], words[1], words[2], words[3]])
    }
    /// Entries of a half that are present.
    pub(crate) fn present_half(&self, half: u32) -> Bits<4> {
        let words = &self.present.0[half as usize * 4..];
        Bits([words[0], words[1], words[2], words[3]])
    }
    /// Entries that may be writable, and have an anon.
    pub(crate) fn writable_anons(&self, half: u32, filled: &Bits<4>) -> Bits<4> {
        self.writable_half(half).and(filled)
    }
    /// Takes the page of zeros away from `lo..hi`.
    #[inline]
    pub(crate) fn hide_zeros(
        &mut self,
        b: &mut impl Backend,
        lo: u32,
        hi: u32,
    ) -> Result<(), Refused> {
        match self.shows_zeros {
            true => self.hide_shown_zeros(b, lo, hi),
            false => Ok(()),
        }
    }
    #[cold]
    #[inline(never)]
    fn hide_shown_zeros(&mut self, b: &mut impl Backend, lo: u32, hi: u32) -> Result<(), Refused> {
        if self.zeros.any_within(lo, hi) {
            b.zeros_hide(self.table, lo, hi - lo)?;
            self.zeros.clear_range(lo, hi);
        }
        self.shows_zeros = !self.zeros.is_empty();
        Ok(())
    }
    /// Removes all entries, which are of no anons in pairs, or of such as are gone.
    pub(crate) fn empty(&mut self, b: &mut impl Backend) -> Result<(), Refused> {
        self.hide_zeros(b, 0, 2 * HALF)?;
        for half in 0..2 {
            let heads = self.head.within(half * HALF, (half + 1) * HALF);
            let (Some(node), Some((lo, hi))) = (self.nodes[half as usize], heads.span()) else {
                continue;
            };
            b.slots_drop(node, lo % HALF, hi - lo)?;
        }
        self.forget(0, 2 * HALF);
        Ok(())
    }
    /// Notes that nobody knows what the table holds.
    pub(crate) fn condemn(&mut self) {
        self.forget(0, 2 * HALF);
        (self.zeros, self.shows_zeros) = (Bits::EMPTY, false);
        (self.shared, self.condemned) = (true, true);
    }
    pub(crate) fn forget(&mut self, lo: u32, hi: u32) {
        self.present.clear_range(lo, hi);
        self.head.clear_range(lo, hi);
        self.writable.clear_range(lo, hi);
    }
}

impl Region {
    /// Sets the rights of entries `lo..hi`, which are present, in one half.
    pub(crate) fn protect_run(
        &mut self,
        b: &mut impl Backend,
        (amap, key): (&Amap, u64),
        (lo, hi): (u32, u32),
        prot: Prot,
    ) -> Result<(), Refused> {
        self.set_writable(lo, hi, prot);
        let (half, chunk) = (lo / HALF * HALF, key * 2 + (lo / HALF) as u64);
        let Some(paired) = self.paired_anons(amap, chunk) else {
            return self.protect_unpaired(b, lo, hi, prot);
        };
        let mut at = lo;
        while at < hi {
            if !paired.get(at % HALF) {
                let stop = hi.min(half + paired.next_set(at % HALF));
                self.protect_unpaired(b, at, stop, prot)?;
                at = stop;
                continue;
            }
            let (place, count) = amap.run(chunk, at % HALF, hi - half).ok_or(Refused)?;
            if let Some((node, slot)) = place.mapping() {
                b.protect(node, slot, count, prot)?;
            }
            at += count;
        }
        Ok(())
    }

    /// The same, if none of the Mappings is in a pair.
    fn protect_unpaired(
        &mut self,
        b: &mut impl Backend,
        lo: u32,
        hi: u32,
        prot: Prot,
    ) -> Result<(), Refused> {
        let half = lo / HALF;
        let node = self.nodes[half as usize % 2].ok_or(Refused)?;
        let mut at = lo;
        while at < hi {
            let head = self.mapping_start(at);
            let end = self.mapping_end(head);
            if head < at || end > hi {
                let stop = end.min(hi);
                b.protect_part((node, head % HALF), at - head, stop - at, prot)?;
                at = stop;
                continue;
            }
            let mut stop = hi;
            if hi < (half + 1) * HALF && self.present.get(hi) && !self.head.get(hi) {
                stop = self.mapping_start(hi);
            }
            b.protect(node, at % HALF, stop - at, prot)?;
            at = stop;
        }
        Ok(())
    }

    /// Removes entries `lo..hi`.
    pub(crate) fn remove(
        &mut self,
        b: &mut impl Backend,
        (amap, key): (&Amap, u64),
        (lo, hi): (u32, u32),
    ) -> Result<(), Refused> {
        self.hide_zeros(b, lo, hi)?;
        let mut at = self.present.next_set(lo);
        while at < hi {
            let half = at / HALF * HALF;
            let until = hi.min(half + HALF);
            let paired = self.paired_anons(amap, key * 2 + (at / HALF) as u64);
            let stop = match paired {
                Some(paired) if paired.get(at % HALF) => {
                    self.remove_pairs(b, (amap, key), (at, until))
                }
                Some(paired) => {
                    let until = until.min(half + paired.next_set(at % HALF));
                    self.remove_mappings(b, at, until)
                }
                None => self.remove_mappings(b, at, until),
            };
            let stop = stop?;
            self.forget(at, stop);
            at = self.present.next_set(stop);
        }
        Ok(())
    }

    /// Removes the Mappings of some of entries `at..until` of a half, of which the first is present,
    /// and its Mapping in a pair. Answers where it stopped.
    fn remove_pairs(
        &self,
        b: &mut impl Backend,
        (amap, key): (&Amap, u64),
        (at, until): (u32, u32),
    ) -> Result<u32, Refused> {
        let half = at / HALF;
        let until = self.present.next_clear(at).min(until) - half * HALF;
        let run = amap.run(key * 2 + half as u64, at % HALF, until);
        let (place, count) = run.ok_or(Refused)?;
        let (node, slot) = place.mapping().ok_or(Refused)?;
        b.slots_drop(node, slot, count)?;
        Ok(at + count)
    }

    /// The same if none of these Mappings is in a pair.
    fn remove_mappings(
        &mut self,
        b: &mut impl Backend,
        at: u32,
        until: u32,
    ) -> Result<u32, Refused> {
        let half = at / HALF;
        let node = self.nodes[half as usize % 2].ok_or(Refused)?;
        let head = self.mapping_start(at);
        let end = self.mapping_end(head);
        if head < at || end > until {
            let stop = end.min(until);
            b.unmap_part((node, head % HALF), at - head, stop - at, end - head)?;
            if stop < end {
                self.head.set(stop);
            }
            return Ok(stop);
        }
        // Whole Mappings up to `until`, or to one that goes on behind it.
        let mut stop = until;
        if until < (half + 1) * HALF && self.present.get(until) && !self.head.get(until) {
            stop = self.mapping_start(until);
        }
        b.slots_drop(node, at % HALF, stop - at)?;
        Ok(stop)
    }
}

/// Gives up a CNode that nothing leads to any more. If the kernel refuses, it is lost with its contents, and its
/// number is not used again: that costs memory, and nobody can reach what it holds.
pub(crate) fn drop_or_lose(b: &mut impl Backend, node: CNode) {
    let _ = b.cnode_drop(node);
}
