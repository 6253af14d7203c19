//! Extended attributes.

use crate::area::Area;
use crate::chain;
use crate::fs::{Error, Fs, Ino};
use crate::layout::{more_lines, Head, Line, XattrHead, CTIME, HEAD, HEAD_BYTES};
use crate::log::Change;
use crate::{NAME_MAX, XATTRS_MAX, XATTR_MAX};
use alloc::vec::Vec;

/// Whether an attribute must be there to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetXattr {
    Any,
    /// It must not (`XATTR_CREATE`).
    Create,
    /// It must (`XATTR_REPLACE`).
    Replace,
}

fn check_name(name: &[u8]) -> Result<(), Error> {
    match name.len() {
        0 => Err(Error::Invalid),
        1..=NAME_MAX if name.contains(&0) => Err(Error::Invalid),
        1..=NAME_MAX => Ok(()),
        _ => Err(Error::NameTooLong),
    }
}

impl<A: Area> Fs<A> {
    /// The value of an attribute.
    ///
    /// # Errors
    /// `NotFound`: there is no such inode.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inode(ino.0)?;
        Ok(self.find_xattr(ino.0, name).map(|line| {
            let head = self.xattr_head(line);
            let mut bytes = self.xattr_bytes(line, head, head.bytes());
            bytes.drain(..head.name as usize);
            bytes
        }))
    }

    /// The names of all attributes.
    ///
    /// # Errors
    /// `NotFound`: there is no such inode.
    pub fn xattrs(&self, ino: Ino) -> Result<impl Iterator<Item = Vec<u8>> + '_, Error> {
        self.inode(ino.0)?;
        Ok(self.index.xattrs_of(ino.0).map(|line| {
            let head = self.xattr_head(line);
            self.xattr_bytes(line, head, head.name as usize)
        }))
    }

    /// Sets an attribute. The inode's status changes at the time `now`.
    ///
    /// # Errors
    /// `NotFound` (also: there is no such attribute), `Exists`, `Invalid`, `NameTooLong`, `TooBig`, `NoSpace`: also when an
    /// old value would make room, as it is there until the new one is.
    pub fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: i64,
    ) -> Result<(), Error> {
        self.inode(ino.0)?;
        check_name(name)?;
        if value.len() > XATTR_MAX {
            return Err(Error::TooBig);
        }
        let old = self.find_xattr(ino.0, name);
        match (old, how) {
            (Some(_), SetXattr::Create) => return Err(Error::Exists),
            (None, SetXattr::Replace) => return Err(Error::NotFound),
            _ => {}
        }
        let count = self.index.inodes.get(&ino.0).map_or(0, |known| known.xattrs);
        if old.is_none() && count as usize >= XATTRS_MAX {
            return Err(Error::NoSpace);
        }
        let lines = self.take(1 + more_lines(name.len() + value.len()))?;
        let (mut change, mut freed) = (Change::new(), Vec::new());
        self.new_xattr(&mut change, &lines, (ino.0, name), value);
        if let Some(line) = old {
            self.drop_xattr(&mut change, ino.0, line, &mut freed);
        }
        change.set(ino.0, CTIME, now as u64);
        self.commit(change, freed);
        Ok(())
    }

    /// Removes an attribute. The inode's status changes at the time `now`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: i64) -> Result<(), Error> {
        self.inode(ino.0)?;
        let line = self.find_xattr(ino.0, name).ok_or(Error::NotFound)?;
        let (mut change, mut freed) = (Change::new(), Vec::new());
        self.drop_xattr(&mut change, ino.0, line, &mut freed);
        change.set(ino.0, CTIME, now as u64);
        self.commit(change, freed);
        Ok(())
    }

    /// Writes an attribute to its lines; it is there with the change.
    pub(crate) fn new_xattr(
        &mut self,
        change: &mut Change,
        lines: &[Line],
        (ino, name): (Line, &[u8]),
        value: &[u8],
    ) {
        let bytes = [name, value].concat();
        let rest = &bytes[bytes.len().min(HEAD_BYTES)..];
        let rest = chain::write(&self.area, &lines[1..], rest);
        chain::write_head(&self.area, lines[0], ino as u64, &bytes);
        let head = XattrHead { name: name.len() as u8, value: value.len() as u32, rest };
        change.set(lines[0], HEAD, head.word());
        self.index.add_xattr(ino, lines[0]);
        if let Some(known) = self.index.inodes.get_mut(&ino) {
            known.xattrs += 1;
        }
    }

    /// An attribute is gone with the change.
    pub(crate) fn drop_xattr(
        &mut self,
        change: &mut Change,
        ino: Line,
        line: Line,
        freed: &mut Vec<Line>,
    ) {
        let head = self.xattr_head(line);
        self.collect(head.rest, more_lines(head.bytes()), freed);
        freed.push(line);
        change.set(line, HEAD, 0);
        self.index.remove_xattr(ino, line);
        if let Some(known) = self.index.inodes.get_mut(&ino) {
            known.xattrs = known.xattrs.saturating_sub(1);
        }
    }

    fn find_xattr(&self, ino: Line, name: &[u8]) -> Option<Line> {
        self.index.xattrs_of(ino).find(|&line| {
            let head = self.xattr_head(line);
            head.name as usize == name.len()
                && chain::is_equal(|at| self.area.load(at), line, head.rest, name)
        })
    }

    pub(crate) fn xattr_bytes(&self, line: Line, head: XattrHead, count: usize) -> Vec<u8> {
        chain::read_behind_head(|at| self.area.load(at), line, head.rest, count)
    }

    pub(crate) fn xattr_head(&self, line: Line) -> XattrHead {
        match Head::of(self.load(line, HEAD)) {
            Some(Head::Xattr(head)) => head,
            _ => XattrHead { name: 0, value: 0, rest: 0 },
        }
    }
}
