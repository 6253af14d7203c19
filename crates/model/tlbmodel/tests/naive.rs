//! The models against naive ones that keep times of use and search everything.

use fastrand::Rng;
use std::collections::HashMap;
use tlbmodel::lru::{Geometry, SetAssociative};
use tlbmodel::machines::{IVY_BRIDGE, PILEDRIVER};
use tlbmodel::tlb::{Counts, Description, Level, Model, PageSize};

/// Every key ever seen, with the time of its last use: present if fewer than `ways` keys of its set
/// were used since.
#[derive(Default)]
struct Naive {
    last_use: HashMap<(u64, u64), u64>,
    now: u64,
}

impl Naive {
    fn access(&mut self, set: u64, key: u64, ways: usize) -> bool {
        self.now += 1;
        let present = self.last_use.get(&(set, key)).is_some_and(|&then| {
            let since = |(&(other, _), &time): (&(u64, u64), &u64)| other == set && time > then;
            self.last_use.iter().filter(|&entry| since(entry)).count() < ways
        });
        self.last_use.insert((set, key), self.now);
        present
    }
}

#[test]
fn set_associative() {
    for (seed, geometry) in [
        (1, Geometry::new(16, 4)),
        (2, Geometry::full(8)),
        (3, Geometry::new(12, 2)),
        (4, Geometry::new(5, 1)),
    ] {
        let mut random = Rng::with_seed(seed);
        let mut model = SetAssociative::new(geometry);
        let mut naive = Naive::default();
        let sets = (geometry.entries / geometry.ways) as u64;
        let mut hits = 0;
        for step in 0..5000 {
            let key = random.u64(..) % (geometry.entries as u64 * 2);
            let expected = naive.access(key % sets, key, geometry.ways);
            assert_eq!(model.access(key), expected, "seed {seed}, step {step}, key {key}");
            hits += u32::from(expected);
        }
        assert!((500..4500).contains(&hits), "seed {seed}: {hits} hits");
    }
}

/// A naive [`Model`]: each buffer a [`Naive`].
struct NaiveModel<'a> {
    description: &'a Description,
    levels: [HashMap<usize, Naive>; 2],
    walk: [Naive; 3],
    counts: Counts,
}

impl<'a> NaiveModel<'a> {
    fn new(description: &'a Description) -> Self {
        NaiveModel {
            description,
            levels: Default::default(),
            walk: Default::default(),
            counts: Counts::default(),
        }
    }

    fn lookup(&mut self, which: usize, page: u64, size: PageSize) -> bool {
        let level = [self.description.first, self.description.second][which];
        let buffers = &mut self.levels[which];
        match level {
            Level::Split(sizes) => match sizes[size as usize] {
                None => false,
                Some(g) => {
                    let sets = (g.entries / g.ways) as u64;
                    buffers.entry(size as usize).or_default().access(page % sets, page, g.ways)
                }
            },
            Level::Unified(g) => {
                let sets = (g.entries / g.ways) as u64;
                let key = page * 3 + size as u64;
                buffers.entry(9).or_default().access(page % sets, key, g.ways)
            }
        }
    }

    fn access(&mut self, va: u64, size: PageSize) {
        self.counts.accesses += 1;
        let page = va / size.bytes();
        if self.lookup(0, page, size) {
            return;
        }
        self.counts.first_misses += 1;
        if self.lookup(1, page, size) {
            return;
        }
        self.counts.walks += 1;
        let levels = size.levels();
        self.counts.references_uncached += levels;
        let caches = self.description.walk_caches.unwrap();
        let sizes = [caches.pde, caches.pdpte, caches.pml4e];
        // From the entry that points to the table with the page's entry, upwards.
        let mut read = levels;
        for above in 1..levels {
            let cache = (size as u64 + above - 1) as usize;
            let bytes = [PageSize::Mib2.bytes(), PageSize::Gib1.bytes(), 512 << 30][cache];
            if self.walk[cache].access(0, va / bytes, sizes[cache]) {
                read = above;
                break;
            }
        }
        self.counts.references += read;
    }
}

#[test]
fn translation() {
    for description in [IVY_BRIDGE, PILEDRIVER] {
        for seed in 1..4 {
            let mut random = Rng::with_seed(seed);
            let mut model = Model::new(&description);
            let mut naive = NaiveModel::new(&description);
            for step in 0..20_000 {
                let size = PageSize::ALL[(random.u64(..) % 3) as usize];
                // Some locality, and enough distance to miss everywhere; each size in its own part.
                let spread = if step % 4 == 0 { 1 << 40 } else { size.bytes() * 60 };
                let va = ((size as u64) << 45) | (random.u64(..) % spread);
                model.access(va, size);
                naive.access(va, size);
                assert_eq!(model.counts(), naive.counts, "{} step {step}", description.name);
            }
            let counts = model.counts();
            assert!(counts.walks > 1000 && counts.walks < counts.first_misses);
            assert!(counts.references < counts.references_uncached);
        }
    }
}

/// A table within the reach of a TLB is missed once per page; beyond, more and more.
#[test]
fn coverage() {
    let sweep = |size: PageSize, pages: u64| {
        let mut model = Model::new(&IVY_BRIDGE);
        for _ in 0..4 {
            (0..pages).for_each(|page| model.access(page * size.bytes(), size));
        }
        model.counts().walks
    };
    assert_eq!(sweep(PageSize::Kib4, 512), 512);
    assert_eq!(sweep(PageSize::Kib4, 1024), 4096);
    assert_eq!(sweep(PageSize::Mib2, 32), 32);
    assert_eq!(sweep(PageSize::Mib2, 64), 256);
    assert_eq!(sweep(PageSize::Gib1, 4), 4);
    assert_eq!(sweep(PageSize::Gib1, 8), 32);
}
