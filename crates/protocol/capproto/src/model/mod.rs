//! The model check: the monitors as they are, over naive CPU drivers, in every interleaving.
//!
//! | file | what |
//! |---|---|
//! | `caps` | capabilities, slots and requests |
//! | `database` | the CPU driver of one core, as a list of slots |
//! | `system` | all cores and channels; what may happen next, and what must hold |
//! | `spec` | what operations do when each is atomic |
//! | `universe` | everything that can happen with a few capabilities, for stateright |
//! | `directed` | cases with names, in every interleaving |
//! | `random` | runs that lead deep |
//! | `costs` | what operations cost in messages |

mod caps;
mod costs;
mod database;
mod directed;
mod random;
mod spec;
mod system;
mod universe;

use crate::mutation::Mutation;
use std::println;
use std::vec::Vec;
use universe::Universe;

/// Two cores, of which one is the home of all memory.
fn two_cores(rounds: u8) -> Universe {
    Universe::new(2, &[0, 0], 4, rounds)
}

/// Two cores, each the home of a page.
fn two_homes(rounds: u8) -> Universe {
    Universe::new(2, &[0, 1], 4, rounds)
}

fn three_cores(rounds: u8) -> Universe {
    Universe::new(3, &[0, 0], 3, rounds)
}

/// Steps of the CPU driver take longer than one event.
fn slow_cores(rounds: u8) -> Universe {
    let mut universe = Universe::new(2, &[0, 0], 4, rounds);
    universe.shape.slow = true;
    universe
}

/// An object, its parts and the end of its pool.
fn objects(rounds: u8) -> Universe {
    Universe::of_objects(2, 0, 4, rounds)
}

/// The same on three cores, of which the last has the pool.
fn objects_on_three(rounds: u8) -> Universe {
    Universe::of_objects(3, 2, 3, rounds)
}

/// Two objects, each of which can be a snapshot of the other.
fn snapshots(rounds: u8) -> Universe {
    Universe::of_objects(2, 0, 3, rounds).with_snapshots()
}

#[test]
fn objects_few_rounds() {
    objects(3).check();
    objects_on_three(3).check();
    snapshots(3).check();
}

#[test]
#[ignore = "takes minutes: ./x test protocol"]
fn objects_many_rounds() {
    objects(4).check();
    objects_on_three(4).check();
    snapshots(4).check();
}

#[test]
fn two_cores_few_rounds() {
    two_cores(3).check();
}

#[test]
fn two_homes_few_rounds() {
    two_homes(3).check();
}

#[test]
fn three_cores_few_rounds() {
    three_cores(3).check();
}

#[test]
fn slow_cores_few_rounds() {
    slow_cores(3).check();
}

#[test]
fn random_operations() {
    random::all_plans(20_000);
}

#[test]
#[ignore = "takes minutes: ./x test protocol"]
fn two_cores_many_rounds() {
    two_cores(5).check();
}

#[test]
#[ignore = "takes minutes: ./x test protocol"]
fn two_homes_many_rounds() {
    two_homes(4).check();
}

#[test]
#[ignore = "takes minutes: ./x test protocol"]
fn three_cores_many_rounds() {
    three_cores(5).check();
}

#[test]
#[ignore = "takes minutes: ./x test protocol"]
fn slow_cores_many_rounds() {
    slow_cores(4).check();
}

#[test]
#[ignore = "takes minutes: ./x test protocol"]
fn many_random_operations() {
    random::all_plans(1_000_000);
}

/// Every deliberate bug is seen: by random runs, which see most of them soonest. For one of them their
/// rounds have an observer too few.
#[test]
fn mutations_are_caught() {
    for &mutation in Mutation::ALL.iter().filter(|&&mutation| mutation != Mutation::SkipMark) {
        let (of_objects, of_memory) = (&random::PLANS[5..], &random::PLANS[..3]);
        let plans = if mutation.is_of_objects() { of_objects } else { of_memory };
        let caught = (1..=100u64).find_map(|seed| {
            let plan = &plans[seed as usize % plans.len()];
            random::run(plan, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 2_000, Some(mutation)).err()
        });
        // What is opened just before it goes is rare among so much.
        let search = || snapshots(3).with(mutation).violation();
        let caught = caught.or_else(|| mutation.is_of_objects().then(search).flatten());
        let caught = caught.unwrap_or_else(|| panic!("{mutation:?} is not caught"));
        let line = caught.lines().next().unwrap_or_default();
        println!("{mutation:?}: {line}");
    }
}

/// The search sees deliberate bugs, too; those that need more cores, capabilities or observers than it has
/// are seen by the cases with names.
#[test]
#[ignore = "takes minutes: ./x test protocol"]
fn mutations_are_found() {
    let cases = directed::cases();
    let mut missing = Vec::new();
    for &mutation in Mutation::ALL {
        let directed = || cases.iter().find_map(|case| case.violation(Some(mutation)));
        let search = || {
            let of_memory = [two_cores(4), two_homes(3), three_cores(4)];
            let of_objects = [snapshots(4), objects(4)];
            let universes = match mutation.is_of_objects() {
                true => of_objects.into_iter().collect(),
                false => of_memory.into_iter().collect::<Vec<_>>(),
            };
            universes.into_iter().find_map(|universe| universe.with(mutation).violation())
        };
        match directed().or_else(search) {
            Some(found) => println!("{mutation:?}: {}", found.lines().next().unwrap_or_default()),
            None => missing.push(mutation),
        }
    }
    assert_eq!(missing, [], "nobody finds these");
}

/// The bugs that once passed for long are found by the case that is meant for each.
#[test]
fn mutations_that_hide_are_found_by_their_cases() {
    let hidden = [Mutation::SkipMark, Mutation::ReclaimUnasked, Mutation::LastAnswerWins];
    for (mutation, case) in hidden.into_iter().zip(directed::cases()) {
        let found = case.violation(Some(mutation));
        let found = found.unwrap_or_else(|| panic!("{mutation:?} is not found by: {}", case.name));
        println!("{mutation:?}: {}", found.lines().next().unwrap_or_default());
    }
}
