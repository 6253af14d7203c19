//! A pipe: its ring, who uses its ends, and who waits for it.
//!
//! Where in the ring what lies is known here alone, so nobody can be led astray by a process that writes
//! into it. Each end's ring is given to one process at a time: to read, or to read and write, since
//! memory that is written can be read. So it must hold nothing that another process has written at that
//! end, or read: before the next process uses the end the pipe gets memory of its own anew, with what was
//! not read yet, and what was given is revoked.

use crate::caps::{frame, Slots};
use crate::procs::Pid;
use crate::voices::Speaker;
use crate::wait::Waiters;
use crate::window::{Session, Shared};
use libos::{invoke, op, CapAddr, Status};
use memfs::Ino;
use unixproto::files::*;
use unixproto::ops::Ring;
use unixproto::session::DATA_BYTES;
use unixproto::Errno;

/// Writes up to this many bytes are not mixed with others.
const ATOMIC: usize = 4096;
const RING: usize = PIPE_BYTES as usize;

/// As much as a pipe has at first.
const PAGE_BYTES: usize = 4096;
/// How often a revoke may be continued that others prolong, who then have the memory on their account.
const REVOKES: u32 = 64;

/// An end of a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The one that is read.
    Read = 0,
    /// The one that is written.
    Write = 1,
}

/// A process that had an end and does not any more.
const GONE: Pid = 0;

/// Memory of a pipe.
pub struct Memory {
    // Unmapped first.
    map: Shared,
    frame: Slots,
    bytes: usize,
}

impl Memory {
    /// As much as a pipe has at first.
    pub fn page() -> Result<Memory, Errno> {
        Memory::new(PAGE_BYTES)
    }
    /// Gives back what was given of it. Returns memory that nobody else has ever seen anything of, if it
    /// is that.
    pub fn recycle(self) -> Option<Memory> {
        if self.bytes > PAGE_BYTES {
            self.revoke();
            return None;
        }
        Some(self)
    }
    fn new(bytes: usize) -> Result<Memory, Errno> {
        let frame = frame(bytes as u64)?;
        let map = Shared::map(frame.first(), bytes as u64)?;
        Ok(Memory { map, frame, bytes })
    }
    /// Has a part of the ring copied: where it lies, where it begins among what is copied, and how much;
    /// in two pieces if the end of the ring lies inside.
    #[inline]
    fn pieces(&self, at: usize, bytes: usize, mut copy: impl FnMut(usize, usize, usize)) {
        let first = bytes.min(self.bytes - at);
        copy(at, 0, first);
        if first < bytes {
            copy(0, first, bytes - first);
        }
    }
    /// The place so many bytes further on.
    #[inline]
    fn further(&self, at: usize, bytes: usize) -> usize {
        let sum = at + bytes;
        if sum >= self.bytes {
            sum - self.bytes
        } else {
            sum
        }
    }
    /// Takes back what was given of it, and gives it back.
    fn revoke(self) {
        let Memory { map, frame, .. } = self;
        drop(map);
        for _ in 0..REVOKES {
            if invoke(frame.first(), op::Revoke {}) != Err(Status::Again) {
                break;
            }
        }
    }
}

/// A pipe.
pub struct Pipe {
    memory: Memory,
    head: usize,
    length: usize,
    /// Descriptions open for reading.
    readers: u32,
    /// Descriptions open for writing.
    writers: u32,
    /// How often each end was ever opened (fifos wait for that).
    opened: [u32; 2],
    taken: Option<(Speaker, usize)>,
    put: Option<(Speaker, usize)>,
    /// Who has the ring, for each end.
    given: [Option<Pid>; 2],
    /// Who has used each end last.
    user: [Option<Pid>; 2],
    /// Several processes use an end by turns, so none gets the ring.
    mixed: [bool; 2],
    waiters: Waiters,
    fifo: Option<Ino>,
    /// User and group that made it: of a pipe without a name.
    owner: (u32, u32),
}

/// What came of reading or writing.
pub enum Moved {
    /// So many bytes were moved.
    Bytes(usize),
    /// The end of the file: nobody is left at the other end.
    Over,
    /// It must wait.
    Wait,
}

impl Pipe {
    /// An empty pipe that nobody has open.
    pub fn new(memory: Memory, fifo: Option<Ino>, owner: (u32, u32)) -> Pipe {
        Pipe {
            memory,
            head: 0,
            length: 0,
            readers: 0,
            writers: 0,
            opened: [0; 2],
            taken: None,
            put: None,
            given: [None; 2],
            user: [None; 2],
            mixed: [false; 2],
            waiters: Waiters::default(),
            fifo,
            owner,
        }
    }
    /// The inode of a fifo.
    pub fn fifo(&self) -> Option<Ino> {
        self.fifo
    }
    /// User and group that made it: of a pipe without a name.
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }
    /// Its memory, once nobody has it open.
    pub fn into_memory(self) -> Memory {
        self.memory
    }
    /// Those who wait for it.
    #[inline]
    pub fn waiters(&mut self) -> &mut Waiters {
        &mut self.waiters
    }
    /// Bytes that can be read.
    pub fn length(&self) -> usize {
        self.length
    }

    /// One more description.
    pub fn opened(&mut self, flags: u32) {
        if flags & O_ACCMODE != O_WRONLY {
            self.readers += 1;
            self.opened[0] += 1;
        }
        if flags & O_ACCMODE != O_RDONLY {
            self.writers += 1;
            self.opened[1] += 1;
        }
    }
    /// One description less. Returns `true` if it was the last.
    pub fn closed(&mut self, flags: u32) -> bool {
        if flags & O_ACCMODE != O_WRONLY {
            self.readers -= 1;
        }
        if flags & O_ACCMODE != O_RDONLY {
            self.writers -= 1;
        }
        self.readers == 0 && self.writers == 0
    }
    /// Is the other end of a description open?
    pub fn is_joined(&self, flags: u32) -> bool {
        match flags & O_ACCMODE {
            O_RDONLY => self.writers > 0,
            O_WRONLY => self.readers > 0,
            _ => true,
        }
    }
    /// `POLL*` bits of an end.
    pub fn ready(&self, flags: u32) -> u16 {
        let mut bits = 0;
        if flags & O_ACCMODE != O_WRONLY {
            if self.length > 0 {
                bits |= POLLIN | POLLRDNORM;
            }
            if self.writers == 0 && (self.fifo.is_none() || self.opened[1] > 0) {
                bits |= POLLHUP;
            }
        }
        if flags & O_ACCMODE != O_RDONLY {
            if self.room() >= ATOMIC {
                bits |= POLLOUT | POLLWRNORM;
            }
            if self.readers == 0 {
                bits |= POLLERR;
            }
        }
        bits
    }

    fn room(&self) -> usize {
        RING - self.length
    }
    fn tail(&self) -> usize {
        self.memory.further(self.head, self.length)
    }
    fn consume(&mut self, bytes: usize) {
        self.head = self.memory.further(self.head, bytes);
        self.length -= bytes;
    }
    /// Is somebody copying?
    fn is_reserved(&self) -> bool {
        self.taken.is_some() || self.put.is_some()
    }

    /// Gets memory of its own anew, with what was not read yet; nobody is copying. `ENOMEM`: there is
    /// none, and all is as before.
    #[cold]
    fn renew(&mut self, bytes: usize) -> Result<(), Errno> {
        debug_assert!(!self.is_reserved() && self.length <= bytes);
        let new = Memory::new(bytes)?;
        self.memory.pieces(self.head, self.length, |from, to, bytes| {
            new.map.copy_from(to, &self.memory.map, from, bytes);
        });
        let old = core::mem::replace(&mut self.memory, new);
        self.head = 0;
        if core::mem::take(&mut self.given) != [None; 2] {
            old.revoke();
        }
        Ok(())
    }

    /// A process is to use an end through the data area. What another one was given for that end is taken
    /// back first. `EAGAIN`: somebody is copying.
    #[inline]
    fn enter(&mut self, pid: Pid, end: End) -> Result<(), Errno> {
        let at = end as usize;
        if self.given[at].is_some_and(|other| other != pid) {
            self.take_back(at)?;
        }
        self.user[at] = Some(pid);
        Ok(())
    }

    #[cold]
    fn take_back(&mut self, at: usize) -> Result<(), Errno> {
        if self.is_reserved() {
            return Err(Errno::EAGAIN);
        }
        self.mixed[at] = self.given[at] != Some(GONE);
        self.renew(self.memory.bytes)
    }

    /// The ring is to be given to a process. `EBUSY`: it holds what is somebody else's, or there is no
    /// memory; the data area is for all cases.
    pub fn give_ring(&mut self, pid: Pid, end: End) -> Result<CapAddr, Errno> {
        self.give(pid, end)?;
        Ok(self.memory.frame.first())
    }

    fn give(&mut self, pid: Pid, end: End) -> Result<(), Errno> {
        let at = end as usize;
        if self.given[at] == Some(pid) {
            return Ok(());
        }
        let others = self.user[at].is_some_and(|user| user != pid);
        let theirs = self.given[at].is_some_and(|other| other != GONE);
        if self.mixed[at] || theirs || others && end == End::Write && self.length > 0 {
            return Err(Errno::EBUSY);
        }
        if others || self.given[at].is_some() || self.memory.bytes < RING {
            if self.is_reserved() {
                return Err(Errno::EBUSY);
            }
            self.renew(RING).map_err(|_| Errno::EBUSY)?;
        }
        self.given[at] = Some(pid);
        self.user[at] = Some(pid);
        Ok(())
    }

    /// A process has let an end go: its reservations end. Returns `true` if it had any.
    pub fn leave(&mut self, pid: Pid) -> bool {
        let before = (self.taken, self.put);
        let others = |part: &(Speaker, usize)| part.0.pid != pid;
        self.taken = self.taken.filter(others);
        self.put = self.put.filter(others);
        for at in [End::Read as usize, End::Write as usize] {
            for who in [&mut self.given[at], &mut self.user[at]] {
                if *who == Some(pid) {
                    *who = Some(GONE);
                }
            }
            self.mixed[at] = false;
        }
        before != (self.taken, self.put)
    }

    /// Has room in memory for `bytes` more, if there is any memory. Answers how many there is room for.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> usize {
        let bytes = bytes.min(self.room());
        if self.length + bytes > self.memory.bytes && !self.is_reserved() {
            // Less will do, too.
            let _ = self.renew(RING);
        }
        bytes.min(self.memory.bytes - self.length)
    }

    /// Reads through the data area.
    #[inline(always)]
    pub fn read(
        &mut self,
        caller: Speaker,
        session: &Session,
        bytes: usize,
    ) -> Result<Moved, Errno> {
        self.taken = self.taken.filter(|(owner, _)| *owner != caller);
        if bytes == 0 || self.length == 0 && self.writers == 0 {
            return Ok(Moved::Over);
        }
        if self.length == 0 || self.taken.is_some() {
            return Ok(Moved::Wait);
        }
        match self.enter(caller.pid, End::Read) {
            Err(Errno::EAGAIN) => return Ok(Moved::Wait),
            result => result?,
        }
        let bytes = bytes.min(self.length).min(DATA_BYTES);
        self.memory.pieces(self.head, bytes, |from, to, bytes| {
            session.copy_from(to, &self.memory.map, from, bytes);
        });
        self.consume(bytes);
        Ok(Moved::Bytes(bytes))
    }

    /// Writes what is in the data area from `from` up to `end`, of which there is something.
    #[inline(always)]
    pub fn write(
        &mut self,
        caller: Speaker,
        session: &Session,
        (from, end): (usize, usize),
    ) -> Result<Moved, Errno> {
        let left = end - from;
        self.put = self.put.filter(|(owner, _)| *owner != caller);
        if left == 0 {
            return Ok(Moved::Bytes(0));
        }
        if self.readers == 0 {
            return Ok(Moved::Over);
        }
        let least = if left <= ATOMIC && from == 0 { left } else { 1 };
        if self.room() < least || self.put.is_some() {
            return Ok(Moved::Wait);
        }
        match self.enter(caller.pid, End::Write) {
            Err(Errno::EAGAIN) => return Ok(Moved::Wait),
            result => result?,
        }
        let bytes = self.make_room(left);
        if bytes < least {
            return Ok(Moved::Wait);
        }
        self.memory.pieces(self.tail(), bytes, |to, at, bytes| {
            session.copy_to(from + at, &self.memory.map, to, bytes);
        });
        self.length += bytes;
        Ok(Moved::Bytes(bytes))
    }

    /// Commits what was copied out of the ring. Returns `true` if that ends a reservation.
    #[inline(always)]
    pub fn commit_take(&mut self, caller: Speaker, copied: u64) -> bool {
        let Some((_, reserved)) = self.taken.filter(|(owner, _)| *owner == caller) else {
            return false;
        };
        self.consume(reserved.min(copied as usize));
        self.taken = None;
        true
    }

    /// Reserves bytes to be copied out of the ring. Nothing: they are to be waited for.
    #[inline(always)]
    pub fn take(&mut self, caller: Speaker, bytes: u64) -> Result<Option<Ring>, Errno> {
        if bytes == 0 || self.length == 0 && self.writers == 0 {
            return Ok(Some(Ring { offset: 0, bytes: 0 }));
        }
        if self.given[End::Read as usize] != Some(caller.pid) {
            return Err(Errno::EBUSY);
        }
        if self.length == 0 || self.taken.is_some() {
            return Ok(None);
        }
        let bytes = bytes.min(self.length as u64);
        self.taken = Some((caller, bytes as usize));
        Ok(Some(Ring { offset: self.head as u64, bytes }))
    }

    /// Commits what was copied into the ring. Returns `true` if that ends a reservation.
    #[inline(always)]
    pub fn commit_put(&mut self, caller: Speaker, copied: u64) -> bool {
        let Some((_, reserved)) = self.put.filter(|(owner, _)| *owner == caller) else {
            return false;
        };
        self.length += reserved.min(copied as usize).min(self.room());
        self.put = None;
        true
    }

    /// Reserves room in the ring. Nothing: it is to be waited for. `EPIPE`: nobody reads.
    #[inline(always)]
    pub fn put(&mut self, caller: Speaker, bytes: u64) -> Result<Option<Ring>, Errno> {
        if bytes == 0 {
            return Ok(Some(Ring { offset: 0, bytes: 0 }));
        }
        if self.readers == 0 {
            return Err(Errno::EPIPE);
        }
        if self.given[End::Write as usize] != Some(caller.pid) {
            return Err(Errno::EBUSY);
        }
        let least = if bytes <= ATOMIC as u64 { bytes as usize } else { 1 };
        if self.room() < least || self.put.is_some() {
            return Ok(None);
        }
        let bytes = bytes.min(self.room() as u64);
        self.put = Some((caller, bytes as usize));
        Ok(Some(Ring { offset: self.tail() as u64, bytes }))
    }
}

/// What the server moves itself, for a process that uses an end.
impl Pipe {
    /// Bytes that can be taken out. `None`: nobody is left who could write any.
    pub fn filled(&mut self, pid: Pid) -> Result<Option<usize>, Errno> {
        if self.length == 0 {
            return Ok((self.writers > 0).then_some(0));
        }
        match self.taken.is_some() || self.enter(pid, End::Read) == Err(Errno::EAGAIN) {
            true => Ok(Some(0)),
            false => Ok(Some(self.length)),
        }
    }
    /// Bytes that there is room for, of so many. `None`: nobody is left who could read any.
    pub fn vacant(&mut self, pid: Pid, bytes: usize) -> Result<Option<usize>, Errno> {
        if self.readers == 0 {
            return Ok(None);
        }
        match self.put.is_some() || self.enter(pid, End::Write) == Err(Errno::EAGAIN) {
            true => Ok(Some(0)),
            false => Ok(Some(self.make_room(bytes))),
        }
    }
    /// Copies the first bytes, which are there.
    pub fn peek(&self, to: &mut [u8]) {
        self.memory.pieces(self.head, to.len(), |from, at, bytes| {
            self.memory.map.read(from, &mut to[at..at + bytes]);
        });
    }
    /// Forgets the first bytes, which are there.
    pub fn skip(&mut self, bytes: usize) {
        self.consume(bytes);
    }
    /// Adds bytes for which there is room.
    pub fn append(&mut self, bytes: &[u8]) {
        self.memory.pieces(self.tail(), bytes.len(), |to, at, n| {
            self.memory.map.write(to, &bytes[at..at + n]);
        });
        self.length += bytes.len();
    }
}
