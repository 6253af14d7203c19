//! Invocations of dispatchers: configure, start, suspend, continue.

use super::queue::PROGRAMS;
use super::Scheduler;
use crate::arch;
use crate::cap::{attr, lookup, CapExt};
use crate::object::dcb::{flag, CSPACE, FRAME, VSPACE};
use crate::object::frame::Frame;
use crate::object::{DcbRef, State};
use captypes::invocations::options;
use captypes::{CapType, Status};

/// The type of root tables on this machine.
pub fn root_type() -> CapType {
    match arch::root_level() {
        5 => CapType::Pml5,
        _ => CapType::Pml4,
    }
}

/// A dispatcher has another frame.
fn share(before: Frame, now: Frame) {
    if now.is_some() {
        arch::share(now.0);
    }
    if before.is_some() {
        arch::unshare(before.0);
    }
}

impl Scheduler {
    /// Sets what `Configure` says beside the spaces.
    pub fn set_options(&mut self, invoker: DcbRef, dcb: DcbRef, options: u32) {
        dcb.clear(flag::LINUX);
        if options & options::SUPERVISED != 0 {
            dcb.set(flag::SUPERVISED);
            dcb.share.buckets.set(PROGRAMS);
        }
        if options & options::LINUX != 0 {
            dcb.set(flag::LINUX | flag::VECTORS);
        }
        if options & options::COPY_VECTOR_STATE != 0 {
            dcb.set(flag::VECTORS);
            self.registers.settle_vectors(dcb, true);
            self.registers.settle_vectors(invoker, false);
            dcb.copy_vectors(&invoker);
            dcb.bases.fs.set(arch::read_fs_base());
            dcb.bases.gs.set(arch::read_gs_base());
        }
        if dcb.has(flag::VECTORS) && dcb.frame.get().is_some() {
            dcb.frame.get().set_vectors();
        }
    }

    /// Reads again what a dispatcher caches of its slots. One that lost what it needs cannot go on.
    pub fn refresh_dispatcher(&mut self, dcb: DcbRef) {
        self.bring_home(dcb);
        let own = |index, ty| {
            let cap = dcb.slot(index).cap();
            (cap.is(ty) && cap.attrs & attr::IN_DISPATCHER != 0).then_some(cap)
        };
        let cspace = own(CSPACE, CapType::L1CNode);
        dcb.cspace_base.set(cspace.map_or(0, |cap| cap.base));
        dcb.cspace_slots.set(cspace.map_or(0, |cap| lookup::root_slots(cap.word)));
        dcb.root.set(own(VSPACE, root_type()).map_or(0, |cap| cap.base));
        let before = dcb.frame.get();
        dcb.frame.set(Frame(own(FRAME, CapType::Frame).map_or(0, |cap| cap.base)));
        if arch::SPARSE && before != dcb.frame.get() {
            share(before, dcb.frame.get());
        }
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
        dcb.clear(flag::FAULT | flag::REPEATED | flag::CONFIGURING);
        // One that somebody has stopped before waits for `Continue`.
        self.wake(dcb);
        Ok(())
    }

    /// Stops it where it is, until `Continue`.
    pub fn suspend(&mut self, dcb: DcbRef) -> Result<(), Status> {
        if dcb.trip.abroad.get() {
            // It does not run there. The call goes on, as it would at home.
            dcb.trip.held.set(true);
            return Ok(());
        }
        self.bring_home(dcb);
        dcb.set(flag::SUSPENDED);
        if dcb.state.get() == State::Stopped {
            // Whoever starts it need not have heard of this.
            return Err(Status::WrongState);
        }
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
        if dcb.trip.abroad.get() {
            return if dcb.trip.held.replace(false) { Ok(()) } else { Err(Status::WrongState) };
        }
        if !dcb.has(flag::SUSPENDED) {
            return Err(Status::WrongState);
        }
        dcb.clear(flag::SUSPENDED);
        match dcb.state.get() {
            State::Stopped => return Err(Status::WrongState),
            State::Ready => self.wake(dcb),
            _ => {}
        }
        Ok(())
    }
}
