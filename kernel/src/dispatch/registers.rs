//! Registers that the entry code does not store: whose values they hold, and who may touch them.
//!
//! Segment bases, and debug registers where somebody has some, are exchanged when the dispatcher changes. Programs have vector state; the libraries
//! and servers of the system are compiled without, so that a call to a server and back saves and
//! restores nothing. A dispatcher without vector state that executes a vector instruction gets some
//! then: until it does, such instructions fault while it runs, and it can neither see nor change what
//! the registers hold for somebody else.

use crate::arch::{self, Breakpoints, VectorUnit};
use crate::object::dcb::flag;
use crate::object::DcbRef;
use core::sync::atomic::{AtomicBool, Ordering};

/// Some dispatcher had breakpoints since the machine began. Until then nobody pays for a look, which is 1 % of a call and its answer.
/// Whoever sees the flag of a dispatcher sees this, too: it was set before, where that dispatcher was.
static BREAKPOINTS_USED: AtomicBool = AtomicBool::new(false);

/// Whose registers the processor has.
pub struct Registers {
    /// Whose segment bases: those of the current dispatcher, or nobody's.
    bases: Option<DcbRef>,
    /// The base of GS that the processor has for user mode, while those are nobody's: its program can change it.
    gs: u64,
    /// Whose vector state.
    vectors: Option<DcbRef>,
    unit: VectorUnit,
    /// The debug registers are somebody's.
    watches: bool,
}

impl Registers {
    /// Nobody's.
    pub const fn new() -> Registers {
        Registers { bases: None, gs: 0, vectors: None, unit: VectorUnit::new(), watches: false }
    }

    /// Are its segment bases loaded?
    #[inline]
    pub fn are_of(&self, dcb: DcbRef) -> bool {
        self.bases == Some(dcb)
    }

    /// For whatever executes vector instructions in the kernel.
    #[inline]
    pub fn unit(&self) -> &VectorUnit {
        &self.unit
    }

    /// Loads the segment bases of a dispatcher; those of the last one have been kept.
    #[inline]
    pub fn load(&mut self, dcb: DcbRef) {
        debug_assert!(self.bases.is_none());
        self.bases = Some(dcb);
        arch::write_fs_base(dcb.bases.fs.get());
        // Hardly a program has one, and to write it is dear.
        let gs = dcb.bases.gs.get();
        if gs != self.gs {
            self.gs = gs;
            arch::write_gs_base(gs);
        }
        if BREAKPOINTS_USED.load(Ordering::Relaxed) {
            self.exchange_breakpoints(dcb);
        }
    }

    #[cold]
    #[inline(never)]
    fn exchange_breakpoints(&mut self, dcb: DcbRef) {
        if dcb.has(flag::BREAKPOINTS) | self.watches {
            self.load_breakpoints(dcb);
        }
    }

    /// Watches for what this one wants to know, if anything.
    fn load_breakpoints(&mut self, dcb: DcbRef) {
        self.watches = dcb.has(flag::BREAKPOINTS);
        arch::write_breakpoints(dcb.breakpoints.get());
    }

    /// Gives a dispatcher, which is here, other breakpoints.
    pub fn set_breakpoints(&mut self, dcb: DcbRef, breakpoints: Breakpoints) {
        dcb.breakpoints.set(breakpoints);
        match breakpoints.control {
            0 => dcb.clear(flag::BREAKPOINTS),
            _ => {
                BREAKPOINTS_USED.store(true, Ordering::Relaxed);
                dcb.set(flag::BREAKPOINTS);
            }
        }
        if self.are_of(dcb) {
            self.load_breakpoints(dcb);
        }
    }

    /// Keeps the segment bases of whoever has them loaded.
    #[inline]
    pub fn unload(&mut self) {
        if let Some(last) = self.bases.take() {
            last.bases.fs.set(arch::read_fs_base());
            self.gs = arch::read_gs_base();
            last.bases.gs.set(self.gs);
        }
    }

    /// Makes the vector registers those of `next`, or untouchable if it has none.
    #[inline]
    pub fn load_vectors(&mut self, next: DcbRef) {
        if !next.has(flag::VECTORS) {
            return self.unit.forbid();
        }
        self.unit.allow();
        if self.vectors == Some(next) {
            return;
        }
        if let Some(owner) = self.vectors.replace(next) {
            owner.save_vectors();
        }
        next.load_vectors();
    }

    /// The current dispatcher has executed its first vector instruction; `false` if that is not why
    /// it faulted.
    #[cold]
    #[inline(never)]
    pub fn first_use_of_vectors(&mut self, dcb: DcbRef) -> bool {
        let first = !dcb.has(flag::VECTORS);
        dcb.set(flag::VECTORS);
        if dcb.frame.get().is_some() {
            dcb.frame.get().set_vectors();
        }
        self.load_vectors(dcb);
        first
    }

    /// Writes the vector registers back to their owner, and forgets it if its state is to change.
    pub fn settle_vectors(&mut self, dcb: DcbRef, forget: bool) {
        if self.vectors == Some(dcb) {
            self.unit.with(|| dcb.save_vectors());
            if forget {
                self.vectors = None;
            }
        }
    }

    /// A dispatcher goes, with whatever the registers hold for it.
    pub fn forget(&mut self, dcb: DcbRef) {
        if self.bases == Some(dcb) {
            self.bases = None;
        }
        if self.vectors == Some(dcb) {
            self.vectors = None;
        }
    }
}

impl Default for Registers {
    fn default() -> Self {
        Self::new()
    }
}
