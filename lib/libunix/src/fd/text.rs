//! Files whose text the library knows best: `/proc/self/maps`. Opening one takes a snapshot, which stays in
//! the library. A forked child has a copy with an offset of its own.

use super::buffers::Cursor;
use super::{install, Fds, File, Object};
use crate::errno::{Errno, Result};
use crate::mm;
use crate::process::Process;
use alloc::rc::Rc;
use alloc::string::String;
use unixproto::files::{O_ACCMODE, O_CLOEXEC, O_DIRECTORY, O_PATH, O_RDONLY, SEEK_CUR, SEEK_SET};

/// The text of an open file.
#[derive(Clone)]
pub struct Text {
    text: Rc<String>,
    offset: u64,
}

/// Is it the map of this process, by either name, to be read?
pub fn is_own_maps(p: &Process, path: &[u8], flags: u32) -> bool {
    let file = path.strip_prefix(b"/proc/").and_then(|rest| rest.strip_suffix(b"/maps"));
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse().ok();
    flags & (O_ACCMODE | O_PATH | O_DIRECTORY) == O_RDONLY
        && file.is_some_and(|who| who == b"self" || number(who) == Some(p.pid))
}

/// Opens the memory map of this process as it is now.
pub fn open_own_maps(p: &mut Process, flags: u32) -> Result<u64> {
    let text = Text { text: Rc::new(mm::maps_text(p)?), offset: 0 };
    let file = File::new(Object::Text(text), O_RDONLY);
    Ok(install(p, file, flags & O_CLOEXEC != 0)? as u64)
}

fn text(fds: &mut Fds, fd: i32) -> Result<&mut Text> {
    match &mut fds.get_mut(fd)?.object {
        Object::Text(text) => Ok(text),
        _ => Err(Errno::EBADF),
    }
}

/// Reads at `at` or at the offset, which moves.
pub fn read(p: &mut Process, fd: i32, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
    let Text { text: whole, offset } = text(&mut p.fds, fd)?.clone();
    let start = usize::try_from(at.unwrap_or(offset)).unwrap_or(usize::MAX);
    let rest = whole.as_bytes().get(start..).unwrap_or_default();
    let piece = &rest[..rest.len().min(to.left() as usize)];
    let done = to.scatter(p, piece).some()? as u64;
    if at.is_none() {
        text(&mut p.fds, fd)?.offset = offset + done;
    }
    Ok(done)
}

/// Moves the offset: by its end no such text is known.
pub fn seek(p: &mut Process, fd: i32, offset: i64, whence: u32) -> Result<u64> {
    let text = text(&mut p.fds, fd)?;
    let new = match whence {
        SEEK_SET => Some(offset),
        SEEK_CUR => (text.offset as i64).checked_add(offset),
        _ => None,
    };
    text.offset = new.and_then(|new| u64::try_from(new).ok()).ok_or(Errno::EINVAL)?;
    Ok(text.offset)
}
