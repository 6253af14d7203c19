//! Ranges with few pages in memory: what comes and goes is what the policy says, request by request.

use super::kernel::{Moved, Store};
use super::World;
use crate::types::{Access, Prot, PAGE, REGION_PAGES};
use crate::{Advice, Error, Flags, MapRequest, Placement};
use selfpaging::{replay, Clock, Fifo, Optimal, Policy, Sampled};

const RW: Prot = Prot(3);
/// The range begins inside a group of pages, and inside what goes aside together, and has parts of two tables.
const START: u64 = REGION_PAGES - 37;
const PAGES: u64 = 100;

fn uses() -> Vec<u64> {
    let (mut state, mut at) = (7u64, 0);
    let one = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at = match state >> 60 {
            0..3 => (state >> 33) % PAGES,
            3..9 => 20 + (state >> 33) % 9,
            _ => (at + (state >> 40) % 3) % PAGES,
        };
        START + at
    };
    (0..600).map(one).collect()
}

fn policies(uses: &[u64]) -> [Box<dyn Policy>; 4] {
    let optimal = Optimal::new(uses.iter().copied()).unwrap();
    [Box::new(Fifo::new()), Box::new(Clock::new()), Box::new(Sampled::new()), Box::new(optimal)]
}

/// A world in which the range has contents, and pages can leave.
fn world() -> World {
    let mut world = World::with_own();
    let both = &mut world.processes[0];
    both.backend.store = Some(Store::default());
    let request = MapRequest {
        addr: START * PAGE,
        placement: Placement::Fixed,
        ..MapRequest::anonymous(PAGES * PAGE, RW)
    };
    both.real.mmap(&mut both.backend, &request).unwrap();
    both.model.enter(START, PAGES, RW, Flags(0), None);
    for page in START..START + PAGES {
        world.touch(0, page, Access::Write).unwrap();
    }
    world
}

#[test]
fn pages_come_and_go_as_the_policy_says() {
    let uses = uses();
    for which in 0..4 {
        for places in [1, 7, 30, 99, 500] {
            let mut world = world();
            let both = &mut world.processes[0];
            let policy = policies(&uses).into_iter().nth(which).unwrap();
            let range = (START * PAGE, PAGES * PAGE);
            both.real.limit(&mut both.backend, range, places, policy).unwrap();
            let mut log = Vec::new();
            // What has left before is one row.
            assert_eq!(take_log(&mut world), [(START, Moved::Out)]);
            for (n, &page) in uses.iter().enumerate() {
                let access = if n % 3 == 0 { Access::Write } else { Access::Read };
                world.touch(0, page, access).unwrap();
                world.processes[0].backend.note_use(page);
                log.extend(take_log(&mut world));
            }
            let policy = policies(&uses).into_iter().nth(which).unwrap();
            let misses = replay(policy, places.min(PAGES as u32), uses.iter().copied()).unwrap();
            let moves = |(page, gone): (u64, Option<u64>)| {
                gone.map(|gone| (gone, Moved::Out)).into_iter().chain([(page, Moved::In)])
            };
            let expected: Vec<_> = misses.into_iter().flat_map(moves).collect();
            assert_eq!(log, expected, "policy {which} with {places} places");
            world.check();
            world.finish();
        }
    }
}

/// Memory that would be shown by one entry is not, as long as a part of it is limited.
#[test]
fn one_entry_shows_nothing_that_is_limited() {
    let mut world = World::with_own();
    let both = &mut world.processes[0];
    both.backend.store = Some(Store::default());
    let (start, pages) = (REGION_PAGES, 2 * REGION_PAGES);
    let request = MapRequest {
        addr: start * PAGE,
        placement: Placement::Fixed,
        ..MapRequest::anonymous(pages * PAGE, RW)
    };
    both.real.mmap(&mut both.backend, &request).unwrap();
    both.model.enter(start, pages, RW, Flags(0), None);
    for page in start..start + pages {
        world.touch(0, page, Access::Write).unwrap();
    }
    let both = &mut world.processes[0];
    assert!(both.real.pmap().wholes() > 0);
    let (first, count) = (start + 100, 20);
    let range = (first * PAGE, count * PAGE);
    both.real.limit(&mut both.backend, range, 4, Box::new(Fifo::new())).unwrap();
    take_log(&mut world);
    // The other region is shown by one entry as before.
    for page in [start, first - 1, first + count, start + REGION_PAGES] {
        world.touch(0, page, Access::Write).unwrap();
        let pmap = world.processes[0].real.pmap();
        assert_eq!(pmap.is_whole(page / REGION_PAGES), page == start + REGION_PAGES);
    }
    for page in first..first + count {
        world.touch(0, page, Access::Write).unwrap();
    }
    let ins = take_log(&mut world).into_iter().filter(|(_, moved)| *moved == Moved::In);
    assert_eq!(ins.count() as u64, count);
    world.check();
    world.finish();
}

/// What is advised to leave goes on in what has left before: that is no part of the advice.
#[test]
fn advice_ends_where_it_ends() {
    let mut world = world();
    let both = &mut world.processes[0];
    let half = PAGES / 2;
    for first in [START + half, START] {
        let range = (first * PAGE, half * PAGE);
        both.real.madvise(&mut both.backend, range.0, range.1, Advice::PageOut).unwrap();
    }
    both.own_what_is_own();
    assert_eq!(take_log(&mut world), [(START + half, Moved::Out), (START, Moved::Out)]);
    world.check();
    world.finish();
}

/// Pages of the address space that were asked to leave or come.
fn take_log(world: &mut World) -> Vec<(u64, Moved)> {
    let store = world.processes[0].backend.store.as_mut().unwrap();
    std::mem::take(&mut store.log)
}

#[test]
fn what_cannot_be_limited_says_so() {
    let mut world = world();
    let both = &mut world.processes[0];
    let (real, b) = (&mut both.real, &mut both.backend);
    let mut limit = |addr, pages, places, store: bool| {
        if !store {
            b.store = None;
        }
        real.limit(b, (addr, pages * PAGE), places, Box::new(Fifo::new()))
    };
    assert_eq!(limit(START * PAGE, 0, 4, true), Err(Error::Invalid));
    assert_eq!(limit(START * PAGE + 8, 1, 4, true), Err(Error::Invalid));
    assert_eq!(limit(START * PAGE, PAGES, 0, true), Err(Error::Invalid));
    assert_eq!(limit(START * PAGE, PAGES + 1, 4, true), Err(Error::NoMemory));
    assert_eq!(limit(START * PAGE, PAGES, 4, false), Err(Error::NotSupported));
    world.wire(0, (START, 1), true, false);
    let both = &mut world.processes[0];
    both.backend.store = Some(Store::default());
    let range = (START * PAGE, PAGES * PAGE);
    let refused = both.real.limit(&mut both.backend, range, 4, Box::new(Fifo::new()));
    assert_eq!(refused, Err(Error::Invalid));
    assert_eq!(take_log(&mut world), []);
    world.check();
    world.finish();
}

/// Memory beside the range is shown by tables, too, but nothing of the range with it.
#[test]
fn what_is_beside_a_range_is_not_limited() {
    let mut world = world();
    let both = &mut world.processes[0];
    let (first, pages) = (START + 30, 40);
    // All of it is one object; the range is in its middle.
    assert_eq!(both.real.relieve(&mut both.backend, PAGES, false), PAGES);
    let range = (first * PAGE, pages * PAGE);
    both.real.limit(&mut both.backend, range, 5, Box::new(Fifo::new())).unwrap();
    both.own_what_is_own();
    take_log(&mut world);
    for page in (START..first).chain(first + pages..START + PAGES) {
        world.touch(0, page, Access::Write).unwrap();
    }
    assert_eq!(take_log(&mut world), []);
    for page in first..first + pages {
        world.touch(0, page, Access::Write).unwrap();
        world.touch(0, first - 1, Access::Read).unwrap();
        world.touch(0, first + pages, Access::Read).unwrap();
    }
    let log = take_log(&mut world);
    let count = |moved| log.iter().filter(|(_, how)| *how == moved).count() as u64;
    assert_eq!((count(Moved::In), count(Moved::Out)), (pages, pages - 5));
    // Without a limit all comes back and stays.
    let both = &mut world.processes[0];
    both.real.limit_nothing();
    for _ in 0..2 {
        for page in START..START + PAGES {
            world.touch(0, page, Access::Read).unwrap();
        }
    }
    assert_eq!(take_log(&mut world), []);
    world.check();
    world.finish();
}
