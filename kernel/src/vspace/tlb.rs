//! Forgetting translations. Before the kernel returns to user mode, no translation is cached that
//! the page tables do not allow any more (invariant 5).
//!
//! Three facts make most of it unnecessary:
//! * Loading another root forgets everything, so only translations of the *present* root are cached
//!   (the kernel does not use process-context identifiers).
//! * The processor caches what it found in an entry only after it has set the entry's accessed bit.
//!   An entry without that bit has no translations (and whoever clears it forgets them).
//! * An entry that was not present, or allowed less, leaves nothing behind that must be forgotten:
//!   the processor looks into the tables before it faults.
//!
//! What remains is forgotten by one of three strategies (G12 §4.3.5), chosen by flags of the
//! invocation or else by the core's policy:
//!
//! | strategy | |
//! |---|---|
//! | full | everything, once at the end of the event |
//! | selective | page by page (`invlpg`), at the addresses that [`address`](super::address) finds |
//! | hybrid | page by page as long as an event does not need more than a threshold, then everything |
//!
//! An upper-level entry stands for up to 512 GiB; losing one that was used is always a full flush.
//! So is what a batch takes that is longer than the threshold, and the end of a container: the
//! addresses of so many are not worth a search.
//!
//! This is about the translations of this core's processor; what other cores must forget is found in
//! [`shootdown`](super::shootdown), from the same changes.

use super::address::{Found, Known, Places};
use super::shootdown::Elsewhere;
use crate::arch;
use crate::cap::mapping::{ENTRY, IS_TABLE, LEVEL};
use crate::cap::CapSpace;
use crate::cores::ThisCore;
use crate::object::Table;
use captypes::invocations::{Counter, FlushPolicy, FlushStrategy, MapFlags};
use mdb::RawCap;
use paging::Flags;

/// The threshold of the default policy; docs/decisions/0011 has the measurements.
pub const DEFAULT_THRESHOLD: u32 = 24;

/// What must be flushed before user mode runs again, and how to decide it.
pub struct Translations {
    /// What this event has spent on single pages: those forgotten, and searches for their addresses.
    /// [`EVERYTHING`]: all must be forgotten at its end.
    spent: u32,
    /// The core's policy.
    pub(crate) policy: FlushPolicy,
    /// Where tables were found before.
    pub(super) known: Known,
    /// Where the last one was that was found at several places.
    pub(super) many: Places,
    /// What other cores must forget.
    pub(super) elsewhere: Elsewhere,
}

/// More than any number of single pages.
const EVERYTHING: u32 = u32::MAX;

impl Translations {
    /// Nothing.
    pub const fn new() -> Translations {
        let policy = FlushPolicy { strategy: FlushStrategy::Hybrid, threshold: DEFAULT_THRESHOLD };
        Translations {
            spent: 0,
            policy,
            known: Known::new(),
            many: Places::none(),
            elsewhere: Elsewhere::new(),
        }
    }

    /// Takes the policy that the boot option `tlb` names: `full`, `selective`, `hybrid`, or the
    /// threshold of the latter. `unsafe-local` asks no other core, which shows what is asked for
    /// otherwise (docs/tlb.md). What is none of these changes nothing.
    pub fn set_policy(&mut self, option: &str) {
        match option {
            "full" => self.policy.strategy = FlushStrategy::Full,
            "selective" => self.policy.strategy = FlushStrategy::Selective,
            "hybrid" => self.policy.strategy = FlushStrategy::Hybrid,
            "unsafe-local" => self.elsewhere.never_ask(),
            number => {
                if let Ok(threshold) = number.parse() {
                    self.policy = FlushPolicy { strategy: FlushStrategy::Hybrid, threshold };
                }
            }
        }
    }

    /// Is there something to do before user mode runs?
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.spent != 0 || self.has_hidden()
    }

    /// Has memory left the direct map that other cores may have cached?
    #[inline(always)]
    fn has_hidden(&self) -> bool {
        arch::SPARSE && self.core().cores.are_many() && arch::has_hidden()
    }

    /// Everything must be forgotten here.
    #[inline]
    pub(super) fn forget_all(&mut self) {
        self.spent = EVERYTHING;
    }

    /// Is it so already?
    #[inline]
    pub(super) fn forgets_all(&self) -> bool {
        self.spent == EVERYTHING
    }

    /// Can no further change make a difference? Other cores may have to forget more than is known yet.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.spent == EVERYTHING && !self.elsewhere.may_be()
    }

    /// Must other cores forget something?
    #[inline]
    pub(crate) fn is_pending_elsewhere(&self) -> bool {
        self.elsewhere.is_pending() || self.has_hidden()
    }

    /// Something is to be done at the end of the event.
    #[inline]
    pub(super) fn set_pending(&mut self) {
        self.spent = self.spent.max(1);
    }

    /// Which core this is about.
    #[inline]
    pub(super) fn core(&self) -> ThisCore {
        self.elsewhere.core
    }

    /// Makes this what core `core` has cached.
    pub fn set_core(&mut self, core: ThisCore) {
        self.elsewhere.set_core(core);
    }

    /// Most pages that another core forgets one by one.
    pub(super) fn most_elsewhere(&self, flags: MapFlags) -> u32 {
        match self.strategy(flags) {
            FlushStrategy::Full => 0,
            FlushStrategy::Selective => u32::MAX,
            // A batch that is too long, or was so far.
            FlushStrategy::Hybrid if self.spent >= self.policy.threshold => 0,
            FlushStrategy::Hybrid => self.policy.threshold,
        }
    }

    /// A batch of so many begins: if that is more than is forgotten one by one, none is.
    #[inline]
    pub(crate) fn expect(&mut self, count: u32) {
        if count > self.policy.threshold {
            self.spent = self.spent.max(self.policy.threshold);
        }
    }

    /// The strategy that flags ask for, or the core's.
    #[inline]
    pub(super) fn strategy(&self, flags: MapFlags) -> FlushStrategy {
        match (flags.has(MapFlags::FLUSH_ALL), flags.has(MapFlags::FLUSH_PAGES)) {
            (false, false) => self.policy.strategy,
            (true, false) => FlushStrategy::Full,
            (false, true) => FlushStrategy::Selective,
            (true, true) => FlushStrategy::Hybrid,
        }
    }

    /// Are single pages the way for `count` more in this event?
    #[inline]
    fn wants_single(&self, strategy: FlushStrategy, count: u32) -> bool {
        match strategy {
            FlushStrategy::Full => false,
            FlushStrategy::Selective => true,
            FlushStrategy::Hybrid => self.spent.saturating_add(count) <= self.policy.threshold,
        }
    }

    #[inline]
    fn spend(&mut self, pages: u32) {
        if !self.forgets_all() {
            self.spent = self.spent.saturating_add(pages).min(EVERYTHING - 1);
        }
    }

    /// Forgets everything if that is still to be done. Returns whether it was.
    pub(super) fn flush_here(&mut self) -> bool {
        let full = core::mem::replace(&mut self.spent, 0) == EVERYTHING;
        if full {
            arch::flush_tlb();
        }
        full
    }
}

impl Default for Translations {
    fn default() -> Self {
        Self::new()
    }
}

impl Translations {
    /// Nothing that any core knows is right any more.
    pub(crate) fn forget_everything(&mut self) {
        self.forget_all();
        self.elsewhere.everything();
    }

    /// Entry `index` of `table`, whose Mapping has the attributes `kind`, has just lost a right, or
    /// changed its page, or become absent; `old` is what it was.
    #[inline(always)]
    pub(super) fn forget(
        &mut self,
        caps: &CapSpace,
        table: u64,
        kind: u16,
        index: u32,
        old: u64,
        flags: MapFlags,
    ) {
        if old & Flags::ACCESSED.bits() != 0 && !self.is_settled() {
            self.forget_used(caps, table, kind, index, flags);
        }
    }

    /// The same of an entry that was used.
    #[inline(never)]
    pub(super) fn forget_used(
        &mut self,
        caps: &CapSpace,
        table: u64,
        kind: u16,
        index: u32,
        flags: MapFlags,
    ) {
        if self.elsewhere.may_be() {
            self.forget_elsewhere(caps, table, kind, index, 1, flags);
        }
        if let Some(here) = self.begin_singles(caps, table, kind, 1, flags) {
            self.count_singles(self.flush_at(here, kind, index));
        }
    }

    /// For entries `first..first + count` of a Mapping, still present, of which some were used and
    /// have just lost a right.
    pub(super) fn forget_range(
        &mut self,
        caps: &CapSpace,
        mapping: &RawCap,
        first: u32,
        count: u32,
        flags: MapFlags,
    ) {
        let (table, kind) = (mapping.word, mapping.attrs);
        if self.elsewhere.may_be() {
            self.forget_elsewhere(caps, table, kind, (mapping.aux & ENTRY) + first, count, flags);
        }
        let Some(here) = self.begin_singles(caps, table, kind, count, flags) else { return };
        self.forget_range_at(here, mapping, first, count);
    }

    /// The same, with a table that is `here`.
    pub(super) fn forget_range_at(
        &mut self,
        here: Found,
        mapping: &RawCap,
        first: u32,
        count: u32,
    ) {
        let (start, used) = ((mapping.aux & ENTRY) + first, Flags::ACCESSED.bits());
        let (table, mut pages) = (Table::at(mapping.word), 0);
        if count != 1 {
            table.for_each_with(start, count, used, |index, _| {
                pages += self.flush_at(here, mapping.attrs, index);
            });
        } else if table.get(start) & used != 0 {
            pages = self.flush_at(here, mapping.attrs, start);
        }
        self.count_singles(pages);
    }

    /// Where to forget up to `count` pages one by one; `None` if that is not the way, or settled.
    pub(super) fn begin_singles(
        &mut self,
        caps: &CapSpace,
        table: u64,
        kind: u16,
        count: u32,
        flags: MapFlags,
    ) -> Option<Found> {
        if self.forgets_all() {
            return None;
        }
        if kind & IS_TABLE != 0 || !self.wants_single(self.strategy(flags), count) {
            self.forget_all();
            return None;
        }
        // A search is as dear as a page.
        self.spend(1);
        match self.places_here(caps, table, (kind & LEVEL) as u8) {
            Found::Nowhere => None,
            Found::TooMany => {
                self.forget_all();
                None
            }
            here => Some(here),
        }
    }

    /// So many pages were forgotten.
    #[inline]
    pub(super) fn count_singles(&mut self, pages: u32) {
        self.core().add(Counter::TlbPages, u64::from(pages));
        self.spend(pages);
    }
}

impl Translations {
    /// Forgets the page of entry `index` of a table that is `here`, at every address. Returns how many
    /// there are.
    #[inline(always)]
    pub(super) fn flush_at(&self, here: Found, kind: u16, index: u32) -> u32 {
        let offset = u64::from(index) << crate::cap::mapping::page_shift((kind & LEVEL) as u8);
        match here {
            Found::At(place) => {
                arch::flush_page(place.va + offset);
                1
            }
            Found::Many => self.many.flush(offset),
            Found::Nowhere | Found::TooMany => 0,
        }
    }
}

impl Places {
    #[inline(never)]
    fn flush(&self, offset: u64) -> u32 {
        self.as_slice().iter().for_each(|place| arch::flush_page(place.va + offset));
        self.as_slice().len() as u32
    }
}
