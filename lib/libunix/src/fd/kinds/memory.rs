//! `/proc/PID/mem`: the memory of a process, by addresses. Its own library reads and writes it (`trace`).

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::stream::in_pieces;
use crate::fd::transfer::Source;
use crate::fd::Fds;
use crate::process::Io;
use crate::server::{self, header, op};
use crate::trace;
use alloc::vec;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::{Kind, SEEK_CUR, SEEK_SET};
use unixproto::ops::Opened;
use unixproto::session::DATA_BYTES;

/// Bits of the inode's number below the id of the process.
const PID_SHIFT: u32 = 16;

/// The open memory of a process.
#[derive(Clone, Copy)]
pub struct Memory {
    desc: u32,
    pid: u32,
}

impl Memory {
    fn is_own(&self) -> bool {
        self.pid == header().key.load(Relaxed)
    }

    fn offset(&self) -> Result<u64> {
        Ok(server::call(op::Seek { desc: self.desc, offset: 0, whence: SEEK_CUR })?.offset)
    }

    fn moved(&self, at: Option<u64>, from: u64, bytes: u64) -> Result<u64> {
        if at.is_none() {
            let offset = from.wrapping_add(bytes) as i64;
            server::call(op::Seek { desc: self.desc, offset, whence: SEEK_SET })?;
        }
        Ok(bytes)
    }

    fn read_piece(&self, io: &mut Io, address: u64, len: usize) -> Result<vec::Vec<u8>> {
        if self.is_own() {
            return Ok(trace::memory::read(&mut io.mm, address, len, true));
        }
        let ask = op::MemoryFile { desc: self.desc, write: false, address, bytes: len as u64 };
        let count = server::wait(io, ask)?.count;
        server::taken(count as usize)
    }

    fn write_piece(&self, io: &mut Io, address: u64, bytes: &[u8]) -> Result<usize> {
        if self.is_own() {
            return Ok(trace::memory::write(&mut io.mm, address, bytes, true));
        }
        let a = server::put_a(bytes);
        let ask = op::MemoryFile { desc: self.desc, write: true, address, bytes: a as u64 };
        Ok(server::wait_filled(io, ask, a)?.count as usize)
    }
}

/// `None`: the process has ended, or its memory is another program's by now.
fn none_of_gone(done: Result<u64>) -> Result<Option<u64>> {
    match done {
        Err(Errno::ESRCH) => Ok(None),
        done => done.map(Some),
    }
}

impl FileOps for Memory {
    const SERVED: Option<Kind> = Some(Kind::Memory);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Memory> {
        Some(Memory { desc: opened.desc, pid: (opened.inode >> PID_SHIFT) as u32 })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        let start = at.map_or_else(|| self.offset(), Ok)?;
        let done = in_pieces(to.left(), |done| {
            let len = to.left().min(DATA_BYTES as u64) as usize;
            let bytes = self.read_piece(io, start.wrapping_add(done), len)?;
            let stored = to.scatter(&mut io.mm, &bytes).bytes;
            Ok((stored as u64, stored < len))
        });
        match none_of_gone(done)? {
            None => Ok(0),
            Some(0) if to.left() > 0 => Err(Errno::EIO),
            Some(done) => self.moved(at, start, done),
        }
    }
    fn write(
        &self,
        io: &mut Io,
        _: Handle,
        at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        let start = at.map_or_else(|| self.offset(), Ok)?;
        let wanted = from.left();
        let done = in_pieces(wanted, |done| {
            let mut bytes = vec![0; from.left().min(DATA_BYTES as u64) as usize];
            let len = from.gather(io, &mut bytes).some()?;
            let written = self.write_piece(io, start.wrapping_add(done), &bytes[..len])?;
            Ok((written as u64, written < len))
        });
        match none_of_gone(done)? {
            None => Ok(0),
            Some(0) if wanted > 0 => Err(Errno::EIO),
            Some(done) => self.moved(at, start, done),
        }
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, offset: i64, whence: u32) -> Result<u64> {
        if !matches!(whence, SEEK_SET | SEEK_CUR) {
            return Err(Errno::EINVAL);
        }
        Ok(server::call(op::Seek { desc: self.desc, offset, whence })?.offset)
    }
}
