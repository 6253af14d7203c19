//! Stacks of threads: Frames with an unmapped page below each. Those of threads that have ended are
//! used again.

use crate::domain;
use crate::local::Local;
use crate::vspace::RW;
use abi::layout::{NATIVE_STACKS, PAGE};
use alloc::vec::Vec;
use captypes::Status;
use core::mem::ManuallyDrop;

/// Bytes of a stack if nothing else is said.
pub const STACK_BYTES: u64 = 64 << 10;

/// Addresses for one thread.
#[derive(Debug)]
pub struct Stack {
    bottom: u64,
    bytes: u64,
}

struct Stacks {
    free: Vec<Stack>,
    /// The first address that was never used.
    next: u64,
}

static STACKS: Local<Stacks> = Local::new(Stacks { free: Vec::new(), next: NATIVE_STACKS });

impl Stack {
    /// A stack of at least so many bytes.
    pub fn new(bytes: u64) -> Result<Stack, Status> {
        let bytes = bytes.max(PAGE).next_multiple_of(PAGE);
        let old = STACKS.try_with(|stacks| {
            let fits = stacks.free.iter().position(|stack| stack.bytes >= bytes)?;
            Some(stacks.free.swap_remove(fits))
        });
        match old.flatten() {
            Some(stack) => Ok(stack),
            None => Stack::make(bytes),
        }
    }

    fn make(bytes: u64) -> Result<Stack, Status> {
        let place = STACKS.try_with(|stacks| {
            let guard = stacks.next;
            stacks.next = guard + PAGE + bytes;
            guard + PAGE
        });
        let bottom = place.ok_or(Status::WrongState)?;
        domain::with(|domain| domain.extend(bottom, bytes, RW))?;
        Ok(Stack { bottom, bytes })
    }

    /// The first address above it.
    pub fn top(&self) -> u64 {
        self.bottom + self.bytes
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let stack = ManuallyDrop::new(Stack { bottom: self.bottom, bytes: self.bytes });
        STACKS.try_with(|stacks| stacks.free.push(ManuallyDrop::into_inner(stack)));
    }
}
