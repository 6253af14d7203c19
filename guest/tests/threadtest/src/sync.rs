//! Mutexes, condition variables, semaphores, barriers.

use crate::Test;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use libos::thread::sync::{Barrier, Condvar, Mutex, Semaphore};
use libos::thread::{self, JoinHandle};
use libos::Status;
use testkit::{check, good, Machine, Outcome};

pub const TESTS: &[Test] = &[
    ("sync_mutex", mutex),
    ("sync_mutex_is_fair", mutex_is_fair),
    ("sync_condvar", condvar),
    ("sync_condvar_timeout", condvar_timeout),
    ("sync_semaphore", semaphore),
    ("sync_barrier", barrier),
];

/// `count` threads that do the same.
pub fn crowd<T: Send + 'static>(
    count: u64,
    f: impl Fn(u64) -> T + Clone + Send + 'static,
) -> Result<Vec<JoinHandle<T>>, Status> {
    let one = |number| {
        let f = f.clone();
        thread::spawn(move || f(number))
    };
    (0..count).map(one).collect()
}

pub fn join_all<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(JoinHandle::join).collect()
}

/// Read, wait, write: nobody comes in between.
fn mutex(_: &Machine) -> Outcome {
    thread::set_slice(1);
    let total = Arc::new(Mutex::new(0u64));
    let own = total.clone();
    let threads = good!(crowd(6, move |number| {
        for turn in 0..200 {
            let mut total = own.lock();
            let before = *total;
            if turn % 7 == number {
                thread::yield_now();
            }
            (0..50).for_each(|_| core::hint::spin_loop());
            *total = before + 1;
        }
    }));
    join_all(threads);
    thread::set_slice(0);
    check!(*total.lock() == 1200);
    check!(total.try_lock().is_some());
    let guard = total.lock();
    check!(total.try_lock().is_none());
    drop(guard);
    Ok(())
}

/// Who asks first gets it first.
fn mutex_is_fair(_: &Machine) -> Outcome {
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = order.lock();
    let own = order.clone();
    let threads = good!(crowd(5, move |number| own.lock().push(number)));
    thread::sleep(Duration::from_millis(2));
    drop(held);
    join_all(threads);
    check!(*order.lock() == [0, 1, 2, 3, 4]);
    Ok(())
}

/// A queue of three places between producers and consumers.
fn condvar(_: &Machine) -> Outcome {
    struct Queue {
        items: Mutex<VecDeque<u64>>,
        changed: Condvar,
    }
    const ROOM: usize = 3;
    const EACH: u64 = 200;
    thread::set_slice(1);
    let queue = Arc::new(Queue { items: Mutex::new(VecDeque::new()), changed: Condvar::new() });
    let own = queue.clone();
    let producers = good!(crowd(3, move |number| {
        for item in 0..EACH {
            let items = own.items.lock();
            let mut items = own.changed.wait_while(items, |items| items.len() == ROOM);
            items.push_back(number * EACH + item);
            own.changed.notify_all();
        }
    }));
    let own = queue.clone();
    let consumers = good!(crowd(2, move |_| {
        let mut taken = Vec::new();
        for _ in 0..3 * EACH / 2 {
            let items = own.items.lock();
            let mut items = own.changed.wait_while(items, |items| items.is_empty());
            taken.extend(items.pop_front());
            own.changed.notify_all();
        }
        taken
    }));
    join_all(producers);
    let mut all: Vec<u64> = join_all(consumers).concat();
    thread::set_slice(0);
    all.sort_unstable();
    check!(all == (0..3 * EACH).collect::<Vec<_>>());
    Ok(())
}

/// A time-out comes in time, leaves nothing behind, and does not take a notification away.
fn condvar_timeout(_: &Machine) -> Outcome {
    let pair = Arc::new((Mutex::new(0u64), Condvar::new()));
    let before = thread::now_ns();
    let (guard, over) = pair.1.wait_timeout(pair.0.lock(), Duration::from_millis(5));
    check!(over && thread::now_ns() - before >= 5_000_000);
    drop(guard);
    // Nobody waits any more: this is for nobody.
    pair.1.notify_one();
    let own = pair.clone();
    let other = good!(thread::spawn(move || {
        let (mut value, over) = own.1.wait_timeout(own.0.lock(), Duration::from_secs(100));
        *value += 1;
        over
    }));
    thread::sleep(Duration::from_millis(2));
    pair.1.notify_one();
    check!(!other.join());
    check!(*pair.0.lock() == 1);
    Ok(())
}

/// No more threads inside than there are permits.
fn semaphore(_: &Machine) -> Outcome {
    static INSIDE: AtomicU64 = AtomicU64::new(0);
    static MOST: AtomicU64 = AtomicU64::new(0);
    static PERMITS: Semaphore = Semaphore::new(3);
    let threads = good!(crowd(8, |_| {
        for _ in 0..20 {
            PERMITS.acquire();
            let inside = INSIDE.fetch_add(1, Relaxed) + 1;
            MOST.fetch_max(inside, Relaxed);
            thread::yield_now();
            INSIDE.fetch_sub(1, Relaxed);
            PERMITS.release();
        }
    }));
    join_all(threads);
    check!(MOST.load(Relaxed) == 3);
    check!((0..3).all(|_| PERMITS.try_acquire()) && !PERMITS.try_acquire());
    Ok(())
}

/// Nobody is a round ahead.
fn barrier(_: &Machine) -> Outcome {
    static ROUNDS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    thread::set_slice(1);
    let barrier = Arc::new(Barrier::new(4));
    let threads = good!(crowd(4, move |number| {
        let (mut last, mut together) = (0, true);
        for round in 1..=50 {
            ROUNDS[number as usize].store(round, Relaxed);
            last += u64::from(barrier.wait());
            together &= ROUNDS.iter().all(|other| other.load(Relaxed) >= round);
            barrier.wait();
        }
        (last, together)
    }));
    let results = join_all(threads);
    thread::set_slice(0);
    check!(results.iter().all(|(_, together)| *together));
    check!(results.iter().map(|(last, _)| last).sum::<u64>() == 50);
    Ok(())
}
