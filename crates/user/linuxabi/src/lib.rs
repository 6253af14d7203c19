//! Linux's binary interface on x86-64, as far as it is pure: error numbers, how structures lie in
//! the program's memory, and the checks of arguments that need nothing but the arguments.
//!
//! Constants come from the kernel's own headers through `linux-raw-sys`; this crate adds the
//! encoders, in safe code, and is tested on the host.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bytes;
pub mod debugregs;
pub mod dirent;
pub mod errno;
pub mod fdset;
pub mod fdtable;
pub mod iovec;
pub mod lock;
pub mod random;
pub mod sigframe;
pub mod sigstack;
pub mod stat;
pub mod time;
pub mod uname;
pub mod userregs;

pub use errno::Errno;
pub use linux_raw_sys::{general, ioctl, prctl, ptrace, system};
