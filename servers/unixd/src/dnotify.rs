//! `F_NOTIFY`: signals tell processes what happens in directories that they have open. What happens is found out as for those who
//! watch files by `inotify` ([`notify`](crate::notify)); here is who is told.

use crate::descs::{Desc, Object};
use crate::effects::Effects;
use crate::made::Setting;
use crate::notify::key;
use crate::open::Opening;
use crate::procs::Pid;
use crate::wait::{done, Tried};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use notices::mask;
use piecewise::{Limits, Shares};
use unixproto::files::*;
use unixproto::{op, Errno};

/// Directories of which processes are told, that there may be in all.
const NOTES_ALL: usize = 4096;
/// Of one user other than root: all of them may be one directory, in which others do something.
const NOTES_USER: usize = 256;

/// A process that is told of a directory.
struct Note {
    /// By this description.
    desc: u32,
    pid: Pid,
    /// Which that process calls so.
    fd: u32,
    /// Of these events ([`mask`]).
    events: u32,
    /// More than once.
    stays: bool,
    /// The user for whom it counts.
    uid: u32,
}

/// All of them.
pub struct Notes {
    /// By the number of the directory; who came last is told first.
    dirs: BTreeMap<u64, Vec<Note>>,
    users: Shares,
}

impl Default for Notes {
    fn default() -> Notes {
        let limits = Limits { user: NOTES_USER, ..Limits::of(NOTES_ALL) };
        Notes { dirs: BTreeMap::new(), users: Shares::new(limits) }
    }
}

impl Notes {
    /// Is nobody told of anything?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// Is somebody told of a directory?
    pub fn has(&self, dir: u64) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// A process is told of a directory, or of more than before.
    fn add(&mut self, dir: u64, new: Note) -> Result<(), Errno> {
        let notes = self.dirs.get_mut(&dir);
        let is_same = |note: &&mut Note| (note.desc, note.pid) == (new.desc, new.pid);
        if let Some(note) = notes.and_then(|notes| notes.iter_mut().find(is_same)) {
            note.fd = new.fd;
            note.events |= new.events;
            note.stays |= new.stays;
            return Ok(());
        }
        if !self.users.has_room(new.uid, 1) {
            return Err(Errno::ENOMEM);
        }
        self.users.take(new.uid, 1);
        self.dirs.entry(dir).or_default().insert(0, new);
        Ok(())
    }

    /// Removes those of a directory that are not to be kept.
    fn retain(&mut self, dir: u64, keeps: impl FnMut(&Note) -> bool) {
        let Some(notes) = self.dirs.get_mut(&dir) else { return };
        let mut keeps = keeps;
        notes.retain(|note| {
            let stays = keeps(note);
            if !stays {
                self.users.give_back(note.uid, 1);
            }
            stays
        });
        if notes.is_empty() {
            self.dirs.remove(&dir);
        }
    }

    /// A process is not told by a description any more.
    pub fn forget(&mut self, pid: Pid, id: u32, desc: &Desc) {
        if self.dirs.is_empty() {
            return;
        }
        if let (Object::Dir(node), false) = (&desc.object, desc.is_path()) {
            if let Some(dir) = key(*node) {
                self.retain(dir, |note| (note.desc, note.pid) != (id, pid));
            }
        }
    }

    /// Something has happened in a directory, or to itself.
    pub fn tell(&mut self, dir: u64, event: u32, fx: &mut Effects) {
        self.retain(dir, |note| {
            let is_told = note.events & event != 0;
            if is_told {
                fx.message(note.desc, note.fd);
            }
            note.stays || !is_told
        });
    }
}

/// What is told for `DN_*`.
fn events_of(wanted: u64) -> u32 {
    const PAIRS: [(u32, u32); 6] = [
        (DN_ACCESS, mask::ACCESS),
        (DN_MODIFY, mask::MODIFY),
        (DN_CREATE, mask::CREATE | mask::MOVED_TO),
        (DN_DELETE, mask::DELETE | mask::MOVED_FROM),
        (DN_RENAME, mask::RENAME),
        (DN_ATTRIB, mask::ATTRIB),
    ];
    let has = |bit: u32| wanted & u64::from(bit) != 0;
    PAIRS.iter().filter(|(bit, _)| has(*bit)).fold(0, |all, (_, events)| all | events)
}

impl Opening<'_> {
    /// `F_NOTIFY`.
    pub fn notify_dir(&mut self, op: op::NotifyDir) -> Tried {
        let pid = self.caller.pid;
        let desc = self.handles.descs.of(pid, op.desc)?;
        if desc.is_path() {
            return Err(Errno::EBADF);
        }
        if self.handles.tree.made().setting(Setting::DirNotifyEnable) == 0 {
            return Err(Errno::EINVAL);
        }
        if op.events & !u64::from(DN_MULTISHOT) == 0 {
            self.handles.notify.forget(pid, op.desc, desc, self.handles.fx);
            return done(());
        }
        let dir = match &desc.object {
            // What a folder of the host has is changed by the host, too.
            Object::Dir(node) => key(*node).ok_or(Errno::EINVAL)?,
            Object::Shared(file) if file.is_dir => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOTDIR),
        };
        let note = Note {
            desc: op.desc,
            pid,
            fd: op.fd,
            events: events_of(op.events),
            stays: op.events & u64::from(DN_MULTISHOT) != 0,
            uid: self.cred().uid,
        };
        self.handles.notify.notes.add(dir, note)?;
        self.handles.fx.set_observed(true);
        self.handles.fx.own(op.desc, pid);
        self.procs.hide_all();
        done(())
    }
}
