//! G12 table 4.2 and figures 4.3 to 4.6: what the kernel interface costs, without a library.

use crate::lab::{Lab, PLAY_VA};
use crate::region::Region;
use crate::report::{sample, time, Case};
use alloc::format;
use libos::vspace::{R, RW};
use libos::{invoke, op, Cap, CapType, Place, Status};

const PAGE: u64 = 4096;
/// Samples of each number.
const ROUNDS: usize = 5;
/// Operations timed in one go, where one alone is too short for the clock.
const MANY: u64 = 100;
/// Pages of the figures' x-axis.
const PAGES: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 513, 768, 1024];
/// Pages of the table.
const TABLE_PAGES: [u64; 3] = [1, 32, 128];
/// Other capabilities with which unmapping is repeated.
const OTHERS: u32 = 16 << 10;
const TABLE: &str = "G12-table-4.2";

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    system_calls(lab)?;
    for (figure, pages) in [(TABLE, &TABLE_PAGES[..]), ("G12-figures-4.3-4.6", &PAGES)] {
        for &pages in pages {
            map_and_unmap(lab, figure, "", pages)?;
        }
    }
    lab.populate(OTHERS)?;
    for pages in TABLE_PAGES {
        map_and_unmap(lab, TABLE, "_among_16384_others", pages)?;
    }
    lab.clean()
}

/// What measuring itself costs: a loop with nothing in it, for each of its rounds.
fn empty_loop() -> Result<u64, Status> {
    time(|| {
        (0..MANY).for_each(|n| _ = core::hint::black_box(n));
        Ok(())
    })
}

fn system_calls(lab: &mut Lab) -> Result<(), Status> {
    let Lab { ram, .. } = *lab;
    Case::new(TABLE, "empty_loop").each(&sample(ROUNDS, empty_loop)?, MANY);
    // No operation has this number.
    const UNKNOWN: u64 = 1 << 15;
    let null = sample(ROUNDS, || {
        time(|| {
            (0..MANY).for_each(|_| _ = libos::invoke::raw(Place::NULL, UNKNOWN, op::Yield {}));
            Ok(())
        })
    })?;
    Case::new(TABLE, "no-op").each(&null, MANY);
    // One that finds its capability, and that this is of another type.
    let nothing = sample(ROUNDS, || {
        time(|| {
            (0..MANY).for_each(|_| _ = invoke(ram, op::IrqAck {}));
            Ok(())
        })
    })?;
    Case::new(TABLE, "invoke").each(&nothing, MANY);
    Ok(())
}

fn map_and_unmap(lab: &mut Lab, figure: &str, suffix: &str, pages: u64) -> Result<(), Status> {
    let frame = lab.make(CapType::Frame, pages * PAGE, 1, PAGE)?;
    let region = Region::new(lab, frame, PLAY_VA, pages * PAGE, 1)?;
    let report = |what: &str, samples: &[u64]| {
        Case::new(figure, &format!("{what}{suffix}")).at(pages, "pages").samples(samples);
    };
    report(
        "map",
        &sample(ROUNDS, || {
            let cost = time(|| region.map(RW))?;
            region.unmap()?;
            Ok(cost)
        })?,
    );
    report(
        "unmap",
        &sample(ROUNDS, || {
            region.map(RW)?;
            time(|| region.unmap())
        })?,
    );
    report(
        "protect",
        &sample(ROUNDS, || {
            region.map(RW)?;
            let cost = time(|| region.protect(R))?;
            region.unmap()?;
            Ok(cost)
        })?,
    );
    frame.delete()
}
