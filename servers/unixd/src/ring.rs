//! A pipe: what it holds, who waits for it, and what those have lent who wait.
//!
//! What it holds is the server's own: no process sees any of it but through copies. Whoever reads or writes much
//! lends its buffer for as long as it waits ([`Lent`]); then bytes go from the writer's buffer to the reader's in one
//! copy, if the pipe is empty.

use crate::caps::{frames, Slots};
use crate::lent::Lent;
use crate::peers;
use crate::threads::Tid;
use crate::wait::Waiters;
use crate::window::{Session, Shared};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use memfs::Ino;
use unixproto::files::*;
use unixproto::session::DATA_BYTES;
use unixproto::Errno;

/// Writes up to this many bytes are not mixed with others.
const ATOMIC: usize = 4096;
/// As much as a pipe holds, unless it was told otherwise.
pub const RING: usize = PIPE_BYTES as usize;

/// As much as a pipe has room for at first.
const PAGE_BYTES: usize = 4096;

/// Memory of a pipe.
pub struct Memory {
    // Unmapped first.
    map: Shared,
    _frames: Slots,
    bytes: usize,
}

impl Memory {
    /// As much as a pipe has at first.
    pub fn page() -> Result<Memory, Errno> {
        Memory::new(PAGE_BYTES)
    }
    /// Is it as much as a pipe has at first?
    pub fn is_page(&self) -> bool {
        self.bytes == PAGE_BYTES
    }
    /// More than a pipe has, unless it was told to hold more.
    fn is_large(&self) -> bool {
        self.bytes > RING
    }
    fn new(bytes: usize) -> Result<Memory, Errno> {
        let frames = frames(bytes.div_ceil(RING) as u32, bytes.min(RING) as u64)?;
        let map = match frames.count() {
            1 => Shared::map(frames.first(), bytes as u64)?,
            _ => Shared::map_row(&frames)?,
        };
        Ok(Memory { map, _frames: frames, bytes })
    }
    /// Has a part of the ring copied: where it lies, where it begins among what is copied, and how much;
    /// in two pieces if the end of the ring lies inside. Returns how much was.
    #[inline]
    fn pieces(
        &self,
        at: usize,
        bytes: usize,
        mut copy: impl FnMut(usize, usize, usize) -> usize,
    ) -> usize {
        let first = bytes.min(self.bytes - at);
        let done = copy(at, 0, first);
        if done < first || first == bytes {
            return done;
        }
        first + copy(0, first, bytes - first)
    }
    /// Some of it, that lies inside.
    fn part(&self, at: usize, bytes: usize) -> &[u8] {
        let Some(address) = self.map.address(at, bytes) else { return &[] };
        // SAFETY: mapped as long as `self` lives; the Frame is the server's alone, and nothing is copied into it but by
        // who has `self` to himself.
        unsafe { core::slice::from_raw_parts(address as *const u8, bytes) }
    }
    /// So many bytes from a place on, and so many at the start, which lie before that.
    fn places(&mut self, at: usize, bytes: usize, behind: usize) -> [&mut [u8]; 2] {
        debug_assert!(behind <= at);
        let addresses = (self.map.address(at, bytes), self.map.address(0, behind));
        let (Some(first), Some(second)) = addresses else { return [&mut [], &mut []] };
        // SAFETY: as in `part`, and the two do not meet.
        unsafe {
            [
                core::slice::from_raw_parts_mut(first as *mut u8, bytes),
                core::slice::from_raw_parts_mut(second as *mut u8, behind),
            ]
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
}

/// A thread that waits for a pipe, and has lent its buffer.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// The thread.
    pub tid: Tid,
    /// Bytes of the buffer that were not copied yet.
    pub left: usize,
}

/// A pipe.
pub struct Pipe {
    memory: Memory,
    /// As much as it holds.
    capacity: usize,
    head: usize,
    length: usize,
    /// Descriptions open for reading.
    readers: u32,
    /// Descriptions open for writing.
    writers: u32,
    /// How often each end was ever opened (fifos wait for that).
    opened: [u32; 2],
    waiters: Waiters,
    /// Who waits to read into a buffer of its own, and to write from one.
    pub lent: [VecDeque<Waiting>; 2],
    /// What is lent to a process at each end. While it is open, there is nothing else in the pipe.
    pub peers: Option<Box<peers::Ring>>,
    /// The last write was one of a few bytes.
    pub is_small: bool,
    fifo: Option<Ino>,
    /// User and group that made it: of a pipe without a name.
    owner: (u32, u32),
    /// User whose [pages](crate::pipes::Pipes) these are.
    user: u32,
}

/// Which of [`Pipe::lent`].
pub const READ: usize = 0;
/// Which of [`Pipe::lent`].
pub const WRITE: usize = 1;

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
    pub fn new(
        memory: Memory,
        (capacity, user): (usize, u32),
        fifo: Option<Ino>,
        owner: (u32, u32),
    ) -> Pipe {
        Pipe {
            memory,
            capacity,
            user,
            head: 0,
            length: 0,
            readers: 0,
            writers: 0,
            opened: [0; 2],
            waiters: Waiters::default(),
            lent: Default::default(),
            peers: None,
            is_small: false,
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
    /// User whose pages it has.
    pub fn user(&self) -> u32 {
        self.user
    }
    /// Its memory, once nobody has it open.
    pub fn into_memory(self) -> Memory {
        self.memory
    }
    /// Those who wait for it, and have lent nothing.
    #[inline]
    pub fn waiters(&mut self) -> &mut Waiters {
        &mut self.waiters
    }
    /// Bytes that can be read: what waits to be written is in the pipe, as far as there is room.
    pub fn length(&self) -> usize {
        let waiting = self.lent[WRITE].iter();
        let here = self.length + self.peers.as_ref().map_or(0, |ring| ring.close());
        waiting.fold(here, |sum, one| sum.saturating_add(one.left)).min(self.capacity)
    }
    /// Does it hold nothing?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
    /// Does nobody have it open for reading any more?
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.readers == 0
    }
    /// Does nobody have it open for writing any more?
    #[inline]
    pub fn is_over(&self) -> bool {
        self.writers == 0
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
        let (mut bits, length) = (0, self.length());
        if flags & O_ACCMODE != O_WRONLY {
            if length > 0 {
                bits |= POLLIN | POLLRDNORM;
            }
            if self.writers == 0 && (self.fifo.is_none() || self.opened[1] > 0) {
                bits |= POLLHUP;
            }
        }
        if flags & O_ACCMODE != O_RDONLY {
            if self.capacity - length >= ATOMIC {
                bits |= POLLOUT | POLLWRNORM;
            }
            if self.readers == 0 {
                bits |= POLLERR;
            }
        }
        bits
    }

    /// As much as it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// It is to hold so much: a power of two of pages. Memory comes when it is needed; what is more than others have
    /// goes at once, since it does not count for the user any more.
    ///
    /// # Errors
    ///
    /// `EBUSY`: there is more in it, or somebody waits to write. `ENOMEM`: to have less takes memory that there is not.
    pub fn set_capacity(&mut self, bytes: usize) -> Result<(), Errno> {
        if self.length() > bytes || !self.lent[WRITE].is_empty() {
            return Err(Errno::EBUSY);
        }
        if self.memory.is_large() && self.memory.bytes > bytes {
            self.move_to(bytes)?;
        }
        self.capacity = bytes;
        Ok(())
    }

    /// Bytes that it has room for.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity - self.length
    }
    fn tail(&self) -> usize {
        self.memory.further(self.head, self.length)
    }
    fn consume(&mut self, bytes: usize) {
        self.head = self.memory.further(self.head, bytes);
        self.length -= bytes;
    }

    /// Gets other memory, where all that it holds has room. `ENOMEM`: there is none, and all is as before.
    #[cold]
    fn move_to(&mut self, bytes: usize) -> Result<(), Errno> {
        let new = Memory::new(bytes)?;
        self.memory.pieces(self.head, self.length, |from, to, bytes| {
            new.map.copy_from(to, &self.memory.map, from, bytes);
            bytes
        });
        self.memory = new;
        self.head = 0;
        Ok(())
    }

    /// Has room in memory for `bytes` more, if there is any memory. Answers how many there is room for.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> usize {
        let bytes = bytes.min(self.room());
        if self.length + bytes > self.memory.bytes {
            // Less will do, too.
            let _ = self.move_to((self.length + bytes).next_power_of_two().max(RING));
        }
        bytes.min(self.memory.bytes - self.length)
    }

    /// Reads through the data area.
    #[inline(always)]
    pub fn read(&mut self, session: &Session, bytes: usize) -> Moved {
        if bytes == 0 || self.length == 0 && self.writers == 0 {
            return Moved::Over;
        }
        if self.length == 0 {
            return Moved::Wait;
        }
        let bytes = bytes.min(self.length).min(DATA_BYTES);
        self.memory.pieces(self.head, bytes, |from, to, bytes| {
            session.copy_from(to, &self.memory.map, from, bytes);
            bytes
        });
        self.consume(bytes);
        Moved::Bytes(bytes)
    }

    /// Writes what is in the data area from `from` up to `end`, of which there is something.
    #[inline(always)]
    pub fn write(&mut self, session: &Session, (from, end): (usize, usize)) -> Moved {
        let left = end - from;
        if left == 0 {
            return Moved::Bytes(0);
        }
        if self.readers == 0 {
            return Moved::Over;
        }
        let least = if left <= ATOMIC && from == 0 { left } else { 1 };
        if self.room() < least {
            return Moved::Wait;
        }
        let bytes = self.make_room(left);
        if bytes < least {
            return Moved::Wait;
        }
        self.memory.pieces(self.tail(), bytes, |to, at, bytes| {
            session.copy_to(from + at, &self.memory.map, to, bytes);
            bytes
        });
        self.length += bytes;
        Moved::Bytes(bytes)
    }

    /// Copies up to `bytes` of what it holds to what a reader has lent. Returns how many.
    pub fn give(&mut self, reader: Lent, bytes: usize) -> usize {
        let bytes = bytes.min(self.length);
        let done = self.memory.pieces(self.head, bytes, |from, to, bytes| {
            let from = self.memory.map.address(from, bytes);
            from.map_or(0, |from| reader.put(to, from, bytes))
        });
        self.consume(done);
        done
    }

    /// Copies up to `bytes` of what a writer has lent, from a byte on, as far as there is room. Returns how many, and
    /// whether the writer has no more although there was room for that.
    pub fn pull(&mut self, writer: Lent, from: usize, bytes: usize) -> (usize, bool) {
        let bytes = self.make_room(bytes);
        let done = self.memory.pieces(self.tail(), bytes, |to, at, bytes| {
            let to = self.memory.map.address(to, bytes);
            to.map_or(0, |to| writer.get(from + at, to, bytes))
        });
        self.length += done;
        (done, done < bytes)
    }

    /// A thread that has lent its buffer waits, or has waited already: so much is still to be copied.
    pub fn waits(&mut self, which: usize, tid: Tid, left: usize) {
        match self.lent[which].iter_mut().find(|one| one.tid == tid) {
            Some(one) => one.left = left,
            None => self.lent[which].push_back(Waiting { tid, left }),
        }
    }

    /// A thread waits no more. Returns `true` if it did.
    pub fn waits_no_more(&mut self, tid: Tid) -> bool {
        let mut found = false;
        for queue in &mut self.lent {
            if let Some(at) = queue.iter().position(|one| one.tid == tid) {
                queue.remove(at);
                found = true;
            }
        }
        found
    }
}

/// What is lent to its ends.
impl Pipe {
    /// Has all that is in it here: something else is done to it.
    #[inline(always)]
    pub fn settle(&mut self) {
        if self.peers.as_ref().is_some_and(|ring| ring.is_in_use()) {
            self.absorb();
        }
    }

    #[inline(never)]
    fn absorb(&mut self) {
        let tail = self.tail();
        let (Some(ring), memory) = (&self.peers, &self.memory) else { return };
        let bytes = ring.close();
        if bytes == 0 {
            return;
        }
        // There was nothing else, and room for as much since it was lent.
        ring.take(|from, at, begin, count| {
            memory.pieces(memory.further(tail, begin), count, |to, more, count| {
                memory.map.copy_from(to, from, at + more, count);
                count
            });
        });
        self.length += bytes;
    }

    /// It can be lent from now on.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is a fifo, or does not hold as much as others. `ENOMEM`.
    pub fn begin_lending(&mut self) -> Result<(), Errno> {
        if self.fifo.is_some() || self.capacity != RING {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.memory.bytes < RING {
            self.move_to(RING)?;
        }
        self.peers = Some(Box::new(peers::Ring::new()?));
        Ok(())
    }

    /// Can what is lent be opened, if nobody watches: does nothing depend on what is in it?
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        let is_open = self.readers > 0 && self.writers > 0;
        let is_idle = self.waiters.is_empty() && self.lent.iter().all(VecDeque::is_empty);
        let is_quiet = self.length == 0 && self.is_small && is_open && is_idle;
        is_quiet && self.peers.as_ref().is_some_and(|ring| ring.can_be_opened())
    }
}

/// What the server moves itself.
impl Pipe {
    /// Bytes that can be taken out. `None`: nobody is left who could write any.
    pub fn filled(&self) -> Option<usize> {
        (self.length > 0 || self.writers > 0).then_some(self.length)
    }
    /// Bytes that there is room for, of so many. `None`: nobody is left who could read any.
    pub fn vacant(&mut self, bytes: usize) -> Option<usize> {
        (self.readers > 0).then(|| self.make_room(bytes))
    }
    /// The first bytes, which are there: those behind the end of the ring come second.
    pub fn front(&self, bytes: usize) -> [&[u8]; 2] {
        let first = bytes.min(self.memory.bytes - self.head);
        [self.memory.part(self.head, first), self.memory.part(0, bytes - first)]
    }
    /// Forgets the first bytes, which are there.
    pub fn skip(&mut self, bytes: usize) {
        self.consume(bytes);
    }
    /// Has bytes added for which there is room: `fill` is told where they go, and answers how many there are.
    pub fn add(
        &mut self,
        bytes: usize,
        fill: impl FnOnce([&mut [u8]; 2]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let tail = self.tail();
        let first = bytes.min(self.memory.bytes - tail);
        let added = fill(self.memory.places(tail, first, bytes - first))?;
        self.length += added.min(bytes);
        Ok(added)
    }
}
