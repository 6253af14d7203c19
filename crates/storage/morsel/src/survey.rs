//! Which pages of an object are there: for who counts them, and for who looks for the next page or hole.

use crate::link::{span, Link};
use crate::memory::{At, Cores, Memory, Pages};
use crate::walk::{Found, Goal};
use crate::{Morsels, Record, Refused};

/// Where to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// At the end of the range.
    End,
    /// At a page that is there.
    Page,
    /// At one that is not.
    Hole,
}

/// How far a step has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// The page that was looked for, or the first that was not looked at.
    pub next: u64,
    /// Pages before it that are there.
    pub pages: u64,
    /// Those of them that are in pages of 2 MiB, of which all was looked at.
    pub large: u64,
    /// Pages before it that are in a store. They are not holes, but are not counted among those that are there.
    pub out: u64,
    /// It is the one that was looked for.
    pub found: bool,
}

/// Pages of a range that are alike, as an entry says.
struct Run {
    pages: u64,
    is_there: bool,
    is_out: bool,
    /// It is all of a large page.
    is_large: bool,
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Looks at pages from `first` up to `end`, or until one is found, but no further than to the end of a table. Nothing
    /// changes. Behind the limit is nothing, and what others populate or discard meanwhile may be seen or not.
    ///
    /// Bound: a path down, and the entries of a table.
    ///
    /// # Errors
    /// [`Refused::Gone`], and [`Refused::Again`] while a snapshot is taken.
    pub fn survey(
        &self,
        record: Record,
        first: u64,
        end: u64,
        until: Until,
    ) -> Result<Survey, Refused> {
        let mut survey = Survey { next: first, pages: 0, large: 0, out: 0, found: false };
        if first >= end {
            return Ok(survey);
        }
        let limit = self.limit(record).div_ceil(4096);
        let looked_at = self.visit_and(record, first, Goal::Survey, |found| {
            let end = end.min(limit.max(first + 1));
            self.runs(found, (first, end), |run| survey.pass(run, end, until));
        });
        match looked_at {
            // All that is left is a hole.
            Err(Refused::Beyond) => {
                let run =
                    Run { pages: end - first, is_there: false, is_out: false, is_large: false };
                survey.pass(run, end, until);
                Ok(survey)
            }
            looked_at => looked_at.map(|()| survey),
        }
    }

    /// The runs of a table from a page on, until `pass` has enough. Those behind the end need not be looked at.
    fn runs(&self, found: Found, (first, end): (u64, u64), mut pass: impl FnMut(Run) -> bool) {
        let (at, level) = match found {
            Found::Table(_) => {
                pass(Run { pages: 1, is_there: true, is_out: false, is_large: false });
                return;
            }
            Found::Hole { at, level } | Found::Entry { at, level, .. } => (at, level),
        };
        if level == 1 {
            return self.runs_of_pages(at, end.saturating_sub(first), pass);
        }
        let mut inside = first & (span(level) - 1);
        for index in at.index..paging::ENTRIES {
            let link: Link = self.load(At::new(at.frame, index));
            let is_table = !link.is_hole() && !link.is_huge();
            let is_large = link.is_huge() && inside == 0;
            let (is_there, is_out) = (!link.is_hole(), link.is_out());
            let run = Run { pages: span(level) - inside, is_there, is_out, is_large };
            if is_table || !pass(run) {
                return;
            }
            inside = 0;
        }
    }

    /// The same of the lowest tables: pages that are alike are one run, as most are.
    fn runs_of_pages(&self, at: At, most: u64, mut pass: impl FnMut(Run) -> bool) {
        let kind = |index: usize| {
            let link: Link = self.load(At::new(at.frame, index));
            (!link.is_hole(), link.is_out())
        };
        let (mut index, all) = (at.index, paging::ENTRIES - at.index);
        let end = at.index + all.min(usize::try_from(most).unwrap_or(all));
        while index < end {
            let (is_there, is_out) = kind(index);
            let first = index;
            index += 1;
            while index < end && kind(index) == (is_there, is_out) {
                index += 1;
            }
            let pages = (index - first) as u64;
            if !pass(Run { pages, is_there, is_out, is_large: false }) {
                return;
            }
        }
    }
}

impl Survey {
    /// Goes on over a run, up to the end. Returns `false` if there is no more to be looked at.
    fn pass(&mut self, run: Run, end: u64, until: Until) -> bool {
        self.found = match until {
            Until::End => false,
            Until::Page => run.is_there,
            Until::Hole => !run.is_there,
        };
        if self.found {
            return false;
        }
        let pages = run.pages.min(end - self.next);
        self.next += pages;
        if run.is_out {
            self.out += pages;
        } else if run.is_there {
            self.pages += pages;
            self.large += if run.is_large && pages == run.pages { pages } else { 0 };
        }
        self.next < end
    }
}
