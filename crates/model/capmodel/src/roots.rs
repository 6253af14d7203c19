//! Another root for a CSpace, and CNodes that nobody can reach.

use crate::errors::Check;
use crate::place::root_slots;
use crate::{Answer, Cap, Model, SlotKey, Words};
use captypes::{op, CapType, Place, Rights, Status};
use std::collections::BTreeSet;

/// Most slots of a root that can be exchanged.
const MOST_SLOTS: u32 = 1 << 14;

impl Model {
    /// The slots in use of a container.
    fn contents(&self, base: u64) -> Vec<(SlotKey, Cap)> {
        self.in_container(base, u32::MAX).collect()
    }

    pub(crate) fn resize(&mut self, who: usize, target: Place, args: op::Resize) -> Answer {
        let mut check = Check::default();
        let old_slot = check.get(self.used(who, target));
        let new_slot = check.get(self.used(who, args.root));
        let (old, new) =
            (old_slot.map(|slot| self.slots[&slot]), new_slot.map(|slot| self.slots[&slot]));
        for cap in old.iter().chain(&new) {
            check.demand(cap.ty == CapType::L1CNode, Status::WrongType);
        }
        if let (Some(old), Some(new), Some(slot), true) =
            (old, new, new_slot, check.errors().is_empty())
        {
            check.demand(old.rights.has(Rights::REVOKE), Status::NoRights);
            let lies_inside = slot.0 == old.base;
            let single = old.base != new.base && !lies_inside && !self.has_copies(slot);
            check.demand(single, Status::WrongState);
            let slots = (root_slots(old.bytes), root_slots(new.bytes));
            check.demand(slots.0.max(slots.1) <= MOST_SLOTS, Status::OutOfRange);
            let fits = self.contents(old.base).iter().all(|(key, _)| key.1 < slots.1);
            check.demand(fits, Status::OutOfRange);
            check.demand(self.contents(new.base).is_empty(), Status::Occupied);
        }
        let ((old, new), new_slot) = check.passed(old.zip(new).zip(new_slot))?;
        for (key, cap) in self.contents(old.base) {
            if !cap.ty.can_be_copied() {
                self.take(key);
            }
            self.put((new.base, key.1), cap);
        }
        // Whoever had the old root has the new one now, with the same rights.
        let everybody: Vec<(SlotKey, Cap)> = self
            .slots()
            .filter(|(_, cap)| cap.is_copy_of(&old))
            .map(|(key, &cap)| (key, cap))
            .collect();
        for (key, cap) in everybody {
            self.take(key);
            self.put(key, Cap { rights: cap.rights, ..new });
        }
        self.take(new_slot);
        self.put(new_slot, Cap { rights: new.rights, ..old });
        Ok(Words::NONE)
    }

    /// Containers to which a chain of capabilities leads from the executors.
    fn reachable(&self) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<u64> = Vec::new();
        for own in &self.executors {
            open.extend([own.root, own.node, own.dispatcher]);
        }
        while let Some(base) = open.pop() {
            if reached.insert(base) {
                let inside = self.contents(base).into_iter();
                open.extend(inside.filter(|(_, cap)| cap.is_container()).map(|(_, cap)| cap.base));
            }
        }
        reached
    }

    /// Takes containers apart that only hold each other.
    pub(crate) fn collect_cycles(&mut self) {
        let reached = self.reachable();
        let containers = self.slots.values().filter(|cap| cap.is_container());
        let lost: BTreeSet<u64> =
            containers.map(|cap| cap.base).filter(|base| !reached.contains(base)).collect();
        for base in lost {
            for (key, _) in self.contents(base) {
                self.delete_slot(key);
            }
        }
    }
}
