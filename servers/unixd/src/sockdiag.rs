//! What programs ask about sockets by messages (`NETLINK_SOCK_DIAG`): who is asked, and what is told of local ones. Of those of the internet the crate `inet`
//! tells.
//!
//! All sockets do not fit in a socket's queue. The next packet is made when those before it were read; looking for what belongs into it is divided into turns, between
//! which others are served.

use crate::inet::inode;
use crate::nodes::Tree;
use crate::open::Opening;
use crate::pathops::DEVICE;
use crate::peers::Ring;
use crate::volumes::device_of_volume;
use alloc::boxed::Box;
use alloc::vec::Vec;
use inet::diag::{BY_FAMILY, DESTROY};
use inet::netlink::{Answers, Dump, Found, Request};
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
/// Sockets that are looked at for the requests of one call. The answers to those behind that are lost.
const CALL_LOOKS: usize = 65_536;

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
    /// What is told, from a socket on, as far as it is found in a turn.
    fn packet(&self, request: &Request<'_>, first: Number) -> Result<Found, Errno> {
        let states = request.word(STATES).ok_or(Errno::EINVAL)?;
        let mut answers = Answers::default();
        for number in self.all.numbers_from(first) {
            if answers.is_over() {
                return Ok(answers.until(Some(number)));
            }
            answers.looked(1);
            let Some(row) = self.all.row_of(self.space, number) else { continue };
            answers.looked(row.pending.len());
            if states >> row.state as u32 & 1 != 0 && !answers.put(&self.tell(request, row)) {
                return Ok(answers.until(Some(number)));
            }
        }
        Ok(answers.until(None))
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
        let (mut rest, mut looks) = (bytes, 0);
        while let Some((request, more)) = Request::next(rest, own) {
            if looks > CALL_LOOKS {
                self.handles.sockets.inet.of_mut(number).lose_answers(number, changes);
                break;
            }
            rest = more;
            let answer = match request.is_one() {
                true => self.answer_diag(number, &request, may_mark, &mut looks),
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
        looks: &mut usize,
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
            _ => self.handles.sockets.inet.of(number).diag_one(request, inode, looks).map(Some),
        }
    }

    /// The next packet for a socket of netlink that has read all before it.
    pub fn go_on_dumping(&mut self, number: Number, changes: &mut Changes) {
        let inet = &mut self.handles.sockets.inet;
        if let Some(dump) = inet.of_mut(number).take_dump(number, false) {
            self.find_more(number, dump, changes);
        }
    }

    /// A turn of one for which nothing was found in the last one.
    pub fn dump_in_turn(&mut self) {
        let inet = &mut self.handles.sockets.inet;
        let Some(number) = inet.dumps.pop_front() else { return };
        // It may have been closed, and another one have its number.
        let Some(dump) = inet.of_mut(number).take_dump(number, true) else { return };
        let mut changes = Changes::new();
        self.find_more(number, dump, &mut changes);
        self.handles.sockets.inet.told(changes, self.handles.fx);
    }

    fn find_more(&mut self, number: Number, mut dump: Box<Dump>, changes: &mut Changes) {
        let Found { bytes, next } = self.found(number, &dump);
        let is_due = bytes.is_empty() && next.is_some();
        let rest = next.map(|next| {
            (dump.next, dump.is_due) = (next, is_due);
            dump
        });
        let inet = &mut self.handles.sockets.inet;
        match rest {
            Some(rest) if is_due => {
                inet.of_mut(number).keep_dump(number, rest);
                inet.dumps.push_back(number);
            }
            rest => inet.of_mut(number).tell_dump(number, (bytes, rest), changes),
        }
    }

    /// What is found in a turn. The end is told when there is nothing else.
    fn found(&self, number: Number, dump: &Dump) -> Found {
        // It was one when it came.
        let Some(request) = dump.request() else { return Found { bytes: Vec::new(), next: None } };
        let found = match request.family() {
            AF_UNIX => self.locals(number).packet(&request, dump.next),
            _ => self.handles.sockets.inet.of(number).diag_packet(&request, dump.next, inode),
        };
        match found {
            Ok(Found { bytes, next: None }) if bytes.is_empty() => {
                Found { bytes: request.done(Ok(())), next: None }
            }
            Ok(Found { bytes, next }) => Found { bytes, next: next.or(Some(Number::MAX)) },
            Err(error) => Found { bytes: request.done(Err(error)), next: None },
        }
    }
}
