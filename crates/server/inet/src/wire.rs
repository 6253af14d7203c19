//! What goes through the network server.
//!
//! It is told by commands, which wait here until its ring has room: those about a connection are bounded by what it has
//! offered, and datagrams are lost where too many wait. What it says is believed as far as it concerns the
//! connections that it has; one about which it says what cannot be is reset.

use crate::control::Passage;
use crate::errors::{meaning, meaning_v6, Report};
use crate::ports::is_for_many;
use crate::socket::{protocol, Changes, Inet, Interface, Kind, Link, Number, Origin, Six, State};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use netproto::{Command, Event, Protocol, INCOMING, LAST, WINDOW};
use unixproto::Errno;

/// Commands that may wait before datagrams are lost.
const CALM: usize = 256;
/// Seconds between signs of life, where a program has not said.
const ALIVE_S: u32 = 7200;
/// The option with them: `TCP_KEEPIDLE`.
const TCP_KEEPIDLE: u32 = 7 << 16 | 4;

impl Inet {
    pub(crate) fn command(&mut self, command: Command) {
        self.commands.push_back((command.encode(), Vec::new()));
    }

    /// The same, with bytes that follow, which are not copied.
    pub(crate) fn command_with(&mut self, head: Command, bytes: Vec<u8>) {
        self.commands.push_back((head.encode(), bytes));
    }

    /// The next command for the network server, in two parts.
    pub fn next_command(&self) -> Option<[&[u8]; 2]> {
        self.commands.front().map(|(head, bytes)| [&head[..], &bytes[..]])
    }

    /// It has it.
    pub fn command_sent(&mut self) {
        self.commands.pop_front();
    }

    pub(crate) fn has_calm(&self) -> bool {
        self.commands.len() < CALM
    }

    /// Where the machine's address is from, as the network has said since this was last asked.
    pub fn take_origin(&mut self) -> Option<Origin> {
        self.origin.take()
    }

    /// The session is over: the network server is to send what it has. When it has, [`Inet::is_idle`] says so.
    pub fn end_session(&mut self) {
        self.is_idle = self.interface.is_none();
        if !self.is_idle {
            self.command(Command::Finish);
        }
    }

    /// Bytes of its stack that the network server has not needed until its end, once it has told that.
    pub fn take_stack_unused(&mut self) -> Option<u32> {
        self.stack_unused.take()
    }

    /// Has it sent everything?
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// The network server is gone, or begins anew: so do its connections.
    pub fn wire_lost(&mut self, changes: &mut Changes) {
        self.commands.clear();
        let wires = core::mem::take(&mut self.wires);
        for (_, number) in wires {
            let Ok(socket) = self.get_mut(number) else { continue };
            match socket.state {
                State::Listening { .. } => socket.link = Link::None,
                State::Connecting => self.fail(number, Errno::ENETDOWN, changes),
                _ => self.reset(number, changes),
            }
        }
        self.interface = None;
        self.is_idle = true;
    }

    /// A connection is to be made by the network server.
    pub(crate) fn connect_outside(&mut self, number: Number, to: SocketAddr) -> Result<(), Errno> {
        let id = self.next_wire;
        self.next_wire = (self.next_wire + 1) & (INCOMING - 1);
        let socket = self.get_mut(number)?;
        socket.link = Link::Wire { id, room: 0 };
        let (user, local) = (socket.uid, crate::address::plain(socket.local));
        self.wires.insert(id, number);
        self.command(Command::Connect { id, user, local, remote: to });
        self.tune(number);
        Err(Errno::EAGAIN)
    }

    /// Connections from outside are wanted, too, unless the address is none that they could come to.
    pub(crate) fn listen_outside(&mut self, number: Number) {
        let id = self.next_wire;
        let Ok(socket) = self.get_mut(number) else { return };
        let (user, local) = (socket.uid, crate::address::plain(socket.local));
        let State::Listening { backlog, .. } = socket.state else { return };
        let is_outside = !local.ip().is_loopback();
        let v6_only = socket.options.v6_only;
        if !is_outside || socket.link != Link::None || self.interface.is_none() {
            return;
        }
        self.next_wire = (self.next_wire + 1) & (INCOMING - 1);
        if let Ok(socket) = self.get_mut(number) {
            socket.link = Link::Wire { id, room: 0 };
        }
        self.wires.insert(id, number);
        self.command(Command::Listen { id, user, local, backlog, v6_only });
    }

    /// The network server is told how a connection is to be treated.
    pub(crate) fn tune(&mut self, number: Number) {
        let Ok(socket) = self.get(number) else { return };
        let Link::Wire { id, .. } = socket.link else { return };
        if matches!(socket.state, State::Listening { .. }) {
            return;
        }
        let options = &socket.options;
        let idle = options.others.get(&TCP_KEEPIDLE).map_or(ALIVE_S, |&idle| idle as u32);
        let alive_s = if options.keep_alive { idle.max(1) } else { 0 };
        let no_delay = options.no_delay;
        let is_v6 = socket.remote.is_some_and(|remote| remote.ip().to_canonical().is_ipv6());
        let (Ok(hops), Ok(class)) = (self.hops(number), self.class(number, is_v6)) else { return };
        self.command(Command::Tune { id, no_delay, alive_s, hops, class });
    }

    /// Something has happened. `false`: it cannot have.
    pub fn happened(&mut self, event: Event, changes: &mut Changes) -> bool {
        match event {
            Event::Up { mac, address, prefix, gateway, mtu } => {
                let (address, gateway) = (Ipv4Addr::from(address), Ipv4Addr::from(gateway));
                let six = self.interface.map_or(Six::NONE, |interface| interface.six);
                let prefix = prefix.min(32);
                self.came_up(Interface { mac, address, prefix, gateway, mtu, six });
                true
            }
            Event::Up6 { link, address, prefix, gateway } => {
                let [link, address, gateway] = [link, address, gateway].map(Ipv6Addr::from);
                // Of a network that there is.
                let Some(interface) = &mut self.interface else { return false };
                interface.six = Six { link, address, prefix: prefix.min(128), gateway };
                true
            }
            Event::Given { by, names } => {
                let (by, names) = (Ipv4Addr::from(by), names.map(Ipv4Addr::from));
                self.origin = Some(Origin::Given { by, names });
                true
            }
            Event::NotGiven { is_over } => {
                self.origin = Some(Origin::Settled { is_over });
                true
            }
            Event::Datagram { protocol, local, remote, hops, class, bytes } => {
                let way = Passage { from: remote, to: local, hops, class, is_outside: true };
                self.arrived(protocol, way, bytes, changes);
                true
            }
            Event::Undelivered { protocol, local, remote, by, hops, kind, code, info, bytes } => {
                let from = SocketAddr::new(by.ip(), 0);
                let way = Passage { from, to: local, hops, class: 0, is_outside: true };
                self.not_delivered(protocol, (way, remote), (kind, code, info), bytes, changes);
                true
            }
            Event::Incoming { listener, id, local, remote, room } => {
                if id & INCOMING == 0 || self.wires.contains_key(&id) {
                    return false;
                }
                if self.came_in(listener, (id, room), (local, remote), changes).is_err() {
                    self.command(Command::Abort { id });
                }
                true
            }
            Event::Idle => {
                self.is_idle = true;
                true
            }
            Event::Stack { unused } => {
                self.stack_unused = Some(unused);
                true
            }
            Event::Connected { id, room } => self.of_wire(id, |inet, number| {
                let socket = inet.get_mut(number)?;
                if socket.state != State::Connecting {
                    return Err(Errno::EINVAL);
                }
                socket.state = State::Connected;
                socket.link = Link::Wire { id, room };
                let is_mute = socket.is_mute;
                if is_mute {
                    inet.command(Command::Shut { id });
                }
                changes.push((number, false));
                Ok(())
            }),
            Event::Frame { is_sent, lost, bytes } => {
                self.frame_went((is_sent, lost), bytes, changes);
                true
            }
            Event::Packet { bytes } => {
                self.packet_came(bytes, changes);
                true
            }
            Event::Data { id, bytes } => self.of_wire(id, |inet, number| {
                let socket = inet.get_mut(number)?;
                let is_too_much = socket.bytes.len() + bytes.len() > (WINDOW + LAST) as usize;
                if is_too_much || socket.state != State::Connected || socket.is_finished {
                    inet.end_wire(id, number, changes);
                    return Ok(());
                }
                let payer = socket.payer;
                if socket.bytes.gather(bytes).is_err() {
                    // There is no memory for what was promised.
                    inet.end_wire(id, number, changes);
                    return Ok(());
                }
                inet.shares.take(payer, bytes.len());
                let now = inet.now;
                inet.get_mut(number)?.timing.came = now;
                changes.push((number, true));
                Ok(())
            }),
            Event::Sent { id, bytes } => self.of_wire(id, |inet, number| {
                let socket = inet.get_mut(number)?;
                let Some(left) = socket.unacknowledged.checked_sub(bytes) else {
                    // More than was sent.
                    inet.end_wire(id, number, changes);
                    return Ok(());
                };
                socket.unacknowledged = left;
                if let Link::Wire { room, .. } = &mut socket.link {
                    *room = room.saturating_add(bytes);
                }
                changes.push((number, false));
                inet.were_acknowledged(number, changes);
                Ok(())
            }),
            Event::Finished { id } => self.of_wire(id, |inet, number| {
                let socket = inet.get_mut(number)?;
                socket.is_finished = true;
                if socket.is_mute {
                    socket.state = State::Closed;
                }
                changes.push((number, true));
                Ok(())
            }),
            Event::Gone { id, error } => {
                let Some(number) = self.wires.remove(&id) else { return true };
                let Ok(socket) = self.get_mut(number) else { return false };
                match (&socket.state, error) {
                    (State::Listening { .. }, _) => socket.link = Link::None,
                    (State::Connecting, _) => {
                        let error = if error == 0 { Errno::ECONNREFUSED } else { Errno(error) };
                        self.fail(number, error, changes);
                    }
                    (_, 0) => {
                        // Both have said that they are done, and know it.
                        (socket.is_finished, socket.is_mute) = (true, true);
                        socket.unacknowledged = 0;
                        (socket.state, socket.link) = (State::Closed, Link::None);
                        changes.push((number, true));
                        self.were_acknowledged(number, changes);
                    }
                    (_, error) if Errno(error) == Errno::ECONNRESET => self.reset(number, changes),
                    (_, error) => self.fail(number, Errno(error), changes),
                }
                true
            }
        }
    }

    /// Does something with the socket of a connection. One that has been closed here is none any more.
    fn of_wire(
        &mut self,
        id: u32,
        does: impl FnOnce(&mut Inet, Number) -> Result<(), Errno>,
    ) -> bool {
        match self.wires.get(&id) {
            // Where connections are accepted, none has any bytes.
            Some(&number) if self.listens(number) != Ok(false) => false,
            Some(&number) => does(self, number).is_ok(),
            None => true,
        }
    }

    /// The network server does not keep to what it was told: no more of this connection.
    fn end_wire(&mut self, id: u32, number: Number, changes: &mut Changes) {
        self.wires.remove(&id);
        self.command(Command::Abort { id });
        self.reset(number, changes);
    }

    /// There is a network: what is open is told to its server.
    fn came_up(&mut self, interface: Interface) {
        self.interface = Some(interface);
        // Of whatever another one was told this one knows nothing.
        self.is_watched = (false, false);
        self.tell_watch();
        self.tell_groups();
        let all: Vec<(Number, Kind, u16)> = self
            .each_from(0)
            .map(|(number, socket)| (number, socket.kind, socket.local.port()))
            .collect();
        for (number, kind, port) in all {
            match protocol(kind) {
                None => self.listen_outside(number),
                Some(protocol) if port != 0 => self.command(Command::Open { protocol, port }),
                Some(_) => {}
            }
        }
    }

    /// A datagram has come from outside.
    fn arrived(&mut self, protocol: Protocol, way: Passage, bytes: &[u8], changes: &mut Changes) {
        let kind = kind_of(protocol);
        let (local, remote) = (way.to, way.from);
        let from = match kind {
            Kind::Echo => SocketAddr::new(remote.ip(), 0),
            _ => remote,
        };
        // Nobody outside is this machine.
        if self.is_local(remote.ip()) || local.ip().is_loopback() {
            return;
        }
        if kind == Kind::Datagram && is_for_many(local.ip(), self.interface.as_ref()) {
            self.deliver_to_all(way, bytes.to_vec(), None, changes);
            return;
        }
        let found = match kind {
            Kind::Echo => self.ports.at(kind, local.port()).first().copied(),
            _ => self.receiver(kind, local, from),
        };
        let Some(number) = found else { return };
        let payer = self.get(number).map_or(0, |socket| socket.uid);
        self.deliver(number, bytes.to_vec(), (Passage { from, ..way }, payer), changes);
    }

    /// Somebody outside says that a datagram has not arrived where it was to go.
    fn not_delivered(
        &mut self,
        protocol: Protocol,
        (way, about): (Passage, SocketAddr),
        (kind, code, info): (u8, u8, u32),
        bytes: &[u8],
        changes: &mut Changes,
    ) {
        let meaning = match about.ip() {
            IpAddr::V4(_) => meaning(kind, code),
            IpAddr::V6(_) => meaning_v6(kind, code),
        };
        let Some((error, is_for_good)) = meaning else { return };
        let sockets = kind_of(protocol);
        if self.is_local(about.ip()) || way.to.ip().is_loopback() {
            return;
        }
        let found = match sockets {
            Kind::Echo => self.ports.at(sockets, way.to.port()).first().copied(),
            _ => self.receiver(sockets, way.to, about),
        };
        let Some(number) = found else { return };
        let bytes = bytes.to_vec();
        let report = Report { error, kind, code, info, way, about, bytes, came: 0 };
        self.was_told(number, report, is_for_good, changes);
    }

    /// A connection has come from outside.
    fn came_in(
        &mut self,
        listener: u32,
        (id, room): (u32, u32),
        (local, remote): (SocketAddr, SocketAddr),
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let &listener = self.wires.get(&listener).ok_or(Errno::ECONNREFUSED)?;
        let socket = self.get(listener)?;
        let State::Listening { backlog, waiting, .. } = &socket.state else {
            return Err(Errno::ECONNREFUSED);
        };
        let is_inside = self.is_local(remote.ip()) || local.port() != socket.local.port();
        if waiting.len() > *backlog as usize || is_inside {
            return Err(Errno::ECONNREFUSED);
        }
        let uid = socket.uid;
        let number = self.accepted(listener, uid, (local, remote))?;
        self.get_mut(number)?.link = Link::Wire { id, room };
        self.wires.insert(id, number);
        self.tune(number);
        changes.push((listener, true));
        Ok(())
    }
}

fn kind_of(protocol: Protocol) -> Kind {
    match protocol {
        Protocol::Udp => Kind::Datagram,
        Protocol::Echo => Kind::Echo,
    }
}
