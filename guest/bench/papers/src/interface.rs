//! G12 table 4.2: what the kernel interface costs. Figures 4.3 to 4.6: the same for 1 to 1,024 pages,
//! by invocations and through the library.

use crate::lab::{Lab, PLAY_VA};
use crate::library::Library;
use crate::region::Region;
use crate::report::{sample, time, Case};
use alloc::format;
use alloc::vec::Vec;
use core::arch::asm;
use libos::captypes::Label;
use libos::vspace::{R, RW};
use libos::{Cap, CapAddr, CapType, Status, PAGE};

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
const FIGURES: &str = "G12-figures-4.3-4.6";

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    system_calls(lab)?;
    for (figure, pages) in [(TABLE, &TABLE_PAGES[..]), (FIGURES, &PAGES)] {
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

/// Executes the system call with label `LABEL` on the capability at `target` [`MANY`] times, without
/// a loop: four instructions of the caller each.
#[inline(never)]
fn repeat<const LABEL: u32>(target: CapAddr) -> Result<u64, Status> {
    time(|| {
        // SAFETY: neither operation does anything; the kernel changes only registers named here.
        unsafe {
            asm!(
                ".rept {many}",
                "mov eax, {label}",
                "mov edi, {target:e}",
                "xor esi, esi",
                "syscall",
                ".endr",
                many = const MANY,
                label = const LABEL,
                target = in(reg) target.0,
                out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _,
                options(nostack),
            );
        }
        Ok(())
    })
}

fn system_calls(lab: &mut Lab) -> Result<(), Status> {
    let Lab { ram, .. } = *lab;
    // No operation has this number.
    let null = sample(ROUNDS, || repeat::<0>(CapAddr::NULL))?;
    Case::new(TABLE, "no-op").each(&null, MANY);
    // Operations that find their capability, and that it is of another type: one of those that
    // the kernel takes to be frequent, and one of the others.
    let (frequent, each) = no_op(lab, ROUNDS)?;
    Case::new(TABLE, "invoke").each(&frequent, each);
    let rare = sample(ROUNDS, || repeat::<{ Label::IrqAck as u32 }>(ram))?;
    Case::new(TABLE, "invoke,_a_rare_operation").each(&rare, MANY);
    Ok(())
}

/// Samples of invocations that do nothing, and how many each is of.
pub fn no_op(lab: &Lab, rounds: usize) -> Result<(Vec<u64>, u64), Status> {
    let samples = sample(rounds, || repeat::<{ Label::ReadEntry as u32 }>(lab.ram))?;
    Ok((samples, MANY))
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
    if figure == FIGURES {
        let through_library = Library::new(frame, 1)?.samples(ROUNDS, pages * PAGE)?;
        report("map,_library", &through_library.map);
        report("unmap,_library", &through_library.unmap);
        report("protect,_library", &through_library.protect);
    }
    frame.delete()
}
