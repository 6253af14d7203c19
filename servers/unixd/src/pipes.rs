//! Pipes and fifos: what they hold, 64 KiB unless they are told otherwise, is memory of this server, a page as long as that is enough.
//!
//! Small transfers go through the session's data area. For large ones a process lends its own buffer with the
//! request (`PipeRead`, `PipeWrite`). Then the kernel copies from the writer's buffer to the reader's, if both wait and the
//! pipe is empty; else between a buffer and what the pipe holds. What does not fit in stays in the writer's buffer
//! as long as that one waits.

use crate::descs::{Desc, Descs, Object};
use crate::effects::Effects;
use crate::lent::Lent;
use crate::peers;
use crate::procs::{Pid, Proc, Procs};
use crate::ring::{Memory, Moved, Pipe, READ, RING, WRITE};
use crate::signals::from_kernel;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use crate::watches::Source;
use crate::window::Session;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use credentials::Capability;
use memfs::Ino;
use unixproto::files::*;
use unixproto::ops::Piped;
use unixproto::signals::SIGPIPE;
use unixproto::{Errno, Reply};

/// Pages that are kept for the next pipes.
const KEPT: usize = 4;
/// From so many pages on that a user's pipes may hold, new ones hold [few](FEW), and none holds more than before
/// (`/proc/sys/fs/pipe-user-pages-soft`).
pub const USER_PAGES: usize = 16 * 1024;
/// As much as pipes hold of a user who has many.
const FEW: usize = 2 * PAGE;
const PAGE: usize = 4096;
/// What a pipe that is lent counts for beside that.
const LENT: usize = peers::PAGES * PAGE;
/// Nothing can be asked for beyond this.
const LONGEST: u64 = 1 << 31;

/// Whose pipe it is to be.
#[derive(Clone, Copy)]
pub struct User {
    /// The user.
    pub id: u32,
    /// It has a capability for which limits of users do not hold.
    pub is_exempt: bool,
}

/// All pipes, and the fifos that have one.
#[derive(Default)]
pub struct Pipes {
    table: Vec<Option<Pipe>>,
    fifos: BTreeMap<Ino, u32>,
    kept: Vec<Memory>,
    /// Pages that the pipes of each user may hold. Nobody with none is in it.
    pages: BTreeMap<u32, usize>,
}

/// Limits of what the pipes of a user may hold are not for this process.
pub fn is_exempt(proc: &Proc) -> bool {
    proc.has(Capability::SysResource) || proc.has(Capability::SysAdmin)
}

/// The pipe that a description is of.
pub fn pipe_of(desc: &Desc) -> Result<u32, Errno> {
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
    if !pipe.is_empty() {
        pipe.lent[READ].iter().for_each(|reader| fx.wake(reader.tid));
    }
    // The others when that has come to its end.
    if let Some(writer) = pipe.lent[WRITE].front() {
        fx.wake(writer.tid);
    }
    fx.changed(Source::Pipe(number), data);
}

/// The same when an end has been opened or closed.
fn wake_all(number: u32, pipe: &mut Pipe, fx: &mut Effects) {
    pipe.lent.iter().flatten().for_each(|waiting| fx.wake(waiting.tid));
    wake(number, pipe, false, fx);
}

/// The thread that has waited longest with a buffer of its own: what it lends, how many bytes of it are done, and how
/// many are not.
fn front(pipe: &mut Pipe, which: usize, procs: &Procs) -> Option<(Lent, usize, usize)> {
    while let Some(&waiting) = pipe.lent[which].front() {
        if let (Some(blocked), Ok(lent)) =
            (procs.blocked(waiting.tid), Lent::by(procs, waiting.tid))
        {
            return Some((lent, blocked.call.done, waiting.left));
        }
        pipe.lent[which].pop_front();
    }
    None
}

/// So much was copied to or from the buffer of that thread, and perhaps there is a hole behind; it is answered
/// if that is all.
fn advance(
    pipe: &mut Pipe,
    which: usize,
    procs: &mut Procs,
    (bytes, hole): (usize, bool),
    fx: &mut Effects,
) {
    let Some(waiting) = pipe.lent[which].front_mut() else { return };
    let tid = waiting.tid;
    waiting.left -= bytes.min(waiting.left);
    // A reader has enough with what there is.
    let is_done = waiting.left == 0 || hole || which == READ && bytes > 0;
    if let Some(Some(blocked)) = procs.blocked_mut(tid) {
        blocked.call.done += bytes;
        blocked.call.hole = hole;
    }
    if is_done {
        pipe.lent[which].pop_front();
        fx.wake(tid);
    }
}

/// The answer of a request that came with a buffer.
fn piped(count: usize, again: bool) -> Tried {
    done(Piped { count: count as u64, again })
}

/// The caller waits with its buffer, of which so much is left.
fn wait_lending(
    (number, pipe): (u32, &mut Pipe),
    which: usize,
    (caller, call): (Speaker, &mut Call),
    left: usize,
) -> Tried {
    pipe.waits(which, caller.tid, left);
    call.kept = number + 1;
    Ok(Outcome::Block(0))
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
    /// To be changed: all that is in it is here.
    #[inline(always)]
    fn get_mut(&mut self, pipe: u32) -> Result<&mut Pipe, Errno> {
        let it = self.table.get_mut(pipe as usize).and_then(Option::as_mut);
        let it = it.ok_or(Errno::EBADF)?;
        it.settle();
        Ok(it)
    }
    fn memory(&mut self) -> Result<Memory, Errno> {
        match self.kept.pop() {
            Some(memory) => Ok(memory),
            None => Memory::page().map_err(|_| Errno::ENFILE),
        }
    }
    /// Makes a pipe that nobody has open.
    pub fn add(&mut self, user: User, fifo: Option<Ino>, owner: (u32, u32)) -> Result<u32, Errno> {
        let has_many = !user.is_exempt && self.pages_of(user.id) + RING / PAGE > USER_PAGES;
        let capacity = if has_many { FEW } else { RING };
        let pipe = Pipe::new(self.memory()?, (capacity, user.id), fifo, owner);
        self.charge(user.id, (0, capacity));
        if let Some(index) = self.table.iter().position(Option::is_none) {
            self.table[index] = Some(pipe);
            return Ok(index as u32);
        }
        self.table.push(Some(pipe));
        Ok(self.table.len() as u32 - 1)
    }
    /// The pipe behind a fifo.
    pub fn fifo(&mut self, user: User, ino: Ino) -> Result<u32, Errno> {
        if let Some(&pipe) = self.fifos.get(&ino) {
            return Ok(pipe);
        }
        let pipe = self.add(user, Some(ino), (0, 0))?;
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
        let lent = if pipe.peers.is_some() { LENT } else { 0 };
        self.charge(pipe.user(), (pipe.capacity() + lent, 0));
        let memory = pipe.into_memory();
        if memory.is_page() && self.kept.len() < KEPT {
            self.kept.push(memory);
        }
    }

    /// Pages that the pipes of a user may hold.
    fn pages_of(&self, user: u32) -> usize {
        self.pages.get(&user).copied().unwrap_or(0)
    }
    /// A pipe of a user holds so much, and before that so much.
    fn charge(&mut self, user: u32, (before, now): (usize, usize)) {
        let pages = (self.pages_of(user) + now / PAGE).saturating_sub(before / PAGE);
        match pages {
            0 => self.pages.remove(&user),
            _ => self.pages.insert(user, pages),
        };
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
    /// As much as a pipe holds; sets that first unless it is 0.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is more than there can be. `EPERM`: it is more than before, and more than a pipe may hold, or all of
    /// its user's; who asks has (`may_exceed`) not the one, or (`is_exempt`) not the other capability. `EBUSY`, `ENOMEM`: as
    /// [`Pipe::set_capacity`].
    pub fn size(&mut self, pipe: u32, bytes: u64, (may_exceed, is_exempt): (bool, bool)) -> Tried {
        let it = self.get(pipe)?;
        let (user, before) = (it.user(), it.capacity());
        if bytes == 0 {
            return count(before);
        }
        if bytes > LONGEST {
            return Err(Errno::EINVAL);
        }
        let now = bytes.max(PAGE as u64).next_power_of_two() as usize;
        self.end_loan(pipe);
        if now > before {
            let of_user = self.pages_of(user) + (now - before) / PAGE;
            let too_large = now as u64 > PIPE_BYTES_MOST && !may_exceed;
            if too_large || of_user > USER_PAGES && !is_exempt {
                return Err(Errno::EPERM);
            }
        }
        self.get_mut(pipe)?.set_capacity(now)?;
        self.charge(user, (before, now));
        count(now)
    }
    /// User and group that made a pipe.
    pub fn owner(&self, pipe: u32) -> (u32, u32) {
        self.get(pipe).map_or((0, 0), Pipe::owner)
    }

    /// One more description of a pipe.
    pub fn opened(&mut self, pipe: u32, flags: u32, fx: &mut Effects) {
        let Ok(it) = self.get_mut(pipe) else { return };
        it.opened(flags);
        wake_all(pipe, it, fx);
    }

    /// One description less.
    pub fn closed(&mut self, pipe: u32, flags: u32, fx: &mut Effects) {
        let Ok(it) = self.get_mut(pipe) else { return };
        let is_over = it.closed(flags);
        wake_all(pipe, it, fx);
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
        match it.read(session, bytes) {
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
        it.is_small = true;
        let total = call.lengths.0;
        match it.write(session, (call.done, total)) {
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

    /// What waits in the buffers of writers comes into the pipe, as far as there is room: somebody is about to read or
    /// write who has lent nothing.
    #[inline(always)]
    pub fn pull_waiting(&mut self, pipe: u32, procs: &mut Procs, fx: &mut Effects) {
        match self.get_mut(pipe) {
            Ok(it) if !it.lent[WRITE].is_empty() => pull_all(it, procs, fx),
            _ => {}
        }
    }

    /// Reads to the buffer that the caller has lent.
    pub fn read_lent(
        &mut self,
        pipe: u32,
        (had, now): (u64, bool),
        (caller, call): (Speaker, &mut Call),
        bytes: u64,
        procs: &mut Procs,
        fx: &mut Effects,
    ) -> Tried {
        // A writer has filled it, or found that it could not.
        if call.done > 0 || call.hole || bytes == 0 {
            return piped(call.done, call.hole);
        }
        let it = self.get_mut(pipe)?;
        let own = Lent::by(procs, caller.tid)?;
        let most =
            bytes.min((it.capacity() as u64).saturating_sub(had)).min(PIPE_BYTES_MOST) as usize;
        let mut done = it.give(own, most);
        let mut hole = done < most && !it.is_empty();
        while done < most && !hole {
            let Some((writer, at, left)) = front(it, WRITE, procs) else { break };
            let wanted = left.min(most - done);
            let (passed, own_hole) = writer.pass(at, (own, done), wanted);
            advance(it, WRITE, procs, (passed, passed < wanted && !own_hole), fx);
            hole = passed < wanted && own_hole;
            done += passed;
        }
        if done > 0 {
            wake(pipe, it, false, fx);
        }
        if done > 0 || hole || it.is_over() {
            return piped(done, hole);
        }
        if now {
            return Err(Errno::EAGAIN);
        }
        wait_lending((pipe, it), READ, (caller, call), most)
    }

    /// Writes the buffer that the caller has lent: all of it, unless the description never waits.
    pub fn write_lent(
        &mut self,
        pipe: u32,
        (nonblocking, flags): (bool, u32),
        (caller, call): (Speaker, &mut Call),
        total: u64,
        procs: &mut Procs,
        fx: &mut Effects,
    ) -> Tried {
        let total = usize::try_from(total).map_err(|_| Errno::EINVAL)?;
        // A reader has got the rest, or found that it could not.
        if call.hole || call.done >= total {
            return piped(call.done, call.hole);
        }
        let now = nonblocking || flags & splice::NONBLOCK != 0;
        let partly = now || flags & splice::SOME != 0;
        let it = self.get_mut(pipe)?;
        it.is_small = false;
        if it.is_broken() {
            return broken(caller, call.done, fx);
        }
        if partly {
            pull_all(it, procs, fx);
        }
        let own = Lent::by(procs, caller.tid)?;
        if it.lent[WRITE].front().is_none_or(|first| first.tid == caller.tid) {
            pass_to_readers(it, (own, total), call, procs, fx);
            let left = total - call.done;
            // The rest stays where it is, if it must wait anyway: then whoever reads next gets it by one copy. The
            // pipe is as full at first as it would be.
            if left > 0 && (left <= it.room() || call.kept == 0 || partly) {
                let (pulled, hole) = it.pull(own, call.done, left);
                call.done += pulled;
                if pulled > 0 {
                    wake(pipe, it, true, fx);
                }
                if hole {
                    return piped(call.done, true);
                }
            }
        }
        if call.done == total || partly && call.done > 0 {
            return piped(call.done, false);
        }
        if partly {
            return wait(it, caller, now);
        }
        let left = total - call.done;
        wait_lending((pipe, it), WRITE, (caller, call), left)
    }

    /// A thread that has lent its buffer waits no more.
    pub fn give_up(&mut self, pipe: u32, tid: Tid, fx: &mut Effects) {
        if let Ok(it) = self.get_mut(pipe) {
            if it.waits_no_more(tid) {
                wake(pipe, it, false, fx);
            }
        }
    }
}

/// What is lent to the ends of pipes.
impl Pipes {
    /// Is anything of a pipe lent?
    #[inline]
    pub fn is_lent(&self, pipe: u32) -> bool {
        self.get(pipe).is_ok_and(|it| it.peers.is_some())
    }

    /// Lends an end to a process, for a description.
    ///
    /// # Errors
    /// `EBUSY`: another one has it. `ENOSPC`: its user has enough. As [`Pipe::begin_lending`].
    pub fn lend(&mut self, pipe: u32, which: usize, who: (Pid, u32)) -> Result<(), Errno> {
        let user = self.get_mut(pipe)?.user();
        if !self.is_lent(pipe) {
            if self.pages_of(user) + peers::PAGES > USER_PAGES {
                return Err(Errno::ENOSPC);
            }
            self.get_mut(pipe)?.begin_lending()?;
            self.charge(user, (0, LENT));
        }
        self.get_mut(pipe)?.peers.as_mut().ok_or(Errno::EBADF)?.lend(which, who)
    }

    /// What is lent of a pipe.
    pub fn ring(&self, pipe: u32) -> Result<&peers::Ring, Errno> {
        self.get(pipe)?.peers.as_deref().ok_or(Errno::EBADF)
    }

    /// Nothing of a pipe is lent any more.
    pub fn end_loan(&mut self, pipe: u32) {
        let Ok(it) = self.get_mut(pipe) else { return };
        let user = it.user();
        if it.peers.take().is_some() {
            self.charge(user, (LENT, 0));
        }
    }

    /// The same, if somebody does not hold any more what he had it for.
    #[inline]
    pub fn let_go(&mut self, pipe: u32, descs: &Descs) {
        if self.ring(pipe).is_ok_and(|ring| ring.is_returned(descs)) {
            self.end_loan(pipe);
        }
    }

    /// Can what is lent of a pipe be used, if nobody watches it? What cannot be used any more goes.
    #[inline]
    pub fn is_at_rest(&mut self, pipe: u32) -> bool {
        match self.ring(pipe) {
            Ok(ring) if ring.is_bad() => {
                self.end_loan(pipe);
                false
            }
            Ok(_) => self.get(pipe).is_ok_and(Pipe::is_at_rest),
            Err(_) => false,
        }
    }

    /// What is lent of a pipe is used from now on.
    pub fn open_ring(&self, pipe: u32) {
        if let Ok(ring) = self.ring(pipe) {
            ring.open();
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
        match it.filled() {
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
        match it.vacant(bytes) {
            None => Err(broken(caller, 0, fx)),
            Some(0) => Err(wait(it, caller, nonblocking)),
            Some(bytes) => Ok(bytes),
        }
    }

    /// Takes a pipe out, to have something done with what it holds. It is to be [put back](Self::put_back).
    pub fn lift(&mut self, pipe: u32) -> Result<Pipe, Errno> {
        self.get_mut(pipe)?;
        self.table.get_mut(pipe as usize).and_then(Option::take).ok_or(Errno::EBADF)
    }

    /// Puts back what was [lifted](Self::lift).
    pub fn put_back(&mut self, pipe: u32, lifted: Pipe) {
        if let Some(place) = self.table.get_mut(pipe as usize) {
            *place = Some(lifted);
        }
    }

    /// Forgets the first bytes of a pipe.
    pub fn skip(&mut self, pipe: u32, bytes: usize, fx: &mut Effects) {
        if let Ok(it) = self.get_mut(pipe) {
            it.skip(bytes);
            wake(pipe, it, false, fx);
        }
    }

    /// There is more to be read in a pipe.
    pub fn filled_anew(&mut self, pipe: u32, fx: &mut Effects) {
        if let Ok(it) = self.get_mut(pipe) {
            wake(pipe, it, true, fx);
        }
    }

    /// Adds bytes for which there is room; see [`Pipe::add`].
    pub fn add_bytes(
        &mut self,
        pipe: u32,
        bytes: usize,
        fx: &mut Effects,
        fill: impl FnOnce([&mut [u8]; 2]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let it = self.get_mut(pipe)?;
        let added = it.add(bytes, fill)?;
        wake(pipe, it, true, fx);
        Ok(added)
    }
}

/// See [`Pipes::pull_waiting`].
#[inline(never)]
fn pull_all(pipe: &mut Pipe, procs: &mut Procs, fx: &mut Effects) {
    while pipe.room() > 0 {
        let Some((writer, at, left)) = front(pipe, WRITE, procs) else { break };
        let (pulled, hole) = pipe.pull(writer, at, left);
        advance(pipe, WRITE, procs, (pulled, hole), fx);
        if pulled < left && !hole {
            break;
        }
    }
}

/// A writer has bytes for those who wait to read into their own buffers, if the pipe is empty: from the one buffer to
/// the other.
fn pass_to_readers(
    pipe: &mut Pipe,
    (writer, total): (Lent, usize),
    call: &mut Call,
    procs: &mut Procs,
    fx: &mut Effects,
) {
    while call.done < total && pipe.is_empty() {
        let Some((reader, at, left)) = front(pipe, READ, procs) else { break };
        let wanted = left.min(total - call.done);
        let (passed, their_hole) = writer.pass(call.done, (reader, at), wanted);
        call.done += passed;
        if passed == 0 && !their_hole {
            break;
        }
        answer_reader(pipe, procs, (passed, their_hole), fx);
    }
}

/// The reader that has waited longest has got so much. If it runs before the writer does, it is most likely waiting again
/// when that one writes next.
fn answer_reader(
    pipe: &mut Pipe,
    procs: &mut Procs,
    (bytes, hole): (usize, bool),
    fx: &mut Effects,
) {
    let Some(tid) = pipe.lent[READ].front().map(|reader| reader.tid) else { return };
    let answer = Piped { count: bytes as u64, again: hole };
    if !fx.answer_last(tid, answer.encode()) {
        return advance(pipe, READ, procs, (bytes, hole), fx);
    }
    pipe.lent[READ].pop_front();
    if let Some(blocked) = procs.blocked_mut(tid) {
        *blocked = None;
    }
}
