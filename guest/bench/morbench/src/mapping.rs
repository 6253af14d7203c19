//! Figures 5.4 and 5.5: an object is mapped, its first page is read, and it is unmapped again, by how many pages it has.

use crate::lab::{destroy, free, least, object, read, ticks, Spot};
use libos::morsel::MorselCap;
use libos::{log, Status};

/// Pages of an object at most, by order, as a power of two.
const MOST: [(u32, u32); 3] = [(1, 9), (2, 18), (3, 18)];
const ROUNDS: usize = 5;

/// Objects with 1 to `most` pages.
pub fn measure(_: &crate::Lab, most: u64) -> Result<(), Status> {
    for (order, largest) in MOST {
        // Something is mapped at all: who maps the first object pays for the others.
        let (beside, spot) = (object(order, 1)?, Spot::of(order, 1));
        spot.map(beside)?;
        empty(order)?;
        for power in (0..=largest).take_while(|power| 1 << power <= most) {
            populated(order, 1 << power)?;
        }
        spot.unmap()?;
        destroy(beside)?;
    }
    Ok(())
}

/// Ticks of mapping, of the first access and of unmapping.
fn once(what: libos::CapAddr, spot: Spot) -> Result<[u64; 3], Status> {
    let start = ticks();
    spot.map(what)?;
    let mapped = ticks();
    read(spot.va);
    let used = ticks();
    spot.unmap()?;
    Ok([mapped - start, used - mapped, ticks() - used])
}

/// Nothing is in it: who reads sees zeros, and nothing is allocated.
fn empty(order: u32) -> Result<(), Status> {
    let what = object(order, 0)?;
    let before = free()?;
    let [map, touch, unmap] = once(what, Spot::of(order, 0))?;
    report(order, 0, [map, touch, unmap]);
    if free()? != before {
        return Err(Status::WrongState);
    }
    destroy(what)
}

fn populated(order: u32, pages: u64) -> Result<(), Status> {
    let what = object(order, 0)?;
    what.populate(0, pages, false)?;
    let cost = least(ROUNDS, || once(what, Spot::of(order, 0)))?;
    report(order, pages, cost);
    destroy(what)
}

fn report(order: u32, pages: u64, [map, touch, unmap]: [u64; 3]) {
    log!("@bench map_and_touch,_order_{order} {} at={pages}:pages", map + touch);
    log!("@bench map,_order_{order} {map} at={pages}:pages");
    log!("@bench touch,_order_{order} {touch} at={pages}:pages");
    log!("@bench unmap,_order_{order} {unmap} at={pages}:pages");
}
