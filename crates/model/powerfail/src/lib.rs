//! A memory that remembers what may be missing in it after a power failure.
//!
//! A store is certain to survive when its line has been written back and a fence has followed. Of what came after, a line may
//! have lost any number of its last stores, independently of other lines: caches write lines back when they like, but
//! stores to one line become visible in order (Intel SDM vol. 3, 12.2; the model of persistent x86 by Raad et al., POPL 2020).
//!
//! ```text
//! line A   ████ s1 s2 s3          durable: with s1 and s2, if the write-back was between s2 and s3
//! line B   ████ s1                         after the fence
//!               ▲      ▲
//!          write back  fence  ◄── a failure point: A with 0, 1, 2 or 3 of its stores, B with 0 or 1: 8 images
//! ```
//!
//! What can be lost at any moment between two fences can be lost at the second one, too: it is enough to look there.
//! A page that is zeroed or copied counts as one store for each line.

#![forbid(unsafe_code)]

mod needed;
mod walk;

pub use needed::unneeded;
pub use walk::{wanted, Depth, Subject, Walk};

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::Arc;

/// Words of a page and of a line.
pub const PAGE: usize = 512;
pub const LINE: usize = 8;
/// Processors, whose fences are each for what they began to write back themselves.
pub const CORES: usize = 2;

/// Contents of memory. Pages that images have in common are stored once.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    pages: Vec<Arc<[u64; PAGE]>>,
    hash: u64,
}

impl Image {
    pub fn new(pages: usize) -> Image {
        let zeros = Arc::new([0; PAGE]);
        Image { pages: (0..pages).map(|_| zeros.clone()).collect(), hash: 0 }
    }
    pub fn pages(&self) -> usize {
        self.pages.len()
    }
    /// The same for the same contents, and for others hardly ever.
    pub fn hash(&self) -> u64 {
        self.hash
    }
    pub fn load(&self, page: u64, word: usize) -> u64 {
        self.pages[page as usize][word]
    }
    pub fn store(&mut self, page: u64, word: usize, value: u64) {
        let of = |value: u64| {
            let place = page * PAGE as u64 + word as u64;
            value.wrapping_mul(mixed(place)) ^ mixed(value ^ place.rotate_left(40))
        };
        let words = &mut self.pages[page as usize];
        let old = words[word];
        if old != value {
            Arc::make_mut(words)[word] = value;
            self.hash = self.hash.wrapping_sub(of(old)).wrapping_add(of(value));
        }
    }
    fn apply(&mut self, (page, line): LineOf, store: &Store) {
        match store {
            Store::Word(word, value) => self.store(page, line * LINE + word, *value),
            Store::Line(words) => {
                for (n, value) in words.iter().enumerate() {
                    self.store(page, line * LINE + n, *value);
                }
            }
        }
    }
}

/// SplitMix64's.
fn mixed(mut x: u64) -> u64 {
    x = (x.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Page and line in it.
type LineOf = (u64, usize);

#[derive(Clone)]
enum Store {
    Word(usize, u64),
    Line([u64; LINE]),
}

#[derive(Clone, Default)]
struct Pending {
    stores: Vec<Store>,
    /// How many of them the next fence of a core makes certain.
    written_back: [usize; CORES],
}

/// A place in the source that writes back or fences.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Site {
    pub file: &'static str,
    pub line: u32,
    pub is_fence: bool,
}

impl Site {
    #[track_caller]
    fn here(is_fence: bool) -> Site {
        let at = Location::caller();
        Site { file: at.file(), line: at.line(), is_fence }
    }
}

/// The memory.
#[derive(Clone)]
pub struct Recorder {
    now: Image,
    durable: Image,
    pending: BTreeMap<LineOf, Pending>,
    /// Failure points since they were taken last, if they are wanted.
    points: Option<Vec<Point>>,
    sites: BTreeSet<Site>,
    /// Who does what comes next.
    pub core: usize,
    /// The place whose write-backs or fences do nothing.
    pub muted: Option<Site>,
}

impl Recorder {
    pub fn new(image: Image) -> Recorder {
        let (now, durable) = (image.clone(), image);
        Recorder {
            now,
            durable,
            pending: BTreeMap::new(),
            points: None,
            sites: BTreeSet::new(),
            core: 0,
            muted: None,
        }
    }
    /// What the processors see.
    pub fn now(&self) -> &Image {
        &self.now
    }
    pub fn load(&self, page: u64, word: usize) -> u64 {
        self.now.load(page, word)
    }
    pub fn store(&mut self, page: u64, word: usize, value: u64) {
        self.now.store(page, word, value);
        self.add((page, word / LINE), Store::Word(word % LINE, value));
    }
    /// Stores a line at once, if that changes it.
    pub fn store_line(&mut self, page: u64, line: usize, words: [u64; LINE]) {
        if (0..LINE).any(|n| self.now.load(page, line * LINE + n) != words[n]) {
            let store = Store::Line(words);
            self.now.apply((page, line), &store);
            self.add((page, line), store);
        }
    }
    fn add(&mut self, line: LineOf, store: Store) {
        self.pending.entry(line).or_default().stores.push(store);
    }

    #[track_caller]
    pub fn write_back(&mut self, page: u64, line: usize) {
        let site = Site::here(false);
        self.sites.insert(site);
        if self.muted == Some(site) {
            return;
        }
        if let Some(pending) = self.pending.get_mut(&(page, line)) {
            pending.written_back[self.core] = pending.stores.len();
        }
    }

    #[track_caller]
    pub fn fence(&mut self) {
        let site = Site::here(true);
        self.sites.insert(site);
        if self.muted == Some(site) {
            return;
        }
        self.point();
        let (durable, core) = (&mut self.durable, self.core);
        self.pending.retain(|&line, pending| {
            let certain = pending.written_back[core];
            pending.stores.drain(..certain).for_each(|store| durable.apply(line, &store));
            for written_back in &mut pending.written_back {
                *written_back = written_back.saturating_sub(certain);
            }
            !pending.stores.is_empty()
        });
    }

    /// From now on, failure points are remembered.
    pub fn watch(&mut self) {
        self.points = Some(Vec::new());
    }
    /// Here the power may fail, too.
    pub fn point(&mut self) {
        if let Some(points) = &mut self.points {
            let pending = self.pending.iter().map(|(&line, p)| (line, p.stores.clone()));
            points.push(Point { durable: self.durable.clone(), pending: pending.collect() });
        }
    }
    /// The failure points since the last call.
    pub fn take_points(&mut self) -> Vec<Point> {
        self.points.as_mut().map(std::mem::take).unwrap_or_default()
    }
    /// All places that have written back or fenced.
    pub fn sites(&self) -> &BTreeSet<Site> {
        &self.sites
    }
}

/// A moment in which the power may fail.
#[derive(Clone)]
pub struct Point {
    durable: Image,
    pending: Vec<(LineOf, Vec<Store>)>,
}

impl Point {
    /// How many images may be found, if they are at most `most`.
    pub fn count(&self, most: usize) -> Option<usize> {
        self.pending.iter().try_fold(1usize, |product, (_, stores)| {
            product.checked_mul(stores.len() + 1).filter(|&product| product <= most)
        })
    }

    /// The images that may be found: all, if they are at most `most`; else none and all of the stores, each line
    /// alone and each line missing, and random ones up to `most`.
    pub fn images(&self, most: usize, random: &mut fastrand::Rng, mut visit: impl FnMut(Image)) {
        let lines = self.pending.len();
        if let Some(count) = self.count(most) {
            for number in 0..count {
                let mut rest = number;
                visit(self.image(|_, stores| {
                    let kept = rest % (stores + 1);
                    rest /= stores + 1;
                    kept
                }));
            }
            return;
        }
        visit(self.image(|_, _| 0));
        visit(self.image(|_, stores| stores));
        let single = (most / 4).min(lines);
        for n in 0..single {
            let line = if single == lines { n } else { random.usize(..lines) };
            visit(self.image(|at, stores| if at == line { stores } else { 0 }));
            visit(self.image(|at, stores| if at == line { 0 } else { stores }));
        }
        for _ in 2 * single + 2..most {
            visit(self.image(|_, stores| random.usize(..=stores)));
        }
    }

    /// The image in which each line has so many of its stores.
    fn image(&self, mut kept: impl FnMut(usize, usize) -> usize) -> Image {
        let mut image = self.durable.clone();
        for (n, (line, stores)) in self.pending.iter().enumerate() {
            let kept = kept(n, stores.len());
            stores[..kept].iter().for_each(|store| image.apply(*line, store));
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(point: &Point) -> BTreeSet<(u64, u64, u64)> {
        let mut found = BTreeSet::new();
        point.images(4096, &mut fastrand::Rng::with_seed(1), |image| {
            found.insert((image.load(0, 0), image.load(0, 1), image.load(1, 0)));
        });
        found
    }

    #[test]
    fn lines_lose_their_last_stores_independently() {
        let mut memory = Recorder::new(Image::new(2));
        memory.watch();
        memory.store(0, 0, 1);
        memory.store(0, 1, 2);
        memory.store(1, 0, 3);
        memory.fence();
        let point = &memory.take_points()[0];
        let expected = [(0, 0, 0), (1, 0, 0), (1, 2, 0), (0, 0, 3), (1, 0, 3), (1, 2, 3)];
        assert_eq!(found(point), BTreeSet::from(expected));
    }

    #[test]
    fn what_was_written_back_before_a_fence_is_certain_and_what_came_later_is_not() {
        let mut memory = Recorder::new(Image::new(2));
        memory.watch();
        memory.store(0, 0, 1);
        memory.write_back(0, 0);
        memory.store(0, 1, 2);
        memory.fence();
        memory.point();
        let points = memory.take_points();
        assert_eq!(found(&points[0]).len(), 3);
        assert_eq!(found(&points[1]), BTreeSet::from([(1, 0, 0), (1, 2, 0)]));
    }

    #[test]
    fn a_fence_is_for_what_its_core_has_written_back() {
        let mut memory = Recorder::new(Image::new(2));
        memory.watch();
        memory.store(0, 0, 1);
        memory.write_back(0, 0);
        memory.core = 1;
        memory.store(1, 0, 3);
        memory.write_back(1, 0);
        memory.fence();
        memory.point();
        let points = memory.take_points();
        assert_eq!(found(&points[1]), BTreeSet::from([(0, 0, 3), (1, 0, 3)]));
    }

    #[test]
    fn a_hash_is_of_the_contents_however_they_came() {
        let (mut one, mut other) = (Image::new(2), Image::new(2));
        one.store(0, 3, 7);
        one.store(1, 4, 8);
        other.store(1, 4, 9);
        other.store(0, 3, 7);
        assert_ne!(one.hash(), other.hash());
        other.store(1, 4, 8);
        assert_eq!(one.hash(), other.hash());
    }

    #[test]
    fn a_muted_place_does_nothing() {
        let mut memory = Recorder::new(Image::new(1));
        memory.watch();
        let once = |memory: &mut Recorder| {
            memory.store(0, 0, 1);
            memory.write_back(0, 0);
            memory.fence();
            memory.point();
            memory.take_points().last().and_then(|point| point.count(9))
        };
        assert_eq!(once(&mut memory), Some(1));
        for site in memory.sites().clone() {
            let mut memory = Recorder::new(Image::new(1));
            memory.watch();
            memory.muted = Some(site);
            assert_eq!(once(&mut memory), Some(2));
        }
    }
}
