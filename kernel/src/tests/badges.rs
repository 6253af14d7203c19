//! Badges: capabilities to one Endpoint that can be revoked one by one.

use super::machine::*;
use captypes::invocations::Identity;
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

const EP: CapAddr = CapAddr(20);

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// A machine with an Endpoint, and its badges 1 to `badges` in the slots behind.
fn setup(badges: u32) -> Machine {
    let mut m = Machine::new();
    m.make(CapType::Endpoint, 0x8000, 4096, EP.0);
    for badge in 1..=badges {
        mint(&mut m, EP, EP.0 + badge, badge);
    }
    m
}

fn mint(m: &mut Machine, from: CapAddr, to: u32, badge: u32) {
    m.call(from, op::Mint { dst: at(to).into(), rights: Rights::ALL, badge }).unwrap();
}

fn copy(m: &mut Machine, from: u32, to: u32) {
    m.call(at(from), op::Copy { dst: at(to).into() }).unwrap();
}

fn relations(m: &mut Machine, slot: u32) -> u64 {
    m.call(at(slot), op::Identify {}).unwrap().relations
        & (Identity::COPIES | Identity::DESCENDANTS)
}

#[test]
fn revoking_a_badge_takes_its_copies_and_nothing_else() {
    let mut m = setup(3);
    copy(&mut m, 22, 40);
    mint(&mut m, EP, 41, 2);
    copy(&mut m, 23, 42);
    assert_eq!(relations(&mut m, 22), Identity::COPIES);
    assert_eq!(relations(&mut m, 21), 0);
    m.revoke(at(22)).unwrap();
    assert!(m.is_empty(at(40)) && m.is_empty(at(41)));
    assert!([20, 21, 22, 23, 42].iter().all(|&slot| !m.is_empty(at(slot))));
    assert_eq!(relations(&mut m, 22), 0);
}

#[test]
fn revoking_the_endpoint_takes_all_badges() {
    let mut m = setup(3);
    copy(&mut m, 22, 40);
    m.call(EP, op::Copy { dst: at(41).into() }).unwrap();
    assert_eq!(relations(&mut m, 20), Identity::COPIES | Identity::DESCENDANTS);
    m.revoke(EP).unwrap();
    assert!([21, 22, 23, 40, 41].iter().all(|&slot| m.is_empty(at(slot))));
    assert!(!m.is_empty(EP));
    assert_eq!(relations(&mut m, 20), 0);
}

#[test]
fn an_endpoint_lives_as_long_as_any_capability_to_it() {
    let made = |m: &mut Machine| m.retype(RAM, CapType::Frame, 0x8000, 4096, 1, at(50));
    for last in [20, 21, 23] {
        let mut m = setup(3);
        for slot in (20..24).filter(|&slot| slot != last) {
            m.delete(at(slot)).unwrap();
            assert_eq!(made(&mut m), Err(Status::HasDescendants));
        }
        m.delete(at(last)).unwrap();
        let home = m.call(KERNEL, op::CollectReclaimed {}).unwrap();
        assert_eq!(home.bytes0, 4096);
        made(&mut m).unwrap();
    }
}

#[test]
fn a_fault_endpoint_goes_with_its_badge() {
    let mut m = setup(2);
    let dispatcher = m.make(CapType::Dispatcher, 0x9000, 4096, 30);
    let configure = |fault_ep: u32| op::Configure {
        cspace: Place::NULL,
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: at(fault_ep).into(),
        options: 0,
    };
    m.call(dispatcher, configure(21)).unwrap();
    assert_eq!(relations(&mut m, 21), Identity::COPIES);
    m.revoke(at(22)).unwrap();
    assert_eq!(relations(&mut m, 21), Identity::COPIES);
    m.revoke(at(21)).unwrap();
    assert_eq!(relations(&mut m, 21), 0);
}

#[test]
fn a_caller_keeps_the_badge_that_it_called_with() {
    let mut m = setup(2);
    let server = m.second(0, 16);
    let call =
        op::Call { w0: 1, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: Place::NULL, recv: Place::NULL };
    m.raw(at(22).into(), 0, call);
    m.run();
    assert_eq!(m.current(), Some(server));
    // What waits to be received came before the badge was revoked. That is why a badge must not be
    // given twice, even if no capability has it any more.
    m.raw(at(22).into(), 0, op::Revoke {});
    m.raw(at(22).into(), 0, op::Delete {});
    assert!(m.is_empty(at(22)));
    m.raw(EP.into(), 0, op::Poll { recv: Place::NULL });
    assert_eq!((server.ctx.rax.get(), server.ctx.rdi.get()), (0, 2));
}

/// With thousands of badges each of them costs what one alone does: no operation on one looks at the
/// others. A step is some 300 instructions; an event has 256.
#[test]
fn many_badges_do_not_slow_each_other_down() {
    const NODES: u32 = 16;
    let mut m = setup(0);
    m.make(CapType::Ram, 0x10_0000, 0x4000 * u64::from(NODES), 30);
    let mut badge = 0;
    for node in 0..NODES {
        let offset = u64::from(node) * 0x4000;
        let dst = Place::l1(ROOT, 8 + node);
        let ty = CapType::L2CNode;
        m.call(at(30), op::Retype { ty: ty.into(), offset, bytes: 0x4000, count: 1, dst }).unwrap();
        for slot in 0..256 {
            badge += 1;
            let dst = Place::own(CapAddr::new(8 + node, slot));
            m.call(EP, op::Mint { dst, rights: Rights::ALL, badge }).unwrap();
        }
    }
    for slot in [CapAddr::new(8, 3), CapAddr::new(12, 255), CapAddr::new(8 + NODES - 1, 200)] {
        m.core.local.caps.budget.set(4);
        m.call(slot, op::Revoke {}).unwrap();
        m.call(slot, op::Delete {}).unwrap();
    }
    m.core.local.caps.budget.set(crate::cap::budget::BUDGET);
    m.revoke(EP).unwrap();
    assert_eq!(relations(&mut m, EP.0), 0);
}
