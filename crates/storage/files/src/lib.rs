//! Files: names, attributes (crate `memfs`) and contents.
//!
//! Contents are objects ([`Memory::Object`]), which processes map. Where memory comes from and how
//! it is written is the server's business: what must happen there and then it does through
//! [`Memory`]; what may happen later, or concerns others, is returned: what to map
//! ([`Files::piece`]), that an inode is gone ([`Files::release`]), that a writer is to be told of its
//! limit ([`Refusal::Limit`]). So everything here runs, and is tested, on the host.
//!
//! In a part of the tree that somebody keeps ([`memfs::Keeper`]) the object of a file survives, and has a number by which it is
//! found again; elsewhere it goes with the file.
//!
//! A file of the boot archive is a read-only part of the archive's own memory, made an extent when
//! somebody first asks for it. The first change gives the file an object. The same is true of files of a root image, which
//! lie behind the archive, as far as offsets are concerned.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod content;
mod object;
mod snapshot;

pub use content::{Backing, Claim, Content, Contents, Piece, PieceOf, Refusal, Writer, GRANT_MAX};
pub use object::{Allocation, Stored};

use alloc::vec::Vec;
use memfs::{Attr, Fs, Ino, Lower, Node};
use paging::PAGE;
use piecewise::Limits;
use unixproto::Errno;

/// What contents of files are made of.
pub trait Memory {
    /// A piece of memory that is only read. It is given back when it is dropped.
    type Frame;

    /// All bytes of a file, of whose pages some may be missing, with a size behind which there is nothing. One that survives
    /// stays when this is dropped; any other is gone then, whoever has it mapped.
    type Object;

    /// A part of the boot archive, as it lies, to be read only.
    fn archived(&mut self, offset: u64, bytes: u64) -> Result<Self::Frame, Errno>;

    /// A page that begins with a copy of a part of the boot archive, on a user's account; `ENOSPC` if there is none.
    fn archived_end(&mut self, offset: u64, bytes: u64, user: u32) -> Result<Self::Frame, Errno>;

    /// How many bytes of a part of the boot archive can be mapped as they lie, in whole pages: what follows the others shows.
    fn mappable(offset: u64, bytes: u64) -> u64 {
        let _ = offset;
        bytes & !(PAGE - 1)
    }

    /// Copies bytes out of the boot archive.
    fn read_archived(&mut self, offset: u64, data: &mut [u8]) -> Result<(), Errno>;

    /// Takes a piece away from everybody to whom it was given to be mapped. They may ask for it again.
    fn revoke(&mut self, frame: &Self::Frame) -> Result<(), Errno>;

    /// Makes an object of so many zeros for a user's file that does not survive. So many bytes of it are
    /// [needed](Memory::populate_object) at once.
    fn make_object(&mut self, bytes: u64, needed: u64, user: u32) -> Result<Self::Object, Errno>;

    /// Makes an object of the size 0 that survives, and answers its number.
    fn create_object(&mut self) -> Result<(u32, Self::Object), Errno>;

    /// The object with a number.
    fn open_object(&mut self, number: u32) -> Result<Self::Object, Errno>;

    /// How many bytes an object can have, before it is made to be able to have more.
    fn most(object: &Self::Object) -> u64;

    /// Sets the size of an object. Returns `true` if another has taken its place, so that who has it mapped is to ask again.
    /// `ENOSPC`: it needs memory for that, and there is none for the user.
    fn resize_object(
        &mut self,
        object: &mut Self::Object,
        bytes: u64,
        user: u32,
    ) -> Result<bool, Errno>;

    /// Bytes that an object has now, which whoever has it may have [raised](Self::allow_object).
    fn limit(&self, object: &Self::Object) -> Result<u64, Errno>;

    /// Allows whoever has an object, and may write to it, to make it larger by up to so many bytes, as if it were asked for here. Answers up to which byte.
    fn allow_object(&mut self, object: &mut Self::Object, bytes: u64) -> Result<u64, Errno>;

    /// Makes the pages of an object that are missing between two bytes, on a user's account. Answers how far it came: no
    /// farther when there is no memory left for that user.
    fn populate_object(
        &mut self,
        object: &mut Self::Object,
        part: (u64, u64),
        user: u32,
    ) -> Result<u64, Errno>;

    /// Makes an object larger, but no larger than it can be without growing, and its pages from a byte on, if both can be had at once. If not, whatever was done of it is done again,
    /// or undone, by the one and the other.
    fn extend_object(&mut self, object: &mut Self::Object, bytes: u64, from: u64) -> bool;

    /// Of the pages of an object that are there, the first ones between two bytes, up to a hole.
    fn next_data(
        &self,
        object: &Self::Object,
        part: (u64, u64),
    ) -> Result<Option<(u64, u64)>, Errno>;

    /// Bytes of the pages of an object that are there, of those up to its size.
    fn allocated(&self, object: &Self::Object, size: u64) -> Result<u64, Errno>;

    /// Are all its pages there, up to a size, so that they stay until something is asked of it?
    fn is_full(&self, object: &Self::Object, size: u64) -> bool;

    /// As [`allocated`](Self::allocated), of an object with a number that nobody has open.
    fn allocated_in(&self, number: u32, size: u64) -> Result<u64, Errno>;

    /// Takes an object from all who have it: they ask for it again.
    fn revoke_object(&mut self, object: &Self::Object) -> Result<(), Errno>;

    /// Takes pages of an object away: there are zeros then.
    fn discard_object(
        &mut self,
        object: &mut Self::Object,
        from: u64,
        to: u64,
    ) -> Result<(), Errno>;

    /// Clears bytes of an object inside a page, unless the page is missing.
    fn clear_object(&mut self, object: &Self::Object, from: u64, to: u64) -> Result<(), Errno>;

    /// Copies bytes into an object, inside its size.
    fn write_object(&mut self, to: &Self::Object, offset: u64, data: &[u8]) -> Result<(), Errno>;

    /// Copies a part of the boot archive to the start of an object, inside its size.
    fn copy_archived(&mut self, offset: u64, bytes: u64, to: &Self::Object) -> Result<(), Errno>;

    /// Copies bytes out of an object, inside its size.
    fn read_object(
        &mut self,
        from: &Self::Object,
        offset: u64,
        data: &mut [u8],
    ) -> Result<(), Errno>;

    /// Returns when bytes of an object survive that were stored before.
    fn write_back_object(&mut self, object: &Self::Object, from: u64, to: u64)
        -> Result<(), Errno>;

    /// What is missing of an object is made in pages of 2 MiB from now on, where there are any; or no more.
    fn advise_object(&mut self, object: &Self::Object, large: bool) -> Result<(), Errno>;

    /// Is it so?
    fn is_large(object: &Self::Object) -> bool;

    /// What an object that survives has now it has after a power failure, whatever is stored later.
    fn commit_object(&mut self, object: &Self::Object) -> Result<(), Errno>;

    /// No more: what was written back counts.
    fn release_object(&mut self, object: &Self::Object) -> Result<(), Errno>;

    /// Another object of the same kind that has what this one has, with its number.
    fn clone_object(&mut self, object: &mut Self::Object) -> Result<(u32, Self::Object), Errno>;

    /// An object that survived and that no file has any more; with it, if it is at hand.
    fn destroy_object(&mut self, number: u32, object: Option<Self::Object>);
}

/// All files.
pub struct Files<M: Memory> {
    names: Fs<Contents<M>>,
    memory: M,
    /// Layout number of the last file whose contents were replaced.
    layout: u32,
}

impl<M: Memory> Files<M> {
    /// An empty root directory with these attributes.
    pub fn new(limits: Limits, root: Attr, memory: M) -> Self {
        Files { names: Fs::new(limits, root), memory, layout: 0 }
    }

    /// Names and attributes.
    #[inline]
    pub fn names(&self) -> &Fs<Contents<M>> {
        &self.names
    }

    /// The same, to be changed; files are made by [`Files::create`] and [`Files::create_unnamed`].
    #[inline]
    pub fn names_mut(&mut self) -> &mut Fs<Contents<M>> {
        &mut self.names
    }

    /// What the files are made of.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The same, to be looked at.
    pub fn memory_ref(&self) -> &M {
        &self.memory
    }

    /// Ends a [`Fs::hold`]. Returns `true` if the inode is gone with it.
    pub fn release(&mut self, ino: Ino) -> bool {
        self.names.release(ino);
        let Ok(inode) = self.names.get(ino) else { return true };
        if let Node::File { content, .. } = &inode.node {
            if content.may_be_closed() && !self.names.is_held(ino) {
                self.close_object(ino);
            }
        }
        false
    }

    /// Makes an empty regular file.
    pub fn create(&mut self, dir: Ino, name: &[u8], attr: Attr) -> Result<Ino, Errno> {
        let node = Node::File { size: 0, content: self.empty_in(dir)? };
        let ino = self.names.create(dir, name, node, attr)?;
        self.renew_layout(ino)?;
        Ok(ino)
    }

    /// Makes a regular file without a name that is all zeros, held once.
    pub fn create_unnamed(&mut self, size: u64, attr: Attr) -> Result<Ino, Errno> {
        let node = Node::File { size, content: Content::volatile() };
        let ino = self.names.create_unnamed(node, attr)?;
        self.renew_layout(ino)?;
        Ok(ino)
    }

    /// Makes an empty regular file without a name, held once, that can be given one in the part of the tree where a directory is.
    pub fn create_unnamed_in(&mut self, dir: Ino, attr: Attr) -> Result<Ino, Errno> {
        let node = Node::File { size: 0, content: self.empty_in(dir)? };
        let ino = self.names.create_unnamed_in(dir, node, attr)?;
        self.renew_layout(ino)?;
        Ok(ino)
    }

    /// Makes a regular file that lies in the boot archive.
    pub fn create_archived(
        &mut self,
        dir: Ino,
        name: &[u8],
        (offset, size): (u64, u64),
        attr: Attr,
    ) -> Result<Ino, Errno> {
        let content = Content::archived(offset, size);
        let ino = self.names.create(dir, name, Node::File { size, content }, attr)?;
        self.renew_layout(ino)?;
        Ok(ino)
    }

    /// What a regular file is that lies in the boot archive, for [`Files::read_in`].
    pub fn archived(offset: u64, size: u64) -> Node<Contents<M>> {
        Node::File { size, content: Content::archived(offset, size) }
    }

    /// A directory that was still to be read has these names ([`Fs::read_in`]).
    ///
    /// # Errors
    /// There is no memory, or there are too many inodes; then it is still to be read.
    pub fn read_in(&mut self, dir: Ino, all: Vec<Lower<Contents<M>>>) -> Result<Vec<Ino>, Errno> {
        let made = self.names.read_in(dir, all)?;
        for &ino in &made {
            if matches!(self.names.get(ino)?.node, Node::File { .. }) {
                self.number(ino)?;
            }
        }
        Ok(made)
    }
}
