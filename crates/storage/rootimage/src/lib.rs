//! A root file system as one piece of memory that is only read.
//!
//! The host [writes](Builder) it; the machine [looks](Image) at the directories that somebody enters, and maps files as they lie.
//! Nothing in it has to be read, counted or rebuilt before the first look, so neither time nor memory at the start depends on
//! its size.
//!
//! ```text
//! page 0        superblock: magic, bytes in all, record of the root
//! from page 1   contents of files: each begins a page, and zeros follow to the end of its last one
//! behind        directories: rows of records, each with its name, and the text of a symbolic link, behind it
//! ```
//!
//! A [record](Record) has all that `stat` shows, so that whoever reads a directory has read the attributes of everything in it.
//! Numbers are little-endian.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod build;
mod read;
mod record;

pub use build::{Builder, Placed, Plan, What};
pub use read::{Entry, Image, Source, Wrong};
pub use record::{Kind, Record, TEXT_MAX};

/// Contents of files begin at multiples of so many bytes, of which no two files share any.
pub const PAGE: u64 = 4096;
/// An image has a multiple of so many bytes: persistent memory comes in such pieces.
pub const UNIT: u64 = 2 << 20;
/// The beginning of every image.
const MAGIC: [u8; 8] = *b"TessRoot";
/// The way in which it is written.
const VERSION: u64 = 1;
/// Bytes of the superblock.
const SUPERBLOCK: usize = 24 + record::BYTES;

/// A number is rounded up to the next record.
fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}
