//! What is done with pools and their objects, and with the entries that show them.
//!
//! A fault below an entry that shows an object is served on the core where it happens: nothing is asked but the tables. Everything
//! else is done where the capability is that is invoked; see [`taking`](super::taking) for what must not be done by two cores at once.

use super::delete::{delete_slot, drop_slot};
use super::leave::leave_objects;
use super::taking::{changing, showing, taking};
use crate::cap::alone::Held;
use crate::cap::budget::{Pause, Progress};
use crate::cap::mapping::{is_borrowed, is_in_device};
use crate::cap::passed::{begin_deletion_anew, not_passed, unpassed, with_passed};
use crate::cap::{attr, copied_attrs, made_attrs, CapExt, CapSpace, MORSELS};
use crate::cores::{PoolState, SharedPool, ThisCore};
use crate::dispatch::Scheduler;
use crate::driver::CpuDriver;
pub use crate::morsels::fault::Below;
use crate::morsels::fault::{self, Wanted};
use crate::morsels::{self, first_page, is_whole, object_of, pool_of, record_of, Objects};
use crate::object::{mem, DcbRef, SlotRef, Walk};
use crate::vspace::{
    check_device_map, check_morsel, first_borrowed, granted_morsel, replace_by_morsel, show_morsel,
    show_to_device, unmap_borrowed, MapArgs, Shown,
};
use ::morsel::{pages_of, Access, Anchor, Frame, Hole, Memory, Record, Refused, Until, RECORDS};
use captypes::invocations::{Copied, Made, MapFlags, MorselFacts, PoolFacts, Surveyed};
use captypes::{CapType, Rights, Status};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use mdb::{Class, RawCap};
use paging::{ENTRIES, PAGE};

/// Most bytes that one invocation copies.
const MOST_COPIED: u64 = 256 << 10;
/// Pages of records that one invocation searches.
const MOST_SEARCHED: u32 = 8;
/// Steps of an operation on an object in one event; each is a path down and some 64 pages.
const STEPS: u32 = 4;
/// Most single pages that one invocation shows.
const MOST_SHOWN: usize = 64;

type Result<T> = core::result::Result<T, Status>;

/// Serves a fault if it is below an entry that shows an object. Returns `false` if it is not, or if the object has no
/// such page, or no memory for it.
#[inline(always)]
pub fn show(cpu: &mut CpuDriver, dcb: DcbRef, error: u64, address: u64) -> bool {
    let below = if are_shown(cpu) { below(dcb, error, address) } else { None };
    below.is_some_and(|it| show_page(cpu, dcb, (error, address), it) == Served::Yes)
}

/// Are objects shown anywhere?
#[inline(always)]
pub fn are_shown(cpu: &CpuDriver) -> bool {
    cpu.core.cores.pools().are_shown()
}

/// The entry that shows an object at an address where a program has faulted, if there is one.
#[inline(always)]
pub fn below(dcb: DcbRef, error: u64, address: u64) -> Option<Below> {
    fault::look(dcb.root.get(), error, address)
}

/// What became of a fault below an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// The program tries again.
    Yes,
    No,
    /// No: the page is in a store, in the slot of its pool with this number.
    Out(u64),
}

impl From<bool> for Served {
    #[inline(always)]
    fn from(is_served: bool) -> Served {
        if is_served {
            Served::Yes
        } else {
            Served::No
        }
    }
}

/// Shows what is wanted below an entry.
#[inline(always)]
pub fn show_page(
    cpu: &mut CpuDriver,
    dcb: DcbRef,
    (error, address): (u64, u64),
    below: Below,
) -> Served {
    let core = cpu.core;
    // Whoever takes the object away waits until this look at the tables has ended.
    core.shared.pool_use.turn();
    let is_there = below.is_there();
    let wanted = if is_there { below.wanted(core.cores.pools(), address) } else { None };
    let Some(wanted) = wanted else {
        core.shared.pool_use.turn();
        // What was taken away before that, or is shown with other rights: the program tries again.
        return Served::from(!is_there);
    };
    let shared = core.cores.pools().numbered(wanted.pool);
    // A program that reads a hole where it might write is given a page at once, as writing is what mostly comes next. Its
    // library only copies.
    let is_program = || !dcb.frame.get().is_disabled(dcb.ctx.rip.get());
    let may_write = || is_program() && fault::may_write(dcb.root.get(), address);
    let access = match fault::access(error) {
        Access::Read if shared.is_apart() && may_write() => Access::Write,
        access => access,
    };
    let hole = match access {
        Access::Write => fill(core, &mut cpu.sched, shared, wanted),
        Access::Read => Hole::None,
    };
    let page = morsels::key(morsels::object(wanted.pool, wanted.record), wanted.page);
    if hole == (Hole::Filled { goes_on: true }) {
        show_ahead(cpu, page);
    }
    core.shared.pool_use.turn();
    match hole {
        Hole::Filled { .. } => Served::Yes,
        Hole::Out(slot) => Served::Out(slot.0 - (shared.base() >> 12)),
        _ => Served::from(show_slowly(cpu, page, access, hole)),
    }
}

/// What most faults want, in line: so nothing of the pool is put into memory first.
#[inline(always)]
fn fill(
    core: ThisCore,
    sched: &mut Scheduler,
    shared: &'static SharedPool,
    wanted: Wanted,
) -> Hole {
    morsels::with_shared(core, (wanted.pool, shared), sched, None, |objects| match morsels::recent(
        objects,
        wanted.record,
    ) {
        Some(record) if objects.memory.standing().is_open() => {
            objects.fill_below(record, wanted.entered, wanted.page)
        }
        _ => Hole::None,
    })
}

/// Makes pages for who goes on behind one.
#[inline(never)]
fn show_ahead(cpu: &mut CpuDriver, page: u64) {
    let object = morsels::object_at(page);
    morsels::with(cpu.core, pool_of(object), &mut cpu.sched, None, |objects| {
        if let Some(record) = morsels::recent(objects, record_of(object)) {
            objects.fill_ahead(record, morsels::page_at(page));
        }
    });
}

/// Whatever else there may be to be done.
#[inline(never)]
fn show_slowly(cpu: &mut CpuDriver, page: u64, access: Access, hole: Hole) -> bool {
    let object = morsels::object_at(page);
    if morsels::open_pool(cpu.core, pool_of(object)).is_none() {
        return false;
    }
    let shown = morsels::with(cpu.core, pool_of(object), &mut cpu.sched, None, |objects| {
        if let Hole::Lost(frame) = hole {
            objects.give_page(frame);
        }
        let record = objects.open(record_of(object))?;
        morsels::note(objects, record);
        objects.fault(record, morsels::page_at(page), access)
    });
    match shown {
        Some(Ok(_)) => true,
        // Somebody is changing it: the program tries again.
        Some(Err(Refused::Again)) => true,
        _ => false,
    }
}

/// Does something with the objects of a pool.
pub(super) fn with_pool<R>(
    cpu: &mut CpuDriver,
    number: usize,
    work: impl FnOnce(&Objects<'_, '_, Scheduler>) -> core::result::Result<R, Refused>,
) -> Result<R> {
    let CpuDriver { core, caps, vm, sched, .. } = cpu;
    morsels::open_pool(*core, number).ok_or(Status::WrongState)?;
    let mut unmap = |object, all: Range<u64>, pages: &mut dyn Iterator<Item = Range<u64>>| {
        // Mostly nobody shows any one by one.
        if first_borrowed(caps, object, all).is_none() {
            return;
        }
        for pages in pages {
            // Those of a whole object were removed before, step by step. (Those of other cores: see `taking`.)
            let removed = unmap_borrowed(vm, caps, object, pages, |_| true);
            debug_assert!(removed.is_ok());
        }
    };
    let done = morsels::with(*core, number, sched, Some(&mut unmap), work);
    done.ok_or(Status::WrongState)?.map_err(morsels::status)
}

/// The same with the object of a capability.
fn with_object<R>(
    cpu: &mut CpuDriver,
    cap: &RawCap,
    work: impl FnOnce(&Objects<'_, '_, Scheduler>, Record) -> core::result::Result<R, Refused>,
) -> Result<R> {
    let object = object_of(cap);
    with_pool(cpu, pool_of(object), |objects| work(objects, objects.open(record_of(object))?))
}

/// The number of the pool of a capability, if it is used.
pub(super) fn number_of(cpu: &CpuDriver, pool: &RawCap) -> Result<(usize, &'static SharedPool)> {
    let found = cpu.core.cores.pools().headed(pool.base);
    found.filter(|(_, shared)| shared.state() == PoolState::Open).ok_or(Status::WrongState)
}

/// Creates an object, and a capability to all of it in the empty slot `dst`; see [`captypes::op::CreateMorsel`].
pub fn create(cpu: &mut CpuDriver, pool: &RawCap, order: u32, dst: SlotRef) -> Result<u64> {
    let (number, shared) = number_of(cpu, pool)?;
    let order = order_of(order)?;
    let record = changing(cpu, shared, |cpu| {
        reap_some(cpu, number, shared)?;
        with_pool(cpu, number, |objects| {
            let id = free_record(objects, shared)?;
            let record = objects.create(id, order, [0; 4])?;
            // Whoever creates it mostly maps it, or writes to it.
            morsels::note(objects, record);
            Ok(record)
        })
    })?;
    insert_new(cpu, pool, number, record.id, dst);
    Ok(u64::from(record.id))
}

/// Makes the first capability to an object.
fn insert_new(cpu: &mut CpuDriver, pool: &RawCap, number: usize, record: u32, dst: SlotRef) {
    let object = morsels::object(number, record);
    let attrs = pool.attrs & attr::INHERITED;
    cpu.caps.db.insert(dst, morsels::whole(object, cpu.core.id, Rights::ALL.0, attrs));
}

fn order_of(order: u32) -> Result<u8> {
    u8::try_from(order).ok().filter(|order| *order <= 4).ok_or(Status::OutOfRange)
}

/// Creates an object with a limit and its first pages; see [`captypes::op::MakeMorsel`].
pub fn make(
    cpu: &mut CpuDriver,
    pool: &RawCap,
    order: u32,
    (limit, pages): (u64, u64),
    dst: SlotRef,
) -> Result<Made> {
    let (number, shared) = number_of(cpu, pool)?;
    let order = order_of(order)?;
    let (record, pages) = changing(cpu, shared, |cpu| {
        reap_some(cpu, number, shared)?;
        with_pool(cpu, number, |objects| {
            let id = free_record(objects, shared)?;
            let (record, pages) = objects.create_filled(id, order, limit, pages)?;
            morsels::note(objects, record);
            Ok((record, pages))
        })
    })?;
    insert_new(cpu, pool, number, record.id, dst);
    Ok(Made { record: record.id, pages })
}

/// Creates an object that belongs at an address; see [`captypes::op::CreateMeta`].
pub fn create_meta(cpu: &mut CpuDriver, pool: &RawCap, order: u32, address: u64) -> Result<u64> {
    let (number, shared) = number_of(cpu, pool)?;
    let order = u8::try_from(order).map_err(|_| Status::OutOfRange)?;
    if order > 4 || address & ((pages_of(order) << 12) - 1) != 0 {
        return Err(Status::OutOfRange);
    }
    let made = changing(cpu, shared, |cpu| {
        with_pool(cpu, number, |objects| {
            let meta = free_record(objects, shared)?;
            let data = next_free(objects, meta + 1).ok_or(Refused::Again)?;
            objects.create_meta(meta, data, order, address)
        })
    });
    made.map(|meta| u64::from(meta.id))
}

/// A record that is free, in the page at the cursor or one of those behind it.
fn free_record(
    objects: &Objects<'_, '_, Scheduler>,
    shared: &SharedPool,
) -> core::result::Result<u32, Refused> {
    let directory = objects.anchor(objects.directory());
    // One page more than there is: it grows.
    let pages = (pages_of(directory.order()) as u32).saturating_add(1).min(1 << 18);
    for _ in 0..MOST_SEARCHED {
        let page = shared.cursor.load(Relaxed) % pages;
        if let Some(id) = objects.free_id(page * RECORDS) {
            shared.searched.store(0, Relaxed);
            return Ok(id);
        }
        shared.cursor.store(page + 1, Relaxed);
        let searched = shared.searched.load(Relaxed) + 1;
        shared.searched.store(searched % (pages + 1), Relaxed);
        if searched > pages {
            return Err(Refused::NoMemory);
        }
    }
    Err(Refused::Again)
}

/// A record that is free, in the page of `from` behind it, or in the next one.
fn next_free(objects: &Objects<'_, '_, Scheduler>, from: u32) -> Option<u32> {
    let end = (from / RECORDS + 2) * RECORDS;
    (from..end).find(|&id| objects.record(id).is_none_or(|r| objects.anchor(r) == Anchor::FREE))
}

/// Makes a capability to an object that is there; see [`captypes::op::OpenMorsel`].
pub fn open(
    cpu: &mut CpuDriver,
    pool: &RawCap,
    record: u32,
    rights: Rights,
    dst: SlotRef,
) -> Result<()> {
    let (number, shared) = number_of(cpu, pool)?;
    let writes = !Rights::READ.or(Rights::EXEC).has(rights);
    if writes && !pool.rights_set().has(Rights::WRITE) {
        return Err(Status::NoRights);
    }
    let known = Rights::READ.or(Rights::WRITE).or(Rights::EXEC).or(Rights::REVOKE);
    if record == 0 || !known.has(rights) {
        return Err(Status::Invalid);
    }
    let stays = changing(cpu, shared, |cpu| {
        shared.changes.occupy();
        with_pool(cpu, number, |objects| {
            let record = objects.open(record)?;
            Ok(objects.anchor(record).has(Anchor::OWNED))
        })
    })?;
    let object = morsels::object(number, record);
    let mut cap = morsels::whole(object, cpu.core.id, rights.0, pool.attrs & attr::INHERITED);
    match cpu.caps.db.find(&cap) {
        Some(like) => {
            begin_deletion_anew(&cpu.caps.db, like);
            cap.attrs = copied_attrs(like.cap().attrs);
        }
        // Nobody here knows who else has what.
        None if shared.reach.may_be_away(record) && !stays => cap.attrs |= attr::FOREIGN,
        None => {}
    }
    cpu.caps.db.insert(dst, cap);
    Ok(())
}

/// The first object from a record on; see [`captypes::op::NextMorsel`].
pub fn next(cpu: &mut CpuDriver, pool: &RawCap, record: u32) -> Result<MorselFacts> {
    let (number, _) = number_of(cpu, pool)?;
    with_pool(cpu, number, |objects| {
        let mut id = record.max(1);
        let most = pages_of(objects.anchor(objects.directory()).order());
        while u64::from(id / RECORDS) < most {
            match objects.record(id) {
                Some(_) if objects.open(id).is_ok() => return facts(objects, objects.open(id)?),
                Some(_) => id += 1,
                None => id = (id / RECORDS + 1) * RECORDS,
            }
        }
        Err(Refused::Gone)
    })
}

fn facts(
    objects: &Objects<'_, '_, Scheduler>,
    record: Record,
) -> core::result::Result<MorselFacts, Refused> {
    let anchor = objects.anchor(record);
    let mut facts = MorselFacts {
        record: record.id,
        order: u32::from(anchor.order()),
        flags: 0,
        limit: objects.limit(record),
        other: 0,
        address: 0,
    };
    if anchor.has(Anchor::META) {
        let described = objects.described(record)?;
        facts.flags |= MorselFacts::META;
        (facts.other, facts.address) = (described.data.id, described.address);
    }
    if anchor.has(Anchor::OWNED) {
        facts.flags |= MorselFacts::OWNED;
        facts.other = objects.other(record);
    }
    if anchor.has(Anchor::LARGE) {
        facts.flags |= MorselFacts::LARGE;
    }
    Ok(facts)
}

/// How much a pool has; see [`captypes::op::PoolInfo`].
pub fn pool_info(cpu: &mut CpuDriver, pool: &RawCap) -> Result<PoolFacts> {
    let (number, shared) = number_of(cpu, pool)?;
    with_pool(cpu, number, |objects| {
        let allocator = objects.pages.pool();
        let (pages, own) = match shared.is_apart() {
            true => (pool.word / PAGE + shared.growth.present(), pool.word / PAGE),
            false => (shared.frames(), allocator.geometry.own_frames() as u64),
        };
        Ok(PoolFacts {
            pages,
            free: (allocator.free() - allocator.free_slots()) as u64,
            own,
            slots: allocator.free_slots() as u64,
            records: pages_of(objects.anchor(objects.directory()).order()) * u64::from(RECORDS),
        })
    })
}

/// What an object is; see [`captypes::op::MorselInfo`].
pub fn info(cpu: &mut CpuDriver, cap: &RawCap) -> Result<MorselFacts> {
    with_object(cpu, cap, facts)
}

/// The pages of a range that a capability covers, from its own first page on.
fn pages(cap: &RawCap, first: u64, count: u64) -> Result<(u64, u64)> {
    if first > cap.word || count > cap.word - first {
        return Err(Status::OutOfRange);
    }
    let from = first_page(cap) + first;
    Ok((from, from + count))
}

/// Does something with a range of pages step by step. Returns the first page that it has not come to.
fn in_steps(
    cpu: &mut CpuDriver,
    cap: &RawCap,
    (first, count): (u64, u64),
    mut step: impl FnMut(
        &Objects<'_, '_, Scheduler>,
        Record,
        u64,
        u64,
    ) -> core::result::Result<u64, Refused>,
) -> Result<u64> {
    let (mut at, end) = pages(cap, first, count)?;
    let begun = at;
    with_object(cpu, cap, |objects, record| {
        for _ in 0..STEPS {
            if at >= end {
                break;
            }
            match step(objects, record, at, end) {
                Ok(next) => at = next,
                // What was done is done.
                Err(_) if at > begun => break,
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    })?;
    Ok(at - first_page(cap))
}

/// Makes pages; see [`captypes::op::PopulateMorsel`].
pub fn populate(cpu: &mut CpuDriver, cap: &RawCap, range: (u64, u64), large: bool) -> Result<u64> {
    in_steps(cpu, cap, range, |objects, record, at, end| objects.populate(record, at, end, large))
}

/// Takes pages away; see [`captypes::op::DiscardMorsel`].
pub fn discard(cpu: &mut CpuDriver, cap: &RawCap, range: (u64, u64)) -> Result<u64> {
    let (first, end) = pages(cap, range.0, range.1)?;
    taking(cpu, object_of(cap), first..end, |cpu| {
        in_steps(cpu, cap, range, |objects, record, at, end| objects.discard(record, at, end))
    })
}

/// Writes pages back; see [`captypes::op::WriteBackMorsel`].
pub fn write_back(cpu: &mut CpuDriver, cap: &RawCap, range: (u64, u64)) -> Result<u64> {
    // What was written through entries of others, or by devices, is not marked in those of the object.
    let all = is_written_elsewhere(cpu, cap) || is_written_unmarked(&cpu.caps, cap);
    in_steps(cpu, cap, range, |objects, record, at, end| {
        objects.write_back_pages(record, at, end, all)
    })
}

/// Which pages are there; see [`captypes::op::SurveyMorsel`].
pub fn survey(
    cpu: &mut CpuDriver,
    cap: &RawCap,
    range: (u64, u64),
    until: u32,
) -> Result<Surveyed> {
    let until = match until {
        0 => Until::End,
        1 => Until::Page,
        2 => Until::Hole,
        _ => return Err(Status::Invalid),
    };
    let (mut counted, mut large, mut out, mut found, mut stopped_at) = (0, 0, 0, false, 0);
    let next = in_steps(cpu, cap, range, |objects, record, at, end| {
        let step = objects.survey(record, at, end, until)?;
        counted += step.pages;
        large += step.large;
        out += step.out;
        (found, stopped_at) = (step.found, step.next);
        // What was looked for ends the steps.
        Ok(if found { end } else { step.next })
    })?;
    let next = if found { stopped_at - first_page(cap) } else { next };
    Ok(Surveyed { next, pages: counted, found: u32::from(found), large, out })
}

/// May another core show pages of what a capability covers one by one, or to devices?
fn is_written_elsewhere(cpu: &CpuDriver, cap: &RawCap) -> bool {
    let object = object_of(cap);
    let pool = cpu.core.cores.pools().get(pool_of(object));
    pool.is_none_or(|pool| pool.reach.may_be_away(record_of(object)))
}

/// Are pages of what a capability covers shown one by one, or to devices?
fn is_written_unmarked(caps: &CapSpace, cap: &RawCap) -> bool {
    let leaves = caps.db.overlapping(MORSELS, cap.base, cap.word, Class::Leaves);
    leaves.map(|slot| slot.cap()).any(|cap| is_borrowed(&cap) || is_in_device(&cap))
}

/// Something of an object goes to another core.
pub fn set_away(cpu: &CpuDriver, cap: &RawCap) {
    if cap.is(CapType::Morsel) {
        let object = object_of(cap);
        cpu.core.cores.pools().note_away(pool_of(object), Some(record_of(object)));
    }
}

/// The other cores that may have objects of a pool of which no monitor has heard; see [`captypes::op::Makers`].
pub fn makers(cpu: &CpuDriver, base: u64) -> u64 {
    let object = base / morsels::MOST_PAGES;
    cpu.core.cores.pools().get(pool_of(object)).map_or(0, |pool| pool.reach.makers())
}

/// May a Morsel go to another core? Not if its pool is being closed; nor if a meta morsel describes its object: it goes with
/// that, which only the core of the pool would know.
pub fn may_travel(cpu: &mut CpuDriver, cap: &RawCap) -> bool {
    let described =
        with_object(cpu, cap, |objects, record| Ok(objects.anchor(record).has(Anchor::OWNED)));
    described == Ok(false)
}

/// Makes a capability to a part; see [`captypes::op::PartMorsel`].
pub fn part(
    cpu: &mut CpuDriver,
    from: SlotRef,
    first: u64,
    order: u32,
    dst: SlotRef,
) -> Result<()> {
    cpu.caps.check_lock(from)?;
    let cap = from.cap();
    let order = u8::try_from(order).map_err(|_| Status::OutOfRange)?;
    if order == 0 || order > 4 {
        return Err(Status::OutOfRange);
    }
    let (at, end) = pages(&cap, first, pages_of(order))?;
    with_object(cpu, &cap, |objects, record| {
        let most = objects.anchor(record).order();
        if order > most || at & (pages_of(order) - 1) != 0 {
            return Err(Refused::Beyond);
        }
        objects.part(record, at, order)
    })?;
    let base = morsels::key(object_of(&cap), at);
    let mut new = RawCap { base, word: end - at, aux: unpassed(cap.aux), ..cap };
    new.attrs = match cpu.caps.db.find(&new) {
        Some(like) => {
            begin_deletion_anew(&cpu.caps.db, like);
            copied_attrs(like.cap().attrs)
        }
        None => attrs_of_part(cap.attrs),
    };
    cpu.caps.db.insert_near(dst, new, from);
    Ok(())
}

/// The attributes of a part. If another core may have something of what it is made of, it may have made the same part.
fn attrs_of_part(attrs: u16) -> u16 {
    let shared = attrs & (attr::FOREIGN | attr::COPIES_OR_DESCENDANTS) != 0;
    made_attrs(attrs) | if shared { attr::FOREIGN } else { 0 }
}

/// Only who has all of an object may change what it is. Returns its pool.
fn whole(cpu: &CpuDriver, cap: &RawCap) -> Result<&'static SharedPool> {
    is_whole(cap).then_some(()).ok_or(Status::OutOfRange)?;
    morsels::open_pool(cpu.core, pool_of(object_of(cap))).ok_or(Status::WrongState)
}

/// Makes an object larger; see [`captypes::op::GrowMorsel`].
pub fn grow(cpu: &mut CpuDriver, cap: &RawCap) -> Result<()> {
    let shared = whole(cpu, cap)?;
    let behind = behind_limit(cpu, cap, u64::MAX)?;
    taking(cpu, object_of(cap), behind, |cpu| {
        with_object(cpu, cap, |objects, record| {
            settle(objects, record, shared)?;
            objects.grow(record)
        })
    })
}

/// The pages that are not inside the limit, or will not be when it is lower.
fn behind_limit(cpu: &mut CpuDriver, cap: &RawCap, bytes: u64) -> Result<Range<u64>> {
    let limit = with_object(cpu, cap, |objects, record| Ok(objects.limit(record)))?;
    Ok(limit.min(bytes) / PAGE..morsels::MOST_PAGES)
}

/// Says how large the pages are to be that are made; see [`captypes::op::AdviseMorsel`].
pub fn advise(cpu: &mut CpuDriver, cap: &RawCap, large: bool) -> Result<()> {
    whole(cpu, cap)?;
    with_object(cpu, cap, |objects, record| objects.set_large(record, large))
}

/// Sets the size of an object; see [`captypes::op::LimitMorsel`].
pub fn limit(cpu: &mut CpuDriver, cap: &RawCap, bytes: u64) -> Result<()> {
    let shared = whole(cpu, cap)?;
    let behind = behind_limit(cpu, cap, bytes)?;
    taking(cpu, object_of(cap), behind, |cpu| {
        with_object(cpu, cap, |objects, record| set_limit(objects, record, shared, bytes))
    })
}

fn set_limit(
    objects: &Objects<'_, '_, Scheduler>,
    record: Record,
    shared: &SharedPool,
    bytes: u64,
) -> core::result::Result<(), Refused> {
    // A repetition, or what somebody else has left.
    settle(objects, record, shared)?;
    if objects.limit(record) == bytes {
        return Ok(());
    }
    objects.limit_to(record, bytes)?;
    shared.set_trimmed(record.id, 0);
    match finish_trim(objects, record, shared) {
        // What is behind the limit nobody sees. It goes before the limit rises, or anything else is done to all of it.
        Err(Refused::NoMemory) => Ok(()),
        done => done,
    }
}

/// Raises the limit and makes pages up to it; see [`captypes::op::ExtendMorsel`].
pub fn extend(cpu: &mut CpuDriver, cap: &RawCap, bytes: u64, first: u64) -> Result<u64> {
    whole(cpu, cap)?;
    let count = bytes.div_ceil(PAGE).saturating_sub(first);
    let mut is_raised = false;
    in_steps(cpu, cap, (first, count), |objects, record, at, end| {
        if !is_raised {
            raise(objects, record, bytes)?;
            is_raised = true;
        }
        objects.populate(record, at, end, false)
    })
}

/// Nobody has anything of what is behind a limit that is not inside a page, once that has gone.
fn raise(
    objects: &Objects<'_, '_, Scheduler>,
    record: Record,
    bytes: u64,
) -> core::result::Result<(), Refused> {
    let old = objects.limit(record);
    if bytes <= old || !old.is_multiple_of(PAGE) || objects.anchor(record).has(Anchor::TRIMMING) {
        return Err(Refused::Invalid);
    }
    objects.limit_to(record, bytes)
}

/// Allows that the limit is raised; see [`captypes::op::AllowRaising`].
pub(super) fn allow_raising(cpu: &mut CpuDriver, cap: &RawCap, pages: u64) -> Result<u64> {
    whole(cpu, cap)?;
    with_object(cpu, cap, |objects, record| objects.allow_raising(record, pages))
}

/// What is behind the limit is gone, before something is done to all of an object.
fn settle(
    objects: &Objects<'_, '_, Scheduler>,
    record: Record,
    shared: &SharedPool,
) -> core::result::Result<(), Refused> {
    match objects.anchor(record).has(Anchor::TRIMMING) {
        true => finish_trim(objects, record, shared),
        false => Ok(()),
    }
}

/// Takes away what is behind the limit.
fn finish_trim(
    objects: &Objects<'_, '_, Scheduler>,
    record: Record,
    shared: &SharedPool,
) -> core::result::Result<(), Refused> {
    let mut from = shared.trimmed(record.id);
    for _ in 0..STEPS {
        match objects.trim(record, from)? {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
    shared.set_trimmed(record.id, from);
    Err(Refused::Again)
}

/// Removes what shows single pages of an object, before all of its pages change hands.
fn unmap_pages(cpu: &mut CpuDriver, cap: &RawCap) -> Result<()> {
    let (object, CpuDriver { caps, vm, .. }) = (object_of(cap), cpu);
    Ok(unmap_borrowed(vm, caps, object, 0..morsels::MOST_PAGES - 1, |caps| caps.spend(1))?)
}

/// Does something with all of an object, and with its pool; nobody shows single pages of it then.
fn with_all<R>(
    cpu: &mut CpuDriver,
    cap: &RawCap,
    work: impl FnOnce(&mut CpuDriver, &'static SharedPool) -> Result<R>,
) -> Result<R> {
    let shared = whole(cpu, cap)?;
    unmap_pages(cpu, cap)?;
    changing(cpu, shared, |cpu| {
        taking(cpu, object_of(cap), 0..morsels::MOST_PAGES, |cpu| work(cpu, shared))
    })
}

/// Makes an object that has what another has; see [`captypes::op::SnapshotMorsel`].
pub fn snapshot(cpu: &mut CpuDriver, cap: &RawCap, dst: SlotRef) -> Result<u64> {
    let (id, is_home) = (cpu.core.id, morsels::is_at_home(cpu.core, cap));
    let (new, shared) = with_all(cpu, cap, |cpu, shared| {
        let new = with_object(cpu, cap, |objects, record| {
            settle(objects, record, shared)?;
            let new = free_record(objects, shared)?;
            if !is_home {
                // Before anybody can open it.
                shared.reach.note_maker(id, new);
            }
            objects.snapshot(record, new)
        })?;
        Ok((new, shared))
    })?;
    let object = morsels::object(pool_of(object_of(cap)), new.id);
    // Who has the pool may open it at any time.
    let attrs = cap.attrs & attr::INHERITED | if is_home { 0 } else { attr::FOREIGN };
    cpu.caps.db.insert(dst, morsels::whole(object, shared.home(), Rights::ALL.0, attrs));
    Ok(u64::from(new.id))
}

/// What an object has now it has after a power failure; see [`captypes::op::CommitMorsel`].
pub fn commit(cpu: &mut CpuDriver, cap: &RawCap) -> Result<()> {
    let number = pool_of(object_of(cap));
    with_all(cpu, cap, |cpu, shared| {
        finish_reaping(cpu, number, shared)?;
        let old = with_object(cpu, cap, |objects, record| {
            settle(objects, record, shared)?;
            let id = free_record(objects, shared)?;
            objects.commit(record, id)
        })?;
        reap_later(cpu, number, shared, old)
    })
}

/// What was committed counts no more; see [`captypes::op::ReleaseCommit`].
pub fn release_commit(cpu: &mut CpuDriver, cap: &RawCap) -> Result<()> {
    let number = pool_of(object_of(cap));
    let shared = whole(cpu, cap)?;
    changing(cpu, shared, |cpu| {
        finish_reaping(cpu, number, shared)?;
        let old = with_object(cpu, cap, |objects, record| objects.release_commit(record))?;
        reap_later(cpu, number, shared, old)
    })
}

/// Begins to give back what only an earlier commit had. The rest is done when the pool is used the next time, or by
/// recovery: nobody needs to wait for it.
fn reap_later(
    cpu: &mut CpuDriver,
    number: usize,
    shared: &SharedPool,
    old: Option<Record>,
) -> Result<()> {
    if let Some(old) = old {
        shared.reaping.store(old.id, Relaxed);
        reap_some(cpu, number, shared)?;
    }
    Ok(())
}

/// Gives back a part of what an earlier commit had. Returns `true` if nothing of it is left.
fn reap_some(cpu: &mut CpuDriver, number: usize, shared: &SharedPool) -> Result<bool> {
    let id = shared.reaping.load(Relaxed);
    if id == 0 {
        return Ok(true);
    }
    let done = with_pool(cpu, number, |objects| {
        let old = objects.record(id).ok_or(Refused::Damaged)?;
        for _ in 0..STEPS {
            if objects.reap(old)? {
                return Ok(true);
            }
        }
        Ok(false)
    })?;
    if done {
        shared.reaping.store(0, Relaxed);
    }
    Ok(done)
}

fn finish_reaping(cpu: &mut CpuDriver, number: usize, shared: &SharedPool) -> Result<()> {
    match reap_some(cpu, number, shared)? {
        true => Ok(()),
        false => Err(Status::Again),
    }
}

/// Destroys an object, and then empties the slot; see [`captypes::op::DestroyMorsel`].
///
/// If another core may have something of it, the monitors ask all that may, as for a Retype; then this is done again, granted.
pub fn destroy(cpu: &mut CpuDriver, slot: SlotRef) -> Result<()> {
    cpu.caps.check_lock(slot)?;
    let cap = slot.cap();
    let shared = whole(cpu, &cap)?;
    let (number, id) = (pool_of(object_of(&cap)), record_of(object_of(&cap)));
    changing(cpu, shared, |cpu| {
        if cpu.caps.db.has_copies(slot) || cpu.caps.db.first_descendant(slot).is_some() {
            return Err(Status::HasDescendants);
        }
        if is_described_in_use(cpu, &cap)? {
            return Err(Status::HasDescendants);
        }
        check_elsewhere(cpu, slot, shared)?;
        with_pool(cpu, number, |objects| {
            let record = objects.record(id).ok_or(Refused::Gone)?;
            if objects.anchor(record).is_live() {
                objects.destroy(record)?;
            }
            for _ in 0..STEPS {
                if objects.reap(record)? {
                    return Ok(());
                }
            }
            Err(Refused::Again)
        })?;
        let shrank = shared.is_apart() && shrink_directory(cpu, number, id)?;
        // It is found at once by who creates the next one.
        shared.cursor.store(if shrank { 0 } else { id / RECORDS }, Relaxed);
        Ok(())
    })?;
    drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
    Ok(())
}

/// Has no other core anything of an object that is to be destroyed?
fn check_elsewhere(cpu: &mut CpuDriver, slot: SlotRef, shared: &SharedPool) -> Result<()> {
    let cap = slot.cap();
    if !cap.is_foreign() && !cap.has_remote(attr::COPIES_OR_DESCENDANTS) {
        return Ok(());
    }
    // What is being destroyed nobody can open, or send.
    let is_live = with_object(cpu, &cap, |_, _| Ok(()));
    if is_live == Err(Status::Empty) {
        return Ok(());
    }
    is_live?;
    if !cpu.caps.asks.is_granted(cap.base, cap.word) {
        return Err(cpu.caps.ask_range(slot, cap.base, cap.word).into());
    }
    // The others could only get something of it from somebody. Who has the pool needs nobody.
    let is_home = morsels::is_at_home(cpu.core, &cap);
    let stays = is_home || shared.changes.take_vacant(record_of(object_of(&cap)));
    stays.then_some(()).ok_or(Status::Again)
}

/// For another core, which is to destroy an object: has this one anything of it?
pub fn in_use(cpu: &mut CpuDriver, cap: &RawCap) -> bool {
    let mut all = cpu.caps.db.overlapping(MORSELS, cap.base, cap.word, Class::All);
    if all.next().is_some() {
        return true;
    }
    drop(all);
    let Some(shared) = morsels::open_pool(cpu.core, pool_of(object_of(cap))) else { return true };
    if shared.home() != cpu.core.id {
        return false;
    }
    // From here on who opens it says so.
    shared.changes.set_vacant(record_of(object_of(cap)));
    is_described_in_use(cpu, cap) != Ok(false)
}

/// Gives back the page with a record that is free, if there are no others in it. Returns `true` if it went.
fn shrink_directory(cpu: &mut CpuDriver, number: usize, id: u32) -> Result<bool> {
    let shrank = with_pool(cpu, number, |objects| {
        Ok(objects.record(id).is_some_and(|record| objects.shrink_directory(record)))
    })?;
    if shrank {
        for (_, core) in cpu.core.cores.iter() {
            core.pool_use.forget_record(number);
        }
    }
    Ok(shrank)
}

/// Does somebody have what a meta morsel describes, which goes with it?
fn is_described_in_use(cpu: &mut CpuDriver, meta: &RawCap) -> Result<bool> {
    let number = pool_of(object_of(meta));
    let other = match info(cpu, meta) {
        Ok(facts) if facts.flags & MorselFacts::META != 0 => facts.other,
        // It is dying already.
        Ok(_) | Err(Status::Empty) => return Ok(false),
        Err(status) => return Err(status),
    };
    let base = morsels::key(morsels::object(number, other), 0);
    let mut all = cpu.caps.db.overlapping(MORSELS, base, morsels::MOST_PAGES, Class::All);
    Ok(all.next().is_some())
}

/// Maps a morsel: its table by one entry of the level above, or single pages.
pub fn map(
    cpu: &mut CpuDriver,
    table: SlotRef,
    from: Held,
    args: MapArgs,
    dst: SlotRef,
) -> Result<()> {
    if table.cap().is(CapType::DeviceSpace) {
        return map_to_device(cpu, table, from, args, dst);
    }
    let (level, flags) = check_morsel(&mut cpu.vm, &cpu.caps, table, from, &args)?;
    let at = (args.entry, level, flags);
    match level {
        1 => show_singly(cpu, table, from, at, &args, dst),
        _ => show_at(cpu, table, from, at, &args, dst),
    }
}

/// Shows single pages at entries that were checked: they have to be cleared with the pages. (Apart, so that one entry is shown with
/// everything in registers.)
#[inline(never)]
fn show_singly(
    cpu: &mut CpuDriver,
    table: SlotRef,
    from: Held,
    at: (u32, u8, MapFlags),
    args: &MapArgs,
    dst: SlotRef,
) -> Result<()> {
    showing(cpu, object_of(&from.slot.cap()), |cpu| show_at(cpu, table, from, at, args, dst))
}

/// Shows a table, or single pages, at entries that were checked.
#[inline(always)]
fn show_at(
    cpu: &mut CpuDriver,
    table: SlotRef,
    from: Held,
    at: (u32, u8, MapFlags),
    args: &MapArgs,
    dst: SlotRef,
) -> Result<()> {
    let (cap, level) = (from.slot.cap(), at.1);
    let Some(root) = shown_root(cpu, &cap, level, args)? else {
        return map_pages(cpu, table, from.slot, at, args, dst);
    };
    let (base, is_table) = (root.0 * PAGE, level > 1);
    let shown = Shown { base, key: cap.base, is_table };
    show_morsel(&mut cpu.vm, &mut cpu.caps, table, from.slot, at, &[shown], dst);
    Ok(())
}

/// Maps a morsel in a DeviceSpace: its table by one entry.
fn map_to_device(
    cpu: &mut CpuDriver,
    table: SlotRef,
    from: Held,
    args: MapArgs,
    dst: SlotRef,
) -> Result<()> {
    let cap = from.slot.cap();
    let flags = check_device_map(&cpu.caps, table, from, &args)?;
    let root = shown_root(cpu, &cap, vtd::LEVEL, &args)?.ok_or(Status::WrongLevel)?;
    let shown = Shown { base: root.0 * PAGE, key: cap.base, is_table: true };
    let CpuDriver { caps, vm, .. } = cpu;
    show_to_device(vm, caps, (table, args.entry), (from.slot, shown, flags), dst);
    Ok(())
}

/// What an entry of a table of `level` is to show of a capability; `None` if that are single pages.
fn shown_root(
    cpu: &mut CpuDriver,
    cap: &RawCap,
    level: u8,
    args: &MapArgs,
) -> Result<Option<Frame>> {
    let (whole, first) = (is_whole(cap), first_page(cap));
    let is_one = args.count == 1 && args.offset == 0;
    if whole && is_one && level > 1 {
        if let Some(root) = known_root(cpu, object_of(cap), level - 1) {
            return Ok(Some(root));
        }
    }
    let root = with_object(cpu, cap, |objects, record| {
        morsels::note(objects, record);
        let anchor = objects.anchor(record);
        let order = if whole { anchor.order() } else { part_order(cap) };
        if level != order + 1 || !is_one {
            return Ok(Err(order));
        }
        let root = match whole {
            // Only what nobody else can change is shown as it is.
            true if order == 0 => objects.own_page(record, 0)?,
            true => anchor.root(),
            false => objects.part(record, first, order)?,
        };
        Ok(Ok(root))
    })?;
    match root {
        Ok(root) => Ok(Some(root)),
        Err(order) if level == 1 && order > 0 => Ok(None),
        Err(order) if level != order + 1 => Err(Status::WrongLevel),
        Err(_) => Err(Status::OutOfRange),
    }
}

/// The root of an object of this order, if this core has looked at its record last: what most want who map one, in line.
#[inline(always)]
fn known_root(cpu: &mut CpuDriver, object: u64, order: u8) -> Option<Frame> {
    let (core, number) = (cpu.core, pool_of(object));
    let shared = core.cores.pools().numbered(number);
    morsels::with_shared(core, (number, shared), &mut cpu.sched, None, |objects| {
        let anchor = objects.anchor(morsels::recent(objects, record_of(object))?);
        let is_it = anchor.is_open() && anchor.order() == order;
        (is_it && objects.memory.standing().is_open()).then(|| anchor.root())
    })
}

/// The order of a part.
fn part_order(cap: &RawCap) -> u8 {
    (cap.word.trailing_zeros() / 9) as u8
}

fn map_pages(
    cpu: &mut CpuDriver,
    table: SlotRef,
    from: SlotRef,
    at: (u32, u8, MapFlags),
    args: &MapArgs,
    dst: SlotRef,
) -> Result<()> {
    let count = args.count as usize;
    if count == 1 {
        let shown = page(cpu, &from.cap(), args.offset)?;
        show_morsel(&mut cpu.vm, &mut cpu.caps, table, from, at, &[shown], dst);
        return Ok(());
    }
    if count > MOST_SHOWN {
        return Err(Status::OutOfRange);
    }
    let cap = from.cap();
    if args.offset & (PAGE - 1) != 0 {
        return Err(Status::OutOfRange);
    }
    let (first, end) = pages(&cap, args.offset / PAGE, count as u64)?;
    let mut frames = [Frame(0); MOST_SHOWN];
    with_object(cpu, &cap, |objects, record| {
        let mut page = first;
        while page < end {
            let rest = &mut frames[(page - first) as usize..count];
            page += objects.own_pages(record, page, rest)? as u64;
        }
        Ok(())
    })?;
    let mut shown = [const { Shown { base: 0, key: 0, is_table: false } }; MOST_SHOWN];
    for (n, (shown, frame)) in shown.iter_mut().zip(frames).enumerate().take(count) {
        let key = morsels::key(object_of(&cap), first + n as u64);
        *shown = Shown { base: frame.0 * PAGE, key, is_table: false };
    }
    show_morsel(&mut cpu.vm, &mut cpu.caps, table, from, at, &shown[..count], dst);
    Ok(())
}

/// A page that is the object's own, to be shown by an entry of its own.
fn page(cpu: &mut CpuDriver, cap: &RawCap, offset: u64) -> Result<Shown> {
    if offset & (PAGE - 1) != 0 {
        return Err(Status::OutOfRange);
    }
    let (page, _) = pages(cap, offset / PAGE, 1)?;
    let frame = with_object(cpu, cap, |objects, record| objects.own_page(record, page))?;
    let key = morsels::key(object_of(cap), page);
    Ok(Shown { base: frame.0 * PAGE, key, is_table: false })
}

/// Makes the Mapping of one page in `slot` one of the first page of a morsel; see [`captypes::op::Replace`].
pub fn replace(cpu: &mut CpuDriver, slot: SlotRef, from: Held, flags: MapFlags) -> Result<()> {
    let cap = from.slot.cap();
    let old = crate::cap::mapping::Mapping::of(&slot.cap()).ok_or(Status::WrongType)?;
    if old.count != 1 || old.is_table || old.level != 1 {
        return Err(Status::OutOfRange);
    }
    let flags = granted_morsel(&cpu.caps, flags, from)?;
    showing(cpu, object_of(&cap), |cpu| {
        let page = page(cpu, &cap, 0)?;
        if slot.is_empty() {
            return Err(Status::Empty);
        }
        replace_by_morsel(&mut cpu.vm, &mut cpu.caps, slot, from.slot, flags, &page);
        Ok(())
    })
}

/// Copies a page of an object to the page at `to`, which is nobody's; see [`captypes::op::RetypeCopy`].
pub fn copy_page(cpu: &mut CpuDriver, cap: &RawCap, page: u64, to: u64) -> Result<()> {
    let (page, _) = pages(cap, page, 1)?;
    with_object(cpu, cap, |objects, record| {
        objects.look_at(record, page, |found| match found {
            Some(frame) => objects.memory.copy(frame, Frame(to / PAGE)),
            None => objects.memory.zero(Frame(to / PAGE)),
        })
    })
}

/// Copies bytes of an object to memory of the invoker; see [`captypes::op::ReadMorsel`].
pub fn read(cpu: &mut CpuDriver, cap: &RawCap, root: u64, at: (u64, u64, u64)) -> Result<Copied> {
    copy(cpu, cap, root, at, true)
}

/// The other way; see [`captypes::op::WriteMorsel`].
pub fn write(cpu: &mut CpuDriver, cap: &RawCap, root: u64, at: (u64, u64, u64)) -> Result<Copied> {
    copy(cpu, cap, root, at, false)
}

fn copy(
    cpu: &mut CpuDriver,
    cap: &RawCap,
    root: u64,
    (offset, va, bytes): (u64, u64, u64),
    reads: bool,
) -> Result<Copied> {
    let limit = with_object(cpu, cap, |objects, record| Ok(objects.limit(record)))?;
    let begin = first_page(cap) * PAGE;
    let end = limit.saturating_sub(begin).min(cap.word.saturating_mul(PAGE));
    let wanted = bytes.min(MOST_COPIED);
    let there = wanted.min(end.saturating_sub(offset));
    let mut walk = Walk::new(root, reads);
    let mut done = 0;
    while done < there {
        let at = offset + done;
        let page = (begin + at) / PAGE;
        let theirs = |Frame(frame): Frame| frame * PAGE + at % PAGE;
        // The invoker's page may be an object's, too: both are found, and stay there, during one walk.
        let copied = with_object(cpu, cap, |objects, record| {
            let mut find = || {
                let (own, here) = walk.page(va.wrapping_add(done))?;
                Some((own, here.min(PAGE - at % PAGE).min(there - done)))
            };
            let copy = |to, from, step| {
                objects.memory.with_vectors(|| mem::copy_bytes(to, from, step));
                step
            };
            match reads {
                true => objects.look_at(record, page, |found| {
                    find().map(|(own, step)| match found {
                        Some(frame) => copy(own, theirs(frame), step),
                        None => {
                            mem::zero_bytes(own, step);
                            step
                        }
                    })
                }),
                false => objects.with_own_page(record, page, |frame| {
                    find().map(|(own, step)| copy(theirs(frame), own, step))
                }),
            }
        });
        match copied {
            Ok(Some(step)) => done += step,
            Ok(None) => return Ok(Copied { bytes: done, short: 2 }),
            Err(_) if done > 0 => return Ok(Copied { bytes: done, short: 1 }),
            Err(status) => return Err(status),
        }
    }
    let short = if there < wanted { 1 } else { 0 };
    Ok(Copied { bytes: done, short })
}

/// Before the last capability to a pool goes: there are no objects of it any more.
pub(super) fn close_pool(cpu: &mut CpuDriver, cap: &RawCap) -> Progress {
    match cpu.core.cores.pools().headed(cap.base) {
        Some((number, _)) => close(cpu, number),
        None => Ok(()),
    }
}

/// All capabilities to objects of a pool go, and it is none any more.
pub(super) fn close(cpu: &mut CpuDriver, number: usize) -> Progress {
    let Some(shared) = cpu.core.cores.pools().get(number) else { return Ok(()) };
    shared.set_state(PoolState::Closing);
    cpu.forming.forget(number);
    if shared.reach.is_away() {
        leave_to_monitors(cpu, number)?;
    }
    let (base, end) = (morsels::key(morsels::object(number, 0), 0), morsels::object(number + 1, 0));
    let len = morsels::key(end, 0) - base;
    loop {
        let mut all = cpu.caps.db.overlapping(MORSELS, base, len, Class::All);
        let Some(slot) = all.next() else { break };
        drop(all);
        if !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
        while let Some(copy) = cpu.caps.db.a_copy(slot) {
            drop_slot(&mut cpu.caps, &mut cpu.sched, copy);
            if !cpu.caps.spend(1) {
                return Err(Pause::Again);
            }
        }
        delete_slot(cpu, slot)?;
    }
    // Nobody may be looking at its tables when its memory goes, nor have cached what they say.
    let CpuDriver { vm, sched, core, .. } = cpu;
    vm.flush(|| sched.wait_for_others());
    morsels::settle(*core, number, sched);
    shared.set_state(PoolState::None);
    Ok(())
}

/// Other cores may have something of the objects of a pool that goes: the monitors delete it, and this core waits, by repetition,
/// until what stands for all of that is deleted here, too.
#[cold]
fn leave_to_monitors(cpu: &mut CpuDriver, number: usize) -> Progress {
    let all = morsels::all_of_pool(number, cpu.core.id);
    if cpu.caps.db.find(&all).is_none() {
        leave_objects(cpu, all)?;
    }
    Err(Pause::Again)
}

/// Removes the Mappings of a morsel whose last capability goes, but for those that a part stands behind.
pub(super) fn unmap_morsel(cpu: &mut CpuDriver, slot: SlotRef, cap: &RawCap) -> Progress {
    if morsels::is_all_of_pool(cap) {
        // No other core has anything of it any more. What this one has goes with the pool.
        if let Some(pool) = cpu.core.cores.pools().get(pool_of(object_of(cap))) {
            pool.reach.clear();
        }
        return Ok(());
    }
    let above = cpu.caps.db.nearest_ancestor(slot).map(|above| above.cap());
    // One that is being deleted does not stand behind what it has passed.
    if above.is_some_and(|above| above.is(CapType::Morsel) && not_passed(&above) <= cap.base) {
        return Ok(());
    }
    let end = cap.base + cap.word;
    let first_from = |caps: &CapSpace, key: u64| caps.db.first_inside(MORSELS, key, end - key);
    let from = not_passed(cap);
    let mut covered = end_of_part_around(&cpu.caps, cap, from);
    let mut next = match from == cap.base {
        true => cpu.caps.db.next_before(slot, end),
        false => first_from(&cpu.caps, from),
    };
    let mut looked_at = 0;
    while let Some(at) = next {
        let inner = at.cap();
        looked_at += 1;
        if looked_at % LOOKED_AT_PER_STEP == 0 && !cpu.caps.spend(1) {
            return pause_unmapping(slot, cap, inner.base);
        }
        next = cpu.caps.db.next_before(at, end);
        if inner.is(CapType::Morsel) {
            covered = covered.max(inner.base + inner.word);
        } else if inner.base + crate::cap::mapping::shown_pages(&inner) > covered {
            if !cpu.caps.spend(1) {
                return pause_unmapping(slot, cap, inner.base);
            }
            cpu.vm.remove_mapping(&mut cpu.caps, at);
        } else if next.is_some_and(|next| next.cap().base == inner.base) && inner.base + 1 < end {
            // None of those from the same page on is longer: they are covered, too, however many they are.
            next = first_from(&cpu.caps, inner.base + 1);
        }
    }
    Ok(())
}

/// Where the longest part of `own` ends that begins before a page where a span does, and reaches behind it; that page, if there is none.
fn end_of_part_around(caps: &CapSpace, own: &RawCap, key: u64) -> u64 {
    let parts = (0..).map(pages_of).take_while(|pages| *pages < own.word);
    let around = parts.map(|word| RawCap { base: key & !(word - 1), word, ..*own });
    let there = around.filter(|part| part.base < key && caps.db.find(part).is_some());
    there.map(|part| part.base + part.word).max().unwrap_or(key)
}

/// The rest another time. The capability has no rights any more: no Mapping of it comes to where the deletion has been.
/// (If it has not passed a span, it begins anew: so far it always comes, as what it finds there is not more than it may look at.)
#[cold]
fn pause_unmapping(slot: SlotRef, own: &RawCap, key: u64) -> Progress {
    let passed = with_passed(own, key);
    if passed != unpassed(own.aux) {
        slot.set_rights(Rights::NONE.0, own.attrs);
        slot.set_aux(passed);
    }
    Err(Pause::Again)
}

/// Capabilities in a morsel that are looked at for the price of one step, when its last capability goes: in one event more than
/// there can be that begin in a span.
const LOOKED_AT_PER_STEP: u32 = 16;
const _: () = assert!(MOST_SHOWN <= ENTRIES);
