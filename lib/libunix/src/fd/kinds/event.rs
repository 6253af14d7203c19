//! `eventfd`: a counter that the library keeps by itself. A forked child has a copy.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server, READABLE, WRITABLE};
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::fd::{install, File};
use crate::process::Process;
use crate::server::restart;
use crate::thread::park::{tell_watchers, watch};
use alloc::rc::Rc;
use core::cell::Cell;
use unixproto::files::{O_CLOEXEC, O_NONBLOCK, O_RDWR};

/// An `eventfd`.
#[derive(Clone)]
pub struct Event(Rc<Counter>);

struct Counter {
    count: Cell<u64>,
    /// Reads take one at a time.
    semaphore: bool,
}

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
    const POLLABLE: bool = true;

    fn server(&self) -> Server {
        Server::Library
    }

    /// Reads eight bytes.
    fn read(&self, p: &mut Process, file: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if to.left() < 8 {
            return Err(Errno::EINVAL);
        }
        to.probe_out(p)?;
        loop {
            let value = self.0.take();
            if value > 0 {
                p.fds.came(file.index, WRITABLE);
                // A writer may have waited for room.
                tell_watchers(p);
                return Ok(to.scatter(p, &value.to_le_bytes()).some()? as u64);
            }
            if file.flags & O_NONBLOCK != 0 {
                return Err(Errno::EAGAIN);
            }
            watch(p, None).map_err(restart)?;
        }
    }

    /// Writes eight bytes.
    fn write(
        &self,
        p: &mut Process,
        file: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        if from.left() < 8 {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; 8];
        from.gather(p, &mut bytes).all()?;
        let add = u64::from_le_bytes(bytes);
        if add == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let count = &self.0.count;
        loop {
            if count.get() <= MAX - add {
                count.set(count.get() + add);
                p.fds.came(file.index, READABLE);
                tell_watchers(p);
                return Ok(8);
            }
            if file.flags & O_NONBLOCK != 0 {
                return Err(Errno::EAGAIN);
            }
            // Another thread may read the counter.
            watch(p, None).map_err(restart)?;
        }
    }

    fn seek(&self, _p: &mut Process, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn ready(&self, _: &Look) -> Option<u16> {
        let count = self.0.count.get();
        let read = if count > 0 { READABLE } else { 0 };
        let write = if count < MAX { WRITABLE } else { 0 };
        Some(read | write)
    }
}

pub fn eventfd2(p: &mut Process, count: u32, flags: u32) -> Result<u64> {
    const SEMAPHORE: u32 = 1;
    if flags & !(SEMAPHORE | O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let count = Cell::new(count as u64);
    let event = Event(Rc::new(Counter { count, semaphore: flags & SEMAPHORE != 0 }));
    let file = File::new(event, O_RDWR | flags & O_NONBLOCK);
    Ok(install(p, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn eventfd(p: &mut Process, count: u32) -> Result<u64> {
    eventfd2(p, count, 0)
}
