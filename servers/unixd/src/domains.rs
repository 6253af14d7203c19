//! What runs a process: the dispatchers and the CSpace that its library has made, as this server
//! holds them.
//!
//! A library makes them of its own memory, and gives them away: this server takes only what nobody
//! else has a capability to, with the right to revoke it. What it then hands back lacks that right.
//! So it alone decides whether a process runs, and no process can take that from it, or keep running
//! what was taken. A process starts no dispatcher that this server has not seen, since all are
//! *supervised*: the kernel refuses.

use crate::caps::{errno, Slots};
use crate::clock::Clock;
use crate::cputime::CpuTime;
use crate::homes::{Arrival, Runner, Unit};
use crate::life::Life;
use crate::procs::{Pid, Proc, Procs};
use crate::scheduling::Scheduling;
use crate::server::RECEIVED;
use crate::threads::Tid;
use crate::wait::{done, Tried};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Status};
use linuxdomain::owner;
pub use linuxdomain::owner::OWN;
use unixproto::signals::SIGKILL;
use unixproto::Errno;

const CSPACE: u32 = 1;

/// First dispatcher and CSpace of a process. If its home is another core, the stand-in there has them, and this is a copy of the
/// dispatcher, for answers.
pub struct Domain {
    slots: Slots,
    /// What the stand-in knows it by.
    pub unit: Option<Unit>,
}

/// What runs a process in the domain of another one: a dispatcher more there, as of a thread.
pub struct Guest {
    /// Whose domain that is.
    pub host: Pid,
    /// The dispatcher, or a copy of one of another core.
    pub dispatcher: Slots,
    /// What the stand-in there knows that by.
    pub unit: Option<Unit>,
}

impl Guest {
    /// The dispatcher, to do something with it.
    pub fn runner(&self) -> Runner {
        Runner { dispatcher: self.dispatcher.first(), unit: self.unit }
    }
    /// Is it on another core?
    pub fn is_elsewhere(&self) -> bool {
        self.unit.is_some()
    }
}

impl Domain {
    /// Room for both.
    pub fn room() -> Result<Domain, Errno> {
        Ok(Domain { slots: Slots::new(2)?, unit: None })
    }
    /// A domain on another core that is being made.
    pub fn elsewhere(unit: Unit) -> Domain {
        Domain { slots: Slots::none(), unit: Some(unit) }
    }
    /// It has been made, and this is a copy of its dispatcher.
    pub fn come(&mut self, copy: Slots) {
        self.slots = copy;
    }
    /// The dispatcher; null as long as it is not there.
    pub fn dispatcher(&self) -> CapAddr {
        self.slots.first()
    }
    /// The same, to do something with it.
    pub fn runner(&self) -> Runner {
        Runner { dispatcher: self.dispatcher(), unit: self.unit }
    }
    /// The root of the CSpace; null if it is on another core.
    pub fn cspace(&self) -> CapAddr {
        match self.unit {
            None => self.slots.at(CSPACE),
            Some(_) => CapAddr::NULL,
        }
    }

    /// Takes what has come with a request. Its faults are reported at `endpoint`. `options` are those of
    /// `Configure`. On another core both are its stand-in's business.
    pub fn receive(
        arrival: &mut Arrival,
        endpoint: CapAddr,
        options: u32,
    ) -> Result<Domain, Errno> {
        match arrival {
            Arrival::Here(2) => Domain::receive_here(endpoint, options),
            Arrival::Here(_) => Err(Errno::EINVAL),
            Arrival::Elsewhere(unit, copy) => {
                let slots = copy.take().ok_or(Errno::EINVAL)?;
                Ok(Domain { slots, unit: Some(*unit) })
            }
        }
    }

    fn receive_here(endpoint: CapAddr, options: u32) -> Result<Domain, Errno> {
        check_sole(RECEIVED, CapType::Dispatcher)?;
        check_sole(RECEIVED.plus(1), CapType::L1CNode)?;
        let domain = Domain::room()?;
        RECEIVED.move_to(domain.dispatcher()).map_err(errno)?;
        RECEIVED.plus(1).move_to(domain.cspace()).map_err(errno)?;
        match domain.settle(endpoint, options) {
            Ok(()) => Ok(domain),
            Err(_) => Err(domain.refuse(Errno::EINVAL)),
        }
    }

    /// Puts both back where they came, so that they are deleted as what nobody has taken: in pieces.
    pub fn refuse(self, error: Errno) -> Errno {
        // Nobody else has them, and what arrived in those slots was moved away from there.
        let _ = self.dispatcher().move_to(RECEIVED);
        let _ = self.cspace().move_to(RECEIVED.plus(1));
        error
    }

    /// Gives the dispatcher its CSpace, and the domain capabilities to itself.
    pub fn settle(&self, endpoint: CapAddr, options: u32) -> Result<(), Status> {
        owner::settle((self.dispatcher(), self.cspace()), endpoint, options)
    }

    /// Both are gone: gives the slots back.
    pub fn emptied(self) {
        self.slots.emptied();
    }

    /// Lets it run. One that cannot is refused. On another core its stand-in does so, once the request is answered.
    pub fn start(self, scheduling: Scheduling) -> Result<Domain, Errno> {
        scheduling.begin(self.dispatcher());
        if self.unit.is_some() {
            return Ok(self);
        }
        match invoke(self.dispatcher(), op::Start {}) {
            Ok(()) => Ok(self),
            Err(status) => Err(self.refuse(errno(status))),
        }
    }
}

impl Life<'_> {
    /// Puts the root that has come with a request in the place of a process's own, which only this server
    /// may do: no process has the right to revoke its root. What of the old one is left is dropped. Whoever
    /// has made so many copies of its root that this takes long is ended.
    pub fn grow_root(&mut self, pid: Pid, arrival: &Arrival) -> Tried {
        if !matches!(arrival, Arrival::Here(1)) {
            return Err(Errno::EINVAL);
        }
        // The parent does it for a child that it acts as.
        let proc = self.procs.get(pid)?;
        let owner = if proc.is_acted() { self.procs.get(proc.parent)? } else { proc };
        let domain = owner.domain.as_ref().filter(|domain| domain.unit.is_none());
        let own = domain.ok_or(Errno::EINVAL)?.cspace();
        check_sole(RECEIVED, CapType::L1CNode)?;
        let owner = owner.pid;
        match owner::grow_root(own, RECEIVED) {
            Ok(()) => done(()),
            Err(Status::Again) => {
                libos::log!(
                    "unixd: process {owner} ends: it has too many capabilities to its root"
                );
                self.strike_down(owner, SIGKILL);
                Err(Errno::EPERM)
            }
            Err(_) => Err(Errno::EINVAL),
        }
    }
}

/// The dispatcher of a thread other than the first, which has come with a request, and what its stand-in knows it by.
pub fn receive_dispatcher(
    arrival: &mut Arrival,
    endpoint: CapAddr,
    options: u32,
) -> Result<(Slots, Option<Unit>), Errno> {
    if let Arrival::Elsewhere(unit, copy) = arrival {
        return Ok((copy.take().ok_or(Errno::EINVAL)?, Some(*unit)));
    }
    check_sole(RECEIVED, CapType::Dispatcher)?;
    owner::watch(RECEIVED, Place::NULL, endpoint, options).map_err(|_| Errno::EINVAL)?;
    let dispatcher = Slots::new(1)?;
    RECEIVED.move_to(dispatcher.first()).map_err(errno)?;
    Ok((dispatcher, None))
}

/// `EPERM` unless it is of this type, may be revoked, and nobody else has it, on any core.
fn check_sole(cap: CapAddr, ty: CapType) -> Result<(), Errno> {
    owner::check_sole(cap, ty).map_err(|status| match status {
        Status::NoRights => Errno::EPERM,
        _ => Errno::EINVAL,
    })
}

impl Procs {
    /// The dispatcher on which a thread's calls come: its own, or that of the parent that acts as
    /// its process.
    #[inline]
    pub fn dispatcher_of(&self, tid: Tid) -> Option<CapAddr> {
        self.runner_of(tid).map(|runner| runner.dispatcher)
    }

    /// The same, to do something with it.
    #[inline]
    pub fn runner_of(&self, tid: Tid) -> Option<Runner> {
        if let Some(thread) = self.thread(tid) {
            return Some(thread.runner());
        }
        let proc = self.get(tid).ok()?;
        if let Some(guest) = &proc.guest {
            return Some(guest.runner());
        }
        let domain = match &proc.domain {
            Some(domain) => Some(domain),
            None => self.get(proc.parent).ok()?.domain.as_ref(),
        };
        domain.map(Domain::runner)
    }

    /// The core whose memory a thread has.
    pub fn core_of(&self, tid: Tid) -> u32 {
        self.unit_of(tid).map_or(0, |unit| unit.core)
    }

    /// The domain on another core in which a thread runs.
    pub fn unit_of(&self, tid: Tid) -> Option<Unit> {
        self.runner_of(self.host_of(self.leader(tid))).and_then(|runner| runner.unit)
    }

    /// The process in whose domain another one runs: mostly its own.
    pub fn host_of(&self, pid: Pid) -> Pid {
        let guest = self.get(pid).ok().and_then(|proc| proc.guest.as_ref());
        guest.map_or(pid, |guest| guest.host)
    }

    /// Does a process share its memory with others, which go on when it ends or is stopped?
    pub fn has_company(&self, pid: Pid) -> bool {
        self.get(pid).is_ok_and(|proc| proc.guest.is_some() || !proc.guests.is_empty())
    }

    /// Takes out what runs a process in the domain of another one.
    pub fn take_guest(&mut self, pid: Pid) -> Option<Guest> {
        let guest = self.get_mut(pid).ok()?.guest.take()?;
        if let Ok(host) = self.get_mut(guest.host) {
            host.guests.retain(|&other| other != pid);
        }
        Some(guest)
    }

    /// Whose dispatcher [`dispatcher_of`](Self::dispatcher_of) is: the thread's, or its parent's that acts as its process.
    /// With the badge of that one.
    pub fn acting(&self, tid: Tid) -> Option<(Tid, u64)> {
        if let Some(thread) = self.thread(tid) {
            return Some((tid, thread.voice.badge.number().into()));
        }
        let mut proc = self.get(tid).ok()?;
        if proc.domain.is_none() && proc.guest.is_none() {
            proc = self.get(proc.parent).ok().filter(|parent| parent.acts_as == Some(tid))?;
        }
        Some((proc.pid, proc.voice.as_ref()?.badge.number().into()))
    }

    /// Stops threads where they are.
    pub fn suspend(&self, tids: impl IntoIterator<Item = Tid>) {
        tids.into_iter().filter_map(|tid| self.runner_of(tid)).for_each(Runner::suspend);
    }

    /// Lets them go on.
    pub fn unsuspend(&self, tids: impl IntoIterator<Item = Tid>) {
        tids.into_iter().filter_map(|tid| self.runner_of(tid)).for_each(Runner::unsuspend);
    }

    /// Processor time that a process has used.
    pub fn cpu(&self, clock: &Clock, proc: &Proc) -> CpuTime {
        let others = proc.threads.iter().filter_map(|&tid| self.runner_of(tid));
        let own = proc.domain.as_ref().map(Domain::runner);
        let own = own.or(proc.guest.as_ref().map(Guest::runner));
        let runners = own.into_iter().chain(others);
        runners.fold(proc.cpu, |sum, runner| sum + CpuTime::of(runner.dispatcher, clock))
    }
}
