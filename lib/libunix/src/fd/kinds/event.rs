//! `eventfd`: a counter. The library keeps it by itself until another process may have it, too; from then
//! on both ask `unixd`.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server, READABLE, WRITABLE};
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::fd::{install, stream, Fds, File};
use crate::process::Io;
use crate::server::{self, op, restart};
use crate::thread::park::{tell_watchers, watch};
use alloc::rc::Rc;
use core::cell::Cell;
use unixproto::files::{Kind, O_CLOEXEC, O_NONBLOCK, O_RDWR};
use unixproto::ops::Opened;

/// An `eventfd`.
#[derive(Clone)]
pub struct Event(Rc<Counter>);

struct Counter {
    count: Cell<u64>,
    /// Reads take one at a time.
    semaphore: bool,
    /// The description that processes share; 0: there is none yet.
    shared: Cell<u32>,
}

/// Bytes that a read or a write moves.
const VALUE_BYTES: usize = 8;
/// Most that it counts to.
const MAX: u64 = u64::MAX - 1;

impl Counter {
    /// What a read answers; 0: nothing is there.
    fn take(&self) -> u64 {
        match self.count.get() {
            count if self.semaphore && count > 0 => {
                self.count.set(count - 1);
                1
            }
            _ => self.count.take(),
        }
    }
}

impl FileOps for Event {
    const SERVED: Option<Kind> = Some(Kind::Event);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Event> {
        let (count, shared) = (Cell::new(0), Cell::new(opened.desc));
        Some(Event(Rc::new(Counter { count, semaphore: false, shared })))
    }

    fn server(&self) -> Server {
        Server::of_shared(self.0.shared.get())
    }

    /// Reads eight bytes.
    fn read(&self, io: &mut Io, file: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if to.left() < VALUE_BYTES as u64 {
            return Err(Errno::EINVAL);
        }
        to.probe_out(&mut io.mm)?;
        let value = loop {
            if let desc @ 1.. = self.0.shared.get() {
                break stream::read_value(io, desc)?;
            }
            let value = self.0.take();
            if value > 0 {
                io.fds.came(file.index, WRITABLE);
                // A writer may have waited for room.
                tell_watchers(io);
                break value;
            }
            if file.flags & O_NONBLOCK != 0 {
                return Err(Errno::EAGAIN);
            }
            watch(io, None).map_err(restart)?;
        };
        Ok(to.scatter(&mut io.mm, &value.to_le_bytes()).some()? as u64)
    }

    /// Writes eight bytes.
    fn write(
        &self,
        io: &mut Io,
        file: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        if from.left() < VALUE_BYTES as u64 {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; VALUE_BYTES];
        from.gather(io, &mut bytes).all()?;
        let add = u64::from_le_bytes(bytes);
        if add == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let count = &self.0.count;
        loop {
            if let desc @ 1.. = self.0.shared.get() {
                return stream::write_value(io, desc, add);
            }
            if count.get() <= MAX - add {
                count.set(count.get() + add);
                io.fds.came(file.index, READABLE);
                tell_watchers(io);
                return Ok(VALUE_BYTES as u64);
            }
            if file.flags & O_NONBLOCK != 0 {
                return Err(Errno::EAGAIN);
            }
            // Another thread may read the counter.
            watch(io, None).map_err(restart)?;
        }
    }

    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn stat(&self) -> Result<()> {
        unnamed_stat(0o600);
        Ok(())
    }

    fn more_flags(&self) -> u32 {
        0
    }

    fn is_watched(&self) -> bool {
        self.0.shared.get() != 0
    }

    fn ready(&self, look: &Look) -> Option<u16> {
        if self.is_watched() {
            return look.told();
        }
        let count = self.0.count.get();
        let read = if count > 0 { READABLE } else { 0 };
        let write = if count < MAX { WRITABLE } else { 0 };
        Some(read | write)
    }

    fn share(&self, io: &mut Io, file: Handle) -> Result<()> {
        let Counter { count, semaphore, shared } = &*self.0;
        if shared.get() == 0 {
            let (count, semaphore) = (count.get(), *semaphore);
            let request = op::Event { count, semaphore, flags: file.flags & O_NONBLOCK };
            shared.set(server::call(request)?.desc);
            io.fds.moved(file.index);
            tell_watchers(io);
        }
        Ok(())
    }
}

/// Is `fd` a counter? `EBADF`, `EINVAL`.
pub fn check(fds: &Fds, fd: i32) -> Result<()> {
    fds.get_open(fd)?;
    fds.of_kind::<Event>(fd).map(|_| ())
}

/// Adds to the counter that `fd` names, as far as there is room.
pub fn add(io: &mut Io, fd: i32, value: u64) -> Result<()> {
    let index = io.fds.index(fd)?;
    let Event(counter) = io.fds.of_kind(fd)?;
    match counter.shared.get() {
        0 => {
            counter.count.set(counter.count.get().saturating_add(value).min(MAX));
            io.fds.came(index, READABLE);
            tell_watchers(io);
            Ok(())
        }
        desc => stream::write_value(io, desc, value).map(|_| ()),
    }
}

pub fn eventfd2(io: &mut Io, count: u32, flags: u32) -> Result<u64> {
    const SEMAPHORE: u32 = 1;
    if flags & !(SEMAPHORE | O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let (count, shared) = (Cell::new(count as u64), Cell::new(0));
    let counter = Counter { count, semaphore: flags & SEMAPHORE != 0, shared };
    let file = File::new(Event(Rc::new(counter)), O_RDWR | flags & O_NONBLOCK);
    Ok(install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn eventfd(io: &mut Io, count: u32) -> Result<u64> {
    eventfd2(io, count, 0)
}
