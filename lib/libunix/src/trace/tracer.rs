//! `ptrace` and its relatives, for whoever traces: arguments are looked at here, the rest is `unixd`'s business.

use super::registers::set;
use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::{self, header, op};
use crate::sys::processes::has;
use crate::sys::readwrite::vector;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use credentials::Capability;
use linuxabi::iovec::Buffer;
use linuxabi::ptrace::*;
use linuxabi::userregs;
use unixproto::session::DATA_BYTES;
use unixproto::trace::{command, flag, request, INFO_BYTES};

const WORD: u64 = 8;
const LEGACY_BYTES: usize = 512;

/// A thread that is traced, and a way to have it do something.
struct Target<'a> {
    task: &'a mut Task,
    tid: u32,
}

impl Target<'_> {
    /// Answers a count.
    fn ask(&mut self, what: u32, address: u64, value: u64, bytes: &[u8]) -> Result<u64> {
        let a = server::put_a(bytes);
        let tid = self.tid;
        Ok(server::wait_filled(self.task, op::Trace { tid, what, address, value }, a)?.count)
    }

    /// Answers bytes.
    fn get(&mut self, what: u32, address: u64, value: u64) -> Result<Vec<u8>> {
        let count = self.ask(what, address, value, &[])?;
        server::taken(count as usize)
    }

    /// Answers a word, at an address of the tracer's.
    fn word(&mut self, what: u32, address: u64, to: u64) -> Result<u64> {
        let bytes = self.get(what, address, WORD)?;
        if bytes.len() < WORD as usize {
            return Err(Errno::EIO);
        }
        user::bytes_out(&mut self.task.mm, to, &bytes[..WORD as usize])?;
        Ok(0)
    }

    /// Copies a set of registers to the tracer's memory, as much as there is room for. Answers how much.
    fn get_set(&mut self, which: u64, to: u64, room: usize) -> Result<usize> {
        let bytes = self.get(command::GET_SET, which, 0)?;
        let len = bytes.len().min(room);
        user::bytes_out(&mut self.task.mm, to, &bytes[..len])?;
        Ok(len)
    }

    /// Sets a set of registers from the tracer's memory.
    fn set_set(&mut self, which: u64, from: u64, len: usize) -> Result<()> {
        let mut bytes = vec![0; len.min(DATA_BYTES)];
        user::bytes_in(&mut self.task.mm, from, &mut bytes)?;
        self.ask(command::SET_SET, which, bytes.len() as u64, &bytes).map(|_| ())
    }

    fn resume(&mut self, what: u32, mode: u32, signal: u64) -> Result<u64> {
        self.ask(what, mode.into(), signal, &[])
    }
}

pub fn ptrace(p: &mut Task, request: u64, pid: i32, addr: u64, data: u64) -> Result<u64> {
    let number = u32::try_from(request).map_err(|_| Errno::EIO)?;
    let tid = u32::try_from(pid).map_err(|_| Errno::ESRCH);
    match number {
        PTRACE_TRACEME => {
            server::call(op::TraceMe {})?;
            super::adopt();
            return Ok(0);
        }
        PTRACE_ATTACH => return attach(tid?, false, 0),
        PTRACE_SEIZE if addr != 0 => return Err(Errno::EIO),
        PTRACE_SEIZE => {
            return attach(tid?, true, u32::try_from(data).map_err(|_| Errno::EIO)?);
        }
        _ => {}
    }
    let target = &mut Target { task: p, tid: tid? };
    match number {
        PTRACE_INTERRUPT => target.ask(request::INTERRUPT, 0, 0, &[]),
        PTRACE_KILL => target.ask(request::KILL, 0, 0, &[]),
        PTRACE_CONT => target.resume(request::CONTINUE, 0, data),
        PTRACE_SYSCALL => target.resume(request::CONTINUE, flag::SYSCALLS, data),
        PTRACE_SYSEMU => target.resume(request::CONTINUE, flag::EMULATE, data),
        PTRACE_SYSEMU_SINGLESTEP => {
            target.resume(request::CONTINUE, flag::EMULATE | flag::STEP, data)
        }
        PTRACE_SINGLESTEP => target.resume(request::CONTINUE, flag::STEP, data),
        PTRACE_DETACH => target.resume(request::DETACH, 0, data),
        PTRACE_LISTEN => target.ask(request::LISTEN, 0, 0, &[]),
        PTRACE_SETOPTIONS | PTRACE_OLDSETOPTIONS => {
            let options = u32::try_from(data).unwrap_or(u32::MAX);
            target.ask(request::SET_OPTIONS, 0, options.into(), &[])
        }
        PTRACE_PEEKTEXT | PTRACE_PEEKDATA => target.word(command::READ, addr, data),
        PTRACE_POKETEXT | PTRACE_POKEDATA => {
            match target.ask(command::WRITE, addr, WORD, &data.to_le_bytes())? {
                WORD => Ok(0),
                _ => Err(Errno::EIO),
            }
        }
        PTRACE_PEEKUSR => target.word(command::GET_USER, addr, data),
        PTRACE_POKEUSR => target.ask(command::SET_USER, addr, data, &[]),
        PTRACE_GETEVENTMSG => target.word(request::GET_MESSAGE, 0, data),
        _ => structures(target, number, addr, data),
    }
}

fn attach(tid: u32, seize: bool, options: u32) -> Result<u64> {
    server::call(op::TraceAttach { tid, seize, options }).map(|()| 0)
}

/// Requests about whole structures.
fn structures(target: &mut Target<'_>, number: u32, addr: u64, data: u64) -> Result<u64> {
    match number {
        PTRACE_GETREGS => target.get_set(set::GENERAL, data, userregs::BYTES)?,
        PTRACE_GETFPREGS => target.get_set(set::FLOAT, data, LEGACY_BYTES)?,
        PTRACE_SETREGS => return target.set_set(set::GENERAL, data, userregs::BYTES).map(|()| 0),
        PTRACE_SETFPREGS => return target.set_set(set::FLOAT, data, LEGACY_BYTES).map(|()| 0),
        PTRACE_GETREGSET | PTRACE_SETREGSET => {
            let [base, len]: [u64; 2] = user::copy_in(&mut target.task.mm, data)?;
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            if addr == set::GENERAL && !len.is_multiple_of(WORD as usize) {
                return Err(Errno::EINVAL);
            }
            let done = match number {
                PTRACE_GETREGSET => target.get_set(addr, base, len)?,
                _ => {
                    let bytes = target.get(command::GET_SET, addr, 0)?.len();
                    target.set_set(addr, base, len.min(bytes))?;
                    len.min(bytes)
                }
            };
            user::copy_out(&mut target.task.mm, data.wrapping_add(WORD), &(done as u64))?;
            done
        }
        PTRACE_GETSIGINFO => {
            let bytes = target.get(request::GET_INFO, 0, 0)?;
            user::bytes_out(&mut target.task.mm, data, &bytes)?;
            0
        }
        PTRACE_SETSIGINFO => {
            let mut bytes = [0; INFO_BYTES];
            user::bytes_in(&mut target.task.mm, data, &mut bytes)?;
            target.ask(request::SET_INFO, 0, 0, &bytes)? as usize
        }
        PTRACE_GETSIGMASK if addr == WORD => target.word(command::GET_MASK, 0, data)? as usize,
        PTRACE_SETSIGMASK if addr == WORD => {
            let mask: u64 = user::copy_in(&mut target.task.mm, data)?;
            target.ask(command::SET_MASK, 0, mask, &[])? as usize
        }
        PTRACE_GETSIGMASK | PTRACE_SETSIGMASK => return Err(Errno::EINVAL),
        PTRACE_GET_SYSCALL_INFO => {
            let bytes = target.get(command::GET_SYSCALL, 0, 0)?;
            let len = bytes.len().min(usize::try_from(addr).unwrap_or(usize::MAX));
            user::bytes_out(&mut target.task.mm, data, &bytes[..len])?;
            return Ok(bytes.len() as u64);
        }
        PTRACE_GET_RSEQ_CONFIGURATION => {
            let bytes = target.get(command::GET_SEQUENCES, 0, 0)?;
            let len = bytes.len().min(usize::try_from(addr).unwrap_or(usize::MAX));
            user::bytes_out(&mut target.task.mm, data, &bytes[..len])?;
            return Ok(bytes.len() as u64);
        }
        PTRACE_SECCOMP_GET_FILTER => return get_filter(target, addr, data),
        PTRACE_PEEKSIGINFO => return peek_signals(target, addr, data),
        _ => {
            // Whoever does not trace it is told so first.
            target.get(command::GET_MASK, 0, 0)?;
            return Err(Errno::EIO);
        }
    };
    Ok(0)
}

/// Signals that wait for a thread, or for its process. Answers how many it was told of.
fn peek_signals(target: &mut Target<'_>, which: u64, to: u64) -> Result<u64> {
    // Whoever does not trace it is told so first.
    target.get(command::GET_MASK, 0, 0)?;
    let [first, rest]: [u64; 2] = user::copy_in(&mut target.task.mm, which)?;
    let (flags, most) = (rest as u32, (rest >> 32) as i32);
    let Ok(most) = u64::try_from(most) else { return Err(Errno::EINVAL) };
    if flags & !PTRACE_PEEKSIGINFO_SHARED != 0 {
        return Err(Errno::EINVAL);
    }
    let mut done = 0;
    while let (true, Some(next)) = (done < most, first.checked_add(done)) {
        let (bytes, left) = (INFO_BYTES as u64, most - done);
        let value = left | u64::from(flags) << 32;
        let some = target.get(request::PEEK_SIGNALS, next, value)?;
        let place = to.wrapping_add(done * bytes);
        let told = user::write(&mut target.task.mm, place, &some).bytes as u64 / bytes;
        done += told;
        if told * bytes < some.len() as u64 {
            return if done == 0 { Err(Errno::EFAULT) } else { Ok(done) };
        }
        if some.is_empty() {
            break;
        }
    }
    Ok(done)
}

/// A program that filters the calls of a thread. Answers how many instructions it has.
fn get_filter(target: &mut Target<'_>, which: u64, to: u64) -> Result<u64> {
    const INSTRUCTION_BYTES: usize = 8;
    // Whoever does not trace it is told so first.
    target.get(command::GET_MASK, 0, 0)?;
    if !has(Capability::SysAdmin) || target.task.me.filter.is_some() {
        return Err(Errno::EACCES);
    }
    let mut done = 0;
    loop {
        let bytes = target.ask(command::GET_FILTER, which, done as u64, &[])? as usize;
        let piece = server::taken(bytes.saturating_sub(done).min(DATA_BYTES))?;
        if to != 0 {
            user::bytes_out(&mut target.task.mm, to.wrapping_add(done as u64), &piece)?;
        }
        done += piece.len();
        if to == 0 || piece.is_empty() || done >= bytes {
            return Ok((bytes / INSTRUCTION_BYTES) as u64);
        }
    }
}

/// `process_vm_readv` and `process_vm_writev`.
pub fn process_vm_readv(
    task: &mut Task,
    pid: i32,
    local: u64,
    local_count: u64,
    remote: u64,
    remote_count: u64,
    flags: u64,
) -> Result<u64> {
    move_memory(task, pid, (local, local_count), (remote, remote_count), flags, false)
}

pub fn process_vm_writev(
    task: &mut Task,
    pid: i32,
    local: u64,
    local_count: u64,
    remote: u64,
    remote_count: u64,
    flags: u64,
) -> Result<u64> {
    move_memory(task, pid, (local, local_count), (remote, remote_count), flags, true)
}

/// Bytes of a list of buffers, from the first on.
struct Run {
    buffers: Vec<Buffer>,
    at: usize,
}

impl Run {
    fn of(mm: &mut Mm, (address, count): (u64, u64)) -> Result<Run> {
        Ok(Run { buffers: vector(mm, address, count)?, at: 0 })
    }
    /// What comes next.
    fn next(&mut self) -> Option<Buffer> {
        while self.buffers.get(self.at).is_some_and(|buffer| buffer.len == 0) {
            self.at += 1;
        }
        self.buffers.get(self.at).copied()
    }
    /// So much of that is done.
    fn skip(&mut self, bytes: u64) {
        if let Some(buffer) = self.buffers.get_mut(self.at) {
            (buffer.base, buffer.len) = (buffer.base.wrapping_add(bytes), buffer.len - bytes);
        }
    }
}

fn move_memory(
    task: &mut Task,
    pid: i32,
    local: (u64, u64),
    remote: (u64, u64),
    flags: u64,
    write: bool,
) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (mut local, mut remote) = (Run::of(&mut task.mm, local)?, Run::of(&mut task.mm, remote)?);
    let tid = u32::try_from(pid).map_err(|_| Errno::ESRCH)?;
    let mut total = 0;
    while let (Some(here), Some(there)) = (local.next(), remote.next()) {
        let bytes = here.len.min(there.len).min(DATA_BYTES as u64);
        match piece(task, tid, here.base, there.base, bytes, write) {
            Ok(moved) => {
                local.skip(moved);
                remote.skip(moved);
                total += moved;
                if moved < bytes {
                    break;
                }
            }
            Err(_) if total > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    if total == 0 && local.next().is_some() && remote.next().is_some() {
        return Err(Errno::EFAULT);
    }
    if total == 0 {
        // Nothing is asked for, but of somebody.
        piece(task, tid, 0, 0, 0, false)?;
    }
    Ok(total)
}

/// Moves bytes between the memory of this process and that of another. Answers how many.
fn piece(task: &mut Task, tid: u32, here: u64, there: u64, bytes: u64, write: bool) -> Result<u64> {
    let len = bytes as usize;
    if tid == header().pid.load(Relaxed) {
        let (from, to) = if write { (here, there) } else { (there, here) };
        let mut copy = vec![0; len];
        let read = user::read(&mut task.mm, from, &mut copy).bytes;
        return Ok(user::write(&mut task.mm, to, &copy[..read]).bytes as u64);
    }
    let ask = |write| op::TraceMemory { tid, write, address: there, bytes };
    if write {
        let mut copy = vec![0; len];
        let read = user::read(&mut task.mm, here, &mut copy).bytes;
        let ask = op::TraceMemory { bytes: read as u64, ..ask(true) };
        let a = server::put_a(&copy[..read]);
        return Ok(server::wait_filled(task, ask, a)?.count);
    }
    let count = server::wait_filled(task, ask(false), 0)?.count;
    let copy = server::taken(count as usize)?;
    Ok(user::write(&mut task.mm, here, &copy).bytes as u64)
}
