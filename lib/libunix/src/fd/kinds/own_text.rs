//! Files of `/proc/self` whose text the library knows best. Opening one takes a snapshot, which stays in
//! the library; `pagemap` is made anew by each read. A forked child has a copy with an offset of its own, and reads its own pages.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server};
use crate::fd::{install, Fds, File};
use crate::mm::{self, scan, usage, Mm};
use crate::process::Io;
use crate::server::header;
use crate::thread::lock;
use crate::trace::memory;
use ::ephemeral::Counters;
use abi::layout::USER_END;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::{O_ACCMODE, O_CLOEXEC, O_DIRECTORY, O_PATH, O_RDONLY, SEEK_CUR, SEEK_SET};
use unixproto::trace::command;
use uvm::{Detail, PAGE};

/// An open file.
#[derive(Clone)]
pub struct OwnText(Rc<Snapshot>);

struct Snapshot {
    text: Made,
    offset: Cell<u64>,
}

/// When a text is made.
enum Made {
    /// When it was opened.
    Once(Vec<u8>),
    /// By each read: a word for each page.
    Pages,
}

/// Bytes of [`Made::Pages`] that are made at a time.
const PIECE: u64 = 16 << 10;
/// A word of `pagemap`.
const WORD: u64 = 8;

/// Whose text the library knows.
#[derive(Clone, Copy)]
pub enum Text {
    /// Of `maps`, `smaps`, or `smaps_rollup`.
    Maps(Detail),
    /// Of `auxv`: words.
    Auxiliary,
    /// What the windows on files were good for.
    Ephemeral,
    /// How often threads waited for each other in the library.
    Lock,
    /// Of `pagemap`: a word for each page.
    Pages,
}

/// The text that a path names, if it is one of this process, by either name, and to be read. If it is one
/// that `unixd` makes of what this process tells of its memory, that is brought up to date.
pub fn named(io: &mut Io, path: &[u8], flags: u32) -> Option<Text> {
    let rest = path.strip_prefix(b"/proc/")?;
    let at = rest.iter().position(|&byte| byte == b'/')?;
    let (who, file) = (&rest[..at], &rest[at + 1..]);
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse().ok();
    if who != b"self" && number(who) != Some(header().pid.load(Relaxed)) {
        return None;
    }
    let text = match file {
        b"maps" => Text::Maps(Detail::Lines),
        b"smaps" => Text::Maps(Detail::Each),
        b"smaps_rollup" => Text::Maps(Detail::Sum),
        b"pagemap" => Text::Pages,
        b"auxv" => Text::Auxiliary,
        b"ephemeral" => Text::Ephemeral,
        b"lock" => Text::Lock,
        b"status" | b"stat" | b"statm" => {
            usage::count_all(&mut io.mm);
            return None;
        }
        _ => return None,
    };
    (flags & (O_ACCMODE | O_PATH | O_DIRECTORY) == O_RDONLY).then_some(text)
}

/// Opens a text as it is now.
pub fn open(io: &mut Io, text: Text, flags: u32) -> Result<u64> {
    let text = match text {
        Text::Pages => Made::Pages,
        Text::Maps(detail) => Made::Once(mm::maps_text(&mut io.mm, detail)?.into_bytes()),
        Text::Auxiliary => Made::Once(auxiliary(&io.mm.auxiliary)?),
        Text::Ephemeral => {
            let Counters { hits, misses, local, .. } = io.fds.windows.counters();
            let text = alloc::format!("hits {hits}\nmisses {misses}\ninvalidations {local}\n");
            Made::Once(text.into_bytes())
        }
        Text::Lock => {
            let (waits, sleeps) = lock::counters();
            let text = alloc::format!("lock_waits {waits}\nlock_sleeps {sleeps}\n");
            Made::Once(text.into_bytes())
        }
    };
    let snapshot = Snapshot { text, offset: Cell::new(0) };
    let file = File::new(OwnText(Rc::new(snapshot)), O_RDONLY);
    Ok(install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

/// At most `len` bytes, from byte `from`, of a text that others ask for by the number of a command.
pub fn told(mm: &mut Mm, what: u32, from: u64, len: usize) -> Result<Vec<u8>> {
    let start = usize::try_from(from).unwrap_or(usize::MAX);
    let text = match what {
        command::MAPS => mm::maps_text(mm, Detail::Lines)?.into_bytes(),
        command::SMAPS => mm::maps_text(mm, Detail::Each)?.into_bytes(),
        command::AUXILIARY => auxiliary(&mm.auxiliary)?,
        command::PAGEMAP => return pagemap(mm, from, len as u64),
        // It is written to.
        command::CLEAR_REFS => return Err(Errno::EINVAL),
        command::ENVIRON => {
            // As the program has left it.
            let (at, bytes) = mm.environ;
            let left = bytes.saturating_sub(start).min(len);
            return Ok(memory::read(mm, at.saturating_add(from), left, false));
        }
        _ => return Err(Errno::EIO),
    };
    let rest = text.get(start..).unwrap_or_default();
    let mut piece = Vec::new();
    let bytes = rest.len().min(len);
    piece.try_reserve_exact(bytes).map_err(|_| Errno::ENOMEM)?;
    piece.extend_from_slice(&rest[..bytes]);
    Ok(piece)
}

/// Does what a number written to `clear_refs` asks for. Of references nothing is told.
pub fn clear_refs(mm: &mut Mm, number: u64) {
    const WRITTEN: u64 = 4;
    const MOST_RESIDENT: u64 = 5;
    mm::leases::end_all(mm);
    match number {
        WRITTEN => {
            let Mm { space, caps, .. } = mm;
            space.clear_written(caps);
        }
        MOST_RESIDENT => usage::forget_most(mm),
        _ => {}
    }
}

/// The words of some pages. Nothing behind the end of what programs can have.
fn pagemap(mm: &mut Mm, from: u64, len: u64) -> Result<Vec<u8>> {
    if !from.is_multiple_of(WORD) || !len.is_multiple_of(WORD) {
        return Err(Errno::EINVAL);
    }
    let (start, end) = (from / WORD, USER_END / PAGE - 1);
    let count = (len / WORD).min(end.saturating_sub(start)) as usize;
    let (mut words, mut bytes) = (Vec::new(), Vec::new());
    words.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    bytes.try_reserve_exact(count * WORD as usize).map_err(|_| Errno::ENOMEM)?;
    words.resize(count, 0);
    mm::leases::end_all(mm);
    let Mm { space, caps, .. } = mm;
    space.pagemap(caps, start, &mut words);
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    Ok(bytes)
}

fn auxiliary(pairs: &[(u64, u64)]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    text.try_reserve_exact(pairs.len() * 16).map_err(|_| Errno::ENOMEM)?;
    for (key, value) in pairs {
        text.extend_from_slice(&key.to_le_bytes());
        text.extend_from_slice(&value.to_le_bytes());
    }
    Ok(text)
}

/// Reads the words of pages, a piece at a time.
fn read_pages(io: &mut Io, from: u64, to: &mut Cursor) -> Result<u64> {
    let mut done = 0;
    loop {
        let wanted = to.left().min(PIECE);
        let piece = pagemap(&mut io.mm, from + done, wanted);
        let piece = if done == 0 { piece? } else { piece.unwrap_or_default() };
        let count = to.scatter(&mut io.mm, &piece).some();
        let count = if done == 0 { count? } else { count.unwrap_or(0) } as u64;
        done += count;
        if count < wanted || to.left() == 0 {
            return Ok(done);
        }
    }
}

impl FileOps for OwnText {
    const POSITIONED: bool = true;

    fn server(&self) -> Server {
        Server::Library
    }
    fn read(&self, io: &mut Io, _: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        let Snapshot { text, offset } = &*self.0;
        let from = at.unwrap_or(offset.get());
        let done = match text {
            Made::Once(text) => {
                let rest = usize::try_from(from).ok().and_then(|start| text.get(start..));
                let rest = rest.unwrap_or_default();
                let piece = &rest[..rest.len().min(to.left() as usize)];
                to.scatter(&mut io.mm, piece).some()? as u64
            }
            Made::Pages => read_pages(io, from, to)?,
        };
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
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        match (&self.0.text, command) {
            (Made::Pages, scan::SCAN) => scan::scan(&mut io.mm, arg),
            _ => Err(Errno::ENOTTY),
        }
    }
    fn stat(&self) -> Result<()> {
        let mode = match self.0.text {
            Made::Once(_) => 0o100444,
            Made::Pages => 0o100400,
        };
        unnamed_stat(mode);
        Ok(())
    }
}
