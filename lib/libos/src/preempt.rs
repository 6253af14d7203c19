//! Sections in which no other thread of the domain runs.
//!
//! A thread is taken off the processor only in an upcall, and by its own doing. While [`NoPreempt`]
//! lives, an upcall that wants to do so is only remembered; the end of the section makes up for
//! it. Page faults are handled as always. Sections are short: they change shared state, and never
//! wait for another thread.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

/// Sections that the present thread is in.
pub(crate) static DEPTH: AtomicU32 = AtomicU32::new(0);
/// Non-zero: something was put off.
pub(crate) static MISSED: AtomicU32 = AtomicU32::new(0);
/// What makes up for it: a `fn()`, once there is one.
static CATCH_UP: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets what is called at the end of a section in which something was put off.
pub(crate) fn set_catch_up(f: fn()) {
    CATCH_UP.store(f as *mut (), Relaxed);
}

/// A section, as long as this lives.
#[derive(Debug)]
pub struct NoPreempt(());

impl NoPreempt {
    /// Begins a section; they nest.
    #[inline(always)]
    pub fn begin() -> NoPreempt {
        // No thread runs between the load and the store that would not leave the value as it was.
        DEPTH.store(DEPTH.load(Relaxed) + 1, Relaxed);
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        NoPreempt(())
    }

    /// The section that a new thread begins in, as it is switched to in one.
    pub(crate) fn begun() -> NoPreempt {
        NoPreempt(())
    }
}

impl Drop for NoPreempt {
    #[inline(always)]
    fn drop(&mut self) {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        let depth = DEPTH.load(Relaxed) - 1;
        DEPTH.store(depth, Relaxed);
        if depth == 0 && MISSED.load(Relaxed) != 0 {
            catch_up();
        }
    }
}

#[cold]
fn catch_up() {
    MISSED.store(0, Relaxed);
    let f = CATCH_UP.load(Relaxed);
    if !f.is_null() {
        // SAFETY: only `set_catch_up` stores there, and it stores a `fn()`.
        let f: fn() = unsafe { core::mem::transmute(f) };
        f();
    }
}
