//! Options of `prctl` about privileges, by Linux's numbers.

/// May others of the same user look into the process?
pub const GET_DUMPABLE: u32 = 3;
/// Sets that: 0 or 1.
pub const SET_DUMPABLE: u32 = 4;
/// Do permitted capabilities stay when no user id is 0 any more?
pub const GET_KEEPCAPS: u32 = 7;
/// Sets that: 0 or 1.
pub const SET_KEEPCAPS: u32 = 8;
/// Is a capability in the bounding set?
pub const CAPBSET_READ: u32 = 23;
/// Takes one out.
pub const CAPBSET_DROP: u32 = 24;
/// How capabilities follow from ids.
pub const GET_SECUREBITS: u32 = 27;
/// Sets that.
pub const SET_SECUREBITS: u32 = 28;
/// From now on no program gets more than the process has. 1 only.
pub const SET_NO_NEW_PRIVS: u32 = 38;
/// Asks for that.
pub const GET_NO_NEW_PRIVS: u32 = 39;
/// Ambient capabilities: what to do, and with which.
pub const CAP_AMBIENT: u32 = 47;
/// First argument of [`CAP_AMBIENT`]: is it ambient?
pub const AMBIENT_IS_SET: u32 = 1;
/// Makes it so.
pub const AMBIENT_RAISE: u32 = 2;
/// Ends that.
pub const AMBIENT_LOWER: u32 = 3;
/// Ends that for all.
pub const AMBIENT_CLEAR_ALL: u32 = 4;
