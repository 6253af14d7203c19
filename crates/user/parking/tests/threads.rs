//! Several threads at once, in every interleaving that matters.

use loom::sync::atomic::{AtomicU32, Ordering::*};
use loom::sync::{Arc, Notify};
use parking::{Crew, Lock, Presence, Word};

struct Atomic(AtomicU32);

impl Word for Atomic {
    fn load(&self) -> u32 {
        self.0.load(Acquire)
    }
    fn swap(&self, new: u32) -> u32 {
        self.0.swap(new, AcqRel)
    }
    fn replace(&self, old: u32, new: u32) -> bool {
        self.0.compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }
    fn add(&self, by: u32) -> u32 {
        self.0.fetch_add(by, SeqCst)
    }
    fn set(&self, bits: u32) -> u32 {
        self.0.fetch_or(bits, AcqRel)
    }
    fn clear(&self, bits: u32) -> u32 {
        self.0.fetch_and(!bits, AcqRel)
    }
}

fn zero() -> Atomic {
    Atomic(AtomicU32::new(0))
}

/// Threads with numbers, each of which sleeps at a place of its own.
struct Beds([Notify; 3]);

struct Sleeper<'a>(&'a Beds, u32);

impl Crew for Sleeper<'_> {
    fn own(&self) -> u32 {
        self.1
    }
    fn pause(&self) {}
    fn sleep(&self) {
        self.0 .0[self.1 as usize].wait();
    }
    fn wake(&self, thread: u32) {
        self.0 .0[thread as usize].notify();
    }
}

struct World {
    lock: Lock<Atomic, 1>,
    beds: Beds,
    presence: Presence<Atomic, 1>,
    futex: AtomicU32,
    /// What the lock protects.
    guarded: loom::cell::UnsafeCell<Vec<u32>>,
}

// SAFETY: `guarded` is used by who has the lock; loom reports it if that is not so.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            lock: Lock::new(zero(), zero(), [zero()], zero()),
            beds: Beds([Notify::new(), Notify::new(), Notify::new()]),
            presence: Presence::new([zero()]),
            futex: AtomicU32::new(0),
            guarded: Default::default(),
        })
    }

    fn locked<R>(&self, own: u32, looks: u32, work: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        let sleeper = Sleeper(&self.beds, own);
        self.lock.take(&sleeper, looks);
        // SAFETY: the lock is held.
        let result = self.guarded.with_mut(|all| work(unsafe { &mut *all }));
        self.lock.give(&sleeper);
        result
    }
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

/// Nobody sleeps for ever, and one at a time has the lock.
fn all_come_through(threads: u32, rounds: u32, looks: u32, preemptions: usize) {
    check(preemptions, move || {
        let world = World::new();
        let work = move |world: &World, own| {
            (0..rounds).for_each(|_| world.locked(own, looks, |all| all.push(own)));
        };
        let others = (1..threads).map(|own| {
            let world = world.clone();
            loom::thread::spawn(move || work(&world, own))
        });
        let others: Vec<_> = others.collect();
        work(&world, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(world.locked(0, looks, |all| all.len()) as u32, threads * rounds);
    });
}

#[test]
fn two_threads_never_look() {
    all_come_through(2, 2, 0, 4);
}

#[test]
fn two_threads_look_once() {
    all_come_through(2, 2, 1, 4);
}

#[test]
fn three_threads_never_look() {
    all_come_through(3, 1, 0, 3);
}

#[test]
fn three_threads_look_once() {
    all_come_through(3, 1, 1, 3);
}

/// A thread that waits for a word is woken by who changes it, although that one looks into the queue only if somebody
/// is there.
#[test]
fn a_wake_is_never_lost() {
    check(4, || {
        let world = World::new();
        let waiter = {
            let world = world.clone();
            loom::thread::spawn(move || {
                world.presence.arrive(8);
                let waits = world.locked(1, 1, |queue| {
                    let waits = world.futex.load(Relaxed) == 0;
                    if waits {
                        queue.push(1);
                    }
                    waits
                });
                if waits {
                    world.beds.0[2].wait();
                }
                world.presence.leave(8);
            })
        };
        world.futex.store(1, Relaxed);
        if !world.presence.is_empty(8) && world.locked(0, 1, |queue| queue.pop()).is_some() {
            world.beds.0[2].notify();
        }
        waiter.join().unwrap();
    });
}
