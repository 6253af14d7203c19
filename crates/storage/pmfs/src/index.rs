//! What is found by looking at memory only: rebuilt by each mount, and changed with the area.

use crate::fs::Kind;
use crate::layout::{low, mix, Line};
use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound::{Excluded, Unbounded};

/// What is known about an inode besides its line.
#[derive(Clone, Copy)]
pub(crate) struct Inode {
    pub kind: Kind,
    /// Names that lead to it.
    pub names: u32,
    /// Who uses it without a name.
    pub holds: u32,
    /// Of a directory: how many names are in it.
    pub entries: u32,
    /// Of a directory: how many of them are directories.
    pub subdirs: u32,
    /// Of a directory: the name that leads to it, or 0.
    pub name: Line,
    /// Of a directory: where that name is.
    pub parent: Line,
    /// How many extended attributes it has.
    pub xattrs: u32,
}

impl Inode {
    pub fn new(kind: Kind) -> Inode {
        let (names, holds, entries, subdirs, name, parent, xattrs) = (0, 0, 0, 0, 0, 0, 0);
        Inode { kind, names, holds, entries, subdirs, name, parent, xattrs }
    }
}

pub(crate) struct Index {
    pub inodes: BTreeMap<Line, Inode>,
    /// Which file has these contents.
    pub contents: BTreeMap<u32, Line>,
    /// Directory, hash, and line of the name.
    names: BTreeSet<(Line, u32, Line)>,
    /// Directory and line of the name, in the order in which they are listed.
    order: BTreeSet<(Line, Line)>,
    /// Inode and line of the attribute.
    xattrs: BTreeSet<(Line, Line)>,
    seed: u64,
}

impl Index {
    pub fn new(seed: u64) -> Index {
        Index {
            inodes: BTreeMap::new(),
            contents: BTreeMap::new(),
            names: BTreeSet::new(),
            order: BTreeSet::new(),
            xattrs: BTreeSet::new(),
            seed,
        }
    }

    /// Which names have the same hash, only who knows the seed can tell.
    fn hash(&self, name: &[u8]) -> u32 {
        let mut hash = mix(self.seed ^ name.len() as u64);
        for part in name.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash = mix(hash ^ u64::from_le_bytes(word));
        }
        low(hash)
    }

    /// Lines of names that may be this one.
    pub fn candidates(&self, dir: Line, name: &[u8]) -> impl Iterator<Item = Line> + '_ {
        let hash = self.hash(name);
        self.names.range((dir, hash, 0)..=(dir, hash, Line::MAX)).map(|&(_, _, line)| line)
    }
    pub fn add_name(&mut self, dir: Line, name: &[u8], line: Line) {
        self.names.insert((dir, self.hash(name), line));
        self.order.insert((dir, line));
    }
    pub fn remove_name(&mut self, dir: Line, name: &[u8], line: Line) {
        self.names.remove(&(dir, self.hash(name), line));
        self.order.remove(&(dir, line));
    }
    /// Lines of the names in a directory, from a line on.
    pub fn names_in(&self, dir: Line, from: Line) -> impl Iterator<Item = Line> + '_ {
        self.order.range((dir, from)..=(dir, Line::MAX)).map(|&(_, line)| line)
    }
    /// How many names there are in all directories.
    pub fn all_names(&self) -> usize {
        self.order.len()
    }

    pub fn add_xattr(&mut self, ino: Line, line: Line) {
        self.xattrs.insert((ino, line));
    }
    pub fn remove_xattr(&mut self, ino: Line, line: Line) {
        self.xattrs.remove(&(ino, line));
    }
    /// Lines of the attributes of an inode.
    pub fn xattrs_of(&self, ino: Line) -> impl Iterator<Item = Line> + '_ {
        self.xattrs.range((ino, 0)..=(ino, Line::MAX)).map(|&(_, line)| line)
    }
    /// The attribute behind one, of whichever inode.
    pub fn next_xattr(&self, behind: (Line, Line)) -> Option<(Line, Line)> {
        self.xattrs.range((Excluded(behind), Unbounded)).next().copied()
    }
    /// The inode behind one.
    pub fn next_inode(&self, behind: Line) -> Option<Line> {
        self.inodes.range((Excluded(behind), Unbounded)).next().map(|(&line, _)| line)
    }
}
