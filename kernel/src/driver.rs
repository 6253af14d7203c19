//! The CPU driver of one core: its parts.

use crate::arch;
use crate::cap::delete::{Dying, BUDGET};
use crate::cap::reclaim::Reclaim;
use crate::cap::remote::Remote;
use crate::cap::Db;
use crate::cores::{CoreId, Cores, ThisCore};
use crate::dispatch::{Doorbell, Irqs, Scheduler};
use crate::log::Line;
use crate::object::{DcbRef, SlotRef};
use crate::vspace::Tlb;
use captypes::invocations::Counter;
use mdb::Slot;

/// All of a core.
pub type Core = arch::Core<Local>;

/// Everything that the kernel keeps for one core besides the objects in memory.
pub struct Local {
    pub core: ThisCore,
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
    /// What needs other cores.
    pub(crate) remote: Remote,
    /// The first dispatcher: what capabilities lead to from here is in use.
    pub(crate) first: Option<DcbRef>,
    /// The next number of [`captypes::op::NewId`].
    pub(crate) next_id: u64,
    /// Memory that came back.
    pub(crate) reclaim: Reclaim,
    pub(crate) tlb: Tlb,
    pub sched: Scheduler,
    pub irqs: Irqs,
    /// Who hears other cores.
    pub doorbell: Doorbell,
    /// What user mode of this core writes to the log.
    pub(crate) line: Line,
}

impl Local {
    /// Nothing runs, nothing exists.
    pub const fn new() -> Self {
        Local {
            core: ThisCore::ALONE,
            db: Db::new(),
            dying: Dying::new(),
            work: BUDGET,
            budget: BUDGET,
            watched: None,
            spare: Slot::empty(),
            remote: Remote::new(),
            first: None,
            next_id: 1,
            reclaim: Reclaim::new(),
            tlb: Tlb::new(),
            sched: Scheduler::new(),
            irqs: Irqs::new(),
            doorbell: Doorbell::new(),
            line: Line::new(),
        }
    }

    /// Makes this the core `id` of several. Before anything else.
    pub fn set_core(&mut self, id: CoreId, cores: Cores) {
        self.set_this_core(ThisCore::new(id, cores));
    }

    /// Says to which NUMA node it belongs.
    pub fn set_node(&mut self, node: u8) {
        self.set_this_core(ThisCore { node, ..self.core });
    }

    pub fn set_this_core(&mut self, core: ThisCore) {
        self.core = core;
        self.sched.set_core(core);
        self.tlb.set_core(core);
    }

    /// A counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        match counter {
            Counter::Capabilities => self.db.len() as u64,
            other => self.core.shared.counter(other),
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}
