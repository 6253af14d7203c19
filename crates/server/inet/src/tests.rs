//! Streams and datagrams beside a naive model, and what a hostile network server can do.

use super::*;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use netproto::{Command, Event, INCOMING, LAST, WINDOW};
use proptest::prelude::*;
use unixproto::Errno;

const ROOT: u32 = 0;

fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn afar() -> SocketAddr {
    SocketAddr::from(([10, 0, 2, 2], 80))
}

fn listener(inet: &mut Inet, backlog: u32) -> (Number, SocketAddr) {
    let number = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
    inet.bind(number, here(0), true).unwrap();
    inet.listen(number, backlog, &mut Changes::new()).unwrap();
    (number, inet.name(number, false).unwrap())
}

fn send(
    inet: &mut Inet,
    number: Number,
    bytes: &[u8],
    changes: &mut Changes,
) -> Result<usize, Errno> {
    inet.send(number, (bytes.len(), false), |count| bytes[..count].to_vec(), changes)
}

fn receive(
    inet: &mut Inet,
    number: Number,
    (most, looks): (usize, bool),
    changes: &mut Changes,
) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    let put = |before, bytes: &[u8]| {
        assert_eq!(before, all.len());
        all.extend_from_slice(bytes);
    };
    inet.receive(number, most, looks, put, changes)?;
    Ok(all)
}

fn pair(inet: &mut Inet) -> [Number; 2] {
    let mut changes = Changes::new();
    let (door, at) = listener(inet, 1);
    let client = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
    inet.connect(client, Some(at), false, &mut changes).unwrap();
    let server = inet.accept(door, &mut changes).unwrap();
    inet.remove(door, &mut changes);
    [client, server]
}

#[test]
fn what_is_said_outside_is_heard_by_who_sent_it() {
    let (mut inet, mut changes) = (Inet::default(), Changes::new());
    let (address, gateway) = ([10, 0, 2, 15], [10, 0, 2, 2]);
    inet.happened(Event::Up { mac: [2; 6], address, prefix: 24, gateway, mtu: 1500 }, &mut changes);
    let protocol = netproto::Protocol::Udp;
    let by = SocketAddr::from(([10, 0, 2, 99], 0));
    let quiet = inet.make(Family::V4, Kind::Datagram, 1000).unwrap();
    let wants = inet.make(Family::V6, Kind::Datagram, 1000).unwrap();
    inet.set_options(wants, |options| assert!(options.others.insert(RECVERR[0], 1).is_none()))
        .unwrap();
    for number in [quiet, wants] {
        let ask = (Some(afar()), Sending::default());
        inet.send_datagram(number, 1, ask, vec![1; 9], &mut changes).unwrap();
    }
    let port = |inet: &Inet, number| inet.name(number, false).unwrap().port();
    let said = |inet: &mut Inet, port, remote, (kind, code)| {
        let local = SocketAddr::from((address, port));
        let bytes = &[1; 9];
        let (hops, info) = (60, 7);
        let event =
            Event::Undelivered { protocol, local, remote, by, hops, kind, code, info, bytes };
        assert!(inet.happened(event, &mut Changes::new()));
    };
    // Who is connected to nobody hears nothing without having asked for it; nobody has the next port; this machine says so by itself.
    let (own, other) = (port(&inet, wants), port(&inet, quiet));
    said(&mut inet, other, afar(), (3, 3));
    said(&mut inet, 1, afar(), (3, 3));
    said(&mut inet, own, here(80), (3, 3));
    // An answer to an echo request says nothing of a datagram.
    said(&mut inet, own, afar(), (0, 0));
    assert_eq!((inet.take_error(quiet), inet.take_error(wants)), (Ok(None), Ok(None)));
    said(&mut inet, own, afar(), (11, 0));
    assert_eq!(inet.take_error(wants), Ok(Some(Errno::EHOSTUNREACH)));
    let got = inet.receive_error(wants, (4, None), &mut changes).unwrap();
    assert_eq!((&got.bytes[..], got.full, got.from), (&[1; 4][..], 9, Some(afar())));
    // IPV6_RECVERR, with who has said so.
    assert_eq!(got.control[8..16], [41, 0, 0, 0, 25, 0, 0, 0]);
    assert_eq!(got.control[16..28], [113, 0, 0, 0, 2, 11, 0, 0, 7, 0, 0, 0]);
    assert_eq!(got.control[52..56], [10, 0, 2, 99]);
    assert_eq!(inet.receive_error(wants, (4, None), &mut changes), Err(Errno::EAGAIN));
    // Who does not read holds a queue of them, and no more; and nothing once it is not wanted any more.
    for _ in 0..5000 {
        said(&mut inet, own, afar(), (3, 1));
    }
    let held = inet.shares.taken();
    assert!((DATAGRAM_BYTES..DATAGRAM_BYTES + 9 + OVERHEAD).contains(&held), "{held}");
    inet.set_options(wants, |options| assert!(options.others.remove(&RECVERR[0]).is_some()))
        .unwrap();
    inet.forget_errors(wants, &mut changes).unwrap();
    assert_eq!(inet.shares.taken(), 0);
    // Connected, the other one hears it, if it is for good.
    inet.connect(quiet, Some(afar()), false, &mut changes).unwrap();
    let other = port(&inet, quiet);
    said(&mut inet, other, afar(), (3, 1));
    assert_eq!(inet.take_error(quiet), Ok(None));
    said(&mut inet, other, SocketAddr::from(([10, 0, 2, 3], 80)), (3, 3));
    assert_eq!(inet.take_error(quiet), Ok(None));
    said(&mut inet, other, afar(), (3, 3));
    assert_eq!(inet.take_error(quiet), Ok(Some(Errno::ECONNREFUSED)));
    inet.remove(quiet, &mut changes);
    inet.remove(wants, &mut changes);
}

#[test]
fn a_port_is_of_those_who_were_accepted_too() {
    let (mut inet, mut changes) = (Inet::default(), Changes::new());
    let (door, at) = listener(&mut inet, 5);
    let client = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
    inet.connect(client, Some(at), false, &mut changes).unwrap();
    let server = inet.accept(door, &mut changes).unwrap();
    inet.remove(door, &mut changes);
    let other = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
    assert_eq!(inet.bind(other, at, true), Err(Errno::EADDRINUSE));
    // Connected to nobody, it can listen, and is found.
    inet.connect(server, None, false, &mut changes).unwrap();
    inet.bind(server, at, true).unwrap_or(());
    inet.listen(server, 5, &mut changes).unwrap();
    assert_eq!(
        inet.connect(other, Some(inet.name(server, false).unwrap()), false, &mut changes),
        Ok(())
    );
    for number in [client, server, other] {
        inet.remove(number, &mut changes);
    }
    let next = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
    assert_eq!(inet.bind(next, at, true), Ok(()));
}

/// A stream in which each byte may be urgent, beside what Linux's TCP does with its sequence numbers.
#[derive(Default)]
struct Marked {
    bytes: VecDeque<u8>,
    /// How many bytes are before the urgent one, and whether that has been asked for.
    urgent: Option<(usize, bool)>,
}

impl Marked {
    fn send(&mut self, bytes: &[u8], is_urgent: bool) {
        self.bytes.extend(bytes);
        if is_urgent {
            if self.urgent.is_some_and(|(before, _)| before == 0) {
                self.bytes.pop_front();
            }
            self.urgent = Some((self.bytes.len() - 1, false));
        }
    }

    fn receive(&mut self, most: usize, looks: bool) -> Option<Vec<u8>> {
        let (mut rest, mut urgent) = (self.bytes.clone(), self.urgent);
        if urgent.is_some_and(|(before, _)| before == 0) {
            rest.pop_front();
            urgent = None;
        }
        let most = urgent.map_or(most, |(before, _)| most.min(before)).min(rest.len());
        let got: Vec<u8> = rest.drain(..most).collect();
        urgent = urgent.map(|(before, asked)| (before - most, asked));
        if !looks {
            (self.bytes, self.urgent) = (rest, urgent);
        }
        (!got.is_empty()).then_some(got)
    }
}

proptest! {
    #[test]
    fn what_is_urgent_is_out_of_the_stream(
        steps in prop::collection::vec((0usize..4, 1usize..40, any::<bool>()), 1..80),
    ) {
        let (mut inet, mut changes) = (Inet::default(), Changes::new());
        let [from, to] = pair(&mut inet);
        let (mut model, mut next) = (Marked::default(), 0u8);
        for (what, size, flag) in steps {
            if what == 0 {
                let bytes: Vec<u8> = (0..size).map(|n| next.wrapping_add(n as u8)).collect();
                next = next.wrapping_add(size as u8);
                let sent = inet.send(from, (size, flag), |_| bytes.clone(), &mut changes);
                prop_assert_eq!(sent, Ok(size));
                model.send(&bytes, flag);
                prop_assert_eq!(inet.take_urged(), flag.then_some(to));
            } else if what == 1 {
                let expected = match &mut model.urgent {
                    Some((before, asked @ false)) => {
                        *asked = !flag;
                        Ok(model.bytes[*before])
                    }
                    _ => Err(Errno::EINVAL),
                };
                prop_assert_eq!(inet.receive_urgent(to, flag, &mut changes), expected);
            } else {
                let got = receive(&mut inet, to, (size, flag), &mut changes).ok();
                prop_assert_eq!(got, model.receive(size, flag));
            }
            let at = model.urgent.map(|(before, _)| before);
            prop_assert_eq!(inet.is_at_mark(to), Ok(at == Some(0)));
            prop_assert_eq!(inet.unread(to), Ok(at.unwrap_or(model.bytes.len())));
            let is_urgent = model.urgent.is_some_and(|(_, asked)| !asked);
            prop_assert_eq!(inet.ready(to) & unixproto::files::POLLPRI != 0, is_urgent);
            prop_assert_eq!(inet.shares.taken(), model.bytes.len());
        }
        inet.remove(from, &mut changes);
        inet.remove(to, &mut changes);
        prop_assert_eq!(inet.shares.taken(), 0);
    }
}

/// An end of a stream, as little as there is to it.
#[derive(Default)]
struct End {
    queue: VecDeque<u8>,
    is_mute: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize, Vec<u8>),
    Receive(usize, usize, bool),
    Shut(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = 0usize..2;
    let step = prop_oneof![
        4 => (end.clone(), prop::collection::vec(any::<u8>(), 1..3000)).prop_map(|(end, bytes)| Step::Send(end, bytes)),
        4 => (end.clone(), 1usize..4000, any::<bool>()).prop_map(|(end, most, looks)| Step::Receive(end, most, looks)),
        1 => end.prop_map(Step::Shut),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn a_stream_is_two_queues(steps in steps(), capacity in 2304u32..9000) {
        let (mut inet, mut changes) = (Inet::default(), Changes::new());
        let ends = pair(&mut inet);
        for end in ends {
            inet.set_options(end, |options| options.receive_bytes = capacity).unwrap();
        }
        let mut model = [End::default(), End::default()];
        for step in steps {
            match step {
                Step::Send(end, bytes) => {
                    let room = capacity as usize - model[1 - end].queue.len();
                    let sent = send(&mut inet, ends[end], &bytes, &mut changes);
                    let expected = match (model[end].is_mute, room.min(bytes.len())) {
                        (true, _) => Err(Errno::EPIPE),
                        (false, 0) => Err(Errno::EAGAIN),
                        (false, count) => Ok(count),
                    };
                    prop_assert_eq!(sent, expected);
                    if let Ok(count) = sent {
                        model[1 - end].queue.extend(&bytes[..count]);
                    }
                }
                Step::Receive(end, most, looks) => {
                    let received = receive(&mut inet, ends[end], (most, looks), &mut changes);
                    let is_over = model[1 - end].is_mute;
                    let queue = &mut model[end].queue;
                    if queue.is_empty() && !is_over {
                        prop_assert_eq!(received, Err(Errno::EAGAIN));
                        continue;
                    }
                    let count = most.min(queue.len());
                    let bytes: Vec<u8> = queue.iter().take(count).copied().collect();
                    prop_assert_eq!(received.unwrap(), bytes);
                    if !looks {
                        queue.drain(..count);
                    }
                }
                Step::Shut(end) => {
                    let was_over = model.iter().all(|end| end.is_mute);
                    let shut = inet.shut_down(ends[end], (false, true), &mut changes);
                    prop_assert_eq!(shut, if was_over { Err(Errno::ENOTCONN) } else { Ok(()) });
                    model[end].is_mute = true;
                }
            }
            for end in 0..2 {
                prop_assert_eq!(inet.unread(ends[end]).unwrap(), model[end].queue.len());
            }
        }
        ends.iter().for_each(|&end| inet.remove(end, &mut changes));
        prop_assert_eq!(inet.shares.taken(), 0);
        prop_assert_eq!(inet.rows().count(), 0);
    }

    /// Whatever a network server says, what is inside of the machine goes on, and all is free in the end.
    #[test]
    fn a_hostile_server_harms_its_own(events in prop::collection::vec((0u8..8, 0u32..6, 0u32..100_000, any::<bool>()), 0..60)) {
        let (mut inet, mut changes) = (Inet::default(), Changes::new());
        let up = Event::Up { mac: [2; 6], address: [10, 0, 2, 15], prefix: 24, gateway: [10, 0, 2, 2], mtu: 1500 };
        prop_assert!(inet.happened(up, &mut changes));
        let inside = pair(&mut inet);
        let door = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
        inet.listen(door, 4, &mut changes).unwrap();
        let out = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
        prop_assert_eq!(inet.connect(out, Some(afar()), false, &mut changes), Err(Errno::EAGAIN));
        let bytes = vec![7; 100_000];
        let local = SocketAddr::from(([10, 0, 2, 15], inet.name(door, false).unwrap().port()));
        for (kind, id, value, incoming) in events {
            let id = if incoming { id | INCOMING } else { id };
            let event = match kind {
                0 => up,
                1 => Event::Connected { id, room: value },
                2 => Event::Incoming { listener: id & 7, id: id | INCOMING, local, remote: afar(), room: value },
                3 => Event::Data { id, bytes: &bytes[..value as usize] },
                4 => Event::Sent { id, bytes: value },
                5 => Event::Finished { id },
                6 => Event::Gone { id, error: (value % 3 * 104) as u16 },
                _ => Event::Datagram { protocol: netproto::Protocol::Udp, local, remote: afar(), hops: 64, class: 0, bytes: &bytes[..10] },
            };
            inet.happened(event, &mut changes);
            prop_assert!(inet.unread(out).unwrap() <= (WINDOW + LAST) as usize);
        }
        prop_assert_eq!(send(&mut inet, inside[0], b"on", &mut changes), Ok(2));
        prop_assert_eq!(receive(&mut inet, inside[1], (9, false), &mut changes).unwrap(), b"on");
        inet.wire_lost(&mut changes);
        for number in [inside[0], inside[1], door, out] {
            inet.remove(number, &mut changes);
        }
        prop_assert_eq!(inet.shares.taken(), 0);
        prop_assert_eq!(inet.rows().count(), 0);
        prop_assert!(inet.wires.is_empty());
    }
}

#[test]
fn what_is_sent_outside_is_bounded_by_what_was_offered() {
    let (mut inet, mut changes) = (Inet::default(), Changes::new());
    let up = Event::Up {
        mac: [2; 6],
        address: [10, 0, 2, 15],
        prefix: 24,
        gateway: [10, 0, 2, 2],
        mtu: 1500,
    };
    inet.happened(up, &mut changes);
    let out = inet.make(Family::V4, Kind::Stream, ROOT).unwrap();
    assert_eq!(inet.connect(out, Some(afar()), false, &mut changes), Err(Errno::EAGAIN));
    let command = inet.next_command().unwrap().concat();
    let Some(Command::Connect { id, .. }) = Command::decode(&command) else {
        panic!("the server is told");
    };
    inet.happened(Event::Connected { id, room: 10 }, &mut changes);
    assert_eq!(inet.connect(out, Some(afar()), false, &mut changes), Ok(()));
    assert_eq!(send(&mut inet, out, &[1; 30], &mut changes), Ok(10));
    assert_eq!(send(&mut inet, out, &[1; 30], &mut changes), Err(Errno::EAGAIN));
    assert_eq!(inet.unsent(out, false), Ok(10));
    inet.happened(Event::Sent { id, bytes: 5 }, &mut changes);
    assert_eq!(inet.unsent(out, false), Ok(5));
    assert_eq!(send(&mut inet, out, &[1; 30], &mut changes), Ok(5));
    assert_eq!(inet.unsent(out, false), Ok(10));
    // More than there was to acknowledge: it is not believed in anything any more.
    inet.happened(Event::Sent { id, bytes: 11 }, &mut changes);
    assert!(send(&mut inet, out, &[1; 30], &mut changes).is_err());
    assert!(inet.wires.is_empty());
    inet.remove(out, &mut changes);
}

/// What is inside of the machine is with the other end at once; who listens has nothing that could be asked for.
#[test]
fn what_is_sent_inside_is_taken() {
    let (mut inet, mut changes) = (Inet::default(), Changes::new());
    let both = pair(&mut inet);
    send(&mut inet, both[0], b"bytes", &mut changes).unwrap();
    assert_eq!((inet.unsent(both[0], false), inet.unsent(both[0], true)), (Ok(0), Ok(0)));
    let (door, _) = listener(&mut inet, 0);
    assert_eq!(inet.unsent(door, false), Err(Errno::EINVAL));
    let datagrams = inet.make(Family::V4, Kind::Datagram, ROOT).unwrap();
    assert_eq!(inet.unsent(datagrams, false), Ok(0));
    assert_eq!(inet.unsent(datagrams, true), Err(Errno::ENOTTY));
}

#[test]
fn a_full_backlog_lets_in_who_waits() {
    let (mut inet, mut changes) = (Inet::default(), Changes::new());
    let (door, at) = listener(&mut inet, 0);
    let clients = [0; 3].map(|_| inet.make(Family::V4, Kind::Stream, ROOT).unwrap());
    let made = clients.map(|one| inet.connect(one, Some(at), false, &mut changes));
    assert_eq!(made, [Ok(()), Err(Errno::EAGAIN), Err(Errno::EAGAIN)]);
    inet.accept(door, &mut changes).unwrap();
    assert_eq!(inet.connect(clients[1], Some(at), false, &mut changes), Ok(()));
    assert_eq!(inet.connect(clients[2], Some(at), false, &mut changes), Err(Errno::EAGAIN));
    inet.remove(door, &mut changes);
    let refused = inet.connect(clients[2], Some(at), false, &mut changes);
    assert_eq!(refused, Err(Errno::ECONNREFUSED));
}

/// A request of netlink: type, flags, what follows.
fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    bytes.extend([7, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(body);
    bytes
}

/// Messages are whole, and of this socket.
fn check_answers(mut bytes: &[u8], id: u32) -> Result<(), TestCaseError> {
    while !bytes.is_empty() {
        prop_assert!(bytes.len() >= 16);
        let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        let len = word(0) as usize;
        prop_assert!(len >= 16 && len <= bytes.len() && word(12) == id);
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(())
}

proptest! {
    #[test]
    fn requests_of_netlink_may_be_anything(
        kind in prop_oneof![16u16..40, any::<u16>()],
        flags in prop_oneof![Just(1u16), Just(0x301), Just(5), any::<u16>()],
        body in prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..80),
        cut in 0usize..100,
        may_change: bool,
        has_network: bool,
    ) {
        let mut inet = Inet::default();
        let mut changes = Changes::new();
        if has_network {
            let (address, gateway) = ([10, 0, 2, 15], [10, 0, 2, 2]);
            inet.happened(Event::Up { mac: [2; 6], address, prefix: 24, gateway, mtu: 1500 }, &mut changes);
        }
        let number = inet.make(Family::V4, Kind::Route, 1000).unwrap();
        let mut bytes = request(kind, flags, &body);
        bytes.extend(request(18, 0x301, &[0; 16]));
        bytes.truncate(bytes.len().saturating_sub(cut));
        inet.send_route(number, (None, 5, may_change), &bytes, &mut changes).unwrap();
        while let Ok(got) = inet.receive_datagram(number, 1 << 16, (false, None), &mut changes) {
            prop_assert!(got.bytes.len() <= 8192 && got.full == got.bytes.len());
            check_answers(&got.bytes, 5)?;
        }
        inet.remove(number, &mut changes);
        prop_assert_eq!(inet.shares.taken(), 0);
    }
}

#[test]
fn who_does_not_read_answers_holds_a_queue_of_them_and_no_more() {
    let mut inet = Inet::default();
    let mut changes = Changes::new();
    let number = inet.make(Family::V4, Kind::Route, 1000).unwrap();
    let many: Vec<u8> = (0..1500).flat_map(|_| request(18, 0x301, &[0; 16])).collect();
    inet.send_route(number, (None, 5, false), &many, &mut changes).unwrap();
    let held = inet.shares.taken();
    assert!((DATAGRAM_BYTES..DATAGRAM_BYTES + 8192 + OVERHEAD).contains(&held), "{held}");
    let again = inet.send_route(number, (None, 5, false), &many, &mut changes);
    assert_eq!(again, Err(Errno::ENOBUFS));
    // Another one has another number, and the number is free when the socket is gone.
    let other = inet.make(Family::V4, Kind::Route, 1000).unwrap();
    inet.send_route(other, (None, 5, false), &[], &mut changes).unwrap();
    assert_ne!(inet.name(other, false), inet.name(number, false));
    inet.remove(number, &mut changes);
    inet.remove(other, &mut changes);
    assert!(inet.routes.is_empty() && inet.shares.taken() == 0);
}

#[test]
fn a_raw_socket_sends_whole_packets_and_hears_them() {
    let mut inet = Inet::default();
    let mut changes = Changes::new();
    let (address, gateway) = ([10, 0, 2, 15], [10, 0, 2, 2]);
    inet.happened(Event::Up { mac: [2; 6], address, prefix: 24, gateway, mtu: 1500 }, &mut changes);
    let raw = inet.make_raw(Family::V4, 1, ROOT).unwrap();
    let commands = |inet: &mut Inet| {
        let mut all = Vec::new();
        while let Some(command) = inet.next_command().map(|parts| parts.concat()) {
            all.push(alloc::format!("{:?}", Command::decode(&command).unwrap()));
            inet.command_sent();
        }
        all
    };
    // The network server is told to tell of packets, and gets whole ones.
    assert_eq!(commands(&mut inet), ["Watch { frames: false, packets: true }"]);
    let ask = [13, 0, 0, 0, 0, 2, 0, 1];
    inet.send_datagram(raw, 1, (Some(afar()), Sending::default()), ask.to_vec(), &mut changes)
        .unwrap();
    let [head, packet] = inet.next_command().map(|parts| parts.map(<[u8]>::to_vec)).unwrap();
    assert_eq!((head.len(), packet[0], packet[9], &packet[20..]), (1, 0x45, 1, &ask[..]));
    assert_eq!((&packet[12..16], &packet[16..20]), (&address[..], &gateway[..]));
    inet.command_sent();
    // What comes is heard by who wants it: not what is no packet, a part of one, or cut.
    let mut came = packet.clone();
    came[12..16].copy_from_slice(&gateway);
    came[16..20].copy_from_slice(&address);
    for bytes in [&came[..], &came[..27], &came[..19], &[], &[0x45], &[0x60; 39]] {
        assert!(inet.happened(Event::Packet { bytes }, &mut changes));
    }
    came[6] = 0x20;
    assert!(inet.happened(Event::Packet { bytes: &came }, &mut changes));
    let got = inet.receive_datagram(raw, 100, (false, None), &mut changes).unwrap();
    assert_eq!((&got.bytes[12..16], &got.bytes[20..]), (&gateway[..], &ask[..]));
    let more = inet.receive_datagram(raw, 100, (false, None), &mut changes);
    assert_eq!(more, Err(Errno::EAGAIN));
    inet.remove(raw, &mut changes);
    assert_eq!(commands(&mut inet), ["Watch { frames: false, packets: false }"]);
    assert!(inet.raws.is_empty());
    assert_eq!(inet.shares.taken(), 0);
}

/// Whoever watches an interface pays for what it sees, and loses what it does not read; nobody hears of frames that are none.
#[test]
fn who_watches_and_does_not_read_loses() {
    let (mut inet, mut changes) = (with_network(), Changes::new());
    let all = inet.make_packet(false, 3, 1000).unwrap();
    let inside = inet.make_packet(true, 3, 1000).unwrap();
    let mut at = vec![0; 20];
    at[..2].copy_from_slice(&17u16.to_ne_bytes());
    at[4] = 1;
    inet.bind_packet(inside, &at).unwrap();
    let frame = [[1; 12].to_vec(), vec![8, 0], vec![7; 1400]].concat();
    for (lost, bytes) in [(0, &frame[..]), (5, &frame), (0, &frame[..13]), (0, &[])] {
        assert!(inet.happened(Event::Frame { is_sent: false, lost, bytes }, &mut changes));
    }
    assert_eq!(inet.take_statistics(all), Ok([7, 5]));
    assert_eq!(inet.take_statistics(inside), Ok([0, 0]));
    for _ in 0..1000 {
        let event = Event::Frame { is_sent: true, lost: 0, bytes: &frame };
        assert!(inet.happened(event, &mut changes));
    }
    let [seen, lost] = inet.take_statistics(all).unwrap();
    assert!(seen == 1000 && lost > 800 && inet.shares.taken() < DATAGRAM_BYTES + 2000, "{lost}");
    // A filter is charged for, and given back; one that is none changes nothing.
    let code = [[0x06, 0, 0, 0, 20, 0, 0, 0]; 64].concat();
    let before = inet.shares.taken();
    assert_eq!(inet.set_filter(all, None), Err(Errno::ENOENT));
    inet.set_filter(all, Some(&code)).unwrap();
    assert_eq!(inet.shares.taken(), before + 64 * 32);
    for wrong in [&code[..7], &[], &[0xff; 8]] {
        assert_eq!(inet.set_filter(all, Some(wrong)), Err(Errno::EINVAL));
    }
    inet.set_filter(all, Some(&code[..8])).unwrap();
    assert_eq!(inet.shares.taken(), before + 32);
    // Without a reader outside nothing is told any more.
    inet.remove(all, &mut changes);
    let mut last = Vec::new();
    while let Some(command) = inet.next_command() {
        last = command.concat();
        inet.command_sent();
    }
    assert_eq!(Command::decode(&last), Some(Command::Watch { frames: false, packets: false }));
    inet.remove(inside, &mut changes);
    assert_eq!(inet.shares.taken(), 0);
}

const HOME: [u8; 4] = [10, 0, 2, 15];

fn with_network() -> Inet {
    let mut inet = Inet::default();
    let (address, gateway) = (HOME, [10, 0, 2, 2]);
    let up = Event::Up { mac: [2; 6], address, prefix: 24, gateway, mtu: 1500 };
    assert!(inet.happened(up, &mut Changes::new()));
    inet
}

/// What the network server is told of groups: `true`, that they are joined.
fn told_of_groups(inet: &mut Inet) -> Vec<(bool, [u8; 4])> {
    let mut all = Vec::new();
    while let Some(command) = inet.next_command() {
        match Command::decode(&command.concat()) {
            Some(Command::Join { group: IpAddr::V4(group) }) => all.push((true, group.octets())),
            Some(Command::Leave { group: IpAddr::V4(group) }) => all.push((false, group.octets())),
            _ => {}
        }
        inet.command_sent();
    }
    all
}

const ADD: u32 = 35;
const DROP: u32 = 36;
const BLOCK: u32 = 38;
const UNBLOCK: u32 = 37;
const ADD_SENDER: u32 = 39;
const DROP_SENDER: u32 = 40;

fn group(n: u8) -> [u8; 4] {
    [239, 0, 0, n]
}

/// `struct ip_mreqn`, or `struct ip_mreq_source` where there is a sender.
fn mreq(n: u8, device: u8, sender: Option<u8>) -> Vec<u8> {
    let own = if device == 1 { [127, 0, 0, 1] } else { HOME };
    let last = sender.map_or([device, 0, 0, 0], |sender| [10, 0, 2, sender]);
    [group(n), own, last].concat()
}

#[derive(Default, Clone)]
struct Mode {
    only: bool,
    senders: Option<Vec<u8>>,
}

proptest! {
    /// Who is in which group, over which interface and from whom, beside a map that knows only that: which sockets get what comes, what the network
    /// server is told, and that a user is charged for nothing when all have gone.
    #[test]
    fn groups_are_a_map(steps in prop::collection::vec((0usize..9, 0usize..4, 0u8..3, 1u8..3, 20u8..23), 1..120)) {
        let mut inet = with_network();
        let mut changes = Changes::new();
        let make = |inet: &mut Inet, which: usize| {
            let number = inet.make(Family::V4, Kind::Datagram, 1000 + which as u32 % 2).unwrap();
            inet.set_options(number, |options| {
                options.reuse_address = true;
                if which != 0 {
                    options.others.insert(unixproto::sockets::of_level(0, 49), 0);
                }
            }).unwrap();
            inet.bind(number, SocketAddr::from(([0, 0, 0, 0], 5000)), false).unwrap();
            number
        };
        let mut sockets: Vec<Number> = (0..4).map(|which| make(&mut inet, which)).collect();
        let mut model: Vec<alloc::collections::BTreeMap<(u8, u8), Mode>> = vec![Default::default(); 4];
        let mut told = alloc::collections::BTreeSet::new();
        told_of_groups(&mut inet);
        for (what, which, n, device, sender) in steps {
            let (number, place) = (sockets[which], (n, device));
            let is = model[which].get_mut(&place);
            match what {
                0 | 1 => {
                    let name = if what == 0 { ADD } else { DROP };
                    let expected = match (what, is.is_some()) {
                        (0, true) => Err(Errno::EADDRINUSE),
                        (1, false) => Err(Errno::EADDRNOTAVAIL),
                        _ => Ok(()),
                    };
                    prop_assert_eq!(inet.set_group_option(number, (false, name), &mreq(n, device, None)), expected);
                    match what {
                        0 => drop(model[which].entry(place).or_default()),
                        _ => drop(model[which].remove(&place)),
                    }
                }
                2..=5 => {
                    let (name, adds, only) = [(BLOCK, true, false), (UNBLOCK, false, false), (ADD_SENDER, true, true), (DROP_SENDER, false, true)][what - 2];
                    let mut mode = match is {
                        Some(mode) => Some(mode.clone()),
                        None if adds && only => Some(Mode { only, senders: None }),
                        None => None,
                    };
                    let expected = match &mut mode {
                        None => Err(Errno::EINVAL),
                        Some(mode) if mode.only != only && mode.senders.is_some() => Err(Errno::EINVAL),
                        Some(mode) => {
                            mode.only = only;
                            let all = mode.senders.clone().unwrap_or_default();
                            if all.contains(&sender) == adds {
                                Err(Errno::EADDRNOTAVAIL)
                            } else {
                                let rest: Vec<u8> = all.into_iter().filter(|one| *one != sender).collect();
                                mode.senders = Some(if adds { [rest, vec![sender]].concat() } else { rest });
                                Ok(())
                            }
                        }
                    };
                    prop_assert_eq!(inet.set_group_option(number, (false, name), &mreq(n, device, Some(sender))), expected);
                    // Whoever has had the last one forgotten has left.
                    let has_left = |mode: &Mode| mode.only && mode.senders.as_ref().is_some_and(Vec::is_empty);
                    match mode.filter(|mode| !has_left(mode)) {
                        Some(mode) => drop(model[which].insert(place, mode)),
                        None => drop(model[which].remove(&place)),
                    }
                }
                6 => {
                    inet.remove(number, &mut changes);
                    model[which].clear();
                    sockets[which] = make(&mut inet, which);
                }
                7 => {
                    // Another network server: it is told all.
                    inet.wire_lost(&mut changes);
                    let up = Event::Up { mac: [2; 6], address: HOME, prefix: 24, gateway: [10, 0, 2, 2], mtu: 1500 };
                    prop_assert!(inet.happened(up, &mut changes));
                    told.clear();
                }
                _ => {
                    let (local, remote) = (SocketAddr::from((group(n), 5000)), SocketAddr::from(([10, 0, 2, sender], 9)));
                    let protocol = netproto::Protocol::Udp;
                    let came = Event::Datagram { protocol, local, remote, hops: 1, class: 0, bytes: b"x" };
                    prop_assert!(inet.happened(came, &mut changes));
                    let admits = |mode: &Mode| mode.senders.as_ref().is_some_and(|all| all.contains(&sender)) == mode.only;
                    let comes = model.iter().any(|of| of.get(&(n, 2)).is_some_and(admits));
                    for (which, &number) in sockets.iter().enumerate() {
                        let hears = comes && model[which].get(&(n, 2)).map_or(which == 0, admits);
                        let got = inet.receive_datagram(number, 9, (false, None), &mut changes);
                        prop_assert_eq!(got.is_ok(), hears, "socket {} of group {}", which, n);
                    }
                }
            }
            for (joined, group) in told_of_groups(&mut inet) {
                let is_new = if joined { told.insert(group) } else { told.remove(&group) };
                prop_assert!(is_new);
            }
            let expected: alloc::collections::BTreeSet<[u8; 4]> =
                model.iter().flat_map(|of| of.keys()).filter(|(_, device)| *device == 2).map(|(n, _)| group(*n)).collect();
            prop_assert_eq!(&told, &expected);
        }
        sockets.into_iter().for_each(|number| inet.remove(number, &mut changes));
        prop_assert!(inet.members.is_empty());
        prop_assert_eq!((inet.shares.taken(), inet.away.taken()), (0, 0));
    }

    #[test]
    fn options_of_groups_may_be_anything(
        is_v6: bool,
        name in prop_oneof![20u32..22, 30u32..50],
        bytes in prop::collection::vec(prop_oneof![0u8..3, Just(224u8), any::<u8>()], 0..300),
    ) {
        let mut inet = with_network();
        let number = inet.make(if is_v6 { Family::V6 } else { Family::V4 }, Kind::Datagram, 1000).unwrap();
        // An error, or not: both may be.
        let _ = inet.set_group_option(number, (is_v6, name), &bytes);
        inet.remove(number, &mut Changes::new());
        prop_assert_eq!((inet.shares.taken(), inet.away.taken(), inet.members.len()), (0, 0, 0));
    }
}

#[test]
fn a_user_with_all_groups_leaves_some_for_others() {
    let mut inet = with_network();
    let mut changes = Changes::new();
    let mut join_all = |inet: &mut Inet, uid: u32| {
        let mut count = 0;
        for n in 0..=u8::MAX {
            let number = inet.make(Family::V4, Kind::Datagram, uid).unwrap();
            match inet.set_group_option(number, (false, ADD), &mreq(n, 2, None)) {
                Ok(()) => count += 1,
                Err(error) => {
                    assert_eq!(error, Errno::ENOBUFS);
                    inet.remove(number, &mut changes);
                }
            }
        }
        count
    };
    let most = netproto::GROUPS;
    assert_eq!(join_all(&mut inet, 1000), most / 2);
    assert_eq!(join_all(&mut inet, 1001), most / 2 - most / 8);
    assert_eq!(join_all(&mut inet, ROOT), most / 8);
}

/// Flags of `SO_TIMESTAMPING`.
const TX_ALL: u32 = 1 << 1 | 1 << 8 | 1 << 9;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TSONLY: u32 = 1 << 11;

/// The next entry of the error queue of a socket of IPv4: who says so, and two words; and whether there is a time.
fn entry(inet: &mut Inet, number: Number) -> Option<(u8, u32, u32, bool)> {
    let got = inet.receive_error(number, (100_000, None), &mut Changes::new()).ok()?;
    // `struct sock_extended_err` is in the last one of the control messages, before an address.
    let said = &got.control[got.control.len() - 32..];
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| said[at + n]));
    Some((said[4], word(8), word(12), got.control.len() > 48))
}

fn stamping(inet: &mut Inet, number: Number, flags: u32) {
    inet.set_stamping(number, unixproto::sockets::SO_TIMESTAMPING, flags).unwrap();
}

#[test]
fn acknowledgements_are_told_of_as_they_come() {
    let mut changes = Changes::new();
    let mut inet = with_network();
    inet.set_time(5_000_000_000);
    let out = inet.make(Family::V4, Kind::Stream, 1000).unwrap();
    assert_eq!(inet.set_stamping(out, 37, OPT_ID), Err(Errno::EINVAL));
    assert_eq!(inet.connect(out, Some(afar()), false, &mut changes), Err(Errno::EAGAIN));
    let id = loop {
        let command = inet.next_command().unwrap().concat();
        inet.command_sent();
        if let Some(Command::Connect { id, .. }) = Command::decode(&command) {
            break id;
        }
    };
    inet.happened(Event::Connected { id, room: 10_000 }, &mut changes);
    // What is on its way counts, unless bytes are to be counted from the next one on.
    assert_eq!(send(&mut inet, out, &[1; 7], &mut changes), Ok(7));
    stamping(&mut inet, out, TX_ALL | SOFTWARE | OPT_ID | TSONLY);
    let telling = inet.telling(out, false, None).unwrap();
    let mut call = |inet: &mut Inet, bytes: &[u8]| {
        assert_eq!(send(inet, out, bytes, &mut changes), Ok(bytes.len()));
        inet.call_over(out, telling, &mut changes);
    };
    call(&mut inet, &[1; 3]);
    call(&mut inet, &[1; 5]);
    let sent = [(1, 9), (0, 9), (1, 14), (0, 14)].map(|(stage, key)| Some((4, stage, key, true)));
    assert_eq!([0; 4].map(|_| entry(&mut inet, out)), sent);
    let acknowledge = |inet: &mut Inet, bytes| {
        assert!(inet.happened(Event::Sent { id, bytes }, &mut Changes::new()));
        entry(inet, out).map(|(_, stage, key, _)| (stage, key))
    };
    assert_eq!(acknowledge(&mut inet, 9), None);
    assert_eq!(acknowledge(&mut inet, 2), Some((2, 9)));
    assert_eq!(acknowledge(&mut inet, 4), Some((2, 14)));
    // Of very many ends some are told of, and the last one is.
    for _ in 0..1000 {
        call(&mut inet, &[1; 2]);
    }
    while entry(&mut inet, out).is_some() {}
    let first = acknowledge(&mut inet, 2000);
    assert_eq!(first, Some((2, 16)));
    let mut last = first;
    while let Some((_, stage, key, _)) = entry(&mut inet, out) {
        last = Some((stage, key));
    }
    assert_eq!(last, Some((2, 2014)));
    inet.remove(out, &mut changes);
    assert_eq!(inet.shares.taken(), 0);
}

#[test]
fn an_error_queue_that_nobody_reads_is_bounded() {
    let (mut inet, mut changes) = (Inet::default(), Changes::new());
    let mut all = Vec::new();
    let mut refused = 0;
    for _ in 0..300 {
        let number = inet.make(Family::V4, Kind::Datagram, 1000).unwrap();
        inet.bind(number, here(0), false).unwrap();
        let to = inet.name(number, false).unwrap();
        inet.set_options(number, |options| {
            options.others.insert(unixproto::sockets::SO_ZEROCOPY, 1);
        })
        .unwrap();
        stamping(&mut inet, number, TX_ALL | SOFTWARE);
        let sending = Sending { is_zerocopy: true, ..Sending::default() };
        for size in [60_000, 60_000, 60_000, 1, 1, 1] {
            let way = (Some(to), sending);
            let sent = inet.send_datagram(number, 1, way, vec![1; size], &mut changes);
            refused += u32::from(sent == Err(Errno::ENOBUFS));
        }
        all.push(number);
    }
    assert!(refused > 0);
    // A user has half of it at most, but for one entry of each socket, about calls, that was promised when there was room.
    assert!((30 << 20..(32 << 20) + 300 * OVERHEAD).contains(&inet.shares.taken()));
    // Frames are told as far as there is room, and can be longer than what was sent alone.
    let got = inet.receive_error(all[0], (50, Some(7)), &mut changes).unwrap();
    assert_eq!((got.bytes.len(), got.full), (50, 14 + 20 + 8 + 60_000));
    assert_eq!(inet.receive_rest(all[0], 7, 100_000).unwrap().bytes.len(), got.full - 50);
    for number in all {
        inet.remove(number, &mut changes);
    }
    assert_eq!(inet.shares.taken(), 0);
}

proptest! {
    /// Calls are told of each once, in their order, whatever comes between them; errors go when they are not wanted any more, and nothing else does.
    #[test]
    fn calls_are_told_of_once(steps in prop::collection::vec(0u8..8, 1..300), begin: u32) {
        let (mut inet, mut changes) = (Inet::default(), Changes::new());
        let number = inet.make(Family::V4, Kind::Datagram, 1000).unwrap();
        inet.bind(number, here(0), false).unwrap();
        let own = inet.name(number, false).unwrap();
        inet.set_options(number, |options| {
            options.others.insert(unixproto::sockets::SO_ZEROCOPY, 1);
            options.others.insert(RECVERR[0], 1);
        }).unwrap();
        inet.get_mut(number).unwrap().next_call = begin;
        let (mut next, mut expected) = (begin, begin);
        let mut check = |inet: &mut Inet, told: Option<(u8, u32, u32, bool)>| {
            if let Some((5, first, last, _)) = told {
                prop_assert_eq!(first, expected);
                expected = last.wrapping_add(1);
            }
            let is_icmp = inet.get(number).unwrap().errors.front().is_some_and(|one| one.error().is_some());
            if told.is_some_and(|told| told.0 == 2) && !is_icmp {
                prop_assert_eq!(inet.get(number).unwrap().error, None);
            }
            Ok(())
        };
        for step in steps {
            // Nobody has that port.
            let to = if step == 2 { here(1) } else { own };
            let sending = Sending { is_zerocopy: step < 4, ..Sending::default() };
            match step {
                0..=4 => {
                    inet.get_mut(number).unwrap().error = None;
                    let sent = inet.send_datagram(number, 1, (Some(to), sending), vec![1; 9], &mut changes);
                    next = next.wrapping_add(u32::from(step < 4 && sent == Ok(9)));
                    if step == 3 {
                        prop_assert_eq!(inet.send_part(number, (1, true), &[1]).map_err(|error| error == Errno::ENOBUFS), Ok(1));
                        let way = (Some(to), Sending::default());
                        prop_assert_eq!(inet.send_datagram(number, 1, way, vec![1], &mut changes), Ok(1));
                        next = next.wrapping_add(1);
                    }
                }
                5 => stamping(&mut inet, number, TX_ALL | TSONLY),
                6 => inet.forget_errors(number, &mut changes).unwrap(),
                _ => {
                    let told = entry(&mut inet, number);
                    check(&mut inet, told)?;
                }
            }
        }
        while let Some(told) = entry(&mut inet, number) {
            check(&mut inet, Some(told))?;
        }
        prop_assert_eq!(expected, next);
        inet.remove(number, &mut changes);
        prop_assert_eq!(inet.shares.taken(), 0);
    }
}

const NETWORK_V6: [u8; 16] = [0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15];
const ON_WIRE: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15];
const ROUTER: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// With a place in a network of IPv6 what goes there has its address; without one there is no way; and what others say of it changes nothing of this machine's own.
#[test]
fn ways_of_ipv6_are_those_that_were_told() {
    let (mut inet, mut changes) = (with_network(), Changes::new());
    let afar = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 80));
    let near = SocketAddr::from(([0xfec0, 0, 0, 0, 0, 0, 0, 2], 53));
    let udp = inet.make(Family::V6, Kind::Datagram, 1000).unwrap();
    let send = |inet: &mut Inet, to: SocketAddr| {
        let all = (Some(to), Sending::default());
        inet.send_datagram(udp, 1, all, vec![1; 9], &mut Changes::new())
    };
    assert_eq!(send(&mut inet, near), Err(Errno::ENETUNREACH));
    let up = |address, gateway| Event::Up6 { link: ON_WIRE, address, prefix: 64, gateway };
    // A network without a router: who is in it is reached.
    assert!(inet.happened(up(NETWORK_V6, [0; 16]), &mut changes));
    assert_eq!(send(&mut inet, near), Ok(9));
    assert_eq!(send(&mut inet, afar), Err(Errno::ENETUNREACH));
    assert!(inet.happened(up(NETWORK_V6, ROUTER), &mut changes));
    assert_eq!(send(&mut inet, afar), Ok(9));
    let own = SocketAddr::from((NETWORK_V6, 0));
    let mut sent = Vec::new();
    while let Some(command) = inet.next_command().map(|parts| parts.concat()) {
        if let Some(Command::Datagram { local, remote, .. }) = Command::decode(&command) {
            sent.push((local.ip(), remote));
        }
        inet.command_sent();
    }
    assert_eq!(sent, [(own.ip(), near), (own.ip(), afar)]);
    // What comes is heard; from this machine's own addresses nobody speaks outside.
    let port = inet.name(udp, false).unwrap().port();
    let local = SocketAddr::from((NETWORK_V6, port));
    let (protocol, bytes) = (netproto::Protocol::Udp, b"x");
    for (remote, is_heard) in [(near, true), (SocketAddr::from((ON_WIRE, 5)), false)] {
        let event = Event::Datagram { protocol, local, remote, hops: 1, class: 0, bytes };
        assert!(inet.happened(event, &mut changes));
        let got = inet.receive_datagram(udp, 9, (false, None), &mut changes);
        assert_eq!(got.map(|got| got.from).ok().flatten(), is_heard.then_some(remote));
    }
    // Bound to it; not to that of another one.
    let tcp = inet.make(Family::V6, Kind::Stream, 1000).unwrap();
    assert_eq!(inet.bind(tcp, near, true), Err(Errno::EADDRNOTAVAIL));
    inet.bind(tcp, SocketAddr::from((NETWORK_V6, 8080)), true).unwrap();
    inet.listen(tcp, 1, &mut changes).unwrap();
    let told = inet
        .next_command()
        .and_then(|parts| Some(format!("{:?}", Command::decode(&parts.concat())?)));
    assert!(told.is_some_and(|told| told.starts_with("Listen")));
    // It is over.
    assert!(inet.happened(up([0; 16], [0; 16]), &mut changes));
    assert_eq!(send(&mut inet, near), Err(Errno::ENETUNREACH));
    // Of no network at all that cannot be said.
    inet.wire_lost(&mut changes);
    assert!(!inet.happened(up(NETWORK_V6, ROUTER), &mut changes));
}

/// A request of netlink, with attributes, and its answers.
fn netlink(
    inet: &mut Inet,
    (kind, flags): (u16, u16),
    body: &[u8],
    may_change: bool,
) -> Vec<Vec<u8>> {
    let number = inet.make(Family::V4, Kind::Route, 0).unwrap();
    let bytes = request(kind, flags, body);
    let mut changes = Changes::new();
    inet.send_route(number, (None, 7, may_change), &bytes, &mut changes).unwrap();
    let mut all = Vec::new();
    while let Ok(got) = inet.receive_datagram(number, 65536, (false, None), &mut changes) {
        all.push(got.bytes);
    }
    inet.remove(number, &mut changes);
    all
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn sizes_of_packets_inside_are_set_by_administrators() {
    const NEW_LINK: u16 = 16;
    const MTU: u16 = 4;
    const ADDRESS: u16 = 1;
    let mut inet = with_network();
    let set = |inet: &mut Inet, index: u32, flags: [u32; 2], attributes: &[u8], may: bool| {
        let words = [0, index, flags[0], flags[1]].map(u32::to_ne_bytes);
        let body = [words.as_flattened(), attributes].concat();
        let answers = netlink(inet, (NEW_LINK, 5), &body, may);
        i32::from_ne_bytes(*answers[0][16..].first_chunk().unwrap())
    };
    let mtu = |mtu: u32| attribute(MTU, &mtu.to_ne_bytes());
    assert_eq!(set(&mut inet, 1, [0; 2], &mtu(1500), true), 0);
    assert_eq!(inet.mtu_inside(), 1500);
    // EPERM, ENODEV, EINVAL, EOPNOTSUPP: that of the wire, flags, another attribute; half a number is none.
    for (index, flags, attributes, may, error) in [
        (1, [0; 2], mtu(1501), false, 1),
        (9, [0; 2], mtu(1501), true, 19),
        (0, [0; 2], mtu(1501), true, 22),
        (1, [0; 2], mtu(67), true, 22),
        (1, [0; 2], mtu(65_537), true, 22),
        (2, [0; 2], mtu(1400), true, 95),
        (1, [0x100, 0x100], mtu(1501), true, 95),
        (1, [0; 2], [attribute(ADDRESS, &[1; 6]), mtu(1501)].concat(), true, 95),
        (1, [0; 2], attribute(MTU, &[1, 2]), true, 95),
    ] {
        assert_eq!(set(&mut inet, index, flags, &attributes, may), -error);
        assert_eq!(inet.mtu_inside(), 1500);
    }
    // Up it is.
    assert_eq!(set(&mut inet, 1, [1, 1], &[], true), 0);
    assert_eq!(set(&mut inet, 2, [1, 1], &mtu(1500), true), 0);
}

#[test]
fn ways_of_both_versions_are_told() {
    const GET_ROUTE: u16 = 26;
    const OIF: u16 = 4;
    const DST: u16 = 1;
    let mut inet = with_network();
    let v6 = |last: u8| [0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let link = [&[0xfe, 0x80][..], &[0; 13], &[9]].concat();
    let up = Event::Up6 {
        link: *link.first_chunk().unwrap(),
        address: v6(5),
        prefix: 64,
        gateway: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
    };
    assert!(inet.happened(up, &mut Changes::new()));
    let mut to = |family: u8, ip: &[u8]| {
        let body = [&[family, ip.len() as u8 * 8][..], &[0; 10], &attribute(DST, ip)].concat();
        let answers = netlink(&mut inet, (GET_ROUTE, 1), &body, false);
        let (head, mut rest) = answers[0].split_at(28);
        let (mut device, mut kinds) = (None, Vec::new());
        while let Some((len, more)) = rest.split_first_chunk::<2>() {
            let len = usize::from(u16::from_ne_bytes(*len));
            if more[..2] == OIF.to_ne_bytes() {
                device = Some(more[2]);
            }
            kinds.push(more[0]);
            rest = &rest[len.next_multiple_of(4)..];
        }
        // In the order of Linux, by a gateway (5) or not.
        let order: &[u8] = match family {
            2 => &[15, 1, 4, 7, 5, 25, 12],
            _ => &[15, 1, 2, 7, 6, 5, 4, 12, 20],
        };
        let expected = order.iter().filter(|kind| **kind != 5 || kinds.contains(&5));
        assert!(kinds.iter().eq(expected), "{kinds:?}");
        // Table, kind.
        (head[20], head[23], device)
    };
    let (main, local, unicast, own) = (254, 255, 1, 2);
    let inside = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(to(10, &inside), (local, own, Some(1)));
    assert_eq!(to(10, &v6(5)), (local, own, Some(2)));
    assert_eq!(to(10, &v6(6)), (main, unicast, Some(2)));
    assert_eq!(to(10, &[0x20; 16]), (main, unicast, Some(2)));
    assert_eq!(to(2, &[10, 0, 2, 15]), (main, own, Some(2)));
    assert_eq!(to(2, &[8, 8, 8, 8]), (main, unicast, Some(2)));
}

#[test]
fn name_spaces_have_all_of_their_own_but_accounts() {
    const USER: u32 = 7;
    let mut first = Inet::default();
    let mut other = first.beside(NUMBERS);
    let (mut changes, at) = (Changes::new(), here(80));
    let (own, _) = listener(&mut first, 4);
    let number = other.make(Family::V4, Kind::Stream, USER).unwrap();
    assert!(number >= NUMBERS && own < NUMBERS);
    // A number of one is none of the other's.
    assert_eq!(first.kind(number), Err(Errno::EBADF));
    assert_eq!(other.kind(own), Err(Errno::EBADF));
    // Nothing leads anywhere before `lo` is up, and then there is nobody.
    let connected = other.connect(number, Some(at), false, &mut changes);
    assert_eq!(connected, Err(Errno::ENETUNREACH));
    other.inside.set_up(true);
    let connected = other.connect(number, Some(at), false, &mut changes);
    assert_eq!(connected, Err(Errno::ECONNREFUSED));
    assert!(changes.iter().all(|(number, _)| *number >= NUMBERS));
    // What a user has in one, and cannot have in another one.
    let mut count = 1;
    while other.make(Family::V4, Kind::Datagram, USER).is_ok() {
        count += 1;
    }
    assert!(count < NUMBERS);
    assert_eq!(first.make(Family::V4, Kind::Datagram, USER), Err(Errno::ENFILE));
    assert_eq!(first.beside(2 * NUMBERS).make(Family::V4, Kind::Raw, USER), Err(Errno::ENFILE));
    assert!(!other.is_empty());
    for number in NUMBERS..NUMBERS + count {
        other.remove(number, &mut changes);
    }
    assert!(other.is_empty() && first.make(Family::V4, Kind::Datagram, USER).is_ok());
}
