//! `mprotect`.

use crate::backend::Backend;
use crate::bits::Bits;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{Error, Prot};

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
            let entry = self.map.part_at(at, end).ok_or(Error::NoMemory)?;
            if prot.has(Prot::WRITE) && entry.flags.has(Flags::NEVER_WRITE) {
                return Err(Error::Access);
            }
            if entry.prot != prot {
                if !self.map.has_room(2)
                    && !self.map.has_room(self.map.splits(entry.start, entry.end))
                {
                    return Err(Error::NoMemory);
                }
                self.map.change(entry.start, entry.end, |entry| entry.prot = prot);
                self.protect_entry(b, &entry, prot);
            }
            at = entry.end;
        }
        Ok(())
    }

    /// Makes the page tables follow. Gained rights may wait for the next fault, lost ones not.
    fn protect_entry(&mut self, b: &mut impl Backend, entry: &Entry, prot: Prot) {
        let only_gains = prot.has(entry.prot) && entry.prot != Prot::NONE;
        let mut at = entry.start;
        while at < entry.end {
            let Some(key) = self.pmap.next_key(at >> 9) else { return };
            at = at.max(key << 9);
            if at >= entry.end {
                return;
            }
            let half = at >> 8;
            let behind = entry.end.min((half + 1) << 8);
            if !(only_gains && self.pmap.is_shared(key)) {
                self.pmap.unshare(b, &mut self.amap, key);
                let base = (half as u32 & 1) * 256;
                let lo = base + (at & 255) as u32;
                let hi = lo + (behind - at) as u32;
                if prot == Prot::NONE {
                    self.pmap.remove(b, key, lo, hi);
                } else {
                    let own = match self.amap.chunk(half) {
                        _ if entry.flags.has(Flags::SHARED) => Bits([u64::MAX; 4]),
                        Some(chunk) => chunk.own(),
                        None => Bits::EMPTY,
                    };
                    self.pmap.protect(b, key, (lo, hi), &own, prot);
                }
            }
            at = behind;
        }
    }
}
