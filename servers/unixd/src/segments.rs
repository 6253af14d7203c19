//! System V shared memory: files without a name that have a key instead, and stay until they are removed.
//!
//! An attached segment is the open file, mapped: so who has it attached is known from the descriptions, and the memory is
//! free when the last of them has gone and the segment was removed.

use crate::descs::{Descs, Handles, Object};
use crate::ipc::{Entry, Perm, Registry, PERM_BYTES};
use crate::nodes::Node;
use crate::open::{Opening, LARGE_PAGE};
use crate::procs::Pid;
use crate::wait::{count, done, Call, Tried};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use credentials::Capability;
use files::Claim;
use memfs::{Attr, Ino};
use unixproto::files::{O_RDONLY, O_RDWR};
use unixproto::ipc::*;
use unixproto::{op, Errno};

/// Segments that there may be (Linux: `SHMMNI`).
pub const SEGMENTS_MOST: usize = 4096;
/// A segment.
struct Segment {
    file: Ino,
    /// As it was asked for.
    bytes: u64,
    /// Attached last, detached last, changed last: seconds since 1970.
    times: [i64; 3],
    made_by: Pid,
    used_by: Pid,
    is_locked: bool,
}

impl Segment {
    fn attached(&self, descs: &Descs) -> u64 {
        descs.refs_of(|object| matches!(object, Object::File(ino) if *ino == self.file))
    }
}

/// All of them.
pub struct Segments {
    all: Registry<Segment>,
    /// Those that were removed, by their files.
    removed: BTreeMap<Ino, usize>,
}

impl Default for Segments {
    fn default() -> Segments {
        Segments { all: Registry::new(SEGMENTS_MOST), removed: BTreeMap::new() }
    }
}

impl Segments {
    /// A file has gone: nobody has it attached any more, if it was that of a segment which was removed.
    pub fn gone(&mut self, file: Ino) {
        if let Some(place) = self.removed.remove(&file) {
            self.all.remove(place);
        }
    }
}

impl Handles<'_> {
    /// Name spaces have ended. What somebody has attached or open there stays until he lets it go.
    pub fn end_spaces(&mut self, ended: &[u64]) {
        for place in self.segments.all.places(ended) {
            self.remove_segment(place);
        }
    }

    /// A segment goes as soon as nobody has it attached.
    fn remove_segment(&mut self, place: usize) {
        let Ok(entry) = self.segments.all.at_mut(place) else { return };
        if !entry.is_removed {
            (entry.is_removed, entry.perm.key) = (true, IPC_PRIVATE);
            let file = entry.value.file;
            self.segments.removed.insert(file, place);
            self.release(Node::Mem(file));
        }
    }

    /// What `/proc/sysvipc/shm` says.
    pub fn segments_text(&self, space: u64) -> String {
        let mut text = String::from("       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n");
        let all = &self.segments.all;
        for (place, entry) in all.of(space) {
            let (Perm { key, owner, creator, .. }, segment) = (entry.perm, &entry.value);
            let (id, mode, [attached, detached, changed]) =
                (all.id(place), entry.mode(), segment.times);
            let resident = self.tree.files().allocated(segment.file).unwrap_or(0);
            put!(
                text,
                "{key:10} {id:10}  {mode:4o} {:21} {:5} {:5}  ",
                segment.bytes,
                segment.made_by,
                segment.used_by
            );
            put!(
                text,
                "{:5} {:5} {:5} {:5} {:5} ",
                segment.attached(self.descs),
                owner.0,
                owner.1,
                creator.0,
                creator.1
            );
            put_line!(text, "{attached:10} {detached:10} {changed:10} {resident:21} {:21}", 0);
        }
        text
    }
}

impl Entry<Segment> {
    /// Its mode, with what else is told there: that it was removed, that it is locked.
    fn mode(&self) -> u32 {
        const DEST: u32 = 0o1000;
        const LOCKED: u32 = 0o2000;
        let removed = if self.is_removed { DEST } else { 0 };
        let locked = if self.value.is_locked { LOCKED } else { 0 };
        self.perm.mode | removed | locked
    }
}

impl Opening<'_> {
    /// The time, seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        self.handles.clock.wall() / 1_000_000_000
    }

    /// `shmget`.
    pub fn get_segment(&mut self, op: op::GetSegment) -> Tried {
        let Some(place) = self.handles.segments.all.named(self.ipc()?, op.key, op.flags)? else {
            return self.make_segment(op);
        };
        let entry = self.handles.segments.all.at(place)?;
        if op.bytes > entry.value.bytes {
            return Err(Errno::EINVAL);
        }
        entry.perm.permits(self.procs.get(self.caller.pid)?, op.flags & 0o777)?;
        count(self.handles.segments.all.id(place) as usize)
    }

    fn make_segment(&mut self, op: op::GetSegment) -> Tried {
        let pid = self.caller.pid;
        if op.bytes == 0 || op.bytes > memfs::SIZE_MAX {
            return Err(Errno::EINVAL);
        }
        let perm = self.perm(op.key, op.flags)?;
        self.handles.segments.all.room(perm.creator.0)?;
        let attr = Attr { mode: 0o777, cred: self.cred(), now: self.handles.clock.wall() };
        let files = self.handles.tree.files_mut();
        let file = files.create_unnamed(op.bytes, attr).map_err(|_| Errno::ENOMEM)?;
        if op.flags & SHM_HUGETLB != 0 {
            files.set_grain(file, LARGE_PAGE)?;
        }
        let segment = Segment {
            file,
            bytes: op.bytes,
            times: [0, 0, self.seconds()],
            made_by: pid,
            used_by: 0,
            is_locked: false,
        };
        let Ok(place) = self.handles.segments.all.add(perm, segment) else {
            self.handles.release(Node::Mem(file));
            return Err(Errno::ENOSPC);
        };
        count(self.handles.segments.all.id(place) as usize)
    }

    /// Of what the caller makes.
    pub(crate) fn perm(&self, key: i32, flags: u32) -> Result<Perm, Errno> {
        let proc = self.procs.get(self.caller.pid)?;
        let (who, space) = (&proc.who, (proc.spaces.ipc.number, proc.spaces.ipc.owner));
        let own = (who.users.effective, who.groups.effective);
        Ok(Perm { space, key, owner: own, creator: own, mode: flags & 0o777 })
    }

    /// `shmat`: the file of a segment, to be mapped.
    pub fn attach_segment(&mut self, op: op::AttachSegment) -> Tried {
        self.room(1)?;
        let (pid, now) = (self.caller.pid, self.seconds());
        let space = self.ipc()?;
        let entry = self.handles.segments.all.get(space, op.id)?;
        let mut wanted = 0o444;
        if op.write {
            wanted |= 0o222;
        }
        if op.execute {
            wanted |= 0o111;
        }
        entry.perm.permits(self.procs.get(pid)?, wanted)?;
        let file = entry.value.file;
        self.handles.tree.hold(Node::Mem(file));
        let (flags, claim) = match op.write {
            true => (O_RDWR, Claim::Writes),
            false => (O_RDONLY, Claim::None),
        };
        let opened = self.opened(Object::File(file), flags, None, claim)?;
        let segment = &mut self.handles.segments.all.get_mut(space, op.id)?.value;
        (segment.times[0], segment.used_by) = (now, pid);
        Ok(opened)
    }

    /// `shmdt` has unmapped a segment, if it is still there.
    pub fn detach_segment(&mut self, op: op::DetachSegment) -> Tried {
        let (pid, now) = (self.caller.pid, self.seconds());
        let space = self.ipc()?;
        let segment = &mut self.handles.segments.all.get_mut(space, op.id)?.value;
        (segment.times[1], segment.used_by) = (now, pid);
        done(())
    }

    /// `shmctl`.
    pub fn control_segment(&mut self, call: &Call, op: op::ControlSegment) -> Tried {
        match op.command {
            IPC_INFO | SHM_INFO => return self.segment_info(op.command),
            SHM_STAT | SHM_STAT_ANY => {
                let place = op.id as usize;
                let entry = self.handles.segments.all.listed(self.ipc()?, place)?;
                if op.command == SHM_STAT {
                    entry.perm.permits(self.procs.get(self.caller.pid)?, 0o444)?;
                }
                let id = self.handles.segments.all.id(place);
                return self.tell_segment(place, id as usize);
            }
            _ => {}
        }
        let place = self.handles.segments.all.place(self.ipc()?, op.id)?;
        let now = self.seconds();
        let proc = self.procs.get(self.caller.pid)?;
        let entry = self.handles.segments.all.at_mut(place)?;
        match op.command {
            IPC_STAT => {
                entry.perm.permits(proc, 0o444)?;
                return self.tell_segment(place, 0);
            }
            IPC_RMID => {
                entry.perm.owned_by(proc)?;
                self.handles.remove_segment(place);
            }
            IPC_SET => {
                entry.perm.owned_by(proc)?;
                entry.perm.set(&self.procs.a(self.caller, call)?)?;
                entry.value.times[2] = now;
            }
            SHM_LOCK | SHM_UNLOCK => {
                let is_own = entry.perm.owned_by(proc).is_ok();
                if !is_own && !proc.who.has(Capability::IpcLock) {
                    return Err(Errno::EPERM);
                }
                // It stays where it is in any case.
                entry.value.is_locked = op.command == SHM_LOCK;
            }
            _ => return Err(Errno::EINVAL),
        }
        count(0)
    }

    /// Leaves `struct shmid_ds` in the data area.
    fn tell_segment(&mut self, place: usize, answer: usize) -> Tried {
        let entry = self.handles.segments.all.at(place)?;
        let segment = &entry.value;
        let mut bytes = [0; SHMID_BYTES];
        bytes[..PERM_BYTES].copy_from_slice(&entry.perm_bytes(entry.mode()));
        let mut put = |at: usize, value: u64, size: usize| {
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        put(48, segment.bytes, 8);
        for (n, time) in segment.times.into_iter().enumerate() {
            put(56 + 8 * n, time as u64, 8);
        }
        put(80, segment.made_by.into(), 4);
        put(84, segment.used_by.into(), 4);
        put(88, segment.attached(self.handles.descs), 8);
        self.procs.put(self.caller, &bytes)?;
        count(answer)
    }

    /// What there may be, or what there is.
    fn segment_info(&mut self, command: u32) -> Tried {
        let (all, space) = (&self.handles.segments.all, self.ipc()?);
        let table = || all.of(space);
        let last = table().map(|(place, _)| place).max().unwrap_or(0);
        let words = match command {
            // shmmax, shmmin, shmmni, shmseg, shmall
            IPC_INFO => [
                memfs::SIZE_MAX,
                1,
                SEGMENTS_MOST as u64,
                SEGMENTS_MOST as u64,
                memfs::SIZE_MAX >> 12,
            ],
            // used_ids (and padding), shm_tot, shm_rss, shm_swp, swap_attempts
            _ => {
                let pages = |(_, one): (usize, &Entry<Segment>)| one.value.bytes.div_ceil(4096);
                let there = |(_, one): (usize, &Entry<Segment>)| {
                    self.handles.tree.files().allocated(one.value.file).unwrap_or(0) / 4096
                };
                let resident = table().map(there).sum();
                [table().count() as u64, table().map(pages).sum(), resident, 0, 0]
            }
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.procs.put(self.caller, &bytes)?;
        count(last)
    }
}
