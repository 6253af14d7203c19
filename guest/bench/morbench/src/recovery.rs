//! Pools: what it takes to format one, to fill it and to find out what is in it.

use crate::lab::{destroy, object, slot, time, POOL};
use libos::captypes::Rights;
use libos::morsel::{MorselCap, Persistence, PoolCap};
use libos::{log, Cap, Status};

/// The order of the object: 1 GiB.
const ORDER: u32 = 2;

/// A pool whose object has up to `most` pages.
pub fn measure(lab: &crate::Lab, most: u64) -> Result<(), Status> {
    POOL.delete()?;
    lab.make_pool()?;
    let format = time(|| POOL.format_pool(Persistence::Caches))?;
    log!("@bench format,_per_MiB_of_pool {}", format / (lab.pool_bytes >> 20));
    for power in (0..=18).step_by(3) {
        if 1 << power <= most {
            recover(lab, 1 << power)?;
        }
    }
    Ok(())
}

fn recover(lab: &crate::Lab, pages: u64) -> Result<(), Status> {
    let what = object(ORDER, 0)?;
    let record = what.morsel_info()?.record;
    let fill = time(|| what.populate(0, pages, false))?;
    let free = POOL.pool_info()?.free;
    // As after a start: nobody knows anything of it but its memory.
    POOL.delete()?;
    lab.make_pool()?;
    let recover = time(|| POOL.recover_pool(Persistence::Caches))?;
    if POOL.pool_info()?.free != free {
        return Err(Status::WrongState);
    }
    log!("@bench populate_by_invocation,_per_page {} at={pages}:pages", fill / pages);
    log!("@bench recover {recover} at={pages}:pages");
    let rights = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
    POOL.open_morsel(record, rights, slot(0))?;
    destroy(slot(0))
}
