//! Signals that tell of descriptions (`O_ASYNC`, `F_SETOWN`): that something can be read or written, or is urgent; and of leases and directories.
//!
//! Who is told is said by anybody who has the description, and told only as far as whoever said so could have sent that signal: it counts who he was
//! then, and who the owner is when something happens.

use crate::descs::Object;
use crate::effects::Effects;
use crate::procs::{Pid, Procs};
use crate::signals::from_kernel;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::watches::{Source, Sources};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use unixproto::files::*;
use unixproto::signals::*;
use unixproto::Errno;

const READABLE: u16 = POLLIN | POLLRDNORM;
const POLLMSG: u64 = 0x400;
const POLLRDBAND: u64 = 0x80;
const POLLWRBAND: u64 = 0x200;

/// Who is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A thread.
    Thread(Tid),
    /// A process.
    Process(Pid),
    /// All processes of a group.
    Group(Pid),
}

impl Owner {
    /// As a request says it: `F_OWNER_*`, and the id, 0 for nobody.
    ///
    /// # Errors
    /// `EINVAL`: there is no such kind. `ESRCH`: there is nobody with that id.
    pub fn parse(procs: &Procs, kind: u32, id: u32) -> Result<Option<Owner>, Errno> {
        let owner = match kind {
            F_OWNER_TID => Owner::Thread(id),
            F_OWNER_PID => Owner::Process(id),
            F_OWNER_PGRP => Owner::Group(id),
            _ => return Err(Errno::EINVAL),
        };
        if id == 0 {
            return Ok(None);
        }
        // A number is anybody's that has it, whatever it is for.
        let is_there =
            procs.get(id).is_ok() || procs.is_thread(id) || procs.members(id).next().is_some();
        if is_there {
            Ok(Some(owner))
        } else {
            Err(Errno::ESRCH)
        }
    }

    /// The kind, and the id.
    fn parts(self) -> (u32, u32) {
        match self {
            Owner::Thread(id) => (F_OWNER_TID, id),
            Owner::Process(id) => (F_OWNER_PID, id),
            Owner::Group(id) => (F_OWNER_PGRP, id),
        }
    }
}

/// What is said of a description.
#[derive(Default)]
struct Wish {
    /// Who is told; and the real and effective user who said so.
    owner: Option<(Owner, [u32; 2])>,
    /// The signal (`F_SETSIG`); 0: `SIGIO`, which tells nothing else.
    signal: u32,
    /// What the descriptor is called for which it is on (`O_ASYNC`).
    fd: Option<u32>,
    /// What it depends on, if that is something which changes.
    source: Option<Source>,
    /// `POLL*` bits when it was last looked at.
    state: u16,
}

impl Wish {
    fn is_nothing(&self) -> bool {
        self.owner.is_none() && self.signal == 0 && self.fd.is_none()
    }
}

/// What is said of all descriptions.
#[derive(Default)]
pub struct Readiness {
    wishes: BTreeMap<u32, Wish>,
    /// Of which descriptions something is said that depend on one thing.
    sources: BTreeMap<Source, Vec<u32>>,
}

/// Can signals tell of an object? What that depends on.
pub fn told_of(object: &Object) -> Option<Source> {
    match object {
        Object::Pipe(..) | Object::Tty(..) | Object::Master(..) | Object::Stream(_) => {}
        Object::Socket(_) | Object::Inet(_) | Object::Notices(_) | Object::Fanotify(_) => {}
        _ => return None,
    }
    // None of these depends on who looks.
    object.source(0)
}

impl Readiness {
    /// Is nothing said of what could change?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Does anything depend on this?
    pub fn has(&self, source: Source) -> bool {
        self.sources.contains_key(&source)
    }

    /// Changes what is said of a description.
    fn change(&mut self, desc: u32, source: Option<Source>, change: impl FnOnce(&mut Wish)) {
        let wish = self.wishes.entry(desc).or_default();
        change(wish);
        let is_nothing = wish.is_nothing();
        let (before, after) = (wish.source, source.filter(|_| !is_nothing));
        wish.source = after;
        if before != after {
            if let Some(source) = before {
                self.leave(desc, source);
            }
            if let Some(source) = after {
                self.sources.entry(source).or_default().push(desc);
            }
        }
        if is_nothing {
            self.wishes.remove(&desc);
        }
    }

    fn leave(&mut self, desc: u32, source: Source) {
        let Some(all) = self.sources.get_mut(&source) else { return };
        all.retain(|other| *other != desc);
        if all.is_empty() {
            self.sources.remove(&source);
        }
    }

    /// Who is told; `users`: the real and effective one who says so.
    pub fn set_owner(
        &mut self,
        (desc, source): (u32, Option<Source>),
        owner: Option<Owner>,
        users: [u32; 2],
    ) {
        self.change(desc, source, |wish| wish.owner = owner.map(|owner| (owner, users)));
    }

    /// The same, if nobody is yet.
    pub fn offer_owner(
        &mut self,
        (desc, source): (u32, Option<Source>),
        owner: Owner,
        users: [u32; 2],
    ) {
        self.change(desc, source, |wish| {
            wish.owner.get_or_insert((owner, users));
        });
    }

    /// Which signal tells it.
    pub fn set_signal(&mut self, (desc, source): (u32, Option<Source>), signal: u32) {
        self.change(desc, source, |wish| wish.signal = signal);
    }

    /// It is on, for a descriptor, or off. `state`: what there is now.
    pub fn set_on(&mut self, (desc, source): (u32, Option<Source>), fd: Option<u32>, state: u16) {
        self.change(desc, source, |wish| (wish.fd, wish.state) = (fd, state));
    }

    /// Kind and id of who is told, as far as he is still there, and the signal.
    pub fn of(&self, procs: &Procs, desc: u32) -> unixproto::ops::Owner {
        let Some(wish) = self.wishes.get(&desc) else {
            return unixproto::ops::Owner { kind: F_OWNER_TID, id: 0, signal: 0 };
        };
        let (kind, id) = wish.owner.map_or((F_OWNER_TID, 0), |(owner, _)| owner.parts());
        let id = if Owner::parse(procs, kind, id).is_ok() { id } else { 0 };
        unixproto::ops::Owner { kind, id, signal: wish.signal }
    }

    /// Nobody has a description any more.
    pub fn forget(&mut self, desc: u32) {
        if let Some(source) = self.wishes.remove(&desc).and_then(|wish| wish.source) {
            self.leave(desc, source);
        }
    }

    /// A process that has ended has been waited for: who has its id later is somebody else.
    pub fn reaped(&mut self, pid: Pid) {
        for wish in self.wishes.values_mut() {
            let is_it = |&mut (owner, _): &mut (Owner, [u32; 2])| matches!(owner, Owner::Process(id) | Owner::Thread(id) if id == pid);
            // Dropped on purpose: nobody is told any more.
            let _ = wish.owner.take_if(is_it);
        }
    }

    /// Something has happened; `data`: data have come.
    pub fn note(&mut self, (source, data): (Source, bool), on: Sources, fx: &mut Effects) {
        let Some(descs) = self.sources.get(&source) else { return };
        for desc in descs {
            let Some(wish) = self.wishes.get_mut(desc) else { continue };
            let before = wish.state;
            // Where nothing is on, it is not looked at.
            let Some(fd) = wish.fd else { continue };
            wish.state = on.state(*desc, 0);
            let Some(reason) = reason(source, (before, wish.state), data) else { continue };
            let Some((owner, users)) = wish.owner else { continue };
            tell(on.procs, (owner, users), signal_of(wish.signal, reason, fd), fx);
        }
    }

    /// Something has happened to descriptions, in another way than that they are ready: a lease is broken, a directory has changed. With each comes
    /// what its owner calls it.
    ///
    /// Of all that happens at once a group is told once by each signal: else whoever has many descriptions, and many processes in
    /// a group, would have the server send as many signals as both together.
    pub fn message(&self, procs: &Procs, descs: &[(u32, u32)], fx: &mut Effects) {
        let mut groups = BTreeSet::new();
        for &(desc, fd) in descs {
            let Some(wish) = self.wishes.get(&desc) else { continue };
            let Some((owner, users)) = wish.owner else { continue };
            let is_new = match owner {
                Owner::Group(group) => groups.insert((group, wish.signal, users)),
                _ => true,
            };
            if is_new {
                tell(procs, (owner, users), signal_of(wish.signal, POLL_MSG, fd), fx);
            }
        }
    }

    /// Something urgent has come.
    pub fn urgent(&self, source: Source, on: Sources, fx: &mut Effects) {
        for desc in self.sources.get(&source).into_iter().flatten() {
            let Some(wish) = self.wishes.get(desc) else { continue };
            let Some((owner, users)) = wish.owner else { continue };
            tell(on.procs, (owner, users), (SIGURG, from_kernel()), fx);
            if let Some(fd) = wish.fd {
                tell(on.procs, (owner, users), signal_of(wish.signal, POLL_PRI, fd), fx);
            }
        }
    }
}

/// What is told of a change; `None`: nothing.
fn reason(source: Source, (before, after): (u16, u16), data: bool) -> Option<i32> {
    let came = after & !before;
    if let Source::Pipe(_) = source {
        // As Linux has it: of each piece that is written or read, and of an end that is closed.
        return match data {
            _ if after & POLLOUT != 0 && !data || came & POLLERR != 0 => Some(POLL_OUT),
            _ if after & POLLIN != 0 && data || came & POLLHUP != 0 => Some(POLL_IN),
            _ => None,
        };
    }
    let is_connected = before & POLLHUP != 0 && after & (POLLHUP | POLLOUT) == POLLOUT;
    // Of a local socket that the other end has gone is more than that it has not read everything.
    let is_local = matches!(source, Source::Socket(_));
    match () {
        () if is_local && came & POLLHUP != 0 => Some(POLL_HUP),
        () if came & POLLERR != 0 => Some(POLL_ERR),
        () if came & POLLHUP != 0 => Some(POLL_HUP),
        () if data && after & READABLE != 0 => Some(POLL_IN),
        () if came & POLLRDHUP != 0 => Some(POLL_IN),
        () if came & POLLOUT != 0 || is_connected => Some(POLL_OUT),
        () => None,
    }
}

/// The signal that tells something of a descriptor, with what comes with it.
fn signal_of(wanted: u32, reason: i32, fd: u32) -> (u32, SigInfo) {
    if wanted == 0 {
        return (SIGIO, from_kernel());
    }
    let band: u64 = match reason {
        POLL_IN => READABLE.into(),
        POLL_OUT => u64::from(POLLOUT | POLLWRNORM) | POLLWRBAND,
        POLL_MSG => u64::from(READABLE) | POLLMSG,
        POLL_ERR => POLLERR.into(),
        POLL_PRI => u64::from(POLLPRI) | POLLRDBAND,
        _ => (POLLHUP | POLLERR).into(),
    };
    let code = if has_codes(wanted) { SI_SIGIO } else { reason };
    // The band is where other signals have who has sent them.
    let (pid, uid) = (band as u32, (band >> 32) as u32);
    (wanted, SigInfo { code, pid, uid, status: 0, value: fd.into() })
}

/// Tells an owner, as far as whoever said so could have sent him that signal.
fn tell(
    procs: &Procs,
    (owner, [real, effective]): (Owner, [u32; 2]),
    (signal, info): (u32, SigInfo),
    fx: &mut Effects,
) {
    let may = |pid: Pid| {
        procs.live(pid).is_ok_and(|proc| {
            let users = &proc.who.users;
            let is_one = |user: u32| user == users.real || user == users.saved;
            effective == 0 || is_one(effective) || is_one(real)
        })
    };
    match owner {
        Owner::Thread(tid) if procs.is_thread(tid) && may(procs.leader(tid)) => {
            fx.post_to(Speaker { pid: procs.leader(tid), tid }, signal, info);
        }
        Owner::Process(pid) if may(pid) => fx.post(pid, signal, info),
        Owner::Group(group) => {
            let members = procs.members(group).map(|proc| proc.pid).filter(|&pid| may(pid));
            members.for_each(|pid| fx.post(pid, signal, info));
        }
        Owner::Thread(_) | Owner::Process(_) => {}
    }
}
