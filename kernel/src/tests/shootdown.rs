//! When an invocation has ended, no processor of the machine has a translation cached that the tables
//! do not allow (invariant 5), whoever runs where.
//!
//! Each pretended core has a pretended processor. While the core of an invocation waits for the others,
//! these go on: they use addresses before they take the interrupt, and after.

use super::flushing::{at, Play};
use super::machine::*;
use super::processor::Processor;
use super::random::{collect, each_seed};
use super::visiting::{on, Cluster};
use crate::arch;
use crate::events::on_irq;
use crate::object::{Dcb, DcbRef, Obj, UserWord};
use captypes::invocations::{Counter, MapFlags};
use captypes::{op, CapAddr, CapType, Place};
use core::ops::{Deref, DerefMut};
use std::boxed::Box;
use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::vec::Vec;

const R: MapFlags = MapFlags::READ;
const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const RWX: MapFlags = RW.or(MapFlags::EXEC);
const PAGE: u64 = 4096;
/// A second root table, which only some dispatchers have.
const OTHER: u32 = 15;

/// The first machine of a cluster.
struct Whole(Box<Cluster>);

impl Deref for Whole {
    type Target = Machine;
    fn deref(&self) -> &Machine {
        &self.0.m
    }
}
impl DerefMut for Whole {
    fn deref_mut(&mut self) -> &mut Machine {
        &mut self.0.m
    }
}

thread_local! {
    static PROCESSORS: RefCell<Vec<Processor>> = const { RefCell::new(Vec::new()) };
    /// What the processors use while somebody waits for them.
    static ACCESSES: RefCell<Vec<(u64, bool)>> = const { RefCell::new(Vec::new()) };
}

/// Lets processor `id` do something, after it has forgotten what it was told to.
fn processor<T>(id: usize, event: impl FnOnce(&mut Processor) -> T) -> T {
    let before = arch::become_core(id);
    let result = PROCESSORS.with_borrow_mut(|all| {
        all[id].obey();
        event(&mut all[id])
    });
    arch::become_core(before);
    result
}

fn touch(id: usize, va: u64, write: bool) -> bool {
    processor(id, |cpu| arch::root() != arch::kernel_root() && cpu.touch(va, write).is_some())
}

/// Every processor remembers only what the tables allow.
fn check_all() {
    let count = PROCESSORS.with_borrow(|all| all.len());
    (0..count).for_each(|id| processor(id, |cpu| cpu.check()));
}

/// What happens while core 0 waits.
fn others_use_what_they_know() {
    let touch_all = || {
        let accesses = ACCESSES.take();
        let count = PROCESSORS.with_borrow(|all| all.len());
        for (n, &(va, write)) in accesses.iter().enumerate() {
            touch(1 + n % (count - 1), va, write);
        }
        ACCESSES.set(accesses);
    };
    touch_all();
    super::visiting::others_go_on();
    touch_all();
}

impl Whole {
    /// A machine with `count` cores, on which there are a dispatcher for each, which may run on any but
    /// the first. They share the address space, but for one in three.
    fn new(count: usize) -> Whole {
        PROCESSORS.set((0..count).map(|_| Processor::default()).collect());
        ACCESSES.take();
        let mut whole = Whole(Cluster::new(count));
        arch::set_relax(Some(others_use_what_they_know));
        whole.call(DISPATCHER, op::SetAffinity { mask: 1 }).unwrap();
        whole.make(CapType::Pml4, 0xb0_0000, PAGE, OTHER);
        for n in 1..count as u32 {
            let vspace = if n % 3 == 0 { at(OTHER) } else { VSPACE };
            whole.guest(n, vspace);
        }
        whole
    }

    /// Makes dispatcher `n`, which runs on core `n` to begin with.
    fn guest(&mut self, n: u32, vspace: CapAddr) -> DcbRef {
        let (slot, offset) = (200 + 2 * n, 0xb1_0000 + u64::from(n) * 2 * PAGE);
        let dispatcher = self.make(CapType::Dispatcher, offset, PAGE, slot);
        let frame = self.make(CapType::Frame, offset + PAGE, PAGE, slot + 1);
        let args = op::Configure {
            cspace: ROOT.into(),
            vspace: vspace.into(),
            frame: frame.into(),
            frame_va: 0x2000,
            fault_ep: Place::NULL,
            options: 0,
        };
        self.call(dispatcher, args).unwrap();
        self.call(dispatcher, op::SetAffinity { mask: 1 << n }).unwrap();
        self.call(dispatcher, op::Start {}).unwrap();
        self.0.settle();
        Obj::<Dcb>::of(&self.slot(dispatcher).cap()).unwrap()
    }

    fn counter(&mut self, counter: Counter) -> u64 {
        self.call(KERNEL, op::ReadCounter { counter: counter as u32, core: 0 }).unwrap().value
    }

    /// Three tables at 512 GiB, and 16 pages in the last.
    fn furnish_pages(&mut self) {
        let types = [CapType::Pdpt, CapType::Pd, CapType::Pt];
        for (n, ty) in types.into_iter().enumerate() {
            self.make(ty, n as u64 * PAGE, PAGE, 20 + n as u32);
        }
        self.map(VSPACE, 1, 1, at(20), RWX, at(30)).unwrap();
        self.map(at(20), 0, 1, at(21), RWX, at(31)).unwrap();
        self.map(at(21), 0, 1, at(22), RWX, at(32)).unwrap();
        let frame = self.make(CapType::Frame, 0x10000, 16 * PAGE, 40);
        self.map(at(22), 0, 16, frame, RW, at(41)).unwrap();
    }
}

const VA: u64 = 1 << 39;

#[test]
fn those_that_have_it_are_asked_and_nobody_else() {
    let mut m = Whole::new(4);
    m.furnish_pages();
    for id in 0..4 {
        // The third has another address space.
        assert_eq!(touch(id, VA, true), id != 3);
    }
    m.call(at(41), op::Protect { first: 0, count: 1, flags: R }).unwrap();
    check_all();
    assert_eq!(m.counter(Counter::Shootdowns), 1);
    assert_eq!(m.counter(Counter::ShootdownRequests), 2);
    assert_eq!((m.counter(Counter::RemotePages), m.counter(Counter::RemoteFlushes)), (2, 0));
    for id in 0..3 {
        assert!(touch(id, VA, false) && !touch(id, VA, true));
    }
    // A table goes: everything.
    m.delete(at(32)).unwrap();
    check_all();
    assert_eq!((m.counter(Counter::RemotePages), m.counter(Counter::RemoteFlushes)), (2, 2));
    let answers = |m: &mut Whole, id| m.0.core(id).local.counter(Counter::ShootdownAnswers);
    assert_eq!([1, 2, 3].map(|id| answers(&mut m, id)), [2, 2, 0]);
}

/// What it takes depends on who has the address space, not on how many cores there are.
#[test]
fn messages_are_as_many_as_cores_concerned() {
    for cores in [4, 8] {
        let mut m = Whole::new(cores);
        m.furnish_pages();
        for n in 1..cores as u32 {
            m.call(at(200 + 2 * n), op::Suspend {}).unwrap();
        }
        m.0.settle();
        let mut before = 0;
        for concerned in 0..3 {
            if concerned > 0 {
                m.call(at(200 + 2 * concerned), op::Continue {}).unwrap();
                m.0.settle();
            }
            m.call(at(41), op::Protect { first: 0, count: 1, flags: RW }).unwrap();
            assert!(touch(0, VA, true));
            let interrupts = m.counter(Counter::Interrupts);
            m.call(at(41), op::Protect { first: 0, count: 1, flags: R }).unwrap();
            check_all();
            let requests = m.counter(Counter::ShootdownRequests);
            assert_eq!(requests - before, u64::from(concerned), "{cores} cores");
            let interrupts = m.counter(Counter::Interrupts) - interrupts;
            assert_eq!(interrupts, u64::from(concerned), "{cores} cores");
            before = requests;
        }
    }
}

/// Rights are taken from a page on the core where the program runs, by it alone: those who have the address space forget, and home is not visited.
#[test]
fn a_program_takes_rights_where_it_runs() {
    let mut m = Whole::new(4);
    m.furnish_pages();
    m.call(at(41), op::Protect { first: 0, count: 16, flags: RW }).unwrap();
    let visits = m.counter(Counter::Visits);
    arch::set_relax(Some(super::visiting::all_but_core_1_go_on));
    let here = |m: &mut Whole, bytes, flags| {
        let dcb = m.0.current(1).unwrap();
        m.0.invoke(1, Place::NULL, op::ProtectHere { at: VA, bytes, flags });
        assert_eq!(dcb.ctx.rax.get(), 0);
        check_all();
    };
    for _ in 0..3 {
        for id in 0..4 {
            // The third has another address space.
            assert_eq!(touch(id, VA, true), id != 3);
            assert_eq!(touch(id, VA + PAGE, true), id != 3);
        }
        here(&mut m, PAGE, R);
        for id in 0..3 {
            assert!(touch(id, VA, false) && !touch(id, VA, true) && touch(id, VA + PAGE, true));
        }
        here(&mut m, 2 * PAGE, RW);
    }
    let asked = |m: &mut Whole, counter| m.0.core(1).local.counter(counter);
    assert_eq!(asked(&mut m, Counter::Shootdowns), 3);
    assert_eq!(asked(&mut m, Counter::ShootdownRequests), 6);
    assert_eq!((m.counter(Counter::Visits), m.counter(Counter::Shootdowns)), (visits, 0));
    // What home takes is gone, whoever has it cached.
    here(&mut m, PAGE, R);
    arch::set_relax(Some(others_use_what_they_know));
    m.call(at(41), op::Protect { first: 0, count: 1, flags: R }).unwrap();
    here(&mut m, PAGE, RW);
    assert!((0..3).all(|id| !touch(id, VA, true)));
}

/// Where the object is of [`with_object`].
const OBJECT: u64 = VA + (2 << 20);

/// Four cores, and an object that the program may hide, in a pool in slot 80.
fn with_object() -> Whole {
    let mut m = Whole::new(4);
    m.furnish_pages();
    m.retype(RAM, CapType::Pool, 0x10_0000, 8 << 20, 1, at(80)).unwrap();
    m.until_done(at(80), op::FormatPool { domain: 0 }).unwrap();
    m.until_done(at(80), op::CreateMorsel { order: 1, dst: at(81).into() }).unwrap();
    m.map(at(21), 1, 1, at(81), RW, at(82)).unwrap();
    m.call(at(82), op::AllowHiding { allow: true }).unwrap();
    m
}

/// Core 1 hides it, of which it is asked nothing meanwhile.
fn hide_it(m: &mut Whole) {
    let asked = m.0.core(1).local.counter(Counter::ShootdownAnswers);
    m.0.invoke(1, Place::NULL, op::HideHere { at: OBJECT, first: 0, end: 512 });
    assert_eq!(m.0.current(1).unwrap().ctx.rax.get(), 0);
    assert_eq!(asked, m.0.core(1).local.counter(Counter::ShootdownAnswers));
    check_all();
}

fn free_pages(m: &mut Whole) -> u64 {
    m.call(at(80), op::PoolInfo {}).unwrap().free
}

/// An object is hidden where the program runs: whoever has its pages cached forgets them before they are anybody else's, and home is not visited.
#[test]
fn a_program_hides_an_object_where_it_runs() {
    let mut m = with_object();
    let (visits, before) = (m.counter(Counter::Visits), free_pages(&mut m));
    arch::set_relax(Some(super::visiting::all_but_core_1_go_on));
    for round in 0..4 {
        for page in 0..3 {
            assert!(super::morsels::fault(&mut m, 6, OBJECT + page * PAGE));
        }
        for id in 0..4 {
            // The third has another address space. In the last round nobody has used it.
            assert_eq!(round < 3 && touch(id, OBJECT + PAGE, true), round < 3 && id != 3);
        }
        hide_it(&mut m);
        assert!((0..4).all(|id| !touch(id, OBJECT + PAGE, false)));
        m.0.invoke(1, Place::NULL, op::ShowHere { at: OBJECT });
        assert_eq!((m.0.current(1).unwrap().ctx.rax.get(), free_pages(&mut m)), (0, before));
    }
    assert_eq!(m.counter(Counter::Visits), visits);
    // No other core has anything of the pool for that, so it goes at once.
    arch::set_relax(Some(others_use_what_they_know));
    m.until_done(at(80), op::Delete {}).unwrap();
    assert!(m.is_empty(at(80)) && m.is_empty(at(81)) && m.is_empty(at(82)));
}

/// Where [`showing_meanwhile`] shows something, once.
static SHOWN: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

/// Another thread of the program shows what core 1 is hiding, and uses it, while that waits for the others.
fn showing_meanwhile() {
    super::visiting::all_but_core_1_go_on();
    let at = SHOWN.swap(0, core::sync::atomic::Ordering::Relaxed);
    if at != 0 {
        super::visiting::core_2_invokes(Place::NULL, op::ShowHere { at });
        assert!(touch(2, at + PAGE, false));
    }
}

/// Whoever shows an object again while it is being hidden has what is in it: nothing is taken away that somebody may have cached.
#[test]
fn what_is_shown_meanwhile_stays() {
    let mut m = with_object();
    assert!(super::morsels::fault(&mut m, 6, OBJECT + PAGE));
    let free = free_pages(&mut m);
    assert!(touch(1, OBJECT + PAGE, true) && touch(2, OBJECT + PAGE, true));
    SHOWN.store(OBJECT, core::sync::atomic::Ordering::Relaxed);
    arch::set_relax(Some(showing_meanwhile));
    hide_it(&mut m);
    assert_eq!(SHOWN.load(core::sync::atomic::Ordering::Relaxed), 0);
    assert!(touch(2, OBJECT + PAGE, false));
    assert_eq!(free_pages(&mut m), free);
    // The next time all forget again.
    arch::set_relax(Some(super::visiting::all_but_core_1_go_on));
    hide_it(&mut m);
    assert!(!touch(2, OBJECT + PAGE, false) && !touch(1, OBJECT + PAGE, false));
    assert_eq!(free_pages(&mut m), free + 1);
}

#[test]
fn nobody_is_asked_about_what_nobody_has_used() {
    let mut m = Whole::new(2);
    m.furnish_pages();
    m.call(at(41), op::Protect { first: 0, count: 16, flags: R }).unwrap();
    m.call(at(41), op::Protect { first: 0, count: 16, flags: RW }).unwrap();
    m.delete(at(41)).unwrap();
    assert_eq!(m.counter(Counter::Shootdowns), 0);
}

#[test]
fn nobody_is_asked_when_everybody_is_at_home() {
    let mut m = Whole::new(2);
    m.furnish_pages();
    touch(0, VA, true);
    m.call(at(202), op::Suspend {}).unwrap();
    m.delete(at(41)).unwrap();
    check_all();
    assert_eq!(m.counter(Counter::Shootdowns), 0);
}

#[test]
fn what_is_free_is_written_down_after_the_last_write() {
    let mut m = Whole::new(2);
    m.furnish_pages();
    collect(&mut m);
    assert!(touch(1, VA, true));
    // The other core goes on writing until it is interrupted.
    fn scribble() {
        if touch(1, VA, true) {
            let pa = FREE + 0x10000;
            (0..512).for_each(|n| UserWord::at(pa + 8 * n).set(0x6666_6666));
        }
        super::visiting::others_go_on();
        assert!(!touch(1, VA, false));
    }
    arch::set_relax(Some(scribble));
    m.delete(at(40)).unwrap();
    check_all();
    assert_eq!(UserWord::at(FREE + 0x10000 + 16).get(), 0x6666_6666, "nobody has scribbled");
    let back = m.call(KERNEL, op::CollectReclaimed {}).unwrap();
    assert_eq!((back.base0, back.bytes0, back.bytes1), (FREE + 0x10000, 16 * PAGE, 0));
}

/// A random play on several cores: the invocations are those of the play on one core.
fn play(seed: u64, steps: u64, cores: usize, asking: bool) -> u64 {
    let mut play = Play::new(Whole::new(cores), seed);
    if !asking {
        play.m.core.local.vm.set_policy("unsafe-local");
    }
    for step in 0..steps {
        for _ in 0..12 {
            let (va, write) = play.access();
            let id = play.below(cores as u64) as usize;
            touch(id, va, write);
        }
        let accesses = (0..4).map(|_| play.access()).collect();
        ACCESSES.set(accesses);
        if play.below(3) == 0 {
            travel(&mut play);
        }
        play.invoke();
        check_all();
        collect(&mut play.m);
        check_all();
        if step % 64 == 0 {
            play.m.check();
            play.furnish();
        }
    }
    play.m.counter(Counter::Shootdowns)
}

/// Somebody goes elsewhere, or something home.
fn travel(play: &mut Play<Whole>) {
    let cores = PROCESSORS.with_borrow(|all| all.len()) as u64;
    let (id, guest) = (1 + play.below(cores - 1), 1 + play.below(cores - 1));
    let guest = at(200 + 2 * guest as u32);
    match play.below(6) {
        0 => {
            let mask = (1 + play.below((1 << (cores - 1)) - 1)) << 1;
            let _ = play.m.call(guest, op::SetAffinity { mask });
        }
        1 => drop(play.m.call(guest, op::Suspend {})),
        2 => drop(play.m.call(guest, op::Continue {})),
        3 if play.m.0.current(id as usize).is_some() => {
            play.m.0.invoke(id as usize, RAM, op::NoOp {})
        }
        4 => on(play.m.0.core(id as usize), |core| on_irq(core, arch::VECTOR_TIMER)),
        _ => drop(play.m.0.interrupt(id as usize)),
    }
    if play.below(2) == 0 {
        play.m.0.settle();
    }
}

#[test]
fn random_layouts_leave_nothing_stale_on_any_core() {
    let mut shootdowns = 0;
    each_seed(1500, |seed, steps| shootdowns += play(seed, steps, 2 + seed as usize % 4, true));
    assert!(shootdowns > 100, "{shootdowns}");
}

#[test]
fn without_asking_something_is_stale() {
    let stale = |seed| catch_unwind(AssertUnwindSafe(|| play(seed, 500, 3, false))).is_err();
    assert!((1..4).all(stale));
}
