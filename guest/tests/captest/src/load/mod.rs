//! Load that a hostile user can make: tens of thousands of everything, in the order that costs the kernel
//! most, so that no event takes longer because of it. What an event may cost is judged from outside, by
//! a kernel that counts (`./x test events`); here, that all ends well.
//!
//! `scale=N` on the command line makes N times as much.

mod crowd;
mod loans;
mod mappings;
mod nodes;

use crate::setup::{slot, Lab};
use crate::Test;
use libos::abi::slots::KERNEL;
use libos::captypes::invocations::Part;
use libos::captypes::place::{L2_BYTES, L2_SLOTS};
use libos::captypes::CapType::{self, *};
use libos::{invoke, op, Cap, CapAddr, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Failure, Outcome};

pub const TESTS: &[&[Test]] = &[OWN, crowd::TESTS, loans::TESTS, mappings::TESTS, nodes::TESTS];

const OWN: &[Test] = &[("load_copies", copies), ("load_retypes", retypes), ("load_holes", holes)];

/// Bytes of RAM for the load.
const BYTES: u64 = 640 << 20;
/// Where it is.
const RAM: CapAddr = slot(0);
/// A CSpace with many slots.
const SPACE: CapAddr = slot(1);
/// Slots of its root.
const SPACE_SLOTS: u32 = 8192;

/// RAM, and slots without end.
struct Load {
    /// The first byte that nothing was made of.
    next: u64,
    /// Slots in use, and L2CNodes that there are.
    used: u32,
    nodes: u32,
    /// How much of everything.
    scale: u32,
}

impl Load {
    /// The load of a test. Its objects are gone when [`Load::end`] was called.
    fn new(lab: &mut Lab) -> Result<Load, Status> {
        lab.home.retype(Ram, super::long::free_offset(lab), BYTES, 1, RAM)?;
        let mut load = Load { next: 0, used: 0, nodes: 0, scale: lab.scale };
        load.make(L1CNode, u64::from(SPACE_SLOTS) * 64, 1, SPACE)?;
        Ok(load)
    }

    /// All of it goes.
    fn end(self) -> Result<(), Status> {
        RAM.revoke()?;
        RAM.delete()?;
        // The kernel's own check of its invariants looks at each range that came home.
        while invoke(KERNEL, op::CollectReclaimed {})?.bytes2 != 0 {}
        Ok(())
    }

    /// Takes so many bytes of the RAM, aligned to as much as they are, up to 2 MiB.
    fn take(&mut self, bytes: u64) -> Result<u64, Status> {
        let align = bytes.next_power_of_two().clamp(PAGE, 2 << 20);
        let offset = self.next.next_multiple_of(align);
        self.next = offset + bytes;
        if self.next > BYTES {
            return Err(Status::NoMemory);
        }
        Ok(offset)
    }

    /// Makes `count` objects.
    fn make(
        &mut self,
        ty: CapType,
        bytes: u64,
        count: u32,
        dst: impl Into<Place>,
    ) -> Result<(), Status> {
        let offset = self.take(bytes * u64::from(count))?;
        RAM.retype(ty, offset, bytes, count, dst)
    }

    /// A free slot; those that follow are in the same CNode as far as there are any.
    fn slot(&mut self) -> Result<Place, Status> {
        self.slots(1)
    }

    /// `count` free slots side by side, at most 256.
    fn slots(&mut self, count: u32) -> Result<Place, Status> {
        if self.used % L2_SLOTS + count > L2_SLOTS {
            self.used = self.used.next_multiple_of(L2_SLOTS);
        }
        let first = self.used;
        self.used += count;
        while self.nodes * L2_SLOTS < self.used {
            self.nodes += 1;
            self.make(L2CNode, L2_BYTES, 1, Place::l1(SPACE, self.nodes))?;
        }
        Ok(Self::at(first))
    }

    /// The slot with a number.
    fn at(number: u32) -> Place {
        Place::within(SPACE, CapAddr::new(1 + number / L2_SLOTS, number % L2_SLOTS))
    }

    /// Makes an object in a free slot.
    fn object(&mut self, ty: CapType, bytes: u64) -> Result<Place, Status> {
        let slot = self.slot()?;
        self.make(ty, bytes, 1, slot)?;
        Ok(slot)
    }
}

/// Repeats an invocation for as long as it says so.
fn to_the_end(mut step: impl FnMut() -> Result<(), Status>) -> Result<(), Status> {
    loop {
        match step() {
            Err(Status::Again) => {}
            other => return other,
        }
    }
}

/// Very many copies of one capability: of a Frame, of a CNode, of a root.
fn copies(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let rounds = 20 * load.scale;
    for ty in [Frame, L2CNode, Endpoint] {
        let bytes = if ty == L2CNode { L2_BYTES } else { PAGE };
        let first = good!(load.slots(256));
        good!(load.make(ty, bytes, 1, first));
        for n in 1..256 {
            good!(first.copy_to(first.plus(n)));
        }
        for _ in 0..rounds {
            let next = good!(load.slots(256));
            check!(good!(first.copy_range(next, 256, Null)) == 256);
        }
        // While the collector is at work, it must know what happens to containers.
        let root = slot(2);
        good!(load.make(L1CNode, 64 * 8192, 1, root));
        for n in 0..4096 {
            good!(first.copy_to(Place::l1(root, n)));
        }
        let (low, high) = (Place::l1(root, 0), Place::l1(root, 4096));
        for _ in 0..8 {
            let _ = invoke(KERNEL, op::CollectCycles {});
            check!(good!(low.copy_range(high, 256, Null)) == 256);
            good!(high.delete_range(256));
        }
        good!(first.move_to(slot(3)));
        good!(slot(3).identify());
        good!(slot(3).is_same(first.plus(255)));
        good!(first.plus(255).delete());
        if ty == Frame {
            fails!(
                HasDescendants,
                RAM.retype(Frame, (load.next - 1 - PAGE) & !0xfff, PAGE, 1, slot(4))
            );
        }
        good!(slot(3).revoke());
        good!(slot(3).delete());
        good!(root.delete());
        good!(collect_cycles());
    }
    good!(load.end());
    Ok(())
}

fn collect_cycles() -> Result<(), Status> {
    to_the_end(|| libos::invoke(libos::abi::slots::KERNEL, libos::op::CollectCycles {}).map(drop))
}

/// As many objects of each type at once as the kernel makes.
fn retypes(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let root = slot(2);
    good!(load.make(L1CNode, 64 * 8192, 1, root));
    let offset = good!(load.take(64 << 20));
    let types =
        [Ram, Frame, L1CNode, L2CNode, Dispatcher, Endpoint, Pml5, Pml4, Pdpt, Pd, Pt, DevFrame];
    for ty in types {
        let bytes = if matches!(ty, L1CNode | L2CNode) { L2_BYTES } else { PAGE };
        for count in [1, 64, 256, 257, 512, 1024, 4096] {
            match RAM.retype(ty, offset, bytes, count, Place::l1(root, 0)) {
                Ok(()) => {}
                Err(Status::OutOfRange | Status::WrongType) => break,
                other => good!(other),
            }
            good!(Place::l1(root, 0).delete_range(count.min(4096)));
        }
    }
    // Parts of a kind, as many pages as one invocation makes.
    for (ty, pages) in
        [(Ram, 36), (Frame, 36), (Pt, 36), (Endpoint, 36), (Pml4, 9), (Dispatcher, 9)]
    {
        let part = |n: u64| Part::new(ty, offset / PAGE + 64 * n, 1, pages).unwrap_or(Part::NONE);
        let parts = [0, 1, 2, 3, 4, 5, 6].map(part);
        check!(good!(RAM.retype_many(Place::l1(root, 0), parts)) == 7 * pages);
        good!(Place::l1(root, 0).delete_range(7 * pages));
    }
    // And as much as one invocation copies.
    good!(RAM.retype(Frame, offset, 1 << 20, 1, slot(3)));
    let args = op::RetypeCopy {
        offset: offset + (1 << 20),
        bytes: 1 << 20,
        src: slot(3).into(),
        src_offset: 0,
        dst: slot(4).into(),
        alone: false,
    };
    good!(invoke(RAM, args));
    good!(slot(3).delete_range(2));
    good!(root.delete());
    good!(load.end());
    Ok(())
}

/// RAM of which every other page is somebody's, and the pieces of which nothing was made.
fn holes(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let pages = 2000 * load.scale;
    let all = good!(load.object(Ram, u64::from(pages) * 2 * PAGE));
    for n in 0..u64::from(pages) {
        let slot = good!(load.slot());
        good!(all.retype(Frame, n * 2 * PAGE, PAGE, 1, slot));
        if n % 64 == 0 {
            good!(slot.mint(good!(load.slot()), Rights::READ));
        }
    }
    good!(all.identify());
    good!(all.delete());
    good!(load.end());
    Ok(())
}

/// What a failed test says.
fn failure(what: &'static str) -> Failure {
    Failure { line: line!(), what, status: None }
}
