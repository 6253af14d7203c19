//! Everything that knows the machine.
//!
//! Two implementations of one interface: `x86_64` for the bare machine, `host` for the tests of
//! the machine-independent modules. Types that both share are in `context` and here.

mod context;
pub use context::{Context, Core};

#[cfg(target_os = "none")]
mod x86_64;
#[cfg(target_os = "none")]
use x86_64 as imp;

#[cfg(not(target_os = "none"))]
mod host;
#[cfg(not(target_os = "none"))]
use host as imp;

pub use imp::*;
