//! Regular files: `unixd` says which bytes are meant (and moves the offset, and makes room), then they
//! are copied here, from or to windows on the file's extents. What is only written has no windows:
//! whoever could write through one could read.

use crate::errno::{Errno, Result};
use crate::fd::alone;
use crate::fd::buffers::Cursor;
use crate::fd::ops::{Contents, FileOps, Handle, Mapped, Server};
use crate::fd::stream;
use crate::fd::transfer::Source;
use crate::fd::windows::{self, View};
use crate::mm;
use crate::process::Process;
use crate::server::{self, op};
use unixproto::files::{
    Kind, Stat, AT_EMPTY_PATH, AT_OFFSET, O_ACCMODE, O_WRONLY, SEEK_SET, STAT_BYTES,
};
use unixproto::ops::{Opened, Part};
use unixproto::session::DATA_BYTES;

/// An open regular file.
#[derive(Clone, Copy)]
pub struct Regular {
    desc: u32,
    inode: u64,
}

impl FileOps for Regular {
    const SERVED: Option<Kind> = Some(Kind::Regular);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Regular> {
        Some(Regular { desc: opened.desc, inode: opened.inode })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn windows(&self) -> [Option<u64>; 2] {
        [Some(self.inode), None]
    }
    fn read(
        &self,
        p: &mut Process,
        file: Handle,
        at: Option<u64>,
        to: &mut Cursor,
    ) -> Result<u64> {
        if to.left() == 0 {
            return Ok(0);
        }
        let kept = if at.is_none() { p.fds.kept_offset(file.index) } else { None };
        let done = read(p, self.desc, self.inode, at.or(kept).unwrap_or(AT_OFFSET), to)?;
        if let Some(offset) = kept {
            p.fds.keep_offset(file.index, offset + done);
        }
        Ok(done)
    }
    fn write(
        &self,
        p: &mut Process,
        file: Handle,
        at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        if at.is_none() {
            alone::give_back(p, file.index, self.desc);
        }
        let write_only = file.flags & O_ACCMODE == O_WRONLY;
        let to = Target { desc: self.desc, inode: self.inode, write_only };
        write(p, to, at.unwrap_or(AT_OFFSET), from)
    }
    fn seek(&self, p: &mut Process, file: Handle, offset: i64, whence: u32) -> Result<u64> {
        alone::seek(p, file.index, self.desc, offset, whence)
    }
    fn ioctl(&self, p: &mut Process, _: Handle, command: u32, arg: u64) -> Result<u64> {
        stream::available(p, self.desc, command, arg)
    }
    fn map(&self) -> Result<Mapped> {
        self.contents().map(Mapped::Contents)
    }
    fn contents(&self) -> Result<Contents> {
        Ok(Contents { desc: self.desc, inode: self.inode })
    }
    fn truncate(&self, p: &mut Process, size: u64) -> Result<u64> {
        let file = server::call(op::Truncate { dir: self.desc, size, flags: AT_EMPTY_PATH })?;
        mm::truncated(p, file.inode, size);
        Ok(0)
    }
    /// Only ever makes the file longer: its holes stay holes.
    fn allocate(&self, end: Option<u64>) -> Result<u64> {
        self.stat()?;
        let stat: &[u8; STAT_BYTES] =
            server::data(STAT_BYTES).try_into().map_err(|_| Errno::EIO)?;
        let size = Stat::from_bytes(stat).size as u64;
        if let Some(size) = end.filter(|end| *end > size) {
            server::call(op::Truncate { dir: self.desc, size, flags: AT_EMPTY_PATH })?;
        }
        Ok(0)
    }
    /// Nothing is ever behind.
    fn sync(&self) -> Result<u64> {
        Ok(0)
    }
    fn share(&self, p: &mut Process, file: Handle) -> Result<()> {
        alone::give_back(p, file.index, self.desc);
        Ok(())
    }
}

/// Most bytes that one request writes: what is asked for is made resident first.
const WRITE_PIECE: u64 = 4 << 20;

static ZEROS: [u8; 4096] = [0; 4096];

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

impl Source for FilePieces {
    fn left(&self) -> u64 {
        self.part.bytes
    }
    fn next(&mut self, p: &mut Process, max: u64) -> Result<&'static [u8]> {
        let max = max.min(self.part.bytes);
        if max == 0 {
            return Ok(&[]);
        }
        let piece = match windows::view(p, self.desc, &mut self.part, false)? {
            View::Bytes(bytes) => {
                let n = (bytes.len() as u64).min(max) as usize;
                &bytes[..n]
            }
            View::Hole(bytes) => &ZEROS[..bytes.min(max).min(ZEROS.len() as u64) as usize],
        };
        self.part.offset += piece.len() as u64;
        self.part.bytes -= piece.len() as u64;
        Ok(piece)
    }
}

/// Puts the offset where the copy really ended.
pub fn move_back(desc: u32, offset: u64) {
    let _ = server::call(op::Seek { desc, offset: offset as i64, whence: SEEK_SET });
}

/// Reads at `offset` or [`AT_OFFSET`].
pub fn read(p: &mut Process, desc: u32, inode: u64, offset: u64, to: &mut Cursor) -> Result<u64> {
    to.probe_out(p)?;
    let part = server::call(op::ReadBegin { desc, offset, bytes: to.left() })?;
    let mut pieces = FilePieces::new(desc, inode, part);
    let result = copy_out(p, &mut pieces, to);
    let done = part.bytes - pieces.left();
    if done < part.bytes && offset == AT_OFFSET {
        move_back(desc, part.offset + done);
    }
    match result {
        Err(error) if done == 0 => Err(error),
        _ => Ok(done),
    }
}

fn copy_out(p: &mut Process, pieces: &mut FilePieces, to: &mut Cursor) -> Result<()> {
    while pieces.left() > 0 {
        let target = to.next_out(p, pieces.left())?;
        let mut done = 0;
        while done < target.len() {
            let piece = pieces.next(p, (target.len() - done) as u64)?;
            if piece.is_empty() {
                return Err(Errno::EIO);
            }
            target[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        }
    }
    Ok(())
}

/// A regular file to be written.
#[derive(Clone, Copy)]
pub struct Target {
    pub desc: u32,
    pub inode: u64,
    /// `unixd` gives no windows on the file, so it copies everything itself.
    pub write_only: bool,
}

/// Writes at `offset` or [`AT_OFFSET`]. A write of nothing does nothing.
pub fn write(p: &mut Process, to: Target, offset: u64, from: &mut impl Source) -> Result<u64> {
    let mut total = 0;
    while from.left() > 0 {
        let at = if offset == AT_OFFSET { AT_OFFSET } else { offset + total };
        let small = from.left() <= DATA_BYTES as u64;
        let written = match to.write_only && small && at == AT_OFFSET {
            true => write_small(p, to.desc, from),
            false => write_piece(p, to, at, from),
        };
        match written {
            Ok((done, wanted)) => {
                total += done;
                if done < wanted {
                    break;
                }
            }
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(total)
}

/// All that is left, by one request. Answers how much was done and how much was wanted.
fn write_small(p: &mut Process, desc: u32, from: &mut impl Source) -> Result<(u64, u64)> {
    let wanted = from.left();
    let had = from.gather(p, server::data_mut(wanted as usize))?;
    let done = server::call_filled(op::WriteAt { desc, offset: AT_OFFSET }, had)?.count;
    Ok((done, wanted))
}

/// One piece for which there is room. Answers how much was done and how much was wanted.
fn write_piece(
    p: &mut Process,
    to: Target,
    offset: u64,
    from: &mut impl Source,
) -> Result<(u64, u64)> {
    let Target { desc, inode, .. } = to;
    let wanted = from.left().min(WRITE_PIECE);
    // The first piece is had before the file grows: a bad address leaves no trace.
    let mut piece = from.next(p, wanted)?;
    let part = server::call(op::WriteBegin { desc, offset, bytes: wanted })?;
    let mut place = Part { inode, ..part };
    let mut done = 0;
    let mut result = Ok(());
    while done < part.bytes {
        if piece.is_empty() {
            match from.next(p, part.bytes - done) {
                Ok([]) => break,
                Ok(more) => piece = more,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        match store(p, to, &mut place, piece) {
            Ok(n) => {
                piece = &piece[n..];
                done += n as u64;
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if done < part.bytes && offset == AT_OFFSET {
        move_back(desc, part.offset + done);
    }
    match result {
        Err(error) if done == 0 => Err(error),
        _ => Ok((done, wanted)),
    }
}

/// Copies the start of `piece` to `place`, which moves. Answers how many bytes.
fn store(p: &mut Process, to: Target, place: &mut Part, piece: &[u8]) -> Result<usize> {
    let n = if to.write_only {
        let n = piece.len().min(DATA_BYTES).min(place.bytes as usize);
        let request = op::WriteAt { desc: to.desc, offset: place.offset };
        server::call_a(request, &piece[..n])?.count as usize
    } else {
        let target = windows::view_mut(p, to.desc, place)?;
        let n = target.len().min(piece.len()).min(place.bytes as usize);
        target[..n].copy_from_slice(&piece[..n]);
        n
    };
    place.offset += n as u64;
    place.bytes -= n as u64;
    Ok(n)
}
