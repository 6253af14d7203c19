//! What is mapped: the shadow page tables with the kernel behind them.

use super::kernel::Kernel;
use super::object::{Access, Fault, View};
use super::{Error, Prot};
use crate::frame::Frame;
use crate::vspace::{R, RW};
use crate::Cap;
use captypes::invocations::{MapFlags, StatusBits};
use captypes::CapAddr;
use pmap::{Arrays, PageSize, Pmap, Translation};

/// A page as the tables have it: the Frame's capability, the offset in it, the rights.
pub type Page = Translation<CapAddr, MapFlags>;

/// The accessed and dirty bit of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// It was used.
    pub accessed: bool,
    /// It was written to.
    pub dirty: bool,
}

/// The page tables of the program, through their shadow. Memory objects map with this; a program
/// that wants to map by hand can too in a region of [`super::Reserved`].
pub struct Pages {
    map: Pmap<Kernel, Arrays>,
    kernel: Kernel,
}

impl Pages {
    pub(super) fn new(root: CapAddr, level: u8) -> Result<Self, Error> {
        Ok(Pages { map: Pmap::new(root, level)?, kernel: Kernel })
    }

    /// Maps `bytes` of `frame` from `offset` on at `va`, in pages of `size`. Nothing may be mapped
    /// there, and [`Prot::NONE`](super::NONE) maps nothing.
    pub fn map(
        &mut self,
        va: u64,
        frame: CapAddr,
        offset: u64,
        bytes: u64,
        prot: Prot,
        size: PageSize,
    ) -> Result<(), Error> {
        if prot == super::NONE {
            return Ok(());
        }
        Ok(self.map.map(&mut self.kernel, va, frame, offset, bytes, prot, size)?)
    }

    /// Maps the same range in the largest pages, up to `size`, that the alignment of its parts in
    /// memory and in the address space allows.
    pub fn map_mixed(
        &mut self,
        va: u64,
        frame: &Frame,
        offset: u64,
        bytes: u64,
        prot: Prot,
        size: PageSize,
    ) -> Result<(), Error> {
        let end = va + bytes;
        let mut at = va;
        while at < end {
            let from = offset + (at - va);
            let (size, until) = stretch(at, end, frame.base() + from, size);
            let part = self.map(at, frame.cap(), from, until - at, prot, size);
            if let Err(error) = part {
                if at > va {
                    self.unmap(va, at - va)?;
                }
                return Err(error);
            }
            at = until;
        }
        Ok(())
    }

    /// Sets the rights of whatever is mapped in a range; without any right, nothing is mapped there
    /// afterwards.
    pub fn protect(&mut self, va: u64, bytes: u64, prot: Prot) -> Result<(), Error> {
        if prot == super::NONE {
            return self.unmap(va, bytes);
        }
        Ok(self.map.protect(&mut self.kernel, va, bytes, prot)?)
    }

    /// Removes whatever is mapped in a range.
    pub fn unmap(&mut self, va: u64, bytes: u64) -> Result<(), Error> {
        Ok(self.map.unmap(&mut self.kernel, va, bytes)?)
    }

    /// Notes that the Mappings that reach into a range are gone, because their Frames are.
    pub fn forget(&mut self, va: u64, bytes: u64) -> Result<(), Error> {
        Ok(self.map.forget(&mut self.kernel, va, bytes)?)
    }

    /// Makes `table`, of `level`, whose entries are somebody else's business, part of the tables.
    pub fn map_table(
        &mut self,
        va: u64,
        table: CapAddr,
        level: u8,
        prot: Prot,
    ) -> Result<(), Error> {
        Ok(self.map.map_table(&mut self.kernel, va, table, level, prot)?)
    }

    /// What is mapped at `va`.
    pub fn lookup(&self, va: u64) -> Option<Page> {
        self.map.lookup(va)
    }

    /// Is nothing mapped in the range?
    pub fn is_free(&self, va: u64, bytes: u64) -> bool {
        self.map.is_free(va, bytes)
    }

    /// Is there nothing left to do about a fault: another thread was faster? What the shadow knows as
    /// mapped may also be gone because its Frame was revoked by its owner; then it is forgotten.
    pub fn is_resolved(&mut self, fault: &Fault) -> Result<bool, Error> {
        let va = fault.address;
        if !self.lookup(va).is_some_and(|page| permits(page.rights, fault.access)) {
            return Ok(false);
        }
        let Some((table, entry)) = self.entry(va) else { return Ok(false) };
        if table.read_entry(entry)? & PRESENT != 0 {
            return Ok(true);
        }
        self.forget(fault.address & !(PageSize::Base.bytes() - 1), PageSize::Base.bytes())?;
        Ok(false)
    }

    /// The table of `level` that covers `va`: to read its status bits in memory
    /// ([`crate::status`]), or to share it.
    pub fn table(&self, va: u64, level: u8) -> Option<CapAddr> {
        self.map.table(va, level)
    }

    /// First address at or behind `va` where something is mapped.
    pub fn next_mapped(&self, va: u64) -> Option<u64> {
        self.map.next_mapped(va)
    }

    /// The status bits of the page at `va`; `None` if there is none.
    pub fn used(&self, va: u64) -> Result<Option<Used>, Error> {
        let Some((table, entry)) = self.entry(va) else { return Ok(None) };
        let bits = table.read_entry(entry)?;
        Ok(Some(Used { accessed: bits & ACCESSED != 0, dirty: bits & DIRTY != 0 }))
    }

    /// Clears status bits of the page at `va`, if there is one.
    pub fn clear_used(&mut self, va: u64, bits: StatusBits) -> Result<(), Error> {
        if let Some((table, entry)) = self.entry(va) {
            table.clear_status(entry, 1, bits)?;
        }
        Ok(())
    }

    /// Maps the page around `va`, which lies in the view, or the largest block around it, up to the
    /// view's page size and `limit`, that fits into the view and has nothing mapped. The object's
    /// offset `first` is the first byte of `frame`, from its byte `skip` on.
    pub fn map_around(
        &mut self,
        view: &View,
        va: u64,
        (frame, skip): (&Frame, u64),
        first: u64,
        limit: PageSize,
    ) -> Result<(), Error> {
        let end = first + (frame.bytes() - skip);
        let (at, size) = self.fit(view, va, frame.base() + skip, (first, end), limit);
        let offset = skip + (view.offset_of(at) - first);
        if !self.is_free(at, size.bytes()) {
            // Mapped already, with fewer rights than the view has.
            return self.protect(at, size.bytes(), view.prot);
        }
        self.map(at, frame.cap(), offset, size.bytes(), view.prot, size)
    }

    /// Address and size of the block for [`Pages::map_around`]: `base` is the physical address of
    /// the object's offset `first`.
    fn fit(
        &self,
        view: &View,
        va: u64,
        base: u64,
        (first, end): (u64, u64),
        limit: PageSize,
    ) -> (u64, PageSize) {
        let most = view.size.min(limit);
        for size in [PageSize::Huge, PageSize::Large] {
            let at = va & !(size.bytes() - 1);
            if size > most || at < view.va || at + size.bytes() > view.end() {
                continue;
            }
            let offset = view.offset_of(at);
            let aligned = offset >= first
                && offset + size.bytes() <= end
                && (base + (offset - first)).is_multiple_of(size.bytes());
            if aligned && self.is_free(at, size.bytes()) {
                return (at, size);
            }
        }
        (va & !(PageSize::Base.bytes() - 1), PageSize::Base)
    }

    /// Tables with the root, and bytes of the shadow.
    pub fn size(&self) -> (usize, usize) {
        (self.map.tables(), self.map.heap_bytes())
    }

    fn entry(&self, va: u64) -> Option<(CapAddr, u32)> {
        self.lookup(va)?;
        let (table, _, entry) = self.map.entry(va)?;
        Some((table, entry))
    }
}

const PRESENT: u64 = 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;

/// Does `prot` allow the access?
pub fn permits(prot: Prot, access: Access) -> bool {
    match access {
        Access::Read => prot.has(R),
        Access::Write => prot.has(RW),
        Access::Execute => prot.has(MapFlags::EXEC),
    }
}

/// The size of the pages with which to map the memory at physical address `memory` at `at`, and how
/// far.
fn stretch(at: u64, end: u64, memory: u64, most: PageSize) -> (PageSize, u64) {
    for (size, smaller) in [(PageSize::Huge, PageSize::Large), (PageSize::Large, PageSize::Base)] {
        let bytes = size.bytes();
        if size > most || !(at ^ memory).is_multiple_of(bytes) {
            continue;
        }
        let border = at.next_multiple_of(bytes);
        if border >= end || end - border < bytes {
            continue;
        }
        if border == at {
            return (size, end & !(bytes - 1));
        }
        // Smaller pages up to where larger ones can begin.
        return stretch(at, border, memory, smaller);
    }
    (PageSize::Base, end)
}
