//! G18 figure 3.3: mapping, protecting and unmapping whole buffers, by size and page size; by
//! invocations and through the library.

use crate::lab::{Lab, PLAY_VA};
use crate::library::Library;
use crate::region::Region;
use crate::report::{sample, time, Case};
use alloc::format;
use libos::vspace::{entry_bytes, R, RW};
use libos::{CapType, Status};

const FIGURE: &str = "G18-figure-3.3";
const LIBRARY: &str = "G18-figure-3.3-library";
/// Samples of each number.
const ROUNDS: usize = 5;
/// What the library of this program has for tables is enough for buffers up to this.
const MOST_IN_LIBRARY: u64 = 1 << 30;
/// The names of page sizes by level.
pub const PAGE_NAMES: [&str; 4] = ["", "4k", "2M", "1G"];

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    for level in 1..=3 {
        let page = entry_bytes(level);
        let most = largest(lab, page);
        if most < page {
            continue;
        }
        let frame = lab.make(CapType::Frame, most, 1, page)?;
        let library = Library::new(frame, level)?;
        let mut bytes = page;
        while bytes <= most {
            let region = Region::new(lab, frame, PLAY_VA, bytes, level)?;
            buffer(&region, &library)?;
            bytes *= if bytes * 4 <= most { 4 } else { 2 };
        }
        // Its copy of the Frame goes with it.
        drop(library);
        lab.clean()?;
    }
    Ok(())
}

/// The largest buffer of a power of two that memory allows, with room for tables.
fn largest(lab: &Lab, page: u64) -> u64 {
    let room = lab.left().saturating_sub(64 << 20).saturating_sub(page);
    match room {
        0 => 0,
        room => 1 << room.ilog2(),
    }
}

fn buffer(region: &Region, library: &Library) -> Result<(), Status> {
    let pages = PAGE_NAMES[region.level as usize];
    let count = region.bytes / entry_bytes(region.level);
    let report = |figure, what, samples: &[u64]| {
        let name = format!("{what}_{pages}");
        Case::new(figure, &name).at(region.bytes >> 10, "KiB").each(samples, count);
    };
    let (mut maps, mut protects) = (alloc::vec![], alloc::vec![]);
    let unmaps = sample(ROUNDS, || {
        maps.push(time(|| region.map(RW))?);
        protects.push(time(|| region.protect(R))?);
        time(|| region.unmap())
    })?;
    report(FIGURE, "map", &maps[1..]);
    report(FIGURE, "protect", &protects[1..]);
    report(FIGURE, "unmap", &unmaps);
    if region.bytes > MOST_IN_LIBRARY {
        return Ok(());
    }
    let through_library = library.samples(ROUNDS, region.bytes)?;
    report(LIBRARY, "map", &through_library.map);
    report(LIBRARY, "protect", &through_library.protect);
    report(LIBRARY, "unmap", &through_library.unmap);
    Ok(())
}
