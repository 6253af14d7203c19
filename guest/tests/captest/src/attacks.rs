//! What a hostile program tries with capabilities. Each attempt is refused with its own error and
//! changes nothing: no slot, no entry of a table, no number of capabilities.

use crate::probe::{make_tables, probe, Access, PD, PDPT, PT, VA};
use crate::setup::{capabilities, slot, Lab, PLAY_BYTES};
use crate::Test;
use libos::abi::slots::{DISPATCHER, ID, IO, IRQ, KERNEL, PERFMON, ROOT, VSPACE};
use libos::captypes::invocations::Part;
use libos::captypes::place::L2_BYTES;
use libos::captypes::CapType::*;
use libos::vspace::{R, RW};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("attack_map_objects", map_objects),
    ("attack_map_table_writable", map_table_writable),
    ("attack_wrong_level", wrong_level),
    ("attack_overlap", overlap),
    ("attack_overlap_after_the_source_is_gone", overlap_after_the_source_is_gone),
    ("attack_revoked_copy", revoked_copy),
    ("attack_revoked_translation", revoked_translation),
    ("attack_revoke_without_right", revoke_without_right),
    ("attack_forged_places", forged_places),
    ("attack_forged_labels", forged_labels),
    ("attack_more_rights", more_rights),
    ("attack_slots_run_out", slots_run_out),
    ("attack_memory_runs_out", memory_runs_out),
    ("attack_batch_with_one_wrong", batch_with_one_wrong),
];

fn entry(table: CapAddr, index: u32) -> u64 {
    table.read_entry(index).unwrap_or(u64::MAX)
}

/// Kernel objects, and what is no memory, in a page table.
fn map_objects(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    let kinds = [L1CNode, L2CNode, Dispatcher, Endpoint];
    for (n, ty) in kinds.into_iter().enumerate() {
        let bytes = if n < 2 { L2_BYTES } else { PAGE };
        good!(lab.make(ty, n as u64 * L2_BYTES, bytes, slot(n as u32)));
    }
    let count = capabilities();
    let own = [ROOT, DISPATCHER, lab.ram, KERNEL, IO, IRQ, ID, PERFMON];
    for what in (0..4).map(slot).chain(own) {
        for flags in [R, RW] {
            fails!(WrongType, PT.map(3, 1, what, 0, flags, slot(9)));
            fails!(WrongType, PD.map(3, 1, what, 0, flags, slot(9)));
        }
    }
    fails!(WrongType, PT.map_many(3, 1, slot(1), RW, slot(9)));
    check!(entry(PT, 3) == 0 && entry(PD, 3) == 0 && capabilities() == count);
    fails!(Empty, slot(9).identify());
    Ok(())
}

/// A page table may be seen, not written: not by mapping, protecting, replacing, not by a slice.
fn map_table_writable(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    for table in [PT, PD, PDPT, VSPACE] {
        fails!(NoRights, PT.map(5, 1, table, 0, RW, slot(0)));
        good!(PT.map(5, 1, table, 0, R, slot(0)));
        let before = entry(PT, 5);
        fails!(NoRights, slot(0).protect(0, 1, RW));
        fails!(NoRights, slot(0).protect_many(1, RW));
        check!(entry(PT, 5) == before);
        good!(slot(0).delete());
    }
    good!(lab.make(Frame, 0, PAGE, slot(1)));
    good!(PT.map(5, 1, slot(1), 0, RW, slot(0)));
    let before = entry(PT, 5);
    fails!(NoRights, slot(0).replace(PD, RW));
    check!(entry(PT, 5) == before);
    fails!(WrongType, PT.retype(Frame, 0, PAGE, 1, slot(2)));
    fails!(HasDescendants, lab.ram.retype(Frame, 14 << 20, 3 * PAGE, 1, slot(2)));
    check!(good!(probe(lab, VA + 5 * PAGE, Access::Write)).is_done());
    Ok(())
}

fn wrong_level(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(Frame, 0, PAGE, slot(0)));
    good!(lab.make(Pt, PAGE, PAGE, slot(1)));
    good!(lab.make(Pml4, 2 * PAGE, PAGE, slot(2)));
    fails!(OutOfRange, PD.map(9, 1, slot(0), 0, RW, slot(5)));
    fails!(OutOfRange, PDPT.map(9, 1, slot(0), 0, RW, slot(5)));
    fails!(WrongLevel, VSPACE.map(9, 1, slot(0), 0, RW, slot(5)));
    fails!(WrongLevel, PDPT.map(9, 1, slot(1), 0, RW, slot(5)));
    fails!(WrongLevel, VSPACE.map(9, 1, slot(1), 0, RW, slot(5)));
    fails!(WrongLevel, PD.map(9, 1, PD, 0, RW, slot(5)));
    fails!(WrongLevel, VSPACE.map(9, 1, slot(2), 0, RW, slot(5)));
    let root = libos::vspace::root();
    let below = if root == VSPACE { PDPT } else { VSPACE };
    fails!(OutOfRange, root.map(256, 1, below, 0, RW, slot(5)));
    fails!(OutOfRange, root.map(511, 1, below, 0, RW, slot(5)));
    for table in [PD, PDPT, VSPACE] {
        check!(entry(table, 9) == 0);
    }
    fails!(Empty, slot(5).identify());
    Ok(())
}

/// The same memory twice: by copies, by nested RAM, by slices of Frames, by several at once.
fn overlap(lab: &mut Lab) -> Outcome {
    let ram = lab.ram;
    good!(ram.retype(Ram, 0, 64 * PAGE, 1, slot(0)));
    good!(ram.copy_to(slot(1)));
    good!(slot(0).retype(Frame, 8 * PAGE, 8 * PAGE, 1, slot(2)));
    good!(slot(2).retype(Frame, 2 * PAGE, 2 * PAGE, 1, slot(3)));
    let count = capabilities();
    let objects = [(L1CNode, L2_BYTES), (L2CNode, L2_BYTES), (Pt, PAGE), (Dispatcher, PAGE)];
    for (ty, bytes) in objects.into_iter().chain([(Ram, PAGE), (Frame, 128 * PAGE)]) {
        for source in [ram, slot(1)] {
            fails!(HasDescendants, source.retype(ty, 8 * PAGE, bytes, 1, slot(9)));
            fails!(HasDescendants, source.retype(ty, 0, bytes, 1, slot(9)));
        }
        let inside = slot(0).retype(ty, 8 * PAGE, bytes, 1, slot(9));
        check!(matches!(inside, Err(Status::HasDescendants | Status::OutOfRange)));
    }
    // A slice of a slice, beside and across what exists.
    fails!(HasDescendants, slot(2).retype(Frame, 3 * PAGE, 2 * PAGE, 1, slot(9)));
    fails!(HasDescendants, slot(2).retype(Frame, PAGE, PAGE, 3, slot(9)));
    fails!(HasDescendants, slot(0).retype(Pt, 9 * PAGE, PAGE, 1, slot(9)));
    fails!(HasDescendants, slot(0).retype_copy(8 * PAGE, slot(2), slot(9)));
    let part = |first, count| Part::new(Pt, first, 1, count).unwrap_or(Part::NONE);
    let two = |a, b| [a, b, Part::NONE, Part::NONE, Part::NONE, Part::NONE, Part::NONE];
    fails!(HasDescendants, slot(0).retype_many(slot(20), two(part(0, 2), part(15, 2))));
    fails!(OutOfRange, slot(0).retype_many(slot(20), two(part(0, 4), part(3, 2))));
    check!(capabilities() == count);
    Ok(())
}

/// RAM may be deleted while something is made of it: its other parts come home, those do not.
fn overlap_after_the_source_is_gone(lab: &mut Lab) -> Outcome {
    good!(lab.ram.retype(Ram, 0, 64 * PAGE, 1, slot(0)));
    good!(slot(0).retype(Frame, 8 * PAGE, 8 * PAGE, 1, slot(2)));
    good!(slot(2).retype(Frame, 2 * PAGE, PAGE, 1, slot(3)));
    good!(slot(0).delete());
    good!(slot(2).delete());
    fails!(HasDescendants, lab.ram.retype(L2CNode, 8 * PAGE, L2_BYTES, 1, slot(0)));
    good!(lab.ram.retype(L2CNode, 4 * PAGE, L2_BYTES, 1, slot(0)));
    good!(slot(3).delete());
    good!(lab.ram.retype(L2CNode, 8 * PAGE, L2_BYTES, 1, slot(1)));
    Ok(())
}

/// A copy, a weaker copy, a slice, and one in another CSpace: revoking ends them all.
fn revoked_copy(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(L1CNode, 1 << 20, L2_BYTES, slot(10)));
    good!(lab.ram.retype(L2CNode, 2 << 20, L2_BYTES, 1, Place::l1(slot(10), 3)));
    let there = Place::within(slot(10), CapAddr::new(3, 77));
    good!(lab.make(Frame, 0, 4 * PAGE, slot(0)));
    good!(slot(0).copy_to(slot(1)));
    good!(slot(0).mint(slot(2), Rights::READ));
    good!(slot(1).retype(Frame, PAGE, PAGE, 1, slot(3)));
    good!(slot(1).copy_to(there));
    good!(PT.map(0, 2, there, 0, RW, slot(4)));
    good!(slot(0).revoke());
    for gone in [slot(1), slot(2), slot(3), slot(4)] {
        fails!(Empty, gone.identify());
        fails!(Empty, PT.map(0, 1, gone, 0, R, slot(9)));
        fails!(Empty, gone.copy_to(slot(9)));
        fails!(Empty, gone.retype(Frame, 0, PAGE, 1, slot(9)));
    }
    fails!(Empty, there.identify());
    check!(entry(PT, 0) == 0 && entry(PT, 1) == 0);
    Ok(())
}

/// The processor has the translation, one table is in two places: after the revoke neither works.
fn revoked_translation(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(Frame, 0, PAGE, slot(0)));
    good!(slot(0).copy_to(slot(1)));
    good!(PT.map(7, 1, slot(1), 0, RW, slot(2)));
    // The same table again, 2 MiB further on.
    good!(PD.map(1, 1, PT, 0, RW, slot(3)));
    let places = [VA + 7 * PAGE, VA + (2 << 20) + 7 * PAGE];
    for va in places {
        check!(good!(probe(lab, va, Access::Write)).is_done());
        check!(good!(probe(lab, va, Access::Read)).is_done());
    }
    good!(slot(0).revoke());
    for va in places {
        for access in [Access::Read, Access::Write] {
            check!(good!(probe(lab, va, access)).is_absent(va, access));
        }
    }
    fails!(Empty, slot(2).protect(0, 1, RW));
    Ok(())
}

fn revoke_without_right(lab: &mut Lab) -> Outcome {
    good!(lab.make(Endpoint, 0, PAGE, slot(0)));
    good!(slot(0).mint(slot(1), Rights::SEND));
    let count = capabilities();
    fails!(NoRights, slot(1).revoke());
    good!(slot(1).mint(slot(2), Rights::ALL));
    fails!(NoRights, slot(2).revoke());
    check!(capabilities() == count + 1);
    good!(slot(0).revoke());
    Ok(())
}

/// Words that name no slot of this program: all kinds of operations, as target and as argument.
fn forged_places(lab: &mut Lab) -> Outcome {
    let mut random = Rng::with_seed(lab.seed);
    good!(lab.make(Frame, 0, PAGE, slot(0)));
    let count = capabilities();
    for _ in 0..20_000 {
        // A root that is none, an index beyond the root, or addresses of the kernel.
        let place = match random.u64(..4) {
            0 => Place(random.u64(..) | 0x4000_0000_0000_0000),
            1 => Place::own(CapAddr(random.u32(..) | 0x8000_0000)),
            2 => Place::l1(CapAddr::NULL, random.u32(..) | 0x100_0000),
            _ => Place(0xffff_8000_0000_0000 | random.u64(..)),
        };
        let results = [
            place.identify().map(drop),
            place.copy_to(slot(9)),
            slot(0).copy_to(place),
            slot(0).move_to(place),
            lab.ram.retype(Frame, 1 << 20, PAGE, 2, place),
            place.copy_range(slot(100), 4, Null).map(drop),
            place.delete(),
            place.revoke(),
            place.delete_range(3),
            slot(0).is_same(place).map(drop),
            invoke(place, op::NoOp {}),
        ];
        for result in results {
            check!(matches!(result, Err(Status::NoSlot | Status::WrongType)));
        }
    }
    check!(capabilities() == count);
    fails!(Empty, slot(9).identify());
    Ok(())
}

fn forged_labels(lab: &mut Lab) -> Outcome {
    let count = capabilities();
    let mut random = Rng::with_seed(lab.seed);
    for label in (0..0x1_0000u64).filter(|&n| libos::captypes::Label::from_u16(n as u16).is_none())
    {
        let (status, junk): (u64, u64);
        // SAFETY: no operation has this number, so the kernel changes no more than the registers
        // of every invocation.
        unsafe {
            core::arch::asm!(
                "syscall",
                inlateout("rax") label => status,
                inlateout("rdi") u64::from(lab.ram.0) => junk,
                inlateout("rsi") random.u64(..) => _,
                lateout("rcx") _, lateout("r11") _, lateout("rdx") _, lateout("r10") _,
                lateout("r8") _, lateout("r9") _, lateout("r12") _, lateout("r13") _,
                options(nostack),
            );
        }
        let _ = junk;
        check!(status == Status::Invalid.to_word());
    }
    check!(capabilities() == count);
    Ok(())
}

/// For every type: a right that was taken away does not come back by mint, copy, or retype.
fn more_rights(lab: &mut Lab) -> Outcome {
    good!(lab.ram.retype(Frame, 0, PAGE, 1, slot(0)));
    good!(lab.ram.retype(Endpoint, PAGE, PAGE, 1, slot(1)));
    good!(lab.ram.retype(Pt, 2 * PAGE, PAGE, 1, slot(2)));
    good!(lab.ram.retype(L2CNode, 4 * PAGE, L2_BYTES, 1, slot(3)));
    good!(ID.new_id(slot(4)));
    for what in [slot(0), slot(1), slot(2), slot(3), slot(4), IO, IRQ, PERFMON, DISPATCHER] {
        let own = good!(what.identify());
        let meant = own.ty.rights().or(Rights::REVOKE);
        for bits in 0..64 {
            good!(what.mint(slot(20), Rights(bits)));
            let less = good!(slot(20).identify());
            check!(less.rights == own.rights.and(Rights(bits)) && less.ty == own.ty);
            good!(slot(20).mint(slot(21), Rights::ALL));
            good!(slot(20).copy_to(slot(22)));
            for copy in [slot(21), slot(22)] {
                check!(good!(copy.identify()).rights == less.rights);
                check!(good!(copy.is_same(what)));
            }
            if own.ty.can_retype_to(own.ty) {
                let unit = if own.ty == Frame { PAGE } else { 1 };
                good!(slot(20).retype(own.ty, 0, unit, 1, slot(23)));
                check!(good!(slot(23).identify()).rights == less.rights);
                good!(slot(23).delete());
            }
            if !less.rights.has(meant.and(Rights::REVOKE)) {
                fails!(NoRights, slot(20).revoke());
            }
            good!(slot(20).delete_range(3));
        }
    }
    Ok(())
}

fn slots_run_out(lab: &mut Lab) -> Outcome {
    good!(lab.ram.retype(Frame, 0, PAGE, 40, slot(0)));
    good!(lab.make(Pt, 1 << 20, PAGE, slot(60)));
    let count = capabilities();
    fails!(NoSlot, lab.ram.retype(Frame, 2 << 20, PAGE, 40, slot(240)));
    fails!(NoSlot, slot(0).copy_range(slot(240), 40, Null));
    fails!(NoSlot, slot(60).map_many(0, 40, slot(0), RW, slot(240)));
    let part = Part::new(Frame, 512, 1, 40).unwrap_or(Part::NONE);
    let one = [part, Part::NONE, Part::NONE, Part::NONE, Part::NONE, Part::NONE, Part::NONE];
    fails!(NoSlot, lab.ram.retype_many(slot(240), one));
    fails!(NoSlot, slot(240).delete_range(40));
    // One slot in the middle is in use.
    good!(slot(0).copy_to(slot(120)));
    fails!(Occupied, lab.ram.retype(Frame, 2 << 20, PAGE, 40, slot(100)));
    fails!(Occupied, slot(0).copy_range(slot(100), 40, Null));
    fails!(Occupied, slot(60).map_many(0, 40, slot(0), RW, slot(100)));
    fails!(Occupied, lab.ram.retype_many(slot(100), one));
    check!(capabilities() == count + 1);
    for index in 0..40 {
        check!(entry(slot(60), index) == 0);
    }
    // Nothing was made of that memory.
    good!(lab.make(Ram, 2 << 20, 1 << 20, slot(61)));
    Ok(())
}

fn memory_runs_out(lab: &mut Lab) -> Outcome {
    let ram = lab.ram;
    let count = capabilities();
    let last = PLAY_BYTES - 4 * PAGE;
    fails!(OutOfRange, ram.retype(Frame, last, PAGE, 5, slot(0)));
    fails!(OutOfRange, ram.retype(Frame, last, !0xfff, 5, slot(0)));
    fails!(OutOfRange, ram.retype(L2CNode, last, L2_BYTES, 2, slot(0)));
    let part = |first, count| Part::new(Frame, first, 1, count).unwrap_or(Part::NONE);
    let beyond = PLAY_BYTES / PAGE;
    let parts = [part(0, 2), part(beyond - 1, 2), Part::NONE, Part::NONE, Part::NONE, Part::NONE];
    let [a, b, c, d, e, f] = parts;
    fails!(OutOfRange, ram.retype_many(slot(0), [a, b, c, d, e, f, Part::NONE]));
    check!(capabilities() == count);
    good!(ram.retype(Frame, last, PAGE, 4, slot(0)));
    Ok(())
}

/// Many at once, of which one cannot be done: none is.
fn batch_with_one_wrong(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.ram.retype(Frame, 0, PAGE, 16, slot(0)));
    good!(slot(7).mint(slot(30), Rights::READ));
    good!(slot(7).delete());
    good!(slot(30).move_to(slot(7)));
    let count = capabilities();
    fails!(NoRights, PT.map_many(0, 16, slot(0), RW, slot(50)));
    good!(slot(7).delete());
    good!(lab.make(L2CNode, 1 << 20, L2_BYTES, slot(7)));
    fails!(WrongType, PT.map_many(0, 16, slot(0), R, slot(50)));
    fails!(OutOfRange, PT.map_many(500, 16, slot(0), R, slot(50)));
    good!(slot(7).delete());
    good!(lab.make(Frame, 2 << 20, 2 * PAGE, slot(7)));
    fails!(OutOfRange, PT.map_many(0, 16, slot(0), R, slot(50)));
    check!(capabilities() == count && (0..512).all(|n| entry(PT, n) == 0));
    good!(slot(7).delete());
    good!(PT.map_many(0, 16, slot(0), R, slot(50)));
    // Holes are passed over, and counted as not done.
    check!((0..16).all(|n| (entry(PT, n) != 0) == (n != 7)));
    good!(slot(3).mint(slot(31), Rights::READ));
    good!(PT.map(16, 1, slot(31), 0, R, slot(66)));
    fails!(NoRights, slot(50).protect_many(17, RW));
    check!((0..17).all(|n| entry(PT, n) & 2 == 0));
    Ok(())
}

/// Every type is one that these tests, or those of its own file, have tried to map.
const _: () = assert!(CapType::ALL.len() == 27);
