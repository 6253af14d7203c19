//! `mprotect`.

use crate::amap::Chunk;
use crate::backend::Backend;
use crate::bits::Bits;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{Error, NoMemory, Prot};

/// All pages of a chunk.
const ALL: Bits<4> = Bits([u64::MAX; 4]);

impl Space {
    /// `mprotect`. As in Linux, what lies in front of a hole is changed before it fails.
    pub fn mprotect(
        &mut self,
        b: &mut impl Backend,
        addr: u64,
        len: u64,
        prot: Prot,
    ) -> Result<(), Error> {
        let (start, end) = self.range(addr, len)?;
        if start == end {
            return Ok(());
        }
        self.pmap.drop_condemned(b)?;
        self.mprotect_pages(b, start, end, prot)
    }

    fn mprotect_pages(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
        prot: Prot,
    ) -> Result<(), Error> {
        let mut at = start;
        while at < end {
            let found = self.map.first_from(at).filter(|(_, entry)| entry.start <= at);
            let (place, &Entry { end: behind, prot: before, flags, .. }) =
                found.ok_or(Error::NoMemory)?;
            let behind = behind.min(end);
            if prot.has(Prot::WRITE) && flags.has(Flags::NEVER_WRITE) {
                return Err(Error::Access);
            }
            if before != prot {
                if self.map.cuts_large(at, behind) {
                    return Err(Error::Invalid);
                }
                if !self.map.has_room(2) && !self.map.has_room(self.map.splits(at, behind)) {
                    return Err(Error::NoMemory);
                }
                self.map.change_in(place, at, behind, (prot, flags))?;
                self.protect_range(b, (at, behind), flags, (before, prot))?;
                if before == Prot::NONE && prot.has(Prot::WRITE) {
                    self.made_usable(b, at);
                }
            }
            at = behind;
        }
        Ok(())
    }

    /// Makes the page tables follow. Gained rights may wait for the next fault, lost ones not.
    ///
    /// # Errors
    ///
    /// The backend refuses: some regions are condemned, all others have followed.
    pub(crate) fn protect_range(
        &mut self,
        b: &mut impl Backend,
        (start, end): (u64, u64),
        flags: Flags,
        (before, prot): (Prot, Prot),
    ) -> Result<(), NoMemory> {
        let only_gains = prot.has(before) && before != Prot::NONE;
        let mut result = Ok(());
        let mut at = start;
        while at < end {
            let Some(key) = self.pmap.next_key(at >> 9) else { break };
            at = at.max(key << 9);
            if at >= end {
                break;
            }
            let behind = end.min(((at >> 8) + 1) << 8);
            // Nothing was shown there: who can be seen in the same region keeps its entry.
            let is_beside = before == Prot::NONE && self.pmap.is_whole(key);
            if !(only_gains && self.pmap.is_shared(key) || is_beside) {
                result = result.and(self.protect_half(b, (at, behind), flags, prot));
            }
            at = behind;
        }
        result
    }

    /// The same for pages `at..behind` of one half of a region.
    #[inline]
    fn protect_half(
        &mut self,
        b: &mut impl Backend,
        (at, behind): (u64, u64),
        flags: Flags,
        prot: Prot,
    ) -> Result<(), NoMemory> {
        let (half, key) = (at >> 8, at >> 9);
        self.pmap.unshare(b, &mut self.amap, key)?;
        let base = (half as u32 & 1) * 256;
        let lo = base + (at & 255) as u32;
        let hi = lo + (behind - at) as u32;
        if prot == Prot::NONE {
            return self.pmap.remove(b, &self.amap, key, lo, hi);
        }
        let of_chunk;
        let own = if flags.has_any(Flags::DIRECT) || !prot.has(Prot::WRITE) {
            // Nothing depends on it.
            &ALL
        } else {
            of_chunk = self.amap.chunk(half).map_or(Bits::EMPTY, Chunk::own);
            &of_chunk
        };
        self.pmap.protect(b, (&self.amap, key), (lo, hi), own, prot)
    }
}
