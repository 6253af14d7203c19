//! The places of windows in the address space.

use crate::errno::{Errno, Result};
use crate::process::Process;
use abi::layout::LIBRARY_WINDOWS;
use captypes::Place;

/// How many there are.
pub const WINDOWS: usize = 32;
/// Bytes of each.
pub const WINDOW_BYTES: u64 = 1 << 20;

/// Where window `index` starts.
pub fn address(index: usize) -> u64 {
    LIBRARY_WINDOWS + index as u64 * WINDOW_BYTES
}

/// Where the Frame capability that it shows is kept.
pub fn frame_slot(_index: usize) -> Place {
    Place::NULL
}

/// Maps `bytes` bytes of the Frame in `frame_slot(index)` from `offset` on.
pub fn open(_p: &mut Process, _index: usize, _offset: u64, _bytes: u64, _write: bool) -> Result<()> {
    Err(Errno::ENOMEM)
}

/// Unmaps it and drops the Frame.
pub fn close(_index: usize) {}
