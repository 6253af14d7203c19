//! Files: names, attributes (crate `memfs`) and contents.
//!
//! Contents are extents, each a piece of memory that processes map. Where memory comes from and how
//! it is written is the server's business: what must happen there and then it does through
//! [`Memory`]; what may happen later, or concerns others, is returned: what to map
//! ([`Files::piece`]), that an inode is gone ([`Files::release`]), that a writer is to be told of its
//! limit ([`Refusal::Limit`]). So everything here runs, and is tested, on the host.
//!
//! A file of the boot archive is a read-only part of the archive's own memory, made an extent when
//! somebody first asks for it. The first change gives the file memory of its own.
#![no_std]
#![forbid(unsafe_code)]

mod content;

pub use content::{Claim, Content, Piece, Refusal, Writer, GRANT_MAX};

use memfs::{Attr, Fs, Ino, Node};
use paging::PAGE;
use piecewise::Limits;
use unixproto::Errno;

/// What contents of files are made of.
pub trait Memory {
    /// A piece of memory. It is given back when it is dropped.
    type Frame;

    /// Zeroed memory for a file of a user, in bytes; `ENOSPC` if there is not as much.
    fn allocate(&mut self, bytes: u64, user: u32) -> Result<Self::Frame, Errno>;

    /// A part of the boot archive, as it lies, to be read only.
    fn archived(&mut self, offset: u64, bytes: u64) -> Result<Self::Frame, Errno>;

    /// Copies a part of the boot archive to the start of a piece.
    fn copy_archived(&mut self, offset: u64, bytes: u64, to: &Self::Frame) -> Result<(), Errno>;

    /// Copies bytes into a piece.
    fn write(&mut self, to: &Self::Frame, offset: u64, data: &[u8]) -> Result<(), Errno>;

    /// Copies bytes out of a piece.
    fn read(&mut self, from: &Self::Frame, offset: u64, data: &mut [u8]) -> Result<(), Errno>;

    /// Clears the bytes of a piece from `from` up to `to`.
    fn clear(&mut self, frame: &Self::Frame, from: u64, to: u64) -> Result<(), Errno>;

    /// Takes a piece away from everybody to whom it was given to be mapped. They may ask for it again.
    fn revoke(&mut self, frame: &Self::Frame) -> Result<(), Errno>;
}

/// All files.
pub struct Files<M: Memory> {
    names: Fs<Content<M::Frame>>,
    memory: M,
    /// Layout number of the last change of extents.
    layout: u32,
}

impl<M: Memory> Files<M> {
    /// An empty root directory with these attributes.
    pub fn new(limits: Limits, root: Attr, memory: M) -> Self {
        Files { names: Fs::new(limits, root), memory, layout: 0 }
    }

    /// Names and attributes.
    #[inline]
    pub fn names(&self) -> &Fs<Content<M::Frame>> {
        &self.names
    }

    /// The same, to be changed; files are made by [`Files::create`] and [`Files::create_unnamed`].
    #[inline]
    pub fn names_mut(&mut self) -> &mut Fs<Content<M::Frame>> {
        &mut self.names
    }

    /// What the files are made of.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Ends a [`Fs::hold`]. Returns `true` if the inode is gone with it.
    pub fn release(&mut self, ino: Ino) -> bool {
        self.names.release(ino);
        self.names.get(ino).is_err()
    }

    /// Makes an empty regular file.
    pub fn create(&mut self, dir: Ino, name: &[u8], attr: Attr) -> Result<Ino, Errno> {
        let node = Node::File { size: 0, content: Content::default() };
        let ino = self.names.create(dir, name, node, attr)?;
        self.renew_layout(ino)?;
        Ok(ino)
    }

    /// Makes a regular file without a name that is all zeros, held once.
    pub fn create_unnamed(&mut self, size: u64, attr: Attr) -> Result<Ino, Errno> {
        let node = Node::File { size, content: Content::default() };
        let ino = self.names.create_unnamed(node, attr)?;
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
}
