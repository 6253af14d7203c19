//! Copy, mint, move, identify, and copies of ranges.

use crate::errors::Check;
use crate::{Answer, Cap, Model, SlotKey, Words};
use captypes::invocations::{Identity, Reply};
use captypes::{op, CapType, Place, RamAttrs, Status};

impl Model {
    pub(crate) fn copy(&mut self, who: usize, target: Place, args: op::Copy) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.used(who, target));
        let dst = check.get(self.free(who, args.dst));
        let cap = src.map(|src| self.slots[&src]);
        check.demand(cap.is_none_or(|cap| cap.ty.can_be_copied()), Status::WrongType);
        let (cap, dst) = check.passed(cap.zip(dst))?;
        self.put(dst, cap);
        Ok(Words::NONE)
    }

    pub(crate) fn mint(&mut self, who: usize, target: Place, args: op::Mint) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.used(who, target));
        let dst = check.get(self.free(who, args.dst));
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
        let dst = check.get(self.free(who, args.dst));
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
        let mut relations = u64::from(cap.badge) << 32;
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
        Words { value: identity.encode(), mask }
    }

    pub(crate) fn copy_range(&mut self, who: usize, target: Place, args: op::CopyRange) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.run(who, target, args.count));
        let dst = check.get(self.run(who, args.dst, args.count));
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
