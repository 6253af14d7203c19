//! Long operations: others run in their midst, and see them half done without harm. And the memory
//! of whatever was made comes home to the byte.

use crate::setup::{capabilities, slot, Lab, PLAY_BYTES};
use crate::threads;
use crate::Test;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots::{DISPATCHER, KERNEL};
use libos::abi::DispatcherFrame;
use libos::captypes::invocations::{Reclaimed, NOTIFY_TIMER};
use libos::captypes::place::L2_BYTES;
use libos::captypes::CapType::*;
use libos::vspace::R;
use libos::{invoke, op, Cap, CapAddr, Place, Status, PAGE};
use testkit::{check, fails, good, Failure, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("long_retype", long_retype),
    ("long_retype_given_up", given_up),
    ("long_revoke", long_revoke),
    ("cycles_are_collected", cycles),
    ("memory_comes_home", comes_home),
];

const GIB: u64 = 1 << 30;
/// What one invocation zeroes.
const STEP: u64 = 1 << 20;

static COUNT: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: u64, _: u64, _: u64) -> ! {
    loop {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

/// Offset in the home of memory that no other test uses.
pub fn free_offset(lab: &Lab) -> u64 {
    (lab.ram_base + PLAY_BYTES - lab.home_range.0).next_multiple_of(2 << 20)
}

/// What the kernel has written to the own frame.
fn timer_has_expired() -> bool {
    // SAFETY: every program's frame is mapped there, for good.
    let frame = unsafe { &*(NATIVE_FRAME as *const DispatcherFrame) };
    frame.notifications.load(Ordering::Relaxed) & NOTIFY_TIMER != 0
}

/// Repeats `step` to its end; answers how often, and whether somebody else ran and a timer expired
/// before that. The slot in which something half made may be is looked at each time.
fn observe(
    mut step: impl FnMut() -> Result<(), Status>,
    mut between: impl FnMut() -> Outcome,
) -> Result<(u64, bool, bool), Failure> {
    let before = COUNT.load(Ordering::Relaxed);
    let deadline = crate::scheduling::now() + crate::scheduling::ms();
    good!(invoke(DISPATCHER, op::SetTimer { deadline }));
    let mut steps = 1;
    loop {
        match step() {
            Err(Status::Again) => between()?,
            other => {
                good!(other);
                break;
            }
        }
        steps += 1;
    }
    let seen = (steps, COUNT.load(Ordering::Relaxed) > before, timer_has_expired());
    good!(invoke(DISPATCHER, op::Wait {}));
    Ok(seen)
}

/// A Frame of 1 GiB is one operation to the caller of the library, and 1024 to the kernel. Another
/// dispatcher runs and a timer expires long before its end.
fn long_retype(lab: &mut Lab) -> Outcome {
    let offset = free_offset(lab);
    check!(offset + GIB <= lab.home_range.1);
    good!(threads::start(lab, 0, count, [0; 3]));
    let (home, base) = (lab.home, lab.home_range.0 + offset);
    let dst = slot(0).into();
    let args = op::Retype { ty: Frame.into(), offset, bytes: GIB, count: 1, dst };
    let half_made = || {
        let what = good!(slot(0).identify());
        check!((what.ty, what.base, what.bytes) == (Blank, base, GIB));
        fails!(WrongType, slot(0).copy_to(slot(9)));
        fails!(WrongType, slot(0).retype(Frame, 0, PAGE, 1, slot(9)));
        fails!(HasDescendants, home.retype(Frame, offset + GIB - PAGE, PAGE, 1, slot(9)));
        Ok(())
    };
    let (steps, others_ran, timer) = observe(|| invoke(home, args), half_made)?;
    check!(steps == GIB / STEP && others_ran && timer);
    let what = good!(slot(0).identify());
    check!((what.ty, what.base, what.bytes) == (Frame, base, GIB));
    for at in [0, STEP - PAGE, STEP, GIB / 2, GIB - PAGE] {
        let mut bytes = [0xff; 64];
        good!(good!(lab.window.open(slot(0), at, PAGE, R)).read(0, &mut bytes));
        check!(bytes == [0; 64]);
    }
    good!(slot(0).delete());
    good!(threads::kill(0));
    Ok(())
}

/// The Blank can be deleted, and with it all that was begun.
fn given_up(lab: &mut Lab) -> Outcome {
    drain()?;
    let offset = free_offset(lab);
    let dst = slot(0).into();
    let args = op::Retype { ty: Frame.into(), offset, bytes: 16 * STEP, count: 4, dst };
    for _ in 0..5 {
        fails!(Again, invoke(lab.home, args));
    }
    good!(slot(0).delete());
    check!(drain()? == 64 * STEP);
    good!(lab.home.retype(Ram, offset, 64 * STEP, 1, slot(1)));
    good!(slot(1).delete());
    check!(drain()? == 64 * STEP);
    Ok(())
}

/// One page mapped 131,072 times, the Mappings in 512 CNodes of another CSpace. Revoking the Frame
/// removes all, in steps; deleting the CSpace, full of other things, too.
fn long_revoke(lab: &mut Lab) -> Outcome {
    const TABLES: u64 = 256;
    const NODES: u64 = 512;
    let offset = free_offset(lab);
    let before = capabilities();
    good!(lab.home.retype(Ram, offset, 32 << 20, 1, slot(0)));
    let ram = slot(0);
    good!(ram.retype(L1CNode, 0, 4 * L2_BYTES, 1, slot(1)));
    for n in (0..NODES).step_by(256) {
        let at = Place::l1(slot(1), 1 + n as u32);
        good!(ram.retype(L2CNode, (1 << 20) + n * L2_BYTES, L2_BYTES, 256, at));
    }
    good!(ram.retype(Frame, 12 << 20, PAGE, 1, slot(2)));
    for n in 0..TABLES {
        good!(ram.retype(Pt, (16 << 20) + n * PAGE, PAGE, 1, slot(3)));
        for entry in 0..512u32 {
            let number = n as u32 * 512 + entry;
            let at = Place::within(slot(1), CapAddr::new(1 + number / 256, number % 256));
            good!(slot(3).map(entry, 1, slot(2), 0, R, at));
        }
        // All but the last table are kept by the other CSpace's root.
        good!(slot(3).move_to(Place::l1(slot(1), 600 + n as u32)));
    }
    check!(capabilities() > before + TABLES * 512);
    good!(threads::start(lab, 0, count, [0; 3]));
    let (steps, others_ran, _) = observe(|| invoke(slot(2), op::Revoke {}), || Ok(()))?;
    check!(steps >= 200 && others_ran);
    for n in [0, 100, 255] {
        check!((0..512).all(|entry| Place::l1(slot(1), 600 + n).read_entry(entry) == Ok(0)));
    }
    fails!(Empty, Place::within(slot(1), CapAddr::new(512, 255)).identify());
    // Fill the CNodes again with the last copies of nothing and the first of something.
    for n in 0..NODES as u32 {
        for k in 0..64 {
            good!(slot(2).copy_to(Place::within(slot(1), CapAddr::new(1 + n, 4 * k))));
        }
    }
    good!(slot(2).delete());
    let (steps, _, _) = observe(|| invoke(slot(1), op::Delete {}), || Ok(()))?;
    check!(steps >= 64);
    good!(threads::kill(0));
    good!(ram.delete());
    Ok(())
}

/// CNodes in each other and in themselves, and a dispatcher on a CSpace that only it has.
fn cycles(lab: &mut Lab) -> Outcome {
    while invoke(KERNEL, op::CollectCycles {}) == Err(Status::Again) {}
    drain()?;
    let (before, offset) = (capabilities(), free_offset(lab));
    let nodes = 40u32;
    good!(lab.home.retype(L1CNode, offset, L2_BYTES, 1, slot(0)));
    for n in 0..nodes {
        let at = offset + (1 + u64::from(n)) * L2_BYTES;
        good!(lab.home.retype(L2CNode, at, L2_BYTES, 1, Place::l1(slot(0), n)));
    }
    let inside = |n: u32, l2: u32| Place::within(slot(0), CapAddr::new(n % nodes, l2));
    for n in 0..nodes {
        good!(Place::l1(slot(0), n).copy_to(inside(n + 1, 3)));
        good!(Place::l1(slot(0), n).copy_to(inside(n, 255)));
        good!(slot(0).copy_to(inside(n, 77)));
    }
    let frames = offset + 100 * L2_BYTES;
    good!(lab.home.retype(Frame, frames, PAGE, 100, inside(7, 80)));
    check!(good!(invoke(KERNEL, op::CollectCycles {}).or(collect())).count == 0);
    good!(slot(0).delete());
    check!(capabilities() > before + 100 && drain()? == 0);
    check!(good!(collect()).count > 0);
    check!(capabilities() == before);
    check!(drain()? == (1 + u64::from(nodes)) * L2_BYTES + 100 * PAGE);
    Ok(())
}

fn collect() -> Result<libos::captypes::invocations::Count, Status> {
    loop {
        match invoke(KERNEL, op::CollectCycles {}) {
            Err(Status::Again) => {}
            other => return other,
        }
    }
}

/// Takes all memory that came back; answers how much. Ranges that overlap are an error.
fn drain() -> Result<u64, Failure> {
    let mut total = 0;
    each_reclaimed(|_, bytes| {
        total += bytes;
        Ok(())
    })?;
    Ok(total)
}

fn each_reclaimed(mut range: impl FnMut(u64, u64) -> Outcome) -> Outcome {
    loop {
        let back = good!(invoke(KERNEL, op::CollectReclaimed {}));
        let Reclaimed { base0, bytes0, base1, bytes1, base2, bytes2 } = back;
        for (base, bytes) in [(base0, bytes0), (base1, bytes1), (base2, bytes2)] {
            if bytes == 0 {
                return Ok(());
            }
            range(base, bytes)?;
        }
    }
}

/// 8 MiB, cut up in every way and deleted in a random order: each page comes home once.
fn comes_home(lab: &mut Lab) -> Outcome {
    const PAGES: usize = 2048;
    drain()?;
    let mut random = Rng::with_seed(lab.seed);
    let (offset, base) = (free_offset(lab), lab.home_range.0 + free_offset(lab));
    let mut back = [false; PAGES];
    for round in 0..8 {
        back.fill(false);
        good!(lab.home.retype(Ram, offset, PAGES as u64 * PAGE, 1, slot(0)));
        let mut made = 1;
        let mut at = 0;
        while at < PAGES as u64 && made < 120 {
            let kinds = [(Ram, 24), (Frame, 9), (Frame, 1), (L2CNode, 4), (Pt, 1), (Endpoint, 1)];
            let (ty, pages) = kinds[random.usize(..6)];
            if at + pages > PAGES as u64 {
                break;
            }
            good!(slot(0).retype(ty, at * PAGE, pages * PAGE, 1, slot(made)));
            if matches!(ty, Ram | Frame) && pages > 1 {
                // Something inside, so that what is around it goes first or last.
                let inner = random.u64(..pages) * PAGE;
                good!(slot(made).retype(Frame, inner, PAGE, 1, slot(made + 1)));
                good!(slot(made + 1).copy_to(slot(made + 2)));
                made += 2;
            }
            made += 1;
            at += pages + random.u64(..3);
        }
        let mut left = made;
        while left > 0 {
            let victim = slot(random.u32(..made));
            if victim.identify().is_ok() {
                good!(victim.delete());
                left -= 1;
            }
            each_reclaimed(|start, bytes| {
                check!(start >= base && start + bytes <= base + PAGES as u64 * PAGE);
                for page in (start - base) / PAGE..(start + bytes - base) / PAGE {
                    check!(!core::mem::replace(&mut back[page as usize], true));
                }
                Ok(())
            })?;
        }
        check!(back.iter().all(|&page| page));
        check!(round < 8);
    }
    Ok(())
}
