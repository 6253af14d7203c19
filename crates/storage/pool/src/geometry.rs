//! Where the words of the allocator are.
//!
//! ```text
//! frame 0                                                              own_frames()
//! ┌──────────────────┬─────────────┬────────────┬────────────────────┬──────────────────────
//! │ bits: 8 words    │ children: 1 │ trees: 1   │ descriptors:       │ what is handed out
//! │ for each 2 MiB   │ for each    │ for each 8 │ 512 for each 2 MiB │
//! └──────────────────┴─────────────┴────────────┴────────────────────┴──────────────────────
//! ```
//!
//! That is 1 frame in 504 or so.

use core::ops::Range;

/// Frames of a child: 2 MiB.
pub const CHILD: usize = 512;
/// Children of a tree.
pub const TREE: usize = 8;
/// Words of a frame.
const WORDS: usize = 512;

/// Most children of a pool whose memory comes and goes: 64 TiB.
const MOST_APART: usize = 1 << 25;

/// A pool of so many children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    children: usize,
    reserved: usize,
    is_apart: bool,
}

impl Geometry {
    /// A pool of `frames`, rounded down to 2 MiB, whose first `reserved` frames are its owner's. `None` if nothing would be left.
    pub fn new(frames: usize, reserved: usize) -> Option<Geometry> {
        let geometry = Geometry::known(frames, reserved, false);
        let own = geometry.words().div_ceil(WORDS).checked_add(reserved)?;
        (own < geometry.frames()).then_some(geometry)
    }
    /// The same, of what [`new`](Self::new) has once said that something would be left.
    #[inline(always)]
    pub fn known(frames: usize, reserved: usize, is_apart: bool) -> Geometry {
        Geometry { children: frames / CHILD, reserved, is_apart }
    }
    /// A pool of memory that comes and goes, inside of `frames`, rounded down to 2 MiB: its words are somewhere else. `None` if that is too much
    /// for the numbers of frames.
    pub fn apart(frames: usize) -> Option<Geometry> {
        let geometry = Geometry::known(frames, 0, true);
        (0 < geometry.children && geometry.children <= MOST_APART).then_some(geometry)
    }
    /// Most frames of such a pool whose words are to be in so many frames.
    pub fn most_apart(own: usize) -> usize {
        // Eight of a tree share a word.
        let eighths = own.min(MOST_APART) * WORDS * TREE;
        let children = eighths / (TREE * (CHILD / 64 + 1 + CHILD) + 1);
        let geometry = Geometry::known(children * CHILD, 0, true);
        // The last tree may have fewer than eight.
        let fits = geometry.words().div_ceil(WORDS) <= own;
        if fits {
            children * CHILD
        } else {
            children.saturating_sub(1) * CHILD
        }
    }
    /// Are the words somewhere else, so that memory comes and goes?
    pub fn is_apart(&self) -> bool {
        self.is_apart
    }
    pub fn frames(&self) -> usize {
        self.children * CHILD
    }
    pub fn children(&self) -> usize {
        self.children
    }
    pub fn trees(&self) -> usize {
        self.children.div_ceil(TREE)
    }
    /// The first frames, which are never handed out: the owner's, and then those with the allocator's words.
    pub fn own_frames(&self) -> usize {
        match self.is_apart {
            true => 0,
            false => self.reserved + self.words().div_ceil(WORDS),
        }
    }
    /// All words of the allocator.
    pub fn words(&self) -> usize {
        self.descriptor(self.frames())
    }
    pub(crate) fn children_of(&self, tree: usize) -> Range<usize> {
        tree * TREE..((tree + 1) * TREE).min(self.children)
    }
    pub(crate) fn bits(&self, child: usize) -> usize {
        child * (CHILD / 64)
    }
    /// The word of a child.
    pub fn child(&self, child: usize) -> usize {
        self.bits(self.children) + child
    }
    pub(crate) fn tree(&self, tree: usize) -> usize {
        self.child(self.children) + tree
    }
    /// The word that is a frame's, for whoever has taken it.
    pub fn descriptor(&self, frame: usize) -> usize {
        self.tree(self.trees()) + frame
    }
}
