//! Dispatchers: what runs on this core and what it is told.
//!
//! | file | what |
//! |---|---|
//! | `sched`, `queue`, `prior` | who runs next, and for how long |
//! | `classes` | what priorities and weights change about that |
//! | `placement` | on which core |
//! | `visits` | dispatchers that run on another core than their home |
//! | `calls` | dispatchers that call endpoints of other cores |
//! | `guests` | those of other cores that wait here |
//! | `timers`, `alarm` | timers of dispatchers, and that of the core |
//! | `heap` | heaps of dispatchers |
//! | `registers` | registers that the entry code does not store |
//! | `notify` | notifications and upcalls |
//! | `control` | start, stop, suspend |
//! | `irqs`, `doorbell` | who is notified of interrupts, and of other cores |
//! | `sample` | which part of their time is the system's |
//! | `meter` | how busy the core is, if that is measured |

mod alarm;
mod calls;
mod classes;
mod control;
mod doorbell;
mod guests;
mod heap;
mod irqs;
mod meter;
mod notify;
mod placement;
mod prior;
pub mod queue;
mod registers;
mod sample;
mod sched;
pub mod timers;
pub mod visits;

pub use calls::{close_arrivals, go_abroad};
pub use classes::set_schedule;
pub use control::root_type;
pub use doorbell::Doorbell;
pub use guests::{guest, serve_guest, welcome};
pub use irqs::{line, lines, Irqs};
pub use notify::{interrupted, is_upcalled, log_fault, receive_notifications};

use crate::arch::{Breakpoints, VectorUnit};
use crate::cores::{CoreId, ThisCore};
use crate::morsels::Waiting;
use crate::object::DcbRef;
use crate::occupancy::Occupancy;
use alarm::Alarm;
use captypes::invocations::Counter;
use meter::Meter;
use placement::Balance;
use queue::RunQueue;
use registers::Registers;
use timers::Timers;
use visits::Visits;

/// What libraries are told about the machine.
#[derive(Clone, Copy, Default)]
pub struct Facts {
    pub tsc_hz: u64,
    pub epoch_ns: u64,
}

/// The time slice of the current dispatcher.
struct Slice {
    /// When it began to run (or the core to idle), and when it has run long enough.
    since: u64,
    end: u64,
    /// Length of a slice.
    ticks: u64,
}

/// Who runs on this core. Ready dispatchers wait in the run queue; the current one is in no queue.
pub struct Scheduler {
    core: ThisCore,
    /// The dispatcher whose registers the entry code stores; `None` while idle.
    current: Option<DcbRef>,
    queue: RunQueue,
    /// Where to switch to without a look at the queue.
    direct: Option<DcbRef>,
    /// The current dispatcher must give way.
    resched: bool,
    slice: Slice,
    registers: Registers,
    alarm: Alarm,
    timers: Timers,
    visits: Visits,
    balance: Balance,
    meter: Meter,
    facts: Facts,
}

impl Scheduler {
    /// Nothing runs.
    pub const fn new() -> Scheduler {
        Scheduler {
            core: ThisCore::ALONE,
            current: None,
            queue: RunQueue::new(),
            direct: None,
            resched: false,
            slice: Slice { since: 0, end: 0, ticks: 10_000_000 },
            registers: Registers::new(),
            alarm: Alarm::new(),
            timers: Timers::new(),
            visits: Visits::new(),
            balance: Balance::new(),
            meter: Meter::new(),
            facts: Facts { tsc_hz: 0, epoch_ns: 0 },
        }
    }

    /// Makes this the scheduler of a core.
    pub fn set_core(&mut self, core: ThisCore) {
        self.core = core;
    }

    /// Says from now on when this core works and when somebody waits.
    pub fn measure(&mut self, occupancy: &'static Occupancy, turns: bool) {
        self.meter.watch(self.core.id, occupancy, turns);
    }

    /// What is measured of a core, if it is.
    pub fn measured(&self, counter: Counter, core: CoreId) -> Option<u64> {
        self.meter.read(counter, core)
    }

    /// What libraries are told.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// What libraries will be told.
    pub fn set_facts(&mut self, facts: Facts) {
        const SLICES_PER_SECOND: u64 = 100;
        self.facts = facts;
        self.slice.ticks = facts.tsc_hz / SLICES_PER_SECOND;
        queue::set_second(&mut self.queue, facts.tsc_hz);
    }

    /// The dispatcher that runs, or `None` while the core is idle.
    #[inline]
    pub fn current(&self) -> Option<DcbRef> {
        self.current
    }

    /// Must somebody else run, or the hardware's timer be set?
    #[inline]
    pub fn has_changes(&self) -> bool {
        self.resched | self.alarm.is_stale()
    }

    /// Must somebody else run?
    #[inline]
    pub fn must_switch(&self) -> bool {
        self.resched
    }

    /// The deadline that the hardware's timer must be told, if it must.
    #[inline]
    pub fn deadline_to_arm(&mut self) -> Option<u64> {
        self.alarm.is_stale().then(|| self.alarm.arm())
    }

    /// The current dispatcher executed a vector instruction that faulted; `false` if that was not its
    /// first one.
    pub fn first_use_of_vectors(&mut self, dcb: DcbRef) -> bool {
        self.registers.first_use_of_vectors(dcb)
    }

    /// For whatever executes vector instructions in the kernel.
    #[inline]
    pub fn vector_unit(&self) -> &VectorUnit {
        self.registers.unit()
    }
}

/// Gives a dispatcher, which is here, other breakpoints.
pub fn set_breakpoints(sched: &mut Scheduler, dcb: DcbRef, breakpoints: Breakpoints) {
    sched.registers.set_breakpoints(dcb, breakpoints);
}

impl Waiting for Scheduler {
    #[inline]
    fn wait(&mut self) {
        self.wait_for_others();
    }
    #[inline]
    fn with_vectors(&self, work: impl FnOnce()) {
        self.vector_unit().with(work);
    }
}

impl Default for Scheduler {
    fn default() -> Self {
        Self::new()
    }
}
