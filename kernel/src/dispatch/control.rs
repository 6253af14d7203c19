//! Invocations of dispatchers: configure, start, suspend, continue.

use super::Local;
use crate::arch;
use crate::cap::{attr, copied_attrs, lookup, CapExt};
use crate::object::dcb::{flag, CSPACE, FAULT_EP, FRAME, VSPACE};
use crate::object::frame::Frame;
use crate::object::{DcbRef, SlotRef, State};
use captypes::invocations::options;
use captypes::{CapType, Rights, Status};
use mdb::RawCap;

/// What a dispatcher is given. `None` leaves what was set before.
#[derive(Clone, Copy, Default)]
pub struct Settings {
    pub cspace: Option<SlotRef>,
    pub vspace: Option<SlotRef>,
    pub frame: Option<SlotRef>,
    pub frame_va: u64,
    pub fault_ep: Option<SlotRef>,
    pub options: u32,
}

impl Settings {
    fn check(&self) -> Result<(), Status> {
        let checks = [
            (self.cspace, CapType::L1CNode),
            (self.vspace, root_type()),
            (self.frame, CapType::Frame),
            (self.fault_ep, CapType::Endpoint),
        ];
        for (slot, ty) in checks {
            let Some(cap) = slot.map(|slot| slot.cap()) else { continue };
            if !cap.is(ty) {
                return Err(Status::WrongType);
            }
            // Another core's objects cannot be used here, only memory.
            if cap.is_foreign() && ty != CapType::Frame {
                return Err(Status::Unsupported);
            }
        }
        let frame = self.frame.map(|slot| slot.cap());
        if frame.is_some_and(|cap| cap.word != paging::PAGE) {
            return Err(Status::OutOfRange);
        }
        let rights = |cap: RawCap, needed| cap.rights_set().has(needed);
        if frame.is_some_and(|cap| !rights(cap, Rights::READ.or(Rights::WRITE)))
            || self.fault_ep.is_some_and(|slot| !rights(slot.cap(), Rights::SEND))
        {
            return Err(Status::NoRights);
        }
        if self.frame.is_some() && self.frame_va >= arch::user_end() {
            return Err(Status::OutOfRange);
        }
        if self.options & !(options::LINUX | options::COPY_VECTOR_STATE | options::SUPERVISED) != 0
        {
            return Err(Status::Invalid);
        }
        Ok(())
    }
}

/// The type of root tables on this machine.
pub(crate) fn root_type() -> CapType {
    match arch::root_level() {
        5 => CapType::Pml5,
        _ => CapType::Pml4,
    }
}

impl Local {
    /// Gives a stopped dispatcher its spaces.
    pub fn configure(
        &mut self,
        invoker: DcbRef,
        dcb: DcbRef,
        settings: Settings,
    ) -> Result<(), Status> {
        if dcb.state.get() != State::Stopped {
            return Err(Status::WrongState);
        }
        settings.check()?;
        if settings.options & options::SUPERVISED != 0 && invoker.has(flag::SUPERVISED) {
            return Err(Status::NoRights);
        }
        let parked = self.dying.last();
        let slots = [
            (CSPACE, settings.cspace),
            (VSPACE, settings.vspace),
            (FRAME, settings.frame),
            (FAULT_EP, settings.fault_ep),
        ];
        for (index, source) in slots {
            let Some(source) = source else { continue };
            self.install(dcb, dcb.slot(index), source)?;
        }
        if settings.frame.is_some() {
            dcb.frame_va.set(settings.frame_va);
            let facts = self.facts;
            let cores = self.cores.len();
            let (address, hz) = (settings.frame_va, facts.tsc_hz);
            let frame = dcb.frame.get();
            frame.set_facts(address, hz, facts.epoch_ns, arch::has_fsgsbase(), cores);
            let own = settings.options & options::LINUX == 0;
            dcb.gs_base.set(if own { arch::canonical(address) } else { 0 });
        }
        self.set_options(invoker, dcb, settings.options);
        // What the slots held before may have been the last capabilities to CNodes. Those of others are
        // not this invocation's business.
        if self.dying.last() == parked {
            return Ok(());
        }
        self.finish_reaping()
    }

    /// Puts a copy of `source` in a slot of the dispatcher.
    fn install(&mut self, dcb: DcbRef, own: SlotRef, source: SlotRef) -> Result<(), Status> {
        self.delete_slot(own)?;
        let cap = source.cap();
        if cap.is_null() {
            // What was deleted just now had the source in it.
            return Err(Status::Empty);
        }
        let attrs = copied_attrs(cap.attrs) | attr::IN_DISPATCHER;
        self.db.insert_copy(source, own, RawCap { attrs, ..cap });
        self.refresh_dispatcher(dcb);
        Ok(())
    }

    fn set_options(&mut self, invoker: DcbRef, dcb: DcbRef, options: u32) {
        dcb.clear(flag::LINUX);
        if options & options::SUPERVISED != 0 {
            dcb.set(flag::SUPERVISED);
        }
        if options & options::LINUX != 0 {
            dcb.set(flag::LINUX | flag::VECTORS);
        }
        if options & options::COPY_VECTOR_STATE != 0 {
            dcb.set(flag::VECTORS);
            self.settle_vectors(dcb, true);
            self.settle_vectors(invoker, false);
            dcb.copy_vectors(&invoker);
            dcb.fs_base.set(arch::read_fs_base());
            dcb.gs_base.set(arch::read_gs_base());
        }
        if dcb.has(flag::VECTORS) && dcb.frame.get().is_some() {
            dcb.frame.get().set_vectors();
        }
    }

    /// Reads again what a dispatcher caches of its slots. One that lost what it needs cannot go on.
    pub(crate) fn refresh_dispatcher(&mut self, dcb: DcbRef) {
        self.bring_home(dcb);
        let own = |index, ty| {
            let cap = dcb.slot(index).cap();
            (cap.is(ty) && cap.attrs & attr::IN_DISPATCHER != 0).then_some(cap)
        };
        let cspace = own(CSPACE, CapType::L1CNode);
        dcb.cspace_base.set(cspace.map_or(0, |cap| cap.base));
        dcb.cspace_slots.set(cspace.map_or(0, |cap| lookup::root_slots(cap.word)));
        dcb.root.set(own(VSPACE, root_type()).map_or(0, |cap| cap.base));
        dcb.frame.set(Frame(own(FRAME, CapType::Frame).map_or(0, |cap| cap.base)));
        if self.current == Some(dcb) && (dcb.root.get() == 0 || !dcb.frame.get().is_some()) {
            self.block();
        }
    }

    /// Makes a stopped dispatcher runnable, with the registers in its frame's save area.
    pub fn start(&mut self, invoker: DcbRef, dcb: DcbRef) -> Result<(), Status> {
        if invoker.has(flag::SUPERVISED) && !dcb.has(flag::SUPERVISED) {
            return Err(Status::NoRights);
        }
        let ready = dcb.root.get() != 0 && dcb.frame.get().is_some();
        if dcb.state.get() != State::Stopped || !ready {
            return Err(Status::WrongState);
        }
        dcb.frame.get().load(&dcb.ctx);
        dcb.clear(flag::SUSPENDED | flag::FAULT | flag::REPEATED);
        self.wake(dcb);
        Ok(())
    }

    /// Stops it where it is, until `Continue`.
    pub fn suspend(&mut self, dcb: DcbRef) -> Result<(), Status> {
        self.bring_home(dcb);
        if dcb.state.get() == State::Stopped {
            return Err(Status::WrongState);
        }
        dcb.set(flag::SUSPENDED);
        self.queue.remove(dcb);
        if self.direct == Some(dcb) {
            self.direct = None;
        }
        if self.current == Some(dcb) {
            self.block();
        }
        Ok(())
    }

    /// Lets a suspended dispatcher go on.
    pub fn resume(&mut self, dcb: DcbRef) -> Result<(), Status> {
        if !dcb.has(flag::SUSPENDED) {
            return Err(Status::WrongState);
        }
        dcb.clear(flag::SUSPENDED);
        if dcb.state.get() == State::Ready {
            self.wake(dcb);
        }
        Ok(())
    }
}
