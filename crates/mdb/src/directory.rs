//! The directory: which tree a piece of memory has, and how far the trees reach.
//!
//! Memory is divided into pieces of one size, and the capabilities that begin in a piece have a search
//! tree of their own. So a search passes over what a single tree would have for its upper levels, and
//! what climbs, to raise an end or to look for an ancestor, soon arrives at a root. For range queries,
//! which go from tree to tree, each group of eight pieces notes the highest ends of its trees, and so
//! does each group of eight groups, up to a group of at most eight:
//!
//! ```text
//! level 2                    ┌─0────1────2─┐             highest ends of 64 pieces
//! level 1        ┌─0────1───…────7─┬─8─…               … of 8 pieces
//! level 0    ┌─0────1────2───…──7─┬─8─…                … of one piece, and its tree
//!              △    △    ·     △    △
//! ```
//!
//! The memory of the directory is given by whoever owns the database, in proportion to the memory that
//! capabilities are for: 37 bytes for each piece.

use crate::slot::{Ends, Ref};
use crate::tree::{Objects, Reach};

/// Pieces in a group.
const GROUP: usize = 8;
/// So many levels are enough for any directory that fits into memory.
const LEVELS: usize = 12;

/// Memory of a directory; zeros to begin with.
#[derive(Default)]
pub struct Entry {
    /// Of a piece only.
    root: Option<Ref>,
    ends: Ends,
    /// The highest end of an object in the members of the group before this one.
    before: u64,
}

const _: () = assert!(size_of::<Entry>() == 32);

/// Bytes of memory that should have a tree to themselves: a tree of few levels for pages, and one
/// entry for 14,000 bytes of memory.
pub const PIECE: u64 = 1 << 19;

/// How many entries a directory of so many pieces needs, groups included.
pub const fn entries(pieces: usize) -> usize {
    let (mut all, mut level) = (pieces, pieces);
    while level > GROUP {
        level = level.div_ceil(GROUP);
        all += level;
    }
    all
}

pub(crate) struct Directory {
    entries: &'static mut [Entry],
    /// Where each level begins, and where the last one ends.
    starts: [usize; LEVELS + 1],
    /// How many levels there are.
    levels: usize,
    /// Logarithm of the bytes in a piece.
    shift: u32,
}

impl Directory {
    /// Without pieces.
    pub const fn none() -> Self {
        Self { entries: &mut [], starts: [0; LEVELS + 1], levels: 0, shift: 0 }
    }

    /// For memory up to `top`, in pieces as small as the entries allow and not smaller than
    /// [`PIECE`].
    pub fn new(entries: &'static mut [Entry], top: u64) -> Self {
        let mut shift = PIECE.ilog2();
        let pieces = |shift: u32| (top >> shift) as usize + 1;
        while shift < 63 && self::entries(pieces(shift)) > entries.len() {
            shift += 1;
        }
        Self::with_pieces(entries, pieces(shift), shift)
    }

    /// In so many pieces of 2^`shift` bytes; what lies beyond counts to the last one.
    pub fn with_pieces(entries: &'static mut [Entry], pieces: usize, shift: u32) -> Self {
        if self::entries(pieces) > entries.len() || shift > 63 {
            return Self::none();
        }
        let mut directory = Self { entries, shift, ..Self::none() };
        let mut len = pieces;
        while len > 0 && directory.levels < LEVELS {
            let start = directory.starts[directory.levels];
            directory.levels += 1;
            directory.starts[directory.levels] = start + len;
            len = if len > GROUP { len.div_ceil(GROUP) } else { 0 };
        }
        directory
    }

    pub fn pieces(&self) -> usize {
        self.starts[1]
    }

    /// The piece in which an address lies.
    #[inline]
    pub fn piece_of(&self, base: u64) -> usize {
        ((base >> self.shift) as usize).min(self.starts[1].wrapping_sub(1))
    }

    /// Whether something that ends at `end` reaches beyond the piece.
    #[inline]
    pub fn leaves_piece(&self, piece: usize, end: u64) -> bool {
        end.saturating_sub(1) >> self.shift > piece as u64
    }

    #[inline]
    pub fn root(&self, piece: usize) -> Option<Ref> {
        self.entries[piece].root
    }

    #[inline]
    pub fn set_root(&mut self, piece: usize, root: Option<Ref>) {
        self.entries[piece].root = root;
    }

    /// The entry of a piece or group of a level.
    #[inline]
    fn at(&self, level: usize, index: usize) -> &Entry {
        &self.entries[self.starts[level] + index]
    }

    #[inline]
    fn len(&self, level: usize) -> usize {
        self.starts[level + 1] - self.starts[level]
    }

    /// The members of the group that `index` of a level belongs to.
    #[inline]
    fn group(&self, level: usize, index: usize) -> (usize, usize) {
        let first = index & !(GROUP - 1);
        (first, (first + GROUP).min(self.len(level)))
    }

    /// Notes that something in a piece ends at `ends`.
    #[inline]
    pub fn raise(&mut self, piece: usize, ends: Ends) {
        let mut index = piece;
        for level in 0..self.levels {
            let entry = &mut self.entries[self.starts[level] + index];
            let raised = entry.ends.max(ends);
            if raised == entry.ends {
                return;
            }
            entry.ends = raised;
            self.raise_behind(level, index, ends.object);
            index /= GROUP;
        }
    }

    /// Raises what the members behind `index` note of those before them.
    #[inline]
    fn raise_behind(&mut self, level: usize, index: usize, end: u64) {
        let (_, past) = self.group(level, index);
        let behind = &mut self.entries[self.starts[level]..][index + 1..past];
        behind.iter_mut().take_while(|entry| entry.before < end).for_each(|e| e.before = end);
    }

    /// Notes the highest ends of a piece.
    #[inline]
    pub fn set(&mut self, piece: usize, ends: Ends) {
        let noted = self.at(0, piece).ends;
        if noted.object != ends.object {
            self.set_object(piece, ends.object);
        }
        if noted.leaf != ends.leaf {
            self.set_leaf(piece, ends.leaf);
        }
    }

    fn set_object(&mut self, piece: usize, end: u64) {
        let (mut index, mut end) = (piece, end);
        for level in 0..self.levels {
            let (_, past) = self.group(level, index);
            let group = &mut self.entries[self.starts[level]..][index..past];
            group[0].ends.object = end;
            for i in 1..group.len() {
                end = end.max(group[i - 1].before);
                if group[i].before == end {
                    // So are those behind it, and what the groups above note.
                    return;
                }
                group[i].before = end;
                end = end.max(group[i].ends.object);
            }
            end = group.last().map_or(0, |last| last.before.max(last.ends.object));
            index /= GROUP;
        }
    }

    fn set_leaf(&mut self, piece: usize, end: u64) {
        let (mut index, mut end) = (piece, end);
        for level in 0..self.levels {
            let entry = &mut self.entries[self.starts[level] + index];
            if entry.ends.leaf == end {
                return;
            }
            entry.ends.leaf = end;
            end = self.highest(level, index).leaf;
            index /= GROUP;
        }
    }

    /// The highest ends of the group that `index` belongs to.
    fn highest(&self, level: usize, index: usize) -> Ends {
        let (first, past) = self.group(level, index);
        let group = &self.entries[self.starts[level]..][first..past];
        group.iter().fold(Ends::default(), |highest, entry| highest.max(entry.ends))
    }

    /// The first tree of all in which something ends at `end` or behind it. O(log pieces).
    pub fn first<R: Reach>(&self, end: u64) -> Option<Ref> {
        let top = self.levels.checked_sub(1)?;
        let found = (0..self.len(top)).find(|&i| self.reaches::<R>(top, i, end))?;
        self.first_below::<R>(top, found, end)
    }

    /// The first such tree behind a piece.
    pub fn after<R: Reach>(&self, piece: usize, end: u64) -> Option<Ref> {
        let mut index = piece;
        for level in 0..self.levels {
            let (_, past) = self.group(level, index);
            if let Some(found) = (index + 1..past).find(|&i| self.reaches::<R>(level, i, end)) {
                return self.first_below::<R>(level, found, end);
            }
            index /= GROUP;
        }
        None
    }

    /// The last tree before a piece in which an object ends at `end` or behind it.
    #[inline]
    pub fn before(&self, piece: usize, end: u64) -> Option<Ref> {
        let mut index = piece;
        for level in 0..self.levels {
            if self.at(level, index).before >= end {
                return self.last_before(level, index, end);
            }
            index /= GROUP;
        }
        None
    }

    /// Whether an object in a piece before this one ends at `end` or behind it.
    #[inline]
    pub fn is_reached(&self, piece: usize, end: u64) -> bool {
        let mut index = piece;
        (0..self.levels).any(|level| {
            let reached = self.at(level, index).before >= end;
            index /= GROUP;
            reached
        })
    }

    /// [`Self::before`] among the members of the group before `index`, one of which has it.
    fn last_before(&self, level: usize, index: usize, end: u64) -> Option<Ref> {
        let mut members = self.group(level, index).0..index;
        for level in (0..=level).rev() {
            let reaches = |&i: &usize| self.reaches::<Objects>(level, i, end);
            let found = members.rev().find(reaches)?;
            if level == 0 {
                return self.root(found);
            }
            let (first, past) = self.group(level - 1, found * GROUP);
            members = first..past;
        }
        None
    }

    #[inline]
    fn reaches<R: Reach>(&self, level: usize, index: usize, end: u64) -> bool {
        R::of(&self.at(level, index).ends) >= end
    }

    fn first_below<R: Reach>(&self, level: usize, index: usize, end: u64) -> Option<Ref> {
        let mut index = index;
        for below in (0..level).rev() {
            let (first, past) = self.group(below, index * GROUP);
            index = (first..past).find(|&i| self.reaches::<R>(below, i, end))?;
        }
        self.root(index)
    }

    /// Whether everything noted is right, given the ends of a root.
    pub fn is_right(&self, ends: impl Fn(Ref) -> Ends) -> bool {
        let piece = |i: usize| self.at(0, i).ends == self.root(i).map(&ends).unwrap_or_default();
        let group =
            |level: usize, i: usize| self.at(level, i).ends == self.highest(level - 1, i * GROUP);
        let before = |level: usize, i: usize| {
            let members = self.group(level, i).0..i;
            let highest = members.map(|m| self.at(level, m).ends.object).max();
            self.at(level, i).before == highest.unwrap_or(0)
        };
        (0..self.levels).all(|level| {
            (0..self.len(level))
                .all(|i| before(level, i) && if level == 0 { piece(i) } else { group(level, i) })
        })
    }
}
