//! Pools and morsels: capabilities, entries and faults.

use super::machine::*;
use crate::cap::{CapExt, MORSELS};
use crate::events::on_trap;
use crate::object::{mem, Walk};
use captypes::invocations::{MapFlags, MorselFacts};
use captypes::{op, CapAddr, CapType, Rights, Status};

pub(super) const R: MapFlags = MapFlags::READ;
pub(super) const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const POOL: CapAddr = CapAddr(40);
const PDPT: CapAddr = CapAddr(41);
pub(super) const PD: CapAddr = CapAddr(42);
pub(super) const PT: CapAddr = CapAddr(43);
/// Where the pool begins in the RAM, which itself begins 1 MiB behind a multiple of 2 MiB.
const POOL_AT: u64 = 1 << 20;
const POOL_BYTES: u64 = 8 << 20;
/// Of the RAM, behind the pool.
const REST: u64 = POOL_AT + POOL_BYTES;
/// What the tables translate: entry 0 of PDPT is PD, entry 0 of that is PT.
pub(super) const AT: u64 = 1 << 30;

pub(super) fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// A machine with a pool, and tables for addresses from `AT` on.
pub(super) fn machine() -> Machine {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Pool, POOL_AT, POOL_BYTES, 1, POOL).unwrap();
    m.make(CapType::Pdpt, REST, 4096, 41);
    m.make(CapType::Pd, REST + 0x1000, 4096, 42);
    m.make(CapType::Pt, REST + 0x2000, 4096, 43);
    m.map(VSPACE, 0, 1, PDPT, RW, at(50)).unwrap();
    m.map(PDPT, 1, 1, PD, RW, at(51)).unwrap();
    m.map(PD, 0, 1, PT, RW, at(52)).unwrap();
    m.until_done(POOL, op::FormatPool { domain: 0 }).unwrap();
    m
}

pub(super) fn create(m: &mut Machine, order: u32, slot: u32) -> u32 {
    let dst = at(slot).into();
    m.until_done(POOL, op::CreateMorsel { order, dst }).unwrap().value as u32
}

pub(super) fn free(m: &mut Machine) -> u64 {
    m.call(POOL, op::PoolInfo {}).unwrap().free
}

/// An access that has failed; whether the kernel served it. (A second one says so: it goes to nobody.)
pub(super) fn fault(m: &mut Machine, error: u64, address: u64) -> bool {
    let (dcb, rip) = (m.dcb, m.dcb.ctx.rip.get());
    let core = &mut m.core.local;
    let served = crate::operations::morsels::show(core, dcb, error, address);
    assert_eq!(m.dcb.ctx.rip.get(), rip);
    m.check();
    served
}

pub(super) const READ: u64 = 4;
pub(super) const WRITE: u64 = 6;
const WRITE_PRESENT: u64 = 7;

/// The page that an address translates to.
pub(super) fn page(m: &Machine, va: u64, write: bool) -> Option<u64> {
    Walk::new(m.dcb.root.get(), write).page(va).map(|(pa, _)| pa)
}

pub(super) fn poke(m: &Machine, va: u64, value: u64) {
    let pa = page(m, va, true).expect("it can be written");
    mem::PoolWord::at(pa).cell().store(value, std::sync::atomic::Ordering::Relaxed);
}

pub(super) fn peek(m: &Machine, va: u64) -> u64 {
    let pa = page(m, va, false).expect("it can be read");
    mem::PoolWord::at(pa).cell().load(std::sync::atomic::Ordering::Relaxed)
}

/// Entry 1 of the directory.
pub(super) const SECOND: u64 = AT + (2 << 20);

#[test]
fn an_object_is_mapped_by_one_entry_and_populated_by_faults() {
    let mut m = machine();
    let record = create(&mut m, 1, 60);
    let before = free(&mut m);
    m.map(PD, 1, 1, at(60), RW, at(61)).unwrap();
    assert_eq!(page(&m, SECOND, false), None);
    assert!(fault(&mut m, WRITE, SECOND + 5 * 4096 + 8));
    assert_eq!(free(&mut m), before - 1);
    poke(&m, SECOND + 5 * 4096 + 8, 77);
    // Through another entry it is the same page.
    m.map(PD, 2, 1, at(60), R, at(62)).unwrap();
    let third = SECOND + (2 << 20);
    assert_eq!(peek(&m, third + 5 * 4096 + 8), 77);
    assert_eq!(page(&m, third + 5 * 4096, true), None, "the entry above gives no right to write");
    assert!(!fault(&mut m, WRITE_PRESENT, third + 5 * 4096));
    // A hole that is read costs nothing.
    assert!(fault(&mut m, READ, third + 6 * 4096));
    assert_eq!(free(&mut m), before - 1);
    // And is a page when it is written.
    assert!(fault(&mut m, WRITE_PRESENT, SECOND + 6 * 4096));
    assert!(page(&m, SECOND + 6 * 4096, true).is_some());
    let facts = m.call(at(60), op::MorselInfo {}).unwrap();
    let expected = MorselFacts { record, order: 1, flags: 0, limit: 2 << 20, other: 0, address: 0 };
    assert_eq!(facts, expected);
}

#[test]
fn other_faults_are_not_served() {
    let mut m = machine();
    create(&mut m, 1, 60);
    assert!(!fault(&mut m, WRITE, SECOND));
    m.map(PD, 1, 1, at(60), RW, at(61)).unwrap();
    for address in [AT, SECOND + (2 << 20), 0, 1 << 46, 1 << 47, u64::MAX] {
        assert!(!fault(&mut m, WRITE, address), "{address:x}");
    }
    m.call(at(61), op::Protect { first: 0, count: 1, flags: R }).unwrap();
    assert!(!fault(&mut m, WRITE, SECOND));
    assert!(fault(&mut m, READ, SECOND));
    m.delete(at(61)).unwrap();
    assert!(!fault(&mut m, READ, SECOND));
}

#[test]
fn behind_the_limit_is_nothing() {
    let mut m = machine();
    create(&mut m, 1, 60);
    m.map(PD, 1, 1, at(60), RW, at(61)).unwrap();
    m.map(PT, 3, 1, at(60), RW, at(62)).unwrap();
    for n in 0..8 {
        assert!(fault(&mut m, WRITE, SECOND + n * 4096));
        poke(&m, SECOND + n * 4096 + 0x800, 1 + n);
    }
    let before = free(&mut m);
    m.until_done(at(60), op::LimitMorsel { bytes: 3 * 4096 + 0x400 }).unwrap();
    assert_eq!(free(&mut m), before + 4);
    assert!(!fault(&mut m, WRITE, SECOND + 4 * 4096));
    assert_eq!(page(&m, SECOND + 4 * 4096, false), None);
    assert_eq!(peek(&m, SECOND + 2 * 4096 + 0x800), 3);
    // What was behind it in the last page is zeros, also when the limit rises.
    m.until_done(at(60), op::LimitMorsel { bytes: 2 << 20 }).unwrap();
    assert_eq!(peek(&m, SECOND + 3 * 4096 + 0x800), 0);
    assert!(fault(&mut m, READ, SECOND + 4 * 4096));
    assert_eq!(page(&m, SECOND + 4 * 4096, true), None);
}

#[test]
fn single_pages_are_taken_away_with_those_of_the_object() {
    let mut m = machine();
    create(&mut m, 1, 60);
    let offset = 7 * 4096;
    let args = |entry, count, offset, slot: u32| op::Map {
        entry,
        count,
        src: at(60).into(),
        offset,
        flags: RW,
        mapping: at(slot).into(),
    };
    m.call(PT, args(3, 2, offset, 61)).unwrap();
    m.call(PT, args(9, 1, 0, 62)).unwrap();
    poke(&m, AT + 3 * 4096, 5);
    m.map(PD, 1, 1, at(60), RW, at(63)).unwrap();
    assert_eq!(peek(&m, SECOND + 7 * 4096), 5);
    assert_eq!(m.call(PT, args(3, 1, 0, 64)), Err(Status::Occupied));
    assert_eq!(m.call(PT, args(20, 1, 1 << 40, 64)), Err(Status::OutOfRange));
    assert_eq!(m.call(PT, args(20, 1, 5, 64)), Err(Status::OutOfRange));
    assert_eq!(m.call(PT, args(20, 65, 0, 64)), Err(Status::OutOfRange));
    let next = m.until_done(at(60), op::DiscardMorsel { first: 8, count: 1 }).unwrap().value;
    assert_eq!(next, 9);
    assert!(m.is_empty(at(61)) && !m.is_empty(at(62)));
    assert_eq!(page(&m, AT + 3 * 4096, false), None);
    assert!(page(&m, AT + 9 * 4096, true).is_some());
    // The snapshot has what was there, and the object goes on with pages of its own.
    poke(&m, AT + 9 * 4096, 9);
    m.until_done(at(60), op::SnapshotMorsel { dst: at(65).into() }).unwrap();
    assert!(m.is_empty(at(62)));
    m.call(PT, args(9, 1, 0, 62)).unwrap();
    assert_eq!(peek(&m, AT + 9 * 4096), 9);
    poke(&m, AT + 9 * 4096, 10);
    m.map(PD, 3, 1, at(65), R, at(66)).unwrap();
    assert_eq!(peek(&m, AT + (6 << 20)), 9);
    assert_eq!(peek(&m, SECOND), 10);
}

#[test]
fn a_table_takes_the_pages_that_it_shows_with_it() {
    let mut m = machine();
    create(&mut m, 1, 60);
    m.map(PT, 5, 1, at(60), RW, at(61)).unwrap();
    m.map(PD, 1, 1, at(60), RW, at(62)).unwrap();
    m.delete(PT).unwrap();
    assert!(m.is_empty(at(61)) && m.is_empty(at(52)) && !m.is_empty(at(62)));
    m.delete(PD).unwrap();
    assert!(m.is_empty(at(62)));
    assert!(!m.core.local.core.cores.pools().are_shown());
}

#[test]
fn parts_grown_objects_and_revocation() {
    let mut m = machine();
    create(&mut m, 1, 60);
    m.map(PD, 1, 1, at(60), RW, at(61)).unwrap();
    assert!(fault(&mut m, WRITE, SECOND));
    poke(&m, SECOND, 3);
    m.until_done(at(60), op::GrowMorsel {}).unwrap();
    m.until_done(at(60), op::LimitMorsel { bytes: 1 << 30 }).unwrap();
    assert_eq!(m.map(PD, 2, 1, at(60), RW, at(62)), Err(Status::WrongLevel));
    m.map(PDPT, 2, 1, at(60), RW, at(62)).unwrap();
    assert_eq!(peek(&m, 2 << 30), 3);
    assert_eq!(peek(&m, SECOND), 3);
    let part = |first, order, slot: u32| op::PartMorsel { first, order, dst: at(slot).into() };
    m.until_done(at(60), part(512, 1, 63)).unwrap();
    assert_eq!(m.call(at(60), part(100, 1, 64)), Err(Status::OutOfRange));
    assert_eq!(m.call(at(60), part(0, 3, 64)), Err(Status::OutOfRange));
    m.map(PD, 3, 1, at(63), RW, at(64)).unwrap();
    let part_va = AT + (6 << 20);
    assert!(fault(&mut m, WRITE, part_va + 4096));
    poke(&m, part_va + 4096, 8);
    assert_eq!(peek(&m, (2 << 30) + (2 << 20) + 4096), 8);
    assert_eq!(m.call(at(63), op::GrowMorsel {}), Err(Status::OutOfRange));
    // A part is revoked alone, by whoever may.
    m.call(at(63), op::Mint { dst: at(66).into(), rights: Rights::READ, badge: 0 }).unwrap();
    assert_eq!(m.revoke(at(66)), Err(Status::NoRights));
    m.map(PD, 4, 1, at(66), R, at(67)).unwrap();
    m.revoke(at(63)).unwrap();
    assert!(m.is_empty(at(66)) && m.is_empty(at(67)) && m.is_empty(at(64)) && !m.is_empty(at(62)));
    m.map(PD, 3, 1, at(63), RW, at(64)).unwrap();
    assert_eq!(peek(&m, part_va + 4096), 8);
    // What the part covers stays when the capability to the whole goes.
    m.call(at(60), op::Copy { dst: at(65).into() }).unwrap();
    m.delete(at(60)).unwrap();
    assert!(!m.is_empty(at(61)));
    m.delete(at(65)).unwrap();
    assert!(m.is_empty(at(61)) && m.is_empty(at(62)) && !m.is_empty(at(64)));
    assert_eq!(peek(&m, part_va + 4096), 8);
    // It is found again by its record.
    let facts = m.until_done(POOL, op::NextMorsel { record: 1 }).unwrap();
    let rights = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
    m.call(POOL, op::OpenMorsel { record: facts.record, rights, dst: at(60).into() }).unwrap();
    m.map(PDPT, 2, 1, at(60), RW, at(62)).unwrap();
    assert_eq!(peek(&m, 2 << 30), 3);
    m.revoke(at(60)).unwrap();
    assert!(m.is_empty(at(62)) && m.is_empty(at(63)) && m.is_empty(at(64)) && !m.is_empty(at(60)));
}

/// What parts cover is passed over, and however much that is, every event comes further.
#[test]
fn what_parts_cover_is_passed_over_in_bounded_events() {
    const FAR: u64 = 1024;
    const BIG: u64 = 1 << 18;
    let mut m = machine();
    let record = create(&mut m, 3, 60);
    let show = |m: &mut Machine, entry: u32, count, page: u64, slot: u32| {
        let (src, mapping, offset) = (at(60).into(), at(slot).into(), page * 4096);
        m.call(PT, op::Map { entry, count, src, offset, flags: RW, mapping })
    };
    let part = |first, order, slot: u32| op::PartMorsel { first, order, dst: at(slot).into() };
    // Parts, what shows pages of them, and what shows pages behind them.
    for n in 0..20 {
        let page = u64::from(n) * FAR;
        m.until_done(at(60), part(page, 1, 70 + n)).unwrap();
        show(&mut m, n, 1, page, 90 + n).unwrap();
        show(&mut m, 20 + n, 1, page + 512, 110 + n).unwrap();
    }
    // One page many times; and the last one of a part with the next.
    for n in 0..40 {
        show(&mut m, 40 + n, 1, 5 * FAR, 130 + n).unwrap();
    }
    show(&mut m, 80, 2, 5 * FAR + 511, 170).unwrap();
    // A part that many spans lie in.
    m.until_done(at(60), part(BIG, 2, 171)).unwrap();
    for n in 0..20 {
        show(&mut m, 90 + n, 1, BIG + u64::from(n) * FAR, 172 + n).unwrap();
    }
    show(&mut m, 111, 1, BIG * 2 + 3, 192).unwrap();
    let covered = || (90..110).chain(130..170).chain(172..192);
    let uncovered = || (110..130).chain([170, 192]);

    m.core.local.caps.budget.set(2);
    let mut events = 0;
    while m.call(at(60), op::Delete {}) == Err(Status::Again) {
        events += 1;
        assert!(events < 100, "it does not come to an end");
        if events == 12 {
            // Nothing new comes to what it has passed.
            assert_eq!(show(&mut m, 120, 1, 512, 193), Err(Status::NoRights));
            // Nor does a part that somebody else gives up stay shown.
            m.delete(at(72)).unwrap();
            assert!(m.is_empty(at(92)));
        }
        m.check();
    }
    assert!(events > 12);
    m.core.local.caps.budget.set(crate::cap::budget::BUDGET);
    assert!(covered().filter(|&slot| slot != 92).all(|slot| !m.is_empty(at(slot))));
    assert!(uncovered().all(|slot| m.is_empty(at(slot))));

    // What is opened while it is deleted may map; that is gone when that goes.
    let rights = Rights::READ.or(Rights::WRITE);
    m.call(POOL, op::OpenMorsel { record, rights, dst: at(60).into() }).unwrap();
    m.core.local.caps.budget.set(2);
    assert_eq!(m.call(at(60), op::Delete {}), Err(Status::Again));
    m.call(POOL, op::OpenMorsel { record, rights, dst: at(61).into() }).unwrap();
    let src = at(61).into();
    let args =
        op::Map { entry: 1, count: 1, src, offset: 512 * 4096, flags: RW, mapping: at(62).into() };
    // One of those that were there.
    m.delete(at(91)).unwrap();
    m.call(PT, args).unwrap();
    m.delete(at(61)).unwrap();
    m.delete(at(60)).unwrap();
    assert!(m.is_empty(at(62)) && m.is_empty(at(60)));
    m.check();
}

#[test]
fn only_what_nobody_has_is_destroyed() {
    let mut m = machine();
    let empty = free(&mut m);
    let record = create(&mut m, 2, 60);
    m.map(PDPT, 2, 1, at(60), RW, at(61)).unwrap();
    for n in 0..200 {
        assert!(fault(&mut m, WRITE, (2 << 30) + n * 5 * 4096));
    }
    assert_eq!(m.call(at(60), op::DestroyMorsel {}), Err(Status::HasDescendants));
    m.delete(at(61)).unwrap();
    m.call(at(60), op::Copy { dst: at(62).into() }).unwrap();
    assert_eq!(m.call(at(60), op::DestroyMorsel {}), Err(Status::HasDescendants));
    m.call(at(62), op::Mint { dst: at(63).into(), rights: Rights::READ, badge: 0 }).unwrap();
    assert_eq!(m.call(at(63), op::DestroyMorsel {}), Err(Status::NoRights));
    m.revoke(at(60)).unwrap();
    m.until_done(at(60), op::DestroyMorsel {}).unwrap();
    assert!(m.is_empty(at(60)));
    // But for the page of the directory.
    assert_eq!(free(&mut m), empty - 1);
    let open = op::OpenMorsel { record, rights: Rights::READ, dst: at(60).into() };
    assert_eq!(m.call(POOL, open), Err(Status::Empty));
    assert_eq!(m.call(POOL, op::NextMorsel { record: 1 }), Err(Status::Empty));
}

#[test]
fn a_pool_goes_with_all_that_shows_it_and_its_memory_comes_home() {
    let mut m = machine();
    for (n, slot) in [(0, 60), (1, 61), (2, 62)] {
        create(&mut m, n, slot);
    }
    m.map(PD, 1, 1, at(61), RW, at(63)).unwrap();
    m.map(PDPT, 2, 1, at(62), RW, at(64)).unwrap();
    m.map(PT, 0, 1, at(60), RW, at(65)).unwrap();
    m.map(PT, 1, 1, at(62), RW, at(66)).unwrap();
    m.call(at(62), op::Copy { dst: at(67).into() }).unwrap();
    assert!(fault(&mut m, WRITE, SECOND));
    m.delete(POOL).unwrap();
    assert!((60..68).all(|slot| m.is_empty(at(slot))));
    assert_eq!(m.core.local.caps.db.iter(MORSELS).count(), 0);
    assert!(!fault(&mut m, WRITE, SECOND));
    let home = m.call(KERNEL, op::CollectReclaimed {}).unwrap();
    assert_eq!((home.base0, home.bytes0), (FREE + POOL_AT, POOL_BYTES));
    // The memory may be anything else.
    m.retype(RAM, CapType::Frame, POOL_AT, 4096, 1, at(60)).unwrap();
}

#[test]
fn a_pool_is_found_again_with_what_was_in_it() {
    let mut m = machine();
    let record = create(&mut m, 1, 60);
    m.map(PD, 1, 1, at(60), RW, at(61)).unwrap();
    assert!(fault(&mut m, WRITE, SECOND + 4096));
    poke(&m, SECOND + 4096, 1234);
    let free_before = free(&mut m);
    assert_eq!(m.call(POOL, op::FormatPool { domain: 0 }), Err(Status::WrongState));
    // As after a start: capabilities and what the allocator knew are gone.
    m.delete(POOL).unwrap();
    m.call(KERNEL, op::CollectReclaimed {}).unwrap();
    m.retype(RAM, CapType::Pool, POOL_AT, POOL_BYTES, 1, POOL).unwrap();
    assert_eq!(m.call(POOL, op::PoolInfo {}), Err(Status::WrongState));
    // Its home has written a link into the first page, which is that of a pool no more.
    assert_eq!(m.until_done(POOL, op::RecoverPool { domain: 1 }), Err(Status::Invalid));
    let head = mem::PoolWord::at(FREE + POOL_AT);
    head.cell().store(::morsel::MAGIC, std::sync::atomic::Ordering::Relaxed);
    m.until_done(POOL, op::RecoverPool { domain: 1 }).unwrap();
    let rights = Rights::READ.or(Rights::REVOKE);
    m.call(POOL, op::OpenMorsel { record, rights, dst: at(60).into() }).unwrap();
    m.map(PD, 1, 1, at(60), R, at(61)).unwrap();
    assert_eq!(peek(&m, SECOND + 4096), 1234);
    assert_eq!(free(&mut m), free_before);
    m.delete(at(61)).unwrap();
    m.until_done(at(60), op::DestroyMorsel {}).unwrap();
}

#[test]
fn meta_morsels_say_where_objects_belong() {
    let mut m = machine();
    let address = 0x40_0000_0000;
    let meta = op::CreateMeta { order: 2, address };
    let meta = m.until_done(POOL, meta).unwrap().value as u32;
    assert_eq!(m.call(POOL, op::CreateMeta { order: 2, address: 4096 }), Err(Status::OutOfRange));
    let facts = m.until_done(POOL, op::NextMorsel { record: meta }).unwrap();
    assert_eq!((facts.flags, facts.address), (MorselFacts::META, address));
    let data = facts.other;
    let open = |record, slot: u32| op::OpenMorsel {
        record,
        rights: Rights::ALL.and(Rights(!Rights::WRITE_ALONE.0 & 0xf)),
        dst: at(slot).into(),
    };
    let rights = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
    m.call(POOL, op::OpenMorsel { rights, ..open(data, 60) }).unwrap();
    m.call(POOL, op::OpenMorsel { rights, ..open(meta, 61) }).unwrap();
    let facts = m.call(at(60), op::MorselInfo {}).unwrap();
    assert_eq!((facts.flags, facts.other), (MorselFacts::OWNED, meta));
    assert_eq!(m.call(at(61), op::DestroyMorsel {}), Err(Status::HasDescendants));
    assert_eq!(m.call(at(60), op::DestroyMorsel {}), Err(Status::Unsupported));
    m.delete(at(60)).unwrap();
    m.until_done(at(61), op::DestroyMorsel {}).unwrap();
    assert_eq!(m.call(POOL, op::NextMorsel { record: 1 }), Err(Status::Empty));
}

#[test]
fn bytes_are_copied_to_and_from_an_object() {
    let mut m = machine();
    create(&mut m, 1, 60);
    let frame = m.make(CapType::Frame, REST + 0x4000, 2 * 4096, 61);
    m.map(PT, 0, 2, frame, RW, at(62)).unwrap();
    poke(&m, AT + 4088, 0x1122_3344_5566_7788);
    let write = op::WriteMorsel { offset: 10_000, from: AT + 4088, bytes: 8 };
    assert_eq!(m.call(at(60), write).unwrap().bytes, 8);
    let read = op::ReadMorsel { offset: 10_000, to: AT + 4096 + 16, bytes: 8 };
    assert_eq!(m.call(at(60), read).unwrap().bytes, 8);
    assert_eq!(peek(&m, AT + 4096 + 16), 0x1122_3344_5566_7788);
    // A hole reads as zeros and stays one.
    let before = free(&mut m);
    let read = op::ReadMorsel { offset: 1 << 20, to: AT + 4096 + 16, bytes: 8 };
    assert_eq!(m.call(at(60), read).unwrap().bytes, 8);
    assert_eq!((peek(&m, AT + 4096 + 16), free(&mut m)), (0, before));
    let read = op::ReadMorsel { offset: (2 << 20) - 4, to: AT, bytes: 100 };
    let copied = m.call(at(60), read).unwrap();
    assert_eq!((copied.bytes, copied.short), (4, 1));
    let read = op::ReadMorsel { offset: 0, to: AT + 2 * 4096 - 4, bytes: 100 };
    let copied = m.call(at(60), read).unwrap();
    assert_eq!((copied.bytes, copied.short), (4, 2));
    // A private copy of a page.
    let args = op::RetypeCopy {
        offset: REST + 0x8000,
        src: at(60).into(),
        src_offset: 2 * 4096,
        dst: at(63).into(),
        bytes: 4096,
        alone: true,
    };
    m.call(RAM, args).unwrap();
    m.map(PT, 7, 1, at(63), RW, at(64)).unwrap();
    assert_eq!(peek(&m, AT + 7 * 4096 + 10_000 - 8192), 0x1122_3344_5566_7788);
}

#[test]
fn pages_that_are_there_are_counted_and_found() {
    let mut m = machine();
    create(&mut m, 2, 60);
    for (first, count) in [(3, 4), (511, 2), (70_000, 1)] {
        let args = op::PopulateMorsel { first, count, large: false };
        m.until_done(at(60), args).unwrap();
    }
    let before = free(&mut m);
    let mut survey = |first, until| {
        let (mut at_page, mut pages) = (first, 0);
        loop {
            let count = (1 << 18) - at_page;
            let seen = m.call(at(60), op::SurveyMorsel { first: at_page, count, until }).unwrap();
            assert!(seen.next > at_page || seen.found == 1 || count == 0);
            (at_page, pages) = (seen.next, pages + seen.pages);
            if seen.found == 1 || at_page == 1 << 18 {
                return (at_page, pages, seen.found);
            }
        }
    };
    assert_eq!(survey(0, 0), (1 << 18, 7, 0));
    assert_eq!(survey(0, 1), (3, 0, 1));
    assert_eq!(survey(3, 2), (7, 4, 1));
    assert_eq!(survey(7, 1), (511, 0, 1));
    assert_eq!(survey(511, 2), (513, 2, 1));
    assert_eq!(survey(513, 1), (70_000, 0, 1));
    assert_eq!(survey(70_001, 1), (1 << 18, 0, 0));
    assert_eq!(survey(1 << 18, 2), (1 << 18, 0, 0));
    // Behind the limit nothing is there.
    m.until_done(at(60), op::LimitMorsel { bytes: 5 * 4096 + 1 }).unwrap();
    let seen = op::SurveyMorsel { first: 3, count: 100, until: 2 };
    let seen = m.call(at(60), seen).unwrap();
    assert_eq!((seen.next, seen.pages, seen.found), (6, 3, 1));
    assert!(free(&mut m) > before);
    let wrong = op::SurveyMorsel { first: 0, count: 1, until: 3 };
    assert_eq!(m.call(at(60), wrong), Err(Status::Invalid));
    let wrong = op::SurveyMorsel { first: 1 << 36, count: 1, until: 0 };
    assert_eq!(m.call(at(60), wrong), Err(Status::OutOfRange));
    // Of a part, pages are counted from its own first one.
    m.until_done(at(60), op::LimitMorsel { bytes: 1 << 30 }).unwrap();
    m.call(at(60), op::PartMorsel { first: 512, order: 1, dst: at(61).into() }).unwrap();
    let args = op::PopulateMorsel { first: 512 + 9, count: 1, large: false };
    m.until_done(at(60), args).unwrap();
    let seen = m.call(at(61), op::SurveyMorsel { first: 0, count: 512, until: 1 }).unwrap();
    assert_eq!((seen.next, seen.pages, seen.found), (9, 0, 1));
}

#[test]
fn a_trap_that_is_served_changes_no_register() {
    let mut m = machine();
    create(&mut m, 1, 60);
    m.map(PD, 1, 1, at(60), RW, at(61)).unwrap();
    m.dcb.ctx.rax.set(0x55);
    on_trap(&mut m.core, 14, WRITE, SECOND);
    assert_eq!((m.current(), m.dcb.ctx.rax.get()), (Some(m.dcb), 0x55));
    assert!(page(&m, SECOND, true).is_some());
    let cap = m.slot(at(61)).cap();
    assert!(cap.kind() == CapType::Mapping && cap.is(CapType::MorselMapping));
}
