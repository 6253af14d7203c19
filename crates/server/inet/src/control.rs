//! Control messages: what a program says of a datagram that it sends, and what it is told of one that it receives.
//!
//! They are as programs write and read them (`struct cmsghdr`, and data), one behind the other, each at a multiple of eight bytes.

use crate::address::encode;
use crate::errors::Report;
use crate::groups::own_of;
use crate::options::Options;
use crate::socket::{Family, Packet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use unixproto::sockets::{of_level, SO_RXQ_OVFL, SO_TIMESTAMP, SO_TIMESTAMPNS};
use unixproto::Errno;

const SOL_SOCKET: u32 = 1;
const SOL_IP: u32 = 0;
const SOL_IPV6: u32 = 41;
const IP_TOS: u32 = 1;
const IP_TTL: u32 = 2;
const IP_PKTINFO: u32 = 8;
const IP_RECVERR: u32 = 11;
const IP_RECVTTL: u32 = 12;
const IP_RECVTOS: u32 = 13;
const IP_ORIGDSTADDR: u32 = 20;
const IPV6_RECVERR: u32 = 25;
const IPV6_RECVPKTINFO: u32 = 49;
const IPV6_PKTINFO: u32 = 50;
const IPV6_RECVHOPLIMIT: u32 = 51;
const IPV6_HOPLIMIT: u32 = 52;
const IPV6_RECVTCLASS: u32 = 66;
const IPV6_TCLASS: u32 = 67;
/// `SO_TIMESTAMP` and `SO_TIMESTAMPNS` of programs whose seconds have 64 bits everywhere: here they are the same.
pub const SO_TIMESTAMP_NEW: u32 = 63;
/// Likewise.
pub const SO_TIMESTAMPNS_NEW: u32 = 64;
/// Bytes of `struct cmsghdr`.
const HEAD: usize = 16;
/// Numbers of the interfaces: `lo`, and the one to the outside.
pub(crate) const LO: u32 = 1;
pub(crate) const AWAY: u32 = 2;

/// Which way a datagram has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passage {
    /// Who has sent it.
    pub from: SocketAddr,
    /// To which address, and port.
    pub to: SocketAddr,
    /// Hops that it could still take.
    pub hops: u8,
    /// Type of service, or traffic class.
    pub class: u8,
    /// It came over a wire.
    pub is_outside: bool,
}

impl Passage {
    /// Inside of the machine, with nothing particular.
    pub fn inside(from: SocketAddr, to: SocketAddr) -> Passage {
        Passage { from, to, hops: crate::datagram::HOPS, class: 0, is_outside: false }
    }
}

/// What a program says of one datagram that it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sending {
    /// The own address that it is from.
    pub source: Option<IpAddr>,
    /// The interface that it goes over; 0: any.
    pub interface: u32,
    /// Hops that it may take.
    pub hops: Option<u8>,
    /// Type of service, or traffic class.
    pub class: Option<u8>,
}

impl Sending {
    /// From what control messages say to a socket of a family, which sends to an address of IPv4 or not.
    ///
    /// # Errors
    /// `EINVAL`: they are not as they are to be.
    pub fn parse(bytes: &[u8], (family, to_v4): (Family, bool)) -> Result<Sending, Errno> {
        let mut sending = Sending::default();
        let mut rest = bytes;
        while rest.len() >= HEAD {
            let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| rest[at + n]));
            let len = u64::from(word(0)) | u64::from(word(4)) << 32;
            let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
            if len < HEAD || len > rest.len() {
                return Err(Errno::EINVAL);
            }
            let data = &rest[HEAD..len];
            match (word(8), word(12)) {
                (SOL_IP, kind) if to_v4 => sending.of_v4(kind, data)?,
                // The own address as one of IPv4; nothing else of this level is about a packet of that.
                (SOL_IPV6, IPV6_PKTINFO) if to_v4 && family == Family::V6 => {
                    sending.of_v6(IPV6_PKTINFO, data)?;
                    if !data.first_chunk().is_some_and(is_mapped) {
                        return Err(Errno::EINVAL);
                    }
                }
                (SOL_IPV6, kind) if !to_v4 => sending.of_v6(kind, data)?,
                _ => {}
            }
            rest = &rest[len.next_multiple_of(8).min(rest.len())..];
        }
        Ok(sending)
    }

    fn of_v4(&mut self, kind: u32, data: &[u8]) -> Result<(), Errno> {
        match kind {
            // `struct in_pktinfo`: the interface, the own address, one that is not looked at.
            IP_PKTINFO => {
                let info: &[u8; 12] = data.try_into().map_err(|_| Errno::EINVAL)?;
                let [i0, i1, i2, i3, a0, a1, a2, a3, ..] = *info;
                self.interface = u32::from_le_bytes([i0, i1, i2, i3]);
                let own = Ipv4Addr::from([a0, a1, a2, a3]);
                self.source = (!own.is_unspecified()).then_some(own.into());
            }
            IP_TTL => match whole(data)? {
                hops @ 1..=255 => self.hops = Some(hops as u8),
                _ => return Err(Errno::EINVAL),
            },
            IP_TOS => match if let [class] = *data { class.into() } else { whole(data)? } {
                class @ 0..=255 => self.class = Some(class as u8),
                _ => return Err(Errno::EINVAL),
            },
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn of_v6(&mut self, kind: u32, data: &[u8]) -> Result<(), Errno> {
        match kind {
            // `struct in6_pktinfo`: the own address, the interface.
            IPV6_PKTINFO => {
                let info: &[u8; 20] = data.first_chunk().ok_or(Errno::EINVAL)?;
                let (own, interface) = info.split_first_chunk::<16>().ok_or(Errno::EINVAL)?;
                self.interface = interface.try_into().map_or(0, u32::from_le_bytes);
                let own = Ipv6Addr::from(*own);
                self.source = (!own.is_unspecified()).then_some(IpAddr::from(own).to_canonical());
            }
            IPV6_HOPLIMIT => match whole(data)? {
                -1 => self.hops = None,
                // None at all is enough for the own machine, and all that there is for others.
                hops @ 0..=255 => self.hops = Some(hops as u8),
                _ => return Err(Errno::EINVAL),
            },
            IPV6_TCLASS => match whole(data)? {
                // As Linux has it, all of its bits.
                class @ -1..=255 => self.class = Some(class as u8),
                _ => return Err(Errno::EINVAL),
            },
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

fn is_mapped(ip: &[u8; 16]) -> bool {
    Ipv6Addr::from(*ip).to_ipv4_mapped().is_some()
}

fn whole(data: &[u8]) -> Result<i32, Errno> {
    data.try_into().map(i32::from_le_bytes).map_err(|_| Errno::EINVAL)
}

/// Control messages as they grow.
#[derive(Default)]
struct Messages(Vec<u8>);

impl Messages {
    fn put(&mut self, level: u32, kind: u32, data: &[u8]) {
        let all = &mut self.0;
        all.resize(all.len().next_multiple_of(8), 0);
        all.extend_from_slice(&((HEAD + data.len()) as u64).to_le_bytes());
        all.extend_from_slice(&level.to_le_bytes());
        all.extend_from_slice(&kind.to_le_bytes());
        all.extend_from_slice(data);
    }

    /// When it came, as far as that is wanted: nanoseconds of the clock on the wall.
    fn time(&mut self, options: &Options, ns: i64) {
        let (seconds, rest) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        let kinds = [
            (SO_TIMESTAMP, 1000),
            (SO_TIMESTAMP_NEW, 1000),
            (SO_TIMESTAMPNS, 1),
            (SO_TIMESTAMPNS_NEW, 1),
        ];
        for (kind, unit) in kinds {
            if options.is_set(kind) {
                let words = [seconds, rest / unit].map(i64::to_le_bytes);
                self.put(SOL_SOCKET, kind, words.as_flattened());
            }
        }
    }

    /// What the own level of a socket's family tells of the way of a packet.
    fn way(&mut self, options: &Options, family: Family, way: &Passage, outside: Option<Ipv4Addr>) {
        let (to, interface) = (way.to.ip(), if way.is_outside { AWAY } else { LO });
        if family == Family::V6 && options.is_set(of_level(SOL_IPV6, IPV6_RECVPKTINFO)) {
            let IpAddr::V6(own) = mapped(to) else { return };
            self.put(
                SOL_IPV6,
                IPV6_PKTINFO,
                &[&own.octets()[..], &interface.to_le_bytes()].concat(),
            );
        }
        match to {
            IpAddr::V4(own) => {
                if options.is_set(of_level(SOL_IP, IP_PKTINFO)) {
                    // The address of a group is nobody's own.
                    let special = own_of(way, outside);
                    let info = [interface.to_le_bytes(), special.octets(), own.octets()];
                    self.put(SOL_IP, IP_PKTINFO, info.as_flattened());
                }
                if options.is_set(of_level(SOL_IP, IP_RECVTTL)) {
                    self.put(SOL_IP, IP_TTL, &u32::from(way.hops).to_le_bytes());
                }
                if options.is_set(of_level(SOL_IP, IP_RECVTOS)) {
                    self.put(SOL_IP, IP_TOS, &[way.class]);
                }
                if options.is_set(of_level(SOL_IP, IP_ORIGDSTADDR)) {
                    self.put(SOL_IP, IP_ORIGDSTADDR, &encode(way.to, Family::V4));
                }
            }
            IpAddr::V6(_) => {
                if options.is_set(of_level(SOL_IPV6, IPV6_RECVHOPLIMIT)) {
                    self.put(SOL_IPV6, IPV6_HOPLIMIT, &u32::from(way.hops).to_le_bytes());
                }
                if options.is_set(of_level(SOL_IPV6, IPV6_RECVTCLASS)) {
                    self.put(SOL_IPV6, IPV6_TCLASS, &u32::from(way.class).to_le_bytes());
                }
            }
        }
    }
}

fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        ip => ip,
    }
}

/// What is told of a packet that is received, now, where the machine has an address outside.
pub(crate) fn of_packet(
    packet: &Packet,
    options: &Options,
    family: Family,
    (now, outside): (i64, Option<Ipv4Addr>),
) -> Vec<u8> {
    let mut all = Messages::default();
    // When nobody wanted to know it when it came, it counts from now on.
    all.time(options, if packet.came == 0 { now } else { packet.came });
    if packet.lost > 0 && options.is_set(SO_RXQ_OVFL) {
        all.put(SOL_SOCKET, SO_RXQ_OVFL, &packet.lost.to_le_bytes());
    }
    all.way(options, family, &packet.way, outside);
    all.0
}

/// The same, of an error.
pub(crate) fn of_report(report: &Report, options: &Options, family: Family, now: i64) -> Vec<u8> {
    let mut all = Messages::default();
    all.time(options, if report.came == 0 { now } else { report.came });
    all.way(options, family, &report.way, None);
    // `struct sock_extended_err`, and who says so.
    let mut data = Vec::new();
    data.extend_from_slice(&u32::from(report.error.0).to_le_bytes());
    data.extend_from_slice(&[report.origin(), report.kind, report.code, 0]);
    data.extend_from_slice(&report.info.to_le_bytes());
    data.extend_from_slice(&[0; 4]);
    data.extend_from_slice(&encode(SocketAddr::new(report.way.from.ip(), 0), family));
    match family {
        Family::V4 => all.put(SOL_IP, IP_RECVERR, &data),
        Family::V6 => all.put(SOL_IPV6, IPV6_RECVERR, &data),
    }
    all.0
}
