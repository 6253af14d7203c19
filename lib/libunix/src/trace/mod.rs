//! Tracing, seen from the thread that is traced.
//!
//! A thread that stops for its tracer does so here: it asks `unixd` what to do, does it, and asks for more, until it is
//! told to go on. So registers and memory of a process are touched by its own library only, and what a tracer may is
//! decided by `unixd`, which passes on no command of anybody else.
//!
//! A thread that nobody traces pays for a look at its header where signals are acted on, and nothing at its system calls:
//! these enter here only from its first stop on ([`upcall::show_calls`]).

pub mod breakpoints;
pub mod memory;
mod registers;
pub mod tracer;

use crate::errno::Errno;
use crate::fd::kinds::own_text;
use crate::fork::bases;
use crate::mm::{calls, relief};
use crate::process::{frame, Process, Task, NO_CALL};
use crate::server::{self, header, op, Header};
use crate::signal::{self, Info};
use crate::sys::seccomp::{self, Decision};
use crate::sys::userdispatch;
use crate::thread::restart;
use crate::{sys, upcall};
use abi::Regs;
use alloc::vec::Vec;
use callfilter::ARCHITECTURE;
use core::sync::atomic::Ordering::Relaxed;
use linuxabi::bytes::Bytes;
use unixproto::ops::TraceCommand;
use unixproto::session::DATA_BYTES;
use unixproto::signals::{bit, SigInfo, SIGTRAP, SI_USER};
use unixproto::trace::{command, flag, stop, INFO_BYTES};

/// Events, as `PTRACE_EVENT_*` numbers them. The option that asks for one is the bit of that number.
pub mod event {
    pub const FORK: u32 = 1;
    pub const VFORK: u32 = 2;
    pub const CLONE: u32 = 3;
    pub const EXEC: u32 = 4;
    pub const VFORK_DONE: u32 = 5;
    pub const EXIT: u32 = 6;
    pub const SECCOMP: u32 = 7;
}

/// `si_code` of a trap behind a system call that was a single instruction.
const TRAP_BRKPT: i32 = 1;

/// The flag of the processor for single steps.
pub const TRAP_FLAG: u64 = 0x100;

/// Where in a system call a thread has stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Neither,
    Entry,
    Exit,
    /// Its filter leaves the call to the tracer, and says this.
    Filter(u32),
}

/// Why a thread stops.
struct Stop {
    kind: u32,
    value: u32,
    message: u64,
    at: At,
}

impl Stop {
    fn new(kind: u32, value: u32) -> Stop {
        Stop { kind, value, message: 0, at: At::Neither }
    }
}

/// How a thread goes on.
struct Resumed {
    /// With this signal, or 0.
    signal: u32,
    /// Its tracer has changed what comes with the signal.
    info: Option<[u8; INFO_BYTES]>,
}

#[inline(always)]
fn flags() -> u32 {
    header().trace.load(Relaxed)
}

/// Does somebody trace this thread?
#[inline(always)]
pub fn is_traced() -> bool {
    flags() & flag::TRACED != 0
}

/// Is the thread traced, or wanted for anything?
#[inline(always)]
pub fn is_concerned() -> bool {
    flags() != 0
}

/// Is there anything that the thread with this header has to stop for?
#[inline(always)]
pub fn has_work(header: &Header) -> bool {
    header.trace.load(Relaxed) & (flag::WANTED | flag::SERVE) != 0
}

/// Does it go on for one instruction only?
#[inline]
pub fn steps() -> bool {
    let steps = flag::TRACED | flag::STEP;
    flags() & steps == steps
}

/// Does its tracer want to hear of an event?
pub fn wants(event: u32) -> bool {
    flags() & flag::TRACED != 0 && flags() >> flag::OPTIONS_SHIFT >> event & 1 != 0
}

/// Has the calls of the program enter here, if it is traced.
pub fn adopt() {
    if is_traced() {
        upcall::show_calls(frame(), true);
    }
}

/// Stops for everything that is wanted.
#[cold]
#[inline(never)]
pub fn work_all(p: &mut Task, regs: &mut Regs) {
    while has_work(header()) {
        work(p, regs);
    }
}

fn work(p: &mut Task, regs: &mut Regs) {
    let kind = if flags() & flag::WANTED != 0 { stop::WANTED } else { stop::SERVE };
    // As on Linux: a signal counts where one was about to be delivered, and at the ends of system calls.
    wait(p, regs, &Stop::new(kind, 0), &[]);
}

/// A signal is about to be delivered. Answers which one is, if any.
#[cold]
#[inline(never)]
pub fn on_signal(p: &mut Task, regs: &mut Regs, info: &Info) -> Option<Info> {
    if !is_traced() {
        return Some(*info);
    }
    let mut bytes = [0; INFO_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(info.words()) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let resumed = wait(p, regs, &Stop::new(stop::SIGNAL, info.signal), &bytes);
    let signal = match resumed.signal {
        0 => return None,
        signal => signal,
    };
    if p.me.signals.mask() & bit(signal) != 0 && signal != info.signal {
        // Its tracer has chosen one that has to wait.
        post(signal);
        return None;
    }
    let word = |bytes: &[u8; INFO_BYTES], at: usize| {
        bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    Some(match &resumed.info {
        Some(bytes) => {
            let code = word(bytes, 8) as u32 as i32;
            let errno = (word(bytes, 0) >> 32) as u32;
            Info { signal, code, errno, details: [word(bytes, 16), word(bytes, 24)] }
        }
        None if signal == info.signal => *info,
        None => {
            let details = [u64::from(header().ppid.load(Relaxed)), 0];
            Info { signal, code: SI_USER, errno: 0, details }
        }
    })
}

/// A signal that the thread sends itself.
fn post(signal: u32) {
    let pid = header().pid.load(Relaxed);
    let uid = header().ids[0].load(Relaxed);
    header().own.post(signal, SigInfo { code: SI_USER, pid, uid, ..SigInfo::default() });
}

/// Stops for an event, if its tracer wants to hear of it.
#[cold]
pub fn tell(p: &mut Task, regs: &mut Regs, event: u32, message: u64) {
    if wants(event) {
        wait(p, regs, &Stop { message, ..Stop::new(stop::EVENT, event) }, &[]);
    }
}

/// A program has been executed. `before`: the id that the thread had.
pub fn executed(p: &mut Task, regs: &mut Regs, before: u32) {
    if !is_traced() {
        return;
    }
    adopt();
    if wants(event::EXEC) {
        tell(p, regs, event::EXEC, before.into());
    } else if flags() & flag::SEIZED == 0 {
        post(SIGTRAP);
    }
}

/// The filter of the call in `regs` leaves it to the tracer. Is a call to be made, which may be another one? If not, its
/// result is there.
pub fn asks_about_call(p: &mut Task, regs: &mut Regs, data: u32) -> bool {
    regs.rax = Errno::ENOSYS.to_rax();
    let (message, at) = (data.into(), At::Filter(data));
    wait(p, regs, &Stop { message, at, ..Stop::new(stop::EVENT, event::SECCOMP) }, &[]);
    let is_call = p.me.call as i64 >= 0;
    if is_call {
        regs.rax = p.me.call;
    }
    is_call
}

/// A system call of a traced thread, or of one that is filtered, or makes calls itself.
pub fn syscall(p: &mut Process, regs: &mut Regs) {
    if userdispatch::takes(p, regs) {
        // Its number is what a tracer sees still.
        return signal::force(p, signal::Fault::of_own_call(regs));
    }
    if !is_traced() && !p.me.filter.is_some() && p.me.dispatch.is_none() {
        upcall::show_calls(frame(), false);
        return sys::dispatch(p, regs);
    }
    let is_emulated = flags() & flag::EMULATE != 0;
    if is_emulated || flags() & flag::SYSCALLS != 0 {
        let number = core::mem::replace(&mut regs.rax, Errno::ENOSYS.to_rax());
        stop_at(p, regs, At::Entry);
        if is_emulated {
            // Its tracer has made it.
            return end_of_call(p, regs);
        }
        if p.me.call as i64 >= 0 {
            regs.rax = p.me.call;
        } else if number != p.me.call {
            // Its tracer does not want it to be made: the result is what it says.
            return end_of_call(p, regs);
        }
    }
    match seccomp::decide(p, regs) {
        Decision::Passes => {}
        Decision::Answered => return end_of_call(p, regs),
        Decision::Traps(data) => {
            p.me.call = NO_CALL;
            signal::force(p, signal::Fault::of_call(regs, data));
            return end_of_call(p, regs);
        }
    }
    let number = p.me.call;
    sys::dispatch(p, regs);
    if p.me.call == NO_CALL && is_exec(number) && regs.rax == 0 {
        p.me.call = number;
        end_of_call(p, regs);
        p.me.call = NO_CALL;
        return;
    }
    end_of_call(p, regs);
}

fn is_exec(number: u64) -> bool {
    matches!(sys::name(number), "execve" | "execveat")
}

/// The end of a system call, if its tracer wants to hear of that.
pub fn end_of_call(p: &mut Task, regs: &mut Regs) {
    if flags() & flag::SYSCALLS != 0 {
        stop_at(p, regs, At::Exit);
    } else if steps() && flags() & flag::EMULATE == 0 {
        p.me.signals.trap(TRAP_BRKPT, regs.rip);
    }
}

fn stop_at(p: &mut Task, regs: &mut Regs, at: At) {
    let resumed = wait(p, regs, &Stop { at, ..Stop::new(stop::SYSCALL, 0) }, &[]);
    if resumed.signal != 0 {
        post(resumed.signal);
    }
}

/// Stops, and does what it is told until it goes on.
fn wait(p: &mut Task, regs: &mut Regs, why: &Stop, info: &[u8]) -> Resumed {
    let &Stop { kind, value, message, at } = why;
    if steps() {
        // The flag was the tracer's: whoever lets the thread go may not know of it.
        regs.rflags &= !TRAP_FLAG;
    }
    let a = server::put_a(info);
    let mut next = server::wait_filled(p, op::TraceStop { kind, value, message }, a);
    let resumed = loop {
        let Ok(asked) = next else { break Resumed { signal: value, info: None } };
        if asked.what == command::RESUME {
            let mut info = [0; INFO_BYTES];
            server::take(&mut info);
            let info = (asked.value != 0).then_some(info);
            break Resumed { signal: asked.address as u32 & 0x7f, info };
        }
        let (result, bytes) = match carry_out(p, regs, &asked, at) {
            Ok((count, bytes)) => (count as i64, bytes),
            Err(errno) => (errno.to_rax() as i64, Vec::new()),
        };
        let number = asked.number;
        let a = server::put_a(&bytes);
        next = server::wait_filled(p, op::TraceAnswer { number, result }, a);
    };
    adopt();
    resumed
}

/// Does what a command says. Answers a number, and the bytes that it asks for.
fn carry_out(
    p: &mut Task,
    regs: &mut Regs,
    asked: &TraceCommand,
    at: At,
) -> Result<(usize, Vec<u8>), Errno> {
    let &TraceCommand { what, address, value, .. } = asked;
    let len = value as usize;
    let bytes = match what {
        command::READ => memory::read(&mut p.mm, address, len, true),
        command::MAPS
        | command::SMAPS
        | command::AUXILIARY
        | command::ENVIRON
        | command::PAGEMAP => own_text::told(&mut p.mm, what, address, len)?,
        command::READ_SEEN => memory::read(&mut p.mm, address, len, false),
        command::WRITE | command::WRITE_SEEN => {
            let bytes = server::taken(len)?;
            let done = memory::write(&mut p.mm, address, &bytes, what == command::WRITE);
            return Ok((done, Vec::new()));
        }
        command::GET_SET => registers::get_set(p, regs, address)?,
        command::SET_SET => {
            let bytes = server::taken(len)?;
            registers::set_set(p, regs, address, &bytes)?;
            return Ok((bytes.len(), Vec::new()));
        }
        command::GET_USER => registers::user_word(p, regs, address)?.to_le_bytes().to_vec(),
        command::SET_USER => {
            registers::set_user_word(p, regs, address, value)?;
            return Ok((0, Vec::new()));
        }
        command::GET_MASK => p.me.signals.mask().to_le_bytes().to_vec(),
        command::SET_MASK => {
            p.me.signals.set_blocked(value);
            return Ok((0, Vec::new()));
        }
        command::CLEAR_REFS => {
            own_text::clear_refs(&mut p.mm, address);
            return Ok((0, Vec::new()));
        }
        command::ADVISE => {
            let ranges = server::taken(len)?;
            return Ok((
                calls::advise_told(&mut p.mm, &ranges, address as u32)? as usize,
                Vec::new(),
            ));
        }
        command::RELIEVE => {
            return Ok((relief::give(&mut p.mm, address, true) as usize, Vec::new()))
        }
        command::GET_SYSCALL => call_info(p, regs, at),
        command::GET_SEQUENCES => restart::told(&p.me).to_vec(),
        command::GET_FILTER => {
            let program = p.me.filter.told(address as usize)?;
            let rest = program.get(len..).unwrap_or_default();
            return Ok((program.len(), rest[..rest.len().min(DATA_BYTES)].to_vec()));
        }
        _ => return Err(Errno::EIO),
    };
    Ok((bytes.len(), bytes))
}

/// `struct ptrace_syscall_info`.
fn call_info(p: &Task, regs: &Regs, at: At) -> Vec<u8> {
    const ENTRY: u32 = 1;
    const EXIT: u32 = 2;
    const SECCOMP: u32 = 3;
    const ERRORS: u64 = 4095;
    let is_error = regs.rax >= ERRORS.wrapping_neg();
    let op = match at {
        At::Neither => 0,
        At::Entry => ENTRY,
        At::Exit => EXIT,
        At::Filter(_) => SECCOMP,
    };
    let head = Bytes::<24>::default().u32(op).u32(ARCHITECTURE).u64(regs.rip).u64(regs.rsp).done();
    let mut all = head.to_vec();
    match at {
        At::Neither => {}
        At::Entry | At::Filter(_) => {
            let &Regs { rdi, rsi, rdx, r10, r8, r9, .. } = regs;
            for word in [p.me.call, rdi, rsi, rdx, r10, r8, r9] {
                all.extend_from_slice(&word.to_le_bytes());
            }
            if let At::Filter(data) = at {
                all.extend_from_slice(&data.to_le_bytes());
            }
        }
        At::Exit => {
            all.extend_from_slice(&regs.rax.to_le_bytes());
            all.push(is_error.into());
        }
    }
    all
}

/// FS and GS base of the thread that runs here.
fn segment_bases(p: &Task) -> (u64, u64) {
    bases(&p.me)
}
