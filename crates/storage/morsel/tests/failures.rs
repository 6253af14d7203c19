//! Power failures: at every fence of every operation, with every set of stores that may be missing; and during recovery.

mod common;

use common::{after_failure, audit, Contents, Op, World};
use morsel::{Anchor, Domain, Refused};
use powerfail::{Depth, Image, Recorder, Site, Subject, Walk};
use std::cell::RefCell;
use std::collections::BTreeSet;

const FRAMES: usize = 72;
/// Up to so many images of a point, all are looked at; of more, so many.
const MOST: usize = 1 << 12;
const SAMPLES: usize = 48;

/// What is there before: objects of three orders, a grown one, a snapshot, a meta morsel.
const BEFORE: [Op; 11] = [
    Op::Create { id: 1, order: 1 },
    Op::Write { id: 1, page: 3, value: 10 },
    // Its last word is behind the limit.
    Op::Limit { id: 1, bytes: 3 * 4096 + 8 },
    Op::Write { id: 1, page: 3, value: 11 },
    Op::Grow { id: 1 },
    Op::Create { id: 2, order: 2 },
    Op::Write { id: 2, page: 0, value: 21 },
    Op::Write { id: 2, page: 513, value: 22 },
    Op::Snapshot { id: 2, new: 3 },
    Op::Meta { id: 4, data: 5, order: 1 },
    Op::Write { id: 5, page: 7, value: 51 },
];

/// One of each kind, and more where the kinds of objects differ.
const OPERATIONS: [Op; 41] = [
    Op::Create { id: 6, order: 0 },
    Op::Create { id: 6, order: 2 },
    Op::Create { id: 64, order: 1 },
    Op::Write { id: 1, page: 3, value: 12 },
    Op::Limit { id: 1, bytes: 2 << 20 },
    Op::Write { id: 1, page: 600, value: 13 },
    Op::Write { id: 2, page: 0, value: 23 },
    Op::Write { id: 2, page: 513, value: 24 },
    Op::Write { id: 3, page: 0, value: 31 },
    Op::Write { id: 3, page: 1, value: 32 },
    Op::Write { id: 6, page: 0, value: 61 },
    Op::Write { id: 5, page: 8, value: 52 },
    Op::Read { id: 2, page: 5 },
    Op::Read { id: 1, page: 5 },
    Op::Populate { id: 2, first: 510, end: 515, huge: false },
    Op::Discard { id: 2, first: 0, end: 1 },
    Op::Discard { id: 2, first: 512, end: 1024 },
    Op::Discard { id: 1, first: 0, end: 600 },
    Op::Discard { id: 3, first: 0, end: 514 },
    Op::Limit { id: 2, bytes: 4 },
    Op::Limit { id: 2, bytes: 513 * 4096 + 4090 },
    Op::Limit { id: 1, bytes: 1 << 30 },
    Op::Grow { id: 2 },
    Op::Grow { id: 3 },
    Op::Part { id: 2, first: 512 },
    Op::Snapshot { id: 1, new: 7 },
    Op::Snapshot { id: 2, new: 7 },
    Op::Snapshot { id: 3, new: 6 },
    Op::Destroy { id: 2 },
    Op::Destroy { id: 3 },
    Op::Destroy { id: 4 },
    Op::Doom { id: 2, steps: 1 },
    Op::Doom { id: 1, steps: 1 },
    Op::Doom { id: 1, steps: 2 },
    Op::Doom { id: 1, steps: 3 },
    Op::Meta { id: 6, data: 8, order: 1 },
    Op::Commit { id: 1, new: 9 },
    Op::Commit { id: 2, new: 9 },
    Op::Commit { id: 2, new: 10 },
    Op::Commit { id: 10, new: 3 },
    Op::Release { id: 2 },
];

/// The objects of a pool.
struct Objects;

impl Subject for Objects {
    type World = World;
    type State = Contents;
    type Found = Contents;

    fn recover(image: Image, muted: Option<Site>, watch: bool) -> Result<World, String> {
        common::inspect(&image).map_err(|refused| format!("inspection: {refused:?}"))?;
        let world = World::booted(image, Domain::Memory);
        world.memory.borrow_mut().muted = muted;
        if watch {
            world.memory.borrow_mut().watch();
        }
        world.recover().map(|()| world)
    }
    fn recorder(world: &World) -> &RefCell<Recorder> {
        &world.memory
    }
    fn between(world: &World, old: &Contents, new: &Contents) -> Result<Contents, String> {
        let found = audit(world)?;
        after_failure(old, new, &found).map(|()| found)
    }
    fn is_still(world: &World, found: &Contents) -> Result<(), String> {
        match audit(world)? {
            now if now == *found => Ok(()),
            now => Err(format!("{found:?}\nbecomes {now:?}")),
        }
    }
}

type Failures = Walk<Objects>;

/// Does operations one after the other; in each and after each the power may fail. Returns what there is then.
fn sequence(
    failures: &mut Failures,
    world: &World,
    contents: &Contents,
    ops: &[Op],
) -> Result<Contents, String> {
    let mut contents = contents.clone();
    world.memory.borrow_mut().watch();
    for (n, &op) in ops.iter().enumerate() {
        contents = step(failures, world, &contents, (n, op))?;
    }
    Ok(contents)
}

/// Operation number `n`.
fn step(
    failures: &mut Failures,
    world: &World,
    contents: &Contents,
    (n, op): (usize, Op),
) -> Result<Contents, String> {
    // The next is done by another core, whose fences are not for what this one has written back.
    world.memory.borrow_mut().core = n % powerfail::CORES;
    let mut after = contents.clone();
    let expected = op.model(&mut after);
    let found = op.run(world);
    match found {
        Err(Refused::NoMemory) => after = contents.clone(),
        // The model knows nothing of what is left of an object.
        Err(Refused::Exists) if new_numbers(op).any(|id| is_left(world, id)) => {
            after = contents.clone();
        }
        found if found != expected => return Err(format!("{found:?}, not {expected:?}")),
        _ => {}
    }
    failures.operation(world, contents, &after)?;
    Ok(after)
}

/// The records that an operation makes.
fn new_numbers(op: Op) -> impl Iterator<Item = u32> {
    let (one, other) = match op {
        Op::Create { id, .. } => (Some(id), None),
        Op::Snapshot { new, .. } | Op::Commit { new, .. } => (Some(new), None),
        Op::Meta { id, data, .. } => (Some(id), Some(data)),
        _ => (None, None),
    };
    one.into_iter().chain(other)
}

/// Is a record that of an object that is being destroyed, or of what it was at its last commit?
fn is_left(world: &World, id: u32) -> bool {
    let morsels = world.morsels();
    let is_dying = |record| morsels.anchor(record).is_dying();
    morsels.record(id).is_some_and(|record| {
        let is_hidden = morsels.anchor(record).has(Anchor::HIDDEN);
        is_dying(record) || is_hidden && morsels.record(morsels.other(record)).is_some_and(is_dying)
    })
}

/// Memory in which something was.
fn used_memory() -> World {
    let world = World::new(FRAMES, Domain::Memory);
    for frame in common::HEAD..FRAMES as u64 {
        for word in 0..powerfail::PAGE {
            world.memory.borrow_mut().store(frame, word, 0x5555_5555_5555_5555);
        }
    }
    World::first_fit(world.image(), Domain::Memory)
}

fn before(muted: Option<Site>) -> (World, Contents) {
    let world = used_memory();
    world.morsels().format().expect("format");
    let mut contents = Contents::new();
    for op in BEFORE {
        assert_eq!(op.run(&world), op.model(&mut contents));
    }
    let world = World::first_fit(world.image(), Domain::Memory);
    world.recover().expect("nothing is wrong");
    world.memory.borrow_mut().muted = muted;
    (world, contents)
}

/// The power fails while a pool is made where there was another, or none; its first `taken` frames are left out.
fn format(old: World, taken: u8, muted: Option<Site>) -> Result<BTreeSet<Site>, String> {
    let before =
        (old.image().load(common::HEAD, 0) == morsel::MAGIC).then(|| audit(&old)).transpose()?;
    let world = World::booted(old.image(), Domain::Memory);
    world.memory.borrow_mut().watch();
    world.memory.borrow_mut().muted = muted;
    (0..taken).for_each(|_| assert!(morsel::Pages::take(&world, 0).is_ok()));
    world.morsels().format().expect("format");
    world.memory.borrow_mut().point();
    let points = world.memory.borrow_mut().take_points();
    let last = points.len() - 1;
    let (mut none, mut empty, mut wrong) = (0, 0, Ok(()));
    for (n, point) in points.into_iter().enumerate() {
        point.images(MOST, &mut fastrand::Rng::with_seed(1), |image| {
            let is_pool = image.load(common::HEAD, 0) == morsel::MAGIC;
            let world = World::booted(image, Domain::Memory);
            let found = world.recover().and_then(|()| audit(&world));
            let good = match &found {
                Ok(found) if found.is_empty() => is_pool,
                Ok(found) => n < last && before.as_ref() == Some(found),
                Err(_) => n < last && !is_pool,
            };
            none += found.is_err() as usize;
            empty += found.as_ref().is_ok_and(|found| found.is_empty()) as usize;
            if !good {
                wrong = Err(format!("point {n} of {last}: {found:?}"));
            }
        });
    }
    wrong?;
    assert!(none > 0 && empty > 0, "{none} {empty}");
    let sites = world.memory.borrow().sites().clone();
    Ok(sites)
}

fn formats(muted: Option<Site>) -> Result<BTreeSet<Site>, String> {
    for taken in 0..8 {
        format(before(None).0, taken, muted)?;
    }
    format(used_memory(), 0, muted)
}

#[test]
fn a_pool_is_formatted_or_it_is_none() {
    formats(None).expect("old or new");
}

/// All sequences of two operations.
#[test]
fn all_pairs_of_operations() {
    let (world, contents) = before(None);
    let mut failures = Failures::new(Objects, 1, Depth { images: SAMPLES, again: 16 }, None);
    for first in OPERATIONS {
        for second in OPERATIONS {
            let result = sequence(&mut failures, &world.clone(), &contents, &[first, second]);
            result.unwrap_or_else(|wrong| panic!("{first:?}, {second:?}: {wrong}"));
        }
    }
    for between in OPERATIONS {
        let ops = [Op::Commit { id: 2, new: 9 }, between, Op::Commit { id: 2, new: 10 }];
        let result = sequence(&mut failures, &world.clone(), &contents, &ops);
        result.unwrap_or_else(|wrong| panic!("{ops:?}: {wrong}"));
    }
    println!("{} images, {} after a second failure", failures.images, failures.recoveries);
}

/// Each operation, with all images that a point has, up to 4,096.
#[test]
fn each_operation_in_depth() {
    let (world, contents) = before(None);
    let mut failures = Failures::new(Objects, 2, Depth { images: MOST, again: 64 }, None);
    for op in OPERATIONS.into_iter().chain([Op::Large { id: 2, large: true }]) {
        let result = sequence(&mut failures, &world.clone(), &contents, &[op]);
        result.unwrap_or_else(|wrong| panic!("{op:?}: {wrong}"));
    }
    println!("{} images, {} after a second failure", failures.images, failures.recoveries);
}

/// Of what follows on a pair, so many are tried before another pair is chosen.
const THIRDS: u64 = 20;

/// Random sequences of three: a few images of each. `TESSERA_TRIPLES=1000000` tries a million.
#[test]
fn random_sequences_of_three() {
    let seed = 0x7e55_e7a5_0000_0100;
    let (world, contents) = before(None);
    let mut failures = Failures::new(Objects, seed, Depth { images: 3, again: 64 }, None);
    let wanted = powerfail::wanted(2_000);
    let (mut pair, mut reached) = ([OPERATIONS[0]; 2], None);
    for n in 0..wanted {
        if n % THIRDS == 0 {
            pair = std::array::from_fn(|_| failures.random.choice(OPERATIONS).expect("some"));
            let after = World::clone(&world);
            let result = sequence(&mut failures, &after, &contents, &pair);
            let between =
                result.unwrap_or_else(|wrong| panic!("seed {seed:#x}, {pair:?}: {wrong}"));
            reached = Some((after, between));
        }
        let (after, between) = reached.as_ref().expect("a pair was done");
        let third = failures.random.choice(OPERATIONS).expect("some");
        let result = step(&mut failures, &after.clone(), between, (2, third));
        result.unwrap_or_else(|wrong| panic!("seed {seed:#x}, {pair:?}, {third:?}: {wrong}"));
        if n % 100_000 == 99_999 {
            println!("{} sequences", n + 1);
        }
    }
    println!("{} images, {} after a second failure", failures.images, failures.recoveries);
}

/// Sequences that find what is missing at most places. If others do, it takes longer.
const FINDERS: [usize; 15] =
    [1723, 1353, 1189, 1320, 1394, 416, 826, 868, 306, 4, 25, 22, 15, 35, 36];

/// Each fence and each write-back of the crate is needed: without it, something is found.
#[test]
fn no_fence_and_no_write_back_can_be_left_out() {
    let (world, contents) = before(None);
    let of_crate = |site: &&Site| site.file.contains("morsel/src");
    let mut sequences: Vec<Vec<Op>> = OPERATIONS.iter().map(|op| vec![*op]).collect();
    for first in OPERATIONS {
        sequences.extend(OPERATIONS.map(|second| vec![first, second]));
    }
    // What was shared is free only when the other has gone, too; then the other core makes roots of it.
    let read = Op::Read { id: 5, page: 7 };
    let mut reuse = vec![Op::Doom { id: 2, steps: 1 }, Op::Destroy { id: 3 }];
    for id in [6, 7, 9, 10, 11, 12] {
        reuse.extend([read, Op::Create { id, order: 0 }]);
    }
    sequences.push(reuse);
    // A limit that was raised cuts nothing any more.
    let limits = [4, 513 * 4096 + 4090].map(|bytes| Op::Limit { id: 2, bytes });
    sequences.push(vec![limits[0], limits[1], Op::Write { id: 2, page: 513, value: 24 }]);
    let formatting = formats(None).expect("nothing is missing");
    let mut sites: BTreeSet<Site> = formatting.iter().filter(of_crate).copied().collect();
    let mut good = Failures::new(Objects, 3, Depth { images: 32, again: 64 }, None);
    for ops in &sequences {
        let world = world.clone();
        sequence(&mut good, &world, &contents, ops).expect("nothing is missing");
        sites.extend(world.memory.borrow().sites().iter().filter(of_crate));
        sites.extend(good.recovering.iter().filter(of_crate));
    }
    sites.retain(|site| formats(Some(*site)).is_ok());
    let depth = Depth { images: 32, again: 64 };
    let state = || Failures::new(Objects, 3, depth, None);
    let recovering = &good.recovering;
    let order = (sequences.len(), &FINDERS[..]);
    let unneeded = powerfail::unneeded(sites, order, state, |good, site, order| {
        let (world, contents) = before(Some(site));
        // Only if recovery does not come to it, it goes on as before.
        let recovering = recovering.contains(&site);
        let again = if recovering { 8 } else { usize::MAX };
        let mut failures = Failures::new(Objects, 3, Depth { again, ..depth }, Some(site));
        if !recovering {
            failures.share_passed(good);
        }
        let found = order
            .iter()
            .find(|&&n| sequence(&mut failures, &world.clone(), &contents, &sequences[n]).is_err());
        if !recovering {
            failures.share_passed(good);
        }
        found.copied()
    });
    assert!(unneeded.is_empty(), "not needed: {unneeded:#?}");
}
