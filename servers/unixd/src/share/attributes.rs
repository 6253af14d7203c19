//! What is said of files, and changed.

use super::exchange::Answer;
use super::{Origin, Visit};
use credentials::Capability;
use memfs::{READ, WRITE};
use ninep::{Attributes, Changes, Moment, Request, Space};
use unixproto::files::{Stat, KEEP_ID, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, TIME_NOW, TIME_OMIT};
use unixproto::{op, Errno};

/// Device number of the folder of the host.
pub const DEVICE: u64 = 5;
/// Its number for `statfs`, that of the protocol on Linux.
const MAGIC: u64 = 0x0102_1997;
/// That of ext4.
const EXT4: u64 = 0xef53;
/// `ST_VALID`, `ST_RDONLY`.
const VALID: u64 = 0x20;
const READ_ONLY: u64 = 1;

impl Visit<'_> {
    /// `struct stat` of a node.
    pub fn stat(&self, node: u32) -> Result<Stat, Errno> {
        Ok(self.shown(&self.attributes(node)?))
    }

    /// That of an open file. One without a name has none left.
    pub fn stat_open(&self, fid: u32, node: u32) -> Result<Stat, Errno> {
        match self.attributes_of(fid) {
            // The host looks for it by its name.
            Err(Errno::ENOENT) => {
                let last = self.known(node, |known| known.attributes)?;
                Ok(Stat { nlink: 0, ..self.shown(&last) })
            }
            attributes => Ok(self.shown(&attributes?)),
        }
    }

    fn shown(&self, attributes: &Attributes) -> Stat {
        let (uid, gid) = self.owner(attributes);
        let (dev, rdev) = match &self.share.origin {
            Origin::Host(_) => (DEVICE, attributes.device),
            // The disk itself has no name among its files.
            Origin::Disk(disk) if attributes.qid.path == 0 => (disk.device(), disk.device()),
            Origin::Disk(disk) => (disk.device(), attributes.device),
        };
        Stat {
            dev,
            ino: attributes.qid.path,
            nlink: attributes.links,
            mode: attributes.mode,
            uid,
            gid,
            rdev,
            size: attributes.size.min(i64::MAX as u64) as i64,
            blksize: attributes.block.clamp(512, 1 << 30) as _,
            blocks: attributes.blocks.min(i64::MAX as u64) as i64,
            atime: attributes.accessed,
            mtime: attributes.modified,
            ctime: attributes.changed,
        }
    }

    /// `access`.
    pub fn access(&self, node: u32, wanted: u32) -> Result<(), Errno> {
        let attributes = self.attributes(node)?;
        let is_kept = matches!(attributes.mode & S_IFMT, S_IFREG | S_IFDIR | S_IFLNK);
        if wanted & WRITE != 0 && self.share.is_read_only() && is_kept {
            return Err(Errno::EROFS);
        }
        self.permits(&attributes, wanted)
    }

    /// `EROFS` if nothing may be changed.
    pub(super) fn writes(&self) -> Result<(), Errno> {
        match self.share.is_read_only() {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    fn owns(&self, attributes: &Attributes) -> Result<(), Errno> {
        let is_owner = self.owner(attributes).0 == self.cred.uid;
        match is_owner || self.cred.caps.has(Capability::Fowner) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    fn set(&self, node: u32, changes: Changes) -> Result<(), Errno> {
        self.done(&Request::SetAttributes { fid: self.fid(node)?, changes })
    }

    /// `chmod`.
    pub fn chmod(&self, node: u32, mode: u32) -> Result<(), Errno> {
        let attributes = self.attributes(node)?;
        self.writes()?;
        self.owns(&attributes)?;
        if attributes.mode & S_IFMT == S_IFLNK {
            return Err(Errno::EOPNOTSUPP);
        }
        self.set(node, Changes { mode: Some(mode & 0o7777), ..Changes::default() })
    }

    /// `chown`. There is one owner who has a name on the host: the administrator. `EINVAL`: another one, as where only some
    /// ids mean something.
    pub fn chown(&self, node: u32, op: op::Chown) -> Result<(), Errno> {
        let attributes = self.attributes(node)?;
        self.writes()?;
        let (uid, gid) = self.owner(&attributes);
        let own = match &self.share.origin {
            Origin::Host(owner) => *owner,
            Origin::Disk(_) => return self.chown_any(node, &attributes, op),
        };
        let new = |wanted: u32, now: u32, own: u32| match wanted {
            KEEP_ID => Ok(None),
            same if same == now => Ok(None),
            0 => Ok(Some(own)),
            _ => Err(Errno::EINVAL),
        };
        let same = |wanted: u32, now: u32| wanted == KEEP_ID || wanted == now;
        let is_kept = same(op.uid, uid) && same(op.gid, gid);
        let may = self.cred.caps.has(Capability::Chown)
            || is_kept && uid == self.cred.uid
            || (op.uid, op.gid) == (KEEP_ID, KEEP_ID);
        if !may {
            return Err(Errno::EPERM);
        }
        let changes = Changes {
            uid: new(op.uid, uid, own.uid)?,
            gid: new(op.gid, gid, own.gid)?,
            ..Changes::default()
        };
        match changes == Changes::default() {
            true => Ok(()),
            false => self.set(node, changes),
        }
    }

    /// The same where each user has a name.
    fn chown_any(&self, node: u32, now: &Attributes, op: op::Chown) -> Result<(), Errno> {
        let wanted = |id: u32| (id != KEEP_ID).then_some(id);
        let (uid, gid) = (wanted(op.uid), wanted(op.gid));
        let is_own = now.uid == self.cred.uid;
        let keeps_owner = uid.is_none_or(|uid| is_own && uid == now.uid);
        let may_group = gid.is_none_or(|gid| is_own && (gid == now.gid || gid == self.cred.gid));
        if !(self.cred.caps.has(Capability::Chown) || keeps_owner && may_group) {
            return Err(Errno::EPERM);
        }
        match (uid, gid) {
            (None, None) => Ok(()),
            _ => self.set(node, Changes { uid, gid, ..Changes::default() }),
        }
    }

    /// `utimensat`.
    pub fn set_times(&self, node: u32, op: op::SetTimes) -> Result<(), Errno> {
        if op.atime == TIME_OMIT && op.mtime == TIME_OMIT {
            return Ok(());
        }
        let attributes = self.attributes(node)?;
        self.writes()?;
        if let Err(error) = self.owns(&attributes) {
            match op.atime == TIME_NOW && op.mtime == TIME_NOW {
                true => self.permits(&attributes, WRITE)?,
                false => return Err(error),
            }
        }
        let moment = |time| match time {
            TIME_OMIT => None,
            TIME_NOW => Some(Moment::Now),
            time => Some(Moment::At(time)),
        };
        let (accessed, modified) = (moment(op.atime), moment(op.mtime));
        self.set(node, Changes { accessed, modified, ..Changes::default() })
    }

    /// `truncate`.
    pub fn truncate(&self, node: u32, size: u64) -> Result<(), Errno> {
        let attributes = self.attributes(node)?;
        match attributes.mode & S_IFMT {
            S_IFDIR => return Err(Errno::EISDIR),
            S_IFREG => {}
            _ => return Err(Errno::EINVAL),
        }
        self.writes()?;
        self.permits(&attributes, WRITE)?;
        self.set(node, Changes { size: Some(size), ..Changes::default() })
    }

    /// `ftruncate`.
    pub fn truncate_open(&self, fid: u32, size: u64) -> Result<(), Errno> {
        let changes = Changes { size: Some(size), ..Changes::default() };
        self.done(&Request::SetAttributes { fid, changes })
    }

    /// May the process read a directory, or pass it?
    pub fn check_dir(&self, node: u32, wanted: u32) -> Result<(), Errno> {
        let attributes = self.attributes(node)?;
        if attributes.mode & S_IFMT != S_IFDIR {
            return Err(Errno::ENOTDIR);
        }
        self.permits(&attributes, wanted & (READ | WRITE | memfs::EXEC))
    }

    /// `statfs`: words of `struct statfs`.
    pub fn space(&self, node: u32) -> Result<[u64; 15], Errno> {
        let Answer::Space(space) = self.ask(&Request::Space { fid: self.fid(node)? })?.0 else {
            return Err(Errno::EIO);
        };
        let Space { block, blocks, free, available, files, files_free, id, name } = space;
        let block = u64::from(block);
        let flags = VALID | if self.share.is_read_only() { READ_ONLY } else { 0 };
        let name = u64::from(name);
        let magic = match &self.share.origin {
            Origin::Host(_) => MAGIC,
            Origin::Disk(_) => EXT4,
        };
        Ok([
            magic, block, blocks, free, available, files, files_free, id, name, block, flags, 0, 0,
            0, 0,
        ])
    }
}
