//! Against a program whose uses are known.

use proptest::prelude::*;
use readahead::{ReadAhead, FIRST, LATER, OBJECTS, PROBE};
use std::collections::BTreeSet;

const MOST: u32 = 16;

/// A store of which everything is out at first: who uses a page has it, and those that come beside it. Answers the misses, and how many pages came.
fn run(uses: impl Iterator<Item = (u32, u64)>) -> (u32, u32) {
    let mut ahead = ReadAhead::new(MOST);
    let (mut there, mut used) = (BTreeSet::new(), BTreeSet::new());
    let (mut misses, mut came) = (0, 0);
    for (record, page) in uses {
        used.insert((record, page));
        if there.contains(&(record, page)) {
            continue;
        }
        misses += 1;
        if let Some(run) = ahead.wanted(record) {
            let behind = (run.page + 1..run.page + u64::from(run.count)).map(|page| (record, page));
            let behind: Vec<_> = behind.filter(|page| there.contains(page)).collect();
            let were_used = behind.iter().filter(|page| used.contains(page)).count() as u32;
            ahead.judge(record, behind.len() as u32, were_used);
        }
        let count = ahead.pages(record, page);
        assert!((1..=MOST).contains(&count));
        there.extend((page..page + u64::from(count)).map(|page| (record, page)));
        came += count;
        ahead.came(record, page, count);
    }
    (misses, came)
}

#[test]
fn who_goes_on_gets_many() {
    let (misses, came) = run((0..1600).map(|page| (1, page)));
    assert!(misses <= 1600 / MOST + 3, "{misses}");
    assert!(came < 1600 + MOST);
}

#[test]
fn who_jumps_gets_one() {
    let jumps = (0..10_000u64).map(|n| (1, n * 7919 % 1_000_003 * 64));
    let (misses, came) = run(jumps);
    assert_eq!(misses, 10_000);
    // What is tried from time to time is of no use either.
    let tried = 10_000 / PROBE * (FIRST - 1);
    assert!(came <= 10_000 + tried + 100, "{came}");
}

#[test]
fn two_who_go_on_do_not_disturb_each_other() {
    let both = (0..1600).flat_map(|page| [(1, page), (2, 3 * page + 1)]);
    let (misses, _) = run(both);
    let (one, _) = run((0..1600).map(|page| (1, page)));
    let (other, _) = run((0..1600).map(|page| (2, 3 * page + 1)));
    assert_eq!(misses, one + other);
}

#[test]
fn who_jumped_and_goes_on_gets_many_again() {
    let jumps = (0..1000u64).map(|n| (1, (n * 7919 % 100_003 + 1000) * 64));
    let (before, _) = run(jumps.clone());
    let (all, _) = run(jumps.chain((0..1600).map(|page| (1, page))));
    assert!(all - before <= 1600 / MOST + 6, "{}", all - before);
}

#[test]
fn a_run_is_looked_at_once_and_later() {
    let mut ahead = ReadAhead::new(MOST);
    ahead.came(7, 100, 4);
    for n in 1..LATER as u64 {
        assert_eq!(ahead.wanted(7), None);
        ahead.came(7, 1000 * n, 1);
    }
    let run = ahead.wanted(7).unwrap();
    assert_eq!((run.page, run.count), (100, 4));
    ahead.judge(7, 3, 3);
    assert_eq!(ahead.wanted(7), None);
    assert_eq!(ahead.pages(7, 5), 2 * FIRST);
}

#[test]
fn the_oldest_object_is_forgotten() {
    let mut ahead = ReadAhead::new(MOST);
    ahead.came(0, 0, FIRST);
    assert_eq!(ahead.pages(0, u64::from(FIRST)), 2 * FIRST);
    for record in 1..=OBJECTS as u32 {
        ahead.came(record, 0, 1);
    }
    assert_eq!(ahead.pages(0, 99), FIRST);
}

proptest! {
    #[test]
    fn whatever_is_used_and_said(
        steps in prop::collection::vec((0u32..12, 0u64..64, 0u32..17, 0u32..17), 1..400),
    ) {
        let mut ahead = ReadAhead::new(MOST);
        for (record, page, there, used) in steps {
            if ahead.wanted(record).is_some() {
                ahead.judge(record, there, used.min(there));
            }
            let count = ahead.pages(record, page);
            prop_assert!((1..=MOST).contains(&count));
            ahead.came(record, page, count);
        }
    }
}
