//! Function trace: entry and exit of every function of the kernel, the libraries and the servers,
//! 8 bytes an event, in one buffer per core.
//!
//! Source: UVM ch. 5 (Kernel Function Trace), with these differences: not the kernel only; the
//! probes are patched into places that the compiler keeps free for them, and cost nothing in a
//! build without them; a function is named by a number instead of an address, so that one number
//! space covers many programs; threads are not in each event but in events of their own.
//!
//! * [`event`]: the 8 bytes.
//! * [`probe`]: the code that records them, and the marks that programs set (`no_std`).
//! * `dump`: a trace as a file, with the names of its functions.
//! * `timeline`: from events to calls with times.
//! * `profile`: counts, times and distributions of functions.
//!
//! The last three need the feature `host`.
#![cfg_attr(not(feature = "host"), no_std)]

#[cfg(feature = "host")]
pub mod dump;
pub mod event;
pub mod probe;
#[cfg(feature = "host")]
pub mod profile;
#[cfg(feature = "host")]
pub mod timeline;

pub use event::{Event, Mark, What};
pub use probe::mark;
