//! Sections in which no other thread of the domain runs.
//!
//! A thread is taken off the processor only in an upcall, and by its own doing. While [`NoPreempt`]
//! lives, an upcall that wants to do so is only remembered; the end of the section makes up for
//! it. Page faults are handled as always. Sections are short: they change shared state, and never
//! wait for another thread.
//!
//! A domain with [workers](crate::worker) runs on several cores at once; a section then also holds
//! the one lock of the domain.

use crate::upcall::{own_word, own_words, word, Words};
use crate::{invoke, op, upcall};
use core::sync::atomic::{
    compiler_fence, AtomicBool, AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

/// What makes up for it: a `fn()`, once there is one.
static CATCH_UP: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// Is there more than one dispatcher, or has there been?
static MANY: AtomicBool = AtomicBool::new(false);
/// Held in the outermost section of a dispatcher, if there are many.
static LOCKED: AtomicBool = AtomicBool::new(false);

/// Sets what is called at the end of a section in which something was put off.
pub(crate) fn set_catch_up(f: fn()) {
    CATCH_UP.store(f as *mut (), Relaxed);
}

/// From now on, others than the first dispatcher run.
pub(crate) fn expect_many() {
    assert_eq!(depth(), 0, "a section that holds no lock would go on beside others");
    MANY.store(true, Release);
}

/// Sections that this dispatcher is in.
pub(crate) fn depth() -> u64 {
    own_word(word::DEPTH).load(Relaxed)
}

/// Notes that something was put off, or that it is made up for.
pub(crate) fn set_missed(missed: bool) {
    own_word(word::MISSED).store(u64::from(missed), Relaxed);
}

/// A section, as long as this lives. It ends on the dispatcher that it has begun on, whose words are
/// looked for once.
#[derive(Debug)]
pub struct NoPreempt(&'static Words);

impl NoPreempt {
    /// Begins a section; they nest.
    #[inline(always)]
    pub fn begin() -> NoPreempt {
        let words = own_words();
        let depth = &words[word::DEPTH];
        // No thread of the dispatcher runs between the load and the store that would not leave the
        // value as it was.
        let before = depth.load(Relaxed);
        depth.store(before + 1, Relaxed);
        compiler_fence(SeqCst);
        if before == 0 && MANY.load(Relaxed) {
            lock();
        }
        NoPreempt(words)
    }

    /// The section that a new thread begins in, as it is switched to in one.
    pub(crate) fn begun() -> NoPreempt {
        NoPreempt(own_words())
    }

    /// Waits for something with the lock of the domain given up. Nobody else runs on this
    /// dispatcher meanwhile.
    pub(crate) fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        if !MANY.load(Relaxed) {
            return wait();
        }
        debug_assert_eq!(depth(), 1);
        unlock();
        let result = wait();
        lock();
        result
    }
}

impl Drop for NoPreempt {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = &self.0[word::DEPTH];
        let left = depth.load(Relaxed) - 1;
        if left == 0 && MANY.load(Relaxed) {
            unlock();
        }
        compiler_fence(SeqCst);
        depth.store(left, Relaxed);
        if left == 0 && self.0[word::MISSED].load(Relaxed) != 0 {
            catch_up();
        }
    }
}

/// Whoever holds the lock is not interrupted by its own domain, but the kernel may run another: so
/// who has waited for a while lets others run too.
#[inline(never)]
fn lock() {
    const PATIENCE: u32 = 1000;
    let mut tries = 0;
    while LOCKED.swap(true, Acquire) {
        while LOCKED.load(Relaxed) {
            core::hint::spin_loop();
            tries += 1;
            if tries % PATIENCE == 0 {
                // It only lets others run.
                let _ = invoke(upcall::dispatcher(), op::Yield {});
            }
        }
    }
}

fn unlock() {
    LOCKED.store(false, Release);
}

#[cold]
fn catch_up() {
    set_missed(false);
    let f = CATCH_UP.load(Relaxed);
    if !f.is_null() {
        // SAFETY: only `set_catch_up` stores there, and it stores a `fn()`.
        let f: fn() = unsafe { core::mem::transmute(f) };
        f();
    }
}
