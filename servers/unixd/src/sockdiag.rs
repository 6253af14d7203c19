//! What programs ask about sockets by messages (`NETLINK_SOCK_DIAG`): who is asked, and what is told of local ones. Of those of the internet the crate `inet`
//! tells.
//!
//! All sockets do not fit in a socket's queue. The next packet is made when those before it were read.

use crate::inet::inode;
use crate::nodes::Tree;
use crate::open::Opening;
use crate::pathops::DEVICE;
use crate::peers::Ring;
use crate::volumes::device_of_volume;
use alloc::boxed::Box;
use alloc::vec::Vec;
use inet::diag::{BY_FAMILY, DESTROY};
use inet::netlink::{Dump, Request, PACKET};
use inet::{Changes, Number};
use memfs::Ino;
use sockets::{Kind, Row};
use unixproto::sockets::*;
use unixproto::Errno;

/// One more than the last family that Linux has.
const FAMILIES: u16 = 46;
/// Bytes of `struct unix_diag_req`.
const REQUEST_BYTES: usize = 24;
/// Where in it is: states, an inode, what is to be told, a cookie.
const STATES: usize = 4;
const INODE: usize = 8;
const SHOWN: usize = 12;
const COOKIE: usize = 16;
/// `UNIX_DIAG_*`: what is told. It is asked for by the bit of its number, but for the last two.
const NAME: u32 = 0;
const FILE: u32 = 1;
const PEER: u32 = 2;
const PENDING: u32 = 3;
const QUEUES: u32 = 4;
const MEMORY: u32 = 5;
const SHUTDOWN: u32 = 6;
const USER: u32 = 7;
const WANTS_USER: u32 = 6;

/// Of inodes of local sockets. Programs take no number for one that has a single digit.
const INODES: u32 = 1 << 19;

/// The number by which programs know a local socket.
pub fn local_inode(number: sockets::Number) -> u32 {
    INODES + number
}

/// One that is nobody's has none.
fn shown(number: Option<sockets::Number>) -> [u8; 4] {
    number.map_or(0, local_inode).to_ne_bytes()
}

/// As programs know kinds.
pub fn kind_number(kind: Kind) -> u32 {
    match kind {
        Kind::Stream => SOCK_STREAM,
        Kind::Datagram => SOCK_DGRAM,
        Kind::Packets => SOCK_SEQPACKET,
    }
}

/// Where local sockets of a name space are told of.
struct Locals<'a> {
    all: &'a sockets::Sockets<Box<Ring>>,
    tree: &'a Tree,
    space: u64,
}

impl Locals<'_> {
    /// A packet of what is told, from a socket on, and which one comes next.
    fn packet(&self, request: &Request<'_>, first: Number) -> Result<(Vec<u8>, Number), Errno> {
        let states = request.word(STATES).ok_or(Errno::EINVAL)?;
        let mut bytes = Vec::new();
        for row in self.all.rows(self.space, first) {
            if states >> row.state as u32 & 1 == 0 {
                continue;
            }
            let (number, message) = (row.number, self.tell(request, row));
            if !bytes.is_empty() && bytes.len() + message.len() > PACKET {
                return Ok((bytes, number));
            }
            bytes.extend(message);
        }
        Ok((bytes, Number::MAX))
    }

    /// What is told of one.
    fn one(&self, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        let number = match request.word(INODE) {
            None | Some(0) => return Err(Errno::EINVAL),
            Some(inode) => inode.checked_sub(INODES).ok_or(Errno::ENOENT)?,
        };
        let row = self.all.row_of(self.space, number).ok_or(Errno::ENOENT)?;
        match (request.word(COOKIE), request.word(COOKIE + 4)) {
            (Some(u32::MAX), Some(u32::MAX)) => {}
            (Some(low), Some(0)) if low == local_inode(number) => {}
            _ => return Err(Errno::ESTALE),
        }
        Ok(self.tell(request, row))
    }

    fn tell(&self, request: &Request<'_>, row: Row<'_>) -> Vec<u8> {
        let wanted = request.word(SHOWN).unwrap_or(0);
        let wants = |what: u32| wanted >> what & 1 != 0;
        let inode = local_inode(row.number);
        let mut message = request
            .answer(BY_FAMILY)
            .put(&[AF_UNIX as u8, kind_number(row.kind) as u8, row.state as u8, 0])
            .put(&inode.to_ne_bytes())
            .put(&u64::from(inode).to_ne_bytes());
        if let Some(name) = row.name {
            if wants(NAME) {
                message = message.attribute(NAME, &name.text);
            }
            if let (true, Some(file)) = (wants(FILE), name.file) {
                let place = [file as u32, self.device(Ino(file as u32)) as u32];
                message = message.attribute(FILE, place.map(u32::to_ne_bytes).as_flattened());
            }
        }
        if let (true, Some(peer)) = (wants(PEER), row.peer) {
            message = message.attribute(PEER, &shown(peer));
        }
        if wants(PENDING) && row.state == sockets::State::Listening {
            // No more than there is room for in an attribute.
            const MOST: usize = 1024;
            let all: Vec<u8> = row.pending.into_iter().take(MOST).flat_map(shown).collect();
            message = message.attribute(PENDING, &all);
        }
        let queues = [row.waiting as u32, row.sent as u32];
        if wants(QUEUES) {
            message = message.attribute(QUEUES, queues.map(u32::to_ne_bytes).as_flattened());
        }
        if wants(MEMORY) {
            let ([waiting, sent], room) = (queues, sockets::QUEUE_BYTES as u32);
            let all = [waiting, room, sent, room, 0, 0, 0, 0, 0];
            message = message.attribute(MEMORY, all.map(u32::to_ne_bytes).as_flattened());
        }
        let (read, write) = row.is_shut;
        message = message.attribute(SHUTDOWN, &[u8::from(read) | u8::from(write) << 1]);
        if wants(WANTS_USER) {
            message = message.number(USER, row.uid);
        }
        message.end()
    }

    fn device(&self, file: Ino) -> u64 {
        match self.tree.files().names().volume_of(file) {
            0 => DEVICE,
            volume => device_of_volume(volume),
        }
    }
}

impl Opening<'_> {
    fn locals(&self, number: Number) -> Locals<'_> {
        let sockets = &self.handles.sockets;
        let space = sockets.inet.space_number(number);
        Locals { all: &sockets.all, tree: self.handles.tree, space }
    }

    /// Requests about sockets, from the one of netlink that is called `own`.
    pub fn ask_diag(
        &mut self,
        (number, own): (Number, u32),
        may_mark: bool,
        bytes: &[u8],
        changes: &mut Changes,
    ) {
        let mut rest = bytes;
        while let Some((request, more)) = Request::next(rest, own) {
            rest = more;
            let answer = match request.is_one() {
                true => self.answer_diag(number, &request, may_mark),
                false => Ok(None),
            };
            let inet = self.handles.sockets.inet.of_mut(number);
            match answer {
                // What is not told at once says itself when there is no more.
                Ok(None) if request.is_one() => {}
                Ok(answer) => {
                    answer.into_iter().for_each(|one| inet.tell_route(number, one, changes));
                    if request.wants_word() {
                        inet.tell_route(number, request.acknowledge(Ok(())), changes);
                    }
                }
                Err(error) => inet.tell_route(number, request.acknowledge(Err(error)), changes),
            }
        }
        self.go_on_dumping(number, changes);
    }

    /// The answer, if it is one; `None`: all are told, from now on.
    fn answer_diag(
        &mut self,
        number: Number,
        request: &Request<'_>,
        may_mark: bool,
    ) -> Result<Option<Vec<u8>>, Errno> {
        match (request.kind, request.body.len(), request.family()) {
            (BY_FAMILY, 2.., family) if family < FAMILIES => {}
            (BY_FAMILY, ..) => return Err(Errno::EINVAL),
            (DESTROY, ..) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        }
        match request.family() {
            AF_UNIX if request.body.len() < REQUEST_BYTES => return Err(Errno::EINVAL),
            AF_UNIX => {}
            AF_INET | AF_INET6 => {
                self.handles.sockets.inet.of(number).check_diag(request, may_mark)?
            }
            _ => return Err(Errno::ENOENT),
        }
        if request.wants_all() {
            self.handles.sockets.inet.of_mut(number).begin_dump(number, request)?;
            return Ok(None);
        }
        match request.family() {
            AF_UNIX => self.locals(number).one(request).map(Some),
            _ => self.handles.sockets.inet.of(number).diag_one(request, inode).map(Some),
        }
    }

    /// The next packet for a socket of netlink that has read all before it.
    pub fn go_on_dumping(&mut self, number: Number, changes: &mut Changes) {
        let Some(mut dump) = self.handles.sockets.inet.of_mut(number).take_dump(number) else {
            return;
        };
        let (packet, next) = self.dump_packet(number, &dump);
        let rest = next.map(|next| {
            dump.next = next;
            dump
        });
        self.handles.sockets.inet.of_mut(number).tell_dump(number, (packet, rest), changes);
    }

    fn dump_packet(&self, number: Number, dump: &Dump) -> (Vec<u8>, Option<Number>) {
        // It was one when it came.
        let Some(request) = dump.request() else { return (Vec::new(), None) };
        let made = match request.family() {
            AF_UNIX => self.locals(number).packet(&request, dump.next),
            _ => self.handles.sockets.inet.of(number).diag_packet(&request, dump.next, inode),
        };
        match made {
            Ok((bytes, next)) if !bytes.is_empty() => (bytes, Some(next)),
            Ok(_) => (request.done(Ok(())), None),
            Err(error) => (request.done(Err(error)), None),
        }
    }
}
