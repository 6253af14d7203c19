//! Random operations on shadows of both kinds, against a map from each page to what it should be,
//! with a backend that checks every rule and refuses at random.

mod common;

use common::{Model, Refused, ROOT};
use paging::PAGE;
use pmap::{Arrays, Error, Lists, PageSize, Pmap, Shadow};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

const LARGE: u64 = 2 << 20;
/// Pages of this size are in `tests/huge.rs`: the naive model would be too slow.
const HUGE: u64 = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Expected {
    frame: u32,
    offset: u64,
    rights: u8,
}

/// Every mapped page of 4 KiB, and where foreign tables are.
#[derive(Clone, Default, PartialEq, Debug)]
struct Naive {
    pages: BTreeMap<u64, Expected>,
    /// Address to the address behind and the table.
    foreign: BTreeMap<u64, (u64, u32)>,
}

impl Naive {
    fn free(&self, va: u64, end: u64) -> bool {
        self.pages.range(va..end).next().is_none()
            && !self.foreign.iter().any(|(&at, &(behind, _))| at < end && va < behind)
    }
    fn cuts_foreign(&self, va: u64, end: u64) -> bool {
        let inside = |at: u64| self.foreign.iter().any(|(&low, &(high, _))| low < at && at < high);
        inside(va) || inside(end)
    }
    fn remove(&mut self, va: u64, end: u64) {
        let gone: Vec<u64> = self.pages.range(va..end).map(|(&at, _)| at).collect();
        for at in gone {
            self.pages.remove(&at);
        }
        self.foreign.retain(|&at, _| at < va || at >= end);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Map { va: u64, pages: u64, size: PageSize, offset: u64, frame: u32, rights: u8 },
    Unmap { va: u64, bytes: u64 },
    Protect { va: u64, bytes: u64, rights: u8 },
    Forget { va: u64, bytes: u64 },
    MapTable { va: u64, level: u8, rights: u8 },
    Fuel(u32),
}

/// Addresses around the borders of tables of every level, so that ranges meet and cross them.
fn address() -> impl Strategy<Value = u64> {
    let bases = [0, LARGE, 2 * LARGE, HUGE - LARGE, HUGE, 2 * HUGE, (512 << 30) - LARGE, 512 << 30];
    (prop::sample::select(bases.to_vec()), 0..16u64).prop_map(|(base, n)| base + n * PAGE)
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let bytes = prop_oneof![
        6 => (1..40u64).prop_map(|n| n * PAGE),
        2 => (500..530u64).prop_map(|n| n * PAGE),
        1 => (1..4u64).prop_map(|n| n * LARGE),
        1 => (1..3u64).prop_map(|n| n * HUGE),
    ];
    (address(), bytes)
}

fn map() -> impl Strategy<Value = Op> {
    let size = prop::sample::select(vec![
        (PageSize::Base, 20),
        (PageSize::Base, 700),
        (PageSize::Large, 3),
    ]);
    (address(), size, any::<u16>(), 0..8u64, 1..50u32, 0..4u8).prop_map(
        |(va, (size, most), pages, offset, frame, rights)| {
            let va = va & !(size.bytes() - 1);
            let pages = 1 + u64::from(pages) % most;
            Op::Map { va, pages, size, offset: offset * size.bytes(), frame, rights }
        },
    )
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => map(),
        5 => range().prop_map(|(va, bytes)| Op::Unmap { va, bytes }),
        5 => (range(), 0..4u8).prop_map(|((va, bytes), rights)| Op::Protect { va, bytes, rights }),
        1 => range().prop_map(|(va, bytes)| Op::Forget { va, bytes }),
        1 => (address(), 1..3u8, 0..4u8).prop_map(|(va, level, rights)| {
            let va = va & !(pmap::entry_bytes(level + 1) - 1);
            Op::MapTable { va, level, rights }
        }),
        1 => (0..6u32).prop_map(Op::Fuel),
    ];
    prop::collection::vec(op, 1..30)
}

struct Bench<S: Shadow> {
    map: Pmap<Model, S>,
    model: Model,
    naive: Naive,
    level: u8,
    /// All tables that are not the map's, mapped or not.
    foreign: HashSet<u32>,
}

impl<S: Shadow> Bench<S> {
    fn new(level: u8) -> Self {
        let map = Pmap::new(ROOT, level).unwrap();
        let (model, naive) = (Model::new(level), Naive::default());
        Bench { map, model, naive, level, foreign: HashSet::new() }
    }

    /// Performs one operation; what went wrong is compared with what had to.
    fn step(&mut self, op: &Op) {
        let before = self.naive.clone();
        let result = match *op {
            Op::Fuel(fuel) => {
                self.model.fuel = Some(fuel);
                return;
            }
            Op::Map { va, pages, size, offset, frame, rights } => {
                self.do_map(va, pages * size.bytes(), size, offset, frame, rights)
            }
            Op::Unmap { va, bytes } => self.do_unmap(va, bytes),
            Op::Protect { va, bytes, rights } => self.do_protect(va, bytes, rights),
            Op::Forget { va, bytes } => self.do_forget(va, bytes),
            Op::MapTable { va, level, rights } => self.do_map_table(va, level, rights),
        };
        if let Err(Error::Backend(Refused)) = result {
            self.model.fuel = None;
            // Nothing is different, but for what protect and unmap had done before; done again,
            // they get to their end.
            match op {
                Op::Unmap { .. } | Op::Protect { .. } => {
                    self.naive = before;
                    self.step(op);
                }
                _ => assert_eq!(self.naive, before),
            }
        }
        self.model.fuel = None;
        self.compare();
    }

    fn do_map(
        &mut self,
        va: u64,
        bytes: u64,
        size: PageSize,
        offset: u64,
        frame: u32,
        rights: u8,
    ) -> Result<(), Error<Refused>> {
        let end = va + bytes;
        let result = self.map.map(&mut self.model, va, frame, offset, bytes, rights, size);
        if end > self.map.end() {
            assert_eq!(result, Err(Error::OutOfRange));
        } else if !self.naive.free(va, end) {
            assert!(matches!(result, Err(Error::Occupied | Error::Backend(_))));
        } else if result.is_ok() {
            for at in (va..end).step_by(PAGE as usize) {
                let offset = offset + at - va;
                self.naive.pages.insert(at, Expected { frame, offset, rights });
            }
        } else {
            assert_eq!(result, Err(Error::Backend(Refused)));
        }
        result
    }

    fn do_unmap(&mut self, va: u64, bytes: u64) -> Result<(), Error<Refused>> {
        let result = self.map.unmap(&mut self.model, va, bytes);
        if va + bytes > self.map.end() {
            assert_eq!(result, Err(Error::OutOfRange));
        } else if self.naive.cuts_foreign(va, va + bytes) {
            assert!(matches!(result, Err(Error::Foreign | Error::Backend(_))));
        } else if result.is_ok() {
            self.naive.remove(va, va + bytes);
        } else {
            assert_eq!(result, Err(Error::Backend(Refused)));
        }
        result
    }

    fn do_protect(&mut self, va: u64, bytes: u64, rights: u8) -> Result<(), Error<Refused>> {
        let result = self.map.protect(&mut self.model, va, bytes, rights);
        if va + bytes > self.map.end() {
            assert_eq!(result, Err(Error::OutOfRange));
        } else if self.naive.cuts_foreign(va, va + bytes) {
            assert!(matches!(result, Err(Error::Foreign | Error::Backend(_))));
        } else if result.is_ok() {
            let pages = self.naive.pages.range_mut(va..va + bytes);
            pages.for_each(|(_, page)| page.rights = rights);
        } else {
            assert_eq!(result, Err(Error::Backend(Refused)));
        }
        result
    }

    /// Of ranges that end where Mappings do: first the pages around are unmapped.
    fn do_forget(&mut self, va: u64, bytes: u64) -> Result<(), Error<Refused>> {
        self.model.fuel = None;
        let (low, high) = (va.saturating_sub(PAGE), (va + bytes + PAGE).min(self.map.end()));
        for (va, end) in [(low, va), (va + bytes, high)] {
            if va < end && self.do_unmap(va, end - va).is_err() {
                return Ok(());
            }
        }
        if va + bytes <= self.map.end() && !self.naive.cuts_foreign(va, va + bytes) {
            self.map.forget(&mut self.model, va, bytes).unwrap();
            self.naive.remove(va, va + bytes);
        }
        Ok(())
    }

    fn do_map_table(&mut self, va: u64, level: u8, rights: u8) -> Result<(), Error<Refused>> {
        let end = va + pmap::entry_bytes(level + 1);
        let fuel = self.model.fuel.take();
        let table = pmap::Backend::make_table(&mut self.model, level).unwrap();
        self.model.fuel = fuel;
        let result = self.map.map_table(&mut self.model, va, table, level, rights);
        if result.is_err() {
            pmap::Backend::delete_table(&mut self.model, table);
        }
        if end > self.map.end() {
            assert_eq!(result, Err(Error::OutOfRange));
        } else if !self.naive.free(va, end) {
            assert_eq!(result, Err(Error::Occupied));
        } else if result.is_ok() {
            self.naive.foreign.insert(va, (end, table));
            self.foreign.insert(table);
        }
        result
    }

    /// Tables, shadow and expectation say the same.
    fn compare(&self) {
        for (&va, expected) in &self.naive.pages {
            let (frame, offset, rights, level) = self.model.walk(va).expect("mapped");
            assert_eq!((frame, offset, rights), (expected.frame, expected.offset, expected.rights));
            let found = self.map.lookup(va + 123).expect("known");
            assert_eq!((found.frame, found.size.level()), (frame, level));
            assert_eq!(found.offset + (va - found.va), offset);
            assert_eq!((found.va % found.size.bytes(), found.rights), (0, rights));
        }
        for (&va, &(end, table)) in &self.naive.foreign {
            let level = self.model.tables[&table].level;
            assert_eq!(self.map.table(va, level), Some(table));
            assert!(self.map.lookup(va).is_none());
            assert_eq!(end, va + pmap::entry_bytes(level + 1));
        }
        // Nothing else is mapped: as many bytes, and no table without need.
        let leaves = |entry: &common::Entry| matches!(entry, common::Entry::Page { .. });
        let mut bytes = 0;
        for (number, table) in &self.model.tables {
            let pages = table.entries.values().filter(|(entry, _)| leaves(entry)).count() as u64;
            bytes += pages * pmap::entry_bytes(table.level);
            let foreign = self.foreign.contains(number);
            assert!(*number == ROOT || foreign || !table.entries.is_empty());
        }
        assert_eq!(bytes, self.naive.pages.len() as u64 * PAGE);
        let kept = self.model.tables.keys();
        assert_eq!(kept.filter(|table| !self.foreign.contains(table)).count(), self.map.tables());
        let first = self.naive.pages.keys().chain(self.naive.foreign.keys()).min();
        assert_eq!(self.map.next_mapped(0), first.copied());
    }

    fn run(mut self, ops: &[Op]) {
        ops.iter().for_each(|op| self.step(op));
        // Deleted foreign tables stay in the model; the map's own all go.
        self.map.unmap(&mut self.model, 0, pmap::entry_bytes(self.level) * 512).unwrap();
        assert!(self.map.is_empty() && self.map.tables() == 1);
        assert!(self.model.mappings.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn arrays(ops in ops()) {
        Bench::<Arrays>::new(4).run(&ops);
    }

    #[test]
    fn lists(ops in ops()) {
        Bench::<Lists>::new(4).run(&ops);
    }

    #[test]
    fn five_levels(ops in ops()) {
        Bench::<Arrays>::new(5).run(&ops);
    }

    /// A small space, so that ranges go over its end.
    #[test]
    fn three_levels(ops in ops()) {
        Bench::<Lists>::new(3).run(&ops);
    }
}
