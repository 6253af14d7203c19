//! Sections in which no other thread of the domain runs.
//!
//! A thread is taken off the processor only in an upcall, and by its own doing. While [`NoPreempt`]
//! lives, an upcall that wants to do so is only remembered; the end of the section makes up for
//! it. Page faults are handled as always. Sections are short: they change shared state, and never
//! wait for another thread.
//!
//! A domain with [workers](crate::worker) runs on several cores at once; a section then also holds
//! the one lock of the domain.

use crate::abi::dispatcher::DispatcherFrame;
use crate::{invoke, op, upcall};
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// In the frame of each dispatcher: the sections that what it runs is in.
const DEPTH: usize = offset_of!(DispatcherFrame, library);
/// Non-zero: something was put off.
const MISSED: usize = DEPTH + 8;

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
#[inline(always)]
pub(crate) fn depth() -> u32 {
    let depth: u32;
    // SAFETY: GS is the base of the dispatcher's frame.
    unsafe {
        asm!("mov {:e}, gs:[{field}]", out(reg) depth, field = const DEPTH,
            options(nostack, readonly, preserves_flags));
    }
    depth
}

/// One more or less, in one instruction, so that nobody else runs on this dispatcher in the middle.
/// Returns how many there were.
#[inline(always)]
fn change_depth(by: i32) -> u32 {
    let mut change = by;
    // SAFETY: as above.
    unsafe {
        asm!("xadd gs:[{field}], {:e}", inout(reg) change, field = const DEPTH, options(nostack))
    };
    change as u32
}

/// Notes that something was put off, or that it is made up for.
pub(crate) fn set_missed(missed: bool) {
    let missed = u32::from(missed);
    // SAFETY: as above.
    unsafe {
        asm!("mov gs:[{field}], {:e}", in(reg) missed, field = const MISSED,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
fn missed() -> bool {
    let missed: u32;
    // SAFETY: as above.
    unsafe {
        asm!("mov {:e}, gs:[{field}]", out(reg) missed, field = const MISSED,
            options(nostack, readonly, preserves_flags));
    }
    missed != 0
}

/// A section, as long as this lives.
#[derive(Debug)]
pub struct NoPreempt(());

impl NoPreempt {
    /// Begins a section; they nest.
    #[inline(always)]
    pub fn begin() -> NoPreempt {
        if change_depth(1) == 0 && MANY.load(Relaxed) {
            lock();
        }
        NoPreempt(())
    }

    /// The section that a new thread begins in, as it is switched to in one.
    pub(crate) fn begun() -> NoPreempt {
        NoPreempt(())
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
        if MANY.load(Relaxed) && depth() == 1 {
            unlock();
        }
        if change_depth(-1) == 1 && missed() {
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
