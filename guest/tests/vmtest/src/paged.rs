//! Demand paging to a backing store.

use crate::probe::{load, store, Unresolved};
use crate::setup::Lab;
use crate::Test;
use libos::local::Local;
use libos::memory::{
    self, Access, Error, Map, Object, PageSize, Paged, PagedStats, RamDisk, Store,
};
use libos::selfpaging::{Clock, Fifo, Policy};
use libos::vspace::R;
use libos::{log, PAGE};

extern crate alloc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use testkit::{check, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("paged_fifo", fifo),
    ("paged_clock_knows_what_is_used", clock),
    ("paged_writes_what_changed", writes),
    ("paged_views_and_parts", views),
    ("paged_large_pages", large),
    ("paged_store_fails", failing_store),
    ("paged_random", random),
];

const LARGE: u64 = 2 << 20;

type Disk = Arc<Local<RamDisk>>;

/// A disk whose page `n` begins with `n + 1000`.
fn disk(pages: u64, unit: u64) -> Result<Disk, Error> {
    let mut disk = RamDisk::new(pages * unit)?;
    for page in 0..pages {
        let first = (page * unit) as usize;
        disk.contents()[first..first + 8].copy_from_slice(&(page + 1000).to_le_bytes());
    }
    Ok(Arc::new(Local::new(disk)))
}

fn on_disk(disk: &Disk, offset: u64) -> u64 {
    let word = |disk: &mut RamDisk| {
        let first = offset as usize;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&disk.contents()[first..first + 8]);
        u64::from_le_bytes(bytes)
    };
    disk.try_with(word).unwrap_or(0)
}

fn fifo(_: &mut Lab) -> Outcome {
    let disk = good!(disk(16, PAGE));
    let object = Object::new(good!(Paged::new(disk, Fifo::new(), 4, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    for page in 0..16 {
        check!(load(region.start() + page * PAGE) == Ok(page + 1000));
    }
    let stats = good!(object.with(|object| object.stats()));
    check!(stats == PagedStats { reads: 16, writes: 0, evictions: 12 });
    // The first in is the first out, however much it is used.
    for page in [12, 12, 12] {
        check!(load(region.start() + page * PAGE) == Ok(page + 1000));
    }
    check!(load(region.start()) == Ok(1000));
    let resident = |page| object.with(|object| object.is_resident(page));
    check!(!good!(resident(12)) && good!(resident(13)) && good!(resident(0)));
    Ok(())
}

/// Pages that are used between all others stay with one policy and go with the other.
fn clock(_: &mut Lab) -> Outcome {
    let by_fifo = good!(hot_and_cold(Fifo::new()));
    let by_clock = good!(hot_and_cold(Clock::new()));
    log!("paged_clock: {by_fifo} reads by FIFO, {by_clock} by clock");
    // 60 cold pages once and 4 hot ones again and again, in 8 places.
    check!(by_fifo >= 60 + 4 * 60 / 8);
    check!(by_clock >= 64 && by_clock < by_fifo);
    Ok(())
}

fn hot_and_cold(policy: impl Policy + 'static) -> Result<u64, Error> {
    let disk = disk(64, PAGE)?;
    let object = Object::new(Paged::new(disk, policy, 8, PageSize::Base)?);
    let region = memory::map(&object, Map::default())?;
    for cold in 4..64 {
        for page in [0, 1, 2, 3, cold] {
            if load(region.start() + page * PAGE) != Ok(page + 1000) {
                return Err(Error::NoPage);
            }
        }
    }
    object.with(|object| object.stats().reads)
}

fn writes(_: &mut Lab) -> Outcome {
    let disk = good!(disk(8, PAGE));
    let object = Object::new(good!(Paged::new(disk.clone(), Fifo::new(), 2, PageSize::Base)));
    let region = good!(memory::map(&object, Map::default()));
    let at = |page: u64| region.start() + page * PAGE;
    let stats = || object.with(|object| object.stats());
    check!(store(at(0) + 8, 5) == Ok(()) && load(at(1)) == Ok(1001));
    check!(on_disk(&disk, 8) == 0);
    check!(load(at(2)) == Ok(1002) && load(at(3)) == Ok(1003));
    // Of the two that had to go, one was changed.
    check!(on_disk(&disk, 8) == 5 && good!(stats()).writes == 1);
    check!(load(at(0) + 8) == Ok(5) && load(at(1)) == Ok(1001));
    check!(good!(stats()).writes == 1);
    // Written by a flush, and not again unless it is changed again.
    check!(store(at(1) + 8, 6) == Ok(()));
    good!(object.manage(|object, pages| object.flush(pages)));
    check!(on_disk(&disk, PAGE + 8) == 6 && good!(stats()).writes == 2);
    good!(object.manage(|object, pages| object.flush(pages)));
    check!(good!(stats()).writes == 2);
    check!(store(at(1) + 8, 7) == Ok(()));
    good!(object.manage(|object, pages| object.flush(pages)));
    check!(on_disk(&disk, PAGE + 8) == 7 && good!(stats()).writes == 3);
    // The end writes the rest.
    check!(store(at(7), 8) == Ok(()));
    drop(region);
    drop(object);
    check!(on_disk(&disk, 7 * PAGE) == 8);
    Ok(())
}

/// Changes through any view, and views that go or lose their rights, are not forgotten.
fn views(_: &mut Lab) -> Outcome {
    let disk = good!(disk(8, PAGE));
    let object = Object::new(good!(Paged::new(disk.clone(), Clock::new(), 3, PageSize::Base)));
    let a = good!(memory::map(&object, Map::default()));
    let b = good!(memory::map(&object, Map::default().part(4 * PAGE, 4 * PAGE)));
    check!(store(b.start() + PAGE, 50) == Ok(()));
    check!(load(a.start() + 5 * PAGE) == Ok(50));
    good!(b.protect(0, 4 * PAGE, R));
    let at = b.start() + PAGE;
    let refused =
        Unresolved { address: at, access: Access::Write, present: true, error: Error::NotAllowed };
    check!(store(at, 1) == Err(refused));
    drop(b);
    for page in [0, 1, 2, 3] {
        check!(load(a.start() + page * PAGE) == Ok(page + 1000));
    }
    check!(on_disk(&disk, 5 * PAGE) == 50);
    check!(store(a.start() + 6 * PAGE, 60) == Ok(()));
    good!(a.protect(6 * PAGE, PAGE, memory::NONE));
    good!(object.manage(|object, pages| object.flush(pages)));
    check!(on_disk(&disk, 6 * PAGE) == 60);
    good!(a.protect(6 * PAGE, PAGE, R));
    check!(load(a.start() + 6 * PAGE) == Ok(60));
    Ok(())
}

fn large(_: &mut Lab) -> Outcome {
    let disk = good!(disk(4, LARGE));
    let object = Object::new(good!(Paged::new(disk.clone(), Clock::new(), 2, PageSize::Large)));
    let region = good!(memory::map(&object, Map::default().size(PageSize::Large)));
    let small = good!(memory::map(&object, Map::default()));
    for page in 0..4 {
        check!(load(region.start() + page * LARGE) == Ok(page + 1000));
        check!(store(region.start() + page * LARGE + 5 * PAGE, page) == Ok(()));
        check!(load(small.start() + page * LARGE + 5 * PAGE) == Ok(page));
    }
    // A large page that is taken apart while it is dirty stays known as dirty.
    check!(store(region.start() + 3 * LARGE + 9 * PAGE, 99) == Ok(()));
    good!(region.protect(3 * LARGE + PAGE, PAGE, R));
    check!(load(region.start()) == Ok(1000) && load(region.start() + LARGE) == Ok(1001));
    for page in 0..4 {
        check!(on_disk(&disk, page * LARGE + 5 * PAGE) == page);
    }
    check!(on_disk(&disk, 3 * LARGE + 9 * PAGE) == 99);
    check!(good!(object.with(|object| object.stats())).evictions == 4);
    Ok(())
}

/// Fails where it is told to.
struct Broken {
    disk: Disk,
    page: u64,
    write: bool,
}

impl Store for Broken {
    fn bytes(&self) -> u64 {
        self.disk.bytes()
    }
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        if offset / PAGE == self.page && !self.write {
            return Err(Error::Store);
        }
        self.disk.read(offset, into)
    }
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        if offset / PAGE == self.page && self.write {
            return Err(Error::Store);
        }
        self.disk.write(offset, from)
    }
}

fn failing_store(_: &mut Lab) -> Outcome {
    let disk = good!(disk(8, PAGE));
    for write in [false, true] {
        let broken = Broken { disk: disk.clone(), page: 2, write };
        let object = Object::new(good!(Paged::new(broken, Fifo::new(), 2, PageSize::Base)));
        let region = good!(memory::map(&object, Map::default()));
        let at = |page: u64| region.start() + page * PAGE;
        let failed = |address, access| {
            Err(Unresolved { address, access, present: false, error: Error::Store })
        };
        if write {
            check!(store(at(2) + 8, 3) == Ok(()) && load(at(1)) == Ok(1001));
            // The changed page has to go and cannot: it is not lost.
            check!(load(at(0)) == failed(at(0), Access::Read));
            check!(load(at(2) + 8) == Ok(3));
        } else {
            check!(load(at(2)) == failed(at(2), Access::Read));
            check!(load(at(1)) == Ok(1001) && load(at(3)) == Ok(1003));
            check!(load(at(2)) == failed(at(2), Access::Read));
            check!(load(at(4)) == Ok(1004));
        }
    }
    Ok(())
}

/// Loads and stores all over an object that is much larger than its pool, against an array.
fn random(lab: &mut Lab) -> Outcome {
    log!("paged_random: seed {:#x}", lab.seed);
    good!(random_with(lab, Fifo::new(), 1));
    good!(random_with(lab, Clock::new(), 2));
    Ok(())
}

fn random_with(lab: &Lab, policy: impl Policy + 'static, salt: u64) -> Result<(), Error> {
    const PAGES: u64 = 200;
    let mut random = Rng::with_seed(lab.seed.wrapping_mul(2 * salt + 1));
    let disk = disk(PAGES, PAGE)?;
    let mut model: Vec<u64> = (0..PAGES).map(|page| page + 1000).collect();
    let object = Object::new(Paged::new(disk.clone(), policy, 17, PageSize::Base)?);
    let (a, b) = (memory::map(&object, Map::default())?, memory::map(&object, Map::default())?);
    for round in 0..lab.rounds {
        // Some pages are used more than others.
        let page = random.u64(..PAGES).min(random.u64(..PAGES));
        let at = if random.u64(..2) == 0 { &a } else { &b }.start() + page * PAGE;
        let right = if random.u64(..3) == 0 {
            model[page as usize] = round;
            store(at, round) == Ok(())
        } else {
            load(at) == Ok(model[page as usize])
        };
        if !right {
            log!("round {round}: page {page} is not {}", model[page as usize]);
            return Err(Error::NoPage);
        }
        if random.u64(..1000) == 0 {
            object.manage(|object, pages| object.flush(pages))?;
            let differs = |page: &u64| on_disk(&disk, page * PAGE) != model[*page as usize];
            if let Some(page) = (0..PAGES).find(differs) {
                log!("round {round}: page {page} on disk is not {}", model[page as usize]);
                return Err(Error::Store);
            }
        }
    }
    log!("paged_random: {:?}", object.with(|object| object.stats())?);
    drop((a, b));
    drop(object);
    let same = (0..PAGES).all(|page| on_disk(&disk, page * PAGE) == model[page as usize]);
    same.then_some(()).ok_or(Error::Store)
}
