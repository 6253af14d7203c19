//! Session frames and pipe rings as `unixd` sees them: mapped in an area of its address space of
//! their own.
//!
//! The other side may write there at any time. So nothing here makes a reference to the bytes;
//! they are copied out before anybody looks at them, and the header is made of atomics.

use crate::caps::{errno, Slots};
use abi::layout::PAGE;
use abi::slots::VSPACE;
use alloc::vec::Vec;
use libos::domain;
use libos::local::Local;
use libos::vspace::{entry_of, AddressSpace, Supplies, RW, WINDOW_BYTES};
use libos::{Cap, CapType, Place, Status};
use unixproto::session::{Header, DATA_BYTES, DATA_OFFSET};
use unixproto::Errno;

/// An upper-level entry of the address space that nothing else uses.
const AREA: u64 = 0x200_0000_0000;
/// Bytes of a place in the area: a pipe's ring, or a session frame.
const STRIDE: u64 = 64 * 1024;

struct Area {
    space: AddressSpace,
    free: Vec<u32>,
    next: u32,
}

static PLACES: Local<Area> =
    Local::new(Area { space: AddressSpace::new(Place::own(VSPACE)), free: Vec::new(), next: 0 });

/// Tables from the domain.
struct FromDomain;

impl Supplies for FromDomain {
    fn table(&mut self, ty: CapType) -> Result<Place, Status> {
        domain::with(|domain| domain.make(ty, PAGE)).map(Place::own)
    }
    fn slot(&mut self) -> Result<Place, Status> {
        domain::with(|domain| domain.slot()).map(Place::own)
    }
}

impl Area {
    fn va(index: u32) -> u64 {
        AREA + index as u64 * STRIDE
    }
    fn map(&mut self, index: u32, frame: Place, bytes: u64, slot: Place) -> Result<(), Status> {
        let va = Area::va(index);
        let table = self.space.table(1, va, &mut FromDomain)?;
        table.map(entry_of(1, va), (bytes / PAGE) as u32, frame, 0, RW, slot)
    }
}

fn with_area<R>(f: impl FnOnce(&mut Area) -> Result<R, Status>) -> Result<R, Errno> {
    PLACES.try_with(f).unwrap_or(Err(Status::WrongState)).map_err(errno)
}

/// Makes the tables for the first `places`, so that mapping there needs no memory.
pub fn prepare(places: u32) -> Result<(), Errno> {
    with_area(|area| {
        for index in (0..places).step_by((WINDOW_BYTES / STRIDE) as usize) {
            area.space.table(1, Area::va(index), &mut FromDomain)?;
        }
        Ok(())
    })
}

/// Shared memory, mapped as long as the value lives.
pub struct Shared {
    index: u32,
    bytes: usize,
    mapping: Slots,
}

impl Shared {
    /// Maps `bytes` (at most 64 KiB) of a Frame.
    pub fn map(frame: impl Into<Place>, bytes: u64) -> Result<Shared, Errno> {
        debug_assert!(bytes <= STRIDE);
        let mapping = Slots::new(1)?;
        let index = with_area(|area| {
            let next = area.next;
            Ok(area.free.pop().unwrap_or_else(|| {
                area.next += 1;
                next
            }))
        })?;
        let slot = Place::own(mapping.first());
        let mapped = with_area(|area| area.map(index, frame.into(), bytes, slot));
        let shared = Shared { index, bytes: bytes as usize, mapping };
        mapped.map(|()| shared)
    }

    fn pointer(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then(|| (Area::va(self.index) as usize + offset) as *mut u8)
    }

    /// Copies bytes out, as far as they lie inside.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let Some(from) = self.pointer(offset, to.len()) else { return };
        // SAFETY: the range is mapped as long as `self` lives, and `to` is private memory.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies bytes in, as far as there is room inside.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let Some(to) = self.pointer(offset, from.len()) else { return };
        // SAFETY: the range is mapped writable as long as `self` lives; `from` is private memory.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// Copies bytes from here to another shared range.
    pub fn copy_to(&self, offset: usize, to: &Shared, to_offset: usize, bytes: usize) {
        let (Some(from), Some(to)) = (self.pointer(offset, bytes), to.pointer(to_offset, bytes))
        else {
            return;
        };
        // SAFETY: both ranges are mapped as long as the values live. `copy` allows overlap.
        unsafe { core::ptr::copy(from, to, bytes) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.mapping.clear();
        // The area is never in use while something is dropped.
        let _ = with_area(|area| {
            area.free.push(self.index);
            Ok(())
        });
    }
}

/// A process's session frame.
pub struct Session(Shared);

impl Session {
    /// The session in a mapped frame.
    pub fn new(shared: Shared) -> Session {
        Session(shared)
    }
    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the first page is mapped as long as `self` lives, and it consists of atomics.
        unsafe { &*(Area::va(self.0.index) as *const Header) }
    }
    /// Copies bytes of the data area.
    pub fn data(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut data = alloc::vec![0; bytes.min(DATA_BYTES)];
        self.0.read(DATA_OFFSET + offset, &mut data);
        data
    }
    /// Copies bytes of the data area to `to`.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        self.0.read(DATA_OFFSET + offset, to);
    }
    /// Puts bytes at the start of the data area.
    pub fn put(&self, bytes: &[u8]) {
        self.0.write(DATA_OFFSET, bytes);
    }
    /// Forgets what a process has left.
    pub fn clear(&self) {
        for offset in (0..self.0.bytes).step_by(4096) {
            self.0.write(offset, &[0; 4096]);
        }
    }
    /// The frame and where the data area starts in it.
    pub fn area(&self) -> (&Shared, usize) {
        (&self.0, DATA_OFFSET)
    }
}
