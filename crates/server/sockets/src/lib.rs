//! Local sockets (`AF_UNIX`): who is connected to whom, what waits to be read, and which names are taken.
//!
//! A socket has one queue, of what others have sent to it and it has not read. A stream is a queue whose messages have no
//! bounds; datagrams and sequenced packets keep theirs. What is passed along (descriptors, here numbers of the server's) goes
//! with the message, and is never read together with bytes of another one.
//!
//! Bytes of a stream may also go from one process to the other by a [ring](Ring) that is lent to both ends.
//!
//! Nothing here waits: an operation that would have to answers `EAGAIN`, and tells by [`Changes`] which sockets
//! others may have waited for.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod lent;
mod listing;
mod message;
mod names;
mod options;
mod queue;
mod socket;
mod transfer;

#[cfg(test)]
mod tests;

pub use lent::{Ring, RING_BYTES};
pub use listing::{Row, State};
pub use message::{Message, User};
pub use names::Name;
pub use options::Options;
pub use socket::{Changes, Kind, Number, Sockets};
pub use transfer::{Received, Target};

/// Bytes that may wait in a socket (Linux: `net.core.wmem_default`, of which it counts overhead, too).
pub const QUEUE_BYTES: usize = 212_992;
/// Datagrams that may wait in a socket (Linux: `net.unix.max_dgram_qlen`).
pub const QUEUE_DATAGRAMS: usize = 10;
/// Connections that may wait for `accept` (Linux: `net.core.somaxconn`).
pub const BACKLOG_MOST: u32 = 4096;
/// Descriptors that one message may pass (Linux: `SCM_MAX_FD`).
pub const RIGHTS_MOST: usize = 253;
