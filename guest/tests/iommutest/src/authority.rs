//! Who may attach what.

use crate::lab::{capabilities, slot, Lab, FREE, OBJECT, PDPT, POOL, REST, SHOWN, SPACE, VIEW};
use crate::Test;
use libos::abi::slots::{DISPATCHER, FUNCTIONS, IO, IRQ, KERNEL, ROOT, SELF_EP, VSPACE};
use libos::captypes::CapType::{DeviceSpace, Endpoint, Frame, PciFunction};
use libos::function::FunctionCap;
use libos::ipc::{call, recv, reply, Caps};
use libos::morsel::PoolCap;
use libos::runtime::stop;
use libos::spawn::Child;
use libos::vspace::{R, RW, RX};
use libos::{domain, op, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("rights_to_functions", functions),
    ("rights_to_spaces", spaces),
    ("what_is_none", what_is_none),
    ("a_domain_without_functions", without),
];

fn functions(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    let what = good!(lab.function.identify());
    check!((what.ty, what.base, what.bytes) == (PciFunction, lab.number.into(), 1));
    let all = good!(FUNCTIONS.identify());
    check!((all.base, all.bytes) == (0, 1 << 16));
    // One at a time, and of the first bus.
    fails!(OutOfRange, FUNCTIONS.attach(SPACE));
    fails!(OutOfRange, FUNCTIONS.block());
    fails!(HasDescendants, FUNCTIONS.retype(PciFunction, lab.number.into(), 1, 1, slot(FREE)));
    fails!(OutOfRange, FUNCTIONS.retype(PciFunction, 1 << 16, 1, 1, slot(FREE)));
    good!(FUNCTIONS.retype(PciFunction, 0x108, 1, 1, slot(FREE)));
    fails!(OutOfRange, slot(FREE).attach(SPACE));
    fails!(OutOfRange, slot(FREE).block());
    check!(good!(slot(FREE).next_fault()).is_none());
    // With less rights.
    good!(lab.function.mint(slot(FREE + 1), Rights::READ));
    fails!(NoRights, slot(FREE + 1).attach(SPACE));
    fails!(NoRights, slot(FREE + 1).block());
    good!(lab.function.mint(slot(FREE + 2), Rights::WRITE));
    fails!(NoRights, slot(FREE + 2).next_fault());
    // A fault is told to whom the function belongs, once.
    good!(slot(FREE + 2).block());
    good!(lab.edu.store(0, 8));
    check!(good!(slot(FREE).next_fault()).is_none());
    let fault = good!(slot(FREE + 1).next_fault());
    check!(fault.is_some_and(|fault| fault.function == lab.number && fault.lost == 0));
    check!(good!(FUNCTIONS.next_fault()).is_none());
    Ok(())
}

fn spaces(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    let (read, other, mapping) = (slot(FREE), slot(FREE + 1), slot(FREE + 2));
    good!(SPACE.mint(read, Rights::READ));
    fails!(NoRights, read.map(1, 1, OBJECT, 0, R, mapping));
    good!(OBJECT.mint(other, Rights::READ));
    fails!(NoRights, SPACE.map(1, 1, other, 0, RW, mapping));
    good!(SPACE.map(1, 1, other, 0, R, mapping));
    fails!(NoRights, mapping.protect(0, 1, RW));
    good!(mapping.delete());
    fails!(Occupied, SPACE.map(0, 1, OBJECT, 0, R, mapping));
    // Where a device raises interrupts, and behind the end.
    for entry in [3, 512, u32::MAX] {
        fails!(OutOfRange, SPACE.map(entry, 1, OBJECT, 0, R, mapping));
    }
    fails!(OutOfRange, SPACE.map(1, 2, OBJECT, 0, R, mapping));
    fails!(OutOfRange, SPACE.map(1, 0, OBJECT, 0, R, mapping));
    fails!(OutOfRange, SPACE.map(1, 1, OBJECT, PAGE, R, mapping));
    fails!(Invalid, SPACE.map(1, 1, OBJECT, 0, RX, mapping));
    good!(POOL.create_morsel(1, slot(FREE + 3)));
    fails!(WrongLevel, SPACE.map(1, 1, slot(FREE + 3), 0, R, mapping));
    good!(SPACE.map(511, 1, OBJECT, 0, RW, mapping));
    fails!(OutOfRange, mapping.unmap(1, 1, Place::NULL));
    fails!(OutOfRange, mapping.protect(0, 2, R));
    fails!(OutOfRange, mapping.replace(OBJECT, R));
    Ok(())
}

/// Each operation on what it is not for.
fn what_is_none(lab: &mut Lab) -> Outcome {
    good!(lab.furnish(RW));
    good!(lab.ram.retype(Frame, REST, PAGE, 1, slot(FREE)));
    let count = capabilities();
    let others = [
        ROOT,
        DISPATCHER,
        VSPACE,
        KERNEL,
        IO,
        IRQ,
        lab.ram,
        POOL,
        OBJECT,
        VIEW,
        PDPT,
        SHOWN,
        SPACE,
        slot(FREE),
    ];
    for what in others {
        fails!(WrongType, what.attach(SPACE));
        fails!(WrongType, what.block());
        fails!(WrongType, what.next_fault());
        if what != SPACE {
            fails!(WrongType, lab.function.attach(what));
        }
        if what != OBJECT {
            fails!(WrongType, SPACE.map(1, 1, what, 0, R, slot(FREE + 1)));
        }
    }
    fails!(WrongType, lab.function.attach(lab.function));
    fails!(Empty, lab.function.attach(slot(FREE + 1)));
    // It is no page table, and nothing that could be looked at.
    fails!(WrongType, VSPACE.map(100, 1, SPACE, 0, R, slot(FREE + 1)));
    fails!(WrongType, SPACE.read_entry(0));
    fails!(WrongType, SPACE.map_zero(1, 1, R));
    fails!(WrongType, SPACE.map_many(1, 1, slot(FREE), R, slot(FREE + 1)));
    fails!(WrongType, SPACE.retype(Frame, 0, PAGE, 1, slot(FREE + 1)));
    fails!(WrongType, slot(FREE).retype(DeviceSpace, 0, PAGE, 1, slot(FREE + 1)));
    fails!(WrongType, lab.ram.retype(PciFunction, REST + PAGE, PAGE, 1, slot(FREE + 1)));
    check!(capabilities() == count);
    check!(good!(lab.fault()).is_none());
    Ok(())
}

/// First argument of a start as a child.
pub const CHILD: u64 = 0x63_6869_6c64;
/// Where the child has a DeviceSpace, and RAM.
const CHILD_SPACE: CapAddr = CapAddr(27);
const CHILD_RAM: CapAddr = CapAddr(28);

/// What a child without a capability to functions tries, and reports.
pub fn child_main() -> ! {
    let number = |result: Result<(), Status>| result.err().map_or(0, |status| status as u64);
    let make = |from: CapAddr| from.retype(PciFunction, 0, PAGE, 1, CapAddr(29));
    let tried = [
        number(FUNCTIONS.attach(CHILD_SPACE)),
        number(CHILD_SPACE.attach(CHILD_SPACE)),
        number(CHILD_RAM.attach(CHILD_SPACE)),
        number(make(CHILD_RAM)),
        number(make(CHILD_SPACE)),
        number(libos::invoke(FUNCTIONS, op::BlockFunction {})),
    ];
    // It is over, whatever the answer is.
    let _ = call(SELF_EP, tried, Caps::NONE, Place::NULL);
    stop()
}

fn without(lab: &mut Lab) -> Outcome {
    let (root, dispatcher, ep) = (slot(FREE), slot(FREE + 1), slot(FREE + 2));
    good!(lab.furnish(RW));
    let built = domain::with(|domain| {
        let built =
            Child::build(lab.own_file, root, dispatcher, &mut domain.arena, &mut lab.window);
        built.map_err(|_| Status::Invalid)
    });
    let child = good!(built);
    good!(lab.ram.retype(Endpoint, REST, PAGE, 1, ep));
    good!(ep.mint_badged(child.slot(SELF_EP), Rights::SEND, 5));
    good!(child.give(SPACE, CHILD_SPACE));
    good!(lab.ram.retype(CapType::Ram, REST + PAGE, PAGE, 1, child.slot(CHILD_RAM)));
    good!(child.start([CHILD, 0, 0, 0, 0], ep.into(), &mut lab.window));
    let message = good!(recv(ep, Place::NULL));
    check!(!message.is_fault() && message.badge == 5);
    use Status::{Empty, WrongType};
    let expected = [Empty, WrongType, WrongType, WrongType, WrongType, Empty];
    check!(message.words == expected.map(|status| status as u64));
    good!(reply(Place::CALLER, [0; 6], Caps::NONE));
    good!(child.destroy());
    Ok(())
}
