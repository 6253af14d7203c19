//! Which page is given up when another one must come in.
//!
//! | policy | the page that goes | what it is told |
//! |---|---|---|
//! | [`Fifo`] | that came first | what comes and goes |
//! | [`Clock`] | that was not used since the hand passed it (second chance) | accessed bits, as far as the hand goes |
//! | [`Sampled`] | that was not used for longest, as far as is known (LRU by sampling) | accessed bits of all, at each miss |
//! | [`Optimal`] | that will not be used for longest | the future, which was recorded |

use crate::OutOfMemory;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A replacement policy over the places of a pool, numbered from zero.
///
/// The pager says which page is missing, when a page comes into a place and when it has left; the policy names the place
/// whose page should go next.
pub trait Policy: Send {
    /// Gets ready for a pool of `places`. Called once, before anything else.
    ///
    /// # Errors
    ///
    /// There is no memory for what it has to note.
    fn prepare(&mut self, places: u32) -> Result<(), OutOfMemory>;
    /// A page is wanted that is in no place: called at each miss, before a victim is asked for. `accessed` is that of
    /// [`victim`](Self::victim). A pager sees no other use of its pages, so this is when a policy can look at them all.
    fn missed(&mut self, page: u64, accessed: &mut dyn FnMut(u32) -> bool) {
        let _ = (page, accessed);
    }
    /// A page is in this place now.
    fn filled(&mut self, place: u32, page: u64);
    /// This place is empty now.
    fn emptied(&mut self, place: u32);
    /// A place that is filled, whose page should go; `None` if there is none. `accessed` tells
    /// whether the page in a place was used since it was last asked about.
    fn victim(&mut self, accessed: &mut dyn FnMut(u32) -> bool) -> Option<u32>;
}

/// The page that came first goes first.
#[derive(Clone, Debug, Default)]
pub struct Fifo(VecDeque<u32>);

impl Fifo {
    /// An empty queue.
    pub const fn new() -> Self {
        Fifo(VecDeque::new())
    }
}

impl Policy for Fifo {
    fn prepare(&mut self, places: u32) -> Result<(), OutOfMemory> {
        Ok(self.0.try_reserve(places as usize)?)
    }
    fn filled(&mut self, place: u32, _page: u64) {
        self.0.push_back(place);
    }
    fn emptied(&mut self, place: u32) {
        // Nearly always the first: the one that was named as victim.
        if let Some(at) = self.0.iter().position(|&other| other == place) {
            self.0.remove(at);
        }
    }
    fn victim(&mut self, _: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0.front().copied()
    }
}

/// A hand goes round over the places and takes the first page that was not used since the hand was
/// there the last time (second chance; Corbató 1968).
#[derive(Clone, Debug, Default)]
pub struct Clock {
    filled: Vec<bool>,
    hand: usize,
}

impl Clock {
    /// No places yet.
    pub const fn new() -> Self {
        Clock { filled: Vec::new(), hand: 0 }
    }
}

impl Policy for Clock {
    fn prepare(&mut self, places: u32) -> Result<(), OutOfMemory> {
        self.filled.try_reserve_exact(places as usize)?;
        self.filled.resize(places as usize, false);
        Ok(())
    }
    fn filled(&mut self, place: u32, _page: u64) {
        self.filled[place as usize] = true;
    }
    fn emptied(&mut self, place: u32) {
        self.filled[place as usize] = false;
    }
    fn victim(&mut self, accessed: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // After a full round every bit was cleared; the second ends at the first page, unless all
        // are in use again already, and then any will do.
        let mut last = None;
        for _ in 0..2 * self.filled.len() {
            let place = self.hand;
            self.hand = (place + 1) % self.filled.len();
            if !self.filled[place] {
                continue;
            }
            if !accessed(place as u32) {
                return Some(place as u32);
            }
            last = Some(place as u32);
        }
        last
    }
}

/// The page goes that was not used for longest (LRU), as far as accessed bits tell: all are looked at, and cleared, at each miss.
/// What was used between the same two misses counts as used at the same time; of these the one in the first place goes.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// When the page in each place was last seen to have been used; 0: it is empty.
    seen: Vec<u64>,
    /// How many misses there were.
    now: u64,
}

impl Sampled {
    /// No places yet.
    pub const fn new() -> Self {
        Sampled { seen: Vec::new(), now: 0 }
    }
}

impl Policy for Sampled {
    fn prepare(&mut self, places: u32) -> Result<(), OutOfMemory> {
        self.seen.try_reserve_exact(places as usize)?;
        self.seen.resize(places as usize, 0);
        Ok(())
    }
    fn missed(&mut self, _page: u64, accessed: &mut dyn FnMut(u32) -> bool) {
        self.now += 1;
        for (place, seen) in (0..).zip(&mut self.seen) {
            if *seen != 0 && accessed(place) {
                *seen = self.now;
            }
        }
    }
    fn filled(&mut self, place: u32, _page: u64) {
        // It is used from now on, up to the next miss.
        self.seen[place as usize] = self.now + 1;
    }
    fn emptied(&mut self, place: u32) {
        self.seen[place as usize] = 0;
    }
    fn victim(&mut self, _: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let filled = (0..).zip(&self.seen).filter(|(_, &seen)| seen != 0);
        filled.min_by_key(|&(_, &seen)| seen).map(|(place, _)| place)
    }
}

/// The page goes that will not be used for longest (Belady 1966): no policy has fewer misses. It needs a trace of all uses from the
/// first on, recorded before, and is what others are compared with. Of pages that are not used any more the one in the first
/// place goes.
///
/// The pager tells it of misses only. That is enough: a page that is missing was not used since it went, so its first use in the trace behind the
/// last miss is the one that is going on. A program that does something else than was recorded gets another
/// page paged out, nothing worse.
#[derive(Clone, Debug, Default)]
pub struct Optimal {
    /// Each use, by its page and then by when it is.
    uses: Vec<(u64, u32)>,
    /// How many uses there are up to the one that is going on.
    now: u32,
    /// The page in each place.
    held: Vec<Option<u64>>,
}

impl Optimal {
    /// For a program that uses these pages in this order.
    ///
    /// # Errors
    ///
    /// There is no memory to note them, or they are more than 2³² - 1.
    pub fn new(trace: impl ExactSizeIterator<Item = u64>) -> Result<Self, OutOfMemory> {
        if trace.len() >= u32::MAX as usize {
            return Err(OutOfMemory);
        }
        let mut uses = Vec::new();
        uses.try_reserve_exact(trace.len())?;
        uses.extend(trace.zip(0..));
        uses.sort_unstable();
        Ok(Optimal { uses, now: 0, held: Vec::new() })
    }

    /// When a page is used next, from now on.
    fn next_use(&self, page: u64) -> Option<u32> {
        let at = self.uses.partition_point(|&used| used < (page, self.now));
        self.uses.get(at).filter(|used| used.0 == page).map(|used| used.1)
    }
}

impl Policy for Optimal {
    fn prepare(&mut self, places: u32) -> Result<(), OutOfMemory> {
        self.held.try_reserve_exact(places as usize)?;
        self.held.resize(places as usize, None);
        Ok(())
    }
    fn missed(&mut self, page: u64, _: &mut dyn FnMut(u32) -> bool) {
        // A page that is not in the trace says nothing about the time.
        if let Some(at) = self.next_use(page) {
            self.now = at + 1;
        }
    }
    fn filled(&mut self, place: u32, page: u64) {
        self.held[place as usize] = Some(page);
    }
    fn emptied(&mut self, place: u32) {
        self.held[place as usize] = None;
    }
    fn victim(&mut self, _: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let mut last: Option<(u32, u32)> = None;
        for (place, page) in (0..).zip(&self.held) {
            let Some(page) = *page else { continue };
            let next = self.next_use(page).unwrap_or(u32::MAX);
            if last.is_none_or(|(_, latest)| next > latest) {
                last = Some((place, next));
            }
        }
        last.map(|(place, _)| place)
    }
}
