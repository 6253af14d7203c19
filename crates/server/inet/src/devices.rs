//! What a program can ask of the machine's interfaces: what they are, and the requests of `netdevice(7)`. That of the same by messages
//! is in [`crate::route`].

use crate::address::{decode, encode, AF_INET};
use crate::inside::Inside;
use crate::socket::{Family, Inet, Interface};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use linux_raw_sys::if_arp::{ARPHRD_ETHER, ARPHRD_LOOPBACK};
use linux_raw_sys::ioctl::{
    SIOCGIFADDR, SIOCGIFBRDADDR, SIOCGIFCONF, SIOCGIFDSTADDR, SIOCGIFFLAGS, SIOCGIFHWADDR,
    SIOCGIFINDEX, SIOCGIFMAP, SIOCGIFMETRIC, SIOCGIFMTU, SIOCGIFNAME, SIOCGIFNETMASK,
    SIOCGIFTXQLEN, SIOCSIFADDR, SIOCSIFFLAGS, SIOCSIFMTU,
};
use linux_raw_sys::net::net_device_flags as flag;
use unixproto::sockets::DEVICE_BYTES;
use unixproto::Errno;

/// Name of the interface to the outside.
pub const OUTSIDE: &str = "eth0";
/// Its number.
pub(crate) const OUTSIDE_NUMBER: u32 = 2;
/// Bytes of a name, with what follows it.
const NAME_BYTES: usize = 16;
/// Bytes of an address behind it.
const SOCKET_ADDRESS: usize = 16;
/// Those of the lower flags that are not only told.
const FLAGS: u32 = flag::IFF_UP as u32
    | flag::IFF_NOARP as u32
    | flag::IFF_PROMISC as u32
    | flag::IFF_ALLMULTI as u32
    | flag::IFF_MULTICAST as u32;
/// Packets that may wait to be sent, as they are told.
const QUEUE: u32 = 1000;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub index: u32,
    pub name: &'static str,
    /// `IFF_*`
    pub flags: u32,
    pub mtu: u32,
    /// `ARPHRD_*`
    pub kind: u16,
    pub mac: [u8; 6],
    /// Of everybody on its network.
    pub all_macs: [u8; 6],
    pub queue: u32,
    /// Addresses, and how many bits of each are the network's.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Device {
    fn inside(inside: &Inside) -> Device {
        let is_up = [flag::IFF_UP, flag::IFF_RUNNING, flag::IFF_LOWER_UP];
        let is_up = if inside.is_up() { bits(&is_up) } else { 0 };
        Device {
            index: 1,
            name: "lo",
            flags: bits(&[flag::IFF_LOOPBACK]) | is_up,
            mtu: inside.mtu(),
            kind: ARPHRD_LOOPBACK as u16,
            mac: [0; 6],
            all_macs: [0; 6],
            queue: QUEUE,
            addresses: inside.addresses().to_vec(),
        }
    }

    fn outside(interface: &Interface) -> Device {
        Device {
            index: OUTSIDE_NUMBER,
            name: OUTSIDE,
            flags: bits(&[
                flag::IFF_UP,
                flag::IFF_BROADCAST,
                flag::IFF_RUNNING,
                flag::IFF_MULTICAST,
                flag::IFF_LOWER_UP,
            ]),
            mtu: interface.mtu.into(),
            kind: ARPHRD_ETHER as u16,
            mac: interface.mac,
            all_macs: [0xff; 6],
            queue: QUEUE,
            addresses: {
                let six = interface.six;
                let own = (IpAddr::from(interface.address), interface.prefix);
                let others = six.addresses().map(|ip| (IpAddr::from(ip), six.prefix));
                core::iter::once(own).chain(others).collect()
            },
        }
    }

    /// Is it up?
    pub fn is_up(&self) -> bool {
        self.flags & flag::IFF_UP as u32 != 0
    }

    /// Is that its name, as far as to the first zero?
    pub fn is_called(&self, name: &[u8]) -> bool {
        name.split(|&byte| byte == 0).next() == Some(self.name.as_bytes())
    }

    pub fn is_inside(&self) -> bool {
        self.flags & flag::IFF_LOOPBACK as u32 != 0
    }

    /// Its address of IPv4, if it has one.
    pub fn v4(&self) -> Option<(Ipv4Addr, u8)> {
        self.addresses.iter().find_map(|&(ip, prefix)| match ip {
            IpAddr::V4(ip) => Some((ip, prefix)),
            IpAddr::V6(_) => None,
        })
    }
}

/// Bits that are the network's, by what networks once were.
fn class_of(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) => match ip.octets()[0] {
            0..=127 => 8,
            128..=191 => 16,
            192..=223 => 24,
            224.. => 32,
        },
        IpAddr::V6(_) => 128,
    }
}

fn bits(all: &[flag]) -> u32 {
    all.iter().fold(0, |bits, one| bits | *one as u32)
}

/// The bits of an address that are the network's.
pub(crate) fn mask(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0))
}

/// The address of all on a network.
pub(crate) fn broadcast(ip: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(ip) | !u32::from(mask(prefix)))
}

impl Inet {
    /// The interfaces.
    pub(crate) fn devices(&self) -> Vec<Device> {
        let mut all = Vec::from([Device::inside(&self.inside)]);
        all.extend(self.interface().map(Device::outside));
        all
    }

    /// Has anything ever led anywhere?
    pub fn has_ways(&self) -> bool {
        self.inside.was_used()
    }

    /// Is the interface inside of the machine up?
    pub fn is_up_inside(&self) -> bool {
        self.inside.is_up()
    }

    /// Its addresses of IPv6, and how many bits of each are a network's.
    pub fn addresses_inside(&self) -> impl Iterator<Item = (Ipv6Addr, u8)> + '_ {
        self.inside.addresses().iter().filter_map(|&(ip, prefix)| match ip {
            IpAddr::V6(ip) => Some((ip, prefix)),
            IpAddr::V4(_) => None,
        })
    }

    /// Bytes of a packet inside of the machine. Streams have no packets there, and datagrams are not cut: it is what programs are told, and most that one sends whose head
    /// somebody has made.
    pub fn mtu_inside(&self) -> u32 {
        self.inside.mtu()
    }

    /// Whether a change of an interface's flags, as far as the mask says, brings it up or down; `None`: neither.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: other flags, and those of the wire, are what they are.
    pub(crate) fn goes_up(device: &Device, flags: u32, mask: u32) -> Result<Option<bool>, Errno> {
        const UP: u32 = flag::IFF_UP as u32;
        match ((device.flags ^ flags) & mask, device.is_inside()) {
            (0, _) => Ok(None),
            (UP, true) => Ok(Some(flags & UP != 0)),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Sets the size of an interface's packets.
    ///
    /// # Errors
    /// `EINVAL`: it cannot be that. `EOPNOTSUPP`: that of the wire is what it is.
    pub(crate) fn set_mtu(&mut self, device: &Device, mtu: u32) -> Result<(), Errno> {
        match device.is_inside() {
            false if mtu == device.mtu => Ok(()),
            false => Err(Errno::EOPNOTSUPP),
            true => self.inside.set_mtu(mtu),
        }
    }

    /// Answers a request about an interface (`struct ifreq` in, and out), or about all (`struct ifreq` of each that has an address).
    ///
    /// # Errors
    /// `ENODEV`: it is not there. `EADDRNOTAVAIL`: it has no address. `EPERM`: interfaces are not changed by others than administrators; `EOPNOTSUPP`: nor by
    /// those, but for the size of packets inside of the machine; `EINVAL`: it cannot be that.
    pub fn device_request(
        &mut self,
        command: u32,
        input: &[u8],
        may_change: bool,
    ) -> Result<Vec<u8>, Errno> {
        let all = self.devices();
        if command == SIOCGIFCONF {
            let each = all.iter().filter_map(|device| {
                let (ip, _) = device.v4()?;
                Some(request(device.name, &socket_address(ip)))
            });
            return Ok(each.flatten().collect());
        }
        let (name, rest) = input.split_first_chunk::<NAME_BYTES>().ok_or(Errno::EINVAL)?;
        let number_in = rest.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let address_in = decode(rest, Family::V4).ok().flatten();
        if command == SIOCGIFNAME {
            let is_it = |device: &&Device| device.index == number_in;
            let device = all.iter().find(is_it).ok_or(Errno::ENODEV)?;
            return Ok(request(device.name, &number_in.to_ne_bytes()));
        }
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        // The rest of a name is that of an address of the same interface.
        let name = name.split(|&byte| byte == b':').next().unwrap_or_default();
        let device = all.iter().find(|device| device.is_called(name));
        let device = device.ok_or(Errno::ENODEV)?;
        let v4 = || device.v4().ok_or(Errno::EADDRNOTAVAIL);
        let number = |value: u32| value.to_ne_bytes().to_vec();
        let value = match command {
            SIOCGIFFLAGS => (device.flags as u16).to_ne_bytes().to_vec(),
            SIOCGIFADDR | SIOCGIFDSTADDR => socket_address(v4()?.0),
            SIOCGIFNETMASK => socket_address(mask(v4()?.1)),
            SIOCGIFBRDADDR if device.is_inside() => socket_address(Ipv4Addr::UNSPECIFIED),
            SIOCGIFBRDADDR => v4().map(|(ip, prefix)| socket_address(broadcast(ip, prefix)))?,
            SIOCGIFMETRIC => number(0),
            SIOCGIFMTU => number(device.mtu),
            SIOCGIFINDEX => number(device.index),
            SIOCGIFTXQLEN => number(device.queue),
            SIOCGIFHWADDR => {
                let mut address = device.kind.to_ne_bytes().to_vec();
                address.extend_from_slice(&device.mac);
                address
            }
            SIOCGIFMAP => Vec::new(),
            _ if !may_change => return Err(Errno::EPERM),
            SIOCSIFMTU => {
                self.set_mtu(device, number_in)?;
                number(number_in)
            }
            SIOCSIFFLAGS => {
                if let Some(is_up) = Inet::goes_up(device, number_in & 0xffff, FLAGS)? {
                    self.inside.set_up(is_up);
                }
                (number_in as u16).to_ne_bytes().to_vec()
            }
            SIOCSIFADDR if device.is_inside() => {
                let ip = address_in.ok_or(Errno::EINVAL)?.ip();
                if !device.addresses.iter().any(|(own, _)| *own == ip) {
                    // It comes instead of the one that was told.
                    if let Some((ip, prefix)) = device.v4() {
                        self.inside.remove((ip.into(), prefix))?;
                    }
                    self.inside.add((ip, class_of(ip)))?;
                }
                rest.iter().copied().take(SOCKET_ADDRESS).collect()
            }
            _ => return Err(Errno::EOPNOTSUPP),
        };
        Ok(request(device.name, &value))
    }
}

/// `struct ifreq`.
fn request(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_BYTES, 0);
    bytes.extend_from_slice(value);
    bytes.resize(DEVICE_BYTES, 0);
    bytes
}

fn socket_address(ip: Ipv4Addr) -> Vec<u8> {
    let bytes = encode(SocketAddr::new(ip.into(), 0), Family::V4);
    debug_assert_eq!(bytes.first_chunk(), Some(&AF_INET.to_ne_bytes()));
    bytes
}
