//! The CPU driver: the kernel of Tessera, one instance per core.
//!
//! It is a library with a very small program (`main.rs`) around it, so that everything which does
//! not touch hardware is compiled and tested on the host as well (`cargo test -p kernel --lib`).
//! What a module needs from the machine it takes from [`arch`], which has two implementations: the
//! real one, and a stand-in for tests.

#![cfg_attr(not(any(test, not(target_os = "none"))), no_std)]

pub mod arch;
pub mod cap;
pub mod check;
pub mod cores;
pub mod devices;
pub mod dispatch;
pub mod driver;
pub mod event_lengths;
pub mod events;
pub mod invoke;
pub mod ipc;
pub mod log;
pub mod machine;
pub mod morsels;
pub mod object;
pub mod occupancy;
pub mod operations;
#[cfg(target_os = "none")]
mod panic;
pub mod reclaim;
pub mod shares;
pub mod startup;
#[cfg(test)]
mod tests;
pub mod vspace;

/// Sets the machine up and starts the first domain.
///
/// # Safety
/// Called once, by the entry code, with what the loader passed.
#[cfg(target_os = "none")]
pub unsafe fn run(start_info: u64) -> ! {
    // SAFETY: the caller's promise.
    unsafe { arch::start::<startup::Kernel>(start_info) }
}
