//! Bytes of streams.

use crate::control::of_stream;
use crate::socket::{has_much_room, Changes, Inet, Kind, Link, Number, Socket, State};
use alloc::vec::Vec;
use core::net::SocketAddr;
use netproto::{Command, PIECE, WINDOW};
use unixproto::Errno;

/// A datagram, or what there was room for of one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Bytes of the whole: more than those, if there was no room for all.
    pub full: usize,
    /// Who has sent it.
    pub from: Option<SocketAddr>,
    /// What else is told of it, as control messages.
    pub control: Vec<u8>,
}

impl Inet {
    /// Sends up to `most` bytes of a stream: as many as there is room for are taken; the last one is urgent, if that is wanted. Answers how many.
    ///
    /// # Errors
    /// `EAGAIN`: there is no room, or it is being connected. `EPIPE`, `ECONNRESET` and other ends of connections; `ENOBUFS`.
    /// `EOPNOTSUPP`: nothing is urgent outside of the machine.
    pub fn send(
        &mut self,
        number: Number,
        (most, is_urgent): (usize, bool),
        take: impl FnOnce(usize) -> Vec<u8>,
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        let socket = self.get_mut(number)?;
        if socket.state == State::Connecting && socket.error.is_none() && !socket.is_mute {
            return Err(Errno::EAGAIN);
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.is_mute || socket.state != State::Connected {
            return Err(Errno::EPIPE);
        }
        if most == 0 {
            return Ok(0);
        }
        match socket.link {
            Link::Local(peer) => {
                let count = self.send_inside((number, peer), most, take, changes)?;
                self.get_mut(number)?.timing.sent += count as u64;
                if is_urgent {
                    self.is_urgent(peer, changes);
                }
                Ok(count)
            }
            Link::Wire { .. } if is_urgent => Err(Errno::EOPNOTSUPP),
            Link::Wire { id, room } => {
                let bytes = take(most.min(room as usize).min(PIECE));
                let count = bytes.len();
                if count == 0 {
                    return Err(Errno::EAGAIN);
                }
                socket.link = Link::Wire { id, room: room.saturating_sub(count as u32) };
                socket.unacknowledged = socket.unacknowledged.saturating_add(count as u32);
                socket.timing.sent += count as u64;
                self.command_with(Command::Send { id, bytes: &[] }, bytes);
                changes.push((number, false));
                Ok(count)
            }
            // What is sent to nobody is answered with a reset.
            Link::Left | Link::None => {
                self.reset(number, changes);
                Ok(most)
            }
        }
    }

    fn send_inside(
        &mut self,
        (number, peer): (Number, Number),
        most: usize,
        take: impl FnOnce(usize) -> Vec<u8>,
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        let receiver = self.get(peer)?;
        if receiver.is_deaf && receiver.is_mute {
            // It wants nothing more of this connection.
            self.reset(peer, changes);
            self.reset(number, changes);
            return Ok(most);
        }
        let count = receiver.room().min(most);
        if count == 0 {
            return Err(Errno::EAGAIN);
        }
        let payer = receiver.payer;
        if !self.shares.has_room(payer, count) {
            return Err(Errno::ENOBUFS);
        }
        let bytes = take(count);
        let count = bytes.len();
        let now = self.now;
        let receiver = self.get_mut(peer)?;
        receiver.bytes.push(bytes).map_err(|_| Errno::ENOBUFS)?;
        receiver.timing.came = now;
        self.shares.take(payer, count);
        changes.push((peer, true));
        changes.push((number, false));
        Ok(count)
    }

    /// Receives up to so many bytes of a stream: they are shown part by part, with how many were before each. `looks`: they stay there.
    /// Answers how many there were.
    ///
    /// # Errors
    /// `EAGAIN`: there are none. `ENOTCONN`: it is not connected. Ends of connections.
    pub fn receive(
        &mut self,
        number: Number,
        most: usize,
        looks: bool,
        to: impl FnMut(usize, &[u8]),
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        let socket = self.get_mut(number)?;
        if matches!(socket.state, State::Listening { .. }) {
            return Err(Errno::ENOTCONN);
        }
        // What is urgent is passed over, as soon as anything behind it is asked for.
        let passed = usize::from(most > 0 && socket.is_at_urgent());
        if passed > 0 && !looks {
            self.was_read(number, 1, changes);
        }
        let socket = self.get_mut(number)?;
        let passed = if looks { passed } else { 0 };
        if socket.bytes.len() == passed {
            if socket.is_finished {
                return Ok(0);
            }
            if let Some(error) = socket.error.take() {
                return Err(error);
            }
            return match socket.state {
                _ if socket.is_deaf => Ok(0),
                State::Idle => Err(Errno::ENOTCONN),
                State::Closed => Ok(0),
                _ => Err(Errno::EAGAIN),
            };
        }
        let most = if passed > 0 { most } else { socket.up_to_urgent(most) };
        let count = socket.bytes.look((passed, most), to);
        if !looks && count > 0 {
            self.was_read(number, count, changes);
        }
        Ok(count)
    }

    /// What else is told of bytes of a stream that were just received, as control messages. Of their times it is that of the newest in the queue, as
    /// on Linux where it has merged segments there.
    pub fn told_of_bytes(&self, number: Number) -> Result<Vec<u8>, Errno> {
        let socket = self.get(number)?;
        Ok(of_stream(socket.timing.came, &socket.options))
    }

    /// Bytes of a stream have been read: there is room for others.
    pub(crate) fn was_read(&mut self, number: Number, count: usize, changes: &mut Changes) {
        let Ok(socket) = self.get_mut(number) else { return };
        let had_room = has_much_room(socket);
        socket.bytes.drop_first(count);
        socket.urgent = socket.urgent.and_then(|urgent| urgent.after(count));
        let (payer, link) = (socket.payer, socket.link);
        let has_room = has_much_room(socket);
        let mut tell = None;
        if let Link::Wire { id, .. } = link {
            socket.untold += count as u32;
            if socket.untold >= WINDOW / 4 || socket.bytes.is_empty() {
                tell = Some(Command::Read { id, bytes: core::mem::take(&mut socket.untold) });
            }
        }
        self.shares.give_back(payer, count);
        if let Some(command) = tell {
            self.command(command);
        }
        changes.push((number, false));
        if let (Link::Local(peer), false, true) = (link, had_room, has_room) {
            changes.push((peer, false));
        }
    }

    /// Is there an error that nobody was told of? For who reads, with nothing before it.
    pub fn has_failed(&self, number: Number, reads: bool) -> bool {
        let is_next = |socket: &Socket| !reads || socket.bytes.is_empty();
        self.get(number).is_ok_and(|socket| socket.error.is_some() && is_next(socket))
    }

    /// Is it a stream?
    pub fn is_stream(&self, number: Number) -> Result<bool, Errno> {
        Ok(self.get(number)?.kind == Kind::Stream)
    }
}
