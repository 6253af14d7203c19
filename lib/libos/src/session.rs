//! What servers tell `init`, at the endpoint in [`abi::slots::REPORT`].
//!
//! `init` measures free memory at [`begin`] and [`end`], which are `unixd`'s: at the first everything
//! that the servers keep for good must exist, at the second no process. So it starts `unixd` only when
//! `spawnd` is [`ready`]. RAM which the caller has asked for and not used yet makes no difference: it
//! goes home before each.

use crate::domain;
use crate::ipc::{call, Caps};
use abi::slots::{MAX_DISKS, REPORT};
use captypes::{Place, Status};

/// Badges of the servers at that endpoint, where their faults are reported, too: `init` gives them, and nobody
/// else has the endpoint without a badge.
pub const MEMD_BADGE: u32 = 1;
/// Of `unixd`.
pub const UNIXD_BADGE: u32 = 2;
/// Of the monitor of the boot core.
pub const MONITOR_BADGE: u32 = 3;
/// Of `spawnd` on the boot core.
pub const SPAWND_BADGE: u32 = 4;
/// Of the server of the first disk; those of others follow.
pub const DISKD_BADGE: u32 = 16;

/// Of the network server.
pub const NETD_BADGE: u32 = 5;

/// The number of the disk whose server has a badge.
pub fn disk_of(badge: u32) -> Option<u32> {
    badge.checked_sub(DISKD_BADGE).filter(|&disk| disk < MAX_DISKS)
}

/// What `unixd` is notified with when the server of a disk has answered.
pub const DISK_ANSWERS: u64 = 1 << 5;
/// Likewise when that of the first disk is gone; bits for others follow.
pub const DISK_GONE: u64 = 1 << 8;

/// What `unixd` is notified with when the network server has told something, or has read what it was told.
pub const NET_EVENTS: u64 = 1 << 12;
/// Likewise when it is gone, so that nothing comes of what it was told.
pub const NET_GONE: u64 = 1 << 13;

/// What the network server is notified with when `unixd` has told something, or has read what it was told.
pub const NOTIFY_NET: u64 = 1;

/// Each server fails before it has said anything.
pub const FAILS_AT_START: u8 = 255;

/// The machine's place in its network, as a word of the network server's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Its address.
    pub own: u32,
    /// Bits of it that are the network's.
    pub prefix: u8,
    /// The last eight bits of the address of whoever knows the way to others, in the same network; 0: nobody does.
    pub gateway_end: u8,
    /// MiB for the buffers of all connections.
    pub mib: u8,
    /// The server fails after so many hundred frames, for a test of that; 0: never; [`FAILS_AT_START`].
    pub fails: u8,
}

impl Address {
    /// As a word.
    pub fn to_word(self) -> u64 {
        u64::from(self.own) << 32
            | u64::from(self.fails) << 24
            | u64::from(self.mib) << 16
            | u64::from(self.gateway_end) << 8
            | u64::from(self.prefix)
    }

    /// From a word.
    pub fn of_word(word: u64) -> Address {
        Address {
            own: (word >> 32) as u32,
            prefix: word as u8,
            gateway_end: (word >> 8) as u8,
            mib: (word >> 16) as u8,
            fails: (word >> 24) as u8,
        }
    }

    /// Who knows the way to others; 0: nobody.
    pub fn gateway(self) -> u32 {
        match self.gateway_end {
            0 => 0,
            end => self.own & !0xff | u32::from(end),
        }
    }

    /// From words of the command line: `net=10.0.2.15/24,10.0.2.2`.
    pub fn parse(text: &str, mib: u8) -> Option<Address> {
        let (own, gateway) = text.split_once(',').unwrap_or((text, "0.0.0.0"));
        let (own, prefix) = own.split_once('/')?;
        let own = u32::from(own.parse::<core::net::Ipv4Addr>().ok()?);
        let gateway = u32::from(gateway.parse::<core::net::Ipv4Addr>().ok()?);
        let prefix = prefix.parse().ok().filter(|prefix| (1..=30).contains(prefix))?;
        let is_near = gateway == 0 || gateway & !0xff == own & !0xff && gateway & 0xff != 0;
        is_near.then_some(Address { own, prefix, gateway_end: gateway as u8, mib, fails: 0 })
    }
}

/// The name of the server with a badge.
pub fn server_name(badge: u32) -> Option<&'static str> {
    match badge {
        MEMD_BADGE => Some("memd"),
        UNIXD_BADGE => Some("unixd"),
        MONITOR_BADGE => Some("monitor"),
        SPAWND_BADGE => Some("spawnd"),
        NETD_BADGE => Some("netd"),
        badge if disk_of(badge).is_some() => Some("diskd"),
        _ => None,
    }
}

/// Word 0: the first process is about to be made.
pub const BEGIN: u64 = 1;
/// Word 0: the last process has gone; word 1 is the exit status of the session.
pub const END: u64 = 2;

/// Word 0: a server has all that it needs to serve; word 1 is the status word of its start.
pub const READY: u64 = 3;

/// Word 0: nothing is in the rings of the network server, and there may be a first or a new one; word 1: whether the last one had said where in the network this is.
/// The answer's word 0: whether there is to be a new one.
pub const NET_CLEARED: u64 = 4;

/// Reports that a network server may begin, behind one that had come up or had not. Answers whether there is to be one.
pub fn net_cleared(came_up: bool) -> Result<bool, Status> {
    let words = [NET_CLEARED, came_up.into(), 0, 0, 0, 0];
    call(REPORT, words, Caps::NONE, Place::NULL).map(|answer| answer.words[0] != 0)
}

/// Reports that this server has started, or that it cannot.
pub fn ready(result: Result<(), Status>) -> Result<(), Status> {
    domain::with(|domain| domain.arena.release())?;
    let status = result.err().map_or(0, Status::to_word);
    call(REPORT, [READY, status, 0, 0, 0, 0], Caps::NONE, Place::NULL).map(|_| ())
}

/// Reports that the first process is about to be made.
pub fn begin() -> Result<(), Status> {
    domain::with(|domain| domain.arena.release())?;
    call(REPORT, [BEGIN, 0, 0, 0, 0, 0], Caps::NONE, Place::NULL).map(|_| ())
}

/// Reports the end of the session; the machine ends.
pub fn end(status: u32) -> Result<(), Status> {
    domain::with(|domain| domain.arena.release())?;
    call(REPORT, [END, status as u64, 0, 0, 0, 0], Caps::NONE, Place::NULL).map(|_| ())
}
