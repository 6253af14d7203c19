//! Netlink: sockets whose datagrams are messages to the system, and its answers. What may be asked is each protocol's: interfaces and ways in
//! [`crate::route`], sockets in [`crate::diag`].

use crate::control::Passage;
use crate::socket::{Changes, Inet, Kind, Number};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use linux_raw_sys::netlink as nl;
use unixproto::sockets::{AF_NETLINK, AF_UNSPEC};
use unixproto::Errno;

/// Bytes of `struct nlmsghdr`, of `struct sockaddr_nl`.
pub(crate) const HEAD: usize = 16;
const ADDRESS_BYTES: usize = 12;
/// Bytes of a packet of answers: more are in the next one.
pub const PACKET: usize = 8192;
/// Messages are padded to this.
const ALIGN: usize = 4;
/// Flags of a request for all there are.
const DUMP: u32 = nl::NLM_F_ROOT | nl::NLM_F_MATCH;

/// What is spoken over a socket of netlink.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Language {
    /// `NETLINK_ROUTE`
    Route = 0,
    /// `NETLINK_SOCK_DIAG`
    Diag = 4,
    /// `NETLINK_KOBJECT_UEVENT`: devices that come and go, of which there are none.
    Events = 15,
}

impl Language {
    /// By the number of a protocol.
    pub fn of(protocol: u32) -> Option<Language> {
        let all = [Language::Route, Language::Diag, Language::Events];
        all.into_iter().find(|one| *one as u32 == protocol)
    }
}

/// Sockets that are looked at, and instructions of programs that choose among them, before others have their turn.
const LOOKS: usize = 1024;

/// Answers to a request, of which the next packet is made when those before it were read.
#[derive(Debug)]
pub struct Dump {
    request: Vec<u8>,
    from: u32,
    /// The first socket that was not looked at.
    pub next: Number,
    /// Nothing was found in the last turn: it has another one, whether somebody reads or not.
    pub is_due: bool,
}

/// A packet of answers that is made within a turn.
pub struct Answers {
    bytes: Vec<u8>,
    left: usize,
}

/// What was found in a turn, and the socket to go on with; `None`: there are no more.
pub struct Found {
    /// Whole messages.
    pub bytes: Vec<u8>,
    /// See above.
    pub next: Option<Number>,
}

impl Default for Answers {
    /// Nothing yet.
    fn default() -> Answers {
        Answers { bytes: Vec::new(), left: LOOKS }
    }
}

impl Answers {
    /// So much was looked at.
    pub fn looked(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }

    /// Is the turn over?
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Adds a message. `false`: it is for the next packet.
    pub fn put(&mut self, message: &[u8]) -> bool {
        let has_room = self.bytes.is_empty() || self.bytes.len() + message.len() <= PACKET;
        if has_room {
            self.bytes.extend_from_slice(message);
        }
        has_room
    }

    /// As far as a socket, or as there are any.
    pub fn until(self, next: Option<Number>) -> Found {
        Found { bytes: self.bytes, next }
    }
}

impl Dump {
    /// The request.
    pub fn request(&self) -> Option<Request<'_>> {
        Request::next(&self.request, self.from).map(|(request, _)| request)
    }
}

/// The address of such a socket, as programs read it: a number that it has alone. The socket's own address here is that number as one of
/// IPv4; 0 is the system's.
pub fn encode(address: SocketAddr) -> Vec<u8> {
    let mut bytes = AF_NETLINK.to_ne_bytes().to_vec();
    bytes.resize(4, 0);
    bytes.extend_from_slice(&number_of(address).to_ne_bytes());
    bytes.resize(ADDRESS_BYTES, 0);
    bytes
}

pub(crate) fn number_of(address: SocketAddr) -> u32 {
    match address.ip() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(_) => 0,
    }
}

pub(crate) fn address_of(number: u32) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(number).into(), 0)
}

/// The number and the groups of an address that a program writes.
fn decode(bytes: &[u8]) -> Result<(u32, u32), Errno> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
    if bytes.first_chunk() != Some(&AF_NETLINK.to_ne_bytes()) {
        return Err(Errno::EINVAL);
    }
    word(4).zip(word(8)).ok_or(Errno::EINVAL)
}

/// A message that is being written.
pub struct Message(Vec<u8>);

impl Message {
    pub(crate) fn new(kind: u16, flags: u32, (sequence, to): (u32, u32)) -> Message {
        let mut bytes = 0u32.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags as u16).to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&to.to_ne_bytes());
        Message(bytes)
    }

    /// Behind what is there already.
    pub fn put(mut self, bytes: &[u8]) -> Message {
        self.0.extend_from_slice(bytes);
        self
    }

    /// An attribute.
    pub fn attribute(mut self, kind: u32, value: &[u8]) -> Message {
        self.0.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.0.extend_from_slice(&(kind as u16).to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        self
    }

    /// One that is a number.
    pub fn number(self, kind: u32, value: u32) -> Message {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// One that is a text.
    pub(crate) fn text(self, kind: u32, text: &str) -> Message {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    pub(crate) fn ip(self, kind: u32, ip: IpAddr) -> Message {
        match ip {
            IpAddr::V4(ip) => self.attribute(kind, &ip.octets()),
            IpAddr::V6(ip) => self.attribute(kind, &ip.octets()),
        }
    }

    /// The same, if there is one.
    pub(crate) fn maybe_ip(self, kind: u32, ip: Option<IpAddr>) -> Message {
        match ip {
            Some(ip) => self.ip(kind, ip),
            None => self,
        }
    }

    /// All of it.
    pub fn end(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// A request.
pub struct Request<'a> {
    /// What it asks for.
    pub kind: u16,
    /// `NLM_F_*`
    pub flags: u32,
    /// Its number, and who asks.
    pub(crate) from: (u32, u32),
    /// All of it.
    pub(crate) whole: &'a [u8],
    /// What follows its head.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// The first of `bytes`, which the socket with this number sends, and what follows it.
    pub fn next(bytes: &[u8], from: u32) -> Option<(Request<'_>, &[u8])> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let len = word(0)? as usize;
        if len < HEAD || len > bytes.len() {
            return None;
        }
        let (whole, _) = bytes.split_at(len);
        let (kind, flags) = (word(4)? as u16, word(4)? >> 16);
        let rest = &bytes[len.next_multiple_of(ALIGN).min(bytes.len())..];
        let from = (word(8)?, from);
        Some((Request { kind, flags, from, whole, body: &whole[HEAD..] }, rest))
    }

    /// The first byte behind the head: addresses of which kind.
    pub fn family(&self) -> u16 {
        self.body.first().map_or(AF_UNSPEC, |&family| family.into())
    }

    /// The word at so many bytes behind the head.
    pub fn word(&self, at: usize) -> Option<u32> {
        self.body.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
    }

    /// The attributes behind so many bytes: kind and value.
    pub(crate) fn attributes(&self, behind: usize) -> impl Iterator<Item = (u32, &[u8])> {
        let mut rest = self.body.get(behind..);
        core::iter::from_fn(move || {
            let all = rest?;
            let (len, more) = all.split_first_chunk()?;
            let (kind, _) = more.split_first_chunk()?;
            let len = usize::from(u16::from_ne_bytes(*len));
            let value = all.get(4..len)?;
            rest = all.get(len.next_multiple_of(ALIGN)..);
            Some((u16::from_ne_bytes(*kind).into(), value))
        })
    }

    /// One of them.
    pub(crate) fn attribute(&self, behind: usize, wanted: u32) -> Option<&[u8]> {
        self.attributes(behind).find_map(|(kind, value)| (kind == wanted).then_some(value))
    }

    /// Are all asked for?
    pub fn wants_all(&self) -> bool {
        self.flags & DUMP != 0
    }

    /// Is it one, and no acknowledgement of something?
    pub fn is_one(&self) -> bool {
        self.flags & nl::NLM_F_REQUEST != 0 && u32::from(self.kind) >= nl::NLMSG_MIN_TYPE
    }

    /// Is it to be acknowledged also if nothing is wrong?
    pub fn wants_word(&self) -> bool {
        self.flags & nl::NLM_F_ACK != 0
    }

    /// An answer, which may be one of several.
    pub fn answer(&self, kind: u16) -> Message {
        Message::new(kind, if self.wants_all() { nl::NLM_F_MULTI } else { 0 }, self.from)
    }

    /// How it was: 0, or an error's number.
    pub fn acknowledge(&self, error: Result<(), Errno>) -> Vec<u8> {
        let number = error.map_or_else(|error| -i32::from(error.0), |()| 0);
        // What went well is not repeated.
        let told = if number == 0 { &self.whole[..HEAD] } else { self.whole };
        Message::new(nl::NLMSG_ERROR as u16, 0, self.from)
            .put(&number.to_ne_bytes())
            .put(told)
            .end()
    }

    /// There are no more, or there never were any because of an error.
    pub fn done(&self, error: Result<(), Errno>) -> Vec<u8> {
        let number = error.map_or_else(|error| -i32::from(error.0), |()| 0);
        Message::new(nl::NLMSG_DONE as u16, nl::NLM_F_MULTI, self.from)
            .put(&number.to_ne_bytes())
            .end()
    }
}

impl Inet {
    /// Makes a socket of netlink.
    ///
    /// # Errors
    /// As [`make`](Self::make)'s.
    pub fn make_netlink(&mut self, language: Language, uid: u32) -> Result<Number, Errno> {
        let number = self.make(crate::Family::V4, Kind::Route, uid)?;
        self.get_mut(number)?.language = language;
        Ok(number)
    }

    /// What is spoken over a socket of netlink.
    pub fn language(&self, number: Number) -> Result<Language, Errno> {
        Ok(self.get(number)?.language)
    }

    /// Gives a socket of netlink the number that it wants, or one of its own: that of its process if that is free.
    ///
    /// # Errors
    /// `EINVAL`: it has another one. `EADDRINUSE`. `EPERM`: it wants to hear what is told to groups.
    pub fn bind_route(&mut self, number: Number, address: &[u8], pid: u32) -> Result<(), Errno> {
        let (wanted, _) = decode(address)?;
        let socket = self.get(number)?;
        let (own, language) = (number_of(socket.local), socket.language);
        if own != 0 {
            return if wanted == own || wanted == 0 { Ok(()) } else { Err(Errno::EINVAL) };
        }
        match wanted {
            0 => self.settle_route(number, pid),
            _ if self.routes.contains_key(&(language, wanted)) => Err(Errno::EADDRINUSE),
            _ => self.have_route(number, wanted),
        }
    }

    fn settle_route(&mut self, number: Number, pid: u32) -> Result<(), Errno> {
        let language = self.get(number)?.language;
        // Processes have lower numbers than those that are given to others.
        let given = (1..=u32::from(u16::MAX)).map(|step| u32::MAX - 4096 - step);
        let mut all = core::iter::once(pid).chain(given);
        let free = all.find(|one| *one != 0 && !self.routes.contains_key(&(language, *one)));
        self.have_route(number, free.ok_or(Errno::EADDRINUSE)?)
    }

    fn have_route(&mut self, number: Number, id: u32) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        socket.local = address_of(id);
        let language = socket.language;
        self.routes.insert((language, id), number);
        Ok(())
    }

    /// It sends to the system, to which it need not be connected.
    ///
    /// # Errors
    /// `EPERM`: to anybody else.
    pub fn connect_route(&mut self, number: Number, address: &[u8], pid: u32) -> Result<(), Errno> {
        if address.first_chunk() != Some(&AF_UNSPEC.to_ne_bytes()) && decode(address)? != (0, 0) {
            return Err(Errno::EPERM);
        }
        if number_of(self.get(number)?.local) == 0 {
            self.settle_route(number, pid)?;
        }
        self.get_mut(number)?.remote = Some(address_of(0));
        Ok(())
    }

    /// Somebody sends requests. Answers the number of the socket, which it has from now on if it had none.
    ///
    /// # Errors
    /// `EPERM`: to somebody else. `ENOBUFS`: too many answers wait.
    pub fn asks(&mut self, number: Number, to: Option<&[u8]>, pid: u32) -> Result<u32, Errno> {
        if to.map(decode).transpose()?.unwrap_or((0, 0)) != (0, 0) {
            return Err(Errno::EPERM);
        }
        if number_of(self.get(number)?.local) == 0 {
            self.settle_route(number, pid)?;
        }
        let socket = self.get(number)?;
        match socket.packet_bytes >= socket.capacity() {
            true => Err(Errno::ENOBUFS),
            false => Ok(number_of(socket.local)),
        }
    }

    /// A request for all there are is being answered from now on.
    ///
    /// # Errors
    /// `EBUSY`: another one is.
    pub fn begin_dump(&mut self, number: Number, request: &Request<'_>) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        if socket.dump.is_some() {
            return Err(Errno::EBUSY);
        }
        let (request, from, uid) = (request.whole.to_vec(), request.from.1, socket.uid);
        if !self.shares.has_room(uid, request.len()) {
            return Err(Errno::ENOBUFS);
        }
        self.keep_dump(number, Box::new(Dump { request, from, next: 0, is_due: false }));
        Ok(())
    }

    /// Somebody is still to be told something.
    pub fn keep_dump(&mut self, number: Number, dump: Box<Dump>) {
        let (bytes, mut uid) = (dump.request.len(), None);
        if let Ok(socket) = self.get_mut(number) {
            (socket.dump, uid) = (Some(dump), Some(socket.uid));
        }
        uid.into_iter().for_each(|uid| self.shares.take(uid, bytes));
    }

    fn drop_dump(&mut self, number: Number) -> Option<Box<Dump>> {
        let socket = self.get_mut(number).ok()?;
        let (dump, uid) = (socket.dump.take()?, socket.uid);
        self.shares.give_back(uid, dump.request.len());
        Some(dump)
    }

    /// What is still to be told, once all before it was read; `is_turn`: also if it has nothing to be read and waits for its turn.
    pub fn take_dump(&mut self, number: Number, is_turn: bool) -> Option<Box<Dump>> {
        let socket = self.get(number).ok()?;
        let is_due = socket.dump.as_ref()?.is_due;
        let is_next = socket.packets.is_empty() && (is_turn || !is_due);
        is_next.then(|| self.drop_dump(number))?
    }

    /// Answers are lost, which the next operation says.
    pub fn lose_answers(&mut self, number: Number, changes: &mut Changes) {
        if let Ok(socket) = self.get_mut(number) {
            socket.error = Some(Errno::ENOBUFS);
            changes.push((number, true));
        }
    }

    /// The next packet of it, and what comes behind that. Without room nothing does, which the next operation says.
    pub fn tell_dump(
        &mut self,
        number: Number,
        (packet, rest): (Vec<u8>, Option<Box<Dump>>),
        changes: &mut Changes,
    ) {
        let Ok(uid) = self.get(number).map(|socket| socket.uid) else { return };
        let way = Passage::inside(address_of(0), address_of(0));
        let has_room = self.deliver(number, packet, (way, uid), changes);
        match (rest, self.get_mut(number)) {
            (Some(rest), _) if has_room => self.keep_dump(number, rest),
            (_, Ok(socket)) if !has_room => socket.error = Some(Errno::ENOBUFS),
            _ => {}
        }
    }

    /// The system says something to a socket of netlink. What there is no room for is lost.
    pub fn tell_route(&mut self, number: Number, bytes: Vec<u8>, changes: &mut Changes) {
        let Ok(uid) = self.get(number).map(|socket| socket.uid) else { return };
        let way = Passage::inside(address_of(0), address_of(0));
        self.deliver(number, bytes, (way, uid), changes);
    }

    /// A socket of netlink goes.
    pub(crate) fn forget_route(&mut self, number: Number) {
        self.drop_dump(number);
        let Ok(socket) = self.get(number) else { return };
        if socket.kind == Kind::Route {
            let id = (socket.language, number_of(socket.local));
            self.routes.remove(&id);
        }
    }
}
