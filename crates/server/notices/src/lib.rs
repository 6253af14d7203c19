//! Who watches which files (`inotify`, and `fanotify` in [`fan`]), and what each is still to be told.
//!
//! A *group* is what `inotify_init` makes: watches, each of one file, and a queue of events. Files are numbers here; whoever uses
//! this says what has [happened](Happening) to which. What happens to a file is told to those who watch it, and, with the name
//! that it has there, to those who watch its directory.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod fan;
mod queue;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use queue::Queue;
pub use queue::{Event, Small, HEAD};

/// Bits of masks.
pub mod mask {
    #![allow(missing_docs)]
    pub const ACCESS: u32 = 1;
    pub const MODIFY: u32 = 2;
    pub const ATTRIB: u32 = 4;
    pub const CLOSE_WRITE: u32 = 8;
    pub const CLOSE_NOWRITE: u32 = 0x10;
    pub const OPEN: u32 = 0x20;
    pub const MOVED_FROM: u32 = 0x40;
    pub const MOVED_TO: u32 = 0x80;
    pub const CREATE: u32 = 0x100;
    pub const DELETE: u32 = 0x200;
    pub const DELETE_SELF: u32 = 0x400;
    pub const MOVE_SELF: u32 = 0x800;
    /// All that can happen to a file.
    pub const ALL_EVENTS: u32 = 0xfff;
    /// A file was opened to be executed. Watches are not told.
    pub const OPEN_EXEC: u32 = 0x1000;
    /// A name has become another one. Watches are told of both names instead.
    pub const RENAME: u32 = 0x1000_0000;
    pub const Q_OVERFLOW: u32 = 0x4000;
    pub const IGNORED: u32 = 0x8000;
    pub const ONLYDIR: u32 = 0x100_0000;
    pub const DONT_FOLLOW: u32 = 0x200_0000;
    pub const EXCL_UNLINK: u32 = 0x400_0000;
    pub const MASK_CREATE: u32 = 0x1000_0000;
    pub const MASK_ADD: u32 = 0x2000_0000;
    pub const ISDIR: u32 = 0x4000_0000;
    pub const ONESHOT: u32 = 0x8000_0000;
    /// What a watch keeps of the mask that it is given.
    pub const KEPT: u32 = ALL_EVENTS | EXCL_UNLINK | ONESHOT;
}

/// Something that has happened.
#[derive(Clone, Debug)]
pub struct Happening<'a> {
    /// One bit of [`mask::ALL_EVENTS`], and perhaps [`mask::ISDIR`].
    pub mask: u32,
    /// The same for both sides of a rename; else 0.
    pub cookie: u32,
    /// To this file.
    pub file: Option<u64>,
    /// Or the file that has this name in that directory.
    pub name: Option<(u64, &'a [u8])>,
    /// The file is not there any more.
    pub is_unlinked: bool,
}

/// A file that a group watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Watch {
    file: u64,
    mask: u32,
}

/// Watches and a queue.
#[derive(Default)]
struct Group {
    queue: Queue,
    watches: BTreeMap<i32, Watch>,
    /// The number that was given last.
    last: i32,
}

impl Group {
    /// The next number that is free, behind the last one.
    fn next(&self) -> i32 {
        let is_free = |wd: &i32| !self.watches.contains_key(wd);
        let behind = (self.last..i32::MAX).map(|wd| wd + 1).find(is_free);
        behind.or_else(|| (1..i32::MAX).find(is_free)).unwrap_or(1)
    }
}

/// Why there is no watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No such group.
    NoGroup,
    /// The file is watched already.
    Exists,
}

/// All groups.
#[derive(Default)]
pub struct Notices {
    groups: BTreeMap<u32, Group>,
    /// The groups that watch a file, in order, with the number of the watch.
    watched: BTreeMap<u64, Vec<(u32, i32)>>,
}

/// Groups to which something was told, and how many bytes and watches each has more, or less.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// The group.
    pub group: u32,
    /// Bytes of events more.
    pub bytes: usize,
    /// Watches less.
    pub watches: usize,
}

impl Notices {
    /// Returns `true` if nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// All files that somebody watches.
    pub fn files(&self) -> impl Iterator<Item = u64> + '_ {
        self.watched.keys().copied()
    }

    /// Does somebody watch a file?
    pub fn is_watched(&self, file: u64) -> bool {
        self.watched.contains_key(&file)
    }

    /// A new group, of a number that none has.
    pub fn add_group(&mut self, group: u32) {
        self.groups.insert(group, Group::default());
    }

    /// A group goes. Answers how many bytes of events and watches it had.
    pub fn remove_group(&mut self, group: u32) -> (usize, usize) {
        let Some(gone) = self.groups.remove(&group) else { return (0, 0) };
        for watch in gone.watches.values() {
            self.unlist(watch.file, group);
        }
        (gone.queue.memory(), gone.watches.len())
    }

    fn unlist(&mut self, file: u64, group: u32) {
        let Some(list) = self.watched.get_mut(&file) else { return };
        list.retain(|(of, _)| *of != group);
        if list.is_empty() {
            self.watched.remove(&file);
        }
    }

    /// Watches a file, or watches it for something else. Answers the watch, and whether it is new.
    ///
    /// # Errors
    ///
    /// There is one, and the mask says that there must not be.
    pub fn watch(&mut self, group: u32, file: u64, wanted: u32) -> Result<(i32, bool), Refusal> {
        let known = self.watch_of(group, file);
        let of = self.groups.get_mut(&group).ok_or(Refusal::NoGroup)?;
        let kept = wanted & mask::KEPT;
        if let Some(wd) = known {
            if wanted & mask::MASK_CREATE != 0 {
                return Err(Refusal::Exists);
            }
            if let Some(watch) = of.watches.get_mut(&wd) {
                let before = if wanted & mask::MASK_ADD != 0 { watch.mask } else { 0 };
                watch.mask = before | kept;
            }
            return Ok((wd, false));
        }
        let wd = of.next();
        of.last = wd;
        of.watches.insert(wd, Watch { file, mask: kept });
        let list = self.watched.entry(file).or_default();
        list.push((group, wd));
        list.sort_unstable();
        Ok((wd, true))
    }

    /// The watch by which a group watches a file already.
    pub fn watch_of(&self, group: u32, file: u64) -> Option<i32> {
        let list = self.watched.get(&file)?;
        let at = list.binary_search_by_key(&group, |(of, _)| *of).ok()?;
        list.get(at).map(|(_, wd)| *wd)
    }

    /// Ends a watch. `None`: there is no such watch.
    pub fn unwatch(&mut self, group: u32, wd: i32, room: usize) -> Option<Change> {
        let of = self.groups.get_mut(&group)?;
        let watch = of.watches.remove(&wd)?;
        let bytes = of.queue.add(Event::new(wd, mask::IGNORED, 0, &[]), room);
        self.unlist(watch.file, group);
        Some(Change { group, bytes, watches: 1 })
    }

    /// Tells those who want to know of something that has happened. `room` says how many bytes of events a group may have more.
    pub fn tell(&mut self, it: &Happening, room: impl Fn(u32) -> usize) -> Vec<Change> {
        let list = |file: Option<u64>| file.and_then(|file| self.watched.get(&file));
        let both = [list(it.name.map(|(dir, _)| dir)), list(it.file)];
        let mut heard: Vec<(u32, usize, i32)> = Vec::new();
        for (which, list) in both.into_iter().enumerate() {
            heard.extend(list.into_iter().flatten().map(|&(group, wd)| (group, which, wd)));
        }
        // A group hears of it as a name in a directory first.
        heard.sort_unstable();
        let mut changes: Vec<Change> = Vec::new();
        for (group, which, wd) in heard {
            if changes.last().is_none_or(|last| last.group != group) {
                changes.push(Change { group, ..Change::default() });
            }
            let Some(change) = changes.last_mut() else { break };
            let room = room(group).saturating_sub(change.bytes);
            let by_name = which == 0;
            self.tell_one((group, wd), it, by_name, room, change);
        }
        changes.retain(|change| change.bytes + change.watches > 0);
        changes
    }

    fn tell_one(
        &mut self,
        (group, wd): (u32, i32),
        it: &Happening,
        by_name: bool,
        room: usize,
        change: &mut Change,
    ) {
        let Some(of) = self.groups.get_mut(&group) else { return };
        let Some(&watch) = of.watches.get(&wd) else { return };
        let is_excluded =
            by_name && it.file.is_some() && it.is_unlinked && watch.mask & mask::EXCL_UNLINK != 0;
        if it.mask & watch.mask & mask::ALL_EVENTS == 0 || is_excluded {
            return;
        }
        // Of its own end and way a directory does not say that it is one.
        let is_own = it.mask & (mask::DELETE_SELF | mask::MOVE_SELF) != 0;
        let told = if is_own { it.mask & !mask::ISDIR } else { it.mask };
        let name = it.name.filter(|_| by_name).map_or(&[][..], |(_, name)| name);
        change.bytes += of.queue.add(Event::new(wd, told, it.cookie, name), room);
        if watch.mask & mask::ONESHOT != 0 {
            let room = room.saturating_sub(change.bytes);
            let ended = self.unwatch(group, wd, room).unwrap_or_default();
            change.bytes += ended.bytes;
            change.watches += 1;
        }
    }

    /// A file is gone: all watches of it end.
    pub fn gone(&mut self, file: u64, room: impl Fn(u32) -> usize) -> Vec<Change> {
        let list = self.watched.get(&file).cloned().unwrap_or_default();
        let end = |&(group, wd): &(u32, i32)| self.unwatch(group, wd, room(group));
        list.iter().filter_map(end).collect()
    }

    /// The watches of a group: number, file, and what it wants to be told.
    pub fn watches(&self, group: u32) -> impl Iterator<Item = (i32, u64, u32)> + '_ {
        let all = self.groups.get(&group).into_iter().flat_map(|group| &group.watches);
        all.map(|(wd, watch)| (*wd, watch.file, watch.mask))
    }

    /// Bytes that there are to be read by a group.
    pub fn readable(&self, group: u32) -> usize {
        self.groups.get(&group).map_or(0, |of| of.queue.bytes())
    }

    /// The next events of a group, as they are read, as many as fit; and how much memory they had.
    ///
    /// # Errors
    ///
    /// Not even the first one fits.
    pub fn take(&mut self, group: u32, most: usize) -> Result<(Vec<u8>, usize), Small> {
        match self.groups.get_mut(&group) {
            Some(of) => of.queue.take(most),
            None => Ok((Vec::new(), 0)),
        }
    }
}
