//! Tests of persistent memory: one of several boots of a machine, in place of `init`.
//!
//! `round=N` on the command line is the number of the boot: the first finds zeros, every other one what the one before
//! has stored. `address=`, `bytes=` and `caches=` are what the memory must be like.
#![no_std]
#![no_main]

use core::ptr::{read_volatile, write_volatile};
use libos::abi::slots::{KERNEL, MEMD, PERSISTENT, VSPACE};
use libos::captypes::invocations::Part;
use libos::captypes::place::L2_BYTES;
use libos::runtime::{Boot, Start};
use libos::vspace::{R, RW};
use libos::{bringup, cmdline, domain, invoke, memd, op, PAGE};
use libos::{Cap, CapAddr, CapType, Place, RamAttrs, Rights, Status};
use testkit::{check, fails, good, Outcome, Runner};

libos::program!(main);

const NODE: u32 = 200;
const MAGIC: u64 = 0x7e55_e7a5_7a1e_d001;
/// The pattern: more than an invocation would zero, over the edge of a large page.
const PATTERN: (u64, u64) = (1 << 20, 3 << 20);

fn slot(n: u32) -> CapAddr {
    CapAddr::new(NODE, n)
}

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    let number = |name| cmdline::number(boot.cmdline(), name).unwrap_or(0);
    let mut runner = Runner::on(boot.cmdline());
    runner.run("memory_server", || start(&boot));
    runner.run("what_it_is", || {
        what_it_is(&boot, number("address"), number("bytes"), number("caches"))
    });
    runner.run("contents", || contents(&boot, number("round")));
    runner.run("kernel_objects", kernel_objects);
    runner.run("frames", frames);
    runner.run("dispatcher", dispatcher);
    runner.run("kernel_copies", kernel_copies);
    runner.run("goes_to_nobody", goes_to_nobody);
    runner.finish()
}

fn start(boot: &Boot) -> Outcome {
    let mut window = good!(bringup::prepare(boot));
    let file = bootarchive::find(boot.archive(), "boot/memd").ok().flatten();
    check!(
        file.is_some_and(|file| { bringup::start_memd(boot, file.data, 1, &mut window).is_ok() })
    );
    let node = Place::l1(CapAddr::NULL, NODE);
    good!(domain::with(|domain| {
        libos::ram::Ram::make(&mut domain.arena, CapType::L2CNode, L2_BYTES, 1, node)
    }));
    Ok(())
}

/// Where and how much, and who says so; and that it is not counted as memory to be had.
fn what_it_is(boot: &Boot, address: u64, bytes: u64, caches: u64) -> Outcome {
    let what = good!(PERSISTENT.identify());
    check!(what.ty == CapType::Ram && what.rights == Rights::ALL);
    check!(what.attrs.has(RamAttrs::PERSISTENT) && !what.attrs.has(RamAttrs::HOME));
    check!(what.base == address && what.bytes == bytes);
    // The emulator's tables say so, and that memory may be added to the last node where it is.
    check!(what.attrs.node() == 0);
    let memory = boot.persistent_memory();
    check!(memory.is_some_and(|memory| {
        (memory.cap, memory.base, memory.bytes) == (PERSISTENT, address, bytes)
            && memory.caches_persist == (caches != 0)
    }));
    let stats = good!(memd::stats(MEMD));
    check!(stats.total <= boot.info.ram_bytes && boot.info.ram_bytes < address);
    fails!(NoMemory, memd::alloc(MEMD, PAGE, 0, RamAttrs::PERSISTENT, slot(0)));
    Ok(())
}

/// The word at `index` of the pattern that boot `round` stores.
fn word(round: u64, index: u64) -> u64 {
    match round {
        0 => 0,
        _ => (round << 40 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// `bytes` of a Frame, mapped for good.
fn map(frame: CapAddr, bytes: u64, write: bool) -> Result<*mut u64, Status> {
    let flags = if write { RW } else { R };
    domain::with(|domain| domain.map(frame.into(), 0, bytes, flags)).map(|va| va as *mut u64)
}

fn contents(boot: &Boot, round: u64) -> Outcome {
    check!(round > 0);
    let memory = good!(boot.persistent_memory().ok_or(Status::Empty));
    let last = memory.bytes - PAGE;
    good!(PERSISTENT.retype(CapType::Frame, 0, PAGE, 1, slot(0)));
    good!(PERSISTENT.retype(CapType::Frame, PATTERN.0, PATTERN.1, 1, slot(1)));
    good!(PERSISTENT.retype(CapType::Frame, last, PAGE, 1, slot(2)));
    check!(good!(slot(1).identify()).attrs.has(RamAttrs::PERSISTENT));
    let head = good!(map(slot(0), PAGE, true));
    let pattern = good!(map(slot(1), PATTERN.1, true));
    let tail = good!(map(slot(2), PAGE, true));
    let before = if round == 1 { [0; 3] } else { [MAGIC, round - 1, memory.base] };
    // SAFETY: mapped for good, whole pages; nobody else has them.
    unsafe {
        for (n, expected) in before.into_iter().enumerate() {
            check!(read_volatile(head.add(n)) == expected);
        }
        for index in 0..PATTERN.1 / 8 {
            let place = pattern.add(index as usize);
            check!(read_volatile(place) == word(round - 1, index));
            write_volatile(place, word(round, index));
        }
        check!(read_volatile(tail.add(511)) == word(round - 1, !0 >> 24));
        write_volatile(tail.add(511), word(round, !0 >> 24));
        for (n, value) in [MAGIC, round, memory.base].into_iter().enumerate() {
            write_volatile(head.add(n), value);
        }
    }
    // What is made of it once more has the same contents.
    good!(slot(0).delete());
    good!(PERSISTENT.retype(CapType::Frame, 0, PAGE, 1, slot(0)));
    let head = good!(map(slot(0), PAGE, false));
    // SAFETY: as above.
    check!(unsafe { read_volatile(head.add(1)) } == round);
    good!(slot(0).delete_range(3));
    Ok(())
}

/// Nothing that the kernel relies on is made of it, nor of what is made of it.
fn kernel_objects() -> Outcome {
    use CapType::*;
    let kinds = [
        (Pt, PAGE),
        (Pd, PAGE),
        (Pdpt, PAGE),
        (Pml4, PAGE),
        (Pml5, PAGE),
        (L1CNode, PAGE),
        (L2CNode, L2_BYTES),
        (Dispatcher, PAGE),
        (Endpoint, PAGE),
    ];
    good!(PERSISTENT.retype(Ram, 4 << 20, 64 * PAGE, 1, slot(0)));
    check!(good!(slot(0).identify()).attrs.has(RamAttrs::PERSISTENT));
    for (ty, bytes) in kinds {
        fails!(WrongType, PERSISTENT.retype(ty, 8 << 20, bytes, 1, slot(1)));
        fails!(WrongType, slot(0).retype(ty, 0, bytes, 1, slot(1)));
        let mut parts = [Part::NONE; Part::MOST];
        parts[0] = Part::new(Frame, 0, 1, 1).unwrap_or(Part::NONE);
        parts[1] = Part::new(ty, 4, bytes / PAGE, 1).unwrap_or(Part::NONE);
        fails!(WrongType, slot(0).retype_many(slot(1), parts));
    }
    for ty in [PhysAddr, DevFrame] {
        fails!(WrongType, PERSISTENT.retype(ty, 8 << 20, PAGE, 1, slot(1)));
    }
    fails!(Empty, slot(1).identify());
    good!(slot(0).delete());
    Ok(())
}

/// Frames of all kinds have their contents, in however many pieces they are made.
fn frames() -> Outcome {
    const AT: u64 = 8 << 20;
    const PAGES: u64 = 512;
    good!(PERSISTENT.retype(CapType::Ram, AT, PAGES * PAGE, 1, slot(0)));
    good!(slot(0).retype(CapType::Frame, 0, PAGES * PAGE, 1, slot(1)));
    let all = good!(map(slot(1), PAGES * PAGE, true));
    let place = |page: u64| all.wrapping_add((page * PAGE / 8) as usize);
    for page in 0..PAGES {
        // SAFETY: mapped, nobody else has it.
        unsafe { write_volatile(place(page), page + 1) };
    }
    good!(slot(1).delete());
    // More than what is zeroed may be at once.
    let mut parts = [Part::NONE; Part::MOST];
    parts[0] = Part::new(CapType::Frame, 0, 200, 1).unwrap_or(Part::NONE);
    parts[1] = Part::new(CapType::Frame, 200, 100, 3).unwrap_or(Part::NONE);
    check!(good!(slot(0).retype_many(slot(1), parts)) == 4);
    let third = good!(map(slot(3), PAGE, false));
    // SAFETY: as above.
    check!(unsafe { read_volatile(third) } == 301);
    // A copy of ordinary memory, over what was there, and the other way round.
    good!(memd::alloc(MEMD, 2 * PAGE, 0, RamAttrs(0), slot(9)));
    good!(slot(9).retype(CapType::Frame, 0, PAGE, 1, slot(10)));
    let plain = good!(map(slot(10), PAGE, true));
    // SAFETY: as above.
    unsafe { write_volatile(plain, MAGIC) };
    good!(slot(0).retype_copy(500 * PAGE, slot(10), slot(5)));
    let copy = good!(map(slot(5), PAGE, false));
    good!(slot(9).retype_copy(PAGE, slot(3), slot(11)));
    let back = good!(map(slot(11), PAGE, false));
    // SAFETY: as above.
    check!(unsafe { (read_volatile(copy), read_volatile(back)) } == (MAGIC, 301));
    check!(good!(slot(5).identify()).attrs.has(RamAttrs::PERSISTENT));
    check!(!good!(slot(11).identify()).attrs.has(RamAttrs::PERSISTENT));
    good!(slot(0).delete_range(12));
    Ok(())
}

/// A dispatcher shares no frame with the kernel that the kernel's map need not show.
fn dispatcher() -> Outcome {
    good!(PERSISTENT.retype(CapType::Frame, 8 << 20, PAGE, 1, slot(0)));
    good!(domain::with(|domain| {
        libos::ram::Ram::make(&mut domain.arena, CapType::Dispatcher, PAGE, 1, slot(1).into())
    }));
    let configuration = op::Configure {
        cspace: Place::NULL,
        vspace: VSPACE.into(),
        frame: slot(0).into(),
        frame_va: 1 << 40,
        fault_ep: Place::NULL,
        options: 0,
    };
    fails!(WrongType, invoke(slot(1), configuration));
    good!(slot(0).delete_range(2));
    Ok(())
}

/// The kernel copies to and from it on a program's behalf, whatever its own map shows.
fn kernel_copies() -> Outcome {
    good!(PERSISTENT.retype(CapType::Frame, 8 << 20, 2 * PAGE, 1, slot(0)));
    let there = good!(map(slot(0), 2 * PAGE, true));
    let second = there.wrapping_add(512);
    // SAFETY: mapped, nobody else has it.
    unsafe { write_volatile(there, MAGIC) };
    let terms = op::Lend {
        count: 1,
        offset: 0,
        bytes: 2 * PAGE,
        rights: Rights::READ.or(Rights::WRITE),
        lower: false,
        dst: slot(1).into(),
        copies: Place::NULL,
    };
    good!(slot(0).lend(terms));
    let mut own = 0u64;
    let own_at = (&raw mut own) as u64;
    check!(good!(slot(1).copy_out(0, own_at, 8)).bytes == 8);
    // SAFETY: a variable that the kernel has written.
    check!(unsafe { read_volatile(&raw const own) } == MAGIC);
    // SAFETY: as above; the kernel reads it.
    unsafe { write_volatile(&raw mut own, MAGIC + 1) };
    check!(good!(slot(1).copy_in(PAGE, own_at, 8)).bytes == 8);
    // SAFETY: as above.
    check!(unsafe { read_volatile(second) } == MAGIC + 1);
    // From persistent memory to persistent memory.
    check!(good!(slot(1).copy_out(0, second as u64, PAGE)).bytes == PAGE);
    // SAFETY: as above.
    check!(unsafe { read_volatile(second) } == MAGIC);
    good!(slot(1).recall(1));
    good!(slot(0).delete());
    Ok(())
}

/// Nobody gets what is deleted, not even all of it.
fn goes_to_nobody() -> Outcome {
    let before = good!(memd::stats(MEMD));
    good!(PERSISTENT.retype(CapType::Ram, 8 << 20, 64 * PAGE, 1, slot(0)));
    good!(slot(0).retype(CapType::Frame, 0, PAGE, 64, slot(1)));
    good!(slot(0).delete());
    good!(slot(1).delete_range(32));
    good!(PERSISTENT.delete());
    check!(good!(invoke(KERNEL, op::CollectReclaimed {})).bytes0 == 0);
    good!(slot(33).delete_range(32));
    fails!(Empty, PERSISTENT.identify());
    check!(good!(invoke(KERNEL, op::CollectReclaimed {})).bytes0 == 0);
    check!(good!(memd::stats(MEMD)).total == before.total);
    good!(invoke(KERNEL, op::CheckInvariants {}));
    Ok(())
}
