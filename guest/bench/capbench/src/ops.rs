//! Operations on capabilities and page tables.

use crate::{other, report, slot, third, time, Lab};
use libos::abi::slots::KERNEL;
use libos::captypes::invocations::{MapFlags, Part};
use libos::captypes::place::L2_BYTES;
use libos::vspace::{R, RW};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Status, PAGE};

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
    loans(lab);
    maps(lab);
    tables(lab);
    long(lab);
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
    report("retype_large_each_mib", 8, || {
        let cost = time(|| lab.ram.retype(CapType::Frame, 0, 8 << 20, 1, slot(0)))?;
        lab.clean()?;
        Ok(cost)
    });
    report("retype_large_step", 1, || {
        let dst = slot(0).into();
        let args =
            op::Retype { ty: CapType::Frame.into(), offset: 0, bytes: 8 << 20, count: 1, dst };
        let cost = time(|| match invoke(lab.ram, args) {
            Err(Status::Again) => Ok(()),
            other => other,
        })?;
        lab.clean()?;
        Ok(cost)
    });
    report("retype_many_each", 14, || {
        let kinds = [CapType::Frame, CapType::Pt, CapType::Dispatcher, CapType::Endpoint];
        let parts = core::array::from_fn(|n| {
            let part = Part::new(kinds[n % 4], 4 * n as u64, 1, 2);
            part.unwrap_or(Part::NONE)
        });
        let cost = time(|| lab.ram.retype_many(slot(0), parts).map(drop))?;
        lab.clean()?;
        Ok(cost)
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

/// Frames of a page each, 64 KiB, as a pipe lends them; what each page costs.
fn loans(lab: &Lab) {
    const PAGES: u32 = 16;
    const BYTES: u64 = PAGES as u64 * PAGE;
    // All there as soon as it is written to.
    let memory = alloc::vec![1u8; (BYTES + PAGE) as usize];
    let target = (memory.as_ptr() as u64).next_multiple_of(PAGE);
    let (dst, copies) = (slot(100).into(), other(0).into());
    let lend = |offset, lower| {
        let (bytes, rights) = (BYTES - offset, libos::Rights::READ);
        slot(0).lend(op::Lend { count: PAGES, offset, bytes, rights, lower, dst, copies }).map(drop)
    };
    report("lend_each", PAGES.into(), || with_frames(lab, PAGES, || time(|| lend(0, false))));
    report("lend_lowered_each", PAGES.into(), || {
        with_table(lab, PAGES, || {
            slot(255).map_many(0, PAGES, slot(0), RW, slot(120))?;
            time(|| lend(0, true))
        })
    });
    for (name, offset) in [("copy_out_each", 0), ("copy_out_unaligned_each", 1000)] {
        report(name, PAGES.into(), || {
            with_frames(lab, PAGES, || {
                lend(offset, false)?;
                time(|| other(0).copy_out(0, target, BYTES - offset).map(drop))
            })
        });
    }
    report("recall_each", PAGES.into(), || {
        with_frames(lab, PAGES, || {
            lend(0, false)?;
            time(|| slot(100).recall(PAGES))
        })
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

/// Operations that take several steps: the longest of the steps.
fn long(lab: &Lab) {
    report("longest_step_of_revoke", 1, || {
        lab.ram.retype(CapType::Frame, 0, 2 << 20, 1, slot(0))?;
        for n in 0..3 {
            lab.ram.retype(CapType::Pt, (4 << 20) + n * PAGE, PAGE, 1, slot(3))?;
            lab.ram.retype(CapType::L2CNode, (5 << 20) + n * 2 * L2_BYTES, L2_BYTES, 2, slot(4))?;
            for half in 0..2 {
                let node = Place::l1(CapAddr::NULL, 210);
                slot(4 + half).copy_to(node)?;
                for entry in 0..256 {
                    let at = CapAddr::new(210, entry);
                    slot(3).map(half * 256 + entry, 1, slot(0), 0, R, at)?;
                }
                node.delete()?;
            }
            let kept = slot(10 + 3 * n as u32);
            slot(3).move_to(kept)?;
            slot(4).move_to(kept.plus(1))?;
            slot(5).move_to(kept.plus(2))?;
        }
        let mut longest = 0;
        loop {
            let mut done = true;
            let step = || match invoke(slot(0), op::Revoke {}) {
                Err(Status::Again) => {
                    done = false;
                    Ok(())
                }
                other => other,
            };
            longest = longest.max(time(step)?);
            if done {
                break;
            }
        }
        lab.clean()?;
        Ok(longest)
    });
    report("resize_root_of_256_to_512", 1, || {
        lab.ram.retype(CapType::L1CNode, 0, L2_BYTES, 1, slot(0))?;
        lab.ram.retype(CapType::L2CNode, 4 * L2_BYTES, L2_BYTES, 16, Place::l1(slot(0), 0))?;
        lab.ram.retype(CapType::L1CNode, 2 * L2_BYTES, 2 * L2_BYTES, 1, slot(1))?;
        let cost = time(|| slot(0).resize(slot(1)))?;
        lab.clean()?;
        Ok(cost)
    });
    report("collect_cycles", 1, || {
        lab.ram.retype(CapType::L2CNode, 0, L2_BYTES, 1, slot(0))?;
        slot(0).copy_to(slot(1))?;
        slot(1).delete()?;
        let cost = time(|| loop {
            match invoke(KERNEL, op::CollectCycles {}) {
                Err(Status::Again) => {}
                other => return other.map(drop),
            }
        })?;
        lab.clean()?;
        Ok(cost)
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
