//! The file system and its types.

use crate::area::Area;
use crate::index::Index;
use crate::layout::{word, Line, HEAD, ROOT};
use crate::log::{Change, Log};
use crate::space::Lines;
use alloc::vec::Vec;
use core::ops::Range;

/// Number of an inode. It is used again after the inode is gone, with another [generation](Stat::generation).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ino(pub u32);

/// Why an operation did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Too few lines are free, or the inode has [`XATTRS_MAX`](crate::XATTRS_MAX) attributes.
    NoSpace,
    /// The name, or the attribute, is there. Contents: another file has them.
    Exists,
    /// There is no such inode, name or attribute; or a name is to be made in a directory that was removed.
    NotFound,
    /// A directory that is to be removed or replaced has names.
    NotEmpty,
    /// This works with directories only.
    NotDirectory,
    /// This does not work with directories.
    IsDirectory,
    /// A directory would come to be below itself.
    Loop,
    /// A name is too long.
    NameTooLong,
    /// A value or a text is too long.
    TooBig,
    /// A name or a text is empty, is `.` or `..`, or has a `/` or a NUL; the inode is of another type.
    Invalid,
}

/// Type of an inode: the type bits of `st_mode`, shifted down by 12.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Fifo = 1,
    Char = 2,
    Dir = 4,
    Block = 6,
    File = 8,
    Symlink = 10,
    Socket = 12,
}

impl Kind {
    pub(crate) fn of(number: u64) -> Option<Kind> {
        let all = [
            Kind::Fifo,
            Kind::Char,
            Kind::Dir,
            Kind::Block,
            Kind::File,
            Kind::Symlink,
            Kind::Socket,
        ];
        all.into_iter().find(|&kind| kind as u64 == number)
    }
}

/// What a new inode is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// A regular file with these contents. An empty one needs none.
    File(Option<u32>),
    Dir,
    /// A symbolic link with its text.
    Symlink(&'a [u8]),
    /// A character device with its number.
    Char(u64),
    /// A block device with its number.
    Block(u64),
    Fifo,
    Socket,
}

impl What<'_> {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            What::File(_) => Kind::File,
            What::Dir => Kind::Dir,
            What::Symlink(_) => Kind::Symlink,
            What::Char(_) => Kind::Char,
            What::Block(_) => Kind::Block,
            What::Fifo => Kind::Fifo,
            What::Socket => Kind::Socket,
        }
    }
}

/// Attributes that an inode has because somebody set them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Attr {
    /// Permission bits, 12 of them.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Last read, nanoseconds since 1970, like the following.
    pub atime: i64,
    /// Last change of the contents.
    pub mtime: i64,
    /// Last change of anything.
    pub ctime: i64,
    /// When it was made.
    pub btime: i64,
    /// Whatever the caller likes to keep (`FS_IOC_GETFLAGS`).
    pub flags: u64,
}

/// What there is to know about an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    pub kind: Kind,
    pub attr: Attr,
    /// Names. Of a directory: 2 and its subdirectories, 0 when it was removed.
    pub links: u32,
    /// Other than that of any earlier inode with this number (of the last 2^32 operations).
    pub generation: u32,
    /// Contents of a regular file.
    pub content: Option<u32>,
    /// Number of a device.
    pub device: u64,
    /// Bytes of the text of a symbolic link.
    pub length: usize,
}

/// How much is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Lines of 64 bytes. An inode needs one, and so do a name of up to 48 bytes and an attribute with a name and
    /// a value of up to 48 bytes together; one more for each further 56 bytes.
    pub lines: u64,
    pub free: u64,
    pub inodes: u64,
}

/// An inode that is no more. Who holds contents for it destroys them.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone {
    pub ino: Ino,
    pub content: Option<u32>,
}

/// A mounted file system. [`Mount`](crate::Mount) makes it.
pub struct Fs<A> {
    pub(crate) area: A,
    pub(crate) log: Log,
    pub(crate) lines: Lines,
    pub(crate) index: Index,
}

impl<A: Area> Fs<A> {
    /// The root directory.
    pub fn root(&self) -> Ino {
        Ino(ROOT)
    }

    /// How much is used.
    pub fn space(&self) -> Space {
        let (lines, free) = (self.lines.capacity(), self.lines.free());
        Space { lines: lines as u64, free: free as u64, inodes: self.index.inodes.len() as u64 }
    }

    /// What the metadata are in.
    pub fn area(&self) -> &A {
        &self.area
    }

    pub(crate) fn load(&self, line: Line, n: u64) -> u64 {
        self.area.load(word(line, n))
    }

    /// Takes lines that are free; nothing leads to them until a change says so.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<Line>, Error> {
        let high = self.lines.high();
        let taken = self.lines.take(count).ok_or(Error::NoSpace);
        clear_heads(&self.area, high..self.lines.high());
        taken
    }

    /// Does a change, and gives back the lines that are free with it.
    pub(crate) fn commit(&mut self, mut change: Change, freed: Vec<Line>) {
        if let Some(high_water) = self.lines.new_high_water() {
            change.high_water(high_water);
        }
        if !change.is_empty() {
            self.log.commit(&self.area, &change);
        }
        freed.into_iter().for_each(|line| self.lines.give(line));
    }
}

/// Lines are no heads, whatever was in them: from now on, mounts look at them.
pub(crate) fn clear_heads<A: Area>(area: &A, lines: Range<Line>) {
    for line in lines.filter(|&line| area.load(word(line, HEAD)) != 0) {
        area.store(word(line, HEAD), 0);
        area.write_back(line as u64);
    }
}
