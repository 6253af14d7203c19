//! A connection: what of it was told, and what is to be told.

use crate::frame::Key;
use crate::sender::Sender;
use crate::Events;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use netproto::{Event, LAST, PIECE, WINDOW};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration;

/// Numbers of errors.
const ENETDOWN: u16 = 100;
const ECONNRESET: u16 = 104;
const ECONNREFUSED: u16 = 111;
const ETIMEDOUT: u16 = 110;

/// Seconds after which an attempt to connect fails (Linux: as long as six repetitions take).
const CONNECT_S: u64 = 127;
/// Seconds in which a connection that comes must be complete.
const ACCEPT_S: u64 = 10;
/// Seconds in which what was sent must be acknowledged (Linux: 15 repetitions).
const ACKNOWLEDGE_S: u64 = 924;
/// Seconds in which a connection that nobody has any more must be over.
const ORPHAN_S: u64 = 60;
/// Microseconds for which the last word of one that is over waits for its peer to be found.
const LAST_WORD: i64 = 3_000_000;
/// Seconds between signs of life that are not answered, and how many there are.
const UNANSWERED_S: u64 = 9 * 75;

/// Where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `unixd` wanted it.
    Wanted,
    /// Somebody wanted it of a listener.
    Came { listener: u32, to: IpAddr },
}

/// What is to become of it after an event that was told, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It waits for the wire.
    Waits,
    /// There is more to tell when there is room.
    Stalled,
    /// It is gone.
    Over,
}

/// A connection.
pub struct Conn {
    /// Its one socket.
    pub set: SocketSet<'static>,
    /// How much it has on its way.
    pub sender: Sender,
    handle: SocketHandle,
    pub key: Key,
    pub origin: Origin,
    /// Whose it is.
    pub user: u32,
    /// Bytes of its buffers.
    pub bytes: usize,
    /// Microseconds at which it is looked at again, if that is known.
    pub due: Option<i64>,
    /// It has been told of.
    is_known: bool,
    /// Nobody wants to hear of it.
    pub is_orphan: bool,
    /// It ended by the peer's reset, or by an error of the way there.
    pub error: Option<u16>,
    /// Bytes that were told and not read.
    unread: u32,
    /// Bytes that `unixd` may still send.
    room: usize,
    finish_told: bool,
    /// The type of service of what it sends.
    pub class: u8,
    /// When it is over even if its last word cannot be sent.
    over_at: Option<i64>,
}

impl Conn {
    /// With buffers of so many bytes for each direction; `None`: there is no memory.
    pub fn new(key: Key, origin: Origin, (user, bytes): (u32, usize)) -> Option<Conn> {
        let buffer = || {
            let mut buffer = Vec::new();
            buffer.try_reserve_exact(bytes).ok()?;
            buffer.resize(bytes, 0);
            Some(SocketBuffer::new(buffer))
        };
        let mut socket = Socket::new(buffer()?, buffer()?);
        socket.set_congestion_control(CongestionControl::None);
        let within = if origin == Origin::Wanted { CONNECT_S } else { ACCEPT_S };
        socket.set_timeout(Some(Duration::from_secs(within)));
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(socket);
        Some(Conn {
            set,
            sender: Sender::default(),
            handle,
            key,
            origin,
            user,
            bytes: 2 * bytes,
            due: None,
            is_known: false,
            is_orphan: false,
            error: None,
            unread: 0,
            room: 0,
            finish_told: false,
            class: 0,
            over_at: None,
        })
    }

    pub fn socket(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    pub fn state(&self) -> State {
        self.set.get::<Socket>(self.handle).state()
    }

    /// Has it been complete?
    pub fn is_half_open(&self) -> bool {
        !self.is_known && matches!(self.state(), State::Listen | State::SynReceived)
    }

    /// How it is treated.
    pub fn tune(&mut self, no_delay: bool, alive_s: u32, hops: u8) {
        let alive = u64::from(alive_s);
        let is_open = self.is_known;
        let socket = self.socket();
        socket.set_nagle_enabled(!no_delay);
        socket.set_hop_limit(Some(hops.max(1)));
        socket.set_keep_alive((alive > 0).then(|| Duration::from_secs(alive)));
        if is_open {
            let within = if alive > 0 { alive + UNANSWERED_S } else { ACKNOWLEDGE_S };
            socket.set_timeout(Some(Duration::from_secs(within)));
        }
    }

    /// Sends bytes. `false`: there is no room for so many.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.room {
            return false;
        }
        self.room -= bytes.len();
        // It may have ended meanwhile: then they are sent to nobody.
        let _ = self.socket().send_slice(bytes);
        true
    }

    /// So many bytes were read. `false`: there were not so many.
    pub fn read(&mut self, bytes: u32) -> bool {
        match self.unread.checked_sub(bytes) {
            Some(unread) => {
                self.unread = unread;
                true
            }
            None => false,
        }
    }

    /// Nobody has it any more: it ends when all was sent, or at once if there is something that nobody will read.
    pub fn leave(&mut self) {
        self.is_orphan = true;
        let is_unread = self.unread > 0 || self.socket().can_recv();
        let socket = self.socket();
        socket.set_timeout(Some(Duration::from_secs(ORPHAN_S)));
        match is_unread {
            true => socket.abort(),
            false => socket.close(),
        }
    }

    /// It ends at once.
    pub fn abort(&mut self) {
        self.is_orphan = true;
        self.socket().abort();
    }

    /// It is closed and nobody has it: has it tried for long enough to say so to its peer, who may not be found any more?
    pub fn is_late(&mut self, now: i64) -> bool {
        now >= *self.over_at.get_or_insert(now + LAST_WORD)
    }

    /// The machine is elsewhere now.
    pub fn lose(&mut self) {
        self.error.get_or_insert(ENETDOWN);
        self.socket().abort();
    }

    /// Tells what there is to tell.
    pub fn tell(&mut self, id: u32, events: &mut impl Events) -> Next {
        if self.is_orphan {
            if self.socket().can_recv() {
                // Nobody will read that.
                self.socket().abort();
            }
            return Next::Waits;
        }
        match self.try_tell(id, events) {
            Some(next) => next,
            None => Next::Stalled,
        }
    }

    fn try_tell(&mut self, id: u32, events: &mut impl Events) -> Option<Next> {
        let mut tell = |event: Event| events.tell(&event).then_some(());
        let state = self.state();
        if !self.is_known {
            match state {
                State::SynSent | State::SynReceived | State::Listen => return Some(Next::Waits),
                State::Closed => {
                    // It was refused, or never complete.
                    if self.origin == Origin::Wanted {
                        let error = match self.error {
                            Some(ECONNRESET) => ECONNREFUSED,
                            Some(error) => error,
                            None => ETIMEDOUT,
                        };
                        tell(Event::Gone { id, error })?;
                    }
                    return Some(Next::Over);
                }
                _ => {}
            }
            let room = self.socket().send_capacity();
            let (peer, port, own) = self.key;
            tell(match self.origin {
                Origin::Wanted => Event::Connected { id, room: room as u32 },
                Origin::Came { listener, to } => Event::Incoming {
                    listener,
                    id,
                    local: SocketAddr::new(to, own),
                    remote: SocketAddr::new(peer, port),
                    room: room as u32,
                },
            })?;
            self.room = room;
            self.is_known = true;
            self.socket().set_timeout(Some(Duration::from_secs(ACKNOWLEDGE_S)));
        }
        // Of one that has ended nothing is kept back: else who waits for room, and does not read meanwhile, would wait for ever.
        let window = if state == State::Closed { WINDOW + LAST } else { WINDOW };
        while self.unread < window {
            let most = PIECE.min((window - self.unread) as usize);
            let socket = self.set.get_mut::<Socket>(self.handle);
            let Some(bytes) = socket.peek(most).ok().filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            let count = bytes.len();
            tell(Event::Data { id, bytes })?;
            let _ = socket.recv(|_| (count, ()));
            self.unread += count as u32;
        }
        let socket = self.set.get_mut::<Socket>(self.handle);
        let (capacity, queue) = (socket.send_capacity(), socket.send_queue());
        let freed = capacity.saturating_sub(queue).saturating_sub(self.room);
        // Of one that has been reset, nothing was acknowledged; of one that sends no more, that all was is still told.
        let is_there = socket.state() != State::Closed;
        if freed > 0 && (freed >= capacity / 4 || queue == 0) && is_there {
            tell(Event::Sent { id, bytes: freed as u32 })?;
            self.room += freed;
        }
        let has_finished =
            matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        if has_finished && !self.finish_told && !self.socket().can_recv() {
            tell(Event::Finished { id })?;
            self.finish_told = true;
        }
        match state {
            State::TimeWait if self.finish_told => {
                tell(Event::Gone { id, error: 0 })?;
                self.is_orphan = true;
                Some(Next::Waits)
            }
            State::Closed if !self.socket().can_recv() => {
                let error = match self.error {
                    // The last acknowledgement has come.
                    None if self.finish_told => 0,
                    None => ETIMEDOUT,
                    Some(error) => error,
                };
                tell(Event::Gone { id, error })?;
                Some(Next::Over)
            }
            // What has come before the end waits until it is read.
            _ => Some(Next::Waits),
        }
    }

    /// The peer has reset it, if it is closed now.
    pub fn was_reset(&mut self) {
        if self.state() == State::Closed {
            self.error.get_or_insert(ECONNRESET);
        }
    }
}
