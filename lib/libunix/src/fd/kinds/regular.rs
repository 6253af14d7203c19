//! Regular files: `unixd` says which bytes are meant (and moves the offset, and makes room), then they
//! are copied here, from or to windows on the file's extents. What is only written has no windows:
//! whoever could write through one could read.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{size_of, Contents, FileOps, Handle, Mapped, Server};
use crate::fd::transfer::Source;
use crate::fd::windows::{self, View};
use crate::fd::writers::Writing;
use crate::fd::{alone, Fds};
use crate::mm::user::{self, Moved, Short};
use crate::mm::{self, Mm};
use crate::process::Io;
use crate::server::{self, op};
use crate::sys::time;
use abi::layout::PAGE;
use libos::guarded::{Memory, Progress};
use unixproto::files::{FICLONE, MORSEL_ATOMIC};
use unixproto::files::{Kind, AT_EMPTY_PATH, AT_OFFSET, O_ACCMODE, O_APPEND, O_WRONLY, SEEK_CUR, SEEK_SET};
use unixproto::ops::{Opened, Part};
use unixproto::session::DATA_BYTES;
use unixproto::tty::FIONREAD;

/// An open regular file.
#[derive(Clone, Copy)]
pub struct Regular {
    desc: u32,
    inode: u64,
    is_stored: bool,
    is_large: bool,
}

impl FileOps for Regular {
    const SERVED: Option<Kind> = Some(Kind::Regular);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Regular> {
        let &Opened { desc, inode, is_stored, is_large, .. } = opened;
        Some(Regular { desc, inode, is_stored, is_large })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn windows(&self) -> [Option<u64>; 2] {
        [Some(self.inode), None]
    }
    fn read(&self, io: &mut Io, file: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if to.left() == 0 {
            return Ok(0);
        }
        if at.is_some() {
            return read(io, self.desc, self.inode, at.unwrap_or(AT_OFFSET), to);
        }
        loop {
            let Some(start) = io.fds.kept_offset(file.index) else {
                return read(io, self.desc, self.inode, AT_OFFSET, to);
            };
            let mut cursor = to.clone();
            let done = read(io, self.desc, self.inode, start.offset(), &mut cursor)?;
            // Another thread that reads without the lock may have been faster.
            if io.fds.move_offset(file.index, start, start.offset() + done) {
                *to = cursor;
                return Ok(done);
            }
        }
    }
    fn write(
        &self,
        io: &mut Io,
        file: Handle,
        at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        let write_only = file.flags & O_ACCMODE == O_WRONLY;
        let to = Target { desc: self.desc, inode: self.inode, write_only, is_kept: false };
        if at.is_some() {
            return write_apart(io, to, at, from);
        }
        // What is only written `unixd` copies, and who appends is told by it where.
        let may_keep = !write_only && file.flags & O_APPEND == 0;
        match may_keep.then(|| io.fds.hold_offset(file.index)).flatten() {
            Some(offset) => {
                let to = Target { is_kept: true, ..to };
                let written = write_apart(io, to, Some(offset), from);
                io.fds.keep_offset(file.index, offset + *written.as_ref().unwrap_or(&0));
                written
            }
            None => {
                alone::give_back(&mut io.fds, file.index, self.desc);
                write_apart(io, to, at, from)
            }
        }
    }
    fn seek(&self, fds: &mut Fds, file: Handle, offset: i64, whence: u32) -> Result<u64> {
        alone::seek(fds, file.index, self.desc, offset, whence)
    }
    fn ioctl(&self, io: &mut Io, file: Handle, command: u32, arg: u64) -> Result<u64> {
        match command {
            FIONREAD => self.bytes_left(io, file, arg),
            FICLONE => self.clone_from(io, arg as i32),
            MORSEL_ATOMIC => {
                let on = match arg {
                    0 | 1 => arg == 1,
                    _ => return Err(Errno::EINVAL),
                };
                server::call(op::MakeAtomic { desc: self.desc, on }).map(|()| 0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
    fn map(&self) -> Result<Mapped> {
        self.contents().map(Mapped::Contents)
    }
    fn contents(&self) -> Result<Contents> {
        let &Regular { desc, inode, is_stored, is_large } = self;
        Ok(Contents { desc, inode, is_stored, is_large, is_sealable: false })
    }
    fn truncate(&self, mm: &mut Mm, size: u64) -> Result<u64> {
        let file = server::call(op::Truncate { dir: self.desc, size, flags: AT_EMPTY_PATH })?;
        mm::truncated(mm, file.inode, size);
        Ok(0)
    }
    fn allocate(&self, mode: u32, offset: u64, bytes: u64) -> Result<u64> {
        server::call(op::Allocate { desc: self.desc, mode, offset, bytes })?;
        Ok(0)
    }
    /// Of what does not survive nothing is ever behind.
    fn sync(&self, offset: u64, bytes: u64) -> Result<u64> {
        if self.is_stored {
            server::call(op::Sync { desc: self.desc, offset, bytes })?;
        }
        Ok(0)
    }
    fn share(&self, io: &mut Io, file: Handle) -> Result<()> {
        alone::give_back(&mut io.fds, file.index, self.desc);
        Ok(())
    }
}

impl Regular {
    /// Its number, by which others know its contents, too.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// How many bytes there are behind its offset; before the end, or less than none.
    fn bytes_left(&self, io: &mut Io, file: Handle, arg: u64) -> Result<u64> {
        let offset = self.seek(&mut io.fds, file, 0, SEEK_CUR)?;
        let left = size_of(self)?.wrapping_sub(offset) as u32;
        user::copy_out(&mut io.mm, arg, &left)?;
        Ok(0)
    }

    /// Has from now on what another file has.
    fn clone_from(&self, io: &mut Io, fd: i32) -> Result<u64> {
        let source = io.fds.get(fd)?;
        let from = source.contents()?.desc;
        if !source.readable() {
            return Err(Errno::EBADF);
        }
        server::call(op::Clone { desc: self.desc, from })?;
        windows::lost(&mut io.fds, self.inode);
        Ok(0)
    }
}

/// Most bytes that one request writes: what is asked for is made resident first.
const WRITE_PIECE: u64 = 4 << 20;

/// How often a copy that does not come forward is tried again, as others truncate the file.
const TRIES: u32 = 1000;

/// Pieces of a file, to be copied from.
pub struct FilePieces {
    desc: u32,
    part: Part,
}

impl FilePieces {
    /// All pieces of a part.
    pub fn new(desc: u32, inode: u64, part: Part) -> Self {
        FilePieces { desc, part: Part { inode, ..part } }
    }
}

impl FilePieces {
    /// Has `work` done with what the file has next, at most `max` bytes. `None`: it ends here, as others have truncated it.
    fn with<R>(
        &mut self,
        io: &mut Io,
        max: u64,
        work: impl FnOnce(&mut Io, View) -> R,
    ) -> Result<Option<R>> {
        let max = max.min(self.part.bytes);
        let done = windows::with(io, self.desc, &mut self.part, false, |io, view| {
            work(
                io,
                match view {
                    View::Bytes(bytes) => {
                        View::Bytes(bytes.first(usize::try_from(max).unwrap_or(usize::MAX)))
                    }
                    View::Hole(bytes) => View::Hole(bytes.min(max)),
                },
            )
        });
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Errno::ENXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A view is gone at the next byte: perhaps it has left memory.
    #[cold]
    fn bring_in(&self) -> bool {
        let page = self.part.offset / PAGE;
        server::call(op::BringIn { desc: self.desc, page, alone: false }).is_ok()
    }

    fn advance(&mut self, bytes: usize) {
        self.part.offset += bytes as u64;
        self.part.bytes -= bytes as u64;
    }

    /// Has `copy` done with what the file has next, again and again, until `max` bytes are copied or it can do no
    /// more. It is told how many bytes are done; of a view that is gone it says [`Short::Window`].
    fn each(
        &mut self,
        io: &mut Io,
        max: u64,
        mut copy: impl FnMut(&mut Io, View, usize) -> Moved,
    ) -> Moved {
        let mut done = 0;
        let mut tries = TRIES;
        while self.part.bytes > 0 && (done as u64) < max {
            let moved = match self.with(io, max - done as u64, |io, view| copy(io, view, done)) {
                Ok(Some(moved)) => moved,
                Ok(None) => {
                    return Moved { bytes: done, short: Some(Short::Program(Errno::ENXIO)) }
                }
                Err(error) => return Moved { bytes: done, short: Some(Short::Program(error)) },
            };
            self.advance(moved.bytes);
            done += moved.bytes;
            match moved.short {
                None => {}
                Some(Short::Window) if tries > 0 && self.bring_in() => {
                    tries = if moved.bytes > 0 { TRIES } else { tries - 1 };
                }
                Some(Short::Window) if tries > 0 => {
                    windows::lost(&mut io.fds, self.part.inode);
                    tries = if moved.bytes > 0 { TRIES } else { tries - 1 };
                }
                Some(short) => {
                    return Moved { bytes: done, short: Some(Short::Program(short.errno())) }
                }
            }
        }
        Moved { bytes: done, short: None }
    }
}

/// What has become of a copy from a file, as that from a program is told.
fn told(progress: Progress) -> Moved {
    Moved { bytes: progress.done, short: progress.fault.map(|_| Short::Window) }
}

impl Source for FilePieces {
    fn left(&self) -> u64 {
        self.part.bytes
    }
    fn probe(&mut self, io: &mut Io) -> Result<()> {
        match self.part.bytes {
            0 => Ok(()),
            _ => self.with(io, 1, |_, _| ())?.ok_or(Errno::ENXIO),
        }
    }
    fn gather(&mut self, io: &mut Io, to: &mut [u8]) -> Moved {
        self.each(io, to.len() as u64, |_, view, done| match view {
            View::Bytes(bytes) => told(bytes.read(&mut to[done..])),
            View::Hole(bytes) => {
                to[done..done + bytes as usize].fill(0);
                Moved { bytes: bytes as usize, short: None }
            }
        })
    }
    fn gather_to(&mut self, io: &mut Io, to: Memory) -> Moved {
        let mut target_is_gone = false;
        let mut moved = self.each(io, to.len() as u64, |_, view, done| {
            let to = to.skip(done);
            let progress = match view {
                View::Bytes(bytes) => to.copy_from(bytes),
                View::Hole(bytes) => to.first(bytes as usize).zero(),
            };
            match progress.fault {
                Some(fault) if to.contains(fault.address) => {
                    target_is_gone = true;
                    Moved { bytes: progress.done, short: Some(Short::Program(Errno::EIO)) }
                }
                _ => told(progress),
            }
        });
        if target_is_gone {
            moved.short = Some(Short::Window);
        }
        moved
    }
    fn lendable(&mut self, _io: &mut Io, _least: u64) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }
    fn passed(&mut self, _bytes: u64) {}
    fn have_ready(&mut self, _io: &mut Io, _bytes: u64) -> bool {
        false
    }
}

/// Puts the offset where the copy really ended.
pub fn move_back(desc: u32, offset: u64) {
    // Only if somebody else has closed it meanwhile.
    let _ = server::call(op::Seek { desc, offset: offset as i64, whence: SEEK_SET });
}

/// Reads at `offset` or [`AT_OFFSET`].
pub fn read(io: &mut Io, desc: u32, inode: u64, offset: u64, to: &mut Cursor) -> Result<u64> {
    to.probe_out(&mut io.mm)?;
    if to.left() <= DATA_BYTES as u64 && io.fds.windows.is_first(inode) {
        return read_small(io, desc, offset, to);
    }
    let known = shown(inode, offset, to.left());
    let lent = if known.is_none() { readable(inode, offset, to.left()) } else { None };
    let part = match known.or(lent) {
        Some(part) => part,
        None => server::call(op::ReadBegin { desc, offset, bytes: to.left() })?,
    };
    let mut pieces = FilePieces::new(desc, inode, part);
    let result = copy_out(io, &mut pieces, to);
    let done = part.bytes - pieces.left();
    if lent.is_some() && !server::shown_files().loan(inode).was_read(inode, time::realtime) {
        // What others have done meanwhile came after this; only when it was read is still to be known.
        let _ = server::call(op::ReadBegin { desc, offset, bytes: done });
    }
    if done < part.bytes && offset == AT_OFFSET {
        move_back(desc, part.offset + done);
    }
    match result {
        Err(error) if done == 0 => Err(error),
        _ => Ok(done),
    }
}

/// What may be read at an offset, if that is known without asking: the file was asked for before, and has not changed since. (The
/// access time needs no change then.)
#[inline]
fn shown(inode: u64, offset: u64, bytes: u64) -> Option<Part> {
    part(inode, server::shown_files().file(inode).get(inode), offset, bytes)
}

/// The same of a file that the process has lent and may read: it says afterwards that it has.
#[inline]
fn readable(inode: u64, offset: u64, bytes: u64) -> Option<Part> {
    part(inode, server::shown_files().loan(inode).readable(inode), offset, bytes)
}

/// What may be read at an offset of a file whose layout and size are known.
#[inline]
fn part(inode: u64, known: Option<(u32, u64)>, offset: u64, bytes: u64) -> Option<Part> {
    let (layout, size) = known.filter(|_| offset <= i64::MAX as u64)?;
    Some(Part { inode, layout, offset, bytes: bytes.min(size.saturating_sub(offset)), tell: false })
}

/// The same for a few bytes, which `unixd` copies.
fn read_small(io: &mut Io, desc: u32, offset: u64, to: &mut Cursor) -> Result<u64> {
    let part = server::call(op::ReadAt { desc, offset, bytes: to.left() })?;
    let moved = to.scatter_from(&mut io.mm, server::data(part.bytes as usize));
    let done = moved.bytes as u64;
    if done < part.bytes && offset == AT_OFFSET {
        move_back(desc, part.offset + done);
    }
    moved.some().map(|bytes| bytes as u64)
}

fn copy_out(io: &mut Io, pieces: &mut FilePieces, to: &mut Cursor) -> Result<()> {
    let moved = pieces.each(io, to.left(), |io, view, _| match view {
        View::Bytes(bytes) => to.scatter_from(&mut io.mm, bytes),
        View::Hole(bytes) => to.zero(&mut io.mm, bytes),
    });
    match moved.short {
        // Others have truncated the file: it ends there.
        None | Some(Short::Program(Errno::ENXIO)) => Ok(()),
        Some(short) => Err(short.errno()),
    }
}

/// A regular file to be written.
#[derive(Clone, Copy)]
pub struct Target {
    pub desc: u32,
    pub inode: u64,
    /// `unixd` gives no windows on the file, so it copies everything itself.
    pub write_only: bool,
    /// It is written where its offset is, which the library keeps. Otherwise a request that names a place may be of one that appends.
    pub is_kept: bool,
}

/// How far one request of a write has come.
struct Written {
    done: u64,
    /// There is nothing to go on with: the source has no more, or there is no room.
    is_last: bool,
}

/// Writes at `offset` or [`AT_OFFSET`]. A write of nothing does nothing.
pub fn write(io: &mut Io, to: Target, offset: u64, from: &mut impl Source) -> Result<u64> {
    let mut total = 0;
    let mut tries = TRIES;
    while from.left() > 0 && tries > 0 {
        let at = if offset == AT_OFFSET { AT_OFFSET } else { offset + total };
        let small = from.left() <= DATA_BYTES as u64;
        let by_server = small
            && (at == AT_OFFSET || to.is_kept)
            && (to.write_only || io.fds.windows.is_first(to.inode));
        let written = match by_server {
            true => write_small(io, to.desc, at, from),
            false => write_piece(io, to, at, from),
        };
        match written {
            Ok(Written { done, is_last }) => {
                total += done;
                tries = if done > 0 { TRIES } else { tries - 1 };
                if is_last {
                    break;
                }
            }
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(total)
}

/// The same, while no thread without the lock writes to the same bytes. Where all kinds of files are told apart it is a call.
#[inline(never)]
fn write_apart(io: &mut Io, to: Target, at: Option<u64>, from: &mut impl Source) -> Result<u64> {
    let part = at.map_or((0, u64::MAX), |at| (at, at.saturating_add(from.left())));
    let _writing = Writing::begin_locked(to.inode, part);
    write(io, to, at.unwrap_or(AT_OFFSET), from)
}

/// All that is left, by one request.
fn write_small(io: &mut Io, desc: u32, offset: u64, from: &mut impl Source) -> Result<Written> {
    let wanted = from.left();
    let had = from.gather_to(io, server::data(wanted as usize)).some()?;
    let done = server::call_filled(op::WriteAt { desc, offset }, had)?.count;
    Ok(Written { done, is_last: done < wanted })
}

/// One piece for which there is room.
fn write_piece(io: &mut Io, to: Target, offset: u64, from: &mut impl Source) -> Result<Written> {
    let Target { desc, inode, .. } = to;
    let wanted = from.left().min(WRITE_PIECE);
    // The first byte is looked at before the file grows: a bad address leaves no trace.
    from.probe(io)?;
    let part = server::call(op::WriteBegin { desc, offset, bytes: wanted })?;
    let mut place = Part { inode, ..part };
    let mut short = None;
    while place.bytes > 0 && short.is_none() {
        short = match to.write_only {
            true => send(io, to, &mut place, from),
            false => store(io, to, &mut place, from),
        };
    }
    let done = part.bytes - place.bytes;
    if done < part.bytes && offset == AT_OFFSET {
        move_back(desc, part.offset + done);
    }
    // Somebody waits for that, who would find nothing there before.
    if part.tell && !to.write_only {
        let _ = server::call(op::Wrote { desc });
    }
    match short {
        // Others have truncated the file meanwhile; what is written goes behind its end.
        Some(Short::Window) => Ok(Written { done, is_last: false }),
        Some(Short::Program(error)) if done == 0 => Err(error),
        _ => Ok(Written { done, is_last: done < wanted }),
    }
}

/// Copies the next bytes to `place` by way of a window. `place` moves. Returns why there can be no more.
fn store(io: &mut Io, to: Target, place: &mut Part, from: &mut impl Source) -> Option<Short> {
    let wanted = place.bytes as usize;
    let moved = windows::with(io, to.desc, place, true, |io, view| match view {
        View::Bytes(target) => Ok(from.gather_to(io, target.first(wanted))),
        View::Hole(_) => Err(Errno::ENOSPC),
    });
    let moved = match moved.flatten() {
        Ok(moved) => moved,
        Err(Errno::ENXIO) => return Some(Short::Window),
        Err(error) => return Some(Short::Program(error)),
    };
    advance(place, moved.bytes as u64);
    if moved.short == Some(Short::Window) {
        let page = place.offset / PAGE;
        if server::call(op::BringIn { desc: to.desc, page, alone: false }).is_ok() {
            return None;
        }
        windows::lost(&mut io.fds, to.inode);
    }
    if moved.bytes == 0 && moved.short.is_none() {
        return Some(Short::Program(Errno::EFAULT));
    }
    moved.short
}

/// Has `unixd` copy the next bytes to `place`. `place` moves. Returns why there can be no more.
fn send(io: &mut Io, to: Target, place: &mut Part, from: &mut impl Source) -> Option<Short> {
    let moved = from.gather_to(io, server::data(place.bytes.min(DATA_BYTES as u64) as usize));
    if moved.bytes == 0 {
        return moved.short.or(Some(Short::Program(Errno::EFAULT)));
    }
    let request = op::WriteAt { desc: to.desc, offset: place.offset };
    match server::call_filled(request, moved.bytes) {
        Ok(reply) => {
            advance(place, reply.count.min(place.bytes));
            moved.short
        }
        Err(error) => Some(Short::Program(error)),
    }
}

fn advance(place: &mut Part, bytes: u64) {
    place.offset += bytes;
    place.bytes -= bytes;
}
