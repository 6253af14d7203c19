//! The threads that are traced, and what is asked of those that look into their own memory for somebody else.

use crate::procs::Pid;
use crate::threads::Tid;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use unixproto::signals::SIGTRAP;
use unixproto::trace::{flag, stop, INFO_BYTES, OPTION_EVENTS};
use unixproto::trace::{PTRACE_EVENT_STOP, PTRACE_O_TRACESYSGOOD};

/// A `siginfo_t`.
pub type Info = [u8; INFO_BYTES];

/// Where a traced thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It runs, or waits.
    Running,
    /// It has stopped, and does what its tracer says.
    Stopped,
    /// It stays stopped until its process goes on, and does nothing (`PTRACE_LISTEN`).
    Listening,
    /// It has ended.
    Ended,
}

/// A traced thread.
pub struct Tracee {
    /// The process that traces it: as long as it does.
    pub tracer: Pid,
    /// The process whose thread it is.
    pub leader: Pid,
    /// By `PTRACE_SEIZE`.
    pub seized: bool,
    /// `PTRACE_O_*`.
    pub options: u32,
    /// Where it is.
    pub phase: Phase,
    /// A wait status that its tracer has not heard of yet.
    pub news: Option<u32>,
    /// What `PTRACE_GETEVENTMSG` gives.
    pub message: u64,
    /// The `siginfo_t` of its stop.
    pub info: Option<Info>,
    /// Its tracer has changed that.
    pub info_changed: bool,
    /// The signal that has stopped its process, for the stop in which it tells of that.
    pub group: Option<u32>,
    /// It has stopped since it was wanted to, and may be left there (`PTRACE_LISTEN`).
    pub may_listen: bool,
    /// It is to stop once more when it goes on.
    pub again: bool,
    /// [`flag::SYSCALLS`], [`flag::STEP`] or 0: until when it goes on.
    pub mode: u32,
}

impl Tracee {
    /// One that runs.
    pub fn new(tracer: Pid, leader: Pid, seized: bool, options: u32) -> Tracee {
        Tracee {
            tracer,
            leader,
            seized,
            options,
            phase: Phase::Running,
            news: None,
            message: 0,
            info: None,
            info_changed: false,
            group: None,
            may_listen: false,
            again: false,
            mode: 0,
        }
    }

    /// What the header of the thread says.
    pub fn flags(&self) -> u32 {
        let seized = if self.seized { flag::SEIZED } else { 0 };
        let events = (self.options & OPTION_EVENTS) << flag::OPTIONS_SHIFT;
        flag::TRACED | seized | self.mode | events
    }

    /// Notes a stop. Answers its signal, with an event above it.
    pub fn stops(&mut self, kind: u32, value: u32, message: u64, info: Option<Info>) -> u32 {
        let event = |number: u32| SIGTRAP | number << 8;
        let (what, info) = match kind {
            stop::SIGNAL => (value & 0x7f, info),
            stop::SYSCALL if self.options & PTRACE_O_TRACESYSGOOD != 0 => {
                (SIGTRAP | 0x80, Some(trap(SIGTRAP, SIGTRAP | 0x80)))
            }
            stop::SYSCALL => (SIGTRAP, Some(trap(SIGTRAP, SIGTRAP))),
            stop::EVENT => (event(value & 0xff), Some(trap(SIGTRAP, event(value & 0xff)))),
            // Nobody has sent the signal of this one.
            _ if !self.seized => (self.group.take().unwrap_or(SIGTRAP), None),
            _ => {
                let signal = self.group.take().unwrap_or(SIGTRAP);
                let what = signal | PTRACE_EVENT_STOP << 8;
                (what, Some(trap(signal, what)))
            }
        };
        self.may_listen = self.seized && what >> 8 == PTRACE_EVENT_STOP;
        self.phase = Phase::Stopped;
        (self.message, self.info, self.info_changed) = (message, info, false);
        self.news = Some(what << 8 | 0x7f);
        what
    }
}

/// The `siginfo_t` of a stop that is about no signal: its code says what.
fn trap(signal: u32, code: u32) -> Info {
    let mut info = [0; INFO_BYTES];
    info[..4].copy_from_slice(&signal.to_le_bytes());
    info[8..12].copy_from_slice(&code.to_le_bytes());
    info
}

/// What somebody wants a thread to do.
pub struct Asked {
    /// Who.
    pub by: Tid,
    /// Which command that is.
    pub number: u32,
    /// The answer: bytes, or the negative number of an error.
    pub answer: Option<(i64, Vec<u8>)>,
}

/// All of them.
#[derive(Default)]
pub struct Tracees {
    all: BTreeMap<Tid, Box<Tracee>>,
    /// The same by who traces them, and by whose threads they are.
    by_tracer: BTreeSet<(Pid, Tid)>,
    by_leader: BTreeSet<(Pid, Tid)>,
    /// What is being asked of which thread: traced ones, and those that serve who may look into their memory.
    pub asked: BTreeMap<Tid, Asked>,
    /// Threads that wait until another one has been answered.
    pub waiting: BTreeSet<Tid>,
    /// The number of the last command.
    number: u32,
}

impl Tracees {
    /// Is nobody traced?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// A traced thread.
    pub fn get(&self, tid: Tid) -> Option<&Tracee> {
        self.all.get(&tid).map(|tracee| &**tracee)
    }
    /// The same, to be changed.
    pub fn get_mut(&mut self, tid: Tid) -> Option<&mut Tracee> {
        self.all.get_mut(&tid).map(|tracee| &mut **tracee)
    }
    /// One that has not ended.
    pub fn live(&self, tid: Tid) -> Option<&Tracee> {
        self.get(tid).filter(|tracee| tracee.phase != Phase::Ended)
    }
    /// Has a thread stopped for its tracer?
    pub fn has_stopped(&self, tid: Tid) -> bool {
        let phase = self.live(tid).map(|tracee| tracee.phase);
        matches!(phase, Some(Phase::Stopped | Phase::Listening))
    }
    /// Adds one.
    pub fn add(&mut self, tid: Tid, tracee: Tracee) {
        self.remove(tid);
        self.by_tracer.insert((tracee.tracer, tid));
        self.by_leader.insert((tracee.leader, tid));
        self.all.insert(tid, Box::new(tracee));
    }
    /// Takes one out.
    pub fn remove(&mut self, tid: Tid) -> Option<Box<Tracee>> {
        let tracee = self.all.remove(&tid)?;
        self.by_tracer.remove(&(tracee.tracer, tid));
        self.by_leader.remove(&(tracee.leader, tid));
        Some(tracee)
    }
    /// Those that a process traces, in order.
    pub fn of(&self, tracer: Pid) -> impl Iterator<Item = (Tid, &Tracee)> {
        self.of_index(&self.by_tracer, tracer)
    }
    /// Is any thread of a process traced?
    #[inline]
    pub fn has_thread_of(&self, leader: Pid) -> bool {
        !self.all.is_empty() && self.threads_of(leader).next().is_some()
    }
    /// The traced threads of a process that have not ended.
    pub fn threads_of(&self, leader: Pid) -> impl Iterator<Item = (Tid, &Tracee)> {
        self.of_index(&self.by_leader, leader).filter(|(_, it)| it.phase != Phase::Ended)
    }
    fn of_index<'a>(
        &'a self,
        index: &'a BTreeSet<(Pid, Tid)>,
        pid: Pid,
    ) -> impl Iterator<Item = (Tid, &'a Tracee)> {
        let tids = index.range((pid, 0)..=(pid, Tid::MAX)).map(|&(_, tid)| tid);
        tids.filter_map(|tid| Some((tid, self.get(tid)?)))
    }
    /// The threads of which a thread wants something.
    pub fn asked_by(&self, tid: Tid) -> impl Iterator<Item = Tid> + use<'_> {
        self.asked.iter().filter(move |(_, asked)| asked.by == tid).map(|(&tid, _)| tid)
    }
    /// A number for the next command.
    pub fn next_number(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }
}
