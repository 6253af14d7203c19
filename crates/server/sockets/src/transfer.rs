//! Sending and receiving.

use crate::lent::Ring;
use crate::message::{Message, User};
use crate::names::Name;
use crate::socket::{Changes, Kind, Number, Peer, Sockets};
use crate::QUEUE_BYTES;
use alloc::rc::Rc;
use alloc::vec::Vec;
use unixproto::Errno;

/// Where something is sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To whom the socket is connected.
    Peer,
    /// To this one.
    One(Number),
}

/// What was received.
#[derive(Debug, Default)]
pub struct Received {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Bytes of the message: more than those, if there was no room for all.
    pub full: usize,
    /// Descriptors that were passed along. Of what was only looked at, they are still there.
    pub rights: Vec<u32>,
    /// Who has sent it, if that is to be told.
    pub user: Option<User>,
    /// The sender's name, of a message with bounds.
    pub from: Option<Rc<Name>>,
    /// When it was sent, of a message with bounds, by the option that tells it.
    pub sent: Option<(u32, i64)>,
}

impl<R: Ring> Sockets<R> {
    /// Sends bytes, and what is passed along with them. Answers how many: fewer only of a stream.
    ///
    /// # Errors
    /// `EAGAIN`: there is no room. `EPIPE`, `ENOTCONN`, `EMSGSIZE`, `ECONNREFUSED`, `ECONNRESET`, `EPERM`, `ENOBUFS` as Linux's.
    pub fn send(
        &mut self,
        number: Number,
        target: Target,
        (bytes, rights): (&[u8], &[u32]),
        user: User,
        changes: &mut Changes,
    ) -> Result<usize, Errno> {
        let socket = self.get_mut(number)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (kind, from, outgoing) = (socket.kind, socket.name.clone(), socket.outgoing.clone());
        if socket.is_mute {
            return Err(Errno::EPIPE);
        }
        let to = match (target, &socket.peer) {
            (Target::One(to), _) => to,
            (_, Peer::One(to)) => *to,
            (_, Peer::Gone(_)) if kind == Kind::Datagram => {
                socket.peer = Peer::None;
                return Err(Errno::ECONNREFUSED);
            }
            (_, Peer::Gone(_)) => return Err(Errno::EPIPE),
            (_, Peer::None | Peer::Listens { .. }) => return Err(Errno::ENOTCONN),
        };
        let receiver = self.get(to)?;
        if receiver.kind != kind {
            return Err(Errno::EPROTOTYPE);
        }
        if kind == Kind::Datagram && !receiver.takes_from(number) {
            return Err(Errno::EPERM);
        }
        if receiver.is_over {
            return Err(Errno::EPIPE);
        }
        let (has_bounds, is_timed) = (receiver.has_bounds(), receiver.options.times.is_some());
        if has_bounds && bytes.len() > QUEUE_BYTES {
            return Err(Errno::EMSGSIZE);
        }
        if !has_bounds && bytes.is_empty() {
            return Ok(0);
        }
        if !receiver.has_room() {
            return Err(Errno::EAGAIN);
        }
        let count = match has_bounds {
            true => bytes.len(),
            false => bytes.len().min(QUEUE_BYTES - receiver.queue.bytes()),
        };
        if !self.bytes.has_room(user.uid, count) {
            return Err(Errno::ENOBUFS);
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(count).map_err(|_| Errno::ENOBUFS)?;
        copy.extend_from_slice(&bytes[..count]);
        let mut message = Message::new(copy, user, outgoing);
        (message.rights, message.from) = (rights.to_vec(), from);
        message.sent = if is_timed { self.now } else { 0 };
        self.bytes.take(user.uid, count);
        let receiver = self.table.get_mut(to as usize).ok_or(Errno::EBADF)?;
        receiver.queue.settled(&mut self.bytes).push(message, has_bounds);
        if !receiver.has_room() {
            changes.push((number, false));
        }
        changes.push((to, true));
        Ok(count)
    }

    /// Receives up to so many bytes: of a stream what is there, up to the end of what something was passed along with; else one
    /// message.
    /// `looks`: it stays there, and so does what was passed along.
    ///
    /// # Errors
    /// `EAGAIN`: there is nothing. `EINVAL`, `ENOTCONN`: it is not connected. `ECONNRESET`.
    pub fn receive(
        &mut self,
        number: Number,
        most: usize,
        looks: bool,
        changes: &mut Changes,
    ) -> Result<Received, Errno> {
        let now = self.now;
        let socket = self.table.get_mut(number as usize).ok_or(Errno::EBADF)?;
        let has_bounds = socket.has_bounds();
        match (&socket.peer, socket.kind) {
            (Peer::None | Peer::Listens { .. }, Kind::Stream) => return Err(Errno::EINVAL),
            (Peer::None | Peer::Listens { .. }, Kind::Packets) => return Err(Errno::ENOTCONN),
            _ => {}
        }
        let was_full = !socket.has_room();
        let queue = socket.queue.settled(&mut self.bytes);
        if queue.is_empty() {
            if let Some(error) = socket.error.take() {
                return Err(error);
            }
            return match socket.is_over {
                true => Ok(Received::default()),
                false => Err(Errno::EAGAIN),
            };
        }
        if most == 0 && !has_bounds {
            return Ok(Received::default());
        }
        let mut received = Received::default();
        let (mut index, mut is_first) = (0, true);
        while let Some(message) = queue.get_mut(index) {
            let user = socket.options.tells_user.then_some(message.user);
            if !is_first && received.user != user {
                break;
            }
            let left = message.left().len();
            let count = left.min(most - received.bytes.len());
            received.bytes.extend_from_slice(&message.left()[..count]);
            received.full += if has_bounds { left } else { count };
            if is_first {
                received.user = user;
                received.from = message.from.clone().filter(|_| has_bounds);
                // Who has asked for that only since is told the time of now, as Linux has it.
                let sent = if message.sent == 0 { now } else { message.sent };
                let times = socket.options.times.filter(|_| has_bounds);
                received.sent = times.map(|option| (option, sent));
            }
            received.rights = match looks {
                true => message.rights.clone(),
                false => core::mem::take(&mut message.rights),
            };
            let is_done = has_bounds || count == left;
            if looks {
                index += 1;
            } else {
                let taken = if has_bounds { left } else { count };
                self.bytes.give_back(message.charged, taken);
                queue.read(taken, is_done);
            }
            // What was passed along ends a part.
            let is_full = received.bytes.len() == most || !received.rights.is_empty();
            if has_bounds || !is_done || is_full {
                break;
            }
            is_first = false;
        }
        if !looks {
            changes.push((number, false));
            if was_full {
                self.has_room_again(number, changes);
            }
        }
        Ok(received)
    }

    /// There is room again in a socket that was full: those who send there are told.
    fn has_room_again(&self, number: Number, changes: &mut Changes) {
        let Ok(socket) = self.get(number) else { return };
        if let (Peer::One(peer), true) = (&socket.peer, socket.kind != Kind::Datagram) {
            changes.push((*peer, false));
        }
        changes.extend(socket.followers.iter().map(|follower| (*follower, false)));
    }
}
