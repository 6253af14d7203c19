//! Whole trees: a copy of all names, attributes and contents below a directory, and their removal.
//!
//! A tree is more than one record can list. So a word of the area names the one directory that is being made or removed:
//!
//! ```text
//! copy:    mark and some of it ─► more of it ─► … ─► the last of it, the mark is gone
//! removal: mark ─► some of it is gone, below first ─► … ─► the directory itself and the mark are gone
//! ```
//!
//! Each arrow is a record. What a mount finds marked it removes. So a copy is there when its last record is, and a removal
//! has happened when its first one is, however large the tree.

use crate::area::Area;
use crate::fs::{Error, Fs, Ino, Kind, What};
use crate::layout::{chain_lines, high, low, more_lines, Line, PLACE};
use crate::log::{Change, MOST};
use crate::XATTRS_MAX;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Words of a record for a part of a tree, if the next file does not need more. A few files share the two fences, and a
/// small tree has more than one record, so that tests see what is between them.
const BATCH: usize = 12;
/// Words for a name, its inode, the directory, the mark, and how many lines are used.
const BESIDE: usize = 6;
const _: () = assert!(XATTRS_MAX + BESIDE <= MOST && BATCH <= MOST);

/// Contents of files, for whoever copies and removes trees of them.
pub trait Contents {
    /// Makes contents that are as these are now, and stay so. They belong to no file yet.
    ///
    /// # Errors
    /// Whatever the operation is to fail with.
    fn copy(&mut self, content: u32) -> Result<u32, Error>;
    /// No file has these any more.
    fn destroy(&mut self, content: u32);
}

/// An inode of a tree and its copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    pub from: Ino,
    pub to: Ino,
    /// Contents of the copy.
    pub content: Option<u32>,
}

/// A copy of a tree, as far as it has come.
struct Copying {
    change: Change,
    /// Of which inodes that are met again there is a copy: directories, and files with more than one name.
    known: BTreeMap<Line, Line>,
    copied: Vec<Copied>,
}

impl<A: Area> Fs<A> {
    /// Makes a directory that has all that the directory `of` has, as it is now: attributes with all times, extended attributes,
    /// texts, devices, files with several names, and copies of the contents. Only what is below `dir`, in which it is made, is left
    /// out. `dir` is changed at the time `now`. Returns all inodes that were made, that of the directory first.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`, `Exists`, `Invalid`, `NameTooLong`, `NoSpace`, and those of [`Contents::copy`].
    pub fn snapshot(
        &mut self,
        of: Ino,
        (dir, name): (Ino, &[u8]),
        contents: &mut impl Contents,
        now: i64,
    ) -> Result<Vec<Copied>, Error> {
        self.check_new(dir.0, name)?;
        self.dir(of.0)?;
        let names = self.names_below(of.0, dir.0);
        if self.lines_of_copy(of.0, name, &names) > self.lines.free() as usize {
            return Err(Error::NoSpace);
        }
        let (change, known, copied) = (Change::new(), BTreeMap::new(), Vec::new());
        let mut copying = Copying { change, known, copied };
        // Without contents and with room for its lines the first one succeeds.
        let top = self.copy_inode(&mut copying, of.0, contents)?;
        copying.known.insert(of.0, top);
        let lines = self.take(1 + more_lines(name.len()))?;
        self.new_name(&mut copying.change, &lines, (dir.0, name), top);
        copying.change.mark(Some(top));
        for &line in &names {
            if let Err(error) = self.copy_name(&mut copying, line, contents) {
                self.commit(copying.change, Vec::new());
                self.clear(Change::new(), top, contents);
                return Err(error);
            }
        }
        copying.change.mark(None);
        copying.change.touch(dir.0, now);
        self.commit(copying.change, Vec::new());
        Ok(copying.copied)
    }

    /// Removes a directory with everything below it. Its parent is changed at the time `now`; what has names elsewhere, or is held,
    /// stays as it is.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`.
    pub fn remove_tree(
        &mut self,
        dir: Ino,
        name: &[u8],
        contents: &mut impl Contents,
        now: i64,
    ) -> Result<(), Error> {
        let line = self.existing(dir.0, name)?;
        let top = self.child(line);
        self.dir(top)?;
        let mut change = Change::new();
        change.mark(Some(top));
        change.touch(dir.0, now);
        self.clear(change, top, contents);
        Ok(())
    }

    /// Names below a directory, each behind that of the directory in which it is, but for those below another directory.
    fn names_below(&self, of: Line, except: Line) -> Vec<Line> {
        let (mut names, mut dirs) = (Vec::new(), alloc::vec![of]);
        while let Some(dir) = dirs.pop() {
            for line in self.index.names_in(dir, 0) {
                let ino = self.child(line);
                if ino == except {
                    continue;
                }
                names.push(line);
                if self.dir(ino).is_ok() {
                    dirs.push(ino);
                }
            }
        }
        names
    }

    /// Lines that a copy needs.
    fn lines_of_copy(&self, top: Line, name: &[u8], names: &[Line]) -> usize {
        let mut seen = BTreeSet::new();
        let mut lines = 1 + more_lines(name.len()) + self.lines_of_inode(top);
        for &line in names {
            let ino = self.child(line);
            lines += 1 + more_lines(self.name_head(line).length as usize);
            if !self.has_names(ino) || seen.insert(ino) {
                lines += self.lines_of_inode(ino);
            }
        }
        lines
    }

    fn lines_of_inode(&self, ino: Line) -> usize {
        let text = self.inode(ino).map_or(0, |head| chain_lines(head.length as usize));
        let xattrs = self.index.xattrs_of(ino);
        1 + text + xattrs.map(|line| 1 + more_lines(self.xattr_head(line).bytes())).sum::<usize>()
    }

    /// Has a file more than one name?
    fn has_names(&self, ino: Line) -> bool {
        self.index.inodes.get(&ino).is_some_and(|known| known.names > 1)
    }

    /// Copies a name, and what it stands for unless that was copied already.
    fn copy_name(
        &mut self,
        copying: &mut Copying,
        line: Line,
        contents: &mut impl Contents,
    ) -> Result<(), Error> {
        let place = self.load(line, PLACE);
        let (dir, from) = (low(place), high(place));
        let to_dir = *copying.known.get(&dir).ok_or(Error::NotFound)?;
        self.make_room(&mut copying.change, from);
        let to = match copying.known.get(&from) {
            Some(&to) => to,
            None => {
                let to = self.copy_inode(copying, from, contents)?;
                if self.has_names(from) || self.dir(from).is_ok() {
                    copying.known.insert(from, to);
                }
                to
            }
        };
        let name = self.name(line);
        let lines = self.take(1 + more_lines(name.len()))?;
        self.new_name(&mut copying.change, &lines, (to_dir, &name), to);
        Ok(())
    }

    /// Copies an inode with its attributes.
    fn copy_inode(
        &mut self,
        copying: &mut Copying,
        from: Line,
        contents: &mut impl Contents,
    ) -> Result<Line, Error> {
        let stat = self.stat(Ino(from))?;
        let lines = self.take(self.lines_of_inode(from))?;
        let content = match stat.content.map(|id| contents.copy(id)).transpose() {
            Ok(content) => content,
            Err(error) => {
                lines.into_iter().for_each(|line| self.lines.give(line));
                return Err(error);
            }
        };
        let text = if stat.kind == Kind::Symlink { self.read_link(Ino(from))? } else { Vec::new() };
        let what = match stat.kind {
            Kind::File => What::File(content),
            Kind::Dir => What::Dir,
            Kind::Symlink => What::Symlink(&text),
            Kind::Char => What::Char(stat.device),
            Kind::Block => What::Block(stat.device),
            Kind::Fifo => What::Fifo,
            Kind::Socket => What::Socket,
        };
        let (of_inode, mut rest) = lines.split_at(1 + chain_lines(text.len()));
        let to = self.new_inode(&mut copying.change, of_inode, what, &stat.attr);
        for line in self.index.xattrs_of(from).collect::<Vec<_>>() {
            let head = self.xattr_head(line);
            let bytes = self.xattr_bytes(line, head, head.bytes());
            let (name, value) = bytes.split_at(head.name as usize);
            let (own, others) = rest.split_at(1 + more_lines(head.bytes()));
            self.new_xattr(&mut copying.change, own, (to, name), value);
            rest = others;
        }
        copying.copied.push(Copied { from: Ino(from), to: Ino(to), content });
        Ok(to)
    }

    /// The record has room for a name, an inode and its attributes, after what is in it already was done if need be.
    fn make_room(&mut self, change: &mut Change, ino: Line) {
        let xattrs = self.index.inodes.get(&ino).map_or(0, |known| known.xattrs) as usize;
        if !change.is_empty() && change.len() + xattrs + BESIDE > BATCH {
            self.commit(core::mem::replace(change, Change::new()), Vec::new());
        }
    }

    /// Removes the directory that is marked, with everything below it, after what is changed already.
    fn clear(&mut self, change: Change, top: Line, contents: &mut impl Contents) {
        let mut change = change;
        loop {
            let (is_gone, gone) = self.clear_some(change, top);
            gone.into_iter().for_each(|content| contents.destroy(content));
            if is_gone {
                return;
            }
            change = Change::new();
        }
    }

    /// One record of that. Returns whether it was the last, and contents that no file has any more.
    pub(crate) fn clear_some(&mut self, mut change: Change, top: Line) -> (bool, Vec<u32>) {
        let (mut freed, mut gone, mut dir) = (Vec::new(), Vec::new(), top);
        let is_gone = loop {
            // What is below goes first, so that each name that is left has its directory.
            let first = self.index.names_in(dir, 0).next();
            let below = first.map(|line| self.child(line));
            if let Some(below) = below.filter(|&ino| self.dir(ino).is_ok_and(|it| it.entries > 0)) {
                dir = below;
                continue;
            }
            let (line, ino, parent) = match (first, below) {
                (Some(line), Some(ino)) => (line, ino, dir),
                _ if dir != top => {
                    dir = self.index.inodes.get(&dir).map_or(top, |known| known.parent);
                    continue;
                }
                _ => match self.index.inodes.get(&top) {
                    Some(known) if known.name != 0 => (known.name, top, known.parent),
                    _ => break true,
                },
            };
            let xattrs = self.index.inodes.get(&ino).map_or(0, |known| known.xattrs) as usize;
            if !change.is_empty() && change.len() + xattrs + BESIDE > BATCH {
                break false;
            }
            let name = self.name(line);
            freed.extend(self.drop_name(&mut change, (parent, &name), line));
            let known = self.index.inodes.get(&ino);
            if known.is_some_and(|known| known.names == 0 && known.holds == 0) {
                gone.extend(self.forget(&mut change, ino, &mut freed).content);
            }
            if ino == top {
                change.mark(None);
                break true;
            }
        };
        self.commit(change, freed);
        (is_gone, gone)
    }
}
