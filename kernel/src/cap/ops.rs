//! Copy, mint, move, identify.

use super::mem::SlotRun;
use super::policy::SCALE;
use super::{attr, CapExt, SlotRef};
use crate::dispatch::Local;
use captypes::invocations::{Count, Identity};
use captypes::{CapType, Rights, Status};
use mdb::RawCap;

/// What a copy of `cap` holds; `None` for what cannot be copied.
#[inline]
fn copied(cap: RawCap) -> Option<RawCap> {
    if cap.ty == CapType::Mapping as u8 || cap.is_null() {
        return None;
    }
    Some(RawCap { attrs: cap.attrs & attr::COPIED, ..cap })
}

impl Local {
    /// Makes another capability to the same object, in the empty slot `dst`.
    pub fn copy(&mut self, src: SlotRef, dst: SlotRef) -> Result<(), Status> {
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
        let mut cap = copied(src.cap()).ok_or(Status::WrongType)?;
        cap.rights = cap.rights_set().and(rights).0;
        if badge != 0 {
            match cap.kind() {
                CapType::Endpoint if cap.aux == 0 => cap.aux = badge,
                CapType::Endpoint => return Err(Status::WrongState),
                _ => return Err(Status::WrongType),
            }
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
        let wanted = |ty: u8| {
            ty != 0 && ty != CapType::Mapping as u8 && (only as u8 == 0 || only as u8 == ty)
        };
        let taken = |n: u32| wanted(src.get(n).cap().ty) && !dst.get(n).is_empty();
        if (0..src.len()).any(taken) {
            return Err(Status::Occupied);
        }
        let mut count = 0;
        for n in 0..src.len() {
            let (from, to) = (src.get(n), dst.get(n));
            let cap = from.cap();
            // Overlapping runs: what was empty a moment ago may be in use by now.
            if wanted(cap.ty) && to.is_empty() {
                self.db.insert_copy(from, to, RawCap { attrs: cap.attrs & attr::COPIED, ..cap });
                count += 1;
            }
        }
        Ok(Count { count })
    }

    /// What the capability is.
    pub fn identify(&self, slot: SlotRef) -> Identity {
        let cap = slot.cap();
        let (mut base, mut bytes) = <super::CapPolicy as mdb::Policy>::range(&cap);
        if matches!(cap.kind(), CapType::Io | CapType::Irq | CapType::Id) {
            (base, bytes) = (base >> SCALE, bytes >> SCALE);
        }
        let mut relations = 0;
        if self.db.has_copies(slot) {
            relations |= Identity::COPIES;
        }
        if self.db.first_descendant(slot).is_some() {
            relations |= Identity::DESCENDANTS;
        }
        if cap.is(CapType::Endpoint) {
            relations |= u64::from(cap.aux) << 32;
        }
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
