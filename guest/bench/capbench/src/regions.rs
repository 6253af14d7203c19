//! Regions of many pages: mapping, unmapping and protecting them at once (G12 table 4.2), whether
//! they were used, and forgetting their translations (G12 table 4.3, figures 4.10 and 4.11).

use crate::{other, report, slot, third, time, Lab};
use libos::abi::slots::VSPACE;
use libos::captypes::invocations::{MapFlags, StatusBits};
use libos::captypes::place::L2_BYTES;
use libos::vspace::{entry_of, R, RW, RWX};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Status, PAGE};

/// An address that nothing else uses, and the tables there.
const VA: u64 = 4 << 39;
const TABLES: CapAddr = slot(240);
const PT: CapAddr = slot(242);
const FRAME: CapAddr = slot(245);
/// Its Mapping.
const MAPPING: CapAddr = slot(246);
/// Pages of the Frame.
const PAGES: u32 = 256;
/// CNodes of 200 capabilities that have nothing to do with what is measured, and the first of their
/// root indexes.
const CROWD: u32 = 40;
const CROWD_L1: u32 = 204;

/// Measures everything.
pub fn measure(lab: &Lab) {
    let names = |names: [&'static str; 3]| [1, 32, 128].into_iter().zip(names);
    for (count, name) in names(["map_1", "map_32", "map_128"]) {
        report(name, 1, || region(lab, count, || time(|| map(count))));
    }
    report("map_part", 1, || region(lab, PAGES, || time(|| map(32))));
    report("unmap_part", 1, || {
        region(lab, PAGES, || {
            map(32)?;
            time(|| MAPPING.delete())
        })
    });
    for (count, name) in names(["unmap_1", "unmap_32", "unmap_128"]) {
        report(name, 1, || mapped(lab, count, 0, || time(|| MAPPING.delete())));
    }
    for (count, name) in names(["unmap_used_1", "unmap_used_32", "unmap_used_128"]) {
        report(name, 1, || {
            mapped(lab, count, count, || {
                // The first time, the kernel has to find out where the table is.
                MAPPING.delete()?;
                map(count)?;
                touch(count);
                time(|| MAPPING.delete())
            })
        });
    }
    for (count, name) in names(["unmap_1_crowd", "unmap_32_crowd", "unmap_128_crowd"]) {
        report(name, 1, || {
            mapped(lab, count, 0, || {
                crowd(lab)?;
                time(|| MAPPING.delete())
            })
        });
    }
    for (count, name) in names(["protect_1", "protect_32", "protect_128"]) {
        report(name, 1, || mapped(lab, count, 0, || time(|| MAPPING.protect(0, count, R))));
    }
    report("protect_used_128", 1, || mapped(lab, 128, 128, || time(|| MAPPING.protect(0, 128, R))));
    report("clear_dirty_512", 1, || {
        mapped(lab, PAGES, 16, || time(|| PT.clear_status(0, 512, StatusBits::DIRTY).map(drop)))
    });
    report("locate", 1, || mapped(lab, 1, 0, || time(|| locate(PT))));
    strategies(lab);
}

fn locate(what: CapAddr) -> Result<(), Status> {
    invoke(what, op::Locate { root: VSPACE.into(), number: 0 }).map(drop)
}

/// Makes tables at [`VA`] and a Frame of so many pages, does `work`, and removes all.
fn region(
    lab: &Lab,
    pages: u32,
    work: impl FnOnce() -> Result<u64, Status>,
) -> Result<u64, Status> {
    let types = [CapType::Pdpt, CapType::Pd, CapType::Pt];
    let mut above = VSPACE;
    for (n, ty) in types.into_iter().enumerate() {
        let (n, level) = (n as u32, 4 - n as u8);
        let table = TABLES.plus(n);
        lab.ram.retype(ty, (4 << 20) + u64::from(n) * PAGE, PAGE, 1, table)?;
        above.map(entry_of(level, VA), 1, table, 0, RWX, TABLES.plus(8 + n))?;
        above = table;
    }
    lab.ram.retype(CapType::Frame, 8 << 20, u64::from(pages) * PAGE, 1, FRAME)?;
    let cost = work()?;
    lab.clean()?;
    Ok(cost)
}

fn map(count: u32) -> Result<(), Status> {
    PT.map(0, count, FRAME, 0, RW, MAPPING)
}

/// The same with `count` pages mapped, the first `used` of them written to.
fn mapped(
    lab: &Lab,
    count: u32,
    used: u32,
    work: impl FnOnce() -> Result<u64, Status>,
) -> Result<u64, Status> {
    region(lab, count, || {
        map(count)?;
        touch(used);
        work()
    })
}

fn touch(pages: u32) {
    for n in 0..u64::from(pages) {
        // SAFETY: callers have mapped a writable page there.
        unsafe { core::ptr::write_volatile((VA + n * PAGE) as *mut u64, n) }
    }
}

/// Thousands of capabilities, in CNodes of their own: small Frames and copies of them.
fn crowd(lab: &Lab) -> Result<(), Status> {
    lab.ram.retype(CapType::Frame, 0, PAGE, 200, other(0))?;
    for n in 0..CROWD {
        let node = third(n);
        let base = (10 << 20) + u64::from(n) * L2_BYTES;
        lab.ram.retype(CapType::L2CNode, base, L2_BYTES, 1, node)?;
        let root_slot = Place::l1(CapAddr::NULL, CROWD_L1 + n);
        node.move_to(root_slot)?;
        other(0).copy_range(CapAddr::new(CROWD_L1 + n, 0), 200, CapType::Null)?;
    }
    Ok(())
}

/// What a loss of rights costs a program that goes on using its pages: `lose` of [`PAGES`] lose
/// a right and get it back, then `used` are used. By instructions there is nothing to choose between
/// the strategies but their own work; by time there are the translations that a full flush takes.
fn strategies(lab: &Lab) {
    const ROUNDS: u64 = 64;
    let all = R.or(MapFlags::FLUSH_ALL);
    let single = R.or(MapFlags::FLUSH_PAGES);
    let rows = [
        (1, 256, "flush_1_full", "flush_1_selective"),
        (8, 256, "flush_8_full", "flush_8_selective"),
        (32, 256, "flush_32_full", "flush_32_selective"),
        (128, 256, "flush_128_full", "flush_128_selective"),
        (1, 32, "flush_1_of_32_full", "flush_1_of_32_selective"),
        (32, 32, "flush_32_of_32_full", "flush_32_of_32_selective"),
    ];
    for (lose, used, full, selective) in rows {
        for (name, flags) in [(full, all), (selective, single)] {
            report(name, ROUNDS, || {
                mapped(lab, PAGES, PAGES, || time(|| lose_rights(ROUNDS, lose, used, flags)))
            });
        }
    }
}

fn lose_rights(rounds: u64, lose: u32, used: u32, flags: MapFlags) -> Result<(), Status> {
    for _ in 0..rounds {
        MAPPING.protect(0, lose, flags)?;
        MAPPING.protect(0, lose, RW)?;
        touch(used);
    }
    Ok(())
}
