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

/// A pool of so many children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    children: usize,
    reserved: usize,
}

impl Geometry {
    /// A pool of `frames`, rounded down to 2 MiB, whose first `reserved` frames are its owner's. `None` if nothing would be left.
    pub fn new(frames: usize, reserved: usize) -> Option<Geometry> {
        let geometry = Geometry { children: frames / CHILD, reserved };
        let own = geometry.words().div_ceil(WORDS).checked_add(reserved)?;
        (own < geometry.frames()).then_some(geometry)
    }
    /// The same, of what [`new`](Self::new) has once said that something would be left.
    #[inline(always)]
    pub fn known(frames: usize, reserved: usize) -> Geometry {
        Geometry { children: frames / CHILD, reserved }
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
        self.reserved + self.words().div_ceil(WORDS)
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
    pub(crate) fn child(&self, child: usize) -> usize {
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
