//! Measuring on a machine that does other things meanwhile.

use fastrand::Rng;
use mdb_bench::database::Database;
use mdb_bench::measure::{measure, MEASUREMENTS};
use mdb_bench::ours::Ours;
use mdb_bench::workload::{capabilities, Operation};
use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// Removals after which the machine does something else for a while.
    static BUSY_AFTER: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// One that is kept from its work once, in the middle of a removal.
#[derive(Default)]
struct Interrupted<'a>(Ours<'a>);

impl<'a> Database<'a> for Interrupted<'a> {
    type Slot = <Ours<'a> as Database<'a>>::Slot;

    const NAME: &'static str = "interrupted";

    fn prepare(&mut self, bytes: u64) {
        self.0.prepare(bytes);
    }
    fn insert(&mut self, slot: &'a Self::Slot) {
        self.0.insert(slot);
    }
    fn remove(&mut self, slot: &'a Self::Slot) {
        let left = BUSY_AFTER.get();
        BUSY_AFTER.set(left.wrapping_sub(1));
        if left == 0 {
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(30) {}
        }
        self.0.remove(slot);
    }
    fn next(&self, slot: &'a Self::Slot) -> Option<&'a Self::Slot> {
        self.0.next(slot)
    }
    fn has_copies(&self, slot: &'a Self::Slot) -> bool {
        self.0.has_copies(slot)
    }
    fn has_ancestors(&self, slot: &'a Self::Slot) -> bool {
        self.0.has_ancestors(slot)
    }
    fn has_descendants(&self, slot: &'a Self::Slot) -> bool {
        self.0.has_descendants(slot)
    }
    fn overlapping(&self, base: u64, len: u64) -> Option<&'a Self::Slot> {
        self.0.overlapping(base, len)
    }
    fn is_sound(&self) -> bool {
        self.0.is_sound()
    }
}

#[test]
fn an_interruption_neither_ends_nor_shortens_the_measurements() {
    let mut numbers = Rng::with_seed(1);
    let caps = capabilities(1024, &mut numbers);
    // Before the first measurement 32 are removed, and 8 in each.
    for busy_after in [40, 200] {
        BUSY_AFTER.set(busy_after);
        let slots: Vec<_> = caps.iter().map(|_| Default::default()).collect();
        let samples = measure::<Interrupted>(&slots, &caps, &mut numbers);
        for operation in Operation::ALL {
            assert_eq!(samples.of(operation).len(), MEASUREMENTS, "{}", operation.title());
        }
    }
}
