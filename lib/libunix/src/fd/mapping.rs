//! Files as memory objects: what the address space needs to map them.
//!
//! An object is an open file, named by its index: it stays what it is after its descriptors are
//! closed, as long as the address space holds it. These functions touch descriptors only, never
//! memory, so that a fault can use them.

use super::{Fds, File, Object};
use crate::errno::{Errno, Result};
use crate::server::{self, op, Caps};
use captypes::Place;
use unixproto::files::{Kind, O_ACCMODE, O_RDWR};

/// What a mapping of a descriptor is made of.
pub enum Target {
    /// Pages of a file, which the caller now holds; see [`Fds::drop_object`].
    File {
        /// The object.
        object: u32,
        /// May a shared mapping of it be made writable?
        writable: bool,
    },
    /// `/dev/zero`: anonymous memory.
    Zero,
}

/// What an object has at some page.
pub enum Pages {
    /// A Frame has arrived: it holds the object's bytes `start..start + bytes`.
    Frame { start: u64, bytes: u64 },
    /// Zeros that nobody has written to.
    Hole { start: u64, bytes: u64 },
    /// Nothing: the page is behind the end of the file.
    Beyond,
}

const PAGE: u64 = 4096;

impl Fds {
    /// The object behind `fd`. `shared_write`: a shared mapping that is writable now. Errors as
    /// `mmap`'s: `EBADF`, `EACCES`, `ENODEV`.
    pub fn object(&mut self, fd: i32, shared_write: bool) -> Result<Target> {
        let file = self.get(fd)?;
        let (_, kind, _) = file.description(Errno::ENODEV)?;
        if kind == Kind::Path {
            return Err(Errno::EBADF);
        }
        if !file.readable() || shared_write && file.flags & O_ACCMODE != O_RDWR {
            return Err(Errno::EACCES);
        }
        let writable = file.writable();
        match kind {
            Kind::Regular => {
                let object = self.index(fd)?;
                self.hold(object);
                Ok(Target::File { object, writable })
            }
            Kind::Zero => Ok(Target::Zero),
            _ => Err(Errno::ENODEV),
        }
    }

    /// An object of shared anonymous memory: an unnamed file. The caller holds it.
    pub fn anonymous_object(&mut self, bytes: u64) -> Result<u32> {
        let opened = server::call(op::MemFile { size: bytes })?;
        let object = self.add_file(File::opened(opened, O_RDWR));
        self.hold(object);
        Ok(object)
    }

    /// One more mapping holds the object.
    pub fn keep_object(&mut self, object: u32) {
        self.hold(object);
    }

    /// One mapping less holds the object.
    pub fn drop_object(&mut self, object: u32) {
        self.release(object);
    }

    /// Inode number of an object: a name that all its mappings have in common.
    pub fn object_inode(&self, object: u32) -> u64 {
        match self.at(object).map(|file| &file.object) {
            Ok(Object::Description { inode, .. }) => *inode,
            _ => 0,
        }
    }

    /// Gets the Frame that holds the byte at `offset`, into the empty slot `slot`. With `fill` a
    /// hole gets memory first, if the file was opened for writing.
    pub fn object_pages(&self, object: u32, offset: u64, fill: bool, slot: Place) -> Result<Pages> {
        let file = self.at(object)?;
        let (desc, ..) = file.description(Errno::ENODEV)?;
        let request = op::FileExtent { desc, offset, write: fill && file.writable() };
        let (extent, received) = match server::call_caps(request, 0, 0, Caps::receive(slot)) {
            Ok(answer) => answer,
            Err(Errno::ENXIO) => return Ok(Pages::Beyond),
            Err(error) => return Err(error),
        };
        let (start, bytes) = (extent.start, extent.bytes);
        if received > 0 {
            return Ok(Pages::Frame { start, bytes });
        }
        if offset >= extent.size.next_multiple_of(PAGE) {
            return Ok(Pages::Beyond);
        }
        Ok(Pages::Hole { start, bytes })
    }
}
