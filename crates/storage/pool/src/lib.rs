//! Pools of pages: an allocator without locks and without a log, in the memory that it hands out.
//!
//! The design is LLFree's (Wrenger, Rommel, Halbuer, Dietrich, Lohmann: USENIX ATC 2023): three levels of counters over a bit for each page.
//!
//! ```text
//! core      ┌──────────────┐ ┌────┐      a tree that this core takes from, and how much of it
//!           │ tree 1: 700  │ │ –  │
//!           └──────────────┘ └────┘
//! tree      ┌──────┐ ┌──────────────┐ ┌──────┐     free pages of 8 children that no core has reserved, and how many have
//!           │ 4096 │ │ 17, reserved │ │ 12   │
//!           └──────┘ └──────────────┘ └──────┘
//! child     ┌─────┬──────┬───┐                     free pages of 2 MiB; or taken as a whole, or absent
//!           │ 512 │ huge │ 3 │ …
//!           └─────┴──────┴───┘
//! bits      00000000  11111111  11011010 …         512 of them: 1 is in use
//! ```
//!
//! **The invariant**: a counter is never more than what is free below it, and what is missing in it is somebody's right to take that much.
//! Who takes goes down: first it takes from the counter of the tree, then from that of a child, then a bit. Who gives
//! goes up. So nobody who has got through the upper level can be left without a page for longer than others are between two levels; who
//! is, puts back what it had and goes elsewhere.
//!
//! Nothing here needs to survive a power failure: [`format`](Pool::format) marks all free, and recovery
//! [takes](Pool::take_at) what its trees reach.
//!
//! Frames are numbered from the pool's first one, which is aligned to 2 MiB. The words of the allocator are in the first frames
//! ([`Geometry`]), which are never free. Page sizes are those of x86-64: 4 KiB, and 2 MiB for a child.
#![no_std]
#![forbid(unsafe_code)]

mod chunks;
mod counters;
mod geometry;
mod grow;
mod next;
mod slots;

pub use counters::{Child, Local, Tree};
pub use geometry::{Geometry, CHILD, TREE};
pub use next::Owed;

/// The words of the allocator, by their numbers in a [`Geometry`]. Loads acquire; an exchange is seen by all others before
/// what its core loads next (as a locked instruction of x86 is).
pub trait Words {
    fn load(&self, word: usize) -> u64;
    fn store(&self, word: usize, value: u64);
    /// # Errors
    /// What is there, if it is not `old`.
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<(), u64>;
}

/// What a core has reserved: volatile, one word for each core, and one that only that core uses and that may say anything.
pub trait Locals {
    fn cores(&self) -> usize;
    fn load(&self, core: usize) -> u64;
    /// # Errors
    /// What is there, if it is not `old`.
    fn compare_exchange(&self, core: usize, old: u64, new: u64) -> Result<(), u64>;
    /// In which group of 64 frames the core has found a page last.
    fn found_in(&self, core: usize) -> usize;
    /// It has found one there.
    fn set_found_in(&self, core: usize, group: usize);
}

impl<T: Words> Words for &T {
    fn load(&self, word: usize) -> u64 {
        T::load(self, word)
    }
    fn store(&self, word: usize, value: u64) {
        T::store(self, word, value)
    }
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<(), u64> {
        T::compare_exchange(self, word, old, new)
    }
}

impl<T: Locals> Locals for &T {
    fn cores(&self) -> usize {
        T::cores(self)
    }
    fn load(&self, core: usize) -> u64 {
        T::load(self, core)
    }
    fn compare_exchange(&self, core: usize, old: u64, new: u64) -> Result<(), u64> {
        T::compare_exchange(self, core, old, new)
    }
    fn found_in(&self, core: usize) -> usize {
        T::found_in(self, core)
    }
    fn set_found_in(&self, core: usize, group: usize) {
        T::set_found_in(self, core, group)
    }
}

/// Sizes that can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// 4 KiB.
    Page,
    /// 2 MiB, aligned.
    Huge,
}

impl Size {
    pub fn frames(self) -> usize {
        match self {
            Size::Page => 1,
            Size::Huge => CHILD,
        }
    }
}

/// Why something was not done. Then nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is nothing of this size.
    Empty,
    /// What there is, others have been taking or moving from one counter to another, four times.
    Busy,
    /// No frame of this pool, one of the allocator's own, or not aligned.
    Outside,
    /// It is free already, or not taken as what it is given back as.
    NotTaken,
}

/// How often a scan is begun again that others have disturbed.
const SCANS: usize = 4;
/// What a core has reserved is divided with another that finds nothing if each then has so much: a word of bits.
const SHARED: usize = 64;

/// A pool.
pub struct Pool<'a, W, L> {
    pub words: &'a W,
    pub locals: &'a L,
    pub geometry: Geometry,
}

impl<W: Words, L: Locals> Pool<'_, W, L> {
    /// Marks everything free but what the allocator needs itself, or everything absent if memory comes and goes. Nobody else may
    /// use the pool yet.
    ///
    /// No core reserves anything then, and all descriptors are 0.
    ///
    /// Bound: 521 words for each 2 MiB; [`format_tree`](Self::format_tree) is a step of it.
    pub fn format(&self) {
        (0..self.geometry.trees()).for_each(|tree| self.format_tree(tree));
        for core in 0..self.locals.cores() {
            let mut now = self.locals.load(core);
            while let Err(other) = self.locals.compare_exchange(core, now, Local::NONE.0) {
                now = other;
            }
        }
    }

    /// The same for one tree; what cores have reserved is not looked at. Bound: 4,169 words.
    pub fn format_tree(&self, tree: usize) {
        if self.geometry.is_apart() {
            return self.format_absent(tree);
        }
        let own = self.geometry.own_frames();
        let mut sum = 0;
        for child in self.geometry.children_of(tree) {
            let first = child * CHILD;
            let used = own.saturating_sub(first).min(CHILD);
            for n in 0..CHILD / 64 {
                let bits = used.saturating_sub(64 * n).min(64);
                let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                self.words.store(self.geometry.bits(child) + n, mask);
            }
            self.words.store(self.geometry.child(child), Child::free(CHILD - used).0);
            let descriptors = self.geometry.descriptor(first);
            (descriptors..descriptors + CHILD).for_each(|word| self.words.store(word, 0));
            sum += CHILD - used;
        }
        self.words.store(self.geometry.tree(tree), Tree::free(sum).0);
    }

    /// Free frames. Exact when nobody takes or gives at the time. Bound: one word for each tree and core.
    pub fn free(&self) -> usize {
        let trees = 0..self.geometry.trees();
        let shared: usize = trees.map(|tree| self.tree(tree).count()).sum();
        shared + (0..self.locals.cores()).map(|core| self.local(core).count()).sum::<usize>()
    }

    /// Is it free now?
    pub fn is_free(&self, frame: usize) -> bool {
        let child = frame / CHILD;
        frame < self.geometry.frames()
            && self.words.load(self.bit(frame).0) & self.bit(frame).1 == 0
            && !self.child(child).is_whole()
    }

    /// Takes a page, or 512 that are aligned, for a core.
    ///
    /// Bound: when the core's tree has enough, that tree; else each tree twice and each core once, and if that finds nothing each child
    /// and each tree once; at most four times.
    ///
    /// # Errors
    /// [`Refused::Empty`], or [`Refused::Busy`]: to be tried again.
    pub fn take(&self, size: Size, core: usize) -> Result<usize, Refused> {
        for _ in 0..SCANS {
            let mut frame = self.take_own(size, core);
            if frame.is_none() {
                // What somebody moves from one counter to another is in neither; but it is in the children.
                if !self.has_any(size) {
                    return Err(Refused::Empty);
                }
                frame = self.take_anywhere(size, core);
            }
            if let Some(frame) = frame {
                if size == Size::Page {
                    self.note(core, frame);
                }
                return Ok(frame);
            }
        }
        Err(Refused::Busy)
    }

    fn has_any(&self, size: Size) -> bool {
        let mut trees = (0..self.geometry.trees()).map(|tree| (tree, self.tree(tree)));
        trees.any(|(tree, now)| {
            // Of memory that comes and goes most is absent; who waits for what is on its way between counters asks again.
            let is_absent = self.geometry.is_apart() && now.count() == 0 && !now.is_reserved();
            !now.is_closed()
                && !is_absent
                && self.geometry.children_of(tree).any(|child| self.child(child).has(size.frames()))
        })
    }

    fn take_own(&self, size: Size, core: usize) -> Option<usize> {
        let tree = self.right(size, core)?;
        let taken = self.take_of_tree(tree, size, core);
        if taken.is_none() {
            // There is enough in the tree, but not in one piece, or others are between its levels.
            self.give_right(tree, size.frames(), core);
        }
        taken
    }

    /// A right to take from a tree: the core's own, or one that it reserves.
    fn right(&self, size: Size, core: usize) -> Option<usize> {
        let need = size.frames();
        if let Some(tree) = self.take_local(core, need) {
            return Some(tree);
        }
        // What others have given back to the tree of this core.
        if let Some(tree) = self.local(core).tree() {
            let more = self.take_tree_all(tree);
            self.give_right(tree, more, core);
            if let Some(tree) = self.take_local(core, need) {
                return Some(tree);
            }
        }
        self.reserve(need, core);
        if size == Size::Page && self.local(core).count() < need {
            self.share(core);
        }
        self.take_local(core, need)
    }

    /// Reserves a tree with at least so much, one that is used already if there is one.
    fn reserve(&self, need: usize, core: usize) {
        let trees = self.geometry.trees();
        let start = self.local(core).tree().unwrap_or(core * trees / self.locals.cores().max(1));
        let whole = TREE * CHILD;
        for full in [false, true] {
            for n in 0..trees {
                let tree = (start + n) % trees;
                let now = self.tree(tree);
                let fits = now.count() >= need && (full || now.count() < whole);
                if !fits || now.is_reserved() || now.is_closed() {
                    continue;
                }
                let taken = Tree::free(0).reserved();
                if self.words.compare_exchange(self.geometry.tree(tree), now.0, taken.0).is_ok() {
                    self.leave(core);
                    return self.settle_in_open(core, tree, now.count());
                }
            }
        }
    }

    /// No tree is left to be reserved: half of what another core has is this one's, of the same tree. Else small pools, and those that grow,
    /// have one core take its pages many at a time, and the others theirs [one by one](Self::steal).
    #[cold]
    fn share(&self, core: usize) {
        let cores = self.locals.cores();
        for other in (1..cores).map(|n| (core + n) % cores) {
            let there = self.local(other);
            let Some(tree) = there.tree().filter(|_| there.count() >= 2 * SHARED) else { continue };
            // Before there is anything in hand: a tree that nobody reserves has no more than it says.
            if !self.reserve_too(tree) {
                continue;
            }
            let Some(half) = self.take_half(tree, other, SHARED) else {
                self.unreserve(tree, 0);
                continue;
            };
            self.leave(core);
            return self.settle_in_open(core, tree, half);
        }
    }

    /// The core's word says what it has reserved.
    fn settle(&self, core: usize, tree: usize, count: usize) {
        let new = Local::of(tree, count);
        if self.locals.compare_exchange(core, Local::NONE.0, new.0).is_err() {
            // Two threads under one number: the other's reservation stays.
            self.unreserve(tree, count);
        }
    }

    /// The same for a tree that may have been closed meanwhile: who did may have looked before it was written down.
    fn settle_in_open(&self, core: usize, tree: usize, count: usize) {
        self.settle(core, tree, count);
        if self.tree(tree).is_closed() {
            self.leave(core);
        }
    }

    /// The core reserves nothing any more; what it had is everybody's.
    pub fn leave(&self, core: usize) {
        let mut now = self.local(core);
        while let Some(tree) = now.tree() {
            match self.locals.compare_exchange(core, now.0, Local::NONE.0) {
                Ok(()) => return self.unreserve(tree, now.count()),
                Err(other) => now = Local(other),
            }
        }
    }

    /// Every tree, whosever it is: what is left when nothing can be reserved.
    fn take_anywhere(&self, size: Size, core: usize) -> Option<usize> {
        let need = size.frames();
        for tree in 0..self.geometry.trees() {
            if !self.take_tree(tree, need) && !self.steal(tree, need) {
                continue;
            }
            if let Some(frame) = self.take_of_tree(tree, size, core) {
                return Some(frame);
            }
            self.give_tree(tree, need);
        }
        None
    }

    /// Takes from what another core has reserved of this tree: all of it becomes everybody's first.
    pub(crate) fn steal(&self, tree: usize, need: usize) -> bool {
        for core in 0..self.locals.cores() {
            if self.local(core).tree() == Some(tree) {
                self.leave(core);
            }
        }
        self.take_tree(tree, need)
    }

    /// Who has a right takes a frame of a tree.
    fn take_of_tree(&self, tree: usize, size: Size, core: usize) -> Option<usize> {
        let children = self.geometry.children_of(tree);
        let count = children.len();
        for n in 0..count {
            let child = children.start + (n + core) % count;
            let taken = match size {
                Size::Page => self.take_child(child, 1).then(|| self.take_bit(child)).flatten(),
                Size::Huge => self.take_whole(child).then_some(child * CHILD),
            };
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Who has a right to a page of a child takes one. `None`, and the right is given back, if others are faster each time.
    pub(crate) fn take_bit(&self, child: usize) -> Option<usize> {
        let first = self.geometry.bits(child);
        for _ in 0..SCANS {
            for n in 0..CHILD / 64 {
                let mut now = self.words.load(first + n);
                while now != u64::MAX {
                    let bit = (!now).trailing_zeros() as usize;
                    match self.words.compare_exchange(first + n, now, now | 1 << bit) {
                        Ok(()) => return Some(child * CHILD + 64 * n + bit),
                        Err(other) => now = other,
                    }
                }
            }
        }
        self.give_child(child, 1);
        None
    }

    fn take_whole(&self, child: usize) -> bool {
        let word = self.geometry.child(child);
        let free = Child::free(CHILD);
        if self.words.compare_exchange(word, free.0, Child::HUGE.0).is_err() {
            return false;
        }
        // Its pages may be given back one by one.
        let bits = self.geometry.bits(child);
        (bits..bits + CHILD / 64).for_each(|word| self.words.store(word, u64::MAX));
        true
    }

    /// Takes these frames, if they are free: recovery says what is in use.
    ///
    /// It may answer `false` of a free frame, too, while another core takes from the same tree: during recovery none does.
    ///
    /// Bound: a word of each core.
    pub fn take_at(&self, frame: usize, size: Size) -> bool {
        let (child, need) = (frame / CHILD, size.frames());
        let inside = frame < self.geometry.frames() && frame.is_multiple_of(need);
        if !inside || !self.is_free(frame) {
            return false;
        }
        let tree = child / TREE;
        if !self.take_tree(tree, need) && !self.steal(tree, need) {
            return false;
        }
        let taken = match size {
            Size::Huge => self.take_whole(child),
            Size::Page => self.take_child(child, 1) && self.take_this_bit(frame),
        };
        if !taken {
            self.give_tree(tree, need);
        }
        taken
    }

    pub(crate) fn take_this_bit(&self, frame: usize) -> bool {
        let (word, mask) = self.bit(frame);
        let mut now = self.words.load(word);
        while now & mask == 0 {
            match self.words.compare_exchange(word, now, now | mask) {
                Ok(()) => return true,
                Err(other) => now = other,
            }
        }
        self.give_child(frame / CHILD, 1);
        false
    }

    /// Gives back what was taken; of 512 frames that were taken together, some may be given back alone.
    ///
    /// Bound: five words; 8 more for 2 MiB.
    ///
    /// # Errors
    /// [`Refused::Outside`], [`Refused::NotTaken`].
    pub fn give(&self, frame: usize, size: Size, core: usize) -> Result<(), Refused> {
        let (child, count) = (frame / CHILD, size.frames());
        let own = self.geometry.own_frames();
        if !(own..self.geometry.frames()).contains(&frame) || !frame.is_multiple_of(count) {
            return Err(Refused::Outside);
        }
        match size {
            Size::Huge => self.give_whole(child)?,
            Size::Page => {
                self.break_up(child)?;
                self.give_bit(frame)?;
                self.give_child(child, 1);
            }
        }
        self.give_right(child / TREE, count, core);
        Ok(())
    }

    /// Gives back pages in a row, of one word of bits, that were taken one by one or as a run: none of them, if one cannot be.
    ///
    /// Bound: five words.
    ///
    /// # Errors
    /// [`Refused::Outside`], [`Refused::NotTaken`].
    pub fn give_run(&self, first: usize, count: usize, core: usize) -> Result<(), Refused> {
        let (child, bit) = (first / CHILD, first % 64);
        let inside = self.geometry.own_frames() <= first && first < self.geometry.frames();
        if !inside || count == 0 || bit + count > 64 {
            return Err(Refused::Outside);
        }
        self.break_up(child)?;
        let mask = (u64::MAX >> (64 - count)) << bit;
        self.give_bits(self.bit(first).0, mask)?;
        self.give_child(child, count);
        self.give_right(child / TREE, count, core);
        Ok(())
    }

    fn give_whole(&self, child: usize) -> Result<(), Refused> {
        let word = self.geometry.child(child);
        // Whoever gives it back a second time finds it broken up and nothing of it free, until all of it is.
        let taken = self.words.compare_exchange(word, Child::HUGE.0, Child::GIVING.0);
        taken.map_err(|_| Refused::NotTaken)?;
        let bits = self.geometry.bits(child);
        (bits..bits + CHILD / 64).for_each(|word| self.words.store(word, 0));
        // Nobody else changes the word in this state.
        let given = self.words.compare_exchange(word, Child::GIVING.0, Child::free(CHILD).0);
        given.map_err(|_| Refused::NotTaken)
    }

    /// What was taken as a whole is now 512 pages, all in use.
    fn break_up(&self, child: usize) -> Result<(), Refused> {
        let word = self.geometry.child(child);
        let mut now = self.child(child);
        if now.is_huge() {
            match self.words.compare_exchange(word, Child::HUGE.0, Child::free(0).0) {
                Ok(()) => return Ok(()),
                // Somebody else has broken it up, or gives all of it back.
                Err(other) => now = Child(other),
            }
        }
        if now.is_nobodys() {
            Err(Refused::NotTaken)
        } else {
            Ok(())
        }
    }

    fn give_bit(&self, frame: usize) -> Result<(), Refused> {
        let (word, mask) = self.bit(frame);
        self.give_bits(word, mask)
    }

    fn give_bits(&self, word: usize, mask: u64) -> Result<(), Refused> {
        let mut now = self.words.load(word);
        loop {
            if now & mask != mask {
                return Err(Refused::NotTaken);
            }
            match self.words.compare_exchange(word, now, now & !mask) {
                Ok(()) => return Ok(()),
                Err(other) => now = other,
            }
        }
    }

    /// Word and bit of a frame.
    fn bit(&self, frame: usize) -> (usize, u64) {
        (self.geometry.bits(frame / CHILD) + frame % CHILD / 64, 1 << (frame % 64))
    }
}
