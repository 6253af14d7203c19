//! Streams and datagrams beside a naive model, and what a hostile network server can do.

use super::*;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use netproto::{Command, Event, INCOMING, WINDOW};
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
    let got = inet.receive_error(wants, 4, &mut changes).unwrap();
    assert_eq!((&got.bytes[..], got.full, got.from), (&[1; 4][..], 9, Some(afar())));
    // IPV6_RECVERR, with who has said so.
    assert_eq!(got.control[8..16], [41, 0, 0, 0, 25, 0, 0, 0]);
    assert_eq!(got.control[16..28], [113, 0, 0, 0, 2, 11, 0, 0, 7, 0, 0, 0]);
    assert_eq!(got.control[52..56], [10, 0, 2, 99]);
    assert_eq!(inet.receive_error(wants, 4, &mut changes), Err(Errno::EAGAIN));
    // Who does not read holds a queue of them, and no more; and nothing once it is not wanted any more.
    for _ in 0..5000 {
        said(&mut inet, own, afar(), (3, 1));
    }
    let held = inet.shares.taken();
    assert!((DATAGRAM_BYTES..DATAGRAM_BYTES + 9 + OVERHEAD).contains(&held), "{held}");
    inet.set_options(wants, |options| assert!(options.others.remove(&RECVERR[0]).is_some()))
        .unwrap();
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
            prop_assert!(inet.unread(out).unwrap() <= WINDOW as usize);
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
    inet.happened(Event::Sent { id, bytes: 5 }, &mut changes);
    assert_eq!(send(&mut inet, out, &[1; 30], &mut changes), Ok(5));
    inet.remove(out, &mut changes);
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
fn a_raw_socket_waits_for_the_answers_that_it_asked_for() {
    let mut inet = Inet::default();
    let mut changes = Changes::new();
    let (address, gateway) = ([10, 0, 2, 15], [10, 0, 2, 2]);
    inet.happened(Event::Up { mac: [2; 6], address, prefix: 24, gateway, mtu: 1500 }, &mut changes);
    let raw = inet.make(Family::V4, Kind::Raw, ROOT).unwrap();
    let commands = |inet: &mut Inet| {
        let mut all = Vec::new();
        while let Some(command) = inet.next_command().map(|parts| parts.concat()) {
            all.push(alloc::format!("{:?}", Command::decode(&command).unwrap()));
            inet.command_sent();
        }
        all
    };
    for id in [1, 1, 2] {
        let ask = [8, 0, 0, 0, 0, id, 0, 1];
        inet.send_datagram(raw, 1, (Some(afar()), Sending::default()), ask.to_vec(), &mut changes)
            .unwrap();
    }
    let told = commands(&mut inet);
    let heads: Vec<&str> = told.iter().filter_map(|one| one.split(' ').next()).collect();
    assert_eq!(heads, ["Open", "Datagram", "Datagram", "Shun", "Open", "Datagram"], "{told:?}");
    let (local, remote) = (SocketAddr::from((address, 2)), SocketAddr::from((gateway, 0)));
    let bytes = &[0, 0, 0, 0, 0, 2, 0, 1];
    let protocol = netproto::Protocol::Echo;
    assert!(inet.happened(
        Event::Datagram { protocol, local, remote, hops: 61, class: 0, bytes },
        &mut changes
    ));
    let got = inet.receive_datagram(raw, 100, (false, None), &mut changes).unwrap();
    assert_eq!(
        (got.bytes[0], &got.bytes[12..16], &got.bytes[20..]),
        (0x45, &gateway[..], &bytes[..])
    );
    // Anything but a request goes nowhere else.
    let other = inet.send_datagram(
        raw,
        1,
        (Some(afar()), Sending::default()),
        vec![13, 0, 0, 0, 0, 2, 0, 1],
        &mut changes,
    );
    assert_eq!(other, Err(Errno::EOPNOTSUPP));
    inet.remove(raw, &mut changes);
    assert!(commands(&mut inet)[0].starts_with("Shun") && inet.raws.is_empty());
    assert_eq!(inet.shares.taken(), 0);
}
