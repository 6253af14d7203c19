//! Threads: other dispatchers of the same domain.
//!
//! Each has a kernel frame, an upcall stack and a session frame of its own ([`area`]), and its own
//! voice with `unixd`; capabilities, page tables and everything that the library knows are the
//! process's. Threads run in parallel, in the library one at a time: [`lock`] is taken on entry and
//! given up on the way back to the program and around everything that waits. Calls that need nothing but
//! what is the thread's own do without ([`crate::sys::unlocked`]).
//!
//! A process with one thread pays for none of it: the lock is used from the first `clone` on
//! ([`create`]).

pub mod area;
pub mod company;
pub mod create;
pub mod end;
pub mod lock;
pub mod park;
pub mod restart;

use crate::process::{Task, NO_CALL};
use crate::server::Header;
use crate::signal;
use crate::sys::numa::Policy;
use crate::sys::seccomp::Filter;
use crate::sys::userdispatch::Dispatch;
use crate::trace::breakpoints;
use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use linuxabi::debugregs::DebugRegisters;

/// What the library knows about one thread.
#[derive(Clone)]
pub struct Thread {
    /// Where its area is; 0 is the first thread.
    pub index: u32,
    /// Its id.
    pub tid: u32,
    /// Number of the system call that is being handled, or `NO_CALL`.
    pub call: u64,
    /// Its signals.
    pub signals: signal::Own,
    /// FS base, as the program set it.
    pub fs_base: u64,
    /// Where its end is shown: a word that becomes 0, and a futex; 0 for nowhere.
    pub clear_tid: u64,
    /// Its list of robust mutexes, or 0.
    pub robust_list: u64,
    /// Its restartable sequences.
    pub registered: Option<restart::Registered>,
    /// The cores on which a child that it makes runs: bit N is core N.
    pub affinity: u64,
    /// What it waits for in the library has happened.
    pub woken: bool,
    /// What its tracer has it watched for.
    pub debug: DebugRegisters,
    /// What was there before a step that goes on.
    pub before_step: Option<Box<breakpoints::Before>>,
    /// How its calls are filtered.
    pub filter: Filter,
    /// Which of its calls the program makes itself.
    pub dispatch: Option<Dispatch>,
    /// Where its memory is to be; `None`: anywhere.
    pub policy: Option<Policy>,
    /// How it starts.
    pub start: create::Start,
}

impl Thread {
    /// The first of a process.
    pub const fn first() -> Thread {
        Thread {
            index: 0,
            tid: 0,
            call: NO_CALL,
            signals: signal::Own::new(),
            fs_base: 0,
            clear_tid: 0,
            robust_list: 0,
            registered: None,
            affinity: u64::MAX,
            woken: false,
            debug: DebugRegisters::NONE,
            before_step: None,
            filter: Filter::None,
            dispatch: None,
            policy: None,
            start: create::Start::NONE,
        }
    }
}

impl Thread {
    /// `execve`: of the old program's memory nothing is left.
    pub fn exec(&mut self) {
        (self.clear_tid, self.robust_list, self.dispatch) = (0, 0, None);
        restart::forget(self);
        breakpoints::forget(self);
    }
}

struct First(UnsafeCell<Thread>);

// SAFETY: reached through `Me`, `Seen` and `with_own_signals` only.
unsafe impl Sync for First {}

static FIRST: First = First(UnsafeCell::new(Thread::first()));

/// The thread of each area, null where none is. Written with the lock held; a thread reads its own without it: it was
/// written before the thread began, and stays until it has ended.
static BY_AREA: [AtomicPtr<Thread>; area::AREAS as usize + 1] = {
    let mut all = [const { AtomicPtr::new(ptr::null_mut()) }; area::AREAS as usize + 1];
    all[0] = AtomicPtr::new(FIRST.0.get());
    all
};

/// Is there a thread in an area? Of the first that was one.
pub fn is_there(index: u32) -> bool {
    BY_AREA.get(index as usize).is_some_and(|thread| !thread.load(Ordering::Relaxed).is_null())
}

/// The thread that runs here.
#[inline(always)]
fn own() -> *mut Thread {
    BY_AREA[area::own_index() as usize].load(Ordering::Relaxed)
}

/// Calls `f` with the signals of the thread that runs here, whoever has the lock: nobody else ever uses them.
///
/// # Safety
///
/// The caller is outside of the lock, and no other reference to anything of its thread is used meanwhile.
#[inline(always)]
pub unsafe fn with_own_signals<T>(f: impl FnOnce(&mut signal::Own) -> T) -> T {
    // SAFETY: the thread is there as long as it runs. Others reach its other fields only (`Seen`), and itself it does so
    // with the lock, which it has not now.
    f(unsafe { &mut (*own()).signals })
}

/// The restartable sequences of the thread that runs here, whoever has the lock: nobody else ever uses them.
///
/// # Safety
///
/// As of [`with_own_signals`].
#[inline(always)]
unsafe fn own_registered() -> Option<restart::Registered> {
    // SAFETY: as there.
    unsafe { (*own()).registered }
}

/// The thread that runs in the library.
pub struct Me(*mut Thread);

impl Me {
    /// The first one.
    pub const fn first() -> Me {
        Me(FIRST.0.get())
    }
}

impl Deref for Me {
    type Target = Thread;
    #[inline(always)]
    fn deref(&self) -> &Thread {
        // SAFETY: the first thread's or one that `Threads` keeps as long as it runs. Only whoever
        // holds the lock has a `Task` and with it this.
        unsafe { &*self.0 }
    }
}

impl DerefMut for Me {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Thread {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0 }
    }
}

/// What others may use of a thread, with the lock held. The rest it may be using at the same time.
pub struct Seen<'a> {
    pub index: u32,
    pub tid: u32,
    pub robust_list: &'a mut u64,
    pub woken: &'a mut bool,
    pub filter: &'a mut Filter,
}

impl Me {
    /// The same of the thread itself.
    pub fn seen(&mut self) -> Seen<'_> {
        let Thread { index, tid, robust_list, woken, filter, .. } = &mut **self;
        Seen { index: *index, tid: *tid, robust_list, woken, filter }
    }
}

/// All threads but the first, by area.
pub struct Threads {
    /// First area behind those that have ever been used.
    end: u32,
    /// What was made of each area.
    areas: area::Areas,
    /// How many run, the first included.
    running: u32,
    /// The first has ended.
    first_ended: bool,
}

impl Threads {
    /// The first only.
    pub const fn new() -> Threads {
        Threads { end: 1, areas: area::Areas::new(), running: 1, first_ended: false }
    }

    /// Is there no other?
    pub fn is_alone(&self) -> bool {
        self.running == 1
    }

    /// A new one, in the area that it names.
    fn add(&mut self, thread: Thread) {
        let index = thread.index;
        self.end = self.end.max(index + 1);
        self.put(index, Box::into_raw(Box::new(thread)));
    }

    /// What is at an area now.
    fn put(&mut self, index: u32, thread: *mut Thread) {
        let before = BY_AREA[index as usize].swap(thread, Ordering::Relaxed);
        if !before.is_null() {
            // SAFETY: from `add`, and nobody finds it any more; it has ended, or never begun.
            drop(unsafe { Box::from_raw(before) });
        }
    }

    /// It is gone; what it had is free.
    fn remove(&mut self, index: u32) {
        if index > 0 {
            self.put(index, ptr::null_mut());
        }
        self.areas.put_back(index);
    }

    /// One that is not the first runs no more.
    pub fn gone(&mut self, index: u32) {
        self.running -= 1;
        self.remove(index);
    }

    fn find(&mut self, index: u32) -> Option<Seen<'_>> {
        let thread = BY_AREA.get(index as usize)?.load(Ordering::Relaxed);
        if thread.is_null() {
            return None;
        }
        // SAFETY: it is there while `self`, and so the lock, is held. Of its fields these are used with the lock only.
        let thread = unsafe {
            Seen {
                index,
                tid: (*thread).tid,
                robust_list: &mut (*thread).robust_list,
                woken: &mut (*thread).woken,
                filter: &mut (*thread).filter,
            }
        };
        Some(thread)
    }

    /// Calls `f` for all of the process that run but the one that runs here.
    pub fn each_other(&mut self, mut f: impl FnMut(Seen<'_>)) {
        let (first, own) = (u32::from(self.first_ended), area::own_index());
        let others = (first..self.end).filter(|index| *index != own);
        for index in others.filter(|index| company::is_of_own_process(*index)) {
            if let Some(thread) = self.find(index) {
                f(thread);
            }
        }
    }

    /// First area behind those of all that run.
    fn end(&self) -> u32 {
        self.end
    }

    /// The thread with an id, unless it has ended.
    pub fn by_tid(&mut self, tid: u32) -> Option<Seen<'_>> {
        let first = u32::from(self.first_ended);
        let index = (first..self.end).find(|index| {
            let thread = BY_AREA[*index as usize].load(Ordering::Relaxed);
            // SAFETY: as in `find`.
            !thread.is_null() && unsafe { (*thread).tid } == tid
        });
        self.find(index?)
    }
}

/// Makes the thread that runs here the one that `p.me` is.
#[inline]
pub fn become_current(task: &mut Task) {
    task.me = Me(own());
}

/// Calls `f` with the header of every thread of the process.
pub fn each_header(mut f: impl FnMut(&Header)) {
    f(crate::server::header());
    if lock::is_shared() {
        area::each_session(|index, header| {
            if company::is_of_own_process(index) {
                f(header);
            }
        });
    }
}

/// A forked child: the thread that forked is its first and only one.
pub fn after_fork(task: &mut Task, tid: u32) {
    let mut me = Thread::clone(&task.me);
    (me.index, me.tid, me.debug, me.dispatch) = (0, tid, DebugRegisters::NONE, None);
    // SAFETY: nobody else runs, and `me` is a copy.
    unsafe { *FIRST.0.get() = me };
    task.me = Me::first();
    // What the others had was not copied: their places are empty.
    for index in 1..task.threads.end() {
        task.threads.put(index, ptr::null_mut());
    }
    task.threads = Threads::new();
    task.futexes = park::Queues::new();
    park::after_fork();
}
