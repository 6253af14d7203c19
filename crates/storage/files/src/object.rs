//! Contents that survive: one object for each file, made when the file first gets a size.

use crate::content::pages;
use crate::{Content, Contents, Files, Memory, Refusal, Writer, PAGE};
use memfs::{Ino, SIZE_MAX};
use unixproto::Errno;

/// What has the bytes of a file that survives.
#[derive(Debug)]
pub struct Stored<O> {
    /// The number of the object; none if the file never had a size.
    number: Option<u32>,
    /// The object, if somebody has needed it since the file was opened.
    pub(crate) object: Option<O>,
    /// How many bytes it can have.
    most: u64,
    /// After a power failure it is as at the last `fsync`, whatever was written since.
    is_atomic: bool,
}

impl<O> Stored<O> {
    pub(crate) fn most(&self) -> u64 {
        self.most
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
        let mut content = Content::default();
        content.stored = Some(Stored { number, object: None, most: 0, is_atomic: false });
        content
    }
    /// The number of the object, if it has one.
    pub fn stored_number(&self) -> Option<u32> {
        self.stored.as_ref()?.number
    }
    /// Is its object at hand?
    pub(crate) fn has_object(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.object.is_some())
    }
}

impl<M: Memory> Files<M> {
    /// The contents of a file that is made in a directory.
    pub(crate) fn empty_in(&self, dir: Ino) -> Result<Contents<M>, Errno> {
        Ok(match self.names.get(dir)?.kept() {
            Some(_) => Content::stored(None),
            None => Content::default(),
        })
    }

    /// Does a file survive?
    #[inline]
    pub(crate) fn is_stored(&self, ino: Ino) -> bool {
        self.look(ino).is_ok_and(|(_, file)| file.stored.is_some())
    }

    /// Size and object of a file, and the memory. The object was [made](Files::make_object).
    fn object(&mut self, ino: Ino) -> Result<(u64, &mut M::Object, &mut M), Errno> {
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
    pub(crate) fn make_object(&mut self, ino: Ino) -> Result<(), Errno> {
        let (_, file) = self.look(ino)?;
        let stored = file.stored.as_ref().ok_or(Errno::EIO)?;
        if stored.object.is_some() {
            return Ok(());
        }
        let (number, object) = match stored.number {
            Some(number) => (number, self.memory.open_object(number)?),
            None => {
                // If it cannot be noted, it belongs to no file: the next start of the system destroys it.
                let (number, object) = self.memory.create_object()?;
                self.names.set_content(ino, number)?;
                (number, object)
            }
        };
        let most = M::most(&object);
        if let Some(stored) = &mut self.file(ino)?.1.stored {
            (stored.number, stored.object, stored.most) = (Some(number), Some(object), most);
        }
        Ok(())
    }

    /// Nobody needs the object of a file any more. Who does later finds it by its number.
    pub(crate) fn close_object(&mut self, ino: Ino) {
        if let Ok((_, Content { stored: Some(stored), .. })) = self.file(ino) {
            stored.object = None;
        }
    }

    /// Makes the object as large as the file is to be.
    pub(crate) fn resize_object(&mut self, ino: Ino, size: u64) -> Result<(), Errno> {
        let (old, file) = self.look(ino)?;
        if size == old && file.stored.as_ref().is_none_or(|stored| stored.number.is_none()) {
            return Ok(());
        }
        self.make_object(ino)?;
        let (_, object, memory) = self.object(ino)?;
        memory.resize_object(object, size)?;
        let most = M::most(object);
        let (place, file) = self.file(ino)?;
        *place = size;
        if let Some(stored) = &mut file.stored {
            stored.most = most;
        }
        Ok(())
    }

    /// Makes room between `offset` and `end`, and the file larger if need be. Answers how far it came, if it came anywhere.
    pub(crate) fn extend(&mut self, ino: Ino, offset: u64, end: u64) -> Result<u64, Errno> {
        self.make_object(ino)?;
        let old = self.look(ino)?.0;
        if end > old {
            self.resize_object(ino, end)?;
        }
        let (_, object, memory) = self.object(ino)?;
        let populated = memory.populate_object(object, offset & !(PAGE - 1), pages(end));
        let done = populated.as_ref().map_or(0, |done| (*done).min(end));
        let done = if done > offset { done } else { 0 };
        if done < end && end > old {
            self.resize_object(ino, old.max(done))?;
        }
        populated?;
        match done {
            0 => Err(Errno::ENOSPC),
            done => Ok(done),
        }
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
        self.make_object(ino)?;
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
        self.make_object(ino)?;
        let (_, object, memory) = self.object(ino)?;
        memory.read_object(object, offset, data)
    }

    /// `fallocate`. `EOPNOTSUPP`: that is not done with files that do not survive, of which the holes stay holes.
    pub fn allocate_range(
        &mut self,
        ino: Ino,
        how: Allocation,
        (offset, bytes): (u64, u64),
        writer: Writer,
    ) -> Result<(), Refusal> {
        let end = offset.checked_add(bytes).ok_or(Errno::EFBIG)?;
        if end > SIZE_MAX {
            return Err(Errno::EFBIG.into());
        }
        let old = self.look(ino)?.0;
        let grows = matches!(how, Allocation::Extend | Allocation::Zero) && end > old;
        if grows && end > writer.limit {
            return Err(Refusal::Limit);
        }
        match how {
            _ if !self.is_stored(ino) => match how {
                Allocation::Extend if grows => return self.resize(ino, end, writer),
                Allocation::Extend | Allocation::Keep => return Ok(()),
                Allocation::Punch | Allocation::Zero => return Err(Errno::EOPNOTSUPP.into()),
            },
            // There are no pages behind the end.
            Allocation::Keep if end > pages(old) => return Err(Errno::EOPNOTSUPP.into()),
            Allocation::Punch => self.punch(ino, offset, end.min(old))?,
            Allocation::Zero => {
                self.punch(ino, offset, end.min(old))?;
                self.fill(ino, offset, end)?;
            }
            Allocation::Extend => self.fill(ino, offset, end)?,
            Allocation::Keep => self.fill(ino, offset, end.min(old))?,
        }
        self.names.written(ino, writer.cred, writer.now)?;
        Ok(())
    }

    /// Makes all pages that are missing, or leaves the file as large as it was.
    fn fill(&mut self, ino: Ino, offset: u64, end: u64) -> Result<(), Errno> {
        if offset >= end {
            return Ok(());
        }
        let old = self.look(ino)?.0;
        match self.extend(ino, offset, end) {
            Ok(done) if done >= end => Ok(()),
            failed => {
                self.resize_object(ino, old)?;
                failed.and(Err(Errno::ENOSPC))
            }
        }
    }

    fn punch(&mut self, ino: Ino, from: u64, to: u64) -> Result<(), Errno> {
        if from >= to {
            return Ok(());
        }
        self.make_object(ino)?;
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
        let Some(stored) = file.stored.as_ref().filter(|stored| stored.number.is_some()) else {
            return Ok(());
        };
        let is_atomic = stored.is_atomic;
        if !is_atomic && from >= to {
            return Ok(());
        }
        self.make_object(ino)?;
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
        if !self.is_stored(ino) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.make_object(ino)?;
        let (_, object, memory) = self.object(ino)?;
        match is_atomic {
            true => memory.commit_object(object)?,
            false => memory.release_object(object)?,
        }
        if let Some(stored) = &mut self.file(ino)?.1.stored {
            stored.is_atomic = is_atomic;
        }
        Ok(())
    }

    /// Has a file have what another has, without copying it. What it had is gone; who has either mapped sees what it has now.
    ///
    /// # Errors
    /// `EXDEV`: only one of them survives; `EOPNOTSUPP`: none does; `EINVAL`: they are one file.
    pub fn clone_contents(&mut self, from: Ino, to: Ino, writer: Writer) -> Result<(), Refusal> {
        let size = self.look(from)?.0;
        let old = self.look(to)?.0;
        match (self.is_stored(from), self.is_stored(to)) {
            (true, true) => {}
            (false, false) => return Err(Errno::EOPNOTSUPP.into()),
            _ => return Err(Errno::EXDEV.into()),
        }
        if from == to {
            return Err(Errno::EINVAL.into());
        }
        if size > writer.limit.max(old) {
            return Err(Refusal::Limit);
        }
        self.make_object(from)?;
        let (_, object, memory) = self.object(from)?;
        let (number, object) = memory.clone_object(object)?;
        if let Err(error) = self.names.set_content(to, number) {
            self.memory.destroy_object(number, Some(object));
            return Err(error.into());
        }
        let most = M::most(&object);
        let (place, file) = self.file(to)?;
        *place = size;
        let new = Stored { number: Some(number), object: Some(object), most, is_atomic: false };
        if let Some(Stored { number: Some(number), object, .. }) = file.stored.replace(new) {
            self.memory.destroy_object(number, object);
        }
        self.renew_layout(to)?;
        self.names.written(to, writer.cred, writer.now)?;
        Ok(())
    }
}
