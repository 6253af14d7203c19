//! Mounting: one scan, which finds everything, or finds out that these algorithms cannot have left it so.
//!
//! | step | what is looked at |
//! |---|---|
//! | scan | each line: is it a head, is its chain all its own |
//! | attributes | each has an inode, which has no two of a name |
//! | tree | each name, from the root downwards: it leads to an inode, and no directory has two |
//! | contents | they exist |
//! | | *here the area is written to for the first time* |
//! | apply | the record of the last operation |
//! | clear | what was being made or removed with everything below it |
//! | free | inodes that have no name |

use crate::area::Area;
use crate::chain;
use crate::format::{capacity, super_check};
use crate::fs::{Fs, Kind};
use crate::index::{self, Index};
use crate::layout::{
    chain_lines, high, high_water, low, marked_dir, more_lines, word, Head, InodeHead, Line,
    NameHead, XattrHead, CONTENT, HEAD, HIGH_WATER, MAGIC, PLACE, ROOT, SUPER_CHECK, SUPER_MAGIC,
    SUPER_VERSION, UNFINISHED, VERSION, WORDS,
};
use crate::log::{self, Change};
use crate::modify::content_of;
use crate::names::check_name;
use crate::space::Lines;
use crate::XATTRS_MAX;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

/// Lines, names or whatever a step looks at, at most.
const STEP: usize = 512;

/// Why an area cannot be mounted, or formatted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no such file system.
    Foreign,
    /// It is of another version.
    Version(u64),
    /// These algorithms have not left it so. `line` is where something is wrong.
    Damaged { line: u32, what: &'static str },
    /// There is no room for a root directory.
    TooSmall,
    /// It has something in it.
    InUse,
    /// [`Mount::finish`] comes too early, or something was refused before.
    Unfinished,
}

fn damaged(line: u32, what: &'static str) -> Refused {
    Refused::Damaged { line, what }
}

/// Returns an error unless this holds.
fn ensure(holds: bool, line: u32, what: &'static str) -> Result<(), Refused> {
    match holds {
        true => Ok(()),
        false => Err(damaged(line, what)),
    }
}

enum Phase {
    Scan {
        next: Line,
    },
    Xattrs {
        last: (Line, Line),
    },
    /// Directories on the way to where it is, each with the line at which to go on.
    Tree {
        path: Vec<(Line, Line)>,
        seen: usize,
    },
    Contents {
        last: Option<u32>,
    },
    Apply,
    Clear,
    Free {
        last: Line,
    },
    Done,
    /// Something was refused.
    Failed,
}

/// A mount and how far it has come.
pub struct Mount<A> {
    fs: Fs<A>,
    /// What the last operation may not have stored.
    pending: BTreeMap<u64, u64>,
    /// The directory that was being made or removed.
    unfinished: Option<Line>,
    phase: Phase,
}

impl Mount<()> {
    /// Goes on with the words in this area, which are those that were looked at.
    pub fn attach<A: Area>(self, area: A) -> Mount<A> {
        let Mount { fs: Fs { log, lines, index, .. }, pending, unfinished, phase } = self;
        let fs = Fs { area, log, lines, index };
        Mount { fs, pending, unfinished, phase }
    }
}

impl<A: Area> Mount<A> {
    /// Begins to mount what is in an area. The `seed` should be one that nobody can guess: it decides
    /// which names are near each other in the index.
    ///
    /// # Errors
    /// [`Refused`]; nothing was written.
    pub fn new(area: A, seed: u64) -> Result<Mount<A>, Refused> {
        let capacity = capacity(&area);
        if capacity <= ROOT || area.load(SUPER_MAGIC) != MAGIC {
            return Err(Refused::Foreign);
        }
        let version = area.load(SUPER_VERSION);
        if version != VERSION {
            return Err(Refused::Version(version));
        }
        ensure(area.load(SUPER_CHECK) == super_check(), 0, "superblock")?;
        let (log, pairs) = log::read(&area).ok_or(damaged(2, "number of an operation"))?;
        let pending: BTreeMap<u64, u64> = pairs.into_iter().collect();
        let room = word(ROOT, 0)..word(capacity, 0);
        let words = [HIGH_WATER, UNFINISHED];
        let fits = |address: &u64| words.contains(address) || room.contains(address);
        ensure(pending.keys().all(fits), 2, "record")?;
        let high_word = pending.get(&HIGH_WATER).copied().unwrap_or(area.load(HIGH_WATER));
        let high = low(high_word);
        let fits = high_word == high_water(high) && high > ROOT && high <= capacity;
        ensure(fits, 1, "lines in use")?;
        let mark = pending.get(&UNFINISHED).copied().unwrap_or(area.load(UNFINISHED));
        let unfinished = marked_dir(mark).ok_or(damaged(1, "directory that is unfinished"))?;
        let lines = Lines::new(ROOT, high, capacity);
        let fs = Fs { area, log, lines, index: Index::new(seed) };
        Ok(Mount { fs, pending, unfinished, phase: Phase::Scan { next: ROOT } })
    }

    /// Goes on for a while. Returns `true` when there is nothing more to do. Contents of a number that `is_there` denies
    /// do not exist.
    ///
    /// # Errors
    /// [`Refused::Damaged`]; nothing was written.
    pub fn step(&mut self, is_there: impl Fn(u32) -> bool) -> Result<bool, Refused> {
        self.phase = match core::mem::replace(&mut self.phase, Phase::Failed) {
            Phase::Scan { next } => self.scan(next)?,
            Phase::Xattrs { last } => self.xattrs(last)?,
            Phase::Tree { path, seen } => self.tree(path, seen)?,
            Phase::Contents { last } => self.contents(last, is_there)?,
            Phase::Apply => self.apply(),
            Phase::Clear => self.clear(),
            Phase::Free { last } => self.free(last),
            Phase::Done => Phase::Done,
            Phase::Failed => return Err(Refused::Unfinished),
        };
        Ok(matches!(self.phase, Phase::Done))
    }

    /// Has everything been looked at, and is nothing wrong with it? The next [`step`](Mount::step) is the first that stores.
    pub fn is_checked(&self) -> bool {
        matches!(self.phase, Phase::Apply | Phase::Clear | Phase::Free { .. } | Phase::Done)
    }

    /// The same without the area: the words are to be stored to in another place than where they were looked at.
    pub fn detach(self) -> Mount<()> {
        let Mount { fs: Fs { log, lines, index, .. }, pending, unfinished, phase } = self;
        let fs = Fs { area: (), log, lines, index };
        Mount { fs, pending, unfinished, phase }
    }

    /// The file system, when [`step`](Mount::step) has returned `true`.
    ///
    /// # Errors
    /// [`Refused::Unfinished`].
    pub fn finish(self) -> Result<Fs<A>, Refused> {
        match self.phase {
            Phase::Done => Ok(self.fs),
            _ => Err(Refused::Unfinished),
        }
    }

    /// A word, as the last operation leaves it.
    fn at(&self, address: u64) -> u64 {
        match self.pending.is_empty() {
            true => self.fs.area.load(address),
            false => self.pending.get(&address).copied().unwrap_or(self.fs.area.load(address)),
        }
    }
    fn load(&self, line: Line, n: u64) -> u64 {
        self.at(word(line, n))
    }

    fn scan(&mut self, next: Line) -> Result<Phase, Refused> {
        let high = self.fs.lines.high();
        let end = next.saturating_add(STEP as u32).min(high);
        for line in next..end {
            match Head::of(self.load(line, HEAD)).ok_or(damaged(line, "line"))? {
                Head::None => {}
                Head::Inode(head) => self.found_inode(line, head)?,
                Head::Name(head) => self.found_name(line, head)?,
                Head::Xattr(head) => self.found_xattr(line, head)?,
            }
        }
        if end < high {
            return Ok(Phase::Scan { next: end });
        }
        let root = self.fs.index.inodes.get_mut(&ROOT);
        let root = root.filter(|root| root.kind == Kind::Dir).ok_or(damaged(ROOT, "root"))?;
        (root.names, root.parent) = (1, ROOT);
        Ok(Phase::Xattrs { last: (0, 0) })
    }

    /// A line, and a chain of so many, are in use.
    fn mark(&mut self, line: Line, rest: Line, count: usize) -> Result<(), Refused> {
        ensure(self.fs.lines.mark(line), line, "head in a chain")?;
        let (area, pending, lines) = (&self.fs.area, &self.pending, &mut self.fs.lines);
        let load = |at| pending.get(&at).copied().unwrap_or_else(|| area.load(at));
        let whole = chain::each_line(load, rest, count, |line| lines.mark(line));
        ensure(whole, line, "chain")
    }

    fn found_inode(&mut self, line: Line, head: InodeHead) -> Result<(), Refused> {
        let content = self.load(line, CONTENT);
        let mut text = 0;
        match head.kind {
            Kind::File => {
                let content = content_of(content).ok_or(damaged(line, "contents"))?;
                if let Some(id) = content {
                    let before = self.fs.index.contents.insert(id, line);
                    ensure(before.is_none(), line, "contents of two files")?;
                }
            }
            Kind::Symlink => {
                ensure(high(content) == 0, line, "text")?;
                text = low(content);
            }
            Kind::Char | Kind::Block => {}
            Kind::Dir | Kind::Fifo | Kind::Socket => ensure(content == 0, line, "contents")?,
        }
        self.mark(line, text, chain_lines(head.length as usize))?;
        self.fs.index.inodes.insert(line, index::Inode::new(head.kind));
        Ok(())
    }

    fn found_name(&mut self, line: Line, head: NameHead) -> Result<(), Refused> {
        let length = head.length as usize;
        self.mark(line, head.rest, more_lines(length))?;
        let name = chain::read_behind_head(|at| self.at(at), line, head.rest, length);
        ensure(check_name(&name).is_ok(), line, "name")?;
        let dir = low(self.load(line, PLACE));
        let is_same = |other: Line| self.name_at(other).is_some_and(|other| other == name);
        let is_new = !self.fs.index.candidates(dir, &name).any(is_same);
        ensure(is_new, line, "name that is there twice")?;
        self.fs.index.add_name(dir, &name, line);
        Ok(())
    }

    fn name_at(&self, line: Line) -> Option<Vec<u8>> {
        match Head::of(self.load(line, HEAD))? {
            Head::Name(head) => {
                let length = head.length as usize;
                Some(chain::read_behind_head(|at| self.at(at), line, head.rest, length))
            }
            _ => None,
        }
    }

    fn found_xattr(&mut self, line: Line, head: XattrHead) -> Result<(), Refused> {
        self.mark(line, head.rest, more_lines(head.bytes()))?;
        let ino = self.load(line, PLACE);
        ensure(high(ino) == 0, line, "inode of an attribute")?;
        ensure(!self.xattr_at(line).contains(&0), line, "name of an attribute")?;
        self.fs.index.add_xattr(low(ino), line);
        Ok(())
    }

    /// Name of an attribute.
    fn xattr_at(&self, line: Line) -> Vec<u8> {
        match Head::of(self.load(line, HEAD)) {
            Some(Head::Xattr(head)) => {
                let length = head.name as usize;
                chain::read_behind_head(|at| self.at(at), line, head.rest, length)
            }
            _ => Vec::new(),
        }
    }

    fn xattrs(&mut self, mut last: (Line, Line)) -> Result<Phase, Refused> {
        for _ in 0..STEP {
            let Some((ino, line)) = self.fs.index.next_xattr(last) else {
                return Ok(Phase::Tree { path: alloc::vec![(ROOT, 0)], seen: 0 });
            };
            let known = self.fs.index.inodes.get_mut(&ino);
            let known = known.ok_or(damaged(line, "attribute without inode"))?;
            known.xattrs += 1;
            ensure(known.xattrs as usize <= XATTRS_MAX, ino, "number of attributes")?;
            let name = self.xattr_at(line);
            let mut others = self.fs.index.xattrs_of(ino).take_while(|&other| other < line);
            let is_new = !others.any(|other| self.xattr_at(other) == name);
            ensure(is_new, line, "attribute that is there twice")?;
            last = (ino, line);
        }
        Ok(Phase::Xattrs { last })
    }

    /// Goes through the names of the last directory of a path.
    fn tree(&mut self, mut path: Vec<(Line, Line)>, mut seen: usize) -> Result<Phase, Refused> {
        for _ in 0..STEP {
            let Some((dir, next)) = path.last_mut() else {
                let all = self.fs.index.all_names();
                ensure(seen == all, ROOT, "names below no directory that has one")?;
                self.check_unfinished()?;
                return Ok(Phase::Contents { last: None });
            };
            let found = self.fs.index.names_in(*dir, *next).next();
            let Some(line) = found else {
                path.pop();
                continue;
            };
            *next = line + 1;
            seen += 1;
            let (dir, ino) = (*dir, high(self.load(line, PLACE)));
            self.fs.leads_to(dir, line, ino, true);
            let known = self.fs.index.inodes.get(&ino);
            let known = known.ok_or(damaged(line, "name without inode"))?;
            if known.kind == Kind::Dir {
                ensure(known.names == 1, line, "directory with two names")?;
                path.push((ino, 0));
            }
        }
        Ok(Phase::Tree { path, seen })
    }

    /// What is to be removed with everything below it is a directory with a name.
    fn check_unfinished(&self) -> Result<(), Refused> {
        let Some(line) = self.unfinished else { return Ok(()) };
        let has_name = self.fs.index.inodes.get(&line).is_some_and(|known| known.name != 0);
        ensure(has_name, line, "no directory is unfinished")
    }

    fn contents(
        &mut self,
        mut last: Option<u32>,
        is_there: impl Fn(u32) -> bool,
    ) -> Result<Phase, Refused> {
        for _ in 0..STEP {
            let behind = last.map_or(Unbounded, Excluded);
            let mut behind = self.fs.index.contents.range((behind, Unbounded));
            let Some((&id, &line)) = behind.next() else { return Ok(Phase::Apply) };
            ensure(is_there(id), line, "contents that are not there")?;
            last = Some(id);
        }
        Ok(Phase::Contents { last })
    }

    /// What the last operation was to store is stored.
    fn apply(&mut self) -> Phase {
        let pending = core::mem::take(&mut self.pending);
        log::apply(&self.fs.area, pending.into_iter());
        Phase::Clear
    }

    /// A part of what was being made or removed is gone, or all of it.
    fn clear(&mut self) -> Phase {
        let Some(top) = self.unfinished else { return Phase::Free { last: 0 } };
        // Contents that nobody names are destroyed by the caller.
        let (is_gone, _) = self.fs.clear_some(Change::new(), top);
        if is_gone {
            self.unfinished = None;
        }
        Phase::Clear
    }

    fn free(&mut self, mut last: Line) -> Phase {
        for _ in 0..STEP / WORDS as usize {
            let Some(line) = self.fs.index.next_inode(last) else { return Phase::Done };
            let has_name = |known: &index::Inode| known.names > 0;
            if !self.fs.index.inodes.get(&line).is_some_and(has_name) {
                // Contents that nobody names are destroyed by the caller.
                let _ = self.fs.free_inode(line);
            }
            last = line;
        }
        Phase::Free { last }
    }
}
