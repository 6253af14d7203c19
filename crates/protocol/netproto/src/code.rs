//! Messages as bytes: a number of the kind, the fields in order, and bytes last.

use crate::{Command, Event, Protocol, LONGEST};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Takes a message apart.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }
    fn short(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }
    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
    fn ip(&mut self) -> Option<IpAddr> {
        match self.byte()? {
            4 => Some(self.take::<4>()?.into()),
            6 => Some(self.take::<16>()?.into()),
            _ => None,
        }
    }
    fn address(&mut self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.ip()?, self.short()?))
    }
    fn protocol(&mut self) -> Option<Protocol> {
        match self.byte()? {
            0 => Some(Protocol::Udp),
            1 => Some(Protocol::Echo),
            _ => None,
        }
    }
    fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
    /// Nothing is left.
    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Puts one together.
struct Bytes(Vec<u8>);

impl Bytes {
    fn new(kind: u8) -> Bytes {
        Bytes(Vec::from([kind]))
    }
    fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }
    fn all(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
    fn short(self, value: u16) -> Self {
        self.all(&value.to_le_bytes())
    }
    fn word(self, value: u32) -> Self {
        self.all(&value.to_le_bytes())
    }
    fn ip(self, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => self.byte(4).all(&ip.octets()),
            IpAddr::V6(ip) => self.byte(6).all(&ip.octets()),
        }
    }
    fn address(self, address: SocketAddr) -> Self {
        self.ip(address.ip()).short(address.port())
    }
    fn protocol(self, protocol: Protocol) -> Self {
        self.byte(match protocol {
            Protocol::Udp => 0,
            Protocol::Echo => 1,
        })
    }
}

impl<'a> Command<'a> {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let kind = Bytes::new;
        let bytes = match *self {
            Command::Connect { id, user, local, remote } => {
                kind(0).word(id).word(user).address(local).address(remote)
            }
            Command::Listen { id, user, local, backlog, v6_only } => {
                let head = kind(1).word(id).word(user).address(local);
                head.word(backlog).byte(v6_only.into())
            }
            Command::Deafen { id } => kind(2).word(id),
            Command::Send { id, bytes } => kind(3).word(id).all(bytes),
            Command::Read { id, bytes } => kind(4).word(id).word(bytes),
            Command::Shut { id } => kind(5).word(id),
            Command::Close { id } => kind(6).word(id),
            Command::Abort { id } => kind(7).word(id),
            Command::Tune { id, no_delay, alive_s, hops, class } => {
                kind(8).word(id).byte(no_delay.into()).word(alive_s).byte(hops).byte(class)
            }
            Command::Open { protocol, port } => kind(9).protocol(protocol).short(port),
            Command::Shun { protocol, port } => kind(10).protocol(protocol).short(port),
            Command::Datagram { protocol, local, remote, hops, class, bytes } => {
                let head = kind(11).protocol(protocol).address(local).address(remote);
                head.byte(hops).byte(class).all(bytes)
            }
            Command::Finish => kind(12),
            Command::Join { group } => kind(13).ip(group),
            Command::Leave { group } => kind(14).ip(group),
            Command::Watch { frames, packets } => kind(15).byte(frames.into()).byte(packets.into()),
            Command::Frame { bytes } => kind(16).all(bytes),
            Command::Packet { bytes } => kind(17).all(bytes),
        };
        bytes.0
    }

    /// From bytes. `None`: that is no command.
    pub fn decode(bytes: &'a [u8]) -> Option<Command<'a>> {
        if bytes.len() > LONGEST {
            return None;
        }
        let mut from = Fields(bytes);
        let command = match from.byte()? {
            0 => Command::Connect {
                id: from.word()?,
                user: from.word()?,
                local: from.address()?,
                remote: from.address()?,
            },
            1 => Command::Listen {
                id: from.word()?,
                user: from.word()?,
                local: from.address()?,
                backlog: from.word()?,
                v6_only: from.byte()? != 0,
            },
            2 => Command::Deafen { id: from.word()? },
            3 => Command::Send { id: from.word()?, bytes: from.rest() },
            4 => Command::Read { id: from.word()?, bytes: from.word()? },
            5 => Command::Shut { id: from.word()? },
            6 => Command::Close { id: from.word()? },
            7 => Command::Abort { id: from.word()? },
            8 => Command::Tune {
                id: from.word()?,
                no_delay: from.byte()? != 0,
                alive_s: from.word()?,
                hops: from.byte()?,
                class: from.byte()?,
            },
            9 => Command::Open { protocol: from.protocol()?, port: from.short()? },
            10 => Command::Shun { protocol: from.protocol()?, port: from.short()? },
            11 => Command::Datagram {
                protocol: from.protocol()?,
                local: from.address()?,
                remote: from.address()?,
                hops: from.byte()?,
                class: from.byte()?,
                bytes: from.rest(),
            },
            12 => Command::Finish,
            13 => Command::Join { group: from.ip()? },
            14 => Command::Leave { group: from.ip()? },
            15 => Command::Watch { frames: from.byte()? != 0, packets: from.byte()? != 0 },
            16 => Command::Frame { bytes: from.rest() },
            17 => Command::Packet { bytes: from.rest() },
            _ => return None,
        };
        from.end(command)
    }
}

impl<'a> Event<'a> {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let kind = Bytes::new;
        let bytes = match *self {
            Event::Up { mac, address, prefix, gateway, mtu } => {
                kind(0).all(&mac).all(&address).byte(prefix).all(&gateway).short(mtu)
            }
            Event::Connected { id, room } => kind(1).word(id).word(room),
            Event::Incoming { listener, id, local, remote, room } => {
                kind(2).word(listener).word(id).address(local).address(remote).word(room)
            }
            Event::Data { id, bytes } => kind(3).word(id).all(bytes),
            Event::Sent { id, bytes } => kind(4).word(id).word(bytes),
            Event::Finished { id } => kind(5).word(id),
            Event::Gone { id, error } => kind(6).word(id).short(error),
            Event::Datagram { protocol, local, remote, hops, class, bytes } => {
                let head = kind(7).protocol(protocol).address(local).address(remote);
                head.byte(hops).byte(class).all(bytes)
            }
            Event::Idle => kind(8),
            Event::Undelivered {
                protocol,
                local,
                remote,
                by,
                hops,
                kind: of,
                code,
                info,
                bytes,
            } => {
                let head = kind(9).protocol(protocol).address(local).address(remote).address(by);
                head.byte(hops).byte(of).byte(code).word(info).all(bytes)
            }
            Event::Given { by, names } => kind(10).all(&by).all(names.as_flattened()),
            Event::NotGiven { is_over } => kind(11).byte(is_over.into()),
            Event::Frame { is_sent, lost, bytes } => {
                kind(12).byte(is_sent.into()).word(lost).all(bytes)
            }
            Event::Packet { bytes } => kind(13).all(bytes),
            Event::Stack { unused } => kind(15).word(unused),
            Event::Up6 { link, address, prefix, gateway } => {
                kind(14).all(&link).all(&address).byte(prefix).all(&gateway)
            }
        };
        bytes.0
    }

    /// As bytes, in two parts: the second is what it brings, which is not copied.
    pub fn parts(&self) -> (Vec<u8>, &'a [u8]) {
        match *self {
            Event::Data { id, bytes } => (Event::Data { id, bytes: &[] }.encode(), bytes),
            Event::Datagram { protocol, local, remote, hops, class, bytes } => {
                let head = Event::Datagram { protocol, local, remote, hops, class, bytes: &[] };
                (head.encode(), bytes)
            }
            Event::Frame { is_sent, lost, bytes } => {
                (Event::Frame { is_sent, lost, bytes: &[] }.encode(), bytes)
            }
            Event::Packet { bytes } => (Event::Packet { bytes: &[] }.encode(), bytes),
            _ => (self.encode(), &[]),
        }
    }

    /// From bytes. `None`: that is no event.
    pub fn decode(bytes: &'a [u8]) -> Option<Event<'a>> {
        if bytes.len() > LONGEST {
            return None;
        }
        let mut from = Fields(bytes);
        let event = match from.byte()? {
            0 => Event::Up {
                mac: from.take()?,
                address: from.take()?,
                prefix: from.byte()?,
                gateway: from.take()?,
                mtu: from.short()?,
            },
            1 => Event::Connected { id: from.word()?, room: from.word()? },
            2 => Event::Incoming {
                listener: from.word()?,
                id: from.word()?,
                local: from.address()?,
                remote: from.address()?,
                room: from.word()?,
            },
            3 => Event::Data { id: from.word()?, bytes: from.rest() },
            4 => Event::Sent { id: from.word()?, bytes: from.word()? },
            5 => Event::Finished { id: from.word()? },
            6 => Event::Gone { id: from.word()?, error: from.short()? },
            7 => Event::Datagram {
                protocol: from.protocol()?,
                local: from.address()?,
                remote: from.address()?,
                hops: from.byte()?,
                class: from.byte()?,
                bytes: from.rest(),
            },
            8 => Event::Idle,
            9 => Event::Undelivered {
                protocol: from.protocol()?,
                local: from.address()?,
                remote: from.address()?,
                by: from.address()?,
                hops: from.byte()?,
                kind: from.byte()?,
                code: from.byte()?,
                info: from.word()?,
                bytes: from.rest(),
            },
            10 => {
                Event::Given { by: from.take()?, names: [from.take()?, from.take()?, from.take()?] }
            }
            11 => Event::NotGiven { is_over: from.byte()? != 0 },
            12 => {
                Event::Frame { is_sent: from.byte()? != 0, lost: from.word()?, bytes: from.rest() }
            }
            13 => Event::Packet { bytes: from.rest() },
            14 => Event::Up6 {
                link: from.take()?,
                address: from.take()?,
                prefix: from.byte()?,
                gateway: from.take()?,
            },
            15 => Event::Stack { unused: from.word()? },
            _ => return None,
        };
        from.end(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_may_be_anything_is_what_it_says(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(command) = Command::decode(&bytes) {
                let again = command.encode();
                prop_assert_eq!(Command::decode(&again), Some(command));
            }
            if let Some(event) = Event::decode(&bytes) {
                let again = event.encode();
                prop_assert_eq!(Event::decode(&again), Some(event));
            }
        }
    }
}
