//! Frames and packets that somebody wants to see whoever they are for, and frames that somebody has made. Of those that are seen some are lost where they are
//! not read as fast as they come: nothing waits for who watches.

use crate::port::{Mark, Port, IP_HEAD};
use crate::{Event, Events, Home, Unsummed, Wire};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::raw::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetAddress, HardwareAddress, IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet,
    IPV6_LINK_LOCAL_ALL_NODES,
};

/// Bytes that wait to be told, and of frames that wait to be sent, at most.
const WAITING: usize = 256 * 1024;
const SENDING: usize = 64 * 1024;
/// What each counts besides its bytes.
const OVERHEAD: usize = 64;
/// Bytes of the head of a frame.
const HEAD: usize = 14;
/// Bytes of the largest packet.
const LARGEST: usize = 65_535;

enum Seen {
    Frame { is_sent: bool, lost: u32, bytes: Vec<u8> },
    Packet(Vec<u8>),
}

impl Seen {
    fn cost(&self) -> usize {
        match self {
            Seen::Frame { bytes, .. } | Seen::Packet(bytes) => bytes.len() + OVERHEAD,
        }
    }
}

/// See above.
#[derive(Default)]
pub struct Watch {
    frames: bool,
    packets: bool,
    seen: VecDeque<Seen>,
    seen_bytes: usize,
    /// Frames that were not told.
    lost: u32,
    /// Packets in parts that are put together.
    parts: Option<Box<Parts>>,
    sending: VecDeque<Vec<u8>>,
    sending_bytes: usize,
}

/// Puts packets together that come in parts: what `smoltcp` does for itself it does for nobody else.
struct Parts {
    iface: Interface,
    set: SocketSet<'static>,
    handle: SocketHandle,
}

/// A wire that is looked at.
pub struct Watched<'a, W> {
    wire: &'a mut W,
    watch: &'a mut Watch,
}

impl<W: Wire> Wire for Watched<'_, W> {
    fn has_room(&mut self) -> bool {
        self.wire.has_room()
    }

    fn send<R>(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let watch = &mut *self.watch;
        self.wire.send(bytes, |frame| {
            let result = fill(frame);
            watch.see(true, frame);
            result
        })
    }

    fn sums(&self) -> bool {
        self.wire.sums()
    }

    fn send_unsummed<R>(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> (R, Option<Unsummed>),
    ) -> R {
        let watch = &mut *self.watch;
        self.wire.send_unsummed(bytes, |frame| {
            let result = fill(frame);
            watch.see(true, frame);
            result
        })
    }
}

/// A wire that leads nowhere.
struct Nowhere;

impl Wire for Nowhere {
    fn has_room(&mut self) -> bool {
        true
    }
    fn send<R>(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        fill(&mut vec![0; bytes])
    }
}

impl Watch {
    /// What is wanted from now on.
    pub fn set(&mut self, frames: bool, packets: bool) {
        (self.frames, self.packets) = (frames, packets);
        if !packets {
            self.parts = None;
        }
        if !frames {
            self.lost = 0;
        }
        self.seen.retain(|one| match one {
            Seen::Frame { .. } => frames,
            Seen::Packet(_) => packets,
        });
        self.seen_bytes = self.seen.iter().map(Seen::cost).sum();
    }

    /// The wire, so that what is sent is seen.
    pub fn over<'a, W: Wire>(&'a mut self, wire: &'a mut W) -> Watched<'a, W> {
        Watched { wire, watch: self }
    }

    fn put(&mut self, seen: Seen) -> bool {
        let cost = seen.cost();
        let has_room = self.seen_bytes + cost <= WAITING;
        if has_room {
            self.seen_bytes += cost;
            self.seen.push_back(seen);
        }
        has_room
    }

    fn see(&mut self, is_sent: bool, frame: &[u8]) {
        if !self.frames {
            return;
        }
        let lost = core::mem::take(&mut self.lost);
        if !self.put(Seen::Frame { is_sent, lost, bytes: frame.to_vec() }) {
            self.lost = lost.saturating_add(1);
        }
    }

    /// A frame has come.
    pub fn came(&mut self, frame: &[u8], (home, iface): (&Home, &Interface), now: i64) {
        self.see(false, frame);
        if !self.packets {
            return;
        }
        let Some(packet) = packet_for(frame, home, iface) else { return };
        let is_part =
            packet[0] >> 4 == 4 && u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
        if !is_part {
            // Without room it is lost, as from any queue.
            self.put(Seen::Packet(packet.to_vec()));
            return;
        }
        let parts = self.parts.get_or_insert_with(|| Box::new(Parts::new(home, now)));
        if let Some(whole) = parts.put(frame, home.mtu, now) {
            self.put(Seen::Packet(whole));
        }
    }

    /// Are packets wanted?
    pub fn wants_packets(&self) -> bool {
        self.packets
    }

    /// The parts of a packet of IPv6 have come: this frame, as a whole.
    pub fn came_whole(&mut self, frame: &[u8], (home, iface): (&Home, &Interface)) {
        if let Some(packet) = packet_for(frame, home, iface).filter(|_| self.packets) {
            self.put(Seen::Packet(packet.to_vec()));
        }
    }

    /// Sends a frame that somebody has made.
    pub fn send(&mut self, frame: &[u8], mtu: u16) {
        let is_right = (HEAD..=HEAD + usize::from(mtu)).contains(&frame.len());
        let cost = frame.len() + OVERHEAD;
        if is_right && self.sending_bytes + cost <= SENDING {
            self.sending_bytes += cost;
            self.sending.push_back(frame.to_vec());
        }
    }

    /// Are there any that are to be sent?
    pub fn sends(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Sends and tells what there is to send and to tell. Answers whether something is left.
    pub fn run(&mut self, wire: &mut impl Wire, events: &mut impl Events) -> bool {
        while let Some(frame) = self.sending.pop_front() {
            if !wire.has_room() {
                self.sending.push_front(frame);
                break;
            }
            self.sending_bytes -= frame.len() + OVERHEAD;
            wire.send(frame.len(), |to| to.copy_from_slice(&frame));
            self.see(true, &frame);
        }
        while let Some(seen) = self.seen.front() {
            let event = match seen {
                Seen::Frame { is_sent, lost, bytes } => {
                    Event::Frame { is_sent: *is_sent, lost: *lost, bytes }
                }
                Seen::Packet(bytes) => Event::Packet { bytes },
            };
            if !events.tell_spare(&event) {
                break;
            }
            self.seen_bytes -= seen.cost();
            self.seen.pop_front();
        }
        !self.sending.is_empty() || !self.seen.is_empty()
    }
}

/// The packet in a frame that is for this machine; of IPv6, if it is none that is a part.
fn packet_for<'a>(frame: &'a [u8], home: &Home, iface: &Interface) -> Option<&'a [u8]> {
    const IPV4: [u8; 2] = [8, 0];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    let packet = frame.get(HEAD..)?;
    // To a card, or to many.
    if frame[..6] != home.mac && frame[0] & 1 == 0 {
        return None;
    }
    match &frame[12..14] {
        kind if kind == IPV4 => {}
        kind if kind == IPV6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            let to = ip.dst_addr();
            let is_for = iface.has_ip_addr(to)
                || iface.has_multicast_group(to)
                || to == IPV6_LINK_LOCAL_ALL_NODES;
            let is_whole = ip.next_header() != IpProtocol::Ipv6Frag;
            return (is_for && is_whole).then(|| &packet[..ip.total_len()]);
        }
        _ => return None,
    }
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    let to = ip.dst_addr();
    let all = Ipv4Addr::from(
        u32::from(home.address) | u32::MAX.checked_shr(home.prefix.into()).unwrap_or(0),
    );
    let is_for = to == home.address
        || to.is_broadcast()
        || to == all
        || to.is_multicast() && iface.has_multicast_group(to);
    let is_right = ip.version() == 4 && usize::from(ip.header_len()) >= IP_HEAD;
    (is_for && is_right && ip.verify_checksum()).then(|| &packet[..ip.total_len().into()])
}

impl Parts {
    fn new(home: &Home, now: i64) -> Parts {
        let config = Config::new(HardwareAddress::Ethernet(EthernetAddress(home.mac)));
        let mut port =
            Port { frame: None, wire: &mut Nowhere, mtu: home.mtu, mark: Mark::NONE, sender: None };
        let iface = Interface::new(config, &mut port, Instant::from_micros(now));
        let from = PacketBuffer::new(vec![PacketMetadata::EMPTY; 1], vec![0; LARGEST]);
        let to = PacketBuffer::new(Vec::new(), Vec::new());
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(Socket::new(Some(IpVersion::Ipv4), None, from, to));
        Parts { iface, set, handle }
    }

    /// A part has come. Answers with the packet that it completes.
    fn put(&mut self, frame: &[u8], mtu: u16, now: i64) -> Option<Vec<u8>> {
        let mut port =
            Port { frame: Some(frame), wire: &mut Nowhere, mtu, mark: Mark::NONE, sender: None };
        let _ = self.iface.poll_ingress_single(Instant::from_micros(now), &mut port, &mut self.set);
        let socket = self.set.get_mut::<Socket>(self.handle);
        socket.recv().ok().map(<[u8]>::to_vec)
    }
}
