//! A machine for tests: memory that may lose power, an allocator, one core with a TLB, and a naive model.
#![allow(dead_code)]

use morsel::{
    Access, Anchor, At, Cores, Domain, Extent, Frame, Inspection, Link, Look, Memory, Morsels,
    Pages, Record, Recovery, Refused, Reserved, Shown, State, TOGETHER,
};
use powerfail::{Image, Recorder, LINE, PAGE};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Frames 0 to 3 show zeros; here the pool begins.
pub const HEAD: u64 = 4;

#[derive(Clone)]
pub struct World {
    pub memory: RefCell<Recorder>,
    pub domain: Domain,
    /// Allocated frames, and the descriptors of all.
    pub used: RefCell<Vec<bool>>,
    descriptors: RefCell<Vec<u64>>,
    cursor: Cell<usize>,
    /// Are the first free frames handed out, so that they are soon used again?
    pub first_fit: bool,
    /// Of so many calls for pages about one is told to come again; 0: none.
    pub busy: u32,
    luck: RefCell<fastrand::Rng>,
    /// A call for pages has found that there are none.
    pub was_empty: Cell<bool>,
    /// What the processor has cached: object and page; frame, and whether it may be written.
    tlb: RefCell<BTreeMap<(u32, u64), (u64, bool)>>,
    walking: Cell<bool>,
    /// Is it as a pool that does not survive, and takes more memory when it has none?
    pub grows: bool,
    /// So many frames at the end are slots of a store, which has what is in them.
    pub slots: usize,
    /// What went wrong inside.
    pub wrong: RefCell<Option<String>>,
}

impl World {
    pub fn new(frames: usize, domain: Domain) -> World {
        let mut image = Image::new(frames);
        for level in 1..4u64 {
            for word in 0..PAGE {
                image.store(level, word, Link::zeros(Frame(level - 1)).0);
            }
        }
        World::booted(image, domain)
    }
    /// A machine that finds this in its memory.
    pub fn booted(image: Image, domain: Domain) -> World {
        let frames = image.pages();
        let mut used = vec![false; frames];
        used[..=HEAD as usize].fill(true);
        World {
            memory: RefCell::new(Recorder::new(image)),
            domain,
            used: RefCell::new(used),
            descriptors: RefCell::new(vec![0; frames]),
            cursor: Cell::new(0),
            first_fit: false,
            busy: 0,
            luck: RefCell::new(fastrand::Rng::with_seed(1)),
            was_empty: Cell::new(false),
            tlb: RefCell::default(),
            walking: Cell::new(false),
            grows: false,
            slots: 0,
            wrong: RefCell::default(),
        }
    }
    /// One that uses the first free frames first.
    pub fn first_fit(image: Image, domain: Domain) -> World {
        World { first_fit: true, ..World::booted(image, domain) }
    }
    /// One where each so many-th call for pages is to come again.
    pub fn with_busy(self, busy: u32) -> World {
        World { busy, ..self }
    }
    pub fn morsels(&self) -> Morsels<'_, World, World, World> {
        let zeros = [0, 1, 2, 3].map(Frame);
        Morsels { memory: self, pages: self, cores: self, head: Frame(HEAD), zeros }
    }
    pub fn image(&self) -> Image {
        self.memory.borrow().now().clone()
    }
    fn fail(&self, what: String) {
        self.wrong.borrow_mut().get_or_insert(what);
    }
    /// Recovers, as if the machine had been started with this memory.
    pub fn recover(&self) -> Result<(), String> {
        self.used.borrow_mut().fill(false);
        self.used.borrow_mut()[..HEAD as usize].fill(true);
        self.descriptors.borrow_mut().fill(0);
        let (morsels, mut recovery) = (self.morsels(), Recovery::new());
        for _ in 0..100_000 {
            if recovery.step(&morsels).map_err(|refused| format!("recovery: {refused:?}"))? {
                return Ok(());
            }
        }
        Err("recovery does not end".into())
    }

    /// What a program does with a page that it has mapped by the root.
    pub fn access(&self, record: Record, page: u64, write: bool) -> Result<u64, Refused> {
        let key = (record.id, page);
        if let Some(&(frame, writable)) = self.tlb.borrow().get(&key) {
            if writable || !write {
                return Ok(frame);
            }
        }
        let morsels = self.morsels();
        let access = if write { Access::Write } else { Access::Read };
        for _ in 0..4 {
            let anchor = morsels.anchor(record);
            if write && anchor.has(Anchor::META) {
                // Nobody has it mapped so that it can be written.
                return morsels.fault(record, page, access).map(|_| 0);
            }
            if anchor.order() == 0 {
                // No entry of its own says that the limit is 0: who makes one that leads to it asks.
                morsels.fault(record, page, access)?;
            }
            if let Some((frame, writable)) = walk(&self.image(), anchor, page) {
                if writable || !write {
                    self.tlb.borrow_mut().insert(key, (frame, writable));
                    return Ok(frame);
                }
            }
            let shown = morsels.fault(record, page, access)?;
            if write && shown != Shown::Page {
                self.fail(format!("{key:?}: a write shows zeros"));
            }
        }
        self.fail(format!("{key:?}: fault does not help"));
        Err(Refused::Damaged)
    }
    /// Writes a page, so that it is safe.
    pub fn write(&self, record: Record, page: u64, value: [u64; 2]) -> Result<(), Refused> {
        let frame = self.access(record, page, true)?;
        let mut memory = self.memory.borrow_mut();
        // On another core than the one that has populated it.
        let core = memory.core;
        memory.core = 1 - core;
        for (word, value) in [(0, value[0]), (PAGE - 1, value[1])] {
            memory.store(frame, word, value);
            memory.write_back(frame, word / LINE);
        }
        memory.fence();
        memory.core = core;
        Ok(())
    }
    pub fn read(&self, record: Record, page: u64) -> Result<[u64; 2], Refused> {
        let frame = self.access(record, page, false)?;
        let memory = self.memory.borrow();
        Ok([memory.load(frame, 0), memory.load(frame, PAGE - 1)])
    }
    /// Has pages of a row leave for free slots, as many as there are in one piece. Which have.
    pub fn page_out(&self, id: u32, page: u64, pages: u64) -> Result<u64, Refused> {
        let record = self.morsels().open(id)?;
        let frames = self.used.borrow().len();
        let slots = frames - self.slots..frames;
        let is_free = |slot: &usize| !self.used.borrow()[*slot];
        let first = slots.clone().find(is_free).ok_or(Refused::Exists)?;
        let count = (first..slots.end).take_while(is_free).take(TOGETHER).count();
        self.used.borrow_mut()[first..first + count].fill(true);
        let slot = Frame(first as u64);
        let keep = |left: &[Frame]| {
            for (n, &frame) in left.iter().enumerate() {
                Memory::copy(self, frame, Frame((first + n) as u64));
            }
        };
        let left = match self.morsels().page_out(record, (page, pages), (slot, count), keep) {
            // It was a part of a large one.
            Err(Refused::Again) => {
                self.morsels().page_out(record, (page, pages), (slot, count), keep)
            }
            left => left,
        };
        let taken = left.map_or(0, u64::count_ones) as usize;
        if taken > count || left.is_ok_and(|left| left & !pages != 0) {
            self.fail(format!("{id}: of {pages:#x}, {left:x?} leaves for {count} slots"));
        }
        self.used.borrow_mut()[first + taken..first + count].fill(false);
        left
    }
    /// Brings in pages that are behind one in memory and in the store, as many as are. How many have come: 0 if it was not out.
    pub fn page_in(&self, id: u32, page: u64, count: u64) -> Result<u64, Refused> {
        let (morsels, record) = (self.morsels(), self.morsels().open(id)?);
        let Some(slot) = morsels.slot_of(record, page)? else { return Ok(0) };
        let come = morsels.page_in(record, (page, count), slot, |n, frame| {
            Memory::copy(self, Frame(slot.0 + n), frame);
        })?;
        if come == 0 || come > count {
            self.fail(format!("{id}, page {page}: {come} of {count} come in"));
        }
        Ok(come)
    }
    /// Brings in all pages of an object.
    pub fn all_in(&self, id: u32) -> Result<(), Refused> {
        let (morsels, record) = (self.morsels(), self.morsels().open(id)?);
        let mut page = 0;
        loop {
            let seen = match morsels.look_over(record, page, true) {
                Err(Refused::Beyond) => return Ok(()),
                seen => seen?,
            };
            for n in (0..64).filter(|n| seen.out >> n & 1 != 0) {
                self.page_in(id, (page & !63) + n, 1)?;
            }
            page = seen.next;
        }
    }
    pub fn unmap(&self, id: u32) {
        self.tlb.borrow_mut().retain(|&(object, _), _| object != id);
    }
}

/// As the processor does it: present and writable entries only.
fn walk(image: &Image, anchor: Anchor, page: u64) -> Option<(u64, bool)> {
    let (mut frame, mut level, mut writable) = (anchor.root().0, anchor.order(), true);
    if page >= morsel::pages_of(level) {
        return None;
    }
    while level > 0 {
        let link = Link(image.load(frame, morsel::index(page, level)));
        if link.0 & 1 == 0 {
            return None;
        }
        writable &= link.0 & 2 != 0;
        frame = link.frame().0;
        if level == 2 && link.is_huge() {
            return Some((frame + (page & 511), writable));
        }
        level -= 1;
    }
    Some((frame, writable))
}

impl Memory for World {
    fn load(&self, at: At) -> u64 {
        self.memory.borrow().load(at.frame.0, at.index)
    }
    fn store(&self, at: At, value: u64) {
        self.memory.borrow_mut().store(at.frame.0, at.index, value);
    }
    fn compare_exchange(&self, at: At, old: u64, new: u64) -> Result<(), u64> {
        match self.load(at) {
            now if now == old => {
                self.store(at, new);
                Ok(())
            }
            now => Err(now),
        }
    }
    #[track_caller]
    fn write_back(&self, frame: Frame, line: usize) {
        self.memory.borrow_mut().write_back(frame.0, line);
    }
    #[track_caller]
    fn fence(&self) {
        self.memory.borrow_mut().fence();
    }
    fn zero(&self, frame: Frame) {
        let mut memory = self.memory.borrow_mut();
        (0..PAGE / LINE).for_each(|line| memory.store_line(frame.0, line, [0; LINE]));
    }
    fn copy(&self, from: Frame, to: Frame) {
        let mut memory = self.memory.borrow_mut();
        for line in 0..PAGE / LINE {
            let words = std::array::from_fn(|n| memory.load(from.0, line * LINE + n));
            memory.store_line(to.0, line, words);
        }
    }
    fn domain(&self) -> Domain {
        self.domain
    }
}

impl Pages for World {
    fn take(&self, order: u8) -> Result<Frame, Refused> {
        if self.busy > 0 && self.luck.borrow_mut().u32(..self.busy) == 0 {
            return Err(Refused::Again);
        }
        let mut used = self.used.borrow_mut();
        let (size, len) = (1usize << order, used.len() - self.slots);
        let start = self.cursor.get() / size * size;
        let found = (start..len).step_by(size).chain((0..start).step_by(size)).find(|&first| {
            first + size <= len && used[first..first + size].iter().all(|used| !used)
        });
        self.was_empty.set(self.was_empty.get() || found.is_none());
        let found = found.ok_or(Refused::NoMemory)?;
        used[found..found + size].fill(true);
        self.cursor.set(if self.first_fit { 0 } else { found + size });
        if self.descriptors.borrow()[found] != 0 {
            self.fail(format!("frame {found} was given back with a descriptor"));
        }
        Ok(Frame(found as u64))
    }
    fn give(&self, frame: Frame, order: u8) {
        if self.walking.get() {
            self.fail(format!("{frame:?} is given back during a walk"));
        }
        let frames = frame.0..frame.0 + (1 << order);
        for frame in frames.clone() {
            if !std::mem::replace(&mut self.used.borrow_mut()[frame as usize], false) {
                self.fail(format!("frame {frame} is given back twice"));
            }
        }
        if let Some(cached) = self.tlb.borrow().iter().find(|(_, page)| frames.contains(&page.0)) {
            self.fail(format!("{cached:?} is given back while a core has it cached"));
        }
    }
    fn grows(&self) -> bool {
        self.grows
    }
    fn reserve(&self, frame: Frame, order: u8) -> Reserved {
        let mut used = self.used.borrow_mut();
        let frames = frame.0 as usize..(frame.0 + (1 << order)) as usize;
        if frame.0 < HEAD || frames.end > used.len() {
            return Reserved::Outside;
        }
        match used[frames.clone()].contains(&true) {
            true => Reserved::Before,
            false => {
                used[frames].fill(true);
                Reserved::First
            }
        }
    }
    fn descriptor(&self, frame: Frame) -> u64 {
        self.descriptors.borrow()[frame.0 as usize]
    }
    fn set_descriptor(&self, frame: Frame, value: u64) {
        self.descriptors.borrow_mut()[frame.0 as usize] = value;
    }
    fn exchange_descriptor(&self, frame: Frame, old: u64, new: u64) -> Result<(), u64> {
        let word = &mut self.descriptors.borrow_mut()[frame.0 as usize];
        if *word != old {
            return Err(*word);
        }
        *word = new;
        Ok(())
    }
}

impl Cores for World {
    fn enter(&self) {
        if self.walking.replace(true) {
            self.fail("a walk in a walk".into());
        }
    }
    fn leave(&self) {
        if !self.walking.replace(false) {
            self.fail("a walk ends that has not begun".into());
        }
    }
    fn invalidate(&self, object: u32, pages: Range<u64>) {
        self.tlb
            .borrow_mut()
            .retain(|(cached, page), _| *cached != object || !pages.contains(page));
    }
    fn grace(&self) {
        if self.walking.get() {
            self.fail("who walks waits for walks".into());
        }
    }
}

/// Memory that is only looked at.
pub struct Still<'a>(pub &'a Image);

impl Look for Still<'_> {
    fn word(&self, at: At) -> u64 {
        self.0.load(at.frame.0, at.index)
    }
}

/// Would recovery accept it?
pub fn inspect(image: &Image) -> Result<(), Refused> {
    let frames = image.pages() - HEAD as usize;
    let mut notes = vec![0; frames];
    let mut inspection = Inspection::new(Extent { head: Frame(HEAD), frames, own: 1 }, &mut notes)?;
    for _ in 0..100_000 {
        if inspection.step(&Still(image))? {
            return Ok(());
        }
    }
    panic!("an inspection does not end");
}

/// Record, order and limit of an object that an inspection announces, and the first two words of each page that is there.
pub type Announced = (u32, u8, u64, Vec<(u64, [u64; 2])>);

/// All of them.
pub fn announced(image: &Image) -> Vec<Announced> {
    let (memory, mut all, mut id) = (Still(image), Vec::new(), 0);
    while let Some(object) = morsel::inspected(&memory, Frame(HEAD), id).expect("inspected") {
        // Of the last page a part may be zeroed by recovery.
        let words = |page| {
            let frame = morsel::inspected_page(&memory, object, page)?;
            Some((page, [image.load(frame.0, 0), image.load(frame.0, 1)]))
        };
        let pages = (0..(object.limit / 4096).min(1030)).filter_map(words).collect();
        all.push((object.record.id, object.anchor.order(), object.limit, pages));
        id = object.record.id + 1;
    }
    all
}

/// What an object is, to who uses it. Pages of zeros are not listed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Object {
    pub order: u8,
    pub limit: u64,
    pub owner: [u64; 4],
    pub is_meta: bool,
    /// What is missing is made in pages of 2 MiB.
    pub is_large: bool,
    /// The meta morsel that describes it.
    pub described_by: Option<u32>,
    pub pages: BTreeMap<u64, [u64; 2]>,
    /// As it will be after a power failure, and the record that says so.
    pub committed: Option<(u32, Box<Object>)>,
}

impl Object {
    /// After a power failure.
    pub fn settled(&self) -> &Object {
        self.committed.as_ref().map_or(self, |(_, object)| object)
    }
    /// Zeroes what is behind a limit.
    fn cut(&mut self, bytes: u64) {
        self.pages.retain(|page, value| {
            let kept = bytes.saturating_sub(page * 4096);
            value[0] &= if kept < 8 { (1 << (8 * kept)) - 1 } else { u64::MAX };
            let last = kept.saturating_sub(4088);
            value[1] &= if last < 8 { (1 << (8 * last)) - 1 } else { u64::MAX };
            *value != [0, 0]
        });
    }
}

pub type Contents = BTreeMap<u32, Object>;

/// Looks at everything that can be found from the head, by itself, and compares it with the allocator.
pub fn audit(world: &World) -> Result<Contents, String> {
    if let Some(wrong) = world.wrong.borrow().clone() {
        return Err(wrong);
    }
    let image = world.image();
    let mut audit = Audit::new(&image, world.slots);
    audit.leads.insert(HEAD, 1);
    let mut records = BTreeMap::new();
    audit.tree(HEAD, LINE, &mut |page, frame| {
        (0..64).for_each(|n| {
            records.insert(page as u32 * 64 + n, (frame, n as usize * LINE));
        })
    })?;
    let mut contents = Contents::new();
    let mut hidden = Vec::new();
    for (id, (frame, word)) in records {
        let anchor = Anchor(image.load(frame, word));
        // Line 0 of page 0 is none.
        if id == 0 || anchor == Anchor::FREE {
            continue;
        }
        if anchor.is_live() && anchor.has(Anchor::HIDDEN) {
            hidden.push((id, frame, word));
            continue;
        }
        if !anchor.is_live() || anchor.has(Anchor::CUTTING | Anchor::TRIMMING) {
            return Err(format!("record {id} is {anchor:?}"));
        }
        let mut pages = BTreeMap::new();
        audit.tree(frame, word, &mut |page, frame| {
            let value = [image.load(frame, 0), image.load(frame, PAGE - 1)];
            if value != [0, 0] {
                pages.insert(page, value);
            }
        })?;
        let described_by = anchor.has(Anchor::OWNED).then(|| image.load(frame, word + 3) as u32);
        let is_meta = anchor.has(Anchor::META);
        if is_meta {
            let described =
                world.morsels().open(id).and_then(|meta| world.morsels().described(meta));
            described
                .map_err(|refused| format!("meta morsel {id} describes nothing: {refused:?}"))?;
            pages.clear();
        }
        contents.insert(
            id,
            Object {
                order: anchor.order(),
                limit: image.load(frame, word + 1),
                owner: std::array::from_fn(|n| image.load(frame, word + 4 + n)),
                is_meta,
                is_large: anchor.has(Anchor::LARGE),
                described_by,
                pages,
                committed: None,
            },
        );
    }
    for (id, frame, word) in hidden {
        let anchor = Anchor(image.load(frame, word));
        let mut pages = BTreeMap::new();
        audit.tree(frame, word, &mut |page, frame| {
            let value = [image.load(frame, 0), image.load(frame, PAGE - 1)];
            if value != [0, 0] {
                pages.insert(page, value);
            }
        })?;
        let of = image.load(frame, word + 3) as u32;
        let object =
            contents.get_mut(&of).ok_or(format!("{id} is hidden of {of}, which is none"))?;
        let (order, limit) = (anchor.order(), image.load(frame, word + 1));
        let is_large = anchor.has(Anchor::LARGE);
        let was = Object { order, limit, pages, is_large, ..object.clone() };
        if object.committed.replace((id, Box::new(was))).is_some() {
            return Err(format!("object {of} has two that are hidden"));
        }
    }
    audit.compare(world)?;
    Ok(contents)
}

/// The pages of an object that are there, as its tables say one by one, up to its limit.
pub fn there(world: &World, id: u32) -> BTreeSet<u64> {
    there_and_large(world, id).0
}

/// The same, and the first page of each large one.
pub fn there_and_large(world: &World, id: u32) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let record = world.morsels().open(id).expect("it exists");
    let limit = world.morsels().limit(record).div_ceil(4096);
    let (anchor, image) = (world.morsels().anchor(record), world.image());
    let (mut pages, mut frames) = (BTreeSet::new(), Vec::new());
    let table =
        Table { frame: anchor.root().0, level: anchor.order(), first: 0, own: true, seen: false };
    let mut audit = Audit::new(&image, world.slots);
    let read = audit.table(table, &mut |page, frame| {
        pages.insert(page);
        frames.push((page, frame));
    });
    read.expect("it was audited");
    pages.split_off(&limit);
    let large = frames.iter().filter(|(_, frame)| audit.wholes.contains_key(frame));
    (pages, large.map(|(page, _)| *page).collect())
}

struct Audit<'a> {
    image: &'a Image,
    slots: usize,
    /// How many entries and records lead to a frame.
    leads: BTreeMap<u64, u64>,
    /// How many entries lead to all of 2 MiB.
    wholes: BTreeMap<u64, u64>,
    /// What can be written: frame, one of its pages, and whether it is all of 2 MiB.
    own: Vec<(u64, u64, bool)>,
}

/// A table on the way down.
#[derive(Clone, Copy)]
struct Table {
    frame: u64,
    level: u8,
    first: u64,
    /// Can all that led here be written?
    own: bool,
    /// Has it been seen by another way?
    seen: bool,
}

impl<'a> Audit<'a> {
    fn new(image: &'a Image, slots: usize) -> Self {
        Audit { image, slots, leads: BTreeMap::new(), wholes: BTreeMap::new(), own: Vec::new() }
    }
    fn lead(&mut self, frame: u64, is_whole: bool) -> bool {
        let all = if is_whole { &mut self.wholes } else { &mut self.leads };
        let leads = all.entry(frame).or_default();
        *leads += 1;
        *leads > 1
    }
    /// How many entries lead to a frame: who leads to all of the 2 MiB counts as one.
    fn leads_to(&self, frame: u64) -> u64 {
        let single = self.leads.get(&frame).copied().unwrap_or(0);
        single + u64::from(self.wholes.contains_key(&(frame & !511)))
    }
    fn tree(
        &mut self,
        frame: u64,
        word: usize,
        visit: &mut impl FnMut(u64, u64),
    ) -> Result<(), String> {
        let anchor = Anchor(self.image.load(frame, word));
        let (frame, level) = (anchor.root().0, anchor.order());
        let seen = self.lead(frame, false);
        self.own.push((frame, 0, false));
        self.table(Table { frame, level, first: 0, own: true, seen }, visit)
    }
    fn table(&mut self, table: Table, visit: &mut impl FnMut(u64, u64)) -> Result<(), String> {
        let Table { frame, level, .. } = table;
        if level == 0 {
            visit(table.first, frame);
            return Ok(());
        }
        for index in 0..PAGE {
            let link = Link(self.image.load(frame, index));
            let first = table.first + index as u64 * (1 << (9 * (level - 1)));
            if link.is_hole() {
                continue;
            }
            if link.is_out() {
                let slot = link.frame().0;
                let is_slot = slot as usize >= self.image.pages() - self.slots;
                if level != 1 || link.0 & 7 != 0 || !is_slot {
                    return Err(format!("frame {frame} entry {index}: {link:?}"));
                }
                if !table.seen {
                    self.lead(slot, false);
                }
                visit(first, slot);
                continue;
            }
            if link.is_claim() || link.0 & 5 != 5 {
                return Err(format!("frame {frame} entry {index}: {link:?}"));
            }
            let child = link.frame().0;
            // What a table leads to, it leads to once, by however many it is led to.
            let is_whole = level == 2 && link.is_huge();
            let seen = table.seen || self.lead(child, is_whole);
            let own = table.own && link.is_own();
            if own {
                self.own.push((child, first, is_whole));
            }
            if is_whole {
                (0..512).for_each(|n| visit(first + n, child + n));
            } else {
                self.table(Table { frame: child, level: level - 1, first, own, seen }, visit)?;
            }
        }
        Ok(())
    }
    fn compare(&self, world: &World) -> Result<(), String> {
        let is_shared = |&&(frame, _, is_whole): &&(u64, u64, bool)| match is_whole {
            true => self.wholes[&frame] > 1 || (frame..frame + 512).any(|n| self.leads_to(n) > 1),
            false => self.leads_to(frame) > 1,
        };
        if let Some((frame, page, _)) = self.own.iter().find(is_shared) {
            return Err(format!("frame {frame} is shared, and can be written at {page}"));
        }
        let used = world.used.borrow();
        let mut reached = vec![false; used.len()];
        reached[..HEAD as usize].fill(true);
        for (&frame, &leads) in &self.wholes {
            reached[frame as usize..frame as usize + 512].fill(true);
            let state = State(world.descriptor(Frame(frame)));
            if state.whole_sharers(world.grows) != leads - 1 {
                return Err(format!("{leads} lead to the 2 MiB at {frame}, which is {state:?}"));
            }
        }
        for &frame in self.leads.keys() {
            if std::mem::replace(&mut reached[frame as usize], true) && !world.grows {
                return Err(format!("frame {frame} is in two things"));
            }
        }
        for frame in (HEAD..reached.len() as u64).filter(|&frame| reached[frame as usize]) {
            let state = State(world.descriptor(Frame(frame)));
            let leads = self.leads_to(frame);
            // The count of all of the 2 MiB is there.
            let is_other = !world.grows && self.wholes.contains_key(&frame);
            if !is_other && state.entered().is_none() && state.sharers() != leads - 1 {
                return Err(format!("{leads} lead to frame {frame}, which is {state:?}"));
            }
            if leads > 1 && state.entered().is_some() {
                return Err(format!("{leads} lead to frame {frame}, which is {state:?}"));
            }
        }
        for (frame, (&reached, &used)) in reached.iter().zip(used.iter()).enumerate() {
            match (reached, used) {
                (true, false) => return Err(format!("frame {frame} is free and reachable")),
                (false, true) => return Err(format!("frame {frame} is lost")),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Something that somebody does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Create {
        id: u32,
        order: u8,
    },
    Write {
        id: u32,
        page: u64,
        value: u64,
    },
    Read {
        id: u32,
        page: u64,
    },
    Populate {
        id: u32,
        first: u64,
        end: u64,
        huge: bool,
    },
    Discard {
        id: u32,
        first: u64,
        end: u64,
    },
    Limit {
        id: u32,
        bytes: u64,
    },
    Grow {
        id: u32,
    },
    /// It is to have large pages, or not any more.
    Large {
        id: u32,
        large: bool,
    },
    Part {
        id: u32,
        first: u64,
    },
    Snapshot {
        id: u32,
        new: u32,
    },
    Destroy {
        id: u32,
    },
    /// Begins to destroy it, and does so many steps.
    Doom {
        id: u32,
        steps: usize,
    },
    Meta {
        id: u32,
        data: u32,
        order: u8,
    },
    Commit {
        id: u32,
        new: u32,
    },
    Release {
        id: u32,
    },
}

/// Takes away what is behind a limit.
fn trim_all(morsels: &Morsels<'_, World, World, World>, record: Record) -> Result<(), Refused> {
    let mut from = 0;
    while let Some(next) = morsels.trim(record, from)? {
        from = next;
    }
    Ok(())
}

impl Op {
    /// Does it, to its end.
    pub fn run(self, world: &World) -> Result<Option<[u64; 2]>, Refused> {
        let morsels = world.morsels();
        match self {
            Op::Create { id, order } => {
                morsels.create(id, order, [id as u64, 2, 3, 4])?;
            }
            Op::Write { id, page, value } => {
                world.write(morsels.open(id)?, page, [value, !value])?;
            }
            Op::Read { id, page } => return world.read(morsels.open(id)?, page).map(Some),
            Op::Populate { id, mut first, end, huge } => {
                let record = morsels.open(id)?;
                while first < end {
                    first = morsels.populate(record, first, end, huge)?;
                }
            }
            Op::Discard { id, mut first, end } => {
                let record = morsels.open(id)?;
                while first < end {
                    first = morsels.discard(record, first, end)?;
                }
            }
            Op::Limit { id, bytes } => {
                let record = morsels.open(id)?;
                // Where others take pages, too, this may be a repetition.
                trim_all(&morsels, record)?;
                morsels.limit_to(record, bytes)?;
                trim_all(&morsels, record)?;
            }
            Op::Grow { id } => morsels.grow(morsels.open(id)?)?,
            Op::Large { id, large } => morsels.set_large(morsels.open(id)?, large)?,
            Op::Part { id, first } => {
                morsels.part(morsels.open(id)?, first, 1)?;
            }
            Op::Snapshot { id, new } => {
                morsels.snapshot(morsels.open(id)?, new)?;
            }
            Op::Destroy { id } => {
                let record = morsels.open(id)?;
                let described = morsels.described(record);
                morsels.destroy(record)?;
                world.unmap(id);
                if let Ok(described) = described {
                    world.unmap(described.data.id);
                }
                while !morsels.reap(record)? {}
            }
            Op::Doom { id, steps } => {
                let record = morsels.open(id)?;
                morsels.destroy(record)?;
                world.unmap(id);
                (0..steps).try_for_each(|_| morsels.reap(record).map(|_| ()))?;
            }
            Op::Meta { id, data, order } => {
                morsels.create_meta(id, data, order, 1 << 40)?;
            }
            Op::Commit { id, new } => {
                if let Some(old) = morsels.commit(morsels.open(id)?, new)? {
                    while !morsels.reap(old)? {}
                }
            }
            Op::Release { id } => {
                if let Some(old) = morsels.release_commit(morsels.open(id)?)? {
                    while !morsels.reap(old)? {}
                }
            }
        }
        Ok(None)
    }

    /// What the naive model says.
    pub fn model(self, contents: &mut Contents) -> Result<Option<[u64; 2]>, Refused> {
        fn open(contents: &mut Contents, id: u32) -> Result<&mut Object, Refused> {
            contents.get_mut(&id).ok_or(Refused::Gone)
        }
        fn inside(object: &Object, page: u64) -> Result<(), Refused> {
            let inside = page < morsel::pages_of(object.order) && page * 4096 < object.limit;
            inside.then_some(()).ok_or(Refused::Beyond)
        }
        let fresh = |id: u64, order| Object {
            order,
            limit: morsel::pages_of(order) * 4096,
            owner: [id, 2, 3, 4],
            is_meta: false,
            is_large: false,
            described_by: None,
            pages: BTreeMap::new(),
            committed: None,
        };
        let hidden: BTreeSet<u32> =
            contents.values().filter_map(|object| Some(object.committed.as_ref()?.0)).collect();
        let exists = |contents: &Contents, id| contents.contains_key(&id) || hidden.contains(&id);
        match self {
            Op::Create { id, order } => {
                if order > 4 || id == 0 || id >= 1 << 24 {
                    return Err(Refused::Invalid);
                }
                if exists(contents, id) {
                    return Err(Refused::Exists);
                }
                contents.insert(id, fresh(id as u64, order));
            }
            Op::Write { id, page, value } => {
                let object = open(contents, id)?;
                if object.is_meta {
                    return Err(Refused::Invalid);
                }
                inside(object, page)?;
                object.pages.insert(page, [value, !value]);
            }
            Op::Read { id, page } => {
                let object = open(contents, id)?;
                inside(object, page)?;
                return Ok(Some(object.pages.get(&page).copied().unwrap_or_default()));
            }
            Op::Populate { id, first, end, .. } => {
                let object = open(contents, id)?;
                if object.is_meta && first < end {
                    return Err(Refused::Invalid);
                }
                (first..end).try_for_each(|page| inside(object, page))?;
            }
            Op::Discard { id, first, end } => {
                let object = open(contents, id)?;
                if object.is_meta {
                    return Err(Refused::Invalid);
                }
                object.pages.retain(|page, _| !(first..end).contains(page));
            }
            Op::Limit { id, bytes } => {
                let object = open(contents, id)?;
                if object.is_meta {
                    return Err(Refused::Invalid);
                }
                object.cut(bytes.min(object.limit));
                object.limit = bytes;
            }
            Op::Grow { id } => {
                let object = open(contents, id)?;
                if object.is_meta || object.order == 0 || object.order == 4 {
                    return Err(Refused::Invalid);
                }
                object.order += 1;
            }
            Op::Large { id, large } => {
                let object = open(contents, id)?;
                if object.is_meta {
                    return Err(Refused::Invalid);
                }
                object.is_large = large;
            }
            Op::Part { id, first } => {
                let object = open(contents, id)?;
                if object.order == 0 || first % 512 != 0 {
                    return Err(Refused::Invalid);
                }
                inside(object, first)?;
            }
            Op::Snapshot { id, new } => {
                let object = open(contents, id)?.clone();
                if object.is_meta || object.described_by.is_some() {
                    return Err(Refused::Invalid);
                }
                if exists(contents, new) {
                    return Err(Refused::Exists);
                }
                contents.insert(new, Object { committed: None, ..object });
            }
            Op::Commit { id, new } => {
                let object = open(contents, id)?.clone();
                if object.is_meta || object.described_by.is_some() {
                    return Err(Refused::Invalid);
                }
                if exists(contents, new) {
                    return Err(Refused::Exists);
                }
                let now = Box::new(Object { committed: None, ..object });
                open(contents, id)?.committed = Some((new, now));
            }
            Op::Release { id } => {
                let object = open(contents, id)?;
                if object.is_meta || object.described_by.is_some() {
                    return Err(Refused::Invalid);
                }
                object.committed = None;
            }
            Op::Destroy { id } | Op::Doom { id, .. } => {
                if open(contents, id)?.described_by.is_some() {
                    return Err(Refused::Invalid);
                }
                contents.retain(|&other, object| other != id && object.described_by != Some(id));
            }
            Op::Meta { id, data, order } => {
                if exists(contents, id) || id == data || exists(contents, data) {
                    return Err(Refused::Exists);
                }
                let (limit, is_meta) = (4096, true);
                let meta = Object { limit, is_meta, owner: [0; 4], ..fresh(0, 0) };
                contents.insert(id, meta);
                let described_by = Some(id);
                contents.insert(data, Object { described_by, owner: [0; 4], ..fresh(0, order) });
            }
        }
        Ok(None)
    }
}

/// Is this what may be found if the power fails between two states?
pub fn after_failure(old: &Contents, new: &Contents, found: &Contents) -> Result<(), String> {
    let settled = |contents: &Contents| -> Contents {
        contents.iter().map(|(id, object)| (*id, object.settled().clone())).collect()
    };
    let atomic = |id| {
        [old, new]
            .into_iter()
            .any(|contents| contents.get(&id).is_some_and(|object| object.committed.is_some()))
    };
    compare(&settled(old), &settled(new), found, atomic)
}

/// Is this what may be found if something between two states could not be done?
pub fn between(old: &Contents, new: &Contents, found: &Contents) -> Result<(), String> {
    compare(old, new, found, |_| false)
}

fn compare(
    old: &Contents,
    new: &Contents,
    found: &Contents,
    atomic: impl Fn(u32) -> bool,
) -> Result<(), String> {
    let ids: BTreeSet<_> = old.keys().chain(new.keys()).chain(found.keys()).collect();
    for id in ids {
        let (old, new, found) = (old.get(id), new.get(id), found.get(id));
        let good = found == old
            || found == new
            || match (old, new, found) {
                (Some(old), Some(new), Some(found)) => !atomic(*id) && mixed(old, new, found),
                _ => false,
            };
        if !good {
            return Err(format!("object {id}: {found:?}\nwas {old:?}\nbecomes {new:?}"));
        }
    }
    Ok(())
}

/// Each page old or new, and the rest as one. A limit and what it cuts off are one; only what nobody sees may be gone before.
fn mixed(old: &Object, new: &Object, found: &Object) -> bool {
    if old.limit != new.limit {
        let below = |object: &Object| {
            let mut object = object.clone();
            object.cut(old.limit);
            object
        };
        return below(found) == below(old);
    }
    let without = |object: &Object| Object { pages: BTreeMap::new(), ..object.clone() };
    let pages: BTreeSet<_> = old.pages.keys().chain(found.pages.keys()).collect();
    let word = |object: &Object, page, n: usize| object.pages.get(page).map_or(0, |value| value[n]);
    // The two words of a page that is written are in two lines.
    let each = pages.into_iter().all(|page| {
        (0..2).all(|n| {
            let found = word(found, page, n);
            found == word(old, page, n) || found == word(new, page, n)
        })
    });
    each && (without(found) == without(old) || without(found) == without(new))
}
