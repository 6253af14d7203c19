//! Where paths led to when they were walked last.
//!
//! Most paths are walked again and again: headers, libraries, the files of a load. For each there is kept what was found, with the
//! directories and links that the walk passed and their [turns](memfs::Inode::turn). As long as these are the same, another walk would
//! find the same: no name was taken away or given to something else, no mode or owner has changed. New names
//! change nothing for a path that has led to something, so they are not counted, and what was not found is not kept. Of what is mounted there is
//! one turn for all.
//!
//! Only walks through files in memory are kept; those of `/proc` depend on who looks, and of what others have on them.

use crate::names::Found;
use crate::nodes::Tree;
use crate::procs::cred_of;
use crate::volumes::Spot;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::cell::{Cell, RefCell};
use core::hash::BuildHasher;
use credentials::Credentials;
use hashbrown::DefaultHashBuilder;
use memfs::{Cred, Ino, Name};

/// How many are kept, each at the place that its hash says. A power of two.
const PATHS: usize = 256;
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
    pub who: &'a Credentials,
    /// Is a link at the end followed?
    pub follow: bool,
    pub path: &'a [u8],
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
    /// Nothing is known.
    pub fn new() -> Paths {
        let known = RefCell::new(Places { known: Vec::new(), missed: Vec::new() });
        Paths { hasher: DefaultHashBuilder::default(), known }
    }

    /// What is known of a path.
    pub fn find(&self, tree: &Tree, question: &Question) -> Memory {
        if question.path.len() > LENGTH {
            return Memory::New;
        }
        let hash = self.hasher.hash_one(question.path);
        let place = hash as usize % PATHS;
        let mut places = self.known.borrow_mut();
        if let Some(Some(known)) = places.known.get(place) {
            if known.answers(tree, question) {
                let &Known { parent, node, slash, .. } = known;
                return Memory::Leads(Found {
                    parent: parent.node,
                    name: Name::from_slice(&known.name),
                    node: Some(node.node),
                    slash,
                    above: parent.mount,
                    mount: node.mount,
                    known: Some(place),
                });
            }
        }
        let Some(missed) = places.missed.get_mut(place) else {
            places.make_room();
            return Memory::New;
        };
        match *missed ^ (hash >> 32) as u32 {
            0 => return Memory::Again,
            not_yet @ 1..=REFUSED => *missed = (hash >> 32) as u32 ^ (not_yet - 1),
            // The third time it is.
            _ => *missed = (hash >> 32) as u32 ^ 1,
        }
        Memory::New
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
        let hash = self.hasher.hash_one(question.path);
        let place = hash as usize % PATHS;
        let known = found.and_then(|found| Known::new(question, found, mounted, trail));
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
    fn make_room(&mut self) {
        if self.known.try_reserve_exact(PATHS).is_ok()
            && self.missed.try_reserve_exact(PATHS).is_ok()
        {
            self.known.resize_with(PATHS, || None);
            self.missed.resize(PATHS, 0);
        }
    }
}

impl Known {
    fn new(
        question: &Question,
        found: &memfs::Found<Spot>,
        mounted: u64,
        trail: Trail,
    ) -> Option<Known> {
        let Trail { passed, is_known } = trail;
        let cred = cred_of(question.who);
        if !is_known.get() || found.name.spilled() || cred.groups.ids().len() > GROUPS {
            return None;
        }
        Some(Known {
            path: question.path.try_into().ok()?,
            root: question.root,
            start: question.start,
            cred,
            follow: question.follow,
            mounted,
            passed: passed.into_inner(),
            parent: found.parent,
            name: found.name.clone(),
            node: found.node?,
            slash: found.slash,
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
            && self.cred == cred_of(question.who)
            && self.passed.iter().all(is_same)
    }
}

/// What a walk passes.
pub struct Trail {
    passed: RefCell<Passed>,
    /// All of it is files in memory.
    is_known: Cell<bool>,
}

impl Trail {
    /// It begins.
    pub fn new() -> Trail {
        Trail { passed: RefCell::new(Passed::new()), is_known: Cell::new(true) }
    }

    /// Over a directory or a link of the files in memory, whose turn this is.
    pub fn over(&self, ino: Ino, turn: u64) {
        if self.passed.borrow_mut().try_push((ino, turn)).is_err() {
            self.elsewhere();
        }
    }

    /// Over something else.
    pub fn elsewhere(&self) {
        self.is_known.set(false);
    }
}
