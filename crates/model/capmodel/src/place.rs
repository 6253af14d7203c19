//! From a place to a slot: two levels, in the own CSpace or in one that is named.

use crate::errors::Check;
use crate::tables::may_write;
use crate::Model;
use captypes::place::{L2_SLOTS, SLOT_BYTES};
use captypes::{CapAddr, CapType, Level, Place, Status};

/// A slot: the address of the object that it is in, and its index there.
pub type SlotKey = (u64, u32);

/// Most slots that one operation may name.
const MOST_SLOTS: u32 = L2_SLOTS;

/// A dispatcher that executes operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executor {
    /// Address and slots of its root CNode.
    pub root: u64,
    /// Slots of it.
    pub root_slots: u32,
    /// Address of the L2CNode at index 0 of it, with what the executor itself lives on.
    pub node: u64,
    /// Address of its root page table.
    pub vspace: u64,
    /// Address of its dispatcher.
    pub dispatcher: u64,
}

/// A CNode, an index in it, and its slots.
struct Spot {
    node: u64,
    index: u32,
    slots: u32,
    /// The capability to an L2CNode.
    holder: Option<SlotKey>,
}

/// Slots of a root CNode.
pub(crate) fn root_slots(bytes: u64) -> u32 {
    (bytes / SLOT_BYTES) as u32
}

impl Model {
    fn l2_node(&self, root: u64, slots: u32, index: u32) -> Result<u64, Status> {
        match self.slots.get(&(root, index)) {
            Some(cap) if index < slots && cap.ty == CapType::L2CNode => Ok(cap.base),
            _ => Err(Status::NoSlot),
        }
    }

    fn own_slot(&self, who: usize, addr: CapAddr) -> Result<SlotKey, Status> {
        let own = &self.executors[who];
        if addr == CapAddr::NULL {
            return Err(Status::NoSlot);
        }
        Ok((self.l2_node(own.root, own.root_slots, addr.l1())?, addr.l2()))
    }

    fn spot(&self, who: usize, place: Place) -> Result<Spot, Status> {
        let own = &self.executors[who];
        let (mut root, mut slots) = (own.root, own.root_slots);
        if place.root() != CapAddr::NULL {
            let key = self.own_slot(who, place.root())?;
            let cap = self.slots.get(&key).filter(|cap| cap.ty == CapType::L1CNode);
            let cap = cap.ok_or(Status::WrongType)?;
            (root, slots) = (cap.base, root_slots(cap.bytes));
        }
        let addr = place.addr();
        match place.level() {
            Level::L1 if addr.0 < slots => {
                Ok(Spot { node: root, index: addr.0, slots, holder: None })
            }
            Level::L2 if addr != CapAddr::NULL => {
                let node = self.l2_node(root, slots, addr.l1())?;
                let holder = Some((root, addr.l1()));
                Ok(Spot { node, index: addr.l2(), slots: L2_SLOTS, holder })
            }
            _ => Err(Status::NoSlot),
        }
    }

    /// The slot at a place.
    pub fn slot_at(&self, who: usize, place: Place) -> Result<SlotKey, Status> {
        self.spot(who, place).map(|spot| (spot.node, spot.index))
    }

    /// The slot at a place, in use.
    pub(crate) fn used(&self, who: usize, place: Place) -> Result<SlotKey, Status> {
        let key = self.slot_at(who, place)?;
        if self.slots.contains_key(&key) {
            Ok(key)
        } else {
            Err(Status::Empty)
        }
    }

    /// May the slots of the CNode at a place be changed? Whose name leads nowhere has another error.
    pub(crate) fn may_change(&self, who: usize, place: Place) -> Result<(), Status> {
        match self.spot(who, place) {
            Ok(Spot { holder: Some(holder), .. }) => {
                let shared = self.has_copies(holder);
                may_write(self.slots[&holder].rights, !shared)
            }
            _ => Ok(()),
        }
    }

    /// The slot at a place, empty, to fill it.
    pub(crate) fn free(&self, check: &mut Check, who: usize, place: Place) -> Option<SlotKey> {
        check.get(self.may_change(who, place));
        let key = check.get(self.slot_at(who, place))?;
        check.demand(!self.slots.contains_key(&key), Status::Occupied);
        Some(key)
    }

    /// The slot at a place, in use, to change what it holds or the entries for which that stands.
    pub(crate) fn used_to_change(
        &self,
        check: &mut Check,
        who: usize,
        place: Place,
    ) -> Option<SlotKey> {
        check.get(self.may_change(who, place));
        let key = check.get(self.used(who, place))?;
        check.get(self.may_change_entries(&self.slots[&key]));
        Some(key)
    }

    /// The same of `count` adjacent slots, empty or not.
    pub(crate) fn run_to_change(
        &self,
        check: &mut Check,
        who: usize,
        place: Place,
        count: u32,
    ) -> Option<Vec<SlotKey>> {
        check.get(self.may_change(who, place));
        check.get(self.run(who, place, count))
    }

    /// `count` adjacent slots of one CNode.
    pub(crate) fn run(&self, who: usize, place: Place, count: u32) -> Result<Vec<SlotKey>, Status> {
        let spot = self.spot(who, place)?;
        if count > spot.slots - spot.index {
            return Err(Status::NoSlot);
        }
        if count > MOST_SLOTS {
            return Err(Status::OutOfRange);
        }
        Ok((spot.index..spot.index + count).map(|index| (spot.node, index)).collect())
    }
}
