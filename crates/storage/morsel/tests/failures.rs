//! Power failures: at every fence of every operation, with every set of stores that may be missing; and during recovery.

mod common;

use common::{after_failure, audit, Contents, Op, World};
use morsel::{Domain, Refused};
use powerfail::{Image, Point, Site};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};

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

/// How much is looked at.
#[derive(Clone, Copy)]
struct Depth {
    images: usize,
    /// Of so many images, one is recovered with further failures.
    again: usize,
}

struct Failures {
    depth: Depth,
    random: fastrand::Rng,
    images: usize,
    recoveries: usize,
    /// What has been recovered, and was between these two states.
    passed: HashSet<(u64, u64)>,
    /// Places that recovery comes to.
    recovering: BTreeSet<Site>,
    muted: Option<Site>,
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Failures {
    fn new(seed: u64, depth: Depth) -> Failures {
        let random = fastrand::Rng::with_seed(seed);
        Failures {
            depth,
            random,
            images: 0,
            recoveries: 0,
            passed: HashSet::new(),
            recovering: BTreeSet::new(),
            muted: None,
        }
    }

    /// Everything that may be found at these points is between two states.
    fn check(&mut self, points: Vec<Point>, old: &Contents, new: &Contents) -> Result<(), String> {
        let states = hash((old, new));
        for point in points {
            let (mut wrong, most) = (None, self.depth.images);
            let mut random = self.random.fork();
            point.images(most, &mut random, |image| {
                self.images += 1;
                let key = (image.hash(), states);
                if wrong.is_none() && !self.passed.contains(&key) {
                    wrong = self.recover(image, old, new).err();
                    self.passed.insert(key);
                }
            });
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        Ok(())
    }

    fn recover(&mut self, image: Image, old: &Contents, new: &Contents) -> Result<(), String> {
        let world = World::booted(image, Domain::Memory);
        world.memory.borrow_mut().muted = self.muted;
        let again = self.random.usize(..self.depth.again) == 0;
        if again {
            world.memory.borrow_mut().watch();
        }
        world.recover()?;
        self.recovering.extend(world.memory.borrow().sites());
        let found = audit(&world)?;
        after_failure(old, new, &found)?;
        if again {
            self.recover_again(&world, &found)?;
        }
        Ok(())
    }

    /// The power failed during recovery, too; and nothing remains to be done at the next.
    fn recover_again(&mut self, world: &World, found: &Contents) -> Result<(), String> {
        world.memory.borrow_mut().point();
        let points = world.memory.borrow_mut().take_points();
        for point in points {
            let mut wrong = Ok(());
            point.images(12, &mut self.random.fork(), |image| {
                self.recoveries += 1;
                let world = World::booted(image, Domain::Memory);
                let now = world.recover().and_then(|()| audit(&world));
                let same = now.and_then(|now| match now == *found {
                    true => Ok(()),
                    false => Err(format!("{found:?}\nbecomes, by another failure, {now:?}")),
                });
                wrong = std::mem::replace(&mut wrong, Ok(())).and(same);
            });
            wrong?;
        }
        let before = world.image();
        let restarted = World::booted(before.clone(), Domain::Memory);
        restarted.recover()?;
        (restarted.image() == before)
            .then_some(())
            .ok_or("recovering twice changes something".into())
    }

    /// Does operations one after the other; in each and after each the power may fail.
    fn sequence(&mut self, world: &World, contents: &Contents, ops: &[Op]) -> Result<(), String> {
        let mut contents = contents.clone();
        world.memory.borrow_mut().watch();
        for (n, &op) in ops.iter().enumerate() {
            // The next is done by another core, whose fences are not for what this one has written back.
            world.memory.borrow_mut().core = n % powerfail::CORES;
            let mut after = contents.clone();
            let expected = op.model(&mut after);
            let found = op.run(world);
            match found {
                Err(Refused::NoMemory) => after = contents.clone(),
                found if found != expected => return Err(format!("{found:?}, not {expected:?}")),
                _ => {}
            }
            let points = world.memory.borrow_mut().take_points();
            self.check(points, &contents, &after)?;
            // What has returned is done.
            world.memory.borrow_mut().point();
            let points = world.memory.borrow_mut().take_points();
            self.check(points, &after, &after)?;
            contents = after;
        }
        Ok(())
    }
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
    (0..taken).for_each(|_| assert!(morsel::Pages::take(&world, 0).is_some()));
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
    let mut failures = Failures::new(1, Depth { images: SAMPLES, again: 16 });
    for first in OPERATIONS {
        for second in OPERATIONS {
            let result = failures.sequence(&world.clone(), &contents, &[first, second]);
            result.unwrap_or_else(|wrong| panic!("{first:?}, {second:?}: {wrong}"));
        }
    }
    for between in OPERATIONS {
        let ops = [Op::Commit { id: 2, new: 9 }, between, Op::Commit { id: 2, new: 10 }];
        let result = failures.sequence(&world.clone(), &contents, &ops);
        result.unwrap_or_else(|wrong| panic!("{ops:?}: {wrong}"));
    }
    println!("{} images, {} after a second failure", failures.images, failures.recoveries);
}

/// Each operation, with all images that a point has, up to 4,096.
#[test]
fn each_operation_in_depth() {
    let (world, contents) = before(None);
    let mut failures = Failures::new(2, Depth { images: MOST, again: 64 });
    for op in OPERATIONS.into_iter().chain([Op::Large { id: 2, large: true }]) {
        let result = failures.sequence(&world.clone(), &contents, &[op]);
        result.unwrap_or_else(|wrong| panic!("{op:?}: {wrong}"));
    }
    println!("{} images, {} after a second failure", failures.images, failures.recoveries);
}

/// Random sequences of three: one image of each.
#[test]
fn random_sequences_of_three() {
    let seed = 0x7e55_e7a5_0000_0100;
    let (world, contents) = before(None);
    let mut failures = Failures::new(seed, Depth { images: 3, again: 64 });
    for _ in 0..2_000 {
        let ops: [Op; 3] =
            std::array::from_fn(|_| OPERATIONS[failures.random.usize(..OPERATIONS.len())]);
        let result = failures.sequence(&world.clone(), &contents, &ops);
        result.unwrap_or_else(|wrong| panic!("seed {seed:#x}, {ops:?}: {wrong}"));
    }
    println!("{} images, {} after a second failure", failures.images, failures.recoveries);
}

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
    let mut good = Failures::new(3, Depth { images: 32, again: 64 });
    for ops in &sequences {
        let world = world.clone();
        good.sequence(&world, &contents, ops).expect("nothing is missing");
        sites.extend(world.memory.borrow().sites().iter().filter(of_crate));
        sites.extend(good.recovering.iter().filter(of_crate));
    }
    let mut unneeded = Vec::new();
    for site in &sites {
        let is_found = formats(Some(*site)).is_err() || {
            let (world, contents) = before(Some(*site));
            // Only if recovery does not come to it, it goes on as before.
            let recovering = good.recovering.contains(site);
            let mut known = HashSet::new();
            let passed = if recovering { &mut known } else { &mut good.passed };
            let again = if recovering { 8 } else { usize::MAX };
            let mut failures = Failures::new(3, Depth { images: 32, again });
            failures.muted = Some(*site);
            std::mem::swap(&mut failures.passed, passed);
            let found = sequences
                .iter()
                .any(|ops| failures.sequence(&world.clone(), &contents, ops).is_err());
            std::mem::swap(&mut failures.passed, passed);
            found
        };
        println!("{}:{} fence {}: {is_found}", site.file, site.line, site.is_fence);
        if !is_found {
            unneeded.push(site);
        }
    }
    println!("{} places", sites.len());
    assert!(unneeded.is_empty(), "not needed: {unneeded:#?}");
}
