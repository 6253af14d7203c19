//! Synchronisation of threads: [`Mutex`], [`Condvar`], [`Semaphore`], [`Barrier`], [`Event`].
//!
//! All are made of a [`WaitQueue`]. What is given up is handed over to the first in the queue, so
//! that everybody gets it in the order of asking.

use super::sched::{self, Wake};
use super::Thread;
use crate::preempt::NoPreempt;
use alloc::collections::VecDeque;
use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::time::Duration;

/// Threads that wait for the same thing, first come, first served.
pub struct WaitQueue(UnsafeCell<VecDeque<Thread>>);

// SAFETY: the queue is used in sections only, in which no other thread runs.
unsafe impl Sync for WaitQueue {}
// SAFETY: the same.
unsafe impl Send for WaitQueue {}

impl WaitQueue {
    /// Nobody waits.
    pub const fn new() -> Self {
        WaitQueue(UnsafeCell::new(VecDeque::new()))
    }

    fn with<R>(&self, _: &NoPreempt, f: impl FnOnce(&mut VecDeque<Thread>) -> R) -> R {
        // SAFETY: in a section; `f` is one of the short closures below, which do not come back here.
        f(unsafe { &mut *self.0.get() })
    }

    /// Waits to be woken. The section ends.
    fn wait(&self, section: NoPreempt) {
        let me = sched::current(&section);
        self.with(&section, |queue| queue.push_back(me));
        sched::block(section);
    }

    /// The same, no longer than to `deadline`.
    fn wait_until(&self, section: NoPreempt, deadline: u64) -> Wake {
        let me = sched::current(&section);
        self.with(&section, |queue| queue.push_back(me.clone()));
        let wake = sched::block_until(section, deadline);
        let section = NoPreempt::begin();
        match wake {
            Wake::Woken => sched::not_asleep(&section, &me),
            Wake::TimedOut => self.with(&section, |queue| queue.retain(|other| *other != me)),
        }
        wake
    }

    /// Readies the first. `false`: nobody waits.
    fn wake_one(&self, section: &NoPreempt) -> bool {
        while let Some(thread) = self.with(section, VecDeque::pop_front) {
            // Whose time was over first has not come here yet to leave the queue.
            if thread.0.waiting.get() {
                // It must not be woken once more by its deadline.
                sched::not_asleep(section, &thread);
                sched::make_ready(section, thread, Wake::Woken);
                return true;
            }
        }
        false
    }

    fn wake_all(&self, section: &NoPreempt) {
        while self.wake_one(section) {}
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        WaitQueue::new()
    }
}

/// Happens once; whoever waits for it goes on then.
#[derive(Default)]
pub struct Event {
    set: Cell<bool>,
    queue: WaitQueue,
}

// SAFETY: the cell is used in sections only.
unsafe impl Sync for Event {}

impl Event {
    /// It has not happened.
    pub const fn new() -> Self {
        Event { set: Cell::new(false), queue: WaitQueue::new() }
    }
    /// It happens.
    pub fn set(&self) {
        let section = NoPreempt::begin();
        self.set.set(true);
        self.queue.wake_all(&section);
    }
    /// Has it happened?
    pub fn is_set(&self) -> bool {
        let _section = NoPreempt::begin();
        self.set.get()
    }
    /// Waits for it.
    pub fn wait(&self) {
        let section = NoPreempt::begin();
        if !self.set.get() {
            self.queue.wait(section);
        }
    }
}

/// A value that one thread at a time uses.
pub struct Mutex<T: ?Sized> {
    locked: Cell<bool>,
    queue: WaitQueue,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through the one guard, the rest in sections.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: the same.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Self {
        Mutex { locked: Cell::new(false), queue: WaitQueue::new(), value: UnsafeCell::new(value) }
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody else has the value. A thread that has it already waits for ever.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let section = NoPreempt::begin();
        if self.locked.replace(true) {
            // Whoever unlocks it leaves it locked, for the first that waits.
            self.queue.wait(section);
        }
        MutexGuard { mutex: self, _not_send: core::marker::PhantomData }
    }

    /// The value, unless somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let _section = NoPreempt::begin();
        let free = !self.locked.replace(true);
        free.then_some(MutexGuard { mutex: self, _not_send: core::marker::PhantomData })
    }

    fn unlock(&self, section: &NoPreempt) {
        if !self.queue.wake_one(section) {
            self.locked.set(false);
        }
    }
}

/// The value of a [`Mutex`], until this is dropped, by the thread that locked it.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    _not_send: core::marker::PhantomData<*const ()>,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: there is one guard while the mutex is locked.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one guard while the mutex is locked.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.unlock(&NoPreempt::begin());
    }
}

/// Where threads wait until the value of a [`Mutex`] is as they want it.
#[derive(Default)]
pub struct Condvar(WaitQueue);

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Self {
        Condvar(WaitQueue::new())
    }

    /// Unlocks the mutex, waits for a notification, and locks it again.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex;
        let section = NoPreempt::begin();
        drop(guard);
        self.0.wait(section);
        mutex.lock()
    }

    /// Waits while the condition holds.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// [`Condvar::wait`], no longer than `time`: whether the time was over.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex;
        let section = NoPreempt::begin();
        drop(guard);
        let wake = self.0.wait_until(section, sched::deadline(time));
        (mutex.lock(), wake == Wake::TimedOut)
    }

    /// Lets the first that waits go on.
    pub fn notify_one(&self) {
        self.0.wake_one(&NoPreempt::begin());
    }

    /// Lets all that wait go on.
    pub fn notify_all(&self) {
        self.0.wake_all(&NoPreempt::begin());
    }
}

/// A number of permits.
pub struct Semaphore {
    permits: Cell<u64>,
    queue: WaitQueue,
}

// SAFETY: the cell is used in sections only.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    /// With so many permits.
    pub const fn new(permits: u64) -> Self {
        Semaphore { permits: Cell::new(permits), queue: WaitQueue::new() }
    }
    /// Takes a permit; waits for one if there is none.
    pub fn acquire(&self) {
        let section = NoPreempt::begin();
        match self.permits.get() {
            0 => self.queue.wait(section),
            permits => self.permits.set(permits - 1),
        }
    }
    /// Takes a permit if there is one.
    pub fn try_acquire(&self) -> bool {
        let _section = NoPreempt::begin();
        let permits = self.permits.get();
        self.permits.set(permits.saturating_sub(1));
        permits > 0
    }
    /// Gives a permit back, or a new one.
    pub fn release(&self) {
        let section = NoPreempt::begin();
        if !self.queue.wake_one(&section) {
            self.permits.set(self.permits.get() + 1);
        }
    }
}

/// Where a number of threads wait for each other, again and again.
pub struct Barrier {
    threads: usize,
    arrived: Cell<usize>,
    queue: WaitQueue,
}

// SAFETY: the cell is used in sections only.
unsafe impl Sync for Barrier {}

impl Barrier {
    /// For so many threads.
    pub const fn new(threads: usize) -> Self {
        Barrier { threads, arrived: Cell::new(0), queue: WaitQueue::new() }
    }
    /// Waits for the others. `true` for the one that came last.
    pub fn wait(&self) -> bool {
        let section = NoPreempt::begin();
        self.arrived.set(self.arrived.get() + 1);
        let last = self.arrived.get() >= self.threads;
        if last {
            self.arrived.set(0);
            self.queue.wake_all(&section);
        } else {
            self.queue.wait(section);
        }
        last
    }
}
