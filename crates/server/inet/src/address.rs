//! Addresses as programs write them (`struct sockaddr_in`, `sockaddr_in6`).

use crate::devices::OUTSIDE_NUMBER;
use crate::socket::{Family, Inet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use unixproto::Errno;

pub(crate) const AF_UNSPEC: u16 = 0;
pub(crate) const AF_INET: u16 = 2;
pub(crate) const AF_INET6: u16 = 10;
const V4_BYTES: usize = 16;
/// Without the scope, as old programs have it.
const V6_LEAST: usize = 24;
/// Bytes of the longest.
pub const ADDRESS_MOST: usize = 28;

/// The address that a program means, for a socket of a family; `None`: it has said `AF_UNSPEC`.
///
/// # Errors
/// `EINVAL`: too short; `EAFNOSUPPORT`: of another family.
pub fn decode(bytes: &[u8], family: Family) -> Result<Option<SocketAddr>, Errno> {
    let (&kind, rest) = bytes.split_first_chunk::<2>().ok_or(Errno::EINVAL)?;
    let kind = u16::from_ne_bytes(kind);
    if kind == AF_UNSPEC {
        return Ok(None);
    }
    let port = rest.first_chunk().map(|port| u16::from_be_bytes(*port)).ok_or(Errno::EINVAL)?;
    let ip = match (family, kind) {
        (_, AF_INET) if bytes.len() < V4_BYTES => return Err(Errno::EINVAL),
        (_, AF_INET) => IpAddr::from(*rest[2..].first_chunk::<4>().ok_or(Errno::EINVAL)?),
        (Family::V6, AF_INET6) if bytes.len() < V6_LEAST => return Err(Errno::EINVAL),
        (Family::V6, AF_INET6) => {
            IpAddr::from(*rest[6..].first_chunk::<16>().ok_or(Errno::EINVAL)?)
        }
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    Ok(Some(SocketAddr::new(ip, port)))
}

/// The number of the interface that an address names which means nothing without one (RFC 4007), 0 if it names none: an address of a wire, or of a group of one. `None`: it is another one.
fn wire_of(bytes: &[u8], ip: IpAddr) -> Option<u32> {
    let IpAddr::V6(ip) = ip else { return None };
    let is_group = ip.is_multicast() && matches!(ip.octets()[1] & 0xf, 1 | 2);
    let named = bytes.get(V6_LEAST..).and_then(<[u8]>::first_chunk);
    (is_group || ip.is_unicast_link_local()).then(|| named.map_or(0, |at| u32::from_ne_bytes(*at)))
}

impl Inet {
    /// May a socket have an address, or be connected to it, as far as that says of which wire it is?
    ///
    /// # Errors
    /// Linux's: `EINVAL`: it does not; `ENODEV`, of a socket's own, and `ENETUNREACH`: there is no such interface; `EADDRNOTAVAIL`: it has no such address.
    pub fn check_wire(&self, bytes: &[u8], ip: IpAddr, is_own: bool) -> Result<(), Errno> {
        let Some(wire) = wire_of(bytes, ip) else { return Ok(()) };
        match (wire, self.has_device(wire), is_own) {
            (0, ..) => Err(Errno::EINVAL),
            (OUTSIDE_NUMBER, true, _) => Ok(()),
            (_, false, true) => Err(Errno::ENODEV),
            // Groups of this machine alone are heard by everybody in it.
            (_, true, _) if ip.is_multicast() => Ok(()),
            (_, _, true) => Err(Errno::EADDRNOTAVAIL),
            (_, _, false) => Err(Errno::ENETUNREACH),
        }
    }
}

/// Bytes of an address as programs of a family read it.
pub(crate) fn size(family: Family) -> usize {
    match family {
        Family::V4 => V4_BYTES,
        Family::V6 => ADDRESS_MOST,
    }
}

/// An address as programs of a family read it.
pub fn encode(address: SocketAddr, family: Family) -> Vec<u8> {
    let mut bytes = Vec::new();
    let port = address.port().to_be_bytes();
    match (family, address.ip()) {
        (Family::V4, ip) => {
            let IpAddr::V4(ip) = ip.to_canonical() else { return bytes };
            bytes.extend_from_slice(&AF_INET.to_ne_bytes());
            bytes.extend_from_slice(&port);
            bytes.extend_from_slice(&ip.octets());
            bytes.resize(V4_BYTES, 0);
        }
        (Family::V6, ip) => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes.extend_from_slice(&AF_INET6.to_ne_bytes());
            bytes.extend_from_slice(&port);
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&ip.octets());
            // Addresses of a wire say which one: there is one.
            let scope = if ip.is_unicast_link_local() { OUTSIDE_NUMBER } else { 0 };
            bytes.extend_from_slice(&scope.to_ne_bytes());
        }
    }
    bytes
}

/// No address in particular.
pub(crate) fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The same address of a socket that speaks both, as IPv4 if it is one of IPv4.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_wire_say_which() {
        let said = |ip: &str| {
            let at = SocketAddr::new(ip.parse().unwrap(), 80);
            let bytes = encode(at, Family::V6);
            assert_eq!(decode(&bytes, Family::V6), Ok(Some(at)));
            u32::from_ne_bytes(*bytes[24..].first_chunk().unwrap())
        };
        assert_eq!(said("fe80::1"), OUTSIDE_NUMBER);
        assert_eq!((said("fec0::1"), said("::1")), (0, 0));
        let named = |ip: &str, scope: u32| {
            let ip: IpAddr = ip.parse().unwrap();
            let mut bytes = encode(SocketAddr::new(ip, 80), Family::V6);
            bytes[24..].copy_from_slice(&scope.to_ne_bytes());
            assert_eq!(wire_of(&bytes[..24], ip).unwrap_or(0), 0);
            wire_of(&bytes, ip)
        };
        assert_eq!((named("fe80::1", 7), named("ff02::1", 0)), (Some(7), Some(0)));
        assert_eq!((named("ff0e::1", 7), named("fec0::1", 7)), (None, None));
        assert_eq!(encode(SocketAddr::from(([10, 0, 2, 2], 80)), Family::V6).len(), ADDRESS_MOST);
    }
}
