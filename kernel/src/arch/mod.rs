//! Everything that knows the machine.
//!
//! Two implementations of one interface: `x86_64` for the bare machine, `host` for the tests of
//! the machine-independent modules. Types that both share are in `boot_info`, `context`, `handlers`
//! and here.
//!
//! Nothing here imports what is above: that names itself by the type that implements [`Handlers`],
//! with which the machine is started.

pub mod boot_info;
mod context;
#[cfg(any(target_os = "none", test))]
mod firmware_tables;
mod handlers;
pub mod log;

pub use context::{Context, Core, CoreHead, VectorUnit, VectorsAllowed};
pub use handlers::{ControlBlock, Handlers};
pub(crate) use log::log;

#[cfg(target_os = "none")]
mod x86_64;
#[cfg(target_os = "none")]
use x86_64 as imp;

#[cfg(not(target_os = "none"))]
mod host;
#[cfg(not(target_os = "none"))]
mod host_maps;
#[cfg(not(target_os = "none"))]
use host as imp;

pub use imp::*;

/// What debug registers hold: zeros are no breakpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakpoints {
    pub addresses: [u64; 4],
    /// As DR7.
    pub control: u64,
}

/// What a device writes to raise an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqMessage {
    /// Where: a physical address below 4 GiB that is no memory.
    pub address: u32,
    pub value: u32,
}

/// What counters there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfFacts {
    /// Version of the architecture; 0 without counters.
    pub version: u8,
    /// Programmable counters.
    pub programmable: u8,
    /// Counters of one event each: instructions, cycles, reference cycles.
    pub fixed: u8,
    /// Bits of a programmable counter.
    pub width: u8,
    /// Bit n: architectural event n is missing.
    pub missing: u32,
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfCounter {
    Programmable(u32),
    Fixed(u32),
}
