//! The process: all state of the library, in one static.
//!
//! It has levels: [`Task`] inside [`Io`] inside [`Process`]. Who has a level can give the lock up (`thread::lock`), and
//! other threads then change everything. So an inner level is private, and reached by borrowing all of the outer one.
//! A part inside a level ([`mm::Mm`], [`fd::Fds`], …) and parts side by side ([`Files`]) cannot give it up.

use crate::thread::{self, area, lock, park};
use crate::{beside, fd, fork, mm, signal, sys, vfork};
use abi::DispatcherFrame;
use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// The program: its memory and its threads. What copies from and to it, and what makes a thread wait or wakes
/// one, needs no more.
pub struct Task {
    /// Program memory.
    pub mm: mm::Mm,
    /// The thread that runs in the library.
    pub me: thread::Me,
    /// The other threads.
    pub threads: thread::Threads,
    /// Threads that wait for each other.
    pub futexes: park::Queues,
}

/// The files and program memory, side by side: whoever has them cannot wait.
pub struct Files<'a> {
    pub fds: &'a mut fd::Fds,
    pub mm: &'a mut mm::Mm,
}

/// What opening, reading and writing need: the files, and the program whose memory it is.
pub struct Io {
    task: Task,
    /// File descriptors.
    pub fds: fd::Fds,
    /// How much the process may have.
    pub limits: sys::limits::Limits,
    /// Random bytes of this process alone: forgotten before a child copies it.
    pub random: sys::random::Random,
    /// What is of other processes that have the same memory.
    pub others: beside::Others,
}

/// Everything that the library knows about its process. A forked child starts with a copy.
pub struct Process {
    io: Io,
    /// Process id.
    pub pid: u32,
    /// Signal actions.
    pub signals: signal::Signals,
    /// What system calls remember.
    pub sys: sys::State,
    /// What a forked child needs to know when it starts.
    pub fork: fork::Handover,
    /// In a vfork: what this process is besides the child that it acts as.
    pub parent: Option<Box<vfork::Parent>>,
}

/// What a process has of its own that shares its memory with others: whoever has it cannot make a child.
pub struct Own<'a> {
    /// The files, the program and its threads.
    pub io: &'a mut Io,
    /// Process id.
    pub pid: &'a mut u32,
    /// Signal actions.
    pub signals: &'a mut signal::Signals,
    /// What system calls remember.
    pub sys: &'a mut sys::State,
}

/// Makes the inner of two levels reachable through the outer one, which is borrowed as a whole meanwhile.
macro_rules! levels {
    ($($outer:ident.$field:ident: $inner:ident;)*) => { $(
        impl Deref for $outer {
            type Target = $inner;
            #[inline(always)]
            fn deref(&self) -> &$inner {
                &self.$field
            }
        }

        impl DerefMut for $outer {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut $inner {
                &mut self.$field
            }
        }
    )* };
}

levels! {
    Process.io: Io;
    Io.task: Task;
}

impl Io {
    /// Program memory, and the limits that it has to keep to.
    #[inline(always)]
    pub fn memory(&mut self) -> (&mut mm::Mm, &sys::limits::Limits) {
        (&mut self.task.mm, &self.limits)
    }

    /// The files, and program memory.
    #[inline(always)]
    pub fn files(&mut self) -> Files<'_> {
        Files { fds: &mut self.fds, mm: &mut self.task.mm }
    }
}

impl Process {
    /// What it has of its own.
    pub fn own(&mut self) -> Own<'_> {
        let Process { io, pid, signals, sys, .. } = self;
        Own { io, pid, signals, sys }
    }

    /// What signals do, and the thread that gets one.
    #[inline(always)]
    pub fn signals(&mut self) -> (&mut signal::Signals, &mut thread::Me) {
        (&mut self.signals, &mut self.io.task.me)
    }
}

/// What a function needs of the process: parts of it, all of it, or nothing. The type of its first
/// parameter says so.
pub trait Needs<'a> {
    /// Takes it.
    fn of(p: &'a mut Process) -> Self;
}

macro_rules! needs {
    ($($p:ident => $part:ty: $get:expr;)*) => { $(
        impl<'a> Needs<'a> for $part {
            #[inline(always)]
            fn of($p: &'a mut Process) -> Self {
                $get
            }
        }
    )* };
}

needs! {
    _p => (): ();
    p => &'a mut Process: p;
    p => &'a mut Io: p;
    p => &'a mut Task: p;
    p => &'a mut mm::Mm: &mut p.mm;
    p => &'a mut thread::Me: &mut p.me;
    p => &'a mut sys::State: &mut p.sys;
    p => &'a mut fd::Fds: &mut p.fds;
    p => Files<'a>: p.files();
    p => Own<'a>: p.own();
    p => (&'a mut mm::Mm, &'a sys::limits::Limits): p.memory();
    p => (&'a mut mm::Mm, &'a mut signal::Signals): (&mut p.io.task.mm, &mut p.signals);
    p => (&'a mut mm::Mm, &'a mut sys::State): (&mut p.io.task.mm, &mut p.sys);
    p => (&'a mut Task, &'a mut sys::State): (&mut p.io.task, &mut p.sys);
    p => (&'a Task, &'a mut sys::State): (&p.io.task, &mut p.sys);
}

/// No system call is being handled.
pub const NO_CALL: u64 = u64::MAX;

struct TheProcess(UnsafeCell<Process>);

// SAFETY: the library runs only while the dispatcher is disabled, and where a process has several
// dispatchers, `thread::lock` lets one of them at a time use this.
unsafe impl Sync for TheProcess {}

static PROCESS: TheProcess = TheProcess(UnsafeCell::new(Process {
    pid: 0,
    io: Io {
        task: Task {
            mm: mm::Mm::new(),
            me: thread::Me::first(),
            threads: thread::Threads::new(),
            futexes: park::Queues::new(),
        },
        fds: fd::Fds::new(),
        limits: sys::limits::Limits,
        random: sys::random::Random::new(),
        others: beside::Others::new(),
    },
    signals: signal::Signals::new(),
    sys: sys::State::new(),
    fork: fork::Handover::new(),
    parent: None,
}));

/// The process.
///
/// # Safety
///
/// The lock is held, and no reference from an earlier time is used any more.
pub unsafe fn current() -> &'static mut Process {
    // SAFETY: by this function's contract the reference is the only one.
    unsafe { &mut *PROCESS.0.get() }
}

/// The process, for a thread that enters the library: waits until it can have it.
///
/// # Safety
///
/// Only the upcall entry points call this, once each, and hand the reference down. No reference
/// from an earlier upcall of this thread is alive then, since an upcall never returns.
#[inline(always)]
pub unsafe fn enter() -> &'static mut Process {
    let shared = lock::enter();
    if shared {
        // SAFETY: as below.
        unsafe { beside::settle() };
    }
    // SAFETY: by this function's contract, and the lock, the reference is the only one.
    let p = unsafe { current() };
    if shared {
        thread::become_current(p);
    }
    p
}

/// The frame shared with the kernel.
#[inline(always)]
pub fn frame() -> *mut DispatcherFrame {
    area::own_frame()
}
