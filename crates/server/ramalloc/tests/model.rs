//! The allocator against a naive model: one flag for every page.

use fastrand::Rng;
use ramalloc::{AllocError, Buddy, FreeError, Grant, Pool, Request, PAGE};

struct Model {
    base: u64,
    free: Vec<bool>,
}

impl Model {
    fn set(&mut self, address: u64, bytes: u64, value: bool) {
        let first = ((address - self.base) / PAGE) as usize;
        for page in &mut self.free[first..first + (bytes / PAGE) as usize] {
            assert_ne!(*page, value, "page changes state");
            *page = value;
        }
    }

    fn is_free(&self, address: u64, bytes: u64) -> bool {
        let first = ((address - self.base) / PAGE) as usize;
        self.free[first..first + (bytes / PAGE) as usize].iter().all(|&free| free)
    }

    fn free_bytes(&self) -> u64 {
        self.free.iter().filter(|&&free| free).count() as u64 * PAGE
    }

    /// Bytes of the largest block of 2^k free pages at a multiple of its size.
    fn largest(&self) -> u64 {
        let end = self.base + self.free.len() as u64 * PAGE;
        (0..=18)
            .rev()
            .map(|k| PAGE << k)
            .find(|&size| {
                let first = self.base.next_multiple_of(size);
                (first..)
                    .step_by(size as usize)
                    .take_while(|a| a + size <= end)
                    .any(|a| self.is_free(a, size))
            })
            .unwrap_or(0)
    }
}

fn run(seed: u64, base: u64, pages: u64, steps: u32) {
    let bytes = pages * PAGE;
    let mut random = Rng::with_seed(seed);
    let mut words = vec![0; Buddy::words_needed(base, bytes)];
    let mut buddy = Buddy::new(base, bytes, &mut words);
    let mut model = Model { base, free: vec![false; pages as usize] };
    assert_eq!(buddy.alloc(PAGE, PAGE), None);
    buddy.free(base, bytes).unwrap();
    model.set(base, bytes, true);
    let mut held: Vec<(u64, u64)> = Vec::new();
    for _ in 0..steps {
        if random.u64(..2) == 0 || held.is_empty() {
            let bits = random.u64(..pages.ilog2() as u64 + 1);
            let size = (1 + random.u64(..1 << bits)) * PAGE;
            let alignment = PAGE << random.u64(..10);
            match buddy.alloc(size, alignment) {
                Some(address) => {
                    assert_eq!(address % alignment, 0, "seed {seed}");
                    model.set(address, size, false);
                    held.push((address, size));
                }
                None => {
                    let block = size.next_power_of_two().max(alignment);
                    assert!(model.largest() < block, "seed {seed}: refuses {size:#x}");
                }
            }
        } else {
            // Give back a part, as the kernel does: not what was handed out, but what became free.
            let (address, size) = held.swap_remove(random.usize(..held.len()));
            let first = random.u64(..size / PAGE) * PAGE;
            let count = (1 + random.u64(..(size - first) / PAGE)) * PAGE;
            buddy.free(address + first, count).unwrap();
            assert_eq!(buddy.free(address + first, count), Err(FreeError::AlreadyFree));
            model.set(address + first, count, true);
            let behind = first + count;
            held.extend((first > 0).then_some((address, first)));
            held.extend((behind < size).then_some((address + behind, size - behind)));
        }
        assert_eq!(buddy.free_bytes(), model.free_bytes(), "seed {seed}");
        assert_eq!(buddy.largest(), model.largest(), "seed {seed}");
    }
    for (address, size) in held {
        buddy.free(address, size).unwrap();
    }
    assert_eq!(buddy.free_bytes(), bytes);
    assert_eq!(buddy.free(base, PAGE), Err(FreeError::AlreadyFree));
}

#[test]
fn agrees_with_the_model() {
    for seed in 1..60 {
        let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let bits = random.u64(..12);
        let pages = 1 + random.u64(..1 << bits);
        let base = random.u64(..1 << 20) * PAGE;
        run(seed, base, pages, 400);
    }
}

#[test]
fn free_outside_is_refused() {
    let (base, bytes) = (0x10_3000, 0x40_0000);
    let mut words = vec![0; Buddy::words_needed(base, bytes)];
    let mut buddy = Buddy::new(base, bytes, &mut words);
    for (address, size) in [
        (base - PAGE, PAGE),
        (base + bytes, PAGE),
        (base, bytes + PAGE),
        (base + 1, PAGE),
        (base, 1),
        (0, PAGE),
        (u64::MAX - PAGE + 1, PAGE),
        (base, u64::MAX - PAGE + 1),
    ] {
        assert_eq!(buddy.free(address, size), Err(FreeError::OutOfRange), "{address:#x} {size:#x}");
    }
    assert_eq!(buddy.free_bytes(), 0);
}

fn request(bytes: u64, trusted: bool) -> Request {
    Request { bytes, alignment: 0, attrs: 0, trusted }
}

#[test]
fn the_reserve_is_for_the_trusted() {
    let bytes = 64 << 20;
    let mut words = vec![0; Buddy::words_needed(0, bytes)];
    let mut pool = Pool::new();
    assert_eq!(pool.add(0, bytes, 0, &mut words), Some(0));
    pool.free(0, bytes).unwrap();
    let mut taken = 0;
    while pool.alloc(request(PAGE, false)).is_ok() {
        taken += PAGE;
    }
    assert_eq!(taken, bytes - pool.reserve());
    assert_eq!(pool.alloc(request(PAGE, false)), Err(AllocError::NoMemory));
    for _ in 0..pool.reserve() / PAGE {
        pool.alloc(request(PAGE, true)).unwrap();
    }
    assert_eq!(pool.alloc(request(PAGE, true)), Err(AllocError::NoMemory));
    assert_eq!(pool.usage().free, 0);
}

#[test]
fn attributes_choose_the_range() {
    let bytes = 8 << 20;
    let bases = [0, 1 << 30, 2 << 30];
    let home = captypes::RamAttrs::HOME.0;
    let persistent = captypes::RamAttrs::PERSISTENT.0;
    let attrs = [home, home | 1, home | persistent];
    let mut words = [(); 3].map(|()| vec![0; Buddy::words_needed(1 << 30, bytes)]);
    let mut pool = Pool::new();
    for ((base, attrs), words) in bases.into_iter().zip(attrs).zip(&mut words) {
        pool.add(base, bytes, attrs, words).unwrap();
        pool.free(base, bytes).unwrap();
    }
    let mut ask = |attrs, bytes| {
        let request = Request { bytes, alignment: 0, attrs, trusted: true };
        pool.alloc(request).map(|grant| grant.range)
    };
    assert_eq!(ask(1, PAGE), Ok(1));
    assert_eq!(ask(persistent, PAGE), Ok(2));
    assert_eq!(ask(1, 4 << 20), Ok(1));
    // Node 1 has no such block any more, node 0 has.
    assert_eq!(ask(1, 8 << 20), Ok(0));
    // Ordinary memory never stands in for persistent memory.
    assert_eq!(ask(persistent, 8 << 20), Err(AllocError::NoMemory));
    assert_eq!(ask(0, 100), Err(AllocError::Invalid));
}

#[test]
fn what_comes_back_may_lie_in_two_ranges() {
    let bytes = 1 << 20;
    let mut words = [(); 3].map(|()| vec![0; Buddy::words_needed(0, 4 * bytes)]);
    let mut pool = Pool::new();
    // The third does not meet the second.
    for ((base, node), words) in [(0, 0), (bytes, 1), (3 * bytes, 2)].into_iter().zip(&mut words) {
        pool.add(base, bytes, node, words).unwrap();
    }
    pool.free(bytes / 2, bytes).unwrap();
    assert_eq!(pool.usage().free, bytes);
    assert_eq!(pool.free(0, bytes), Err(FreeError::AlreadyFree));
    let take = |pool: &mut Pool, attrs| {
        pool.alloc(Request { bytes: bytes / 2, alignment: 0, attrs, trusted: true })
    };
    assert_eq!(take(&mut pool, 1), Ok(Grant { range: 1, offset: 0 }));
    assert_eq!(take(&mut pool, 0), Ok(Grant { range: 0, offset: bytes / 2 }));
    assert_eq!(pool.free(bytes / 2, 2 * bytes), Err(FreeError::OutOfRange));
}

#[test]
fn a_terabyte_needs_little() {
    let words = Buddy::words_needed(0x1_0000_0000, 1 << 40);
    assert!((words as u64 * 8) < (1 << 40) / 10_000, "{words}");
}

/// Pages of all colours until there are none of one, given back in another order.
#[test]
fn coloured_pages() {
    for (seed, count) in [(1, 1), (2, 2), (3, 8), (4, 64)] {
        let (base, pages) = (0x12_3000, 1000);
        let mut words = vec![0; Buddy::words_needed(base, pages * PAGE)];
        let mut pool = Pool::new();
        pool.add(base, pages * PAGE, 0, &mut words).unwrap();
        pool.free(base, pages * PAGE).unwrap();
        let request = Request { bytes: PAGE, alignment: 0, attrs: 0, trusted: true };
        let colour = |address: u64| address / PAGE % count;
        let mut random = Rng::with_seed(seed);
        let mut model = Model { base, free: vec![true; pages as usize] };
        let mut taken = Vec::new();
        for _ in 0..5000 {
            if random.u64(..3) == 0 && !taken.is_empty() {
                let address = taken.swap_remove(random.usize(..taken.len()));
                pool.free(address, PAGE).unwrap();
                model.set(address, PAGE, true);
                continue;
            }
            // Mostly of few colours, so that these run out.
            let wanted = 1 << random.u64(..count.min(2)) | 1 << random.u64(..count);
            let fits = |page: &u64| {
                wanted >> colour(base + page * PAGE) & 1 != 0 && model.free[*page as usize]
            };
            match pool.alloc_coloured(request, count, wanted) {
                Ok(grant) => {
                    let address = base + grant.offset;
                    assert!(wanted >> colour(address) & 1 != 0, "of a wanted colour");
                    model.set(address, PAGE, false);
                    taken.push(address);
                }
                Err(error) => {
                    assert_eq!(error, AllocError::NoMemory);
                    assert!(!(0..pages).any(|page| fits(&page)), "there was one");
                }
            }
            assert_eq!(pool.usage().free, model.free_bytes());
        }
        for (count, wanted) in [(0, 1), (3, 1), (128, 1), (4, 0), (4, 16)] {
            let refused = pool.alloc_coloured(request, count, wanted);
            assert_eq!(refused, Err(AllocError::Invalid));
        }
        taken.into_iter().for_each(|address| pool.free(address, PAGE).unwrap());
        assert_eq!(pool.usage().free, pages * PAGE);
        assert_eq!(pool.alloc(Request { bytes: 512 * PAGE, ..request }).map(|_| ()), Ok(()));
    }
}
