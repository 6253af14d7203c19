//! Waiting for several descriptors: `poll`, `select`.

use super::{mask, packet_ring};
use crate::errno::{Errno, Result};
use crate::fd::rings::{self, Armed};
use crate::fd::{watch, Fds};
use crate::mm::{user, Mm};
use crate::process::{Io, Task};
use crate::server::restart_no_handler;
use crate::signal;
use crate::sys::time;
use crate::thread::{lock, park};
use alloc::vec::Vec;
use linuxabi::fdset::{self, FdSet};
use linuxabi::time::{from_timespec, from_timeval, to_timespec, to_timeval, TIME_BYTES};
use unixproto::files::{FOREVER, POLLERR, POLLHUP, POLLIN, POLLNVAL};

/// What is told of a descriptor whether it is wanted or not.
const ALWAYS_TOLD: u16 = POLLERR | POLLHUP | POLLNVAL;
/// Bytes of `struct pollfd`.
const ENTRY_BYTES: usize = 8;
/// Where in it what is ready is.
const REVENTS: u64 = 6;
/// So many entries need no heap.
const FEW: usize = 16;

/// One descriptor to wait for.
#[derive(Clone, Copy)]
struct Want {
    /// What it names, if it is open.
    file: Option<u32>,
    events: u16,
    revents: u16,
}

impl Want {
    fn new(fds: &Fds, fd: i32, events: u16) -> Want {
        Want { file: fds.index(fd).ok(), events, revents: 0 }
    }
    fn known(&self) -> Option<(u32, u16)> {
        Some((self.file?, self.events))
    }
}

/// A thread that waits for descriptors, and until when.
pub struct Waiting {
    /// Nanoseconds, or `FOREVER`.
    ns: u64,
    end: u64,
}

impl Waiting {
    /// For `ns` from now on.
    pub fn new(ns: u64) -> Waiting {
        Waiting { ns, end: if ns == 0 { 0 } else { time::monotonic().saturating_add(ns) } }
    }

    /// Nanoseconds that are left of it, or `FOREVER`.
    pub fn left(&self) -> u64 {
        match self.ns {
            FOREVER => FOREVER,
            _ => self.end.saturating_sub(time::monotonic()),
        }
    }

    /// Is the time over?
    pub fn is_over(&self) -> bool {
        self.ns == 0 || self.ns != FOREVER && time::monotonic() >= self.end
    }

    /// Waits until something may be ready that was not when the caller looked, but not longer than
    /// until `timer`. `refused` are those about which `unixd` has to be asked; with `watched` some
    /// others are of its, too. What threads of this process did since `watching` ends it.
    pub fn wait(
        &self,
        io: &mut Io,
        watched: bool,
        refused: &[(u32, u16)],
        timer: u64,
    ) -> Result<()> {
        let until = if self.ns == FOREVER { timer } else { self.end.min(timer) };
        // Objects of the library change by what other threads do.
        let is_watching = lock::is_shared();
        if is_watching {
            park::start_watching(io);
        } else {
            io.me.woken = false;
        }
        let armed = if watched { rings::arm(io, !refused.is_empty()) } else { Armed::Not };
        let result = if !matches!(armed, Armed::Not) {
            let slept = match armed {
                Armed::Quiet => park::nap(io, (until != FOREVER).then_some(until)),
                _ if signal::is_interrupted(&io.me) => Err(Errno::EINTR),
                _ => Ok(()),
            };
            rings::disarm(io);
            slept
        } else if watched {
            let left = match until {
                FOREVER => FOREVER,
                until => until.saturating_sub(time::monotonic()),
            };
            watch::wait(io, refused, left)
        } else {
            // Nothing but another thread, a signal or time ends this.
            match park::park(io, (until != FOREVER).then_some(until)) {
                Err(Errno::ETIMEDOUT) => Ok(()),
                result => result,
            }
        };
        let stirred = is_watching && park::stop_watching(io);
        match result {
            // An event of another thread has ended it: look again.
            Err(Errno::EINTR) if stirred && !signal::is_interrupted(&io.me) => Ok(()),
            result => result.map_err(restart_no_handler),
        }
    }
}

/// Looks at all. Answers how many are ready.
fn look(fds: &Fds, wants: &mut [Want]) -> u64 {
    let mut ready = 0;
    for want in wants {
        let file = want.file.and_then(|index| fds.at(index).ok());
        let state = file.map_or(POLLNVAL, |file| fds.state(file, true).unwrap_or(0));
        want.revents = state & (want.events | ALWAYS_TOLD);
        ready += (want.revents != 0) as u64;
    }
    ready
}

/// When the first of the timers among them expires, on the monotonic clock.
fn first_deadline(fds: &Fds, wants: &[Want]) -> u64 {
    let timer = |want: &Want| {
        let file = fds.at(want.file?).ok()?;
        // Any of the members of a set may be the next.
        let of_members = file.set().map(|_| fds.next_timer());
        file.deadline().or(of_members)
    };
    wants.iter().filter_map(timer).min().unwrap_or(FOREVER)
}

/// Waits until one is ready, at most `ns`. Answers how many are.
fn wait(io: &mut Io, wants: &mut [Want], ns: u64) -> Result<u64> {
    let waiting = Waiting::new(ns);
    loop {
        watch::refresh(&mut io.fds);
        let refused = watch::learn(&mut io.fds, wants.iter().filter_map(Want::known))?;
        let ready = look(&io.fds, wants);
        if ready > 0 || waiting.is_over() {
            for want in wants.iter().filter(|want| want.revents & POLLIN != 0) {
                want.file.map_or(Ok(()), |index| packet_ring::fill(io, index))?;
            }
            return Ok(ready);
        }
        let is_watched = |want: &Want| {
            let file = want.file.and_then(|index| io.fds.at(index).ok());
            file.is_some_and(|file| file.is_watched() || file.set().is_some())
        };
        let (watched, timer) = (wants.iter().any(is_watched), first_deadline(&io.fds, wants));
        waiting.wait(io, watched, &refused, timer)?;
    }
}

/// Fills in what is ready now. Returns how many have anything; `None`: not all is known.
fn look_at_entries(fds: &Fds, entries: &mut [u64]) -> Option<u64> {
    let mut ready = 0;
    for entry in entries {
        let (fd, events) = (*entry as i32, (*entry >> 32) as u16);
        let state = match fds.get(fd) {
            _ if fd < 0 => 0,
            Ok(file) => fds.state(file, false)?,
            Err(_) => POLLNVAL,
        };
        let revents = state & (events | ALWAYS_TOLD);
        *entry = *entry & 0xffff_ffff_ffff | (revents as u64) << 48;
        ready += (revents != 0) as u64;
    }
    Some(ready)
}

fn poll_ns(io: &mut Io, fds: u64, count: u64, ns: u64) -> Result<u64> {
    if count > io.limits.max_files() as u64 {
        return Err(Errno::EINVAL);
    }
    let count = count as usize;
    let (mut few, mut many) = ([0; FEW], Vec::new());
    let entries = match few.get_mut(..count) {
        Some(few) => few,
        None => {
            many.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
            many.resize(count, 0);
            &mut many
        }
    };
    user::words_in(&mut io.mm, fds, entries)?;
    watch::refresh(&mut io.fds);
    match look_at_entries(&io.fds, entries) {
        Some(ready) if ready > 0 || ns == 0 => {
            for entry in entries.iter().filter(|entry| (**entry >> 48) as u16 & POLLIN != 0) {
                let index = io.fds.index(*entry as i32)?;
                packet_ring::fill(io, index)?;
            }
            tell_ready(&mut io.mm, fds, entries.iter().map(|entry| (entry >> 48) as u16))?;
            return Ok(ready);
        }
        _ => {}
    }
    let mut wants = Vec::new();
    wants.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    for &entry in &*entries {
        wants.push((entry as i32, Want::new(&io.fds, entry as i32, (entry >> 32) as u16)));
    }
    let (numbers, mut asked): (Vec<usize>, Vec<Want>) =
        wants.iter().enumerate().filter(|(_, (fd, _))| *fd >= 0).map(|(n, w)| (n, w.1)).unzip();
    let ready = wait(io, &mut asked, ns)?;
    entries.fill(0);
    for (number, want) in numbers.into_iter().zip(&asked) {
        if let Some(entry) = entries.get_mut(number) {
            *entry = want.revents.into();
        }
    }
    tell_ready(&mut io.mm, fds, entries.iter().map(|entry| *entry as u16))?;
    Ok(ready)
}

/// Writes what is ready to the entries in the program's memory, whose other fields are not touched.
fn tell_ready(mm: &mut Mm, fds: u64, ready: impl Iterator<Item = u16>) -> Result<()> {
    for (n, revents) in ready.enumerate() {
        let entry = fds.wrapping_add((n * ENTRY_BYTES) as u64);
        user::copy_out(mm, entry.wrapping_add(REVENTS), &revents)?;
    }
    Ok(())
}

pub fn poll(io: &mut Io, fds: u64, count: u32, ms: i32) -> Result<u64> {
    poll_ns(io, fds, count as u64, milliseconds(ms))
}

/// A time-out of `poll`.
pub fn milliseconds(ms: i32) -> u64 {
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
        mm: &mut Mm,
        addr: u64,
        decode: fn(&[u8; TIME_BYTES]) -> Result<u64>,
        encode: fn(u64) -> [u8; TIME_BYTES],
    ) -> Result<Timeout> {
        let ns = if addr == 0 { FOREVER } else { decode(&user::copy_in(mm, addr)?)? };
        Ok(Timeout { addr, ns, end: time::monotonic().saturating_add(ns), encode })
    }
    /// Tells the program what is left. A bad address now does not matter, as on Linux.
    fn write(&self, mm: &mut Mm) {
        if self.addr != 0 {
            let left = self.end.saturating_sub(time::monotonic());
            // As on Linux: an address that is no good is passed over.
            let _ = user::copy_out(mm, self.addr, &(self.encode)(left));
        }
    }
}

/// Blocks the signals of the mask at `addr` for the duration of the call.
pub fn temporary_mask(task: &mut Task, addr: u64, size: u64) -> Result<()> {
    if addr == 0 {
        return Ok(());
    }
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let mask = user::copy_in::<u64>(&mut task.mm, addr)?;
    mask::set_temporary(&mut task.me, mask);
    Ok(())
}

pub fn ppoll(
    io: &mut Io,
    fds: u64,
    count: u32,
    timeout: u64,
    mask: u64,
    mask_size: u64,
) -> Result<u64> {
    let timeout = Timeout::read(&mut io.mm, timeout, from_timespec, to_timespec)?;
    temporary_mask(io, mask, mask_size)?;
    let result = poll_ns(io, fds, count as u64, timeout.ns);
    timeout.write(&mut io.mm);
    mask::end_temporary(&mut io.me, result.is_err());
    result
}

fn read_set(mm: &mut Mm, addr: u64, bytes: usize) -> Result<FdSet> {
    if addr == 0 {
        return Ok(FdSet::default());
    }
    let mut raw = [0; fdset::MAX_FDS / 8];
    user::bytes_in(mm, addr, &mut raw[..bytes])?;
    Ok(FdSet::from_bytes(&raw[..bytes]))
}

fn select_ns(io: &mut Io, nfds: i32, addrs: [u64; 3], ns: u64) -> Result<u64> {
    let nfds = usize::try_from(nfds).map_err(|_| Errno::EINVAL)?.min(fdset::MAX_FDS);
    let bytes = fdset::bytes_for(nfds);
    let mut sets = [FdSet::default(); 3];
    for (set, addr) in sets.iter_mut().zip(addrs) {
        *set = read_set(&mut io.mm, addr, bytes)?;
    }
    let (mut wants, mut numbers) = (Vec::new(), Vec::new());
    for fd in 0..nfds {
        let events = fdset::wanted(sets[0].has(fd), sets[1].has(fd), sets[2].has(fd));
        if events != 0 {
            io.fds.get(fd as i32)?;
            wants.push(Want::new(&io.fds, fd as i32, events));
            numbers.push(fd);
        }
    }
    wait(io, &mut wants, ns)?;
    let mut found = [FdSet::default(); 3];
    let mut count = 0;
    for (want, fd) in wants.iter().zip(numbers) {
        let masks = [fdset::READ_EVENTS, fdset::WRITE_EVENTS, fdset::EXCEPT_EVENTS];
        for (n, mask) in masks.into_iter().enumerate() {
            if sets[n].has(fd) && want.revents & mask != 0 {
                found[n].set(fd);
                count += 1;
            }
        }
    }
    for (set, addr) in found.iter().zip(addrs).filter(|(_, addr)| *addr != 0) {
        user::bytes_out(&mut io.mm, addr, &set.to_bytes()[..bytes])?;
    }
    Ok(count)
}

pub fn select(io: &mut Io, n: i32, r: u64, w: u64, e: u64, timeout: u64) -> Result<u64> {
    let timeout = Timeout::read(&mut io.mm, timeout, from_timeval, to_timeval)?;
    let result = select_ns(io, n, [r, w, e], timeout.ns);
    timeout.write(&mut io.mm);
    result
}

pub fn pselect6(
    io: &mut Io,
    n: i32,
    r: u64,
    w: u64,
    e: u64,
    timeout: u64,
    mask: u64,
) -> Result<u64> {
    let timeout = Timeout::read(&mut io.mm, timeout, from_timespec, to_timespec)?;
    if mask != 0 {
        let [addr, size]: [u64; 2] = user::copy_in(&mut io.mm, mask)?;
        temporary_mask(io, addr, size)?;
    }
    let result = select_ns(io, n, [r, w, e], timeout.ns);
    timeout.write(&mut io.mm);
    mask::end_temporary(&mut io.me, result.is_err());
    result
}
