//! Who a Linux process is, and what that allows.
//!
//! [`Credentials`] are user and group ids and the sets of POSIX capabilities (`capabilities(7)`; not
//! the capabilities of this system's kernel), and how both change by `setresuid` and relatives,
//! `capset`, `prctl` and `execve`. [`may_signal`], [`may_trace`] and [`may_limit`] say what one process may
//! do to another.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod caps;
mod change;
mod groups;
mod ids;
mod others;
mod space;

pub use caps::{CapSet, Capability};
pub use change::{securebits, SetIds};
pub use groups::Groups;
pub use ids::Ids;
pub use others::{may_limit, may_signal, may_trace};
pub use space::{Line, UserSpace, OVERFLOW_ID};

use alloc::rc::Rc;

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// User ids.
    pub users: Ids,
    /// Group ids.
    pub groups: Ids,
    /// Supplementary groups.
    pub others: Groups,
    /// What the process may do now.
    pub effective: CapSet,
    /// What it may make effective.
    pub permitted: CapSet,
    /// What programs may keep that it executes, if their files say so.
    pub inheritable: CapSet,
    /// What the programs may get at most that it executes.
    pub bounding: CapSet,
    /// What every program keeps that it executes.
    pub ambient: CapSet,
    /// How capabilities follow from ids: see [`securebits`].
    pub securebits: u32,
    /// No program that it executes gets more than it has (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// What it has given up for good.
    pub forgone: Forgone,
    /// Its user name space; `None`: the first. Capabilities count there, and in what belongs to that.
    pub space: Option<Rc<UserSpace>>,
}

/// What a process and those that come of it can never do any more, whoever they become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forgone {
    /// [Kinds of requests](unixproto::forgo).
    pub kinds: u32,
    /// How calls are filtered: 0 not, 1 strictly, 2 by programs, as the process itself says.
    pub mode: u8,
    /// How many programs that are.
    pub filters: u32,
}

impl Forgone {
    /// It can do everything.
    pub const NOTHING: Forgone = Forgone { kinds: 0, mode: 0, filters: 0 };
}

impl Credentials {
    /// Of the administrator.
    pub const ROOT: Credentials = Credentials {
        users: Ids::all(0),
        groups: Ids::all(0),
        others: Groups::NONE,
        effective: CapSet::ALL,
        permitted: CapSet::ALL,
        inheritable: CapSet::NONE,
        bounding: CapSet::ALL,
        ambient: CapSet::NONE,
        securebits: 0,
        no_new_privileges: false,
        forgone: Forgone::NOTHING,
        space: None,
    };

    /// Is it in a group, as who opens files?
    pub fn is_in(&self, group: u32) -> bool {
        self.groups.file == group || self.others.has(group)
    }
    /// Is a capability effective, over what belongs to no other user name space than the first?
    pub const fn has(&self, capability: Capability) -> bool {
        self.space.is_none() && self.effective.has(capability)
    }
}
