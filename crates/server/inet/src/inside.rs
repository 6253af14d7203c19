//! The interface inside of the machine, `lo`: whether it is up, and its addresses.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use unixproto::Errno;

/// Bytes of a packet, unless somebody has said otherwise; also the most. With less than [`MTU_LEAST`] nobody speaks IPv4.
const MTU: u32 = 65_536;
const MTU_LEAST: u32 = 68;
/// Addresses that it may have.
const ADDRESSES_MOST: usize = 64;
/// Those that it has by itself while it is up.
const OWN_V4: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::LOCALHOST), 8);
const OWN_V6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::LOCALHOST), 128);

/// That interface, in a network name space.
#[derive(Debug)]
pub(crate) struct Inside {
    is_up: bool,
    /// It has had an address.
    was_used: bool,
    mtu: u32,
    /// Those of IPv4 stay while it is down. With each goes how many of its bits are a network that is this machine's.
    addresses: Vec<(IpAddr, u8)>,
}

impl Inside {
    /// That of the first name space.
    pub fn first() -> Inside {
        Inside { is_up: true, was_used: true, mtu: MTU, addresses: Vec::from([OWN_V4, OWN_V6]) }
    }

    /// That of another one: it is down, and has no address.
    pub fn new() -> Inside {
        Inside { is_up: false, was_used: false, mtu: MTU, addresses: Vec::new() }
    }

    pub fn is_up(&self) -> bool {
        self.is_up
    }

    pub fn was_used(&self) -> bool {
        self.was_used
    }

    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// `EINVAL`: packets cannot be of that size.
    pub fn set_mtu(&mut self, mtu: u32) -> Result<(), Errno> {
        match (MTU_LEAST..=MTU).contains(&mtu) {
            true => {
                self.mtu = mtu;
                Ok(())
            }
            false => Err(Errno::EINVAL),
        }
    }

    pub fn addresses(&self) -> &[(IpAddr, u8)] {
        &self.addresses
    }

    /// Is an address this machine's because of it?
    pub fn has(&self, ip: IpAddr) -> bool {
        let covers = |&(own, prefix): &(IpAddr, u8)| match (own, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => {
                let others = 32 - u32::from(prefix.min(32));
                (own.to_bits() ^ ip.to_bits()).checked_shr(others).unwrap_or(0) == 0
            }
            (own, ip) => own == ip,
        };
        self.is_up && self.addresses.iter().any(covers)
    }

    /// May a socket have an address that does not lead here now? As Linux has it, one of this interface's while that is down, and any of IPv4 where
    /// there never was one.
    pub fn may_bind(&self, ip: IpAddr) -> bool {
        !self.was_used && ip.is_ipv4() || self.addresses.iter().any(|(own, _)| *own == ip)
    }

    /// Brings it up, when it gets its own addresses if it has lost them, or down, when it loses those of IPv6.
    pub fn set_up(&mut self, is_up: bool) {
        if core::mem::replace(&mut self.is_up, is_up) == is_up {
            return;
        }
        if !is_up {
            self.addresses.retain(|(ip, _)| ip.is_ipv4());
            return;
        }
        self.was_used = true;
        for own in [OWN_V4, OWN_V6] {
            if !self.addresses.contains(&own) {
                self.addresses.push(own);
            }
        }
    }

    /// Gives it an address.
    ///
    /// # Errors
    /// `EEXIST`: it has that. `EINVAL`: an address has not so many bits. `ENOBUFS`: it has too many.
    pub fn add(&mut self, (ip, prefix): (IpAddr, u8)) -> Result<(), Errno> {
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(Errno::EINVAL);
        }
        let is_same = |&(own, its): &(IpAddr, u8)| own == ip && (its == prefix || ip.is_ipv6());
        if self.addresses.iter().any(is_same) {
            return Err(Errno::EEXIST);
        }
        if self.addresses.len() >= ADDRESSES_MOST {
            return Err(Errno::ENOBUFS);
        }
        self.was_used = true;
        self.addresses.push((ip, prefix));
        Ok(())
    }

    /// Takes one from it. `EADDRNOTAVAIL`: it has no such.
    pub fn remove(&mut self, address: (IpAddr, u8)) -> Result<(), Errno> {
        let found = self.addresses.iter().position(|one| *one == address);
        self.addresses.remove(found.ok_or(Errno::EADDRNOTAVAIL)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_addresses_while_it_is_up() {
        let mut inside = Inside::new();
        let (four, six) = (Ipv4Addr::new(127, 3, 2, 1).into(), Ipv6Addr::LOCALHOST.into());
        assert!(!inside.has(four) && !inside.has(six));
        // An address alone does not bring it up.
        assert_eq!(inside.add(OWN_V4), Ok(()));
        assert_eq!(inside.add(OWN_V4), Err(Errno::EEXIST));
        assert!(!inside.has(four));
        inside.set_up(true);
        assert!(inside.has(four) && inside.has(six) && inside.addresses().len() == 2);
        let other = (Ipv4Addr::new(10, 1, 2, 3).into(), 24);
        assert_eq!(inside.add(other), Ok(()));
        assert!(inside.has(Ipv4Addr::new(10, 1, 2, 77).into()));
        assert!(!inside.has(Ipv4Addr::new(10, 1, 3, 3).into()));
        inside.set_up(false);
        assert!(!inside.has(four) && inside.addresses() == [OWN_V4, other]);
        assert_eq!(inside.remove((other.0, 32)), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(inside.remove(other), Ok(()));
        inside.set_up(true);
        assert_eq!(inside.addresses(), [OWN_V4, OWN_V6]);
    }

    #[test]
    fn it_has_not_too_many() {
        let mut inside = Inside::new();
        let all = (0..).map(|n| inside.add((Ipv4Addr::from_bits(n).into(), 0)));
        assert_eq!(all.take_while(Result::is_ok).count(), ADDRESSES_MOST);
        assert_eq!(inside.add((Ipv4Addr::LOCALHOST.into(), 33)), Err(Errno::EINVAL));
    }
}
