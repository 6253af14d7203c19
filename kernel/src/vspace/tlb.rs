//! Forgetting translations: what an event made stale is collected and flushed once, before the
//! kernel returns to user mode (invariant 5).

use crate::arch;

/// What must be flushed before user mode runs again.
pub struct Tlb {
    pending: bool,
}

impl Tlb {
    /// Nothing.
    pub const fn new() -> Tlb {
        Tlb { pending: false }
    }

    /// Some translation is stale, of an address that is not known.
    #[inline]
    pub fn stale(&mut self) {
        self.pending = true;
    }

    /// Must something be flushed?
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Flushes. Returns whether anything had to be.
    pub fn flush(&mut self) -> bool {
        let pending = core::mem::replace(&mut self.pending, false);
        if pending {
            arch::flush_tlb();
        }
        pending
    }
}

impl Default for Tlb {
    fn default() -> Self {
        Self::new()
    }
}
