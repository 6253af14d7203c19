//! Population: the path to a page is made, level by level, by whoever needs it, without a lock.
//!
//! ```text
//! a level:  load the entry ──► own? ──► the next level
//!             ▲   │ empty      take a frame, zero it, write it back
//!             │   ├──────────► claim the entry ──► write it back ──► present
//!             │   │                  │ lost: give the frame back
//!             │   │ claim            │
//!             ├───┼─ complete it ◄───┘     (where caches persist: present at once)
//!             │   │ zeros      as empty, but nobody may show zeros any more before it is present
//!             │   │            (shown as high in the tree as the limit allows: behind it is nothing)
//!             │   │ shared     alone? own again. Else copy the page or table below, replace it like zeros
//!             └───┴──────────
//! ```

use crate::durable::Limbo;
use crate::link::{index, pages_of, span, Child, Kind, Link};
use crate::memory::{At, Cores, Frame, Memory, Pages};
use crate::run::{Entered, Table};
use crate::{Access, Morsels, Record, Refused, Shown};

/// How often an entry is looked at in one call before the caller is asked to come again.
const ATTEMPTS: usize = 16;

/// What became of a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hole {
    /// There is a page.
    Filled {
        /// The pool [grows](Pages::grows), and whoever wanted the page may go on:
        /// [some behind it](Morsels::fill_ahead) may be worth making.
        goes_on: bool,
    },
    /// Somebody else has put something there: this frame [is to be given back](Morsels::give_page).
    Lost(Frame),
    /// It is none: the page is in a store, in this slot.
    Out(Frame),
    /// It is none, or not so simple: that is to be asked of [`fault`](Morsels::fault).
    None,
}

/// What a walk may do on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Takes what is there as it is.
    Look,
    /// The same, and a hole stays as it is, too.
    Survey,
    /// Shows zeros where nothing is, in tables that are own: others who lead to them may have lower limits.
    Show,
    /// Makes what is missing, down to a page, and own what is shared.
    Fill,
    /// The same with a page of 2 MiB.
    FillHuge,
    /// Makes what is missing, down to a table of this level.
    Enter(u8),
    /// Makes own what is there.
    Own,
    /// The same, but ends at a last-level table that nobody else enters, as it is.
    Detach,
    /// As with `Own`, but what an entry of a last-level table leads to is taken as it is.
    Reach,
}

/// Where a walk has ended.
pub(crate) enum Found {
    /// An entry of a table of this level that leads to a page, or is to be detached.
    Entry {
        at: At,
        link: Link,
        level: u8,
    },
    /// Nothing is there; the entry is in a table of this level.
    Hole {
        at: At,
        level: u8,
    },
    Table(Frame),
}

/// Frames that a walk may have to give up.
pub(crate) type Leftovers = Limbo<16>;

/// Whose page is walked to.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub object: u32,
    pub page: u64,
    /// The first page behind the limit.
    pub end: u64,
}

impl Path {
    /// The pages below the entry of a table of `level`.
    pub(crate) fn below(self, level: u8) -> core::ops::Range<u64> {
        let first = self.page & !(span(level) - 1);
        first..first + span(level)
    }
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Somebody reads or writes a page that its tables do not let them.
    ///
    /// # Errors
    /// [`Refused::Beyond`] behind the limit, [`Refused::Gone`], [`Refused::NoMemory`], [`Refused::Invalid`] for a
    /// write to a meta morsel, and [`Refused::Again`] while a snapshot is taken.
    pub fn fault(&self, record: Record, page: u64, access: Access) -> Result<Shown, Refused> {
        let goal = match access {
            Access::Read => Goal::Look,
            Access::Write => Goal::Fill,
        };
        if access == Access::Write {
            if self.anchor(record).has(crate::Anchor::META) {
                return Err(Refused::Invalid);
            }
            self.cores.enter();
            let hole = self.fill_hole(record, page);
            self.cores.leave();
            match hole {
                Hole::Filled { .. } => return Ok(Shown::Page),
                Hole::Lost(frame) => self.give_page(frame),
                Hole::None | Hole::Out(_) => {}
            }
            if self.anchor(record).has(crate::Anchor::LARGE) && self.holds_large(record, page) {
                match self.visit(record, page, Goal::FillHuge) {
                    Ok(_) => return Ok(Shown::Page),
                    // There is perhaps a small one. But nothing is to be made of small ones that could still be had large.
                    Err(Refused::NoMemory) if !self.pages.grows() => {}
                    Err(refused) => return Err(refused),
                }
            }
        }
        self.visit(record, page, goal).map(|found| match found {
            Found::Hole { .. } => Shown::Zeros,
            _ => Shown::Page,
        })
    }

    /// Are all pages of the 2 MiB around one before the limit? Behind it there is nothing: what it cuts has small pages.
    fn holds_large(&self, record: Record, page: u64) -> bool {
        (page | 511) < self.limit(record).div_ceil(4096)
    }

    /// What most faults want: a page where its table has nothing, below entries that are own, and where what is stored
    /// survives. Who calls this [has entered](Cores::enter).
    #[inline(always)]
    pub fn fill_hole(&self, record: Record, page: u64) -> Hole {
        self.fill_entry(self.plain_table(record, page), page)
    }

    /// The same by whoever has come to a table through which the page is reached.
    #[inline(always)]
    pub fn fill_below(&self, record: Record, entered: Entered, page: u64) -> Hole {
        let table = self.plain_table_below(record, self.anchor(record), entered, page);
        self.fill_entry(table, page)
    }

    #[inline(always)]
    fn fill_entry(&self, table: Option<Table>, page: u64) -> Hole {
        let Some(table) = table else { return Hole::None };
        let at = At::new(table.frame, index(page, 1));
        let link = self.load(at);
        if !link.is_empty() {
            return if link.is_out() { Hole::Out(link.frame()) } else { Hole::None };
        }
        let Some(frame) = self.pages.take_next() else { return Hole::None };
        self.memory.zero(frame);
        match self.exchange(at, Link::EMPTY, Link::own(Child { frame, kind: Kind::Page }, true)) {
            true => Hole::Filled { goes_on: self.pages.grows() && self.may_go_on(table, at.index) },
            false => Hole::Lost(frame),
        }
    }

    /// Gives up a page that nobody has seen.
    #[cold]
    pub fn give_page(&self, frame: Frame) {
        self.give(Child { frame, kind: Kind::Page });
    }

    /// Populates pages from `first` on, at most 64 of them, or one of 2 MiB if `huge` and aligned. Returns the first page
    /// that is not populated yet.
    ///
    /// # Errors
    /// Those of [`fault`](Self::fault). What comes before is populated.
    pub fn populate(
        &self,
        record: Record,
        first: u64,
        end: u64,
        huge: bool,
    ) -> Result<u64, Refused> {
        if self.anchor(record).has(crate::Anchor::META) {
            return Err(Refused::Invalid);
        }
        let fits = first.is_multiple_of(512) && end.saturating_sub(first) >= 512;
        if huge && fits && self.holds_large(record, first) {
            return match self.visit(record, first, Goal::FillHuge) {
                Ok(Found::Entry { level: 2, .. }) => Ok(first + 512),
                Ok(_) => Ok(first + 1),
                Err(Refused::NoMemory) => self.populate(record, first, end.min(first + 64), false),
                Err(refused) => Err(refused),
            };
        }
        let end = end.min(first.saturating_add(64));
        let mut page = first;
        while page < end {
            self.cores.enter();
            let next = self.fill_run(record, page, end);
            self.cores.leave();
            if next == page {
                self.fault(record, page, Access::Write)?;
            }
            page = next.max(page + 1);
        }
        Ok(end.max(first))
    }

    /// Walks to a page of an object, and gives back what that left over.
    pub(crate) fn visit(&self, record: Record, page: u64, goal: Goal) -> Result<Found, Refused> {
        self.visit_and(record, page, goal, |found| found)
    }

    /// The same; what is found is used before the walk ends.
    pub(crate) fn visit_and<R>(
        &self,
        record: Record,
        page: u64,
        goal: Goal,
        then: impl FnOnce(Found) -> R,
    ) -> Result<R, Refused> {
        let mut left = Leftovers::new();
        self.cores.enter();
        let found = self
            .permit(record, page)
            .and_then(|top| self.walk(self.path(record, page), top, goal, &mut left));
        let found = found.map(then);
        self.cores.leave();
        self.settle_limbo(left);
        found
    }

    /// Root and order, if the page may be used now.
    pub(crate) fn permit(&self, record: Record, page: u64) -> Result<(Frame, u8), Refused> {
        let anchor = self.anchor(record);
        if !anchor.is_live() {
            return Err(Refused::Gone);
        }
        if anchor.has(crate::Anchor::CUTTING) {
            return Err(Refused::Again);
        }
        let behind = page >= pages_of(anchor.order()) || page << 12 >= self.limit(record);
        match behind {
            true => Err(Refused::Beyond),
            false => Ok((anchor.root(), anchor.order())),
        }
    }

    pub(crate) fn path(&self, record: Record, page: u64) -> Path {
        Path { object: record.id, page, end: self.limit(record).div_ceil(4096) }
    }

    pub(crate) fn walk(
        &self,
        path: Path,
        (root, order): (Frame, u8),
        goal: Goal,
        left: &mut Leftovers,
    ) -> Result<Found, Refused> {
        let (mut table, mut level) = (root, order);
        let mut goal = goal;
        loop {
            if level == 0 || goal == Goal::Enter(level) {
                return Ok(Found::Table(table));
            }
            let at = At::new(table, index(path.page, level));
            let link = match self.entry(path, at, level, goal, left)? {
                Some(link) => link,
                None if goal == Goal::Look => {
                    (table, level, goal) = (root, order, Goal::Show);
                    continue;
                }
                None => return Ok(Found::Hole { at, level }),
            };
            let detached = goal == Goal::Detach && level == 2 && !link.is_entered();
            if level == 1 || link.is_huge() || detached {
                return Ok(Found::Entry { at, link, level });
            }
            table = link.frame();
            level -= 1;
        }
    }

    /// Brings one entry into the state that the walk needs; `None` if nothing is there, nor is to be.
    fn entry(
        &self,
        path: Path,
        at: At,
        level: u8,
        goal: Goal,
        left: &mut Leftovers,
    ) -> Result<Option<Link>, Refused> {
        for _ in 0..ATTEMPTS {
            let link = self.load(at);
            if link.is_claim() {
                self.complete(path, at, level, link);
            } else if link.is_out() {
                return match goal {
                    Goal::Survey | Goal::Own | Goal::Detach | Goal::Reach => Ok(Some(link)),
                    _ => Err(Refused::Out),
                };
            } else if link.is_hole()
                && matches!(
                    goal,
                    Goal::Look | Goal::Survey | Goal::Own | Goal::Detach | Goal::Reach
                )
            {
                return Ok(None);
            } else if link.is_hole() && goal == Goal::Show && path.below(level).end <= path.end {
                let zeros = Link::zeros(self.zeros[level as usize - 1]);
                if link.shows_zeros() || self.exchange(at, link, zeros) {
                    return Ok(None);
                }
            } else if link.is_hole() {
                self.add(path, at, level, link, goal)?;
            } else if link.is_own()
                || matches!(goal, Goal::Look | Goal::Survey)
                || goal == Goal::Detach && level == 2
                || goal == Goal::Reach && level == 1
            {
                return Ok(Some(link));
            } else {
                self.make_own(path, at, level, link, left)?;
            }
        }
        Err(Refused::Again)
    }

    /// Puts an empty page or table where nothing is.
    fn add(&self, path: Path, at: At, level: u8, hole: Link, goal: Goal) -> Result<(), Refused> {
        let kind = match (level, goal) {
            (1, _) => Kind::Page,
            (2, Goal::FillHuge) => Kind::Huge,
            _ => Kind::Table(level - 1),
        };
        let frame = self.pages.take(kind.order())?;
        let child = Child { frame, kind };
        child.each_frame(|frame| self.memory.zero(frame));
        self.save(child);
        if !self.install(path, at, level, hole, child) {
            self.give(child);
        }
        Ok(())
    }

    /// Replaces an own page of 2 MiB by a table of its pages. If the entry has changed, nothing is done.
    ///
    /// # Errors
    /// [`Refused::NoMemory`].
    pub(crate) fn split_huge(&self, path: Path, at: At, huge: Link) -> Result<(), Refused> {
        let frame = self.pages.take(0)?;
        for n in 0..paging::ENTRIES {
            let page = Child { frame: Frame(huge.frame().0 + n as u64), kind: Kind::Page };
            let link = Link::own(page, !self.ordered());
            self.memory.store(At::new(frame, n), link.0);
        }
        self.write_back_frame(frame);
        self.memory.fence();
        let table = Child { frame, kind: Kind::Table(1) };
        if !self.install(path, at, 2, huge, table) {
            self.give(table);
        }
        Ok(())
    }

    /// Makes an entry lead to `child`, whose contents have been written back. `false` if it has changed.
    fn install(&self, path: Path, at: At, level: u8, old: Link, child: Child) -> bool {
        let link = Link::own(child, !self.ordered());
        let replaces = !old.is_empty();
        if !replaces && !self.ordered() {
            return self.exchange(at, old, link);
        }
        let claim = link.claimed(replaces);
        let won = self.exchange(at, old, claim);
        if won {
            self.complete(path, at, level, claim);
        }
        won
    }

    /// Completes a claim, whosever it is: before its page can be reached, the entry is safe, and what it
    /// replaces is forgotten.
    fn complete(&self, path: Path, at: At, level: u8, claim: Link) {
        self.write_back(at);
        self.memory.fence();
        if claim.replaces() {
            self.cores.invalidate(path.object, path.below(level));
        }
        // If it fails, somebody else has done it.
        self.exchange(at, claim, claim.completed());
    }

    /// Makes an entry own that may be shared.
    fn make_own(
        &self,
        path: Path,
        at: At,
        level: u8,
        link: Link,
        left: &mut Leftovers,
    ) -> Result<(), Refused> {
        let old = link.child(level);
        if self.is_alone(old) {
            self.lower_shared(old);
            self.exchange(at, link, link.raised());
            return Ok(());
        }
        if left.is_full() {
            return Err(Refused::Again);
        }
        if old.kind == Kind::Huge && self.pages.grows() {
            return self.divide(path, at, link, left);
        }
        let new = Child { frame: self.pages.take(old.kind.order())?, ..old };
        let copied = self.copy(old, new);
        if copied && self.install(path, at, level, link, new) {
            if self.unshare(old) {
                left.push(old);
            }
        } else {
            left.push(new);
        }
        Ok(())
    }

    /// Replaces a page of 2 MiB that others have, too, by a table of its pages, of which each is copied when it is written to.
    /// (Recovery would have to tell such pages from others: where what is stored survives, all of the 2 MiB is copied.)
    fn divide(&self, path: Path, at: At, link: Link, left: &mut Leftovers) -> Result<(), Refused> {
        let huge = link.child(2);
        let frame = self.pages.take(0)?;
        let table = Child { frame, kind: Kind::Table(1) };
        self.memory.zero(frame);
        self.share_pieces(huge, frame);
        self.save(table);
        if !self.install(path, at, 2, link, table) {
            left.push(table);
        } else if self.unshare(huge) {
            left.push(huge);
        }
        Ok(())
    }

    /// A table is about to be own again: pages that copies of it lead to, too, become shared, and so do all tables:
    /// what is below them may be.
    fn lower_shared(&self, child: Child) {
        let Kind::Table(level) = child.kind else { return };
        for index in 0..paging::ENTRIES {
            let at = At::new(child.frame, index);
            let link = self.load(at);
            let below = link.child(level);
            let is_own = !link.is_hole() && link.is_own();
            if is_own && (matches!(below.kind, Kind::Table(_)) || !self.is_alone(below)) {
                self.exchange(at, link, link.lowered());
                self.write_back(at);
            }
        }
        self.memory.fence();
    }

    /// Copies a page, or a table whose entries are then shared. `false` if the original changed, so that others
    /// have copied it: then the copy is to be given up.
    fn copy(&self, old: Child, new: Child) -> bool {
        let mut same = true;
        match old.kind {
            Kind::Table(level) => {
                self.memory.zero(new.frame);
                same = (0..paging::ENTRIES).all(|index| {
                    let link = self.load(At::new(old.frame, index));
                    if link.is_hole() {
                        return true;
                    }
                    let shared = !link.is_claim() && self.share(link.child(level));
                    if shared {
                        self.memory.store(At::new(new.frame, index), link.lowered().left().0);
                    }
                    shared
                });
            }
            _ => {
                let offset = new.frame.0.wrapping_sub(old.frame.0);
                old.each_frame(|frame| {
                    self.memory.copy(frame, Frame(frame.0.wrapping_add(offset)));
                });
            }
        }
        self.save(new);
        same
    }
}
