//! All connections, and whose turn it is.

use crate::conn::{Conn, Next, Origin};
use crate::datagram::Datagrams;
use crate::frame::{answer_of, group_of, look, told_by, Key, What};
use crate::lease::{self, Lease, News};
use crate::parts::{receiver, Parts};
use crate::port::{Mark, Port};
use crate::router::Router;
use crate::sender::Word;
use crate::sums::{self, Sum};
use crate::watch::Watch;
use crate::{Broken, Command, Event, Events, Home, Wire};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use netproto::{Protocol, INCOMING};
use piecewise::{Limits, Shares};
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::socket::tcp::State;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, Ipv4Cidr};

/// Bytes of a buffer of a connection, at most and at least: the less is left, the smaller.
const LARGEST: usize = netproto::LAST as usize;
const SMALLEST: usize = 4 * 1024;
/// Of what is left, a new buffer has at most this part.
const PART: usize = 512;
/// Connections that may be half open.
const HALF_OPEN: usize = 256;
/// With more than this, their buffers are smaller.
const HALF_OPEN_CALM: usize = 32;
const CAUTIOUS: usize = 8 * 1024;
/// Microseconds for which a half-open connection is safe from newer ones.
const SAFE: i64 = 1_000_000;
/// Connections that are over and wait for what may still be on its way.
const LINGERING: usize = 32;
/// Frames that a connection sends in its turn.
const TURN: usize = 48;
/// An odd number: all numbers are the first once.
const FIRST_STEP: u32 = 0x9e37_79b1;
/// Microseconds after which the interface is told again where the gateway is, and for which that is believed.
const TELL: i64 = 20_000_000;
const BELIEVE: i64 = 60_000_000;
/// Microseconds within which a connection looks again whether an address was found.
const SEARCH: i64 = 1_100_000;
/// Microseconds after which one is looked at again which cannot say when.
const SOON: i64 = 1_000;
/// Microseconds within which a question for groups is answered, and between two looks at whether it is time.
const ANSWER: i64 = 12_000_000;
const LOOK: i64 = 250_000;

const ENETUNREACH: u16 = 101;
const EHOSTUNREACH: u16 = 113;
const ENOBUFS: u16 = 105;

struct Listener {
    id: u32,
    /// Whose connections come to it.
    user: u32,
    address: IpAddr,
    v6_only: bool,
}

impl Listener {
    /// Do connections to an address come to it?
    fn takes(&self, to: IpAddr) -> bool {
        match (self.address, to) {
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.v6_only,
            (own, to) => own == to || own.is_unspecified() && own.is_ipv4() == to.is_ipv4(),
        }
    }
}

/// The neighbour that all others are behind. Its address is not asked for again as long as it is heard of: questions are rare, and whoever looks for many
/// neighbours that do not exist would be in everybody's way.
struct Gateway {
    mac: [u8; 6],
    seen: i64,
    told: i64,
}

/// When something is to be told of groups: `smoltcp` does not say. Whoever is asked which groups there are here answers some time within seconds.
#[derive(Default)]
struct Groups {
    due: Option<i64>,
    until: i64,
}

impl Groups {
    /// Groups have changed, or somebody asks for them.
    fn changed(&mut self, now: i64) {
        (self.due, self.until) = (Some(now), now + ANSWER);
    }
}

/// See the crate.
pub struct Stack {
    /// 9 KB: not on the stack of whoever makes it.
    iface: Box<Interface>,
    home: Home,
    conns: BTreeMap<u32, Conn>,
    keys: BTreeMap<Key, u32>,
    listeners: BTreeMap<u16, Vec<Listener>>,
    /// Of which of several listeners of a port the next connection is.
    turn: usize,
    /// From which number on connections have their turns.
    first: u32,
    next: u32,
    /// Where the gateway is, when it was last heard of, and when that was last told to the interface.
    gateway: Option<Gateway>,
    /// Those that were half open when they came, and when.
    half_open: VecDeque<(i64, u32)>,
    lingering: VecDeque<u32>,
    /// Connections to look at.
    dirty: BTreeSet<u32>,
    /// Those to look at later.
    timers: BTreeSet<(i64, u32)>,
    /// Those with events for which there was no room.
    stalled: BTreeSet<u32>,
    /// Bytes of all buffers, by whose connections they are.
    shares: Shares,
    datagrams: Datagrams,
    /// Of packets of IPv6.
    parts: Parts,
    ports: BTreeSet<(Protocol, u16)>,
    /// What did not come to be: told when there is room.
    failed: VecDeque<(u32, u16)>,
    groups: Groups,
    lease: Option<Lease>,
    /// The place that the machine has when nobody gives it one.
    settled: Home,
    /// What was not told yet: the place, and where it is from.
    has_moved: bool,
    news: Option<News>,
    watch: Watch,
    router: Router,
    nothing: SocketSet<'static>,
    /// The wire sums segments: `smoltcp` looks at no sums of theirs.
    sums: bool,
    /// Whoever asks is told when all is sent.
    is_finishing: bool,
}

fn instant(now: i64) -> Instant {
    Instant::from_micros(now)
}

/// The interface has the address, and knows the way to others.
fn settle(iface: &mut Interface, home: &Home) {
    let cidr = IpCidr::Ipv4(Ipv4Cidr::new(home.address, home.prefix.min(32)));
    iface.update_ip_addrs(|all| {
        all.retain(|one| !matches!(one, IpCidr::Ipv4(_)));
        // The first one: there is room.
        let _ = all.push(cidr);
    });
    // Likewise: it takes the place of the one before.
    let _ = match home.gateway.is_unspecified() {
        true => iface.routes_mut().remove_default_ipv4_route(),
        false => iface.routes_mut().add_default_ipv4_route(home.gateway).unwrap_or(None),
    };
}

impl Stack {
    /// At a place in a network. `seed`: nobody knows it. `most`: bytes of the buffers of all connections. Times are microseconds of any clock that
    /// never goes back.
    pub fn new(home: Home, seed: u64, most: usize, now: i64, wire: &mut impl Wire) -> Stack {
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(home.mac)));
        config.random_seed = seed;
        let sums = wire.sums();
        let mut port = Port { frame: None, wire, mtu: home.mtu, mark: Mark::NONE, sender: None };
        let mut iface = Box::new(Interface::new(config, &mut port, instant(now)));
        settle(&mut iface, &home);
        let router = Router::new(home.mac, now);
        router.settle(&mut iface);
        Stack {
            iface,
            home,
            conns: BTreeMap::new(),
            keys: BTreeMap::new(),
            listeners: BTreeMap::new(),
            turn: 0,
            first: 0,
            next: 0,
            gateway: None,
            half_open: VecDeque::new(),
            lingering: VecDeque::new(),
            dirty: BTreeSet::new(),
            timers: BTreeSet::new(),
            stalled: BTreeSet::new(),
            shares: Shares::new(Limits::of(most)),
            datagrams: Datagrams::new(seed),
            parts: Parts::default(),
            ports: BTreeSet::new(),
            failed: VecDeque::new(),
            groups: Groups::default(),
            lease: None,
            settled: home,
            has_moved: false,
            news: None,
            watch: Watch::default(),
            router,
            nothing: SocketSet::new(Vec::new()),
            sums,
            is_finishing: false,
        }
    }

    /// What `unixd` is told first.
    pub fn up(&self) -> Event<'static> {
        let Home { mac, address, prefix, gateway, mtu } = self.home;
        Event::Up { mac, address: address.octets(), prefix, gateway: gateway.octets(), mtu }
    }

    /// Asks for an address, from now on.
    pub fn ask(&mut self, now: i64) {
        self.lease = Some(Lease::new(now));
    }

    /// Looks after the address that was given.
    fn run_lease(&mut self, now: i64, wire: &mut impl Wire, events: &mut impl Events) {
        let ran =
            self.lease.as_mut().map(|lease| lease.run(&mut self.iface, &self.home, now, wire));
        if let Some((news, home)) = ran.flatten() {
            self.news = Some(news);
            self.move_to(home.unwrap_or(self.settled));
        }
        if self.has_moved && events.tell(&self.up()) {
            self.has_moved = false;
        }
        let event = match self.news {
            None => return,
            Some(News::Given { by, names }) => {
                Event::Given { by: by.octets(), names: names.map(|ip| ip.octets()) }
            }
            Some(News::Nobody) => Event::NotGiven { is_over: false },
            Some(News::Over) => Event::NotGiven { is_over: true },
        };
        if events.tell(&event) {
            self.news = None;
        }
    }

    /// The machine has another place. Its connections are those of the address that it had.
    fn move_to(&mut self, home: Home) {
        if home == self.home {
            return;
        }
        self.has_moved = true;
        if home.gateway != self.home.gateway {
            self.gateway = None;
        }
        if home.address != self.home.address {
            self.conns.values_mut().for_each(Conn::lose);
            self.dirty.extend(self.conns.keys());
        }
        self.home = home;
        settle(&mut self.iface, &home);
    }

    /// The machine has another place in a network of IPv6. Connections of an address that it has no more are reset by `smoltcp`.
    fn move_within_v6(&mut self) {
        let before = self.iface.ip_addrs().len();
        self.router.settle(&mut self.iface);
        // Whoever says often that it is a router, and that it is none, is in nobody's way.
        if self.iface.ip_addrs().len() < before {
            self.dirty.extend(self.conns.keys());
        }
    }

    /// Looks after the place in a network of IPv6.
    fn run_router(&mut self, now: i64, wire: &mut impl Wire, events: &mut impl Events) {
        if self.router.run(&self.home, now, wire) {
            self.move_within_v6();
        }
        if self.router.news().is_some_and(|event| events.tell(&event)) {
            self.router.told();
        }
    }

    /// Bytes of the buffers of all connections.
    pub fn used(&self) -> usize {
        self.shares.taken()
    }

    /// Is there no connection, and nothing to be sent?
    pub fn is_idle(&self) -> bool {
        self.conns.is_empty() && self.datagrams.outgoing.is_empty() && !self.watch.sends()
    }

    /// Has everything been sent, and acknowledged?
    fn is_quiet(&self) -> bool {
        let is_over = |conn: &Conn| matches!(conn.state(), State::TimeWait | State::FinWait2);
        let is_sent = self.datagrams.outgoing.is_empty() && !self.watch.sends();
        self.conns.values().all(is_over) && is_sent
    }

    /// Bytes of the buffers of a new connection of a user: `None`: there is no room for any.
    fn size(&self, user: u32) -> Option<usize> {
        let left = self.shares.left(user);
        let size = (left / PART).clamp(SMALLEST, LARGEST);
        let size = 1 << size.ilog2();
        let size = if self.half_open.len() > HALF_OPEN_CALM { CAUTIOUS.min(size) } else { size };
        (2 * size <= left).then_some(size)
    }

    fn insert(&mut self, id: u32, conn: Conn) {
        self.shares.take(conn.user, conn.bytes);
        self.keys.insert(conn.key, id);
        self.conns.insert(id, conn);
        self.dirty.insert(id);
    }

    fn remove(&mut self, id: u32) {
        let Some(conn) = self.conns.remove(&id) else { return };
        self.shares.give_back(conn.user, conn.bytes);
        if self.keys.get(&conn.key) == Some(&id) {
            self.keys.remove(&conn.key);
        }
        if let Some(due) = conn.due {
            self.timers.remove(&(due, id));
        }
        self.dirty.remove(&id);
        self.stalled.remove(&id);
    }

    /// `unixd` wants something.
    ///
    /// # Errors
    /// It cannot want that.
    pub fn command(&mut self, command: Command, now: i64) -> Result<(), Broken> {
        match command {
            Command::Connect { id, user, local, remote } => {
                self.connect((id, user), local, remote)?;
            }
            Command::Listen { id, user, local, v6_only, .. } => {
                let all = self.listeners.entry(local.port()).or_default();
                all.push(Listener { id, user, address: local.ip(), v6_only });
            }
            Command::Deafen { id } => self.listeners.retain(|_, all| {
                all.retain(|listener| listener.id != id);
                !all.is_empty()
            }),
            Command::Send { id, bytes } => self.with(id, |conn| conn.send(bytes))?,
            Command::Read { id, bytes } => self.with(id, |conn| conn.read(bytes))?,
            Command::Shut { id } => self.with(id, |conn| {
                conn.socket().close();
                true
            })?,
            Command::Close { id } => self.with(id, |conn| {
                conn.leave();
                true
            })?,
            Command::Abort { id } => self.with(id, |conn| {
                conn.abort();
                true
            })?,
            Command::Tune { id, no_delay, alive_s, hops, class } => self.with(id, |conn| {
                conn.tune(no_delay, alive_s, hops);
                conn.class = class;
                true
            })?,
            Command::Open { protocol, port } => {
                self.ports.insert((protocol, port));
            }
            Command::Shun { protocol, port } => {
                self.ports.remove(&(protocol, port));
                if self.ports.is_empty() {
                    self.datagrams.forget_came();
                    self.parts.clear();
                }
            }
            Command::Datagram { protocol, local, remote, hops, class, bytes } => {
                let Some(own) = self.source(remote.ip()) else { return Ok(()) };
                let local = SocketAddr::new(own, local.port());
                let how = (hops, class);
                let at = (self.home.mtu, now);
                self.datagrams.send(protocol, (local, remote), how, bytes, at);
            }
            Command::Join { group } => {
                // There is no room for it only as long as many others wait to be told that they were left: it is not heard.
                let _ = self.iface.join_multicast_group(group);
                self.groups.changed(now);
            }
            Command::Leave { group } => {
                // As above.
                let _ = self.iface.leave_multicast_group(group);
                self.groups.changed(now);
            }
            Command::Watch { frames, packets } => self.watch.set(frames, packets),
            // It goes with the next turn.
            Command::Frame { bytes } => self.watch.send(bytes, self.home.mtu),
            Command::Packet { bytes } => self.datagrams.send_packet(bytes, self.home.mtu, now),
            Command::Finish => self.is_finishing = true,
        }
        Ok(())
    }

    /// Does something with a connection, if there is still one.
    fn with(&mut self, id: u32, does: impl FnOnce(&mut Conn) -> bool) -> Result<(), Broken> {
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.is_orphan) else {
            return Ok(());
        };
        self.dirty.insert(id);
        does(conn).then_some(()).ok_or(Broken)
    }

    fn connect(
        &mut self,
        (id, user): (u32, u32),
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(), Broken> {
        if id & INCOMING != 0 || self.conns.contains_key(&id) {
            return Err(Broken);
        }
        let to = remote.ip();
        let (Some(own), true) = (self.source(to), local.port() != 0) else {
            self.failed.push_back((id, ENETUNREACH));
            return Ok(());
        };
        let key = (to, remote.port(), local.port());
        self.forget_over(key);
        let taken = self.keys.contains_key(&key);
        let conn = self.size(user).filter(|_| !taken);
        let conn = conn.and_then(|size| Conn::new(key, Origin::Wanted, (user, size)));
        let Some(mut conn) = conn else {
            self.failed.push_back((id, ENOBUFS));
            return Ok(());
        };
        let own = (own, local.port());
        let made = conn.socket().connect(self.iface.context(), (to, remote.port()), own);
        match made {
            Ok(()) => self.insert(id, conn),
            Err(_) => self.failed.push_back((id, ENETUNREACH)),
        }
        Ok(())
    }

    /// The own address for packets to somebody.
    fn source(&self, to: IpAddr) -> Option<IpAddr> {
        match to {
            IpAddr::V4(_) => Some(self.home.address.into()),
            IpAddr::V6(to) => self.router.place.source(to).map(IpAddr::V6),
        }
    }

    /// Is an address the machine's?
    fn is_own(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => ip == self.home.address,
            IpAddr::V6(ip) => self.router.place.has(ip),
        }
    }

    /// Has the numbers a connection that is over?
    fn forget_over(&mut self, key: Key) {
        if let Some(&id) = self.keys.get(&key) {
            if self.conns.get(&id).is_some_and(|conn| conn.state() == State::TimeWait) {
                self.remove(id);
            }
        }
    }

    /// A frame has come from a device that knows nothing of its sum.
    pub fn frame(&mut self, frame: &[u8], now: i64, wire: &mut impl Wire) {
        self.summed_frame(frame, Sum::Unknown, now, wire);
    }

    /// A frame has come.
    pub fn summed_frame(&mut self, frame: &[u8], sum: Sum, now: i64, wire: &mut impl Wire) {
        let completed = match sum {
            // A device that says nonsense has sent a frame with a wrong sum.
            Sum::Missing(unsummed) if !sums::is_segment(frame) => sums::complete(frame, unsummed),
            _ => None,
        };
        let frame = completed.as_deref().unwrap_or(frame);
        let is_unknown = self.sums && sum == Sum::Unknown;
        if is_unknown && matches!(look(frame), What::Segment { .. }) && !sums::is_right(frame) {
            return;
        }
        let mut watch = core::mem::take(&mut self.watch);
        watch.came(frame, (&self.home, &self.iface), now);
        let is_part = look(frame) == What::PartV6;
        if !is_part {
            self.frame_came(frame, now, &mut watch.over(wire));
        } else if let Some(whole) = self.part_came(frame, watch.wants_packets(), now) {
            watch.came_whole(&whole, (&self.home, &self.iface));
            self.frame_came(&whole, now, &mut watch.over(wire));
        }
        self.watch = watch;
    }

    /// A part of a packet of IPv6 has come. Answers with the frame that all of them are, if somebody wants it.
    fn part_came(&mut self, frame: &[u8], is_watched: bool, now: i64) -> Option<Vec<u8>> {
        let is_mine = frame.starts_with(&self.home.mac) || frame[0] & 1 != 0;
        let to = receiver(frame)?;
        let is_for = self.router.place.has(to) || self.iface.has_multicast_group(to);
        let is_wanted = is_watched || !self.ports.is_empty();
        (is_mine && is_for && is_wanted).then(|| self.parts.came(frame, now)).flatten()
    }

    fn frame_came(&mut self, frame: &[u8], now: i64, wire: &mut impl Wire) {
        let what = look(frame);
        self.see_gateway(frame, now);
        if let What::Segment { key, to, begins: true, .. } = what {
            if !self.begin(key, to, now) {
                return;
            }
        }
        let id = match what {
            What::Segment { key, .. } => self.keys.get(&key).copied(),
            _ => None,
        };
        let wants = |protocol, port| self.ports.contains(&(protocol, port));
        let mtu = self.home.mtu;
        let conn = id.and_then(|id| self.conns.get_mut(&id));
        let steered = conn.and_then(|conn| conn.sender.comes(frame, mtu, now));
        let frame_in = steered.as_deref().unwrap_or(frame);
        let mut port = Port { frame: Some(frame_in), wire, mtu, mark: Mark::NONE, sender: None };
        let mut waited = 0;
        // Sockets for packets are given them whoever they are for.
        let is_strange =
            group_of(frame).is_some_and(|group| !self.iface.has_multicast_group(group));
        let asks = self.lease.as_mut().filter(|_| what == What::Datagram { port: lease::PORT });
        let set = match (what, id.and_then(|id| self.conns.get_mut(&id)), asks) {
            _ if is_strange => &mut self.nothing,
            (.., Some(lease)) => lease.came(now),
            (_, Some(conn), _) => {
                waited = conn.socket().send_queue();
                port.sender = Some(&mut conn.sender);
                &mut conn.set
            }
            (What::Datagram { port }, ..) if wants(Protocol::Udp, port) => self.datagrams.came(),
            (What::Echo { ident }, ..) if wants(Protocol::Echo, ident) => self.datagrams.came(),
            (What::Part, ..) if !self.ports.is_empty() => self.datagrams.came(),
            _ => &mut self.nothing,
        };
        let _ = self.iface.poll_ingress_single(instant(now), &mut port, set);
        match (what, id) {
            (What::Segment { resets, .. }, Some(id)) => {
                self.dirty.insert(id);
                if let Some(conn) = self.conns.get_mut(&id) {
                    let waits = conn.socket().send_queue();
                    let word = conn.sender.heard(waited.saturating_sub(waits), waits, now);
                    self.say(id, word, now, wire);
                }
                if let Some(conn) = self.conns.get_mut(&id).filter(|_| resets) {
                    conn.was_reset();
                }
                // What asked for it was wrong, or is taken back: it waits for nobody.
                if self.conns.get(&id).is_some_and(|conn| conn.state() == State::Listen) {
                    self.remove(id);
                }
            }
            (What::Unreachable { key, code }, _) => self.unreachable(key, code),
            (What::Undelivered { protocol, port }, _) if self.ports.contains(&(protocol, port)) => {
                self.datagrams.not_delivered(frame, (self.home.address, self.router.place));
            }
            (What::Datagram { .. } | What::Echo { .. } | What::Part, _) => {
                self.datagrams.has_come(frame);
            }
            (What::Address, _) => self.look_at_all_that_search(now),
            (What::Groups, _) => self.groups.changed(now),
            (What::Router, _) if self.router.came(frame, &self.home, now) => {
                self.move_within_v6();
            }
            _ => {}
        }
    }

    /// Says something to a connection's socket in its peer's name.
    fn say(&mut self, id: u32, word: Word, now: i64, wire: &mut impl Wire) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.state() == State::Closed {
            // It would be answered, and the answer sent to the peer.
            return;
        }
        let mtu = self.home.mtu;
        for frame in conn.sender.words(word) {
            let (frame, sender) = (Some(&frame[..]), Some(&mut conn.sender));
            let mut port = Port { frame, wire, mtu, mark: Mark::Class(conn.class), sender };
            let _ = self.iface.poll_ingress_single(instant(now), &mut port, &mut conn.set);
        }
    }

    /// Has the frame come from the gateway, or does it say where that is?
    fn see_gateway(&mut self, frame: &[u8], now: i64) {
        if let Some(mac) = told_by(frame, self.home.gateway) {
            self.gateway = Some(Gateway { mac, seen: now, told: now });
        } else if let Some(gateway) = &mut self.gateway {
            if frame.get(6..12) == Some(&gateway.mac[..]) {
                gateway.seen = now;
            }
        }
    }

    /// The interface keeps in mind where the gateway is.
    fn tell_gateway(&mut self, now: i64, wire: &mut impl Wire) {
        let Some(gateway) = &mut self.gateway else { return };
        if now - gateway.told < TELL || now - gateway.seen > BELIEVE {
            return;
        }
        gateway.told = now;
        let answer =
            answer_of((gateway.mac, self.home.gateway), (self.home.mac, self.home.address));
        let mut port =
            Port { frame: Some(&answer), wire, mtu: self.home.mtu, mark: Mark::NONE, sender: None };
        let _ = self.iface.poll_ingress_single(instant(now), &mut port, &mut self.nothing);
    }

    /// An address was found, perhaps one that connections wait for: those look again soon anyway.
    fn look_at_all_that_search(&mut self, now: i64) {
        let soon = self.timers.range(..(now + SEARCH, 0));
        self.dirty.extend(soon.map(|&(_, id)| id));
    }

    /// Somebody on the way says that a peer cannot be reached: that ends attempts, not connections.
    fn unreachable(&mut self, key: Key, code: u8) {
        let Some(&id) = self.keys.get(&key) else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.state() == State::SynSent {
            let is_net = matches!(code, 0 | 6 | 11);
            conn.error = Some(if is_net { ENETUNREACH } else { EHOSTUNREACH });
            conn.socket().abort();
            self.dirty.insert(id);
        }
    }

    /// Somebody wants a connection: if it is wanted here, there is one that waits for this frame. `false`: there is no room for that now, and
    /// whoever wants it is not answered, so asks again.
    fn begin(&mut self, key: Key, to: IpAddr, now: i64) -> bool {
        let (_, _, own) = key;
        self.forget_over(key);
        if self.keys.contains_key(&key) || !self.is_own(to) {
            return true;
        }
        let Some(all) = self.listeners.get(&own) else { return true };
        let fit = |one: &&Listener| one.takes(to);
        let count = all.iter().filter(fit).count().max(1);
        self.turn = self.turn.wrapping_add(1);
        let Some(listener) = all.iter().filter(fit).nth(self.turn % count) else { return true };
        let (listener, user) = (listener.id, listener.user);
        self.make_room(now);
        if self.half_open.len() >= HALF_OPEN {
            return false;
        }
        let origin = Origin::Came { listener, to };
        let conn = self.size(user).and_then(|size| Conn::new(key, origin, (user, size)));
        let Some(mut conn) = conn else { return false };
        if conn.socket().listen((to, own)).is_err() {
            return false;
        }
        let id = self.number();
        self.half_open.push_back((now, id));
        self.insert(id, conn);
        true
    }

    /// A number for a connection that comes.
    fn number(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            let id = self.next | INCOMING;
            if !self.conns.contains_key(&id) {
                return id;
            }
        }
    }

    /// Those that are complete are not half open any more; the oldest goes if there are too many and it has had its time.
    fn make_room(&mut self, now: i64) {
        let conns = &self.conns;
        self.half_open.retain(|(_, id)| conns.get(id).is_some_and(Conn::is_half_open));
        if self.half_open.len() < HALF_OPEN {
            return;
        }
        if let Some(&(since, id)) = self.half_open.front() {
            if now - since > SAFE {
                self.half_open.pop_front();
                self.remove(id);
            }
        }
    }

    /// There is room for events again.
    pub fn resume(&mut self) {
        self.dirty.append(&mut self.stalled);
    }

    /// Sends and tells what there is to send and to tell. Answers when there is more to do, in microseconds: `None`: when something comes.
    pub fn run(&mut self, now: i64, wire: &mut impl Wire, events: &mut impl Events) -> Option<i64> {
        let mut watch = core::mem::take(&mut self.watch);
        let due = self.run_over(now, &mut watch.over(wire), events);
        let waits = watch.run(wire, events);
        self.watch = watch;
        due.into_iter().chain(waits.then_some(now + SOON)).min()
    }

    fn run_over(
        &mut self,
        now: i64,
        wire: &mut impl Wire,
        events: &mut impl Events,
    ) -> Option<i64> {
        while let Some(&(id, error)) = self.failed.front() {
            if !events.tell(&Event::Gone { id, error }) {
                break;
            }
            self.failed.pop_front();
        }
        self.run_lease(now, wire, events);
        self.run_router(now, wire, events);
        let ports = &self.ports;
        self.datagrams.tell(|protocol, port| ports.contains(&(protocol, port)), events);
        self.tell_gateway(now, wire);
        self.send_datagrams(now, wire);
        while let Some(&(due, id)) = self.timers.first().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, id));
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.due = None;
                self.dirty.insert(id);
            }
        }
        // Whoever is dirty again at once has its next turn in the next round.
        let all = core::mem::take(&mut self.dirty);
        // Where several wait for what one can have, the first is not always the same.
        self.first = self.first.wrapping_add(FIRST_STEP);
        for &id in all.range(self.first..).chain(all.range(..self.first)) {
            self.look_at(id, now, wire, events);
        }
        if self.is_finishing && self.is_quiet() && events.tell(&Event::Idle) {
            self.is_finishing = false;
            let ids: Vec<u32> = self.conns.keys().copied().collect();
            ids.into_iter().for_each(|id| self.remove(id));
            self.lingering.clear();
        }
        if !self.dirty.is_empty() && wire.has_room() {
            return Some(now);
        }
        let outgoing = self.datagrams.outgoing.front().map(|_| now + SOON);
        let due = self.timers.first().map(|&(due, _)| due);
        let lease = self.lease.as_ref().map(Lease::due);
        [outgoing, due, self.groups.due, lease, self.router.due()].into_iter().flatten().min()
    }

    fn send_datagrams(&mut self, now: i64, wire: &mut impl Wire) {
        let mut port =
            Port { frame: None, wire, mtu: self.home.mtu, mark: Mark::NONE, sender: None };
        if self.groups.due.is_some_and(|due| due <= now) {
            self.iface.poll_egress(instant(now), &mut port, &mut self.nothing);
            self.groups.due = (now < self.groups.until).then_some(now + LOOK);
        }
        // The rest of a packet in parts.
        while self.iface.poll_at(instant(now), &self.nothing).is_some() && port.wire.has_room() {
            self.iface.poll_egress(instant(now), &mut port, &mut self.nothing);
        }
        for packet in &mut self.datagrams.outgoing {
            port.mark = packet.mark;
            // One packet, or the parts of one of IPv6.
            while port.wire.has_room()
                && self.iface.poll_at(instant(now), &self.nothing).is_none()
                && self.iface.poll_egress(instant(now), &mut port, &mut packet.set)
                    != PollResult::None
            {}
            while self.iface.poll_at(instant(now), &self.nothing).is_some() && port.wire.has_room()
            {
                self.iface.poll_egress(instant(now), &mut port, &mut self.nothing);
            }
        }
        self.datagrams.outgoing.retain(|packet| packet.waits(now));
    }

    fn look_at(&mut self, id: u32, now: i64, wire: &mut impl Wire, events: &mut impl Events) {
        if self.conns.get_mut(&id).is_some_and(|conn| conn.sender.is_late(now)) {
            self.say(id, Word::Missing, now, wire);
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let told = conn.tell(id, events);
        let (mtu, mark) = (self.home.mtu, Mark::Class(conn.class));
        let sender = Some(&mut conn.sender);
        let mut port = Port { frame: None, wire, mtu, mark, sender };
        let mut sent = 0;
        while sent < TURN
            && self.iface.poll_egress(instant(now), &mut port, &mut conn.set) != PollResult::None
        {
            sent += 1;
        }
        let due = self.iface.poll_at(instant(now), &conn.set).map(|due| due.total_micros());
        let due = [due, conn.sender.due()].into_iter().flatten().min();
        let state = conn.state();
        let is_over = state == State::Closed && conn.socket().remote_endpoint().is_none();
        if let Some(old) = conn.due.take() {
            self.timers.remove(&(old, id));
        }
        match told {
            Next::Over => return self.remove(id),
            Next::Stalled => {
                self.stalled.insert(id);
            }
            Next::Waits
                if state == State::Closed && conn.is_orphan && (is_over || conn.is_late(now)) =>
            {
                return self.remove(id);
            }
            Next::Waits => {}
        }
        match due {
            // There was no room, or it was not everything.
            Some(due) if due <= now && sent == TURN => {
                self.dirty.insert(id);
            }
            Some(due) => {
                let due = due.max(now + SOON);
                conn.due = Some(due);
                self.timers.insert((due, id));
            }
            None => {}
        }
        // What was sent may have changed what is to be told, as the time may have.
        if told == Next::Waits && state == State::Closed && !conn.is_orphan {
            self.dirty.insert(id);
        }
        if state == State::TimeWait && conn.is_orphan && !self.lingering.contains(&id) {
            self.lingering.push_back(id);
            if self.lingering.len() > LINGERING {
                if let Some(oldest) = self.lingering.pop_front() {
                    let is_over = |conn: &Conn| conn.state() == State::TimeWait;
                    if self.conns.get(&oldest).is_some_and(is_over) {
                        self.remove(oldest);
                    }
                }
            }
        }
    }
}
