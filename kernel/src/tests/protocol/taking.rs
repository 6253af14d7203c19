//! What takes pages away, and makes and ends objects, on cores that are not the pool's, while the others show what they can.
//!
//! These cores wait for each other. What one does while another waits is to take its interrupt.

use super::directed::Test;
use super::objects::{AT, LARGE, MAPPING, OTHER, PART, PD, PDPT, POOL, PT, R, RW, WHOLE};
use super::world::Site;
use crate::arch;
use crate::driver::Core;
use crate::events::on_irq;
use captypes::invocations::MorselFacts;
use captypes::{op, CapAddr, Place, Rights, Status};
use std::cell::{Cell, RefCell};
use std::vec::Vec;

thread_local! {
    static CORES: RefCell<Vec<*mut Core>> = const { RefCell::new(Vec::new()) };
    /// Those in the middle of an event: a bit each.
    static BUSY: Cell<u64> = const { Cell::new(0) };
}

/// These wait for each other from now on.
pub fn set_cores(sites: &mut [Site]) {
    CORES.set(sites.iter_mut().map(|site| &raw mut *site.node.core).collect());
    arch::set_relax(Some(others_go_on));
}

/// What the others do while a core waits: those at rest take their interrupts, and those that wait themselves invalidate what they are told.
fn others_go_on() {
    let me = arch::become_core(0);
    let busy = BUSY.replace(BUSY.get() | 1 << me);
    let cores = CORES.with_borrow(Vec::clone);
    for (id, &core) in cores.iter().enumerate().filter(|(id, _)| *id != me) {
        arch::become_core(id);
        if BUSY.get() & 1 << id != 0 {
            // SAFETY: boxes that outlive the test; only what cores share is used of one that waits.
            unsafe { (*core).local.core }.answer_shootdowns();
        } else if arch::take_interrupt(id) {
            // SAFETY: as above; nothing else uses a core that does not wait.
            on_irq(unsafe { &mut *core }, arch::VECTOR_IPI);
        }
    }
    arch::become_core(me);
    BUSY.set(busy);
}

fn furnished(cores: usize) -> Test {
    furnished_with(cores, 7)
}

fn furnished_with(cores: usize, seed: u64) -> Test {
    let mut t = Test::apart(cores, seed);
    t.furnish();
    t
}

const SINGLE: u64 = 1 << 30;
const DST: CapAddr = CapAddr(40);
const AGAIN: u64 = Status::Again as u64;

fn status(status: Status) -> u64 {
    status as u64
}

impl Test {
    /// Maps `count` single pages of `src` from page `first` on at entries from `entry` on of the last table.
    fn map_single(
        &mut self,
        core: usize,
        src: CapAddr,
        (first, count, entry): (u64, u32, u32),
        at: u32,
    ) -> u64 {
        let (src, mapping) = (src.into(), CapAddr(at).into());
        let args = op::Map { entry, count, src, offset: first * 4096, flags: RW, mapping };
        self.done(core, PT, args)
    }

    fn facts(&mut self, core: usize, object: CapAddr) -> MorselFacts {
        assert_eq!(self.done(core, object, op::MorselInfo {}), 0);
        self.reply::<op::MorselInfo>(core)
    }
}

#[test]
fn what_takes_pages_away_is_done_on_every_core() {
    for by in [0, 1, 2] {
        let mut t = furnished(3);
        t.create(1, WHOLE);
        t.send(0, WHOLE, 1, WHOLE);
        t.send(1, WHOLE, 2, WHOLE);
        for core in 0..3 {
            assert_eq!(t.map(core, PD, 1, WHOLE, RW, 33), 0);
        }
        let before = t.free();
        assert_eq!(t.done(by, WHOLE, op::PopulateMorsel { first: 0, count: 20, large: false }), 0);
        for core in 0..3 {
            t.poke(core, AT + core as u64 * 4096, 7);
        }
        assert_eq!(t.done(by, WHOLE, op::DiscardMorsel { first: 1, count: 10 }), 0);
        for core in 0..3 {
            assert_eq!(t.peek(core, AT), 7);
            assert_eq!(t.page(core, AT + 4096, false), None);
            assert!(t.page(core, AT + 11 * 4096, true).is_some());
        }
        assert_eq!(t.done(by, WHOLE, op::LimitMorsel { bytes: 12 * 4096 + 5 }), 0);
        assert_eq!(t.facts((by + 1) % 3, WHOLE).limit, 12 * 4096 + 5);
        for core in 0..3 {
            assert_eq!(t.page(core, AT + 13 * 4096, false), None);
            assert!(!t.fault(core, AT + 13 * 4096));
        }
        assert_eq!(t.free(), before - 3);
        // What grows stays mapped where it is.
        assert_eq!(t.done(by, WHOLE, op::GrowMorsel {}), 0);
        for core in 0..3 {
            assert_eq!(t.facts(core, WHOLE).order, 2);
            assert_eq!(t.peek(core, AT), 7);
            assert_eq!(t.map(core, PDPT, 2, WHOLE, RW, 34), 0);
            assert_eq!(t.peek(core, LARGE), 7);
        }
        assert_eq!(t.done(by, WHOLE, op::AdviseMorsel { large: true }), 0);
        assert_eq!(t.done(by, WHOLE, op::AdviseMorsel { large: false }), 0);
        assert_eq!(t.done(by, WHOLE, op::CommitMorsel {}), 0);
        assert_eq!(t.page(1 - by / 2, AT, true), None, "it is shared with what was committed");
        assert_eq!(t.done(by, WHOLE, op::ReleaseCommit {}), 0);
        assert!(t.fault((by + 1) % 3, AT));
        // Who has only half of the rights, or of the object.
        let mint = |rights| op::Mint { dst: DST.into(), rights, badge: 0 };
        assert_eq!(t.done(by, WHOLE, mint(Rights::READ.or(Rights::WRITE))), 0);
        assert_eq!(t.done(by, DST, op::LimitMorsel { bytes: 0 }), status(Status::NoRights));
        assert_eq!(t.done(by, DST, op::DestroyMorsel {}), status(Status::NoRights));
        assert_eq!(t.done(by, DST, op::Delete {}), 0);
        assert_eq!(t.done(by, WHOLE, mint(Rights::READ.or(Rights::REVOKE))), 0);
        let discard = op::DiscardMorsel { first: 0, count: 1 };
        assert_eq!(t.done(by, DST, discard), status(Status::NoRights));
        assert_eq!(t.done(by, DST, op::Delete {}), 0);
        assert_eq!(t.done(by, WHOLE, op::PartMorsel { first: 0, order: 1, dst: PART.into() }), 0);
        assert_eq!(t.done(by, PART, op::GrowMorsel {}), status(Status::OutOfRange));
        assert_eq!(t.done(by, PART, op::DestroyMorsel {}), status(Status::OutOfRange));
        let beyond = op::DiscardMorsel { first: 511, count: 2 };
        assert_eq!(t.done(by, PART, beyond), status(Status::OutOfRange));
        assert_eq!(t.done(by, PART, discard), 0);
        assert_eq!(t.page(0, AT, false), None);
    }
}

#[test]
fn single_pages_go_on_all_cores_before_the_pages_do() {
    for (by, shows) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        let mut t = furnished(3);
        t.create(1, WHOLE);
        t.create(1, OTHER);
        for object in [WHOLE, OTHER] {
            t.send(0, object, 1, object);
            t.send(0, object, 2, object);
        }
        let before = t.free();
        // Two Mappings of several pages each, one of another object, and one that stays.
        assert_eq!(t.map_single(shows, WHOLE, (0, 4, 5), 50), 0);
        assert_eq!(t.map_single(shows, WHOLE, (4, 4, 16), 51), 0);
        assert_eq!(t.map_single(shows, OTHER, (0, 4, 32), 52), 0);
        assert_eq!(t.map_single(by, WHOLE, (2, 1, 40), 53), 0);
        let va = |entry: u64| SINGLE + entry * 4096;
        t.poke(shows, va(7), 9);
        assert_eq!(t.peek(by, va(40)), 9, "the same page");
        assert_eq!(t.done(by, WHOLE, op::DiscardMorsel { first: 2, count: 1 }), 0);
        assert!(t.is_empty(shows, CapAddr(50)) && t.is_empty(by, CapAddr(53)));
        assert_eq!(t.page(shows, va(7), false).or(t.page(by, va(40), false)), None);
        assert!(!t.is_empty(shows, CapAddr(51)) && !t.is_empty(shows, CapAddr(52)));
        assert!(t.page(shows, va(16), true).is_some());
        // A limit, a snapshot and a commit take all that is in their way.
        assert_eq!(t.done(by, WHOLE, op::LimitMorsel { bytes: 6 * 4096 }), 0);
        assert!(t.is_empty(shows, CapAddr(51)));
        assert_eq!(t.map_single(shows, WHOLE, (0, 4, 5), 50), 0);
        t.poke(shows, va(5), 12);
        assert_eq!(t.done(by, WHOLE, op::SnapshotMorsel { dst: PART.into() }), 0);
        assert!(t.is_empty(shows, CapAddr(50)) && t.page(shows, va(5), false).is_none());
        // The page that is shown again is one that is written alone.
        assert_eq!(t.map_single(shows, WHOLE, (0, 1, 5), 50), 0);
        t.poke(shows, va(5), 13);
        assert_eq!(t.map_single(by, PART, (0, 1, 41), 53), 0);
        assert_eq!(t.peek(by, va(41)), 12);
        assert_eq!(t.done(by, WHOLE, op::CommitMorsel {}), 0);
        assert!(t.is_empty(shows, CapAddr(50)));
        assert_eq!(t.done(by, WHOLE, op::ReleaseCommit {}), 0);
        assert!(!t.is_empty(shows, CapAddr(52)), "what is of another object stays");
        for (core, object) in [(by, CapAddr(53)), (shows, CapAddr(52)), (by, PART)] {
            let destroy = object == PART;
            let gone = match destroy {
                true => t.done(core, object, op::DestroyMorsel {}),
                false => t.done(core, object, op::Delete {}),
            };
            assert_eq!(gone, 0, "{object:?}");
        }
        for object in [WHOLE, OTHER] {
            assert_eq!(t.done(by, object, op::DiscardMorsel { first: 0, count: 512 }), 0);
        }
        assert_eq!(t.free(), before);
    }
}

#[test]
fn many_entries_of_single_pages_go_step_by_step() {
    let mut t = furnished(2);
    t.create(1, WHOLE);
    t.send(0, WHOLE, 1, WHOLE);
    for n in 0..100 {
        assert_eq!(t.map_single(0, WHOLE, (n % 10, 1, n as u32), 100 + n as u32), 0);
    }
    let before = t.objects(0);
    let discard = op::DiscardMorsel { first: 0, count: 10 };
    assert_eq!(t.cluster.call(1, WHOLE, discard), Some(AGAIN));
    assert_eq!(t.objects(0), before - 64, "as many as one event removes");
    assert!(t.page(0, SINGLE + 99 * 4096, false).is_some(), "none of the pages has gone yet");
    assert_eq!(t.cluster.call(1, WHOLE, discard), Some(0));
    assert_eq!(t.objects(0), before - 100);
    assert_eq!(t.page(0, SINGLE + 99 * 4096, false), None);
}

#[test]
fn whoever_comes_second_does_it_later() {
    let mut t = furnished(3);
    t.create(1, WHOLE);
    t.send(0, WHOLE, 1, WHOLE);
    let pools = |t: &Test| t.node(0).core.local.core.cores.pools();
    let object = crate::morsels::object_of(&t.node(0).slot(WHOLE).cap());
    let other = crate::cores::CoreId(2);
    assert!(pools(&t).taking(object).take(other));
    let discard = op::DiscardMorsel { first: 0, count: 1 };
    for core in [0, 1] {
        assert_eq!(t.cluster.call(core, WHOLE, discard), Some(AGAIN));
        assert_eq!(t.cluster.call(core, WHOLE, op::LimitMorsel { bytes: 0 }), Some(AGAIN));
        assert_eq!(t.map(core, PT, 5, WHOLE, R, 33), AGAIN, "not while pages are taken away");
        assert!(t.is_empty(core, MAPPING));
        assert_eq!(t.map(core, PD, 1, WHOLE, RW, 33), 0, "one entry is no hindrance");
    }
    pools(&t).taking(object).give_back();
    let (_, shared) = pools(&t).all().next().unwrap();
    assert!(shared.changes.claim(other));
    let create = op::CreateMorsel { order: 1, dst: OTHER.into() };
    assert_eq!(t.cluster.call(0, POOL, create), Some(AGAIN));
    let snapshot = op::SnapshotMorsel { dst: OTHER.into() };
    assert_eq!(t.cluster.call(1, WHOLE, snapshot), Some(AGAIN));
    shared.changes.unclaim();
    assert_eq!(t.cluster.call(1, WHOLE, snapshot), Some(0));
    assert_eq!(t.cluster.call(1, WHOLE, discard), Some(0));
    assert_eq!(t.map(1, PT, 5, WHOLE, R, 34), 0);
}

#[test]
fn a_snapshot_that_another_core_has_made_is_known_to_the_pool() {
    for way in 0..3 {
        let mut t = furnished(3);
        let before = t.free();
        t.create(1, WHOLE);
        t.send(0, WHOLE, 1, WHOLE);
        assert_eq!(t.map(1, PD, 1, WHOLE, RW, 33), 0);
        assert!(t.fault(1, AT));
        t.poke(1, AT, 3);
        assert_eq!(t.done(1, WHOLE, op::SnapshotMorsel { dst: OTHER.into() }), 0);
        let record = t.reply::<op::SnapshotMorsel>(1).value as u32;
        assert!(t.is_foreign(1, OTHER), "who has the pool may open it");
        assert!(t.fault(1, AT));
        t.poke(1, AT, 4);
        // Nothing of it was ever sent.
        let rights = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
        let open = op::OpenMorsel { record, rights, dst: PART.into() };
        if way < 2 {
            assert_eq!(t.call(0, POOL, open), 0);
            assert!(t.is_foreign(0, PART));
            assert_eq!(t.map(0, PD, 1, PART, R, 33), 0);
            assert_eq!(t.peek(0, AT), 3, "as it was");
            assert_eq!(t.done(1, OTHER, op::DestroyMorsel {}), status(Status::HasDescendants));
            assert_eq!(t.done(0, PART, op::DestroyMorsel {}), status(Status::HasDescendants));
        }
        match way {
            0 => {
                t.redirected(0, PART, op::Revoke {});
                assert!(t.is_empty(1, OTHER));
                assert_eq!(t.done(0, PART, op::DestroyMorsel {}), 0);
            }
            1 => {
                // A Mapping goes with the last capability.
                assert_eq!(t.done(0, PART, op::Delete {}), 0);
                assert_eq!(t.done(1, OTHER, op::DestroyMorsel {}), 0);
                assert_eq!(t.call(0, POOL, open), status(Status::Empty));
                assert!(t.is_empty(1, OTHER));
            }
            _ => {
                assert_eq!(t.done(0, POOL, op::Delete {}), 0);
                t.settle();
                assert!((0..3).all(|core| t.objects(core) == 0));
                continue;
            }
        }
        // Who has the other destroys it, when nobody else has anything of it.
        assert_eq!(t.done(1, WHOLE, op::DestroyMorsel {}), status(Status::HasDescendants));
        assert_eq!(t.done(1, MAPPING, op::Delete {}), 0);
        assert_eq!(t.done(1, WHOLE, op::DestroyMorsel {}), status(Status::HasDescendants));
        assert_eq!(t.done(0, WHOLE, op::Delete {}), 0);
        assert_eq!(t.done(1, WHOLE, op::DestroyMorsel {}), 0);
        assert_eq!(t.free(), before);
    }
}

#[test]
fn what_is_opened_while_others_are_asked_is_not_destroyed() {
    let (mut opened, mut destroyed) = (0, 0);
    for seed in 0..24u64 {
        let mut t = furnished_with(3, 0x9e37 + seed);
        let record = t.create(1, WHOLE);
        t.send(0, WHOLE, 1, WHOLE);
        t.send(1, WHOLE, 2, WHOLE);
        assert_eq!(t.cluster.call(2, WHOLE, op::Delete {}), Some(0));
        assert_eq!(t.cluster.call(0, WHOLE, op::Delete {}), Some(0));
        // The monitors ask; meanwhile it is opened, sooner or later.
        assert_eq!(t.cluster.call(1, WHOLE, op::DestroyMorsel {}), None);
        t.pump(seed as usize * 5);
        let rights = Rights::READ.or(Rights::REVOKE);
        let open = op::OpenMorsel { record, rights, dst: OTHER.into() };
        let has_opened = t.cluster.call(0, POOL, open).unwrap();
        t.settle();
        let mut ended = t.node(1).clients[0].ctx.rax.get();
        if ended == AGAIN {
            ended = t.done(1, WHOLE, op::DestroyMorsel {});
        }
        match has_opened {
            0 => {
                opened += 1;
                assert_eq!(ended, status(Status::HasDescendants), "seed {seed}");
                assert_eq!(t.done(0, OTHER, op::MorselInfo {}), 0);
            }
            error => {
                destroyed += 1;
                assert_eq!((error, ended), (status(Status::Empty), 0), "seed {seed}");
                assert!(t.is_empty(1, WHOLE));
            }
        }
    }
    assert!(opened > 5 && destroyed > 5, "{opened} opened, {destroyed} destroyed");
}

#[test]
fn a_large_object_is_destroyed_from_afar_step_by_step() {
    let mut t = furnished(2);
    let before = t.free();
    t.create(2, WHOLE);
    t.send(0, WHOLE, 1, WHOLE);
    for table in 0..5 {
        let first = table * 512;
        for from in (first..first + 64).step_by(16) {
            let populate = op::PopulateMorsel { first: from, count: 16, large: false };
            assert_eq!(t.done(1, WHOLE, populate), 0);
        }
    }
    assert_eq!(t.done(0, WHOLE, op::Delete {}), 0);
    assert_eq!(t.call(1, WHOLE, op::DestroyMorsel {}), AGAIN);
    // It is no object any more: nobody can open, map or send it.
    assert_eq!(t.done(1, WHOLE, op::MorselInfo {}), status(Status::Empty));
    t.cluster.send(1, WHOLE, 0, WHOLE);
    t.settle();
    assert!(t.is_empty(0, WHOLE));
    // And nobody is asked again.
    let mut steps = 0;
    while !t.is_empty(1, WHOLE) {
        assert!(t.cluster.call(1, WHOLE, op::DestroyMorsel {}).is_some());
        steps += 1;
    }
    assert!(steps > 1);
    assert_eq!(t.free(), before);
}

#[test]
fn devices_are_shown_objects_on_any_core() {
    let mut t = furnished(2);
    t.create(2, WHOLE);
    t.send(0, WHOLE, 1, WHOLE);
    t.made(1, captypes::CapType::DeviceSpace, 0x4000, 4096, DST);
    assert_eq!(t.map(1, DST, 1, WHOLE, RW, 33), 0);
    assert!(!t.is_empty(1, MAPPING));
    let dst: Place = PART.into();
    assert_eq!(t.done(0, WHOLE, op::SnapshotMorsel { dst }), 0);
    assert!(!t.is_empty(1, MAPPING), "it shows what is copied when it is written");
    t.redirected(0, WHOLE, op::Revoke {});
    assert!(t.is_empty(1, MAPPING));
}
