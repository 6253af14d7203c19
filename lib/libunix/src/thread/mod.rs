//! Threads: other dispatchers of the same domain.
//!
//! Each has a kernel frame, an upcall stack and a session frame of its own ([`area`]), and its own
//! voice with `unixd`; capabilities, page tables and everything that the library knows are the
//! process's. Threads run in parallel, in the library one at a time: [`lock`] is taken on entry and
//! given up on the way back to the program and around everything that waits.
//!
//! A process with one thread pays for none of it: the lock is used from the first `clone` on
//! ([`create`]).

pub mod area;
pub mod create;
pub mod end;
pub mod lock;
pub mod park;

use crate::process::{Task, NO_CALL};
use crate::server::Header;
use crate::signal;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

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
    /// The cores on which it may run: bit N is core N.
    pub affinity: u64,
    /// What it waits for in the library has happened.
    pub woken: bool,
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
            affinity: u64::MAX,
            woken: false,
            start: create::Start::NONE,
        }
    }
}

impl Thread {
    /// `execve`: of the old program's memory nothing is left.
    pub fn exec(&mut self) {
        (self.clear_tid, self.robust_list) = (0, 0);
    }
}

struct First(UnsafeCell<Thread>);

// SAFETY: reached through `Me` only, by the thread that holds the lock.
unsafe impl Sync for First {}

static FIRST: First = First(UnsafeCell::new(Thread::first()));

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

/// All threads but the first, by area.
pub struct Threads {
    places: Vec<Option<Box<Thread>>>,
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
        Threads { places: Vec::new(), areas: area::Areas::new(), running: 1, first_ended: false }
    }

    /// Is there no other?
    pub fn is_alone(&self) -> bool {
        self.running == 1
    }

    /// A new one, in the area that it names.
    fn add(&mut self, thread: Thread) {
        let place = thread.index as usize - 1;
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(Box::new(thread));
    }

    /// It is gone; what it had is free.
    fn remove(&mut self, index: u32) {
        if let Some(place) = self.places.get_mut(index as usize - 1) {
            *place = None;
        }
        self.areas.put_back(index);
    }

    fn find(&mut self, index: u32) -> Option<&mut Thread> {
        match index {
            // SAFETY: as in `Me`.
            0 => Some(unsafe { &mut *FIRST.0.get() }),
            _ => self.places.get_mut(index as usize - 1)?.as_deref_mut(),
        }
    }

    /// First area behind those of all that run.
    fn end(&self) -> u32 {
        self.places.len() as u32 + 1
    }

    /// The thread with an id, unless it has ended.
    pub fn by_tid(&mut self, tid: u32) -> Option<&mut Thread> {
        // SAFETY: as in `Me`.
        let first = unsafe { &mut *FIRST.0.get() };
        let first = (!self.first_ended).then_some(first);
        let others = self.places.iter_mut().flatten().map(|thread| &mut **thread);
        first.into_iter().chain(others).find(|thread| thread.tid == tid)
    }
}

/// Makes the thread that runs here the one that `p.me` is.
#[inline]
pub fn become_current(task: &mut Task) {
    let index = area::own_index();
    if let Some(thread) = task.threads.find(index) {
        let thread: *mut Thread = thread;
        task.me = Me(thread);
    }
}

/// Calls `f` with the header of every thread.
pub fn each_header(mut f: impl FnMut(&Header)) {
    f(crate::server::header());
    if lock::is_shared() {
        area::each_session(f);
    }
}

/// A forked child: the thread that forked is its first and only one.
pub fn after_fork(task: &mut Task, tid: u32) {
    let mut me = Thread::clone(&task.me);
    (me.index, me.tid) = (0, tid);
    // SAFETY: nobody else runs, and `me` is a copy.
    unsafe { *FIRST.0.get() = me };
    task.me = Me::first();
    // What the others had was not copied: their places are empty.
    task.threads = Threads::new();
    task.futexes = park::Queues::new();
}
