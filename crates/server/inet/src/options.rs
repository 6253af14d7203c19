//! Options of sockets, and what is told of a connection.

use alloc::collections::BTreeMap;
use unixproto::sockets::{of_level, SO_TIMESTAMPING, SO_TIMESTAMPING_NEW, TIMES};

/// Which of these has the flags of `SO_TIMESTAMPING`: one at most of them is there.
pub const STAMPING: [u32; 2] = [SO_TIMESTAMPING, SO_TIMESTAMPING_NEW];

/// `IP_MULTICAST_IF`, with the number of the interface in the upper half; the others say what their names say.
pub(crate) const MULTICAST_IF: u32 = of_level(0, 32);
pub(crate) const MULTICAST_TTL: u32 = of_level(0, 33);
pub(crate) const MULTICAST_LOOP: u32 = of_level(0, 34);
pub(crate) const MULTICAST_ALL: u32 = of_level(0, 49);

/// Options that a program can set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// `SO_SNDBUF`, as it is told; 0: nobody has said.
    pub send_bytes: u32,
    /// `SO_RCVBUF`, as it is told; 0: nobody has said.
    pub receive_bytes: u32,
    /// How long to wait for room, nanoseconds; 0: for ever.
    pub send_ns: u64,
    /// How long to wait for something to read.
    pub receive_ns: u64,
    /// Ports may be taken that others have.
    pub reuse_address: bool,
    /// Ports may be taken that others of this user have.
    pub reuse_port: bool,
    /// There are signs of life.
    pub keep_alive: bool,
    /// Datagrams may go to everybody.
    pub broadcast: bool,
    /// What is not sent when the socket is closed is waited for so many seconds; 0: the connection is reset.
    pub linger: Option<u32>,
    /// Of IPv6: no IPv4.
    pub v6_only: bool,
    /// Small pieces are sent at once.
    pub no_delay: bool,
    /// `SO_RCVLOWAT`.
    pub receive_least: u32,
    /// Others, by level and number, which have a default if they are not among them.
    pub others: BTreeMap<u32, u64>,
}

impl Options {
    /// Is one of the others on?
    pub fn is_set(&self, option: u32) -> bool {
        self.others.get(&option).is_some_and(|&value| value != 0)
    }

    /// The flags of `SO_TIMESTAMPING`.
    pub fn stamping(&self) -> u32 {
        let flags = STAMPING.iter().find_map(|option| self.others.get(option));
        flags.map_or(0, |&flags| flags as u32)
    }

    /// Is the time of each message told, whatever is known of it?
    pub(crate) fn tells_times(&self) -> bool {
        TIMES.iter().any(|&option| self.is_set(option))
    }

    /// The time that is told of a message that came then; 0: nobody knows, which counts as now for whoever is told in any case.
    pub(crate) fn time_of(&self, came: i64, now: i64) -> i64 {
        match came {
            0 if self.tells_times() => now,
            came => came,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            send_bytes: 0,
            receive_bytes: 0,
            send_ns: 0,
            receive_ns: 0,
            reuse_address: false,
            reuse_port: false,
            keep_alive: false,
            broadcast: false,
            linger: None,
            v6_only: false,
            no_delay: false,
            receive_least: 1,
            others: BTreeMap::new(),
        }
    }
}

/// States of TCP, by Linux's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TcpState {
    /// Both may send.
    Established = 1,
    /// A connection is being made.
    SynSent = 2,
    /// This end has said that it sends no more; the other one knows.
    FinWait2 = 5,
    /// There is no connection.
    Close = 7,
    /// The other end sends no more.
    CloseWait = 8,
    /// Connections are accepted.
    Listen = 10,
}
