//! Windows on files that are Morsels: each shows 2 MiB of one, by one entry. What of it is missing is made by the kernel when
//! it is touched, so that nothing is asked and nothing is mapped again as the file grows and shrinks.
//!
//! The Parts are in the L2CNode of the other windows ([`mod@super::place`]), in the slots from 96 on, with their Mappings 128
//! behind. A forked child starts without any of it.

use super::glance;
use super::place::{errno, FIRST_PART};
use crate::errno::{Errno, Result};
use abi::layout::{LIBRARY_THREADS, LIBRARY_WINDOWS, PAGE};
use captypes::{CapAddr, Status};
use ephemeral::{Look, Looks, NoLook};
use libos::morsel::MorselCap;
use libos::vspace::{entry_of, table_bytes, R, RW};
use libos::Cap;
use linuxdomain::{own, MAPPINGS};

/// How many there are.
pub const PARTS: usize = 16;
/// Bytes of each.
pub const PART_BYTES: u64 = table_bytes(1);
/// Where they are: behind the other windows.
const AREA: u64 = LIBRARY_WINDOWS + super::place::WINDOWS as u64 * super::place::WINDOW_BYTES;

const _: () = assert!(AREA.is_multiple_of(PART_BYTES));
const _: () = assert!(AREA + PARTS as u64 * PART_BYTES <= LIBRARY_THREADS);

/// What a window shows of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The file.
    pub inode: u64,
    /// First byte in the file, a multiple of [`PART_BYTES`].
    pub start: u64,
    /// May it be written?
    pub writable: bool,
    /// The slot of the Morsel, while it is asked for.
    morsel: CapAddr,
}

/// The windows.
pub struct Places;

/// All of them.
pub type Parts = Looks<Places, PARTS>;

fn part(window: usize) -> CapAddr {
    FIRST_PART.plus(window as u32)
}

fn number(inode: u64, start: u64) -> u64 {
    inode.rotate_left(24) ^ (start / PART_BYTES)
}

impl ephemeral::Places for Places {
    type Piece = Stretch;
    type Error = Status;

    fn number(stretch: &Stretch) -> u64 {
        number(stretch.inode, stretch.start)
    }
    fn is_kept(_: &Stretch) -> bool {
        true
    }
    fn address(&self, window: usize) -> usize {
        (AREA + window as u64 * PART_BYTES) as usize
    }

    fn show(&mut self, window: usize, stretch: &Stretch) -> core::result::Result<(), Status> {
        self.forget(window);
        let part = part(window);
        stretch.morsel.part(stretch.start / PAGE, 1, part)?;
        let entry = entry_of(2, self.address(window) as u64);
        let flags = if stretch.writable { RW } else { R };
        own::PD.map(entry, 1, part, 0, flags, part.plus(MAPPINGS)).inspect_err(|_| part.discard())
    }
    fn hide(&mut self, window: usize) {
        self.forget(window);
    }
    fn forget(&mut self, window: usize) {
        glance::change_windows();
        part(window).plus(MAPPINGS).discard();
        part(window).discard();
    }
}

/// A look at a file that was looked at there before.
#[inline]
pub fn find(parts: &mut Parts, inode: u64, offset: u64, write: bool) -> Option<Look<Stretch>> {
    let start = offset & !(PART_BYTES - 1);
    parts.find(number(inode, start), |stretch| {
        stretch.inode == inode && stretch.start == start && (stretch.writable || !write)
    })
}

/// A look at a file of which the Morsel is in a slot, which can be emptied then.
pub fn look(
    parts: &mut Parts,
    (inode, offset): (u64, u64),
    writable: bool,
    morsel: CapAddr,
) -> Result<Look<Stretch>> {
    let stretch = Stretch { inode, start: offset & !(PART_BYTES - 1), writable, morsel };
    parts.look(stretch).map_err(|refused| match refused {
        NoLook::Busy => Errno::EIO,
        // The file has been truncated since its Morsel came.
        NoLook::Refused(Status::OutOfRange) => Errno::ESTALE,
        // It is a page of 2 MiB itself.
        NoLook::Refused(Status::Unsupported) => Errno::EOPNOTSUPP,
        // There is no page for the tables of this part.
        NoLook::Refused(Status::NoMemory) => Errno::ENOSPC,
        NoLook::Refused(status) => errno(status),
    })
}
