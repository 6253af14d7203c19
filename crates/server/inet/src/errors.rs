//! What is said about datagrams that did not arrive: the next operation fails with it, and whoever has asked for that (`IP_RECVERR`) can
//! read what was said, by whom, and about what.

use crate::control::{of_report, Passage};
use crate::socket::{Changes, Inet, Number};
use crate::stream::Received;
use crate::OVERHEAD;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use unixproto::sockets::of_level;
use unixproto::Errno;

/// `IP_RECVERR`, `IPV6_RECVERR`.
pub const RECVERR: [u32; 2] = [of_level(0, 11), of_level(41, 25)];
/// Bytes of a datagram that are in a message about it, of IPv4 and IPv6: those messages have a length that arrives everywhere.
const QUOTED: [usize; 2] = [576 - 20 - 8 - 20 - 8, 1280 - 40 - 8 - 40 - 8];
/// The type of service of such messages of IPv4: that of control.
const CONTROL: u8 = 0xc0;

/// A message of ICMP about a datagram.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// What it means.
    pub error: Errno,
    /// Its type, and code.
    pub kind: u8,
    pub code: u8,
    /// What else it says.
    pub info: u32,
    /// From whom it came to whom.
    pub way: Passage,
    /// Where the datagram was to go.
    pub about: SocketAddr,
    /// Bytes of the datagram.
    pub bytes: Vec<u8>,
    /// When it came; 0: nobody wanted to know.
    pub came: i64,
}

impl Report {
    /// `ee_origin`.
    pub fn origin(&self) -> u8 {
        const ICMP: u8 = 2;
        const ICMP6: u8 = 3;
        if self.way.from.ip().to_canonical().is_ipv4() {
            ICMP
        } else {
            ICMP6
        }
    }

    /// This machine itself says that nobody has a port.
    pub fn nobody_there((from, to): (SocketAddr, SocketAddr), mut bytes: Vec<u8>) -> Report {
        let is_v6 = to.is_ipv6();
        bytes.truncate(QUOTED[usize::from(is_v6)]);
        let (kind, code) = if is_v6 { (1, 4) } else { (3, 3) };
        let mut way = Passage::inside(SocketAddr::new(to.ip(), 0), from);
        way.class = if is_v6 { 0 } else { CONTROL };
        let error = Errno::ECONNREFUSED;
        Report { error, kind, code, info: 0, way, about: to, bytes, came: 0 }
    }
}

/// What a type and a code of ICMP (version 4) mean, and whether that is for good. `None`: nothing about a datagram.
pub(crate) fn meaning(kind: u8, code: u8) -> Option<(Errno, bool)> {
    const UNREACHABLE: u8 = 3;
    const LATE: u8 = 11;
    const WRONG: u8 = 12;
    Some(match (kind, code) {
        (UNREACHABLE, 0) => (Errno::ENETUNREACH, false),
        (UNREACHABLE, 1) => (Errno::EHOSTUNREACH, false),
        (UNREACHABLE, 2) => (Errno::ENOPROTOOPT, true),
        (UNREACHABLE, 3) => (Errno::ECONNREFUSED, true),
        (UNREACHABLE, 4) => (Errno::EMSGSIZE, false),
        (UNREACHABLE, 5) => (Errno::EOPNOTSUPP, false),
        (UNREACHABLE, 6 | 9) => (Errno::ENETUNREACH, true),
        (UNREACHABLE, 7) => (Errno::EHOSTDOWN, true),
        (UNREACHABLE, 8) => (Errno::ENONET, true),
        (UNREACHABLE, 10 | 13..=15) => (Errno::EHOSTUNREACH, true),
        (UNREACHABLE, 11) => (Errno::ENETUNREACH, false),
        (UNREACHABLE, 12) | (LATE, _) => (Errno::EHOSTUNREACH, false),
        (WRONG, _) => (Errno::EPROTO, true),
        _ => return None,
    })
}

impl Inet {
    /// A socket hears that a datagram of its has not arrived.
    pub(crate) fn was_told(
        &mut self,
        number: Number,
        mut report: Report,
        is_for_good: bool,
        changes: &mut Changes,
    ) {
        let now = self.now;
        let Ok(socket) = self.get_mut(number) else { return };
        let is_v6 = report.way.from.ip().to_canonical().is_ipv6();
        let error = report.error;
        if socket.options.is_set(RECVERR[usize::from(is_v6)]) {
            let (cost, uid) = (report.bytes.len() + OVERHEAD, socket.uid);
            let is_full = socket.packet_bytes >= socket.capacity();
            if !is_full && self.shares.has_room(uid, cost) {
                self.shares.take(uid, cost);
                let Ok(socket) = self.get_mut(number) else { return };
                report.came = if socket.options.wants_times() { now } else { 0 };
                socket.packet_bytes += cost;
                socket.errors.push_back(report);
            }
        } else if !is_for_good || socket.remote.is_none() {
            // Of whoever is connected to nobody, that would be about anybody.
            return;
        }
        let Ok(socket) = self.get_mut(number) else { return };
        socket.error = Some(error);
        changes.push((number, false));
    }

    /// Receives what was said about a datagram, with up to so many bytes of it (`MSG_ERRQUEUE`).
    ///
    /// # Errors
    /// `EAGAIN`: nothing was.
    pub fn receive_error(
        &mut self,
        number: Number,
        most: usize,
        changes: &mut Changes,
    ) -> Result<Received, Errno> {
        let now = self.now;
        let socket = self.get_mut(number)?;
        let mut report = socket.errors.pop_front().ok_or(Errno::EAGAIN)?;
        // What waits behind it is what the next operation fails with.
        socket.error = socket.errors.front().map(|next| next.error);
        let (full, uid) = (report.bytes.len(), socket.uid);
        let control = of_report(&report, &socket.options, socket.family, now);
        socket.packet_bytes -= full + OVERHEAD;
        self.shares.give_back(uid, full + OVERHEAD);
        report.bytes.truncate(most);
        changes.push((number, false));
        Ok(Received { bytes: report.bytes, full, from: Some(report.about), control })
    }

    /// Nobody reads any more what was said.
    pub(crate) fn forget_errors(&mut self, number: Number) {
        let Ok(socket) = self.get_mut(number) else { return };
        let errors = core::mem::take(&mut socket.errors);
        let cost = cost_of(&errors);
        socket.packet_bytes -= cost;
        let uid = socket.uid;
        self.shares.give_back(uid, cost);
    }
}

/// What errors cost.
pub(crate) fn cost_of(errors: &VecDeque<Report>) -> usize {
    errors.iter().map(|report| report.bytes.len() + OVERHEAD).sum()
}
