//! Against a model that knows for each byte who has it and how.

use filelock::{Kind, Lock, Locks, Owner};
use proptest::prelude::*;

const BYTES: u64 = 24;
const OWNERS: u32 = 3;

#[derive(Clone, Debug)]
struct Op {
    owner: u32,
    kind: Option<Kind>,
    start: u64,
    last: u64,
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(None), Just(Some(Kind::Shared)), Just(Some(Kind::Exclusive))];
    (0..OWNERS, kind, 0..BYTES, 0..BYTES).prop_map(|(owner, kind, a, b)| Op {
        owner,
        kind,
        start: a.min(b),
        last: a.max(b),
    })
}

/// By owner and byte.
type Model = [[Option<Kind>; BYTES as usize]; OWNERS as usize];

fn in_the_way(model: &Model, op: &Op, kind: Kind) -> Option<u64> {
    let others = (0..OWNERS).filter(|&owner| owner != op.owner);
    others
        .flat_map(|owner| (op.start..=op.last).map(move |byte| (owner, byte)))
        .filter(|&(owner, byte)| match model[owner as usize][byte as usize] {
            None => false,
            Some(held) => held == Kind::Exclusive || kind == Kind::Exclusive,
        })
        .map(|(_, byte)| byte)
        .min()
}

fn read_back(locks: &Locks) -> Model {
    let mut model = Model::default();
    for lock in locks.iter() {
        let Owner::Process(owner) = lock.owner else { panic!("no such owner was there") };
        for byte in lock.start..=lock.last {
            let cell = &mut model[owner as usize][byte as usize];
            assert!(cell.is_none(), "two locks of one owner on one byte");
            *cell = Some(lock.kind);
        }
    }
    model
}

fn is_merged(locks: &Locks) -> bool {
    let all: Vec<&Lock> = locks.iter().collect();
    all.windows(2).all(|pair| {
        let (a, b) = (pair[0], pair[1]);
        (a.owner, a.start) < (b.owner, b.start)
            && !(a.owner == b.owner && a.kind == b.kind && a.last + 1 == b.start)
    })
}

proptest! {
    #[test]
    fn agrees_with_the_model(ops in proptest::collection::vec(op(), 1..60)) {
        let (mut locks, mut model) = (Locks::default(), Model::default());
        for op in ops {
            let owner = Owner::Process(op.owner);
            let cells = &mut model[op.owner as usize][op.start as usize..=op.last as usize];
            let Some(kind) = op.kind else {
                let had = cells.iter().any(Option::is_some);
                prop_assert_eq!(locks.unset(owner, op.start, op.last), had);
                cells.fill(None);
                continue;
            };
            let wanted = Lock { owner, kind, start: op.start, last: op.last, user: 0, process: 0 };
            let conflict = locks.conflict(&wanted).map(|lock| lock.start.max(op.start));
            prop_assert_eq!(conflict, in_the_way(&model, &op, kind));
            if conflict.is_none() {
                locks.set(wanted);
                model[op.owner as usize][op.start as usize..=op.last as usize].fill(Some(kind));
            }
            prop_assert_eq!(read_back(&locks), model);
            prop_assert!(is_merged(&locks));
        }
    }
}

#[test]
fn the_end_of_all_files_is_a_byte_like_others() {
    let mut locks = Locks::default();
    let owner = Owner::Description(1);
    locks.set(Lock { owner, kind: Kind::Shared, start: 10, last: u64::MAX, user: 0, process: 0 });
    locks.set(Lock { owner, kind: Kind::Shared, start: 0, last: 9, user: 0, process: 0 });
    assert_eq!(locks.len(), 1);
    assert!(locks.unset(owner, 5, u64::MAX));
    assert_eq!(locks.iter().map(|lock| (lock.start, lock.last)).collect::<Vec<_>>(), [(0, 4)]);
}
