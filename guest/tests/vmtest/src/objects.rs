//! The objects whose memory is known from the start: fixed, one frame, append, NUMA.

use crate::probe::{call, load, store, Unresolved};
use crate::setup::Lab;
use crate::Test;
use libos::frame::{Frame, FrameRequest};
use libos::memory::{self, Access, Append, Error, Fixed, LazyFrame, Map, Numa, Object, OneFrame};
use libos::memory::{OneMap, PageSize, Reserved, NONE};
use libos::vspace::{R, RW, RX};
use libos::{Cap, PAGE};
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[
    ("one_frame_many_views", one_frame),
    ("one_frame_one_map", one_map),
    ("lazy_frame", lazy_frame),
    ("fixed_is_where_it_is", fixed),
    ("append_grows_in_place", append),
    ("append_refuses", append_refuses),
    ("numa_interleaves", numa),
    ("executable_pages", execute),
    ("large_pages_in_the_middle", mixed),
    ("reserved_is_mapped_by_hand", reserved),
];

const LARGE: u64 = 2 << 20;

fn absent(address: u64, access: Access, error: Error) -> Unresolved {
    Unresolved { address, access, present: false, error }
}

fn one_frame(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(OneFrame::new(8 * PAGE, PageSize::Base)));
    let all = good!(memory::map(&object, Map::default()));
    let part = good!(memory::map(&object, Map::default().part(2 * PAGE, 3 * PAGE).prot(R)));
    // Mapped already: no fault is needed.
    let known = |va| memory::pages(|pages| Ok(pages.lookup(va).is_some()));
    check!(good!(known(all.start() + 7 * PAGE)) && good!(known(part.start())));
    for page in 0..8 {
        check!(store(all.start() + page * PAGE, page + 10) == Ok(()));
    }
    for page in 0..3 {
        let at = part.start() + page * PAGE;
        check!(load(at) == Ok(page + 12));
        let refused = Unresolved { present: true, ..absent(at, Access::Write, Error::NotAllowed) };
        check!(store(at, 0) == Err(refused));
    }
    // Without rights, and with them again.
    good!(all.protect(0, 4 * PAGE, NONE));
    check!(load(all.start()) == Err(absent(all.start(), Access::Read, Error::NotAllowed)));
    good!(all.protect(0, 4 * PAGE, R));
    check!(load(all.start() + PAGE) == Ok(11));
    check!(store(all.start() + PAGE, 0).is_err());
    for bad in [Map::default().part(0, 9 * PAGE), Map::default().part(8 * PAGE, PAGE)] {
        check!(matches!(memory::map(&object, bad), Err(Error::OutOfRange)));
    }
    check!(matches!(memory::map(&object, Map::default().at(1)), Err(Error::Misaligned)));
    let taken = Map::default().at(all.start());
    check!(matches!(memory::map(&object, taken), Err(Error::Occupied)));
    check!(matches!(memory::map(&object, Map::default().at(PAGE)), Err(Error::OutOfRange)));
    Ok(())
}

fn one_map(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(OneMap::new(4 * PAGE, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    check!(store(region.start(), 3) == Ok(()));
    check!(matches!(memory::map(&object, Map::default()), Err(Error::Busy)));
    good!(region.unmap(PAGE, PAGE));
    check!(matches!(memory::map(&object, Map::default()), Err(Error::Busy)));
    drop(region);
    let again = good!(memory::map(&object, Map::default().prot(R)));
    check!(load(again.start()) == Ok(3));
    Ok(())
}

fn lazy_frame(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(LazyFrame::new(2 * LARGE, PageSize::Large)));
    let region = good!(memory::map(&object, Map::default()));
    let large = good!(memory::map(&object, Map::default().size(PageSize::Large)));
    let size = |va| memory::pages(|pages| Ok(pages.lookup(va).map(|page| page.size)));
    check!(good!(size(region.start())).is_none());
    check!(store(region.start() + LARGE + 8, 9) == Ok(()));
    check!(good!(size(region.start() + LARGE)) == Some(PageSize::Base));
    check!(good!(size(region.start() + LARGE + PAGE)).is_none());
    check!(load(large.start() + LARGE + 8) == Ok(9));
    check!(good!(size(large.start() + LARGE)) == Some(PageSize::Large));
    check!(good!(size(large.start())).is_none());
    // Read-only by the region: the fault maps it so, and a store is refused as one on a page.
    good!(region.protect(0, LARGE, R));
    check!(load(region.start()) == Ok(0));
    let at = region.start();
    let refused = Unresolved { present: true, ..absent(at, Access::Write, Error::NotAllowed) };
    check!(store(at, 1) == Err(refused));
    Ok(())
}

fn fixed(_: &mut Lab) -> Outcome {
    let frame = good!(Frame::with(FrameRequest::bytes(2 * PAGE).aligned(8 * PAGE)));
    let base = frame.base();
    check!(base % (8 * PAGE) == 0 && good!(frame.cap().identify()).base == base);
    let object = Object::new(Fixed::device(frame));
    let region = good!(memory::map(&object, Map::default()));
    check!(store(region.start() + PAGE, 77) == Ok(()));
    let entry = |va| {
        memory::pages(|pages| {
            let table = pages.table(va, 1).ok_or(Error::NoPage)?;
            Ok(table.read_entry(libos::vspace::entry_of(1, va))?)
        })
    };
    // The entry: that page, writable, and not cached (PCD).
    let bits = good!(entry(region.start() + PAGE));
    check!(bits & 0x000f_ffff_ffff_f000 == base + PAGE);
    check!(bits & 1 << 4 != 0 && bits & 2 != 0);
    Ok(())
}

fn append(_: &mut Lab) -> Outcome {
    let object = Object::new(Append::new(64 * PAGE));
    let first = good!(memory::map(&object, Map::default()));
    let second = good!(memory::map(&object, Map::default().part(4 * PAGE, 8 * PAGE).prot(R)));
    check!(load(first.start()) == Err(absent(first.start(), Access::Read, Error::NoPage)));
    let mut pages_there = 0;
    for pages in [1, 3, 2, 7] {
        let frame = good!(Frame::new(pages * PAGE));
        good!(object.manage(|object, tables| object.append(tables, frame)));
        for page in pages_there..pages_there + pages {
            check!(store(first.start() + page * PAGE, page + 1) == Ok(()));
        }
        pages_there += pages;
        let end = first.start() + pages_there * PAGE;
        check!(store(end, 0) == Err(absent(end, Access::Write, Error::NoPage)));
        check!(good!(object.with(|object| object.len())) == pages_there * PAGE);
    }
    for page in 0..8 {
        check!(load(second.start() + page * PAGE) == Ok(page + 5));
    }
    // A region that comes later shows all of it at once.
    let third = good!(memory::map(&object, Map::default()));
    let known = |va| memory::pages(|pages| Ok(pages.lookup(va).is_some()));
    check!(good!(known(third.start() + 12 * PAGE)) && !good!(known(third.start() + 13 * PAGE)));
    check!(load(third.start() + 12 * PAGE) == Ok(13));
    Ok(())
}

fn append_refuses(_: &mut Lab) -> Outcome {
    let object = Object::new(Append::new(2 * PAGE));
    let region = good!(memory::map(&object, Map::default()));
    let grow = |frame| object.manage(|object, pages| object.append(pages, frame));
    check!(grow(good!(Frame::new(3 * PAGE))) == Err(Error::OutOfRange));
    // A Frame that was revoked behind its owner's back.
    let dead = good!(Frame::new(PAGE));
    good!(dead.cap().delete());
    check!(matches!(grow(dead), Err(Error::Kernel(_))));
    check!(good!(object.with(|object| object.is_empty())));
    good!(grow(good!(Frame::new(2 * PAGE))));
    check!(store(region.start() + PAGE, 1) == Ok(()));
    Ok(())
}

fn numa(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(Numa::new(8 * LARGE, LARGE, &[0, 1, 0])));
    let region = good!(memory::map(&object, Map::default().size(PageSize::Large)));
    for n in 0..8 {
        check!(store(region.start() + n * LARGE + 8 * n, n) == Ok(()));
        let node = good!(object.with(|object| object.node_of(n * LARGE)));
        check!(node == [0, 1, 0][n as usize % 3]);
        let page = good!(memory::pages(|pages| Ok(pages.lookup(region.start() + n * LARGE))));
        check!(page.is_some_and(|page| page.size == PageSize::Large));
        let cap = good!(object.with(|object| object.frame(n * LARGE).map(Frame::cap)));
        let cap = cap.ok_or(libos::Status::Empty);
        let attrs = good!(good!(cap).identify()).attrs;
        // Where there is a second node, its memory was used.
        check!(attrs.node() == node || testkit::nodes() == 1);
    }
    check!(matches!(Numa::new(LARGE, 3 * PAGE, &[0]), Err(Error::Misaligned)));
    check!(matches!(Numa::new(LARGE + PAGE, LARGE, &[0]), Err(Error::OutOfRange)));
    check!(matches!(Numa::new(LARGE, LARGE, &[]), Err(Error::OutOfRange)));
    Ok(())
}

/// Code is data until it may be executed, and then no data.
fn execute(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(OneFrame::new(PAGE, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    // mov eax, 42; ret
    check!(store(region.start(), 0x0000_c300_0000_2ab8) == Ok(()));
    let at = region.start();
    let refused = Unresolved { present: true, ..absent(at, Access::Execute, Error::NotAllowed) };
    check!(call(at) == Err(refused));
    good!(region.protect(0, PAGE, RX));
    check!(call(at) == Ok(42));
    check!(store(at, 0).is_err());
    Ok(())
}

/// A range that begins and ends between large pages gets them in its middle.
fn mixed(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(OneFrame::new(4 * LARGE, PageSize::Large)));
    let at = 0x300_0000_0000 + LARGE - 3 * PAGE;
    let map =
        Map { size: PageSize::Base, ..Map::default().part(LARGE - 3 * PAGE, 2 * LARGE + 5 * PAGE) };
    let region = good!(memory::map(&object, map.at(at)));
    good!(memory::pages(|pages| {
        let frame = object.with(|object| (object.frame().cap(), object.frame().base()))?;
        check_mixed(pages, at, frame)
    }));
    for page in [0, 2, 3, 514, 515, 1026, 1027, 1028] {
        check!(store(at + page * PAGE, page) == Ok(()));
    }
    check!(load(at + 1028 * PAGE) == Ok(1028));
    good!(region.protect(100 * PAGE, PAGE, RW));
    Ok(())
}

/// The same part again, in a place of its own, with pages as large as they can be.
fn check_mixed(
    pages: &mut memory::Pages,
    at: u64,
    (cap, base): (libos::CapAddr, u64),
) -> Result<(), Error> {
    let va = at + (1 << 30);
    let frame = Frame::from_cap(cap)?;
    let (offset, bytes) = (LARGE - 3 * PAGE, 2 * LARGE + 5 * PAGE);
    pages.map_mixed(va, &frame, offset, bytes, R, PageSize::Large)?;
    let sizes = [(0, 1), (2, 1), (3, 2), (514, 2), (515, 2), (1026, 2), (1027, 1), (1028, 1)];
    let right = sizes.into_iter().all(|(page, level)| {
        pages.lookup(va + page * PAGE).is_some_and(|found| found.size.level() == level)
    });
    // The capability is the object's.
    frame.into_cap();
    pages.unmap(va, bytes)?;
    let right = right && pages.is_free(va, bytes) && base % LARGE == 0;
    right.then_some(()).ok_or(Error::NotAllowed)
}

fn reserved(_: &mut Lab) -> Outcome {
    let object = Object::new(Reserved::new(16 * PAGE));
    let region = good!(memory::map(&object, Map::default()));
    let at = region.start() + 3 * PAGE;
    check!(load(at) == Err(absent(at, Access::Read, Error::NoPage)));
    let frame = good!(Frame::new(2 * PAGE));
    let map =
        |va| memory::pages(|pages| pages.map(va, frame.cap(), 0, 2 * PAGE, RW, PageSize::Base));
    good!(map(at));
    check!(map(at + PAGE) == Err(Error::Occupied));
    check!(store(at + PAGE, 4) == Ok(()) && load(at + PAGE) == Ok(4));
    good!(region.unmap(3 * PAGE, PAGE));
    check!(load(at) == Err(absent(at, Access::Read, Error::NotMapped)));
    check!(load(at + PAGE) == Ok(4));
    drop(region);
    check!(load(at + PAGE) == Err(absent(at + PAGE, Access::Read, Error::NotMapped)));
    Ok(())
}
