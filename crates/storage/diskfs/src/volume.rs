//! The file system on a disk.
//!
//! A file that has no name any more lives as long as somebody knows it: the library lists it as an orphan, and is told when it is over.

use crate::cache::Cache;
use crate::disk::{Disk, SECTOR};
use crate::errno::Errno;
use crate::padding::Padding;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use core::cell::RefCell;
use ninep::serve::EntryWriter;
use ninep::{Attributes, Changes, Moment, Qid, Space};
use rsext4::{
    BlockIo, Clock, DeviceCapabilities, DeviceGeometry, DeviceNumber, DirectoryCursor,
    DirectoryEntryType, DirectoryReader, Ext4, Ext4Error, Ext4ErrorKind, Ext4Result, Ext4Timestamp,
    FileName, FilePermissions, InodeFlags, InodeInfo, InodeMetadataUpdate, InodeNumber,
    MountOptions, MountServices, MountedServices, MutationContext, NoopObserver, RenameOptions,
    SectorId, SpecialInodeKind, UnlinkOutcome,
};

const NANOSECONDS: i64 = 1_000_000_000;
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
/// The kind of a directory in a qid.
const DIRECTORY: u8 = 0x80;
const S_IFLNK: u32 = 0o120_000;
const S_IFREG: u32 = 0o100_000;
const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IXGRP: u32 = 0o010;
/// Behind all entries.
const NO_MORE: u64 = i64::MAX as u64;
/// Blocks that files leave free: what else an operation needs, such as blocks of directories and of trees, is found then. The library would
/// not give back what it has taken before it found no more.
const SPARE: u64 = 32;
/// Entries that are looked for at once.
const ENTRIES: usize = 64;

/// Nanoseconds since 1970.
pub type Now = fn() -> i64;

/// The disk for the library.
struct Device<D> {
    disk: Rc<RefCell<Cache<D>>>,
    padding: Padding,
}

impl<D: Disk> BlockIo for Device<D> {
    fn write(&mut self, buffer: &[u8], sector: SectorId, count: u32) -> Ext4Result<()> {
        let bytes = buffer.get(..count as usize * SECTOR).ok_or_else(Ext4Error::invalid_input)?;
        let mut disk = self.disk.borrow_mut();
        match self.padding.set(sector.raw(), bytes) {
            Some(bytes) => disk.write(sector.raw(), &bytes),
            None => disk.write(sector.raw(), bytes),
        }
        .map_err(failed)
    }

    fn read(&mut self, buffer: &mut [u8], sector: SectorId, count: u32) -> Ext4Result<()> {
        let bytes = count as usize * SECTOR;
        let buffer = buffer.get_mut(..bytes).ok_or_else(Ext4Error::invalid_input)?;
        self.disk.borrow_mut().read(sector.raw(), buffer).map_err(failed)
    }

    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry::new(SECTOR as u32, self.disk.borrow().disk().sectors())
    }

    fn capabilities(&self) -> DeviceCapabilities {
        DeviceCapabilities {
            read_only: self.disk.borrow().disk().is_read_only(),
            flush: true,
            barrier: true,
            ..Default::default()
        }
    }

    fn flush(&mut self) -> Ext4Result<()> {
        self.disk.borrow_mut().flush().map_err(failed)
    }
}

fn failed(_: crate::disk::Failed) -> Ext4Error {
    Ext4Error::new(Ext4ErrorKind::Io)
}

/// What time it is, for the library.
#[derive(Clone, Copy)]
struct Time(Now);

impl Clock for Time {
    fn now(&self) -> Ext4Result<Ext4Timestamp> {
        Ok(stamp((self.0)()))
    }
}

fn stamp(time: i64) -> Ext4Timestamp {
    Ext4Timestamp::new(time.div_euclid(NANOSECONDS), time.rem_euclid(NANOSECONDS) as u32)
}

/// A mounted file system.
pub struct Volume<D: Disk> {
    ext4: Ext4<Device<D>, MountedServices<(), NoopObserver>>,
    now: Now,
    /// How often files are known.
    known: BTreeMap<u32, u32>,
    /// Those of them that have no name.
    nameless: BTreeSet<u32>,
}

/// Who makes a file.
#[derive(Clone, Copy)]
pub struct Maker {
    pub uid: u32,
    pub gid: u32,
}

impl<D: Disk> Volume<D> {
    /// Mounts what is on a disk.
    pub fn mount(disk: Rc<RefCell<Cache<D>>>, now: Now, read_only: bool) -> Result<Self, Errno> {
        let is_protected = disk.borrow().disk().is_read_only();
        if is_protected && !read_only {
            return Err(Errno::EACCES);
        }
        let mut options = MountOptions::read_write();
        if read_only {
            options = MountOptions::read_only_no_journal_replay();
            // What the journal has is as good as on the disk. Of a disk that is never written it stays there.
            options.replay_journal = !is_protected;
        }
        let services = MountServices::new(Time(now), (), NoopObserver);
        let padding = Padding::of(&mut disk.borrow_mut());
        let ext4 = Ext4::mount(Device { disk, padding }, services, options)?;
        Ok(Volume { ext4, now, known: BTreeMap::new(), nameless: BTreeSet::new() })
    }

    /// Writes everything, and says on the disk that nothing is left to be done.
    pub fn unmount(mut self) -> Result<(), Errno> {
        for number in core::mem::take(&mut self.nameless) {
            self.ext4.reap_unlinked_inode(InodeNumber::new(number)?)?;
        }
        Ok(self.ext4.unmount()?)
    }

    pub fn root(&self) -> u32 {
        self.ext4.root_inode().raw()
    }

    /// Somebody knows a file.
    pub fn hold(&mut self, number: u32) {
        *self.known.entry(number).or_default() += 1;
    }

    /// Ends a `hold`.
    pub fn release(&mut self, number: u32) -> Result<(), Errno> {
        let Some(count) = self.known.get_mut(&number) else { return Ok(()) };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.known.remove(&number);
        match self.nameless.remove(&number) {
            true => Ok(self.ext4.reap_unlinked_inode(InodeNumber::new(number)?)?),
            false => Ok(()),
        }
    }

    /// A name is gone.
    fn unlinked(&mut self, outcome: UnlinkOutcome) -> Result<(), Errno> {
        if !outcome.requires_reap() {
            return Ok(());
        }
        let number = outcome.inode.raw();
        match self.known.contains_key(&number) {
            true => {
                self.nameless.insert(number);
                Ok(())
            }
            false => Ok(self.ext4.reap_unlinked_inode(outcome.inode)?),
        }
    }

    /// `ENOSPC` unless there is room for so many bytes more.
    fn has_room(&self, bytes: u64) -> Result<(), Errno> {
        let of = self.ext4.statfs();
        match of.free_blocks >= SPARE + bytes.div_ceil(of.block_size.max(1)) {
            true => Ok(()),
            false => Err(Errno::ENOSPC),
        }
    }

    fn info(&mut self, number: u32) -> Result<InodeInfo, Errno> {
        Ok(self.ext4.inode(InodeNumber::new(number)?)?)
    }

    pub fn attributes(&mut self, number: u32) -> Result<Attributes, Errno> {
        let info = self.info(number)?;
        let time = |seconds: u32| i64::from(seconds as i32) * NANOSECONDS;
        Ok(Attributes {
            qid: qid(&info),
            mode: info.mode.into(),
            uid: info.uid,
            gid: info.gid,
            links: info.links.into(),
            device: info.device_number.map_or(0, device_word),
            size: info.size,
            block: self.ext4.statfs().block_size,
            blocks: info.blocks,
            accessed: time(info.atime),
            modified: time(info.mtime),
            changed: time(info.ctime),
        })
    }

    pub fn qid(&mut self, number: u32) -> Result<Qid, Errno> {
        Ok(qid(&self.info(number)?))
    }

    pub fn lookup(&mut self, dir: u32, name: &[u8]) -> Result<(u32, Qid), Errno> {
        if !self.info(dir)?.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        let found = self.ext4.lookup_child(InodeNumber::new(dir)?, file_name(name)?)?;
        let found = found.ok_or(Errno::ENOENT)?;
        Ok((found.number.raw(), qid(&found)))
    }

    pub fn set(&mut self, number: u32, changes: Changes) -> Result<(), Errno> {
        let inode = InodeNumber::new(number)?;
        let info = self.info(number)?;
        if let Some(size) = changes.size {
            if u32::from(info.mode) & S_IFMT != S_IFREG {
                return Err(Errno::EINVAL);
            }
            self.ext4.truncate_inode(inode, size)?;
        }
        let now = (self.now)();
        let moment = |moment| match moment {
            Moment::Now => stamp(now),
            Moment::At(time) => stamp(time),
        };
        let owner = match (changes.uid, changes.gid) {
            (None, None) => None,
            (uid, gid) => Some((uid.unwrap_or(info.uid), gid.unwrap_or(info.gid))),
        };
        let update = InodeMetadataUpdate {
            permissions: changes.mode.map(permissions).transpose()?,
            owner,
            atime: changes.accessed.map(moment),
            mtime: changes.modified.map(moment),
            ..Default::default()
        };
        self.ext4.update_inode_metadata(inode, update)?;
        Ok(())
    }

    /// Who made a file of a name, or what, is in the group of a directory that says so.
    fn context(&mut self, dir: u32, maker: Maker) -> Result<(InodeNumber, MutationContext), Errno> {
        // The library would go on.
        if !self.info(dir)?.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if self.nameless.contains(&dir) {
            return Err(Errno::ENOENT);
        }
        self.has_room(0)?;
        if self.ext4.statfs().free_inodes == 0 {
            return Err(Errno::ENOSPC);
        }
        Ok((InodeNumber::new(dir)?, MutationContext::new(maker.uid, maker.gid, 0, 0)))
    }

    pub fn create(&mut self, dir: u32, name: &[u8], mode: u32, maker: Maker) -> Result<u32, Errno> {
        let (parent, context) = self.context(dir, maker)?;
        let name = file_name(name)?;
        let made = self.ext4.create_regular_file(context, parent, name, permissions(mode)?)?;
        Ok(made.number.raw())
    }

    pub fn make_directory(
        &mut self,
        dir: u32,
        name: &[u8],
        mode: u32,
        maker: Maker,
    ) -> Result<Qid, Errno> {
        let (parent, context) = self.context(dir, maker)?;
        let inherited = u32::from(self.info(dir)?.mode) & S_ISGID;
        let mode = permissions(mode | inherited)?;
        let made = self.ext4.create_directory(context, parent, file_name(name)?, mode)?;
        Ok(qid(&made))
    }

    pub fn make_node(
        &mut self,
        dir: u32,
        name: &[u8],
        (mode, major, minor): (u32, u32, u32),
        maker: Maker,
    ) -> Result<Qid, Errno> {
        let (parent, context) = self.context(dir, maker)?;
        let device = DeviceNumber::new(major, minor)?;
        let kind = match mode & S_IFMT {
            S_IFREG => {
                let number = self.create(dir, name, mode, maker)?;
                return self.qid(number);
            }
            0o020_000 => SpecialInodeKind::CharacterDevice(device),
            0o060_000 => SpecialInodeKind::BlockDevice(device),
            0o010_000 => SpecialInodeKind::Fifo,
            0o140_000 => SpecialInodeKind::Socket,
            _ => return Err(Errno::EINVAL),
        };
        let (name, mode) = (file_name(name)?, permissions(mode)?);
        Ok(qid(&self.ext4.create_special_inode(context, parent, name, mode, kind)?))
    }

    pub fn symlink(
        &mut self,
        dir: u32,
        name: &[u8],
        text: &[u8],
        maker: Maker,
    ) -> Result<Qid, Errno> {
        let (parent, context) = self.context(dir, maker)?;
        Ok(qid(&self.ext4.create_symlink(context, parent, file_name(name)?, text)?))
    }

    /// The text of a symbolic link, in a buffer.
    pub fn text(&mut self, number: u32, to: &mut [u8]) -> Result<usize, Errno> {
        if u32::from(self.info(number)?.mode) & S_IFMT != S_IFLNK {
            return Err(Errno::EINVAL);
        }
        Ok(self.ext4.read_inode(InodeNumber::new(number)?, 0, to)?)
    }

    pub fn link(&mut self, number: u32, dir: u32, name: &[u8]) -> Result<(), Errno> {
        if self.nameless.contains(&number) || self.nameless.contains(&dir) {
            return Err(Errno::ENOENT);
        }
        if self.info(number)?.is_directory() {
            return Err(Errno::EPERM);
        }
        self.has_room(0)?;
        let (target, parent) = (InodeNumber::new(number)?, InodeNumber::new(dir)?);
        self.ext4.hard_link(target, parent, file_name(name)?)?;
        Ok(())
    }

    pub fn unlink(&mut self, dir: u32, name: &[u8], directory: bool) -> Result<(), Errno> {
        let (number, _) = self.lookup(dir, name)?;
        let (parent, name) = (InodeNumber::new(dir)?, file_name(name)?);
        let outcome = match (directory, self.info(number)?.is_directory()) {
            (true, true) => self.ext4.remove_empty_directory(parent, name)?,
            (false, false) => self.ext4.unlink(parent, name)?,
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
        };
        self.unlinked(outcome)
    }

    pub fn rename(&mut self, from: u32, old: &[u8], to: u32, new: &[u8]) -> Result<(), Errno> {
        let (moved, _) = self.lookup(from, old)?;
        if self.nameless.contains(&to) {
            return Err(Errno::ENOENT);
        }
        match self.lookup(to, new) {
            // Two names of one file: both stay.
            Ok((there, _)) if there == moved => return Ok(()),
            Ok((_, there)) => match (self.info(moved)?.is_directory(), there.kind == DIRECTORY) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ => {}
            },
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        if self.info(moved)?.is_directory() {
            self.is_above(moved, to)?;
        }
        let (source, target) = (InodeNumber::new(from)?, InodeNumber::new(to)?);
        let (old, new) = (file_name(old)?, file_name(new)?);
        let outcome = self.ext4.rename(source, old, target, new, RenameOptions::REPLACE)?;
        outcome.replaced.map_or(Ok(()), |gone| self.unlinked(gone))
    }

    /// `EINVAL` if a directory is another one, or above it.
    fn is_above(&mut self, above: u32, dir: u32) -> Result<(), Errno> {
        /// More than a path has, and a damaged directory may be above itself.
        const DEEPEST: usize = 4096;
        let (mut at, root) = (dir, self.root());
        for _ in 0..DEEPEST {
            match at {
                _ if at == above => return Err(Errno::EINVAL),
                _ if at == root => return Ok(()),
                _ => at = self.parent(at)?,
            }
        }
        Err(Errno::EUCLEAN)
    }

    fn parent(&mut self, dir: u32) -> Result<u32, Errno> {
        let name = FileName::new(b"..")?;
        let found = self.ext4.lookup_child(InodeNumber::new(dir)?, name)?;
        Ok(found.ok_or(Errno::EUCLEAN)?.number.raw())
    }

    pub fn read(&mut self, number: u32, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        let size = self.info(number)?.size;
        let bytes = size.saturating_sub(offset).min(to.len() as u64) as usize;
        if bytes == 0 {
            return Ok(0);
        }
        Ok(self.ext4.read_inode(InodeNumber::new(number)?, offset, &mut to[..bytes])?)
    }

    pub fn write(
        &mut self,
        number: u32,
        offset: u64,
        from: &[u8],
        user: u32,
    ) -> Result<usize, Errno> {
        if from.is_empty() {
            return Ok(0);
        }
        let inode = InodeNumber::new(number)?;
        let info = self.info(number)?;
        let mode = u32::from(info.mode);
        // What is written over has its blocks, unless it is a hole.
        let has_blocks = info.blocks * SECTOR as u64 >= info.size;
        if offset.saturating_add(from.len() as u64) > info.size || !has_blocks {
            self.has_room(from.len() as u64 + self.ext4.statfs().block_size)?;
        }
        self.ext4.write_inode(inode, offset, from)?;
        let mut kept = mode & !S_ISUID;
        if mode & S_IXGRP != 0 {
            kept &= !S_ISGID;
        }
        if user != 0 && kept != mode {
            // What others have written does not run as its owner.
            let permissions = Some(permissions(kept & 0o7777)?);
            let update = InodeMetadataUpdate { permissions, ..Default::default() };
            self.ext4.update_inode_metadata(inode, update)?;
        }
        Ok(from.len())
    }

    /// Everything that was written is lasting.
    pub fn sync(&mut self) -> Result<(), Errno> {
        Ok(self.ext4.sync()?)
    }

    pub fn space(&mut self) -> Space {
        let of = self.ext4.statfs();
        Space {
            block: of.block_size as u32,
            blocks: of.total_blocks,
            free: of.free_blocks,
            available: of.free_blocks.saturating_sub(SPARE),
            files: of.total_inodes.into(),
            files_free: of.free_inodes.into(),
            id: 0,
            name: 255,
        }
    }

    pub fn reader(&mut self, dir: u32) -> Result<DirectoryReader, Errno> {
        Ok(self.ext4.open_directory_reader(InodeNumber::new(dir)?)?)
    }

    /// Entries from a cookie on, as many as fit.
    pub fn entries(
        &mut self,
        reader: &mut DirectoryReader,
        cookie: u64,
        to: &mut [u8],
    ) -> Result<usize, Errno> {
        let is_indexed = self.ext4.inode(reader.directory())?.flags;
        let mut cursor = cursor(cookie, is_indexed.contains(InodeFlags::DIRECTORY_INDEX));
        let mut entries = EntryWriter::new(to);
        // Behind the last entry that somebody may go on from.
        let mut end = 0;
        loop {
            let found = self.ext4.read_directory_with_reader(reader, cursor, ENTRIES)?;
            let Some(last) = found.last() else { return Ok(entries.bytes()) };
            cursor = last.next_cursor;
            for entry in &found {
                let (next, is_exact) = cookie_of(entry.next_cursor);
                let (kind, letter) = kinds(entry.file_type);
                let qid = Qid { kind: letter, version: 0, path: entry.inode.raw().into() };
                if !entries.add(qid, next, kind, &entry.name) {
                    return if end > 0 { Ok(end) } else { Err(Errno::EINVAL) };
                }
                if is_exact {
                    end = entries.bytes();
                }
            }
        }
    }
}

/// A number for a place in a directory, which is positive for programs, too. `false`: those that go on from there see some entries again,
/// as several have one hash.
fn cookie_of(cursor: DirectoryCursor) -> (u64, bool) {
    match cursor {
        DirectoryCursor::Start => (0, true),
        DirectoryCursor::Linear { offset } => (offset, true),
        DirectoryCursor::HTree { major, minor, collision } => {
            (u64::from(major >> 1) << 32 | u64::from(minor), collision == 0)
        }
        DirectoryCursor::End => (NO_MORE, true),
    }
}

fn cursor(cookie: u64, is_indexed: bool) -> DirectoryCursor {
    match cookie {
        0 => DirectoryCursor::Start,
        NO_MORE.. => DirectoryCursor::End,
        offset if !is_indexed => DirectoryCursor::Linear { offset },
        _ => DirectoryCursor::HTree {
            major: ((cookie >> 32) as u32) << 1,
            minor: cookie as u32,
            collision: 0,
        },
    }
}

/// `DT_*`, and the kind in a qid.
fn kinds(of: DirectoryEntryType) -> (u8, u8) {
    match of {
        DirectoryEntryType::Unknown => (0, 0),
        DirectoryEntryType::RegularFile => (8, 0),
        DirectoryEntryType::Directory => (4, DIRECTORY),
        DirectoryEntryType::CharacterDevice => (2, 0),
        DirectoryEntryType::BlockDevice => (6, 0),
        DirectoryEntryType::Fifo => (1, 0),
        DirectoryEntryType::Socket => (12, 0),
        DirectoryEntryType::Symlink => (10, 2),
    }
}

fn qid(info: &InodeInfo) -> Qid {
    let kind = match u32::from(info.mode) & S_IFMT {
        S_IFDIR => DIRECTORY,
        S_IFLNK => 2,
        _ => 0,
    };
    Qid { kind, version: 0, path: info.number.raw().into() }
}

/// As Linux's system calls have it.
fn device_word(device: DeviceNumber) -> u64 {
    let (major, minor) = (u64::from(device.major()), u64::from(device.minor()));
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
}

fn permissions(mode: u32) -> Result<FilePermissions, Errno> {
    Ok(FilePermissions::new((mode & 0o7777) as u16)?)
}

fn file_name(name: &[u8]) -> Result<FileName<'_>, Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::EINVAL),
        _ if name.len() > 255 => Err(Errno::ENAMETOOLONG),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(FileName::new(name)?),
    }
}
