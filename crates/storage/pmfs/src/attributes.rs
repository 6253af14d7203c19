//! What an inode is, and changes of that.

use crate::area::Area;
use crate::chain;
use crate::fs::{Attr, Error, Fs, Ino, Kind, Stat};
use crate::layout::{
    high, low, pair, InodeHead, ATIME, BTIME, CONTENT, CTIME, FLAGS, HEAD, MTIME, OWNERS,
};
use crate::log::Change;
use crate::modify::{content_of, content_word};
use alloc::vec::Vec;

impl<A: Area> Fs<A> {
    /// What there is to know about an inode.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn stat(&self, ino: Ino) -> Result<Stat, Error> {
        let head = self.inode(ino.0)?;
        let known = self.index.inodes.get(&ino.0).ok_or(Error::NotFound)?;
        let content = self.load(ino.0, CONTENT);
        let links = match head.kind {
            Kind::Dir if known.names > 0 => 2 + known.subdirs,
            _ => known.names,
        };
        Ok(Stat {
            kind: head.kind,
            attr: self.attr(ino.0, head.mode),
            links,
            generation: head.generation,
            content: content_of(content).flatten().filter(|_| head.kind == Kind::File),
            device: if matches!(head.kind, Kind::Char | Kind::Block) { content } else { 0 },
            length: head.length as usize,
        })
    }

    fn attr(&self, ino: u32, mode: u16) -> Attr {
        let owners = self.load(ino, OWNERS);
        Attr {
            mode,
            uid: low(owners),
            gid: high(owners),
            atime: self.load(ino, ATIME) as i64,
            mtime: self.load(ino, MTIME) as i64,
            ctime: self.load(ino, CTIME) as i64,
            btime: self.load(ino, BTIME) as i64,
            flags: self.load(ino, FLAGS),
        }
    }

    /// Sets all attributes.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn set_attr(&mut self, ino: Ino, attr: Attr) -> Result<(), Error> {
        let head = InodeHead { mode: attr.mode, ..self.inode(ino.0)? };
        let words = [
            (HEAD, head.word()),
            (OWNERS, pair(attr.uid, attr.gid)),
            (ATIME, attr.atime as u64),
            (MTIME, attr.mtime as u64),
            (CTIME, attr.ctime as u64),
            (BTIME, attr.btime as u64),
            (FLAGS, attr.flags),
        ];
        let mut change = Change::new();
        let new = words.into_iter().filter(|&(n, value)| self.load(ino.0, n) != value);
        new.for_each(|(n, value)| change.set(ino.0, n, value));
        self.commit(change, Vec::new());
        Ok(())
    }

    /// Gives a regular file other contents, or none. Returns those that it had: the caller destroys them, or gives them to
    /// another file.
    ///
    /// # Errors
    /// `NotFound`; `Exists`: they are those of a file; `IsDirectory`, `Invalid`: this is no regular file.
    pub fn set_content(&mut self, ino: Ino, content: Option<u32>) -> Result<Option<u32>, Error> {
        let old = self.content(ino)?;
        if content.is_some_and(|id| self.index.contents.contains_key(&id)) {
            return Err(Error::Exists);
        }
        let mut change = Change::new();
        change.set(ino.0, CONTENT, content_word(content));
        self.commit(change, Vec::new());
        self.owns(old, None);
        self.owns(content, Some(ino));
        Ok(old)
    }

    /// Each of two regular files gets the contents of the other.
    ///
    /// # Errors
    /// `NotFound`; `IsDirectory`, `Invalid`: one is no regular file.
    pub fn exchange_contents(&mut self, one: Ino, other: Ino) -> Result<(), Error> {
        let (of_one, of_other) = (self.content(one)?, self.content(other)?);
        let mut change = Change::new();
        change.set(one.0, CONTENT, content_word(of_other));
        change.set(other.0, CONTENT, content_word(of_one));
        self.commit(change, Vec::new());
        self.owns(of_one, Some(other));
        self.owns(of_other, Some(one));
        Ok(())
    }

    /// The file that has these contents.
    pub fn content_owner(&self, content: u32) -> Option<Ino> {
        self.index.contents.get(&content).map(|&line| Ino(line))
    }

    fn content(&self, ino: Ino) -> Result<Option<u32>, Error> {
        match self.inode(ino.0)?.kind {
            Kind::File => Ok(content_of(self.load(ino.0, CONTENT)).flatten()),
            Kind::Dir => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    fn owns(&mut self, content: Option<u32>, owner: Option<Ino>) {
        let Some(id) = content else { return };
        match owner {
            Some(ino) => self.index.contents.insert(id, ino.0),
            None => self.index.contents.remove(&id),
        };
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// `NotFound`; `Invalid`: it is none.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        let head = self.inode(ino.0)?;
        if head.kind != Kind::Symlink {
            return Err(Error::Invalid);
        }
        let mut text = Vec::new();
        let first = low(self.load(ino.0, CONTENT));
        chain::read_chain(|at| self.area.load(at), first, head.length as usize, &mut text);
        Ok(text)
    }
}
