//! Calls, answers, notifications, timers.

use super::machine::*;
use crate::object::dcb::flag;
use crate::object::{DcbRef, State};
use captypes::invocations::{received, NOTIFY_TIMER};
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// A machine with a server on the endpoint in slot 20, which waits; badge 9 in slot 21.
fn setup() -> (Machine, DcbRef) {
    let mut m = Machine::new();
    let ep = m.make(CapType::Endpoint, 0x8000, 4096, 20);
    m.call(ep, op::Mint { dst: at(21).into(), rights: Rights::SEND, badge: 9 }).unwrap();
    let server = m.second(0, 16);
    m.core.local.sched.suspend(m.dcb).unwrap();
    m.run();
    assert_eq!(m.current(), Some(server));
    (m, server)
}

fn reply_recv(to: Place, w0: u64, recv: u32) -> op::ReplyRecv {
    let recv = at(recv).into();
    op::ReplyRecv { w0, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: Place::NULL, recv, to }
}

fn call(w0: u64, caps: u32, recv: u32) -> op::Call {
    let (caps, recv) = (at(caps).into(), at(recv).into());
    op::Call { w0, w1: 1, w2: 2, w3: 3, w4: 4, w5: 5, caps, recv }
}

/// The server begins to wait, and the first dispatcher goes on.
fn wait_for_calls(m: &mut Machine) {
    m.core.local.sched.resume(m.dcb).unwrap();
    m.raw(at(20).into(), 0, reply_recv(Place::NULL, 0, 100));
    assert_eq!(m.current(), Some(m.dcb));
}

#[test]
fn a_call_goes_to_the_server_and_back() {
    let (mut m, server) = setup();
    wait_for_calls(&mut m);
    m.raw(at(21).into(), 2, call(77, 7, 0));
    assert_eq!(m.current(), Some(server));
    let ctx = &server.ctx;
    assert_eq!((ctx.rax.get(), ctx.rdi.get(), ctx.r13.get()), (0, 9, 2));
    assert_eq!(ctx.words(), [77, 1, 2, 3, 4, 5]);
    assert!(!m.is_empty(at(100)) && !m.is_empty(at(101)) && m.is_empty(at(102)));
    m.raw(at(20).into(), 0, reply_recv(Place::CALLER, 55, 110));
    assert_eq!(m.current(), Some(m.dcb));
    assert_eq!((m.dcb.ctx.rax.get(), m.dcb.ctx.rsi.get()), (0, 55));
    assert_eq!(server.state.get(), State::Receiving);
}

#[test]
fn callers_wait_in_order_and_are_named_by_their_dispatcher() {
    let (mut m, server) = setup();
    m.core.local.sched.resume(m.dcb).unwrap();
    m.core.local.sched.suspend(server).unwrap();
    m.run();
    let third = m.second(0x10000, 30);
    m.raw(at(21).into(), 0, call(1, 0, 0));
    assert_eq!(m.current(), Some(third));
    m.raw(at(20).into(), 0, call(2, 0, 0));
    m.core.local.sched.resume(server).unwrap();
    m.run();
    m.raw(at(20).into(), 0, reply_recv(Place::NULL, 0, 100));
    assert_eq!(server.ctx.rsi.get(), 1);
    m.raw(at(20).into(), 0, reply_recv(Place::NULL, 0, 100));
    assert_eq!(server.ctx.rsi.get(), 2);
    // The earlier caller by its dispatcher, the later one by its place.
    let reply = op::Reply { w0: 11, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: Place::NULL };
    m.raw(DISPATCHER.into(), 0, reply);
    assert_eq!(server.ctx.rax.get(), 0);
    m.raw(DISPATCHER.into(), 0, reply);
    assert_eq!(server.ctx.rax.get(), Status::WrongState.to_word());
    m.raw(Place::CALLER, 0, op::Reply { w0: 22, ..reply });
    assert_eq!((m.dcb.ctx.rsi.get(), third.ctx.rsi.get()), (11, 22));
    m.raw(Place::CALLER, 0, reply);
    assert_eq!(server.ctx.rax.get(), Status::WrongState.to_word());
}

#[test]
fn notifications_end_a_receive() {
    let (mut m, server) = setup();
    wait_for_calls(&mut m);
    m.call(at(16), op::Notify { bits: 5 }).unwrap();
    assert_eq!(server.state.get(), State::Ready);
    assert_eq!(server.ctx.r13.get(), received::NOTIFICATION);
    assert_eq!(server.ctx.rsi.get(), 5);
    m.call(at(21), op::Notify { bits: 2 }).unwrap();
    m.raw(DISPATCHER.into(), 0, op::Suspend {});
    assert_eq!(m.current(), Some(server));
    m.raw(at(20).into(), 0, op::Poll { recv: Place::NULL });
    assert_eq!(server.ctx.rsi.get(), 2);
    m.raw(at(20).into(), 0, op::Poll { recv: Place::NULL });
    assert_eq!(server.ctx.rax.get(), Status::Empty.to_word());
}

/// Who listens may do something else meanwhile, and finds the call with its capabilities.
#[test]
fn a_listener_is_notified_of_calls_that_wait() {
    let (mut m, server) = setup();
    m.raw(at(20).into(), 0, op::Listen { bits: 4 });
    m.core.local.sched.resume(m.dcb).unwrap();
    m.raw(at(16).into(), 0, op::Wait {});
    assert_eq!((m.current(), server.state.get()), (Some(m.dcb), State::Waiting));
    m.raw(at(21).into(), 2, call(77, 7, 0));
    assert_eq!(m.current(), Some(server));
    assert_eq!((server.ctx.rax.get(), server.ctx.rsi.get()), (0, 4));
    m.raw(at(20).into(), 0, op::Poll { recv: at(100).into() });
    let ctx = &server.ctx;
    assert_eq!((ctx.rax.get(), ctx.rdi.get(), ctx.r13.get()), (0, 9, 2));
    assert!(!m.is_empty(at(100)) && !m.is_empty(at(101)));
    m.raw(
        Place::CALLER,
        0,
        op::Reply { w0: 5, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: Place::NULL },
    );
    // Calls that wait already count; nobody is told who does not want to be.
    m.raw(at(20).into(), 0, op::Listen { bits: 0 });
    m.raw(at(16).into(), 0, op::Suspend {});
    assert_eq!(m.dcb.ctx.rsi.get(), 5);
    m.raw(at(21).into(), 0, call(78, 0, 0));
    m.core.local.sched.resume(server).unwrap();
    m.run();
    m.raw(at(20).into(), 0, op::Listen { bits: 8 });
    m.raw(at(16).into(), 0, op::Wait {});
    assert_eq!((server.ctx.rax.get(), server.ctx.rsi.get()), (0, 8));
}

#[test]
fn deleting_the_endpoint_tells_everybody() {
    let (mut m, server) = setup();
    m.core.local.sched.resume(m.dcb).unwrap();
    m.core.local.sched.suspend(server).unwrap();
    m.run();
    let third = m.second(0x10000, 30);
    m.raw(at(21).into(), 0, call(1, 0, 0));
    assert_eq!(m.current(), Some(third));
    m.raw(at(21).into(), 0, op::Delete {});
    m.raw(at(20).into(), 0, op::Delete {});
    assert_eq!(m.dcb.state.get(), State::Ready);
    assert_eq!(m.dcb.ctx.rax.get(), Status::PeerGone.to_word());
}

#[test]
fn deleting_the_server_tells_its_callers() {
    let (mut m, server) = setup();
    wait_for_calls(&mut m);
    let third = m.second(0x10000, 30);
    m.raw(at(21).into(), 0, call(1, 0, 0));
    assert_eq!(m.current(), Some(server));
    m.core.local.sched.suspend(server).unwrap();
    m.run();
    assert_eq!(m.current(), Some(third));
    m.raw(at(16).into(), 0, op::Delete {});
    assert_eq!(m.dcb.ctx.rax.get(), Status::PeerGone.to_word());
    m.raw(at(21).into(), 0, call(1, 0, 0));
    assert_eq!(third.ctx.rax.get(), Status::PeerGone.to_word());
}

/// The monitor learns that a client of its has gone, once: with its dispatcher, or with its endpoint.
#[test]
fn a_watched_endpoint_tells_of_the_end_of_its_server() {
    const GONE: u64 = 64;
    let (mut m, _) = setup();
    m.core.local.sched.resume(m.dcb).unwrap();
    m.raw(at(20).into(), 0, op::Listen { bits: 0 });
    m.raw(at(16).into(), 0, op::Suspend {});
    assert_eq!(m.current(), Some(m.dcb));
    let own = m.make(CapType::Endpoint, 0x9000, 4096, 40);
    let left = m.make(CapType::L2CNode, 0xc000, 0x4000, 41);
    m.raw(own.into(), 0, op::Listen { bits: 0 });
    let endpoint = own.into();
    m.call(KERNEL, op::SetMonitor { endpoint, bits: 1, left: left.into() }).unwrap();
    let watch = |endpoint: CapAddr| op::Watch { endpoint: endpoint.into(), bits: GONE };
    assert_eq!(m.call(KERNEL, watch(at(16))).map(|_| ()), Err(Status::WrongType));
    let silent = m.make(CapType::Endpoint, 0xa000, 4096, 42);
    assert_eq!(m.call(KERNEL, watch(silent)).map(|reply| reply.value), Ok(0));
    assert_eq!(m.call(KERNEL, watch(at(21))).map(|reply| reply.value), Ok(1));
    m.call(at(16), op::Delete {}).unwrap();
    m.raw(DISPATCHER.into(), 0, op::Wait {});
    assert_eq!((m.dcb.ctx.rax.get(), m.dcb.ctx.rsi.get()), (0, GONE));
    assert_eq!(m.call(KERNEL, watch(at(21))).map(|reply| reply.value), Ok(0));
    // Of the endpoint itself: the server is the monitor here, but that makes no difference.
    m.raw(silent.into(), 0, op::Listen { bits: 0 });
    assert_eq!(m.call(KERNEL, watch(silent)).map(|reply| reply.value), Ok(1));
    m.call(silent, op::Delete {}).unwrap();
    m.raw(DISPATCHER.into(), 0, op::Wait {});
    assert_eq!((m.dcb.ctx.rax.get(), m.dcb.ctx.rsi.get()), (0, GONE));
}

#[test]
fn deleting_a_caller_leaves_the_server_well() {
    let (mut m, server) = setup();
    m.core.local.sched.resume(m.dcb).unwrap();
    m.core.local.sched.suspend(server).unwrap();
    m.run();
    let third = m.second(0x10000, 30);
    m.core.local.sched.suspend(m.dcb).unwrap();
    m.run();
    m.raw(at(21).into(), 0, call(1, 0, 0));
    m.core.local.sched.resume(server).unwrap();
    m.run();
    m.raw(at(20).into(), 0, reply_recv(Place::NULL, 0, 100));
    assert_eq!(third.state.get(), State::Called);
    m.raw(at(30).into(), 0, op::Delete {});
    m.raw(
        Place::CALLER,
        0,
        op::Reply { w0: 0, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: Place::NULL },
    );
    assert_eq!(server.ctx.rax.get(), Status::WrongState.to_word());
}

#[test]
fn timers_expire_in_order() {
    let mut m = Machine::new();
    let second = m.second(0, 16);
    m.call(at(16), op::SetTimer { deadline: 500 }).unwrap();
    m.call(DISPATCHER, op::SetTimer { deadline: 300 }).unwrap();
    m.raw(DISPATCHER.into(), 0, op::Wait {});
    assert_eq!(m.current(), Some(second));
    m.raw(at(16).into(), 0, op::Wait {});
    assert_eq!(m.current(), None);
    assert_eq!(crate::arch::timer_deadline(), 300);
    crate::arch::set_tsc(400);
    crate::events::on_irq(&mut m.core, crate::arch::VECTOR_TIMER);
    assert_eq!(m.current(), Some(m.dcb));
    assert_eq!(m.dcb.ctx.rsi.get(), NOTIFY_TIMER);
    assert_eq!(crate::arch::timer_deadline(), 500);
    crate::arch::set_tsc(500);
    crate::events::on_irq(&mut m.core, crate::arch::VECTOR_TIMER);
    assert_eq!(second.ctx.rsi.get(), NOTIFY_TIMER);
    assert_eq!(second.state.get(), State::Ready);
}

#[test]
fn everybody_gets_the_same_share() {
    let mut m = Machine::new();
    let others = [m.second(0, 16), m.second(0x10000, 30)];
    m.checking = false;
    let mut now = 0;
    for _ in 0..3000 {
        now += 10_000_000;
        crate::arch::set_tsc(now);
        crate::events::on_irq(&mut m.core, crate::arch::VECTOR_TIMER);
    }
    let usage = [m.dcb, others[0], others[1]].map(|d| d.time.with(0).ticks);
    let (least, most) = (usage.iter().min().unwrap(), usage.iter().max().unwrap());
    assert!(most - least <= 30_000_000, "{usage:?}");
}

#[test]
fn a_fault_is_a_call() {
    let (mut m, server) = setup();
    wait_for_calls(&mut m);
    let args = op::Configure {
        cspace: Place::NULL,
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: at(21).into(),
        options: 0,
    };
    assert_eq!(m.call(DISPATCHER, args), Err(Status::WrongState));
    let third = m.second(0x10000, 30);
    m.core.local.sched.stop(third);
    m.call(at(30), args).unwrap();
    m.call(at(30), op::Start {}).ok();
    while m.current() != Some(third) {
        m.run();
    }
    third.ctx.rip.set(0x1234);
    crate::events::on_trap(&mut m.core, 14, 6, 0xdead_0000);
    assert_eq!(m.current(), Some(server));
    assert_eq!(server.ctx.words(), [14, 6, 0xdead_0000, 0x1234, 0, 0]);
    assert_eq!((server.ctx.r13.get(), server.ctx.rdi.get()), (received::FAULT, 9));
}

/// Whoever starts it need not know that somebody else has stopped it meanwhile.
#[test]
fn one_that_is_stopped_before_it_is_started_waits_for_continue() {
    let mut m = Machine::new();
    let second = m.second(0, 16);
    let stopped = |result| assert_eq!(result, Err(Status::WrongState));
    m.core.local.sched.stop(second);
    stopped(m.call(at(16), op::Suspend {}));
    m.call(at(16), op::Start {}).unwrap();
    assert!(second.has(flag::SUSPENDED) && !second.has(flag::QUEUED));
    m.call(at(16), op::Continue {}).unwrap();
    assert!(second.has(flag::QUEUED));
    // And who has let it go on before has not stopped it.
    m.core.local.sched.stop(second);
    stopped(m.call(at(16), op::Suspend {}));
    stopped(m.call(at(16), op::Continue {}));
    m.call(at(16), op::Start {}).unwrap();
    assert!(second.has(flag::QUEUED));
}
