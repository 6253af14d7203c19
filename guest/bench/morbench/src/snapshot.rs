//! Snapshots by how many pages an object has, and the first write to a page after one.

use crate::lab::{destroy, least, object, slot, time, write, Spot};
use libos::morsel::MorselCap;
use libos::{log, Status, PAGE};

/// The order of the object: 1 GiB.
const ORDER: u32 = 2;
const ROUNDS: usize = 3;
/// Pages that are written to, one after another, in a table whose copy has been made.
const WRITTEN: u64 = 64;

/// Objects with 1 to `most` pages.
pub fn measure(_: &crate::Lab, most: u64) -> Result<(), Status> {
    let (what, spot) = (object(ORDER, 0)?, Spot::of(ORDER, 0));
    spot.map(what)?;
    let mut pages = 0;
    for power in 0..=18 {
        let wanted = 1 << power;
        if wanted > most {
            break;
        }
        what.populate(pages, wanted - pages, false)?;
        pages = wanted;
        let [taken, first, each] = least(ROUNDS, || once(what, spot, pages))?;
        log!("@bench snapshot {taken} at={pages}:pages");
        log!("@bench first_write_after_it {first} at={pages}:pages");
        if pages > WRITTEN {
            log!("@bench next_writes,_per_page {each} at={pages}:pages");
        }
    }
    spot.unmap()?;
    destroy(what)
}

/// Ticks of a snapshot, of the first write after it and of the next ones, each.
fn once(what: libos::CapAddr, spot: Spot, pages: u64) -> Result<[u64; 3], Status> {
    let copy = slot(1);
    let taken = time(|| what.snapshot(copy).map(drop))?;
    let first = time(|| {
        write(spot.va, taken);
        Ok(())
    })?;
    let others = if pages > WRITTEN { 1..WRITTEN + 1 } else { 0..0 };
    let each = time(|| {
        others.for_each(|page| write(spot.va + page * PAGE, taken));
        Ok(())
    })?;
    destroy(copy)?;
    Ok([taken, first, each / WRITTEN])
}
