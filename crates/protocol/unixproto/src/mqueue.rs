//! POSIX message queues.

use crate::session::DATA_BYTES;

/// Priorities of messages: from 0 on.
pub const PRIORITIES: u32 = 32768;
/// Messages of a queue for which nothing else is said, and most of one that is made without privilege.
pub const MESSAGES_USUAL: u64 = 10;
/// Bytes of a message, likewise.
pub const BYTES_USUAL: u64 = 8192;
/// Most messages of a queue.
pub const MESSAGES_MOST: u64 = 65536;
/// Most bytes of a message: what fits into the data area.
pub const BYTES_MOST: u64 = DATA_BYTES as u64;
/// Who is told of a message: by a signal.
pub const SIGEV_SIGNAL: u32 = 0;
/// By nothing.
pub const SIGEV_NONE: u32 = 1;
/// By bytes that come to a socket of netlink, which a thread reads that the C library has made for it.
pub const SIGEV_THREAD: u32 = 2;
/// How many these are. The last says why they come.
pub const COOKIE_BYTES: usize = 32;
/// Signals that there are.
pub const SIGNALS: u32 = 64;
