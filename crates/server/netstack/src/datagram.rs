//! Datagrams, and echo requests: packets that are made here, and wait for the way there to be found.

use crate::Events;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use netproto::{Event, Protocol};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::raw::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::wire::{
    Icmpv4Packet, IpProtocol, IpVersion, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

/// Packets that wait to be told, and their bytes.
const WAITING: usize = 64;
const WAITING_BYTES: usize = 128 * 1024;
/// Packets that wait to be sent.
const OUTGOING: usize = 64;
/// Microseconds for which one waits.
const PATIENCE: i64 = 3_000_000;
/// Bytes of the head of a datagram.
const HEAD: usize = 8;

fn number_of(protocol: Protocol) -> IpProtocol {
    match protocol {
        Protocol::Udp => IpProtocol::Udp,
        Protocol::Echo => IpProtocol::Icmp,
    }
}

fn raw(
    protocol: Protocol,
    from: PacketBuffer<'static>,
    to: PacketBuffer<'static>,
) -> Socket<'static> {
    Socket::new(Some(IpVersion::Ipv4), Some(number_of(protocol)), from, to)
}

fn buffer(packets: usize, bytes: usize) -> PacketBuffer<'static> {
    PacketBuffer::new(vec![PacketMetadata::EMPTY; packets], vec![0; bytes])
}

/// A packet that is to be sent. Each is a socket of its own: one whose receiver cannot be found is in nobody's way.
pub struct Outgoing {
    pub set: SocketSet<'static>,
    handle: SocketHandle,
    until: i64,
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
    pub outgoing: VecDeque<Outgoing>,
}

/// Where datagrams come to: only as long as anybody wants some.
struct Came {
    set: SocketSet<'static>,
    handles: [(Protocol, SocketHandle); 2],
}

impl Datagrams {
    /// Where those that come are put.
    pub fn came(&mut self) -> &mut SocketSet<'static> {
        let came = self.came.get_or_insert_with(|| {
            let mut set = SocketSet::new(Vec::with_capacity(2));
            let handles = [Protocol::Udp, Protocol::Echo].map(|protocol| {
                let from = buffer(WAITING, WAITING_BYTES);
                (protocol, set.add(raw(protocol, from, buffer(0, 0))))
            });
            Came { set, handles }
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
        hops: u8,
        bytes: &[u8],
        now: i64,
    ) {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (local.ip(), remote.ip()) else { return };
        if self.outgoing.len() >= OUTGOING {
            return;
        }
        let ports = (local.port(), remote.port());
        let Some(packet) = make(protocol, (from, to), ports, hops, bytes) else { return };
        let mut socket = raw(protocol, buffer(0, 0), buffer(1, packet.len()));
        if socket.send_slice(&packet).is_err() {
            return;
        }
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(socket);
        self.outgoing.push_back(Outgoing { set, handle, until: now + PATIENCE });
    }

    /// Tells of those that have come and that `wanted` wants. `false`: there was no room for all.
    pub fn tell(
        &mut self,
        mut wanted: impl FnMut(Protocol, u16) -> bool,
        events: &mut impl Events,
    ) -> bool {
        let Some(came) = &mut self.came else { return true };
        for (protocol, handle) in came.handles {
            let socket = came.set.get_mut::<Socket>(handle);
            while let Ok(packet) = socket.peek() {
                let told = event(protocol, packet).filter(|event| match event {
                    Event::Datagram { local, .. } => wanted(protocol, local.port()),
                    _ => false,
                });
                if told.is_some_and(|event| !events.tell(&event)) {
                    return false;
                }
                let _ = socket.recv();
            }
        }
        true
    }
}

/// A whole packet.
fn make(
    protocol: Protocol,
    (from, to): (Ipv4Addr, Ipv4Addr),
    (source, target): (u16, u16),
    hops: u8,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let head = if protocol == Protocol::Udp { HEAD } else { 0 };
    let sums = ChecksumCapabilities::default();
    let ip = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: number_of(protocol),
        payload_len: head + bytes.len(),
        hop_limit: hops.max(1),
    };
    let all = ip.buffer_len() + ip.payload_len;
    let mut packet = vec![0; u16::try_from(all).ok()?.into()];
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &sums);
    let inner = &mut packet[ip.buffer_len()..];
    match protocol {
        Protocol::Udp => {
            let udp = UdpRepr { src_port: source, dst_port: target };
            udp.emit(
                &mut UdpPacket::new_unchecked(inner),
                &from.into(),
                &to.into(),
                bytes.len(),
                |payload| payload.copy_from_slice(bytes),
                &sums,
            );
        }
        Protocol::Echo => {
            inner.copy_from_slice(bytes);
            Icmpv4Packet::new_checked(inner).ok()?.fill_checksum();
        }
    }
    Some(packet)
}

/// What is told of a packet.
fn event(protocol: Protocol, packet: &[u8]) -> Option<Event<'_>> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    let (from, to) = (ip.src_addr(), ip.dst_addr());
    let inner = ip.payload();
    let (ports, bytes) = match protocol {
        Protocol::Udp => {
            let udp = UdpPacket::new_checked(inner).ok()?;
            if !udp.verify_checksum(&from.into(), &to.into()) || udp.src_port() == 0 {
                return None;
            }
            let bytes = inner.get(HEAD..udp.len().into())?;
            ((udp.dst_port(), udp.src_port()), bytes)
        }
        Protocol::Echo => {
            let echo = Icmpv4Packet::new_checked(inner).ok()?;
            if !echo.verify_checksum() {
                return None;
            }
            ((echo.echo_ident(), 0), inner)
        }
    };
    Some(Event::Datagram {
        protocol,
        local: SocketAddr::new(to.into(), ports.0),
        remote: SocketAddr::new(from.into(), ports.1),
        bytes,
    })
}
