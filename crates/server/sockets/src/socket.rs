//! Sockets, and how they are connected.

use crate::lent::Ring;
use crate::message::{Message, Outgoing, User};
use crate::names::{Name, Names, Place};
use crate::options::Options;
use crate::queue::Queue;
use crate::BACKLOG_MOST;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use piecewise::{Limits, Shares, Table};
use unixproto::files::{
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP, POLLRDNORM, POLLWRNORM,
};
use unixproto::Errno;

/// A socket's number.
pub type Number = u32;

/// Bytes that may wait in all sockets together.
const ALL_BYTES: usize = 64 << 20;
/// Sockets that there may be.
const ALL_SOCKETS: usize = 65536;

/// What a socket's messages are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A stream of bytes.
    Stream,
    /// Messages to anybody.
    Datagram,
    /// Messages in order, to one.
    Packets,
}

/// Sockets that somebody may wait for, or watch; `true`: something came to be read.
pub type Changes = Vec<(Number, bool)>;

/// Whom a socket is connected to.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// Nobody.
    None,
    /// It accepts connections, of which so many may wait, and these do.
    Listens { backlog: u32, waiting: VecDeque<Number> },
    /// This one.
    One(Number),
    /// Somebody who has gone, and had this name.
    Gone(Option<Rc<Name>>),
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket<R> {
    pub kind: Kind,
    /// The number of its network name space.
    pub space: u64,
    pub peer: Peer,
    /// Datagram sockets that send to this one if they do not say where to.
    pub followers: Vec<Number>,
    pub name: Option<Rc<Name>>,
    pub queue: Queue<R>,
    /// What it has sent that is in the queues of others.
    pub outgoing: Outgoing,
    /// Nothing more comes.
    pub is_over: bool,
    /// Nothing more is sent.
    pub is_mute: bool,
    /// What the next operation fails with.
    pub error: Option<Errno>,
    /// Somebody has it: it does not wait to be accepted.
    pub is_accepted: bool,
    /// Who has made it.
    pub user: User,
    /// Who was at the other end when the connection was made.
    pub peer_user: Option<User>,
    pub options: Options,
}

impl<R: Ring> Socket<R> {
    /// Where its abstract name is.
    pub fn place(&self) -> Place {
        (self.space, self.kind)
    }

    pub fn has_bounds(&self) -> bool {
        self.kind != Kind::Stream
    }

    /// May more be sent to it?
    pub fn has_room(&self) -> bool {
        self.queue.has_room(self.kind == Kind::Datagram)
    }
}

/// All of them.
pub struct Sockets<R> {
    pub(crate) table: Table<Socket<R>>,
    pub(crate) names: Names,
    /// Bytes that wait, by who has sent them.
    pub(crate) bytes: Shares,
    /// Sockets, by who has made them.
    users: Shares,
    /// Descriptors that were passed and nobody will read.
    lost: Vec<u32>,
    /// Files whose names are free again.
    released: Vec<u64>,
    /// Nanoseconds of the clock on the wall.
    pub(crate) now: i64,
    /// Queues of which something is lent.
    pub(crate) loans: usize,
}

impl<R> Default for Sockets<R> {
    fn default() -> Sockets<R> {
        Sockets {
            table: Table::default(),
            names: Names::default(),
            bytes: Shares::new(Limits::of(ALL_BYTES)),
            users: Shares::new(Limits::of(ALL_SOCKETS)),
            lost: Vec::new(),
            released: Vec::new(),
            now: 0,
            loans: 0,
        }
    }
}

impl<R: Ring> Sockets<R> {
    pub(crate) fn get(&self, number: Number) -> Result<&Socket<R>, Errno> {
        self.table.get(number as usize).ok_or(Errno::EBADF)
    }

    pub(crate) fn get_mut(&mut self, number: Number) -> Result<&mut Socket<R>, Errno> {
        self.table.get_mut(number as usize).ok_or(Errno::EBADF)
    }

    /// What the clock on the wall says, in nanoseconds: what is sent from now on is sent then.
    pub fn set_time(&mut self, now: i64) {
        self.now = now;
    }

    /// Makes a socket in the network name space with a number.
    ///
    /// # Errors
    /// `ENFILE`: the user has too many, or there is no memory.
    pub fn make(&mut self, kind: Kind, user: User, space: u64) -> Result<Number, Errno> {
        if !self.users.has_room(user.uid, 1) {
            return Err(Errno::ENFILE);
        }
        let socket = Socket {
            kind,
            space,
            peer: Peer::None,
            followers: Vec::new(),
            name: None,
            queue: Queue::default(),
            outgoing: Outgoing::default(),
            is_over: false,
            is_mute: false,
            error: None,
            is_accepted: true,
            user,
            peer_user: None,
            options: Options::default(),
        };
        let number = self.table.insert(socket).map_err(|_| Errno::ENFILE)?;
        self.users.take(user.uid, 1);
        Ok(number as Number)
    }

    /// Makes two that are connected.
    pub fn pair(&mut self, kind: Kind, user: User, space: u64) -> Result<[Number; 2], Errno> {
        let first = self.make(kind, user, space)?;
        let second = match self.make(kind, user, space) {
            Ok(second) => second,
            Err(error) => {
                self.remove(first, &mut Changes::new());
                return Err(error);
            }
        };
        self.join(first, second);
        Ok([first, second])
    }

    fn join(&mut self, first: Number, second: Number) {
        for (one, other) in [(first, second), (second, first)] {
            let user = self.get(other).map(|other| other.user).ok();
            if let Ok(socket) = self.get_mut(one) {
                (socket.peer, socket.peer_user) = (Peer::One(other), user);
                if socket.kind == Kind::Datagram {
                    socket.followers.push(other);
                }
            }
        }
    }

    /// Descriptors that were passed to it and not taken yet.
    pub fn passed(&self, number: Number) -> usize {
        self.get(number).map_or(0, |socket| socket.queue.passed())
    }

    /// What kind of messages it has.
    pub fn kind(&self, number: Number) -> Result<Kind, Errno> {
        Ok(self.get(number)?.kind)
    }

    /// Gives it a name.
    ///
    /// # Errors
    /// `EINVAL`: it has one; `EADDRINUSE`: another one has this one.
    pub fn bind(&mut self, number: Number, name: Name) -> Result<(), Errno> {
        self.may_bind(number)?;
        let place = self.get(number)?.place();
        let name = self.names.take(name, place, number)?;
        self.get_mut(number)?.name = Some(name);
        Ok(())
    }

    /// Gives it a name that nobody has.
    pub fn bind_any(&mut self, number: Number) -> Result<(), Errno> {
        let socket = self.get(number)?;
        if socket.name.is_some() {
            return Ok(());
        }
        let place = socket.place();
        let name = self.names.choose(place, number)?;
        self.get_mut(number)?.name = Some(name);
        Ok(())
    }

    /// `EINVAL`: it has a name.
    pub fn may_bind(&self, number: Number) -> Result<(), Errno> {
        match self.get(number)?.name {
            Some(_) => Err(Errno::EINVAL),
            None => Ok(()),
        }
    }

    /// The socket that has the name of a file.
    pub fn of_file(&self, file: u64) -> Result<Number, Errno> {
        self.names.file(file).ok_or(Errno::ECONNREFUSED)
    }

    /// The one that has an abstract name where another one is: kinds and network name spaces have names of their own.
    pub fn named(&self, number: Number, text: &[u8]) -> Result<Number, Errno> {
        let place = self.get(number)?.place();
        self.names.abstract_name(place, text).ok_or(Errno::ECONNREFUSED)
    }

    /// It accepts connections from now on.
    pub fn listen(
        &mut self,
        number: Number,
        backlog: u32,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let most = backlog.min(BACKLOG_MOST);
        let socket = self.get_mut(number)?;
        if socket.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        match &mut socket.peer {
            Peer::None if socket.name.is_none() => return Err(Errno::EINVAL),
            Peer::None => socket.peer = Peer::Listens { backlog: most, waiting: VecDeque::new() },
            Peer::Listens { backlog, .. } => *backlog = most,
            Peer::One(_) | Peer::Gone(_) => return Err(Errno::EINVAL),
        }
        changes.push((number, false));
        Ok(())
    }

    /// Connects it to another one, which has a name: a datagram socket sends there, others wait there to be accepted.
    ///
    /// # Errors
    /// `EAGAIN`: too many wait there. `EPROTOTYPE`, `ECONNREFUSED`, `EISCONN`, `EINVAL`, `EPERM` as Linux's.
    pub fn connect(
        &mut self,
        number: Number,
        to: Number,
        user: User,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let (kind, own) = (self.get(number)?.kind, &self.get(number)?.peer);
        let target = self.get(to)?;
        if kind == Kind::Datagram {
            return self.follow(number, to, changes);
        }
        if target.kind != kind {
            return Err(Errno::EPROTOTYPE);
        }
        let Peer::Listens { backlog, waiting } = &target.peer else {
            return Err(Errno::ECONNREFUSED);
        };
        let (is_shut, is_full) = (target.is_over, waiting.len() > *backlog as usize);
        match own {
            Peer::None => {}
            Peer::Listens { .. } => return Err(Errno::EINVAL),
            Peer::One(_) | Peer::Gone(_) => return Err(Errno::EISCONN),
        }
        if is_shut {
            return Err(Errno::ECONNREFUSED);
        }
        if is_full {
            return Err(Errno::EAGAIN);
        }
        let (name, listener, options) = (target.name.clone(), target.user, target.options);
        let space = target.space;
        let server = self.make(kind, user, space).map_err(|_| Errno::ENOMEM)?;
        self.join(number, server);
        let end = self.get_mut(server)?;
        end.is_accepted = false;
        (end.name, end.user, end.peer_user) = (name, listener, Some(user));
        end.options.tells_user = options.tells_user;
        // The user who has connected is charged for it, whoever accepts it.
        end.user.uid = user.uid;
        let client = self.get_mut(number)?;
        client.peer_user = Some(listener);
        if let Peer::Listens { waiting, .. } = &mut self.get_mut(to)?.peer {
            waiting.push_back(server);
        }
        changes.extend([(to, true), (number, false)]);
        Ok(())
    }

    /// A datagram socket sends to another one if it does not say where to.
    fn follow(&mut self, number: Number, to: Number, changes: &mut Changes) -> Result<(), Errno> {
        let target = self.get(to)?;
        if target.kind != Kind::Datagram {
            return Err(Errno::EPROTOTYPE);
        }
        if !target.takes_from(number) {
            return Err(Errno::EPERM);
        }
        self.unfollow(number, changes)?;
        self.get_mut(to)?.followers.push(number);
        self.get_mut(number)?.peer = Peer::One(to);
        changes.push((number, false));
        Ok(())
    }

    /// A datagram socket has nobody any more whom it sends to.
    ///
    /// # Errors
    /// `EINVAL`: it is another kind of socket.
    pub fn unfollow(&mut self, number: Number, changes: &mut Changes) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        if socket.kind != Kind::Datagram {
            return Err(Errno::EINVAL);
        }
        if let Peer::One(before) = core::mem::replace(&mut socket.peer, Peer::None) {
            if let Ok(before) = self.get_mut(before) {
                before.followers.retain(|one| *one != number);
            }
        }
        changes.push((number, false));
        Ok(())
    }

    /// The first who waits to be accepted.
    ///
    /// # Errors
    /// `EAGAIN`: nobody does; `EINVAL`: it does not listen; `EOPNOTSUPP`: it is for datagrams.
    pub fn accept(&mut self, number: Number, changes: &mut Changes) -> Result<Number, Errno> {
        let socket = self.get_mut(number)?;
        if socket.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let is_over = socket.is_over;
        let Peer::Listens { waiting, .. } = &mut socket.peer else { return Err(Errno::EINVAL) };
        match waiting.pop_front() {
            Some(accepted) => {
                changes.push((number, false));
                if let Ok(socket) = self.get_mut(accepted) {
                    socket.is_accepted = true;
                }
                Ok(accepted)
            }
            None if is_over => Err(Errno::EINVAL),
            None => Err(Errno::EAGAIN),
        }
    }

    /// One that was accepted goes back: there was no descriptor for it.
    pub fn accept_later(&mut self, number: Number, accepted: Number) {
        if let Ok(Socket { peer: Peer::Listens { waiting, .. }, .. }) = self.get_mut(number) {
            waiting.push_front(accepted);
        }
        if let Ok(socket) = self.get_mut(accepted) {
            socket.is_accepted = false;
        }
    }

    /// Nothing more is read, or sent, or both.
    ///
    /// # Errors
    /// `ENOTCONN`: it is not connected.
    pub fn shut_down(
        &mut self,
        number: Number,
        (read, write): (bool, bool),
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let socket = self.get_mut(number)?;
        socket.is_over |= read;
        socket.is_mute |= write;
        let (kind, peer) = (socket.kind, socket.peer.clone());
        self.end_loans(number);
        changes.push((number, read));
        if let (Peer::One(peer), true) = (peer, kind != Kind::Datagram) {
            if let Ok(peer) = self.get_mut(peer) {
                peer.is_over |= write;
                peer.is_mute |= read;
            }
            changes.push((peer, write));
        }
        Ok(())
    }

    /// Nobody has it any more. What waited there is lost, and so is who waited to be accepted.
    pub fn remove(&mut self, number: Number, changes: &mut Changes) {
        let mut all = Vec::from([(number, false)]);
        while let Some((number, was_waiting)) = all.pop() {
            self.end_loans(number);
            let Some(mut socket) = self.table.remove(number as usize) else { continue };
            self.users.give_back(socket.user.uid, 1);
            let is_reset = was_waiting || !socket.queue.is_empty();
            let place = socket.place();
            socket.queue.settled(&mut self.bytes).take().for_each(|message| self.forget(message));
            // An accepted one has that of who has accepted it.
            if let Some(name) = &socket.name {
                if self.names.is_of(name, place, number) {
                    self.names.give_back(name, place);
                    self.released.extend(name.file);
                }
            }
            match socket.peer {
                Peer::None | Peer::Gone(_) => {}
                Peer::Listens { waiting, .. } => {
                    all.extend(waiting.into_iter().map(|one| (one, true)))
                }
                Peer::One(peer) if socket.kind == Kind::Datagram => {
                    if let Ok(peer) = self.get_mut(peer) {
                        peer.followers.retain(|one| *one != number);
                    }
                }
                Peer::One(peer) => self.leave(peer, (socket.name.clone(), is_reset), changes),
            }
            for follower in socket.followers {
                if let Ok(one) = self.get_mut(follower) {
                    if matches!(one.peer, Peer::One(peer) if peer == number) {
                        one.peer = Peer::Gone(socket.name.clone());
                    }
                }
                changes.push((follower, false));
            }
            // Whoever waits for room there hears that it is gone.
            changes.push((number, false));
        }
    }

    /// The other end of a connection has gone, which had a name, or had not read all, or was never accepted.
    fn leave(
        &mut self,
        number: Number,
        (name, is_reset): (Option<Rc<Name>>, bool),
        changes: &mut Changes,
    ) {
        let Ok(socket) = self.get_mut(number) else { return };
        socket.peer = Peer::Gone(name);
        (socket.is_over, socket.is_mute) = (true, true);
        if is_reset {
            socket.error = Some(Errno::ECONNRESET);
        }
        changes.push((number, true));
    }

    /// A message is gone: its bytes are free, and what came with it is lost.
    pub(crate) fn forget(&mut self, mut message: Message) {
        self.bytes.give_back(message.charged, message.charge());
        self.lost.append(&mut message.rights);
    }

    /// A descriptor that was passed, and that nobody will read.
    pub fn take_lost(&mut self) -> Option<u32> {
        self.lost.pop()
    }

    /// A file whose name is free again.
    pub fn take_released(&mut self) -> Option<u64> {
        self.released.pop()
    }

    /// `POLL*` bits.
    pub fn ready(&self, number: Number) -> u16 {
        self.state(number, Queue::is_empty)
    }

    /// The same as it is told to who looks into what is lent: that stays open, and counts as nothing.
    pub fn told(&self, number: Number) -> u16 {
        self.state(number, Queue::looks_empty)
    }

    fn state(&self, number: Number, is_empty: impl Fn(&Queue<R>) -> bool) -> u16 {
        const READABLE: u16 = POLLIN | POLLRDNORM;
        const WRITABLE: u16 = POLLOUT | POLLWRNORM;
        let Ok(socket) = self.get(number) else { return POLLNVAL };
        let mut bits = 0;
        if socket.error.is_some() {
            bits |= POLLERR;
        }
        if socket.is_over {
            bits |= READABLE | POLLRDHUP;
        }
        if socket.is_over && socket.is_mute {
            bits |= POLLHUP;
        }
        if !is_empty(&socket.queue) {
            bits |= READABLE;
        }
        let has_room = |to: Number| self.get(to).map_or(true, |to| to.has_room());
        bits | match &socket.peer {
            Peer::Listens { waiting, .. } if waiting.is_empty() => 0,
            Peer::Listens { .. } => READABLE,
            Peer::None if socket.kind != Kind::Datagram => POLLHUP | WRITABLE,
            Peer::None | Peer::Gone(_) => WRITABLE,
            Peer::One(peer) if has_room(*peer) => WRITABLE,
            Peer::One(_) => 0,
        }
    }

    /// Its name, or that of the other end, as it was given; empty if there is none.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no other end.
    pub fn name(&self, number: Number, of_peer: bool) -> Result<&[u8], Errno> {
        let socket = self.get(number)?;
        let name = match (of_peer, &socket.peer) {
            (false, _) => &socket.name,
            (true, Peer::One(peer)) => &self.get(*peer).map_err(|_| Errno::ENOTCONN)?.name,
            (true, Peer::Gone(name)) => name,
            (true, Peer::None | Peer::Listens { .. }) => return Err(Errno::ENOTCONN),
        };
        Ok(name.as_ref().map_or(&[], |name| &name.text))
    }

    /// Who was at the other end when the connection was made.
    pub fn peer_user(&self, number: Number) -> Result<Option<User>, Errno> {
        Ok(self.get(number)?.peer_user)
    }

    /// Does it accept connections?
    pub fn listens(&self, number: Number) -> Result<bool, Errno> {
        Ok(matches!(self.get(number)?.peer, Peer::Listens { .. }))
    }

    /// What the next operation would fail with; it does not any more.
    pub fn take_error(&mut self, number: Number) -> Result<Option<Errno>, Errno> {
        Ok(self.get_mut(number)?.error.take())
    }

    /// Its options.
    pub fn options(&self, number: Number) -> Result<Options, Errno> {
        Ok(self.get(number)?.options)
    }

    /// Changes its options.
    pub fn set_options(&mut self, number: Number, options: Options) -> Result<(), Errno> {
        self.end_loans(number);
        self.get_mut(number)?.options = options;
        Ok(())
    }

    /// Bytes that can be read: of datagrams, those of the first.
    pub fn unread(&self, number: Number) -> Result<usize, Errno> {
        let socket = self.get(number)?;
        match &socket.peer {
            Peer::Listens { .. } => Err(Errno::EINVAL),
            _ if socket.kind == Kind::Datagram => Ok(socket.queue.first_bytes()),
            _ => Ok(socket.queue.bytes()),
        }
    }

    /// What it has sent and nobody has taken (`SIOCOUTQ`): bytes, and overhead for each message as on Linux, whose amount is no promise.
    pub fn unsent(&mut self, number: Number) -> Result<usize, Errno> {
        if let Some(peer) = self.peer(number) {
            let Sockets { table, bytes, .. } = self;
            if let Some(peer) = table.get_mut(peer as usize) {
                peer.queue.settled(bytes);
            }
        }
        Ok(self.get(number)?.outgoing.get())
    }
}

impl<R> Socket<R> {
    /// Does it take datagrams of another one? Not if it has somebody of its own whom it talks with.
    pub fn takes_from(&self, number: Number) -> bool {
        match self.peer {
            Peer::One(peer) => peer == number,
            _ => true,
        }
    }
}
