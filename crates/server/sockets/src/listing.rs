//! What is told of all sockets (`/proc/net/unix`, `sock_diag`).

use crate::lent::Ring;
use crate::names::Name;
use crate::socket::{Kind, Number, Peer, Socket, Sockets};
use alloc::vec::Vec;

/// A socket.
pub struct Row<'a> {
    /// Its number.
    pub number: Number,
    /// What its messages are.
    pub kind: Kind,
    /// How far it is.
    pub state: State,
    /// Its name, as it was given.
    pub name: Option<&'a Name>,
    /// The other end, once that was accepted; of one that has gone, and one that was not accepted, there is no number.
    pub peer: Option<Option<Number>>,
    /// Who waits to be accepted: those at the other ends.
    pub pending: Vec<Option<Number>>,
    /// Bytes, or connections, that wait to be taken.
    pub waiting: usize,
    /// Bytes that it has sent and nobody has taken, or how many connections may wait.
    pub sent: usize,
    /// Nothing more comes, and nothing more is sent.
    pub is_shut: (bool, bool),
    /// Who has made it.
    pub uid: u32,
}

/// How far a socket is, by the numbers of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// It has another end, or had.
    Connected = 1,
    /// It has none.
    Closed = 7,
    /// Connections are accepted.
    Listening = 10,
}

impl<R: Ring> Sockets<R> {
    /// Those of a network name space. One that was not accepted is nobody's yet, and not among them.
    pub fn rows(&self, space: u64) -> impl Iterator<Item = Row<'_>> {
        self.numbers_from(0).filter_map(move |number| self.row_of(space, number))
    }

    /// The numbers of all of them, from one on.
    pub fn numbers_from(&self, first: Number) -> impl Iterator<Item = Number> + '_ {
        self.table.iter_from(first as usize).map(|(number, _)| number as Number)
    }

    /// One of them.
    pub fn row_of(&self, space: u64, number: Number) -> Option<Row<'_>> {
        let socket = self.get(number).ok()?;
        let is_there = socket.space == space && socket.is_accepted;
        is_there.then(|| self.row(number, socket))
    }

    /// Its number as others are told it.
    fn number_told(&self, number: Number) -> Option<Number> {
        self.get(number).is_ok_and(|socket| socket.is_accepted).then_some(number)
    }

    fn row<'a>(&self, number: Number, socket: &'a Socket<R>) -> Row<'a> {
        let (state, peer) = match &socket.peer {
            Peer::None => (State::Closed, None),
            Peer::Listens { .. } => (State::Listening, None),
            Peer::One(peer) => (State::Connected, Some(self.number_told(*peer))),
            Peer::Gone(_) => (State::Connected, Some(None)),
        };
        let other_end = |server: &Number| match self.get(*server).ok()?.peer {
            Peer::One(client) => self.number_told(client),
            _ => None,
        };
        let lent = match socket.peer {
            Peer::One(peer) => self.get(peer).ok().and_then(|peer| peer.queue.ring()),
            _ => None,
        };
        let sent = socket.outgoing.get() + lent.map_or(0, Ring::bytes);
        let (pending, waiting, sent) = match &socket.peer {
            Peer::Listens { backlog, waiting } => {
                (waiting.iter().map(other_end).collect(), waiting.len(), *backlog as usize)
            }
            _ if socket.kind == Kind::Datagram => (Vec::new(), socket.queue.first_bytes(), sent),
            _ => (Vec::new(), socket.queue.bytes_told(), sent),
        };
        let &Socket { kind, is_over, is_mute, user, .. } = socket;
        let (name, is_shut) = (socket.name.as_deref(), (is_over, is_mute));
        let uid = user.uid;
        Row { number, kind, state, name, peer, pending, waiting, sent, is_shut, uid }
    }
}
