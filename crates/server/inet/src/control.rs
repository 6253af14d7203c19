//! Control messages: what a program says of a datagram that it sends, and what it is told of one that it receives.
//!
//! They are as programs write and read them (`struct cmsghdr`, and data), one behind the other, each at a multiple of eight bytes.

use crate::address::{encode, size as address_bytes};
use crate::errors::{Entry, Report};
use crate::groups::own_of;
use crate::options::Options;
use crate::socket::{Family, Packet};
use crate::timestamps::{Stamp, OPT_CMSG, SOFTWARE, TX_RECORD};
use crate::zerocopy::Calls;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use unixproto::sockets::{
    of_level, time_told, SO_RXQ_OVFL, SO_TIMESTAMPING, SO_TIMESTAMPING_NEW, SO_TIMESTAMPNS, TIMES,
};
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
/// `IPV6_2292HOPLIMIT`: what `IPV6_RECVHOPLIMIT` was before.
const OLD_HOPLIMIT: u32 = 8;
const IPV6_RECVERR: u32 = 25;
const IPV6_RECVPKTINFO: u32 = 49;
const IPV6_PKTINFO: u32 = 50;
const IPV6_RECVHOPLIMIT: u32 = 51;
const IPV6_HOPLIMIT: u32 = 52;
const IPV6_RECVTCLASS: u32 = 66;
const IPV6_TCLASS: u32 = 67;
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
    /// Its bytes need not be copied (`MSG_ZEROCOPY`).
    pub is_zerocopy: bool,
    /// When what happens to it is to be told, if not as the socket has it: `SOF_TIMESTAMPING_TX_*`.
    pub stamps: Option<u32>,
}

/// Does something with one control message after the other: its level, its kind, its data.
fn each(
    bytes: &[u8],
    mut does: impl FnMut(u32, u32, &[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut rest = bytes;
    while rest.len() >= HEAD {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| rest[at + n]));
        let len = u64::from(word(0)) | u64::from(word(4)) << 32;
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        if len < HEAD || len > rest.len() {
            return Err(Errno::EINVAL);
        }
        does(word(8), word(12), &rest[HEAD..len])?;
        rest = &rest[len.next_multiple_of(8).min(rest.len())..];
    }
    Ok(())
}

/// What control messages of the sockets' own level say that bytes of a stream are sent with: of which stages of them the time is wanted.
///
/// # Errors
/// `EINVAL`: they are not as they are to be.
pub fn stamps_of(bytes: &[u8]) -> Result<Option<u32>, Errno> {
    let mut stamps = None;
    each(bytes, |level, kind, data| {
        if level == SOL_SOCKET {
            stamps = Some(stamps_in(kind, data)?);
        }
        Ok(())
    })?;
    Ok(stamps)
}

fn stamps_in(kind: u32, data: &[u8]) -> Result<u32, Errno> {
    match kind {
        SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => match whole(data)? as u32 {
            stamps if stamps & !TX_RECORD == 0 => Ok(stamps),
            _ => Err(Errno::EINVAL),
        },
        _ => Err(Errno::EINVAL),
    }
}

impl Sending {
    /// From what control messages say to a socket of a family, which sends to an address of IPv4 or not.
    ///
    /// # Errors
    /// `EINVAL`: they are not as they are to be.
    pub fn parse(bytes: &[u8], (family, to_v4): (Family, bool)) -> Result<Sending, Errno> {
        let mut sending = Sending::default();
        each(bytes, |level, kind, data| {
            match (level, kind) {
                (SOL_SOCKET, kind) => sending.stamps = Some(stamps_in(kind, data)?),
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
            Ok(())
        })?;
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

    /// When it came, or happened, as far as that is wanted: nanoseconds of the clock on the wall; 0: nobody knows.
    fn time(&mut self, options: &Options, ns: i64) {
        if ns == 0 {
            return;
        }
        for kind in TIMES.into_iter().filter(|&kind| options.is_set(kind)) {
            self.put(SOL_SOCKET, kind, &time_told(kind, ns));
        }
        if options.stamping() & SOFTWARE != 0 {
            let is_new = options.is_set(SO_TIMESTAMPING_NEW);
            let kind = if is_new { SO_TIMESTAMPING_NEW } else { SO_TIMESTAMPING };
            // By software; the other two are of devices, of which none tells the time.
            let times = [time_told(SO_TIMESTAMPNS, ns), [0; 16], [0; 16]];
            self.put(SOL_SOCKET, kind, times.as_flattened());
        }
    }

    /// What the own level of a socket's family tells of the way of a packet, whose address here, of IPv4, was that one.
    fn way(&mut self, options: &Options, family: Family, way: &Passage, special: Ipv4Addr) {
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
                if options.is_set(of_level(SOL_IPV6, OLD_HOPLIMIT)) {
                    self.put(SOL_IPV6, OLD_HOPLIMIT, &u32::from(way.hops).to_le_bytes());
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
    all.time(options, options.time_of(packet.came, now));
    if packet.lost > 0 && options.is_set(SO_RXQ_OVFL) {
        all.put(SOL_SOCKET, SO_RXQ_OVFL, &packet.lost.to_le_bytes());
    }
    // The address of a group is nobody's own.
    all.way(options, family, &packet.way, own_of(&packet.way, outside));
    all.0
}

/// The same, of bytes of a stream, the last of which came then.
pub(crate) fn of_stream(came: i64, options: &Options) -> Vec<u8> {
    let mut all = Messages::default();
    all.time(options, came);
    all.0
}

/// `struct sock_extended_err`, without the two last words of it.
struct Head {
    error: Errno,
    origin: u8,
    kind: u8,
    code: u8,
}

/// What is told of an entry of the error queue.
pub(crate) fn of_entry(entry: &Entry, options: &Options, family: Family, now: i64) -> Vec<u8> {
    const TIMESTAMPING: u8 = 4;
    const ZEROCOPY: u8 = 5;
    const COPIED: u8 = 1;
    let mut all = Messages::default();
    let (head, info, data, by) = match entry {
        Entry::Undelivered(report) => {
            all.time(options, options.time_of(report.came, now));
            all.way(options, family, &report.way, own_of(&report.way, None));
            let &Report { error, kind, code, info, .. } = report;
            let head = Head { error, origin: report.origin(), kind, code };
            (head, info, 0, Some(report.way.from.ip()))
        }
        Entry::Sent(Stamp { stage, key, at, packet }) => {
            all.time(options, *at);
            let way = packet.as_ref().map(|(way, _)| way);
            // Where IPv4 is asked for that, IPv6 does so whenever it has the packet.
            let way = way.filter(|_| family == Family::V6 || options.stamping() & OPT_CMSG != 0);
            if let Some(way) = way {
                let own = match way.from.ip() {
                    IpAddr::V4(own) => own,
                    IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
                };
                all.way(options, family, way, own);
            }
            let head = Head { error: Errno::ENOMSG, origin: TIMESTAMPING, kind: 0, code: 0 };
            (head, *stage as u32, *key, way.map(|way| way.from.ip()))
        }
        Entry::Complete(Calls { first, last }) => {
            all.time(options, options.time_of(0, now));
            let head = Head { error: Errno(0), origin: ZEROCOPY, kind: 0, code: COPIED };
            (head, *first, *last, None)
        }
    };
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&u32::from(head.error.0).to_le_bytes());
    bytes.extend_from_slice(&[head.origin, head.kind, head.code, 0]);
    bytes.extend_from_slice(&info.to_le_bytes());
    bytes.extend_from_slice(&data.to_le_bytes());
    let len = bytes.len();
    // And who says so, or a place that is empty.
    if let Some(by) = by {
        bytes.extend_from_slice(&encode(SocketAddr::new(by, 0), family));
    }
    bytes.resize(len + address_bytes(family), 0);
    match family {
        Family::V4 => all.put(SOL_IP, IP_RECVERR, &bytes),
        Family::V6 => all.put(SOL_IPV6, IPV6_RECVERR, &bytes),
    }
    all.0
}
