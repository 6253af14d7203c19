//! The directory: which tree a piece of memory has, and how far the trees reach.
//!
//! Memory is divided into pieces of one size, and the capabilities that begin in a piece have a search
//! tree of their own. So a search passes over what a single tree would have for its upper levels, and
//! what climbs, to raise an end or to look for an ancestor, soon arrives at a root. For range queries,
//! which go from tree to tree, each group of sixteen pieces notes the highest ends of its trees, and
//! which of its pieces have any; so does each group of sixteen groups, up to a group that is the last:
//!
//! ```text
//! level 2                     ┌─0────1────2─┐             256 pieces each
//! level 1        ┌─0────1───…────15─┬─16─…                16 pieces each
//! level 0    ┌─0────1────2───…──15─┬─16─…                 one piece each, with its tree
//!              △    △    ·     △     △
//! ```
//!
//! Each member of a group also notes how far the members before it reach, so that whether anything
//! from before reaches an address is one comparison at each level.
//!
//! The memory of the directory is given by whoever owns the database, in proportion to the memory that
//! capabilities are for: 34 bytes for each piece.

use crate::slot::{Ends, Ref};
use crate::tree::Reach;

/// Pieces in a group.
const GROUP: usize = 16;
/// So many levels are enough for any directory that fits into memory.
const LEVELS: usize = 12;

/// Memory of a directory; zeros to begin with.
#[derive(Default)]
pub struct Entry {
    /// Of a piece only.
    root: Option<Ref>,
    ends: Ends,
    /// From bit 16: the highest end of an object in the members of the group before this one. Below:
    /// which members this one has, being a group, that have any capabilities.
    noted: u64,
}

impl Entry {
    #[inline]
    fn before(&self) -> u64 {
        self.noted >> GROUP
    }

    #[inline]
    fn set_before(&mut self, end: u64) {
        self.noted = end << GROUP | u64::from(self.members());
    }

    #[inline]
    fn members(&self) -> u16 {
        self.noted as u16
    }

    #[inline]
    fn set_members(&mut self, members: u16) {
        self.noted = self.before() << GROUP | u64::from(members);
    }
}

const _: () = assert!(size_of::<Entry>() == 32);

/// Bytes of memory that should have a tree to themselves: a tree of few levels for pages, and one
/// byte for 15,000 bytes of memory.
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
    /// Which members of the last group have any capabilities.
    members: u16,
    /// Logarithm of the bytes in a piece.
    shift: u32,
}

impl Directory {
    /// Without pieces.
    pub const fn none() -> Self {
        Self { entries: &mut [], starts: [0; LEVELS + 1], levels: 0, members: 0, shift: 0 }
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
        let before = core::mem::replace(&mut self.entries[piece].root, root);
        if before.is_none() != root.is_none() {
            self.set_used(piece, root.is_some());
        }
    }

    /// Notes in the groups around a piece whether it has any capabilities.
    fn set_used(&mut self, piece: usize, used: bool) {
        let mut index = piece;
        for level in 0..self.levels {
            let bit = 1 << (index % GROUP);
            let members = self.members(level, index);
            let changed = if used { members | bit } else { members & !bit };
            index /= GROUP;
            match self.entries.get_mut(self.starts[level + 1] + index) {
                Some(group) if level + 1 < self.levels => group.set_members(changed),
                _ => self.members = changed,
            }
            if members != 0 && changed != 0 {
                return;
            }
        }
    }

    /// Which members have any capabilities, of the group that `index` belongs to.
    #[inline]
    fn members(&self, level: usize, index: usize) -> u16 {
        match level + 1 < self.levels {
            true => self.at(level + 1, index / GROUP).members(),
            false => self.members,
        }
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
        behind.iter_mut().take_while(|e| e.before() < end).for_each(|e| e.set_before(end));
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
                end = end.max(group[i - 1].before());
                if group[i].before() == end {
                    // So are those behind it, and what the groups above note.
                    return;
                }
                group[i].set_before(end);
                end = end.max(group[i].ends.object);
            }
            end = group.last().map_or(0, |last| last.before().max(last.ends.object));
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
        self.first_of::<R>(self.levels.checked_sub(1)?, 0, self.members, end)
    }

    /// The first such tree behind a piece.
    pub fn after<R: Reach>(&self, piece: usize, end: u64) -> Option<Ref> {
        let mut index = piece;
        for level in 0..self.levels {
            let behind = self.members(level, index) & (!1 << (index % GROUP));
            if let Some(found) = self.first_of::<R>(level, index & !(GROUP - 1), behind, end) {
                return Some(found);
            }
            index /= GROUP;
        }
        None
    }

    /// The first such tree in some `members` of the group that begins at `first`.
    #[inline]
    fn first_of<R: Reach>(
        &self,
        level: usize,
        first: usize,
        members: u16,
        end: u64,
    ) -> Option<Ref> {
        let (mut first, mut members) = (first, members);
        let mut level = level;
        while members != 0 {
            let index = first + members.trailing_zeros() as usize;
            if R::of(&self.at(level, index).ends) < end {
                members &= members - 1;
            } else if level == 0 {
                return self.root(index);
            } else {
                level -= 1;
                first = index * GROUP;
                members = self.members(level, first);
            }
        }
        None
    }

    /// The last tree before a piece in which an object ends at `end` or behind it.
    #[inline]
    pub fn before(&self, piece: usize, end: u64) -> Option<Ref> {
        let mut index = piece;
        for level in 0..self.levels {
            if self.at(level, index).before() >= end {
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
            let reached = self.at(level, index).before() >= end;
            index /= GROUP;
            reached
        })
    }

    /// [`Self::before`] among the members of the group before `index`, one of which has it.
    fn last_before(&self, level: usize, index: usize, end: u64) -> Option<Ref> {
        let mut members = self.group(level, index).0..index;
        for level in (0..=level).rev() {
            let reaches = |&i: &usize| self.at(level, i).ends.object >= end;
            let found = members.rev().find(reaches)?;
            if level == 0 {
                return self.root(found);
            }
            let (first, past) = self.group(level - 1, found * GROUP);
            members = first..past;
        }
        None
    }

    /// Whether everything noted is right, given the ends of a root.
    pub fn is_right(&self, ends: impl Fn(Ref) -> Ends) -> bool {
        let piece = |i: usize| self.at(0, i).ends == self.root(i).map(&ends).unwrap_or_default();
        let group =
            |level: usize, i: usize| self.at(level, i).ends == self.highest(level - 1, i * GROUP);
        let before = |level: usize, i: usize| {
            let members = self.group(level, i).0..i;
            let highest = members.map(|m| self.at(level, m).ends.object).max();
            self.at(level, i).before() == highest.unwrap_or(0)
        };
        (0..self.levels).all(|level| {
            (0..self.len(level))
                .all(|i| before(level, i) && if level == 0 { piece(i) } else { group(level, i) })
        })
    }
}
