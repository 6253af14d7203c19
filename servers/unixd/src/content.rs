//! Requests about contents of files.

use crate::caps::{mint, Slots};
use crate::clock::Clock;
use crate::descs::{Desc, Descs, Heirs, Object};
use crate::disks;
use crate::effects::Effects;
use crate::frames::Files;
use crate::loans;
use crate::morsels::{Mapped, Morsel};
use crate::notify::{FileEvent, Instances};
use crate::procs::{Proc, Procs};
use crate::registers;
use crate::seals::Seals;
use crate::server::SCRATCH;
use crate::signals::from_kernel;
use crate::swap::{self, Wanted};
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use abi::layout::PAGE;
use alloc::vec;
use files::{Allocation, Backing, Piece, Refusal, Writer, GRANT_MAX};
use libos::ipc::Caps;
use libos::Rights;
use memfs::Ino;
use notices::mask;
use unixproto::files::Kind;
use unixproto::files::{
    AT_OFFSET, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE, NOT_BEHIND,
    NO_PAGE, O_APPEND,
};
use unixproto::ops::{self, Part};
use unixproto::session::DATA_BYTES;
use unixproto::signals::SIGXFSZ;
use unixproto::{op, Errno, Reply};

/// Bytes for which others' pages leave memory, at most.
const MEMORY_MOST: u64 = 64 << 20;
/// The bits of a mode by which a program runs as its owner or group.
const SET_IDS: u32 = 0o6000;
/// The mode of `fallocate` that makes a hole.
const PUNCH_HOLE: u32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

/// What requests about contents work on.
pub struct Contents<'a> {
    pub files: &'a mut Files,
    pub descs: &'a mut Descs,
    pub procs: &'a Procs,
    pub notify: &'a Instances,
    pub seals: &'a Seals,
    pub fx: &'a mut Effects,
    pub caller: Speaker,
    pub clock: &'a Clock,
}

/// A description of a file, and the file.
#[inline(always)]
pub fn file_of(descs: &Descs, caller: Speaker, desc: u32) -> Result<(Ino, &Desc), Errno> {
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

/// The object of a file, if pages can leave memory and it has one.
pub fn leaving(files: &Files, ino: Ino, page: u64) -> Option<u32> {
    if !swap::is_there() {
        return None;
    }
    files.volatile_object(ino, page.saturating_mul(PAGE)).map(|object| object.record())
}

impl Contents<'_> {
    /// What may be read. Whoever comes again need not ask, until something is changed.
    pub fn read_begin(&mut self, op: op::ReadBegin) -> Tried {
        let part = self.read_part(op)?;
        if !self.is_watched(op.desc) {
            self.show(part);
        }
        done(part)
    }

    /// Does somebody watch a file, or is that hard to say?
    fn is_watched(&self, id: u32) -> bool {
        self.fx.observed()
            && self.descs.of(self.caller.pid, id).is_ok_and(|desc| {
                let Object::File(ino) = desc.object else { return false };
                let links = self.files.names().get(ino).map_or(0, |inode| inode.nlink);
                links > 1 || self.notify.is_watched(desc)
            })
    }

    /// Something was done to what a description is.
    fn observe(&mut self, mask: u32, id: u32) {
        if let Ok(desc) = self.descs.of(self.caller.pid, id) {
            self.fx.observe(|| FileEvent::of_desc(mask, desc));
        }
    }

    /// The library has written what it was granted.
    pub fn wrote(&mut self, id: u32) -> Tried {
        let desc = self.descs.of(self.caller.pid, id)?;
        desc.writable()?;
        if matches!(desc.object, Object::File(_)) {
            self.observe(mask::MODIFY, id);
        }
        done(())
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
        loans::end(self.files, self.procs, self.clock, ino);
        let part = self.files.begin_read(ino, offset, op.bytes, self.clock.wall())?;
        if op.offset == AT_OFFSET {
            self.descs.of_mut(self.caller.pid, op.desc)?.offset = offset + part.bytes;
        }
        if part.bytes > 0 {
            self.observe(mask::ACCESS, op.desc);
        }
        Ok(part)
    }

    /// Room for what is to be written by the library itself.
    pub fn write_begin(&mut self, op: op::WriteBegin) -> Tried {
        let (desc, is_positioned) = (op.desc, op.offset != AT_OFFSET);
        let (ino, part) = self.grant(op, false)?;
        let tell = part.bytes > 0 && self.is_watched(desc);
        // Only such writes are made without asking.
        if is_positioned {
            self.lend_again(desc, (ino, part.layout));
        }
        done(Part { tell, ..part })
    }

    /// Lends a file to who has just written to it, if it did so before.
    #[inline(never)]
    fn lend_again(&mut self, desc: u32, (ino, layout): (Ino, u32)) {
        let Ok(inode) = self.files.names().get(ino) else { return };
        let size = inode.size();
        if self.has_written_there(ino, size) && self.may_lend(desc, ino) {
            self.lend(desc, (ino, layout, size));
        }
    }

    /// Has the caller written to a file by the request before, when that was as large as it is? Then it is lent to it if nothing has to be
    /// known of each write but when it was.
    #[inline]
    fn has_written_there(&self, ino: Ino, size: u64) -> bool {
        let session = self.procs.get(self.caller.pid).and_then(Proc::session);
        session.is_ok_and(|session| session.files().loan(ino.0.into()).ask(ino.0.into(), size))
    }

    fn lend(&mut self, desc: u32, what: (Ino, u32, u64)) {
        let all = (&mut *self.files, self.procs, self.clock);
        loans::lend(all, (self.caller.pid, desc), what);
    }

    /// Something is to be written to a file that is lent. If it is inside of it, and the caller has the file as well, or has it from now on,
    /// nothing else happens: who has it keeps it.
    #[cold]
    #[inline(never)]
    fn join(&mut self, op: &op::WriteBegin, ino: Ino) -> Option<Part> {
        let piece = self.files.present(ino, op.offset, true).ok()??;
        let (layout, size) = (piece.layout, piece.size);
        let is_inside = op.offset.checked_add(op.bytes).is_some_and(|end| end <= size);
        let is_some = op.bytes > 0 && op.bytes <= GRANT_MAX;
        let has = self.procs.get(self.caller.pid).is_ok_and(|proc| proc.lent.has(ino));
        let may = is_inside && is_some && (has || self.has_written_there(ino, size));
        if !may || !self.may_lend(op.desc, ino) {
            return None;
        }
        // By this description.
        self.lend(op.desc, (ino, layout, size));
        let now = self.clock.wall_now();
        self.files.names_mut().changed(ino, now, now);
        Some(Part { inode: ino.0.into(), layout, offset: op.offset, bytes: op.bytes, tell: false })
    }

    /// May a process change the bytes of a file by a description without telling of each time?
    #[inline(never)]
    fn may_lend(&self, id: u32, ino: Ino) -> bool {
        let pid = self.caller.pid;
        let (Ok(desc), Ok(proc)) = (self.descs.of(pid, id), self.procs.get(pid)) else {
            return false;
        };
        let Ok(inode) = self.files.names().get(ino) else { return false };
        let is_plain = matches!(desc.object, Object::File(_)) && desc.flags & O_APPEND == 0;
        // Whoever reads it without asking would not know that it was changed. What is kept elsewhere has its times there, too; and
        // whose bits for other ids go when it is changed, has none.
        let is_own =
            desc.writable().and(desc.shares_contents()).is_ok() && desc.heirs == Heirs::Both;
        let is_quiet = !self.fx.observed() && inode.kept().is_none() && inode.mode & SET_IDS == 0;
        let is_alone = !self.descs.is_beside(pid) && !self.seals.may_concern(ino);
        let is_unlimited = proc.limits.file_size() == u64::MAX;
        // Each page is there, so that nothing becomes more by it.
        let is_whole = self.files.grain(ino) == PAGE && self.files.is_steady(ino);
        is_plain && is_own && is_quiet && is_alone && is_unlimited && is_whole
    }

    /// Writes what is in the data area.
    pub fn write_at(&mut self, call: &Call, op: op::WriteAt) -> Tried {
        let data = self.procs.session_of(self.caller.tid)?.mapped(call.lengths.0)?;
        count(self.deliver(op.desc, op.offset, &[data])?)
    }

    /// Makes room for what is to be written, as far as there is any: `just_there`, or at the end if the
    /// description appends.
    fn grant(&mut self, op: op::WriteBegin, just_there: bool) -> Result<(Ino, Part), Errno> {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        desc.writable()?;
        let is_disk = matches!(desc.object, Object::Disk { .. });
        let (flags, at) = (desc.flags, desc.offset);
        if self.files.names().lent_to(ino).is_some() {
            if let Some(part) = self.join(&op, ino) {
                return Ok((ino, part));
            }
            loans::end(self.files, self.procs, self.clock, ino);
        }
        let size = self.files.names().get(ino)?.size();
        let offset = match op.offset {
            _ if flags & O_APPEND != 0 && !just_there && !is_disk => size,
            AT_OFFSET => at,
            offset => offset,
        };
        let (mut writer, mut bytes) =
            (writer(self.procs, self.caller, self.clock.wall())?, op.bytes);
        if is_disk {
            (writer.limit, bytes) = (u64::MAX, disks::room(size, offset, bytes)?);
        }
        bytes = self.seals.permit_write(ino, size, (offset, bytes))?;
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
    pub fn deliver(&mut self, desc: u32, offset: u64, data: &[Mapped]) -> Result<usize, Errno> {
        let bytes = data.iter().map(|data| data.bytes).sum();
        let room = op::WriteBegin { desc, offset, bytes };
        let (ino, part) = self.grant(room, offset != AT_OFFSET)?;
        let mut done = 0;
        for data in data {
            let data = Mapped { bytes: data.bytes.min(part.bytes - done), ..*data };
            if data.bytes > 0 {
                let at = part.offset + done;
                self.files.store_by(ino, |object| object.write_mapped(at, data))?;
            }
            done += data.bytes;
        }
        if part.bytes > 0 {
            self.observe(mask::MODIFY, desc);
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
        self.seals.permit_allocation(ino, self.files.names().get(ino)?.size(), &op)?;
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
        self.observe(mask::MODIFY, op.desc);
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
        self.seals.permit_clone(to)?;
        let writer = writer(self.procs, self.caller, self.clock.wall())?;
        let cloned = self.files.clone_contents(from, to, writer);
        cloned.map_err(|refusal| refused(refusal, self.caller, self.fx))?;
        self.observe(mask::ACCESS, op.from);
        self.observe(mask::MODIFY, op.desc);
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
        if op.page != NO_PAGE && self.bring_in_of((ino, op.page), Wanted::WithOthers, user)? {
            return done(());
        }
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

    /// The object of a file, if pages can leave memory and it has one.
    fn leaving(&self, ino: Ino, page: u64) -> Option<u32> {
        leaving(self.files, ino, page)
    }

    fn bring_in_of(
        &mut self,
        (ino, page): (Ino, u64),
        how: Wanted,
        user: u32,
    ) -> Result<bool, Errno> {
        match self.leaving(ino, page) {
            Some(object) => self.files.memory().volatile.bring_in((object, page), how, || user),
            None => Ok(false),
        }
    }

    /// Somebody has found that a page of a file has left memory.
    #[inline(never)]
    pub fn bring_in(&mut self, op: op::BringIn) -> Tried {
        let (ino, _) = file_of(self.descs, self.caller, op.desc)?;
        let user = self.procs.cred(self.caller.pid).uid;
        let how = if op.alone { Wanted::Alone } else { Wanted::WithOthers };
        match self.bring_in_of((ino, op.page), how, user)? {
            true => done(()),
            false => Err(Errno::ENOENT),
        }
    }

    /// The kernel has told somebody where a page of a file is that has left memory.
    #[inline(never)]
    pub fn fetch_page(&mut self, op: op::Fetch) -> Result<(), Errno> {
        let (ino, _) = file_of(self.descs, self.caller, op.desc)?;
        if let Some(object) = self.leaving(ino, op.page) {
            let (procs, pid) = (self.procs, self.caller.pid);
            let user = || procs.cred(pid).uid;
            let volatile = &mut self.files.memory().volatile;
            volatile.bring_in((object, op.page), Wanted::From(op.slot), user)?;
        }
        Ok(())
    }

    /// `MADV_PAGEOUT`.
    #[inline(never)]
    pub fn page_out(&mut self, op: op::PageOut) -> Tried {
        let (ino, desc) = file_of(self.descs, self.caller, op.desc)?;
        // Else everybody could slow down everybody.
        desc.writable()?;
        if let Some(object) = self.leaving(ino, op.first) {
            swap::page_out(object, op.first, op.pages);
        }
        done(())
    }

    /// `mlock` and `munlock`.
    #[inline(never)]
    pub fn wire(&mut self, op: op::Wire) -> Tried {
        let (ino, _) = match file_of(self.descs, self.caller, op.desc) {
            // They never leave.
            Err(_) if self.is_registers(op.desc) => return done(()),
            file => file?,
        };
        if let Some(object) = self.leaving(ino, op.first) {
            let pages = (op.first, op.first.saturating_add(op.pages));
            swap::wire(object, self.caller.pid, pages, op.stays)?;
        }
        done(())
    }

    /// Somebody has found no memory for what is no file.
    #[inline(never)]
    pub fn make_memory(&mut self, op: op::MakeMemory) -> Tried {
        // Nobody needs more at once; who asks for more wants to have everybody's pages leave.
        if op.bytes > MEMORY_MOST {
            return Err(Errno::ENOMEM);
        }
        let core = self.procs.core_of(self.caller.tid);
        match self.files.memory().volatile.make_memory(op.bytes, core) {
            true => done(()),
            false => Err(Errno::ENOMEM),
        }
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

    /// Is a description of registers of a device?
    #[cold]
    fn is_registers(&self, desc: u32) -> bool {
        let desc = self.descs.of(self.caller.pid, desc);
        desc.is_ok_and(|desc| matches!(desc.object, Object::Device(Kind::Registers, _)))
    }

    /// A Frame with a part of a file, to read or also to write; or the Morsel that has all of it.
    #[inline(always)]
    pub fn file_extent(&mut self, op: op::FileExtent) -> Tried {
        let (ino, desc) = match file_of(self.descs, self.caller, op.desc) {
            Err(_) if self.is_registers(op.desc) => return registers::extent(op.write),
            file => file?,
        };
        desc.shares_contents()?;
        if op.write {
            desc.writable()?;
            self.seals.permit_stores(self.descs.holder(self.caller.pid), ino)?;
        }
        if swap::is_there() {
            // The tables of what is shown next may have to be made.
            self.files.memory().volatile.keep_some();
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
