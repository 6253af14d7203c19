//! The map: what the program has mapped where, as ordered entries that never overlap (UVM §3.1).
//!
//! Addresses are page numbers. Neighbours that could be one entry are one entry. Every operation takes
//! O(log n) steps, and one for each entry that it changes.

use crate::backend::ObjectId;
use crate::types::{NoMemory, Prot, REGION_PAGES};
use alloc::vec::Vec;
use tables::{Item, Iter, Place, Ranges};

/// Properties of an entry. A set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// Stores go to the object (`MAP_SHARED`); otherwise, but for [`OWN`](Flags::OWN), they go to the amap.
    pub const SHARED: Flags = Flags(1);
    /// Grows downward when touched below its start.
    pub const GROWS_DOWN: Flags = Flags(2);
    /// `MAP_NORESERVE`.
    pub const NO_RESERVE: Flags = Flags(4);
    /// `MADV_DONTFORK`.
    pub const DONT_FORK: Flags = Flags(8);
    /// `MADV_WIPEONFORK`.
    pub const WIPE_ON_FORK: Flags = Flags(16);
    /// `mlock`.
    pub const LOCKED: Flags = Flags(32);
    /// Never writable: a shared mapping of a file that was opened for reading.
    pub const NEVER_WRITE: Flags = Flags(64);
    /// The main stack (it is named so in `maps`).
    pub const STACK: Flags = Flags(128);
    /// `MAP_HUGETLB`: begins, ends and is cut only where pages of 2 MiB do.
    pub const LARGE_PAGES: Flags = Flags(256);
    /// `MADV_HUGEPAGE`.
    pub const WANTS_LARGE: Flags = Flags(512);
    /// `MADV_NOHUGEPAGE`.
    pub const WANTS_SMALL: Flags = Flags(1024);
    /// Private memory that is an object of the process's own: stores go there, and nobody else has it.
    pub const OWN: Flags = Flags(2048);
    /// Addresses that are lent to a thread: what is there, that one knows ([`Space::lend`](crate::Space::lend)).
    pub const LENT: Flags = Flags(4096);
    /// Pages of which a thread changes the rights: what they are, that one knows ([`Space::lend_rights`](crate::Space::lend_rights)).
    pub const RIGHTS_LENT: Flags = Flags(8192);
    /// Stores go to the object, whoever has it.
    pub const DIRECT: Flags = Flags::SHARED.or(Flags::OWN);

    /// The flags in either.
    pub const fn or(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// The flags of `self` that are not in `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
    /// Is any of `other` set?
    pub const fn has_any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
    /// Are all of `other` set?
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Consecutive pages with equal properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First page.
    pub start: u64,
    /// First page behind.
    pub end: u64,
    /// Page of the object that is at `start`.
    pub offset: u64,
    /// What the pages without an anon come from; zeroes if none.
    pub object: Option<ObjectId>,
    /// What the program may do.
    pub prot: Prot,
    /// Properties.
    pub flags: Flags,
}

impl Entry {
    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.end - self.start
    }
    /// Page of the object that is at `page`.
    pub fn object_page(&self, page: u64) -> u64 {
        self.offset + (page - self.start)
    }
    /// Has it ends inside pages that it has as large ones?
    #[inline]
    pub fn cuts_large(&self) -> bool {
        self.flags.has(Flags::LARGE_PAGES) && !(self.start | self.end).is_multiple_of(REGION_PAGES)
    }
    /// Private and without an object: only anons are ever mapped in it.
    pub fn is_pure_anonymous(&self) -> bool {
        self.object.is_none()
    }
    /// Are stores stores to the object?
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.flags.has_any(Flags::DIRECT)
    }
    /// Is it, for the program, private memory that comes from nowhere?
    pub fn is_private_anonymous(&self) -> bool {
        match self.object {
            None => !self.flags.has(Flags::SHARED),
            Some(_) => self.flags.has(Flags::OWN),
        }
    }
    pub(crate) fn part(&self, start: u64, end: u64) -> Entry {
        Entry { start, end, offset: self.offset_at(start), ..*self }
    }
    fn offset_at(&self, page: u64) -> u64 {
        if self.object.is_some() {
            self.object_page(page)
        } else {
            0
        }
    }
    /// Could `next` be one entry with `self`, in front of it?
    fn joins(&self, next: &Entry) -> bool {
        self.end == next.start
            && self.prot == next.prot
            && self.flags == next.flags
            && self.object == next.object
            && (self.object.is_none() || self.offset_at(self.end) == next.offset)
    }
}

impl Item for Entry {
    #[inline]
    fn start(&self) -> u64 {
        self.start
    }
    #[inline]
    fn end(&self) -> u64 {
        self.end
    }
}

// A process may have a million of them.
const _: () = assert!(size_of::<Entry>() == 32);

/// Most entries that a process may have: what Linux calls `vm.max_map_count`, and sets to 65,530. So
/// many fit into the library's heap however they lie in the tree.
pub const MAX_ENTRIES: usize = 2 << 20;
/// Pages kept free below an entry that grows downward.
pub const GUARD_PAGES: u64 = 256;

/// Who maps an object.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Users {
    /// How many entries do.
    count: u32,
    /// Is it in the list of those that were mapped no more?
    is_listed: bool,
    /// The next in that list.
    next: Option<ObjectId>,
}

/// The ordered entries.
#[derive(Clone, Default)]
pub struct Map {
    entries: Ranges<Entry>,
    /// Pages mapped, those that are lent included.
    pages: u64,
    /// Pages lent.
    lent: u64,
    /// How each object is mapped.
    users: Vec<Users>,
    /// The last object that was mapped no more, since somebody asked.
    unused: Option<ObjectId>,
    /// Flags that entries have had, ever.
    seen: Flags,
    /// Where the search for free space began the last time: mostly, it begins there again.
    top: Place,
}

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The first page that was mapped, and the first behind the last.
    pub first: u64,
    pub last: u64,
    /// Were all entries pure anonymous ones?
    pub pure: bool,
}

/// Looking.
impl Map {
    /// No entries.
    pub const fn new() -> Self {
        let (pages, lent, unused, seen, top) = (0, 0, None, Flags(0), Place::NONE);
        Map { entries: Ranges::new(), pages, lent, users: Vec::new(), unused, seen, top }
    }
    /// All entries, by address.
    pub fn entries(&self) -> Iter<'_, Entry> {
        self.entries.iter()
    }
    /// Entries that end behind `page`, by address.
    pub fn entries_from(&self, page: u64) -> Iter<'_, Entry> {
        self.entries.iter_from(self.entries.seek(page))
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }
    /// The entry that holds `page`.
    #[inline]
    pub fn find(&mut self, page: u64) -> Option<&Entry> {
        self.entries.find(page)
    }
    /// The same, without a thought of the next search.
    pub fn at(&self, page: u64) -> Option<&Entry> {
        self.entries.get(self.entries.seek(page)).filter(|entry| entry.start <= page)
    }
    /// The first entry that ends behind `page`, and the one in front of it.
    pub fn around(&self, page: u64) -> (Option<&Entry>, Option<&Entry>) {
        let place = self.entries.seek(page);
        let before = self.entries.before(place).and_then(|before| self.entries.get(before));
        (before, self.entries.get(place))
    }
    /// The first entry that ends behind `page`, and its place, which is good until the map changes.
    #[inline]
    pub fn first_from(&self, page: u64) -> Option<(Place, &Entry)> {
        let place = self.entries.seek(page);
        Some((place, self.entries.get(place)?))
    }
    /// Entries that overlap `start..end`, cut to it.
    #[inline]
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Entry> + '_ {
        self.entries
            .iter_from(self.entries.seek(start))
            .take_while(move |entry| entry.start < end)
            .map(move |entry| entry.part(entry.start.max(start), entry.end.min(end)))
    }
    /// Is nothing mapped in `start..end`?
    #[inline]
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.entries.get(self.entries.seek(start)).is_none_or(|entry| entry.start >= end)
    }
    /// Is every page of `start..end` mapped?
    pub fn is_covered(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        for entry in self.within(start, end) {
            if entry.start != at {
                return false;
            }
            at = entry.end;
        }
        at >= end
    }
    /// Would `start..end` cut a large page in two?
    #[inline]
    pub fn cuts_large(&self, start: u64, end: u64) -> bool {
        self.may_have(Flags::LARGE_PAGES) && self.within(start, end).any(|part| part.cuts_large())
    }
    /// How many entries map `object`.
    #[inline]
    pub fn users(&self, object: ObjectId) -> u32 {
        self.users.get(object.index()).map_or(0, |users| users.count)
    }
    /// Does any entry map `object`?
    #[inline]
    pub fn uses(&self, object: ObjectId) -> bool {
        self.users(object) > 0
    }
    /// May some entry have one of these flags?
    #[inline]
    pub fn may_have(&self, flags: Flags) -> bool {
        self.seen.has_any(flags)
    }
    /// Entries that a change to `start..end` could add: one for each end inside an entry.
    #[inline]
    pub fn splits(&self, start: u64, end: u64) -> usize {
        let inside = |page: u64| {
            self.entries.get(self.entries.seek(page)).is_some_and(|entry| entry.start < page)
        };
        inside(start) as usize + inside(end) as usize
    }
    /// Is there room for `more` entries?
    #[inline]
    pub fn has_room(&self, more: usize) -> bool {
        self.entries.len() + more <= MAX_ENTRIES
    }
    /// Pages mapped.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.pages - self.lent
    }

    /// The highest free place for `pages` pages in `low..high`, with the guard distance kept from
    /// entries that grow downward.
    #[inline]
    pub fn highest_gap(&mut self, pages: u64, low: u64, high: u64) -> Option<u64> {
        let place = self.top(high);
        let fits = |bottom: u64, top: u64| {
            top.checked_sub(pages).filter(|&start| start >= bottom.max(low))
        };
        let [before, next, _] = self.entries.around(place);
        let top = next.map_or(high, |next| high.min(guarded_start(next)));
        fits(before.map_or(0, Entry::end), top).or_else(|| {
            let fits = |before, next: &Entry| fits(before, guarded_start(next));
            self.entries.last_gap(place, low, pages, fits)
        })
    }

    /// The place of the first entry that starts at or behind `high`.
    #[inline]
    fn top(&mut self, high: u64) -> Place {
        if let [Some(before), Some(next), _] = self.entries.around(self.top) {
            if before.start < high && next.start >= high {
                return self.top;
            }
        }
        self.top = self.entries.seek_start(high);
        self.top
    }

    /// May `start..end` be taken as a hint: free, and not in anybody's guard distance?
    #[inline]
    pub fn is_free_with_guard(&self, start: u64, end: u64) -> bool {
        let next = self.entries.get(self.entries.seek(start));
        next.is_none_or(|next| guarded_start(next) >= end)
    }

    /// Are entries ordered, not empty, disjoint and joined, and are the counts right?
    pub fn validate(&self) {
        let mut before: Option<&Entry> = None;
        let (mut pages, mut lent, mut users) = (0, 0, Vec::new());
        users.resize(self.users.len(), 0);
        let counts: Vec<u32> = self.users.iter().map(|users| users.count).collect();
        for entry in self.entries() {
            assert!(entry.start < entry.end, "an empty entry {entry:?}");
            if let Some(before) = before {
                assert!(before.end <= entry.start, "overlap {before:?} {entry:?}");
                let are_lent = before.flags.has(Flags::LENT) && entry.flags.has(Flags::LENT);
                assert!(are_lent || !before.joins(entry), "not joined {before:?} {entry:?}");
            }
            pages += entry.pages();
            lent += if entry.flags.has(Flags::LENT) { entry.pages() } else { 0 };
            entry.object.into_iter().for_each(|object| users[object.index()] += 1);
            assert!(self.seen.has(entry.flags));
            before = Some(entry);
        }
        assert_eq!((pages, lent, users), (self.pages, self.lent, counts));
    }
}

/// Changing. What fails for lack of memory has changed nothing.
impl Map {
    /// Adds an entry in free space, joined with its neighbours if they are alike.
    #[inline]
    pub fn insert(&mut self, entry: Entry) -> Result<(), NoMemory> {
        let place = self.entries.seek(entry.start);
        let [before, next, _] = self.entries.around(place);
        let joins_before = before.is_some_and(|before| before.joins(&entry));
        let joins_next = next.is_some_and(|next| entry.joins(next));
        let (pages, flags) = (entry.pages(), entry.flags);
        match (joins_before, joins_next) {
            (false, false) => drop(self.enter(place, entry)?),
            _ => self.fuse(place, entry, joins_before, joins_next),
        }
        self.pages += pages;
        self.seen = self.seen.or(flags);
        Ok(())
    }

    /// Makes one entry of what is in front of a place, as far as `joins_before` says so, an entry that
    /// lies there, and what is at the place.
    fn fuse(&mut self, place: Place, entry: Entry, joins_before: bool, joins_next: bool) {
        let next = self.entries.get(place).filter(|_| joins_next).copied();
        let end = next.map_or(entry.end, |next| next.end);
        match next {
            Some(next) if joins_before => {
                let place = self.absorb(place, &next);
                self.lengthen(place, end);
            }
            Some(_) => self.entries.replace(place, Entry { end, ..entry }),
            None => self.lengthen(place, end),
        }
    }

    /// Takes the entry at a place out, whose pages another one gets. Answers the place of the next.
    fn absorb(&mut self, place: Place, entry: &Entry) -> Place {
        if let Some(object) = entry.object {
            self.count_out(object);
        }
        self.entries.remove(place)
    }

    /// Sets the end of the entry in front of a place.
    fn lengthen(&mut self, place: Place, end: u64) {
        let Some(place) = self.entries.before(place) else { return };
        if let Some(&before) = self.entries.get(place) {
            self.entries.replace(place, Entry { end, ..before });
        }
    }

    /// Adds an entry in front of a place, without a look at its neighbours.
    #[inline]
    fn enter(&mut self, place: Place, entry: Entry) -> Result<Place, NoMemory> {
        if let Some(object) = entry.object {
            self.make_count(object)?;
        }
        let place = self.entries.insert_at(place, entry)?;
        if let Some(object) = entry.object {
            self.count_in(object);
        }
        Ok(place)
    }

    /// Makes room for how many entries map an object.
    #[inline]
    fn make_count(&mut self, object: ObjectId) -> Result<(), NoMemory> {
        let index = object.index();
        if index >= self.users.len() {
            self.users.try_reserve(index + 1 - self.users.len())?;
            self.users.resize(index + 1, Users::default());
        }
        Ok(())
    }

    #[inline]
    fn count_in(&mut self, object: ObjectId) {
        if let Some(users) = self.users.get_mut(object.index()) {
            users.count += 1;
        }
    }

    /// Takes the entry at a place out, with its pages. Answers the place of the next.
    #[inline]
    fn take_out(&mut self, place: Place) -> Place {
        let Some(entry) = self.entries.get(place) else { return place };
        self.pages -= entry.pages();
        if let Some(object) = entry.object {
            self.count_out(object);
        }
        self.entries.remove(place)
    }

    fn count_out(&mut self, object: ObjectId) {
        if let Some(users) = self.users.get_mut(object.index()) {
            users.count -= 1;
            if users.count == 0 {
                self.list(object);
            }
        }
    }

    /// Notes that an object is mapped no more.
    fn list(&mut self, object: ObjectId) {
        if let Some(users) = self.users.get_mut(object.index()).filter(|users| !users.is_listed) {
            (users.is_listed, users.next) = (true, self.unused);
            self.unused = Some(object);
        }
    }

    /// An object that was mapped and is not any more. Each is told once.
    #[inline]
    pub fn take_unused(&mut self) -> Option<ObjectId> {
        loop {
            let object = self.unused?;
            let users = self.users.get_mut(object.index())?;
            (users.is_listed, self.unused) = (false, users.next);
            if users.count == 0 {
                return Some(object);
            }
        }
    }

    /// Will it still be told of an object that it is mapped no more?
    pub fn will_tell(&self, object: ObjectId) -> bool {
        self.users.get(object.index()).is_some_and(|users| users.is_listed)
    }

    /// Removes everything, and tells nobody.
    pub fn abandon(&mut self) {
        self.entries.clear();
        (self.pages, self.lent, self.seen, self.unused) = (0, 0, Flags(0), None);
        self.users.clear();
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        (self.pages, self.lent, self.seen) = (0, 0, Flags(0));
        for index in 0..self.users.len() {
            if core::mem::take(&mut self.users[index].count) > 0 {
                self.list(ObjectId::new(index as u32));
            }
        }
    }

    /// Lends the addresses of pages `start..end`, which are free. What is lent to another one beside them stays an entry of its
    /// own: nothing else ever meets there that could be joined.
    pub fn lend(&mut self, start: u64, end: u64) -> Result<(), NoMemory> {
        let (prot, flags) = (Prot::NONE, Flags::LENT);
        let entry = Entry { start, end, offset: 0, object: None, prot, flags };
        self.enter(self.entries.seek(start), entry)?;
        self.pages += entry.pages();
        self.lent += entry.pages();
        self.seen = self.seen.or(flags);
        Ok(())
    }

    /// Lends the pages of the entry at `place`, which is at `start..end`, with all that is mapped there.
    pub fn lend_entry(&mut self, place: Place, (start, end): (u64, u64)) -> Result<(), NoMemory> {
        self.change_in(place, start, end, (Prot::NONE, Flags::LENT))?;
        self.lent += end - start;
        Ok(())
    }

    /// Pages that were lent from `start` on are so no more, and there is what the thread has mapped. As an entry is there
    /// already, it cannot fail.
    pub fn end_lending(&mut self, start: u64, mapped: Option<Entry>) {
        let place = self.entries.seek(start);
        let Some(&lent) = self.entries.get(place) else { return };
        debug_assert!(lent.start == start && lent.flags.has(Flags::LENT));
        self.lent -= lent.pages();
        let Some(entry) = mapped else {
            self.take_out(place);
            return;
        };
        self.pages -= lent.pages() - entry.pages();
        self.seen = self.seen.or(entry.flags);
        self.entries.replace(place, entry);
        self.join(entry.start, entry.end);
    }

    /// Splits the entry that has `page` inside it.
    fn clip(&mut self, page: u64) -> Result<(), NoMemory> {
        let place = self.entries.seek(page);
        let Some(&entry) = self.entries.get(place).filter(|entry| entry.start < page) else {
            return Ok(());
        };
        self.entries.replace(place, entry.part(entry.start, page));
        let entered = self.enter(self.entries.next(place), entry.part(page, entry.end));
        entered.map(drop).inspect_err(|_| self.entries.replace(place, entry))
    }

    /// Makes entries of their own of what is in `start..end`, so that removing it cannot fail. To be
    /// followed by that or by [`Map::join`].
    pub fn isolate(&mut self, start: u64, end: u64) -> Result<(), NoMemory> {
        self.clip(start)?;
        self.clip(end).inspect_err(|_| self.join(start, start))
    }

    /// Removes what is in `start..end`. Answers what that was, if anything.
    #[inline]
    pub fn remove(&mut self, start: u64, end: u64) -> Result<Option<Removed>, NoMemory> {
        let mut place = self.entries.seek(start);
        let Some(entry) = self.entries.get(place).filter(|entry| entry.start < end) else {
            return Ok(None);
        };
        let pure = entry.is_pure_anonymous();
        let mut removed = Removed { first: entry.start.max(start), last: entry.end.min(end), pure };
        if entry.start < start {
            place = self.cut(place, start, end)?;
        }
        while let Some(entry) = self.entries.get(place).filter(|entry| entry.start < end) {
            removed.pure &= entry.is_pure_anonymous();
            removed.last = entry.end.min(end);
            if entry.end > end {
                let rest = entry.part(end, entry.end);
                self.pages -= end - entry.start;
                self.entries.replace(place, rest);
                break;
            }
            place = self.take_out(place);
        }
        Ok(Some(removed))
    }

    /// Removes `start..end` from the entry at a place, which starts in front of that. Answers the place
    /// of the next.
    fn cut(&mut self, place: Place, start: u64, end: u64) -> Result<Place, NoMemory> {
        let Some(&entry) = self.entries.get(place) else { return Ok(place) };
        self.entries.replace(place, Entry { end: start, ..entry });
        let next = self.entries.next(place);
        if end >= entry.end {
            self.pages -= entry.end - start;
            return Ok(next);
        }
        let behind = self.enter(next, entry.part(end, entry.end));
        let behind = behind.inspect_err(|_| self.entries.replace(place, entry))?;
        self.pages -= end - start;
        Ok(behind)
    }

    /// Changes what is in `start..end`, but not where it is, and joins neighbours that have become
    /// alike.
    pub fn change(
        &mut self,
        start: u64,
        end: u64,
        mut to: impl FnMut(&mut Entry),
    ) -> Result<(), NoMemory> {
        match self.first_from(start) {
            Some((place, &entry)) if entry.start <= start && end <= entry.end => {
                let mut changed = entry;
                to(&mut changed);
                match changed == entry {
                    true => Ok(()),
                    false => self.change_in(place, start, end, (changed.prot, changed.flags)),
                }
            }
            _ => self.change_many(start, end, &mut to),
        }
    }

    /// The same inside of the entry at a place, which does not have these rights and properties.
    #[inline]
    pub fn change_in(
        &mut self,
        place: Place,
        start: u64,
        end: u64,
        (prot, flags): (Prot, Flags),
    ) -> Result<(), NoMemory> {
        self.seen = self.seen.or(flags);
        // Most entries have their neighbours in the same leaf.
        if let Some([before, entry, behind]) = self.entries.window(place) {
            let part = Entry { prot, flags, ..*entry };
            if entry.start == start && entry.end == end {
                match (before.joins(&part), part.joins(behind)) {
                    (false, false) => {
                        *entry = part;
                        return Ok(());
                    }
                    (true, true) => {
                        let (covered, last) = (before.end, behind.end);
                        let object = part.object;
                        before.end = last;
                        if self.entries.remove_two(place) {
                            object.into_iter().for_each(|object| {
                                self.count_out(object);
                                self.count_out(object);
                            });
                            return Ok(());
                        }
                        self.entries.window(place).into_iter().for_each(|at| at[0].end = covered);
                    }
                    _ => {}
                }
            }
        }
        self.change_with_care(place, start, end, (prot, flags))
    }

    fn change_with_care(
        &mut self,
        place: Place,
        start: u64,
        end: u64,
        (prot, flags): (Prot, Flags),
    ) -> Result<(), NoMemory> {
        let [before, Some(entry), behind] = self.entries.around(place) else { return Ok(()) };
        let is_whole = entry.start == start && entry.end == end;
        let part = Entry { prot, flags, ..entry.part(start, end) };
        let joins_before = before.is_some_and(|before| before.joins(&part));
        let joins_behind = behind.is_some_and(|behind| part.joins(behind));
        match (is_whole, joins_before || joins_behind) {
            (true, false) => self.entries.replace(place, part),
            (true, true) => self.change_whole(place, part, joins_before, joins_behind),
            (false, _) => return self.change_part(place, part, joins_before, joins_behind),
        }
        Ok(())
    }

    /// The entry at a place becomes another, which joins with a neighbour or both.
    fn change_whole(&mut self, place: Place, part: Entry, joins_before: bool, joins_behind: bool) {
        if joins_before {
            let next = self.absorb(place, &part);
            self.lengthen(next, part.end);
            if joins_behind {
                self.absorb_into_front(next);
            }
        } else {
            self.entries.replace(place, part);
            self.absorb_into_front(self.entries.next(place));
        }
    }

    /// The entry at a place goes to the one in front.
    fn absorb_into_front(&mut self, place: Place) {
        let Some(&entry) = self.entries.get(place) else { return };
        let next = self.absorb(place, &entry);
        self.lengthen(next, entry.end);
    }

    /// A part of the entry at a place, but not all of it, becomes another, of which is known whether it
    /// joins what is in front or behind.
    fn change_part(
        &mut self,
        place: Place,
        part: Entry,
        joins_before: bool,
        joins_behind: bool,
    ) -> Result<(), NoMemory> {
        let Some(&entry) = self.entries.get(place) else { return Ok(()) };
        if entry.start == part.start {
            self.entries.replace(place, entry.part(part.end, entry.end));
            if joins_before {
                self.lengthen(place, part.end);
                return Ok(());
            }
            let entered = self.enter(place, part);
            return entered.map(drop).inspect_err(|_| self.entries.replace(place, entry));
        }
        let next = self.entries.next(place);
        self.entries.replace(place, Entry { end: part.start, ..entry });
        if joins_behind {
            let end = self.entries.get(next).map_or(part.end, |behind| behind.end);
            self.entries.replace(next, Entry { end, ..part });
            return Ok(());
        }
        let rest = (part.end < entry.end).then(|| entry.part(part.end, entry.end));
        self.enter_parts(next, part, rest).inspect_err(|_| {
            self.entries.replace(self.entries.seek(entry.start), entry);
        })
    }

    /// Adds a part of an entry and perhaps another one behind it: both or none.
    fn enter_parts(
        &mut self,
        mut place: Place,
        part: Entry,
        rest: Option<Entry>,
    ) -> Result<(), NoMemory> {
        if let Some(rest) = rest.filter(|rest| rest.object.is_none()) {
            if self.entries.insert_two(place, [part, rest]) {
                return Ok(());
            }
            // Both at once where a leaf has to be divided for one of them, too.
            if let Some(half) = self.entries.divide(place)? {
                place = half;
                if self.entries.insert_two(place, [part, rest]) {
                    return Ok(());
                }
            }
        }
        let place = self.enter(place, part)?;
        let Some(rest) = rest else { return Ok(()) };
        let entered = self.enter(self.entries.next(place), rest);
        entered.map(drop).inspect_err(|_| {
            self.take_out(self.entries.seek(part.start));
            self.pages += part.pages();
        })
    }

    /// The same as [`Map::change`], for many entries.
    fn change_many(
        &mut self,
        start: u64,
        end: u64,
        to: &mut dyn FnMut(&mut Entry),
    ) -> Result<(), NoMemory> {
        self.isolate(start, end)?;
        let mut place = self.entries.seek(start);
        while let Some(&entry) = self.entries.get(place).filter(|entry| entry.start < end) {
            let mut changed = entry;
            to(&mut changed);
            self.seen = self.seen.or(changed.flags);
            self.entries.replace(place, changed);
            place = self.entries.next(place);
        }
        self.join(start, end);
        Ok(())
    }

    /// Joins neighbours that are alike and meet in `first..=last`.
    pub fn join(&mut self, first: u64, last: u64) {
        let mut place = self.entries.seek(first);
        loop {
            let [before, entry, _] = self.entries.around(place);
            let Some(&entry) = entry.filter(|entry| entry.start <= last) else { return };
            place = match before.is_some_and(|before| before.joins(&entry)) {
                true => {
                    let next = self.absorb(place, &entry);
                    self.lengthen(next, entry.end);
                    next
                }
                false => self.entries.next(place),
            };
        }
    }

    /// The entry that begins at `start`, which has no object, gets one: nothing else begins or ends with that.
    pub(crate) fn give_object(
        &mut self,
        start: u64,
        object: ObjectId,
        offset: u64,
        flag: Flags,
    ) -> Result<(), NoMemory> {
        let place = self.entries.seek(start);
        let Some(&entry) = self.entries.get(place).filter(|entry| entry.start == start) else {
            return Ok(());
        };
        self.make_count(object)?;
        self.count_in(object);
        let flags = entry.flags.or(flag);
        self.seen = self.seen.or(flags);
        self.entries.replace(place, Entry { object: Some(object), offset, flags, ..entry });
        Ok(())
    }

    /// Lowers the start of the entry that begins at `start`.
    pub fn grow_down(&mut self, start: u64, to: u64) {
        let place = self.entries.seek(start);
        if let Some(&entry) = self.entries.get(place).filter(|entry| entry.start == start) {
            self.entries.replace(place, Entry { start: to, ..entry });
            self.pages += start - to;
            self.join(to, to);
        }
    }
}

/// Where the distance kept below an entry begins.
fn guarded_start(entry: &Entry) -> u64 {
    if entry.flags.has(Flags::GROWS_DOWN) {
        entry.start.saturating_sub(GUARD_PAGES)
    } else {
        entry.start
    }
}
