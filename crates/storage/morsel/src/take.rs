//! Taking away: a range, what is behind the limit, the whole object.
//!
//! ```text
//! entry cleared ─► written back ─► translations forgotten ─► walks have ended ─► frame given back
//! ```
//!
//! Each call does a step of it. What is interrupted is begun anew where the last step ended, after a power failure by
//! recovery: the record says [`DYING`](Anchor::is_dying) or [`TRIMMING`](Anchor::TRIMMING).

use crate::durable::Limbo;
use crate::link::{index, Child, Kind, Link};
use crate::memory::{At, Cores, Frame, Memory, Pages};
use crate::raise::MOST_BYTES;
use crate::record::{Record, LIMIT};
use crate::walk::{Found, Goal};
use crate::{Anchor, Morsels, Refused};

/// Entries that are cleared in a step.
const BATCH: usize = 64;

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Takes away what is in pages `first` up to `end`: holes are left. Returns the first page that has not been looked at.
    ///
    /// A page of 2 MiB of which a part goes becomes 512 of 4 KiB first.
    ///
    /// # Errors
    /// [`Refused::NoMemory`] if something must be copied or split because only a part of it goes.
    pub fn discard(&self, record: Record, first: u64, end: u64) -> Result<u64, Refused> {
        self.discard_if(record, first, end, || true)
    }

    /// The same by somebody for whom the object may be ended at any time, unless `is_there` sees, during the walk, something that leads to it:
    /// then it stays until the walk has ended. [`Refused::Gone`] if it does not.
    ///
    /// # Errors
    /// As [`discard`](Self::discard).
    pub fn discard_while(
        &self,
        record: Record,
        first: u64,
        end: u64,
        is_there: impl FnOnce() -> bool,
    ) -> Result<u64, Refused> {
        // Where the record is may have changed with the object.
        let is_it = || is_there() && self.find(record.id).is_some_and(|now| now.at == record.at);
        self.discard_if(record, first, end, is_it)
    }

    fn discard_if(
        &self,
        record: Record,
        first: u64,
        end: u64,
        is_it: impl FnOnce() -> bool,
    ) -> Result<u64, Refused> {
        if first >= end {
            return Ok(end);
        }
        self.cores.enter();
        let anchor = if is_it() { self.anchor(record) } else { Anchor::FREE };
        let result = match (anchor.is_live(), anchor.has(Anchor::CUTTING)) {
            (false, _) => Err(Refused::Gone),
            (_, true) => Err(Refused::Again),
            _ if anchor.has(Anchor::META) => Err(Refused::Invalid),
            _ if first >= crate::pages_of(anchor.order()) => Ok((end, Limbo::new())),
            _ => self.discard_step(record, anchor, first, end),
        };
        self.cores.leave();
        let (next, limbo) = result?;
        self.settle_limbo(limbo);
        Ok(next)
    }

    fn discard_step(
        &self,
        record: Record,
        anchor: Anchor,
        first: u64,
        end: u64,
    ) -> Result<(u64, Limbo<BATCH>), Refused> {
        let path = self.path(record, first);
        let whole_table = first.is_multiple_of(512) && end - first >= 512;
        let goal = if whole_table { Goal::Detach } else { Goal::Own };
        let mut copies = crate::walk::Leftovers::new();
        let found = self.walk(path, (anchor.root(), anchor.order()), goal, &mut copies);
        let mut limbo = Limbo::new();
        limbo.append(copies);
        let next = match found {
            // What has been copied on the way waits in limbo no longer than this call.
            Err(refused) if limbo.is_empty() => return Err(refused),
            Err(_) => first,
            Ok(Found::Hole { at, level }) => {
                let below = path.below(level);
                if self.load(at).shows_zeros() {
                    self.clear(record, at, 1, level, below.clone(), &mut limbo);
                }
                below.end + self.empty_behind(at) * crate::span(level)
            }
            Ok(Found::Table(page)) => {
                self.zero_in_place(page);
                // Its entries are not the object's, but behind a limit nobody may keep what it caches of them.
                self.cores.invalidate(record.id, first..first + 1);
                first + 1
            }
            Ok(Found::Entry { at, level: 2, .. }) if whole_table => {
                self.clear(record, at, 1, 2, first..first + 512, &mut limbo);
                first + 512
            }
            Ok(Found::Entry { at, link, level: 2 }) => match self.split_huge(path, at, link) {
                Err(refused) if limbo.is_empty() => return Err(refused),
                _ => first,
            },
            Ok(Found::Entry { at, .. }) => {
                let room = limbo.room().min(paging::ENTRIES - index(first, 1)) as u64;
                let next = end.min(first + room);
                self.clear(record, at, (next - first) as usize, 1, first..next, &mut limbo);
                next
            }
        };
        Ok((next.min(end), limbo))
    }

    /// How many entries of a table behind one are empty, up to the first that is not.
    fn empty_behind(&self, at: At) -> u64 {
        let behind = at.index + 1..paging::ENTRIES;
        behind.take_while(|&n| self.load(At::new(at.frame, n)).is_empty()).count() as u64
    }

    fn zero_in_place(&self, page: Frame) {
        self.memory.zero(page);
        self.write_back_frame(page);
        self.memory.fence();
    }

    /// Clears `count` entries of a table of `level`, and puts into limbo what only they led to.
    fn clear(
        &self,
        record: Record,
        first: At,
        count: usize,
        level: u8,
        pages: core::ops::Range<u64>,
        limbo: &mut Limbo<BATCH>,
    ) {
        let mut gone = [Link::EMPTY; BATCH];
        for (n, gone) in gone.iter_mut().enumerate().take(count) {
            let at = At::new(first.frame, first.index + n);
            let link = self.load(at);
            if !link.is_empty() && !link.is_entered() && self.exchange(at, link, Link::EMPTY) {
                *gone = link;
                self.write_back(at);
            }
        }
        self.memory.fence();
        self.cores.invalidate(record.id, pages);
        for link in gone.into_iter().filter(|link| !link.is_hole()) {
            if self.unshare(link.child(level)) {
                limbo.push(link.child(level));
            }
        }
    }

    /// Sets the limit, in bytes. If it becomes lower, [`trim`](Self::trim) is to be called until it has nothing to do.
    ///
    /// # Errors
    /// [`Refused::Again`] if something else changes the object, [`Refused::NoMemory`] if the last page is to be zeroed in part
    /// and shared.
    pub fn limit_to(&self, record: Record, bytes: u64) -> Result<(), Refused> {
        let anchor = self.undisturbed(record)?;
        if anchor.has(Anchor::META) {
            return Err(Refused::Invalid);
        }
        let trimming = anchor.with(Anchor::TRIMMING).0;
        self.memory.compare_exchange(record.at, anchor.0, trimming).map_err(|_| Refused::Again)?;
        self.forbid_raising(record);
        let (old, bytes) = (self.limit(record), bytes.min(MOST_BYTES));
        if bytes >= old {
            // Who has the last page mapped may have written behind the limit.
            if let Err(refused) = self.zero_tail(record, old) {
                self.memory.store(record.at, anchor.0);
                return Err(refused);
            }
        }
        self.put(record.word(LIMIT), bytes);
        self.memory.fence();
        if bytes >= old {
            self.put(record.at, anchor.0);
            self.memory.fence();
            return Ok(());
        }
        // Who has seen the old limit has left.
        self.cores.grace();
        Ok(())
    }

    /// Takes away a part of what is behind the limit, from page `from` on. Returns where to go on, or `None` if nothing is
    /// left to be done.
    ///
    /// # Errors
    /// As [`discard`](Self::discard).
    pub fn trim(&self, record: Record, from: u64) -> Result<Option<u64>, Refused> {
        let anchor = self.anchor(record);
        if !anchor.has(Anchor::TRIMMING) {
            return Ok(None);
        }
        let (limit, end) = (self.limit(record), crate::pages_of(anchor.order()));
        let first = limit.div_ceil(4096).max(from);
        if first < end {
            return self.discard(record, first, end).map(Some);
        }
        self.zero_tail(record, limit)?;
        self.put(record.at, anchor.without(Anchor::TRIMMING).0);
        self.memory.fence();
        Ok(None)
    }

    /// Zeroes what is behind the limit in the page in which it is.
    fn zero_tail(&self, record: Record, limit: u64) -> Result<(), Refused> {
        if limit & 4095 == 0 {
            return Ok(());
        }
        self.visit_and(record, limit >> 12, Goal::Own, |found| {
            let page = match found {
                Found::Hole { .. } => return Ok(()),
                Found::Entry { link, .. } if link.is_out() => return Err(Refused::Out),
                Found::Table(page) => page,
                Found::Entry { link, level: 2, .. } => Frame(link.frame().0 + (limit >> 12 & 511)),
                Found::Entry { link, .. } => link.frame(),
            };
            let (word, bytes) = ((limit & 4095) as usize / 8, limit & 7);
            let kept = (1u64 << (8 * bytes)) - 1;
            for n in word..paging::ENTRIES {
                let at = At::new(page, n);
                let keep = if n == word { kept } else { 0 };
                let old = self.memory.load(at);
                if old & !keep != 0 {
                    self.put(at, old & keep);
                }
            }
            self.memory.fence();
            Ok(())
        })
        .and_then(|done| done)
        .or_else(|refused| match refused {
            // It has grown no further than its order allows.
            Refused::Beyond => Ok(()),
            other => Err(other),
        })
    }

    /// Begins to destroy an object that nobody has mapped. [`reap`](Self::reap) is to be called until it is gone.
    ///
    /// # Errors
    /// [`Refused::Gone`], [`Refused::Again`] if something else changes the object; [`Refused::Invalid`] for
    /// what a meta morsel describes, which is destroyed with it, and for the directory.
    pub fn destroy(&self, record: Record) -> Result<(), Refused> {
        if record.id == 0 || self.anchor(record).has(Anchor::OWNED | Anchor::HIDDEN) {
            return Err(Refused::Invalid);
        }
        self.doom(record)
    }

    pub(crate) fn doom(&self, record: Record) -> Result<(), Refused> {
        let anchor = self.anchor(record);
        if !anchor.is_live() {
            return Err(Refused::Gone);
        }
        if anchor.has(Anchor::CUTTING) {
            return Err(Refused::Again);
        }
        self.memory
            .compare_exchange(record.at, anchor.0, anchor.dying().0)
            .map_err(|_| Refused::Again)?;
        self.write_back(record.at);
        self.memory.fence();
        self.cores.grace();
        Ok(())
    }

    /// Gives back a part of an object that is being destroyed: entries before what they lead to. Returns `true` when the
    /// record is free.
    ///
    /// Bound: a path down, 64 frames given back, of which one may be a table of 512 that another object shared until now.
    ///
    /// # Errors
    /// [`Refused::Damaged`].
    pub fn reap(&self, record: Record) -> Result<bool, Refused> {
        let anchor = self.anchor(record);
        if !anchor.is_dying() {
            return Ok(true);
        }
        if anchor.has(Anchor::META) && !self.reap_described(record)? {
            return Ok(false);
        }
        if !self.reap_committed(record)? {
            return Ok(false);
        }
        // Behind the limit nothing is left, unless it was being taken away. Of larger objects that is not worth while, and what was found
        // in a memory that survives is not believed.
        let is_short = self.pages.grows() && !anchor.has(Anchor::TRIMMING);
        let entries = match anchor.order() == 1 && is_short {
            true => (self.limit(record).div_ceil(4096) as usize).min(paging::ENTRIES),
            false => paging::ENTRIES,
        };
        if anchor.order() > 0 && self.reap_below(anchor.root(), anchor.order(), entries) {
            return Ok(false);
        }
        self.put(record.at, Anchor::FREE.0);
        self.memory.fence();
        self.give(Child { frame: anchor.root(), kind: Kind::Page });
        Ok(true)
    }

    /// Gives back the page with a record of no object, if there are no others in it, and it is not the first one. Nobody creates
    /// any meanwhile. Returns `true` if it went: then no core may know any more where its records were.
    pub fn shrink_directory(&self, record: Record) -> bool {
        let page = u64::from(record.id / crate::RECORDS);
        let anchor = |n: u32| At::new(record.at.frame, n as usize * crate::WORDS);
        let is_free = |n| self.memory.load(anchor(n)) == Anchor::FREE.0;
        if page == 0 || !(0..crate::RECORDS).all(is_free) {
            return false;
        }
        self.discard(self.directory(), page, page + 1).is_ok()
    }

    /// Takes something out of a table that is not empty; `false` if it is empty. There is nothing behind the first entries of the
    /// root.
    fn reap_below(&self, root: Frame, order: u8, mut entries: usize) -> bool {
        let (mut table, mut level, mut above) = (root, order, None);
        loop {
            let used = (0..entries).find(|&n| !self.load(At::new(table, n)).is_empty());
            match (used, above) {
                (None, None) => return false,
                (None, Some(at)) => {
                    self.put(at, 0);
                    self.memory.fence();
                    self.give(Child { frame: table, kind: Kind::Table(level) });
                    return true;
                }
                (Some(first), _) if level == 1 => {
                    self.reap_pages(table, first);
                    return true;
                }
                (Some(n), _) => {
                    let at = At::new(table, n);
                    if !self.reap_entry(at, level) {
                        return true;
                    }
                    (table, level, above) = (self.load(at).frame(), level - 1, Some(at));
                    entries = paging::ENTRIES;
                }
            }
        }
    }

    /// Clears 64 entries of a last-level table and gives back their pages.
    fn reap_pages(&self, table: Frame, first: usize) {
        let first = first / BATCH * BATCH;
        let mut gone = [Link::EMPTY; BATCH];
        for (n, gone) in gone.iter_mut().enumerate() {
            let at = At::new(table, first + n);
            *gone = self.load(at);
            if !gone.is_empty() {
                self.put(at, 0);
            }
        }
        self.memory.fence();
        let pages = gone.into_iter().filter(|link| !link.is_hole()).map(Link::frame);
        self.give_pages(pages.filter(|&frame| self.unshare(Child { frame, kind: Kind::Page })));
    }

    /// Clears an entry of a higher table if nothing below is this object's alone. `true` if it is to be descended.
    fn reap_entry(&self, at: At, level: u8) -> bool {
        let link = self.load(at);
        if !link.is_hole() {
            let child = link.child(level);
            if child.kind != Kind::Huge && self.is_alone(child) {
                return true;
            }
        }
        self.put(at, 0);
        self.memory.fence();
        if !link.is_hole() && self.unshare(link.child(level)) {
            // What is shared was given up by the last other object at this moment.
            self.cores.grace();
            match link.child(level) {
                child @ Child { kind: Kind::Huge | Kind::Table(1), .. } => self.release(child),
                child => {
                    self.pages.set_descriptor(child.frame, 0);
                    self.put(at, link.0);
                    self.memory.fence();
                }
            }
        }
        false
    }
}
