//! Names and attributes of files, in memory.
//!
//! [`Fs`] holds inodes: directories, files, symbolic links, devices and fifos, with modes, owners,
//! times and link counts. It does not know what a file's contents are: a file owns a value of type
//! `C` (in `unixd` an [`Extents`] list of Frame capabilities), which is dropped with the last name
//! and the last user of the inode. [`walk`] turns a path into an inode, over any tree that can
//! look a name up, so that a server can join other trees (`/proc`) to this one.
//!
//! A part of the tree can be one of which the names and attributes are kept elsewhere, too, where they survive ([`Keeper`]).
//! Of each part there can be [snapshots](Copies), in which nobody changes anything. What is in a directory can be
//! [read later](Lower), when somebody looks.
//!
//! Errors are those of Linux, in the order in which Linux finds them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attributes;
mod dir;
mod extents;
mod fs;
mod keep;
mod lower;
mod modify;
mod names;
mod perm;
mod rename;
mod snapshot;
mod volume;
mod walk;

pub use dir::{Dir, DirEntry, Unread, FIRST_COOKIE};
pub use extents::{Extent, Extents};
pub use fs::{Attr, Fs, Hidden, Ino, Inode, Node, Shown};
pub use keep::{Attributes, Keeper, Kept, KeptCopy, KeptName, SetXattr, What};
pub use lower::{Known, Lower, UNREAD};
pub use perm::{Cred, Guard, EXEC, READ, WRITE};
pub use snapshot::{Copies, Part, SNAPSHOTS};
pub use volume::Volume;
pub use walk::{
    walk, walk_from, Found, Name, Names, Resolve, Step, Walk, NAME_MAX, PATH_MAX, SYMLINKS_MAX,
};

/// The largest size of a file.
pub const SIZE_MAX: u64 = 1 << 46;
