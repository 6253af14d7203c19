//! What is read of regular files, and written to them, without the lock of the library.
//!
//! Reads, writes and seeks with the lock leave behind which file a descriptor names and where a piece of it is shown. The next ones
//! find that, use it, and look whether it still holds; whoever does not find it, or finds that it has changed, begins again
//! with the lock. How many bytes a file has, `unixd` [shows](server::shown_files).
//!
//! * A window is about to show something else, or nothing: the [epoch](EPOCH) ends first. What was copied from it meanwhile
//!   is copied again.
//! * A descriptor is closed, or names another file: its record is emptied first. A read that has found it before comes
//!   before that.
//! * A write through a window is [known](writers) to who is about to have the window show something else, and to who is about to write to the
//!   same bytes. It is made only to files that are [lent](unixproto::session::ShownLoan).
//! * An [offset](OFFSETS) is moved, with and without the lock, by exchanging it, so that no two reads get the same bytes.

use super::ops::{FileOps, Server};
use super::{Fds, File};
use crate::errno::Errno;
use crate::mm::user;
use crate::server::{self, op};
use crate::signal::Own;
use crate::sys::time;
use crate::thread::{company, lock};
use abi::Regs;
use core::sync::atomic::{fence, AtomicU64, Ordering};
use glance::{Epoch, Offset, Record, Seen};
use libos::guarded::Memory;
use linuxabi::iovec::MAX_RW;
use unixproto::files::{Kind, SEEK_CUR, SEEK_SET};

use super::windows::WINDOW_BYTES;
use super::writers::{self, Writing};

const FILES: usize = 32;
const PIECES: usize = 32;
const OFFSETS: usize = 128;

const fn zero() -> AtomicU64 {
    AtomicU64::new(0)
}

/// Which files descriptors name, by descriptor: descriptor and place, inode and description. Zero: nothing is known.
static NAMED: [Record<AtomicU64, 2>; FILES] =
    [const { Record::new(zero(), [const { zero() }; 2]) }; FILES];
/// Where pieces of files are shown: epoch, inode, layout (and whether they can be written there), start and end in the file, address.
static SHOWN: [Record<AtomicU64, 6>; PIECES] =
    [const { Record::new(zero(), [const { zero() }; 6]) }; PIECES];
/// Beside the layout: the piece can be written.
const STORES: u64 = 1 << 32;
/// What windows show.
static EPOCH: Epoch<AtomicU64> = Epoch::new(AtomicU64::new(1));
/// Offsets that the library keeps, by the places of files.
static KEPT: [Offset<AtomicU64>; OFFSETS] = [const { Offset::new(zero()) }; OFFSETS];

/// The place for the offset of a file, if it has one: the others are kept with the lock only.
pub fn kept(index: u32) -> Option<&'static Offset<AtomicU64>> {
    KEPT.get(index as usize)
}

/// A window is about to show something else. Returns when nobody writes through any that was found before.
pub fn change_windows() {
    EPOCH.end();
    writers::wait_for_all();
}

/// A descriptor is about to name another file, or none.
pub fn forget(fd: i32) {
    let record = &NAMED[fd as usize % FILES];
    if record.read().is_some_and(|[named, _]| named as u32 == fd as u32 + 1) {
        record.write([0; 2]);
    }
}

/// All descriptors are about to name other files.
pub fn forget_all() {
    EPOCH.end();
    NAMED.iter().for_each(|record| record.write([0; 2]));
    KEPT.iter().for_each(|offset| offset.begin(None));
}

/// From now on nothing is read without the lock: several processes have descriptors.
pub fn stop() {
    NAMED.iter().for_each(|record| record.write([0; 2]));
}

/// What is known of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Named([u64; 2]);

impl Named {
    const READABLE: u64 = 1 << 32;
    const WRITABLE: u64 = 1 << 33;
    /// Where the place of the file begins.
    const INDEX: u32 = 34;

    #[inline(always)]
    fn of(fd: u64) -> Option<Named> {
        let fd = fd as u32;
        let words = NAMED[fd as usize % FILES].read()?;
        (words[0] as u32 == fd.wrapping_add(1) && fd as i32 >= 0).then_some(Named(words))
    }
    #[inline(always)]
    fn is_readable(self) -> bool {
        self.0[0] & Named::READABLE != 0
    }
    #[inline(always)]
    fn is_writable(self) -> bool {
        self.0[0] & Named::WRITABLE != 0
    }
    #[inline(always)]
    fn inode(self) -> u64 {
        (self.0[1] as u32).into()
    }
    #[inline(always)]
    fn desc(self) -> u32 {
        (self.0[1] >> 32) as u32
    }
    /// Its offset, if it is kept here: that of this file, since the descriptor names it afterwards, too.
    #[inline(always)]
    fn offset(self, fd: u64) -> Option<(&'static Offset<AtomicU64>, Seen)> {
        let place = KEPT.get((self.0[0] >> Named::INDEX) as usize)?;
        let seen = place.get()?;
        (Named::of(fd) == Some(self)).then_some((place, seen))
    }
}

/// A file was used by a descriptor: if it is regular, that is known from now on.
#[inline]
pub fn note<K: FileOps>(kind: &K, fd: i32, index: u32, file: &File) {
    if !matches!(K::SERVED, Some(Kind::Regular)) {
        return;
    }
    let ([Some(inode), _], Server::Unixd([desc, _])) = (kind.windows(), kind.server()) else {
        return;
    };
    if fd >= 0 && !company::is_there() {
        let readable = if file.readable() { Named::READABLE } else { 0 };
        let writable = if file.writable() { Named::WRITABLE } else { 0 };
        let named = u64::from(fd as u32 + 1) | readable | writable;
        let named = named | u64::from(index) << Named::INDEX;
        let inode = u64::from(desc) << 32 | inode & u64::from(u32::MAX);
        let record = &NAMED[fd as usize % FILES];
        if record.read() != Some([named, inode]) {
            record.write([named, inode]);
        }
    }
}

/// The inode of the file that a descriptor names, if that is known.
#[inline(always)]
pub fn inode_of(fd: u64) -> Option<u64> {
    Named::of(fd).map(Named::inode)
}

#[inline(always)]
fn shown(inode: u64, offset: u64) -> &'static Record<AtomicU64, 6> {
    &SHOWN[(inode ^ (offset / WINDOW_BYTES)) as usize % PIECES]
}

/// Bytes `start..end` of a file are at an address now, where they can be read, or also be written.
pub fn note_piece(
    (inode, layout, offset): (u64, u32, u64),
    (start, end): (u64, u64),
    (address, writable): (u64, bool),
) {
    let how = u64::from(layout) | if writable { STORES } else { 0 };
    let words = [EPOCH.now(), inode, how, start, end, address];
    let record = shown(inode, offset);
    // Word by word: as arrays they would be compared by a function, byte by byte at its end.
    let differ =
        |was: [u64; 6]| was.iter().zip(words).fold(0, |all, (was, is)| all | (was ^ is)) != 0;
    if record.read().is_none_or(differ) {
        record.write(words);
    }
}

/// Copies from a file what there is at an offset. `None`: it has come to nothing, or others have changed what it was
/// copied from.
#[inline]
fn copy(inode: u64, offset: u64, buffer: u64, len: u64) -> Option<u64> {
    let files = server::shown_files();
    let known = files.file(inode).get(inode);
    let (layout, size) = known.or_else(|| files.loan(inode).readable(inode))?;
    let bytes = len.min(MAX_RW).min(size.checked_sub(offset)?);
    let [epoch, of, in_layout, start, end, address] = shown(inode, offset).read()?;
    let is_it = of == inode && in_layout as u32 == layout && start <= offset;
    if !is_it || bytes == 0 || offset + bytes > end || !EPOCH.is(epoch) {
        return None;
    }
    // SAFETY: in the part of the address space where nothing but windows is.
    let from = unsafe { Memory::new(address + (offset - start), bytes as usize) };
    user::fill(buffer, from)?;
    // What was copied was read before.
    fence(Ordering::SeqCst);
    let is_told = known.is_some() || files.loan(inode).was_read(inode, time::realtime);
    (is_told && EPOCH.is(epoch)).then_some(bytes)
}

/// `pread64` without the lock.
pub fn own_pread(_: &mut Own, regs: &Regs) -> Option<u64> {
    let named = Named::of(regs.rdi).filter(|named| named.is_readable())?;
    copy(named.inode(), regs.r10, regs.rsi, regs.rdx)
}

/// `read` without the lock.
pub fn own_read(_: &mut Own, regs: &Regs) -> Option<u64> {
    let named = Named::of(regs.rdi).filter(|named| named.is_readable())?;
    let (place, seen) = named.offset(regs.rdi)?;
    let done = copy(named.inode(), seen.offset(), regs.rsi, regs.rdx)?;
    place.replace(seen, seen.offset() + done).then_some(done)
}

/// Most bytes that are written without the lock: whoever has a window show something else waits that long.
const MOST_WRITTEN: u64 = 64 * 1024;
/// How often threads that write to one file at the same time try to say so.
const TRIES: u32 = 8;

/// Copies to a file that is lent what the program has, inside of its size. `None`: nothing has happened, or the same bytes are to be written
/// again with the lock.
#[inline]
fn put(named: Named, offset: u64, buffer: u64, len: u64) -> Option<u64> {
    let (inode, desc) = (named.inode(), named.desc());
    let lent = server::shown_files().loan(inode);
    let mut loan = lent.get(inode, desc)?;
    let [epoch, of, how, start, end, address] = shown(inode, offset).read()?;
    let is_it = of == inode && how == u64::from(loan.layout) | STORES && start <= offset;
    let last = offset.checked_add(len)?;
    if !is_it || len == 0 || len > MOST_WRITTEN || last > loan.size.min(end) {
        return None;
    }
    let writing = Writing::begin(inode, (offset, last))?;
    // From here on who changes windows waits.
    if !EPOCH.is(epoch) {
        return None;
    }
    let mut tries = TRIES;
    while !lent.write(loan, time::realtime()) {
        tries = tries.checked_sub(1)?;
        loan = lent
            .get(inode, desc)
            .filter(|now| (now.size, now.layout) == (loan.size, loan.layout))?;
    }
    // SAFETY: in the part of the address space where nothing but windows is.
    let to = unsafe { Memory::new(address + (offset - start), len as usize) };
    user::spill(buffer, to)?;
    drop(writing);
    if lent.get(inode, desc).is_none() {
        // Somebody may have begun to watch the file before all was there.
        let _ = server::call(op::Wrote { desc });
    }
    Some(len)
}

/// `pwrite64` without the lock.
pub fn own_pwrite(_: &mut Own, regs: &Regs) -> Option<u64> {
    let named = Named::of(regs.rdi).filter(|named| named.is_writable())?;
    put(named, regs.r10, regs.rsi, regs.rdx)
}

/// `write` without the lock. Of several threads each writes behind what the one before has written: they take turns by the lock.
pub fn own_write(_: &mut Own, regs: &Regs) -> Option<u64> {
    if lock::is_shared() {
        return None;
    }
    let named = Named::of(regs.rdi).filter(|named| named.is_writable())?;
    let (place, seen) = named.offset(regs.rdi)?;
    let to = seen.offset().checked_add(regs.rdx).filter(|to| *to <= glance::MOST)?;
    let done = put(named, seen.offset(), regs.rsi, regs.rdx)?;
    // Nobody else is there who could have moved it.
    place.replace(seen, to);
    Some(done)
}

/// `lseek` without the lock.
pub fn own_lseek(_: &mut Own, regs: &Regs) -> Option<u64> {
    let named = Named::of(regs.rdi)?;
    let (place, seen) = named.offset(regs.rdi)?;
    let new = match regs.rdx as u32 {
        SEEK_SET => regs.rsi as i64,
        SEEK_CUR => (seen.offset() as i64).checked_add(regs.rsi as i64)?,
        _ => return None,
    };
    let new = u64::try_from(new).ok()?;
    place.replace(seen, new).then_some(new)
}

/// Where a read begins that moves the offset.
#[derive(Clone, Copy)]
pub enum Start {
    /// At an offset that threads move without the lock.
    Seen(Seen),
    /// At one that nobody moves without it.
    At(u64),
}

impl Start {
    /// The offset.
    pub fn offset(self) -> u64 {
        match self {
            Start::Seen(seen) => seen.offset(),
            Start::At(offset) => offset,
        }
    }
}

impl Fds {
    /// The offset of a file was seen, and moves. `false`: somebody else has moved it meanwhile.
    pub fn move_offset(&mut self, index: u32, from: Start, to: u64) -> bool {
        if let (Start::Seen(seen), Some(place)) = (from, kept(index)) {
            if to <= glance::MOST {
                return place.replace(seen, to);
            }
        }
        self.keep_offset(index, to);
        true
    }
}

/// Moves the offset as `how` says.
pub fn seek(
    fds: &mut Fds,
    index: u32,
    mut start: Start,
    how: impl Fn(u64) -> Result<u64, Errno>,
) -> Result<u64, Errno> {
    loop {
        let new = how(start.offset())?;
        if fds.move_offset(index, start, new) {
            return Ok(new);
        }
        // It was there, and nobody but who has the lock takes it away.
        start = fds.kept_offset(index).unwrap_or(Start::At(new));
    }
}
