//! The machine's place in a network of IPv6: an address that it makes of its card's, and one that it makes of what a router says (RFC 4861, 4862).
//!
//! Nobody waits for a router: it is asked for a few times, and believed whenever it speaks. Addresses are not asked for before they are used: they are the card's.

use crate::{Event, Home, Wire};
use alloc::vec;
use core::net::Ipv6Addr;
use smoltcp::iface::Interface;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv6Packet, Icmpv6Repr, IpCidr, IpProtocol,
    Ipv6Cidr, Ipv6Packet, Ipv6Repr, NdiscPrefixInfoFlags, NdiscRepr,
};

/// How often it is asked for, and microseconds between two times.
const QUESTIONS: u8 = 3;
const BETWEEN: i64 = 4_000_000;
/// Bits of an address that are the network's, if a card is to make the rest of it.
const PREFIX: u8 = 64;
/// Microseconds that an address lasts at least, once there is one, whatever is said (RFC 4862, 5.5.3).
const LEAST: i64 = 7_200_000_000;
/// Hops of a message that has not passed any router.
const NEAR: u8 = 255;
/// All routers on the wire, and their card's address.
const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const ROUTERS_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 2];

/// See above.
pub struct Router {
    asked: u8,
    due: i64,
    pub place: Place,
    /// Until when that is believed.
    address_until: i64,
    gateway_until: i64,
    /// It was not told yet.
    has_changed: bool,
}

/// The place; what is unspecified is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// On the wire alone.
    pub link: Ipv6Addr,
    pub address: Ipv6Addr,
    pub gateway: Ipv6Addr,
}

impl Place {
    /// The own address for packets to somebody.
    pub fn source(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let own = if to.is_unicast_link_local() { self.link } else { self.address };
        (!own.is_unspecified()).then_some(own)
    }

    pub fn has(&self, ip: Ipv6Addr) -> bool {
        !ip.is_unspecified() && (ip == self.link || ip == self.address)
    }
}

/// The address that a card has in a network (EUI-64).
fn made(network: Ipv6Addr, mac: [u8; 6]) -> Ipv6Addr {
    let mut all = network.octets();
    let [a, b, c, d, e, f] = mac;
    all[8..].copy_from_slice(&[a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    all.into()
}

impl Router {
    pub fn new(mac: [u8; 6], now: i64) -> Router {
        let link = made(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), mac);
        let (address, gateway) = (Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
        let place = Place { link, address, gateway };
        Router {
            asked: 0,
            due: now,
            place,
            address_until: i64::MAX,
            gateway_until: i64::MAX,
            has_changed: true,
        }
    }

    /// What there is to tell.
    pub fn news(&self) -> Option<Event<'static>> {
        let Place { link, address, gateway } = self.place;
        let [link, address, gateway] = [link, address, gateway].map(|ip| ip.octets());
        self.has_changed.then_some(Event::Up6 { link, address, prefix: PREFIX, gateway })
    }

    /// That was told.
    pub fn told(&mut self) {
        self.has_changed = false;
    }

    /// When there is something to do; `None`: when somebody says something.
    pub fn due(&self) -> Option<i64> {
        let ends = [self.address_until, self.gateway_until].into_iter().min();
        let ask = (self.asked < QUESTIONS).then_some(self.due);
        ends.filter(|&end| end != i64::MAX).into_iter().chain(ask).min()
    }

    /// Asks, and believes nothing for longer than it was said. Answers whether the place is another one.
    pub fn run(&mut self, home: &Home, now: i64, wire: &mut impl Wire) -> bool {
        if self.asked < QUESTIONS && now >= self.due && wire.has_room() {
            self.asked += 1;
            self.due = now + BETWEEN;
            self.ask(home, wire);
        }
        let before = self.place;
        if now >= self.address_until {
            (self.place.address, self.address_until) = (Ipv6Addr::UNSPECIFIED, i64::MAX);
        }
        if now >= self.gateway_until {
            (self.place.gateway, self.gateway_until) = (Ipv6Addr::UNSPECIFIED, i64::MAX);
        }
        self.changed(before)
    }

    fn changed(&mut self, before: Place) -> bool {
        let has_changed = before != self.place;
        self.has_changed |= has_changed;
        has_changed
    }

    fn ask(&self, home: &Home, wire: &mut impl Wire) {
        let question = Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit {
            lladdr: Some(EthernetAddress(home.mac).into()),
        });
        let ip = Ipv6Repr {
            src_addr: self.place.link,
            dst_addr: ROUTERS,
            next_header: IpProtocol::Icmpv6,
            payload_len: question.buffer_len(),
            hop_limit: NEAR,
        };
        let mut packet = vec![0; ip.buffer_len() + ip.payload_len];
        ip.emit(&mut Ipv6Packet::new_unchecked(&mut packet[..]));
        let sums = ChecksumCapabilities::default();
        let mut inner = Icmpv6Packet::new_unchecked(&mut packet[ip.buffer_len()..]);
        question.emit(&ip.src_addr, &ip.dst_addr, &mut inner, &sums);
        wire.send(14 + packet.len(), |frame| {
            let mut frame = EthernetFrame::new_unchecked(frame);
            frame.set_dst_addr(EthernetAddress(ROUTERS_MAC));
            frame.set_src_addr(EthernetAddress(home.mac));
            frame.set_ethertype(EthernetProtocol::Ipv6);
            frame.payload_mut().copy_from_slice(&packet);
        });
    }

    /// Somebody says that it knows the way. Answers whether the place is another one.
    pub fn came(&mut self, frame: &[u8], home: &Home, now: i64) -> bool {
        let before = self.place;
        let _ = self.believe(frame, home, now);
        self.changed(before)
    }

    fn believe(&mut self, frame: &[u8], home: &Home, now: i64) -> Option<()> {
        let ip = Ipv6Packet::new_checked(frame.get(14..)?).ok()?;
        let from = ip.src_addr();
        // From somebody on the wire alone.
        if ip.hop_limit() != NEAR
            || !from.is_unicast_link_local()
            || ip.next_header() != IpProtocol::Icmpv6
        {
            return None;
        }
        let message = Icmpv6Packet::new_checked(ip.payload()).ok()?;
        let sums = ChecksumCapabilities::default();
        let said = Icmpv6Repr::parse(&from, &ip.dst_addr(), &message, &sums).ok()?;
        let Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert { router_lifetime, prefix_info, .. }) = said
        else {
            return None;
        };
        self.asked = QUESTIONS;
        let until = |time: smoltcp::time::Duration| {
            let micros = i64::try_from(time.total_micros()).unwrap_or(i64::MAX);
            now.saturating_add(micros)
        };
        match router_lifetime.total_micros() {
            0 if self.place.gateway == from => self.gateway_until = now,
            0 => {}
            _ if self.place.gateway.is_unspecified() || self.place.gateway == from => {
                (self.place.gateway, self.gateway_until) = (from, until(router_lifetime));
            }
            _ => {}
        }
        let info = prefix_info?;
        let is_ours = info.flags.contains(NdiscPrefixInfoFlags::ADDRCONF)
            && info.prefix_len == PREFIX
            && !info.prefix.is_unicast_link_local()
            && !info.prefix.is_multicast()
            && !info.prefix.is_unspecified()
            && !info.prefix.is_loopback();
        let address = made(info.prefix, home.mac);
        // The first network that is there is the machine's, as long as it is.
        let ends = until(info.valid_lifetime);
        if !is_ours || ends == now {
            return None;
        }
        if self.place.address.is_unspecified() {
            (self.place.address, self.address_until) = (address, ends);
        } else if self.place.address == address {
            // Whoever says it may not be the router: nobody shortens it to less than this.
            let least = now.saturating_add(LEAST).min(self.address_until);
            self.address_until = ends.max(least);
        }
        Some(())
    }

    /// The interface has the place.
    pub fn settle(&self, iface: &mut Interface) {
        let Place { link, address, gateway } = self.place;
        iface.update_ip_addrs(|all| {
            all.retain(|one| !matches!(one, IpCidr::Ipv6(_)));
            for own in [link, address] {
                if !own.is_unspecified() {
                    // Three together, of four (`iface-max-addr-count-4`): there is room.
                    let _ = all.push(IpCidr::Ipv6(Ipv6Cidr::new(own, PREFIX)));
                }
            }
        });
        let _ = match gateway.is_unspecified() {
            true => iface.routes_mut().remove_default_ipv6_route(),
            false => iface.routes_mut().add_default_ipv6_route(gateway).unwrap_or(None),
        };
    }
}
