//! Datagrams, and echo requests.

use crate::address::{any, plain};
use crate::control::{of_packet, Passage, Sending};
use crate::ports::is_for_many;
use crate::raw::{answer_to, sum_message, ICMP, ICMP6};
use crate::socket::{protocol, Changes, Inet, Kind, Number, Packet, Parts};
use crate::stream::Received;
use crate::{DATAGRAM_MOST, OVERHEAD};
use alloc::vec::Vec;
use core::net::SocketAddr;
use netproto::Command;
use unixproto::sockets::of_level;
use unixproto::Errno;

/// Types of ICMP messages (version 4, version 6).
pub(crate) const ECHO_REQUEST: [u8; 2] = [8, 128];
pub(crate) const ECHO_ANSWER: [u8; 2] = [0, 129];
/// Bytes of the head of an echo request: type, code, checksum, identifier, sequence number.
pub(crate) const ECHO_HEAD: usize = 8;
/// Hops of a packet, unless a program says otherwise.
pub(crate) const HOPS: u8 = 64;
/// The option with them: `IP_TTL`.
const IP_TTL: u32 = 1 << 16 | 2;
/// The options with what kind of service they want: `IP_TOS`, `IPV6_TCLASS`.
const CLASS: [u32; 2] = [of_level(0, 1), of_level(41, 67)];

impl Inet {
    /// A socket of datagrams sends to somebody if it does not say where to, and hears of nobody else.
    pub(crate) fn follow(
        &mut self,
        number: Number,
        to: SocketAddr,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let many = is_for_many(to.ip(), self.interface.as_ref());
        let socket = self.get(number)?;
        if many && !socket.options.broadcast && !to.ip().is_multicast() {
            return Err(Errno::EACCES);
        }
        let (to, source) = self.route(number, to)?;
        self.have_port(number)?;
        let socket = self.get_mut(number)?;
        if socket.local.ip().is_unspecified() {
            let ip = match (socket.family, source) {
                (crate::Family::V6, core::net::IpAddr::V4(ip)) => ip.to_ipv6_mapped().into(),
                (_, ip) => ip,
            };
            socket.local.set_ip(ip);
        }
        socket.remote = Some(to);
        socket.error = None;
        changes.push((number, false));
        Ok(())
    }

    /// It sends to nobody in particular any more.
    pub(crate) fn unfollow(&mut self, number: Number, changes: &mut Changes) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        socket.remote = None;
        let (chose_ip, chose_port) = socket.chose;
        let family = socket.family;
        if !chose_port {
            self.release_port(number);
        }
        if !chose_ip {
            self.get_mut(number)?.local.set_ip(any(family));
        }
        changes.push((number, false));
        Ok(())
    }

    fn have_port(&mut self, number: Number) -> Result<(), Errno> {
        let socket = self.get(number)?;
        match socket.is_bound() || socket.kind == Kind::Raw {
            true => Ok(()),
            false => self.settle(number, socket.local).map_err(|_| Errno::EAGAIN),
        }
    }

    /// A part of a datagram, by a thread: the others come. `is_zerocopy`: it is the end of a call whose bytes need not be copied. Answers how
    /// many bytes.
    ///
    /// # Errors
    /// `EMSGSIZE`: it is too long; `ENOBUFS`.
    pub fn send_part(
        &mut self,
        number: Number,
        (tid, is_zerocopy): (u32, bool),
        bytes: &[u8],
    ) -> Result<usize, Errno> {
        let telling = self.telling(number, is_zerocopy, None)?;
        self.may_tell(number, telling)?;
        let socket = self.get_mut(number)?;
        let uid = socket.uid;
        let mut parts = socket.parts.take().unwrap_or_default();
        self.shares.give_back(uid, parts.bytes.len());
        if parts.tid != tid {
            parts = Parts { tid, ..Parts::default() };
        }
        let all = parts.bytes.len() + bytes.len();
        if all > DATAGRAM_MOST {
            return Err(Errno::EMSGSIZE);
        }
        if !self.shares.has_room(uid, all) || parts.bytes.try_reserve(bytes.len()).is_err() {
            return Err(Errno::ENOBUFS);
        }
        self.shares.take(uid, all);
        parts.bytes.extend_from_slice(bytes);
        parts.calls = parts.calls.saturating_add(telling.is_zerocopy.into());
        self.get_mut(number)?.parts = Some(parts);
        Ok(bytes.len())
    }

    /// What a thread sends, behind the parts of it that came before; and of how many calls those are to be told.
    ///
    /// # Errors
    /// `ENOBUFS`
    pub(crate) fn with_parts(
        &mut self,
        number: Number,
        tid: u32,
        mut bytes: Vec<u8>,
    ) -> Result<(Vec<u8>, u32), Errno> {
        let socket = self.get_mut(number)?;
        let (uid, parts) = (socket.uid, socket.parts.take());
        self.shares.give_back(uid, parts.as_ref().map_or(0, |parts| parts.bytes.len()));
        let Some(mut parts) = parts.filter(|parts| parts.tid == tid) else {
            return Ok((bytes, 0));
        };
        parts.bytes.try_reserve_exact(bytes.len()).map_err(|_| Errno::ENOBUFS)?;
        parts.bytes.append(&mut bytes);
        Ok((parts.bytes, parts.calls))
    }

    /// Sends a datagram, behind the parts that the thread has sent. Answers how many bytes of it.
    ///
    /// # Errors
    /// `EDESTADDRREQ`, `ECONNREFUSED`, `EMSGSIZE`, `ENETUNREACH`, `EACCES`, `EPIPE` as Linux's.
    pub fn send_datagram(
        &mut self,
        number: Number,
        tid: u32,
        (to, sending): (Option<SocketAddr>, Sending),
        bytes: Vec<u8>,
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        let count = bytes.len();
        let (all, before) = self.with_parts(number, tid, bytes)?;
        let socket = self.get(number)?;
        let (kind, uid, remote) = (socket.kind, socket.uid, socket.remote);
        let telling = self.telling(number, sending.is_zerocopy, sending.stamps)?;
        self.may_tell(number, telling)?;
        let socket = self.get_mut(number)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.is_mute {
            return Err(Errno::EPIPE);
        }
        let may_all = socket.options.broadcast;
        // Whoever sends has a port, even if nothing comes of it.
        self.have_port(number)?;
        let most = if kind == Kind::Raw { self.raw_most(number)? } else { DATAGRAM_MOST };
        if all.len() > most {
            return Err(Errno::EMSGSIZE);
        }
        let calls = before + u32::from(telling.is_zerocopy);
        let mut all = all;
        let to = to.or(remote).ok_or(Errno::EDESTADDRREQ)?;
        if to.port() == 0 && kind == Kind::Datagram {
            return Err(Errno::EINVAL);
        }
        let is_many = is_for_many(to.ip(), self.interface.as_ref());
        if is_many && !may_all && !to.ip().is_multicast() {
            return Err(Errno::EACCES);
        }
        let (to, source) = self.route_as(number, to, sending)?;
        let local = SocketAddr::new(source, self.get(number)?.local.port());
        let way = self.way(number, (local, to), sending)?;
        if kind == Kind::Raw {
            let packet = self.packet(number, telling.stamps, way, &all);
            self.send_raw(number, way, all, changes)?;
            self.was_sent(number, telling.stamps, packet, changes);
            return Ok(count);
        }
        if kind == Kind::Echo {
            self.prepare_echo(&mut all, local)?;
        }
        let packet = self.packet(number, telling.stamps, way, &all);
        if kind == Kind::Datagram && to.is_ipv4() && to.ip().is_multicast() {
            let (device, _) = self.way_to_group(number, sending)?;
            self.send_to_group(number, (way, device), all, changes)?;
            self.was_sent(number, telling.stamps, packet, changes);
            self.are_complete(number, calls, changes);
            return Ok(count);
        }
        // It is on its way before anybody answers.
        self.was_sent(number, telling.stamps, packet, changes);
        self.are_complete(number, calls, changes);
        match (self.is_local(to.ip()), protocol(kind)) {
            (true, _) if kind == Kind::Echo => self.echo(number, all, way, changes),
            (true, _) => {
                let receiver = self.receiver(kind, to, local);
                self.udp_went_inside(&way, &all, changes);
                match receiver {
                    Some(receiver) => {
                        self.deliver(receiver, all, (way, uid), changes);
                    }
                    None => self.was_refused(number, &way, all, changes),
                }
            }
            (false, Some(protocol)) => {
                let (hops, class) = (way.hops, way.class);
                let head =
                    Command::Datagram { protocol, local, remote: to, hops, class, bytes: &[] };
                // As on any network, what there is no room for is lost.
                if self.has_calm() {
                    self.command_with(head, all);
                }
            }
            (false, None) => {}
        }
        Ok(count)
    }

    /// How its packets go from one address to another.
    fn way(
        &self,
        number: Number,
        (from, to): (SocketAddr, SocketAddr),
        sending: Sending,
    ) -> Result<Passage, Errno> {
        let hops = match sending.hops {
            Some(hops) => hops,
            None if to.is_ipv4() && to.ip().is_multicast() => self.group_hops(number)?,
            None => self.hops(number)?,
        };
        let class = sending.class.map_or_else(|| self.class(number, to.is_ipv6()), Ok)?;
        Ok(Passage { from, to, hops, class, is_outside: false })
    }

    /// The kind of service that its packets want.
    pub(crate) fn class(&self, number: Number, is_v6: bool) -> Result<u8, Errno> {
        let class = self.get(number)?.options.others.get(&CLASS[usize::from(is_v6)]);
        Ok(class.map_or(0, |&class| class as u8))
    }

    /// Hops that its packets may take.
    pub(crate) fn hops(&self, number: Number) -> Result<u8, Errno> {
        let hops = self.get(number)?.options.others.get(&IP_TTL).copied();
        Ok(hops.and_then(|hops| u8::try_from(hops).ok()).filter(|&hops| hops > 0).unwrap_or(HOPS))
    }

    /// An echo request has the identifier of its socket.
    fn prepare_echo(&self, bytes: &mut [u8], from: SocketAddr) -> Result<(), Errno> {
        if bytes.len() < ECHO_HEAD || !ECHO_REQUEST.contains(&bytes[0]) || bytes[1] != 0 {
            return Err(Errno::EINVAL);
        }
        bytes[4..6].copy_from_slice(&from.port().to_be_bytes());
        Ok(())
    }

    /// This machine answers an echo request.
    fn echo(&mut self, number: Number, bytes: Vec<u8>, asked: Passage, changes: &mut Changes) {
        let protocol = if asked.to.is_ipv6() { ICMP6 } else { ICMP };
        let way = Passage::inside(SocketAddr::new(asked.to.ip(), 0), asked.from);
        let way = Passage { class: asked.class, ..way };
        let mut answer = answer_to(bytes.clone(), asked.to.is_ipv6());
        if self.is_heard() {
            let mut request = bytes;
            sum_message(&asked, protocol, &mut request);
            sum_message(&way, protocol, &mut answer);
            self.pass_inside(&asked, protocol, &request, changes);
            self.pass_inside(&way, protocol, &answer, changes);
        }
        let uid = self.get(number).map_or(0, |socket| socket.uid);
        self.deliver(number, answer, (way, uid), changes);
    }

    /// Puts a datagram where it is read, if there is room. Answers whether there was.
    pub(crate) fn deliver(
        &mut self,
        number: Number,
        bytes: Vec<u8>,
        (way, payer): (Passage, u32),
        changes: &mut Changes,
    ) -> bool {
        let now = self.now;
        let Ok(socket) = self.get(number) else { return false };
        let cost = bytes.len() + OVERHEAD;
        let is_full = socket.packet_bytes >= socket.capacity();
        if is_full || !self.shares.has_room(payer, cost) {
            let Ok(socket) = self.get_mut(number) else { return false };
            socket.lost = socket.lost.wrapping_add(1);
            return false;
        }
        self.shares.take(payer, cost);
        let Ok(socket) = self.get_mut(number) else { return false };
        socket.packet_bytes += cost;
        let way = Passage { from: plain(way.from), to: plain(way.to), ..way };
        let lost = socket.lost;
        socket.packets.push_back(Packet { bytes, way, payer, came: now, lost });
        changes.push((number, true));
        true
    }

    /// Receives a datagram, up to so many bytes; what there is no room for waits for the same thread if it `goes_on`.
    /// `looks`: it stays there.
    ///
    /// # Errors
    /// `EAGAIN`: there is none. `ECONNREFUSED`.
    pub fn receive_datagram(
        &mut self,
        number: Number,
        most: usize,
        (looks, goes_on): (bool, Option<u32>),
        changes: &mut Changes,
    ) -> Result<Received, Errno> {
        self.forget_rest(number)?;
        let (now, outside) = (self.now, self.interface.map(|interface| interface.address));
        let socket = self.get_mut(number)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let Some(first) = socket.packets.front() else {
            return match socket.is_deaf {
                true => Ok(Received::default()),
                false => Err(Errno::EAGAIN),
            };
        };
        let count = most.min(first.bytes.len());
        let (full, from) = (first.bytes.len(), Some(first.way.from));
        let control = of_packet(first, &socket.options, socket.family, (now, outside));
        socket.timing.was_read(first.came, &socket.options);
        if looks && goes_on.is_none() {
            let bytes = first.bytes[..count].to_vec();
            changes.push((number, false));
            return Ok(Received { bytes, full, from, control });
        }
        let mut bytes = match looks {
            true => first.bytes.clone(),
            false => {
                let Some(gone) = socket.packets.pop_front() else { return Err(Errno::EAGAIN) };
                let cost = full + OVERHEAD;
                socket.packet_bytes -= cost;
                self.shares.give_back(gone.payer, cost);
                gone.bytes
            }
        };
        let rest = if count < full { bytes.split_off(count) } else { Vec::new() };
        let received = Received { bytes, full, from, control };
        self.keep_rest(number, goes_on, rest)?;
        changes.push((number, false));
        Ok(received)
    }

    /// More of the datagram that a thread has received in part.
    pub fn receive_rest(
        &mut self,
        number: Number,
        tid: u32,
        most: usize,
    ) -> Result<Received, Errno> {
        let socket = self.get_mut(number)?;
        let uid = socket.uid;
        let Some((_, mut rest)) = socket.rest.take_if(|rest| rest.0 == tid) else {
            return Ok(Received::default());
        };
        let left = rest.split_off(most.min(rest.len()));
        self.shares.give_back(uid, rest.len());
        if !left.is_empty() {
            self.get_mut(number)?.rest = Some((tid, left));
        }
        Ok(Received { full: rest.len(), bytes: rest, ..Received::default() })
    }

    /// What a thread has not received of a datagram waits for it, if it goes on.
    pub(crate) fn keep_rest(
        &mut self,
        number: Number,
        goes_on: Option<u32>,
        rest: Vec<u8>,
    ) -> Result<(), Errno> {
        let Some(tid) = goes_on.filter(|_| !rest.is_empty()) else { return Ok(()) };
        let uid = self.get(number)?.uid;
        self.shares.take(uid, rest.len());
        self.get_mut(number)?.rest = Some((tid, rest));
        Ok(())
    }

    pub(crate) fn forget_rest(&mut self, number: Number) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        let (uid, rest) = (socket.uid, socket.rest.take());
        self.shares.give_back(uid, rest.map_or(0, |rest| rest.1.len()));
        Ok(())
    }
}

/// The checksum of the internet.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let sum: u32 = pairs.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
