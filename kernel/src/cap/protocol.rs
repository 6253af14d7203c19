//! The steps that the monitors have this core do (`capproto::CpuDriver`).
//!
//! They name capabilities by value and slots by address. Each is one bounded event, or answers
//! `Again` and goes on when it is repeated.

use super::loans::pages_of;
use super::mapping::is_mapping;
use super::passed::begin_deletion_anew;
use super::policy::{CapPolicy, MEMORY};
use super::CapSpace;
use super::{attr, copied_attrs, CapExt, HOME_RAM};
use crate::object::SlotRef;
use captypes::invocations::Held;
use captypes::types::Wire;
use captypes::{CapType, RamAttrs, Rights, Status, WireCap};
use mdb::{is_ancestor, is_copy, Class, Policy, RawCap};

/// What is said of a capability, as this core would hold it.
///
/// # Errors
///
/// `Invalid` for what no slot can hold.
pub fn from_wire(wire: &WireCap) -> Result<RawCap, Status> {
    let ty = wire.check()?;
    Ok(RawCap {
        ty: ty as u8,
        rights: wire.rights & Rights::ALL.0,
        attrs: wire.attrs & attr::INHERITED,
        aux: ty.wire_aux(wire.aux),
        base: wire.base,
        word: wire.size,
    })
}

/// What other cores are told of a capability.
pub fn to_wire(cap: &RawCap) -> WireCap {
    let kind = cap.kind();
    WireCap {
        ty: kind as u8,
        rights: cap.rights,
        attrs: cap.ram_attrs().0,
        aux: kind.wire_aux(cap.aux),
        base: cap.base,
        size: cap.word,
    }
}

/// Do capabilities of this type keep their memory from coming home?
pub(crate) fn keeps_memory(ty: u8) -> bool {
    ty != HOME_RAM && ty != CapType::Mapping as u8
}

impl CapSpace {
    /// What a slot holds, and how it stands to other slots and cores.
    pub fn held(&self, slot: SlotRef) -> Result<Held, Status> {
        let cap = slot.cap();
        if cap.is_null() {
            return Err(Status::Empty);
        }
        if cap.row().wire() == Wire::Never || cap.attrs & attr::PARKED != 0 {
            return Err(Status::WrongType);
        }
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(!cap.is_foreign(), Held::OWNED)
            | flag(!self.db.has_copies(slot), Held::ALONE)
            | flag(cap.has_remote(attr::REMOTE_COPIES), Held::REMOTE_COPIES)
            | flag(cap.has_remote(attr::REMOTE_DESCENDANTS), Held::REMOTE_DESCENDANTS)
            | flag(cap.has_remote(attr::REMOTE_ANCESTORS), Held::REMOTE_ANCESTORS);
        let mut wire = to_wire(&cap);
        let is_called = cap.is(CapType::Endpoint) || cap.is(CapType::Dispatcher);
        if is_called && !cap.is_foreign() {
            // It stays here, and who uses it from another core must know where that is.
            wire.attrs = wire.attrs & !RamAttrs::NODE | u16::from(self.core.id.0);
        }
        Ok(Held { cap: wire, flags })
    }

    /// A slot with the capability, if it is no container that is being taken apart.
    pub fn find_whole(&self, cap: &RawCap) -> Option<SlotRef> {
        self.db.find(cap).filter(|slot| slot.cap().attrs & attr::PARKED == 0)
    }

    /// Changes the attributes of a capability in `slot` and of all its copies on this core.
    pub fn change_all(&mut self, slot: SlotRef, change: impl Fn(u16) -> u16) {
        let mut changed = 0;
        for copy in self.db.copies(slot).chain([slot]) {
            let cap = copy.cap();
            copy.set_rights(cap.rights, change(cap.attrs));
            changed += 1;
        }
        self.db.copied_elsewhere();
        self.spend(changed / 8);
    }

    /// Other cores may get relatives of the capability: sets the hints of its copies, ancestors and
    /// descendants.
    pub fn share(&mut self, cap: &RawCap) -> Result<(), Status> {
        if !cap.row().can_travel() {
            return Err(Status::WrongType);
        }
        let Some(slot) = self.find_whole(cap) else { return Ok(()) };
        let from = match self.asks.sharing.take() {
            Some((other, from)) if is_copy::<CapPolicy>(&other, cap) => from,
            _ => {
                if CapPolicy::tree(cap.ty) == MEMORY {
                    self.asks.away.add(cap.base, cap.base + cap.word);
                }
                self.share_upwards(slot);
                cap.base
            }
        };
        match self.share_downwards(cap, from) {
            Some(reached) => {
                self.asks.sharing = Some((*cap, reached));
                Err(Status::Again)
            }
            None => Ok(()),
        }
    }

    /// Copies and ancestors.
    fn share_upwards(&mut self, slot: SlotRef) {
        let table = slot.cap().is(CapType::Pt);
        let copied = if table { attr::WAS_COPIED } else { 0 };
        self.change_all(slot, |attrs| attrs | attr::COPIES_OR_DESCENDANTS | copied);
        let mut above = self.db.ancestor_behind_siblings(slot);
        while let Some(ancestor) = above {
            self.change_all(ancestor, |attrs| attrs | attr::REMOTE_DESCENDANTS);
            above = self.db.nearest_ancestor(ancestor);
        }
    }

    /// Descendants that begin at `from` or behind. `Some`: those that begin before that address have
    /// their hints, and the work of this event is used up.
    fn share_downwards(&mut self, cap: &RawCap, from: u64) -> Option<u64> {
        let end = cap.base + cap.word;
        // Parts are made without a question to anybody: another core may make the same.
        let is_morsel = cap.is(CapType::Morsel);
        let below = if is_morsel { attr::REMOTE } else { attr::REMOTE_ANCESTORS };
        let (mut at, mut next) = (from, self.first_below(cap, from));
        while let Some(slot) = next {
            let base = slot.cap().base;
            if base > at {
                if self.budget.left() == 0 {
                    return Some(base);
                }
                at = base;
            }
            self.spend(1);
            self.change_all(slot, |attrs| attrs | below);
            next = self.next_object(slot, end);
        }
        None
    }

    /// The first object or Loan made of `cap` that begins at `from` or behind.
    fn first_below(&self, cap: &RawCap, from: u64) -> Option<SlotRef> {
        let (tree, end) = (CapPolicy::tree(cap.ty), cap.base + cap.word);
        let all = self.db.overlapping(tree, from, end - from, self.db.keepers());
        all.filter(|slot| slot.cap().base >= from && !is_mapping(&slot.cap()))
            .find(|slot| is_ancestor::<CapPolicy>(cap, &slot.cap()))
    }

    fn next_object(&self, slot: SlotRef, end: u64) -> Option<SlotRef> {
        let mut next = self.db.next_before(slot, end);
        while let Some(mapping) = next.filter(|slot| is_mapping(&slot.cap())) {
            next = self.db.next_before(mapping, end);
        }
        next
    }

    /// Makes the copies here foreign.
    pub fn disown(&mut self, cap: &RawCap) {
        if let Some(slot) = self.find_whole(cap) {
            self.change_all(slot, |attrs| attrs | attr::FOREIGN);
        }
    }

    /// Makes the copies here owned, with all hints. Are there any?
    pub fn own(&mut self, cap: &RawCap) -> bool {
        let Some(slot) = self.find_whole(cap) else { return false };
        self.change_all(slot, |attrs| attrs & !attr::FOREIGN | attr::REMOTE);
        true
    }

    /// Is there a copy here?
    pub fn has_copy(&self, cap: &RawCap) -> bool {
        self.find_whole(cap).is_some()
    }

    /// Puts a copy that came from another core into the empty slot `dst`.
    pub fn insert_remote(&mut self, cap: &RawCap, dst: SlotRef) -> Result<(), Status> {
        if !cap.row().can_travel() {
            return Err(Status::WrongType);
        }
        let Some(like) = self.db.find(cap) else {
            self.db.insert(dst, RawCap { attrs: cap.attrs | attr::FOREIGN, ..*cap });
            return Ok(());
        };
        let own = like.cap();
        if own.attrs & attr::PARKED != 0 {
            return Err(Status::WrongState);
        }
        begin_deletion_anew(&self.db, like);
        self.db.insert_copy(like, dst, RawCap { attrs: copied_attrs(own.attrs), ..*cap });
        Ok(())
    }

    /// Does anything made of the capability overlap `[base, base + len)`, so that it cannot be made
    /// to something else?
    pub fn in_use(&self, cap: &RawCap, base: u64, len: u64) -> bool {
        let class = if cap.is_frame() { Class::Objects } else { Class::All };
        self.db
            .overlapping(CapPolicy::tree(cap.ty), base, len, class)
            .any(|slot| is_ancestor::<CapPolicy>(cap, &slot.cap()))
    }

    /// Locks the capability and what descends from it.
    pub fn lock(&mut self, cap: &RawCap) -> Result<(), Status> {
        if self.db.locks.insert(*cap) {
            Ok(())
        } else {
            Err(Status::NoMemory)
        }
    }

    /// Unlocks it.
    pub fn unlock(&mut self, cap: &RawCap) {
        self.db.locks.remove(cap);
    }

    /// The first part of `[base, base + len)` of memory that a capability covers which is no home.
    pub fn first_cover(&self, base: u64, len: u64) -> Option<(u64, u64)> {
        let end = base.checked_add(len)?;
        let mut covers = self.db.overlapping(MEMORY, base, len, self.db.keepers());
        let first = covers.find(|slot| keeps_memory(slot.ty()))?.cap();
        let (start, past) = pages_of(&first);
        let (start, past) = (start.max(base), past.min(end));
        Some((start, past - start))
    }
}
