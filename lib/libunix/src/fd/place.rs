//! The places of windows in the address space, and the capabilities behind them.
//!
//! All are in one L2CNode, made with the first window (`WINDOWS_L1`): Frames from slot 0 on, their
//! Mappings from slot 128 on, the last-level tables of the area from slot 64 on, their Mappings
//! from slot 192 on. A forked child starts without any of it.

use crate::errno::{Errno, Result};
use abi::layout::{LIBRARY_WINDOWS, PAGE};
use captypes::invocations::MapFlags;
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Place, Status};
use libos::guarded::Memory;
use libos::ram::Ram;
use libos::Cap;
use linuxdomain::{own, MAPPINGS, RWX, WINDOWS_L1};

/// How many there are.
pub const WINDOWS: usize = 32;
/// Bytes of each.
pub const WINDOW_BYTES: u64 = 1 << 20;

const TABLE_BYTES: u64 = 2 << 20;
const FIRST_TABLE_SLOT: u32 = 64;
/// First entry of the area in the library's second-level table.
const FIRST_ENTRY: u32 = (LIBRARY_WINDOWS >> 21 & 511) as u32;

const _: () = assert!(WINDOWS as u64 * WINDOW_BYTES <= 64 * TABLE_BYTES);
const _: () = assert!(FIRST_ENTRY as u64 + WINDOWS as u64 * WINDOW_BYTES / TABLE_BYTES <= 512);

/// Which tables there are already.
#[derive(Clone, Copy, Default)]
pub struct Places {
    node: bool,
    /// Bit N: table N.
    tables: u64,
}

/// The first `bytes` bytes of window `index`.
pub fn memory(index: usize, bytes: u64) -> Memory {
    debug_assert!(index < WINDOWS && bytes <= WINDOW_BYTES);
    // SAFETY: in the part of the address space where nothing but windows is.
    unsafe { Memory::new(LIBRARY_WINDOWS + index as u64 * WINDOW_BYTES, bytes as usize) }
}

/// Where the Frame capability that it shows is kept.
pub fn frame_slot(index: usize) -> CapAddr {
    CapAddr::new(WINDOWS_L1, index as u32)
}

fn mapping_slot(index: usize) -> CapAddr {
    frame_slot(index).plus(MAPPINGS)
}

fn errno(status: Status) -> Errno {
    match status {
        Status::NoMemory => Errno::ENOMEM,
        // The Frame has been taken away since it came.
        Status::Empty => Errno::ESTALE,
        _ => Errno::EIO,
    }
}

impl Places {
    /// None.
    pub const fn new() -> Places {
        Places { node: false, tables: 0 }
    }

    /// Makes sure that there are slots and a table for window `index`.
    pub fn prepare(&mut self, ram: &mut impl Ram, index: usize) -> Result<()> {
        if !self.node {
            ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(CapAddr::NULL, WINDOWS_L1))
                .map_err(errno)?;
            self.node = true;
        }
        let number = (index as u64 * WINDOW_BYTES / TABLE_BYTES) as u32;
        if self.tables >> number & 1 == 0 {
            let table = CapAddr::new(WINDOWS_L1, FIRST_TABLE_SLOT + number);
            ram.make(CapType::Pt, PAGE, 1, table.into()).map_err(errno)?;
            let mapping = table.plus(MAPPINGS);
            if let Err(status) = own::PD.map(FIRST_ENTRY + number, 1, table, 0, RWX, mapping) {
                table.discard();
                return Err(errno(status));
            }
            self.tables |= 1 << number;
        }
        Ok(())
    }
}

/// Maps `bytes` bytes of the Frame in `frame_slot(index)` from `offset` on. `ESTALE`: it is not there any more.
pub fn open(index: usize, offset: u64, bytes: u64, write: bool) -> Result<()> {
    let start = index as u64 * WINDOW_BYTES;
    let table = CapAddr::new(WINDOWS_L1, FIRST_TABLE_SLOT + (start / TABLE_BYTES) as u32);
    let entry = (start % TABLE_BYTES / PAGE) as u32;
    let flags = if write { MapFlags::READ.or(MapFlags::WRITE) } else { MapFlags::READ };
    let count = bytes.min(WINDOW_BYTES).div_ceil(PAGE) as u32;
    table.map(entry, count, frame_slot(index), offset, flags, mapping_slot(index)).map_err(errno)
}

/// Unmaps it and drops the Frame, as far as there are any.
pub fn close(index: usize) {
    mapping_slot(index).discard();
    frame_slot(index).discard();
}
