//! Rename: moves, replaces, refuses, exchanges.

use crate::area::Area;
use crate::fs::{Error, Fs, Gone, Ino, Kind};
use crate::layout::{more_lines, pair, Line, CTIME, PLACE};
use crate::log::Change;
use crate::names::check_name;
use alloc::vec::Vec;

/// What a rename does with a name that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// It stands for what is renamed.
    Replace,
    /// It stays, and so does the other (`RENAME_NOREPLACE`).
    NoReplace,
    /// It must be there, and both stand for what the other did (`RENAME_EXCHANGE`).
    Exchange,
}

/// A name, and what it stands for.
#[derive(Clone, Copy)]
struct End<'a> {
    dir: Line,
    name: &'a [u8],
    line: Line,
    ino: Line,
}

impl<A: Area> Fs<A> {
    /// Makes `to` the name of what is `from`. Both directories and what is moved are changed at the time `now`. Returns what
    /// was replaced, if that was its last name and nobody holds it. Two names of the same file stay.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound` (also: the directory was removed), `Exists`, `Invalid`, `NameTooLong`, `Loop`, `NotEmpty`;
    /// `IsDirectory`, `NotDirectory` (one is a directory and the other is none); `NoSpace` (not if a name is replaced).
    pub fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: How,
        now: i64,
    ) -> Result<Option<Gone>, Error> {
        let source = self.end((from.0 .0, from.1))?.ok_or(Error::NotFound)?;
        let target = self.end((to.0 .0, to.1))?;
        check_name(to.1)?;
        if how == How::NoReplace && target.is_some() {
            return Err(Error::Exists);
        }
        if self.is_below(to.0 .0, source.ino) {
            return Err(Error::Loop);
        }
        match target {
            None if how == How::Exchange => Err(Error::NotFound),
            None => self.move_to(source, (to.0 .0, to.1), now).map(|()| None),
            Some(target) if target.ino == source.ino => Ok(None),
            Some(target) if how == How::Exchange => {
                self.exchange(source, target, now).map(|()| None)
            }
            Some(target) => self.replace(source, target, now),
        }
    }

    /// A name, if it is there.
    fn end<'a>(&self, (dir, name): (Line, &'a [u8])) -> Result<Option<End<'a>>, Error> {
        self.dir(dir)?;
        let found = self.find(dir, name);
        Ok(found.map(|line| End { dir, name, line, ino: self.child(line) }))
    }

    /// Is `dir` the directory `above`, or somewhere below it?
    fn is_below(&self, dir: Line, above: Line) -> bool {
        let mut at = dir;
        loop {
            if at == above {
                return true;
            }
            match self.index.inodes.get(&at) {
                Some(known) if known.name != 0 => at = known.parent,
                _ => return false,
            }
        }
    }

    fn move_to(&mut self, from: End, to: (Line, &[u8]), now: i64) -> Result<(), Error> {
        if self.dir(to.0)?.names == 0 {
            return Err(Error::NotFound);
        }
        let lines = self.take(1 + more_lines(to.1.len()))?;
        let mut change = Change::new();
        let freed = self.drop_name(&mut change, (from.dir, from.name), from.line);
        self.new_name(&mut change, &lines, to, from.ino);
        change.moved(&[from.ino], &[from.dir, to.0], now);
        self.commit(change, freed);
        Ok(())
    }

    fn replace(&mut self, from: End, to: End, now: i64) -> Result<Option<Gone>, Error> {
        let (source, target) = (self.inode(from.ino)?.kind, self.inode(to.ino)?.kind);
        match (source == Kind::Dir, target == Kind::Dir) {
            (true, false) => return Err(Error::NotDirectory),
            (false, true) => return Err(Error::IsDirectory),
            (true, true) if self.dir(to.ino)?.entries > 0 => return Err(Error::NotEmpty),
            _ => {}
        }
        let mut change = Change::new();
        let mut freed = self.drop_name(&mut change, (from.dir, from.name), from.line);
        self.lead_to(&mut change, to, from.ino);
        change.moved(&[from.ino], &[from.dir, to.dir], now);
        let gone = self.unlinked(&mut change, to.ino, now, &mut freed);
        self.commit(change, freed);
        Ok(gone)
    }

    fn exchange(&mut self, from: End, to: End, now: i64) -> Result<(), Error> {
        if self.is_below(from.dir, to.ino) {
            return Err(Error::Loop);
        }
        let mut change = Change::new();
        self.leads_to(from.dir, from.line, from.ino, false);
        self.lead_to(&mut change, to, from.ino);
        self.leads_to(from.dir, from.line, to.ino, true);
        change.set(from.line, PLACE, pair(from.dir, to.ino));
        change.moved(&[from.ino, to.ino], &[from.dir, to.dir], now);
        self.commit(change, Vec::new());
        Ok(())
    }

    /// A name stands for another inode with the change.
    fn lead_to(&mut self, change: &mut Change, name: End, ino: Line) {
        self.leads_to(name.dir, name.line, name.ino, false);
        self.leads_to(name.dir, name.line, ino, true);
        change.set(name.line, PLACE, pair(name.dir, ino));
    }
}

impl Change {
    fn moved(&mut self, inodes: &[Line], dirs: &[Line], now: i64) {
        inodes.iter().for_each(|&ino| self.set(ino, CTIME, now as u64));
        dirs.iter().for_each(|&dir| self.touch(dir, now));
    }
}
