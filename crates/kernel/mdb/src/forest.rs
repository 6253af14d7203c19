//! The search trees of a database as one order: which of them a capability belongs to, and how to get
//! from one to the next.

use crate::directory::{Directory, Entry};
use crate::order::Key;
use crate::slot::{past_page, Ref};
use crate::tree::{
    first_reaching, last_object, leftmost, next_reaching, prev_object, All, Class, Leaves, Objects,
    Reach,
};
use crate::{Mdb, Policy, RawCap, MAX_TREES};

/// A search tree: that of a type tree, or, behind those, that of a piece of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home(usize);

impl Home {
    #[inline]
    fn piece(self) -> Option<usize> {
        self.0.checked_sub(MAX_TREES)
    }
}

/// The last object before a piece that reaches into it, as it was found: what is deleted one after the
/// other mostly lies in the same piece.
#[derive(Clone, Copy)]
pub(crate) struct Outer {
    piece: usize,
    object: Option<Ref>,
}

impl Outer {
    /// Of no piece.
    pub const UNKNOWN: Outer = Outer { piece: usize::MAX, object: None };
}

impl<P: Policy> Mdb<P> {
    /// Divides the type tree `tree`, for memory up to `top`, into pieces with a search tree each, as
    /// small as `entries` suffice for; see [`PIECE`](crate::PIECE). Memory beyond `top` counts to the
    /// last piece. Returns whether the database is empty, as it must be; else nothing changes.
    pub fn divide(&mut self, tree: u8, top: u64, entries: &'static mut [Entry]) -> bool {
        self.set_directory(tree, || Directory::new(entries, top))
    }

    /// The same in `pieces` pieces of 2^`shift` bytes, if there are so many
    /// [`entries`](crate::directory_entries).
    pub fn divide_into(
        &mut self,
        tree: u8,
        pieces: usize,
        shift: u32,
        entries: &'static mut [Entry],
    ) -> bool {
        self.set_directory(tree, || Directory::with_pieces(entries, pieces, shift))
    }

    fn set_directory(&mut self, tree: u8, directory: impl FnOnce() -> Directory) -> bool {
        let empty = self.is_empty();
        if empty {
            self.directory = directory();
            self.outer.set(Outer::UNKNOWN);
            let divided = self.directory.pieces() > 0;
            self.divided = if divided { usize::from(tree) % MAX_TREES } else { MAX_TREES };
        }
        empty
    }

    /// The search tree for what begins at `base`.
    #[inline]
    pub(crate) fn home_at(&self, tree: usize, base: u64) -> Home {
        if tree == self.divided {
            return Home(MAX_TREES + self.directory.piece_of(base));
        }
        Home(tree)
    }

    #[inline]
    pub(crate) fn home(&self, cap: &RawCap) -> Home {
        self.home_at(Self::tree_of(cap), cap.base)
    }

    #[inline]
    pub(crate) fn root(&self, home: Home) -> Option<Ref> {
        match home.piece() {
            None => self.roots[home.0],
            Some(piece) => self.directory.root(piece),
        }
    }

    #[inline]
    pub(crate) fn set_root(&mut self, home: Home, root: Option<Ref>) {
        match home.piece() {
            None => self.roots[home.0] = root,
            Some(piece) => self.directory.set_root(piece, root),
        }
    }

    /// Tells the directory that something in a tree ends at `ends`.
    #[inline]
    pub(crate) fn raise_directory(&mut self, home: Home, ends: crate::slot::Ends) {
        if let Some(piece) = home.piece() {
            self.directory.raise(piece, ends);
        }
    }

    /// Tells the directory that the ends of a root may have fallen.
    #[inline]
    pub(crate) fn refresh_directory(&mut self, home: Home) {
        if let Some(piece) = home.piece() {
            let ends = self.directory.root(piece).map(|root| root.ends()).unwrap_or_default();
            self.directory.set(piece, ends);
        }
    }

    /// The first tree behind `home`, of the same type tree, that reaches `end`, in pages; none if all
    /// of it begins at the address `limit` or behind it.
    #[inline]
    fn behind<R: Reach>(&self, home: Home, end: u64, limit: u64) -> Option<Ref> {
        let last = self.directory.piece_of(limit.saturating_sub(1));
        self.directory.after::<R>(home.piece()?, last, end)
    }

    /// The root of the first tree behind `home`; none if all of it begins at `limit` or behind it.
    #[inline]
    fn next_root(&self, home: Home, limit: u64) -> Option<Ref> {
        let last = self.directory.piece_of(limit.saturating_sub(1));
        self.directory.next(home.piece()?, last)
    }

    /// Every search tree of a type tree, in order.
    pub(crate) fn trees(&self, tree: usize) -> impl Iterator<Item = Home> {
        let pieces = if tree == self.divided { self.directory.pieces() } else { 0 };
        let own = (pieces == 0).then_some(Home(tree));
        own.into_iter().chain((0..pieces).map(|piece| Home(MAX_TREES + piece)))
    }

    /// Whether what the directory notes of all trees is right.
    pub(crate) fn is_directory_right(&self) -> bool {
        self.directory.is_right(|root| root.ends())
    }

    /// The next node in the order, if it begins before `limit`. O(log n), O(1) amortised over a walk.
    #[inline]
    pub(crate) fn next_node(&self, node: Ref, limit: u64) -> Option<Ref> {
        let next = crate::tree::next(node).or_else(|| self.first_node_behind(node, limit));
        next.filter(|next| limit == u64::MAX || next.cap().base < limit)
    }

    #[inline]
    fn first_node_behind(&self, node: Ref, limit: u64) -> Option<Ref> {
        self.next_root(self.home(&node.cap()), limit).map(leftmost)
    }

    /// The first node of a type tree.
    pub(crate) fn first_node(&self, tree: usize) -> Option<Ref> {
        self.first_root::<All>(tree, 1).map(leftmost)
    }

    /// The root of the first tree that reaches `end`.
    fn first_root<R: Reach>(&self, tree: usize, end: u64) -> Option<Ref> {
        if tree == self.divided {
            return self.directory.first::<R>(end);
        }
        self.roots[tree]
    }

    /// The last object before `node` whose end, in pages, is `end` or more. O(log n).
    #[inline]
    pub(crate) fn object_before(&self, node: Ref, end: u64) -> Option<Ref> {
        prev_object::<P>(node, end).or_else(|| self.object_ahead(self.home(&node.cap()), end))
    }

    /// The last such object in the trees before `home`; `end` is behind the beginning of the piece.
    #[inline]
    pub(crate) fn object_ahead(&self, home: Home, end: u64) -> Option<Ref> {
        let piece = home.piece()?;
        let mut outer = self.outer.get();
        if outer.piece != piece {
            let into = self.directory.start_of(piece) + 1;
            outer = Outer { piece, object: self.search_ahead(piece, into) };
            self.outer.set(outer);
        }
        // One that reaches `end` would have been found if it were behind this one.
        let object = outer.object?;
        match Objects::own::<P>(object) >= end {
            true => Some(object),
            false => self.search_ahead(piece, end),
        }
    }

    #[inline(never)]
    fn search_ahead(&self, piece: usize, end: u64) -> Option<Ref> {
        last_object::<P>(self.directory.before(piece, end)?, end)
    }

    /// An object that ends at `end`, in pages, comes into a tree: it may be the outer one of pieces
    /// that it reaches into.
    #[inline]
    pub(crate) fn forget_outer(&mut self, home: Home, end: u64) {
        if home.piece().is_some_and(|piece| end > self.directory.start_of(piece + 1)) {
            self.outer.set(Outer::UNKNOWN);
        }
    }

    /// A node goes, or moves to another slot.
    #[inline]
    pub(crate) fn forget_outer_node(&mut self, node: Ref) {
        if self.outer.get().object == Some(node) {
            self.outer.set(Outer::UNKNOWN);
        }
    }

    /// The last node at `key` or before it, or, if there is none in its tree, the last object before
    /// it whose end, in pages, is `end` or more. O(log n).
    pub(crate) fn floor_or_object(&self, tree: usize, key: &Key, end: u64) -> Option<Ref> {
        let home = self.home_at(tree, key.base);
        self.floor(home, key).or_else(|| self.object_ahead(home, end))
    }

    /// The first node at `key` or after it. O(log n).
    pub(crate) fn ceiling(&self, tree: usize, key: &Key) -> Option<Ref> {
        let home = self.home_at(tree, key.base);
        self.ceiling_in(home, key).or_else(|| self.next_root(home, u64::MAX).map(leftmost))
    }

    /// The first node of the class in a type tree that reaches beyond `address`; perhaps none if it
    /// begins at `limit` or behind it. O(log n).
    pub(crate) fn first_beyond(
        &self,
        tree: usize,
        class: Class,
        address: u64,
        limit: u64,
    ) -> Option<Ref> {
        let end = past_page(address);
        match class {
            Class::Objects => self.first_object(tree, address, end, limit),
            Class::Leaves => self.first_of_class::<Leaves>(tree, end),
            Class::All => self.first_of_class::<All>(tree, end),
        }
    }

    /// The first node of the class after `node` whose end, in pages, is `end` or more; perhaps none if
    /// it begins at the address `limit` or behind it. O(log n).
    pub(crate) fn next_of(&self, class: Class, node: Ref, end: u64, limit: u64) -> Option<Ref> {
        match class {
            Class::Objects => self.next_of_class::<Objects>(node, end, limit),
            Class::Leaves => self.next_of_class::<Leaves>(node, end, limit),
            Class::All => self.next_of_class::<All>(node, end, limit),
        }
    }

    /// The first such node at `node` or after it. O(log n).
    pub(crate) fn at_or_next_of(
        &self,
        class: Class,
        node: Ref,
        end: u64,
        limit: u64,
    ) -> Option<Ref> {
        let own = match class {
            Class::Objects => Objects::own::<P>(node),
            Class::Leaves => Leaves::own::<P>(node),
            Class::All => All::own::<P>(node),
        };
        if own >= end {
            Some(node)
        } else {
            self.next_of(class, node, end, limit)
        }
    }

    /// Mostly nothing reaches there from another piece, and this is quick to see.
    fn first_object(&self, tree: usize, address: u64, end: u64, limit: u64) -> Option<Ref> {
        let home = self.home_at(tree, address);
        match home.piece() {
            Some(piece) if !self.directory.is_reached(piece, end) => {
                let own = self.root(home).and_then(|n| first_reaching::<P, Objects>(n, end));
                own.or_else(|| {
                    let behind = self.behind::<Objects>(home, end, limit)?;
                    first_reaching::<P, Objects>(behind, end)
                })
            }
            _ => self.first_of_class::<Objects>(tree, end),
        }
    }

    fn first_of_class<R: Reach>(&self, tree: usize, end: u64) -> Option<Ref> {
        first_reaching::<P, R>(self.first_root::<R>(tree, end)?, end)
    }

    fn next_of_class<R: Reach>(&self, node: Ref, end: u64, limit: u64) -> Option<Ref> {
        next_reaching::<P, R>(node, end).or_else(|| {
            let behind = self.behind::<R>(self.home(&node.cap()), end, limit)?;
            first_reaching::<P, R>(behind, end)
        })
    }
}
