//! Which signal an exception of the program becomes.

use crate::trace::breakpoints::DEBUG;
use abi::Regs;
use captypes::invocations::DEBUG_STEP;
use core::arch::asm;
use unixproto::signals::*;
use uvm::FaultError;

/// An exception of the program and what it becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cause {
    pub signal: u32,
    pub code: i32,
    /// `si_addr`.
    pub address: u64,
    /// Vector of the exception and its error code.
    pub vector: u64,
    pub error: u64,
}

/// Vector of page faults.
pub const PAGE_FAULT: u64 = 14;
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const BUS_ADRALN: i32 = 1;
const BUS_ADRERR: i32 = 2;
const ILL_ILLOPN: i32 = 2;
const TRAP_BRKPT: i32 = 1;
const TRAP_TRACE: i32 = 2;
const TRAP_HWBKPT: i32 = 4;

impl Cause {
    /// A page fault that could not be handled.
    pub fn page_fault(problem: FaultError, address: u64, error: u64) -> Cause {
        let (signal, code) = match problem {
            FaultError::NotMapped => (SIGSEGV, SEGV_MAPERR),
            FaultError::NoAccess => (SIGSEGV, SEGV_ACCERR),
            FaultError::NoPage => (SIGBUS, BUS_ADRERR),
            FaultError::NoMemory => (SIGKILL, SI_KERNEL),
        };
        Cause { signal, code, address, vector: PAGE_FAULT, error }
    }

    /// Any other exception.
    pub fn exception(vector: u64, error: u64, regs: &Regs) -> Cause {
        let at = regs.rip;
        let (signal, code, address) = match vector {
            0 => (SIGFPE, 1, at),
            DEBUG if error & DEBUG_STEP != 0 => (SIGTRAP, TRAP_TRACE, at),
            DEBUG if error != 0 => (SIGTRAP, TRAP_HWBKPT, at),
            DEBUG => (SIGTRAP, TRAP_BRKPT, at),
            3 => (SIGTRAP, SI_KERNEL, 0),
            6 => (SIGILL, ILL_ILLOPN, at),
            11 | 12 => (SIGBUS, SI_KERNEL, 0),
            16 => (SIGFPE, float_code(x87_state()), at),
            17 => (SIGBUS, BUS_ADRALN, 0),
            19 => (SIGFPE, float_code(sse_state()), at),
            _ => (SIGSEGV, SI_KERNEL, 0),
        };
        // Why there was a debug exception is its tracer's to know.
        let error = if vector == DEBUG { 0 } else { error };
        Cause { signal, code, address, vector, error }
    }
}

/// Exceptions of the x87 unit that are raised and not masked.
fn x87_state() -> u16 {
    let (status, control): (u16, u16);
    let mut word = 0u16;
    // SAFETY: both store 16 bits and change no state.
    unsafe {
        asm!("fnstsw ax", out("ax") status, options(nomem, nostack));
        asm!("fnstcw [{}]", in(reg) &mut word, options(nostack));
    }
    control = word;
    status & !control & 0x3f
}

/// Exceptions of the SSE unit that are raised and not masked.
fn sse_state() -> u16 {
    let mut mxcsr = 0u32;
    // SAFETY: stores 32 bits.
    unsafe { asm!("stmxcsr [{}]", in(reg) &mut mxcsr, options(nostack)) };
    (mxcsr & !(mxcsr >> 7) & 0x3f) as u16
}

/// `FPE_*` for a set of exceptions: invalid, denormal, zero, overflow, underflow, precision.
fn float_code(raised: u16) -> i32 {
    match raised {
        r if r & 1 != 0 => 7,
        r if r & 4 != 0 => 3,
        r if r & 8 != 0 => 4,
        r if r & 0x12 != 0 => 5,
        r if r & 0x20 != 0 => 6,
        _ => 0,
    }
}
