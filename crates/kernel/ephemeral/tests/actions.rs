//! The actions of a hit and of a miss, in the paper's order (SFB §4.2).

mod common;

use common::{Pretended, Step, CORES};
use ephemeral::Action::*;
use ephemeral::{AllocError, Alone, Buf, Cache, Cores, Counters, Ephemeral, Flags, Guarded, State};
use Step::{Did, Here, On, Point};

type Subject = Guarded<Alone<State<Cache<Pretended, 2, 1>>>, Cache<Pretended, 2, 1>>;

const SHARED: Flags = Flags::NO_WAIT;
const PRIVATE: Flags = Flags::NO_WAIT.with(Flags::PRIVATE);

struct Test {
    cache: Subject,
    world: Pretended,
}

impl Test {
    fn new() -> Test {
        let world = Pretended::default();
        Test { cache: Guarded::new(Alone::new(State::new(Cache::new(world.clone())))), world }
    }

    /// Core `core` asks for `page`, and does these things for it.
    fn alloc(&self, core: u32, page: u64, flags: Flags, steps: &[Step]) -> Buf<'_, Subject> {
        self.world.world().here = core;
        self.world.world().steps.clear();
        let buf = self.cache.alloc(page, flags).unwrap();
        assert_eq!(self.world.world().steps, steps);
        buf
    }

    fn touch(&self, core: u32, buf: &Buf<'_, Subject>) {
        assert_eq!(self.world.world().page_at(core, buf.address()), buf.page());
    }
}

/// All but these.
fn others(of: &[u32]) -> Cores {
    of.iter().fold(Cores::first(CORES), |all, &core| all.without(Cores::one(core)))
}

/// A miss in a window that nobody has used.
fn first_miss(window: usize, page: u64) -> [Step; 4] {
    [Did(TakeOldest), Did(Assign), Point(window, page), Did(Return)]
}

#[test]
fn a_miss_does_five_things_and_a_hit_three() {
    let test = Test::new();
    let buf = test.alloc(0, 7, SHARED, &first_miss(0, 7));
    let again = test.alloc(1, 7, SHARED, &[Did(Count), Did(Return)]);
    assert_eq!(buf.address(), again.address());
    drop((buf, again));
    drop(test.alloc(2, 7, PRIVATE, &[Did(Unlist), Did(Count), Did(Return)]));
}

#[test]
fn what_was_not_accessed_needs_no_invalidation() {
    let test = Test::new();
    drop(test.alloc(0, 1, SHARED, &first_miss(0, 1)));
    drop(test.alloc(0, 2, SHARED, &first_miss(1, 2)));
    let steps = [Did(TakeOldest), Did(Unhash), Did(Assign), Point(0, 3), Did(Return)];
    drop(test.alloc(0, 3, SHARED, &steps));
    let counters = Counters { hits: 0, misses: 3, local: 0, remote: 0 };
    assert_eq!(test.cache.counters(), counters);
}

/// Uses both windows, and lets the first be the oldest.
fn used(test: &Test) {
    let buf = test.alloc(0, 1, SHARED, &first_miss(0, 1));
    test.touch(0, &buf);
    drop(buf);
    drop(test.alloc(0, 2, SHARED, &first_miss(1, 2)));
}

const MISS: [Step; 5] = [Did(TakeOldest), Did(Unhash), Did(Assign), Point(0, 3), Did(EmptyCores)];

#[test]
fn a_private_miss_invalidates_here_and_a_hit_elsewhere_there() {
    let test = Test::new();
    used(&test);
    let own = [Here(0), Did(AddHere), Did(Return)];
    let buf = test.alloc(1, 3, PRIVATE, &[&MISS[..], &own].concat());
    test.touch(1, &buf);
    // The core that asks for it next is not in the set, nor are two others.
    let steps = [Here(0), Did(AddHere), Did(Count), Did(Return)];
    let second = test.alloc(2, 3, PRIVATE, &steps);
    test.touch(2, &second);
    let rest = others(&[1, 2]);
    let steps = [On(rest, 0), Did(AddOthers), Did(Count), Did(Return)];
    let third = test.alloc(1, 3, SHARED, &steps);
    (0..CORES).for_each(|core| test.touch(core, &third));
    drop((buf, second, third));
    drop(test.alloc(3, 3, SHARED, &[Did(Unlist), Did(Count), Did(Return)]));
    let counters = Counters { hits: 3, misses: 3, local: 2, remote: 1 };
    assert_eq!(test.cache.counters(), counters);
}

#[test]
fn a_shared_miss_invalidates_everywhere() {
    let test = Test::new();
    used(&test);
    let rest = others(&[1]);
    let everywhere = [Here(0), Did(AddHere), On(rest, 0), Did(AddOthers), Did(Return)];
    let buf = test.alloc(1, 3, SHARED, &[&MISS[..], &everywhere].concat());
    (0..CORES).for_each(|core| test.touch(core, &buf));
}

/// Where the paper's rule is not enough: core 0 has used the window, the private miss of core 1 has not told it so,
/// and is itself not used. So the next miss finds that the old entry was not accessed; but core 0 has to forget.
#[test]
fn an_unused_private_mapping_hides_nothing() {
    let test = Test::new();
    used(&test);
    let own = [Here(0), Did(AddHere), Did(Return)];
    drop(test.alloc(1, 3, PRIVATE, &[&MISS[..], &own].concat()));
    // Of page 2's window.
    let steps = [Did(TakeOldest), Did(Unhash), Did(Assign), Point(1, 4), Did(Return)];
    drop(test.alloc(1, 4, PRIVATE, &steps));
    let rest = others(&[1]);
    let steps = [
        Did(TakeOldest),
        Did(Unhash),
        Did(Assign),
        Point(0, 5),
        On(rest, 0),
        Did(AddOthers),
        Did(Return),
    ];
    let buf = test.alloc(1, 5, SHARED, &steps);
    test.touch(0, &buf);
}

#[test]
fn the_oldest_goes_first_and_what_is_used_stays() {
    let test = Test::new();
    let first = test.alloc(0, 1, SHARED, &first_miss(0, 1));
    drop(test.alloc(0, 2, SHARED, &first_miss(1, 2)));
    let steps = [Did(TakeOldest), Did(Unhash), Did(Assign), Point(1, 3), Did(Return)];
    let second = test.alloc(0, 3, SHARED, &steps);
    assert_eq!(test.cache.alloc(4, SHARED).unwrap_err(), AllocError::Busy);
    // Who is alone cannot wait either.
    assert_eq!(test.cache.alloc(4, Flags::INTERRUPTIBLE).unwrap_err(), AllocError::Busy);
    // What is mapped can be had again.
    drop(test.alloc(0, 1, SHARED, &[Did(Count), Did(Return)]));
    drop((second, first));
    let steps = [Did(TakeOldest), Did(Unhash), Did(Assign), Point(1, 4), Did(Return)];
    drop(test.alloc(0, 4, SHARED, &steps));
}

#[test]
fn runs_are_of_one_to_sixteen_pages() {
    let test = Test::new();
    let pages: Vec<u64> = (0..17).collect();
    assert_eq!(test.cache.alloc_run(&[], SHARED).unwrap_err(), AllocError::Scattered);
    assert_eq!(test.cache.alloc_run(&pages, SHARED).unwrap_err(), AllocError::Scattered);
    let run = test.cache.alloc_run(&pages[1..], SHARED).unwrap();
    let mut world = test.world.world();
    for n in 0..16 {
        assert_eq!(world.page_at(3, run.address() + n * 4096), 1 + n as u64);
    }
    drop(world);
    assert_eq!(test.cache.alloc_run(&[1], SHARED).unwrap_err(), AllocError::Busy);
    drop(run);
    drop(test.cache.alloc_run(&[1], SHARED).unwrap());
    assert_eq!(test.cache.counters().misses, 2);
}
