//! Ends of streams that this process has lent to read from, and watches (`poll`, `epoll`).
//!
//! As long as such a ring is open only the ring says whether there is anything to be read, and `unixd` knows nothing of it. So whoever
//! asks what is ready looks there, and a thread that waits says so at each of them before it sleeps in the library: the other end notifies it, and
//! `unixd` does if something comes to what else is watched.
//!
//! `unixd` lets a ring be used that is watched only if it is this process alone that watches it, and was lent it since: so no thread may wait
//! in a request for what is watched while there are any. Those at which another thread is notified are given back before.

use super::{At, Lent, Rings, Seen, Which};
use crate::fd::kinds::AnyFile;
use crate::fd::ops::READABLE;
use crate::fd::Fds;
use crate::process::Io;
use crate::server::{self, op};
use crate::thread::area;
use core::sync::atomic::{fence, Ordering};
use peers::{Found, Word, CLOSED, CLOSINGS_OFFSET};

/// What is known of who watches an end.
#[derive(Clone, Copy)]
pub struct Watched {
    /// The file.
    file: u32,
    /// Up to which byte something was there when it was last looked at.
    seen: u32,
    /// How often the ring had been closed.
    closings: u32,
    /// The sleep that has begun; 0: none.
    asleep: u32,
}

/// What is known of an end that was lent just now; `None`: it is none of a stream.
pub(super) fn file_of(fds: &Fds, which: Which, ring: usize) -> Option<Watched> {
    let file = fds.with_description(which.desc)?;
    if !matches!(fds.at(file).ok()?.kind, AnyFile::Socket(_)) {
        return None;
    }
    // What has come since is new.
    let seen = At(super::AREA.address(ring * super::WINDOWS + 1)).load().ok()? & !CLOSED;
    Some(Watched { file, seen, closings: 0, asleep: 0 })
}

impl Lent {
    /// How often its ring has been closed.
    fn closings(&self, ring: usize) -> u32 {
        let At(own) = self.end(ring).own;
        At(own + CLOSINGS_OFFSET as u64).load().unwrap_or_default()
    }

    /// Is there anything that was not seen when it was last looked at?
    fn has_news(&self, ring: usize, watched: &Watched) -> bool {
        match self.end(ring).look() {
            Ok(Found::Open(part)) => part.end() != watched.seen,
            Ok(Found::Closed) => self.closings(ring) != watched.closings,
            Ok(Found::Nonsense) | Err(_) => true,
        }
    }
}

impl Rings {
    /// An end of a stream, and what is known of who watches it.
    fn stream(&mut self, ring: usize) -> Option<(Lent, &mut Watched)> {
        let lent = self.at_mut(ring)?;
        let copy = *lent;
        Some((copy, lent.file.as_mut()?))
    }

    /// What is ready of a stream, of which `unixd` has told this.
    #[inline]
    pub fn with_ring(&self, desc: u32, told: u16) -> u16 {
        if self.streams == 0 {
            return told;
        }
        let ring = self.find(Which { desc, writes: false });
        let found = ring.and_then(|ring| self.at(ring)?.end(ring).look().ok());
        match found {
            Some(Found::Open(part)) if part.bytes > 0 => told | READABLE,
            Some(Found::Open(_)) => told & !READABLE,
            _ => told,
        }
    }
}

/// Has the other end taken back what was there when somebody was told that it can be read? Then nothing of it is believed any more: who
/// was told so does not wait.
pub(super) fn was_taken_back(io: &mut Io, seen: &Seen) -> bool {
    let watched = io.fds.rings.at(seen.ring).and_then(|lent| lent.file);
    let is_less = watched.is_some_and(|watched| seen.part.falls_short_of(watched.seen));
    if is_less {
        io.fds.rings.give_back(seen.ring);
    }
    is_less
}

/// Looks at all ends: tells the sets in which the files are to which something has come.
#[inline]
pub fn look_at_all(fds: &mut Fds) {
    if fds.rings.streams > 0 {
        (0..fds.rings.lent.len()).for_each(|ring| look_at(fds, ring));
    }
}

fn look_at(fds: &mut Fds, ring: usize) {
    let Some((lent, watched)) = fds.rings.stream(ring) else { return };
    match lent.end(ring).look() {
        Ok(Found::Open(part)) if part.end() != watched.seen => {
            watched.seen = part.end();
            let file = watched.file;
            fds.came(file, READABLE);
        }
        Ok(Found::Open(_)) => {}
        Ok(Found::Closed) => {
            let closings = lent.closings(ring);
            if closings != watched.closings {
                watched.closings = closings;
                // What was in it may not have been told yet.
                fds.ask_anew();
            }
        }
        Ok(Found::Nonsense) | Err(_) => {
            fds.rings.give_back(ring);
            fds.ask_anew();
        }
    }
}

/// A thread that is about to sleep until something comes to what its process watches.
pub enum Armed {
    /// It waits by a request.
    Not,
    /// It sleeps in the library.
    Quiet,
    /// Something has come.
    News,
}

/// The thread says at all ends that it sleeps. `asks`: it has to wait by a request. It [looks](look_at_all) before.
pub fn arm(io: &mut Io, asks: bool) -> Armed {
    if io.fds.rings.streams == 0 {
        return Armed::Not;
    }
    let own = area::own_index();
    for ring in 0..io.fds.rings.lent.len() {
        let is_of_others = |(lent, _): (Lent, _)| asks || lent.thread != own;
        if io.fds.rings.stream(ring).is_some_and(is_of_others) {
            io.fds.rings.give_back(ring);
        }
    }
    if io.fds.rings.streams == 0 {
        return Armed::Not;
    }
    if io.fds.rings.sleeper != Some(own) {
        if server::call(op::SleepHere {}).is_err() {
            return arm(io, true);
        }
        io.fds.rings.sleeper = Some(own);
    }
    server::header().sleeps.store(1, Ordering::Relaxed);
    let mut has_news = false;
    for ring in 0..io.fds.rings.lent.len() {
        if let Some((lent, watched)) = io.fds.rings.stream(ring) {
            watched.asleep = lent.end(ring).lie_down().unwrap_or(0);
            has_news |= lent.has_news(ring, watched);
        }
    }
    fence(Ordering::SeqCst);
    match has_news || io.fds.has_changes() {
        true => Armed::News,
        false => Armed::Quiet,
    }
}

/// The thread sleeps no more.
pub fn disarm(io: &mut Io) {
    server::header().sleeps.store(0, Ordering::Relaxed);
    for ring in 0..io.fds.rings.lent.len() {
        if let Some((lent, watched)) = io.fds.rings.stream(ring) {
            let asleep = core::mem::take(&mut watched.asleep);
            if asleep != 0 {
                // An error: the ring is gone.
                let _ = lent.end(ring).get_up(asleep);
            }
        }
    }
}
