//! Inodes by name, in a hash table that grows and shrinks in pieces.
//!
//! A table that doubles needs much memory at once just when there is most in it. This one consists of
//! small tables, of which it splits or joins one at a time (linear hashing, Litwin 1980). If there is no
//! memory for that, all goes on as it is, a little slower.

use crate::dir::Place;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use hashbrown::{DefaultHashBuilder, HashTable};

/// Most names for each part on average, and least.
const MOST: usize = 128;
const LEAST: usize = 32;

type Part = HashTable<(Rc<[u8]>, Place)>;

/// Names, each with its place.
pub struct Names {
    hasher: DefaultHashBuilder,
    /// The part for names until there are more than [`MOST`], then the first of all.
    first: Part,
    more: Vec<Part>,
    len: usize,
}

impl Names {
    pub fn new() -> Names {
        let hasher = DefaultHashBuilder::default();
        Names { hasher, first: Part::new(), more: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The part in which a hash belongs.
    #[inline]
    fn index(&self, hash: u64) -> usize {
        match self.more.len() {
            0 => 0,
            more => index_among(hash, more + 1),
        }
    }

    #[inline]
    fn part(&self, index: usize) -> &Part {
        match index {
            0 => &self.first,
            _ => &self.more[index - 1],
        }
    }

    #[inline]
    fn part_mut(&mut self, index: usize) -> &mut Part {
        match index {
            0 => &mut self.first,
            _ => &mut self.more[index - 1],
        }
    }

    pub fn get(&self, name: &[u8]) -> Option<Place> {
        let hash = self.hash(name);
        let found = self.part(self.index(hash)).find(hash, |(other, _)| **other == *name)?;
        Some(found.1)
    }

    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Place> {
        let hash = self.hash(name);
        let index = self.index(hash);
        let found = self.part_mut(index).find_mut(hash, |(other, _)| **other == *name)?;
        Some(&mut found.1)
    }

    /// Has room for one more name. `None`: there is no memory for that.
    pub fn prepare(&mut self, name: &[u8]) -> Option<()> {
        if self.len >= MOST * (self.more.len() + 1) {
            self.split();
        }
        let hasher = self.hasher;
        let index = self.index(self.hash(name));
        self.part_mut(index).try_reserve(1, |(name, _)| hasher.hash_one(&**name)).ok()
    }

    /// Adds a name that is not there. Nothing is allocated if [`Names::prepare`] has made room.
    pub fn insert(&mut self, name: Rc<[u8]>, place: Place) {
        let (hasher, hash) = (self.hasher, self.hash(&name));
        let index = self.index(hash);
        self.part_mut(index)
            .insert_unique(hash, (name, place), |(name, _)| hasher.hash_one(&**name));
        self.len += 1;
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Place> {
        let hash = self.hash(name);
        let index = self.index(hash);
        let found = self.part_mut(index).find_entry(hash, |(other, _)| **other == *name).ok()?;
        let ((_, place), _) = found.remove();
        self.len -= 1;
        if self.len == 0 {
            (self.first, self.more) = (Part::new(), Vec::new());
        } else if self.len < LEAST * self.more.len() {
            self.join();
        }
        Some(place)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Place)> {
        let parts = core::iter::once(&self.first).chain(&self.more);
        parts.flatten().map(|(name, place)| (&**name, *place))
    }

    /// Adds a part: what belongs there from now on moves.
    fn split(&mut self) -> Option<()> {
        let (hasher, count) = (self.hasher, self.more.len() + 1);
        let from = partner(count);
        let hash = |name: &Rc<[u8]>| hasher.hash_one(&**name);
        let moves = |name: &Rc<[u8]>| index_among(hash(name), count + 1) == count;
        let mut part = Part::new();
        let moving = self.part(from).iter().filter(|(name, _)| moves(name)).count();
        part.try_reserve(moving, |(name, _)| hash(name)).ok()?;
        self.more.try_reserve(1).ok()?;
        for entry in self.part_mut(from).extract_if(|(name, _)| moves(name)) {
            part.insert_unique(hash(&entry.0), entry, |(name, _)| hash(name));
        }
        self.more.push(part);
        Some(())
    }

    /// Takes the last part away: what is in it moves back.
    fn join(&mut self) -> Option<()> {
        let hasher = self.hasher;
        let hash = |name: &Rc<[u8]>| hasher.hash_one(&**name);
        let moving = self.more.last()?.len();
        let to = partner(self.more.len());
        self.part_mut(to).try_reserve(moving, |(name, _)| hash(name)).ok()?;
        for entry in self.more.pop()? {
            self.part_mut(to).insert_unique(hash(&entry.0), entry, |(name, _)| hash(name));
        }
        Some(())
    }
}

/// The part among `count` (at least 1) in which a hash belongs. The lowest bits and the highest seven
/// are what the part itself looks at.
#[inline]
fn index_among(hash: u64, count: usize) -> usize {
    let bits = (hash >> 32) as usize;
    let all = count.next_power_of_two();
    let index = bits & (all - 1);
    if index < count {
        index
    } else {
        index - all / 2
    }
}

/// The part that was split to make part `index` (at least 1).
fn partner(index: usize) -> usize {
    index - (1 << index.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Ino;
    use alloc::collections::BTreeMap;

    #[test]
    fn behaves_as_a_map_while_it_grows_and_shrinks() {
        let (mut names, mut model) = (Names::new(), BTreeMap::new());
        let (mut random, mut most) = (fastrand::Rng::with_seed(1), 0);
        for step in 0..60_000u32 {
            let key = random.u64(..6000);
            let name = key.to_le_bytes();
            assert_eq!(names.get(&name).map(|place| place.ino.0), model.get(&key).copied());
            if random.u32(..16) < if step / 15_000 % 2 == 0 { 12 } else { 3 } {
                if model.insert(key, step).is_some() {
                    names.get_mut(&name).unwrap().ino = Ino(step);
                } else {
                    names.prepare(&name).unwrap();
                    names.insert(name.as_slice().into(), Place { cookie: 0, ino: Ino(step) });
                }
            } else {
                let removed = names.remove(&name).map(|place| place.ino.0);
                assert_eq!(removed, model.remove(&key));
            }
            most = most.max(names.more.len());
            assert_eq!(names.len(), model.len());
        }
        assert!(most > 20, "{most}");
        let mut all: Vec<u64> = Vec::new();
        for (name, _) in names.iter() {
            all.push(u64::from_le_bytes(name.try_into().unwrap()));
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(model.keys().copied()));
        for key in model.keys() {
            names.remove(&key.to_le_bytes());
        }
        assert_eq!((names.len(), names.more.capacity()), (0, 0));
    }
}
