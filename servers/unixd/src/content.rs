//! Requests about contents of files.

use crate::caps::{mint, Slots};
use crate::clock::Clock;
use crate::descs::{Desc, Descs, Heirs, Object};
use crate::disks;
use crate::effects::Effects;
use crate::frames::Files;
use crate::morsels::Morsel;
use crate::procs::Procs;
use crate::server::SCRATCH;
use crate::signals::from_kernel;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use alloc::vec;
use files::{Allocation, Backing, Piece, Refusal, Writer};
use libos::ipc::Caps;
use libos::Rights;
use memfs::Ino;
use unixproto::files::{
    AT_OFFSET, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE, NOT_BEHIND,
    O_APPEND,
};
use unixproto::ops::{self, Part};
use unixproto::session::DATA_BYTES;
use unixproto::signals::SIGXFSZ;
use unixproto::{op, Errno, Reply};

/// The mode of `fallocate` that makes a hole.
const PUNCH_HOLE: u32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

/// What requests about contents work on.
pub struct Contents<'a> {
    pub files: &'a mut Files,
    pub descs: &'a mut Descs,
    pub procs: &'a Procs,
    pub fx: &'a mut Effects,
    pub caller: Speaker,
    pub clock: &'a Clock,
}

/// A description of a file, and the file.
#[inline(always)]
fn file_of(descs: &Descs, caller: Speaker, desc: u32) -> Result<(Ino, &Desc), Errno> {
    let desc = descs.of(caller.pid, desc)?;
    match desc.object {
        Object::File(ino) | Object::Disk { content: ino, .. } => Ok((ino, desc)),
        Object::Dir(_) => Err(Errno::EISDIR),
        Object::Path(_) => Err(Errno::EBADF),
        _ => Err(Errno::EINVAL),
    }
}

/// Who changes files for a process.
pub fn writer(procs: &Procs, caller: Speaker, now: i64) -> Result<Writer, Errno> {
    let proc = procs.get(caller.pid)?;
    Ok(Writer { cred: proc.cred(), limit: proc.limits.file_size(), now })
}

/// Tells a writer of its limit, if that is why its file is not made larger.
pub fn refused(refusal: Refusal, caller: Speaker, fx: &mut Effects) -> Errno {
    match refusal {
        Refusal::Error(error) => error,
        Refusal::Limit => {
            fx.post_to(caller, SIGXFSZ, from_kernel());
            Errno::EFBIG
        }
    }
}

impl Contents<'_> {
    /// What may be read. Whoever comes again need not ask, until something is changed.
    pub fn read_begin(&mut self, op: op::ReadBegin) -> Tried {
        let part = self.read_part(op)?;
        self.show(part);
        done(part)
    }

    /// Lets a process know how much of a file may be read, unless the next reader is to be noted as such.
    fn show(&mut self, part: Part) {
        let (pid, ino) = (self.caller.pid, Ino(part.inode as u32));
        let Ok(session) = self.procs.get(pid).and_then(|proc| proc.session()) else { return };
        let names = self.files.names_mut();
        let Ok(inode) = names.get(ino) else { return };
        if inode.atime <= inode.mtime && inode.changeable().is_ok() {
            return;
        }
        let size = inode.size();
        names.show(ino, pid);
        session.files().file(part.inode).show(part.inode, part.layout, size);
    }

    /// What may be read, and the bytes.
    pub fn read_at(&mut self, op: op::ReadAt) -> Tried {
        let bytes = op.bytes.min(DATA_BYTES as u64);
        let part = self.read_part(op::ReadBegin { desc: op.desc, offset: op.offset, bytes })?;
        let (ino, _) = file_of(self.descs, self.caller, op.desc)?;
        let mut data = vec![0; part.bytes as usize];
        self.files.load(ino, part.offset, &mut data)?;
        self.procs.put(self.caller, &data)?;
        done(part)
    }

    fn read_part(&mut self, op: op::ReadBegin) -> Result<Part, Errno> {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        desc.readable()?;
        let offset = if op.offset == AT_OFFSET { desc.offset } else { op.offset };
        let part = self.files.begin_read(ino, offset, op.bytes, self.clock.wall())?;
        if op.offset == AT_OFFSET {
            self.descs.of_mut(self.caller.pid, op.desc)?.offset = offset + part.bytes;
        }
        Ok(part)
    }

    /// Room for what is to be written by the library itself.
    pub fn write_begin(&mut self, op: op::WriteBegin) -> Tried {
        done(self.grant(op, false)?.1)
    }

    /// Writes what is in the data area.
    pub fn write_at(&mut self, call: &Call, op: op::WriteAt) -> Tried {
        let data = self.procs.a(self.caller, call)?;
        count(self.deliver(op.desc, op.offset, [&data, &[]])?)
    }

    /// Makes room for what is to be written, as far as there is any: `just_there`, or at the end if the
    /// description appends.
    fn grant(&mut self, op: op::WriteBegin, just_there: bool) -> Result<(Ino, Part), Errno> {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        desc.writable()?;
        let is_disk = matches!(desc.object, Object::Disk { .. });
        let size = self.files.names().get(ino)?.size();
        let offset = match op.offset {
            _ if desc.flags & O_APPEND != 0 && !just_there && !is_disk => size,
            AT_OFFSET => desc.offset,
            offset => offset,
        };
        let (mut writer, mut bytes) =
            (writer(self.procs, self.caller, self.clock.wall())?, op.bytes);
        if is_disk {
            (writer.limit, bytes) = (u64::MAX, disks::room(size, offset, bytes)?);
        }
        let granted = self.files.begin_write(ino, offset, bytes, writer);
        let part = granted.map_err(|refusal| refused(refusal, self.caller, self.fx))?;
        if op.offset == AT_OFFSET {
            self.descs.of_mut(self.caller.pid, op.desc)?.offset = part.offset + part.bytes;
        }
        Ok((ino, part))
    }

    /// Copies bytes of a file, as many as there is room for. Answers how many.
    pub fn fetch(&mut self, desc: u32, offset: u64, to: [&mut [u8]; 2]) -> Result<usize, Errno> {
        let bytes = to.iter().map(|to| to.len() as u64).sum();
        let part = self.read_part(op::ReadBegin { desc, offset, bytes })?;
        let (ino, _) = file_of(self.descs, self.caller, desc)?;
        let mut done = 0;
        for to in to {
            let n = (to.len() as u64).min(part.bytes - done);
            self.files.load(ino, part.offset + done, &mut to[..n as usize])?;
            done += n;
        }
        Ok(part.bytes as usize)
    }

    /// Writes bytes to a file, at its offset or just there. Answers how many there was room for.
    pub fn deliver(&mut self, desc: u32, offset: u64, data: [&[u8]; 2]) -> Result<usize, Errno> {
        let bytes = data.iter().map(|data| data.len() as u64).sum();
        let room = op::WriteBegin { desc, offset, bytes };
        let (ino, part) = self.grant(room, offset != AT_OFFSET)?;
        let mut done = 0;
        for data in data {
            let n = (data.len() as u64).min(part.bytes - done);
            self.files.store(ino, part.offset + done, &data[..n as usize])?;
            done += n;
        }
        Ok(part.bytes as usize)
    }

    /// Makes memory for a part of a file, or takes it away.
    #[inline(never)]
    pub fn allocate(&mut self, op: op::Allocate) -> Tried {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        desc.writable()?;
        if matches!(desc.object, Object::Disk { .. }) {
            return Err(Errno::EOPNOTSUPP);
        }
        let how = match op.mode {
            0 => Allocation::Extend,
            FALLOC_FL_KEEP_SIZE => Allocation::Keep,
            PUNCH_HOLE => Allocation::Punch,
            FALLOC_FL_ZERO_RANGE => Allocation::Zero,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let writer = writer(self.procs, self.caller, self.clock.wall())?;
        let done_so = self.files.allocate_range(ino, how, (op.offset, op.bytes), writer);
        done_so.map_err(|refusal| refused(refusal, self.caller, self.fx))?;
        done(())
    }

    /// Returns when what was written to a part of a file survives, if it is to survive.
    #[inline(never)]
    pub fn sync(&mut self, op: op::Sync) -> Tried {
        let desc = self.descs.of(self.caller.pid, op.desc)?;
        if let Object::File(ino) = desc.object {
            self.files.write_back(ino, op.offset, op.offset.saturating_add(op.bytes))?;
        }
        done(())
    }

    /// `FICLONE`.
    pub fn clone_file(&mut self, op: op::Clone) -> Tried {
        let (to, desc) = file_of(self.descs, self.caller, op.desc)?;
        let (from, source) = file_of(self.descs, self.caller, op.from)?;
        desc.writable()?;
        source.readable()?;
        if desc.flags & O_APPEND != 0 {
            return Err(Errno::EBADF);
        }
        let is_disk = |desc: &Desc| matches!(desc.object, Object::Disk { .. });
        if is_disk(desc) || is_disk(source) {
            return Err(Errno::EINVAL);
        }
        let writer = writer(self.procs, self.caller, self.clock.wall())?;
        let cloned = self.files.clone_contents(from, to, writer);
        cloned.map_err(|refusal| refused(refusal, self.caller, self.fx))?;
        done(())
    }

    /// Somebody has found no memory for a page of a file that is mapped.
    #[inline(never)]
    pub fn make_room(&mut self, op: op::MakeRoom) -> Tried {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        if self.files.survives(ino) {
            return Err(Errno::ENOSPC);
        }
        // Nobody has asked for large pages of private memory.
        let is_unasked = desc.heirs != Heirs::Both;
        let user = self.procs.cred(self.caller.pid).uid;
        match self.files.is_advised(ino) {
            false => self.files.memory().volatile.make_room(user)?,
            true => {
                let volatile = &mut self.files.memory().volatile;
                if is_unasked && !volatile.has_plenty() || volatile.grow(user).is_err() {
                    // It has small ones then.
                    self.files.advise(ino, false, user)?;
                }
            }
        }
        done(())
    }

    /// Says how large the pages of a file are to be.
    pub fn advise(&mut self, op: op::Advise) -> Tried {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        desc.writable()?;
        let user = self.procs.cred(self.caller.pid).uid;
        self.files.advise(ino, op.large, user)?;
        done(())
    }

    /// Makes a file atomic, or not so any more.
    pub fn make_atomic(&mut self, op: op::MakeAtomic) -> Tried {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        desc.writable()?;
        self.files.make_atomic(ino, op.on)?;
        done(())
    }

    /// A Frame with a part of a file, to read or also to write; or the Morsel that has all of it.
    #[inline(always)]
    pub fn file_extent(&mut self, op: op::FileExtent) -> Tried {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        desc.shares_contents()?;
        if op.write {
            desc.writable()?;
        }
        // Mostly it is there: mapped before, or by another process.
        if op.until == NOT_BEHIND {
            if let Some(piece) = self.files.present(ino, op.offset, op.write)? {
                return share(piece, op.write);
            }
        }
        let user = self.procs.cred(self.caller.pid).uid;
        self.files.make_piece(ino, op.write, user)?;
        if op.until != NOT_BEHIND {
            self.files.show_until(ino, op.until)?;
        }
        share(self.files.piece(ino, op.offset)?, op.write)
    }
}

/// An answer with a part of a file, to read or also to write.
#[inline(always)]
fn share(piece: Piece<Slots, Morsel>, write: bool) -> Tried {
    let Piece { layout, start, bytes, size, backing } = piece;
    let (cap, is_morsel) = match backing {
        Backing::Frame(frame) => (frame.first(), false),
        Backing::Object(morsel) => (morsel.cap(), true),
    };
    let answer = ops::Extent { layout, start, bytes, size, is_morsel };
    let write = if write { Rights::WRITE } else { Rights::NONE };
    mint(cap, SCRATCH, Rights::READ.or(Rights::EXEC).or(write))?;
    Ok(Outcome::WithCaps(answer.encode(), Caps::moved(SCRATCH, 1)))
}
