//! Random operations on queues, compared with one list of everything.

use proptest::prelude::*;
use sigqueue::{Owner, Queues};

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(Owner, u32, u32),
    PushReserved(Owner, u32),
    Pop(Owner, u32),
    Forget(Owner, u64),
    HandOver(Owner, Owner),
    Reserve(u32),
    Release,
}

const ALL: usize = 40;
const USERS: [u32; 3] = [0, 1, 1000];

fn owner() -> impl Strategy<Value = Owner> {
    (1..4u32, any::<bool>()).prop_map(|(id, thread)| match thread {
        true => Owner::Thread(id),
        false => Owner::Process(id),
    })
}

fn user() -> impl Strategy<Value = u32> {
    (0..USERS.len()).prop_map(|n| USERS[n])
}

fn signal() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), Just(33), Just(64)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (owner(), signal(), user()).prop_map(|(o, s, u)| Op::Push(o, s, u)),
        1 => (owner(), signal()).prop_map(|(o, s)| Op::PushReserved(o, s)),
        6 => (owner(), signal()).prop_map(|(o, s)| Op::Pop(o, s)),
        1 => (owner(), any::<u64>()).prop_map(|(o, set)| Op::Forget(o, set)),
        1 => (owner(), owner()).prop_map(|(a, b)| Op::HandOver(a, b)),
        1 => user().prop_map(Op::Reserve),
        1 => Just(Op::Release),
    ]
}

/// Everything that waits, in the order in which it came.
#[derive(Default)]
struct Model {
    waiting: Vec<(Owner, u32, Option<u32>, u64)>,
    reserved: Vec<u32>,
}

impl Model {
    fn of(&self, user: u32) -> usize {
        let queued = self.waiting.iter().filter(|it| it.2 == Some(user)).count();
        queued + self.reserved.iter().filter(|&&it| it == user).count()
    }
    fn taken(&self) -> usize {
        USERS.iter().map(|&user| self.of(user)).sum()
    }
    /// Root may have all, others half of it, and an eighth is root's.
    fn has_room(&self, user: u32) -> bool {
        match user {
            0 => self.taken() < ALL,
            _ => self.taken() < ALL - ALL / 8 && self.of(user) < ALL / 2,
        }
    }
}

proptest! {
    #[test]
    fn queues_are_lists(ops in proptest::collection::vec(op(), 1..300)) {
        let (mut queues, mut model) = (Queues::new(ALL), Model::default());
        for (number, op) in ops.into_iter().enumerate() {
            let number = number as u64;
            match op {
                Op::Push(owner, signal, user) => {
                    prop_assert_eq!(queues.has_room(user), model.has_room(user));
                    if queues.has_room(user) {
                        queues.push(owner, signal, Some(user), number);
                        model.waiting.push((owner, signal, Some(user), number));
                    }
                }
                Op::PushReserved(owner, signal) => {
                    queues.push(owner, signal, None, number);
                    model.waiting.push((owner, signal, None, number));
                }
                Op::Pop(owner, signal) => {
                    let found = model.waiting.iter().position(|it| (it.0, it.1) == (owner, signal));
                    let wanted = found.map(|at| model.waiting.remove(at).3);
                    prop_assert_eq!(queues.pop(owner, signal), wanted);
                }
                Op::Forget(owner, set) => {
                    queues.forget(owner, set);
                    model.waiting.retain(|it| it.0 != owner || set >> (it.1 - 1) & 1 == 0);
                }
                Op::HandOver(from, to) => {
                    queues.hand_over(from, to);
                    if from != to {
                        model.waiting.retain(|it| it.0 != to);
                        model.waiting.iter_mut().filter(|it| it.0 == from).for_each(|it| it.0 = to);
                    }
                }
                Op::Reserve(user) => {
                    if queues.has_room(user) {
                        queues.reserve(user);
                        model.reserved.push(user);
                    }
                }
                Op::Release => {
                    if let Some(user) = model.reserved.pop() {
                        queues.release(user);
                    }
                }
            }
            for user in USERS {
                prop_assert_eq!(queues.of(user), model.of(user));
            }
            for id in 1..4 {
                for owner in [Owner::Process(id), Owner::Thread(id)] {
                    let set = model.waiting.iter().filter(|it| it.0 == owner);
                    prop_assert_eq!(queues.signals(owner), set.fold(0, |set, it| set | 1 << (it.1 - 1)));
                    for signal in [1, 33, 64] {
                        let is_there = model.waiting.iter().any(|it| (it.0, it.1) == (owner, signal));
                        prop_assert_eq!(queues.has(owner, signal), is_there);
                    }
                }
            }
        }
    }
}
