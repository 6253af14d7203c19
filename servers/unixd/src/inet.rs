//! Sockets of the internet. What they are is in the crate `inet`; here are their descriptions, and who waits for them;
//! what leaves the machine goes over [`crate::wire`].

mod options;

use crate::descs::{Desc, Object};
use crate::effects::Effects;
use crate::open::Opening;
use crate::otherspaces::{EndedNets, Net, FIRST_NETS};
use crate::pipes::broken;
use crate::procs::Pid;
use crate::sockets::{directions, just_counted, BEHIND, USER_BYTES};
use crate::spaces::Lease;
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried, WaitersOf};
use crate::watches::Source;
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use credentials::Capability;
use files::Claim;
use inet::netlink::Language;
use inet::{Changes, Family, Inet, Kind, Number, Received, Sending, Telling, NUMBERS};
use piecewise::Table;
use unixproto::files::{O_NONBLOCK, O_RDWR};
use unixproto::ops::Accepted;
use unixproto::session::DATA_BYTES;
use unixproto::sockets::*;
use unixproto::{op, Any, Errno};

const IPPROTO_ICMP: u32 = 1;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
/// One more than the last number of a protocol that packets can have.
const PROTOCOLS: u32 = 256;
const IPPROTO_ICMPV6: u32 = 58;

/// Of inodes: those of local sockets are below.
const INODES: u64 = 1 << 20;

/// What names a socket in `/proc`.
pub fn inode(number: Number) -> u64 {
    INODES + u64::from(number)
}

/// Where the sockets of a network name space are: 0 is the first one's.
pub type Slot = u32;

/// Those of another name space, which is there as long as somebody is in it or has it open, or has a socket of it.
struct Other {
    inet: Inet,
    /// Its number, and the user name space that it belongs to.
    number: u64,
    owner: u64,
    space: Weak<Net>,
    /// Its place in the count of who has made it.
    _kept: Rc<Lease>,
}

/// All of them, and who waits for one.
#[derive(Default)]
pub struct Sockets {
    /// Those of the first name space.
    pub all: Inet,
    /// The others: the one of slot N is at N - 1.
    others: Table<Other>,
    waiters: WaitersOf<Number>,
    /// Of netlink: those that ask about sockets, and have another turn.
    pub dumps: VecDeque<Number>,
}

/// The slot of a socket's name space.
pub fn slot_of(number: Number) -> Slot {
    number / NUMBERS
}

impl Sockets {
    /// A network name space begins: `lo` is down, and there is nothing else.
    ///
    /// # Errors
    /// `ENOMEM`
    pub fn begin(
        &mut self,
        (number, kept): (u64, Rc<Lease>),
        owner: u64,
        ended: EndedNets,
    ) -> Result<Rc<Net>, Errno> {
        let other = Other { inet: Inet::default(), number, owner, space: Weak::new(), _kept: kept };
        let place = self.others.insert(other).map_err(|_| Errno::ENOMEM)?;
        let slot = place as Slot + 1;
        let space = Net::new((number, owner, slot), ended);
        if let Some(other) = self.others.get_mut(place) {
            other.inet = self.all.beside(slot * NUMBERS);
            other.space = Rc::downgrade(&space);
        }
        Ok(space)
    }

    /// Nobody is in some name spaces any more: those without sockets go.
    pub fn end(&mut self, slots: &[Slot]) {
        slots.iter().for_each(|&slot| self.end_one(slot));
    }

    fn end_one(&mut self, slot: Slot) {
        let Some(place) = slot.checked_sub(1).map(|place| place as usize) else { return };
        let is_left = |other: &Other| other.space.strong_count() == 0 && other.inet.is_empty();
        if self.others.get(place).is_some_and(is_left) {
            self.others.remove(place);
        }
    }

    /// The name space of a socket, also if nobody else is in it; `None`: the first one.
    pub fn space_of(&mut self, number: Number, ended: &EndedNets) -> Option<Rc<Net>> {
        let slot = slot_of(number);
        let other = self.others.get_mut(slot.checked_sub(1)? as usize)?;
        Some(other.space.upgrade().unwrap_or_else(|| {
            let space = Net::new((other.number, other.owner, slot), ended.clone());
            other.space = Rc::downgrade(&space);
            space
        }))
    }

    /// The number of the network name space of a socket.
    pub fn space_number(&self, number: Number) -> u64 {
        let place = slot_of(number).checked_sub(1);
        let other = place.and_then(|place| self.others.get(place as usize));
        other.map_or(FIRST_NETS, |other| other.number)
    }

    /// The user name space that a socket's network belongs to.
    pub fn owner_of(&self, number: Number) -> u64 {
        let place = slot_of(number).checked_sub(1);
        let other = place.and_then(|place| self.others.get(place as usize));
        other.map_or(0, |other| other.owner)
    }

    /// The sockets of a name space.
    pub fn at(&self, slot: Slot) -> &Inet {
        let other = slot.checked_sub(1).and_then(|place| self.others.get(place as usize));
        other.map_or(&self.all, |other| &other.inet)
    }

    /// The same, to be changed.
    pub fn at_mut(&mut self, slot: Slot) -> &mut Inet {
        let other = slot.checked_sub(1).and_then(|place| self.others.get_mut(place as usize));
        other.map_or(&mut self.all, |other| &mut other.inet)
    }

    /// Those that a socket is among.
    pub fn of(&self, number: Number) -> &Inet {
        self.at(slot_of(number))
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, number: Number) -> &mut Inet {
        self.at_mut(slot_of(number))
    }

    /// A thread waits for something to happen to a socket.
    pub fn wait(&mut self, number: Number, tid: Tid) {
        self.waiters.add(number, tid);
    }

    /// Something has happened to sockets of one name space.
    pub fn told(&mut self, changes: Changes, fx: &mut Effects) {
        let slot = changes.first().map_or(0, |(number, _)| slot_of(*number));
        for (number, data) in changes {
            self.waiters.wake(&number, fx);
            fx.changed(Source::Inet(number), data);
        }
        while let Some(number) = self.at_mut(slot).take_urged() {
            fx.urgent(Source::Inet(number));
        }
    }

    /// The system says something to a socket of netlink, if it does.
    pub fn say(&mut self, word: Option<(Number, Vec<u8>)>, fx: &mut Effects) {
        if let Some((number, bytes)) = word {
            let mut changes = Changes::new();
            self.of_mut(number).tell_route(number, bytes, &mut changes);
            self.told(changes, fx);
        }
    }

    /// A call on a stream is over.
    pub fn call_over(&mut self, number: Number, telling: Telling, now: i64, fx: &mut Effects) {
        let mut changes = Changes::new();
        let all = self.of_mut(number);
        all.set_time(now);
        all.call_over(number, telling, &mut changes);
        self.told(changes, fx);
    }

    /// Nobody has a socket any more.
    pub fn closed(&mut self, number: Number, fx: &mut Effects) {
        let mut changes = Changes::new();
        self.of_mut(number).remove(number, &mut changes);
        self.told(changes, fx);
        self.end_one(slot_of(number));
    }
}

/// What is told of a call on a stream, now that a request to send its bytes is over, by an answer or because it is given up: what the request has
/// kept, if the call is over with it and has sent anything.
pub fn told_of(call: &Call) -> Option<Telling> {
    let flags = match call.any {
        Any::Send(op) => op.flags,
        _ => 0,
    };
    let has_sent = call.done > 0 || flags & CONTINUED != 0;
    let goes_on = flags & CONTINUES != 0 && call.done >= call.lengths.0;
    (call.kept != 0 && has_sent && !goes_on).then(|| Telling::unpack(call.kept))
}

/// An address as programs read it.
fn encode(address: core::net::SocketAddr, (family, kind): (Family, Kind)) -> Vec<u8> {
    match kind {
        Kind::Route => inet::netlink::encode(address),
        Kind::Packet => inet::packet::encode(address),
        _ => inet::encode(address, family),
    }
}

/// The socket that a description is of.
fn socket_of(desc: &Desc) -> Result<Number, Errno> {
    match desc.object {
        Object::Inet(number) => Ok(number),
        _ => Err(Errno::ENOTSOCK),
    }
}

/// What goes along with a message to others: control messages, and the address. Descriptors and users, which mean nothing there, are passed over.
fn along(all: &[u8], op: op::Send) -> Result<(&[u8], &[u8]), Errno> {
    let before = 4 * op.rights as usize + if op.tells { USER_BYTES } else { 0 };
    let rest = all.get(before..).ok_or(Errno::EINVAL)?;
    rest.split_at_checked(op.control as usize).ok_or(Errno::EINVAL)
}

impl Opening<'_> {
    /// The socket of a description, and whether that never waits.
    fn inet_socket(&self, id: u32) -> Result<(Number, bool), Errno> {
        let desc = self.handles.descs.of(self.caller.pid, id)?;
        Ok((socket_of(desc)?, desc.nonblocking()))
    }

    /// A socket of netlink of the caller. `ENOTSOCK`: it is no socket; `EINVAL`: it is another one.
    pub fn route_socket(&mut self, id: u32) -> Result<Number, Errno> {
        let number = match self.handles.descs.of(self.caller.pid, id)?.object {
            Object::Inet(number) => number,
            Object::Socket(_) => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOTSOCK),
        };
        match self.inet(number).kind(number)? {
            (_, Kind::Route) => Ok(number),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The caller's process id as it sees it itself, which a socket of netlink has.
    fn own_number(&self) -> Pid {
        self.procs.number_for(self.caller.pid, self.caller.pid)
    }

    /// Those that a socket is among.
    fn inet(&mut self, number: Number) -> &mut Inet {
        self.handles.sockets.inet.of_mut(number)
    }

    /// Those of the caller's name space, which it belongs to.
    fn own_inet(&mut self) -> Result<&mut Inet, Errno> {
        let (slot, _) = self.procs.get(self.caller.pid)?.net_place();
        Ok(self.handles.sockets.inet.at_mut(slot))
    }

    fn inet_told(&mut self, changes: Changes) {
        self.handles.sockets.inet.told(changes, self.handles.fx);
    }

    /// Has the caller a right where its own network belongs to?
    fn has(&self, capability: Capability) -> bool {
        let proc = self.procs.get(self.caller.pid);
        proc.is_ok_and(|proc| proc.who.has_in(proc.net_place().1, capability))
    }

    /// Has it where a socket's belongs to?
    fn has_over(&self, number: Number, capability: Capability) -> bool {
        let owner = self.handles.sockets.inet.owner_of(number);
        let proc = self.procs.get(self.caller.pid);
        proc.is_ok_and(|proc| proc.who.has_in(owner, capability))
    }

    /// The caller waits for a socket.
    fn wait_inet(&mut self, number: Number, times: (bool, u64), call: &Call) -> Tried {
        let waits = self.for_so_long(times, call)?;
        self.handles.sockets.inet.wait(number, self.caller.tid);
        Ok(waits)
    }

    /// `socket`.
    pub fn make_inet(&mut self, op: op::Socket) -> Tried {
        if op.domain == AF_NETLINK.into() {
            return self.make_route(op);
        }
        if op.domain == AF_PACKET.into() {
            return self.make_packet(op);
        }
        let family = match u16::try_from(op.domain) {
            Ok(AF_INET) => Family::V4,
            Ok(AF_INET6) => Family::V6,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        let kind = match (op.kind, op.protocol, family) {
            (SOCK_STREAM, 0 | IPPROTO_TCP, _) => Kind::Stream,
            (SOCK_DGRAM, 0 | IPPROTO_UDP, _) => Kind::Datagram,
            (SOCK_DGRAM, IPPROTO_ICMP, Family::V4) => Kind::Echo,
            (SOCK_DGRAM, IPPROTO_ICMPV6, Family::V6) => Kind::Echo,
            (SOCK_RAW, 1.., _) if !self.has(Capability::NetRaw) => return Err(Errno::EPERM),
            (SOCK_RAW, 1..PROTOCOLS, _) => Kind::Raw,
            (SOCK_RAW, PROTOCOLS.., _) => return Err(Errno::EINVAL),
            (SOCK_STREAM | SOCK_DGRAM | SOCK_RAW, ..) => return Err(Errno::EPROTONOSUPPORT),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        };
        self.room(1)?;
        let uid = self.cred().uid;
        let number = match kind {
            Kind::Raw => self.own_inet()?.make_raw(family, op.protocol as u8, uid)?,
            _ => self.own_inet()?.make(family, kind, uid)?,
        };
        self.inet_told(Changes::new());
        self.opened(Object::Inet(number), O_RDWR | op.flags & O_NONBLOCK, None, Claim::None)
    }

    /// `socket`, of packets.
    fn make_packet(&mut self, op: op::Socket) -> Tried {
        if !self.has(Capability::NetRaw) {
            return Err(Errno::EPERM);
        }
        let is_cooked = match op.kind {
            SOCK_RAW => false,
            SOCK_DGRAM => true,
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        };
        self.room(1)?;
        let uid = self.cred().uid;
        // As it is in a frame.
        let protocol = u16::from_be(op.protocol as u16);
        let number = self.own_inet()?.make_packet(is_cooked, protocol, uid)?;
        self.inet_told(Changes::new());
        self.opened(Object::Inet(number), O_RDWR | op.flags & O_NONBLOCK, None, Claim::None)
    }

    /// `socket`, of netlink.
    fn make_route(&mut self, op: op::Socket) -> Tried {
        if !matches!(op.kind, SOCK_RAW | SOCK_DGRAM) {
            return Err(Errno::ESOCKTNOSUPPORT);
        }
        let language = Language::of(op.protocol).ok_or(Errno::EPROTONOSUPPORT)?;
        self.room(1)?;
        let uid = self.cred().uid;
        let number = self.own_inet()?.make_netlink(language, uid)?;
        // What it was made as is told again.
        self.inet(number).set_options(number, |options| {
            options.others.insert(SO_TYPE, op.kind.into());
        })?;
        self.opened(Object::Inet(number), O_RDWR | op.flags & O_NONBLOCK, None, Claim::None)
    }

    /// `bind`.
    pub fn bind_inet(&mut self, call: &Call, op: op::Bind) -> Tried {
        let (number, _) = self.inet_socket(op.desc)?;
        let address = self.procs.a(self.caller, call)?;
        let (family, kind) = self.inet(number).kind(number)?;
        if kind == Kind::Route {
            let pid = self.own_number();
            self.inet(number).bind_route(number, &address, pid)?;
            return done(());
        }
        if kind == Kind::Packet {
            self.inet(number).bind_packet(number, &address)?;
            self.inet_told(Changes::new());
            return done(());
        }
        let may_low = self.has_over(number, Capability::NetBindService);
        let address = match (inet::decode(&address, family)?, family) {
            (Some(own), _) => {
                self.inet(number).check_wire(&address, own.ip(), true)?;
                own
            }
            // As Linux has it, of no family is of any address, if it says so.
            (None, Family::V4) => {
                let mut address = address;
                address[..FAMILY_BYTES].copy_from_slice(&AF_INET.to_ne_bytes());
                let address = inet::decode(&address, family)?.ok_or(Errno::EAFNOSUPPORT)?;
                match address.ip().is_unspecified() {
                    true => address,
                    false => return Err(Errno::EAFNOSUPPORT),
                }
            }
            (None, Family::V6) => return Err(Errno::EAFNOSUPPORT),
        };
        self.inet(number).bind(number, address, may_low)?;
        self.inet_told(Changes::new());
        done(())
    }

    /// `connect`.
    pub fn connect_inet(&mut self, call: &Call, op: op::Connect) -> Tried {
        let (number, now) = self.inet_socket(op.desc)?;
        let address = self.procs.a(self.caller, call)?;
        let (family, kind) = self.inet(number).kind(number)?;
        if kind == Kind::Route {
            let pid = self.own_number();
            self.inet(number).connect_route(number, &address, pid)?;
            return done(());
        }
        if kind == Kind::Packet {
            return Err(Errno::EOPNOTSUPP);
        }
        let to = inet::decode(&address, family)?;
        if let Some(to) = to {
            self.inet(number).check_wire(&address, to.ip(), false)?;
        }
        let mut changes = Changes::new();
        let connected = self.inet(number).connect(number, to, now, &mut changes);
        self.inet_told(changes);
        match connected {
            Err(Errno::EAGAIN) => {
                let ns = self.inet(number).options(number)?.send_ns;
                match self.wait_inet(number, (now, ns), call) {
                    Err(Errno::EAGAIN) => Err(Errno::EINPROGRESS),
                    outcome => outcome,
                }
            }
            result => {
                result?;
                done(())
            }
        }
    }

    /// `listen`.
    pub fn listen_inet(&mut self, op: op::Listen) -> Tried {
        let (number, _) = self.inet_socket(op.desc)?;
        let mut changes = Changes::new();
        self.inet(number).listen(number, op.backlog, &mut changes)?;
        self.inet_told(changes);
        done(())
    }

    /// `accept`.
    pub fn accept_inet(&mut self, call: &Call, op: op::Accept) -> Tried {
        let (number, now) = self.inet_socket(op.desc)?;
        self.room(1)?;
        let mut changes = Changes::new();
        let accepted = match self.inet(number).accept(number, &mut changes) {
            Err(Errno::EAGAIN) => {
                let ns = self.inet(number).options(number)?.receive_ns;
                return self.wait_inet(number, (now, ns), call);
            }
            accepted => accepted?,
        };
        self.inet_told(changes);
        let mut name = 0;
        // Whoever has gone again has none.
        if let (true, Ok(peer)) = (op.named, self.inet(accepted).name(accepted, true)) {
            let text = encode(peer, self.inet(accepted).kind(accepted)?);
            self.procs.put(self.caller, &text)?;
            name = text.len() as u32;
        }
        let flags = O_RDWR | op.flags & O_NONBLOCK;
        let desc = self.open_desc(Object::Inet(accepted), flags, None, Claim::None)?;
        done(Accepted { desc, name })
    }

    /// Sends byte string `a`, for `write` and for `send`.
    pub fn send_inet(&mut self, call: &mut Call, op: op::Send) -> Tried {
        let outcome = self.try_send_inet(call, op);
        if matches!(outcome, Ok(Outcome::Block(_))) {
            return outcome;
        }
        if let (Some(telling), Ok((number, _))) = (told_of(call), self.inet_socket(op.desc)) {
            let now = self.handles.clock.wall();
            self.handles.sockets.inet.call_over(number, telling, now, self.handles.fx);
        }
        call.kept = 0;
        outcome
    }

    /// What is to be told of a call on a stream once it is over. (Of datagrams that is told as they are sent.)
    fn telling(&mut self, call: &Call, op: op::Send, number: Number) -> Result<Telling, Errno> {
        let mut stamps = None;
        if call.lengths.1 > 0 {
            let all = self.procs.b(self.caller, call)?;
            stamps = inet::stamps_of(along(&all, op)?.0)?;
        }
        let continued = op.flags & CONTINUED != 0;
        let is_zerocopy = op.flags & MSG_ZEROCOPY != 0 && (call.lengths.0 > 0 || continued);
        let telling = self.inet(number).telling(number, is_zerocopy, stamps)?;
        if !continued {
            self.inet(number).may_tell(number, telling)?;
        }
        Ok(telling)
    }

    fn try_send_inet(&mut self, call: &mut Call, op: op::Send) -> Tried {
        let (number, nonblocking) = self.inet_socket(op.desc)?;
        let now = nonblocking || op.flags & MSG_DONTWAIT != 0;
        let tid = self.caller.tid;
        if op.flags & MSG_OOB != 0 && self.inet(number).kind(number)?.1 != Kind::Stream {
            return Err(Errno::EOPNOTSUPP);
        }
        let wall = self.handles.clock.wall();
        self.inet(number).set_time(wall);
        let mut changes = Changes::new();
        if self.inet(number).kind(number)?.1 == Kind::Stream && call.done == 0 {
            call.kept = self.telling(call, op, number)?.pack();
            if op.flags & CONTINUED != 0 && call.lengths.0 == 0 {
                return count(0);
            }
        }
        let left = call.lengths.0.min(DATA_BYTES).saturating_sub(call.done);
        let session = self.procs.session_of(tid)?;
        // From where it lies: a part that there is no room for is not copied.
        let take = |count| session.data(call.done, count);
        let sent = match self.inet(number).kind(number)?.1 {
            // An error is told by the next call, if this one has sent anything.
            Kind::Stream
                if (call.done > 0 || op.flags & CONTINUED != 0)
                    && self.inet(number).has_failed(number, false) =>
            {
                Err(Errno::ECONNRESET)
            }
            Kind::Stream => {
                let all = self.handles.sockets.inet.of_mut(number);
                all.send(number, (left, op.flags & MSG_OOB != 0), take, &mut changes)
            }
            Kind::Route => {
                let bytes = take(left);
                self.ask_route(call, op, number, &bytes, &mut changes)
            }
            Kind::Packet if op.flags & MSG_MORE == 0 => {
                let bytes = take(left);
                let all = match call.lengths.1 {
                    0 => Vec::new(),
                    _ => self.procs.b(self.caller, call)?,
                };
                let to = if all.is_empty() { None } else { Some(along(&all, op)?.1) };
                let to = to.filter(|to| !to.is_empty());
                self.inet(number).send_packet((number, tid), to, bytes, &mut changes)
            }
            _ => {
                let bytes = take(left);
                let (to, mut sending) = self.target(call, op, number)?;
                sending.is_zerocopy = op.flags & (MSG_ZEROCOPY | CONTINUES) == MSG_ZEROCOPY;
                let by = (tid, sending.is_zerocopy);
                let inet = self.inet(number);
                match op.flags & MSG_MORE != 0 {
                    true => inet.send_part(number, by, &bytes),
                    false => inet.send_datagram(number, tid, (to, sending), bytes, &mut changes),
                }
            }
        };
        self.inet_told(changes);
        match sent {
            Ok(bytes) => {
                call.done += bytes;
                if call.done >= call.lengths.0 || now && call.done > 0 {
                    return count(call.done);
                }
            }
            Err(Errno::EAGAIN) if now && call.done > 0 => return count(call.done),
            Err(Errno::EAGAIN) => {}
            Err(Errno::EPIPE) if op.flags & MSG_NOSIGNAL == 0 => {
                return broken(self.caller, call.done, self.handles.fx);
            }
            Err(_) if call.done > 0 => return count(call.done),
            Err(error) => return Err(error),
        }
        let ns = self.inet(number).options(number)?.send_ns;
        match self.wait_inet(number, (now, ns), call) {
            Err(Errno::EAGAIN) if call.done > 0 => count(call.done),
            outcome => outcome,
        }
    }

    /// Sends requests of netlink.
    fn ask_route(
        &mut self,
        call: &Call,
        op: op::Send,
        number: Number,
        bytes: &[u8],
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        if op.rights > 0 {
            return Err(Errno::EINVAL);
        }
        let address = self.procs.b(self.caller, call)?;
        let (control, address) = along(&address, op)?;
        if inet::stamps_of(control)?.is_some() {
            return Err(Errno::EINVAL);
        }
        let to = (!address.is_empty()).then_some(address);
        let (pid, may_change) = (self.own_number(), self.has_over(number, Capability::NetAdmin));
        match self.inet(number).language(number)? {
            Language::Route => {
                self.inet(number).send_route(number, (to, pid, may_change), bytes, changes)
            }
            Language::Diag => {
                let own = self.inet(number).asks(number, to, pid)?;
                self.ask_diag((number, own), may_change, bytes, changes);
                Ok(bytes.len())
            }
            // Nobody hears it.
            Language::Events => Err(Errno::ECONNREFUSED),
        }
    }

    /// Where a datagram is to go, and how.
    fn target(
        &mut self,
        call: &Call,
        op: op::Send,
        number: Number,
    ) -> Result<(Option<core::net::SocketAddr>, Sending), Errno> {
        if call.lengths.1 == 0 {
            return Ok((None, Sending::default()));
        }
        let all = self.procs.b(self.caller, call)?;
        let (control, address) = along(&all, op)?;
        let (family, _) = self.inet(number).kind(number)?;
        let to = match address {
            [] => None,
            address => Some(inet::decode(address, family)?.ok_or(Errno::EAFNOSUPPORT)?),
        };
        let to_v4 = match to {
            Some(to) => to.ip().to_canonical().is_ipv4(),
            None => match self.inet(number).name(number, true) {
                Ok(remote) => remote.ip().to_canonical().is_ipv4(),
                Err(_) => family == Family::V4,
            },
        };
        Ok((to, Sending::parse(control, (family, to_v4))?))
    }

    /// Receives, for `recv` and its relatives.
    pub fn receive_inet(&mut self, call: &Call, op: op::Receive) -> Tried {
        let (number, nonblocking) = self.inet_socket(op.desc)?;
        let now = nonblocking || op.flags & MSG_DONTWAIT != 0;
        let most = (op.bytes as usize).min(DATA_BYTES - BEHIND);
        let looks = op.flags & MSG_PEEK != 0;
        let tid = self.caller.tid;
        let (family, kind) = self.inet(number).kind(number)?;
        let goes_on = (op.flags & GOES_ON != 0).then_some(tid);
        if op.flags & (MSG_ERRQUEUE | REST) == MSG_ERRQUEUE && kind != Kind::Route {
            return self.receive_inet_error(number, (most, goes_on));
        }
        let wall = self.handles.clock.wall();
        let mut changes = Changes::new();
        let (mut name, mut control) = (Vec::new(), Vec::new());
        let session = self.procs.session_of(tid)?;
        let all = self.handles.sockets.inet.of_mut(number);
        let received = match kind {
            Kind::Stream if op.flags & MSG_OOB != 0 => {
                let byte = all.receive_urgent(number, looks, &mut changes)?;
                let room = most.min(1);
                session.put(&[byte][..room]);
                Ok((room, 1))
            }
            // What goes on ends at a mark, and at an error, which the next call tells.
            Kind::Stream
                if op.flags & REST != 0
                    && (all.is_at_mark(number)? || all.has_failed(number, true)) =>
            {
                Ok((0, 0))
            }
            Kind::Stream => {
                let put = |offset, bytes: &[u8]| session.put_at(offset, bytes);
                let count = all.receive(number, most, looks, put, &mut changes);
                if count.is_ok_and(|count| count > 0) {
                    control = all.told_of_bytes(number)?;
                }
                count.map(|count| (count, count))
            }
            Kind::Echo | Kind::Raw | Kind::Packet | Kind::Route if op.flags & MSG_OOB != 0 => {
                return Err(Errno::EOPNOTSUPP)
            }
            _ => {
                all.set_time(wall);
                let received = match op.flags & REST != 0 {
                    true => all.receive_rest(number, tid, most),
                    false => all.receive_datagram(number, most, (looks, goes_on), &mut changes),
                };
                received.map(|Received { bytes, full, from, control: told }| {
                    session.put(&bytes);
                    control = told;
                    name = from.map(|from| encode(from, (family, kind))).unwrap_or_default();
                    (bytes.len(), full)
                })
            }
        };
        let (received, full) = match received {
            Err(Errno::EAGAIN) => {
                // What is urgent may have been passed over.
                self.inet_told(changes);
                let ns = self.inet(number).options(number)?.receive_ns;
                return self.wait_inet(number, (now, ns), call);
            }
            received => received?,
        };
        if kind == Kind::Route {
            self.go_on_dumping(number, &mut changes);
        }
        let told = Behind { user: 0, name: name.len(), control: control.len() };
        name.append(&mut control);
        if !name.is_empty() {
            session.put_at(received, &name);
        }
        self.inet_told(changes);
        let (count, full, told) = (received as u64, full as u64, told.pack());
        done(unixproto::ops::Received { count, full, rights: 0, told, is_cut: false })
    }

    /// Receives from the error queue (`MSG_ERRQUEUE`): nobody waits for that.
    fn receive_inet_error(&mut self, number: Number, room: (usize, Option<u32>)) -> Tried {
        let of = self.inet(number).kind(number)?;
        let now = self.handles.clock.wall();
        self.inet(number).set_time(now);
        let mut changes = Changes::new();
        let Received { mut bytes, full, from, control } =
            self.inet(number).receive_error(number, room, &mut changes)?;
        self.inet_told(changes);
        let name = from.map(|from| encode(from, of)).unwrap_or_default();
        let told = Behind { user: 0, name: name.len(), control: control.len() }.pack();
        let (count, full) = (bytes.len() as u64, full as u64);
        bytes.extend_from_slice(&name);
        bytes.extend_from_slice(&control);
        self.procs.put(self.caller, &bytes)?;
        done(unixproto::ops::Received { count, full, rights: 0, told, is_cut: false })
    }

    /// Reads, for `read`.
    pub fn read_inet(&mut self, call: &Call, desc: u32, bytes: usize) -> Tried {
        let op = op::Receive { desc, bytes: bytes as u32, flags: 0, rights: 0 };
        just_counted(self.receive_inet(call, op)?)
    }

    /// Writes, for `write`.
    pub fn write_inet(&mut self, call: &mut Call, desc: u32) -> Tried {
        self.send_inet(call, op::Send { desc, flags: 0, rights: 0, tells: false, control: 0 })
    }

    /// `getsockname`, `getpeername`.
    pub fn inet_name(&mut self, op: op::SocketName) -> Tried {
        let (number, _) = self.inet_socket(op.desc)?;
        let of = self.inet(number).kind(number)?;
        let name = encode(self.inet(number).name(number, op.peer)?, of);
        self.procs.put(self.caller, &name)?;
        count(name.len())
    }

    /// `shutdown`.
    pub fn shut_down_inet(&mut self, op: op::ShutDown) -> Tried {
        let (number, _) = self.inet_socket(op.desc)?;
        let how = directions(op.how)?;
        let mut changes = Changes::new();
        let result = self.inet(number).shut_down(number, how, &mut changes);
        self.inet_told(changes);
        result?;
        done(())
    }
}
