//! Raw sockets of ICMP: they send any message, and hear all that come, of IPv4 with the heads of their packets.

use crate::address::plain;
use crate::control::Passage;
use crate::datagram::{checksum, ECHO_ANSWER, ECHO_HEAD, ECHO_REQUEST};
use crate::socket::{Changes, Inet, Kind, Number};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use netproto::{Command, Protocol};
use unixproto::Errno;

/// Bytes of the head of a packet of IPv4.
const HEAD: usize = 20;
const ICMP: u8 = 1;

impl Inet {
    /// Sends a message of ICMP. To others than this machine that is an echo request.
    ///
    /// # Errors
    /// `EDESTADDRREQ`, `EINVAL`: it is too short. `EOPNOTSUPP`: another message, to others.
    pub(crate) fn send_raw(
        &mut self,
        number: Number,
        way: Passage,
        bytes: Vec<u8>,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        if bytes.len() < ECHO_HEAD {
            return Err(Errno::EINVAL);
        }
        let (to, source) = (way.to, way.from.ip());
        let is_request = ECHO_REQUEST[usize::from(to.is_ipv6())] == bytes[0];
        if self.is_local(to.ip()) {
            let payer = self.get(number)?.uid;
            let way = Passage { from: SocketAddr::new(source, 0), ..way };
            self.hear_as(way, &bytes, Some(payer), changes);
            if is_request {
                let answer = answer_to(bytes, to.is_ipv6());
                let back = Passage::inside(SocketAddr::new(to.ip(), 0), way.from);
                let back = Passage { class: way.class, ..back };
                self.hear_as(back, &answer, Some(payer), changes);
            }
            return Ok(());
        }
        if !is_request || to.is_ipv6() {
            return Err(Errno::EOPNOTSUPP);
        }
        let id = u16::from_be_bytes([bytes[4], bytes[5]]);
        self.expect(number, id);
        let (protocol, hops, class) = (Protocol::Echo, way.hops, way.class);
        let local = SocketAddr::new(source, id);
        let head = Command::Datagram { protocol, local, remote: to, hops, class, bytes: &[] };
        if self.has_calm() {
            self.command_with(head, bytes);
        }
        Ok(())
    }

    /// Answers to echo requests with an identifier are wanted: of the latest only, and of none that another socket has.
    fn expect(&mut self, number: Number, id: u16) {
        if self.ports.at(Kind::Raw, id).contains(&number) {
            return;
        }
        self.forget_expected(number);
        self.ports.take(Kind::Raw, id, number);
        if let Ok(socket) = self.get_mut(number) {
            socket.expects = Some(id);
        }
        self.command(Command::Open { protocol: Protocol::Echo, port: id });
    }

    fn forget_expected(&mut self, number: Number) {
        let Some(id) = self.get_mut(number).ok().and_then(|socket| socket.expects.take()) else {
            return;
        };
        self.ports.give_back(Kind::Raw, id, number);
        let is_wanted =
            [Kind::Raw, Kind::Echo].iter().any(|&kind| !self.ports.at(kind, id).is_empty());
        if !is_wanted {
            self.command(Command::Shun { protocol: Protocol::Echo, port: id });
        }
    }

    pub(crate) fn forget_raw(&mut self, number: Number) {
        if self.get(number).is_ok_and(|socket| socket.kind == Kind::Raw) {
            self.forget_expected(number);
            self.raws.retain(|one| *one != number);
        }
    }

    /// An answer has come from outside.
    pub(crate) fn hear_outside(&mut self, way: Passage, bytes: &[u8], changes: &mut Changes) {
        // Each pays for what it hears.
        self.hear_as(way, bytes, None, changes);
    }

    fn hear_as(&mut self, way: Passage, bytes: &[u8], payer: Option<u32>, changes: &mut Changes) {
        let (from, to) = (way.from.ip().to_canonical(), way.to.ip().to_canonical());
        for number in self.raws.clone() {
            let Ok(socket) = self.get(number) else { continue };
            let own = socket.local.ip().to_canonical();
            let is_for = own.is_unspecified() || own == to;
            let is_from = socket.remote.is_none_or(|remote| plain(remote).ip() == from);
            let is_family = own.is_ipv4() == to.is_ipv4();
            if !(is_for && is_from && is_family) || socket.is_deaf {
                continue;
            }
            let payer = payer.unwrap_or(socket.uid);
            let mut all = head(from, to, &way, bytes.len());
            all.extend_from_slice(bytes);
            let way = Passage { from: SocketAddr::new(from, 0), ..way };
            self.deliver(number, all, (way, payer), changes);
        }
    }
}

/// The answer of this machine to an echo request.
pub(crate) fn answer_to(mut bytes: Vec<u8>, is_v6: bool) -> Vec<u8> {
    bytes[0] = ECHO_ANSWER[usize::from(is_v6)];
    bytes[2..4].fill(0);
    if !is_v6 {
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// The head of a packet of IPv4; one of IPv6 is not told.
fn head(from: IpAddr, to: IpAddr, way: &Passage, len: usize) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { return Vec::new() };
    let mut bytes = Vec::from([0x45, way.class]);
    bytes.extend_from_slice(&((HEAD + len) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 0, way.hops, ICMP, 0, 0]);
    bytes.extend_from_slice(&from.octets());
    bytes.extend_from_slice(&to.octets());
    let sum = checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}
