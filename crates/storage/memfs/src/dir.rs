//! A directory: names in the order of their creation.
//!
//! Each entry gets a cookie that is never used again in this directory. A reader that remembers
//! the cookie of the next entry sees every entry that stays, once, however the directory changes
//! in between.

use crate::fs::Ino;
use crate::names::Names;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use unixproto::Errno;

/// Cookie of the first entry behind `.` (0) and `..` (1).
pub const FIRST_COOKIE: u64 = 2;

/// What a name stands for, and its place in the order.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub cookie: u64,
    pub ino: Ino,
}

/// The entries of a directory.
pub struct Dir {
    /// The directory that holds it; itself for the root.
    pub parent: Ino,
    names: Names,
    order: BTreeMap<u64, Rc<[u8]>>,
    next: u64,
    /// What is in it is still to be read.
    unread: Option<Unread>,
}

/// Where the names of a directory are that nobody has looked at yet: whoever has them knows it by this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unread {
    /// The first byte.
    pub place: u64,
    /// Bytes; zero if there are no names.
    pub bytes: u64,
}

/// What a reader of a directory sees.
pub struct DirEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its inode.
    pub ino: Ino,
    /// Where to go on behind it.
    pub next: u64,
}

impl Dir {
    /// An empty directory.
    pub fn new(parent: Ino) -> Self {
        let (names, order) = (Names::new(), BTreeMap::new());
        Dir { parent, names, order, next: FIRST_COOKIE, unread: None }
    }
    /// Where what is in it is, if it is still to be [read](crate::Fs::read_in).
    pub fn unread(&self) -> Option<Unread> {
        self.unread
    }
    /// What is in it is to be read there, when somebody looks; or not any more.
    pub(crate) fn set_unread(&mut self, unread: Option<Unread>) {
        self.unread = unread.filter(|unread| unread.bytes > 0);
    }
    /// The inode with this name.
    pub fn get(&self, name: &[u8]) -> Option<Ino> {
        self.names.get(name).map(|place| place.ino)
    }
    /// Names, without `.` and `..`.
    pub fn len(&self) -> usize {
        self.names.len()
    }
    /// No names but `.` and `..`.
    pub fn is_empty(&self) -> bool {
        self.names.len() == 0 && self.unread.is_none()
    }
    /// Has room for this name. `ENOSPC`: there is no memory for that.
    pub(crate) fn prepare(&mut self, name: &[u8]) -> Result<(), Errno> {
        self.names.prepare(name).ok_or(Errno::ENOSPC)
    }
    /// Adds a name, for which there is room, or makes it stand for another inode, which keeps its place in the order.
    pub(crate) fn set(&mut self, name: &[u8], ino: Ino) {
        if let Some(place) = self.names.get_mut(name) {
            place.ino = ino;
            return;
        }
        self.add(name.into(), ino);
    }
    /// Adds a name that is not there, for which there is room.
    pub(crate) fn add(&mut self, name: Rc<[u8]>, ino: Ino) {
        self.order.insert(self.next, name.clone());
        self.names.insert(name, Place { cookie: self.next, ino });
        self.next += 1;
    }
    /// Removes a name.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Ino> {
        let place = self.names.remove(name)?;
        self.order.remove(&place.cookie);
        Some(place.ino)
    }
    /// The entries from a cookie on.
    pub fn entries(&self, from: u64) -> impl Iterator<Item = DirEntry<'_>> {
        self.order.range(from..).filter_map(|(&cookie, name)| {
            let ino = self.get(name)?;
            Some(DirEntry { name, ino, next: cookie + 1 })
        })
    }
    /// The names and their inodes, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&Rc<[u8]>, Ino)> {
        self.order.values().filter_map(|name| Some((name, self.get(name)?)))
    }
    /// The name of an inode here.
    pub fn name_of(&self, ino: Ino) -> Option<&[u8]> {
        self.names.iter().find(|(_, place)| place.ino == ino).map(|(name, _)| name)
    }
}
