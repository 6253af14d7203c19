//! The calling thread: its identity, its registers, its name.

use super::{pageout, passing, privilege, seccomp, userdispatch};
use crate::errno::{Errno, Result};
use crate::invoke::invoke;
use crate::mm::{user, Mm};
use crate::process::{frame, Needs, Process, Task};
use crate::server::{self, header, op};
use crate::sys::State;
use crate::thread::{area, Me};
use abi::layout::USER_END;
use core::arch::asm;
use core::sync::atomic::Ordering;
use linuxabi::prctl as raw;

fn has_fsgsbase() -> bool {
    // SAFETY: the frame is mapped; the kernel wrote the field before the dispatcher was started.
    unsafe { (*frame()).fsgsbase != 0 }
}

pub fn arch_prctl(task: &mut Task, code: u32, addr: u64) -> Result<u64> {
    const SET_GS: u32 = 0x1001;
    const SET_FS: u32 = 0x1002;
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    if matches!(code, SET_FS | SET_GS) && addr >= USER_END {
        return Err(Errno::EPERM);
    }
    let fast = has_fsgsbase();
    let mut base = task.me.fs_base;
    match code {
        SET_FS => {
            task.me.fs_base = addr;
            if fast {
                // SAFETY: the CPU has the instruction; the library does not use FS.
                unsafe { asm!("wrfsbase {}", in(reg) addr, options(nostack)) };
            } else {
                let set = captypes::op::SetFsBase { base: addr };
                invoke(area::own_dispatcher(), set).map_err(|_| Errno::EPERM)?;
            }
            return Ok(0);
        }
        SET_GS if fast => {
            // SAFETY: the CPU has the instruction; the library does not use GS.
            unsafe { asm!("wrgsbase {}", in(reg) addr, options(nostack)) };
            return Ok(0);
        }
        GET_FS if fast => {
            // SAFETY: the CPU has the instruction.
            unsafe { asm!("rdfsbase {}", out(reg) base, options(nostack)) };
        }
        GET_FS => {}
        GET_GS if fast => {
            // SAFETY: the CPU has the instruction.
            unsafe { asm!("rdgsbase {}", out(reg) base, options(nostack)) };
        }
        _ => return Err(Errno::EINVAL),
    }
    user::copy_out(&mut task.mm, addr, &base)?;
    Ok(0)
}

pub fn gettid(_: ()) -> u64 {
    header().tid.load(Ordering::Relaxed) as u64
}

pub fn set_tid_address(me: &mut Me, addr: u64) -> u64 {
    me.clear_tid = addr;
    gettid(())
}

pub fn prctl(p: &mut Process, option: u32, a: u64, b: u64, c: u64, d: u64) -> Result<u64> {
    if option == passing::PR_TESSERA_PASS {
        return passing::pass(p, a, b, c, d);
    }
    if option == raw::PR_SET_SECCOMP {
        return seccomp::set(p, a, b);
    }
    if option == raw::PR_SET_SYSCALL_USER_DISPATCH {
        return userdispatch::set(p, a, b, c, d);
    }
    let (task, sys): (&mut Task, &mut State) = Needs::of(p);
    let mm = &mut task.mm;
    match option {
        raw::PR_SET_NAME => set_name(mm, a),
        raw::PR_GET_NAME => get_name(mm, a),
        raw::PR_SET_PDEATHSIG if a <= 64 => {
            sys.parent_death_signal = a as u32;
            Ok(0)
        }
        raw::PR_GET_PDEATHSIG => {
            let signal = sys.parent_death_signal;
            user::copy_out(mm, a, &signal).map(|()| 0)
        }
        raw::PR_GET_SECCOMP => Ok(seccomp::get(task)),
        raw::PR_GET_TIMERSLACK => Ok(sys.slack[0]),
        raw::PR_SET_TIMERSLACK => {
            sys.slack[0] = if a == 0 { sys.slack[1] } else { a };
            Ok(0)
        }
        raw::PR_SET_CHILD_SUBREAPER => privilege::prctl(option, [(a != 0).into(), 0, 0, 0]),
        raw::PR_GET_CHILD_SUBREAPER => {
            let reaps = privilege::prctl(option, [0; 4])? as u32;
            user::copy_out(mm, a, &reaps).map(|()| 0)
        }
        raw::PR_SET_THP_DISABLE if [b, c, d] == [0; 3] => {
            mm.caps.objects.only_small = a != 0;
            Ok(0)
        }
        raw::PR_GET_THP_DISABLE if [a, b, c, d] == [0; 4] => Ok(mm.caps.objects.only_small.into()),
        raw::PR_SET_THP_DISABLE | raw::PR_GET_THP_DISABLE => Err(Errno::EINVAL),
        pageout::PR_TESSERA_PAGEOUT => pageout::limit(mm, a, b, c, d),
        _ => privilege::prctl(option, [a, b, c, d]),
    }
}

/// Bytes of a name, with a NUL at the end.
const NAME_BYTES: usize = 16;

fn set_name(mm: &mut Mm, addr: u64) -> Result<u64> {
    let mut name = [0; NAME_BYTES];
    // One that is too long is cut. It may end just before memory that cannot be read.
    let had = user::read(mm, addr, &mut name[..NAME_BYTES - 1]);
    let text = &name[..had.bytes];
    let text = match text.iter().position(|&byte| byte == 0) {
        Some(end) => &text[..end],
        None => had.all().map(|()| text)?,
    };
    server::call_a(op::SetName {}, text).map(|()| 0)
}

fn get_name(mm: &mut Mm, addr: u64) -> Result<u64> {
    let bytes = server::call(op::GetName {})?.count as usize;
    let mut name = [0; NAME_BYTES];
    let bytes = bytes.min(NAME_BYTES - 1);
    server::take(&mut name[..bytes]);
    user::copy_out(mm, addr, &name).map(|()| 0)
}

pub fn personality(sys: &mut State, persona: u32) -> u64 {
    let before = sys.personality;
    if persona != u32::MAX {
        sys.personality = persona;
    }
    before as u64
}
