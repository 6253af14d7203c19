//! Waiting for several descriptors: `poll`, `select`, `epoll`.

use super::mask;
use crate::errno::{Errno, Result};
use crate::fd::{self, epoll::Epoll, event, File, Object};
use crate::mm::user;
use crate::process::Process;
use crate::server::{self, op, restart_no_handler};
use crate::signal;
use crate::sys::time;
use crate::thread::{lock, park};
use alloc::vec;
use alloc::vec::Vec;
use linuxabi::bytes::{get_u16, get_u32, get_u64, Bytes};
use linuxabi::fdset::{self, FdSet};
use linuxabi::time::{from_timespec, from_timeval, to_timespec, to_timeval, TIME_BYTES};
use unixproto::files::{
    Kind, PollEntry, FOREVER, O_CLOEXEC, O_RDWR, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT,
    POLLRDNORM, POLLWRNORM,
};
use unixproto::session::DATA_BYTES;

const ALWAYS_READY: u16 = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
const ALWAYS_TOLD: u16 = POLLERR | POLLHUP;
const ENTRY_BYTES: usize = 8;

/// One descriptor to wait for.
#[derive(Clone, Copy, Default)]
struct Want {
    fd: i32,
    events: u16,
    revents: u16,
    /// Its descriptions, if `unixd` has to be asked, and the events that each is asked for. Both
    /// ends of a socket pair have two.
    asked: [(u32, u16); 2],
}

impl Want {
    fn new(fd: i32, events: u16) -> Want {
        Want { fd, events, ..Want::default() }
    }
    fn asked(&self) -> impl Iterator<Item = (u32, u16)> {
        self.asked.into_iter().filter(|(desc, _)| *desc != 0)
    }
}

/// What only the writing side of a pair knows.
const WRITE_EVENTS: u16 = POLLOUT | POLLWRNORM;

/// Looks at everything that the library knows by itself. Answers how many are ready.
fn look(p: &Process, wants: &mut [Want]) -> u64 {
    let mut ready = 0;
    for want in wants.iter_mut().filter(|w| w.fd >= 0) {
        let state = match p.fds.get(want.fd).map(|file| &file.object) {
            Err(_) => POLLNVAL,
            Ok(Object::Description { desc, kind, .. }) => match kind {
                Kind::Pipe | Kind::Tty | Kind::Stream => {
                    want.asked[0] = (*desc, want.events);
                    0
                }
                Kind::Path => POLLNVAL,
                _ => ALWAYS_READY,
            },
            Ok(Object::Pair { read, write }) => {
                want.asked =
                    [(*read, want.events & !WRITE_EVENTS), (*write, want.events & WRITE_EVENTS)];
                0
            }
            Ok(Object::Epoll(set)) => epoll_state(p, set),
            Ok(object) => event::ready(object),
        };
        want.revents = state & (want.events | ALWAYS_TOLD | POLLNVAL);
        ready += (want.revents != 0) as u64;
    }
    ready
}

/// When the first of the library's own timers expires, on the monotonic clock.
fn first_deadline(p: &Process, wants: &[Want]) -> u64 {
    let timer = |w: &Want| match p.fds.get(w.fd).ok()?.object {
        Object::Timer(timer) if timer.deadline > 0 => Some(timer.deadline),
        _ => None,
    };
    wants.iter().filter_map(timer).min().unwrap_or(FOREVER)
}

/// Waits until one is ready, at most `ns`. Answers how many are.
fn wait(p: &mut Process, wants: &mut [Want], ns: u64) -> Result<u64> {
    let start = time::monotonic();
    let end = start.saturating_add(ns);
    loop {
        let own = look(p, wants);
        // Objects of the library change by what other threads do.
        let is_watching = own == 0 && ns != 0 && lock::is_shared();
        if is_watching {
            park::start_watching(p);
        }
        let now = time::monotonic();
        let until = end.min(first_deadline(p, wants));
        let left = if own > 0 { 0 } else { until.saturating_sub(now) };
        let left = if ns == FOREVER && until >= end && own == 0 { FOREVER } else { left };
        let asked = ask(p, wants, left);
        // An event of another thread has ended it: look again.
        let stirred = is_watching && park::stop_watching(p);
        let asked = match asked {
            Err(Errno::ERESTARTNOHAND) if stirred && !signal::is_interrupted(p) => 0,
            asked => asked?,
        };
        let expired = ns != FOREVER && time::monotonic() >= end;
        if own + asked > 0 || expired || ns == 0 {
            return Ok(own + asked);
        }
    }
}

/// Asks `unixd` about its descriptions, for `ns`. Answers how many are ready.
fn ask(p: &mut Process, wants: &mut [Want], ns: u64) -> Result<u64> {
    let asked = wants.iter().flat_map(Want::asked).count();
    if asked == 0 {
        p.me.woken = false;
        let deadline = (ns != FOREVER).then(|| time::monotonic().saturating_add(ns));
        return match ns {
            0 => Ok(0),
            // Nothing but another thread, a signal or time ends this.
            _ => match park::park(p, deadline) {
                Ok(()) | Err(Errno::ETIMEDOUT) => Ok(0),
                Err(error) => Err(restart_no_handler(error)),
            },
        };
    }
    let bytes = asked * ENTRY_BYTES;
    if bytes > DATA_BYTES {
        return Err(Errno::ENOMEM);
    }
    let entries = server::data_mut(bytes).chunks_exact_mut(ENTRY_BYTES);
    for ((desc, events), entry) in wants.iter().flat_map(Want::asked).zip(entries) {
        entry.copy_from_slice(&PollEntry { desc, events, revents: 0 }.to_bytes());
    }
    server::wait_filled(p, op::Poll { ns }, bytes).map_err(restart_no_handler)?;
    let mut ready = 0;
    let mut entries = server::data(bytes).chunks_exact(ENTRY_BYTES);
    for want in wants.iter_mut() {
        let mut found = 0;
        for (_, entry) in want.asked().zip(&mut entries) {
            found |= get_u16(entry, 6) & (want.events | ALWAYS_TOLD | POLLNVAL);
        }
        want.revents |= found;
        ready += (found != 0) as u64;
    }
    Ok(ready)
}

fn poll_ns(p: &mut Process, fds: u64, count: u64, ns: u64) -> Result<u64> {
    if count > p.sys.max_files() as u64 {
        return Err(Errno::EINVAL);
    }
    let bytes = count as usize * ENTRY_BYTES;
    let decode = |raw: &[u8]| Want::new(get_u32(raw, 0) as i32, get_u16(raw, 4));
    let mut wants: Vec<Want> =
        user::slice_in(p, fds, bytes)?.chunks_exact(ENTRY_BYTES).map(decode).collect();
    let ready = wait(p, &mut wants, ns)?;
    let out = user::slice_out(p, fds, bytes)?;
    for (entry, want) in out.chunks_exact_mut(ENTRY_BYTES).zip(&wants) {
        entry[6..].copy_from_slice(&want.revents.to_le_bytes());
    }
    Ok(ready)
}

pub fn poll(p: &mut Process, fds: u64, count: u32, ms: i32) -> Result<u64> {
    poll_ns(p, fds, count as u64, milliseconds(ms))
}

fn milliseconds(ms: i32) -> u64 {
    u64::try_from(ms).map_or(FOREVER, |ms| ms * 1_000_000)
}

/// A timeout that is written back as what is left of it.
struct Timeout {
    addr: u64,
    ns: u64,
    end: u64,
    encode: fn(u64) -> [u8; TIME_BYTES],
}

impl Timeout {
    fn read(
        p: &mut Process,
        addr: u64,
        decode: fn(&[u8; TIME_BYTES]) -> Result<u64>,
        encode: fn(u64) -> [u8; TIME_BYTES],
    ) -> Result<Timeout> {
        let ns = if addr == 0 { FOREVER } else { decode(&user::copy_in(p, addr)?)? };
        Ok(Timeout { addr, ns, end: time::monotonic().saturating_add(ns), encode })
    }
    /// Tells the program what is left. A bad address now does not matter, as on Linux.
    fn write(&self, p: &mut Process) {
        if self.addr != 0 {
            let left = self.end.saturating_sub(time::monotonic());
            let _ = user::copy_out(p, self.addr, &(self.encode)(left));
        }
    }
}

/// Blocks the signals of the mask at `addr` for the duration of the call.
fn temporary_mask(p: &mut Process, addr: u64, size: u64) -> Result<()> {
    if addr == 0 {
        return Ok(());
    }
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let mask = user::copy_in::<u64>(p, addr)?;
    mask::set_temporary(p, mask);
    Ok(())
}

pub fn ppoll(
    p: &mut Process,
    fds: u64,
    count: u32,
    timeout: u64,
    mask: u64,
    mask_size: u64,
) -> Result<u64> {
    let timeout = Timeout::read(p, timeout, from_timespec, to_timespec)?;
    temporary_mask(p, mask, mask_size)?;
    let result = poll_ns(p, fds, count as u64, timeout.ns);
    timeout.write(p);
    mask::end_temporary(p, result.is_err());
    result
}

fn read_set(p: &mut Process, addr: u64, bytes: usize) -> Result<FdSet> {
    if addr == 0 {
        return Ok(FdSet::default());
    }
    Ok(FdSet::from_bytes(user::slice_in(p, addr, bytes)?))
}

fn select_ns(p: &mut Process, nfds: i32, addrs: [u64; 3], ns: u64) -> Result<u64> {
    let nfds = usize::try_from(nfds).map_err(|_| Errno::EINVAL)?.min(fdset::MAX_FDS);
    let bytes = fdset::bytes_for(nfds);
    let mut sets = [FdSet::default(); 3];
    for (set, addr) in sets.iter_mut().zip(addrs) {
        *set = read_set(p, addr, bytes)?;
    }
    let mut wants = Vec::new();
    for fd in 0..nfds {
        let events = fdset::wanted(sets[0].has(fd), sets[1].has(fd), sets[2].has(fd));
        if events != 0 {
            p.fds.get(fd as i32)?;
            wants.push(Want::new(fd as i32, events));
        }
    }
    wait(p, &mut wants, ns)?;
    let mut found = [FdSet::default(); 3];
    let mut count = 0;
    for want in &wants {
        let fd = want.fd as usize;
        let masks = [fdset::READ_EVENTS, fdset::WRITE_EVENTS, fdset::EXCEPT_EVENTS];
        for (n, mask) in masks.into_iter().enumerate() {
            if sets[n].has(fd) && want.revents & mask != 0 {
                found[n].set(fd);
                count += 1;
            }
        }
    }
    for (set, addr) in found.iter().zip(addrs).filter(|(_, addr)| *addr != 0) {
        user::bytes_out(p, addr, &set.to_bytes()[..bytes])?;
    }
    Ok(count)
}

pub fn select(p: &mut Process, n: i32, r: u64, w: u64, e: u64, timeout: u64) -> Result<u64> {
    let timeout = Timeout::read(p, timeout, from_timeval, to_timeval)?;
    let result = select_ns(p, n, [r, w, e], timeout.ns);
    timeout.write(p);
    result
}

pub fn pselect6(
    p: &mut Process,
    n: i32,
    r: u64,
    w: u64,
    e: u64,
    timeout: u64,
    mask: u64,
) -> Result<u64> {
    let timeout = Timeout::read(p, timeout, from_timespec, to_timespec)?;
    if mask != 0 {
        let [addr, size]: [u64; 2] = user::copy_in(p, mask)?;
        temporary_mask(p, addr, size)?;
    }
    let result = select_ns(p, n, [r, w, e], timeout.ns);
    timeout.write(p);
    mask::end_temporary(p, result.is_err());
    result
}

pub fn epoll_create1(p: &mut Process, flags: u32) -> Result<u64> {
    if flags & !O_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let file = File::new(Object::Epoll(Epoll::default()), O_RDWR);
    Ok(fd::install(p, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn epoll_create(p: &mut Process, size: i32) -> Result<u64> {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    epoll_create1(p, 0)
}

/// Bytes of `struct epoll_event`, which is packed.
const EPOLL_EVENT_BYTES: usize = 12;

pub fn epoll_ctl(p: &mut Process, epfd: i32, operation: u32, fd: i32, event: u64) -> Result<u64> {
    const ADD: u32 = 1;
    const DEL: u32 = 2;
    const MOD: u32 = 3;
    let mut raw = [0; EPOLL_EVENT_BYTES];
    if operation != DEL {
        user::bytes_in(p, event, &mut raw)?;
    }
    p.fds.get(epfd)?;
    let pollable = match p.fds.get(fd)?.object {
        Object::Description { kind, .. } => matches!(kind, Kind::Pipe | Kind::Tty | Kind::Stream),
        _ => true,
    };
    if !pollable {
        return Err(Errno::EPERM);
    }
    let file = p.fds.index(fd)?;
    let (events, data) = (get_u32(&raw, 0), get_u64(&raw, 4));
    let Object::Epoll(set) = &mut p.fds.get_mut(epfd)?.object else { return Err(Errno::EINVAL) };
    if epfd == fd {
        return Err(Errno::EINVAL);
    }
    match operation {
        ADD => set.add(fd, file, events, data),
        MOD => set.modify(fd, file, events, data),
        DEL => set.remove(fd, file),
        _ => Err(Errno::EINVAL),
    }
    .map(|()| 0)
}

/// Does the set have something to report, as far as the library knows by itself?
fn epoll_state(p: &Process, set: &Epoll) -> u16 {
    let ready = set.items.iter().any(|item| match p.fds.get(item.fd).map(|f| &f.object) {
        Ok(object @ (Object::Event(_) | Object::Timer(_))) => {
            event::ready(object) & item.wanted() != 0
        }
        _ => false,
    });
    if ready {
        POLLIN | POLLRDNORM
    } else {
        0
    }
}

fn epoll_ns(p: &mut Process, epfd: i32, out: u64, max: i32, ns: u64) -> Result<u64> {
    if max <= 0 {
        return Err(Errno::EINVAL);
    }
    let Object::Epoll(set) = &p.fds.get(epfd)?.object else { return Err(Errno::EINVAL) };
    let alive = |fd, file| p.fds.index(fd) == Ok(file);
    let mut wants = vec![Want::new(-1, 0); set.items.len()];
    for (want, item) in wants.iter_mut().zip(&set.items) {
        if alive(item.fd, item.file) && !item.disabled() {
            *want = Want::new(item.fd, item.wanted());
        }
    }
    wait(p, &mut wants, ns)?;
    let Object::Epoll(set) = &mut p.fds.get_mut(epfd)?.object else { return Err(Errno::EINVAL) };
    let mut events = Vec::new();
    for (want, item) in wants.iter().zip(&mut set.items) {
        if events.len() == max as usize * EPOLL_EVENT_BYTES {
            break;
        }
        let report = if want.revents == 0 { 0 } else { item.report(want.revents) };
        if report != 0 {
            let raw: [u8; EPOLL_EVENT_BYTES] = Bytes::default().u32(report).u64(item.data).done();
            events.extend_from_slice(&raw);
        }
    }
    user::bytes_out(p, out, &events)?;
    Ok((events.len() / EPOLL_EVENT_BYTES) as u64)
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
