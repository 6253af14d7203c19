//! Where packets go, and how programs are told (`RTM_NEWROUTE`, `rtnetlink(7)`).

use crate::control::LO;
use crate::devices::mask;
use crate::inside::Inside;
use crate::netlink::{Message, Request};
use crate::route::{family_of, WAY_BYTES};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use linux_raw_sys::netlink as nl;
use unixproto::sockets::{AF_INET, AF_INET6};
use unixproto::Errno;

/// `ICMPV6_ROUTER_PREF_MEDIUM`
const MEDIUM: u8 = 0;
/// `RTCF_LOCAL`: it leads to this machine.
const OWN: u32 = 1 << 31;
/// `struct rta_cacheinfo` of a way that is used here and now, and stays.
const CACHED: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[0] = 1;
    bytes
};

/// Where packets go.
#[derive(Clone)]
pub struct Way {
    pub to: IpAddr,
    pub prefix: u8,
    pub device: u32,
    pub source: Option<IpAddr>,
    pub by: Option<IpAddr>,
    pub table: u32,
    pub scope: nl::rt_scope_t,
    pub kind: u32,
    pub maker: u32,
    /// Of IPv6: which of several is taken.
    pub metric: u32,
}

impl Way {
    /// Does it lead to this machine?
    fn is_own(&self) -> bool {
        self.kind == nl::RTN_LOCAL as u32
    }

    pub fn leads_to(&self, to: IpAddr) -> bool {
        let (own, to, bits) = match (self.to, to) {
            (IpAddr::V4(own), IpAddr::V4(to)) => (u32::from(own).into(), u32::from(to).into(), 32),
            (IpAddr::V6(own), IpAddr::V6(to)) => (u128::from(own), u128::from(to), 128),
            _ => return false,
        };
        let others = u32::from(bits - self.prefix.min(bits));
        (own ^ to).checked_shr(others).unwrap_or(0) == 0
    }
}

/// The ways of IPv4: over the wire, and to the addresses of `lo` while that is up.
pub fn ways(interface: Option<&crate::Interface>, inside: &Inside) -> Vec<Way> {
    let local = |to: Ipv4Addr, prefix, device, source: Ipv4Addr| Way {
        to: to.into(),
        prefix,
        device,
        source: Some(source.into()),
        by: None,
        table: nl::rt_class_t::RT_TABLE_LOCAL as u32,
        scope: nl::rt_scope_t::RT_SCOPE_HOST,
        kind: nl::RTN_LOCAL as u32,
        maker: nl::RTPROT_KERNEL,
        metric: 0,
    };
    let mut all = Vec::new();
    if let Some(&crate::Interface { address, prefix, gateway, .. }) = interface {
        let net = Ipv4Addr::from(u32::from(address) & u32::from(mask(prefix)));
        let main = |to: Ipv4Addr, prefix, source: Option<Ipv4Addr>, by: Option<Ipv4Addr>| Way {
            to: to.into(),
            prefix,
            device: 2,
            source: source.map(IpAddr::V4),
            by: by.map(IpAddr::V4),
            table: nl::rt_class_t::RT_TABLE_MAIN as u32,
            scope: match by {
                Some(_) => nl::rt_scope_t::RT_SCOPE_UNIVERSE,
                None => nl::rt_scope_t::RT_SCOPE_LINK,
            },
            kind: nl::RTN_UNICAST as u32,
            maker: if by.is_some() { nl::RTPROT_BOOT } else { nl::RTPROT_KERNEL },
            metric: 0,
        };
        if !gateway.is_unspecified() {
            all.push(main(Ipv4Addr::UNSPECIFIED, 0, None, Some(gateway)));
        }
        all.push(main(net, prefix, Some(address), None));
        all.push(local(address, 32, 2, address));
    }
    for &(ip, prefix) in inside.addresses().iter().filter(|_| inside.is_up()) {
        let IpAddr::V4(own) = ip else { continue };
        if prefix < 32 {
            let net = Ipv4Addr::from(u32::from(own) & u32::from(mask(prefix)));
            all.push(local(net, prefix, LO, own));
        }
        all.push(local(own, 32, LO, own));
    }
    all
}

/// The same of IPv6.
pub fn ways_v6(interface: Option<&crate::Interface>, inside: &Inside) -> Vec<Way> {
    const CONNECTED: u32 = 256;
    const ROUTER: u32 = 1024;
    let (main, local) = (nl::rt_class_t::RT_TABLE_MAIN, nl::rt_class_t::RT_TABLE_LOCAL);
    let way = |to: Ipv6Addr, prefix, device, table, kind, metric| Way {
        to: to.into(),
        prefix,
        device,
        source: None,
        by: None,
        table: table as u32,
        scope: nl::rt_scope_t::RT_SCOPE_UNIVERSE,
        kind: kind as u32,
        maker: nl::RTPROT_KERNEL,
        metric,
    };
    let mut all = Vec::new();
    for &(ip, _) in inside.addresses().iter().filter(|_| inside.is_up()) {
        let IpAddr::V6(own) = ip else { continue };
        all.push(way(own, 128, LO, main, nl::RTN_UNICAST, CONNECTED));
        all.push(way(own, 128, LO, local, nl::RTN_LOCAL, 0));
    }
    let Some(crate::Interface { six, .. }) = interface else { return all };
    for own in six.addresses() {
        let bits = u128::MAX.checked_shl(128 - u32::from(six.prefix.min(128))).unwrap_or(0);
        let net = Ipv6Addr::from(u128::from(own) & bits);
        all.push(way(net, six.prefix, 2, main, nl::RTN_UNICAST, CONNECTED));
        all.push(way(own, 128, 2, local, nl::RTN_LOCAL, 0));
    }
    if !six.gateway.is_unspecified() {
        let default = way(Ipv6Addr::UNSPECIFIED, 0, 2, main, nl::RTN_UNICAST, ROUTER);
        let (by, maker) = (Some(six.gateway.into()), nl::RTPROT_RA);
        all.push(Way { by, maker, ..default });
    }
    let groups = Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0);
    all.push(way(groups, 8, 2, local, nl::RTN_MULTICAST, CONNECTED));
    all
}

impl Request<'_> {
    /// Where a way is asked for.
    ///
    /// # Errors
    /// `ERANGE`, `EINVAL`: that is no whole address. `EOPNOTSUPP`: there is none, or of another family.
    pub(crate) fn destination(&self) -> Result<IpAddr, Errno> {
        let to = self.attribute(WAY_BYTES, nl::rtattr_type_t::RTA_DST as u32);
        match (self.family(), to) {
            (AF_INET, None) => Ok(Ipv4Addr::UNSPECIFIED.into()),
            (AF_INET, Some(to)) => {
                to.first_chunk::<4>().map(|to| IpAddr::from(*to)).ok_or(Errno::ERANGE)
            }
            (AF_INET6, Some(to)) => {
                to.first_chunk::<16>().map(|to| IpAddr::from(*to)).ok_or(Errno::EINVAL)
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// A way as a list of all has it.
    pub(crate) fn way(&self, way: &Way) -> Vec<u8> {
        if way.to.is_ipv6() {
            return self.way_v6(way, way.prefix, None);
        }
        let &Way { to, prefix, table, maker, scope, .. } = way;
        let mut message =
            self.begin_way((to, prefix, 0), [table, maker, scope as u32, way.kind], 0);
        if prefix > 0 {
            message = message.ip(nl::rtattr_type_t::RTA_DST as u32, to);
        }
        message
            .maybe_ip(nl::rtattr_type_t::RTA_PREFSRC as u32, way.source)
            .maybe_ip(nl::rtattr_type_t::RTA_GATEWAY as u32, way.by)
            .number(nl::rtattr_type_t::RTA_OIF as u32, way.device)
            .end()
    }

    /// The way to one address, for who asks as this user. The order is Linux's: nmap overlooks the last bytes of an answer.
    pub(crate) fn way_to(&self, way: &Way, uid: u32) -> Result<Vec<u8>, Errno> {
        if way.to.is_ipv6() {
            return Ok(self.way_v6(way, 128, Some(Ipv6Addr::UNSPECIFIED)));
        }
        // It was made for this address, whatever it was made from.
        let (table, scope) = (nl::rt_class_t::RT_TABLE_MAIN, nl::rt_scope_t::RT_SCOPE_UNIVERSE);
        let flags = nl::RTM_F_CLONED | if way.is_own() { OWN } else { 0 };
        let asked = self.attribute(WAY_BYTES, nl::rtattr_type_t::RTA_UID as u32);
        let asked = asked.map(|uid| uid.first_chunk().ok_or(Errno::ERANGE)).transpose()?;
        let asked = asked.map(|uid| u32::from_ne_bytes(*uid));
        let facts = [table as u32, nl::RTPROT_UNSPEC, scope as u32, way.kind];
        let message = self
            .begin_way((way.to, 32, 0), facts, flags)
            .ip(nl::rtattr_type_t::RTA_DST as u32, way.to)
            .number(nl::rtattr_type_t::RTA_OIF as u32, way.device)
            .maybe_ip(nl::rtattr_type_t::RTA_PREFSRC as u32, way.source)
            .maybe_ip(nl::rtattr_type_t::RTA_GATEWAY as u32, way.by)
            .number(nl::rtattr_type_t::RTA_UID as u32, asked.unwrap_or(uid))
            .attribute(nl::rtattr_type_t::RTA_CACHEINFO as u32, &CACHED)
            .end();
        Ok(message)
    }

    /// A way of IPv6, and whom a packet is from if it is that to one address.
    fn way_v6(&self, way: &Way, prefix: u8, from: Option<Ipv6Addr>) -> Vec<u8> {
        let facts = [way.table, way.maker, way.scope as u32, way.kind];
        let mut message = self.begin_way((way.to, prefix, from.map_or(0, |_| 128)), facts, 0);
        if prefix > 0 {
            message = message.ip(nl::rtattr_type_t::RTA_DST as u32, way.to);
        }
        message
            .maybe_ip(nl::rtattr_type_t::RTA_SRC as u32, from.map(IpAddr::V6))
            .maybe_ip(nl::rtattr_type_t::RTA_PREFSRC as u32, way.source)
            .number(nl::rtattr_type_t::RTA_PRIORITY as u32, way.metric)
            .maybe_ip(nl::rtattr_type_t::RTA_GATEWAY as u32, way.by)
            .number(nl::rtattr_type_t::RTA_OIF as u32, way.device)
            .attribute(nl::rtattr_type_t::RTA_CACHEINFO as u32, &CACHED)
            .attribute(nl::rtattr_type_t::RTA_PREF as u32, &[MEDIUM])
            .end()
    }

    /// The head of a way and its table: where it leads to, with bits of that and of where packets come from, and its table, maker,
    /// scope and kind.
    fn begin_way(
        &self,
        (to, bits, from): (IpAddr, u8, u8),
        facts: [u32; 4],
        flags: u32,
    ) -> Message {
        let [table, ..] = facts;
        self.part(nl::RTM_NEWROUTE as u16)
            .put(&[family_of(to) as u8, bits, from, 0])
            .put(&facts.map(|fact| fact as u8))
            .put(&flags.to_ne_bytes())
            .number(nl::rtattr_type_t::RTA_TABLE as u32, table)
    }
}
