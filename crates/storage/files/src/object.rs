//! Objects: one for each file, made when there is first something in it.

use crate::content::pages;
use crate::{Content, Contents, Files, Memory, Refusal, Writer, PAGE};
use memfs::{Cred, Ino, SIZE_MAX};
use unixproto::Errno;

/// What has the bytes of a file.
#[derive(Debug)]
pub struct Stored<O> {
    /// The object: of a file that does not survive, if there is anything in it; of one that does, if somebody has needed it
    /// since the file was opened.
    pub(crate) object: Option<O>,
    /// How many bytes it can have.
    most: u64,
    /// Does it survive?
    fate: Fate,
    /// Whatever shows it goes before it gets pages behind this byte.
    until: u64,
}

/// What becomes of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It goes with its file.
    Goes,
    /// It survives.
    Survives {
        /// Its number; none if the file never had a size.
        number: Option<u32>,
        /// After a power failure it is as at the last `fsync`, whatever was written since.
        is_atomic: bool,
    },
}

impl<O> Stored<O> {
    pub(crate) fn new(fate: Fate) -> Self {
        Stored { object: None, most: 0, fate, until: u64::MAX }
    }
    pub(crate) fn most(&self) -> u64 {
        self.most
    }
    fn survives(&self) -> bool {
        self.fate != Fate::Goes
    }
    fn number(&self) -> Option<u32> {
        match self.fate {
            Fate::Goes => None,
            Fate::Survives { number, .. } => number,
        }
    }
    fn is_atomic(&self) -> bool {
        matches!(self.fate, Fate::Survives { is_atomic: true, .. })
    }
    /// It has an object from now on, which can have so many bytes.
    pub(crate) fn set_object(&mut self, object: O, most: u64) {
        (self.object, self.most) = (Some(object), most);
    }
    /// Is there an object, at hand or not?
    fn has_any(&self) -> bool {
        self.object.is_some() || self.number().is_some()
    }
}

/// What `fallocate` is to do with a part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// To make what pages are missing, and the file larger if need be.
    Extend,
    /// To make what pages are missing of the file as it is.
    Keep,
    /// To have there only zeros, and no memory if possible.
    Punch,
    /// To have there only zeros, and memory; and the file larger if need be.
    Zero,
}

impl<F, O> Content<F, O> {
    /// Of a file that survives, with its object if it has one.
    pub fn stored(number: Option<u32>) -> Self {
        Content::of(Stored::new(Fate::Survives { number, is_atomic: false }))
    }
    /// Of a file that does not: nothing but zeros.
    pub(crate) fn volatile() -> Self {
        Content::of(Stored::new(Fate::Goes))
    }
    /// The number of the object, if it has one.
    pub fn stored_number(&self) -> Option<u32> {
        self.stored.as_ref()?.number()
    }
    /// Its object, if it is at hand.
    pub fn object(&self) -> Option<&O> {
        self.stored.as_ref()?.object.as_ref()
    }
    /// Is its object at hand, and can be found again?
    pub(crate) fn may_be_closed(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.object.is_some() && stored.survives())
    }
}

impl<M: Memory> Files<M> {
    /// The contents of a file that is made in a directory.
    pub(crate) fn empty_in(&self, dir: Ino) -> Result<Contents<M>, Errno> {
        Ok(match self.names.get(dir)?.kept() {
            Some(_) => Content::stored(None),
            None => Content::volatile(),
        })
    }

    /// Does a file survive?
    #[inline]
    pub fn survives(&self, ino: Ino) -> bool {
        let stored = self.look(ino).ok().and_then(|(_, file)| file.stored.as_ref());
        stored.is_some_and(Stored::survives)
    }

    /// The object of a file that does not survive, if the file has one, and has such a byte.
    pub fn volatile_object(&self, ino: Ino, offset: u64) -> Option<&M::Object> {
        let (size, file) = self.look(ino).ok()?;
        let stored = file.stored.as_ref().filter(|stored| !stored.survives())?;
        stored.object.as_ref().filter(|_| offset < pages(size))
    }

    /// Is there anything in a file, as far as is known without asking for its object?
    fn has_any(&self, ino: Ino) -> bool {
        let stored = self.look(ino).ok().and_then(|(_, file)| file.stored.as_ref());
        stored.is_some_and(Stored::has_any)
    }

    /// Size and object of a file, and the memory. The object was [made](Files::make_object).
    pub(crate) fn object(&mut self, ino: Ino) -> Result<(u64, &mut M::Object, &mut M), Errno> {
        let Files { names, memory, .. } = self;
        match &mut names.get_mut(ino)?.node {
            memfs::Node::File { size, content } => {
                let stored = content.stored.as_mut().ok_or(Errno::EIO)?;
                Ok((*size, stored.object.as_mut().ok_or(Errno::EIO)?, memory))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Gives a file its object, or finds it.
    #[inline]
    pub(crate) fn make_object(&mut self, ino: Ino, user: u32) -> Result<(), Errno> {
        let (size, file) = self.look(ino)?;
        let stored = file.stored.as_ref().ok_or(Errno::EIO)?;
        match stored.object {
            Some(_) => Ok(()),
            None => self.make_object_of(ino, (size, 0), user),
        }
    }

    /// The same; a new one that does not survive is of this size, and so much of it is needed at once.
    fn make_object_of(
        &mut self,
        ino: Ino,
        (bytes, needed): (u64, u64),
        user: u32,
    ) -> Result<(), Errno> {
        let (_, file) = self.look(ino)?;
        let fate = file.stored.as_ref().ok_or(Errno::EIO)?.fate;
        let (fate, object) = match fate {
            Fate::Goes => (fate, self.memory.make_object(bytes, needed, user)?),
            Fate::Survives { number: Some(number), .. } => (fate, self.memory.open_object(number)?),
            Fate::Survives { number: None, is_atomic } => {
                // If it cannot be noted, it belongs to no file: the next start of the system destroys it.
                let (number, object) = self.memory.create_object()?;
                self.names.set_content(ino, number)?;
                (Fate::Survives { number: Some(number), is_atomic }, object)
            }
        };
        let most = M::most(&object);
        self.file(ino)?.1.stored = Some(Stored { object: Some(object), most, ..Stored::new(fate) });
        self.advise_by_grain(ino)
    }

    /// Nobody needs the object of a file any more that survives. Who does later finds it by its number.
    pub(crate) fn close_object(&mut self, ino: Ino) {
        if let Ok((_, Content { stored: Some(stored), .. })) = self.file(ino) {
            (stored.object, stored.until) = (None, u64::MAX);
        }
    }

    /// Whatever shows the object of a file that has a piece goes before it gets pages behind a byte: somebody has shown it so that
    /// they would be seen there. If it has some there already, nobody has.
    pub fn show_until(&mut self, ino: Ino, until: u64) -> Result<(), Errno> {
        let (size, file) = self.file(ino)?;
        if let Some(stored) = file.stored.as_mut().filter(|_| pages(*size) <= until) {
            stored.until = stored.until.min(until);
        }
        Ok(())
    }

    /// Takes what others have been given of a file from them: who asks again gets what he may have then.
    pub fn take_back(&mut self, ino: Ino) -> Result<(), Errno> {
        match self.look(ino)?.1.object() {
            Some(_) => self.show_anew(ino),
            None => Ok(()),
        }
    }

    /// Takes an object from everybody who shows it.
    #[cold]
    fn show_anew(&mut self, ino: Ino) -> Result<(), Errno> {
        let (_, object, memory) = self.object(ino)?;
        memory.revoke_object(object)?;
        self.renew_layout(ino)?;
        if let Some(stored) = &mut self.file(ino)?.1.stored {
            stored.until = u64::MAX;
        }
        Ok(())
    }

    /// Makes the object as large as the file is to be.
    pub(crate) fn resize_object(&mut self, ino: Ino, size: u64, user: u32) -> Result<(), Errno> {
        let (old, file) = self.look(ino)?;
        let stored = file.stored.as_ref().ok_or(Errno::EIO)?;
        if !stored.has_any() && (size == old || !stored.survives()) {
            // Its zeros need no object.
            *self.file(ino)?.0 = size;
            return Ok(());
        }
        let shows_too_much = pages(size) > stored.until;
        self.make_object(ino, user)?;
        if shows_too_much {
            self.show_anew(ino)?;
        }
        let (_, object, memory) = self.object(ino)?;
        let is_other = memory.resize_object(object, size, user)?;
        let most = M::most(object);
        if is_other {
            self.renew_layout(ino)?;
            self.advise_by_grain(ino)?;
        }
        let (place, file) = self.file(ino)?;
        *place = size;
        if let Some(stored) = &mut file.stored {
            stored.most = most;
        }
        Ok(())
    }

    /// Bytes of the object of a file, which has one.
    pub(crate) fn shown_size(&mut self, ino: Ino) -> Result<u64, Errno> {
        let (_, object, memory) = self.object(ino)?;
        memory.limit(object)
    }

    /// Allows whoever has the object of a file to make it larger. Answers up to which byte.
    pub(crate) fn allow_more(&mut self, ino: Ino, bytes: u64) -> Result<u64, Errno> {
        let (size, file) = self.look(ino)?;
        if file.object().is_none() {
            return Ok(size);
        }
        let (_, object, memory) = self.object(ino)?;
        let most = memory.allow_object(object, bytes)?;
        *self.file(ino)?.0 = most;
        Ok(most)
    }

    /// Makes room between `offset` and `end`, and the file larger if need be. Answers how far it came, if it came anywhere.
    pub(crate) fn extend(
        &mut self,
        ino: Ino,
        (offset, end): (u64, u64),
        user: u32,
    ) -> Result<u64, Errno> {
        let old = self.look(ino)?.0;
        if end > old {
            if self.extends_at_once(ino, (offset, end)) {
                return Ok(end);
            }
            if !self.has_any(ino) && !self.survives(ino) {
                let needed = if offset == 0 { end } else { 0 };
                self.make_object_of(ino, (end, needed), user)?;
                *self.file(ino)?.0 = end;
            } else {
                self.resize_object(ino, end, user)?;
            }
        } else {
            self.make_object(ino, user)?;
        }
        let (_, object, memory) = self.object(ino)?;
        let populated = memory.populate_object(object, (offset & !(PAGE - 1), pages(end)), user);
        let done = populated.as_ref().map_or(0, |done| (*done).min(end));
        let done = if done > offset { done } else { 0 };
        if done < end && end > old {
            self.resize_object(ino, old.max(done), user)?;
        }
        populated?;
        match done {
            0 => Err(Errno::ENOSPC),
            done => Ok(done),
        }
    }

    /// Makes a file larger that has its object, and stays what it is for everybody.
    fn extends_at_once(&mut self, ino: Ino, (offset, end): (u64, u64)) -> bool {
        let Files { names, memory, .. } = self;
        let Ok(memfs::Node::File { size, content }) =
            names.get_mut(ino).map(|inode| &mut inode.node)
        else {
            return false;
        };
        let Some(stored) = content.stored.as_mut().filter(|stored| pages(end) <= stored.until)
        else {
            return false;
        };
        let Some(object) = &mut stored.object else { return false };
        let is_done = memory.extend_object(object, end, offset & !(PAGE - 1));
        if is_done {
            *size = end;
        }
        is_done
    }

    pub(crate) fn store_in_object(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Errno> {
        if data.is_empty() {
            return Ok(());
        }
        let (_, object, memory) = self.object(ino)?;
        memory.write_object(object, offset, data)
    }

    pub(crate) fn load_from_object(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &mut [u8],
    ) -> Result<(), Errno> {
        if data.is_empty() {
            return Ok(());
        }
        if !self.has_any(ino) {
            data.fill(0);
            return Ok(());
        }
        self.make_object(ino, Cred::ROOT.uid)?;
        let (_, object, memory) = self.object(ino)?;
        memory.read_object(object, offset, data)
    }

    /// The next part of a file that has an object, or may have one, for which there is memory, from a byte before its end on.
    pub(crate) fn next_of_object(
        &mut self,
        ino: Ino,
        offset: u64,
    ) -> Result<Option<(u64, u64)>, Errno> {
        if !self.has_any(ino) {
            return Ok(None);
        }
        self.make_object(ino, Cred::ROOT.uid)?;
        let (size, object, memory) = self.object(ino)?;
        let found = memory.next_data(object, (offset & !(PAGE - 1), pages(size)))?;
        let found = found.map(|(from, to)| (from.max(offset), to.min(size)));
        Ok(found.filter(|(from, to)| from < to))
    }

    /// Bytes of memory that a file takes, as `st_blocks` shows them.
    pub fn allocated(&self, ino: Ino) -> Result<u64, Errno> {
        let (size, file) = self.look(ino)?;
        match &file.stored {
            None => Ok(pages(size)),
            Some(Stored { object: Some(object), .. }) => self.memory.allocated(object, size),
            Some(stored) => match stored.number() {
                Some(number) => self.memory.allocated_in(number, size),
                None => Ok(0),
            },
        }
    }

    /// Does what [`allocated`](Self::allocated) answers stay until the file is changed? Where a page is missing, whoever has the file
    /// mapped may make it at any time.
    pub fn is_steady(&self, ino: Ino) -> bool {
        let Ok((size, file)) = self.look(ino) else { return true };
        let Some(stored) = &file.stored else { return true };
        match &stored.object {
            Some(object) => self.memory.is_full(object, size),
            None => stored.number().is_none(),
        }
    }

    /// `fallocate`.
    pub fn allocate_range(
        &mut self,
        ino: Ino,
        how: Allocation,
        (offset, bytes): (u64, u64),
        writer: Writer,
    ) -> Result<(), Refusal> {
        let end = offset.checked_add(bytes).ok_or(Errno::EFBIG)?;
        let grain = self.grain(ino);
        let (offset, end) = match (how, grain > PAGE) {
            (Allocation::Punch, _) | (_, false) => (offset, end),
            (Allocation::Zero, true) => return Err(Errno::EOPNOTSUPP.into()),
            // Whole ones of its pages.
            (_, true) => {
                let end = end.checked_next_multiple_of(grain).ok_or(Errno::EFBIG)?;
                (offset / grain * grain, end)
            }
        };
        if end > SIZE_MAX {
            return Err(Errno::EFBIG.into());
        }
        let old = self.look(ino)?.0;
        let grows = matches!(how, Allocation::Extend | Allocation::Zero) && end > old;
        if grows && end > writer.limit {
            return Err(Refusal::Limit);
        }
        if grows && end > self.names.most_in_volume(ino) {
            return Err(Errno::ENOSPC.into());
        }
        let user = writer.cred.uid;
        // There are no pages behind the end. Where nothing survives that is good enough.
        if how == Allocation::Keep && end > pages(old) && self.survives(ino) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        self.own(ino, u64::MAX, user)?;
        match how {
            Allocation::Punch => self.punch(ino, offset, end.min(old))?,
            Allocation::Zero => {
                self.punch(ino, offset, end.min(old))?;
                self.fill(ino, (offset, end), user)?;
            }
            Allocation::Extend => self.fill(ino, (offset, end), user)?,
            Allocation::Keep => self.fill(ino, (offset, end.min(old)), user)?,
        }
        self.names.charge(ino);
        self.names.written(ino, &writer.cred, writer.now)?;
        Ok(())
    }

    /// Makes all pages that are missing, or leaves the file as large as it was.
    fn fill(&mut self, ino: Ino, (offset, end): (u64, u64), user: u32) -> Result<(), Errno> {
        if offset >= end {
            return Ok(());
        }
        let old = self.look(ino)?.0;
        match self.extend(ino, (offset, end), user) {
            Ok(done) if done >= end => Ok(()),
            failed => {
                self.resize_object(ino, old, user)?;
                failed.and(Err(Errno::ENOSPC))
            }
        }
    }

    fn punch(&mut self, ino: Ino, from: u64, to: u64) -> Result<(), Errno> {
        if from >= to || !self.has_any(ino) {
            return Ok(());
        }
        self.make_object(ino, Cred::ROOT.uid)?;
        let (size, object, memory) = self.object(ino)?;
        // What is behind the end of the file in its last page is zeros already.
        let to = if to == size { pages(to) } else { to };
        let (first, last) = (pages(from), to & !(PAGE - 1));
        if first > last {
            return memory.clear_object(object, from, to.min(size));
        }
        if from < first {
            memory.clear_object(object, from, first.min(size))?;
        }
        if last < to {
            memory.clear_object(object, last, to)?;
        }
        if first < last {
            memory.discard_object(object, first, last)?;
        }
        Ok(())
    }

    /// `fsync`: returns when what was written survives. What does not survive in any case is done.
    pub fn write_back(&mut self, ino: Ino, from: u64, to: u64) -> Result<(), Errno> {
        let (size, file) = match self.look(ino) {
            Ok(found) => found,
            Err(_) => return Ok(()),
        };
        let to = to.min(size);
        let Some(stored) = file.stored.as_ref().filter(|stored| stored.number().is_some()) else {
            return Ok(());
        };
        let is_atomic = stored.is_atomic();
        if !is_atomic && from >= to {
            return Ok(());
        }
        self.make_object(ino, Cred::ROOT.uid)?;
        let (_, object, memory) = self.object(ino)?;
        match is_atomic {
            true => memory.commit_object(object),
            false => memory.write_back_object(object, from, to),
        }
    }

    /// From now on a file is after a power failure as it was at the last [`write_back`](Files::write_back) of any part of it (the first is now),
    /// size and contents, whatever was written since; or it is no more.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it does not survive at all.
    pub fn make_atomic(&mut self, ino: Ino, is_atomic: bool) -> Result<(), Errno> {
        if !self.survives(ino) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.make_object(ino, Cred::ROOT.uid)?;
        let (_, object, memory) = self.object(ino)?;
        match is_atomic {
            true => memory.commit_object(object)?,
            false => memory.release_object(object)?,
        }
        if let Some(Stored { fate: Fate::Survives { is_atomic: now, .. }, .. }) =
            &mut self.file(ino)?.1.stored
        {
            *now = is_atomic;
        }
        Ok(())
    }

    /// What is missing of a file is made in pages of 2 MiB from now on, where there are any; or no more. Whoever has it mapped
    /// has fewer faults then, and as many more pages.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it lies in the boot archive.
    pub fn advise(&mut self, ino: Ino, large: bool, user: u32) -> Result<(), Errno> {
        if self.look(ino)?.1.stored.is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.make_object(ino, user)?;
        let (_, object, memory) = self.object(ino)?;
        memory.advise_object(object, large)
    }

    /// A file of large pages has a new object.
    fn advise_by_grain(&mut self, ino: Ino) -> Result<(), Errno> {
        if self.grain(ino) == PAGE {
            return Ok(());
        }
        let (_, object, memory) = self.object(ino)?;
        memory.advise_object(object, true)
    }

    /// Are the pages of a file to be large?
    pub fn is_advised(&self, ino: Ino) -> bool {
        let file = self.look(ino).ok().and_then(|(_, file)| file.stored.as_ref());
        file.and_then(|stored| stored.object.as_ref()).is_some_and(M::is_large)
    }

    /// Has a file have what another has, without copying it. What it had is gone; who has either mapped sees what it has now.
    ///
    /// # Errors
    /// `EXDEV`: only one of them survives; `EINVAL`: they are one file.
    pub fn clone_contents(&mut self, from: Ino, to: Ino, writer: Writer) -> Result<(), Refusal> {
        let size = self.look(from)?.0;
        let old = self.look(to)?.0;
        if self.grain(from).max(self.grain(to)) > PAGE {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let survives = self.survives(to);
        if self.survives(from) != survives {
            return Err(Errno::EXDEV.into());
        }
        if from == to {
            return Err(Errno::EINVAL.into());
        }
        if size > writer.limit.max(old) {
            return Err(Refusal::Limit);
        }
        if size > old && size > self.names.most_in_volume(to) {
            return Err(Errno::ENOSPC.into());
        }
        let user = writer.cred.uid;
        self.own(from, u64::MAX, user)?;
        self.own(to, 0, user)?;
        let mut new = Stored::new(Fate::Goes);
        if survives || self.has_any(from) {
            self.make_object(from, user)?;
            let (_, object, memory) = self.object(from)?;
            let (number, object) = memory.clone_object(object)?;
            if survives {
                if let Err(error) = self.names.set_content(to, number) {
                    self.memory.destroy_object(number, Some(object));
                    return Err(error.into());
                }
                new.fate = Fate::Survives { number: Some(number), is_atomic: false };
            }
            (new.most, new.object) = (M::most(&object), Some(object));
        }
        let (place, file) = self.file(to)?;
        *place = size;
        let gone = file.stored.replace(new);
        if let Some((number, stored)) = gone.and_then(|old| Some((old.number()?, old))) {
            self.memory.destroy_object(number, stored.object);
        }
        self.names.charge(to);
        self.renew_layout(to)?;
        self.names.written(to, &writer.cred, writer.now)?;
        Ok(())
    }
}
