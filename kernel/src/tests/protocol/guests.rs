//! What a core does with dispatchers of others that wait there: copies of what they lend, late answers; and what is done to a
//! dispatcher from another core.

use super::abroad::{call, reply_recv, Calls, ENDPOINT, FOREIGN};
use super::client_at;
use super::node::{KERNEL, RAM, VSPACE};
use crate::arch;
use crate::dispatch::guest;
use crate::object::dcb::flag;
use crate::object::{DcbRef, Schedule, State, Table};
use crate::operations::retire::retire;
use captypes::invocations::{Copied, MapFlags, Reply, LENDS_READ, LENDS_WRITE};
use captypes::{op, CapAddr, CapType, Invocation, Place, Rights, Status};
use paging::{Flags, PAGE};

const RW: MapFlags = MapFlags(MapFlags::READ.0 | MapFlags::WRITE.0);
const PT: CapAddr = CapAddr(22);
const FRAME: CapAddr = CapAddr(23);
/// Mappings of the Frame.
const MAPPED: CapAddr = CapAddr(30);
/// At the server: the dispatchers of clients 0 of cores 0 and 1.
const CALLERS: [CapAddr; 2] = [CapAddr(40), CapAddr(41)];

impl Calls {
    /// An invocation by client 0 of a core.
    fn invoke<I: Invocation>(
        &mut self,
        core: usize,
        target: impl Into<Place>,
        args: I,
    ) -> Result<I::Reply, Status> {
        self.raw(core, 0, target.into(), 0, args);
        let dcb = self.client(core, 0);
        Status::from_word(dcb.ctx.rax.get())?;
        I::Reply::decode(&dcb.ctx.words())
    }

    /// Two pages at address 0 of the domain of a core, the second one only to be read.
    fn map(&mut self, core: usize) {
        let objects = [CapType::Pdpt, CapType::Pd, CapType::Pt, CapType::Frame];
        for (n, ty) in (0..).zip(objects) {
            let dst = CapAddr(20 + n).into();
            let bytes = if ty == CapType::Frame { 2 * PAGE } else { PAGE };
            let offset = 0x10_0000 + u64::from(n) * PAGE;
            let args = op::Retype { ty: ty.into(), offset, bytes, count: 1, dst };
            assert_eq!(self.t.call(core, RAM, args), 0);
        }
        let upper = [(VSPACE, CapAddr(20)), (CapAddr(20), CapAddr(21)), (CapAddr(21), PT)];
        for (n, (table, src)) in (0..).zip(upper) {
            let (src, mapping) = (src.into(), CapAddr(26 + n).into());
            let args = op::Map { entry: 0, count: 1, src, offset: 0, flags: RW, mapping };
            assert_eq!(self.invoke(core, table, args), Ok(()));
        }
        for (entry, flags) in [(0, RW), (1, MapFlags::READ)] {
            let (src, offset) = (FRAME.into(), u64::from(entry) * PAGE);
            let mapping = MAPPED.plus(entry).into();
            let args = op::Map { entry, count: 1, src, offset, flags, mapping };
            assert_eq!(self.invoke(core, PT, args), Ok(()));
        }
        for (n, byte) in self.bytes(core).iter_mut().enumerate() {
            *byte = (n as u8).wrapping_mul(5) ^ (n >> 8) as u8 ^ ((core as u8 + 1) * 50);
        }
    }

    fn bytes(&self, core: usize) -> &'static mut [u8] {
        let base = self.t.node(core).slot(FRAME).cap().base;
        // SAFETY: memory of the machine, which only the test uses now.
        unsafe { std::slice::from_raw_parts_mut(arch::phys_to_virt(base), 2 * PAGE as usize) }
    }

    /// Client 0 of a core calls and lends; the server has received.
    fn lend(&mut self, core: usize, bits: u64, va: u64, bytes: u64) {
        let args = op::Call { w4: va, w5: bytes, ..call(9) };
        self.raw(core, 0, FOREIGN.into(), bits, args);
        self.interrupts();
        self.receive(None);
        assert_eq!(self.received(), Some((9, 7)));
    }

    fn entry(&self, core: usize, index: u32) -> u64 {
        Table::at(self.t.node(core).slot(PT).cap().base).get(index)
    }

    /// Other cores, and a server to which they have lent pages, with capabilities to those who called.
    fn with_pages(cores: usize) -> Calls {
        let mut c = Calls::new(cores);
        for core in 0..cores {
            c.map(core);
        }
        for (core, &caller) in CALLERS.iter().enumerate().take(cores - 1) {
            c.t.send(core, client_at(0), cores - 1, caller);
        }
        c
    }

    fn take(&mut self, who: Place, offset: u64, to: u64, bytes: u64) -> Result<Copied, Status> {
        self.invoke(self.server, who, op::CopyFromCaller { offset, to, bytes })
    }

    fn put(&mut self, who: Place, offset: u64, from: u64, bytes: u64) -> Result<Copied, Status> {
        self.invoke(self.server, who, op::CopyToCaller { offset, from, bytes })
    }

    fn reply(&mut self, to: impl Into<Place>, word: u64) -> Result<(), Status> {
        let caps = Place::NULL;
        let args = op::Reply { w0: word, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps };
        self.invoke(self.server, to, args)
    }
}

fn done(bytes: u64, short: u32) -> Result<Copied, Status> {
    Ok(Copied { bytes, short })
}

#[test]
fn a_server_reads_and_writes_what_callers_of_other_cores_lend() {
    let mut c = Calls::with_pages(2);
    let caller = Place::CALLER;
    let (theirs, own) = (c.bytes(0), c.bytes(1));
    let used = (Flags::ACCESSED | Flags::DIRTY).bits();
    c.lend(0, LENDS_READ, 100, 2 * PAGE);
    assert_eq!((c.entry(0, 0) | c.entry(0, 1)) & used, 0);
    assert_eq!(c.take(caller, 10, 0, 50), done(50, 0));
    assert_eq!(own[..50], theirs[110..160]);
    assert_eq!(c.entry(0, 0) & used, Flags::ACCESSED.bits());
    assert_eq!(c.take(caller, PAGE - 110, 0, 20), done(20, 0));
    assert_eq!(own[..20], theirs[4086..4106]);
    // To the end of what is there, and where the server itself may not write.
    assert_eq!(c.take(caller, 2 * PAGE - 105, 0, 20), done(5, 1));
    assert_eq!(c.take(caller, 0, PAGE - 5, 20), done(5, 2));
    assert_eq!(c.put(caller, 0, 0, 1), Err(Status::NoRights));
    // It says no more that it walks there.
    let root = c.client(0, 0).root.get();
    let server = c.server;
    assert!(!c.node(server).core.local.core.shared.tlb.has(root));
    assert_eq!(c.reply(caller, 1), Ok(()));
    c.interrupts();
    assert_eq!(c.result(0, 0), Some((0, 1)));
    assert_eq!(c.take(caller, 0, 0, 1), Err(Status::WrongState));
    assert_eq!(c.take(CALLERS[0].into(), 0, 0, 1), Err(Status::WrongState));

    let mut c = Calls::with_pages(2);
    let (theirs, own) = (c.bytes(0), c.bytes(1));
    c.lend(0, LENDS_WRITE, PAGE - 30, 1000);
    let before = theirs[PAGE as usize..].to_vec();
    assert_eq!(c.put(caller, 0, 7, 100), done(30, 1));
    assert_eq!(theirs[4066..4096], own[7..37]);
    assert_eq!(theirs[PAGE as usize..], before, "it is only to be read");
    assert_eq!(c.entry(0, 0) & used, used);
    assert_eq!(c.entry(0, 1) & used, 0);
    assert_eq!(c.put(CALLERS[0].into(), 5, 7, 3), done(3, 0));
    // What goes at home has gone here.
    let (n, args) = (1, op::Delete {});
    c.raw(0, n, MAPPED.into(), 0, args);
    assert_eq!(c.put(caller, 0, 7, 100), done(0, 1));
}

#[test]
fn bytes_go_from_one_core_to_another_by_the_server_of_a_third() {
    let mut c = Calls::with_pages(3);
    let (from, to) = (c.bytes(0), c.bytes(1));
    c.lend(0, LENDS_READ, 40, 2 * PAGE);
    c.lend(1, LENDS_WRITE, 4000, PAGE);
    let copy = |offset, to: CapAddr, to_offset, bytes| {
        let to = to.into();
        op::CopyBetween { offset, to, to_offset, bytes }
    };
    let [a, b] = CALLERS;
    let server = c.server;
    assert_eq!(c.invoke(server, a, copy(10, b, 6, 60)), done(60, 0));
    assert_eq!(to[4006..4066], from[50..110]);
    assert_eq!(c.invoke(server, a, copy(0, b, 90, 60)), done(6, 2));
    assert_eq!(c.invoke(server, a, copy(2 * PAGE - 42, b, 0, 60)), done(2, 1));
    assert_eq!(c.invoke(server, b, copy(0, a, 0, 1)), Err(Status::NoRights));
    assert_eq!(c.reply(a, 1), Ok(()));
    assert_eq!(c.invoke(server, a, copy(0, b, 0, 1)), Err(Status::WrongState));
}

#[test]
fn callers_are_answered_late_in_any_order_and_once() {
    let mut c = Calls::with_pages(3);
    for core in [0, 1] {
        c.call(core, 0, core as u64);
        c.interrupts();
        c.receive(None);
    }
    let [a, b] = CALLERS;
    assert_eq!(c.reply(a, 100), Ok(()));
    assert_eq!(c.reply(a, 101), Err(Status::WrongState));
    c.check();
    c.interrupts();
    assert_eq!(c.result(0, 0), Some((0, 100)));
    assert_eq!(c.result(1, 0), None);
    // By `ReplyRecv`, which waits then.
    let args = reply_recv(b.into(), 102);
    c.raw(2, 0, ENDPOINT.into(), 0, args);
    c.interrupts();
    assert_eq!(c.result(1, 0), Some((0, 102)));
    assert_eq!(c.client(2, 0).state.get(), State::Receiving);
}

#[test]
fn only_who_waits_here_for_the_server_is_answered() {
    let mut c = Calls::with_pages(3);
    let [a, _] = CALLERS;
    // It calls, and was not received yet.
    c.call(0, 0, 5);
    assert_eq!(c.reply(a, 1), Err(Status::WrongState));
    c.interrupts();
    assert_eq!(c.reply(a, 1), Err(Status::WrongState));
    c.receive(None);
    // Another dispatcher of the server's core has the capabilities, and was not called.
    let args = op::Reply { w0: 0, w1: 0, w2: 0, w3: 0, w4: 0, w5: 0, caps: Place::NULL };
    c.raw(2, 1, a.into(), 0, args);
    assert_eq!(c.client(2, 1).ctx.rax.get(), Status::WrongState.to_word());
    // Home wants it back, and it is not here any more.
    let dcb = c.client(0, 0);
    arch::become_core(0);
    c.node(0).core.local.sched.stop(dcb);
    assert_eq!(c.reply(a, 1), Err(Status::WrongState));
    // What is no dispatcher.
    c.t.send(0, FRAME, 2, CapAddr(50));
    assert_eq!(c.reply(CapAddr(50), 1), Err(Status::WrongType));
    c.check();
}

#[test]
fn many_guests_are_found_and_leave() {
    let mut c = Calls::new(4);
    let server = c.server;
    for core in 0..3 {
        for n in 0..3 {
            c.call(core, n, 1);
        }
    }
    c.interrupts();
    let guests: std::vec::Vec<_> = (0..3).flat_map(|core| (0..3).map(move |n| (core, n))).collect();
    for (left, &(core, n)) in guests.iter().enumerate() {
        for (at, &(core, n)) in guests.iter().enumerate() {
            let dcb = c.client(core, n);
            let found = guest(&c.t.node(server).core.local.sched, dcb.pa());
            assert_eq!(found, (at >= left).then_some(dcb));
        }
        let dcb = c.client(core, n);
        arch::become_core(core);
        c.node(core).core.local.sched.stop(dcb);
        assert!(!dcb.has(flag::ABROAD));
        c.check();
    }
}

/// Client 0 of core 1 has the dispatcher of client 0 of core 0.
fn controlling() -> Calls {
    let mut c = Calls::new(2);
    // Who may end it may stop it.
    let slot = c.t.node(0).slot(client_at(0));
    slot.set_rights(Rights::ALL.0, slot.cap().attrs);
    c.t.send(0, client_at(0), 1, CALLERS[0]);
    c
}

impl Calls {
    /// Client 0 of core 1 does something to client 0 of core 0.
    fn call_afar<I: Invocation>(&mut self, args: I) -> Result<I::Reply, Status> {
        self.raw(1, 0, CALLERS[0].into(), 0, args);
        let dcb = self.client(1, 0);
        let status = dcb.ctx.rax.get();
        assert!(dcb.away.get() && dcb.trip.abroad.get(), "{:?} {status:#x}", I::LABEL);
        self.interrupts();
        assert!(!dcb.away.get() && !dcb.has(flag::ABROAD));
        Status::from_word(dcb.ctx.rax.get())?;
        I::Reply::decode(&dcb.ctx.words())
    }
}

#[test]
fn dispatchers_are_notified_stopped_and_measured_from_another_core() {
    let mut c = controlling();
    let target = c.client(0, 0);
    c.raw(0, 0, client_at(0).into(), 0, op::Wait {});
    assert_eq!(target.state.get(), State::Waiting);
    assert_eq!(c.call_afar(op::Notify { bits: 6 }), Ok(()));
    assert_eq!((target.state.get(), target.ctx.words()[0]), (State::Ready, 6));
    assert_eq!(c.call_afar(op::Suspend {}), Ok(()));
    assert!(target.has(flag::SUSPENDED));
    assert_eq!(c.call_afar(op::Continue {}), Ok(()));
    assert!(!target.has(flag::SUSPENDED));
    assert_eq!(c.call_afar(op::Continue {}), Err(Status::WrongState));
    let used = c.call_afar(op::Usage {}).unwrap();
    let own = c.node(0).core.local.sched.usage(target);
    assert_eq!(used.encode(), own.encode());
    let kernel = KERNEL.into();
    let set = op::SetSchedule { kernel, priority: 7, options: 1, weight: 0 };
    assert_eq!(c.call_afar(set), Ok(()));
    assert_eq!(target.share.schedule(), Schedule::new(7, true, 0).unwrap());
    let high = op::SetSchedule { priority: 100, ..set };
    assert_eq!(c.invoke(1, CALLERS[0], high), Err(Status::Invalid));
    let without = op::SetSchedule { kernel: VSPACE.into(), ..set };
    assert_eq!(c.invoke(1, CALLERS[0], without), Err(Status::WrongType));
    // Not by who could not do it at home.
    let weak = CapAddr(50);
    let args = op::Mint { dst: weak.into(), rights: Rights::NONE, badge: 0 };
    assert_eq!(c.invoke(1, CALLERS[0], args), Ok(()));
    for result in [
        c.invoke(1, weak, op::Suspend {}),
        c.invoke(1, weak, op::Continue {}),
        c.invoke(1, weak, set),
    ] {
        assert_eq!(result, Err(Status::NoRights));
    }
}

#[test]
fn a_dispatcher_that_goes_is_not_found_by_those_on_the_way() {
    let mut c = Calls::new(2);
    let made = CapAddr(50);
    let (ty, dst) = (CapType::Dispatcher.into(), made.into());
    let args = op::Retype { ty, offset: 0x10_0000, bytes: PAGE, count: 1, dst };
    assert_eq!(c.t.call(0, RAM, args), 0);
    c.t.send(0, made, 1, CALLERS[0]);
    let invoker = c.client(1, 0);
    for goes in [false, true] {
        c.raw(1, 0, CALLERS[0].into(), 0, op::Suspend {});
        if goes {
            let dcb = DcbRef::at(c.t.node(0).slot(made).cap().base);
            arch::become_core(0);
            retire(&mut c.node(0).core.local, dcb).unwrap();
        }
        c.interrupts();
        assert!(!invoker.away.get());
        // It was never started.
        let status = if goes { Status::PeerGone } else { Status::WrongState };
        assert_eq!(invoker.ctx.rax.get(), status.to_word());
    }
}

#[test]
fn whoever_controls_may_be_taken_apart_on_the_way() {
    let mut c = controlling();
    c.raw(1, 0, CALLERS[0].into(), 0, op::Suspend {});
    let invoker = c.client(1, 0);
    c.raw(1, 1, client_at(0).into(), 0, op::Delete {});
    assert!(c.t.is_empty(1, client_at(0)) && !invoker.away.get());
    c.interrupts();
    assert!(!c.client(0, 0).has(flag::SUSPENDED));
    c.check();
}
