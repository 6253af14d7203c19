//! The messages of 9P2000.L, as a client sends and receives them, and as a server of this system does ([`serve`]).
//!
//! ```text
//! size[4] type[1] tag[2] ...        little-endian; size counts itself
//! string    length[2] bytes         any bytes: names are not text
//! qid       kind[1] version[4] path[8]
//! ```
//!
//! A [`Request`] is encoded into a buffer, a [`Reply`] is decoded from one that somebody else has filled: it borrows from it,
//! and nothing of it is believed that was not checked. Whoever answers may answer anything: the worst that comes of it is
//! [`Malformed`].
//!
//! A file is named by a *fid*, a number that the client chooses when it walks to the file.
#![no_std]
#![forbid(unsafe_code)]

mod entries;
mod reply;
mod request;
pub mod serve;
mod wire;

pub use entries::{Entries, Entry};
pub use reply::{Attributes, Malformed, Reply, Space};
pub use request::{Changes, Moment, Request, TooLong};

/// What both sides call this version.
pub const VERSION: &[u8] = b"9P2000.L";
/// The tag of the first message.
pub const NO_TAG: u16 = !0;
/// No fid.
pub const NO_FID: u32 = !0;
/// Bytes in front of every message's own.
pub const HEADER: usize = 7;
/// Bytes of a message that reads or writes, besides the data.
pub const OVERHEAD: usize = HEADER + 4 + 8 + 4;

/// What a file is for its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Qid {
    /// `0x80`: a directory; `2`: a symbolic link.
    pub kind: u8,
    /// Changes as the file does; 0 if the server does not say.
    pub version: u32,
    /// No other file of the server has the same.
    pub path: u64,
}

/// Numbers of messages. An answer has the one behind its request's, and an error [`ERROR`](kind::ERROR).
pub mod kind {
    #![allow(missing_docs)]
    pub const ERROR: u8 = 7;
    pub const STATFS: u8 = 8;
    pub const LOPEN: u8 = 12;
    pub const LCREATE: u8 = 14;
    pub const SYMLINK: u8 = 16;
    pub const MKNOD: u8 = 18;
    pub const READLINK: u8 = 22;
    pub const GETATTR: u8 = 24;
    pub const SETATTR: u8 = 26;
    pub const READDIR: u8 = 40;
    pub const FSYNC: u8 = 50;
    pub const LINK: u8 = 70;
    pub const MKDIR: u8 = 72;
    pub const RENAMEAT: u8 = 74;
    pub const UNLINKAT: u8 = 76;
    pub const VERSION: u8 = 100;
    pub const ATTACH: u8 = 104;
    pub const WALK: u8 = 110;
    pub const READ: u8 = 116;
    pub const WRITE: u8 = 118;
    pub const CLUNK: u8 = 120;
}
