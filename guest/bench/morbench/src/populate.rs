//! Figure 5.1: pages are populated by faults, on all cores at once, each as many as one core alone.

use crate::lab::{destroy, free, object, slot, time, Lab, Spot};
use crate::workers::{self, together, MOST};
use libos::captypes::invocations::Counter;
use libos::{log, Cap, CapType, Status, PAGE};

/// The order of the objects: 1 GiB.
const ORDER: u32 = 2;
/// What takes a dispatcher away from the core on which it faults.
const TRAVEL: [Counter; 5] = [
    Counter::Visits,
    Counter::Recalls,
    Counter::Migrations,
    Counter::PageFaults,
    Counter::Placements,
];
/// Pages of the Frames that are made to measure how long zeroing takes.
const FRAMES: [u64; 2] = [64, 192];

/// How the pages are divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Division {
    /// Each core has an object.
    Objects,
    /// Each has a range of one object.
    Ranges,
    /// Each has every so-many-th page of one object.
    Pages,
    /// All write to all pages, in the same order: it is a race for each.
    Race,
}

const DIVISIONS: [(Division, &str); 4] = [
    (Division::Objects, "an_object_each"),
    (Division::Ranges, "one_object,_ranges"),
    (Division::Pages, "one_object,_pages_in_turn"),
    (Division::Race, "one_object,_the_same_pages"),
];

/// `pages` for each core.
pub fn measure(lab: &mut Lab, pages: u64) -> Result<(), Status> {
    let cores = lab.boot.info.cores.min(MOST as u32);
    let zeroing = zeroing(lab)?;
    log!("@bench zeroing,_per_page {zeroing}");
    testkit::settle(lab.boot)?;
    workers::start(lab)?;
    let costs = libos::cmdline::option(lab.boot.cmdline(), "count") != Some("exchanges");
    for (division, name) in DIVISIONS {
        let [cost, lost, travelled] = once(cores, pages, division)?;
        log!("@bench {name} {lost} at={cores}:cores unit=exchanges");
        log!("@bench {name} {travelled} at={cores}:cores unit=travels");
        if !costs {
            continue;
        }
        let all = if division == Division::Race { pages } else { pages * u64::from(cores) };
        log!("@bench {name} {}.{:02} at={cores}:cores", cost / all, cost * 100 / all % 100);
    }
    Ok(())
}

/// Instructions of all cores, exchanges that were lost to other cores, and what somebody went home for.
fn once(cores: u32, pages: u64, division: Division) -> Result<[u64; 3], Status> {
    let (count, all) = (u64::from(cores), pages * u64::from(cores));
    let objects = if division == Division::Objects { cores } else { 1 };
    for n in 0..objects {
        Spot::of(ORDER, n).map(object(ORDER, n)?)?;
    }
    let before = free()?;
    let travelled = sum(&TRAVEL, cores)?;
    let lost = sum(&[Counter::ExchangesLost], cores)?;
    let cost = together(cores, |core| {
        let (n, own) = (u64::from(core), Spot::of(ORDER, core).va);
        let first = Spot::of(ORDER, 0).va;
        match division {
            Division::Objects => (pages, own, PAGE),
            Division::Ranges => (pages, first + n * pages * PAGE, PAGE),
            Division::Pages => (pages, first + n * PAGE, count * PAGE),
            Division::Race => (pages, first, PAGE),
        }
    });
    let lost = sum(&[Counter::ExchangesLost], cores)? - lost;
    let travelled = sum(&TRAVEL, cores)? - travelled;
    let (pages_of_all, tables) = match division {
        Division::Objects => (all, count * pages.div_ceil(512)),
        Division::Race => (pages, pages.div_ceil(512)),
        _ => (all, all.div_ceil(512)),
    };
    // Each page has been populated once, whoever else tried.
    if before - free()? != pages_of_all + tables {
        return Err(Status::WrongState);
    }
    for n in 0..objects {
        Spot::of(ORDER, n).unmap()?;
        destroy(slot(n))?;
    }
    Ok([cost, lost, travelled])
}

fn sum(counters: &[Counter], cores: u32) -> Result<u64, Status> {
    let each = |core| counters.iter().map(move |&counter| libos::log::counter_of(core, counter));
    (0..cores).flat_map(each).sum()
}

/// Instructions that the kernel takes to zero a page, without anything else.
fn zeroing(lab: &mut Lab) -> Result<u64, Status> {
    let frame = slot(0);
    let [few, many] = FRAMES.map(|pages| {
        let cost = time(|| lab.make(CapType::Frame, pages * PAGE, frame))?;
        frame.delete()?;
        Ok::<u64, Status>(cost)
    });
    Ok((many? - few?) / (FRAMES[1] - FRAMES[0]))
}
