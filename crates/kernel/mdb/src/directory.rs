//! The directory: which tree a piece of memory has, and how far the trees reach.
//!
//! Memory is divided into pieces of one size, and the capabilities that begin in a piece have a search
//! tree of their own. So a search passes over what a single tree would have for its upper levels, and
//! what climbs, to raise an end or to look for an ancestor, soon arrives at a root. For range queries,
//! which go from tree to tree, each group of 64 pieces notes the highest ends of its trees, which of its
//! pieces have any capabilities, and from which one reaches into the next piece; so does each
//! group of 64 groups, and so on up to one group of all:
//!
//! ```text
//! level 2                       ┌─0─┐                    4,096 pieces
//! level 1        ┌─0─────1─────2───…────63─┐             64 pieces each
//! level 0   ┌─0────1────2────…──63─┬─64─…                one piece each, with its tree
//!             △    △         △    △
//! ```
//!
//! Few objects reach beyond the piece in which they begin, so that the question what reaches an address
//! from before is mostly answered by a word of zeros at each level.
//!
//! The memory of the directory is given by whoever owns the database, in proportion to the memory that
//! capabilities are for: 41 bytes for each piece.

use crate::slot::{Ends, Ref};
use crate::tree::{All, Reach};

/// Pieces in a group, as a logarithm: one bit of a word for each.
const GROUP: u32 = 6;
const MEMBERS: usize = 1 << GROUP;
/// So many levels are enough for any directory that fits into memory.
const LEVELS: usize = 8;

/// Memory of a directory; zeros to begin with.
#[derive(Default)]
pub struct Entry {
    /// Of a piece only.
    root: Option<Ref>,
    ends: Ends,
    /// Of a group: which members have any capabilities.
    used: u64,
    /// Of a group: in which members something ends behind the member.
    spanning: u64,
}

const _: () = assert!(size_of::<Entry>() == 40);

/// Bytes of memory that should have a tree to themselves: a tree of few levels for pages, and one
/// byte for 12,000 bytes of memory.
pub const PIECE: u64 = 1 << 19;

/// How many entries a directory of so many pieces needs, groups included.
pub const fn entries(pieces: usize) -> usize {
    let (mut all, mut level) = (pieces, pieces);
    while level > 0 {
        level = level.div_ceil(MEMBERS);
        all += level;
        if level == 1 {
            break;
        }
    }
    all
}

pub(crate) struct Directory {
    entries: &'static mut [Entry],
    /// Where each level begins.
    starts: [usize; LEVELS + 1],
    /// How many levels there are below the group of all.
    levels: usize,
    pieces: usize,
    /// Logarithm of the bytes in a piece.
    shift: u32,
}

/// The bit of a piece or group in the words of its group.
#[inline]
fn bit(index: usize) -> u64 {
    1 << (index % MEMBERS)
}

impl Directory {
    /// Without pieces.
    pub const fn none() -> Self {
        Self { entries: &mut [], starts: [0; LEVELS + 1], levels: 0, pieces: 0, shift: 0 }
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

    /// In so many pieces of 2^`shift` bytes, not less than a page; what lies beyond counts to the
    /// last one.
    pub fn with_pieces(entries: &'static mut [Entry], pieces: usize, shift: u32) -> Self {
        let fits = self::entries(pieces) <= entries.len() && (12..64).contains(&shift);
        if pieces == 0 || !fits {
            return Self::none();
        }
        let mut directory = Self { entries, shift, pieces, ..Self::none() };
        let mut len = pieces;
        while directory.levels == 0 || len > 1 {
            let start = directory.starts[directory.levels];
            directory.levels += 1;
            directory.starts[directory.levels] = start + len;
            len = len.div_ceil(MEMBERS);
        }
        directory
    }

    pub fn pieces(&self) -> usize {
        self.pieces
    }

    /// The piece in which an address lies.
    #[inline]
    pub fn piece_of(&self, base: u64) -> usize {
        ((base >> self.shift) as usize).min(self.pieces.wrapping_sub(1))
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
            let group = self.group_mut(level, index);
            let before = group.used;
            group.used = if used { before | bit(index) } else { before & !bit(index) };
            if before != 0 && group.used != 0 {
                return;
            }
            index >>= GROUP;
        }
    }

    /// The entry of a piece or group of a level.
    #[inline]
    fn at(&self, level: usize, index: usize) -> &Entry {
        &self.entries[self.starts[level] + index]
    }

    #[inline]
    fn at_mut(&mut self, level: usize, index: usize) -> &mut Entry {
        &mut self.entries[self.starts[level] + index]
    }

    /// The group that `index` of a level belongs to.
    #[inline]
    fn group(&self, level: usize, index: usize) -> &Entry {
        self.at(level + 1, index >> GROUP)
    }

    #[inline]
    fn group_mut(&mut self, level: usize, index: usize) -> &mut Entry {
        self.at_mut(level + 1, index >> GROUP)
    }

    /// Where a piece begins, in pages.
    #[inline]
    pub fn start_of(&self, piece: usize) -> u64 {
        (piece as u64) << (self.shift - 12)
    }

    /// Whether something that ends at `end`, in pages, ends behind a piece or group of a level.
    #[inline]
    fn spans(&self, level: usize, index: usize, end: u64) -> bool {
        end > (index as u64 + 1) << (self.shift - 12 + GROUP * level as u32)
    }

    /// Notes that something in a piece ends at `ends`.
    #[inline]
    pub fn raise(&mut self, piece: usize, ends: Ends) {
        let mut index = piece;
        for level in 0..self.levels {
            let entry = self.at_mut(level, index);
            let raised = entry.ends.max(ends);
            if raised == entry.ends {
                return;
            }
            entry.ends = raised;
            if self.spans(level, index, ends.object.max(ends.leaf)) {
                self.group_mut(level, index).spanning |= bit(index);
            }
            index >>= GROUP;
        }
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
            let before = core::mem::replace(&mut self.at_mut(level, index).ends.object, end);
            if before == end {
                return;
            }
            self.mark_spanning(level, index);
            if level + 1 == self.levels || self.group(level, index).ends.object > before.max(end) {
                return;
            }
            end = self.highest_object(level, index);
            index >>= GROUP;
        }
    }

    /// Notes whether something in a piece or group ends behind it.
    #[inline]
    fn mark_spanning(&mut self, level: usize, index: usize) {
        let ends = self.at(level, index).ends;
        let spans = self.spans(level, index, ends.object.max(ends.leaf));
        let group = self.group_mut(level, index);
        let others = group.spanning & !bit(index);
        group.spanning = others | if spans { bit(index) } else { 0 };
    }

    fn set_leaf(&mut self, piece: usize, end: u64) {
        let (mut index, mut end) = (piece, end);
        for level in 0..self.levels {
            if core::mem::replace(&mut self.at_mut(level, index).ends.leaf, end) == end {
                return;
            }
            self.mark_spanning(level, index);
            let members = Self::members(index, self.group(level, index).used);
            end = members.map(|i| self.at(level, i).ends.leaf).max().unwrap_or(0);
            index >>= GROUP;
        }
    }

    /// Members of the group that `index` belongs to, the last one first.
    #[inline]
    fn members(index: usize, chosen: u64) -> impl Iterator<Item = usize> {
        let first = index & !(MEMBERS - 1);
        let mut chosen = chosen;
        core::iter::from_fn(move || {
            let last = chosen.checked_ilog2()?;
            chosen &= !(1 << last);
            Some(first + last as usize)
        })
    }

    /// The highest end of an object in the group that `index` belongs to: that of one that reaches
    /// beyond its piece, or of the last one.
    fn highest_object(&self, level: usize, index: usize) -> u64 {
        let group = self.group(level, index);
        let end = |i: usize| self.at(level, i).ends.object;
        let spanning = Self::members(index, group.spanning).map(end).max().unwrap_or(0);
        let last = Self::members(index, group.used).map(end).find(|&end| end > 0);
        last.unwrap_or(0).max(spanning)
    }

    /// The first tree of all in which something ends at `end` or behind it. O(log pieces).
    pub fn first<R: Reach>(&self, end: u64) -> Option<Ref> {
        self.first_of::<R>(self.levels.checked_sub(1)?, 0, !0, end)
    }

    /// The first tree behind a piece, if it is that of piece `last` or one before.
    #[inline]
    pub fn next(&self, piece: usize, last: usize) -> Option<Ref> {
        let behind = self.group(0, piece).used & (!1 << (piece % MEMBERS));
        if behind != 0 {
            let found = (piece & !(MEMBERS - 1)) + behind.trailing_zeros() as usize;
            return if found <= last { self.root(found) } else { None };
        }
        if last >> GROUP == piece >> GROUP {
            return None;
        }
        self.after::<All>(piece, last, 1)
    }

    /// The first tree behind a piece in which something ends at `end` or behind it, if it is that of
    /// piece `last` or one before.
    pub fn after<R: Reach>(&self, piece: usize, last: usize, end: u64) -> Option<Ref> {
        let (mut index, mut last) = (piece, last);
        for level in 0..self.levels {
            if index >= last {
                return None;
            }
            let mut behind = !1 << (index % MEMBERS);
            if index >> GROUP == last >> GROUP {
                behind &= !(!1 << (last % MEMBERS));
            }
            let first = index & !(MEMBERS - 1);
            if let Some(found) = self.first_of::<R>(level, first, behind, end) {
                return Some(found);
            }
            (index, last) = (index >> GROUP, last >> GROUP);
        }
        None
    }

    /// The first such tree in some members of the group that begins at `first`.
    #[inline]
    fn first_of<R: Reach>(&self, level: usize, first: usize, chosen: u64, end: u64) -> Option<Ref> {
        let (mut level, mut first) = (level, first);
        let mut members = self.may_reach(level, first, end) & chosen;
        while members != 0 {
            let index = first + members.trailing_zeros() as usize;
            let entry = self.at(level, index);
            if R::of(&entry.ends) < end {
                members &= members - 1;
            } else if level == 0 {
                return entry.root;
            } else {
                (level, first) = (level - 1, index << GROUP);
                members = self.may_reach(level, first, end);
            }
        }
        None
    }

    /// The members of the group that begins at `first` that may reach `end`: they have capabilities,
    /// and begin no earlier than the one that `end` lies in or reach beyond themselves.
    #[inline]
    fn may_reach(&self, level: usize, first: usize, end: u64) -> u64 {
        let group = self.group(level, first);
        let target = (end.saturating_sub(1) >> (self.shift - 12 + GROUP * level as u32)) as usize;
        let from = match target.saturating_sub(first) {
            far if far >= MEMBERS => 0,
            near => !0 << near,
        };
        group.used & (group.spanning | from)
    }

    /// The last piece or group before a piece in which an object ends at `end` or behind it, which is
    /// behind the beginning of the piece; and its level.
    #[inline]
    fn reaching(&self, piece: usize, end: u64) -> Option<(usize, usize)> {
        let mut index = piece;
        for level in 0..self.levels {
            let before = self.group(level, index).spanning & (bit(index) - 1);
            if before != 0 {
                if let Some(found) = self.last_of(level, index, before, end) {
                    return Some((level, found));
                }
            }
            index >>= GROUP;
        }
        None
    }

    /// The last such member, of some, of the group that `index` belongs to.
    fn last_of(&self, level: usize, index: usize, members: u64, end: u64) -> Option<usize> {
        Self::members(index, members).find(|&i| self.at(level, i).ends.object >= end)
    }

    /// Whether an object in a piece before this one ends at `end` or behind it, which is behind the
    /// beginning of the piece.
    #[inline]
    pub fn is_reached(&self, piece: usize, end: u64) -> bool {
        self.reaching(piece, end).is_some()
    }

    /// The last tree before a piece with such an object.
    #[inline]
    pub fn before(&self, piece: usize, end: u64) -> Option<Ref> {
        let (mut level, mut index) = self.reaching(piece, end)?;
        while level > 0 {
            let members = self.at(level, index).spanning;
            level -= 1;
            index = self.last_of(level, index << GROUP, members, end)?;
        }
        self.root(index)
    }

    /// Whether everything noted is right, given the ends of a root.
    pub fn is_right(&self, ends: impl Fn(Ref) -> Ends) -> bool {
        let mut lens = [self.pieces; LEVELS];
        (1..LEVELS).for_each(|level| lens[level] = lens[level - 1].div_ceil(MEMBERS));
        let noted = |level: usize, index: usize| {
            let entry = self.at(level, index);
            if level == 0 {
                return entry.ends == entry.root.map(&ends).unwrap_or_default();
            }
            let first = index << GROUP;
            let members = first..(first + MEMBERS).min(lens[level - 1]);
            let highest = members
                .map(|member| self.at(level - 1, member).ends)
                .fold(Ends::default(), |highest, ends| highest.max(ends));
            level == self.levels || entry.ends == highest
        };
        let marked = |level: usize, index: usize| {
            let (entry, group) = (self.at(level, index), self.group(level, index));
            let used = if level == 0 { entry.root.is_some() } else { entry.used != 0 };
            let spans = self.spans(level, index, entry.ends.object.max(entry.ends.leaf));
            used == (group.used & bit(index) != 0) && spans == (group.spanning & bit(index) != 0)
        };
        (0..self.levels).all(|l| (0..lens[l]).all(|i| noted(l, i) && marked(l, i)))
    }
}
