//! Pages of 1 GiB, taken apart level by level, looked at in samples; and what shadows weigh.

mod common;

use common::{Model, ROOT};
use paging::PAGE;
use pmap::{Arrays, Lists, PageSize, Pmap, Shadow};

const LARGE: u64 = 2 << 20;
const HUGE: u64 = 1 << 30;

fn taken_apart<S: Shadow>() {
    let mut model = Model::new(4);
    let mut map: Pmap<Model, S> = Pmap::new(ROOT, 4).unwrap();
    map.map(&mut model, HUGE, 7, 0, 3 * HUGE, 3, PageSize::Huge).unwrap();
    assert_eq!(map.tables(), 2);
    let hole = 2 * HUGE + 5 * LARGE + 9 * PAGE;
    map.protect(&mut model, hole, PAGE, 1).unwrap();
    // The middle page is a table of 2 MiB pages now, of which one is a table of 4 KiB pages.
    assert_eq!(map.tables(), 4);
    for (va, level, rights) in [
        (HUGE, 3, 3),
        (2 * HUGE - PAGE, 3, 3),
        (2 * HUGE, 2, 3),
        (hole - 10 * PAGE, 2, 3),
        (hole - PAGE, 1, 3),
        (hole, 1, 1),
        (hole + PAGE, 1, 3),
        (2 * HUGE + 6 * LARGE, 2, 3),
        (3 * HUGE, 3, 3),
        (4 * HUGE - PAGE, 3, 3),
    ] {
        assert_eq!(model.walk(va), Some((7, va - HUGE, rights, level)), "{va:#x}");
        let found = map.lookup(va).unwrap();
        assert_eq!((found.offset + (va - found.va), found.rights), (va - HUGE, rights));
    }
    map.unmap(&mut model, hole - LARGE, 2 * LARGE).unwrap();
    assert_eq!(model.walk(hole), None);
    assert_eq!(model.walk(hole + LARGE), Some((7, hole + LARGE - HUGE, 3, 1)));
    map.unmap(&mut model, 0, map.end()).unwrap();
    assert!(map.is_empty() && map.tables() == 1 && model.mappings.is_empty());
}

#[test]
fn arrays_taken_apart() {
    taken_apart::<Arrays>();
}

#[test]
fn lists_taken_apart() {
    taken_apart::<Lists>();
}

/// Bytes of the shadow of 256 MiB in pages of 4 KiB, mapped a table at a time.
fn weight<S: Shadow>() -> usize {
    let mut model = Model::new(4);
    let mut map: Pmap<Model, S> = Pmap::new(ROOT, 4).unwrap();
    for table in 0..128 {
        map.map(&mut model, table * LARGE, 1, 0, LARGE, 3, PageSize::Base).unwrap();
    }
    map.heap_bytes()
}

/// G18 figure 3.1 compares the same. Lists weigh a fraction of arrays where a Mapping covers a table;
/// neither weighs one percent of what is mapped.
#[test]
fn shadows_weigh_what_they_should() {
    let (arrays, lists) = (weight::<Arrays>(), weight::<Lists>());
    println!("256 MiB mapped: {arrays} bytes as arrays, {lists} as lists");
    assert!(arrays < (256 << 20) / 100);
    assert!(lists * 4 < arrays);
}
