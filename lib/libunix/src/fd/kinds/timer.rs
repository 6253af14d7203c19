//! `timerfd`: a counter of the times that a timer has expired. The library keeps it by itself until another
//! process may have it, too; from then on both ask `unixd`.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server, READABLE};
use crate::fd::watch::Look;
use crate::fd::{install, stream, Fds, File};
use crate::mm::user;
use crate::process::{Files, Io};
use crate::server::{self, op, restart};
use crate::sys::time::{monotonic, without_space};
use crate::thread::park::{tell_watchers, watch};
use alloc::rc::Rc;
use core::cell::Cell;
use linuxabi::time::{from_timespec, to_timespec, TIME_BYTES};
use unixproto::files::{Kind, O_CLOEXEC, O_NONBLOCK, O_RDWR};
use unixproto::files::{TIMER_ABSOLUTE, TIMER_CANCEL_ON_SET};
use unixproto::ops;

/// `CLOCK_MONOTONIC`.
const MONOTONIC: u32 = 1;
/// `CLOCK_REALTIME`.
const REALTIME: u32 = 0;
/// `CLOCK_REALTIME_ALARM`.
const REALTIME_ALARM: u32 = 8;
/// `TFD_TIMER_ABSTIME`.
const ABSOLUTE: u32 = TIMER_ABSOLUTE;
/// `TFD_TIMER_CANCEL_ON_SET`.
const CANCEL_ON_SET: u32 = TIMER_CANCEL_ON_SET;

/// A `timerfd`.
#[derive(Clone)]
pub struct Timer(Rc<Own>);

struct Own {
    /// Clock that `timerfd_create` was given. Of one that was shared before this program began, `unixd` knows it.
    clock: u32,
    setting: Cell<Setting>,
    /// The description that processes share; 0: there is none yet.
    shared: Cell<u32>,
}

/// How it is set.
#[derive(Clone, Copy, Default)]
struct Setting {
    /// When it expires, on the monotonic clock; 0: it is off.
    deadline: u64,
    /// Its period, 0 for none.
    interval: u64,
}

impl Setting {
    /// How often it has expired.
    fn expirations(&self, now: u64) -> u64 {
        if self.deadline == 0 || now < self.deadline {
            0
        } else {
            1 + (now - self.deadline).checked_div(self.interval).unwrap_or(0)
        }
    }
    /// The setting behind these expirations.
    fn behind(self, count: u64) -> Setting {
        let deadline = match self.interval {
            _ if count == 0 => self.deadline,
            0 => 0,
            interval => self.deadline + count * interval,
        };
        Setting { deadline, ..self }
    }
    /// As programs see it.
    fn itimerspec(&self) -> [[u8; TIME_BYTES]; 2] {
        let now = monotonic();
        let value = match self.deadline {
            0 => 0,
            deadline if self.interval > 0 && deadline <= now => {
                self.interval - (now - deadline) % self.interval
            }
            deadline => deadline.saturating_sub(now),
        };
        [to_timespec(self.interval), to_timespec(value)]
    }
}

impl Timer {
    /// How it is set, as programs see it.
    fn itimerspec(&self) -> Result<[[u8; TIME_BYTES]; 2]> {
        match self.0.shared.get() {
            0 => Ok(self.0.setting.get().itimerspec()),
            desc => Ok(itimerspec(server::call(op::GetAlarm { desc })?)),
        }
    }

    /// Sets it. Returns how it was set, as programs see it.
    fn set(
        &self,
        io: &mut Io,
        file: Handle,
        (value, interval): (u64, u64),
        flags: u32,
    ) -> Result<[[u8; TIME_BYTES]; 2]> {
        let is_absolute = flags & ABSOLUTE != 0;
        if is_absolute && value != 0 && matches!(self.0.clock, REALTIME | REALTIME_ALARM) {
            // It moves when the clock is set, of which the library is not told.
            self.share(io, file)?;
        }
        if let desc @ 1.. = self.0.shared.get() {
            let request = op::SetAlarm { desc, value, interval, flags };
            return Ok(itimerspec(server::call(request)?));
        }
        let deadline = match value {
            0 => 0,
            _ if is_absolute => without_space(self.0.clock, value),
            _ => monotonic().saturating_add(value),
        };
        let setting = Setting { deadline, interval };
        let index = file.index;
        let before = self.0.setting.replace(setting);
        io.fds.timer_set(index, deadline);
        // Who waits for it does not know when it expires now.
        tell_watchers(io);
        Ok(before.itimerspec())
    }
}

fn itimerspec(timer: ops::Timer) -> [[u8; TIME_BYTES]; 2] {
    [to_timespec(timer.interval), to_timespec(timer.value)]
}

impl FileOps for Timer {
    const SERVED: Option<Kind> = Some(Kind::Timer);
    const POLLABLE: bool = true;

    fn opened(opened: &ops::Opened) -> Option<Timer> {
        let shared = Cell::new(opened.desc);
        Some(Timer(Rc::new(Own { clock: MONOTONIC, setting: Cell::default(), shared })))
    }

    fn server(&self) -> Server {
        Server::of_shared(self.0.shared.get())
    }

    /// Reads eight bytes.
    fn read(&self, io: &mut Io, file: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if to.left() < 8 {
            return Err(Errno::EINVAL);
        }
        to.probe_out(&mut io.mm)?;
        let count = loop {
            if let desc @ 1.. = self.0.shared.get() {
                break stream::read_value(io, desc)?;
            }
            let setting = self.0.setting.get();
            let count = setting.expirations(monotonic());
            if count > 0 {
                let next = setting.behind(count);
                self.0.setting.set(next);
                io.fds.timer_set(file.index, next.deadline);
                tell_watchers(io);
                break count;
            }
            if file.flags & O_NONBLOCK != 0 {
                return Err(Errno::EAGAIN);
            }
            match watch(io, self.deadline()) {
                Err(Errno::ETIMEDOUT) => {}
                result => result.map_err(restart)?,
            }
        };
        Ok(to.scatter(&mut io.mm, &count.to_le_bytes()).some()? as u64)
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
        Some(if self.0.setting.get().expirations(monotonic()) > 0 { READABLE } else { 0 })
    }

    fn deadline(&self) -> Option<u64> {
        Some(self.0.setting.get().deadline).filter(|deadline| *deadline > 0)
    }

    fn share(&self, io: &mut Io, file: Handle) -> Result<()> {
        let Own { setting, shared, .. } = &*self.0;
        if shared.get() == 0 {
            let Setting { deadline, interval } = setting.get();
            let (flags, clock) = (file.flags & O_NONBLOCK, self.0.clock);
            let request = op::Alarm { deadline, interval, flags, clock };
            shared.set(server::call(request)?.desc);
            setting.take();
            io.fds.moved(file.index);
            tell_watchers(io);
        }
        Ok(())
    }
}

pub fn timerfd_create(io: &mut Io, clock: u32, flags: u32) -> Result<u64> {
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 || !matches!(clock, 0 | 1 | 7 | 8 | 9) {
        return Err(Errno::EINVAL);
    }
    let timer = Timer(Rc::new(Own { clock, setting: Cell::default(), shared: Cell::new(0) }));
    let file = File::new(timer, O_RDWR | flags & O_NONBLOCK);
    Ok(install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn timerfd_settime(io: &mut Io, fd: i32, flags: u32, new: u64, old: u64) -> Result<u64> {
    let set: [[u8; TIME_BYTES]; 2] = user::copy_in(&mut io.mm, new)?;
    if flags & !(ABSOLUTE | CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let (interval, value) = (from_timespec(&set[0])?, from_timespec(&set[1])?);
    let timer: Timer = io.fds.of_kind(fd)?;
    let index = io.fds.index(fd)?;
    let file = Handle { index, flags: io.fds.get_open(fd)?.flags };
    let before = timer.set(io, file, (value, interval), flags)?;
    if old != 0 {
        user::copy_out(&mut io.mm, old, &before)?;
    }
    Ok(0)
}

pub fn timerfd_gettime(files: Files, fd: i32, out: u64) -> Result<u64> {
    let timer: Timer = files.fds.of_kind(fd)?;
    user::copy_out(files.mm, out, &timer.itimerspec()?)?;
    Ok(0)
}
