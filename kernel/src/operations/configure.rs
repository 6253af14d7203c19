//! What dispatchers are given.

use super::delete::{delete_slot, finish_reaping};
use crate::arch;
use crate::cap::{attr, copied_attrs, CapExt};
use crate::dispatch::root_type;
use crate::driver::CpuDriver;
use crate::object::dcb::{flag, CSPACE, FAULT_EP, FRAME, VSPACE};
use crate::object::{DcbRef, SlotRef, State};
use captypes::invocations::options;
use captypes::{CapType, RamAttrs, Rights, Status};
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
            // Another core's tables and CNodes cannot be used here.
            if cap.is_foreign() && matches!(ty, CapType::L1CNode | CapType::Pml4 | CapType::Pml5) {
                return Err(Status::Unsupported);
            }
        }
        let frame = self.frame.map(|slot| slot.cap());
        // The kernel's own map shows frames of dispatchers, and need not show persistent memory.
        if frame.is_some_and(|cap| cap.ram_attrs().has(RamAttrs::PERSISTENT)) {
            return Err(Status::WrongType);
        }
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

/// Gives a stopped dispatcher its spaces.
pub fn configure(
    cpu: &mut CpuDriver,
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
    let parked = cpu.caps.dying.last();
    let slots = [
        (CSPACE, settings.cspace),
        (VSPACE, settings.vspace),
        (FRAME, settings.frame),
        (FAULT_EP, settings.fault_ep),
    ];
    for (index, source) in slots {
        let Some(source) = source else { continue };
        install(cpu, dcb, dcb.slot(index), source)?;
    }
    if settings.frame.is_some() {
        dcb.frame_va.set(settings.frame_va);
        let facts = cpu.sched.facts();
        let cores = cpu.core.cores.len();
        let (address, hz) = (settings.frame_va, facts.tsc_hz);
        let frame = dcb.frame.get();
        frame.set_facts(address, hz, facts.epoch_ns, arch::has_fsgsbase(), cores);
        let own = settings.options & options::LINUX == 0;
        dcb.bases.gs.set(if own { arch::canonical(address) } else { 0 });
    }
    cpu.sched.set_options(invoker, dcb, settings.options);
    // What the slots held before may have been the last capabilities to CNodes. Those of others are
    // not this invocation's business, unless it is a repetition: then these may be what it replaced.
    if cpu.caps.dying.last() == parked && !invoker.has(flag::CONFIGURING) {
        return Ok(());
    }
    finish_reaping(cpu)
}

/// Puts a copy of `source` in a slot of the dispatcher.
fn install(cpu: &mut CpuDriver, dcb: DcbRef, own: SlotRef, source: SlotRef) -> Result<(), Status> {
    delete_slot(cpu, own)?;
    let cap = source.cap();
    if cap.is_null() {
        // What was deleted just now had the source in it.
        return Err(Status::Empty);
    }
    let attrs = copied_attrs(cap.attrs) | attr::IN_DISPATCHER;
    cpu.caps.db.insert_copy(source, own, RawCap { attrs, ..cap });
    cpu.sched.refresh_dispatcher(dcb);
    Ok(())
}
