//! The library's own memory: private pages (data, stack, heap).
//!
//! It has RAM of its own, apart from that of program memory: the heap may have to grow while any
//! other part of the library's state is being changed.

use super::arena::Arena;
use abi::layout::*;
use core::cell::UnsafeCell;
use captypes::invocations::MapFlags;
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Place, Status};
use libos::ram::Ram;
use libos::Cap;
use linuxdomain::{own, page_slot, Image, LIBRARY_TABLES_L1, MAPPINGS, MAX_PRIVATE, RWX};

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

/// What the library has mapped for itself.
pub struct Library {
    ram: Arena,
    /// Private pages, the heap's included. Zero before the first look.
    pages: u32,
    /// Last-level tables beyond the first 2 MiB, by slot.
    tables: u32,
    /// Does the CNode for those exist?
    has_node: bool,
}

/// Regions of 2 MiB that the heap may reach.
const HEAP_TABLES: u32 = 32;

impl Library {
    /// As a domain starts.
    pub const fn new() -> Self {
        Library { ram: Arena::new(own::HEAP_RAM), pages: 0, tables: 0, has_node: false }
    }

    /// Private pages.
    pub fn pages(&self) -> u32 {
        self.pages.max(image().private_pages())
    }

    /// Adds `count` pages at the end of the heap. Answers where they start.
    pub fn grow_heap(&mut self, count: u32) -> Result<u64, Status> {
        let image = image();
        let first = self.pages();
        if first + count > MAX_PRIVATE {
            return Err(Status::NoMemory);
        }
        let mut index = first;
        while index < first + count {
            let va = image.private_va(index);
            let table = self.table(va)?;
            // Up to the end of the CNode and of the table.
            let in_node = MAPPINGS - index % MAPPINGS;
            let in_table = 512 - (va / PAGE % 512) as u32;
            let here = (first + count - index).min(in_node).min(in_table);
            let slot = page_slot(index);
            if slot.l2() == 0 && slot.l1() != 1 {
                self.ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(CapAddr::NULL, slot.l1()))?;
            }
            self.ram.make(CapType::Frame, PAGE, here, slot.into())?;
            linuxdomain::map_private(CapAddr::NULL, table.into(), &image, index, index + here)?;
            index += here;
            self.pages = index;
        }
        Ok(image.private_va(first))
    }

    /// The last-level table for `va` in the library's part.
    pub fn table(&mut self, va: u64) -> Result<CapAddr, Status> {
        let region = (va - LIBRARY_IMAGE) >> 21;
        if region == 0 {
            return Ok(own::PT);
        }
        if region >= HEAP_TABLES as u64 {
            return Err(Status::OutOfRange);
        }
        let slot = CapAddr::new(LIBRARY_TABLES_L1, region as u32);
        if self.tables >> region & 1 == 0 {
            if !self.has_node {
                let node = Place::l1(CapAddr::NULL, LIBRARY_TABLES_L1);
                self.ram.make(CapType::L2CNode, L2_BYTES, 1, node)?;
                self.has_node = true;
            }
            self.ram.make(CapType::Pt, PAGE, 1, slot.into())?;
            own::PD.map(region as u32, 1, slot, 0, RWX, slot.plus(MAPPINGS))?;
            self.tables |= 1 << region;
        }
        Ok(slot)
    }

    /// The state of a child, which has no RAM yet.
    pub fn after_fork(&mut self) {
        self.ram = Arena::new(own::HEAP_RAM);
    }

    /// Tables of the heap behind the first 2 MiB.
    fn far_tables(&self) -> impl Iterator<Item = u32> {
        let tables = self.tables;
        (0..HEAP_TABLES).filter(move |index| tables >> index & 1 != 0)
    }

    /// Makes the tables for heap pages behind the first 2 MiB in a child.
    pub fn share_tables(
        &self,
        ram: &mut impl Ram,
        child: CapAddr,
    ) -> Result<(), Status> {
        if self.tables == 0 {
            return Ok(());
        }
        ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(child, LIBRARY_TABLES_L1))?;
        for index in self.far_tables() {
            let slot = CapAddr::new(LIBRARY_TABLES_L1, index);
            let place = Place::within(child, slot);
            ram.make(CapType::Pt, PAGE, 1, place)?;
            let mapping = Place::within(child, slot.plus(MAPPINGS));
            Place::within(child, own::PD).map(index, 1, place, 0, RWX, mapping)?;
        }
        Ok(())
    }

    /// Maps those pages in a child.
    pub fn map_far_pages(&self, child: CapAddr) -> Result<(), Status> {
        let image = image();
        let near = linuxdomain::first_table_pages(&image);
        for index in self.far_tables() {
            let table = Place::within(child, CapAddr::new(LIBRARY_TABLES_L1, index));
            let first = near + (index - 1) * 512;
            let end = (first + 512).min(self.pages());
            linuxdomain::map_private(child, table, &image, first, end)?;
        }
        Ok(())
    }
}
