//! The process: all state of the library, in one static.

use crate::{fd, fork, mm, signal, sys, vfork};
use abi::DispatcherFrame;
use alloc::boxed::Box;
use core::cell::UnsafeCell;

/// Everything that the library knows about its process. A forked child starts with a copy.
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Program memory.
    pub mm: mm::Mm,
    /// Signal actions and masks.
    pub signals: signal::Signals,
    /// What system calls remember.
    pub sys: sys::State,
    /// File descriptors.
    pub fds: fd::Fds,
    /// What a forked child needs to know when it starts.
    pub fork: fork::Handover,
    /// In a vfork: what this process is besides the child that it acts as.
    pub parent: Option<Box<vfork::Parent>>,
    /// Page faults handled.
    pub faults: u64,
    /// Number of the system call that is being handled, or `NO_CALL`.
    pub call: u64,
}

/// No system call is being handled.
pub const NO_CALL: u64 = u64::MAX;

struct TheProcess(UnsafeCell<Process>);

// SAFETY: a domain has one dispatcher, and the library runs only while that is disabled: there is
// never a second thread of control.
unsafe impl Sync for TheProcess {}

static PROCESS: TheProcess = TheProcess(UnsafeCell::new(Process {
    pid: 0,
    mm: mm::Mm::new(),
    signals: signal::Signals::new(),
    sys: sys::State::new(),
    fds: fd::Fds::new(),
    fork: fork::Handover::new(),
    parent: None,
    faults: 0,
    call: NO_CALL,
}));

/// The process.
///
/// # Safety
///
/// Only the upcall entry points call this, once each, and hand the reference down. No reference
/// from an earlier upcall is alive then, since an upcall never returns.
pub unsafe fn current() -> &'static mut Process {
    // SAFETY: by this function's contract the reference is the only one.
    unsafe { &mut *PROCESS.0.get() }
}

/// The frame shared with the kernel.
pub fn frame() -> *mut DispatcherFrame {
    abi::layout::DISPATCHER_FRAME as *mut DispatcherFrame
}
