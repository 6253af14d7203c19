//! A disk, and the file system on it, for a client that speaks 9P ([`ninep`]).
//!
//! ```text
//! disk     what a disk does: sectors are read, written, and made lasting
//! cache    blocks that were read stay, as many as there may be
//! padding  bits of the disk that the library leaves
//! server   requests and their answers: what a fid is, and what lives as long as it does
//! volume   the operations of files, and what of them the library must be told
//! ```
//!
//! The file system is ext4, by the library `rsext4`. Nothing here believes what is on the disk; the library checks most of it, and where it
//! fails by a panic, that is the end of a domain that has nothing but this disk.
//!
//! The fid [`WHOLE_FID`](ninep::serve::WHOLE_FID) is all of the disk as one file. Another one is attached to the root of the file system, which is mounted by
//! that, and unmounted when the same fid is forgotten.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cache;
mod disk;
mod errno;
mod padding;
mod server;
mod volume;

pub use cache::CACHED_MOST;
pub use disk::{Disk, Failed, SECTOR};
pub use server::Server;
