//! Stores that are to survive, and how many lead to a frame.

use crate::link::{Child, Kind, Link};
use crate::memory::{At, Cores, Domain, Frame, Memory, Pages, LINES};
use crate::Morsels;

/// The descriptor of a frame, which is rebuilt by recovery and never written back.
///
/// ```text
/// of a root or a table that is entered:   1 | 0…0 | first page / 512 (27) | record (24)
/// of others:                0 | dead | … | found (5) | entries besides the first that lead to it (32)
/// of the first of 2 MiB:    … | broken | pieces | entries besides the first that lead to all of it (20) | …
/// ```
///
/// The last only in a pool that is never recovered: there pages of 2 MiB may be shared in pieces (`share_pieces`).
///
/// *Found* is what [recovery](crate::Recovery) compares: whoever leads to a frame must take it for the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State(pub u64);

const ROOT: u64 = 1 << 63;
/// Nobody leads to it any more, but somebody may still be looking at it.
const DEAD: u64 = 1 << 62;
const COUNT: u64 = u32::MAX as u64;
/// An entry leads to it in which it can be written.
const FOUND_OWN: u64 = 1 << 36;
/// One entry besides the first that leads to all of the 2 MiB, and all of them.
const WHOLE: u64 = 1 << 40;
const WHOLE_COUNT: u64 = 0xf_ffff * WHOLE;
/// There are, or were, entries that lead to single pages of it.
const PIECES: u64 = 1 << 60;
/// No entry leads to all of it any more.
const BROKEN: u64 = 1 << 61;

impl State {
    pub fn root(record: u32, first: u64) -> State {
        State(ROOT | (first >> 9) << 24 | record as u64)
    }
    /// The record, and where in its object the table begins.
    pub fn entered(self) -> Option<(u32, u64)> {
        let record = (self.0 & 0xff_ffff) as u32;
        (self.0 & ROOT != 0).then_some((record, (self.0 & !ROOT) >> 24 << 9))
    }
    /// What recovery has found: a first entry that leads to it.
    pub(crate) fn found(kind: Kind, own: bool) -> State {
        let kind = match kind {
            Kind::Page => 1,
            Kind::Huge => 2,
            Kind::Table(level) => 2 + level as u64,
        };
        State(kind << 32 | if own { FOUND_OWN } else { 0 })
    }
    /// May one more entry lead to what has been found so?
    pub(crate) fn may_be_shared(self, as_what: State) -> bool {
        self.0 & !COUNT == as_what.0 && self.0 & FOUND_OWN == 0
    }
    /// The same of all of 2 MiB, in a pool where it may be shared in pieces, or not.
    pub fn whole_sharers(self, in_pieces: bool) -> u64 {
        match in_pieces {
            true => (self.0 & WHOLE_COUNT) / WHOLE,
            false => self.sharers(),
        }
    }
    /// Entries besides the first that lead to it.
    pub fn sharers(self) -> u64 {
        match self.0 & ROOT {
            0 => self.0 & COUNT,
            _ => 0,
        }
    }
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Does a page that is reachable need to be reachable after a power failure?
    pub(crate) fn ordered(&self) -> bool {
        self.memory.domain() == Domain::Memory
    }

    /// Stores a word and begins to write it back.
    #[track_caller]
    pub(crate) fn put(&self, at: At, value: u64) {
        self.memory.store(at, value);
        self.write_back(at);
    }
    #[track_caller]
    pub(crate) fn write_back(&self, at: At) {
        if self.ordered() {
            self.memory.write_back(at.frame, at.line());
        }
    }
    #[track_caller]
    pub(crate) fn write_back_frame(&self, frame: Frame) {
        if self.ordered() {
            for line in 0..LINES {
                self.memory.write_back(frame, line);
            }
        }
    }

    /// All of it is in memory when this returns.
    #[track_caller]
    pub(crate) fn save(&self, child: Child) {
        child.each_frame(|frame| self.write_back_frame(frame));
        self.memory.fence();
    }

    pub(crate) fn load(&self, at: At) -> Link {
        Link(self.memory.load(at))
    }
    pub(crate) fn exchange(&self, at: At, old: Link, new: Link) -> bool {
        self.memory.compare_exchange(at, old.0, new.0).is_ok()
    }

    /// Is it a page of 2 MiB that may be shared in pieces?
    fn has_pieces(&self, child: Child) -> bool {
        child.kind == Kind::Huge && self.pages.grows()
    }

    /// The state of a child's first frame, what one entry that leads to the child counts there, and what says that none does.
    fn counted(&self, child: Child) -> (u64, u64, u64) {
        match self.has_pieces(child) {
            true => (WHOLE_COUNT, WHOLE, BROKEN),
            false => (COUNT, 1, DEAD),
        }
    }

    /// Does no other entry lead to it, or to a part of it?
    pub(crate) fn is_alone(&self, child: Child) -> bool {
        let state = self.pages.descriptor(child.frame);
        if !self.has_pieces(child) {
            return State(state).sharers() == 0;
        }
        let mut has_piece = false;
        if state & PIECES != 0 {
            child.each_frame(|frame| {
                has_piece |= State(self.pages.descriptor(frame)).sharers() > 0;
            });
        }
        state & WHOLE_COUNT == 0 && !has_piece
    }

    /// One more entry leads to it; `false` if it was given up in the meantime.
    #[inline(always)]
    pub(crate) fn share(&self, child: Child) -> bool {
        let (_, one, none) = self.counted(child);
        let more = |old| (old & (none | ROOT) == 0).then_some(old + one);
        self.pages.change_descriptor(child.frame, more).is_some()
    }

    /// One entry less leads to it; `true` if it was the last. Then it is the caller's, who gives it up by
    /// [`release`](Self::release) once nobody looks at it.
    #[inline(always)]
    pub(crate) fn unshare(&self, child: Child) -> bool {
        let (count, one, none) = self.counted(child);
        let is_shared = |old: u64| old & ROOT == 0 && old & count != 0;
        let less = |old| {
            Some(match (is_shared(old), none) {
                (true, _) => old - one,
                // Who leads to pieces of it is counted still.
                (false, BROKEN) => old | BROKEN,
                (false, _) => DEAD,
            })
        };
        self.pages.change_descriptor(child.frame, less).is_some_and(|old| !is_shared(old))
    }

    /// One more entry leads to each page of the 2 MiB, by itself: fills `table` with them. Whoever leads to all of it counts as one who
    /// leads to each.
    pub(crate) fn share_pieces(&self, huge: Child, table: Frame) {
        let mut old = self.pages.descriptor(huge.frame);
        while let Err(now) = self.pages.exchange_descriptor(huge.frame, old, old | PIECES) {
            old = now;
        }
        let mut index = 0;
        huge.each_frame(|frame| {
            let piece = Child { frame, kind: Kind::Page };
            // Nobody gives it up: the caller leads to all of it still.
            if self.share(piece) {
                let link = Link::own(piece, !self.ordered()).lowered();
                self.memory.store(At::new(table, index), link.0);
            }
            index += 1;
        });
    }

    /// Nobody leads to all of the 2 MiB any more: gives up the pages to which nobody leads either.
    fn release_pieces(&self, huge: Child) {
        let pieces = (huge.frame.0..).take(paging::ENTRIES).map(Frame);
        self.give_pages(pieces.filter(|&frame| self.unshare(Child { frame, kind: Kind::Page })));
    }

    /// Gives up what no entry leads to, no core has cached and nobody looks at.
    ///
    /// A table takes with it what it alone led to. Bound: 512 children of a last-level table. A higher table comes
    /// here only after its copy was made, so that others lead to its children.
    pub(crate) fn release(&self, child: Child) {
        if let Kind::Table(level) = child.kind {
            let links = (0..paging::ENTRIES).map(|index| self.load(At::new(child.frame, index)));
            let alone = links.filter(|link| !link.is_hole() && self.unshare(link.child(level)));
            match level {
                1 => self.give_pages(alone.map(Link::frame)),
                _ => alone.for_each(|link| self.release(link.child(level))),
            }
        }
        if self.has_pieces(child) && self.pages.descriptor(child.frame) & PIECES != 0 {
            return self.release_pieces(child);
        }
        self.give(child);
    }

    pub(crate) fn give(&self, child: Child) {
        self.pages.set_descriptor(child.frame, 0);
        self.pages.give(child.frame, child.kind.order());
    }

    /// The same of pages: what lies in a row goes back together.
    pub(crate) fn give_pages(&self, pages: impl Iterator<Item = Frame>) {
        let (mut first, mut count) = (Frame(0), 0);
        for frame in pages {
            self.pages.set_descriptor(frame, 0);
            if frame.0 != first.0 + count as u64 && count > 0 {
                self.pages.give_run(first, count);
                count = 0;
            }
            if count == 0 {
                first = frame;
            }
            count += 1;
        }
        if count > 0 {
            self.pages.give_run(first, count);
        }
    }
}

/// What was taken out of a tree: to be given back when everybody has left who may be looking at it.
///
/// It can be got rid of only by [`Morsels::settle_limbo`], which waits.
#[must_use]
pub(crate) struct Limbo<const N: usize> {
    children: [Option<Child>; N],
    count: usize,
}

impl<const N: usize> Limbo<N> {
    pub fn new() -> Self {
        Limbo { children: [None; N], count: 0 }
    }
    pub fn is_full(&self) -> bool {
        self.count == N
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    pub fn room(&self) -> usize {
        N - self.count
    }
    /// Takes over what is in another, which is smaller.
    pub fn append<const L: usize>(&mut self, other: Limbo<L>) {
        other.children.into_iter().flatten().for_each(|child| self.push(child));
    }
    pub fn push(&mut self, child: Child) {
        debug_assert!(!self.is_full());
        self.children[self.count] = Some(child);
        self.count += 1;
    }
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Waits until nobody looks at what is in limbo, and gives it back.
    #[inline(always)]
    pub(crate) fn settle_limbo<const N: usize>(&self, limbo: Limbo<N>) {
        if limbo.count > 0 {
            self.settle_all(&limbo.children[..limbo.count]);
        }
    }

    #[inline(never)]
    fn settle_all(&self, children: &[Option<Child>]) {
        self.cores.grace();
        let children = || children.iter().flatten();
        let is_page = |child: &&Child| child.kind == Kind::Page;
        self.give_pages(children().filter(is_page).map(|page| page.frame));
        children().filter(|child| !is_page(child)).for_each(|child| self.release(*child));
    }
}
