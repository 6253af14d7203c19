//! Searching for room between the items, from the end.

use super::{bounded, Item, Place, Ranges, NONE};

impl<T: Item> Ranges<T> {
    /// Goes downward over the gaps in front of the items in front of a place, those that start above
    /// `low`, as far as they are at least `least` large, until `fits` has an answer: given where a gap
    /// begins (0 in front of the first item) and the item behind it.
    #[inline]
    pub fn last_gap<R>(
        &mut self,
        place: Place,
        low: u64,
        least: u64,
        mut fits: impl FnMut(u64, &T) -> Option<R>,
    ) -> Option<R> {
        let mut place = self.before(place)?;
        loop {
            let items = self.items(place.leaf);
            let is_whole = place.index as usize + 1 == items.len();
            let mut largest = 0;
            for index in (0..=place.index as usize).rev() {
                let item = items.get(index)?;
                if item.start() <= low {
                    return None;
                }
                let start = match index.checked_sub(1).and_then(|before| items.get(before)) {
                    Some(before) => before.end(),
                    None => self.gap_start(Place { index: 0, ..place }),
                };
                let gap = item.start() - start;
                if gap >= least {
                    if let Some(answer) = fits(start, item) {
                        // What comes into the gap comes in front of this.
                        self.hint.set(Place { index: index as u32, ..place });
                        return Some(answer);
                    }
                }
                largest = largest.max(gap);
            }
            if self.height == 0 {
                return None;
            }
            if is_whole {
                self.tighten(place.leaf, bounded(largest));
            }
            place = self.leaf_in_front(place.leaf, bounded(least))?;
        }
    }

    /// Sets the bound of a leaf, and lowers those above it as far as they follow from what is below.
    fn tighten(&mut self, leaf: u32, gap: u32) {
        let mut gap = gap;
        self.climb(leaf, |inner, index| {
            let is_lower = inner.branches[index].gap > gap;
            inner.branches[index].gap = inner.branches[index].gap.min(gap);
            gap = inner.largest_gap();
            is_lower
        });
    }

    /// The last item of the nearest leaf in front that may have a gap of `least`.
    fn leaf_in_front(&mut self, leaf: u32, least: u32) -> Option<Place> {
        // Looked at are the branches of `parent` in front of that to `child`, or all.
        let (mut child, mut parent) = (leaf, self.parent(true, leaf));
        loop {
            let inner = self.inners.get(parent)?;
            let own = inner.branches.iter().position(|branch| branch.child == child);
            let in_front = &inner.branches[..own.unwrap_or(inner.branches.len())];
            match in_front.iter().rev().find(|branch| branch.gap >= least) {
                Some(branch) if inner.above_leaves => {
                    let leaf = branch.child;
                    let index = (self.items(leaf).len() as u32).checked_sub(1)?;
                    return Some(Place { leaf, index });
                }
                Some(branch) => (child, parent) = (NONE, branch.child),
                None => {
                    let (above, largest) = (inner.parent, inner.largest_gap());
                    if let Some((index, above)) = self.branch_of(above, parent) {
                        let gap = above.branches[index].gap;
                        above.branches[index].gap = gap.min(largest);
                    }
                    (child, parent) = (parent, above);
                }
            }
        }
    }
}
