//! Addresses that are given for a time, by a server that answers, answers nonsense, or is silent.

use super::{end, home, Side, Told, HOMES, MIB, ROOT};
use crate::lease::News;
use crate::Command;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use fastrand::Rng;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr, IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 99];
const GIVEN: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 7);
const NAMES: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 3);
const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const LEASE_S: u32 = 1000;
const SECOND: i64 = 1_000_000;
const ENETDOWN: u16 = 100;

/// What a server gives.
#[derive(Clone, Copy)]
struct Gift {
    address: Ipv4Addr,
    mask: Ipv4Addr,
    router: Ipv4Addr,
    refuses: bool,
}

const USUAL: Gift =
    Gift { address: GIVEN, mask: Ipv4Addr::new(255, 255, 255, 0), router: SERVER, refuses: false };

/// A frame with a packet of DHCP for the machine.
fn frame(dhcp: &DhcpRepr) -> Vec<u8> {
    let sums = ChecksumCapabilities::default();
    let udp = UdpRepr { src_port: 67, dst_port: 68 };
    let ip = Ipv4Repr {
        src_addr: SERVER,
        dst_addr: Ipv4Addr::BROADCAST,
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + dhcp.buffer_len(),
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(SERVER_MAC),
        dst_addr: EthernetAddress(home(0).mac),
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut bytes = vec![0; 14 + ip.buffer_len() + ip.payload_len];
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[14..]), &sums);
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut bytes[34..]),
        &SERVER.into(),
        &Ipv4Addr::BROADCAST.into(),
        dhcp.buffer_len(),
        |payload| dhcp.emit(&mut DhcpPacket::new_unchecked(payload)).expect("there is room"),
        &sums,
    );
    bytes
}

/// The answer to a frame, if it is a question for an address, and whether that went to the server alone.
fn answer(asked: &[u8], gift: Gift) -> Option<(Vec<u8>, bool)> {
    if asked.get(12..14)? == [8, 6] {
        // Where is the server?
        let mac = home(0).mac;
        let who = (mac, Ipv4Addr::from(*asked.get(28..32)?.first_chunk::<4>()?));
        let wanted = asked.get(38..42)? == SERVER.octets();
        return wanted.then(|| (crate::frame::answer_of((SERVER_MAC, SERVER), who), false));
    }
    let ip = Ipv4Packet::new_checked(asked.get(14..)?).ok()?;
    let udp = UdpPacket::new_checked(ip.payload()).ok()?;
    if (udp.src_port(), udp.dst_port()) != (68, 67) {
        return None;
    }
    let packet = DhcpPacket::new_checked(udp.payload()).ok()?;
    let asked = DhcpRepr::parse(&packet).ok()?;
    let message_type = match asked.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request if gift.refuses => DhcpMessageType::Nak,
        DhcpMessageType::Request => DhcpMessageType::Ack,
        other => panic!("{other:?}"),
    };
    let told = DhcpRepr {
        message_type,
        your_ip: gift.address,
        server_identifier: Some(SERVER),
        router: Some(gift.router),
        subnet_mask: Some(gift.mask),
        dns_servers: Some([NAMES].into_iter().collect()),
        lease_duration: Some(LEASE_S),
        client_ip: NONE,
        server_ip: SERVER,
        relay_agent_ip: NONE,
        broadcast: false,
        requested_ip: None,
        client_identifier: None,
        parameter_request_list: None,
        renew_duration: None,
        rebind_duration: None,
        max_size: None,
        secs: 0,
        ..asked
    };
    Some((frame(&told), ip.dst_addr() == SERVER))
}

/// A machine and a server: `None`: there is none.
struct Asking {
    side: Side,
    gift: Option<Gift>,
    now: i64,
    /// Questions that went to the server alone, and all.
    direct: usize,
    asked: usize,
}

impl Asking {
    fn new(gift: Option<Gift>) -> Asking {
        let mut side = Side::new(0, MIB);
        side.stack.ask(0);
        Asking { side, gift, now: 0, direct: 0, asked: 0 }
    }

    /// Goes on until a time, from one moment at which there is something to do to the next.
    fn until(&mut self, end: i64) {
        while self.now < end {
            let Side { stack, sent, heard } = &mut self.side;
            let due = stack.run(self.now, sent, heard).unwrap_or(end);
            let mut is_answered = false;
            for frame in core::mem::take(&mut sent.frames) {
                if frame[12..14] == [8, 0] {
                    self.asked += 1;
                }
                let answer = self.gift.and_then(|gift| answer(&frame, gift));
                if let Some((answer, is_direct)) = answer {
                    self.direct += usize::from(is_direct);
                    stack.frame(&answer, self.now, sent);
                    is_answered = true;
                }
            }
            self.now = if is_answered { self.now + 100 } else { due.clamp(self.now + 100, end) };
        }
    }

    /// Connects from the address that the machine has had.
    fn connect(&mut self) {
        let (local, remote) = (end(0, 40_000), end(1, 80));
        self.side.command(Command::Connect { id: 1, user: ROOT, local, remote }, self.now);
    }
}

#[test]
fn an_address_is_given_and_renewed_and_its_time_ends() {
    let mut all = Asking::new(Some(USUAL));
    all.connect();
    all.until(SECOND);
    assert_eq!(all.side.heard.news, [News::Given { by: SERVER, names: [NAMES, NONE, NONE] }]);
    assert_eq!(all.side.heard.places, [(GIVEN, 24, SERVER)]);
    assert_eq!(all.side.told(1), [Told::Gone(ENETDOWN)]);
    assert_eq!((all.direct, all.asked), (0, 2));
    // Far beyond the end of the first: it was renewed in time, at half of it, of which nobody has to hear.
    all.until(3500 * SECOND);
    assert_eq!(all.side.heard.news.len(), 1, "{:?}", all.side.heard.news);
    assert!((6..=8).contains(&all.direct), "{} renewals", all.direct);
    // The server is silent from now on.
    all.gift = None;
    all.until(5000 * SECOND);
    assert_eq!(all.side.heard.news[1..], [News::Over]);
    assert_eq!(all.side.heard.places[1..], [(HOMES[0], 24, HOMES[1])]);
    // And there again.
    all.gift = Some(USUAL);
    all.until(5200 * SECOND);
    assert_eq!(all.side.heard.news.len(), 3);
    assert_eq!(all.side.heard.places.last(), Some(&(GIVEN, 24, SERVER)));
}

#[test]
fn where_nobody_answers_the_address_is_as_it_was() {
    let mut all = Asking::new(None);
    all.until(9 * SECOND);
    assert!(all.side.heard.news.is_empty());
    all.until(600 * SECOND);
    assert_eq!(all.side.heard.news, [News::Nobody]);
    assert!(all.side.heard.places.is_empty());
    // Some times at first, then once a minute.
    assert!((12..=16).contains(&all.asked), "asked {} times", all.asked);
    // Somebody comes later.
    all.gift = Some(USUAL);
    all.until(700 * SECOND);
    assert_eq!(all.side.heard.places, [(GIVEN, 24, SERVER)]);
}

#[test]
fn the_same_address_again_ends_no_connection() {
    let same = Gift { address: HOMES[0], router: HOMES[1], ..USUAL };
    let mut all = Asking::new(Some(same));
    all.connect();
    all.until(SECOND);
    assert!(matches!(all.side.heard.news[..], [News::Given { .. }]));
    assert!(all.side.heard.places.is_empty());
    assert_eq!(all.side.told(1), []);
}

#[test]
fn what_cannot_be_an_address_is_none() {
    let gifts = [
        Gift { address: Ipv4Addr::LOCALHOST, ..USUAL },
        Gift { address: NONE, ..USUAL },
        Gift { address: Ipv4Addr::new(224, 0, 0, 1), ..USUAL },
        Gift { address: Ipv4Addr::BROADCAST, ..USUAL },
        Gift { mask: Ipv4Addr::new(255, 0, 255, 0), ..USUAL },
        Gift { mask: NONE, ..USUAL },
        Gift { mask: Ipv4Addr::BROADCAST, ..USUAL },
        Gift { refuses: true, ..USUAL },
    ];
    for gift in gifts {
        let mut all = Asking::new(Some(gift));
        all.until(5 * SECOND);
        assert!(all.side.heard.news.is_empty(), "{:?}", all.side.heard.news);
        assert!(all.side.heard.places.is_empty());
    }
    // A gateway that is not in the network, or is the machine itself.
    for router in [HOMES[1], GIVEN] {
        let mut all = Asking::new(Some(Gift { router, ..USUAL }));
        all.until(SECOND);
        assert_eq!(all.side.heard.places, [(GIVEN, 24, NONE)]);
    }
}

#[test]
fn answers_may_be_anything() {
    let mut rng = Rng::with_seed(12);
    for _ in 0..300 {
        let mut all = Asking::new(None);
        for _ in 0..20 {
            let Side { stack, sent, heard } = &mut all.side;
            stack.run(all.now, sent, heard);
            let gift = Gift { refuses: rng.bool(), ..USUAL };
            let asked = core::mem::take(&mut sent.frames);
            let answers = asked.iter().filter_map(|frame| Some(answer(frame, gift)?.0));
            for mut bytes in answers.filter(|bytes| bytes[12..14] == [8, 0]) {
                for _ in 0..rng.usize(1..6) {
                    let at = rng.usize(42..bytes.len());
                    bytes[at] = rng.u8(..);
                }
                // No sum: it is not looked at.
                bytes[40..42].fill(0);
                stack.frame(&bytes, all.now, sent);
            }
            all.now += 4 * SECOND;
        }
    }
}
