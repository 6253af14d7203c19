//! How credentials change.

use crate::{CapSet, Capability, Credentials, Ids};
use unixproto::files::KEEP_ID;
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

impl Credentials {
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
        self.users = changed(old, new, self.has(Capability::Setuid))?;
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
        self.groups = changed(self.groups, new, self.has(Capability::Setgid))?;
        Ok(())
    }

    /// Capabilities after a change of user ids.
    fn follow_users(&mut self, old: Ids) {
        if old.has(0) && !self.users.has(0) {
            if !self.is_secure(securebits::KEEP_CAPS) {
                (self.permitted, self.effective) = (CapSet::NONE, CapSet::NONE);
            }
            self.ambient = CapSet::NONE;
        }
        match (old.effective, self.users.effective) {
            (0, 1..) => self.effective = CapSet::NONE,
            (1.., 0) => self.effective = self.permitted,
            _ => {}
        }
    }

    /// `setfsuid`: answers the id before, whatever came of it.
    pub fn set_file_user(&mut self, id: u32) -> u32 {
        let before = self.users.file;
        if may_set_file(self.users, id, self.has(Capability::Setuid)) {
            self.users.file = id;
            if !self.is_secure(securebits::NO_FIXUP) {
                match (before, id) {
                    (0, 1..) => self.effective = self.effective.without(CapSet::FILES),
                    (1.., 0) => {
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
        if may_set_file(self.groups, id, self.has(Capability::Setgid)) {
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
        let free = self.has(Capability::Setpcap);
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
        if !self.has(Capability::Setpcap) {
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
            || !self.has(Capability::Setpcap);
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

    /// `execve` of a program without capabilities or set-id bits of its own.
    pub fn exec(&mut self) {
        let root = !self.is_secure(securebits::NO_ROOT);
        let (users, groups) = (self.users, self.groups);
        if users.effective != users.real || groups.effective != groups.real {
            self.ambient = CapSet::NONE;
        }
        let all = self.bounding.or(self.inheritable);
        let given = root && (users.effective == 0 || users.real == 0);
        self.permitted = if given { all.or(self.ambient) } else { self.ambient };
        let raised = root && users.effective == 0;
        self.effective = if raised { self.permitted } else { self.ambient };
        for ids in [&mut self.users, &mut self.groups] {
            (ids.saved, ids.file) = (ids.effective, ids.effective);
        }
        self.securebits &= !securebits::KEEP_CAPS;
    }

    /// As who asks with `access` what it may do: by its real ids.
    pub fn as_real(&self) -> Credentials {
        let mut it = *self;
        (it.users.file, it.groups.file) = (it.users.real, it.groups.real);
        if !self.is_secure(securebits::NO_FIXUP) {
            let root = it.users.real == 0;
            it.effective = if root { it.permitted } else { CapSet::NONE };
        }
        it
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
}
