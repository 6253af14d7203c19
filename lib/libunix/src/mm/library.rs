//! The library's own memory: data, stack and heap, in pieces.
//!
//! It has RAM of its own, apart from that of program memory: the heap may have to grow while any
//! other part of the library's state is being changed.

use super::arena::Arena;
use abi::layout::*;
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Place, Status};
use core::cell::UnsafeCell;
use libos::ram::Ram;
use libos::{invoke, Cap};
use linuxdomain::{
    map_piece, own, piece_node, piece_slot, Image, HEAP_PAGES, LIBRARY_TABLES_L1, MAPPINGS, PIECES,
    RWX,
};

struct TheLibrary(UnsafeCell<Library>);

// SAFETY: one thread, see `process::current`.
unsafe impl Sync for TheLibrary {}

static LIBRARY: TheLibrary = TheLibrary(UnsafeCell::new(Library::new()));

/// Lets `f` use the library's own memory. `f` must not allocate: growing the heap comes here too.
pub fn with<R>(f: impl FnOnce(&mut Library) -> R) -> R {
    // SAFETY: nothing below `f` calls `with` again, as `f` does not allocate.
    f(unsafe { &mut *LIBRARY.0.get() })
}

extern "C" {
    static __image_start: u8;
    static __rodata_start: u8;
    static __data_start: u8;
    static __image_end: u8;
}

/// Where the parts of the own image are.
pub fn image() -> Image {
    let page = |symbol: *const u8| ((symbol as u64 - LIBRARY_IMAGE) / PAGE) as u32;
    Image {
        text: page(&raw const __image_start),
        rodata: page(&raw const __rodata_start),
        data: page(&raw const __data_start),
        end: page(&raw const __image_end),
    }
}

/// A Frame of private memory.
struct Piece {
    va: u64,
    pages: u32,
}

/// What the library has mapped for itself.
pub struct Library {
    ram: Arena,
    /// Pages of the pieces that were added to the first one, one behind the other, less one.
    added: [u8; PIECES as usize - 1],
    count: u32,
    /// Pages of all pieces, once any was added.
    total: u32,
    /// Last-level tables beyond the first 2 MiB, by slot.
    tables: u128,
}

/// Most pages of a piece: what one invocation copies. The heap also grows by no more than this at a
/// time, unless more is asked for.
const MOST: u32 = 256;

/// Where the heap begins, and how much of it the first piece has.
pub fn first_heap() -> (u64, u64) {
    (image().heap_start(), HEAP_PAGES as u64 * PAGE)
}

fn region(va: u64) -> u32 {
    ((va - LIBRARY_START) >> 21) as u32
}

/// The last-level table of a region, made already.
fn table_slot(region: u32) -> CapAddr {
    match region {
        0 => own::PT,
        _ => CapAddr::new(LIBRARY_TABLES_L1, region),
    }
}

impl Library {
    /// As a domain starts.
    pub const fn new() -> Self {
        let ram = Arena::new(own::HEAP_RAM);
        Library { ram, added: [0; PIECES as usize - 1], count: 0, total: 0, tables: 0 }
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let image = image();
        let added = self.added.iter().take(self.count as usize).map(|&pages| pages as u32 + 1);
        core::iter::once(image.first_pages()).chain(added).scan(
            image.private_start(),
            |va, pages| {
                let piece = Piece { va: *va, pages };
                *va += pages as u64 * PAGE;
                Some(piece)
            },
        )
    }

    /// Pages of all pieces.
    pub fn pages(&self) -> u32 {
        self.total.max(image().first_pages())
    }

    /// Adds at least `count` pages at the end of the heap, or none. Answers how many.
    pub fn grow_heap(&mut self, count: u32) -> Result<u32, Status> {
        let wanted = count.max((self.pages() / 2).min(MOST));
        let (mut done, mut most) = (0, MOST);
        while done < count {
            let va = image().private_start() + self.pages() as u64 * PAGE;
            let in_table = 512 - (va / PAGE % 512) as u32;
            let pages = (wanted - done).min(in_table).min(most);
            match self.add_piece(Piece { va, pages }) {
                Ok(()) => done += pages,
                // Perhaps there are smaller ones.
                Err(Status::NoMemory) if pages > 1 => most = pages / 2,
                // What was added stays: the next try goes on from there.
                Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
            }
        }
        Ok(done)
    }

    fn add_piece(&mut self, piece: Piece) -> Result<(), Status> {
        let index = self.count + 1;
        let end = piece.va + piece.pages as u64 * PAGE;
        if index >= PIECES || end > LIBRARY_WINDOWS {
            return Err(Status::NoSlot);
        }
        let table = self.table(region(piece.va))?;
        self.make_piece_node(CapAddr::NULL, index)?;
        let frame = piece_slot(index);
        self.ram.make(CapType::Frame, piece.pages as u64 * PAGE, 1, frame.into())?;
        let mapped = map_piece(CapAddr::NULL, table, index, piece.va, piece.pages);
        if mapped.is_err() {
            frame.discard();
        }
        mapped?;
        self.added[self.count as usize] = (piece.pages - 1) as u8;
        self.total = self.pages() + piece.pages;
        self.count += 1;
        Ok(())
    }

    /// Makes the CNode for a piece, if it is the first one there and has not been tried before.
    fn make_piece_node(&mut self, root: CapAddr, index: u32) -> Result<(), Status> {
        let Some(node) = piece_node(index) else { return Ok(()) };
        match self.ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(root, node)) {
            Err(Status::Occupied) => Ok(()),
            made => made,
        }
    }

    fn table(&mut self, region: u32) -> Result<CapAddr, Status> {
        let slot = table_slot(region);
        if region >= MAPPINGS {
            return Err(Status::OutOfRange);
        }
        if region != 0 && self.tables >> region & 1 == 0 {
            if self.tables == 0 {
                let node = Place::l1(CapAddr::NULL, LIBRARY_TABLES_L1);
                self.ram.make(CapType::L2CNode, L2_BYTES, 1, node)?;
            }
            self.ram.make(CapType::Pt, PAGE, 1, slot.into())?;
            let entry = (LIBRARY_START >> 21) as u32 % 512 + region;
            own::PD.map(entry, 1, slot, 0, RWX, slot.plus(MAPPINGS))?;
            self.tables |= 1 << region;
        }
        Ok(slot)
    }

    /// The state of a child, which has no RAM yet.
    pub fn after_fork(&mut self) {
        self.ram = Arena::new(own::HEAP_RAM);
    }

    /// Makes tables for heap pages behind the first 2 MiB in a child.
    pub fn share_tables(&self, ram: &mut impl Ram, child: CapAddr) -> Result<(), Status> {
        if self.tables == 0 {
            return Ok(());
        }
        ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(child, LIBRARY_TABLES_L1))?;
        for region in (1..MAPPINGS).filter(|region| self.tables >> region & 1 != 0) {
            let slot = table_slot(region);
            let place = Place::within(child, slot);
            ram.make(CapType::Pt, PAGE, 1, place)?;
            let entry = (LIBRARY_START >> 21) as u32 % 512 + region;
            let mapping = Place::within(child, slot.plus(MAPPINGS));
            Place::within(child, own::PD).map(entry, 1, place, 0, RWX, mapping)?;
        }
        Ok(())
    }

    /// Copies all pieces for a child, into RAM of an arena.
    pub fn copy_pieces(&self, ram: &mut Arena, child: CapAddr) -> Result<(), Status> {
        for (piece, index) in self.pieces().zip(0..) {
            if let Some(node) = piece_node(index) {
                ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(child, node))?;
            }
            let src = piece_slot(index).into();
            let dst = Place::within(child, piece_slot(index));
            let bytes = piece.pages as u64 * PAGE;
            let (offset, alone) = (ram.take(bytes)?, false);
            let copy = op::RetypeCopy { offset, src, src_offset: 0, dst, bytes, alone };
            invoke(ram.slot(), copy)?;
        }
        Ok(())
    }

    /// Maps them in the child.
    pub fn map_pieces(&self, child: CapAddr) -> Result<(), Status> {
        for (piece, index) in self.pieces().zip(0..) {
            map_piece(child, table_slot(region(piece.va)), index, piece.va, piece.pages)?;
        }
        Ok(())
    }
}
