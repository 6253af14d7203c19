//! The buffer pool of a database, on superpages: `./x run -- bufferpool [KEYS]`.
//!
//! A hash table of fixed-size pages lives in a file. Only so many of its pages are in memory, in a
//! pool that the program has taken as 2 MiB pages: the pool is never paged, its translations take
//! four entries of a page table instead of 2,048, and which of the table's pages are in it is the
//! database's own decision ([`pool`]). The same work is then done with a pool of 4 KiB pages.
#![no_std]
#![no_main]

extern crate alloc;

mod pool;
mod table;

use fastrand::Rng;
use pool::BufferPool;
use table::HashTable;
use tessera::env::Args;
use tessera::fs::File;
use tessera::memory::PageSize;
use tessera::println;

const FILE: &str = "/tmp/bufferpool.data";
/// Pages of the pool: 8 MiB.
const POOL_PAGES: usize = 2048;
/// Buckets of the hash table.
const BUCKETS: u32 = 2000;

/// Why the program ends.
#[derive(Debug)]
pub enum Error {
    /// The kernel or the memory library refused something.
    Memory(tessera::memory::Error),
    /// The file system refused something.
    File(tessera::io::Errno),
    /// All pages of the pool are in use at the same time.
    AllPinned,
    /// A key has another value than was stored, or none.
    Wrong(u64),
}

impl From<tessera::memory::Error> for Error {
    fn from(error: tessera::memory::Error) -> Self {
        Error::Memory(error)
    }
}

impl From<tessera::io::Errno> for Error {
    fn from(error: tessera::io::Errno) -> Self {
        Error::File(error)
    }
}

/// The value of a key.
fn value(key: u64) -> u64 {
    key.rotate_left(17) ^ 0x5bd1_e995
}

fn run(name: &str, size: PageSize, keys: u64) -> Result<(), Error> {
    let mut pool = BufferPool::new(File::create(FILE)?, POOL_PAGES, size)?;
    let entries = pool.entries()?;
    let mut table = HashTable::create(&mut pool, BUCKETS)?;
    for key in 0..keys {
        table.insert(key, !value(key))?;
    }
    // Some keys are looked up often, most of them seldom.
    let mut random = Rng::with_seed(7);
    for _ in 0..keys {
        let most = random.u64(..keys) + 1;
        let key = random.u64(..most);
        if table.get(key)? != Some(!value(key)) {
            return Err(Error::Wrong(key));
        }
    }
    for key in 0..keys {
        table.insert(key, value(key))?;
    }
    pool.flush()?;
    let stats = pool.stats;
    drop(pool);
    // What a new pool finds in the file is what was stored.
    let mut pool = BufferPool::new(File::open(FILE)?, 64, PageSize::Base)?;
    let mut table = HashTable::open(&mut pool, BUCKETS);
    for key in 0..keys {
        if table.get(key)? != Some(value(key)) {
            return Err(Error::Wrong(key));
        }
    }
    if table.get(keys)?.is_some() {
        return Err(Error::Wrong(keys));
    }
    println!(
        "{name:14} {entries:5} entries: {:7} hits {:6} reads {:6} writes {:6} evictions",
        stats.hits, stats.reads, stats.writes, stats.evictions
    );
    Ok(())
}

#[tessera::main]
fn main(args: Args) -> Result<(), Error> {
    let keys = args.number(1).unwrap_or(12_000);
    println!("{keys} keys in {BUCKETS} buckets, a pool of {POOL_PAGES} pages:");
    run("2 MiB pages", PageSize::Large, keys)?;
    run("4 KiB pages", PageSize::Base, keys)?;
    println!("every key has its value in the file");
    Ok(())
}
