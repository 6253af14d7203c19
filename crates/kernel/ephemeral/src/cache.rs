//! The mapping cache (SFB §4.2): windows that keep showing their pages after use.
//!
//! What a hit and a miss do, and in which order, is the paper's, but for one thing. There a miss whose old entry
//! was not accessed has all cores in the set of those that may use the window. But if the mapping before *that* was
//! used on another core, and the miss after it private, that core has never forgotten it. So the set then stays
//! what it is, and is what the paper says as long as nothing is private.

use crate::buffers::{Broken, Buffers, Run, Shown, RUN};
use crate::{Action, AllocError, Cores, Counters, Flags, Holder, Machine, Mapping, Windows};

/// A cache of `SINGLES` mappings of single pages, in windows 0 to `SINGLES - 1`, and `RUNS` of runs, in the
/// [`RUN`] windows of each behind these.
pub struct Cache<M: Machine, const SINGLES: usize, const RUNS: usize> {
    machine: M,
    singles: Buffers<Single<M>, SINGLES>,
    runs: Buffers<Many<M>, RUNS>,
    counters: Counters,
}

/// A page of the machine.
pub(crate) struct Single<M: Machine>(pub M::Page);

impl<M: Machine> Clone for Single<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Single<M> {}
impl<M: Machine> PartialEq for Single<M> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<M: Machine> Eq for Single<M> {}
impl<M: Machine> Shown for Single<M> {
    #[inline]
    fn number(&self) -> u64 {
        M::number(&self.0)
    }
}

/// Pages of the machine, side by side.
struct Many<M: Machine>(Run<M::Page>);

impl<M: Machine> Clone for Many<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Many<M> {}
impl<M: Machine> PartialEq for Many<M> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<M: Machine> Eq for Many<M> {}
impl<M: Machine> Shown for Many<M> {
    #[inline]
    fn number(&self) -> u64 {
        self.0.pages().iter().fold(0, |all: u64, page| all.rotate_left(7) ^ M::number(page))
    }
}

/// What the pages of a buffer are, for the machine.
pub(crate) trait Pages<M: Machine>: Shown {
    /// Windows of each buffer. What is to be forgotten are all, however few of them are shown by a run:
    /// the set of cores is about all.
    const WINDOWS: usize;
    fn pages(&self) -> &[M::Page];
}

impl<M: Machine> Pages<M> for Single<M> {
    const WINDOWS: usize = 1;
    #[inline]
    fn pages(&self) -> &[M::Page] {
        core::slice::from_ref(&self.0)
    }
}
impl<M: Machine> Pages<M> for Many<M> {
    const WINDOWS: usize = RUN;
    #[inline]
    fn pages(&self) -> &[M::Page] {
        self.0.pages()
    }
}

/// A buffer for `shown`. `None`: all are in use.
#[inline]
pub(crate) fn claim<M: Machine, S: Pages<M>, const N: usize>(
    machine: &mut M,
    buffers: &mut Buffers<S, N>,
    counters: &mut Counters,
    shown: S,
    flags: Flags,
) -> Option<u32> {
    let buffer = match buffers.find(&shown) {
        Some(buffer) => {
            counters.hits += 1;
            make_current(machine, buffers, counters, buffer, flags);
            if buffers.get(buffer).users == 0 {
                buffers.unlist(buffer);
                machine.note(Action::Unlist);
            }
            buffers.get_mut(buffer).users += 1;
            machine.note(Action::Count);
            buffer
        }
        None => {
            let buffer = buffers.take_oldest()?;
            machine.note(Action::TakeOldest);
            counters.misses += 1;
            if buffers.get(buffer).shown.is_some() {
                buffers.unhash(buffer);
                machine.note(Action::Unhash);
            }
            buffers.hash(buffer, shown);
            buffers.get_mut(buffer).users = 1;
            machine.note(Action::Assign);
            if machine.point(buffers.get(buffer).window, shown.pages()) {
                buffers.get_mut(buffer).cores = Cores::NONE;
                machine.note(Action::EmptyCores);
            }
            make_current(machine, buffers, counters, buffer, flags);
            buffer
        }
    };
    machine.note(Action::Return);
    Some(buffer)
}

/// Has those cores forget what a buffer showed before that may use it now and have not forgotten it.
#[inline]
fn make_current<M: Machine, S: Pages<M>, const N: usize>(
    machine: &mut M,
    buffers: &mut Buffers<S, N>,
    counters: &mut Counters,
    buffer: u32,
    flags: Flags,
) {
    let this = buffers.get_mut(buffer);
    let here = machine.here();
    if !this.cores.has(here) {
        machine.invalidate_here(this.window, S::WINDOWS);
        counters.local += 1;
        this.cores = this.cores.with(Cores::one(here));
        machine.note(Action::AddHere);
    }
    let others = machine.cores().without(this.cores);
    if !flags.has(Flags::PRIVATE) && !others.is_empty() {
        machine.invalidate_on(others, this.window, S::WINDOWS);
        counters.remote += 1;
        this.cores = this.cores.with(others);
        machine.note(Action::AddOthers);
    }
}

/// One user less. Returns whether there are none now.
#[inline]
pub(crate) fn release<S: Copy + Eq, const N: usize>(
    buffers: &mut Buffers<S, N>,
    buffer: u32,
) -> bool {
    let users = &mut buffers.get_mut(buffer).users;
    *users = users.saturating_sub(1);
    let is_last = *users == 0;
    if is_last {
        buffers.list(buffer);
    }
    is_last
}

impl<M: Machine, const SINGLES: usize, const RUNS: usize> Cache<M, SINGLES, RUNS> {
    /// Windows that it takes.
    pub const WINDOWS: usize = SINGLES + RUNS * RUN;

    /// A cache over the first [`WINDOWS`](Self::WINDOWS) windows, which nobody has used.
    pub fn new(machine: M) -> Self {
        let cores = machine.cores();
        Cache {
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
        self.singles.check()?;
        self.runs.check()
    }

    /// Calls `visit` with each window that shows something, the page, and whether somebody uses it.
    pub fn for_each(&self, mut visit: impl FnMut(usize, M::Page, bool)) {
        for (window, page, used) in self.singles.shown() {
            visit(window, page.0, used);
        }
        for (first, run, used) in self.runs.shown() {
            for (n, &page) in run.0.pages().iter().enumerate() {
                visit(first + n, page, used);
            }
        }
    }
}

impl<M: Machine, const SINGLES: usize, const RUNS: usize> Windows for Cache<M, SINGLES, RUNS> {
    type Page = M::Page;

    #[inline]
    fn claim(&mut self, page: M::Page, flags: Flags) -> Option<Mapping<M::Page>> {
        let Cache { machine, singles, counters, .. } = self;
        let buffer = claim(machine, singles, counters, Single(page), flags)?;
        let address = machine.address(singles.get(buffer).window);
        Some(Mapping { address, page, holder: Holder::Single(buffer) })
    }

    #[inline]
    fn claim_run(
        &mut self,
        pages: &[M::Page],
        flags: Flags,
    ) -> Result<Mapping<M::Page>, AllocError> {
        let Cache { machine, runs, counters, .. } = self;
        let (&page, run) = pages.first().zip(Run::new(pages)).ok_or(AllocError::Scattered)?;
        if RUNS == 0 {
            return Err(AllocError::Scattered);
        }
        let buffer = claim(machine, runs, counters, Many(run), flags).ok_or(AllocError::Busy)?;
        let address = machine.address(runs.get(buffer).window);
        Ok(Mapping { address, page, holder: Holder::Run(buffer) })
    }

    #[inline]
    fn release(&mut self, mapping: &Mapping<M::Page>) -> bool {
        match mapping.holder {
            Holder::Single(buffer) => release(&mut self.singles, buffer),
            Holder::Run(buffer) => release(&mut self.runs, buffer),
            Holder::Nobody => false,
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
