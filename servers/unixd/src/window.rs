//! Session frames and pipe rings as `unixd` sees them: mapped in an area of its address space of
//! their own.
//!
//! The other side may write there at any time. So nothing here makes a reference to the bytes;
//! they are copied out before anybody looks at them, and the header is made of atomics.

use crate::caps::{errno, Slots};
use crate::morsels::Mapped;
use abi::layout::PAGE;
use abi::slots::VSPACE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use libos::domain;
use libos::local::Local;
use libos::vspace::{entry_of, table_bytes, AddressSpace, Supplies, RW};
use libos::{Cap, CapAddr, CapType, Place, Status};
use unixproto::session::{
    Header, MoreFds, ShownFiles, DATA_BYTES, DATA_OFFSET, MORE_OFFSET, SESSION_BYTES, SHOWN_OFFSET,
};
use unixproto::Errno;

/// An upper-level entry of the address space that nothing else uses.
const AREA: u64 = 0x200_0000_0000;
/// Bytes of a place in the area: a pipe's ring, or a session frame.
const STRIDE: u64 = 64 * 1024;
/// A row of places has up to two to the power of one less than this.
const CLASSES: usize = 9;

struct Area {
    space: AddressSpace,
    /// Rows of places, by the power of two that they have.
    free: [Vec<u32>; CLASSES],
    next: u32,
}

static PLACES: Local<Area> = Local::new(Area {
    space: AddressSpace::new(Place::own(VSPACE)),
    free: [const { Vec::new() }; CLASSES],
    next: 0,
});

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
        for index in (0..places).step_by((table_bytes(1) / STRIDE) as usize) {
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
        Self::map_all([frame.into()].into_iter(), bytes)
    }

    /// Maps Frames of 64 KiB in a row: a power of two, at most 256.
    pub fn map_row(frames: &Slots) -> Result<Shared, Errno> {
        Self::map_all((0..frames.count()).map(|index| Place::own(frames.at(index))), STRIDE)
    }

    fn map_all(frames: impl ExactSizeIterator<Item = Place>, bytes: u64) -> Result<Shared, Errno> {
        debug_assert!(bytes <= STRIDE);
        let count = frames.len() as u32;
        let class = count.trailing_zeros() as usize;
        let mapping = Slots::new(count)?;
        let index = with_area(|area| {
            let free = area.free.get_mut(class).ok_or(Status::NoMemory)?;
            let next = area.next;
            Ok(free.pop().unwrap_or_else(|| {
                area.next += count;
                next
            }))
        })?;
        let shared = Shared { index, bytes: bytes as usize * count as usize, mapping };
        for (place, frame) in (0..).zip(frames) {
            let slot = Place::own(shared.mapping.at(place));
            with_area(|area| area.map(index + place, frame, bytes, slot))?;
        }
        Ok(shared)
    }

    fn pointer(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then(|| (Area::va(self.index) as usize + offset) as *mut u8)
    }

    /// Where bytes are, if they lie inside.
    pub fn address(&self, offset: usize, bytes: usize) -> Option<u64> {
        self.pointer(offset, bytes).map(|at| at as u64)
    }

    /// Copies bytes to the end of `to`, if they lie inside and there is room.
    pub fn append_to(&self, to: &mut Vec<u8>, offset: usize, bytes: usize) {
        let room = to.capacity() - to.len();
        let Some(from) = self.pointer(offset, bytes).filter(|_| bytes <= room) else { return };
        // SAFETY: mapped as long as `self` lives; `to` is private memory with room for so many, and all of them are written.
        unsafe {
            core::ptr::copy_nonoverlapping(from, to.as_mut_ptr().add(to.len()), bytes);
            to.set_len(to.len() + bytes);
        }
    }

    /// Copies bytes from other shared memory, if both ranges lie inside.
    pub fn copy_from(&self, offset: usize, from: &Shared, from_offset: usize, bytes: usize) {
        let places = (self.pointer(offset, bytes), from.pointer(from_offset, bytes));
        let (Some(to), Some(from)) = places else { return };
        // SAFETY: both ranges are mapped as long as the values live, and they are different Frames.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.mapping.clear();
        // The area is never in use while something is dropped.
        let class = self.mapping.count().trailing_zeros() as usize;
        let _ = with_area(|area| {
            area.free[class].push(self.index);
            Ok(())
        });
    }
}

/// A Frame with two session frames. It is mapped here as a whole: what is made of it, and its
/// Mappings elsewhere, can be revoked without that.
struct Pair {
    map: Shared,
    whole: Slots,
}

/// A session frame.
pub struct Session {
    frame: Slots,
    /// It is mapped as long as this lives.
    pair: Rc<Pair>,
    /// Where.
    va: usize,
    /// How many bytes of the data area were written to from here.
    written: Cell<usize>,
}

impl Session {
    /// The Frame, which nobody else revokes.
    pub fn frame(&self) -> CapAddr {
        self.frame.first()
    }
    /// The header.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: the first page is mapped as long as `self` lives, and it consists of atomics.
        unsafe { &*(self.va as *const Header) }
    }
    /// What the process knows of files.
    #[inline]
    pub fn files(&self) -> &ShownFiles {
        // SAFETY: as in `header`; aligned like its size.
        unsafe { &*((self.va + SHOWN_OFFSET) as *const ShownFiles) }
    }
    /// Changes of descriptors that the header has no room for.
    pub fn more_fds(&self) -> &MoreFds {
        // SAFETY: as in `header`; aligned to eight bytes.
        unsafe { &*((self.va + MORE_OFFSET) as *const MoreFds) }
    }
    /// Bytes of the data area that are about to be written to, if they are inside.
    #[inline]
    fn place_to_write(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let place = self.place(offset, bytes)?;
        self.written.set(self.written.get().max(offset + bytes));
        Some(place)
    }
    /// Bytes of the data area, if they are inside.
    #[inline]
    fn place(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= DATA_BYTES).then_some((self.va + DATA_OFFSET + offset) as *mut u8)
    }
    /// Copies bytes of the data area.
    pub fn data(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let Some(from) = self.place(offset, bytes) else {
            return alloc::vec![0; bytes.min(DATA_BYTES)];
        };
        let mut data = Vec::with_capacity(bytes);
        // SAFETY: mapped as long as `self` lives; `data` is private memory with room for so many, and all of them are written.
        unsafe {
            core::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), bytes);
            data.set_len(bytes);
        }
        data
    }
    /// Where bytes of the data area are, if all of them lie inside, for the kernel to copy them: the process may change them meanwhile.
    #[inline]
    pub fn mapped(&self, bytes: usize) -> Result<Mapped, Errno> {
        let from = self.place(0, bytes).ok_or(Errno::EFAULT)?;
        Ok(Mapped { from: from as u64, bytes: bytes as u64 })
    }
    /// Copies bytes of the data area to `to`, if all of them lie inside.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let Some(from) = self.place(offset, to.len()) else { return };
        // SAFETY: mapped as long as `self` lives; `to` is private memory.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }
    /// Puts bytes at the start of the data area, if there is room.
    pub fn put(&self, bytes: &[u8]) {
        self.put_at(0, bytes);
    }
    /// Puts bytes at an offset of the data area, if there is room.
    pub fn put_at(&self, offset: usize, bytes: &[u8]) {
        let Some(to) = self.place_to_write(offset, bytes.len()) else { return };
        // SAFETY: mapped writable as long as `self` lives; `bytes` are private memory.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }
    /// Copies bytes from elsewhere to the data area.
    pub fn copy_from(&self, offset: usize, from: &Shared, from_offset: usize, bytes: usize) {
        let places = (self.place_to_write(offset, bytes), from.pointer(from_offset, bytes));
        let (Some(to), Some(from)) = places else { return };
        // SAFETY: both ranges are mapped as long as the values live, and they are different Frames.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) }
    }
    /// Copies bytes of the data area to somewhere else.
    pub fn copy_to(&self, offset: usize, to: &Shared, to_offset: usize, bytes: usize) {
        let places = (self.place(offset, bytes), to.pointer(to_offset, bytes));
        let (Some(from), Some(to)) = places else { return };
        // SAFETY: as in `copy_from`.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) }
    }
    /// Forgets what a process has left, which has no access any more: the header, and as much of the data area
    /// as either side has written to.
    fn clear(&self) {
        let theirs = self.header().used.load(Ordering::Relaxed) as usize;
        let used = theirs.min(DATA_BYTES).max(self.written.take());
        // What it has kept was closed with all else.
        self.files().clear(&mut |_| {});
        self.more_fds().clear();
        // SAFETY: mapped writable as long as `self` lives.
        unsafe { core::ptr::write_bytes(self.va as *mut u8, 0, DATA_OFFSET + used) }
    }
}

/// Session frames that nobody uses, kept for the next processes.
#[derive(Default)]
pub struct Sessions {
    free: Vec<Session>,
}

/// How many are kept.
const KEPT: usize = 8;

impl Sessions {
    /// One that nobody else has ever seen, or everybody has forgotten.
    pub fn take(&mut self) -> Result<Session, Errno> {
        if let Some(session) = self.free.pop() {
            return Ok(session);
        }
        let frame = Slots::new(1)?;
        domain::with(|domain| {
            use libos::ram::Ram;
            domain.arena.make(CapType::Frame, 2 * SESSION_BYTES, 1, frame.first().into())
        })
        .map_err(errno)?;
        let map = Shared::map(frame.first(), 2 * SESSION_BYTES)?;
        let pair = Rc::new(Pair { map, whole: frame });
        self.free.push(part(&pair, SESSION_BYTES)?);
        part(&pair, 0)
    }

    /// Takes back one that has been revoked.
    pub fn put_back(&mut self, session: Session) {
        session.clear();
        self.free.push(session);
        if self.free.len() > KEPT {
            self.drop_pair();
        }
    }

    /// Gives the memory of two back that make up a pair, if there are any.
    fn drop_pair(&mut self) {
        // One reference of each half.
        let whole = self.free.iter().position(|one| {
            let here = self.free.iter().filter(|other| Rc::ptr_eq(&one.pair, &other.pair));
            here.count() == 2
        });
        let Some(whole) = whole else { return };
        let pair = self.free[whole].pair.clone();
        self.free.retain(|session| !Rc::ptr_eq(&session.pair, &pair));
    }
}

/// The half of a pair that starts there.
fn part(pair: &Rc<Pair>, start: u64) -> Result<Session, Errno> {
    let frame = Slots::new(1)?;
    let whole = pair.whole.first();
    whole.retype(CapType::Frame, start, SESSION_BYTES, 1, frame.first()).map_err(errno)?;
    let va = (Area::va(pair.map.index) + start) as usize;
    Ok(Session { frame, pair: pair.clone(), va, written: Cell::new(0) })
}
