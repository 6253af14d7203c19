//! What programs ask of interfaces, addresses and ways by [messages](crate::netlink) (`NETLINK_ROUTE`, `rtnetlink(7)`).
//!
//! Each request is answered at once, and the answers wait in the socket. What can be changed by them is the interface inside of the
//! machine: it is brought up and down, has addresses, and a size of its packets.

use crate::control::Passage;
use crate::devices::{broadcast, Device};
use crate::netlink::{address_of, Message, Request, PACKET};
use crate::socket::{Changes, Inet, Number};
use crate::ways::{ways, ways_v6, Way};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use linux_raw_sys::netlink as nl;
use unixproto::sockets::{AF_INET, AF_INET6, AF_UNSPEC};
use unixproto::Errno;

/// `struct ifinfomsg`, `struct ifaddrmsg`, `struct rtmsg`: bytes.
const LINK_BYTES: usize = 16;
const PLACE_BYTES: usize = 8;
pub(crate) const WAY_BYTES: usize = 12;
/// `IF_OPER_UP`, `IF_OPER_UNKNOWN`, `IF_OPER_DOWN`
const OPER_UP: u8 = 6;
const OPER_UNKNOWN: u8 = 0;
const OPER_DOWN: u8 = 2;
/// An address that was not learnt: `IFA_F_PERMANENT`.
const PERMANENT: u8 = 0x80;
/// Bytes of `struct rtnl_link_stats64`, of which nothing is counted.
const COUNTERS: usize = 25 * 8;

impl Request<'_> {
    /// Kinds of requests come in fours: new, delete, get, set.
    fn is_get(&self) -> bool {
        (u32::from(self.kind).wrapping_sub(nl::RTM_BASE as u32)) & 3 == 2
    }

    /// All are asked for. Of other kinds of requests these flags say something else.
    fn is_dump(&self) -> bool {
        self.is_get() && self.flags & (nl::NLM_F_ROOT | nl::NLM_F_MATCH) != 0
    }

    /// Which interface is meant: by its number, or by its name.
    fn device<'a>(&self, all: &'a [Device]) -> Result<&'a Device, Errno> {
        let index = self.word(4).ok_or(Errno::EINVAL)?;
        let name = self.attribute(LINK_BYTES, nl::IFLA_IFNAME as u32);
        if index == 0 && name.is_none() {
            return Err(Errno::EINVAL);
        }
        let is_it = |device: &&Device| match (index, name) {
            (0, Some(name)) => device.is_called(name),
            (index, _) => device.index == index,
        };
        all.iter().find(is_it).ok_or(Errno::ENODEV)
    }

    fn link(&self, device: &Device) -> Vec<u8> {
        let (state, queueing) = match (device.is_inside(), device.is_up()) {
            (_, false) => (OPER_DOWN, "noop"),
            (true, true) => (OPER_UNKNOWN, "noqueue"),
            (false, true) => (OPER_UP, "fq_codel"),
        };
        self.part(nl::RTM_NEWLINK as u16)
            .put(&[0, 0])
            .put(&device.kind.to_ne_bytes())
            .put(&device.index.to_ne_bytes())
            .put(&device.flags.to_ne_bytes())
            .put(&[0; 4])
            .text(nl::IFLA_IFNAME as u32, device.name)
            .number(nl::IFLA_TXQLEN as u32, device.queue)
            .attribute(nl::IFLA_OPERSTATE as u32, &[state])
            .attribute(nl::IFLA_LINKMODE as u32, &[0])
            .number(nl::IFLA_MTU as u32, device.mtu)
            .number(nl::IFLA_GROUP as u32, 0)
            .attribute(nl::IFLA_CARRIER as u32, &[1])
            .text(nl::IFLA_QDISC as u32, queueing)
            .attribute(nl::IFLA_ADDRESS as u32, &device.mac)
            .attribute(nl::IFLA_BROADCAST as u32, &device.all_macs)
            .attribute(nl::IFLA_STATS64 as u32, &[0; COUNTERS])
            .end()
    }

    fn address(&self, device: &Device, (ip, prefix): (IpAddr, u8)) -> Vec<u8> {
        let is_near = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let scope = if device.is_inside() {
            nl::rt_scope_t::RT_SCOPE_HOST
        } else if is_near {
            nl::rt_scope_t::RT_SCOPE_LINK
        } else {
            nl::rt_scope_t::RT_SCOPE_UNIVERSE
        };
        let mut message = self
            .part(nl::RTM_NEWADDR as u16)
            .put(&[family_of(ip) as u8, prefix, PERMANENT, scope as u8])
            .put(&device.index.to_ne_bytes())
            .ip(nl::IFA_ADDRESS as u32, ip);
        if let IpAddr::V4(own) = ip {
            message = message.ip(nl::IFA_LOCAL as u32, ip);
            if !device.is_inside() {
                message = message.ip(nl::IFA_BROADCAST as u32, broadcast(own, prefix).into());
            }
            message = message.text(nl::IFA_LABEL as u32, device.name);
        }
        // It lasts for ever; nobody has noted when it came.
        let lasts = [[0xff; 8], [0; 8]].concat();
        message
            .number(nl::IFA_FLAGS as u32, PERMANENT.into())
            .attribute(nl::IFA_CACHEINFO as u32, &lasts)
            .end()
    }

    pub(crate) fn part(&self, kind: u16) -> Message {
        Message::new(kind, if self.is_dump() { nl::NLM_F_MULTI } else { 0 }, self.from)
    }
}

pub(crate) fn family_of(ip: IpAddr) -> u16 {
    match ip {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

impl Inet {
    /// Sends requests, which are answered at once.
    ///
    /// # Errors
    /// `EPERM`: to somebody else. `ENOBUFS`: too many answers wait.
    pub fn send_route(
        &mut self,
        number: Number,
        (to, pid, may_change): (Option<&[u8]>, u32, bool),
        bytes: &[u8],
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        let id = self.asks(number, to, pid)?;
        let uid = self.get(number)?.uid;
        let mut rest = bytes;
        while let Some((request, more)) = Request::next(rest, id) {
            rest = more;
            for packet in self.answers(&request, (uid, may_change)) {
                let way = Passage::inside(address_of(0), address_of(0));
                self.deliver(number, packet, (way, uid), changes);
            }
        }
        Ok(bytes.len())
    }

    /// The packets with which a request is answered.
    fn answers(&mut self, request: &Request, who: (u32, bool)) -> Vec<Vec<u8>> {
        // What is no request, or the acknowledgement of something, is not answered.
        if request.flags & nl::NLM_F_REQUEST == 0 || request.kind < nl::RTM_BASE as u16 {
            return Vec::new();
        }
        let found = self.found(request, who);
        let wants_word = request.flags & nl::NLM_F_ACK != 0;
        match found {
            Ok(found) if request.is_dump() => in_packets(found, request.done(Ok(()))),
            Ok(mut found) => {
                if wants_word {
                    found.push(request.acknowledge(Ok(())));
                }
                found
            }
            Err(error) => Vec::from([request.acknowledge(Err(error))]),
        }
    }

    /// Changes an interface, as far as that can be: what it is already is no change.
    fn change_link(&mut self, request: &Request, devices: &[Device]) -> Result<(), Errno> {
        let device = request.device(devices)?;
        let (flags, mask) = request.word(8).zip(request.word(12)).ok_or(Errno::EINVAL)?;
        // As Linux does: who says flags and no mask means all.
        let mask = if mask == 0 && flags != 0 { u32::MAX } else { mask };
        let goes_up = Inet::goes_up(device, flags, mask)?;
        let mut mtu = None;
        for (kind, value) in request.attributes(LINK_BYTES) {
            let is = |wanted| kind == wanted as u32;
            let word = value.first_chunk().map(|word| u32::from_ne_bytes(*word));
            match word {
                Some(word) if is(nl::IFLA_MTU) => mtu = Some(word),
                _ if is(nl::IFLA_IFNAME) && device.is_called(value) => {}
                _ if is(nl::IFLA_EXT_MASK) => {}
                _ => return Err(Errno::EOPNOTSUPP),
            }
        }
        mtu.map_or(Ok(()), |mtu| self.set_mtu(device, mtu))?;
        if let Some(is_up) = goes_up {
            self.inside.set_up(is_up);
        }
        Ok(())
    }

    /// Gives the interface inside of the machine an address, or takes one from it.
    fn change_address(&mut self, request: &Request, devices: &[Device]) -> Result<(), Errno> {
        let &[family, prefix, ..] = request.body else { return Err(Errno::EINVAL) };
        let own = request.attribute(PLACE_BYTES, nl::IFA_LOCAL as u32);
        let own = own.or_else(|| request.attribute(PLACE_BYTES, nl::IFA_ADDRESS as u32));
        let own = own.ok_or(Errno::EINVAL)?;
        let own = match family.into() {
            AF_INET => own.first_chunk::<4>().map(|own| IpAddr::from(*own)),
            AF_INET6 => own.first_chunk::<16>().map(|own| IpAddr::from(*own)),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let own = own.ok_or(Errno::EINVAL)?;
        let index = request.word(4).ok_or(Errno::EINVAL)?;
        let device = devices.iter().find(|device| device.index == index).ok_or(Errno::ENODEV)?;
        if !device.is_inside() {
            return Err(Errno::EOPNOTSUPP);
        }
        if request.kind == nl::RTM_DELADDR as u16 {
            return self.inside.remove((own, prefix));
        }
        match self.inside.add((own, prefix)) {
            Err(Errno::EEXIST) if request.flags & nl::NLM_F_REPLACE != 0 => Ok(()),
            added => added,
        }
    }

    /// The messages that a request asks for. `who`: the user, and whether it may change something.
    fn found(&mut self, request: &Request, who: (u32, bool)) -> Result<Vec<Vec<u8>>, Errno> {
        let (uid, may_change) = who;
        let is = |kind: u32| u32::from(request.kind) == kind;
        let devices = self.devices();
        if !request.is_get() {
            // It would change something.
            if !may_change {
                return Err(Errno::EPERM);
            }
            let changed = match u32::from(request.kind) {
                kind if kind == nl::RTM_NEWLINK as u32 || kind == nl::RTM_SETLINK as u32 => {
                    self.change_link(request, &devices)
                }
                kind if kind == nl::RTM_NEWADDR as u32 || kind == nl::RTM_DELADDR as u32 => {
                    self.change_address(request, &devices)
                }
                _ => Err(Errno::EOPNOTSUPP),
            };
            return changed.map(|()| Vec::new());
        }
        if request.body.is_empty() {
            return Err(Errno::EINVAL);
        }
        let family = request.family();
        let of_family = |ip: IpAddr| family == AF_UNSPEC || family == family_of(ip);
        if is(nl::RTM_GETLINK as u32) {
            if request.is_dump() {
                return Ok(devices.iter().map(|device| request.link(device)).collect());
            }
            return Ok(Vec::from([request.link(request.device(&devices)?)]));
        }
        if is(nl::RTM_GETADDR as u32) && request.is_dump() {
            // Whoever asks for one interface gets no others, as with strict checks.
            let index = request.word(PLACE_BYTES - 4).unwrap_or(0);
            let all = devices.iter().filter(|device| index == 0 || device.index == index);
            let each = all.flat_map(|device| {
                let own = device.addresses.iter().filter(|(ip, _)| of_family(*ip));
                own.map(|&address| request.address(device, address))
            });
            return Ok(each.collect());
        }
        if is(nl::RTM_GETROUTE as u32) {
            let mut all = ways(self.interface(), &self.inside);
            all.extend(ways_v6(self.interface(), &self.inside));
            if request.is_dump() {
                let all = all.iter().filter(|way| of_family(way.to));
                return Ok(all.map(|way| request.way(way)).collect());
            }
            let to = request.destination()?;
            // Nowhere is this machine.
            let sought = if to.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { to };
            // Of two that are as long, what is this machine's own.
            let own = |way: &Way| way.table == nl::rt_class_t::RT_TABLE_LOCAL as u32;
            let leads = all.iter().filter(|way| way.leads_to(sought));
            let way = leads.max_by_key(|way| (way.prefix, own(way)));
            let way = way.ok_or(Errno::ENETUNREACH)?.clone();
            let interface = self.interface();
            let source = way.source.or_else(|| match to {
                IpAddr::V6(ip) if own(&way) => Some(ip.into()),
                IpAddr::V6(ip) => interface?.six.source(ip).map(IpAddr::V6),
                IpAddr::V4(_) => interface.map(|interface| interface.address.into()),
            });
            return Ok(Vec::from([request.way_to(&Way { to, source, ..way }, uid)?]));
        }
        // Of neighbours nothing is told.
        if is(nl::RTM_GETNEIGH as u32) && request.is_dump() {
            return Ok(Vec::new());
        }
        Err(Errno::EOPNOTSUPP)
    }
}

/// Messages in packets, the end in one of its own, as Linux has it.
fn in_packets(messages: Vec<Vec<u8>>, end: Vec<u8>) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for message in messages {
        match all.last_mut() {
            Some(last) if last.len() + message.len() <= PACKET => last.extend(message),
            _ => all.push(message),
        }
    }
    all.push(end);
    all
}
