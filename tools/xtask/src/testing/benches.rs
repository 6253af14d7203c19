//! The benchmarks with little work in each: that they come to their end, that what they measure is
//! understood, and that a program that fails ends at once and by its name.

use super::{Case, Context};
use crate::bench::Measuring;
use crate::bench_group::Lab;
use crate::machine::MachineOptions;
use crate::results::Measurement;
use crate::{bench, bench_cores, bench_host, bench_mor, bench_sfb, bench_sizes, bench_uvm, papers};
use anyhow::{bail, ensure, Context as _, Result};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(600);

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = papers::sections()
        .map(|section| {
            measuring(format!("bench/papers-{section}"), move |context| {
                papers::try_section(context, section, TIMEOUT.as_secs())
            })
        })
        .collect();
    // Too few for a cache, enough for every operation.
    cases.push(measuring("bench/mdb".into(), |context| {
        bench_host::measure(&context.project, &["256"])
    }));
    cases.push(measuring("bench/amap".into(), |context| {
        bench_host::measure_amaps(&context.project, true)
    }));
    cases.push(measuring("bench/caps".into(), |context| {
        bench::measure_invocations(context, TIMEOUT)
    }));
    cases.push(measuring("bench/capsize".into(), |context| bench_sizes::measure(context, TIMEOUT)));
    cases.extend(bench_cores::CORES.parts().map(|part| {
        measuring(format!("bench/{part}").replace("/cores/", "/cores-"), move |context| {
            bench_cores::CORES.measure_part(&small(context), part)
        })
    }));
    cases.extend(bench_mor::MOR.parts().map(|part| {
        measuring(format!("bench/{part}").replace("/mor/", "/mor-"), move |context| {
            bench_mor::MOR.measure_part(&small(context), part)
        })
    }));
    cases.push(Case::single("bench/sfb".into(), three_kernels));
    cases.push(Case::single("bench/uvm-figures".into(), two_forks));
    cases.push(Case::single("bench/basic".into(), basic));
    cases.push(Case::single("bench/failing_program".into(), failing_program));
    cases
}

fn measuring(
    name: String,
    measure: impl FnOnce(&Context) -> Result<Vec<Measurement>> + Send + 'static,
) -> Case {
    Case::single(name, move |context| {
        let measured = measure(context)?;
        ensure!(!measured.is_empty(), "nothing was measured");
        let empty = measured.iter().find(|own| own.median().is_none());
        ensure!(empty.is_none(), "nothing was measured of {empty:?}");
        Ok(())
    })
}

/// The figures of UVM: with forks that copy at once there are many more copies and fewer faults, none of which copies what others have.
fn two_forks(context: &Context) -> Result<()> {
    let all = bench_uvm::UVM.measure_part(&small(context), "uvm/figures")?;
    let value = |how: &str, case: &str| {
        let case = format!("figures, {how}: {case}");
        let found = all.iter().find(|one| one.question.case == case);
        found.and_then(Measurement::median).with_context(|| format!("no {case}"))
    };
    let both = |case: &str| anyhow::Ok((value("copy-on-write", case)?, value("eager", case)?));
    let (forks, eager_forks) = both("fork, of memory (5.5, 5.1), calls")?;
    ensure!(forks > 100.0 && forks == eager_forks, "{forks} forks, and {eager_forks}");
    for (case, times) in
        [("pages copied", 8.0), ("pages allocated", 2.0), ("fork, of memory (5.5, 5.1)", 8.0)]
    {
        let (few, many) = both(case)?;
        ensure!(few > 0.0 && many > times * few, "{case}: {few}, and {many} of eager forks");
    }
    let (many, few) = both("page faults (5.6, 5.1), calls")?;
    ensure!(few > 0.0 && many > few, "{many} faults, and {few} behind eager forks");
    let (copied, none) = both("- a page copied that others have, too, calls")?;
    ensure!(copied > 100.0 && none == 0.0, "{copied} faults copy, and {none} behind eager forks");
    Ok(())
}

/// The figures of SFB: what is measured of the three kernels is not the same, and only the one that keeps no mapping
/// interrupts other cores.
fn three_kernels(context: &Context) -> Result<()> {
    let all = bench_sfb::try_all(context, TIMEOUT)?;
    let value = |figure: &str, case: &str, cores: f64| {
        let found = all.iter().find(|one| {
            let question = &one.question;
            question.benchmark == format!("SFB-{figure}")
                && question.case == case
                && question.at.as_ref().is_some_and(|at| at.value == cores)
        });
        found.and_then(Measurement::median).with_context(|| format!("no {figure}: {case}, {cores}"))
    };
    for cores in [1.0, 4.0] {
        for (times, counts) in [
            ("f2", "f3"),
            ("f4", "f5"),
            ("f6", "f7"),
            ("f8a", "f10a"),
            ("f8b", "f10b"),
            ("f8", "f10"),
        ] {
            let [uncached, cache, direct] =
                ["uncached", "cache", "direct"].map(|case| value(times, case, cores));
            let (uncached, cache, direct) = (uncached?, cache?, direct?);
            ensure!(direct > 0.0, "{times} costs nothing");
            ensure!(uncached != cache && cache != direct, "{times}: {uncached} {cache} {direct}");
            for map in ["cache", "direct"] {
                let remote = value(counts, &format!("{map}, remote"), cores)?;
                ensure!(remote == 0.0, "{counts}, {map}: {remote} remote invalidations");
            }
            let remote = value(counts, "uncached, remote", cores)?;
            ensure!((remote > 0.0) == (cores > 1.0), "{counts}: {remote} on {cores} cores");
        }
        ensure!(value("f9", "read, direct", cores)? > 0.0, "nothing was read");
    }
    ensure!(value("s3", "local invalidation", 1.0)? > 0.0, "a local invalidation is free");
    ensure!(
        value("s3", "remote invalidation", 4.0)? > value("s3", "remote invalidation", 2.0)?,
        "three cores forget as fast as one"
    );
    Ok(())
}

/// Every program of the standard set comes to its end.
fn basic(context: &Context) -> Result<()> {
    let mut kept = bench::Kept::new(None);
    let measured = bench::measure_basic(&context.project, TIMEOUT, &mut kept)?;
    ensure!(!kept.has_failed(), "a program has failed");
    ensure!(measured.len() > 60, "only {} rows", measured.len());
    Ok(())
}

/// A native program whose second dispatcher raises an exception while the first waits for it: the run
/// ends long before the timeout, and says in which function.
fn failing_program(context: &Context) -> Result<()> {
    let started = Instant::now();
    let program = Measuring {
        benchmark: "papers",
        name: "papers-fail",
        program: "papers",
        words: "only=fail",
        machine: MachineOptions { icount: true, ..MachineOptions::default() },
        timeout: TIMEOUT,
    };
    let error = match program.boot(context) {
        Ok(_) => bail!("it was said to have measured something"),
        Err(error) => format!("{error:#}"),
    };
    ensure!(started.elapsed() < TIMEOUT / 2, "it went on to the timeout");
    ensure!(error.contains("papers::self_paging::fail_here"), "the function is missing: {error}");
    Ok(())
}

fn small(context: &Context) -> Lab<'_> {
    Lab { context, timeout: TIMEOUT, small: true }
}
