//! A last-level cache, addressed physically.
//!
//! Current processors divide it into slices, chosen by a hash of the whole address that vendors do not
//! publish (here: one that is even over any contiguous range); the set within the slice is chosen by
//! address bits, of which those above the offset in a page are the page's *colour*. Pages of different
//! colours never share a set, whatever the hash is.

use crate::lru::{Geometry, SetAssociative};
use paging::PAGE;

/// Sizes of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Description {
    pub slices: u64,
    /// Sets of one slice, a power of two.
    pub sets: u64,
    pub ways: usize,
    /// Bytes of a line.
    pub line: u64,
}

impl Description {
    /// Bytes.
    pub const fn bytes(&self) -> u64 {
        self.slices * self.sets * self.ways as u64 * self.line
    }

    /// How many colours pages of 4 KiB have.
    pub const fn colours(&self) -> u64 {
        self.sets * self.line / PAGE
    }
}

/// Hits and misses of one client of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub accesses: u64,
    pub misses: u64,
}

impl Counts {
    /// Misses for each access.
    pub fn miss_rate(&self) -> f64 {
        self.misses as f64 / self.accesses.max(1) as f64
    }
}

/// The cache at work.
pub struct Cache {
    description: Description,
    lines: SetAssociative,
}

impl Cache {
    /// Empty.
    pub fn new(description: &Description) -> Self {
        let entries = (description.slices * description.sets) as usize * description.ways;
        let lines = SetAssociative::new(Geometry::new(entries, description.ways));
        Cache { description: *description, lines }
    }

    /// Reads or writes at physical address `pa` for a client.
    #[inline]
    pub fn access(&mut self, pa: u64, client: &mut Counts) {
        let line = pa / self.description.line;
        let Description { slices, sets, .. } = self.description;
        // Lines that share set bits take the slices in turn, each set from another one on.
        let slice = (line / sets + line % sets) % slices;
        let set = slice * sets + line % sets;
        client.accesses += 1;
        client.misses += u64::from(!self.lines.access_in(set, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::IVY_BRIDGE_LLC;

    #[test]
    fn sizes() {
        assert_eq!(IVY_BRIDGE_LLC.bytes(), 25 << 20);
        assert_eq!(IVY_BRIDGE_LLC.colours(), 32);
    }

    /// What fits is missed once; what does not, in order, always.
    #[test]
    fn capacity() {
        for (bytes, again) in [(20 << 20, false), (64 << 20, true)] {
            let mut cache = Cache::new(&IVY_BRIDGE_LLC);
            let mut passes = [Counts::default(); 2];
            for pass in &mut passes {
                (0..bytes / 64).for_each(|line| cache.access(line * 64, pass));
            }
            assert_eq!(passes[0].misses, bytes / 64);
            let rate = passes[1].miss_rate();
            assert!(if again { rate > 0.99 } else { rate < 0.01 }, "{bytes}: {rate}");
        }
    }

    /// A client that fits in its colours keeps its lines whatever another does in other colours.
    #[test]
    fn colours_do_not_meet() {
        let colours = IVY_BRIDGE_LLC.colours();
        let mut cache = Cache::new(&IVY_BRIDGE_LLC);
        let page =
            |n: u64, first: u64, count: u64| (n / count * colours + first + n % count) * PAGE;
        let (mut small, mut large) = (Counts::default(), Counts::default());
        for round in 0..3 {
            // 8 MiB in half of the colours, which hold 12.5 MiB.
            for n in 0..2048 {
                (0..64).for_each(|line| cache.access(page(n, 0, 16) + line * 64, &mut small));
            }
            for n in 0..16384 {
                (0..64).for_each(|line| cache.access(page(n, 16, 16) + line * 64, &mut large));
            }
            assert!(small.misses < 2048 * 64 * 103 / 100, "round {round}: {}", small.misses);
        }
        assert!(large.miss_rate() > 0.9);
    }
}
