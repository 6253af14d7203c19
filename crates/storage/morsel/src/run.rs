//! Runs of pages in one last-level table: one walk for many of them, below entries that are own, and where what is stored
//! survives. Whatever is not so simple is left to [`fault`](Morsels::fault).

use crate::link::{index, pages_of, Child, Kind, Link};
use crate::memory::{At, Cores, Frame, Memory, Pages};
use crate::{Anchor, Morsels, Record, Refused};

/// Most pages that are made beside the one that somebody wants.
const AHEAD: usize = 64;

/// A table of an object that is not reached through the object's root alone: the root itself, or one that is entered. What
/// leads from the root to it is own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entered {
    pub table: Frame,
    /// Each of its entries covers 512^(level - 1) pages; 0: it is a page.
    pub level: u8,
}

/// A last-level table.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub frame: Frame,
    /// The page behind the last that it may have: of the table, or before the limit.
    pub end: u64,
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// The last-level table of a page of an object, if all entries that lead to it are own.
    #[inline(always)]
    pub(crate) fn plain_table(&self, record: Record, page: u64) -> Option<Table> {
        let anchor = self.anchor(record);
        if page >= pages_of(anchor.order()) {
            return None;
        }
        let root = Entered { table: anchor.root(), level: anchor.order() };
        self.plain_table_below(record, anchor, root, page)
    }

    /// The same of who has come to a table through which the page is reached.
    #[inline(always)]
    pub(crate) fn plain_table_below(
        &self,
        record: Record,
        anchor: Anchor,
        entered: Entered,
        page: u64,
    ) -> Option<Table> {
        let limit = self.limit(record);
        if !anchor.is_plain() || page << 12 >= limit || self.ordered() {
            return None;
        }
        // Each level is in line, with its own numbers: this is the way of every fault.
        let mut frame = entered.table;
        if entered.level > 2 {
            if entered.level > 3 {
                frame = self.own_table(frame, page, 4)?;
            }
            frame = self.own_table(frame, page, 3)?;
        }
        if entered.level > 1 {
            frame = self.own_table(frame, page, 2)?;
        }
        let end = ((page | 511) + 1).min(limit.div_ceil(4096));
        (entered.level > 0).then_some(Table { frame, end })
    }

    /// The table on the way to a page to which an entry of a table of `level` leads, if it is own.
    #[inline(always)]
    fn own_table(&self, frame: Frame, page: u64, level: u8) -> Option<Frame> {
        let link = self.load(At::new(frame, index(page, level)));
        (link.is_own() && !link.is_huge()).then(|| link.frame())
    }

    /// Makes pages from `first` on, as long as they are missing or own, up to `end`. Returns the first that is neither.
    /// Who calls this [has entered](Cores::enter).
    pub(crate) fn fill_run(&self, record: Record, first: u64, end: u64) -> u64 {
        match self.plain_table(record, first) {
            Some(table) => self.fill_table(table, first, end),
            None => first,
        }
    }

    fn fill_table(&self, table: Table, first: u64, end: u64) -> u64 {
        let (mut page, end) = (first, end.min(table.end));
        while page < end {
            let here = index(page, 1);
            let link = self.load(At::new(table.frame, here));
            if link.is_own() {
                page += 1;
                continue;
            }
            let is_empty = |n: &usize| self.load(At::new(table.frame, *n)).is_empty();
            let missing = (here..here + (end - page) as usize).take_while(is_empty).count();
            let filled = if missing > 0 { self.fill(table, here, missing) } else { 0 };
            if filled == 0 {
                break;
            }
            page += filled as u64;
        }
        page
    }

    /// Puts pages into entries that were empty, from one on. Returns into how many: fewer if there are no more, or if somebody else
    /// was faster.
    fn fill(&self, table: Table, first: usize, most: usize) -> usize {
        let taken = self.pages.take_run(most).or_else(|| Some((self.pages.take(0).ok()?, 1)));
        let Some((start, count)) = taken else { return 0 };
        self.memory.zero_run(start, count);
        for n in 0..count {
            let frame = Frame(start.0 + n as u64);
            let link = Link::own(Child { frame, kind: Kind::Page }, true);
            if !self.exchange(At::new(table.frame, first + n), Link::EMPTY, link) {
                (n..count).for_each(|n| self.give_page(Frame(start.0 + n as u64)));
                return n;
            }
        }
        count
    }

    /// A page was made because somebody wanted it. If there are some just before it, as many are made behind it, as far as they
    /// are missing: who goes on so finds them, and who does not has at most twice what it needs. Who calls this
    /// [has entered](Cores::enter), and [`fill_below`](Self::fill_below) has said that it may be worth it.
    pub fn fill_ahead(&self, record: Record, page: u64) {
        let Some(table) = self.plain_table(record, page) else { return };
        let here = index(page, 1);
        let before = match here {
            0 if page > 0 => {
                self.plain_table(record, page - 1).map_or(0, |table| self.before(table, 512))
            }
            _ => self.before(table, here),
        };
        self.fill_table(table, page + 1, page + 1 + before as u64);
    }

    /// Is the page before an entry there, so that somebody seems to go on? Of the first of a table that is not known.
    #[inline(always)]
    pub(crate) fn may_go_on(&self, table: Table, entry: usize) -> bool {
        entry == 0 || self.load(At::new(table.frame, entry - 1)).is_own()
    }

    /// How many pages of a table are there just before an entry, of those that count.
    fn before(&self, table: Table, entry: usize) -> usize {
        let is_there = |n: &usize| self.load(At::new(table.frame, *n)).is_own();
        (entry.saturating_sub(AHEAD)..entry).rev().take_while(is_there).count()
    }

    /// The frames of pages from `first` on, which are made if they are missing, and are the object's own as with
    /// [`own_page`](Self::own_page): as many as are asked for, or fewer. Returns how many, at least one.
    ///
    /// # Errors
    /// Those of [`fault`](Self::fault), for the first page.
    pub fn own_pages(
        &self,
        record: Record,
        first: u64,
        frames: &mut [Frame],
    ) -> Result<usize, Refused> {
        let end = first + frames.len() as u64;
        self.cores.enter();
        self.fill_run(record, first, end);
        let mut count = 0;
        if let Some(table) = self.plain_table(record, first) {
            for (page, frame) in (first..end.min(table.end)).zip(&mut *frames) {
                let link = self.load(At::new(table.frame, index(page, 1)));
                if !link.is_own() {
                    break;
                }
                *frame = link.frame();
                count += 1;
            }
        }
        self.cores.leave();
        if let (0, Some(frame)) = (count, frames.first_mut()) {
            *frame = self.own_page(record, first)?;
            count = 1;
        }
        Ok(count)
    }
}
