//! Memory whose page faults the program serves itself (`userfaultfd`): the bookkeeping.
//!
//! A page that is *registered* is served by somebody. While it is *hidden* the processor is given fewer rights than the program
//! has: none while it is [missing](Why::Missing), all but to write while it is [protected](Why::Protected). So what is
//! served is found where rights are: no table has a bit for it, and memory that nobody registered knows nothing of it.
//! What rights the program has by itself is remembered with each hidden page, and changed where it changes them.
//!
//! All positions are pages.
#![no_std]

extern crate alloc;

mod runs;

use alloc::vec::Vec;
pub use runs::Runs;

/// Rights, as bits: to read, to write, to execute.
pub mod right {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const EXECUTE: u8 = 4;
    pub const ALL: u8 = 7;
}

/// How a page is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// By whom.
    pub who: u32,
    /// Faults of pages that are missing are served.
    pub missing: bool,
    /// Faults of pages of shared memory that are there, and that this mapping has not been shown yet, are served.
    pub minor: bool,
    /// Writes to pages that are protected are served.
    pub protected: bool,
}

/// Why a page is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    Missing,
    Protected,
}

/// A page with fewer rights than the program has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hidden {
    pub why: Why,
    /// The program's rights.
    pub rights: u8,
}

impl Hidden {
    /// What the processor is given.
    pub const fn shown(self) -> u8 {
        match self.why {
            Why::Missing => 0,
            Why::Protected => self.rights & !right::WRITE,
        }
    }
}

/// What is registered and hidden in an address space.
#[derive(Clone, Debug)]
pub struct Watched {
    registered: Runs<Mode>,
    hidden: Runs<Hidden>,
}

/// A part of a range, and the rights that the processor is to be given there.
pub type Part = (u64, u64, u8);

impl Watched {
    /// Nothing.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Watched {
        Watched { registered: Runs::new(), hidden: Runs::new() }
    }

    /// Is nothing registered?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    /// How a page is registered.
    pub fn mode(&self, page: u64) -> Option<Mode> {
        self.registered.get(page)
    }

    /// The same, and how far, at most up to `end`, that is so of the pages behind it.
    pub fn hidden_run(&self, page: u64, end: u64) -> (Option<Hidden>, u64) {
        self.hidden.run(page, end)
    }

    /// Why a page is hidden, and with what rights.
    pub fn hidden(&self, page: u64) -> Option<Hidden> {
        self.hidden.get(page)
    }

    /// The parts of a range that are registered.
    pub fn registered(&self, start: u64, end: u64) -> Vec<(u64, u64, Mode)> {
        self.registered.within(start, end)
    }

    /// All that somebody has registered.
    pub fn of(&self, who: u32) -> Vec<(u64, u64)> {
        let all = self.registered.within(0, u64::MAX);
        all.into_iter()
            .filter(|(.., mode)| mode.who == who)
            .map(|(from, to, _)| (from, to))
            .collect()
    }

    /// Is all of a range registered, and in a way?
    pub fn is_registered(&self, start: u64, end: u64, fits: impl Fn(Mode) -> bool) -> bool {
        let mut at = start;
        for (from, to, mode) in self.registered.within(start, end) {
            if from != at || !fits(mode) {
                return false;
            }
            at = to;
        }
        at == end
    }

    /// Registers a range, whose parts may have been registered by the same.
    pub fn register(&mut self, start: u64, end: u64, mode: Mode) {
        self.registered.set(start, end, mode);
    }

    /// Hides pages. Answers what the processor is given.
    pub fn hide(&mut self, start: u64, end: u64, hidden: Hidden) -> u8 {
        self.hidden.set(start, end, hidden);
        hidden.shown()
    }

    /// Pages of a range that are hidden for a reason.
    pub fn hidden_within(&self, start: u64, end: u64, why: Why) -> Vec<(u64, u64, u8)> {
        let all = self.hidden.within(start, end).into_iter();
        all.filter(|(.., hidden)| hidden.why == why)
            .map(|(a, b, hidden)| (a, b, hidden.rights))
            .collect()
    }

    /// Pages are not hidden any more. Answers the program's rights in them.
    pub fn show(&mut self, start: u64, end: u64) -> Vec<Part> {
        let parts = self.hidden.within(start, end);
        self.hidden.clear(start, end);
        parts.into_iter().map(|(from, to, hidden)| (from, to, hidden.rights)).collect()
    }

    /// A range is not registered any more, nor hidden. Answers the program's rights where it was.
    pub fn forget(&mut self, start: u64, end: u64) -> Vec<Part> {
        self.registered.clear(start, end);
        self.show(start, end)
    }

    /// The same, with what was there, for [`put_back`](Self::put_back).
    pub fn lift(&mut self, start: u64, end: u64) -> (Watched, Vec<Part>) {
        let mut lifted = Watched::new();
        for (from, to, mode) in self.registered.within(start, end) {
            lifted.registered.set(from, to, mode);
        }
        for (from, to, hidden) in self.hidden.within(start, end) {
            lifted.hidden.set(from, to, hidden);
        }
        (lifted, self.forget(start, end))
    }

    /// The program's rights in all pages that are hidden.
    pub fn shown_again(&self) -> Vec<Part> {
        let all = self.hidden.within(0, u64::MAX).into_iter();
        all.map(|(from, to, hidden)| (from, to, hidden.rights)).collect()
    }

    /// The same at other addresses: so many pages of it, from one on, as far as those who had registered it are to have it there, too.
    pub fn moved(
        &self,
        (from, pages): (u64, u64),
        to: u64,
        follows: impl Fn(u32) -> bool,
    ) -> Watched {
        let mut moved = Watched::new();
        let there = |page: u64| page - from + to;
        for (start, end, mode) in self.registered.within(from, from + pages) {
            if follows(mode.who) {
                moved.registered.set(there(start), there(end), mode);
                for (start, end, hidden) in self.hidden.within(start, end) {
                    moved.hidden.set(there(start), there(end), hidden);
                }
            }
        }
        moved
    }

    /// Registers and hides what was. Answers what the processor is given.
    pub fn put_back(&mut self, lifted: &Watched) -> Vec<Part> {
        for (from, to, mode) in lifted.registered.within(0, u64::MAX) {
            self.registered.set(from, to, mode);
        }
        let hide = |(from, to, hidden): (u64, u64, Hidden)| (from, to, self.hide(from, to, hidden));
        lifted.hidden.within(0, u64::MAX).into_iter().map(hide).collect()
    }

    /// The program changes its rights in a range. Answers what the processor is given, in all parts of it.
    pub fn protect(&mut self, start: u64, end: u64, rights: u8) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut at = start;
        for (from, to, hidden) in self.hidden.within(start, end) {
            if at < from {
                parts.push((at, from, rights));
            }
            let hidden = Hidden { rights, ..hidden };
            parts.push((from, to, hidden.shown()));
            self.hidden.set(from, to, hidden);
            at = to;
        }
        if at < end {
            parts.push((at, end, rights));
        }
        parts
    }

    /// Who serves an access of the program that its rights allow and the processor does not, and why.
    pub fn serves(&self, page: u64, access: u8) -> Option<(Mode, Why)> {
        let Hidden { why, rights } = self.hidden.get(page)?;
        let fits = rights & access == access && (why == Why::Missing || access & right::WRITE != 0);
        Some((self.registered.get(page).filter(|_| fits)?, why))
    }
}
