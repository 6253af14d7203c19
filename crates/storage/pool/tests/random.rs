//! A million random operations beside a set of frames.

use pool::{Geometry, Locals, Pool, Refused, Size, Words, CHILD, TREE};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
        FOUND_IN.load(Relaxed)
    }
    fn set_found_in(&self, _core: usize, group: usize) {
        FOUND_IN.store(group, Relaxed);
    }
}

/// Of all cores, and of all tests that run at the same time: it may say anything.
static FOUND_IN: AtomicUsize = AtomicUsize::new(0);

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
}

impl Model {
    fn all_free(&self, first: usize, count: usize) -> bool {
        self.used.range(first..first + count).next().is_none()
    }
    fn room(&self, geometry: &Geometry, size: Size) -> bool {
        (0..geometry.frames()).step_by(size.frames()).any(|first| {
            self.all_free(first, size.frames()) && !self.closed.contains(&(first / CHILD / TREE))
        })
    }
}

fn take(pool: &Pool<'_, Memory, Memory>, size: Size, core: usize) -> Result<usize, Refused> {
    let copy = Pool { words: &pool.words, locals: &pool.locals, geometry: pool.geometry };
    let next = (size == Size::Page).then(|| copy.take_next(core)).flatten();
    next.map_or_else(|| pool.take(size, core), Ok)
}

fn run(seed: u64, children: usize, reserved: usize, cores: usize, operations: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let geometry = Geometry::new(children * CHILD + 100, reserved).expect("large enough");
    let (words, locals) = (memory(geometry.words()), Memory(RefCell::new(vec![0; cores])));
    let pool = Pool { words: &words, locals: &locals, geometry };
    pool.format();
    let mut model = Model { used: (0..geometry.own_frames()).collect(), ..Model::default() };
    let mut full = 0;
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
            assert_eq!(pool.free(), geometry.frames() - model.used.len(), "{}", context());
            for frame in 0..geometry.frames() {
                let free = !model.used.contains(&frame);
                assert_eq!(pool.is_free(frame), free, "{}: frame {frame}", context());
            }
        }
    }
    println!("seed {seed:#x}: {operations} operations, full {full} times");
    assert!(full > 0);
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
