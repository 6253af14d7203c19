//! The Linux personality of Tessera: a library in the address space of every Linux process.
//!
//! The kernel hands it the process's page faults, exceptions and system calls (`upcall`), and it
//! answers them with capability invocations: it pages the process by itself (`mm`), loads programs
//! (`exec`), forks (`fork`) and delivers signals (`signal`). System calls are decoded and, where
//! they are about files, handled in `sys` and `fd`, with the help of the server `unixd` (`server`).
//!
//! While the library runs, the dispatcher is disabled: nothing enters it again. Its own memory is always mapped;
//! other memory it touches by guarded copies only (`mm::user`), whose faults the kernel gives back to them. Of several
//! threads one at a time is in the library (`thread`).
#![no_std]
#![no_main]

extern crate alloc;

mod beside;
mod elf;
mod entry;
mod errno;
mod exec;
mod fd;
mod fork;
mod heap;
mod home;
mod invoke;
mod mm;
mod process;
mod server;
mod signal;
mod sys;
mod thread;
mod trace;
mod upcall;
mod vdso;
mod vfork;

pub use process::Process;
