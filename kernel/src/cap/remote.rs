//! What this core alone cannot do, and asks its monitor for (G18 §4.2, §4.6).
//!
//! Every capability has an owner core and hints, which say what relatives other cores may have; see
//! [`attr`]. The operations of this core look at them where they would otherwise do something that
//! concerns others, and stop with [`Pause::Remote`] after noting what stands in the way. The invoker
//! then waits as if it had called the monitor's endpoint, and the monitor gets the [`Ask`]. When it
//! has run the protocol it lets the kernel go on with the invocation, whose registers are as they
//! were.

use super::db::is_container;
use super::delete::{comes_home, Pause, Progress};
use super::{attr, copied_attrs, CapExt, MEMORY};
use crate::driver::Local;
use crate::object::{slot_at, Dcb, DcbRef, Endpoint, Obj, SlotRef, SlotRun};
use captypes::invocations::{Identity, Need};
use captypes::place::{L2_SLOTS, SLOT_BYTES};
use captypes::{CapType, Rights};
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

/// Who is asked.
#[derive(Clone, Copy)]
pub struct MonitorRef {
    pub endpoint: Obj<Endpoint>,
    /// Notification bits: something was left for the monitor to delete.
    pub bits: u64,
    /// Address of the L2CNode where it is left.
    pub left: u64,
}

/// Words of a set of slots of an L2CNode.
const SET: usize = L2_SLOTS as usize / 64;

/// All that [`Local`] keeps for this.
pub struct Remote {
    pub(crate) monitor: Option<MonitorRef>,
    /// What stopped the invocation that is being performed.
    pub(crate) ask: Option<Ask>,
    /// The range of which the monitors have found that nothing was made elsewhere.
    pub(crate) grant: Option<(u64, u64)>,
    /// Number of the last invocation that was handed on.
    pub(crate) ticket: u64,
    /// Whose invocation the monitor has performed; `None` once it is taken apart.
    pub(crate) client: Option<DcbRef>,
    /// Slots of the monitor in which something was left that it does not know of yet.
    news: [u64; SET],
    /// How far the hints of descendants are set: capability, and the address up to which.
    pub(super) sharing: Option<(RawCap, u64)>,
}

impl Remote {
    /// Nobody is asked.
    pub const fn new() -> Remote {
        Remote {
            monitor: None,
            ask: None,
            grant: None,
            ticket: 0,
            client: None,
            news: [0; SET],
            sharing: None,
        }
    }
}

impl Default for Remote {
    fn default() -> Self {
        Self::new()
    }
}

/// Locks that are looked at for the price of one step of destruction.
const LOCKS_PER_STEP: u32 = 16;

impl Local {
    /// Notes what stands in the way.
    #[inline(never)]
    pub(crate) fn ask(&mut self, need: Need, slot: SlotRef) -> Pause {
        self.remote.ask = Some(Ask { need, slot, base: 0, bytes: 0 });
        Pause::Remote
    }

    /// The same of a retype of `bytes` from `base` on.
    #[inline(never)]
    pub(super) fn ask_range(&mut self, slot: SlotRef, base: u64, bytes: u64) -> Pause {
        self.remote.ask = Some(Ask { need: Need::Retype, slot, base, bytes });
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
    pub(super) fn check_delete(&mut self, slot: SlotRef) -> Progress {
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
    pub(super) fn check_relatives(&mut self, slot: SlotRef) -> Progress {
        let cap = &slot.cap();
        if self.db.locks.sweeps(cap) {
            return Ok(());
        }
        let above = self.db.ancestor_behind_siblings(slot).map(|above| above.cap());
        if cap.has_remote(attr::REMOTE_COPIES) || self.needs_others(cap, above.as_ref()) {
            return Err(self.ask(Need::Delete, slot));
        }
        Ok(())
    }

    /// Do other cores decide where the memory of the last capability `cap` goes? They do if nobody
    /// here would still have it but a home.
    pub(super) fn needs_others(&self, cap: &RawCap, above: Option<&RawCap>) -> bool {
        cap.has_remote(attr::RELATIVES)
            && <super::CapPolicy as mdb::Policy>::tree(cap.ty) == MEMORY
            && (above.is_none() || comes_home(cap, above))
            && !self.db.locks.withholds(cap)
    }

    /// Takes what `slot`, in a container that is being emptied, holds, and leaves it to the monitor.
    #[inline(never)]
    pub(super) fn leave_slot(&mut self, slot: SlotRef) -> Progress {
        let (index, free) = self.free_left()?;
        let cap = slot.cap();
        self.db.relocate(slot, free);
        if self.watched == Some(slot) {
            self.watched = Some(free);
        }
        if cap.attrs & attr::IN_DISPATCHER != 0 {
            free.set_rights(cap.rights, copied_attrs(cap.attrs));
            self.sched.refresh_dispatcher(Obj::around(slot));
        }
        self.tell_monitor(index);
        Ok(())
    }

    /// The same with the memory of an emptied container, as RAM.
    #[inline(never)]
    pub(super) fn leave_memory(&mut self, container: &RawCap) -> Progress {
        let (index, free) = self.free_left()?;
        let ram = RawCap {
            ty: CapType::Ram as u8,
            rights: Rights::ALL.0,
            attrs: copied_attrs(container.attrs),
            aux: 0,
            ..*container
        };
        self.db.insert(free, ram);
        self.tell_monitor(index);
        Ok(())
    }

    /// A free slot of the monitor; without one, somebody must wait until there is.
    fn free_left(&mut self) -> Result<(u32, SlotRef), Pause> {
        let slots = self.left_slots().ok_or(Pause::Again)?;
        let free = slots.iter().zip(0..).find(|(slot, _)| slot.is_empty());
        free.map(|(slot, index)| (index, slot)).ok_or(Pause::Again)
    }

    /// The slots of the monitor, as long as it has them.
    fn left_slots(&self) -> Option<SlotRun> {
        let base = self.remote.monitor?.left;
        let holder = self.container_at(base)?;
        let whole = holder.is(CapType::L2CNode) && holder.attrs & attr::PARKED == 0;
        (whole && holder.base == base).then(|| SlotRun::new(base, 0, L2_SLOTS))
    }

    /// The container of this core around an address.
    fn container_at(&self, pa: u64) -> Option<RawCap> {
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
        let slots = match container.kind() {
            CapType::Dispatcher => Dcb::slots(container.base),
            _ => SlotRun::new(container.base, 0, (container.word / SLOT_BYTES) as u32),
        };
        let first = slots.get(0).pa();
        let index = pa.checked_sub(first)? / SLOT_BYTES;
        (index < u64::from(slots.len())).then(|| slot_at(first, index as u32))
    }

    /// The monitor has something to do that nobody waits for: a slot to delete.
    fn tell_monitor(&mut self, index: u32) {
        self.remote.news[index as usize / 64] |= 1 << (index % 64);
        if let Some(monitor) = self.remote.monitor {
            self.notify_monitor(monitor.bits);
        }
    }

    /// Notifies the monitor, if there is one.
    pub(crate) fn notify_monitor(&mut self, bits: u64) {
        let server = self.remote.monitor.and_then(|monitor| monitor.endpoint.server.get());
        if let Some(server) = server {
            self.sched.notify(server, bits);
        }
    }

    /// The next slot in which something was left for the monitor, if it does not know of it.
    pub(crate) fn next_left(&mut self) -> Option<SlotRef> {
        let slots = self.left_slots()?;
        for (n, word) in self.remote.news.iter_mut().enumerate() {
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(slots.get(n as u32 * 64 + bit));
            }
        }
        None
    }

    /// Removes the last capability here to what another core owns. The object stays, but what is
    /// mapped here by it is unmapped.
    #[inline(never)]
    pub(super) fn drop_foreign(&mut self, slot: SlotRef) -> Progress {
        let cap = &slot.cap();
        if cap.is(CapType::Irq) {
            self.irqs.unbind(crate::dispatch::lines(cap));
        }
        if cap.is_frame() {
            let above = self.db.nearest_ancestor(slot).map(|above| above.cap());
            self.unmap_uncovered(slot, cap, above.as_ref())?;
        }
        self.drop_slot(slot);
        Ok(())
    }

    /// Has nobody else a capability to what `slot` holds, on any core?
    #[inline(always)]
    pub(crate) fn is_exclusive(&self, slot: SlotRef) -> bool {
        !self.db.has_copies(slot) && slot.cap().attrs & (attr::FOREIGN | attr::REMOTE_COPIES) == 0
    }

    /// What [`Identity::relations`] says of other cores.
    pub(super) fn remote_relations(&self, cap: &RawCap) -> u64 {
        let of = |hint, bit| if cap.has_remote(hint) { bit } else { 0 };
        if cap.is(CapType::Mapping) {
            return 0;
        }
        let foreign = if cap.is_foreign() { Identity::FOREIGN } else { 0 };
        foreign
            | of(attr::REMOTE_COPIES, Identity::REMOTE_COPIES)
            | of(attr::REMOTE_DESCENDANTS, Identity::REMOTE_DESCENDANTS)
            | of(attr::REMOTE_ANCESTORS, Identity::REMOTE_ANCESTORS)
    }
}
