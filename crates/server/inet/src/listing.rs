//! What is told of all sockets (`/proc/net`).

use crate::diag::Seen;
use crate::socket::{Family, Inet, Kind, Number};
use core::net::SocketAddr;

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
    pub state: u8,
    /// Bytes that wait to be read, or connections that wait to be accepted.
    pub waiting: u32,
    /// Bytes that were sent and have not come to the other end.
    pub sent: u32,
    /// Who has made it.
    pub uid: u32,
}

impl Inet {
    /// How many sockets there are.
    pub fn len(&self) -> usize {
        self.each_from(0).count()
    }

    /// How many streams there are, connected or not, and how many pages the bytes have that wait in them.
    pub fn streams(&self) -> (usize, usize) {
        const PAGE: usize = 4096;
        let all = self.each_from(0).filter(|(_, socket)| socket.kind == Kind::Stream);
        let sizes = all.map(|(_, socket)| socket.bytes.len());
        let (count, bytes) = sizes.fold((0, 0), |(count, all), own| (count + 1, all + own));
        (count, bytes.div_ceil(PAGE))
    }

    /// Those that have a port, or are raw.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.seen(0).map(|seen| {
            let (waiting, sent) = seen.queues();
            let Seen { socket, number, local, remote, state } = seen;
            Row {
                number,
                family: socket.family,
                kind: socket.kind,
                local,
                remote,
                state,
                waiting,
                // As Linux has it: how many connections may wait is not told here.
                sent: if self.listens(number).unwrap_or(false) { 0 } else { sent },
                uid: socket.uid,
            }
        })
    }
}
