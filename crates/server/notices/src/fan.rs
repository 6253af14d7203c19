//! Who has marked which files (`fanotify`), and what each is still to be told. Files are told by handles: a [`FileId`] each.
//!
//! A *group* is what `fanotify_init` makes: marks of files, and a queue. Unlike a watch of `inotify`, a mark of a directory is told of what
//! happens to its children only if it says so, and one mark can ignore what another one wants.

use crate::{mask, Change};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Events that wait in a queue, at most; then one that says that others are lost.
pub const MOST: usize = crate::queue::MOST;
/// Bytes of `struct fanotify_event_metadata`.
pub const HEAD: usize = 24;
/// Bytes of a handle: generation and number.
pub const HANDLE_BYTES: usize = 12;
/// The type of such a handle (`FILEID_INO32_GEN`).
pub const HANDLE_TYPE: u32 = 1;

/// Bits of marks and events that [`mask`] does not have.
pub mod bits {
    #![allow(missing_docs)]
    pub const ON_CHILD: u32 = 0x800_0000;
    /// What has to do with names of a directory.
    pub const NAMES: u32 = super::mask::MOVED_FROM
        | super::mask::MOVED_TO
        | super::mask::CREATE
        | super::mask::DELETE
        | super::mask::RENAME;
    /// All that can happen.
    pub const EVENTS: u32 = super::mask::ALL_EVENTS | super::mask::RENAME | super::mask::OPEN_EXEC;
    /// What says how a mark is meant.
    pub const FLAGS: u32 = ON_CHILD | super::mask::ISDIR;
}

/// What a group is told of an event (`FAN_REPORT_*`).
pub mod report {
    #![allow(missing_docs)]
    pub const FID: u32 = 0x200;
    pub const DIR_FID: u32 = 0x400;
    pub const NAME: u32 = 0x800;
    pub const TARGET_FID: u32 = 0x1000;
    pub const ALL: u32 = FID | DIR_FID | NAME | TARGET_FID;
}

/// Kinds of information records.
mod info {
    pub const FID: u8 = 1;
    pub const DFID_NAME: u8 = 2;
    pub const DFID: u8 = 3;
    pub const OLD_DFID_NAME: u8 = 10;
    pub const NEW_DFID_NAME: u8 = 12;
}

/// A file as programs know it that have no descriptor of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FileId {
    /// Its file system, as `statfs` says it.
    pub fsid: u64,
    /// Its inode number.
    pub number: u32,
    /// Which of those is meant that had this number one after the other.
    pub generation: u32,
}

impl FileId {
    /// The bytes of its handle, as Linux's tmpfs has them.
    pub fn handle(&self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..4].copy_from_slice(&self.generation.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }
}

/// A name in a directory.
pub type Named<'a> = (FileId, &'a [u8]);

/// Something that has happened.
#[derive(Clone, Debug)]
pub struct Fact<'a> {
    /// Bits of [`bits::EVENTS`], and perhaps [`mask::ISDIR`].
    pub mask: u32,
    /// To this file.
    pub file: Option<FileId>,
    /// Where that is, or the name that has come or gone.
    pub place: Option<Named<'a>>,
    /// Of a rename, the new name.
    pub to: Option<Named<'a>>,
    /// The process that has done it.
    pub by: u32,
}

/// What a mark is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Mark {
    mask: u32,
    ignored: u32,
    /// What is ignored says itself for which files ([`bits::FLAGS`]).
    ignore_has_flags: bool,
    /// It is ignored also once the file has changed.
    survives: bool,
    /// It was made to be forgotten when memory is short.
    is_evictable: bool,
}

/// How a mark is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// What is wanted.
    Wanted,
    /// What is ignored, as before there were flags of that: of directories nothing.
    Ignored,
    /// What is ignored, with flags.
    Ignore,
}

/// What is to be marked.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Events and flags.
    pub mask: u32,
    /// Which of the masks is meant.
    pub which: Which,
    /// What is ignored stays so when the file changes.
    pub survives: bool,
    /// The mark may be forgotten when memory is short.
    pub is_evictable: bool,
    /// Flags that alone are no reason to keep a mark.
    pub idle: u32,
}

/// Why a mark is not made or taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is none.
    None,
    /// There is one that would become less.
    Exists,
    /// There may not be more.
    Full,
}

/// How a mark has to do with what happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Role {
    /// Of the file, or of the directory in which the name is.
    Own,
    /// Of the directory above the file.
    Parent,
    /// Of the directory to which a name moves.
    New,
}

/// Does a mask have to do with what happens to a directory or to no directory, to the file or below it?
fn applies(mask: u32, is_dir: bool, role: Role) -> bool {
    (!is_dir || mask & mask::ISDIR != 0) && (role != Role::Parent || mask & bits::ON_CHILD != 0)
}

impl Mark {
    /// The events of those that are ignored.
    fn ignores(&self, is_dir: bool, role: Role) -> u32 {
        let ignored = match self.ignore_has_flags {
            true => self.ignored,
            false => self.ignored & bits::EVENTS | mask::ISDIR | self.mask & bits::ON_CHILD,
        };
        if applies(ignored, is_dir, role) {
            ignored & bits::EVENTS
        } else {
            0
        }
    }
}

/// An event that waits.
#[derive(PartialEq, Eq, Debug)]
struct Event {
    mask: u32,
    by: u32,
    dir: Option<(FileId, Box<[u8]>)>,
    to: Option<(FileId, Box<[u8]>)>,
    file: Option<FileId>,
}

/// Bytes of an information record with a name of so many bytes with its end.
fn info_bytes(name: usize) -> usize {
    (4 + 8 + 8 + HANDLE_BYTES + name).next_multiple_of(4)
}

impl Event {
    const LOST: Event = Event { mask: mask::Q_OVERFLOW, by: 0, dir: None, to: None, file: None };

    /// What it costs whoever keeps it: also the way to find it.
    fn memory(&self) -> usize {
        let name = |named: &Option<(FileId, Box<[u8]>)>| named.as_ref().map_or(0, |of| of.1.len());
        size_of::<Event>() + 4 * size_of::<u64>() + name(&self.dir) + name(&self.to)
    }

    /// By this those are found that may become one: they differ in what has happened only.
    fn hash(&self) -> u64 {
        const PRIME: u64 = 0x100_0000_01b3;
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |value: u64| hash = (hash ^ value).wrapping_mul(PRIME).rotate_left(23);
        add(u64::from(self.mask & KEPT_APART) << 32 | u64::from(self.by));
        let ids = [self.dir.as_ref().map(|of| of.0), self.to.as_ref().map(|of| of.0), self.file];
        for id in ids {
            let id = id.unwrap_or(FileId { fsid: 0, number: 0, generation: 0 });
            add(id.fsid);
            add(u64::from(id.number) << 32 | u64::from(id.generation));
        }
        for (_, name) in [&self.dir, &self.to].into_iter().flatten() {
            add(name.len() as u64);
            name.iter().for_each(|byte| add((*byte).into()));
        }
        hash
    }

    fn is_alike(&self, other: &Event) -> bool {
        let same = (self.by, self.file) == (other.by, other.file);
        let apart = (self.mask ^ other.mask) & KEPT_APART;
        same && apart == 0 && self.dir == other.dir && self.to == other.to
    }

    /// Its information records: kind, file, name with its end.
    fn infos(&self, reports: u32) -> impl Iterator<Item = (u8, FileId, Vec<u8>)> + '_ {
        let named = |kind: u8, named: &Option<(FileId, Box<[u8]>)>| {
            let (dir, name) = named.as_ref()?;
            let kind = if name.is_empty() { info::DFID } else { kind };
            let end: &[u8] = if name.is_empty() { &[] } else { &[0] };
            Some((kind, *dir, [name, end].concat()))
        };
        let is_rename = self.mask & mask::RENAME != 0;
        let first = if is_rename { info::OLD_DFID_NAME } else { info::DFID_NAME };
        let is_dir = self.mask & mask::ISDIR != 0;
        let has_place = self.dir.is_some() || self.to.is_some();
        let file = self.file.map(|file| match reports {
            _ if reports & report::ALL == report::FID || has_place => (info::FID, file, Vec::new()),
            // Of itself a directory says that it is there.
            _ if reports & report::NAME != 0 && is_dir => (info::DFID_NAME, file, b".\0".to_vec()),
            _ if is_dir || self.mask & bits::NAMES != 0 => (info::DFID, file, Vec::new()),
            _ => (info::FID, file, Vec::new()),
        });
        [named(first, &self.dir), named(info::NEW_DFID_NAME, &self.to), file].into_iter().flatten()
    }

    /// As it is read by somebody who sees its process so.
    fn bytes(&self, reports: u32, by: i32) -> Vec<u8> {
        let mut to = alloc::vec![0; HEAD];
        for (kind, file, name) in self.infos(reports) {
            let length = info_bytes(name.len());
            let end = to.len() + length;
            to.extend_from_slice(&[kind, 0]);
            to.extend_from_slice(&(length as u16).to_le_bytes());
            to.extend_from_slice(&file.fsid.to_le_bytes());
            to.extend_from_slice(&(HANDLE_BYTES as u32).to_le_bytes());
            to.extend_from_slice(&HANDLE_TYPE.to_le_bytes());
            to.extend_from_slice(&file.handle());
            to.extend_from_slice(&name);
            to.resize(end, 0);
        }
        const VERSION: u8 = 3;
        const NO_FD: i32 = -1;
        let length = to.len() as u32;
        to[..4].copy_from_slice(&length.to_le_bytes());
        to[4] = VERSION;
        to[6..8].copy_from_slice(&(HEAD as u16).to_le_bytes());
        to[8..16].copy_from_slice(&u64::from(self.mask).to_le_bytes());
        to[16..20].copy_from_slice(&NO_FD.to_le_bytes());
        to[20..24].copy_from_slice(&by.to_le_bytes());
        to
    }
}

/// Events that differ in these do not become one.
const KEPT_APART: u32 = mask::ISDIR | mask::RENAME | mask::Q_OVERFLOW;

/// Marks and a queue.
#[derive(Default)]
struct Group {
    reports: u32,
    marks: usize,
    events: VecDeque<Event>,
    /// How many were read of all that came: that is the number of the first.
    first: u64,
    /// The last event that came with a hash, by its number.
    index: BTreeMap<u64, u64>,
    memory: usize,
    /// One of them says that others are lost.
    is_full: bool,
}

impl Group {
    /// Adds an event, or has one that is there say it, too, or that it is lost. Answers what it costs.
    fn add(&mut self, event: Event, room: usize) -> usize {
        let is_lost = self.events.len() >= MOST || event.memory() > room;
        if is_lost && self.is_full {
            return 0;
        }
        let event = if is_lost { Event::LOST } else { event };
        self.is_full |= is_lost;
        let hash = event.hash();
        let known = self.index.get(&hash).and_then(|number| number.checked_sub(self.first));
        let known = known.and_then(|at| self.events.get_mut(at as usize));
        if let Some(known) = known.filter(|known| known.is_alike(&event)) {
            known.mask |= event.mask;
            return 0;
        }
        let cost = event.memory();
        self.index.insert(hash, self.first + self.events.len() as u64);
        self.memory += cost;
        self.events.push_back(event);
        cost
    }

    fn take_first(&mut self) -> usize {
        let Some(event) = self.events.pop_front() else { return 0 };
        let hash = event.hash();
        if self.index.get(&hash) == Some(&self.first) {
            self.index.remove(&hash);
        }
        self.first += 1;
        self.is_full &= event.mask & mask::Q_OVERFLOW == 0;
        self.memory -= event.memory();
        event.memory()
    }

    /// The event that the group is told of, as far as it wants to know it.
    fn event_of(&self, it: &Fact, mask: u32, roles: [bool; 2]) -> Option<Event> {
        let reports = self.reports;
        let (is_name, is_dir) = (it.mask & bits::NAMES != 0, it.mask & mask::ISDIR != 0);
        let [old, new] = roles;
        let place = it.place.map(|(dir, _)| dir);
        if reports & report::FID == 0 && place.is_none() && !is_dir {
            return None;
        }
        let target = match is_name && reports & report::TARGET_FID == 0 {
            true => place,
            false => it.file,
        };
        let event = Event { mask, by: it.by, dir: None, to: None, file: target };
        // A directory is reported as itself, a name in its directory.
        let dir = if is_dir && !is_name { it.file } else { place };
        let Some(dir) = dir.filter(|_| reports & report::DIR_FID != 0) else { return Some(event) };
        let has_child = match is_name {
            true => reports & report::TARGET_FID != 0,
            false => reports & report::FID != 0 && !is_dir,
        };
        let child = it.file.filter(|file| has_child && *file != dir);
        let has_name = reports & report::NAME != 0;
        if if has_name { !is_name && is_dir } else { child.is_none() } {
            return Some(Event { file: Some(dir), ..event });
        }
        let own = |(dir, name): Named| (dir, if has_name { name.into() } else { Box::default() });
        let is_rename = it.mask & mask::RENAME != 0;
        let from = it.place.map(own).filter(|_| !is_rename || old);
        let to = it.to.map(own).filter(|_| is_rename && new);
        Some(Event { dir: from, to, file: child, ..event })
    }
}

/// The marks of a file.
struct Marked {
    who: FileId,
    /// By their groups, in order.
    marks: Vec<(u32, Mark)>,
}

/// All groups.
#[derive(Default)]
pub struct Fans {
    groups: BTreeMap<u32, Group>,
    marked: BTreeMap<u32, Marked>,
}

impl Fans {
    /// Returns `true` if nobody has marked anything.
    pub fn is_empty(&self) -> bool {
        self.marked.is_empty()
    }

    /// Has somebody marked the file with this number?
    pub fn has(&self, number: u32) -> bool {
        self.marked.contains_key(&number)
    }

    /// The file of this number that is marked.
    pub fn marked(&self, number: u32) -> Option<FileId> {
        self.marked.get(&number).map(|marked| marked.who)
    }

    /// All files that somebody has marked.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.marked.values().map(|marked| marked.who)
    }

    /// A new group, of a number that none has, that is told this ([`report`]).
    pub fn add_group(&mut self, group: u32, reports: u32) {
        self.groups.insert(group, Group { reports, ..Group::default() });
    }

    /// What a group is told. `None`: there is no such group.
    pub fn reports(&self, group: u32) -> Option<u32> {
        self.groups.get(&group).map(|of| of.reports)
    }

    /// A group goes. Answers how many bytes of events and marks it had.
    pub fn remove_group(&mut self, group: u32) -> (usize, usize) {
        self.flush(group);
        self.groups.remove(&group).map_or((0, 0), |gone| (gone.memory, gone.marks))
    }

    /// Takes all marks of a group away; answers how many. Who counts them still has to be told.
    fn flush(&mut self, group: u32) {
        if self.groups.get(&group).is_none_or(|of| of.marks == 0) {
            return;
        }
        self.marked.retain(|_, marked| {
            marked.marks.retain(|(of, _)| *of != group);
            !marked.marks.is_empty()
        });
    }

    /// The same, and answers how many that were.
    pub fn unmark_all(&mut self, group: u32) -> usize {
        self.flush(group);
        self.groups.get_mut(&group).map_or(0, |of| core::mem::take(&mut of.marks))
    }

    fn mark_of(&mut self, group: u32, file: FileId) -> Option<&mut Mark> {
        let marked = self.marked.get_mut(&file.number).filter(|marked| marked.who == file)?;
        let at = marked.marks.binary_search_by_key(&group, |(of, _)| *of).ok()?;
        marked.marks.get_mut(at).map(|(_, mark)| mark)
    }

    /// Marks a file, or adds to its mark. Answers whether it is new, as it may be if there is `room`.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn mark(
        &mut self,
        group: u32,
        file: FileId,
        wish: Wish,
        room: bool,
    ) -> Result<bool, Refusal> {
        if !self.groups.contains_key(&group) {
            return Err(Refusal::None);
        }
        let is_new = self.mark_of(group, file).is_none();
        if is_new {
            if !room {
                return Err(Refusal::Full);
            }
            let marked = self.marked.entry(file.number);
            let marked = marked.or_insert_with(|| Marked { who: file, marks: Vec::new() });
            if marked.who != file {
                // Those who marked the one that had the number before have not been told yet that it is gone.
                return Err(Refusal::Full);
            }
            let mark = Mark { is_evictable: wish.is_evictable, ..Mark::default() };
            let at = marked.marks.partition_point(|(of, _)| *of < group);
            marked.marks.insert(at, (group, mark));
            if let Some(of) = self.groups.get_mut(&group) {
                of.marks += 1;
            }
        }
        let Some(mark) = self.mark_of(group, file) else { return Err(Refusal::None) };
        let becomes_less = wish.is_evictable && !mark.is_evictable
            || wish.which == Which::Ignored && mark.ignore_has_flags
            || wish.which == Which::Ignore && !wish.survives && mark.survives;
        if becomes_less {
            return Err(Refusal::Exists);
        }
        mark.is_evictable &= wish.is_evictable;
        if wish.which == Which::Wanted {
            mark.mask |= wish.mask;
            return Ok(is_new);
        }
        mark.ignored |= wish.mask;
        mark.ignore_has_flags |= wish.which == Which::Ignore;
        mark.survives |= wish.survives;
        Ok(is_new)
    }

    /// Takes something from a mark. Answers whether it has gone with that.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn unmark(&mut self, group: u32, file: FileId, wish: Wish) -> Result<bool, Refusal> {
        let mark = self.mark_of(group, file).ok_or(Refusal::None)?;
        match wish.which {
            Which::Wanted => mark.mask &= !wish.mask,
            _ => mark.ignored &= !wish.mask,
        }
        if (mark.mask | mark.ignored) & !wish.idle != 0 {
            return Ok(false);
        }
        if let Some(marked) = self.marked.get_mut(&file.number) {
            marked.marks.retain(|(of, _)| *of != group);
            if marked.marks.is_empty() {
                self.marked.remove(&file.number);
            }
        }
        if let Some(of) = self.groups.get_mut(&group) {
            of.marks -= 1;
        }
        Ok(true)
    }

    /// Tells those who want to know of something that has happened. `room` says how many bytes of events a group may have more.
    pub fn tell(&mut self, it: &Fact, room: impl Fn(u32) -> usize) -> Vec<Change> {
        let is_dir = it.mask & mask::ISDIR != 0;
        let dir = |named: Option<Named>| named.map(|(dir, _)| dir);
        let roles = match it.mask & bits::NAMES != 0 {
            true => [(dir(it.place), Role::Own), (dir(it.to), Role::New)],
            false => [(it.file, Role::Own), (dir(it.place), Role::Parent)],
        };
        let mut heard: Vec<(u32, Role, Mark)> = Vec::new();
        for (file, role) in roles {
            let Some(file) = file else { continue };
            let Some(marked) = self.marked.get_mut(&file.number).filter(|of| of.who == file) else {
                continue;
            };
            if it.mask & mask::MODIFY != 0 {
                let lost = marked.marks.iter_mut().filter(|(_, mark)| !mark.survives);
                lost.for_each(|(_, mark)| mark.ignored = 0);
            }
            heard.extend(marked.marks.iter().map(|&(group, mark)| (group, role, mark)));
        }
        heard.sort_unstable_by_key(|&(group, role, _)| (group, role));
        let mut changes = Vec::new();
        for marks in heard.chunk_by(|one, next| one.0 == next.0) {
            let (mut wanted, mut ignored, mut told) = (0, 0, [false; 2]);
            for (_, role, mark) in marks {
                ignored |= mark.ignores(is_dir, *role);
                if applies(mark.mask, is_dir, *role) {
                    wanted |= mark.mask;
                    told[usize::from(*role == Role::New)] |= mark.mask & mask::RENAME != 0;
                }
            }
            let mask = it.mask & wanted & !ignored;
            if mask & bits::EVENTS == 0 {
                continue;
            }
            let group = marks[0].0;
            let Some(of) = self.groups.get_mut(&group) else { continue };
            let Some(event) = of.event_of(it, mask, told) else { continue };
            let bytes = of.add(event, room(group));
            if bytes > 0 {
                changes.push(Change { group, bytes, watches: 0 });
            }
        }
        changes
    }

    /// A file is gone: nobody has marked it any more. Answers which groups have one mark less.
    pub fn gone(&mut self, number: u32) -> Vec<Change> {
        let marks = self.marked.remove(&number).map_or(Vec::new(), |marked| marked.marks);
        let less = |(group, _): &(u32, Mark)| {
            let of = self.groups.get_mut(group)?;
            of.marks -= 1;
            Some(Change { group: *group, bytes: 0, watches: 1 })
        };
        marks.iter().filter_map(less).collect()
    }

    /// How many events a group has not read.
    pub fn unread(&self, group: u32) -> usize {
        self.groups.get(&group).map_or(0, |of| of.events.len())
    }

    /// The next events of a group, as they are read, as many as fit in `most` bytes; and how much memory they had. `seen` says what
    /// the reader calls a process.
    ///
    /// # Errors
    ///
    /// Not even the first one fits.
    pub fn take(
        &mut self,
        group: u32,
        most: usize,
        seen: impl Fn(u32) -> i32,
    ) -> Result<(Vec<u8>, usize), crate::Small> {
        let (mut to, mut cost) = (Vec::new(), 0);
        let Some(of) = self.groups.get_mut(&group) else { return Ok((to, cost)) };
        while let Some(event) = of.events.front() {
            let bytes = event.bytes(of.reports, seen(event.by));
            if to.len() + bytes.len() > most {
                if to.is_empty() {
                    return Err(crate::Small);
                }
                break;
            }
            to.extend_from_slice(&bytes);
            cost += of.take_first();
        }
        Ok((to, cost))
    }
}
