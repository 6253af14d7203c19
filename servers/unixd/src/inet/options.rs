//! Options of sockets of the internet.

use super::{IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_TCP, IPPROTO_UDP};
use crate::open::Opening;
use crate::wait::{count, done, Call, Tried};
use alloc::vec::Vec;
use inet::{Changes, Family, Inet, Kind, Number, RECVERR, STAMPING};
use unixproto::sockets::*;
use unixproto::{op, Errno};

/// Least that `SO_SNDBUF` and `SO_RCVBUF` tell, and most.
const BUFFER: core::ops::RangeInclusive<u64> = 2304..=425_984;
/// What they tell if nobody has said (Linux: `tcp_wmem`, `tcp_rmem`, `net.core.rmem_default`).
const SEND_STREAM: u32 = 16_384;
const RECEIVE_STREAM: u32 = 131_072;
/// Levels of options as requests name them, and options there.
const IP: u32 = of_level(0, 0) >> 16;
const TCP: u32 = of_level(IPPROTO_TCP, 0) >> 16;
const UDP: u32 = of_level(IPPROTO_UDP, 0) >> 16;
const IPV6: u32 = of_level(41, 0) >> 16;
const NETLINK: u32 = of_level(SOL_NETLINK, 0) >> 16;
const RAW: u32 = of_level(255, 0) >> 16;
const ICMP6: u32 = of_level(IPPROTO_ICMPV6, 0) >> 16;
const PACKET: u32 = of_level(SOL_PACKET, 0) >> 16;
/// Of raw sockets: types that are not heard, at either level; heads that programs make; where checksums are.
const ICMP_FILTER: u32 = 1;
const IP_HDRINCL: u32 = 3;
const IPV6_HDRINCL: u32 = 36;
const IPV6_CHECKSUM: u32 = 7;
/// Of packet sockets.
const PACKET_ADD_MEMBERSHIP: u32 = 1;
const PACKET_DROP_MEMBERSHIP: u32 = 2;
const PACKET_STATISTICS: u32 = 6;
const TCP_NODELAY: u32 = 1;
const TCP_MAXSEG: u32 = 2;
const TCP_INFO: u32 = 11;
const TCP_CONGESTION: u32 = 13;
const IP_TOS: u32 = 1;
const IP_TTL: u32 = 2;
const IP_MTU: u32 = 14;
const IP_MULTICAST_IF: u32 = 32;
const IP_MULTICAST_TTL: u32 = 33;
const IP_MULTICAST_ALL: u32 = 49;
const IPV6_MULTICAST_IF: u32 = 17;
const IPV6_MULTICAST_HOPS: u32 = 18;
const IPV6_MULTICAST_LOOP: u32 = 19;
const IPV6_V6ONLY: u32 = 26;
const IPV6_UNICAST_HOPS: u32 = 16;
const IPV6_TCLASS: u32 = 67;
/// Others of IP, TCP and IPv6 that are kept, and what they are at first: what has an effect (types of service, what is told with datagrams, when signs of
/// life come) has it in the crate `inet`.
const KEPT: &[(u32, u32, u64)] = &[
    (IP, 1, 0),
    (IP, IP_HDRINCL, 0),
    (IP, 6, 0),
    (IP, 7, 0),
    (IP, 8, 0),
    (IP, 10, 1),
    (IP, 11, 0),
    (IP, 12, 0),
    (IP, 13, 0),
    (IP, 15, 0),
    (IP, 20, 0),
    (IP, 24, 0),
    (IP, 33, 1),
    (IP, 34, 1),
    (IP, IP_MULTICAST_ALL, 1),
    (IPV6, IPV6_MULTICAST_IF, 0),
    (IPV6, 29, 1),
    (TCP, 3, 0),
    (TCP, 4, 7200),
    (TCP, 5, 75),
    (TCP, 6, 9),
    (TCP, 7, 6),
    (TCP, 8, 60),
    (TCP, 9, 0),
    (TCP, 10, 65_495),
    (TCP, 12, 1),
    (TCP, 18, 0),
    (TCP, 23, 0),
    (TCP, 30, 0),
    (UDP, 1, 0),
    // Membership of groups, which are told nothing; what comes with messages; strict checks, which are always made.
    (NETLINK, 1, 0),
    (NETLINK, 2, 0),
    (NETLINK, 3, 0),
    (NETLINK, 4, 0),
    (NETLINK, 5, 0),
    (NETLINK, 10, 0),
    (NETLINK, 11, 0),
    (NETLINK, 12, 0),
    (IPV6, 8, 0),
    (IPV6, 18, 1),
    (IPV6, 19, 1),
    (IPV6, 23, 1),
    (IPV6, 25, 0),
    (IPV6, IPV6_HDRINCL, 0),
    (IPV6, 49, 0),
    (IPV6, 51, 0),
    (IPV6, 66, 0),
    (IPV6, 67, 0),
    (IPV6, 70, 0),
];

fn kept(option: u32) -> Option<u64> {
    let (level, name) = (option >> 16, option & 0xffff);
    KEPT.iter().find(|one| (one.0, one.1) == (level, name)).map(|one| one.2)
}

/// Is an option of the sockets' own level kept, without any effect?
fn is_flag(option: u32) -> bool {
    let is_simple = matches!(
        option,
        SO_DEBUG
            | SO_DONTROUTE
            | SO_OOBINLINE
            | SO_NO_CHECK
            | SO_RXQ_OVFL
            | SO_SELECT_ERR_QUEUE
            | SO_ZEROCOPY
            | SO_LOCK_FILTER
    );
    is_simple || TIMES.contains(&option) || is_number(option)
}

/// Is one of those a number, and not just on or off? (The last ones are `SO_MARK` and `SO_BUSY_POLL`.)
fn is_number(option: u32) -> bool {
    matches!(option, SO_PRIORITY | 36 | 46)
}

/// Is an option of another level on or off, and not a number?
fn is_switch(level: u32, name: u32) -> bool {
    match level {
        IP => matches!(name, IP_HDRINCL | 6..=8 | 11..=13 | 15 | 20 | 34),
        IPV6 => matches!(name, 8 | 25 | 29 | IPV6_HDRINCL | 49 | 51 | 66 | 70),
        _ => false,
    }
}

impl Opening<'_> {
    /// `getsockopt`.
    pub fn inet_option(&mut self, op: op::GetSocketOption) -> Tried {
        let (number, _) = self.inet_socket(op.desc)?;
        let all = self.inet(number);
        let (family, kind) = all.kind(number)?;
        let is_error = op.option == SO_ERROR;
        let bytes = match op.option >> 16 {
            0 => own(all, number, op.option)?.to_le_bytes().to_vec(),
            level => of_protocol(all, number, (level, op.option & 0xffff), (family, kind))?,
        };
        self.procs.put(self.caller, &bytes)?;
        if is_error {
            self.inet_told(Changes::from([(number, false)]));
        }
        count(bytes.len())
    }

    /// `setsockopt`.
    pub fn set_inet_option(&mut self, op: op::SetSocketOption) -> Tried {
        let (number, _) = self.inet_socket(op.desc)?;
        let all = self.inet(number);
        let (family, kind) = all.kind(number)?;
        let (level, name, value) = (op.option >> 16, op.option & 0xffff, op.value);
        let is_on = value as u32 != 0;
        // As Linux does, which counts overhead, too.
        let buffer = value.saturating_mul(2).clamp(*BUFFER.start(), *BUFFER.end()) as u32;
        let is_late = level == IPV6 && name == IPV6_V6ONLY && !all.is_unbound(number)?;
        let is_of = has_level(level, (family, kind));
        if !is_of {
            return Err(Errno::ENOPROTOOPT);
        }
        if is_late {
            return Err(Errno::EINVAL);
        }
        if kind == Kind::Stream {
            match (level, name) {
                (IP, IP_MULTICAST_TTL) => return Err(Errno::EINVAL),
                (IPV6, IPV6_MULTICAST_HOPS | IPV6_MULTICAST_IF) => return Err(Errno::ENOPROTOOPT),
                _ => {}
            }
        }
        if matches!((level, name), (IP, IP_HDRINCL) | (IPV6, IPV6_HDRINCL)) && kind != Kind::Raw {
            return Err(Errno::ENOPROTOOPT);
        }
        if matches!((level, name), (IPV6 | RAW, IPV6_CHECKSUM)) {
            if (family, kind) != (Family::V6, Kind::Raw) {
                return Err(Errno::ENOPROTOOPT);
            }
            all.set_sum_place(number, usize::try_from(value as i32).ok())?;
            return done(());
        }
        if op.option == SO_DETACH_FILTER {
            all.set_filter(number, None)?;
            return done(());
        }
        if op.option == SO_LOCK_FILTER && !is_on && all.options(number)?.is_set(SO_LOCK_FILTER) {
            return Err(Errno::EPERM);
        }
        check(op.option, value)?;
        if STAMPING.contains(&op.option) {
            all.set_stamping(number, op.option, value as u32)?;
            return done(());
        }
        if op.option == SO_ZEROCOPY {
            match kind {
                Kind::Stream | Kind::Datagram if value > 1 => return Err(Errno::EINVAL),
                Kind::Stream | Kind::Datagram => {}
                Kind::Echo | Kind::Raw | Kind::Packet | Kind::Route => {
                    return Err(Errno::EOPNOTSUPP)
                }
            }
        }
        let device = value as u32;
        if (level, name) == (IPV6, IPV6_MULTICAST_IF) && device != 0 && !all.has_device(device) {
            return Err(Errno::ENODEV);
        }
        let mut known = Ok(());
        all.set_options(number, |options| match (level, name) {
            (0, SO_SNDBUF | SO_SNDBUFFORCE) => options.send_bytes = buffer,
            (0, SO_RCVBUF | SO_RCVBUFFORCE) => options.receive_bytes = buffer,
            (0, SO_SNDTIMEO) => options.send_ns = value,
            (0, SO_RCVTIMEO) => options.receive_ns = value,
            (0, SO_REUSEADDR) => options.reuse_address = is_on,
            (0, SO_REUSEPORT) => options.reuse_port = is_on,
            (0, SO_KEEPALIVE) => options.keep_alive = is_on,
            (0, SO_BROADCAST) => options.broadcast = is_on,
            (0, SO_LINGER) => options.linger = is_on.then_some((value >> 32) as u32),
            (0, SO_RCVLOWAT) => options.receive_least = (value as u32).clamp(1, i32::MAX as u32),
            (0, option) if is_number(option) => drop(options.others.insert(option, value)),
            (0, option) if is_flag(option) => {
                if TIMES.contains(&option) {
                    options.others.retain(|other, _| !TIMES.contains(other));
                }
                options.others.insert(option, is_on.into());
            }
            (TCP, TCP_NODELAY) => options.no_delay = is_on,
            (TCP, TCP_CONGESTION | TCP_MAXSEG) => {}
            (IPV6, IPV6_V6ONLY) => options.v6_only = is_on,
            (IP, IP_TTL) | (IPV6, IPV6_UNICAST_HOPS) => {
                let ttl = of_level(0, IP_TTL);
                match value as i32 {
                    -1 => drop(options.others.remove(&ttl)),
                    hops => drop(options.others.insert(ttl, hops as u64)),
                }
            }
            (IP, IP_MULTICAST_TTL) | (IPV6, IPV6_MULTICAST_HOPS) => {
                let hops = if value as i32 == -1 { 1 } else { value };
                options.others.insert(op.option, hops);
            }
            (IP, IP_TOS) | (IPV6, IPV6_TCLASS) => {
                // -1 is as before anybody had said.
                let class = if level == IPV6 && value as i32 == -1 { 0 } else { value & 0xff };
                let before = options.others.get(&op.option).copied().unwrap_or(0);
                // What a stream says of congestion is its own affair.
                const CONGESTION: u64 = 3;
                let class = match kind {
                    Kind::Stream => class & !CONGESTION | before & CONGESTION,
                    _ => class,
                };
                options.others.insert(op.option, class);
            }
            _ if is_switch(level, name) => drop(options.others.insert(op.option, is_on.into())),
            _ if kept(op.option).is_some() => drop(options.others.insert(op.option, value)),
            _ => known = Err(Errno::ENOPROTOOPT),
        })?;
        known?;
        let mut changes = Changes::new();
        if RECVERR.contains(&op.option) && !is_on {
            all.forget_errors(number, &mut changes)?;
        }
        self.inet_told(changes);
        done(())
    }
}

impl Opening<'_> {
    /// `setsockopt`, of an option whose value is a structure.
    pub fn set_inet_bytes(&mut self, call: &Call, op: op::SetSocketBytes) -> Tried {
        let (number, _) = self.inet_socket(op.desc)?;
        let bytes = self.procs.a(self.caller, call)?;
        let all = self.inet(number);
        let level = op.option >> 16;
        if !has_level(level, all.kind(number)?) {
            return Err(Errno::ENOPROTOOPT);
        }
        match (level, op.option & 0xffff) {
            (0, SO_ATTACH_FILTER) => all.set_filter(number, Some(&bytes))?,
            (RAW | ICMP6, ICMP_FILTER) => all.block_types(number, &bytes)?,
            (PACKET, PACKET_ADD_MEMBERSHIP) => all.set_membership(number, true, &bytes)?,
            (PACKET, PACKET_DROP_MEMBERSHIP) => all.set_membership(number, false, &bytes)?,
            (IP | IPV6, name) => all.set_group_option(number, (level == IPV6, name), &bytes)?,
            _ => return Err(Errno::ENOPROTOOPT),
        }
        self.inet_told(Changes::new());
        done(())
    }
}

/// Has a socket options of a level?
fn has_level(level: u32, (family, kind): (Family, Kind)) -> bool {
    match level {
        0 => true,
        IP => !matches!(kind, Kind::Route | Kind::Packet),
        PACKET => kind == Kind::Packet,
        ICMP6 => (family, kind) == (Family::V6, Kind::Raw),
        NETLINK => kind == Kind::Route,
        RAW => kind == Kind::Raw,
        IPV6 => family == Family::V6 && !matches!(kind, Kind::Route | Kind::Packet),
        TCP => kind == Kind::Stream,
        UDP => kind == Kind::Datagram,
        _ => false,
    }
}

/// Can an option have a value?
fn check(option: u32, value: u64) -> Result<(), Errno> {
    let value = value as i32;
    let is_right = match (option >> 16, option & 0xffff) {
        (IP, IP_TTL) => value == -1 || (1..=255).contains(&value),
        (IP, IP_MULTICAST_TTL) => (-1..=255).contains(&value),
        (IP, IP_MULTICAST_ALL) | (IPV6, IPV6_MULTICAST_LOOP) => matches!(value, 0 | 1),
        (IPV6, IPV6_UNICAST_HOPS | IPV6_TCLASS | IPV6_MULTICAST_HOPS) => {
            (-1..=255).contains(&value)
        }
        // Seconds before the first sign of life, between two, and how many.
        (TCP, 4 | 5) => (1..=32_767).contains(&value),
        (TCP, 6 | 7) => (1..=127).contains(&value),
        _ => true,
    };
    match is_right {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

/// An option of the sockets' own level.
fn own(all: &mut Inet, number: Number, option: u32) -> Result<u64, Errno> {
    let (family, kind) = all.kind(number)?;
    let is_stream = kind == Kind::Stream;
    let default = |bytes: u32, stream: u32| match bytes {
        0 if is_stream => stream,
        0 => inet::DATAGRAM_BYTES as u32,
        bytes => bytes,
    };
    if option == SO_ERROR {
        return Ok(all.take_error(number)?.map_or(0, |error| error.0.into()));
    }
    let listens = all.listens(number)?;
    let options = all.options(number)?;
    Ok(match option {
        SO_TYPE if is_stream => SOCK_STREAM.into(),
        SO_TYPE if kind == Kind::Raw => SOCK_RAW.into(),
        SO_TYPE if kind == Kind::Packet && !all.is_cooked(number)? => SOCK_RAW.into(),
        SO_TYPE if kind == Kind::Route => options.others.get(&SO_TYPE).copied().unwrap_or(0),
        SO_TYPE => SOCK_DGRAM.into(),
        SO_DOMAIN if kind == Kind::Route => AF_NETLINK.into(),
        SO_DOMAIN if kind == Kind::Packet => AF_PACKET.into(),
        SO_DOMAIN if family == Family::V4 => AF_INET.into(),
        SO_DOMAIN => AF_INET6.into(),
        SO_PROTOCOL => match (kind, family) {
            (Kind::Stream, _) => IPPROTO_TCP.into(),
            (Kind::Datagram, _) => IPPROTO_UDP.into(),
            (Kind::Route, _) => all.language(number)? as u64,
            (Kind::Packet, _) => 0,
            (Kind::Raw, _) => all.raw_protocol(number)?.into(),
            (Kind::Echo, Family::V4) => IPPROTO_ICMP.into(),
            (Kind::Echo, Family::V6) => IPPROTO_ICMPV6.into(),
        },
        SO_ACCEPTCONN => listens.into(),
        SO_SNDBUF => default(options.send_bytes, SEND_STREAM).into(),
        SO_RCVBUF => default(options.receive_bytes, RECEIVE_STREAM).into(),
        SO_SNDTIMEO => options.send_ns,
        SO_RCVTIMEO => options.receive_ns,
        SO_RCVLOWAT => options.receive_least.into(),
        SO_SNDLOWAT => 1,
        SO_REUSEADDR => options.reuse_address.into(),
        SO_REUSEPORT => options.reuse_port.into(),
        SO_KEEPALIVE => options.keep_alive.into(),
        SO_BROADCAST => options.broadcast.into(),
        SO_LINGER => options.linger.map_or(0, |seconds| 1 | u64::from(seconds) << 32),
        option if STAMPING.contains(&option) => options.stamping().into(),
        option if is_flag(option) => options.others.get(&option).copied().unwrap_or(0),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// An option of another level, as bytes.
fn of_protocol(
    all: &mut Inet,
    number: Number,
    (level, name): (u32, u32),
    (family, kind): (Family, Kind),
) -> Result<Vec<u8>, Errno> {
    if !has_level(level, (family, kind)) {
        return Err(Errno::EOPNOTSUPP);
    }
    let option = level << 16 | name;
    match (level, name) {
        (RAW | ICMP6, ICMP_FILTER) => return all.blocked_types(number),
        (PACKET, PACKET_STATISTICS) => {
            let all = all.take_statistics(number)?.map(u32::to_le_bytes);
            return Ok(all.as_flattened().to_vec());
        }
        (PACKET, _) => return Err(Errno::ENOPROTOOPT),
        (IPV6 | RAW, IPV6_CHECKSUM) if (family, kind) == (Family::V6, Kind::Raw) => {
            let at = all.sum_place(number)?.map_or(-1, |at| at as i64);
            return Ok(at.to_le_bytes().to_vec());
        }
        (IP, IP_HDRINCL) | (IPV6, IPV6_HDRINCL) if kind != Kind::Raw => {
            return Err(Errno::ENOPROTOOPT)
        }
        _ => {}
    }
    let options = all.options(number)?;
    let value = match (level, name) {
        (TCP, TCP_INFO) => return all.tcp_info(number),
        (TCP, TCP_CONGESTION) => return Ok(b"cubic\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        (TCP, TCP_NODELAY) => options.no_delay.into(),
        (TCP, TCP_MAXSEG) => inet::SEGMENT_INSIDE.into(),
        (IPV6, IPV6_V6ONLY) => options.v6_only.into(),
        (IP, IP_TTL) | (IPV6, IPV6_UNICAST_HOPS) => {
            options.others.get(&of_level(0, IP_TTL)).copied().unwrap_or(64)
        }
        (IP, IP_MTU) => match all.name(number, true) {
            Ok(peer) if peer.ip().to_canonical().is_loopback() => all.mtu_inside().into(),
            Ok(_) => all.interface().map_or(1500, |interface| interface.mtu.into()),
            Err(error) => return Err(error),
        },
        (IP, IP_MULTICAST_IF) => return Ok(all.multicast_interface(number)?.1.octets().to_vec()),
        (IP, IP_MULTICAST_ALL) if family == Family::V6 => {
            options.others.get(&option).copied().unwrap_or(0)
        }
        _ => {
            let first = kept(option).ok_or(Errno::ENOPROTOOPT)?;
            options.others.get(&option).copied().unwrap_or(first)
        }
    };
    Ok(value.to_le_bytes().to_vec())
}
