//! What the kernel's own map shows, where it is no map of all memory. After each invocation all invariants are checked,
//! this one with them; here is what it begins and ends with.

use super::machine::*;
use crate::arch;
use crate::object::DcbRef;
use captypes::{op, CapAddr, CapType, Place, Status};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Where in the RAM objects are made.
const OFFSET: u64 = 2 * MIB;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// How many of the pages of `bytes` at `base` are shown as objects.
fn shown(base: u64, bytes: u64) -> u64 {
    (base..base + bytes).step_by(PAGE as usize).filter(|&page| arch::is_shown(page)).count() as u64
}

/// Takes what has come back from the list.
fn collect(m: &mut Machine) {
    while m.call(KERNEL, op::CollectReclaimed {}).unwrap().bytes0 != 0 {}
}

#[test]
fn an_object_is_shown_as_long_as_it_is_one() {
    let objects = [
        (CapType::Pt, PAGE),
        (CapType::Pml4, PAGE),
        (CapType::L2CNode, 4 * PAGE),
        (CapType::L1CNode, 3 * PAGE),
        (CapType::Dispatcher, PAGE),
        (CapType::Endpoint, PAGE),
    ];
    for (ty, bytes) in objects {
        let mut m = Machine::new();
        let base = FREE + OFFSET;
        let object = m.make(ty, OFFSET, bytes, 40);
        assert_eq!(shown(base, bytes), bytes / PAGE, "{ty:?}");
        m.call(object, op::Copy { dst: at(41).into() }).unwrap();
        m.delete(object).unwrap();
        assert_eq!(shown(base, bytes), bytes / PAGE, "{ty:?} has a copy");
        m.delete(at(41)).unwrap();
        assert_eq!(shown(base, bytes), 0, "{ty:?}");
        collect(&mut m);
        m.make(CapType::Frame, OFFSET, bytes, 40);
        assert_eq!(shown(base, bytes), 0);
    }
}

#[test]
fn revoking_the_ram_hides_all() {
    let mut m = Machine::new();
    m.make(CapType::Ram, OFFSET, MIB, 39);
    m.retype(at(39), CapType::Pt, 0, PAGE, 100, Place::from(at(40))).unwrap();
    m.retype(at(39), CapType::L2CNode, MIB / 2, 4 * PAGE, 2, Place::from(at(140))).unwrap();
    assert_eq!(shown(FREE + OFFSET, MIB), 108);
    m.revoke(at(39)).unwrap();
    assert_eq!(shown(FREE + OFFSET, MIB), 0);
}

/// A retype in steps is given up, after each number of steps that it takes.
#[test]
fn what_a_retype_has_begun_is_hidden_when_it_is_given_up() {
    const BYTES: u64 = 3 * MIB;
    let mut m = Machine::new();
    let args = |ty: CapType| op::Retype {
        ty: ty.into(),
        offset: OFFSET,
        bytes: BYTES,
        count: 1,
        dst: at(40).into(),
    };
    for steps in 1.. {
        let ends = (0..steps).all(|_| m.call(RAM, args(CapType::L1CNode)) == Err(Status::Again));
        if !ends {
            break;
        }
        assert!(shown(FREE + OFFSET, BYTES) > 0);
        m.delete(at(40)).unwrap();
        assert_eq!(shown(FREE + OFFSET, BYTES), 0, "after {steps} steps");
        assert!(steps < 64);
        collect(&mut m);
    }
    assert_eq!(shown(FREE + OFFSET, BYTES), BYTES / PAGE);
    m.delete(at(40)).unwrap();
    assert_eq!(shown(FREE + OFFSET, BYTES), 0);
}

fn configure(m: &mut Machine, dispatcher: CapAddr, frame: CapAddr) {
    let args = op::Configure {
        cspace: ROOT.into(),
        vspace: VSPACE.into(),
        frame: frame.into(),
        frame_va: 0x2000,
        fault_ep: Place::NULL,
        options: 0,
    };
    m.call(dispatcher, args).unwrap();
}

#[test]
fn a_frame_is_shown_for_each_dispatcher_that_has_it() {
    let mut m = Machine::new();
    let frames = [0, 1].map(|n| m.make(CapType::Frame, OFFSET + n * PAGE, PAGE, 40 + n as u32));
    let (first, second) = (FREE + OFFSET, FREE + OFFSET + PAGE);
    let dispatchers =
        [2, 3].map(|n| m.make(CapType::Dispatcher, OFFSET + n * PAGE, PAGE, 40 + n as u32));
    let sharers = || (arch::sharers(first), arch::sharers(second));
    dispatchers.iter().for_each(|&dispatcher| configure(&mut m, dispatcher, frames[0]));
    assert_eq!(sharers(), (2, 0));
    // The same again is no second time.
    configure(&mut m, dispatchers[0], frames[0]);
    assert_eq!(sharers(), (2, 0));
    configure(&mut m, dispatchers[0], frames[1]);
    assert_eq!(sharers(), (1, 1));
    m.delete(dispatchers[1]).unwrap();
    assert_eq!(sharers(), (0, 1));
    // With its last capability it leaves the dispatcher, too.
    m.revoke(frames[1]).unwrap();
    m.delete(frames[1]).unwrap();
    assert_eq!(sharers(), (0, 0));
    assert_eq!(shown(first, 2 * PAGE), 0);
}

#[test]
fn runs_of_pages_are_zeroed_and_copied_like_single_ones() {
    const PAGES: u64 = 37;
    let mut m = Machine::new();
    let base = FREE + OFFSET;
    let memory = |page: u64| arch::phys_to_virt(base + page * PAGE);
    // SAFETY: the machine's memory, which nobody refers to.
    (0..2 * PAGES).for_each(|page| unsafe { memory(page).write_bytes(page as u8 + 1, 4096) });
    m.make(CapType::Frame, OFFSET, PAGES * PAGE, 40);
    // SAFETY: as above.
    let byte = |page: u64, n: usize| unsafe { memory(page).add(n).read() };
    assert!((0..PAGES).all(|page| byte(page, 0) == 0 && byte(page, 4095) == 0));
    assert!((PAGES..2 * PAGES).all(|page| byte(page, 0) == page as u8 + 1));
    // SAFETY: as above.
    (0..PAGES).for_each(|page| unsafe { memory(page).write_bytes(page as u8 + 101, 4096) });
    let args = op::RetypeCopy {
        src: at(40).into(),
        offset: OFFSET + PAGES * PAGE,
        src_offset: 0,
        bytes: PAGES * PAGE,
        alone: false,
        dst: at(41).into(),
    };
    m.call(RAM, args).unwrap();
    assert!((0..PAGES).all(|page| byte(PAGES + page, 4095) == page as u8 + 101));
    assert_eq!(shown(base, 2 * PAGES * PAGE), 0);
}

/// What dispatchers have is in the map; a second one for the other tests' sake.
#[test]
fn the_check_sees_what_should_not_be_there() {
    let mut m = Machine::new();
    let second: DcbRef = m.second(OFFSET, 60);
    let frame = second.frame.get().0;
    m.check();
    let broken = |change: &dyn Fn(), undo: &dyn Fn()| {
        change();
        let found = crate::check::check(&m.core.local);
        undo();
        m.check();
        assert!(found.is_err());
    };
    broken(&|| arch::show(frame, PAGE), &|| arch::hide(frame, PAGE));
    broken(&|| arch::unshare(frame), &|| arch::share(frame));
    broken(&|| arch::hide(second.pa(), PAGE), &|| arch::show(second.pa(), PAGE));
    let other = m.make(CapType::Frame, OFFSET + MIB, PAGE, 70);
    let page = m.slot(other).cap().base;
    let broken = |change: &dyn Fn(), undo: &dyn Fn()| {
        change();
        let found = crate::check::check(&m.core.local);
        undo();
        assert!(found.is_err());
    };
    broken(&|| arch::share(page), &|| arch::unshare(page));
    broken(&|| arch::show(page, PAGE), &|| arch::hide(page, PAGE));
}
