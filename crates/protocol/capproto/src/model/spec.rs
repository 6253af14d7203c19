//! The specification: one list of slots for all cores, and operations that are atomic.
//!
//! Two things are left open. Which of several errors that apply is answered; and when that which a dying
//! container held is deleted: until then it is *doomed*, and nobody can name it, but it is in the way
//! like any other capability.

use super::caps::{is_ancestor, is_container, is_copy, is_morsel, is_whole, Made, Place, Request};
use super::database::{object_of, Shape};
use crate::{Relations, WireCap};
use captypes::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

/// A slot: its core and place.
pub type Key = (u8, Place);

/// All capabilities of all cores.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Spec {
    pub slots: BTreeMap<Key, WireCap>,
    /// Core and capability, sorted.
    pub doomed: Vec<(u8, WireCap)>,
    /// The core of the CNode at a page.
    pub cnodes: BTreeMap<u64, u8>,
    /// Which objects there are, by number.
    pub alive: u64,
}

/// Success, or the errors that apply.
pub type Verdict = Result<(), Vec<Status>>;

impl Spec {
    fn exists(&self, shape: &Shape, (core, place): Key) -> bool {
        match place {
            Place::Root(n) => n < shape.root_slots,
            Place::In(page, n) => {
                let is_it = |cap: &WireCap| is_container(cap) && cap.base == u64::from(page);
                let named = self.slots.iter().any(|(key, cap)| key.0 == core && is_it(cap));
                n < shape.cnode_slots && self.cnodes.get(&page.into()) == Some(&core) && named
            }
            Place::Limbo(_) => false,
        }
    }

    fn source(&self, shape: &Shape, key: Key) -> Result<WireCap, Status> {
        match self.slots.get(&key) {
            _ if !self.exists(shape, key) => Err(Status::NoSlot),
            Some(cap) => Ok(*cap),
            None => Err(Status::Empty),
        }
    }

    fn destination(&self, shape: &Shape, key: Key) -> Result<(), Status> {
        match self.source(shape, key) {
            Ok(_) => Err(Status::Occupied),
            Err(Status::Empty) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Every capability and its core.
    fn all(&self) -> impl Iterator<Item = (u8, &WireCap)> {
        let named = self.slots.iter().map(|((core, _), cap)| (*core, cap));
        named.chain(self.doomed.iter().map(|(core, cap)| (*core, cap)))
    }

    /// Does a request of a client on `core`.
    pub fn apply(&mut self, shape: &Shape, core: u8, request: &Request) -> Verdict {
        let source = request.place().map(|place| self.source(shape, (core, place)));
        let source = source.transpose().map_err(|error| std::vec![error])?;
        let cap = source.or_else(|| shape.home_cap(core)).unwrap_or_default();
        match *request {
            Request::Open { cap, dst } => {
                self.put(shape, (core, dst), cap.cap())?;
                self.alive |= 1 << object_of(&cap.cap());
                Ok(())
            }
            Request::Snapshot { .. } | Request::Destroy { .. } if !is_whole(&cap) => {
                Err(std::vec![Status::WrongType])
            }
            Request::Snapshot { cap: made, dst, .. } => self.snapshot(shape, made, (core, dst)),
            Request::Destroy { at } => self.destroy((core, at), &cap),
            Request::Part { cap: made, .. } if !made.fits(&cap) => {
                Err(std::vec![Status::WrongType])
            }
            Request::Part { cap: made, dst, .. } => self.put(shape, (core, dst), made.cap()),
            Request::Close => {
                self.slots.retain(|_, other| !is_morsel(other));
                self.doomed.retain(|(_, other)| !is_morsel(other));
                self.alive = 0;
                Ok(())
            }
            Request::Copy { dst, .. } => self.put(shape, (core, dst), cap),
            Request::Send { to, dst, .. } => self.put(shape, (to, dst), cap),
            Request::Retype { cap: made, dst, .. } => self.retype(shape, &cap, made, (core, dst)),
            Request::Allocate { cap: made, dst } => self.retype(shape, &cap, made, (core, dst)),
            Request::Delete { at } => {
                self.delete((core, at));
                Ok(())
            }
            Request::Revoke { at } => self.revoke_cap((core, at), &cap),
        }
    }

    fn put(&mut self, shape: &Shape, dst: Key, cap: WireCap) -> Verdict {
        self.destination(shape, dst).map_err(|error| std::vec![error])?;
        self.slots.insert(dst, cap);
        Ok(())
    }

    fn snapshot(&mut self, shape: &Shape, made: Made, dst: Key) -> Verdict {
        let number = object_of(&made.cap());
        let mut errors = Vec::new();
        errors.extend(self.destination(shape, dst).err());
        if self.alive & 1 << number != 0 {
            errors.push(Status::Occupied);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        self.alive |= 1 << number;
        self.slots.insert(dst, made.cap());
        Ok(())
    }

    /// An object ends, if nobody else has anything of it.
    fn destroy(&mut self, key: Key, cap: &WireCap) -> Verdict {
        let having = self.all().filter(|(_, other)| other.region().overlaps(cap.region()));
        if having.count() > 1 {
            return Err(std::vec![Status::HasDescendants]);
        }
        self.slots.remove(&key);
        self.alive &= !(1 << object_of(cap));
        Ok(())
    }

    fn retype(&mut self, shape: &Shape, source: &WireCap, made: Made, dst: Key) -> Verdict {
        let cap = made.cap();
        let mut errors = Vec::new();
        errors.extend(self.destination(shape, dst).err());
        let is_home = source.attrs != 0;
        if !is_home && !made.fits(source) {
            errors.push(Status::WrongType);
        }
        let in_way = |(_, other): (u8, &WireCap)| {
            is_ancestor(source, other) && other.region().overlaps(cap.region())
        };
        if self.all().any(in_way) {
            errors.push(Status::HasDescendants);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        self.slots.insert(dst, cap);
        if is_container(&cap) {
            self.cnodes.insert(cap.base, dst.0);
        }
        Ok(())
    }

    fn delete(&mut self, key: Key) {
        if let Some(cap) = self.slots.remove(&key) {
            self.dropped(key.0, &cap);
        }
    }

    /// A capability of `core` is gone. The last one of a CNode's own core ends the CNode.
    fn dropped(&mut self, core: u8, cap: &WireCap) {
        let is_home = is_container(cap) && self.cnodes.get(&cap.base) == Some(&core);
        if is_home && !self.all().any(|(other, c)| other == core && is_copy(c, cap)) {
            self.slots.retain(|_, other| !is_copy(other, cap));
            self.doomed.retain(|(_, other)| !is_copy(other, cap));
            self.empty(cap);
            // Its memory may have been covered by something inside only.
            self.doomed.push((core, *cap));
            self.doomed.sort_unstable();
        }
    }

    /// A CNode ends; what it holds is doomed.
    fn empty(&mut self, cnode: &WireCap) {
        let Some(core) = self.cnodes.remove(&cnode.base) else { return };
        let inside = |(of, place): &Key| {
            *of == core && matches!(place, Place::In(page, _) if u64::from(*page) == cnode.base)
        };
        let keys: Vec<Key> = self.slots.keys().filter(|key| inside(key)).copied().collect();
        for key in keys {
            if let Some(cap) = self.slots.remove(&key) {
                self.doomed.push((core, cap));
            }
        }
        self.doomed.sort_unstable();
    }

    /// Revokes what was at `key` in another state.
    pub fn revoke(&mut self, shape: &Shape, then: &Spec, key: Key) -> Verdict {
        let cap = then.source(shape, key).map_err(|error| std::vec![error])?;
        self.revoke_cap(key, &cap)
    }

    fn revoke_cap(&mut self, key: Key, cap: &WireCap) -> Verdict {
        if is_container(cap) && self.cnodes.get(&cap.base) != Some(&key.0) {
            return Err(std::vec![Status::Unsupported]);
        }
        let related = |other: &WireCap| is_copy(other, cap) || is_ancestor(cap, other);
        let mut cnodes: Vec<WireCap> = Vec::new();
        for (_, other) in self.all() {
            if is_container(other) && is_ancestor(cap, other) {
                cnodes.push(*other);
            }
        }
        self.slots.retain(|other, c| *other == key || !related(c));
        self.doomed.retain(|(_, c)| !related(c));
        cnodes.iter().for_each(|cnode| self.empty(cnode));
        Ok(())
    }

    /// Everything that can be when some of what is doomed has gone, and when all has.
    pub fn settled(self) -> (BTreeSet<Spec>, BTreeSet<Spec>) {
        let (mut seen, mut ends) = (BTreeSet::new(), BTreeSet::new());
        let mut open = std::vec![self];
        while let Some(spec) = open.pop() {
            if !seen.insert(spec.clone()) {
                continue;
            }
            if spec.doomed.is_empty() {
                ends.insert(spec.clone());
            }
            for at in 0..spec.doomed.len() {
                let mut next = spec.clone();
                let (core, cap) = next.doomed.remove(at);
                next.dropped(core, &cap);
                open.push(next);
            }
        }
        (seen, ends)
    }
}
