//! Memory that comes to a pool and leaves it, against sets of pages.

use proptest::prelude::*;
use ramalloc::{Buddy, Pool, Request, PAGE};
use std::collections::BTreeSet;

/// Pages of a unit, as a power of two.
const ORDER: u32 = 4;
const UNIT: u64 = PAGE << ORDER;
/// The units that are the pool's at first; before and behind them are those of others.
const OWN: std::ops::Range<u64> = 40..104;
const END: u64 = 160;

fn words(bytes: usize) -> &'static mut [u64] {
    Box::leak(vec![0; bytes].into_boxed_slice())
}

/// A pool of which all that it had at first is free.
fn pool() -> Pool<'static> {
    let (base, bytes) = (OWN.start * UNIT, (OWN.end - OWN.start) * UNIT);
    let mut pool = Pool::new();
    assert_eq!(pool.add(base, bytes, 0, words(Buddy::words_needed(base, bytes))), Some(0));
    for (first, end) in [(0, OWN.start), (OWN.end, END)] {
        let (base, bytes) = (first * UNIT, (end - first) * UNIT);
        let words = words(Buddy::words_needed_within(base, bytes, ORDER));
        assert!(pool.add_away(base, bytes, ORDER, words).is_some());
    }
    pool.free(base, bytes).unwrap();
    pool
}

proptest! {
    #[test]
    fn what_comes_and_leaves_is_counted_and_nobodys_twice(
        steps in prop::collection::vec((0u8..5, 0u64..END, 1u64..3 << ORDER, any::<prop::sample::Index>()), 1..300),
    ) {
        let mut pool = pool();
        let unit_pages = 1u64 << ORDER;
        let mut had: BTreeSet<u64> = OWN.collect();
        let mut free: BTreeSet<u64> = OWN.flat_map(|unit| unit * unit_pages..(unit + 1) * unit_pages).collect();
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (step, unit, pages, which) in steps {
            let own = |page: u64| OWN.contains(&(page / unit_pages));
            match step {
                0 | 1 => {
                    let bytes = pages * PAGE;
                    let request = Request { bytes, alignment: 0, attrs: 0, trusted: true };
                    let Ok(grant) = pool.alloc(request) else { continue };
                    let first = pool.address(grant).unwrap() / PAGE;
                    prop_assert!((first..first + pages).all(|page| free.remove(&page)));
                    // One piece is of one home.
                    prop_assert!(own(first) || first / unit_pages == (first + pages - 1) / unit_pages);
                    prop_assert_eq!(grant.range == 0, own(first));
                    taken.push((first, pages));
                }
                2 if !taken.is_empty() => {
                    let (first, pages) = taken.swap_remove(which.index(taken.len()));
                    prop_assert_eq!(pool.free(first * PAGE, pages * PAGE), Ok(()));
                    free.extend(first..first + pages);
                }
                3 if !had.contains(&unit) => {
                    prop_assert_eq!(pool.adopt(unit * UNIT, UNIT), Ok(()));
                    had.insert(unit);
                    free.extend(unit * unit_pages..(unit + 1) * unit_pages);
                }
                4 => {
                    let whole = |unit: &u64| (0..unit_pages).all(|n| free.contains(&(unit * unit_pages + n)));
                    let whole: Vec<u64> = had.iter().copied().filter(whole).collect();
                    let Some(grant) = pool.cede(UNIT, UNIT) else {
                        prop_assert!(whole.is_empty());
                        continue;
                    };
                    let unit = pool.address(grant).unwrap() / UNIT;
                    prop_assert!(whole.contains(&unit));
                    // What was another's goes first.
                    prop_assert!(grant.range > 0 || whole.iter().all(|&unit| own(unit * unit_pages)));
                    had.remove(&unit);
                    free.retain(|page| page / unit_pages != unit);
                }
                _ => {}
            }
            let usage = pool.usage();
            prop_assert_eq!((usage.free, usage.total), (free.len() as u64 * PAGE, had.len() as u64 * UNIT));
        }
    }
}

#[test]
fn a_node_that_is_wished_is_taken_of_what_is_its_own_first() {
    let mut pool = pool();
    pool.adopt(0, UNIT).unwrap();
    let request = Request { bytes: PAGE, alignment: 0, attrs: 0, trusted: true };
    assert_eq!(pool.alloc(request).unwrap().range, 0);
}
