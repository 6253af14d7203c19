//! What `unixd` and `netd` tell each other.
//!
//! `unixd` has the sockets of programs; `netd` has what goes over a wire. Each puts messages into a ring that the other reads
//! ([`Ring`]), and waits for nobody: [`Command`]s one way, [`Event`]s the other. Neither believes the other: messages are copied
//! before they are looked at, and one that cannot be is an error of who reads.
//!
//! A connection has a number, of `unixd`'s for those that it makes, with [`INCOMING`] for those that come. Who sends bytes
//! of a connection has been told before how much room there is ([`Event::Sent`], [`Command::Read`]), so no ring is the
//! place where they wait.
#![no_std]

extern crate alloc;

mod code;
mod ring;

pub use ring::{Broken, Ring};

use core::net::{IpAddr, SocketAddr};

/// A bit of the numbers of connections that came.
pub const INCOMING: u32 = 1 << 31;
/// Bytes of a connection that `netd` may send without being told that some were read.
pub const WINDOW: u32 = 64 * 1024;
/// Bytes that it may send beyond that when the connection has ended: what had come until then. Who waits for room to send must hear of the end, and may read only afterwards.
pub const LAST: u32 = 64 * 1024;
/// Longest message.
pub const LONGEST: usize = 66_000;
/// Most bytes of a stream in a message.
pub const PIECE: usize = 16 * 1024;

/// Groups that the machine can be in at once.
pub const GROUPS: usize = 256;

/// Bytes of a ring: of commands first, of events behind it.
pub const EACH: usize = 512 * 1024;
/// Of both.
pub const BOTH: usize = 2 * EACH;

/// What a port is one of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Protocol {
    /// Datagrams to a port.
    Udp,
    /// Answers to echo requests, by their identifier.
    Echo,
}

/// `unixd` wants something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command<'a> {
    /// Connect, for a user.
    Connect { id: u32, user: u32, local: SocketAddr, remote: SocketAddr },
    /// Accept connections: those that come have numbers of their own.
    Listen {
        id: u32,
        user: u32,
        /// Of no address in particular of IPv6: of IPv4, too, unless it says otherwise.
        local: SocketAddr,
        backlog: u32,
        v6_only: bool,
    },
    /// Accept no more, where this number listens.
    Deafen { id: u32 },
    /// Send bytes of a connection.
    Send { id: u32, bytes: &'a [u8] },
    /// So many bytes were read.
    Read { id: u32, bytes: u32 },
    /// Nothing more will be sent.
    Shut { id: u32 },
    /// The connection ends when all was sent; nobody wants to hear of it.
    Close { id: u32 },
    /// It ends at once.
    Abort { id: u32 },
    /// How it is treated: bytes are not gathered; seconds between signs of life, 0 for none; hops; type of service.
    Tune { id: u32, no_delay: bool, alive_s: u32, hops: u8, class: u8 },
    /// Datagrams to this port are wanted.
    Open { protocol: Protocol, port: u16 },
    /// They are not any more.
    Shun { protocol: Protocol, port: u16 },
    /// Send a datagram, or an echo request, whose identifier is the local port.
    Datagram {
        protocol: Protocol,
        local: SocketAddr,
        remote: SocketAddr,
        hops: u8,
        /// Type of service.
        class: u8,
        bytes: &'a [u8],
    },
    /// Datagrams to a group are wanted.
    Join { group: IpAddr },
    /// They are not any more.
    Leave { group: IpAddr },
    /// Tell of all frames that come and go, and of all packets that come for this machine, from now on.
    Watch { frames: bool, packets: bool },
    /// Send a frame as it is.
    Frame { bytes: &'a [u8] },
    /// Send a packet of IPv4, whose head stays as it is.
    Packet { bytes: &'a [u8] },
    /// Say [`Event::Idle`] when everything was sent, and forget all connections.
    Finish,
}

/// Something has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// There is a network, and this is the machine's place there.
    Up { mac: [u8; 6], address: [u8; 4], prefix: u8, gateway: [u8; 4], mtu: u16 },
    /// The machine's place in a network of IPv6: its address on the wire, and another one, with bits of it that are the network's, and who knows the way to
    /// others; those that are unspecified it has not.
    Up6 { link: [u8; 16], address: [u8; 16], prefix: u8, gateway: [u8; 16] },
    /// There is a connection now that was wanted, with room for so many bytes.
    Connected { id: u32, room: u32 },
    /// A connection has come.
    Incoming { listener: u32, id: u32, local: SocketAddr, remote: SocketAddr, room: u32 },
    /// Bytes have come.
    Data { id: u32, bytes: &'a [u8] },
    /// There is room for so many more.
    Sent { id: u32, bytes: u32 },
    /// Nothing more will come.
    Finished { id: u32 },
    /// There is no connection any more, for this reason (an error number; 0: it is over).
    Gone { id: u32, error: u16 },
    /// A datagram, or the answer to an echo request, has come.
    Datagram {
        protocol: Protocol,
        local: SocketAddr,
        remote: SocketAddr,
        /// Hops that it could still take.
        hops: u8,
        /// Type of service.
        class: u8,
        bytes: &'a [u8],
    },
    /// Somebody on the way, or where it was to go, says that a datagram did not arrive.
    Undelivered {
        protocol: Protocol,
        /// From where it was, and where it was to go.
        local: SocketAddr,
        remote: SocketAddr,
        /// Who says so, with a message that could still take so many hops.
        by: SocketAddr,
        hops: u8,
        /// Type and code of the message (ICMP), and what else it says.
        kind: u8,
        code: u8,
        info: u32,
        /// Of the datagram, as far as they came back.
        bytes: &'a [u8],
    },
    /// The machine's address was given by somebody, who says that these know names; those that are unspecified are none.
    Given { by: [u8; 4], names: [[u8; 4]; 3] },
    /// Nobody gives one: there was none, or its time is over.
    NotGiven { is_over: bool },
    /// A frame has come, or was sent; so many before it were not told for want of room.
    Frame { is_sent: bool, lost: u32, bytes: &'a [u8] },
    /// A packet has come for this machine, whole, of whatever protocol: besides all that is told of it otherwise.
    Packet { bytes: &'a [u8] },
    /// After [`Command::Finish`]: so many bytes of its stack the server has never needed.
    Stack { unused: u32 },
    /// After [`Command::Finish`]: there is no connection, and nothing to be sent.
    Idle,
}
