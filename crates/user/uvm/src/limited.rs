//! A range of private memory of which only so many pages are in memory at a time. Which of them goes when another one comes, a policy of the process
//! says ([`selfpaging`]).
//!
//! All of the range has gone [aside](crate::aside), so that its pages can leave one by one. Tables of the process's own show each that is in memory,
//! and no other, so that each that comes is a fault here, and the accessed bits are read without asking anybody. Where no such range
//! is, nothing of this is looked at but on the way to a fault in memory that is an object.
//!
//! ```text
//! fault ─► the policy: which page goes for it? ─► its entry goes, it leaves ─► the page comes in, alone ─► its entry
//! ```
//!
//! It is the process's choice and no promise: where memory is short, others may have pages of the range leave, too
//! (they count as being there, and come back without that another one goes), and a page that cannot leave stays. What is
//! locked is no part of it.

use crate::aside::may_go;
use crate::backend::{Backend, ObjectError, ObjectId};
use crate::map::{Entry, Flags};
use crate::pmap::locate;
use crate::space::Space;
use crate::types::{Error, FaultError, NoMemory};
use alloc::boxed::Box;
use alloc::vec::Vec;
use selfpaging::{Kept, OutOfMemory, Policy};

/// Pages whose accessed bits are read together.
const GROUP: u64 = 64;
/// How often an object is asked again for what others have taken away meanwhile.
const TRIES: u32 = 100;

/// Such a range.
pub(crate) struct Limited {
    start: u64,
    end: u64,
    kept: Kept,
    used: Used,
}

/// Which pages were used since the policy asked. Bits are read of many pages together, which are then not used any more for the
/// processor: what the policy has not asked for yet is kept.
struct Used {
    first: u64,
    groups: Vec<Group>,
    /// The number of the miss that is going on: bits are read once for each.
    now: u64,
}

#[derive(Clone, Copy, Default)]
struct Group {
    used: u64,
    read: u64,
}

impl Used {
    fn new(start: u64, end: u64) -> Result<Used, NoMemory> {
        let first = start / GROUP;
        let count = (end.div_ceil(GROUP) - first) as usize;
        let mut groups = Vec::new();
        groups.try_reserve_exact(count)?;
        groups.resize(count, Group::default());
        Ok(Used { first, groups, now: 0 })
    }

    /// Was a page used since this was asked last, or it came? `read` reads bits of a group.
    fn take(&mut self, page: u64, read: impl FnOnce(u64) -> u64) -> bool {
        let group = page / GROUP;
        let Some(here) = self.groups.get_mut((group - self.first) as usize) else { return false };
        if here.read != self.now {
            here.read = self.now;
            here.used |= read(group);
        }
        let bit = 1 << (page % GROUP);
        let was_used = here.used & bit != 0;
        here.used &= !bit;
        was_used
    }
}

/// May pages of an entry leave one by one?
pub(crate) fn may_leave(entry: &Entry) -> bool {
    entry.flags.has(Flags::OWN) && !entry.flags.has(Flags::LOCKED)
}

impl Limited {
    fn has_any(&self, pages: &core::ops::Range<u64>) -> bool {
        self.start < pages.end && pages.start < self.end
    }
}

impl Space {
    /// From now on at most `places` pages of `[addr, addr + len)` are in memory, which is private memory from nowhere; all leave it now. A
    /// range that was limited before is not any more.
    ///
    /// # Errors
    ///
    /// [`Invalid`](Error::Invalid): no pages, no places, or memory that may not leave; [`NotSupported`](Error::NotSupported): there is nowhere to go;
    /// [`NoMemory`](Error::NoMemory): something is not mapped, or there is no memory; some may have left then.
    pub fn limit(
        &mut self,
        b: &mut impl Backend,
        (addr, len): (u64, u64),
        places: u32,
        policy: Box<dyn Policy>,
    ) -> Result<(), Error> {
        let (start, end) = self.range(addr, len)?;
        if start == end || places == 0 {
            return Err(Error::Invalid);
        }
        if !self.map.is_covered(start, end) {
            return Err(Error::NoMemory);
        }
        if !self.map.within(start, end).all(|entry| may_leave(&entry) || may_go(&entry)) {
            return Err(Error::Invalid);
        }
        if !b.pages_can_leave() {
            return Err(Error::NotSupported);
        }
        // No more than there are pages are ever filled.
        let places = u64::from(places).min(end - start) as u32;
        let kept = Kept::new(policy, places).map_err(|OutOfMemory| NoMemory)?;
        let limited = Limited { start, end, kept, used: Used::new(start, end)? };
        self.limited = None;
        self.pmap.drop_condemned(b)?;
        self.move_all_aside(b, start, end)?;
        self.discard_tables(b, start, end)?;
        let mut at = start;
        while at < end {
            let Some(entry) = self.map.within(at, end).next() else { break };
            at = entry.end;
            match entry.object.filter(|_| entry.flags.has(Flags::OWN)) {
                Some(object) => {
                    b.object_page_out(object, entry.object_page(entry.start), entry.pages());
                }
                // What `mremap` has moved is where this would go.
                None => return Err(Error::NoMemory),
            }
        }
        self.limited = Some(Box::new(limited));
        Ok(())
    }

    /// No range is limited any more. What has left comes back when it is used.
    pub fn limit_nothing(&mut self) {
        self.limited = None;
    }

    /// Belongs a page of an entry to such a range?
    #[inline]
    pub(crate) fn is_limited(&self, entry: &Entry, page: u64) -> bool {
        self.limited
            .as_ref()
            .is_some_and(|limited| limited.has_any(&(page..page + 1)) && may_leave(entry))
    }

    /// What of an entry may be shown together with a page that is not limited: nothing that is.
    pub(crate) fn beside_limited(&self, entry: &Entry, page: u64) -> Entry {
        let Some(Limited { start, end, .. }) = self.limited.as_deref() else { return *entry };
        let (mut first, mut behind) = (entry.start, entry.end);
        if *end <= page {
            first = first.max(*end);
        } else if page < *start {
            behind = behind.min(*start);
        }
        Entry { start: first, end: behind, offset: entry.object_page(first), ..*entry }
    }

    /// Are some of these pages limited? Then one entry must not show them.
    pub(crate) fn has_limited(&self, pages: &core::ops::Range<u64>) -> bool {
        self.limited.as_ref().is_some_and(|limited| limited.has_any(pages))
    }

    /// A page of such a range that no entry shows.
    #[cold]
    #[inline(never)]
    pub(crate) fn map_limited(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
    ) -> Result<(), FaultError> {
        if let Some(mut limited) = self.limited.take() {
            let Limited { kept, used, start, end } = &mut *limited;
            if !kept.has(page) {
                used.now += 1;
                let mut was_used = |other| {
                    let read = |group| self.group_used(b, group, (*start, *end));
                    used.take(other, read)
                };
                let gone = kept.bring(page, &mut was_used);
                // Of its last time in memory.
                used.take(page, |_| 0);
                if let Some(gone) = gone {
                    self.send_out(b, gone);
                }
            }
            self.limited = Some(limited);
        }
        self.bring_in(b, entry, object, page)
    }

    /// Which pages of a group were used since this was asked last, as far as they are between two pages.
    fn group_used(&mut self, b: &mut impl Backend, group: u64, (start, end): (u64, u64)) -> u64 {
        let (lo, hi) = ((group * GROUP).max(start), ((group + 1) * GROUP).min(end));
        let (key, first) = locate(lo);
        // What a child has, too, does not show pages of the range.
        let Some(region) = self.pmap.region(key).filter(|region| !region.shared) else { return 0 };
        b.entries_used(region.table, first, (hi - lo) as u32) << (lo % GROUP)
    }

    /// A page leaves, if it is still what it was. If that fails it stays.
    fn send_out(&mut self, b: &mut impl Backend, page: u64) {
        let Some(&entry) = self.map.find(page) else { return };
        let Some(object) = entry.object.filter(|_| may_leave(&entry)) else { return };
        let (key, at) = locate(page);
        let hidden = self.pmap.unshare(b, &mut self.amap, key);
        let hidden = hidden.and_then(|()| self.pmap.remove(b, &self.amap, key, at, at + 1));
        if hidden.is_ok() {
            b.object_page_out(object, entry.object_page(page), 1);
        }
    }

    /// A page of an object, and no other, comes in, if it has left, and is shown.
    fn bring_in(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
    ) -> Result<(), FaultError> {
        self.pmap.drop_condemned(b)?;
        let object_page = entry.object_page(page);
        for _ in 0..TRIES {
            let entered = match b.object_whole(object, object_page, u64::MAX) {
                Ok(Some(extent)) => {
                    if b.object_there(object, object_page, 1).out > 0 {
                        // If it cannot, it is asked for again when there is room.
                        b.object_page_in(object, object_page);
                    }
                    let (amap, limits) = (&mut self.amap, (page, page + 1));
                    self.pmap.enter_object(b, amap, page, object_page, &extent, limits, entry.prot)
                }
                Ok(None) => return self.map_object(b, entry, object, page, entry.prot),
                Err(error) => Err(error),
            };
            match entered {
                Err(ObjectError::Gone) => b.object_forget(object, object_page),
                done => return Ok(done?),
            }
        }
        Err(FaultError::NoPage)
    }
}
