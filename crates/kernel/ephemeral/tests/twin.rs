//! The same random operations on all four implementations, beside a naive model of what they promise.
//!
//! * E1: the address of a `Buf` shows its page until it is dropped, on its own core, and on all if it is not private.
//! * E2: two `Buf`s at one address are of one page.
//! * E3, E4: the checks of [`Cache::check`]: used or on the inactive list, found by page, once.
//! * E5: a core that has not forgotten what a window showed does not use it: E1 with TLBs that forget nothing.
//! * E6, that a page is not freed while a `Buf` shows it, is what the caller promises; the model does the same.

mod common;

use common::{Pretended, COLOURS, CORES, PAGES};
use ephemeral::{
    AllocError, Alone, Buf, Cache, Coloured, Counters, Direct, Ephemeral, Flags, Guarded, State,
    Uncached, Windows, RUN,
};

const OPERATIONS: usize = 100_000;
const SINGLES: usize = 8;
const RUNS: usize = 2;

/// What the model says that an `alloc` does.
enum Expected {
    Hit,
    Miss,
    Busy,
    Scattered,
}

/// The naive model of one implementation.
trait Model {
    fn alloc(&mut self, pages: &[u64], world: &Pretended) -> Expected;
    fn free(&mut self, pages: &[u64]);
    /// Are addresses shared, and mappings counted?
    fn counts(&self) -> bool;
}

/// Of the cache: what was freed the longest time ago goes.
struct Lru(Vec<Shown>, u64);

struct Shown {
    pages: Vec<u64>,
    is_run: bool,
    users: u32,
    freed: u64,
}

impl Lru {
    fn new() -> Lru {
        let empty = |is_run| move |_| Shown { pages: vec![], is_run, users: 0, freed: 0 };
        let singles = (0..SINGLES).map(empty(false));
        Lru(singles.chain((0..RUNS).map(empty(true))).collect(), 0)
    }
}

impl Model for Lru {
    fn alloc(&mut self, pages: &[u64], _: &Pretended) -> Expected {
        let is_run = pages[0] & IS_RUN != 0;
        let mut own = self.0.iter_mut().filter(|shown| shown.is_run == is_run);
        if let Some(found) = own.find(|shown| shown.pages == pages) {
            found.users += 1;
            return Expected::Hit;
        }
        let free = self.0.iter_mut().filter(|shown| shown.is_run == is_run && shown.users == 0);
        let Some(oldest) = free.min_by_key(|shown| shown.freed) else { return Expected::Busy };
        (oldest.pages, oldest.users) = (pages.to_vec(), 1);
        Expected::Miss
    }
    fn free(&mut self, pages: &[u64]) {
        self.1 += 1;
        let shown = self.0.iter_mut().find(|shown| shown.pages == pages && shown.users > 0);
        let shown = shown.expect("freed what is not in use");
        (shown.users, shown.freed) = (shown.users - 1, self.1);
    }
    fn counts(&self) -> bool {
        true
    }
}

/// Of addresses that are not shared: so many are there.
struct Addresses {
    singles: usize,
    runs: usize,
}

impl Model for Addresses {
    fn alloc(&mut self, pages: &[u64], _: &Pretended) -> Expected {
        let left = if pages[0] & IS_RUN != 0 { &mut self.runs } else { &mut self.singles };
        match left.checked_sub(1) {
            None => Expected::Busy,
            Some(rest) => {
                *left = rest;
                Expected::Miss
            }
        }
    }
    fn free(&mut self, pages: &[u64]) {
        *if pages[0] & IS_RUN != 0 { &mut self.runs } else { &mut self.singles } += 1;
    }
    fn counts(&self) -> bool {
        true
    }
}

/// Of the direct map, alone.
struct All;

fn is_side_by_side(pages: &[u64]) -> bool {
    pages.windows(2).all(|pair| (pair[0] & !IS_RUN) + 1 == pair[1] & !IS_RUN)
}

impl Model for All {
    fn alloc(&mut self, pages: &[u64], _: &Pretended) -> Expected {
        if is_side_by_side(pages) {
            Expected::Hit
        } else {
            Expected::Scattered
        }
    }
    fn free(&mut self, _: &[u64]) {}
    fn counts(&self) -> bool {
        false
    }
}

/// Of the direct map beside windows of each colour.
struct Hybrid(Vec<(usize, Vec<u64>, u32)>);

impl Model for Hybrid {
    fn alloc(&mut self, pages: &[u64], world: &Pretended) -> Expected {
        let colours = world.world().colours;
        let fits = |&page: &u64| {
            let page = page & !IS_RUN;
            colours[page as usize].is_none_or(|colour| colour == page as usize % COLOURS)
        };
        if pages[0] & IS_RUN != 0 || pages.iter().all(fits) {
            let direct = pages.iter().all(fits) && is_side_by_side(pages);
            return if direct { Expected::Hit } else { Expected::Scattered };
        }
        let colour = colours[pages[0] as usize].unwrap();
        if let Some(found) = self.0.iter_mut().find(|(c, p, _)| *c == colour && p == pages) {
            found.2 += 1;
            return Expected::Hit;
        }
        if self.0.iter().filter(|(c, ..)| *c == colour).count() == SINGLES {
            return Expected::Busy;
        }
        self.0.push((colour, pages.to_vec(), 1));
        Expected::Miss
    }
    fn free(&mut self, pages: &[u64]) {
        if let Some(at) = self.0.iter().position(|(_, shown, _)| shown == pages) {
            self.0[at].2 -= 1;
            if self.0[at].2 == 0 {
                self.0.remove(at);
            }
        }
    }
    fn counts(&self) -> bool {
        false
    }
}

/// Marks the first page of a run, for the models.
const IS_RUN: u64 = 1 << 63;

/// What was given out.
struct Given<'a, E: Ephemeral<Page = u64>> {
    buf: Buf<'a, E>,
    pages: Vec<u64>,
    core: u32,
    private: bool,
    is_run: bool,
}

struct Test<'a, E: Ephemeral<Page = u64>, M> {
    of: &'a E,
    model: M,
    world: Pretended,
    given: Vec<Given<'a, E>>,
    /// What was written to the pages last.
    written: [u64; PAGES as usize],
    counters: Counters,
    rng: fastrand::Rng,
}

impl<'a, E: Ephemeral<Page = u64>, M: Model> Test<'a, E, M> {
    fn alloc(&mut self) {
        let core = self.rng.u32(..CORES);
        let private = self.rng.bool();
        let is_run = self.rng.u8(..4) == 0;
        let first = self.rng.u64(..PAGES - RUN as u64);
        let len = if is_run { self.rng.u64(1..=RUN as u64) } else { 1 };
        let mut pages: Vec<u64> = (first..first + len).collect();
        if is_run && self.rng.u8(..3) == 0 {
            self.rng.shuffle(&mut pages);
        }
        let flags = Flags::NO_WAIT;
        let flags = if private { flags.with(Flags::PRIVATE) } else { flags };
        self.world.world().here = core;
        let got = match is_run {
            true => self.of.alloc_run(&pages, flags),
            false => self.of.alloc(pages[0], flags),
        };
        let key = key(&pages, is_run);
        match (self.model.alloc(&key, &self.world), got) {
            (expected @ (Expected::Hit | Expected::Miss), Ok(buf)) => {
                match expected {
                    Expected::Hit => self.counters.hits += 1,
                    _ => self.counters.misses += 1,
                }
                assert_eq!(buf.page(), pages[0]);
                let shared = self.given.iter().filter(|g| g.buf.address() == buf.address());
                shared.for_each(|g| assert_eq!(g.pages[0], pages[0], "E2"));
                self.given.push(Given { buf, pages, core, private, is_run });
            }
            (Expected::Busy, Err(AllocError::Busy)) => {}
            (Expected::Scattered, Err(AllocError::Scattered)) => {}
            (_, got) => panic!("{pages:?}: {got:?}"),
        }
    }

    fn free(&mut self) {
        if self.given.is_empty() {
            return;
        }
        let given = self.given.swap_remove(self.rng.usize(..self.given.len()));
        // Whoever frees it need not be who got it.
        self.world.world().here = self.rng.u32(..CORES);
        drop(given.buf);
        self.model.free(&key(&given.pages, given.is_run));
    }

    /// Whoever may use a mapping does.
    fn touch(&mut self) {
        if self.given.is_empty() {
            return;
        }
        let given = &self.given[self.rng.usize(..self.given.len())];
        let core = if given.private { given.core } else { self.rng.u32(..CORES) };
        let n = self.rng.usize(..given.pages.len());
        let (page, address) = (given.pages[n], given.buf.address() + n * 4096);
        let mut world = self.world.world();
        assert_eq!(world.page_at(core, address), page, "E1: core {core} at {address:#x}");
        assert_eq!(world.read(core, address), self.written[page as usize]);
        if self.rng.bool() {
            let value = self.rng.u64(..);
            world.write(core, address, value);
            self.written[page as usize] = value;
        }
    }

    /// The program uses its own address.
    fn user(&mut self) {
        let page = self.rng.u64(..PAGES);
        let value = self.rng.u64(..);
        if let Some(at) = self.world.world().user(page) {
            assert_eq!(*at, self.written[page as usize]);
            *at = value;
            self.written[page as usize] = value;
        }
    }

    /// The program maps a page elsewhere, which nobody looks at meanwhile.
    fn recolour(&mut self) {
        let page = self.rng.u64(..PAGES);
        let colour = Some(self.rng.usize(..=COLOURS)).filter(|&colour| colour < COLOURS);
        if self.given.iter().all(|given| !given.pages.contains(&page)) {
            self.world.world().recolour(page, colour);
        }
    }

    fn run(&mut self, check: impl Fn()) {
        for n in 0..OPERATIONS {
            match self.rng.u8(..16) {
                0..=4 => self.alloc(),
                5..=8 => self.free(),
                9..=13 => self.touch(),
                14 => self.user(),
                _ => self.recolour(),
            }
            if n % 64 == 0 {
                check();
                self.world.world().steps.clear();
            }
        }
        let (counters, world) = (self.of.counters(), self.world.world());
        if self.model.counts() {
            assert_eq!(
                (counters.hits, counters.misses),
                (self.counters.hits, self.counters.misses)
            );
        }
        assert_eq!((counters.local, counters.remote), (world.local, world.remote));
    }
}

fn key(pages: &[u64], is_run: bool) -> Vec<u64> {
    let mut key = pages.to_vec();
    key[0] |= if is_run { IS_RUN } else { 0 };
    key
}

fn test<E: Ephemeral<Page = u64>>(of: &E, model: impl Model, world: Pretended, check: impl Fn()) {
    let rng = fastrand::Rng::with_seed(13);
    let mut test = Test {
        of,
        model,
        world,
        given: Vec::new(),
        written: [0; PAGES as usize],
        counters: Counters::default(),
        rng,
    };
    test.run(check);
}

fn alone<W: Windows>(windows: W) -> Guarded<Alone<State<W>>, W> {
    Guarded::new(Alone::new(State::new(windows)))
}

#[test]
fn direct() {
    test(&Direct::<Pretended>::new(), All, Pretended::default(), || ());
}

#[test]
fn cache() {
    let world = Pretended::default();
    let cache = alone(Cache::<_, SINGLES, RUNS>::new(world.clone()));
    test(&cache, Lru::new(), world, || cache.with(|cache| cache.check()).unwrap());
}

#[test]
fn coloured() {
    let world = Pretended::with_virtual_cache();
    let coloured = alone(Coloured::<_, SINGLES, COLOURS>::new(world.clone()));
    test(&coloured, Hybrid(vec![]), world, || coloured.with(|c| c.check()).unwrap());
}

#[test]
fn uncached() {
    let world = Pretended::default();
    let uncached = alone(Uncached::<_, SINGLES, RUNS>::new(world.clone()));
    let model = Addresses { singles: SINGLES, runs: RUNS };
    test(&uncached, model, world, || ());
}

/// The oracle of [`coloured`] sees it if the direct map is used whatever the colour is.
#[test]
#[should_panic(expected = "assertion")]
fn a_virtually_indexed_cache_needs_colours() {
    test(&Direct::<Pretended>::new(), All, Pretended::with_virtual_cache(), || ());
}
