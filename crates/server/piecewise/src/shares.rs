//! How much of something each user has.
//!
//! As the limits of Linux that are there against a single user taking everything (`file-max`,
//! `pipe-user-pages-hard`, the reserved blocks of a file system): whoever is not root can have so much,
//! and all of them together leave something for root.

use alloc::collections::BTreeMap;

/// User id of the administrator, who may have everything.
const ROOT: u32 = 0;

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub all: usize,
    /// Of these, only for root.
    pub root: usize,
    /// For one user other than root.
    pub user: usize,
}

impl Limits {
    /// The usual parts: an eighth is for root, and one user has at most half.
    pub const fn of(all: usize) -> Limits {
        Limits { all, root: all / 8, user: all / 2 }
    }
}

/// Counts what users have.
#[derive(Clone, Debug)]
pub struct Shares {
    limits: Limits,
    all: usize,
    /// Nobody with nothing is in it.
    users: BTreeMap<u32, usize>,
}

impl Shares {
    /// Nobody has anything.
    pub fn new(limits: Limits) -> Shares {
        Shares { limits, all: 0, users: BTreeMap::new() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How much all users have.
    pub fn taken(&self) -> usize {
        self.all
    }

    /// How much a user has.
    pub fn of(&self, user: u32) -> usize {
        self.users.get(&user).copied().unwrap_or(0)
    }

    /// May a user have `count` more?
    pub fn has_room(&self, user: u32, count: usize) -> bool {
        let Limits { all, root, user: most } = self.limits;
        let taken = self.all.saturating_add(count);
        match user {
            ROOT => taken <= all,
            _ => taken <= all - root && self.of(user).saturating_add(count) <= most,
        }
    }

    /// How much more a user may have.
    pub fn left(&self, user: u32) -> usize {
        let Limits { all, root, user: most } = self.limits;
        match user {
            ROOT => all.saturating_sub(self.all),
            _ => {
                let of_all = (all - root).saturating_sub(self.all);
                of_all.min(most.saturating_sub(self.of(user)))
            }
        }
    }

    /// A user has `count` more.
    pub fn take(&mut self, user: u32, count: usize) {
        self.all += count;
        *self.users.entry(user).or_default() += count;
    }

    /// A user has `count` less.
    pub fn give_back(&mut self, user: u32, count: usize) {
        self.all = self.all.saturating_sub(count);
        let Some(has) = self.users.get_mut(&user) else { return };
        *has = has.saturating_sub(count);
        if *has == 0 {
            self.users.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_something_for_others_and_all_for_root() {
        let mut shares = Shares::new(Limits::of(80));
        let fill = |shares: &mut Shares, user| {
            while shares.has_room(user, 1) {
                shares.take(user, 1);
            }
            shares.of(user)
        };
        assert_eq!(fill(&mut shares, 1000), 40);
        assert_eq!(fill(&mut shares, 1001), 30);
        assert_eq!(fill(&mut shares, 1002), 0);
        assert_eq!(fill(&mut shares, 0), 10);
        assert_eq!(shares.taken(), 80);
        shares.give_back(1000, 40);
        assert_eq!((shares.of(1000), shares.users.len()), (0, 2));
        assert_eq!([shares.left(0), shares.left(1001), shares.left(1002)], [40, 10, 30]);
        assert!(shares.has_room(1002, 30) && !shares.has_room(1002, 31));
    }
}
