//! The operations, each as the paper sets it up.

use crate::board::Work;
use crate::lab::{copies, make, ram, time, Cost, Lab};
use crate::{sharing, PAGE};
use libos::captypes::place::L2_BYTES;
use libos::cores;
use libos::interface::OwnedCap;
use libos::{domain, Cap, CapAddr, CapType, Place, Status};

/// How many other cores are concerned.
const CONCERNED: [u32; 6] = [0, 1, 2, 3, 5, 7];
/// Root index of a CNode that is being filled.
const NODE_L1: u32 = 200;
/// Messages there and back in one measurement.
const PINGS: u32 = 32;

/// Measures everything.
pub fn measure(mut lab: Lab) -> Result<(), Status> {
    channels(&mut lab)?;
    foreign(&mut lab)?;
    let shared = sharing::Object::new()?;
    sharing::maps(&mut lab, &shared)?;
    let others = lab.cores - 1;
    for concerned in CONCERNED.into_iter().filter(|&count| count <= others) {
        deletes(&mut lab, concerned)?;
        revokes(&mut lab, concerned)?;
        retypes(&mut lab, concerned)?;
        objects(&mut lab, concerned)?;
        sharing::takes(&mut lab, &shared, concerned)?;
        sharing::revokes(&mut lab, &shared, concerned)?;
    }
    lab.end()
}

/// What everything is made of: a call to the monitor, and a message to another one with its answer.
fn channels(lab: &mut Lab) -> Result<(), Status> {
    lab.report("call_to_the_monitor", 0, |_, _| time(|| cores::traffic().map(drop)))?;
    lab.report("message_and_answer", 1, |_, _| {
        let cost = time(|| cores::ping(1, PINGS).map(drop))?;
        Ok(cost.divided_by(PINGS.into()))
    })
}

/// What another core owns.
fn foreign(lab: &mut Lab) -> Result<(), Status> {
    lab.report("delete_a_foreign_copy", 1, |lab, _| {
        let kept = lab.foreign_ram()?;
        let copy = OwnedCap::copy_of(kept.cap())?;
        let cost = time(|| copy.cap().delete())?;
        drop((kept, copy));
        clear(lab, 1)?;
        Ok(cost)
    })?;
    lab.report("revoke_a_foreign_copy_with_10_more", 1, |lab, _| {
        let own = lab.foreign_ram()?;
        let more = copies(&own, 10)?;
        let cost = time(|| own.cap().revoke())?;
        drop((own, more));
        clear(lab, 1)?;
        Ok(cost)
    })
}

/// Other cores give up all that they have kept.
fn clear(lab: &mut Lab, concerned: u32) -> Result<(), Status> {
    lab.order_plain(concerned, Work::Drop)
}

fn deletes(lab: &mut Lab, concerned: u32) -> Result<(), Status> {
    lab.report("delete_a_copy_of_many", concerned, |lab, _| {
        let ram = ram(PAGE)?;
        let copy = OwnedCap::copy_of(ram.cap())?;
        lab.order(concerned, Work::Keep, &ram)?;
        let cost = time(|| copy.cap().delete())?;
        drop(ram);
        clear(lab, concerned)?;
        Ok(cost)
    })?;
    lab.report("delete_the_last_copy_here", concerned, |lab, _| {
        let ram = ram(PAGE)?;
        lab.order(concerned, Work::Keep, &ram)?;
        let cost = time(|| ram.cap().delete())?;
        clear(lab, concerned)?;
        Ok(cost)
    })
}

fn revokes(lab: &mut Lab, concerned: u32) -> Result<(), Status> {
    lab.report("revoke_10_copies_on_each", concerned, |lab, _| {
        let ram = ram(PAGE)?;
        let more = copies(&ram, 10)?;
        lab.order(concerned, Work::KeepTen, &ram)?;
        let cost = time(|| ram.cap().revoke())?;
        drop((ram, more));
        clear(lab, concerned)?;
        Ok(cost)
    })
}

fn retypes(lab: &mut Lab, concerned: u32) -> Result<(), Status> {
    let ram = ram(4 << 20)?;
    lab.order(concerned, Work::Divide, &ram)?;
    lab.report("retype_beside_descendants", concerned, |_, round| {
        let frame = domain::with(|domain| domain.slot())?;
        let cost = time(|| ram.cap().retype(CapType::Frame, round * PAGE, PAGE, 1, frame))?;
        drop(OwnedCap::own(frame));
        Ok(cost)
    })?;
    drop(ram);
    clear(lab, concerned)
}

/// Objects that cannot move to another core.
fn objects(lab: &mut Lab, concerned: u32) -> Result<(), Status> {
    lab.report("delete_a_CNode_with_4_in_use", concerned, |lab, _| {
        let node = node_with(4)?;
        delete_object(lab, concerned, node)
    })?;
    lab.report("delete_a_dispatcher", concerned, |lab, _| {
        let dispatcher = make(CapType::Dispatcher, PAGE)?;
        delete_object(lab, concerned, dispatcher)
    })
}

fn delete_object(lab: &mut Lab, concerned: u32, object: OwnedCap) -> Result<Cost, Status> {
    lab.order(concerned, Work::Keep, &object)?;
    let cost = time(|| object.cap().delete())?;
    clear(lab, concerned)?;
    Ok(cost)
}

/// A CNode with RAM in so many slots, of which there is nothing else.
fn node_with(used: u32) -> Result<OwnedCap, Status> {
    let place = Place::l1(CapAddr::NULL, NODE_L1);
    let made = make(CapType::L2CNode, L2_BYTES)?;
    made.cap().copy_to(place)?;
    for n in 0..used {
        ram(PAGE)?.cap().move_to(CapAddr::new(NODE_L1, n))?;
    }
    place.delete()?;
    Ok(made)
}
