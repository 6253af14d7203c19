//! Raw sockets: they send packets of a protocol and hear all that come, of IPv4 with the heads of their packets. And what goes by inside of the machine, as
//! packets: only they and those [who watch](crate::packet) ever see any.

use crate::address::plain;
use crate::control::Passage;
use crate::datagram::{checksum, ECHO_ANSWER, ECHO_HEAD, ECHO_REQUEST};
use crate::errors::{Report, CONTROL, QUOTED};
use crate::socket::{Changes, Family, Inet, Kind, Number};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use netproto::Command;
use unixproto::sockets::of_level;
use unixproto::Errno;

/// Bytes of the head of a packet of IPv4, of IPv6, and of UDP.
pub(crate) const HEAD: usize = 20;
const HEAD_V6: usize = 40;
const UDP_HEAD: usize = 8;
/// Bytes of a message of ICMP that Linux looks at as it is sent: its type and code.
const ICMP_LEAST: usize = 2;
/// Protocols.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP6: u8 = 58;
/// Sends whole packets and hears nothing.
const RAW: u8 = 255;
/// The program makes the heads of packets: `IP_HDRINCL`, `IPV6_HDRINCL`.
const HEADS: [u32; 2] = [of_level(0, 3), of_level(41, 36)];

/// What raw sockets have besides.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    /// Packets with this one's number are heard.
    pub protocol: u8,
    /// Types of ICMP that are not (`ICMP_FILTER`, `ICMP6_FILTER`).
    pub blocked: [u32; 8],
    /// Where the checksum is, of IPv6 (`IPV6_CHECKSUM`).
    pub sum_at: Option<usize>,
}

impl Raw {
    fn blocks(&self, kind: u8) -> bool {
        let is_icmp = match self.protocol {
            ICMP => kind < 32,
            ICMP6 => true,
            _ => false,
        };
        is_icmp && self.blocked[usize::from(kind / 32)] >> (kind % 32) & 1 != 0
    }
}

/// A packet that was taken apart.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub way: Passage,
    pub protocol: u8,
    pub payload: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Of a packet of either version. `None`: it is none, or a part of one.
    pub fn of(packet: &'a [u8], is_outside: bool) -> Option<Parts<'a>> {
        let (from, to, hops, class, protocol, payload): (IpAddr, IpAddr, u8, u8, u8, &[u8]) =
            match packet.first()? >> 4 {
                4 => {
                    let head = usize::from(packet[0] & 0xf) * 4;
                    let all = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
                    let is_part = packet.get(6)? & 0x3f != 0 || *packet.get(7)? != 0;
                    if head < HEAD || all < head || is_part {
                        return None;
                    }
                    let ip =
                        |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?));
                    let payload = packet.get(head..all)?;
                    (ip(12)?.into(), ip(16)?.into(), packet[8], packet[1], packet[9], payload)
                }
                6 => {
                    let ip =
                        |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?));
                    let all = usize::from(u16::from_be_bytes(*packet.get(4..)?.first_chunk()?));
                    let class = packet[0] << 4 | packet[1] >> 4;
                    let payload = packet.get(HEAD_V6..HEAD_V6 + all)?;
                    (ip(8)?.into(), ip(24)?.into(), packet[7], class, packet[6], payload)
                }
                _ => return None,
            };
        let (from, to) = (SocketAddr::new(from, 0), SocketAddr::new(to, 0));
        Some(Parts { way: Passage { from, to, hops, class, is_outside }, protocol, payload })
    }
}

/// A packet. `None`: it would be too long.
pub(crate) fn packet_of(way: &Passage, protocol: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let (from, to) = (way.from.ip().to_canonical(), way.to.ip().to_canonical());
    let mut bytes = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let all = u16::try_from(HEAD + payload.len()).ok()?;
            let mut bytes = Vec::from([0x45, way.class]);
            bytes.extend_from_slice(&all.to_be_bytes());
            // No number, and not to be cut.
            bytes.extend_from_slice(&[0, 0, 0x40, 0, way.hops, protocol, 0, 0]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
            sum_head(&mut bytes);
            bytes
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let all = u16::try_from(payload.len()).ok()?;
            let mut bytes = Vec::from([0x60 | way.class >> 4, way.class << 4, 0, 0]);
            bytes.extend_from_slice(&all.to_be_bytes());
            bytes.extend_from_slice(&[protocol, way.hops]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
            bytes
        }
        _ => return None,
    };
    bytes.extend_from_slice(payload);
    Some(bytes)
}

/// Writes the checksum of the head of a packet of IPv4, as many bytes of it as it says.
fn sum_head(packet: &mut [u8]) {
    let head = usize::from(packet[0] & 0xf) * 4;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..head]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The checksum of a protocol's bytes that covers the addresses, too; 0 if the one in it is right.
fn sum_with(way: &Passage, protocol: u8, payload: &[u8]) -> u16 {
    let mut all = Vec::new();
    for ip in [way.from.ip().to_canonical(), way.to.ip().to_canonical()] {
        match ip {
            IpAddr::V4(ip) => all.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => all.extend_from_slice(&ip.octets()),
        }
    }
    all.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    all.extend_from_slice(&[0, 0, 0, protocol]);
    all.extend_from_slice(payload);
    checksum(&all)
}

/// Writes the checksum of a message of ICMP.
pub(crate) fn sum_message(way: &Passage, protocol: u8, message: &mut [u8]) {
    match protocol {
        ICMP6 => sum_into(way, ICMP6, message, 2),
        _ => {
            message[2..4].fill(0);
            let sum = checksum(message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Writes that checksum.
fn sum_into(way: &Passage, protocol: u8, payload: &mut [u8], at: usize) {
    payload[at..at + 2].fill(0);
    let sum = sum_with(way, protocol, payload);
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// A datagram of UDP with its head.
pub(crate) fn udp_of(way: &Passage, bytes: &[u8]) -> Vec<u8> {
    let all = (UDP_HEAD + bytes.len()) as u16;
    let words = [way.from.port(), way.to.port(), all, 0].map(u16::to_be_bytes);
    let mut udp = words.as_flattened().to_vec();
    udp.extend_from_slice(bytes);
    sum_into(way, UDP, &mut udp, 6);
    if udp[6..8] == [0; 2] {
        // That would say that there is none.
        udp[6..8].fill(0xff);
    }
    udp
}

impl Inet {
    /// Makes a raw socket of a protocol.
    ///
    /// # Errors
    /// `ENFILE`: the user has too many sockets, or there is no memory.
    pub fn make_raw(&mut self, family: Family, protocol: u8, uid: u32) -> Result<Number, Errno> {
        let number = self.make(family, Kind::Raw, uid)?;
        let sum_at = (family == Family::V6 && protocol == ICMP6).then_some(2);
        let socket = self.get_mut(number)?;
        socket.raw = Raw { protocol, sum_at, ..Raw::default() };
        if protocol == RAW {
            let is_v6 = usize::from(socket.family == Family::V6);
            socket.options.others.insert(HEADS[is_v6], 1);
        }
        self.tell_watch();
        Ok(number)
    }

    /// Which protocol a raw socket is of.
    pub fn raw_protocol(&self, number: Number) -> Result<u8, Errno> {
        Ok(self.get(number)?.raw.protocol)
    }

    /// Types of ICMP that a raw socket does not hear (`ICMP_FILTER`, `ICMP6_FILTER`): as many as the bytes say, the others as they were.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is of another protocol.
    pub fn block_types(&mut self, number: Number, bytes: &[u8]) -> Result<(), Errno> {
        let raw = &mut self.get_mut(number)?.raw;
        let most = match raw.protocol {
            ICMP => 1,
            ICMP6 => raw.blocked.len(),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let mut all = raw.blocked.map(u32::to_le_bytes);
        let room = &mut all.as_flattened_mut()[..4 * most];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        raw.blocked = all.map(u32::from_le_bytes);
        Ok(())
    }

    /// Those types, as bytes.
    ///
    /// # Errors
    /// As above.
    pub fn blocked_types(&self, number: Number) -> Result<Vec<u8>, Errno> {
        let raw = &self.get(number)?.raw;
        let all = raw.blocked.map(u32::to_le_bytes);
        match raw.protocol {
            ICMP => Ok(all[0].to_vec()),
            ICMP6 => Ok(all.as_flattened().to_vec()),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Where the checksum of a raw socket's packets of IPv6 is (`IPV6_CHECKSUM`); `None`: there is none.
    ///
    /// # Errors
    /// `EINVAL`: it is not at an even place, or it is that of ICMP, which has its own.
    pub fn set_sum_place(&mut self, number: Number, at: Option<usize>) -> Result<(), Errno> {
        let raw = &mut self.get_mut(number)?.raw;
        if raw.protocol == ICMP6 || at.is_some_and(|at| at % 2 != 0) {
            return Err(Errno::EINVAL);
        }
        raw.sum_at = at;
        Ok(())
    }

    /// Where it is.
    pub fn sum_place(&self, number: Number) -> Result<Option<usize>, Errno> {
        Ok(self.get(number)?.raw.sum_at)
    }

    /// Most bytes that a raw socket sends at once.
    pub(crate) fn raw_most(&self, number: Number) -> Result<usize, Errno> {
        let socket = self.get(number)?;
        let is_v6 = usize::from(socket.family == Family::V6);
        Ok(match (socket.options.is_set(HEADS[is_v6]), is_v6) {
            (false, 0) => usize::from(u16::MAX) - HEAD,
            _ => u16::MAX.into(),
        })
    }

    /// Sends the bytes of a protocol, or a whole packet.
    ///
    /// # Errors
    /// `EINVAL`: the packet, the place of its checksum, or the protocol in the address is not one. `EMSGSIZE`: it is too long. `EFAULT`: it is too short, as
    /// Linux says it, of ICMP.
    pub(crate) fn send_raw(
        &mut self,
        number: Number,
        way: Passage,
        mut bytes: Vec<u8>,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let socket = self.get(number)?;
        let (protocol, sum_at) = (socket.raw.protocol, socket.raw.sum_at);
        let is_v6 = way.to.is_ipv6();
        // Where others have a port the protocol may be said once more.
        let is_other = ![0, protocol.into()].contains(&way.to.port());
        if socket.family == Family::V6 && is_other {
            return Err(Errno::EINVAL);
        }
        let is_inside = self.is_local(way.to.ip());
        let packet = if socket.options.is_set(HEADS[usize::from(is_v6)]) {
            let mtu = match self.interface.filter(|_| !is_inside) {
                Some(outside) => outside.mtu.into(),
                None => self.inside.mtu().min(u16::MAX.into()) as usize,
            };
            if bytes.len() > mtu {
                return Err(Errno::EMSGSIZE);
            }
            complete(&way, bytes)?
        } else {
            if let Some(at) = sum_at.filter(|_| is_v6) {
                if at + 2 > bytes.len() {
                    return Err(Errno::EINVAL);
                }
                sum_into(&way, protocol, &mut bytes, at);
            }
            if matches!(protocol, ICMP | ICMP6) && bytes.len() < ICMP_LEAST {
                return Err(Errno::EFAULT);
            }
            packet_of(&way, protocol, &bytes).ok_or(Errno::EMSGSIZE)?
        };
        if is_inside {
            self.arrive_inside(&packet, changes);
        } else if self.has_calm() {
            self.command_with(Command::Packet { bytes: &[] }, packet);
        }
        Ok(())
    }

    /// Does anybody hear what goes by inside of the machine?
    pub(crate) fn is_heard(&self) -> bool {
        !self.raws.is_empty() || !self.watchers.is_empty()
    }

    /// A packet that somebody has made arrives at this machine itself.
    fn arrive_inside(&mut self, packet: &[u8], changes: &mut Changes) {
        self.see_inside(packet, changes);
        let Some(parts) = Parts::of(packet, false) else { return };
        let Parts { way, protocol, payload } = parts;
        if !self.is_local(way.to.ip()) {
            return;
        }
        let was_heard = self.hear(&parts, packet, changes);
        match protocol {
            ICMP | ICMP6 => self.answer_inside(&way, protocol, payload, changes),
            UDP => self.arrive_udp(&way, payload, changes),
            // Connections inside of the machine have no segments: none belongs to one.
            TCP => {}
            _ if !was_heard => self.say_unreachable(&way, false, packet, changes),
            _ => {}
        }
    }

    /// Answers a request for an echo.
    fn answer_inside(&mut self, way: &Passage, protocol: u8, bytes: &[u8], changes: &mut Changes) {
        let is_v6 = protocol == ICMP6;
        let is_right = match is_v6 {
            true => sum_with(way, ICMP6, bytes) == 0,
            false => checksum(bytes) == 0,
        };
        let is_request = bytes.len() >= ECHO_HEAD && bytes[0] == ECHO_REQUEST[usize::from(is_v6)];
        if !is_request || !is_right || is_v6 != way.to.is_ipv6() {
            return;
        }
        let back = Passage::inside(way.to, way.from);
        let back = Passage { class: way.class, ..back };
        let mut answer = answer_to(bytes.to_vec(), is_v6);
        sum_message(&back, protocol, &mut answer);
        self.pass_inside(&back, protocol, &answer, changes);
        // One that was asked for by a number, which a socket for echoes has, is that one's.
        let ident = u16::from_be_bytes([answer[4], answer[5]]);
        if let Some(&number) = self.ports.at(Kind::Echo, ident).first() {
            let payer = self.get(number).map_or(0, |socket| socket.uid);
            self.deliver(number, answer, (back, payer), changes);
        }
    }

    fn arrive_udp(&mut self, way: &Passage, udp: &[u8], changes: &mut Changes) {
        let word = |at: usize| udp.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word));
        let words = [word(0), word(2), word(4), word(6)];
        let [Some(from), Some(to), Some(len), Some(sum)] = words else { return };
        let Some(bytes) = udp.get(UDP_HEAD..len.into()) else { return };
        let is_right = (sum == 0 && way.to.is_ipv4()) || sum_with(way, UDP, udp) == 0;
        if to == 0 || !is_right {
            return;
        }
        let mut way = *way;
        way.from.set_port(from);
        way.to.set_port(to);
        match self.receiver(Kind::Datagram, way.to, way.from) {
            Some(number) => {
                let payer = self.get(number).map_or(0, |socket| socket.uid);
                self.deliver(number, bytes.to_vec(), (way, payer), changes);
            }
            None => self.nobody_inside(&way, bytes, changes),
        }
    }

    /// A datagram went from one socket of this machine to another one, or to nobody.
    pub(crate) fn udp_went_inside(&mut self, way: &Passage, bytes: &[u8], changes: &mut Changes) {
        if self.is_heard() {
            self.pass_inside(way, UDP, &udp_of(way, bytes), changes);
        }
    }

    /// Nobody has the port that a datagram was for: that is said.
    pub(crate) fn nobody_inside(&mut self, way: &Passage, bytes: &[u8], changes: &mut Changes) {
        if self.is_heard() {
            if let Some(packet) = packet_of(way, UDP, &udp_of(way, bytes)) {
                self.say_unreachable(way, true, &packet, changes);
            }
        }
    }

    /// This machine says that nobody has a port, or a protocol.
    fn say_unreachable(
        &mut self,
        way: &Passage,
        is_port: bool,
        packet: &[u8],
        changes: &mut Changes,
    ) {
        const UNREACHABLE: [u8; 2] = [3, 1];
        /// Codes: a port, a protocol. Of IPv6 the latter is another type, with its place.
        const PORT: [u8; 2] = [3, 4];
        const PROTOCOL: u8 = 2;
        const WRONG_V6: (u8, u8) = (4, 1);
        const NEXT_HEAD_AT: u32 = 6;
        let is_v6 = way.to.is_ipv6();
        let which = usize::from(is_v6);
        let (kind, code, info) = match (is_port, is_v6) {
            (true, _) => (UNREACHABLE[which], PORT[which], 0),
            (false, false) => (UNREACHABLE[0], PROTOCOL, 0),
            (false, true) => (WRONG_V6.0, WRONG_V6.1, NEXT_HEAD_AT),
        };
        let quoted =
            packet.len().min(QUOTED[which] + if is_v6 { HEAD_V6 } else { HEAD } + UDP_HEAD);
        let mut message = Vec::from([kind, code, 0, 0]);
        message.extend_from_slice(&info.to_be_bytes());
        message.extend_from_slice(&packet[..quoted]);
        let mut back = Passage::inside(way.to, way.from);
        back.class = if is_v6 { 0 } else { CONTROL };
        let protocol = if is_v6 { ICMP6 } else { ICMP };
        sum_message(&back, protocol, &mut message);
        self.pass_inside(&back, protocol, &message, changes);
    }

    /// A packet goes by inside of the machine: its receiver has what is in it, and raw sockets and those who watch see it.
    pub(crate) fn pass_inside(
        &mut self,
        way: &Passage,
        protocol: u8,
        payload: &[u8],
        changes: &mut Changes,
    ) {
        if !self.is_heard() {
            return;
        }
        let way = Passage { from: plain(way.from), to: plain(way.to), ..*way };
        let Some(packet) = packet_of(&way, protocol, payload) else { return };
        self.see_inside(&packet, changes);
        self.hear(&Parts { way, protocol, payload }, &packet, changes);
    }

    /// A packet has come from outside.
    pub(crate) fn packet_came(&mut self, packet: &[u8], changes: &mut Changes) {
        if let Some(parts) = Parts::of(packet, true) {
            self.hear(&parts, packet, changes);
        }
    }

    /// Raw sockets hear a packet, each at its own expense. Answers whether any wants its protocol.
    fn hear(&mut self, parts: &Parts, packet: &[u8], changes: &mut Changes) -> bool {
        let &Parts { way, protocol, payload } = parts;
        let (from, to) = (way.from.ip(), way.to.ip());
        let way = Passage { from: SocketAddr::new(from, 0), to: SocketAddr::new(to, 0), ..way };
        let is_v6 = to.is_ipv6();
        let mut is_wanted = false;
        // Whoever hears it may be told of it alone: a list of its own.
        for number in self.raws.clone() {
            let Ok(socket) = self.get(number) else { continue };
            let own = socket.local.ip().to_canonical();
            let is_for = own.is_unspecified() || own == to;
            let is_from = socket.remote.is_none_or(|remote| plain(remote).ip() == from);
            let is_family = (socket.family == Family::V6) == is_v6;
            let raw = &socket.raw;
            if raw.protocol != protocol || !is_for || !is_from || !is_family || socket.is_deaf {
                continue;
            }
            is_wanted = true;
            let is_blocked = payload.first().is_some_and(|&kind| raw.blocks(kind));
            let is_wrong = is_v6 && raw.sum_at.is_some() && sum_with(&way, protocol, payload) != 0;
            if is_blocked || is_wrong {
                continue;
            }
            let (uid, bytes) = (socket.uid, if is_v6 { payload } else { packet });
            let network = callfilter::packets::Packet {
                bytes,
                frame: &[],
                network: packet,
                protocol: crate::packet::kind_of(packet),
                kind: 0,
                device: if way.is_outside { crate::control::AWAY } else { crate::control::LO },
                device_kind: 0,
            };
            if let Some(kept) = socket.kept(&network) {
                self.deliver(number, bytes[..kept].to_vec(), (way, uid), changes);
            }
        }
        is_wanted
    }

    /// What was said of a datagram inside of the machine that nobody wanted, to whom it is told.
    pub(crate) fn was_refused(
        &mut self,
        number: Number,
        way: &Passage,
        bytes: Vec<u8>,
        changes: &mut Changes,
    ) {
        self.nobody_inside(way, &bytes, changes);
        // Who is connected hears nothing of what went elsewhere.
        let remote = self.get(number).ok().and_then(|socket| socket.remote);
        if remote.is_some_and(|remote| plain(remote) != plain(way.to)) {
            return;
        }
        let report = Report::nobody_there((way.from, way.to), bytes);
        self.was_told(number, report, true, changes);
    }
}

/// A packet whose head somebody has made: what the system knows better is written.
///
/// # Errors
/// `EINVAL`: it is none.
fn complete(way: &Passage, mut packet: Vec<u8>) -> Result<Vec<u8>, Errno> {
    let version = packet.first().ok_or(Errno::EINVAL)? >> 4;
    match way.from.ip() {
        IpAddr::V4(source) => {
            let head = usize::from(packet[0] & 0xf) * 4;
            if packet.len() < HEAD || head < HEAD || head > packet.len() || version != 4 {
                return Err(Errno::EINVAL);
            }
            let all = u16::try_from(packet.len()).map_err(|_| Errno::EMSGSIZE)?;
            packet[2..4].copy_from_slice(&all.to_be_bytes());
            if packet[12..16] == [0; 4] {
                packet[12..16].copy_from_slice(&source.octets());
            }
            sum_head(&mut packet);
        }
        IpAddr::V6(_) => {
            if packet.len() < HEAD_V6 || version != 6 {
                return Err(Errno::EINVAL);
            }
        }
    }
    Ok(packet)
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
