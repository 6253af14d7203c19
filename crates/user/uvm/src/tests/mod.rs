//! The address space against the naive model, on the model of the kernel.

mod cases;
mod kernel;
mod limited;
mod model;
mod passing;
mod random;
mod refused;
mod sparse;
mod victims;

use crate::backend::Backend;
use crate::types::{Access, Error, FaultError, PAGE, REGION_PAGES};
use crate::{Flags, Space};
use kernel::{Held, Kernel, Process, Remains, Target};
use model::Model;
use passing::{File, Loan};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub const LOW: u64 = 16;
pub const HIGH: u64 = LOW + 2600;
pub const TOP: u64 = HIGH - 300;
/// Pages of the objects that tests map.
pub const OBJECTS: [u64; 4] = [1, 60, 700, 720];

/// A process, and what it should look like.
pub struct Both {
    pub real: Space,
    pub backend: Process,
    pub model: Model,
    /// What is lent: the first page, and how many; and what is mapped of them.
    pub lent: Option<(u64, u64, u64, u64)>,
    /// Pages that were written to since that was asked last.
    pub written: BTreeSet<u64>,
    /// What is about to leave.
    pub loan: Option<Loan>,
    /// Pages that were wired, and with which nothing has happened since.
    pub fresh: BTreeSet<u64>,
}

impl Both {
    /// Pages that a fault at `page` filled with zeroes belong to the process from now on.
    fn note_zeroes(&mut self, page: u64) {
        self.note_zeroes_from(page, page + 16);
    }

    fn note_zeroes_from(&mut self, start: u64, end: u64) {
        for (&at, here) in self.model.pages.range_mut(start..end) {
            let chunk = self.real.amap().chunk(at >> 8);
            if chunk.is_some_and(|chunk| chunk.filled.get((at & 255) as u32)) {
                here.anon.get_or_insert_default();
            }
        }
    }

    /// Tells the model where regions and giants are that one entry maps.
    pub fn note_giants(&mut self) {
        self.model.giants = self.backend.wholes();
        self.model.table_least = REGION_PAGES.min(self.real.own_least() / PAGE);
    }

    /// In a child, or when pages have gone aside: the contents of objects of its own are its own, whoever copies them when.
    pub fn own_what_is_own(&mut self) {
        for entry in self.real.map().entries().filter(|entry| entry.flags.has(Flags::OWN)) {
            for (_, page) in self.model.pages.range_mut(entry.start..entry.end) {
                page.anon = page.anon.take().map(|anon| Rc::new(Cell::new(anon.get())));
            }
        }
        for (_, page) in self.model.pages.iter_mut().filter(|(&page, _)| self.real.is_apart(page)) {
            page.anon = page.anon.take().map(|anon| Rc::new(Cell::new(anon.get())));
        }
    }

    /// What a fork does that copies at once. Answers how many pages it must copy.
    fn copy_now(&mut self) -> u64 {
        let copied = self.real.copy_now(&mut self.backend);
        // What was lost when something was refused before cannot be copied either.
        let Process { left, refused, has_lost, .. } = &self.backend;
        assert!(copied.is_ok() || left.is_some() || *refused || *has_lost);
        let passed_over = Flags::DIRECT.or(Flags::DONT_FORK).or(Flags::WIPE_ON_FORK);
        let mut count = 0;
        for entry in self.real.map().entries().filter(|it| !it.flags.has_any(passed_over)) {
            for (&page, at) in self.model.pages.range_mut(entry.start..entry.end) {
                let Some(anon) = at.anon.as_mut().filter(|anon| Rc::strong_count(anon) > 1) else {
                    continue;
                };
                let chunk = self.real.amap().chunk(page >> 8);
                let owns = chunk.is_some_and(|chunk| chunk.owns((page & 255) as u32));
                assert!(owns || copied.is_err(), "{page} is another's, too");
                if owns {
                    *anon = Rc::new(Cell::new(anon.get()));
                    count += 1;
                }
            }
        }
        count
    }

    /// Where a mapping goes that is to consist of as few entries as possible.
    pub fn aligned_place(&self, pages: u64, object: Option<(u32, u64)>) -> Result<u64, Error> {
        let place = match object {
            Some((_, offset)) => self.model.find_aligned(pages, offset),
            None => self.model.find_aligned(pages, 0),
        };
        place.ok_or(Error::NoMemory)
    }

    /// A write ended for want of memory; the page may be the process's own already.
    fn note_failure(&mut self, page: u64, kernel: &Kernel) {
        if self.real.map().within(page, page + 1).next().is_none() {
            // A stack that was to grow has not.
            let map = self.real.map();
            self.model.pages.retain(|&at, _| map.within(at, at + 1).next().is_some());
            return;
        }
        let owns = |chunk: &crate::amap::Chunk| chunk.owns((page & 255) as u32);
        if self.real.amap().chunk(page >> 8).is_some_and(owns) {
            let value = match self.model.look(page) {
                Ok(value) => value,
                Err((object, offset)) => kernel.value(Target::Object(object, offset)),
            };
            if !self.model.owned_alone(page) || self.model.pages[&page].anon.is_none() {
                self.model.write(page, value);
            }
        }
        self.note_zeroes(page);
    }

    /// What is in memory of each entry, and of all of them.
    fn check_residency(&self) {
        let (amap, pmap) = (self.real.amap(), self.real.pmap());
        let (mut usage, mut memory) = (self.real.usage(&self.backend), 0);
        self.real.add_wholes(&self.backend, &mut usage);
        let (mut files, mut own) = (0, 0);
        for entry in self.real.map().entries() {
            let mut expected = crate::Residency::default();
            let is_own = entry.flags.has(Flags::OWN);
            if let (true, Some(object)) = (is_own, entry.object) {
                let there = self.backend.object_there(object, entry.offset, entry.pages());
                assert_eq!(there.pages + there.out, entry.pages());
                (expected.objects, expected.large) = (there.pages, there.large);
                expected.out = there.out;
            }
            for page in (entry.start..entry.end).filter(|_| !is_own) {
                let slot = (page & 255) as u32;
                if self.real.is_apart(page) {
                    let chunk = amap.chunk(page >> 8);
                    assert!(!chunk.is_some_and(|chunk| chunk.filled.get(slot)), "twice: {page}");
                    let (there, out) = self.real.count_apart(&self.backend, page, page + 1);
                    assert_eq!(there + out, 1);
                    (expected.own, expected.out) = (expected.own + there, expected.out + out);
                    own += there;
                    continue;
                }
                match amap.chunk(page >> 8) {
                    Some(chunk) if chunk.owns(slot) => expected.own += 1,
                    Some(chunk) if chunk.filled.get(slot) => expected.shared += 1,
                    _ => {
                        let shown = self.backend.is_whole(page, (entry.start, entry.end));
                        let is_shown = pmap.is_present(page) || shown.is_some();
                        expected.objects += u64::from(is_shown);
                        expected.large += u64::from(shown == Some(true));
                    }
                }
            }
            assert_eq!(self.real.residency(&self.backend, entry), expected, "{entry:?}");
            if is_own {
                own += expected.objects;
                continue;
            }
            files += expected.objects;
            let is_memory = entry.object.is_some_and(|it| self.backend.object_is_memory(it));
            memory += if is_memory { expected.objects } else { 0 };
        }
        if !self.backend.has_lost {
            assert_eq!((usage.files, usage.shared_memory, usage.own), (files, memory, own));
        }
    }

    /// Of each pair that an anon has the first slot holds its Frame, and the second its Mapping if it
    /// is mapped. All others are empty.
    fn check_pairs(&self) {
        let pairs = self.real.amap().pairs();
        let mut slots = BTreeMap::new();
        for (node, frame, mapping, page) in pairs {
            let target = self.backend.look_up(page, Access::Read);
            let contents = self.backend.contents(node);
            let Some(&Held::Page(held)) = contents.get(&frame) else { panic!("no Frame: {page}") };
            let mut old = slots.insert((node, frame), Held::Page(held));
            if self.real.pmap().is_present(page) {
                assert_eq!(target, Some(Target::Anon(held)), "page {page}");
                old = old.or(slots.insert((node, mapping), Held::Mapping(held)));
            }
            assert_eq!(old, None, "two anons have one pair");
        }
        if self.backend.has_lost {
            return;
        }
        let shelves = self.real.amap().shelves();
        let in_use: u32 = shelves.nodes().map(|(_, used)| used.count()).sum();
        let frames = slots.values().filter(|held| matches!(held, Held::Page(_))).count();
        assert_eq!((in_use, shelves.used()), (frames as u32, frames as u32));
        let held = shelves.nodes().flat_map(|(node, _)| {
            self.backend.contents(node).into_iter().map(move |(slot, held)| ((node, slot), held))
        });
        assert_eq!(held.collect::<BTreeMap<_, _>>(), slots);
    }
}

/// Processes on one kernel.
pub struct World {
    pub kernel: Rc<RefCell<Kernel>>,
    pub processes: Vec<Both>,
    /// Of those that were killed.
    pub remains: Vec<Remains>,
    /// Copies that the model says are needed.
    pub copies: u64,
    /// Values written so far, all different.
    pub clock: u64,
    /// Nobody has given pages up while they were shared: copies must agree exactly.
    pub exact: bool,
    /// Files without names that are open.
    pub files: Vec<File>,
    /// What files without names have, as long as anybody has them.
    pub contents: BTreeMap<u32, Vec<u64>>,
    /// How often something happened.
    pub tally: BTreeMap<&'static str, u64>,
}

impl World {
    pub fn new() -> World {
        let kernel = Rc::new(RefCell::new(Kernel::default()));
        for (n, pages) in OBJECTS.into_iter().enumerate() {
            let contents = (0..pages).map(|page| (n as u64 + 1) << 32 | page).collect();
            kernel.borrow_mut().objects.insert(n as u32, contents);
        }
        let mut real = Space::new(LOW * PAGE, HIGH * PAGE);
        real.set_mmap_top(TOP * PAGE);
        real.limits.stack = 64 * PAGE;
        let model = Model { low: LOW, high: HIGH, top: TOP, stack_pages: 64, ..Model::default() };
        let backend = Process::new(kernel.clone());
        let processes = vec![Both {
            real,
            backend,
            model,
            lent: None,
            written: BTreeSet::new(),
            loan: None,
            fresh: BTreeSet::new(),
        }];
        World {
            kernel,
            processes,
            remains: Vec::new(),
            copies: 0,
            clock: 1 << 40,
            exact: true,
            files: Vec::new(),
            contents: BTreeMap::new(),
            tally: BTreeMap::new(),
        }
    }

    /// One in which large private memory is an object of the process's own.
    pub fn with_own() -> World {
        let mut world = World::new();
        world.processes[0].backend.has_own = true;
        world
    }

    /// The same of a process with threads, for which less memory is such an object.
    pub fn with_own_of(threads: bool) -> World {
        let mut world = World::with_own();
        world.processes[0].real.serve_threads(threads);
        world
    }

    pub fn fork(&mut self, which: usize) {
        let parent = &mut self.processes[which];
        let mixed = parent.real.before_fork(&mut parent.backend);
        let forked = mixed.and_then(|mixed| parent.real.fork(&mut parent.backend, mixed));
        if forked.is_err() {
            assert!(parent.backend.left.is_some() || parent.backend.refused);
            parent.real.forked();
            return parent.backend.fork_failed();
        }
        let backend = parent.backend.fork(parent.real.pmap());
        let mut child = Both {
            real: parent.real.duplicate(),
            backend,
            model: parent.model.inherited(),
            lent: None,
            written: parent.written.clone(),
            loan: None,
            fresh: BTreeSet::new(),
        };
        parent.real.forked();
        child.own_what_is_own();
        if parent.real.copies_at_forks() {
            self.copies += parent.copy_now();
        }
        // What the child gives up at once was shared for a moment.
        self.exact &= child.model.pages.len() == parent.model.pages.len();
        self.processes.push(child);
        let child = self.processes.last_mut().unwrap();
        if child.real.after_fork(&mut child.backend).is_err() {
            assert!(child.backend.refused);
            self.kill(self.processes.len() - 1);
        }
    }

    pub fn exit(&mut self, which: usize) {
        let mut gone = self.processes.remove(which);
        let destroyed = gone.real.destroy(&mut gone.backend);
        assert!(destroyed.is_ok() || gone.backend.refused);
        if !gone.backend.has_lost {
            assert_eq!(gone.backend.all_out(), [], "pages that have left are left over");
            assert!(gone.backend.files.is_empty(), "files are left over");
        }
        if gone.backend.has_lost {
            self.remains.push(Remains::of(gone.backend));
        }
    }

    /// Ends a process that gives up nothing by itself.
    pub fn kill(&mut self, which: usize) {
        let gone = self.processes.remove(which);
        self.remains.push(Remains::of(gone.backend));
        self.exact = false;
    }

    /// Drops a capability of those who were killed.
    pub fn clear_away(&mut self, pick: usize) {
        if !self.remains.is_empty() {
            let which = pick % self.remains.len();
            if !self.remains[which].shrink(pick >> 3) {
                self.remains.remove(which);
            }
        }
    }

    /// Uses a page as the hardware and the fault code do, and compares with the model.
    pub fn touch(&mut self, which: usize, page: u64, access: Access) -> Result<u64, FaultError> {
        self.clock += 1;
        let both = &mut self.processes[which];
        let size = |object| self.kernel.borrow().pages_of(object);
        let expected = both.model.check(page, access, size);
        let mut faults = 0;
        let was_out = both.backend.all_out().len();
        let target = loop {
            if let Some(target) = both.backend.look_up(page, access) {
                break target;
            }
            assert!(faults < 2, "the fault code does not help at {page}");
            faults += 1;
            if let Err(error) = both.real.fault(&mut both.backend, page * PAGE + 5, access) {
                if error == FaultError::NoMemory {
                    assert!(both.backend.left.is_some() || both.backend.has_lost);
                    both.note_failure(page, &self.kernel.borrow());
                    return Err(error);
                }
                assert_eq!(expected, Err(error), "fault at {page}");
                return Err(error);
            }
        };
        assert_eq!(expected, Ok(()), "the hardware allows {access:?} at {page}");
        both.backend.come_in(target);
        let is_back = both.backend.all_out().len() < was_out;
        let mut kernel = self.kernel.borrow_mut();
        if access == Access::Write {
            if let Some((contents, offset)) = both.model.shows(page, &mut self.contents) {
                contents[offset] = self.clock;
            }
            self.copies += both.model.write(page, self.clock).copied as u64;
            kernel.set_value(target, self.clock);
            drop(kernel);
            both.backend.look_up_written(page);
            both.written.insert(page);
            kernel = self.kernel.borrow_mut();
        }
        let value = kernel.value(target);
        drop(kernel);
        if is_back {
            *self.tally.entry("in").or_default() += 1;
        }
        match both.model.look(page) {
            Ok(expected) => assert_eq!(value, expected, "contents of {page}"),
            Err((object, offset)) => {
                assert_eq!(target, Target::Object(object, offset));
                if let Some(contents) = self.contents.get(&object) {
                    assert_eq!(value, contents[offset as usize], "contents of the file at {page}");
                }
            }
        }
        both.note_zeroes(page);
        Ok(value)
    }

    /// Every page that was written to counts as written.
    pub fn check_written(&mut self) {
        for both in &mut self.processes {
            let mut words = vec![0; (HIGH - LOW) as usize];
            both.real.pagemap(&mut both.backend, LOW, &mut words);
            let says = |page: u64| words[(page - LOW) as usize] & crate::pagemap::SOFT_DIRTY != 0;
            for entry in both.real.map().entries() {
                let written = both.written.range(entry.start..entry.end).copied();
                let missing = written.filter(|page| (LOW..HIGH).contains(page) && !says(*page));
                assert_eq!(missing.collect::<Vec<_>>(), [], "written, but not so for clear_refs");
            }
        }
    }

    /// What the hardware allows must be allowed, and lead to the right pages.
    pub fn check(&self) {
        for both in &self.processes {
            both.real.validate();
            both.check_pairs();
            let anons = both.real.amap().chunks().map(|(_, chunk)| chunk.filled.count() as u64);
            assert_eq!(both.real.amap().pages(), anons.sum::<u64>());
            both.check_residency();
            if !both.backend.has_lost {
                both.check_entries();
                both.check_counts();
                both.check_fresh();
            }
            for page in both.backend.present_pages() {
                let target = both.backend.look_up(page, Access::Read).unwrap();
                let at =
                    both.model.pages.get(&page).expect("nothing is seen where nothing is mapped");
                assert!(at.prot.allows(Access::Read), "{page} can be read");
                match both.model.look(page) {
                    Ok(value) => assert_eq!(both.backend.value(target), value, "at {page}"),
                    Err((object, offset)) => assert_eq!(target, Target::Object(object, offset)),
                }
                if both.backend.look_up(page, Access::Write).is_some() {
                    assert!(at.prot.allows(Access::Write), "{page} can be written");
                    assert!(both.model.owned_alone(page), "{page} is shared and writable");
                }
                if both.real.is_resident(page * PAGE, Access::Write) {
                    assert!(both.backend.look_up(page, Access::Write).is_some());
                }
                if !both.real.pmap().is_whole(page >> 9) {
                    assert!(both.real.is_resident(page * PAGE, Access::Read));
                }
            }
        }
        let copies = self.kernel.borrow().page_copies;
        if self.exact {
            assert_eq!(copies, self.copies, "copies");
        } else {
            assert!(copies >= self.copies);
        }
    }

    pub fn finish(mut self) -> BTreeMap<&'static str, u64> {
        self.processes.iter_mut().for_each(Both::recall);
        self.files.clear();
        while !self.processes.is_empty() {
            self.exit(0);
            self.forget_files();
            self.check();
        }
        while !self.remains.is_empty() {
            self.clear_away(0);
        }
        assert!(self.kernel.borrow().is_empty(), "something leaked");
        self.tally
    }
}
