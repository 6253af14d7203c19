//! A set-associative memory of keys: the least recently used of a set makes room.

/// Entries and ways. Fully associative: as many ways as entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    pub entries: usize,
    pub ways: usize,
}

impl Geometry {
    /// `entries` in sets of `ways`.
    pub const fn new(entries: usize, ways: usize) -> Self {
        assert!(ways > 0 && entries.is_multiple_of(ways));
        Geometry { entries, ways }
    }

    /// One set.
    pub const fn full(entries: usize) -> Self {
        Geometry::new(entries, entries)
    }
}

const EMPTY: u64 = u64::MAX;

/// The memory. Keys are below `u64::MAX`; their low part chooses the set.
#[derive(Clone, Debug)]
pub struct SetAssociative {
    sets: u64,
    ways: usize,
    /// By set, most recently used first.
    keys: Vec<u64>,
}

impl SetAssociative {
    /// Empty.
    pub fn new(geometry: Geometry) -> Self {
        let Geometry { entries, ways } = geometry;
        SetAssociative { sets: (entries / ways) as u64, ways, keys: vec![EMPTY; entries] }
    }

    /// Looks `key` up, puts it there if it is missing, and makes it the most recently used of its
    /// set. Was it there?
    #[inline]
    pub fn access(&mut self, key: u64) -> bool {
        self.access_in(key % self.sets, key)
    }

    /// The same with the set named.
    #[inline]
    pub fn access_in(&mut self, set: u64, key: u64) -> bool {
        let start = set as usize * self.ways;
        let set = &mut self.keys[start..start + self.ways];
        let found = set.iter().position(|&present| present == key);
        let end = found.unwrap_or(set.len() - 1);
        set.copy_within(..end, 1);
        set[0] = key;
        found.is_some()
    }

    /// How many sets there are.
    #[inline]
    pub fn sets(&self) -> u64 {
        self.sets
    }
}
