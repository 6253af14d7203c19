//! Files whose text the library knows best: `/proc/self/maps`. Opening one takes a snapshot, which stays in
//! the library. A forked child has a copy with an offset of its own.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server};
use crate::fd::{install, Fds, File};
use crate::mm;
use crate::process::Io;
use crate::server::header;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::{O_ACCMODE, O_CLOEXEC, O_DIRECTORY, O_PATH, O_RDONLY, SEEK_CUR, SEEK_SET};

/// The text of an open file.
#[derive(Clone)]
pub struct OwnMaps(Rc<Snapshot>);

struct Snapshot {
    text: String,
    offset: Cell<u64>,
}

/// Is it the map of this process, by either name, to be read?
pub fn is_own_maps(path: &[u8], flags: u32) -> bool {
    let file = path.strip_prefix(b"/proc/").and_then(|rest| rest.strip_suffix(b"/maps"));
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse().ok();
    flags & (O_ACCMODE | O_PATH | O_DIRECTORY) == O_RDONLY
        && file.is_some_and(|who| who == b"self" || number(who) == Some(header().pid.load(Relaxed)))
}

/// Opens the memory map of this process as it is now.
pub fn open_own_maps(io: &mut Io, flags: u32) -> Result<u64> {
    let text = Snapshot { text: mm::maps_text(&mut io.mm)?, offset: Cell::new(0) };
    let file = File::new(OwnMaps(Rc::new(text)), O_RDONLY);
    Ok(install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

impl FileOps for OwnMaps {
    const POSITIONED: bool = true;

    fn server(&self) -> Server {
        Server::Library
    }
    fn read(&self, io: &mut Io, _: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        let Snapshot { text, offset } = &*self.0;
        let start = usize::try_from(at.unwrap_or(offset.get())).unwrap_or(usize::MAX);
        let rest = text.as_bytes().get(start..).unwrap_or_default();
        let piece = &rest[..rest.len().min(to.left() as usize)];
        let done = to.scatter(&mut io.mm, piece).some()? as u64;
        if at.is_none() {
            offset.set(offset.get() + done);
        }
        Ok(done)
    }
    /// By its end no such text is known.
    fn seek(&self, _fds: &mut Fds, _: Handle, by: i64, whence: u32) -> Result<u64> {
        let offset = &self.0.offset;
        let new = match whence {
            SEEK_SET => Some(by),
            SEEK_CUR => (offset.get() as i64).checked_add(by),
            _ => None,
        };
        let new = new.and_then(|new| u64::try_from(new).ok()).ok_or(Errno::EINVAL)?;
        offset.set(new);
        Ok(new)
    }
    fn stat(&self) -> Result<()> {
        unnamed_stat(0o100444);
        Ok(())
    }
}
