//! What `unixd` and the library of a Linux process say to each other, declared once.
//!
//! * Every thread has an endpoint to `unixd` with a badge of its own, which no other thread ever had
//!   or will have (crate `authority`), and a *session frame* shared with it: a [`session::Header`] page, then a data area of
//!   [`session::DATA_BYTES`] for paths, structures and small input and output.
//! * A request is a `Call` of six words ([`ops`]). Word 0 holds the operation and the lengths of
//!   up to two byte strings, `a` and `b`, that lie one behind the other from the start of the data
//!   area. The answer's word 0 is zero or an [`Errno`]; results follow; bytes that the answer
//!   carries lie at the start of the data area.
//! * Anything that blocks is a request that is answered late, or with `EINTR` as soon as a signal
//!   is posted that the process neither blocks nor ignores (the masks are in the header). Nothing
//!   has been done then: the library handles the signal and restarts the request or not.
//! * A process *holds* an open file description or it does not; the library counts its own file
//!   descriptors to one and closes it with the last. Fork copies what the parent holds.
//!
//! Neither side trusts the frame: `unixd` copies before it checks.
#![no_std]
#![forbid(unsafe_code)]

pub mod clocks;
pub mod errno;
pub mod files;
pub mod forgo;
pub mod home;
pub mod ipc;
pub mod limit;
pub mod mqueue;
pub mod ops;
pub mod privilege;
pub mod request;
pub mod scheduling;
pub mod session;
pub mod signals;
pub mod sockets;
/// Requests about block devices by `ioctl`.
pub mod block {
    pub use linux_raw_sys::ioctl::{
        BLKALIGNOFF, BLKBSZGET, BLKDISCARD, BLKDISCARDZEROES, BLKFLSBUF, BLKGETSIZE, BLKGETSIZE64,
        BLKIOMIN, BLKIOOPT, BLKPBSZGET, BLKROGET, BLKROTATIONAL, BLKSECDISCARD, BLKSSZGET,
    };
}
pub mod trace;
pub mod tty;

pub use errno::Errno;
pub use ops::{op, Any, Reply, Request, Words};
pub use request::lent;
