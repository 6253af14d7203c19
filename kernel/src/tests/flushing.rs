//! After an invocation nothing is cached that it took away, under every strategy (invariant 5), and
//! no more is forgotten than the strategy says.

use super::machine::*;
use super::processor::{look, places, Processor};
use super::random::{collect, each_seed, Random};
use crate::arch::{take_counts, Counts};
use captypes::invocations::{Counter, FlushPolicy, FlushStrategy, MapFlags, StatusBits};
use captypes::{op, CapAddr, CapType, Status};
use core::ops::DerefMut;
use std::boxed::Box;
use std::vec::Vec;

const R: MapFlags = MapFlags::READ;
const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const RWX: MapFlags = RW.or(MapFlags::EXEC);
const PAGE: u64 = 4096;
const MIB2: u64 = 2 << 20;

const PDPT: u32 = 20;
const PD: u32 = 21;
const PT: u32 = 22;
/// Where the tables translate.
const VA: u64 = 3 << 39;

pub fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// Three tables at [`VA`], and 16 pages in the last.
fn setup() -> (Machine, Processor) {
    let mut m = Machine::new();
    let types = [CapType::Pdpt, CapType::Pd, CapType::Pt];
    for (n, ty) in types.into_iter().enumerate() {
        m.make(ty, n as u64 * PAGE, PAGE, PDPT + n as u32);
    }
    m.map(VSPACE, 3, 1, at(PDPT), RWX, at(30)).unwrap();
    m.map(at(PDPT), 0, 1, at(PD), RWX, at(31)).unwrap();
    m.map(at(PD), 0, 1, at(PT), RWX, at(32)).unwrap();
    let frame = m.make(CapType::Frame, 0x10000, 16 * PAGE, 40);
    m.map(at(PT), 0, 16, frame, RW, at(41)).unwrap();
    (m, Processor::default())
}

fn page(n: u64) -> u64 {
    VA + n * PAGE
}

pub fn policy(m: &mut Machine, strategy: FlushStrategy, threshold: u32) -> FlushPolicy {
    m.call(KERNEL, op::SetFlushPolicy { strategy, threshold }).unwrap()
}

/// Touches the first `count` pages, takes their rights by `flags`, and returns what was flushed.
fn protect(m: &mut Machine, cpu: &mut Processor, count: u32, flags: MapFlags) -> (u64, u64) {
    m.call(at(41), op::Protect { first: 0, count: 16, flags: RW }).unwrap();
    (0..u64::from(count)).for_each(|n| assert!(cpu.touch(page(n), true).is_some()));
    take_counts();
    m.call(at(41), op::Protect { first: 0, count, flags }).unwrap();
    cpu.obey();
    cpu.check();
    let Counts { flush_all, flush_page, .. } = take_counts();
    (flush_all, flush_page)
}

#[test]
fn each_strategy_forgets_in_its_way() {
    let (mut m, mut cpu) = setup();
    let before = policy(&mut m, FlushStrategy::Full, 4);
    assert_eq!(before.strategy, FlushStrategy::Hybrid);
    assert_eq!(protect(&mut m, &mut cpu, 3, R), (1, 0));
    policy(&mut m, FlushStrategy::Selective, 4);
    assert_eq!(protect(&mut m, &mut cpu, 9, R), (0, 9));
    policy(&mut m, FlushStrategy::Hybrid, 4);
    assert_eq!(protect(&mut m, &mut cpu, 4, R), (0, 4));
    assert_eq!(protect(&mut m, &mut cpu, 5, R), (1, 0));
    // Flags of the invocation have the last word.
    assert_eq!(protect(&mut m, &mut cpu, 1, R.or(MapFlags::FLUSH_ALL)), (1, 0));
    assert_eq!(protect(&mut m, &mut cpu, 9, R.or(MapFlags::FLUSH_PAGES)), (0, 9));
    policy(&mut m, FlushStrategy::Full, 2);
    let both = R.or(MapFlags::FLUSH_ALL).or(MapFlags::FLUSH_PAGES);
    assert_eq!(protect(&mut m, &mut cpu, 2, both), (0, 2));
    let counted = |m: &mut Machine, counter: Counter| {
        m.call(KERNEL, op::ReadCounter { counter: counter as u32, core: 0 }).unwrap().value
    };
    assert_eq!(counted(&mut m, Counter::TlbPages), 9 + 4 + 9 + 2);
    assert_eq!(counted(&mut m, Counter::TlbFlushes), 3);
}

#[test]
fn what_was_not_used_is_not_flushed() {
    let (mut m, mut cpu) = setup();
    take_counts();
    m.call(at(41), op::Protect { first: 0, count: 16, flags: R }).unwrap();
    m.call(at(41), op::Protect { first: 0, count: 16, flags: RW }).unwrap();
    cpu.touch(page(3), true).unwrap();
    // Others than the used one, and more rights.
    m.call(at(41), op::Protect { first: 4, count: 12, flags: R }).unwrap();
    m.call(at(41), op::Protect { first: 0, count: 4, flags: RWX }).unwrap();
    let unmap = |first, count, rest: u32| op::Unmap {
        first,
        count,
        rest: at(rest).into(),
        flags: MapFlags::default(),
    };
    m.call(at(41), unmap(8, 8, 0)).unwrap();
    let Counts { flush_all, flush_page, .. } = take_counts();
    assert_eq!((flush_all, flush_page), (0, 0));
    m.call(at(41), unmap(3, 1, 42)).unwrap();
    let Counts { flush_all, flush_page, .. } = take_counts();
    assert_eq!((flush_all, flush_page), (0, 1));
    cpu.obey();
    cpu.check();
}

#[test]
fn tables_that_are_not_in_use_are_not_flushed() {
    let (mut m, mut cpu) = setup();
    cpu.touch(page(3), true).unwrap();
    // Out of the tree, with its accessed bits.
    m.delete(at(32)).unwrap();
    cpu.obey();
    take_counts();
    m.call(at(41), op::Protect { first: 0, count: 16, flags: R }).unwrap();
    m.delete(at(41)).unwrap();
    let Counts { flush_all, flush_page, .. } = take_counts();
    assert_eq!((flush_all, flush_page), (0, 0));
}

#[test]
fn a_shared_table_is_flushed_at_each_of_its_places() {
    let (mut m, mut cpu) = setup();
    m.map(at(PD), 5, 1, at(PT), RWX, at(50)).unwrap();
    m.map(at(PDPT), 7, 1, at(PD), RWX, at(51)).unwrap();
    let bases = [VA, VA + 5 * MIB2, VA + (7 << 30), VA + (7 << 30) + 5 * MIB2];
    for base in bases {
        cpu.touch(base + 2 * PAGE, true).unwrap();
    }
    take_counts();
    let flags = R.or(MapFlags::FLUSH_PAGES);
    m.call(at(41), op::Protect { first: 2, count: 1, flags }).unwrap();
    assert_eq!(take_counts().flush_page, 4);
    cpu.obey();
    cpu.check();
    assert!(bases.iter().all(|base| cpu.touch(base + 2 * PAGE, true).is_none()));
    for (n, base) in bases.into_iter().enumerate() {
        let locate = op::Locate { root: VSPACE.into(), number: n as u32 };
        let located = m.call(at(PT), locate).unwrap();
        assert_eq!((located.address, located.count), (base, 4));
        assert_eq!(m.call(at(41), locate).unwrap().address, base);
    }
    let seen_from = op::Locate { root: at(PDPT).into(), number: 1 };
    assert_eq!(m.call(at(PT), seen_from).unwrap().address, 5 * MIB2);
    let none = op::Locate { root: at(PT).into(), number: 0 };
    assert_eq!(m.call(at(PD), none).unwrap().count, 0);
    assert_eq!(m.call(at(40), none), Err(Status::WrongType));
    assert_eq!(
        m.call(at(PT), op::Locate { root: at(40).into(), number: 0 }),
        Err(Status::WrongType)
    );
}

#[test]
fn places_beyond_counting_are_flushed_too() {
    let (mut m, mut cpu) = setup();
    for n in 1..20 {
        m.map(at(PD), n, 1, at(PT), RWX, at(100 + n)).unwrap();
        cpu.touch(VA + u64::from(n) * MIB2, true).unwrap();
    }
    take_counts();
    let flags = R.or(MapFlags::FLUSH_PAGES);
    m.call(at(41), op::Protect { first: 0, count: 1, flags }).unwrap();
    assert_eq!(take_counts().flush_all, 1);
    cpu.obey();
    cpu.check();
    let locate = op::Locate { root: VSPACE.into(), number: 0 };
    assert_eq!(m.call(at(PT), locate), Err(Status::OutOfRange));
}

#[test]
fn cleared_bits_are_set_again_by_the_next_access() {
    let (mut m, mut cpu) = setup();
    cpu.touch(page(1), true).unwrap();
    cpu.touch(page(2), false).unwrap();
    let clear = |bits| op::ClearStatus { entry: 0, count: 512, bits };
    assert_eq!(m.call(at(PT), clear(StatusBits::DIRTY)).unwrap().count, 1);
    cpu.obey();
    cpu.check();
    assert!(!look(page(1)).unwrap().dirty);
    cpu.touch(page(1), true).unwrap();
    assert!(look(page(1)).unwrap().dirty);
    assert_eq!(m.call(at(PT), clear(StatusBits::ALL)).unwrap().count, 2);
    cpu.obey();
    assert_eq!(cpu.len(), 0);
}

/// Slots of the random test.
const TABLES: [(u32, CapType); 7] = [
    (20, CapType::Pdpt),
    (21, CapType::Pd),
    (22, CapType::Pt),
    (23, CapType::Pd),
    (24, CapType::Pt),
    (25, CapType::Pt),
    (26, CapType::Pdpt),
];
const FRAMES: [u32; 4] = [40, 41, 42, 43];
/// Mappings of tables, and of pages.
const ABOVE: core::ops::Range<u64> = 60..76;
const BELOW: core::ops::Range<u64> = 76..100;

pub struct Play<M> {
    pub m: M,
    pub random: Random,
}

impl<M: DerefMut<Target = Machine>> Play<M> {
    pub fn new(mut m: M, seed: u64) -> Self {
        m.checking = false;
        let mut play = Play { m, random: Random(seed) };
        play.furnish();
        play
    }

    /// Tables and Frames that are missing: small ones, one of two large pages, two gigantic ones.
    pub fn furnish(&mut self) {
        for (n, (slot, ty)) in TABLES.into_iter().enumerate() {
            let _ = self.m.retype(RAM, ty, n as u64 * PAGE, PAGE, 1, at(slot));
        }
        let _ = self.m.retype(RAM, CapType::Frame, 0x10000, PAGE, 1, at(40));
        let _ = self.m.retype(RAM, CapType::Frame, 0x20000, 8 * PAGE, 1, at(41));
        let _ = self.m.retype(RAM, CapType::Frame, MIB2 - (1 << 20), 2 * MIB2, 1, at(42));
        let _ = self.m.retype(DEVICES, CapType::DevFrame, 0, 2 << 30, 1, at(43));
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn table(&mut self) -> u32 {
        match self.below(12) {
            0 => VSPACE.0,
            n => TABLES[n as usize % TABLES.len()].0,
        }
    }

    /// Mostly of levels that fit.
    fn table_and_below(&mut self) -> (CapAddr, CapAddr) {
        const PAIRS: [(u32, u32); 8] = [
            (VSPACE.0, 20),
            (20, 21),
            (21, 22),
            (20, 23),
            (23, 24),
            (23, 22),
            (21, 25),
            (VSPACE.0, 26),
        ];
        let n = self.below(10) as usize;
        let (table, below) = PAIRS.get(n).copied().unwrap_or((self.table(), self.table()));
        (at(table), at(below))
    }

    fn leaf_table(&mut self) -> CapAddr {
        at(self.random.one_of(&[22, 24, 25]) as u32)
    }

    fn one_of_first(&mut self) -> u32 {
        self.random.one_of(&[0, 0, 0, 1, 2, 3]) as u32
    }

    fn slot_of(&mut self, range: core::ops::Range<u64>) -> CapAddr {
        at((range.start + self.below(range.end - range.start)) as u32)
    }

    /// Mostly of pages: without tables there is not much to be seen.
    fn mapping(&mut self) -> CapAddr {
        let range = if self.below(12) == 0 { ABOVE } else { BELOW };
        self.slot_of(range)
    }

    fn flags(&mut self) -> MapFlags {
        let rights = [R, RW, RW, RWX, RWX][self.below(5) as usize];
        let flush = [0, 0, 32, 64, 96][self.below(5) as usize];
        rights.or(MapFlags(flush))
    }

    /// One invocation; most are possible.
    pub fn invoke(&mut self) {
        let (flags, mapping) = (self.flags(), self.mapping());
        let (first, count) = (self.one_of_first(), 1 + self.below(3) as u32);
        let table = at(self.table());
        let frame = at(FRAMES[self.below(4) as usize]);
        let _ = match self.below(24) {
            0..=6 => {
                let (table, below) = self.table_and_below();
                let mapping = self.slot_of(ABOVE);
                self.m.map(table, first, 1, below, RWX, mapping)
            }
            7..=11 => {
                let offset = if self.below(2) == 0 { 0 } else { PAGE };
                let (src, mapping) = (frame.into(), mapping.into());
                let args = op::Map { entry: first, count, src, offset, flags, mapping };
                self.m.call(table, args)
            }
            12..=13 => self.m.call(mapping, op::Protect { first, count, flags }),
            14 => {
                let (at, bytes) = (self.access().0, u64::from(count) * PAGE);
                self.m.call(DISPATCHER, op::ProtectHere { at, bytes, flags })
            }
            15 => self.m.call(mapping, op::ProtectMany { count: 8, flags }).map(drop),
            16 => {
                let rest = self.mapping().into();
                self.m.call(mapping, op::Unmap { first, count, rest, flags })
            }
            17 => self.m.call(mapping, op::Replace { src: frame.into(), flags }),
            18 => self.m.delete(mapping),
            19 => self.m.call(mapping, op::DeleteRange { count: 4 }).map(drop),
            20 => {
                let table = self.leaf_table();
                let bits = StatusBits(1 + self.below(3) as u8);
                self.m.call(table, op::ClearStatus { entry: 0, count: 8, bits }).map(drop)
            }
            21 if self.below(4) == 0 => self.m.revoke(frame),
            22 if self.below(8) == 0 && table != VSPACE => self.m.delete(table),
            23 if self.below(8) == 0 => self.m.delete(frame),
            _ => {
                let strategy =
                    [FlushStrategy::Full, FlushStrategy::Selective, FlushStrategy::Hybrid];
                let strategy = strategy[self.below(3) as usize];
                let threshold = self.below(12) as u32;
                policy(&mut self.m, strategy, threshold);
                Ok(())
            }
        };
    }

    /// Somewhere in what the tables may translate, and whether it is written to.
    pub fn access(&mut self) -> (u64, bool) {
        let shifts = [39, 30, 21, 12];
        let va = shifts.iter().map(|shift| self.random.below(4) << shift).sum();
        (va, self.below(2) == 0)
    }

    /// The way up from a table and the ways down to it agree.
    fn compare_places(&mut self) {
        let table = self.table();
        let slot = self.m.slot(at(table)).cap();
        let (root, level) = (self.m.root(), captypes::CapType::from_u8(slot.ty));
        let level = level.and_then(CapType::table_level).unwrap_or(0);
        if let Some(found) = crate::vspace::places_below(
            &self.m.core.local.caps,
            paging::PhysAddr(root),
            slot.base,
            level,
        ) {
            let found: Vec<u64> = found.as_slice().iter().map(|place| place.va.0).collect();
            assert_eq!(found, places(root, 4, slot.base));
        }
    }
}

fn play(seed: u64, steps: u64) -> u64 {
    let mut play = Play::new(Box::new(Machine::new()), seed);
    let (mut kept, mut cpu) = (0, Processor::default());
    for step in 0..steps {
        for _ in 0..12 {
            let (va, write) = play.access();
            cpu.touch(va, write);
        }
        let before = cpu.len();
        play.invoke();
        collect(&mut play.m);
        cpu.obey();
        kept += u64::from(cpu.len() > 0 && cpu.len() < before);
        cpu.check();
        play.compare_places();
        if step % 64 == 0 {
            play.m.check();
            play.furnish();
        }
    }
    kept
}

#[test]
fn random_layouts_leave_nothing_stale() {
    let mut kept = 0;
    each_seed(3000, |seed, steps| kept += play(seed, steps));
    assert!(kept > 0, "single pages were never forgotten while others stayed");
}
