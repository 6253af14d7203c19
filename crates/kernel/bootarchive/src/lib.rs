//! Reads the boot archive: a cpio archive in the "newc" format whose file contents start at
//! multiples of a page, so that each can be mapped as it lies.
//!
//! An entry is a header of 110 bytes of ASCII (a magic and thirteen numbers of eight hexadecimal
//! digits), the name with its NUL, zeros up to a multiple of four, the contents, zeros likewise.
//! Entries named [`PAD`] only move the contents behind them to a page boundary. The archive comes
//! from outside: whatever its bytes are, reading ends, and with a typed error where it is damaged.
#![no_std]
#![forbid(unsafe_code)]

/// Name of the entries that only fill space.
pub const PAD: &[u8] = b".pad";
const TRAILER: &[u8] = b"TRAILER!!!";
const MAGIC: &[u8] = b"070701";
const HEADER: usize = 110;

/// What an entry is, from the type bits of its mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; its contents are the target.
    Symlink,
    /// Anything else: devices, pipes, sockets.
    Other,
}

/// Why the archive cannot be read further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It ends inside an entry, or before its trailer.
    Truncated {
        /// Where that entry starts.
        at: usize,
    },
    /// There is no header where one should be.
    NoHeader {
        /// Where.
        at: usize,
    },
}

/// A file, directory or link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its path, as written: not checked, not normalised, may not be UTF-8.
    pub path: &'a [u8],
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970.
    pub mtime: u32,
    /// Major and minor number of a device file.
    pub device: (u32, u32),
    /// Where the contents start in the archive, in bytes.
    pub offset: usize,
    /// The contents.
    pub data: &'a [u8],
}

impl Entry<'_> {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self.mode & 0o170000 {
            0o100000 => Kind::File,
            0o040000 => Kind::Directory,
            0o120000 => Kind::Symlink,
            _ => Kind::Other,
        }
    }
}

/// All entries of an archive, in order. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    archive: &'a [u8],
    at: Option<usize>,
}

/// The entries of `archive`.
pub fn entries(archive: &[u8]) -> Entries<'_> {
    Entries { archive, at: Some(0) }
}

/// The regular file at `path`, or the damage that kept it from being found.
pub fn find<'a>(archive: &'a [u8], path: &str) -> Result<Option<Entry<'a>>, Damage> {
    for entry in entries(archive) {
        let entry = entry?;
        if entry.kind() == Kind::File && entry.path == path.as_bytes() {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at.take()?;
            match read(self.archive, at) {
                Err(damage) => return Some(Err(damage)),
                Ok((entry, _)) if entry.path == TRAILER => return None,
                Ok((entry, next)) => {
                    self.at = Some(next);
                    if entry.path != PAD {
                        return Some(Ok(entry));
                    }
                }
            }
        }
    }
}

/// Reads the entry at `at`; also answers where the next one starts.
fn read(archive: &[u8], at: usize) -> Result<(Entry<'_>, usize), Damage> {
    let truncated = Damage::Truncated { at };
    let header = archive.get(at..).and_then(|rest| rest.get(..HEADER)).ok_or(truncated)?;
    if !header.starts_with(MAGIC) {
        return Err(Damage::NoHeader { at });
    }
    let field = |i: usize| number(&header[6 + 8 * i..14 + 8 * i]).ok_or(Damage::NoHeader { at });
    let (bytes, name_bytes) = (field(6)? as usize, field(11)? as usize);
    let name_at = at + HEADER;
    let name_end = name_at.checked_add(name_bytes).ok_or(truncated)?;
    let name = archive.get(name_at..name_end).ok_or(truncated)?;
    let offset = align4(name_end).ok_or(truncated)?;
    let end = offset.checked_add(bytes).ok_or(truncated)?;
    let entry = Entry {
        path: name.strip_suffix(&[0]).unwrap_or(name),
        mode: field(1)?,
        uid: field(2)?,
        gid: field(3)?,
        mtime: field(5)?,
        device: (field(9)?, field(10)?),
        offset,
        data: archive.get(offset..end).ok_or(truncated)?,
    };
    Ok((entry, align4(end).ok_or(truncated)?))
}

fn align4(n: usize) -> Option<usize> {
    n.checked_next_multiple_of(4)
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, &digit| Some(value << 4 | (digit as char).to_digit(16)?))
}
