//! All memory of a machine: ranges with attributes, and a reserve.

use crate::buddy::{Buddy, FreeError};
use crate::PAGE;
use captypes::RamAttrs;

/// Most ranges.
pub const MAX_RANGES: usize = 64;
/// The reserve is this part of all memory …
const RESERVE_PART: u64 = 32;
/// … but not less than this.
const RESERVE_MIN: u64 = 1 << 20;
/// Attributes that a range must have exactly as asked for; the node is a wish.
const STRICT: u16 = RamAttrs::PERSISTENT.0;
const NODE: u16 = RamAttrs::NODE;

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes, a multiple of a page and not zero.
    pub bytes: u64,
    /// A power of two; less than a page means a page.
    pub alignment: u64,
    /// Attributes, as in `captypes::RamAttrs`.
    pub attrs: u16,
    /// May the reserve be used?
    pub trusted: bool,
}

/// What is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Number of the range, in the order in which they were added.
    pub range: usize,
    /// First byte, from the start of the range.
    pub offset: u64,
}

/// Why nothing is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// Size or alignment is none.
    Invalid,
    /// No block is large enough, or only the reserve is left.
    NoMemory,
}

/// Numbers for whoever asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Free bytes.
    pub free: u64,
    /// All bytes.
    pub total: u64,
    /// Bytes of the largest block that one request could get.
    pub largest: u64,
}

struct Range<'a> {
    base: u64,
    end: u64,
    attrs: u16,
    buddy: Buddy<'a>,
}

impl Range<'_> {
    /// Gives memory of the range with this number.
    fn grant(&mut self, number: usize, bytes: u64, alignment: u64) -> Option<Grant> {
        let address = self.buddy.alloc(bytes, alignment)?;
        Some(Grant { range: number, offset: address - self.base })
    }
}

/// All ranges.
pub struct Pool<'a> {
    ranges: [Option<Range<'a>>; MAX_RANGES],
    count: usize,
    total: u64,
    free: u64,
    reserve: u64,
}

impl<'a> Pool<'a> {
    /// No memory yet.
    pub const fn new() -> Self {
        Pool { ranges: [const { None }; MAX_RANGES], count: 0, total: 0, free: 0, reserve: 0 }
    }

    /// Adds `[base, base + bytes)`, of which nothing is free yet; see [`Buddy::new`]. Answers its
    /// number, or `None` when there are too many.
    pub fn add(
        &mut self,
        base: u64,
        bytes: u64,
        attrs: u16,
        words: &'a mut [u64],
    ) -> Option<usize> {
        let number = self.put(base, bytes, attrs, Buddy::new(base, bytes, words))?;
        self.set_total(self.total + bytes);
        Some(number)
    }

    /// Adds `[base, base + bytes)`, which is somebody else's: parts of it may be [adopted](Pool::adopt) later, of which blocks have at most
    /// 2^`most` pages. Who wishes a node gets memory of it last.
    pub fn add_away(
        &mut self,
        base: u64,
        bytes: u64,
        most: u32,
        words: &'a mut [u64],
    ) -> Option<usize> {
        self.put(base, bytes, NODE, Buddy::within(base, bytes, most, words))
    }

    fn put(&mut self, base: u64, bytes: u64, attrs: u16, buddy: Buddy<'a>) -> Option<usize> {
        let number = self.count;
        *self.ranges.get_mut(number)? = Some(Range { base, end: base + bytes, attrs, buddy });
        self.count += 1;
        Some(number)
    }

    fn set_total(&mut self, total: u64) {
        self.total = total;
        self.reserve = (self.total / RESERVE_PART).next_multiple_of(PAGE).max(RESERVE_MIN);
    }

    /// Memory that was somebody else's belongs to the pool from now on, and is free.
    pub fn adopt(&mut self, base: u64, bytes: u64) -> Result<(), FreeError> {
        self.free(base, bytes)?;
        self.set_total(self.total + bytes);
        Ok(())
    }

    /// Takes free memory out of the pool, at a multiple of `alignment`, a power of two: what was adopted first.
    pub fn cede(&mut self, bytes: u64, alignment: u64) -> Option<Grant> {
        let mut ranges = self.ranges.iter_mut().enumerate().rev();
        let grant =
            ranges.find_map(|(number, range)| range.as_mut()?.grant(number, bytes, alignment))?;
        self.free -= bytes;
        self.set_total(self.total - bytes);
        Some(grant)
    }

    /// The address of what was granted.
    pub fn address(&self, grant: Grant) -> Option<u64> {
        let range = self.ranges.get(grant.range)?.as_ref()?;
        Some(range.base + grant.offset)
    }

    /// Numbers.
    pub fn usage(&self) -> Usage {
        let largest = self.ranges().map(|range| range.buddy.largest()).max().unwrap_or(0);
        Usage { free: self.free, total: self.total, largest }
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.free
    }

    /// Bytes that only trusted requests may use.
    pub fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Gives memory: on the wished node if it can be.
    pub fn alloc(&mut self, request: Request) -> Result<Grant, AllocError> {
        let Request { bytes, alignment, attrs, trusted } = request;
        let alignment = alignment.max(PAGE);
        if bytes == 0 || bytes & (PAGE - 1) != 0 || !alignment.is_power_of_two() {
            return Err(AllocError::Invalid);
        }
        if bytes > self.usable(trusted) {
            return Err(AllocError::NoMemory);
        }
        let grant = self
            .take(bytes, alignment, |range| (range.attrs ^ attrs) & (STRICT | NODE) == 0)
            .or_else(|| self.take(bytes, alignment, |range| (range.attrs ^ attrs) & STRICT == 0))
            .ok_or(AllocError::NoMemory)?;
        self.free -= bytes;
        Ok(grant)
    }

    /// Gives one page of one of the colours in the set `wanted`, out of `count`, a power of two up to
    /// 64; see [`Buddy::alloc_coloured`]. The other attributes are those of `request`.
    pub fn alloc_coloured(
        &mut self,
        request: Request,
        count: u64,
        wanted: u64,
    ) -> Result<Grant, AllocError> {
        let valid = request.bytes == PAGE && count.is_power_of_two() && count <= 64;
        if !valid || wanted & (u64::MAX >> (64 - count)) == 0 {
            return Err(AllocError::Invalid);
        }
        if self.usable(request.trusted) < PAGE {
            return Err(AllocError::NoMemory);
        }
        let mut take = |wanted_attrs: u16| {
            let mut ranges = self.ranges.iter_mut().flatten().enumerate();
            ranges.find_map(|(number, range)| {
                let suits = (range.attrs ^ request.attrs) & wanted_attrs == 0;
                let address = suits.then(|| range.buddy.alloc_coloured(count, wanted)).flatten()?;
                Some(Grant { range: number, offset: address - range.base })
            })
        };
        let grant = take(STRICT | NODE).or_else(|| take(STRICT)).ok_or(AllocError::NoMemory)?;
        self.free -= PAGE;
        Ok(grant)
    }

    /// Bytes that a request may have.
    fn usable(&self, trusted: bool) -> u64 {
        if trusted {
            self.free
        } else {
            self.free.saturating_sub(self.reserve)
        }
    }

    /// Takes memory back, which may begin in one range and end in others: those of two nodes often
    /// meet. On an error, nothing behind the first page that is wrong has been taken.
    pub fn free(&mut self, base: u64, bytes: u64) -> Result<(), FreeError> {
        let mut at = base;
        let end = base.checked_add(bytes).ok_or(FreeError::OutOfRange)?;
        while at < end {
            let mut ranges = self.ranges.iter_mut().flatten();
            let range = ranges.find(|range| (range.base..range.end).contains(&at));
            let range = range.ok_or(FreeError::OutOfRange)?;
            let part = range.end.min(end) - at;
            range.buddy.free(at, part)?;
            self.free += part;
            at += part;
        }
        Ok(())
    }

    fn take(
        &mut self,
        bytes: u64,
        alignment: u64,
        suits: impl Fn(&Range) -> bool,
    ) -> Option<Grant> {
        let mut ranges = self.ranges.iter_mut().flatten().enumerate();
        ranges.find_map(|(number, range)| {
            suits(range).then(|| range.grant(number, bytes, alignment)).flatten()
        })
    }

    fn ranges(&self) -> impl Iterator<Item = &Range<'a>> {
        self.ranges.iter().flatten()
    }
}

impl Default for Pool<'_> {
    fn default() -> Self {
        Self::new()
    }
}
