//! Looking at an image.

use crate::record::{Kind, Record, BYTES, TEXT_MAX};
use crate::{aligned, MAGIC, PAGE, SUPERBLOCK, VERSION};
use alloc::vec;
use alloc::vec::Vec;
use unixproto::files::{NAME_MAX, PATH_MAX};

/// The bytes of an image.
pub trait Source {
    /// Copies bytes out of it; `None` if that cannot be.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Option<()>;
}

/// It is no image, or is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong(pub &'static str);

/// Most bytes of the rows of one directory: some million names.
const ROWS_MAX: u64 = 256 << 20;
/// Most symbolic links that lead to one path.
const LINKS_MAX: u32 = 40;

/// What a directory has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub record: Record,
    /// The text of a symbolic link; else empty.
    pub text: Vec<u8>,
}

/// An image that is looked at.
pub struct Image {
    bytes: u64,
    root: Record,
}

impl Image {
    /// The image in so many bytes.
    ///
    /// # Errors
    /// There is none.
    pub fn open(source: &mut impl Source, bytes: u64) -> Result<Image, Wrong> {
        let mut block = [0; SUPERBLOCK];
        source.read(0, &mut block).ok_or(Wrong("it cannot be read"))?;
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| block[at + n]));
        if block[..8] != MAGIC || word(8) != VERSION {
            return Err(Wrong("it is no root image, or one of another version"));
        }
        let size = word(16);
        let root = Record::decode(&block[24..]).map(|(root, _)| root);
        let root = root.filter(|root| root.kind() == Some(Kind::Dir)).ok_or(Wrong("no root"))?;
        let image = Image { bytes: size, root };
        if size > bytes {
            return Err(Wrong("a part of it is missing"));
        }
        image.check(&root)?;
        Ok(image)
    }

    /// The root directory.
    pub fn root(&self) -> &Record {
        &self.root
    }

    /// Does what a record places lie in the image, where it may?
    fn check(&self, record: &Record) -> Result<(), Wrong> {
        let placed = match record.kind().ok_or(Wrong("a file of no kind"))? {
            Kind::File => record.place.is_multiple_of(PAGE),
            Kind::Dir => record.size <= ROWS_MAX,
            // They place nothing.
            _ => return Ok(()),
        };
        let ends = record.end().and_then(|end| end.checked_next_multiple_of(PAGE));
        match placed && record.place >= PAGE && ends.is_some_and(|end| end <= self.bytes) {
            true => Ok(()),
            false => Err(Wrong("something lies outside")),
        }
    }

    /// All that is in a directory, in order.
    ///
    /// # Errors
    /// The image is damaged.
    pub fn entries(&self, source: &mut impl Source, dir: &Record) -> Result<Vec<Entry>, Wrong> {
        self.check(dir)?;
        let mut rows = vec![0; dir.size as usize];
        source.read(dir.place, &mut rows).ok_or(Wrong("a directory cannot be read"))?;
        let (mut all, mut rest) = (Vec::new(), &rows[..]);
        while !rest.is_empty() {
            let (entry, bytes) = entry(rest).ok_or(Wrong("a directory is damaged"))?;
            self.check(&entry.record)?;
            all.push(entry);
            rest = rest.get(bytes..).ok_or(Wrong("a directory is damaged"))?;
        }
        Ok(all)
    }

    /// What an absolute path leads to, links followed, but for one at its end unless that is to be followed.
    ///
    /// # Errors
    /// The image is damaged.
    pub fn find(
        &self,
        source: &mut impl Source,
        path: &[u8],
        follow: bool,
    ) -> Result<Option<Record>, Wrong> {
        let (mut way, mut links) = (Vec::from([self.root]), 0);
        // Names that are still to be walked, the last one first.
        let mut left: Vec<Vec<u8>> = parts(path);
        while let Some(name) = left.pop() {
            let at = *way.last().unwrap_or(&self.root);
            match &name[..] {
                b"." => continue,
                b".." => {
                    if way.len() > 1 {
                        way.pop();
                    }
                    continue;
                }
                _ if at.kind() != Some(Kind::Dir) => return Ok(None),
                _ => {}
            }
            let entries = self.entries(source, &at)?;
            let Some(entry) = entries.into_iter().find(|entry| entry.name == name) else {
                return Ok(None);
            };
            if entry.record.kind() != Some(Kind::Symlink) || left.is_empty() && !follow {
                way.push(entry.record);
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Ok(None);
            }
            if entry.text.first() == Some(&b'/') {
                way.truncate(1);
            }
            left.extend(parts(&entry.text));
        }
        Ok(way.pop())
    }

    /// The path in which the folders that lead to it are no links, as far as there are any.
    ///
    /// # Errors
    /// The image is damaged.
    pub fn real(&self, source: &mut impl Source, path: &[u8]) -> Result<Vec<u8>, Wrong> {
        let mut way: Vec<(Vec<u8>, Option<Record>)> = Vec::new();
        let (mut left, mut links) = (parts(path), 0);
        while let Some(name) = left.pop() {
            if name == b".." {
                way.pop();
            }
            if matches!(&name[..], b"." | b"..") {
                continue;
            }
            let at = way.last().map_or(Some(self.root), |(_, record)| *record);
            let dir = at.filter(|at| at.kind() == Some(Kind::Dir));
            let entries = dir.map(|dir| self.entries(source, &dir)).transpose()?;
            let found = entries.into_iter().flatten().find(|entry| entry.name == name);
            let is_link = |entry: &Entry| entry.record.kind() == Some(Kind::Symlink);
            match found {
                Some(entry) if is_link(&entry) && !left.is_empty() && links < LINKS_MAX => {
                    links += 1;
                    if entry.text.first() == Some(&b'/') {
                        way.clear();
                    }
                    left.extend(parts(&entry.text));
                }
                found => way.push((name, found.map(|entry| entry.record))),
            }
        }
        let mut real = Vec::new();
        for (name, _) in way {
            real.push(b'/');
            real.extend(name);
        }
        Ok(real)
    }
}

/// The names of a path, the last one first.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    names.rev().map(<[u8]>::to_vec).collect()
}

/// The first entry in rows, and how many bytes it has.
fn entry(rows: &[u8]) -> Option<(Entry, usize)> {
    let (record, length) = Record::decode(rows)?;
    let is_name = |name: &[u8]| {
        (1..=NAME_MAX as usize).contains(&name.len())
            && !matches!(name, b"." | b"..")
            && !name.contains(&b'/')
            && !name.contains(&0)
    };
    let name = rows.get(BYTES..)?.get(..length).filter(|name| is_name(name))?;
    let text = match record.kind()? {
        Kind::Symlink => {
            let length = usize::try_from(record.size).ok()?;
            let fits = record.size <= TEXT_MAX && record.size < u64::from(PATH_MAX);
            let text = rows.get(BYTES + name.len()..)?.get(..length)?;
            (fits && !text.is_empty()).then_some(text)?
        }
        _ => &[],
    };
    let bytes = aligned(BYTES + name.len() + text.len());
    Some((Entry { name: name.into(), record, text: text.into() }, bytes))
}
