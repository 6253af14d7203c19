//! What is told of all sockets (`/proc/net`).

use crate::socket::{Family, Inet, Kind, Number};
use crate::TcpState;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number.
    pub number: Number,
    /// Of which addresses.
    pub family: Family,
    /// What it is.
    pub kind: Kind,
    /// Its address.
    pub local: SocketAddr,
    /// That of the other end, or none in particular.
    pub remote: SocketAddr,
    /// How far it is.
    pub state: TcpState,
    /// Bytes that wait to be read.
    pub unread: usize,
    /// Who has made it.
    pub uid: u32,
}

impl Inet {
    /// Those that have a port.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.each().filter(|(_, socket)| socket.is_bound()).map(|(number, socket)| {
            let none = match socket.family {
                Family::V4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
            };
            Row {
                number,
                family: socket.family,
                kind: socket.kind,
                local: socket.local,
                remote: socket.remote.unwrap_or(SocketAddr::new(none, 0)),
                state: self.tcp_state(number).unwrap_or(TcpState::Close),
                unread: socket.bytes.len() + socket.packet_bytes,
                uid: socket.uid,
            }
        })
    }
}
