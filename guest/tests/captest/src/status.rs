//! Accessed and dirty bits: read from memory, in a page table that is mapped as a page, and cleared
//! so that nothing the processor does afterwards is missed.

use crate::probe::{make_tables, PD, PT, PT_MAPPING, VA};
use crate::setup::{slot, Lab};
use crate::Test;
use libos::captypes::invocations::StatusBits;
use libos::status::TableView;
use libos::vspace::{R, RW, RWX};
use libos::{Cap, CapType, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("status_bits_from_memory", from_memory),
    ("status_bits_cleared_in_cache", cleared_in_cache),
    ("status_bits_of_shared_table", of_shared_table),
    ("status_bits_of_large_pages", of_large_pages),
    ("status_bits_refused", refused),
];

/// Pages under test.
const PAGES: u32 = 64;
/// The entry at which the table maps itself.
const VIEW: u32 = 511;

fn write(va: u64) {
    // SAFETY: callers have mapped a page of the laboratory's there.
    unsafe { core::ptr::write_volatile(va as *mut u64, va) }
}

fn read(va: u64) -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(va as *const u64) }
}

const fn page(n: u32) -> u64 {
    VA + n as u64 * PAGE
}

/// Frames at the first entries of the table, and the table itself at the last one.
fn view(lab: &mut Lab) -> Result<TableView<'static>, Status> {
    make_tables(lab)?;
    lab.make(CapType::Frame, 0, PAGES as u64 * PAGE, slot(0))?;
    PT.map(0, PAGES, slot(0), 0, RW, slot(1))?;
    PT.map(VIEW, 1, PT, 0, R, slot(2))?;
    // SAFETY: mapped a moment ago, until the test is over; nobody keeps the view.
    Ok(unsafe { TableView::at(page(VIEW) as *const _) })
}

fn from_memory(lab: &mut Lab) -> Outcome {
    let view = good!(view(lab));
    check!(view.dirty().next().is_none());
    read(page(3));
    write(page(5));
    check!(view.is_accessed(3) && !view.is_dirty(3));
    check!(view.is_accessed(5) && view.is_dirty(5));
    check!(view.is_present(6) && !view.is_accessed(6) && !view.is_present(PAGES));
    check!(view.dirty().eq([5]));
    check!(view.accessed().eq([3, 5, VIEW]));
    // The same through the kernel.
    check!(good!(PT.read_entry(5)) & 0x60 == 0x60);
    Ok(())
}

/// Bits of pages whose translations are cached are set again by the next use.
fn cleared_in_cache(lab: &mut Lab) -> Outcome {
    let view = good!(view(lab));
    (0..PAGES).for_each(|n| write(page(n)));
    check!(view.dirty().count() == PAGES as usize);
    check!(good!(PT.clear_status(0, PAGES, StatusBits::DIRTY)) == PAGES);
    check!(view.dirty().next().is_none());
    check!((0..PAGES).all(|n| view.is_accessed(n)));
    for n in [0, 7, PAGES - 1] {
        write(page(n));
        check!(view.is_dirty(n));
    }
    check!(view.dirty().eq([0, 7, PAGES - 1]));
    check!(good!(PT.clear_status(0, PAGES, StatusBits::DIRTY)) == 3);
    check!(good!(PT.clear_status(0, PAGES, StatusBits::DIRTY)) == 0);
    // A part only, and the other bit.
    check!(good!(PT.clear_status(8, 8, StatusBits::ALL)) == 8);
    check!((0..PAGES).all(|n| view.is_accessed(n) != (8..16).contains(&n)));
    read(page(9));
    check!(view.is_accessed(9) && !view.is_accessed(10) && !view.is_dirty(9));
    check!(read(page(10)) == page(10));
    Ok(())
}

/// The bits are the table's: one that is at two addresses has them once, and clearing them forgets
/// the translations of both.
fn of_shared_table(lab: &mut Lab) -> Outcome {
    let view = good!(view(lab));
    good!(PD.map(1, 1, PT, 0, RWX, slot(3)));
    const SECOND: u64 = 2 << 20;
    write(page(1));
    write(page(1) + SECOND);
    check!(good!(PT.clear_status(0, PAGES, StatusBits::DIRTY)) == 1);
    write(page(1) + SECOND);
    check!(view.dirty().eq([1]));
    check!(good!(PT.clear_status(0, PAGES, StatusBits::DIRTY)) == 1);
    write(page(1));
    check!(view.dirty().eq([1]));
    // An upper-level entry says whether anything below it was used.
    check!(good!(PD.clear_status(0, 2, StatusBits::ACCESSED)) == 2);
    read(page(1) + SECOND);
    check!(good!(PD.read_entry(1)) & 0x20 != 0);
    Ok(())
}

fn of_large_pages(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 4 << 20, 4 << 20, slot(0)));
    good!(PD.map(2, 2, slot(0), 0, RW, slot(1)));
    good!(PT.map(0, 1, PD, 0, R, slot(2)));
    // SAFETY: mapped a moment ago, until the test is over; nobody keeps the view.
    let view = unsafe { TableView::at(VA as *const _) };
    let second = VA + (6 << 20) + 0x1_2340;
    write(second);
    check!(view.dirty().eq([3]));
    check!(good!(PD.clear_status(2, 2, StatusBits::DIRTY)) == 1);
    check!(view.dirty().next().is_none());
    write(second + 0x10_0000);
    check!(view.dirty().eq([3]));
    Ok(())
}

/// What must not be possible: clearing through a capability that may not change the table, entries
/// that are nobody's, bits that are not the processor's.
fn refused(lab: &mut Lab) -> Outcome {
    let view = good!(view(lab));
    write(page(2));
    good!(PT.mint(slot(3), Rights::READ));
    fails!(NoRights, slot(3).clear_status(0, 512, StatusBits::ALL));
    fails!(OutOfRange, PT.clear_status(512, 1, StatusBits::ALL));
    fails!(OutOfRange, PT.clear_status(500, 13, StatusBits::ALL));
    fails!(OutOfRange, PT.clear_status(1, u32::MAX, StatusBits::ALL));
    fails!(WrongType, slot(0).clear_status(0, 1, StatusBits::ALL));
    fails!(WrongType, slot(1).clear_status(0, 1, StatusBits::ALL));
    fails!(WrongType, PT_MAPPING.clear_status(0, 1, StatusBits::ALL));
    // Present and writable are no status bits.
    fails!(Invalid, PT.clear_status(0, 512, StatusBits(4)));
    check!(view.is_dirty(2));
    // The table stays read-only through every way of asking for more.
    fails!(NoRights, slot(2).protect(0, 1, RW));
    fails!(NoRights, slot(2).protect_many(1, RW));
    fails!(NoRights, PT.map(VIEW - 1, 1, PT, 0, RW, slot(4)));
    fails!(NoRights, PT.map(VIEW - 1, 1, PT, 0, RWX, slot(4)));
    Ok(())
}
