//! Failure-atomic objects: after a power failure they are as at their last commit, whatever was stored since, and whatever
//! of it the caches had written back.
//!
//! ```text
//! record ──► root ─┬─► pages written since: copies
//!   │ word 3       └··► shared pages ◄··┐
//!   └─────► hidden record ──► root ─────┘      as at the last commit
//! ```
//!
//! A commit is a snapshot whose record is hidden, then the store of one word that names it, then the end of the hidden
//! record before. Recovery makes the hidden root the object's own, before it marks anything: what was written since is in no
//! tree then, and so it is free. The interface is that of failure-atomic msync (Park, Kelly, Shen: EuroSys 2013).
//!
//! The owner's words are not part of it.

use crate::memory::{Cores, Look, Memory, Pages};
use crate::record::{Record, LIMIT, OTHER};
use crate::{Anchor, Morsels, Refused};

/// In word 3: it is being committed. Means nothing after a power failure.
const BUSY: u64 = 1 << 63;

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// What the object has now is what it will have after a power failure. Record `id` is used for it, and what was used for the
    /// last commit is returned, to be [reaped](Self::reap).
    ///
    /// What was stored before must have been written back: the pages that were written since the last commit.
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot). Then what was committed before is still it.
    pub fn commit(&self, record: Record, id: u32) -> Result<Option<Record>, Refused> {
        let (word, old) = self.committed(record)?;
        if word & BUSY != 0 {
            return Err(Refused::Again);
        }
        let taken = self.memory.compare_exchange(record.word(OTHER), word, word | BUSY);
        taken.map_err(|_| Refused::Again)?;
        let new = self.snapshot_of(record, id, Anchor::HIDDEN, record.id).inspect_err(|_| {
            self.memory.store(record.word(OTHER), word);
        })?;
        self.name(record, self.generation(new) << 32 & !BUSY | new.id as u64);
        old.map_or(Ok(()), |old| self.doom(old)).map(|()| old)
    }

    /// From now on, the object has after a power failure what has been written back. What was used for the last commit is to be
    /// [reaped](Self::reap).
    ///
    /// # Errors
    /// [`Refused::Again`] while it is committed.
    pub fn release_commit(&self, record: Record) -> Result<Option<Record>, Refused> {
        let (word, Some(old)) = self.committed(record)? else { return Ok(None) };
        let free = word & BUSY == 0;
        let taken = self.memory.compare_exchange(record.word(OTHER), word, word | BUSY);
        taken.ok().filter(|_| free).ok_or(Refused::Again)?;
        self.name(record, 0);
        self.doom(old).map(|()| Some(old))
    }

    fn name(&self, record: Record, hidden: u64) {
        self.put(record.word(OTHER), hidden);
        self.memory.fence();
    }

    /// Destroys a part of what a dying object was at its last commit; `true` when nothing of it is left.
    pub(crate) fn reap_committed(&self, record: Record) -> Result<bool, Refused> {
        // What is named is gone when its record is free.
        let Ok((_, Some(hidden))) = self.committed(record) else { return Ok(true) };
        if self.anchor(hidden).is_live() {
            return match self.doom(hidden) {
                Ok(()) | Err(Refused::Again) => Ok(false),
                Err(refused) => Err(refused),
            };
        }
        self.reap(hidden)
    }

    /// For recovery, before a tree is marked: the object is again as at its last commit, and hidden records are free.
    /// Returns the anchor.
    pub(crate) fn go_back(&self, record: Record) -> Result<Anchor, Refused> {
        let anchor = self.anchor(record);
        if !anchor.has(Anchor::HIDDEN) {
            self.adopt(record)?;
            return Ok(self.anchor(record));
        }
        if let Some(object) = self.whose(record)? {
            self.adopt(object)?;
        }
        // If nobody named it, it is not marked, so what only it has is free.
        self.memory.store(record.at, Anchor::FREE.0);
        Ok(Anchor::FREE)
    }

    fn adopt(&self, record: Record) -> Result<(), Refused> {
        if let Some(hidden) = self.adopts(record)? {
            let was = self.anchor(hidden);
            // One line: if the last of these stores is there, all are; else it is done again.
            self.memory.store(record.word(LIMIT), self.limit(hidden));
            self.memory.store(record.at, was.adopted().0);
            self.name(record, 0);
            self.memory.store(hidden.at, Anchor::FREE.0);
        } else if self.may_be_committed(record) && self.memory.load(record.word(OTHER)) != 0 {
            self.memory.store(record.word(OTHER), 0);
        }
        Ok(())
    }
}

impl<M: Look, P, C> Morsels<'_, M, P, C> {
    /// Word 3, and the record that has what was committed last.
    fn committed(&self, record: Record) -> Result<(u64, Option<Record>), Refused> {
        let anchor = self.anchor(record);
        if record.id == 0 || anchor.has(Anchor::META | Anchor::OWNED | Anchor::HIDDEN) {
            return Err(Refused::Invalid);
        }
        let word = self.memory.word(record.word(OTHER));
        if word & !BUSY == 0 {
            return Ok((word, None));
        }
        let hidden = self.find(word as u32).ok_or(Refused::Damaged)?;
        let same = self.generation(hidden) << 32 & !BUSY == word >> 32 << 32 & !BUSY;
        match same && self.is_hidden_of(hidden, record) {
            true => Ok((word, Some(hidden))),
            false => Err(Refused::Damaged),
        }
    }

    fn is_hidden_of(&self, hidden: Record, record: Record) -> bool {
        let anchor = self.anchor(hidden);
        let there = anchor.is_live() || anchor.is_dying();
        let whose = self.memory.word(hidden.word(OTHER));
        there && anchor.has(Anchor::HIDDEN) && whose == record.id as u64
    }

    /// What [`go_back`](Self::go_back) will return.
    pub(crate) fn will_be(&self, record: Record) -> Result<Anchor, Refused> {
        let anchor = self.anchor(record);
        if !anchor.has(Anchor::HIDDEN) {
            let adopted = self.adopts(record)?.map(|hidden| self.anchor(hidden));
            return Ok(adopted.map_or(anchor, Anchor::adopted));
        }
        if let Some(object) = self.whose(record)? {
            self.adopts(object)?;
        }
        Ok(Anchor::FREE)
    }

    /// The object that a hidden record belongs to, if there is a record of this number.
    fn whose(&self, hidden: Record) -> Result<Option<Record>, Refused> {
        let object = self.memory.word(hidden.word(OTHER));
        let object = u32::try_from(object).ok().filter(|&id| id != 0).ok_or(Refused::Damaged)?;
        Ok(self.find(object))
    }

    fn may_be_committed(&self, record: Record) -> bool {
        let anchor = self.anchor(record);
        anchor.is_live() && !anchor.has(Anchor::META | Anchor::OWNED | Anchor::HIDDEN)
    }

    /// The hidden record whose tree an object has after a power failure.
    fn adopts(&self, record: Record) -> Result<Option<Record>, Refused> {
        if !self.may_be_committed(record) {
            return Ok(None);
        }
        let (_, hidden) = self.committed(record)?;
        let good = |hidden| {
            let was = self.anchor(hidden);
            was.is_live() && was.is_sound() && self.anchor(record).is_sound()
        };
        match hidden {
            Some(hidden) if !good(hidden) => Err(Refused::Damaged),
            hidden => Ok(hidden),
        }
    }

    /// Anchor and limit that a record will have when recovery has come to its end; `None` if there will be no object that can
    /// be opened.
    pub(crate) fn as_recovered(&self, record: Record) -> Result<Option<(Anchor, u64)>, Refused> {
        let anchor = self.will_be(record)?;
        let stays = anchor.is_live() && (!anchor.has(Anchor::OWNED) || self.is_described(record));
        let limit = self.adopts(record)?.unwrap_or(record);
        Ok(stays.then(|| (anchor, self.limit(limit))))
    }
}
