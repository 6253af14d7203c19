//! Windows that several use, each as if alone.

use crate::{AllocError, Buf, Counters, Ephemeral, Flags, Mapping, Windows};
use core::cell::RefCell;

/// How those who share something keep out of each other's way, and how they sleep.
pub trait Lock<T> {
    /// Does something that nobody else does at the same time.
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;

    /// Sleeps until [`wake`](Self::wake) is called with another number than `seen`; not at all if that was the last
    /// one already. May return for no reason. Called outside of [`with`](Self::with).
    ///
    /// # Errors
    /// [`AllocError::Interrupted`], if `interruptible`; [`AllocError::Busy`] where nobody can sleep.
    fn wait(&self, seen: u32, interruptible: bool) -> Result<(), AllocError>;

    /// Wakes all who sleep. Called inside of [`with`](Self::with), with a number that grows.
    fn wake(&self, now: u32);
}

/// What is shared.
pub struct State<W> {
    windows: W,
    /// How often sleepers were woken.
    wakes: u32,
    /// Somebody has begun to sleep since.
    are_sleepers: bool,
}

impl<W> State<W> {
    /// These windows.
    pub const fn new(windows: W) -> State<W> {
        State { windows, wakes: 0, are_sleepers: false }
    }
    /// Them.
    pub fn windows(&mut self) -> &mut W {
        &mut self.windows
    }
}

/// Windows behind a lock.
pub struct Guarded<L, W> {
    lock: L,
    windows: core::marker::PhantomData<fn() -> W>,
}

impl<W: Windows, L: Lock<State<W>>> Guarded<L, W> {
    /// The windows in the [`State`] that the lock has.
    pub const fn new(lock: L) -> Self {
        Guarded { lock, windows: core::marker::PhantomData }
    }

    /// Does something with the windows.
    pub fn with<R>(&self, work: impl FnOnce(&mut W) -> R) -> R {
        self.lock.with(|state| work(&mut state.windows))
    }

    /// Asks until there is an answer.
    #[inline]
    fn claim(
        &self,
        flags: Flags,
        mut ask: impl FnMut(&mut W) -> Result<Mapping<W::Page>, AllocError>,
    ) -> Result<Buf<'_, Self>, AllocError> {
        loop {
            let asked = self.lock.with(|state| match ask(&mut state.windows) {
                Err(AllocError::Busy) if !flags.has(Flags::NO_WAIT) => {
                    state.are_sleepers = true;
                    Err(Ok(state.wakes))
                }
                Err(error) => Err(Err(error)),
                Ok(mapping) => Ok(mapping),
            });
            match asked {
                Ok(mapping) => return Ok(Buf::new(self, mapping)),
                Err(seen) => self.lock.wait(seen?, flags.has(Flags::INTERRUPTIBLE))?,
            }
        }
    }
}

impl<W: Windows, L: Lock<State<W>>> Ephemeral for Guarded<L, W> {
    type Page = W::Page;
    type Held = Mapping<W::Page>;

    #[inline]
    fn alloc(&self, page: W::Page, flags: Flags) -> Result<Buf<'_, Self>, AllocError> {
        self.claim(flags, |windows| windows.claim(page, flags).ok_or(AllocError::Busy))
    }

    #[inline]
    fn alloc_run(&self, pages: &[W::Page], flags: Flags) -> Result<Buf<'_, Self>, AllocError> {
        self.claim(flags, |windows| windows.claim_run(pages, flags))
    }

    fn counters(&self) -> Counters {
        self.lock.with(|state| state.windows.counters())
    }
    #[inline]
    fn address(held: &Mapping<W::Page>) -> usize {
        held.address
    }
    #[inline]
    fn page(held: &Mapping<W::Page>) -> W::Page {
        held.page
    }
    #[inline]
    fn free(&self, held: &Mapping<W::Page>) {
        self.lock.with(|state| {
            if state.windows.release(held) && state.are_sleepers {
                state.are_sleepers = false;
                state.wakes = state.wakes.wrapping_add(1);
                self.lock.wake(state.wakes);
            }
        });
    }
}

/// The lock of who is alone, and does not sleep: the kernel on its core.
pub struct Alone<T>(RefCell<T>);

impl<T> Alone<T> {
    /// Alone with `value`.
    pub const fn new(value: T) -> Alone<T> {
        Alone(RefCell::new(value))
    }
}

impl<T> Lock<T> for Alone<T> {
    #[inline]
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.borrow_mut())
    }
    fn wait(&self, _: u32, _: bool) -> Result<(), AllocError> {
        Err(AllocError::Busy)
    }
    fn wake(&self, _: u32) {}
}
