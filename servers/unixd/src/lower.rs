//! The root image below the tree: memory that is only read ([`rootimage`]), of which a directory is read when somebody looks for a
//! name in it.
//!
//! What is read becomes part of the tree, which has all changes: a name that is removed is gone, and the first change of a
//! file's contents gives it memory of its own ([`files`]). So inodes keep their numbers, whoever has a file open sees what is
//! written to it, and nothing is ever stored in the image. A request that comes to a directory that was not read ends with
//! [`UNREAD`]; it is read then, and the request tried again from its start.

use crate::frames::{Contents, Files};
use crate::nodes::Tree;
use abi::layout::PAGE;
use abi::slots::IMAGE;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use libos::ephemeral::Window;
use libos::vspace::R;
use libos::{Cap, Place, Status};
use memfs::{Attributes, Dir, Ino, Inode, Known, Lower, Node, Unread, FIRST_COOKIE};
use rootimage::{Entry, Image, Kind, Record, Source};
use unixproto::Errno;

pub use memfs::UNREAD;

/// Offsets of files of the image, where others are of the boot archive.
const BEHIND_ARCHIVE: u64 = 1 << 45;

/// The offset in the image, if it is none in the boot archive.
pub fn in_image(offset: u64) -> Option<u64> {
    offset.checked_sub(BEHIND_ARCHIVE)
}

/// Copies bytes out of the image.
pub fn read(window: &mut Window, offset: u64, data: &mut [u8]) -> Result<(), Status> {
    let (mut at, mut data) = (offset, data);
    while !data.is_empty() {
        let (page, skip) = (at & !(PAGE - 1), at % PAGE);
        let bytes = (skip + data.len() as u64).next_multiple_of(PAGE).min(Window::BYTES);
        let count = data.len().min((bytes - skip) as usize);
        let (now, rest) = data.split_at_mut(count);
        window.open(Place::own(IMAGE), page, bytes, R)?.read(skip as usize, now)?;
        (at, data) = (at + count as u64, rest);
    }
    Ok(())
}

/// The image, through a window.
struct Bytes<'a>(&'a mut Window);

impl Source for Bytes<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        read(self.0, offset, bytes).ok()
    }
}

/// A file with several names, of which some are still to be read.
struct Linked {
    ino: Ino,
    left: u32,
}

/// The image, and what must be remembered of what was read.
pub struct LowerTree {
    image: Image,
    linked: BTreeMap<u32, Linked>,
}

impl LowerTree {
    /// The image, if there is one, as what is in the root of a tree that is empty.
    ///
    /// # Errors
    /// What there is is no image, or is damaged.
    pub fn mount(files: &mut Files) -> Result<Option<LowerTree>, &'static str> {
        let Ok(what) = IMAGE.identify() else { return Ok(None) };
        let mut source = Bytes(files.memory().window());
        let image = Image::open(&mut source, what.bytes).map_err(|wrong| wrong.0)?;
        let record = *image.root();
        let names = files.names_mut();
        let root = names.root();
        let below = unread(&record);
        let made = names.set_unread(root, below).and_then(|()| {
            let inode = names.get_mut(root)?;
            (inode.mode, inode.nlink) = (record.mode & 0o7777, record.links);
            (inode.gid, inode.mtime) = (record.gid, record.mtime);
            names.give(root, record.uid)
        });
        made.map_err(|_| "no root")?;
        Ok(Some(LowerTree { image, linked: BTreeMap::new() }))
    }

    /// Reads a directory, unless that was done.
    fn read_dir(&mut self, files: &mut Files, dir: Ino) -> Result<(), Errno> {
        let Some(Unread { place, bytes }) = files.names().get(dir)?.dir()?.unread() else {
            return Ok(());
        };
        let record =
            Record { mode: self.image.root().mode, place, size: bytes, ..Record::default() };
        let mut source = Bytes(files.memory().window());
        let entries = self.image.entries(&mut source, &record).map_err(|wrong| {
            libos::log!("unixd: the root image: {}", wrong.0);
            Errno::EIO
        })?;
        let mut all = Vec::new();
        all.try_reserve(entries.len()).map_err(|_| Errno::ENOSPC)?;
        // Files with several names, of which the first is here.
        let mut first = BTreeMap::new();
        for (place, entry) in entries.iter().enumerate() {
            let link = entry.record.link;
            let known = match (self.linked.get(&link), first.get(&link)) {
                _ if link == 0 => Known::No,
                (Some(linked), _) => Known::As(linked.ino),
                (None, Some(&before)) => Known::Before(before),
                (None, None) => {
                    first.insert(link, place);
                    Known::No
                }
            };
            all.push(lower(entry, known)?);
        }
        let made = files.read_in(dir, all)?;
        for (entry, ino) in entries.iter().zip(made) {
            self.note(&entry.record, ino);
        }
        Ok(())
    }

    /// Remembers the inode of a file of which other names are still to be read.
    fn note(&mut self, record: &Record, ino: Ino) {
        let Record { link, links, .. } = *record;
        if link == 0 {
            return;
        }
        let linked = self.linked.entry(link).or_insert(Linked { ino, left: links });
        linked.left = linked.left.saturating_sub(1);
        if linked.left == 0 {
            self.linked.remove(&link);
        }
    }
}

/// What an entry is for the tree.
fn lower(entry: &Entry, known: Known) -> Result<Lower<Contents>, Errno> {
    let Entry { name, record, text } = entry;
    let node = match record.kind().ok_or(Errno::EIO)? {
        Kind::File => Files::archived(BEHIND_ARCHIVE + record.place, record.size),
        // Whoever reads it in says what is above it.
        Kind::Dir => Node::Dir(Dir::new(Ino(0))),
        Kind::Symlink => Node::Symlink(text.clone()),
        Kind::Char => Node::Device(record.device),
        Kind::Block => Node::Block(record.device),
        Kind::Fifo => Node::Fifo,
        Kind::Socket => Node::Socket,
    };
    let Record { mode, uid, gid, links, mtime, .. } = *record;
    let (atime, ctime) = (mtime, mtime);
    let attributes = Attributes { mode: mode & 0o7777, uid, gid, atime, mtime, ctime };
    let unread = (record.kind() == Some(Kind::Dir)).then(|| unread(record));
    Ok(Lower { name: name.clone(), node, attributes, nlink: links, unread, known })
}

impl Tree {
    /// Reads a directory of the root image, unless that was done.
    ///
    /// # Errors
    /// There is no memory, there are too many inodes, or the image is damaged.
    pub fn read_dir(&mut self, dir: Ino) -> Result<(), Errno> {
        let (files, lower) = self.with_lower();
        match lower {
            Some(lower) => lower.read_dir(files, dir),
            None => Ok(()),
        }
    }

    /// Reads all directories of the root image.
    ///
    /// # Errors
    /// As [`Tree::read_dir`].
    pub fn read_all(&mut self) -> Result<(), Errno> {
        let mut open = alloc::vec![self.files().names().root()];
        while let Some(dir) = open.pop() {
            self.read_dir(dir)?;
            let names = self.files().names();
            let below = names.look_in(dir)?.entries(FIRST_COOKIE).map(|entry| entry.ino);
            open.extend(below.filter(|&ino| names.get(ino).is_ok_and(Inode::is_dir)));
        }
        Ok(())
    }

    /// Reads the directory that somebody has wanted to look at. Returns `false` if nobody has.
    ///
    /// # Errors
    /// As [`Tree::read_dir`].
    pub fn read_wanted(&mut self) -> Result<bool, Errno> {
        match self.files().names().wanted() {
            Some(dir) => self.read_dir(dir).map(|()| true),
            None => Ok(false),
        }
    }
}

/// Where what is in a directory is.
fn unread(record: &Record) -> Unread {
    Unread { place: record.place, bytes: record.size }
}
