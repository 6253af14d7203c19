//! What one process may do to another. Whether both are the same process is not known here.

use crate::{Capability, Credentials};

/// Send it signals?
pub fn may_signal(from: &Credentials, to: &Credentials) -> bool {
    let ids = [from.users.real, from.users.effective];
    ids.iter().any(|id| *id == to.users.real || *id == to.users.saved)
        || from.has_over(to.space.as_ref(), Capability::Kill)
}

/// Look into it: its memory, its files? `dumpable`: it does not keep that to itself.
pub fn may_trace(from: &Credentials, to: &Credentials, dumpable: bool) -> bool {
    let same = to.users.are(from.users.file) && to.groups.are(from.groups.file);
    // What is effective in one name space says nothing in another.
    let gains = from.space != to.space || !to.permitted.is_within(from.effective);
    same && dumpable && !gains || from.has_over(to.space.as_ref(), Capability::SysPtrace)
}

/// See and change its limits?
pub fn may_limit(from: &Credentials, to: &Credentials) -> bool {
    let same = to.users.are(from.users.real) && to.groups.are(from.groups.real);
    same || from.has_over(to.space.as_ref(), Capability::SysResource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CapSet;
    use unixproto::files::KEEP_ID;

    fn user(id: u32) -> Credentials {
        let mut it = Credentials::ROOT;
        it.set_groups([id; 3]).expect("root may");
        it.set_users([id; 3]).expect("root may");
        it
    }

    #[test]
    fn signals_go_to_the_same_user() {
        assert!(may_signal(&user(1), &user(1)));
        assert!(!may_signal(&user(1), &user(2)));
        assert!(may_signal(&Credentials::ROOT, &user(2)));
        let mut without = Credentials::ROOT;
        let rest = CapSet::ALL.without(CapSet::new(1 << Capability::Kill as u64));
        assert_eq!(without.set_caps(rest, rest, CapSet::NONE), Ok(()));
        assert!(!may_signal(&without, &user(2)));
        // A program of the administrator that acts for a user still belongs to the administrator.
        let mut acting = Credentials::ROOT;
        assert_eq!(acting.set_users([KEEP_ID, 1, KEEP_ID]), Ok(()));
        assert!(!may_signal(&user(1), &acting));
    }

    #[test]
    fn only_equals_are_looked_into() {
        assert!(may_trace(&user(1), &user(1), true));
        assert!(!may_trace(&user(1), &user(1), false));
        assert!(!may_trace(&user(1), &Credentials::ROOT, true));
        assert!(may_trace(&Credentials::ROOT, &user(1), false));
        let mut more = user(1);
        more.permitted = CapSet::new(1);
        assert!(!may_trace(&user(1), &more, true));
        assert!(!may_limit(&user(1), &user(2)));
        assert!(may_limit(&Credentials::ROOT, &user(2)));
    }
}
