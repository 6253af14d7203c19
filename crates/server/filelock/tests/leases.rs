//! What must hold of leases, whatever is done with them.

use filelock::lease::{Lease, Leases, NEVER};
use filelock::Kind;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Set { description: u32, kind: Kind },
    Remove { description: u32 },
    Break { writes: bool, patience: Option<u64> },
    Pass { time: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(Kind::Shared), Just(Kind::Exclusive)];
    let patience = prop_oneof![Just(None), (1u64..20).prop_map(Some)];
    prop_oneof![
        (0..4u32, kind).prop_map(|(description, kind)| Op::Set { description, kind }),
        (0..4u32).prop_map(|description| Op::Remove { description }),
        (any::<bool>(), patience).prop_map(|(writes, patience)| Op::Break { writes, patience }),
        (0u64..15).prop_map(|time| Op::Pass { time }),
    ]
}

/// What is known of a lease: its kind, and when it becomes shared and ends.
type Known = (Kind, Option<u64>, Option<u64>);

/// In the way of a reader or writer.
fn blocks(&(kind, ..): &Known, writes: bool) -> bool {
    writes || kind == Kind::Exclusive
}

fn check(leases: &Leases, known: &BTreeMap<u32, Known>) {
    assert_eq!(leases.iter().count(), known.len());
    for (description, (kind, shares, ends)) in known {
        let lease = leases.of(*description).expect("it was given");
        assert_eq!(lease.kind, *kind);
        assert_eq!(lease.is_breaking(), shares.is_some() || ends.is_some());
        let target =
            if ends.is_some() { None } else { Some(shares.map_or(*kind, |_| Kind::Shared)) };
        assert_eq!(lease.target(), target);
    }
    for writes in [false, true] {
        assert_eq!(leases.conflict(writes), known.values().any(|known| blocks(known, writes)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn agree_with_what_is_known(ops in proptest::collection::vec(op(), 1..40)) {
        let (mut leases, mut known, mut now) = (Leases::default(), BTreeMap::<u32, Known>::new(), 0);
        for op in ops {
            match op {
                Op::Set { description, kind } => {
                    let set = leases.set(Lease::new(description, (1, 2), 3, kind));
                    let mut others = known.iter().filter(|(other, _)| **other != description);
                    let is_taken = others.any(|(_, (.., ends))| kind == Kind::Exclusive || ends.is_some());
                    prop_assert_eq!(set.is_err(), is_taken);
                    if !is_taken {
                        let of = known.entry(description).or_insert((kind, None, None));
                        of.0 = kind;
                        if kind == Kind::Shared {
                            of.1 = None;
                        }
                    }
                }
                Op::Remove { description } => {
                    prop_assert_eq!(leases.remove(description).is_some(), known.remove(&description).is_some());
                }
                Op::Break { writes, patience } => {
                    let by = patience.map_or(NEVER, |patience| now + patience);
                    let mut told = Vec::new();
                    leases.break_for(writes, by, |lease| told.push(lease.description));
                    told.sort_unstable();
                    let mut expected = Vec::new();
                    for (description, of) in known.iter_mut().filter(|(_, of)| blocks(of, writes)) {
                        if of.2.is_some() || !writes && of.1.is_some() {
                            continue;
                        }
                        *(if writes { &mut of.2 } else { &mut of.1 }) = Some(by);
                        expected.push(*description);
                    }
                    prop_assert_eq!(told, expected);
                    // Whoever looks again at each time that he is told is not held up for ever, unless nobody hurries.
                    let mut later = leases.clone();
                    for _ in 0..8 {
                        later.expire(later.until(writes).min(NEVER - 1), |_| {});
                    }
                    let waits = known.values().any(|of| {
                        blocks(of, writes) && [of.1.filter(|_| !writes), of.2].into_iter().flatten().min() == Some(NEVER)
                    });
                    prop_assert_eq!(later.conflict(writes), waits);
                }
                Op::Pass { time } => {
                    now += time;
                    let mut ended = Vec::new();
                    let has_changed = leases.expire(now, |lease| ended.push(lease.description));
                    let is_past = |time: Option<u64>| time.is_some_and(|time| time <= now);
                    let before = known.clone();
                    known.retain(|_, of| !is_past(of.2));
                    known.values_mut().filter(|of| is_past(of.1)).for_each(|of| (of.0, of.1) = (Kind::Shared, None));
                    ended.sort_unstable();
                    let gone: Vec<u32> = before.keys().copied().filter(|of| !known.contains_key(of)).collect();
                    prop_assert_eq!(ended, gone);
                    prop_assert_eq!(has_changed, before != known);
                }
            }
            check(&leases, &known);
        }
    }
}
