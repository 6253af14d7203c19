//! The bookkeeping against one that has a value for each page.

use proptest::prelude::*;
use std::collections::BTreeMap;
use userfault::{right, Hidden, Mode, Runs, Watched, Why};

const PAGES: u64 = 40;

#[derive(Clone, Debug)]
enum Change {
    Register(u64, u64, u32, [bool; 3]),
    Hide(u64, u64, bool, u8),
    Show(u64, u64),
    Forget(u64, u64),
    Protect(u64, u64, u8),
    /// And puts it back.
    Lift(u64, u64),
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    (0..PAGES, 0..PAGES).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (range(), 0u32..3, any::<[bool; 3]>())
            .prop_map(|((a, b), who, how)| Change::Register(a, b, who, how)),
        (range(), any::<bool>(), 0u8..8)
            .prop_map(|((a, b), missing, rights)| Change::Hide(a, b, missing, rights)),
        range().prop_map(|(a, b)| Change::Show(a, b)),
        range().prop_map(|(a, b)| Change::Forget(a, b)),
        (range(), 0u8..8).prop_map(|((a, b), rights)| Change::Protect(a, b, rights)),
        range().prop_map(|(a, b)| Change::Lift(a, b)),
    ]
}

/// Parts as values of pages; each page once.
fn spread(parts: Vec<(u64, u64, u8)>) -> BTreeMap<u64, u8> {
    let mut all = BTreeMap::new();
    for (from, to, rights) in parts {
        assert!(from < to);
        for page in from..to {
            assert_eq!(all.insert(page, rights), None);
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_as_in_the_model(changes in prop::collection::vec(change(), 1..40)) {
        let mut watched = Watched::new();
        let mut registered: BTreeMap<u64, Mode> = BTreeMap::new();
        let mut hidden: BTreeMap<u64, Hidden> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Register(a, b, who, [missing, minor, protected]) => {
                    let mode = Mode { who, missing, minor, protected };
                    watched.register(a, b, mode);
                    registered.extend((a..b).map(|page| (page, mode)));
                }
                Change::Hide(a, b, missing, rights) => {
                    let why = if missing { Why::Missing } else { Why::Protected };
                    let shown = watched.hide(a, b, Hidden { why, rights });
                    prop_assert_eq!(shown, if missing { 0 } else { rights & !right::WRITE });
                    hidden.extend((a..b).map(|page| (page, Hidden { why, rights })));
                }
                Change::Show(a, b) | Change::Forget(a, b) => {
                    let forget = matches!(change, Change::Forget(..));
                    let parts = if forget { watched.forget(a, b) } else { watched.show(a, b) };
                    let expected: BTreeMap<u64, u8> =
                        (a..b).filter_map(|page| Some((page, hidden.remove(&page)?.rights))).collect();
                    prop_assert_eq!(spread(parts), expected);
                    if forget {
                        registered.retain(|page, _| !(a..b).contains(page));
                    }
                }
                Change::Lift(a, b) => {
                    let (lifted, parts) = watched.lift(a, b);
                    let inside = || hidden.range(a..b.max(a)).map(|(page, hidden)| (*page, *hidden));
                    let rights: BTreeMap<u64, u8> = inside().map(|(page, hidden)| (page, hidden.rights)).collect();
                    prop_assert_eq!(spread(parts), rights);
                    prop_assert!((a..b).all(|page| watched.mode(page).is_none() && watched.hidden(page).is_none()));
                    let shown: BTreeMap<u64, u8> = inside().map(|(page, hidden)| (page, hidden.shown())).collect();
                    // Elsewhere it is the same, of those who have it there, too.
                    let moved = lifted.moved((a, b - a), a + PAGES, |who| who != 1);
                    for page in a..b {
                        let mode = registered.get(&page).filter(|mode| mode.who != 1);
                        prop_assert_eq!(moved.mode(page + PAGES), mode.copied());
                        let there = hidden.get(&page).filter(|_| mode.is_some());
                        prop_assert_eq!(moved.hidden(page + PAGES), there.copied());
                    }
                    prop_assert!(moved.mode(a + PAGES - 1).is_none() && moved.mode(b + PAGES).is_none());
                    prop_assert_eq!(spread(watched.put_back(&lifted)), shown);
                }
                Change::Protect(a, b, rights) => {
                    let parts = spread(watched.protect(a, b, rights));
                    for page in a..b {
                        let shown = match hidden.get_mut(&page) {
                            None => rights,
                            Some(hidden) => {
                                hidden.rights = rights;
                                if hidden.why == Why::Missing { 0 } else { rights & !right::WRITE }
                            }
                        };
                        prop_assert_eq!(parts.get(&page), Some(&shown));
                    }
                    prop_assert_eq!(parts.len() as u64, b - a);
                }
            }
            prop_assert_eq!(watched.is_empty(), registered.is_empty());
            for page in 0..PAGES + 1 {
                prop_assert_eq!(watched.mode(page), registered.get(&page).copied());
                prop_assert_eq!(watched.hidden(page), hidden.get(&page).copied());
                let (value, behind) = watched.hidden_run(page, PAGES + 2);
                prop_assert_eq!(value, hidden.get(&page).copied());
                prop_assert!(behind > page && (page..behind).all(|page| hidden.get(&page).copied() == value));
                prop_assert!(behind == PAGES + 2 || hidden.get(&behind).copied() != value);
                for access in [right::READ, right::WRITE, right::EXECUTE] {
                    // The rights allow it and the processor does not.
                    let serves = hidden.get(&page).filter(|hidden| {
                        hidden.rights & access != 0 && hidden.shown() & access == 0
                    });
                    let expected = serves.and_then(|hidden| Some((*registered.get(&page)?, hidden.why)));
                    prop_assert_eq!(watched.serves(page, access), expected);
                }
            }
            for who in 0..3 {
                let of: Vec<u64> = watched.of(who).into_iter().flat_map(|(a, b)| a..b).collect();
                let expected: Vec<u64> =
                    registered.iter().filter(|(_, mode)| mode.who == who).map(|(page, _)| *page).collect();
                prop_assert_eq!(of, expected);
            }
            let all = (3..PAGES - 3).all(|page| registered.get(&page).is_some_and(|mode| mode.who == 1));
            prop_assert_eq!(watched.is_registered(3, PAGES - 3, |mode| mode.who == 1), all);
        }
    }

    /// Neighbours with one value are one run, so that there are not more than pages that differ from the one before.
    #[test]
    fn runs_are_as_few_as_can_be(changes in prop::collection::vec((range(), prop::option::of(0u8..3)), 1..60)) {
        let (mut runs, mut model) = (Runs::new(), [None; PAGES as usize + 1]);
        for ((a, b), value) in changes {
            match value {
                Some(value) => runs.set(a, b, value),
                None => runs.clear(a, b),
            }
            (a..b).for_each(|page| model[page as usize] = value);
            let begins = (0..PAGES as usize).filter(|&page| model[page].is_some() && (page == 0 || model[page - 1] != model[page]));
            prop_assert_eq!(runs.count(), begins.count());
            for page in 0..PAGES {
                prop_assert_eq!(runs.get(page), model[page as usize]);
            }
            let within: Vec<(u64, u8)> = runs.within(5, 30).into_iter().flat_map(|(a, b, v)| (a..b).map(move |p| (p, v))).collect();
            let expected: Vec<(u64, u8)> = (5..30).filter_map(|page| Some((page, model[page as usize]?))).collect();
            prop_assert_eq!(within, expected);
        }
    }
}
