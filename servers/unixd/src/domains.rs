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
use crate::life::Life;
use crate::procs::{Pid, Proc, Procs};
use crate::server::RECEIVED;
use crate::threads::Tid;
use crate::wait::{done, Tried};
use abi::slots;
use captypes::invocations::{options, Identity};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Rights, Status};
use linuxdomain::ROOT_BYTES;
use unixproto::signals::SIGKILL;
use unixproto::Errno;

/// Rights of a process to its own dispatchers and root: all but `REVOKE`.
pub const OWN: Rights = Rights(Rights::ALL.0 & !Rights::REVOKE.0);

/// Most invocations for one `GrowRoot`, so that nobody else waits longer. The kernel copies or redirects
/// 160 capabilities in each. An honest process needs three at most: its root holds 64 capabilities, and
/// there is one to that for each of its 240 threads and a few more.
const MOST_EVENTS: usize = 8;

const DISPATCHER: u32 = 0;
const CSPACE: u32 = 1;

/// First dispatcher and CSpace of a process.
pub struct Domain(Slots);

impl Domain {
    /// Room for both.
    pub fn room() -> Result<Domain, Errno> {
        Slots::new(2).map(Domain)
    }
    /// The dispatcher.
    pub fn dispatcher(&self) -> CapAddr {
        self.0.at(DISPATCHER)
    }
    /// The root of the CSpace.
    pub fn cspace(&self) -> CapAddr {
        self.0.at(CSPACE)
    }

    /// Takes what has come with a request. Its faults are reported at `endpoint`. `options` are those of
    /// `Configure`.
    pub fn receive(received: u32, endpoint: CapAddr, options: u32) -> Result<Domain, Errno> {
        if received != 2 {
            return Err(Errno::EINVAL);
        }
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
        let (root, dispatcher) = (self.cspace(), self.dispatcher());
        watch(dispatcher, root.into(), endpoint, options)?;
        root.mint(Place::within(root, slots::ROOT), OWN)?;
        dispatcher.mint(Place::within(root, slots::DISPATCHER), OWN)
    }

    /// Both are gone: gives the slots back.
    pub fn emptied(self) {
        self.0.emptied();
    }

    /// Lets it run. One that cannot is refused.
    pub fn start(self) -> Result<Domain, Errno> {
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
    pub fn grow_root(&mut self, pid: Pid, received: u32) -> Tried {
        if received != 1 {
            return Err(Errno::EINVAL);
        }
        // The parent does it for a child that it acts as.
        let proc = self.procs.get(pid)?;
        let owner = if proc.is_acted() { self.procs.get(proc.parent)? } else { proc };
        let own = owner.domain.as_ref().ok_or(Errno::EINVAL)?.cspace();
        check_sole(RECEIVED, CapType::L1CNode)?;
        let bytes = |root: CapAddr| root.identify().map(|what| what.bytes).map_err(errno);
        if bytes(RECEIVED)? != ROOT_BYTES || bytes(own)? >= ROOT_BYTES {
            return Err(Errno::EINVAL);
        }
        let owner = owner.pid;
        match replace_root(own) {
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

/// Puts the root that was received in the place of `own`.
///
/// # Errors
/// `Again` if that is not done after [`MOST_EVENTS`] invocations. Some capabilities are to the new root
/// then, others still to the old one.
fn replace_root(own: CapAddr) -> Result<(), Status> {
    for _ in 0..MOST_EVENTS {
        match invoke(own, op::Resize { root: RECEIVED.into() }) {
            Err(Status::Again) => {}
            done => return done,
        }
    }
    Err(Status::Again)
}

/// The dispatcher of a thread other than the first, which has come with a request.
pub fn receive_dispatcher(endpoint: CapAddr, options: u32) -> Result<Slots, Errno> {
    check_sole(RECEIVED, CapType::Dispatcher)?;
    watch(RECEIVED, Place::NULL, endpoint, options).map_err(|_| Errno::EINVAL)?;
    let dispatcher = Slots::new(1)?;
    RECEIVED.move_to(dispatcher.first()).map_err(errno)?;
    Ok(dispatcher)
}

/// `EPERM` unless it is of this type, may be revoked, and nobody else has it, on any core.
fn check_sole(cap: CapAddr, ty: CapType) -> Result<(), Errno> {
    const OTHERS: u64 = Identity::COPIES | Identity::REMOTE_COPIES | Identity::FOREIGN;
    let what = cap.identify().map_err(|_| Errno::EINVAL)?;
    if what.ty != ty {
        return Err(Errno::EINVAL);
    }
    if what.relations & OTHERS != 0 || !what.rights.has(Rights::REVOKE) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// The kernel reports faults on the thread's own endpoint, so with its badge.
fn watch(
    dispatcher: CapAddr,
    cspace: Place,
    endpoint: CapAddr,
    options: u32,
) -> Result<(), Status> {
    let configure = op::Configure {
        cspace,
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: endpoint.into(),
        options: options | options::SUPERVISED,
    };
    invoke(dispatcher, configure)
}

impl Procs {
    /// The dispatcher on which a thread's calls come: its own, or that of the parent that acts as
    /// its process.
    #[inline]
    pub fn dispatcher_of(&self, tid: Tid) -> Option<CapAddr> {
        if let Some(thread) = self.thread(tid) {
            return Some(thread.dispatcher.first());
        }
        let proc = self.get(tid).ok()?;
        match &proc.domain {
            Some(domain) => Some(domain.dispatcher()),
            None => self.get(proc.parent).ok()?.dispatcher(),
        }
    }

    /// Whose dispatcher [`dispatcher_of`](Self::dispatcher_of) is, or was when a request came that has ended
    /// the child that a parent acts as: the thread's, or its parent's. With the badge of that one.
    pub fn acting(&self, tid: Tid) -> Option<(Tid, u64)> {
        if let Some(thread) = self.thread(tid) {
            return Some((tid, thread.voice.badge.number().into()));
        }
        let mut proc = self.get(tid).ok()?;
        if proc.domain.is_none() {
            proc = self.get(proc.parent).ok().filter(|parent| parent.acts_as == Some(tid))?;
        }
        Some((proc.pid, proc.voice.as_ref()?.badge.number().into()))
    }

    /// Stops threads where they are.
    pub fn suspend(&self, tids: impl IntoIterator<Item = Tid>) {
        for dispatcher in tids.into_iter().filter_map(|tid| self.dispatcher_of(tid)) {
            // One that has just ended is as good as stopped.
            let _ = invoke(dispatcher, op::Suspend {});
        }
    }

    /// Lets them go on.
    pub fn unsuspend(&self, tids: impl IntoIterator<Item = Tid>) {
        for dispatcher in tids.into_iter().filter_map(|tid| self.dispatcher_of(tid)) {
            // One that was not suspended stays as it is.
            let _ = invoke(dispatcher, op::Continue {});
        }
    }

    /// Processor time that a process has used.
    pub fn cpu(&self, clock: &Clock, proc: &Proc) -> CpuTime {
        let others = proc.threads.iter().filter_map(|&tid| self.dispatcher_of(tid));
        let dispatchers = proc.dispatcher().into_iter().chain(others);
        dispatchers.fold(proc.cpu, |sum, dispatcher| sum + CpuTime::of(dispatcher, clock))
    }
}
