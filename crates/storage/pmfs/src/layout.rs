//! Where everything is, and what the words mean.
//!
//! ```text
//! line  0        superblock:  magic | version | checksum
//!       1        how many lines were ever used | the directory that is being made or removed
//!       2 … 63   the record of the last operation
//!      64        the root directory
//!      65 …      heads, chains and free lines, in any order
//!
//! word   0               1            2       3       4       5         6       7
//! inode  kind … mode     uid, gid     atime   mtime   ctime   content   btime   flags
//! name   kind, length    dir, inode   the first 48 bytes
//! xattr  kind, lengths   inode        the first 48 bytes of name and value
//! chain  kind, next      56 bytes
//! ```
//!
//! A line is 64 bytes, and its number is what others name it by; that of an inode is the inode's number.

use crate::fs::Kind;
use crate::{NAME_MAX, SYMLINK_MAX, XATTR_MAX};

/// Number of a line; an inode's is its number.
pub(crate) type Line = u32;

/// Words of a line.
pub(crate) const WORDS: u64 = 8;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"tessPMFS");
pub(crate) const VERSION: u64 = 1;

/// Words of the superblock.
pub(crate) const SUPER_MAGIC: u64 = 0;
pub(crate) const SUPER_VERSION: u64 = 1;
pub(crate) const SUPER_CHECK: u64 = 2;
/// How many lines were ever used, with a check.
pub(crate) const HIGH_WATER: u64 = WORDS;
/// The directory that is being made or removed with everything below it, with a check; or 0.
pub(crate) const UNFINISHED: u64 = HIGH_WATER + 1;
/// The record of the last operation.
pub(crate) const LOG_FIRST: u64 = 2;
pub(crate) const LOG_LINES: u64 = 62;
/// The root directory, the first of the lines for heads and chains.
pub(crate) const ROOT: Line = 64;
/// So many lines more are used at a time: a page of 4 KiB.
pub(crate) const EXTENT: u32 = 64;

/// Words of an inode.
pub(crate) const HEAD: u64 = 0;
pub(crate) const OWNERS: u64 = 1;
pub(crate) const ATIME: u64 = 2;
pub(crate) const MTIME: u64 = 3;
pub(crate) const CTIME: u64 = 4;
/// Contents of a file, number of a device, first line of the text of a symbolic link.
pub(crate) const CONTENT: u64 = 5;
pub(crate) const BTIME: u64 = 6;
pub(crate) const FLAGS: u64 = 7;
/// Of a name: directory and inode. Of an attribute: inode.
pub(crate) const PLACE: u64 = 1;
/// Of a name and an attribute: the first bytes.
pub(crate) const BYTES: u64 = 2;

/// Bytes in the line of a head and in one of a chain.
pub(crate) const HEAD_BYTES: usize = 48;
pub(crate) const CHAIN_BYTES: usize = 56;

pub(crate) fn word(line: Line, n: u64) -> u64 {
    line as u64 * WORDS + n
}

/// Lines of a chain for so many bytes.
pub(crate) fn chain_lines(bytes: usize) -> usize {
    bytes.div_ceil(CHAIN_BYTES)
}

/// Lines besides that of the head for a name or an attribute.
pub(crate) fn more_lines(bytes: usize) -> usize {
    chain_lines(bytes.saturating_sub(HEAD_BYTES))
}

pub(crate) fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}
pub(crate) fn low(word: u64) -> u32 {
    word as u32
}
pub(crate) fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// A 32-bit digest, which finds words that were changed by accident.
pub(crate) fn check(words: &[u64]) -> u32 {
    high(words.iter().fold(MAGIC, |hash, &word| mix(hash ^ word)))
}

/// SplitMix64's.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What is in [`HIGH_WATER`].
pub(crate) fn high_water(lines: u32) -> u64 {
    pair(lines, check(&[lines as u64]))
}

/// What is in [`UNFINISHED`].
pub(crate) fn marked(dir: Option<Line>) -> u64 {
    dir.map_or(0, |line| pair(line, check(&[line as u64, UNFINISHED])))
}
/// The directory that it names; `None` if it is not such a word.
pub(crate) fn marked_dir(word: u64) -> Option<Option<Line>> {
    let dir = (word != 0).then_some(low(word));
    (marked(dir) == word).then_some(dir)
}

const INODE: u64 = 1;
const NAME: u64 = 2;
const XATTR: u64 = 3;
const CHAIN: u64 = 4;

/// First word of an inode.
///
/// ```text
/// generation (32) | length of a symbolic link (12) | mode (12) | type (4) | INODE (4)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InodeHead {
    pub kind: Kind,
    pub mode: u16,
    pub length: u16,
    pub generation: u32,
}

impl InodeHead {
    pub fn word(self) -> u64 {
        let low = INODE | (self.kind as u64) << 4 | (self.mode as u64 & 0xfff) << 8;
        low | (self.length as u64) << 20 | (self.generation as u64) << 32
    }
    fn of(word: u64) -> Option<InodeHead> {
        let kind = Kind::of(word >> 4 & 15)?;
        let length = (word >> 20 & 0xfff) as u16;
        let fits = match kind {
            Kind::Symlink => length > 0 && length as usize <= SYMLINK_MAX,
            _ => length == 0,
        };
        let mode = (word >> 8 & 0xfff) as u16;
        fits.then_some(InodeHead { kind, mode, length, generation: high(word) })
    }
}

/// First word of a name.
///
/// ```text
/// rest of the name (32) | 0 (20) | length (8) | NAME (4)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameHead {
    /// Bytes of the name.
    pub length: u8,
    /// The first line of those that did not fit, or 0.
    pub rest: Line,
}

impl NameHead {
    pub fn word(self) -> u64 {
        NAME | (self.length as u64) << 4 | (self.rest as u64) << 32
    }
    fn of(word: u64) -> Option<NameHead> {
        let head = NameHead { length: (word >> 4) as u8, rest: high(word) };
        let fits = head.length > 0 && head.length as usize <= NAME_MAX;
        (fits && low(word) >> 12 == 0).then_some(head)
    }
}

/// First word of an extended attribute.
///
/// ```text
/// rest of name and value (32) | 0 (3) | length of the value (17) | of the name (8) | XATTR (4)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct XattrHead {
    /// Bytes of the name.
    pub name: u8,
    /// Bytes of the value.
    pub value: u32,
    /// The first line of those that did not fit, or 0.
    pub rest: Line,
}

impl XattrHead {
    pub fn word(self) -> u64 {
        XATTR | (self.name as u64) << 4 | (self.value as u64) << 12 | (self.rest as u64) << 32
    }
    fn of(word: u64) -> Option<XattrHead> {
        let value = low(word) >> 12;
        let head = XattrHead { name: (word >> 4) as u8, value, rest: high(word) };
        (head.name > 0 && value as usize <= XATTR_MAX).then_some(head)
    }
    /// Bytes of name and value.
    pub fn bytes(self) -> usize {
        self.name as usize + self.value as usize
    }
}

/// First word of a line in a chain; the last one names none.
pub(crate) fn chain_word(next: Line) -> u64 {
    CHAIN | (next as u64) << 32
}
/// The line behind one of a chain, if it is one.
pub(crate) fn next_in_chain(word: u64) -> Option<Line> {
    (low(word) as u64 == CHAIN).then_some(high(word))
}

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Head {
    Inode(InodeHead),
    Name(NameHead),
    Xattr(XattrHead),
    /// Free, or in a chain: that depends on who leads to it.
    None,
}

impl Head {
    /// Of the first word of a line; `None` if no line has such a word.
    pub fn of(word: u64) -> Option<Head> {
        match word & 15 {
            0 if word == 0 => Some(Head::None),
            CHAIN => next_in_chain(word).map(|_| Head::None),
            INODE => InodeHead::of(word).map(Head::Inode),
            NAME => NameHead::of(word).map(Head::Name),
            XATTR => XattrHead::of(word).map(Head::Xattr),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_they_were_made_of() {
        let (rest, generation) = (u32::MAX - 1, 0xdead_beef);
        let inodes = [
            InodeHead { kind: Kind::Symlink, mode: 0o7777, length: 4095, generation },
            InodeHead { kind: Kind::Dir, mode: 0o1755, length: 0, generation },
        ];
        for head in inodes {
            assert_eq!(Head::of(head.word()), Some(Head::Inode(head)));
        }
        let name = NameHead { length: 255, rest };
        assert_eq!(Head::of(name.word()), Some(Head::Name(name)));
        let xattr = XattrHead { name: 255, value: 65536, rest };
        assert_eq!(Head::of(xattr.word()), Some(Head::Xattr(xattr)));
        assert_eq!(Head::of(chain_word(rest)), Some(Head::None));
        assert_eq!(next_in_chain(chain_word(rest)), Some(rest));
        assert_eq!(next_in_chain(name.word()), None);
    }
}
