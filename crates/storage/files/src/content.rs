//! Contents of files: extents, each a piece of memory; or an [object](crate::object).

use crate::object::Stored;
use crate::{Files, Memory, PAGE};
use memfs::{Cred, Extent, Extents, Ino, Node, SIZE_MAX};
use unixproto::ops::Part;
use unixproto::Errno;

/// Largest piece that a file grows by.
const GROW_MAX: u64 = 1 << 20;
/// Most bytes that a file gets at once because a page of it is written through a mapping.
const MAPPED_MAX: u64 = 1 << 20;
/// Most bytes that one [`Files::begin_write`] grants.
pub const GRANT_MAX: u64 = 4 << 20;
/// Nanoseconds after which a read is noted though no change came since the last one.
const DAY_NS: i64 = 86_400_000_000_000;

/// The contents of a file made of such memory.
pub type Contents<M> = Content<<M as Memory>::Frame, <M as Memory>::Object>;

/// The contents of a file.
pub struct Content<F, O> {
    /// Where its bytes are, unless they are in an object.
    extents: Extents<F>,
    /// What has its bytes, if that survives.
    pub(crate) stored: Option<Stored<O>>,
    /// Changes whenever extents are replaced.
    layout: u32,
    /// Where it lies in the boot archive (offset and bytes), until it is changed.
    boot: Option<(u64, u64)>,
    /// Descriptions that are writable.
    writers: u32,
    /// Descriptions through which it is executed.
    texts: u32,
}

impl<F, O> Default for Content<F, O> {
    fn default() -> Self {
        let extents = Extents::default();
        Content { extents, stored: None, layout: 0, boot: None, writers: 0, texts: 0 }
    }
}

impl<F, O> Content<F, O> {
    /// A part of the boot archive.
    pub(crate) fn archived(offset: u64, bytes: u64) -> Self {
        Content { boot: (bytes > 0).then_some((offset, bytes)), ..Content::default() }
    }
    /// Bytes of memory that a file of `size` bytes takes, as `st_blocks` shows them.
    pub fn allocated(&self, size: u64) -> u64 {
        match self.boot {
            Some((_, bytes)) => pages(bytes),
            None if self.stored.is_some() => pages(size),
            None => self.extents.allocated().min(pages(size)),
        }
    }
    /// Bytes of memory in all, behind the end too; none of an object's.
    pub fn taken(&self) -> u64 {
        self.extents.allocated()
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
    #[cold]
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
#[derive(Clone, Copy, Debug)]
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
    /// Nothing: it is a hole.
    Hole,
    /// A piece of memory.
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

    /// Gives a file a layout number that it has never had.
    pub(crate) fn renew_layout(&mut self, ino: Ino) -> Result<(), Errno> {
        let layout = self.new_layout();
        self.file(ino)?.1.layout = layout;
        Ok(())
    }

    /// Makes the extents of a file that lies in the boot archive: its whole pages as they lie, and
    /// a copy of the rest, since what follows it in the archive must not show behind its end.
    fn materialise(&mut self, ino: Ino, user: u32) -> Result<(), Errno> {
        let (_, file) = self.file(ino)?;
        let Some((offset, bytes)) = file.boot else { return Ok(()) };
        let there = file.extents.end();
        if there >= bytes {
            return Ok(());
        }
        let whole = bytes & !(PAGE - 1);
        // The rest alone is missing if there was no memory for it the last time.
        if there < whole {
            let handle = self.memory.archived(offset, whole)?;
            let extent = Extent { start: 0, bytes: whole, writable: false, handle };
            self.file(ino)?.1.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        if bytes > whole {
            let handle = self.copy_of_archive(offset + whole, bytes - whole, user)?;
            let extent = Extent { start: whole, bytes: PAGE, writable: false, handle };
            self.file(ino)?.1.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        Ok(())
    }

    /// Memory with a copy of a part of the archive.
    fn copy_of_archive(&mut self, offset: u64, bytes: u64, user: u32) -> Result<M::Frame, Errno> {
        let frame = self.memory.allocate(pages(bytes), user)?;
        self.memory.copy_archived(offset, bytes, &frame)?;
        Ok(frame)
    }

    /// Gives a file of the archive memory of its own.
    fn own(&mut self, ino: Ino, user: u32) -> Result<(), Errno> {
        let (size, file) = self.file(ino)?;
        let Some((offset, bytes)) = file.boot else { return Ok(()) };
        let keep = bytes.min(*size);
        let copy = match keep {
            0 => None,
            _ => Some(self.copy_of_archive(offset, keep, user)?),
        };
        self.revoke_behind(ino, 0)?;
        let layout = self.new_layout();
        let (_, file) = self.file(ino)?;
        file.boot = None;
        file.extents.truncate(0);
        file.layout = layout;
        if let Some(handle) = copy {
            let extent = Extent { start: 0, bytes: pages(keep), writable: true, handle };
            file.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
        }
        Ok(())
    }

    /// Allocates what is missing in `[start, end)`. Returns how far it came, if it came anywhere.
    fn allocate(&mut self, ino: Ino, start: u64, end: u64, user: u32) -> Result<u64, Errno> {
        let mut at = start;
        while at < end {
            let (size, file) = self.file(ino)?;
            let size = *size;
            let (hole_start, hole_end) = match file.extents.find(at) {
                Ok(extent) => {
                    at = extent.end();
                    continue;
                }
                Err(hole) => hole,
            };
            let first = (at & !(PAGE - 1)).max(hole_start);
            let needed = pages(end).min(hole_end) - first;
            let generous = size.next_power_of_two().clamp(PAGE, GROW_MAX);
            let appending = hole_end > SIZE_MAX && first >= size & !(PAGE - 1);
            let mut bytes = needed.min(GROW_MAX);
            if appending {
                bytes = bytes.max(generous).min(hole_end - first);
            }
            let Some(handle) = self.some_memory(&mut bytes, user)? else {
                return if at > start { Ok(at) } else { Err(Errno::ENOSPC) };
            };
            let (_, file) = self.file(ino)?;
            let extent = Extent { start: first, bytes, writable: true, handle };
            file.extents.insert(extent).map_err(|_| Errno::ENOSPC)?;
            at = first + bytes;
        }
        Ok(end)
    }

    /// Memory for a user's file of `bytes`, or of half of it, and so on. None if there is not even a page.
    fn some_memory(&mut self, bytes: &mut u64, user: u32) -> Result<Option<M::Frame>, Errno> {
        loop {
            match self.memory.allocate(*bytes, user) {
                Err(Errno::ENOSPC) if *bytes > PAGE => *bytes = pages(*bytes / 2),
                Err(Errno::ENOSPC) => return Ok(None),
                result => return result.map(Some),
            }
        }
    }

    /// Allocates a page that is to be written through a mapping, unless it is there, and as many of
    /// its neighbours as the file has pages already: a mapping that is filled gets few extents, one
    /// that is touched here and there at most twice the memory that it needs.
    fn allocate_around(&mut self, ino: Ino, page: u64, user: u32) -> Result<(), Errno> {
        let (size, file) = self.file(ino)?;
        if file.extents.find(page).is_ok() {
            return Ok(());
        }
        let end = pages(*size).max(page + PAGE);
        let window = (2 * file.extents.allocated()).next_power_of_two().clamp(PAGE, MAPPED_MAX);
        let start = page & !(window - 1);
        // Not all of that need be there; the page itself must.
        match self.allocate(ino, start, end.min(start + window), user) {
            Ok(end) if end > page => Ok(()),
            _ => self.allocate(ino, page, page + PAGE, user).map(|_| ()),
        }
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
        let inode = self.names.get_mut(ino)?;
        let bytes = bytes.min(inode.size().saturating_sub(offset));
        // As `relatime` has it: only when a change came since, or a day.
        if inode.atime <= inode.mtime || inode.atime + DAY_NS < now {
            inode.atime = now;
        }
        let (_, file) = self.file(ino)?;
        Ok(Part { inode: ino.0 as u64, layout: file.layout, offset, bytes })
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
        let bytes = wanted.min(GRANT_MAX).min(SIZE_MAX - offset);
        let bytes = bytes.min(writer.limit.saturating_sub(offset));
        if bytes == 0 && wanted > 0 {
            return Err(Refusal::Limit);
        }
        let user = writer.cred.uid;
        self.own(ino, user)?;
        let end = match bytes {
            0 => offset,
            _ if self.is_stored(ino) => self.extend(ino, offset, offset + bytes)?,
            _ => self.allocate(ino, offset, offset + bytes, user)?,
        };
        self.names.written(ino, writer.cred, writer.now)?;
        let (size, file) = self.file(ino)?;
        if end > offset {
            *size = (*size).max(end);
        }
        Ok(Part { inode: ino.0 as u64, layout: file.layout, offset, bytes: end - offset })
    }

    /// Copies bytes to a file that has room for them.
    pub fn store(&mut self, ino: Ino, mut offset: u64, mut data: &[u8]) -> Result<(), Errno> {
        if self.is_stored(ino) {
            return self.store_in_object(ino, offset, data);
        }
        let Node::File { content, .. } = &self.names.get(ino)?.node else {
            return Err(Errno::EINVAL);
        };
        while !data.is_empty() {
            let extent = content.extents.find(offset).map_err(|_| Errno::EIO)?;
            let inside = offset - extent.start;
            let bytes = (data.len() as u64).min(extent.bytes - inside);
            let (part, rest) = data.split_at(bytes as usize);
            self.memory.write(&extent.handle, inside, part)?;
            (offset, data) = (offset + bytes, rest);
        }
        Ok(())
    }

    /// The first bytes at or behind `offset` that there is memory for, `[from, to)`, up to the size; all others are
    /// zeros. `None`: there are no more.
    pub fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<(u64, u64)>, Errno> {
        self.materialise(ino, Cred::ROOT.uid)?;
        let (size, file) = self.look(ino)?;
        if file.stored.is_some() {
            return Ok((offset < size).then_some((offset, size)));
        }
        let (mut from, mut found) = (offset, file.extents.find(offset));
        if let Err((_, end)) = found {
            (from, found) = (end, file.extents.find(end));
        }
        let to = found.map_or(0, |extent| extent.end().min(size));
        Ok((from < to).then_some((from, to)))
    }

    /// Copies bytes of a file, of those that [`Files::next_data`] names.
    pub fn load(&mut self, ino: Ino, mut offset: u64, mut data: &mut [u8]) -> Result<(), Errno> {
        if self.is_stored(ino) {
            return self.load_from_object(ino, offset, data);
        }
        let Node::File { content, .. } = &self.names.get(ino)?.node else {
            return Err(Errno::EINVAL);
        };
        while !data.is_empty() {
            let extent = content.extents.find(offset).map_err(|_| Errno::EIO)?;
            let inside = offset - extent.start;
            let bytes = (data.len() as u64).min(extent.bytes - inside);
            let (part, rest) = data.split_at_mut(bytes as usize);
            self.memory.read(&extent.handle, inside, part)?;
            (offset, data) = (offset + bytes, rest);
        }
        Ok(())
    }

    /// Copies bytes of a file that lie before its end, also such as there is no memory for.
    pub fn load_all(&mut self, ino: Ino, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let (mut at, end) = (offset, offset + data.len() as u64);
        while at < end {
            let found = self.next_data(ino, at)?.filter(|(from, _)| *from < end);
            let (from, to) = found.map_or((end, end), |(from, to)| (from, to.min(end)));
            let place = |at: u64| (at - offset) as usize;
            data[place(at)..place(from)].fill(0);
            self.load(ino, from, &mut data[place(from)..place(to)])?;
            at = to;
        }
        Ok(())
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
        let found = file.extents.find(offset).ok().filter(|_| !write || file.boot.is_none());
        Ok(found.map(|extent| file.piece(size, extent)))
    }

    /// Makes what is missing to map the part of a file around `offset`: for writing memory, for reading
    /// only what it is that lies in the boot archive.
    pub fn make_piece(
        &mut self,
        ino: Ino,
        offset: u64,
        write: bool,
        user: u32,
    ) -> Result<(), Errno> {
        if self.is_stored(ino) {
            return self.make_object(ino);
        }
        if !write {
            return self.materialise(ino, user);
        }
        self.own(ino, user)?;
        self.allocate_around(ino, offset & !(PAGE - 1), user)
    }

    /// The part of a file around `offset`, or the hole there.
    pub fn piece(&self, ino: Ino, offset: u64) -> Result<PieceOf<'_, M>, Errno> {
        let (size, file) = self.look(ino)?;
        if file.stored.is_some() {
            return file.whole(size).ok_or(Errno::EIO);
        }
        Ok(match file.extents.find(offset) {
            Err((start, end)) => {
                let bytes = end.min(pages(size)) - start;
                Piece { layout: file.layout, start, bytes, size, backing: Backing::Hole }
            }
            Ok(extent) => file.piece(size, extent),
        })
    }

    /// Sets the size of a file.
    pub fn resize(&mut self, ino: Ino, new: u64, writer: Writer) -> Result<(), Refusal> {
        if new > SIZE_MAX {
            return Err(too_far(new).into());
        }
        let old = *self.file(ino)?.0;
        if new > writer.limit.max(old) {
            return Err(Refusal::Limit);
        }
        if self.is_stored(ino) {
            self.resize_object(ino, new)?;
        } else if new == 0 {
            self.revoke_behind(ino, 0)?;
            let (_, file) = self.file(ino)?;
            file.boot = None;
            file.extents.truncate(0);
            self.renew_layout(ino)?;
        } else if new < old {
            self.own(ino, writer.cred.uid)?;
            self.cut(ino, new, old)?;
        }
        *self.file(ino)?.0 = new;
        self.names.get_mut(ino)?.modified(writer.now);
        Ok(())
    }

    /// Takes the memory of all pages that begin at or behind `end` away from everybody, with what shares a piece
    /// with it. Returns `true` if there was any.
    fn revoke_behind(&mut self, ino: Ino, end: u64) -> Result<bool, Errno> {
        let Node::File { content, .. } = &self.names.get(ino)?.node else { return Ok(false) };
        let behind = content.extents.iter().filter(|extent| extent.end() > pages(end));
        let mut any = false;
        for extent in behind {
            self.memory.revoke(&extent.handle)?;
            any = true;
        }
        Ok(any)
    }

    /// Drops extents behind a new end, and clears what is left of the last one behind it.
    fn cut(&mut self, ino: Ino, new: u64, old: u64) -> Result<(), Errno> {
        // Within a page, nothing goes away.
        let is_revoked = pages(new) < pages(old) && self.revoke_behind(ino, new)?;
        let layout = self.new_layout();
        let (_, file) = self.file(ino)?;
        if file.extents.truncate(new) || is_revoked {
            file.layout = layout;
        }
        let Node::File { content, .. } = &self.names.get(ino)?.node else { return Ok(()) };
        let Ok(extent) = content.extents.find(new) else { return Ok(()) };
        let (start, end) = (extent.start, extent.end().min(pages(old)));
        self.memory.clear(&extent.handle, new - start, end - start)
    }
}

/// What an offset or a size is answered that no file has.
fn too_far(offset: u64) -> Errno {
    match offset > i64::MAX as u64 {
        true => Errno::EINVAL,
        false => Errno::EFBIG,
    }
}
