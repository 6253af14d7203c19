//! Pipes and fifos: a ring of 64 KiB in a Frame, or of a page as long as that is enough.
//!
//! Small transfers go through the session's data area in one request. For large ones a process
//! maps the ring and copies by itself: it *takes* (or *puts*) a reserved part and commits it with
//! its next request. A reservation ends with the process's hold on the pipe.
//!
//! Where in the ring what lies is known here alone, so nobody can be led astray by a process that writes
//! into it. Each end's ring is given to one process at a time: to read, or to read and write, since
//! memory that is written can be read. So it must hold nothing that another process has written at that
//! end, or read: before the next process uses the end the pipe gets memory of its own anew, with what was
//! not read yet, and what was given is revoked.

use crate::caps::{frame, mint, Slots};
use crate::descs::Object;
use crate::procs::Pid;
use crate::server::{Unixd, SCRATCH};
use crate::signals::from_kernel;
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried, Waiters};
use crate::watches::Watchers;
use crate::window::Shared;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use libos::ipc::Caps;
use libos::{invoke, op, Rights, Status};
use memfs::Ino;
use unixproto::files::*;
use unixproto::ops::{PipeEnds, Ring};
use unixproto::session::DATA_BYTES;
use unixproto::signals::SIGPIPE;
use unixproto::{Errno, Reply};

/// Writes up to this many bytes are not mixed with others.
const ATOMIC: usize = 4096;
const RING: usize = PIPE_BYTES as usize;
/// Rings that are kept for the next pipes.
const KEPT: usize = 4;

/// As much as a pipe has at first.
const PAGE_BYTES: usize = 4096;
/// How often a revoke may be continued that others prolong, who then have the memory on their account.
const REVOKES: u32 = 64;

/// An end of a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Read = 0,
    Write = 1,
}

/// A process that had an end and does not any more.
const GONE: Pid = 0;

struct Memory {
    // Unmapped first.
    map: Shared,
    frame: Slots,
    bytes: usize,
}

impl Memory {
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
    taken: Option<(Tid, usize)>,
    put: Option<(Tid, usize)>,
    /// Who has the ring, for each end.
    given: [Option<Pid>; 2],
    /// Who has used each end last.
    user: [Option<Pid>; 2],
    /// Several processes use an end by turns, so none gets the ring.
    mixed: [bool; 2],
    waiters: Waiters,
    watchers: Watchers,
    fifo: Option<Ino>,
    /// User and group that made it: of a pipe without a name.
    pub owner: (u32, u32),
}

/// All pipes, and the fifos that have one.
#[derive(Default)]
pub struct Pipes {
    table: Vec<Option<Pipe>>,
    fifos: BTreeMap<Ino, u32>,
    kept: Vec<Memory>,
}

impl Pipe {
    fn new(memory: Memory, fifo: Option<Ino>, owner: (u32, u32)) -> Pipe {
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
            watchers: Watchers::default(),
            fifo,
            owner,
        }
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

    /// A process has let an end go.
    fn leave(&mut self, pid: Pid) {
        for at in [End::Read as usize, End::Write as usize] {
            for who in [&mut self.given[at], &mut self.user[at]] {
                if *who == Some(pid) {
                    *who = Some(GONE);
                }
            }
            self.mixed[at] = false;
        }
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
}

impl Pipes {
    pub fn get(&self, pipe: u32) -> Result<&Pipe, Errno> {
        self.table.get(pipe as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }
    fn get_mut(&mut self, pipe: u32) -> Result<&mut Pipe, Errno> {
        self.table.get_mut(pipe as usize).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }
    fn memory(&mut self) -> Result<Memory, Errno> {
        match self.kept.pop() {
            Some(memory) => Ok(memory),
            None => Memory::new(PAGE_BYTES).map_err(|_| Errno::ENFILE),
        }
    }
    fn add(&mut self, fifo: Option<Ino>, owner: (u32, u32)) -> Result<u32, Errno> {
        let pipe = Pipe::new(self.memory()?, fifo, owner);
        if let Some(index) = self.table.iter().position(Option::is_none) {
            self.table[index] = Some(pipe);
            return Ok(index as u32);
        }
        self.table.push(Some(pipe));
        Ok(self.table.len() as u32 - 1)
    }
    /// The pipe behind a fifo.
    pub fn fifo(&mut self, ino: Ino) -> Result<u32, Errno> {
        if let Some(&pipe) = self.fifos.get(&ino) {
            return Ok(pipe);
        }
        let pipe = self.add(Some(ino), (0, 0))?;
        self.fifos.insert(ino, pipe);
        Ok(pipe)
    }
    /// A fifo's inode is gone.
    pub fn forget_fifo(&mut self, ino: Ino) {
        if let Some(pipe) = self.fifos.remove(&ino) {
            self.remove(pipe);
        }
    }
    fn remove(&mut self, pipe: u32) {
        let Some(pipe) = self.table.get_mut(pipe as usize).and_then(Option::take) else { return };
        if let Some(ino) = pipe.fifo {
            self.fifos.remove(&ino);
        }
        // Of a page nobody else has ever seen anything.
        match pipe.memory {
            memory if memory.bytes > PAGE_BYTES => memory.revoke(),
            memory if self.kept.len() < KEPT => self.kept.push(memory),
            _ => {}
        }
    }
    /// Notes that a process waits for a pipe.
    pub fn wait(&mut self, pipe: u32, tid: Tid) {
        if let Ok(pipe) = self.get_mut(pipe) {
            pipe.waiters.add(tid);
        }
    }
    /// Those who watch a pipe.
    pub fn watchers(&mut self, pipe: u32) -> Option<&mut Watchers> {
        self.get_mut(pipe).ok().map(|pipe| &mut pipe.watchers)
    }
    /// `POLL*` bits of an end.
    pub fn ready(&self, pipe: u32, flags: u32) -> u16 {
        let Ok(pipe) = self.get(pipe) else { return POLLERR };
        let mut bits = 0;
        if flags & O_ACCMODE != O_WRONLY {
            if pipe.length > 0 {
                bits |= POLLIN | POLLRDNORM;
            }
            if pipe.writers == 0 && (pipe.fifo.is_none() || pipe.opened[1] > 0) {
                bits |= POLLHUP;
            }
        }
        if flags & O_ACCMODE != O_RDONLY {
            if pipe.room() >= ATOMIC {
                bits |= POLLOUT | POLLWRNORM;
            }
            if pipe.readers == 0 {
                bits |= POLLERR;
            }
        }
        bits
    }
    /// Bytes that can be read.
    pub fn length(&self, pipe: u32) -> usize {
        self.get(pipe).map_or(0, |pipe| pipe.length)
    }
}

impl Unixd {
    /// Makes a pipe.
    pub fn pipe(&mut self, pid: Pid, flags: u32) -> Tried {
        self.room(pid, 2)?;
        let cred = self.cred(pid);
        let pipe = self.pipes.add(None, (cred.uid, cred.gid))?;
        let status = flags & O_NONBLOCK;
        self.pipe_opened(pipe, O_RDONLY);
        self.pipe_opened(pipe, O_WRONLY);
        let read = self.open_desc(pid, Object::Pipe(pipe, None), O_RDONLY | status, None)?;
        let write = self.open_desc(pid, Object::Pipe(pipe, None), O_WRONLY | status, None)?;
        done(PipeEnds { read, write })
    }

    /// One more description of a pipe.
    pub fn pipe_opened(&mut self, pipe: u32, flags: u32) {
        let Ok(it) = self.pipes.get_mut(pipe) else { return };
        if flags & O_ACCMODE != O_WRONLY {
            it.readers += 1;
            it.opened[0] += 1;
        }
        if flags & O_ACCMODE != O_RDONLY {
            it.writers += 1;
            it.opened[1] += 1;
        }
        self.wake_pipe(pipe);
    }

    /// One description less.
    pub fn pipe_closed(&mut self, pipe: u32, flags: u32) {
        let Ok(it) = self.pipes.get_mut(pipe) else { return };
        if flags & O_ACCMODE != O_WRONLY {
            it.readers -= 1;
        }
        if flags & O_ACCMODE != O_RDONLY {
            it.writers -= 1;
        }
        let dead = it.readers == 0 && it.writers == 0;
        self.wake_pipe(pipe);
        if dead {
            self.pipes.remove(pipe);
        }
    }

    /// Is a fifo's other end open?
    pub fn fifo_is_open(&mut self, pipe: u32, flags: u32) -> bool {
        let Ok(it) = self.pipes.get_mut(pipe) else { return true };
        let open = match flags & O_ACCMODE {
            O_RDONLY => it.writers > 0,
            O_WRONLY => it.readers > 0,
            _ => true,
        };
        if !open {
            it.waiters.add(self.speaker);
        }
        open
    }

    /// A process lets a description go: its reservations end.
    pub fn pipe_let_go(&mut self, pid: Pid, desc: u32) {
        let Ok(Object::Pipe(pipe, _)) = self.descs.get(desc).map(|desc| desc.object.clone()) else {
            return;
        };
        let procs = &self.procs;
        let others = |part: &(Tid, usize)| procs.leader(part.0) != pid;
        let Ok(it) = self.pipes.get_mut(pipe) else { return };
        let before = (it.taken, it.put);
        it.taken = it.taken.filter(others);
        it.put = it.put.filter(others);
        it.leave(pid);
        if before != (it.taken, it.put) {
            self.wake_pipe(pipe);
        }
    }

    fn wake_pipe(&mut self, pipe: u32) {
        let Ok(it) = self.pipes.get_mut(pipe) else { return };
        for tid in it.waiters.drain() {
            if self.procs.blocked(tid).is_some() {
                self.retry.push_back(tid);
            }
        }
        if !it.watchers.is_empty() {
            self.note(&Object::Pipe(pipe, None));
        }
    }

    /// Waits for a pipe, unless the description never waits.
    fn pipe_wait(&mut self, pipe: u32, nonblocking: bool) -> Tried {
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
        self.pipes.wait(pipe, self.speaker);
        Ok(Outcome::Block(0))
    }

    fn pipe_of(&self, pid: Pid, desc: u32) -> Result<(u32, bool), Errno> {
        let desc = self.desc(pid, desc)?;
        match desc.object {
            Object::Pipe(pipe, _) => Ok((pipe, desc.nonblocking())),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Reads through the data area.
    pub fn pipe_read(&mut self, pid: Pid, pipe: u32, bytes: usize, nonblocking: bool) -> Tried {
        let speaker = self.speaker;
        let session = self.procs.session_of(speaker)?;
        let it = self.pipes.get_mut(pipe)?;
        it.taken = it.taken.filter(|(owner, _)| *owner != speaker);
        if bytes == 0 {
            return count(0);
        }
        if it.length == 0 && it.writers == 0 {
            return count(0);
        }
        if it.length == 0 || it.taken.is_some() {
            return self.pipe_wait(pipe, nonblocking);
        }
        match it.enter(pid, End::Read) {
            Err(Errno::EAGAIN) => return self.pipe_wait(pipe, nonblocking),
            result => result?,
        }
        let bytes = bytes.min(it.length).min(DATA_BYTES);
        it.memory.pieces(it.head, bytes, |from, to, bytes| {
            session.copy_from(to, &it.memory.map, from, bytes);
        });
        it.consume(bytes);
        self.wake_pipe(pipe);
        count(bytes)
    }

    /// Writes from the data area: all of it, unless the description never waits.
    pub fn pipe_write(&mut self, pid: Pid, call: &mut Call, pipe: u32, nonblocking: bool) -> Tried {
        let speaker = self.speaker;
        let session = self.procs.session_of(speaker)?;
        let it = self.pipes.get_mut(pipe)?;
        let left = call.lengths.0 - call.done;
        it.put = it.put.filter(|(owner, _)| *owner != speaker);
        if left == 0 {
            return count(call.done);
        }
        if it.readers == 0 {
            return self.broken_pipe(pid, call.done);
        }
        let least = if left <= ATOMIC && call.done == 0 { left } else { 1 };
        let mut ready = it.room() >= least && it.put.is_none();
        if ready {
            ready = match it.enter(pid, End::Write) {
                Err(Errno::EAGAIN) => false,
                result => result.map(|()| true)?,
            };
        }
        let bytes = if ready { it.make_room(left) } else { 0 };
        if bytes < least {
            if nonblocking && call.done > 0 {
                return count(call.done);
            }
            return self.pipe_wait(pipe, nonblocking);
        }
        it.memory.pieces(it.tail(), bytes, |to, from, bytes| {
            session.copy_to(call.done + from, &it.memory.map, to, bytes);
        });
        it.length += bytes;
        it.watchers.data_came();
        call.done += bytes;
        self.wake_pipe(pipe);
        if call.done == call.lengths.0 || nonblocking {
            return count(call.done);
        }
        self.pipe_wait(pipe, false)
    }

    fn broken_pipe(&mut self, pid: Pid, done: usize) -> Tried {
        self.post_to(pid, Some(self.speaker), SIGPIPE, from_kernel());
        match self.procs.live(pid) {
            Ok(_) if done > 0 => count(done),
            Ok(_) => Err(Errno::EPIPE),
            Err(_) => Ok(Outcome::Never),
        }
    }

    /// The Frame of a ring, for the end that the description is of.
    pub fn pipe_ring(&mut self, pid: Pid, desc: u32) -> Tried {
        let (pipe, _) = self.pipe_of(pid, desc)?;
        let (end, rights) = match self.desc(pid, desc)?.flags & O_ACCMODE {
            O_RDONLY => (End::Read, Rights::READ),
            O_WRONLY => (End::Write, Rights::READ.or(Rights::WRITE)),
            _ => return Err(Errno::EBUSY),
        };
        let it = self.pipes.get_mut(pipe)?;
        it.give(pid, end)?;
        mint(it.memory.frame.first(), SCRATCH, rights)?;
        Ok(Outcome::WithCaps(().encode(), Caps::moved(SCRATCH, 1)))
    }

    /// Commits what was copied out, and reserves more.
    pub fn pipe_take(&mut self, pid: Pid, desc: u32, copied: u64, bytes: u64) -> Tried {
        let (pipe, nonblocking) = self.pipe_of(pid, desc)?;
        let speaker = self.speaker;
        self.desc(pid, desc)?.readable()?;
        let it = self.pipes.get_mut(pipe)?;
        if let Some((_, reserved)) = it.taken.filter(|(owner, _)| *owner == speaker) {
            it.consume(reserved.min(copied as usize));
            it.taken = None;
            self.wake_pipe(pipe);
        }
        let it = self.pipes.get_mut(pipe)?;
        if bytes == 0 || it.length == 0 && it.writers == 0 {
            return done(Ring { offset: 0, bytes: 0 });
        }
        if it.given[End::Read as usize] != Some(pid) {
            return Err(Errno::EBUSY);
        }
        if it.length == 0 || it.taken.is_some() {
            return self.pipe_wait(pipe, nonblocking);
        }
        let bytes = bytes.min(it.length as u64);
        it.taken = Some((speaker, bytes as usize));
        done(Ring { offset: it.head as u64, bytes })
    }

    /// Commits what was copied in, and reserves room for more.
    pub fn pipe_put(&mut self, pid: Pid, desc: u32, copied: u64, bytes: u64) -> Tried {
        let (pipe, nonblocking) = self.pipe_of(pid, desc)?;
        let speaker = self.speaker;
        self.desc(pid, desc)?.writable()?;
        let it = self.pipes.get_mut(pipe)?;
        if let Some((_, reserved)) = it.put.filter(|(owner, _)| *owner == speaker) {
            it.length += reserved.min(copied as usize).min(it.room());
            it.put = None;
            it.watchers.data_came();
            self.wake_pipe(pipe);
        }
        let it = self.pipes.get_mut(pipe)?;
        if bytes == 0 {
            return done(Ring { offset: 0, bytes: 0 });
        }
        if it.readers == 0 {
            return self.broken_pipe(pid, 0);
        }
        if it.given[End::Write as usize] != Some(pid) {
            return Err(Errno::EBUSY);
        }
        let least = if bytes <= ATOMIC as u64 { bytes as usize } else { 1 };
        if it.room() < least || it.put.is_some() {
            return self.pipe_wait(pipe, nonblocking);
        }
        let bytes = bytes.min(it.room() as u64);
        it.put = Some((speaker, bytes as usize));
        done(Ring { offset: it.tail() as u64, bytes })
    }
}
