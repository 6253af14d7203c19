//! A million random operations beside the naive model, in both domains, with restarts between them.

mod common;

use common::{audit, there, Contents, Op, World};
use morsel::{Domain, Refused, Until};

const OPERATIONS: usize = 500_000;
const IDS: u32 = 12;

/// A page in the first, a middle or the last part of an object.
fn page(random: &mut fastrand::Rng, order: u8) -> u64 {
    let pages = morsel::pages_of(order);
    let near = random.u64(..8);
    match random.u8(..8) {
        0 => pages.saturating_sub(1 + near),
        1 => pages.saturating_add(near),
        2 => pages / 2 + near,
        3 => 512 + near,
        4 => random.u64(..1200),
        _ => near,
    }
}

fn id(random: &mut fastrand::Rng) -> u32 {
    // Now and then of another page of the directory.
    match random.u8(..16) {
        0 => 64 + random.u32(..2),
        _ => 1 + random.u32(..IDS),
    }
}

fn operation(random: &mut fastrand::Rng, contents: &Contents) -> Op {
    let id_here = id(random);
    let order = contents.get(&id_here).map_or(2, |object| object.order);
    let at = page(random, order);
    let end = at + random.u64(1..700);
    match random.u8(..36) {
        0..=2 => Op::Create { id: id_here, order: random.u8(..6) },
        3..=12 => Op::Write { id: id_here, page: at, value: random.u64(1..) },
        13..=17 => Op::Read { id: id_here, page: at },
        18 => Op::Populate { id: id_here, first: at, end: at + random.u64(..80), huge: false },
        19 => Op::Populate { id: id_here, first: at & !511, end: (at & !511) + 512, huge: true },
        20..=21 => Op::Discard { id: id_here, first: at, end },
        22 => Op::Discard { id: id_here, first: at & !511, end: (at & !511) + 1024 },
        23..=24 => Op::Limit { id: id_here, bytes: at * 4096 + random.u64(..4097) },
        25 => Op::Grow { id: id_here },
        32..=33 => Op::Large { id: id_here, large: random.bool() },
        26 => Op::Part { id: id_here, first: at & !511 },
        27..=28 => Op::Snapshot { id: id_here, new: id(random) },
        30 => Op::Commit { id: id_here, new: id(random) },
        31 => Op::Release { id: id_here },
        29 => Op::Meta { id: id_here, data: id(random), order: random.u8(..3) },
        _ => Op::Destroy { id: id_here },
    }
}

/// What was begun when the pool was empty is ended, at the cost of other objects.
fn make_room(world: &World, before: &mut Contents, after: &mut Contents) {
    let morsels = world.morsels();
    for id in after.keys().copied().collect::<Vec<_>>() {
        let Ok(record) = morsels.open(id) else { continue };
        let mut from = 0;
        loop {
            match morsels.trim(record, from) {
                Ok(None) => break,
                Ok(Some(next)) => from = next,
                Err(Refused::Again) if world.busy > 0 => {}
                Err(Refused::NoMemory) => {
                    let is_other =
                        |other: &&u32| **other != id && after[other].described_by.is_none();
                    let other = *after.keys().find(is_other).expect("one object fills the pool");
                    for contents in [&mut *before, &mut *after] {
                        Op::Destroy { id: other }.model(contents).expect("there");
                    }
                    until_done(Op::Destroy { id: other }, world).expect("there");
                }
                Err(refused) => panic!("trim of {id}: {refused:?}"),
            }
        }
    }
}

/// Which pages of an object are there, beside what its tables say page by page.
fn survey(world: &World, random: &mut fastrand::Rng, contents: &Contents) -> Result<(), String> {
    let Some((&id, object)) = contents.iter().nth(random.usize(..IDS as usize)) else {
        return Ok(());
    };
    let (there, large_pages) = common::there_and_large(world, id);
    let morsels = world.morsels();
    let record = morsels.open(id).map_err(|refused| format!("{refused:?}"))?;
    let first = page(random, object.order);
    let end = first + random.u64(1..1500);
    let image = world.image();
    for until in [Until::End, Until::Page, Until::Hole] {
        let (mut at, mut pages, mut large, mut found) = (first, 0, 0, false);
        let mut steps = 0;
        while at < end && !found {
            let step = morsels.survey(record, at, end, until).map_err(|r| format!("{r:?}"))?;
            // What has left is no hole.
            pages += step.pages + step.out;
            (at, found, steps) = (step.next, step.found, steps + 1);
            large += step.large;
        }
        let stop = (first..end).find(|page| match until {
            Until::End => false,
            Until::Page => there.contains(page),
            Until::Hole => !there.contains(page),
        });
        let expected =
            (stop.unwrap_or(end), there.range(first..stop.unwrap_or(end)).count() as u64);
        if (at, pages, found) != (expected.0, expected.1, stop.is_some()) {
            return Err(format!(
                "{id}, pages {first} to {end}, {until:?}: {:?}, not {expected:?}",
                (at, pages)
            ));
        }
        // Of large pages only those count of which nothing was left out.
        let end_of_all = stop.unwrap_or(end);
        let all_of = |&&page: &&u64| {
            first <= page && page + 512 <= end_of_all && there.contains(&(page + 511))
        };
        let expected = large_pages.iter().filter(all_of).count() as u64 * 512;
        if large != expected {
            return Err(format!(
                "{id}, pages {first} to {end}: {large} in large ones, not {expected}"
            ));
        }
        // A table in a step, and what is behind the limit.
        if steps > (end - first) / 512 + 4 {
            return Err(format!("{id}, pages {first} to {end}, {until:?}: {steps} steps"));
        }
    }
    match world.image() == image {
        true => Ok(()),
        false => Err(format!("{id}: who only looks has changed something")),
    }
}

fn run(seed: u64, frames: usize, domain: Domain, operations: usize) {
    run_in(seed, World::new(frames, domain), operations);
}

/// What an operation answers that is repeated while pages are on their way between other cores.
fn until_done(op: Op, world: &World) -> Result<Option<[u64; 2]>, Refused> {
    let tries = if world.busy > 0 { 10_000 } else { 1 };
    (1..tries)
        .map(|_| op.run(world))
        .find(|done| *done != Err(Refused::Again))
        .unwrap_or_else(|| op.run(world))
}

/// The same; what is needed comes in, if something has left.
fn with_all_in(op: Op, world: &World) -> Result<Option<[u64; 2]>, Refused> {
    match until_done(op, world) {
        Err(Refused::Out) => {
            (0..80).for_each(|id| match world.all_in(id) {
                Ok(()) | Err(Refused::Gone) => {}
                refused => panic!("{op:?}: {id} comes in: {refused:?}"),
            });
            until_done(op, world)
        }
        done => done,
    }
}

/// Some pages leave, and some come in; nobody can tell.
fn out_and_in(world: &World, random: &mut fastrand::Rng, contents: &Contents) {
    let Some((&id, object)) = contents.iter().nth(random.usize(..IDS as usize)) else { return };
    let first = page(random, object.order);
    let mut page = first;
    while page < first + 30 {
        let count = random.u64(1..12);
        let done = match random.u8(..4) {
            0 => world.page_in(id, page, count),
            _ => {
                // In a row, some of a row, or one.
                let some = [u64::MAX, random.u64(..), 1][random.usize(..3)] << (page & 63);
                let left = world.page_out(id, page, some);
                if let Ok(left) = left {
                    leaves_in_order(world, id, page & !63, left);
                }
                left
            }
        };
        match done {
            Ok(_) | Err(Refused::Beyond | Refused::Exists) => {}
            refused => panic!("{id}, page {page}: {refused:?}"),
        }
        page += count;
    }
}

/// Pages that have left are in slots one behind the other.
fn leaves_in_order(world: &World, id: u32, row: u64, left: u64) {
    let (morsels, record) = (world.morsels(), world.morsels().open(id).unwrap());
    let slot = |n| morsels.slot_of(record, row + n).unwrap().map(|slot| slot.0);
    let slots: Vec<_> = (0..64).filter(|n| left >> n & 1 != 0).map(slot).collect();
    for (n, &slot) in slots.iter().enumerate() {
        assert_eq!(slot, slots[0].map(|first| first + n as u64), "{id}, {left:#x} of row {row}");
    }
}

fn run_in(seed: u64, mut world: World, operations: usize) {
    let (mut random, domain, busy) = (fastrand::Rng::with_seed(seed), world.domain, world.busy);
    world.morsels().format().expect("format");
    let mut contents = Contents::new();
    let mut empty = 0;
    for n in 0..operations {
        let op = operation(&mut random, &contents);
        let context = || format!("seed {seed:#x}, operation {n}: {op:?}");
        let mut after = contents.clone();
        let expected = op.model(&mut after);
        // Of a page of meta morsels, only that it is read is known.
        let is_meta = |id| contents.get(&id).is_some_and(|object| object.is_meta);
        let found = match op {
            Op::Read { id, .. } if is_meta(id) => continue,
            op if world.slots > 0 => with_all_in(op, &world),
            op => until_done(op, &world),
        };
        match found {
            Err(Refused::NoMemory) => {
                assert!(world.was_empty.take(), "{}: there are pages", context());
                empty += 1;
                let mut contents_then = contents.clone();
                make_room(&world, &mut contents_then, &mut after);
                let now = audit(&world).unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
                common::between(&contents_then, &after, &now)
                    .unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
                contents = now;
                continue;
            }
            // A page of 2 MiB has no table.
            Err(Refused::Invalid) if matches!(op, Op::Part { .. }) => continue,
            found => assert_eq!(found, expected, "{}", context()),
        }
        if expected.is_ok() {
            contents = after;
        }
        if world.slots > 0 {
            out_and_in(&world, &mut random, &contents);
        }
        if n % 97 == 0 || random.u16(..) == 0 {
            let now = audit(&world).unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
            assert_eq!(now, contents, "{}", context());
            survey(&world, &mut random, &contents)
                .unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
        }
        if n % 2003 == 0 && !world.grows {
            world = World::booted(world.image(), domain).with_busy(busy);
            world.recover().unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
            contents.values_mut().for_each(|object| *object = object.settled().clone());
            let now = audit(&world).unwrap_or_else(|wrong| panic!("{}: {wrong}", context()));
            assert_eq!(now, contents, "{}: after a restart", context());
        }
    }
    println!("seed {seed:#x}: {operations} operations, the pool was empty {empty} times");
    for id in contents.iter().filter(|(_, object)| object.described_by.is_none()).map(|(id, _)| *id)
    {
        let destroyed = until_done(Op::Destroy { id }, &world);
        assert_eq!(destroyed, Ok(None), "seed {seed:#x}: object {id}");
    }
    let left = audit(&world).unwrap_or_else(|wrong| panic!("seed {seed:#x}: at the end: {wrong}"));
    assert!(left.is_empty());
}

#[test]
fn random_operations_are_those_of_the_model() {
    run(0x7e55_e7a5_0000_0001, 6000, Domain::Caches, OPERATIONS);
}

#[test]
fn random_operations_are_those_of_the_model_where_caches_are_lost() {
    run(0x7e55_e7a5_0000_0002, 6000, Domain::Memory, OPERATIONS);
}

/// Pages of 2 MiB that a snapshot has, too, are copied page by page.
#[test]
fn random_operations_in_a_pool_that_does_not_survive() {
    for (seed, frames) in [(21, 6000), (22, 3000), (23, 4000), (24, 5000)] {
        let mut world = World::new(frames, Domain::Caches);
        world.grows = true;
        run_in(0x7e55_e7a5_0000_0000 + seed, world, OPERATIONS / 64);
    }
}

/// Pages leave for a store and come back between all of it; the store is often full.
#[test]
fn random_operations_while_pages_leave() {
    for (seed, slots) in [(31, 2000), (32, 300), (33, 40)] {
        let mut world = World::new(16_000, Domain::Caches);
        (world.grows, world.slots) = (true, slots);
        run_in(0x7e55_e7a5_0000_0000 + seed, world, OPERATIONS / 64);
    }
}

#[test]
fn random_operations_in_a_pool_that_is_nearly_empty() {
    for seed in 3..11 {
        run(0x7e55_e7a5_0000_0000 + seed, 700, Domain::Caches, OPERATIONS / 64);
    }
}

/// Each fourth call for a page is told that others are moving what there is. Who comes again gets it: nobody is told that there is none.
#[test]
fn random_operations_in_a_pool_that_others_take_from() {
    for (seed, busy) in [(11, 4), (12, 2), (13, 3)] {
        let world = World::new(6000, Domain::Caches).with_busy(busy);
        run_in(0x7e55_e7a5_0000_0000 + seed, world, OPERATIONS / 16);
    }
}

/// The page of an object of order 0 is not the object's to take away; but nobody sees it behind the limit.
#[test]
fn nothing_is_mapped_behind_a_limit_of_zero() {
    let world = World::new(64, Domain::Caches);
    world.morsels().format().expect("format");
    Op::Create { id: 1, order: 0 }.run(&world).expect("room");
    Op::Write { id: 1, page: 0, value: 5 }.run(&world).expect("room");
    Op::Limit { id: 1, bytes: 0 }.run(&world).expect("room");
    assert_eq!(Op::Read { id: 1, page: 0 }.run(&world), Err(Refused::Beyond));
    Op::Limit { id: 1, bytes: 4096 }.run(&world).expect("room");
    assert_eq!(Op::Read { id: 1, page: 0 }.run(&world), Ok(Some([0, 0])));
}

/// Two objects share a table, and one of them ends in it.
#[test]
fn zeros_are_not_shown_behind_the_limit_of_another() {
    let world = World::new(64, Domain::Caches);
    world.morsels().format().expect("format");
    let ops = [
        Op::Create { id: 1, order: 2 },
        Op::Write { id: 1, page: 3, value: 5 },
        Op::Limit { id: 1, bytes: 4 * 4096 },
        Op::Snapshot { id: 1, new: 2 },
        Op::Limit { id: 2, bytes: 1 << 30 },
    ];
    ops.into_iter().for_each(|op| assert_eq!(op.run(&world), Ok(None), "{op:?}"));
    assert_eq!(Op::Read { id: 2, page: 5 }.run(&world), Ok(Some([0, 0])));
    assert_eq!(Op::Read { id: 1, page: 5 }.run(&world), Err(Refused::Beyond));
}

/// Of an object that is advised to have large pages: one is made where all of it is before the limit, and nowhere else.
#[test]
fn large_pages_end_before_the_limit() {
    let world = World::new(4096, Domain::Caches);
    world.morsels().format().expect("format");
    let ops = [
        Op::Create { id: 1, order: 2 },
        Op::Limit { id: 1, bytes: 1000 * 4096 },
        Op::Large { id: 1, large: true },
        Op::Write { id: 1, page: 3, value: 5 },
        Op::Write { id: 1, page: 600, value: 6 },
    ];
    ops.into_iter().for_each(|op| assert_eq!(op.run(&world), Ok(None), "{op:?}"));
    let expected = (0..512).chain([600]).collect::<std::collections::BTreeSet<u64>>();
    assert_eq!(there(&world, 1), expected);
    Op::Limit { id: 1, bytes: 1 << 30 }.run(&world).expect("room");
    assert_eq!(there(&world, 1), expected, "it was there before the limit was raised");
    Op::Write { id: 1, page: 1030, value: 7 }.run(&world).expect("room");
    assert_eq!(there(&world, 1).len(), 512 + 1 + 512);
}
