//! What a table does when there is no memory: it says so, and is what it was.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use tables::{Item, NoMemory, Numbers, Ranges, Sparse};

thread_local! {
    /// Allocations that still succeed.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

struct Scarce;

// SAFETY: the system's allocator, or null.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let left = LEFT.get();
        if left == 0 {
            return std::ptr::null_mut();
        }
        LEFT.set(left - 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static SCARCE: Scarce = Scarce;

/// Calls `f` while only `allocations` succeed.
fn with<R>(allocations: u64, f: impl FnOnce() -> R) -> R {
    LEFT.set(allocations);
    let result = f();
    LEFT.set(u64::MAX);
    result
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Span(u64, u64);

impl Item for Span {
    fn start(&self) -> u64 {
        self.0
    }
    fn end(&self) -> u64 {
        self.1
    }
}

/// The same numbers every time.
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(0x7e55e7a5);
    move |below| random.u64(..below)
}

#[test]
fn ranges() {
    let (mut random, mut failures) = (numbers(), 0);
    let (mut tree, mut list) = (Ranges::new(), BTreeMap::new());
    for _ in 0..40_000 {
        let start = random(30_000);
        if list.contains_key(&start) {
            let place = tree.seek(start);
            // Giving back needs no memory.
            with(0, || tree.remove(place));
            list.remove(&start);
            continue;
        }
        let left = random(4);
        match with(left, || tree.insert(Span(start, start + 1))) {
            Ok(_) => drop(list.insert(start, ())),
            Err(NoMemory) => failures += 1,
        }
        assert_eq!(tree.len(), list.len());
        let place = tree.seek(start);
        let expected = list.range(start..).next().map(|(start, ())| Span(*start, *start + 1));
        assert_eq!(tree.get(place).copied(), expected);
    }
    assert!(failures > 100, "only {failures} times without memory");
    assert!(tree.iter().map(|span| span.0).eq(list.keys().copied()));
}

#[test]
fn sparse() {
    let (mut random, mut failures) = (numbers(), 0);
    let (mut table, mut map) = (Sparse::<u64, 2>::new(), BTreeMap::new());
    for step in 0..40_000u64 {
        let key = random(20_000);
        if random(3) == 0 {
            assert_eq!(with(0, || table.remove(key)), map.remove(&key));
            continue;
        }
        let left = random(4);
        match with(left, || table.insert(key, step)) {
            Ok(()) => drop(map.insert(key, step)),
            Err(NoMemory) => failures += 1,
        }
        assert_eq!(table.get(key), map.get(&key));
    }
    assert!(failures > 100, "only {failures} times without memory");
    assert!(table.iter().eq(map.iter().map(|(key, value)| (*key, value))));
}

#[test]
fn numbers_in_use() {
    let (mut random, mut failures, mut set) = (numbers(), 0, Numbers::new());
    let mut expected = vec![false; 100_000];
    for _ in 0..40_000 {
        let number = random(100_000) as u32;
        let left = random(3);
        match with(left, || set.mark(number)) {
            Ok(()) => expected[number as usize] = true,
            Err(NoMemory) => failures += 1,
        }
        let freed = random(100_000) as u32;
        with(0, || set.free(freed));
        expected[freed as usize] = false;
    }
    assert!(failures > 5, "only {failures} times without memory");
    let all: Vec<u32> = (0..100_000).filter(|n| expected[*n as usize]).collect();
    assert!(set.iter().eq(all.iter().copied()));
    let free = expected.iter().position(|used| !used).unwrap() as u32;
    assert_eq!(set.next_free(0), free);
}
