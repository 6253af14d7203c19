//! All layouts beside a map, with random operations; and entries that are divided and forked.

use amap_bench::{Anon, Anons, Aref, Array, Chunks, Hybrid, Layout, List, Occupied};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Add(u32),
    Unadd(u32),
    Lookup(u32),
    Extend(u32),
    Copy { deeply: bool, keep: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Close together, so that chunks become full, and far away.
    let slot = prop_oneof![3 => 0..40u32, 1 => 0..1000u32];
    let step = prop_oneof![
        4 => slot.clone().prop_map(Step::Add),
        3 => slot.clone().prop_map(Step::Unadd),
        2 => slot.prop_map(Step::Lookup),
        1 => (0..300u32).prop_map(Step::Extend),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(deeply, keep)| Step::Copy { deeply, keep }),
    ];
    prop::collection::vec(step, 1..200)
}

fn contents<L: Layout>(amap: &L) -> BTreeMap<u32, Anon> {
    let mut contents = BTreeMap::new();
    amap.each(|slot, anon| assert_eq!(contents.insert(slot, anon), None, "{slot} comes twice"));
    contents
}

fn run<L: Layout>(steps: &[Step]) {
    let mut anons = Anons::default();
    let (mut amap, mut model) = (L::new(50), BTreeMap::new());
    for step in steps {
        match *step {
            Step::Add(slot) if slot < amap.slots() => {
                let anon = anons.make();
                let added = amap.add(slot, anon);
                match model.contains_key(&slot) {
                    true => {
                        assert_eq!(added, Err(Occupied));
                        anons.drop(anon);
                    }
                    false => {
                        assert_eq!(added, Ok(()));
                        model.insert(slot, anon);
                    }
                }
            }
            Step::Unadd(slot) if slot < amap.slots() => {
                let anon = amap.unadd(slot);
                assert_eq!(anon, model.remove(&slot));
                anon.into_iter().for_each(|anon| anons.drop(anon));
            }
            Step::Lookup(slot) if slot < amap.slots() => {
                assert_eq!(amap.lookup(slot), model.get(&slot).copied());
            }
            Step::Extend(by) if amap.slots() < 1000 => {
                let slots = amap.slots();
                amap.extend(by);
                assert_eq!(amap.slots(), slots + by);
            }
            Step::Copy { deeply, keep } => {
                let copy = match deeply {
                    true => amap.copy_deeply(&mut anons),
                    false => amap.copy(&mut anons),
                };
                let copied = contents(&copy);
                assert!(copied.keys().eq(model.keys()));
                assert_eq!(copy.slots(), amap.slots());
                for (slot, anon) in &copied {
                    assert_eq!(anons.count(*anon), if deeply { 1 } else { 2 });
                    assert_eq!(*anon == model[slot], !deeply);
                }
                if keep {
                    std::mem::replace(&mut amap, copy).free(&mut anons);
                    model = copied;
                } else {
                    copy.free(&mut anons);
                }
            }
            _ => {}
        }
        assert_eq!(contents(&amap), model);
        assert_eq!(anons.alive(), model.len());
    }
    amap.free(&mut anons);
    assert_eq!(anons.alive(), 0);
}

proptest! {
    #[test]
    fn each_layout_is_a_map(steps in steps()) {
        run::<List>(&steps);
        run::<Array>(&steps);
        run::<Hybrid>(&steps);
        run::<Chunks>(&steps);
    }
}

fn divided_and_forked<L: Layout>() {
    let mut anons = Anons::default();
    let mut entry = Aref::<L>::new(600);
    let made: Vec<Anon> = [3, 299, 300, 599]
        .map(|slot| {
            let anon = anons.make();
            entry.add(slot, anon).unwrap();
            anon
        })
        .to_vec();
    // Divided, both see their part, and write without a copy.
    let mut upper = entry.split(300);
    assert_eq!((entry.slots(), upper.slots()), (300, 300));
    assert_eq!((entry.lookup(299), upper.lookup(0)), (Some(made[1]), Some(made[2])));
    upper.unshare(&mut anons);
    let new = anons.make();
    upper.add(5, new).unwrap();
    assert_eq!(anons.count(made[3]), 1);
    // The child of a fork sees the same; who writes first has its own amap from then on, of its part only.
    let (mut child, child_lower) = (upper.fork(), entry.fork());
    assert_eq!(child.lookup(5), Some(new));
    child.unshare(&mut anons);
    assert_eq!((anons.count(new), anons.count(made[2]), anons.count(made[0])), (2, 2, 1));
    let own = anons.make();
    child.add(7, own).unwrap();
    assert_eq!((upper.lookup(7), child.lookup(7)), (None, Some(own)));
    // Nobody else has that amap: no copy.
    child.fork().free(&mut anons);
    child.unshare(&mut anons);
    assert_eq!(anons.count(own), 1);
    child.free(&mut anons);
    child_lower.free(&mut anons);
    assert_eq!(anons.alive(), 5);
    entry.free(&mut anons);
    upper.free(&mut anons);
    assert_eq!(anons.alive(), 0);
}

#[test]
fn entries_are_divided_and_forked() {
    divided_and_forked::<List>();
    divided_and_forked::<Array>();
    divided_and_forked::<Hybrid>();
    divided_and_forked::<Chunks>();
}
