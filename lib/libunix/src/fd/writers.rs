//! Who writes to files through windows, and where.
//!
//! Each thread has a place at which it says to which bytes of which file it is about to write without the lock of the library; whoever has the lock
//! has one, too. Each says so before it looks at the others: so of two that would write to the same bytes one sees the other, and the one without the
//! lock goes after it. Linux has each write of a file wait for the one before.
//!
//! Nobody who writes without the lock waits for anything meanwhile, and the copy ends where memory is missing. So who waits for such a thread waits at most until it
//! has run once more.

use crate::invoke::invoke;
use crate::sys::time;
use crate::thread::area;
use captypes::op;
use core::ptr;
use core::sync::atomic::{fence, AtomicU64, AtomicUsize, Ordering};

/// Of threads with higher numbers none writes without the lock.
const PLACES: usize = 63;
/// How often a thread without the lock tries again where another one writes, and how long it waits for that each time: longer than a page is copied.
const AGAIN: u32 = 4;
const SPINS: u32 = 500;
/// How often a thread that is waited for is given way before the one that waits sleeps.
const YIELDS: u32 = 16;
/// For so many nanoseconds.
const NAP_NS: u64 = 50_000;

/// What one is about to write. No two are in a line of the cache.
#[repr(align(64))]
struct Place {
    /// The file and one; 0: nothing.
    file: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

/// Those of threads without the lock.
static ALL: [Place; PLACES] = [const { Place::free() }; PLACES];
/// So many have been used. Where none was nobody looks there: a forked child needs no copy of that page.
static USED: AtomicUsize = AtomicUsize::new(0);
/// That of whoever has the lock.
static LOCKED: Place = Place::free();

impl Place {
    const fn free() -> Place {
        Place { file: AtomicU64::new(0), start: AtomicU64::new(0), end: AtomicU64::new(0) }
    }
    #[inline(always)]
    fn is_used(&self) -> bool {
        self.file.load(Ordering::SeqCst) != 0
    }
    /// Says what is about to be written there. What is seen of others afterwards is as it is then.
    #[inline(always)]
    fn say(&self, inode: u64, (start, end): (u64, u64)) {
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.file.store(inode + 1, Ordering::Release);
        fence(Ordering::SeqCst);
    }
    /// Are some of these bytes written there? What is said anew meanwhile is said by who will look here afterwards.
    #[inline(always)]
    fn has(&self, inode: u64, (start, end): (u64, u64)) -> bool {
        self.file.load(Ordering::Acquire) == inode + 1
            && self.start.load(Ordering::Relaxed) < end
            && start < self.end.load(Ordering::Relaxed)
    }
}

/// Bytes are written as long as this is there.
pub struct Writing(&'static Place);

impl Writing {
    /// Without the lock. `None`: somebody else writes there.
    #[inline(always)]
    pub fn begin(inode: u64, part: (u64, u64)) -> Option<Writing> {
        let number = area::own_index() as usize;
        let place = ALL.get(number)?;
        if USED.load(Ordering::Relaxed) <= number {
            USED.fetch_max(number + 1, Ordering::SeqCst);
        }
        for _ in 0..AGAIN {
            place.say(inode, part);
            let writing = Writing(place);
            let mut all = used().iter().chain([&LOCKED]);
            let other = all.find(|other| !ptr::eq(*other, place) && other.has(inode, part));
            let Some(other) = other else { return Some(writing) };
            drop(writing);
            Self::wait_a_little(|| other.has(inode, part));
        }
        None
    }

    /// Mostly the other one is running, and soon done.
    #[cold]
    fn wait_a_little(goes_on: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if !goes_on() {
                break;
            }
            core::hint::spin_loop();
        }
    }

    /// With the lock, when nobody else writes there any more.
    #[inline]
    pub fn begin_locked(inode: u64, part: (u64, u64)) -> Writing {
        LOCKED.say(inode, part);
        used().iter().for_each(|other| wait_while(|| other.has(inode, part)));
        Writing(&LOCKED)
    }
}

impl Drop for Writing {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.file.store(0, Ordering::Release);
    }
}

/// The places of who has no lock, as far as they were ever used.
#[inline]
fn used() -> &'static [Place] {
    &ALL[..USED.load(Ordering::SeqCst).min(PLACES)]
}

/// Returns when each write without the lock has ended that has begun before.
#[inline]
pub fn wait_for_all() {
    used().iter().for_each(|other| wait_while(|| other.is_used()));
}

/// Nobody writes: the threads that did are the parent's.
pub fn after_fork() {
    if !used().is_empty() {
        used().iter().for_each(|place| place.file.store(0, Ordering::Relaxed));
        USED.store(0, Ordering::SeqCst);
    }
}

#[inline(always)]
fn wait_while(goes_on: impl Fn() -> bool) {
    if goes_on() {
        wait_long(&goes_on);
    }
}

/// One of the threads that write is not running. It may be one that comes after this one always, so this one sleeps.
#[cold]
fn wait_long(goes_on: &dyn Fn() -> bool) {
    let own = area::own_dispatcher();
    let mut yields = YIELDS;
    while goes_on() {
        if yields > 0 {
            yields -= 1;
            let _ = invoke(own, op::Yield {});
            continue;
        }
        let deadline = time::ticks_at(time::monotonic() + NAP_NS);
        let _ = invoke(own, op::SetTimer { deadline });
        let _ = invoke(own, op::Wait {});
    }
}
