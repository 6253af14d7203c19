//! The loop.

pub mod boot;
mod perform;
mod requests;
pub mod sets;

use crate::clock::{Clock, Due, DUE_MAX};
use crate::console::Console;
use crate::counters::Counters;
use crate::descs::Descs;
use crate::effects::Effects;
use crate::futexes::Futexes;
use crate::locks::AllLocks;
use crate::nodes::Tree;
use crate::pipes::Pipes;
use crate::procs::{Pid, Procs};
use crate::stock::Stock;
use crate::system::System;
use crate::terminal::Terminal;
use crate::threads::Tid;
use crate::voices::{Speaker, Voices};
use crate::wait::{Call, Outcome};
use crate::watches::Watches;
use abi::slots::{DISPATCHER, SELF_EP};
use alloc::vec::Vec;
use captypes::invocations::NOTIFY_TIMER;
use libos::domain;
use libos::ipc::{reply_recv, Caps, Message};
use libos::{Cap, CapAddr, Place};
use sets::Sets;
use unixproto::ops::{error_words, lengths};
use unixproto::{Any, Errno, Words};

/// Slots for capabilities that come with a request.
pub const RECEIVED: CapAddr = CapAddr(domain::ARENA_SLOT.0 + 1);
/// How many.
pub const RECEIVED_MAX: u32 = 4;
/// Three slots for capabilities that are made only to be sent.
pub const SCRATCH: CapAddr = CapAddr(RECEIVED.0 + RECEIVED_MAX);

/// How long the end of a process may wait for another process that has just been answered.
const KILLER_NS: u64 = 100_000;

/// Notification bits of `unixd` itself.
pub mod note {
    /// COM1 has something.
    pub const COM1: u64 = 1;
    /// COM2 has something.
    pub const COM2: u64 = 2;
    /// There is more to do.
    pub const WORK: u64 = 4;
    /// The device with the standard streams has something.
    pub const STREAMS: u64 = 8;
}

/// The server: its parts, and what is being worked on.
pub struct Unixd {
    /// Processes and threads.
    procs: Procs,
    /// What threads speak with.
    voices: Voices,
    /// Open file descriptions.
    descs: Descs,
    /// Names, attributes and contents of files, and `/proc`.
    tree: Tree,
    /// Pipes and fifos.
    pipes: Pipes,
    /// Sets of `epoll` that processes share.
    sets: Sets,
    /// Counters that processes share.
    counters: Counters,
    /// Advisory locks.
    locks: AllLocks,
    /// Futexes in shared memory.
    futexes: Futexes,
    /// Who watches what.
    watches: Watches,
    /// The terminal.
    terminal: Terminal,
    /// The serial ports.
    console: Console,
    /// Time, and what is due when.
    clock: Clock,
    /// What is known about memory.
    stock: Stock,
    /// The machine and the session.
    system: System,
    /// Threads whose next `Poll` is to end at once.
    stirred: Vec<Tid>,
    /// The thread whose request is being worked on.
    caller: Speaker,
    /// What is still to be done because of it.
    fx: Effects,
    /// Others come first, next time.
    yields: bool,
}

impl Unixd {
    /// Serves until the session is over.
    pub fn run(mut self) -> ! {
        self.console.start_input(&mut self.terminal, &mut self.fx);
        let mut answer = None;
        loop {
            if !self.fx.is_settled() {
                self.run_retries();
            }
            self.console.output(&mut self.terminal, &mut self.clock, &mut self.fx);
            self.stock.tidy_later(&mut self.clock);
            self.clock.arm();
            if answer.is_none() && !self.voices.is_idle() {
                self.life().work_off_endings();
            }
            if self.voices.is_idle() && self.system.ended().is_some() {
                boot::report(self);
            }
            if !self.fx.is_settled() {
                continue;
            }
            let Some(message) = self.receive(answer.take()) else { continue };
            answer = self.handle(&message);
        }
    }

    fn receive(&mut self, answer: Option<(Words, Caps)>) -> Option<Message> {
        match answer {
            _ if self.voices.is_idle() => {}
            // Whoever killed somebody goes on before that one's memory is free.
            Some(_) => self.clock.arm_within(KILLER_NS),
            None => self.come_back_soon(),
        }
        let recv = Place::own(RECEIVED);
        let message = match answer {
            Some((words, caps)) => reply_recv(SELF_EP, Place::CALLER, words, caps, recv),
            None => libos::ipc::recv(SELF_EP, recv),
        };
        // An error: the caller has gone before its answer came.
        message.ok()
    }

    /// More work waits. The kernel gives notifications before messages, so every other time it is
    /// the timer that ends the waiting: then whoever has a request comes first.
    fn come_back_soon(&mut self) {
        self.yields = !self.yields;
        match self.yields {
            true => self.clock.arm_within(0),
            // The own dispatcher can be notified.
            false => drop(DISPATCHER.notify(note::WORK)),
        }
    }

    fn handle(&mut self, message: &Message) -> Option<(Words, Caps)> {
        self.clock.begin_event();
        if message.is_notification() {
            self.notified(message.words[0]);
            return None;
        }
        let answer = match self.voices.who(message.badge) {
            Some(Speaker { pid, .. }) if message.is_fault() => {
                self.fault(pid, message);
                None
            }
            Some(speaker) => self.answer_to(speaker, message),
            // A thread that has ended waits to be taken apart.
            None if message.is_fault() => None,
            // Somebody has kept what belonged to a thread that is gone.
            None => Some((error_words(Errno::ESRCH), Caps::NONE)),
        };
        // What came along and was not taken.
        for index in 0..message.caps() {
            RECEIVED.plus(index).discard();
        }
        answer
    }

    #[inline(always)]
    fn answer_to(&mut self, speaker: Speaker, message: &Message) -> Option<(Words, Caps)> {
        self.caller = speaker;
        match self.request(speaker.pid, message) {
            Ok(Outcome::Done(words)) => Some((words, Caps::NONE)),
            Ok(Outcome::WithCaps(words, caps)) => Some((words, caps)),
            Ok(Outcome::Block(_) | Outcome::Never) => None,
            // A signal that came with the error may have ended it.
            Err(_) if self.procs.live(speaker.pid).is_err() => None,
            Err(error) => Some((error_words(error), Caps::NONE)),
        }
    }

    fn request(&mut self, pid: Pid, message: &Message) -> crate::wait::Tried {
        let Some(waits) = self.procs.admit(self.caller.tid, pid) else {
            // Whoever is being taken apart waits for that.
            return Ok(Outcome::Never);
        };
        let any = Any::decode(&message.words)?;
        let mut call = Call::new(any, lengths(&message.words)?);
        // A thread with a request that waits has no business here: it has more than one voice.
        if waits {
            let tid = self.caller.tid;
            self.life().unblock(tid);
        }
        if let Some(outcome) = self.with_caps(pid, &call, message.caps()) {
            self.perform();
            return outcome;
        }
        let outcome = self.attempt(pid, &mut call);
        if self.settle() {
            return Ok(Outcome::Never);
        }
        match outcome? {
            Outcome::Block(deadline) => {
                let tid = self.caller.tid;
                self.life().block(tid, call, deadline)
            }
            outcome => Ok(outcome),
        }
    }

    fn notified(&mut self, bits: u64) {
        if bits & NOTIFY_TIMER != 0 {
            self.clock.expired();
        }
        if bits & note::STREAMS != 0 {
            self.terminal.interrupt(&mut self.fx);
        }
        if bits & note::COM1 != 0 {
            self.console.input(&mut self.terminal, &mut self.fx);
        }
        if bits & note::COM2 != 0 {
            self.console.control_input(&mut self.terminal, &mut self.fx);
        }
        for _ in 0..DUE_MAX {
            match self.clock.take_due() {
                Some(Due::Wait(tid)) => self.wait_is_over(tid),
                Some(Due::Counter(number)) => self.counters.expired(number, &mut self.fx),
                Some(Due::Timer(pid, which)) => self.life().timer_expired(pid, which),
                Some(Due::Kill(pid)) => self.life().insist(pid),
                Some(Due::Cpu(pid)) => self.life().look_at_cpu(pid),
                Some(Due::Console) => self.console.resume(),
                Some(Due::Tidy) => self.stock.tidy(&mut self.clock),
                None => break,
            }
            self.perform();
        }
    }

    /// The kernel reports a fault that a process cannot handle itself.
    fn fault(&mut self, pid: Pid, message: &Message) {
        let [vector, error, address, rip, ..] = message.words;
        libos::log!(
            "unixd: process {pid} ends: exception {vector} error {error:#x} at {rip:#x}, address {address:#x}"
        );
        self.life().terminate(pid, unixproto::signals::killed(unixproto::signals::SIGSEGV));
    }
}
