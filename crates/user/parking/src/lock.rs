//! The lock.
//!
//! Who finds it taken looks at it for a while, and is counted in `spinning` meanwhile. Who has looked long enough sets
//! its bit in `waiting`, is not counted any more, and looks once more by setting `SLEEPERS` in the state; then it
//! sleeps. Who gives the lock up and finds `SLEEPERS` wakes one of them, but not if anybody is looking: that one is
//! faster, and takes the lock with `SLEEPERS`, so that it sees to those who sleep when it gives it up.
//!
//! So if the lock is free and somebody sleeps, then somebody is looking, or has been woken and will look. Who is woken
//! does not own the lock by that: a thread that is not running keeps nobody from taking it.

use crate::Word;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Somebody may be sleeping: who gives the lock up sees to that.
const SLEEPERS: u32 = 2;

/// Bits of a word.
const BITS: u32 = 32;

/// How threads sleep.
pub trait Crew {
    /// The number of the thread that calls.
    fn own(&self) -> u32;
    /// A moment passes.
    fn pause(&self);
    /// Sleeps until the thread is woken, now or since it slept last. May come back for any other reason.
    fn sleep(&self);
    /// Wakes a thread. It need not be there any more.
    fn wake(&self, thread: u32);
}

/// A lock for threads that have numbers below 32 times `WORDS`.
#[derive(Debug)]
pub struct Lock<W, const WORDS: usize> {
    state: W,
    /// How many look at it and do not sleep.
    spinning: W,
    /// Those that sleep, or are about to.
    waiting: [W; WORDS],
    /// Where the search for one that sleeps begins: behind the one woken last.
    next: W,
}

impl<W: Word, const WORDS: usize> Lock<W, WORDS> {
    /// A lock made of words that are all zero: nobody has it.
    pub const fn new(state: W, spinning: W, waiting: [W; WORDS], next: W) -> Self {
        Lock { state, spinning, waiting, next }
    }

    /// Nobody has it, and nobody waits: whoever did is not there any more.
    pub fn reset(&self) {
        for word in self.waiting.iter().chain([&self.state, &self.spinning]) {
            word.swap(0);
        }
    }

    /// Takes it, if it is free and nobody waits.
    #[inline(always)]
    pub fn try_take(&self) -> bool {
        self.state.replace(FREE, TAKEN)
    }

    /// Takes it, after looking `looks` times before sleeping. Answers how often the thread slept.
    pub fn take(&self, crew: &impl Crew, looks: u32) -> u32 {
        if self.try_take() {
            return 0;
        }
        let own = crew.own();
        let (word, bit) = (&self.waiting[(own / BITS) as usize], 1 << (own % BITS));
        let mut slept = 0;
        loop {
            self.spinning.add(1);
            if self.look(crew, looks) {
                self.spinning.add(u32::MAX);
                return slept;
            }
            word.set(bit);
            self.spinning.add(u32::MAX);
            if self.state.swap(TAKEN | SLEEPERS) & TAKEN == 0 {
                word.clear(bit);
                return slept;
            }
            crew.sleep();
            slept += 1;
            // It may not have been woken for this.
            word.clear(bit);
        }
    }

    fn look(&self, crew: &impl Crew, looks: u32) -> bool {
        (0..looks).any(|_| {
            crew.pause();
            self.state.load() == FREE && self.state.replace(FREE, TAKEN | SLEEPERS)
        })
    }

    /// Gives it up.
    #[inline(always)]
    pub fn give(&self, crew: &impl Crew) {
        if self.state.swap(FREE) & SLEEPERS != 0 {
            self.pass(crew);
        }
    }

    #[cold]
    #[inline(never)]
    fn pass(&self, crew: &impl Crew) {
        if self.spinning.load() > 0 {
            return;
        }
        let start = self.next.load();
        // Word by word from where the last search ended, and around once.
        for step in 0..=WORDS as u32 {
            let number = (start / BITS + step) % WORDS as u32;
            let from = if step == 0 { u32::MAX << (start % BITS) } else { u32::MAX };
            let word = &self.waiting[number as usize];
            let waiting = word.load() & from;
            if waiting == 0 {
                continue;
            }
            let bit = waiting & waiting.wrapping_neg();
            word.clear(bit);
            let thread = number * BITS + bit.trailing_zeros();
            self.next.swap((thread + 1) % (WORDS as u32 * BITS));
            crew.wake(thread);
            return;
        }
    }
}
