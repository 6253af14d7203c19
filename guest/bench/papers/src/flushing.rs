//! G12 table 4.3 and figures 4.10 and 4.11: strategies of flushing the TLB.
//!
//! Pages are written to between mapping and unmapping: of an entry that was never used the processor
//! caches nothing, and the kernel forgets nothing.

use crate::lab::{Lab, PLAY_VA};
use crate::region::{view, Region};
use crate::report::{sample, time, Case};
use alloc::format;
use libos::abi::slots::KERNEL;
use libos::captypes::invocations::{Counter, FlushPolicy, FlushStrategy};
use libos::log::counter;
use libos::vspace::{R, RW};
use libos::{invoke, log, op, Cap, CapType, Status, PAGE};

const TABLE: &str = "G12-table-4.3";
const FIGURES: &str = "G12-figures-4.10-4.11";
/// Samples of each number.
const ROUNDS: usize = 5;
/// Pages of the figures' x-axis.
const PAGES: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Pages with which the cost of one is measured.
const SOME: u64 = 32;

/// The strategies by name.
pub const STRATEGIES: [(&str, FlushStrategy); 3] = [
    ("full", FlushStrategy::Full),
    ("selective", FlushStrategy::Selective),
    ("hybrid", FlushStrategy::Hybrid),
];

/// Runs `work` with a strategy as the core's policy.
pub fn with_strategy<T>(
    strategy: FlushStrategy,
    work: impl FnOnce() -> Result<T, Status>,
) -> Result<T, Status> {
    // To learn the threshold, which stays as it is.
    let before = set(FlushPolicy { strategy, threshold: 1 })?;
    set(FlushPolicy { strategy, ..before })?;
    let result = work();
    set(before)?;
    result
}

fn set(policy: FlushPolicy) -> Result<FlushPolicy, Status> {
    let FlushPolicy { strategy, threshold } = policy;
    invoke(KERNEL, op::SetFlushPolicy { strategy, threshold })
}

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    single(lab)?;
    for pages in PAGES {
        for (name, strategy) in STRATEGIES {
            with_strategy(strategy, || map_and_unmap(lab, name, pages))?;
        }
        lab.clean()?;
    }
    Ok(())
}

/// Writes to every page.
#[inline(never)]
fn touch(region: &Region) {
    // SAFETY: the region is mapped writable, and holds nothing.
    let words: &mut [u64] = unsafe { view(region.va, (region.bytes / 8) as usize) };
    words.iter_mut().step_by(512).for_each(|word| *word = 1);
}

fn map_and_unmap(lab: &mut Lab, name: &str, pages: u64) -> Result<(), Status> {
    let frame = lab.make(CapType::Frame, pages * PAGE, 1, PAGE)?;
    let region = Region::new(lab, frame, PLAY_VA, pages * PAGE, 1)?;
    let report = |what: &str, samples: &[u64]| {
        Case::new(FIGURES, &format!("{what},_{name}")).at(pages, "pages").samples(samples);
    };
    let map = sample(ROUNDS, || {
        let cost = time(|| region.map(RW))?;
        touch(&region);
        region.unmap()?;
        Ok(cost)
    })?;
    report("map", &map);
    let unmap = sample(ROUNDS, || {
        region.map(RW)?;
        touch(&region);
        time(|| region.unmap())
    })?;
    report("unmap", &unmap);
    frame.delete()
}

/// What forgetting costs: protecting pages that were used, less protecting pages that were not.
fn single(lab: &mut Lab) -> Result<(), Status> {
    let region = Region::make(lab, PLAY_VA, SOME * PAGE, 1, RW)?;
    let protect = |used: bool| {
        sample(ROUNDS, || {
            region.unmap()?;
            region.map(RW)?;
            if used {
                touch(&region);
            }
            time(|| region.protect(R))
        })
    };
    let unused = protect(false)?[0];
    for (case, strategy, each, counted) in [
        ("reload_cr3", FlushStrategy::Full, 1, Counter::TlbFlushes),
        ("invlpg,_a_page", FlushStrategy::Selective, SOME, Counter::TlbPages),
    ] {
        let before = counter(counted)?;
        let used = with_strategy(strategy, || protect(true))?;
        // Once or for each page, in every round: when it was protected, and when it was unmapped.
        let flushed = counter(counted)? - before;
        if flushed < each * ROUNDS as u64 {
            log!("papers: {case}: only {flushed} in {ROUNDS} rounds");
            return Err(Status::Invalid);
        }
        let costs: alloc::vec::Vec<_> = used.iter().map(|cost| cost - unused).collect();
        Case::new(TABLE, case).each(&costs, each);
    }
    lab.clean()
}
