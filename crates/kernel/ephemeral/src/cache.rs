//! The mapping cache (SFB §4.2): windows that keep showing their pages after use.
//!
//! What a hit and a miss do, and in which order, is the paper's, but for one thing. There a miss whose old entry
//! was not accessed has all cores in the set of those that may use the window. But if the mapping before *that* was
//! used on another core, and the miss after it private, that core has never forgotten it. So the set then stays
//! what it is, and is what the paper says as long as nothing is private.

use crate::buffers::{Broken, Buffer, Buffers, Run, Shown, RUN};
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
            hit(machine, buffers, counters, buffer, flags);
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

/// One user more of a buffer that shows what is asked for.
#[inline]
fn hit<M: Machine, S: Pages<M>, const N: usize>(
    machine: &mut M,
    buffers: &mut Buffers<S, N>,
    counters: &mut Counters,
    buffer: u32,
    flags: Flags,
) {
    counters.hits += 1;
    make_current(machine, buffers, counters, buffer, flags);
    if buffers.get(buffer).users == 0 {
        buffers.unlist(buffer);
        machine.note(Action::Unlist);
    }
    buffers.get_mut(buffer).users += 1;
    machine.note(Action::Count);
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
        Cache::on(machine, cores)
    }

    /// The same for a machine with these cores.
    pub const fn on(machine: M, cores: Cores) -> Self {
        Cache {
            singles: Buffers::new(0, 1, cores),
            runs: Buffers::new(SINGLES, RUN, cores),
            counters: Counters::NONE,
            machine,
        }
    }

    /// The machine.
    #[inline(always)]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine, to be changed.
    #[inline(always)]
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// A mapping of a page that has this number and is `meant`, if there is one: a hit.
    #[inline]
    pub fn find(
        &mut self,
        number: u64,
        meant: impl Fn(&M::Page) -> bool,
        flags: Flags,
    ) -> Option<Mapping<M::Page>> {
        let Cache { machine, singles, counters, .. } = self;
        let buffer = singles.find_by(number, |shown| meant(&shown.0))?;
        hit(machine, singles, counters, buffer, flags);
        let Buffer { window, shown, .. } = singles.get(buffer);
        let page = shown.as_ref()?.0;
        Some(Mapping { address: machine.address(*window), page, holder: Holder::Single(buffer) })
    }

    /// Single pages that are `gone` are not found any more. A window that nobody uses shows nothing then; the others are
    /// to be cleared [later](Self::clear_forgotten).
    pub fn forget(&mut self, gone: impl Fn(&M::Page) -> bool) {
        for buffer in 0..SINGLES as u32 {
            if self.singles.get(buffer).shown.as_ref().is_some_and(|shown| gone(&shown.0)) {
                self.forget_buffer(buffer);
            }
        }
    }

    /// The same for what a mapping shows.
    pub fn forget_mapping(&mut self, mapping: &Mapping<M::Page>) {
        if let Holder::Single(buffer) = mapping.holder {
            self.forget_buffer(buffer);
        }
    }

    fn forget_buffer(&mut self, buffer: u32) {
        self.singles.unhash(buffer);
        let this = self.singles.get_mut(buffer);
        this.shown = None;
        if this.users == 0 {
            self.clear_unused(buffer);
        }
    }

    /// Clears the window of this mapping if nobody has a use for what it shows: no user has it, and nobody finds it.
    /// Returns whether that was so.
    #[inline]
    pub fn clear_forgotten(&mut self, mapping: &Mapping<M::Page>) -> bool {
        let Holder::Single(buffer) = mapping.holder else { return false };
        let this = self.singles.get(buffer);
        let is_free = this.users == 0 && this.shown.is_none();
        if is_free {
            self.clear_unused(buffer);
        }
        is_free
    }

    /// It is the next one to be used again.
    #[cold]
    fn clear_unused(&mut self, buffer: u32) {
        self.machine.clear(self.singles.get(buffer).window, 1);
        self.singles.unlist(buffer);
        self.singles.list_first(buffer);
    }

    /// The number of the first window of a mapping.
    #[inline]
    pub fn window(&self, mapping: &Mapping<M::Page>) -> usize {
        match mapping.holder {
            Holder::Single(buffer) => self.singles.get(buffer).window,
            Holder::Run(buffer) => self.runs.get(buffer).window,
            Holder::Nobody => 0,
        }
    }

    /// How many use the window of a mapping.
    #[inline]
    pub fn users(&self, mapping: &Mapping<M::Page>) -> u32 {
        match mapping.holder {
            Holder::Single(buffer) => self.singles.get(buffer).users,
            Holder::Run(buffer) => self.runs.get(buffer).users,
            Holder::Nobody => 0,
        }
    }

    /// Does with so many windows for single pages less, as far as there are any that nobody has used.
    pub fn withhold(&mut self, windows: usize) {
        for _ in 0..windows {
            match self.singles.take_newest() {
                Some(buffer) if self.singles.get(buffer).shown.is_none() => {
                    self.singles.get_mut(buffer).users = 1;
                }
                Some(buffer) => return self.singles.list(buffer),
                None => return,
            }
        }
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
