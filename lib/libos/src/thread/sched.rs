//! Who runs.
//!
//! Everything here happens in sections of [`crate::preempt`]. A thread that gives way does so in
//! [`switch`]: it leaves its registers on its stack, and the next thread's are loaded, which once
//! gave way in the same place and now leaves the section. When nobody is ready, the thread that gave
//! way waits on behalf of the domain.

use super::stack::Stack;
use super::{vectors, Inner, Thread};
use crate::invoke;
use crate::preempt::{self, NoPreempt};
use crate::upcall::{self, begin_thread, frame, switch_thread, Context};
use abi::slots;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use captypes::invocations::NOTIFY_TIMER;
use captypes::op;
use core::arch::x86_64::_rdtsc;
use core::cell::{Cell, UnsafeCell};
use core::mem::size_of;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::time::Duration;
use trace::Mark;

/// Time slices in a second, if nothing else is said.
const SLICES_PER_SECOND: u64 = 200;
/// Notification bits that [`super::new_bit`] may give away. The lowest are for fixed purposes.
const FIRST_BIT: u32 = 16;
const LAST_BIT: u32 = 61;
/// A slice is no shorter than a second divided by this: giving way takes time itself.
const MOST_SLICES: u64 = 20_000;
/// Tells the first dispatcher that a thread was readied by another.
const NOTIFY_READY: u64 = 1 << 62;
/// Flags of a new thread: interrupts on.
const FLAGS: u64 = 0x202;

/// Why a thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// Somebody has woken it.
    Woken,
    /// Its time is over.
    TimedOut,
}

/// Everything about threads.
struct Scheduler {
    current: Option<Thread>,
    ready: VecDeque<Thread>,
    /// Deadlines, in no order.
    sleepers: Vec<(u64, Thread)>,
    /// What threads wait for.
    listeners: Vec<(u64, Thread)>,
    /// Bits that came, and that nobody has taken.
    notes: u64,
    /// Ended, and still standing on its own stack.
    ended: Option<Thread>,
    next_id: u64,
    next_bit: u32,
    /// The time for which the kernel's timer is set; 0: it is not.
    armed: u64,
    /// When the present time slice ends.
    slice_end: u64,
    /// Ticks of a time slice; 0: the usual.
    slice: u64,
}

struct TheScheduler(UnsafeCell<Scheduler>);

// SAFETY: used through `with` only.
unsafe impl Sync for TheScheduler {}

static SCHEDULER: TheScheduler = TheScheduler(UnsafeCell::new(Scheduler {
    current: None,
    ready: VecDeque::new(),
    sleepers: Vec::new(),
    listeners: Vec::new(),
    notes: 0,
    ended: None,
    next_id: 1,
    next_bit: FIRST_BIT,
    armed: 0,
    slice_end: 0,
    slice: 0,
}));

/// Calls `f` with the scheduler. `f` does not call this again.
fn with<R>(_: &NoPreempt, f: impl FnOnce(&mut Scheduler) -> R) -> R {
    // SAFETY: no other thread runs in a section, and nothing in this file calls `with` inside `f`.
    f(unsafe { &mut *SCHEDULER.0.get() })
}

fn now() -> u64 {
    // SAFETY: every 64-bit processor has the counter, and the kernel lets programs read it.
    unsafe { _rdtsc() }
}

fn ticks_per_second() -> u64 {
    // SAFETY: the frame is mapped; the kernel wrote the field before the program started.
    unsafe { (*frame()).tsc_hz }
}

/// See [`super::now_ns`].
pub fn now_ns() -> u64 {
    (now() as u128 * 1_000_000_000 / ticks_per_second().max(1) as u128) as u64
}

/// The time so long from now.
pub fn deadline(time: Duration) -> u64 {
    let ticks = time.as_nanos().saturating_mul(ticks_per_second() as u128) / 1_000_000_000;
    now().saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX)).max(1)
}

/// Sets how long a thread runs when others are ready: ticks of the time-stamp counter, of
/// which there is a least number; 0: the usual.
pub fn set_slice(ticks: u64) {
    with(&NoPreempt::begin(), |s| s.slice = ticks);
}

impl Thread {
    fn make(id: u64, stack: Option<Stack>, main: Option<Box<dyn FnOnce() + Send>>) -> Thread {
        Thread(Arc::new(Inner {
            id,
            stack_pointer: UnsafeCell::new(0),
            stack: UnsafeCell::new(stack),
            main: UnsafeCell::new(main),
            permit: Cell::new(false),
            parked: Cell::new(false),
            waiting: Cell::new(false),
            wake: Cell::new(Wake::Woken),
        }))
    }
}

impl Scheduler {
    fn current(&mut self) -> Thread {
        self.current.get_or_insert_with(|| Thread::make(0, None, None)).clone()
    }

    fn slice(&self) -> u64 {
        match self.slice {
            0 => ticks_per_second() / SLICES_PER_SECOND,
            ticks => ticks.max(ticks_per_second() / MOST_SLICES),
        }
    }

    /// Puts a thread that waits into the ready queue.
    fn ready(&mut self, thread: Thread, wake: Wake) {
        thread.0.wake.set(wake);
        thread.0.waiting.set(false);
        self.ready.push_back(thread);
    }

    /// Readies everybody whose time has come.
    fn wake_sleepers(&mut self) {
        if self.sleepers.is_empty() {
            return;
        }
        let now = now();
        loop {
            let due = self.sleepers.iter().enumerate().filter(|(_, (at, _))| *at <= now);
            let Some((first, _)) = due.min_by_key(|(_, (at, _))| *at) else { return };
            let (_, thread) = self.sleepers.swap_remove(first);
            self.ready(thread, Wake::TimedOut);
        }
    }

    /// Takes notification bits: time has passed, listeners are woken.
    fn note(&mut self, bits: u64) {
        if bits & NOTIFY_TIMER != 0 {
            self.armed = 0;
        }
        self.notes |= bits & !(NOTIFY_TIMER | NOTIFY_READY);
        let notes = self.notes;
        let mut index = 0;
        while index < self.listeners.len() {
            if self.listeners[index].0 & notes == 0 {
                index += 1;
            } else {
                let (_, thread) = self.listeners.swap_remove(index);
                self.ready(thread, Wake::Woken);
            }
        }
        self.wake_sleepers();
    }

    /// Sets the kernel's timer for what comes first: the end of the slice, if others are ready, or a
    /// deadline. One that is set too early already is left alone.
    fn arm(&mut self) {
        let slice = (!self.ready.is_empty()).then_some(self.slice_end);
        let first = self.sleepers.iter().map(|(deadline, _)| *deadline).chain(slice).min();
        let Some(first) = first else { return };
        if self.armed == 0 || first < self.armed {
            self.armed = first;
            // The slot is the domain's own, and every deadline is one.
            let _ = invoke(slots::DISPATCHER, op::SetTimer { deadline: first });
        }
    }
}

/// See [`super::current`].
pub fn current(section: &NoPreempt) -> Thread {
    with(section, Scheduler::current)
}

/// Makes a thread and readies it.
pub fn spawn(stack: Stack, main: Box<dyn FnOnce() + Send>) -> Thread {
    upcall::install();
    let section = NoPreempt::begin();
    let id = with(&section, |s| {
        s.next_id += 1;
        s.next_id - 1
    });
    let first = Context { general: [0; 15], rflags: FLAGS, rip: begin_thread as *const () as u64 };
    let at = stack.top() - size_of::<Context>() as u64;
    // SAFETY: the stack is mapped, larger than this, and nobody uses it yet.
    unsafe { (at as *mut Context).write(first) };
    let thread = Thread::make(id, Some(stack), Some(main));
    // SAFETY: nobody else has the thread yet.
    unsafe { *thread.0.stack_pointer.get() = at };
    make_ready(&section, thread.clone(), Wake::Woken);
    thread
}

/// What every new thread begins with.
pub extern "C" fn thread_main() -> ! {
    let section = NoPreempt::begun();
    let me = current(&section);
    bury(&section);
    drop(section);
    // SAFETY: only the thread itself takes it, once.
    let main = unsafe { (*me.0.main.get()).take() };
    drop(me);
    if let Some(main) = main {
        main();
    }
    let section = NoPreempt::begin();
    with(&section, |s| s.ended = s.current.clone());
    block(section);
    unreachable!("nobody wakes a thread that has ended")
}

/// Gives the stack back of a thread that has ended.
fn bury(section: &NoPreempt) {
    let Some(ended) = with(section, |s| s.ended.take()) else { return };
    // SAFETY: it never runs again, so that nobody uses the stack.
    drop(unsafe { (*ended.0.stack.get()).take() });
}

/// Adds a thread to the ready queue.
pub fn make_ready(section: &NoPreempt, thread: Thread, wake: Wake) {
    with(section, |s| {
        if s.ready.is_empty() {
            s.slice_end = now() + s.slice();
        }
        s.ready(thread, wake);
        s.arm();
    });
    if !upcall::is_first() {
        // The first dispatcher may be waiting, or run somebody for long.
        let _ = invoke(slots::DISPATCHER, op::Notify { bits: NOTIFY_READY });
    }
}

/// See [`super::yield_now`].
pub fn yield_now(section: &NoPreempt) {
    let others = with(section, |s| {
        s.wake_sleepers();
        if !s.ready.is_empty() {
            let me = s.current();
            s.ready.push_back(me);
        }
        !s.ready.is_empty()
    });
    if others {
        switch(section);
    }
}

/// Stops the current thread, which is in some queue, until it is readied; why it was.
pub fn block(section: NoPreempt) -> Wake {
    let me = current(&section);
    me.0.waiting.set(true);
    switch(&section);
    me.0.wake.get()
}

/// The same, but no longer than to `deadline`. A thread that is readied by others must be taken from
/// the sleepers by [`not_asleep`].
pub fn block_until(section: NoPreempt, deadline: u64) -> Wake {
    upcall::install();
    with(&section, |s| {
        let me = s.current();
        s.sleepers.push((deadline, me));
    });
    block(section)
}

/// Takes a thread from the sleepers.
pub fn not_asleep(section: &NoPreempt, thread: &Thread) {
    with(section, |s| s.sleepers.retain(|(_, sleeper)| sleeper != thread));
}

/// Stops the current thread until one of the bits has come.
pub fn block_for(section: NoPreempt, bits: u64) {
    upcall::install();
    with(&section, |s| {
        let me = s.current();
        s.listeners.push((bits, me));
    });
    block(section);
}

/// Takes those of the bits that have come.
pub fn take_notes(section: &NoPreempt, bits: u64) -> u64 {
    with(section, |s| {
        s.note(pending());
        let found = s.notes & bits;
        s.notes &= !bits;
        found
    })
}

/// See [`super::deliver`].
pub fn deliver(section: &NoPreempt, bits: u64) {
    with(section, |s| s.note(bits));
}

/// See [`super::new_bit`].
pub fn new_bit(section: &NoPreempt) -> Option<u64> {
    with(section, |s| {
        s.next_bit += 1;
        (s.next_bit <= LAST_BIT).then(|| 1 << (s.next_bit - 1))
    })
}

/// Takes the bits that the kernel has set.
fn pending() -> u64 {
    // SAFETY: the frame is mapped, the field atomic.
    let notifications = unsafe { &(*frame()).notifications };
    match notifications.load(Relaxed) {
        0 => 0,
        _ => notifications.swap(0, AcqRel),
    }
}

/// Runs the next thread. The current one is in some queue, or has ended.
fn switch(section: &NoPreempt) {
    assert!(preempt::depth() == 1, "a thread waits where no other may run");
    assert!(upcall::is_first(), "threads run on the first dispatcher of a domain");
    let next = loop {
        let next = with(section, |s| {
            s.wake_sleepers();
            let next = s.ready.pop_front();
            s.slice_end = now() + s.slice();
            s.arm();
            next
        });
        match next {
            Some(next) => break next,
            None => idle(section),
        }
    };
    let to = next.0.stack_pointer.get();
    let me = with(section, |s| {
        let me = s.current();
        s.current = Some(next);
        me
    });
    let from = me.0.stack_pointer.get();
    if from == to {
        // It was woken before anybody else could run.
        return;
    }
    // A thread that has ended never comes back here to let go of itself.
    drop(me);
    trace::mark(Mark::Thread(trace_number(from)));
    trace::mark(Mark::Thread(trace_number(to)));
    // SAFETY: both threads stay alive, one as the current one, the other in the queue that it waits
    // in or as the one that has ended; `to` is where it left its registers when it last came here.
    unsafe { switch_thread(from, *to) };
    bury(section);
}

/// What the function trace calls the thread that keeps its stack pointer here.
fn trace_number(stack_pointer: *const u64) -> u32 {
    (stack_pointer as u64 / size_of::<u64>() as u64) as u32
}

/// No thread can run: the domain waits.
fn idle(section: &NoPreempt) {
    let waited = section.wait(|| invoke(slots::DISPATCHER, op::Wait {}));
    let bits = waited.map_or(0, |answer| answer.value);
    with(section, |s| s.note(bits));
}

/// Notification bits have come. In a section that is put off to its end.
pub fn take_events() {
    if !upcall::is_first() {
        return;
    }
    if preempt::depth() != 0 {
        preempt::set_missed(true);
        return;
    }
    let section = NoPreempt::begin();
    preempt::set_missed(false);
    let preempted = with(&section, |s| {
        s.note(pending());
        let over = !s.ready.is_empty() && now() >= s.slice_end;
        if !over {
            s.arm();
        }
        over
    });
    if preempted {
        vectors::keeping(|| yield_now(&section));
    }
}
