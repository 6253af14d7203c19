//! The lock of the library.
//!
//! Whoever finds it taken looks for a moment, then notes that it waits and sleeps until it is
//! notified. Whoever gives it up wakes one that waits; that one does not own the lock by being
//! woken, so that a thread which is not running keeps nobody from taking it.

use super::{self as thread, area};
use crate::process::Task;
use captypes::op;
use core::arch::asm;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use libos::invoke;

/// Notification bit: the lock was given up.
const NOTE_LOCK: u64 = 0x100;
/// How often it is looked at before sleeping.
const LOOKS: u32 = 64;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may be waiting.
const WAITED: u32 = 2;

const WORDS: usize = (area::AREAS as usize + 1).div_ceil(64);

/// There is or was more than one thread. Set by the only thread there is.
static SHARED: AtomicBool = AtomicBool::new(false);
static STATE: AtomicU32 = AtomicU32::new(FREE);
/// Threads that wait, by area. Set before `STATE` is `WAITED`.
static WAITING: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// Where the search for one that waits begins: behind the one woken last.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Is the lock in use?
#[inline(always)]
pub fn is_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

/// From now on it is; the caller, who was alone, holds it.
pub fn share() {
    if !is_shared() {
        STATE.store(TAKEN, Ordering::Relaxed);
        SHARED.store(true, Ordering::Release);
    }
}

/// There is one thread again, in a process where nobody else has ever run.
pub fn reset() {
    SHARED.store(false, Ordering::Relaxed);
    STATE.store(FREE, Ordering::Relaxed);
    for word in &WAITING {
        word.store(0, Ordering::Relaxed);
    }
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
    let taken = STATE.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
    if taken.is_err() {
        wait();
    }
}

#[cold]
fn wait() {
    for _ in 0..LOOKS {
        spin_loop();
        if STATE.load(Ordering::Relaxed) == FREE
            && STATE.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return;
        }
    }
    let index = area::own_index();
    let (word, bit) = (&WAITING[index as usize / 64], 1 << (index % 64));
    loop {
        word.fetch_or(bit, Ordering::SeqCst);
        if STATE.swap(WAITED, Ordering::SeqCst) == FREE {
            word.fetch_and(!bit, Ordering::SeqCst);
            return;
        }
        // A notification that came before is not lost: then this does not wait. Other bits that
        // come with it are about things that are looked at on the way back to the program.
        let _ = invoke(area::own_dispatcher(), op::Wait {});
    }
}

#[inline]
fn give() {
    if STATE.swap(FREE, Ordering::SeqCst) == WAITED {
        wake();
    }
}

#[cold]
fn wake() {
    let start = NEXT.load(Ordering::Relaxed);
    let limit = WORDS as u32 * 64;
    // Word by word from where the last search ended, and around once.
    for step in 0..=WORDS as u32 {
        let word = (start / 64 + step) % WORDS as u32;
        let from = if step == 0 { u64::MAX << (start % 64) } else { u64::MAX };
        let waiting = WAITING[word as usize].load(Ordering::SeqCst) & from;
        if waiting == 0 {
            continue;
        }
        let bit = waiting.trailing_zeros();
        WAITING[word as usize].fetch_and(!(1 << bit), Ordering::SeqCst);
        let index = word * 64 + bit;
        NEXT.store((index + 1) % limit, Ordering::Relaxed);
        // A thread that has ended waits for nothing.
        let _ = invoke(area::dispatcher(index), op::Notify { bits: NOTE_LOCK });
        return;
    }
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
            publish(task);
            thread::become_current(task);
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
