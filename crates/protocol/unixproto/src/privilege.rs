//! Options of `prctl` about privileges, by Linux's numbers.

use linux_raw_sys::prctl;

/// May others of the same user look into the process?
pub const GET_DUMPABLE: u32 = prctl::PR_GET_DUMPABLE;
/// Sets that: 0 or 1.
pub const SET_DUMPABLE: u32 = prctl::PR_SET_DUMPABLE;
/// Do orphans among its descendants become its children?
pub const GET_CHILD_SUBREAPER: u32 = prctl::PR_GET_CHILD_SUBREAPER;
/// Sets that: 0, or anything else.
pub const SET_CHILD_SUBREAPER: u32 = prctl::PR_SET_CHILD_SUBREAPER;
/// Do permitted capabilities stay when no user id is 0 any more?
pub const GET_KEEPCAPS: u32 = prctl::PR_GET_KEEPCAPS;
/// Sets that: 0 or 1.
pub const SET_KEEPCAPS: u32 = prctl::PR_SET_KEEPCAPS;
/// Is a capability in the bounding set?
pub const CAPBSET_READ: u32 = prctl::PR_CAPBSET_READ;
/// Takes one out.
pub const CAPBSET_DROP: u32 = prctl::PR_CAPBSET_DROP;
/// How capabilities follow from ids.
pub const GET_SECUREBITS: u32 = prctl::PR_GET_SECUREBITS;
/// Sets that.
pub const SET_SECUREBITS: u32 = prctl::PR_SET_SECUREBITS;
/// From now on no program gets more than the process has. 1 only.
pub const SET_NO_NEW_PRIVS: u32 = prctl::PR_SET_NO_NEW_PRIVS;
/// Asks for that.
pub const GET_NO_NEW_PRIVS: u32 = prctl::PR_GET_NO_NEW_PRIVS;
/// Ambient capabilities: what to do, and with which.
pub const CAP_AMBIENT: u32 = prctl::PR_CAP_AMBIENT;
/// First argument of [`CAP_AMBIENT`]: is it ambient?
pub const AMBIENT_IS_SET: u32 = prctl::PR_CAP_AMBIENT_IS_SET;
/// Makes it so.
pub const AMBIENT_RAISE: u32 = prctl::PR_CAP_AMBIENT_RAISE;
/// Ends that.
pub const AMBIENT_LOWER: u32 = prctl::PR_CAP_AMBIENT_LOWER;
/// Ends that for all.
pub const AMBIENT_CLEAR_ALL: u32 = prctl::PR_CAP_AMBIENT_CLEAR_ALL;
