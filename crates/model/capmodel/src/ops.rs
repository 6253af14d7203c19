//! Copy, mint, move, identify, and copies of ranges.

use crate::errors::Check;
use crate::{Answer, Cap, Errors, Model, SlotKey, Words};
use captypes::invocations::{Identity, Reply};
use captypes::{op, CapType, Place, RamAttrs, Rights, Status};

impl Model {
    pub(crate) fn copy(&mut self, who: usize, target: Place, args: op::Copy) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.used(who, target));
        let dst = self.free(&mut check, who, args.dst);
        let cap = src.map(|src| self.slots[&src]);
        check.demand(cap.is_none_or(|cap| cap.ty.can_be_copied()), Status::WrongType);
        let (cap, dst) = check.passed(cap.zip(dst))?;
        self.put(dst, cap);
        Ok(Words::NONE)
    }

    pub(crate) fn mint(&mut self, who: usize, target: Place, args: op::Mint) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.used(who, target));
        let dst = self.free(&mut check, who, args.dst);
        let cap = src.map(|src| self.slots[&src]);
        if let Some(cap) = cap {
            let is_endpoint = cap.ty == CapType::Endpoint;
            check.demand(cap.ty.can_be_copied(), Status::WrongType);
            check.demand(args.badge == 0 || is_endpoint, Status::WrongType);
            check.demand(args.badge == 0 || cap.badge == 0, Status::WrongState);
        }
        let (cap, dst) = check.passed(cap.zip(dst))?;
        let badge = if args.badge != 0 { args.badge } else { cap.badge };
        self.put(dst, Cap { rights: cap.rights.and(args.rights), badge, ..cap });
        Ok(Words::NONE)
    }

    pub(crate) fn move_cap(&mut self, who: usize, target: Place, args: op::Move) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.used(who, target));
        check.get(self.may_change(who, target));
        let dst = self.free(&mut check, who, args.dst);
        let (src, dst) = check.passed(src.zip(dst))?;
        if let Some(cap) = self.take(src) {
            self.put(dst, cap);
        }
        Ok(Words::NONE)
    }

    pub(crate) fn identify(&mut self, who: usize, target: Place, _: op::Identify) -> Answer {
        let mut check = Check::default();
        let slot = check.get(self.used(who, target));
        check.passed(slot).map(|slot| self.identity(slot))
    }

    /// What `Identify` of a slot in use answers.
    pub fn identity(&self, slot: SlotKey) -> Words {
        let cap = &self.slots[&slot];
        let badge = if cap.ty == CapType::Endpoint { cap.badge } else { 0 };
        let mut relations = u64::from(badge) << 32;
        if self.has_copies(slot) {
            relations |= Identity::COPIES;
        }
        if self.has_descendants(cap) {
            relations |= Identity::DESCENDANTS;
        }
        let identity = Identity {
            ty: cap.ty,
            rights: cap.rights,
            attrs: cap.attrs,
            base: cap.base,
            bytes: cap.bytes,
            relations,
        };
        let mut mask = [u64::MAX; 6];
        if cap.ty == CapType::Mapping {
            // A Mapping is not memory.
            mask[2] = 0;
        }
        Words { value: identity.encode(), mask, or: Errors::NONE }
    }

    pub(crate) fn copy_range(&mut self, who: usize, target: Place, args: op::CopyRange) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.run(who, target, args.count));
        let dst = self.run_to_change(&mut check, who, args.dst, args.count);
        let pairs = src.zip(dst).map(|(src, dst)| src.into_iter().zip(dst).collect::<Vec<_>>());
        let wanted = |cap: &Cap| {
            cap.ty.can_be_copied() && (args.only == CapType::Null || args.only == cap.ty)
        };
        for (src, dst) in pairs.iter().flatten() {
            let taken = self.slots.get(src).is_some_and(wanted) && self.slots.contains_key(dst);
            check.demand(!taken, Status::Occupied);
        }
        let mut count = 0;
        for (src, dst) in check.passed(pairs)? {
            let cap = self.slots.get(&src).copied().filter(wanted);
            // A copy that this very operation has put there is not in the way.
            if let Some(cap) = cap.filter(|_| !self.slots.contains_key(&dst)) {
                self.put(dst, cap);
                count += 1;
            }
        }
        Ok(Words::one(count))
    }

    pub(crate) fn no_op(&mut self, who: usize, target: Place, _: op::NoOp) -> Answer {
        let mut check = Check::default();
        let slot = check.get(self.used(who, target));
        check.passed(slot).map(|_| Words::NONE)
    }

    pub(crate) fn compare(&mut self, who: usize, target: Place, args: op::Compare) -> Answer {
        let mut check = Check::default();
        let (one, other) =
            (check.get(self.used(who, target)), check.get(self.used(who, args.other)));
        let (one, other) = check.passed(one.zip(other))?;
        let same = one == other || self.slots[&one].is_copy_of(&self.slots[&other]);
        Ok(Words::one(u64::from(same)))
    }

    pub(crate) fn new_id(&mut self, who: usize, target: Place, args: op::NewId) -> Answer {
        let mut check = Check::default();
        let source = check.get(self.used(who, target)).map(|slot| self.slots[&slot]);
        let dst = self.free(&mut check, who, args.dst);
        check.demand(source.is_none_or(|cap| cap.ty == CapType::Id), Status::WrongType);
        check.demand(source.is_none_or(|cap| cap.bytes > 1), Status::WrongState);
        let (source, dst) = check.passed(source.zip(dst))?;
        self.put(dst, Cap { bytes: 1, rights: Rights::ALL, badge: 0, ..source });
        self.unnamed = Some(dst);
        Ok(Words::NONE)
    }

    /// Checks the number that `NewId` answered: one of its range that was never given.
    pub fn name_id(&mut self, number: u64) -> Result<(), String> {
        let id = self.unnamed.take().and_then(|slot| self.slots.get_mut(&slot));
        if let Some(id) = id {
            id.base = number;
        }
        if self.numbers.insert(number) {
            Ok(())
        } else {
            Err(format!("a number other than {number}, which was given before"))
        }
    }

    /// A capability of the boot: what the machine had before the first operation.
    pub fn import(&mut self, slot: SlotKey, words: &[u64; 6]) -> Result<(), Status> {
        let identity = Identity::decode(words)?;
        let cap = Cap {
            ty: identity.ty,
            base: identity.base,
            bytes: identity.bytes,
            rights: identity.rights,
            attrs: RamAttrs(identity.attrs.0),
            badge: (identity.relations >> 32) as u32,
            mapping: None,
        };
        self.put(slot, cap);
        Ok(())
    }
}
