//! How credentials change.

use crate::{CapSet, Capability, Credentials, Forgone, Groups, Ids};
use unixproto::files::{KEEP_ID, S_ISGID, S_ISUID, S_IXGRP};
use unixproto::Errno;

/// Bits that say how capabilities follow from ids. The bit behind each locks it.
pub mod securebits {
    /// User id 0 gets no capabilities by `execve`.
    pub const NO_ROOT: u32 = 1;
    /// Capabilities stay when user ids change.
    pub const NO_FIXUP: u32 = 1 << 2;
    /// Permitted capabilities stay when no user id is 0 any more.
    pub const KEEP_CAPS: u32 = 1 << 4;
    /// Nothing becomes ambient.
    pub const NO_AMBIENT_RAISE: u32 = 1 << 6;
    /// All of them.
    pub const ALL: u32 = NO_ROOT | NO_FIXUP | KEEP_CAPS | NO_AMBIENT_RAISE;
    /// Their locks.
    pub const LOCKS: u32 = ALL << 1;
}

/// As whom the file of a program says that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetIds {
    /// The owner, by the set-user-id bit.
    pub user: Option<u32>,
    /// The group, by the set-group-id bit.
    pub group: Option<u32>,
}

impl SetIds {
    /// What the mode of a file says. Without the right to execute, the bit of the group means something else.
    pub fn of(mode: u32, user: u32, group: u32) -> SetIds {
        const AS_GROUP: u32 = S_ISGID | S_IXGRP;
        SetIds {
            user: (mode & S_ISUID != 0).then_some(user),
            group: (mode & AS_GROUP == AS_GROUP).then_some(group),
        }
    }
}

impl Credentials {
    /// Would a program that runs as these be somebody else than the process is?
    pub fn would_change(&self, ids: SetIds) -> bool {
        let other = |id: Option<u32>, own: u32| id.is_some_and(|id| id != own);
        !self.no_new_privileges
            && (other(ids.user, self.users.effective) || other(ids.group, self.groups.effective))
    }

    fn is_secure(&self, bit: u32) -> bool {
        self.securebits & bit != 0
    }

    /// `setresuid` and its relatives: sets real, effective and saved user id, where `KEEP_ID` leaves one.
    ///
    /// # Errors
    ///
    /// `EPERM`: one of them is none of the present three, and the process has not `CAP_SETUID`.
    pub fn set_users(&mut self, new: [u32; 3]) -> Result<(), Errno> {
        let old = self.users;
        self.users = changed(old, new, self.has_own(Capability::Setuid))?;
        if !self.is_secure(securebits::NO_FIXUP) {
            self.follow_users(old);
        }
        Ok(())
    }

    /// The same of group ids, with `CAP_SETGID`.
    ///
    /// # Errors
    ///
    /// `EPERM`, as of [`set_users`](Self::set_users).
    pub fn set_groups(&mut self, new: [u32; 3]) -> Result<(), Errno> {
        self.groups = changed(self.groups, new, self.has_own(Capability::Setgid))?;
        Ok(())
    }

    /// `setgroups`.
    ///
    /// # Errors
    ///
    /// `EPERM`: without `CAP_SETGID`.
    pub fn set_others(&mut self, groups: Groups) -> Result<(), Errno> {
        if !self.has_own(Capability::Setgid) {
            return Err(Errno::EPERM);
        }
        self.others = groups;
        Ok(())
    }

    /// Capabilities after a change of user ids.
    fn follow_users(&mut self, old: Ids) {
        // Where nobody is the administrator nobody stops being it.
        let Some(root) = self.root_id() else { return };
        if old.has(root) && !self.users.has(root) {
            if !self.is_secure(securebits::KEEP_CAPS) {
                (self.permitted, self.effective) = (CapSet::NONE, CapSet::NONE);
            }
            self.ambient = CapSet::NONE;
        }
        match (old.effective == root, self.users.effective == root) {
            (true, false) => self.effective = CapSet::NONE,
            (false, true) => self.effective = self.permitted,
            _ => {}
        }
    }

    /// `setfsuid`: answers the id before, whatever came of it.
    pub fn set_file_user(&mut self, id: u32) -> u32 {
        let before = self.users.file;
        if may_set_file(self.users, id, self.has_own(Capability::Setuid)) {
            self.users.file = id;
            if let (Some(root), false) = (self.root_id(), self.is_secure(securebits::NO_FIXUP)) {
                match (before == root, id == root) {
                    (true, false) => self.effective = self.effective.without(CapSet::FILES),
                    (false, true) => {
                        self.effective = self.effective.or(self.permitted.and(CapSet::FILES));
                    }
                    _ => {}
                }
            }
        }
        before
    }

    /// `setfsgid`: answers the id before, whatever came of it.
    pub fn set_file_group(&mut self, id: u32) -> u32 {
        let before = self.groups.file;
        if may_set_file(self.groups, id, self.has_own(Capability::Setgid)) {
            self.groups.file = id;
        }
        before
    }

    /// `capset`.
    ///
    /// # Errors
    ///
    /// `EPERM`: something would be gained.
    pub fn set_caps(
        &mut self,
        effective: CapSet,
        permitted: CapSet,
        inheritable: CapSet,
    ) -> Result<(), Errno> {
        let own = self.inheritable.or(self.permitted);
        let free = self.has_own(Capability::Setpcap);
        let allowed = (free || inheritable.is_within(own))
            && inheritable.is_within(self.inheritable.or(self.bounding))
            && permitted.is_within(self.permitted)
            && effective.is_within(permitted);
        if !allowed {
            return Err(Errno::EPERM);
        }
        (self.effective, self.permitted, self.inheritable) = (effective, permitted, inheritable);
        self.ambient = self.ambient.and(permitted).and(inheritable);
        Ok(())
    }

    /// `PR_CAPBSET_DROP`.
    ///
    /// # Errors
    ///
    /// `EPERM` without `CAP_SETPCAP`; `EINVAL`: no such capability.
    pub fn drop_bounding(&mut self, number: u32) -> Result<(), Errno> {
        if !self.has_own(Capability::Setpcap) {
            return Err(Errno::EPERM);
        }
        let one = CapSet::of_number(number).ok_or(Errno::EINVAL)?;
        self.bounding = self.bounding.without(one);
        Ok(())
    }

    /// `PR_CAP_AMBIENT_RAISE` and `PR_CAP_AMBIENT_LOWER`.
    ///
    /// # Errors
    ///
    /// `EINVAL`: no such capability; `EPERM`: it is not both permitted and inheritable.
    pub fn set_ambient(&mut self, number: u32, raise: bool) -> Result<(), Errno> {
        let one = CapSet::of_number(number).ok_or(Errno::EINVAL)?;
        if !raise {
            self.ambient = self.ambient.without(one);
            return Ok(());
        }
        let has = one.is_within(self.permitted.and(self.inheritable));
        if !has || self.is_secure(securebits::NO_AMBIENT_RAISE) {
            return Err(Errno::EPERM);
        }
        self.ambient = self.ambient.or(one);
        Ok(())
    }

    /// `PR_SET_SECUREBITS`.
    ///
    /// # Errors
    ///
    /// `EPERM`: one that is locked would change, a lock would go, a bit is unknown, or the process has
    /// not `CAP_SETPCAP`.
    pub fn set_securebits(&mut self, new: u32) -> Result<(), Errno> {
        use securebits::{ALL, LOCKS};
        let locked = (self.securebits & LOCKS) >> 1;
        let refused = locked & (self.securebits ^ new) != 0
            || self.securebits & LOCKS & !new != 0
            || new & !(ALL | LOCKS) != 0
            || !self.has_own(Capability::Setpcap);
        if refused {
            return Err(Errno::EPERM);
        }
        self.securebits = new;
        Ok(())
    }

    /// `PR_SET_KEEPCAPS`.
    ///
    /// # Errors
    ///
    /// `EPERM`: that is locked.
    pub fn keep_caps(&mut self, keep: bool) -> Result<(), Errno> {
        use securebits::KEEP_CAPS;
        if self.is_secure(KEEP_CAPS << 1) {
            return Err(Errno::EPERM);
        }
        self.securebits = self.securebits & !KEEP_CAPS | if keep { KEEP_CAPS } else { 0 };
        Ok(())
    }

    /// Gives something up. `EACCES`: a program that it executes could get rights, and would do with them what it does not expect.
    pub fn forgo(&mut self, more: Forgone) -> Result<(), Errno> {
        // Who gives up everything executes nothing.
        let all = more.kinds == unixproto::forgo::ALL;
        if !all && !self.no_new_privileges && !self.has_own(Capability::SysAdmin) {
            return Err(Errno::EACCES);
        }
        let Forgone { kinds, mode, filters } = self.forgone;
        self.forgone = Forgone {
            kinds: kinds | more.kinds,
            mode: mode.max(more.mode),
            filters: filters.max(more.filters),
        };
        Ok(())
    }

    /// `execve` of a program whose file has no set-id bits.
    pub fn exec(&mut self) -> bool {
        self.exec_as(SetIds::default(), false)
    }

    /// `execve` of a program that runs as somebody else. `is_watched`: somebody traces the process who may not trace
    /// everybody, so it gets no more than it has. Returns whether the program must not trust what it is given
    /// (`AT_SECURE`).
    pub fn exec_as(&mut self, ids: SetIds, is_watched: bool) -> bool {
        let old = self.clone();
        if !self.no_new_privileges {
            self.users.effective = ids.user.unwrap_or(self.users.effective);
            self.groups.effective = ids.group.unwrap_or(self.groups.effective);
        }
        let differs =
            self.users.effective != old.users.real || self.groups.effective != old.groups.real;
        if differs {
            self.ambient = CapSet::NONE;
        }
        let root = self.root_id().filter(|_| !self.is_secure(securebits::NO_ROOT));
        let raised = root == Some(self.users.effective);
        let given = raised || root == Some(self.users.real);
        self.permitted = if given { self.bounding.or(self.inheritable) } else { CapSet::NONE };
        let gains = differs || !self.permitted.is_within(old.permitted);
        if gains && (self.no_new_privileges || is_watched) {
            if self.no_new_privileges || !old.has_own(Capability::Setuid) {
                self.users.effective = self.users.real;
                self.groups.effective = self.groups.real;
            }
            self.permitted = self.permitted.and(old.permitted);
        }
        self.permitted = self.permitted.or(self.ambient);
        self.effective = if raised { self.permitted } else { self.ambient };
        for ids in [&mut self.users, &mut self.groups] {
            (ids.saved, ids.file) = (ids.effective, ids.effective);
        }
        self.securebits &= !securebits::KEEP_CAPS;
        let grew = raised || !self.permitted.is_within(self.ambient);
        differs || self.root_id() != Some(self.users.real) && grew
    }

    /// As who asks with `access` what it may do: by its real ids.
    pub fn as_real(&self) -> Credentials {
        let mut it = self.clone();
        (it.users.file, it.groups.file) = (it.users.real, it.groups.real);
        if !self.is_secure(securebits::NO_FIXUP) {
            let root = self.root_id() == Some(it.users.real);
            it.effective = if root { it.permitted } else { CapSet::NONE };
        }
        it
    }

    /// Are the effective ids the real ones?
    pub fn acts_as_itself(&self) -> bool {
        self.users.effective == self.users.real && self.groups.effective == self.groups.real
    }

    /// Was something gained, or are the ids others, so that the process's memory is no longer for those
    /// to see who could see it before?
    pub fn hides_from(&self, before: &Credentials) -> bool {
        let who =
            |c: &Credentials| [c.users.effective, c.users.file, c.groups.effective, c.groups.file];
        who(self) != who(before) || !self.permitted.is_within(before.permitted)
    }
}

fn changed(old: Ids, new: [u32; 3], privileged: bool) -> Result<Ids, Errno> {
    if !privileged && !new.into_iter().all(|id| id == KEEP_ID || old.has(id)) {
        return Err(Errno::EPERM);
    }
    let [real, effective, saved] = [0, 1, 2].map(|at: usize| match new[at] {
        KEEP_ID => old.triple()[at],
        id => id,
    });
    Ok(Ids { real, effective, saved, file: effective })
}

fn may_set_file(ids: Ids, id: u32, privileged: bool) -> bool {
    id != KEEP_ID && (privileged || ids.has(id) || ids.file == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: u32 = 1000;

    fn user() -> Credentials {
        let mut it = Credentials::ROOT;
        it.set_users([USER; 3]).expect("root may");
        it
    }

    fn set(capability: Capability) -> CapSet {
        CapSet::new(1 << capability as u64)
    }

    #[test]
    fn capabilities_follow_user_ids() {
        let mut it = Credentials::ROOT;
        assert_eq!(it.set_users([KEEP_ID, USER, KEEP_ID]), Ok(()));
        assert_eq!((it.effective, it.permitted), (CapSet::NONE, CapSet::ALL));
        assert_eq!(it.users.file, USER);
        assert_eq!(it.set_users([KEEP_ID, 0, KEEP_ID]), Ok(()));
        assert_eq!(it.effective, CapSet::ALL);
        assert_eq!(user().permitted, CapSet::NONE);
        assert_eq!(user().set_users([KEEP_ID, 0, KEEP_ID]), Err(Errno::EPERM));
    }

    #[test]
    fn kept_capabilities_are_permitted_only() {
        let mut it = Credentials::ROOT;
        assert_eq!(it.keep_caps(true), Ok(()));
        assert_eq!(it.set_users([USER; 3]), Ok(()));
        assert_eq!((it.effective, it.permitted), (CapSet::NONE, CapSet::ALL));
        it.exec();
        assert_eq!(it.permitted, CapSet::NONE);
    }

    #[test]
    fn ids_for_files_take_capabilities_for_files() {
        let mut it = Credentials::ROOT;
        assert_eq!(it.set_file_user(USER), 0);
        assert!(!it.has(Capability::DacOverride) && it.has(Capability::Kill));
        assert_eq!(it.set_file_user(0), USER);
        assert_eq!(it.effective, CapSet::ALL);
        let mut it = user();
        assert_eq!(it.set_file_user(0), USER);
        assert_eq!(it.users.file, USER);
    }

    #[test]
    fn nothing_is_gained_by_capset() {
        let mut it = user();
        let kill = set(Capability::Kill);
        assert_eq!(it.set_caps(kill, kill, CapSet::NONE), Err(Errno::EPERM));
        let mut it = Credentials::ROOT;
        assert_eq!(it.set_caps(CapSet::NONE, kill, CapSet::NONE), Ok(()));
        assert_eq!(it.set_caps(kill, kill, CapSet::NONE), Ok(()));
        assert_eq!(it.set_caps(kill, CapSet::ALL, CapSet::NONE), Err(Errno::EPERM));
        // The administrator gets them back by a program, as far as they are not bounded.
        it.exec();
        assert_eq!(it.effective, CapSet::ALL);
        assert_eq!(it.drop_bounding(Capability::Kill as u32), Ok(()));
        it.exec();
        assert_eq!(it.effective, CapSet::ALL.without(kill));
    }

    #[test]
    fn ambient_capabilities_pass_through_programs() {
        let mut it = Credentials::ROOT;
        let kill = set(Capability::Kill);
        assert_eq!(it.set_ambient(Capability::Kill as u32, true), Err(Errno::EPERM));
        assert_eq!(it.set_caps(CapSet::ALL, CapSet::ALL, kill), Ok(()));
        assert_eq!(it.keep_caps(true), Ok(()));
        assert_eq!(it.set_users([USER; 3]), Ok(()));
        assert_eq!(it.set_ambient(Capability::Kill as u32, true), Ok(()));
        it.exec();
        assert_eq!((it.effective, it.permitted), (kill, kill));
        assert_eq!(it.set_caps(CapSet::NONE, CapSet::NONE, kill), Ok(()));
        assert_eq!(it.ambient, CapSet::NONE);
    }

    #[test]
    fn locks_of_securebits_hold() {
        let mut it = Credentials::ROOT;
        let locked = securebits::NO_ROOT | securebits::NO_ROOT << 1;
        assert_eq!(it.set_securebits(locked), Ok(()));
        assert_eq!(it.set_securebits(0), Err(Errno::EPERM));
        it.exec();
        assert_eq!(it.effective, CapSet::NONE);
    }

    #[test]
    fn programs_forget_what_was_saved() {
        let mut it = Credentials::ROOT;
        assert_eq!(it.set_users([USER, USER, 0]), Ok(()));
        it.exec();
        assert!(it.users.are(USER));
    }

    #[test]
    fn programs_run_as_their_owner() {
        let ids = SetIds::of(0o6755, 0, 7);
        let mut it = user();
        assert!(it.would_change(ids) && !it.would_change(SetIds::of(0o6644, USER, 7)));
        assert!(it.exec_as(ids, false));
        assert_eq!(it.users, Ids { real: USER, effective: 0, saved: 0, file: 0 });
        assert_eq!((it.groups.real, it.groups.effective, it.groups.saved), (0, 7, 7));
        assert_eq!(it.effective, CapSet::ALL);
        // A user's program gives the administrator's capabilities up only as far as ids say.
        let mut it = Credentials::ROOT;
        assert!(it.exec_as(SetIds::of(0o4755, USER, 0), false));
        assert_eq!((it.effective, it.permitted), (CapSet::NONE, CapSet::ALL));
    }

    #[test]
    fn nothing_is_gained_by_who_is_watched() {
        let ids = SetIds::of(0o4755, 0, 0);
        let mut it = user();
        assert!(it.exec_as(ids, true));
        assert!(it.users.are(USER) && it.permitted == CapSet::NONE);
        let mut it = user();
        it.no_new_privileges = true;
        assert!(!it.would_change(ids));
        assert!(!it.exec_as(ids, false));
        assert!(it.users.are(USER) && it.effective == CapSet::NONE);
    }
}
