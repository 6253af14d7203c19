//! The end of a page: a Frame of 4 KiB that only its owner had, with the Mappings of it. Nearly all that is deleted
//! is one, and everything that [`delete`](super::delete) asks of others is answered here by looking at its capability.

use super::reclaim::reclaim;
use crate::cap::asks::is_own_home;
use crate::cap::db::{mapping_of, remove_frame};
use crate::cap::{attr, CapExt, CapSpace};
use crate::driver::CpuDriver;
use crate::object::SlotRef;
use crate::vspace::remove_plain_mapping;
use captypes::CapType;
use paging::PAGE;

/// What makes a Frame different from others, in the [head](mdb::RawCap::head) of a capability: others know of it, or
/// of where it is.
const DIFFERENT: u32 =
    ((attr::FOREIGN | attr::REMOTE | attr::LENT | attr::IN_DISPATCHER) as u32) << 16;

/// Is it a page about which only this core is to be asked, and nothing of which is lent?
#[inline(always)]
pub fn is_plain_page(caps: &CapSpace, slot: SlotRef) -> bool {
    let cap = slot.cap();
    cap.head() & (0xff | DIFFERENT) == CapType::Frame as u32
        && cap.word == PAGE
        && !caps.db.may_be_lent(&cap)
        && caps.db.locks.is_empty()
}

/// Removes the last capability to a plain page, and the Mappings of it; `false` if it is not as simple as nearly always:
/// all that is left to do is done elsewhere then.
#[inline(never)]
pub fn delete_page(cpu: &mut CpuDriver, slot: SlotRef) -> bool {
    let Some(above) = cpu.caps.db.ancestor_of_childless(slot) else { return false };
    let above = above.cap();
    // What is inside another Frame leaves its Mappings to that.
    if above.is_frame() {
        return false;
    }
    while let Some(mapping) = mapping_of(&cpu.caps.db, slot) {
        if !cpu.caps.spend(1) {
            return false;
        }
        remove_plain_mapping(&mut cpu.vm, &mut cpu.caps, mapping);
    }
    let base = slot.cap().base;
    if cpu.caps.watched() == Some(slot) {
        cpu.caps.watch(None);
    }
    remove_frame(&mut cpu.caps.db, slot);
    if is_own_home(&above) {
        reclaim(cpu, base, PAGE);
    }
    true
}
