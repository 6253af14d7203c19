//! Memory that is wired, leaves, is lent, moves and passes from process to process: operations of the [random test](super::random).

use super::kernel::{OWN, PASSED};
use super::model::Page;
use super::random::Op;
use super::*;
use crate::mmap::{MapRequest, Placement};
use crate::types::Prot;
use crate::{Advice, Entry, ObjectId, Passed, RemapFlags};

/// A file without a name that somebody has open, and which of its pages are what was passed.
pub struct File {
    object: u32,
    first: u64,
    pages: u64,
}

/// A range that is about to leave. Until it does, or stays, nobody writes to it.
pub struct Loan {
    passed: Passed,
    start: u64,
    end: u64,
    /// The rights that its pages had.
    prots: Vec<Prot>,
}

/// What becomes of a range that is passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Share,
    Copy,
    Donate,
}

/// What a range was before an operation.
pub struct Before {
    /// Wired pages with anons.
    anons: Vec<u64>,
    /// Wired pages of objects of the process's own.
    there: BTreeSet<(ObjectId, u64)>,
}

fn is_file(object: u32) -> bool {
    (PASSED..OWN).contains(&object)
}

/// Can pages that are there and wired, and stay so, become others in memory?
fn moves_nothing(op: &Op) -> bool {
    use Op::{Lengthen, Limit, PageOut, Relieve, Touch, TouchRun, Victims};
    matches!(
        op,
        Touch { .. }
            | TouchRun { .. }
            | Relieve { .. }
            | PageOut { .. }
            | Victims { .. }
            | Limit { .. }
            | Lengthen { .. }
    )
}

impl Both {
    /// May an operation happen while a range is about to leave? Other threads touch pages meanwhile, and others need memory.
    pub fn is_beside_loan(&self, op: &Op) -> bool {
        let Some(_) = &self.loan else { return true };
        let beside = [Op::Recall, Op::Give { share: false }, Op::Give { share: true }];
        let is_page = matches!(op, Op::Touch { .. } | Op::TouchRun { .. } | Op::Relieve { .. });
        is_page
            || beside
                .iter()
                .any(|other| std::mem::discriminant(other) == std::mem::discriminant(op))
            || matches!(op, Op::Lengthen { .. } | Op::TakeAway { .. } | Op::Kill | Op::Close { .. })
    }

    /// What was about to leave stays.
    pub fn recall(&mut self) {
        let Some(loan) = self.loan.take() else { return };
        self.real.stay(&mut self.backend, &loan.passed);
        self.raise(&loan);
    }

    fn raise(&mut self, loan: &Loan) {
        for (page, &prot) in (loan.start..loan.end).zip(&loan.prots) {
            self.model.pages.get_mut(&page).unwrap().prot = prot;
        }
    }

    pub fn before(&self) -> Before {
        let wired = |entry: &&Entry| entry.flags.has(Flags::LOCKED);
        let (mut anons, mut there) = (Vec::new(), BTreeSet::new());
        for entry in self.real.map().entries().filter(wired) {
            match entry.object.filter(|_| entry.flags.has(Flags::OWN)) {
                Some(object) => {
                    there.extend((0..entry.pages()).map(|n| (object, entry.offset + n)))
                }
                None => anons.extend((entry.start..entry.end).filter(|&page| self.has_anon(page))),
            }
        }
        there.retain({
            let out = self.backend.all_out();
            move |at| !out.contains(at)
        });
        Before { anons, there }
    }

    fn has_anon(&self, page: u64) -> bool {
        let chunk = self.real.amap().chunk(page >> 8);
        chunk.is_some_and(|chunk| chunk.filled.get((page & 255) as u32))
    }

    /// What is wired has not left memory, and what was not to change has not.
    pub fn check_wired(&self, before: &Before, op: &Op) {
        let wired = |entry: &&Entry| entry.flags.has(Flags::LOCKED);
        let out: BTreeSet<_> = self.backend.all_out().into_iter().collect();
        for entry in self.real.map().entries().filter(wired) {
            if let (Some(object), true) = (entry.object, entry.flags.has(Flags::OWN)) {
                let pages = (0..entry.pages()).map(|n| (object, entry.offset + n));
                let left =
                    pages.into_iter().find(|at| out.contains(at) && before.there.contains(at));
                assert_eq!(left, None, "a wired page has left memory: {entry:?}");
            }
        }
        if moves_nothing(op) {
            let gone = before.anons.iter().find(|&&page| !self.has_anon(page));
            assert_eq!(gone, None, "a wired page has gone aside");
        }
    }

    /// What was wired a moment ago is there: nobody faults. (Where others have taken entries away, a whole table may go when that is found.)
    pub fn check_fresh(&self) {
        for &page in self.fresh.iter().filter(|_| !self.backend.has_stale) {
            let at = &self.model.pages[&page];
            let writes = at.prot.has(Prot::WRITE) && !at.flags.has(Flags::SHARED);
            let access = if writes { Access::Write } else { Access::Read };
            assert!(self.backend.look_up(page, access).is_some(), "{page} is wired, and faults");
        }
    }

    /// Entries are what the model says, page by page.
    pub fn check_entries(&self) {
        let mut pages = 0;
        for entry in self.real.map().entries() {
            let is_own = entry.flags.has(Flags::OWN);
            for (n, page) in (entry.start..entry.end).enumerate() {
                let at = self.model.pages.get(&page);
                let at = at.unwrap_or_else(|| panic!("{page} is mapped: {entry:?}"));
                let kind = |prot, flags: Flags| (prot, flags.without(Flags::OWN));
                let expected = kind(at.prot, at.flags);
                assert_eq!(kind(entry.prot, entry.flags), expected, "{page} of {entry:?}");
                let object = entry.object.filter(|_| !is_own);
                let object = object.map(|it| (it.index() as u32, entry.offset + n as u64));
                assert_eq!(object, at.object, "{page} of {entry:?}");
            }
            pages += entry.pages();
        }
        assert_eq!(pages, self.model.pages.len() as u64, "pages that are mapped");
    }

    /// What is counted is what there is: anons, those that are the process's alone, and what has left memory.
    pub fn check_counts(&self) {
        let (mut anons, mut out) = (0, 0);
        let mut expected = 0;
        for entry in self.real.map().entries() {
            let counted = self.real.residency(&self.backend, entry);
            (anons, out) = (anons + counted.own + counted.shared, out + counted.out);
            for page in (entry.start..entry.end).filter(|_| !entry.flags.has(Flags::OWN)) {
                let at = &self.model.pages[&page];
                if self.real.is_apart(page) {
                    assert!(at.anon.is_some(), "{page} is apart, and was not written to");
                    expected += self.real.count_apart(&self.backend, page, page + 1).0;
                    continue;
                }
                expected += u64::from(at.anon.is_some());
                let (key, slot) = crate::amap::split(page);
                let chunk = self.real.amap().chunk(key);
                if chunk.is_some_and(|chunk| chunk.owns(slot)) {
                    let owners = at.anon.as_ref().map(Rc::strong_count);
                    assert_eq!(owners, Some(1), "{page} counts as the process's alone");
                    let (place, _) = self.real.amap().run(key, slot, slot + 1).unwrap();
                    let page_of = (place.node, place.slot);
                    assert!(!self.backend.is_shared(page_of), "{page} counts as alone");
                }
            }
        }
        assert_eq!(anons, expected, "anons");
        // Nothing has left that nobody can reach.
        assert_eq!(out, self.backend.all_out().len() as u64, "pages that have left");
        let maps = |file: &u32| self.real.map().uses(ObjectId::new(*file));
        assert_eq!(
            self.backend.files.iter().find(|file| !maps(file)),
            None,
            "a file was not released"
        );
    }
}

impl World {
    /// Something that was to happen has.
    pub(super) fn note(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn size(&self, object: u32) -> u64 {
        self.kernel.borrow().pages_of(object)
    }

    /// `mlock`, `MLOCK_ONFAULT`, `munlock`.
    pub fn wire(&mut self, which: usize, (addr, pages): (u64, u64), on: bool, touch: bool) {
        let both = &mut self.processes[which];
        let hole = (addr..addr + pages).find(|page| !both.model.pages.contains_key(page));
        let got = both.real.set_locked((addr * PAGE, pages * PAGE), on);
        assert_eq!(got, hole.map_or(Ok(()), |_| Err(Error::NoMemory)));
        both.real.keep_apart(&mut both.backend, addr, addr + pages);
        both.model.lock(addr, hole.unwrap_or(addr + pages), on);
        if hole.is_none() {
            self.note(if on { "wire" } else { "unwire" });
            if on && touch {
                self.populate(which, addr, addr + pages);
            }
        }
    }

    /// `mlockall` with these flags, `munlockall` without any.
    pub fn wire_all(&mut self, which: usize, flags: u8) {
        let both = &mut self.processes[which];
        both.real.locks_new = flags & 2 != 0;
        both.model.locks_new = flags & 2 != 0;
        if flags & 1 != 0 || flags == 0 {
            both.real.set_all_locked(flags != 0);
            both.real.keep_apart(&mut both.backend, LOW, HIGH);
            both.model.lock(LOW, HIGH, flags != 0);
        }
        if flags & 5 == 1 {
            self.populate(which, LOW, HIGH);
        }
    }

    /// What is locked is there at once: private memory that can be written to is written to.
    fn populate(&mut self, which: usize, start: u64, end: u64) {
        let kernel = self.kernel.clone();
        let both = &mut self.processes[which];
        let entries: Vec<Entry> = both.real.map().within(start, end).collect();
        both.real.populate_lenient(&mut both.backend, start, end);
        if both.backend.left.is_some() || both.backend.has_lost {
            let pages: Vec<u64> =
                both.model.pages.range(start..end).map(|(&page, _)| page).collect();
            // From the last on: what is behind each counts as filled with zeros.
            pages.into_iter().rev().for_each(|page| both.note_failure(page, &kernel.borrow()));
            return both.own_what_is_own();
        }
        for entry in entries {
            let writes = entry.prot.has(Prot::WRITE) && !entry.flags.has(Flags::SHARED);
            let access = if writes { Access::Write } else { Access::Read };
            for page in entry.start..entry.end {
                let size = |object| kernel.borrow().pages_of(object);
                if both.model.check(page, access, size).is_err() {
                    // A file ends there.
                    break;
                }
                if writes {
                    let value = match both.model.look(page) {
                        Ok(value) => value,
                        Err((object, at)) => kernel.borrow().value(Target::Object(object, at)),
                    };
                    self.copies += both.model.write(page, value).copied as u64;
                }
                // Pages of objects are in memory, but what shows them may be replaced by something that shows others, too.
                if both.has_anon(page) {
                    both.fresh.insert(page);
                }
            }
        }
        let out: BTreeSet<_> = both.backend.all_out().into_iter().collect();
        for entry in both.real.map().within(start, end).filter(|entry| entry.prot != Prot::NONE) {
            let (Some(object), true) = (entry.object, entry.flags.has(Flags::OWN)) else {
                continue;
            };
            let left = (entry.offset..entry.offset + entry.pages())
                .find(|at| out.contains(&(object, *at)));
            // Where others have taken entries away, the process takes the pages for present until it uses them.
            assert!(
                left.is_none() || both.backend.has_stale,
                "{left:?} of {entry:?} is wired, and not there"
            );
        }
        both.note_zeroes_from(start, end + 16);
    }

    /// `MADV_PAGEOUT`.
    pub fn page_out(&mut self, which: usize, addr: u64, pages: u64) {
        let both = &mut self.processes[which];
        both.backend.store.get_or_insert_default();
        both.backend.hide(true);
        let got = both.real.madvise(&mut both.backend, addr * PAGE, pages * PAGE, Advice::PageOut);
        both.backend.hide(false);
        both.own_what_is_own();
        let is_out = !both.backend.all_out().is_empty();
        let mut mapped = both.model.pages.range(addr..addr + pages);
        let expected = match mapped.any(|(_, page)| page.flags.has(Flags::LOCKED)) {
            true => Err(Error::Invalid),
            false if both.model.is_covered(addr, addr + pages) => Ok(()),
            false => Err(Error::NoMemory),
        };
        assert_eq!(got, expected);
        if is_out {
            self.note("out");
        }
    }

    /// `mremap` to an address, or so that the old range stays.
    pub fn transfer(
        &mut self,
        which: usize,
        pick: usize,
        (old, new): (u64, u64),
        to: Option<u64>,
        dont_unmap: bool,
    ) {
        let forked = self.processes.len() > 1;
        let both = &mut self.processes[which];
        let entries: Vec<_> = both.real.map().entries().copied().collect();
        let Some(entry) = entries.get(pick % entries.len().max(1)) else { return };
        let (start, mut new) = (entry.start, if dont_unmap { old } else { new });
        let mut old = old;
        both.note_giants();
        both.fresh.clear();
        let to_or_none = to.or_else(|| both.model.find_space(new));
        let flags = RemapFlags { may_move: true, fixed: to.map(|to| to * PAGE), dont_unmap };
        let parts = entries.iter().filter(|part| start < part.end && part.start < start + old);
        let has_parts = parts.count() > 1;
        let got = both.real.mremap(&mut both.backend, start * PAGE, old * PAGE, new * PAGE, flags);
        let got = got.map(|addr| addr / PAGE);
        self.exact &= !forked;
        both.own_what_is_own();
        let model = &mut both.model;
        let Some(to) = to_or_none else { return assert_eq!(got, Err(Error::NoMemory)) };
        let overlaps = start + old > to && to + new > start;
        if to + new > HIGH || overlaps {
            return assert_eq!(got, Err(Error::Invalid));
        }
        if flags.fixed.is_some() {
            model.unmap(to, to + new);
        }
        if old > new {
            if start + old > HIGH {
                return assert_eq!(got, Err(Error::Invalid));
            }
            model.unmap(start + new, start + old);
            old = new;
        }
        if old > model.run(start) {
            return assert_eq!(got, Err(Error::Fault));
        }
        // Memory of which parts have become the process's own object is one mapping to the program, but not to this flag.
        if got == Err(Error::Fault) && dont_unmap && has_parts {
            return;
        }
        let too_little = has_parts || both.backend.left.is_some();
        if got == Err(Error::NoMemory) && too_little {
            return;
        }
        assert_eq!(got, Ok(to));
        new = new.max(old);
        let is_own = both.real.map().at(to).is_some_and(|entry| entry.flags.has(Flags::OWN));
        let first = model.pages[&start].clone();
        for n in 0..new {
            let object = first.object.map(|(object, offset)| (object, offset + n));
            let page = match n < old {
                true => model.pages.remove(&(start + n)).unwrap(),
                false => Page { object, anon: None, ..first.clone() },
            };
            if n < old && dont_unmap {
                let flags = page.flags.without(Flags::LOCKED);
                model.pages.insert(start + n, Page { flags, anon: None, ..page.clone() });
            }
            model.pages.insert(to + n, page);
        }
        self.note(match (dont_unmap, is_own) {
            (true, _) => "transfer, and the range stays",
            (false, true) => "transfer of an object",
            (false, false) => "transfer",
        });
    }

    /// A range is passed, or about to be.
    pub fn pass(&mut self, which: usize, (addr, pages): (u64, u64), mode: Option<Mode>) {
        let leaves = mode != Some(Mode::Copy);
        let both = &mut self.processes[which];
        let expected = both.model.may_pass(addr, addr + pages, leaves);
        let got = both.real.pass(&mut both.backend, addr * PAGE, pages * PAGE, leaves);
        let passed = match got {
            Ok(passed) => passed,
            Err(error) => {
                let too_little = both.backend.left.is_some() && error == Error::NoMemory;
                return assert!(too_little || expected == Err(error), "{error:?}, {expected:?}");
            }
        };
        assert_eq!(expected, Ok(()));
        both.backend.left = None;
        let (start, end) = (addr, addr + pages);
        let prots = both.model.pages.range(start..end).map(|(_, page)| page.prot).collect();
        let holds_still = leaves && passed.own.is_none();
        let loan = Loan { passed, start, end, prots };
        if holds_still {
            both.model.pages.range_mut(start..end).for_each(|(_, page)| {
                page.prot = page.prot.read_only();
            });
        }
        match mode {
            Some(mode) => self.complete(which, loan, mode),
            None if holds_still => {
                both.loan = Some(loan);
                self.note("lend");
            }
            // Nobody may touch it meanwhile.
            None => {}
        }
    }

    /// What was about to leave stays.
    pub fn recall(&mut self, which: usize) {
        if self.processes[which].loan.is_some() {
            self.note("recall");
            self.processes[which].recall();
        }
    }

    /// What was about to leave is gone.
    pub fn give(&mut self, which: usize, share: bool) {
        if let Some(loan) = self.processes[which].loan.take() {
            self.note("give");
            self.complete(which, loan, if share { Mode::Share } else { Mode::Donate });
        }
    }

    fn complete(&mut self, which: usize, loan: Loan, mode: Mode) {
        let Loan { start, end, .. } = loan;
        self.processes[which].backend.left = None;
        self.exact &= self.processes.len() == 1;
        let expected: Option<Vec<u64>> = (start..end).map(|page| self.holds(which, page)).collect();
        let (first, got) = self.copied(which, &loan);
        assert_eq!(got, expected, "what is passed");
        let both = &mut self.processes[which];
        let Some(contents) = got else {
            both.real.stay(&mut both.backend, &loan.passed);
            return both.raise(&loan);
        };
        let contents: Vec<u64> = (0..first).map(|_| 0).chain(contents).collect();
        let object = self.kernel.borrow_mut().add_passed(contents.clone());
        self.contents.insert(object, contents);
        self.files.push(File { object, first, pages: end - start });
        both.raise(&loan);
        *self
            .tally
            .entry(if loan.passed.own.is_some() { "pass tables" } else { "pass a copy" })
            .or_default() += 1;
        *self
            .tally
            .entry(match mode {
                Mode::Copy => "copy",
                Mode::Donate => "donate",
                Mode::Share => "share",
            })
            .or_default() += 1;
        match mode {
            Mode::Copy => {}
            Mode::Donate => {
                let len = (end - start) * PAGE;
                assert_eq!(both.real.munmap(&mut both.backend, start * PAGE, len), Ok(()));
                both.model.unmap(start, end);
            }
            Mode::Share => {
                both.backend.files.insert(object);
                for entry in &loan.passed.entries {
                    let offset = first + entry.start - start;
                    let request = MapRequest {
                        addr: entry.start * PAGE,
                        len: entry.pages() * PAGE,
                        prot: entry.prot,
                        placement: Placement::Fixed,
                        flags: entry.flags.without(Flags::OWN).or(Flags::SHARED),
                        object: Some((ObjectId::new(object), offset * PAGE)),
                    };
                    let got = both.real.mmap(&mut both.backend, &request);
                    assert_eq!(got, Ok(entry.start * PAGE));
                }
                let locks = if both.model.locks_new { Flags::LOCKED } else { Flags(0) };
                for page in start..end {
                    let at = both.model.pages.get_mut(&page).unwrap();
                    at.flags = at.flags.or(Flags::SHARED).or(locks);
                    (at.object, at.anon) = (Some((object, first + page - start)), None);
                }
            }
        }
    }

    /// What the model says that a page holds; `None`: its file has no such page.
    fn holds(&self, which: usize, page: u64) -> Option<u64> {
        let model = &self.processes[which].model;
        let at = &model.pages[&page];
        if at.object.is_some_and(|(object, offset)| offset >= self.size(object)) {
            return None;
        }
        Some(match model.look(page) {
            Ok(value) => value,
            Err((object, offset)) => match self.contents.get(&object) {
                Some(contents) => contents[offset as usize],
                None => self.kernel.borrow().value(Target::Object(object, offset)),
            },
        })
    }

    /// Copies a range as the library does: the page of the file that it begins at, and what it has, unless a page is not there.
    fn copied(&mut self, which: usize, loan: &Loan) -> (u64, Option<Vec<u64>>) {
        let both = &self.processes[which];
        let Loan { start, end, .. } = *loan;
        if let Some((object, page)) = loan.passed.own {
            let all = both.backend.contents_of(object);
            let part = &all[page as usize..(page + end - start) as usize];
            return (page, Some(part.to_vec()));
        }
        let mut contents = vec![0; (end - start) as usize];
        let mut at = start;
        loop {
            let both = &mut self.processes[which];
            match both.real.next_contents(&mut both.backend, at, end) {
                Ok(None) => return (0, Some(contents)),
                Ok(Some((from, count))) => {
                    assert!(at <= from && from + count <= end && count > 0);
                    for page in from..from + count {
                        match self.touch(which, page, Access::Read) {
                            Ok(value) => contents[(page - start) as usize] = value,
                            Err(error) => {
                                assert_eq!(error, FaultError::NoPage);
                                return (0, None);
                            }
                        }
                    }
                    at = from + count;
                }
                Err(error) => {
                    assert_eq!(error, Error::Fault);
                    return (0, None);
                }
            }
        }
    }

    /// What a file has becomes private memory, and, if it is taken, is the file's no more.
    pub fn take(
        &mut self,
        which: usize,
        pick: usize,
        (skip, len): (u64, u64),
        (addr, prot): (Option<u64>, Prot),
        takes: bool,
    ) {
        if self.files.is_empty() {
            return;
        }
        let pick = pick % self.files.len();
        let File { object, first, pages } = self.files[pick];
        let skip = skip % pages;
        let len = if takes { pages - skip } else { 1 + len % (pages - skip) };
        let first = first + skip;
        let both = &mut self.processes[which];
        both.backend.left = None;
        both.note_giants();
        self.exact &= self.processes.len() == 1;
        let both = &mut self.processes[which];
        let expected = match addr {
            None => both.aligned_place(len, Some((object, first))),
            Some(addr) if addr + len > HIGH => Err(Error::NoMemory),
            Some(addr) => Ok(addr),
        };
        let place = addr.map(|addr| (addr, Placement::Fixed)).or_else(|| {
            let place = both.real.place_for(len, first)?;
            Some((place, Placement::FixedNoReplace))
        });
        let (addr, placement) = place.unwrap_or((0, Placement::Hint));
        let request =
            MapRequest { addr: addr * PAGE, placement, ..MapRequest::anonymous(len * PAGE, prot) };
        let got = both.real.mmap(&mut both.backend, &request).map(|addr| addr / PAGE);
        assert_eq!(got, expected);
        let Ok(start) = got else { return };
        let part = (first as usize)..(first + len) as usize;
        let zeros = (0..first).map(|_| 0);
        let real = zeros.chain(self.kernel.borrow().objects[&object][part.clone()].to_vec());
        let own = both.backend.adopt(real.collect());
        let request = MapRequest {
            addr: start * PAGE,
            placement: Placement::Fixed,
            flags: Flags::OWN,
            object: Some((own, first * PAGE)),
            ..request
        };
        assert_eq!(both.real.mmap(&mut both.backend, &request), Ok(start * PAGE));
        both.model.unmap(start, start + len);
        both.model.enter(start, len, prot, both.model.new_flags(), None);
        let contents = self.contents.get_mut(&object).unwrap();
        for (page, &value) in (start..).zip(&contents[part]) {
            both.model.pages.get_mut(&page).unwrap().anon = Some(Rc::new(Cell::new(value)));
        }
        *self.tally.entry(if takes { "take" } else { "import" }).or_default() += 1;
        if takes {
            contents.truncate(first as usize);
            self.cut(object, first);
            self.files[pick].pages = skip;
            if skip == 0 {
                self.files.remove(pick);
            }
        }
    }

    /// A file has only so many pages left, and everybody is told.
    fn cut(&mut self, object: u32, pages: u64) {
        self.exact = false;
        self.processes.iter_mut().for_each(|both| both.backend.object_revoke(object));
        self.kernel.borrow_mut().cut(object, pages);
        for both in &mut self.processes {
            both.fresh.clear();
            let cut = both.real.object_cut(&mut both.backend, ObjectId::new(object), pages);
            assert_eq!(cut, Ok(()));
            for page in both.model.pages.values_mut() {
                if page.object.is_some_and(|(other, at)| other == object && at >= pages) {
                    page.anon = None;
                }
            }
        }
    }

    /// Somebody maps a file that was passed: the operation that does it.
    pub fn mapping_of(&self, pick: usize, op: &Op) -> Option<Op> {
        let &Op::MapFile { addr, prot, place, shared, .. } = op else { return None };
        let file = self.files.get(pick % self.files.len().max(1))?;
        let object = Some((file.object, file.first));
        Some(Op::Map { addr, pages: file.pages, prot, place, object, shared })
    }

    /// Somebody closes a file.
    pub fn close(&mut self, pick: usize) {
        if !self.files.is_empty() {
            self.files.remove(pick % self.files.len());
        }
    }

    /// Files that nobody has any more are gone.
    pub fn forget_files(&mut self) {
        let all = self.kernel.borrow().all_passed();
        for object in all {
            let is_open = self.files.iter().any(|file| file.object == object);
            if !is_open && !self.processes.iter().any(|both| both.backend.files.contains(&object)) {
                self.kernel.borrow_mut().remove_passed(object);
                self.contents.remove(&object);
            }
        }
    }

    /// A process maps an object, or tries to.
    pub fn notes_file(both: &mut Both, object: Option<(u32, u64)>, is_before: bool) {
        let Some((object, _)) = object.filter(|(object, _)| is_file(*object)) else { return };
        match is_before || both.real.map().uses(ObjectId::new(object)) {
            true => both.backend.files.insert(object),
            false => both.backend.files.remove(&object),
        };
    }
}

impl Model {
    pub fn lock(&mut self, start: u64, end: u64, on: bool) {
        for page in self.pages.range_mut(start..end).map(|(_, page)| page) {
            let flags = page.flags.without(Flags::LOCKED);
            page.flags = if on { flags.or(Flags::LOCKED) } else { flags };
        }
    }
    pub fn new_flags(&self) -> Flags {
        if self.locks_new {
            Flags::LOCKED
        } else {
            Flags(0)
        }
    }
    pub fn is_covered(&self, start: u64, end: u64) -> bool {
        self.pages.range(start..end).count() as u64 == end - start
    }
    /// Pages from one on that are one mapping to the program.
    pub fn run(&self, start: u64) -> u64 {
        let Some(first) = self.pages.get(&start) else { return 0 };
        let is_one = |(n, page): (u64, &Page)| {
            let object = first.object.map(|(object, offset)| (object, offset + n));
            (page.prot, page.flags, page.object) == (first.prot, first.flags, object)
        };
        let all = (0..).map_while(|n| Some((n, self.pages.get(&(start + n))?)));
        all.take_while(|at| is_one(*at)).count() as u64
    }
    fn may_pass(&self, start: u64, end: u64, leaves: bool) -> Result<(), Error> {
        if end > HIGH {
            return Err(Error::Invalid);
        }
        if !self.is_covered(start, end) {
            return Err(Error::NoMemory);
        }
        for page in self.pages.range(start..end).map(|(_, page)| page) {
            let stays = page.object.is_some() || page.flags.has(Flags::GROWS_DOWN);
            if leaves && stays {
                return Err(Error::Invalid);
            }
            if page.prot == Prot::NONE {
                return Err(Error::Access);
            }
            if leaves && page.flags.has(Flags::LOCKED) {
                return Err(Error::Again);
            }
        }
        Ok(())
    }
}
