//! A naive CPU driver: a list of slots. It does what [`CpuDriver`] says, in the plainest way.

use super::caps::{
    all_of_pool, home_cap, is_ancestor, is_container, is_copy, is_morsel, is_whole, Made, Place,
    Request, Show,
};
use crate::mutation::{Bug, Mutation};
use crate::{
    Attempt, CoreId, Cores, CpuDriver, Held, Message, Need, Outside, Progress, Region, Relations,
    WireCap,
};
use captypes::{CapType, Status};
use std::fmt;
use std::vec::Vec;

/// What is fixed in one model.
#[derive(Debug)]
pub struct Shape {
    /// The home of each page.
    pub homes: Vec<u8>,
    /// Slots of a CNode.
    pub cnode_slots: u8,
    /// Slots outside CNodes, for each core.
    pub root_slots: u8,
    /// A step now and then answers `Again`.
    pub slow: bool,
    /// The core with a pool, and how many objects are in it, each of four pages of which parts can be made.
    pub pool: Option<(u8, u8)>,
}

/// Pages of an object.
pub const OBJECT: u8 = 4;

impl Shape {
    /// All of the objects of the pool of `core`.
    pub fn objects(&self, core: u8) -> impl Iterator<Item = Made> {
        let has_pool = self.pool.is_some_and(|pool| pool.0 == core);
        self.all_objects().filter(move |_| has_pool)
    }

    /// All of each object.
    pub fn all_objects(&self) -> impl Iterator<Item = Made> {
        let count = self.pool.map_or(0, |pool| pool.1);
        let ty = CapType::Morsel as u8;
        (0..count).map(move |n| Made { ty, base: n * OBJECT, size: OBJECT })
    }

    /// All parts that an object can have.
    pub fn parts(&self) -> impl Iterator<Item = Made> {
        let pages = self.pool.map_or(0, |pool| pool.1 * OBJECT);
        let ty = CapType::Morsel as u8;
        let of = move |size: u8| (0..pages / size).map(move |n| Made { ty, base: n * size, size });
        of(2).chain(of(1))
    }

    /// The home capability of `core`; its pages are consecutive.
    pub fn home_cap(&self, core: u8) -> Option<WireCap> {
        let first = self.homes.iter().position(|&home| home == core)?;
        let size = self.homes.iter().filter(|&&home| home == core).count();
        Some(home_cap(first as u64, size as u64))
    }
}

/// What the CPU drivers share of a pool: words of memory that all see at once.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Shared {
    /// Which objects there are, by number.
    pub alive: u64,
    /// How often each was created; what is made of one has that in `aux`.
    pub lives: [u32; 4],
    /// The cores that have made objects of themselves.
    pub makers: u64,
    /// Something of an object was sent to another core, or made there.
    pub away: bool,
    /// Of this object the core of the pool has found nothing, and has opened none since.
    vacant: Option<u64>,
}

/// The number of the object of a Morsel.
pub fn object_of(cap: &WireCap) -> u64 {
    cap.base / u64::from(OBJECT)
}

impl Shared {
    pub fn is_alive(&self, cap: &WireCap) -> bool {
        self.alive & 1 << object_of(cap) != 0
    }

    /// There is such an object from now on.
    fn create(&mut self, cap: &WireCap) {
        if !self.is_alive(cap) {
            self.lives[object_of(cap) as usize] += 1;
        }
        self.alive |= 1 << object_of(cap);
    }

    /// A capability to the object that there is now.
    fn current(&self, cap: WireCap) -> WireCap {
        WireCap { aux: self.lives[object_of(&cap) as usize], ..cap }
    }

    /// Is it one to an object that is gone?
    pub fn is_stale(&self, cap: &WireCap) -> bool {
        !cap.is_all_of_pool() && (!self.is_alive(cap) || self.current(*cap) != *cap)
    }
}

/// A slot in use. A foreign copy has all hints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub place: Place,
    pub cap: WireCap,
    pub owned: bool,
    pub rc: bool,
    pub rd: bool,
    pub ra: bool,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}={:?}", self.place, Show(self.cap))?;
        let marks = [(self.owned, "o"), (self.rc, "c"), (self.rd, "d"), (self.ra, "a")];
        marks.iter().filter(|(set, _)| *set).try_for_each(|(_, mark)| write!(f, " {mark}"))
    }
}

/// The database of one core.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Database {
    pub core: u8,
    /// Sorted by place.
    pub slots: Vec<Slot>,
    pub locks: Vec<WireCap>,
    /// `RD` of the home capability.
    pub home_rd: bool,
    /// Pages that the memory server of this core has to give; bit n is page n.
    pub free: u64,
    /// Something went wrong that no state shows.
    pub wrong: Option<&'static str>,
    /// For `Shape::slow`.
    pub hesitated: bool,
    /// Containers that are being emptied; each still covers its memory.
    dying: Vec<WireCap>,
}

impl Database {
    pub fn new(core: u8, shape: &Shape) -> Self {
        let pages = shape.homes.iter().enumerate().filter(|(_, &home)| home == core);
        let free = pages.fold(0, |free, (page, _)| free | 1 << page);
        let (slots, locks, wrong) = (Vec::new(), Vec::new(), None);
        let (home_rd, hesitated, dying) = (false, false, Vec::new());
        Database { core, slots, locks, home_rd, free, wrong, hesitated, dying }
    }

    pub fn at(&self, place: Place) -> Option<&Slot> {
        let at = self.slots.binary_search_by_key(&place, |slot| slot.place).ok()?;
        Some(&self.slots[at])
    }

    pub fn put(&mut self, slot: Slot) {
        match self.slots.binary_search_by_key(&slot.place, |slot| slot.place) {
            Ok(at) => self.slots[at] = slot,
            Err(at) => self.slots.insert(at, slot),
        }
    }

    fn take(&mut self, place: Place) -> Option<Slot> {
        let at = self.slots.binary_search_by_key(&place, |slot| slot.place).ok()?;
        Some(self.slots.remove(at))
    }

    /// Is there such a slot?
    pub fn exists(&self, shape: &Shape, place: Place) -> bool {
        match place {
            Place::Root(n) => n < shape.root_slots,
            Place::In(page, n) => n < shape.cnode_slots && self.has_cnode(page),
            Place::Limbo(_) => true,
        }
    }

    /// Can clients name the CNode at `page`?
    fn has_cnode(&self, page: u8) -> bool {
        let is_it = |slot: &Slot| is_container(&slot.cap) && slot.cap.base == u64::from(page);
        let named = |slot: &Slot| !matches!(slot.place, Place::Limbo(_));
        self.slots.iter().any(|slot| slot.owned && is_it(slot) && named(slot))
    }

    fn copies<'a>(&'a self, cap: &'a WireCap) -> impl Iterator<Item = &'a Slot> {
        self.slots.iter().filter(|slot| is_copy(&slot.cap, cap))
    }

    fn has_ancestor(&self, cap: &WireCap) -> bool {
        self.slots.iter().any(|slot| is_ancestor(&slot.cap, cap))
    }

    fn is_locked(&self, cap: &WireCap) -> bool {
        self.locks.iter().any(|lock| is_copy(lock, cap) || is_ancestor(lock, cap))
    }

    fn is_covered(&self, page: u64) -> bool {
        let covers =
            |cap: &WireCap| cap.region().is_memory() && cap.base <= page && page < cap.region().end;
        self.slots.iter().any(|slot| covers(&slot.cap)) || self.dying.iter().any(covers)
    }

    pub fn release(&mut self, page: u64) {
        if self.free & 1 << page != 0 {
            self.wrong = Some("a page came home twice");
        }
        self.free |= 1 << page;
    }
}

/// One core at work: its database, and what comes out of it.
pub struct World<'a> {
    pub shape: &'a Shape,
    pub db: &'a mut Database,
    pub shared: &'a mut Shared,
    /// A deliberate bug.
    pub bug: Bug,
    pub sent: Vec<(CoreId, Message)>,
    pub finished: Vec<(u8, Result<(), Status>)>,
    /// Slots of the monitor that are to be deleted.
    pub stalled: Vec<Place>,
}

type Done = Result<(), Status>;

impl World<'_> {
    fn slot(&self, place: Place) -> Result<Slot, Status> {
        if !self.db.exists(self.shape, place) {
            return Err(Status::NoSlot);
        }
        self.db.at(place).copied().ok_or(Status::Empty)
    }

    fn empty(&self, place: Place) -> Result<(), Status> {
        match self.slot(place) {
            Err(Status::Empty) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Status::Occupied),
        }
    }

    /// The slot that a request is about, or why it cannot be.
    fn source(&self, request: &Request) -> Result<Slot, Attempt<Done>> {
        let Some(place) = request.place() else { return Ok(self.home_slot()) };
        let slot = self.slot(place).map_err(|error| Attempt::Done(Err(error)))?;
        match self.db.is_locked(&slot.cap) {
            true => Err(Attempt::Locked),
            false => Ok(slot),
        }
    }

    fn home_slot(&self) -> Slot {
        let cap = self.shape.home_cap(self.db.core).unwrap_or(home_cap(0, 0));
        let place = Place::Root(u8::MAX);
        Slot { place, cap, owned: true, rc: false, rd: self.db.home_rd, ra: false }
    }

    fn can_delete_alone(&self, slot: &Slot) -> bool {
        let last = slot.owned && self.db.copies(&slot.cap).count() == 1;
        is_morsel(&slot.cap)
            || !last
            || !slot.rc && (self.db.has_ancestor(&slot.cap) || !slot.rd && !slot.ra)
    }

    /// A Delete that concerns this core only.
    fn delete(&mut self, slot: Slot) {
        let last = slot.owned && self.db.copies(&slot.cap).count() == 1;
        self.db.take(slot.place);
        if !last || is_morsel(&slot.cap) {
            return;
        }
        self.destroy(&slot.cap);
        if slot.ra && !self.db.has_ancestor(&slot.cap) {
            // The ancestor that would have covered its memory was inside.
            return self.stall(slot);
        }
        self.reclaim(&slot.cap);
    }

    /// An object of this core has no capability any more.
    fn destroy(&mut self, cap: &WireCap) {
        if !is_container(cap) {
            return;
        }
        let inside =
            |slot: &&Slot| matches!(slot.place, Place::In(page, _) if u64::from(page) == cap.base);
        let places: Vec<Place> =
            self.db.slots.iter().filter(inside).map(|slot| slot.place).collect();
        self.db.dying.push(*cap);
        for place in places {
            self.dispose(place);
        }
        self.db.dying.pop();
    }

    /// Removes what a dying container holds.
    fn dispose(&mut self, place: Place) {
        let Some(slot) = self.db.at(place).copied() else { return };
        if !self.db.is_locked(&slot.cap) && self.can_delete_alone(&slot) {
            return self.delete(slot);
        }
        self.db.take(slot.place);
        self.stall(slot);
    }

    /// Leaves the rest to the monitor.
    fn stall(&mut self, slot: Slot) {
        let free = (0..).map(Place::Limbo).find(|&place| self.db.at(place).is_none());
        let place = free.expect("256 slots");
        self.db.put(Slot { place, ..slot });
        self.stalled.push(place);
    }

    /// Deletes copies and descendants of `cap` but for the slot `keep`.
    fn purge(&mut self, cap: &WireCap, keep: Option<Place>) {
        let related = |slot: &&Slot| is_copy(&slot.cap, cap) || is_ancestor(cap, &slot.cap);
        let goes = |slot: &&Slot| related(slot) && Some(slot.place) != keep;
        let gone: Vec<Slot> = self.db.slots.iter().filter(goes).copied().collect();
        for slot in &gone {
            self.db.take(slot.place);
        }
        for slot in gone.iter().filter(|slot| slot.owned) {
            if self.db.copies(&slot.cap).next().is_none() {
                self.destroy(&slot.cap);
            }
        }
    }

    fn change_copies(&mut self, cap: &WireCap, change: impl Fn(&mut Slot)) {
        self.db.slots.iter_mut().filter(|slot| is_copy(&slot.cap, cap)).for_each(change);
    }

    fn make(&mut self, source: &Slot, cap: WireCap, dst: Place) -> Done {
        self.empty(dst)?;
        if self.in_use(&source.cap, cap.region()) {
            return Err(Status::HasDescendants);
        }
        if source.place == Place::Root(u8::MAX) {
            for page in cap.base..cap.region().end {
                if self.db.free & 1 << page == 0 {
                    return Err(Status::HasDescendants);
                }
            }
            for page in cap.base..cap.region().end {
                self.db.free &= !(1 << page);
            }
        }
        let ra = !source.owned || source.rc || source.ra;
        self.db.put(Slot { place: dst, cap, owned: true, rc: false, rd: false, ra });
        Ok(())
    }

    /// The parts of a Retype: what of, what, where to.
    fn order(&self, request: &Request) -> Result<(Slot, WireCap, Place), Attempt<Done>> {
        let source = self.source(request)?;
        match *request {
            Request::Retype { cap, dst, .. } if cap.fits(&source.cap) => {
                Ok((source, cap.cap(), dst))
            }
            Request::Allocate { cap, dst } => Ok((source, cap.cap(), dst)),
            _ => Err(Attempt::Done(Err(Status::WrongType))),
        }
    }

    fn try_retype(&mut self, request: &Request) -> Result<Attempt<Done>, Attempt<Done>> {
        let (source, cap, dst) = self.order(request)?;
        if source.owned && !source.rd {
            return Ok(Attempt::Done(self.make(&source, cap, dst)));
        }
        let part = cap.region();
        Ok(Attempt::Remote { cap: source.cap, need: Need::Retype { part } })
    }

    /// An object is opened, or a part of one made.
    fn try_object(&mut self, request: &Request) -> Result<Attempt<Done>, Attempt<Done>> {
        let (source, made, dst) = match *request {
            Request::Part { cap, dst, .. } => (Some(self.source(request)?), cap, dst),
            Request::Open { cap, dst } => (None, cap, dst),
            Request::Snapshot { cap, dst, .. } => return self.try_snapshot(request, cap, dst),
            Request::Destroy { .. } => return self.try_destroy(request, false),
            _ => return self.try_close(),
        };
        let cap = made.cap();
        if source.is_some_and(|source| !made.fits(&source.cap)) {
            return Ok(Attempt::Done(Err(Status::WrongType)));
        }
        if self.db.is_locked(&cap) {
            return Ok(Attempt::Locked);
        }
        self.empty(dst).map_err(|error| Attempt::Done(Err(error)))?;
        // If somebody else may have the same, nobody here knows.
        let known = match source {
            Some(source) => source.owned && !source.rc && !source.rd,
            None => !self.shared.away || !self.shared.is_alive(&cap),
        };
        if source.is_none() {
            self.shared.create(&cap);
            self.shared.vacant = None;
        }
        let (owned, hint, cap) = (known, !known, self.shared.current(cap));
        let new = Slot { place: dst, cap, owned, rc: hint, rd: hint, ra: hint };
        let like = self.db.copies(&cap).next().copied().unwrap_or(new);
        self.db.put(Slot { place: dst, ..like });
        Ok(Attempt::Done(Ok(())))
    }

    /// On the core of the pool nobody else can have anything of what is new; elsewhere that core may open it at any time.
    fn try_snapshot(
        &mut self,
        request: &Request,
        made: Made,
        dst: Place,
    ) -> Result<Attempt<Done>, Attempt<Done>> {
        self.whole(request)?;
        self.empty(dst).map_err(|error| Attempt::Done(Err(error)))?;
        if self.shared.is_alive(&made.cap()) {
            return Err(Attempt::Done(Err(Status::Occupied)));
        }
        self.shared.create(&made.cap());
        let (cap, owned) = (self.shared.current(made.cap()), self.has_pool());
        if !owned {
            self.shared.makers |= 1 << self.db.core;
            self.shared.away = true;
        }
        let hint = !owned;
        self.db.put(Slot { place: dst, cap, owned, rc: hint, rd: hint, ra: hint });
        Ok(Attempt::Done(Ok(())))
    }

    fn has_pool(&self) -> bool {
        self.shape.pool.is_some_and(|(core, _)| core == self.db.core)
    }

    /// The slot of a request, if it holds all of an object.
    fn whole(&self, request: &Request) -> Result<Slot, Attempt<Done>> {
        let slot = self.source(request)?;
        match is_whole(&slot.cap) {
            true => Ok(slot),
            false => Err(Attempt::Done(Err(Status::WrongType))),
        }
    }

    /// `granted`: no other core has anything of it.
    fn try_destroy(
        &mut self,
        request: &Request,
        granted: bool,
    ) -> Result<Attempt<Done>, Attempt<Done>> {
        let slot = self.whole(request)?;
        let cap = slot.cap;
        let others = self.db.slots.iter().filter(|other| other.place != slot.place);
        if others.into_iter().any(|other| other.cap.region().overlaps(cap.region())) {
            return Err(Attempt::Done(Err(Status::HasDescendants)));
        }
        let alone = slot.owned && !slot.rc && !slot.rd;
        if !alone && !granted {
            return Ok(Attempt::Remote { cap, need: Need::Retype { part: cap.region() } });
        }
        if !alone && !self.has_pool() && self.shared.vacant.take() != Some(cap.base) {
            let ignored = self.bug.is(Mutation::DestroyOpened);
            if !ignored {
                // Others are asked again: they have something of it by now.
                return Ok(Attempt::Remote { cap, need: Need::Retype { part: cap.region() } });
            }
        }
        self.db.take(slot.place);
        self.shared.alive &= !(1 << object_of(&cap));
        Ok(Attempt::Done(Ok(())))
    }

    /// All objects of the pool are gone, and nobody has anything of them.
    fn close(&mut self) {
        self.purge(&all_of_pool(), None);
        *self.shared = Shared { lives: self.shared.lives, ..Shared::default() };
    }

    fn try_close(&mut self) -> Result<Attempt<Done>, Attempt<Done>> {
        let cap = all_of_pool();
        if self.db.is_locked(&cap) {
            return Ok(Attempt::Locked);
        }
        if self.shared.away {
            return Ok(Attempt::Remote { cap, need: Need::Delete });
        }
        self.close();
        Ok(Attempt::Done(Ok(())))
    }

    fn try_others(&mut self, request: &Request) -> Result<Attempt<Done>, Attempt<Done>> {
        let slot = self.source(request)?;
        let remote = |need| Ok(Attempt::Remote { cap: slot.cap, need });
        match *request {
            Request::Copy { dst, .. } => {
                self.empty(dst).map_err(|error| Attempt::Done(Err(error)))?;
                self.db.put(Slot { place: dst, ..slot });
            }
            Request::Send { to, dst, .. } => {
                return remote(Need::Send { to: CoreId(to), place: dst.to_word() });
            }
            Request::Revoke { .. } if !slot.owned || slot.rc || slot.rd => {
                return remote(Need::Revoke);
            }
            Request::Revoke { at } => self.revoke_alone(at, &slot.cap),
            Request::Delete { .. } if self.can_delete_alone(&slot) => self.delete(slot),
            _ => return remote(Need::Delete),
        }
        Ok(Attempt::Done(Ok(())))
    }

    /// Revokes with the slot `keep`. If that was in a container which goes, it goes too; then what is
    /// left is the memory of that container, which was covered until it was empty.
    fn revoke_alone(&mut self, keep: Place, cap: &WireCap) {
        self.purge(cap, Some(keep));
        if is_morsel(cap) {
            return;
        }
        if self.db.copies(cap).next().is_none() && !self.db.has_ancestor(cap) {
            let pages = cap.base..cap.region().end;
            let uncovered = pages.filter(|&page| !self.db.is_covered(page));
            let free = uncovered.fold(0, |free, page| free | 1 << page);
            self.db.free |= free;
        }
    }

    /// Nothing is left of `cap`: what nothing else covers goes home.
    fn reclaim(&mut self, cap: &WireCap) {
        if self.db.has_ancestor(cap) {
            return;
        }
        for page in cap.base..cap.region().end {
            if !self.db.is_covered(page) {
                self.db.release(page);
            }
        }
    }

    /// Every other call of a step that may take long does nothing.
    fn hesitates(&mut self) -> bool {
        self.db.hesitated = self.shape.slow && !self.db.hesitated;
        self.db.hesitated
    }
}

impl CpuDriver for World<'_> {
    type Request = Request;
    type Answer = Done;

    fn home(&self, cap: &WireCap) -> Option<CoreId> {
        if is_morsel(cap) {
            return self.shape.pool.map(|(core, _)| CoreId(core));
        }
        let homes = self.shape.homes.get(cap.base as usize..cap.region().end as usize)?;
        let first = *homes.first()?;
        homes.iter().all(|&home| home == first).then_some(CoreId(first))
    }

    fn attempt(&mut self, request: &Request) -> Attempt<Done> {
        let result = match request {
            Request::Retype { .. } | Request::Allocate { .. } => self.try_retype(request),
            Request::Open { .. }
            | Request::Part { .. }
            | Request::Snapshot { .. }
            | Request::Destroy { .. }
            | Request::Close => self.try_object(request),
            _ => self.try_others(request),
        };
        result.unwrap_or_else(|error| error)
    }

    fn held(&mut self, request: &Request, cap: &WireCap) -> Option<Held> {
        if *request == Request::Close {
            let (owned, alone, remote_copies, remote_descendants) = (true, true, true, true);
            return Some(Held { owned, alone, remote_copies, remote_descendants });
        }
        let slot = match request.place() {
            Some(place) => self.slot(place).ok()?,
            None => self.home_slot(),
        };
        let alone = self.db.copies(&slot.cap).count() == 1;
        let Slot { owned, rc: remote_copies, rd: remote_descendants, .. } = slot;
        is_copy(&slot.cap, cap).then_some(Held { owned, alone, remote_copies, remote_descendants })
    }

    fn share(&mut self, cap: &WireCap) -> Progress {
        if self.hesitates() {
            return Progress::Again;
        }
        for slot in &mut self.db.slots {
            if is_copy(&slot.cap, cap) {
                (slot.rc, slot.rd) = (true, true);
            } else if is_ancestor(&slot.cap, cap) {
                slot.rd = true;
            } else if is_ancestor(cap, &slot.cap) {
                slot.ra = true;
                // Another core may make the same.
                slot.rc |= is_morsel(cap);
                slot.rd |= is_morsel(cap);
            }
        }
        self.shared.away |= is_morsel(cap);
        self.db.home_rd |= is_ancestor(&self.home_slot().cap, cap);
        Progress::Done
    }

    fn retype(&mut self, request: &Request) -> Attempt<Done> {
        if let Request::Destroy { .. } = request {
            return self.try_destroy(request, true).unwrap_or_else(|error| error);
        }
        match self.order(request) {
            Ok((source, cap, dst)) => Attempt::Done(self.make(&source, cap, dst)),
            Err(attempt) => attempt,
        }
    }

    fn revoke(&mut self, request: &Request, cap: &WireCap) -> Progress {
        if self.hesitates() {
            return Progress::Again;
        }
        let named = request
            .place()
            .filter(|&place| self.db.at(place).is_some_and(|slot| is_copy(&slot.cap, cap)));
        let in_limbo = |slot: &&Slot| matches!(slot.place, Place::Limbo(_));
        let moved = || self.db.copies(cap).find(in_limbo).map(|slot| slot.place);
        let keep = named.or_else(moved);
        if keep.is_none() {
            self.db.wrong = Some("a locked capability vanished");
        }
        self.purge(cap, keep);
        // Only the core of a pool knows that nobody has anything of an object, and only of all of it.
        let mut wholes = self.shape.objects(self.db.core);
        if !is_morsel(cap) || wholes.any(|whole| is_copy(&whole.cap(), cap)) {
            self.change_copies(cap, |slot| {
                (slot.owned, slot.rc, slot.rd) = (true, false, false);
            });
        }
        Progress::Done
    }

    fn disown(&mut self, cap: &WireCap) {
        self.change_copies(cap, |slot| {
            (slot.owned, slot.rc, slot.rd, slot.ra) = (false, true, true, true);
        });
    }

    fn delete_last(&mut self, _: &Request, cap: &WireCap) -> Progress {
        if self.hesitates() {
            return Progress::Again;
        }
        if cap.is_all_of_pool() {
            self.close();
            return Progress::Done;
        }
        let found: Vec<Slot> = self.db.copies(cap).copied().collect();
        if found.len() != 1 || !found[0].owned || !self.db.is_locked(cap) {
            self.db.wrong = Some("not the last copy, not the owner, or not locked");
        }
        for slot in found {
            self.db.take(slot.place);
        }
        self.destroy(cap);
        Progress::Done
    }

    fn insert(&mut self, cap: &WireCap, place: u64) -> Done {
        let place = Place::from_word(place);
        self.empty(place)?;
        let foreign = Slot { place, cap: *cap, owned: false, rc: true, rd: true, ra: true };
        let like = self.db.copies(cap).next().copied().unwrap_or(foreign);
        self.db.put(Slot { place, ..like });
        Ok(())
    }

    fn in_use(&mut self, cap: &WireCap, part: Region) -> bool {
        if is_morsel(cap) {
            let any = self.db.slots.iter().any(|slot| slot.cap.region().overlaps(part));
            if !any && self.has_pool() {
                self.shared.vacant = Some(cap.base);
            }
            return any;
        }
        let descendants = self.db.slots.iter().filter(|slot| is_ancestor(cap, &slot.cap));
        descendants.into_iter().any(|slot| slot.cap.region().overlaps(part))
    }

    fn own(&mut self, cap: &WireCap) -> bool {
        self.change_copies(cap, |slot| {
            (slot.owned, slot.rc, slot.rd, slot.ra) = (true, true, true, true);
        });
        self.has_copy(cap)
    }

    fn has_copy(&mut self, cap: &WireCap) -> bool {
        self.db.copies(cap).next().is_some()
    }

    fn lock(&mut self, cap: &WireCap) {
        if !self.db.locks.contains(cap) {
            self.db.locks.push(*cap);
        }
    }

    fn unlock(&mut self, cap: &WireCap) {
        self.db.locks.retain(|lock| lock != cap);
    }

    fn sweep(&mut self, cap: &WireCap) -> Progress {
        if self.hesitates() {
            return Progress::Again;
        }
        self.purge(cap, None);
        Progress::Done
    }

    fn makers(&mut self, _: Region) -> Cores {
        Cores(self.shared.makers)
    }

    fn first_cover(&mut self, region: Region) -> Option<Region> {
        let covers = self.db.slots.iter().map(|slot| slot.cap.region());
        let first = covers
            .filter(|c| c.overlaps(region))
            .min_by_key(|c| (c.base.max(region.base), u64::MAX - c.end))?;
        let (base, end) = (first.base.max(region.base), first.end.min(region.end));
        Some(Region { base, end, ..region })
    }

    fn give_back(&mut self, region: Region) {
        for page in region.base..region.end {
            self.db.release(page);
        }
    }
}

impl Outside for World<'_> {
    type Client = u8;

    fn send(&mut self, to: CoreId, message: Message) {
        self.sent.push((to, message));
    }

    fn finish(&mut self, client: u8, answer: Done) {
        self.finished.push((client, answer));
    }
}
