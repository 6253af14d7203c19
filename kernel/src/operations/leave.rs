//! What a core cannot delete alone, and leaves to its monitor.

use super::delete::{drop_slot, unmap_uncovered};
use super::morsels::unmap_morsel;
use crate::cap::budget::{Pause, Progress};
use crate::cap::{attr, copied_attrs, CapExt, CapSpace};
use crate::driver::CpuDriver;
use crate::ipc::Monitor;
use crate::object::{Obj, SlotRef, SlotRun};
use captypes::place::L2_SLOTS;
use captypes::{CapType, Rights};
use mdb::RawCap;

/// Takes what `slot`, in a container that is being emptied, holds, and leaves it to the monitor.
#[inline(never)]
pub fn leave_slot(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    let (index, free) = free_left(&cpu.caps, &cpu.monitor)?;
    let cap = slot.cap();
    cpu.caps.relocate(slot, free);
    if cap.attrs & attr::IN_DISPATCHER != 0 {
        free.set_rights(cap.rights, copied_attrs(cap.attrs));
        cpu.sched.refresh_dispatcher(Obj::around(slot));
    }
    cpu.monitor.tell(index, &mut cpu.sched);
    Ok(())
}

/// The same with the memory of an emptied container, as RAM.
#[inline(never)]
pub fn leave_memory(cpu: &mut CpuDriver, container: &RawCap) -> Progress {
    let (index, free) = free_left(&cpu.caps, &cpu.monitor)?;
    let ram = RawCap {
        ty: CapType::Ram as u8,
        rights: Rights::ALL.0,
        attrs: copied_attrs(container.attrs),
        aux: 0,
        ..*container
    };
    cpu.caps.db.insert(free, ram);
    cpu.monitor.tell(index, &mut cpu.sched);
    Ok(())
}

/// Leaves what stands for all objects of a pool, some of which other cores may have, so that the monitors delete them there.
pub fn leave_objects(cpu: &mut CpuDriver, all: RawCap) -> Progress {
    let (index, free) = free_left(&cpu.caps, &cpu.monitor)?;
    cpu.caps.db.insert(free, all);
    cpu.monitor.tell(index, &mut cpu.sched);
    Ok(())
}

/// A free slot of the monitor; without one, somebody must wait until there is.
fn free_left(caps: &CapSpace, monitor: &Monitor) -> Result<(u32, SlotRef), Pause> {
    let slots = left_slots(caps, monitor).ok_or(Pause::Again)?;
    let free = slots.iter().zip(0..).find(|(slot, _)| slot.is_empty());
    free.map(|(slot, index)| (index, slot)).ok_or(Pause::Again)
}

/// Is there no room for what must be left to the monitor, until that has deleted something?
pub fn is_full(caps: &CapSpace, monitor: &Monitor) -> bool {
    left_slots(caps, monitor).is_some_and(|slots| slots.iter().all(|slot| !slot.is_empty()))
}

/// The slots of the monitor, as long as it has them.
fn left_slots(caps: &CapSpace, monitor: &Monitor) -> Option<SlotRun> {
    let base = monitor.get()?.left;
    let holder = caps.container_at(base)?;
    let whole = holder.is(CapType::L2CNode) && holder.attrs & attr::PARKED == 0;
    (whole && holder.base == base).then(|| SlotRun::new(base, 0, L2_SLOTS))
}

/// The next slot in which something was left for the monitor, if it does not know of it.
pub fn next_left(caps: &CapSpace, monitor: &mut Monitor) -> Option<SlotRef> {
    let slots = left_slots(caps, monitor)?;
    monitor.next_news().map(|index| slots.get(index))
}

/// Removes the last capability here to what another core owns. The object stays, but what is
/// mapped here by it is unmapped.
#[inline(never)]
pub fn drop_foreign(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    let cap = &slot.cap();
    if cap.is(CapType::Irq) {
        cpu.irqs.unbind(crate::dispatch::lines(cap));
    }
    if cap.is_frame() {
        let above = cpu.caps.db.nearest_ancestor(slot).map(|above| above.cap());
        unmap_uncovered(cpu, slot, cap, above.as_ref())?;
    }
    if cap.is(CapType::Morsel) {
        unmap_morsel(cpu, slot, cap)?;
    }
    drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
    Ok(())
}
