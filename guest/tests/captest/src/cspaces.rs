//! Other CSpaces: every argument that names a slot may name one in another CSpace, and a root may be
//! replaced by a larger or smaller one under those who use it.

use crate::probe::{make_tables, probe, Access, PT, VA};
use crate::setup::{capabilities, slot, Lab};
use crate::threads::{self, Spaces, EP};
use crate::Test;
use libos::abi::slots::{DISPATCHER, ID, ROOT};
use libos::captypes::invocations::Part;
use libos::captypes::place::L2_BYTES;
use libos::captypes::CapType::*;
use libos::ipc::{self, Caps};
use libos::vspace::{root, R, RW};
use libos::{invoke, op, Cap, CapAddr, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("cspace_all_operations", all_operations),
    ("cspace_mappings", mappings),
    ("cspace_messages", messages),
    ("cspace_dispatcher", other_dispatcher),
    ("resize_own_root", resize_own_root),
    ("resize_of_a_running_domain", resize_of_a_running_domain),
    ("retype_many", retype_many),
    ("compare_and_ids", compare_and_ids),
];

const OTHER: CapAddr = slot(10);

/// Another CSpace: a root with two L2CNodes, at 4 and 5.
fn make_other(lab: &mut Lab) -> Result<(), Status> {
    lab.make(L1CNode, 8 << 20, L2_BYTES, OTHER)?;
    lab.ram.retype(L2CNode, (8 << 20) + L2_BYTES, L2_BYTES, 2, Place::l1(OTHER, 4))
}

fn at(l1: u32, l2: u32) -> Place {
    Place::within(OTHER, CapAddr::new(l1, l2))
}

fn parts<const N: usize>(some: [(libos::CapType, u64, u64, u32); N]) -> [Part; Part::MOST] {
    core::array::from_fn(|n| match some.get(n) {
        Some(&(ty, first, units, count)) => {
            Part::new(ty, first, units, count).unwrap_or(Part::NONE)
        }
        None => Part::NONE,
    })
}

/// Nothing of these is in the own CSpace but the root of the other.
fn all_operations(lab: &mut Lab) -> Outcome {
    good!(make_other(lab));
    good!(lab.ram.copy_to(at(4, 0)));
    let ram = at(4, 0);
    good!(ram.retype(Frame, 0, PAGE, 4, at(4, 1)));
    good!(at(4, 1).copy_to(at(5, 1)));
    good!(at(4, 2).mint(at(5, 2), Rights::READ));
    good!(at(4, 3).move_to(at(5, 3)));
    fails!(Empty, at(4, 3).identify());
    check!(good!(at(5, 2).identify()).rights == Rights::READ);
    check!(good!(at(5, 1).is_same(at(4, 1))) && !good!(at(5, 1).is_same(at(5, 2))));
    check!(good!(ram.retype_many(at(5, 10), parts([(Frame, 16, 1, 2), (Pt, 20, 1, 1)]))) == 3);
    good!(ram.retype_copy(32 * PAGE, at(4, 1), at(5, 20)));
    check!(good!(at(5, 20).identify()).base == lab.ram_base + 32 * PAGE);
    check!(good!(at(5, 0).copy_range(at(4, 100), 30, Null)) == 7);
    check!(good!(at(4, 112).identify()).ty == Pt);
    good!(at(4, 100).delete_range(30));
    good!(ID.copy_to(at(4, 50)));
    let number = good!(at(4, 50).new_id(at(5, 50)));
    check!(good!(at(5, 50).identify()).base == number);
    good!(invoke(at(5, 50), op::NoOp {}));
    good!(at(4, 1).revoke());
    fails!(Empty, at(5, 1).identify());
    good!(at(4, 1).delete());
    fails!(Empty, at(4, 1).identify());
    // The root of a third CSpace, in the second.
    good!(ram.retype(L1CNode, 1 << 20, L2_BYTES, 1, at(5, 60)));
    good!(ram.retype(L1CNode, 2 << 20, 4 * L2_BYTES, 1, at(5, 61)));
    good!(at(5, 60).resize(at(5, 61)));
    check!(good!(at(5, 60).identify()).bytes == 4 * L2_BYTES);
    check!(good!(at(5, 61).identify()).bytes == L2_BYTES);
    Ok(())
}

fn mappings(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(make_other(lab));
    good!(lab.ram.retype(Frame, 0, PAGE, 8, at(4, 0)));
    good!(PT.copy_to(at(5, 0)));
    let pt = at(5, 0);
    good!(pt.map(0, 1, at(4, 0), 0, RW, at(4, 50)));
    check!(good!(pt.map_many(1, 6, at(4, 1), RW, at(4, 51))) == 6);
    check!(good!(probe(lab, VA + 6 * PAGE, Access::Write)).is_done());
    good!(at(4, 50).protect(0, 1, R));
    check!(good!(at(4, 51).protect_many(6, R)) == 6);
    check!(
        good!(probe(lab, VA + 6 * PAGE, Access::Write)).is_forbidden(VA + 6 * PAGE, Access::Write)
    );
    good!(at(4, 50).replace(at(4, 7), RW));
    check!(good!(pt.read_entry(0)) & !0xfff & ((1 << 48) - 1) == lab.ram_base + 7 * PAGE);
    good!(lab.make(Frame, 1 << 20, 3 * PAGE, slot(0)));
    good!(pt.map(20, 3, slot(0), 0, R, at(5, 1)));
    good!(at(5, 1).unmap(1, 1, at(5, 2)));
    check!(good!(at(5, 2).identify()).base == lab.ram_base + (1 << 20) + 2 * PAGE);
    good!(OTHER.delete());
    // The Mappings were there only.
    check!((0..30).all(|n| PT.read_entry(n) == Ok(0)));
    Ok(())
}

extern "C" fn send(first: u64, _: u64, _: u64) -> ! {
    let (caps, back) = (Caps::new(Place(first), 3), Place(first).plus(10));
    let answer = ipc::call(EP, [first, 0, 0, 0, 0, 0], caps, back);
    let arrived = answer.map_or(u64::MAX, |message| u64::from(message.caps()));
    let _ = threads::tell([arrived, 0, 0, 0, 0, 0]);
    threads::idle()
}

/// Capabilities of a message come from another CSpace and go to one.
fn messages(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(make_other(lab));
    good!(lab.ram.retype(Frame, 0, PAGE, 3, at(4, 0)));
    good!(threads::start(lab, 0, send, [at(4, 0).0, 0, 0]));
    let message = good!(ipc::recv(EP, at(5, 100)));
    check!(message.caps() == 3 && good!(at(5, 102).is_same(at(4, 2))));
    let answer = Caps::moved(at(5, 100), 2);
    let message = good!(ipc::reply_recv(EP, Place::CALLER, [0; 6], answer, Place::NULL));
    check!(message.words[0] == 2);
    check!(good!(at(4, 11).is_same(at(4, 1))));
    fails!(Empty, at(5, 100).identify());
    threads::kill(0).map_err(|status| testkit::Failure {
        line: line!(),
        what: "kill",
        status: Some(status),
    })
}

extern "C" fn add_up(a: u64, b: u64, _: u64) -> ! {
    let _ = threads::tell([a + b, 0, 0, 0, 0, 0]);
    threads::idle()
}

/// A dispatcher, its frame and what it is given, all in another CSpace.
fn other_dispatcher(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(make_other(lab));
    good!(threads::prepare(lab, 0, add_up, [3, 4, 0], Spaces::default()));
    let (dispatcher, frame) = (at(4, 0), at(4, 1));
    good!(threads::dispatcher(0).move_to(dispatcher));
    good!(threads::frame(0).move_to(frame));
    good!(ROOT.copy_to(at(4, 2)));
    good!(root().copy_to(at(4, 3)));
    good!(EP.copy_to(at(4, 4)));
    let args = op::Configure {
        cspace: at(4, 2),
        vspace: at(4, 3),
        frame,
        frame_va: libos::abi::layout::NATIVE_FRAME,
        fault_ep: at(4, 4),
        options: 0,
    };
    good!(invoke(dispatcher, args));
    good!(invoke(dispatcher, op::Start {}));
    check!(good!(ipc::recv(at(4, 4), Place::NULL)).words[0] == 7);
    good!(invoke(dispatcher, op::Suspend {}).or(Ok::<(), Status>(())));
    good!(dispatcher.notify(1));
    good!(dispatcher.revoke());
    good!(dispatcher.delete());
    Ok(())
}

/// The program's own root grows to four times its slots, is used, and shrinks again.
fn resize_own_root(lab: &mut Lab) -> Outcome {
    let before = good!(ROOT.identify());
    let beyond = before.bytes as u32 / 64 + 100;
    fails!(NoSlot, Place::l1(CapAddr::NULL, beyond).identify());
    good!(lab.make(L1CNode, 0, 4 * before.bytes, slot(0)));
    good!(ROOT.resize(slot(0)));
    let after = good!(ROOT.identify());
    check!((after.base, after.bytes) == (lab.ram_base, 4 * before.bytes));
    let old = good!(slot(0).identify());
    check!((old.base, old.bytes) == (before.base, before.bytes));
    good!(lab.ram.retype(L2CNode, 1 << 20, L2_BYTES, 1, Place::l1(CapAddr::NULL, beyond)));
    good!(lab.make(Frame, 2 << 20, PAGE, CapAddr::new(beyond, 200)));
    check!(good!(CapAddr::new(beyond, 200).identify()).bytes == PAGE);
    // Back into the old one, whose slots are still full of copies, once they are gone.
    fails!(OutOfRange, ROOT.resize(slot(0)));
    good!(Place::l1(CapAddr::NULL, beyond).delete());
    fails!(Occupied, ROOT.resize(slot(0)));
    good!(Place::l1(slot(0), 0).delete_range(before.bytes as u32 / 64));
    good!(ROOT.resize(slot(0)));
    check!(good!(ROOT.identify()).base == before.base);
    fails!(NoSlot, Place::l1(CapAddr::NULL, beyond).identify());
    good!(slot(0).delete());
    check!(good!(DISPATCHER.identify()).ty == Dispatcher);
    Ok(())
}

extern "C" fn look(_: u64, _: u64, _: u64) -> ! {
    loop {
        let mine = libos::abi::slots::ROOT.identify().map_or(0, |what| what.bytes);
        if threads::tell([mine, 0, 0, 0, 0, 0]).is_err() {
            threads::idle()
        }
    }
}

/// Another domain's root, while it waits in a call and goes on.
fn resize_of_a_running_domain(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    good!(lab.make(L1CNode, 0, L2_BYTES, slot(0)));
    let count = (EP.l1() + 1).min(256);
    good!(lab.ram.retype(L2CNode, L2_BYTES, L2_BYTES, 1, Place::l1(slot(0), 0)));
    good!(lab.ram.retype(L2CNode, 2 * L2_BYTES, L2_BYTES, 1, Place::l1(slot(0), EP.l1())));
    let there = |addr: CapAddr| Place::within(slot(0), addr);
    good!(slot(0).copy_to(there(ROOT)));
    good!(EP.copy_to(there(EP)));
    let spaces = Spaces { cspace: slot(0).into(), vspace: root().into() };
    good!(threads::prepare(lab, 0, look, [0; 3], spaces));
    good!(invoke(threads::dispatcher(0), op::Start {}));
    check!(good!(threads::hear()).words[0] == L2_BYTES);
    for (n, bytes) in [8 * L2_BYTES, 2 * L2_BYTES, L2_BYTES].into_iter().enumerate() {
        good!(lab.make(L1CNode, (n as u64 + 1) << 20, bytes, slot(1)));
        good!(slot(0).resize(slot(1)));
        good!(slot(1).delete());
        let answer = ipc::reply_recv(EP, Place::CALLER, [0; 6], Caps::NONE, Place::NULL);
        check!(good!(answer).words[0] == bytes);
    }
    check!(count > 0);
    good!(threads::kill(0));
    Ok(())
}

fn retype_many(lab: &mut Lab) -> Outcome {
    let wanted = [
        (Dispatcher, 0, 1, 2),
        (Frame, 4, 2, 3),
        (L2CNode, 12, 4, 1),
        (Pml4, 20, 1, 1),
        (Ram, 32, 16, 4),
        (Endpoint, 100, 1, 1),
        (Pt, 101, 1, 3),
    ];
    let before = capabilities();
    check!(good!(lab.ram.retype_many(slot(0), parts(wanted))) == 15);
    let mut n = 0;
    for (ty, first, units, count) in wanted {
        for k in 0..u64::from(count) {
            let what = good!(slot(n).identify());
            let base = lab.ram_base + (first + k * units) * PAGE;
            check!((what.ty, what.base, what.bytes) == (ty, base, units * PAGE));
            n += 1;
        }
    }
    check!(capabilities() == before + 15);
    // What is made so is as zeroed as what is made one by one.
    let mut words = [0xffu8; 64];
    good!(good!(lab.window.open(slot(3), 0, 2 * PAGE, R)).read(4096, &mut words));
    check!(words.iter().all(|&byte| byte == 0));
    check!((0..512).all(|entry| slot(12).read_entry(entry) == Ok(0)));
    Ok(())
}

/// A token that comes back in a message is known by comparing, not by its number.
fn compare_and_ids(lab: &mut Lab) -> Outcome {
    let (a, b) = (good!(ID.new_id(slot(0))), good!(ID.new_id(slot(1))));
    check!(b > a);
    good!(slot(0).mint(slot(2), Rights::NONE));
    check!(good!(slot(2).is_same(slot(0))) && !good!(slot(2).is_same(slot(1))));
    fails!(WrongState, slot(0).new_id(slot(5)));
    fails!(WrongType, lab.ram.new_id(slot(5)));
    fails!(WrongType, ID.retype(Id, b, 1, 1, slot(5)));
    fails!(Occupied, ID.new_id(slot(1)));
    good!(slot(1).delete());
    check!(good!(ID.new_id(slot(1))) > b);
    good!(slot(0).revoke());
    fails!(Empty, slot(2).identify());
    Ok(())
}
