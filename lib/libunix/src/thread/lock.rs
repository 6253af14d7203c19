//! The lock of the library.
//!
//! How threads wait for it is [`parking::Lock`]: they look for a moment, then sleep until they are notified.

use super::{self as thread, area};
use crate::beside;
use crate::mm::leases;
use crate::process::Task;
use crate::sys::scheduling;
use captypes::op;
use core::arch::asm;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use libos::invoke;
use parking::{Crew, Lock};

/// Notification bit: the lock was given up.
const NOTE_LOCK: u64 = 0x100;
/// How often it is looked at before sleeping: about as long as to sleep and to be woken takes, which two invocations do at the home of the process, where who has the
/// lock has work to do, too.
const LOOKS: u32 = 2000;

const WORDS: usize = (area::AREAS as usize + 1).div_ceil(32);

/// There is or was more than one thread. Set by the only thread there is.
static SHARED: AtomicBool = AtomicBool::new(false);
static LOCK: Lock<AtomicU32, WORDS> = Lock::new(
    AtomicU32::new(0),
    AtomicU32::new(0),
    [const { AtomicU32::new(0) }; WORDS],
    AtomicU32::new(0),
);
/// How often the lock was found taken, and how often somebody slept then.
static WAITS: AtomicU64 = AtomicU64::new(0);
static SLEEPS: AtomicU64 = AtomicU64::new(0);

/// How often a thread had to wait for another, and how often it slept then.
pub fn counters() -> (u64, u64) {
    (WAITS.load(Ordering::Relaxed), SLEEPS.load(Ordering::Relaxed))
}

/// The threads of the process, by area.
struct Threads;

impl Crew for Threads {
    fn own(&self) -> u32 {
        area::own_index()
    }
    fn pause(&self) {
        spin_loop();
    }
    fn sleep(&self) {
        // A notification that came before is not lost: then this does not wait. Other bits that
        // come with it are about things that are looked at on the way back to the program.
        let _ = invoke(area::own_dispatcher(), op::Wait {});
    }
    fn wake(&self, thread: u32) {
        // A thread that has ended waits for nothing.
        let _ = invoke(area::dispatcher(thread), op::Notify { bits: NOTE_LOCK });
    }
}

/// Is the lock in use?
#[inline(always)]
pub fn is_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

/// From now on it is; the caller, who was alone, holds it.
pub fn share() {
    if !is_shared() {
        // Nobody else is there to have it.
        let _ = LOCK.try_take();
        SHARED.store(true, Ordering::Release);
    }
}

/// There is one thread again, in a process where nobody else has ever run.
pub fn reset() {
    SHARED.store(false, Ordering::Relaxed);
    LOCK.reset();
    area::after_fork();
}

/// Takes the lock, if it is in use. Returns whether it is.
#[inline(always)]
pub fn enter() -> bool {
    let shared = is_shared();
    if shared {
        take();
    }
    shared
}

/// Gives it up.
#[inline(always)]
pub fn leave() {
    if is_shared() {
        give();
    }
}

#[inline]
fn take() {
    if !LOCK.try_take() {
        wait();
    }
}

#[cold]
#[inline(never)]
fn wait() {
    WAITS.fetch_add(1, Ordering::Relaxed);
    // On one core nobody gives it up meanwhile.
    let looks = if scheduling::all_cores() == 1 { 0 } else { LOOKS };
    let slept = LOCK.take(&Threads, looks);
    SLEEPS.fetch_add(slept.into(), Ordering::Relaxed);
}

#[inline]
fn give() {
    LOCK.give(&Threads);
}

/// The lock, given up for a while: it is taken again when this is dropped, and until then nothing of the process can
/// be used. Whatever is in the process may be different afterwards.
#[must_use]
pub struct Released<'a> {
    /// `None`: the lock is not in use.
    task: Option<&'a mut Task>,
}

/// Gives the lock up while the caller waits for something. The task is reached only through `Io` and `Process`, which
/// are borrowed as a whole for that: no caller uses another part meanwhile.
#[inline]
pub fn release(task: &mut Task) -> Released<'_> {
    if !is_shared() {
        return Released { task: None };
    }
    publish(task);
    give();
    Released { task: Some(task) }
}

impl Drop for Released<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(task) = &mut self.task {
            take();
            // SAFETY: the task is used below only, as something that others have changed.
            unsafe { beside::settle() };
            publish(task);
            thread::become_current(task);
            if leases::minds(task.me.call) {
                leases::end_all(&mut task.mm);
            }
        }
    }
}

/// Others change the process behind the compiler's back: what was stored must really be there, and
/// what is used later must be read again.
fn publish(task: &mut Task) {
    let task: *mut Task = task;
    // SAFETY: does nothing; but for the compiler it may read and write everything in the process.
    unsafe { asm!("/* {} */", in(reg) task, options(nostack, preserves_flags)) };
}
