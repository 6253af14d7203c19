//! Objects of a pool of core 0, of which other cores have capabilities, and map them.

use super::directed::Test;
use super::node::{RAM, VSPACE};
use super::world::Site;
use crate::cap::{CapExt, MORSELS};
use crate::object::{mem, Walk};
use captypes::invocations::{Copied, MapFlags, MorselFacts};
use captypes::{op, CapAddr, CapType, Invocation, Label, Place, Rights, Status};
use core::sync::atomic::Ordering::Relaxed;

pub const POOL: CapAddr = CapAddr(20);
pub const PDPT: CapAddr = CapAddr(21);
pub const PD: CapAddr = CapAddr(22);
pub const PT: CapAddr = CapAddr(23);
/// Of an object, a part of it, and what else there is.
pub const WHOLE: CapAddr = CapAddr(30);
pub const PART: CapAddr = CapAddr(31);
pub const OTHER: CapAddr = CapAddr(32);
pub const MAPPING: CapAddr = CapAddr(33);
/// Where the pool is in the RAM of core 0.
const POOL_AT: u64 = 7 << 20;
const POOL_BYTES: u64 = 2 << 20;
/// What entry 1 of [`PD`] translates, and what entry 2 of [`PDPT`] does.
pub const AT: u64 = (1 << 30) + (2 << 20);
pub const LARGE: u64 = 2 << 30;
pub const R: MapFlags = MapFlags::READ;
pub const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);

impl Test {
    pub fn made(&mut self, core: usize, ty: CapType, offset: u64, bytes: u64, dst: CapAddr) {
        let dst = dst.into();
        let args = op::Retype { ty: ty.into(), offset, bytes, count: 1, dst };
        assert_eq!(self.call(core, RAM, args), 0);
    }

    /// With all repetitions.
    pub fn done<I: Invocation + Copy>(&mut self, core: usize, target: CapAddr, args: I) -> u64 {
        loop {
            match self.call(core, target, args) {
                status if status == Status::Again as u64 => {}
                status => return status,
            }
        }
    }

    pub fn map(
        &mut self,
        core: usize,
        table: CapAddr,
        entry: u32,
        src: CapAddr,
        flags: MapFlags,
        at: u32,
    ) -> u64 {
        let (src, mapping) = (src.into(), CapAddr(at).into());
        self.call(core, table, op::Map { entry, count: 1, src, offset: 0, flags, mapping })
    }

    /// The pool of core 0, and tables on all cores.
    fn furnished(cores: usize) -> Test {
        let mut t = Test::new(cores);
        // Where all is at rest only.
        t.cluster.checking = false;
        t.furnish();
        t
    }

    pub fn furnish(&mut self) {
        let cores = self.cluster.sites.len();
        let t = self;
        t.made(0, CapType::Pool, POOL_AT, POOL_BYTES, POOL);
        assert_eq!(t.done(0, POOL, op::FormatPool { domain: 0 }), 0);
        for core in 0..cores {
            for (n, (ty, slot)) in [(CapType::Pdpt, PDPT), (CapType::Pd, PD), (CapType::Pt, PT)]
                .into_iter()
                .enumerate()
            {
                t.made(core, ty, n as u64 * 4096, 4096, slot);
            }
            assert_eq!(t.map(core, VSPACE, 0, PDPT, RW, 24), 0);
            assert_eq!(t.map(core, PDPT, 1, PD, RW, 25), 0);
            assert_eq!(t.map(core, PD, 0, PT, RW, 26), 0);
        }
        // The directory gets its page.
        t.create(1, WHOLE);
        assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), 0);
    }

    pub fn create(&mut self, order: u32, dst: CapAddr) -> u32 {
        let args = op::CreateMorsel { order, dst: dst.into() };
        assert_eq!(self.done(0, POOL, args), 0);
        self.reply::<op::CreateMorsel>(0).value as u32
    }

    pub fn reply<I: Invocation>(&self, core: usize) -> I::Reply {
        use captypes::invocations::Reply;
        I::Reply::decode(&self.node(core).clients[0].ctx.words()).unwrap()
    }

    pub fn free(&mut self) -> u64 {
        assert_eq!(self.call(0, POOL, op::PoolInfo {}), 0);
        self.reply::<op::PoolInfo>(0).free
    }

    pub fn page(&self, core: usize, va: u64, write: bool) -> Option<u64> {
        Walk::new(self.node(core).clients[0].root.get(), write).page(va).map(|(pa, _)| pa)
    }

    pub fn poke(&self, core: usize, va: u64, value: u64) {
        let pa = self.page(core, va, true).expect("it can be written");
        mem::PoolWord::at(pa).cell().store(value, Relaxed);
    }

    pub fn peek(&self, core: usize, va: u64) -> u64 {
        let pa = self.page(core, va, false).expect("it can be read");
        mem::PoolWord::at(pa).cell().load(Relaxed)
    }

    /// A write that has failed; whether the kernel served it.
    pub fn fault(&mut self, core: usize, va: u64) -> bool {
        crate::arch::become_core(core);
        let node = &mut self.cluster.sites[core].node;
        let dcb = node.clients[0];
        crate::operations::morsels::show(&mut node.core.local, dcb, 6, va)
    }

    /// Capabilities and Mappings of objects that a core has.
    pub fn objects(&self, core: usize) -> usize {
        let Site { node, .. } = &self.cluster.sites[core];
        node.core.local.caps.db.iter(MORSELS).count()
    }
}

#[test]
fn an_object_is_mapped_on_all_cores_by_one_entry() {
    let mut t = Test::furnished(3);
    t.create(2, WHOLE);
    t.send(0, WHOLE, 1, WHOLE);
    t.send(1, WHOLE, 2, WHOLE);
    for (core, flags) in [(0, RW), (1, RW), (2, R)] {
        assert_eq!(t.is_foreign(core, WHOLE), core != 0);
        assert_eq!(t.map(core, PDPT, 2, WHOLE, flags, 33), 0);
    }
    let before = t.free();
    // Each populates what the others see.
    for core in [0, 1] {
        let va = LARGE + (core as u64 * 700 + 3) * 4096;
        assert!(t.fault(core, va));
        t.poke(core, va, 70 + core as u64);
        for other in 0..3 {
            assert_eq!(t.peek(other, va), 70 + core as u64);
        }
    }
    assert!(t.free() < before - 2);
    assert!(!t.fault(2, LARGE + 9 * 4096), "it may only read");
    assert_eq!(t.done(1, WHOLE, op::PopulateMorsel { first: 20, count: 4, large: false }), 0);
    assert!(t.page(0, LARGE + 23 * 4096, true).is_some());
    // What the core of the pool takes away goes everywhere.
    assert_eq!(t.done(0, WHOLE, op::DiscardMorsel { first: 0, count: 1 << 18 }), 0);
    for core in 0..3 {
        assert_eq!(t.page(core, LARGE + 3 * 4096, false), None);
    }
    for core in 0..3 {
        assert_eq!(t.call(core, MAPPING, op::Delete {}), 0);
    }
    t.redirected(0, WHOLE, op::Revoke {});
    assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), 0);
}

#[test]
fn all_else_is_done_on_any_core() {
    let mut t = Test::furnished(2);
    let record = t.create(1, WHOLE);
    t.send(0, WHOLE, 1, WHOLE);
    assert_eq!(t.cluster.call(1, WHOLE, op::MorselInfo {}), Some(0));
    let facts = MorselFacts { record, order: 1, flags: 0, limit: 2 << 20, other: 0, address: 0 };
    assert_eq!(t.reply::<op::MorselInfo>(1), facts);
    assert_eq!(t.map(1, PD, 1, WHOLE, RW, 33), 0);
    assert!(t.fault(1, AT));
    t.poke(1, AT, 99);
    let copy = op::WriteMorsel { offset: 5 * 4096, from: AT, bytes: 8 };
    assert_eq!(t.done(1, WHOLE, copy), 0);
    assert_eq!(t.reply::<op::WriteMorsel>(1), Copied { bytes: 8, short: 0 });
    assert_eq!(t.peek(1, AT + 5 * 4096), 99);
    assert_eq!(t.done(1, WHOLE, op::ReadMorsel { offset: 5 * 4096, to: AT + 8, bytes: 8 }), 0);
    assert_eq!(t.peek(1, AT + 8), 99);
    // Where nothing is, bytes are copied from nowhere.
    let missing = op::WriteMorsel { offset: 0, from: AT + (2 << 20), bytes: 8 };
    assert_eq!(t.done(1, WHOLE, missing), 0);
    assert_eq!(t.reply::<op::WriteMorsel>(1), Copied { bytes: 0, short: 2 });
}

#[test]
fn a_revoke_takes_an_object_from_all_cores_with_what_shows_it() {
    for by in [0, 1] {
        let mut t = Test::furnished(3);
        let before = t.free();
        t.create(2, WHOLE);
        t.send(0, WHOLE, 1, WHOLE);
        assert_eq!(t.done(1, WHOLE, op::PartMorsel { first: 512, order: 1, dst: PART.into() }), 0);
        t.send(1, PART, 2, PART);
        assert_eq!(t.map(0, PDPT, 2, WHOLE, RW, 33), 0);
        assert_eq!(t.map(1, PDPT, 2, WHOLE, RW, 33), 0);
        assert_eq!(t.map(2, PD, 1, PART, RW, 33), 0);
        assert!(t.fault(2, AT + 4096) && t.fault(1, LARGE));
        t.poke(2, AT + 4096, 5);
        assert_eq!(t.peek(0, LARGE + (2 << 20) + 4096), 5, "the part is where it should be");
        assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), Status::HasDescendants as u64);
        t.redirected(by, WHOLE, op::Revoke {});
        for core in 0..3 {
            assert_eq!(t.objects(core), usize::from(core == by));
            assert_eq!(t.page(core, LARGE, false).or(t.page(core, AT + 4096, false)), None);
            assert!(!t.fault(core, LARGE) && !t.fault(core, AT + 4096));
        }
        // Whoever has the pool can open it again, and must revoke it before it is destroyed.
        if by == 1 {
            let record = t.create(1, OTHER) - 1;
            let open = op::OpenMorsel { record, rights: Rights::ALL, dst: WHOLE.into() };
            let rights = Rights::READ.or(Rights::WRITE).or(Rights::EXEC).or(Rights::REVOKE);
            assert_eq!(t.call(0, POOL, op::OpenMorsel { rights, ..open }), 0);
            assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), Status::HasDescendants as u64);
            t.redirected(0, WHOLE, op::Revoke {});
            assert!(t.is_empty(1, WHOLE));
            assert_eq!(t.done(0, OTHER, op::DestroyMorsel {}), 0);
        }
        assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), 0);
        assert_eq!(t.free(), before);
    }
}

#[test]
fn a_part_that_two_cores_have_made_is_one() {
    for by in [0, 1] {
        let mut t = Test::furnished(3);
        t.create(2, WHOLE);
        let part = op::PartMorsel { first: 1024, order: 1, dst: PART.into() };
        assert_eq!(t.done(0, WHOLE, part), 0);
        t.send(0, WHOLE, 1, WHOLE);
        assert_eq!(t.done(1, WHOLE, part), 0);
        t.send(1, PART, 2, PART);
        // Where somebody has all of it, too, and where not.
        t.send(1, WHOLE, 2, WHOLE);
        assert_eq!(t.map(2, PD, 1, PART, RW, 33), 0);
        assert_eq!(t.map(2, PDPT, 2, WHOLE, RW, 34), 0);
        assert!(t.fault(2, AT));
        // A part of something that is shared, made afterwards.
        let other = op::PartMorsel { first: 0, order: 1, dst: OTHER.into() };
        assert_eq!(t.done(0, WHOLE, other), 0);
        assert_eq!(t.done(1, WHOLE, other), 0);
        t.redirected(by, PART, op::Revoke {});
        for core in 0..3 {
            assert_eq!(t.is_empty(core, PART), core != by);
            assert_eq!(t.is_empty(core, OTHER), core == 2, "nothing else goes");
        }
        assert_eq!(t.page(2, AT, false), None);
        assert!(t.page(2, LARGE + 1024 * 4096, false).is_some() && t.is_empty(2, MAPPING));
        t.redirected(1 - by, OTHER, op::Revoke {});
        assert!(t.is_empty(by, OTHER));
    }
}

#[test]
fn who_deletes_takes_it_from_nobody_else() {
    let mut t = Test::furnished(3);
    let record = t.create(1, WHOLE);
    t.send(0, WHOLE, 1, WHOLE);
    t.send(1, WHOLE, 2, WHOLE);
    assert_eq!(t.map(1, PD, 1, WHOLE, RW, 33), 0);
    // No message, and no heir.
    assert_eq!(t.cluster.call(0, WHOLE, op::Delete {}), Some(0));
    t.settle();
    assert!(t.fault(1, AT) && !t.is_empty(2, WHOLE));
    assert_eq!(t.cluster.call(2, WHOLE, op::Delete {}), Some(0));
    t.settle();
    let open =
        op::OpenMorsel { record, rights: Rights::READ.or(Rights::REVOKE), dst: WHOLE.into() };
    assert_eq!(t.call(0, POOL, open), 0);
    assert!(t.is_foreign(0, WHOLE), "somebody else may have it");
    assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), Status::HasDescendants as u64);
    assert_eq!(t.cluster.call(1, WHOLE, op::Delete {}), Some(0));
    t.settle();
    assert!(!t.fault(1, AT), "the last one here took its Mapping with it");
    assert_eq!(t.page(1, AT, false), None);
    t.redirected(0, WHOLE, op::Revoke {});
    assert!(!t.is_foreign(0, WHOLE));
    assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), 0);
}

#[test]
fn a_pool_takes_its_objects_from_all_cores() {
    // Deleted, in a CNode that is deleted, revoked with its RAM, and at once with another pool that core 1 has.
    for way in 0..4 {
        let mut t = Test::furnished(3);
        t.create(1, WHOLE);
        t.create(1, OTHER);
        t.send(0, WHOLE, 1, WHOLE);
        t.send(1, WHOLE, 2, WHOLE);
        for core in 0..3 {
            assert_eq!(t.map(core, PD, 1, WHOLE, RW, 33), 0);
            assert!(t.fault(core, AT));
        }
        let again = Some(Status::Again as u64);
        match way {
            0 => assert_eq!(t.done(0, POOL, op::Delete {}), 0),
            1 => {
                t.made(0, CapType::L2CNode, 0x10_0000, 16384, CapAddr(50));
                let root = Place::l1(CapAddr(1), 5);
                assert_eq!(t.call(0, CapAddr(50), op::Move { dst: root }), 0);
                let inside = Place::own(CapAddr::new(5, 9));
                assert_eq!(t.call(0, POOL, op::Move { dst: inside }), 0);
                while t.cluster.invoke(0, 0, Label::Delete, root, [0; 9]) == again {
                    t.settle_loosely();
                }
            }
            2 => {
                // RAM that another core has, too, so that the monitors do it.
                assert_eq!(t.done(0, POOL, op::Delete {}), 0);
                t = Test::new(3);
                t.made(0, CapType::Ram, POOL_AT, POOL_BYTES, CapAddr(51));
                t.send(0, CapAddr(51), 1, CapAddr(51));
                let args = op::Retype {
                    ty: CapType::Pool.into(),
                    offset: 0,
                    bytes: POOL_BYTES,
                    count: 1,
                    dst: POOL.into(),
                };
                assert_eq!(t.call(0, CapAddr(51), args), 0);
                assert_eq!(t.done(0, POOL, op::FormatPool { domain: 0 }), 0);
                t.create(1, WHOLE);
                t.send(0, WHOLE, 2, WHOLE);
                assert_eq!(t.call(1, CapAddr(51), op::Revoke {}), 0);
                assert!(t.is_empty(0, CapAddr(51)) && t.is_empty(0, POOL));
            }
            _ => {
                t.made(1, CapType::Pool, POOL_AT, POOL_BYTES, POOL);
                assert_eq!(t.done(1, POOL, op::FormatPool { domain: 0 }), 0);
                let create = op::CreateMorsel { order: 2, dst: PART.into() };
                assert_eq!(t.done(1, POOL, create), 0);
                t.send(1, PART, 0, PART);
                t.send(1, PART, 2, PART);
                let delete = |t: &mut Test, core| t.cluster.call(core, POOL, op::Delete {});
                while delete(&mut t, 0) == again || delete(&mut t, 1) == again {
                    t.settle_loosely();
                }
                assert!(t.is_empty(1, POOL));
            }
        }
        t.settle();
        for core in 0..3 {
            assert_eq!(t.objects(core), 0, "way {way}, core {core}");
            assert_eq!(t.page(core, AT, false), None);
        }
        assert!(t.is_empty(0, POOL));
    }
}

#[test]
fn the_core_of_a_pool_is_always_asked() {
    let mut t = Test::new(3);
    t.made(1, CapType::Pool, POOL_AT, POOL_BYTES, POOL);
    assert_eq!(t.done(1, POOL, op::FormatPool { domain: 0 }), 0);
    assert_eq!(t.done(1, POOL, op::CreateMorsel { order: 2, dst: WHOLE.into() }), 0);
    t.send(1, WHOLE, 2, WHOLE);
    t.redirected(2, WHOLE, op::Revoke {});
    assert!(t.is_empty(1, WHOLE) && !t.is_empty(2, WHOLE));
    assert!(t.is_foreign(2, WHOLE), "the pool may open it at any time");
}

#[test]
fn an_object_that_another_describes_stays() {
    let mut t = Test::furnished(2);
    assert_eq!(t.done(0, POOL, op::CreateMeta { order: 1, address: 0 }), 0);
    let meta = t.reply::<op::CreateMeta>(0).value as u32;
    let rights = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
    let open = op::OpenMorsel { record: meta, rights, dst: WHOLE.into() };
    assert_eq!(t.call(0, POOL, open), 0);
    assert_eq!(t.call(0, WHOLE, op::MorselInfo {}), 0);
    let record = t.reply::<op::MorselInfo>(0).other;
    assert_eq!(t.call(0, POOL, op::OpenMorsel { record, dst: PART.into(), ..open }), 0);
    t.cluster.send(0, PART, 1, PART);
    t.settle();
    assert!(t.is_empty(1, PART));
    assert_eq!(t.cluster.call(0, PART, op::Revoke {}), Some(0));
    assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), Status::HasDescendants as u64);
    assert_eq!(t.cluster.call(0, PART, op::Delete {}), Some(0));
    assert_eq!(t.done(0, WHOLE, op::DestroyMorsel {}), 0);
}

#[test]
fn what_no_monitor_should_say_of_objects_is_refused() {
    let mut t = Test::furnished(2);
    t.create(1, WHOLE);
    let known = wire(&t, WHOLE);
    let (base, size) = (known.base, known.size);
    let forged = [
        // Another size or place, the records, no pool, a core that cannot be.
        captypes::WireCap { size: 3, ..known },
        captypes::WireCap { size: 1 << 37, ..known },
        captypes::WireCap { base: base + 1, ..known },
        captypes::WireCap { base: 0, ..known },
        captypes::WireCap { base: 511 << 9, size: 512, ..known },
        captypes::WireCap { base: 15 << 60 | base, ..known },
        captypes::WireCap { aux: 64, ..known },
        // A pool that there is not, and all of one.
        captypes::WireCap { base: 3 << 60 | base, ..known },
        captypes::WireCap { base: 0, size: 1 << 60, ..known },
    ];
    for cap in forged {
        let inserted = t.cluster.sites[1].node.kernel(op::InsertCopy { cap, dst: WHOLE.into() });
        assert!(inserted.is_err() && t.is_empty(1, WHOLE), "{cap:x?}");
    }
    assert_eq!(size, 1 << 36);
    t.cluster.sites[1].node.kernel(op::InsertCopy { cap: known, dst: WHOLE.into() }).unwrap();
}

fn wire(t: &Test, slot: CapAddr) -> captypes::WireCap {
    let cap = t.node(0).slot(slot).cap();
    assert!(cap.is(CapType::Morsel));
    crate::cap::protocol::to_wire(&cap)
}
