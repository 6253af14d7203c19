//! What the library keeps of descriptions that no other process holds.
//!
//! Offset and flags belong to the description, in `unixd`, since processes may share it. But whoever
//! holds one can be no other than this process, or one that was forked since it was opened: until then
//! the library may keep both, and needs not ask. Before a fork, and before a native program takes over, it
//! gives back what it knows better ([`share_all`]).

use super::glance::{self, Start};
use super::{Fds, File};
use crate::errno::{Errno, Result};
use crate::process::Io;
use crate::server::{self, op};
use unixproto::files::{O_APPEND, SEEK_CUR, SEEK_SET};

/// What is kept of one file.
#[derive(Clone, Copy, Default)]
pub struct Alone {
    /// How often the process had shared its files when this one was opened.
    since: u32,
    /// Status flags.
    flags: Option<u32>,
    /// The offset; `unixd` may have another one. Mostly it is [elsewhere](glance::kept).
    offset: Option<u64>,
    /// That of `unixd`, if it is known.
    told: Option<u64>,
    /// `F_SETFL` has it append.
    appends: bool,
}

impl Fds {
    /// Marks a file as one that this process has opened.
    pub(super) fn opened_alone(&mut self) -> Alone {
        self.has_own = true;
        Alone { since: self.sharings, offset: Some(0), told: Some(0), ..Alone::default() }
    }

    /// Is a file as it was when this process opened it, for `unixd`: nobody else has it, and its offset is still there?
    pub(super) fn is_untouched(&self, file: &File) -> bool {
        file.alone.since == self.sharings && file.alone.told == Some(0)
    }

    fn alone(&mut self, index: u32) -> Option<&mut Alone> {
        let sharings = self.sharings;
        let file = self.files.get_mut(index)?.as_mut()?;
        (file.alone.since == sharings).then_some(&mut file.alone)
    }

    /// The status flags, if they are known.
    pub fn known_flags(&mut self, index: u32) -> Option<u32> {
        self.alone(index)?.flags
    }

    /// These are the status flags now; `None`: they have changed.
    pub fn keep_flags(&mut self, index: u32, flags: Option<u32>) {
        if let Some(alone) = self.alone(index) {
            alone.flags = flags;
        }
    }

    /// The status flags are set to these: who reads them next asks.
    pub fn flags_are_set(&mut self, index: u32, flags: u32) {
        if let Some(alone) = self.alone(index) {
            (alone.flags, alone.appends) = (None, flags & O_APPEND != 0);
        }
    }

    /// The offset, if the library keeps it.
    pub fn kept_offset(&mut self, index: u32) -> Option<Start> {
        let alone = self.alone(index)?;
        let seen = glance::kept(index).and_then(|place| place.get());
        seen.map(Start::Seen).or(alone.offset.map(Start::At))
    }

    /// The same, of a file that does not append: no thread moves it without the lock until it is [kept](Self::keep_offset) again.
    pub fn hold_offset(&mut self, index: u32) -> Option<u64> {
        let alone = self.alone(index).filter(|alone| !alone.appends)?;
        let seen = glance::kept(index).and_then(|place| place.set(None));
        if let Some(seen) = seen {
            alone.offset = Some(seen.offset());
        }
        alone.offset
    }

    /// The offset is here now.
    pub fn keep_offset(&mut self, index: u32, offset: u64) {
        if let Some(alone) = self.alone(index) {
            let place = glance::kept(index).filter(|_| offset <= ::glance::MOST);
            alone.offset = if place.is_some() { None } else { Some(offset) };
            if let Some(place) = glance::kept(index) {
                place.set(alone.offset.is_none().then_some(offset));
            }
        }
    }

    /// A file has come to a place: its offset, too.
    pub(super) fn begin_offset(&mut self, index: u32) {
        let Some(place) = glance::kept(index) else { return };
        let offset = self.alone(index).and_then(|alone| alone.offset.take());
        place.begin(offset);
    }

    /// No file is there any more.
    pub(super) fn end_offset(index: u32) {
        if let Some(place) = glance::kept(index) {
            place.begin(None);
        }
    }
}

/// Moves the offset of a regular file.
pub fn seek(fds: &mut Fds, index: u32, desc: u32, offset: i64, whence: u32) -> Result<u64> {
    let kept = fds.kept_offset(index);
    let new = match (whence, kept) {
        (SEEK_SET, _) if fds.alone(index).is_some() => offset,
        (SEEK_CUR, Some(start)) => {
            let to = |at: u64| (at as i64).checked_add(offset).and_then(|to| to.try_into().ok());
            return glance::seek(fds, index, start, |at| to(at).ok_or(Errno::EINVAL));
        }
        _ => {
            give_back(fds, index, desc);
            let new = server::call(op::Seek { desc, offset, whence })?.offset;
            fds.keep_offset(index, new);
            if let Some(alone) = fds.alone(index) {
                alone.told = Some(new);
            }
            return Ok(new);
        }
    };
    let new = u64::try_from(new).map_err(|_| Errno::EINVAL)?;
    fds.keep_offset(index, new);
    Ok(new)
}

/// `unixd` has the offset of a file from now on.
pub fn give_back(fds: &mut Fds, index: u32, desc: u32) {
    let Some(alone) = fds.alone(index) else { return };
    let told = alone.told.take();
    let seen = glance::kept(index).and_then(|place| place.set(None));
    let offset = seen.map(|seen| seen.offset()).or(alone.offset.take());
    if let Some(offset) = offset.filter(|offset| told != Some(*offset)) {
        // The description is held and regular, and the offset was checked: nothing can go wrong.
        let _ = server::call(op::Seek { desc, offset: offset as i64, whence: SEEK_SET });
    }
}

/// Other processes may hold all files from now on.
///
/// # Errors
///
/// One of them cannot be shared: nobody may be given any.
pub fn share_all(io: &mut Io) -> Result<()> {
    if io.fds.has_own {
        share_each(io)?;
        io.fds.has_own = false;
    }
    io.fds.kept.forget_all();
    io.fds.sharings = io.fds.sharings.wrapping_add(1);
    Ok(())
}

#[cold]
fn share_each(io: &mut Io) -> Result<()> {
    for index in 0.. {
        match io.fds.files.get(index) {
            Some(Some(_)) => Fds::share(io, index)?,
            Some(None) => {}
            None => break,
        }
    }
    Ok(())
}
