//! What contents of files are made of: morsels, and Frames of the boot archive and of the root image.

use crate::caps::{errno, file_frame, Slots};
use crate::lower;
use crate::morsels::{destroy, errno_of, Morsel};
use crate::pmem::PoolHandle;
use crate::volatile::VolatilePool;
use abi::boot::ARCHIVE_VA;
use abi::layout::PAGE;
use abi::slots::{ARCHIVE, IMAGE};
use files::Memory;
use libos::ephemeral::{FrameWriter, Window};
use libos::morsel::MorselCap;
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Status};
use memfs::Cred;
use unixproto::Errno;

/// How often a revoke may be continued: others prolong it, but only by what they have memory for.
const REVOKES: u32 = 1 << 16;

/// Bytes of the root image that are copied at a time.
const PIECE: u64 = 64 << 10;

/// All files, with contents in memory of the machine.
pub type Files = files::Files<Frames>;

/// What has the contents of a file.
pub type Contents = files::Contents<Frames>;

/// Memory with contents of files.
pub struct Frames {
    /// Frames are seen through it.
    window: Window,
    /// What does not survive.
    pub volatile: VolatilePool,
    /// Where contents survive, if anywhere.
    pub pool: Option<PoolHandle>,
}

impl Frames {
    /// Looks through this window.
    pub fn new(window: Window, volatile: VolatilePool) -> Frames {
        Frames { window, volatile, pool: None }
    }
    fn pool(&self) -> Result<PoolHandle, Errno> {
        self.pool.ok_or(Errno::EROFS)
    }
    /// For a short look at something else.
    pub fn window(&mut self) -> &mut Window {
        &mut self.window
    }
}

/// Takes back what others have of a capability, and what is made of it.
pub fn revoke(cap: CapAddr) -> Result<(), Errno> {
    for _ in 0..REVOKES {
        match invoke(cap, op::Revoke {}) {
            Err(Status::Again) => {}
            result => return result.map_err(errno),
        }
    }
    Err(Errno::EAGAIN)
}

/// A part of the boot archive.
fn archive(offset: u64, bytes: u64) -> &'static [u8] {
    // SAFETY: `init` maps the archive read-only for good and nobody writes it; its files lie inside.
    unsafe { core::slice::from_raw_parts((ARCHIVE_VA + offset) as *const u8, bytes as usize) }
}

impl Memory for Frames {
    type Frame = Slots;
    type Object = Morsel;

    fn archived(&mut self, offset: u64, bytes: u64) -> Result<Slots, Errno> {
        let slot = Slots::new(1)?;
        let (from, offset) = match lower::in_image(offset) {
            Some(offset) => (IMAGE, offset),
            None => (ARCHIVE, offset),
        };
        from.retype(CapType::Frame, offset, bytes, 1, slot.first()).map_err(errno)?;
        Ok(slot)
    }

    fn mappable(offset: u64, bytes: u64) -> u64 {
        match lower::in_image(offset) {
            // Zeros follow, to the end of the page.
            Some(_) => bytes.next_multiple_of(PAGE),
            None => bytes & !(PAGE - 1),
        }
    }

    fn archived_end(&mut self, offset: u64, bytes: u64, user: u32) -> Result<Slots, Errno> {
        let frame = file_frame(PAGE, user)?;
        let written = self.window.write(Place::own(frame.first()), 0, archive(offset, bytes));
        written.map_err(errno)?;
        Ok(frame)
    }

    fn read_archived(&mut self, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        if let Some(offset) = lower::in_image(offset) {
            return lower::read(&mut self.window, offset, data).map_err(errno);
        }
        data.copy_from_slice(archive(offset, data.len() as u64));
        Ok(())
    }

    fn revoke(&mut self, frame: &Slots) -> Result<(), Errno> {
        revoke(frame.first())
    }

    fn revoke_object(&mut self, object: &Morsel) -> Result<(), Errno> {
        revoke(object.cap())
    }

    fn make_object(&mut self, bytes: u64, needed: u64, user: u32) -> Result<Morsel, Errno> {
        self.volatile.make(bytes, needed, user)
    }

    fn create_object(&mut self) -> Result<(u32, Morsel), Errno> {
        Morsel::create(self.pool()?.pool)
    }

    fn open_object(&mut self, number: u32) -> Result<Morsel, Errno> {
        Morsel::open(self.pool()?.pool, number)
    }

    fn most(object: &Morsel) -> u64 {
        object.most()
    }

    fn resize_object(&mut self, object: &mut Morsel, bytes: u64, user: u32) -> Result<bool, Errno> {
        match object.is_volatile() {
            true => self.volatile.with_room(user, |pool| object.resize_in(pool, bytes)),
            false => object.resize(bytes).map(|()| false),
        }
    }

    fn limit(&self, object: &Morsel) -> Result<u64, Errno> {
        object.limit()
    }

    fn allow_object(&mut self, object: &mut Morsel, bytes: u64) -> Result<u64, Errno> {
        object.allow_raising(bytes)
    }

    fn populate_object(
        &mut self,
        object: &mut Morsel,
        (from, to): (u64, u64),
        user: u32,
    ) -> Result<u64, Errno> {
        match object.is_volatile() {
            true => self.volatile.populate(object, (from, to), user),
            false => object.populate(from, to),
        }
    }

    fn extend_object(&mut self, object: &mut Morsel, bytes: u64, from: u64) -> bool {
        object.extend(bytes, from)
    }

    fn next_data(
        &self,
        object: &Morsel,
        (from, to): (u64, u64),
    ) -> Result<Option<(u64, u64)>, Errno> {
        object.next_data(from, to)
    }

    fn allocated(&self, object: &Morsel, size: u64) -> Result<u64, Errno> {
        object.allocated(size)
    }

    fn is_full(&self, object: &Morsel, size: u64) -> bool {
        object.is_full(size)
    }

    fn allocated_in(&self, number: u32, size: u64) -> Result<u64, Errno> {
        Morsel::open(self.pool()?.pool, number)?.allocated(size)
    }

    fn discard_object(&mut self, object: &mut Morsel, from: u64, to: u64) -> Result<(), Errno> {
        match object.is_volatile() {
            // Of what is shared something may have to be copied.
            true => self.volatile.with_room(Cred::ROOT.uid, |_| object.discard(from, to)),
            false => object.discard(from, to),
        }
    }

    fn clear_object(&mut self, object: &Morsel, from: u64, to: u64) -> Result<(), Errno> {
        object.clear(from, to)
    }

    fn write_object(&mut self, to: &Morsel, offset: u64, data: &[u8]) -> Result<(), Errno> {
        to.write(offset, data)
    }

    fn copy_archived(&mut self, offset: u64, bytes: u64, to: &Morsel) -> Result<(), Errno> {
        if lower::in_image(offset).is_none() {
            return to.write(0, archive(offset, bytes));
        }
        let mut piece = alloc::vec![0; bytes.min(PIECE) as usize];
        for at in (0..bytes).step_by(PIECE as usize) {
            let piece = &mut piece[..(bytes - at).min(PIECE) as usize];
            self.read_archived(offset + at, piece)?;
            to.write(at, piece)?;
        }
        Ok(())
    }

    fn read_object(&mut self, from: &Morsel, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        from.read(offset, data)
    }

    fn write_back_object(&mut self, object: &Morsel, from: u64, to: u64) -> Result<(), Errno> {
        match self.pool()?.caches_persist {
            true => Ok(()),
            false => object.write_back(from, to),
        }
    }

    fn advise_object(&mut self, object: &Morsel, large: bool) -> Result<(), Errno> {
        object.cap().advise(large).map_err(errno_of)
    }

    fn is_large(object: &Morsel) -> bool {
        object.is_large()
    }

    fn commit_object(&mut self, object: &Morsel) -> Result<(), Errno> {
        object.cap().commit().map_err(errno_of)
    }

    fn release_object(&mut self, object: &Morsel) -> Result<(), Errno> {
        object.cap().release_commit().map_err(errno_of)
    }

    fn clone_object(&mut self, object: &mut Morsel) -> Result<(u32, Morsel), Errno> {
        match object.is_volatile() {
            true => self.volatile.with_room(Cred::ROOT.uid, |_| object.snapshot()),
            false => object.snapshot(),
        }
    }

    fn destroy_object(&mut self, number: u32, object: Option<Morsel>) {
        drop(object);
        if let Ok(PoolHandle { pool, .. }) = self.pool() {
            if let Err(status) = destroy(pool, number) {
                // The next start finds that it belongs to no file.
                libos::log!("unixd: contents {number} that were replaced stay: {status:?}");
            }
        }
    }
}
