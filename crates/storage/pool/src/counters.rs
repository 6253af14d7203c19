//! The counters of the three levels.

use crate::{Locals, Pool, Words};

/// Of 2 MiB: how many of its frames are free; or it was taken as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Child(pub u64);

impl Child {
    pub const HUGE: Child = Child(1 << 32);
    /// As a whole, and is being given back so.
    pub(crate) const GIVING: Child = Child(2 << 32);
    /// No memory of the pool; it was once.
    pub const ABSENT: Child = Child(3 << 32);
    /// It never was: its bits and descriptors say anything.
    pub const RAW: Child = Child(4 << 32);
    pub fn free(count: usize) -> Child {
        Child(count as u64)
    }
    pub(crate) fn has(self, count: usize) -> bool {
        self.0 <= crate::CHILD as u64 && self.0 >= count as u64
    }
    pub fn is_absent(self) -> bool {
        self.0 >= Self::ABSENT.0
    }
    /// None of its pages can be given back.
    pub(crate) fn is_nobodys(self) -> bool {
        self.0 >= Self::GIVING.0
    }
    /// Taken as a whole, and not yet given back; or absent.
    pub(crate) fn is_whole(self) -> bool {
        self.0 > crate::CHILD as u64
    }
    pub fn is_huge(self) -> bool {
        self == Self::HUGE
    }
}

/// Of a tree: how many of its frames are free and no core's; how many cores reserve a part of it; is it closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree(pub u64);

impl Tree {
    /// One core.
    const RESERVED: u64 = 1 << 32;
    const ALL_RESERVED: u64 = 0xffff * Self::RESERVED;
    const CLOSED: u64 = 1 << 48;

    pub fn free(count: usize) -> Tree {
        Tree(count as u64)
    }
    pub fn count(self) -> usize {
        self.0 as u32 as usize
    }
    pub fn is_reserved(self) -> bool {
        self.0 & Self::ALL_RESERVED != 0
    }
    pub fn is_closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }
    pub(crate) fn reserved(self) -> Tree {
        Tree(self.0 + Self::RESERVED)
    }
    fn unreserved(self) -> Tree {
        Tree(self.0 - Self::RESERVED)
    }
    pub(crate) fn closed(self) -> Tree {
        Tree(self.0 | Self::CLOSED)
    }
    pub(crate) fn opened(self) -> Tree {
        Tree(self.0 & !Self::CLOSED)
    }
}

/// Of a core: which tree it reserves, and how many frames of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Local(pub u64);

impl Local {
    pub const NONE: Local = Local(0);
    pub fn of(tree: usize, count: usize) -> Local {
        Local((tree as u64 + 1) << 32 | count as u64)
    }
    /// Does it reserve this one?
    #[inline(always)]
    pub(crate) fn is_in(self, tree: usize) -> bool {
        self.0 >> 32 == tree as u64 + 1
    }
    pub fn tree(self) -> Option<usize> {
        ((self.0 >> 32) as usize).checked_sub(1)
    }
    pub fn count(self) -> usize {
        self.0 as u32 as usize
    }
}

impl<W: Words, L: Locals> Pool<'_, W, L> {
    pub(crate) fn tree(&self, tree: usize) -> Tree {
        Tree(self.words.load(self.geometry.tree(tree)))
    }
    pub(crate) fn child(&self, child: usize) -> Child {
        Child(self.words.load(self.geometry.child(child)))
    }
    pub(crate) fn local(&self, core: usize) -> Local {
        Local(self.locals.load(core))
    }

    /// Changes a word as `f` says, until nobody else changes it meanwhile; `None` if `f` does.
    fn update(&self, word: usize, f: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut now = self.words.load(word);
        loop {
            match self.words.compare_exchange(word, now, f(now)?) {
                Ok(()) => return Some(now),
                Err(other) => now = other,
            }
        }
    }
    fn update_local(&self, core: usize, f: impl Fn(Local) -> Option<Local>) -> Option<Local> {
        let mut now = self.local(core);
        loop {
            match self.locals.compare_exchange(core, now.0, f(now)?.0) {
                Ok(()) => return Some(now),
                Err(other) => now = Local(other),
            }
        }
    }

    /// A right to `need` frames of the tree that the core reserves.
    pub(crate) fn take_local(&self, core: usize, need: usize) -> Option<usize> {
        let taken = self.update_local(core, |local| {
            (local.tree().is_some() && local.count() >= need).then(|| Local(local.0 - need as u64))
        });
        taken.and_then(Local::tree)
    }

    /// A right to `need` frames of a tree that is open.
    pub(crate) fn take_tree(&self, tree: usize, need: usize) -> bool {
        let word = self.geometry.tree(tree);
        let taken = self.update(word, |now| {
            let tree = Tree(now);
            (!tree.is_closed() && tree.count() >= need).then(|| now - need as u64)
        });
        taken.is_some()
    }
    /// A right to frames of a tree that is closed.
    pub(crate) fn take_closed(&self, tree: usize, need: usize) -> bool {
        let word = self.geometry.tree(tree);
        let taken = self.update(word, |now| {
            let tree = Tree(now);
            (tree.is_closed() && tree.count() >= need).then(|| now - need as u64)
        });
        taken.is_some()
    }
    /// A right to all that is free in a tree and no core's.
    pub(crate) fn take_tree_all(&self, tree: usize) -> usize {
        let word = self.geometry.tree(tree);
        let taken = self.update(word, |now| {
            let tree = Tree(now);
            (!tree.is_closed() && tree.count() > 0).then(|| now - tree.count() as u64)
        });
        taken.map_or(0, |now| Tree(now).count())
    }
    pub(crate) fn give_tree(&self, tree: usize, count: usize) {
        self.update(self.geometry.tree(tree), |now| Some(now + count as u64));
    }
    /// One more core reserves a tree that is reserved and open, so far nothing of it.
    pub(crate) fn reserve_too(&self, tree: usize) -> bool {
        let word = self.geometry.tree(tree);
        let joined = self.update(word, |now| {
            let tree = Tree(now);
            (tree.is_reserved() && !tree.is_closed()).then(|| tree.reserved().0)
        });
        joined.is_some()
    }
    /// Half of what a core has reserved of a tree, if that is at least so much.
    pub(crate) fn take_half(&self, tree: usize, core: usize, least: usize) -> Option<usize> {
        let half = |local: Local| local.count() / 2;
        let taken = self.update_local(core, |local| {
            (local.is_in(tree) && half(local) >= least).then(|| Local(local.0 - half(local) as u64))
        });
        taken.map(half)
    }
    /// A core reserves it no more, and leaves so much in it.
    pub(crate) fn unreserve(&self, tree: usize, count: usize) {
        let word = self.geometry.tree(tree);
        self.update(word, |now| Some(Tree(now).unreserved().0 + count as u64));
    }
    /// Gives to the core's own reservation, if it is of this tree.
    pub(crate) fn give_right(&self, tree: usize, count: usize, core: usize) {
        let mine = self.update_local(core, |local| {
            (local.tree() == Some(tree)).then(|| Local(local.0 + count as u64))
        });
        if mine.is_none() {
            self.give_tree(tree, count);
        }
    }

    pub(crate) fn take_child(&self, child: usize, need: usize) -> bool {
        let word = self.geometry.child(child);
        self.update(word, |now| Child(now).has(need).then(|| now - need as u64)).is_some()
    }
    pub(crate) fn give_child(&self, child: usize, count: usize) {
        self.update(self.geometry.child(child), |now| Some(now + count as u64));
    }
}
