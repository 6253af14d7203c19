//! Seals of files that `memfd_create` makes: what may never be done to them any more.
//!
//! Whoever has such a file mapped could store to it without asking. So libraries tell when they map one to be written to, and when
//! they do not any more, and get its contents with the right to write only meanwhile; other stores are done here. A library that
//! does not say the truth loses what it has as soon as nobody else keeps a file from being sealed.

use crate::content::file_of;
use crate::descs::{Desc, Object};
use crate::open::Opening;
use crate::procs::Pid;
use crate::wait::{count, Call, Tried};
use abi::layout::PAGE;
use alloc::collections::{BTreeMap, BTreeSet};
use memfs::Ino;
use unixproto::files::{seal, Kind, FALLOC_FL_PUNCH_HOLE, O_ACCMODE, O_RDONLY};
use unixproto::{op, Errno};

/// Stores are refused.
const WRITES: u32 = seal::WRITE | seal::FUTURE_WRITE;
/// Longest name.
const NAME_MOST: usize = 249;
/// Bits of a mode that let a file be executed.
const EXECUTABLE: u32 = 0o111;

/// Of a file.
struct State {
    seals: u32,
    /// It was made to be sealed.
    is_sealable: bool,
    /// Processes that have it mapped to be written to.
    mappers: u32,
}

/// Of all files.
#[derive(Default)]
pub struct Seals {
    files: BTreeMap<Ino, State>,
    mapped: BTreeMap<Pid, BTreeSet<Ino>>,
}

impl Seals {
    /// A file was made by `memfd_create`.
    fn made(&mut self, ino: Ino, seals: u32) {
        let is_sealable = seals & seal::SEAL == 0;
        self.files.insert(ino, State { seals, is_sealable, mappers: 0 });
    }

    /// Is a file one that was made by `memfd_create`?
    pub fn may_concern(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// A file has gone.
    pub fn gone(&mut self, ino: Ino) {
        if self.files.remove(&ino).is_some_and(|state| state.mappers > 0) {
            self.mapped.values_mut().for_each(|files| _ = files.remove(&ino));
        }
    }

    /// How the library treats what a description is.
    pub fn kind(&self, object: &Object, flags: u32) -> Kind {
        match object {
            Object::File(ino) if flags & O_ACCMODE != O_RDONLY && self.is_sealable(*ino) => {
                Kind::Sealable
            }
            _ => object.kind(),
        }
    }

    fn is_sealable(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(|state| state.is_sealable)
    }

    #[inline]
    fn of(&self, ino: Ino) -> u32 {
        match self.files.is_empty() {
            true => 0,
            false => self.files.get(&ino).map_or(0, |state| state.seals),
        }
    }

    fn is_mapper(&self, pid: Pid, ino: Ino) -> bool {
        self.mapped.get(&pid).is_some_and(|files| files.contains(&ino))
    }

    /// A process maps a file to be written to. `false`: that is sealed.
    fn map(&mut self, pid: Pid, ino: Ino) -> bool {
        let Some(state) = self.files.get_mut(&ino) else { return true };
        if state.seals & WRITES != 0 {
            return false;
        }
        if state.is_sealable && self.mapped.entry(pid).or_default().insert(ino) {
            state.mappers += 1;
        }
        true
    }

    /// It does not have it mapped so any more.
    fn unmap(&mut self, pid: Pid, ino: Ino) {
        let Some(files) = self.mapped.get_mut(&pid) else { return };
        if files.remove(&ino) {
            if let Some(state) = self.files.get_mut(&ino) {
                state.mappers -= 1;
            }
        }
        if files.is_empty() {
            self.mapped.remove(&pid);
        }
    }

    /// A process has nothing mapped any more.
    pub fn forget(&mut self, pid: Pid) {
        for ino in self.mapped.remove(&pid).unwrap_or_default() {
            if let Some(state) = self.files.get_mut(&ino) {
                state.mappers -= 1;
            }
        }
    }

    /// A child has mapped what its parent has.
    pub fn inherit(&mut self, parent: Pid, child: Pid) {
        let Some(files) = self.mapped.get(&parent).cloned() else { return };
        for ino in &files {
            if let Some(state) = self.files.get_mut(ino) {
                state.mappers += 1;
            }
        }
        self.mapped.insert(child, files);
    }

    /// May a process have the contents of a file so that it can store to them? `EPERM`.
    #[inline]
    pub fn permit_stores(&self, pid: Pid, ino: Ino) -> Result<(), Errno> {
        if self.files.is_empty() {
            return Ok(());
        }
        let Some(state) = self.files.get(&ino) else { return Ok(()) };
        // Others write by requests: what they have could be kept for later.
        match state.is_sealable && !self.is_mapper(pid, ino) {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }

    /// How many of so many bytes may be written to a file of a size. `EPERM`: none.
    #[inline]
    pub fn permit_write(
        &self,
        ino: Ino,
        size: u64,
        (offset, bytes): (u64, u64),
    ) -> Result<u64, Errno> {
        let seals = self.of(ino);
        if seals & (WRITES | seal::GROW) == 0 || bytes == 0 {
            return Ok(bytes);
        }
        if seals & WRITES != 0 {
            return Err(Errno::EPERM);
        }
        // Page by page, as Linux has it: the one with the end is written only up to that.
        if offset.saturating_add(bytes) <= size {
            return Ok(bytes);
        }
        let end = size & !(PAGE - 1);
        match end > offset {
            true => Ok(end - offset),
            false => Err(Errno::EPERM),
        }
    }

    /// May a file of a size get another? `EPERM`.
    #[inline]
    pub fn permit_size(&self, ino: Ino, old: u64, new: u64) -> Result<(), Errno> {
        let seals = self.of(ino);
        let refused =
            new < old && seals & seal::SHRINK != 0 || new > old && seals & seal::GROW != 0;
        match refused {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }

    /// May a file get the contents of another? `EPERM`.
    pub fn permit_clone(&self, ino: Ino) -> Result<(), Errno> {
        match self.of(ino) & (WRITES | seal::GROW | seal::SHRINK) {
            0 => Ok(()),
            _ => Err(Errno::EPERM),
        }
    }

    /// May memory of a file of a size be made or taken away, as `fallocate` does? `EPERM`.
    #[inline]
    pub fn permit_allocation(&self, ino: Ino, size: u64, op: &op::Allocate) -> Result<(), Errno> {
        let seals = self.of(ino);
        let refused = match op.mode & FALLOC_FL_PUNCH_HOLE != 0 {
            true => seals & WRITES != 0,
            false => seals & seal::GROW != 0 && op.offset.saturating_add(op.bytes) > size,
        };
        match refused {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }

    /// May the mode of a file become another? `EPERM`.
    pub fn permit_mode(&self, ino: Ino, old: u32, new: u32) -> Result<(), Errno> {
        match self.of(ino) & seal::EXEC != 0 && (old ^ new) & EXECUTABLE != 0 {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }

    /// Adds seals to a file that can be executed or not. Returns `true` if nobody may store to it from now on, so that what others
    /// have of it is to be taken back.
    fn add(&mut self, ino: Ino, mut seals: u32, is_executable: bool) -> Result<bool, Errno> {
        let state = self.files.get_mut(&ino).ok_or(Errno::EINVAL)?;
        if state.seals & seal::SEAL != 0 {
            return Err(Errno::EPERM);
        }
        let ends_stores = seals & seal::WRITE != 0 && state.seals & seal::WRITE == 0;
        if ends_stores && state.mappers > 0 {
            return Err(Errno::EBUSY);
        }
        if seals & seal::EXEC != 0 && is_executable {
            seals |= seal::SHRINK | seal::GROW | WRITES;
        }
        let is_first = seals & !state.seals & WRITES != 0;
        state.seals |= seals;
        Ok(is_first && state.mappers == 0)
    }
}

impl Opening<'_> {
    /// `memfd_create`.
    pub fn mem_fd(&mut self, call: &Call, op: op::MemFd) -> Tried {
        let name = self.procs.path(self.caller, call)?;
        let (desc, ino) = self.unnamed(0, op.large)?;
        let mut seals = if op.sealable { 0 } else { seal::SEAL };
        if !op.executable {
            seals |= seal::EXEC;
            let inode = self.handles.tree.files_mut().names_mut().get_mut(ino)?;
            inode.mode &= !EXECUTABLE;
        }
        self.handles.seals.made(ino, seals);
        self.handles.tree.call(ino, &name[..name.len().min(NAME_MOST)]);
        Self::memory(desc, ino, op.large, if op.sealable { Kind::Sealable } else { Kind::Regular })
    }

    /// The regular file of a description of the caller.
    fn sealed(&self, desc: u32) -> Result<(Ino, &Desc), Errno> {
        file_of(self.handles.descs, self.caller, desc)
    }

    /// `F_ADD_SEALS`, `F_GET_SEALS`.
    pub fn seal(&mut self, op: op::Seal) -> Tried {
        let (ino, desc) = self.sealed(op.desc)?;
        if op.add {
            desc.writable().map_err(|_| Errno::EPERM)?;
            if op.seals & !seal::ALL != 0 {
                return Err(Errno::EINVAL);
            }
            let is_executable = self.names().get(ino)?.mode & EXECUTABLE != 0;
            if self.handles.seals.add(ino, op.seals, is_executable)? {
                self.handles.tree.files_mut().take_back(ino)?;
            }
        }
        let state = self.handles.seals.files.get(&ino).ok_or(Errno::EINVAL)?;
        count(state.seals as usize)
    }

    /// A process maps a file so that it can store to it.
    pub fn map_sealable(&mut self, desc: u32) -> Tried {
        let (ino, desc) = self.sealed(desc)?;
        desc.readable()?;
        desc.writable()?;
        let holder = self.handles.descs.holder(self.caller.pid);
        count(self.handles.seals.map(holder, ino).into())
    }

    /// It has unmapped it.
    pub fn unmap_sealable(&mut self, desc: u32) -> Tried {
        let (ino, _) = self.sealed(desc)?;
        let holder = self.handles.descs.holder(self.caller.pid);
        self.handles.seals.unmap(holder, ino);
        count(0)
    }
}
