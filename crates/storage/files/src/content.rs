//! Contents of files: an [object](crate::object); or, of a file of the boot archive that was not changed, what lies there.

use crate::object::Stored;
use crate::{Files, Memory, PAGE};
use memfs::{Cred, Extent, Extents, Ino, Node, SIZE_MAX};
use unixproto::ops::Part;
use unixproto::Errno;

/// Most bytes that one [`Files::begin_write`] grants.
pub const GRANT_MAX: u64 = 4 << 20;
/// Nanoseconds after which a read is noted though no change came since the last one.
const DAY_NS: i64 = 86_400_000_000_000;

/// The contents of a file made of such memory.
pub type Contents<M> = Content<<M as Memory>::Frame, <M as Memory>::Object>;

/// The contents of a file.
pub struct Content<F, O> {
    /// What has its bytes, unless it is as in the boot archive.
    pub(crate) stored: Option<Stored<O>>,
    /// What of the boot archive was asked for.
    extents: Extents<F>,
    /// Where it lies in the boot archive (offset and bytes), until it is changed.
    pub(crate) boot: Option<(u64, u64)>,
    /// Its size is a multiple of so many bytes, and nobody writes it but through mappings, if that is more than a page.
    grain: u64,
    /// Changes whenever what was mapped is replaced.
    layout: u32,
    /// Descriptions that are writable.
    writers: u32,
    /// Descriptions through which it is executed.
    texts: u32,
}

impl<F, O> Default for Content<F, O> {
    fn default() -> Self {
        Content::volatile()
    }
}

impl<F, O> Content<F, O> {
    pub(crate) fn of(stored: Stored<O>) -> Self {
        let extents = Extents::default();
        let stored = Some(stored);
        Content { stored, extents, boot: None, grain: PAGE, layout: 0, writers: 0, texts: 0 }
    }
    /// A part of the boot archive.
    pub(crate) fn archived(offset: u64, bytes: u64) -> Self {
        let empty = Content::volatile();
        match bytes {
            0 => empty,
            _ => Content { stored: None, boot: Some((offset, bytes)), ..empty },
        }
    }
    /// Descriptions that are writable.
    pub fn writers(&self) -> u32 {
        self.writers
    }
    /// Descriptions through which it is executed.
    pub fn texts(&self) -> u32 {
        self.texts
    }
    #[inline]
    fn piece<'a>(&self, size: u64, extent: &'a Extent<F>) -> Piece<'a, F, O> {
        let &Extent { start, bytes, ref handle, .. } = extent;
        Piece { layout: self.layout, start, bytes, size, backing: Backing::Frame(handle) }
    }
    /// The whole object, if it is at hand.
    #[inline]
    fn whole(&self, size: u64) -> Option<Piece<'_, F, O>> {
        let stored = self.stored.as_ref()?;
        let backing = Backing::Object(stored.object.as_ref()?);
        let bytes = stored.most();
        Some(Piece { layout: self.layout, start: 0, bytes, size, backing })
    }
    /// All extents, in order.
    pub fn extents(&self) -> &Extents<F> {
        &self.extents
    }
}

/// What a description of a regular file keeps others from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Nothing.
    None,
    /// It is writable: nobody executes the file.
    Writes,
    /// The file is executed: nobody opens it for writing.
    Executes,
}

/// Why a file is not made larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// For its writer's limit, of which that one is to be told.
    Limit,
    /// For another reason.
    Error(Errno),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Refusal {
        Refusal::Error(error)
    }
}

/// Who changes a file.
#[derive(Clone, Debug)]
pub struct Writer {
    /// On whose behalf; new memory is on that user's account.
    pub cred: Cred,
    /// Largest size to which it makes files larger.
    pub limit: u64,
    /// The time, nanoseconds since 1970.
    pub now: i64,
}

/// A part of a file to be mapped.
#[derive(Debug)]
pub struct Piece<'a, F, O> {
    /// Its layout number.
    pub layout: u32,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Size of the file.
    pub size: u64,
    /// The memory.
    pub backing: Backing<'a, F, O>,
}

/// A part of a file made of such memory.
pub type PieceOf<'a, M> = Piece<'a, <M as Memory>::Frame, <M as Memory>::Object>;

/// What a part of a file is made of.
#[derive(Debug)]
pub enum Backing<'a, F, O> {
    /// A part of the boot archive.
    Frame(&'a F),
    /// An object: the part is all that it can have.
    Object(&'a O),
}

pub(crate) fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

impl<M: Memory> Files<M> {
    /// Size and contents of a regular file.
    pub(crate) fn file(&mut self, ino: Ino) -> Result<(&mut u64, &mut Contents<M>), Errno> {
        match &mut self.names.get_mut(ino)?.node {
            Node::File { size, content } => Ok((size, content)),
            Node::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    #[inline(always)]
    pub(crate) fn look(&self, ino: Ino) -> Result<(u64, &Contents<M>), Errno> {
        match &self.names.get(ino)?.node {
            Node::File { size, content } => Ok((*size, content)),
            Node::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The contents of a regular file.
    pub fn content(&self, ino: Ino) -> Result<&Contents<M>, Errno> {
        Ok(self.look(ino)?.1)
    }

    /// Counts a claim to a file.
    pub fn claim(&mut self, ino: Ino, claim: Claim) {
        self.count_claim(ino, claim, 1);
    }

    /// Ends a [`Files::claim`].
    pub fn unclaim(&mut self, ino: Ino, claim: Claim) {
        self.count_claim(ino, claim, -1);
    }

    /// The size of a file that has none yet is a multiple of so many bytes from now on; if they are more than a page, it is written
    /// through mappings only.
    pub fn set_grain(&mut self, ino: Ino, grain: u64) -> Result<(), Errno> {
        self.file(ino)?.1.grain = grain;
        Ok(())
    }

    /// What the size of a file is a multiple of, if that is more than a page, else a page.
    pub fn grain(&self, ino: Ino) -> u64 {
        self.look(ino).map_or(PAGE, |(_, file)| file.grain)
    }

    fn count_claim(&mut self, ino: Ino, claim: Claim, change: i32) {
        let which: fn(&mut Contents<M>) -> &mut u32 = match claim {
            Claim::None => return,
            Claim::Writes => |file| &mut file.writers,
            Claim::Executes => |file| &mut file.texts,
        };
        let Ok((_, file)) = self.file(ino) else { return };
        let count = which(file);
        *count = count.saturating_add_signed(change);
    }

    fn new_layout(&mut self) -> u32 {
        self.layout = self.layout.wrapping_add(1);
        self.layout
    }

    /// Gives a file a layout number if it has none.
    pub(crate) fn number(&mut self, ino: Ino) -> Result<(), Errno> {
        match self.look(ino)?.1.layout {
            0 => self.renew_layout(ino),
            _ => Ok(()),
        }
    }

    /// Gives a file a layout number that it has never had.
    pub(crate) fn renew_layout(&mut self, ino: Ino) -> Result<(), Errno> {
        let layout = self.new_layout();
        self.file(ino)?.1.layout = layout;
        Ok(())
    }

    /// Makes the extents of a file that lies in the boot archive: its pages as they lie, and a copy of the rest, where what
    /// follows it would show behind its end.
    fn materialise(&mut self, ino: Ino, user: u32) -> Result<(), Errno> {
        let (_, file) = self.file(ino)?;
        let Some((offset, bytes)) = file.boot else { return Ok(()) };
        let there = file.extents.end();
        if there >= bytes {
            return Ok(());
        }
        let whole = M::mappable(offset, bytes);
        // The rest alone is missing if there was no memory for it the last time.
        if there < whole {
            let handle = self.memory.archived(offset, whole)?;
            let extent = Extent { start: 0, bytes: whole, writable: false, handle };
            self.file(ino)?.1.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        if bytes > whole {
            let handle = self.memory.archived_end(offset + whole, bytes - whole, user)?;
            let extent = Extent { start: whole, bytes: PAGE, writable: false, handle };
            self.file(ino)?.1.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        Ok(())
    }

    /// Gives a file of the archive an object of its own, which has at most its first `keep` bytes.
    #[inline]
    pub(crate) fn own(&mut self, ino: Ino, keep: u64, user: u32) -> Result<(), Errno> {
        match self.look(ino)?.1.boot {
            None => Ok(()),
            Some(place) => self.own_copy(ino, place, keep, user),
        }
    }

    fn own_copy(
        &mut self,
        ino: Ino,
        (offset, bytes): (u64, u64),
        keep: u64,
        user: u32,
    ) -> Result<(), Errno> {
        let keep = keep.min(bytes);
        let mut stored = Content::<M::Frame, M::Object>::volatile().stored;
        if let (Some(stored), 1..) = (&mut stored, keep) {
            let mut object = self.memory.make_object(keep, keep, user)?;
            if self.memory.populate_object(&mut object, (0, pages(keep)), user)? < keep {
                return Err(Errno::ENOSPC);
            }
            self.memory.copy_archived(offset, keep, &object)?;
            let most = M::most(&object);
            stored.set_object(object, most);
        }
        let Node::File { content, .. } = &self.names.get(ino)?.node else {
            return Err(Errno::EINVAL);
        };
        for extent in content.extents.iter() {
            self.memory.revoke(&extent.handle)?;
        }
        let layout = self.new_layout();
        let (size, file) = self.file(ino)?;
        *size = keep;
        (file.boot, file.layout, file.stored) = (None, layout, stored);
        file.extents.truncate(0);
        Ok(())
    }

    /// What may be read from `offset` on, up to `bytes`.
    pub fn begin_read(
        &mut self,
        ino: Ino,
        offset: u64,
        bytes: u64,
        now: i64,
    ) -> Result<Part, Errno> {
        if offset > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let inode = self.names.get(ino)?;
        // As `relatime` has it: only when a change came since, or a day.
        let is_due = inode.atime <= inode.mtime || inode.atime + DAY_NS < now;
        if is_due && inode.changeable().is_ok() {
            self.names.get_mut(ino)?.atime = now;
        }
        let (size, file) = self.look(ino)?;
        let bytes = bytes.min(size.saturating_sub(offset));
        Ok(Part { inode: ino.0 as u64, layout: file.layout, offset, bytes, tell: false })
    }

    /// Makes room for what is to be written at `offset`, as far as there is any.
    pub fn begin_write(
        &mut self,
        ino: Ino,
        offset: u64,
        wanted: u64,
        writer: Writer,
    ) -> Result<Part, Refusal> {
        if offset > SIZE_MAX {
            return Err(too_far(offset).into());
        }
        if self.look(ino)?.1.grain > PAGE {
            return Err(Errno::EINVAL.into());
        }
        let bytes = wanted.min(GRANT_MAX).min(SIZE_MAX - offset);
        let bytes = bytes.min(writer.limit.saturating_sub(offset));
        if bytes == 0 && wanted > 0 {
            return Err(Refusal::Limit);
        }
        let bytes = bytes.min(self.names.most_in_volume(ino).saturating_sub(offset));
        if bytes == 0 && wanted > 0 {
            return Err(Errno::ENOSPC.into());
        }
        let user = writer.cred.uid;
        self.own(ino, u64::MAX, user)?;
        let end = match bytes {
            0 => Ok(offset),
            _ => self.extend(ino, (offset, offset + bytes), user),
        };
        self.names.charge(ino);
        let end = end?;
        self.names.written(ino, &writer.cred, writer.now)?;
        // It has become as large as that.
        let (inode, layout, bytes) = (ino.0 as u64, self.look(ino)?.1.layout, end - offset);
        Ok(Part { inode, layout, offset, bytes, tell: false })
    }

    /// Copies bytes to a file that has room for them.
    pub fn store(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.store_in_object(ino, offset, data)
    }

    /// The same for who copies them himself.
    pub fn store_by(
        &mut self,
        ino: Ino,
        copies: impl FnOnce(&mut M::Object) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        copies(self.object(ino)?.1)
    }

    /// The first bytes at or behind `offset` that there is memory for, `[from, to)`, up to the size; all others are
    /// zeros. `None`: there are no more.
    pub fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<(u64, u64)>, Errno> {
        let (size, file) = self.look(ino)?;
        if offset >= size {
            return Ok(None);
        }
        if file.boot.is_some() {
            return Ok(Some((offset, size)));
        }
        self.next_of_object(ino, offset)
    }

    /// Copies bytes of a file that lie before its end; where there is no memory for them they are zeros.
    pub fn load(&mut self, ino: Ino, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        match self.look(ino)?.1.boot {
            None => self.load_from_object(ino, offset, data),
            Some((start, _)) => self.memory.read_archived(start + offset, data),
        }
    }

    /// The part of a file around `offset`, if it can be mapped as it is, for reading or also for writing.
    #[inline(always)]
    pub fn present(
        &self,
        ino: Ino,
        offset: u64,
        write: bool,
    ) -> Result<Option<PieceOf<'_, M>>, Errno> {
        let (size, file) = self.look(ino)?;
        if offset >= pages(size) {
            return Err(Errno::ENXIO);
        }
        if file.stored.is_some() {
            return Ok(file.whole(size));
        }
        let found = file.extents.find(offset).ok().filter(|_| !write);
        Ok(found.map(|extent| file.piece(size, extent)))
    }

    /// Makes what is missing to map a file: its object, or for reading only what it is that lies in the boot archive.
    pub fn make_piece(&mut self, ino: Ino, write: bool, user: u32) -> Result<(), Errno> {
        if !write && self.look(ino)?.1.boot.is_some() {
            return self.materialise(ino, user);
        }
        self.own(ino, u64::MAX, user)?;
        self.make_object(ino, user)
    }

    /// The part of a file around `offset`, which was [made](Files::make_piece).
    pub fn piece(&self, ino: Ino, offset: u64) -> Result<PieceOf<'_, M>, Errno> {
        let (size, file) = self.look(ino)?;
        if file.stored.is_some() {
            return file.whole(size).ok_or(Errno::EIO);
        }
        let extent = file.extents.find(offset).map_err(|_| Errno::EIO)?;
        Ok(file.piece(size, extent))
    }

    /// Sets the size of a file.
    pub fn resize(&mut self, ino: Ino, new: u64, writer: Writer) -> Result<(), Refusal> {
        if new > SIZE_MAX {
            return Err(too_far(new).into());
        }
        let (old, file) = self.look(ino)?;
        if file.grain > PAGE && !new.is_multiple_of(file.grain) {
            return Err(Errno::EINVAL.into());
        }
        if new > writer.limit.max(old) {
            return Err(Refusal::Limit);
        }
        if new > old && new > self.names.most_in_volume(ino) {
            return Err(Errno::ENOSPC.into());
        }
        let user = writer.cred.uid;
        if new != old {
            self.own(ino, new, user)?;
        }
        if self.look(ino)?.1.stored.is_some() {
            let resized = self.resize_object(ino, new, user);
            self.names.charge(ino);
            resized?;
        }
        self.names.written(ino, &writer.cred, writer.now)?;
        Ok(())
    }

    /// Makes a file larger that is memory of one process, which may make it larger by up to `ahead` bytes itself from then on. Answers up to which byte: the file
    /// counts as so large.
    pub fn enlarge(
        &mut self,
        ino: Ino,
        (new, ahead): (u64, u64),
        writer: Writer,
    ) -> Result<u64, Refusal> {
        let shown = match self.look(ino)? {
            (size, file) if file.object().is_none() => size,
            _ => self.shown_size(ino)?,
        };
        if new > shown {
            self.resize(ino, new, writer)?;
        }
        Ok(self.allow_more(ino, ahead.min(SIZE_MAX - new.min(SIZE_MAX)))?)
    }
}

/// What an offset or a size is answered that no file has.
fn too_far(offset: u64) -> Errno {
    match offset > i64::MAX as u64 {
        true => Errno::EINVAL,
        false => Errno::EFBIG,
    }
}
