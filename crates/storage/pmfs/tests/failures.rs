//! Power failures: at every fence of every operation, with every set of stores that may be missing; and during mounts.

mod common;

use common::model::{compare, Model};
use common::{attr, formatted, Memory, New, Op, Ref, World};
use pmfs::Refused;
use powerfail::{Depth, Image, Recorder, Site, Subject, Walk};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const PAGES: usize = 4;
/// Up to so many images of a point, all are looked at; of more, so many.
const MOST: usize = 1 << 12;
const SAMPLES: usize = 16;

// Names: 0, 1, 2 are short; 11 has 255 bytes, and 7 has 49.
const A: u8 = 0;
const B: u8 = 1;
const C: u8 = 2;
const LONG: u8 = 7;
const LONGEST: u8 = 11;

fn at(path: &[u8]) -> Ref {
    Ref::Path(path.to_vec())
}

/// What is there before: two directories, one in the other; a file with two names and attributes, one that is held, links.
fn before_ops() -> Vec<Op> {
    let create = |dir: &[u8], name, new| Op::Create { dir: at(dir), name, new, attr: name };
    let xattr =
        |file: &[u8], name, length| Op::SetXattr { file: at(file), name, length, seed: 1, how: 0 };
    vec![
        create(&[], A, New::Dir),
        create(&[A], B, New::Dir),
        create(&[], B, New::Dir),
        create(&[], C, New::File(1)),
        create(&[A], C, New::File(2)),
        Op::Link { file: at(&[A, C]), dir: at(&[A, B]), name: LONGEST },
        xattr(&[C], A, 20),
        xattr(&[C], B, 300),
        create(&[A], LONG, New::Symlink(200, 1)),
        create(&[], LONG, New::Fifo),
        Op::Unnamed { handle: 1, new: New::File(3), attr: 9 },
        create(&[A], 3, New::File(4)),
        Op::Hold { file: at(&[A, 3]), handle: 2 },
        Op::Unlink { dir: at(&[A]), name: 3 },
    ]
}

/// One of each kind, and more where the kinds of files differ.
fn operations() -> Vec<Op> {
    let create = |dir: &[u8], name, new| Op::Create { dir: at(dir), name, new, attr: 40 };
    let rename = |from: &[u8], old, to: &[u8], new, how| Op::Rename {
        from: (at(from), old),
        to: (at(to), new),
        how,
    };
    let xattr =
        |file: &[u8], name, length| Op::SetXattr { file: at(file), name, length, seed: 2, how: 0 };
    let unlink = |dir: &[u8], name| Op::Unlink { dir: at(dir), name };
    vec![
        create(&[A], A, New::File(5)),
        create(&[B], LONGEST, New::Empty),
        create(&[], 4, New::Dir),
        create(&[A, B], C, New::Symlink(130, 2)),
        create(&[B], A, New::Char(0x501)),
        Op::Unnamed { handle: 3, new: New::File(6), attr: 41 },
        Op::Unnamed { handle: 1, new: New::Symlink(60, 1), attr: 41 },
        Op::Link { file: at(&[C]), dir: at(&[A]), name: LONG + 12 },
        Op::Link { file: Ref::Handle(1), dir: at(&[]), name: 5 },
        unlink(&[], C),
        unlink(&[A], C),
        unlink(&[A, B], LONGEST),
        unlink(&[A], LONG),
        Op::Rmdir { dir: at(&[]), name: B },
        Op::Rmdir { dir: at(&[A]), name: B },
        rename(&[], C, &[], 6, 0),
        rename(&[A], B, &[B], LONGEST, 0),
        rename(&[A], LONG, &[], C, 0),
        rename(&[], C, &[A], C, 0),
        rename(&[A, B], LONGEST, &[], LONG, 0),
        rename(&[], A, &[], B, 0),
        rename(&[], B, &[A], B, 0),
        rename(&[A], B, &[], C, 2),
        rename(&[], B, &[A], LONG, 2),
        rename(&[], C, &[B], C, 1),
        Op::SetAttr { file: at(&[C]), attr: 42 },
        Op::SetAttr { file: at(&[]), attr: 43 },
        xattr(&[C], C, 10),
        xattr(&[C], B, 60),
        xattr(&[A], LONGEST, 4096),
        xattr(&[A, LONG], B, 0),
        Op::RemoveXattr { file: at(&[C]), name: B },
        Op::SetContent { file: at(&[C]), content: Some(7) },
        Op::SetContent { file: at(&[A, C]), content: None },
        Op::Exchange { one: at(&[C]), other: at(&[A, C]) },
        Op::Snapshot { of: at(&[]), to: (at(&[B]), A), copies: 9 },
        Op::Snapshot { of: at(&[A]), to: (at(&[]), LONGEST), copies: 9 },
        Op::Snapshot { of: at(&[]), to: (at(&[]), LONG + 12), copies: 1 },
        Op::Snapshot { of: at(&[B]), to: (at(&[A, B]), A), copies: 0 },
        Op::RemoveTree { dir: at(&[]), name: A },
        Op::RemoveTree { dir: at(&[B]), name: A },
        Op::RemoveTree { dir: at(&[]), name: LONGEST },
        Op::Hold { file: at(&[C]), handle: 4 },
        Op::Hold { file: at(&[B]), handle: 1 },
        Op::Release { handle: 1 },
        Op::Release { handle: 2 },
        Op::Release { handle: 4 },
    ]
}

/// A file system.
struct Names {
    /// What may be done after a failure.
    operations: Vec<Op>,
    /// How often it was.
    later: usize,
}

impl Subject for Names {
    type World = World;
    type State = Model;
    type Found = Model;

    fn recover(image: Image, muted: Option<Site>, watch: bool) -> Result<World, String> {
        World::mount(image, muted, watch).map_err(|wrong| format!("{wrong:?}"))
    }
    fn recorder(world: &World) -> &RefCell<Recorder> {
        &world.memory.0
    }
    fn between(world: &World, old: &Model, new: &Model) -> Result<Model, String> {
        let Err(not_old) = compare(world, old) else { return Ok(old.clone()) };
        match compare(world, new) {
            Ok(()) => Ok(new.clone()),
            Err(not_new) => Err(format!("not old: {not_old}\nnot new: {not_new}")),
        }
    }
    fn is_still(world: &World, found: &Model) -> Result<(), String> {
        compare(world, found)
    }
    fn go_on(failures: &mut Failures, image: Image, found: &Model) -> Result<(), String> {
        go_on(failures, image, found)
    }
}

type Failures = Walk<Names>;

fn failures(seed: u64, depth: Depth, muted: Option<Site>) -> Failures {
    Walk::new(Names { operations: operations(), later: 0 }, seed, depth, muted)
}

/// Does operations one after the other; in each and after each the power may fail.
fn sequence(failures: &mut Failures, start: &Start, ops: &[&Op]) -> Result<BTreeSet<Site>, String> {
    let (mut world, mut model) = start.world(failures.muted);
    world.memory.0.borrow_mut().watch();
    for (n, op) in ops.iter().enumerate() {
        operation(failures, &mut world, &mut model, op, 1000 + n as i64)?;
    }
    let sites = world.memory.0.borrow().sites().clone();
    Ok(sites)
}

fn operation(
    failures: &mut Failures,
    world: &mut World,
    model: &mut Model,
    op: &Op,
    now: i64,
) -> Result<(), String> {
    let old = model.settled();
    let expected = op.model(model, now);
    let found = op.run(world, now);
    if found != expected {
        return Err(format!("{found:?}, not {expected:?}"));
    }
    failures.operation(world, &old, &model.settled())?;
    compare(world, model)
}

/// After a failure and a mount, another operation is begun, and the power fails again.
fn go_on(failures: &mut Failures, image: Image, found: &Model) -> Result<(), String> {
    let mut world = Names::recover(image, failures.muted, true)?;
    world.memory.0.borrow_mut().take_points();
    let all = &failures.subject.operations;
    let op = all[failures.random.usize(..all.len())].clone();
    let before = failures.depth;
    failures.depth = Depth { images: 12, again: usize::MAX };
    let result = operation(failures, &mut world, &mut found.clone(), &op, 2000);
    failures.depth = before;
    failures.subject.later += 1;
    result.map_err(|wrong| format!("then {op:?}: {wrong}"))
}

fn report(failures: &Failures) {
    println!(
        "{} images, {} after a failure during the mount, {} operations after a failure",
        failures.images, failures.recoveries, failures.subject.later
    );
}

/// What is there before: an image in which everything is written back, and operations that the mount forgets.
struct Start {
    image: Image,
    model: Model,
    held: Vec<Op>,
}

impl Start {
    fn new() -> Start {
        Start::with(PAGES)
    }
    fn with(pages: usize) -> Start {
        let mut world = World::mount(formatted(pages), None, false).expect("formatted");
        let mut model = Model::new(pages);
        let mut ops = before_ops();
        let held = ops.split_off(ops.len() - 4);
        for op in &ops {
            let (found, expected) = (op.run(&mut world, 1), op.model(&mut model, 1));
            assert!(found.is_ok() && found == expected, "{op:?}: {found:?}");
        }
        Start { image: world.image(), model, held }
    }
    /// A machine in which this has happened.
    fn world(&self, muted: Option<Site>) -> (World, Model) {
        let mut world = World::mount(self.image.clone(), muted, false).expect("nothing is wrong");
        let mut model = self.model.clone();
        for op in &self.held {
            assert_eq!(op.run(&mut world, 2), op.model(&mut model, 2), "{op:?}");
        }
        (world, model)
    }
}

/// The power fails while a file system is made.
fn formats(muted: Option<Site>) -> Result<BTreeSet<Site>, String> {
    format(Image::new(PAGES + 1), muted)?;
    format(common::used(PAGES), muted)
}

fn format(image: Image, muted: Option<Site>) -> Result<BTreeSet<Site>, String> {
    let mut recorder = Recorder::new(image);
    recorder.watch();
    recorder.muted = muted;
    let memory = Memory(Rc::new(RefCell::new(recorder)));
    pmfs::format(&memory, attr(1)).expect("large enough");
    memory.0.borrow_mut().point();
    let points = memory.0.borrow_mut().take_points();
    let last = points.len() - 1;
    let model = Model::new(PAGES);
    let (mut none, mut some, mut wrong) = (0, 0, Ok(()));
    for (n, point) in points.into_iter().enumerate() {
        point.images(MOST, &mut fastrand::Rng::with_seed(1), |image| {
            let good = match World::mount(image.clone(), None, false) {
                Ok(world) => compare(&world, &model).map(|()| some += 1),
                Err(Refused::Foreign) if n < last => {
                    none += 1;
                    // It can be made again.
                    let memory = Memory(Rc::new(RefCell::new(Recorder::new(image))));
                    pmfs::format(&memory, attr(1)).map_err(|wrong| format!("{wrong:?}"))
                }
                Err(refused) => Err(format!("point {n} of {last}: {refused:?}")),
            };
            wrong = std::mem::replace(&mut wrong, Ok(())).and(good);
        });
    }
    wrong?;
    assert!(none > 0 && some > 0, "{none} {some}");
    let sites = memory.0.borrow().sites().clone();
    Ok(sites)
}

#[test]
fn an_area_is_formatted_or_it_is_not() {
    formats(None).expect("old or new");
}

/// All sequences of two operations.
#[test]
fn all_pairs_of_operations() {
    let (start, ops) = (Start::new(), operations());
    let mut failures = self::failures(1, Depth { images: SAMPLES, again: 16 }, None);
    for first in &ops {
        for second in &ops {
            let result = sequence(&mut failures, &start, &[first, second]);
            result.unwrap_or_else(|wrong| panic!("{first:?}, {second:?}: {wrong}"));
        }
    }
    report(&failures);
}

/// Each operation, with all images that a point has, up to 4,096.
#[test]
fn each_operation_in_depth() {
    let start = Start::new();
    let mut failures = self::failures(2, Depth { images: MOST, again: 64 }, None);
    for op in &operations() {
        let result = sequence(&mut failures, &start, &[op]);
        result.unwrap_or_else(|wrong| panic!("{op:?}: {wrong}"));
    }
    report(&failures);
}

/// Values as long as they can be, set, replaced, copied and removed, each after each.
#[test]
fn long_values() {
    let start = Start::with(64);
    let file = || at(&[C]);
    let set = |name, length, seed| Op::SetXattr { file: file(), name, length, seed, how: 0 };
    let ops = [
        set(C, 65536, 3),
        set(B, 65536, 4),
        set(B, 12288, 5),
        set(LONGEST, 40_000, 6),
        Op::RemoveXattr { file: file(), name: B },
        Op::Snapshot { of: at(&[]), to: (at(&[B]), A), copies: 9 },
        Op::RemoveTree { dir: at(&[]), name: A },
        Op::Unlink { dir: at(&[]), name: C },
    ];
    let mut failures = self::failures(5, Depth { images: 4, again: 16 }, None);
    failures.subject.operations = ops.to_vec();
    for first in &ops {
        for second in &ops {
            let result = sequence(&mut failures, &start, &[first, second]);
            result.unwrap_or_else(|wrong| panic!("{first:?}, {second:?}: {wrong}"));
        }
    }
    report(&failures);
}

/// Random sequences of three: a few images of each. `TESSERA_TRIPLES=1000000` tries a million.
#[test]
fn random_sequences_of_three() {
    let seed = 0x7e55_e7a5_0000_0400;
    let (start, all) = (Start::new(), operations());
    let mut failures = self::failures(seed, Depth { images: 3, again: 64 }, None);
    for n in 0..powerfail::wanted(2_000) {
        let ops: [&Op; 3] = std::array::from_fn(|_| &all[failures.random.usize(..all.len())]);
        let result = sequence(&mut failures, &start, &ops);
        result.unwrap_or_else(|wrong| panic!("seed {seed:#x}, {ops:?}: {wrong}"));
        if n % 100_000 == 99_999 {
            println!("{} sequences", n + 1);
        }
    }
    report(&failures);
}

/// What is left of an operation that did not happen does not become part of the next one: nothing is between them, not even
/// something that the mount frees.
#[test]
fn half_a_record_is_never_completed() {
    let (mut start, ops) = (Start::new(), operations());
    start.held.clear();
    let mut failures = self::failures(4, Depth { images: 16, again: usize::MAX }, None);
    for op in &ops {
        let (mut world, mut model) = start.world(None);
        world.memory.0.borrow_mut().watch();
        let old = model.settled();
        if op.model(&mut model, 1000).is_err() || op.run(&mut world, 1000).is_err() {
            continue;
        }
        let new = model.settled();
        for point in world.memory.0.borrow_mut().take_points() {
            let (mut images, mut random) = (Vec::new(), failures.random.fork());
            point.images(24, &mut random, |image| images.push(image));
            for image in images {
                let world = World::mount(image.clone(), None, false).expect("whole");
                let found = if compare(&world, &new).is_ok() { &new } else { &old };
                let result = go_on(&mut failures, image, found);
                result.unwrap_or_else(|wrong| panic!("{op:?}: {wrong}"));
            }
        }
    }
    report(&failures);
}

/// Each fence and each write-back of the crate is needed: without it, something is found.
#[test]
fn no_fence_and_no_write_back_can_be_left_out() {
    let (start, ops) = (Start::new(), operations());
    let of_crate = |site: &&Site| site.file.contains("pmfs/src");
    let mut sequences: Vec<Vec<&Op>> = ops.iter().map(|op| vec![op]).collect();
    for first in &ops {
        sequences.extend(ops.iter().map(|second| vec![first, second]));
    }
    let formatting = formats(None).expect("nothing is missing");
    let mut sites: BTreeSet<Site> = formatting.iter().filter(of_crate).copied().collect();
    let depth = Depth { images: 32, again: 8 };
    let mut good = failures(3, depth, None);
    for op in &ops {
        let found = sequence(&mut good, &start, &[op]).expect("nothing is missing");
        sites.extend(found.iter().filter(of_crate));
        sites.extend(good.recovering.iter().filter(of_crate));
    }
    sites.retain(|site| formats(Some(*site)).is_ok());
    let order = (sequences.len(), &[][..]);
    let unneeded = powerfail::unneeded(sites, order, Start::new, |start, site, order| {
        let mut failures = self::failures(3, depth, Some(site));
        let mut order = order.iter().copied();
        order.find(|&n| sequence(&mut failures, start, &sequences[n]).is_err())
    });
    assert!(unneeded.is_empty(), "not needed: {unneeded:#?}");
}
