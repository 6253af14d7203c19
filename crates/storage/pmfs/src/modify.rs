//! Making and removing files and names.

use crate::area::Area;
use crate::chain;
use crate::fs::{Attr, Error, Fs, Gone, Ino, Kind, What};
use crate::index;
use crate::layout::{
    chain_lines, high, low, more_lines, pair, word, InodeHead, Line, NameHead, ATIME, BTIME,
    CONTENT, CTIME, FLAGS, HEAD, HEAD_BYTES, MTIME, OWNERS, ROOT,
};
use crate::log::Change;
use crate::SYMLINK_MAX;
use alloc::vec::Vec;

/// The word that names contents.
pub(crate) fn content_word(content: Option<u32>) -> u64 {
    content.map_or(0, |id| pair(id, 1))
}
/// What it names; `None` if it is not such a word.
pub(crate) fn content_of(word: u64) -> Option<Option<u32>> {
    match high(word) {
        0 if word == 0 => Some(None),
        1 => Some(Some(low(word))),
        _ => None,
    }
}

/// Writes all words of an inode but the first. The text of a symbolic link begins in line `text`.
pub(crate) fn write_inode<A: Area>(area: &A, ino: Line, what: What, attr: &Attr, text: Line) {
    let content = match what {
        What::File(content) => content_word(content),
        What::Symlink(_) => text as u64,
        What::Char(number) | What::Block(number) => number,
        What::Dir | What::Fifo | What::Socket => 0,
    };
    let words = [
        (OWNERS, pair(attr.uid, attr.gid)),
        (ATIME, attr.atime as u64),
        (MTIME, attr.mtime as u64),
        (CTIME, attr.ctime as u64),
        (CONTENT, content),
        (BTIME, attr.btime as u64),
        (FLAGS, attr.flags),
    ];
    for (n, value) in words {
        area.store(word(ino, n), value);
    }
    area.write_back(ino as u64);
}

impl<A: Area> Fs<A> {
    /// Makes an inode with a name. The directory is changed at the time `now`.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound` (also: the directory was removed), `Exists` (also: the contents are those of another file),
    /// `Invalid`, `NameTooLong`, `TooBig`, `NoSpace`.
    pub fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        what: What,
        attr: Attr,
        now: i64,
    ) -> Result<Ino, Error> {
        self.check_new(dir.0, name)?;
        self.check_what(what)?;
        let for_name = 1 + more_lines(name.len());
        let mut lines = self.take(inode_lines(what) + for_name)?;
        let name_lines = lines.split_off(inode_lines(what));
        let mut change = Change::new();
        let ino = self.new_inode(&mut change, &lines, what, &attr);
        self.new_name(&mut change, &name_lines, (dir.0, name), ino);
        change.touch(dir.0, now);
        self.commit(change, Vec::new());
        Ok(Ino(ino))
    }

    /// Makes an inode without a name, held once.
    ///
    /// # Errors
    /// `Exists` (the contents are those of another file), `IsDirectory`, `Invalid`, `TooBig`, `NoSpace`.
    pub fn create_unnamed(&mut self, what: What, attr: Attr) -> Result<Ino, Error> {
        if what == What::Dir {
            return Err(Error::IsDirectory);
        }
        self.check_what(what)?;
        let lines = self.take(inode_lines(what))?;
        let mut change = Change::new();
        let ino = self.new_inode(&mut change, &lines, what, &attr);
        self.commit(change, Vec::new());
        self.hold(Ino(ino));
        Ok(Ino(ino))
    }

    /// Gives a file one more name, or the first. It and the directory are changed at the time `now`.
    ///
    /// # Errors
    /// `IsDirectory`, and those of [`create`](Fs::create).
    pub fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: i64) -> Result<(), Error> {
        self.check_new(dir.0, name)?;
        if self.inode(ino.0)?.kind == Kind::Dir {
            return Err(Error::IsDirectory);
        }
        let lines = self.take(1 + more_lines(name.len()))?;
        let mut change = Change::new();
        self.new_name(&mut change, &lines, (dir.0, name), ino.0);
        change.set(ino.0, CTIME, now as u64);
        change.touch(dir.0, now);
        self.commit(change, Vec::new());
        Ok(())
    }

    /// Removes a name of a file that is no directory. Returns the file if that was the last and nobody holds it.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`, `IsDirectory`.
    pub fn unlink(&mut self, dir: Ino, name: &[u8], now: i64) -> Result<Option<Gone>, Error> {
        let line = self.existing(dir.0, name)?;
        if self.inode(self.child(line))?.kind == Kind::Dir {
            return Err(Error::IsDirectory);
        }
        Ok(self.remove(dir.0, name, line, now))
    }

    /// Removes an empty directory. Returns it unless somebody holds it.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`, `NotEmpty`.
    pub fn rmdir(&mut self, dir: Ino, name: &[u8], now: i64) -> Result<Option<Gone>, Error> {
        let line = self.existing(dir.0, name)?;
        if self.dir(self.child(line))?.entries > 0 {
            return Err(Error::NotEmpty);
        }
        Ok(self.remove(dir.0, name, line, now))
    }

    fn remove(&mut self, dir: Line, name: &[u8], line: Line, now: i64) -> Option<Gone> {
        let mut change = Change::new();
        let child = self.child(line);
        let mut freed = self.drop_name(&mut change, (dir, name), line);
        change.touch(dir, now);
        let gone = self.unlinked(&mut change, child, now, &mut freed);
        self.commit(change, freed);
        gone
    }

    /// Keeps an inode when it has no name, until [`release`](Fs::release) or the next mount.
    pub fn hold(&mut self, ino: Ino) {
        if let Some(known) = self.index.inodes.get_mut(&ino.0) {
            known.holds += 1;
        }
    }

    /// Ends a [`hold`](Fs::hold). Returns the inode if it is gone with it.
    pub fn release(&mut self, ino: Ino) -> Option<Gone> {
        let known = self.index.inodes.get_mut(&ino.0)?;
        known.holds = known.holds.saturating_sub(1);
        if known.holds > 0 || known.names > 0 {
            return None;
        }
        Some(self.free_inode(ino.0))
    }

    /// Frees an inode that has no name and is not held.
    pub(crate) fn free_inode(&mut self, ino: Line) -> Gone {
        let (mut change, mut freed) = (Change::new(), Vec::new());
        let gone = self.forget(&mut change, ino, &mut freed);
        self.commit(change, freed);
        gone
    }

    /// The line of a name in a directory.
    pub(crate) fn existing(&self, dir: Line, name: &[u8]) -> Result<Line, Error> {
        self.dir(dir)?;
        self.find(dir, name).ok_or(Error::NotFound)
    }

    fn check_what(&self, what: What) -> Result<(), Error> {
        match what {
            What::Symlink(text) if text.len() > SYMLINK_MAX => Err(Error::TooBig),
            What::Symlink(text) if text.is_empty() || text.contains(&0) => Err(Error::Invalid),
            What::File(Some(id)) if self.index.contents.contains_key(&id) => Err(Error::Exists),
            _ => Ok(()),
        }
    }

    /// Writes an inode to its lines; it is there with the change.
    pub(crate) fn new_inode(
        &mut self,
        change: &mut Change,
        lines: &[Line],
        what: What,
        attr: &Attr,
    ) -> Line {
        let (ino, mut length, mut text) = (lines[0], 0, 0);
        if let What::Symlink(bytes) = what {
            length = bytes.len() as u16;
            text = chain::write(&self.area, &lines[1..], bytes);
        }
        write_inode(&self.area, ino, what, attr, text);
        let generation = self.log.number() as u32;
        let head = InodeHead { kind: what.kind(), mode: attr.mode, length, generation };
        change.set(ino, HEAD, head.word());
        self.index.inodes.insert(ino, index::Inode::new(what.kind()));
        if let What::File(Some(id)) = what {
            self.index.contents.insert(id, ino);
        }
        ino
    }

    /// Writes a name to its lines; it is there with the change.
    pub(crate) fn new_name(
        &mut self,
        change: &mut Change,
        lines: &[Line],
        (dir, name): (Line, &[u8]),
        ino: Line,
    ) {
        let line = lines[0];
        let rest = &name[name.len().min(HEAD_BYTES)..];
        let rest = chain::write(&self.area, &lines[1..], rest);
        chain::write_head(&self.area, line, pair(dir, ino), name);
        change.set(line, HEAD, NameHead { length: name.len() as u8, rest }.word());
        self.index.add_name(dir, name, line);
        self.leads_to(dir, line, ino, true);
    }

    /// Takes a name out of its directory with the change. Returns its lines.
    pub(crate) fn drop_name(
        &mut self,
        change: &mut Change,
        (dir, name): (Line, &[u8]),
        line: Line,
    ) -> Vec<Line> {
        let head = self.name_head(line);
        let mut freed = alloc::vec![line];
        self.collect(head.rest, more_lines(head.length as usize), &mut freed);
        change.set(line, HEAD, 0);
        self.leads_to(dir, line, self.child(line), false);
        self.index.remove_name(dir, name, line);
        freed
    }

    /// Counts that a name in a directory leads to an inode, or does not any more.
    pub(crate) fn leads_to(&mut self, dir: Line, line: Line, ino: Line, more: bool) {
        let kind = self.index.inodes.get(&ino).map(|known| known.kind);
        let is_dir = kind == Some(Kind::Dir);
        let count = |number: &mut u32, by: u32| match more {
            true => *number += by,
            false => *number = number.saturating_sub(by),
        };
        if let Some(known) = self.index.inodes.get_mut(&dir) {
            count(&mut known.entries, 1);
            count(&mut known.subdirs, is_dir as u32);
        }
        if let Some(known) = self.index.inodes.get_mut(&ino) {
            count(&mut known.names, 1);
            if is_dir {
                known.name = if more { line } else { 0 };
                known.parent = if more { dir } else { known.parent };
            }
        }
    }

    /// A name less leads to an inode: its status has changed, or it is gone.
    pub(crate) fn unlinked(
        &mut self,
        change: &mut Change,
        ino: Line,
        now: i64,
        freed: &mut Vec<Line>,
    ) -> Option<Gone> {
        let known = self.index.inodes.get(&ino)?;
        if known.names > 0 || known.holds > 0 || ino == ROOT {
            change.set(ino, CTIME, now as u64);
            return None;
        }
        Some(self.forget(change, ino, freed))
    }

    /// An inode is gone with the change, and its attributes.
    pub(crate) fn forget(&mut self, change: &mut Change, ino: Line, freed: &mut Vec<Line>) -> Gone {
        let mut content = None;
        if let Ok(head) = self.inode(ino) {
            let word = self.load(ino, CONTENT);
            match head.kind {
                Kind::Symlink => self.collect(low(word), chain_lines(head.length as usize), freed),
                Kind::File => content = content_of(word).flatten(),
                _ => {}
            }
        }
        for line in self.index.xattrs_of(ino).collect::<Vec<_>>() {
            self.drop_xattr(change, ino, line, freed);
        }
        change.set(ino, HEAD, 0);
        freed.push(ino);
        self.index.inodes.remove(&ino);
        if let Some(id) = content {
            self.index.contents.remove(&id);
        }
        Gone { ino: Ino(ino), content }
    }

    /// The lines of a chain.
    pub(crate) fn collect(&self, first: Line, count: usize, lines: &mut Vec<Line>) {
        chain::each_line(
            |at| self.area.load(at),
            first,
            count,
            |line| {
                lines.push(line);
                true
            },
        );
    }
}

impl Change {
    /// A directory has changed.
    pub fn touch(&mut self, dir: Line, now: i64) {
        self.set(dir, MTIME, now as u64);
        self.set(dir, CTIME, now as u64);
    }
}

/// Lines of an inode.
fn inode_lines(what: What) -> usize {
    match what {
        What::Symlink(text) => 1 + chain_lines(text.len()),
        _ => 1,
    }
}
