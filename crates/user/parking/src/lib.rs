//! How threads of a process wait for each other.
//!
//! [`Lock`] is a lock whose users look at it for a while before they sleep; [`Presence`] says whether anybody waits at
//! an address, so that who would wake need not look. Both are made of words ([`Word`]), so that tests can try every
//! interleaving, and leave it to their user how a thread sleeps ([`Crew`]).

#![cfg_attr(not(test), no_std)]

mod lock;
mod presence;

pub use lock::{Crew, Lock};
pub use presence::Presence;

use core::sync::atomic::{AtomicU32, Ordering};

/// A word that several threads change. What is done later by a thread is not seen without what it did earlier.
pub trait Word {
    /// What it is.
    fn load(&self) -> u32;
    /// Sets it; answers what it was.
    fn swap(&self, new: u32) -> u32;
    /// Sets it, if it is `old`; answers whether it was.
    fn replace(&self, old: u32, new: u32) -> bool;
    /// Adds to it; answers what it was. Everything of this thread before is seen by who sees this, and everything of
    /// others that came before is seen by what comes after.
    fn add(&self, by: u32) -> u32;
    /// Sets bits; answers what it was.
    fn set(&self, bits: u32) -> u32;
    /// Clears bits; answers what it was.
    fn clear(&self, bits: u32) -> u32;
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn load(&self) -> u32 {
        self.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn swap(&self, new: u32) -> u32 {
        self.swap(new, Ordering::AcqRel)
    }
    #[inline(always)]
    fn replace(&self, old: u32, new: u32) -> bool {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    #[inline(always)]
    fn add(&self, by: u32) -> u32 {
        self.fetch_add(by, Ordering::SeqCst)
    }
    #[inline(always)]
    fn set(&self, bits: u32) -> u32 {
        self.fetch_or(bits, Ordering::AcqRel)
    }
    #[inline(always)]
    fn clear(&self, bits: u32) -> u32 {
        self.fetch_and(!bits, Ordering::AcqRel)
    }
}
