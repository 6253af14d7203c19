//! Numbers of sockets.

/// Of [`Receive`](crate::op::Receive): what is left of a datagram that is cut is asked for next.
pub const GOES_ON: u32 = 1 << 28;
/// Of [`Receive`](crate::op::Receive): what is left of the datagram that this thread has received in part.
pub const REST: u32 = 1 << 29;
/// Of [`Send`](crate::op::Send): more bytes of the same call follow, if all of these are taken, so nothing is told of it yet.
pub const CONTINUES: u32 = 1 << 30;
/// Of [`Send`](crate::op::Send): others of the same call came before. Without any bytes: no more follow.
pub const CONTINUED: u32 = 1 << 31;

/// With which of these the times of messages are told, and in which unit: one at most of them is on.
pub const TIMES: [u32; 4] = [SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW];

/// What such an option tells: the two words of a time, in nanoseconds of the clock on the wall.
pub fn time_told(option: u32, ns: i64) -> [u8; 16] {
    let unit = if matches!(option, SO_TIMESTAMP | SO_TIMESTAMP_NEW) { 1000 } else { 1 };
    let words = [ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) / unit];
    let mut told = [0; 16];
    told.copy_from_slice(words.map(i64::to_le_bytes).as_flattened());
    told
}

/// Most bytes of control messages that go along with a message in either direction, besides descriptors and users.
pub const CONTROL_BYTES: usize = 512;

/// What comes behind the bytes and the descriptions of a message: bytes of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Behind {
    /// Process, user and group of who has sent it.
    pub user: usize,
    /// The sender's name.
    pub name: usize,
    /// Control messages, as programs read them.
    pub control: usize,
}

impl Behind {
    /// In one word.
    pub const fn pack(self) -> u32 {
        self.name as u32 & 0xff | (self.user as u32 & 0xff) << 8 | (self.control as u32) << 16
    }

    /// From that.
    pub const fn unpack(word: u32) -> Behind {
        Behind {
            user: (word >> 8 & 0xff) as usize,
            name: (word & 0xff) as usize,
            control: (word >> 16) as usize,
        }
    }
}

/// `AF_UNSPEC`
pub const AF_UNSPEC: u16 = 0;
/// `AF_UNIX`
pub const AF_UNIX: u16 = 1;
/// `AF_INET`
pub const AF_INET: u16 = 2;
/// `AF_INET6`
pub const AF_INET6: u16 = 10;
/// `AF_NETLINK`
pub const AF_NETLINK: u16 = 16;
/// `AF_PACKET`
pub const AF_PACKET: u16 = 17;
/// `SOL_PACKET`: the level of its options.
pub const SOL_PACKET: u32 = 263;
/// `SOL_NETLINK`: the level of its options.
pub const SOL_NETLINK: u32 = 270;
/// Bytes of a family.
pub const FAMILY_BYTES: usize = 2;

/// An option of a level that is not the sockets' own: that of a protocol.
pub const fn of_level(level: u32, option: u32) -> u32 {
    (level + 1) << 16 | option & 0xffff
}

/// Bytes of `struct ifreq`, for requests about interfaces: a name, and at most a `struct ifmap`. (Its `struct sockaddr` has 16 bytes, where
/// the crate with such types has one for addresses of any length.)
pub const DEVICE_BYTES: usize = net::IFNAMSIZ as usize + size_of::<net::ifmap>();
const _: () = assert!(DEVICE_BYTES == 40);

/// How many bytes a request about an interface (`netdevice(7)`) reads and writes; `None`: it is none, or `SIOCGIFCONF`, which is about all.
pub const fn device_shape(command: u32) -> Option<Shape> {
    match command {
        ioctl::SIOCGIFNAME
        | ioctl::SIOCGIFFLAGS
        | ioctl::SIOCGIFADDR
        | ioctl::SIOCGIFDSTADDR
        | ioctl::SIOCGIFBRDADDR
        | ioctl::SIOCGIFNETMASK
        | ioctl::SIOCGIFMETRIC
        | ioctl::SIOCGIFMTU
        | ioctl::SIOCGIFHWADDR
        | ioctl::SIOCGIFINDEX
        | ioctl::SIOCGIFTXQLEN
        | ioctl::SIOCGIFMAP => Some(Shape { input: DEVICE_BYTES, output: DEVICE_BYTES }),
        ioctl::SIOCSIFFLAGS
        | ioctl::SIOCSIFADDR
        | ioctl::SIOCSIFDSTADDR
        | ioctl::SIOCSIFBRDADDR
        | ioctl::SIOCSIFNETMASK
        | ioctl::SIOCSIFMETRIC
        | ioctl::SIOCSIFMTU
        | ioctl::SIOCSIFHWADDR
        | ioctl::SIOCSIFNAME
        | ioctl::SIOCSIFTXQLEN => Some(Shape { input: DEVICE_BYTES, output: 0 }),
        _ => None,
    }
}

use crate::tty::Shape;
/// Settings of a device: there are none.
pub const SIOCETHTOOL: u32 = 0x8946;
/// Opens the network name space of a socket.
pub const SIOCGSKNS: u32 = 0x894c;
/// Is the urgent byte of a stream the next one?
pub const SIOCATMARK: u32 = 0x8905;
/// Bytes that were sent and not taken by the other end, and those of them that were not sent over a wire either. The first is `TIOCOUTQ`, too.
pub const SIOCOUTQ: u32 = crate::tty::TIOCOUTQ;
/// Likewise.
pub const SIOCOUTQNSD: u32 = 0x894b;
/// When the datagram came that was read last: microseconds, and nanoseconds.
pub const SIOCGSTAMP: [u32; 2] = [net::SIOCGSTAMP_OLD, ioctl::SIOCGSTAMP_NEW];
/// Likewise.
pub const SIOCGSTAMPNS: [u32; 2] = [net::SIOCGSTAMPNS_OLD, ioctl::SIOCGSTAMPNS_NEW];
/// Bytes of either: seconds, and the rest.
pub const STAMP_BYTES: usize = 16;
pub use linux_raw_sys::ioctl::SIOCGIFCONF;
use linux_raw_sys::{ioctl, net};

/// What is sent need not be copied: it is told of once the bytes may be written to again.
pub const MSG_ZEROCOPY: u32 = 0x400_0000;

macro_rules! numbers {
    ($($name:ident)*) => { $(#[doc = stringify!($name)] pub const $name: u32 = net::$name as u32;)* };
}
numbers! {
    SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_SEQPACKET
    MSG_PEEK MSG_DONTWAIT MSG_NOSIGNAL MSG_MORE MSG_OOB MSG_ERRQUEUE
    SHUT_RD SHUT_WR SHUT_RDWR
    SO_DEBUG SO_REUSEADDR SO_TYPE SO_ERROR SO_DONTROUTE SO_BROADCAST SO_SNDBUF SO_RCVBUF SO_KEEPALIVE SO_OOBINLINE
    SO_NO_CHECK SO_PRIORITY SO_LINGER SO_REUSEPORT SO_PASSCRED SO_PEERCRED SO_RCVLOWAT SO_SNDLOWAT SO_ACCEPTCONN
    SO_PROTOCOL SO_DOMAIN SO_SNDBUFFORCE SO_RCVBUFFORCE SO_RCVTIMEO SO_SNDTIMEO SO_RXQ_OVFL SO_TIMESTAMP SO_TIMESTAMPNS
    SO_TIMESTAMPING SO_TIMESTAMPING_NEW SO_TIMESTAMP_NEW SO_TIMESTAMPNS_NEW SO_SELECT_ERR_QUEUE SO_ZEROCOPY
    SO_PASSSEC SO_ATTACH_FILTER SO_DETACH_FILTER SO_LOCK_FILTER
}
