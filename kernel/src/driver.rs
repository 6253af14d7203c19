//! The CPU driver of one core: its parts.
//!
//! Each part is private inside. Operations that need several take those; the ones that destroy objects
//! reach into all ([`operations`](crate::operations)), and so does the loop over
//! [`events`](crate::events).

use crate::arch;
use crate::cap::CapSpace;
use crate::cores::{CoreId, Cores, ThisCore};
use crate::devices::Refused;
use crate::dispatch::{Doorbell, Irqs, Scheduler};
use crate::ipc::Monitor;
use crate::log::Line;
use crate::morsels::forming::PoolForming;
use crate::reclaim::Reclaim;
use crate::vspace::Translations;
use captypes::invocations::Counter;

/// All of a core.
pub type Core = arch::Core<CpuDriver>;

/// Everything that the kernel keeps for one core besides the objects in memory.
pub struct CpuDriver {
    /// Which core this is.
    pub core: ThisCore,
    /// All capabilities.
    pub caps: CapSpace,
    /// What translations must be invalidated.
    pub vm: Translations,
    /// The pool that is formatted or recovered.
    pub forming: PoolForming,
    /// Who runs.
    pub sched: Scheduler,
    /// Who is asked for what this core alone cannot do.
    pub monitor: Monitor,
    /// Memory that came back.
    pub reclaim: Reclaim,
    /// Who is notified of interrupts.
    pub irqs: Irqs,
    /// What devices were refused.
    pub refused: Refused,
    /// Who hears other cores.
    pub doorbell: Doorbell,
    /// What user mode of this core writes to the log.
    pub line: Line,
}

impl CpuDriver {
    /// Nothing runs, nothing exists.
    pub const fn new() -> Self {
        CpuDriver {
            core: ThisCore::ALONE,
            caps: CapSpace::new(),
            vm: Translations::new(),
            forming: PoolForming::new(),
            sched: Scheduler::new(),
            monitor: Monitor::new(),
            reclaim: Reclaim::new(),
            irqs: Irqs::new(),
            refused: Refused::new(),
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
        self.caps.set_core(core);
        self.vm.set_core(core);
    }

    /// Lets other cores read what this one's ephemeral mappings came to.
    pub fn publish_maps(&self) {
        let counted = arch::maps_counters();
        for (counter, value) in [
            (Counter::EphemeralHits, counted.hits),
            (Counter::EphemeralMisses, counted.misses),
            (Counter::EphemeralLocal, counted.local),
            (Counter::EphemeralRemote, counted.remote),
        ] {
            self.core.shared.set_counter(counter, value);
        }
    }

    /// A counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        match counter {
            Counter::Capabilities => self.caps.db.len() as u64,
            other => self.core.shared.counter(other),
        }
    }
}

impl Default for CpuDriver {
    fn default() -> Self {
        Self::new()
    }
}
