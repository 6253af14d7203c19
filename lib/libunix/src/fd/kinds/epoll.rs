//! `epoll`: a file that says which of a set of files are ready. The library keeps the set by itself until
//! another process may have it, too; from then on both ask `unixd`.

use crate::errno::{Errno, Result};
use crate::fd::kinds::with_kind;
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server, SharedSet};
use crate::fd::watch::{self, Look};
use crate::fd::{install, Fds, File};
use crate::mm::{user, Mm};
use crate::process::{Io, Task};
use crate::server::{self, op, restart_no_handler};
use crate::sys::mask;
use crate::sys::polling::{milliseconds, temporary_mask, Waiting};
use crate::thread::park::tell_watchers;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use interest::{Member, Set};
use linuxabi::bytes::{get_u32, get_u64, Bytes};
use linuxabi::time::from_timespec;
use unixproto::files::{set_control, Kind, FOREVER, O_CLOEXEC, O_RDWR, POLLIN};
use unixproto::ops::Opened;
use unixproto::session::DATA_BYTES;

/// A set of files.
#[derive(Clone, Default)]
pub struct Epoll {
    set: SharedSet,
    /// The description that processes share; 0: there is none yet.
    shared: Rc<Cell<u32>>,
}

impl FileOps for Epoll {
    const SERVED: Option<Kind> = Some(Kind::Set);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Epoll> {
        Some(Epoll { shared: Rc::new(Cell::new(opened.desc)), ..Epoll::default() })
    }
    fn server(&self) -> Server {
        Server::of_shared(self.shared.get())
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
        self.shared.get() != 0
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        match self.is_watched() {
            true => look.told(),
            false => look.set(&self.set.borrow()),
        }
    }
    fn set(&self) -> Option<&SharedSet> {
        (!self.is_watched()).then_some(&self.set)
    }
    fn copied(&self) -> Epoll {
        let set = Rc::new(RefCell::new(self.set.borrow().clone()));
        Epoll { set, shared: self.shared.clone() }
    }
    /// The members are shared first, since both processes ask about them, too.
    fn share(&self, io: &mut Io, file: Handle) -> Result<()> {
        if self.is_watched() {
            return Ok(());
        }
        let members: Vec<(u32, Member)> =
            self.set.borrow().members().map(|(number, member)| (number, *member)).collect();
        for (_, member) in &members {
            Fds::share(io, member.file)?;
        }
        let desc = server::call(op::Set {})?.desc;
        for (_, member) in &members {
            let how = match member.listed {
                true => set_control::KEEP,
                false => set_control::KEEP_QUIET,
            };
            if let Err(error) = control(&io.fds, desc, member, how) {
                server::close(desc);
                return Err(error);
            }
        }
        for (number, member) in members {
            io.fds.part(member.file, file.index, number);
        }
        self.set.take();
        self.shared.set(desc);
        io.fds.moved(file.index);
        tell_watchers(io);
        Ok(())
    }
}

/// Changes a shared set.
fn control(fds: &Fds, set: u32, member: &Member, how: u32) -> Result<()> {
    let Member { fd, file, events, data, .. } = *member;
    let [member, second] = fds.descriptions_at(file)?;
    let change: [u8; 16] = Bytes::default().u32(events).skip(4).u64(data).done();
    server::call_a(op::SetControl { set, member, second, how, fd }, &change)
}

/// Bytes of `struct epoll_event`, which is packed.
const EVENT_BYTES: usize = 12;
/// Most events that one call may ask for.
const EVENTS_MAX: usize = i32::MAX as usize / EVENT_BYTES;

pub fn epoll_create1(io: &mut Io, flags: u32) -> Result<u64> {
    if flags & !O_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let file = File::new(Epoll::default(), O_RDWR);
    Ok(install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn epoll_create(io: &mut Io, size: i32) -> Result<u64> {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    epoll_create1(io, 0)
}

pub fn epoll_ctl(io: &mut Io, epfd: i32, operation: u32, fd: i32, event: u64) -> Result<u64> {
    const ADD: u32 = 1;
    const DEL: u32 = 2;
    const MOD: u32 = 3;
    let mut raw = [0; EVENT_BYTES];
    if operation != DEL {
        user::bytes_in(&mut io.mm, event, &mut raw)?;
    }
    io.fds.get(epfd)?;
    let (file, named) = io.fds.find(fd)?;
    let is_set = with_kind!(&named.kind, kind => is_set(kind))?;
    let (index, _) = io.fds.find(epfd)?;
    let Epoll { set, shared } = io.fds.of_kind(epfd)?;
    if index == file {
        return Err(Errno::EINVAL);
    }
    let (events, data) = (get_u32(&raw, 0), get_u64(&raw, 4));
    if matches!(operation, ADD | MOD) {
        let is_any_set = with_kind!(&named.kind, kind => is_any_set(kind));
        interest::check_events(events, operation == ADD, is_any_set)?;
    }
    if let desc @ 1.. = shared.get() {
        if !matches!(operation, ADD | DEL | MOD) {
            return Err(Errno::EINVAL);
        }
        Fds::share(io, file)?;
        let member = Member { fd, file, events, data, listed: true };
        // The operations have the same numbers.
        return control(&io.fds, desc, &member, operation).map(|()| 0);
    }
    match operation {
        ADD if is_set && io.fds.would_loop(file, index) => return Err(Errno::ELOOP),
        ADD => {
            let number = set.borrow_mut().add(fd, file, events, data)?;
            if let Err(error) = io.fds.join(file, index, number) {
                set.borrow_mut().remove(number);
                return Err(error);
            }
        }
        MOD => set.borrow_mut().modify(fd, file, events, data)?,
        DEL => {
            let number = set.borrow().find(fd, file)?;
            set.borrow_mut().remove(number);
            io.fds.part(file, index, number);
            return Ok(0);
        }
        _ => return Err(Errno::EINVAL),
    }
    // Whoever waits for the set has to look at the new member.
    io.fds.came(index, POLLIN);
    tell_watchers(io);
    Ok(0)
}

/// Whether a member of a set is a set itself. `EPERM`: it cannot be a member.
fn is_set<K: FileOps>(kind: &K) -> Result<bool> {
    match K::POLLABLE {
        true => Ok(kind.set().is_some()),
        false => Err(Errno::EPERM),
    }
}

/// The same, also for one that processes share.
fn is_any_set<K: FileOps>(_: &K) -> bool {
    K::SERVED == Some(Kind::Set)
}

/// What a look at a set has found.
#[derive(Default)]
struct Found {
    /// Members that have something to report, with what, in the order of the list.
    reports: Vec<(u32, u32, u64)>,
    /// How many of the list were looked at.
    looked: usize,
    /// Members about which `unixd` has to be asked each time.
    refused: Vec<(u32, u16)>,
}

/// Looks at what may have something to report, until `max` have.
fn look(fds: &mut Fds, index: u32, set: &SharedSet, max: usize) -> Result<Found> {
    if let Some(found) = look_at_known(fds, &set.borrow(), max, false)? {
        return Ok(found);
    }
    let refused = watch::learn(fds, core::iter::once((index, 0)))?;
    let found = look_at_known(fds, &set.borrow(), max, true)?.unwrap_or_default();
    Ok(Found { refused, ..found })
}

/// The same. `None`: `unixd` has to be asked about a member, unless it was `asked` just now.
fn look_at_known(fds: &Fds, set: &Set, max: usize, asked: bool) -> Result<Option<Found>> {
    if !fds.is_current(set) {
        return Ok(None);
    }
    let mut found = Found::default();
    for (number, member) in set.listed() {
        if found.reports.len() == max {
            break;
        }
        found.looked += 1;
        let Ok(file) = fds.at(member.file) else { continue };
        let state = match fds.state(file, asked) {
            Some(state) => state,
            None if asked => 0,
            None => return Ok(None),
        };
        let report = member.report(state);
        if report != 0 {
            found.reports.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            found.reports.push((number, report, member.data));
        }
    }
    Ok(Some(found))
}

/// Tells the program, and the set what the program has been told.
fn tell(mm: &mut Mm, set: &SharedSet, out: u64, found: &Found) -> Result<u64> {
    if !found.reports.is_empty() {
        user::check_writable(mm, out, found.reports.len() * EVENT_BYTES)?;
        for (n, &(_, report, data)) in found.reports.iter().enumerate() {
            let raw: [u8; EVENT_BYTES] = Bytes::default().u32(report).u64(data).done();
            user::copy_out(mm, out + (n * EVENT_BYTES) as u64, &raw)?;
        }
    }
    let reported = found.reports.iter().map(|(number, ..)| *number);
    // With those about which `unixd` has to be asked each time, all stay.
    set.borrow_mut().looked(found.looked, reported, !found.refused.is_empty());
    Ok(found.reports.len() as u64)
}

fn epoll_ns(io: &mut Io, epfd: i32, out: u64, max: i32, ns: u64) -> Result<u64> {
    let max = usize::try_from(max).ok().filter(|max| (1..=EVENTS_MAX).contains(max));
    let Some(max) = max else { return Err(Errno::EINVAL) };
    let mut waiting = None;
    loop {
        watch::refresh(&mut io.fds);
        let index = io.fds.index(epfd)?;
        let Epoll { set, shared } = io.fds.of_kind(epfd)?;
        if let desc @ 1.. = shared.get() {
            let left = waiting.map_or(ns, |waiting: Waiting| waiting.left());
            return wait_shared(io, desc, out, max, left);
        }
        let is_due = !set.borrow().is_quiet() || !io.fds.is_current(&set.borrow());
        let mut refused = Vec::new();
        if is_due {
            let found = look(&mut io.fds, index, &set, max)?;
            let count = tell(&mut io.mm, &set, out, &found)?;
            if count > 0 {
                return Ok(count);
            }
            refused = found.refused;
        }
        if ns == 0 {
            return Ok(0);
        }
        let waiting = waiting.get_or_insert_with(|| Waiting::new(ns));
        if waiting.is_over() {
            return Ok(0);
        }
        let timer = io.fds.next_timer();
        waiting.wait(io, true, &refused, timer)?;
    }
}

/// Waits for a shared set.
fn wait_shared(task: &mut Task, set: u32, out: u64, max: usize, ns: u64) -> Result<u64> {
    let max = max.min(DATA_BYTES / EVENT_BYTES);
    let request = op::SetWait { set, max: max as u32, ns };
    let count = server::wait(task, request).map_err(restart_no_handler)?.count;
    user::memory_out(&mut task.mm, out, server::data(count as usize * EVENT_BYTES))?;
    Ok(count)
}

pub fn epoll_wait(io: &mut Io, epfd: i32, out: u64, max: i32, ms: i32) -> Result<u64> {
    epoll_ns(io, epfd, out, max, milliseconds(ms))
}

/// `epoll_pwait` with a `struct timespec` instead of milliseconds; none is for ever.
pub fn epoll_pwait2(
    io: &mut Io,
    epfd: i32,
    out: u64,
    max: i32,
    timeout: u64,
    mask: u64,
    mask_size: u64,
) -> Result<u64> {
    let ns = match timeout {
        0 => FOREVER,
        addr => from_timespec(&user::copy_in(&mut io.mm, addr)?)?,
    };
    wait_masked(io, (epfd, out, max), ns, (mask, mask_size))
}

pub fn epoll_pwait(
    io: &mut Io,
    epfd: i32,
    out: u64,
    max: i32,
    ms: i32,
    mask: u64,
    mask_size: u64,
) -> Result<u64> {
    wait_masked(io, (epfd, out, max), milliseconds(ms), (mask, mask_size))
}

fn wait_masked(
    io: &mut Io,
    (epfd, out, max): (i32, u64, i32),
    ns: u64,
    (mask, mask_size): (u64, u64),
) -> Result<u64> {
    temporary_mask(io, mask, mask_size)?;
    let result = epoll_ns(io, epfd, out, max, ns);
    mask::end_temporary(&mut io.me, result.is_err());
    result
}
