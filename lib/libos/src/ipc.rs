//! Messages: six words and up to four capabilities, to an endpoint and back.

use crate::invoke::{raw, Answer};
use captypes::invocations::{received, MOVE_CAPS};
use captypes::{op, Place, Status};

/// Capabilities sent with a message: `count` consecutive slots.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// The first slot.
    pub first: Place,
    /// How many, at most four.
    pub count: u32,
    /// Whether the capabilities themselves go, instead of copies.
    pub moved: bool,
}

impl Caps {
    /// None.
    pub const NONE: Caps = Caps { first: Place::NULL, count: 0, moved: false };

    /// `count` slots from `first` on.
    #[inline(always)]
    pub fn new(first: impl Into<Place>, count: u32) -> Self {
        Caps { first: first.into(), count, moved: false }
    }

    /// The same, but the slots will be empty.
    #[inline(always)]
    pub fn moved(first: impl Into<Place>, count: u32) -> Self {
        Caps { first: first.into(), count, moved: true }
    }

    /// Bits of `rax`.
    #[inline(always)]
    fn bits(self) -> u64 {
        (self.count as u64) << 16 | if self.moved { MOVE_CAPS } else { 0 }
    }

    /// One slot.
    #[inline(always)]
    pub fn one(slot: impl Into<Place>) -> Self {
        Caps::new(slot, 1)
    }
}

/// What was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The words; a notification has its bits in the first.
    pub words: [u64; 6],
    /// Badge of the endpoint capability that the sender used.
    pub badge: u64,
    flags: u64,
}

impl Message {
    /// How many capabilities came along.
    #[inline(always)]
    pub fn caps(&self) -> u32 {
        (self.flags & received::CAPS) as u32
    }
    /// Notification bits were set, and nobody waits for an answer.
    #[inline(always)]
    pub fn is_notification(&self) -> bool {
        self.flags & received::NOTIFICATION != 0
    }
    /// An invocation that needs other cores; see [`op::SetMonitor`].
    #[inline(always)]
    pub fn is_redirected(&self) -> bool {
        self.flags & received::REDIRECTED != 0
    }
    /// The kernel reports a fault: words are vector, error code, address, instruction pointer.
    #[inline(always)]
    pub fn is_fault(&self) -> bool {
        self.flags & received::FAULT != 0
    }
}

impl Answer {
    #[inline(always)]
    fn message(self) -> Result<Message, Status> {
        Status::from_word(self.status)?;
        Ok(Message { words: self.words, badge: self.badge, flags: self.flags })
    }
}

/// Sends `words` and `caps` to `endpoint` and waits for the answer, whose capabilities are put in
/// the slots from `recv` on (null: none are wanted).
#[inline(always)]
pub fn call(
    endpoint: impl Into<Place>,
    words: [u64; 6],
    caps: Caps,
    recv: impl Into<Place>,
) -> Result<Message, Status> {
    let [w0, w1, w2, w3, w4, w5] = words;
    let args = op::Call { w0, w1, w2, w3, w4, w5, caps: caps.first, recv: recv.into() };
    raw(endpoint.into(), caps.bits(), args).message()
}

/// Answers `to` (null: nobody; [`Place::CALLER`]: the last caller) and waits for what comes next.
///
/// An error may be about the answer (`to` has gone) or about the endpoint. A server's loop goes
/// on with a null `to` in the first case.
#[inline(always)]
pub fn reply_recv(
    endpoint: impl Into<Place>,
    to: impl Into<Place>,
    words: [u64; 6],
    caps: Caps,
    recv: impl Into<Place>,
) -> Result<Message, Status> {
    let [w0, w1, w2, w3, w4, w5] = words;
    let (caps_first, recv, to) = (caps.first, recv.into(), to.into());
    let args = op::ReplyRecv { w0, w1, w2, w3, w4, w5, caps: caps_first, recv, to };
    raw(endpoint.into(), caps.bits(), args).message()
}

/// Waits for a message or notification.
#[inline(always)]
pub fn recv(endpoint: impl Into<Place>, slots: impl Into<Place>) -> Result<Message, Status> {
    reply_recv(endpoint, Place::NULL, [0; 6], Caps::NONE, slots)
}

/// Takes a message or notification that is there. `Empty`: there is none.
pub fn poll(endpoint: impl Into<Place>, slots: impl Into<Place>) -> Result<Message, Status> {
    raw(endpoint.into(), 0, op::Poll { recv: slots.into() }).message()
}

/// Answers the dispatcher `to` (or [`Place::CALLER`]) and goes on.
#[inline(always)]
pub fn reply(to: impl Into<Place>, words: [u64; 6], caps: Caps) -> Result<(), Status> {
    let [w0, w1, w2, w3, w4, w5] = words;
    let args = op::Reply { w0, w1, w2, w3, w4, w5, caps: caps.first };
    Status::from_word(raw(to.into(), caps.bits(), args).status)
}

/// The status that a server's answer carries in word 0.
#[inline(always)]
pub fn status_word(result: Result<(), Status>) -> u64 {
    match result {
        Ok(()) => 0,
        Err(status) => status.to_word(),
    }
}
