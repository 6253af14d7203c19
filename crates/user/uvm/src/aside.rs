//! Small private memory that makes room: its pages go aside, into an object of the process's own, which can leave memory.
//!
//! Anons are Frames, and these stay where they are. Pages of objects do not ([own](crate::own)). So where memory is short, the contents
//! of anons are copied to an object, a piece of neighbours at a time, and the Frames are given back; from then on the piece is an
//! entry with that object as large memory is, and what fork, `mremap`, `madvise` and the rest do with it is what they do with
//! that. Nothing comes back as an anon: it is shown where it is.
//!
//! There is one such object for each 512 GiB of addresses, and a page of it for each page there: neighbours that went
//! aside one after the other are one entry.
//!
//! Unless [a policy says otherwise](crate::victims), a hand goes round. A piece that was used since the hand was there last is left alone once more (second chance). What another
//! process has, too, after a fork goes last: its Frames are free only when nobody has them.

use crate::amap::split;
use crate::apart::goes_apart;
use crate::backend::{Backend, ObjectId};
use crate::bits::Bits;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{Error, NoMemory, PAGE};

/// Pages of such an object.
const AREA: u64 = 1 << 27;
/// Most of these objects. Programs have their memory in two or three such parts of the address space.
const OBJECTS: usize = 4;
/// Pages that go aside together.
pub const PIECE: u64 = 64;

/// What is aside, and how it goes on.
#[derive(Clone, Copy)]
pub(crate) struct Aside {
    objects: [Option<Area>; OBJECTS],
    /// The page that is looked at next.
    hand: u64,
    /// Pages of objects may be at other addresses than those that they were made for.
    moved: bool,
}

/// A part of the address space, and what of it is aside.
#[derive(Clone, Copy)]
struct Area {
    number: u64,
    object: ObjectId,
    /// Pages that are there one by one: no entry leads to them.
    held: u64,
}

/// How a round of the hand chooses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// What was not used.
    Unused,
    /// What nobody else has.
    Alone,
    /// Anything.
    All,
}

impl Aside {
    pub(crate) const NONE: Aside = Aside { objects: [None; OBJECTS], hand: 0, moved: false };

    fn area_of(&mut self, object: ObjectId) -> Option<&mut Area> {
        self.objects.iter_mut().flatten().find(|area| area.object == object)
    }

    /// The object that a page of the address space goes to, and its page there, if there is one.
    pub(crate) fn known(&self, page: u64) -> Option<(ObjectId, u64)> {
        let area = self.objects.iter().flatten().find(|area| area.number == page / AREA)?;
        Some((area.object, page % AREA))
    }

    /// All objects.
    pub(crate) fn all(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.objects.iter().flatten().map(|area| area.object)
    }

    /// Has an object pages that no entry leads to?
    #[inline]
    pub(crate) fn holds(&self, object: ObjectId) -> bool {
        self.objects.iter().flatten().any(|area| area.object == object && area.held > 0)
    }

    /// It has so many more.
    pub(crate) fn hold(&mut self, object: ObjectId, pages: u64) {
        if let Some(area) = self.area_of(object) {
            area.held += pages;
        }
    }

    /// It has so many fewer.
    pub(crate) fn let_go(&mut self, object: ObjectId, pages: u64) {
        if let Some(area) = self.area_of(object) {
            area.held = area.held.saturating_sub(pages);
        }
    }

    /// Pages of an object are shown elsewhere from now on.
    pub(crate) fn note_move(&mut self) {
        self.moved = true;
    }
}

/// May an entry go aside as a whole? Not what grows downward ([one by one](crate::apart) its pages may), and not what is to stay.
pub(crate) fn may_go(entry: &Entry) -> bool {
    let stays = [Flags::SHARED, Flags::GROWS_DOWN, Flags::LOCKED, Flags::LARGE_PAGES, Flags::OWN];
    let stays = stays.into_iter().fold(Flags(0), Flags::or);
    entry.object.is_none() && !entry.flags.has_any(stays)
}

impl Space {
    /// Moves at least `wanted` pages aside, if there are so many that may, and there is room for them. What other processes have, too, only if
    /// `shared`. Answers how many went.
    pub fn relieve(&mut self, b: &mut impl Backend, wanted: u64, shared: bool) -> u64 {
        if self.pmap.drop_condemned(b).is_err() {
            return 0;
        }
        if let Some(mut victims) = self.victims.take() {
            let gone = self.relieve_by(b, &mut victims, wanted, shared);
            self.victims = Some(victims);
            return gone;
        }
        let mut gone = 0;
        let rounds = [Round::Unused, Round::Alone, Round::All];
        for &round in &rounds[..if shared { 3 } else { 2 }] {
            let from = self.aside.hand;
            for (first, last) in [(from, u64::MAX), (0, from)] {
                let mut at = first;
                while let Some(page) = self.next_anon(at).filter(|&page| page < last) {
                    if gone >= wanted {
                        return gone;
                    }
                    at = (page / PIECE + 1) * PIECE;
                    self.aside.hand = at;
                    let piece = (page / PIECE * PIECE, at);
                    if self.relieve_piece(b, piece, round, &mut gone).is_err() {
                        // Nor is there room for others.
                        return gone;
                    }
                }
            }
        }
        gone
    }

    /// What may go of pages `start..end`, which are of one chunk. Adds to `gone` how many went.
    pub(crate) fn relieve_piece(
        &mut self,
        b: &mut impl Backend,
        (start, end): (u64, u64),
        round: Round,
        gone: &mut u64,
    ) -> Result<(), NoMemory> {
        let mut at = start;
        while at < end {
            let Some(entry) = self.map.within(at, end).next() else { break };
            at = entry.end;
            let anons = self.anons_of(&entry);
            let (whole, apart) = (may_go(&entry), goes_apart(&entry));
            let stays = !whole && !apart
                || anons.is_empty()
                || round == Round::Unused && self.was_used(b, &entry, &anons)
                || round != Round::All && self.has_shared(b, entry.start >> 8, &anons);
            if !stays {
                *gone += match apart {
                    true => self.move_apart(b, &entry)?,
                    false => self.move_aside(b, &entry)?,
                };
            }
        }
        Ok(())
    }

    /// The anons of an entry inside one chunk.
    pub(crate) fn anons_of(&self, entry: &Entry) -> Bits<4> {
        let (key, lo) = split(entry.start);
        let chunk = self.amap.chunk(key);
        chunk.map_or(Bits::EMPTY, |chunk| chunk.filled.within(lo, lo + entry.pages() as u32))
    }

    /// Was any of these anons used since this was asked last?
    pub(crate) fn was_used(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        anons: &Bits<4>,
    ) -> bool {
        let (key, first) = (entry.start >> 9, (entry.start & 511) as u32);
        // Of a table that others have, too, nobody can tell who used it.
        let Some(region) = self.pmap.region(key).filter(|region| !region.shared) else {
            return false;
        };
        let used = b.entries_used(region.table, first, entry.pages() as u32);
        let slot = (entry.start & 255) as u32;
        (0..entry.pages() as u32).any(|n| used >> n & 1 != 0 && anons.get(slot + n))
    }

    /// Has another process one of these anons?
    fn has_shared(&mut self, b: &mut impl Backend, key: u64, anons: &Bits<4>) -> bool {
        if self.amap.still_shared(b, key) {
            return true;
        }
        let Some(chunk) = self.amap.chunk(key) else { return false };
        let mut doubtful = chunk.aliased.and(anons).runs().flat_map(|(lo, hi)| lo..hi);
        doubtful.any(|slot| match self.amap.run(key, slot, slot + 1) {
            Some((place, _)) => b.page_shared((place.node, place.slot)),
            None => true,
        })
    }

    /// All of a range goes aside, whoever has it, too.
    ///
    /// # Errors
    ///
    /// There is no room; some may have gone.
    pub(crate) fn move_all_aside(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), Error> {
        let mut at = start;
        while at < end {
            let behind = end.min((at / PIECE + 1) * PIECE);
            let Some(entry) = self.map.within(at, behind).next() else { return Ok(()) };
            if may_go(&entry) {
                self.move_aside(b, &entry)?;
            }
            at = entry.end;
        }
        Ok(())
    }

    /// Anons of a range that nobody else has go aside, and leave memory. It is advice: what cannot stays.
    pub(crate) fn page_out_aside(&mut self, b: &mut impl Backend, start: u64, end: u64) {
        if self.pmap.drop_condemned(b).is_err() {
            return;
        }
        let mut at = start;
        while let Some(page) = self.next_anon(at).filter(|&page| page < end) {
            at = (page / PIECE + 1) * PIECE;
            let piece = (page.max(start), at.min(end));
            if self.relieve_piece(b, piece, Round::Alone, &mut 0).is_err() {
                break;
            }
        }
        let mut at = start;
        while at < end {
            let Some(entry) = self.map.within(at, end).next() else { break };
            at = entry.end;
            if let (Some(object), true) = (entry.object, entry.flags.has(Flags::OWN)) {
                b.object_page_out(object, entry.object_page(entry.start), entry.pages());
            } else if goes_apart(&entry) {
                self.send_apart_out(b, entry.start, entry.end);
            }
        }
    }

    /// Pages of an entry inside one chunk, with or without anons, become those of the object. Answers how many anons went.
    ///
    /// # Errors
    ///
    /// There is no room: all is as it was.
    fn move_aside(&mut self, b: &mut impl Backend, entry: &Entry) -> Result<u64, NoMemory> {
        let (object, page) = self.aside_of(b, entry.start)?;
        let moved = self.move_into(b, entry, object, page);
        if moved.is_err() {
            self.drop_aside(b, object);
        }
        moved
    }

    fn move_into(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
    ) -> Result<u64, NoMemory> {
        let &Entry { start, end, .. } = entry;
        let (region, (key, lo)) = (start >> 9, split(start));
        let hi = lo + entry.pages() as u32;
        if self.is_moved_there(object, page, entry.pages()) {
            return Ok(0);
        }
        b.object_whole(object, page, u64::MAX).ok().flatten().ok_or(NoMemory)?;
        let there = b.object_there(object, page, entry.pages());
        // What could not be taken out when it was unmapped.
        if there.pages + there.out > 0 && !b.object_punch(object, page, entry.pages()) {
            return Err(NoMemory);
        }
        self.map.isolate(start, end)?;
        let copied = self.copy_aside(b, entry, object, page);
        let given = copied.and_then(|anons| {
            self.map.give_object(start, object, page, Flags::OWN)?;
            Ok(anons)
        });
        if let Ok(1..) = given {
            // Nothing maps them. Those that cannot be deleted take memory until the process ends.
            let _ = self.amap.free(b, key, lo, hi);
        }
        self.map.join(start, end);
        if given.is_ok() {
            // They have gone, whatever becomes of a table that shows nothing any more.
            let _ = self.pmap.drop_if_empty(b, region);
        }
        given
    }

    /// Copies anons, which nobody can write to meanwhile. Answers how many there are.
    fn copy_aside(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
    ) -> Result<u64, NoMemory> {
        self.discard_tables(b, entry.start, entry.end)?;
        let anons = self.anons_of(entry);
        let (key, first) = split(entry.start);
        for slot in anons.runs().flat_map(|(lo, hi)| lo..hi) {
            let (place, _) = self.amap.run(key, slot, slot + 1).ok_or(NoMemory)?;
            let to = page + u64::from(slot - first);
            if let Err(error) = b.page_aside((place.node, place.slot), object, to) {
                // What is left of them is looked for the next time.
                b.object_punch(object, page, entry.pages());
                return Err(error);
            }
        }
        Ok(anons.count().into())
    }

    /// Are pages of an object mapped already, where `mremap` has put them?
    pub(crate) fn is_moved_there(&self, object: ObjectId, page: u64, pages: u64) -> bool {
        self.aside.moved && self.is_elsewhere(object, page, pages)
    }

    fn is_elsewhere(&self, object: ObjectId, page: u64, pages: u64) -> bool {
        let has = |entry: &Entry| {
            entry.object == Some(object)
                && entry.offset < page + pages
                && page < entry.offset + entry.pages()
        };
        self.map.entries().any(has)
    }

    /// The object that a page of the address space goes to, and its page there.
    pub(crate) fn aside_of(
        &mut self,
        b: &mut impl Backend,
        page: u64,
    ) -> Result<(ObjectId, u64), NoMemory> {
        if let Some(known) = self.aside.known(page) {
            return Ok(known);
        }
        let number = page / AREA;
        let free = self.aside.objects.iter().position(Option::is_none).ok_or(NoMemory)?;
        let pages = AREA.min(self.high - number * AREA);
        let object = b.object_aside(pages).ok_or(NoMemory)?;
        self.aside.objects[free] = Some(Area { number, object, held: 0 });
        Ok((object, page % AREA))
    }

    /// An object is no more.
    pub(crate) fn forget_aside(&mut self, object: ObjectId) {
        for place in &mut self.aside.objects {
            if place.is_some_and(|area| area.object == object) {
                *place = None;
            }
        }
    }

    /// Bytes of anons: what can go aside is not more.
    pub fn small_bytes(&self) -> u64 {
        self.amap.pages() * PAGE
    }
}
