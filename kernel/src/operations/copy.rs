//! Copies of pages: what copy-on-write asks for.

use super::delete::delete_slot;
use super::leave::leave_slot;
use super::morsels::copy_page;
use crate::cap::alone::Held;
use crate::cap::asks::concerns_others;
use crate::cap::budget::Progress;
use crate::cap::{attr, made_attrs, memory_cap, CapExt};
use crate::driver::CpuDriver;
use crate::object::{mem, SlotRef, SlotRun};
use captypes::invocations::Counter;
use captypes::{op, CapType, ObjectKind, Rights, Status};
use paging::PAGE;

/// Most bytes that one invocation copies.
const MOST_COPIED: u64 = 1 << 20;

/// Makes a Frame of `bytes` at `offset` of the RAM in `ram`, with the contents of a part of
/// another Frame; see [`captypes::op::RetypeCopy`].
#[inline]
pub fn retype_copy(
    cpu: &mut CpuDriver,
    ram: SlotRef,
    from: Held,
    dst: SlotRef,
    args: op::RetypeCopy,
) -> Result<(), Status> {
    let frame = from.slot.cap();
    // The answer to most faults after a fork: looked for before anything else.
    if dst == from.slot && frame.is(CapType::Frame) && cpu.caps.is_nobody_elses(from, &frame) {
        return Err(Status::WrongState);
    }
    make_copy(cpu, ram, from, dst, args)
}

#[inline(never)]
fn make_copy(
    cpu: &mut CpuDriver,
    ram: SlotRef,
    from: Held,
    dst: SlotRef,
    args: op::RetypeCopy,
) -> Result<(), Status> {
    let op::RetypeCopy { offset, src_offset, bytes, alone, .. } = args;
    let original = from.slot;
    let (source, frame) = (ram.cap(), original.cap());
    let is_morsel = frame.is(CapType::Morsel);
    if source.kind() != CapType::Ram || !frame.is(CapType::Frame) && !is_morsel {
        return Err(Status::WrongType);
    }
    if is_morsel && dst == original {
        return Err(Status::Occupied);
    }
    if !frame.rights_set().has(Rights::READ) {
        return Err(Status::NoRights);
    }
    let are_pages = |offset: u64, size: u64| {
        (offset | bytes) & (PAGE - 1) == 0 && offset < size && bytes <= size - offset
    };
    let has = if is_morsel { frame.word.saturating_mul(PAGE) } else { frame.word };
    let right_size = bytes != 0 && bytes <= MOST_COPIED;
    if !right_size || !are_pages(offset, source.word) || !are_pages(src_offset, has) {
        return Err(Status::OutOfRange);
    }
    let base = source.base + offset;
    let near = cpu.caps.free_range(ram, &source, base, bytes)?;
    cpu.caps.check_source(ram, &source, base, bytes)?;
    if is_morsel {
        for at in (0..bytes).step_by(PAGE as usize) {
            copy_page(cpu, &frame, (src_offset + at) / PAGE, base + at)?;
        }
    } else {
        let _allowed = cpu.sched.vector_unit().borrow();
        for at in (0..bytes).step_by(PAGE as usize) {
            mem::copy_page(base + at, frame.base + src_offset + at);
        }
    }
    if dst == original {
        cpu.core.add(Counter::PageCopies, bytes / PAGE);
        remove_original(cpu, original)?;
    }
    let attrs = made_attrs(source.attrs);
    let rights = ObjectKind { ty: CapType::Frame, alone }.rights();
    let cap = memory_cap(CapType::Frame as u8, rights, attrs, base, bytes);
    // Deleting the original may have taken what was near.
    let near = if near.is_empty() { ram } else { near };
    cpu.caps.db.insert_objects(SlotRun::one(dst), cap, bytes, near, &source);
    Ok(())
}

/// Removes what the copy takes the place of. What other cores have to do with is left to the monitor: if this invocation asked for
/// it, that would be done before the copy or instead of it, and what the copy itself asked for would be forgotten.
fn remove_original(cpu: &mut CpuDriver, original: SlotRef) -> Progress {
    let cap = original.cap();
    let is_last = !cpu.caps.db.has_copies(original);
    if is_last && cap.has_remote(attr::REMOTE) {
        cpu.caps.check_delete(original)?;
        if concerns_others(&cpu.caps, original) {
            return leave_slot(cpu, original);
        }
    }
    delete_slot(cpu, original)
}
