//! The runtime of native domains.
//!
//! The lower part is also for libraries that bring their own entry point and heap, such as the one
//! in every Linux process:
//!
//! * [`invoke()`]: the system call as a function, typed by the table in `captypes`;
//! * [`cap`]: the same as methods of slots; [`ipc`]: calls, answers, notifications;
//! * [`guarded`]: memory that others write, or take away;
//! * [`mod@ephemeral`]: looks at memory that is not in the address space;
//! * [`mod@log`]: the kernel log and the kernel's counters.
//!
//! Above that is what native programs are made of:
//!
//! * [`morsel`], [`function`]: pools and morsels, and devices that reach them;
//! * [`slots`], [`ram`], [`memd`]: free slots, objects made of RAM, the memory server;
//! * [`vspace`]: address spaces; [`status`]: accessed and dirty bits, read from memory;
//!   [`spawn`]: new domains from ELF programs;
//! * [`memory`]: regions, memory objects, self-paging; [`frame`]: frames that go home when dropped;
//!   [`colour`]: page colours;
//! * [`program`](macro@program), [`runtime`], [`domain`], [`heap`]: entry, panic, state and heap of
//!   a program. They are part of a program only if it uses the macro.
//! * [`upcall`], [`thread`], [`preempt`]: faults and notifications handled by the domain itself, and
//!   threads on top of that;
//! * [`mod@interface`], [`channel`]: typed calls between domains, and shared memory;
//! * [`bringup`]: how the memory server comes up; [`cores`]: parts of a program on other cores;
//! * [`session`]: what `unixd` reports to `init`;
//!
//! Nothing here needs vector instructions, and only [`heap`] is one.
#![no_std]

extern crate alloc;

pub mod bringup;
pub mod cap;
pub mod channel;
pub mod cmdline;
pub mod colour;
pub mod cores;
pub mod domain;
pub mod ephemeral;
pub mod frame;
pub mod function;
pub mod guarded;
pub mod heap;
pub mod interface;
pub mod invoke;
pub mod ipc;
pub mod local;
pub mod log;
pub mod memd;
pub mod memory;
pub mod morsel;
pub mod preempt;
pub mod ram;
pub mod runtime;
pub mod session;
pub mod slots;
pub mod spawn;
pub mod status;
pub mod supervisor;
pub mod thread;
pub mod upcall;
pub mod vspace;
pub mod worker;

pub use abi;
pub use abi::layout::PAGE;
pub use cap::Cap;
pub use captypes;
pub use captypes::{op, CapAddr, CapType, Place, RamAttrs, Rights, Status};
pub use invoke::invoke;
pub use selfpaging;
