//! The invariants of capabilities and page tables (design §3), checked in full: for tests after
//! every operation, and for whoever has the Kernel capability. Slow.
//!
//! 1. No page is writable in user mode and a kernel object.
//! 2. Every user entry in use belongs to a Mapping, and every Mapping's entries are as it says.
//! 3. Capabilities overlap only if they are relatives ([`mdb::Mdb::check`]).
//! 4. What is on the list of memory that came back has a home, and nobody else has it.
//! 5. Who asks for Loans of a Frame that is written to only while alone looks for them.
//! 6. What dispatchers cache is what their slots say.
//! 7. Without a direct map of user memory (invariant 7 of the design): no page that a Frame or Loan covers is in the
//!    kernel's map, but for those that dispatchers share with it; all objects are; and the windows show what their
//!    cache says.
//! 8. Who waits at an endpoint of this core is at home here, or has come for that.
//! 9. Of a pool whose pages come and go, what it has is covered by Chunks, which say how much of it is there.

use crate::arch;
use crate::cap::alone::is_alone_kind;
use crate::cap::asks::is_own_home;
use crate::cap::{attr, CapExt, HOME_RAM, MEMORY, MORSELS};
use crate::driver::CpuDriver;
use crate::morsels::{self, MORSEL};
use crate::object::dcb::{flag, CSPACE, FRAME, VSPACE};
use crate::object::{Dcb, Endpoint, Obj, SlotRef, State, Table};
use crate::vspace::{self, Mapping};
use captypes::place::POOL_BYTES;
use captypes::{CapType, Rights, Status};
use mdb::{Class, RawCap};
use paging::{Entry, Flags};

/// A broken invariant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// In the database itself.
    Database(mdb::Violation),
    /// The table of a Mapping is no table of that level.
    NoTable { table: u64, entry: u32 },
    /// An entry is not what its Mapping says.
    WrongEntry { table: u64, entry: u32, value: u64 },
    /// An entry allows more than the mapped capability.
    TooManyRights { table: u64, entry: u32 },
    /// No Frame or table covers what a Mapping maps.
    NothingMapped { table: u64, entry: u32 },
    /// A kernel object is writable in user mode.
    WritableObject { base: u64, table: u64, entry: u32 },
    /// An entry shows the zero page, but not only to read.
    WrongZero { table: u64, entry: u32, value: u64 },
    /// An entry is in use without a Mapping.
    NoMapping { table: u64, entry: u32, value: u64 },
    /// Memory on the list of what came back is in use, or has no home.
    NotFree { base: u64 },
    /// A Loan is of no bytes or crosses what it may not, or no copy of its Frame says that it may be there.
    WrongLoan { base: u64, bytes: u64 },
    /// Something shows an object for which nobody would be asked.
    Uncounted { object: u64 },
    /// A dispatcher's cached fields differ from its slots.
    StaleCache { dispatcher: u64 },
    /// A dispatcher in a list of an endpoint waits for something else, or is not known to be a guest.
    LostCaller { endpoint: u64, dispatcher: u64 },
    /// The kernel's map shows a page of a program.
    ShownPage { page: u64, cap: u64 },
    /// The kernel's map does not show an object, or a dispatcher's frame.
    HiddenObject { base: u64 },
    /// A pool has pages that no Chunk covers, or counts them wrongly.
    WrongChunk { base: u64 },
    /// A window shows what nobody asked for.
    WrongWindow,
}

/// Checks everything; a line in the log says what is broken.
pub fn check_and_log(local: &CpuDriver) -> Result<(), Status> {
    check(local).map_err(|broken| {
        crate::arch::log!("invariant broken: {broken:x?}");
        Status::Invalid
    })
}

/// Checks everything.
pub fn check(local: &CpuDriver) -> Result<(), Broken> {
    local.caps.db.check().map_err(Broken::Database)?;
    for slot in local.caps.db.iter(MEMORY) {
        let cap = slot.cap();
        match cap.kind() {
            CapType::Mapping => check_mapping(local, slot)?,
            CapType::Dispatcher => check_dispatcher(slot)?,
            CapType::Endpoint => check_endpoint(local, slot)?,
            CapType::Loan => check_loan(local, slot)?,
            CapType::DeviceSpace => check_device_space(local, slot)?,
            kind if kind.table_level().is_some() && !cap.is_foreign() => check_table(local, slot)?,
            _ => {}
        }
    }
    for slot in local.caps.db.iter(MORSELS) {
        check_morsel(local, slot)?;
    }
    check_reclaimed(local)?;
    check_chunks(local)?;
    check_map(local)
}

/// What pools have whose pages come and go.
fn check_chunks(local: &CpuDriver) -> Result<(), Broken> {
    let pools = local.core.cores.pools();
    let surrounding = |base, bytes, ty: CapType| {
        let found = local.caps.db.surrounding(MEMORY, base, bytes, ty.rank());
        found.map(|slot| slot.cap()).filter(|cap| cap.is(ty))
    };
    for (number, shared) in pools.all().filter(|(_, shared)| shared.is_apart()) {
        // Another core may have its capabilities.
        if surrounding(shared.head(), paging::PAGE, CapType::Pool).is_none() {
            continue;
        }
        let mut pages = 0;
        let bases = (0..shared.frames() * paging::PAGE).step_by(POOL_BYTES as usize);
        for base in bases.map(|offset| shared.base() + offset) {
            let is_pool = morsels::around(pools, base).is_some_and(|(around, _)| around == number);
            // Slots are no memory, so no Chunk.
            if !is_pool || !crate::arch::is_memory(base) {
                continue;
            }
            pages += POOL_BYTES / paging::PAGE;
            let chunk = surrounding(base, POOL_BYTES, CapType::Chunk);
            let is_there = |cap: &RawCap| (base - cap.base) / POOL_BYTES < u64::from(cap.aux);
            if !chunk.is_some_and(|cap| is_there(&cap)) {
                return Err(Broken::WrongChunk { base });
            }
        }
        if pages != shared.growth.present() {
            return Err(Broken::WrongChunk { base: shared.head() });
        }
    }
    Ok(())
}

/// What shows an object has it, and shows no more than its capability lets.
fn check_morsel(local: &CpuDriver, slot: SlotRef) -> Result<(), Broken> {
    let Some(mapping) = Mapping::of(&slot.cap()) else { return Ok(()) };
    let (table, pools) = (mapping.table, local.core.cores.pools());
    check_level(local, &mapping)?;
    let covered = local.caps.db.nearest_ancestor(slot);
    if !covered.is_some_and(|above| above.cap().is(CapType::Morsel)) {
        return Err(Broken::NothingMapped { table, entry: mapping.entry });
    }
    let (object, first) = (mapping.base >> 36, mapping.base & (morsels::MOST_PAGES - 1));
    for index in 0..mapping.count {
        let entry = mapping.entry + index;
        let value = Table::at(table).get(entry);
        let pa = Entry::from_bits(value).address();
        let may_hide = mapping.is_table && value & vspace::MAY_HIDE != 0;
        let present = if may_hide { 0 } else { Flags::PRESENT.bits() };
        let marks = present | Flags::USER.bits() | MORSEL;
        let shown = match mapping.is_table {
            true => morsels::shown_table(pools, value),
            false => morsels::shown_page(pools, pa),
        };
        let shown = shown.map(|(pool, record, first)| (morsels::object(pool, record), first));
        let right = match mapping.is_table || shown.is_some() {
            true => shown == Some((object, first)),
            false => {
                morsels::around(pools, pa).is_some_and(|(pool, _)| pool == morsels::pool_of(object))
            }
        };
        if value & marks != marks || !right {
            return Err(Broken::WrongEntry { table, entry, value });
        }
        check_rights(&mapping, entry, value)?;
    }
    if pools.most_shown(object) == 0 {
        return Err(Broken::Uncounted { object });
    }
    Ok(())
}

/// The table of a Mapping is one of its level.
fn check_level(local: &CpuDriver, mapping: &Mapping) -> Result<(), Broken> {
    let (table, entry) = (mapping.table, mapping.entry);
    let holder = local.caps.db.surrounding(MEMORY, table, paging::PAGE, CapType::Pt.rank());
    let level = holder.map(|h| h.cap()).filter(|h| h.base == table).and_then(|h| match h.kind() {
        CapType::DeviceSpace => mapping.in_device.then_some(vtd::LEVEL),
        kind => kind.table_level(),
    });
    match level == Some(mapping.level) {
        true => Ok(()),
        false => Err(Broken::NoTable { table, entry }),
    }
}

/// An entry allows no more than its Mapping.
fn check_rights(mapping: &Mapping, entry: u32, value: u64) -> Result<(), Broken> {
    let write = value & vspace::WRITABLE != 0;
    let execute = value & Flags::NO_EXECUTE.bits() == 0;
    let may_write = Rights::WRITE.or(Rights::WRITE_ALONE).and(mapping.rights);
    if write && may_write == Rights::NONE || execute && !mapping.rights.has(Rights::EXEC) {
        return Err(Broken::TooManyRights { table: mapping.table, entry });
    }
    Ok(())
}

fn is_frame_of_dispatcher(local: &CpuDriver, page: u64) -> bool {
    let all = local.caps.db.iter(MEMORY).map(|slot| slot.cap());
    all.filter_map(|cap| Obj::<Dcb>::of(&cap)).any(|dcb| dcb.frame.get().0 == page)
}

/// What the kernel's map shows, and what it does not.
fn check_map(local: &CpuDriver) -> Result<(), Broken> {
    if !arch::SPARSE {
        return Ok(());
    }
    let mut checked = Ok(());
    arch::for_each_shown(|page, object, sharers| {
        if checked.is_err() || !object && sharers == 0 {
            return;
        }
        let all = local.caps.db.overlapping(MEMORY, page, paging::PAGE, Class::All);
        let mut programs = all.map(|slot| slot.cap()).filter(|cap| {
            cap.is_frame()
                || cap.is(CapType::Loan)
                || cap.is(CapType::Pool)
                || cap.is(CapType::Chunk)
        });
        // What other cores know may be shared by dispatchers of theirs.
        let shares = |cap: &RawCap| cap.attrs & (attr::FOREIGN | attr::REMOTE) != 0;
        let excused =
            |cap: &RawCap| !object && (shares(cap) || is_frame_of_dispatcher(local, page));
        if let Some(cap) = programs.next().filter(|cap| !excused(cap)) {
            checked = Err(Broken::ShownPage { page, cap: cap.base });
        }
    });
    checked?;
    for cap in local.caps.db.iter(MEMORY).map(|slot| slot.cap()) {
        // Of what is being taken apart some is hidden already.
        let whole = cap.attrs & attr::PARKED == 0 && !cap.is(CapType::Blank);
        if whole && cap.kind().is_kernel_object() && !cap.is_foreign() {
            for page in (cap.base..cap.base + cap.word).step_by(paging::PAGE as usize) {
                if !arch::is_shown(page) {
                    return Err(Broken::HiddenObject { base: page });
                }
            }
        }
        if let Some(dcb) = Obj::<Dcb>::of(&cap).filter(|dcb| dcb.frame.get().is_some()) {
            if arch::sharers(dcb.frame.get().0) == 0 {
                return Err(Broken::HiddenObject { base: dcb.frame.get().0 });
            }
        }
    }
    match arch::is_sound() {
        true => Ok(()),
        false => Err(Broken::WrongWindow),
    }
}

fn check_mapping(local: &CpuDriver, slot: SlotRef) -> Result<(), Broken> {
    let Some(mapping) = Mapping::of(&slot.cap()) else { return Ok(()) };
    let (table, entry) = (mapping.table, mapping.entry);
    check_level(local, &mapping)?;
    let bytes = vspace::mapped_bytes(&slot.cap());
    let rank = CapType::Pt.rank();
    let mapped = local.caps.db.surrounding(MEMORY, mapping.base, bytes, rank);
    let mapped = mapped.ok_or(Broken::NothingMapped { table, entry })?.cap();
    if !mapped.is_frame() && mapped.kind().table_level().is_none() {
        return Err(Broken::NothingMapped { table, entry });
    }
    let mut writable = false;
    for index in 0..mapping.count {
        let value = Table::at(table).get(entry + index);
        let at = entry + index;
        if vspace::expected_entry(&mapping, index) != vspace::without_rights(value) {
            return Err(Broken::WrongEntry { table, entry: at, value });
        }
        check_rights(&mapping, at, value)?;
        writable |= value & vspace::WRITABLE != 0;
    }
    if writable && !mapping.is_table {
        let mut objects = local.caps.db.overlapping(MEMORY, mapping.base, bytes, Class::Objects);
        if let Some(object) = objects.find(|o| o.cap().kind().is_kernel_object()) {
            return Err(Broken::WritableObject { base: object.cap().base, table, entry });
        }
    }
    Ok(())
}

fn check_table(local: &CpuDriver, slot: SlotRef) -> Result<(), Broken> {
    let cap = slot.cap();
    let level = cap.kind().table_level().unwrap_or(1);
    let table = Table::at(cap.base);
    let mut index = 0;
    while index < vspace::user_entries(level) {
        let value = table.get(index);
        if value == 0 {
            index += 1;
            continue;
        }
        if vspace::is_zero_page(level, value) {
            if !vspace::is_sound(value) {
                return Err(Broken::WrongZero { table: cap.base, entry: index, value });
            }
            index += 1;
            continue;
        }
        let pools = local.core.cores.pools();
        let mapping = Mapping::at(pools, cap.base, level, index, value);
        let found = mapping.filter(|m| local.caps.db.find(&m.to_cap()).is_some());
        let mapping = found.or_else(|| borrowed(local, cap.base, index, value));
        let Some(mapping) = mapping else {
            return Err(Broken::NoMapping { table: cap.base, entry: index, value });
        };
        index += mapping.count;
    }
    Ok(())
}

/// Every entry of a DeviceSpace in use belongs to a Mapping.
fn check_device_space(local: &CpuDriver, slot: SlotRef) -> Result<(), Broken> {
    let (table, pools) = (slot.cap().base, local.core.cores.pools());
    for entry in 0..paging::ENTRIES as u32 {
        let value = Table::at(table).get(entry);
        let mapping = vspace::device_mapping(pools, table, entry, value);
        let is_known = mapping.is_some_and(|m| local.caps.db.find(&m.to_cap()).is_some());
        if value != 0 && !is_known {
            return Err(Broken::NoMapping { table, entry, value });
        }
    }
    Ok(())
}

/// The Mapping of single pages of an object that begins at an entry.
fn borrowed(local: &CpuDriver, table: u64, index: u32, value: u64) -> Option<Mapping> {
    if value & MORSEL == 0 {
        return None;
    }
    let all = local.caps.db.iter(MORSELS).filter_map(|slot| Mapping::of(&slot.cap()));
    all.into_iter().find(|m| (m.table, m.entry, m.is_table) == (table, index, false))
}

fn check_loan(local: &CpuDriver, slot: SlotRef) -> Result<(), Broken> {
    let (db, cap) = (&local.caps.db, slot.cap());
    let wrong = Err(Broken::WrongLoan { base: cap.base, bytes: cap.word });
    let known = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
    if cap.word == 0 || cap.is_foreign() || !known.has(cap.rights_set()) {
        return wrong;
    }
    for frame in db.overlapping(MEMORY, cap.base, cap.word, Class::Objects) {
        let alone = |slot: SlotRef| is_alone_kind(slot.cap().rights_set());
        let marked = |slot: SlotRef| slot.cap().attrs & attr::LENT != 0;
        let all = || db.copies(frame).chain([frame]).filter(|slot| slot.cap().is(CapType::Frame));
        if all().any(alone) && !all().any(marked) {
            return wrong;
        }
        if frame.cap().kind().is_kernel_object() {
            return wrong;
        }
    }
    Ok(())
}

fn check_dispatcher(slot: SlotRef) -> Result<(), Broken> {
    let Some(dcb) = Obj::<Dcb>::of(&slot.cap()) else { return Ok(()) };
    let base = |index, ty| {
        let cap = dcb.slot(index).cap();
        let own = cap.attrs & attr::IN_DISPATCHER != 0;
        if cap.is(ty) && own {
            cap.base
        } else {
            0
        }
    };
    let same = dcb.cspace_base.get() == base(CSPACE, CapType::L1CNode)
        && dcb.root.get() == base(VSPACE, crate::dispatch::root_type())
        && dcb.frame.get().0 == base(FRAME, CapType::Frame);
    if same {
        Ok(())
    } else {
        Err(Broken::StaleCache { dispatcher: dcb.pa() })
    }
}

/// Whoever is in the lists of an endpoint waits for it, and is this core's.
fn check_endpoint(local: &CpuDriver, slot: SlotRef) -> Result<(), Broken> {
    let Some(endpoint) = Obj::<Endpoint>::of(&slot.cap()) else { return Ok(()) };
    let lists = [(&endpoint.callers, State::Calling), (&endpoint.served, State::Called)];
    for (list, state) in lists {
        let mut next = list.first();
        while let Some(dcb) = next {
            let guest = local.sched.is_visiting(dcb);
            let waits = dcb.state.get() == state && dcb.endpoint.get() == Some(endpoint);
            let known = crate::dispatch::guest(&local.sched, dcb.pa()) == Some(dcb);
            if !waits || guest != dcb.has(flag::ABROAD) || guest != known {
                return Err(Broken::LostCaller { endpoint: endpoint.pa(), dispatcher: dcb.pa() });
            }
            next = dcb.links.next.get();
        }
    }
    Ok(())
}

fn check_reclaimed(local: &CpuDriver) -> Result<(), Broken> {
    for (base, bytes) in local.reclaim.iter() {
        let home = local.caps.db.surrounding(MEMORY, base, bytes, 0);
        let in_use = local
            .caps
            .db
            .overlapping(MEMORY, base, bytes, Class::All)
            .any(|slot| slot.cap().ty != HOME_RAM);
        if in_use || home.is_none_or(|slot| !is_own_home(&slot.cap())) {
            return Err(Broken::NotFree { base });
        }
    }
    Ok(())
}
