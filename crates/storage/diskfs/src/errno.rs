//! Linux's numbers for what goes wrong.

use rsext4::{Ext4Error, Ext4ErrorKind};

/// An error, as an answer has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub u16);

#[rustfmt::skip]
#[allow(missing_docs)]
impl Errno {
    pub const EPERM: Errno = Errno(1);
    pub const ENOENT: Errno = Errno(2);
    pub const EIO: Errno = Errno(5);
    pub const EBADF: Errno = Errno(9);
    pub const ENOMEM: Errno = Errno(12);
    pub const EACCES: Errno = Errno(13);
    pub const EBUSY: Errno = Errno(16);
    pub const EEXIST: Errno = Errno(17);
    pub const ENOTDIR: Errno = Errno(20);
    pub const EISDIR: Errno = Errno(21);
    pub const EINVAL: Errno = Errno(22);
    pub const EFBIG: Errno = Errno(27);
    pub const ENOSPC: Errno = Errno(28);
    pub const EROFS: Errno = Errno(30);
    pub const EMLINK: Errno = Errno(31);
    pub const ENAMETOOLONG: Errno = Errno(36);
    pub const ENOTEMPTY: Errno = Errno(39);
    pub const EOVERFLOW: Errno = Errno(75);
    pub const EOPNOTSUPP: Errno = Errno(95);
    pub const ETIMEDOUT: Errno = Errno(110);
    pub const EUCLEAN: Errno = Errno(117);
    pub const EDQUOT: Errno = Errno(122);
}

impl From<Ext4Error> for Errno {
    fn from(error: Ext4Error) -> Errno {
        match error.kind() {
            Ext4ErrorKind::Io | Ext4ErrorKind::BadFileDescriptor => Errno::EIO,
            Ext4ErrorKind::Corrupted | Ext4ErrorKind::ChecksumMismatch => Errno::EUCLEAN,
            Ext4ErrorKind::UnsupportedFeature
            | Ext4ErrorKind::BadSuperblock
            | Ext4ErrorKind::InvalidMagic
            | Ext4ErrorKind::InvalidInput => Errno::EINVAL,
            Ext4ErrorKind::UnsupportedCapability | Ext4ErrorKind::Unsupported => Errno::EOPNOTSUPP,
            Ext4ErrorKind::ReadOnly | Ext4ErrorKind::JournalAborted => Errno::EROFS,
            Ext4ErrorKind::NoSpace => Errno::ENOSPC,
            Ext4ErrorKind::NoMemory => Errno::ENOMEM,
            Ext4ErrorKind::QuotaExceeded => Errno::EDQUOT,
            Ext4ErrorKind::TooManyLinks => Errno::EMLINK,
            Ext4ErrorKind::PermissionDenied => Errno::EPERM,
            Ext4ErrorKind::NotFound => Errno::ENOENT,
            Ext4ErrorKind::AlreadyExists => Errno::EEXIST,
            Ext4ErrorKind::NotDirectory => Errno::ENOTDIR,
            Ext4ErrorKind::IsDirectory => Errno::EISDIR,
            Ext4ErrorKind::NotEmpty => Errno::ENOTEMPTY,
            Ext4ErrorKind::Busy => Errno::EBUSY,
            Ext4ErrorKind::Overflow => Errno::EOVERFLOW,
            Ext4ErrorKind::FileTooLarge => Errno::EFBIG,
            Ext4ErrorKind::Timeout => Errno::ETIMEDOUT,
        }
    }
}
