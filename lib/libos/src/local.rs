//! A global variable of a domain: used by one caller at a time, whatever threads there are.

use crate::preempt::NoPreempt;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that one caller at a time may use.
pub struct Local<T: ?Sized> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `try_with` gives the value to one caller at a time, whoever calls.
unsafe impl<T: Send + ?Sized> Sync for Local<T> {}

impl<T> Local<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Self {
        Local { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }
}

impl<T: ?Sized> Local<T> {
    /// Calls `f` with the value, unless somebody further up the stack is using it. No other thread
    /// runs meanwhile, so `f` must not wait for one.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        let _section = NoPreempt::begin();
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        let _release = Release(&self.busy);
        // SAFETY: `busy` was clear, so there is no other reference; it is set until this one ends.
        Some(f(unsafe { &mut *self.value.get() }))
    }
}
