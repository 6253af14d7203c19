//! Tracing: `ptrace`, and looks into the memory of other processes.
//!
//! A traced thread that stops sends `TraceStop`, which is answered only when there is something to do. What its tracer asks
//! for goes to it as the answer, and comes back with the next request of its; the tracer waits in `Trace` as long. A thread that is not
//! traced is made to ask in the same way if somebody wants to see memory of its process.
//!
//! A thread that does not answer keeps its tracer waiting for a time only.

use crate::exits::honest;
use crate::life::Life;
use crate::nodes::Node;
use crate::procfs::{self, ProcNode};
use crate::procs::{Pid, State, INIT};
use crate::signals::from_kernel;
use crate::threads::Tid;
use crate::tracees::{Asked, Info, Phase, Tracee};
use crate::wait::{count, done, Call, Outcome, Tried};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use credentials::Capability;
use sigqueue::Owner;
use unixproto::files::CALL_SERVES;
use unixproto::ops::{CallReply, TraceCommand};
use unixproto::session::{DATA_BYTES, NOTE_TRACE};
use unixproto::signals::*;
use unixproto::trace::*;
use unixproto::{op, Any, Errno, Reply};

/// How long a thread has time to answer.
const PATIENCE_NS: u64 = 2_000_000_000;

/// To a thread about whose call somebody decides, and which is to look at what else is wanted of it.
pub const SERVES: CallReply = CallReply { value: 0, error: 0, flags: CALL_SERVES };

const GO_ON: TraceCommand = TraceCommand { what: command::RESUME, number: 0, address: 0, value: 0 };

impl Life<'_> {
    /// `PTRACE_TRACEME`.
    pub fn trace_me(&mut self, pid: Pid) -> Tried {
        let tid = self.caller.tid;
        let parent = self.procs.get(pid)?.parent;
        let gone = self.procs.live(parent).is_err();
        if gone || self.procs.tracees.live(tid).is_some() {
            return Err(Errno::EPERM);
        }
        self.procs.tracees.add(tid, Tracee::new(parent, pid, false, 0));
        self.show_trace(tid, 0);
        done(())
    }

    /// `PTRACE_ATTACH`, `PTRACE_SEIZE`.
    pub fn trace_attach(&mut self, pid: Pid, op: op::TraceAttach) -> Tried {
        let op::TraceAttach { tid, seize, options } = op;
        if !valid_options(options) {
            return Err(Errno::EIO);
        }
        if tid == INIT {
            return Err(Errno::EPERM);
        }
        let leader = self.traceable(pid, tid)?;
        if leader == pid || self.procs.tracees.live(tid).is_some() {
            return Err(Errno::EPERM);
        }
        let proc = self.procs.get(leader)?;
        // Whoever shares memory does not wait for a tracer with what the others need.
        let has_company = self.procs.has_company(leader);
        if proc.native || proc.state != State::Live || proc.is_acted() || has_company {
            return Err(Errno::EPERM);
        }
        let stopped = proc.stopped.then_some(proc.stop_signal);
        let mut tracee = Tracee::new(pid, leader, seize, options);
        tracee.group = stopped;
        self.procs.tracees.add(tid, tracee);
        let wanted = if stopped.is_some() { flag::WANTED } else { 0 };
        self.show_trace(tid, wanted);
        if stopped.is_some() {
            // From now on it is stopped where its tracer can ask it things.
            self.stir_tracee(tid);
            self.procs.unsuspend([tid]);
        }
        if !seize {
            // It is a standard signal.
            let _ = self.post_to(leader, Some(tid), SIGSTOP, from_kernel());
        }
        done(())
    }

    /// The process of a thread into which a process may look.
    fn traceable(&self, pid: Pid, tid: Tid) -> Result<Pid, Errno> {
        if !self.procs.is_thread(tid) {
            return Err(Errno::ESRCH);
        }
        let leader = self.procs.leader(tid);
        let (from, to) = (self.procs.get(pid)?, self.procs.live(leader)?);
        match leader == pid || credentials::may_trace(&from.who, &to.who, to.dumpable) {
            true => Ok(leader),
            false => Err(Errno::EPERM),
        }
    }

    /// Writes the header of a thread; `more`: flags for this once.
    fn show_trace(&self, tid: Tid, more: u32) {
        let flags = self.procs.tracees.live(tid).map_or(0, Tracee::flags);
        let asked =
            self.procs.tracees.asked.contains_key(&tid) && !self.procs.tracees.has_stopped(tid);
        let serves = if asked { flag::SERVE } else { 0 };
        if let Ok(session) = self.procs.session_of(tid) {
            session.header().trace.store(flags | serves | more, Relaxed);
        }
    }

    /// Makes a thread look at its header, whatever it does.
    fn stir_tracee(&mut self, tid: Tid) {
        match self.procs.blocked(tid).map(|blocked| blocked.call.any) {
            // Whoever decides about its call may be who looks into its memory: it is still the same call.
            Some(Any::CallNotice(_)) => {
                self.unblock(tid);
                self.procs.answer(tid, done(SERVES));
            }
            _ => self.interrupt(tid),
        }
        if let Some(runner) = self.procs.runner_of(tid) {
            runner.notify(NOTE_TRACE);
        }
    }

    /// A traced thread has stopped, or one that is to serve.
    pub fn trace_stop(&mut self, call: &mut Call, op: op::TraceStop) -> Tried {
        let tid = self.caller.tid;
        if op.kind == stop::SERVE {
            return self.serve(tid);
        }
        if call.kept != 0 {
            // It was tried before.
            return Ok(Outcome::Block(0));
        }
        call.kept = 1;
        let info = self.procs.a(self.caller, call)?;
        let info: Option<Info> = info.try_into().ok();
        let Some(tracee) = self.procs.tracees.get_mut(tid) else {
            self.show_trace(tid, 0);
            let signal = if op.kind == stop::SIGNAL { op.value } else { 0 };
            return done(TraceCommand { address: signal.into(), ..GO_ON });
        };
        let what = tracee.stops(op.kind, op.value, op.message, info);
        self.show_trace(tid, 0);
        self.tell_tracer(tid, CLD_TRAPPED, what & 0x7f);
        Ok(Outcome::Block(0))
    }

    /// `SIGCHLD` for a tracer, and its waits.
    fn tell_tracer(&mut self, tid: Tid, code: i32, status: u32) {
        let Some(tracee) = self.procs.tracees.get(tid) else { return };
        let (tracer, leader) = (tracee.tracer, tracee.leader);
        let uid = self.procs.real_user(leader);
        let info = SigInfo { code, pid: tid, uid, status: status as i32, value: 0 };
        if code == CLD_TRAPPED && !self.hears_of_stops(tracer) {
            self.wake_process(tracer);
            return self.fx.retry();
        }
        self.tell_of_child(tracer, info);
    }

    /// A thread has done what a command says.
    pub fn trace_answer(&mut self, call: &mut Call, op: op::TraceAnswer) -> Tried {
        let tid = self.caller.tid;
        if call.kept == 0 {
            call.kept = 1;
            let bytes = self.procs.a(self.caller, call)?;
            if let Some(asked) = self.procs.tracees.asked.get_mut(&tid) {
                if asked.number == op.number {
                    asked.answer = Some((op.result, bytes));
                }
                self.fx.wake(asked.by);
            }
            if !self.procs.tracees.has_stopped(tid) {
                // It has served, or its tracer is gone.
                self.clear_serve(tid);
                return done(GO_ON);
            }
        }
        Ok(Outcome::Block(0))
    }

    fn clear_serve(&self, tid: Tid) {
        if let Ok(session) = self.procs.session_of(tid) {
            session.header().trace.fetch_and(!flag::SERVE, AcqRel);
        }
    }

    /// A thread that is not traced looks what it is to serve with. What that is, its asker puts there when it is tried again.
    fn serve(&mut self, tid: Tid) -> Tried {
        self.clear_serve(tid);
        match self.procs.tracees.asked.get(&tid) {
            Some(asked) if asked.answer.is_none() => {
                self.fx.wake(asked.by);
                Ok(Outcome::Block(0))
            }
            _ => done(GO_ON),
        }
    }

    /// Does a thread wait for a command?
    fn is_ready(&self, tid: Tid) -> bool {
        let call = self.procs.blocked(tid).map(|blocked| blocked.call.any);
        matches!(call, Some(Any::TraceStop(_) | Any::TraceAnswer(_)))
    }

    /// Gives a thread that waits for one a command, with bytes.
    fn command(&mut self, tid: Tid, command: TraceCommand, bytes: &[u8]) {
        if let Ok(session) = self.procs.session_of(tid) {
            session.put(bytes);
        }
        self.unblock(tid);
        self.procs.answer(tid, Ok(Outcome::Done(command.encode())));
    }

    /// What a tracer wants.
    pub fn trace(&mut self, pid: Pid, call: &mut Call, op: op::Trace) -> Tried {
        let op::Trace { tid, what, address, value } = op;
        let Some(tracee) = self.procs.tracees.live(tid).filter(|it| it.tracer == pid) else {
            return Err(Errno::ESRCH);
        };
        match what {
            request::INTERRUPT => return self.trace_interrupt(tid),
            request::KILL => {
                let leader = tracee.leader;
                if tracee.phase == Phase::Stopped {
                    self.post(leader, SIGKILL, from_kernel());
                }
                return count(0);
            }
            _ => {}
        }
        if tracee.phase != Phase::Stopped {
            return Err(Errno::ESRCH);
        }
        if what < command::END {
            let bytes = self.procs.a(self.caller, call)?;
            return self.ask(call, tid, TraceCommand { what, number: 0, address, value }, &bytes);
        }
        self.trace_stopped(call, op)
    }

    /// What concerns a thread that has stopped, and is known here.
    fn trace_stopped(&mut self, call: &Call, op: op::Trace) -> Tried {
        let op::Trace { tid, what, address, value } = op;
        let info = match what {
            request::SET_INFO => Some(self.procs.a(self.caller, call)?),
            _ => None,
        };
        if what == request::PEEK_SIGNALS {
            return self.peek_signals(tid, address, value);
        }
        let Some(tracee) = self.procs.tracees.get_mut(tid) else { return Err(Errno::ESRCH) };
        let bytes = match what {
            request::CONTINUE | request::DETACH if value > 64 => return Err(Errno::EIO),
            request::CONTINUE => {
                let modes = flag::SYSCALLS | flag::STEP | flag::EMULATE;
                tracee.mode = address as u32 & modes;
                self.trace_resume(tid, value as u32);
                return count(0);
            }
            request::DETACH => {
                self.let_go(tid, value as u32);
                return count(0);
            }
            request::LISTEN if tracee.may_listen => {
                tracee.phase = Phase::Listening;
                if core::mem::take(&mut tracee.again) {
                    // Its process has gone on before its tracer looked.
                    self.trap_again(tid);
                }
                return count(0);
            }
            request::SET_OPTIONS if valid_options(value as u32) => {
                tracee.options = value as u32;
                self.show_trace(tid, 0);
                return count(0);
            }
            request::SET_OPTIONS => return Err(Errno::EINVAL),
            request::GET_MESSAGE => tracee.message.to_le_bytes().to_vec(),
            request::GET_INFO => tracee.info.ok_or(Errno::EINVAL)?.to_vec(),
            request::SET_INFO if tracee.info.is_some() => {
                let info = info.and_then(|info| Info::try_from(info).ok()).ok_or(Errno::EINVAL)?;
                (tracee.info, tracee.info_changed) = (Some(info), true);
                return count(0);
            }
            request::SET_INFO => return Err(Errno::EINVAL),
            _ => return Err(Errno::EIO),
        };
        self.procs.put(self.caller, &bytes)?;
        count(bytes.len())
    }

    /// `PTRACE_PEEKSIGINFO`.
    fn peek_signals(&self, tid: Tid, first: u64, which: u64) -> Tried {
        let owner = match which >> 32 {
            0 => Owner::Thread(tid),
            _ => Owner::Process(self.procs.leader(tid)),
        };
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let most = (which as u32 as usize).min(DATA_BYTES / INFO_BYTES);
        let some = self.procs.waiting_signals(owner).skip(first).take(most);
        let bytes: Vec<u8> = some.flat_map(|(signal, info)| info_bytes(signal, &info)).collect();
        self.procs.put(self.caller, &bytes)?;
        count(bytes.len())
    }

    /// `PTRACE_INTERRUPT`.
    fn trace_interrupt(&mut self, tid: Tid) -> Tried {
        let Some(tracee) = self.procs.tracees.get_mut(tid) else { return Err(Errno::ESRCH) };
        if !tracee.seized {
            return Err(Errno::EIO);
        }
        match tracee.phase {
            Phase::Stopped => tracee.again = true,
            Phase::Listening => self.trap_again(tid),
            _ => {
                self.show_trace(tid, flag::WANTED);
                self.stir_tracee(tid);
            }
        }
        count(0)
    }

    /// A thread that listens has stopped anew.
    fn trap_again(&mut self, tid: Tid) {
        let Some(tracee) = self.procs.tracees.get_mut(tid) else { return };
        tracee.stops(stop::WANTED, 0, 0, None);
        self.tell_tracer(tid, CLD_TRAPPED, SIGTRAP);
    }

    /// A stopped thread goes on, with a signal or 0.
    fn trace_resume(&mut self, tid: Tid, signal: u32) {
        let Some(tracee) = self.procs.tracees.get_mut(tid) else { return };
        (tracee.phase, tracee.news) = (Phase::Running, None);
        let again = if core::mem::take(&mut tracee.again) { flag::WANTED } else { 0 };
        let info = tracee.info.filter(|_| tracee.info_changed);
        self.show_trace(tid, again);
        self.go_on(tid, signal, info);
    }

    fn go_on(&mut self, tid: Tid, signal: u32, info: Option<Info>) {
        let (address, value) = (signal.into(), info.is_some().into());
        let bytes = info.as_ref().map_or(&[][..], |info| info);
        if self.is_ready(tid) {
            self.command(tid, TraceCommand { address, value, ..GO_ON }, bytes);
        }
    }

    /// A thread is not traced any more.
    fn let_go(&mut self, tid: Tid, signal: u32) {
        let Some(tracee) = self.procs.tracees.remove(tid) else { return };
        self.show_trace(tid, 0);
        if let Some(asked) = self.procs.tracees.asked.remove(&tid) {
            self.fx.wake(asked.by);
        }
        if matches!(tracee.phase, Phase::Stopped | Phase::Listening) {
            if self.procs.get(tracee.leader).is_ok_and(|proc| proc.stopped) && signal == 0 {
                // Its process has stopped, and it with it.
                self.procs.suspend([tid]);
            }
            self.go_on(tid, signal, tracee.info.filter(|_| tracee.info_changed));
        }
    }

    /// Has a thread that waits for commands do something, and waits until it has.
    fn ask(&mut self, call: &Call, tid: Tid, what: TraceCommand, bytes: &[u8]) -> Tried {
        let by = self.caller.tid;
        match self.procs.tracees.asked.get_mut(&tid) {
            Some(asked) if asked.by == by => {
                let answer = asked.answer.take();
                match answer {
                    Some((result, bytes)) => {
                        self.asked_enough(tid);
                        self.answered(result, &bytes)
                    }
                    None if call.late => {
                        self.asked_enough(tid);
                        Err(Errno::EIO)
                    }
                    None => {
                        if self.is_ready(tid) {
                            self.send(tid, what, bytes);
                        }
                        self.patience()
                    }
                }
            }
            _ if call.late => Err(Errno::EIO),
            // Another thread of the tracer, or another process, was first.
            Some(_) => {
                self.procs.tracees.waiting.insert(by);
                self.patience()
            }
            None => {
                let number = self.procs.tracees.next_number();
                self.procs.tracees.asked.insert(tid, Asked { by, number, answer: None });
                if self.is_ready(tid) {
                    self.send(tid, what, bytes);
                } else {
                    self.show_trace(tid, 0);
                    self.stir_tracee(tid);
                }
                self.patience()
            }
        }
    }

    fn patience(&self) -> Tried {
        Ok(Outcome::Block(self.clock.now() + PATIENCE_NS))
    }

    fn send(&mut self, tid: Tid, what: TraceCommand, bytes: &[u8]) {
        let Some(asked) = self.procs.tracees.asked.get(&tid) else { return };
        let number = asked.number;
        self.command(tid, TraceCommand { number, ..what }, bytes);
    }

    /// Whoever else wants something of a thread may ask now.
    fn asked_enough(&mut self, tid: Tid) {
        self.procs.tracees.asked.remove(&tid);
        self.clear_serve(tid);
        // It may have come in the moment in which whoever asked had waited long enough, and would wait for a command for ever.
        let call = self.procs.blocked(tid).map(|blocked| blocked.call.any);
        if matches!(call, Some(Any::TraceStop(op)) if op.kind == stop::SERVE) {
            self.fx.wake(tid);
        }
        let waiting = core::mem::take(&mut self.procs.tracees.waiting);
        waiting.into_iter().for_each(|tid| self.fx.wake(tid));
    }

    fn answered(&mut self, result: i64, bytes: &[u8]) -> Tried {
        if result < 0 {
            let number = u16::try_from(result.unsigned_abs()).map_err(|_| Errno::EIO)?;
            return Err(Errno(number));
        }
        let bytes = bytes.get(..result as usize).unwrap_or(bytes);
        self.procs.put(self.caller, bytes)?;
        count(result as usize)
    }

    /// `process_vm_readv`, `process_vm_writev`.
    pub fn trace_memory(&mut self, pid: Pid, call: &mut Call, op: op::TraceMemory) -> Tried {
        let op::TraceMemory { tid, write, address, bytes } = op;
        let leader = self.traceable(pid, tid)?;
        let (what, data) = match write {
            true => (command::WRITE_SEEN, self.procs.a(self.caller, call)?),
            false => (command::READ_SEEN, Vec::new()),
        };
        self.ask_process(call, leader, (what, address, bytes), &data)
    }

    /// `process_madvise`.
    pub fn advise(&mut self, pid: Pid, call: &mut Call, op: op::AdviseOther) -> Tried {
        if !OF_OTHERS.contains(&op.advice) {
            return Err(Errno::EINVAL);
        }
        let leader = self.traceable(pid, op.pid)?;
        if !self.procs.get(pid)?.has(Capability::SysNice) {
            return Err(Errno::EPERM);
        }
        let ranges = self.procs.a(self.caller, call)?;
        let what = (command::ADVISE, op.advice.into(), ranges.len() as u64);
        self.ask_process(call, leader, what, &ranges)
    }

    /// Has a thread of another process do something about its memory.
    pub fn ask_process(
        &mut self,
        call: &Call,
        leader: Pid,
        (what, address, value): (u32, u64, u64),
        data: &[u8],
    ) -> Tried {
        if leader == self.caller.pid || value > DATA_BYTES as u64 {
            return Err(Errno::EINVAL);
        }
        let before = self
            .procs
            .tracees
            .asked_by(self.caller.tid)
            .find(|&it| self.procs.leader(it) == leader);
        let server = before.or_else(|| self.server_of(leader)).ok_or(Errno::EIO)?;
        // A thread that had to be woken is sent the command when it is there.
        self.ask(call, server, TraceCommand { what, number: 0, address, value }, data)
    }

    /// Reads or writes an open `/proc/PID/mem`. Whoever has opened it may do so as long as the process is there.
    pub fn memory_file(
        &mut self,
        call: &mut Call,
        op: op::MemoryFile,
        (node, memory): (Node, u64),
    ) -> Tried {
        let Node::Proc(ProcNode::File(leader, _)) = node else { return Err(Errno::EBADF) };
        let there = self.procs.live(leader).is_ok_and(|proc| proc.memory() == memory);
        if !there {
            return Err(Errno::ESRCH);
        }
        let told = procfs::told(node);
        let (what, data) = match (told, op.write) {
            (None, true) => (command::WRITE, self.procs.a(self.caller, call)?),
            (None, false) => (command::READ, Vec::new()),
            (Some(command::CLEAR_REFS), writes) => {
                if !writes || !command::CLEARED.contains(&op.address) {
                    return Err(Errno::EINVAL);
                }
                (command::CLEAR_REFS, Vec::new())
            }
            (Some(what), false) => (what, Vec::new()),
            (Some(_), true) => return Err(Errno::EIO),
        };
        if told.is_some() && self.server_of(leader).is_none() {
            // A reader of all processes' texts is not to fail because one of them cannot tell it now.
            return count(0);
        }
        self.ask_process(call, leader, (what, op.address, op.bytes), &data)
    }

    /// The thread that serves those who look into a process: one that waits for commands, else one that can be interrupted.
    fn server_of(&self, leader: Pid) -> Option<Tid> {
        let proc = self.procs.live(leader).ok()?;
        let threads = self.procs.threads_of(leader);
        let ready = threads.iter().copied().find(|&tid| self.is_ready(tid));
        let has_own = proc.domain.is_some() || proc.guest.is_some();
        let runs = !proc.stopped && !proc.native && has_own;
        ready.or_else(|| threads.into_iter().find(|_| runs))
    }

    /// The threads of a traced process stop, since one has got a signal that stops: each where it stops for its tracer.
    pub fn stop_traced(&mut self, pid: Pid, signal: u32) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let was_stopped = core::mem::replace(&mut proc.stopped, true);
        proc.stop_signal = signal;
        for tid in self.procs.threads_of(pid) {
            match self.procs.tracees.get_mut(tid) {
                Some(tracee) => {
                    tracee.group = Some(signal);
                    self.show_trace(tid, flag::WANTED);
                    if tid != self.caller.tid {
                        self.stir_tracee(tid);
                    }
                }
                None => {
                    self.procs.suspend([tid]);
                    self.interrupt(tid);
                }
            }
        }
        let parent = self.procs.get(pid).map_or(0, |proc| proc.parent);
        let own = self.procs.tracees.get(pid).is_some_and(|it| it.tracer == parent);
        if !was_stopped && !own {
            self.stop_is_news(pid, signal);
        }
    }

    /// A process with traced threads goes on. Those that were seized stop once more, to tell that.
    pub fn continue_traced(&mut self, pid: Pid) {
        let threads: Vec<Tid> = self.procs.tracees.threads_of(pid).map(|(tid, _)| tid).collect();
        for tid in threads {
            let Some(tracee) = self.procs.tracees.get_mut(tid) else { continue };
            tracee.group = None;
            match tracee.phase {
                Phase::Listening => self.trap_again(tid),
                Phase::Stopped if tracee.seized => tracee.again = true,
                Phase::Running if tracee.seized => {
                    self.show_trace(tid, flag::WANTED);
                    self.stir_tracee(tid);
                }
                _ => {}
            }
        }
    }

    /// The child or thread that a traced thread makes is traced, too.
    pub fn trace_child(&mut self, tid: Tid, leader: Pid) {
        let Some(parent) = self.procs.tracees.live(self.caller.tid) else { return };
        let tracee = Tracee::new(parent.tracer, leader, parent.seized, parent.options);
        let seized = tracee.seized;
        self.procs.tracees.add(tid, tracee);
        self.show_trace(tid, if seized { flag::WANTED } else { 0 });
        if let Ok(session) = self.procs.session_of(tid) {
            if !seized {
                session.header().own.post(SIGSTOP, SigInfo::default());
            }
        }
    }

    /// A thread has ended: its tracer is told, and whoever has asked it something.
    pub fn trace_gone(&mut self, tid: Tid, status: u32) {
        if let Some(asked) = self.procs.tracees.asked.remove(&tid) {
            self.fx.wake(asked.by);
        }
        let of_its: Vec<Tid> = self.procs.tracees.asked_by(tid).collect();
        of_its.into_iter().for_each(|tid| self.asked_enough(tid));
        let parent = self.procs.get(tid).map(|proc| proc.parent);
        let Some(tracee) = self.procs.tracees.get_mut(tid) else { return };
        if tracee.phase == Phase::Ended {
            return;
        }
        if parent == Ok(tracee.tracer) {
            // It hears of it as a parent does.
            self.procs.tracees.remove(tid);
            return;
        }
        let status = honest(status);
        (tracee.phase, tracee.news) = (Phase::Ended, Some(status));
        let (code, value) = end_of_child(status);
        self.tell_tracer(tid, code, value);
    }

    /// A process goes on as another program, with another header: what was asked of the memory before is not for this one to
    /// answer.
    pub fn trace_anew(&mut self, pid: Pid) {
        if let Some(asked) = self.procs.tracees.asked.remove(&pid) {
            self.fx.wake(asked.by);
        }
        let of_its: Vec<Tid> = self.procs.tracees.asked_by(pid).collect();
        of_its.into_iter().for_each(|tid| self.asked_enough(tid));
        self.show_trace(pid, 0);
    }

    /// A tracer has ended: those that it traced go on, or end if it wanted that.
    pub fn tracer_gone(&mut self, pid: Pid) {
        if self.procs.tracees.is_empty() {
            return;
        }
        let known = self.procs.tracees.of(pid).map(|(tid, it)| {
            let kill = it.options & PTRACE_O_EXITKILL != 0 && it.phase != Phase::Ended;
            (tid, it.leader, kill)
        });
        let all: Vec<(Tid, Pid, bool)> = known.collect();
        for (tid, leader, kill) in all {
            self.let_go(tid, 0);
            if kill && self.procs.live(leader).is_ok() {
                self.strike_down(leader, SIGKILL);
            }
        }
    }

    /// One of several threads executes a program, and is the first one from then on.
    pub fn trace_takes_over(&mut self, tid: Tid, pid: Pid) {
        if tid == pid {
            return;
        }
        self.procs.tracees.remove(pid);
        if let Some(tracee) = self.procs.tracees.remove(tid) {
            self.procs.tracees.add(pid, *tracee);
            self.show_trace(pid, 0);
        }
    }
}

/// `siginfo_t` of a signal that waits.
fn info_bytes(signal: u32, info: &SigInfo) -> Info {
    let of_child = signal == SIGCHLD && info.code > 0;
    let what = if of_child { u64::from(info.status as u32) } else { info.value };
    let who = u64::from(info.pid) | u64::from(info.uid) << 32;
    let mut bytes = [0; INFO_BYTES];
    let words = [u64::from(signal), u64::from(info.code as u32), who, what];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Are these options that there are? Suspending seccomp is nothing that a program may.
fn valid_options(options: u32) -> bool {
    options & !(PTRACE_O_MASK & !PTRACE_O_SUSPEND_SECCOMP) == 0
}
