//! When something was sent, or came (`SO_TIMESTAMPING`). When it was sent is told by the error queue, for each stage of its way that is asked
//! for. All times are of software, by the clock on the wall.
//!
//! What came has its time whether anybody asks for it or not: to read the clock costs less than to find out. Inside of the machine what is sent passes
//! all stages at once, and a stream has no segments there, so that its entries never have bytes of a packet, as if `OPT_TSONLY` were on.

use crate::control::Passage;
use crate::errors::Entry;
use crate::options::{Options, STAMPING};
use crate::packet::kind_of;
use crate::raw::{packet_of, udp_of, ICMP, ICMP6, UDP};
use crate::socket::{Changes, Inet, Kind, Number, State};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use unixproto::Errno;

/// Flags of `SO_TIMESTAMPING` (`linux/net_tstamp.h`).
pub(crate) const TX_HARDWARE: u32 = 1;
pub(crate) const TX_SOFTWARE: u32 = 1 << 1;
pub(crate) const SOFTWARE: u32 = 1 << 4;
const RAW_HARDWARE: u32 = 1 << 6;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
pub(crate) const OPT_CMSG: u32 = 1 << 10;
const OPT_TSONLY: u32 = 1 << 11;
const OPT_STATS: u32 = 1 << 12;
const BIND_PHC: u32 = 1 << 15;
const OPT_ID_TCP: u32 = 1 << 16;
const ALL: u32 = (1 << 17) - 1;
/// Those that one call can ask for.
pub(crate) const TX_RECORD: u32 = TX_HARDWARE | TX_SOFTWARE | TX_SCHED | TX_ACK;
/// Those of them that are about datagrams, which nobody acknowledges.
const TX_DATAGRAM: u32 = TX_RECORD & !TX_ACK;

/// Ends of calls whose acknowledgement is waited for. Where there are more of them on their way, the last ones are one, as the calls of one
/// segment are.
const WAITING_MOST: usize = 64;

/// How far something that is sent has come (`SCM_TSTAMP_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Stage {
    /// A device has it.
    Sent = 0,
    /// It is in the queue of one.
    Scheduled = 1,
    /// The other end has it.
    Acknowledged = 2,
}

/// When something that is sent has come so far.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    pub stage: Stage,
    /// Which datagram, or up to which byte of a stream, where that is wanted.
    pub key: u32,
    pub at: i64,
    /// Its way, and the frame that it is in, where that is wanted.
    pub packet: Option<(Passage, Vec<u8>)>,
}

/// What a socket knows of times.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    /// Bytes of a stream that were sent.
    pub sent: u64,
    /// Of a stream, where its bytes are counted from; else the key of the next datagram.
    first: u64,
    /// Ends of calls that wait for acknowledgements: so many bytes were sent then; and their keys.
    waiting: VecDeque<(u64, u32)>,
    /// When the last bytes of a stream came.
    pub came: i64,
    /// When the datagram that was read last came, unless its time was told with it; `None`: there was none yet.
    last: Option<i64>,
}

impl Timing {
    /// A datagram was read that came then.
    pub fn was_read(&mut self, came: i64, options: &Options) {
        if !options.tells_times() && options.stamping() & (SOFTWARE | RAW_HARDWARE) == 0 {
            self.last = Some(came);
        }
    }
}

impl Inet {
    /// What can be said of times: the flags of `SO_TIMESTAMPING`. `option`: it, or the one with times of 64 bits, which here are the same.
    ///
    /// # Errors
    /// `EINVAL`: there are no such flags, they do not fit together, or bytes of a stream are to be counted that is none yet. `EOPNOTSUPP`: they
    /// are about a clock in a device.
    pub fn set_stamping(&mut self, number: Number, option: u32, flags: u32) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        let is_stream = socket.kind == Kind::Stream;
        let is_alone = flags & OPT_STATS != 0 && flags & OPT_TSONLY == 0
            || flags & OPT_ID_TCP != 0 && flags & OPT_ID == 0;
        let begins = flags & OPT_ID != 0 && socket.options.stamping() & OPT_ID == 0;
        let is_none = matches!(socket.state, State::Idle | State::Closed | State::Listening { .. });
        if flags & !ALL != 0 || is_alone || begins && is_stream && is_none {
            return Err(Errno::EINVAL);
        }
        if flags & BIND_PHC != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if begins {
            // Bytes count from the first that was not acknowledged.
            let on_the_way = if flags & OPT_ID_TCP != 0 { 0 } else { socket.unacknowledged.into() };
            socket.timing.first = match is_stream {
                true => socket.timing.sent - on_the_way,
                false => 0,
            };
        }
        socket.options.others.retain(|other, _| !STAMPING.contains(other));
        socket.options.others.insert(option, flags.into());
        Ok(())
    }

    /// When the datagram that was read last came (`SIOCGSTAMP`), in nanoseconds.
    ///
    /// # Errors
    /// `ENOENT`: there was none. `ENOTTY`: that cannot be asked of it.
    pub fn last_time(&self, number: Number) -> Result<i64, Errno> {
        let socket = self.get(number)?;
        match socket.kind {
            Kind::Route => Err(Errno::ENOTTY),
            _ => socket.timing.last.ok_or(Errno::ENOENT),
        }
    }

    /// The packet that an entry about a datagram has with it, if it is to have any.
    pub(crate) fn packet(
        &self,
        number: Number,
        stamps: u32,
        way: Passage,
        bytes: &[u8],
    ) -> Option<(Passage, Vec<u8>)> {
        let socket = self.get(number).ok()?;
        if stamps & (TX_SOFTWARE | TX_SCHED) == 0 || socket.options.stamping() & OPT_TSONLY != 0 {
            return None;
        }
        let is_outside = !self.is_local(way.to.ip());
        let mac = self.interface.filter(|_| is_outside).map_or([0; 6], |interface| interface.mac);
        Some((Passage { is_outside, ..way }, frame(socket.kind, &way, mac, bytes)))
    }

    /// A datagram was sent.
    pub(crate) fn was_sent(
        &mut self,
        number: Number,
        stamps: u32,
        packet: Option<(Passage, Vec<u8>)>,
        changes: &mut Changes,
    ) {
        if stamps & TX_DATAGRAM == 0 {
            return;
        }
        let Ok(socket) = self.get_mut(number) else { return };
        let mut key = 0;
        if socket.options.stamping() & OPT_ID != 0 {
            key = socket.timing.first as u32;
            socket.timing.first += 1;
        }
        if stamps & TX_SCHED != 0 {
            self.stamp(number, (Stage::Scheduled, key), packet.clone(), changes);
        }
        if stamps & TX_SOFTWARE != 0 {
            self.stamp(number, (Stage::Sent, key), packet, changes);
        }
    }

    /// The last bytes of a call on a stream were sent.
    pub(crate) fn bytes_were_sent(&mut self, number: Number, stamps: u32, changes: &mut Changes) {
        if stamps == 0 {
            return;
        }
        let Ok(socket) = self.get_mut(number) else { return };
        let Timing { sent, first, .. } = socket.timing;
        let key = match socket.options.stamping() & OPT_ID {
            0 => 0,
            _ => sent.wrapping_sub(first).wrapping_sub(1) as u32,
        };
        if stamps & TX_ACK != 0 {
            let waiting = &mut socket.timing.waiting;
            if waiting.len() == WAITING_MOST {
                waiting.pop_back();
            }
            waiting.push_back((sent, key));
        }
        if stamps & TX_SCHED != 0 {
            self.stamp(number, (Stage::Scheduled, key), None, changes);
        }
        if stamps & TX_SOFTWARE != 0 {
            self.stamp(number, (Stage::Sent, key), None, changes);
        }
        // Inside of the machine they are at the other end already.
        self.were_acknowledged(number, changes);
    }

    /// The other end of a stream may have acknowledged more.
    pub(crate) fn were_acknowledged(&mut self, number: Number, changes: &mut Changes) {
        while let Ok(socket) = self.get_mut(number) {
            let up_to = socket.timing.sent - u64::from(socket.unacknowledged);
            let waiting = &mut socket.timing.waiting;
            let Some(&(_, key)) = waiting.front().filter(|first| first.0 <= up_to) else { return };
            waiting.pop_front();
            self.stamp(number, (Stage::Acknowledged, key), None, changes);
        }
    }

    fn stamp(
        &mut self,
        number: Number,
        (stage, key): (Stage, u32),
        packet: Option<(Passage, Vec<u8>)>,
        changes: &mut Changes,
    ) {
        let at = self.now;
        self.queue_error(number, Entry::Sent(Stamp { stage, key, at, packet }), changes);
    }
}

/// The frame of Ethernet that a datagram is in: to whom a network's devices bring it is known to the network server alone, and is 0 here.
fn frame(kind: Kind, way: &Passage, mac: [u8; 6], bytes: &[u8]) -> Vec<u8> {
    let packet = match kind {
        Kind::Datagram => packet_of(way, UDP, &udp_of(way, bytes)),
        _ if way.to.is_ipv6() => packet_of(way, ICMP6, bytes),
        _ => packet_of(way, ICMP, bytes),
    };
    let packet = packet.unwrap_or_default();
    [&[0; 6][..], &mac, &kind_of(&packet).to_be_bytes(), &packet].concat()
}
