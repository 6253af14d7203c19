//! What is asked about sockets by [messages](crate::netlink) (`NETLINK_SOCK_DIAG`, `sock_diag(7)`): those of TCP, of UDP, and raw ones. All of a name space are
//! told to whoever is in it, as `/proc/net` does.

use crate::bytecode::Program;
use crate::netlink::{Answers, Found, Message, Request};
use crate::socket::{Family, Inet, Kind, Number, Socket, State};
use crate::OVERHEAD;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use unixproto::sockets::{of_level, AF_INET, AF_INET6, AF_UNSPEC};
use unixproto::Errno;

/// `SOCK_DIAG_BY_FAMILY`
pub const BY_FAMILY: u16 = 20;
/// `SOCK_DESTROY`
pub const DESTROY: u16 = 21;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// `INET_DIAG_REQ_BYTECODE`
const BYTECODE: u32 = 1;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
const IPPROTO_RAW: u8 = 255;
/// A cookie that is any.
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// `INET_DIAG_*`: what is told besides. Those that are asked for are so by a bit.
const MEMINFO: u32 = 1;
const INFO: u32 = 2;
const CONGESTION: u32 = 4;
const TOS: u32 = 5;
const TCLASS: u32 = 6;
const SKMEMINFO: u32 = 7;
const SHUTDOWN: u32 = 8;
const PROTOCOL: u32 = 10;
const V6_ONLY: u32 = 11;
/// States: a listening one, and one that is not connected.
const LISTENING: u8 = 10;
const CLOSED: u8 = 7;

/// What is asked for.
struct Wanted<'a> {
    family: u16,
    kind: Result<Kind, Errno>,
    /// Bits of what is told besides.
    more: u8,
    /// In which states.
    states: u32,
    /// Ports, addresses of both ends, and the cookie: 0 is any port.
    ports: (u16, u16),
    ends: [&'a [u8; 16]; 2],
    cookie: &'a [u8],
    program: Option<Program<'a>>,
}

impl<'a> Wanted<'a> {
    /// # Errors
    /// `EINVAL`: it is too short, or its program is none. `EPERM`: it asks about marks, and may not.
    fn of(request: &'a Request<'_>, may_mark: bool) -> Result<Wanted<'a>, Errno> {
        let body = request.body;
        let &[family, protocol, more, ..] = body else { return Err(Errno::EINVAL) };
        if body.len() < REQUEST_BYTES {
            return Err(Errno::EINVAL);
        }
        let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let end = |at: usize| body[at..].first_chunk().ok_or(Errno::EINVAL);
        Ok(Wanted {
            family: family.into(),
            kind: match protocol {
                IPPROTO_TCP => Ok(Kind::Stream),
                IPPROTO_UDP => Ok(Kind::Datagram),
                IPPROTO_RAW => Ok(Kind::Raw),
                _ => Err(Errno::ENOENT),
            },
            more,
            states: request.word(4).unwrap_or(0),
            ports: (port(8), port(10)),
            ends: [end(12)?, end(28)?],
            cookie: &body[48..REQUEST_BYTES],
            program: match request.attribute(REQUEST_BYTES, BYTECODE) {
                Some(code) => Some(Program::check(code, may_mark)?),
                None => None,
            },
        })
    }

    fn wants(&self, what: u32) -> bool {
        self.more >> (what - 1) & 1 != 0
    }

    /// The address of an end.
    fn end(&self, which: usize) -> IpAddr {
        let bytes = self.ends[which];
        match self.family {
            AF_INET => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
            _ => Ipv6Addr::from(*bytes).into(),
        }
    }

    /// Does it mean a socket of its kind and family?
    fn takes(&self, seen: &Seen<'_>, answers: &mut Answers) -> bool {
        let (from, to) = self.ports;
        let is_it = self.states >> seen.state & 1 != 0
            && (from == 0 || from == seen.local.port())
            && (to == 0 || to == seen.remote.port());
        is_it
            && self.program.as_ref().is_none_or(|program| {
                let (takes, count) = program.takes(seen);
                answers.looked(count);
                takes
            })
    }

    fn is_of_family(&self, socket: &Socket) -> bool {
        self.family == AF_UNSPEC || self.family == family_of(socket)
    }
}

fn family_of(socket: &Socket) -> u16 {
    match socket.family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

/// A socket as it is told.
pub(crate) struct Seen<'a> {
    pub socket: &'a Socket,
    pub number: Number,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub state: u8,
}

impl Seen<'_> {
    /// Bytes, or connections, that wait to be taken; and bytes that were sent, or how many connections may wait.
    pub fn queues(&self) -> (u32, u32) {
        match &self.socket.state {
            State::Listening { backlog, waiting, .. } => (waiting.len() as u32, *backlog),
            _ => (self.unread() as u32, self.socket.unacknowledged),
        }
    }

    fn unread(&self) -> usize {
        self.socket.bytes.len() + self.socket.packet_bytes
    }

    /// `struct inet_diag_sockid`
    fn id(&self, inode: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for end in [self.local, self.remote] {
            bytes.extend_from_slice(&end.port().to_be_bytes());
        }
        for end in [self.local, self.remote] {
            let mut address = [0; 16];
            match end.ip() {
                IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => address = ip.octets(),
            }
            bytes.extend_from_slice(&address);
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&inode.to_ne_bytes());
        bytes
    }

    fn tell(&self, request: &Request<'_>, wanted: &Wanted<'_>, inode: u64, all: &Inet) -> Vec<u8> {
        let (waiting, sent) = self.queues();
        let head = [family_of(self.socket) as u8, self.state, 0, 0];
        let mut message = request.answer(BY_FAMILY).put(&head).put(&self.id(inode));
        for word in [0, waiting, sent, self.socket.uid, inode as u32] {
            message = message.put(&word.to_ne_bytes());
        }
        self.more(message, wanted, all).end()
    }

    fn more(&self, mut message: Message, wanted: &Wanted<'_>, all: &Inet) -> Message {
        let &Seen { socket, state, .. } = self;
        let is_shut = u8::from(socket.is_deaf) | u8::from(socket.is_mute) << 1;
        message = message.attribute(SHUTDOWN, &[is_shut]);
        let class = |level, name| {
            socket.options.others.get(&of_level(level, name)).map_or(0, |&class| class as u8)
        };
        if wanted.wants(TOS) {
            message = message.attribute(TOS, &[class(0, 1)]);
        }
        if socket.family == Family::V6 {
            if wanted.wants(TCLASS) {
                message = message.attribute(TCLASS, &[class(41, 67)]);
            }
            if matches!(state, LISTENING | CLOSED) {
                message = message.attribute(V6_ONLY, &[socket.options.v6_only.into()]);
            }
        }
        let (unread, sent) = (self.unread() as u32, socket.unacknowledged);
        if wanted.wants(MEMINFO) {
            message = message.attribute(MEMINFO, &words(&[unread, sent, 0, sent]));
        }
        if wanted.wants(SKMEMINFO) {
            let room = socket.capacity() as u32;
            let lost = socket.lost;
            let own = OVERHEAD as u32 * socket.errors.len() as u32;
            let all = [unread, room, sent, room, 0, sent, own, 0, lost];
            message = message.attribute(SKMEMINFO, &words(&all));
        }
        if socket.kind == Kind::Raw {
            message = message.attribute(PROTOCOL, &[socket.raw.protocol]);
        }
        if socket.kind == Kind::Stream {
            if let (true, Ok(info)) = (wanted.wants(INFO), all.tcp_info(self.number)) {
                message = message.attribute(INFO, &info);
            }
            if wanted.wants(CONGESTION) {
                message = message.text(CONGESTION, "cubic");
            }
        }
        message
    }
}

fn words(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl Inet {
    /// The sockets that others see, from a number on: those that have a port, or a protocol. A stream that is neither connected nor listens is not among
    /// them, as on Linux.
    pub(crate) fn seen(&self, first: Number) -> impl Iterator<Item = Seen<'_>> {
        self.each_from(first).filter_map(|(number, socket)| self.seen_one(number, socket))
    }

    fn seen_one<'a>(&self, number: Number, socket: &'a Socket) -> Option<Seen<'a>> {
        let is_raw = socket.kind == Kind::Raw;
        let state = self.tcp_state(number).ok()? as u8;
        let is_hidden = socket.kind == Kind::Stream && state == CLOSED;
        if is_hidden || !is_raw && !socket.is_bound() {
            return None;
        }
        let none = match socket.family {
            Family::V4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut local = socket.local;
        if is_raw {
            local.set_port(socket.raw.protocol.into());
        }
        let remote = socket.remote.unwrap_or(SocketAddr::new(none, 0));
        Some(Seen { socket, number, local, remote, state })
    }

    /// Those of a kind that have a port (or a protocol).
    fn seen_at(&self, kind: Kind, port: u16) -> impl Iterator<Item = Seen<'_>> {
        let raws = self.raws.iter().filter(move |_| kind == Kind::Raw);
        let all = self.ports.all_at(kind, port).chain(raws);
        all.filter_map(move |&number| {
            let seen = self.seen_one(number, self.get(number).ok()?)?;
            (seen.socket.kind == kind && seen.local.port() == port).then_some(seen)
        })
    }

    /// Looks whether a request about sockets of these families is one, before those are told.
    ///
    /// # Errors
    /// `EINVAL`: it is not. `EPERM`: it is about marks, of which only administrators are told.
    pub fn check_diag(&self, request: &Request<'_>, may_mark: bool) -> Result<(), Errno> {
        Wanted::of(request, may_mark).map(|_| ())
    }

    /// What is told of sockets, from the one with a number on, as far as it is found in a turn.
    ///
    /// # Errors
    /// `ENOENT`: nothing is told of that protocol.
    pub fn diag_packet(
        &self,
        request: &Request<'_>,
        first: Number,
        inode: impl Fn(Number) -> u64,
    ) -> Result<Found, Errno> {
        // It was checked before.
        let wanted = Wanted::of(request, true)?;
        let kind = wanted.kind?;
        let mut answers = Answers::default();
        for (number, socket) in self.each_from(first) {
            if answers.is_over() {
                return Ok(answers.until(Some(number)));
            }
            answers.looked(1);
            if socket.kind != kind || !wanted.is_of_family(socket) {
                continue;
            }
            let Some(seen) = self.seen_one(number, socket) else { continue };
            if !wanted.takes(&seen, &mut answers) {
                continue;
            }
            if !answers.put(&seen.tell(request, &wanted, inode(number), self)) {
                return Ok(answers.until(Some(number)));
            }
        }
        Ok(answers.until(None))
    }

    /// What is told of one socket: the one that is connected so, or else that listens there. How many were looked at for that is added.
    ///
    /// # Errors
    /// `ENOENT`: there is none, or it is another one than before.
    pub fn diag_one(
        &self,
        request: &Request<'_>,
        inode: impl Fn(Number) -> u64,
        looks: &mut usize,
    ) -> Result<Vec<u8>, Errno> {
        let wanted = Wanted::of(request, true)?;
        let (kind, (from, to)) = (wanted.kind?, wanted.ports);
        let (local, remote) = (wanted.end(0), wanted.end(1));
        let is_connected = |seen: &Seen<'_>| {
            seen.local.ip() == local && seen.remote == SocketAddr::new(remote, to)
        };
        let is_open = |seen: &Seen<'_>| {
            let is_here = seen.local.ip() == local || seen.local.ip().is_unspecified();
            is_here && seen.remote.port() == 0
        };
        let mut found = None;
        for seen in self.seen_at(kind, from) {
            *looks += 1;
            if !wanted.is_of_family(seen.socket) {
                continue;
            }
            if is_connected(&seen) {
                found = Some(seen);
                break;
            }
            if found.is_none() && is_open(&seen) {
                found = Some(seen);
            }
        }
        let found = found.ok_or(Errno::ENOENT)?;
        let number = inode(found.number);
        match wanted.cookie == NO_COOKIE || wanted.cookie == number.to_ne_bytes() {
            true => Ok(found.tell(request, &wanted, number, self)),
            false => Err(Errno::ENOENT),
        }
    }

    /// `struct tcp_info`, as far as it is known: the state, and sizes of segments.
    ///
    /// # Errors
    /// `EBADF`: there is no such socket.
    pub fn tcp_info(&self, number: Number) -> Result<Vec<u8>, Errno> {
        const BYTES: usize = 232;
        const MSS: [usize; 2] = [16, 20];
        const PATH_MTU: usize = 60;
        const WINDOW: usize = 80;
        const ADVERTISED: usize = 84;
        let mut bytes = alloc::vec![0; BYTES];
        bytes[0] = self.tcp_state(number)? as u8;
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        MSS.iter().for_each(|&at| put(at, crate::SEGMENT_INSIDE));
        put(PATH_MTU, 65_535);
        put(WINDOW, 10);
        put(ADVERTISED, 65_483);
        Ok(bytes)
    }
}
