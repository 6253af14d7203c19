//! The error queue (`MSG_ERRQUEUE`), and what is said about datagrams that did not arrive: the next operation fails with it, and whoever has asked
//! for that (`IP_RECVERR`) can read there what was said, by whom, and about what. Other entries are of [calls](crate::zerocopy) and of
//! [times](crate::timestamps), and make nothing fail.

use crate::control::{of_entry, Passage};
use crate::socket::{Changes, Inet, Number};
use crate::stream::Received;
use crate::timestamps::Stamp;
use crate::zerocopy::Calls;
use crate::OVERHEAD;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use unixproto::sockets::of_level;
use unixproto::Errno;

/// `IP_RECVERR`, `IPV6_RECVERR`.
pub const RECVERR: [u32; 2] = [of_level(0, 11), of_level(41, 25)];
/// Bytes of a datagram that are in a message about it, of IPv4 and IPv6: those messages have a length that arrives everywhere.
pub(crate) const QUOTED: [usize; 2] = [576 - 20 - 8 - 20 - 8, 1280 - 40 - 8 - 40 - 8];
/// The type of service of such messages of IPv4: that of control.
pub(crate) const CONTROL: u8 = 0xc0;

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
    /// When it came.
    pub came: i64,
}

/// What a socket is told besides what it receives.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A datagram has not arrived.
    Undelivered(Report),
    /// Something was sent, or acknowledged.
    Sent(Stamp),
    /// What calls have sent may be written to again.
    Complete(Calls),
}

impl Entry {
    /// Bytes that are told.
    fn bytes(&self) -> &[u8] {
        match self {
            Entry::Undelivered(report) => &report.bytes,
            Entry::Sent(stamp) => stamp.packet.as_ref().map_or(&[], |(_, frame)| &frame[..]),
            Entry::Complete(_) => &[],
        }
    }

    /// What it costs.
    fn cost(&self) -> usize {
        self.bytes().len() + OVERHEAD
    }

    /// Bytes of a socket's room that it takes: calls have room of their own.
    fn room(&self) -> usize {
        match self {
            Entry::Complete(_) => 0,
            _ => self.cost(),
        }
    }

    /// What the next operation fails with because of it.
    pub fn error(&self) -> Option<Errno> {
        match self {
            Entry::Undelivered(report) => Some(report.error),
            _ => None,
        }
    }
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

/// The same of version 6.
pub(crate) fn meaning_v6(kind: u8, code: u8) -> Option<(Errno, bool)> {
    const UNREACHABLE: u8 = 1;
    const TOO_LONG: u8 = 2;
    const LATE: u8 = 3;
    const WRONG: u8 = 4;
    Some(match (kind, code) {
        (UNREACHABLE, 0) => (Errno::ENETUNREACH, false),
        (UNREACHABLE, 1 | 5 | 6) => (Errno::EACCES, true),
        (UNREACHABLE, 4) => (Errno::ECONNREFUSED, true),
        (UNREACHABLE, _) | (LATE, _) => (Errno::EHOSTUNREACH, false),
        (TOO_LONG, _) => (Errno::EMSGSIZE, false),
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
        report.came = self.now;
        let Ok(socket) = self.get(number) else { return };
        let is_v6 = report.way.from.ip().to_canonical().is_ipv6();
        let error = report.error;
        if socket.options.is_set(RECVERR[usize::from(is_v6)]) {
            self.queue_error(number, Entry::Undelivered(report), changes);
        } else if !is_for_good || socket.remote.is_none() {
            // Of whoever is connected to nobody, that would be about anybody.
            return;
        }
        let Ok(socket) = self.get_mut(number) else { return };
        socket.error = Some(error);
        changes.push((number, false));
    }

    /// Adds an entry to the error queue, where there is room for it. For calls there is: that was seen to when they began.
    pub(crate) fn queue_error(&mut self, number: Number, entry: Entry, changes: &mut Changes) {
        let Ok(socket) = self.get(number) else { return };
        let (cost, room, uid) = (entry.cost(), entry.room(), socket.uid);
        let is_full =
            || socket.packet_bytes >= socket.capacity() || !self.shares.has_room(uid, cost);
        if room > 0 && is_full() {
            return;
        }
        self.shares.take(uid, cost);
        let Ok(socket) = self.get_mut(number) else { return };
        socket.packet_bytes += room;
        socket.errors.push_back(entry);
        changes.push((number, false));
    }

    /// Receives the next entry of the error queue, with up to so many bytes of what it is about (`MSG_ERRQUEUE`); what there is no room for waits
    /// for the same thread if it `goes_on`.
    ///
    /// # Errors
    /// `EAGAIN`: there is none.
    pub fn receive_error(
        &mut self,
        number: Number,
        (most, goes_on): (usize, Option<u32>),
        changes: &mut Changes,
    ) -> Result<Received, Errno> {
        self.forget_rest(number)?;
        let now = self.now;
        let socket = self.get_mut(number)?;
        let entry = socket.errors.pop_front().ok_or(Errno::EAGAIN)?;
        // An error that waits behind it is what the next operation fails with.
        match socket.errors.front().and_then(Entry::error) {
            None if entry.error().is_none() => {}
            next => socket.error = next,
        }
        let (cost, uid) = (entry.cost(), socket.uid);
        let control = of_entry(&entry, &socket.options, socket.family, now);
        socket.packet_bytes -= entry.room();
        self.shares.give_back(uid, cost);
        let full = entry.bytes().len();
        let (bytes, rest) = entry.bytes().split_at(full.min(most));
        let (bytes, rest) = (bytes.to_vec(), rest.to_vec());
        self.keep_rest(number, goes_on, rest)?;
        let from = match entry {
            Entry::Undelivered(report) => Some(report.about),
            _ => None,
        };
        changes.push((number, false));
        Ok(Received { bytes, full, from, control })
    }

    /// What was said about datagrams is not wanted any more (`IP_RECVERR` is turned off). Other entries stay: somebody may wait for them.
    pub fn forget_errors(&mut self, number: Number, changes: &mut Changes) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        let (kept, gone): (VecDeque<_>, VecDeque<_>) = core::mem::take(&mut socket.errors)
            .into_iter()
            .partition(|entry| entry.error().is_none());
        socket.errors = kept;
        socket.packet_bytes -= gone.iter().map(Entry::room).sum::<usize>();
        let uid = socket.uid;
        self.shares.give_back(uid, cost_of(&gone));
        changes.push((number, false));
        Ok(())
    }
}

/// What entries cost.
pub(crate) fn cost_of(errors: &VecDeque<Entry>) -> usize {
    errors.iter().map(Entry::cost).sum()
}
