//! Memory that cores share by table, as an object of a pool, beside what they share as Frames. How it is mapped concerns one core
//! only, and costs the same on each: so that is measured here.

use crate::board::Work;
use crate::lab::{make, ram, time, Lab};
use crate::PAGE;
use libos::abi::slots::VSPACE;
use libos::interface::OwnedCap;
use libos::morsel::{MorselCap, Persistence, PoolCap};
use libos::vspace::{entry_of, RW, RWX};
use libos::{domain, Cap, CapAddr, CapType, Status};

const MIB2: u64 = 2 << 20;
/// An address below an upper-level entry that nothing else uses.
const VA: u64 = 4 << 39;

/// A pool with an object of 1 GiB.
pub struct Object {
    object: OwnedCap,
    pool: OwnedCap,
    _ram: OwnedCap,
}

impl Object {
    pub fn new() -> Result<Object, Status> {
        let ram = ram(MIB2)?;
        let [pool, object] = domain::with(|domain| Ok([domain.slot()?, domain.slot()?]))?;
        ram.cap().retype(CapType::Pool, 0, MIB2, 1, pool)?;
        let pool = OwnedCap::own(pool);
        pool.cap().format_pool(Persistence::Caches)?;
        pool.cap().create_morsel(2, object)?;
        Ok(Object { object: OwnedCap::own(object), pool, _ram: ram })
    }
}

/// What other cores have is taken from them; and what goes here concerns none of them.
pub fn revokes(lab: &mut Lab, all: &Object, concerned: u32) -> Result<(), Status> {
    lab.report("revoke_an_object_10_copies_on_each", concerned, |lab, _| {
        lab.order(concerned, Work::KeepTen, &all.object)?;
        let cost = time(|| all.object.cap().revoke())?;
        lab.order_plain(concerned, Work::Drop)?;
        Ok(cost)
    })?;
    lab.report("delete_the_last_of_a_part_here", concerned, |lab, _| {
        let slot = domain::with(|domain| domain.slot())?;
        all.object.cap().part(0, 1, slot)?;
        let part = OwnedCap::own(slot);
        lab.order(concerned, Work::Keep, &part)?;
        let cost = time(|| part.cap().delete())?;
        lab.order_plain(concerned, Work::Drop)?;
        Ok(cost)
    })
}

/// What takes pages away, and what ends an object: where nobody else has it, where others have it, and where they show a page of it
/// alone.
pub fn takes(lab: &mut Lab, all: &Object, concerned: u32) -> Result<(), Status> {
    let object = all.object.cap();
    for (case, work) in
        [("discard_a_page", Work::Keep), ("discard_a_page_that_each_shows_alone", Work::Show)]
    {
        lab.report(case, concerned, |lab, _| {
            object.populate(0, 1, false)?;
            lab.order(concerned, work, &all.object)?;
            let cost = time(|| object.discard_pages(0, 1))?;
            lab.order_plain(concerned, Work::Drop)?;
            Ok(cost)
        })?;
    }
    let slot = domain::with(|domain| domain.slot())?;
    lab.report("snapshot", concerned, |_, _| {
        let cost = time(|| object.snapshot(slot).map(drop))?;
        slot.destroy()?;
        Ok(cost)
    })?;
    lab.report("destroy_what_others_had", concerned, |lab, _| {
        all.pool.cap().create_morsel(2, slot)?;
        let made = OwnedCap::own(slot);
        lab.order(concerned, Work::Keep, &made)?;
        lab.order_plain(concerned, Work::Drop)?;
        core::mem::forget(made);
        time(|| slot.destroy())
    })?;
    domain::free_slot(slot)
}

/// A last-level table, and those above it.
pub struct Table([OwnedCap; 3]);

impl Table {
    /// Where nothing else is.
    pub fn new() -> Result<Table, Status> {
        let slots = domain::with(|domain| domain.slot_range(3))?;
        let (pdpt, pd) = (make(CapType::Pdpt, PAGE)?, make(CapType::Pd, PAGE)?);
        let pt = make(CapType::Pt, PAGE)?;
        VSPACE.map(entry_of(4, VA), 1, pdpt.cap(), 0, RWX, slots)?;
        pdpt.cap().map(0, 1, pd.cap(), 0, RWX, slots.plus(1))?;
        pd.cap().map(0, 1, pt.cap(), 0, RWX, slots.plus(2))?;
        Ok(Table([pdpt, pd, pt]))
    }

    pub fn last(&self) -> CapAddr {
        self.0[2].cap()
    }
}

/// By one entry, and a Frame by pages.
pub fn maps(lab: &mut Lab, all: &Object) -> Result<(), Status> {
    let memory = ram(MIB2)?;
    let slots = domain::with(|domain| domain.slot_range(5))?;
    memory.cap().retype(CapType::Frame, 0, MIB2, 1, slots)?;
    let (pdpt, pd) = (make(CapType::Pdpt, PAGE)?, make(CapType::Pd, PAGE)?);
    let pt = make(CapType::Pt, PAGE)?;
    VSPACE.map(entry_of(4, VA), 1, pdpt.cap(), 0, RWX, slots.plus(1))?;
    pdpt.cap().map(0, 1, pd.cap(), 0, RWX, slots.plus(2))?;
    pd.cap().map(0, 1, pt.cap(), 0, RWX, slots.plus(3))?;
    let mapping = slots.plus(4);
    let cases = [
        ("map_1_GiB_of_an_object", &pdpt, all.object.cap(), 1, 1),
        ("map_2_MiB_of_a_Frame_in_pages", &pt, slots, 0, 512),
        ("map_2_MiB_of_a_Frame_in_one", &pd, slots, 1, 1),
    ];
    for (case, table, what, entry, count) in cases {
        lab.report(case, 0, |_, _| {
            let cost = time(|| table.cap().map(entry, count, what, 0, RW, mapping))?;
            mapping.delete()?;
            Ok(cost)
        })?;
    }
    (0..5).try_for_each(|n| slots.plus(n).delete().or(Ok(())))
}
