//! Ports, and who has them.

use crate::address::{any, plain};
use crate::socket::{protocol, Family, Inet, Interface, Kind, Number, Socket, State};
use crate::FREE_PORT;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use netproto::Command;
use unixproto::Errno;

/// Ports that are given to those who want any (Linux: `ip_local_port_range`).
const ANY: core::ops::RangeInclusive<u16> = 32768..=60999;

/// Who has which port.
#[derive(Default)]
pub(crate) struct Ports {
    taken: BTreeMap<(Kind, u16), Vec<Number>>,
    /// Connections that were accepted, by the port of who listens: there may be very many, and nothing that comes is for one that is found by its port.
    accepted: BTreeSet<(u16, Number)>,
    next: u16,
}

impl Ports {
    /// Those who have a port, in the order in which they took it, but for accepted connections.
    pub fn at(&self, kind: Kind, port: u16) -> &[Number] {
        self.taken.get(&(kind, port)).map_or(&[], |all| all)
    }

    pub fn take(&mut self, kind: Kind, port: u16, number: Number) {
        self.taken.entry((kind, port)).or_default().push(number);
    }

    /// A connection was accepted at a port of somebody who listens.
    pub fn take_accepted(&mut self, port: u16, number: Number) {
        self.accepted.insert((port, number));
    }

    /// What was once accepted listens itself, now that it is connected to nobody: from now on it is found.
    pub fn find_accepted(&mut self, port: u16, number: Number) {
        if self.accepted.remove(&(port, number)) {
            self.take(Kind::Stream, port, number);
        }
    }

    /// The same with those.
    pub fn all_at(&self, kind: Kind, port: u16) -> impl Iterator<Item = &Number> {
        let accepted = (kind == Kind::Stream).then(|| self.accepted_at(port));
        self.at(kind, port).iter().chain(accepted.into_iter().flatten())
    }

    fn accepted_at(&self, port: u16) -> impl Iterator<Item = &Number> {
        self.accepted.range((port, 0)..=(port, Number::MAX)).map(|(_, number)| number)
    }

    pub fn give_back(&mut self, kind: Kind, port: u16, number: Number) {
        if kind == Kind::Stream && self.accepted.remove(&(port, number)) {
            return;
        }
        let Some(all) = self.taken.get_mut(&(kind, port)) else { return };
        all.retain(|one| *one != number);
        if all.is_empty() {
            self.taken.remove(&(kind, port));
        }
    }

    /// A port that nobody has.
    fn free(&mut self, kind: Kind) -> Option<u16> {
        let (count, first) = (ANY.end() - ANY.start() + 1, *ANY.start());
        for _ in 0..count {
            // Neighbouring ports are not given one after the other, and each comes once.
            self.next = (self.next + 4099) % count;
            let port = first + self.next;
            let is_accepted_at = kind == Kind::Stream && self.accepted_at(port).next().is_some();
            if !is_accepted_at && !self.taken.contains_key(&(kind, port)) {
                return Some(port);
            }
        }
        None
    }
}

impl Socket {
    /// Does something for its address arrive here?
    pub(crate) fn covers(&self, ip: IpAddr) -> bool {
        let own = self.local.ip();
        match (self.family, own.is_unspecified(), ip) {
            (Family::V4, true, IpAddr::V4(_)) => true,
            (Family::V6, true, IpAddr::V6(_)) => true,
            (Family::V6, true, IpAddr::V4(_)) => !self.options.v6_only,
            (_, true, _) => false,
            (_, false, ip) => own.to_canonical() == ip,
        }
    }

    /// Could something arrive at both?
    fn overlaps(&self, other: &Socket) -> bool {
        let (own, its) = (self.local.ip().to_canonical(), other.local.ip().to_canonical());
        match (own.is_unspecified(), its.is_unspecified()) {
            (false, false) => own == its,
            (true, false) => self.covers(its),
            (false, true) => other.covers(own),
            (true, true) => {
                self.family == other.family
                    || !(self.family == Family::V6 && self.options.v6_only
                        || other.family == Family::V6 && other.options.v6_only)
            }
        }
    }

    fn is_listening(&self) -> bool {
        matches!(self.state, State::Listening { .. })
    }

    /// May it have a port that another one has?
    fn shares(&self, other: &Socket) -> bool {
        let (own, its) = (&self.options, &other.options);
        let may_twice = own.reuse_address
            && its.reuse_address
            && !(self.kind == Kind::Stream && (self.is_listening() || other.is_listening()));
        may_twice || own.reuse_port && its.reuse_port && self.uid == other.uid
    }
}

impl Inet {
    /// Gives it an address and a port. `may_low`: of those below [`FREE_PORT`], too.
    ///
    /// # Errors
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES` as Linux's.
    pub fn bind(
        &mut self,
        number: Number,
        address: SocketAddr,
        may_low: bool,
    ) -> Result<(), Errno> {
        let socket = self.get(number)?;
        let (family, kind) = (socket.family, socket.kind);
        let ip = address.ip().to_canonical();
        let is_ours = ip.is_unspecified() || self.is_local(ip) || self.inside.may_bind(ip);
        let is_many = kind != Kind::Echo && is_for_many(address.ip(), self.interface.as_ref());
        if !is_ours && !is_many {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if address.ip().to_canonical().is_ipv4() && family == Family::V6 && socket.options.v6_only {
            return Err(Errno::EINVAL);
        }
        let port = address.port();
        if port != 0 && port < FREE_PORT && !may_low && !matches!(kind, Kind::Echo | Kind::Raw) {
            return Err(Errno::EACCES);
        }
        if socket.is_bound() || socket.state != State::Idle {
            return Err(Errno::EINVAL);
        }
        let ip = match (family, address.ip()) {
            (Family::V6, IpAddr::V4(ip)) if ip.is_unspecified() => any(family),
            (Family::V6, IpAddr::V4(ip)) => ip.to_ipv6_mapped().into(),
            (_, ip) => ip,
        };
        if kind == Kind::Raw {
            // There are no ports.
            let socket = self.get_mut(number)?;
            socket.local.set_ip(ip);
            socket.chose = (!ip.is_unspecified(), false);
            return Ok(());
        }
        self.settle(number, SocketAddr::new(ip, port))?;
        self.get_mut(number)?.chose = (!ip.is_unspecified(), port != 0);
        Ok(())
    }

    /// Gives it an address, and a port that is free if that says none.
    pub(crate) fn settle(&mut self, number: Number, address: SocketAddr) -> Result<(), Errno> {
        let (kind, before) = {
            let socket = self.get_mut(number)?;
            (socket.kind, core::mem::replace(&mut socket.local, address))
        };
        let port = match address.port() {
            0 => self.ports.free(kind).ok_or(Errno::EADDRINUSE),
            port if self.is_free(number, port) => Ok(port),
            _ => Err(Errno::EADDRINUSE),
        };
        let socket = self.get_mut(number)?;
        let port = match port {
            Ok(port) => port,
            Err(error) => {
                socket.local = before;
                return Err(error);
            }
        };
        socket.local.set_port(port);
        self.ports.take(kind, port, number);
        if let Some(protocol) = protocol(kind).filter(|_| self.interface.is_some()) {
            if self.ports.at(kind, port).len() == 1 && !address.ip().is_loopback() {
                self.command(Command::Open { protocol, port });
            }
        }
        Ok(())
    }

    /// May a socket that has an address have a port?
    fn is_free(&self, number: Number, port: u16) -> bool {
        let Ok(socket) = self.get(number) else { return false };
        self.ports.all_at(socket.kind, port).all(|&other| {
            let Ok(other) = self.get(other) else { return true };
            !socket.overlaps(other) || socket.shares(other)
        })
    }

    /// The same, of one that has it already and begins to listen.
    pub(crate) fn may_listen(&self, number: Number, port: u16) -> bool {
        let Ok(socket) = self.get(number) else { return false };
        self.ports.at(socket.kind, port).iter().filter(|&&other| other != number).all(|&other| {
            let Ok(other) = self.get(other) else { return true };
            let both = socket.options.reuse_port && other.options.reuse_port;
            !other.is_listening() || !socket.overlaps(other) || both && socket.uid == other.uid
        })
    }

    /// Of those who fit best (the score is the higher the better), the one whose turn it is.
    fn best(&mut self, found: Vec<(u32, Number, bool)>) -> Option<Number> {
        let most = found.iter().map(|(score, ..)| *score).max()?;
        let mut best = found.into_iter().filter(|(score, ..)| *score == most).peekable();
        let shares = best.peek()?.2;
        let best: Vec<Number> = best.map(|(_, number, _)| number).collect();
        if !shares {
            return best.last().copied();
        }
        self.turn = self.turn.wrapping_add(1);
        best.get(self.turn as usize % best.len()).copied()
    }

    /// Who listens at an address.
    pub(crate) fn listener(&mut self, at: SocketAddr) -> Option<Number> {
        let ip = at.ip().to_canonical();
        let fits = |&number: &Number| {
            let socket = self.get(number).ok()?;
            let score = score(socket, ip);
            (socket.is_listening() && socket.covers(ip)).then_some((
                score,
                number,
                socket.options.reuse_port,
            ))
        };
        let found = self.ports.at(Kind::Stream, at.port()).iter().filter_map(fits).collect();
        self.best(found)
    }

    /// Who gets a datagram.
    pub(crate) fn receiver(
        &mut self,
        kind: Kind,
        at: SocketAddr,
        from: SocketAddr,
    ) -> Option<Number> {
        let ip = at.ip().to_canonical();
        let fits = |&number: &Number| {
            let socket = self.get(number).ok()?;
            let is_from = socket.remote.map(|remote| plain(remote) == plain(from));
            if is_from == Some(false) || !socket.covers(ip) {
                return None;
            }
            let score = score(socket, ip) + if is_from.is_some() { 4 } else { 0 };
            Some((score, number, socket.options.reuse_port))
        };
        let found = self.ports.at(kind, at.port()).iter().filter_map(fits).collect();
        self.best(found)
    }
}

/// How well a socket fits: an address of its own is better than any, its own family than both.
fn score(socket: &Socket, ip: IpAddr) -> u32 {
    let is_own = !socket.local.ip().is_unspecified();
    let is_family = (socket.family == Family::V4) == ip.is_ipv4();
    2 * u32::from(is_own) + u32::from(is_family)
}

/// Is an address that of many?
pub(crate) fn is_for_many(ip: IpAddr, interface: Option<&Interface>) -> bool {
    let IpAddr::V4(ip) = ip.to_canonical() else { return ip.is_multicast() };
    let all = interface.map(|interface| {
        let host = u32::MAX.checked_shr(interface.prefix.into()).unwrap_or(0);
        (interface.address.to_bits() | host) == ip.to_bits()
    });
    ip.is_broadcast() || ip.is_multicast() || all == Some(true)
}
