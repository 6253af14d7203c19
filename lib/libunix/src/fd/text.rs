//! Files whose text the library knows best: `/proc/self/maps`. Opening one takes a snapshot.

use super::transfer::Source;
use super::{install, regular, File};
use crate::errno::{Errno, Result};
use crate::mm;
use crate::process::Process;
use crate::server::{self, op};
use alloc::boxed::Box;
use unixproto::files::{O_CLOEXEC, O_RDWR};

/// Is it the map of this process, by either name?
pub fn is_own_maps(p: &Process, path: &[u8]) -> bool {
    let file = path.strip_prefix(b"/proc/").and_then(|rest| rest.strip_suffix(b"/maps"));
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse().ok();
    file.is_some_and(|who| who == b"self" || number(who) == Some(p.pid))
}

/// Opens the memory map of this process as it is now.
pub fn open_own_maps(p: &mut Process, flags: u32) -> Result<u64> {
    let opened = server::call_a(op::MemFile { size: 0 }, b"maps")?;
    let file = File::opened(opened, O_RDWR);
    let (desc, _, inode) = file.description(Errno::EIO)?;
    let fd = install(p, file, flags & O_CLOEXEC != 0)?;
    let text = mm::maps_text(p).into_bytes().into_boxed_slice();
    let kept = Box::into_raw(text);
    // SAFETY: `kept` is freed only below, when nobody uses the pieces any more.
    let mut source = Text { rest: unsafe { &*kept } };
    let target = regular::Target { desc, inode, write_only: false };
    let written = regular::write(p, target, 0, &mut source);
    // SAFETY: it came from `into_raw`, and `regular::write` has copied every piece.
    drop(unsafe { Box::from_raw(kept) });
    written.map(|_| fd as u64)
}

struct Text {
    rest: &'static [u8],
}

impl Source for Text {
    fn left(&self) -> u64 {
        self.rest.len() as u64
    }
    fn next(&mut self, _: &mut Process, max: u64) -> Result<&'static [u8]> {
        let (piece, rest) = self.rest.split_at(self.rest.len().min(max as usize));
        self.rest = rest;
        Ok(piece)
    }
}
