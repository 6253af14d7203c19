//! Threads of a domain, all in user mode: the kernel knows one dispatcher.
//!
//! ```text
//!   running ──yield, time slice──► ready queue ──► running
//!      │ park, lock, join, wait_for, sleep            ▲
//!      ▼                                              │
//!   wait queue, sleepers, listeners ── wake-up ───────╯
//! ```
//!
//! The kernel interrupts the domain by an upcall ([`crate::upcall`]): a timer ends time slices and
//! sleeps, notifications wake threads that [`wait_for`] them. When no thread can run, the domain as
//! a whole waits for a notification; a thread that waits for a message does not keep the others
//! from running. Synchronisation is in [`sync`].
//!
//! A call to a server ([`crate::ipc::call`]) blocks the whole domain until it is answered. Servers
//! answer at once; whoever wants to do something else meanwhile uses a channel.

mod sched;
mod stack;
pub mod sync;
mod vectors;

pub use sched::{set_slice, Wake};
pub(crate) use sched::{take_events, thread_main};
pub use stack::STACK_BYTES;
pub(crate) use vectors::keeping as keeping_vectors;

use crate::preempt::NoPreempt;
use alloc::boxed::Box;
use alloc::sync::Arc;
use captypes::Status;
use core::cell::{Cell, UnsafeCell};
use core::time::Duration;
use stack::Stack;

/// A thread, running or not. The fields are used in sections of [`crate::preempt`] only.
pub(crate) struct Inner {
    id: u64,
    /// Where its registers are while it does not run.
    stack_pointer: UnsafeCell<u64>,
    /// Below which its frames are; none for the first thread, which brought its own.
    stack: UnsafeCell<Option<Stack>>,
    /// What it does; taken when it begins.
    main: UnsafeCell<Option<Box<dyn FnOnce() + Send>>>,
    /// `unpark` came before `park`.
    permit: Cell<bool>,
    /// It is parked, and not yet woken.
    parked: Cell<bool>,
    /// It is in no ready queue, and waits to be put there.
    waiting: Cell<bool>,
    /// Why it was woken last.
    wake: Cell<Wake>,
}

// SAFETY: all threads are on one dispatcher, and one at a time is in a section of `preempt`, outside
// of which nobody touches the cells.
unsafe impl Send for Inner {}
// SAFETY: the same.
unsafe impl Sync for Inner {}

/// A thread.
#[derive(Clone)]
pub struct Thread(pub(crate) Arc<Inner>);

impl PartialEq for Thread {
    fn eq(&self, other: &Thread) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Thread {}

impl core::fmt::Debug for Thread {
    fn fmt(&self, f: &mut core::fmt::Formatter) -> core::fmt::Result {
        write!(f, "Thread({})", self.0.id)
    }
}

impl Thread {
    /// Its number: 0 for the first thread, never used twice.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Lets it go on if it is parked, or else not wait when it parks next.
    pub fn unpark(&self) {
        let section = NoPreempt::begin();
        if self.0.parked.replace(false) {
            sched::make_ready(&section, self.clone(), Wake::Woken);
        } else {
            self.0.permit.set(true);
        }
    }
}

/// Makes threads that need something unusual.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    stack_bytes: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { stack_bytes: STACK_BYTES }
    }
}

impl Builder {
    /// With a stack of so many bytes.
    pub fn stack_bytes(self, stack_bytes: u64) -> Builder {
        Builder { stack_bytes }
    }

    /// A new thread that calls `f`. `NoMemory`: there is none for its stack.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Status> {
        let result = Arc::new(Shared { value: UnsafeCell::new(None), done: sync::Event::new() });
        let own = result.clone();
        let main = move || {
            let value = f();
            // SAFETY: nobody looks there before `done` is set, and that comes behind.
            unsafe { *own.value.get() = Some(value) };
            own.done.set();
        };
        let thread = sched::spawn(Stack::new(self.stack_bytes)?, Box::new(main));
        Ok(JoinHandle { thread, result })
    }
}

/// A new thread that calls `f`.
pub fn spawn<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Status> {
    Builder::default().spawn(f)
}

struct Shared<T> {
    value: UnsafeCell<Option<T>>,
    done: sync::Event,
}

// SAFETY: written once by the thread before `done` is set, taken once by who joins after that.
unsafe impl<T: Send> Sync for Shared<T> {}

/// To wait for a thread's end.
pub struct JoinHandle<T> {
    thread: Thread,
    result: Arc<Shared<T>>,
}

impl<T> JoinHandle<T> {
    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Has it ended?
    pub fn is_finished(&self) -> bool {
        self.result.done.is_set()
    }

    /// Waits for its end: what it returned.
    pub fn join(self) -> T {
        self.result.done.wait();
        // SAFETY: the thread has stored the value and does not touch it any more; the handle, which
        // is the only one, is used up.
        let value = unsafe { (*self.result.value.get()).take() };
        value.expect("a thread that is done has left its result")
    }
}

/// The thread that calls this.
pub fn current() -> Thread {
    sched::current(&NoPreempt::begin())
}

/// Lets other threads run first.
pub fn yield_now() {
    sched::yield_now(&NoPreempt::begin());
}

/// Waits until somebody calls [`Thread::unpark`], unless that has happened since the last time.
pub fn park() {
    let section = NoPreempt::begin();
    let me = sched::current(&section);
    if !me.0.permit.replace(false) {
        me.0.parked.set(true);
        sched::block(section);
    }
}

/// Waits so long.
pub fn sleep(time: Duration) {
    let section = NoPreempt::begin();
    sched::block_until(section, sched::deadline(time));
}

/// Waits until one of these notification bits is set: those of them that were, now cleared. Bits
/// that come while nobody waits for them are kept. One thread at a time gets a bit.
pub fn wait_for(bits: u64) -> u64 {
    loop {
        let section = NoPreempt::begin();
        match sched::take_notes(&section, bits) {
            0 => sched::block_for(section, bits),
            found => return found,
        }
    }
}

/// Waits until one of these notification bits is set, unless `ready` by now. For threads that share
/// a bit: all of them go on when it comes, and look what it was for. No other thread runs between the
/// look at `ready` and the waiting.
pub fn wait_unless(bits: u64, ready: impl FnOnce() -> bool) {
    let section = NoPreempt::begin();
    if !ready() && sched::take_notes(&section, bits) == 0 {
        sched::block_for(section, bits);
    }
}

/// Notification bits that were received with a message, for whom they are meant.
pub fn deliver(bits: u64) {
    sched::deliver(&NoPreempt::begin(), bits);
}

/// A notification bit that nobody else in the domain uses.
pub fn new_bit() -> Result<u64, Status> {
    sched::new_bit(&NoPreempt::begin()).ok_or(Status::NoSlot)
}

/// Nanoseconds since the machine was started.
pub fn now_ns() -> u64 {
    sched::now_ns()
}
