//! Writes cpio archives in the "newc" format whose file contents start on page boundaries.
//!
//! The boot loader places the archive at a page boundary too, so every file in it can be mapped as
//! it lies. Before each file that is not empty goes an entry named [`PAD`], just long enough that
//! the contents behind the next header are aligned. Any cpio tool reads the result.
//!
//! The format: a header of 110 bytes of ASCII (magic and thirteen numbers of eight hexadecimal
//! digits), the name with its NUL, zeros up to a multiple of four, the contents, zeros likewise.

use std::io::{self, Write};

/// Name of the entries that only fill space. Readers skip them.
pub const PAD: &str = ".pad";
const PAGE: u64 = 4096;
const HEADER: u64 = 110;

const KIND: u32 = 0o170000;
const DIRECTORY: u32 = 0o040000;
const REGULAR: u32 = 0o100000;
const SYMLINK: u32 = 0o120000;

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
        self.entry(Entry { path, mode: DIRECTORY | permissions, mtime: 0, data: &[] })
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(Entry { path, mode: SYMLINK | 0o777, mtime: 0, data: target.as_bytes() })
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
        self.entry(Entry { path, mode: REGULAR | permissions, mtime, data })
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
        self.entry(Entry { path: PAD, mode: REGULAR, mtime: 0, data: &zeros[..fill as usize] })
    }

    fn entry(&mut self, entry: Entry) -> io::Result<()> {
        let links = if entry.mode & KIND == DIRECTORY { 2 } else { 1 };
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

/// Bytes from the start of an entry to its contents.
fn header_len(path: &str) -> u64 {
    (HEADER + path.len() as u64 + 1).next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the contents of every file that is neither empty nor padding.
    fn contents(archive: &[u8]) -> Vec<(String, usize, usize)> {
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            let number = |i: usize| {
                let digits = &archive[at + 6 + 8 * i..][..8];
                usize::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            };
            assert_eq!(&archive[at..at + 6], b"070701");
            let (size, name_len) = (number(6), number(11));
            let name = std::str::from_utf8(&archive[at + 110..][..name_len - 1]).unwrap();
            if name == "TRAILER!!!" {
                return found;
            }
            let data = at + header_len(name) as usize;
            found.push((name.to_owned(), data, size));
            at = (data + size).next_multiple_of(4);
        }
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
        let files: Vec<_> = contents(&bytes)
            .into_iter()
            .filter(|(name, _, size)| name != PAD && *size > 0 && name != "root/link")
            .collect();
        assert_eq!(files.len(), 50);
        for (name, at, _) in &files {
            assert_eq!(at % PAGE as usize, 0, "{name}");
        }
        let (_, at, size) = files.last().unwrap();
        assert_eq!(&bytes[*at..at + size], b"last");
        assert_eq!(bytes.len() % PAGE as usize, 0);
    }
}
