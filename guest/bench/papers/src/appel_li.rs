//! G18 figure 3.2: the benchmark of Appel and Li (*Virtual Memory Primitives for User Programs*,
//! ASPLOS 1991).

use crate::flushing::{with_strategy, STRATEGIES};
use crate::lab::{Lab, PLAY_VA};
use crate::region::Region;
use crate::report::{ticks, Case};
use crate::self_paging::{invoking, run, Fault};
use alloc::format;
use core::arch::asm;
use core::cell::Cell;
use libos::captypes::invocations::FlushStrategy;
use libos::vspace::{R, RW};
use libos::Status;
use libos::PAGE;
use testkit::Rng;

const FIGURE: &str = "G18-figure-3.2";
/// Pages of the array. As in the paper, less than 2 MiB.
const PAGES: u32 = 256;
/// Pages that are protected at once, and accesses in a round.
const N: u32 = 100;
/// Samples of each number.
const ROUNDS: usize = 5;

/// What a fault is answered with.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// Nothing: the program goes on behind the instruction.
    Skip,
    /// The page may be written again.
    Unprotect,
    /// The page may be written again, and another one is protected.
    Exchange,
}

/// Measures everything here: with the kernel's default policy of flushing the TLB, and with others.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    with_suffix(lab, "")?;
    for (name, strategy) in STRATEGIES {
        if strategy != FlushStrategy::Hybrid {
            with_strategy(strategy, || with_suffix(lab, &format!(",_{name}")))?;
        }
    }
    Ok(())
}

fn with_suffix(lab: &mut Lab, suffix: &str) -> Result<(), Status> {
    let region = Region::make(lab, PLAY_VA, u64::from(PAGES) * PAGE, 1, RW)?;
    let answer = Cell::new(Answer::Skip);
    let other = Cell::new(0);
    let failed = Cell::new(None);
    let handler = |fault: &mut Fault| {
        let page = ((fault.address - PLAY_VA) / PAGE) as u32;
        let result = match answer.get() {
            Answer::Skip => {
                fault.skip(STORE_BYTES);
                Ok(())
            }
            Answer::Unprotect => region.protect_page(page, RW),
            Answer::Exchange => {
                let protected = region.protect_page(other.replace(page), R);
                protected.and_then(|()| region.protect_page(page, RW))
            }
        };
        if let Err(error) = result {
            // The same fault would come for ever.
            failed.set(Some(error));
            fault.skip(STORE_BYTES);
        }
    };
    let mut body = || {
        let result = primitives(&region, suffix)
            .and_then(|()| trap(&region, &answer, suffix))
            .and_then(|()| prot1_trap_unprot(&region, &answer, &other, suffix))
            .and_then(|()| prot_n_trap_unprot(&region, &answer, suffix));
        if let Err(error) = result {
            failed.set(Some(error));
        }
    };
    run(lab, &handler, &mut body)?;
    lab.clean()?;
    failed.get().map_or(Ok(()), Err)
}

/// Bytes of the instruction of [`store`].
const STORE_BYTES: u64 = 2;

/// Stores a byte in a page by an instruction of known length.
#[inline(always)]
fn store(page: u32) {
    let va = PLAY_VA + u64::from(page) * PAGE + u64::from(page) * 8 % PAGE;
    // SAFETY: the region is mapped and holds nothing.
    unsafe { asm!("mov [rdi], al", in("rdi") va, in("al") 1u8, options(nostack)) }
}

/// The time of `work`, several times.
fn sample(mut work: impl FnMut() -> Result<(), Status>) -> Result<[u64; ROUNDS], Status> {
    let mut samples = [0; ROUNDS];
    for sample in &mut samples {
        let before = ticks();
        work()?;
        *sample = ticks() - before;
    }
    Ok(samples)
}

/// Reports what each of N pages or accesses took.
fn report(name: &str, suffix: &str, samples: [u64; ROUNDS]) {
    invoking(|| {
        let name = format!("{name}{suffix}");
        Case::new(FIGURE, &name).each(&samples, N.into());
    });
}

/// Protecting one page, all pages in one step, and unprotecting one page.
fn primitives(region: &Region, suffix: &str) -> Result<(), Status> {
    let each = |flags| (0..N).try_for_each(|page| invoking(|| region.protect_page(page, flags)));
    let all = |flags| invoking(|| region.protect_pages(0, N, flags));
    let (mut prot1, mut unprot, mut prot_n) = ([0; ROUNDS], [0; ROUNDS], [0; ROUNDS]);
    for round in 0..ROUNDS {
        let timed = |work: &dyn Fn() -> Result<(), Status>| {
            let before = ticks();
            work().map(|()| ticks() - before)
        };
        // Pages that were written to: their translations must be forgotten.
        (0..N).for_each(store);
        prot1[round] = timed(&|| each(R))?;
        unprot[round] = timed(&|| each(RW))?;
        (0..N).for_each(store);
        prot_n[round] = timed(&|| all(R))?;
        all(RW)?;
    }
    report("prot1", suffix, prot1);
    report("protN", suffix, prot_n);
    report("unprot", suffix, unprot);
    Ok(())
}

/// A write to a protected page, and the handler that does nothing.
fn trap(region: &Region, answer: &Cell<Answer>, suffix: &str) -> Result<(), Status> {
    answer.set(Answer::Skip);
    invoking(|| region.protect(R))?;
    let samples = sample(|| {
        (0..N).for_each(store);
        Ok(())
    })?;
    invoking(|| region.protect(RW))?;
    report("trap", suffix, samples);
    Ok(())
}

/// Each access faults; the handler unprotects its page and protects another.
fn prot1_trap_unprot(
    region: &Region,
    answer: &Cell<Answer>,
    other: &Cell<u32>,
    suffix: &str,
) -> Result<(), Status> {
    answer.set(Answer::Exchange);
    invoking(|| region.protect(R))?;
    let mut random = Rng::with_seed(0x0a99_e11a);
    other.set(PAGES - 1);
    let samples = sample(|| {
        for _ in 0..N {
            let mut page = random.u32(..PAGES);
            if page == other.get() {
                page = (page + 1) % PAGES;
            }
            store(page);
        }
        Ok(())
    })?;
    invoking(|| region.protect(RW))?;
    report("prot1-trap-unprot", suffix, samples);
    Ok(())
}

/// Protects pages in one step, then accesses each in random order; the handler unprotects its page.
fn prot_n_trap_unprot(region: &Region, answer: &Cell<Answer>, suffix: &str) -> Result<(), Status> {
    answer.set(Answer::Unprotect);
    let mut order: [u32; N as usize] = core::array::from_fn(|n| n as u32);
    let mut random = Rng::with_seed(0x0a99_e11b);
    for n in (1..order.len()).rev() {
        order.swap(n, random.u64(..n as u64 + 1) as usize);
    }
    let samples = sample(|| {
        invoking(|| region.protect_pages(0, N, R))?;
        order.iter().for_each(|&page| store(page));
        Ok(())
    })?;
    report("protN-trap-unprot", suffix, samples);
    Ok(())
}
