//! Another root for a CSpace: larger or smaller (G18 §2.6).
//!
//! Copying comes first, in as many invocations as it takes: the old root stays in use. What cannot
//! be copied (Mappings) is moved. Then every capability to the old root, one after the other,
//! becomes one to the new root: either names the same L2CNodes meanwhile, so whoever runs on a
//! dispatcher with one or the other finds its capabilities. At the end the old root, full of copies,
//! is left in the slot that the new one came from, and goes like every CNode.

use crate::cap::ops::is_copyable;
use crate::cap::{attr, copied_attrs, lookup, CapExt, CapSpace};
use crate::dispatch::Scheduler;
use crate::object::{Obj, SlotRef, SlotRun};
use captypes::{CapType, Rights, Status};
use mdb::RawCap;
use paging::PAGE;

/// Most slots of either root: all are looked at in every invocation.
pub const MOST_SLOTS: u32 = 1 << 14;

/// Makes the L1CNode in `new` the root of all who have that in `old`; see
/// [`captypes::op::Resize`].
pub fn resize(
    caps: &mut CapSpace,
    sched: &mut Scheduler,
    old: SlotRef,
    new: SlotRef,
) -> Result<(), Status> {
    let (from, to) = check_resize(caps, old, new)?;
    if !copy_root(caps, from, to) || !redirect_copies(caps, sched, old, new) {
        return Err(Status::Again);
    }
    let (before, after) = (old.cap(), new.cap());
    redirect(caps, sched, old, new);
    caps.db.remove(new);
    let attrs = copied_attrs(after.attrs);
    caps.db.insert(new, RawCap { rights: after.rights, attrs, aux: 0, ..before });
    Ok(())
}

/// The slots of both roots, if the one may follow the other.
fn check_resize(caps: &CapSpace, old: SlotRef, new: SlotRef) -> Result<(SlotRun, SlotRun), Status> {
    let (own, next) = (old.cap(), new.cap());
    if !own.is(CapType::L1CNode) || !next.is(CapType::L1CNode) {
        return Err(Status::WrongType);
    }
    if !own.rights_set().has(Rights::REVOKE) {
        return Err(Status::NoRights);
    }
    // Other cores would go on to call the old root by the new one's name.
    if (own.attrs | next.attrs) & (attr::FOREIGN | attr::REMOTE_COPIES) != 0
        || caps.db.locks.holds(&own)
        || caps.db.locks.holds(&next)
    {
        return Err(Status::Unsupported);
    }
    let inside = (own.base..own.base + own.word).contains(&new.pa());
    // Remembers of whom it is becoming the successor.
    let mark = (own.base / PAGE) as u32;
    let begun = next.aux == mark;
    if own.base == next.base || inside || !begun && caps.db.has_copies(new) {
        return Err(Status::WrongState);
    }
    let slots = |cap: RawCap| lookup::root_slots(cap.word);
    if slots(own).max(slots(next)) > MOST_SLOTS {
        return Err(Status::OutOfRange);
    }
    let from = SlotRun::new(own.base, 0, slots(own));
    let to = SlotRun::new(next.base, 0, slots(next));
    if to.len() < from.len() && from.next_filled(to.len()) < from.len() {
        return Err(Status::OutOfRange);
    }
    match next.aux {
        0 if !to.all_empty() => return Err(Status::Occupied),
        0 => new.set_aux(mark),
        other if other != mark => return Err(Status::WrongState),
        _ => {}
    }
    Ok((from, to))
}

/// Copies what is not there yet; `false` if the work of this event is used up.
fn copy_root(caps: &mut CapSpace, from: SlotRun, to: SlotRun) -> bool {
    let mut at = from.next_filled(0);
    while at < from.len().min(to.len()) {
        let (src, dst) = (from.get(at), to.get(at));
        if dst.is_empty() {
            if !caps.spend(1) {
                return false;
            }
            let cap = src.cap();
            if is_copyable(cap.ty) {
                let copy = RawCap { attrs: copied_attrs(cap.attrs), ..cap };
                caps.db.insert_copy(src, dst, copy);
            } else {
                caps.db.relocate(src, dst);
            }
        }
        at = from.next_filled(at + 1);
    }
    true
}

/// Redirects everybody but `old` itself.
fn redirect_copies(caps: &mut CapSpace, sched: &mut Scheduler, old: SlotRef, new: SlotRef) -> bool {
    while let Some(copy) = caps.db.a_copy(old) {
        if !caps.spend(1) {
            return false;
        }
        redirect(caps, sched, copy, new);
    }
    new.set_aux(0);
    true
}

/// Makes the capability in `slot` one to the root in `new`, with the rights that it has.
fn redirect(caps: &mut CapSpace, sched: &mut Scheduler, slot: SlotRef, new: SlotRef) {
    let old = slot.cap();
    caps.db.remove(slot);
    let attrs = copied_attrs(old.attrs) | old.attrs & attr::IN_DISPATCHER;
    let cap = RawCap { rights: old.rights, attrs, aux: 0, ..new.cap() };
    caps.db.insert_copy(new, slot, cap);
    if attrs & attr::IN_DISPATCHER != 0 {
        sched.refresh_dispatcher(Obj::around(slot));
    }
}
