//! The runtime of native domains.
//!
//! The lower part is also for libraries that bring their own entry point and heap, such as the one
//! in every Linux process:
//!
//! * [`invoke`]: the system call as a function, typed by the table in `captypes`;
//! * [`cap`]: the same as methods of slots; [`ipc`]: calls, answers, notifications;
//! * [`log`]: the kernel log and the kernel's counters.
//!
//! Nothing here needs vector instructions, a heap, or an entry point.
#![no_std]

pub mod cap;
pub mod invoke;
pub mod ipc;
pub mod log;

pub use abi;
pub use cap::Cap;
pub use captypes;
pub use captypes::{op, CapAddr, CapType, Place, RamAttrs, Rights, Status};
pub use invoke::invoke;
