//! What can go wrong with a program's memory.

use captypes::Status;
use core::fmt;

/// Why a memory operation was refused, or a page fault could not be resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The kernel or the memory server refused something.
    Kernel(Status),
    /// An address, offset or size is no multiple of the page size, or is zero bytes.
    Misaligned,
    /// The range is not inside of the object or of the addresses that are managed.
    OutOfRange,
    /// The addresses are in use.
    Occupied,
    /// No region is there.
    NotMapped,
    /// The region does not allow this access.
    NotAllowed,
    /// There is no page of the object there.
    NoPage,
    /// The object or the address space is in use further up the stack, or takes no second mapping.
    Busy,
    /// The range cuts through a page table that another domain shares.
    Shared,
    /// No memory for records.
    OutOfMemory,
    /// The backing store failed.
    Store,
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::Kernel(status)
    }
}

impl From<selfpaging::OutOfMemory> for Error {
    fn from(_: selfpaging::OutOfMemory) -> Self {
        Error::OutOfMemory
    }
}

impl From<pmap::OutOfMemory> for Error {
    fn from(_: pmap::OutOfMemory) -> Self {
        Error::OutOfMemory
    }
}

impl From<alloc::collections::TryReserveError> for Error {
    fn from(_: alloc::collections::TryReserveError) -> Self {
        Error::OutOfMemory
    }
}

impl From<selfpaging::InsertError> for Error {
    fn from(error: selfpaging::InsertError) -> Self {
        match error {
            selfpaging::InsertError::OutOfRange => Error::OutOfRange,
            selfpaging::InsertError::Occupied => Error::Occupied,
            selfpaging::InsertError::OutOfMemory => Error::OutOfMemory,
        }
    }
}

impl From<pmap::Error<Status>> for Error {
    fn from(error: pmap::Error<Status>) -> Self {
        match error {
            pmap::Error::Misaligned => Error::Misaligned,
            pmap::Error::OutOfRange => Error::OutOfRange,
            pmap::Error::Occupied => Error::Occupied,
            pmap::Error::NotMapped => Error::NoPage,
            pmap::Error::Foreign => Error::Shared,
            pmap::Error::OutOfMemory => Error::OutOfMemory,
            pmap::Error::Backend(status) => Error::Kernel(status),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let text = match self {
            Error::Kernel(status) => return write!(f, "the kernel refused: {status:?}"),
            Error::Misaligned => "not a multiple of the page size",
            Error::OutOfRange => "out of range",
            Error::Occupied => "addresses in use",
            Error::NotMapped => "nothing is mapped there",
            Error::NotAllowed => "the region does not allow that",
            Error::NoPage => "the object has no page there",
            Error::Busy => "in use",
            Error::Shared => "part of a shared page table",
            Error::OutOfMemory => "out of memory",
            Error::Store => "the backing store failed",
        };
        f.write_str(text)
    }
}

impl core::error::Error for Error {}
