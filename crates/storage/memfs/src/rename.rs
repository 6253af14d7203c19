//! Rename: replaces, refuses, exchanges.

use crate::fs::Ino;
use crate::perm::{Cred, WRITE};
use crate::{Fs, NAME_MAX};
use unixproto::files::{RENAME_EXCHANGE, RENAME_NOREPLACE};
use unixproto::Errno;

/// One end of a rename.
#[derive(Clone, Copy)]
struct End<'a> {
    dir: Ino,
    name: &'a [u8],
}

impl<C: Default> Fs<C> {
    /// Makes `new` in `new_dir` the name of what is `old` in `old_dir`.
    #[allow(clippy::too_many_arguments)]
    pub fn rename(
        &mut self,
        old_dir: Ino,
        old: &[u8],
        new_dir: Ino,
        new: &[u8],
        flags: u32,
        cred: &Cred,
        now: i64,
    ) -> Result<(), Errno> {
        let known = RENAME_NOREPLACE | RENAME_EXCHANGE;
        if flags & !known != 0 || flags == known {
            return Err(Errno::EINVAL);
        }
        if [old, new].iter().any(|name| matches!(*name, b"." | b".." | b"")) {
            return Err(Errno::EBUSY);
        }
        let (from, to) = (End { dir: old_dir, name: old }, End { dir: new_dir, name: new });
        let source = self.get(old_dir)?.dir()?.get(old).ok_or(Errno::ENOENT)?;
        let target = self.get(new_dir)?.dir()?.get(new);
        self.same_part(old_dir, new_dir)?;
        if self.has_queues(old_dir) || self.has_queues(new_dir) {
            return Err(Errno::EPERM);
        }
        self.not_mounted(old_dir, source)?;
        if let Some(target) = target {
            self.not_mounted(new_dir, target)?;
        }
        for ino in [Some(source), target].into_iter().flatten() {
            self.not_snapshots(ino)?;
        }
        if new.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if flags & RENAME_NOREPLACE != 0 && target.is_some() {
            return Err(Errno::EEXIST);
        }
        if self.is_below(new_dir, source) {
            return Err(Errno::EINVAL);
        }
        if flags & RENAME_EXCHANGE != 0 {
            let target = target.ok_or(Errno::ENOENT)?;
            return self.exchange(from, source, to, target, cred, now);
        }
        if target.is_some_and(|target| self.is_below(old_dir, target)) {
            return Err(Errno::ENOTEMPTY);
        }
        if target == Some(source) {
            return Ok(());
        }
        self.may_replace(from, source, to, target, cred)?;
        self.part_of_new(new_dir, new, None)?;
        self.replace(from, source, to, target, now)
    }

    /// Is `dir` the directory `above`, or somewhere below it?
    fn is_below(&self, dir: Ino, above: Ino) -> bool {
        let mut at = dir;
        loop {
            if at == above {
                return true;
            }
            let Ok(Ok(parent)) = self.get(at).map(|inode| inode.dir().map(|d| d.parent)) else {
                return false;
            };
            if parent == at {
                return false;
            }
            at = parent;
        }
    }

    fn may_replace(
        &self,
        from: End,
        source: Ino,
        to: End,
        target: Option<Ino>,
        cred: &Cred,
    ) -> Result<(), Errno> {
        self.may_remove(from.dir, source, cred)?;
        self.may_move(source, from.dir, to.dir, cred)?;
        let source_is_dir = self.get(source)?.is_dir();
        let Some(target) = target else {
            if self.get(to.dir)?.nlink == 0 {
                return Err(Errno::ENOENT);
            }
            return self.may_change(to.dir, cred);
        };
        self.may_remove(to.dir, target, cred)?;
        let target = self.get(target)?;
        match (source_is_dir, target.is_dir()) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            (true, true) if !target.dir()?.is_empty() => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    /// A directory that gets another parent is changed by that.
    fn may_move(&self, ino: Ino, from: Ino, to: Ino, cred: &Cred) -> Result<(), Errno> {
        let inode = self.get(ino)?;
        match from != to && inode.is_dir() {
            true => inode.permits(cred, WRITE),
            false => Ok(()),
        }
    }

    fn replace(
        &mut self,
        from: End,
        source: Ino,
        to: End,
        target: Option<Ino>,
        now: i64,
    ) -> Result<(), Errno> {
        self.get_mut(to.dir)?.dir_mut()?.prepare(to.name)?;
        self.keep_move(from, to, false, now)?;
        self.get_mut(from.dir)?.dir_mut()?.remove(from.name);
        self.get_mut(to.dir)?.dir_mut()?.set(to.name, source);
        if let Some(target) = target {
            self.drop_name(to.dir, target, now)?;
        }
        self.moved(source, from.dir, to.dir, now)?;
        self.get_mut(from.dir)?.modified(now);
        self.get_mut(to.dir)?.modified(now);
        Ok(())
    }

    fn exchange(
        &mut self,
        from: End,
        source: Ino,
        to: End,
        target: Ino,
        cred: &Cred,
        now: i64,
    ) -> Result<(), Errno> {
        if self.is_below(from.dir, target) {
            return Err(Errno::EINVAL);
        }
        self.may_remove(from.dir, source, cred)?;
        self.may_remove(to.dir, target, cred)?;
        self.may_move(source, from.dir, to.dir, cred)?;
        self.may_move(target, to.dir, from.dir, cred)?;
        self.keep_move(from, to, true, now)?;
        self.get_mut(from.dir)?.dir_mut()?.set(from.name, target);
        self.get_mut(to.dir)?.dir_mut()?.set(to.name, source);
        self.moved(source, from.dir, to.dir, now)?;
        self.moved(target, to.dir, from.dir, now)?;
        self.get_mut(from.dir)?.modified(now);
        self.get_mut(to.dir)?.modified(now);
        Ok(())
    }

    /// Has the move kept, where the names are.
    fn keep_move(&mut self, from: End, to: End, exchange: bool, now: i64) -> Result<(), Errno> {
        let target = self.keeper_of(to.dir, to.name)?.map(|(_, at)| at);
        if let (Some((keeper, from)), Some(to)) = (self.keeper_of(from.dir, from.name)?, target) {
            keeper.rename(from, to, exchange, now)?;
        }
        Ok(())
    }

    /// `ino` has moved between directories: its `..` and their link counts.
    fn moved(&mut self, ino: Ino, from: Ino, to: Ino, now: i64) -> Result<(), Errno> {
        let inode = self.get_mut(ino)?;
        inode.ctime = now;
        if from != to && inode.is_dir() {
            inode.dir_mut()?.parent = to;
            self.get_mut(from)?.nlink -= 1;
            self.get_mut(to)?.nlink += 1;
        }
        Ok(())
    }
}
