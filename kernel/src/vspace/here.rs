//! Rights that a program takes from its pages and gives back to them on the core where it runs, and objects that it hides there.
//!
//! Page tables are changed by the core in whose database they are. But the processors of other cores write to them as well: accessed and
//! dirty bits of entries through which dispatchers of that core that run there go. What is here is a third such thing. A program that
//! does not want to write to a page for a while takes [`WRITE`](Flags::WRITE) from its entry and sets [`MAY_WRITE`] instead; who wants to write again
//! does the reverse. Nobody gets a right that home has not given: where the database has to be asked (`protect`, a copy that is made, a page
//! that is lent), home clears both bits, as it clears one of an entry without. So an entry with [`MAY_WRITE`] counts as writable wherever that
//! matters. Either core changes an entry by compare-and-exchange of all of it, as everybody does who changes one beside a processor.
//!
//! **Objects.** An entry of a directory that shows a table of an object can be hidden so, too, if home has allowed it ([`MAY_HIDE`]): it is not present
//! then, and present again later, and nothing else of it changes. Entries that home makes have no such bit, so who comes
//! late with what was allowed for another one does nothing.
//!
//! The way to the entry is walked as a processor walks it: this core has the root loaded, and accessed bits are set before it goes on. So home waits for
//! this core before a table that it has come to is anything else ([`shootdown`](super::shootdown)).

use super::zero::is_zero_page;
use super::{rights_bits, Mapping, Translations, MAY_EXECUTE, MAY_HIDE, MAY_WRITE};
use crate::arch;
use crate::cap::mapping::{page_shift, ENTRY};
use crate::cores::{CoreId, ThisCore};
use crate::morsels::MORSEL;
use crate::object::{SlotRef, Table};
use captypes::invocations::{Counter, MapFlags};
use captypes::{Rights, Status};
use paging::{Entry, Flags, VirtAddr, ENTRIES, PAGE};
use shootdown::{concerned, Forget, Pages};

/// Most pages that one invocation changes.
const MOST_PAGES: u64 = ENTRIES as u64;
/// How often an entry is looked at that is being changed: threads of the program do it at the same time.
const LOOKS: u32 = 8;

/// Gives pages of the address space that is loaded on this core, whose tables are core `home`'s, the rights that `flags` ask for, as far as
/// home has granted them. `wait`: lets other cores go on for which this one waits.
pub fn protect_here(
    vm: &Translations,
    (root, home): (u64, CoreId),
    (at, bytes): (u64, u64),
    flags: MapFlags,
    wait: impl FnMut(),
) -> Result<(), Status> {
    let pages = bytes / PAGE;
    let end = at.checked_add(bytes).filter(|end| *end <= arch::user_end());
    if end.is_none() || (at | bytes) % PAGE != 0 || pages == 0 || pages > MOST_PAGES {
        return Err(Status::OutOfRange);
    }
    let (stale, result) = change_each(root, at, pages, rights_bits(flags));
    if stale {
        let mut what = Forget::nothing();
        what.add(Pages::new(at, 1, pages as u32), vm.most_elsewhere(MapFlags::default()));
        forget_here(vm.core(), &what);
        forget_where_loaded(vm.core(), (root, home), &what, wait);
    }
    result
}

/// Returns also whether translations may be stale now.
fn change_each(root: u64, at: u64, pages: u64, rights: u64) -> (bool, Result<(), Status>) {
    let (mut stale, mut table) = (false, None);
    for va in (0..pages).map(|page| at + page * PAGE) {
        let index = (va / PAGE) as u32 % ENTRIES as u32;
        if index == 0 || va == at {
            table = match table_of(root, va, LAST) {
                Ok(found) => found,
                Err(status) => return (stale, Err(status)),
            };
        }
        let Some(table) = table else { continue };
        match change_one(table, index, rights) {
            Ok(used) => stale |= used,
            Err(status) => return (stale, Err(status)),
        }
    }
    (stale, Ok(()))
}

/// Levels of tables: of pages, and of 2 MiB.
const LAST: u8 = 1;
const DIRECTORY: u8 = 2;

/// The table of a level for an address; `None` if there is none.
///
/// # Errors
///
/// `Unsupported`: it is an object's, or shown where the program cannot write (then others may have it).
fn table_of(root: u64, va: u64, of: u8) -> Result<Option<Table>, Status> {
    const NEEDED: u64 = Flags::PRESENT.bits() | Flags::USER.bits() | Flags::WRITE.bits();
    let mut table = root;
    for level in (of + 1..=arch::root_level()).rev() {
        let index = (va >> page_shift(level)) as u32 % ENTRIES as u32;
        let entry = Table::at(table).get(index);
        if entry & Flags::PRESENT.bits() == 0 {
            return Ok(None);
        }
        if entry & (Flags::HUGE.bits() | MORSEL) != 0 {
            return Err(Status::Unsupported);
        }
        let note = |_| Table::at(table).note(index, NEEDED, Flags::ACCESSED.bits()).ok();
        let noted = (0..LOOKS).find_map(note).flatten().ok_or(Status::Unsupported)?;
        if noted & (Flags::HUGE.bits() | MORSEL) != 0 {
            return Err(Status::Unsupported);
        }
        table = Entry::from_bits(noted).address();
    }
    Ok(Some(Table::at(table)))
}

/// Allows, or no longer, that programs hide what the Mapping in a slot shows; see [`captypes::op::AllowHiding`].
pub fn allow_hiding(slot: SlotRef, allow: bool) -> Result<(), Status> {
    let cap = slot.cap();
    let mapping = Mapping::of(&cap).ok_or(Status::WrongType)?;
    if !mapping.is_morsel || !mapping.is_table || mapping.level != DIRECTORY {
        return Err(Status::Unsupported);
    }
    if allow && !mapping.rights.has(Rights::WRITE) {
        return Err(Status::NoRights);
    }
    let table = Table::at(cap.word);
    table.change(cap.aux & ENTRY, |entry| match allow {
        true => entry | MAY_HIDE,
        false => entry & !MAY_HIDE | Flags::PRESENT.bits(),
    });
    Ok(())
}

/// The directory and the number of the entry for an address of the address space that is loaded on this core.
fn directory_entry(root: u64, at: u64) -> Result<(Table, u32), Status> {
    if at >= arch::user_end() || !at.is_multiple_of(1 << page_shift(DIRECTORY)) {
        return Err(Status::OutOfRange);
    }
    let table = table_of(root, at, DIRECTORY)?.ok_or(Status::Unsupported)?;
    Ok((table, (at >> page_shift(DIRECTORY)) as u32 % ENTRIES as u32))
}

/// Is it an entry that shows a table of an object, or has shown it, that the program may hide?
fn may_hide(entry: u64) -> bool {
    const BITS: u64 = MAY_HIDE | MORSEL;
    entry & (BITS | Flags::HUGE.bits()) == BITS
}

/// The entry at an address that the program may hide. (What it says is to be used during the same [walk](crate::cores::PoolUse::turn) only.)
pub fn may_hide_here(root: u64, at: u64) -> Result<u64, Status> {
    let (table, index) = directory_entry(root, at)?;
    Some(table.get(index)).filter(|entry| may_hide(*entry)).ok_or(Status::Unsupported)
}

/// The same, if it is hidden.
pub fn hidden_here(root: u64, at: u64) -> Option<u64> {
    may_hide_here(root, at).ok().filter(|entry| entry & Flags::PRESENT.bits() == 0)
}

/// Changes it. Returns what it was.
fn change_here(root: u64, at: u64, change: impl Fn(u64) -> u64) -> Result<u64, Status> {
    let (table, index) = directory_entry(root, at)?;
    let (old, _) = table.change(index, |entry| match may_hide(entry) {
        true => change(entry),
        false => entry,
    });
    Some(old).filter(|entry| may_hide(*entry)).ok_or(Status::Unsupported)
}

/// Hides what the entry at an address shows. Returns whether it may be cached anywhere: if so, it is until the caller has had all cores forget it.
pub fn hide_here(root: u64, at: u64) -> Result<bool, Status> {
    let old = change_here(root, at, |entry| entry & !Flags::PRESENT.bits())?;
    Ok(old & Flags::ACCESSED.bits() != 0)
}

/// All cores have forgotten it. (Unless somebody has shown it again.)
pub fn rest_here(root: u64, at: u64) {
    let is_hidden = |entry| entry & Flags::PRESENT.bits() == 0;
    let rested = |entry| if is_hidden(entry) { entry & !Flags::ACCESSED.bits() } else { entry };
    // If it has gone, there is nothing to be said about it.
    let _ = change_here(root, at, rested);
}

/// Shows what is hidden; see [`captypes::op::ShowHere`].
pub fn show_here(root: u64, at: u64) -> Result<(), Status> {
    change_here(root, at, |entry| entry | Flags::PRESENT.bits()).map(drop)
}

/// Gives one entry the rights `rights`, of those that it has or may take back. Returns whether a translation of it may have more.
fn change_one(table: Table, index: u32, rights: u64) -> Result<bool, Status> {
    let (old, new) = table.change(index, |entry| changed(entry, rights).unwrap_or(entry));
    if changed(old, rights).is_none() {
        return Err(Status::Unsupported);
    }
    let lost = old & !new & Flags::WRITE.bits() | !old & new & Flags::NO_EXECUTE.bits();
    Ok(lost != 0 && old & Flags::ACCESSED.bits() != 0)
}

/// What becomes of an entry. `None`: only home can do it.
fn changed(entry: u64, rights: u64) -> Option<u64> {
    let (write, no_execute) = (Flags::WRITE.bits(), Flags::NO_EXECUTE.bits());
    if entry & Flags::PRESENT.bits() == 0 {
        return Some(entry);
    }
    if is_zero_page(1, entry) {
        // Nobody writes to it. It has no place for what may be taken back.
        let keeps = entry & no_execute != 0 || rights & no_execute == 0;
        return keeps.then_some(entry);
    }
    let writable = entry & (write | MAY_WRITE) != 0;
    let executable = entry & no_execute == 0 || entry & MAY_EXECUTE != 0;
    let mut new = entry & !(write | MAY_WRITE | MAY_EXECUTE) | no_execute;
    if writable {
        new |= if rights & write != 0 { write } else { MAY_WRITE };
    }
    if executable {
        match rights & no_execute {
            0 => new &= !no_execute,
            _ => new |= MAY_EXECUTE,
        }
    }
    Some(new)
}

fn forget_here(core: ThisCore, what: &Forget) {
    match what.pages() {
        None => arch::flush_tlb(),
        Some(ranges) => {
            let pages = ranges.iter().flat_map(|range| range.addresses());
            pages.for_each(|va| arch::flush_page(VirtAddr(va)));
            core.add(Counter::TlbPages, u64::from(what.count()));
        }
    }
}

/// Has all other cores forget that have a root loaded, or walk it.
fn forget_where_loaded(
    core: ThisCore,
    (root, home): (u64, CoreId),
    what: &Forget,
    wait: impl FnMut(),
) {
    if !core.cores.are_many() {
        return;
    }
    let whom = all_with(core, home, |loaded| loaded == root);
    if whom == 0 {
        return;
    }
    let asked = u64::from(whom.count_ones());
    core.add(Counter::Shootdowns, 1);
    core.add(Counter::ShootdownRequests, asked);
    core.add(Counter::RemotePages, asked * u64::from(what.count()));
    core.make_forget(whom, what, wait);
}

/// The cores without this one that have such a root of core `home` loaded, or walk it; as a set.
fn all_with(core: ThisCore, home: CoreId, is_such: impl Fn(u64) -> bool) -> u64 {
    let port = |number| core.port(number);
    // Home itself is not among those that it has sent somebody to.
    let at_home = if port(home.index()).has_one(&is_such) { home.bit() } else { 0 };
    (concerned(home.index(), port, is_such) | at_home) & !core.id.bit()
}

/// No core, nor a device, uses a translation any more that it had by tables of core `home` when this began: whatever roots they are below, they are
/// that core's, too.
pub fn forget_tables_of(core: ThisCore, home: CoreId, wait: impl FnMut()) {
    core.flush_everything();
    let whom = all_with(core, home, |_| true);
    let asked = u64::from(whom.count_ones());
    core.add(Counter::Shootdowns, u64::from(whom != 0));
    core.add(Counter::ShootdownRequests, asked);
    core.add(Counter::RemoteFlushes, asked);
    core.make_forget(whom, Forget::ALL, wait);
}
