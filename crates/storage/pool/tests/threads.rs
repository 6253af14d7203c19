//! Two or three cores at once, in every interleaving: words that two of them use are loom's.

use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::sync::Arc;
use pool::{Geometry, Locals, Pool, Refused, Size, Words, CHILD, TREE};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So many of the first words are shared: those of the allocator, without descriptors. What only one core uses is none of loom's.
struct Memory(Vec<AtomicU64>, Vec<AtomicUsize>);

impl Words for Memory {
    fn load(&self, word: usize) -> u64 {
        // Loom's loads may answer what was there before; those of a processor, after an exchange, do not.
        self.0[word].fetch_add(0, SeqCst)
    }
    fn store(&self, word: usize, value: u64) {
        if let Some(word) = self.0.get(word) {
            word.store(value, SeqCst);
        }
    }
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<(), u64> {
        self.0[word].compare_exchange(old, new, SeqCst, SeqCst).map(|_| ())
    }
}
impl Locals for Memory {
    fn cores(&self) -> usize {
        self.0.len()
    }
    fn load(&self, core: usize) -> u64 {
        self.0[core].fetch_add(0, SeqCst)
    }
    fn compare_exchange(&self, core: usize, old: u64, new: u64) -> Result<(), u64> {
        self.0[core].compare_exchange(old, new, SeqCst, SeqCst).map(|_| ())
    }
    fn found_in(&self, core: usize) -> usize {
        self.1[core].load(Relaxed)
    }
    fn set_found_in(&self, core: usize, group: usize) {
        self.1[core].store(group, Relaxed);
    }
}

struct Machine {
    words: Memory,
    locals: Memory,
    geometry: Geometry,
}

impl Machine {
    fn new(children: usize, cores: usize) -> Machine {
        Machine::of(Geometry::new(children * CHILD, 0).expect("large enough"), cores)
    }
    fn of(geometry: Geometry, cores: usize) -> Machine {
        let own = || (0..cores).map(|_| AtomicUsize::new(0)).collect();
        let atomics = |count| Memory((0..count).map(|_| AtomicU64::new(0)).collect(), own());
        let words = geometry.descriptor(0);
        Machine { words: atomics(words), locals: atomics(cores), geometry }
    }
    fn pool(&self) -> Pool<'_, Memory, Memory> {
        Pool { words: &self.words, locals: &self.locals, geometry: self.geometry }
    }
    fn all(&self) -> usize {
        self.geometry.frames() - self.geometry.own_frames()
    }
}

type Body = fn(&Pool<'_, Memory, Memory>) -> Vec<(usize, Size)>;

/// Runs these at once; what they have taken is theirs alone, and the rest is free.
fn run(children: usize, bound: usize, before: Body, cores: &'static [Body]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(bound);
    model.max_branches = 50_000;
    model.check(move || {
        let machine = Arc::new(Machine::new(children, cores.len()));
        machine.pool().format();
        let mut held = before(&machine.pool());
        let threads: Vec<_> = (1..cores.len())
            .map(|core| {
                let machine = machine.clone();
                loom::thread::spawn(move || cores[core](&machine.pool()))
            })
            .collect();
        held.extend(cores[0](&machine.pool()));
        for thread in threads {
            held.extend(thread.join().expect("it has ended"));
        }
        let mut frames: Vec<usize> =
            held.iter().flat_map(|&(frame, size)| frame..frame + size.frames()).collect();
        frames.sort_unstable();
        assert!(frames.windows(2).all(|two| two[0] < two[1]), "twice: {held:?}");
        let pool = machine.pool();
        assert_eq!(pool.free(), machine.all() - frames.len(), "{held:?}");
        for (frame, size) in held {
            assert_eq!(pool.give(frame, size, 0), Ok(()));
            assert_eq!(pool.give(frame, size, 0), Err(Refused::NotTaken));
        }
        assert_eq!(pool.free(), machine.all());
    });
}

fn nothing(_: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
    Vec::new()
}
/// Takes all but so many pages, which are handed out by nobody until the test has ended.
fn all_but(pool: &Pool<'_, Memory, Memory>, left: usize) -> Vec<(usize, Size)> {
    let mut held = Vec::new();
    while pool.free() > left {
        held.push((pool.take(Size::Page, 0).expect("room"), Size::Page));
    }
    pool.leave(0);
    held
}
/// As often as it is asked to.
fn take(pool: &Pool<'_, Memory, Memory>, size: Size, core: usize) -> Result<usize, Refused> {
    loop {
        match pool.take(size, core) {
            Err(Refused::Busy) => loom::thread::yield_now(),
            other => return other,
        }
    }
}
fn takes<const CORE: usize>(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
    vec![(take(pool, Size::Page, CORE).expect("there is room for all"), Size::Page)]
}
fn tries<const CORE: usize>(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
    take(pool, Size::Page, CORE).map(|frame| (frame, Size::Page)).into_iter().collect()
}
/// One, and another that is next to it.
fn takes_next<const CORE: usize>(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
    let mut held = tries::<CORE>(pool);
    let copy = Pool { words: &pool.words, locals: &pool.locals, geometry: pool.geometry };
    held.extend(copy.take_next(CORE).map(|frame| (frame, Size::Page)));
    held
}
/// One, and two others in a row that are next to it.
fn takes_run<const CORE: usize>(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
    let mut held = tries::<CORE>(pool);
    let copy = Pool { words: &pool.words, locals: &pool.locals, geometry: pool.geometry };
    if let Some((first, count)) = copy.take_run(CORE, 2) {
        assert!(count == 1 || count == 2);
        held.extend((first..first + count).map(|frame| (frame, Size::Page)));
    }
    held
}
fn takes_huge<const CORE: usize>(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
    take(pool, Size::Huge, CORE).map(|frame| (frame, Size::Huge)).into_iter().collect()
}

#[test]
fn two_take_a_page() {
    run(2, 4, nothing, &[takes::<0>, takes::<1>]);
}

#[test]
fn two_take_runs() {
    run(1, 3, |pool| all_but(pool, 5), &[takes_run::<0>, takes_run::<1>]);
}

#[test]
fn a_run_is_taken_while_a_page_is() {
    run(1, 3, |pool| all_but(pool, 4), &[takes_run::<0>, takes_next::<1>]);
}

/// Whoever has a right gets a page, and the third gets none.
#[test]
fn the_last_two_pages_are_for_two() {
    run(1, 4, |pool| all_but(pool, 2), &[takes::<0>, takes::<1>]);
}

#[test]
fn the_last_page_is_for_one() {
    run(1, 4, |pool| all_but(pool, 1), &[tries::<0>, tries::<1>]);
}

#[test]
fn one_takes_and_gives_while_another_takes() {
    run(
        1,
        2,
        nothing,
        &[
            |pool| {
                let frame = take(pool, Size::Page, 0).expect("room");
                assert_eq!(pool.give(frame, Size::Page, 0), Ok(()));
                Vec::new()
            },
            takes::<1>,
        ],
    );
}

#[test]
fn a_page_is_given_back_twice_at_once() {
    fn gives(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
        match pool.give(CHILD - 1, Size::Page, 1) {
            Ok(()) => Vec::new(),
            Err(refused) => {
                assert_eq!(refused, Refused::NotTaken);
                Vec::new()
            }
        }
    }
    run(
        1,
        3,
        |pool| {
            assert!(pool.take_at(CHILD - 1, Size::Page));
            Vec::new()
        },
        &[gives, gives],
    );
}

#[test]
fn a_huge_page_and_a_small_one_are_taken() {
    run(2, 4, nothing, &[takes_huge::<0>, takes::<1>]);
}

#[test]
fn a_huge_page_is_broken_up_by_two() {
    fn gives<const PAGE: usize>(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
        assert_eq!(pool.give(CHILD + PAGE, Size::Page, PAGE), Ok(()));
        Vec::new()
    }
    run(
        2,
        3,
        |pool| {
            assert!(pool.take_at(CHILD, Size::Huge));
            (2..CHILD).map(|page| (CHILD + page, Size::Page)).collect()
        },
        &[gives::<0>, gives::<1>],
    );
}

#[test]
fn a_tree_is_closed_while_somebody_takes() {
    run(
        1,
        3,
        nothing,
        &[
            |pool| {
                pool.close(0);
                assert!(!pool.is_empty(0), "the allocator's own frames are in it");
                assert_eq!(take(pool, Size::Page, 0), Err(Refused::Empty));
                Vec::new()
            },
            tries::<1>,
        ],
    );
}

#[test]
fn two_take_the_same_page() {
    fn takes(pool: &Pool<'_, Memory, Memory>) -> Vec<(usize, Size)> {
        pool.take_at(CHILD - 1, Size::Page).then_some((CHILD - 1, Size::Page)).into_iter().collect()
    }
    run(1, 3, nothing, &[takes, takes]);
}

#[test]
fn a_huge_page_is_given_back_while_another_takes() {
    run(
        2,
        3,
        |pool| {
            assert!(pool.take_at(CHILD, Size::Huge));
            all_but(pool, 0)
        },
        &[
            |pool| {
                assert_eq!(pool.give(CHILD, Size::Huge, 0), Ok(()));
                Vec::new()
            },
            tries::<1>,
        ],
    );
}

/// Children of 2 MiB of which the first and the last are there, whose words are elsewhere.
fn chunks(children: usize) -> Arc<Machine> {
    let geometry = Geometry::apart(children * CHILD).expect("not too large");
    let machine = Arc::new(Machine::of(geometry, 2));
    machine.pool().format();
    assert_eq!(machine.pool().add(0), Ok(()));
    assert_eq!(machine.pool().add(children - 1), Ok(()));
    machine
}

/// What was removed is nobody's, and what somebody has is not removed; and nothing is lost.
fn removed_or_taken(machine: &Machine, removed: usize, held: &[(usize, Size)]) {
    let pool = machine.pool();
    for &(frame, size) in held {
        assert!(!pool.is_absent(frame / CHILD), "{frame} was removed");
        assert_eq!(pool.give(frame, size, 1), Ok(()));
    }
    assert_eq!(pool.free(), (2 - removed) * CHILD);
    // All of it is found.
    assert_eq!([0, 1].iter().filter(|&&child| pool.remove(child)).count(), 2 - removed);
    assert_eq!((pool.free(), pool.take(Size::Page, 0)), (0, Err(Refused::Empty)));
}

fn removes(body: Body) {
    explore(move || {
        let machine = chunks(2);
        let other = machine.clone();
        let thread = loom::thread::spawn(move || body(&other.pool()));
        let removed = [0, 1].iter().filter(|&&child| machine.pool().remove(child)).count();
        let held = thread.join().expect("it has ended");
        removed_or_taken(&machine, removed, &held);
    });
}

#[test]
fn memory_is_removed_while_a_page_is_taken() {
    removes(tries::<1>);
}

#[test]
fn memory_is_removed_while_the_next_page_is_taken() {
    removes(takes_next::<1>);
}

#[test]
fn memory_is_removed_while_a_run_is_taken() {
    removes(takes_run::<1>);
}

#[test]
fn memory_is_removed_while_2_mib_are_taken() {
    removes(takes_huge::<1>);
}

#[test]
fn memory_is_removed_while_a_page_comes_back() {
    removes(|pool| {
        for (frame, size) in tries::<1>(pool) {
            assert_eq!(pool.give(frame, size, 1), Ok(()));
        }
        Vec::new()
    });
}

/// Of two who remove the same, one has it.
#[test]
fn memory_is_removed_by_two() {
    explore(|| {
        let machine = chunks(2);
        let other = machine.clone();
        let thread = loom::thread::spawn(move || other.pool().remove(1));
        let removed = machine.pool().remove(1);
        let both = (removed, thread.join().expect("it has ended"));
        assert!(both != (true, true), "both have it");
        let removed = usize::from(both != (false, false));
        removed_or_taken(&machine, removed, &[]);
    });
}

/// What another core has reserved, and takes of, is removed or not, but neither lost nor twice.
#[test]
fn memory_is_removed_that_another_core_reserves() {
    explore(|| {
        let machine = chunks(2);
        // From here on core 1 reserves the tree.
        for (frame, size) in tries::<1>(&machine.pool()) {
            assert_eq!(machine.pool().give(frame, size, 1), Ok(()));
        }
        let other = machine.clone();
        let thread = loom::thread::spawn(move || takes_next::<1>(&other.pool()));
        let removed = usize::from(machine.pool().remove(0));
        let held = thread.join().expect("it has ended");
        removed_or_taken(&machine, removed, &held);
    });
}

/// What a core has reserved does not keep what is free.
#[test]
fn reserved_memory_is_found() {
    explore(|| {
        let machine = chunks(2);
        for (frame, size) in tries::<1>(&machine.pool()) {
            assert_eq!(machine.pool().give(frame, size, 1), Ok(()));
        }
        assert_eq!(machine.pool().find_free(0, 1), Ok(0));
        assert!(machine.pool().remove(0) && machine.pool().remove(1));
    });
}

#[test]
fn memory_comes_while_another_takes() {
    explore(|| {
        let machine = chunks(3);
        let other = machine.clone();
        let thread = loom::thread::spawn(move || takes_next::<1>(&other.pool()));
        assert_eq!(machine.pool().add(1), Ok(()));
        let gone = machine.pool().remove(1);
        let held = thread.join().expect("it has ended");
        assert!(!held.is_empty(), "there was room");
        for (frame, size) in held {
            assert!(!machine.pool().is_absent(frame / CHILD), "{frame} was removed");
            assert_eq!(machine.pool().give(frame, size, 1), Ok(()));
        }
        assert_eq!(machine.pool().free(), if gone { 2 } else { 3 } * CHILD);
    });
}

/// What one core has reserved is not lost for another.
#[test]
fn the_last_page_is_stolen_while_its_core_takes_it() {
    run(
        1,
        3,
        |pool| {
            let mut held = all_but(pool, 2);
            // From here on core 0 reserves the tree.
            held.extend(takes::<0>(pool));
            held
        },
        &[tries::<0>, tries::<1>],
    );
}

/// Who finds nothing to reserve has half of what another has, and both go on, also while the tree is closed or given up. What each has is
/// found again.
#[test]
fn a_reservation_is_divided() {
    let bodies: [Body; 3] = [
        takes::<0>,
        |pool| {
            pool.leave(0);
            takes::<0>(pool)
        },
        |pool| {
            pool.close(0);
            Vec::new()
        },
    ];
    for body in bodies {
        explore(move || {
            let machine = Arc::new(Machine::new(1, 2));
            machine.pool().format();
            let mut held = takes::<0>(&machine.pool());
            let other = machine.clone();
            let thread = loom::thread::spawn(move || tries::<1>(&other.pool()));
            held.extend(body(&machine.pool()));
            held.extend(thread.join().expect("it has ended"));
            let pool = machine.pool();
            assert_eq!(pool.free(), machine.all() - held.len());
            assert!(held.windows(2).all(|two| two[0] != two[1]));
            pool.open(0);
            (0..2).for_each(|core| pool.leave(core));
            // Nobody reserves it any more, and nothing of it is lost.
            let left = pool.free();
            assert_eq!((0..).take_while(|_| pool.take(Size::Page, 0).is_ok()).count(), left);
            held.iter().for_each(|&(frame, size)| assert_eq!(pool.give(frame, size, 0), Ok(())));
            assert_eq!(pool.free(), held.len());
        });
    }
}

/// Both then take pages in a row, of one tree.
#[test]
fn both_take_runs_of_a_divided_tree() {
    explore(|| {
        let machine = Machine::new(2, 2);
        machine.pool().format();
        let pool = machine.pool();
        for core in [0, 1, 0] {
            pool.take(Size::Page, core).expect("there is room");
            assert_eq!(pool.take_run(core, 16).map(|(_, count)| count), Some(16), "core {core}");
        }
        assert_eq!(pool.free(), machine.all() - 3 * 17);
    });
}

/// What is left to one of two is found by others when the other has left.
#[test]
fn one_of_two_leaves_a_divided_tree() {
    explore(|| {
        // What is apart and has nothing that is not reserved counts as absent.
        let machine = Machine::of(Geometry::apart(CHILD).expect("not too large"), 2);
        let pool = machine.pool();
        pool.format();
        assert_eq!(pool.add(0), Ok(()));
        for core in [0, 1] {
            pool.take(Size::Page, core).expect("there is room");
        }
        pool.leave(0);
        let left = CHILD - 2;
        for taken in 0..left {
            assert!(pool.take(Size::Page, 0).is_ok(), "{taken} of {left}");
            pool.leave(0);
        }
        assert_eq!(pool.take(Size::Page, 0), Err(Refused::Empty));
    });
}

/// A tree that two cores reserve is empty when both have left it, not when one has.
#[test]
fn a_divided_tree_becomes_empty() {
    explore(|| {
        // All of the first tree, which has the allocator's own frames, is taken.
        let machine = Machine::new(9, 2);
        let pool = machine.pool();
        pool.format();
        pool.close(0);
        let frames = [0, 1].map(|core| pool.take(Size::Page, core).expect("there is room"));
        assert_eq!(frames.map(|frame| frame / (CHILD * TREE)), [1, 1]);
        for frame in frames {
            assert_eq!(pool.give(frame, Size::Page, 0), Ok(()));
        }
        pool.leave(0);
        // Core 1 has a part of it, which closing takes away.
        pool.close(1);
        assert!(pool.is_empty(1));
        pool.open(1);
        assert_eq!(pool.take(Size::Huge, 1), Ok(8 * CHILD));
    });
}

/// A page is given back by a core that does not reserve its tree.
#[test]
fn a_page_comes_back_from_another_core() {
    run(
        1,
        3,
        |pool| {
            assert!(pool.take_at(CHILD - 1, Size::Page));
            let mut held = all_but(pool, 2);
            held.extend(takes::<0>(pool));
            held
        },
        &[
            |pool| {
                pool.leave(0);
                Vec::new()
            },
            |pool| {
                assert_eq!(pool.give(CHILD - 1, Size::Page, 1), Ok(()));
                Vec::new()
            },
        ],
    );
}

/// In every interleaving with up to three preemptions.
fn explore(body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 50_000;
    model.check(body);
}

/// When `close` has returned, and who was under way has ended, nothing is taken.
#[test]
fn nothing_is_taken_of_a_closed_tree() {
    explore(|| {
        let machine = Arc::new(Machine::new(1, 2));
        machine.pool().format();
        let other = machine.clone();
        let thread = loom::thread::spawn(move || other.pool().take(Size::Page, 1).is_ok());
        machine.pool().close(0);
        thread.join().expect("it has ended");
        assert_eq!(machine.pool().take(Size::Page, 1), Err(Refused::Empty));
    });
}

/// When all has come back it is empty, without that it is closed again.
#[test]
fn a_closed_tree_becomes_empty() {
    explore(|| {
        // In the second one, nothing is the allocator's own.
        let machine = Arc::new(Machine::new(9, 2));
        machine.pool().format();
        let other = machine.clone();
        let thread = loom::thread::spawn(move || {
            if let Ok(frame) = other.pool().take(Size::Page, 1) {
                assert_eq!(other.pool().give(frame, Size::Page, 1), Ok(()));
            }
        });
        machine.pool().close(1);
        thread.join().expect("it has ended");
        assert!(machine.pool().is_empty(1));
    });
}

/// 2 MiB come back as a whole from one, and a page of them from another.
#[test]
fn a_huge_page_and_a_page_of_it_are_given_back_at_once() {
    explore(|| {
        let machine = Arc::new(Machine::new(2, 2));
        machine.pool().format();
        assert!(machine.pool().take_at(CHILD, Size::Huge));
        let other = machine.clone();
        let page = move || other.pool().give(CHILD + 500, Size::Page, 1).is_ok();
        let thread = loom::thread::spawn(page);
        let whole = machine.pool().give(CHILD, Size::Huge, 0).is_ok();
        let page = thread.join().expect("it has ended");
        assert!(whole != page, "whole {whole}, page {page}");
        let free = machine.all() - if whole { 0 } else { CHILD - 1 };
        assert_eq!(machine.pool().free(), free);
    });
}

#[test]
fn the_next_pages_of_two_cores() {
    run(1, 2, nothing, &[takes_next::<0>, takes_next::<1>]);
}

#[test]
fn the_next_page_is_the_last_but_one() {
    run(1, 3, |pool| all_but(pool, 3), &[takes_next::<0>, takes_next::<1>]);
}
