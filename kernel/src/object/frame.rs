//! The frame that a dispatcher shares with the kernel, through its physical address.
//!
//! Nothing in it is believed: see [`abi::dispatcher`].

use super::context::Ctx;
use super::UserWord;
use abi::dispatcher::{DispatcherFrame, Regs, Upcall, SWITCHED, WANTS_SWITCHES};
use abi::layout::USER_END;
use core::mem::offset_of;

/// Physical address of a dispatcher's frame; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Frame(pub u64);

macro_rules! word {
    ($frame:expr, $field:ident) => {
        UserWord::at($frame.0 + offset_of!(DispatcherFrame, $field) as u64)
    };
}

impl Frame {
    /// Is there one?
    #[inline]
    pub fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Does library code run: by the flag, or as `rip` is in the critical range?
    #[inline]
    pub fn is_disabled(self, rip: u64) -> bool {
        // The flag is the lower half of its word.
        word!(self, disabled).get() as u32 != 0
            || (rip >= word!(self, critical_low).get() && rip < word!(self, critical_high).get())
    }

    /// Where a disabled dispatcher continues whose instruction at `rip` has faulted, if it is guarded.
    pub fn fixup(self, rip: u64) -> Option<u64> {
        let (low, high) = (word!(self, guarded_low).get(), word!(self, guarded_high).get());
        let is_guarded = low <= rip && rip < high;
        is_guarded.then(|| word!(self, guarded_fixup).get()).filter(|&fixup| fixup < USER_END)
    }

    /// Has the library an entry point for `reason`?
    #[inline]
    pub fn has_entry(self, reason: Upcall) -> bool {
        let entry = offset_of!(DispatcherFrame, upcall) + 8 * reason as usize;
        UserWord::at(self.0 + entry as u64).get() != 0
    }

    /// Stores the program's registers, and enters the library for `reason`.
    #[inline]
    pub fn upcall(self, ctx: &Ctx, reason: Upcall, va: u64) {
        let save = self.0 + offset_of!(DispatcherFrame, save) as u64;
        for (n, register) in ctx.each().into_iter().enumerate() {
            UserWord::at(save + 8 * n as u64).set(register.get());
        }
        word!(self, disabled).set(1);
        let entry = offset_of!(DispatcherFrame, upcall) + 8 * reason as usize;
        ctx.enter(UserWord::at(self.0 + entry as u64).get());
        ctx.rsp.set(word!(self, upcall_stack).get());
        ctx.rdi.set(va);
        trace::mark(trace::Mark::Upcall(reason as u32));
    }

    /// Loads the registers that the save area holds.
    pub fn load(self, ctx: &Ctx) {
        let save = self.0 + offset_of!(DispatcherFrame, save) as u64;
        for (n, register) in ctx.each().into_iter().enumerate() {
            register.set(UserWord::at(save + 8 * n as u64).get());
        }
    }

    /// Describes a fault.
    #[inline]
    pub fn set_fault(self, vector: u64, error: u64, address: u64) {
        word!(self, fault_address).set(address);
        word!(self, fault_error).set(error);
        word!(self, fault_vector).set(vector);
    }

    /// Tells the library what it must know of the machine.
    pub fn set_facts(self, address: u64, tsc_hz: u64, epoch_ns: u64, fsgsbase: bool, cores: usize) {
        word!(self, address).set(address);
        word!(self, cores).set(cores as u64);
        word!(self, tsc_hz).set(tsc_hz);
        word!(self, epoch_ns).set(epoch_ns);
        word!(self, fsgsbase).set(u64::from(fsgsbase));
    }

    /// Tells the library on which core it runs, and on which NUMA node that is.
    #[inline]
    pub fn set_core(self, core: u8, node: u8) {
        word!(self, core).set(u64::from(core));
        word!(self, node).set(u64::from(node));
    }

    /// Tells the library that its domain uses vector registers.
    pub fn set_vectors(self) {
        word!(self, vectors).set(1);
    }

    /// Somebody else ran, or nobody: if the library wants to know, it is told before its program goes on, also if that is on its way back.
    #[inline]
    pub fn note_switch(self, ctx: &Ctx, va: u64) {
        if word!(self, switched).get() == WANTS_SWITCHES {
            tell_of_switch(self, ctx, va);
        }
    }

    /// Is the library to be told that somebody else ran?
    #[inline]
    pub fn was_switched(self) -> bool {
        word!(self, switched).get() >= SWITCHED
    }

    /// Notification bits, shared with the library.
    #[inline]
    pub fn notifications(self) -> UserWord {
        word!(self, notifications)
    }
}

/// The same to a library that wants to know.
#[cold]
#[inline(never)]
fn tell_of_switch(frame: Frame, ctx: &Ctx, va: u64) {
    word!(frame, switched).set(SWITCHED);
    let (low, high) = (word!(frame, critical_low).get(), word!(frame, critical_high).get());
    let is_enabled = word!(frame, disabled).get() as u32 == 0;
    if is_enabled && (low..high).contains(&ctx.rip.get()) && low < USER_END {
        // Nothing of the program has been executed: its registers are still in the save area, and so is the flag that has each instruction trap.
        const TRAP: u64 = 1 << 8;
        ctx.rflags.set(ctx.rflags.get() & !TRAP);
        ctx.rip.set(low);
        ctx.rdi.set(va);
    }
}

/// Is the instruction at `rip` to be executed once in spite of a breakpoint?
pub fn take_pass(frame: Frame, rip: u64) -> bool {
    let passes = word!(frame, passes).get() == rip && rip != 0;
    if passes {
        word!(frame, passes).set(0);
    }
    passes
}

/// Lets the last instructions of the way back to the program be over at once, where one instruction of the program is
/// to be executed alone: they trap, too. Returns `false` if this is not in the way back.
pub fn finish_step(frame: Frame, ctx: &Ctx) -> bool {
    let (low, high) = (word!(frame, critical_low).get(), word!(frame, critical_high).get());
    let rip = ctx.rip.get();
    let save = frame.0 + offset_of!(DispatcherFrame, save) as u64;
    let next = UserWord::at(save + offset_of!(Regs, rip) as u64).get();
    // The library has cleared the flag, and loads the registers that are left.
    let is_way_back = low <= rip && rip < high && word!(frame, disabled).get() as u32 == 0;
    if !is_way_back || next >= USER_END {
        return false;
    }
    ctx.rsp.set(UserWord::at(save + offset_of!(Regs, rsp) as u64).get());
    ctx.rip.set(next);
    true
}
