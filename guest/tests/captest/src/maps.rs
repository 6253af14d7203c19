//! Map, unmap, protect: arguments, entries, and that every way of ending a mapping ends it.

use crate::probe::{make_tables, probe, Access, PD, PDPT, PT, PT_MAPPING, VA};
use crate::setup::{slot, Lab};
use crate::Test;
use libos::abi::slots::VSPACE;
use libos::captypes::invocations::MapFlags;
use libos::vspace::{entry_of, R, RW, RWX};
use libos::{Cap, CapType, Place, Rights, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("map_entries", entries),
    ("map_arguments", arguments),
    ("map_levels", levels),
    ("map_many", many),
    ("unmap_parts", unmap_parts),
    ("unmap_by_delete", unmap_by_delete),
    ("unmap_by_revoke", unmap_by_revoke),
    ("unmap_with_table", unmap_with_table),
    ("unmap_with_slice", unmap_with_slice),
    ("protect_parts", protect_parts),
    ("protect_many", protect_many),
    ("if_exclusive", if_exclusive),
    ("table_as_page", table_as_page),
    ("large_pages", large_pages),
    ("gigantic_page", gigantic_page),
];

const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

fn present(entry: u32) -> bool {
    PT.read_entry(entry).is_ok_and(|bits| bits & PRESENT != 0)
}

fn writable(entry: u32) -> bool {
    PT.read_entry(entry).is_ok_and(|bits| bits & (PRESENT | WRITABLE) == PRESENT | WRITABLE)
}

fn entries(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 8 * PAGE, slot(0)));
    good!(PT.map(10, 4, slot(0), 2 * PAGE, RW, slot(1)));
    for n in 0..4 {
        let bits = good!(PT.read_entry(10 + n));
        check!(bits & ADDRESS == lab.ram_base + (2 + n as u64) * PAGE);
        check!(bits & (PRESENT | WRITABLE) == PRESENT | WRITABLE);
    }
    check!(!present(9) && !present(14));
    let va = VA + 12 * PAGE;
    check!(good!(probe(lab, va, Access::Write)).is_done());
    check!(good!(probe(lab, va, Access::Read)) == crate::probe::Seen::Done(crate::probe::WRITTEN));
    // The processor set the accessed and dirty bits of that page, and of no other.
    check!(good!(PT.read_entry(12)) & 0x60 == 0x60);
    check!(good!(PT.read_entry(13)) & 0x60 == 0);
    check!(good!(probe(lab, VA + 14 * PAGE, Access::Read)).is_absent(VA + 14 * PAGE, Access::Read));
    Ok(())
}

fn arguments(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 4 * PAGE, slot(0)));
    fails!(OutOfRange, PT.map(512, 1, slot(0), 0, R, slot(1)));
    fails!(OutOfRange, PT.map(510, 3, slot(0), 0, R, slot(1)));
    fails!(OutOfRange, PT.map(u32::MAX, 2, slot(0), 0, R, slot(1)));
    fails!(OutOfRange, PT.map(0, 0, slot(0), 0, R, slot(1)));
    fails!(OutOfRange, PT.map(0, 5, slot(0), 0, R, slot(1)));
    fails!(OutOfRange, PT.map(0, 1, slot(0), 4 * PAGE, R, slot(1)));
    fails!(OutOfRange, PT.map(0, 1, slot(0), 100, R, slot(1)));
    fails!(OutOfRange, PT.map(0, 1, slot(0), u64::MAX - PAGE + 1, R, slot(1)));
    fails!(Empty, PT.map(0, 1, slot(9), 0, R, slot(1)));
    fails!(WrongType, PT.map(0, 1, lab.ram, 0, R, slot(1)));
    fails!(Occupied, PT.map(0, 1, slot(0), 0, R, slot(0)));
    fails!(NoSlot, PT.map(0, 1, slot(0), 0, R, Place::NULL));
    good!(PT.map(3, 1, slot(0), 0, R, slot(1)));
    fails!(Occupied, PT.map(2, 2, slot(0), 0, R, slot(2)));
    check!(!present(2));
    fails!(OutOfRange, PT.read_entry(512));
    // The kernel's half of a root table is nobody's business.
    let root = libos::vspace::root();
    let below = if root == VSPACE { PDPT } else { VSPACE };
    fails!(OutOfRange, root.map(256, 1, below, 0, RWX, slot(2)));
    fails!(OutOfRange, root.map(511, 1, below, 0, RWX, slot(2)));
    fails!(OutOfRange, root.read_entry(256));
    fails!(OutOfRange, slot(1).protect(1, 1, R));
    fails!(OutOfRange, slot(1).protect(0, 2, R));
    fails!(OutOfRange, slot(1).unmap(0, 2, Place::NULL));
    fails!(OutOfRange, slot(1).unmap(0, 0, Place::NULL));
    fails!(WrongType, slot(1).copy_to(slot(3)));
    Ok(())
}

fn levels(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    fails!(WrongLevel, VSPACE.map(entry_of(4, VA) + 1, 1, PD, 0, RWX, slot(1)));
    fails!(WrongLevel, VSPACE.map(entry_of(4, VA) + 1, 1, slot(0), 0, R, slot(1)));
    fails!(WrongLevel, PDPT.map(1, 1, PT, 0, RWX, slot(1)));
    fails!(WrongLevel, PD.map(1, 1, PDPT, 0, RWX, slot(1)));
    // Smaller than the page, or not aligned to it.
    fails!(OutOfRange, PD.map(1, 1, slot(0), 0, R, slot(1)));
    good!(lab.make(CapType::Frame, PAGE, (2 << 20) + PAGE, slot(2)));
    fails!(OutOfRange, PD.map(1, 1, slot(2), 0, R, slot(1)));
    fails!(Occupied, PD.map(0, 1, PT, 0, RWX, slot(1)));
    Ok(())
}

fn many(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 20, slot(0)));
    good!(slot(5).delete());
    good!(PT.map(108, 1, slot(8), 0, R, slot(90)));
    check!(good!(PT.map_many(100, 20, slot(0), RW, slot(100))) == 18);
    for n in 0..20 {
        check!(present(100 + n) == (n != 5));
        check!(writable(100 + n) == (n != 5 && n != 8));
        check!(slot(100 + n).identify().is_ok() == (n != 5 && n != 8));
    }
    let bits = good!(PT.read_entry(119));
    check!(bits & ADDRESS == lab.ram_base + 19 * PAGE);
    good!(slot(110).delete());
    check!(!present(110) && present(111));
    fails!(OutOfRange, PT.map_many(500, 20, slot(0), RW, slot(130)));
    fails!(NoSlot, PT.map_many(200, 20, slot(250), RW, slot(130)));
    Ok(())
}

fn unmap_parts(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 16 * PAGE, slot(0)));
    good!(PT.map(16, 16, slot(0), 0, RW, slot(1)));
    // From the middle: what is behind gets a Mapping of its own.
    fails!(NoSlot, slot(1).unmap(4, 4, Place::NULL));
    check!(present(20));
    good!(slot(1).unmap(4, 4, slot(2)));
    check!(present(19) && !present(20) && !present(23) && present(24));
    fails!(OutOfRange, slot(1).protect(4, 1, R));
    good!(slot(2).protect(7, 1, R));
    check!(writable(30) && !writable(31) && present(31));
    // From the start and from the end.
    good!(slot(2).unmap(0, 2, Place::NULL));
    check!(!present(25) && present(26));
    good!(slot(2).protect(0, 1, R));
    check!(!writable(26) && writable(27));
    good!(slot(2).unmap(5, 1, Place::NULL));
    check!(!present(31) && present(30));
    // The holes can be used again.
    good!(PT.map(20, 4, slot(0), 4 * PAGE, R, slot(3)));
    // All of it.
    good!(slot(1).unmap(0, 4, Place::NULL));
    fails!(Empty, slot(1).identify());
    check!(!present(16) && !present(19) && present(20));
    Ok(())
}

fn unmap_by_delete(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 2 * PAGE, slot(0)));
    good!(PT.map(0, 2, slot(0), 0, RW, slot(1)));
    good!(PT.map(8, 1, slot(0), PAGE, RW, slot(2)));
    check!(good!(probe(lab, VA + PAGE, Access::Write)).is_done());
    good!(slot(1).delete());
    check!(good!(probe(lab, VA + PAGE, Access::Read)).is_absent(VA + PAGE, Access::Read));
    check!(good!(probe(lab, VA + 8 * PAGE, Access::Read)).is_done());
    // A copy keeps the mapping alive, the last capability takes it along.
    good!(slot(0).copy_to(slot(3)));
    good!(slot(0).delete());
    check!(good!(probe(lab, VA + 8 * PAGE, Access::Read)).is_done());
    good!(slot(3).delete());
    check!(good!(probe(lab, VA + 8 * PAGE, Access::Read)).is_absent(VA + 8 * PAGE, Access::Read));
    fails!(Empty, slot(2).identify());
    Ok(())
}

fn unmap_by_revoke(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Ram, 0, 16 * PAGE, slot(0)));
    good!(slot(0).retype(CapType::Frame, 0, 4 * PAGE, 4, slot(1)));
    for n in 0..4 {
        good!(PT.map(8 * n, 4, slot(1 + n), 0, RW, slot(10 + n)));
        check!(good!(probe(lab, VA + 8 * PAGE * n as u64, Access::Write)).is_done());
    }
    good!(slot(0).revoke());
    for n in 0..4u64 {
        let va = VA + 8 * PAGE * n;
        check!(good!(probe(lab, va, Access::Read)).is_absent(va, Access::Read));
        fails!(Empty, slot(10 + n as u32).identify());
    }
    // Revoking a Frame keeps it and ends its mappings.
    good!(slot(0).retype(CapType::Frame, 0, PAGE, 1, slot(1)));
    good!(PT.map(0, 1, slot(1), 0, RW, slot(2)));
    good!(slot(1).revoke());
    check!(!present(0));
    good!(PT.map(0, 1, slot(1), 0, RW, slot(2)));
    Ok(())
}

fn unmap_with_table(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 2 * PAGE, slot(0)));
    good!(PT.map(0, 2, slot(0), 0, RW, slot(1)));
    check!(good!(probe(lab, VA, Access::Write)).is_done());
    // Take the table out of the tree: the pages go with it, and come back with it.
    good!(PT_MAPPING.delete());
    check!(good!(probe(lab, VA, Access::Read)).is_absent(VA, Access::Read));
    good!(PD.map(3, 1, PT, 0, RWX, PT_MAPPING));
    check!(good!(probe(lab, VA + (6 << 20), Access::Read)).is_done());
    // The last capability to the table: its Mappings and those in it are gone.
    good!(PT.delete());
    check!(good!(probe(lab, VA + (6 << 20), Access::Read)).is_absent(VA + (6 << 20), Access::Read));
    fails!(Empty, PT_MAPPING.identify());
    fails!(Empty, slot(1).identify());
    check!(good!(PD.read_entry(3)) == 0);
    good!(slot(0).delete());
    Ok(())
}

/// A Mapping of a part that has a capability of its own outlives the larger Frame.
fn unmap_with_slice(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 4 * PAGE, slot(0)));
    good!(slot(0).retype(CapType::Frame, PAGE, PAGE, 1, slot(1)));
    good!(PT.map(0, 4, slot(0), 0, RW, slot(2)));
    good!(PT.map(8, 1, slot(1), 0, RW, slot(3)));
    good!(slot(0).delete());
    check!(!present(0) && !present(1) && present(8));
    check!(good!(probe(lab, VA + 8 * PAGE, Access::Write)).is_done());
    good!(slot(1).delete());
    check!(!present(8));
    Ok(())
}

fn protect_parts(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 4 * PAGE, slot(0)));
    good!(PT.map(0, 4, slot(0), 0, RW, slot(1)));
    check!(good!(probe(lab, VA + PAGE, Access::Write)).is_done());
    good!(slot(1).protect(1, 2, R));
    check!(writable(0) && !writable(1) && !writable(2) && writable(3));
    let va = VA + PAGE;
    check!(good!(probe(lab, va, Access::Write)).is_forbidden(va, Access::Write));
    check!(good!(probe(lab, va, Access::Read)).is_done());
    check!(good!(probe(lab, VA, Access::Execute)).is_forbidden(VA, Access::Execute));
    good!(slot(1).protect(0, 4, RW));
    check!(good!(probe(lab, va, Access::Write)).is_done());
    Ok(())
}

fn protect_many(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 16, slot(0)));
    check!(good!(PT.map_many(0, 16, slot(0), RW, slot(100))) == 16);
    good!(slot(103).delete());
    check!(good!(slot(100).protect_many(8, R)) == 7);
    for n in 0..16 {
        check!(writable(n) == (n >= 8));
    }
    check!(good!(probe(lab, VA, Access::Write)).is_forbidden(VA, Access::Write));
    // Slots that hold no Mapping are passed over.
    check!(good!(slot(0).protect_many(16, R)) == 0);
    fails!(NoSlot, slot(250).protect_many(7, R));
    Ok(())
}

/// Copy-on-write: writable only for the last owner.
fn if_exclusive(lab: &mut Lab) -> Outcome {
    let cow = RW.or(MapFlags::IF_EXCLUSIVE);
    good!(make_tables(lab));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 4, slot(0)));
    good!(slot(1).copy_to(slot(50)));
    good!(slot(3).copy_to(slot(53)));
    check!(good!(PT.map_many(0, 4, slot(0), cow, slot(100))) == 4);
    check!(writable(0) && !writable(1) && writable(2) && !writable(3) && present(3));
    good!(slot(50).delete());
    check!(good!(slot(100).protect_many(4, cow)) == 4);
    check!(writable(0) && writable(1) && writable(2) && !writable(3));
    good!(PT.map(8, 1, slot(3), 0, cow, slot(110)));
    check!(present(8) && !writable(8));
    good!(slot(53).delete());
    good!(slot(110).protect(0, 1, cow));
    check!(writable(8) && !writable(3));
    Ok(())
}

/// A program reads its own tables, but never writes them.
fn table_as_page(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(PT.map(7, 1, slot(0), 0, RW, slot(1)));
    fails!(NoRights, PT.map(8, 1, PT, 0, RW, slot(2)));
    good!(PT.map(8, 1, PT, 0, R, slot(2)));
    let entry = VA + 8 * PAGE + 7 * 8;
    let seen = good!(probe(lab, entry, Access::Read));
    check!(matches!(seen, crate::probe::Seen::Done(bits) if bits & ADDRESS == lab.ram_base));
    let write = good!(probe(lab, entry, Access::Write));
    check!(write.is_forbidden(entry, Access::Write));
    fails!(NoRights, slot(2).protect(0, 1, RW));
    Ok(())
}

fn large_pages(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 4 << 20, 6 << 20, slot(0)));
    good!(PD.map(2, 2, slot(0), 2 << 20, RW, slot(1)));
    let bits = good!(PD.read_entry(3));
    check!(bits & LARGE != 0 && bits & 0x000f_ffff_ffe0_0000 == lab.ram_base + (8 << 20));
    let va = VA + (6 << 20) + 0x12_3458;
    check!(good!(probe(lab, va, Access::Write)).is_done());
    let mut word = [0; 8];
    good!(good!(lab.window.open(slot(0), (4 << 20) + 0x12_3000, PAGE, R)).read(0x458, &mut word));
    check!(u64::from_le_bytes(word) == crate::probe::WRITTEN);
    good!(slot(1).protect(1, 1, R));
    check!(good!(probe(lab, va, Access::Write)).is_forbidden(va, Access::Write));
    check!(good!(probe(lab, VA + (4 << 20), Access::Write)).is_done());
    good!(slot(1).unmap(1, 1, Place::NULL));
    check!(good!(probe(lab, va, Access::Read)).is_absent(va, Access::Read));
    good!(slot(0).delete());
    check!(good!(PD.read_entry(2)) == 0);
    // A read-only capability stays one with pages of this size.
    good!(lab.make(CapType::Frame, 4 << 20, 2 << 20, slot(0)));
    good!(slot(0).mint(slot(2), Rights::READ));
    fails!(NoRights, PD.map(2, 1, slot(2), 0, RW, slot(1)));
    Ok(())
}

/// Where the machine has an aligned GiB of free RAM.
fn gigantic_page(lab: &mut Lab) -> Outcome {
    let size = 1u64 << 30;
    let (base, bytes) = lab.home_range;
    let free = lab.ram_base + crate::setup::PLAY_BYTES;
    let start = free.next_multiple_of(size);
    if start + size > base + bytes {
        libos::log!("gigantic_page: skipped, no aligned GiB of RAM (needs -m 6G)");
        return Ok(());
    }
    good!(make_tables(lab));
    good!(lab.home.retype(CapType::Frame, start - base, size, 1, slot(0)));
    good!(PDPT.map(2, 1, slot(0), 0, RW, slot(1)));
    let va = VA + 2 * size + 0x3456_7890;
    check!(good!(probe(lab, va, Access::Write)).is_done());
    good!(slot(1).protect(0, 1, R));
    check!(good!(probe(lab, va, Access::Write)).is_forbidden(va, Access::Write));
    good!(slot(0).mint(slot(2), Rights::READ));
    fails!(NoRights, PDPT.map(3, 1, slot(2), 0, RW, slot(3)));
    good!(slot(0).revoke());
    check!(good!(probe(lab, va, Access::Read)).is_absent(va, Access::Read));
    good!(slot(0).delete());
    Ok(())
}
