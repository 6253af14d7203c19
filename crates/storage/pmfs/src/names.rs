//! Names in directories.

use crate::area::Area;
use crate::chain;
use crate::fs::{Error, Fs, Ino, Kind};
use crate::index;
use crate::layout::{high, Head, InodeHead, Line, NameHead, HEAD, PLACE};
use crate::NAME_MAX;
use alloc::vec::Vec;

/// What a reader of a directory sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    pub name: Vec<u8>,
    pub ino: Ino,
    pub kind: Kind,
    /// Where to go on behind it.
    pub next: u64,
}

/// Can a file have this name?
pub(crate) fn check_name(name: &[u8]) -> Result<(), Error> {
    match name {
        b"" | b"." | b".." => Err(Error::Invalid),
        _ if name.len() > NAME_MAX => Err(Error::NameTooLong),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

impl<A: Area> Fs<A> {
    /// The inode with a name in a directory. `.` and `..` are no names.
    ///
    /// # Errors
    /// `NotFound`: there is no such directory. `NotDirectory`.
    pub fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Option<Ino>, Error> {
        self.dir(dir.0)?;
        Ok(self.find(dir.0, name).map(|line| Ino(self.child(line))))
    }

    /// The directory in which a directory is; that of the root is the root.
    ///
    /// # Errors
    /// `NotFound`: there is no such directory, or it was removed. `NotDirectory`.
    pub fn parent(&self, dir: Ino) -> Result<Ino, Error> {
        let known = self.dir(dir.0)?;
        match known.names {
            0 => Err(Error::NotFound),
            _ => Ok(Ino(known.parent)),
        }
    }

    /// The name of a directory in its parent. `None`: it is the root, or was removed.
    ///
    /// # Errors
    /// `NotFound`: there is no such directory. `NotDirectory`.
    pub fn name_of(&self, dir: Ino) -> Result<Option<Vec<u8>>, Error> {
        let name = self.dir(dir.0)?.name;
        Ok((name != 0).then(|| self.name(name)))
    }

    /// The names in a directory, from a cookie on. A cookie (64 or more) is that of the same name as long as this stays, also
    /// after a restart; so who remembers [`DirEntry::next`] sees each name that stays once.
    ///
    /// # Errors
    /// `NotFound`: there is no such directory. `NotDirectory`.
    pub fn read_dir(
        &self,
        dir: Ino,
        from: u64,
    ) -> Result<impl Iterator<Item = DirEntry> + '_, Error> {
        self.dir(dir.0)?;
        let from = u32::try_from(from).unwrap_or(u32::MAX);
        Ok(self.index.names_in(dir.0, from).filter_map(|line| {
            let ino = self.child(line);
            let kind = self.inode(ino).ok()?.kind;
            Some(DirEntry { name: self.name(line), ino: Ino(ino), kind, next: line as u64 + 1 })
        }))
    }

    /// How many names are in a directory.
    ///
    /// # Errors
    /// `NotFound`: there is no such directory. `NotDirectory`.
    pub fn entries(&self, dir: Ino) -> Result<u32, Error> {
        Ok(self.dir(dir.0)?.entries)
    }

    /// First word of an inode that there is.
    pub(crate) fn inode(&self, ino: Line) -> Result<InodeHead, Error> {
        self.index.inodes.get(&ino).ok_or(Error::NotFound)?;
        match Head::of(self.load(ino, HEAD)) {
            Some(Head::Inode(head)) => Ok(head),
            _ => Err(Error::NotFound),
        }
    }

    /// What is known about a directory.
    pub(crate) fn dir(&self, ino: Line) -> Result<index::Inode, Error> {
        let known = self.index.inodes.get(&ino).copied().ok_or(Error::NotFound)?;
        match known.kind {
            Kind::Dir => Ok(known),
            _ => Err(Error::NotDirectory),
        }
    }

    /// A directory in which this name can be made.
    pub(crate) fn check_new(&self, dir: Line, name: &[u8]) -> Result<(), Error> {
        let known = self.dir(dir)?;
        check_name(name)?;
        if self.find(dir, name).is_some() {
            return Err(Error::Exists);
        }
        match known.names {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// The line of a name.
    pub(crate) fn find(&self, dir: Line, name: &[u8]) -> Option<Line> {
        let is_it = |line: &Line| {
            let head = self.name_head(*line);
            head.length as usize == name.len()
                && chain::is_equal(|at| self.area.load(at), *line, head.rest, name)
        };
        self.index.candidates(dir, name).find(is_it)
    }

    /// The inode that a name stands for.
    pub(crate) fn child(&self, line: Line) -> Line {
        high(self.load(line, PLACE))
    }
    pub(crate) fn name(&self, line: Line) -> Vec<u8> {
        let head = self.name_head(line);
        chain::read_behind_head(|at| self.area.load(at), line, head.rest, head.length as usize)
    }
    pub(crate) fn name_head(&self, line: Line) -> NameHead {
        match Head::of(self.load(line, HEAD)) {
            Some(Head::Name(head)) => head,
            _ => NameHead { length: 0, rest: 0 },
        }
    }
}
