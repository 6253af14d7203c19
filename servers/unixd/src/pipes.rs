//! Pipes and fifos: a ring of 64 KiB in a Frame.
//!
//! Small transfers go through the session's data area in one request. For large ones a process
//! maps the ring and copies by itself: it *takes* (or *puts*) a reserved part and commits it with
//! its next request. A reservation ends with the process's hold on the pipe.

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
use libos::Rights;
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

struct Memory {
    frame: Slots,
    map: Shared,
    used: bool,
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
    waiters: Waiters,
    watchers: Watchers,
    fifo: Option<Ino>,
}

/// All pipes, and the fifos that have one.
#[derive(Default)]
pub struct Pipes {
    table: Vec<Option<Pipe>>,
    fifos: BTreeMap<Ino, u32>,
    kept: Vec<Memory>,
}

impl Pipe {
    fn new(memory: Memory, fifo: Option<Ino>) -> Pipe {
        Pipe {
            memory,
            head: 0,
            length: 0,
            readers: 0,
            writers: 0,
            opened: [0; 2],
            taken: None,
            put: None,
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            fifo,
        }
    }
    fn room(&self) -> usize {
        RING - self.length
    }
    fn tail(&self) -> usize {
        (self.head + self.length) % RING
    }
    fn consume(&mut self, bytes: usize) {
        self.head = (self.head + bytes) % RING;
        self.length -= bytes;
    }
}

/// Splits a part of the ring at its end, where that lies inside.
fn parts(at: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let first = bytes.min(RING - at);
    [(at, first), (0, bytes - first)].into_iter().filter(|(_, bytes)| *bytes > 0)
}

impl Pipes {
    fn get(&self, pipe: u32) -> Result<&Pipe, Errno> {
        self.table.get(pipe as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }
    fn get_mut(&mut self, pipe: u32) -> Result<&mut Pipe, Errno> {
        self.table.get_mut(pipe as usize).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }
    fn memory(&mut self) -> Result<Memory, Errno> {
        if let Some(memory) = self.kept.pop() {
            return Ok(memory);
        }
        let frame = frame(PIPE_BYTES).map_err(|_| Errno::ENFILE)?;
        let map = Shared::map(frame.first(), PIPE_BYTES)?;
        Ok(Memory { frame, map, used: false })
    }
    fn add(&mut self, fifo: Option<Ino>) -> Result<u32, Errno> {
        let pipe = Pipe::new(self.memory()?, fifo);
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
        let pipe = self.add(Some(ino))?;
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
        let mut memory = pipe.memory;
        if self.kept.len() < KEPT && !memory.used {
            memory.used = false;
            self.kept.push(memory);
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
        let pipe = self.pipes.add(None)?;
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
    pub fn pipe_read(&mut self, pipe: u32, bytes: usize, nonblocking: bool) -> Tried {
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
        let bytes = bytes.min(it.length).min(DATA_BYTES);
        let mut to = 0;
        for (from, bytes) in parts(it.head, bytes) {
            session.copy_from(to, &it.memory.map, from, bytes);
            to += bytes;
        }
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
        if it.room() < least || it.put.is_some() {
            if nonblocking && call.done > 0 {
                return count(call.done);
            }
            return self.pipe_wait(pipe, nonblocking);
        }
        let bytes = left.min(it.room());
        let mut from = call.done;
        for (to, bytes) in parts(it.tail(), bytes) {
            session.copy_to(from, &it.memory.map, to, bytes);
            from += bytes;
        }
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
        if done > 0 {
            return count(done);
        }
        self.post(pid, SIGPIPE, from_kernel());
        match self.procs.live(pid) {
            Ok(_) => Err(Errno::EPIPE),
            Err(_) => Ok(Outcome::Never),
        }
    }

    /// The Frame of a ring. What other pipes have left in it is cleared first.
    pub fn pipe_ring(&mut self, pid: Pid, desc: u32) -> Tried {
        let (pipe, _) = self.pipe_of(pid, desc)?;
        let it = self.pipes.get_mut(pipe)?;
        if !it.memory.used {
            it.memory.used = true;
            for at in (0..it.room()).step_by(4096) {
                for (to, bytes) in parts((it.tail() + at) % RING, 4096.min(it.room() - at)) {
                    it.memory.map.write(to, &[0; 4096][..bytes]);
                }
            }
        }
        mint(it.memory.frame.first(), SCRATCH, Rights::READ.or(Rights::WRITE))?;
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
        let least = if bytes <= ATOMIC as u64 { bytes as usize } else { 1 };
        if it.room() < least || it.put.is_some() {
            return self.pipe_wait(pipe, nonblocking);
        }
        let bytes = bytes.min(it.room() as u64);
        it.put = Some((speaker, bytes as usize));
        done(Ring { offset: it.tail() as u64, bytes })
    }
}
