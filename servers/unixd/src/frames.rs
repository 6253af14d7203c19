//! What contents of files are made of: Frames, and morsels where they survive.

use crate::caps::{errno, file_frame, Slots};
use crate::morsels::{destroy, errno_of, Morsel};
use crate::pmem::PoolHandle;
use abi::boot::ARCHIVE_VA;
use abi::layout::PAGE;
use abi::slots::ARCHIVE;
use files::Memory;
use libos::ephemeral::{FrameWriter, Window};
use libos::morsel::MorselCap;
use libos::vspace::{R, RW};
use libos::{invoke, op, Cap, CapType, Place, Status};
use unixproto::Errno;

/// How often a revoke may be continued: others prolong it, but only by what they have memory for.
const REVOKES: u32 = 1 << 16;

/// All files, with contents in Frames.
pub type Files = files::Files<Frames>;

/// What has the contents of a file.
pub type Contents = files::Contents<Frames>;

/// Frames with contents of files, seen through a window.
pub struct Frames {
    window: Window,
    /// Where contents survive, if anywhere.
    pub pool: Option<PoolHandle>,
}

impl Frames {
    /// Looks through this window.
    pub fn new(window: Window) -> Frames {
        Frames { window, pool: None }
    }
    fn pool(&self) -> Result<PoolHandle, Errno> {
        self.pool.ok_or(Errno::EROFS)
    }
    /// For a short look at something else.
    pub fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn clear_pages(&mut self, frame: Place, from: u64, to: u64) -> Result<(), Status> {
        let mut at = from;
        while at < to {
            let base = at & !(PAGE - 1);
            let bytes = (to.next_multiple_of(PAGE) - base).min(Window::BYTES);
            let end = to.min(base + bytes);
            let mut view = self.window.open(frame, base, bytes, RW)?;
            for offset in (at - base..end - base).step_by(PAGE as usize) {
                let count = (end - base - offset).min(PAGE) as usize;
                view.write(offset as usize, &[0; PAGE as usize][..count])?;
            }
            at = end;
        }
        Ok(())
    }
}

impl Memory for Frames {
    type Frame = Slots;
    type Object = Morsel;

    fn allocate(&mut self, bytes: u64, user: u32) -> Result<Slots, Errno> {
        file_frame(bytes, user)
    }

    fn archived(&mut self, offset: u64, bytes: u64) -> Result<Slots, Errno> {
        let slot = Slots::new(1)?;
        let made = ARCHIVE.retype(CapType::Frame, offset, bytes, 1, slot.first());
        made.map_err(errno)?;
        Ok(slot)
    }

    fn copy_archived(&mut self, offset: u64, bytes: u64, to: &Slots) -> Result<(), Errno> {
        // SAFETY: `init` maps the archive read-only for good and nobody writes it; its files lie
        // inside.
        let data = unsafe {
            core::slice::from_raw_parts((ARCHIVE_VA + offset) as *const u8, bytes as usize)
        };
        self.write(to, 0, data)
    }

    fn write(&mut self, to: &Slots, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.window.write(Place::own(to.first()), offset, data).map_err(errno)
    }

    fn read(&mut self, from: &Slots, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let (mut offset, mut rest) = (offset, data);
        while !rest.is_empty() {
            let skip = offset % PAGE;
            let (part, behind) = rest.split_at_mut(rest.len().min((Window::BYTES - skip) as usize));
            let bytes = (skip + part.len() as u64).next_multiple_of(PAGE);
            let view = self.window.open(Place::own(from.first()), offset - skip, bytes, R);
            view.and_then(|view| view.read(skip as usize, part)).map_err(errno)?;
            (offset, rest) = (offset + part.len() as u64, behind);
        }
        Ok(())
    }

    fn revoke(&mut self, frame: &Slots) -> Result<(), Errno> {
        for _ in 0..REVOKES {
            match invoke(frame.first(), op::Revoke {}) {
                Err(Status::Again) => {}
                result => return result.map_err(errno),
            }
        }
        Err(Errno::EAGAIN)
    }

    fn clear(&mut self, frame: &Slots, from: u64, to: u64) -> Result<(), Errno> {
        self.clear_pages(Place::own(frame.first()), from, to).map_err(errno)
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

    fn resize_object(&mut self, object: &mut Morsel, bytes: u64) -> Result<(), Errno> {
        object.resize(bytes)
    }

    fn populate_object(&mut self, object: &Morsel, from: u64, to: u64) -> Result<u64, Errno> {
        object.populate(from, to)
    }

    fn discard_object(&mut self, object: &Morsel, from: u64, to: u64) -> Result<(), Errno> {
        object.discard(from, to)
    }

    fn clear_object(&mut self, object: &Morsel, from: u64, to: u64) -> Result<(), Errno> {
        object.clear(from, to)
    }

    fn write_object(&mut self, to: &Morsel, offset: u64, data: &[u8]) -> Result<(), Errno> {
        to.write(offset, data)
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

    fn commit_object(&mut self, object: &Morsel) -> Result<(), Errno> {
        object.cap().commit().map_err(errno_of)
    }

    fn release_object(&mut self, object: &Morsel) -> Result<(), Errno> {
        object.cap().release_commit().map_err(errno_of)
    }

    fn clone_object(&mut self, object: &Morsel) -> Result<(u32, Morsel), Errno> {
        object.snapshot()
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
