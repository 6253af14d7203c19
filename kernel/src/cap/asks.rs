//! What this core alone cannot do, and asks its monitor for (G18 §4.2, §4.6).
//!
//! Every capability has an owner core and hints, which say what relatives other cores may have; see
//! [`attr`]. The operations of this core look at them where they would otherwise do something that
//! concerns others, and stop with [`Pause::Remote`] after noting what stands in the way. The invoker
//! then waits as if it had called the monitor's endpoint, and the monitor gets the [`Ask`]. When it
//! has run the protocol it lets the kernel go on with the invocation, whose registers are as they
//! were.

use super::away::Away;
use super::budget::{Pause, Progress};
use super::db::is_container;
use super::lookup::slots_of;
use super::CapSpace;
use super::{attr, CapExt, MEMORY};
use crate::object::{slot_at, SlotRef};
use captypes::invocations::{Identity, Need};
use captypes::place::SLOT_BYTES;
use captypes::CapType;
use mdb::RawCap;

/// What an invocation needs before it can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// What is to be done.
    pub need: Need,
    /// With the capability here.
    pub slot: SlotRef,
    /// Of a retype: the range.
    pub base: u64,
    /// Its length.
    pub bytes: u64,
}

/// What stands in the way of invocations.
pub struct Asks {
    /// What stopped the invocation that is being performed.
    ask: Option<Ask>,
    /// The range of which the monitors have found that nothing was made elsewhere.
    grant: Option<(u64, u64)>,
    /// Memory of which other cores may have something.
    pub away: Away,
    /// How far the hints of descendants are set: capability, and the address up to which.
    pub(super) sharing: Option<(RawCap, u64)>,
}

impl Asks {
    /// Nothing.
    pub const fn new() -> Asks {
        Asks { ask: None, grant: None, away: Away::new(), sharing: None }
    }

    /// What stopped the invocation that was performed last.
    pub fn take(&mut self) -> Option<Ask> {
        self.ask.take()
    }

    /// The monitors have found that nothing was made elsewhere of a range, or that holds no more.
    pub fn set_grant(&mut self, grant: Option<(u64, u64)>) {
        self.grant = grant;
    }

    /// Have the monitors found that nothing was made elsewhere of `[base, base + len)`?
    pub fn is_granted(&self, base: u64, len: u64) -> bool {
        self.grant.is_some_and(|(at, bytes)| at <= base && base + len <= at + bytes)
    }
}

impl Default for Asks {
    fn default() -> Self {
        Self::new()
    }
}

/// Locks that are looked at for the price of one step of destruction.
const LOCKS_PER_STEP: u32 = 16;

impl CapSpace {
    /// Notes what stands in the way.
    #[inline(never)]
    pub(crate) fn ask(&mut self, need: Need, slot: SlotRef) -> Pause {
        self.asks.ask = Some(Ask { need, slot, base: 0, bytes: 0 });
        Pause::Remote
    }

    /// The same of a retype of `bytes` from `base` on.
    #[inline(never)]
    pub(crate) fn ask_range(&mut self, slot: SlotRef, base: u64, bytes: u64) -> Pause {
        self.asks.ask = Some(Ask { need: Need::Retype, slot, base, bytes });
        Pause::Remote
    }

    /// May what `slot` holds be changed, or do the monitors work on it?
    #[inline]
    pub(crate) fn check_lock(&mut self, slot: SlotRef) -> Progress {
        if self.db.locks.is_empty() {
            return Ok(());
        }
        self.find_lock(slot)
    }

    #[cold]
    #[inline(never)]
    fn find_lock(&mut self, slot: SlotRef) -> Progress {
        if self.db.locks.holds(&slot.cap()) {
            return Err(self.ask(Need::Unlocked, slot));
        }
        Ok(())
    }

    /// The same of a delete: what the monitors delete on all cores may go.
    #[inline]
    pub fn check_delete(&mut self, slot: SlotRef) -> Progress {
        if self.db.locks.is_empty() {
            return Ok(());
        }
        self.find_keeping_lock(slot)
    }

    #[cold]
    #[inline(never)]
    fn find_keeping_lock(&mut self, slot: SlotRef) -> Progress {
        self.spend(self.db.locks.len() / LOCKS_PER_STEP);
        if self.db.locks.keeps(&slot.cap()) {
            return Err(self.ask(Need::Unlocked, slot));
        }
        Ok(())
    }

    /// May the last capability here to something that is owned here go, as far as other cores are
    /// concerned?
    #[inline(never)]
    pub fn check_relatives(&mut self, slot: SlotRef) -> Progress {
        match concerns_others(self, slot) {
            true => Err(self.ask(Need::Delete, slot)),
            false => Ok(()),
        }
    }

    /// Do other cores decide where the memory of the last capability `cap` goes? They do if nobody
    /// here would still have it but a home.
    pub fn needs_others(&self, cap: &RawCap, above: Option<&RawCap>) -> bool {
        cap.has_remote(attr::RELATIVES)
            && <super::CapPolicy as mdb::Policy>::tree(cap.ty) == MEMORY
            && above.is_none_or(|above| above.ty == super::HOME_RAM && cap.ty != super::HOME_RAM)
            && !self.db.locks.withholds(cap)
    }

    /// The container of this core around an address.
    pub fn container_at(&self, pa: u64) -> Option<RawCap> {
        let rank = CapType::L2CNode.rank();
        let cap = self.db.surrounding(MEMORY, pa, SLOT_BYTES, rank)?.cap();
        (is_container(cap.ty) && !cap.is_foreign()).then_some(cap)
    }

    /// The slot at an address that the monitor names.
    pub(crate) fn slot_at_pa(&self, pa: u64) -> Option<SlotRef> {
        if !pa.is_multiple_of(SLOT_BYTES) {
            return None;
        }
        let container = self.container_at(pa)?;
        let slots = slots_of(&container);
        let first = slots.get(0).pa();
        let index = pa.checked_sub(first)? / SLOT_BYTES;
        (index < u64::from(slots.len())).then(|| slot_at(first, index as u32))
    }

    /// Has nobody else a capability to what `slot` holds, on any core, and is nothing of it lent? (Of a Frame
    /// without `WRITE_ALONE` ask `Db::is_lent`, too.)
    #[inline(always)]
    pub(crate) fn is_exclusive(&self, slot: SlotRef) -> bool {
        let attrs = slot.cap().attrs;
        !self.db.has_copies(slot)
            && attrs & (attr::FOREIGN | attr::REMOTE_COPIES) == 0
            && (attrs & attr::LENT == 0 || !self.db.is_marked_lent(slot))
    }

    /// What [`Identity::relations`] says of other cores.
    pub(super) fn remote_relations(&self, cap: &RawCap) -> u64 {
        let of = |hint, bit| if cap.has_remote(hint) { bit } else { 0 };
        if super::mapping::is_mapping(cap) {
            return 0;
        }
        let foreign = if cap.is_foreign() { Identity::FOREIGN } else { 0 };
        foreign
            | of(attr::REMOTE_COPIES, Identity::REMOTE_COPIES)
            | of(attr::REMOTE_DESCENDANTS, Identity::REMOTE_DESCENDANTS)
            | of(attr::REMOTE_ANCESTORS, Identity::REMOTE_ANCESTORS)
    }
}

/// Do other cores decide what becomes of the last capability here to something that is owned here?
pub fn concerns_others(caps: &CapSpace, slot: SlotRef) -> bool {
    let cap = &slot.cap();
    if caps.db.locks.sweeps(cap) {
        return false;
    }
    let above = caps.db.ancestor_behind_siblings(slot).map(|above| above.cap());
    cap.has_remote(attr::REMOTE_COPIES) || caps.needs_others(cap, above.as_ref())
}

/// Does memory come home to this core when its last capability goes, with `above` its nearest ancestor?
#[inline]
pub fn comes_home(cap: &RawCap, above: Option<&RawCap>) -> bool {
    above.is_some_and(is_own_home) && cap.ty != super::HOME_RAM
}

/// Is this home RAM of which memory comes back to the server of this core? A mark of what it has ceded is not.
#[inline]
pub fn is_own_home(cap: &RawCap) -> bool {
    cap.ty == super::HOME_RAM && !cap.is_foreign()
}
