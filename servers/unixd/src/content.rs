//! Contents of files: extents, each a Frame.
//!
//! A file of the boot archive is a read-only part of the archive's own Frame, made an extent when
//! somebody first asks for it. The first change gives the file memory of its own. Nothing outside of
//! this module knows what contents are made of.

use crate::caps::{errno, file_frame, mint, Slots};
use crate::descs::{Desc, Object};
use crate::nodes::Node;
use crate::procs::Pid;
use crate::server::{Unixd, SCRATCH};
use crate::wait::{count, done, Call, Outcome, Tried};
use abi::boot::ARCHIVE_VA;
use abi::layout::PAGE;
use abi::slots::ARCHIVE;
use libos::ipc::Caps;
use libos::vspace::{FrameWriter, RW, WINDOW_BYTES};
use libos::{Cap, CapType, Place, Rights, Status};
use memfs::{Extent, Extents, Ino, SIZE_MAX};
use unixproto::files::{AT_OFFSET, O_APPEND};
use unixproto::ops::{self, Part};
use unixproto::{op, Errno, Reply};

/// Largest piece that a file grows by.
const GROW_MAX: u64 = 1 << 20;
/// Most bytes that a file gets at once because a page of it is written through a mapping.
const MAPPED_MAX: u64 = 1 << 20;
/// Most bytes that one `WriteBegin` grants.
const GRANT_MAX: u64 = 4 << 20;

/// The contents of a file.
#[derive(Default)]
pub struct File {
    /// Where its bytes are.
    pub extents: Extents<Slots>,
    /// Changes whenever extents are replaced.
    pub layout: u32,
    /// Where it lies in the boot archive (offset and bytes), until it is changed.
    pub boot: Option<(u64, u64)>,
    /// Descriptions that are writable.
    pub writers: u32,
    /// Descriptions through which it is executed.
    pub texts: u32,
}

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

impl Unixd {
    /// Size and contents of a regular file.
    pub fn file(&mut self, ino: Ino) -> Result<(&mut u64, &mut File), Errno> {
        match &mut self.fs.get_mut(ino)?.node {
            memfs::Node::File { size, content } => Ok((size, content)),
            memfs::Node::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    fn new_layout(&mut self) -> u32 {
        self.layout = self.layout.wrapping_add(1);
        self.layout
    }

    /// Makes the extents of a file that lies in the boot archive: its whole pages as they lie, and
    /// a copy of the rest, since what follows it in the archive must not show behind its end.
    fn materialise(&mut self, ino: Ino) -> Result<(), Errno> {
        let (_, file) = self.file(ino)?;
        let Some((offset, bytes)) = file.boot else { return Ok(()) };
        if file.extents.end() > 0 {
            return Ok(());
        }
        let whole = bytes & !(PAGE - 1);
        if whole > 0 {
            let slot = Slots::new(1)?;
            let made = ARCHIVE.retype(CapType::Frame, offset, whole, 1, slot.first());
            made.map_err(errno)?;
            let extent = Extent { start: 0, bytes: whole, writable: false, handle: slot };
            file.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        if bytes > whole {
            let handle = self.copy_of_archive(offset + whole, bytes - whole)?;
            let extent = Extent { start: whole, bytes: PAGE, writable: false, handle };
            self.file(ino)?.1.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        Ok(())
    }

    /// A Frame with a copy of a part of the archive.
    fn copy_of_archive(&mut self, offset: u64, bytes: u64) -> Result<Slots, Errno> {
        let frame = file_frame(pages(bytes), self.payer())?;
        // SAFETY: the archive is mapped read-only for good; its files lie inside.
        let data = unsafe {
            core::slice::from_raw_parts((ARCHIVE_VA + offset) as *const u8, bytes as usize)
        };
        self.window.write(Place::own(frame.first()), 0, data).map_err(errno)?;
        Ok(frame)
    }

    /// Gives a file of the archive memory of its own.
    fn own(&mut self, ino: Ino) -> Result<(), Errno> {
        let (size, file) = self.file(ino)?;
        let Some((offset, bytes)) = file.boot else { return Ok(()) };
        let keep = bytes.min(*size);
        let copy = match keep {
            0 => None,
            _ => Some(self.copy_of_archive(offset, keep)?),
        };
        let layout = self.new_layout();
        let (_, file) = self.file(ino)?;
        file.boot = None;
        file.extents.truncate(0);
        file.layout = layout;
        if let Some(handle) = copy {
            let extent = Extent { start: 0, bytes: pages(keep), writable: true, handle };
            file.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        Ok(())
    }

    /// Allocates what is missing in `[start, end)`. Answers how far it came, if it came anywhere.
    fn allocate(&mut self, ino: Ino, start: u64, end: u64) -> Result<u64, Errno> {
        let mut at = start;
        while at < end {
            let (size, file) = self.file(ino)?;
            let size = *size;
            let (hole_start, hole_end) = match file.extents.find(at) {
                Ok(extent) => {
                    at = extent.end();
                    continue;
                }
                Err(hole) => hole,
            };
            let first = (at & !(PAGE - 1)).max(hole_start);
            let needed = pages(end).min(hole_end) - first;
            let generous = size.next_power_of_two().clamp(PAGE, GROW_MAX);
            let appending = hole_end > SIZE_MAX && first >= size & !(PAGE - 1);
            let mut bytes = needed.min(GROW_MAX);
            if appending {
                bytes = bytes.max(generous).min(hole_end - first);
            }
            let Some(handle) = piece(&mut bytes, self.payer())? else {
                return if at > start { Ok(at) } else { Err(Errno::ENOSPC) };
            };
            let (_, file) = self.file(ino)?;
            let extent = Extent { start: first, bytes, writable: true, handle };
            file.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
            at = first + bytes;
        }
        Ok(end)
    }

    /// Allocates a page that is to be written through a mapping, unless it is there, and as many of
    /// its neighbours as the file has pages already: a mapping that is filled gets few extents, one
    /// that is touched here and there at most twice the memory that it needs.
    fn allocate_around(&mut self, ino: Ino, page: u64) -> Result<(), Errno> {
        let (size, file) = self.file(ino)?;
        if file.extents.find(page).is_ok() {
            return Ok(());
        }
        let end = pages(*size).max(page + PAGE);
        let window = (2 * file.extents.allocated()).next_power_of_two().clamp(PAGE, MAPPED_MAX);
        let start = page & !(window - 1);
        // Not all of that need be there; the page itself must.
        match self.allocate(ino, start, end.min(start + window)) {
            Ok(end) if end > page => Ok(()),
            _ => self.allocate(ino, page, page + PAGE).map(|_| ()),
        }
    }

    /// A description of a file, and the file.
    fn file_of(&self, pid: Pid, desc: u32) -> Result<(Ino, &Desc), Errno> {
        let desc = self.desc(pid, desc)?;
        match desc.object {
            Object::File(ino) => Ok((ino, desc)),
            Object::Dir(_) => Err(Errno::EISDIR),
            Object::Path(_) => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    /// What may be read.
    pub fn read_begin(&mut self, pid: Pid, op: op::ReadBegin) -> Tried {
        let (ino, desc) = self.file_of(pid, op.desc)?;
        desc.readable()?;
        let offset = if op.offset == AT_OFFSET { desc.offset } else { op.offset };
        if offset > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let now = self.clock.wall();
        let inode = self.fs.get_mut(ino)?;
        let bytes = op.bytes.min(inode.size().saturating_sub(offset));
        // As `relatime` has it: only when a change came since, or a day.
        if inode.atime <= inode.mtime || inode.atime + 86_400_000_000_000 < now {
            inode.atime = now;
        }
        let (_, file) = self.file(ino)?;
        let part = Part { inode: ino.0 as u64, layout: file.layout, offset, bytes };
        if op.offset == AT_OFFSET {
            self.desc_mut(pid, op.desc)?.offset = offset + bytes;
        }
        done(part)
    }

    /// Room for what is to be written by the library itself.
    pub fn write_begin(&mut self, pid: Pid, op: op::WriteBegin) -> Tried {
        done(self.grant(pid, op, false)?.1)
    }

    /// Writes what is in the data area.
    pub fn write_at(&mut self, pid: Pid, call: &Call, op: op::WriteAt) -> Tried {
        let data = self.a(pid, call)?;
        let bytes = data.len() as u64;
        let room = op::WriteBegin { desc: op.desc, offset: op.offset, bytes };
        let (ino, part) = self.grant(pid, room, op.offset != AT_OFFSET)?;
        let data = data.get(..part.bytes as usize).ok_or(Errno::EIO)?;
        self.store(ino, part.offset, data)?;
        count(data.len())
    }

    /// Copies bytes to a file that has room for them.
    fn store(&mut self, ino: Ino, mut offset: u64, mut data: &[u8]) -> Result<(), Errno> {
        while !data.is_empty() {
            let (_, file) = self.file(ino)?;
            let extent = file.extents.find(offset).map_err(|_| Errno::EIO)?;
            let (frame, inside) = (Place::own(extent.handle.first()), offset - extent.start);
            let bytes = (data.len() as u64).min(extent.bytes - inside);
            let (part, rest) = data.split_at(bytes as usize);
            self.window.write(frame, inside, part).map_err(errno)?;
            (offset, data) = (offset + bytes, rest);
        }
        Ok(())
    }

    /// Makes room for what is to be written, as far as there is any: `just_there`, or at the end if the
    /// description appends.
    fn grant(
        &mut self,
        pid: Pid,
        op: op::WriteBegin,
        just_there: bool,
    ) -> Result<(Ino, Part), Errno> {
        let (ino, desc) = self.file_of(pid, op.desc)?;
        desc.writable()?;
        let size = self.fs.get(ino)?.size();
        let offset = match op.offset {
            _ if desc.flags & O_APPEND != 0 && !just_there => size,
            AT_OFFSET => desc.offset,
            offset => offset,
        };
        if offset > SIZE_MAX {
            return Err(if offset > i64::MAX as u64 { Errno::EINVAL } else { Errno::EFBIG });
        }
        let bytes = op.bytes.min(GRANT_MAX).min(SIZE_MAX - offset);
        let bytes = bytes.min(self.procs.get(pid)?.limits.file_size().saturating_sub(offset));
        if bytes == 0 && op.bytes > 0 {
            return Err(self.file_too_large(pid));
        }
        self.own(ino)?;
        let end = match bytes {
            0 => offset,
            _ => self.allocate(ino, offset, offset + bytes)?,
        };
        self.fs.written(ino, self.cred(pid), self.clock.wall())?;
        let (size, file) = self.file(ino)?;
        if end > offset {
            *size = (*size).max(end);
        }
        let part = Part { inode: ino.0 as u64, layout: file.layout, offset, bytes: end - offset };
        if op.offset == AT_OFFSET {
            self.desc_mut(pid, op.desc)?.offset = end;
        }
        Ok((ino, part))
    }

    /// A Frame with a part of a file.
    pub fn file_extent(&mut self, pid: Pid, op: op::FileExtent) -> Tried {
        let (ino, desc) = self.file_of(pid, op.desc)?;
        desc.shares_contents()?;
        if op.write {
            desc.writable()?;
        }
        let (size, file) = self.file(ino)?;
        if op.offset >= pages(*size) {
            return Err(Errno::ENXIO);
        }
        // Mostly it is there: mapped before, or by another process.
        if !(op.write && file.boot.is_some()) {
            if let Ok(extent) = file.extents.find(op.offset) {
                return share(extent, file.layout, *size, op.write);
            }
        }
        if op.write {
            self.own(ino)?;
            self.allocate_around(ino, op.offset & !(PAGE - 1))?;
        } else {
            self.materialise(ino)?;
        }
        let (size, file) = self.file(ino)?;
        let (layout, size) = (file.layout, *size);
        match file.extents.find(op.offset) {
            Err((start, end)) => {
                let bytes = end.min(pages(size)) - start;
                done(ops::Extent { layout, start, bytes, size })
            }
            Ok(extent) => share(extent, layout, size, op.write),
        }
    }

    /// Sets the size of a file.
    pub fn resize(&mut self, pid: Pid, ino: Ino, new: u64) -> Result<(), Errno> {
        if new > SIZE_MAX {
            return Err(if new > i64::MAX as u64 { Errno::EINVAL } else { Errno::EFBIG });
        }
        let limit = self.procs.get(pid)?.limits.file_size();
        let old = *self.file(ino)?.0;
        if new > limit.max(old) {
            return Err(self.file_too_large(pid));
        }
        let (_, file) = self.file(ino)?;
        if new == 0 {
            file.boot = None;
            file.extents.truncate(0);
            let layout = self.new_layout();
            self.file(ino)?.1.layout = layout;
        } else if new < old {
            self.own(ino)?;
            self.cut(ino, new, old)?;
        }
        let now = self.clock.wall();
        *self.file(ino)?.0 = new;
        self.fs.get_mut(ino)?.modified(now);
        Ok(())
    }

    /// Drops extents behind a new end, and clears what is left of the last one behind it.
    fn cut(&mut self, ino: Ino, new: u64, old: u64) -> Result<(), Errno> {
        let layout = self.new_layout();
        let (_, file) = self.file(ino)?;
        if file.extents.truncate(new) {
            file.layout = layout;
        }
        let Ok(extent) = file.extents.find(new) else { return Ok(()) };
        let (frame, start) = (Place::own(extent.handle.first()), extent.start);
        let end = extent.end().min(pages(old));
        self.clear(frame, new - start, end - start).map_err(errno)
    }

    fn clear(&mut self, frame: Place, from: u64, to: u64) -> Result<(), Status> {
        let mut at = from;
        while at < to {
            let base = at & !(PAGE - 1);
            let bytes = (pages(to) - base).min(WINDOW_BYTES);
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

    /// An unnamed file.
    pub fn mem_file(&mut self, pid: Pid, size: u64) -> Tried {
        self.room(pid, 1)?;
        if size > SIZE_MAX {
            return Err(Errno::ENOMEM);
        }
        let node = memfs::Node::File { size, content: File::default() };
        let ino = self.fs.create_unnamed(node, self.attr(pid, 0o777))?;
        let layout = self.new_layout();
        self.file(ino)?.1.layout = layout;
        let desc = self.open_desc(pid, Object::File(ino), unixproto::files::O_RDWR, None)?;
        debug_assert!(matches!(self.descs.get(desc)?.object.node(), Some(Node::Mem(_))));
        done(ops::Opened { desc, kind: unixproto::files::Kind::Regular as u8, inode: ino.0 as u64 })
    }
}

/// An answer with an extent of a file of `size` bytes, to read or also to write.
fn share(extent: &Extent<Slots>, layout: u32, size: u64, write: bool) -> Tried {
    let answer = ops::Extent { layout, start: extent.start, bytes: extent.bytes, size };
    let write = if write { Rights::WRITE } else { Rights::NONE };
    mint(extent.handle.first(), SCRATCH, Rights::READ.or(Rights::EXEC).or(write))?;
    Ok(Outcome::WithCaps(answer.encode(), Caps::moved(SCRATCH, 1)))
}

/// Memory of a user's file for `bytes`, or for half of it, and so on. Nothing if there is not even a page.
fn piece(bytes: &mut u64, uid: u32) -> Result<Option<Slots>, Errno> {
    loop {
        match file_frame(*bytes, uid) {
            Err(Errno::ENOSPC) if *bytes > PAGE => *bytes = pages(*bytes / 2),
            Err(Errno::ENOSPC) => return Ok(None),
            result => return result.map(Some),
        }
    }
}
