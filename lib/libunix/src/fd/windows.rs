//! Windows on the contents of files: a mapping cache (ephemeral mappings of a domain that has no
//! direct map).
//!
//! A window is one of a fixed number of places of [`WINDOW_BYTES`] in the library's part of the
//! address space. It shows a piece of one extent of one file, through a Frame capability that the
//! library holds as long as the window stands. Which window is used for what is the business of [`ephemeral::Looks`].
//!
//! What a window shows is written by other processes, and taken away when one of them truncates the file. A copy
//! that finds it gone says so to [`lost`] and asks for it again.

use super::glance;
use super::parts::{self, Parts, Stretch};
use super::place::{self, number, Piece, Places, Refusal, WINDOWS};
use super::{writers, Fds};
use crate::errno::{Errno, Result};
use crate::process::{Files, Io};
use crate::server::{self, op, Caps};
use abi::layout::PAGE;
use alloc::boxed::Box;
use ephemeral::{Counters, Look, Looks, NoLook};
use libos::guarded::Memory;
use unixproto::files::NOT_BEHIND;
use unixproto::ops::Part;

pub use place::WINDOW_BYTES;

/// All windows, once there is one: most programs never have any, and fork and exec need not care for them then.
pub struct Windows {
    looks: Option<Box<Looks<Places, WINDOWS>>>,
    /// Those on files that are Morsels.
    parts: Option<Box<Parts>>,
    /// Files of which a few bytes were copied by `unixd`, the last ones.
    small: [u64; SMALL],
    options: Options,
}

/// What is to be had of them, for who measures what they are good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many are used.
    pub windows: usize,
    /// Is nothing shown after use?
    pub is_uncached: bool,
}

/// So many files are remembered of which a few bytes were copied.
const SMALL: usize = 4;

/// The fewest windows: a copy from one file to another has two looks at a time.
const FEWEST: usize = 2;

impl Options {
    /// All of them.
    pub const DEFAULT: Options = Options { windows: WINDOWS, is_uncached: false };

    /// No window is used.
    #[cold]
    fn looks(self, places: Places) -> Box<Looks<Places, WINDOWS>> {
        let mut looks = Box::new(Looks::new(places));
        if self != Options::DEFAULT {
            looks.limit(self.windows.max(FEWEST));
            if self.is_uncached {
                looks.without_cache();
            }
        }
        looks
    }
}

/// What a file has at some offset.
pub enum View {
    /// These bytes, at least one.
    Bytes(Memory),
    /// So many zeros.
    Hole(u64),
}

/// Bytes of a Morsel that are shown page by page, where it has pages of 2 MiB: as many as one invocation shows.
const PAGES_BYTES: u64 = 64 * PAGE;

/// How often a Frame is asked for that others take away before it is used.
const TRIES: u32 = 16;

impl Windows {
    /// None is used.
    pub const fn new() -> Self {
        Windows { looks: None, parts: None, small: [0; SMALL], options: Options::DEFAULT }
    }

    /// A few bytes of a file are to be copied: is that the first time? Then a window is not worth its while: many files are read
    /// or written once, and closed.
    pub fn is_first(&mut self, inode: u64) -> bool {
        let known = self.small.contains(&inode);
        if !known {
            self.small.rotate_right(1);
            self.small[0] = inode;
        }
        !known
    }

    /// Closes all windows on a file.
    pub fn forget(&mut self, inode: u64) {
        self.small.iter_mut().filter(|small| **small == inode).for_each(|small| *small = 0);
        self.forget_pieces(|piece| piece.inode == inode);
        self.forget_parts(|stretch| stretch.inode == inode);
    }

    /// Closes all windows but those on files of which `keep` says so.
    pub fn keep(&mut self, keep: impl Fn(u64) -> bool) {
        self.small.iter_mut().filter(|small| !keep(**small)).for_each(|small| *small = 0);
        self.forget_pieces(|piece| !keep(piece.inode));
        self.forget_parts(|stretch| !keep(stretch.inode));
    }

    fn forget_parts(&mut self, gone: impl Fn(&Stretch) -> bool) {
        if let Some(parts) = &mut self.parts {
            parts.forget(gone);
        }
    }

    fn forget_pieces(&mut self, gone: impl Fn(&Piece) -> bool) {
        if let Some(looks) = &mut self.looks {
            looks.forget(gone);
        }
    }

    /// Forgets everything without touching capabilities: the state of a forked child, who has the
    /// parent's memory but nothing behind it.
    pub fn abandon(&mut self) {
        // The threads that wrote are the parent's.
        writers::after_fork();
        glance::change_windows();
        self.looks = None;
        self.parts = None;
    }

    /// As the environment of a new program says: `TESSERA_EPHEMERAL` is `uncached`, or a number of windows, or both with a
    /// comma between. Nobody has a look at anything.
    pub fn configure<'a>(&mut self, mut environment: impl Iterator<Item = &'a [u8]>) {
        let value = environment.find_map(|entry| entry.strip_prefix(b"TESSERA_EPHEMERAL="));
        let mut options = Options::DEFAULT;
        for word in value.unwrap_or_default().split(|&byte| byte == b',') {
            let number = core::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
            options.is_uncached |= word == b"uncached";
            options.windows = number.unwrap_or(options.windows);
        }
        if options != self.options {
            self.keep(|_| false);
            self.parts = None;
            let looks = self.looks.take();
            self.options = options;
            // What there is of tables stays.
            self.looks = looks.map(|mut before| {
                let places = core::mem::replace(before.places_mut(), Places::new());
                options.looks(places)
            });
        }
    }

    /// All windows on Morsels.
    fn all_parts(&mut self) -> &mut Parts {
        let options = self.options;
        self.parts.get_or_insert_with(|| {
            let mut parts = Box::new(Parts::new(parts::Places));
            if options.is_uncached {
                parts.without_cache();
            }
            parts
        })
    }

    /// All windows, which are made now if they were not before.
    fn all(&mut self) -> &mut Looks<Places, WINDOWS> {
        let options = self.options;
        self.looks.get_or_insert_with(|| options.looks(Places::new()))
    }

    /// Makes one of the tables for [rings](super::rings).
    pub fn make_table_of_rings(
        &mut self,
        ram: &mut impl libos::ram::Ram,
        number: u32,
    ) -> Result<()> {
        self.all().places_mut().make_table_of_rings(ram, number)
    }

    /// What was asked for so far, and what it took.
    pub fn counters(&self) -> Counters {
        self.looks.as_ref().map_or_else(Counters::default, |looks| looks.counters())
    }

    #[inline]
    fn find(&mut self, part: &Part, write: bool) -> Option<Look<Piece>> {
        self.looks.as_mut()?.find(number(part.inode, part.offset), |piece| {
            piece.inode == part.inode
                && piece.layout == part.layout
                && part.offset.wrapping_sub(piece.start) < piece.bytes.into()
                && (piece.writable || !write)
        })
    }

    /// Shows a piece whose Frame has come to the spare slot.
    fn look(&mut self, ram: &mut impl libos::ram::Ram, piece: Piece) -> Result<Look<Piece>> {
        let looks = self.all();
        let mut shown = looks.look(piece);
        if let Err(NoLook::Refused(Refusal::NoTable(window))) = shown {
            looks.places_mut().make_table(ram, window)?;
            shown = looks.look(piece);
        }
        shown.map_err(|refused| match refused {
            NoLook::Busy => Errno::EIO,
            NoLook::Refused(refusal) => refusal.errno(),
        })
    }
}

/// What a look shows, from `offset` in the file on.
fn rest(look: &Look<Piece>, offset: u64) -> Memory {
    let Piece { start, bytes, .. } = *look.piece();
    // SAFETY: in the part of the address space where nothing but windows is.
    let shown = unsafe { Memory::new(look.address() as u64, bytes as usize) };
    shown.skip(offset.saturating_sub(start) as usize)
}

/// Has `work` done with what the file has at the start of `part`, which is seen as long as it works. `part.layout` is
/// brought up to date.
pub fn with<R>(
    io: &mut Io,
    desc: u32,
    part: &mut Part,
    write: bool,
    work: impl FnOnce(&mut Io, View) -> R,
) -> Result<R> {
    let look = match io.fds.windows.find(part, write) {
        Some(look) => look,
        None => match find_part(io, part, write).map_or_else(|| open(io, desc, part, write), Ok)? {
            Opening::Window(look) => look,
            Opening::Part(look) => {
                let (first, address) = (look.piece().start, look.address() as u64);
                let shown = (first, first + parts::PART_BYTES);
                let of = (part.inode, part.layout, part.offset);
                glance::note_piece(of, shown, (address, look.piece().writable));
                let done = work(io, View::Bytes(rest_of_part(&look, part)));
                io.fds.windows.all_parts().end(look);
                return Ok(done);
            }
            Opening::Hole(bytes) => return Ok(work(io, View::Hole(bytes))),
        },
    };
    let Piece { inode, layout, start, bytes, writable, .. } = *look.piece();
    let shown = (start, start + u64::from(bytes));
    glance::note_piece((inode, layout, part.offset), shown, (look.address() as u64, writable));
    let done = work(io, View::Bytes(rest(&look, part.offset)));
    io.fds.windows.all().end(look);
    Ok(done)
}

/// A window on a Morsel that shows the start of `part` already.
#[inline]
fn find_part(io: &mut Io, part: &Part, write: bool) -> Option<Opening> {
    let parts = io.fds.windows.parts.as_mut()?;
    parts::find(parts, part.inode, part.offset, write).map(Opening::Part)
}

/// What a look at a Morsel shows, from the start of `part` on to its end at most: what is behind may be no part of the file.
fn rest_of_part(look: &Look<Stretch>, part: &Part) -> Memory {
    // SAFETY: in the part of the address space where nothing but windows is.
    let shown = unsafe { Memory::new(look.address() as u64, parts::PART_BYTES as usize) };
    let inside = (part.offset - look.piece().start) as usize;
    shown.skip(inside).first(usize::try_from(part.bytes).unwrap_or(usize::MAX))
}

/// A copy has found that a window on a file shows nothing any more.
#[cold]
pub fn lost(fds: &mut Fds, inode: u64) {
    fds.windows.forget(inode);
}

enum Opening {
    Window(Look<Piece>),
    Part(Look<Stretch>),
    Hole(u64),
}

/// Opens a window on the extent that holds the start of `part`. Others may truncate the file between the answer that
/// has the Frame and its use, again and again.
#[cold]
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
    // What an older layout has shown is not found again.
    windows.forget_pieces(|piece| piece.inode == part.inode && piece.layout != part.layout);
    let (frame, slot) = windows.all().places_mut().spare(&mut mm.caps.arena)?;
    let request = op::FileExtent { desc, offset: part.offset, write, until: NOT_BEHIND };
    let (extent, received) = server::call_caps(request, 0, 0, Caps::receive(slot))?;
    // One that is a single page is shown like a Frame.
    if extent.bytes >= parts::PART_BYTES && extent.is_morsel && received > 0 {
        let mut shown = parts::look(windows.all_parts(), (part.inode, part.offset), write, slot);
        if shown.as_ref().is_err_and(|error| *error == Errno::EOPNOTSUPP) {
            part.layout = extent.layout;
            let start = part.offset & !(PAGES_BYTES - 1);
            let end = extent.size.next_multiple_of(PAGE).min(start + PAGES_BYTES);
            let (inode, layout, page) = (part.inode, extent.layout, (start / PAGE) as u32);
            let bytes = end.saturating_sub(start) as u32;
            let piece = Piece { inode, layout, bytes, start, page, frame, writable: write };
            match windows.look(&mut mm.caps.arena, piece) {
                Ok(look) => return Ok(Opening::Window(look)),
                Err(error) => shown = Err(error),
            }
        }
        windows.all().places_mut().drop_spare();
        return match shown {
            // A part of which there are no tables has no pages, and now it gets none. A store was granted pages.
            Err(Errno::ENOSPC) if !write => {
                Ok(Opening::Hole(parts::PART_BYTES - part.offset % parts::PART_BYTES))
            }
            shown => shown.map(Opening::Part),
        };
    }
    let end = extent.start.saturating_add(extent.bytes);
    let is_inside = (extent.start..end).contains(&part.offset);
    if is_inside && received == 0 {
        part.layout = extent.layout;
        return Ok(Opening::Hole(end - part.offset));
    }
    // Pieces of extents are aligned in the file so that neighbours do not overlap.
    let start = (part.offset & !(WINDOW_BYTES - 1)).max(extent.start);
    let page = u32::try_from((start - extent.start) / PAGE);
    let shown = match page {
        Ok(page) if is_inside => {
            part.layout = extent.layout;
            let bytes = (end - start).min(WINDOW_BYTES - start % WINDOW_BYTES) as u32;
            let (inode, layout) = (part.inode, extent.layout);
            let piece = Piece { inode, layout, bytes, start, page, frame, writable: write };
            windows.look(&mut mm.caps.arena, piece)
        }
        _ => Err(Errno::EIO),
    };
    if shown.is_err() {
        windows.all().places_mut().drop_spare();
    }
    shown.map(Opening::Window)
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
