//! Filters of system calls.
//!
//! They are evaluated here, before the table of calls, and so they bind a program that keeps to its system calls. What no call
//! that passes can ask `unixd` for, the process [gives up](unixproto::forgo) there: that binds it whatever it does
//! (`docs/decisions/0144-filters-of-calls-bind-twice.md`).
//!
//! Threads without a filter pay nothing: calls of the others enter where those of traced threads do
//! ([`upcall::show_calls`]).

use crate::errno::{Errno, Result};
use crate::exec::Rest;
use crate::fd::kinds::listener;
use crate::mm::{user, Mm};
use crate::process::{Io, Task};
use crate::server::{self, op, restart};
use crate::thread::{area, end};
use crate::{fd, sys, trace, upcall};
use abi::Regs;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use callfilter::{action, Chain, Data, Instruction, Program, ARCHITECTURE, MOST};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use linuxabi::ptrace as raw;
use unixproto::files::{CALL_ADDS, CALL_SERVES};
use unixproto::forgo;
use unixproto::signals::{killed, SIGKILL, SIGSYS};

/// Numbers of which it is remembered whether calls with them are always made.
const NUMBERS: usize = 512;

/// How the calls of a thread are filtered.
#[derive(Clone)]
pub enum Filter {
    None,
    /// It reads, writes, returns from handlers, and ends.
    Strict,
    By(Arc<Filters>),
}

/// Programs, and what is known about them.
pub struct Filters {
    chain: Arc<Chain>,
    /// How many there are.
    count: u32,
    /// Kinds of requests to which no call leads that passes.
    kinds: u32,
    /// Numbers that were looked at, and those of calls that are made whatever their arguments are.
    known: [AtomicU64; NUMBERS / 64],
    allowed: [AtomicU64; NUMBERS / 64],
}

impl Filters {
    fn new(program: Program, before: &Filter, listener: Option<u32>) -> Result<Filters> {
        let (chain, count) = match before {
            Filter::By(before) => (Some(before.chain.clone()), before.count),
            _ => (None, 0),
        };
        let chain = Chain::new(program, chain).ok_or(Errno::ENOMEM)?.heard_by(listener);
        let kinds = forgo::given_up(|number| chain.possible(number.into()).passes);
        let none = || [const { AtomicU64::new(0) }; NUMBERS / 64];
        let (chain, count) = (Arc::new(chain), count + 1);
        Ok(Filters { chain, count, kinds, known: none(), allowed: none() })
    }

    /// Is a call with this number made, whatever its arguments are?
    fn allows(&self, number: u64) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let (Some(known), Some(allowed)) = (self.known.get(word), self.allowed.get(word)) else {
            return false;
        };
        if known.load(Relaxed) & bit == 0 {
            if self.chain.possible(number as u32).is_allowed {
                allowed.fetch_or(bit, Relaxed);
            }
            known.fetch_or(bit, Relaxed);
        }
        allowed.load(Relaxed) & bit != 0
    }
}

impl Filter {
    pub fn is_some(&self) -> bool {
        !matches!(self, Filter::None)
    }

    /// As `PR_GET_SECCOMP` and `/proc` say it, and how many programs there are.
    fn shown(&self) -> (u8, u32) {
        match self {
            Filter::None => (0, 0),
            Filter::Strict => (1, 0),
            Filter::By(filters) => (2, filters.count),
        }
    }

    /// The instructions of a program, counted from the oldest, for a tracer.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there are no programs; `ENOENT`: there are not so many.
    pub fn told(&self, which: usize) -> Result<Vec<u8>> {
        let Filter::By(filters) = self else { return Err(Errno::EINVAL) };
        let programs: Vec<&Program> = filters.chain.all().collect();
        let program = programs.iter().rev().nth(which).ok_or(Errno::ENOENT)?;
        Ok(program.code().iter().flat_map(|one| one.bytes()).collect())
    }

    /// Does somebody decide for any program?
    fn has_listener(&self) -> bool {
        match self {
            Filter::By(filters) => filters.chain.links().any(|(_, listener)| listener.is_some()),
            _ => false,
        }
    }

    fn kinds(&self) -> u32 {
        match self {
            Filter::None => 0,
            Filter::Strict => forgo::ALL,
            Filter::By(filters) => filters.kinds,
        }
    }

    /// Was this there when `later` was made, or does it say nothing?
    fn is_before(&self, later: &Filter) -> bool {
        match (self, later) {
            (Filter::None, _) => true,
            (Filter::By(one), Filter::By(later)) => later.chain.descends_from(&one.chain),
            _ => false,
        }
    }

    /// The programs, the oldest first, for whom they are left to.
    pub fn write(&self, mut put: impl FnMut(u32)) {
        let Filter::By(filters) = self else { return put(0) };
        let programs: Vec<(&Program, Option<u32>)> = filters.chain.links().collect();
        put(programs.len() as u32);
        for (program, listener) in programs.iter().rev() {
            put(listener.unwrap_or(0));
            put(program.code().len() as u32);
            for [a, b, c, d, e, f, g, h] in program.code().iter().map(|one| one.bytes()) {
                put(u32::from_le_bytes([a, b, c, d]));
                put(u32::from_le_bytes([e, f, g, h]));
            }
        }
    }

    /// From what somebody has left, which may be forged.
    pub fn read(rest: &mut Rest<'_>) -> Option<Filter> {
        let mut filter = Filter::None;
        for _ in 0..rest.word()? {
            let listener = Some(rest.word()?).filter(|number| *number != 0);
            let len = rest.word()?;
            let one = |_| {
                let [first, second] = [rest.word()?, rest.word()?].map(u32::to_le_bytes);
                let [[a, b, c, d], [e, f, g, h]] = [first, second];
                Some(Instruction::read([a, b, c, d, e, f, g, h]))
            };
            let code: Vec<Instruction> = (0..len).map(one).collect::<Option<_>>()?;
            let filters = Filters::new(Program::check(&code).ok()?, &filter, listener).ok()?;
            filter = Filter::By(Arc::new(filters));
        }
        Some(filter)
    }
}

/// Has the calls of the program enter where they are filtered, if they are.
pub fn adopt(p: &mut Task) {
    if p.me.filter.is_some() {
        upcall::show_calls(crate::process::frame(), true);
    }
}

/// A child has begun: of several threads it may be that only the one was filtered which it comes of.
pub fn child(p: &mut Task) {
    if p.me.filter.is_some() {
        // Who may not give up anything has nothing but the filter.
        let _ = give_up(p);
    }
}

/// Gives up what no thread can ask for any more.
fn give_up(p: &mut Task) -> Result<()> {
    let (mut kinds, mut shown) = (p.me.filter.kinds(), p.me.filter.shown());
    p.threads.each_other(|thread| {
        kinds &= thread.filter.kinds();
        // As on Linux, what `/proc` says of a process is about its first thread.
        if thread.index == 0 {
            shown = thread.filter.shown();
        }
    });
    let (mode, filters) = shown;
    server::call(op::Forgo { kinds, mode, filters })
}

/// What becomes of a call.
pub enum Decision {
    Passes,
    /// It is not made; its result is there.
    Answered,
    /// It is not made; a signal says so, with this.
    Traps(u32),
}

/// What becomes of the call in `regs`, whose number is that of the thread's call as well.
pub fn decide(p: &mut Io, regs: &mut Regs) -> Decision {
    let mut asked_tracer = false;
    loop {
        let filters = match &p.me.filter {
            Filter::None => return Decision::Passes,
            // read, write, rt_sigreturn, exit
            Filter::Strict if matches!(regs.rax, 0 | 1 | 15 | 60) => return Decision::Passes,
            Filter::Strict => end_thread(p, regs, SIGKILL),
            Filter::By(filters) => filters,
        };
        if filters.allows(regs.rax) {
            return Decision::Passes;
        }
        let &Regs { rip, rdi, rsi, rdx, r10, r8, r9, .. } = &*regs;
        let call = Data {
            number: regs.rax as u32,
            architecture: ARCHITECTURE,
            instruction: rip,
            arguments: [rdi, rsi, rdx, r10, r8, r9],
        };
        let answer = filters.chain.run(&call);
        let data = answer & 0xffff;
        match action::of(answer) {
            action::ALLOW | action::LOG => return Decision::Passes,
            action::ERRNO => {
                const LARGEST: u32 = 4095;
                regs.rax = u64::from(data.min(LARGEST)).wrapping_neg();
                return Decision::Answered;
            }
            action::TRAP => return Decision::Traps(data),
            action::TRACE if asked_tracer => return Decision::Passes,
            action::TRACE if trace::wants(trace::event::SECCOMP) => {
                asked_tracer = true;
                if !trace::asks_about_call(p, regs, data) {
                    return Decision::Answered;
                }
            }
            action::USER_NOTIF => {
                let listener = filters.chain.listener(&call);
                return ask_listener(p, regs, listener, &call);
            }
            // Nobody is there who could decide.
            action::TRACE => {
                regs.rax = Errno::ENOSYS.to_rax();
                return Decision::Answered;
            }
            action::KILL_THREAD => end_thread(p, regs, SIGSYS),
            _ => end_process(p, regs, SIGSYS),
        }
    }
}

/// Has somebody decide about the call in `regs`.
fn ask_listener(p: &mut Io, regs: &mut Regs, listener: Option<u32>, call: &Data) -> Decision {
    const CONTINUE: u32 = 1;
    let reply = match listener {
        Some(listener) => loop {
            let filled = server::put_a(&call.bytes());
            match server::wait_filled(p, op::CallNotice { listener }, filled) {
                Ok(reply) if reply.flags & CALL_ADDS != 0 => {
                    let result = match listener::take(p, &reply) {
                        Ok(fd) => fd,
                        Err(error) => error.to_rax() as i32,
                    };
                    // If nobody listens any more, the next request says so.
                    let _ = server::call(op::NoticeAdded { listener, result });
                }
                Ok(reply) if reply.flags & CALL_SERVES != 0 => trace::work_all(p, regs),
                reply => break reply,
            }
        },
        None => Err(Errno::ENOSYS),
    };
    regs.rax = match reply {
        Ok(reply) if reply.flags & CONTINUE != 0 => return Decision::Passes,
        Ok(reply) if reply.error != 0 => i64::from(reply.error) as u64,
        Ok(reply) => reply.value,
        Err(error) => restart(error).to_rax(),
    };
    Decision::Answered
}

/// The thread ends of a signal, by itself if there are others.
fn end_thread(p: &mut Task, regs: &mut Regs, signal: u32) -> ! {
    if p.threads.is_alone() {
        end_process(p, regs, signal)
    }
    let status = killed(signal);
    trace::tell(p, regs, trace::event::EXIT, status.into());
    end::exit(p, status)
}

fn end_process(p: &mut Task, regs: &mut Regs, signal: u32) -> ! {
    let number = regs.rax;
    trace::tell(p, regs, trace::event::EXIT, killed(signal).into());
    let call = sys::name(number);
    upcall::die(signal, &format!("its filter refuses {call} ({number})"))
}

pub fn seccomp(p: &mut Io, operation: u32, flags: u32, args: u64) -> Result<u64> {
    match operation {
        raw::SECCOMP_SET_MODE_STRICT if flags == 0 && args == 0 => be_strict(p),
        raw::SECCOMP_SET_MODE_FILTER => set_filter(p, flags, args),
        raw::SECCOMP_GET_ACTION_AVAIL if flags == 0 => {
            use action::*;
            let which: u32 = user::copy_in(&mut p.mm, args)?;
            match which {
                KILL_PROCESS | KILL_THREAD | TRAP | ERRNO | USER_NOTIF | TRACE | LOG | ALLOW => {
                    Ok(0)
                }
                _ => Err(Errno::EOPNOTSUPP),
            }
        }
        raw::SECCOMP_GET_NOTIF_SIZES if flags == 0 => {
            user::copy_out(&mut p.mm, args, &listener::SIZES)?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `PR_SET_SECCOMP`.
pub fn set(p: &mut Io, mode: u64, args: u64) -> Result<u64> {
    match mode {
        1 => be_strict(p),
        2 => set_filter(p, 0, args),
        _ => Err(Errno::EINVAL),
    }
}

/// `PR_GET_SECCOMP`.
pub fn get(p: &Task) -> u64 {
    p.me.filter.shown().0.into()
}

fn be_strict(p: &mut Task) -> Result<u64> {
    match &p.me.filter {
        Filter::By(_) => return Err(Errno::EINVAL),
        Filter::Strict => return Ok(0),
        Filter::None => {}
    }
    p.me.filter = Filter::Strict;
    adopt(p);
    if p.threads.is_alone() {
        // It needs no right to give up everything.
        server::call(op::Forgo { kinds: forgo::ALL, mode: 1, filters: 0 })?;
    }
    Ok(0)
}

fn set_filter(p: &mut Io, flags: u32, args: u64) -> Result<u64> {
    use raw::{
        SECCOMP_FILTER_FLAG_LOG as LOG, SECCOMP_FILTER_FLAG_NEW_LISTENER as LISTENER,
        SECCOMP_FILTER_FLAG_SPEC_ALLOW as SPECULATE, SECCOMP_FILTER_FLAG_TSYNC as ALL_THREADS,
        SECCOMP_FILTER_FLAG_TSYNC_ESRCH as NO_THREAD,
        SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV as PATIENT,
    };
    if flags & !(LOG | SPECULATE | ALL_THREADS | NO_THREAD | LISTENER | PATIENT) != 0 {
        return Err(Errno::EINVAL);
    }
    let patient = flags & PATIENT != 0;
    // The answer is a descriptor, or the thread that has other filters.
    let listens = flags & LISTENER != 0;
    if listens && flags & ALL_THREADS != 0 && flags & NO_THREAD == 0 || patient && !listens {
        return Err(Errno::EINVAL);
    }
    let code = program_of(&mut p.mm, args)?;
    // Only to hear whether it may: otherwise the error comes before those of the program.
    server::call(op::Forgo { kinds: 0, mode: 0, filters: 0 })?;
    let mut bytes = alloc::vec![0; code.1 * Instruction::BYTES];
    user::bytes_in(&mut p.mm, code.0, &mut bytes)?;
    let (code, _) = bytes.as_chunks::<{ Instruction::BYTES }>();
    let code: Vec<Instruction> = code.iter().map(|one| Instruction::read(*one)).collect();
    let program = Program::check(&code).map_err(|_| Errno::EINVAL)?;
    if let Filter::Strict = p.me.filter {
        return Err(Errno::EINVAL);
    }
    let old = p.me.filter.clone();
    if listens && old.has_listener() {
        return Err(Errno::EBUSY);
    }
    let opened = match listens {
        true => Some(listener::open(p, patient)?),
        false => None,
    };
    let number = opened.map(|(_, number)| number);
    let installed = install(p, flags, program, (old, number));
    match (opened, installed) {
        (Some((fd, _)), Ok(0)) => Ok(fd as u64),
        (Some((fd, _)), refused) => {
            // It is open.
            let _ = fd::close(&mut p.fds, fd);
            refused
        }
        (None, installed) => installed,
    }
}

/// Has a program more filter calls.
fn install(
    p: &mut Task,
    flags: u32,
    program: Program,
    (old, listener): (Filter, Option<u32>),
) -> Result<u64> {
    use raw::{
        SECCOMP_FILTER_FLAG_TSYNC as ALL_THREADS, SECCOMP_FILTER_FLAG_TSYNC_ESRCH as NO_THREAD,
    };
    let new = Filter::By(Arc::new(Filters::new(program, &old, listener)?));
    if flags & ALL_THREADS != 0 {
        let mut other = None;
        p.threads.each_other(|thread| {
            if !thread.filter.is_before(&old) {
                other = Some(thread.tid);
            }
        });
        match other {
            Some(_) if flags & NO_THREAD != 0 => return Err(Errno::ESRCH),
            Some(tid) => return Ok(tid.into()),
            None => {}
        }
        p.threads.each_other(|thread| {
            *thread.filter = new.clone();
            upcall::show_calls(area::frame(thread.index), true);
        });
    }
    p.me.filter = new;
    adopt(p);
    give_up(p)?;
    Ok(0)
}

/// Where a program is, and how many instructions it has: `struct sock_fprog`.
fn program_of(mm: &mut Mm, addr: u64) -> Result<(u64, usize)> {
    let [len, code]: [u64; 2] = user::copy_in(mm, addr)?;
    match len as u16 as usize {
        len @ 1..=MOST => Ok((code, len)),
        _ => Err(Errno::EINVAL),
    }
}
