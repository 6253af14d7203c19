//! Windows on the contents of files: a mapping cache (ephemeral mappings of a domain that has no
//! direct map).
//!
//! A window is one of a fixed number of places of [`WINDOW_BYTES`] in the library's part of the
//! address space. It shows a piece of one extent of one file, through a Frame capability that the
//! library holds as long as the window stands. The least recently used window makes room for a new one.
//!
//! What a window shows is written by other processes, and taken away when one of them truncates the file. A copy
//! that finds it gone says so to [`lost`] and asks for a [`view`] again.

use super::place;
use super::Fds;
use crate::errno::{Errno, Result};
use crate::process::{Files, Io};
use crate::server::{self, op, Caps};
use libos::guarded::Memory;
use unixproto::ops::Part;

pub use place::WINDOW_BYTES;

/// What a window shows.
#[derive(Clone, Copy)]
struct Window {
    inode: u64,
    layout: u32,
    /// First byte in the file.
    start: u64,
    bytes: u64,
    writable: bool,
    /// The file has another layout now: nobody finds the window any more, but a copy may still be
    /// using it.
    stale: bool,
    /// When it was used last.
    used: u64,
}

/// All windows.
pub struct Windows {
    capabilities: place::Places,
    places: [Option<Window>; place::WINDOWS],
    /// The window that was used last: most searches end there.
    last: usize,
    clock: u64,
}

/// What a file has at some offset.
pub enum View {
    /// These bytes, at least one. They are good until two other windows have been opened.
    Bytes(Memory),
    /// So many zeros.
    Hole(u64),
}

/// How often a Frame is asked for that others take away before it is used.
const TRIES: u32 = 16;

impl Windows {
    /// None is used.
    pub const fn new() -> Self {
        Windows {
            capabilities: place::Places::new(),
            places: [None; place::WINDOWS],
            last: 0,
            clock: 0,
        }
    }

    /// Closes all windows on a file.
    pub fn forget(&mut self, inode: u64) {
        self.close_where(|w| w.inode == inode);
    }

    /// Closes all windows but those on files of which `keep` says so.
    pub fn keep(&mut self, keep: impl Fn(u64) -> bool) {
        self.close_where(|w| !keep(w.inode));
    }

    /// Hides the windows that belong to an older layout of a file.
    fn mark_stale(&mut self, inode: u64, layout: u32) {
        for window in self.places.iter_mut().flatten() {
            window.stale |= window.inode == inode && window.layout != layout;
        }
    }

    fn close_where(&mut self, which: impl Fn(&Window) -> bool) {
        for (index, entry) in self.places.iter_mut().enumerate() {
            if entry.as_ref().is_some_and(&which) {
                *entry = None;
                place::close(index);
            }
        }
    }

    /// Forgets everything without touching capabilities: the state of a forked child, who has the
    /// parent's memory but nothing behind it.
    pub fn abandon(&mut self) {
        self.capabilities = place::Places::new();
        self.places = [None; place::WINDOWS];
    }

    fn shows(&self, index: usize, part: &Part, write: bool) -> bool {
        self.places[index].is_some_and(|w| {
            w.inode == part.inode
                && w.layout == part.layout
                && part.offset.wrapping_sub(w.start) < w.bytes
                && (w.writable || !write)
                && !w.stale
        })
    }

    fn find(&mut self, part: &Part, write: bool) -> Option<usize> {
        let found = if self.shows(self.last, part, write) {
            self.last
        } else {
            (0..place::WINDOWS).find(|&index| self.shows(index, part, write))?
        };
        self.touch(found);
        Some(found)
    }

    fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.last = index;
        if let Some(window) = &mut self.places[index] {
            window.used = self.clock;
        }
    }

    /// A free place, made by closing the least recently used window if there is none.
    fn vacate(&mut self) -> usize {
        let index = (0..place::WINDOWS)
            .min_by_key(|&index| self.places[index].map_or(0, |w| w.used))
            .unwrap_or(0);
        if self.places[index].take().is_some() {
            place::close(index);
        }
        index
    }

    /// The rest of window `index` from `offset` in the file on.
    fn rest(&self, index: usize, offset: u64) -> Memory {
        let Some(window) = self.places[index] else { return Memory::EMPTY };
        let skip = offset.saturating_sub(window.start).min(window.bytes);
        place::memory(index, window.bytes).skip(skip as usize)
    }
}

/// What the file has at the start of `part`. `part.layout` is brought up to date.
pub fn view(io: &mut Io, desc: u32, part: &mut Part, write: bool) -> Result<View> {
    let index = match io.fds.windows.find(part, write) {
        Some(index) => index,
        None => match open(io, desc, part, write)? {
            Opening::Window(index) => index,
            Opening::Hole(bytes) => return Ok(View::Hole(bytes)),
        },
    };
    let rest = io.fds.windows.rest(index, part.offset);
    if rest.is_empty() {
        return Err(Errno::EIO);
    }
    Ok(View::Bytes(rest))
}

/// The place in the file at the start of `part`, to be written.
pub fn view_mut(io: &mut Io, desc: u32, part: &mut Part) -> Result<Memory> {
    match view(io, desc, part, true)? {
        View::Bytes(bytes) => Ok(bytes),
        View::Hole(_) => Err(Errno::ENOSPC),
    }
}

/// A copy has found that a window on a file shows nothing any more.
#[cold]
pub fn lost(fds: &mut Fds, inode: u64) {
    fds.windows.forget(inode);
}

enum Opening {
    Window(usize),
    Hole(u64),
}

/// Opens a window on the extent that holds the start of `part`. Others may truncate the file between the answer that
/// has the Frame and its use, again and again.
fn open(io: &mut Io, desc: u32, part: &mut Part, write: bool) -> Result<Opening> {
    for _ in 0..TRIES {
        match open_once(io, desc, part, write) {
            Err(Errno::ESTALE) => {}
            result => return result,
        }
    }
    Err(Errno::EIO)
}

fn open_once(io: &mut Io, desc: u32, part: &mut Part, write: bool) -> Result<Opening> {
    let Files { fds: Fds { windows, .. }, mm } = io.files();
    windows.mark_stale(part.inode, part.layout);
    let index = windows.vacate();
    windows.capabilities.prepare(&mut mm.caps.arena, index)?;
    let request = op::FileExtent { desc, offset: part.offset, write };
    let caps = Caps::receive(place::frame_slot(index));
    let (extent, received) = server::call_caps(request, 0, 0, caps)?;
    let end = extent.start.saturating_add(extent.bytes);
    if part.offset < extent.start || part.offset >= end {
        place::close(index);
        return Err(Errno::EIO);
    }
    part.layout = extent.layout;
    if received == 0 {
        return Ok(Opening::Hole(end - part.offset));
    }
    // Pieces of extents are aligned in the file so that neighbours do not overlap.
    let start = (part.offset & !(WINDOW_BYTES - 1)).max(extent.start);
    let bytes = (end - start).min(WINDOW_BYTES);
    show(index, start - extent.start, bytes, write)?;
    windows.places[index] = Some(Window {
        inode: part.inode,
        layout: extent.layout,
        start,
        bytes,
        writable: write,
        stale: false,
        used: 0,
    });
    windows.touch(index);
    Ok(Opening::Window(index))
}

fn show(index: usize, offset: u64, bytes: u64, write: bool) -> Result<()> {
    let result = place::open(index, offset, bytes, write);
    if result.is_err() {
        place::close(index);
    }
    result
}

impl Default for Windows {
    fn default() -> Self {
        Windows::new()
    }
}

impl Fds {
    /// Closes the windows on a file whose contents were replaced by this process itself.
    pub fn forget_windows(&mut self, inode: u64) {
        self.windows.forget(inode);
    }
}
