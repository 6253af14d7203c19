//! Any frames and commands, in any order, to a stack of the network server: what it must not do is to fail, to hold more memory than it may, or to say or
//! send what cannot be. `libFuzzer` chooses the bytes, and keeps those that lead where nothing has led before.
//!
//! Frames that are only noise go nowhere: so they may be made right (whose they are, lengths, checksums), and may answer the last segment that the stack has sent.

#![no_main]

extern crate alloc;

#[path = "../../src/tests/sent.rs"]
mod sent;

use libfuzzer_sys::fuzz_target;
use netproto::{Command, Event, Protocol, LAST, PIECE, WINDOW};
use netstack::{complete, Events, Home, Stack, Sum, Unsummed, Wire, FRAME};
use sent::Sent;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Bytes of buffers, of which a few connections take all.
const MOST: usize = 256 * 1024;
/// Frames that are kept of those that were sent.
const KEPT: usize = 64;
const HEAD: usize = 14;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const PART: u8 = 44;
/// On the wire; the own one as the card has it (EUI-64).
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

/// What is left of the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }
    fn bytes(&mut self, most: usize) -> Option<&'a [u8]> {
        let len = usize::from(self.short()?) % (most + 1);
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Some(bytes)
    }
}

/// Connections that there are, and what each may send and was sent.
#[derive(Default)]
struct Heard {
    room: BTreeMap<u32, u32>,
    unread: BTreeMap<u32, u32>,
    is_full: bool,
    is_idle: bool,
}

impl Events for Heard {
    fn tell_spare(&mut self, event: &Event) -> bool {
        self.tell(event)
    }

    fn tell(&mut self, event: &Event) -> bool {
        if self.is_full {
            return false;
        }
        let bytes = event.encode();
        assert_eq!(Event::decode(&bytes).as_ref(), Some(event));
        match *event {
            Event::Connected { id, room } | Event::Incoming { id, room, .. } => {
                assert!(self.room.insert(id, room).is_none_or(|before| before == 0), "twice");
                self.unread.insert(id, 0);
            }
            Event::Data { id, bytes } => {
                let unread = self.unread.get_mut(&id).expect("bytes are of a connection");
                *unread += bytes.len() as u32;
                assert!(*unread <= WINDOW + LAST, "more than was asked for");
            }
            Event::Sent { id, bytes } => *self.room.get_mut(&id).expect("it has sent") += bytes,
            Event::Gone { id, .. } => {
                self.room.remove(&id);
                self.unread.remove(&id);
            }
            Event::Idle => self.is_idle = true,
            _ => {}
        }
        true
    }
}

fn sum(parts: &[&[u8]]) -> u16 {
    let mut all = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            all += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while all >> 16 != 0 {
        all = (all & 0xffff) + (all >> 16);
    }
    !(all as u16)
}

/// Writes what a frame needs to be looked at: whose it is, the length of its packet, and checksums.
fn mend(frame: &mut [u8]) {
    if frame.len() < HEAD + 20 {
        return;
    }
    frame[..6].copy_from_slice(&MAC);
    let (head, packet) = frame.split_at_mut(HEAD);
    if head[12..14] == [0x86, 0xdd] {
        return mend_v6(packet);
    }
    if head[12..14] != [8, 0] {
        return;
    }
    let words = usize::from(packet[0] & 0xf).clamp(5, packet.len() / 4) as u8;
    packet[0] = 0x40 | words;
    let (len, words) = (packet.len() as u16, usize::from(words) * 4);
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    if packet[16] & 0xf0 != 0xe0 {
        packet[16..20].copy_from_slice(&OWN.octets());
    }
    packet[10..12].fill(0);
    let check = sum(&[&packet[..words]]);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    let protocol = packet[9];
    let (ip, inner) = packet.split_at_mut(words);
    let at = match protocol {
        ICMP => 2,
        UDP => 6,
        TCP => 16,
        _ => return,
    };
    if inner.len() < at + 2 {
        return;
    }
    if protocol == UDP {
        let len = inner.len() as u16;
        inner[4..6].copy_from_slice(&len.to_be_bytes());
    }
    inner[at..at + 2].fill(0);
    let pseudo = [&ip[12..20], &[0, protocol], &(inner.len() as u16).to_be_bytes()].concat();
    let check = if protocol == ICMP { sum(&[inner]) } else { sum(&[&pseudo, inner]) };
    inner[at..at + 2].copy_from_slice(&check.to_be_bytes());
}

/// The same of a packet of IPv6: to the address on the wire, or to that of a network, or to all.
fn mend_v6(packet: &mut [u8]) {
    if packet.len() < 40 {
        return;
    }
    packet[0] = 0x60 | packet[0] & 0xf;
    let len = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    // As the card has them (EUI-64).
    const CARD: [u8; 8] = [0, 0, 0, 0xff, 0xfe, 0, 0, 1];
    match packet[24] % 4 {
        _ if packet[24..40] == OWN_V6.octets() => {}
        0 => packet[24..40].copy_from_slice(&[&[0xfe, 0x80, 0, 0, 0, 0, 0, 0][..], &CARD].concat()),
        1 => packet[24..40].copy_from_slice(&[&[0xfe, 0xc0, 0, 0, 0, 0, 0, 0][..], &CARD].concat()),
        2 => packet[24..40].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        _ => {}
    }
    if packet[8] & 1 == 0 {
        packet[8..24].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    }
    // What is said of neighbours comes from near.
    let protocol = packet[6];
    let (ip, inner) = packet.split_at_mut(40);
    let at = match protocol {
        58 if inner.len() >= 4 => 2,
        UDP if inner.len() >= 8 => 6,
        TCP if inner.len() >= 20 => 16,
        _ => return,
    };
    if protocol == 58 && (133..=137).contains(&inner[0]) {
        ip[7] = 255;
    }
    if protocol == UDP {
        inner[4..6].copy_from_slice(&len.to_be_bytes());
    }
    inner[at..at + 2].fill(0);
    let tail = [0, 0, (len >> 8) as u8, len as u8, 0, 0, 0, protocol];
    let check = sum(&[&ip[8..40], &tail, inner]);
    inner[at..at + 2].copy_from_slice(&check.to_be_bytes());
}

/// A segment with these flags, numbers that are a little off, bytes, and so many numbers of blocks that have arrived (from the last segment's on) as options.
struct Answer<'a> {
    flags: u8,
    off: i8,
    acknowledged: i16,
    blocks: Vec<i16>,
    bytes: &'a [u8],
}

/// The segment with which a peer answers the last one that was sent.
fn answer(
    last: &[u8],
    Answer { flags, off, acknowledged, blocks, bytes }: &Answer,
) -> Option<Vec<u8>> {
    let packet = last.get(HEAD + 20..).map(|_| &last[HEAD..])?;
    let (protocol, tcp, back) = match packet[0] >> 4 {
        4 => {
            let head = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, TCP, 0, 0];
            let back = [&[8, 0], &head[..], &packet[16..20], &packet[12..16]].concat();
            (packet[9], packet.get(usize::from(packet[0] & 0xf) * 4..)?, back)
        }
        _ => {
            let (head, to) = ([0x60, 0, 0, 0, 0, 0, TCP, 64], packet.get(24..40)?);
            let back = [&[0x86, 0xdd], &head[..], to, &packet[8..24]].concat();
            (packet[6], packet.get(40..)?, back)
        }
    };
    if protocol != TCP {
        return None;
    }
    let word = |at: usize| Some(u32::from_be_bytes(*tcp.get(at..)?.first_chunk()?));
    let (seq, ack) = (word(4)?, word(8)?);
    let (data, was) = (usize::from(tcp.get(12)? >> 4) * 4, tcp.get(13)?);
    let len = tcp.len().saturating_sub(data) as u32 + u32::from(was & 3 != 0);
    let own_seq = ack.wrapping_add(*off as u32);
    let own_ack = seq.wrapping_add(len).wrapping_add(*acknowledged as u32);
    let mut options = Vec::new();
    if !blocks.is_empty() {
        options.extend_from_slice(&[1, 1, 5, 2 + 4 * blocks.len() as u8]);
        let number = |&from: &i16| seq.wrapping_add(from as u32).to_be_bytes();
        options.extend(blocks.iter().flat_map(number));
    }
    let words = 5 + options.len() as u8 / 4;
    let mut frame = [&MAC[..], &PEER_MAC, &back].concat();
    frame.extend_from_slice(&[tcp[2], tcp[3], tcp[0], tcp[1]]);
    frame.extend_from_slice(&own_seq.to_be_bytes());
    frame.extend_from_slice(&own_ack.to_be_bytes());
    frame.extend_from_slice(&[words << 4, *flags, 0x40, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(&options);
    frame.extend_from_slice(bytes);
    mend(&mut frame);
    Some(frame)
}

/// A frame with the answer to the question where the gateway is.
fn found() -> Vec<u8> {
    let head = [&MAC[..], &PEER_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &PEER_MAC].concat();
    [&head[..], &PEER.octets(), &MAC, &OWN.octets()].concat()
}

/// The same of IPv6 and the peer.
fn found_v6() -> Vec<u8> {
    let head = [0x60, 0, 0, 0, 0, 32, ICMP6, 255];
    let (from, to) = (PEER_V6.octets(), OWN_V6.octets());
    let said = [136, 0, 0, 0, 0x60, 0, 0, 0];
    let parts = [&MAC[..], &PEER_MAC, &[0x86, 0xdd], &head, &from, &to, &said, &from, &[2, 1]];
    let mut frame = [&parts.concat()[..], &PEER_MAC].concat();
    mend(&mut frame);
    frame
}

struct World {
    stack: Stack,
    sent: Sent,
    heard: Heard,
    now: i64,
    next: u32,
}

impl World {
    /// Over a device that sums, or one that does not.
    fn new(sums: bool) -> World {
        let home = Home { mac: MAC, address: OWN, prefix: 24, gateway: PEER, mtu: 1500 };
        let mut sent = Sent { sums, ..Sent::default() };
        let mut stack = Stack::new(home, 7, MOST, 0, &mut sent);
        stack.frame(&found(), 0, &mut sent);
        stack.frame(&found_v6(), 0, &mut sent);
        World { stack, sent, heard: Heard::default(), now: 0, next: 1 }
    }

    fn command(&mut self, command: Command) {
        let bytes = command.encode();
        assert_eq!(Command::decode(&bytes), Some(command));
        self.stack.command(command, self.now).expect("unixd keeps to the rules here");
    }

    fn frame(&mut self, frame: &[u8]) {
        self.stack.frame(frame, self.now, &mut self.sent);
    }

    fn answer(&mut self, how: &Answer) -> Option<()> {
        let last = self.sent.frames.iter().rev().find_map(|last| answer(last, how));
        self.frame(&last?);
        Some(())
    }

    fn run(&mut self) {
        self.stack.run(self.now, &mut self.sent, &mut self.heard);
        self.stack.resume();
        let older = self.sent.frames.len().saturating_sub(KEPT);
        self.sent.frames.drain(..older);
        assert!(self.stack.used() <= MOST, "buffers have more than they may");
    }

    /// One of the connections.
    fn pick(&self, which: u8) -> Option<u32> {
        let count = self.heard.room.len().max(1);
        self.heard.room.keys().nth(usize::from(which) % count).copied()
    }

    fn step(&mut self, input: &mut Input) -> Option<()> {
        let (own, peer) =
            (|port| SocketAddr::from((OWN, port)), |port| SocketAddr::from((PEER, port)));
        match input.byte()? % 21 {
            0 => self.frame(input.bytes(FRAME)?),
            1 | 2 => {
                let version = if input.byte()? & 1 == 0 { [8, 0] } else { [0x86, 0xdd] };
                let mut frame = [&MAC[..], &PEER_MAC, &version].concat();
                frame.extend_from_slice(input.bytes(FRAME - HEAD)?);
                mend(&mut frame);
                self.frame(&frame);
            }
            3 | 4 => {
                let (flags, off) = (input.byte()?, input.byte()? as i8);
                let bytes = input.bytes(1400)?;
                self.answer(&Answer { flags, off, acknowledged: 0, blocks: Vec::new(), bytes })?;
            }
            // It says what has arrived, or come twice.
            18 => {
                let acknowledged = input.short()? as i16;
                let count = 2 * usize::from(input.byte()? % 4);
                let blocks: Option<Vec<i16>> =
                    (0..count).map(|_| Some(input.short()? as i16)).collect();
                const ACK: u8 = 16;
                self.answer(&Answer {
                    flags: ACK,
                    off: 0,
                    acknowledged,
                    blocks: blocks?,
                    bytes: &[],
                })?;
            }
            // A device says of a sum what it likes.
            19 => {
                let sum = match input.byte()? & 1 {
                    0 => Sum::Right,
                    _ => Sum::Missing(Unsummed { from: input.short()?, at: input.short()? }),
                };
                let mut frame = [&MAC[..], &PEER_MAC].concat();
                frame.extend_from_slice(input.bytes(FRAME - 12)?);
                self.stack.summed_frame(&frame, sum, self.now, &mut self.sent);
            }
            // Somebody wants a connection.
            5 => {
                let port = input.byte()?;
                let mut frame = [&MAC[..], &PEER_MAC, &[8, 0]].concat();
                frame.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, TCP, 0, 0]);
                frame.extend_from_slice(&PEER.octets());
                frame.extend_from_slice(&OWN.octets());
                frame.extend_from_slice(&[9, port, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0]);
                frame.extend_from_slice(&[0x50, 2, 0x40, 0, 0, 0, 0, 0]);
                mend(&mut frame);
                self.frame(&frame);
            }
            6 => self.command(Command::Listen {
                id: 1 << 20,
                user: 0,
                local: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 80)),
                backlog: 4,
                v6_only: false,
            }),
            7 => self.command(Command::Deafen { id: 1 << 20 }),
            8 => {
                let id = self.next;
                self.next += 1;
                let (port, to) = (0x8000 + id as u16, input.short()?);
                let (local, remote) = match id % 3 {
                    0 => (SocketAddr::from((OWN_V6, port)), SocketAddr::from((PEER_V6, to))),
                    _ => (own(port), peer(to)),
                };
                self.command(Command::Connect { id, user: id % 3, local, remote });
            }
            9 => {
                let id = self.pick(input.byte()?)?;
                let bytes = input.bytes(PIECE)?;
                let room = self.heard.room.get_mut(&id)?;
                let bytes = &bytes[..bytes.len().min(*room as usize)];
                *room -= bytes.len() as u32;
                self.command(Command::Send { id, bytes });
            }
            10 => {
                let id = self.pick(input.byte()?)?;
                let bytes = std::mem::take(self.heard.unread.get_mut(&id)?);
                self.command(Command::Read { id, bytes });
            }
            11 => {
                let (id, how) = (self.pick(input.byte()?)?, input.byte()?);
                match how % 4 {
                    0 => self.command(Command::Shut { id }),
                    1 => {
                        let (no_delay, alive_s) = (how & 4 != 0, (how >> 3).into());
                        self.command(Command::Tune {
                            id,
                            no_delay,
                            alive_s,
                            hops: how,
                            class: how,
                        });
                    }
                    // Nobody wants to hear of it any more.
                    _ => {
                        self.heard.room.remove(&id);
                        self.heard.unread.remove(&id);
                        self.command(if how % 4 == 2 {
                            Command::Close { id }
                        } else {
                            Command::Abort { id }
                        });
                    }
                }
            }
            12 => {
                let (which, port) = (input.byte()?, input.short()?);
                let protocol = if which & 1 == 0 { Protocol::Udp } else { Protocol::Echo };
                self.command(match which & 2 {
                    0 => Command::Open { protocol, port },
                    _ => Command::Shun { protocol, port },
                });
            }
            13 => {
                let (which, port, hops) = (input.byte()?, input.short()?, input.byte()?);
                let protocol = if which & 1 == 0 { Protocol::Udp } else { Protocol::Echo };
                let (local, remote) = match which & 2 {
                    0 => (own(port), peer(53)),
                    _ => (SocketAddr::from((OWN_V6, port)), SocketAddr::from((PEER_V6, 53))),
                };
                let bytes = input.bytes(4000)?;
                self.command(Command::Datagram {
                    protocol,
                    local,
                    remote,
                    hops,
                    class: which,
                    bytes,
                });
            }
            14 => {
                let which = input.byte()?;
                let group = match which & 2 {
                    0 => Ipv4Addr::new(224, 0, 1, which >> 2).into(),
                    _ => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, (which >> 2).into()).into(),
                };
                self.command(match which & 1 {
                    0 => Command::Join { group },
                    _ => Command::Leave { group },
                });
            }
            15 => {
                let which = input.byte()?;
                match which % 3 {
                    0 => self.command(Command::Watch {
                        frames: which & 4 != 0,
                        packets: which & 8 != 0,
                    }),
                    1 => self.command(Command::Frame { bytes: input.bytes(2000)? }),
                    _ => self.command(Command::Packet { bytes: input.bytes(4000)? }),
                }
            }
            16 => {
                let which = input.byte()?;
                self.sent.is_full = which & 1 != 0;
                self.heard.is_full = which & 2 != 0;
                if which & 4 != 0 {
                    self.stack.ask(self.now);
                }
            }
            // A part of a packet of IPv6, for the address on the wire.
            17 => {
                let (at, ident, which) = (input.short()?, input.byte()?, input.byte()?);
                let mut frame = [&MAC[..], &PEER_MAC, &[0x86, 0xdd], &[0; 40]].concat();
                (frame[HEAD + 6], frame[HEAD + 7]) = (PART, 64);
                let protocol = [UDP, ICMP6, TCP, PART][usize::from(which % 4)];
                frame.extend_from_slice(&[protocol, 0, (at >> 8) as u8, at as u8, 0, 0, 0, ident]);
                frame.extend_from_slice(input.bytes(1400)?);
                mend(&mut frame);
                self.frame(&frame);
            }
            _ => {
                self.now += i64::from(input.short()?) * 1000;
                self.sent.frames.clear();
            }
        }
        Some(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut world = World::new(input.byte().is_some_and(|how| how & 1 != 0));
    while world.step(&mut input).is_some() || !input.0.is_empty() {
        world.run();
    }
    // All memory comes back.
    (world.sent.is_full, world.heard.is_full) = (false, false);
    world.command(Command::Deafen { id: 1 << 20 });
    world.command(Command::Finish);
    for _ in 0..400 {
        // Some are told of only now.
        while let Some((id, _)) = world.heard.room.pop_first() {
            world.heard.unread.remove(&id);
            world.command(Command::Abort { id });
        }
        world.run();
        world.now += 1_000_000;
        if world.heard.is_idle {
            break;
        }
    }
    assert!(world.heard.is_idle, "it does not come to an end");
    assert_eq!(world.stack.used(), 0, "memory is left");
});
