//! Atomics: those of the machine, or of the model checker.

#[cfg(not(test))]
pub use core::sync::atomic::{fence, AtomicU64, Ordering};
#[cfg(test)]
pub use loom::sync::atomic::{fence, AtomicU64, Ordering};

/// Another core is about to do something.
#[inline]
pub fn relax() {
    #[cfg(not(test))]
    core::hint::spin_loop();
    #[cfg(test)]
    loom::thread::yield_now();
}
