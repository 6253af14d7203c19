//! Calls to endpoints of other cores.

use super::client_at;
use super::directed::Test;
use super::node::{Node, RAM};
use crate::arch;
use crate::events::on_trap;
use crate::object::dcb::flag;
use crate::object::{DcbRef, State};
use crate::tests::random::{each_seed, Random};
use captypes::invocations::received;
use captypes::{op, CapAddr, CapType, Invocation, Label, Place, Rights, Status};
use std::collections::BTreeMap;
use std::vec::Vec;

/// The endpoint, at its own core.
pub const ENDPOINT: CapAddr = CapAddr(10);
const BADGED: CapAddr = CapAddr(11);
/// What callers have.
pub const FOREIGN: CapAddr = CapAddr(12);
const BADGE: u32 = 7;
const GONE: u64 = Status::PeerGone as u64;
const UNSUPPORTED: u64 = Status::Unsupported as u64;

/// The endpoint is of the last core; client 0 there is the server.
pub struct Calls {
    pub t: Test,
    pub server: usize,
}

impl Calls {
    pub fn new(cores: usize) -> Calls {
        let mut calls = Calls { t: Test::apart(cores, 7), server: cores - 1 };
        calls.make();
        calls
    }

    fn make(&mut self) {
        let (t, server) = (&mut self.t, self.server);
        let dst = ENDPOINT.into();
        let ty = CapType::Endpoint.into();
        let args = op::Retype { ty, offset: 0, bytes: 4096, count: 1, dst };
        assert_eq!(t.call(server, RAM, args), 0);
        let args = op::Mint { dst: BADGED.into(), rights: Rights::ALL, badge: BADGE };
        assert_eq!(t.call(server, ENDPOINT, args), 0);
        for core in 0..server {
            t.send(server, BADGED, core, FOREIGN);
        }
    }

    pub fn node(&mut self, core: usize) -> &mut Node {
        &mut self.t.cluster.sites[core].node
    }

    pub fn client(&self, core: usize, n: usize) -> DcbRef {
        self.t.node(core).clients[n]
    }

    pub fn raw<I: Invocation>(&mut self, core: usize, n: usize, target: Place, bits: u64, args: I) {
        let dcb = self.client(core, n);
        self.node(core).raw(dcb, I::LABEL as u64 | bits, target.0, args.encode());
    }

    /// A client calls; what becomes of it is seen later.
    pub fn call(&mut self, core: usize, n: usize, word: u64) {
        self.raw(core, n, FOREIGN.into(), 0, call(word));
    }

    /// The server answers the last caller, if it is to, and receives.
    pub fn receive(&mut self, answer: Option<u64>) {
        let to = if answer.is_some() { Place::CALLER } else { Place::NULL };
        let args = reply_recv(to, answer.unwrap_or(0));
        let server = self.server;
        self.raw(server, 0, ENDPOINT.into(), 0, args);
    }

    pub fn interrupts(&mut self) {
        self.t.cluster.interrupt_all();
        self.check();
    }

    pub fn check(&self) {
        for site in &self.t.cluster.sites {
            crate::check::check(&site.node.core.local).unwrap();
        }
    }

    /// Word and badge of what the server has received.
    pub fn received(&self) -> Option<(u64, u64)> {
        let server = self.client(self.server, 0);
        let message = server.state.get() == State::Ready && server.ctx.r13.get() == 0;
        message.then(|| (server.ctx.words()[0], server.ctx.rdi.get()))
    }

    /// Status and first word of a client that is back.
    pub fn result(&self, core: usize, n: usize) -> Option<(u64, u64)> {
        let dcb = self.client(core, n);
        let back = !dcb.away.get() && dcb.state.get() == State::Ready;
        back.then(|| (dcb.ctx.rax.get() & 0xff, dcb.ctx.words()[0]))
    }

    /// A client of the server's core deletes what is in a slot.
    fn delete(&mut self, core: usize, n: usize, slot: CapAddr) {
        self.raw(core, n, slot.into(), 0, op::Delete {});
        self.t.settle_loosely();
        assert!(self.t.is_empty(core, slot));
    }

    /// As somebody of its core with the right to it does.
    fn suspend(&mut self, core: usize, n: usize) {
        let dcb = self.client(core, n);
        arch::become_core(core);
        let local = &mut self.node(core).core.local;
        local.sched.suspend(dcb).unwrap();
    }

    fn resume(&mut self, core: usize, n: usize) -> Result<(), Status> {
        let dcb = self.client(core, n);
        arch::become_core(core);
        self.node(core).core.local.sched.resume(dcb)
    }

    /// Client 1 of core 0 does something to client 0.
    fn control<I: Invocation>(&mut self, args: I) {
        self.raw(0, 1, client_at(0).into(), 0, args);
        assert_eq!(self.client(0, 1).ctx.rax.get() & 0xff, 0);
    }
}

pub fn call(word: u64) -> op::Call {
    let (caps, recv) = (Place::NULL, Place::NULL);
    op::Call { w0: word, w1: 1, w2: 2, w3: 3, w4: 4, w5: 5, caps, recv }
}

pub fn reply_recv(to: Place, word: u64) -> op::ReplyRecv {
    let (caps, recv) = (Place::NULL, Place::NULL);
    op::ReplyRecv { w0: word, w1: 1, w2: 2, w3: 3, w4: 4, w5: 5, caps, recv, to }
}

#[test]
fn a_call_goes_to_the_core_of_the_endpoint_and_its_answer_home() {
    let mut c = Calls::new(2);
    c.receive(None);
    for word in [100, 200] {
        c.call(0, 0, word);
        assert!(c.client(0, 0).away.get() && c.received().is_none());
        c.interrupts();
        assert_eq!(c.received(), Some((word, u64::from(BADGE))));
        assert_eq!(c.client(1, 0).ctx.words()[1..], [1, 2, 3, 4, 5]);
        c.receive(Some(word + 1));
        c.interrupts();
        assert_eq!(c.result(0, 0), Some((0, word + 1)));
        assert_eq!(c.client(0, 0).ctx.words()[1..], [1, 2, 3, 4, 5]);
        assert!(!c.client(0, 0).has(flag::ABROAD | flag::ARRIVED));
    }
}

#[test]
fn calls_wait_for_the_server_in_order() {
    let mut c = Calls::new(3);
    for (core, n) in [(0, 1), (1, 0), (0, 0), (1, 2)] {
        c.call(core, n, (10 * core + n) as u64);
        c.interrupts();
    }
    let mut answer = None;
    for word in [1, 10, 0, 12] {
        c.receive(answer);
        assert_eq!(c.received(), Some((word, 7)));
        answer = Some(word + 100);
    }
    c.receive(answer);
    c.interrupts();
    for (core, n) in [(0, 0), (0, 1), (1, 0), (1, 2)] {
        assert_eq!(c.result(core, n), Some((0, 100 + (10 * core + n) as u64)));
    }
}

#[test]
fn a_bell_rings_for_calls_from_other_cores() {
    let mut c = Calls::new(2);
    c.raw(1, 0, ENDPOINT.into(), 0, op::Listen { bits: 8 });
    c.raw(1, 0, client_at(0).into(), 0, op::Wait {});
    c.call(0, 0, 1);
    c.interrupts();
    assert_eq!(c.client(1, 0).state.get(), State::Ready);
    assert_eq!(c.client(1, 0).ctx.words()[0], 8);
    c.raw(1, 0, ENDPOINT.into(), 0, op::Poll { recv: Place::NULL });
    assert_eq!(c.received(), Some((1, 7)));
}

/// Where a call is when something happens.
#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    TheWay,
    Callers,
    Served,
}

const EVERYWHERE: [At; 3] = [At::TheWay, At::Callers, At::Served];

impl Calls {
    /// Client 0 of core 0 has called.
    fn called(at: At) -> Calls {
        let mut c = Calls::new(2);
        // There has been a server.
        c.raw(1, 0, ENDPOINT.into(), 0, op::Listen { bits: 0 });
        c.call(0, 0, 5);
        if at != At::TheWay {
            c.interrupts();
        }
        if at == At::Served {
            c.receive(None);
            assert_eq!(c.received(), Some((5, 7)));
        }
        c
    }
}

#[test]
fn an_endpoint_goes_with_all_calls() {
    for at in EVERYWHERE {
        let mut c = Calls::called(at);
        c.raw(1, 1, ENDPOINT.into(), 0, op::Revoke {});
        c.t.settle_loosely();
        c.delete(1, 1, ENDPOINT);
        // Another one in the same memory, with the same badge.
        assert!(c.t.is_empty(0, FOREIGN) && c.t.is_empty(1, BADGED));
        c.make();
        c.interrupts();
        assert_eq!(c.result(0, 0).map(|result| result.0), Some(GONE), "{at:?}");
        c.receive(None);
        assert_eq!(c.received(), None);
    }
}

#[test]
fn a_revoked_badge_is_not_received() {
    let mut c = Calls::called(At::TheWay);
    let base = c.t.node(1).slot(BADGED).cap().base;
    // The core of the endpoint has not looked yet, and its monitor deletes the badge.
    let key = crate::cap::memory_cap(CapType::Endpoint as u8, Rights::NONE, 0, base, 4096);
    let key = mdb::RawCap { aux: BADGE, ..key };
    let slot = c.t.node(1).core.local.caps.db.find(&key).unwrap();
    crate::arch::become_core(1);
    c.node(1).core.local.caps.db.remove(slot);
    c.interrupts();
    assert_eq!(c.result(0, 0).map(|result| result.0), Some(GONE));
}

#[test]
fn a_server_goes_and_its_callers_are_told() {
    for at in EVERYWHERE {
        let mut c = Calls::called(at);
        c.raw(1, 1, client_at(0).into(), 0, op::Delete {});
        c.interrupts();
        assert_eq!(c.result(0, 0).map(|result| result.0), Some(GONE), "{at:?}");
        // And those that come later.
        c.call(0, 2, 6);
        c.interrupts();
        assert_eq!(c.result(0, 2).map(|result| result.0), Some(GONE));
    }
}

#[test]
fn a_caller_is_deleted_wherever_it_is() {
    for at in EVERYWHERE {
        let mut c = Calls::called(at);
        c.raw(0, 1, client_at(0).into(), 0, op::Delete {});
        assert!(c.t.is_empty(0, client_at(0)));
        c.check();
        c.node(0).revive(0);
        c.interrupts();
        // Nobody is answered, and nobody is there.
        c.receive(Some(1));
        c.interrupts();
        assert_eq!(c.received(), None, "{at:?}");
        c.call(0, 0, 9);
        c.interrupts();
        assert_eq!(c.received(), Some((9, 7)));
    }
}

#[test]
fn a_stopped_caller_stays_stopped_when_the_answer_comes() {
    for at in EVERYWHERE {
        let mut c = Calls::called(at);
        c.suspend(0, 0);
        c.interrupts();
        if at != At::Served {
            c.receive(None);
            assert_eq!(c.received(), Some((5, 7)), "the call goes on");
        }
        c.receive(Some(6));
        c.interrupts();
        let dcb = c.client(0, 0);
        assert!(!dcb.away.get() && dcb.has(flag::SUSPENDED) && !dcb.has(flag::QUEUED), "{at:?}");
        c.resume(0, 0).unwrap();
        assert!(!dcb.has(flag::SUSPENDED) && dcb.has(flag::QUEUED));
        assert_eq!(c.result(0, 0), Some((0, 6)));
    }
}

#[test]
fn a_caller_is_stopped_and_goes_on_before_the_answer() {
    for at in EVERYWHERE {
        let mut c = Calls::called(at);
        c.suspend(0, 0);
        c.resume(0, 0).unwrap();
        assert_eq!(c.resume(0, 0), Err(Status::WrongState));
        c.interrupts();
        if at != At::Served {
            c.receive(None);
        }
        c.receive(Some(6));
        c.interrupts();
        assert_eq!(c.result(0, 0), Some((0, 6)), "{at:?}");
        assert!(!c.client(0, 0).has(flag::SUSPENDED));
    }
}

#[test]
fn what_home_wants_back_calls_again_unless_it_was_received() {
    for at in EVERYWHERE {
        let mut c = Calls::called(at);
        let dcb = c.client(0, 0);
        arch::become_core(0);
        c.node(0).core.local.sched.bring_home(dcb);
        assert!(!dcb.away.get() && !dcb.trip.abroad.get());
        c.check();
        c.interrupts();
        if at == At::Served {
            assert_eq!(c.result(0, 0).map(|result| result.0), Some(GONE));
            c.receive(Some(6));
            continue;
        }
        c.receive(None);
        assert_eq!(c.received(), Some((5, 7)), "{at:?}");
        c.receive(Some(6));
        assert_eq!(c.received(), None, "once");
        c.interrupts();
        assert_eq!(c.result(0, 0), Some((0, 6)));
    }
}

#[test]
fn notifications_and_timers_wait_for_the_answer() {
    let mut c = Calls::called(At::Served);
    c.control(op::Notify { bits: 4 });
    c.control(op::SetTimer { deadline: 1 });
    c.control(op::SetAffinity { mask: 1 });
    let dcb = c.client(0, 0);
    assert!(dcb.timer.armed.get() && dcb.away.get());
    c.receive(Some(6));
    c.interrupts();
    assert_eq!(c.result(0, 0), Some((0, 6)));
    assert_eq!(dcb.frame.get().notifications().get() & 4, 4);
}

#[test]
fn faults_are_reported_to_another_core() {
    for handled in [true, false] {
        let mut c = Calls::new(2);
        c.receive(None);
        let dcb = c.client(0, 0);
        c.raw(0, 0, client_at(0).into(), 0, op::Yield {});
        let slot = dcb.slot(crate::object::dcb::FAULT_EP);
        let cap = c.t.node(0).slot(FOREIGN);
        arch::become_core(0);
        c.node(0).core.local.caps.copy(cap, slot).unwrap();
        // Whatever it invokes it is current afterwards.
        c.raw(0, 0, RAM.into(), 0, op::NoOp {});
        on_trap(&mut c.node(0).core, 6, 3, 0);
        assert!(dcb.away.get() && dcb.has(flag::FAULT));
        c.interrupts();
        let server = c.client(1, 0);
        assert_eq!(server.ctx.r13.get(), received::FAULT);
        assert_eq!(server.ctx.words()[..2], [6, 3]);
        if handled {
            c.receive(Some(0));
            c.interrupts();
            assert!(!dcb.has(flag::FAULT) && !dcb.away.get());
            assert_eq!(dcb.state.get(), State::Ready);
        } else {
            c.raw(1, 1, client_at(0).into(), 0, op::Delete {});
            c.interrupts();
            assert_eq!((dcb.state.get(), dcb.away.get()), (State::Stopped, false));
        }
        arch::become_core(0);
        c.node(0).core.local.caps.db.remove(slot);
    }
}

#[test]
fn receivers_of_other_cores_are_notified() {
    let mut c = Calls::new(2);
    c.raw(0, 0, FOREIGN.into(), 0, op::Notify { bits: 2 });
    c.interrupts();
    assert_eq!(c.result(0, 0).map(|result| result.0), Some(Status::WrongState as u64));
    c.receive(None);
    c.raw(0, 0, FOREIGN.into(), 0, op::Notify { bits: 2 });
    c.interrupts();
    assert_eq!(c.result(0, 0).map(|result| result.0), Some(0));
    assert_eq!(c.client(1, 0).ctx.r13.get(), received::NOTIFICATION);
    assert_eq!(c.client(1, 0).ctx.words()[0], 2);
}

#[test]
fn what_cannot_be_done_from_afar_is_refused_at_once() {
    let mut c = Calls::new(2);
    c.receive(None);
    for bits in [1 << 16, 4 << 16] {
        c.raw(0, 0, FOREIGN.into(), bits, call(1));
        assert_eq!(c.result(0, 0).map(|result| result.0), Some(UNSUPPORTED));
    }
    for label in [Label::ReplyRecv, Label::Poll, Label::Listen] {
        let dcb = c.client(0, 0);
        c.node(0).raw(dcb, label as u64, Place::from(FOREIGN).0, [0; 9]);
        assert_eq!(c.result(0, 0).map(|result| result.0), Some(UNSUPPORTED));
    }
    let weak = CapAddr(13);
    let args = op::Mint { dst: weak.into(), rights: Rights::RECV, badge: 0 };
    c.raw(0, 0, FOREIGN.into(), 0, args);
    c.raw(0, 0, weak.into(), 0, call(1));
    assert_eq!(c.result(0, 0).map(|result| result.0), Some(Status::NoRights as u64));
}

/// What each caller has sent last, and what has become of it.
#[derive(Default)]
struct Book {
    sent: BTreeMap<(usize, usize), u64>,
    received: Vec<u64>,
    answered: Vec<u64>,
    next: u64,
}

impl Calls {
    /// Results of those that are back: each call ends once, with its own answer or with nobody's.
    fn collect(&mut self, book: &mut Book) {
        let back: Vec<_> = book.sent.iter().map(|(&who, &word)| (who, word)).collect();
        for ((core, n), word) in back {
            let Some((status, answer)) = self.result(core, n) else { continue };
            if self.client(core, n).has(flag::ARRIVED) {
                continue;
            }
            match status {
                0 => assert_eq!(answer, word + 1),
                GONE => assert!(!book.answered.contains(&word)),
                other => panic!("status {other}"),
            }
            book.sent.remove(&(core, n));
        }
    }

    fn step(&mut self, random: &mut Random, book: &mut Book) {
        let core = random.below(self.server as u64) as usize;
        let n = random.below(3) as usize;
        match random.below(12) {
            0..5 if self.t.node(core).is_ready(n) && !self.client(core, n).has(flag::ARRIVED) => {
                if self.client(core, n).has(flag::SUSPENDED) || book.sent.contains_key(&(core, n)) {
                    return;
                }
                book.next += 2;
                book.sent.insert((core, n), book.next);
                self.call(core, n, book.next);
            }
            5..8 => {
                let core = random.below(self.server as u64 + 1) as usize;
                self.node(core).interrupt();
            }
            8 | 9 => self.serve(book),
            10 => {
                // Somebody else of the core stops it, lets it go on, or takes it away for good.
                let other = (n + 1) % 3;
                let ready = self.t.node(core).is_ready(other);
                if !ready || self.client(core, other).has(flag::SUSPENDED | flag::ARRIVED) {
                    return;
                }
                let target = client_at(n).into();
                match random.below(4) {
                    0 => self.suspend(core, n),
                    1 | 2 => drop(self.resume(core, n)),
                    _ => {
                        self.raw(core, other, target, 0, op::Delete {});
                        assert!(self.t.is_empty(core, client_at(n)));
                        self.node(core).revive(n);
                        book.sent.remove(&(core, n));
                    }
                }
            }
            _ => {
                let dcb = self.client(core, n);
                arch::become_core(core);
                self.node(core).core.local.sched.bring_home(dcb);
            }
        }
    }

    /// The server answers what it has, and receives.
    fn serve(&mut self, book: &mut Book) {
        let server = self.client(self.server, 0);
        if server.state.get() != State::Ready {
            return;
        }
        let word = server.caller.get().map(|_| server.ctx.words()[0]);
        self.receive(word.map(|word| word + 1));
        book.answered.extend(word);
        if let Some((word, badge)) = self.received() {
            assert_eq!(badge, u64::from(BADGE));
            assert!(!book.received.contains(&word), "received twice");
            book.received.push(word);
        }
    }
}

#[test]
fn every_call_ends_once() {
    each_seed(400, |seed, steps| {
        let mut random = Random(seed);
        let mut c = Calls::new(2 + seed as usize % 3);
        let mut book = Book::default();
        c.receive(None);
        for _ in 0..steps {
            c.step(&mut random, &mut book);
            c.collect(&mut book);
            c.check();
        }
        for core in 0..c.server {
            for n in 0..3 {
                let _ = c.resume(core, n);
            }
        }
        for _ in 0..20 {
            c.interrupts();
            c.serve(&mut book);
            c.interrupts();
            c.collect(&mut book);
        }
        assert!(book.sent.is_empty(), "{:?}", book.sent);
        assert!(book.received.len() > 5);
    });
}
