//! Two address spaces: a child domain made of this program's own file, Frames mapped in both, and
//! one page table in both.

use crate::probe::{self, make_tables, probe_in, Access, Seen, PT, VA, WRITTEN};
use crate::setup::{slot, Lab};
use crate::threads::{self, Spaces, EP};
use crate::Test;
use libos::abi::slots::{ROOT, SELF_EP, VSPACE};
use libos::domain;
use libos::ipc::{call, Caps};
use libos::runtime::{stop, Start};
use libos::spawn::{image::ImageError, Child, SpawnError};
use libos::vspace::{entry_of, R, RW, RWX};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Failure, Outcome};

pub const TESTS: &[Test] = &[
    ("spawn", spawn),
    ("spawn_refuses", spawn_refuses),
    ("shared_frame", shared_frame),
    ("shared_table", shared_table),
    ("shared_table_dies", shared_table_dies),
    ("shared_table_read_only", shared_table_read_only),
];

/// First argument of a start as a child.
pub const CHILD: u64 = 0x63_6869_6c64;

/// What a child does: reports its arguments and a static variable, and stops.
pub fn child_main(start: &Start) -> ! {
    let [_, b, c, d, e] = start.args;
    let sum = b + c + d + e;
    let _ = call(SELF_EP, [sum, start.args[1], 0, 0, 0, 0], Caps::NONE, Place::NULL);
    stop()
}

const CHILD_ROOT: CapAddr = slot(210);
const CHILD_DISPATCHER: CapAddr = slot(211);

fn make_child(lab: &mut Lab) -> Result<Child, SpawnError> {
    let mut error = None;
    let child = domain::with(|domain| {
        let arena = &mut domain.arena;
        let built =
            Child::build(lab.own_file, CHILD_ROOT, CHILD_DISPATCHER, arena, &mut lab.window);
        built.map_err(|why| {
            error = Some(why);
            Status::Invalid
        })
    });
    child.map_err(|status| error.unwrap_or(SpawnError::Status(status)))
}

fn failure(what: &'static str) -> Failure {
    Failure { line: line!(), what, status: None }
}

pub fn child(lab: &mut Lab) -> Result<Child, Failure> {
    make_child(lab).map_err(|_| failure("the child cannot be built"))
}

fn spawn(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    let child = child(lab)?;
    good!(EP.mint_badged(child.slot(SELF_EP), Rights::SEND, 5));
    good!(child.start([CHILD, 1, 20, 300, 4000], EP.into(), &mut lab.window));
    let message = good!(threads::hear());
    check!(!message.is_fault() && message.badge == 5);
    check!(message.words[..2] == [4321, 1]);
    good!(libos::ipc::reply(Place::CALLER, [0; 6], Caps::NONE));
    good!(child.destroy());
    fails!(Empty, CHILD_ROOT.identify());
    fails!(Empty, CHILD_DISPATCHER.identify());
    Ok(())
}

fn spawn_refuses(lab: &mut Lab) -> Outcome {
    let file = core::mem::replace(&mut lab.own_file, b"#!/bin/sh");
    let result = make_child(lab);
    lab.own_file = file;
    check!(matches!(result, Err(SpawnError::Image(ImageError::NotElf))));
    Ok(())
}

/// Tables for [`VA`] in the child, with the last-level table taken from `pt`.
fn map_in_child(lab: &Lab, child: &Child, pt: CapAddr, second: CapAddr) -> Result<(), Status> {
    lab.make(CapType::Pdpt, 8 << 20, PAGE, slot(100))?;
    lab.make(CapType::Pd, (8 << 20) + PAGE, PAGE, slot(101))?;
    child.slot(VSPACE).map(entry_of(4, VA), 1, slot(100), 0, RWX, slot(102))?;
    slot(100).map(0, 1, slot(101), 0, RWX, slot(103))?;
    slot(101).map(0, 1, pt, 0, RWX, second)
}

pub fn in_child(child: &Child) -> Spaces {
    Spaces { cspace: ROOT.into(), vspace: child.root_table() }
}

/// `test` in a second address space that has [`PT`] at [`VA`] as well.
pub fn with_shared_table(lab: &mut Lab, test: impl FnOnce(&mut Lab, Spaces) -> Outcome) -> Outcome {
    let child = child(lab)?;
    good!(map_in_child(lab, &child, PT, slot(105)));
    test(lab, in_child(&child))?;
    good!(child.destroy());
    Ok(())
}

fn shared_frame(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    let child = child(lab)?;
    let there = in_child(&child);
    good!(lab.make(CapType::Pt, 9 << 20, PAGE, slot(104)));
    good!(map_in_child(lab, &child, slot(104), slot(105)));
    good!(lab.make(CapType::Frame, 0, 2 * PAGE, slot(0)));
    good!(slot(0).mint(slot(1), Rights::READ));
    good!(PT.map(0, 2, slot(0), 0, RW, slot(2)));
    good!(slot(104).map(0, 2, slot(1), 0, R, slot(3)));
    check!(good!(probe::probe(lab, VA, Access::Write)).is_done());
    check!(good!(probe_in(lab, there, VA, Access::Read)) == Seen::Done(WRITTEN));
    check!(good!(probe_in(lab, there, VA, Access::Write)).is_forbidden(VA, Access::Write));
    // Revoked here, gone there.
    good!(slot(0).revoke());
    check!(good!(probe_in(lab, there, VA, Access::Read)).is_absent(VA, Access::Read));
    check!(good!(probe::probe(lab, VA, Access::Read)).is_absent(VA, Access::Read));
    good!(child.destroy());
    Ok(())
}

/// The mechanism of fork: one table in two trees, with its own rights in each.
fn shared_table(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    let child = child(lab)?;
    let there = in_child(&child);
    good!(map_in_child(lab, &child, PT, slot(105)));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 4, slot(0)));
    check!(good!(PT.map_many(0, 4, slot(0), RW, slot(10))) == 4);
    let va = VA + 2 * PAGE;
    check!(good!(probe::probe(lab, va, Access::Write)).is_done());
    check!(good!(probe_in(lab, there, va, Access::Read)) == Seen::Done(WRITTEN));
    good!(slot(105).protect(0, 1, R));
    check!(good!(probe_in(lab, there, va, Access::Write)).is_forbidden(va, Access::Write));
    check!(good!(probe::probe(lab, va, Access::Write)).is_done());
    good!(slot(2).delete());
    check!(good!(probe_in(lab, there, va, Access::Read)).is_absent(va, Access::Read));
    check!(good!(probe_in(lab, there, VA, Access::Read)).is_done());
    good!(child.destroy());
    check!(good!(probe::probe(lab, VA, Access::Write)).is_done());
    Ok(())
}

fn shared_table_dies(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    let child = child(lab)?;
    let there = in_child(&child);
    good!(PT.copy_to(slot(50)));
    good!(map_in_child(lab, &child, slot(50), slot(105)));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(PT.map(0, 1, slot(0), 0, RW, slot(1)));
    check!(good!(probe_in(lab, there, VA, Access::Write)).is_done());
    good!(PT.delete());
    check!(good!(probe_in(lab, there, VA, Access::Read)).is_done());
    good!(slot(50).delete());
    check!(good!(probe_in(lab, there, VA, Access::Read)).is_absent(VA, Access::Read));
    check!(good!(probe::probe(lab, VA, Access::Read)).is_absent(VA, Access::Read));
    fails!(Empty, slot(105).identify());
    fails!(Empty, invoke(slot(1), op::Identify {}));
    good!(child.destroy());
    Ok(())
}

/// Who may only read through a table may not put anything into it for others to read.
fn shared_table_read_only(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(PT.mint(slot(50), Rights::READ));
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 2, slot(0)));
    fails!(NoRights, slot(50).map(0, 1, slot(0), 0, R, slot(10)));
    fails!(NoRights, slot(50).map_many(0, 2, slot(0), R, slot(10)));
    check!(good!(probe::probe(lab, VA, Access::Read)).is_absent(VA, Access::Read));
    good!(PT.map(0, 1, slot(0), 0, RW, slot(10)));
    check!(good!(probe::probe(lab, VA, Access::Write)).is_done());
    Ok(())
}
