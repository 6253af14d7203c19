//! Retype: types, sizes, ranges, and what the new objects contain.

use crate::setup::{slot, Lab, PLAY_BYTES};
use crate::Test;
use libos::abi::slots::{IO, IRQ};
use libos::captypes::place::L2_BYTES;
use libos::captypes::types::ObjectSize;
use libos::vspace::{R, RW};
use libos::{invoke, op, Cap, CapType, Place, Rights, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("retype_ranges", ranges),
    ("retype_overlap", overlap),
    ("retype_sizes", sizes),
    ("retype_rules", rules),
    ("retype_slots", slots),
    ("retype_zeroes", zeroes),
    ("retype_frame_slices", slices),
    ("retype_copy", copy),
    ("retype_ports_and_lines", ports),
];

fn ranges(lab: &mut Lab) -> Outcome {
    let ram = lab.ram;
    good!(ram.retype(CapType::Frame, PAGE, 3 * PAGE, 2, slot(0)));
    let (a, b) = (good!(slot(0).identify()), good!(slot(1).identify()));
    check!((a.base, a.bytes) == (lab.ram_base + PAGE, 3 * PAGE));
    check!((b.base, b.bytes) == (lab.ram_base + 4 * PAGE, 3 * PAGE));
    fails!(OutOfRange, ram.retype(CapType::Frame, 1, PAGE, 1, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, 8 * PAGE, PAGE + 1, 1, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, PLAY_BYTES, PAGE, 1, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, PLAY_BYTES - PAGE, 2 * PAGE, 1, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, PLAY_BYTES - PAGE, PAGE, 2, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, 8 * PAGE, 0, 1, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, 8 * PAGE, PAGE, 0, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, u64::MAX - PAGE + 1, PAGE, 2, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, 8 * PAGE, u64::MAX - PAGE + 1, 2, slot(2)));
    fails!(OutOfRange, ram.retype(CapType::Frame, 8 * PAGE, 1 << 62, 4, slot(2)));
    fails!(Empty, slot(2).identify());
    Ok(())
}

fn overlap(lab: &mut Lab) -> Outcome {
    let ram = lab.ram;
    good!(ram.retype(CapType::Frame, 4 * PAGE, 4 * PAGE, 1, slot(0)));
    for (offset, bytes) in [(4, 4), (3, 2), (7, 2), (5, 1), (0, 16)] {
        fails!(HasDescendants, ram.retype(CapType::Ram, offset * PAGE, bytes * PAGE, 1, slot(1)));
    }
    good!(ram.retype(CapType::Frame, 3 * PAGE, PAGE, 1, slot(1)));
    good!(ram.retype(CapType::Frame, 8 * PAGE, PAGE, 1, slot(2)));
    // A copy of the RAM knows the descendants too.
    good!(ram.copy_to(slot(3)));
    fails!(HasDescendants, slot(3).retype(CapType::Ram, 7 * PAGE, PAGE, 1, slot(4)));
    Ok(())
}

fn sizes(lab: &mut Lab) -> Outcome {
    for &ty in CapType::ALL {
        let (right, wrong) = match ty.object_size() {
            ObjectSize::Fixed(bytes) => (bytes, 2 * bytes),
            ObjectSize::Multiple(bytes) => (3 * bytes, bytes / 2),
            ObjectSize::None => continue,
        };
        if !CapType::Ram.can_retype_to(ty) {
            continue;
        }
        fails!(OutOfRange, lab.ram.retype(ty, 0, wrong, 1, slot(0)));
        good!(lab.ram.retype(ty, 0, right, 1, slot(0)));
        let what = good!(slot(0).identify());
        check!((what.ty, what.base, what.bytes) == (ty, lab.ram_base, right));
        good!(slot(0).delete());
    }
    Ok(())
}

fn rules(lab: &mut Lab) -> Outcome {
    let sources = [CapType::Ram, CapType::Frame, CapType::Pt, CapType::L2CNode, CapType::Endpoint];
    for from in sources {
        let bytes = if from == CapType::L2CNode { L2_BYTES } else { PAGE };
        good!(lab.make(from, 0, bytes, slot(0)));
        for &to in CapType::ALL {
            let fits = match to.object_size() {
                ObjectSize::Fixed(size) => size == PAGE,
                ObjectSize::Multiple(unit) => unit == PAGE,
                ObjectSize::None => false,
            };
            let result = slot(0).retype(to, 0, PAGE, 1, slot(1));
            if !from.can_retype_to(to) {
                fails!(WrongType, result);
            } else if fits {
                good!(result);
                good!(slot(1).delete());
            } else {
                fails!(OutOfRange, result);
            }
        }
        good!(slot(0).delete());
    }
    Ok(())
}

fn slots(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, PLAY_BYTES - PAGE, PAGE, slot(7)));
    fails!(Occupied, lab.ram.retype(CapType::Frame, 0, PAGE, 8, slot(0)));
    fails!(Empty, slot(0).identify());
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 7, slot(0)));
    fails!(NoSlot, lab.ram.retype(CapType::Frame, 1 << 20, PAGE, 7, slot(250)));
    fails!(NoSlot, lab.ram.retype(CapType::Frame, 1 << 20, PAGE, 1, Place::NULL));
    good!(lab.ram.retype(CapType::Frame, 1 << 20, PAGE, 6, slot(250)));
    Ok(())
}

fn zeroes(lab: &mut Lab) -> Outcome {
    let mut words = [0u8; 64];
    for _ in 0..2 {
        good!(lab.make(CapType::Frame, 0, 4 * PAGE, slot(0)));
        {
            let mut view = good!(lab.window.open(slot(0), 0, 4 * PAGE, RW));
            for offset in [0, 4096, 3 * 4096 + 4032] {
                good!(view.read(offset, &mut words));
                check!(words.iter().all(|&byte| byte == 0));
                good!(view.write(offset, &[0xa5; 64]));
            }
        }
        // A slice of a Frame keeps the contents.
        good!(slot(0).retype(CapType::Frame, 0, PAGE, 1, slot(1)));
        good!(good!(lab.window.open(slot(1), 0, PAGE, R)).read(0, &mut words));
        check!(words.iter().all(|&byte| byte == 0xa5));
        good!(slot(0).revoke());
        good!(slot(0).delete());
    }
    good!(lab.make(CapType::Pt, 0, PAGE, slot(0)));
    for entry in 0..512 {
        check!(good!(slot(0).read_entry(entry)) == 0);
    }
    Ok(())
}

fn slices(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, 0, 8 * PAGE, slot(0)));
    good!(slot(0).mint(slot(1), Rights::READ));
    good!(slot(1).retype(CapType::Frame, 2 * PAGE, 2 * PAGE, 1, slot(2)));
    let what = good!(slot(2).identify());
    check!(
        (what.base, what.bytes, what.rights) == (lab.ram_base + 2 * PAGE, 2 * PAGE, Rights::READ)
    );
    fails!(HasDescendants, slot(0).retype(CapType::Frame, 3 * PAGE, PAGE, 1, slot(3)));
    good!(slot(2).delete());
    good!(slot(0).retype(CapType::Frame, 3 * PAGE, PAGE, 1, slot(3)));
    Ok(())
}

fn copy(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(100, b"contents"));
    good!(lab.ram.retype_copy(PAGE, slot(0), slot(1)));
    let mut bytes = [0; 8];
    good!(good!(lab.window.open(slot(1), 0, PAGE, RW)).read(100, &mut bytes));
    check!(&bytes == b"contents");
    let what = good!(slot(1).identify());
    check!(
        (what.base, what.bytes, what.rights.has(Rights::WRITE))
            == (lab.ram_base + PAGE, PAGE, true)
    );
    fails!(HasDescendants, lab.ram.retype_copy(PAGE, slot(0), slot(2)));
    fails!(OutOfRange, lab.ram.retype_copy(1, slot(0), slot(2)));
    fails!(OutOfRange, lab.ram.retype_copy(PLAY_BYTES, slot(0), slot(2)));
    fails!(WrongType, lab.ram.retype_copy(2 * PAGE, lab.ram, slot(2)));
    fails!(Empty, lab.ram.retype_copy(2 * PAGE, slot(9), slot(2)));
    fails!(Occupied, lab.ram.retype_copy(2 * PAGE, slot(0), slot(1)));
    good!(slot(0).mint(slot(3), Rights::NONE));
    fails!(NoRights, lab.ram.retype_copy(2 * PAGE, slot(3), slot(2)));
    Ok(())
}

fn ports(_: &mut Lab) -> Outcome {
    good!(IO.retype(CapType::Io, 0x3f8, 8, 1, slot(0)));
    let what = good!(slot(0).identify());
    check!((what.ty, what.base, what.bytes) == (CapType::Io, 0x3f8, 8));
    good!(invoke(slot(0), op::PortIn { port: 0x3fd, width: 1 }));
    fails!(OutOfRange, invoke(slot(0), op::PortIn { port: 0x400, width: 1 }));
    fails!(OutOfRange, invoke(slot(0), op::PortIn { port: 0x3ff, width: 2 }));
    fails!(OutOfRange, invoke(slot(0), op::PortIn { port: 0x3f7, width: 1 }));
    fails!(Invalid, invoke(slot(0), op::PortIn { port: 0x3f8, width: 3 }));
    good!(IRQ.retype(CapType::Irq, 5, 1, 1, slot(1)));
    let what = good!(slot(1).identify());
    check!((what.ty, what.base, what.bytes) == (CapType::Irq, 5, 1));
    fails!(OutOfRange, slot(1).retype(CapType::Irq, 1, 1, 1, slot(2)));
    good!(slot(0).delete());
    slot(1).delete().map_err(|status| testkit::Failure {
        line: line!(),
        what: "delete",
        status: Some(status),
    })
}
