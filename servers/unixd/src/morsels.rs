//! Contents of files: objects of a Pool.

use crate::caps::Slots;
use crate::swap;
use crate::volatile::freed;
use abi::layout::PAGE;
use alloc::vec;
use captypes::invocations::MorselFacts;
use libos::morsel::{MorselCap, PoolCap};
use libos::{domain, invoke, op, Cap, CapAddr, Rights, Status};
use unixproto::Errno;

/// Order of an object for a small file that survives: pages of one table.
const FIRST_ORDER: u32 = 1;
/// Order of one for a file that does not: a page, without any table.
const LEAST_ORDER: u32 = 0;
/// The greatest order.
const LAST_ORDER: u32 = 4;
/// Pages of a table.
const ENTRIES: u64 = 512;
/// Most pages that one invocation makes.
const STEP: u64 = 64;
/// Everything, the right to destroy among it.
const ALL: Rights = Rights::READ.or(Rights::WRITE).or(Rights::EXEC).or(Rights::REVOKE);

/// What an error of an operation on an object means to a process.
pub fn errno_of(status: Status) -> Errno {
    match status {
        Status::NoMemory => Errno::ENOSPC,
        Status::NoSlot => Errno::ENOMEM,
        Status::OutOfRange => Errno::ENXIO,
        _ => Errno::EIO,
    }
}

/// A Morsel with all rights: the contents of a file.
#[derive(Debug)]
pub struct Morsel {
    slot: Slots,
    /// The number of its record.
    record: u32,
    order: u32,
    fate: Fate,
}

/// What becomes of an object when nobody here has it.
#[derive(Debug)]
enum Fate {
    /// It stays.
    Stays,
    /// It goes.
    Goes {
        /// Its size.
        size: u64,
        /// Its limit, never less than its size, and mostly a whole number of pages: so it is not set for every byte.
        limit: u64,
        /// All pages before this byte are there, and its own.
        full: u64,
        /// Whoever has it may have raised the limit.
        rises: bool,
    },
}

/// Bytes that are mapped here, and that only the kernel reads: others may change them meanwhile.
#[derive(Clone, Copy)]
pub struct Mapped {
    pub from: u64,
    pub bytes: u64,
}

impl From<&[u8]> for Mapped {
    fn from(data: &[u8]) -> Mapped {
        Mapped { from: data.as_ptr() as u64, bytes: data.len() as u64 }
    }
}

impl Drop for Morsel {
    fn drop(&mut self) {
        if let Fate::Goes { size, .. } = self.fate {
            freed(size);
            let slot = core::mem::replace(&mut self.slot, Slots::none());
            swap::gone(self.record);
            match destroy_all(slot.first()) {
                Ok(()) => slot.emptied(),
                // Its memory is lost as long as the pool is used.
                Err(status) => libos::log!("unixd: contents of a file stay: {status:?}"),
            }
        }
    }
}

/// Destroys an object, whoever has it mapped, and empties the slot.
fn destroy_all(slot: CapAddr) -> Result<(), Status> {
    match slot.destroy() {
        Err(Status::HasDescendants) => {
            slot.revoke()?;
            slot.destroy()
        }
        destroyed => destroyed,
    }
}

impl Morsel {
    /// An object without a page.
    pub fn create(pool: CapAddr) -> Result<(u32, Morsel), Errno> {
        let slot = Slots::new(1)?;
        let number = pool.create_morsel(FIRST_ORDER, slot.first()).map_err(errno_of)?;
        // It is as large as it can be. Before any file has it, it must be empty.
        if let Err(status) = slot.first().set_limit(0) {
            drop(slot);
            // What is left of it belongs to no file: the next start destroys it.
            let _ = destroy(pool, number);
            return Err(errno_of(status));
        }
        let morsel = Morsel { slot, record: number, order: FIRST_ORDER, fate: Fate::Stays };
        Ok((number, morsel))
    }

    /// An object of so many zeros that goes when this is dropped, with some of its pages, if so many bytes are needed at once.
    pub fn volatile(pool: CapAddr, bytes: u64, needed: u64) -> Result<Morsel, Errno> {
        let slot = Slots::new(1)?;
        let order = (LEAST_ORDER..LAST_ORDER).find(|order| bytes <= most(*order));
        let order = order.unwrap_or(LAST_ORDER);
        let (limit, pages) = (bytes.next_multiple_of(PAGE), needed.div_ceil(PAGE));
        let made = pool.make_morsel(order, limit, pages, slot.first()).map_err(errno_of)?;
        // An object of one page has it from the beginning.
        let pages = if order == LEAST_ORDER { 1 } else { made.pages };
        let fate = Fate::Goes { size: bytes, limit, full: pages * PAGE, rises: false };
        Ok(Morsel { slot, record: made.record, order, fate })
    }

    /// Does it go when it is dropped?
    pub fn is_volatile(&self) -> bool {
        matches!(self.fate, Fate::Goes { .. })
    }

    /// The object of a record.
    pub fn open(pool: CapAddr, number: u32) -> Result<Morsel, Errno> {
        let slot = Slots::new(1)?;
        pool.open_morsel(number, ALL, slot.first()).map_err(errno_of)?;
        let order = slot.first().morsel_info().map_err(errno_of)?.order;
        Ok(Morsel { slot, record: number, order, fate: Fate::Stays })
    }

    /// Another object with the same contents, and its number.
    pub fn snapshot(&mut self) -> Result<(u32, Morsel), Errno> {
        let slot = Slots::new(1)?;
        let number = self.cap().snapshot(slot.first()).map_err(errno_of)?;
        let fate = match &mut self.fate {
            Fate::Stays => Fate::Stays,
            Fate::Goes { size, limit, full, rises } => {
                // Who writes first copies.
                *full = 0;
                Fate::Goes { size: *size, limit: *limit, full: 0, rises: *rises }
            }
        };
        Ok((number, Morsel { slot, record: number, order: self.order, fate }))
    }

    /// Are its pages to be large?
    pub fn is_large(&self) -> bool {
        self.cap().morsel_info().is_ok_and(|facts| facts.flags & MorselFacts::LARGE != 0)
    }

    /// The number of its record in its pool.
    pub fn record(&self) -> u32 {
        self.record
    }

    /// The capability.
    pub fn cap(&self) -> CapAddr {
        self.slot.first()
    }

    /// Bytes that it can have without growing.
    pub fn most(&self) -> u64 {
        most(self.order)
    }

    /// Sets its size, for which there may have to be memory in the pool. Returns `true` if it is another object then, and the one
    /// that was mapped is gone.
    pub fn resize_in(&mut self, pool: CapAddr, bytes: u64) -> Result<bool, Errno> {
        let outgrown = self.order == LEAST_ORDER && bytes > self.most();
        match self.fate {
            Fate::Goes { size, .. } if outgrown => {
                let new = Morsel::volatile(pool, bytes, PAGE)?;
                if !new.has_page() {
                    return Err(Errno::ENOSPC);
                }
                // Nobody stores to it any more.
                self.cap().revoke().map_err(errno_of)?;
                let mut page = vec![0; size as usize];
                self.read(0, &mut page)?;
                new.write(0, &page)?;
                *self = new;
                Ok(true)
            }
            _ => self.resize(bytes).map(|()| false),
        }
    }

    /// Is its first page there?
    fn has_page(&self) -> bool {
        matches!(self.fate, Fate::Goes { full: PAGE.., .. })
    }

    /// Sets its size.
    pub fn resize(&mut self, bytes: u64) -> Result<(), Errno> {
        let mut new = bytes;
        if let Fate::Goes { size, limit, rises, .. } = &mut self.fate {
            if bytes >= *size {
                if bytes <= *limit && !*rises {
                    *size = bytes;
                    return Ok(());
                }
                new = bytes.next_multiple_of(PAGE);
            }
        }
        while self.most() < new {
            if self.order == LAST_ORDER {
                return Err(Errno::EFBIG);
            }
            self.cap().grow().map_err(errno_of)?;
            self.order += 1;
        }
        loop {
            match self.cap().set_limit(new) {
                // A page in which it is or was is to be cleared in part.
                Err(Status::Out) => {
                    let old = self.cap().morsel_info().map_err(errno_of)?.limit;
                    self.fetch(&[old, new])?;
                }
                done => break done.map_err(errno_of)?,
            }
        }
        if let Fate::Goes { size, limit, full, rises } = &mut self.fate {
            freed(size.saturating_sub(bytes));
            (*size, *limit, *full) = (bytes, new, (*full).min(bytes.next_multiple_of(PAGE)));
            *rises = false;
        }
        Ok(())
    }

    /// Bytes that it has, also if others have [raised](Self::allow_raising) that.
    pub fn limit(&self) -> Result<u64, Errno> {
        self.cap().morsel_info().map(|facts| facts.limit).map_err(errno_of)
    }

    /// Whoever may write to it may raise its size by so many bytes. Answers up to which byte.
    pub fn allow_raising(&mut self, bytes: u64) -> Result<u64, Errno> {
        let Fate::Goes { rises, .. } = &mut self.fate else { return Err(Errno::EINVAL) };
        *rises = true;
        self.cap().allow_raising(bytes / PAGE).map_err(errno_of)
    }

    /// Makes pages, as far as there is memory. Answers the byte up to which they are there.
    pub fn populate(&mut self, from: u64, to: u64) -> Result<u64, Errno> {
        if let Fate::Goes { full, .. } = self.fate {
            if to <= full {
                return Ok(to);
            }
        }
        let done = self.make_pages(from, to)?;
        if let Fate::Goes { full, .. } = &mut self.fate {
            if from <= *full {
                *full = done.max(*full);
            }
        }
        Ok(done)
    }

    /// Makes it larger, with the pages from a byte on, if one invocation does both: then it is `true`. If not, both are to be done one after the other, as if this had not been tried.
    pub fn extend(&mut self, bytes: u64, from: u64) -> bool {
        let new = bytes.next_multiple_of(PAGE);
        let (first, end) = (from / PAGE, new / PAGE);
        let (is_one, most) = (end.saturating_sub(first) <= STEP, self.most());
        let Fate::Goes { size, limit, full, rises: false } = &mut self.fate else { return false };
        if new <= *limit || new > most || !is_one {
            return false;
        }
        let made = invoke(self.slot.first(), op::ExtendMorsel { bytes: new, first });
        if !made.is_ok_and(|next| next.value == end) {
            return false;
        }
        (*size, *limit) = (bytes, new);
        if from <= *full {
            *full = new.max(*full);
        }
        true
    }

    fn make_pages(&self, from: u64, to: u64) -> Result<u64, Errno> {
        let (mut at, end, mut step) = (from / PAGE, to.div_ceil(PAGE), STEP);
        while at < end {
            let (first, count) = (at, step.min(end - at));
            match invoke(self.cap(), op::PopulateMorsel { first, count, large: false }) {
                Ok(next) => at = next.value,
                Err(Status::Again) => {}
                Err(Status::Out) => self.fetch(&[first * PAGE])?,
                // Of several some may be there.
                Err(Status::NoMemory) if step > 1 => step = 1,
                Err(Status::NoMemory) => break,
                Err(status) => return Err(errno_of(status)),
            }
        }
        Ok(at.min(end) * PAGE)
    }

    /// Takes pages away.
    pub fn discard(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        if let Fate::Goes { full, .. } = &mut self.fate {
            *full = from.min(*full);
            freed(to - from);
        }
        self.cap().discard_pages(from / PAGE, (to - from) / PAGE).map_err(errno_of)
    }

    /// Of the pages between two bytes those that are there, from the first on up to a hole.
    pub fn next_data(&self, from: u64, to: u64) -> Result<Option<(u64, u64)>, Errno> {
        let (first, end) = (from / PAGE, to.div_ceil(PAGE));
        let there = self.cap().next_page(first, end.saturating_sub(first)).map_err(errno_of)?;
        let Some(there) = there else { return Ok(None) };
        let hole = self.cap().next_hole(there, end - there).map_err(errno_of)?;
        Ok(Some((there * PAGE, hole.unwrap_or(end) * PAGE)))
    }

    /// Bytes of the pages that are there of so many bytes.
    pub fn allocated(&self, bytes: u64) -> Result<u64, Errno> {
        match self.is_full(bytes) {
            true => Ok(bytes.next_multiple_of(PAGE)),
            false => Ok(self.cap().count_pages(0, bytes.div_ceil(PAGE)).map_err(errno_of)? * PAGE),
        }
    }

    /// Are all pages of its first bytes there, or have been? None of them is taken away but by whoever asks for that here.
    pub fn is_full(&self, bytes: u64) -> bool {
        matches!(self.fate, Fate::Goes { full, .. } if bytes <= full)
    }

    /// How many of its first pages have left memory.
    pub fn out(&self, pages: u64) -> u64 {
        self.cap().survey_pages(0, pages).map_or(0, |seen| seen.out)
    }

    /// Clears bytes inside a page. One that is missing, or is cleared there already, stays as it is.
    pub fn clear(&self, from: u64, to: u64) -> Result<(), Errno> {
        let mut bytes = vec![0; (to - from) as usize];
        self.read(from, &mut bytes)?;
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        bytes.fill(0);
        self.write(from, &bytes)
    }

    /// Does something for which the pages with some bytes must be in memory.
    fn present<R>(&self, bytes: &[u64], work: impl Fn() -> Result<R, Status>) -> Result<R, Status> {
        loop {
            match work() {
                Err(Status::Out) => self.fetch(bytes).map_err(|_| Status::Invalid)?,
                done => return done,
            }
        }
    }

    /// Brings in pages with some bytes, of which at least one has left memory.
    #[cold]
    fn fetch(&self, bytes: &[u64]) -> Result<(), Errno> {
        let mut fetched = Err(Errno::EIO);
        for &byte in bytes {
            if swap::fetch(self.record, byte / PAGE)? {
                fetched = Ok(());
            }
        }
        fetched
    }

    /// Copies bytes into it.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.write_mapped(offset, data.into())
    }

    /// The same with what others may change meanwhile.
    pub fn write_mapped(&self, offset: u64, data: Mapped) -> Result<(), Errno> {
        let mut done = 0;
        while done < data.bytes {
            let at = offset + done;
            let copied = self.present(&[at], || {
                self.cap().write_morsel(at, data.from + done, data.bytes - done)
            });
            match copied.map_err(errno_of)?.bytes {
                0 => return Err(Errno::EIO),
                bytes => done += bytes,
            }
        }
        Ok(())
    }

    /// Copies bytes out of it.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < data.len() {
            let rest = &mut data[done..];
            let (to, bytes) = (rest.as_mut_ptr() as u64, rest.len() as u64);
            let at = offset + done as u64;
            let copied = self.present(&[at], || self.cap().read_morsel(at, to, bytes));
            match copied.map_err(errno_of)?.bytes {
                0 => return Err(Errno::EIO),
                bytes => done += bytes as usize,
            }
        }
        Ok(())
    }

    /// Returns when bytes survive that were stored before.
    pub fn write_back(&self, from: u64, to: u64) -> Result<(), Errno> {
        let first = from / PAGE;
        self.cap().write_back(first, to.div_ceil(PAGE) - first).map_err(errno_of)
    }
}

/// Bytes that an object of an order can have.
fn most(order: u32) -> u64 {
    PAGE * ENTRIES.pow(order)
}

/// Destroys the object of a record, whoever has it mapped.
pub fn destroy(pool: CapAddr, number: u32) -> Result<(), Status> {
    let slot = domain::with(|domain| domain.slot())?;
    let destroyed = pool.open_morsel(number, ALL, slot).and_then(|()| {
        slot.revoke()?;
        slot.destroy()
    });
    if destroyed.is_err() {
        slot.discard();
    }
    let freed = domain::with(|domain| {
        domain.slots.free(slot);
        Ok(())
    });
    destroyed.and(freed)
}
