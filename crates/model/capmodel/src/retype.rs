//! Retype: objects made of a part of a capability.

use crate::errors::Check;
use crate::{Answer, Cap, Model, SlotKey, Words, PAGE};
use captypes::invocations::Part;
use captypes::types::ObjectSize;
use captypes::{op, CapType, ObjectKind, Place, RamAttrs, Rights, Status, Tree};

/// Roots have at most 2^24 slots.
const LARGEST_ROOT: u64 = 64 << 24;
/// Most bytes that are zeroed together.
const MOST_ZEROED: u64 = 1 << 20;
/// Most bytes that one operation copies.
const MOST_COPIED: u64 = 1 << 20;
/// Attributes that objects inherit: the node, and whether memory is persistent.
const INHERITED: u16 = RamAttrs::NODE | RamAttrs::PERSISTENT.0;

fn may_have_size(ty: CapType, bytes: u64) -> bool {
    match ty.object_size() {
        ObjectSize::None => bytes > 0,
        ObjectSize::Fixed(size) => bytes == size,
        ObjectSize::Multiple(unit) => {
            bytes > 0
                && bytes.is_multiple_of(unit)
                && (ty != CapType::L1CNode || bytes <= LARGEST_ROOT)
        }
    }
}

/// What PhysAddr covers is memory only if it is persistent.
fn may_be_made(source: &Cap, ty: CapType) -> bool {
    let is_memory = source.ty == CapType::Ram || source.attrs.has(RamAttrs::PERSISTENT);
    let of_other_boots = source.attrs.has(RamAttrs::PERSISTENT) && ty.is_kernel_object();
    source.ty.can_retype_to(ty) && (ty != CapType::Ram || is_memory) && !of_other_boots
}

/// Is memory zeroed when something of this type is made of it? Persistent memory keeps its contents.
fn is_zeroed(source: &Cap, ty: CapType) -> bool {
    let kept = source.attrs.has(RamAttrs::PERSISTENT);
    source.ty == CapType::Ram && ty != CapType::Ram && !kept
}

/// What a new object may be used for.
fn born_with(kind: ObjectKind) -> Rights {
    if kind.alone {
        Rights::READ.or(Rights::EXEC).or(Rights::WRITE_ALONE)
    } else {
        Rights::ALL
    }
}

/// Would it lead around the rule that a Frame is written to only while nobody else has it?
fn is_way_around(source: &Cap, kind: ObjectKind) -> bool {
    source.is_frame() && (kind.alone || source.rights.has(Rights::WRITE_ALONE))
}

impl Model {
    /// Was something made of `[base, end)` of `source`? The parts of a Frame may be named while it is
    /// mapped or lent.
    pub(crate) fn is_taken(&self, source: &Cap, base: u64, end: u64) -> bool {
        let names = |cap: &Cap| matches!(cap.ty, CapType::Mapping | CapType::Loan);
        let counts = |cap: &&Cap| !source.is_frame() || !names(cap);
        let mut others = self.slots.values().filter(counts);
        others.any(|cap| cap.descends_from(source) && cap.overlaps(base, end))
    }

    pub(crate) fn retype(&mut self, who: usize, target: Place, args: op::Retype) -> Answer {
        let mut check = Check::default();
        let source = check.get(self.used(who, target)).map(|slot| self.slots[&slot]);
        let dst = self.run_to_change(&mut check, who, args.dst, args.count);
        let free = |slot: &SlotKey| !self.slots.contains_key(slot);
        check.demand(dst.iter().flatten().all(free), Status::Occupied);
        check.demand(args.count > 0, Status::OutOfRange);
        check.demand(may_have_size(args.ty.ty, args.bytes), Status::OutOfRange);
        let total = args.bytes.checked_mul(u64::from(args.count));
        let end = total.and_then(|total| args.offset.checked_add(total));
        if let Some(source) = source {
            let aligned = source.ty.tree() != Tree::Memory || args.offset.is_multiple_of(PAGE);
            let inside = aligned && end.is_some_and(|end| end <= source.bytes);
            check.demand(may_be_made(&source, args.ty.ty), Status::WrongType);
            check.demand(!is_way_around(&source, args.ty), Status::NoRights);
            check.demand(inside, Status::OutOfRange);
            if let (true, Some(end)) = (inside, end) {
                let taken = self.is_taken(&source, source.base + args.offset, source.base + end);
                check.demand(!taken, Status::HasDescendants);
            }
        }
        let (source, dst) = check.passed(source.zip(dst))?;
        let of_memory = matches!(source.ty, CapType::Ram | CapType::PhysAddr);
        let first = Cap {
            ty: args.ty.ty,
            base: source.base + args.offset,
            bytes: args.bytes,
            rights: if of_memory { born_with(args.ty) } else { source.rights },
            attrs: RamAttrs(source.attrs.0 & INHERITED),
            badge: 0,
            mapping: None,
        };
        for (n, slot) in dst.into_iter().enumerate() {
            let cap = Cap { base: first.base + n as u64 * args.bytes, ..first };
            self.put(slot, cap);
            if is_zeroed(&source, args.ty.ty) {
                self.forget_contents(cap.base, cap.end());
            }
        }
        Ok(Words::NONE)
    }

    pub(crate) fn retype_many(
        &mut self,
        who: usize,
        target: Place,
        args: op::RetypeMany,
    ) -> Answer {
        let all = [args.p0, args.p1, args.p2, args.p3, args.p4, args.p5, args.p6];
        let parts: Vec<Part> = all.into_iter().take_while(|part| part.count() != 0).collect();
        let count: u32 = parts.iter().map(|part| part.count()).sum();
        let mut check = Check::default();
        let source = check.get(self.used(who, target)).map(|slot| self.slots[&slot]);
        let dst = self.run_to_change(&mut check, who, args.dst, count);
        let free = |slot: &SlotKey| !self.slots.contains_key(slot);
        check.demand(dst.iter().flatten().all(free), Status::Occupied);
        check.demand(parts.iter().all(|part| part.kind().is_some()), Status::Invalid);
        let mut objects = Vec::new();
        if let Some(source) = source {
            objects = self.objects_of(&mut check, &source, &parts);
        }
        let (_, dst) = check.passed(source.zip(dst))?;
        for (slot, cap) in dst.into_iter().zip(objects) {
            self.put(slot, cap);
            if source.is_some_and(|source| is_zeroed(&source, cap.ty)) {
                self.forget_contents(cap.base, cap.end());
            }
        }
        Ok(Words::one(u64::from(count)))
    }

    /// What is made of some parts of a capability, if they are as they must be.
    fn objects_of(&self, check: &mut Check, source: &Cap, parts: &[Part]) -> Vec<Cap> {
        let unit = if source.ty.tree() == Tree::Memory { PAGE } else { 1 };
        let of_memory = matches!(source.ty, CapType::Ram | CapType::PhysAddr);
        let (mut objects, mut end, mut zeroed) = (Vec::new(), 0, 0);
        for part in parts {
            let Some(kind) = part.kind() else { continue };
            let ty = kind.ty;
            check.demand(!is_way_around(source, kind), Status::NoRights);
            let (first, bytes) = (part.first() * unit, part.units() * unit);
            let behind = first + bytes * u64::from(part.count());
            check.demand(may_be_made(source, ty), Status::WrongType);
            check.demand(may_have_size(ty, bytes), Status::OutOfRange);
            check.demand(first >= end && behind <= source.bytes, Status::OutOfRange);
            let taken = self.is_taken(source, source.base + first, source.base + behind);
            check.demand(!taken, Status::HasDescendants);
            if is_zeroed(source, ty) {
                zeroed += behind - first;
            }
            end = behind;
            objects.extend((0..u64::from(part.count())).map(|n| Cap {
                ty,
                base: source.base + first + n * bytes,
                bytes,
                rights: if of_memory { born_with(kind) } else { source.rights },
                attrs: RamAttrs(source.attrs.0 & INHERITED),
                badge: 0,
                mapping: None,
            }));
        }
        check.demand(zeroed <= MOST_ZEROED, Status::OutOfRange);
        objects
    }

    /// Every page in the range is full of zeros.
    fn forget_contents(&mut self, base: u64, end: u64) {
        let pages: Vec<u64> = self.contents.range(base..end).map(|(&page, _)| page).collect();
        for page in pages {
            self.contents.remove(&page);
        }
    }

    pub(crate) fn retype_copy(
        &mut self,
        who: usize,
        target: Place,
        args: op::RetypeCopy,
    ) -> Answer {
        let mut check = Check::default();
        let ram = check.get(self.used(who, target)).map(|slot| self.slots[&slot]);
        let src = check.get(self.used(who, args.src));
        let dst = check.get(self.slot_at(who, args.dst));
        check.get(self.may_change(who, args.dst));
        let frame = src.map(|slot| self.slots[&slot]);
        let in_place = src.is_some() && src == dst;
        if let Some(dst) = dst.filter(|_| !in_place) {
            check.demand(!self.slots.contains_key(&dst), Status::Occupied);
        }
        if let Some(src) = src.filter(|_| in_place) {
            check.demand(self.is_others_too(src), Status::WrongState);
        }
        check.demand(args.bytes > 0 && args.bytes <= MOST_COPIED, Status::OutOfRange);
        let pages_of = |cap: &Cap, offset: u64| {
            let end = offset.checked_add(args.bytes);
            (offset | args.bytes).is_multiple_of(PAGE) && end.is_some_and(|end| end <= cap.bytes)
        };
        if let Some(frame) = frame {
            check.demand(frame.ty == CapType::Frame, Status::WrongType);
            check.demand(frame.rights.has(Rights::READ), Status::NoRights);
            check.demand(pages_of(&frame, args.src_offset), Status::OutOfRange);
        }
        if let Some(ram) = ram {
            let inside = pages_of(&ram, args.offset);
            check.demand(ram.ty == CapType::Ram, Status::WrongType);
            check.demand(inside, Status::OutOfRange);
            let base = ram.base.wrapping_add(args.offset);
            let taken = inside && self.is_taken(&ram, base, base + args.bytes);
            check.demand(!taken, Status::HasDescendants);
        }
        let ((ram, frame), dst) = check.passed(ram.zip(frame).zip(dst))?;
        let (base, from) = (ram.base + args.offset, frame.base + args.src_offset);
        for offset in (0..args.bytes).step_by(PAGE as usize) {
            match self.contents.get(&(from + offset)).copied() {
                Some(word) => self.contents.insert(base + offset, word),
                None => self.contents.remove(&(base + offset)),
            };
        }
        if in_place {
            self.delete_slot(dst);
        }
        let attrs = RamAttrs(ram.attrs.0 & INHERITED);
        let ty = CapType::Frame;
        let (bytes, rights) = (args.bytes, born_with(ObjectKind { ty, alone: args.alone }));
        self.put(dst, Cap { ty, base, bytes, rights, attrs, badge: 0, mapping: None });
        Ok(Words::NONE)
    }
}
