//! The benchmarks with little work in each: that they come to their end, that what they measure is
//! understood, and that a program that fails ends at once and by its name.

use super::{Case, Context};
use crate::bench::Measuring;
use crate::machine::MachineOptions;
use crate::results::Measurement;
use crate::{bench, bench_cores, bench_host, bench_sizes, papers};
use anyhow::{bail, ensure, Result};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(300);

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
    cases.push(measuring("bench/caps".into(), |context| {
        bench::measure_invocations(context, TIMEOUT)
    }));
    cases.push(measuring("bench/capsize".into(), |context| bench_sizes::measure(context, TIMEOUT)));
    cases.extend(bench_cores::parts().map(|part| {
        measuring(format!("bench/{part}").replace("/cores/", "/cores-"), move |context| {
            bench_cores::try_part(context, TIMEOUT, part)
        })
    }));
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
