//! From a [`Place`] to a slot. Every number in it is user input.

use super::alone::Held;
use super::mapping::is_mapping;
use super::CapSpace;
use super::{attr, CapExt};
use crate::object::{slot_at, Dcb, DcbRef, SlotRef, SlotRun};
use captypes::place::L2_SLOTS;
use captypes::types::Finaliser;
use captypes::{CapAddr, CapType, Level, Place, Rights, Status};
use mdb::{RawCap, Slot};

/// Slots of the root CNode `bytes` long.
pub const fn root_slots(bytes: u64) -> u32 {
    (bytes / size_of::<Slot>() as u64) as u32
}

/// The slots of a container; none of anything else.
pub(super) fn slots_of(container: &RawCap) -> SlotRun {
    match container.row().finaliser() {
        Finaliser::StopDispatcher => Dcb::slots(container.base),
        Finaliser::EmptyCNode => SlotRun::new(container.base, 0, root_slots(container.word)),
        Finaliser::Forget
        | Finaliser::Unmap
        | Finaliser::TearDown
        | Finaliser::ClearEntries
        | Finaliser::Close
        | Finaliser::Unbind
        | Finaliser::ClosePool
        | Finaliser::LeavePool
        | Finaliser::UnmapMorsel
        | Finaliser::CloseDeviceSpace
        | Finaliser::Return => SlotRun::new(container.base, 0, 0),
    }
}

/// A capability to an L2CNode, and that of another core, as [`Slot::head`] shows them.
const L2: u32 = CapType::L2CNode as u32;
const FOREIGN: u32 = (attr::FOREIGN as u32) << 16;

/// A CNode and the slot of it at which a place ends.
struct Spot {
    base: u64,
    index: u32,
    slots: u32,
    /// The capability to the CNode, if it is an L2CNode.
    holder: Option<SlotRef>,
}

/// The capability to the L2CNode at index `l1` of the root at `base` with `slots` slots.
#[inline(always)]
fn l2_holder(base: u64, slots: u32, l1: u32) -> Result<SlotRef, Status> {
    if l1 >= slots {
        return Err(Status::NoSlot);
    }
    let holder = slot_at(base, l1);
    if holder.head() & (0xff | FOREIGN) == L2 {
        Ok(holder)
    } else {
        Err(Status::NoSlot)
    }
}

/// The capability to the L2CNode of the caller's own CSpace in which `addr` is.
#[inline(always)]
fn own_holder(dcb: DcbRef, addr: CapAddr) -> Result<SlotRef, Status> {
    if addr.is_null() {
        return Err(Status::NoSlot);
    }
    l2_holder(dcb.cspace_base.get(), dcb.cspace_slots.get(), addr.l1())
}

/// A slot of the caller's own CSpace.
#[inline]
pub fn own_slot(dcb: DcbRef, addr: CapAddr) -> Result<SlotRef, Status> {
    Ok(slot_at(own_holder(dcb, addr)?.cap().base, addr.l2()))
}

#[inline(always)]
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
        Level::L1 if addr.0 < slots => Ok(Spot { base, index: addr.0, slots, holder: None }),
        Level::L2 if !addr.is_null() => {
            let holder = l2_holder(base, slots, addr.l1())?;
            let (base, index) = (holder.cap().base, addr.l2());
            Ok(Spot { base, index, slots: L2_SLOTS, holder: Some(holder) })
        }
        _ => Err(Status::NoSlot),
    }
}

/// The same, to change the slot: the capability to its L2CNode must allow that.
#[inline(always)]
fn spot_to_change(caps: &CapSpace, dcb: DcbRef, place: Place) -> Result<Spot, Status> {
    let spot = spot(dcb, place)?;
    match spot.holder {
        Some(holder) if !caps.may_change_slots(holder) => Err(why_not(holder)),
        _ => Ok(spot),
    }
}

#[inline(never)]
fn far_slot(dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    let spot = spot(dcb, place)?;
    Ok(slot_at(spot.base, spot.index))
}

#[inline(never)]
fn far_slot_to_change(caps: &CapSpace, dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    let spot = spot_to_change(caps, dcb, place)?;
    Ok(slot_at(spot.base, spot.index))
}

/// The base of the L2CNode of the caller's own CSpace in which `addr` is, if its slots may change.
#[inline(always)]
fn own_base_to_change(caps: &CapSpace, dcb: DcbRef, addr: CapAddr) -> Result<u64, Status> {
    let (base, slots) = (dcb.cspace_base.get(), dcb.cspace_slots.get());
    if addr.is_null() || addr.l1() >= slots {
        return Err(Status::NoSlot);
    }
    let holder = slot_at(base, addr.l1());
    let head = holder.head();
    // Both kinds of usable CNodes by a look at one word each.
    const COPIED: u32 = (attr::REMOTE_COPIES as u32) << 16;
    const WRITE: u32 = (Rights::WRITE.0 as u32) << 8;
    const ALONE: u32 = (Rights::WRITE_ALONE.0 as u32) << 8;
    if head & (0xff | WRITE | FOREIGN) == L2 | WRITE {
        return Ok(holder.cap().base);
    }
    if head & (0xff | WRITE | ALONE | FOREIGN | COPIED) == L2 | ALONE && !caps.db.has_copies(holder)
    {
        return Ok(holder.cap().base);
    }
    Err(why_not(holder))
}

/// Why the slots of what should be an L2CNode may not change.
#[cold]
#[inline(never)]
fn why_not(holder: SlotRef) -> Status {
    let cap = holder.cap();
    match cap.is(CapType::L2CNode) && !cap.is_foreign() {
        false => Status::NoSlot,
        true if cap.rights_set().has(Rights::WRITE_ALONE) => Status::Shared,
        true => Status::NoRights,
    }
}

/// The slot at `place`.
#[inline]
pub fn slot(dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    if place.0 >> 32 == 0 {
        return own_slot(dcb, place.addr());
    }
    far_slot(dcb, place)
}

/// The slot at `place`, to change what it holds.
#[inline(always)]
pub fn slot_to_change(caps: &CapSpace, dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    if place.0 >> 32 != 0 {
        return far_slot_to_change(caps, dcb, place);
    }
    Ok(slot_at(own_base_to_change(caps, dcb, place.addr())?, place.addr().l2()))
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

/// The slot at `place`, which must be in use, and the capability to its L2CNode: what is in it is to be
/// written to by somebody.
#[inline(always)]
pub fn held_slot(dcb: DcbRef, place: Place) -> Result<Held, Status> {
    let held = if place.0 >> 32 == 0 {
        let holder = own_holder(dcb, place.addr())?;
        Held { slot: slot_at(holder.cap().base, place.addr().l2()), holder: Some(holder) }
    } else {
        far_held_slot(dcb, place)?
    };
    if held.slot.is_empty() {
        return Err(Status::Empty);
    }
    Ok(held)
}

#[inline(never)]
fn far_held_slot(dcb: DcbRef, place: Place) -> Result<Held, Status> {
    let spot = spot(dcb, place)?;
    Ok(Held { slot: slot_at(spot.base, spot.index), holder: spot.holder })
}

/// The slot at `place`, which must be in use, to change it, or the entries for which the Mapping in
/// it stands.
#[inline(always)]
pub fn mapping_to_change(caps: &CapSpace, dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    let slot = slot_to_change(caps, dcb, place)?;
    if slot.is_empty() {
        return Err(Status::Empty);
    }
    if is_mapping(&slot.cap()) {
        caps.check_entries(&slot.cap())?;
    }
    Ok(slot)
}

/// The slot at `place`, which must be empty, to fill it.
#[inline(always)]
pub fn free_slot(caps: &CapSpace, dcb: DcbRef, place: Place) -> Result<SlotRef, Status> {
    let slot = slot_to_change(caps, dcb, place)?;
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
    run(spot.base, spot.index, spot.slots, count)
}

/// As many of the slots from `place` on as one CNode has, and one operation may look at.
pub fn slots_from(dcb: DcbRef, place: Place) -> Result<SlotRun, Status> {
    let spot = spot(dcb, place)?;
    let count = (spot.slots - spot.index).min(MOST_SLOTS);
    run(spot.base, spot.index, spot.slots, count)
}

/// The same as [`slots`], with the capability to their L2CNode.
pub fn held_slots(
    dcb: DcbRef,
    place: Place,
    count: u32,
) -> Result<(SlotRun, Option<SlotRef>), Status> {
    let spot = spot(dcb, place)?;
    Ok((run(spot.base, spot.index, spot.slots, count)?, spot.holder))
}

/// The same as [`slots`], to change them.
#[inline(always)]
pub fn slots_to_change(
    caps: &CapSpace,
    dcb: DcbRef,
    place: Place,
    count: u32,
) -> Result<SlotRun, Status> {
    if place.0 >> 32 != 0 {
        return far_slots_to_change(caps, dcb, place, count);
    }
    let base = own_base_to_change(caps, dcb, place.addr())?;
    run(base, place.addr().l2(), L2_SLOTS, count)
}

#[inline(never)]
fn far_slots_to_change(
    caps: &CapSpace,
    dcb: DcbRef,
    place: Place,
    count: u32,
) -> Result<SlotRun, Status> {
    let spot = spot_to_change(caps, dcb, place)?;
    run(spot.base, spot.index, spot.slots, count)
}

#[inline(always)]
fn run(base: u64, index: u32, slots: u32, count: u32) -> Result<SlotRun, Status> {
    if count > slots - index {
        return Err(Status::NoSlot);
    }
    if count > MOST_SLOTS {
        return Err(Status::OutOfRange);
    }
    Ok(SlotRun::new(base, index, count))
}
