//! Pipes and fifos: a ring of 64 KiB in a Frame, or of a page as long as that is enough.
//!
//! Small transfers go through the session's data area in one request. For large ones a process
//! maps the ring and copies by itself: it *takes* (or *puts*) a reserved part and commits it with
//! its next request. A reservation ends with the process's hold on the pipe.

use crate::caps::mint;
use crate::descs::{Desc, Object};
use crate::effects::Effects;
use crate::procs::Pid;
use crate::ring::{End, Memory, Moved, Pipe};
use crate::server::SCRATCH;
use crate::signals::from_kernel;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use crate::watches::Source;
use crate::window::Session;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use libos::ipc::Caps;
use libos::Rights;
use memfs::Ino;
use unixproto::files::*;
use unixproto::ops::Ring;
use unixproto::signals::SIGPIPE;
use unixproto::{op, Errno, Reply};

/// Rings that are kept for the next pipes.
const KEPT: usize = 4;

/// All pipes, and the fifos that have one.
#[derive(Default)]
pub struct Pipes {
    table: Vec<Option<Pipe>>,
    fifos: BTreeMap<Ino, u32>,
    kept: Vec<Memory>,
}

/// The pipe that a description is of.
fn pipe_of(desc: &Desc) -> Result<u32, Errno> {
    match desc.object {
        Object::Pipe(pipe, _) => Ok(pipe),
        _ => Err(Errno::EINVAL),
    }
}

/// Has those told who wait for a pipe, or watch it: it has changed.
#[inline(always)]
fn wake(number: u32, pipe: &mut Pipe, data: bool, fx: &mut Effects) {
    for tid in pipe.waiters().drain() {
        fx.wake(tid);
    }
    fx.changed(Source::Pipe(number), data);
}

/// The caller waits for a pipe, unless the description never waits.
fn wait(pipe: &mut Pipe, caller: Speaker, nonblocking: bool) -> Tried {
    if nonblocking {
        return Err(Errno::EAGAIN);
    }
    pipe.waiters().add(caller.tid);
    Ok(Outcome::Block(0))
}

/// Nobody reads what a process writes, of which `written` bytes have been taken.
pub fn broken(caller: Speaker, written: usize, fx: &mut Effects) -> Tried {
    fx.post_to(caller, SIGPIPE, from_kernel());
    match written {
        0 => Err(Errno::EPIPE),
        _ => count(written),
    }
}

impl Pipes {
    fn get(&self, pipe: u32) -> Result<&Pipe, Errno> {
        self.table.get(pipe as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }
    fn get_mut(&mut self, pipe: u32) -> Result<&mut Pipe, Errno> {
        self.table.get_mut(pipe as usize).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }
    fn memory(&mut self) -> Result<Memory, Errno> {
        match self.kept.pop() {
            Some(memory) => Ok(memory),
            None => Memory::page().map_err(|_| Errno::ENFILE),
        }
    }
    /// Makes a pipe that nobody has open.
    pub fn add(&mut self, fifo: Option<Ino>, owner: (u32, u32)) -> Result<u32, Errno> {
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
        if let Some(ino) = pipe.fifo() {
            self.fifos.remove(&ino);
        }
        match pipe.into_memory().recycle() {
            Some(memory) if self.kept.len() < KEPT => self.kept.push(memory),
            _ => {}
        }
    }

    /// Notes that a thread waits for a pipe.
    pub fn wait(&mut self, pipe: u32, tid: Tid) {
        if let Ok(pipe) = self.get_mut(pipe) {
            pipe.waiters().add(tid);
        }
    }
    /// `POLL*` bits of an end.
    pub fn ready(&self, pipe: u32, flags: u32) -> u16 {
        self.get(pipe).map_or(POLLERR, |pipe| pipe.ready(flags))
    }
    /// Bytes that can be read.
    pub fn length(&self, pipe: u32) -> usize {
        self.get(pipe).map_or(0, Pipe::length)
    }
    /// User and group that made a pipe.
    pub fn owner(&self, pipe: u32) -> (u32, u32) {
        self.get(pipe).map_or((0, 0), Pipe::owner)
    }

    /// One more description of a pipe.
    pub fn opened(&mut self, pipe: u32, flags: u32, fx: &mut Effects) {
        let Ok(it) = self.get_mut(pipe) else { return };
        it.opened(flags);
        wake(pipe, it, false, fx);
    }

    /// One description less.
    pub fn closed(&mut self, pipe: u32, flags: u32, fx: &mut Effects) {
        let Ok(it) = self.get_mut(pipe) else { return };
        let is_over = it.closed(flags);
        wake(pipe, it, false, fx);
        if is_over {
            self.remove(pipe);
        }
    }

    /// Is a fifo's other end open? If not, the caller waits for that.
    pub fn is_joined(&mut self, pipe: u32, flags: u32, caller: Speaker) -> bool {
        let Ok(it) = self.get_mut(pipe) else { return true };
        let joined = it.is_joined(flags);
        if !joined {
            it.waiters().add(caller.tid);
        }
        joined
    }

    /// A process lets a description go.
    pub fn leave(&mut self, pipe: u32, pid: Pid, fx: &mut Effects) {
        let Ok(it) = self.get_mut(pipe) else { return };
        if it.leave(pid) {
            wake(pipe, it, false, fx);
        }
    }

    /// Reads through the data area.
    #[inline(always)]
    pub fn read(
        &mut self,
        pipe: u32,
        nonblocking: bool,
        (caller, session): (Speaker, &Session),
        bytes: usize,
        fx: &mut Effects,
    ) -> Tried {
        let it = self.get_mut(pipe)?;
        match it.read(caller, session, bytes)? {
            Moved::Over => count(0),
            Moved::Wait => wait(it, caller, nonblocking),
            Moved::Bytes(bytes) => {
                wake(pipe, it, false, fx);
                count(bytes)
            }
        }
    }

    /// Writes from the data area: all of it, unless the description never waits.
    #[inline(always)]
    pub fn write(
        &mut self,
        pipe: u32,
        nonblocking: bool,
        (caller, session): (Speaker, &Session),
        call: &mut Call,
        fx: &mut Effects,
    ) -> Tried {
        let it = self.get_mut(pipe)?;
        let total = call.lengths.0;
        match it.write(caller, session, (call.done, total))? {
            Moved::Over => return broken(caller, call.done, fx),
            Moved::Bytes(0) => return count(call.done),
            Moved::Bytes(bytes) => {
                call.done += bytes;
                wake(pipe, it, true, fx);
                if call.done == total || nonblocking {
                    return count(call.done);
                }
            }
            Moved::Wait if nonblocking && call.done > 0 => return count(call.done),
            Moved::Wait => {}
        }
        wait(it, caller, nonblocking)
    }

    /// The Frame of a ring, for the end that the description is of.
    pub fn ring(&mut self, pid: Pid, desc: &Desc) -> Tried {
        let pipe = pipe_of(desc)?;
        let (end, rights) = match desc.flags & O_ACCMODE {
            O_RDONLY => (End::Read, Rights::READ),
            O_WRONLY => (End::Write, Rights::READ.or(Rights::WRITE)),
            _ => return Err(Errno::EBUSY),
        };
        let frame = self.get_mut(pipe)?.give_ring(pid, end)?;
        mint(frame, SCRATCH, rights)?;
        Ok(Outcome::WithCaps(().encode(), Caps::moved(SCRATCH, 1)))
    }

    /// Commits what was copied out, and reserves more.
    #[inline(always)]
    pub fn take(
        &mut self,
        caller: Speaker,
        desc: &Desc,
        op: op::PipeTake,
        fx: &mut Effects,
    ) -> Tried {
        let pipe = pipe_of(desc)?;
        desc.readable()?;
        let it = self.get_mut(pipe)?;
        if it.commit_take(caller, op.done) {
            wake(pipe, it, false, fx);
        }
        reserved(it.take(caller, op.bytes)?, it, caller, desc.nonblocking())
    }

    /// Commits what was copied in, and reserves room for more.
    #[inline(always)]
    pub fn put(
        &mut self,
        caller: Speaker,
        desc: &Desc,
        op: op::PipePut,
        fx: &mut Effects,
    ) -> Tried {
        let pipe = pipe_of(desc)?;
        desc.writable()?;
        let it = self.get_mut(pipe)?;
        if it.commit_put(caller, op.done) {
            wake(pipe, it, true, fx);
        }
        match it.put(caller, op.bytes) {
            Err(Errno::EPIPE) => broken(caller, 0, fx),
            ring => reserved(ring?, it, caller, desc.nonblocking()),
        }
    }
}

/// What the server moves itself.
impl Pipes {
    /// Bytes that can be taken out of a pipe; else what the caller is answered.
    pub fn filled(
        &mut self,
        pipe: u32,
        caller: Speaker,
        nonblocking: bool,
    ) -> Result<usize, Tried> {
        let it = self.get_mut(pipe).map_err(Err)?;
        match it.filled(caller.pid).map_err(Err)? {
            None => Err(count(0)),
            Some(0) => Err(wait(it, caller, nonblocking)),
            Some(bytes) => Ok(bytes),
        }
    }

    /// Bytes that there is room for in a pipe, of so many; else what the caller is answered.
    pub fn vacant(
        &mut self,
        pipe: u32,
        caller: Speaker,
        (nonblocking, bytes): (bool, usize),
        fx: &mut Effects,
    ) -> Result<usize, Tried> {
        let it = self.get_mut(pipe).map_err(Err)?;
        match it.vacant(caller.pid, bytes).map_err(Err)? {
            None => Err(broken(caller, 0, fx)),
            Some(0) => Err(wait(it, caller, nonblocking)),
            Some(bytes) => Ok(bytes),
        }
    }

    /// Copies the first bytes of a pipe.
    pub fn peek(&self, pipe: u32, to: &mut [u8]) {
        if let Ok(it) = self.get(pipe) {
            it.peek(to);
        }
    }

    /// Forgets the first bytes of a pipe.
    pub fn skip(&mut self, pipe: u32, bytes: usize, fx: &mut Effects) {
        if let Ok(it) = self.get_mut(pipe) {
            it.skip(bytes);
            wake(pipe, it, false, fx);
        }
    }

    /// Adds bytes for which there is room.
    pub fn append(&mut self, pipe: u32, bytes: &[u8], fx: &mut Effects) {
        if let Ok(it) = self.get_mut(pipe) {
            it.append(bytes);
            wake(pipe, it, true, fx);
        }
    }
}

/// The answer with a part of a ring, or waiting for one.
fn reserved(ring: Option<Ring>, pipe: &mut Pipe, caller: Speaker, nonblocking: bool) -> Tried {
    match ring {
        Some(ring) => done(ring),
        None => wait(pipe, caller, nonblocking),
    }
}
