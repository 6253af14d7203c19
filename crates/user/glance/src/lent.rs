//! Something of a process that one thread is given, and whoever has the lock takes away again.
//!
//! What it is, is one word, which the thread changes by a compare-and-exchange, and whoever has the lock takes by another. So no thread
//! waits for one that is not running, and what was taken is what the thread has been told.

use crate::Word;

/// How often it was changed is counted up to this.
pub(crate) const USES: u64 = 255;

/// Such a thing, of up to `BITS` bits, given to one thread or to none. Above them is how often it was changed, a bit that is set as long as it is
/// given, and a number that is another one each time.
#[derive(Debug)]
pub(crate) struct Lent<W, const BITS: u32> {
    state: W,
    /// Where it begins. Written before it is given.
    start: W,
}

/// A state in which it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State<const BITS: u32>(u64);

impl<const BITS: u32> State<BITS> {
    const GIVEN: u64 = 1 << (BITS + USES.count_ones());
    const NUMBER: u64 = Self::GIVEN << 1;

    /// What is given.
    #[inline(always)]
    pub fn what(self) -> u64 {
        self.0 & ((1 << BITS) - 1)
    }

    /// How often it was changed, up to [`USES`].
    #[inline(always)]
    pub fn uses(self) -> u64 {
        self.0 >> BITS & USES
    }
}

impl<W: Word, const BITS: u32> Lent<W, BITS> {
    /// Given to nobody, of words that are zero.
    pub const fn new(state: W, start: W) -> Self {
        Lent { state, start }
    }

    /// Gives it. By whoever has the lock, who finds it not given.
    pub fn give(&self, start: u64, what: u64) {
        self.start.store(start);
        let number = self.state.load() & !(State::<BITS>::NUMBER - 1);
        let number = number.wrapping_add(State::<BITS>::NUMBER);
        self.state.store(number | State::<BITS>::GIVEN | what);
    }

    /// What it is, if it is given.
    #[inline(always)]
    pub fn state(&self) -> Option<State<BITS>> {
        let state = self.state.load();
        (state & State::<BITS>::GIVEN != 0).then_some(State(state))
    }

    /// Where it begins, if it is given.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.start.load()
    }

    /// Takes it back, if it is given: where it began, and what it was. By whoever has the lock.
    pub fn take(&self) -> Option<(u64, State<BITS>)> {
        loop {
            let state = self.state()?;
            let start = self.start();
            if self.take_from(state) {
                return Some((start, state));
            }
        }
    }

    /// Takes it back, if it is still what it was.
    pub fn take_from(&self, state: State<BITS>) -> bool {
        self.state.replace(state.0, state.0 & !(State::<BITS>::NUMBER - 1))
    }

    /// Makes something else of it, if it is still what it was. By the thread that has it.
    #[inline(always)]
    pub fn change(&self, state: State<BITS>, what: u64) -> Option<State<BITS>> {
        let uses = (state.uses() + 1).min(USES);
        let new = state.0 & !(State::<BITS>::GIVEN - 1) | uses << BITS | what;
        self.state.replace(state.0, new).then_some(State(new))
    }
}
