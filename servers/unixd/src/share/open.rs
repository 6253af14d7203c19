//! Opening, reading and writing.

use super::exchange::Answer;
use super::Visit;
use alloc::rc::Rc;
use memfs::{EXEC, READ, WRITE};
use ninep::Request;
use unixproto::files::*;
use unixproto::{op, Errno};

/// What the host is told of the flags of `open`.
const TOLD: u32 = O_ACCMODE | O_TRUNC | O_APPEND | O_DIRECTORY | O_SYNC;
/// `O_DSYNC`, and what `O_SYNC` is more than that.
const O_SYNC: u32 = 0o4_010_000;

/// A file of the host that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFile {
    /// What its path has led to.
    pub node: u32,
    /// The host's number for the open file.
    pub fid: u32,
    /// It is a directory.
    pub is_dir: bool,
    /// The host's number for the file, however it is opened.
    pub number: u64,
}

impl Visit<'_> {
    /// May a node be opened like that?
    fn may_open(&self, node: u32, op: op::Open) -> Result<bool, Errno> {
        let attributes = self.attributes(node)?;
        let kind = attributes.mode & S_IFMT;
        let is_dir = kind == S_IFDIR;
        if kind == S_IFLNK {
            return Err(Errno::ELOOP);
        }
        if op.flags & O_DIRECTORY != 0 && !is_dir {
            return Err(Errno::ENOTDIR);
        }
        let mut wanted = match op.flags & O_ACCMODE {
            O_RDONLY => READ,
            O_WRONLY => WRITE,
            _ => READ | WRITE,
        };
        if op.flags & O_TRUNC != 0 {
            wanted |= WRITE;
        }
        if is_dir && (wanted & WRITE != 0 || op.flags & O_CREAT != 0) {
            return Err(Errno::EISDIR);
        }
        if op.extra & OPEN_EXEC != 0 {
            if kind != S_IFREG {
                return Err(Errno::EACCES);
            }
            wanted = EXEC;
        }
        if wanted & WRITE != 0 {
            self.writes()?;
        }
        self.permits(&attributes, wanted)?;
        match kind {
            S_IFREG | S_IFDIR => Ok(is_dir),
            // Those of the host are not of this machine.
            S_IFCHR | S_IFBLK => Err(Errno::EACCES),
            _ => Err(Errno::ENXIO),
        }
    }

    /// Opens a node. The file is the caller's, who closes it; the node is held as long.
    pub fn open(&self, node: u32, op: op::Open) -> Result<OpenFile, Errno> {
        let is_dir = self.may_open(node, op)?;
        let (_, index) = self.ask(&Request::Walk { fid: self.fid(node)?, new: 0, name: None })?;
        let (fid, _) = self.share.parts.borrow().exchange.made(self.tid, index)?;
        let flags = told(op, is_dir);
        let Answer::Opened(qid) = self.ask(&Request::Open { fid, flags })?.0 else {
            return Err(Errno::EIO);
        };
        self.take(index);
        Ok(OpenFile { node, fid, is_dir, number: self.number(qid.path) })
    }

    /// Makes a regular file, and opens it.
    pub fn create(&self, dir: u32, name: &[u8], op: op::Open) -> Result<OpenFile, Errno> {
        let gid = self.group_in(&self.may_change(dir)?);
        let (_, index) = self.ask(&Request::Walk { fid: self.fid(dir)?, new: 0, name: None })?;
        let (fid, _) = self.share.parts.borrow().exchange.made(self.tid, index)?;
        let (flags, mode) = (told(op, false) | op.flags & O_EXCL, op.mode & 0o7777);
        let request = Request::Create { fid, name, flags, mode, gid };
        let Answer::Opened(qid) = self.ask(&request)?.0 else { return Err(Errno::EIO) };
        let node = self.find(dir, name)?;
        self.take(index);
        Ok(OpenFile { node, fid, is_dir: false, number: self.number(qid.path) })
    }

    /// The number of a file among those of all folders.
    fn number(&self, path: u64) -> u64 {
        path ^ u64::from(self.share.root()) << 32
    }

    /// A fid of the request's log belongs to the caller.
    pub(super) fn take(&self, index: usize) {
        self.share.parts.borrow_mut().exchange.becomes(self.tid, index, None);
    }

    /// Reads at an offset, at most `most` bytes.
    pub fn read(&self, fid: u32, offset: u64, most: usize) -> Result<Rc<[u8]>, Errno> {
        self.bytes(&Request::Read { fid, offset, bytes: most as u32 }, most)
    }

    /// Entries of a directory from a cookie on.
    pub fn entries(&self, fid: u32, offset: u64, most: usize) -> Result<Rc<[u8]>, Errno> {
        self.bytes(&Request::ReadDirectory { fid, offset, bytes: most as u32 }, most)
    }

    fn bytes(&self, request: &Request, most: usize) -> Result<Rc<[u8]>, Errno> {
        match self.ask(request)?.0 {
            Answer::Bytes(bytes) if bytes.len() <= most => Ok(bytes),
            _ => Err(Errno::EIO),
        }
    }

    /// Writes at an offset. Returns how many bytes.
    pub fn write(&self, fid: u32, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        match self.ask(&Request::Write { fid, offset, data })?.0 {
            Answer::Count(count) if count as usize <= data.len() => Ok(count as usize),
            _ => Err(Errno::EIO),
        }
    }

    /// Bytes of an open file.
    pub fn size(&self, file: OpenFile) -> Result<u64, Errno> {
        Ok(self.stat_open(file.fid, file.node)?.size as u64)
    }

    /// Returns when what was written is stored on the host.
    pub fn sync(&self, fid: u32) -> Result<(), Errno> {
        self.done(&Request::Sync { fid, data_only: false })
    }

    /// The numbers of a directory and of the one that it is in.
    pub fn numbers(&self, node: u32) -> Result<[u64; 2], Errno> {
        let number = |node| self.known(node, |known| known.attributes.qid.path);
        let parent = self.known(node, |known| known.parent)?;
        Ok([number(node)?, number(parent)?])
    }
}

/// The flags that the host is told.
fn told(op: op::Open, is_dir: bool) -> u32 {
    let directory = if is_dir { O_DIRECTORY } else { 0 };
    op.flags & TOLD | directory
}
