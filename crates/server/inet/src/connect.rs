//! Connecting, listening, accepting, shutting down.

use crate::address::{any, plain};
use crate::control::{Sending, AWAY, LO};
use crate::ports::is_for_many;
use crate::socket::{Changes, Family, Inet, Kind, Link, Number, State};
use crate::BACKLOG_MOST;
use alloc::collections::VecDeque;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use netproto::Command;
use unixproto::Errno;

impl Inet {
    /// Where an address leads, and which address of this machine belongs to it.
    ///
    /// # Errors
    /// `ENETUNREACH`: nowhere.
    pub(crate) fn route(
        &self,
        number: Number,
        to: SocketAddr,
    ) -> Result<(SocketAddr, IpAddr), Errno> {
        self.route_as(number, to, Sending::default())
    }

    /// The same, of a datagram of which the program says where it is to be from.
    ///
    /// # Errors
    /// `EINVAL`, `ENETUNREACH`: that is not this machine's. `ENODEV`: nor is the interface.
    pub(crate) fn route_as(
        &self,
        number: Number,
        to: SocketAddr,
        sending: Sending,
    ) -> Result<(SocketAddr, IpAddr), Errno> {
        let is_there = match sending.interface {
            0 | LO => true,
            AWAY => self.interface.is_some(),
            _ => false,
        };
        if !is_there {
            return Err(Errno::ENODEV);
        }
        match sending.source {
            Some(own) if self.is_local(own) => {}
            Some(IpAddr::V4(own)) if !own.is_multicast() && own.octets()[0] != 0 => {
                return Err(Errno::ENETUNREACH);
            }
            Some(_) => return Err(Errno::EINVAL),
            None => {}
        }
        let socket = self.get(number)?;
        let family = socket.family;
        let ip = match to.ip().to_canonical() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        if family == Family::V6 && ip.is_ipv4() && socket.options.v6_only {
            return Err(Errno::ENETUNREACH);
        }
        if ip.is_ipv4() && ip.is_multicast() {
            let (_, source) = self.way_to_group(number, sending)?;
            return Ok((SocketAddr::new(ip, to.port()), source));
        }
        // The address of a group is nobody's own.
        let local = socket.local.ip();
        let local = if local.to_canonical().is_multicast() { any(family) } else { local };
        let own = sending.source.unwrap_or(local);
        let source = match (own.is_unspecified(), ip) {
            (false, _) => own.to_canonical(),
            (true, ip) if ip.is_loopback() && !self.is_local(ip) => {
                let is_v4 = ip.is_ipv4();
                return Err(if is_v4 { Errno::ENETUNREACH } else { Errno::EADDRNOTAVAIL });
            }
            (true, IpAddr::V4(ip)) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            (true, ip) if self.is_local(ip) => ip,
            (true, IpAddr::V4(_)) => match self.interface {
                Some(interface) => interface.address.into(),
                None => return Err(Errno::ENETUNREACH),
            },
            (true, IpAddr::V6(to)) => match self.interface.and_then(|one| one.six.source(to)) {
                Some(own) => own.into(),
                None => return Err(Errno::ENETUNREACH),
            },
        };
        if !self.is_local(ip) {
            let has_way = self.interface.is_some_and(|one| match ip {
                IpAddr::V4(_) => true,
                IpAddr::V6(to) => !to.is_multicast() && one.six.source(to).is_some(),
            });
            if !has_way {
                return Err(Errno::ENETUNREACH);
            }
            // What has an address of this machine's alone cannot be answered.
            if source.is_loopback() {
                return Err(Errno::EINVAL);
            }
        }
        if source.is_ipv4() != ip.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        Ok((SocketAddr::new(ip, to.port()), source))
    }

    /// An address of this machine's as a socket has it.
    fn own_address(&self, number: Number, ip: IpAddr, port: u16) -> Result<SocketAddr, Errno> {
        let ip = match (self.get(number)?.family, ip) {
            (Family::V6, IpAddr::V4(ip)) => ip.to_ipv6_mapped().into(),
            (_, ip) => ip,
        };
        Ok(SocketAddr::new(ip, port))
    }

    /// Connects it; `None`: to nobody.
    ///
    /// # Errors
    /// `EAGAIN`: it waits to be connected. `EINPROGRESS`: so does one that does not wait (`now`). Others as Linux's.
    pub fn connect(
        &mut self,
        number: Number,
        to: Option<SocketAddr>,
        now: bool,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let kind = self.get(number)?.kind;
        match (kind, to) {
            (Kind::Packet, _) => Err(Errno::EOPNOTSUPP),
            (Kind::Stream, None) => self.disconnect(number, changes),
            (Kind::Stream, Some(to)) => self.connect_stream(number, to, now, changes),
            (_, None) => self.unfollow(number, changes),
            (_, Some(to)) => self.follow(number, to, changes),
        }
    }

    fn connect_stream(
        &mut self,
        number: Number,
        to: SocketAddr,
        now: bool,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        match socket.state {
            State::Idle => {}
            State::Listening { .. } => return Err(Errno::EISCONN),
            State::Connecting if now && socket.is_connecting => return Err(Errno::EALREADY),
            State::Connecting => return Err(Errno::EAGAIN),
            State::Connected if socket.is_connecting => {
                socket.is_connecting = false;
                return Ok(());
            }
            State::Connected => return Err(Errno::EISCONN),
            State::Closed if socket.is_connecting => {
                let error = socket.error.take().unwrap_or(Errno::ECONNABORTED);
                self.begin_again(number);
                return Err(error);
            }
            State::Closed => return Err(Errno::EISCONN),
        }
        if is_for_many(to.ip(), self.interface.as_ref()) {
            return Err(Errno::ENETUNREACH);
        }
        let (to, source) = self.route(number, to)?;
        let local = self.own_address(number, source, self.get(number)?.local.port())?;
        if local.port() == 0 {
            self.settle(number, local).map_err(|_| Errno::EADDRNOTAVAIL)?;
        }
        let socket = self.get_mut(number)?;
        socket.local.set_ip(local.ip());
        socket.remote = Some(to);
        socket.state = State::Connecting;
        socket.is_connecting = true;
        let tried = match self.is_local(to.ip()) {
            true => self.connect_inside(number, to, changes),
            false => self.connect_outside(number, to),
        };
        match tried {
            // It is told later, even if it is known already.
            _ if now => Err(Errno::EINPROGRESS),
            Ok(()) => {
                self.get_mut(number)?.is_connecting = false;
                Ok(())
            }
            Err(Errno::EAGAIN) => Err(Errno::EAGAIN),
            Err(error) => {
                self.begin_again(number);
                Err(error)
            }
        }
    }

    /// Nothing came of an attempt to connect: there may be another one.
    fn begin_again(&mut self, number: Number) {
        let Ok(socket) = self.get_mut(number) else { return };
        let (_, chose_port) = socket.chose;
        if !chose_port {
            self.release_port(number);
        }
        let Ok(socket) = self.get_mut(number) else { return };
        if !socket.chose.0 {
            let family = socket.family;
            socket.local.set_ip(any(family));
        }
        socket.state = State::Idle;
        (socket.remote, socket.error, socket.link) = (None, None, Link::None);
        socket.unacknowledged = 0;
        (socket.is_deaf, socket.is_mute, socket.is_finished) = (false, false, false);
        socket.is_connecting = false;
    }

    /// Connects it to a socket of this machine's.
    fn connect_inside(
        &mut self,
        number: Number,
        to: SocketAddr,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let Some(listener) = self.listener(to) else {
            self.fail(number, Errno::ECONNREFUSED, changes);
            return Err(Errno::ECONNREFUSED);
        };
        let State::Listening { backlog, waiting, knocking } = &mut self.get_mut(listener)?.state
        else {
            return Err(Errno::ECONNREFUSED);
        };
        if waiting.len() > *backlog as usize {
            knocking.push_back(number);
            return Err(Errno::EAGAIN);
        }
        self.join(number, listener, changes).inspect_err(|&error| {
            self.fail(number, error, changes);
        })
    }

    /// Makes the other end of a connection, which waits to be accepted.
    fn join(
        &mut self,
        number: Number,
        listener: Number,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let client = self.get(number)?;
        let (from, uid) = (plain(client.local), client.uid);
        let to = client.remote.ok_or(Errno::ENOTCONN)?;
        let server = self.accepted(listener, uid, (to, from))?;
        let end = self.get_mut(server)?;
        end.link = Link::Local(number);
        end.payer = uid;
        let payer = self.get(listener)?.uid;
        let client = self.get_mut(number)?;
        client.state = State::Connected;
        client.link = Link::Local(server);
        client.payer = payer;
        self.tune(number);
        changes.extend([(listener, true), (number, false)]);
        Ok(())
    }

    /// Makes the end of a connection that waits to be accepted by `listener`, at a user's expense.
    pub(crate) fn accepted(
        &mut self,
        listener: Number,
        uid: u32,
        (local, remote): (SocketAddr, SocketAddr),
    ) -> Result<Number, Errno> {
        let from = self.get(listener)?;
        let (family, options, chose) = (from.family, from.options.clone(), from.chose);
        let number = self.make(family, Kind::Stream, uid).map_err(|_| Errno::ECONNREFUSED)?;
        let local = self.own_address(number, local.ip(), local.port())?;
        let end = self.get_mut(number)?;
        (end.local, end.chose, end.options) = (local, chose, options);
        end.remote = Some(remote);
        end.state = State::Connected;
        self.ports.take_accepted(local.port(), number);
        if let State::Listening { waiting, .. } = &mut self.get_mut(listener)?.state {
            waiting.push_back(number);
        }
        Ok(number)
    }

    /// It accepts connections from now on.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `EINVAL`, `EADDRINUSE` as Linux's.
    pub fn listen(
        &mut self,
        number: Number,
        backlog: u32,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let most = backlog.min(BACKLOG_MOST);
        let socket = self.get_mut(number)?;
        if socket.kind != Kind::Stream {
            return Err(Errno::EOPNOTSUPP);
        }
        match &mut socket.state {
            State::Listening { backlog, .. } => {
                *backlog = most;
                changes.push((number, false));
                return Ok(());
            }
            State::Idle => {}
            _ => return Err(Errno::EINVAL),
        }
        let local = socket.local;
        if local.port() == 0 {
            self.settle(number, local)?;
        } else if !self.may_listen(number, local.port()) {
            return Err(Errno::EADDRINUSE);
        }
        self.ports.find_accepted(local.port(), number);
        let (waiting, knocking) = (VecDeque::new(), VecDeque::new());
        let socket = self.get_mut(number)?;
        socket.state = State::Listening { backlog: most, waiting, knocking };
        (socket.is_deaf, socket.is_mute) = (false, false);
        self.listen_outside(number);
        changes.push((number, false));
        Ok(())
    }

    /// The first that waits to be accepted.
    ///
    /// # Errors
    /// `EAGAIN`: none does; `EINVAL`: it does not listen; `EOPNOTSUPP`: it is for datagrams.
    pub fn accept(&mut self, number: Number, changes: &mut Changes) -> Result<Number, Errno> {
        let socket = self.get_mut(number)?;
        if socket.kind != Kind::Stream {
            return Err(Errno::EOPNOTSUPP);
        }
        let State::Listening { waiting, .. } = &mut socket.state else {
            return Err(Errno::EINVAL);
        };
        let accepted = waiting.pop_front().ok_or(Errno::EAGAIN)?;
        changes.push((number, false));
        self.let_in(number, changes);
        Ok(accepted)
    }

    /// Those who wait for room where connections wait come in as far as there is.
    fn let_in(&mut self, listener: Number, changes: &mut Changes) {
        loop {
            let Ok(socket) = self.get_mut(listener) else { return };
            let State::Listening { backlog, waiting, knocking } = &mut socket.state else { return };
            if waiting.len() > *backlog as usize {
                return;
            }
            let Some(next) = knocking.pop_front() else { return };
            // It may have gone, and the number may be another one's.
            let waits = self
                .get(next)
                .is_ok_and(|next| next.state == State::Connecting && next.link == Link::None);
            if waits {
                if let Err(error) = self.join(next, listener, changes) {
                    self.fail(next, error, changes);
                }
            }
        }
    }

    /// One that was accepted goes back: there was no descriptor for it.
    pub fn accept_later(&mut self, number: Number, accepted: Number) {
        if let Ok(State::Listening { waiting, .. }) =
            self.get_mut(number).map(|socket| &mut socket.state)
        {
            waiting.push_front(accepted);
        }
    }

    /// A stream is connected to nobody any more (`AF_UNSPEC`).
    fn disconnect(&mut self, number: Number, changes: &mut Changes) -> Result<(), Errno> {
        self.stop(number, changes)?;
        self.begin_again(number);
        changes.push((number, false));
        Ok(())
    }

    /// Its connection is reset, or nobody is accepted any more.
    fn stop(&mut self, number: Number, changes: &mut Changes) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        let (link, payer) = (socket.link, socket.payer);
        let unread = core::mem::take(&mut socket.bytes).len();
        socket.urgent = None;
        let state = core::mem::replace(&mut socket.state, State::Closed);
        self.shares.give_back(payer, unread);
        match state {
            State::Listening { waiting, knocking, .. } => {
                waiting.into_iter().for_each(|one| {
                    self.reset_and_remove(one, changes);
                });
                knocking.into_iter().for_each(|one| self.refuse(one, changes));
                if let Link::Wire { id, .. } = link {
                    self.wires.remove(&id);
                    self.command(Command::Deafen { id });
                }
            }
            _ => match link {
                Link::Local(peer) => self.reset(peer, changes),
                Link::Wire { id, .. } => {
                    self.wires.remove(&id);
                    self.command(Command::Abort { id });
                }
                Link::None | Link::Left => {}
            },
        }
        self.get_mut(number)?.link = Link::None;
        Ok(())
    }

    fn reset_and_remove(&mut self, number: Number, changes: &mut Changes) {
        // An error: it has gone.
        let _ = self.stop(number, changes);
        self.remove(number, changes);
    }

    /// Nothing more is read, or sent, or both.
    ///
    /// # Errors
    /// `ENOTCONN`: it is not connected.
    pub fn shut_down(
        &mut self,
        number: Number,
        (read, write): (bool, bool),
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        if socket.kind == Kind::Packet {
            return Err(Errno::EOPNOTSUPP);
        }
        changes.push((number, read));
        if socket.kind != Kind::Stream {
            socket.is_deaf |= read;
            socket.is_mute |= write;
            return match socket.remote {
                Some(_) => Ok(()),
                None => Err(Errno::ENOTCONN),
            };
        }
        match socket.state {
            State::Idle => Err(Errno::ENOTCONN),
            State::Closed => {
                socket.is_deaf |= read;
                socket.is_mute |= write;
                Err(Errno::ENOTCONN)
            }
            State::Listening { .. } | State::Connecting if read => {
                self.stop(number, changes)?;
                self.begin_again(number);
                Ok(())
            }
            State::Listening { .. } => Ok(()),
            State::Connecting => {
                socket.is_mute |= write;
                Ok(())
            }
            State::Connected => {
                let is_first = write && !socket.is_mute;
                socket.is_deaf |= read;
                socket.is_mute |= write;
                if is_first {
                    self.finish(number, changes);
                }
                Ok(())
            }
        }
    }

    /// The other end is told that nothing more comes.
    fn finish(&mut self, number: Number, changes: &mut Changes) {
        let Ok(socket) = self.get_mut(number) else { return };
        let (link, is_finished) = (socket.link, socket.is_finished);
        if is_finished {
            // Both ends are done.
            socket.state = State::Closed;
        }
        match link {
            Link::Local(peer) => {
                if is_finished {
                    socket.link = Link::None;
                }
                if let Ok(peer) = self.get_mut(peer) {
                    peer.is_finished = true;
                    if is_finished {
                        peer.state = State::Closed;
                        peer.link = Link::None;
                    }
                }
                changes.push((peer, true));
            }
            Link::Left => socket.link = Link::None,
            Link::Wire { id, .. } => self.command(Command::Shut { id }),
            Link::None => {}
        }
    }
}
