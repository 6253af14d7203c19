//! Delete and revoke. The last capability takes the object with it: what is mapped is unmapped, what
//! is in slots is deleted, and memory below a home is announced.

use crate::errors::{Check, Errors};
use crate::loans::pages_of;
use crate::{Answer, Cap, Model, SlotKey, Words, PAGE};
use captypes::{op, CapType, Place, Rights, Status, Tree};

impl Model {
    pub(crate) fn delete(&mut self, who: usize, target: Place, _: op::Delete) -> Answer {
        let mut check = Check::default();
        let slot = self.used_to_change(&mut check, who, target);
        let slot = check.passed(slot)?;
        self.delete_slot(slot);
        Ok(Words::NONE)
    }

    pub(crate) fn delete_range(
        &mut self,
        who: usize,
        target: Place,
        args: op::DeleteRange,
    ) -> Answer {
        let mut check = Check::default();
        let slots = self.run_to_change(&mut check, who, target, args.count);
        let mut count = 0;
        for slot in check.passed(slots)? {
            if let Some(cap) = self.slots.get(&slot) {
                // What is before it has gone.
                self.may_change_entries(cap).map_err(Errors::one)?;
                self.delete_slot(slot);
                count += 1;
            }
        }
        // What containers held may have been in the range, and goes sooner or later.
        let mask = if self.containers_destroyed == 0 { u64::MAX } else { 0 };
        Ok(Words::masked(count, mask))
    }

    pub(crate) fn revoke(&mut self, who: usize, target: Place, _: op::Revoke) -> Answer {
        let mut check = Check::default();
        let slot = check.get(self.used(who, target));
        let cap = slot.map(|slot| self.slots[&slot]);
        check.demand(cap.is_none_or(|cap| cap.rights.has(Rights::REVOKE)), Status::NoRights);
        let (slot, cap) = check.passed(slot.zip(cap))?;
        self.revoke_slot(slot, &cap);
        Ok(Words::NONE)
    }

    /// The state after revoking what is in `slot`, to see what that would take.
    pub(crate) fn after_revoking(&self, slot: SlotKey) -> Model {
        let mut trial = self.clone();
        if let Some(cap) = self.slots.get(&slot) {
            trial.revoke_slot(slot, cap);
        }
        trial
    }

    fn revoke_slot(&mut self, slot: SlotKey, cap: &Cap) {
        let goes = |(&key, other): (&SlotKey, &Cap)| {
            let related = other.is_copy_of(cap) || other.descends_from(cap);
            (key != slot && related).then_some(key)
        };
        while let Some(key) = self.slots.iter().find_map(goes) {
            self.delete_slot(key);
        }
    }

    /// Removes a capability, and with the last one its object.
    pub(crate) fn delete_slot(&mut self, slot: SlotKey) {
        let Some(cap) = self.take(slot) else { return };
        if let Some(mapping) = cap.mapping {
            self.clear(mapping.table, mapping.first, mapping.count);
            return;
        }
        if self.slots.values().any(|other| other.is_of_object_of(&cap)) {
            return;
        }
        if cap.is_frame() {
            self.unmap_uncovered(&cap);
        }
        if cap.level().is_some() {
            self.were_copied.remove(&cap.base);
            self.unmap_table(cap.base);
            // What has no Mapping, too.
            self.clear(cap.base, 0, 512);
        }
        if cap.ty == CapType::Endpoint {
            self.servers.remove(&cap.base);
        }
        if cap.is_container() {
            self.containers_destroyed += 1;
            self.delete_contents(cap.base);
        }
        self.announce(&cap);
    }

    fn delete_contents(&mut self, container: u64) {
        let inside = (container, 0)..=(container, u32::MAX);
        let keys: Vec<SlotKey> = self.slots.range(inside).map(|(&key, _)| key).collect();
        for key in keys {
            self.delete_slot(key);
        }
    }

    pub(crate) fn remove_mappings(&mut self, goes: impl Fn(&Cap) -> bool) {
        let found = self.slots.iter().filter(|(_, cap)| cap.mapping.is_some() && goes(cap));
        let keys: Vec<SlotKey> = found.map(|(&key, _)| key).collect();
        for key in keys {
            self.delete_slot(key);
        }
    }

    /// Pages stay mapped as long as a Frame covers them.
    fn unmap_uncovered(&mut self, gone: &Cap) {
        let covers = |cap: &Cap| -> Vec<(u64, u64)> {
            let mappings = self.slots.values().filter(|m| m.mapping.is_some());
            let inside = mappings.filter(|m| cap.covers(m.base, m.end()));
            let frames = || self.slots.values().filter(|other| other.is_frame());
            let uncovered = inside.filter(|m| !frames().any(|f| f.covers(m.base, m.end())));
            uncovered.map(|m| (m.base, m.bytes)).collect()
        };
        let ranges = covers(gone);
        self.remove_mappings(|m| ranges.contains(&(m.base, m.bytes)));
    }

    /// A table goes with what is mapped in it, and from where it is mapped.
    fn unmap_table(&mut self, table: u64) {
        self.remove_mappings(|cap| {
            cap.base == table || cap.mapping.is_some_and(|mapping| mapping.table == table)
        });
    }

    /// Memory below a home that nothing else covers any more comes back.
    fn announce(&mut self, cap: &Cap) {
        if cap.ty.tree() != Tree::Memory || cap.is_home() {
            return;
        }
        // Of a Loan all pages of which it has something.
        let (base, end) = pages_of(cap);
        let (base, end) = (base.max(self.homeland.start), end.min(self.homeland.end));
        for page in (base..end).step_by(PAGE as usize) {
            let in_use = |other: &Cap| {
                other.ty.tree() == Tree::Memory
                    && !other.is_home()
                    && other.overlaps(page, page + PAGE)
            };
            if !self.slots.values().any(in_use) {
                self.returned.insert(page);
            }
        }
    }
}
