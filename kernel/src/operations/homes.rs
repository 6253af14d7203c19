//! Memory that changes its home: from the memory server of one core to that of another.
//!
//! Where memory comes back to when its last capability goes is decided by the home RAM around it. A core that cedes a part of
//! its own keeps a *mark*, home RAM that is foreign: nothing can be made of that part, and what this core still learns of it is told to others,
//! as of any memory whose home is elsewhere. The monitors agree about whose the books are before anything is made of it there.

use crate::cap::asks::is_own_home;
use crate::cap::retype::home_ram;
use crate::cap::{attr, CapExt, CapSpace, HOME_RAM, MEMORY};
use crate::object::SlotRef;
use captypes::{RamAttrs, Status};
use mdb::Class;
use paging::PAGE;

/// The part of `home` is another core's from now on, and `dst`, which is empty, gets the mark; of all of a home that was adopted nothing stays.
pub fn cede(
    caps: &mut CapSpace,
    home: SlotRef,
    offset: u64,
    bytes: u64,
    dst: SlotRef,
) -> Result<(), Status> {
    let whole = home.cap();
    if whole.ty != HOME_RAM {
        return Err(Status::WrongType);
    }
    let end = offset.checked_add(bytes).ok_or(Status::OutOfRange)?;
    if (offset | bytes) & (PAGE - 1) != 0 || bytes == 0 || end > whole.word {
        return Err(Status::OutOfRange);
    }
    if !is_own_home(&whole) || caps.db.has_copies(home) {
        return Err(Status::WrongState);
    }
    let base = whole.base + offset;
    if caps.db.overlapping(MEMORY, base, bytes, Class::All).any(|slot| slot != home) {
        return Err(Status::HasDescendants);
    }
    if bytes == whole.word {
        caps.remove(home);
        return Ok(());
    }
    caps.db.insert(dst, mark(base, bytes, whole.attrs));
    Ok(())
}

fn mark(base: u64, bytes: u64, attrs: u16) -> mdb::RawCap {
    let home = home_ram(base, bytes, (attrs & RamAttrs::NODE) as u8);
    mdb::RawCap { attrs: home.attrs | attr::FOREIGN, ..home }
}

/// `[base, base + bytes)` is at home here from now on: `dst` is empty, or holds the mark that was left of it.
pub fn adopt(
    caps: &mut CapSpace,
    base: u64,
    bytes: u64,
    attrs: RamAttrs,
    dst: SlotRef,
) -> Result<(), Status> {
    let end = base.checked_add(bytes).ok_or(Status::OutOfRange)?;
    if (base | end) & (PAGE - 1) != 0 || bytes == 0 {
        return Err(Status::OutOfRange);
    }
    let old = dst.cap();
    let is_back = old.ty == HOME_RAM && old.is_foreign();
    if !old.is_null() && (!is_back || (old.base, old.word) != (base, bytes)) {
        return Err(Status::Occupied);
    }
    let around = |cap: &mdb::RawCap| is_back && cap.base <= base && end <= cap.base + cap.word;
    let is_other =
        |slot: SlotRef| slot != dst && !(is_own_home(&slot.cap()) && around(&slot.cap()));
    if caps.db.overlapping(MEMORY, base, bytes, Class::All).any(is_other) {
        return Err(Status::HasDescendants);
    }
    if is_back {
        caps.remove(dst);
    } else {
        caps.db.insert(dst, home_ram(base, bytes, (attrs.0 & RamAttrs::NODE) as u8));
    }
    Ok(())
}
