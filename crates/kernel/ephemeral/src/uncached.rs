//! What the mapping cache is compared with: an address for each mapping, a translation that is made, taken away
//! and forgotten everywhere. The *original* of the paper's figures.

use crate::buffers::{Broken, Buffers, RUN};
use crate::{AllocError, Cores, Counters, Flags, Holder, Machine, Mapping, Windows};

/// See the head of this file. `SINGLES` windows for single pages, and `RUNS` times [`RUN`] for runs.
pub struct Uncached<M: Machine, const SINGLES: usize, const RUNS: usize> {
    machine: M,
    singles: Buffers<(), SINGLES>,
    runs: Buffers<u8, RUNS>,
    counters: Counters,
}

impl<M: Machine, const SINGLES: usize, const RUNS: usize> Uncached<M, SINGLES, RUNS> {
    /// Windows that it takes.
    pub const WINDOWS: usize = SINGLES + RUNS * RUN;

    /// None is in use.
    pub fn new(machine: M) -> Self {
        let cores = machine.cores();
        Uncached {
            singles: Buffers::new(0, 1, cores),
            runs: Buffers::new(SINGLES, RUN, cores),
            counters: Counters::default(),
            machine,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Is everything as it should be?
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Broken> {
        self.singles.check_list()?;
        self.runs.check_list()
    }

    /// Calls `visit` with each window that shows something though nobody uses it: there is none.
    pub fn for_each(&self, visit: impl FnMut(usize, M::Page, bool)) {
        core::mem::drop(visit);
    }

    fn unmap(&mut self, first: usize, count: usize) {
        let Uncached { machine, counters, .. } = self;
        machine.clear(first, count);
        machine.invalidate_here(first, count);
        counters.local += 1;
        let others = machine.cores().without(Cores::one(machine.here()));
        if !others.is_empty() {
            machine.invalidate_on(others, first, count);
            counters.remote += 1;
        }
    }
}

impl<M: Machine, const SINGLES: usize, const RUNS: usize> Windows for Uncached<M, SINGLES, RUNS> {
    type Page = M::Page;

    fn claim(&mut self, page: M::Page, _: Flags) -> Option<Mapping<M::Page>> {
        let buffer = self.singles.take_oldest()?;
        let this = self.singles.get_mut(buffer);
        this.users = 1;
        self.counters.misses += 1;
        self.machine.point(this.window, &[page]);
        let address = self.machine.address(this.window);
        Some(Mapping { address, page, holder: Holder::Single(buffer) })
    }

    fn claim_run(&mut self, pages: &[M::Page], _: Flags) -> Result<Mapping<M::Page>, AllocError> {
        let Some(&page) = pages.first().filter(|_| pages.len() <= RUN && RUNS > 0) else {
            return Err(AllocError::Scattered);
        };
        let buffer = self.runs.take_oldest().ok_or(AllocError::Busy)?;
        let this = self.runs.get_mut(buffer);
        (this.users, this.shown) = (1, Some(pages.len() as u8));
        self.counters.misses += 1;
        self.machine.point(this.window, pages);
        let address = self.machine.address(this.window);
        Ok(Mapping { address, page, holder: Holder::Run(buffer) })
    }

    fn release(&mut self, mapping: &Mapping<M::Page>) -> bool {
        match mapping.holder {
            Holder::Single(buffer) => {
                let this = self.singles.get_mut(buffer);
                this.users = 0;
                let window = this.window;
                self.unmap(window, 1);
                self.singles.list(buffer);
            }
            Holder::Run(buffer) => {
                let this = self.runs.get_mut(buffer);
                this.users = 0;
                let (window, count) = (this.window, this.shown.take().unwrap_or_default());
                self.unmap(window, usize::from(count));
                self.runs.list(buffer);
            }
            Holder::Nobody => return false,
        }
        true
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
