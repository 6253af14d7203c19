//! Regions and views against an array of pages; policies against what they promise.

use proptest::prelude::*;
use selfpaging::{Advance, Clock, Fifo, InsertError, Place, Policy, RegionMap, Views};
use std::collections::BTreeSet;

const PAGES: u64 = 64;
const LOW: u64 = 8;

/// A region's name, and the page of its object at which it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    name: u32,
    offset: u64,
}

impl Advance for Part {
    fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Remove(u64, u64),
    Rename(u64, u64, u32),
    FindFree(u64, u32, u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let range = || (0..PAGES, 0..20u64);
    let op = prop_oneof![
        4 => range().prop_map(|(at, pages)| Op::Insert(at, pages)),
        3 => range().prop_map(|(at, pages)| Op::Remove(at, pages)),
        2 => (range(), 100..200u32).prop_map(|((at, pages), name)| Op::Rename(at, pages, name)),
        2 => (1..24u64, 0..5u32, 0..16u64).prop_map(|(n, log, phase)| Op::FindFree(n, log, phase)),
    ];
    prop::collection::vec(op, 1..60)
}

/// What each page of the naive model belongs to.
type Pages = Vec<Option<Part>>;

fn free(pages: &Pages, at: u64, count: u64) -> bool {
    (at..at + count).all(|page| pages[page as usize].is_none())
}

/// A region map and its pages say the same, and the regions are in order and not empty.
fn same(map: &RegionMap<Part>, pages: &Pages) {
    for (page, part) in (0..).zip(pages) {
        let found = map.find(page).map(|region| Part {
            name: region.value.name,
            offset: region.value.offset + (page - region.start),
        });
        assert_eq!(found, *part);
    }
    let mut end = 0;
    for region in map.iter() {
        assert!(region.start >= end && region.start < region.end);
        end = region.end;
    }
}

proptest! {
    #[test]
    fn regions(ops in ops()) {
        let mut map = RegionMap::new(LOW, PAGES);
        let mut pages: Pages = vec![None; 2 * PAGES as usize];
        for (name, op) in (0..).zip(&ops) {
            match *op {
                Op::Insert(at, count) => {
                    let result = map.insert(at, count, Part { name, offset: 1000 });
                    if count == 0 || at < LOW || at + count > PAGES {
                        assert_eq!(result, Err(InsertError::OutOfRange));
                    } else if !free(&pages, at, count) {
                        assert_eq!(result, Err(InsertError::Occupied));
                    } else {
                        assert_eq!(result, Ok(()));
                        for n in 0..count {
                            pages[(at + n) as usize] = Some(Part { name, offset: 1000 + n });
                        }
                    }
                }
                Op::Remove(at, count) => {
                    map.cut(at, at + count).unwrap();
                    let expected: BTreeSet<u64> =
                        (at..at + count).filter(|&p| pages[p as usize].is_some()).collect();
                    let mut gone = BTreeSet::new();
                    while let Some(region) = map.take(at, at + count) {
                        gone.extend(region.start..region.end);
                    }
                    assert_eq!(gone, expected);
                    pages[at as usize..(at + count) as usize].fill(None);
                }
                Op::Rename(at, count, name) => {
                    map.cut(at, at + count).unwrap();
                    for region in map.overlapping_mut(at, at + count) {
                        region.value.name = name;
                    }
                    for part in pages[at as usize..(at + count) as usize].iter_mut().flatten() {
                        part.name = name;
                    }
                }
                Op::FindFree(count, log, phase) => {
                    let (alignment, phase) = (1 << log, phase % (1 << log));
                    let fits = |&at: &u64| at % alignment == phase && free(&pages, at, count);
                    let expected = (LOW..=PAGES.saturating_sub(count)).find(fits);
                    assert_eq!(map.find_free(count, alignment, phase), expected);
                }
            }
            same(&map, &pages);
        }
    }

    #[test]
    fn views(ops in ops()) {
        let mut views = Views::new();
        // Offset in the object and value of each page of the address space.
        let mut pages: Vec<Option<(u64, u32)>> = vec![None; 2 * PAGES as usize];
        for (value, op) in (0..).zip(&ops) {
            let range = |at: u64, count: u64| at as usize..(at + count) as usize;
            match *op {
                Op::Insert(at, count) | Op::Rename(at, count, _) if count > 0 => {
                    let offset = at * 3 % 50;
                    views.set(at, count, offset, value).unwrap();
                    for (n, page) in (0..).zip(&mut pages[range(at, count)]) {
                        *page = Some((offset + n, value));
                    }
                }
                Op::Remove(at, count) => {
                    views.clear(at, count).unwrap();
                    pages[range(at, count)].fill(None);
                }
                _ => {}
            }
            for offset in 0..80 {
                let shows = |(va, page): (u64, &Option<(u64, u32)>)| {
                    page.filter(|page| page.0 == offset).map(|(_, value)| Place { va, value })
                };
                let expected: Vec<_> = (0..).zip(&pages).filter_map(shows).collect();
                assert_eq!(views.of(offset).collect::<Vec<_>>(), expected);
            }
            assert_eq!(views.is_empty(), pages.iter().all(Option::is_none));
        }
    }

    /// Whatever happens, a victim is a filled place, and FIFO's is the one that was filled first.
    #[test]
    fn fifo(ops in prop::collection::vec((0..8u32, 0..3u32), 1..100)) {
        let mut policy = Fifo::new();
        policy.prepare(8).unwrap();
        let mut order: Vec<u32> = Vec::new();
        for (place, what) in ops {
            match what {
                0 if !order.contains(&place) => {
                    policy.filled(place, 0);
                    order.push(place);
                }
                1 => {
                    policy.emptied(place);
                    order.retain(|&other| other != place);
                }
                _ => {}
            }
            assert_eq!(policy.victim(&mut |_| true), order.first().copied());
        }
    }

    /// Clock names a filled place, one that was not used if there is one, and asks about none twice
    /// in a round.
    #[test]
    fn clock(ops in prop::collection::vec((0..8u32, 0..4u32), 1..100)) {
        let mut policy = Clock::new();
        policy.prepare(8).unwrap();
        let (mut filled, mut used) = ([false; 8], [false; 8]);
        for (place, what) in ops {
            match what {
                0 => {
                    policy.filled(place, 0);
                    (filled[place as usize], used[place as usize]) = (true, true);
                }
                1 => {
                    policy.emptied(place);
                    filled[place as usize] = false;
                }
                2 => used[place as usize] = true,
                _ => {
                    let unused = |place: &usize| filled[*place] && !used[*place];
                    let any_unused = (0..8).any(|place| unused(&place));
                    let mut asked = 0;
                    let before = used;
                    let victim = policy.victim(&mut |place| {
                        asked += 1;
                        std::mem::take(&mut used[place as usize])
                    });
                    assert_eq!(victim.is_some(), filled.contains(&true));
                    assert!(asked <= 9);
                    if let Some(victim) = victim {
                        assert!(filled[victim as usize]);
                        assert!(!any_unused || !before[victim as usize]);
                    }
                }
            }
        }
    }
}
