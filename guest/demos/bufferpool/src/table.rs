//! The database: a hash table of pages. A bucket is a chain of pages.
//!
//! ```text
//!   page   0: number of entries | 8: next page of the bucket, 0 for none | 16: entries (key, value)
//!   pages  1 … buckets: the first page of each bucket; behind those, pages added to some
//! ```

use crate::pool::{BufferPool, PAGE_BYTES};
use crate::Error;

const HEADER: usize = 16;
const ENTRY: usize = 16;
/// Entries that a page has room for. Fewer than would fit, to have chains to follow.
const MOST: u64 = 6;

const _: () = assert!(HEADER + MOST as usize * ENTRY <= PAGE_BYTES);

/// A hash table in a pool's file.
pub struct HashTable<'a> {
    pool: &'a mut BufferPool,
    buckets: u32,
    /// The first page that was never used.
    end: u32,
}

fn word(page: &[u8; PAGE_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn set_word(page: &mut [u8; PAGE_BYTES], at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Where the entry of `key` is in a page.
fn position(page: &[u8; PAGE_BYTES], key: u64) -> Option<usize> {
    let entries = (0..word(page, 0).min(MOST) as usize).map(|entry| HEADER + entry * ENTRY);
    entries.into_iter().find(|&at| word(page, at) == key)
}

impl<'a> HashTable<'a> {
    /// An empty table: a file of zeros is one.
    pub fn create(pool: &'a mut BufferPool, buckets: u32) -> Result<Self, Error> {
        Ok(HashTable { pool, buckets, end: buckets + 1 })
    }

    /// The table that is in the file already, to be read.
    pub fn open(pool: &'a mut BufferPool, buckets: u32) -> Self {
        HashTable { pool, buckets, end: 0 }
    }

    fn bucket(&self, key: u64) -> u32 {
        1 + (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 % self.buckets
    }

    /// The value of a key.
    pub fn get(&mut self, key: u64) -> Result<Option<u64>, Error> {
        let mut at = self.bucket(key);
        while at != 0 {
            let (found, next) = self.pool.with_page(at, false, |_, page| {
                let found = position(page, key).map(|at| word(page, at + 8));
                (found, word(page, 8) as u32)
            })?;
            if found.is_some() {
                return Ok(found);
            }
            at = next;
        }
        Ok(None)
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        let mut at = self.bucket(key);
        loop {
            let step = self.pool.with_page(at, false, |_, page| step(page, key))?;
            match step {
                Step::On(next) => at = next,
                Step::Here => return self.pool.with_page(at, true, |_, p| put(p, key, value)),
                Step::Full => return self.append(at, key, value),
            }
        }
    }

    /// Adds a page behind the last one of a bucket.
    fn append(&mut self, last: u32, key: u64, value: u64) -> Result<(), Error> {
        let new = self.end;
        self.end += 1;
        // The last page stays while the new one comes into the pool.
        self.pool.with_page(last, true, |pool, page| {
            set_word(page, 8, u64::from(new));
            pool.with_page(new, true, |_, page| put(page, key, value))
        })?
    }
}

/// Where an entry goes, as a page of the bucket says.
enum Step {
    /// Into this page.
    Here,
    /// Into the next page, or a later one.
    On(u32),
    /// Into a new page.
    Full,
}

fn step(page: &[u8; PAGE_BYTES], key: u64) -> Step {
    match (position(page, key), word(page, 8) as u32) {
        (Some(_), _) => Step::Here,
        (None, next) if next != 0 => Step::On(next),
        _ if word(page, 0) < MOST => Step::Here,
        _ => Step::Full,
    }
}

/// Changes the entry of a key, or adds one to a page that has room.
fn put(page: &mut [u8; PAGE_BYTES], key: u64, value: u64) {
    let count = word(page, 0);
    let at = position(page, key).unwrap_or_else(|| {
        set_word(page, 0, count + 1);
        HEADER + count as usize * ENTRY
    });
    set_word(page, at, key);
    set_word(page, at + 8, value);
}
