//! Processes: ids, groups, sessions, waiting, killing, ending.

use super::limits::{rusage, RUSAGE_BYTES};
use crate::errno::{Errno, Result};
use crate::fd::kinds::pidfd;
use crate::mm::{self, user, Mm};
use crate::process::{Io, Process, Task};
use crate::server::{self, header, op, restart};
use crate::thread::{company, end, lock};
use crate::{trace, vfork};
use abi::Regs;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use credentials::{CapSet, Capability, Groups};
use linuxabi::bytes::Bytes;
use unixproto::files::{KEEP_ID, WCONTINUED, WEXITED, WNOHANG, WNOWAIT, WSTOPPED};
use unixproto::ops::Waited;
use unixproto::session::DATA_BYTES;
use unixproto::signals::{self, SI_TKILL, SI_USER};
use unixproto::trace::TRAPPED;

/// Is a (POSIX) capability effective?
pub fn has(capability: Capability) -> bool {
    CapSet::new(header().caps.load(Ordering::Relaxed)).has(capability)
}

fn load(cell: &AtomicU32) -> u64 {
    cell.load(Ordering::Relaxed) as u64
}

pub fn getpid(_: ()) -> u64 {
    load(&header().pid)
}

#[inline]
pub fn getppid(_: ()) -> u64 {
    load(&header().ppid)
}

pub fn getpgrp(_: ()) -> u64 {
    load(&header().pgid)
}

/// Indices in the header's ids.
pub const RUID: usize = 0;
const EUID: usize = 1;
pub const RGID: usize = 3;
const EGID: usize = 4;

pub fn getuid(_: ()) -> u64 {
    load(&header().ids[RUID])
}

pub fn geteuid(_: ()) -> u64 {
    load(&header().ids[EUID])
}

pub fn getgid(_: ()) -> u64 {
    load(&header().ids[RGID])
}

pub fn getegid(_: ()) -> u64 {
    load(&header().ids[EGID])
}

/// Real, effective and saved id, starting at index `first`.
fn triple(first: usize) -> [u32; 3] {
    [0, 1, 2].map(|n| header().ids[first + n].load(Ordering::Relaxed))
}

/// Sets three ids; `KEEP_ID` leaves one.
fn set_triple(first: usize, [real, effective, saved]: [u32; 3]) -> Result<u64> {
    let groups = first == RGID;
    server::call(op::SetIds { groups, real, effective, saved }).map(|()| 0)
}

/// All three with privilege, else the effective one.
fn set_one(first: usize, id: u32) -> Result<u64> {
    if id == KEEP_ID {
        return Err(Errno::EINVAL);
    }
    let capability = if first == RGID { Capability::Setgid } else { Capability::Setuid };
    if has(capability) {
        set_triple(first, [id; 3])
    } else if id == triple(first)[0] || id == triple(first)[2] {
        set_triple(first, [KEEP_ID, id, KEEP_ID])
    } else {
        Err(Errno::EPERM)
    }
}

/// `setreuid`: the saved id follows the effective one when the real one is set or they differ.
fn set_two(first: usize, real: u32, effective: u32) -> Result<u64> {
    let old = triple(first);
    let capability = if first == RGID { Capability::Setgid } else { Capability::Setuid };
    // The real id becomes the effective one at most, and not the saved one.
    if real != KEEP_ID && real != old[0] && real != old[1] && !has(capability) {
        return Err(Errno::EPERM);
    }
    let after = if effective == KEEP_ID { old[1] } else { effective };
    let follows = real != KEEP_ID || effective != KEEP_ID && effective != old[0];
    set_triple(first, [real, effective, if follows { after } else { KEEP_ID }])
}

pub fn setuid(_: (), id: u32) -> Result<u64> {
    set_one(RUID, id)
}
pub fn setgid(_: (), id: u32) -> Result<u64> {
    set_one(RGID, id)
}
pub fn setreuid(_: (), real: u32, effective: u32) -> Result<u64> {
    set_two(RUID, real, effective)
}
pub fn setregid(_: (), real: u32, effective: u32) -> Result<u64> {
    set_two(RGID, real, effective)
}
pub fn setresuid(_: (), real: u32, effective: u32, saved: u32) -> Result<u64> {
    set_triple(RUID, [real, effective, saved])
}
pub fn setresgid(_: (), real: u32, effective: u32, saved: u32) -> Result<u64> {
    set_triple(RGID, [real, effective, saved])
}
pub fn getresuid(mm: &mut Mm, real: u64, effective: u64, saved: u64) -> Result<u64> {
    put_triple(mm, RUID, [real, effective, saved])
}
pub fn getresgid(mm: &mut Mm, real: u64, effective: u64, saved: u64) -> Result<u64> {
    put_triple(mm, RGID, [real, effective, saved])
}

/// The same without the lock.
pub fn own_ids(regs: &Regs, first: usize) -> Option<u64> {
    for (addr, id) in [regs.rdi, regs.rsi, regs.rdx].into_iter().zip(triple(first)) {
        user::store(addr, &id)?;
    }
    Some(0)
}

fn put_triple(mm: &mut Mm, first: usize, addrs: [u64; 3]) -> Result<u64> {
    for (addr, id) in addrs.into_iter().zip(triple(first)) {
        user::copy_out(mm, addr, &id)?;
    }
    Ok(0)
}

/// These answer the id before, whatever came of it.
pub fn setfsuid(_: (), id: u32) -> Result<u64> {
    Ok(server::call(op::SetFileId { groups: false, id })?.count)
}
pub fn setfsgid(_: (), id: u32) -> Result<u64> {
    Ok(server::call(op::SetFileId { groups: true, id })?.count)
}

pub fn getgroups(mm: &mut Mm, size: i32, list: u64) -> Result<u64> {
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    let all = server::call(op::GetGroups { from: 0 })?.count as usize;
    if size == 0 {
        return Ok(all as u64);
    }
    if all > size {
        return Err(Errno::EINVAL);
    }
    let mut from = 0;
    while from < all {
        if from > 0 {
            server::call(op::GetGroups { from: from as u32 })?;
        }
        let part = (all - from).min(GROUPS_AT_ONCE);
        user::bytes_out(mm, list.wrapping_add(4 * from as u64), &server::taken(4 * part)?)?;
        from += part;
    }
    Ok(all as u64)
}

/// Groups that fit into the data area.
const GROUPS_AT_ONCE: usize = DATA_BYTES / 4;

pub fn setgroups(mm: &mut Mm, size: i32, list: u64) -> Result<u64> {
    if !has(Capability::Setgid) {
        return Err(Errno::EPERM);
    }
    let count = u32::try_from(size).map_err(|_| Errno::EINVAL)?;
    if count as usize > Groups::MOST {
        return Err(Errno::EINVAL);
    }
    let mut ids = Vec::new();
    ids.try_reserve_exact(4 * count as usize).map_err(|_| Errno::ENOMEM)?;
    ids.resize(4 * count as usize, 0);
    user::bytes_in(mm, list, &mut ids)?;
    if ids.as_chunks::<4>().0.contains(&KEEP_ID.to_le_bytes()) {
        return Err(Errno::EINVAL);
    }
    let mut from = 0;
    loop {
        let part = &ids[4 * from as usize..];
        let part = &part[..part.len().min(4 * GROUPS_AT_ONCE)];
        server::call_a(op::SetGroups { count, from }, part)?;
        from += part.len() as u32 / 4;
        if from == count {
            return Ok(0);
        }
    }
}

pub fn setpgid(_: (), pid: i32, pgid: i32) -> Result<u64> {
    let pgid = u32::try_from(pgid).map_err(|_| Errno::EINVAL)?;
    let pid = u32::try_from(pid).map_err(|_| Errno::ESRCH)?;
    server::call(op::SetPgid { pid, pgid }).map(|()| 0)
}

pub fn getpgid(_: (), pid: i32) -> Result<u64> {
    match u32::try_from(pid).map_err(|_| Errno::ESRCH)? {
        0 => Ok(load(&header().pgid)),
        pid => Ok(server::call(op::GetPgid { pid })?.pid as u64),
    }
}

pub fn getsid(_: (), pid: i32) -> Result<u64> {
    match u32::try_from(pid).map_err(|_| Errno::ESRCH)? {
        0 => Ok(load(&header().sid)),
        pid => Ok(server::call(op::GetSid { pid })?.pid as u64),
    }
}

pub fn setsid(_: ()) -> Result<u64> {
    Ok(server::call(op::SetSid {})?.pid as u64)
}

/// `struct rusage` of a child that was waited for.
fn usage_of(waited: &Waited) -> [u8; RUSAGE_BYTES] {
    let [faults, peak] = halves(waited.memory).map(u64::from);
    rusage([waited.cpu_ns, waited.system_ns], peak, faults)
}

/// Low and high half of a word.
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

pub fn wait4(task: &mut Task, pid: i32, status: u64, options: u32, usage: u64) -> Result<u64> {
    const ANY_KIND: u32 = 0x4000_0000; // __WALL
    const CLONE: u32 = 0x8000_0000; // __WCLONE
    const NO_THREAD: u32 = 0x2000_0000; // __WNOTHREAD
    if options & !(WNOHANG | WSTOPPED | WCONTINUED | ANY_KIND | CLONE | NO_THREAD) != 0 {
        return Err(Errno::EINVAL);
    }
    if pid == i32::MIN {
        return Err(Errno::ESRCH);
    }
    let options = options & (WNOHANG | WSTOPPED | WCONTINUED) | WEXITED;
    let waited = server::wait(task, op::Wait { pid, options }).map_err(restart)?;
    if waited.pid != 0 {
        if status != 0 {
            user::copy_out(&mut task.mm, status, &(halves(waited.status)[0] & !TRAPPED))?;
        }
        if usage != 0 {
            user::copy_out(&mut task.mm, usage, &usage_of(&waited))?;
        }
    }
    Ok(waited.pid as u64)
}

/// Bytes of `siginfo_t` that a wait writes.
const SIGINFO_BYTES: usize = 28;

/// What `waitid` says of a child: `si_code` and `si_status` for a wait status.
fn code_and_status(status: u32) -> (i32, u32) {
    const CORE: u32 = 0x80;
    match status {
        signals::CONTINUED => (signals::CLD_CONTINUED, signals::SIGCONT),
        s if s & TRAPPED != 0 => (signals::CLD_TRAPPED, (s & !TRAPPED) >> 8),
        s if s & 0xff == 0x7f => (signals::CLD_STOPPED, s >> 8 & 0xff),
        s if s & 0x7f != 0 && s & CORE != 0 => (signals::CLD_DUMPED, s & 0x7f),
        s => signals::end_of_child(s),
    }
}

/// As on Linux, `info` is written whatever happens, and a bad address there hides other errors.
pub fn waitid(
    io: &mut Io,
    which: u32,
    id: i32,
    info: u64,
    options: u32,
    usage: u64,
) -> Result<u64> {
    let result = wait_any(io, which, id, options);
    let waited = result.as_ref().ok().filter(|waited| waited.pid != 0);
    if let (Some(waited), true) = (waited, usage != 0) {
        user::copy_out(&mut io.mm, usage, &usage_of(waited))?;
    }
    if info != 0 && !matches!(result, Err(Errno::ERESTARTSYS)) {
        let mut raw = Bytes::<SIGINFO_BYTES>::default();
        if let Some(waited) = waited {
            let [status, uid] = halves(waited.status);
            let (code, status) = code_and_status(status);
            raw = raw.u32(signals::SIGCHLD).u32(0).u32(code as u32).u32(0);
            raw = raw.u32(waited.pid).u32(uid).u32(status);
        }
        user::bytes_out(&mut io.mm, info, &raw.done())?;
    }
    result.map(|_| 0)
}

fn wait_any(io: &mut Io, which: u32, id: i32, options: u32) -> Result<Waited> {
    const KINDS: u32 = WEXITED | WSTOPPED | WCONTINUED;
    const LINUX_ONLY: u32 = 0xe000_0000;
    if options & !(KINDS | WNOHANG | WNOWAIT | LINUX_ONLY) != 0 || options & KINDS == 0 {
        return Err(Errno::EINVAL);
    }
    let mut never_waits = false;
    let pid = match (which, id) {
        (0, _) => -1,
        (3, 0..) => {
            let (pid, nonblocking) = pidfd::process(&io.fds, id)?;
            never_waits = nonblocking && options & WNOHANG == 0;
            pid
        }
        (1, 1..) => id,
        (2, 0) => 0,
        (2, 1..) => -id,
        _ => return Err(Errno::EINVAL),
    };
    let options = options & !LINUX_ONLY | if never_waits { WNOHANG } else { 0 };
    match server::wait(io, op::Wait { pid, options }).map_err(restart)? {
        waited if never_waits && waited.pid == 0 => Err(Errno::EAGAIN),
        waited => Ok(waited),
    }
}

pub fn kill(_: (), pid: i32, signal: u32) -> Result<u64> {
    if pid == i32::MIN {
        return Err(Errno::ESRCH);
    }
    server::call(op::Kill { pid, signal, code: SI_USER, value: 0 }).map(|()| 0)
}

pub fn tkill(_: (), tid: i32, signal: u32) -> Result<u64> {
    if tid <= 0 {
        return Err(Errno::EINVAL);
    }
    send_thread(0, tid as u32, signal)
}

pub fn tgkill(_: (), pid: i32, tid: i32, signal: u32) -> Result<u64> {
    if pid <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    send_thread(pid as u32, tid as u32, signal)
}

fn send_thread(pid: u32, tid: u32, signal: u32) -> Result<u64> {
    server::call(op::KillThread { pid, tid, signal, code: SI_TKILL, value: 0 }).map(|()| 0)
}

pub fn rt_sigqueueinfo(mm: &mut Mm, pid: i32, signal: u32, info: u64) -> Result<u64> {
    let raw: [u64; 4] = user::copy_in(mm, info)?;
    let (code, value) = sent_info(&raw, pid as u32)?;
    if pid <= 0 {
        return Err(Errno::ESRCH);
    }
    // Who has sent it is what the sender says.
    server::call_a(op::Kill { pid, signal, code, value }, &raw[2].to_le_bytes()).map(|()| 0)
}

/// `si_code` and `si_value` of a `siginfo_t` that is sent to a process.
pub fn sent_info(raw: &[u64; 4], pid: u32) -> Result<(i32, u64)> {
    let code = raw[1] as i32;
    match (code >= 0 || code == SI_TKILL) && pid as u64 != load(&header().pid) {
        true => Err(Errno::EPERM),
        false => Ok((code, raw[3])),
    }
}

/// Ends the process. `unixd` deletes it with all that it has; there is no answer.
pub fn exit_group(p: &mut Task, regs: &mut Regs) -> Result<u64> {
    let status = signals::exited(regs.rdi as u32);
    trace::tell(p, regs, trace::event::EXIT, status.into());
    end::release_all(p);
    mm::usage::tell_all(&mut p.mm);
    vfork::exit(status)
}

/// Ends the calling thread.
pub fn exit(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    if company::is_guest() {
        // It has one thread.
        return exit_group(p, regs);
    }
    let code = regs.rdi as u32;
    match lock::is_shared() && p.parent.is_none() {
        true => {
            let status = signals::exited(code);
            trace::tell(p, regs, trace::event::EXIT, status.into());
            end::exit(p, status)
        }
        false => exit_group(p, regs),
    }
}
