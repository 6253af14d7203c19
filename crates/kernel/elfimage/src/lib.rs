//! Programs in ELF files: what their headers say, and what is to be loaded where.
//!
//! Nothing in a file is trusted. Who has all of it reads an [`Image`], whose segments are whole pages with
//! one set of rights each; who has only its first bytes reads the [`Head`] and the program [`headers`],
//! and decides the rest. The crate `elf` does the parsing.
#![no_std]
#![forbid(unsafe_code)]

mod head;
mod image;

pub use elf::abi;
pub use elf::segment::ProgramHeader;
pub use head::{headers, Head, HEADER_BYTES, PROGRAM_HEADER_BYTES};
pub use image::{Access, Image, ImageError, Segment};
