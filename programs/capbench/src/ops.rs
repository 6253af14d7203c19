//! Operations on capabilities and page tables.

use crate::{other, report, slot, third, time, Lab};
use libos::captypes::invocations::MapFlags;
use libos::vspace::{R, RW};
use libos::{invoke, op, Cap, CapType, Status};

const PAGE: u64 = 4096;

/// Measures everything.
pub fn measure(lab: &Lab) {
    report("nothing", 1, || time(|| Ok(())));
    report("no_op", 100, || time(|| (0..100).try_for_each(|_| invoke(lab.ram, op::NoOp {}))));
    report("refused", 100, || {
        time(|| {
            (0..100).for_each(|_| _ = invoke(lab.ram, op::IrqAck {}));
            Ok(())
        })
    });
    report("compare", 100, || {
        time(|| (0..100).try_for_each(|_| lab.ram.is_same(lab.ram).map(drop)))
    });
    report("identify", 100, || time(|| (0..100).try_for_each(|_| lab.ram.identify().map(drop))));
    copies(lab);
    retypes(lab);
    maps(lab);
    tables(lab);
}

/// `work` on `count` Frames in the first slots.
fn with_frames(
    lab: &Lab,
    count: u32,
    work: impl FnOnce() -> Result<u64, Status>,
) -> Result<u64, Status> {
    lab.ram.retype(CapType::Frame, 0, PAGE, count, slot(0))?;
    let cost = work()?;
    lab.clean()?;
    Ok(cost)
}

fn copies(lab: &Lab) {
    report("copy", 1, || with_frames(lab, 1, || time(|| slot(0).copy_to(slot(1)))));
    report("delete_copy", 1, || {
        with_frames(lab, 1, || {
            slot(0).copy_to(slot(1))?;
            time(|| slot(1).delete())
        })
    });
    report("copy_range_each", 256, || {
        with_frames(lab, 256, || {
            time(|| slot(0).copy_range(other(0), 256, CapType::Null).map(drop))
        })
    });
    report("delete_range_of_copies_each", 256, || {
        with_frames(lab, 256, || {
            slot(0).copy_range(other(0), 256, CapType::Null)?;
            time(|| other(0).delete_range(256))
        })
    });
    report("delete_range_of_frames_each", 256, || {
        with_frames(lab, 256, || time(|| slot(0).delete_range(256)))
    });
}

fn retypes(lab: &Lab) {
    report("retype_frame", 1, || {
        with_frames(lab, 16, || {
            time(|| lab.ram.retype(CapType::Frame, 16 * PAGE, PAGE, 1, slot(16)))
        })
    });
    report("retype_16_frames_each", 16, || {
        with_frames(lab, 16, || {
            time(|| lab.ram.retype(CapType::Frame, 16 * PAGE, PAGE, 16, slot(16)))
        })
    });
    report("retype_ram", 1, || {
        with_frames(lab, 16, || time(|| lab.ram.retype(CapType::Ram, 16 * PAGE, PAGE, 1, slot(16))))
    });
    report("retype_copy", 1, || {
        with_frames(lab, 16, || time(|| lab.ram.retype_copy(16 * PAGE, slot(3), slot(16))))
    });
    report("delete_frame", 1, || with_frames(lab, 16, || time(|| slot(15).delete())));
    report("delete_last_of_page", 1, || {
        lab.ram.retype(CapType::Ram, 0, 16 * PAGE, 1, slot(200))?;
        slot(200).retype(CapType::Frame, 0, PAGE, 16, slot(0))?;
        slot(200).delete()?;
        let cost = time(|| slot(7).delete())?;
        lab.clean()?;
        Ok(cost)
    });
}

/// `work` with a last-level table in slot 255 and Frames as above.
fn with_table(
    lab: &Lab,
    count: u32,
    work: impl FnOnce() -> Result<u64, Status>,
) -> Result<u64, Status> {
    lab.ram.retype(CapType::Pt, 4 << 20, PAGE, 1, slot(255))?;
    with_frames(lab, count, work)
}

fn map_all(flags: MapFlags) -> Result<(), Status> {
    slot(255).map_many(0, 128, slot(0), flags, other(0)).map(drop)
}

fn maps(lab: &Lab) {
    report("map_one", 1, || {
        with_table(lab, 64, || {
            map_all(RW)?;
            time(|| slot(255).map(200, 1, slot(20), 0, RW, other(200)))
        })
    });
    report("map_128_at_once", 1, || {
        with_table(lab, 1, || {
            lab.ram.retype(CapType::Frame, 8 << 20, 128 * PAGE, 1, slot(1))?;
            time(|| slot(255).map(200, 128, slot(1), 0, RW, other(200)))
        })
    });
    report("map_many_each", 128, || with_table(lab, 128, || time(|| map_all(RW))));
    report("protect_many_each", 128, || {
        with_table(lab, 128, || {
            map_all(RW)?;
            time(|| other(0).protect_many(128, R).map(drop))
        })
    });
    report("protect_many_if_exclusive_each", 128, || {
        with_table(lab, 128, || {
            map_all(R)?;
            let flags = RW.or(MapFlags::IF_EXCLUSIVE);
            time(|| other(0).protect_many(128, flags).map(drop))
        })
    });
    report("protect_one", 1, || {
        with_table(lab, 128, || {
            map_all(RW)?;
            time(|| other(5).protect(0, 1, R))
        })
    });
    report("delete_mapping", 1, || {
        with_table(lab, 128, || {
            map_all(RW)?;
            time(|| other(5).delete())
        })
    });
    report("delete_mapped_frame", 1, || {
        with_table(lab, 128, || {
            map_all(RW)?;
            time(|| slot(5).delete())
        })
    });
    report("delete_range_of_mappings_each", 128, || {
        with_table(lab, 128, || {
            map_all(RW)?;
            time(|| other(0).delete_range(128))
        })
    });
    report("read_entry", 1, || {
        with_table(lab, 1, || time(|| invoke(slot(255), op::ReadEntry { entry: 3 }).map(drop)))
    });
}

fn tables(lab: &Lab) {
    report("tear_down_128_entries_each", 128, || {
        with_table(lab, 128, || {
            map_all(RW)?;
            time(|| slot(255).delete())
        })
    });
    report("map_table", 1, || {
        with_table(lab, 1, || {
            lab.ram.retype(CapType::Pd, 5 << 20, PAGE, 1, slot(254))?;
            time(|| slot(254).map(7, 1, slot(255), 0, RW, third(0)))
        })
    });
}
