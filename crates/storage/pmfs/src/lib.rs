//! Names and attributes of a persistent file system.
//!
//! A *metadata area* is an array of 64-bit words that survives when the power fails. In it are inodes, names, symbolic
//! links and extended attributes. Contents of files are elsewhere: an inode of a regular file names them by a number
//! ([`What::File`]), or none while the file is empty. Permissions, times and the order of errors are the caller's business.
//!
//! | operation | where |
//! |---|---|
//! | [`format`], [`Mount`] | `format`, `mount` |
//! | [`create`](Fs::create), [`create_unnamed`](Fs::create_unnamed), [`link`](Fs::link), [`unlink`](Fs::unlink), [`rmdir`](Fs::rmdir), [`hold`](Fs::hold), [`release`](Fs::release) | `modify` |
//! | [`rename`](Fs::rename) | `rename` |
//! | [`snapshot`](Fs::snapshot), [`remove_tree`](Fs::remove_tree) | `tree` |
//! | [`stat`](Fs::stat), [`set_attr`](Fs::set_attr), [`set_content`](Fs::set_content), [`exchange_contents`](Fs::exchange_contents), [`read_link`](Fs::read_link) | `attributes` |
//! | [`lookup`](Fs::lookup), [`read_dir`](Fs::read_dir), [`parent`](Fs::parent), [`name_of`](Fs::name_of) | `names` |
//! | [`xattr`](Fs::xattr), [`xattrs`](Fs::xattrs), [`set_xattr`](Fs::set_xattr), [`remove_xattr`](Fs::remove_xattr) | `xattr` |
//!
//! # What one may rely on when the power fails
//!
//! * An operation that returned `Ok` is found by the next mount; one that did not return has happened or has not.
//! * An operation that returned an error has changed nothing.
//! * What has no name after a power failure is gone: files that were removed while somebody held them, files that never
//!   had a name. So are contents that no file names: the caller asks [`Fs::content_owner`] for each that it finds.
//! * An area that these algorithms cannot have left so is refused as [damaged](Refused::Damaged), and nothing is
//!   written to it.
//!
//! # How
//!
//! Everything is in lines of 64 bytes. A *head* (an inode, a name, an attribute) is there if the first word of its line says
//! so; what does not fit into its line is in a chain of others. There is no directory structure and no list of free lines:
//! a name says in which directory it is, and the mount finds everything by one scan. An operation is
//!
//! ```text
//! write bodies to free lines ─► fence ─► write the record ─► fence ─► change the words that the record lists
//!                                 │                            │
//!              bodies are safe, and so is what        from here on the
//!              the operation before has changed       operation has happened
//! ```
//!
//! The record is complete if all of its lines carry the number of the operation, which is the last word that is stored to
//! each of them. A mount reads the area as if a complete record had been carried out, and carries it out when nothing is
//! wrong with what it sees.
//!
//! # How a server uses it
//!
//! Beside a tree in memory that walks paths and checks permissions: at start the server makes its inodes from those found here
//! ([`Fs::read_dir`] from [`Fs::root`] downwards; an [`Ino`] with more than one name comes once for each); each change is
//! checked in memory, made here, and only if that succeeds made in memory. Or as the tree itself: everything that a walk asks
//! is answered from an index in memory, in logarithmic time.
//!
//! Contents are made before the file that names them, and destroyed after: what an operation returns as [`Gone`] is
//! to be destroyed by the caller, whenever it likes.
//!
//! ```
//! use pmfs::{Attr, Fs, Mount, What};
//! # use std::cell::RefCell;
//! # struct Words(RefCell<Vec<u64>>);
//! # impl pmfs::Area for Words {
//! #     fn words(&self) -> u64 { self.0.borrow().len() as u64 }
//! #     fn load(&self, word: u64) -> u64 { self.0.borrow()[word as usize] }
//! #     fn store(&self, word: u64, value: u64) { self.0.borrow_mut()[word as usize] = value }
//! #     fn write_back(&self, _: u64) {}
//! #     fn fence(&self) {}
//! # }
//! # let area = Words(RefCell::new(vec![0; 4096]));
//! pmfs::format(&area, Attr { mode: 0o755, ..Attr::default() }).expect("large enough");
//! let mount = |is_there: &dyn Fn(u32) -> bool| {
//!     let mut mount = Mount::new(&area, 1)?;
//!     while !mount.step(is_there)? {}
//!     mount.finish()
//! };
//! let mut fs = mount(&|_| true).expect("formatted");
//! let now = 1_000_000_000;
//! let dir = fs.create(fs.root(), b"d", What::Dir, Attr { mode: 0o755, ..Attr::default() }, now).unwrap();
//! let file = fs.create(dir, b"f", What::File(Some(7)), Attr { mode: 0o644, ..Attr::default() }, now).unwrap();
//! fs.hold(file);
//! assert!(fs.unlink(dir, b"f", now).unwrap().is_none());
//! let gone = fs.release(file).expect("nobody else holds it, and it has no name");
//! assert_eq!(gone.content, Some(7)); // The caller destroys them.
//!
//! let fs = mount(&|_| true).expect("as it was left");
//! let names: Vec<_> = fs.read_dir(fs.root(), 0).unwrap().map(|entry| entry.name).collect();
//! assert_eq!(names, [b"d"]);
//! assert_eq!(fs.content_owner(7), None); // If they were still there, they would be destroyed now.
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod area;
mod attributes;
mod chain;
mod format;
mod fs;
mod index;
mod layout;
mod log;
mod modify;
mod mount;
mod names;
mod rename;
mod space;
mod tree;
mod xattr;

pub use area::Area;
pub use format::format;
pub use fs::{Attr, Error, Fs, Gone, Ino, Kind, Space, Stat, What};
pub use mount::{Mount, Refused};
pub use names::DirEntry;
pub use rename::How;
pub use tree::{Contents, Copied};
pub use xattr::SetXattr;

/// Bytes of a name of a file or of an extended attribute.
pub const NAME_MAX: usize = 255;
/// Bytes of the text of a symbolic link.
pub const SYMLINK_MAX: usize = 4095;
/// Bytes of the value of an extended attribute.
pub const XATTR_MAX: usize = 65536;
/// Extended attributes of an inode: all are freed together with it, by one record.
pub const XATTRS_MAX: usize = 128;
