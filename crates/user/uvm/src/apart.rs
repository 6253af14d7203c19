//! Anons that go [aside](crate::aside) one by one, beneath an entry that stays what it is: copies of pages of files, and stacks.
//!
//! What comes from a file goes on to be a mapping of that file: what was not written to is shown from there, and what is given up is so
//! again. What grows downward goes on to grow. So such an entry cannot become one with an object of the process's own, page by page of which
//! something has left. Instead it is noted for each page that its contents are in that object, where the address says.
//! It is a third state of a page, beside having an anon and having none: a fault shows the page of the object, and others choose
//! when it leaves memory. Only where it is to stay, or to move, an anon is made of it again. Whoever has no such pages looks whether there are any, and
//! no more.

use crate::amap::split;
use crate::aside::{Aside, PIECE};
use crate::backend::{Backend, ObjectError, ObjectId};
use crate::bits::Bits;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{Access, FaultError, NoMemory, CHUNK_PAGES};

/// How often an object is asked again for what others have taken away meanwhile.
const TRIES: u32 = 100;
/// Pages that come back together at most: as many as come in from the disk.
const TOGETHER: u32 = 8;

/// May pages of an entry go aside one by one?
pub(crate) fn goes_apart(entry: &Entry) -> bool {
    let stays = [Flags::SHARED, Flags::LOCKED, Flags::LARGE_PAGES, Flags::OWN, Flags::LENT];
    let stays = stays.into_iter().fold(Flags(0), Flags::or);
    let is_such = entry.object.is_some() || entry.flags.has(Flags::GROWS_DOWN);
    is_such && !entry.flags.has_any(stays)
}

impl Space {
    /// Which pages of a chunk are apart.
    #[inline]
    pub(crate) fn apart_of(&self, key: u64) -> Bits<4> {
        match self.apart.is_empty() {
            true => Bits::EMPTY,
            false => self.apart.get(key).copied().unwrap_or(Bits::EMPTY),
        }
    }

    /// Is a page apart?
    #[inline]
    pub(crate) fn is_apart(&self, page: u64) -> bool {
        let (key, slot) = split(page);
        self.apart_of(key).get(slot)
    }

    /// How many pages of a range are apart: those in memory, and those that have left it.
    pub(crate) fn count_apart(&self, b: &impl Backend, start: u64, end: u64) -> (u64, u64) {
        let mut all = (0, 0);
        self.each_apart(start, end, |object, page, _, pages| {
            let there = b.object_there(object, page, pages);
            all.0 += there.pages;
            all.1 += there.out;
        });
        all
    }

    /// Tells of the runs of pages of a range that are apart: the object, its page, the page of the address space, and how many.
    fn each_apart(&self, start: u64, end: u64, mut tell: impl FnMut(ObjectId, u64, u64, u64)) {
        let mut at = start >> 8;
        while let Some(key) = self.apart.next_key(at).filter(|&key| key << 8 < end) {
            let (lo, hi) = (start.max(key << 8), end.min((key + 1) << 8));
            let (lo, hi) = (lo - (key << 8), hi - (key << 8));
            for (first, behind) in self.apart_of(key).within(lo as u32, hi as u32).runs() {
                let page = (key << 8) + u64::from(first);
                if let Some((object, there)) = self.aside.known(page) {
                    tell(object, there, page, u64::from(behind - first));
                }
            }
            at = key + 1;
        }
    }

    /// The first page of a range that is apart.
    pub(crate) fn next_apart(&self, start: u64, end: u64) -> Option<u64> {
        let mut at = start;
        while let Some(key) = self.apart.next_key(at >> 8).filter(|&key| key << 8 < end) {
            at = at.max(key << 8);
            let slot = self.apart_of(key).next_set((at & 255) as u32);
            if slot < CHUNK_PAGES as u32 {
                return Some((key << 8) + u64::from(slot)).filter(|&page| page < end);
            }
            at = (key + 1) << 8;
        }
        None
    }

    /// Anons of a part of an entry that is inside one chunk go aside. Answers how many.
    ///
    /// # Errors
    ///
    /// There is no room: all is as it was.
    pub(crate) fn move_apart(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
    ) -> Result<u64, NoMemory> {
        let (object, page) = self.aside_of(b, entry.start)?;
        let moved = self.move_each(b, entry, object, page);
        if moved.is_err() {
            self.drop_aside(b, object);
        }
        moved
    }

    fn move_each(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
    ) -> Result<u64, NoMemory> {
        if self.is_moved_there(object, page, entry.pages()) {
            return Ok(0);
        }
        b.object_whole(object, page, u64::MAX).ok().flatten().ok_or(NoMemory)?;
        let (key, first) = split(entry.start);
        let anons = self.anons_of(entry);
        let to = |slot: u32| page + u64::from(slot - first);
        for (lo, hi) in anons.runs() {
            // Nobody writes meanwhile. What the file shows beside them stays.
            let start = (key << 8) + u64::from(lo);
            self.discard_tables(b, start, start + u64::from(hi - lo))?;
            let there = b.object_there(object, to(lo), (hi - lo).into());
            // What could not be taken out when it was given up.
            if there.pages + there.out > 0 && !b.object_punch(object, to(lo), (hi - lo).into()) {
                return Err(NoMemory);
            }
        }
        let copied = anons.runs().flat_map(|(lo, hi)| lo..hi).try_for_each(|slot| {
            let (place, _) = self.amap.run(key, slot, slot + 1).ok_or(NoMemory)?;
            b.page_aside((place.node, place.slot), object, to(slot))
        });
        let all = self.apart_of(key).or(&anons);
        let noted = copied.and_then(|()| self.apart.insert(key, all));
        if let Err(error) = noted {
            for (lo, hi) in anons.runs() {
                // What is left of them is looked for the next time.
                b.object_punch(object, to(lo), (hi - lo).into());
            }
            return Err(error);
        }
        self.aside.hold(object, anons.count().into());
        // Nothing maps them. Those that cannot be deleted take memory until the process ends.
        let _ = self.amap.free(b, key, first, first + entry.pages() as u32);
        let _ = self.pmap.drop_if_empty(b, entry.start >> 9);
        Ok(anons.count().into())
    }

    /// Pages of a range that are apart leave memory.
    pub(crate) fn send_apart_out(&self, b: &mut impl Backend, start: u64, end: u64) {
        self.each_apart(start, end, |object, page, _, pages| {
            b.object_page_out(object, page, pages)
        });
    }

    /// What of an entry may be shown together with a page that is not apart, or made beside it: nothing that is.
    pub(crate) fn beside_apart(&self, entry: &Entry, page: u64) -> Entry {
        let (key, slot) = split(page);
        let apart = self.apart_of(key);
        if apart.is_empty() {
            return *entry;
        }
        let base = key << 8;
        let first = apart.prev_set(slot).map_or(base, |before| base + u64::from(before) + 1);
        let behind = base + u64::from(apart.next_set(slot));
        entry.part(entry.start.max(first), entry.end.min(behind))
    }

    /// A fault where pages of the process are apart.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault_beside_apart(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
        access: Access,
    ) -> Result<(), FaultError> {
        if self.is_apart(page) {
            if !entry.flags.has(Flags::LOCKED) {
                return self.show_apart(b, entry, page);
            }
            self.bring_back(b, entry, page)?;
        }
        let beside = self.beside_apart(entry, page);
        self.fault_private(b, &beside, page, access)
    }

    /// Shows a page that is apart, with those around it, where it is.
    fn show_apart(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
    ) -> Result<(), FaultError> {
        let (key, slot) = split(page);
        let run = self.apart_of(key).runs().find(|&(lo, hi)| (lo..hi).contains(&slot));
        let ((lo, hi), Some((object, at))) = (run.unwrap_or_default(), self.aside.known(page))
        else {
            return Err(FaultError::NoMemory);
        };
        let start = entry.start.max((key << 8) + u64::from(lo));
        let end = entry.end.min((key << 8) + u64::from(hi));
        let offset = at - (page - start);
        let shown = Entry { start, end, offset, object: Some(object), ..*entry };
        match self.map_object(b, &shown, object, page, entry.prot) {
            // The object has all pages: there is no memory for this one, unless the store has lost it.
            Err(FaultError::NoPage) if !b.object_is_lost(object, at) => Err(FaultError::NoMemory),
            shown => shown,
        }
    }

    /// A fork comes: the child inherits tables, in which nothing of this may be.
    #[cold]
    pub(crate) fn hide_apart(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        let mut at = 0;
        while let Some(page) = self.next_apart(at, u64::MAX) {
            let (key, slot) = split(page);
            at = (key << 8) + u64::from(self.apart_of(key).next_clear(slot));
            self.take_tables(b, page, at)?;
        }
        Ok(())
    }

    /// Makes an anon of a page that is apart, which is to stay or to be elsewhere; and of some behind it, which are in memory.
    fn bring_back(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
    ) -> Result<(), FaultError> {
        let (key, slot) = split(page);
        let run = self.apart_of(key).next_clear(slot);
        let (object, at) = self.aside.known(page).ok_or(FaultError::NoMemory)?;
        let most = (run - slot).min(TOGETHER).min((entry.end - page).min(256) as u32);
        self.discard_tables(b, page, page + u64::from(most))?;
        self.copy_back(b, object, at, page)?;
        let mut count = 1;
        // The others are there already, or are left where they are.
        while count < most
            && b.object_there(object, at + u64::from(count), 1).out == 0
            && self.copy_back_one(b, object, at + u64::from(count), page + u64::from(count)).is_ok()
        {
            count += 1;
        }
        let mut back = Bits::EMPTY;
        back.set_range(slot, slot + count);
        b.object_punch(object, at, count.into());
        self.forget_apart(b, key, &back);
        Ok(())
    }

    fn copy_back(
        &mut self,
        b: &mut impl Backend,
        object: ObjectId,
        at: u64,
        page: u64,
    ) -> Result<(), FaultError> {
        for _ in 0..TRIES {
            Self::come_in(b, object, at)?;
            match self.copy_back_one(b, object, at, page) {
                // Somebody has had it leave again.
                Err(_) if b.object_there(object, at, 1).out > 0 => {}
                Err(ObjectError::Gone) => b.object_forget(object, at),
                copied => return Ok(copied?),
            }
        }
        Err(FaultError::NoMemory)
    }

    fn copy_back_one(
        &mut self,
        b: &mut impl Backend,
        object: ObjectId,
        at: u64,
        page: u64,
    ) -> Result<(), ObjectError> {
        let (key, slot) = split(page);
        let extent = b.object_whole(object, at, u64::MAX)?.ok_or(ObjectError::NoMemory)?;
        let (place, _) = self.room(b, page, 1)?;
        b.page_copy_object(&extent, at, place.node, place.slot)?;
        self.amap.fill(key, slot, slot + 1, &place);
        Ok(())
    }

    /// Pages of a range that are apart and [locked](Space::set_locked) have anons again, which stay. Where there is no memory for it they come back when they
    /// are used.
    pub fn keep_apart(&mut self, b: &mut impl Backend, start: u64, end: u64) {
        let mut at = start;
        while let Some(page) = self.next_apart(at, end) {
            let Some(entry) = self.map.within(page, end).next() else { return };
            at = entry.end;
            if entry.flags.has(Flags::LOCKED) && self.bring_all_back(b, page, entry.end).is_err() {
                return;
            }
        }
    }

    /// All pages of a range that are apart have anons again.
    ///
    /// # Errors
    ///
    /// There is no memory, or the store does not give one back (`NoPage`); some have come back.
    pub(crate) fn bring_all_back(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), FaultError> {
        while let Some(page) = self.next_apart(start, end) {
            let entry = self.map.within(page, end).next().ok_or(FaultError::NoMemory)?;
            self.bring_back(b, &entry, page)?;
        }
        Ok(())
    }

    /// Pages of a range that are apart are given up.
    #[cold]
    #[inline(never)]
    pub(crate) fn discard_apart(&mut self, b: &mut impl Backend, start: u64, end: u64) {
        self.each_apart(start, end, |object, page, _, pages| {
            // What is left takes memory as long as the object is there, but is never seen again.
            b.object_punch(object, page, pages);
        });
        let mut at = start >> 8;
        while let Some(key) = self.apart.next_key(at).filter(|&key| key << 8 < end) {
            let (lo, hi) = (start.max(key << 8), end.min((key + 1) << 8));
            let (lo, hi) = (lo - (key << 8), hi - (key << 8));
            let going = self.apart_of(key).within(lo as u32, hi as u32);
            self.forget_apart(b, key, &going);
            at = key + 1;
        }
    }

    /// Pages of a chunk are apart no more.
    fn forget_apart(&mut self, b: &mut impl Backend, key: u64, going: &Bits<4>) {
        if going.is_empty() {
            return;
        }
        let Some(apart) = self.apart.get_mut(key) else { return };
        *apart = apart.minus(going);
        if apart.is_empty() {
            self.apart.remove(key);
        }
        if let Some((object, _)) = self.aside.known(key << 8) {
            self.aside.let_go(object, going.count().into());
            self.drop_aside(b, object);
        }
    }

    /// An object into which pages go aside goes, unless there is something in it.
    pub(crate) fn drop_aside(&mut self, b: &mut impl Backend, object: ObjectId) {
        if !self.map.uses(object) && !self.map.will_tell(object) && !self.aside.holds(object) {
            self.forget_aside(object);
            b.object_release(object);
        }
    }

    /// All memory is given up.
    pub(crate) fn clear_apart(&mut self, b: &mut impl Backend) {
        self.apart.clear();
        let objects = core::mem::replace(&mut self.aside, Aside::NONE);
        for object in objects.all() {
            self.drop_aside(b, object);
        }
    }
}

const _: () = assert!(CHUNK_PAGES >= PIECE);
