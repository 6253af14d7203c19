//! Requests, and what is answered.

use crate::cache::Cache;
use crate::disk::{Disk, SECTOR};
use crate::errno::Errno;
use crate::volume::{Maker, Now, Volume};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use core::cell::RefCell;
use ninep::serve::{Asked, FILES, FILES_READ_ONLY, MESSAGE, WHOLE_FID};
use ninep::{Attributes, Changes, Qid, Reply, Request};
use rsext4::DirectoryReader;

const O_APPEND: u32 = 0o2000;
const O_TRUNC: u32 = 0o1000;
const O_EXCL: u32 = 0o200;
/// The disk among files: no inode has this number.
const WHOLE: u64 = 0;
/// Its type, for its owner alone.
const BLOCK_DEVICE: u32 = 0o060_600;
/// Most fids.
const FIDS: usize = 1 << 17;

/// What a fid is.
enum Fid {
    /// The disk.
    Whole,
    /// A file.
    File {
        number: u32,
        /// Where its entries are looked at, of a directory that is open.
        reader: Option<DirectoryReader>,
        /// What is written to it is written to its end.
        appends: bool,
    },
}

/// A disk and its file system, for one client.
pub struct Server<D: Disk> {
    disk: Rc<RefCell<Cache<D>>>,
    now: Now,
    volume: Option<Volume<D>>,
    /// The fid that has mounted it.
    root: Option<u32>,
    fids: BTreeMap<u32, Fid>,
}

impl<D: Disk> Server<D> {
    /// Of a disk of which nobody knows yet what is on it.
    pub fn new(disk: D, now: Now) -> Server<D> {
        let disk = Rc::new(RefCell::new(Cache::new(disk)));
        Server {
            disk,
            now,
            volume: None,
            root: None,
            fids: BTreeMap::from([(WHOLE_FID, Fid::Whole)]),
        }
    }

    /// Answers a request. Returns the bytes of the answer; none: it was no request.
    pub fn answer(&mut self, request: &[u8], to: &mut [u8]) -> usize {
        let Ok(asked) = Asked::decode(request) else { return 0 };
        // What is read goes through a buffer: the answer has a head, which says how much it was.
        let mut data = vec![0; MESSAGE];
        let (kind, tag) = (asked.request.kind(), asked.tag);
        let reply = self.reply(&asked, &mut data);
        let reply = reply.unwrap_or_else(|error| Reply::Refused(error.0));
        reply.encode(kind, tag, to).unwrap_or(0)
    }

    /// Is there a file system?
    pub fn is_mounted(&self) -> bool {
        self.volume.is_some()
    }

    fn volume(&mut self) -> Result<&mut Volume<D>, Errno> {
        self.volume.as_mut().ok_or(Errno::EIO)
    }

    fn fid(&self, fid: u32) -> Result<&Fid, Errno> {
        self.fids.get(&fid).ok_or(Errno::EBADF)
    }

    /// The file that a fid is, and the file system.
    fn file(&mut self, fid: u32) -> Result<(u32, &mut Volume<D>), Errno> {
        match self.fid(fid)? {
            Fid::Whole => Err(Errno::EINVAL),
            &Fid::File { number, .. } => Ok((number, self.volume()?)),
        }
    }

    fn add(&mut self, fid: u32, what: Fid) -> Result<(), Errno> {
        if self.fids.contains_key(&fid) || self.fids.len() >= FIDS {
            return Err(Errno::EBADF);
        }
        if let Fid::File { number, .. } = what {
            self.volume()?.hold(number);
        }
        self.fids.insert(fid, what);
        Ok(())
    }

    fn attach(&mut self, fid: u32, name: &[u8]) -> Result<Qid, Errno> {
        let read_only = match name {
            FILES => false,
            FILES_READ_ONLY => true,
            _ => return Err(Errno::ENOENT),
        };
        if self.volume.is_some() {
            return Err(Errno::EBUSY);
        }
        let mut volume = Volume::mount(self.disk.clone(), self.now, read_only)?;
        let number = volume.root();
        let qid = volume.qid(number)?;
        self.volume = Some(volume);
        self.root = Some(fid);
        self.add(fid, Fid::File { number, reader: None, appends: false })?;
        Ok(qid)
    }

    fn clunk(&mut self, fid: u32) -> Result<(), Errno> {
        if self.root == Some(fid) {
            self.fids.retain(|_, fid| matches!(fid, Fid::Whole));
            self.root = None;
            let done = self.volume.take().map_or(Ok(()), Volume::unmount);
            self.disk.borrow_mut().clear();
            return done;
        }
        match self.fids.remove(&fid).ok_or(Errno::EBADF)? {
            Fid::Whole => Ok(()),
            Fid::File { number, .. } => self.volume()?.release(number),
        }
    }

    fn walk(&mut self, fid: u32, new: u32, name: Option<&[u8]>) -> Result<Option<Qid>, Errno> {
        let (number, qid) = match (self.fid(fid)?, name) {
            (Fid::Whole, None) => {
                self.add(new, Fid::Whole)?;
                return Ok(None);
            }
            (Fid::Whole, Some(_)) => return Err(Errno::ENOTDIR),
            (&Fid::File { number, .. }, None) => (number, None),
            (&Fid::File { number, .. }, Some(name)) => {
                let (found, qid) = self.volume()?.lookup(number, name)?;
                (found, Some(qid))
            }
        };
        self.add(new, Fid::File { number, reader: None, appends: false })?;
        Ok(qid)
    }

    fn open(&mut self, fid: u32, flags: u32) -> Result<Qid, Errno> {
        if let Fid::Whole = self.fid(fid)? {
            return Ok(Qid { kind: 0, version: 0, path: WHOLE });
        }
        let (number, volume) = self.file(fid)?;
        let qid = volume.qid(number)?;
        if flags & O_TRUNC != 0 {
            volume.set(number, Changes { size: Some(0), ..Changes::default() })?;
        }
        let new = match qid.kind & 0x80 {
            0 => None,
            _ => Some(volume.reader(number)?),
        };
        if let Some(Fid::File { reader, appends, .. }) = self.fids.get_mut(&fid) {
            (*reader, *appends) = (new, flags & O_APPEND != 0);
        }
        Ok(qid)
    }

    /// Makes a file, which the fid of its directory is from now on.
    fn create(
        &mut self,
        fid: u32,
        name: &[u8],
        (flags, mode): (u32, u32),
        maker: Maker,
    ) -> Result<Qid, Errno> {
        let (dir, volume) = self.file(fid)?;
        let number = match volume.create(dir, name, mode, maker) {
            Err(Errno::EEXIST) if flags & O_EXCL == 0 => {
                let (number, qid) = volume.lookup(dir, name)?;
                match qid.kind {
                    0 => number,
                    _ => return Err(Errno::EEXIST),
                }
            }
            number => number?,
        };
        let qid = volume.qid(number)?;
        volume.hold(number);
        let appends = flags & O_APPEND != 0;
        self.fids.insert(fid, Fid::File { number, reader: None, appends });
        self.volume()?.release(dir)?;
        Ok(qid)
    }

    fn attributes(&mut self, fid: u32) -> Result<Attributes, Errno> {
        if let Fid::Whole = self.fid(fid)? {
            let size = self.disk.borrow().disk().sectors() * SECTOR as u64;
            let block = 4096;
            return Ok(Attributes {
                mode: BLOCK_DEVICE,
                links: 1,
                size,
                block,
                ..Default::default()
            });
        }
        let (number, volume) = self.file(fid)?;
        volume.attributes(number)
    }

    fn read(&mut self, fid: u32, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        match self.fid(fid)? {
            Fid::Whole => self.read_disk(offset, to),
            &Fid::File { number, .. } => self.volume()?.read(number, offset, to),
        }
    }

    fn write(&mut self, fid: u32, offset: u64, from: &[u8], user: u32) -> Result<usize, Errno> {
        match self.fid(fid)? {
            // The library does not know of it.
            Fid::Whole if self.volume.is_some() => Err(Errno::EBUSY),
            Fid::Whole => self.write_disk(offset, from),
            &Fid::File { number, appends, .. } => {
                let volume = self.volume()?;
                let offset = if appends { volume.attributes(number)?.size } else { offset };
                volume.write(number, offset, from, user)
            }
        }
    }

    /// The part of a range that is on the disk, and the sectors in which it lies.
    fn on_disk(&self, offset: u64, bytes: usize) -> (usize, u64, usize) {
        let size = self.disk.borrow().disk().sectors() * SECTOR as u64;
        let bytes = size.saturating_sub(offset).min(bytes as u64);
        let first = offset / SECTOR as u64;
        let sectors = (offset + bytes).div_ceil(SECTOR as u64) - first;
        (bytes as usize, first, sectors as usize)
    }

    fn read_disk(&self, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        let (bytes, first, sectors) = self.on_disk(offset, to.len());
        if bytes == 0 {
            return Ok(0);
        }
        let mut buffer = vec![0; sectors * SECTOR];
        self.disk.borrow_mut().read(first, &mut buffer).map_err(|_| Errno::EIO)?;
        let from = (offset % SECTOR as u64) as usize;
        to[..bytes].copy_from_slice(&buffer[from..from + bytes]);
        Ok(bytes)
    }

    fn write_disk(&self, offset: u64, from: &[u8]) -> Result<usize, Errno> {
        let (bytes, first, sectors) = self.on_disk(offset, from.len());
        let mut disk = self.disk.borrow_mut();
        if disk.disk().is_read_only() {
            return Err(Errno::EPERM);
        }
        if bytes == 0 {
            return if from.is_empty() { Ok(0) } else { Err(Errno::ENOSPC) };
        }
        let mut buffer = vec![0; sectors * SECTOR];
        let at = (offset % SECTOR as u64) as usize;
        if at != 0 || bytes < buffer.len() {
            disk.read(first, &mut buffer).map_err(|_| Errno::EIO)?;
        }
        buffer[at..at + bytes].copy_from_slice(&from[..bytes]);
        disk.write(first, &buffer).map_err(|_| Errno::EIO)?;
        Ok(bytes)
    }

    fn sync(&mut self) -> Result<(), Errno> {
        if let Some(volume) = &mut self.volume {
            volume.sync()?;
        }
        let mut disk = self.disk.borrow_mut();
        match disk.disk().is_read_only() {
            true => Ok(()),
            false => disk.flush().map_err(|_| Errno::EIO),
        }
    }

    fn reply<'a>(&mut self, asked: &Asked, data: &'a mut [u8]) -> Result<Reply<'a>, Errno> {
        let maker = |gid| Maker { uid: asked.user, gid };
        let most = data.len() - ninep::OVERHEAD;
        match asked.request {
            Request::Version { message } if message as usize == MESSAGE => {
                Ok(Reply::Version(message, ninep::VERSION))
            }
            Request::Version { .. } => Err(Errno::EINVAL),
            Request::Attach { fid, name, .. } => self.attach(fid, name).map(Reply::File),
            Request::Walk { fid, new, name } => {
                let qid = self.walk(fid, new, name)?;
                Ok(qid.map_or(Reply::Done, Reply::File))
            }
            Request::Open { fid, flags } => self.open(fid, flags).map(Reply::Opened),
            Request::Create { fid, name, flags, mode, gid } => {
                self.create(fid, name, (flags, mode), maker(gid)).map(Reply::Opened)
            }
            Request::Read { fid, offset, bytes } => {
                let most = most.min(bytes as usize);
                let bytes = self.read(fid, offset, &mut data[..most])?;
                Ok(Reply::Bytes(&data[..bytes]))
            }
            Request::Write { fid, offset, data } => {
                self.write(fid, offset, data, asked.user).map(|bytes| Reply::Count(bytes as u32))
            }
            Request::Clunk { fid } => self.clunk(fid).map(|()| Reply::Done),
            Request::GetAttributes { fid } => self.attributes(fid).map(Reply::Attributes),
            Request::SetAttributes { fid, changes } => {
                let (number, volume) = self.file(fid)?;
                volume.set(number, changes).map(|()| Reply::Done)
            }
            Request::ReadDirectory { fid, offset, bytes } => {
                let most = most.min(bytes as usize);
                let volume = self.volume.as_mut().ok_or(Errno::EIO)?;
                let Some(Fid::File { reader: Some(reader), .. }) = self.fids.get_mut(&fid) else {
                    return Err(Errno::ENOTDIR);
                };
                let bytes = volume.entries(reader, offset, &mut data[..most])?;
                Ok(Reply::Bytes(&data[..bytes]))
            }
            Request::Sync { .. } => self.sync().map(|()| Reply::Done),
            Request::MakeDirectory { fid, name, mode, gid } => {
                let (dir, volume) = self.file(fid)?;
                volume.make_directory(dir, name, mode, maker(gid)).map(Reply::File)
            }
            Request::MakeNode { fid, name, mode, major, minor, gid } => {
                let (dir, volume) = self.file(fid)?;
                let what = (mode, major, minor);
                volume.make_node(dir, name, what, maker(gid)).map(Reply::File)
            }
            Request::Symlink { fid, name, text, gid } => {
                let (dir, volume) = self.file(fid)?;
                volume.symlink(dir, name, text, maker(gid)).map(Reply::File)
            }
            Request::Link { dir, fid, name } => {
                let (number, _) = self.file(fid)?;
                let (dir, volume) = self.file(dir)?;
                volume.link(number, dir, name).map(|()| Reply::Done)
            }
            Request::Rename { from, old, to, new } => {
                let (source, _) = self.file(from)?;
                let (target, volume) = self.file(to)?;
                volume.rename(source, old, target, new).map(|()| Reply::Done)
            }
            Request::Unlink { fid, name, directory } => {
                let (dir, volume) = self.file(fid)?;
                volume.unlink(dir, name, directory).map(|()| Reply::Done)
            }
            Request::ReadLink { fid } => {
                let (number, volume) = self.file(fid)?;
                let bytes = volume.text(number, &mut data[..4096])?;
                Ok(Reply::Bytes(&data[..bytes]))
            }
            Request::Space { fid } => {
                let (_, volume) = self.file(fid)?;
                Ok(Reply::Space(volume.space()))
            }
        }
    }
}
