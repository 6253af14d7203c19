//! What threads of a process look at without a lock.
//!
//! One thread at a time writes records and epochs (it has the lock); any number read meanwhile.
//!
//! * A [`Record`] is read whole or not at all.
//! * An [`Epoch`] says whether what records say still holds: whoever is about to make it untrue begins another one
//!   first. Who has used it looks again afterwards.
//! * A [`Lease`] is of addresses in which a thread maps memory: what it has mapped there, whoever has the lock takes over.
//! * [`Rights`] are of pages whose rights a thread changes, likewise.
//! * [`Kept`] is memory that a thread maps and unmaps, with what is in page tables of it.
//! * An [`Offset`] of a file is moved by whoever has read at it, if nobody else has moved it meanwhile.

#![cfg_attr(not(test), no_std)]

mod kept;
mod lease;
mod lent;
mod offset;
mod record;
mod rights;

pub use kept::{Begun, Kept, TakenKept, MOST_KEPT};
pub use lease::{Lease, Taken, PAGES};
pub use offset::{Offset, Seen, MOST};
pub use record::{Epoch, Record};
pub use rights::{Changed, Rights, TakenRights, MOST_PAGES};

use core::sync::atomic::{AtomicU64, Ordering};

/// A word that several threads use. Whoever sees what was stored sees everything that was stored before.
pub trait Word {
    /// What it is.
    fn load(&self) -> u64;
    /// Sets it.
    fn store(&self, new: u64);
    /// Sets it, if it is `old`; answers whether it was.
    fn replace(&self, old: u64, new: u64) -> bool;
    /// Adds to it; answers what it was.
    fn add(&self, by: u64) -> u64;
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn store(&self, new: u64) {
        self.store(new, Ordering::Release);
    }
    #[inline(always)]
    fn replace(&self, old: u64, new: u64) -> bool {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    #[inline(always)]
    fn add(&self, by: u64) -> u64 {
        self.fetch_add(by, Ordering::SeqCst)
    }
}
