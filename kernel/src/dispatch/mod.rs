//! Dispatchers: what runs, what it is told, and the events of the machine.
//!
//! The entry code stores the registers of user mode in the current dispatcher and calls one of the
//! three functions at the end of this file. Each does its work on [`Local`], the state of the core,
//! and then `leave`s: stale translations are flushed, and if the current dispatcher cannot go on,
//! the next one is loaded. What the entry code loads afterwards is whatever is current then.

pub mod context;
mod control;
pub mod dcb;
mod doorbell;
pub(crate) mod events;
pub mod frame;
mod placement;
pub mod queue;
mod sched;
pub mod timer;
mod upcall;
mod vectors;
pub mod visit;

pub(crate) use control::root_type;
pub use control::Settings;
pub use dcb::{Dcb, DcbRef, State};
pub(crate) use upcall::{interrupted, log_fault, receive_notifications};

use crate::arch::{self, Core};
use crate::cap::delete::{Dying, BUDGET};
use crate::cap::reclaim::Reclaim;
use crate::cap::remote::Remote;
use crate::cap::{Db, Obj, SlotRef};
use crate::cores::{CoreId, Cores, Shared};
use crate::ipc::Endpoint;
use crate::log::Line;
use crate::occupancy::{Occupancy, Report, TURN};
use crate::vspace::Tlb;
use captypes::invocations::Counter;
#[cfg(target_os = "none")]
use core::mem::offset_of;
use dcb::Errand;
use events::Kind;
use mdb::Slot;
use queue::{DcbList, RunQueue};

/// Numbers of exceptions.
const NO_VECTORS: u64 = 7;
const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;

/// What libraries are told about the machine.
#[derive(Clone, Copy, Default)]
pub struct Facts {
    pub tsc_hz: u64,
    pub epoch_ns: u64,
}

/// Who is notified: a dispatcher, or whoever receives at an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    Dispatcher(DcbRef),
    Endpoint(Obj<Endpoint>),
}

impl Listener {
    /// The dispatcher, unless the endpoint has no receiver at the moment.
    pub fn dispatcher(self) -> Option<DcbRef> {
        match self {
            Listener::Dispatcher(dcb) => Some(dcb),
            Listener::Endpoint(endpoint) => Local::receiver_of(endpoint),
        }
    }
}

/// Who is notified of an interrupt line.
#[derive(Clone, Copy)]
pub(crate) struct IrqBinding {
    pub to: Option<Listener>,
    pub bits: u64,
}

/// Everything that the kernel keeps for one core besides the objects in memory.
pub struct Local {
    /// Which core this is, and the others.
    pub id: CoreId,
    pub cores: Cores,
    /// Its NUMA node.
    pub node: u8,
    /// What the others see of this one.
    pub(crate) shared: &'static Shared,
    /// All capabilities.
    pub db: Db,
    /// Containers that are being emptied.
    pub(crate) dying: Dying,
    /// Steps of destruction left in this event.
    pub(crate) work: u32,
    /// Steps of an event.
    pub(crate) budget: u32,
    /// A slot that a loop relies on; follows it, and is cut when it is emptied.
    pub(crate) watched: Option<SlotRef>,
    /// For trading the contents of two slots.
    pub(crate) spare: Slot,
    /// What was in slot 0 of a CNode whose own capability is there now: it is deleted next.
    pub(crate) left: Slot,
    /// The deletion that answers `Again` has emptied its slots.
    pub(crate) emptied: bool,
    /// What needs other cores.
    pub(crate) remote: Remote,
    /// The first dispatcher: what capabilities lead to from here is in use.
    pub(crate) first: Option<DcbRef>,
    /// The next number of [`captypes::op::NewId`].
    pub(crate) next_id: u64,
    /// Memory that came back.
    pub(crate) reclaim: Reclaim,
    /// Who hears other cores.
    pub(crate) doorbell: doorbell::Doorbell,
    pub(crate) tlb: Tlb,
    /// What user mode of this core writes to the log.
    pub(crate) line: Line,
    /// The dispatcher whose registers the entry code stores; `None` while idle.
    pub(crate) current: Option<DcbRef>,
    queue: RunQueue,
    /// The current dispatcher must give way.
    resched: bool,
    /// Where to switch to without a look at the queue.
    direct: Option<DcbRef>,
    /// Whose segment bases the processor has: that of the current dispatcher, or nobody's.
    loaded: Option<DcbRef>,
    /// The current dispatcher goes home.
    leaving: Option<DcbRef>,
    /// Those that have come from other cores.
    arrived: DcbList,
    /// When those that are left of them are received, if others have something to do.
    receives_from: u64,
    /// The others may have been told that this core is idle.
    shows_idle: bool,
    /// Since when somebody waits here who may run elsewhere.
    waits_since: Option<u64>,
    /// To whom this core reports when it begins and ceases to work, if that is measured.
    occupancy: Option<&'static Occupancy>,
    /// When its turn is over, if cores take turns.
    turn_end: u64,
    /// When dispatchers that wait here are offered to idle cores.
    offer_at: u64,
    /// Whose vector state the registers hold.
    vectors: Option<DcbRef>,
    /// Vector instructions raise [`NO_VECTORS`]: the current dispatcher has no vector state (yet).
    vectors_off: bool,
    /// When the current dispatcher began to run, and when it has run long enough.
    since: u64,
    slice_end: u64,
    /// The root of the heap of timers, and when the next event about them may be.
    timers: Option<DcbRef>,
    timers_from: u64,
    /// The earliest deadline that somebody wants, and the one that the hardware has. That may be
    /// an earlier one that nobody wants any more: it costs one needless interrupt.
    wanted: u64,
    armed: u64,
    /// The hardware must be told of an earlier deadline.
    rearm: bool,
    pub(crate) irqs: [IrqBinding; arch::IRQS],
    pub(crate) facts: Facts,
    /// Ticks in a time slice.
    pub(crate) slice: u64,
}

impl Local {
    /// Where the reference to what the others see is, for the entry code.
    #[cfg(target_os = "none")]
    pub(crate) const SHARED: usize = offset_of!(Local, shared);

    /// Nothing runs, nothing exists.
    pub const fn new() -> Self {
        Local {
            id: CoreId(0),
            cores: Cores::ALONE,
            node: 0,
            shared: Cores::FIRST,
            db: Db::new(),
            dying: Dying::new(),
            work: BUDGET,
            budget: BUDGET,
            watched: None,
            spare: Slot::empty(),
            left: Slot::empty(),
            emptied: false,
            remote: Remote::new(),
            first: None,
            next_id: 1,
            reclaim: Reclaim::new(),
            doorbell: doorbell::Doorbell::new(),
            tlb: Tlb::new(),
            line: Line::new(),
            current: None,
            queue: RunQueue::new(),
            resched: false,
            direct: None,
            loaded: None,
            leaving: None,
            arrived: DcbList::new(),
            receives_from: 0,
            shows_idle: false,
            waits_since: None,
            occupancy: None,
            turn_end: u64::MAX,
            offer_at: u64::MAX,
            vectors: None,
            vectors_off: false,
            since: 0,
            slice_end: 0,
            timers: None,
            timers_from: 0,
            wanted: u64::MAX,
            armed: u64::MAX,
            rearm: false,
            irqs: [IrqBinding { to: None, bits: 0 }; arch::IRQS],
            facts: Facts { tsc_hz: 0, epoch_ns: 0 },
            slice: 10_000_000,
        }
    }

    /// Makes this the core `id` of several. Before anything else.
    pub fn set_core(&mut self, id: CoreId, cores: Cores) {
        (self.id, self.cores, self.shared) = (id, cores, cores.get(id));
    }

    /// Says from now on when this core works and when somebody waits.
    pub fn measure(&mut self, occupancy: &'static Occupancy, turns: bool) {
        occupancy.watch(self.id, turns, arch::tsc());
        self.occupancy = Some(occupancy);
    }

    #[inline]
    fn report(&mut self, report: Report, now: u64) {
        if let Some(occupancy) = self.occupancy {
            occupancy.report(self.id, report, now);
            match report {
                Report::Works(true) => self.take_turn(),
                Report::Works(false) => {
                    self.turn_end = u64::MAX;
                    occupancy.end_turn(self.id);
                }
                Report::Waits(_) => {}
            }
        }
    }

    /// Waits for the turn of this core, if they take turns.
    fn take_turn(&mut self) {
        if let Some(occupancy) = self.occupancy.filter(|occupancy| occupancy.has_turns()) {
            occupancy.await_turn(self.id);
            self.turn_end = arch::tsc() + TURN;
            self.want_timer(self.turn_end);
        }
    }

    /// The turn of this core is over; the other events that it wants come later.
    fn next_turn(&mut self) {
        if let Some(occupancy) = self.occupancy {
            occupancy.end_turn(self.id);
            self.take_turn();
        }
        self.want_timer(self.slice_end.min(self.offer_at));
        self.want_timers();
        self.receive_later(0);
    }

    /// Lets other cores go on, for which this one waits.
    pub(crate) fn relax(&mut self) {
        arch::relax();
        if let Some(occupancy) = self.occupancy.filter(|all| all.is_turn_of(self.id)) {
            occupancy.end_turn(self.id);
            self.take_turn();
        }
    }

    /// What is measured of a core, if it is.
    pub fn measured(&self, counter: Counter, core: CoreId) -> Option<u64> {
        self.occupancy?.read(counter, core, arch::tsc())
    }

    /// What libraries will be told.
    pub fn set_facts(&mut self, facts: Facts) {
        const SLICES_PER_SECOND: u64 = 100;
        self.facts = facts;
        self.slice = facts.tsc_hz / SLICES_PER_SECOND;
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.shared.set_counter(counter, self.shared.counter(counter) + n);
    }

    /// A counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        match counter {
            Counter::Capabilities => self.db.len() as u64,
            other => self.shared.counter(other),
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

/// User mode executed `syscall`; its registers are in the current dispatcher.
///
/// The entry code of the machine itself knows most system calls of Linux programs and does the same
/// for them (arch/x86_64/entry.rs); what it knows to be an invocation goes to [`on_invocation`].
pub extern "C" fn on_syscall(core: &mut Core) {
    let local = &mut core.local;
    let Some(dcb) = local.current else { return };
    if dcb.has(dcb::flag::LINUX) && !dcb.frame.get().is_disabled(dcb.ctx.rip.get()) {
        let event = events::begin(Kind::SystemCall);
        local.upcall_syscall(dcb);
        return event.end();
    }
    on_invocation(core, dcb);
}

/// User mode invokes a capability; its registers are in `dcb`, the current dispatcher.
pub extern "C" fn on_invocation(core: &mut Core, dcb: DcbRef) {
    let event = events::begin(Kind::Invocation(dcb.ctx.rax.get()));
    let local = &mut core.local;
    if local.is_visiting(dcb) {
        local.go_home(dcb, Errand::Invoke);
    } else {
        crate::invoke::invoke(local, dcb);
    }
    leave(core);
    event.end();
}

/// User mode raised exception `vector`.
pub extern "C" fn on_trap(core: &mut Core, vector: u64, error: u64, cr2: u64) {
    let local = &mut core.local;
    let Some(dcb) = local.current else { return };
    if vector == NO_VECTORS && local.first_use_of_vectors(dcb) {
        return;
    }
    let event = events::begin(Kind::Exception);
    let address = if vector == PAGE_FAULT { cr2 } else { 0 };
    local.fault(dcb, vector, error, address);
    leave(core);
    event.end();
}

/// An interrupt arrived in user mode or in the idle loop.
pub extern "C" fn on_irq(core: &mut Core, vector: u64) {
    let event = events::begin(match vector {
        arch::VECTOR_TIMER => Kind::Timer,
        arch::VECTOR_IPI => Kind::Request,
        _ => Kind::Line,
    });
    let local = &mut core.local;
    let line = vector.wrapping_sub(arch::VECTOR_IRQ0);
    if vector == arch::VECTOR_TIMER {
        local.on_timer();
    } else if vector == arch::VECTOR_IPI {
        local.attend();
    } else if let Some(binding) = local.irqs.get(line as usize).copied() {
        // Without a receiver the line stays masked until somebody acknowledges it.
        if let Some(dcb) = binding.to.and_then(Listener::dispatcher) {
            local.notify(dcb, binding.bits);
            local.yield_to_woken();
        }
    }
    local.consider_upcall();
    leave(core);
    event.end();
}

/// The way out of every event.
#[inline]
pub(crate) fn leave(core: &mut Core) {
    if core.local.tlb.is_pending() {
        core.local.flush_tlb();
    }
    if core.local.resched | core.local.rearm {
        reschedule(core);
    }
}

/// Somebody else runs, or the timer is to expire earlier, or both.
#[inline(never)]
fn reschedule(core: &mut Core) {
    if core.local.resched {
        core.local.pick_next();
        core.current_ctx = match core.local.current {
            Some(dcb) => dcb.context(),
            None => core::ptr::null_mut(),
        };
    }
    if core.local.rearm {
        core.local.rearm = false;
        core.local.armed = core.local.wanted;
        arch::timer_set(core, core.local.armed);
    }
}

/// Begins to run what is ready. For the end of the start-up.
#[cfg(target_os = "none")]
pub fn run(core: &mut Core) -> ! {
    core.local.resched = true;
    leave(core);
    trace::mark(trace::Mark::Leave);
    arch::resume(core)
}
