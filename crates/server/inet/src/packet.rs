//! Packet sockets (`AF_PACKET`, `packet(7)`): they see all frames of an interface, and send any.
//!
//! Inside of the machine there are no frames: they are made of what goes by when somebody looks, as Linux shows them of `lo`, each twice, as it goes and as it
//! comes. Outside the network server tells of each. Whoever sees a frame pays for it, and loses those for which there is no room.

use crate::control::{Passage, AWAY, LO};
use crate::devices::Device;
use crate::socket::{Changes, Inet, Kind, Number, Socket};
use crate::Family;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use callfilter::packets::{Filter, Packet};
use callfilter::Instruction;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use linux_raw_sys::if_arp::{ARPHRD_ETHER, ARPHRD_LOOPBACK};
use netproto::Command;
use unixproto::sockets::AF_PACKET;
use unixproto::Errno;

/// Bytes of the head of a frame, of a card's address, of `struct sockaddr_ll`, and of those before the address in it.
pub(crate) const FRAME_HEAD: usize = 14;
const MAC: usize = 6;
const ADDRESS_BYTES: usize = 20;
const BEFORE_MAC: usize = 12;
/// All protocols (`ETH_P_ALL`), and those of the numbers of Ethernet.
const ALL: u16 = 3;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Memberships of a socket (Linux bounds them by memory).
const MEMBERSHIPS: usize = 64;
/// `struct packet_mreq`: bytes.
const MEMBERSHIP_BYTES: usize = 16;
/// For whom a frame was (`PACKET_HOST` and its relatives).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum For {
    Host = 0,
    All = 1,
    Group = 2,
    Others = 3,
    /// It was sent from here.
    Sent = 4,
}

/// What packet sockets have besides.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    /// Frames come without their heads.
    is_cooked: bool,
    protocol: u16,
    /// 0: of all interfaces.
    device: u32,
    /// Frames since somebody asked (`PACKET_STATISTICS`): those that were to be seen, and of them those that were lost.
    seen: u32,
    lost: u32,
    /// Interface, choice, and address, each as often as it was asked for.
    memberships: Vec<(u32, u16, [u8; 8])>,
}

/// The number of Ethernet for a packet.
pub(crate) fn kind_of(packet: &[u8]) -> u16 {
    match packet.first().map(|byte| byte >> 4) {
        Some(6) => IPV6,
        _ => IPV4,
    }
}

/// The address of a frame, as programs read it. Here it is one of IPv6, which has as many bytes: protocol, interface, kind of that, for whom, length and bytes
/// of the card's address.
pub fn encode(address: SocketAddr) -> Vec<u8> {
    let IpAddr::V6(ip) = address.ip() else { return Vec::new() };
    let [p0, p1, i0, i1, i2, i3, k0, k1, of, len, mac @ ..] = ip.octets();
    let mut bytes = AF_PACKET.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&[p0, p1, i3, i2, i1, i0, k1, k0, of, len]);
    bytes.extend_from_slice(&mac);
    // Of a name only as much is told as there is.
    match len {
        0 => bytes.truncate(BEFORE_MAC),
        _ => bytes.truncate(BEFORE_MAC + usize::from(len)),
    }
    bytes
}

fn address_of(protocol: u16, device: Option<&Device>, of: u8, mac: [u8; MAC]) -> SocketAddr {
    let mut all = [0; 16];
    all[..2].copy_from_slice(&protocol.to_be_bytes());
    if let Some(device) = device {
        all[2..6].copy_from_slice(&device.index.to_be_bytes());
        all[6..8].copy_from_slice(&device.kind.to_be_bytes());
        all[9] = MAC as u8;
        all[10..].copy_from_slice(&mac);
    }
    all[8] = of;
    SocketAddr::new(Ipv6Addr::from(all).into(), 0)
}

/// What a program writes as an address.
struct Target<'a> {
    protocol: u16,
    device: u32,
    mac: &'a [u8],
}

impl Target<'_> {
    fn decode(bytes: &[u8]) -> Result<Target<'_>, Errno> {
        let whole: &[u8; ADDRESS_BYTES] = bytes.first_chunk().ok_or(Errno::EINVAL)?;
        let protocol = u16::from_be_bytes([whole[2], whole[3]]);
        let device = u32::from_ne_bytes([whole[4], whole[5], whole[6], whole[7]]);
        let mac = bytes.get(BEFORE_MAC..BEFORE_MAC + usize::from(whole[11]));
        Ok(Target { protocol, device, mac: mac.ok_or(Errno::EINVAL)? })
    }
}

impl Socket {
    /// How many bytes of a packet its filter keeps; `None`: it is not for it.
    pub(crate) fn kept(&self, packet: &Packet) -> Option<usize> {
        match &self.filter {
            None => Some(packet.bytes.len()),
            Some(filter) => {
                Some(filter.run(packet).min(packet.bytes.len())).filter(|&kept| kept > 0)
            }
        }
    }
}

impl Inet {
    /// Makes a packet socket, which sees frames of a protocol of all interfaces; none if that is 0.
    ///
    /// # Errors
    /// `ENFILE`: the user has too many sockets, or there is no memory.
    pub fn make_packet(
        &mut self,
        is_cooked: bool,
        protocol: u16,
        uid: u32,
    ) -> Result<Number, Errno> {
        let number = self.make(Family::V4, Kind::Packet, uid)?;
        let watching = Watching { is_cooked, protocol, ..Watching::default() };
        self.get_mut(number)?.watching = Some(Box::new(watching));
        self.watchers.push(number);
        self.tell_watch();
        Ok(number)
    }

    fn watching(&self, number: Number) -> Result<&Watching, Errno> {
        self.get(number)?.watching.as_deref().ok_or(Errno::EOPNOTSUPP)
    }

    fn watching_mut(&mut self, number: Number) -> Result<&mut Watching, Errno> {
        self.get_mut(number)?.watching.as_deref_mut().ok_or(Errno::EOPNOTSUPP)
    }

    /// Do frames come without their heads?
    pub fn is_cooked(&self, number: Number) -> Result<bool, Errno> {
        Ok(self.watching(number)?.is_cooked)
    }

    fn device(&self, index: u32) -> Option<Device> {
        self.devices().into_iter().find(|device| device.index == index)
    }

    /// It sees frames of an interface, and of a protocol if the address says one.
    ///
    /// # Errors
    /// `EINVAL`: that is no address. `ENODEV`: there is no such interface.
    pub fn bind_packet(&mut self, number: Number, address: &[u8]) -> Result<(), Errno> {
        let Target { protocol, device, .. } = Target::decode(address)?;
        // Where something is to be sent that is not looked at, as Linux has it.
        if address[..2] != AF_PACKET.to_ne_bytes() {
            return Err(Errno::EINVAL);
        }
        if device != 0 && self.device(device).is_none() {
            return Err(Errno::ENODEV);
        }
        let watching = self.watching_mut(number)?;
        watching.device = device;
        if protocol != 0 {
            watching.protocol = protocol;
        }
        self.tell_watch();
        Ok(())
    }

    /// Its address.
    pub fn packet_name(&self, number: Number) -> Result<SocketAddr, Errno> {
        let watching = self.watching(number)?;
        let device = self.device(watching.device);
        let mac = device.as_ref().map_or([0; MAC], |device| device.mac);
        Ok(address_of(watching.protocol, device.as_ref(), 0, mac))
    }

    /// A thread sends a frame, or what is to be in one, behind the parts that it has sent. Answers how many bytes.
    ///
    /// # Errors
    /// `EINVAL`: it is too short, or the address is none. `ENXIO`: there is no such interface. `EMSGSIZE`: it is too long for that.
    pub fn send_packet(
        &mut self,
        (number, tid): (Number, u32),
        to: Option<&[u8]>,
        bytes: Vec<u8>,
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        let last = bytes.len();
        let (bytes, _) = self.with_parts(number, tid, bytes)?;
        let count = bytes.len();
        let watching = self.watching(number)?;
        let own = Target { protocol: watching.protocol, device: watching.device, mac: &[] };
        let target = to.map_or(Ok(own), Target::decode)?;
        let is_cooked = watching.is_cooked;
        let device = self.device(target.device).ok_or(Errno::ENXIO)?;
        let head = if is_cooked { 0 } else { FRAME_HEAD };
        if count < head {
            return Err(Errno::EINVAL);
        }
        if count > head + device.mtu as usize {
            return Err(Errno::EMSGSIZE);
        }
        let mut frame = Vec::new();
        if is_cooked {
            // A card of the interface's kind; `lo` takes any.
            let to: Option<&[u8; MAC]> = target.mac.first_chunk();
            let to = to.or(device.is_inside().then_some(&[0; MAC])).ok_or(Errno::EINVAL)?;
            frame.extend_from_slice(to);
            frame.extend_from_slice(&device.mac);
            frame.extend_from_slice(&target.protocol.to_be_bytes());
        }
        frame.extend_from_slice(&bytes);
        if device.is_inside() {
            self.see((LO, Some(number)), For::Sent, &frame, changes);
            self.see((LO, None), For::Host, &frame, changes);
            // No packet of this machine to itself comes this way, so nobody else hears it, as Linux has it.
        } else if self.has_calm() {
            self.command_with(Command::Frame { bytes: &[] }, frame);
        }
        Ok(last)
    }

    /// Packets of this machine to itself are seen.
    pub(crate) fn see_inside(&mut self, packet: &[u8], changes: &mut Changes) {
        if self.watchers.is_empty() {
            return;
        }
        let mut frame = Vec::from([0; 2 * MAC]);
        frame.extend_from_slice(&kind_of(packet).to_be_bytes());
        frame.extend_from_slice(packet);
        self.see((LO, None), For::Sent, &frame, changes);
        self.see((LO, None), For::Host, &frame, changes);
    }

    /// A frame has come from outside, or went there, and so many before it were lost.
    pub(crate) fn frame_went(
        &mut self,
        (is_sent, lost): (bool, u32),
        frame: &[u8],
        changes: &mut Changes,
    ) {
        if frame.len() < FRAME_HEAD {
            return;
        }
        for number in self.watchers.clone() {
            if let Ok(watching) = self.watching_mut(number) {
                if watching.device != LO && watching.protocol == ALL {
                    watching.seen = watching.seen.saturating_add(lost);
                    watching.lost = watching.lost.saturating_add(lost);
                }
            }
        }
        let own = self.interface.map_or([0; MAC], |interface| interface.mac);
        let of = match &frame[..MAC] {
            _ if is_sent => For::Sent,
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => For::All,
            to if to[0] & 1 != 0 => For::Group,
            to if to == own => For::Host,
            _ => For::Others,
        };
        self.see((AWAY, None), of, frame, changes);
    }

    /// All who watch an interface see a frame, but for the socket that sends it.
    fn see(
        &mut self,
        (index, sender): (u32, Option<Number>),
        of: For,
        frame: &[u8],
        changes: &mut Changes,
    ) {
        let protocol = u16::from_be_bytes([frame[12], frame[13]]);
        let device_kind = if index == LO { ARPHRD_LOOPBACK } else { ARPHRD_ETHER } as u16;
        let mut way = None;
        for number in self.watchers.clone() {
            let Ok(socket) = self.get(number) else { continue };
            let Some(watching) = &socket.watching else { continue };
            let is_device = watching.device == 0 || watching.device == index;
            // What is sent only they see who see everything.
            let is_of = watching.protocol == ALL
                || of != For::Sent && watching.protocol == protocol && protocol != 0;
            if !is_device || !is_of || sender == Some(number) {
                continue;
            }
            let packet = Packet {
                bytes: if watching.is_cooked { &frame[FRAME_HEAD..] } else { frame },
                frame,
                network: &frame[FRAME_HEAD..],
                protocol,
                kind: of as u8,
                device: index,
                device_kind,
            };
            let Some(kept) = socket.kept(&packet) else { continue };
            let (bytes, uid) = (packet.bytes[..kept].to_vec(), socket.uid);
            let way = *way.get_or_insert_with(|| {
                let mac = *frame[MAC..].first_chunk().unwrap_or(&[0; MAC]);
                let from = address_of(protocol, self.device(index).as_ref(), of as u8, mac);
                let is_outside = index == AWAY;
                Passage { from, to: from, hops: 0, class: 0, is_outside }
            });
            let was_put = self.deliver(number, bytes, (way, uid), changes);
            if let Ok(watching) = self.watching_mut(number) {
                watching.seen = watching.seen.saturating_add(1);
                watching.lost = watching.lost.saturating_add((!was_put).into());
            }
        }
    }

    /// Frames that were to be seen and those that were lost, since this was last asked (`PACKET_STATISTICS`).
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is another kind of socket.
    pub fn take_statistics(&mut self, number: Number) -> Result<[u32; 2], Errno> {
        let watching = self.watching_mut(number)?;
        Ok([core::mem::take(&mut watching.seen), core::mem::take(&mut watching.lost)])
    }

    /// More frames of an interface are wanted, or not any more (`struct packet_mreq`). The device passes on all that it hears in any case, so nothing comes
    /// of it but that it is known.
    ///
    /// # Errors
    /// `EINVAL`: it is not as it is to be. `ENODEV`: there is no such interface.  `ENOBUFS`: there are too many.
    pub fn set_membership(
        &mut self,
        number: Number,
        is_wanted: bool,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let request: &[u8; MEMBERSHIP_BYTES] = bytes.first_chunk().ok_or(Errno::EINVAL)?;
        let (head, address) = request.split_at(8);
        let device = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let len = u16::from_ne_bytes([head[6], head[7]]);
        if bytes.len() < MEMBERSHIP_BYTES - 8 + usize::from(len) {
            return Err(Errno::EINVAL);
        }
        let found = self.device(device);
        let address = *address.first_chunk().ok_or(Errno::EINVAL)?;
        let wanted = (device, kind, address);
        let all = &mut self.watching_mut(number)?.memberships;
        match (is_wanted, all.iter().position(|one| *one == wanted)) {
            (true, _) if found.is_none() => Err(Errno::ENODEV),
            (true, _) if usize::from(len) > MAC => Err(Errno::EINVAL),
            (true, _) if all.len() >= MEMBERSHIPS => Err(Errno::ENOBUFS),
            (true, _) => {
                all.push(wanted);
                Ok(())
            }
            (false, Some(at)) => {
                all.remove(at);
                Ok(())
            }
            // As Linux has it.
            (false, None) => Ok(()),
        }
    }

    /// Only what a filter keeps is heard from now on (`SO_ATTACH_FILTER`): instructions, one behind the other; `None`: everything.
    ///
    /// # Errors
    /// `EINVAL`: it is no filter. `ENOENT`: there is none. `EPERM`: it is locked. `ENOPROTOOPT`: it is another kind of socket. `ENOMEM`: its user has too many.
    pub fn set_filter(&mut self, number: Number, code: Option<&[u8]>) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        if !matches!(socket.kind, Kind::Raw | Kind::Packet) {
            return Err(Errno::ENOPROTOOPT);
        }
        if socket.options.is_set(unixproto::sockets::SO_LOCK_FILTER) {
            return Err(Errno::EPERM);
        }
        let filter = match code {
            None if socket.filter.is_none() => return Err(Errno::ENOENT),
            None => None,
            Some(code) => {
                let (all, rest) = code.as_chunks();
                let all: Vec<Instruction> = all.iter().map(|one| Instruction::read(*one)).collect();
                if !rest.is_empty() {
                    return Err(Errno::EINVAL);
                }
                Some(Rc::new(Filter::check(&all).map_err(|_| Errno::EINVAL)?))
            }
        };
        let cost = |filter: &Option<Rc<Filter>>| filter.as_ref().map_or(0, |one| one.cost());
        let (uid, new, old) = (socket.uid, cost(&filter), cost(&socket.filter));
        if new > old && !self.shares.has_room(uid, new - old) {
            return Err(Errno::ENOMEM);
        }
        self.shares.give_back(uid, old);
        self.shares.take(uid, new);
        self.get_mut(number)?.filter = filter;
        Ok(())
    }

    /// The network server is told what it is to tell of, if that is something else than it was.
    pub(crate) fn tell_watch(&mut self) {
        let frames = self.watchers.iter().any(|&number| {
            self.watching(number).is_ok_and(|one| one.device != LO && one.protocol != 0)
        });
        let packets = self
            .raws
            .iter()
            .any(|&number| self.get(number).is_ok_and(|socket| socket.family == Family::V4));
        let wanted = (frames, packets);
        if self.interface.is_some() && self.is_watched != wanted {
            self.is_watched = wanted;
            self.command(Command::Watch { frames, packets });
        }
    }

    /// A raw socket or a packet socket goes.
    pub(crate) fn forget_tap(&mut self, number: Number) {
        let Ok(socket) = self.get(number) else { return };
        if matches!(socket.kind, Kind::Raw | Kind::Packet) {
            self.raws.retain(|one| *one != number);
            self.watchers.retain(|one| *one != number);
            self.tell_watch();
        }
    }
}
