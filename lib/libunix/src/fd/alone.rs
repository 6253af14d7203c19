//! What the library keeps of descriptions that no other process holds.
//!
//! Offset and flags belong to the description, in `unixd`, since processes may share it. But whoever
//! holds one can be no other than this process, or one that was forked since it was opened: until then
//! the library may keep both, and needs not ask. Before a fork, and before a native program takes over, it
//! gives back what it knows better ([`share_all`]).

use super::{Fds, Object};
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::server::{self, op};
use unixproto::files::{Kind, SEEK_CUR, SEEK_SET};

/// What is kept of one file.
#[derive(Clone, Copy, Default)]
pub struct Alone {
    /// How often the process had shared its files when this one was opened.
    since: u32,
    /// Status flags.
    flags: Option<u32>,
    /// The offset; `unixd` may have another one.
    offset: Option<u64>,
}

impl Fds {
    /// Marks a file as one that this process has opened.
    pub(super) fn opened_alone(&self) -> Alone {
        Alone { since: self.sharings, flags: None, offset: None }
    }

    fn alone(&mut self, fd: i32) -> Option<&mut Alone> {
        let sharings = self.sharings;
        let file = self.get_mut(fd).ok()?;
        (file.alone.since == sharings).then_some(&mut file.alone)
    }

    /// The status flags, if they are known.
    pub fn known_flags(&mut self, fd: i32) -> Option<u32> {
        self.alone(fd)?.flags
    }

    /// These are the status flags now; `None`: they have changed.
    pub fn keep_flags(&mut self, fd: i32, flags: Option<u32>) {
        if let Some(alone) = self.alone(fd) {
            alone.flags = flags;
        }
    }

    /// The offset, if the library keeps it.
    pub fn kept_offset(&mut self, fd: i32) -> Option<u64> {
        self.alone(fd)?.offset
    }

    /// The offset is here now.
    pub fn keep_offset(&mut self, fd: i32, offset: u64) {
        if let Some(alone) = self.alone(fd) {
            alone.offset = Some(offset);
        }
    }
}

/// Moves the offset of a regular file.
pub fn seek(p: &mut Process, fd: i32, desc: u32, offset: i64, whence: u32) -> Result<u64> {
    let kept = p.fds.kept_offset(fd);
    let new = match (whence, kept) {
        (SEEK_SET, _) if p.fds.alone(fd).is_some() => offset,
        (SEEK_CUR, Some(at)) => (at as i64).checked_add(offset).ok_or(Errno::EINVAL)?,
        _ => {
            give_back(p, fd);
            let new = server::call(op::Seek { desc, offset, whence })?.offset;
            p.fds.keep_offset(fd, new);
            return Ok(new);
        }
    };
    let new = u64::try_from(new).map_err(|_| Errno::EINVAL)?;
    p.fds.keep_offset(fd, new);
    Ok(new)
}

/// `unixd` has the offset of a file from now on.
pub fn give_back(p: &mut Process, fd: i32) {
    let offset = p.fds.alone(fd).and_then(|alone| alone.offset.take());
    if let (Some(offset), Ok(Object::Description { desc, .. })) =
        (offset, p.fds.get(fd).map(|file| &file.object))
    {
        tell(*desc, offset);
    }
}

fn tell(desc: u32, offset: u64) {
    // The description is held and regular, and the offset was checked: nothing can go wrong.
    let _ = server::call(op::Seek { desc, offset: offset as i64, whence: SEEK_SET });
}

/// Other processes may hold all descriptions from now on.
pub fn share_all(p: &mut Process) {
    let sharings = p.fds.sharings;
    for file in p.fds.files.iter_mut().flatten() {
        let Object::Description { desc, kind: Kind::Regular, .. } = file.object else { continue };
        if let (true, Some(offset)) = (file.alone.since == sharings, file.alone.offset.take()) {
            tell(desc, offset);
        }
    }
    p.fds.sharings = sharings.wrapping_add(1);
}
