//! The places of windows in the address space, and the capabilities behind them.
//!
//! All are in one L2CNode, made with the first window (`WINDOWS_L1`): Frames from slot 0 on, one more than there are
//! windows, the windows' Mappings from slot 128 on, the last-level tables of the area from slot 64 on, their Mappings
//! from slot 192 on. What slots [`mod@super::parts`] uses is said there. A forked child starts without any of it.

use super::glance;
use crate::errno::{Errno, Result};
use abi::layout::{LIBRARY_THREADS, LIBRARY_WINDOWS, PAGE};
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Place, Status};
use libos::ephemeral::Area;
use libos::ram::Ram;
use libos::vspace::{table_bytes, R, RW};
use libos::Cap;
use linuxdomain::{own, MAPPINGS, RINGS_L1, RWX, WINDOWS_L1};

/// How many there are.
pub const WINDOWS: usize = 32;
/// Bytes of each.
pub const WINDOW_BYTES: u64 = 1 << 20;

const FIRST_TABLE: CapAddr = CapAddr::new(WINDOWS_L1, 64);
/// First slot for Parts of Morsels, which have [windows of their own](super::parts).
pub const FIRST_PART: CapAddr = CapAddr::new(WINDOWS_L1, 96);
/// First slot for the capabilities of [rings](super::rings), which have an L2CNode of their own, and how many there are. Mappings are from slot 128 on.
pub const RINGS_FRAME: CapAddr = CapAddr::new(RINGS_L1, 0);
pub const RINGS_FRAMES: u32 = 120;
/// Where they are: behind the areas of threads.
pub const RINGS: u64 = LIBRARY_THREADS + 0x400_0000;
/// The first last-level table of rings, and how many there may be.
pub const RINGS_TABLE: CapAddr = CapAddr::new(RINGS_L1, RINGS_FRAMES);
pub const RINGS_TABLES: u32 = 3;
/// First entry of the area in the library's second-level table.
const FIRST_ENTRY: u32 = (LIBRARY_WINDOWS >> 21 & 511) as u32;

const _: () = assert!(WINDOWS < 64 && WINDOWS as u64 * WINDOW_BYTES <= 32 * table_bytes(1));
const _: () = assert!(FIRST_ENTRY as u64 + WINDOWS as u64 * WINDOW_BYTES / table_bytes(1) <= 512);

/// What a window shows of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The file.
    pub inode: u64,
    /// Its layout.
    pub layout: u32,
    /// Bytes, at most a window's.
    pub bytes: u32,
    /// First byte in the file. All bytes are in the same of its pieces of [`WINDOW_BYTES`].
    pub start: u64,
    /// First page in the Frame.
    pub page: u32,
    /// Which slot has the Frame.
    pub frame: u8,
    /// May it be written?
    pub writable: bool,
}

/// A number for what has a byte of a file.
#[inline]
pub fn number(inode: u64, offset: u64) -> u64 {
    inode.rotate_left(24) ^ (offset / WINDOW_BYTES)
}

/// Why something cannot be shown.
pub enum Refusal {
    /// There is no last-level table for this window yet.
    NoTable(usize),
    /// The invocation failed.
    Failed(Status),
}

/// The windows, and which tables there are already.
pub struct Places {
    area: Area<WINDOW_BYTES>,
    has_node: bool,
    /// And the one of rings.
    has_rings: bool,
    /// Bit N: table N.
    tables: u64,
    /// Bit N: window N has a Frame and, as far as it was not hidden or taken away, a Mapping.
    used: u64,
    /// Which slot each window's Frame is in, or would be.
    frames: [u8; WINDOWS],
    /// The other one, for the next Frame to come.
    spare: u8,
}

/// What an error means to a program.
pub fn errno(status: Status) -> Errno {
    match status {
        Status::NoMemory => Errno::ENOMEM,
        // The Frame has been taken away since it came, or the file was truncated.
        Status::Empty | Status::OutOfRange => Errno::ESTALE,
        _ => Errno::EIO,
    }
}

impl Refusal {
    /// What it means to a program.
    pub fn errno(&self) -> Errno {
        match self {
            Refusal::NoTable(_) => Errno::EIO,
            Refusal::Failed(status) => errno(*status),
        }
    }
}

const fn frame_slot(frame: u8) -> CapAddr {
    CapAddr::new(WINDOWS_L1, frame as u32)
}

/// Makes an L2CNode.
fn make_node(ram: &mut impl Ram, index: u32) -> Result<()> {
    ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(CapAddr::NULL, index)).map_err(errno)
}

/// Makes a last-level table for an entry of the library's part.
fn make_table(ram: &mut impl Ram, table: CapAddr, entry: u32) -> Result<()> {
    ram.make(CapType::Pt, PAGE, 1, table.into()).map_err(errno)?;
    own::PD.map(entry, 1, table, 0, RWX, table.plus(MAPPINGS)).map_err(|status| {
        table.discard();
        errno(status)
    })
}

impl Places {
    /// No window shows anything.
    pub const fn new() -> Places {
        let tables = Place::own(FIRST_TABLE);
        let mut frames = [0; WINDOWS];
        let mut window = 0;
        while window < WINDOWS {
            frames[window] = window as u8;
            window += 1;
        }
        Places {
            area: Area::new(LIBRARY_WINDOWS, tables, CapAddr::new(WINDOWS_L1, MAPPINGS)),
            has_node: false,
            has_rings: false,
            tables: 0,
            used: 0,
            frames,
            spare: WINDOWS as u8,
        }
    }

    /// Makes the node for all capabilities, if there is none.
    fn make_node(&mut self, ram: &mut impl Ram) -> Result<()> {
        if !self.has_node {
            make_node(ram, WINDOWS_L1)?;
            self.has_node = true;
        }
        Ok(())
    }

    /// Which slot is free for a Frame, and its address.
    pub fn spare(&mut self, ram: &mut impl Ram) -> Result<(u8, CapAddr)> {
        self.make_node(ram)?;
        Ok((self.spare, frame_slot(self.spare)))
    }

    /// Makes one of the tables for rings.
    pub fn make_table_of_rings(&mut self, ram: &mut impl Ram, number: u32) -> Result<()> {
        if !self.has_rings {
            make_node(ram, RINGS_L1)?;
            self.has_rings = true;
        }
        make_table(ram, RINGS_TABLE.plus(number), (RINGS >> 21 & 511) as u32 + number)
    }

    /// Makes the table for a window.
    pub fn make_table(&mut self, ram: &mut impl Ram, window: usize) -> Result<()> {
        let number = self.area.table(window);
        make_table(ram, FIRST_TABLE.plus(number), FIRST_ENTRY + number)?;
        self.tables |= 1 << number;
        Ok(())
    }

    /// What came to the spare slot is not looked at.
    pub fn drop_spare(&mut self) {
        frame_slot(self.spare).discard();
    }
}

impl ephemeral::Places for Places {
    type Piece = Piece;
    type Error = Refusal;

    #[inline(always)]
    fn number(piece: &Piece) -> u64 {
        number(piece.inode, piece.start)
    }
    #[inline(always)]
    fn is_kept(_: &Piece) -> bool {
        true
    }
    #[inline(always)]
    fn address(&self, window: usize) -> usize {
        self.area.address(window) as usize
    }

    /// The Frame is the window's from now on, if it was not before.
    fn show(&mut self, window: usize, piece: &Piece) -> core::result::Result<(), Refusal> {
        if self.tables >> self.area.table(window) & 1 == 0 {
            return Err(Refusal::NoTable(window));
        }
        if self.frames[window] != piece.frame {
            ephemeral::Places::forget(self, window);
        }
        glance::change_windows();
        let flags = if piece.writable { RW } else { R };
        let (frame, offset) = (Place::own(frame_slot(piece.frame)), u64::from(piece.page) * PAGE);
        let mapped = self.area.map(window, frame, offset, piece.bytes.into(), flags);
        mapped.map_err(Refusal::Failed)?;
        if self.frames[window] != piece.frame {
            self.spare = core::mem::replace(&mut self.frames[window], piece.frame);
        }
        self.used |= 1 << window;
        Ok(())
    }

    fn hide(&mut self, window: usize) {
        glance::change_windows();
        self.area.unmap(window);
    }

    fn forget(&mut self, window: usize) {
        if self.used >> window & 1 != 0 {
            self.used &= !(1 << window);
            glance::change_windows();
            self.area.unmap(window);
            frame_slot(self.frames[window]).discard();
        }
    }
}
