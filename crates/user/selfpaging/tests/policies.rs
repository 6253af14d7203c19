//! What policies do for a program, against models that are as naive as their definitions: miss by miss, the page that comes in and the one that
//! goes.

use proptest::prelude::*;
use selfpaging::{replay, Clock, Fifo, Kept, Optimal, OutOfMemory, Policy, Sampled};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

type Misses = Vec<(u64, Option<u64>)>;

fn optimal(trace: &[u64]) -> Optimal {
    Optimal::new(trace.iter().copied()).unwrap()
}

fn run(policy: impl Policy + 'static, places: usize, trace: &[u64]) -> Misses {
    replay(Box::new(policy), places as u32, trace.iter().copied()).unwrap()
}

/// A queue of pages.
fn naive_fifo(places: usize, trace: &[u64]) -> Misses {
    let (mut queue, mut misses) = (VecDeque::new(), Vec::new());
    for &page in trace {
        if !queue.contains(&page) {
            let gone = if queue.len() == places { queue.pop_front() } else { None };
            queue.push_back(page);
            misses.push((page, gone));
        }
    }
    misses
}

/// A queue of pages, in which one that was used goes to the end once more, without its mark.
fn naive_second_chance(places: usize, trace: &[u64]) -> Misses {
    let (mut queue, mut misses) = (VecDeque::<(u64, bool)>::new(), Vec::new());
    for &page in trace {
        if let Some(held) = queue.iter_mut().find(|held| held.0 == page) {
            held.1 = true;
            continue;
        }
        let mut gone = None;
        while queue.len() == places {
            match queue.pop_front() {
                Some((page, true)) => queue.push_back((page, false)),
                Some((page, false)) => gone = Some(page),
                None => unreachable!(),
            }
        }
        queue.push_back((page, true));
        misses.push((page, gone));
    }
    misses
}

/// What each place has, and for each page the times of all its uses so far; `goes` says which place is to be emptied.
fn naive_table(
    places: usize,
    trace: &[u64],
    mut goes: impl FnMut(&[u64], usize, &[usize]) -> usize,
) -> Misses {
    let (mut table, mut misses, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (now, &page) in trace.iter().enumerate() {
        if table.contains(&page) {
            continue;
        }
        if table.len() < places {
            table.push(page);
            misses.push((page, None));
        } else {
            let place = goes(&table, now, &times);
            misses.push((page, Some(std::mem::replace(&mut table[place], page))));
        }
        times.push(now);
    }
    misses
}

fn last_use(trace: &[u64], now: usize, page: u64) -> usize {
    trace[..now].iter().rposition(|&used| used == page).unwrap()
}

/// Uses between the same two misses are at the same time; the use that missed counts to those behind it.
fn naive_sampled(places: usize, trace: &[u64]) -> Misses {
    naive_table(places, trace, |table, now, misses| {
        let interval = |page| {
            let last = last_use(trace, now, page);
            misses.iter().filter(|&&miss| miss <= last).count()
        };
        (0..table.len()).min_by_key(|&place| interval(table[place])).unwrap()
    })
}

fn naive_optimal(places: usize, trace: &[u64]) -> Misses {
    naive_table(places, trace, |table, now, _| {
        let next = |page| trace[now..].iter().position(|&used| used == page).unwrap_or(usize::MAX);
        // The first of those that are as far away.
        (0..table.len()).rev().max_by_key(|&place| next(table[place])).unwrap()
    })
}

fn naive_lru(places: usize, trace: &[u64]) -> Misses {
    naive_table(places, trace, |table, now, _| {
        (0..table.len()).min_by_key(|&place| last_use(trace, now, table[place])).unwrap()
    })
}

/// The fewest misses that are possible, by trying everything.
fn fewest(places: usize, trace: &[u64]) -> usize {
    let mut states = BTreeMap::from([(BTreeSet::new(), 0)]);
    for &page in trace {
        let mut next: BTreeMap<BTreeSet<u64>, usize> = BTreeMap::new();
        let mut reach = |state: BTreeSet<u64>, misses: usize| {
            let known = next.entry(state).or_insert(usize::MAX);
            *known = misses.min(*known);
        };
        for (state, misses) in states {
            if state.contains(&page) {
                reach(state, misses);
                continue;
            }
            let mut with = state.clone();
            with.insert(page);
            if state.len() < places {
                reach(with, misses + 1);
            } else {
                for gone in state {
                    let mut with = with.clone();
                    with.remove(&gone);
                    reach(with, misses + 1);
                }
            }
        }
        states = next;
    }
    states.into_values().min().unwrap()
}

/// Pages that are used near each other, and again, as programs use them, and some that are not.
fn traces(pages: u64, most: usize) -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![
        3 => (0..3u64).prop_map(move |step| (true, step)),
        2 => (0..pages).prop_map(|page| (false, page)),
    ];
    prop::collection::vec(step, 0..most).prop_map(move |steps| {
        let mut at = 0;
        steps
            .into_iter()
            .map(|(near, step)| {
                at = if near { (at + step) % pages } else { step };
                at
            })
            .collect()
    })
}

/// Looks at all pages at each use, and so sees the order of uses itself.
fn sampled_at_each_use(places: usize, trace: &[u64]) -> Misses {
    let mut policy = Sampled::new();
    policy.prepare(places as u32).unwrap();
    let (mut table, mut misses) = (Vec::<u64>::new(), Vec::new());
    let mut used = HashMap::new();
    for &page in trace {
        let at = table.iter().position(|&held| held == page);
        policy.missed(page, &mut |place| used.remove(&table[place as usize]).is_some());
        used.insert(page, ());
        if at.is_some() {
            continue;
        }
        if table.len() < places {
            table.push(page);
            policy.filled(table.len() as u32 - 1, page);
            misses.push((page, None));
        } else {
            let place = policy.victim(&mut |_| false).unwrap();
            let gone = std::mem::replace(&mut table[place as usize], page);
            policy.emptied(place);
            policy.filled(place, page);
            misses.push((page, Some(gone)));
        }
    }
    misses
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn each_is_its_definition(trace in traces(14, 160), places in 1..9usize) {
        assert_eq!(run(Fifo::new(), places, &trace), naive_fifo(places, &trace));
        assert_eq!(run(Clock::new(), places, &trace), naive_second_chance(places, &trace));
        assert_eq!(run(Sampled::new(), places, &trace), naive_sampled(places, &trace));
        assert_eq!(run(optimal(&trace), places, &trace), naive_optimal(places, &trace));
    }

    #[test]
    fn sampling_at_each_use_is_lru(trace in traces(14, 160), places in 1..9usize) {
        assert_eq!(sampled_at_each_use(places, &trace), naive_lru(places, &trace));
    }

    #[test]
    fn nobody_has_fewer_misses_than_optimal(trace in traces(20, 200), places in 1..12usize) {
        let best = run(optimal(&trace), places, &trace).len();
        for others in [
            run(Fifo::new(), places, &trace),
            run(Clock::new(), places, &trace),
            run(Sampled::new(), places, &trace),
            naive_lru(places, &trace),
        ] {
            assert!(best <= others.len());
        }
    }

    #[test]
    fn nothing_has(trace in traces(6, 24), places in 1..5usize) {
        assert_eq!(run(optimal(&trace), places, &trace).len(), fewest(places, &trace));
    }

    /// More memory never means more misses for these.
    #[test]
    fn optimal_has_no_anomaly(trace in traces(14, 160), places in 1..9usize) {
        let misses = |places| run(optimal(&trace), places, &trace).len();
        assert!(misses(places + 1) <= misses(places));
    }

    /// Whatever a program does that was not recorded, and whatever the policy says, there are never more pages than places,
    /// and a page that goes was there.
    #[test]
    fn no_more_pages_than_places(
        trace in traces(14, 160),
        recorded in traces(16, 40),
        places in 1..9usize,
        which in 0..5u32,
    ) {
        let policy: Box<dyn Policy> = match which {
            0 => Box::new(Fifo::new()),
            1 => Box::new(Clock::new()),
            2 => Box::new(Sampled::new()),
            3 => Box::new(optimal(&recorded)),
            _ => Box::new(Wrong(0)),
        };
        let mut kept = Kept::new(policy, places as u32).unwrap();
        let mut there = BTreeSet::new();
        for page in trace {
            assert_eq!(kept.has(page), there.contains(&page));
            if !kept.has(page) {
                let full = there.len() == places;
                let gone = kept.bring(page, &mut |page| page % 3 == 0);
                assert_eq!(gone.is_some(), full);
                assert!(gone.is_none_or(|gone| there.remove(&gone)));
                there.insert(page);
            }
            assert_eq!(kept.count(), there.len());
        }
    }
}

/// Names places that there are not, or none.
struct Wrong(u32);

impl Policy for Wrong {
    fn prepare(&mut self, _: u32) -> Result<(), OutOfMemory> {
        Ok(())
    }
    fn filled(&mut self, _: u32, _: u64) {}
    fn emptied(&mut self, _: u32) {}
    fn victim(&mut self, accessed: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0 += 1;
        accessed(u32::MAX);
        [None, Some(self.0), Some(u32::MAX)][self.0 as usize % 3]
    }
}

/// The string of Belady, Nelson and Shedler (1969): with more memory FIFO has more misses.
#[test]
fn fifo_has_beladys_anomaly() {
    let trace = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    assert_eq!(run(Fifo::new(), 3, &trace).len(), 9);
    assert_eq!(run(Fifo::new(), 4, &trace).len(), 10);
    assert_eq!(run(optimal(&trace), 3, &trace).len(), 7);
    assert_eq!(run(optimal(&trace), 4, &trace).len(), 6);
    assert_eq!(naive_lru(3, &trace).len(), 10);
    assert_eq!(naive_lru(4, &trace).len(), 8);
}

/// The string that textbooks have for three frames: 15, 12 and 9 misses.
#[test]
fn misses_are_those_of_textbooks() {
    let trace = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
    assert_eq!(run(Fifo::new(), 3, &trace).len(), 15);
    assert_eq!(sampled_at_each_use(3, &trace).len(), 12);
    assert_eq!(run(optimal(&trace), 3, &trace).len(), 9);
}

/// Pages that were not recorded go before those that were, and the trace is right again where the program comes back to it.
#[test]
fn a_trace_that_is_left_does_no_harm() {
    let misses = run(optimal(&[1, 2, 3, 1, 1, 2, 3]), 2, &[1, 2, 3, 1, 9, 9, 8, 1, 2, 3]);
    let gone = |page, gone| (page, Some(gone));
    let rest = [gone(3, 2), gone(9, 3), gone(8, 9), gone(2, 1), gone(3, 2)];
    assert_eq!(misses[..2], [(1, None), (2, None)]);
    assert_eq!(misses[2..], rest);
}
