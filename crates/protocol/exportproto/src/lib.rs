//! The stream in which `unixd` hands files out of the machine when a session is over.
//!
//! What is wanted is a list of [patterns](glob), absolute paths in the guest, each with a NUL behind it
//! ([`WANTED`] in the boot archive). The stream is [`MAGIC`], then records: a [`Header`], the bytes of its path and
//! of its text, and behind a file its contents.
//!
//! | kind | path | text |
//! |---|---|---|
//! | [`Match`](Kind::Match) | what a pattern stands for: an absolute path | |
//! | [`Directory`](Kind::Directory), [`File`](Kind::File), [`Symlink`](Kind::Symlink) | relative to the match; empty for itself | where a link leads |
//! | [`Skipped`](Kind::Skipped): a device, fifo or socket | likewise | |
//! | [`Failed`](Kind::Failed): a file that cannot be read | likewise | |
//! | [`Nothing`](Kind::Nothing): there is nothing of a pattern | | |
//! | [`End`](Kind::End) | | |
//!
//! A directory comes before what is in it. Contents are [`Run`]s of bytes, in order, up to one without bytes; what
//! they leave out is zeros. Numbers are little-endian. It is not an archive in a known format: those have
//! sizes before contents with holes, or times of seconds, or sizes of 32 bits.
//!
//! Whoever reads it trusts nothing: paths can be anything, and the end can be missing.
#![no_std]
#![forbid(unsafe_code)]

pub mod glob;

/// The file of the boot archive with the patterns.
pub const WANTED: &str = "boot/export";
/// What the stream begins with; the last byte counts its versions.
pub const MAGIC: [u8; 8] = *b"tessera\x01";
/// Most bytes of a path or a text. A longer one is [`Kind::Failed`].
pub const PATH_MAX: usize = 1 << 16;

/// What a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Something that a pattern stands for. What follows is relative to it.
    Match = 1,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// There is nothing of a pattern.
    Nothing,
    /// Neither a directory, a regular file nor a link.
    Skipped,
    /// Something that cannot be read.
    Failed,
    /// Everything has been sent.
    End,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Match,
        Kind::Directory,
        Kind::File,
        Kind::Symlink,
        Kind::Nothing,
        Kind::Skipped,
        Kind::Failed,
        Kind::End,
    ];
}

/// The beginning of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is about.
    pub kind: Kind,
    /// Which of the patterns.
    pub pattern: u32,
    /// Permission bits, 12 of them.
    pub mode: u32,
    /// Bytes of the path.
    pub path: u32,
    /// Bytes of the text.
    pub text: u32,
    /// Size of a regular file, in bytes.
    pub size: u64,
    /// Last change of the contents, nanoseconds since 1970.
    pub mtime: i64,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 40;

    /// One that says nothing but what it is about, and which pattern.
    pub fn of(kind: Kind, pattern: u32) -> Header {
        Header { kind, pattern, mode: 0, path: 0, text: 0, size: 0, mtime: 0 }
    }

    /// As it is sent.
    pub fn to_bytes(self) -> [u8; Header::BYTES] {
        let Header { kind, pattern, mode, path, text, size, mtime } = self;
        let mut bytes = [0; Header::BYTES];
        for (index, word) in [kind as u32, pattern, mode, path, text].into_iter().enumerate() {
            bytes[4 * index..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..32].copy_from_slice(&size.to_le_bytes());
        bytes[32..].copy_from_slice(&mtime.to_le_bytes());
        bytes
    }

    /// What was sent; `None` if nobody who keeps to the protocol sends that.
    pub fn from_bytes(bytes: &[u8; Header::BYTES]) -> Option<Header> {
        let half = |index: usize| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|byte| bytes[4 * index + byte]);
            u32::from_le_bytes([a, b, c, d])
        };
        let word = |index: usize| u64::from(half(index)) | u64::from(half(index + 1)) << 32;
        let header = Header {
            kind: Kind::ALL.into_iter().find(|kind| *kind as u32 == half(0))?,
            pattern: half(1),
            mode: half(2),
            path: half(3),
            text: half(4),
            size: word(6),
            mtime: word(8) as i64,
        };
        let short = [header.path, header.text].into_iter().all(|len| len as usize <= PATH_MAX);
        short.then_some(header)
    }
}

/// A part of a file's contents. Its bytes follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it is in the file.
    pub offset: u64,
    /// How many bytes; none at the end of the contents ([`Run::END`], [`Run::FAILED`]).
    pub bytes: u64,
}

impl Run {
    /// All contents have been sent.
    pub const END: Run = Run { offset: 0, bytes: 0 };
    /// They have been sent, but not all of them could be read.
    pub const FAILED: Run = Run { offset: u64::MAX, bytes: 0 };
    /// Bytes of a run's description.
    pub const BYTES: usize = 16;

    /// As it is sent.
    pub fn to_bytes(self) -> [u8; Run::BYTES] {
        (u128::from(self.bytes) << 64 | u128::from(self.offset)).to_le_bytes()
    }

    /// What was sent.
    pub fn from_bytes(bytes: [u8; Run::BYTES]) -> Run {
        let both = u128::from_le_bytes(bytes);
        Run { offset: both as u64, bytes: (both >> 64) as u64 }
    }
}

/// The components of a path in the machine: `None` unless each is a name that leads no higher.
pub fn names(path: &[u8]) -> Option<impl Iterator<Item = &[u8]> + Clone> {
    const NAME_MAX: usize = 255;
    let names = path.split(|&byte| byte == b'/').filter(move |_| !path.is_empty());
    let good = |name: &[u8]| {
        !matches!(name, b"" | b"." | b"..") && name.len() <= NAME_MAX && !name.contains(&0)
    };
    names.clone().all(good).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_runs_come_back() {
        for kind in Kind::ALL {
            let header = Header {
                kind,
                pattern: 1,
                mode: 0o4755,
                path: 3,
                text: PATH_MAX as u32,
                size: u64::MAX,
                mtime: -7,
            };
            assert_eq!(Header::from_bytes(&header.to_bytes()), Some(header));
        }
        let run = Run { offset: 1 << 40, bytes: 12345 };
        assert_eq!(Run::from_bytes(run.to_bytes()), run);
    }

    #[test]
    fn what_nobody_sends_is_refused() {
        let mut bytes = Header::of(Kind::End, 0).to_bytes();
        assert!(Header::from_bytes(&bytes).is_some());
        bytes[0] = 99;
        assert_eq!(Header::from_bytes(&bytes), None);
        let long = Header { path: PATH_MAX as u32 + 1, ..Header::of(Kind::File, 0) };
        assert_eq!(Header::from_bytes(&long.to_bytes()), None);
    }

    #[test]
    fn names_lead_no_higher() {
        let count = |path: &[u8]| names(path).map(Iterator::count);
        assert_eq!(count(b""), Some(0));
        assert_eq!(count(b"a/b c/..d"), Some(3));
        for wrong in [&b"/a"[..], b"a/", b"a//b", b"..", b"a/../b", b"./a", b"a\0b", &[b'a'; 256]] {
            assert_eq!(count(wrong), None);
        }
    }
}
