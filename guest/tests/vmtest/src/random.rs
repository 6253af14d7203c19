//! Regions at random: map, unmap, protect, discard, load and store, all over a part of the address
//! space, against a model of each page.

use crate::probe::{load, store, Unresolved};
use crate::setup::Lab;
use crate::Test;
use libos::memory::{self, Access, Anonymous, Error, LazyFrame, Map, Object, OneFrame, PageSize};
use libos::memory::{Prot, NONE};
use libos::vspace::{R, RW};
use libos::{log, PAGE};

extern crate alloc;
use alloc::vec::Vec;
use testkit::{good, Outcome, Rng};

pub const TESTS: &[Test] = &[("regions_at_random", regions)];

/// The part of the address space: around where tables meet.
const BASE: u64 = 0x400_4000_0000 - 300 * PAGE;
const PAGES: u64 = 900;
/// Pages of each object.
const OBJECT: u64 = 128;
/// Large enough for large pages, at the end of the part.
const LARGE: u64 = 512;

/// The objects: three kinds of small pages, and one of large pages.
struct Objects {
    anonymous: [Object<Anonymous>; 2],
    one: Object<OneFrame>,
    lazy: Object<LazyFrame>,
    large: Object<Anonymous>,
}

/// What a page of the address space should be.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shown {
    object: usize,
    page: u64,
    prot: Prot,
}

struct Bench {
    objects: Objects,
    /// What should be in each page of each object.
    contents: [Vec<u64>; 5],
    /// By page, from [`BASE`] on.
    space: Vec<Option<Shown>>,
    random: Rng,
}

fn regions(lab: &mut Lab) -> Outcome {
    log!("regions_at_random: seed {:#x}, {} rounds", lab.seed, lab.rounds);
    let mut bench = good!(Bench::new(lab.seed));
    for round in 0..lab.rounds {
        if let Err(what) = bench.step(round) {
            log!("round {round}: {what}");
            return Err(testkit::Failure { line: line!(), what, status: None });
        }
    }
    good!(memory::unmap(BASE, PAGES * PAGE));
    Ok(())
}

/// What differs.
type Step = Result<(), &'static str>;

fn same<T: PartialEq>(found: T, expected: T, what: &'static str) -> Step {
    if found == expected {
        Ok(())
    } else {
        Err(what)
    }
}

impl Bench {
    fn new(seed: u64) -> Result<Self, Error> {
        let anonymous = || Anonymous::new(OBJECT * PAGE, PageSize::Base).map(Object::new);
        let objects = Objects {
            anonymous: [anonymous()?, anonymous()?],
            one: Object::new(OneFrame::new(OBJECT * PAGE, PageSize::Base)?),
            lazy: Object::new(LazyFrame::new(OBJECT * PAGE, PageSize::Base)?),
            large: Object::new(Anonymous::new(2 * LARGE * PAGE, PageSize::Large)?),
        };
        let pages = |n: usize| if n == 4 { 2 * LARGE } else { OBJECT };
        let contents = core::array::from_fn(|n| alloc::vec![0; pages(n) as usize]);
        let space = alloc::vec![None; PAGES as usize];
        Ok(Bench { objects, contents, space, random: Rng::with_seed(seed) })
    }

    fn step(&mut self, round: u64) -> Step {
        let (at, most) = (self.random.u64(..PAGES), self.random.u64(..6));
        let count = (1 + self.random.u64(..1 << (1 + most))).min(PAGES - at);
        match self.random.u64(..20) {
            0..=2 => self.map(at, count),
            3 => self.map_large(),
            4 => self.unmap(at, count),
            5..=6 => self.protect(at, count),
            7 => self.discard(),
            8..=13 => self.load(at),
            _ => self.store(at, round + 1),
        }
    }

    fn map(&mut self, at: u64, count: u64) -> Step {
        let object = self.random.usize(..4);
        let page = self.random.u64(..OBJECT);
        let count = count.min(OBJECT - page);
        let prot = [RW, RW, R, NONE][self.random.usize(..4)];
        let map = Map::default().part(page * PAGE, count * PAGE).prot(prot).at(BASE + at * PAGE);
        let mapped = match object {
            0 | 1 => memory::map(&self.objects.anonymous[object], map),
            2 => memory::map(&self.objects.one, map),
            _ => memory::map(&self.objects.lazy, map),
        };
        self.mapped(at, count, Shown { object, page, prot }, mapped)
    }

    /// The first or second half of the large object, wherever a large page fits.
    fn map_large(&mut self) -> Step {
        let at = (BASE.next_multiple_of(LARGE * PAGE) - BASE) / PAGE;
        if at + LARGE > PAGES {
            return Ok(());
        }
        let page = LARGE * self.random.u64(..2);
        let map = Map::default().part(page * PAGE, LARGE * PAGE).size(PageSize::Large);
        let mapped = memory::map(&self.objects.large, map.at(BASE + at * PAGE));
        self.mapped(at, LARGE, Shown { object: 4, page, prot: RW }, mapped)
    }

    fn mapped(
        &mut self,
        at: u64,
        count: u64,
        shown: Shown,
        mapped: Result<memory::VRegion, Error>,
    ) -> Step {
        let range = &mut self.space[at as usize..(at + count) as usize];
        if range.iter().any(Option::is_some) {
            return same(mapped.err(), Some(Error::Occupied), "mapped over something");
        }
        let region = mapped.map_err(|_| "cannot map")?;
        region.leak();
        for (n, place) in (0..).zip(range) {
            *place = Some(Shown { page: shown.page + n, ..shown });
        }
        Ok(())
    }

    fn unmap(&mut self, at: u64, count: u64) -> Step {
        same(memory::unmap(BASE + at * PAGE, count * PAGE), Ok(()), "cannot unmap")?;
        self.space[at as usize..(at + count) as usize].fill(None);
        Ok(())
    }

    fn protect(&mut self, at: u64, count: u64) -> Step {
        let prot = [RW, R, NONE][self.random.usize(..3)];
        let result = memory::protect(BASE + at * PAGE, count * PAGE, prot);
        let range = &mut self.space[at as usize..(at + count) as usize];
        if range.iter().any(Option::is_none) {
            return same(result, Err(Error::NotMapped), "protected what is not there");
        }
        same(result, Ok(()), "cannot protect")?;
        range.iter_mut().flatten().for_each(|shown| shown.prot = prot);
        Ok(())
    }

    fn discard(&mut self) -> Step {
        let object = self.random.usize(..2);
        let page = self.random.u64(..OBJECT);
        let count = 1 + self.random.u64(..(OBJECT - page).min(8));
        let handle = &self.objects.anonymous[object];
        let result = handle.manage(|o, pages| o.discard(pages, page * PAGE, count * PAGE));
        self.contents[object][page as usize..(page + count) as usize].fill(0);
        same(result, Ok(()), "cannot discard")
    }

    /// What should become of an access to a page.
    fn expected(&self, at: u64, access: Access) -> Result<Shown, Error> {
        let shown = self.space[at as usize].ok_or(Error::NotMapped)?;
        if memory::permits(shown.prot, access) {
            Ok(shown)
        } else {
            Err(Error::NotAllowed)
        }
    }

    fn load(&mut self, at: u64) -> Step {
        let address = BASE + at * PAGE + 8;
        match (load(address), self.expected(at, Access::Read)) {
            (Ok(value), Ok(shown)) => {
                same(value, self.contents[shown.object][shown.page as usize], "another value")
            }
            (Err(fault), Err(error)) => same_fault(fault, address, Access::Read, error),
            _ => Err("a load that should fault and did not, or the other way"),
        }
    }

    fn store(&mut self, at: u64, value: u64) -> Step {
        let address = BASE + at * PAGE + 8;
        match (store(address, value), self.expected(at, Access::Write)) {
            (Ok(()), Ok(shown)) => {
                self.contents[shown.object][shown.page as usize] = value;
                Ok(())
            }
            (Err(fault), Err(error)) => same_fault(fault, address, Access::Write, error),
            _ => Err("a store that should fault and did not, or the other way"),
        }
    }
}

fn same_fault(fault: Unresolved, address: u64, access: Access, error: Error) -> Step {
    let found = (fault.address, fault.access, fault.error);
    same(found, (address, access, error), "another fault")
}
