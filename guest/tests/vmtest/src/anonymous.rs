//! Demand-zero memory.

use crate::probe::{load, store, Unresolved};
use crate::setup::Lab;
use crate::Test;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use libos::memory::{self, Access, Anonymous, Error, Map, Object, PageSize, NONE};
use libos::vspace::{R, RW};
use libos::{log, thread, PAGE};
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[
    ("anonymous_zero_until_written", zero),
    ("anonymous_large_pages", large),
    ("anonymous_rights_of_parts", parts),
    ("anonymous_discard", discard),
    ("faults_and_threads", threads),
];

const LARGE: u64 = 2 << 20;

fn zero(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(Anonymous::new(1 << 30, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    let va = region.start();
    for page in [0, 1, 511, 512, 700, (1 << 18) - 1] {
        check!(load(va + page * PAGE) == Ok(0));
        check!(store(va + page * PAGE + 8, page + 1) == Ok(()));
    }
    for page in [0, 1, 511, 512, 700, (1 << 18) - 1] {
        check!(load(va + page * PAGE + 8) == Ok(page + 1));
    }
    check!(good!(object.with(|object| object.resident())) == 6 * PAGE);
    // A store is the first access as well.
    check!(store(va + 5 * PAGE, 5) == Ok(()));
    let (before, behind) = (va - 1, va + (1 << 30));
    let nothing = |address, access| {
        Err(Unresolved { address, access, present: false, error: Error::NotMapped })
    };
    check!(load(behind) == nothing(behind, Access::Read));
    check!(store(behind, 1).map(|()| 0) == nothing(behind, Access::Write));
    check!(load(before - 7).is_err());
    drop(region);
    check!(load(va) == nothing(va, Access::Read));
    Ok(())
}

fn large(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(Anonymous::new(4 * LARGE, PageSize::Large)));
    let region = good!(memory::map(&object, Map::default().size(PageSize::Large)));
    let va = region.start();
    check!(store(va + LARGE + 5000, 7) == Ok(()));
    let page = good!(memory::pages(|pages| Ok(pages.lookup(va + LARGE))));
    check!(page.is_some_and(|page| page.size == PageSize::Large && page.va == va + LARGE));
    // A second view, of small pages, sees the same.
    let small = good!(memory::map(&object, Map::default()));
    check!(load(small.start() + LARGE + 5000) == Ok(7));
    // Without write access in its middle, the large page becomes small ones.
    good!(region.protect(LARGE + 8 * PAGE, PAGE, R));
    check!(store(va + LARGE + 7 * PAGE, 1) == Ok(()));
    let address = va + LARGE + 8 * PAGE + 16;
    let refused =
        Unresolved { address, access: Access::Write, present: true, error: Error::NotAllowed };
    check!(store(address, 1) == Err(refused));
    check!(load(va + LARGE + 5000) == Ok(7));
    check!(good!(object.with(|object| object.resident())) == LARGE);
    Ok(())
}

fn parts(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(Anonymous::new(64 * PAGE, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    let va = region.start();
    for page in 0..64 {
        check!(store(va + page * PAGE, page) == Ok(()));
    }
    good!(region.protect(8 * PAGE, 16 * PAGE, R));
    good!(region.protect(12 * PAGE, 2 * PAGE, NONE));
    good!(region.unmap(40 * PAGE, 4 * PAGE));
    for page in 0..64 {
        let at = va + page * PAGE;
        let fault = |access, present, error| Unresolved { address: at, access, present, error };
        match page {
            12 | 13 => {
                check!(load(at) == Err(fault(Access::Read, false, Error::NotAllowed)));
                check!(store(at, 0) == Err(fault(Access::Write, false, Error::NotAllowed)));
            }
            8..24 => {
                check!(load(at) == Ok(page));
                check!(store(at, 0) == Err(fault(Access::Write, true, Error::NotAllowed)));
            }
            40..44 => check!(load(at) == Err(fault(Access::Read, false, Error::NotMapped))),
            _ => check!(load(at) == Ok(page) && store(at, page) == Ok(())),
        }
    }
    check!(region.protect(30 * PAGE, 20 * PAGE, R) == Err(Error::NotMapped));
    check!(region.protect(0, 65 * PAGE, R) == Err(Error::OutOfRange));
    check!(region.protect(1, PAGE, R) == Err(Error::Misaligned));
    good!(region.protect(8 * PAGE, 16 * PAGE, RW));
    check!(load(va + 12 * PAGE) == Ok(12) && store(va + 12 * PAGE, 1) == Ok(()));
    // Another object fits into the hole, and only one.
    let other = Object::new(good!(Anonymous::new(4 * PAGE, PageSize::Base)));
    check!(memory::map(&other, Map::default().at(va + 39 * PAGE)).is_err());
    let inner = good!(memory::map(&other, Map::default().at(va + 40 * PAGE)));
    check!(load(va + 40 * PAGE) == Ok(0));
    drop(region);
    check!(load(inner.start()).is_err());
    Ok(())
}

fn discard(_: &mut Lab) -> Outcome {
    let object = Object::new(good!(Anonymous::new(32 * PAGE, PageSize::Base)));
    let (a, b) =
        (good!(memory::map(&object, Map::default())), good!(memory::map(&object, Map::default())));
    for page in 0..32 {
        check!(store(a.start() + page * PAGE, page + 1) == Ok(()));
        check!(load(b.start() + page * PAGE) == Ok(page + 1));
    }
    good!(object.manage(|object, pages| object.discard(pages, 4 * PAGE, 8 * PAGE)));
    check!(good!(object.with(|object| object.resident())) == 24 * PAGE);
    for page in 0..32 {
        let expected = if (4..12).contains(&page) { 0 } else { page + 1 };
        check!(load(b.start() + page * PAGE) == Ok(expected));
        check!(load(a.start() + page * PAGE) == Ok(expected));
    }
    Ok(())
}

/// A thread that does nothing but fault is taken off the processor as any other: what the kernel
/// has to say while a fault is handled is heard afterwards.
fn threads(_: &mut Lab) -> Outcome {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicBool = AtomicBool::new(false);
    let object = Object::new(good!(Anonymous::new(64 * PAGE, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    let other = thread::spawn(|| {
        while !DONE.load(Ordering::Relaxed) {
            TURNS.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (mut faults, mut switches, mut seen) = (0u64, 0, 0);
    while switches < 5 && faults < 1 << 20 {
        for page in 0..64 {
            check!(store(region.start() + page * PAGE, page) == Ok(()));
        }
        faults += 64;
        good!(object.manage(|object, pages| object.discard(pages, 0, 64 * PAGE)));
        let turns = TURNS.load(Ordering::Relaxed);
        switches += u64::from(turns != seen);
        seen = turns;
    }
    DONE.store(true, Ordering::Relaxed);
    good!(other).join();
    log!("faults_and_threads: {switches} switches in {faults} faults");
    check!(switches == 5);
    Ok(())
}
