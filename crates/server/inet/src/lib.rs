//! Internet sockets (`AF_INET`, `AF_INET6`): who is connected to whom, what waits to be read, which ports are taken.
//!
//! Two sockets of this machine are connected directly: what one sends is in the queue of the other, and no segment, no timer and
//! no checksum is needed for what can be neither lost nor delayed. Programs see what they would see of TCP: resets, half-closed
//! streams, connections that wait to be accepted. What goes further is the network server's: here are its bytes as far as it
//! has delivered them, and its commands (`next_command`) for it. A network server that is slow, dead or hostile
//! harms the connections that go over it, and no others.
//!
//! Each network name space is an [`Inet`] of its own. All but the first have no interface but `lo`, which is down at first; what users have is counted in all of them together.
//!
//! Nothing here waits: an operation that would have to answers `EAGAIN`, and tells by [`Changes`] which sockets
//! others may have waited for.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod address;
mod bytecode;
mod connect;
mod control;
mod datagram;
mod devices;
pub mod diag;
mod errors;
mod groups;
mod inside;
mod listing;
pub mod netlink;
mod options;
pub mod packet;
mod pieces;
mod ports;
mod raw;
pub mod route;
mod socket;
mod stream;
mod timestamps;
mod urgent;
mod ways;
mod wire;
mod zerocopy;

#[cfg(test)]
mod tests;

pub use address::{decode, encode, ADDRESS_MOST};
pub use control::{stamps_of, Sending};
pub use devices::OUTSIDE;
pub use errors::RECVERR;
pub use groups::{MEMBERSHIPS_MOST, SENDERS_MOST};
pub use listing::Row;
pub use options::{Options, TcpState, STAMPING};
pub use socket::{Changes, Family, Inet, Interface, Kind, Number, Origin, Six, NUMBERS};
pub use stream::Received;
pub use zerocopy::Telling;

/// Bytes that may wait in a stream, unless a program wants otherwise.
pub const STREAM_BYTES: usize = 256 * 1024;
/// Bytes that may wait in a socket of datagrams (Linux: `net.core.rmem_default`), each with its [`OVERHEAD`].
pub const DATAGRAM_BYTES: usize = 212_992;
/// What a datagram costs besides its bytes.
pub const OVERHEAD: usize = 576;
/// Longest datagram of UDP over IPv4.
pub const DATAGRAM_MOST: usize = 65_507;
/// Connections that may wait for `accept` (Linux: `net.core.somaxconn`).
pub const BACKLOG_MOST: u32 = 4096;
/// Bytes of a segment inside of the machine, as they are told.
pub const SEGMENT_INSIDE: u32 = 32_768;
/// The first port that anybody may take.
pub const FREE_PORT: u16 = 1024;
