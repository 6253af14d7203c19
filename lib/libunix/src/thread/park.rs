//! Waiting in the library: futexes of this process, and events of objects that the library keeps.
//!
//! A thread that waits is in a queue of the process and sleeps until its dispatcher is notified: by
//! another thread that has taken it out of the queue and set `woken`, by `unixd` because of a
//! signal, or by its timer.

use super::{area, lock};
use crate::errno::{Errno, Result};
use crate::invoke::invoke;
use crate::process::Process;
use crate::signal;
use crate::sys::time;
use alloc::vec::Vec;
use captypes::op;

/// Notification bit: what a thread waited for has happened.
const NOTE_WOKEN: u64 = 0x200;

/// Who waits for a futex.
struct Waiter {
    address: u64,
    bits: u32,
    thread: u32,
}

/// Threads that wait.
pub struct Queues {
    /// For futexes, first come first.
    futexes: Vec<Waiter>,
    /// For any event of the library's own objects.
    watchers: Vec<u32>,
}

impl Queues {
    /// Nobody.
    pub const fn new() -> Queues {
        Queues { futexes: Vec::new(), watchers: Vec::new() }
    }
}

/// Sleeps until the thread is woken. `EINTR`: a signal came first; `ETIMEDOUT`: it is past
/// `deadline` on the monotonic clock.
pub fn park(p: &mut Process, deadline: Option<u64>) -> Result<()> {
    let result = loop {
        if p.me.woken {
            break Ok(());
        }
        if signal::is_interrupted(p) {
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
        let _ = lock::without(p, || invoke(area::own_dispatcher(), op::Wait {}));
    };
    if deadline.is_some() {
        let _ = invoke(area::own_dispatcher(), op::SetTimer { deadline: 0 });
    }
    result
}

/// Wakes a thread that is in no queue any more.
fn unpark(p: &mut Process, index: u32) {
    if let Some(thread) = p.threads.find(index) {
        thread.woken = true;
        let _ = invoke(area::dispatcher(index), op::Notify { bits: NOTE_WOKEN });
    }
}

/// Waits for the futex at `address`, with `bits` in common with who wakes it.
pub fn wait(p: &mut Process, address: u64, bits: u32, deadline: Option<u64>) -> Result<()> {
    let thread = p.me.index;
    p.me.woken = false;
    p.futexes.futexes.push(Waiter { address, bits, thread });
    let result = park(p, deadline);
    if result.is_err() {
        p.futexes.futexes.retain(|waiter| waiter.thread != thread);
    }
    result
}

/// Wakes up to `count` threads that wait for the futex at `address`. Answers how many.
pub fn wake(p: &mut Process, address: u64, count: u32, bits: u32) -> u32 {
    let mut woken = 0;
    while woken < count {
        let fits = |waiter: &Waiter| waiter.address == address && waiter.bits & bits != 0;
        let Some(at) = p.futexes.futexes.iter().position(fits) else { break };
        let waiter = p.futexes.futexes.remove(at);
        unpark(p, waiter.thread);
        woken += 1;
    }
    woken
}

/// Has up to `count` threads that wait for one futex wait for another. Answers how many.
pub fn requeue(p: &mut Process, from: u64, to: u64, count: u32) -> u32 {
    let mut moved = Vec::new();
    while (moved.len() as u32) < count {
        let waits = |waiter: &Waiter| waiter.address == from;
        let Some(at) = p.futexes.futexes.iter().position(waits) else { break };
        let waiter = p.futexes.futexes.remove(at);
        moved.push(Waiter { address: to, ..waiter });
    }
    let count = moved.len() as u32;
    p.futexes.futexes.extend(moved);
    count
}

/// Waits until something happens to an object of the library. May come back for another reason.
pub fn watch(p: &mut Process, deadline: Option<u64>) -> Result<()> {
    start_watching(p);
    let result = park(p, deadline);
    stop_watching(p);
    result
}

/// The thread is told of events from now on.
pub fn start_watching(p: &mut Process) {
    let thread = p.me.index;
    p.me.woken = false;
    p.futexes.watchers.push(thread);
}

/// Not any more. Answers whether there was one.
pub fn stop_watching(p: &mut Process) -> bool {
    let thread = p.me.index;
    p.futexes.watchers.retain(|watcher| *watcher != thread);
    core::mem::take(&mut p.me.woken)
}

/// Something has happened to an object of the library.
pub fn tell_watchers(p: &mut Process) {
    for index in core::mem::take(&mut p.futexes.watchers) {
        unpark(p, index);
        if let Some(tid) = p.threads.find(index).map(|thread| thread.tid) {
            // It may be asking `unixd` for other events at the same time.
            let _ = crate::server::call(crate::server::op::Stir { tid });
        }
    }
}
