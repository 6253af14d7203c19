//! System V shared memory: files without a name that have a key instead, and stay until they are removed.
//!
//! An attached segment is the open file, mapped: so who has it attached is known from the descriptions, and the memory is
//! free when the last of them has gone and the segment was removed.

use crate::descs::{Descs, Object};
use crate::open::{Opening, LARGE_PAGE};
use crate::procs::{Pid, Proc};
use crate::wait::{count, done, Call, Tried};
use alloc::vec::Vec;
use credentials::Capability;
use files::Claim;
use memfs::{Attr, Ino};
use piecewise::{Limits, Shares, Table};
use unixproto::files::{O_RDONLY, O_RDWR};
use unixproto::segments::*;
use unixproto::{op, Errno};

/// Segments that there may be (Linux: `SHMMNI`).
const SEGMENTS_MOST: usize = 4096;
/// Ids that a place has before the first one comes again.
const TURNS: u32 = 1 << 16;
/// Bits of an id that are the place.
const PLACE_BITS: u32 = 15;

/// A segment.
struct Segment {
    key: i32,
    /// Whose turn the place has.
    turn: u32,
    file: Ino,
    /// As it was asked for.
    bytes: u64,
    owner: (u32, u32),
    creator: (u32, u32),
    mode: u32,
    /// Attached last, detached last, changed last: seconds since 1970.
    times: [i64; 3],
    made_by: Pid,
    used_by: Pid,
    /// It goes when nobody has it attached.
    is_removed: bool,
    is_locked: bool,
}

impl Segment {
    /// May a process do what these bits of a mode stand for?
    fn permits(&self, proc: &Proc, wanted: u32) -> Result<(), Errno> {
        let (uid, gid) = (proc.who.users.effective, proc.who.groups.effective);
        let shift = match () {
            () if uid == self.owner.0 || uid == self.creator.0 => 6,
            () if gid == self.owner.1 || gid == self.creator.1 => 3,
            () => 0,
        };
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 7;
        match wanted & !(self.mode >> shift) == 0 || proc.who.has(Capability::IpcOwner) {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// May a process change it, and remove it?
    fn owned_by(&self, proc: &Proc) -> Result<(), Errno> {
        let uid = proc.who.users.effective;
        let is_own = uid == self.owner.0 || uid == self.creator.0;
        match is_own || proc.who.has(Capability::SysAdmin) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    fn attached(&self, descs: &Descs) -> u64 {
        descs.refs_of(|object| matches!(object, Object::File(ino) if *ino == self.file))
    }
}

/// All of them.
pub struct Segments {
    table: Table<Segment>,
    users: Shares,
    turn: u32,
}

impl Default for Segments {
    fn default() -> Segments {
        let users = Shares::new(Limits::of(SEGMENTS_MOST));
        Segments { table: Table::default(), users, turn: 0 }
    }
}

impl Segments {
    fn find(&self, key: i32) -> Option<usize> {
        self.table.iter().find(|(_, one)| one.key == key && !one.is_removed).map(|(place, _)| place)
    }

    /// The place of an id. `EINVAL`: there is none.
    fn place(&self, id: u32) -> Result<usize, Errno> {
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        let turn = id >> PLACE_BITS;
        let found = self.table.get(place).filter(|segment| segment.turn == turn);
        found.map(|_| place).ok_or(Errno::EINVAL)
    }

    fn id(&self, place: usize) -> u32 {
        let turn = self.table.get(place).map_or(0, |segment| segment.turn);
        turn << PLACE_BITS | place as u32
    }

    /// Forgets those that were removed and that nobody has attached any more.
    fn forget_gone(&mut self, descs: &Descs) {
        let gone = |(place, one): (usize, &Segment)| {
            (one.is_removed && one.attached(descs) == 0).then_some(place)
        };
        let gone: Vec<usize> = self.table.iter().filter_map(gone).collect();
        for place in gone {
            if let Some(segment) = self.table.remove(place) {
                self.users.give_back(segment.creator.0, 1);
            }
        }
    }
}

impl Opening<'_> {
    fn segment(&self, id: u32) -> Result<(usize, &Segment), Errno> {
        let place = self.segments.place(id)?;
        Ok((place, self.segments.table.get(place).ok_or(Errno::EINVAL)?))
    }

    fn segment_mut(&mut self, place: usize) -> Result<&mut Segment, Errno> {
        self.segments.table.get_mut(place).ok_or(Errno::EINVAL)
    }

    fn seconds(&self) -> i64 {
        self.handles.clock.wall() / 1_000_000_000
    }

    /// `shmget`.
    pub fn get_segment(&mut self, op: op::GetSegment) -> Tried {
        self.segments.forget_gone(self.handles.descs);
        let known = if op.key == IPC_PRIVATE { None } else { self.segments.find(op.key) };
        let Some(place) = known else {
            if op.key != IPC_PRIVATE && op.flags & IPC_CREAT == 0 {
                return Err(Errno::ENOENT);
            }
            return self.make_segment(op);
        };
        if op.flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT | IPC_EXCL {
            return Err(Errno::EEXIST);
        }
        let segment = self.segments.table.get(place).ok_or(Errno::EINVAL)?;
        if op.bytes > segment.bytes {
            return Err(Errno::EINVAL);
        }
        segment.permits(self.procs.get(self.caller.pid)?, op.flags & 0o777)?;
        count(self.segments.id(place) as usize)
    }

    fn make_segment(&mut self, op: op::GetSegment) -> Tried {
        let pid = self.caller.pid;
        if op.bytes == 0 || op.bytes > memfs::SIZE_MAX {
            return Err(Errno::EINVAL);
        }
        let who = self.procs.get(pid)?.who;
        let own = (who.users.effective, who.groups.effective);
        if !self.segments.users.has_room(own.0, 1) {
            return Err(Errno::ENOSPC);
        }
        let attr = Attr { mode: 0o777, cred: self.cred(), now: self.handles.clock.wall() };
        let files = self.handles.tree.files_mut();
        let file = files.create_unnamed(op.bytes, attr).map_err(|_| Errno::ENOMEM)?;
        if op.flags & SHM_HUGETLB != 0 {
            files.set_grain(file, LARGE_PAGE)?;
        }
        let turn = self.segments.turn;
        self.segments.turn = (turn + 1) % TURNS;
        let segment = Segment {
            key: op.key,
            turn,
            file,
            bytes: op.bytes,
            owner: own,
            creator: own,
            mode: op.flags & 0o777,
            times: [0, 0, self.seconds()],
            made_by: pid,
            used_by: 0,
            is_removed: false,
            is_locked: false,
        };
        let Ok(place) = self.segments.table.insert(segment) else {
            self.handles.release(crate::nodes::Node::Mem(file));
            return Err(Errno::ENOSPC);
        };
        self.segments.users.take(own.0, 1);
        count(self.segments.id(place) as usize)
    }

    /// `shmat`: the file of a segment, to be mapped.
    pub fn attach_segment(&mut self, op: op::AttachSegment) -> Tried {
        self.room(1)?;
        let (pid, now) = (self.caller.pid, self.seconds());
        let (place, segment) = self.segment(op.id)?;
        let mut wanted = 0o444;
        if op.write {
            wanted |= 0o222;
        }
        if op.execute {
            wanted |= 0o111;
        }
        segment.permits(self.procs.get(pid)?, wanted)?;
        let file = segment.file;
        self.handles.tree.hold(crate::nodes::Node::Mem(file));
        let (flags, claim) = match op.write {
            true => (O_RDWR, Claim::Writes),
            false => (O_RDONLY, Claim::None),
        };
        let opened = self.opened(Object::File(file), flags, None, claim)?;
        let segment = self.segment_mut(place)?;
        (segment.times[0], segment.used_by) = (now, pid);
        Ok(opened)
    }

    /// `shmdt` has unmapped a segment, if it is still there.
    pub fn detach_segment(&mut self, op: op::DetachSegment) -> Tried {
        let (pid, now) = (self.caller.pid, self.seconds());
        let place = self.segments.place(op.id)?;
        let segment = self.segment_mut(place)?;
        (segment.times[1], segment.used_by) = (now, pid);
        done(())
    }

    /// `shmctl`.
    pub fn control_segment(&mut self, call: &Call, op: op::ControlSegment) -> Tried {
        self.segments.forget_gone(self.handles.descs);
        match op.command {
            IPC_INFO | SHM_INFO => return self.segment_info(op.command),
            SHM_STAT | SHM_STAT_ANY => {
                let place = op.id as usize;
                let segment = self.segments.table.get(place).ok_or(Errno::EINVAL)?;
                if op.command == SHM_STAT {
                    segment.permits(self.procs.get(self.caller.pid)?, 0o444)?;
                }
                let id = self.segments.id(place);
                return self.tell_segment(place, id as usize);
            }
            _ => {}
        }
        let (place, segment) = self.segment(op.id)?;
        let proc = self.procs.get(self.caller.pid)?;
        match op.command {
            IPC_STAT => {
                segment.permits(proc, 0o444)?;
                return self.tell_segment(place, 0);
            }
            IPC_RMID => {
                segment.owned_by(proc)?;
                if !segment.is_removed {
                    let file = segment.file;
                    let segment = self.segment_mut(place)?;
                    (segment.is_removed, segment.key) = (true, IPC_PRIVATE);
                    self.handles.release(crate::nodes::Node::Mem(file));
                    self.segments.forget_gone(self.handles.descs);
                }
            }
            IPC_SET => {
                segment.owned_by(proc)?;
                let new = self.procs.a(self.caller, call)?;
                let word = |at: usize| {
                    let bytes = new.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
                    bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Errno::EINVAL)
                };
                let (owner, mode) = ((word(4)?, word(8)?), word(20)?);
                let now = self.seconds();
                let segment = self.segment_mut(place)?;
                (segment.owner, segment.times[2]) = (owner, now);
                segment.mode = segment.mode & !0o777 | mode & 0o777;
            }
            SHM_LOCK | SHM_UNLOCK => {
                let is_own = segment.owned_by(proc).is_ok();
                if !is_own && !proc.who.has(Capability::IpcLock) {
                    return Err(Errno::EPERM);
                }
                // It stays where it is in any case.
                self.segment_mut(place)?.is_locked = op.command == SHM_LOCK;
            }
            _ => return Err(Errno::EINVAL),
        }
        count(0)
    }

    /// Leaves `struct shmid_ds` in the data area.
    fn tell_segment(&mut self, place: usize, answer: usize) -> Tried {
        const DEST: u32 = 0o1000;
        const LOCKED: u32 = 0o2000;
        let segment = self.segments.table.get(place).ok_or(Errno::EINVAL)?;
        let mut bytes = [0; SHMID_BYTES];
        let mut put = |at: usize, value: u64, size: usize| {
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        let ((uid, gid), (cuid, cgid)) = (segment.owner, segment.creator);
        let mut mode = segment.mode;
        mode |= if segment.is_removed { DEST } else { 0 };
        mode |= if segment.is_locked { LOCKED } else { 0 };
        let words = [segment.key as u32, uid, gid, cuid, cgid, mode, segment.turn & 0xffff];
        for (n, word) in words.into_iter().enumerate() {
            put(4 * n, word.into(), 4);
        }
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
        let table = &self.segments.table;
        let last = table.iter().map(|(place, _)| place).max().unwrap_or(0);
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
                let pages = |(_, one): (usize, &Segment)| one.bytes.div_ceil(4096);
                let there = |(_, one): (usize, &Segment)| {
                    self.handles.tree.files().allocated(one.file).unwrap_or(0) / 4096
                };
                let resident = table.iter().map(there).sum();
                [table.len() as u64, table.iter().map(pages).sum(), resident, 0, 0]
            }
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.procs.put(self.caller, &bytes)?;
        count(last)
    }
}
