//! Records: what an image says of a file.

use unixproto::files::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK};

/// Bytes of a record, without the name.
pub(crate) const BYTES: usize = 64;
/// Most bytes of the text of a symbolic link.
pub const TEXT_MAX: u64 = 4095;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
}

/// What an image says of a file of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names in the image (of a directory: those that lead to it, `.` and `..` included).
    pub links: u32,
    /// Bytes: of a file; of the rows of a directory; of the text of a symbolic link.
    pub size: u64,
    /// The first byte of a file, or of a directory's rows, in the image.
    pub place: u64,
    /// Last change of the contents, nanoseconds since 1970.
    pub mtime: i64,
    /// Number of a device.
    pub device: u64,
    /// Files with the same number, which is not zero, are one file with several names.
    pub link: u32,
}

impl Record {
    /// What it is; `None` if the mode says nothing that there is.
    pub fn kind(&self) -> Option<Kind> {
        Some(match self.mode & S_IFMT {
            S_IFREG => Kind::File,
            S_IFDIR => Kind::Dir,
            S_IFLNK => Kind::Symlink,
            S_IFCHR => Kind::Char,
            S_IFBLK => Kind::Block,
            S_IFIFO => Kind::Fifo,
            S_IFSOCK => Kind::Socket,
            _ => return None,
        })
    }

    /// The first byte behind what it places in the image.
    pub fn end(&self) -> Option<u64> {
        self.place.checked_add(self.size)
    }

    /// The record, for a name of so many bytes.
    pub(crate) fn encode(&self, name: usize) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        [self.mode, self.uid, self.gid, self.links]
            .into_iter()
            .for_each(|word| put(&word.to_le_bytes()));
        [self.size, self.place, self.mtime as u64, self.device]
            .into_iter()
            .for_each(|word| put(&word.to_le_bytes()));
        [self.link, name as u32].into_iter().for_each(|word| put(&word.to_le_bytes()));
        bytes
    }

    /// A record, and the bytes of its name; `None` if there are too few bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
        let bytes: &[u8; BYTES] = bytes.first_chunk()?;
        let half = |at: usize| u32::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        let record = Record {
            mode: half(0),
            uid: half(4),
            gid: half(8),
            links: half(12),
            size: word(16),
            place: word(24),
            mtime: word(32) as i64,
            device: word(40),
            link: half(48),
        };
        Some((record, half(52) as usize))
    }
}
