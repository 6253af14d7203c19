//! The pages that a pager keeps in memory, no more than it has places for, and which goes when another one comes.

use crate::{OutOfMemory, Policy};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Which pages are in memory. It knows nothing of memory itself: who has it moves the pages.
///
/// Places are filled in their order first; later a page comes into the place of the one that goes for it.
pub struct Kept {
    policy: Box<dyn Policy>,
    /// The page in each place that was ever filled.
    pages: Vec<u64>,
    /// The same, as pages and places in the order of pages.
    sorted: Vec<(u64, u32)>,
    places: u32,
}

impl Kept {
    /// None yet, and at most `places`, of which there must be one at least.
    ///
    /// # Errors
    ///
    /// There is no memory to note so many.
    pub fn new(mut policy: Box<dyn Policy>, places: u32) -> Result<Self, OutOfMemory> {
        let (mut pages, mut sorted) = (Vec::new(), Vec::new());
        pages.try_reserve_exact(places as usize)?;
        sorted.try_reserve_exact(places as usize)?;
        policy.prepare(places)?;
        Ok(Kept { policy, pages, sorted, places })
    }

    /// Is a page in memory, as far as was said here?
    pub fn has(&self, page: u64) -> bool {
        self.find(page).is_ok()
    }

    /// How many are.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    fn find(&self, page: u64) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(&page, |&(page, _)| page)
    }

    /// A page comes that is not in memory: answers which one goes for it, if there is no free place. `used` says whether a page was used
    /// since it was asked about last, or came in.
    pub fn bring(&mut self, page: u64, used: &mut dyn FnMut(u64) -> bool) -> Option<u64> {
        let Kept { policy, pages, .. } = self;
        let mut used = |place: u32| pages.get(place as usize).is_some_and(|&page| used(page));
        policy.missed(page, &mut used);
        let mut gone = None;
        let place = match pages.len() < self.places as usize {
            true => pages.len() as u32,
            // All are filled, so it names one. If it does not, or one that is not there, the first goes.
            false => {
                let place = policy.victim(&mut used).filter(|&place| place < self.places);
                place.unwrap_or(0)
            }
        };
        match self.pages.get_mut(place as usize) {
            Some(held) => {
                let old = core::mem::replace(held, page);
                self.policy.emptied(place);
                if let Ok(at) = self.find(old) {
                    self.sorted.remove(at);
                }
                gone = Some(old);
            }
            // There is room for as many as places.
            None => self.pages.push(page),
        }
        if let Err(at) = self.find(page) {
            self.sorted.insert(at, (page, place));
        }
        self.policy.filled(place, page);
        gone
    }
}

/// What a pager with so many places does for a program that uses these pages in this order: the pages that come in, each with the one that goes for
/// it. The accessed bits are those of a processor: each use of a page sets its bit, the one that missed it, too.
///
/// # Errors
///
/// There is no memory.
pub fn replay(
    policy: Box<dyn Policy>,
    places: u32,
    trace: impl IntoIterator<Item = u64>,
) -> Result<Vec<(u64, Option<u64>)>, OutOfMemory> {
    let mut kept = Kept::new(policy, places)?;
    let (mut used, mut misses) = (alloc::collections::BTreeSet::new(), Vec::new());
    for page in trace {
        if !kept.has(page) {
            let gone = kept.bring(page, &mut |page| used.remove(&page));
            misses.try_reserve(1)?;
            misses.push((page, gone));
        }
        used.insert(page);
    }
    Ok(misses)
}
