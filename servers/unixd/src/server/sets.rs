//! Sets of `epoll` that processes share.
//!
//! As long as one process alone has a set its library keeps it. Before the process forks, the library has
//! a set made here with the same members, and both ask for it from then on. A member is a description (or
//! two, of a socket pair), and leaves when nobody holds that any more.
//!
//! What changes with a member is noted with the set at once, so that a wait looks only at members that may
//! have something to report ([`interest`]).

use super::Unixd;
use crate::descs::{Desc, Object};
use crate::effects::Effects;
use crate::procs::Pid;
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried, Waiters};
use crate::watches::{sources, Source, Sources};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use interest::{Member, Set};
use piecewise::Table;
use unixproto::files::*;
use unixproto::session::DATA_BYTES;
use unixproto::{op, Errno};

/// Memberships in all sets that may depend on one pipe, or the like.
const MEMBERSHIPS_MAX: usize = 256;
/// Members that a set may have.
const MEMBERS_MAX: usize = 4096;
/// Bytes of a report in the data area: `struct epoll_event`.
const REPORT_BYTES: usize = 12;
/// Bytes of a request to change a set.
const CHANGE_BYTES: usize = 16;
/// Sets may be members of sets, this deep.
pub const NESTS: u32 = 5;
const READABLE: u16 = POLLIN | POLLRDNORM;
const WRITABLE: u16 = POLLOUT | POLLWRNORM;

/// A set.
#[derive(Default)]
struct Shared {
    set: Set,
    /// Where each member is among the memberships.
    places: BTreeMap<u32, [Option<Source>; 2]>,
    waiters: Waiters,
}

/// A description as a member of a set.
#[derive(Clone, Copy)]
struct Membership {
    set: u32,
    number: u32,
    /// The description.
    desc: u32,
    /// It is the first one of a pair, the one to read from.
    is_first: bool,
    /// `POLL*` bits that the set was told of.
    state: u16,
}

impl Membership {
    /// What of the state of its description is the member's.
    fn shown(&self, state: u16) -> u16 {
        match self.is_first {
            true => state & !WRITABLE,
            false => state,
        }
    }
}

/// All of them.
#[derive(Default)]
pub struct Sets {
    table: Table<Shared>,
    /// Which members depend on what can change.
    members: BTreeMap<Source, Vec<Membership>>,
    /// The second description of members that are a pair, by the first.
    pairs: BTreeMap<u32, u32>,
    /// Descriptions of signals that are members, each with the processes for whose signals they are.
    signals: BTreeSet<(u32, Pid)>,
}

/// The set that a description refers to. `EINVAL`: it is something else.
fn number(desc: &Desc) -> Result<u32, Errno> {
    match desc.object {
        Object::Set(number) => Ok(number),
        _ => Err(Errno::EINVAL),
    }
}

impl Sets {
    /// Returns `true` if no set has any members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Descriptors that are members of one, what they wait for, and what the program wants to be told.
    pub fn members(&self, number: u32) -> impl Iterator<Item = (i32, u32, u64)> + '_ {
        let set = self.table.get(number as usize).into_iter();
        let all = set.flat_map(|shared| shared.set.members());
        all.map(|(_, member)| (member.fd, member.events, member.data))
    }

    /// Makes a set without members. Returns its number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: there is no memory.
    pub fn make(&mut self) -> Result<u32, Errno> {
        let made = self.table.insert(Shared::default());
        made.map(|index| index as u32).map_err(|_| Errno::ENOMEM)
    }

    /// Nobody has a set any more.
    pub fn remove(&mut self, number: u32) {
        let Some(shared) = self.table.remove(number as usize) else { return };
        for (member, sources) in shared.places {
            self.leave(number, member, sources);
        }
    }

    /// Does anything depend on this?
    pub fn has(&self, source: Source) -> bool {
        self.members.contains_key(&source)
    }

    /// Nobody holds a description any more: no set has it.
    pub fn forget(&mut self, desc: u32, source: Source) {
        let of_signals = self.signals.range((desc, 0)..=(desc, Pid::MAX));
        let others = of_signals.map(|&(_, pid)| Source::Signals(pid));
        let sources = core::iter::once(source).chain(others.filter(|other| *other != source));
        let members = sources.filter_map(|source| self.members.get(&source)).flatten();
        let of_it = members.filter(|member| member.desc == desc);
        let of_it: Vec<(u32, u32)> = of_it.map(|member| (member.set, member.number)).collect();
        for (set, number) in of_it {
            self.drop_member(set, number);
        }
        self.pairs.remove(&desc);
    }

    fn drop_member(&mut self, set: u32, number: u32) {
        let Ok(shared) = self.get_mut(set) else { return };
        shared.set.remove(number);
        let sources = shared.places.remove(&number).unwrap_or_default();
        self.leave(set, number, sources);
    }

    fn leave(&mut self, set: u32, number: u32, sources: [Option<Source>; 2]) {
        for source in sources.into_iter().flatten() {
            let Some(members) = self.members.get_mut(&source) else { continue };
            let is_it = |member: &Membership| (member.set, member.number) == (set, number);
            let Some(at) = members.iter().position(is_it) else { continue };
            let Membership { desc, .. } = members.remove(at);
            if let Source::Signals(pid) = source {
                if !members.iter().any(|member| member.desc == desc) {
                    self.signals.remove(&(desc, pid));
                }
            }
            if members.is_empty() {
                self.members.remove(&source);
            }
        }
    }

    fn get(&self, number: u32) -> Result<&Shared, Errno> {
        self.table.get(number as usize).ok_or(Errno::EBADF)
    }

    /// The description of a member of the set that a description refers to: the `nth` that was added by a descriptor.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it refers to something else. `ENOENT`: there is no such member.
    pub fn member(&self, desc: &Desc, fd: i32, nth: usize) -> Result<u32, Errno> {
        let members = self.get(number(desc)?)?.set.members();
        let mut of_it = members.filter(|(_, member)| member.fd == fd);
        of_it.nth(nth).map(|(_, member)| member.file).ok_or(Errno::ENOENT)
    }

    fn get_mut(&mut self, number: u32) -> Result<&mut Shared, Errno> {
        self.table.get_mut(number as usize).ok_or(Errno::EBADF)
    }

    /// `POLL*` bits. Sets that are members of sets are looked at `nests` deep.
    pub fn ready(&self, number: u32, on: &Sources, nests: u32) -> u16 {
        let Ok(shared) = self.get(number) else { return POLLERR };
        let reports = |(_, member): (u32, &Member)| {
            nests > 0 && member.report(self.state(member.file, on, nests - 1)) != 0
        };
        match shared.set.listed().any(reports) {
            true => READABLE,
            false => 0,
        }
    }

    /// What is ready of a member.
    fn state(&self, file: u32, on: &Sources, nests: u32) -> u16 {
        match self.pairs.get(&file) {
            Some(&second) => on.state(file, nests) & !WRITABLE | on.state(second, nests),
            None => on.state(file, nests),
        }
    }

    /// Is a set among the members of another one, or are those too deep?
    fn would_loop(&self, set: u32, below: u32, on: &Sources, nests: u32) -> bool {
        let Ok(shared) = self.get(below) else { return false };
        set == below
            || nests == 0
            || shared.set.members().any(|(_, member)| match on.descs.get(member.file) {
                Ok(Desc { object: Object::Set(deeper), .. }) => {
                    self.would_loop(set, *deeper, on, nests - 1)
                }
                _ => false,
            })
    }

    /// A thread waits for something to happen to a set.
    pub fn wait(&mut self, number: u32, tid: Tid) {
        if let Ok(shared) = self.get_mut(number) {
            shared.waiters.add(tid);
        }
    }

    /// Something may be ready in a set.
    fn changed(&mut self, number: u32, fx: &mut Effects) {
        if let Ok(shared) = self.get_mut(number) {
            shared.waiters.drain().for_each(|tid| fx.wake(tid));
            fx.changed(Source::Set(number), true);
        }
    }

    /// Adds a member, whose descriptions are in these states.
    fn enter(
        &mut self,
        set: u32,
        member: Member,
        descriptions: [Option<(u32, Source, u16)>; 2],
    ) -> Result<(), Errno> {
        let is_full = |sources: &BTreeMap<Source, Vec<Membership>>, source| {
            sources.get(&source).is_some_and(|members| members.len() >= MEMBERSHIPS_MAX)
        };
        if descriptions.iter().flatten().any(|(_, source, _)| is_full(&self.members, *source)) {
            return Err(Errno::ENOSPC);
        }
        let shared = self.get_mut(set)?;
        if shared.places.len() >= MEMBERS_MAX {
            return Err(Errno::ENOSPC);
        }
        let number = shared.set.take_over(member, member.file)?;
        shared.places.insert(number, descriptions.map(|one| one.map(|(_, source, _)| source)));
        let is_pair = descriptions[1].is_some();
        for (which, (desc, source, state)) in descriptions.into_iter().flatten().enumerate() {
            let is_first = is_pair && which == 0;
            let membership = Membership { set, number, desc, is_first, state };
            self.members.entry(source).or_default().push(membership);
            if let Source::Signals(pid) = source {
                self.signals.insert((desc, pid));
            }
        }
        if let Some((second, ..)) = descriptions[1] {
            self.pairs.insert(member.file, second);
        }
        Ok(())
    }
}

impl Unixd {
    /// Changes a set.
    pub(super) fn set_control(&mut self, call: &Call, op: op::SetControl) -> Tried {
        let pid = self.caller.pid;
        let a = self.procs.a(self.caller, call)?;
        let a: &[u8; CHANGE_BYTES] = a.first_chunk().ok_or(Errno::EINVAL)?;
        let [e0, e1, e2, e3, _, _, _, _, d0, d1, d2, d3, d4, d5, d6, d7] = *a;
        let events = u32::from_le_bytes([e0, e1, e2, e3]);
        let data = u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]);
        let set = number(self.descs.of(pid, op.set)?)?;
        match op.how {
            set_control::DELETE => {
                let number = self.sets.get(set)?.set.find(op.fd, op.member)?;
                self.sets.drop_member(set, number);
                return done(());
            }
            set_control::MODIFY => {
                self.sets.get_mut(set)?.set.modify(op.fd, op.member, events, data)?;
            }
            set_control::ADD | set_control::KEEP | set_control::KEEP_QUIET => {
                let listed = op.how != set_control::KEEP_QUIET;
                let events = match op.how {
                    set_control::ADD => events | interest::ALWAYS,
                    _ => events,
                };
                let member = Member { fd: op.fd, file: op.member, events, data, listed };
                let descriptions = self.members_to_be(set, [op.member, op.second])?;
                self.sets.enter(set, member, descriptions)?;
                self.fx.set_watched(true);
            }
            _ => return Err(Errno::EINVAL),
        }
        self.sets.changed(set, &mut self.fx);
        done(())
    }

    /// Descriptions that are to be members of a set: what they depend on, and what is ready of them.
    #[allow(clippy::type_complexity)]
    fn members_to_be(
        &self,
        set: u32,
        descriptions: [u32; 2],
    ) -> Result<[Option<(u32, Source, u16)>; 2], Errno> {
        let on = sources!(self, None);
        let mut found = [None; 2];
        for (desc, found) in descriptions.into_iter().zip(&mut found).filter(|(desc, _)| *desc != 0)
        {
            let object = &self.descs.of(self.caller.pid, desc)?.object;
            match object {
                Object::Set(below) if *below == set => return Err(Errno::EINVAL),
                Object::Set(below) if self.sets.would_loop(set, *below, &on, NESTS - 1) => {
                    return Err(Errno::ELOOP)
                }
                _ => {}
            }
            let source = object.source(self.caller.pid).ok_or(Errno::EPERM)?;
            *found = Some((desc, source, on.state(desc, NESTS)));
        }
        Ok(found)
    }

    /// Waits until members of a set have something to report.
    pub(super) fn set_wait(&mut self, call: &Call, op: op::SetWait) -> Tried {
        let set = number(self.descs.of(self.caller.pid, op.set)?)?;
        let max = (op.max as usize).min(DATA_BYTES / REPORT_BYTES);
        let on = sources!(self, Some(self.caller.tid));
        let (mut looked, mut told, mut reports) = (0, Vec::new(), Vec::new());
        for (number, member) in self.sets.get(set)?.set.listed() {
            if told.len() == max {
                break;
            }
            looked += 1;
            let report = member.report(self.sets.state(member.file, &on, NESTS));
            if report != 0 {
                told.push(number);
                reports.extend_from_slice(&report.to_le_bytes());
                reports.extend_from_slice(&member.data.to_le_bytes());
            }
        }
        let count_told = told.len();
        self.sets.get_mut(set)?.set.looked(looked, told.into_iter(), false);
        if count_told == 0 && op.ns != 0 && !call.late {
            self.sets.wait(set, self.caller.tid);
            return Ok(Outcome::Block(self.clock.deadline(op.ns)));
        }
        self.procs.put(self.caller, &reports)?;
        count(count_told)
    }

    /// Something has happened to what members of sets depend on; `data`: data have come.
    pub(super) fn tell_sets(&mut self, source: Source, data: bool) {
        let Some(mut members) = self.sets.members.remove(&source) else { return };
        let mut told = Vec::new();
        for member in &mut members {
            let state = sources!(self, None).state(member.desc, NESTS);
            let came = state & !member.state | if data { state & READABLE } else { 0 };
            member.state = state;
            let came = member.shown(came);
            let Ok(shared) = self.sets.get_mut(member.set) else { continue };
            if came != 0 && shared.set.came(member.number, came) {
                told.push(member.set);
            }
        }
        self.sets.members.insert(source, members);
        for set in told {
            self.sets.changed(set, &mut self.fx);
        }
    }
}
