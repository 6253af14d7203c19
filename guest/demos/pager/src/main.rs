//! A user-level pager: `./x run -- pager [PAGES [PLACES]]`.
//!
//! A file of PAGES pages is mapped, of which PLACES have memory at a time. The program pages itself:
//! where pages come from ([`FileStore`]) and which one goes when another must come ([`Newest`]) is
//! decided here, in the page-fault upcall of the program, and the kernel knows of neither.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use tessera::env::Args;
use tessera::fs::File;
use tessera::memory::{self, Error, Map, Object, PageSize, Paged, Store};
use tessera::selfpaging::{Clock, Fifo, OutOfMemory, Policy};
use tessera::{io, println, PAGE};

const WORDS: u64 = PAGE / 8;
const FILE: &str = "/tmp/pager.data";
/// How often everything is read, from the first page to the last.
const ROUNDS: u64 = 4;
/// Every so many pages one is changed.
const STRIDE: u64 = 3;

/// Nothing, or what went wrong.
type Outcome = Result<(), &'static str>;

/// Pages live in a file.
struct FileStore {
    file: File,
    bytes: u64,
}

impl Store for FileStore {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(offset + done as u64, &mut into[done..]) {
                Ok(bytes) if bytes > 0 => done += bytes,
                _ => return Err(Error::Store),
            }
        }
        Ok(())
    }
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < from.len() {
            done += self
                .file
                .write_at(offset + done as u64, &from[done..])
                .map_err(|_| Error::Store)?;
        }
        Ok(())
    }
}

/// The page that came last goes first. Foolish for most programs, but one that reads the same pages
/// in the same order again and again finds at least the others still there.
#[derive(Default)]
struct Newest(Vec<u32>);

impl Policy for Newest {
    fn prepare(&mut self, places: u32) -> Result<(), OutOfMemory> {
        self.0 = Vec::with_capacity(places as usize);
        Ok(())
    }
    fn filled(&mut self, place: u32, _page: u64) {
        self.0.push(place);
    }
    fn emptied(&mut self, place: u32) {
        self.0.retain(|&other| other != place);
    }
    fn victim(&mut self, _: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0.last().copied()
    }
}

/// What word `index` of the file is at first.
fn word(index: u64) -> u64 {
    (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn make_file(pages: u64) -> io::Result<()> {
    let file = File::create(FILE)?;
    for page in 0..pages {
        let words = page * WORDS..(page + 1) * WORDS;
        let bytes: Vec<u8> = words.flat_map(|index| word(index).to_le_bytes()).collect();
        file.write_all(&bytes)?;
    }
    Ok(())
}

fn open(pages: u64) -> io::Result<FileStore> {
    const READ_WRITE: u32 = 2;
    Ok(FileStore { file: File::open_with(FILE, READ_WRITE)?, bytes: pages * PAGE })
}

/// Reads everything in order, some times; then changes some pages.
fn run<P: Policy + 'static>(name: &str, policy: P, pages: u64, places: u32) -> Outcome {
    let store = open(pages).map_err(|_| "the file cannot be opened")?;
    let paged = Paged::new(store, policy, places, PageSize::Base);
    let object = Object::new(paged.map_err(|_| "no memory for the pool")?);
    let region = memory::map(&object, Map::default()).map_err(|_| "cannot map")?;
    let words: *mut u64 = region.as_ptr();
    let mut sum = 0u64;
    for _ in 0..ROUNDS {
        for index in 0..(pages * WORDS) as usize {
            // The first touch of a page that has no memory is a fault, which the pager resolves.
            // SAFETY: inside the region, which is readable.
            sum = sum.wrapping_add(unsafe { words.add(index).read_volatile() });
        }
    }
    let once = (0..pages * WORDS).fold(0u64, |sum, index| sum.wrapping_add(word(index)));
    if sum != once.wrapping_mul(ROUNDS) {
        return Err("the pager showed something else than the file");
    }
    for page in (0..pages).step_by(STRIDE as usize) {
        // SAFETY: inside the region, which is writable.
        unsafe { words.add((page * WORDS) as usize).write_volatile(!word(page * WORDS)) };
    }
    let flushed = object.manage(|paged, pages| {
        paged.flush(pages)?;
        Ok(paged.stats())
    });
    let stats = flushed.map_err(|_| "the pages cannot be written")?;
    println!(
        "{name:7} {:6} reads {:6} evictions {:6} writes",
        stats.reads, stats.evictions, stats.writes
    );
    Ok(())
}

/// Does the file have what was stored, and nothing else, changed?
fn check_file(pages: u64) -> io::Result<bool> {
    let mut store = open(pages)?;
    let mut page = [0; PAGE as usize];
    for number in 0..pages {
        store.read(number * PAGE, &mut page).map_err(|_| io::Errno::EIO)?;
        for (index, bytes) in (number * WORDS..).zip(page.chunks_exact(8)) {
            let changed = index == number * WORDS && number % STRIDE == 0;
            let expected = if changed { !word(index) } else { word(index) };
            if bytes != expected.to_le_bytes() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[tessera::main]
fn main(args: Args) -> Outcome {
    let pages = args.number(1).unwrap_or(256).max(1);
    let places = args.number(2).unwrap_or(64).max(1) as u32;
    println!("{pages} pages of a file, {places} of them in memory, read {ROUNDS} times:");
    let policies: [fn(u64, u32) -> Outcome; 3] = [
        |pages, places| run("fifo", Fifo::new(), pages, places),
        |pages, places| run("clock", Clock::new(), pages, places),
        |pages, places| run("newest", Newest::default(), pages, places),
    ];
    for policy in policies {
        make_file(pages).map_err(|_| "the file cannot be made")?;
        policy(pages, places)?;
        if !check_file(pages).map_err(|_| "the file cannot be read")? {
            return Err("the file has lost a change");
        }
    }
    println!("every change is in the file");
    Ok(())
}
