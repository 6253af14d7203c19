//! Dispatchers of one domain on several pretended cores: where they run, and that each is always at
//! exactly one place.

use super::machine::*;
use crate::arch;
use crate::cores::{CoreId, Cores, Shared};
use crate::driver::{Core, CpuDriver};
use crate::events::{on_irq, on_syscall, on_trap};
use crate::object::dcb::flag;
use crate::object::{Dcb, DcbRef, Obj, State};
use abi::dispatcher::{DispatcherFrame, Upcall};
use captypes::invocations::Counter;
use captypes::{op, CapAddr, CapType, Invocation, Place, Status};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use proptest::prelude::*;
use std::boxed::Box;
use std::cell::Cell;
use std::vec::Vec;

/// Several cores in one thread, which take turns.
pub(super) struct Cluster {
    pub m: Machine,
    pub others: Vec<Box<Core>>,
}

thread_local! {
    static CLUSTER: Cell<*mut Cluster> = const { Cell::new(core::ptr::null_mut()) };
}

/// What the other cores do while core 0 waits: they take their interrupts.
pub(super) fn others_go_on() {
    // SAFETY: set by `Cluster::new` to a box that outlives every use; the machine of core 0, which
    // waits, is not touched.
    let others = unsafe { &mut (*CLUSTER.get()).others };
    for core in others {
        if arch::take_interrupt(core.head.id as usize) {
            on(core, |core| on_irq(core, arch::VECTOR_IPI));
        }
    }
}

/// The same while core 1 waits, which is not touched.
pub(super) fn all_but_core_1_go_on() {
    // SAFETY: as above; the machine of core 0 is not used meanwhile.
    let Cluster { m, others } = unsafe { &mut *CLUSTER.get() };
    let others = others.iter_mut().skip(1).map(|core| &mut **core);
    for core in others.chain([&mut *m.core]) {
        if arch::take_interrupt(core.head.id as usize) {
            on(core, |core| on_irq(core, arch::VECTOR_IPI));
        }
    }
}

/// Core 2 invokes something while core 1 waits, which is not touched.
pub(super) fn core_2_invokes<I: Invocation>(target: impl Into<Place>, args: I) {
    // SAFETY: as above.
    let core = unsafe { &mut *(&mut (*CLUSTER.get()).others)[1] };
    let dcb = core.local.sched.current().expect("somebody runs");
    dcb.ctx.set_invocation(I::LABEL as u64, target.into().0, args.encode());
    on(core, on_syscall);
}

/// Executes something on a core.
pub(super) fn on<T>(core: &mut Core, event: impl FnOnce(&mut Core) -> T) -> T {
    let before = arch::become_core(core.head.id as usize);
    let result = event(core);
    arch::become_core(before);
    result
}

impl Cluster {
    pub fn new(count: usize) -> Box<Cluster> {
        let shared: Vec<Shared> = (0..count).map(|_| Shared::new()).collect();
        let cores = Cores::new(shared.leak());
        for core in cores.iter() {
            core.1.online.store(true, Ordering::Relaxed);
        }
        let others = (1..count as u32).map(|id| {
            let mut core = Box::new(Core::new(id, id, 0, CpuDriver::new()));
            core.place();
            core.local.set_core(CoreId(id as u8), cores);
            on(&mut core, |core| {
                core.local.sched.block();
                crate::events::leave(core);
            });
            core
        });
        let mut cluster =
            Box::new(Cluster { others: others.collect(), m: Machine::with_cores(cores) });
        CLUSTER.set(&raw mut *cluster);
        arch::set_relax(Some(others_go_on));
        cluster
    }

    pub fn core(&mut self, id: usize) -> &mut Core {
        match id {
            0 => &mut self.m.core,
            _ => &mut self.others[id - 1],
        }
    }

    /// A core takes the interrupt of others, if there is one.
    pub fn interrupt(&mut self, id: usize) -> bool {
        let pending = arch::take_interrupt(id);
        if pending {
            on(self.core(id), |core| on_irq(core, arch::VECTOR_IPI));
        }
        pending
    }

    /// Everybody takes interrupts until there are no more.
    pub fn settle(&mut self) {
        let all = self.others.len() + 1;
        while (0..all).any(|id| self.interrupt(id)) {}
    }

    /// The current dispatcher of a core invokes something.
    pub fn invoke<I: Invocation>(&mut self, id: usize, target: impl Into<Place>, args: I) {
        let core = self.core(id);
        let dcb = core.local.sched.current().expect("somebody runs");
        dcb.ctx.set_invocation(I::LABEL as u64, target.into().0, args.encode());
        on(core, on_syscall);
    }

    pub fn current(&mut self, id: usize) -> Option<DcbRef> {
        self.core(id).local.sched.current()
    }

    /// Two dispatchers: the first runs on core 0, the second on core 1.
    pub fn apart(offset: u64) -> (Box<Cluster>, DcbRef) {
        let mut c = Cluster::new(2);
        let second = c.m.second(offset, 100);
        c.m.call(CapAddr(100), op::SetAffinity { mask: 2 }).unwrap();
        c.settle();
        assert_eq!(c.current(1), Some(second));
        assert_eq!(c.current(0), Some(c.m.dcb));
        (c, second)
    }
}

fn status(dcb: DcbRef) -> Result<(), Status> {
    Status::from_word(dcb.ctx.rax.get())
}

#[test]
fn runs_where_it_may() {
    let (mut c, second) = Cluster::apart(0);
    let core = second.frame.get().0 + offset_of!(DispatcherFrame, core) as u64;
    assert_eq!(crate::object::UserWord::at(core).get(), 1);
    assert!(second.away.get());
    c.m.call(CapAddr(100), op::SetAffinity { mask: 1 }).unwrap();
    c.settle();
    assert_eq!(c.current(1), None);
    assert!(!second.away.get() && second.has(flag::QUEUED));
    assert_eq!(c.m.call(CapAddr(100), op::SetAffinity { mask: 4 }), Err(Status::OutOfRange));
}

#[test]
fn invocations_are_done_at_home() {
    let (mut c, second) = Cluster::apart(0);
    let args = op::Retype {
        ty: CapType::Frame.into(),
        offset: 1 << 20,
        bytes: 4096,
        count: 1,
        dst: CapAddr(150).into(),
    };
    c.invoke(1, RAM, args);
    assert_eq!(c.current(1), None);
    assert!(c.m.is_empty(CapAddr(150)));
    assert!(c.interrupt(0));
    // Core 0 has somebody else to run, so it goes back.
    assert!(!c.m.is_empty(CapAddr(150)));
    assert_eq!(c.current(0), Some(c.m.dcb));
    assert!(c.interrupt(1));
    assert_eq!(c.current(1), Some(second));
    assert_eq!(status(second), Ok(()));
    c.m.check();
    assert_eq!(c.m.core.local.counter(Counter::Visits), 1);
}

#[test]
fn stays_at_home_when_nobody_else_runs_there() {
    let (mut c, second) = Cluster::apart(0);
    c.m.call(CapAddr(100), op::SetAffinity { mask: 0 }).unwrap();
    c.settle();
    assert_eq!(c.current(1), Some(second));
    c.invoke(0, DISPATCHER, op::Wait {});
    assert_eq!(c.current(0), None);
    c.invoke(1, RAM, op::NoOp {});
    c.settle();
    assert_eq!((c.current(0), c.current(1)), (Some(second), None));
}

#[test]
fn who_has_come_home_changes_places_with_a_guest() {
    for may_leave in [true, false] {
        let (mut c, second) = Cluster::apart(0);
        let first = c.m.dcb;
        c.m.call(CapAddr(100), op::SetAffinity { mask: 0 }).unwrap();
        // Each runs at the other's home.
        first.home.set(CoreId(1));
        first.away.set(true);
        c.others[0].local.core.goes_away();
        first.allowed.store(if may_leave { 0 } else { 1 }, Ordering::Relaxed);
        c.settle();
        assert_eq!((c.current(0), c.current(1)), (Some(first), Some(second)));
        c.invoke(1, RAM, op::NoOp {});
        c.settle();
        let expected = if may_leave { (second, first) } else { (first, second) };
        assert_eq!((c.current(0), c.current(1)), (Some(expected.0), Some(expected.1)));
        assert_eq!((first.away.get(), second.away.get()), (!may_leave, !may_leave));
    }
}

#[test]
fn suspended_and_continued_while_away() {
    let (mut c, second) = Cluster::apart(0);
    c.m.call(CapAddr(100), op::Suspend {}).unwrap();
    assert_eq!(c.current(1), None);
    c.settle();
    assert!(!second.away.get() && !second.has(flag::QUEUED));
    c.m.call(CapAddr(100), op::Continue {}).unwrap();
    c.settle();
    assert_eq!(c.current(1), Some(second));
}

#[test]
fn suspended_on_the_way_home() {
    let (mut c, second) = Cluster::apart(0);
    c.invoke(1, RAM, op::NoOp {});
    second.ctx.rax.set(Status::Invalid.to_word() << 32 | second.ctx.rax.get());
    // It has left core 1, and core 0 has not looked yet.
    c.m.call(CapAddr(100), op::Suspend {}).unwrap();
    c.m.call(CapAddr(100), op::Continue {}).unwrap();
    c.settle();
    assert_eq!((c.current(1), status(second)), (Some(second), Ok(())));
}

#[test]
fn deleted_while_away() {
    let (mut c, second) = Cluster::apart(0);
    c.m.delete(CapAddr(100)).unwrap();
    assert_eq!(c.current(1), None);
    c.settle();
    assert_ne!(c.current(0), Some(second));
    c.m.check();
}

#[test]
fn loses_its_frame_while_away() {
    let (mut c, second) = Cluster::apart(0);
    c.m.delete(CapAddr(101)).unwrap();
    assert_eq!(c.current(1), Some(second), "the dispatcher has a capability of its own");
    c.m.revoke(RAM).unwrap();
    assert_eq!(c.current(1), None);
    c.settle();
    c.m.check();
}

#[test]
fn notified_while_away() {
    let (mut c, second) = Cluster::apart(0);
    let word = |field| crate::object::UserWord::at(second.frame.get().0 + field as u64);
    let entry = offset_of!(DispatcherFrame, upcall) + 8 * Upcall::Message as usize;
    word(entry).set(0x40_0000);
    second.ctx.rip.set(0x1234);
    c.m.call(CapAddr(100), op::Notify { bits: 8 }).unwrap();
    assert_eq!(second.ctx.rip.get(), 0x1234);
    c.settle();
    assert_eq!(second.ctx.rip.get(), 0x40_0000);
    assert_eq!(word(offset_of!(DispatcherFrame, save) + offset_of!(abi::Regs, rip)).get(), 0x1234);
}

#[test]
fn waits_at_home_and_is_woken_where_it_ran() {
    let (mut c, second) = Cluster::apart(0);
    c.invoke(1, CapAddr(100), op::Wait {});
    c.settle();
    assert_eq!((second.state.get(), second.away.get()), (State::Waiting, false));
    c.m.call(CapAddr(100), op::Notify { bits: 4 }).unwrap();
    c.settle();
    assert_eq!((c.current(1), second.ctx.rsi.get()), (Some(second), 4));
}

#[test]
fn faults_are_reported_from_home() {
    let (mut c, second) = Cluster::apart(0);
    on(c.core(1), |core| on_trap(core, 6, 0, 0));
    assert_eq!(second.state.get(), State::Ready);
    c.settle();
    assert_eq!((second.state.get(), c.current(1)), (State::Stopped, None));
}

#[test]
fn guarded_faults_continue_where_they_happen() {
    let (mut c, second) = Cluster::apart(0);
    let word = |field| crate::object::UserWord::at(second.frame.get().0 + field as u64);
    word(offset_of!(DispatcherFrame, disabled)).set(1);
    word(offset_of!(DispatcherFrame, guarded_low)).set(0x30_0000);
    word(offset_of!(DispatcherFrame, guarded_high)).set(0x30_0001);
    word(offset_of!(DispatcherFrame, guarded_fixup)).set(0x30_0100);
    second.ctx.rip.set(0x30_0000);
    on(c.core(1), |core| on_trap(core, 14, 7, 0x1234));
    assert_eq!((c.current(1), second.state.get()), (Some(second), State::Ready));
    assert_eq!(second.ctx.rip.get(), 0x30_0100);
    assert_eq!((second.ctx.rax.get(), second.ctx.rdx.get()), (0x1234, 14 << 32 | 7));
    assert!(!c.interrupt(0), "home was not asked");
}

#[test]
fn a_new_dispatcher_goes_to_an_idle_core_at_once() {
    let mut c = Cluster::new(3);
    let second = c.m.second(0, 100);
    let third = c.m.second(1 << 16, 110);
    c.settle();
    let current = [c.current(0), c.current(1), c.current(2)];
    assert_eq!(current, [Some(c.m.dcb), Some(second), Some(third)]);
    assert_eq!(c.m.core.local.counter(Counter::Placements), 2);
}

#[test]
fn one_of_the_node_of_its_memory_is_preferred() {
    let mut c = Cluster::new(3);
    c.m.core.local.core.cores.get(CoreId(0)).place.near.store(0b101, Ordering::Relaxed);
    let second = c.m.second(0, 100);
    c.settle();
    assert_eq!((c.current(1), c.current(2)), (None, Some(second)));
}

#[test]
fn who_waits_goes_to_the_core_that_has_become_idle() {
    let (mut c, second) = Cluster::apart(0);
    let third = c.m.second(1 << 16, 110);
    c.settle();
    assert!(third.has(flag::QUEUED) && third.runs_on.get() == CoreId(0));
    // The second waits, at home. Its core asks for work, in time with its leaving.
    c.invoke(1, CapAddr(100), op::Wait {});
    c.settle();
    assert_eq!((c.current(0), c.current(1)), (Some(c.m.dcb), Some(third)));
    assert_eq!(second.state.get(), State::Waiting);
    let local = &c.m.core.local;
    assert_eq!(local.counter(Counter::Migrations), 1);
    assert_eq!(local.core.cores.waiting(), 0);
}

#[test]
fn who_may_only_run_here_is_not_given_away() {
    let (mut c, second) = Cluster::apart(0);
    let third = c.m.second(1 << 16, 110);
    c.m.call(CapAddr(110), op::SetAffinity { mask: 1 }).unwrap();
    c.invoke(1, CapAddr(100), op::Wait {});
    c.settle();
    // The other one goes, which had to give way to the visitor.
    assert_eq!((second.state.get(), third.home.get()), (State::Waiting, CoreId(0)));
    assert_eq!((c.current(0), c.current(1)), (Some(third), Some(c.m.dcb)));
}

/// How many dispatchers a random run has besides the first.
const DISPATCHERS: u32 = 4;

fn slot_of(n: u32) -> CapAddr {
    CapAddr(100 + 10 * n)
}

#[derive(Clone, Debug)]
enum Step {
    /// A core takes an interrupt of another, if one is pending.
    Interrupt(usize),
    /// A core's timer expires.
    Timer(usize),
    /// The current dispatcher of a core does something to a dispatcher.
    Act(usize, u32, Act),
}

#[derive(Clone, Debug)]
enum Act {
    NoOp,
    Yield,
    Wait,
    Notify,
    Suspend,
    Continue,
    Affinity(u64),
    Schedule(u32, u32),
    Copy,
    Remake,
}

fn step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        Just(Act::NoOp),
        Just(Act::Yield),
        Just(Act::Wait),
        Just(Act::Notify),
        Just(Act::Suspend),
        Just(Act::Continue),
        (0..8u64).prop_map(Act::Affinity),
        (0..3u32, 0..3000u32).prop_map(|(priority, weight)| Act::Schedule(priority, weight)),
        Just(Act::Copy),
        Just(Act::Remake),
    ];
    prop_oneof![
        3 => (0..3usize).prop_map(Step::Interrupt),
        1 => (0..3usize).prop_map(Step::Timer),
        4 => (0..3usize, 0..DISPATCHERS, act).prop_map(|(core, n, act)| Step::Act(core, n, act)),
    ]
}

impl Cluster {
    fn act(&mut self, id: usize, n: u32, act: Act) {
        if self.current(id).is_none() {
            return;
        }
        let target = slot_of(n);
        match act {
            Act::NoOp => self.invoke(id, RAM, op::NoOp {}),
            Act::Yield => self.invoke(id, target, op::Yield {}),
            // The first dispatcher, at core 0, goes on for ever.
            Act::Wait if self.current(id) != Some(self.m.dcb) => {
                self.invoke(id, target, op::Wait {})
            }
            Act::Wait => {}
            Act::Notify => self.invoke(id, target, op::Notify { bits: 1 }),
            Act::Suspend => self.invoke(id, target, op::Suspend {}),
            Act::Continue => self.invoke(id, target, op::Continue {}),
            Act::Affinity(mask) => self.invoke(id, target, op::SetAffinity { mask }),
            Act::Schedule(priority, weight) => {
                let (kernel, options) = (KERNEL.into(), weight & 1);
                self.invoke(id, target, op::SetSchedule { kernel, priority, options, weight });
            }
            Act::Copy => self.invoke(id, target, op::Copy { dst: CapAddr(200).into() }),
            Act::Remake => self.remake(id, n),
        }
    }

    /// Core 0 deletes a dispatcher, frame and all, and makes a new one of the same memory.
    fn remake(&mut self, id: usize, n: u32) {
        if id != 0 || self.current(0) != Some(self.m.dcb) {
            return;
        }
        self.m.delete(CapAddr(200)).ok();
        self.m.delete(slot_of(n)).unwrap();
        self.m.delete(CapAddr(slot_of(n).0 + 1)).unwrap();
        while self.m.call(KERNEL, op::CollectReclaimed {}).unwrap().bytes0 != 0 {}
        self.m.second(u64::from(n) << 16, slot_of(n).0);
    }

    /// Each dispatcher is at one place, and whoever is ready is somewhere.
    fn check_places(&mut self) {
        for n in 0..DISPATCHERS {
            let dcb = Obj::<Dcb>::of(&self.m.slot(slot_of(n)).cap()).unwrap();
            let all = 0..self.others.len() + 1;
            let running: Vec<usize> =
                all.clone().filter(|&id| self.current(id) == Some(dcb)).collect();
            let arriving: Vec<usize> = all.filter(|&id| self.is_in_inbox(id, dcb)).collect();
            let queued = dcb.has(flag::QUEUED) || dcb.has(flag::ARRIVED);
            let places = running.len() + arriving.len() + usize::from(queued);
            assert!(places <= 1, "dispatcher {n}: {running:?} {arriving:?} {queued}");
            let direct = self.m.core.local.sched.is_next(dcb);
            let ready = dcb.state.get() == State::Ready && !dcb.has(flag::SUSPENDED);
            assert!(!ready || places == 1 || direct, "dispatcher {n} is lost");
        }
    }

    fn is_in_inbox(&mut self, id: usize, dcb: DcbRef) -> bool {
        let cores = self.m.core.local.core.cores;
        let mut at = cores.get(CoreId(id as u8)).inbox.load(Ordering::Relaxed);
        while at != 0 && at != dcb.pa() {
            at = DcbRef::at(at).below.load(Ordering::Relaxed);
        }
        at != 0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everybody_is_somewhere(steps in proptest::collection::vec(step(), 1..200)) {
        let mut c = Cluster::new(3);
        c.m.call(DISPATCHER, op::SetAffinity { mask: 1 }).unwrap();
        for n in 0..DISPATCHERS {
            c.m.second(u64::from(n) << 16, slot_of(n).0);
        }
        for step in steps {
            match step {
                Step::Interrupt(id) => { c.interrupt(id); }
                Step::Timer(id) => on(c.core(id), |core| on_irq(core, arch::VECTOR_TIMER)),
                Step::Act(id, n, act) => c.act(id, n, act),
            }
            c.check_places();
            c.m.check();
        }
        c.settle();
        c.check_places();
    }
}

/// Very many come home at once, and more all the time: who runs there is not kept from it.
#[test]
fn visitors_leave_time_for_others() {
    const HZ: u64 = 1_000_000_000;
    const COUNT: u32 = 70;
    let mut c = Cluster::new(2);
    let facts = crate::dispatch::Facts { tsc_hz: HZ, epoch_ns: 0 };
    arch::set_tsc(1);
    (0..2).for_each(|id| c.core(id).local.sched.set_facts(facts));
    for n in 0..COUNT {
        c.m.second(u64::from(n) * 0x2000, 60 + 2 * n);
        c.m.call(CapAddr(60 + 2 * n), op::SetAffinity { mask: 2 }).unwrap();
        c.settle();
    }
    let visits = |c: &mut Cluster| c.core(0).local.counter(Counter::Visits);
    let before = visits(&mut c);
    // All invoke before their home takes the interrupt.
    let mut invoked = 0;
    while c.current(1).is_some() {
        c.invoke(1, DISPATCHER, op::NoOp {});
        invoked += 1;
    }
    assert_eq!(invoked, COUNT);
    let mut events = 0;
    let mut now = 1;
    while visits(&mut c) - before < u64::from(COUNT) {
        let done = visits(&mut c);
        let timer = events % 2 == 1;
        if timer {
            now = arch::timer_deadline();
        }
        arch::set_tsc(now);
        // Whatever reminds the core, it does not go on before it is time.
        let vector = if timer { arch::VECTOR_TIMER } else { arch::VECTOR_IPI };
        on(c.core(0), |core| on_irq(core, vector));
        let most = if timer || events == 0 { 32 } else { 0 };
        assert!(visits(&mut c) - done <= most, "{} visits", visits(&mut c) - done);
        assert!(c.current(0).is_some());
        events += 1;
        assert!(events < 20);
    }
    assert!(now >= 2 * HZ / 20_000, "{now}");
    c.settle();
    c.m.check();
}
