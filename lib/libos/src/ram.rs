//! Where a domain's objects come from.

use crate::Cap;
use crate::{memd, upcall};
use captypes::{CapAddr, ObjectKind, Place, Status};

/// A source of objects made of RAM.
pub trait Ram {
    /// Makes `count` objects of `bytes` each in the slots from `dst` on.
    fn make(
        &mut self,
        ty: impl Into<ObjectKind>,
        bytes: u64,
        count: u32,
        dst: Place,
    ) -> Result<(), Status>;
}

/// Bytes that an arena asks the memory server for at a time.
const CHUNK: u64 = 256 << 10;

/// One RAM capability that is used up from its start, and the memory server behind it.
///
/// A used-up capability is dropped at once: the objects made of it live on, and each piece of
/// memory goes home when the last capability to it dies.
#[derive(Debug)]
pub struct Arena {
    ram: CapAddr,
    next: u64,
    end: u64,
    server: CapAddr,
}

impl Arena {
    /// Of the RAM in slot `ram`, bytes `next..end`; no memory server is asked for more.
    pub const fn over(ram: CapAddr, next: u64, end: u64) -> Self {
        Arena { ram, next, end, server: CapAddr::NULL }
    }

    /// Of RAM from the memory server at endpoint `server`, kept in slot `ram`, now empty.
    pub const fn from_server(ram: CapAddr, server: CapAddr) -> Self {
        Arena { ram, next: 0, end: 0, server }
    }

    /// Bytes left before more is needed.
    pub const fn left(&self) -> u64 {
        self.end - self.next
    }

    /// Can more be had?
    pub const fn has_server(&self) -> bool {
        !self.server.is_null()
    }

    /// Where the next object starts in the RAM.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Takes `bytes` of the present RAM: the capability and the first byte there.
    pub fn take(&mut self, bytes: u64) -> Result<(CapAddr, u64), Status> {
        if bytes > self.left() {
            self.refill(bytes)?;
        }
        let offset = self.next;
        self.next += bytes;
        Ok((self.ram, offset))
    }

    /// Drops the RAM capability; what is left of its memory goes home.
    pub fn release(&mut self) -> Result<(), Status> {
        if self.end != 0 {
            self.ram.delete()?;
        }
        (self.next, self.end) = (0, 0);
        Ok(())
    }

    fn refill(&mut self, bytes: u64) -> Result<(), Status> {
        if self.server.is_null() {
            return Err(Status::NoMemory);
        }
        self.release()?;
        let chunk = bytes.max(CHUNK);
        let near = memd::near(upcall::own_frame());
        self.end = memd::alloc_between(self.server, bytes, chunk, near, self.ram)?;
        Ok(())
    }
}

impl Ram for Arena {
    fn make(
        &mut self,
        ty: impl Into<ObjectKind>,
        bytes: u64,
        count: u32,
        dst: Place,
    ) -> Result<(), Status> {
        let (ram, offset) = self.take(bytes * count as u64)?;
        ram.retype(ty, offset, bytes, count, dst)
    }
}
