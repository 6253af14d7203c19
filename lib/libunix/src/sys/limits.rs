//! Resource limits and usage.

use super::{processes, time};
use crate::errno::{Errno, Result};
use crate::mm::{self, user, Mm};
use crate::process::Io;
use crate::server::{self, header, main_header, op};
use core::sync::atomic::Ordering;
use credentials::Capability;
use linuxabi::bytes::Bytes;
use unixproto::limit;
use unixproto::session::LIMITS;

/// A limit: what counts, and how far it may be raised.
#[derive(Clone, Copy)]
struct Limit {
    soft: u64,
    hard: u64,
}

/// `RLIMIT_DATA`.
const DATA: usize = 2;
/// `RLIMIT_STACK`.
const STACK: usize = 3;
/// `RLIMIT_NOFILE`.
const NOFILE: usize = 7;
/// `RLIMIT_MEMLOCK`.
const MEMLOCK: usize = 8;
/// `RLIMIT_AS`.
const AS: usize = 9;
/// `RLIMIT_MSGQUEUE`.
const MSGQUEUE: usize = 12;

/// The limits of the process, as `getrlimit` tells them. They are in the header of its first thread, where others change them, too.
#[derive(Clone)]
pub struct Limits;

impl Limits {
    /// Those with which everything begins, of the first process.
    pub fn begin(&mut self) {
        for (which, &limit) in INITIAL.iter().enumerate() {
            self.set(which, limit);
        }
    }

    /// Takes over those of a program before that may have said anything. `secure`: what is beyond the usual stack does not count.
    pub fn inherit(&mut self, secure: bool) {
        for which in 0..LIMITS {
            let Limit { soft, hard } = self.of(which);
            self.set(which, Limit { soft: soft.min(hard), hard });
        }
        let files = self.of(NOFILE);
        self.set(NOFILE, Limit { hard: files.hard.min(limit::FILES_MOST), ..files });
        if secure {
            let stack = self.of(STACK);
            self.set(STACK, Limit { soft: stack.soft.min(INITIAL[STACK].soft), ..stack });
        }
    }

    #[inline]
    fn of(&self, which: usize) -> Limit {
        let shown = &main_header().limits[which];
        let [soft, hard] = shown.each_ref().map(|word| word.load(Ordering::Relaxed));
        Limit { soft, hard }
    }

    fn set(&mut self, which: usize, limit: Limit) {
        let [soft, hard] = &main_header().limits[which];
        soft.store(limit.soft, Ordering::Relaxed);
        hard.store(limit.hard, Ordering::Relaxed);
    }

    fn get(&self, resource: u32) -> Result<Limit> {
        let which = resource as usize;
        (which < LIMITS).then(|| self.of(which)).ok_or(Errno::EINVAL)
    }

    /// Descriptors are below this.
    pub fn max_files(&self) -> u32 {
        self.of(NOFILE).soft.min(limit::FILES_MOST) as u32
    }

    /// How far the stack may grow.
    pub fn max_stack(&self) -> u64 {
        self.of(STACK).soft
    }

    /// Bytes of the data segment.
    pub fn max_data(&self) -> u64 {
        self.of(DATA).soft
    }

    /// Bytes that may be locked in memory.
    pub fn max_locked(&self) -> u64 {
        match processes::has(Capability::IpcLock) {
            true => u64::MAX,
            false => self.of(MEMLOCK).soft,
        }
    }

    /// Bytes that the message queues of the user may need.
    pub fn max_messages(&self) -> u64 {
        self.of(MSGQUEUE).soft
    }

    /// Bytes of address space.
    pub fn max_address_space(&self) -> u64 {
        self.of(AS).soft
    }
}

/// Limits of the first process.
const INITIAL: [Limit; LIMITS] = {
    let mut limits = [Limit { soft: limit::NONE, hard: limit::NONE }; LIMITS];
    let mut which = 0;
    while which < LIMITS {
        let [soft, hard] = limit::FIRST[which];
        limits[which] = Limit { soft, hard };
        which += 1;
    }
    limits
};

fn change(limits: &mut Limits, resource: u32, new: [u64; 2]) -> Result<()> {
    let root = processes::has(Capability::SysResource);
    let old = limits.get(resource)?;
    let [soft, hard] = new;
    if soft > hard {
        return Err(Errno::EINVAL);
    }
    if hard > old.hard && !root || resource as usize == NOFILE && hard > limit::FILES_MOST {
        return Err(Errno::EPERM);
    }
    // Those that hold against the process itself.
    if limit::ENFORCED.contains(&resource) {
        server::call(op::SetLimit { which: resource, soft, hard })?;
    }
    limits.set(resource as usize, Limit { soft, hard });
    Ok(())
}

pub fn getrlimit(io: &mut Io, resource: u32, out: u64) -> Result<u64> {
    let limit = io.limits.get(resource)?;
    user::copy_out(&mut io.mm, out, &[limit.soft, limit.hard])?;
    Ok(0)
}

pub fn setrlimit(io: &mut Io, resource: u32, new: u64) -> Result<u64> {
    let new = user::copy_in::<[u64; 2]>(&mut io.mm, new)?;
    set(io, resource, new)?;
    Ok(0)
}

/// Changes a limit of the own process. A stack may grow further at once, whatever is mapped next.
fn set(io: &mut Io, resource: u32, new: [u64; 2]) -> Result<()> {
    change(&mut io.limits, resource, new)?;
    let (memory, limits) = io.memory();
    mm::take_limits(memory, limits);
    Ok(())
}

/// Limits of others are told, and changed, by `unixd`; their libraries hear of it.
pub fn prlimit64(io: &mut Io, pid: u32, resource: u32, new: u64, old: u64) -> Result<u64> {
    let wanted = if new == 0 { None } else { Some(user::copy_in::<[u64; 2]>(&mut io.mm, new)?) };
    if pid != 0 && pid != header().pid.load(Ordering::Relaxed) {
        let limit = match wanted {
            None => server::call(op::LimitOf { pid, which: resource })?,
            Some([soft, hard]) => {
                server::call(op::SetLimitOf { pid, which: resource, soft, hard })?
            }
        };
        if old != 0 {
            user::copy_out(&mut io.mm, old, &[limit.soft, limit.hard])?;
        }
        return Ok(0);
    }
    let before = io.limits.get(resource)?;
    if let Some(wanted) = wanted {
        set(io, resource, wanted)?;
    }
    if old != 0 {
        user::copy_out(&mut io.mm, old, &[before.soft, before.hard])?;
    }
    Ok(0)
}

/// Bytes of `struct rusage`.
pub const RUSAGE_BYTES: usize = 144;

/// `struct rusage` of a process that used so much processor time, of which so much in the system.
pub fn rusage([cpu_ns, system_ns]: [u64; 2], peak_pages: u64, faults: u64) -> [u8; RUSAGE_BYTES] {
    Bytes::default()
        .raw(&linuxabi::time::to_timeval(cpu_ns.saturating_sub(system_ns)))
        .raw(&linuxabi::time::to_timeval(system_ns))
        .u64(peak_pages * 4)
        .skip(24)
        .u64(faults)
        .done()
}

pub fn getrusage(mm: &mut Mm, who: i32, out: u64) -> Result<u64> {
    let usage = match who {
        0 | 1 => {
            mm::usage::tell_all(mm);
            let memory = &main_header().memory;
            let most = memory.most_resident.load(Ordering::Relaxed);
            let used = if who == 0 { time::of_process()? } else { time::of_thread() };
            rusage(used, most, memory.faults.load(Ordering::Relaxed))
        }
        -1 => {
            let usage = server::call(op::CpuUsage { who: 1 })?;
            rusage([usage.cpu_ns, usage.system_ns], usage.peak_pages, usage.faults)
        }
        _ => return Err(Errno::EINVAL),
    };
    user::copy_out(mm, out, &usage)?;
    Ok(0)
}
