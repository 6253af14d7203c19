//! A million random operations beside a set of frames.

use pool::{Geometry, Locals, Pool, Refused, Size, Words, CHILD, TREE};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

#[derive(Default)]
struct Memory(RefCell<Vec<u64>>);

impl Words for Memory {
    fn load(&self, word: usize) -> u64 {
        self.0.borrow()[word]
    }
    fn store(&self, word: usize, value: u64) {
        self.0.borrow_mut()[word] = value;
    }
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<(), u64> {
        let word = &mut self.0.borrow_mut()[word];
        match *word == old {
            true => *word = new,
            false => return Err(*word),
        }
        Ok(())
    }
}
impl Locals for Memory {
    fn cores(&self) -> usize {
        self.0.borrow().len()
    }
    fn load(&self, core: usize) -> u64 {
        Words::load(self, core)
    }
    fn compare_exchange(&self, core: usize, old: u64, new: u64) -> Result<(), u64> {
        Words::compare_exchange(self, core, old, new)
    }
    fn found_in(&self, _core: usize) -> usize {
        FOUND_IN.get()
    }
    fn set_found_in(&self, _core: usize, group: usize) {
        FOUND_IN.set(group);
    }
}

thread_local! {
    /// Of all cores and pools of a test: it may say anything. (Not of all tests: each repeats what it did.)
    static FOUND_IN: Cell<usize> = const { Cell::new(0) };
}

fn memory(words: usize) -> Memory {
    // What was there before is anything.
    Memory(RefCell::new(vec![0x5555_5555_5555_5555; words]))
}

/// What is taken, and which of it as 2 MiB.
#[derive(Default)]
struct Model {
    used: BTreeSet<usize>,
    huge: BTreeSet<usize>,
    closed: BTreeSet<usize>,
    /// Children that are no memory of the pool; all of them is used, too.
    absent: BTreeSet<usize>,
}

impl Model {
    fn all_free(&self, first: usize, count: usize) -> bool {
        self.used.range(first..first + count).next().is_none()
    }
    fn free_children(&self, geometry: &Geometry) -> Vec<usize> {
        let closed = |child: &usize| self.closed.contains(&(child / TREE));
        (0..geometry.children())
            .filter(|child| !closed(child) && self.all_free(child * CHILD, CHILD))
            .collect()
    }
    fn room(&self, geometry: &Geometry, size: Size) -> bool {
        (0..geometry.frames()).step_by(size.frames()).any(|first| {
            self.all_free(first, size.frames()) && !self.closed.contains(&(first / CHILD / TREE))
        })
    }
}

fn take(pool: &Pool<'_, Memory, Memory>, size: Size, core: usize) -> Result<usize, Refused> {
    let copy = Pool { words: &pool.words, locals: &pool.locals, geometry: pool.geometry };
    let run = || copy.take_run(core, 1).map(|(frame, _)| frame);
    let one = || if core.is_multiple_of(2) { copy.take_next(core) } else { run() };
    let next = (size == Size::Page).then(one).flatten();
    next.map_or_else(|| pool.take(size, core), Ok)
}

fn run(seed: u64, children: usize, reserved: usize, cores: usize, operations: usize) {
    let geometry = Geometry::new(children * CHILD + 100, reserved).expect("large enough");
    run_in(seed, geometry, cores, operations);
}

fn run_in(seed: u64, geometry: Geometry, cores: usize, operations: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (words, locals) = (memory(geometry.words()), Memory(RefCell::new(vec![0; cores])));
    let pool = Pool { words: &words, locals: &locals, geometry };
    pool.format();
    let mut model = Model { used: (0..geometry.own_frames()).collect(), ..Model::default() };
    let (mut full, mut came, mut went) = (0, 0, 0);
    if geometry.is_apart() {
        model.used = (0..geometry.frames()).collect();
        model.absent = (0..geometry.children()).collect();
    }
    // Fills and empties in turns.
    for n in 0..operations {
        let context = || format!("seed {seed:#x}, operation {n}");
        let core = random.usize(..cores);
        let size = if random.u8(..8) == 0 { Size::Huge } else { Size::Page };
        let filling = n / 20_000 % 2 == 0;
        match random.u8(..16) {
            0 => {
                let frame = random.usize(..geometry.frames() + 600);
                let free = frame + size.frames() <= geometry.frames()
                    && frame.is_multiple_of(size.frames())
                    && model.all_free(frame, size.frames())
                    && !model.closed.contains(&(frame / CHILD / TREE));
                assert_eq!(pool.take_at(frame, size), free, "{}: {frame}", context());
                if free {
                    taken(&mut model, frame, size);
                }
            }
            1 => {
                // Anything, also what is free, another size, or not aligned.
                let frame = random.usize(..geometry.frames() + 600);
                give(&pool, &mut model, frame, size, core, &context);
            }
            2 if n % 64 == 0 => {
                let tree = random.usize(..geometry.trees());
                if model.closed.remove(&tree) {
                    pool.open(tree);
                } else {
                    pool.close(tree);
                    model.closed.insert(tree);
                }
                let frames =
                    tree * TREE * CHILD..((tree + 1) * TREE * CHILD).min(geometry.frames());
                let empty =
                    model.closed.contains(&tree) && model.all_free(frames.start, frames.len());
                assert_eq!(pool.is_empty(tree), empty, "{}", context());
            }
            3 if n % 64 == 0 => pool.leave(core),
            4 if geometry.is_apart()
                && (n % 16 == 0 || model.used.len() > geometry.frames() - CHILD) =>
            {
                match come_or_go(&pool, &mut model, &mut random, &context) {
                    Some(true) => came += 1,
                    Some(false) => went += 1,
                    None => {}
                }
            }
            n if (n < 11) == filling => match take(&pool, size, core) {
                Ok(frame) => {
                    assert!(frame.is_multiple_of(size.frames()), "{}: {frame}", context());
                    assert!(frame + size.frames() <= geometry.frames(), "{}: {frame}", context());
                    assert!(model.all_free(frame, size.frames()), "{}: {frame} is used", context());
                    let closed = model.closed.contains(&(frame / CHILD / TREE));
                    assert!(!closed, "{}: {frame} is closed", context());
                    taken(&mut model, frame, size);
                }
                Err(refused) => {
                    assert_eq!(refused, Refused::Empty, "{}", context());
                    full += 1;
                    let room = full % 16 == 1 && model.room(&geometry, size);
                    assert!(!room, "{}: there is room for {size:?}", context());
                }
            },
            _ => {
                let from = random.usize(..geometry.frames());
                let Some(&frame) = model.used.range(from..).next() else { continue };
                let whole = model.huge.contains(&(frame / CHILD)) && random.bool();
                let size = if whole { Size::Huge } else { Size::Page };
                give(
                    &pool,
                    &mut model,
                    frame / size.frames() * size.frames(),
                    size,
                    core,
                    &context,
                );
            }
        }
        if n % 9973 == 0 {
            assert_eq!(found_free(&pool), model.free_children(&geometry), "{}", context());
            assert_eq!(pool.free(), geometry.frames() - model.used.len(), "{}", context());
            for frame in 0..geometry.frames() {
                let free = !model.used.contains(&frame);
                assert_eq!(pool.is_free(frame), free, "{}: frame {frame}", context());
            }
        }
    }
    println!(
        "seed {seed:#x}: {operations} operations, full {full} times, {came} came, {went} went"
    );
    assert!(full > 0);
    assert!(!geometry.is_apart() || came > 100 && went > 100, "{came} came, {went} went");
}

/// A child comes that is absent, or goes if all of it is free.
fn come_or_go(
    pool: &Pool<'_, Memory, Memory>,
    model: &mut Model,
    random: &mut fastrand::Rng,
    context: &impl Fn() -> String,
) -> Option<bool> {
    // Also one that there is not.
    let child = random.usize(..pool.geometry.children() + 1);
    let frames = child * CHILD..(child + 1) * CHILD;
    let inside = child < pool.geometry.children();
    if random.bool() {
        let expected = match (inside, model.absent.contains(&child)) {
            (false, _) => Err(Refused::Outside),
            (_, false) => Err(Refused::NotTaken),
            _ => Ok(()),
        };
        assert_eq!(pool.add(child), expected, "{}: {child}", context());
        if expected.is_ok() {
            model.absent.remove(&child);
            frames.for_each(|frame| {
                model.used.remove(&frame);
            });
        }
        return expected.is_ok().then_some(true);
    }
    if inside && !model.absent.contains(&child) && random.bool() {
        // So that it happens: everything comes back that was taken of it.
        let used: Vec<_> = model.used.range(frames.clone()).copied().collect();
        for frame in used {
            give(pool, model, frame, Size::Page, random.usize(..pool.locals.cores()), context);
        }
    }
    let free = inside && model.all_free(frames.start, CHILD);
    let goes = free && !model.closed.contains(&(child / TREE));
    assert_eq!(pool.remove(child), goes, "{}: {child}", context());
    assert_eq!(pool.is_absent(child), !inside || goes || model.absent.contains(&child));
    if goes {
        model.absent.insert(child);
        model.used.extend(frames);
    }
    goes.then_some(false)
}

/// What a search for free children finds.
fn found_free(pool: &Pool<'_, Memory, Memory>) -> Vec<usize> {
    let (mut found, mut from) = (Vec::new(), 0);
    while from < pool.geometry.children() {
        match pool.find_free(from, 1 + from % 3) {
            Ok(child) => {
                found.push(child);
                from = child + 1;
            }
            Err(next) => {
                assert!(next > from);
                from = next;
            }
        }
    }
    found
}

fn taken(model: &mut Model, frame: usize, size: Size) {
    model.used.extend(frame..frame + size.frames());
    if size == Size::Huge {
        model.huge.insert(frame / CHILD);
    }
}

fn give(
    pool: &Pool<'_, Memory, Memory>,
    model: &mut Model,
    frame: usize,
    size: Size,
    core: usize,
    context: &impl Fn() -> String,
) {
    let own = pool.geometry.own_frames();
    let outside =
        frame < own || frame >= pool.geometry.frames() || !frame.is_multiple_of(size.frames());
    let there = match size {
        _ if model.absent.contains(&(frame / CHILD)) => false,
        Size::Page => model.used.contains(&frame),
        Size::Huge => model.huge.contains(&(frame / CHILD)),
    };
    let expected = match (outside, there) {
        (true, _) => Err(Refused::Outside),
        (_, false) => Err(Refused::NotTaken),
        _ => Ok(()),
    };
    assert_eq!(pool.give(frame, size, core), expected, "{}: {frame} {size:?}", context());
    if expected.is_ok() {
        model.huge.remove(&(frame / CHILD));
        (frame..frame + size.frames()).for_each(|frame| {
            model.used.remove(&frame);
        });
    }
}

#[test]
fn random_operations_are_those_of_a_set() {
    run(0x7e55_e7a5_0000_0300, 19, 1, 3, 600_000);
    run(0x7e55_e7a5_0000_0301, 2, 0, 1, 200_000);
    run(0x7e55_e7a5_0000_0302, 9, 600, 7, 200_000);
    let apart = |children| Geometry::apart(children * CHILD + 100).expect("not too large");
    run_in(0x7e55_e7a5_0000_0303, apart(19), 3, 600_000);
    run_in(0x7e55_e7a5_0000_0304, apart(2), 2, 200_000);
}

/// Only what comes for the first time is written down page by page; descriptors are left as who gives back leaves them.
#[test]
fn memory_that_comes_has_no_descriptors() {
    let geometry = Geometry::apart(3 * CHILD).expect("not too large");
    let (words, locals) = (memory(geometry.words()), Memory(RefCell::new(vec![0; 2])));
    let pool = Pool { words: &words, locals: &locals, geometry };
    pool.format();
    assert_eq!((pool.free(), pool.take(Size::Page, 0)), (0, Err(Refused::Empty)));
    assert_eq!(words.0.borrow()[geometry.descriptor(CHILD)], 0x5555_5555_5555_5555);
    // Nor is anything of it given back, whatever its bits say.
    assert_eq!(pool.give(2 * CHILD + 2, Size::Page, 0), Err(Refused::NotTaken));
    assert_eq!(pool.add(1), Ok(()));
    let mut descriptors = CHILD..2 * CHILD;
    assert!(descriptors.all(|frame| words.0.borrow()[geometry.descriptor(frame)] == 0));
    assert_eq!(words.0.borrow()[geometry.descriptor(0)], 0x5555_5555_5555_5555);
    assert_eq!(words.0.borrow()[geometry.descriptor(2 * CHILD)], 0x5555_5555_5555_5555);
    assert_eq!((pool.take(Size::Huge, 1), pool.remove(1)), (Ok(CHILD), false));
    assert_eq!((pool.give(CHILD, Size::Huge, 0), pool.remove(1)), (Ok(()), true));
    // What core 0 had reserved of it is no right any more.
    assert_eq!((pool.free(), pool.take(Size::Page, 0)), (0, Err(Refused::Empty)));
    assert_eq!(pool.give(CHILD, Size::Huge, 0), Err(Refused::NotTaken));
    assert_eq!(pool.give(CHILD + 7, Size::Page, 0), Err(Refused::NotTaken));
    assert_eq!((pool.add(1), pool.add(1)), (Ok(()), Err(Refused::NotTaken)));
    assert_eq!(pool.free(), CHILD);
}

/// Runs are as long as what is free in a row in one word, and go back as they came, or one by one.
#[test]
fn runs_are_taken_and_given() {
    let geometry = Geometry::new(2 * CHILD, 0).expect("large enough");
    let (words, locals) = (memory(geometry.words()), Memory(RefCell::new(vec![0; 1])));
    let pool = Pool { words: &words, locals: &locals, geometry };
    pool.format();
    let (words, locals) = (&words, &locals);
    let copy = || Pool { words: &words, locals: &locals, geometry };
    let all = pool.free();
    assert_eq!(copy().take_run(0, 5), None, "nothing was found yet");
    let first = pool.take(Size::Page, 0).unwrap();
    let (start, count) = copy().take_run(0, 5).unwrap();
    assert_eq!((start, count), (first + 1, 5));
    assert_eq!(pool.give(first + 3, Size::Page, 0), Ok(()));
    assert_eq!(copy().take_run(0, 5), Some((first + 3, 1)));
    let (rest, more) = copy().take_run(0, 100).unwrap();
    assert_eq!((rest, more), (first + 6, 64 - (first + 6) % 64));
    assert_eq!(copy().take_run(0, 100), None, "the word has no more");
    assert_eq!(pool.give_run(rest, more + 1, 0), Err(Refused::Outside));
    assert_eq!(pool.give_run(rest, more, 0), Ok(()));
    assert_eq!(pool.give_run(rest - 1, 2, 0), Err(Refused::NotTaken));
    assert_eq!(pool.give_run(first, 6, 0), Ok(()));
    assert_eq!(pool.free(), all);
}

#[test]
fn as_much_is_described_as_there_are_words() {
    for own in (0..4000).chain([1 << 20]) {
        let most = Geometry::most_apart(own);
        let fits = |frames| Geometry::apart(frames).is_some_and(|g| g.words().div_ceil(512) <= own);
        assert!(most == 0 || fits(most), "{own}");
        assert!(!fits(most + CHILD), "{own}: more than {most} fit");
    }
    assert_eq!(Geometry::apart(511), None);
    assert_eq!(Geometry::apart(usize::MAX), None);
}

#[test]
fn a_pool_of_nothing_is_none() {
    assert_eq!(Geometry::new(0, 0), None);
    assert_eq!(Geometry::new(511, 0), None);
    assert_eq!(Geometry::new(512, 511), None);
    assert_eq!(Geometry::new(512, usize::MAX), None);
    let geometry = Geometry::new(1 << 28, 1).expect("1 TiB");
    assert!(geometry.own_frames() * 500 < geometry.frames());
}

/// As after a power failure: all is free, and then what is in use is taken.
#[test]
fn recovery_takes_what_is_reached() {
    let geometry = Geometry::new(8 * CHILD, 1).expect("large enough");
    let (words, locals) = (memory(geometry.words()), Memory(RefCell::new(vec![0; 2])));
    let pool = Pool { words: &words, locals: &locals, geometry };
    pool.format();
    let before: Vec<_> = (0..700).map(|n| pool.take(Size::Page, n % 2).expect("room")).collect();
    let huge = pool.take(Size::Huge, 0).expect("room");
    words.0.borrow_mut()[geometry.descriptor(before[0])] = 7;
    // What cores had reserved before, and descriptors, mean nothing any more.
    pool.format();
    assert_eq!(words.0.borrow()[geometry.descriptor(before[0])], 0);
    assert!(before.iter().all(|&frame| pool.take_at(frame, Size::Page)));
    assert!(before.iter().all(|&frame| !pool.take_at(frame, Size::Page)));
    assert!(pool.take_at(huge, Size::Huge) && !pool.take_at(huge + 5, Size::Page));
    assert_eq!(pool.free(), geometry.frames() - geometry.own_frames() - 700 - CHILD);
}

/// Slots are nobody's pages: they are taken as slots only, come back as pages do, and go with no chunk.
#[test]
fn slots_are_taken_as_slots_only() {
    // The second tree has only three children.
    let geometry = Geometry::apart((TREE + 3) * CHILD).expect("not too large");
    let (words, locals) = (memory(geometry.words()), Memory(RefCell::new(vec![0; 2])));
    let pool = Pool { words: &words, locals: &locals, geometry };
    pool.format();
    assert_eq!(pool.add(0), Ok(()));
    assert!(!pool.add_slots(0), "it has memory");
    assert!(pool.add_slots(1) && !pool.add_slots(1));
    assert_eq!(pool.free_slots(), 3 * CHILD);
    let pages = std::iter::from_fn(|| pool.take(Size::Page, 0).ok()).collect::<Vec<_>>();
    assert_eq!((pages.len(), pool.take(Size::Huge, 1)), (CHILD, Err(Refused::Empty)));
    assert!(pages.iter().all(|&page| page < CHILD && !pool.is_slot(page)));
    let one = |tree| pool.take_slots(tree, 1).map(|(slot, _)| slot);
    let slots = std::iter::from_fn(|| one(1)).collect::<BTreeSet<_>>();
    assert_eq!(slots, (TREE * CHILD..(TREE + 3) * CHILD).collect());
    assert_eq!((pool.free_slots(), one(0), one(2)), (0, None, None));
    let last = (TREE + 3) * CHILD - 1;
    for &slot in &slots {
        assert_eq!(pool.give(slot, Size::Page, 0), Ok(()));
        assert_eq!(pool.give(slot, Size::Page, 1), Err(Refused::NotTaken));
    }
    assert_eq!((pool.free_slots(), pool.is_free(last)), (3 * CHILD, true));
    assert_eq!(pool.take(Size::Page, 0), Err(Refused::Empty));
    // No chunk is found that could go.
    assert!(pool.find_free(0, 2).is_err() && !pool.remove(TREE));
}

/// Slots that follow each other are looked for by a model, slot by slot: the first run of as many as are wanted in a word, or the first of the longest.
#[test]
fn slots_are_taken_in_the_longest_runs() {
    let geometry = Geometry::apart(2 * TREE * CHILD).expect("not too large");
    let (words, locals) = (memory(geometry.words()), Memory(RefCell::new(vec![0; 2])));
    let pool = Pool { words: &words, locals: &locals, geometry };
    pool.format();
    assert!(pool.add_slots(1));
    let all = TREE * CHILD..2 * TREE * CHILD;
    let (mut free, mut seed) = (all.clone().collect::<BTreeSet<_>>(), 7u64);
    let mut below = |end: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % end
    };
    let mut lengths = BTreeSet::new();
    for _ in 0..6000 {
        let most = 1 + below(9) as usize;
        let mut expected: Option<(usize, usize)> = None;
        for first in all.clone().filter(|slot| free.contains(slot)) {
            let word = first | 63;
            let run = (first..=word).take_while(|slot| free.contains(slot)).take(most).count();
            if expected.is_none_or(|(_, count)| count < run) {
                expected = Some((first, run));
            }
            if expected.is_some_and(|(_, count)| count == most) {
                break;
            }
        }
        assert_eq!(pool.take_slots(1, most), expected);
        let Some((first, count)) = expected else {
            free = all.clone().collect();
            all.clone().for_each(|slot| assert_eq!(pool.give(slot, Size::Page, 0), Ok(())));
            continue;
        };
        lengths.insert((most, count));
        (first..first + count).for_each(|slot| assert!(free.remove(&slot)));
        // Most stay: at some time there are only short runs.
        for _ in 0..below(7) {
            let slot = all.start + below(all.len() as u64) as usize;
            if free.insert(slot) {
                assert_eq!(pool.give(slot, Size::Page, 0), Ok(()));
            }
        }
        assert_eq!(pool.free_slots(), free.len());
    }
    assert!([2, 3, 4, 5, 6, 8].iter().all(|&n| lengths.contains(&(8, n))), "{lengths:?}");
}
