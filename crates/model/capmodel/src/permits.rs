//! Which operations are left out: those that would end the experiment, and those of which the rules do
//! not say what comes out.

use crate::random::is_known;
use crate::{Cap, Model, Operation, SlotKey};
use captypes::{op, CapType, Invocation, Label, Place, Rights, Status};

impl Model {
    /// Is the slot one that the executors live on?
    pub fn is_given(&self, key: SlotKey) -> bool {
        self.executors.iter().any(|own| key.0 == own.node || key == (own.root, 0))
    }

    fn is_executor(&self, cap: &Cap) -> bool {
        let dispatchers = || self.executors.iter().map(|own| own.dispatcher);
        cap.ty == CapType::Dispatcher && dispatchers().any(|own| own == cap.base)
    }

    /// Is there a container in this slot of executor `who`?
    pub fn has_container(&self, who: usize, place: Place) -> bool {
        self.used(who, place).is_ok_and(|slot| self.slots[&slot].is_container())
    }

    /// Do these slots leave the executors what they live on?
    fn spares(&self, who: usize, place: Place, count: u32) -> bool {
        match self.run(who, place, count.min(1 << 14)) {
            Ok(slots) => !slots.into_iter().any(|key| self.is_given(key)),
            Err(_) => true,
        }
    }

    /// Is it certain how far a DeleteRange comes? It ends at a Mapping whose entries may not change;
    /// whether they may can depend on a container before it, whose contents go sooner or later.
    fn ends_at_a_certain_slot(&self, who: usize, place: Place, count: u32) -> bool {
        let Ok(slots) = self.run(who, place, count.min(1 << 14)) else { return true };
        let caps = || slots.iter().filter_map(|slot| self.slots.get(slot));
        !caps().any(|cap| cap.is_container())
            || caps().all(|cap| cap.mapping.is_none_or(|mapping| !mapping.in_alone))
    }

    /// Is what is deleted not on the way to the slots itself? How far that comes is open.
    fn keeps_the_way_to(&self, who: usize, place: Place, count: u32) -> bool {
        let Ok(slots) = self.run(who, place, count.min(1 << 14)) else { return true };
        let caps = || slots.iter().filter_map(|slot| self.slots.get(slot));
        if !caps().any(Cap::is_container) {
            return true;
        }
        let mut after = self.clone();
        slots.iter().for_each(|&slot| after.delete_slot(slot));
        after.run(who, place, count).is_ok()
    }

    /// May executor `who` try this?
    pub fn permits(&self, who: usize, operation: &Operation) -> bool {
        let (target, words) = (operation.target, &operation.args);
        let Some(label) = Label::from_u16(operation.label) else { return true };
        if !is_known(label) {
            return false;
        }
        let invoked = self.used(who, target).ok().map(|key| (key, self.slots[&key]));
        let is = |ty: CapType| invoked.is_some_and(|(_, cap)| cap.ty == ty);
        let invoked_spared = invoked.is_none_or(|(key, _)| !self.is_given(key));
        macro_rules! args {
            ($op:ident) => {
                match op::$op::decode(words) {
                    Ok(args) => args,
                    Err(_) => return true,
                }
            };
        }
        if invoked.is_some_and(|(_, cap)| self.is_executor(&cap)) && label as u16 >= 40 {
            return false;
        }
        match label {
            Label::Copy => self.spares(who, args!(Copy).dst, 1),
            Label::Mint => self.spares(who, args!(Mint).dst, 1),
            Label::Move => invoked_spared && self.spares(who, args!(Move).dst, 1),
            Label::Delete | Label::Protect => invoked_spared,
            Label::Unmap => invoked_spared && self.spares(who, args!(Unmap).rest, 1),
            Label::DeleteRange => {
                let count = args!(DeleteRange).count;
                self.spares(who, target, count)
                    && self.ends_at_a_certain_slot(who, target, count)
                    && self.keeps_the_way_to(who, target, count)
            }
            Label::Revoke => match invoked {
                Some((key, cap)) if cap.rights.has(Rights::REVOKE) => {
                    !self.is_given(key) && self.may_revoke(key)
                }
                _ => true,
            },
            Label::Retype => {
                let args = args!(Retype);
                let bytes = args.bytes.saturating_mul(u64::from(args.count));
                self.spares(who, args.dst, args.count)
                    && invoked
                        .is_none_or(|(_, cap)| self.may_take(&cap, args.offset, bytes, args.ty.ty))
            }
            Label::RetypeCopy => {
                let args = args!(RetypeCopy);
                let ty = CapType::Frame;
                self.spares(who, args.dst, 1)
                    && invoked
                        .is_none_or(|(_, cap)| self.may_take(&cap, args.offset, args.bytes, ty))
            }
            Label::RetypeMany => {
                let args = args!(RetypeMany);
                let parts = [args.p0, args.p1, args.p2, args.p3, args.p4, args.p5, args.p6];
                let count = parts.iter().map(|part| part.count()).sum();
                // Of what is not ours alone one part at a time is enough.
                let ours = |cap: &Cap| !cap.is_home() && !self.in_homeland(cap);
                self.spares(who, args.dst, count) && invoked.is_none_or(|(_, cap)| ours(&cap))
            }
            Label::NewId => self.spares(who, args!(NewId).dst, 1),
            Label::Resize => {
                let args = args!(Resize);
                let other = self.used(who, args.root).ok();
                invoked_spared
                    && self.spares(who, args.root, 1)
                    && other.zip(invoked).is_none_or(|(new, (old, _))| self.may_resize(old, new))
            }
            Label::CopyRange => {
                let args = args!(CopyRange);
                self.spares(who, args.dst, args.count)
            }
            Label::Lend => {
                let args = args!(Lend);
                let copies =
                    args.copies == Place::NULL || self.spares(who, args.copies, args.count);
                self.spares(who, args.dst, args.count) && copies
            }
            Label::Recall => self.spares(who, target, args!(Recall).count),
            Label::CopyOut => {
                let args = args!(CopyOut);
                self.knows_memory(who, args.to, args.bytes, true)
            }
            Label::CopyIn => {
                let args = args!(CopyIn);
                self.knows_memory(who, args.from, args.bytes, false)
            }
            Label::Map => self.spares(who, args!(Map).mapping, 1),
            Label::MapMany => {
                let args = args!(MapMany);
                self.spares(who, args.mapping, args.count)
            }
            // Would run somebody, or wait.
            Label::Start => !(is(CapType::Dispatcher) && self.could_start(invoked_base(invoked))),
            Label::Reply => !is(CapType::Dispatcher),
            Label::Call => self.endpoint_error(who, target, Rights::SEND).is_some(),
            Label::ReplyRecv => self.endpoint_error(who, target, Rights::RECV).is_some(),
            // Would end the machine, write to its log, or take the interrupt lines of others.
            Label::Shutdown | Label::Log | Label::NotifyReclaimed | Label::CheckInvariants => {
                !is(CapType::Kernel)
            }
            // Would call an executor out of turn.
            Label::Notify => args!(Notify).bits & lockstep::TURN == 0,
            Label::IrqBind => !is(CapType::Irq),
            _ => true,
        }
    }

    /// Does revoking spare what executors live on, and the slot itself? It may be in something that
    /// was made of what it holds; how far that comes is open.
    fn may_revoke(&self, slot: SlotKey) -> bool {
        let after = self.after_revoking(slot);
        let mut given = self.slots.keys().filter(|&&key| key == slot || self.is_given(key));
        given.all(|key| after.slots.contains_key(key))
    }

    /// A root that is exchanged must not be on the way to the slots that are named, nor hold what
    /// executors live on.
    fn may_resize(&self, old: SlotKey, new: SlotKey) -> bool {
        let (root, next) = (self.slots[&old].base, self.slots[&new].base);
        let holds = |base: u64| [old, new].iter().any(|key| key.0 == base);
        let of_executor = |base: u64| self.executors.iter().any(|own| own.root == base);
        !holds(root) && !holds(next) && !of_executor(root) && !of_executor(next)
    }

    fn endpoint_error(&self, who: usize, place: Place, right: Rights) -> Option<Status> {
        let key = match self.used(who, place) {
            Ok(key) => key,
            Err(status) => return Some(status),
        };
        let cap = &self.slots[&key];
        match cap.ty {
            CapType::Endpoint if cap.rights.has(right) => None,
            CapType::Endpoint => Some(Status::NoRights),
            _ => Some(Status::WrongType),
        }
    }

    /// Of the home only a part is for us, and of that nothing that is on its way back: the list of
    /// such memory is kept inside of it. No containers there, as one in a cycle would never come back.
    /// Of everything not more than is cleared in a moment.
    fn may_take(&self, source: &Cap, offset: u64, bytes: u64, ty: CapType) -> bool {
        const MOST: u64 = 4 << 20;
        let clears = source.ty == CapType::Ram && ty != CapType::Ram;
        if clears && bytes > MOST && bytes <= source.bytes {
            return false;
        }
        if !source.is_home() && !self.in_homeland(source) {
            return true;
        }
        let Some(base) = source.base.checked_add(offset) else { return true };
        let end = base.saturating_add(bytes);
        let ours = self.homeland.start <= base && end <= self.homeland.end;
        (ours || end > source.end()) && !ty.is_container() && !self.is_returned(base, end)
    }

    fn in_homeland(&self, cap: &Cap) -> bool {
        self.homeland.start <= cap.base && cap.end() <= self.homeland.end
    }
}

fn invoked_base(invoked: Option<(SlotKey, Cap)>) -> u64 {
    invoked.map_or(0, |(_, cap)| cap.base)
}
