//! `epoll`: a file that says which of a set of files are ready. A forked child has a copy of the set.

use crate::errno::{Errno, Result};
use crate::fd::kinds::with_kind;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::set::{Set, SharedSet};
use crate::fd::watch::{self, Look};
use crate::fd::{install, File};
use crate::mm::user;
use crate::process::Process;
use crate::sys::mask;
use crate::sys::polling::{milliseconds, temporary_mask, Waiting};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use linuxabi::bytes::{get_u32, get_u64, Bytes};
use unixproto::files::{O_CLOEXEC, O_RDWR, POLLIN};

/// A set of files.
#[derive(Clone, Default)]
pub struct Epoll(SharedSet);

impl FileOps for Epoll {
    const POLLABLE: bool = true;

    fn server(&self) -> Server {
        Server::Library
    }
    fn seek(&self, _p: &mut Process, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        look.set(&self.0.borrow())
    }
    fn set(&self) -> Option<&SharedSet> {
        Some(&self.0)
    }
    fn copied(&self) -> Epoll {
        Epoll(Rc::new(RefCell::new(self.0.borrow().clone())))
    }
}

/// Bytes of `struct epoll_event`, which is packed.
const EVENT_BYTES: usize = 12;
/// Most events that one call may ask for.
const EVENTS_MAX: usize = i32::MAX as usize / EVENT_BYTES;

pub fn epoll_create1(p: &mut Process, flags: u32) -> Result<u64> {
    if flags & !O_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let file = File::new(Epoll::default(), O_RDWR);
    Ok(install(p, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn epoll_create(p: &mut Process, size: i32) -> Result<u64> {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    epoll_create1(p, 0)
}

pub fn epoll_ctl(p: &mut Process, epfd: i32, operation: u32, fd: i32, event: u64) -> Result<u64> {
    const ADD: u32 = 1;
    const DEL: u32 = 2;
    const MOD: u32 = 3;
    let mut raw = [0; EVENT_BYTES];
    if operation != DEL {
        user::bytes_in(p, event, &mut raw)?;
    }
    p.fds.get(epfd)?;
    let (file, named) = p.fds.find(fd)?;
    let is_set = with_kind!(&named.kind, kind => is_set(kind))?;
    let (index, _) = p.fds.find(epfd)?;
    let Epoll(set) = p.fds.of_kind(epfd)?;
    if index == file {
        return Err(Errno::EINVAL);
    }
    let (events, data) = (get_u32(&raw, 0), get_u64(&raw, 4));
    match operation {
        ADD if is_set && p.fds.would_loop(file, index) => return Err(Errno::ELOOP),
        ADD => {
            let number = set.borrow_mut().add(fd, file, events, data)?;
            if let Err(error) = p.fds.join(file, index, number) {
                set.borrow_mut().remove(number);
                return Err(error);
            }
        }
        MOD => set.borrow_mut().modify(fd, file, events, data)?,
        DEL => {
            let number = set.borrow().find(fd, file)?;
            set.borrow_mut().remove(number);
            p.fds.part(file, index, number);
            return Ok(0);
        }
        _ => return Err(Errno::EINVAL),
    }
    // Whoever waits for the set has to look at the new member.
    p.fds.came(index, POLLIN);
    crate::thread::park::tell_watchers(p);
    Ok(0)
}

/// Whether a member of a set is a set itself. `EPERM`: it cannot be a member.
fn is_set<K: FileOps>(kind: &K) -> Result<bool> {
    match K::POLLABLE {
        true => Ok(kind.set().is_some()),
        false => Err(Errno::EPERM),
    }
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
fn look(p: &mut Process, index: u32, set: &SharedSet, max: usize) -> Result<Found> {
    if let Some(found) = look_at_known(p, &set.borrow(), max, false)? {
        return Ok(found);
    }
    let refused = watch::learn(p, core::iter::once((index, 0)))?;
    let found = look_at_known(p, &set.borrow(), max, true)?.unwrap_or_default();
    Ok(Found { refused, ..found })
}

/// The same. `None`: `unixd` has to be asked about a member, unless it was `asked` just now.
fn look_at_known(p: &Process, set: &Set, max: usize, asked: bool) -> Result<Option<Found>> {
    if !p.fds.is_current(set) {
        return Ok(None);
    }
    let mut found = Found::default();
    for (number, member) in set.listed() {
        if found.reports.len() == max {
            break;
        }
        found.looked += 1;
        let Ok(file) = p.fds.at(member.file) else { continue };
        let state = match p.fds.state(file, asked) {
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
fn tell(p: &mut Process, set: &SharedSet, out: u64, found: &Found) -> Result<u64> {
    if !found.reports.is_empty() {
        user::check_writable(p, out, found.reports.len() * EVENT_BYTES)?;
        for (n, &(_, report, data)) in found.reports.iter().enumerate() {
            let raw: [u8; EVENT_BYTES] = Bytes::default().u32(report).u64(data).done();
            user::copy_out(p, out + (n * EVENT_BYTES) as u64, &raw)?;
        }
    }
    let reported = found.reports.iter().map(|(number, ..)| *number);
    // With those about which `unixd` has to be asked each time, all stay.
    set.borrow_mut().looked(found.looked, reported, !found.refused.is_empty());
    Ok(found.reports.len() as u64)
}

fn epoll_ns(p: &mut Process, epfd: i32, out: u64, max: i32, ns: u64) -> Result<u64> {
    let max = usize::try_from(max).ok().filter(|max| (1..=EVENTS_MAX).contains(max));
    let Some(max) = max else { return Err(Errno::EINVAL) };
    let mut waiting = None;
    loop {
        watch::refresh(p);
        let index = p.fds.index(epfd)?;
        let Epoll(set) = p.fds.of_kind(epfd)?;
        let is_due = !set.borrow().is_quiet() || !p.fds.is_current(&set.borrow());
        let mut refused = Vec::new();
        if is_due {
            let found = look(p, index, &set, max)?;
            let count = tell(p, &set, out, &found)?;
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
        let timer = p.fds.next_timer();
        waiting.wait(p, true, &refused, timer)?;
    }
}

pub fn epoll_wait(p: &mut Process, epfd: i32, out: u64, max: i32, ms: i32) -> Result<u64> {
    epoll_ns(p, epfd, out, max, milliseconds(ms))
}

pub fn epoll_pwait(
    p: &mut Process,
    epfd: i32,
    out: u64,
    max: i32,
    ms: i32,
    mask: u64,
    mask_size: u64,
) -> Result<u64> {
    temporary_mask(p, mask, mask_size)?;
    let result = epoll_ns(p, epfd, out, max, milliseconds(ms));
    mask::end_temporary(p, result.is_err());
    result
}
