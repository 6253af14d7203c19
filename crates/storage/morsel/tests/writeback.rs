//! Pages by themselves: what was written to is written back, and nothing is forgotten.

mod common;

use common::{Op, World};
use morsel::{At, Domain, Frame, Memory, Record, Refused, State};
use std::ops::Range;

const DIRTY: u64 = 1 << 6;

/// Stores to a page as a processor does: it marks the entry, if what it has cached does not say so already.
fn store(world: &World, record: Record, page: u64, word: usize, value: u64) {
    let morsels = world.morsels();
    let frame = morsels.own_page(record, page).expect("there is memory");
    let (mut table, mut level) = (morsels.anchor(record).root(), morsels.anchor(record).order());
    while level > 0 {
        let at = At { frame: table, index: morsel::index(page, level) };
        let entry = world.load(at);
        let link = morsel::Link(entry);
        if level == 1 || link.is_huge() {
            world.store(at, entry | DIRTY);
            break;
        }
        (table, level) = (link.frame(), level - 1);
    }
    world.store(At { frame, index: word }, value);
}

fn write_back(world: &World, record: Record, pages: Range<u64>, all: bool) -> Result<(), Refused> {
    let (morsels, mut at) = (world.morsels(), pages.start);
    while at < pages.end {
        let next = morsels.write_back_pages(record, at, pages.end, all)?;
        assert!(next > at, "it goes on");
        at = next;
    }
    Ok(())
}

/// In how many of the images that may be found after a power failure a word is as expected, and of how many.
fn surviving(world: &World, frame: Frame, word: usize, value: u64) -> (usize, usize) {
    let (mut good, mut all) = (0, 0);
    // What might have been before does not count.
    world.memory.borrow_mut().take_points();
    world.memory.borrow_mut().point();
    let mut random = fastrand::Rng::with_seed(1);
    for point in world.memory.borrow_mut().take_points() {
        point.images(1 << 12, &mut random, |image| {
            all += 1;
            good += usize::from(image.load(frame.0, word) == value);
        });
    }
    (good, all)
}

/// An object of `order` in a pool, and a watched memory.
fn world(order: u8) -> (World, Record) {
    let world = World::new(1200, Domain::Memory);
    world.morsels().format().expect("there is memory");
    Op::Create { id: 1, order }.run(&world).expect("there is memory");
    world.memory.borrow_mut().watch();
    let record = world.morsels().open(1).expect("it was created");
    (world, record)
}

#[test]
fn what_was_written_to_survives_and_nothing_else_is_promised() {
    for (order, pages) in [(1, [0, 63, 64, 511]), (2, [0, 511, 512, 5000])] {
        let (world, record) = world(order);
        for page in pages {
            store(&world, record, page, 77, page + 1);
        }
        let frame = |page| world.morsels().own_page(record, page).expect("it is there");
        let (good, all) = surviving(&world, frame(pages[1]), 77, pages[1] + 1);
        assert!(good < all, "it need not be there yet");
        write_back(&world, record, 0..morsel::pages_of(order), false)
            .expect("nobody else is there");
        for page in pages {
            let (good, all) = surviving(&world, frame(page), 77, page + 1);
            assert!(good == all && all > 0, "page {page}: in {good} of {all}");
        }
        // What is written afterwards must be marked anew.
        store(&world, record, pages[2], 78, 9);
        let (good, all) = surviving(&world, frame(pages[2]), 78, 9);
        assert!(good < all);
        write_back(&world, record, pages[2]..pages[2] + 1, false).expect("nobody else is there");
        let (good, all) = surviving(&world, frame(pages[2]), 78, 9);
        assert_eq!(good, all);
    }
}

#[test]
fn what_others_wrote_through_entries_of_their_own_is_written_back_if_asked() {
    let (world, record) = world(1);
    let frame = world.morsels().own_page(record, 5).expect("there is memory");
    world.store(At { frame, index: 9 }, 4);
    write_back(&world, record, 0..512, false).expect("nobody else is there");
    let (good, all) = surviving(&world, frame, 9, 4);
    assert!(good < all, "no mark says so");
    write_back(&world, record, 0..512, true).expect("nobody else is there");
    let (good, all) = surviving(&world, frame, 9, 4);
    assert_eq!(good, all);
}

#[test]
fn large_pages_single_pages_and_holes() {
    let (world, record) = world(2);
    let mut first = 512;
    while first < 1024 {
        first = world.morsels().populate(record, first, 1024, true).expect("there is memory");
    }
    store(&world, record, 700, 1, 8);
    let frame = world.morsels().own_page(record, 700).expect("it is there");
    write_back(&world, record, 600..701, false).expect("nobody else is there");
    let (good, all) = surviving(&world, frame, 1, 8);
    assert_eq!(good, all);
    assert_eq!(world.morsels().look_at(record, 5, |frame| frame), Ok(None));
    assert_eq!(world.morsels().look_at(record, 700, |found| found), Ok(Some(frame)));
    assert_eq!(world.morsels().own_page(record, 1 << 18), Err(Refused::Beyond));

    Op::Create { id: 2, order: 0 }.run(&world).expect("there is memory");
    let small = world.morsels().open(2).expect("it was created");
    let page = world.morsels().own_page(small, 0).expect("it is there");
    world.store(At { frame: page, index: 3 }, 6);
    write_back(&world, small, 0..1, false).expect("nobody else is there");
    let (good, all) = surviving(&world, page, 3, 6);
    assert_eq!(good, all);
    let descriptor = morsel::Pages::descriptor(&world, page);
    assert_eq!(State(descriptor).entered(), Some((2, 0)));
}

#[test]
fn where_caches_persist_nothing_is_written_back() {
    let world = World::new(100, Domain::Caches);
    world.morsels().format().expect("there is memory");
    Op::Create { id: 1, order: 1 }.run(&world).expect("there is memory");
    let record = world.morsels().open(1).expect("it was created");
    store(&world, record, 3, 0, 1);
    assert_eq!(world.morsels().write_back_pages(record, 0, 512, true), Ok(512));
}
