//! Rights: what a capability allows, what was asked for, and what the table above allows.

use crate::probe::{make_tables, probe, Access, PD, PDPT, PT, PT_MAPPING, VA};
use crate::setup::{slot, Lab};
use crate::Test;
use libos::abi::slots::{BOOT_DEVICES_L1, VSPACE};
use libos::captypes::invocations::{Counter, MapFlags, StatusBits};
use libos::vspace::{entry_of, R, RW, RWX, RX};
use libos::{Cap, CapAddr, CapType, Rights, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("rights_of_capabilities", of_capabilities),
    ("rights_of_slices", of_slices),
    ("rights_by_processor", by_processor),
    ("rights_of_tables", of_tables),
    ("rights_read_only_stays", read_only_stays),
    ("rights_table_changed_through_read_only", through_read_only_table),
    ("attack_writable_table", writable_table),
    ("attack_wrong_level", wrong_level),
    ("rights_of_tables_minted", of_tables_minted),
];

const ALL_FLAGS: [MapFlags; 4] = [R, RW, RX, RWX];

fn needed(flags: MapFlags) -> Rights {
    let right = |flag, right| if flags.has(flag) { right } else { Rights::NONE };
    right(MapFlags::READ, Rights::READ)
        .or(right(MapFlags::WRITE, Rights::WRITE))
        .or(right(MapFlags::EXEC, Rights::EXEC))
}

/// Every set of rights with every set of flags: map and protect agree with the rule.
fn of_capabilities(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    for bits in 0..8 {
        let rights = Rights(bits);
        good!(slot(0).mint(slot(1), rights));
        for flags in ALL_FLAGS {
            let result = PT.map(0, 1, slot(1), 0, flags, slot(2));
            if rights.has(needed(flags)) {
                good!(result);
                for wanted in ALL_FLAGS {
                    let result = slot(2).protect(0, 1, wanted);
                    let many = slot(2).protect_many(1, wanted);
                    if rights.has(needed(wanted)) {
                        good!(result);
                        good!(many);
                    } else {
                        fails!(NoRights, result);
                        fails!(NoRights, many);
                    }
                }
                good!(slot(2).delete());
            } else {
                fails!(NoRights, result);
                fails!(NoRights, PT.map_many(0, 1, slot(1), flags, slot(2)));
            }
        }
        good!(slot(1).delete());
    }
    Ok(())
}

fn of_slices(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 4 * PAGE, slot(0)));
    good!(slot(0).mint(slot(1), Rights::READ));
    good!(slot(1).retype(CapType::Frame, PAGE, PAGE, 1, slot(2)));
    good!(slot(2).copy_to(slot(3)));
    fails!(NoRights, PT.map(0, 1, slot(3), 0, RW, slot(4)));
    good!(PT.map(0, 1, slot(3), 0, R, slot(4)));
    fails!(NoRights, slot(4).protect(0, 1, RW));
    fails!(NoRights, slot(4).protect(0, 1, RX));
    Ok(())
}

fn by_processor(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(0, &[0xc3]));
    for flags in ALL_FLAGS {
        good!(PT.map(0, 1, slot(0), 0, flags, slot(1)));
        check!(good!(probe(lab, VA, Access::Read)).is_done());
        let execute = good!(probe(lab, VA, Access::Execute));
        if flags.has(MapFlags::EXEC) {
            check!(execute.is_done());
        } else {
            check!(execute.is_forbidden(VA, Access::Execute));
        }
        let write = good!(probe(lab, VA + 8, Access::Write));
        if flags.has(MapFlags::WRITE) {
            check!(write.is_done());
        } else {
            check!(write.is_forbidden(VA + 8, Access::Write));
        }
        good!(slot(1).delete());
    }
    Ok(())
}

/// The rights of an upper-level entry hold for everything below it.
fn of_tables(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(0, &[0xc3]));
    good!(PT.map(0, 1, slot(0), 0, RWX, slot(1)));
    check!(good!(probe(lab, VA, Access::Execute)).is_done());
    good!(PT_MAPPING.protect(0, 1, RX));
    check!(good!(probe(lab, VA, Access::Write)).is_forbidden(VA, Access::Write));
    check!(good!(probe(lab, VA, Access::Execute)).is_done());
    good!(PT_MAPPING.protect(0, 1, RW));
    check!(good!(probe(lab, VA, Access::Execute)).is_forbidden(VA, Access::Execute));
    check!(good!(probe(lab, VA + 8, Access::Write)).is_done());
    // The same table at two places, with different rights at each.
    good!(PD.map(1, 1, PT, 0, R, slot(2)));
    let second = VA + (2 << 20);
    check!(good!(probe(lab, second, Access::Write)).is_forbidden(second, Access::Write));
    check!(good!(probe(lab, second + 8, Access::Read)).is_done());
    check!(good!(probe(lab, VA + 8, Access::Write)).is_done());
    Ok(())
}

fn of_tables_minted(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(PT.mint(slot(0), Rights::READ));
    fails!(NoRights, PD.map(1, 1, slot(0), 0, RWX, slot(1)));
    good!(PD.map(1, 1, slot(0), 0, R, slot(1)));
    fails!(NoRights, slot(1).protect(0, 1, RW));
    Ok(())
}

/// A capability without `WRITE` (or without `EXEC`) gives it in no page size, by no way: not by
/// protecting, sharing the table, copying, naming a part, or trading the page of another Mapping.
fn read_only_stays(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    read_only_at(PT, PAGE)?;
    good!(slot(0).delete());
    good!(lab.make(CapType::Frame, 4 << 20, 2 << 20, slot(0)));
    read_only_at(PD, 2 << 20)?;
    good!(slot(0).delete());
    match gigantic() {
        Some(()) => {
            read_only_at(PDPT, 1 << 30)?;
            good!(slot(0).delete());
        }
        None => libos::log!("rights_read_only_stays: no aligned GiB of addresses without RAM"),
    }
    Ok(())
}

/// A Frame of 1 GiB of addresses that are no RAM, in slot 0.
fn gigantic() -> Option<()> {
    const GIB: u64 = 1 << 30;
    for n in 0..64 {
        let devices = CapAddr::new(BOOT_DEVICES_L1, n);
        let Ok(range) = devices.identify() else { continue };
        let offset = range.base.next_multiple_of(GIB) - range.base;
        let fits = range.ty == CapType::PhysAddr && offset + GIB <= range.bytes;
        if fits && devices.retype(CapType::DevFrame, offset, GIB, 1, slot(0)).is_ok() {
            return Some(());
        }
    }
    None
}

/// The Frame of one page of `bytes` is in slot 0; `table` holds such pages.
fn read_only_at(table: CapAddr, bytes: u64) -> Outcome {
    let (own, copy, part, other) = (slot(1), slot(2), slot(3), slot(4));
    good!(slot(0).mint(own, Rights::READ));
    good!(own.copy_to(copy));
    good!(own.mint(part, Rights::ALL));
    let whole = good!(own.identify());
    check!(whole.bytes == bytes && good!(copy.identify()).rights == Rights::READ);
    check!(good!(part.identify()).rights == Rights::READ);
    let before = good!(table.read_entry(9));
    for source in [own, copy, part] {
        for flags in [RW, RX, RWX] {
            fails!(NoRights, table.map(9, 1, source, 0, flags, other));
            fails!(NoRights, table.map_many(9, 1, source, flags, other));
        }
        check!(good!(table.read_entry(9)) == before);
        good!(table.map(9, 1, source, 0, R, other));
        let entry = good!(table.read_entry(9));
        check!(entry & 2 == 0 && entry >> 63 == 1);
        for flags in [RW, RX, RWX] {
            fails!(NoRights, other.protect(0, 1, flags));
            fails!(NoRights, other.protect_many(1, flags));
            fails!(NoRights, other.replace(source, flags));
            fails!(NoRights, other.protect(0, 1, flags.or(MapFlags::IF_EXCLUSIVE)));
            fails!(NoRights, other.protect(0, 1, flags.or(MapFlags::FLUSH_PAGES)));
        }
        check!(good!(table.read_entry(9)) & !0x60 == entry & !0x60);
        // Another way to the same page, which may be written, does not change this one.
        good!(table.map(10, 1, slot(0), 0, RW, slot(5)));
        check!(good!(table.read_entry(9)) & 2 == 0);
        good!(slot(5).replace(source, R));
        fails!(NoRights, slot(5).protect(0, 1, RW));
        good!(slot(5).delete());
        good!(other.delete());
    }
    good!(own.delete_range(3));
    Ok(())
}

/// Whoever may only read a table does not change it: not its entries, not its status bits.
fn through_read_only_table(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(PT.mint(slot(1), Rights::READ));
    fails!(NoRights, slot(1).map(0, 1, slot(0), 0, R, slot(2)));
    fails!(NoRights, slot(1).map_many(0, 1, slot(0), R, slot(2)));
    fails!(NoRights, slot(1).clear_status(0, 1, StatusBits::ALL));
    check!(good!(PT.read_entry(0)) == 0);
    check!(good!(slot(1).read_entry(0)) == 0);
    // It may be mapped, read-only: sharing a region by its table.
    good!(PD.map(3, 1, slot(1), 0, R, slot(2)));
    fails!(NoRights, slot(2).protect(0, 1, RW));
    good!(PT.map(0, 1, slot(0), 0, RW, slot(3)));
    let va = VA + (6 << 20);
    check!(good!(probe(lab, VA, Access::Write)).is_done());
    check!(good!(probe(lab, va, Access::Write)).is_forbidden(va, Access::Write));
    Ok(())
}

/// No way leads to a page table that is writable in user mode.
fn writable_table(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    let tables = [PT, PD, PDPT, VSPACE];
    for table in tables {
        for flags in [RW, RX, RWX] {
            fails!(NoRights, PT.map(8, 1, table, 0, flags, slot(1)));
            fails!(NoRights, PT.map_many(8, 1, table, flags, slot(1)));
        }
        fails!(OutOfRange, PT.map(8, 1, table, PAGE, R, slot(1)));
        fails!(OutOfRange, PT.map(8, 2, table, 0, R, slot(1)));
        check!(good!(PT.read_entry(8)) == 0);
        fails!(Empty, slot(1).identify());
        // Read-only it stays, whatever is asked later.
        good!(PT.map(8, 1, table, 0, R, slot(1)));
        fails!(NoRights, slot(1).protect(0, 1, RW));
        fails!(NoRights, slot(1).protect_many(1, RWX));
        fails!(NoRights, slot(1).replace(table, RW));
        check!(good!(PT.read_entry(8)) & 2 == 0);
        let va = VA + 8 * PAGE;
        check!(good!(probe(lab, va, Access::Write)).is_forbidden(va, Access::Write));
        good!(slot(1).delete());
    }
    // A writable page does not turn into one.
    good!(PT.map(8, 1, slot(0), 0, RW, slot(1)));
    fails!(NoRights, slot(1).replace(PT, RW));
    check!(good!(PT.read_entry(8)) & 2 != 0);
    // Nor does memory under a Frame become a table.
    fails!(WrongType, slot(0).retype(CapType::Pt, 0, PAGE, 1, slot(2)));
    fails!(HasDescendants, lab.ram.retype(CapType::Pt, 0, PAGE, 1, slot(2)));
    Ok(())
}

/// A Frame through a table of the wrong level, a table through one that is not the next.
fn wrong_level(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 4 << 20, 4 << 20, slot(0)));
    let capabilities = good!(libos::log::counter(Counter::Capabilities));
    // No page is as large as an entry of the root.
    fails!(WrongLevel, VSPACE.map(entry_of(4, VA) + 1, 1, slot(0), 0, R, slot(1)));
    fails!(WrongLevel, VSPACE.map_many(entry_of(4, VA) + 1, 1, slot(0), R, slot(1)));
    for (table, below) in
        [(VSPACE, PD), (VSPACE, PT), (PDPT, PT), (PDPT, PDPT), (PD, PD), (PD, PDPT)]
    {
        fails!(WrongLevel, table.map(20, 1, below, 0, R, slot(1)));
        fails!(WrongLevel, table.map_many(20, 1, below, R, slot(1)));
        check!(good!(table.read_entry(20)) == 0);
    }
    // Smaller than the level's page, or not aligned to it.
    fails!(OutOfRange, PDPT.map(20, 1, slot(0), 0, R, slot(1)));
    fails!(OutOfRange, PD.map(20, 1, slot(0), PAGE, R, slot(1)));
    fails!(OutOfRange, PD.map(20, 3, slot(0), 0, R, slot(1)));
    // One that is mapped at one level is not traded for one of another.
    good!(PT.map(20, 1, slot(0), 0, R, slot(1)));
    fails!(OutOfRange, PT_MAPPING.replace(slot(0), R));
    fails!(OutOfRange, slot(1).replace(slot(0), R).and(PT_MAPPING.replace(PT, R)));
    good!(slot(1).delete());
    check!(good!(libos::log::counter(Counter::Capabilities)) == capabilities);
    Ok(())
}
