//! What this core alone cannot do, and asks its monitor for (G18 §4.2, §4.6).
//!
//! Every capability has an owner core and hints, which say what relatives other cores may have; see
//! [`attr`]. The operations of this core look at them where they would otherwise do something that
//! concerns others, and stop with [`Pause::Remote`] after noting what stands in the way. The invoker
//! then waits as if it had called the monitor's endpoint, and the monitor gets the [`Ask`]. When it
//! has run the protocol it lets the kernel go on with the invocation, whose registers are as they
//! were.

use super::delete::{comes_home, Pause, Progress};
use super::{attr, CapExt, SlotRef, MEMORY};
use crate::cap::Obj;
use crate::dispatch::Local;
use crate::ipc::Endpoint;
use captypes::invocations::{Identity, Need};
use captypes::CapType;
use mdb::{Class, RawCap};

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
    /// Notification bits: a container stalls.
    pub bits: u64,
}

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
    pub(crate) client: Option<crate::dispatch::DcbRef>,
}

impl Remote {
    /// Nobody is asked.
    pub const fn new() -> Remote {
        Remote { monitor: None, ask: None, grant: None, ticket: 0, client: None }
    }
}

impl Default for Remote {
    fn default() -> Self {
        Self::new()
    }
}

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
    pub(crate) fn check_lock(&mut self, need: Need, slot: SlotRef) -> Progress {
        if self.db.locks.is_empty() || !self.db.locks.holds(&slot.cap()) {
            return Ok(());
        }
        Err(self.ask(need, slot))
    }

    /// May the last capability here to something that is owned here go, as far as other cores are
    /// concerned?
    #[inline(never)]
    pub(super) fn check_relatives(&mut self, slot: SlotRef, cap: &RawCap) -> Progress {
        let above = || self.db.nearest_ancestor(slot).map(|above| above.cap());
        if cap.has_remote(attr::COPIES_OR_DESCENDANTS) || comes_home_or_nowhere(cap, above()) {
            return Err(self.ask(Need::Delete, slot));
        }
        Ok(())
    }

    /// Does deleting what `slot` holds need others?
    pub(super) fn is_remote(&self, slot: SlotRef) -> bool {
        let cap = slot.cap();
        if cap.is(CapType::Mapping) || cap.is_null() {
            return false;
        }
        if self.db.locks.holds(&cap) {
            return true;
        }
        if cap.is_foreign() || self.db.has_copies(slot) {
            return false;
        }
        let above = || self.db.nearest_ancestor(slot).map(|above| above.cap());
        cap.has_remote(attr::COPIES_OR_DESCENDANTS)
            || cap.has_remote(attr::REMOTE_ANCESTORS) && comes_home_or_nowhere(&cap, above())
    }

    /// Removes the last capability here to what another core owns. The object stays, but what is
    /// mapped here by it is unmapped.
    pub(super) fn drop_foreign(&mut self, slot: SlotRef, cap: &RawCap) -> Progress {
        if cap.is_frame() {
            let above = self.db.nearest_ancestor(slot).map(|above| above.cap());
            self.unmap_uncovered(slot, cap, above.as_ref())?;
        }
        self.drop_slot(slot);
        Ok(())
    }

    /// Has nobody else a capability to what `slot` holds, on any core?
    #[inline]
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

    /// The monitor has something to do that nobody waits for.
    pub(super) fn tell_monitor(&mut self) {
        if let Some(monitor) = self.remote.monitor {
            if let Some(server) = Local::receiver_of(monitor.endpoint) {
                self.notify(server, monitor.bits);
            }
        }
    }
}

/// Is there nobody on this core who would still have the memory of the last capability `cap`, but
/// for a home? Then other cores decide where it goes.
fn comes_home_or_nowhere(cap: &RawCap, above: Option<RawCap>) -> bool {
    <super::CapPolicy as mdb::Policy>::tree(cap.ty) == MEMORY
        && (above.is_none() || comes_home(cap, above.as_ref()))
}
