//! Writes cpio archives in the "newc" format whose file contents start on page boundaries.
//!
//! The boot loader places the archive at a page boundary too, so every file in it can be mapped as
//! it lies. Before each file that is not empty goes an entry named [`PAD`], just long enough that
//! the contents behind the next header are aligned. Any cpio tool reads the result.
//!
//! The format: a header of 110 bytes of ASCII (magic and thirteen numbers of eight hexadecimal
//! digits), the name with its NUL, zeros up to a multiple of four, the contents, zeros likewise.

use paging::PAGE;
use std::io::{self, Write};
use unixproto::files::{S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};

/// Name of the entries that only fill space. Readers skip them.
pub const PAD: &str = ".pad";
const HEADER: u64 = 110;

/// An archive that is being written to `out`, or a further part of one.
pub struct Archive<W: Write> {
    out: W,
    offset: u64,
    next_inode: u32,
}

struct Entry<'a> {
    path: &'a str,
    mode: u32,
    mtime: u32,
    data: &'a [u8],
}

impl<W: Write> Archive<W> {
    /// Starts a part that will lie `offset` bytes (a multiple of 4) into the whole archive.
    pub fn continued_at(out: W, offset: u64) -> Self {
        assert_eq!(offset % 4, 0, "cpio entries start at multiples of four bytes");
        // Parts need different inode numbers: equal ones would mean hard links.
        let next_inode = 1 + (offset / 4) as u32;
        Archive { out, offset, next_inode }
    }

    pub fn directory(&mut self, path: &str, permissions: u32) -> io::Result<()> {
        self.entry(Entry { path, mode: S_IFDIR | permissions, mtime: 0, data: &[] })
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(Entry { path, mode: S_IFLNK | 0o777, mtime: 0, data: target.as_bytes() })
    }

    /// Adds a regular file; its contents will be page-aligned.
    pub fn file(
        &mut self,
        path: &str,
        permissions: u32,
        mtime: u32,
        data: &[u8],
    ) -> io::Result<()> {
        if !data.is_empty() {
            self.pad_for(path)?;
        }
        self.entry(Entry { path, mode: S_IFREG | permissions, mtime, data })
    }

    /// Ends the whole archive. A part that others follow is dropped without this.
    pub fn finish(mut self) -> io::Result<()> {
        self.entry(Entry { path: "TRAILER!!!", mode: 0, mtime: 0, data: &[] })?;
        let rest = (PAGE - self.offset % PAGE) % PAGE;
        self.write(&vec![0; rest as usize])?;
        self.out.flush()
    }

    fn pad_for(&mut self, path: &str) -> io::Result<()> {
        let data = self.offset + header_len(PAD) + header_len(path);
        let fill = (PAGE - data % PAGE) % PAGE;
        let zeros = [0; PAGE as usize];
        self.entry(Entry { path: PAD, mode: S_IFREG, mtime: 0, data: &zeros[..fill as usize] })
    }

    fn entry(&mut self, entry: Entry) -> io::Result<()> {
        let links = if entry.mode & S_IFMT == S_IFDIR { 2 } else { 1 };
        let size = u32::try_from(entry.data.len())
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, entry.path.to_owned()))?;
        let fields = [
            self.next_inode,
            entry.mode,
            0, // owner
            0, // group
            links,
            entry.mtime,
            size,
            0, // device, major and minor
            0,
            0, // device that a special file stands for
            0,
            entry.path.len() as u32 + 1,
            0, // check sum, unused in this variant
        ];
        self.next_inode += 1;
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        self.write(header.as_bytes())?;
        self.write(entry.path.as_bytes())?;
        self.write(&[0])?;
        self.align()?;
        self.write(entry.data)?;
        self.align()
    }

    fn align(&mut self) -> io::Result<()> {
        let fill = (4 - self.offset % 4) % 4;
        self.write(&[0; 4][..fill as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// An entry of an archive that is read.
#[derive(Debug)]
pub struct Member<'a> {
    pub path: &'a str,
    /// Type and permissions, as `stat` gives them.
    pub mode: u32,
    pub mtime: u32,
    pub data: &'a [u8],
}

/// The entries of a whole archive, without padding; ends early where it is malformed.
pub fn members(archive: &[u8]) -> impl Iterator<Item = Member<'_>> {
    let mut rest = archive;
    let entries = std::iter::from_fn(move || {
        let (member, behind) = split_member(rest)?;
        rest = behind;
        (member.path != "TRAILER!!!").then_some(member)
    });
    entries.filter(|member| member.path != PAD)
}

fn split_member(archive: &[u8]) -> Option<(Member<'_>, &[u8])> {
    const MODE: usize = 1;
    const MTIME: usize = 5;
    const SIZE: usize = 6;
    const NAME_LEN: usize = 11;
    let number = |field: usize| {
        let digits = archive.get(6 + 8 * field..)?.get(..8)?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let name = archive.get(HEADER as usize..)?.get(..number(NAME_LEN)? as usize)?;
    let path = std::str::from_utf8(name.strip_suffix(&[0])?).ok()?;
    let start = header_len(path) as usize;
    let data = archive.get(start..)?.get(..number(SIZE)? as usize)?;
    let end = (start + data.len()).next_multiple_of(4);
    let member = Member { path, mode: number(MODE)?, mtime: number(MTIME)?, data };
    Some((member, archive.get(end..)?))
}

impl<W: Write> Archive<W> {
    /// Adds what was read from another archive, under another name.
    pub fn copy(&mut self, member: &Member, path: &str) -> io::Result<()> {
        self.entry(Entry { path, mode: member.mode, mtime: member.mtime, data: member.data })
    }
}

/// Bytes from the start of an entry to its contents.
fn header_len(path: &str) -> u64 {
    (HEADER + path.len() as u64 + 1).next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the contents of every file that is neither empty nor padding.
    fn contents(archive: &[u8]) -> Vec<(String, usize, usize)> {
        let files = members(archive).filter(|member| !member.data.is_empty());
        let offset = |data: &[u8]| data.as_ptr() as usize - archive.as_ptr() as usize;
        files.map(|file| (file.path.to_owned(), offset(file.data), file.data.len())).collect()
    }

    #[test]
    fn contents_are_page_aligned_over_several_parts() {
        let mut bytes = Vec::new();
        let mut first = Archive::continued_at(&mut bytes, 0);
        first.directory("root", 0o755).unwrap();
        for i in 0..50 {
            first.file(&format!("root/{}", "n".repeat(i + 1)), 0o644, 0, &vec![7; i * 97]).unwrap();
        }
        let offset = bytes.len() as u64;
        let mut second = Archive::continued_at(&mut bytes, offset);
        second.symlink("root/link", "n").unwrap();
        second.file("root/last", 0o755, 0, b"last").unwrap();
        second.finish().unwrap();
        let files: Vec<_> =
            contents(&bytes).into_iter().filter(|(name, _, _)| name != "root/link").collect();
        assert_eq!(files.len(), 50);
        for (name, at, _) in &files {
            assert_eq!(at % PAGE as usize, 0, "{name}");
        }
        let (_, at, size) = files.last().unwrap();
        assert_eq!(&bytes[*at..at + size], b"last");
        assert_eq!(bytes.len() % PAGE as usize, 0);
        let link = members(&bytes).find(|member| member.path == "root/link").unwrap();
        assert_eq!((link.mode, link.data), (S_IFLNK | 0o777, &b"n"[..]));
        for cut in [1, HEADER as usize, bytes.len() / 2] {
            // Only what is whole.
            assert!(members(&bytes[..cut]).count() < members(&bytes).count());
        }
    }

    #[test]
    fn members_can_be_copied() {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        let mut archive = Archive::continued_at(&mut from, 0);
        archive.directory("root/bin", 0o755).unwrap();
        archive.file("root/bin/x", 0o755, 7, b"contents").unwrap();
        archive.finish().unwrap();
        let mut copy = Archive::continued_at(&mut to, 0);
        for member in members(&from) {
            copy.copy(&member, member.path.strip_prefix("root/").unwrap()).unwrap();
        }
        copy.finish().unwrap();
        let all: Vec<_> = members(&to).map(|m| (m.path, m.mode, m.mtime, m.data)).collect();
        let folder = ("bin", S_IFDIR | 0o755, 0, &b""[..]);
        assert_eq!(all, [folder, ("bin/x", S_IFREG | 0o755, 7, &b"contents"[..])]);
    }
}
