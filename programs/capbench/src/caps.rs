//! Operations on capabilities and page tables.

use crate::{measure, nothing};
use libos::abi::slots::{KERNEL, VSPACE};
use libos::captypes::invocations::{Counter, MapFlags};
use libos::domain;
use libos::vspace::{entry_of, R, RW, RWX};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Rights, Status};

const PAGE: u64 = 4096;
const VA: u64 = 5 << 39;

pub fn run() -> Result<(), Status> {
    let (ram, free, frames, mappings) = domain::with(|domain| {
        let ram = domain.make(CapType::Ram, 1 << 20)?;
        Ok((ram, domain.slot()?, domain.slot_range(128)?, domain.slot_range(128)?))
    })?;
    plain(ram, free)?;
    let pt = domain::with(|domain| {
        let tables = [CapType::Pdpt, CapType::Pd, CapType::Pt].map(|ty| domain.make(ty, PAGE));
        let [pdpt, pd, pt] = tables;
        let (pdpt, pd, pt) = (pdpt?, pd?, pt?);
        VSPACE.map(entry_of(4, VA), 1, pdpt, 0, RWX, domain.slot()?)?;
        pdpt.map(0, 1, pd, 0, RWX, domain.slot()?)?;
        pd.map(0, 1, pt, 0, RWX, domain.slot()?)?;
        Ok(pt)
    })?;
    mapping(ram, pt, free, frames, mappings)
}

fn plain(ram: CapAddr, free: CapAddr) -> Result<(), Status> {
    let counter = op::ReadCounter { counter: Counter::Invocations as u32 };
    measure("invoke_read_counter", || invoke(KERNEL, counter).map(|_| ()), nothing)?;
    let empty = || match invoke(free, op::Identify {}) {
        Err(Status::Empty) => Ok(()),
        _ => Err(Status::Invalid),
    };
    measure("invoke_empty_slot", empty, nothing)?;
    measure("identify", || ram.identify().map(|_| ()), nothing)?;
    measure("copy", || ram.copy_to(free), || free.delete())?;
    measure("mint", || ram.mint(free, Rights::READ), || free.delete())?;
    measure("copy_and_delete", || ram.copy_to(free).and_then(|()| free.delete()), nothing)?;
    let frame = || ram.retype(CapType::Frame, 0, PAGE, 1, free);
    measure("retype_frame", frame, || free.delete())?;
    frame()?;
    measure("delete_frame", || free.delete(), frame)?;
    free.delete()
}

fn mapping(
    ram: CapAddr,
    pt: CapAddr,
    free: CapAddr,
    frames: CapAddr,
    mappings: CapAddr,
) -> Result<(), Status> {
    ram.retype(CapType::Frame, 0, 128 * PAGE, 1, free)?;
    for (count, map, unmap, protect) in [
        (1, "map_1", "unmap_1", "protect_1"),
        (32, "map_32", "unmap_32", "protect_32"),
        (128, "map_128", "unmap_128", "protect_128"),
    ] {
        let make = || pt.map(0, count, free, 0, RW, mappings);
        measure(map, make, || mappings.delete())?;
        make()?;
        measure(protect, || mappings.protect(0, count, R), || mappings.protect(0, count, RW))?;
        measure(unmap, || mappings.delete(), make)?;
        mappings.delete()?;
    }
    free.delete()?;
    ram.retype(CapType::Frame, 0, PAGE, 128, frames)?;
    for (count, map, protect) in [
        (1, "map_many_1", "protect_many_1"),
        (32, "map_many_32", "protect_many_32"),
        (128, "map_many_128", "protect_many_128"),
    ] {
        let make = || pt.map_many(0, count, frames, RW, mappings).map(|_| ());
        measure(map, make, || mappings.delete_range(count))?;
        make()?;
        measure(
            protect,
            || mappings.protect_many(count, R).map(|_| ()),
            || mappings.protect_many(count, RW).map(|_| ()),
        )?;
        mappings.delete_range(count)?;
    }
    copy_on_write(ram, pt, free, frames, mappings)
}

/// The parts of demand-zero and copy-on-write faults that the kernel does.
fn copy_on_write(
    ram: CapAddr,
    pt: CapAddr,
    free: CapAddr,
    frames: CapAddr,
    mappings: CapAddr,
) -> Result<(), Status> {
    let flags = RW.or(MapFlags::IF_EXCLUSIVE);
    let zero_fill = || {
        ram.retype(CapType::Frame, 200 * PAGE, PAGE, 1, free)?;
        pt.map(0, 1, free, 0, flags, mappings)
    };
    measure("retype_and_map", zero_fill, || free.delete())?;
    let copy = || ram.retype_copy(200 * PAGE, frames, free);
    measure("retype_copy", copy, || free.delete())?;
    let node = domain::with(|domain| {
        let node = Place::l1(CapAddr::NULL, 250);
        libos::ram::Ram::make(&mut domain.arena, CapType::L2CNode, 16 << 10, 1, node)?;
        Ok(CapAddr::new(250, 0))
    })?;
    let range = || frames.copy_range(node, 128, CapType::Frame).map(|_| ());
    measure("copy_range_128", range, || node.delete_range(128))?;
    range()?;
    measure("delete_range_128_copies", || node.delete_range(128), range)?;
    node.delete_range(128)?;
    frames.delete_range(128)
}
