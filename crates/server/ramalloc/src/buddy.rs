//! Free pages of one range of physical memory, as blocks of 2^k pages aligned to their size.
//!
//! Invariant: a page is in at most one free block, and no two free blocks are halves of one block.
//! Addresses are physical, so that a block of 512 pages can be mapped by one 2 MiB entry.

use crate::bits::BitSet;
use crate::PAGE;

/// The largest blocks have 2^18 pages: 1 GiB, the largest page of the processor.
pub const MAX_ORDER: u32 = 18;
const ORDERS: usize = MAX_ORDER as usize + 1;

/// Why memory cannot be given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// Not page-aligned, or not inside the range.
    OutOfRange,
    /// Part of it is free already.
    AlreadyFree,
}

/// The allocator of one range.
pub struct Buddy<'a> {
    words: &'a mut [u64],
    /// Free blocks of 2^k pages, by number of the block.
    free: [BitSet; ORDERS],
    /// Where in `words` there is a bit for each page, set while that is free: whether some of a range
    /// are is asked at each return of memory, and would be a question to every order.
    pages: usize,
    max_order: u32,
    /// Number of the physical page that is page 0 here.
    origin: u64,
    first: u64,
    end: u64,
    free_pages: u64,
}

/// The largest order with a block that could fit, if it is not beyond `most`, and the origin that keeps blocks aligned.
const fn geometry(base: u64, bytes: u64, most: u32) -> (u32, u64) {
    let pages = bytes / PAGE;
    let order = if pages == 0 { 0 } else { pages.ilog2() };
    let order = if order < most { order } else { most };
    (order, (base / PAGE) >> order << order)
}

const fn layout(base: u64, bytes: u64, most: u32) -> [BitSet; ORDERS] {
    let (max_order, origin) = geometry(base, bytes, most);
    let span = (base + bytes) / PAGE - origin;
    let mut sets = [BitSet::new(0, 0); ORDERS];
    let mut at = 0;
    let mut order = 0;
    while order <= max_order {
        let set = BitSet::new(at, span >> order);
        at = set.end();
        sets[order as usize] = set;
        order += 1;
    }
    sets
}

/// Words for a bit for each page.
const fn page_words(base: u64, bytes: u64, most: u32) -> usize {
    let (_, origin) = geometry(base, bytes, most);
    ((base + bytes) / PAGE - origin).div_ceil(64) as usize
}

impl<'a> Buddy<'a> {
    /// Words that the allocator of `[base, base + bytes)` needs.
    pub fn words_needed(base: u64, bytes: u64) -> usize {
        Self::words_needed_within(base, bytes, MAX_ORDER)
    }

    /// The same of one whose largest blocks have 2^`most` pages.
    pub fn words_needed_within(base: u64, bytes: u64, most: u32) -> usize {
        let (max_order, _) = geometry(base, bytes, most);
        layout(base, bytes, most)[max_order as usize].end() + page_words(base, bytes, most)
    }

    /// The allocator of `[base, base + bytes)`, of which nothing is free yet. `base` and `bytes`
    /// are multiples of a page; `words` are zero and at least [`Buddy::words_needed`].
    pub fn new(base: u64, bytes: u64, words: &'a mut [u64]) -> Self {
        Self::within(base, bytes, MAX_ORDER, words)
    }

    /// The same, with blocks of at most 2^`most` pages: nothing that is larger is ever one piece.
    pub fn within(base: u64, bytes: u64, most: u32, words: &'a mut [u64]) -> Self {
        let (max_order, origin) = geometry(base, bytes, most);
        let (first, end) = (base / PAGE - origin, (base + bytes) / PAGE - origin);
        let free = layout(base, bytes, most);
        let pages = free[max_order as usize].end();
        Buddy { words, free, pages, max_order, origin, first, end, free_pages: 0 }
    }

    /// Free bytes.
    pub fn free_bytes(&self) -> u64 {
        self.free_pages * PAGE
    }

    /// Bytes of the largest free block.
    pub fn largest(&self) -> u64 {
        let order = (0..=self.max_order).rev().find(|&k| self.free[k as usize].members() > 0);
        order.map_or(0, |order| PAGE << order)
    }

    /// Is `[base, base + bytes)` part of the range, free or not?
    pub fn covers(&self, base: u64, bytes: u64) -> bool {
        self.pages_of(base, bytes).is_ok()
    }

    /// Takes `bytes` at a multiple of `alignment` (a power of two), both multiples of a page.
    /// Answers the address. The lowest block of the smallest size that suffices is used.
    pub fn alloc(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let pages = bytes.div_ceil(PAGE).max(1);
        let want = pages.checked_next_power_of_two()?.max(alignment.div_ceil(PAGE)).ilog2();
        let found = (want..=self.max_order).find(|&k| self.free[k as usize].members() > 0)?;
        let block = self.free[found as usize].first(self.words)?;
        self.free[found as usize].remove(self.words, block);
        let start = block << found;
        self.put_range(start + pages, start + (1 << found));
        self.mark(start, start + pages, false);
        self.free_pages -= pages;
        Some((self.origin + start) * PAGE)
    }

    /// Takes one page whose number modulo `count` (a power of two, at most 64) is in the set `wanted`
    /// of bits: a page of one of these colours. Small blocks are tried first.
    pub fn alloc_coloured(&mut self, count: u64, wanted: u64) -> Option<u64> {
        let (order, block, page) = (0..=self.max_order).find_map(|order| {
            let mut from = 0;
            loop {
                let block = self.free[order as usize].next(self.words, from)?;
                let first = block << order;
                // Behind `count` pages, the colours repeat.
                let pages = first..first + count.min(1 << order);
                let has_colour = |page: &u64| wanted >> ((self.origin + page) % count) & 1 != 0;
                if let Some(page) = pages.into_iter().find(has_colour) {
                    return Some((order, block, page));
                }
                from = block + 1;
            }
        })?;
        self.free[order as usize].remove(self.words, block);
        self.put_range(block << order, page);
        self.put_range(page + 1, (block + 1) << order);
        self.mark(page, page + 1, false);
        self.free_pages -= 1;
        Some((self.origin + page) * PAGE)
    }

    /// Gives `[base, base + bytes)` back: any pages of the range that are not free.
    pub fn free(&mut self, base: u64, bytes: u64) -> Result<(), FreeError> {
        let (low, high) = self.pages_of(base, bytes)?;
        if self.any_free(low, high) {
            return Err(FreeError::AlreadyFree);
        }
        self.put_range(low, high);
        self.mark(low, high, true);
        self.free_pages += high - low;
        Ok(())
    }

    fn pages_of(&self, base: u64, bytes: u64) -> Result<(u64, u64), FreeError> {
        let aligned = (base | bytes) & (PAGE - 1) == 0;
        let low = (base / PAGE).checked_sub(self.origin).ok_or(FreeError::OutOfRange)?;
        let high = low.checked_add(bytes / PAGE).ok_or(FreeError::OutOfRange)?;
        if aligned && low >= self.first && high <= self.end {
            Ok((low, high))
        } else {
            Err(FreeError::OutOfRange)
        }
    }

    /// The words with the bits of the pages `low..high`, each with a mask of these.
    fn page_bits(&self, low: u64, high: u64) -> impl Iterator<Item = (usize, u64)> {
        let (start, end) = (self.pages, high.div_ceil(64).max(low / 64));
        (low / 64..end).map(move |word| {
            let (from, to) = (low.max(word * 64) % 64, high.min(word * 64 + 64) - word * 64);
            (start + word as usize, u64::MAX << from & u64::MAX >> (64 - to))
        })
    }

    /// Is any page of `low..high` free?
    fn any_free(&self, low: u64, high: u64) -> bool {
        self.page_bits(low, high).any(|(word, mask)| self.words[word] & mask != 0)
    }

    /// Says that the pages `low..high` are free, or not.
    fn mark(&mut self, low: u64, high: u64, free: bool) {
        for (word, mask) in self.page_bits(low, high) {
            let word = &mut self.words[word];
            *word = if free { *word | mask } else { *word & !mask };
        }
    }

    /// Puts the pages `low..high` in as the largest aligned blocks that they contain.
    fn put_range(&mut self, mut low: u64, high: u64) {
        while low < high {
            let aligned = if low == 0 { MAX_ORDER } else { low.trailing_zeros() };
            let order = aligned.min((high - low).ilog2()).min(self.max_order);
            self.put_block(low >> order, order);
            low += 1 << order;
        }
    }

    /// Puts a block in, merged with its other half as long as that is free too.
    fn put_block(&mut self, mut block: u64, mut order: u32) {
        while order < self.max_order && self.free[order as usize].contains(self.words, block ^ 1) {
            self.free[order as usize].remove(self.words, block ^ 1);
            block >>= 1;
            order += 1;
        }
        self.free[order as usize].insert(self.words, block);
    }
}
