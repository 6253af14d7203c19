//! The texts of `/proc/net`: sockets, interfaces, where packets go. Of packets there are no counters: those are told as 0.

use crate::inet::inode;
use crate::otherspaces::FIRST_NETS;
use crate::proctext::Texts;
use crate::sockdiag::{kind_number, local_inode};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use inet::{Family, Inet, Interface, Kind, Row};
use sockets::State;

/// Names of its files.
pub const FILES: [&str; 12] = [
    "dev",
    "if_inet6",
    "raw",
    "raw6",
    "route",
    "sockstat",
    "sockstat6",
    "tcp",
    "tcp6",
    "udp",
    "udp6",
    "unix",
];
/// Flags of a route: it is up; it leads to somebody who knows the way.
const UP: u32 = 1;
const GATEWAY: u32 = 2;
/// Name of the interface to the outside.
const NAME: &str = inet::OUTSIDE;

impl Texts<'_> {
    /// The text of one of them.
    pub fn net_text(&self, name: &str) -> String {
        // Those of who looks.
        let all = self.sockets.at(self.procs.get(self.reader).map_or(0, |own| own.net_place().0));
        match name {
            "dev" => devices(all.interface()),
            "if_inet6" => addresses_v6(all),
            "route" if all.has_ways() => routes(all.interface()),
            "route" => String::new(),
            "tcp" => sockets(all, Kind::Stream, Family::V4),
            "tcp6" => sockets(all, Kind::Stream, Family::V6),
            "udp" => sockets(all, Kind::Datagram, Family::V4),
            "udp6" => sockets(all, Kind::Datagram, Family::V6),
            "raw" => sockets(all, Kind::Raw, Family::V4),
            "raw6" => sockets(all, Kind::Raw, Family::V6),
            "sockstat" => self.counts(all),
            "sockstat6" => counts_v6(all),
            _ => self.local_sockets(),
        }
    }
}

impl Texts<'_> {
    /// How many sockets there are.
    fn counts(&self, all: &Inet) -> String {
        let used = all.len() + self.locals.rows(self.own_net()).count();
        let of = |kind| counted(all, kind, Family::V4);
        let (streams, pages) = all.streams();
        format!(
            "sockets: used {used}\nTCP: inuse {} orphan 0 tw 0 alloc {streams} mem {pages}\nUDP: inuse {} mem 0\n\
             UDPLITE: inuse 0\nRAW: inuse {}\nFRAG: inuse 0 memory 0\n",
            of(Kind::Stream),
            of(Kind::Datagram),
            of(Kind::Raw),
        )
    }

    /// The number of the network name space of who looks.
    fn own_net(&self) -> u64 {
        self.procs.get(self.reader).map_or(FIRST_NETS, |own| own.spaces.net_number())
    }

    /// Local sockets of the name space of who looks.
    fn local_sockets(&self) -> String {
        const ACCEPTS: u32 = 1 << 16;
        const CONNECTED: u32 = 3;
        const ALONE: u32 = 1;
        let mut text = String::from("Num       RefCount Protocol Flags    Type St Inode Path\n");
        for row in self.locals.rows(self.own_net()) {
            let (kind, inode) = (kind_number(row.kind), local_inode(row.number));
            let (flags, state) = match row.state {
                State::Listening => (ACCEPTS, ALONE),
                State::Connected => (0, CONNECTED),
                State::Closed => (0, ALONE),
            };
            let holders = if state == CONNECTED { 3 } else { 2 };
            put!(
                text,
                "{:016x}: {holders:08X} {:08X} {flags:08X} {kind:04X} {state:02X} {inode:5}",
                0,
                0
            );
            if let Some(name) = row.name {
                // That of a file ends with a zero; those of others are told as what can be read.
                let shown = name.text.strip_suffix(&[0]).filter(|_| name.file.is_some());
                let shown = shown.unwrap_or(&name.text).iter();
                let shown: Vec<u8> =
                    shown.map(|&byte| if byte == 0 { b'@' } else { byte }).collect();
                put!(text, " {}", String::from_utf8_lossy(&shown));
            }
            text.push('\n');
        }
        text
    }
}

/// How many of a kind are bound, or connected.
fn counted(all: &Inet, kind: Kind, family: Family) -> usize {
    all.rows().filter(|row| row.kind == kind && row.family == family).count()
}

fn counts_v6(all: &Inet) -> String {
    let of = |kind| counted(all, kind, Family::V6);
    format!(
        "TCP6: inuse {}\nUDP6: inuse {}\nUDPLITE6: inuse 0\nRAW6: inuse {}\nFRAG6: inuse 0 memory 0\n",
        of(Kind::Stream),
        of(Kind::Datagram),
        of(Kind::Raw),
    )
}

/// Addresses of IPv6: number of the interface, bits of the network, scope, flags (lasting), name.
fn addresses_v6(all: &Inet) -> String {
    const ON_THE_WIRE: u32 = 0x20;
    const EVERYWHERE: u32 = 0;
    const HERE: u32 = 0x10;
    let mut text = String::new();
    let mut line = |ip: Ipv6Addr, (index, prefix, scope): (u32, u8, u32), name: &str| {
        put_line!(
            text,
            "{:032x} {index:02x} {prefix:02x} {scope:02x} 80 {name:>8}",
            u128::from(ip)
        );
    };
    all.addresses_inside().for_each(|(ip, prefix)| line(ip, (1, prefix, HERE), "lo"));
    if let Some(interface) = all.interface() {
        for ip in interface.six.addresses() {
            let scope = if ip.is_unicast_link_local() { ON_THE_WIRE } else { EVERYWHERE };
            line(ip, (2, interface.six.prefix, scope), NAME);
        }
    }
    text
}

fn devices(interface: Option<&Interface>) -> String {
    let mut text = String::from(
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n",
    );
    for name in ["lo"].into_iter().chain(interface.map(|_| NAME)) {
        put_line!(
            text,
            "{name:>6}: {0:7} {0:7} {0:4} {0:4} {0:4} {0:5} {0:10} {0:9} {0:8} {0:7} {0:4} {0:4} {0:4} {0:5} {0:7} {0:10}",
            0
        );
    }
    text
}

/// An address as these files have it: its bytes as a number of this machine.
fn word(ip: Ipv4Addr) -> u32 {
    u32::from_ne_bytes(ip.octets())
}

fn routes(interface: Option<&Interface>) -> String {
    let mut text = String::new();
    let mut line = |row: String| put_line!(text, "{row:127}");
    line(
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
            .into(),
    );
    if let Some(&Interface { address, prefix, gateway, .. }) = interface {
        let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0));
        let net = Ipv4Addr::from(u32::from(address) & u32::from(mask));
        let mut route = |to, by, flags, mask| {
            let (to, by, mask) = (word(to), word(by), word(mask));
            line(format!("{NAME}\t{to:08X}\t{by:08X}\t{flags:04X}\t0\t0\t0\t{mask:08X}\t0\t0\t0"));
        };
        let none = Ipv4Addr::UNSPECIFIED;
        if !gateway.is_unspecified() {
            route(none, gateway, UP | GATEWAY, none);
        }
        route(net, none, UP, mask);
    }
    text
}

fn end(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) => format!("{:08X}:{port:04X}", word(ip)),
        IpAddr::V6(ip) => {
            let words = ip.octets();
            let mut text = String::new();
            for four in words.chunks_exact(4).filter_map(|four| four.first_chunk::<4>()) {
                put!(text, "{:08X}", u32::from_ne_bytes(*four));
            }
            put!(text, ":{port:04X}");
            text
        }
    }
}

fn sockets(all: &Inet, kind: Kind, family: Family) -> String {
    let is_stream = kind == Kind::Stream;
    let (local, remote) = match family {
        Family::V4 => ("local_address", "rem_address  "),
        Family::V6 => {
            ("local_address                        ", "remote_address                       ")
        }
    };
    let more = if is_stream { "" } else { " ref pointer drops" };
    let mut text = String::new();
    let head = format!(
        "  sl  {local} {remote} st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode{more}"
    );
    let width = if family == Family::V4 && is_stream { 149 } else { 0 };
    put_line!(text, "{head:width$}");
    let rows = all.rows().filter(|row| row.kind == kind && row.family == family);
    for (index, row) in rows.enumerate() {
        let Row { number, local, remote, state, waiting, sent, uid, .. } = row;
        let (local, remote, inode) = (end(local), end(remote), inode(number));
        let (numbers, last) = match is_stream {
            true => (4, "1 0000000000000000 100 0 0 10 0"),
            false => (5, "2 0000000000000000 0"),
        };
        let row = format!(
            "{index:numbers$}: {local} {remote} {state:02X} {sent:08X}:{waiting:08X} 00:00000000 00000000 {uid:5}        0 {inode} {last}"
        );
        put_line!(text, "{row:width$}");
    }
    text
}
