//! What changes how a morsel is entered: parts, growth, and snapshots.
//!
//! ```text
//! grow          part                 snapshot (shared entries: ··►)
//!
//! new root      root                 root        root of the snapshot
//! ┌───┐         ┌───┐                ┌───┐       ┌───┐
//! │ 0 ├─┐       │   ├──►┌───┐◄─ a    │   ├··►▒◄··┤   │    nothing below is copied
//! └───┘ │       └───┘   │   │  Part  │ e ├─┐     │   ├─┐  but tables that are entered:
//!       ▼ entered       └───┘        └───┘ ▼     └───┘ ▼  the original stays where
//!     old root                          ┌───┐      ┌───┐  it is mapped
//!                                       │   ├··►▒◄·┤   │
//!                                       └───┘      └───┘
//! ```

use crate::durable::State;
use crate::link::{index, pages_of, Child, Kind, Link};
use crate::memory::{At, Cores, Frame, Memory, Pages};
use crate::record::Record;
use crate::walk::{Found, Goal, Leftovers};
use crate::{Anchor, Morsels, Refused};

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Makes an object 512 times as large: its root becomes entry 0 of a new one. Mappings of the old root stay as
    /// they are; nothing is invalidated.
    ///
    /// # Errors
    /// [`Refused::Invalid`] at order 4, and for a page (order 0), whose mappings could not be told apart from a table's;
    /// [`Refused::Again`] if something else changes the object.
    pub fn grow(&self, record: Record) -> Result<(), Refused> {
        let anchor = self.undisturbed(record)?;
        if anchor.order() == 0 || anchor.order() == 4 || anchor.has(Anchor::META) {
            return Err(Refused::Invalid);
        }
        let root = self.empty_root(record)?;
        let old = Child { frame: anchor.root(), kind: Kind::Table(anchor.order()) };
        self.put(At::new(root, 0), Link::own(old, true).entered().0);
        self.memory.fence();
        let flags = anchor.0 & (Anchor::OWNED | Anchor::LARGE);
        let new = Anchor::live(root, anchor.order() + 1, flags);
        match self.memory.compare_exchange(record.at, anchor.0, new.0) {
            Ok(()) => {
                self.write_back(record.at);
                self.memory.fence();
                Ok(())
            }
            Err(_) => {
                self.give(Child { frame: root, kind: Kind::Table(anchor.order() + 1) });
                Err(Refused::Again)
            }
        }
    }

    /// The table of `order` that covers the pages from `first` on: whoever maps it sees them, now and later.
    ///
    /// # Errors
    /// [`Refused::Invalid`] if there is no such table, and what [`fault`](Self::fault) answers.
    pub fn part(&self, record: Record, first: u64, order: u8) -> Result<Frame, Refused> {
        if order == 0 || order > self.anchor(record).order() || first & (pages_of(order) - 1) != 0 {
            return Err(Refused::Invalid);
        }
        let mut left = Leftovers::new();
        self.cores.enter();
        let table = self.permit(record, first).and_then(|top| {
            let path = self.path(record, first);
            match self.walk(path, top, Goal::Enter(order), &mut left)? {
                Found::Table(table) => self.mark_entered(record, top, first, order).map(|()| table),
                // A page of 2 MiB.
                _ => Err(Refused::Invalid),
            }
        });
        self.cores.leave();
        self.settle_limbo(left);
        table
    }

    /// Marks the path to a table: the entries are own, and only a snapshot would change that, which waits.
    fn mark_entered(
        &self,
        record: Record,
        top: (Frame, u8),
        first: u64,
        order: u8,
    ) -> Result<(), Refused> {
        let (mut table, mut level) = top;
        while level > order {
            let at = At::new(table, index(first, level));
            let link = self.load(at);
            if !link.is_own() || link.is_huge() || !self.exchange(at, link, link.entered()) {
                return Err(Refused::Again);
            }
            table = link.frame();
            level -= 1;
        }
        self.pages.set_descriptor(table, State::root(record.id, first).0);
        Ok(())
    }

    /// Makes object `id`, which has what `record` has now, at the cost of a table and of those that are entered.
    ///
    /// Who wants to write meanwhile waits until all cores have forgotten that they might: what was written before
    /// is in the snapshot, and nothing that was written after anything that is not. (The page of
    /// order 0 is mapped by entries that are not the morsel's; who maps it keeps others from writing.)
    ///
    /// # Errors
    /// Those of [`create`](Self::create); [`Refused::Again`] if something else changes the object.
    pub fn snapshot(&self, record: Record, id: u32) -> Result<Record, Refused> {
        self.snapshot_of(record, id, 0, 0)
    }

    /// The same, for what has flags, and belongs to another object.
    pub(crate) fn snapshot_of(
        &self,
        record: Record,
        id: u32,
        flags: u64,
        other: u32,
    ) -> Result<Record, Refused> {
        let anchor = self.anchor(record);
        if anchor.has(Anchor::META | Anchor::OWNED) {
            return Err(Refused::Invalid);
        }
        let flags = flags | anchor.0 & Anchor::LARGE;
        let new = self.prepare(id, anchor.order())?;
        if let Err(refused) = self.begin_cut(record) {
            return Err(self.abandon(new, refused));
        }
        // No walk is under way any more, and none begins.
        let anchor = self.anchor(record);
        let mut root = None;
        let result = self.split(anchor.root(), anchor.order(), &mut root);
        self.cores.invalidate(record.id, 0..pages_of(anchor.order()));
        let result = match (result, root) {
            (Ok(()), Some(root)) => {
                self.pages.set_descriptor(root, State::root(id, 0).0);
                // It may be raised as far as that of the original.
                let (limit, owner) = (self.limit_word(record), self.owner_words(record));
                self.publish(new, root, anchor.order(), flags, limit, other as u64, owner);
                Ok(new)
            }
            (result, root) => {
                let kind = match anchor.order() {
                    0 => Kind::Page,
                    order => Kind::Table(order),
                };
                if let Some(frame) = root {
                    self.release(Child { frame, kind });
                }
                Err(self.abandon(new, result.err().unwrap_or(Refused::NoMemory)))
            }
        };
        self.memory.store(record.at, anchor.without(Anchor::CUTTING).0);
        result
    }

    /// From now on a write where nothing is makes a page of 2 MiB, if all of it is inside the limit and nothing is there but holes. If
    /// the pool has none, it is a page of 4 KiB, as ever; but of a pool that [grows](Pages::grows) it is
    /// [`Refused::NoMemory`]: either it is to grow, or there are to be no large pages any more.
    ///
    /// # Errors
    /// [`Refused::Again`] if something else changes the object, [`Refused::Invalid`] for a meta morsel.
    pub fn set_large(&self, record: Record, large: bool) -> Result<(), Refused> {
        let anchor = self.undisturbed(record)?;
        if anchor.has(Anchor::META) {
            return Err(Refused::Invalid);
        }
        let new = match large {
            true => anchor.with(Anchor::LARGE),
            false => anchor.without(Anchor::LARGE),
        };
        let set = self.memory.compare_exchange(record.at, anchor.0, new.0);
        set.map_err(|_| Refused::Again)?;
        self.write_back(record.at);
        self.memory.fence();
        Ok(())
    }

    /// The anchor of an object that nothing else is changing.
    ///
    /// # Errors
    /// [`Refused::Gone`], [`Refused::Again`].
    pub(crate) fn undisturbed(&self, record: Record) -> Result<Anchor, Refused> {
        match self.anchor(record) {
            anchor if !anchor.is_live() => Err(Refused::Gone),
            anchor if anchor.has(Anchor::CUTTING | Anchor::TRIMMING) => Err(Refused::Again),
            anchor => Ok(anchor),
        }
    }

    /// Keeps others from beginning to write, and waits for those who have begun.
    fn begin_cut(&self, record: Record) -> Result<(), Refused> {
        let anchor = self.undisturbed(record)?;
        let cutting = anchor.with(Anchor::CUTTING).0;
        let begun = self.memory.compare_exchange(record.at, anchor.0, cutting);
        begun.map_err(|_| Refused::Again)?;
        self.cores.grace();
        Ok(())
    }

    /// Copies the table of an object that is being cut, and shares what is below. `into` is the copy, also
    /// if not all of it could be made.
    fn split(&self, table: Frame, level: u8, into: &mut Option<Frame>) -> Result<(), Refused> {
        let new = self.pages.take(0)?;
        *into = Some(new);
        if level == 0 {
            self.memory.copy(table, new);
            self.write_back_frame(new);
            self.memory.fence();
            return Ok(());
        }
        self.memory.zero(new);
        for index in 0..paging::ENTRIES {
            let at = At::new(table, index);
            let link = self.load(at);
            // Most of what is nothing is empty.
            if link.is_empty() || link.is_hole() {
                continue;
            }
            let copy = At::new(new, index);
            if link.is_entered() && !link.is_huge() && level > 1 {
                let mut below = None;
                let result = self.split(link.frame(), level - 1, &mut below);
                if let Some(frame) = below {
                    let child = Child { frame, kind: Kind::Table(level - 1) };
                    self.memory.store(copy, Link::own(child, !self.ordered()).0);
                }
                result?;
                continue;
            }
            let lowered = self.lower(at, link);
            if !self.share(link.child(level)) {
                return Err(Refused::Damaged);
            }
            self.memory.store(copy, lowered.0);
        }
        self.write_back_frame(table);
        self.write_back_frame(new);
        self.memory.fence();
        Ok(())
    }

    /// Takes the right to write away from an entry, which the processor may be marking at this time. Returns what it is then.
    #[inline(always)]
    fn lower(&self, at: At, mut link: Link) -> Link {
        while !self.exchange(at, link, link.lowered()) {
            link = self.load(at);
        }
        link.lowered()
    }
}
