//! `madvise`.

use crate::backend::Backend;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{Access, Error, FaultError, Prot, PAGE, REGION_PAGES};

/// Advice that does something or is at least accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Accepted, without effect.
    Nothing,
    /// The same, but noted for the entries on Linux: `MADV_RANDOM`, `MADV_SEQUENTIAL`, `MADV_DONTDUMP`.
    Note,
    /// `MADV_COLD`: the same.
    Age,
    /// `MADV_PAGEOUT`: pages leave memory, if they can.
    PageOut,
    /// `MADV_DONTNEED`, `MADV_DONTNEED_LOCKED`.
    DontNeed {
        /// Locked pages too.
        locked: bool,
    },
    /// `MADV_FREE`.
    Free,
    /// `MADV_DONTFORK` or `MADV_DOFORK`.
    Fork(bool),
    /// `MADV_WIPEONFORK` or `MADV_KEEPONFORK`.
    Wipe(bool),
    /// `MADV_HUGEPAGE` or `MADV_NOHUGEPAGE`: what shared objects are to consist of.
    Large(bool),
    /// `MADV_REMOVE`.
    Remove,
    /// `MADV_POPULATE_READ` or `MADV_POPULATE_WRITE`.
    Populate(Access),
}

impl Advice {
    /// The advice with this number on Linux; `None` for `EINVAL`.
    pub const fn from_number(number: u64) -> Option<Advice> {
        Some(match number {
            // NORMAL, WILLNEED, DODUMP
            0 | 3 | 17 => Advice::Nothing,
            1 | 2 | 16 => Advice::Note,
            20 => Advice::Age,
            21 => Advice::PageOut,
            14 => Advice::Large(true),
            15 => Advice::Large(false),
            4 => Advice::DontNeed { locked: false },
            24 => Advice::DontNeed { locked: true },
            8 => Advice::Free,
            9 => Advice::Remove,
            10 => Advice::Fork(false),
            11 => Advice::Fork(true),
            18 => Advice::Wipe(true),
            19 => Advice::Wipe(false),
            22 => Advice::Populate(Access::Read),
            23 => Advice::Populate(Access::Write),
            _ => return None,
        })
    }
}

impl Space {
    /// `madvise`. As in Linux, holes are passed over, and reported at the end.
    pub fn madvise(
        &mut self,
        b: &mut impl Backend,
        addr: u64,
        len: u64,
        advice: Advice,
    ) -> Result<(), Error> {
        let (start, end) = self.range(addr, len).map_err(|_| Error::Invalid)?;
        if start == end {
            return Ok(());
        }
        if let Advice::Populate(access) = advice {
            return self.populate(b, start, end, access);
        }
        let mut hole = false;
        let mut at = start;
        while at < end {
            let Some(entry) = self.map.within(at, end).next() else {
                hole = true;
                break;
            };
            hole |= entry.start > at;
            self.advise(b, &entry, advice)?;
            at = entry.end;
        }
        if hole {
            Err(Error::NoMemory)
        } else {
            Ok(())
        }
    }

    fn advise(&mut self, b: &mut impl Backend, entry: &Entry, advice: Advice) -> Result<(), Error> {
        if entry.flags.has(Flags::LARGE_PAGES) {
            return self.advise_large(b, entry, advice);
        }
        let private_anonymous = entry.is_private_anonymous();
        let set = |entry: &mut Entry, flag: Flags, on: bool| {
            entry.flags = if on { entry.flags.or(flag) } else { entry.flags.without(flag) };
        };
        match advice {
            Advice::Nothing | Advice::Note | Advice::Age | Advice::Populate(_) => {}
            Advice::PageOut => {
                if entry.flags.has(Flags::LOCKED) {
                    return Err(Error::Invalid);
                }
                if let (Some(object), true) = (entry.object, entry.is_direct()) {
                    b.object_page_out(object, entry.object_page(entry.start), entry.pages());
                } else if b.pages_can_leave() {
                    self.page_out_aside(b, entry.start, entry.end);
                }
            }
            Advice::Large(large) => {
                self.map.change(entry.start, entry.end, |e| {
                    set(e, Flags::WANTS_LARGE, large);
                    set(e, Flags::WANTS_SMALL, !large);
                })?;
                if let (Some(object), true) = (entry.object, entry.is_direct()) {
                    b.object_advise(object, large);
                }
            }
            Advice::DontNeed { locked } => {
                if entry.flags.has(Flags::LOCKED) && !locked {
                    return Err(Error::Invalid);
                }
                self.discard_entry(b, entry)?;
            }
            Advice::Remove => self.remove_of_object(b, entry)?,
            Advice::Free if !private_anonymous => return Err(Error::Invalid),
            Advice::Free => self.discard_entry(b, entry)?,
            Advice::Wipe(true) if !private_anonymous => return Err(Error::Invalid),
            Advice::Wipe(on) => {
                self.map.change(entry.start, entry.end, |e| set(e, Flags::WIPE_ON_FORK, on))?;
            }
            Advice::Fork(fork) => {
                self.map.change(entry.start, entry.end, |e| set(e, Flags::DONT_FORK, !fork))?;
            }
        }
        Ok(())
    }

    /// Advice about memory that was asked for in large pages.
    fn advise_large(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        advice: Advice,
    ) -> Result<(), Error> {
        match advice {
            Advice::Nothing | Advice::Large(_) | Advice::Populate(_) => Ok(()),
            Advice::Free | Advice::Age | Advice::PageOut | Advice::Wipe(true) => {
                Err(Error::Invalid)
            }
            // Up to a page that is not meant as a whole.
            Advice::DontNeed { .. } if !entry.start.is_multiple_of(REGION_PAGES) => {
                Err(Error::Invalid)
            }
            Advice::DontNeed { .. } => {
                let end = entry.end / REGION_PAGES * REGION_PAGES;
                Ok(self.discard(b, entry.start, end, entry.is_pure_anonymous())?)
            }
            Advice::Remove if entry.flags.has(Flags::SHARED) => self.remove_of_object(b, entry),
            Advice::Remove => Err(Error::Access),
            Advice::Note | Advice::Fork(_) | Advice::Wipe(false) if entry.cuts_large() => {
                Err(Error::Invalid)
            }
            Advice::Note | Advice::Wipe(false) => Ok(()),
            Advice::Fork(fork) => {
                let set = |flags: Flags| match fork {
                    true => flags.without(Flags::DONT_FORK),
                    false => flags.or(Flags::DONT_FORK),
                };
                self.map.change(entry.start, entry.end, |e| e.flags = set(e.flags))?;
                Ok(())
            }
        }
    }

    /// A part of an object becomes a hole, for all that have it mapped.
    fn remove_of_object(&mut self, b: &mut impl Backend, entry: &Entry) -> Result<(), Error> {
        let special = Flags::LOCKED.or(Flags::OWN);
        let Some(object) = entry.object.filter(|_| !entry.flags.has_any(special)) else {
            return Err(Error::Invalid);
        };
        if !entry.flags.has(Flags::SHARED) || entry.flags.has(Flags::NEVER_WRITE) {
            return Err(Error::Access);
        }
        match b.object_punch(object, entry.object_page(entry.start), entry.pages()) {
            true => Ok(()),
            false => Err(Error::Invalid),
        }
    }

    /// Sets or clears `LOCKED` on `[addr, addr + len)`: `mlock`, `munlock`. What is locked is touched ([`Space::populate_lenient`]) by who
    /// wants it to be there.
    ///
    /// # Errors
    ///
    /// `NoMemory`: up to what is not mapped, as on Linux, or until an entry could not be divided, it is done.
    pub fn set_locked(&mut self, (addr, len): (u64, u64), on: bool) -> Result<(), Error> {
        let start = addr / PAGE;
        let end = addr.checked_add(len).ok_or(Error::Invalid)?.div_ceil(PAGE);
        let mut at = start;
        while at < end {
            let next = self.map.within(at, end).next();
            let entry = next.filter(|entry| entry.start == at).ok_or(Error::NoMemory)?;
            at = entry.end;
            // Large pages stay where they are anyway, and it is not noted of them.
            if !entry.flags.has(Flags::LARGE_PAGES) {
                self.map.change(entry.start, entry.end, |entry| {
                    let flags = entry.flags.without(Flags::LOCKED);
                    entry.flags = if on { flags.or(Flags::LOCKED) } else { flags };
                })?;
            }
        }
        Ok(())
    }

    /// The same for all there is: `mlockall`, `munlockall`.
    pub fn set_all_locked(&mut self, on: bool) {
        let mut at = 0;
        while let Some(&entry) = self.map.entries_from(at).next() {
            at = entry.end;
            if entry.flags.has(Flags::LOCKED) != on {
                // A whole entry: none has to be divided, and all of it is mapped.
                let _ = self.set_locked((entry.start * PAGE, entry.pages() * PAGE), on);
            }
        }
    }

    fn populate(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
        access: Access,
    ) -> Result<(), Error> {
        if !self.map.is_covered(start, end) {
            return Err(Error::NoMemory);
        }
        let len = (end - start) * PAGE;
        match self.make_resident(b, start * PAGE, len, access) {
            Ok(done) if done == len => Ok(()),
            _ => Err(Error::Fault),
        }
    }

    /// `MAP_POPULATE`, `MAP_LOCKED`: touches what can be touched.
    pub fn populate_lenient(&mut self, b: &mut impl Backend, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let Some(entry) = self.map.within(at, end).next() else { return };
            at = entry.end;
            // What cannot be touched now is touched later, or not.
            let _ = self.touch_entry(b, &entry);
        }
    }

    /// `mlock`: touches what is mapped, up to a page that cannot be touched.
    ///
    /// # Errors
    ///
    /// Why that one cannot.
    pub fn populate_strict(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), FaultError> {
        let mut at = start;
        while at < end {
            let Some(entry) = self.map.within(at, end).next() else { break };
            at = entry.end;
            self.touch_entry(b, &entry)?;
        }
        Ok(())
    }

    /// What is private is written to where that may be.
    fn touch_entry(&mut self, b: &mut impl Backend, entry: &Entry) -> Result<(), FaultError> {
        let is_private = !entry.flags.has(Flags::SHARED);
        let access = match entry.prot {
            prot if is_private && prot.has(Prot::WRITE) => Access::Write,
            prot if prot.has(Prot::READ) => Access::Read,
            prot if prot.has(Prot::EXEC) => Access::Exec,
            _ => Access::Write,
        };
        let mut at = entry.start * PAGE;
        while at < entry.end * PAGE {
            // It answers the error of the first page only.
            at += self.make_resident(b, at, entry.end * PAGE - at, access)?;
        }
        Ok(())
    }

    /// `msync`, `mincore` and others ask whether `[addr, addr + len)` is all mapped.
    pub fn is_mapped(&self, addr: u64, len: u64) -> bool {
        self.map.is_covered(addr / PAGE, addr.saturating_add(len).div_ceil(PAGE))
    }
}
