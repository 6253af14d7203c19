//! Numbers of tracing.
//!
//! A traced thread stops in its own library, by the request `TraceStop`, which is answered with a command of its tracer;
//! the library carries it out and answers with `TraceAnswer`, whose answer is the next command, until that is
//! [`command::RESUME`]. So nobody but the library touches the memory and the registers of a process.

/// Bits of `trace` in the header of a thread.
pub mod flag {
    /// Somebody traces it.
    pub const TRACED: u32 = 1;
    /// It is to stop as soon as it can.
    pub const WANTED: u32 = 2;
    /// Somebody wants to see its memory.
    pub const SERVE: u32 = 4;
    /// It stops when a system call begins and ends.
    pub const SYSCALLS: u32 = 8;
    /// It stops after one instruction.
    pub const STEP: u32 = 16;
    /// Its tracer has seized it.
    pub const SEIZED: u32 = 32;
    /// It stops when a system call begins, which is not made (`PTRACE_SYSEMU`).
    pub const EMULATE: u32 = 64;
    /// The options begin at this bit; those above [`OPTION_EVENTS`](super::OPTION_EVENTS) are not the library's business.
    pub const OPTIONS_SHIFT: u32 = 8;
}

pub use linux_raw_sys::ptrace::{
    PTRACE_EVENT_STOP, PTRACE_O_EXITKILL, PTRACE_O_MASK, PTRACE_O_SUSPEND_SECCOMP,
    PTRACE_O_TRACESYSGOOD,
};

/// Options about events and system calls: `PTRACE_O_*` below `PTRACE_O_EXITKILL`.
pub const OPTION_EVENTS: u32 = 0xff;

/// Why a thread has stopped.
pub mod stop {
    /// A signal is about to be delivered: `value`.
    pub const SIGNAL: u32 = 0;
    /// A system call begins or ends.
    pub const SYSCALL: u32 = 1;
    /// A `PTRACE_EVENT_*`: `value`.
    pub const EVENT: u32 = 2;
    /// [`flag::WANTED`](super::flag::WANTED) was set.
    pub const WANTED: u32 = 3;
    /// [`flag::SERVE`](super::flag::SERVE) was set: no stop that anybody is told of.
    pub const SERVE: u32 = 4;
}

/// What a stopped thread does.
pub mod command {
    /// Goes on. `address`: signal to be delivered; `value` 1: data has its `siginfo_t`.
    pub const RESUME: u32 = 0;
    /// Reads `value` bytes at `address`.
    pub const READ: u32 = 1;
    /// Writes `value` bytes, which are in data, to `address`, whatever its protection.
    pub const WRITE: u32 = 2;
    /// Reads the register set `address` (`NT_*`).
    pub const GET_SET: u32 = 3;
    /// Sets the register set `address` to the `value` bytes in data.
    pub const SET_SET: u32 = 4;
    /// Reads the word at `address` of `struct user`.
    pub const GET_USER: u32 = 5;
    /// Sets it to `value`.
    pub const SET_USER: u32 = 6;
    /// Reads the mask of blocked signals.
    pub const GET_MASK: u32 = 7;
    /// Sets it to `value`.
    pub const SET_MASK: u32 = 8;
    /// Reads `struct ptrace_syscall_info`.
    pub const GET_SYSCALL: u32 = 9;
    /// As `READ`, but only what the program itself may read: for whom does not trace it.
    pub const READ_SEEN: u32 = 10;
    /// As `WRITE`, but only where the program itself may write.
    pub const WRITE_SEEN: u32 = 11;
    /// Reads `value` bytes of `/proc/self/maps`, from byte `address` of it.
    pub const MAPS: u32 = 12;
    /// The same of `/proc/self/smaps`.
    pub const SMAPS: u32 = 13;
    /// The same of `/proc/self/auxv`.
    pub const AUXILIARY: u32 = 14;
    /// The same of `/proc/self/environ`.
    pub const ENVIRON: u32 = 15;
    /// Reads a program that filters its calls, the `address`th from the oldest on, from byte `value` of it: answers how many bytes
    /// that has.
    pub const GET_FILTER: u32 = 16;
    /// Reads `struct ptrace_rseq_configuration`.
    pub const GET_SEQUENCES: u32 = 17;
    /// Moves up to `address` pages of small memory to where they can leave memory. Nobody's tracer asks for it.
    pub const RELIEVE: u32 = 18;
    /// Reads `value` bytes of `/proc/self/pagemap`, from byte `address` of it, both whole words. Nobody's tracer asks for it.
    pub const PAGEMAP: u32 = 19;
    /// Does what a number written to `/proc/self/clear_refs` asks for: `address`. Nobody's tracer asks for it.
    pub const CLEAR_REFS: u32 = 20;
    /// Numbers that may be written there: references (1 to 3) and pages that were written to (4) are counted anew, or the most
    /// memory that it had (5).
    pub const CLEARED: core::ops::RangeInclusive<u64> = 1..=5;
    /// Gives advice about its memory: data has ranges, each its address and how long it is, 8 bytes of either; `value` is how many bytes
    /// data has, `address` the advice (`MADV_*`). Answers bytes, as `process_madvise` does. Nobody's tracer asks for it.
    pub const ADVISE: u32 = 21;
    /// First number that is no command of a tracer.
    pub const END: u32 = 18;

    /// What reads a file of `/proc/PID`, if only the process itself knows what is in it.
    pub fn of_text(name: &[u8]) -> Option<u32> {
        Some(match name {
            b"maps" => MAPS,
            b"smaps" => SMAPS,
            b"pagemap" => PAGEMAP,
            b"auxv" => AUXILIARY,
            b"environ" => ENVIRON,
            b"clear_refs" => CLEAR_REFS,
            _ => return None,
        })
    }
}

/// What `unixd` itself does about a thread that is traced.
pub mod request {
    /// Has it go on: `address` is `SYSCALLS` or `EMULATE`, and `STEP`, or some or none of these flags, `value` a signal.
    pub const CONTINUE: u32 = 0x100;
    /// Ends tracing; `value` is a signal.
    pub const DETACH: u32 = 0x101;
    /// Has it stop (`PTRACE_INTERRUPT`).
    pub const INTERRUPT: u32 = 0x102;
    /// Leaves it stopped with its process, until that goes on (`PTRACE_LISTEN`).
    pub const LISTEN: u32 = 0x103;
    /// Ends its process.
    pub const KILL: u32 = 0x104;
    /// Sets options to `value`.
    pub const SET_OPTIONS: u32 = 0x105;
    /// Answers what an event has said, in data.
    pub const GET_MESSAGE: u32 = 0x106;
    /// Answers the `siginfo_t` of its stop, in data.
    pub const GET_INFO: u32 = 0x107;
    /// Sets it to `a`.
    pub const SET_INFO: u32 = 0x108;
    /// Answers the `siginfo_t`s of signals that wait for it, from the `address`th on, in data: no more than the lower half of `value` says, those of its
    /// process if the upper half is not 0.
    pub const PEEK_SIGNALS: u32 = 0x109;
}

/// `MADV_WILLNEED`, `MADV_COLD`, `MADV_PAGEOUT`, `MADV_COLLAPSE`: what is said of others' memory at all. Nothing is lost by it.
pub const OF_OTHERS: [u32; 4] = [3, 20, 21, 25];

/// Bytes of `siginfo_t`.
pub const INFO_BYTES: usize = 128;

/// In a wait status that `Wait` answers: a tracer is told of a stop.
pub const TRAPPED: u32 = 1 << 31;
