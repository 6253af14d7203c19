//! Copy, mint, move, compare, identify, and fresh Ids.

use super::db::Db;
use super::policy::{CapPolicy, SCALE};
use super::CapSpace;
use super::{attr, copied_attrs, made_attrs, CapExt};
use crate::object::{SlotRef, SlotRun};
use captypes::invocations::{Count, Holder, Identity};
use captypes::place::SLOT_BYTES;
use captypes::{CapType, Rights, Status, TypeSet};
use mdb::RawCap;

/// Can a capability of this type be copied?
#[inline]
pub fn is_copyable(ty: u8) -> bool {
    TypeSet::COPYABLE.has_number(ty)
}

/// What a copy of `cap` holds; `None` for what cannot be copied.
#[inline]
fn copied(cap: RawCap) -> Option<RawCap> {
    if !is_copyable(cap.ty) {
        return None;
    }
    Some(RawCap { attrs: copied_attrs(cap.attrs), ..cap })
}

/// In whose slot the capability in `slot` is, or a copy of it, counted from 1.
pub fn holder(db: &Db, slot: SlotRef, copy: u32) -> Option<Holder> {
    let held = match copy.checked_sub(1) {
        None => slot,
        Some(before) => db.copies(slot).nth(before as usize)?,
    };
    let container = db.container_around(held.pa(), SLOT_BYTES);
    let container = container.map_or(0, |found| found.cap().base);
    let cap = held.cap();
    Some(Holder { ty: cap.kind(), base: <CapPolicy as mdb::Policy>::range(&cap).0, container })
}

impl CapSpace {
    /// Makes another capability to the same object, in the empty slot `dst`.
    pub fn copy(&mut self, src: SlotRef, dst: SlotRef) -> Result<(), Status> {
        self.check_lock(src)?;
        self.copy_unlocked(src, dst)
    }

    /// The same of what may be locked: messages are delivered whatever the monitors do. A lock
    /// keeps the set of relatives together, and one copy more on this core changes nothing of it.
    pub(crate) fn copy_unlocked(&mut self, src: SlotRef, dst: SlotRef) -> Result<(), Status> {
        let cap = copied(src.cap()).ok_or(Status::WrongType)?;
        self.db.insert_copy(src, dst, cap);
        Ok(())
    }

    /// Copies with fewer rights, and with a badge if it is an Endpoint without.
    pub fn mint(
        &mut self,
        src: SlotRef,
        dst: SlotRef,
        rights: Rights,
        badge: u32,
    ) -> Result<(), Status> {
        self.check_lock(src)?;
        let mut cap = copied(src.cap()).ok_or(Status::WrongType)?;
        cap.rights = cap.rights_set().and(rights).0;
        if badge != 0 {
            match cap.kind() {
                // Its core alone knows which badges there are.
                CapType::Endpoint if cap.is_foreign() => return Err(Status::Unsupported),
                CapType::Endpoint if cap.aux == 0 => cap.aux = badge,
                CapType::Endpoint => return Err(Status::WrongState),
                _ => return Err(Status::WrongType),
            }
            // Descends from the one without, and is a copy of those with the same badge.
            cap.attrs = made_attrs(src.cap().attrs);
            self.db.insert_near(dst, cap, src);
            return Ok(());
        }
        self.db.insert_copy(src, dst, cap);
        Ok(())
    }

    /// Moves the capability to the empty slot `dst`.
    pub fn move_cap(&mut self, src: SlotRef, dst: SlotRef) {
        self.db.relocate(src, dst);
    }

    /// Copies what `src` holds to the same places in `dst`; see [`captypes::op::CopyRange`].
    pub fn copy_range(
        &mut self,
        src: SlotRun,
        dst: SlotRun,
        only: CapType,
    ) -> Result<Count, Status> {
        let types = match only {
            CapType::Null => TypeSet::COPYABLE,
            only => TypeSet::COPYABLE.and(TypeSet::seen_as(only)),
        };
        let wanted = |ty: u8| types.has_number(ty);
        let pairs = || src.iter().zip(dst.iter());
        if pairs().any(|(from, to)| wanted(from.ty()) && !to.is_empty()) {
            return Err(Status::Occupied);
        }
        let mut count = 0;
        for (from, to) in pairs() {
            let cap = from.cap();
            // Overlapping runs: what was empty a moment ago may be in use by now.
            if wanted(cap.ty) && to.is_empty() {
                self.db.insert_copy(from, to, RawCap { attrs: copied_attrs(cap.attrs), ..cap });
                count += 1;
            }
        }
        Ok(Count { count })
    }

    /// Do two slots hold capabilities to the same object?
    pub fn compare(&self, a: SlotRef, b: SlotRef) -> bool {
        mdb::is_copy::<super::CapPolicy>(&a.cap(), &b.cap())
    }

    /// Makes a capability to a number that was never given, of the range of the Id in `source`.
    pub fn new_id(&mut self, source: SlotRef, dst: SlotRef) -> Result<u64, Status> {
        let cap = source.cap();
        if !cap.is(CapType::Id) {
            return Err(Status::WrongType);
        }
        let number = self.next_id;
        let range = cap.base >> SCALE..(cap.base + cap.word) >> SCALE;
        if range.end - range.start < 2 {
            return Err(Status::WrongState);
        }
        if !range.contains(&number) {
            return Err(Status::OutOfRange);
        }
        self.next_id += 1;
        let one = RawCap {
            base: number << SCALE,
            word: 1 << SCALE,
            attrs: cap.attrs & attr::INHERITED,
            rights: Rights::ALL.0,
            ..cap
        };
        self.db.insert_near(dst, one, source);
        Ok(number)
    }

    /// What the capability is.
    pub fn identify(&self, slot: SlotRef) -> Identity {
        let cap = slot.cap();
        let (mut base, mut bytes) = <CapPolicy as mdb::Policy>::range(&cap);
        if TypeSet::NUMBERS.const_has_number(cap.ty) {
            (base, bytes) = (base >> SCALE, bytes >> SCALE);
        }
        let mut relations = self.remote_relations(&cap);
        if self.db.has_copies(slot) {
            relations |= Identity::COPIES;
        }
        let badge = if cap.is(CapType::Endpoint) { cap.aux } else { 0 };
        // Nothing is made of what has a badge, and many may stand beside it.
        if badge == 0 && self.db.first_descendant(slot).is_some() {
            relations |= Identity::DESCENDANTS;
        }
        relations |= u64::from(badge) << 32;
        Identity {
            ty: cap.kind(),
            rights: cap.rights_set(),
            attrs: cap.ram_attrs(),
            base,
            bytes,
            relations,
        }
    }
}
