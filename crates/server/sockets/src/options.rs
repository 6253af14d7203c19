//! Options of sockets that are kept, and have no other effect here than those that `Sockets` gives them.

/// Options that a program can set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whoever reads is told who has sent it (`SO_PASSCRED`).
    pub tells_user: bool,
    /// Whoever reads messages is told when each was sent, by which option (`SO_TIMESTAMP` and its relatives).
    pub times: Option<u32>,
    /// `SO_SNDBUF`, as it is told.
    pub send_bytes: u32,
    /// `SO_RCVBUF`, as it is told.
    pub receive_bytes: u32,
    /// `SO_REUSEADDR`, `SO_KEEPALIVE`, `SO_BROADCAST` and others that mean nothing here, by number of the option.
    pub flags: u64,
    /// How long to wait for room, nanoseconds; 0: for ever.
    pub send_ns: u64,
    /// How long to wait for something to read.
    pub receive_ns: u64,
}

impl Default for Options {
    fn default() -> Options {
        let bytes = crate::QUEUE_BYTES as u32;
        Options {
            tells_user: false,
            times: None,
            send_bytes: bytes,
            receive_bytes: bytes,
            flags: 0,
            send_ns: 0,
            receive_ns: 0,
        }
    }
}
