//! Anons, by number, with their reference counts (UVM §3.2.2).

use std::num::NonZeroU32;

/// One page of private memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Anon(NonZeroU32);

/// All of them.
#[derive(Default)]
pub struct Anons {
    /// How many amaps have each; 0: it is free.
    counts: Vec<u32>,
    free: Vec<Anon>,
}

impl Anons {
    /// A new one, which one amap has.
    pub fn make(&mut self) -> Anon {
        let anon = self.free.pop().unwrap_or_else(|| {
            self.counts.push(0);
            let number = u32::try_from(self.counts.len()).ok().and_then(NonZeroU32::new);
            Anon(number.expect("fewer pages than numbers"))
        });
        *self.count_mut(anon) = 1;
        anon
    }

    /// One more amap has it.
    pub fn hold(&mut self, anon: Anon) {
        *self.count_mut(anon) += 1;
    }

    /// One less; nobody has it after the last.
    pub fn drop(&mut self, anon: Anon) {
        let count = self.count_mut(anon);
        *count -= 1;
        if *count == 0 {
            self.free.push(anon);
        }
    }

    /// How many amaps have it.
    pub fn count(&self, anon: Anon) -> u32 {
        self.counts[anon.0.get() as usize - 1]
    }

    fn count_mut(&mut self, anon: Anon) -> &mut u32 {
        &mut self.counts[anon.0.get() as usize - 1]
    }

    /// How many there are.
    pub fn alive(&self) -> usize {
        self.counts.len() - self.free.len()
    }
}
