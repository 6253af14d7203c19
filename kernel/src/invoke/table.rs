//! Invocations of page tables and Mappings.

use super::{handlers, run, Outcome};
use crate::cap::lookup::{
    free_slot, held_slot, held_slots, mapping_to_change, slots_to_change, used_slot,
};
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::object::DcbRef;
use crate::operations::{hiding, morsels};
use crate::vspace::{self, MapArgs};
use captypes::invocations::{MappingOp, TableOp, TranslationOp, Value};
use captypes::CapType;

/// Of page tables.
#[inline(always)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: TableOp) -> Outcome {
    match op {
        TableOp::Map => map(local, dcb),
        TableOp::MapMany => map_many(local, dcb),
        TableOp::ReadEntry => read_entry(local, dcb),
        TableOp::ClearStatus => clear_status(local, dcb),
        TableOp::MapZero => map_zero(local, dcb),
    }
}

/// Of Mappings.
#[inline(always)]
pub(super) fn dispatch_mapping(local: &mut CpuDriver, dcb: DcbRef, op: MappingOp) -> Outcome {
    match op {
        MappingOp::Protect => protect(local, dcb),
        MappingOp::ProtectMany => protect_many(local, dcb),
        MappingOp::Unmap => unmap(local, dcb),
        MappingOp::Replace => replace(local, dcb),
        MappingOp::AllowHiding => allow_hiding(local, dcb),
    }
}

/// Of both.
#[inline(always)]
pub(super) fn dispatch_translation(
    local: &mut CpuDriver,
    dcb: DcbRef,
    op: TranslationOp,
) -> Outcome {
    match op {
        TranslationOp::Locate => locate(local, dcb),
    }
}

handlers! {
    map(Map) = |local, d, target, a| {
        let args = MapArgs { entry: a.entry, count: a.count, offset: a.offset, flags: a.flags };
        let (table, src) = (used_slot(d, target)?, held_slot(d, a.src)?);
        let dst = free_slot(&local.caps, d, a.mapping)?;
        if src.slot.cap().is(CapType::Morsel) {
            return morsels::map(local, table, src, args, dst);
        }
        local.vm.map(&mut local.caps, local.sched.vector_unit(), table, src, args, dst)
    };
    map_many(MapMany) = |local, d, target, a| {
        let src = held_slots(d, a.src, a.count)?;
        let dst = slots_to_change(&local.caps, d, a.mapping, a.count)?;
        let (to, unit) = ((used_slot(d, target)?, a.entry), local.sched.vector_unit());
        local.vm.map_many(&mut local.caps, unit, to, src, a.flags, dst)
    };
    read_entry(ReadEntry) = |_local, d, target, a| {
        vspace::read_entry(used_slot(d, target)?, a.entry).map(|value| Value { value })
    };
    clear_status(ClearStatus) = |local, d, target, a| {
        local.vm.clear_status(&local.caps, used_slot(d, target)?, a.entry, a.count, a.bits)
    };
    map_zero(MapZero) = |local, d, target, a| {
        local.vm.map_zero(&local.caps, used_slot(d, target)?, a.entry, a.count, a.flags)
    };
    protect(Protect) = |local, d, target, a| {
        let mapping = mapping_to_change(&local.caps, d, target)?;
        local.vm.protect(&mut local.caps, mapping, a.first, a.count, a.flags)
    };
    protect_many(ProtectMany) = |local, d, target, a| {
        let mappings = slots_to_change(&local.caps, d, target, a.count)?;
        local.vm.protect_many(&mut local.caps, mappings, a.flags)
    };
    unmap(Unmap) = |local, d, target, a| {
        let rest = free_slot(&local.caps, d, a.rest);
        let mapping = mapping_to_change(&local.caps, d, target)?;
        local.vm.unmap(&mut local.caps, mapping, a.first, a.count, rest, a.flags)
    };
    replace(Replace) = |local, d, target, a| {
        let (mapping, src) = (mapping_to_change(&local.caps, d, target)?, held_slot(d, a.src)?);
        if src.slot.cap().is(CapType::Morsel) {
            return morsels::replace(local, mapping, src, a.flags);
        }
        local.vm.replace(&mut local.caps, mapping, src, a.flags)
    };
    allow_hiding(AllowHiding) = |local, d, target, a| {
        let mapping = mapping_to_change(&local.caps, d, target)?;
        hiding::allow(local, mapping, a.allow)
    };
    locate(Locate) = |local, d, target, a| {
        vspace::locate(&local.caps, used_slot(d, target)?, used_slot(d, a.root)?, a.number)
    };
}
