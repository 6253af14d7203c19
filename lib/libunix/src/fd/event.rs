//! `eventfd` and `timerfd`: counters that the library keeps by itself. A forked child has copies.

use super::buffers::Cursor;
use super::transfer::Source;
use super::{File, Object};
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::server::restart;
use crate::sys::time;
use crate::thread::park::{tell_watchers, watch};
use unixproto::files::{O_NONBLOCK, POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};

/// An `eventfd`.
#[derive(Clone, Copy)]
pub struct Event {
    pub count: u64,
    /// Reads take one at a time.
    pub semaphore: bool,
}

/// A `timerfd`.
#[derive(Clone, Copy, Default)]
pub struct Timer {
    /// Clock that `timerfd_create` was given.
    pub clock: u32,
    /// When it expires, on the monotonic clock; 0: it is off.
    pub deadline: u64,
    /// Its period, 0 for none.
    pub interval: u64,
}

impl Timer {
    /// How often it has expired.
    pub fn expirations(&self, now: u64) -> u64 {
        if self.deadline == 0 || now < self.deadline {
            0
        } else {
            1 + (now - self.deadline).checked_div(self.interval).unwrap_or(0)
        }
    }
    /// Takes the expirations.
    fn take(&mut self, now: u64) -> u64 {
        let count = self.expirations(now);
        if count > 0 {
            self.deadline =
                if self.interval == 0 { 0 } else { self.deadline + count * self.interval };
        }
        count
    }
}

/// Most that an `eventfd` counts to.
const EVENT_MAX: u64 = u64::MAX - 1;

/// What is ready.
pub fn ready(object: &Object) -> u16 {
    match object {
        Object::Event(event) => {
            let read = if event.count > 0 { POLLIN | POLLRDNORM } else { 0 };
            let write = if event.count < EVENT_MAX { POLLOUT | POLLWRNORM } else { 0 };
            read | write
        }
        Object::Timer(timer) if timer.expirations(time::monotonic()) > 0 => POLLIN | POLLRDNORM,
        _ => 0,
    }
}

/// Reads eight bytes.
pub fn read(p: &mut Process, fd: i32, to: &mut Cursor) -> Result<u64> {
    if matches!(p.fds.get(fd)?.object, Object::Epoll(_)) {
        return Err(Errno::EINVAL);
    }
    if to.left() < 8 {
        return Err(Errno::EINVAL);
    }
    to.probe_out(p)?;
    loop {
        let file = p.fds.get_mut(fd)?;
        let value = take(file);
        if value > 0 {
            let timer = match file.object {
                Object::Timer(timer) => Some(timer.deadline),
                _ => None,
            };
            let index = p.fds.index(fd)?;
            match timer {
                Some(deadline) => p.fds.timer_set(index, deadline),
                None => p.fds.came(index, POLLOUT | POLLWRNORM),
            }
            // A writer may have waited for room.
            tell_watchers(p);
            return Ok(to.scatter(p, &value.to_le_bytes()).some()? as u64);
        }
        if file.flags & O_NONBLOCK != 0 {
            return Err(Errno::EAGAIN);
        }
        match file.object {
            Object::Timer(Timer { deadline, .. }) if deadline > 0 => {
                watch(p, Some(deadline)).map_err(restart)?;
            }
            _ => watch(p, None).map_err(restart)?,
        }
    }
}

fn take(file: &mut File) -> u64 {
    match &mut file.object {
        Object::Event(event) if event.semaphore && event.count > 0 => {
            event.count -= 1;
            1
        }
        Object::Event(event) => core::mem::take(&mut event.count),
        Object::Timer(timer) => timer.take(time::monotonic()),
        _ => 0,
    }
}

/// Writes eight bytes.
pub fn write(p: &mut Process, fd: i32, from: &mut impl Source) -> Result<u64> {
    if from.left() < 8 || !matches!(p.fds.get(fd)?.object, Object::Event(_)) {
        return Err(Errno::EINVAL);
    }
    let mut bytes = [0; 8];
    from.gather(p, &mut bytes).all()?;
    let add = u64::from_le_bytes(bytes);
    if add == u64::MAX {
        return Err(Errno::EINVAL);
    }
    loop {
        let file = p.fds.get_mut(fd)?;
        let nonblock = file.flags & O_NONBLOCK != 0;
        let Object::Event(event) = &mut file.object else { return Err(Errno::EINVAL) };
        if event.count <= EVENT_MAX - add {
            event.count += add;
            let index = p.fds.index(fd)?;
            p.fds.came(index, POLLIN | POLLRDNORM);
            tell_watchers(p);
            return Ok(8);
        }
        if nonblock {
            return Err(Errno::EAGAIN);
        }
        // Another thread may read the counter.
        watch(p, None).map_err(restart)?;
    }
}
