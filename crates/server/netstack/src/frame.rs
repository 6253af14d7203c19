//! What a frame is about, by its first bytes: whose it is. What is wrong in it is found later, by whoever it is given to.

use crate::parts::PART;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use netproto::Protocol;

/// The numbers of a connection: the peer's address and port, and the own port.
pub type Key = (IpAddr, u16, u16);

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Bytes of the head of a packet of IPv6.
const HEAD_V6: usize = 40;
const ARP: [u8; 2] = [8, 6];
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
/// Types of ICMP messages.
const ECHO_ANSWER: u8 = 0;
const UNREACHABLE: u8 = 3;
const LATE: u8 = 11;
const WRONG: u8 = 12;
const ECHO_REQUEST: u8 = 8;

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A segment of a connection.
    Segment {
        key: Key,
        to: IpAddr,
        begins: bool,
        resets: bool,
    },
    /// A datagram to a port.
    Datagram {
        port: u16,
    },
    /// The answer to an echo request.
    Echo {
        ident: u16,
    },
    /// Somebody on the way says that a segment of a connection did not arrive, for this reason.
    Unreachable {
        key: Key,
        code: u8,
    },
    /// The same of a datagram that was sent from a port, or an echo request.
    Undelivered {
        protocol: Protocol,
        port: u16,
    },
    /// Where somebody is, or who wants to know that.
    Address,
    /// Somebody says that it knows the way to others (IPv6).
    Router,
    /// Somebody wants to know which groups there are, or says it.
    Groups,
    /// A part of a packet, and of one of IPv6.
    Part,
    PartV6,
    /// Something else.
    Other,
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..at + 4)?.first_chunk::<4>().map(|&ip| ip.into())
}

/// The payload of a packet of IPv4.
fn payload(packet: &[u8]) -> Option<&[u8]> {
    let head = usize::from(packet.first()? & 0xf) * 4;
    packet.get(head..).filter(|_| head >= 20)
}

/// The group that a packet of IPv4 is for, if it is for one.
pub fn group_of(frame: &[u8]) -> Option<Ipv4Addr> {
    let packet = frame.get(14..).filter(|_| frame[12..14] == IPV4)?;
    address(packet, 16).filter(Ipv4Addr::is_multicast)
}

/// Looks at a frame.
pub fn look(frame: &[u8]) -> What {
    what(frame).unwrap_or(What::Other)
}

/// A segment of a connection between two addresses.
fn segment(from: IpAddr, to: IpAddr, bytes: &[u8]) -> Option<What> {
    let flags = *bytes.get(13)?;
    Some(What::Segment {
        key: (from, short(bytes, 0)?, short(bytes, 2)?),
        to,
        begins: flags & 0x12 == 2,
        resets: flags & 4 != 0,
    })
}

/// What a message says that is about a packet of this machine's: of which protocol that was and who it was for, what it carried, the numbers of ICMP and of an
/// echo request in this version, and the reason for which nothing of a connection arrives, if it is one.
fn undelivered(
    (protocol, to): (u8, IpAddr),
    bytes: &[u8],
    (icmp, request): (u8, u8),
    code: Option<u8>,
) -> Option<What> {
    match protocol {
        TCP => {
            let key = (to, short(bytes, 2)?, short(bytes, 0)?);
            code.map(|code| What::Unreachable { key, code })
        }
        UDP => Some(What::Undelivered { protocol: Protocol::Udp, port: short(bytes, 0)? }),
        _ if protocol == icmp && bytes.first()? == &request => {
            Some(What::Undelivered { protocol: Protocol::Echo, port: short(bytes, 4)? })
        }
        _ => None,
    }
}

fn what(frame: &[u8]) -> Option<What> {
    match *frame.get(12..14)?.first_chunk::<2>()? {
        ARP => return Some(What::Address),
        IPV4 => {}
        IPV6 => return what_v6(&frame[14..]),
        _ => return None,
    }
    let packet = &frame[14..];
    let (from, to, inner) = (address(packet, 12)?, address(packet, 16)?, payload(packet)?);
    // The offset, and whether more parts follow.
    if short(packet, 6)? & 0x3fff != 0 {
        return Some(What::Part);
    }
    Some(match packet[9] {
        TCP => segment(from.into(), to.into(), inner)?,
        IGMP => What::Groups,
        UDP => What::Datagram { port: short(inner, 2)? },
        ICMP if inner.first()? == &ECHO_ANSWER => What::Echo { ident: short(inner, 4)? },
        ICMP if matches!(*inner.first()?, UNREACHABLE | LATE | WRONG) => {
            let about = inner.get(8..)?;
            let (to, segment) = (address(about, 16)?.into(), payload(about)?);
            let code = Some(inner[1]).filter(|_| inner[0] == UNREACHABLE);
            undelivered((about[9], to), segment, (ICMP, ECHO_REQUEST), code)?
        }
        _ => return None,
    })
}

fn address_v6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<16>().map(|&ip| ip.into())
}

/// The same of a packet of IPv6. What has other heads before that of its protocol is something else.
fn what_v6(packet: &[u8]) -> Option<What> {
    /// Types of ICMP messages: those about a packet, the answer to an echo request, who knows the way, and those about neighbours.
    const ABOUT: core::ops::RangeInclusive<u8> = 1..=4;
    const UNREACHABLE: u8 = 1;
    const ECHO_ANSWER: u8 = 129;
    const ECHO_REQUEST: u8 = 128;
    const ROUTER: u8 = 134;
    const NEIGHBOURS: core::ops::RangeInclusive<u8> = 135..=136;
    let (from, to) = (address_v6(packet, 8)?, address_v6(packet, 24)?);
    let inner = packet.get(HEAD_V6..)?;
    Some(match packet[6] {
        TCP => segment(from.into(), to.into(), inner)?,
        UDP => What::Datagram { port: short(inner, 2)? },
        PART => What::PartV6,
        ICMP6 => match *inner.first()? {
            ECHO_ANSWER => What::Echo { ident: short(inner, 4)? },
            ROUTER => What::Router,
            kind if NEIGHBOURS.contains(&kind) => What::Address,
            kind if ABOUT.contains(&kind) => {
                let about = inner.get(8..)?;
                let (to, segment) = (address_v6(about, 24)?.into(), about.get(HEAD_V6..)?);
                let code = Some(inner[1]).filter(|_| kind == UNREACHABLE);
                undelivered((about[6], to), segment, (ICMP6, ECHO_REQUEST), code)?
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Where an answer to the question for addresses says that somebody is.
pub fn told_by(frame: &[u8], who: Ipv4Addr) -> Option<[u8; 6]> {
    const ANSWER: u16 = 2;
    let arp = frame.get(14..).filter(|_| frame[12..14] == ARP)?;
    if short(arp, 6)? != ANSWER || address(arp, 14)? != who {
        return None;
    }
    arp.get(8..14)?.first_chunk::<6>().copied()
}

/// Such an answer, from one to the other.
pub fn answer_of(from: ([u8; 6], Ipv4Addr), to: ([u8; 6], Ipv4Addr)) -> Vec<u8> {
    use smoltcp::wire::*;
    let arp = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(from.0),
        source_protocol_addr: from.1,
        target_hardware_addr: EthernetAddress(to.0),
        target_protocol_addr: to.1,
    };
    let mut bytes = vec![0; 14 + arp.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
    frame.set_dst_addr(EthernetAddress(to.0));
    frame.set_src_addr(EthernetAddress(from.0));
    frame.set_ethertype(EthernetProtocol::Arp);
    arp.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}
