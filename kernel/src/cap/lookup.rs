//! From a [`Place`] to a slot. Every number in it is user input.

use super::mem::{slot_at, SlotRun};
use super::{CapExt, SlotRef};
use crate::dispatch::DcbRef;
use captypes::place::L2_SLOTS;
use captypes::{CapAddr, CapType, Level, Place, Status};
use mdb::Slot;

/// Slots of the root CNode `bytes` long.
pub const fn root_slots(bytes: u64) -> u32 {
    (bytes / size_of::<Slot>() as u64) as u32
}

/// A CNode and the slot of it at which a place ends.
struct Spot {
    base: u64,
    index: u32,
    slots: u32,
}

/// The L2CNode at index `l1` of the root at `base` with `slots` slots.
#[inline]
fn l2_base(base: u64, slots: u32, l1: u32) -> Result<u64, Status> {
    if l1 >= slots {
        return Err(Status::NoSlot);
    }
    let cap = slot_at(base, l1).cap();
    if cap.is(CapType::L2CNode) && !cap.is_foreign() {
        Ok(cap.base)
    } else {
        Err(Status::NoSlot)
    }
}

/// A slot of the caller's own CSpace.
#[inline]
pub fn own_slot(dcb: DcbRef, addr: CapAddr) -> Result<SlotRef, Status> {
    if addr.is_null() {
        return Err(Status::NoSlot);
    }
    let base = l2_base(dcb.cspace_base.get(), dcb.cspace_slots.get(), addr.l1())?;
    Ok(slot_at(base, addr.l2()))
}

fn spot(dcb: DcbRef, place: Place) -> Result<Spot, Status> {
    let addr = place.addr();
    let (base, slots) = if place.root().is_null() {
        (dcb.cspace_base.get(), dcb.cspace_slots.get())
    } else {
        let root = own_slot(dcb, place.root())?.cap();
        if !root.is(CapType::L1CNode) {
            return Err(Status::WrongType);
        }
        if root.is_foreign() {
            return Err(Status::NoSlot);
        }
        (root.base, root_slots(root.word))
    };
    match place.level() {
        Level::L1 if addr.0 < slots => Ok(Spot { base, index: addr.0, slots }),
        Level::L2 if !addr.is_null() => {
            Ok(Spot { base: l2_base(base, slots, addr.l1())?, index: addr.l2(), slots: L2_SLOTS })
        }
        _ => Err(Status::NoSlot),
    }
}

/// The slot at `place`.
#[inline]
pub fn slot(dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    if place.0 >> 32 == 0 {
        return own_slot(dcb, place.addr());
    }
    let spot = spot(dcb, place)?;
    Ok(slot_at(spot.base, spot.index))
}

/// The slot at `place`, which must be in use.
#[inline]
pub fn used_slot(dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    let slot = slot(dcb, place)?;
    if slot.is_empty() {
        return Err(Status::Empty);
    }
    Ok(slot)
}

/// The slot at `place`, which must be empty.
#[inline]
pub fn free_slot(dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    let slot = slot(dcb, place)?;
    if !slot.is_empty() {
        return Err(Status::Occupied);
    }
    Ok(slot)
}

/// Most slots in one operation: interrupts wait for it. Only roots have more at all.
const MOST_SLOTS: u32 = L2_SLOTS;

/// `count` adjacent slots of one CNode, from `place` on.
pub fn slots(dcb: DcbRef, place: Place, count: u32) -> Result<SlotRun, Status> {
    let spot = spot(dcb, place)?;
    if count > spot.slots - spot.index {
        return Err(Status::NoSlot);
    }
    if count > MOST_SLOTS {
        return Err(Status::OutOfRange);
    }
    Ok(SlotRun::new(spot.base, spot.index, count))
}
