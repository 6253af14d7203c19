//! Words that the whole crate uses.

use core::fmt;
pub use paging::PAGE;

/// Pages of a chunk of the amap: what one CNode holds.
pub const CHUNK_PAGES: u64 = 256;
/// Pages of a region: what one last-level table maps.
pub const REGION_PAGES: u64 = 512;
/// Regions of a giant: what one entry above the directories maps. Tests use all of one that is small.
pub(crate) const GIANT_REGIONS: u64 = if cfg!(test) { 2 } else { 512 };

/// What a program may do with its pages. A set of bits, as in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Prot(pub u8);

impl Prot {
    /// Nothing.
    pub const NONE: Prot = Prot(0);
    /// `PROT_READ`.
    pub const READ: Prot = Prot(1);
    /// `PROT_WRITE`.
    pub const WRITE: Prot = Prot(2);
    /// `PROT_EXEC`.
    pub const EXEC: Prot = Prot(4);
    /// All three.
    pub const ALL: Prot = Prot(7);

    /// The rights in either.
    pub const fn or(self, other: Prot) -> Prot {
        Prot(self.0 | other.0)
    }
    /// The rights in both.
    pub const fn and(self, other: Prot) -> Prot {
        Prot(self.0 & other.0)
    }
    /// Are all of `other` in `self`?
    #[inline]
    pub const fn has(self, other: Prot) -> bool {
        self.0 & other.0 == other.0
    }
    /// Without the right to write. On x86 a page that can be written can be read.
    #[inline]
    pub const fn read_only(self) -> Prot {
        Prot(self.0 & !2 | (self.0 != 0) as u8)
    }
    /// May a page with these rights be used so? On x86 every page that can be used can be read.
    #[inline]
    pub const fn allows(self, access: Access) -> bool {
        match access {
            Access::Read => self.0 != 0,
            Access::Write => self.has(Prot::WRITE),
            Access::Exec => self.has(Prot::EXEC),
        }
    }
}

impl fmt::Display for Prot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bit = |prot, c| if self.has(prot) { c } else { '-' };
        write!(f, "{}{}{}", bit(Prot::READ, 'r'), bit(Prot::WRITE, 'w'), bit(Prot::EXEC, 'x'))
    }
}

/// How a page is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Exec,
}

/// Why an operation on the address space failed: the errors of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// `EINVAL`.
    Invalid,
    /// `ENOMEM`.
    NoMemory,
    /// `EEXIST`.
    Exists,
    /// `EACCES`.
    Access,
    /// `EPERM`.
    Permission,
    /// `EFAULT`.
    Fault,
    /// `EAGAIN`.
    Again,
    /// `EOVERFLOW`.
    Overflow,
    /// `EOPNOTSUPP`.
    NotSupported,
}

pub use tables::NoMemory;

/// The backend has not done what was asked, or only a part of it: the kernel refuses. It does so if a
/// capability that should be this process's alone is not, or is not there.
///
/// To the program it is a want of memory: every call that changes mappings may fail for that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

impl From<Refused> for NoMemory {
    fn from(_: Refused) -> NoMemory {
        NoMemory
    }
}

impl From<NoMemory> for Error {
    fn from(_: NoMemory) -> Error {
        Error::NoMemory
    }
}

impl From<NoMemory> for FaultError {
    fn from(_: NoMemory) -> FaultError {
        FaultError::NoMemory
    }
}

/// Why a page cannot be used: what signal the program gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultError {
    /// Nothing is mapped there (`SIGSEGV`, `SEGV_MAPERR`).
    NotMapped,
    /// The mapping does not allow it (`SIGSEGV`, `SEGV_ACCERR`).
    NoAccess,
    /// The mapped file has no such page (`SIGBUS`, `BUS_ADRERR`).
    NoPage,
    /// There is no memory for it.
    NoMemory,
}
