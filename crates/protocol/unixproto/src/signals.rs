//! Signals: numbers, what comes with them, what they do by default.

use linux_raw_sys::general;

/// What a handler may learn of a signal. `si_signo` is the index where this lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SigInfo {
    /// `si_code`.
    pub code: i32,
    /// `si_pid`.
    pub pid: u32,
    /// `si_uid`.
    pub uid: u32,
    /// `si_status` (SIGCHLD).
    pub status: i32,
    /// `si_value` (sigqueue).
    pub value: u64,
}

impl SigInfo {
    /// As it lies in the session header.
    pub const fn to_words(self) -> [u64; 3] {
        [
            self.code as u32 as u64 | (self.pid as u64) << 32,
            self.uid as u64 | (self.status as u32 as u64) << 32,
            self.value,
        ]
    }
    /// From the session header.
    pub const fn from_words(words: [u64; 3]) -> SigInfo {
        SigInfo {
            code: words[0] as u32 as i32,
            pid: (words[0] >> 32) as u32,
            uid: words[1] as u32,
            status: (words[1] >> 32) as u32 as i32,
            value: words[2],
        }
    }
}

/// Mask bit of a signal; zero for a number that is no signal.
pub const fn bit(signal: u32) -> u64 {
    if signal >= 1 && signal <= 64 {
        1 << (signal - 1)
    } else {
        0
    }
}

pub use general::{
    SIGABRT, SIGALRM, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGIO, SIGKILL,
    SIGPIPE, SIGPROF, SIGPWR, SIGQUIT, SIGSEGV, SIGSTKFLT, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP,
    SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};

/// `si_code`: by `kill`.
pub const SI_USER: i32 = general::SI_USER as i32;
/// `si_code`: by the kernel.
pub const SI_KERNEL: i32 = general::SI_KERNEL as i32;
/// `si_code`: a message has come to a queue.
pub const SI_MESGQ: i32 = general::SI_MESGQ;
/// `si_code`: by `sigqueue`.
pub const SI_QUEUE: i32 = general::SI_QUEUE;
/// `si_code`: a timer has expired.
pub const SI_TIMER: i32 = general::SI_TIMER;
/// `si_code`: by `tgkill`.
pub const SI_TKILL: i32 = general::SI_TKILL;
/// `si_code` of `SIGCHLD`: exited.
pub const CLD_EXITED: i32 = general::CLD_EXITED as i32;
/// `si_code` of `SIGCHLD`: killed by a signal.
pub const CLD_KILLED: i32 = general::CLD_KILLED as i32;
/// `si_code` of `SIGCHLD`: killed by a signal, with an image of its memory.
pub const CLD_DUMPED: i32 = general::CLD_DUMPED as i32;
/// `si_code` of `SIGCHLD`: a traced child has stopped.
pub const CLD_TRAPPED: i32 = general::CLD_TRAPPED as i32;
/// `si_code` of `SIGCHLD`: stopped.
pub const CLD_STOPPED: i32 = general::CLD_STOPPED as i32;
/// `si_code` of `SIGCHLD`: goes on.
pub const CLD_CONTINUED: i32 = general::CLD_CONTINUED as i32;

/// `si_code` of a signal that tells of a file: something can be read.
pub const POLL_IN: i32 = 1;
/// `si_code` of a signal that tells of a file: something can be written.
pub const POLL_OUT: i32 = 2;
/// `si_code` of a signal that tells of a file: something has happened to it.
pub const POLL_MSG: i32 = 3;
/// `si_code` of a signal that tells of a file: an error.
pub const POLL_ERR: i32 = 4;
/// `si_code` of a signal that tells of a file: something is urgent.
pub const POLL_PRI: i32 = 5;
/// `si_code` of a signal that tells of a file: the other end is gone.
pub const POLL_HUP: i32 = 6;
/// `si_code` of such a signal where those codes would say something else.
pub const SI_SIGIO: i32 = -5;

/// Has a signal codes of its own, which say something else than those of files?
pub const fn has_codes(signal: u32) -> bool {
    matches!(signal, SIGILL | SIGFPE | SIGSEGV | SIGBUS | SIGTRAP | SIGCHLD | SIGSYS)
}

/// What a signal does to a process that neither blocks, ignores nor catches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultAction {
    /// The process ends.
    Terminate,
    /// Nothing happens.
    Ignore,
    /// The process stops.
    Stop,
    /// A stopped process goes on.
    Continue,
}

/// The default action of a signal.
pub const fn default_action(signal: u32) -> DefaultAction {
    match signal {
        SIGCHLD | SIGURG | SIGWINCH => DefaultAction::Ignore,
        SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => DefaultAction::Stop,
        SIGCONT => DefaultAction::Continue,
        _ => DefaultAction::Terminate,
    }
}

/// `si_code` and `si_status` of `SIGCHLD` for the wait status of a process that has ended.
pub const fn end_of_child(status: u32) -> (i32, u32) {
    match status & 0x7f {
        0 => (CLD_EXITED, status >> 8 & 0xff),
        signal => (CLD_KILLED, signal),
    }
}

/// Wait status of a process that exited.
pub const fn exited(code: u32) -> u32 {
    (code & 0xff) << 8
}
/// Wait status of a process that a signal killed.
pub const fn killed(signal: u32) -> u32 {
    signal & 0x7f
}
/// Wait status of a process that a signal stopped.
pub const fn stopped(signal: u32) -> u32 {
    (signal & 0xff) << 8 | 0x7f
}
/// Wait status of a process that goes on.
pub const CONTINUED: u32 = 0xffff;
