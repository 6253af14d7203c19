//! Accesses that may fault, and what became of them.

use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::Regs;
use libos::memory::{self, Access, Error, Fault};

global_asm!(
    ".global probe_load",
    "probe_load:",
    "mov rax, [rdi]",
    "xor edx, edx",
    "ret",
    ".global probe_store",
    "probe_store:",
    "mov [rdi], rsi",
    "xor edx, edx",
    "ret",
    ".global probe_failed",
    "probe_failed:",
    "mov edx, 1",
    "ret",
    ".global probe_call",
    "probe_call:",
    "call rdi",
    "xor edx, edx",
    "ret",
);

/// As the functions leave it in `rax` and `rdx`.
#[repr(C)]
struct Outcome {
    value: u64,
    failed: u64,
}

extern "C" {
    fn probe_load(va: u64) -> Outcome;
    fn probe_store(va: u64, value: u64) -> Outcome;
    fn probe_call(va: u64) -> Outcome;
    fn probe_failed();
}

/// The last fault that nobody resolved: address, access and presence, error.
static ADDRESS: AtomicU64 = AtomicU64::new(0);
static KIND: AtomicU64 = AtomicU64::new(0);

/// A fault that nobody resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unresolved {
    pub address: u64,
    pub access: Access,
    pub present: bool,
    pub error: Error,
}

static ERROR: libos::local::Local<Option<Error>> = libos::local::Local::new(None);

fn hook(fault: &Fault, error: Error, regs: &mut Regs) -> bool {
    let entry = |f: unsafe extern "C" fn(u64) -> Outcome| f as usize as u64;
    ADDRESS.store(fault.address, Ordering::Relaxed);
    KIND.store(fault.access as u64 | u64::from(fault.present) << 8, Ordering::Relaxed);
    ERROR.try_with(|last| *last = Some(error));
    if fault.access == Access::Execute && fault.rip == fault.address {
        // The call had pushed where to go on; from there it goes on to say that it failed.
        regs.rsp += 8;
        regs.rip = probe_failed as *const () as u64;
        return true;
    }
    let inside = |low: u64| (low..low + 16).contains(&fault.rip);
    if inside(entry(probe_load)) || inside(probe_store as *const () as u64) {
        regs.rip = probe_failed as *const () as u64;
        return true;
    }
    false
}

/// From now on, probes tell of faults.
pub fn install() {
    memory::on_unresolved(Some(hook));
}

fn outcome(outcome: Outcome) -> Result<u64, Unresolved> {
    if outcome.failed == 0 {
        return Ok(outcome.value);
    }
    let kind = KIND.load(Ordering::Relaxed);
    let access = match kind & 0xff {
        0 => Access::Read,
        1 => Access::Write,
        _ => Access::Execute,
    };
    let error = ERROR.try_with(|last| last.take()).flatten().unwrap_or(Error::Busy);
    let address = ADDRESS.load(Ordering::Relaxed);
    Err(Unresolved { address, access, present: kind >> 8 != 0, error })
}

/// Loads a word.
pub fn load(va: u64) -> Result<u64, Unresolved> {
    // SAFETY: reads memory or faults, and the fault comes back here.
    outcome(unsafe { probe_load(va) })
}

/// Stores a word.
pub fn store(va: u64, value: u64) -> Result<(), Unresolved> {
    // SAFETY: the tests' addresses are regions of their own, or fault.
    outcome(unsafe { probe_store(va, value) }).map(|_| ())
}

/// Calls code.
pub fn call(va: u64) -> Result<u64, Unresolved> {
    // SAFETY: the tests have put a function there, or it faults.
    outcome(unsafe { probe_call(va) })
}
