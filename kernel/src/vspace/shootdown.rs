//! What other cores must forget, and how they are made to (invariant 5 on many cores).
//!
//! Page tables are only changed by their home, the core in whose database they are; but dispatchers
//! of that home may run on any core, and there is an address space loaded, and cached. The changes
//! that [`tlb`](super::tlb) forgets locally are found here too:
//!
//! * While no dispatcher of this core is away, no other core has a root of it loaded: whoever sends a
//!   dispatcher home has loaded another root before (`CpuDriver::leave_root`). Then there is nothing to
//!   do, which costs a load and a branch.
//! * Otherwise each change is followed up to the roots below which its table is, when it happens: who
//!   removes a table later in the event would hide the way. At the end of the event those cores are
//!   asked that have one of these roots loaded *then*, all at once; the protocol is
//!   [`shootdown`], and it says why nobody is missed.
//! * The event waits for the answers, before anybody runs here, before a dispatcher that it was done
//!   for is sent back, and before memory that it freed can be used: even the list of what is free,
//!   which lives in that memory, is written afterwards ([`CpuDriver::reclaim`]).
//!
//! The accessed bit is as good a witness for other processors as for one's own if it is read by the
//! same atomic operation that takes the entry away, or is left in the entry and read after the
//! change: a processor sets it atomically, in an entry that is still as it has read it, before it
//! caches anything.
//!
//! More rights need no message. A processor that finds too few in its cache looks into the tables
//! before it faults, or forgets what it had when it does, and the library of the program tries again.

use super::address::{Found, Place};
use super::device::flush_devices;
use super::morsel::{forget_unshown, Unshown};
use super::Translations;
use crate::arch;
use crate::cap::mapping::{is_mapping, ENTRY, ENTRY_BITS, IS_TABLE, LEVEL};
use crate::cap::CapSpace;
use crate::cores::{CoreId, ThisCore};
use crate::object::{SlotRun, Table};
use captypes::invocations::{Counter, MapFlags};
use paging::Flags;
use shootdown::{concerned, running, Forget, Pages};

/// Roots that an event is remembered to have affected; if there are more, it might have been any.
const MOST_ROOTS: usize = 4;

/// What an event has taken away that other cores may have cached.
pub struct Elsewhere {
    pub(super) core: ThisCore,
    /// The roots below which it was.
    roots: [u64; MOST_ROOTS],
    /// How many; more than there is room for: any.
    count: usize,
    what: Forget,
    /// What is shown no more of objects, but may be cached until the event ends.
    pub(super) unshown: Unshown,
    /// Nobody is asked, which is wrong.
    disabled: bool,
}

impl Elsewhere {
    /// Nothing, and nobody away.
    pub const fn new() -> Elsewhere {
        let (roots, what) = ([0; MOST_ROOTS], Forget::nothing());
        Elsewhere {
            core: ThisCore::ALONE,
            roots,
            count: 0,
            what,
            unshown: Unshown::new(),
            disabled: false,
        }
    }

    /// May another core have cached anything of this one's tables?
    #[inline]
    pub(super) fn may_be(&self) -> bool {
        self.core.has_some_away()
    }

    /// Has anything been taken away in this event?
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.count != 0
    }

    pub(super) fn set_core(&mut self, core: ThisCore) {
        self.core = core;
    }

    pub(super) fn never_ask(&mut self) {
        self.disabled = true;
    }

    /// Everything that anybody knows, wherever it is.
    pub(super) fn everything(&mut self) {
        if self.may_be() {
            self.count = MOST_ROOTS + 1;
            self.what.everything();
        }
    }

    fn add_root(&mut self, root: u64) {
        let known = self.roots.get(..self.count);
        if known.is_none_or(|known| known.contains(&root)) {
            return;
        }
        if let Some(place) = self.roots.get_mut(self.count) {
            *place = root;
        }
        self.count += 1;
    }

    fn affects(&self, root: u64) -> bool {
        self.roots.get(..self.count).is_none_or(|roots| roots.contains(&root))
    }

    fn clear(&mut self) {
        self.count = 0;
        self.what = Forget::nothing();
    }
}

impl Default for Elsewhere {
    fn default() -> Self {
        Self::new()
    }
}

impl Translations {
    /// Entries `first..first + count` of `table`, whose Mapping has the attributes `kind`, have lost a
    /// right, changed their page or become absent, and some were used: wherever that is cached, it will
    /// be forgotten before this event ends.
    #[inline(never)]
    pub(super) fn forget_elsewhere(
        &mut self,
        caps: &CapSpace,
        table: u64,
        kind: u16,
        first: u32,
        count: u32,
        flags: MapFlags,
    ) {
        let level = (kind & LEVEL) as u8;
        let single = (kind & IS_TABLE == 0).then(|| self.most_elsewhere(flags));
        let offset = u64::from(first) << crate::cap::mapping::page_shift(level);
        let found = self.places(caps, table, level);
        let elsewhere = &mut self.elsewhere;
        let mut add = |place: Place| {
            elsewhere.add_root(place.root.0);
            match single {
                Some(most) => {
                    elsewhere.what.add(Pages::new((place.va + offset).0, level, count), most)
                }
                None => elsewhere.what.everything(),
            }
        };
        match found {
            Found::Nowhere => return,
            Found::At(place) => add(place),
            Found::Many => self.many.as_slice().iter().copied().for_each(add),
            Found::TooMany => elsewhere.everything(),
        }
        self.set_pending();
    }

    /// The same for what was used of the Mappings in `slots`, still present.
    #[inline(never)]
    pub(super) fn forget_each_elsewhere(
        &mut self,
        caps: &CapSpace,
        slots: SlotRun,
        flags: MapFlags,
    ) {
        let mut last = 0;
        for cap in slots.iter().map(|slot| slot.cap()).filter(is_mapping) {
            if cap.word == last && self.elsewhere.what.is_everything() {
                continue;
            }
            let (first, count) = (cap.aux & ENTRY, (cap.aux >> ENTRY_BITS) + 1);
            let (union, _) = Table::at(cap.word).union_and_intersection(first, count);
            if union & Flags::ACCESSED.bits() != 0 {
                self.forget_elsewhere(caps, cap.word, cap.attrs, first, count, flags);
                last = cap.word;
            }
        }
    }

    /// Has forgotten what this event has taken away, here and elsewhere. `wait`: lets other cores go on
    /// for which this one waits.
    pub fn flush(&mut self, wait: impl FnMut()) {
        let asked = self.is_pending_elsewhere() && self.ask_others();
        if self.flush_here() {
            self.core().add(Counter::TlbFlushes, 1);
        }
        if asked {
            self.await_answers(wait);
        }
        flush_devices(self);
        forget_unshown(self);
    }

    /// Has others forget what this event has taken away so far.
    pub fn shoot_down(&mut self, wait: impl FnMut()) {
        if self.ask_others() {
            self.await_answers(wait);
        }
    }

    /// Asks the cores that may have cached it. Returns whether there are any.
    #[inline(never)]
    fn ask_others(&mut self) -> bool {
        let core = self.core();
        let id = core.id;
        let port = |number| core.port(number);
        let elsewhere = &mut self.elsewhere;
        let mut whom = concerned(id.index(), port, |root| elsewhere.affects(root));
        if arch::SPARSE && arch::take_hidden() {
            // Whoever has the kernel's own root loads another before it runs anybody.
            whom |= running(id.index(), core.cores.len(), port);
            elsewhere.what.everything();
        }
        if whom == 0 || elsewhere.disabled {
            elsewhere.clear();
            return false;
        }
        let (mut sleepers, what) = (0u64, &elsewhere.what);
        port(id.index()).ask(id.index(), whom, what, port, |core| sleepers |= 1 << core);
        let (asked, pages) = (u64::from(whom.count_ones()), u64::from(what.count()));
        let full = if what.is_everything() { asked } else { 0 };
        elsewhere.clear();
        while sleepers != 0 {
            core.interrupt(CoreId(sleepers.trailing_zeros() as u8));
            sleepers &= sleepers - 1;
        }
        core.add(Counter::Shootdowns, 1);
        core.add(Counter::ShootdownRequests, asked);
        core.add(Counter::RemoteFlushes, full);
        core.add(Counter::RemotePages, asked * pages);
        true
    }

    /// Whoever was asked may be waiting for this core, or for one that does.
    fn await_answers(&self, mut wait: impl FnMut()) {
        let core = self.core();
        while !core.port(core.id.index()).is_answered() {
            wait();
        }
    }
}
