//! Who processes are: ids and (POSIX) capabilities, and what they may do to each other.

use crate::procs::{Pid, Procs, INIT};
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Tried};
use alloc::vec::Vec;
use credentials::{CapSet, Capability, Credentials, Forgone, Groups};
use unixproto::ops::PosixCaps;
use unixproto::session::DATA_BYTES;
use unixproto::{forgo, op, privilege, Any, Errno};

impl Procs {
    /// Changes who a process is.
    fn change_who<R>(
        &mut self,
        pid: Pid,
        how: impl FnOnce(&mut Credentials) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let proc = self.get_mut(pid)?;
        let before = proc.who.clone();
        let result = how(&mut proc.who)?;
        if proc.who.hides_from(&before) {
            proc.dumpable = false;
        }
        self.recount(pid, before.users.real);
        self.hide_attributes(pid);
        self.publish(pid);
        Ok(result)
    }

    /// `setresuid` and its relatives.
    pub fn set_ids(&mut self, pid: Pid, op: op::SetIds) -> Tried {
        let mut new = [op.real, op.effective, op.saved];
        for id in &mut new {
            *id = self.get(pid)?.who.global(op.groups, *id)?;
        }
        self.change_who(pid, |who| match op.groups {
            false => who.set_users(new),
            true => who.set_groups(new),
        })?;
        done(())
    }

    /// Some of the ids of `setgroups`. With the last ones, all of them count.
    pub fn set_groups(&mut self, caller: Speaker, call: &Call, op: op::SetGroups) -> Tried {
        let bytes = self.a(caller, call)?;
        let proc = self.get_mut(caller.pid)?;
        let (all, from) = (op.count as usize, op.from as usize);
        if all > Groups::MOST {
            return Err(Errno::EINVAL);
        }
        let is_denied = proc
            .who
            .space
            .as_ref()
            .is_some_and(|space| space.denies_groups() || space.lines(true).is_empty());
        if !proc.who.has_own(Capability::Setgid) || is_denied {
            return Err(Errno::EPERM);
        }
        let mut ids = core::mem::take(&mut proc.coming_groups);
        let (more, rest) = bytes.as_chunks();
        ids.truncate(from);
        if ids.len() != from || !rest.is_empty() || more.len() > all - from.min(all) {
            return Err(Errno::EINVAL);
        }
        ids.try_reserve_exact(more.len()).map_err(|_| Errno::ENOMEM)?;
        ids.extend(more.iter().map(|id| u32::from_le_bytes(*id)));
        if ids.len() == all {
            for id in &mut ids {
                *id = proc.who.global(true, *id)?;
            }
        }
        match ids.len() == all {
            true => self.change_who(caller.pid, |who| who.set_others(Groups::new(ids)))?,
            false => proc.coming_groups = ids,
        }
        done(())
    }

    /// `getgroups`.
    pub fn get_groups(&mut self, caller: Speaker, from: u32) -> Tried {
        const MOST: usize = DATA_BYTES / 4;
        let who = &self.get(caller.pid)?.who;
        let ids = who.others.ids();
        let part = ids.get(from as usize..).unwrap_or_default();
        let bytes: Vec<u8> =
            part.iter().take(MOST).flat_map(|id| who.shown(true, *id).to_le_bytes()).collect();
        self.put(caller, &bytes)?;
        count(ids.len())
    }

    /// `setfsuid`, `setfsgid`.
    pub fn set_file_id(&mut self, pid: Pid, op: op::SetFileId) -> Tried {
        let before = self.change_who(pid, |who| {
            // What means nobody changes nothing.
            let id = who.global(op.groups, op.id).unwrap_or(u32::MAX);
            let before = match op.groups {
                false => who.set_file_user(id),
                true => who.set_file_group(id),
            };
            Ok(who.shown(op.groups, before))
        })?;
        count(before as usize)
    }

    /// `capget`.
    pub fn get_caps(&mut self, pid: Pid, of: u32) -> Tried {
        let who = match of {
            0 => &self.get(pid)?.who,
            INIT => {
                let all = CapSet::ALL.bits();
                return done(PosixCaps { effective: all, permitted: all, inheritable: 0 });
            }
            tid => &self.get(self.leader(tid))?.who,
        };
        done(PosixCaps {
            effective: who.effective.bits(),
            permitted: who.permitted.bits(),
            inheritable: who.inheritable.bits(),
        })
    }

    /// `capset`.
    pub fn set_caps(&mut self, pid: Pid, op: op::SetCaps) -> Tried {
        let [effective, permitted, inheritable] =
            [op.effective, op.permitted, op.inheritable].map(CapSet::new);
        self.change_who(pid, |who| who.set_caps(effective, permitted, inheritable))?;
        done(())
    }

    /// What `prctl` has about privileges.
    pub fn privilege(&mut self, pid: Pid, op: op::Privilege) -> Tried {
        use credentials::securebits::KEEP_CAPS;
        use privilege::*;
        let proc = self.get_mut(pid)?;
        let who = &proc.who;
        let flag = match op.first {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Errno::EINVAL),
        };
        match op.option {
            GET_DUMPABLE => return count(proc.dumpable as usize),
            SET_DUMPABLE => proc.dumpable = flag?,
            GET_CHILD_SUBREAPER => return count(proc.reaps as usize),
            SET_CHILD_SUBREAPER => proc.reaps = op.first != 0,
            GET_KEEPCAPS => return count((who.securebits & KEEP_CAPS != 0) as usize),
            GET_SECUREBITS => return count(who.securebits as usize),
            GET_NO_NEW_PRIVS => return count(who.no_new_privileges as usize),
            SET_NO_NEW_PRIVS if op.first == 1 => proc.who.no_new_privileges = true,
            CAPBSET_READ => return is_in(op.first, who.bounding),
            SET_KEEPCAPS => {
                let keep = flag?;
                self.change_who(pid, |who| who.keep_caps(keep))?;
            }
            CAPBSET_DROP => self.change_who(pid, |who| who.drop_bounding(op.first))?,
            SET_SECUREBITS => self.change_who(pid, |who| who.set_securebits(op.first))?,
            CAP_AMBIENT => return self.ambient(pid, op.first, op.second),
            _ => return Err(Errno::EINVAL),
        }
        count(0)
    }

    /// Gives up kinds of requests.
    pub fn forgo(&mut self, pid: Pid, op: op::Forgo) -> Tried {
        let op::Forgo { kinds, mode, filters } = op;
        if kinds & !forgo::ALL != 0 || mode > 2 {
            return Err(Errno::EINVAL);
        }
        self.change_who(pid, |who| who.forgo(Forgone { kinds, mode, filters }))?;
        done(())
    }

    /// Has a process given up what it asks for?
    pub fn has_forgone(&self, pid: Pid, request: &Any) -> bool {
        self.get(pid).is_ok_and(|proc| proc.who.forgone.kinds & forgo::kind(request) != 0)
    }

    fn ambient(&mut self, pid: Pid, what: u32, number: u32) -> Tried {
        use privilege::*;
        match what {
            AMBIENT_CLEAR_ALL => self.get_mut(pid)?.who.ambient = CapSet::NONE,
            AMBIENT_IS_SET => return is_in(number, self.get(pid)?.who.ambient),
            AMBIENT_RAISE | AMBIENT_LOWER => {
                self.change_who(pid, |who| who.set_ambient(number, what == AMBIENT_RAISE))?;
            }
            _ => return Err(Errno::EINVAL),
        }
        count(0)
    }
}

fn is_in(number: u32, set: CapSet) -> Tried {
    let one = CapSet::of_number(number).ok_or(Errno::EINVAL)?;
    count(one.is_within(set) as usize)
}
