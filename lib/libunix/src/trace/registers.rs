//! The program's registers, for its tracer.

use super::{breakpoints, TRAP_FLAG};
use crate::errno::{Errno, Result};
use crate::fork::set_bases;
use crate::process::Task;
use abi::layout::USER_END;
use abi::Regs;
use alloc::vec::Vec;
use linuxabi::userregs::{UserRegs, BYTES, CS, DEBUG_REGISTERS, SS, USER_BYTES};

/// Register sets: `NT_PRSTATUS`, `NT_PRFPREG`, `NT_X86_XSTATE`.
pub mod set {
    pub const GENERAL: u64 = 1;
    pub const FLOAT: u64 = 2;
    pub const EXTENDED: u64 = 0x202;
}

/// Applies a macro to the registers that have one name everywhere and may hold anything.
macro_rules! general {
    ($build:ident { $($rest:tt)* } from $value:expr) => {{
        let from = $value;
        general!(@ $build from ($($rest)*)
            rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r11 r12 r13 r14 r15 rip rsp)
    }};
    (@ $build:ident $from:ident ($($rest:tt)*) $($register:ident)*) => {
        $build { $($register: $from.$register,)* $($rest)* }
    };
}

fn shown(p: &Task, regs: &Regs) -> UserRegs {
    let (fs_base, gs_base) = super::segment_bases(p);
    // The flag of a single step is the tracer's.
    let rflags = regs.rflags & !TRAP_FLAG;
    let (orig_rax, cs, ss) = (p.me.call, CS, SS);
    general!(UserRegs { orig_rax, cs, rflags, ss, fs_base, gs_base, ..UserRegs::default() } from regs)
}

fn take(p: &mut Task, regs: &mut Regs, new: &UserRegs) {
    *regs = general!(Regs { rflags: new.rflags, ..*regs } from new);
    p.me.call = new.orig_rax;
    if super::segment_bases(p) != (new.fs_base, new.gs_base) {
        set_bases(&mut p.me, new.fs_base, new.gs_base);
    }
}

/// Reads a set.
pub fn get_set(p: &mut Task, regs: &Regs, which: u64) -> Result<Vec<u8>> {
    match which {
        set::GENERAL => {
            let words = shown(p, regs).words();
            Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
        }
        set::FLOAT => p.me.signals.vector_state(false),
        set::EXTENDED => p.me.signals.vector_state(true),
        _ => Err(Errno::EINVAL),
    }
}

/// Sets a set, or the first registers of it.
pub fn set_set(p: &mut Task, regs: &mut Regs, which: u64, bytes: &[u8]) -> Result<()> {
    match which {
        set::GENERAL if bytes.len() <= BYTES => {
            let new = shown(p, regs).changed(bytes, USER_END)?;
            take(p, regs, &new);
            Ok(())
        }
        set::FLOAT => p.me.signals.set_vector_state(bytes, false),
        set::EXTENDED => p.me.signals.set_vector_state(bytes, true),
        _ => Err(Errno::EINVAL),
    }
}

/// The debug register that is at an offset of `struct user`.
fn debug_register(offset: u64) -> Option<usize> {
    (DEBUG_REGISTERS..USER_BYTES).contains(&offset).then(|| (offset - DEBUG_REGISTERS) as usize / 8)
}

/// Reads a word of `struct user`.
pub fn user_word(p: &Task, regs: &Regs, offset: u64) -> Result<u64> {
    if !offset.is_multiple_of(8) || offset >= USER_BYTES {
        return Err(Errno::EIO);
    }
    if let Some(number) = debug_register(offset) {
        return Ok(p.me.debug.get(number));
    }
    Ok(shown(p, regs).words().get(offset as usize / 8).copied().unwrap_or(0))
}

/// Sets one.
pub fn set_user_word(p: &mut Task, regs: &mut Regs, offset: u64, value: u64) -> Result<()> {
    if let Some(number) = debug_register(offset).filter(|_| offset.is_multiple_of(8)) {
        return breakpoints::set(&mut p.me, number, value);
    }
    let new = shown(p, regs).with_word(offset, value, USER_END)?;
    take(p, regs, &new);
    Ok(())
}
