//! Containers that only hold each other.
//!
//! The last delete destroys an object, so a CNode that holds the last capability to itself, or two
//! that hold each other, stay for ever: nobody can reach them, and capabilities to them exist. A
//! collector finds them: *in use* is what a chain of capabilities leads to from the first dispatcher
//! (and from whoever runs the collector); every other CNode and dispatcher is taken apart.
//!
//! It works in steps between which everybody else runs, so it is the tricolour marking of Dijkstra,
//! Lamport, Martin, Scholten and Steffens, *On-the-Fly Garbage Collection*, 1978, over containers:
//!
//! * white: neither [`attr::MARKED`] nor [`attr::SCANNED`]; grey: marked; black: both. The marks are
//!   attributes of that slot which stands for the object in the database.
//! * A capability to a container that arrives in a slot of a marked container marks what it leads to
//!   (`Db::arrived`). What arrives in an unmarked one does not: it is found when that is
//!   scanned, or is as unreachable as its holder. So domains that nobody can reach cannot keep
//!   themselves alive by being busy.
//! * Grey containers wait on a small stack. When that overflows, a walk over all containers finds
//!   them again.
//! * The sweep goes over all containers by address: marks are cleared, what has none is deleted.
//!
//! All that is remembered between steps are addresses, which are looked up again.
//!
//! Other cores' capabilities to a container of this one do not count: they go with the last one of
//! this core anyway (G18 §4.2, kernel objects do not move). So cycles over several cores, too, come
//! to an end, each container by the collector of its own core.
//!
//! A cycle can only come loose when a capability to a container goes or moves of which there are others.
//! These containers are noted; while all of them are in use there is nothing to do (see `suspects`).

use super::budget::{Pause, Progress};
use super::db::{is_container, Db};
use super::lookup::slots_of;
use super::policy::MEMORY;
use super::CapSpace;
use super::{attr, CapExt};
use crate::object::{DcbRef, SlotRef};
use captypes::place::SLOT_BYTES;
use captypes::{CapType, Status};
use mdb::RawCap;
use paging::PAGE;

/// Grey containers that are remembered.
const STACK: usize = 128;
/// The highest rank of containers.
const RANK: u8 = CapType::L1CNode.rank();
/// Objects passed over for the price of one step of work.
const OBJECTS_PER_STEP: u32 = 8;
/// What it costs to find a container and to look at its first slots, and to mark one, in steps.
const STEPS_OF_SCAN: u32 = 3;
const STEPS_OF_SHADE: u32 = 2;
/// Slots with something else in it, and slots with nothing, for the price of one step.
const SLOTS_PER_STEP: u32 = 8;
const EMPTY_SLOTS_PER_STEP: u32 = 128;
/// Most empty slots that are looked at before that is paid.
const MOST_EMPTY: u32 = 16 * EMPTY_SLOTS_PER_STEP;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Marking,
    Sweeping,
}

/// What is remembered between steps.
pub struct Collector {
    phase: Phase,
    /// Addresses of grey containers.
    grey: [u64; STACK],
    depth: usize,
    /// A grey container found no room on the stack.
    overflow: bool,
    /// The container that is being scanned, and its next slot.
    scanning: Option<(u64, u32)>,
    /// A walk over all containers has come to this address.
    walk: Option<u64>,
    /// What it has seen last, if it stopped between objects that begin there.
    seen: Option<RawCap>,
    collected: u32,
}

impl Collector {
    /// Nothing to do.
    pub const fn new() -> Self {
        Collector {
            phase: Phase::Idle,
            grey: [0; STACK],
            depth: 0,
            overflow: false,
            scanning: None,
            walk: None,
            seen: None,
            collected: 0,
        }
    }

    fn push(&mut self, base: u64) {
        match self.grey.get_mut(self.depth) {
            Some(place) => {
                *place = base;
                self.depth += 1;
            }
            None => self.overflow = true,
        }
    }

    fn pop(&mut self) -> Option<u64> {
        self.depth = self.depth.checked_sub(1)?;
        Some(self.grey[self.depth])
    }

    /// Must it know of what arrives?
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Has the sweep been here?
    fn is_swept(&self, base: u64) -> bool {
        self.phase == Phase::Sweeping && self.walk.is_some_and(|at| base < at)
    }
}

impl Default for Collector {
    fn default() -> Self {
        Self::new()
    }
}

/// A container of this core that is not being taken apart?
fn is_whole_container(cap: &RawCap) -> bool {
    is_container(cap.ty) && !cap.is_foreign() && cap.attrs & attr::PARKED == 0
}

impl Db {
    /// A capability was put into `slot`. One that leads from a container in use leads to another.
    #[inline]
    pub(super) fn arrived(&mut self, slot: SlotRef, ty: u8) {
        if self.collector.is_busy() && is_container(ty) {
            self.shade_arrived(slot);
        }
    }

    #[inline(never)]
    fn shade_arrived(&mut self, slot: SlotRef) {
        if let Some(holder) = self.container_around(slot.pa(), SLOT_BYTES) {
            let cap = holder.cap();
            if cap.attrs & attr::MARKED != 0 || self.collector.is_swept(cap.base) {
                self.shade(&slot.cap());
            }
        }
    }

    /// A capability to a container, of which there are copies, was taken out of the database while the
    /// collector is busy. Another one inherits the marks.
    pub(super) fn left(&mut self, cap: &RawCap) {
        const MARKS: u16 = attr::MARKED | attr::SCANNED;
        if cap.has_remote(MARKS) {
            if let Some(heir) = self.find(cap) {
                let own = heir.cap();
                heir.set_rights(own.rights, own.attrs | cap.attrs & MARKS);
            }
        }
    }

    /// A container that stays has lost one of those who lead to it.
    pub(super) fn suspect(&mut self, cap: &RawCap) {
        if !cap.is_foreign() {
            self.suspects.note(cap.base);
        }
    }

    /// The container, not parked, that holds a range; the slot that stands for it.
    pub(super) fn container_around(&self, base: u64, bytes: u64) -> Option<SlotRef> {
        let found = self.surrounding(MEMORY, base, bytes, RANK)?;
        let cap = found.cap();
        is_whole_container(&cap).then_some(found)
    }

    /// Marks what a capability leads to.
    fn shade(&mut self, cap: &RawCap) {
        if !is_container(cap.ty) || cap.is_foreign() || self.collector.is_swept(cap.base) {
            return;
        }
        let Some(head) = self.find(cap) else { return };
        let own = head.cap();
        if own.attrs & (attr::MARKED | attr::PARKED) == 0 {
            head.set_rights(own.rights, own.attrs | attr::MARKED);
            if self.collector.phase == Phase::Marking {
                self.collector.push(own.base);
            }
        }
    }
}

impl CapSpace {
    /// Begins to look for containers that nobody can reach, unless that has begun already; `false` if
    /// there can be none. `current`: who asks.
    pub fn begin_to_collect(&mut self, current: Option<DcbRef>) -> Result<bool, Status> {
        if self.db.collector.phase == Phase::Idle {
            let first = self.first.ok_or(Status::WrongState)?;
            if !self.may_have_lost(current)? {
                return Ok(false);
            }
            self.db.collector = Collector { phase: Phase::Marking, ..Collector::new() };
            for root in [Some(first), current].into_iter().flatten() {
                let ty = CapType::Dispatcher as u8;
                self.db.shade(&RawCap { ty, base: root.pa(), word: PAGE, ..RawCap::NULL });
            }
        }
        if self.db.collector.phase == Phase::Marking {
            self.mark_containers()?;
        }
        Ok(true)
    }

    /// The sweep has come to its end. How many it has found.
    pub fn end_collection(&mut self) -> u32 {
        self.db.collector.phase = Phase::Idle;
        self.db.collector.collected
    }

    /// The sweep has dealt with the container at `base`, which was deleted or not.
    pub fn pass_container(&mut self, base: u64, deleted: bool) {
        self.db.collector.collected += u32::from(deleted);
        self.db.collector.walk = Some(base + PAGE);
    }

    /// Scans grey containers until there are none.
    fn mark_containers(&mut self) -> Progress {
        loop {
            let next = self.db.collector.scanning.or_else(|| Some((self.db.collector.pop()?, 0)));
            if let Some((base, from)) = next {
                self.scan(base, from)?;
                continue;
            }
            if self.db.collector.walk.is_none() {
                if !core::mem::take(&mut self.db.collector.overflow) {
                    break;
                }
                self.db.collector.walk = Some(0);
            }
            match self.next_container() {
                Ok(Some(found)) => {
                    let cap = found.cap();
                    self.db.collector.walk = Some(cap.base + PAGE);
                    if cap.attrs & (attr::MARKED | attr::SCANNED) == attr::MARKED {
                        self.db.collector.push(cap.base);
                    }
                }
                Ok(None) => self.db.collector.walk = None,
                Err(Again) => return Err(Pause::Again),
            }
        }
        self.db.collector.phase = Phase::Sweeping;
        self.db.collector.walk = Some(0);
        Ok(())
    }

    /// Marks what the slots of the container at `base` lead to, from slot `from` on. It may have
    /// gone in the meantime.
    fn scan(&mut self, base: u64, from: u32) -> Progress {
        self.db.collector.scanning = None;
        let Some(head) = self.db.container_around(base, PAGE) else { return Ok(()) };
        let container = head.cap();
        if container.base != base {
            return Ok(());
        }
        let slots = slots_of(&container);
        if !self.spend(STEPS_OF_SCAN) {
            self.db.collector.scanning = Some((base, from));
            return Err(Pause::Again);
        }
        let (mut at, mut others) = (from.min(slots.len()), 0);
        while at < slots.len() {
            let cap = slots.get(at).cap();
            let mut price = 0;
            if cap.is_null() {
                let next = slots.next_filled_within(at, MOST_EMPTY);
                price = (next - at) / EMPTY_SLOTS_PER_STEP;
                at = next;
            } else if is_container(cap.ty) {
                self.db.shade(&cap);
                (at, price) = (at + 1, STEPS_OF_SHADE);
            } else {
                // Most are no containers.
                (at, others) = (at + 1, others + 1);
                if others == SLOTS_PER_STEP {
                    (others, price) = (0, 1);
                }
            }
            if price > 0 && !self.spend(price) {
                self.db.collector.scanning = Some((base, at));
                return Err(Pause::Again);
            }
        }
        let own = head.cap();
        head.set_rights(own.rights, own.attrs | attr::SCANNED);
        Ok(())
    }

    /// The next container of the walk.
    pub fn next_container(&mut self) -> Result<Option<SlotRef>, Again> {
        if self.budget.left() == 0 {
            return Err(Again);
        }
        let at = self.db.collector.walk.unwrap_or(0);
        let seen = self.db.collector.seen.take();
        let (mut found, mut passed, mut reached) = (None, 0, None);
        // Of what it has seen it sees one again.
        let most = self.budget.left().saturating_mul(OBJECTS_PER_STEP).max(2);
        for slot in self.db.objects_from(MEMORY, at, seen.as_ref()) {
            let cap = slot.cap();
            passed += 1;
            if is_whole_container(&cap) {
                found = Some(slot);
                break;
            }
            if passed >= most {
                reached = Some(cap);
                break;
            }
        }
        let enough = self.spend(2 + passed / OBJECTS_PER_STEP);
        if found.is_some() || enough && passed < most {
            return Ok(found);
        }
        self.db.collector.walk = Some(reached.map_or(at, |cap| cap.base.max(at)));
        self.db.collector.seen = reached.or(seen);
        Err(Again)
    }
}

/// The sweep passes a container.
pub fn clear_marks(slot: SlotRef) {
    let cap = slot.cap();
    slot.set_rights(cap.rights, cap.attrs & !(attr::MARKED | attr::SCANNED));
}

/// The work of this event is used up.
pub struct Again;
