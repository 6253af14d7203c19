//! What the cores know of each other: all state of the kernel that they share.
//!
//! Each core has one [`Shared`], in cache lines of its own. Others write to it only to leave a message: a
//! dispatcher that comes to this core, a request, a notification. Whoever leaves one interrupts the
//! core afterwards, and the core looks at everything then. Two words belong to all cores: which are idle,
//! and where somebody waits.

mod here;
mod pools;

pub use here::ThisCore;
pub use pools::{Extent, PoolUse, Pools, SharedPool, Standing, State as PoolState, MOST_POOLS};

use captypes::invocations::Counter;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use shootdown::Port;

/// Most cores.
pub const MAX_CORES: usize = shootdown::MAX_CORES;

/// Number of a core, counted from 0 in the order of `BootInfo::cores`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct CoreId(pub u8);

impl CoreId {
    /// The core that starts the others.
    pub const BOOT: CoreId = CoreId(0);
    /// The set with this core alone.
    #[inline]
    pub const fn bit(self) -> u64 {
        1 << self.0
    }
    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What others may see and change of a core.
#[repr(C, align(128))]
pub struct Shared {
    /// Dispatchers that come here, newest first: physical address of the control block, 0 for none,
    /// linked by [`Dcb::below`](crate::object::Dcb).
    pub inbox: AtomicU64,
    /// The root page table that is loaded, and who is to forget translations.
    pub tlb: Port,
    /// How many of its dispatchers are at other cores, or on the way. Only the core itself asks.
    away: AtomicU32,
    /// Since when it has had nothing to run, in ticks of the time-stamp counter.
    pub idle_since: AtomicU64,
    /// What others go by who choose a core.
    pub place: Place,
    /// Does it take interrupts already?
    pub online: AtomicBool,
    /// The dispatcher that another core wants back, 0 for none.
    pub recall: AtomicU64,
    /// What it counts. Only the core itself writes them.
    counters: [AtomicU64; Counter::ALL.len()],
    /// Somebody has rung, and nobody here has heard it yet; see [`captypes::op::RingCore`].
    pub rung: AtomicBool,
    /// What it does with pools.
    pub pool_use: PoolUse,
    /// In the block of the first core: all pools.
    pools: Pools,
    /// In the block of the first core: which have too little to do, and which too much.
    load: Load,
}

/// Where a core is, and who runs there.
pub struct Place {
    /// The set of the cores of its NUMA node.
    pub near: AtomicU64,
    /// The rank of who runs there: a server's, a priority, or 0.
    pub rank: AtomicU8,
    /// It says so: somebody on some core has had a priority since the machine began.
    pub has_ranks: AtomicBool,
}

/// Where work is, and where it could go. One word each for all cores, so that nobody looks at each of
/// them: they change when a core begins or ceases to be idle, or to have somebody waiting.
#[repr(align(64))]
struct Load {
    /// Cores with nothing to run, to which nobody sends something now.
    idle: AtomicU64,
    /// Cores where somebody waits who may run elsewhere.
    waiting: AtomicU64,
}

impl Shared {
    /// A core that is not running yet.
    pub const fn new() -> Shared {
        Shared {
            inbox: AtomicU64::new(0),
            tlb: Port::new(),
            away: AtomicU32::new(0),
            idle_since: AtomicU64::new(0),
            place: Place {
                near: AtomicU64::new(0),
                rank: AtomicU8::new(0),
                has_ranks: AtomicBool::new(false),
            },
            online: AtomicBool::new(false),
            recall: AtomicU64::new(0),
            counters: [const { AtomicU64::new(0) }; Counter::ALL.len()],
            rung: AtomicBool::new(false),
            pool_use: PoolUse::new(),
            pools: Pools::new(),
            load: Load { idle: AtomicU64::new(0), waiting: AtomicU64::new(0) },
        }
    }

    /// Where a counter is, for the entry code.
    pub fn counter_cell(&self, counter: Counter) -> &AtomicU64 {
        &self.counters[counter as usize]
    }

    /// A counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// Sets a counter. For the core itself.
    #[inline]
    pub fn set_counter(&self, counter: Counter, value: u64) {
        self.counters[counter as usize].store(value, Ordering::Relaxed);
    }

    /// For how many ticks it has been idle, if it is.
    pub fn idle_for(&self, now: u64) -> u64 {
        now.saturating_sub(self.idle_since.load(Ordering::Relaxed))
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new()
    }
}

/// All cores of the machine.
#[derive(Clone, Copy)]
pub struct Cores(&'static [Shared]);

/// A machine with one core.
static ALONE: [Shared; 1] = [Shared::new()];

impl Cores {
    /// One core, alone.
    pub const ALONE: Cores = Cores(&ALONE);

    /// What the only core of [`ALONE`](Self::ALONE) shows.
    pub const FIRST: &'static Shared = &ALONE[0];

    /// These cores.
    ///
    /// # Panics
    /// There is at least one, and at most [`MAX_CORES`].
    pub const fn new(all: &'static [Shared]) -> Cores {
        assert!(!all.is_empty() && all.len() <= MAX_CORES);
        Cores(all)
    }

    /// What core `id` shows. An unknown one reads as the first.
    #[inline]
    pub fn get(self, id: CoreId) -> &'static Shared {
        self.0.get(id.index()).unwrap_or(&self.0[0])
    }

    /// What core `index` shows, if there is one.
    pub fn at(self, index: usize) -> Option<&'static Shared> {
        self.0.get(index)
    }

    /// Is there more than one?
    #[inline]
    pub fn are_many(self) -> bool {
        self.0.len() > 1
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Are there none? There never are.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// All pools.
    #[inline]
    pub fn pools(self) -> &'static Pools {
        &self.0[0].pools
    }

    /// The set of all.
    pub fn mask(self) -> u64 {
        u64::MAX >> (MAX_CORES - self.0.len())
    }

    /// Those that have nothing to run, and to which nobody sends something now.
    pub fn idle(self) -> u64 {
        self.0[0].load.idle.load(Ordering::SeqCst)
    }

    /// Core `id` begins to be idle, or ceases to.
    pub fn set_idle(self, id: CoreId, idle: bool) {
        change(&self.0[0].load.idle, id, idle);
    }

    /// Is a core idle? Claims it, so that nobody else sends it something at the same time.
    pub fn claim(self, id: CoreId) -> bool {
        self.get(id).online.load(Ordering::Acquire)
            && self.idle() & id.bit() != 0
            && change(&self.0[0].load.idle, id, false)
    }

    /// Those where somebody waits who may run elsewhere.
    pub fn waiting(self) -> u64 {
        self.0[0].load.waiting.load(Ordering::SeqCst)
    }

    /// Somebody begins to wait at core `id` who may run elsewhere, or nobody does any more.
    pub fn set_waiting(self, id: CoreId, waits: bool) {
        change(&self.0[0].load.waiting, id, waits);
    }

    /// All of them with their numbers.
    pub fn iter(self) -> impl Iterator<Item = (CoreId, &'static Shared)> {
        self.0.iter().enumerate().map(|(n, shared)| (CoreId(n as u8), shared))
    }
}

/// Puts a core in a set, or takes it out. Was it in?
fn change(set: &AtomicU64, id: CoreId, is_in: bool) -> bool {
    let before = match is_in {
        true => set.fetch_or(id.bit(), Ordering::SeqCst),
        false => set.fetch_and(!id.bit(), Ordering::SeqCst),
    };
    before & id.bit() != 0
}

impl Deref for Cores {
    type Target = [Shared];
    fn deref(&self) -> &[Shared] {
        self.0
    }
}
