//! What the CPU driver and user mode agree about beyond capabilities: the frame that a dispatcher
//! shares with the kernel, the layout of an address space, the first capabilities of a domain and
//! what `init` is told at boot.
#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
pub mod dispatcher;
pub mod layout;
pub mod native;
pub mod slots;

pub use dispatcher::{DispatcherFrame, Regs, Upcall};
