//! Which page is given up when another one must come in.

use crate::OutOfMemory;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A replacement policy over the places of a pool, numbered from zero.
///
/// The pager says when a page comes into a place and when it has left; the policy names the place
/// whose page should go next.
pub trait Policy: Send {
    /// Gets ready for a pool of `places`. Called once, before anything else.
    fn prepare(&mut self, places: u32) -> Result<(), OutOfMemory>;
    /// A page is in this place now.
    fn filled(&mut self, place: u32);
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
    fn filled(&mut self, place: u32) {
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
    fn filled(&mut self, place: u32) {
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
