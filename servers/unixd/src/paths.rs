//! Where paths led to when they were walked last.
//!
//! Most paths are walked again and again: headers, libraries, the files of a load. For each there is kept what was found, with the
//! directories and links that the walk passed and their [turns](memfs::Inode::turn). As long as these are the same, another walk would
//! find the same: no name was taken away or given to something else, no mode or owner has changed. New names
//! change nothing for a path that has led to something, so they are not counted, and what was not found is not kept. Of what is mounted there is
//! one turn for all.
//!
//! A path that is only walked once, or leads to nothing, lies in a directory that others of the kind lie in, too: so there is also kept which
//! [directories](split) paths led over last.
//!
//! Only walks through files in memory are kept; those of `/proc` depend on who looks, and of what others have on them.

use crate::names::Found;
use crate::nodes::{Node, Tree};
use crate::volumes::Spot;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::cell::{Cell, RefCell};
use core::hash::BuildHasher;
use hashbrown::DefaultHashBuilder;
use memfs::{Cred, Ino, Name, PATH_MAX};

/// How many are kept, each at the place that its hash says. Powers of two.
pub const PATHS: usize = 256;
pub const DIRECTORIES: usize = 64;
/// Bytes of the longest path that is kept, directories and links on it, and groups of who walked it: there is no more memory than there was at
/// the beginning.
const LENGTH: usize = 96;
const PASSED: usize = 8;
const GROUPS: usize = 32;
/// How often a path is not tried to be kept that could not be: it led to nothing, most often.
const REFUSED: u32 = 15;

/// What is asked for.
pub struct Question<'a> {
    /// The root directory.
    pub root: Spot,
    /// Where a relative path begins; the root if it is not.
    pub start: Spot,
    /// On whose behalf.
    pub cred: &'a Cred,
    /// Is a link at the end followed?
    pub follow: bool,
    pub path: &'a [u8],
}

/// The directory in which the last component of a path lies, and that component with the slashes behind it, if there is more than one component and nobody has to ask
/// whether it is a path at all.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_slash = |byte: &u8| *byte == b'/';
    let end = path.iter().rposition(|byte| !is_slash(byte))?;
    let last = path[..end].iter().rposition(is_slash)?;
    let (dir, name) = path.split_at(last + 1);
    let dir_end = dir.iter().rposition(|byte| !is_slash(byte))?;
    (path.len() < PATH_MAX).then_some((&dir[..=dir_end], name))
}

type Passed = ArrayVec<(Ino, u64), PASSED>;

struct Known {
    path: ArrayVec<u8, LENGTH>,
    root: Spot,
    start: Spot,
    cred: Cred,
    follow: bool,
    /// The turn of what is mounted.
    mounted: u64,
    passed: Passed,
    parent: Spot,
    name: Name,
    node: Spot,
    slash: bool,
}

/// What a path that is looked for may be.
pub enum Memory {
    /// It would lead there again.
    Leads(Found),
    /// It was looked for repeatedly, and is not known: where it leads is worth keeping.
    Again,
    New,
}

/// Answers by the hashes of what was asked.
pub struct Paths {
    /// How many there are at most.
    most: usize,
    hasher: DefaultHashBuilder,
    known: RefCell<Places>,
}

/// Both are empty until the first path is looked for.
struct Places {
    known: Vec<Option<Known>>,
    /// The upper half of the hash of what was looked for last at each place and not known there, changed by how often that is not to be
    /// kept still.
    missed: Vec<u32>,
}

impl Paths {
    /// Nothing is known, and never of more than so many.
    pub fn new(most: usize) -> Paths {
        let known = RefCell::new(Places { known: Vec::new(), missed: Vec::new() });
        Paths { most, hasher: DefaultHashBuilder::default(), known }
    }

    /// What is known of a path.
    pub fn find(&self, tree: &Tree, question: &Question) -> Memory {
        let found = self.ask(tree, question, |place, known| {
            let &Known { parent, node, slash, .. } = known;
            Found {
                parent: parent.node,
                name: Name::from_slice(&known.name),
                node: Some(node.node),
                slash,
                above: parent.mount,
                mount: node.mount,
                known: Some(place),
            }
        });
        match found {
            Ok(found) => Memory::Leads(found),
            Err(true) => Memory::Again,
            Err(false) => Memory::New,
        }
    }

    /// The directory to which a path leads, over no link. If that is not known: was it looked for repeatedly?
    pub fn directory(&self, tree: &Tree, question: &Question) -> Result<Spot, bool> {
        self.ask(tree, question, |_, known| known.node)
    }

    #[inline]
    fn ask<R>(
        &self,
        tree: &Tree,
        question: &Question,
        answer: impl FnOnce(usize, &Known) -> R,
    ) -> Result<R, bool> {
        if question.path.len() > LENGTH {
            return Err(false);
        }
        let hash = self.hasher.hash_one(question.path);
        let place = hash as usize % self.most;
        let mut places = self.known.borrow_mut();
        if let Some(Some(known)) = places.known.get(place) {
            if known.answers(tree, question) {
                return Ok(answer(place, known));
            }
        }
        let Some(missed) = places.missed.get_mut(place) else {
            places.make_room(self.most);
            return Err(false);
        };
        match *missed ^ (hash >> 32) as u32 {
            0 => return Err(true),
            not_yet @ 1..=REFUSED => *missed = (hash >> 32) as u32 ^ (not_yet - 1),
            // The third time it is.
            _ => *missed = (hash >> 32) as u32 ^ 1,
        }
        Err(false)
    }

    /// Has `pass` be told what the path at a place leads over.
    pub fn each_passed(&self, place: usize, mut pass: impl FnMut(Ino)) {
        if let Some(Some(known)) = self.known.borrow().known.get(place) {
            known.passed.iter().for_each(|(ino, _)| pass(*ino));
        }
    }

    /// Keeps what was found over what a [walk](Trail) has passed, if it can be. It was to be kept [again](Memory::Again).
    pub fn keep(
        &self,
        question: &Question,
        found: Option<&memfs::Found<Spot>>,
        mounted: u64,
        trail: Trail,
    ) {
        let known = found.and_then(|found| {
            let node = found.node?;
            Known::new(
                question,
                (found.parent, found.name.clone(), node),
                found.slash,
                mounted,
                trail,
            )
        });
        self.put(question, known);
    }

    /// Keeps which [directory](split) a walk has passed last, if it was found over no link.
    pub fn keep_directory(
        &self,
        question: &Question,
        place: Option<Spot>,
        mounted: u64,
        trail: Trail,
    ) {
        let place = place.filter(|place| trail.ends_with(*place));
        let known = place.and_then(|place| {
            Known::new(question, (place, Name::new(), place), false, mounted, trail)
        });
        self.put(question, known);
    }

    fn put(&self, question: &Question, known: Option<Known>) {
        let hash = self.hasher.hash_one(question.path);
        let place = hash as usize % self.most;
        let places = &mut *self.known.borrow_mut();
        match known {
            Some(known) => places.known[place] = Some(known),
            None => places.missed[place] = (hash >> 32) as u32 ^ REFUSED,
        }
    }
}

impl Places {
    /// Without memory for it all is as it was.
    #[cold]
    fn make_room(&mut self, most: usize) {
        if self.known.try_reserve_exact(most).is_ok() && self.missed.try_reserve_exact(most).is_ok()
        {
            self.known.resize_with(most, || None);
            self.missed.resize(most, 0);
        }
    }
}

impl Known {
    fn new(
        question: &Question,
        (parent, name, node): (Spot, Name, Spot),
        slash: bool,
        mounted: u64,
        trail: Trail,
    ) -> Option<Known> {
        let cred = question.cred.clone();
        if !trail.is_known.get() || name.spilled() || cred.groups.ids().len() > GROUPS {
            return None;
        }
        Some(Known {
            path: question.path.try_into().ok()?,
            root: question.root,
            start: question.start,
            cred,
            follow: question.follow,
            mounted,
            passed: trail.passed.into_inner(),
            parent,
            name,
            node,
            slash,
        })
    }

    /// Is this what was asked, and would it be answered so again?
    #[inline]
    fn answers(&self, tree: &Tree, question: &Question) -> bool {
        let names = tree.files().names();
        let is_same =
            |&(ino, turn): &(Ino, u64)| names.get(ino).is_ok_and(|inode| inode.turn() == turn);
        self.path[..] == *question.path
            && self.root == question.root
            && self.start == question.start
            && self.follow == question.follow
            && self.mounted == tree.mounted().turn
            && self.cred == *question.cred
            && self.passed.iter().all(is_same)
    }
}

/// What a walk passes.
pub struct Trail {
    passed: RefCell<Passed>,
    /// All of it is files in memory.
    is_known: Cell<bool>,
    /// No link was followed.
    is_straight: Cell<bool>,
}

impl Trail {
    /// It begins.
    pub fn new() -> Trail {
        let passed = RefCell::new(Passed::new());
        Trail { passed, is_known: Cell::new(true), is_straight: Cell::new(true) }
    }

    /// Over a directory or a link of the files in memory, whose turn this is.
    pub fn over(&self, ino: Ino, turn: u64) {
        if self.passed.borrow_mut().try_push((ino, turn)).is_err() {
            self.elsewhere();
        }
    }

    /// Over a link.
    pub fn bends(&self) {
        self.is_straight.set(false);
    }

    /// Was a directory entered last, and no link followed? It is taken off: what is in it does not say where it is.
    fn ends_with(&self, dir: Spot) -> bool {
        let last = self.passed.borrow_mut().pop();
        let is_it = last.is_some_and(|(ino, _)| dir.node == Node::Mem(ino));
        is_it && self.is_straight.get()
    }

    /// Over something else.
    pub fn elsewhere(&self) {
        self.is_known.set(false);
    }
}
