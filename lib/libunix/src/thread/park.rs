//! Waiting in the library: futexes of this process, and events of objects that the library keeps.
//!
//! A thread that waits is in a queue of the process and sleeps until its dispatcher is notified: by
//! another thread that has taken it out of the queue and set `woken`, by `unixd` because of a
//! signal, or by its timer.

use super::{area, lock};
use crate::errno::{Errno, Result};
use crate::invoke::invoke;
use crate::process::Task;
use crate::server;
use crate::signal;
use crate::sys::time;
use crate::thread::Threads;
use alloc::vec::Vec;
use captypes::op;
use core::ops::Deref;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use parking::Presence;

/// Notification bit: what a thread waited for has happened.
const NOTE_WOKEN: u64 = 0x200;

/// How a thread waits for a futex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To be woken.
    Plain,
    /// To own it.
    Owner,
    /// To be made to wait for this one, and to own that.
    Requeue(u64),
}

/// Who waits for a futex.
struct Waiter {
    address: u64,
    bits: u32,
    thread: u32,
    kind: Kind,
}

/// A wait that ended early.
pub struct Left {
    /// `EINTR` or `ETIMEDOUT`.
    pub why: Errno,
    /// How the thread waited last.
    pub kind: Kind,
}

/// Who waits for a futex, or is about to look at it: read without the lock by those that would wake somebody.
static PRESENCE: Presence<AtomicU32, 64> = Presence::new([const { AtomicU32::new(0) }; 64]);

/// Somebody may wait for a futex as long as this is there.
pub struct Arrival(u64);

impl Arrival {
    /// From now on, before the futex is looked at.
    pub fn at(address: u64) -> Arrival {
        PRESENCE.arrive(address);
        Arrival(address)
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        PRESENCE.leave(self.0);
    }
}

/// Does nobody wait for a futex in this process? What the caller has stored in it before, others find who will.
#[inline]
pub fn is_deserted(address: u64) -> bool {
    PRESENCE.is_empty(address)
}

/// A forked child: nobody waits.
pub fn after_fork() {
    PRESENCE.reset();
}

/// Those that wait for futexes, first come first. Each is counted where it waits.
struct Line(Vec<Waiter>);

impl Line {
    fn push(&mut self, waiter: Waiter) {
        PRESENCE.arrive(waiter.address);
        self.0.push(waiter);
    }

    fn remove(&mut self, at: usize) -> Waiter {
        let waiter = self.0.remove(at);
        PRESENCE.leave(waiter.address);
        waiter
    }
}

impl Deref for Line {
    type Target = [Waiter];
    fn deref(&self) -> &[Waiter] {
        &self.0
    }
}

/// Threads that wait.
pub struct Queues {
    /// For futexes.
    futexes: Line,
    /// For any event of the library's own objects.
    watchers: Vec<u32>,
}

impl Queues {
    /// Nobody.
    pub const fn new() -> Queues {
        Queues { futexes: Line(Vec::new()), watchers: Vec::new() }
    }
}

/// Sleeps until the thread is woken. `EINTR`: a signal came first; `ETIMEDOUT`: it is past
/// `deadline` on the monotonic clock.
pub fn park(task: &mut Task, deadline: Option<u64>) -> Result<()> {
    server::header().sleeps.store(1, Relaxed);
    let result = loop {
        if task.me.woken {
            break Ok(());
        }
        if signal::is_interrupted(&task.me) {
            break Err(Errno::EINTR);
        }
        if let Some(deadline) = deadline {
            if time::monotonic() >= deadline {
                break Err(Errno::ETIMEDOUT);
            }
            let timer = op::SetTimer { deadline: time::ticks_at(deadline) };
            // The own dispatcher has a timer.
            let _ = invoke(area::own_dispatcher(), timer);
        }
        sleep(task);
    };
    server::header().sleeps.store(0, Relaxed);
    if deadline.is_some() {
        // A timer that comes nevertheless finds nobody who waits for it.
        let _ = invoke(area::own_dispatcher(), op::SetTimer { deadline: 0 });
    }
    result
}

fn sleep(task: &mut Task) {
    let released = lock::release(task);
    // Whatever ends the wait, its caller looks again.
    let _ = invoke(area::own_dispatcher(), op::Wait {});
    drop(released);
}

/// Sleeps once, until the thread is notified of anything, or until `deadline`, unless it is woken already. That it sleeps is said before.
///
/// # Errors
/// `EINTR`: a signal has come.
pub fn nap(task: &mut Task, deadline: Option<u64>) -> Result<()> {
    if task.me.woken {
        return Ok(());
    }
    if signal::is_interrupted(&task.me) {
        return Err(Errno::EINTR);
    }
    if let Some(deadline) = deadline {
        let timer = op::SetTimer { deadline: time::ticks_at(deadline) };
        // The own dispatcher has a timer.
        let _ = invoke(area::own_dispatcher(), timer);
    }
    sleep(task);
    if deadline.is_some() {
        let _ = invoke(area::own_dispatcher(), op::SetTimer { deadline: 0 });
    }
    // It may have been long ago.
    time::look();
    match signal::is_interrupted(&task.me) {
        true => Err(Errno::EINTR),
        false => Ok(()),
    }
}

/// Wakes a thread that is in no queue any more.
fn unpark(threads: &mut Threads, index: u32) {
    if let Some(thread) = threads.find(index) {
        *thread.woken = true;
        // A thread that has ended waits for nothing.
        let _ = invoke(area::dispatcher(index), op::Notify { bits: NOTE_WOKEN });
    }
}

/// Waits for the futex at `address`, with `bits` in common with who wakes it.
pub fn wait(task: &mut Task, address: u64, bits: u32, deadline: Option<u64>) -> Result<()> {
    wait_as(task, address, bits, Kind::Plain, deadline).map_err(|left| left.why)
}

/// The same in any way.
pub fn wait_as(
    task: &mut Task,
    address: u64,
    bits: u32,
    kind: Kind,
    deadline: Option<u64>,
) -> core::result::Result<(), Left> {
    let thread = task.me.index;
    task.me.woken = false;
    task.futexes.futexes.push(Waiter { address, bits, thread, kind });
    let Err(why) = park(task, deadline) else { return Ok(()) };
    let queue = &mut task.futexes.futexes;
    let at = queue.iter().position(|waiter| waiter.thread == thread);
    Err(Left { why, kind: at.map_or(kind, |at| queue.remove(at).kind) })
}

/// Waits for any of several futexes. Answers which one was woken.
pub fn wait_any(task: &mut Task, addresses: &[u64], deadline: Option<u64>) -> Result<usize> {
    let thread = task.me.index;
    task.me.woken = false;
    for &address in addresses {
        let waiter = Waiter { address, bits: u32::MAX, thread, kind: Kind::Plain };
        task.futexes.futexes.push(waiter);
    }
    let result = park(task, deadline);
    // Who wakes one takes it out; the others are in the order in which they were put.
    let queue = &mut task.futexes.futexes;
    let mut woken = None;
    for (n, &address) in addresses.iter().enumerate() {
        let is_it = |waiter: &Waiter| waiter.thread == thread && waiter.address == address;
        match queue.iter().position(is_it) {
            Some(at) => drop(queue.remove(at)),
            None => woken = Some(n),
        }
    }
    match (woken, result) {
        (Some(n), _) => Ok(n),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(Errno::EINTR),
    }
}

impl Queues {
    /// Those that wait for a futex, first come first.
    fn waiters(&self, address: u64) -> impl Iterator<Item = &Waiter> {
        self.futexes.iter().filter(move |waiter| waiter.address == address)
    }
}

/// Do threads wait for a futex in another way than this?
pub fn has_others(futexes: &Queues, address: u64, kind: Kind) -> bool {
    futexes.waiters(address).any(|waiter| waiter.kind != kind)
}

/// The id of the thread that has waited longest for a futex.
pub fn first(task: &mut Task, address: u64) -> Option<u32> {
    let index = task.futexes.waiters(address).next()?.thread;
    task.threads.find(index).map(|thread| thread.tid)
}

/// The id of the thread that has waited longest to own a futex.
pub fn first_owner(task: &mut Task, address: u64) -> Option<u32> {
    let index = task.futexes.waiters(address).find(|waiter| waiter.kind == Kind::Owner)?.thread;
    task.threads.find(index).map(|thread| thread.tid)
}

/// Wakes the thread that has waited longest for a futex.
pub fn wake_first(task: &mut Task, address: u64) {
    let queue = &mut task.futexes.futexes;
    if let Some(at) = queue.iter().position(|waiter| waiter.address == address) {
        let waiter = queue.remove(at);
        unpark(&mut task.threads, waiter.thread);
    }
}

/// Wakes the thread that has waited longest to own a futex.
pub fn wake_owner(task: &mut Task, address: u64) {
    let queue = &mut task.futexes.futexes;
    let is = |waiter: &Waiter| waiter.address == address && waiter.kind == Kind::Owner;
    if let Some(at) = queue.iter().position(is) {
        let waiter = queue.remove(at);
        unpark(&mut task.threads, waiter.thread);
    }
}

/// Has up to `count` threads that wait for one futex wait to own another. Answers how many.
pub fn make_owners(futexes: &mut Queues, from: u64, to: u64, count: u64) -> u64 {
    move_all(futexes, from, count, |waiter| Waiter { address: to, kind: Kind::Owner, ..waiter })
}

/// Futexes that threads wait to own.
pub fn owned(futexes: &Queues) -> impl Iterator<Item = u64> + '_ {
    let waiters = futexes.futexes.iter().filter(|waiter| waiter.kind == Kind::Owner);
    waiters.map(|waiter| waiter.address)
}

/// Wakes up to `count` threads that wait for the futex at `address`. Answers how many.
pub fn wake(task: &mut Task, address: u64, count: u32, bits: u32) -> u32 {
    let mut woken = 0;
    while woken < count {
        let fits = |waiter: &Waiter| {
            waiter.address == address && waiter.bits & bits != 0 && waiter.kind == Kind::Plain
        };
        let Some(at) = task.futexes.futexes.iter().position(fits) else { break };
        let waiter = task.futexes.futexes.remove(at);
        unpark(&mut task.threads, waiter.thread);
        woken += 1;
    }
    woken
}

/// Wakes all threads that wait for something between two numbers that are no addresses of futexes.
pub fn wake_between(task: &mut Task, from: u64, to: u64) {
    let fits =
        |waiter: &Waiter| (from..to).contains(&waiter.address) && waiter.address % 4 == from % 4;
    while let Some(at) = task.futexes.futexes.iter().position(fits) {
        let waiter = task.futexes.futexes.remove(at);
        unpark(&mut task.threads, waiter.thread);
    }
}

/// Has up to `count` threads that wait for one futex wait for another. Answers how many.
pub fn requeue(futexes: &mut Queues, from: u64, to: u64, count: u32) -> u32 {
    move_all(futexes, from, count.into(), |waiter| Waiter { address: to, ..waiter }) as u32
}

/// Has up to `count` threads that wait for one futex wait as `how` says, behind all others. Answers how many.
fn move_all(futexes: &mut Queues, from: u64, count: u64, how: impl Fn(Waiter) -> Waiter) -> u64 {
    let queue = &mut futexes.futexes;
    let (mut moved, mut at) = (Vec::new(), 0);
    while at < queue.len() && (moved.len() as u64) < count {
        match queue[at].address == from {
            true => moved.push(queue.remove(at)),
            false => at += 1,
        }
    }
    let count = moved.len() as u64;
    moved.into_iter().map(how).for_each(|waiter| queue.push(waiter));
    count
}

/// Waits until something happens to an object of the library. May come back for another reason.
pub fn watch(task: &mut Task, deadline: Option<u64>) -> Result<()> {
    start_watching(task);
    let result = park(task, deadline);
    stop_watching(task);
    result
}

/// The thread is told of events from now on.
pub fn start_watching(task: &mut Task) {
    let thread = task.me.index;
    task.me.woken = false;
    task.futexes.watchers.push(thread);
}

/// Not any more. Answers whether there was one.
pub fn stop_watching(task: &mut Task) -> bool {
    let thread = task.me.index;
    task.futexes.watchers.retain(|watcher| *watcher != thread);
    core::mem::take(&mut task.me.woken)
}

/// Something has happened to an object of the library.
pub fn tell_watchers(task: &mut Task) {
    for index in core::mem::take(&mut task.futexes.watchers) {
        unpark(&mut task.threads, index);
        if let Some(tid) = task.threads.find(index).map(|thread| thread.tid) {
            // It may be asking `unixd` for other events at the same time.
            let _ = server::call(server::op::Stir { tid });
        }
    }
}
