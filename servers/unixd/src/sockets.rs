//! Local sockets, and what they have in common with [those of the internet](crate::inet). What they are is in the crate `sockets`; here are who waits for them, their names in the tree, and the
//! descriptions that are passed from one process to another.

use crate::descs::{Desc, Descs, Heirs, Object};
use crate::effects::Effects;
use crate::nodes::Node;
use crate::notify::FileEvent;
use crate::open::Opening;
use crate::peers::{Closed, Ring};
use crate::pipes::broken;
use crate::procs::{Pid, INIT};
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried, WaitersOf};
use crate::watches::Source;
use alloc::boxed::Box;
use alloc::vec::Vec;
use credentials::Capability;
use files::Claim;
use memfs::{Attr, Ino};
use notices::mask;
use sockets::{Changes, Kind, Name, Number, Options, Received, Target, User, RIGHTS_MOST};
use unixproto::files::{CWD, O_NONBLOCK, O_RDWR};
use unixproto::ops::{Accepted, PipeEnds};
use unixproto::session::DATA_BYTES;
use unixproto::sockets::*;
use unixproto::{op, Errno};

/// Bytes of what is told about a sender.
pub const USER_BYTES: usize = 12;
/// Longest name: `sun_path`.
const NAME_MOST: usize = 108;
/// Bytes behind those that were received.
pub const BEHIND: usize = 4 * RIGHTS_MOST + USER_BYTES + FAMILY_BYTES + NAME_MOST + CONTROL_BYTES;
/// Least that `SO_SNDBUF` and `SO_RCVBUF` tell, and most.
const BUFFER: core::ops::RangeInclusive<u64> = 2304..=425_984;

/// All sockets, and who waits for one.
#[derive(Default)]
pub struct Sockets {
    pub all: sockets::Sockets<Box<Ring>>,
    waiters: WaitersOf<Number>,
    /// Rings that were closed.
    closed: Closed,
    /// Those of the internet.
    pub inet: crate::inet::Sockets,
}

impl Sockets {
    /// A thread waits for something to happen to a socket.
    pub fn wait(&mut self, number: Number, tid: Tid) {
        self.waiters.add(number, tid);
    }

    /// `POLL*` bits.
    pub fn ready(&self, number: Number) -> u16 {
        self.all.ready(number)
    }

    /// The same as it is told to who looks into what is lent.
    pub fn told_of(&self, number: Number) -> u16 {
        self.all.told(number)
    }

    /// Something has happened to sockets.
    pub fn told(&mut self, changes: Changes, fx: &mut Effects) {
        for (number, data) in changes {
            self.waiters.wake(&number, fx);
            fx.changed(Source::Socket(number), data);
        }
    }

    /// Where rings that are closed are noted.
    pub fn closings(&self) -> Closed {
        self.closed.clone()
    }

    /// Were rings closed that somebody watches?
    #[inline]
    pub fn has_closed(&self) -> bool {
        !self.closed.borrow().is_empty()
    }

    /// Which.
    pub fn take_closed(&self) -> Vec<Number> {
        self.closed.take()
    }

    /// Can what is lent of what comes to a socket be used, if nobody watches it?
    pub fn is_at_rest(&mut self, number: Number) -> bool {
        self.all.is_at_rest(number) && !self.waiters.has(&number)
    }

    /// A process does not hold a description of a socket any more: if it had something lent for that, it has not.
    pub fn let_go(&mut self, number: Number, descs: &Descs) {
        if !self.all.has_loans() {
            return;
        }
        let peer = self.all.peer(number);
        for number in core::iter::once(number).chain(peer) {
            if self.all.ring(number).is_ok_and(|ring| ring.is_returned(descs)) {
                self.all.end_loan(number);
            }
        }
    }

    /// Nobody has a socket any more.
    pub fn closed(&mut self, number: Number, fx: &mut Effects) {
        let mut changes = Changes::new();
        self.all.remove(number, &mut changes);
        self.told(changes, fx);
    }
}

/// The socket that a description is of.
fn socket_of(desc: &Desc) -> Result<Number, Errno> {
    match desc.object {
        Object::Socket(number) => Ok(number),
        _ => Err(Errno::ENOTSOCK),
    }
}

/// The path, or the abstract name, of an address: what follows the family, if that is the local one.
fn text_of(address: &[u8]) -> Result<&[u8], Errno> {
    match address.split_first_chunk() {
        Some((&family, text)) if text.len() <= NAME_MOST => {
            match u16::from_ne_bytes(family) == AF_UNIX {
                true => Ok(text),
                false => Err(Errno::EINVAL),
            }
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Which directions `shutdown` ends: what is received, what is sent.
pub fn directions(how: u32) -> Result<(bool, bool), Errno> {
    match how {
        SHUT_RD => Ok((true, false)),
        SHUT_WR => Ok((false, true)),
        SHUT_RDWR => Ok((true, true)),
        _ => Err(Errno::EINVAL),
    }
}

/// What came of `recv`, for `read`.
pub fn just_counted(outcome: Outcome) -> Tried {
    match outcome {
        Outcome::Done(words) => {
            let received = <unixproto::ops::Received as unixproto::Reply>::decode(&words)?;
            count(received.count as usize)
        }
        outcome => Ok(outcome),
    }
}

fn kind_of(kind: u32) -> Result<Kind, Errno> {
    match kind {
        SOCK_STREAM => Ok(Kind::Stream),
        SOCK_DGRAM | SOCK_RAW => Ok(Kind::Datagram),
        SOCK_SEQPACKET => Ok(Kind::Packets),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// The path of an address, which may have a NUL behind it.
fn path(address: &[u8]) -> &[u8] {
    address.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

impl Opening<'_> {
    /// The socket of a description, and whether that never waits.
    fn socket(&self, id: u32) -> Result<(Number, bool), Errno> {
        let desc = self.handles.descs.of(self.caller.pid, id)?;
        Ok((socket_of(desc)?, desc.nonblocking()))
    }

    /// Who the caller is, as others are told.
    fn user(&self) -> Result<User, Errno> {
        let pid = self.caller.pid;
        let who = &self.procs.get(pid)?.who;
        Ok(User { pid, uid: who.users.effective, gid: who.groups.effective })
    }

    /// The network name space that its sockets are of, which have abstract names there.
    fn net(&self) -> Result<u64, Errno> {
        Ok(self.procs.get(self.caller.pid)?.spaces.net_number())
    }

    fn told(&mut self, changes: Changes) {
        self.handles.sockets.told(changes, self.handles.fx);
        self.handles.let_go_lost();
    }

    /// The caller waits for a socket.
    fn wait_for(&mut self, number: Number, times: (bool, u64), call: &Call) -> Tried {
        let waits = self.for_so_long(times, call)?;
        self.handles.sockets.wait(number, self.caller.tid);
        Ok(waits)
    }

    /// A request waits, for so many nanoseconds (0: for ever), unless it is to be answered `now`.
    ///
    /// # Errors
    /// `EAGAIN`: it does not, or has.
    pub fn for_so_long(&self, (now, ns): (bool, u64), call: &Call) -> Tried {
        match now || call.late {
            true => Err(Errno::EAGAIN),
            false => Ok(Outcome::Block(if ns == 0 { 0 } else { self.handles.clock.deadline(ns) })),
        }
    }

    /// Makes a description of a socket that nobody has.
    fn describe_socket(&mut self, number: Number, flags: u32) -> Result<u32, Errno> {
        let flags = O_RDWR | flags & O_NONBLOCK;
        self.open_desc(Object::Socket(number), flags, None, Claim::None)
    }

    /// `socket`.
    pub fn make_socket(&mut self, op: op::Socket) -> Tried {
        if op.domain != AF_UNIX.into() {
            return self.make_inet(op);
        }
        self.room(1)?;
        let (kind, user) = (kind_of(op.kind)?, self.user()?);
        let space = self.net()?;
        let number = self.handles.sockets.all.make(kind, user, space)?;
        self.opened(Object::Socket(number), O_RDWR | op.flags & O_NONBLOCK, None, Claim::None)
    }

    /// `socketpair`.
    pub fn make_pair(&mut self, op: op::SocketPair) -> Tried {
        self.room(2)?;
        let (kind, user) = (kind_of(op.kind)?, self.user()?);
        let space = self.net()?;
        let [first, second] = self.handles.sockets.all.pair(kind, user, space)?;
        let read = self.describe_socket(first, op.flags);
        let write = self.describe_socket(second, op.flags);
        match (read, write) {
            (Ok(read), Ok(write)) => done(PipeEnds { read, write }),
            (read, write) => {
                for id in [read, write].into_iter().flatten() {
                    self.handles.close(self.caller.pid, id);
                }
                Err(Errno::ENFILE)
            }
        }
    }

    /// `bind`.
    pub fn bind(&mut self, call: &Call, op: op::Bind) -> Tried {
        let (number, _) = self.socket(op.desc)?;
        let address = self.address(call)?;
        if address.is_empty() {
            self.handles.sockets.all.bind_any(number)?;
            return done(());
        }
        self.handles.sockets.all.may_bind(number)?;
        if address[0] == 0 {
            self.handles.sockets.all.bind(number, Name::abstract_name(address))?;
            return done(());
        }
        let found = self.view()?.walk(CWD, path(&address), false)?;
        if found.node.is_some() {
            return Err(Errno::EADDRINUSE);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        let Node::Mem(dir) = found.parent else { return Err(Errno::EPERM) };
        self.handles.tree.may_write(found.above)?;
        if self.stock.has_no_names(self.cred().uid) {
            return Err(Errno::ENOSPC);
        }
        let attr =
            Attr { mode: op.mode & 0o777, cred: self.cred(), now: self.handles.clock.wall() };
        let names = self.handles.tree.files_mut().names_mut();
        let ino = names.create(dir, &found.name, memfs::Node::Socket, attr)?;
        let created = || FileEvent::of_name(mask::CREATE, dir, &found.name, false);
        self.handles.fx.observe(created);
        self.handles.tree.hold(Node::Mem(ino));
        let mut text = path(&address).to_vec();
        text.push(0);
        let bound = self.handles.sockets.all.bind(number, Name::of_file(ino.0.into(), text));
        if let Err(error) = bound {
            self.handles.release(Node::Mem(ino));
            return Err(error);
        }
        done(())
    }

    fn address(&self, call: &Call) -> Result<Vec<u8>, Errno> {
        let mut address = self.procs.a(self.caller, call)?;
        text_of(&address)?;
        address.drain(..FAMILY_BYTES);
        Ok(address)
    }

    /// The socket at an address that another one means.
    fn named(&self, address: &[u8], number: Number) -> Result<Number, Errno> {
        let all = &self.handles.sockets.all;
        if address.first() == Some(&0) {
            return all.named(number, address);
        }
        let node = self.view()?.walk(CWD, path(address), true)?.existing()?;
        let Node::Mem(ino) = node else { return Err(Errno::ECONNREFUSED) };
        let inode = self.names().get(ino)?;
        inode.permits(&self.cred(), memfs::WRITE)?;
        match inode.node {
            memfs::Node::Socket => all.of_file(ino.0.into()),
            _ => Err(Errno::ECONNREFUSED),
        }
    }

    /// `connect`.
    pub fn connect(&mut self, call: &Call, op: op::Connect) -> Tried {
        let (number, now) = self.socket(op.desc)?;
        let mut changes = Changes::new();
        if self.procs.a(self.caller, call)?.starts_with(&AF_UNSPEC.to_ne_bytes()) {
            self.handles.sockets.all.unfollow(number, &mut changes)?;
            self.told(changes);
            return done(());
        }
        let address = self.address(call)?;
        if address.is_empty() {
            return Err(Errno::EINVAL);
        }
        let (to, user) = (self.named(&address, number)?, self.user()?);
        match self.handles.sockets.all.connect(number, to, user, &mut changes) {
            Err(Errno::EAGAIN) => {
                let ns = self.handles.sockets.all.options(number)?.send_ns;
                self.wait_for(to, (now, ns), call)
            }
            result => {
                result?;
                self.told(changes);
                done(())
            }
        }
    }

    /// `listen`.
    pub fn listen(&mut self, op: op::Listen) -> Tried {
        let (number, _) = self.socket(op.desc)?;
        let mut changes = Changes::new();
        self.handles.sockets.all.listen(number, op.backlog, &mut changes)?;
        self.told(changes);
        done(())
    }

    /// `accept`.
    pub fn accept(&mut self, call: &Call, op: op::Accept) -> Tried {
        let (number, now) = self.socket(op.desc)?;
        self.room(1)?;
        let mut changes = Changes::new();
        let accepted = match self.handles.sockets.all.accept(number, &mut changes) {
            Err(Errno::EAGAIN) => {
                let ns = self.handles.sockets.all.options(number)?.receive_ns;
                return self.wait_for(number, (now, ns), call);
            }
            accepted => accepted?,
        };
        self.told(changes);
        let mut name = 0;
        // Whoever has gone again has none.
        if let (true, Ok(text)) = (op.named, self.name_of_socket(accepted, true)) {
            self.procs.put(self.caller, &text)?;
            name = text.len() as u32;
        }
        let desc = self.describe_socket(accepted, op.flags)?;
        done(Accepted { desc, name })
    }

    /// Sends byte string `a`, for `write` and for `send`.
    pub fn send(&mut self, call: &mut Call, op: op::Send) -> Tried {
        let (number, nonblocking) = self.socket(op.desc)?;
        let now = nonblocking || op.flags & MSG_DONTWAIT != 0;
        if op.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if op.flags & CONTINUED != 0 && call.lengths.0 == 0 {
            // The end of a call, of which nothing is told.
            return count(0);
        }
        let bytes = self.procs.a(self.caller, call)?;
        let along = self.procs.b(self.caller, call)?;
        let rights = op.rights as usize;
        let users = if op.tells { USER_BYTES } else { 0 };
        if rights > RIGHTS_MOST || along.len() < 4 * rights + users {
            return Err(Errno::EINVAL);
        }
        let (rights, rest) = along.split_at(4 * rights);
        let (who, rest) = rest.split_at(users);
        // Those of other levels than the sockets' own mean nothing here; those of that are about descriptors and users, and came otherwise.
        let (control, address) = rest.split_at_checked(op.control as usize).ok_or(Errno::EINVAL)?;
        if inet::stamps_of(control)?.is_some() {
            return Err(Errno::EINVAL);
        }
        let rights: Vec<u32> = words(rights).collect();
        let user = match op.tells {
            true => self.claimed_user(who)?,
            false => self.user()?,
        };
        let target = match address {
            [] => Target::Peer,
            address => match self.handles.sockets.all.kind(number)? {
                Kind::Stream if self.handles.sockets.all.name(number, true).is_ok() => {
                    return Err(Errno::EISCONN);
                }
                Kind::Stream => return Err(Errno::EOPNOTSUPP),
                Kind::Datagram => match text_of(address)? {
                    [] => return Err(Errno::EINVAL),
                    text => Target::One(self.named(text, number)?),
                },
                // It is not looked at.
                Kind::Packets => Target::Peer,
            },
        };
        let pid = self.caller.pid;
        for &id in &rights {
            if self.handles.descs.of(pid, id)?.heirs != Heirs::Both {
                return Err(Errno::EBADF);
            }
        }
        // What is passed along goes with the first byte.
        let along = if call.done == 0 { &rights[..] } else { &[] };
        let mut changes = Changes::new();
        let piece = (&bytes[call.done.min(bytes.len())..], along);
        let wall = self.handles.clock.wall();
        self.handles.sockets.all.set_time(wall);
        let sent = self.handles.sockets.all.send(number, target, piece, user, &mut changes);
        match sent {
            Ok(bytes) => {
                if !along.is_empty() && (bytes > 0 || call.lengths.0 == 0) {
                    along.iter().for_each(|&id| self.handles.descs.pass(id));
                }
                call.done += bytes;
                self.told(changes);
                if call.done >= call.lengths.0 || now {
                    return count(call.done);
                }
            }
            Err(Errno::EAGAIN) if now && call.done > 0 => return count(call.done),
            Err(Errno::EAGAIN) => {}
            Err(Errno::EPIPE) if op.flags & MSG_NOSIGNAL == 0 => {
                return broken(self.caller, call.done, self.handles.fx);
            }
            Err(_) if call.done > 0 => return count(call.done),
            Err(error) => return Err(error),
        }
        let ns = self.handles.sockets.all.options(number)?.send_ns;
        // Of one that sends to others, these are what it waits for.
        let waits_for = match target {
            Target::One(to) => to,
            Target::Peer => number,
        };
        match self.wait_for(waits_for, (now, ns), call) {
            Err(Errno::EAGAIN) if call.done > 0 => count(call.done),
            outcome => outcome,
        }
    }

    /// Who a sender says that it is, if it may say so.
    fn claimed_user(&self, who: &[u8]) -> Result<User, Errno> {
        let mut words = words(who);
        let mut next = || words.next().unwrap_or_default();
        let proc = self.procs.get(self.caller.pid)?;
        let pid = self.procs.id_in(&proc.pids, next());
        let claimed = User { pid, uid: next(), gid: next() };
        let is_one = |id: u32, ids: [u32; 3]| ids.contains(&id);
        let who = &proc.who;
        let users = [who.users.real, who.users.effective, who.users.saved];
        let groups = [who.groups.real, who.groups.effective, who.groups.saved];
        let may = (claimed.pid == self.caller.pid || who.has(Capability::SysAdmin))
            && (is_one(claimed.uid, users) || who.has(Capability::Setuid))
            && (is_one(claimed.gid, groups) || who.has(Capability::Setgid));
        match may {
            true if claimed.pid == INIT || self.procs.is_used(claimed.pid) => Ok(claimed),
            true => Err(Errno::ESRCH),
            false => Err(Errno::EPERM),
        }
    }

    /// Receives, for `recv` and its relatives.
    pub fn receive(&mut self, call: &Call, op: op::Receive) -> Tried {
        let (number, nonblocking) = self.socket(op.desc)?;
        let now = nonblocking || op.flags & MSG_DONTWAIT != 0;
        if op.flags & MSG_OOB != 0 {
            return match self.handles.sockets.all.kind(number)? {
                Kind::Stream => Err(Errno::EINVAL),
                Kind::Datagram | Kind::Packets => Err(Errno::EOPNOTSUPP),
            };
        }
        let most = (op.bytes as usize).min(DATA_BYTES - BEHIND);
        let looks = op.flags & MSG_PEEK != 0;
        let mut changes = Changes::new();
        let wall = self.handles.clock.wall();
        self.handles.sockets.all.set_time(wall);
        let received = match self.handles.sockets.all.receive(number, most, looks, &mut changes) {
            Err(Errno::EAGAIN) => {
                let ns = self.handles.sockets.all.options(number)?.receive_ns;
                return self.wait_for(number, (now, ns), call);
            }
            received => received?,
        };
        let outcome = self.hand_over(received, (op.rights as usize, looks));
        self.told(changes);
        outcome
    }

    /// Gives the caller what was received.
    fn hand_over(&mut self, received: Received, (most, looks): (usize, bool)) -> Tried {
        let Received { mut bytes, full, rights, user, from, sent } = received;
        let (pid, uid) = (self.caller.pid, self.cred().uid);
        let (count, all) = (bytes.len() as u64, rights.len());
        let mut given = 0;
        for id in rights {
            let has_room = given < most && self.handles.descs.room(pid, uid, 1).is_ok();
            if !has_room && !looks {
                self.handles.drop_passed(id);
            }
            if !has_room {
                continue;
            }
            self.handles.descs.receive(pid, id, looks);
            bytes.extend_from_slice(&id.to_le_bytes());
            given += 1;
        }
        let before = bytes.len();
        let users = if user.is_some() { USER_BYTES } else { 0 };
        if let Some(User { pid, uid, gid }) = user {
            let pid = self.procs.number_for(self.caller.pid, pid);
            [pid, uid, gid].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        }
        if let Some(name) = from {
            bytes.extend_from_slice(&AF_UNIX.to_ne_bytes());
            bytes.extend_from_slice(&name.text);
        }
        let name = bytes.len() - before - users;
        if let Some((option, ns)) = sent {
            // `struct cmsghdr`, and the time.
            const SOL_SOCKET: u32 = 1;
            let time = time_told(option, ns);
            bytes.extend_from_slice(&(16 + time.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&SOL_SOCKET.to_le_bytes());
            bytes.extend_from_slice(&option.to_le_bytes());
            bytes.extend_from_slice(&time);
        }
        let control = bytes.len() - before - users - name;
        self.procs.put(self.caller, &bytes)?;
        done(unixproto::ops::Received {
            count,
            full: full as u64,
            rights: given as u32,
            told: Behind { user: users, name, control }.pack(),
            is_cut: given < all,
        })
    }

    /// Reads, for `read`.
    pub fn read_socket(&mut self, call: &Call, desc: u32, bytes: usize) -> Tried {
        let op = op::Receive { desc, bytes: bytes as u32, flags: 0, rights: 0 };
        just_counted(self.receive(call, op)?)
    }

    /// `getsockname`, `getpeername`.
    pub fn socket_name(&mut self, op: op::SocketName) -> Tried {
        let (number, _) = self.socket(op.desc)?;
        let name = self.name_of_socket(number, op.peer)?;
        self.procs.put(self.caller, &name)?;
        count(name.len())
    }

    /// The name of a socket, or of the other end, with its family.
    fn name_of_socket(&self, number: Number, peer: bool) -> Result<Vec<u8>, Errno> {
        let name = self.handles.sockets.all.name(number, peer)?;
        Ok([&AF_UNIX.to_ne_bytes(), name].concat())
    }

    /// `shutdown`.
    pub fn shut_down(&mut self, op: op::ShutDown) -> Tried {
        let (number, _) = self.socket(op.desc)?;
        let how = directions(op.how)?;
        let mut changes = Changes::new();
        self.handles.sockets.all.shut_down(number, how, &mut changes)?;
        self.told(changes);
        done(())
    }

    /// `getsockopt`.
    pub fn socket_option(&mut self, op: op::GetSocketOption) -> Tried {
        let (number, _) = self.socket(op.desc)?;
        let all = &mut self.handles.sockets.all;
        let options = all.options(number)?;
        let value = match op.option {
            SO_PEERCRED => {
                let unknown = User { pid: 0, uid: u32::MAX, gid: u32::MAX };
                let User { pid, uid, gid } = all.peer_user(number)?.unwrap_or(unknown);
                let pid = self.procs.number_for(self.caller.pid, pid);
                let bytes: Vec<u8> =
                    [pid, uid, gid].iter().flat_map(|it| it.to_le_bytes()).collect();
                self.procs.put(self.caller, &bytes)?;
                return count(bytes.len());
            }
            SO_TYPE => match all.kind(number)? {
                Kind::Stream => SOCK_STREAM.into(),
                Kind::Datagram => SOCK_DGRAM.into(),
                Kind::Packets => SOCK_SEQPACKET.into(),
            },
            SO_ERROR => all.take_error(number)?.map_or(0, |error| error.0.into()),
            SO_DOMAIN => AF_UNIX.into(),
            SO_PROTOCOL => 0,
            SO_ACCEPTCONN => all.listens(number)?.into(),
            SO_PASSCRED => options.tells_user.into(),
            SO_SNDBUF => options.send_bytes.into(),
            SO_RCVBUF => options.receive_bytes.into(),
            SO_SNDTIMEO => options.send_ns,
            SO_RCVTIMEO => options.receive_ns,
            SO_RCVLOWAT | SO_SNDLOWAT => 1,
            SO_ZEROCOPY => 0,
            // As Linux has it, the one in nanoseconds counts as both new ones.
            SO_TIMESTAMP_NEW if options.times == Some(SO_TIMESTAMPNS_NEW) => 1,
            option if TIMES.contains(&option) => (options.times == Some(option)).into(),
            option if is_flag(option) => options.flags >> option & 1,
            option => return Err(unknown(option)),
        };
        self.procs.put(self.caller, &value.to_le_bytes())?;
        count(size_of_val(&value))
    }

    /// `setsockopt`.
    pub fn set_socket_option(&mut self, op: op::SetSocketOption) -> Tried {
        let (number, _) = self.socket(op.desc)?;
        let before = self.handles.sockets.all.options(number)?;
        // As Linux does, which counts overhead, too.
        let buffer =
            |value: u64| value.saturating_mul(2).clamp(*BUFFER.start(), *BUFFER.end()) as u32;
        let options = match op.option {
            SO_PASSCRED => Options { tells_user: op.value != 0, ..before },
            SO_SNDBUF | SO_SNDBUFFORCE => Options { send_bytes: buffer(op.value), ..before },
            SO_RCVBUF | SO_RCVBUFFORCE => Options { receive_bytes: buffer(op.value), ..before },
            SO_SNDTIMEO => Options { send_ns: op.value, ..before },
            SO_RCVTIMEO => Options { receive_ns: op.value, ..before },
            SO_RCVLOWAT => before,
            SO_ZEROCOPY => return Err(Errno::EOPNOTSUPP),
            option if TIMES.contains(&option) => {
                Options { times: (op.value != 0).then_some(option), ..before }
            }
            option if is_flag(option) => {
                let bit = 1 << option;
                let flags = if op.value != 0 { before.flags | bit } else { before.flags & !bit };
                Options { flags, ..before }
            }
            option => return Err(unknown(option)),
        };
        self.handles.sockets.all.set_options(number, options)?;
        done(())
    }
}

impl Opening<'_> {
    /// `setsockopt`, of an option whose value is a structure: of those there is none here.
    pub fn set_socket_bytes(&mut self, op: op::SetSocketBytes) -> Tried {
        self.socket(op.desc)?;
        Err(unknown(op.option))
    }
}

/// The error of an option that there is not, here or at any other level.
fn unknown(option: u32) -> Errno {
    match option < 1 << 16 {
        true => Errno::ENOPROTOOPT,
        false => Errno::EOPNOTSUPP,
    }
}

/// Is an option kept, without any effect?
fn is_flag(option: u32) -> bool {
    matches!(
        option,
        SO_DEBUG
            | SO_REUSEADDR
            | SO_DONTROUTE
            | SO_BROADCAST
            | SO_KEEPALIVE
            | SO_OOBINLINE
            | SO_NO_CHECK
            | SO_PRIORITY
            | SO_LINGER
            | SO_REUSEPORT
            | SO_PASSSEC
    )
}

impl crate::descs::Handles<'_> {
    /// What was passed along and nobody will read is let go; and the files whose names are free.
    pub fn let_go_lost(&mut self) {
        loop {
            if let Some(id) = self.sockets.all.take_lost() {
                self.drop_passed(id);
            } else if let Some(file) = self.sockets.all.take_released() {
                self.release(Node::Mem(Ino(file as _)));
            } else {
                return;
            }
        }
    }

    /// A description that was passed along is nobody's.
    fn drop_passed(&mut self, id: u32) {
        const NOBODY: Pid = 0;
        self.let_go(NOBODY, id);
    }
}
