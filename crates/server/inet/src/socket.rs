//! Sockets, and how they come and go.

use crate::account::Account;
use crate::address::any;
use crate::control::Passage;
use crate::errors::{cost_of, Entry};
use crate::groups::Membership;
use crate::inside::Inside;
use crate::netlink::{Dump, Language};
use crate::options::{Options, TcpState};
use crate::packet::Watching;
use crate::pieces::Pieces;
use crate::ports::Ports;
use crate::raw::Raw;
use crate::timestamps::Timing;
use crate::urgent::Urgent;
use crate::{DATAGRAM_BYTES, OVERHEAD, STREAM_BYTES};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use callfilter::packets::Filter;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use netproto::{Command, Protocol};
use piecewise::{Limits, Table};
use unixproto::files::{
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM,
};
use unixproto::sockets::SO_SELECT_ERR_QUEUE;
use unixproto::Errno;

/// A socket's number.
pub type Number = u32;

/// Bytes that may wait in all sockets together.
const ALL_BYTES: usize = 64 << 20;
/// Sockets that there may be.
const ALL_SOCKETS: usize = 65536;
/// Numbers that sockets of one name space have: from its first one on.
pub const NUMBERS: Number = 1 << 17;

/// Sockets that somebody may wait for, or watch; `true`: something came to be read.
pub type Changes = Vec<(Number, bool)>;

/// Of which addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, which has those of IPv4 too.
    V6,
}

/// What a socket's messages are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
    /// Echo requests of ICMP and their answers.
    Echo,
    /// All packets of a protocol, with their heads.
    Raw,
    /// All frames of an interface.
    Packet,
    /// Netlink: questions about interfaces.
    Route,
}

/// The machine's place in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Of the device.
    pub mac: [u8; 6],
    /// Its address.
    pub address: Ipv4Addr,
    /// Bits of it that are the network's.
    pub prefix: u8,
    /// Who knows the way to others.
    pub gateway: Ipv4Addr,
    /// Most bytes of a packet.
    pub mtu: u16,
    /// Of IPv6.
    pub six: Six,
}

/// The machine's place in a network of IPv6; what is unspecified it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Six {
    /// Its address on the wire alone.
    pub link: Ipv6Addr,
    /// Another one.
    pub address: Ipv6Addr,
    /// Bits of either that are the network's.
    pub prefix: u8,
    /// Who knows the way to others.
    pub gateway: Ipv6Addr,
}

impl Six {
    /// There is none.
    pub const NONE: Six = Six {
        link: Ipv6Addr::UNSPECIFIED,
        address: Ipv6Addr::UNSPECIFIED,
        prefix: 64,
        gateway: Ipv6Addr::UNSPECIFIED,
    };

    /// The addresses that there are.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        [self.address, self.link].into_iter().filter(|ip| !ip.is_unspecified())
    }

    /// The own address for packets to somebody, if there is a way there.
    pub(crate) fn source(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let own = if to.is_unicast_link_local() { self.link } else { self.address };
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix.min(128))).unwrap_or(0);
        let is_near = (u128::from(own) ^ u128::from(to)) & mask == 0;
        (!own.is_unspecified() && (is_near || !self.gateway.is_unspecified())).then_some(own)
    }
}

/// Where the address is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Somebody has given it, for a time, and says that these know names; those that are unspecified are none.
    Given { by: Ipv4Addr, names: [Ipv4Addr; 3] },
    /// The machine has it from its start: nobody has given one, or that one's time is over.
    Settled { is_over: bool },
}

/// What a stream is connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// Nothing.
    None,
    /// Another socket.
    Local(Number),
    /// Another one that has been closed in order.
    Left,
    /// A connection of the network server's, and how many bytes it has room for.
    Wire { id: u32, room: u32 },
}

/// How far a stream is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not connected.
    Idle,
    /// It accepts connections, of which so many may wait, and these do; and these wait for room.
    Listening { backlog: u32, waiting: VecDeque<Number>, knocking: VecDeque<Number> },
    /// It is being connected.
    Connecting,
    /// Connected.
    Connected,
    /// It was.
    Closed,
}

/// A datagram.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub bytes: Vec<u8>,
    pub way: Passage,
    /// Who is charged for it.
    pub payer: u32,
    /// When it came.
    pub came: i64,
    /// How many others had no room before.
    pub lost: u32,
}

/// Parts of a datagram.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The thread that has sent them.
    pub tid: u32,
    pub bytes: Vec<u8>,
    /// Of how many calls that are to be told of.
    pub calls: u32,
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub family: Family,
    pub kind: Kind,
    /// Who has made it.
    pub uid: u32,
    /// Its own address; the port is 0 if it has none.
    pub local: SocketAddr,
    /// The program has chosen address, or port.
    pub chose: (bool, bool),
    /// That of the other end.
    pub remote: Option<SocketAddr>,
    pub state: State,
    pub link: Link,
    /// What was sent to a stream and not read.
    pub bytes: Pieces,
    /// Which of it is urgent.
    pub urgent: Option<Urgent>,
    /// Who is charged for it.
    pub payer: u32,
    /// What was sent to a socket of datagrams.
    pub packets: VecDeque<Packet>,
    /// Datagrams for which there was no room.
    pub lost: u32,
    /// What it was told besides and has not read.
    pub errors: VecDeque<Entry>,
    /// The number of the next call whose bytes need not be copied.
    pub next_call: u32,
    pub timing: Timing,
    /// Bytes of datagrams and of what was said, with what they cost.
    pub packet_bytes: usize,
    /// The other end sends no more.
    pub is_finished: bool,
    /// Nothing more is read here.
    pub is_deaf: bool,
    /// Nothing more is sent from here.
    pub is_mute: bool,
    /// A `connect` that did not wait has not been asked about since.
    pub is_connecting: bool,
    /// What the next operation fails with.
    pub error: Option<Errno>,
    /// Parts of a datagram whose last one has not come.
    pub parts: Option<Parts>,
    /// What is left of one that was read in part, and by whom.
    pub rest: Option<(u32, Vec<u8>)>,
    /// Bytes that were read, of which the network server has not been told.
    pub untold: u32,
    /// Bytes that the network server was given and the other end has not acknowledged, as far as was told.
    pub unacknowledged: u32,
    /// Of raw ones.
    pub raw: Raw,
    /// Of packet sockets.
    pub watching: Option<Box<Watching>>,
    /// Which packets it hears, of those two.
    pub filter: Option<Rc<Filter>>,
    /// Groups that it is in.
    pub groups: Vec<Membership>,
    /// Of netlink: what is spoken, and what it is still to be told.
    pub language: Language,
    pub dump: Option<Box<Dump>>,
    pub options: Options,
}

impl Socket {
    /// Bytes that may wait in it.
    pub fn capacity(&self) -> usize {
        match (self.options.receive_bytes as usize, self.kind) {
            (0, Kind::Stream) => STREAM_BYTES,
            (0, _) => DATAGRAM_BYTES,
            (wanted, _) => wanted,
        }
    }

    /// Bytes for which a stream has room.
    pub fn room(&self) -> usize {
        self.capacity().saturating_sub(self.bytes.len())
    }

    /// Has it a port?
    pub fn is_bound(&self) -> bool {
        self.local.port() != 0
    }
}

/// All of a network name space.
pub struct Inet {
    table: Table<Socket>,
    /// The number of the first one in that.
    first: Number,
    pub(crate) ports: Ports,
    /// Bytes that wait, by who is charged for them.
    pub(crate) shares: Account,
    /// Sockets, by who has made them.
    users: Account,
    /// Connections of the network server's.
    pub(crate) wires: BTreeMap<u32, Number>,
    pub(crate) next_wire: u32,
    /// What the network server is to be told: each the head of a message, and bytes that follow it.
    pub(crate) commands: VecDeque<(Vec<u8>, Vec<u8>)>,
    pub(crate) interface: Option<Interface>,
    /// What the network has said of the address since somebody looked.
    pub(crate) origin: Option<Origin>,
    /// The network server has nothing left to do.
    pub(crate) is_idle: bool,
    /// The interface inside of the machine.
    pub(crate) inside: Inside,
    /// Bytes of its stack that it has never needed: it says so at its end.
    pub(crate) stack_unused: Option<u32>,
    /// Of which listener's sockets the next connection goes to which.
    pub(crate) turn: u32,
    /// Sockets of netlink by their numbers.
    pub(crate) routes: BTreeMap<(Language, u32), Number>,
    /// Raw sockets, and packet sockets.
    pub(crate) raws: Vec<Number>,
    pub(crate) watchers: Vec<Number>,
    /// Whether the network server was told to tell of frames, and of packets.
    pub(crate) is_watched: (bool, bool),
    /// Who is in which group, over which interface.
    pub(crate) members: BTreeSet<(IpAddr, u32, Number)>,
    /// Memberships over the wire, by user.
    pub(crate) away: Account,
    /// Those that something urgent has come to, which nobody was told yet.
    pub(crate) urged: Vec<Number>,
    /// Nanoseconds of the clock on the wall.
    pub(crate) now: i64,
}

impl Default for Inet {
    fn default() -> Inet {
        Inet {
            table: Table::default(),
            first: 0,
            ports: Ports::default(),
            shares: Account::new(Limits::of(ALL_BYTES)),
            users: Account::new(Limits::of(ALL_SOCKETS)),
            wires: BTreeMap::new(),
            next_wire: 1,
            commands: VecDeque::new(),
            interface: None,
            origin: None,
            is_idle: true,
            inside: Inside::first(),
            stack_unused: None,
            turn: 0,
            routes: BTreeMap::new(),
            raws: Vec::new(),
            watchers: Vec::new(),
            is_watched: (false, false),
            members: BTreeSet::new(),
            away: Account::new(crate::groups::OUTSIDE),
            urged: Vec::new(),
            now: 0,
        }
    }
}

impl Inet {
    /// Another one, whose sockets have numbers from `first` on: that of a name space that has just begun.
    pub fn beside(&self, first: Number) -> Inet {
        let (shares, users) = (self.shares.clone(), self.users.clone());
        let (away, inside) = (self.away.clone(), Inside::new());
        Inet { first, shares, users, away, inside, ..Inet::default() }
    }

    /// Are there no sockets in it?
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Where a socket is in the table; of one of another name space there is nothing.
    fn place(&self, number: Number) -> usize {
        number.wrapping_sub(self.first) as usize
    }

    /// All of them with their numbers, from one on.
    pub(crate) fn each_from(&self, first: Number) -> impl Iterator<Item = (Number, &Socket)> {
        let first = first.saturating_sub(self.first) as usize;
        self.table.iter_from(first).map(|(place, socket)| (self.first + place as Number, socket))
    }

    pub(crate) fn get(&self, number: Number) -> Result<&Socket, Errno> {
        self.table.get(self.place(number)).ok_or(Errno::EBADF)
    }

    pub(crate) fn get_mut(&mut self, number: Number) -> Result<&mut Socket, Errno> {
        let place = self.place(number);
        self.table.get_mut(place).ok_or(Errno::EBADF)
    }

    /// What the clock on the wall says, in nanoseconds: what comes from now on comes then.
    pub fn set_time(&mut self, now: i64) {
        self.now = now;
    }

    /// Makes a socket.
    ///
    /// # Errors
    /// `ENFILE`: the user has too many, or there is no memory.
    pub fn make(&mut self, family: Family, kind: Kind, uid: u32) -> Result<Number, Errno> {
        if !self.users.has_room(uid, 1) {
            return Err(Errno::ENFILE);
        }
        let socket = Socket {
            family,
            kind,
            uid,
            local: SocketAddr::new(any(family), 0),
            chose: (false, false),
            remote: None,
            state: State::Idle,
            link: Link::None,
            bytes: Pieces::default(),
            urgent: None,
            payer: uid,
            packets: VecDeque::new(),
            lost: 0,
            errors: VecDeque::new(),
            next_call: 0,
            timing: Timing::default(),
            packet_bytes: 0,
            is_finished: false,
            is_deaf: false,
            is_mute: false,
            is_connecting: false,
            error: None,
            parts: None,
            rest: None,
            untold: 0,
            unacknowledged: 0,
            raw: Raw::default(),
            watching: None,
            filter: None,
            groups: Vec::new(),
            language: Language::Route,
            dump: None,
            options: Options::default(),
        };
        // There are fewer than a name space has numbers.
        let place = self.table.insert(socket).map_err(|_| Errno::ENFILE)?;
        let number = self.first + place as Number;
        self.users.take(uid, 1);
        if kind == Kind::Raw {
            self.raws.push(number);
        }
        Ok(number)
    }

    /// What it is.
    pub fn kind(&self, number: Number) -> Result<(Family, Kind), Errno> {
        let socket = self.get(number)?;
        Ok((socket.family, socket.kind))
    }

    /// Nobody has it any more.
    pub fn remove(&mut self, number: Number, changes: &mut Changes) {
        let mut all = Vec::from([(number, false)]);
        while let Some((number, was_waiting)) = all.pop() {
            self.release_port(number);
            self.forget_route(number);
            self.forget_tap(number);
            self.forget_groups(number);
            let place = self.place(number);
            let Some(mut socket) = self.table.remove(place) else { continue };
            self.users.give_back(socket.uid, 1);
            let is_reset = was_waiting
                || !socket.bytes.is_empty()
                || socket.options.linger == Some(0) && socket.state == State::Connected;
            self.shares.give_back(socket.payer, socket.bytes.len());
            for packet in socket.packets.drain(..) {
                self.shares.give_back(packet.payer, packet.bytes.len() + OVERHEAD);
            }
            self.shares.give_back(socket.uid, cost_of(&socket.errors));
            let filter = socket.filter.as_ref().map_or(0, |filter| filter.cost());
            self.shares.give_back(socket.uid, filter);
            let parts = socket.parts.take().map_or(0, |parts| parts.bytes.len());
            let rest = socket.rest.take().map_or(0, |rest| rest.1.len());
            self.shares.give_back(socket.uid, parts + rest);
            if let State::Listening { waiting, knocking, .. } = socket.state {
                all.extend(waiting.into_iter().map(|one| (one, true)));
                knocking.into_iter().for_each(|one| self.refuse(one, changes));
            }
            match socket.link {
                Link::Local(peer) if is_reset => self.reset(peer, changes),
                Link::Local(peer) => self.left(peer, changes),
                Link::Wire { id, .. } => {
                    self.wires.remove(&id);
                    let command = match is_reset {
                        true => Command::Abort { id },
                        false => Command::Close { id },
                    };
                    self.command(command);
                }
                Link::None | Link::Left => {}
            }
            changes.push((number, false));
        }
    }

    /// The other end of a stream was closed in order.
    fn left(&mut self, number: Number, changes: &mut Changes) {
        let Ok(socket) = self.get_mut(number) else { return };
        socket.is_finished = true;
        socket.link = Link::Left;
        if socket.is_mute {
            socket.state = State::Closed;
            socket.link = Link::None;
        }
        changes.push((number, true));
    }

    /// The other end has reset the connection.
    pub(crate) fn reset(&mut self, number: Number, changes: &mut Changes) {
        let error = match self.get(number) {
            Ok(socket) if socket.is_finished => Errno::EPIPE,
            Ok(_) => Errno::ECONNRESET,
            Err(_) => return,
        };
        self.fail(number, error, changes);
    }

    /// A connection has ended because of an error, or was never made.
    pub(crate) fn fail(&mut self, number: Number, error: Errno, changes: &mut Changes) {
        let Ok(socket) = self.get_mut(number) else { return };
        socket.error = Some(error);
        (socket.is_deaf, socket.is_mute) = (true, true);
        socket.state = State::Closed;
        socket.link = Link::None;
        changes.push((number, true));
    }

    /// Nobody listens any more where a socket waits to be connected.
    pub(crate) fn refuse(&mut self, number: Number, changes: &mut Changes) {
        self.fail(number, Errno::ECONNREFUSED, changes);
    }

    /// Nobody has its port any more, as far as it is concerned.
    pub(crate) fn release_port(&mut self, number: Number) {
        let Ok(socket) = self.get(number) else { return };
        if !socket.is_bound() {
            return;
        }
        let (kind, port) = (socket.kind, socket.local.port());
        if let (State::Listening { .. }, Link::Wire { id, .. }) = (&socket.state, socket.link) {
            self.wires.remove(&id);
            self.command(Command::Deafen { id });
            if let Ok(socket) = self.get_mut(number) {
                socket.link = Link::None;
            }
        }
        self.ports.give_back(kind, port, number);
        if self.ports.at(kind, port).is_empty() {
            if let Some(protocol) = protocol(kind).filter(|_| self.interface.is_some()) {
                self.command(Command::Shun { protocol, port });
            }
        }
        if let Ok(socket) = self.get_mut(number) {
            socket.local.set_port(0);
        }
    }

    /// `POLL*` bits.
    pub fn ready(&self, number: Number) -> u16 {
        const READABLE: u16 = POLLIN | POLLRDNORM;
        const WRITABLE: u16 = POLLOUT | POLLWRNORM;
        let Ok(socket) = self.get(number) else { return POLLNVAL };
        let mut bits = 0;
        if socket.error.is_some() || !socket.errors.is_empty() {
            bits |= POLLERR;
            // As Linux has it: not of streams.
            if socket.kind != Kind::Stream && socket.options.is_set(SO_SELECT_ERR_QUEUE) {
                bits |= POLLPRI;
            }
        }
        if socket.kind != Kind::Stream {
            if socket.is_deaf {
                bits |= READABLE | POLLRDHUP;
            }
            if socket.is_deaf && socket.is_mute {
                bits |= POLLHUP;
            }
            if !socket.packets.is_empty() {
                bits |= READABLE;
            }
            return bits | WRITABLE;
        }
        match &socket.state {
            State::Listening { waiting, .. } if waiting.is_empty() => return bits,
            State::Listening { .. } => return bits | READABLE,
            State::Connecting => return bits,
            State::Idle | State::Closed => bits |= POLLHUP,
            State::Connected => {}
        }
        let is_over = socket.is_deaf || socket.is_finished;
        if is_over {
            bits |= READABLE | POLLRDHUP;
        }
        if is_over && socket.is_mute {
            bits |= POLLHUP;
        }
        if socket.urgent.is_some_and(|urgent| !urgent.was_read) {
            bits |= POLLPRI;
        }
        // One that is not read with the others does not count.
        let unread = socket.bytes.len() - usize::from(socket.is_at_urgent());
        if unread >= socket.options.receive_least.max(1) as usize {
            bits |= READABLE;
        }
        let has_room = match socket.link {
            _ if socket.is_mute => true,
            Link::Local(peer) => self.get(peer).is_ok_and(has_much_room),
            Link::Wire { room, .. } => room > 0,
            Link::None | Link::Left => true,
        };
        bits | if has_room { WRITABLE } else { 0 }
    }

    /// What is told of a socket as of a stream.
    pub fn tcp_state(&self, number: Number) -> Result<TcpState, Errno> {
        let socket = self.get(number)?;
        Ok(match &socket.state {
            // Of all others it is told whether they have another end.
            _ if socket.kind != Kind::Stream && socket.remote.is_some() => TcpState::Established,
            State::Idle | State::Closed => TcpState::Close,
            State::Listening { .. } => TcpState::Listen,
            State::Connecting => TcpState::SynSent,
            State::Connected if socket.is_finished => TcpState::CloseWait,
            State::Connected if socket.is_mute => TcpState::FinWait2,
            State::Connected => TcpState::Established,
        })
    }

    /// Its address, or that of the other end, for `getsockname` and `getpeername`.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no other end.
    pub fn name(&self, number: Number, of_peer: bool) -> Result<SocketAddr, Errno> {
        let socket = self.get(number)?;
        let is_connected = match socket.kind {
            Kind::Packet if of_peer => return Err(Errno::EOPNOTSUPP),
            Kind::Packet => return self.packet_name(number),
            Kind::Stream => socket.state == State::Connected,
            _ => true,
        };
        match of_peer {
            // The number of its protocol is where others have a port.
            false if socket.kind == Kind::Raw => {
                Ok(SocketAddr::new(socket.local.ip(), socket.raw.protocol.into()))
            }
            false => Ok(socket.local),
            true => socket.remote.filter(|_| is_connected).ok_or(Errno::ENOTCONN),
        }
    }

    /// Does it accept connections?
    pub fn listens(&self, number: Number) -> Result<bool, Errno> {
        Ok(matches!(self.get(number)?.state, State::Listening { .. }))
    }

    /// What the next operation would fail with; it does not any more.
    pub fn take_error(&mut self, number: Number) -> Result<Option<Errno>, Errno> {
        Ok(self.get_mut(number)?.error.take())
    }

    /// Its options.
    pub fn options(&self, number: Number) -> Result<&Options, Errno> {
        Ok(&self.get(number)?.options)
    }

    /// Changes its options.
    pub fn set_options(
        &mut self,
        number: Number,
        change: impl FnOnce(&mut Options),
    ) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        change(&mut socket.options);
        self.tune(number);
        Ok(())
    }

    /// Has it no port?
    pub fn is_unbound(&self, number: Number) -> Result<bool, Errno> {
        Ok(!self.get(number)?.is_bound())
    }

    /// Bytes that can be read: of datagrams, those of the first.
    ///
    /// # Errors
    /// `EINVAL`: it listens. `ENOTTY`: that cannot be asked of it.
    pub fn unread(&self, number: Number) -> Result<usize, Errno> {
        let socket = self.get(number)?;
        match (&socket.state, socket.kind) {
            (State::Listening { .. }, _) => Err(Errno::EINVAL),
            (_, Kind::Stream) => Ok(socket.readable()),
            (_, Kind::Echo | Kind::Route) => Err(Errno::ENOTTY),
            _ => Ok(socket.packets.front().map_or(0, |first| first.bytes.len())),
        }
    }

    /// Bytes that were sent and not taken by the other end (`SIOCOUTQ`). What is sent inside of the machine is with the other end at once; a datagram
    /// is not the socket's any more. `is_left`: those that have not left the machine (`SIOCOUTQNSD`), of which is known here only that they are not more.
    ///
    /// # Errors
    /// As [`unread`](Self::unread)'s.
    pub fn unsent(&self, number: Number, is_left: bool) -> Result<usize, Errno> {
        let socket = self.get(number)?;
        match (&socket.state, socket.kind) {
            (State::Listening { .. }, _) => Err(Errno::EINVAL),
            (_, Kind::Stream) => Ok(socket.unacknowledged as usize),
            (_, Kind::Datagram | Kind::Raw | Kind::Packet) if !is_left => Ok(0),
            _ => Err(Errno::ENOTTY),
        }
    }

    /// Where the machine is.
    pub fn interface(&self) -> Option<&Interface> {
        self.interface.as_ref()
    }

    /// Is an address this machine's?
    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        let is_own = |interface: Interface| match ip {
            IpAddr::V4(ip) => ip == interface.address,
            IpAddr::V6(ip) => interface.six.addresses().any(|own| own == ip),
        };
        self.inside.has(ip) || self.interface.is_some_and(is_own)
    }
}

/// As Linux has it: who waits for room is told when a third of it is free.
pub(crate) fn has_much_room(socket: &Socket) -> bool {
    socket.room() * 3 >= socket.capacity()
}

/// What ports of a kind of sockets are for the network server, if it must know of each.
pub(crate) fn protocol(kind: Kind) -> Option<Protocol> {
    match kind {
        Kind::Stream | Kind::Raw | Kind::Packet | Kind::Route => None,
        Kind::Datagram => Some(Protocol::Udp),
        Kind::Echo => Some(Protocol::Echo),
    }
}
