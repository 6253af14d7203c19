//! What operations cost in messages: the table in `docs/capability-protocol.md`.

use super::caps::{Made, Place, Request};
use super::database::Shape;
use super::system::{Op, State, Step};
use captypes::CapType;
use std::vec::Vec;

/// Core 0 is the home of all memory.
struct Machine {
    shape: Shape,
    state: State,
}

/// What an operation took.
#[derive(PartialEq, Eq, Debug)]
struct Cost {
    /// All messages.
    messages: usize,
    /// How many of them came one after the other before the answer.
    deep: usize,
}

const RAM: Made = Made { ty: CapType::Ram as u8, base: 0, size: 2 };
const HALF: Made = Made { ty: CapType::Ram as u8, base: 1, size: 1 };
const FRAME: Made = Made { ty: CapType::Frame as u8, base: 0, size: 1 };
const CNODE: Made = Made { ty: CapType::L2CNode as u8, base: 0, size: 1 };

const A: Place = Place::Root(0);
const B: Place = Place::Root(1);
const C: Place = Place::Root(2);

impl Machine {
    /// With `cap` in slot `A` of core 0 and of `copies` other cores.
    fn new(cores: u8, cap: Made, copies: &[u8]) -> Machine {
        let shape =
            Shape { homes: [0; 4].into(), cnode_slots: 1, root_slots: 4, slow: false, pool: None };
        let state = State::new(&shape, cores, None);
        let mut machine = Machine { shape, state };
        machine.run(0, Request::Allocate { cap, dst: A });
        for &to in copies {
            machine.run(0, Request::Send { src: A, to, dst: A });
        }
        machine
    }

    fn run(&mut self, core: u8, request: Request) -> Cost {
        let shape = &self.shape;
        let state = &mut self.state;
        state.step(shape, &Step::Round([Op::new(core, request)].into()));
        state.step(shape, &Step::Start(0));
        let (mut messages, mut waves, mut deep) = (0, 0, None);
        while !state.channels.is_empty() {
            deep = deep.or(state.ops[0].result.map(|_| waves));
            waves += 1;
            let wave: Vec<_> =
                state.channels.iter().map(|(ends, queue)| (*ends, queue.len())).collect();
            for ((from, to), count) in wave {
                messages += count;
                (0..count).for_each(|_| state.step(shape, &Step::Deliver(from, to)));
            }
        }
        assert_eq!(state.ops[0].result, Some(Ok(())), "{request:?}");
        assert_eq!(state.violation(shape), None);
        state.step(shape, &Step::Rest);
        Cost { messages, deep: deep.unwrap_or(waves) }
    }
}

fn cost(messages: usize, deep: usize) -> Cost {
    Cost { messages, deep }
}

/// Cores 1 to `n`.
fn others(n: u8) -> Vec<u8> {
    (1..=n).collect()
}

#[test]
fn what_concerns_one_core_costs_no_message() {
    let mut machine = Machine::new(4, RAM, &[1]);
    assert_eq!(machine.run(0, Request::Copy { src: A, dst: B }), cost(0, 0));
    assert_eq!(machine.run(0, Request::Delete { at: A }), cost(0, 0), "there is another copy");
    assert_eq!(machine.run(1, Request::Delete { at: A }), cost(0, 0), "it is foreign");
    let mut machine = Machine::new(4, RAM, &[]);
    assert_eq!(machine.run(0, Request::Retype { src: A, cap: FRAME, dst: B }), cost(0, 0));
    assert_eq!(machine.run(0, Request::Revoke { at: A }), cost(0, 0));
    assert_eq!(machine.run(0, Request::Delete { at: A }), cost(0, 0));
}

#[test]
fn a_copy_to_another_core() {
    let mut machine = Machine::new(4, RAM, &[]);
    assert_eq!(machine.run(0, Request::Send { src: A, to: 1, dst: A }), cost(2, 2));
    assert_eq!(machine.run(1, Request::Send { src: A, to: 2, dst: A }), cost(5, 4));
}

#[test]
fn a_retype_asks_the_cores_concerned_once() {
    for n in 1..8 {
        let mut machine = Machine::new(16, RAM, &others(n));
        let k = usize::from(n);
        assert_eq!(machine.run(0, Request::Retype { src: A, cap: FRAME, dst: B }), cost(2 * k, 2));
        // The home asks in addition to those, and is asked.
        let foreign = machine.run(1, Request::Retype { src: A, cap: HALF, dst: B });
        assert_eq!(foreign, cost(3 + 2 * k, 4));
    }
}

#[test]
fn a_delete_finds_an_heir() {
    let mut machine = Machine::new(16, RAM, &[3]);
    assert_eq!(machine.run(0, Request::Delete { at: A }), cost(2, 2));
    for n in 2..8 {
        let mut machine = Machine::new(16, RAM, &others(n));
        let k = usize::from(n);
        assert_eq!(machine.run(0, Request::Delete { at: A }), cost(2 * k + 2, 4));
    }
}

#[test]
fn the_last_delete_asks_the_cores_concerned_once() {
    for n in 1..8 {
        let mut machine = Machine::new(16, RAM, &others(n));
        for core in others(n) {
            machine.run(core, Request::Delete { at: A });
        }
        assert_eq!(machine.run(0, Request::Delete { at: A }), cost(2 * usize::from(n), 2));
        assert_eq!(machine.state.cores[0].db.free, 0b1111);
    }
}

#[test]
fn kernel_objects_are_deleted_everywhere() {
    let mut machine = Machine::new(16, CNODE, &[3]);
    assert_eq!(machine.run(0, Request::Delete { at: A }), cost(2, 2));
    for n in 2..8 {
        let mut machine = Machine::new(16, CNODE, &others(n));
        assert_eq!(machine.run(0, Request::Delete { at: A }), cost(4 * usize::from(n), 4));
    }
}

#[test]
fn a_revoke_is_one_round_trip_or_two() {
    let mut machine = Machine::new(16, RAM, &[3]);
    assert_eq!(machine.run(0, Request::Revoke { at: A }), cost(2, 2));
    assert_eq!(machine.run(0, Request::Revoke { at: A }), cost(0, 0), "nothing is left elsewhere");
    for n in 2..8 {
        let mut machine = Machine::new(16, RAM, &others(n));
        assert_eq!(machine.run(0, Request::Revoke { at: A }), cost(4 * usize::from(n), 4));
    }
    // From a foreign copy: the home lets it begin, and learns of the end.
    let mut machine = Machine::new(16, RAM, &[3]);
    assert_eq!(machine.run(3, Request::Revoke { at: A }), cost(5, 4));
}

#[test]
fn a_home_without_a_copy_only_keeps_the_books() {
    let mut machine = Machine::new(4, RAM, &[1, 2]);
    assert_eq!(machine.run(0, Request::Delete { at: A }).messages, 6);
    let [lock_and_unlock, check] = [3, 2];
    let retype = machine.run(1, Request::Retype { src: A, cap: FRAME, dst: B });
    assert_eq!(retype, cost(lock_and_unlock + check, 4));
}

#[test]
fn cores_that_have_nothing_of_it_hear_nothing() {
    let run = |cores| {
        let mut machine = Machine::new(cores, RAM, &[1, 2]);
        [
            machine.run(0, Request::Retype { src: A, cap: FRAME, dst: B }),
            machine.run(1, Request::Retype { src: A, cap: HALF, dst: B }),
            machine.run(1, Request::Send { src: B, to: 2, dst: C }),
            machine.run(0, Request::Revoke { at: A }),
            machine.run(0, Request::Delete { at: A }),
        ]
    };
    assert_eq!(run(3), run(64));
}
