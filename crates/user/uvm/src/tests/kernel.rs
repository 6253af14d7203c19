//! A model of the kernel: capabilities with copies, CNodes, tables, Mappings, objects.

use crate::backend::*;
use crate::bits::Bits;
use crate::pmap::Pmap;
use crate::types::{Access, NoMemory, Prot, Refused, GIANT_REGIONS, PAGE, REGION_PAGES};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// What an entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Zeros that belong to nobody.
    Zero,
    Anon(u32),
    Object(u32, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cap {
    Page(u32),
    Mapping(u32),
}

#[derive(Clone, Debug)]
struct Mapping {
    table: u32,
    first: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    target: Target,
    prot: Prot,
    /// The bit that the processor sets.
    written: bool,
}

struct Node {
    refs: u32,
    slots: BTreeMap<u32, Cap>,
}

struct TableObject {
    refs: u32,
    entries: BTreeMap<u32, Entry>,
}

#[derive(Default)]
pub struct Kernel {
    next: u32,
    nodes: HashMap<u32, Node>,
    tables: HashMap<u32, TableObject>,
    mappings: HashMap<u32, Mapping>,
    /// Number of capabilities, and contents.
    pages: HashMap<u32, (u32, u64)>,
    pub objects: HashMap<u32, Vec<u64>>,
    pub page_copies: u64,
    /// Files without a name that there were.
    passed: u32,
    /// Before the object that consists of page tables gets more pages than these, entries that show it go.
    until: Option<u64>,
    /// How often they went.
    revokes: u64,
}

impl Kernel {
    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
    fn cap_delete(&mut self, cap: Cap) {
        match cap {
            Cap::Page(page) => {
                let refs = &mut self.pages.get_mut(&page).unwrap().0;
                *refs -= 1;
                if *refs == 0 {
                    self.pages.remove(&page);
                    let gone: Vec<u32> = self
                        .mappings
                        .iter()
                        .filter(|(_, m)| {
                            self.tables[&m.table].entries[&m.first].target == Target::Anon(page)
                        })
                        .map(|(id, _)| *id)
                        .collect();
                    for id in gone {
                        self.mapping_delete(id);
                        for node in self.nodes.values_mut() {
                            node.slots.retain(|_, cap| *cap != Cap::Mapping(id));
                        }
                    }
                }
            }
            Cap::Mapping(id) => self.mapping_delete(id),
        }
    }
    fn mapping_delete(&mut self, id: u32) {
        let mapping = self.mappings.remove(&id).unwrap();
        if let Some(table) = self.tables.get_mut(&mapping.table) {
            for entry in mapping.first..mapping.first + mapping.count {
                table.entries.remove(&entry).unwrap();
            }
        }
    }
    fn node_unref(&mut self, node: u32) {
        let object = self.nodes.get_mut(&node).unwrap();
        object.refs -= 1;
        if object.refs == 0 {
            let caps: Vec<u32> = object.slots.keys().copied().collect();
            for slot in caps {
                if let Some(cap) = self.nodes.get_mut(&node).unwrap().slots.remove(&slot) {
                    self.cap_delete(cap);
                }
            }
            self.nodes.remove(&node);
        }
    }
    fn table_unref(&mut self, table: u32) {
        let object = self.tables.get_mut(&table).unwrap();
        object.refs -= 1;
        if object.refs == 0 {
            let gone: Vec<u32> =
                self.mappings.iter().filter(|(_, m)| m.table == table).map(|(id, _)| *id).collect();
            for id in gone {
                self.mapping_delete(id);
                for node in self.nodes.values_mut() {
                    node.slots.retain(|_, cap| *cap != Cap::Mapping(id));
                }
            }
            self.tables.remove(&table);
        }
    }
    /// Takes the Frames of an object away: all Mappings of them go.
    fn object_revoke(&mut self, object: u32) {
        self.pages_revoke(object, 0..u64::MAX);
    }
    /// The same of what shows one of these pages.
    fn pages_revoke(&mut self, object: u32, pages: Range<u64>) {
        let shows = |m: &Mapping| match self.tables[&m.table].entries[&m.first].target {
            Target::Object(other, first) => {
                other == object && first < pages.end && pages.start < first + u64::from(m.count)
            }
            _ => false,
        };
        let gone: Vec<u32> =
            self.mappings.iter().filter(|(_, m)| shows(m)).map(|(id, _)| *id).collect();
        for id in gone {
            self.mapping_delete(id);
            for node in self.nodes.values_mut() {
                node.slots.retain(|_, cap| *cap != Cap::Mapping(id));
            }
        }
    }
    /// Number of CNodes.
    pub fn cnodes(&self) -> usize {
        self.nodes.len()
    }
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
            && self.tables.is_empty()
            && self.mappings.is_empty()
            && self.pages.is_empty()
            && self.objects.keys().all(|&object| object < PASSED)
    }
    /// The object that consists of page tables becomes larger.
    pub fn lengthen(&mut self, pages: u64) {
        let new = self.pages_of(WHOLE) + pages;
        if self.until.take_if(|until| *until < new).is_some() {
            self.revokes += 1;
        }
        let contents = self.objects.get_mut(&WHOLE).unwrap();
        let end = contents.len() as u64 + pages;
        contents.extend((contents.len() as u64..end).map(|page| (WHOLE as u64 + 1) << 32 | page));
    }
    /// A file without a name, which a range of memory has become.
    pub fn add_passed(&mut self, contents: Vec<u64>) -> u32 {
        self.passed += 1;
        let object = PASSED + self.passed - 1;
        assert!(object < OWN);
        self.objects.insert(object, contents);
        object
    }
    /// Nobody has it any more.
    pub fn remove_passed(&mut self, object: u32) {
        self.objects.remove(&object).unwrap();
    }
    /// It ends there from now on: what showed more shows it no more.
    pub fn cut(&mut self, object: u32, pages: u64) {
        self.object_revoke(object);
        self.objects.get_mut(&object).unwrap().truncate(pages as usize);
    }
    /// The numbers of all files without a name.
    pub fn all_passed(&self) -> Vec<u32> {
        self.objects.keys().copied().filter(|object| (PASSED..OWN).contains(object)).collect()
    }
    fn add_object(&mut self, contents: Vec<u64>) -> u32 {
        let object = OWN + self.id();
        self.objects.insert(object, contents);
        object
    }
    /// None of one that nobody has any more: its Mappings show nothing.
    pub fn pages_of(&self, object: u32) -> u64 {
        self.objects.get(&object).map_or(0, |contents| contents.len() as u64)
    }
    /// Has nobody else a page: one capability, in a CNode of which there is one capability?
    fn is_alone(&self, page: u32) -> bool {
        let holds = |node: &&Node| node.slots.values().any(|cap| *cap == Cap::Page(page));
        self.pages[&page].0 == 1 && self.nodes.values().find(holds).unwrap().refs == 1
    }
    /// The kernel's promise: what others have, too, is not made writable.
    fn check_writable(&self, target: Target, prot: Prot) {
        if let (Target::Anon(page), true) = (target, prot.has(Prot::WRITE)) {
            assert!(self.is_alone(page), "a page that others have is made writable");
        }
    }
    fn put(&mut self, node: u32, slot: u32, cap: Cap) {
        let old = self.nodes.get_mut(&node).unwrap().slots.insert(slot, cap);
        assert_eq!(old, None, "slot in use");
    }
    pub fn value(&self, target: Target) -> u64 {
        match target {
            Target::Zero => 0,
            Target::Anon(page) => self.pages[&page].1,
            Target::Object(object, page) => self.objects[&object][page as usize],
        }
    }
    pub fn set_value(&mut self, target: Target, value: u64) {
        match target {
            Target::Zero => panic!("a write to the page of zeros"),
            Target::Anon(page) => self.pages.get_mut(&page).unwrap().1 = value,
            Target::Object(object, page) => {
                self.objects.get_mut(&object).unwrap()[page as usize] = value
            }
        }
    }
}

/// What a slot of a CNode holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Page(u32),
    /// The Mapping of a page.
    Mapping(u32),
}

/// The object whose parts one entry maps: it consists of page tables, and nobody takes it away.
pub const WHOLE: u32 = 3;

/// The number of the first file without a name, for the kernel and for all processes. Such files consist of page tables, too.
pub const PASSED: u32 = 10;

/// The number of the first object that is a process's own, for the kernel and for the process.
pub const OWN: u32 = 1000;

/// What memory has where a page has left it. Nobody may see that.
const LEFT: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Whole {
    /// How often such entries had been lost when it was made.
    revokes: u64,
    pages: Range<u64>,
    object: u32,
    object_page: u64,
    prot: Prot,
    /// A thread may hide it.
    may_hide: bool,
    is_hidden: bool,
}

/// What the pages of an object hold, wherever they are.
fn contents_of(kernel: &Kernel, store: &Option<Store>, object: u32) -> Vec<u64> {
    let mut contents = kernel.objects[&object].clone();
    if let Some(store) = store {
        let out = store.out.range((object, 0)..(object, u64::MAX));
        out.for_each(|(at, value)| contents[at.1 as usize] = *value);
    }
    contents
}

/// The pages of what one entry may show.
fn pages_of(shown: Shown) -> Range<u64> {
    let (number, pages) = match shown {
        Shown::Region(number) => (number, REGION_PAGES),
        Shown::Giant(number) => (number, GIANT_REGIONS * REGION_PAGES),
    };
    number * pages..(number + 1) * pages
}

/// Where pages go, or come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    Out,
    In,
}

/// Where pages of its own objects can leave to.
#[derive(Default)]
pub struct Store {
    /// Object and page, as the kernel names them, and what the page holds.
    out: BTreeMap<(u32, u64), u64>,
    /// The first page of each request, as the process names it.
    pub log: Vec<(u64, Moved)>,
    /// Tables and entries that were used.
    used: BTreeSet<(u32, u32)>,
    /// Pages that are shown may leave: their entries go.
    pub hides: bool,
}

/// The backend of one process.
pub struct Process {
    pub kernel: Rc<RefCell<Kernel>>,
    names: HashMap<u32, u32>,
    next_name: u32,
    upper: BTreeMap<u64, (u32, bool)>,
    /// What one entry maps: where, from which page of which object on, and with which rights.
    wholes: HashMap<u32, Whole>,
    /// Objects of its own: the kernel's by the process's number.
    own: BTreeMap<u32, u32>,
    /// Does it get them, every third time not?
    pub has_own: bool,
    /// How often it has asked for one.
    own_wishes: u32,
    /// Which entries were used last.
    used: u64,
    /// Where pages of its own objects can leave to, if they can.
    pub store: Option<Store>,
    /// The first entry of those that are used all the time, if it is known.
    pub hot: Option<u32>,
    table_names: HashMap<u32, u32>,
    /// CNodes for the child of a fork that is going on.
    for_child: HashMap<u32, u32>,
    pub released: Vec<ObjectId>,
    /// The object that consists of page tables has large pages instead of the last of them.
    pub has_large: bool,
    /// How many more objects may be made, if not as many as are wanted.
    pub left: Option<u32>,
    /// Objects whose Frames others have taken away since they were asked for.
    gone: BTreeSet<u32>,
    /// Files without a name that it has mapped.
    pub files: BTreeSet<u32>,
    /// Has anybody taken entries away?
    pub has_stale: bool,
    /// Which of the next things that can be refused are: bit 0 the first one.
    pub refusals: u64,
    /// Has anything been refused in this operation?
    pub refused: bool,
    /// Has anything been refused since the start? Then something may be lost.
    pub has_lost: bool,
}

impl Process {
    pub fn new(kernel: Rc<RefCell<Kernel>>) -> Self {
        Process {
            kernel,
            names: HashMap::new(),
            next_name: 0,
            upper: BTreeMap::new(),
            wholes: HashMap::new(),
            own: BTreeMap::new(),
            has_own: false,
            own_wishes: 0,
            used: 0,
            store: None,
            hot: None,
            table_names: HashMap::new(),
            for_child: HashMap::new(),
            released: Vec::new(),
            has_large: false,
            left: None,
            gone: BTreeSet::new(),
            files: BTreeSet::new(),
            has_stale: false,
            refusals: 0,
            refused: false,
            has_lost: false,
        }
    }
    /// Others take the Frames of an object away.
    pub fn object_revoke(&mut self, object: u32) {
        self.kernel.borrow_mut().object_revoke(object);
        self.gone.insert(object);
        self.has_stale = true;
    }
    /// The processor notes that a page was used that a table shows.
    pub fn note_use(&mut self, page: u64) {
        let Some((table, _)) = self.upper.get(&(page >> 9)) else { return };
        let entry = (page & 511) as u32;
        let is_shown = self.kernel.borrow().tables[table].entries.contains_key(&entry);
        if let (Some(store), true) = (&mut self.store, is_shown) {
            store.used.insert((*table, entry));
        }
    }
    /// Is there memory for another object?
    fn spend(&mut self) -> Result<(), NoMemory> {
        match &mut self.left {
            None => Ok(()),
            Some(0) => Err(NoMemory),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
    /// Is the next thing refused?
    fn ask(&mut self) -> Result<(), Refused> {
        let refuses = self.refusals & 1 != 0;
        self.refusals >>= 1;
        self.refused |= refuses;
        self.has_lost |= refuses;
        if refuses {
            Err(Refused)
        } else {
            Ok(())
        }
    }
    /// Of `count` things to be done: as many as are, and whether they are all.
    fn part(&mut self, count: u32) -> (u32, Result<(), Refused>) {
        match self.ask() {
            Ok(()) => (count, Ok(())),
            refused => (self.refusals.count_ones() % count, refused),
        }
    }
    /// Pages that are writable, and of which others have capabilities.
    pub fn exposed(&self) -> Vec<u64> {
        let pages = self.present_pages().into_iter();
        let is_exposed = |page: &u64| match self.look_up(*page, Access::Write) {
            Some(Target::Anon(anon)) => !self.kernel.borrow().is_alone(anon),
            _ => false,
        };
        pages.filter(is_exposed).collect()
    }
    /// What the library does when a fork has failed.
    pub fn fork_failed(&mut self) {
        let mut kernel = self.kernel.borrow_mut();
        self.for_child.drain().for_each(|(_, node)| kernel.node_unref(node));
    }
    /// What the slots of a CNode hold: pages, or Mappings.
    pub fn contents(&self, node: CNode) -> BTreeMap<u32, Held> {
        let kernel = self.kernel.borrow();
        let held = |cap: &Cap| match *cap {
            Cap::Page(page) => Held::Page(page),
            Cap::Mapping(id) => {
                let Mapping { table, first, .. } = kernel.mappings[&id];
                match kernel.tables[&table].entries[&first].target {
                    Target::Anon(page) => Held::Mapping(page),
                    other => panic!("a Mapping of {other:?}"),
                }
            }
        };
        kernel.nodes[&self.node(node)].slots.iter().map(|(&slot, cap)| (slot, held(cap))).collect()
    }
    /// What the library does at a fork: the child has the same names for the same things, but for
    /// regions that the parent keeps.
    pub fn fork(&mut self, pmap: &Pmap) -> Process {
        let mut kernel = self.kernel.borrow_mut();
        let (mut names, mut table_names) = (self.names.clone(), self.table_names.clone());
        let mut upper = self.upper.clone();
        for (key, region) in pmap.regions().filter(|(_, region)| region.kept) {
            upper.remove(&key);
            table_names.remove(&region.table.0);
            for node in region.nodes.into_iter().flatten() {
                names.remove(&node.0);
            }
        }
        let own = std::mem::take(&mut self.for_child);
        for (name, node) in &mut names {
            match own.get(name) {
                Some(new) => *node = *new,
                None => kernel.nodes.get_mut(node).unwrap().refs += 1,
            }
        }
        for table in table_names.values() {
            kernel.tables.get_mut(table).unwrap().refs += 1;
        }
        for (key, writable) in &mut upper {
            writable.1 = false;
            self.upper.get_mut(key).unwrap().1 = false;
        }
        let own_objects = self.own.iter().map(|(&name, object)| {
            let contents = contents_of(&kernel, &self.store, *object);
            (name, kernel.add_object(contents))
        });
        Process {
            own: own_objects.collect(),
            has_own: self.has_own,
            own_wishes: self.own_wishes,
            used: self.used,
            // The child has copies of its own of all that its parent's objects have.
            store: None,
            hot: self.hot,
            kernel: self.kernel.clone(),
            names,
            next_name: self.next_name,
            upper,
            wholes: HashMap::new(),
            table_names,
            for_child: HashMap::new(),
            released: Vec::new(),
            has_large: self.has_large,
            left: None,
            gone: self.gone.clone(),
            files: self.files.clone(),
            has_stale: self.has_stale,
            refusals: self.refusals,
            refused: self.refused,
            has_lost: self.has_lost,
        }
    }
    /// A thread hides an object at a page, with all that is in it.
    pub fn hide_whole(&mut self, page: u64, object: ObjectId) {
        self.whole_at(page).is_hidden = true;
        let own = self.own[&(object.index() as u32)];
        self.kernel.borrow_mut().objects.get_mut(&own).unwrap().fill(0);
        if let Some(store) = &mut self.store {
            store.out.retain(|&(other, _), _| other != own);
        }
    }
    /// It shows it again.
    pub fn show_whole(&mut self, page: u64) {
        self.whole_at(page).is_hidden = false;
    }
    fn whole_at(&mut self, page: u64) -> &mut Whole {
        let whole = self.wholes.values_mut().find(|whole| whole.pages.start == page).unwrap();
        assert!(whole.may_hide);
        whole
    }
    /// What the hardware does.
    pub fn look_up(&self, page: u64, access: Access) -> Option<Target> {
        let kernel = self.kernel.borrow();
        let mut wholes = self.wholes.values().filter(|whole| whole.revokes == kernel.revokes);
        if let Some(whole) = wholes.find(|whole| whole.pages.contains(&page)) {
            let shown = whole.object_page + page - whole.pages.start;
            let is_there = whole.prot.allows(access)
                && shown < kernel.pages_of(whole.object)
                && !whole.is_hidden;
            return is_there.then_some(Target::Object(whole.object, shown));
        }
        let (table, writable) = self.upper.get(&(page >> 9))?;
        let entry = *kernel.tables[table].entries.get(&((page & 511) as u32))?;
        let prot = if *writable { entry.prot } else { entry.prot.read_only() };
        prot.allows(access).then_some(entry.target)
    }
    /// The same of a write, which it notes.
    pub fn look_up_written(&self, page: u64) {
        let mut kernel = self.kernel.borrow_mut();
        let Some((table, _)) = self.upper.get(&(page >> 9)) else { return };
        let table = kernel.tables.get_mut(table).unwrap();
        if let Some(entry) = table.entries.get_mut(&((page & 511) as u32)) {
            entry.written = true;
        }
    }
    /// Is a page shown by one entry with others? If so, are all pages around it that are one of 2 MiB in its object shown, as far
    /// as they are between two pages?
    pub fn is_whole(&self, page: u64, (start, end): (u64, u64)) -> Option<bool> {
        let kernel = self.kernel.borrow();
        let mut wholes = self.wholes.values().filter(|whole| whole.revokes == kernel.revokes);
        let Whole { pages, object, object_page, .. } =
            wholes.find(|whole| whole.pages.contains(&page))?;
        let end_of_all = kernel.pages_of(*object);
        let shown = object_page + page - pages.start;
        let first = page - shown % REGION_PAGES;
        let is_all = first >= start.max(pages.start) && first + REGION_PAGES <= end.min(pages.end);
        let is_there = shown - shown % REGION_PAGES + REGION_PAGES <= end_of_all;
        (shown < end_of_all).then_some(is_all && is_there)
    }
    pub fn present_pages(&self) -> Vec<u64> {
        let kernel = self.kernel.borrow();
        let mut pages = Vec::new();
        for (region, (table, _)) in &self.upper {
            pages.extend(kernel.tables[table].entries.keys().map(|e| (region << 9) + *e as u64));
        }
        let wholes = self.wholes.values().filter(|whole| whole.revokes == kernel.revokes);
        for Whole { pages: shown, object, object_page, .. } in wholes {
            let there = kernel.pages_of(*object).saturating_sub(*object_page);
            pages.extend(shown.start..shown.end.min(shown.start + there));
        }
        pages
    }
    /// Where giants are.
    pub fn giants(&self) -> Vec<Range<u64>> {
        let is_giant = |pages: &Range<u64>| pages.end - pages.start > REGION_PAGES;
        self.wholes().into_iter().filter(is_giant).collect()
    }
    /// Where regions and giants are that one entry maps.
    pub fn wholes(&self) -> Vec<Range<u64>> {
        self.wholes.values().map(|whole| whole.pages.clone()).collect()
    }
    /// What a page of an object holds, wherever it is.
    pub fn value_of(&self, object: ObjectId, page: u64) -> u64 {
        self.value(Target::Object(self.object(object), page))
    }
    /// What a page holds, wherever it is.
    pub fn value(&self, target: Target) -> u64 {
        let store = self.store.as_ref();
        let out = match target {
            Target::Object(object, page) => store.and_then(|store| store.out.get(&(object, page))),
            _ => None,
        };
        out.copied().unwrap_or_else(|| self.kernel.borrow().value(target))
    }
    /// Whoever uses a page that one entry shows with others waits until it is there.
    pub fn come_in(&mut self, target: Target) {
        if let Target::Object(object, page) = target {
            self.bring(object, page..page + 1);
        }
    }
    /// What has left of these pages comes in.
    fn bring(&mut self, object: u32, pages: Range<u64>) {
        let Some(store) = &mut self.store else { return };
        let mut kernel = self.kernel.borrow_mut();
        let out: Vec<u64> = store
            .out
            .range((object, pages.start)..(object, pages.end))
            .map(|(at, _)| at.1)
            .collect();
        for page in out {
            let value = store.out.remove(&(object, page)).unwrap();
            kernel.set_value(Target::Object(object, page), value);
        }
    }
    /// Has anybody else the page in a slot?
    pub fn is_shared(&self, (node, slot): (CNode, u32)) -> bool {
        let kernel = self.kernel.borrow();
        match kernel.nodes[&self.node(node)].slots.get(&slot) {
            Some(Cap::Page(page)) => !kernel.is_alone(*page),
            _ => true,
        }
    }
    /// Pages that are shown may leave from now on, and lose their entries.
    pub fn hide(&mut self, on: bool) {
        if let Some(store) = &mut self.store {
            store.hides = on;
            self.has_stale = true;
        }
    }
    /// Pages of its own objects that have left memory, by the process's number of the object.
    pub fn all_out(&self) -> Vec<(ObjectId, u64)> {
        let Some(store) = &self.store else { return Vec::new() };
        let named = |&(real, page): &(u32, u64)| {
            let mut names = self.own.iter().filter(|(_, own)| **own == real);
            let name = names.next().map(|(&name, _)| name);
            (ObjectId::new(name.expect("out of an object that has gone")), page)
        };
        store.out.keys().map(named).collect()
    }
    /// What the pages of an object of its own hold.
    pub fn contents_of(&self, object: ObjectId) -> Vec<u64> {
        contents_of(&self.kernel.borrow(), &self.store, self.object(object))
    }
    /// A part of a file, in memory, as an object of its own, at the same pages of it.
    pub fn adopt(&mut self, contents: Vec<u64>) -> ObjectId {
        let object = self.kernel.borrow_mut().add_object(contents);
        self.name_own(object)
    }
    fn name_own(&mut self, object: u32) -> ObjectId {
        let name = self.own.keys().next_back().map_or(OWN, |last| last + 1);
        self.own.insert(name, object);
        // The name may be that of one that was released in the same step.
        self.released.retain(|released| *released != ObjectId::new(name));
        ObjectId::new(name)
    }
    /// The kernel's number of an object.
    fn object(&self, object: ObjectId) -> u32 {
        let name = object.index() as u32;
        self.own.get(&name).copied().unwrap_or(name)
    }
    fn node(&self, node: CNode) -> u32 {
        self.names[&node.0]
    }
    fn only(&self, node: CNode) {
        let kernel = self.kernel.borrow();
        assert_eq!(kernel.nodes[&self.node(node)].refs, 1, "change of a shared CNode");
    }
    fn own_table(&self, table: Table) -> u32 {
        let table = self.table_names[&table.0];
        assert_eq!(self.kernel.borrow().tables[&table].refs, 1, "change of a shared table");
        table
    }
    /// The Mapping in a slot, unless it was taken away.
    fn mapping(&self, (node, slot): (CNode, u32)) -> Result<u32, Refused> {
        match self.kernel.borrow().nodes[&self.node(node)].slots.get(&slot) {
            Some(Cap::Mapping(id)) => Ok(*id),
            None => Err(Refused),
            other => panic!("slot {slot} holds {other:?}, not a Mapping"),
        }
    }
    fn new_page(&self, node: u32, slot: u32, value: u64) {
        let mut kernel = self.kernel.borrow_mut();
        let page = kernel.id();
        kernel.pages.insert(page, (1, value));
        kernel.put(node, slot, Cap::Page(page));
    }
    fn set_rights(
        &self,
        mapping: (CNode, u32),
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), Refused> {
        assert_ne!(prot, Prot::NONE);
        let id = self.mapping(mapping)?;
        let mut kernel = self.kernel.borrow_mut();
        let Mapping { table, first: base, count: len } = kernel.mappings[&id].clone();
        assert!(first + count <= len);
        let mut changed = Vec::new();
        let table = kernel.tables.get_mut(&table).unwrap();
        for at in base + first..base + first + count {
            let entry = table.entries.get_mut(&at).unwrap();
            entry.prot = prot;
            changed.push(entry.target);
        }
        changed.into_iter().for_each(|target| kernel.check_writable(target, prot));
        Ok(())
    }
    fn enter(
        &self,
        (table, first): (u32, u32),
        targets: &[Target],
        slot: (CNode, u32),
        prot: Prot,
    ) {
        assert_ne!(prot, Prot::NONE);
        let node = self.node(slot.0);
        let mut kernel = self.kernel.borrow_mut();
        let id = kernel.id();
        kernel.mappings.insert(id, Mapping { table, first, count: targets.len() as u32 });
        for (n, &target) in targets.iter().enumerate() {
            kernel.check_writable(target, prot);
            let table = kernel.tables.get_mut(&table).unwrap();
            let old =
                table.entries.insert(first + n as u32, Entry { target, prot, written: false });
            assert!(old.is_none_or(|old| old.target == Target::Zero), "entry in use");
        }
        kernel.put(node, slot.1, Cap::Mapping(id));
    }
}

/// What a process that was killed has left: its capabilities go one after the other, in no
/// certain order, while others run.
pub struct Remains {
    kernel: Rc<RefCell<Kernel>>,
    nodes: Vec<u32>,
    tables: Vec<u32>,
}

impl Remains {
    /// Of a process.
    pub fn of(process: Process) -> Remains {
        let Process { kernel, names, table_names, own, .. } = process;
        own.values().for_each(|own| drop(kernel.borrow_mut().objects.remove(own)));
        let sorted = |map: HashMap<u32, u32>| {
            let mut all: Vec<u32> = map.into_values().collect();
            all.sort();
            all
        };
        Remains { kernel, nodes: sorted(names), tables: sorted(table_names) }
    }
    /// Drops one capability. Answers whether any was left.
    pub fn shrink(&mut self, pick: usize) -> bool {
        let all = self.nodes.len() + self.tables.len();
        if all == 0 {
            return false;
        }
        let (mut kernel, pick) = (self.kernel.borrow_mut(), pick % all);
        match pick.checked_sub(self.nodes.len()) {
            None => kernel.node_unref(self.nodes.remove(pick)),
            Some(table) => kernel.table_unref(self.tables.remove(table)),
        }
        true
    }
}

impl Backend for Process {
    fn cnode_new(&mut self) -> Result<CNode, NoMemory> {
        self.spend()?;
        let mut kernel = self.kernel.borrow_mut();
        let node = kernel.id();
        kernel.nodes.insert(node, Node { refs: 1, slots: BTreeMap::new() });
        self.next_name += 1;
        self.names.insert(self.next_name, node);
        Ok(CNode(self.next_name))
    }
    fn cnode_drop(&mut self, node: CNode) -> Result<(), Refused> {
        self.ask()?;
        let object = self.names.remove(&node.0).unwrap();
        self.kernel.borrow_mut().node_unref(object);
        Ok(())
    }
    fn cnode_shared(&mut self, node: CNode) -> bool {
        self.kernel.borrow().nodes[&self.node(node)].refs > 1
    }
    fn slots_copy(&mut self, from: CNode, to: CNode, lo: u32, n: u32) -> Result<(), NoMemory> {
        self.only(to);
        for slot in lo..lo + n {
            let cap = self.kernel.borrow().nodes[&self.node(from)].slots.get(&slot).copied();
            if cap.is_some() {
                self.slot_copy((from, slot), (to, slot))?;
            }
        }
        Ok(())
    }
    fn slots_drop(&mut self, node: CNode, first: u32, count: u32) -> Result<(), Refused> {
        self.only(node);
        assert!(count > 0 && first + count <= 256);
        let (count, result) = self.part(count);
        let node = self.node(node);
        let mut kernel = self.kernel.borrow_mut();
        for slot in first..first + count {
            if let Some(cap) = kernel.nodes.get_mut(&node).unwrap().slots.remove(&slot) {
                kernel.cap_delete(cap);
            }
        }
        result
    }
    fn slot_move(&mut self, from: (CNode, u32), to: (CNode, u32)) -> Result<(), Refused> {
        self.only(from.0);
        self.only(to.0);
        self.ask()?;
        let (source, target) = (self.node(from.0), self.node(to.0));
        let mut kernel = self.kernel.borrow_mut();
        let Some(cap) = kernel.nodes.get_mut(&source).unwrap().slots.remove(&from.1) else {
            assert!(self.has_lost, "nothing to move");
            return Err(Refused);
        };
        kernel.put(target, to.1, cap);
        Ok(())
    }
    fn slot_copy(&mut self, from: (CNode, u32), to: (CNode, u32)) -> Result<(), NoMemory> {
        let (source, target) = (self.node(from.0), self.node(to.0));
        let mut kernel = self.kernel.borrow_mut();
        match kernel.nodes[&source].slots[&from.1] {
            Cap::Page(page) => kernel.pages.get_mut(&page).unwrap().0 += 1,
            Cap::Mapping(_) => panic!("copy of a Mapping"),
        }
        let cap = kernel.nodes[&source].slots[&from.1];
        kernel.put(target, to.1, cap);
        Ok(())
    }
    fn pages_zero(&mut self, to: CNode, first: u32, count: u32) -> Result<(), NoMemory> {
        self.only(to);
        if self.left.is_some_and(|left| left < count) {
            return Err(NoMemory);
        }
        (0..count).try_for_each(|_| self.spend())?;
        (first..first + count).for_each(|slot| self.new_page(self.node(to), slot, 0));
        Ok(())
    }
    fn page_copy(&mut self, node: CNode, slot: u32) -> Result<bool, NoMemory> {
        self.only(node);
        let object = self.node(node);
        let value = {
            let kernel = self.kernel.borrow();
            let Some(&cap) = kernel.nodes[&object].slots.get(&slot) else {
                assert!(self.has_lost, "no page to copy");
                return Err(NoMemory);
            };
            let Cap::Page(page) = cap else { panic!("a Mapping") };
            let (refs, value) = kernel.pages[&page];
            if refs == 1 {
                return Ok(false);
            }
            drop(kernel);
            self.spend()?;
            let mut kernel = self.kernel.borrow_mut();
            kernel.page_copies += 1;
            kernel.nodes.get_mut(&object).unwrap().slots.remove(&slot);
            kernel.cap_delete(Cap::Page(page));
            value
        };
        self.new_page(object, slot, value);
        Ok(true)
    }
    fn page_copy_object(
        &mut self,
        extent: &Extent,
        page: u64,
        to: CNode,
        slot: u32,
    ) -> Result<(), ObjectError> {
        self.only(to);
        self.spend()?;
        if self.gone.contains(&(extent.frame as u32)) {
            return Err(ObjectError::Gone);
        }
        assert!(page >= extent.first && page < extent.first + extent.pages);
        let value = self.kernel.borrow().value(Target::Object(extent.frame as u32, page));
        self.new_page(self.node(to), slot, value);
        Ok(())
    }
    fn table_new(&mut self, region: u64) -> Result<Table, NoMemory> {
        self.spend()?;
        let mut kernel = self.kernel.borrow_mut();
        let table = kernel.id();
        kernel.tables.insert(table, TableObject { refs: 1, entries: BTreeMap::new() });
        self.next_name += 1;
        self.table_names.insert(self.next_name, table);
        assert!(self.upper.insert(region, (table, true)).is_none());
        Ok(Table(self.next_name))
    }
    fn table_drop(&mut self, region: u64, table: Table) -> Result<(), Refused> {
        self.ask()?;
        let object = self.table_names.remove(&table.0).unwrap();
        assert_eq!(self.upper.remove(&region).unwrap().0, object);
        self.kernel.borrow_mut().table_unref(object);
        Ok(())
    }
    fn table_shared(&mut self, table: Table) -> bool {
        self.kernel.borrow().tables[&self.table_names[&table.0]].refs > 1
    }
    fn table_writable(&mut self, region: u64, table: Table) -> Result<(), Refused> {
        self.ask()?;
        let table = self.own_table(table);
        self.upper.get_mut(&region).unwrap().1 = true;
        let mut kernel = self.kernel.borrow_mut();
        for entry in kernel.tables.get_mut(&table).unwrap().entries.values_mut() {
            if let Target::Anon(_) = entry.target {
                entry.prot = entry.prot.read_only();
            }
        }
        Ok(())
    }
    fn zeros_show(
        &mut self,
        table: Table,
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), NoMemory> {
        assert!(count > 0 && first + count <= 512 && !prot.has(Prot::WRITE));
        let table = self.own_table(table);
        let mut kernel = self.kernel.borrow_mut();
        let entries = &mut kernel.tables.get_mut(&table).unwrap().entries;
        for at in first..first + count {
            entries.entry(at).or_insert(Entry { target: Target::Zero, prot, written: false });
        }
        Ok(())
    }
    fn zeros_hide(&mut self, table: Table, first: u32, count: u32) -> Result<(), Refused> {
        let table = self.own_table(table);
        self.ask()?;
        let mut kernel = self.kernel.borrow_mut();
        let entries = &mut kernel.tables.get_mut(&table).unwrap().entries;
        let gone = first..first + count;
        entries.retain(|at, entry| !gone.contains(at) || entry.target != Target::Zero);
        Ok(())
    }
    fn map_pages(
        &mut self,
        (table, first): (Table, u32),
        count: u32,
        (pages, from): (CNode, u32),
        (mappings, to): (CNode, u32),
        prot: Prot,
    ) -> Result<(), NoMemory> {
        let table = self.own_table(table);
        self.only(mappings);
        assert!(from.max(to) + count <= 256 && first / 256 == (first + count - 1) / 256);
        let is_there =
            |slot| self.kernel.borrow().nodes[&self.node(pages)].slots.contains_key(&slot);
        if self.has_lost && !(from..from + count).all(is_there) {
            return Err(NoMemory);
        }
        for n in 0..count {
            let cap = self.kernel.borrow().nodes[&self.node(pages)].slots.get(&(from + n)).copied();
            let Some(Cap::Page(page)) = cap else { panic!("no page in slot {}", from + n) };
            self.enter((table, first + n), &[Target::Anon(page)], (mappings, to + n), prot);
        }
        Ok(())
    }
    fn replace(
        &mut self,
        mapping: (CNode, u32),
        page: (CNode, u32),
        prot: Prot,
    ) -> Result<bool, Refused> {
        self.only(mapping.0);
        self.ask()?;
        let id = self.mapping(mapping)?;
        let pages = self.node(page.0);
        let mut kernel = self.kernel.borrow_mut();
        let Cap::Page(page) = kernel.nodes[&pages].slots[&page.1] else { panic!("no page") };
        let Mapping { table, first, count } = kernel.mappings[&id].clone();
        assert_eq!(count, 1);
        let entry = Entry { target: Target::Anon(page), prot, written: false };
        kernel.check_writable(entry.target, prot);
        kernel.tables.get_mut(&table).unwrap().entries.insert(first, entry);
        Ok(true)
    }
    fn map_extent(
        &mut self,
        (table, half): (Table, u32),
        first: u32,
        count: u32,
        extent: &Extent,
        page: u64,
        mappings: CNode,
        prot: Prot,
    ) -> Result<(), ObjectError> {
        let table = self.own_table(table);
        self.only(mappings);
        if self.gone.contains(&(extent.frame as u32)) {
            return Err(ObjectError::Gone);
        }
        assert!(count > 0 && first + count <= 256);
        assert!(page >= extent.first && page + count as u64 <= extent.first + extent.pages);
        let targets: Vec<Target> =
            (0..count as u64).map(|n| Target::Object(extent.frame as u32, page + n)).collect();
        // Who maps what has left waits until it is there again.
        self.bring(extent.frame as u32, page..page + count as u64);
        self.enter((table, half * 256 + first), &targets, (mappings, first), prot);
        Ok(())
    }
    fn protect(
        &mut self,
        mappings: CNode,
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), Refused> {
        self.only(mappings);
        let (count, result) = self.part(count);
        let node = self.node(mappings);
        let slots = self.kernel.borrow().nodes[&node].slots.clone();
        for slot in first..first + count {
            if let Some(Cap::Mapping(id)) = slots.get(&slot) {
                let len = self.kernel.borrow().mappings[id].count;
                self.set_rights((mappings, slot), 0, len, prot)?;
            }
        }
        result
    }
    fn protect_exclusive(
        &mut self,
        mappings: CNode,
        first: u32,
        count: u32,
    ) -> Result<(), Refused> {
        self.only(mappings);
        let (count, result) = self.part(count);
        let node = self.node(mappings);
        let mut kernel = self.kernel.borrow_mut();
        for slot in first..first + count {
            if let Some(Cap::Mapping(id)) = kernel.nodes[&node].slots.get(&slot).copied() {
                let Mapping { table, first, count } = kernel.mappings[&id].clone();
                for at in first..first + count {
                    let target = kernel.tables[&table].entries[&at].target;
                    let shared = match target {
                        Target::Anon(page) => !kernel.is_alone(page),
                        Target::Object(..) | Target::Zero => true,
                    };
                    let prot = if shared { Prot::READ } else { Prot(3) };
                    let table = kernel.tables.get_mut(&table).unwrap();
                    table.entries.get_mut(&at).unwrap().prot = prot;
                }
            }
        }
        result
    }
    fn protect_part(
        &mut self,
        mapping: (CNode, u32),
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), Refused> {
        self.ask()?;
        self.set_rights(mapping, first, count, prot)
    }
    fn unmap_part(
        &mut self,
        mapping: (CNode, u32),
        first: u32,
        count: u32,
        len: u32,
    ) -> Result<(), Refused> {
        let id = self.mapping(mapping)?;
        let old = self.kernel.borrow().mappings[&id].clone();
        assert_eq!(old.count, len);
        assert!(count > 0 && count < len && first + count <= len);
        self.ask()?;
        let node = self.node(mapping.0);
        let mut kernel = self.kernel.borrow_mut();
        for at in old.first + first..old.first + first + count {
            kernel.tables.get_mut(&old.table).unwrap().entries.remove(&at).unwrap();
        }
        kernel.mappings.remove(&id);
        kernel.nodes.get_mut(&node).unwrap().slots.remove(&mapping.1);
        let parts = [(old.first, first), (old.first + first + count, len - first - count)];
        for (first, count) in parts.into_iter().filter(|part| part.1 > 0) {
            let id = kernel.id();
            kernel.mappings.insert(id, Mapping { table: old.table, first, count });
            kernel.put(node, first % 256, Cap::Mapping(id));
        }
        Ok(())
    }
    fn entries_written(&mut self, table: Table) -> Bits<8> {
        let kernel = self.kernel.borrow();
        let mut written = Bits::FULL;
        let entries = &kernel.tables[&self.table_names[&table.0]].entries;
        let clean = entries.iter().filter(|(_, entry)| !entry.written);
        clean.for_each(|(&at, _)| written.clear_range(at, at + 1));
        written
    }
    fn entries_clean(&mut self, table: Table) -> Result<(), Refused> {
        self.own_table(table);
        self.ask()?;
        let name = self.table_names[&table.0];
        let mut kernel = self.kernel.borrow_mut();
        let table = kernel.tables.get_mut(&name).unwrap();
        assert_eq!(table.refs, 1, "bits of another process, too");
        table.entries.values_mut().for_each(|entry| entry.written = false);
        Ok(())
    }
    /// Every fourth entry, others each time.
    fn entries_used(&mut self, table: Table, first: u32, count: u32) -> u64 {
        let real = self.own_table(table);
        if let Some(store) = &mut self.store {
            let take = |n: u32| u64::from(store.used.remove(&(real, first + n))) << n;
            return (0..count).map(take).sum();
        }
        if let Some(hot) = self.hot {
            return if first == hot { u64::MAX >> (64 - count) } else { 0 };
        }
        self.used = self.used.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(first.into());
        match self.used >> 33 & 3 {
            0 => u64::MAX >> (64 - count),
            _ => 0,
        }
    }
    fn page_shared(&mut self, page: (CNode, u32)) -> bool {
        self.is_shared(page)
    }
    fn page_aside(
        &mut self,
        (node, slot): (CNode, u32),
        object: ObjectId,
        to: u64,
    ) -> Result<(), NoMemory> {
        self.spend()?;
        let own = self.own[&(object.index() as u32)];
        let mut kernel = self.kernel.borrow_mut();
        let Some(&Cap::Page(page)) = kernel.nodes[&self.node(node)].slots.get(&slot) else {
            assert!(self.has_lost, "no page to move");
            return Err(NoMemory);
        };
        let writable = kernel.mappings.values().any(|m| {
            let entry = kernel.tables[&m.table].entries[&m.first];
            entry.target == Target::Anon(page) && self.table_names.values().any(|t| *t == m.table)
        });
        assert!(!writable, "a page is copied that the program can use");
        let is_out = self.store.as_ref().is_some_and(|store| store.out.contains_key(&(own, to)));
        assert!(!is_out, "a page goes aside to where one has left memory");
        let value = kernel.pages[&page].1;
        kernel.objects.get_mut(&own).unwrap()[to as usize] = value;
        Ok(())
    }
    fn whole_new(
        &mut self,
        shown: Shown,
        extent: &Extent,
        page: u64,
        prot: Prot,
    ) -> Result<Table, ObjectError> {
        let object = extent.frame as u32;
        let is_file = object == WHOLE || (PASSED..OWN).contains(&object);
        assert!(is_file || self.own.values().any(|&own| own == object));
        if self.has_large && matches!(shown, Shown::Region(_)) {
            return Err(ObjectError::NoPage);
        }
        self.spend()?;
        let pages = pages_of(shown);
        assert_eq!(page % (pages.end - pages.start), 0, "no such part");
        let is_in_the_way = |key: u64| pages.contains(&(key * REGION_PAGES));
        assert!(!self.upper.keys().any(|&key| is_in_the_way(key)), "a table is there");
        let overlaps =
            |whole: &Whole| whole.pages.start < pages.end && pages.start < whole.pages.end;
        assert!(!self.wholes.values().any(overlaps), "mapped already");
        self.next_name += 1;
        let revokes = self.kernel.borrow().revokes;
        let (may_hide, is_hidden) = (false, false);
        let object_page = page;
        let whole = Whole { revokes, pages, object, object_page, prot, may_hide, is_hidden };
        self.wholes.insert(self.next_name, whole);
        Ok(Table(self.next_name))
    }
    fn whole_drop(&mut self, shown: Shown, entry: Table) -> Result<(), Refused> {
        self.ask()?;
        assert_eq!(self.wholes.remove(&entry.0).unwrap().pages, pages_of(shown));
        Ok(())
    }
    fn whole_allow_hiding(&mut self, entry: Table, allow: bool) -> Result<(), Refused> {
        self.ask()?;
        let whole = self.wholes.get_mut(&entry.0).unwrap();
        assert!(whole.may_hide != allow);
        (whole.may_hide, whole.is_hidden) = (allow, false);
        Ok(())
    }
    fn whole_is_lost(&self, entry: Table) -> bool {
        self.wholes[&entry.0].revokes != self.kernel.borrow().revokes
    }
    fn touch(&mut self, addr: u64, access: Access) -> bool {
        let target = self.look_up(addr / PAGE, access);
        target.into_iter().for_each(|target| self.come_in(target));
        target.is_some()
    }
    fn child_node(&mut self, node: CNode) -> Result<(), NoMemory> {
        self.spend()?;
        let mut kernel = self.kernel.borrow_mut();
        let new = kernel.id();
        kernel.nodes.insert(new, Node { refs: 1, slots: BTreeMap::new() });
        self.for_child.insert(node.0, new);
        Ok(())
    }
    fn child_slots(&mut self, node: CNode, first: u32, count: u32) -> Result<(), NoMemory> {
        let (from, to) = (self.node(node), self.for_child[&node.0]);
        let mut kernel = self.kernel.borrow_mut();
        for slot in first..first + count {
            let Some(&cap) = kernel.nodes[&from].slots.get(&slot) else {
                assert!(self.has_lost, "no page");
                continue;
            };
            let Cap::Page(page) = cap else { panic!("a Mapping") };
            kernel.pages.get_mut(&page).unwrap().0 += 1;
            kernel.put(to, slot, Cap::Page(page));
        }
        Ok(())
    }
    fn not_inherited(&mut self, table: Table, nodes: [Option<CNode>; 2]) {
        assert!(!self.table_names.contains_key(&table.0));
        assert!(nodes.into_iter().flatten().all(|node| !self.names.contains_key(&node.0)));
    }
    fn object_extent(&mut self, object: ObjectId, page: u64) -> Result<Extent, ObjectError> {
        let pages = self.object_pages(object);
        if page >= pages {
            return Err(ObjectError::NoPage);
        }
        // Extents of uneven sizes.
        let (first, len) = if page < 40 { (0, 40) } else { (page / 128 * 128, 128) };
        let first = first.max(if page < 40 { 0 } else { 40 });
        let behind = if page < 40 { len } else { page / 128 * 128 + 128 };
        let pages = pages.min(behind) - first;
        Ok(Extent { frame: self.object(object).into(), frame_page: first, first, pages })
    }
    fn object_whole(
        &mut self,
        object: ObjectId,
        page: u64,
        until: u64,
    ) -> Result<Option<Extent>, ObjectError> {
        let mut kernel = self.kernel.borrow_mut();
        if object.index() as u32 == WHOLE && until >= kernel.pages_of(WHOLE) {
            kernel.until = Some(kernel.until.map_or(until, |old| old.min(until)));
        }
        drop(kernel);
        match object.index() as u32 {
            WHOLE | PASSED.. => self.object_extent(object, page).map(Some),
            _ => Ok(None),
        }
    }
    fn object_pages(&self, object: ObjectId) -> u64 {
        self.kernel.borrow().pages_of(self.object(object))
    }
    fn object_own(&mut self, pages: u64, _large: bool) -> Option<ObjectId> {
        self.own_wishes += 1;
        // Both kinds of memory are to be met.
        if !self.has_own || self.own_wishes.is_multiple_of(3) || self.spend().is_err() {
            return None;
        }
        let object = self.kernel.borrow_mut().add_object(vec![0; pages as usize]);
        Some(self.name_own(object))
    }
    fn object_grow(&mut self, object: ObjectId, pages: u64, _last: u64) -> bool {
        let Some(own) = self.own.get(&(object.index() as u32)).copied() else { return false };
        if self.spend().is_err() {
            return false;
        }
        let mut kernel = self.kernel.borrow_mut();
        kernel.objects.get_mut(&own).unwrap().resize(pages as usize, 0);
        true
    }
    fn object_punch(&mut self, object: ObjectId, page: u64, pages: u64) -> bool {
        let Some(own) = self.own.get(&(object.index() as u32)).copied() else { return false };
        if self.ask().is_err() {
            return false;
        }
        let mut kernel = self.kernel.borrow_mut();
        kernel.objects.get_mut(&own).unwrap()[page as usize..][..pages as usize].fill(0);
        if let Some(store) = &mut self.store {
            store.out.retain(|&(other, at), _| other != own || !(page..page + pages).contains(&at));
        }
        true
    }
    /// All that an object has is there, and all of it is made of large pages as far as there is room for them.
    fn object_there(&self, object: ObjectId, page: u64, pages: u64) -> There {
        let end = self.object_pages(object).min(page + pages);
        let real = self.object(object);
        let out = self
            .store
            .as_ref()
            .map_or(0, |store| store.out.range((real, page)..(real, end.max(page))).count() as u64);
        if out > 0 {
            return There { pages: end - page - out, large: 0, out };
        }
        let (first, last) =
            (page.next_multiple_of(REGION_PAGES), end / REGION_PAGES * REGION_PAGES);
        There { pages: end.saturating_sub(page), large: last.saturating_sub(first), out: 0 }
    }
    fn pages_can_leave(&mut self) -> bool {
        self.store.is_some()
    }
    fn object_page_out(&mut self, object: ObjectId, page: u64, pages: u64) {
        let real = self.object(object);
        let end = self.object_pages(object).min(page + pages);
        let is_own = self.own.values().any(|&own| own == real);
        let Some(store) = self.store.as_mut().filter(|_| is_own) else { return };
        if store.hides {
            self.kernel.borrow_mut().pages_revoke(real, page..end);
        }
        let mut kernel = self.kernel.borrow_mut();
        for table in self.upper.values().map(|(table, _)| table) {
            let shown = |entry: &Entry| match entry.target {
                Target::Object(object, at) => object == real && (page..end).contains(&at),
                _ => false,
            };
            assert!(!kernel.tables[table].entries.values().any(shown), "shown still");
        }
        let contents = kernel.objects.get_mut(&real).unwrap();
        for at in page..end {
            store
                .out
                .entry((real, at))
                .or_insert_with(|| std::mem::replace(&mut contents[at as usize], LEFT));
        }
        store.log.push((page, Moved::Out));
    }
    fn object_page_in(&mut self, object: ObjectId, page: u64) -> bool {
        let real = self.object(object);
        let Some(store) = &mut self.store else { return false };
        store.log.push((page, Moved::In));
        let value = store.out.remove(&(real, page));
        let target = Target::Object(real, page);
        value.map(|value| self.kernel.borrow_mut().set_value(target, value)).is_some()
    }
    fn object_run(&mut self, object: ObjectId, page: u64, pages: u64) -> (u64, bool) {
        match self.object_pages(object) {
            end if page < end => (pages.min(end - page), true),
            _ => (pages, false),
        }
    }
    fn object_is_memory(&self, object: ObjectId) -> bool {
        object.index().is_multiple_of(2)
    }
    fn object_forget(&mut self, object: ObjectId, _: u64) {
        self.gone.remove(&(object.index() as u32));
    }
    fn object_release(&mut self, object: ObjectId) {
        if let Some(own) = self.own.remove(&(object.index() as u32)) {
            self.kernel.borrow_mut().objects.remove(&own);
            if let Some(store) = &mut self.store {
                store.out.retain(|&(other, _), _| other != own);
            }
        }
        self.files.remove(&(object.index() as u32));
        self.released.push(object);
    }
}
