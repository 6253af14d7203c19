//! Rings of pipes and of streams of local sockets that are lent to this process: bytes go to the other end, or come from there, without
//! a request ([`peers`]).
//!
//! Who has written or read a few bytes at an end several times asks for it. A pipe has one end of a description, a socket two. From then on bytes are copied to or from the
//! ring as long as that is open, and whoever finds nothing there sleeps until the other end notifies him. For whatever else there is to do,
//! and as soon as the ring is closed, requests are made as before.
//!
//! A ring is memory that another process writes, and `unixd` takes away: it is only copied, and nothing that is found there is
//! believed. One at a time uses an end: who finds another thread there makes a request.

mod watched;

pub use watched::{arm, disarm, look_at_all, Armed};

use super::buffers::Cursor;
use super::place::{self, RINGS_FRAME, RINGS_TABLE};
use crate::errno::{Errno, Result};
use crate::fd::stream;
use crate::fd::transfer::Source;
use crate::home;
use crate::invoke::invoke;
use crate::mm::user::Short;
use crate::process::{Files, Io};
use crate::server::{self, op, restart, Caps};
use crate::signal;
use crate::sys::time;
use crate::thread::{area, company, lock};
use abi::layout::PAGE;
use alloc::vec::Vec;
use captypes::{op as cap, CapAddr, Place, Status};
use core::sync::atomic::Ordering::Relaxed;
use libos::ephemeral::Area;
use libos::guarded::{Fault, Memory};
use libos::vspace::{table_bytes, R, RW};
use libos::Cap;
use linuxdomain::MAPPINGS;
use peers::{End, Found, Part, Word, RING, SLEEPS_OFFSET};
use unixproto::session::{lent_end, DATA_BYTES, NOTE_PEER};

/// How many there may be.
const RINGS: usize = 24;
/// Capabilities of each: bytes, own words, words of the other end, own bell, bell of the other end.
const CAPS: u32 = 5;
const BELL: u32 = 3;
const OTHER_BELL: u32 = 4;
/// Windows of each: bytes, own words, words of the other end, and one that shows nothing.
const WINDOWS: usize = 4;
/// Most bytes that are written to one at a time: as many as are not mixed with others.
pub const MOST_WRITTEN: usize = 4096;
/// So often an end is used by requests before it is asked for.
const USES: u32 = 16;
/// Of so many ends that is counted, each at a place of its own.
const COUNTED: usize = 16;

const _: () = assert!(RINGS * WINDOWS * RING <= place::RINGS_TABLES as usize * TABLE_BYTES);
const _: () = assert!(RINGS * WINDOWS <= place::RINGS_FRAMES as usize);
const _: () = assert!(RINGS * CAPS as usize <= place::RINGS_FRAMES as usize);
const _: () = assert!(MOST_WRITTEN <= DATA_BYTES);

/// Bytes that a last-level table maps.
const TABLE_BYTES: usize = table_bytes(1) as usize;

/// Where they are shown.
static AREA: Area<{ RING as u64 }> =
    Area::new(place::RINGS, Place::own(RINGS_TABLE), RINGS_FRAME.plus(MAPPINGS));

/// The capability of a ring.
fn slot(ring: usize, cap: u32) -> CapAddr {
    RINGS_FRAME.plus(ring as u32 * CAPS + cap)
}

/// A word of a ring.
#[derive(Clone, Copy)]
struct At(u64);

impl At {
    fn memory(self) -> Memory {
        // SAFETY: in the part of the address space where nothing but rings is.
        unsafe { Memory::new(self.0, size_of::<u32>()) }
    }
}

impl Word for At {
    type Error = Fault;
    #[inline(always)]
    fn load(&self) -> core::result::Result<u32, Fault> {
        self.memory().load()
    }
    #[inline(always)]
    fn replace(&self, old: u32, new: u32) -> core::result::Result<bool, Fault> {
        Ok(self.memory().compare_exchange(old, new)? == old)
    }
}

/// An end: of which description, and whether that writes there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Which {
    desc: u32,
    writes: bool,
}

impl Which {
    /// Where it is counted.
    fn place(self) -> usize {
        (self.desc as usize * 2 + usize::from(self.writes)) % COUNTED
    }
}

/// An end that the process has.
#[derive(Clone, Copy)]
struct Lent {
    which: Which,
    /// No other has had it.
    number: u32,
    /// What there is to do for who finds nothing to read, or no room: one of [`lent_end`].
    idle: u32,
    /// The thread that is notified.
    thread: u32,
    /// The sleep of the other end that was ended last.
    woken: u32,
    /// What notifies the other end is there.
    has_bell: bool,
    /// Somebody is copying.
    is_used: bool,
    /// Of an end of a stream from which is read: what is [known](watched) of who watches it.
    file: Option<watched::Watched>,
}

/// How many capabilities come with an end.
const CAPS_SENT: u32 = 4;

/// How often an end was used by a request.
#[derive(Clone, Copy)]
struct Use {
    which: Which,
    count: u32,
    /// How often it is to be used before it is asked for: twice as often as before if it was refused.
    enough: u32,
}

const NEVER: Use = Use { which: Which { desc: 0, writes: false }, count: 0, enough: USES };

/// All of them.
pub struct Rings {
    /// Up to the last that is there.
    lent: Vec<Option<Lent>>,
    uses: [Use; COUNTED],
    /// How many tables there are.
    tables: usize,
    /// How many there have been.
    number: u32,
    /// How many of them are ends of streams from which is read.
    streams: usize,
    /// The thread that is notified of what else is watched.
    sleeper: Option<u32>,
}

impl Rings {
    /// None.
    pub const fn new() -> Rings {
        Rings {
            lent: Vec::new(),
            uses: [NEVER; COUNTED],
            tables: 0,
            number: 0,
            streams: 0,
            sleeper: None,
        }
    }

    #[inline(always)]
    fn find(&self, which: Which) -> Option<usize> {
        self.lent.iter().position(|lent| lent.as_ref().is_some_and(|lent| lent.which == which))
    }

    fn at(&self, ring: usize) -> Option<&Lent> {
        self.lent.get(ring)?.as_ref()
    }

    fn at_mut(&mut self, ring: usize) -> Option<&mut Lent> {
        self.lent.get_mut(ring)?.as_mut()
    }

    /// A description is about to be closed.
    #[inline]
    pub fn forget(&mut self, desc: u32) {
        for which in [false, true].map(|writes| Which { desc, writes }) {
            let used = &mut self.uses[which.place()];
            if used.which == which {
                *used = NEVER;
            }
            if let Some(ring) = self.find(which) {
                self.drop_ring(ring);
            }
        }
    }

    /// The process is about to become another one, or has been another one.
    pub fn forget_all(&mut self) {
        (0..self.lent.len()).rev().for_each(|ring| self.drop_ring(ring));
        self.uses = [NEVER; COUNTED];
        self.sleeper = None;
    }

    /// Gives all back: the process acts as another one from now on, and nobody would look at what it watches.
    pub fn give_back_all(&mut self) {
        (0..self.lent.len()).for_each(|ring| self.give_back(ring));
        self.forget_all();
    }

    /// Forgets everything without touching capabilities: in a forked child, which has none of them.
    pub fn abandon(&mut self) {
        *self = Rings::new();
    }

    /// Gives one back that is of no use.
    #[cold]
    fn give_back(&mut self, ring: usize) {
        if let Some(&Lent { which: Which { desc, writes }, .. }) = self.at(ring) {
            // An error: it was taken away before.
            let _ = server::call(op::ReturnEnd { desc, writes });
            self.drop_ring(ring);
        }
    }

    #[cold]
    fn drop_ring(&mut self, ring: usize) {
        if let Some(Lent { file: Some(_), .. }) = self.lent.get_mut(ring).and_then(Option::take) {
            self.streams -= 1;
        }
        while self.lent.last().is_some_and(Option::is_none) {
            self.lent.pop();
        }
        (0..WINDOWS).for_each(|window| AREA.unmap(ring * WINDOWS + window));
        (0..CAPS).for_each(|cap| slot(ring, cap).discard());
    }
}

impl Lent {
    /// Its words.
    #[inline(always)]
    fn end(&self, ring: usize) -> End<At> {
        let [own, other] = [1, 2].map(|window| AREA.address(ring * WINDOWS + window));
        let sleeps = SLEEPS_OFFSET as u64;
        End {
            own: At(own),
            other: At(other),
            sleeps: At(own + sleeps),
            other_sleeps: At(other + sleeps),
            writes: self.which.writes,
        }
    }
}

/// Some bytes of a ring.
#[inline(always)]
fn bytes(ring: usize, (at, bytes): (usize, usize)) -> Memory {
    // SAFETY: as `At::memory`; the ring says that they are inside.
    unsafe { Memory::new(AREA.address(ring * WINDOWS) + at as u64, bytes) }
}

/// What was found of an end that the process has.
struct Seen {
    ring: usize,
    number: u32,
    end: End<At>,
    part: Part,
}

/// Looks at an end. `None`: it is not lent, or closed, or another thread uses it.
#[inline]
fn look(io: &mut Io, which: Which) -> Option<Seen> {
    let ring = io.fds.rings.find(which)?;
    let lent = *io.fds.rings.at(ring)?;
    let end = lent.end(ring);
    match end.look() {
        Ok(Found::Open(part)) if !lent.is_used => {
            Some(Seen { ring, number: lent.number, end, part })
        }
        Ok(Found::Open(_) | Found::Closed) => None,
        Ok(Found::Nonsense) | Err(_) => {
            io.fds.rings.give_back(ring);
            None
        }
    }
}

impl Seen {
    /// The end is used, or not any more. `None`: it is not the process's any more.
    #[inline]
    fn set_used(&self, io: &mut Io, is_used: bool) -> Option<()> {
        let lent = io.fds.rings.at_mut(self.ring);
        lent.filter(|lent| lent.number == self.number)?.is_used = is_used;
        Some(())
    }

    /// So many bytes have been copied. `None`: they do not count.
    #[inline]
    fn moved(&self, io: &mut Io, bytes: usize) -> Option<()> {
        self.set_used(io, false)?;
        match self.end.moved(self.part, bytes) {
            Ok(true) => {
                if self.end.writes || self.has_room_then(bytes) {
                    self.wake(io);
                }
                Some(())
            }
            Ok(false) => None,
            Err(_) => {
                io.fds.rings.give_back(self.ring);
                None
            }
        }
    }

    /// When so many bytes have been read, is there room for whatever the writer may wait to write? Until then it sleeps on, as on Linux, where it waits
    /// for a whole page.
    #[inline]
    fn has_room_then(&self, bytes: usize) -> bool {
        RING - (self.part.bytes - bytes) >= MOST_WRITTEN
    }

    /// Wakes the other end, if it sleeps.
    #[inline]
    fn wake(&self, io: &mut Io) {
        let Some(lent) = io.fds.rings.at_mut(self.ring) else { return };
        // If the ring has gone meanwhile, whoever slept was told.
        if self.end.is_to_wake(&mut lent.woken).unwrap_or(false) {
            let (which, has_bell) = (lent.which, lent.has_bell);
            wake(io, (self.ring, which), has_bell);
        }
    }
}

/// Notifies the other end.
fn wake(io: &mut Io, (ring, which): (usize, Which), has_bell: bool) {
    let bell = slot(ring, OTHER_BELL);
    let Which { desc, writes } = which;
    if !has_bell {
        let asked = server::call_caps(op::PeerBell { desc, writes }, 0, 0, Caps::receive(bell));
        if let (Ok((_, 1)), Some(lent)) = (asked, io.fds.rings.at_mut(ring)) {
            lent.has_bell = true;
        }
    }
    if invoke(bell, cap::Notify { bits: NOTE_PEER }).is_err() {
        // Nobody hears it there, or there is none: the server has whoever waits look.
        let _ = server::call(op::WakePeer { desc, writes });
    }
}

/// Reads what there is; `now`: without waiting for it. `None`: by a request.
#[inline]
pub fn read(io: &mut Io, desc: u32, to: &mut Cursor, now: bool) -> Option<Result<u64>> {
    loop {
        let seen = look(io, Which { desc, writes: false })?;
        if seen.part.bytes > 0 {
            let before = to.clone();
            let done = read_part(io, &seen, to);
            if done.is_none() {
                *to = before;
            }
            return done;
        }
        if watched::was_taken_back(io, &seen) {
            return Some(Err(Errno::ECONNRESET));
        }
        if now || io.fds.rings.at(seen.ring)?.idle == lent_end::FAILS {
            // Who writes there has the other end, and nothing else is in it.
            return Some(Err(Errno::EAGAIN));
        }
        match sleep(io, &seen)? {
            Ok(()) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

#[inline]
fn read_part(io: &mut Io, seen: &Seen, to: &mut Cursor) -> Option<Result<u64>> {
    seen.set_used(io, true)?;
    let mut total = 0;
    for piece in seen.part.pieces(to.left().min(RING as u64) as usize) {
        let moved = to.scatter_from(&mut io.mm, bytes(seen.ring, piece));
        total += moved.bytes;
        match moved.short {
            Some(Short::Program(error)) if total == 0 => {
                seen.set_used(io, false)?;
                return Some(Err(error));
            }
            Some(Short::Window) => {
                seen.set_used(io, false)?;
                return None;
            }
            Some(Short::Program(_)) => break,
            None => {}
        }
    }
    seen.moved(io, total)?;
    Some(Ok(total as u64))
}

/// Writes the first `wanted` bytes of the data area, once there is room for all of them. `None`: by a request.
#[inline]
pub fn write(io: &mut Io, desc: u32, wanted: usize) -> Option<Result<()>> {
    loop {
        let which = Which { desc, writes: true };
        let seen = look(io, which).filter(|_| wanted <= MOST_WRITTEN)?;
        if seen.part.bytes >= wanted {
            return write_part(io, &seen, wanted).map(Ok);
        }
        match sleep(io, &seen)? {
            Ok(()) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

#[inline]
fn write_part(io: &mut Io, seen: &Seen, wanted: usize) -> Option<()> {
    let mut from = server::data(wanted);
    for piece in seen.part.pieces(wanted) {
        let copied = bytes(seen.ring, piece).copy_from(from);
        if copied.fault.is_some() {
            io.fds.rings.give_back(seen.ring);
            return None;
        }
        from = from.skip(piece.1);
    }
    seen.moved(io, wanted)
}

/// Sleeps until the other end has done something, if this end waits. `None`: a request is to be made.
///
/// # Errors
/// A signal has come.
#[cold]
#[inline(never)]
fn sleep(io: &mut Io, seen: &Seen) -> Option<Result<()>> {
    let lent = *io.fds.rings.at(seen.ring)?;
    if lent.idle != lent_end::SLEEPS || lent.thread != area::own_index() {
        return None;
    }
    let asleep = seen.end.lie_down().ok()?;
    if !matches!(seen.end.look(), Ok(Found::Open(part)) if part == seen.part) {
        return seen.end.get_up(asleep).ok().map(Ok);
    }
    if signal::is_interrupted(&io.me) {
        let _ = seen.end.get_up(asleep);
        return Some(Err(restart(Errno::EINTR)));
    }
    server::header().sleeps.store(1, Relaxed);
    let released = lock::release(io);
    // Whatever ends the wait, the caller looks again.
    let _ = invoke(area::own_dispatcher(), cap::Wait {});
    drop(released);
    server::header().sleeps.store(0, Relaxed);
    // It may have been long ago.
    time::look();
    let lent = io.fds.rings.at(seen.ring).filter(|lent| lent.number == seen.number)?;
    lent.end(seen.ring).get_up(asleep).ok().map(Ok)
}

/// Writes at most so many bytes as are not mixed with others, of which there are some.
pub fn write_few(io: &mut Io, desc: u32, from: &mut impl Source) -> Result<u64> {
    let room = server::data(from.left() as usize);
    let wanted = from.gather_to(io, room).some()?;
    if wanted == 0 {
        return Ok(0);
    }
    if let Some(done) = write(io, desc, wanted) {
        return done.map(|()| wanted as u64);
    }
    note(io, desc, true);
    stream::write_filled(io, desc, wanted)
}

/// An end was used by a request for a few bytes: it is asked for when that has been so several times.
#[inline]
pub fn note(io: &mut Io, desc: u32, writes: bool) {
    let which = Which { desc, writes };
    let used = &mut io.fds.rings.uses[which.place()];
    if used.which != which {
        *used = Use { which, ..NEVER };
    }
    used.count += 1;
    if used.count >= used.enough {
        (used.count, used.enough) = (0, used.enough.saturating_mul(2));
        ask(io, which);
    }
}

/// Asks for an end.
#[cold]
#[inline(never)]
fn ask(io: &mut Io, which: Which) {
    let rings = &mut io.fds.rings;
    if rings.find(which).is_some() || rings.lent.try_reserve(1).is_err() {
        return;
    }
    let free = rings.lent.iter().position(Option::is_none);
    let ring = free.unwrap_or(rings.lent.len());
    if ring == RINGS {
        return;
    }
    if home::is_elsewhere() || company::is_there() || prepare(io, ring).is_err() {
        return;
    }
    let Which { desc, writes } = which;
    let request = op::LendEnd { desc, writes };
    let asked = server::call_caps(request, 0, 0, Caps::receive(slot(ring, 0)));
    let Ok((end, count)) = asked else { return };
    if count != CAPS_SENT || show(ring, writes).is_err() {
        let _ = server::call(op::ReturnEnd { desc, writes });
        return io.fds.rings.drop_ring(ring);
    }
    let file = if writes { None } else { watched::file_of(&io.fds, which, ring) };
    let rings = &mut io.fds.rings;
    rings.streams += usize::from(file.is_some());
    rings.number = rings.number.wrapping_add(1);
    let lent = Lent {
        which,
        number: rings.number,
        idle: end.idle,
        thread: area::own_index(),
        woken: 0,
        has_bell: false,
        is_used: false,
        file,
    };
    match rings.lent.get_mut(ring) {
        Some(place) => *place = Some(lent),
        None => rings.lent.push(Some(lent)),
    }
}

/// Makes the tables up to that for a ring, as far as there are none.
fn prepare(io: &mut Io, ring: usize) -> Result<()> {
    while io.fds.rings.tables <= ring * WINDOWS * RING / TABLE_BYTES {
        let Files { fds, mm } = io.files();
        fds.windows.make_table_of_rings(&mut mm.caps.arena, fds.rings.tables as u32)?;
        fds.rings.tables += 1;
    }
    Ok(())
}

/// Shows a ring of which the capabilities have come, and is notified from now on.
fn show(ring: usize, writes: bool) -> core::result::Result<(), Status> {
    let map = |window: u32, bytes, flags| {
        let place = Place::own(slot(ring, window));
        AREA.map(ring * WINDOWS + window as usize, place, 0, bytes, flags)
    };
    map(0, RING as u64, if writes { RW } else { R })?;
    map(1, PAGE, RW)?;
    map(2, PAGE, R)?;
    invoke(slot(ring, BELL), cap::Listen { bits: NOTE_PEER })
}
