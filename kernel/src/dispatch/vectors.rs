//! Vector state: whose the registers hold, and who may touch them.
//!
//! Programs have vector state; the libraries and servers of the system are compiled without, so
//! that a call to a server and back saves and restores nothing. A dispatcher without state that
//! executes a vector instruction gets some then: until it does, such instructions fault while it
//! runs, and it can neither see nor change what the registers hold for somebody else.

use super::Local;
use crate::arch;
use crate::object::dcb::flag;
use crate::object::DcbRef;

impl Local {
    /// Makes the vector registers those of `next`, or untouchable if it has none.
    #[inline]
    pub(super) fn load_vectors(&mut self, next: DcbRef) {
        if !next.has(flag::VECTORS) {
            if !self.vectors_off {
                self.vectors_off = true;
                arch::vectors_forbid();
            }
            return;
        }
        if self.vectors_off {
            self.vectors_off = false;
            arch::vectors_allow();
        }
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
    pub(super) fn first_use_of_vectors(&mut self, dcb: DcbRef) -> bool {
        let first = !dcb.has(flag::VECTORS);
        dcb.set(flag::VECTORS);
        if dcb.frame.get().is_some() {
            dcb.frame.get().set_vectors();
        }
        self.load_vectors(dcb);
        first
    }

    /// Writes the vector registers back to their owner, and forgets it if its state is to change.
    pub(super) fn settle_vectors(&mut self, dcb: DcbRef, forget: bool) {
        if self.vectors == Some(dcb) {
            self.with_vectors(|| dcb.save_vectors());
            if forget {
                self.vectors = None;
            }
        }
    }

    /// Does something that needs the vector registers, but leaves them as they were.
    #[inline]
    pub(crate) fn with_vectors(&self, work: impl FnOnce()) {
        if self.vectors_off {
            arch::vectors_allow();
        }
        work();
        if self.vectors_off {
            arch::vectors_forbid();
        }
    }
}
