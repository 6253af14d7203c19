//! System calls that a program makes itself (`PR_SET_SYSCALL_USER_DISPATCH`): those of a thread are not made while a byte of its memory says so, but for those of
//! one range of instructions; a signal says which it was. Emulators of other systems use it.
//!
//! A thread that does not want that pays nothing: calls of the others enter where those of traced and filtered ones do.

use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::{frame, Task};
use crate::upcall;
use abi::layout::USER_END;
use abi::Regs;
use linuxabi::prctl::{PR_SYS_DISPATCH_OFF, PR_SYS_DISPATCH_ON};
use unixproto::signals::{SIGSEGV, SIGSYS};

/// What a program says in its byte.
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Which calls of a thread are its own affair.
#[derive(Clone, Copy)]
pub struct Dispatch {
    /// Calls of these instructions are made: their first address, and how many bytes they have.
    start: u64,
    bytes: u64,
    /// Where the byte is; 0: no other call is made.
    selector: u64,
}

/// `PR_SET_SYSCALL_USER_DISPATCH`.
///
/// # Errors
///
/// `EINVAL`: there is no such mode, or no such range. `EFAULT`: the byte is not the program's.
pub fn set(p: &mut Task, mode: u64, start: u64, bytes: u64, selector: u64) -> Result<u64> {
    p.me.dispatch = match u32::try_from(mode) {
        Ok(PR_SYS_DISPATCH_OFF) if start | bytes | selector == 0 => None,
        Ok(PR_SYS_DISPATCH_ON) if start == 0 || start.wrapping_add(bytes) > start => {
            if selector >= USER_END {
                return Err(Errno::EFAULT);
            }
            Some(Dispatch { start, bytes, selector })
        }
        _ => return Err(Errno::EINVAL),
    };
    adopt(p);
    Ok(0)
}

/// Has the calls of a thread enter where they are looked at, if it wants that.
pub fn adopt(p: &Task) {
    if p.me.dispatch.is_some() {
        upcall::show_calls(frame(), true);
    }
}

/// Is the call in `regs` the program's own affair? Then it is to know.
pub fn takes(p: &mut Task, regs: &Regs) -> bool {
    let Some(Dispatch { start, bytes, selector }) = p.me.dispatch else { return false };
    if regs.rip.wrapping_sub(start) < bytes {
        return false;
    }
    if selector != 0 {
        match user::copy_in::<u8>(&mut p.mm, selector) {
            Ok(ALLOW) => return false,
            Ok(BLOCK) => {}
            Ok(_) => upcall::die(SIGSYS, "it says nothing that it may of its calls"),
            Err(_) => upcall::die(SIGSEGV, "what it says of its calls cannot be read"),
        }
    }
    true
}
