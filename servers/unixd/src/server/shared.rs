//! Requests about files that others have, the host or servers of disks: when they are tried, and what descriptions of such files do.

use crate::content::{refused, writer};
use crate::descs::{Desc, Object};
use crate::dirs::Dents;
use crate::lower::UNREAD;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::share::{OpenFile, Share, Visit, UNANSWERED};
use crate::wait::{count, done, Call, Outcome, Tried};
use alloc::vec::Vec;
use files::Refusal;
use ninep::Entries;
use unixproto::files::*;
use unixproto::ops::{Count, Offset, Part};
use unixproto::session::DATA_BYTES;
use unixproto::{op, Any, Errno};

/// Bytes of entries that are asked for at least: one has at most 279.
const ENTRIES_LEAST: usize = 512;

impl Unixd {
    /// Tries a request that has just come.
    #[inline(always)]
    pub(super) fn first_attempt(&mut self, pid: Pid, call: &mut Call) -> Tried {
        if self.tree.is_alone() {
            return self.looked_up(pid, call);
        }
        self.tree.shares().for_each(|share| share.begin(self.caller.tid));
        self.answered(pid, call)
    }

    /// Tries a request again.
    #[inline]
    pub(super) fn next_attempt(&mut self, pid: Pid, call: &mut Call) -> Tried {
        if self.tree.is_alone() {
            return self.looked_up(pid, call);
        }
        self.tree.shares().for_each(|share| share.rewind(self.caller.tid));
        self.answered(pid, call)
    }

    /// Tries a request until it has found all directories read that it looks at.
    #[inline(always)]
    fn looked_up(&mut self, pid: Pid, call: &mut Call) -> Tried {
        let mut outcome = self.attempt(pid, call);
        if matches!(outcome, Err(UNREAD)) {
            outcome = self.read_and_try(pid, call);
        }
        outcome
    }

    #[cold]
    #[inline(never)]
    fn read_and_try(&mut self, pid: Pid, call: &mut Call) -> Tried {
        while self.tree.read_wanted()? {
            self.tree.shares().for_each(|share| share.rewind(self.caller.tid));
            match self.attempt(pid, call) {
                Err(UNREAD) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::EIO)
    }

    /// Tries a request, which waits if it has asked the host something.
    #[inline(never)]
    fn answered(&mut self, pid: Pid, call: &mut Call) -> Tried {
        let outcome = self.looked_up(pid, call);
        call.unanswered = matches!(outcome, Err(UNANSWERED));
        if call.unanswered {
            return Ok(Outcome::Block(0));
        }
        self.tree.shares().for_each(|share| share.finish(self.caller.tid));
        outcome
    }

    /// The host has answered.
    pub(super) fn shared_answers(&mut self) {
        let mut woken = Vec::new();
        for share in self.tree.shares() {
            share.interrupt(&mut woken);
            for tid in woken.drain(..) {
                match self.procs.blocked(tid) {
                    Some(blocked) if blocked.call.unanswered => self.fx.wake(tid),
                    // It was killed meanwhile.
                    _ => share.finish(tid),
                }
            }
        }
    }

    /// The open file of the host that a description is.
    fn shared_of(&self, id: u32) -> Option<(&Desc, OpenFile)> {
        let desc = self.descs.of(self.caller.pid, id).ok()?;
        match desc.object {
            Object::Shared(file) => Some((desc, file)),
            _ => None,
        }
    }

    fn visit<'a>(&self, share: &'a Share) -> Visit<'a> {
        share.visit(self.caller.tid, self.procs.cred(self.caller.pid))
    }

    /// Tries a request about a description, if that is of a file of the host.
    #[inline(never)]
    pub(super) fn attempt_shared(&mut self, call: &mut Call) -> Option<Tried> {
        Some(match call.any {
            Any::ReadAt(op) => {
                self.shared_of(op.desc)?;
                self.shared_read(op)
            }
            Any::WriteAt(op) => {
                self.shared_of(op.desc)?;
                self.shared_write(call, op)
            }
            Any::Read(op) => {
                self.shared_of(op.desc)?;
                let part = op::ReadAt { desc: op.desc, offset: AT_OFFSET, bytes: op.bytes.into() };
                self.shared_read_part(part).and_then(|part| count(part.bytes as usize))
            }
            Any::Write(op) => {
                self.shared_of(op.desc)?;
                self.shared_write(call, op::WriteAt { desc: op.desc, offset: AT_OFFSET })
            }
            Any::Sync(op) => {
                let (_, file) = self.shared_of(op.desc)?;
                self.tree.share_of(file.node).and_then(|share| {
                    self.visit(share).sync(file.fid)?;
                    done(())
                })
            }
            Any::DiskSize(op) => {
                self.shared_of(op.desc)?;
                self.shared_disk_size(op.desc)
            }
            Any::Seek(op) => {
                self.shared_of(op.desc)?;
                self.shared_seek(op)
            }
            Any::GetDents(op) => {
                self.shared_of(op.desc)?;
                self.shared_dents(op.desc, op.bytes as usize)
            }
            Any::Allocate(op) => {
                self.shared_of(op.desc)?;
                Err(Errno::EOPNOTSUPP)
            }
            Any::SetLock(op) if op.how >> lock::WHENCE == SEEK_END => {
                match self.counted_from_end(op.desc, op.how, op.start)? {
                    // From now on it waits for others, if at all.
                    Ok((how, start)) => call.any = Any::SetLock(op::SetLock { how, start, ..op }),
                    Err(error) => return Some(Err(error)),
                }
                return None;
            }
            Any::GetLock(op) if op.how >> lock::WHENCE == SEEK_END => {
                match self.counted_from_end(op.desc, op.how, op.start)? {
                    Ok((how, start)) => call.any = Any::GetLock(op::GetLock { how, start, ..op }),
                    Err(error) => return Some(Err(error)),
                }
                return None;
            }
            _ => return None,
        })
    }

    /// How, and from where, a lock is meant that counts from the end of a file of the host.
    fn counted_from_end(
        &self,
        desc: u32,
        how: u32,
        start: i64,
    ) -> Option<Result<(u32, i64), Errno>> {
        let (_, file) = self.shared_of(desc)?;
        let share = self.tree.share_of(file.node).ok()?;
        let from = |size: u64| {
            let start = start.checked_add(size as i64).ok_or(Errno::EOVERFLOW)?;
            Ok((how & ((1 << lock::WHENCE) - 1) | SEEK_SET << lock::WHENCE, start))
        };
        Some(self.visit(share).size(file).and_then(from))
    }

    fn shared_parts(&self, id: u32) -> Result<(&Desc, OpenFile, Visit<'_>), Errno> {
        let (desc, file) = self.shared_of(id).ok_or(Errno::EBADF)?;
        let share = self.tree.share_of(file.node)?;
        Ok((desc, file, self.visit(share)))
    }

    /// The size of a disk.
    fn shared_disk_size(&mut self, id: u32) -> Tried {
        let (_, file, visit) = self.shared_parts(id)?;
        let stat = visit.stat_open(file.fid, file.node)?;
        match stat.mode & S_IFMT {
            S_IFBLK => done(Count { count: stat.size as u64 }),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn shared_read(&mut self, op: op::ReadAt) -> Tried {
        done(self.shared_read_part(op)?)
    }

    fn shared_read_part(&mut self, op: op::ReadAt) -> Result<Part, Errno> {
        let (desc, file, visit) = self.shared_parts(op.desc)?;
        desc.readable()?;
        if file.is_dir {
            return Err(Errno::EISDIR);
        }
        let offset = if op.offset == AT_OFFSET { desc.offset } else { op.offset };
        if offset > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let most = op.bytes.min(DATA_BYTES as u64) as usize;
        let bytes = visit.read(file.fid, offset, most)?;
        self.procs.put(self.caller, &bytes)?;
        let bytes = bytes.len() as u64;
        if op.offset == AT_OFFSET {
            self.descs.of_mut(self.caller.pid, op.desc)?.offset = offset + bytes;
        }
        Ok(Part { inode: 0, layout: 0, offset, bytes, tell: false })
    }

    fn shared_write(&mut self, call: &Call, op: op::WriteAt) -> Tried {
        let (desc, file, visit) = self.shared_parts(op.desc)?;
        desc.writable()?;
        let data = self.procs.a(self.caller, call)?;
        let offset = match op.offset {
            _ if desc.flags & O_APPEND != 0 => visit.size(file)?,
            AT_OFFSET => desc.offset,
            offset => offset,
        };
        let limit = writer(&self.procs, self.caller, self.clock.wall())?.limit;
        let limit = limit.min(i64::MAX as u64);
        if offset >= limit && !data.is_empty() {
            return Err(refused(Refusal::Limit, self.caller, &mut self.fx));
        }
        let room = (limit - offset).min(data.len() as u64) as usize;
        let bytes = visit.write(file.fid, offset, &data[..room])?;
        if op.offset == AT_OFFSET {
            self.descs.of_mut(self.caller.pid, op.desc)?.offset = offset + bytes as u64;
        }
        count(bytes)
    }

    fn shared_seek(&mut self, op: op::Seek) -> Tried {
        let (desc, file, visit) = self.shared_parts(op.desc)?;
        let size = match op.whence {
            SEEK_SET | SEEK_CUR => 0,
            // Entries are counted by nobody.
            _ if file.is_dir => return Err(Errno::EINVAL),
            _ => visit.size(file)? as i64,
        };
        let new = match op.whence {
            SEEK_SET => Some(op.offset),
            SEEK_CUR => (desc.offset as i64).checked_add(op.offset),
            SEEK_END => size.checked_add(op.offset),
            SEEK_DATA | SEEK_HOLE if !(0..size).contains(&op.offset) => return Err(Errno::ENXIO),
            SEEK_DATA => Some(op.offset),
            SEEK_HOLE => Some(size),
            _ => return Err(Errno::EINVAL),
        };
        let new = new.filter(|&new| new >= 0).ok_or(Errno::EINVAL)? as u64;
        self.descs.of_mut(self.caller.pid, op.desc)?.offset = new;
        done(Offset { offset: new })
    }

    /// The next entries of a directory.
    fn shared_dents(&mut self, id: u32, most: usize) -> Tried {
        let (desc, file, visit) = self.shared_parts(id)?;
        desc.readable()?;
        if !file.is_dir {
            return Err(Errno::ENOTDIR);
        }
        let wanted = most.clamp(ENTRIES_LEAST, DATA_BYTES);
        let entries = visit.entries(file.fid, desc.offset, wanted)?;
        let own = visit.numbers(file.node)?;
        let (mut dents, mut next) = (Dents::new(most), desc.offset);
        for entry in Entries::new(&entries) {
            let entry = entry.map_err(|_| Errno::EIO)?;
            if entry.name.len() > memfs::NAME_MAX {
                return Err(Errno::EIO);
            }
            let (number, kind) = match entry.name {
                b"." => (own[0], DIRECTORY),
                b".." => (own[1], DIRECTORY),
                _ => (entry.qid.path, entry.kind),
            };
            if !dents.add(number, entry.next, kind, entry.name) {
                break;
            }
            next = entry.next;
        }
        let bytes = dents.bytes()?;
        self.procs.put(self.caller, bytes)?;
        let bytes = bytes.len();
        self.descs.of_mut(self.caller.pid, id)?.offset = next;
        count(bytes)
    }
}

/// `DT_DIR`.
const DIRECTORY: u8 = 4;
