//! Datagrams, and echo requests: packets that are made here, and wait for the way there to be found.

use crate::parts::cut;
use crate::port::{Mark, IP_HEAD};
use crate::router::Place;
use crate::Events;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use netproto::{Event, Protocol};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::raw::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::wire::{
    Icmpv4Packet, Icmpv6Packet, IpProtocol, IpVersion, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    UdpPacket, UdpRepr,
};

/// Packets that wait to be told, and their bytes.
const WAITING: usize = 64;
const WAITING_BYTES: usize = 128 * 1024;
/// Packets that wait to be sent.
const OUTGOING: usize = 64;
/// Microseconds for which one waits.
const PATIENCE: i64 = 3_000_000;
/// An odd number: numbers of packets come again when there were all.
const IDENT_STEP: u32 = 0x9e37_79b1;
/// Bytes of the head of a datagram.
const HEAD: usize = 8;

/// What is waited for.
const KINDS: [(Protocol, IpVersion); 4] = [
    (Protocol::Udp, IpVersion::Ipv4),
    (Protocol::Echo, IpVersion::Ipv4),
    (Protocol::Udp, IpVersion::Ipv6),
    (Protocol::Echo, IpVersion::Ipv6),
];

fn number_of(protocol: Protocol, version: IpVersion) -> IpProtocol {
    match (protocol, version) {
        (Protocol::Udp, _) => IpProtocol::Udp,
        (Protocol::Echo, IpVersion::Ipv4) => IpProtocol::Icmp,
        (Protocol::Echo, IpVersion::Ipv6) => IpProtocol::Icmpv6,
    }
}

fn buffer(packets: usize, bytes: usize) -> PacketBuffer<'static> {
    PacketBuffer::new(vec![PacketMetadata::EMPTY; packets], vec![0; bytes])
}

/// A packet that is to be sent. Each is a socket of its own: one whose receiver cannot be found is in nobody's way.
pub struct Outgoing {
    pub set: SocketSet<'static>,
    handle: SocketHandle,
    until: i64,
    pub mark: Mark,
}

impl Outgoing {
    /// Is it still to be sent?
    pub fn waits(&self, now: i64) -> bool {
        self.set.get::<Socket>(self.handle).send_queue() > 0 && now < self.until
    }
}

/// Datagrams that have come and were not told, and those that are to be sent.
#[derive(Default)]
pub struct Datagrams {
    came: Option<Came>,
    /// What was said of those that were sent and did not arrive.
    undelivered: VecDeque<Undelivered>,
    /// The number of the latest packet of IPv6 that went in parts.
    ident: u32,
    pub outgoing: VecDeque<Outgoing>,
}

/// Where datagrams come to: only as long as anybody wants some.
struct Came {
    set: SocketSet<'static>,
    handles: [(Protocol, SocketHandle); KINDS.len()],
    /// The type of service of each packet that waits: `smoltcp` does not keep it.
    classes: [VecDeque<u8>; KINDS.len()],
    /// Bytes that waited when that was last looked at.
    waited: [usize; KINDS.len()],
}

/// A message about a datagram that did not arrive.
struct Undelivered {
    protocol: Protocol,
    local: SocketAddr,
    remote: SocketAddr,
    by: SocketAddr,
    hops: u8,
    kind: u8,
    code: u8,
    info: u32,
    bytes: Vec<u8>,
}

impl Datagrams {
    /// None. `seed`: nobody knows it.
    pub fn new(seed: u64) -> Datagrams {
        Datagrams { ident: (seed >> 32) as u32, ..Datagrams::default() }
    }

    /// Where those that come are put.
    pub fn came(&mut self) -> &mut SocketSet<'static> {
        let came = self.came.get_or_insert_with(|| {
            let mut set = SocketSet::new(Vec::with_capacity(KINDS.len()));
            let handles = KINDS.map(|(protocol, version)| {
                let (from, to) = (buffer(WAITING, WAITING_BYTES), buffer(0, 0));
                let number = number_of(protocol, version);
                (protocol, set.add(Socket::new(Some(version), Some(number), from, to)))
            });
            Came { set, handles, classes: Default::default(), waited: [0; KINDS.len()] }
        });
        &mut came.set
    }

    /// Nobody wants any.
    pub fn forget_came(&mut self) {
        self.came = None;
    }

    /// Sends one: lost if too many wait, or if it cannot be.
    pub fn send(
        &mut self,
        protocol: Protocol,
        (local, remote): (SocketAddr, SocketAddr),
        (hops, class): (u8, u8),
        bytes: &[u8],
        (mtu, now): (u16, i64),
    ) {
        if self.outgoing.len() >= OUTGOING || remote.ip().is_unspecified() {
            return;
        }
        let ports = (local.port(), remote.port());
        let packets = match (local.ip(), remote.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                make(protocol, (from, to), ports, hops, bytes).into_iter().collect()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let packet = make_v6(protocol, (from, to), ports, hops, bytes);
                packet.map_or(Vec::new(), |packet| self.cut(packet, mtu))
            }
            _ => Vec::new(),
        };
        self.queue(&packets, Mark::Class(class), now);
    }

    /// A packet of IPv6 as those that it goes in: others on the way do not cut it.
    fn cut(&mut self, packet: Vec<u8>, mtu: u16) -> Vec<Vec<u8>> {
        self.ident = self.ident.wrapping_add(IDENT_STEP);
        cut(packet, mtu.into(), self.ident)
    }

    /// Sends a packet that somebody has made: lost as above. `mtu`: with more bytes than that it goes in parts, of which, with IPv4, only the type of service is
    /// as it says.
    pub fn send_packet(&mut self, packet: &[u8], mtu: u16, now: i64) {
        if packet.first().is_some_and(|first| first >> 4 == 6) {
            return self.send_packet_v6(packet, mtu, now);
        }
        let Some((&head, rest)) = packet.split_first_chunk::<IP_HEAD>() else { return };
        // `smoltcp` asserts that a packet is for somebody.
        let is_right = head[0] >> 4 == 4
            && usize::from(head[0] & 0xf) * 4 <= packet.len()
            && head[16..] != [0; 4];
        if !is_right || u16::try_from(packet.len()).is_err() || self.outgoing.len() >= OUTGOING {
            return;
        }
        let is_whole = packet.len() <= mtu.into();
        // Options of the head pass as bytes behind it.
        let mut whole = vec![0; packet.len()];
        let ip = Ipv4Repr {
            src_addr: Ipv4Addr::from([head[12], head[13], head[14], head[15]]),
            dst_addr: Ipv4Addr::from([head[16], head[17], head[18], head[19]]),
            next_header: IpProtocol::from(head[9]),
            payload_len: rest.len(),
            hop_limit: head[8],
        };
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut whole[..]), &ChecksumCapabilities::default());
        whole[IP_HEAD..].copy_from_slice(rest);
        let mark = if is_whole { Mark::Head(head) } else { Mark::Class(head[1]) };
        self.queue(&[whole], mark, now);
    }

    fn send_packet_v6(&mut self, packet: &[u8], mtu: u16, now: i64) {
        // As above; and a packet without hops is none.
        let Ok(ip) = Ipv6Packet::new_checked(packet) else { return };
        let is_right = ip.total_len() == packet.len() && !ip.dst_addr().is_unspecified();
        if !is_right || ip.hop_limit() == 0 || self.outgoing.len() >= OUTGOING {
            return;
        }
        let class = ip.traffic_class();
        let packets = self.cut(packet.to_vec(), mtu);
        self.queue(&packets, Mark::Class(class), now);
    }

    /// Packets that go to the same receiver, one after the other.
    fn queue(&mut self, packets: &[Vec<u8>], mark: Mark, now: i64) {
        let to = buffer(packets.len(), packets.iter().map(Vec::len).sum());
        let mut socket = Socket::new(None, None, buffer(0, 0), to);
        if packets.is_empty() || packets.iter().any(|packet| socket.send_slice(packet).is_err()) {
            return;
        }
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(socket);
        self.outgoing.push_back(Outgoing { set, handle, until: now + PATIENCE, mark });
    }

    /// Tells of those that have come and that `wanted` wants. `false`: there was no room for all.
    pub fn tell(
        &mut self,
        mut wanted: impl FnMut(Protocol, u16) -> bool,
        events: &mut impl Events,
    ) -> bool {
        while let Some(first) = self.undelivered.front() {
            let Undelivered { protocol, local, remote, by, hops, kind, code, info, .. } = *first;
            let bytes = &first.bytes[..];
            let event =
                Event::Undelivered { protocol, local, remote, by, hops, kind, code, info, bytes };
            if wanted(protocol, local.port()) && !events.tell(&event) {
                return false;
            }
            self.undelivered.pop_front();
        }
        let Some(came) = &mut self.came else { return true };
        for (which, (protocol, handle)) in came.handles.into_iter().enumerate() {
            let socket = came.set.get_mut::<Socket>(handle);
            while let Ok(packet) = socket.peek() {
                let class = came.classes[which].front().copied().unwrap_or(0);
                let told = event(protocol, class, packet).filter(|event| match event {
                    Event::Datagram { local, .. } => wanted(protocol, local.port()),
                    _ => false,
                });
                if told.is_some_and(|event| !events.tell(&event)) {
                    return false;
                }
                let _ = socket.recv();
                came.classes[which].pop_front();
                came.waited[which] = socket.recv_queue();
            }
        }
        true
    }

    /// A frame with a packet, or the last part of one, was given to those that wait: its type of service is kept if it is among them.
    pub fn has_come(&mut self, frame: &[u8]) {
        let Some(came) = &mut self.came else { return };
        let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
        let class = match byte(14) >> 4 {
            6 => byte(14) << 4 | byte(15) >> 4,
            _ => byte(15),
        };
        for (which, (_, handle)) in came.handles.into_iter().enumerate() {
            let waits = came.set.get::<Socket>(handle).recv_queue();
            if waits > came.waited[which] {
                came.classes[which].push_back(class);
            }
            came.waited[which] = waits;
        }
    }

    /// A frame says of a datagram from this machine that it has not arrived.
    pub fn not_delivered(&mut self, frame: &[u8], (home, place): (Ipv4Addr, Place)) {
        if self.undelivered.len() < WAITING {
            let said = frame.get(14..).and_then(|packet| match packet.first()? >> 4 {
                6 => undelivered_v6(packet, place),
                _ => undelivered(packet, home),
            });
            self.undelivered.extend(said);
        }
    }
}

/// Writes what a packet carries: a datagram with its head, or an echo request as it is. With its checksum.
fn write_payload(
    protocol: Protocol,
    (from, to): (IpAddr, IpAddr),
    (source, target): (u16, u16),
    bytes: &[u8],
    payload: &mut [u8],
) -> Option<()> {
    match protocol {
        Protocol::Udp => UdpRepr { src_port: source, dst_port: target }.emit(
            &mut UdpPacket::new_unchecked(payload),
            &from.into(),
            &to.into(),
            bytes.len(),
            |inner| inner.copy_from_slice(bytes),
            &ChecksumCapabilities::default(),
        ),
        Protocol::Echo => {
            payload.copy_from_slice(bytes);
            match (from, to) {
                (IpAddr::V6(from), IpAddr::V6(to)) => {
                    Icmpv6Packet::new_checked(payload).ok()?.fill_checksum(&from, &to);
                }
                _ => Icmpv4Packet::new_checked(payload).ok()?.fill_checksum(),
            }
        }
    }
    Some(())
}

/// Bytes of what [`write_payload`] writes.
fn payload_len(protocol: Protocol, bytes: &[u8]) -> usize {
    bytes.len() + if protocol == Protocol::Udp { HEAD } else { 0 }
}

/// A whole packet.
fn make(
    protocol: Protocol,
    (from, to): (Ipv4Addr, Ipv4Addr),
    ports: (u16, u16),
    hops: u8,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let ip = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: number_of(protocol, IpVersion::Ipv4),
        payload_len: payload_len(protocol, bytes),
        hop_limit: hops.max(1),
    };
    let all = ip.buffer_len() + ip.payload_len;
    let mut packet = vec![0; u16::try_from(all).ok()?.into()];
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &ChecksumCapabilities::default());
    let payload = &mut packet[ip.buffer_len()..];
    write_payload(protocol, (from.into(), to.into()), ports, bytes, payload)?;
    Some(packet)
}

/// The same of IPv6.
fn make_v6(
    protocol: Protocol,
    (from, to): (Ipv6Addr, Ipv6Addr),
    ports: (u16, u16),
    hops: u8,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let ip = Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: number_of(protocol, IpVersion::Ipv6),
        payload_len: payload_len(protocol, bytes),
        hop_limit: hops.max(1),
    };
    u16::try_from(ip.payload_len).ok()?;
    let mut packet = vec![0; ip.buffer_len() + ip.payload_len];
    ip.emit(&mut Ipv6Packet::new_unchecked(&mut packet[..]));
    let payload = &mut packet[ip.buffer_len()..];
    write_payload(protocol, (from.into(), to.into()), ports, bytes, payload)?;
    Some(packet)
}

/// What a packet of IPv6 says of a datagram that has not arrived; `None`: nothing that could be true.
fn undelivered_v6(packet: &[u8], place: Place) -> Option<Undelivered> {
    const TOO_LONG: u8 = 2;
    const WRONG: u8 = 4;
    const ICMP_HEAD: usize = 8;
    const IP_HEAD: usize = 40;
    let ip = Ipv6Packet::new_checked(packet).ok()?;
    let (by, message) = (ip.src_addr(), ip.payload());
    let is_right = Icmpv6Packet::new_checked(message).ok()?.verify_checksum(&by, &ip.dst_addr());
    let about = message.get(ICMP_HEAD..)?;
    let inner = about.get(IP_HEAD..).filter(|_| about[0] >> 4 == 6)?;
    let from = Ipv6Addr::from(*about.get(8..)?.first_chunk::<16>()?);
    let to = Ipv6Addr::from(*about.get(24..)?.first_chunk::<16>()?);
    if !is_right || !place.has(ip.dst_addr()) || !place.has(from) {
        return None;
    }
    let short = |at: usize| Some(u16::from_be_bytes(*inner.get(at..)?.first_chunk()?));
    let (protocol, ports, bytes) = match about[6] {
        17 => (Protocol::Udp, (short(0)?, short(2)?), inner.get(HEAD..)?),
        58 => (Protocol::Echo, (short(4)?, 0), inner),
        _ => return None,
    };
    let info = match message[0] {
        TOO_LONG | WRONG => u32::from_be_bytes(*message.get(4..)?.first_chunk()?),
        _ => 0,
    };
    Some(Undelivered {
        protocol,
        local: SocketAddr::new(from.into(), ports.0),
        remote: SocketAddr::new(to.into(), ports.1),
        by: SocketAddr::new(by.into(), 0),
        hops: ip.hop_limit(),
        kind: message[0],
        code: message[1],
        info,
        bytes: bytes.to_vec(),
    })
}

/// What a packet says of a datagram that has not arrived; `None`: nothing that could be true.
fn undelivered(packet: &[u8], home: Ipv4Addr) -> Option<Undelivered> {
    const TOO_LONG: (u8, u8) = (3, 4);
    const WRONG: u8 = 12;
    const ICMP_HEAD: usize = 8;
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    let message = ip.payload();
    if !ip.verify_checksum() || ip.dst_addr() != home {
        return None;
    }
    if !Icmpv4Packet::new_checked(message).ok()?.verify_checksum() {
        return None;
    }
    let (kind, code) = (message[0], message[1]);
    let about = message.get(ICMP_HEAD..)?;
    let (version, head) = (about.first()? >> 4, usize::from(about.first()? & 0xf) * 4);
    let inner = about.get(head..).filter(|_| version == 4 && head >= 20)?;
    let from = Ipv4Addr::from(*about.get(12..16)?.first_chunk::<4>()?);
    let to = Ipv4Addr::from(*about.get(16..20)?.first_chunk::<4>()?);
    let short = |at: usize| Some(u16::from_be_bytes(*inner.get(at..)?.first_chunk()?));
    let (protocol, ports, bytes) = match about[9] {
        17 => (Protocol::Udp, (short(0)?, short(2)?), inner.get(HEAD..)?),
        // Of an echo request its own head counts as bytes.
        1 => (Protocol::Echo, (short(4)?, 0), inner),
        _ => return None,
    };
    if from != home {
        return None;
    }
    let info = match (kind, code) {
        TOO_LONG => u16::from_be_bytes([message[6], message[7]]).into(),
        (WRONG, _) => message[4].into(),
        _ => 0,
    };
    Some(Undelivered {
        protocol,
        local: SocketAddr::new(from.into(), ports.0),
        remote: SocketAddr::new(to.into(), ports.1),
        by: SocketAddr::new(ip.src_addr().into(), 0),
        hops: ip.hop_limit(),
        kind,
        code,
        info,
        bytes: bytes.to_vec(),
    })
}

/// What is told of a packet.
fn event(protocol: Protocol, class: u8, packet: &[u8]) -> Option<Event<'_>> {
    let (from, to, hops, inner): (IpAddr, IpAddr, u8, &[u8]) = match packet.first()? >> 4 {
        6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            (ip.src_addr().into(), ip.dst_addr().into(), ip.hop_limit(), ip.payload())
        }
        _ => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            (ip.src_addr().into(), ip.dst_addr().into(), ip.hop_limit(), ip.payload())
        }
    };
    let (ports, bytes) = match protocol {
        Protocol::Udp => {
            let udp = UdpPacket::new_checked(inner).ok()?;
            if !udp.verify_checksum(&from.into(), &to.into()) || udp.src_port() == 0 {
                return None;
            }
            let bytes = inner.get(HEAD..udp.len().into())?;
            ((udp.dst_port(), udp.src_port()), bytes)
        }
        Protocol::Echo => match (from, to) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                const ANSWER: u8 = 129;
                let echo = Icmpv6Packet::new_checked(inner).ok()?;
                if !echo.verify_checksum(&from, &to) || inner[0] != ANSWER {
                    return None;
                }
                ((echo.echo_ident(), 0), inner)
            }
            _ => {
                let echo = Icmpv4Packet::new_checked(inner).ok()?;
                if !echo.verify_checksum() {
                    return None;
                }
                ((echo.echo_ident(), 0), inner)
            }
        },
    };
    Some(Event::Datagram {
        protocol,
        local: SocketAddr::new(to, ports.0),
        remote: SocketAddr::new(from, ports.1),
        hops,
        class,
        bytes,
    })
}
