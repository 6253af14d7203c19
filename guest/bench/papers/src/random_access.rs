//! G18 table 3.1 and figure 3.4: HPC Challenge RandomAccess with tables in pages of each size.

use crate::lab::{Lab, PLAY_VA};
use crate::region::{view, Region};
use crate::report::{time, Case};
use crate::sizes::PAGE_NAMES;
use libos::vspace::{entry_bytes, RW};
use libos::{log, Status};
use workloads::random_access::{
    errors, initialise, measured_updates, update, MEASURED_LARGE_MIB, MEASURED_MIB,
};
use workloads::Unobserved;

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    for level in 1..=3 {
        let sizes = if lab.small { &MEASURED_MIB[..1] } else { &MEASURED_MIB };
        for &size in sizes {
            run(lab, "G18-figure-3.4", size, level)?;
        }
        if !lab.small {
            run(lab, "G18-table-3.1", MEASURED_LARGE_MIB, level)?;
        }
    }
    Ok(())
}

/// One table: initialised, updated, verified.
fn run(lab: &mut Lab, figure: &str, mib: u64, level: u8) -> Result<(), Status> {
    let bytes = mib << 20;
    if lab.left() < bytes.max(entry_bytes(level)) + entry_bytes(level) + (8 << 20) {
        log!("papers: no memory for a table of {mib} MiB in {} pages", PAGE_NAMES[level as usize]);
        return Ok(());
    }
    let region = Region::make(lab, PLAY_VA, bytes.max(entry_bytes(level)), level, RW)?;
    // SAFETY: just mapped, and unmapped by `clean` below.
    let table: &mut [u64] = unsafe { view(region.va, bytes as usize / 8) };
    let updates = measured_updates(bytes);
    initialise(table);
    let cost = time(|| {
        update(table, updates, &mut Unobserved);
        Ok(())
    })?;
    let changed = errors(table);
    update(table, updates, &mut Unobserved);
    let wrong = errors(table);
    // Of u updates that fall on w words at random, more than half of the lesser change something.
    if wrong != 0 || changed < updates.min(table.len() as u64) / 2 {
        log!("papers: RandomAccess of {mib} MiB: {changed} words changed, {wrong} are wrong");
        return Err(Status::Invalid);
    }
    let name = alloc::format!("update_{}_pages", PAGE_NAMES[level as usize]);
    Case::new(figure, &name).at(mib, "MiB").each(&[cost], updates);
    lab.clean()
}
