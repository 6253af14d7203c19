//! Native programs for Tessera.
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//! use tessera::println;
//!
//! #[tessera::main]
//! fn main(args: tessera::env::Args) {
//!     println!("Hello, {}!", args.get(1).unwrap_or("world"));
//! }
//! ```
//!
//! A native program manages its own memory: [`libos`], all of which is here under its own name,
//! gives it RAM, page tables, page faults, threads and channels as libraries over capabilities. It
//! is also a process beside the Linux processes: it has [arguments](mod@env), [standard input and
//! output](io), [files](fs) and an [exit status](process), which are requests to `unixd`.
//!
//! A program that no process executed (because the kernel booted it, or another domain made it)
//! has no arguments and no files, and prints to the kernel log if it may.
#![no_std]

extern crate alloc;

pub mod env;
pub mod fs;
pub mod io;
pub mod process;
#[doc(hidden)]
pub mod start;
mod unix;

pub use libos::*;
pub use tessera_macros::main;

/// What `#[tessera::main]` expands to.
#[doc(hidden)]
#[macro_export]
macro_rules! __program {
    ($main:path) => {
        $crate::entry!(__tessera_main);

        fn __tessera_main(start: $crate::runtime::Start) {
            $crate::start::run(start, $main)
        }

        #[panic_handler]
        fn panic(info: &::core::panic::PanicInfo) -> ! {
            $crate::start::panicked(info)
        }
    };
}
