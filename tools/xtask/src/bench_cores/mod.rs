//! `./x bench cores`: what machines with many cores cost.
//!
//! The emulator lets the cores take turns and counts the instructions of all of them together; a core
//! with nothing to do executes none. So an operation costs what the cores that it concerns have to do
//! for it, and the same whenever it is repeated.
//!
//! | part | question |
//! |---|---|
//! | [`local`] | does a local operation cost the same, however many cores there are? |
//! | [`visits`] | what does a dispatcher pay for operations far from home? |
//! | [`shootdown`] | what does it cost to forget translations, by the cores that may have them? |
//! | [`load`] | are all cores kept busy by many processes, pipes and threads? |
//! | [`scale`] | how much more do threads of one process do on several cores? |
//! | [`remote`] | what do capability operations cost that concern several cores? |
//! | [`traced`] | of that, which part on which core? |

pub mod load;
mod local;
mod remote;
mod scale;
mod shootdown;
mod traced;
mod visits;

use crate::bench::{counting, Measuring};
use crate::bench_group::{Group, Lab};
use crate::machine::{MachineOptions, MemorySize};
use crate::results::{Measurement, Size};
use anyhow::Result;

/// Memory of most machines.
const MIB: u64 = 1024;
/// Of operations on one core.
const INVOCATIONS: &str = "capbench";
/// Cores, at most, and further capabilities of machines that only show that everything works.
const SMALL_CORES: u32 = 8;
const SMALL_CROWD: u32 = 4096;

/// The benchmark, and what there is to be measured.
pub const CORES: Group = Group {
    name: "cores",
    parts: &[
        ("cores/local", local::measure),
        ("cores/visits", visits::measure),
        ("cores/shootdown", shootdown::measure),
        ("cores/load", load::measure),
        ("cores/scale", scale::measure),
        ("cores/remote", remote::measure),
    ],
};

/// One boot of a program in place of `init`.
struct Run<'a> {
    /// What the measurements belong to.
    benchmark: &'a str,
    program: &'a str,
    cores: u32,
    mib: u64,
    /// Further words of the command line.
    words: &'a str,
}

impl Run<'_> {
    /// For messages and the names of files.
    fn name(&self) -> String {
        format!("{}-{}", self.benchmark, self.cores).replace([' ', ','], "-")
    }
}

impl Lab<'_> {
    /// A boot of a program.
    fn measuring<'a>(&self, run: &Run<'a>, name: &'a str) -> Measuring<'a> {
        let Run { benchmark, program, cores, mib, words } = *run;
        let machine = MachineOptions { cores, mem: MemorySize { mib }, ..counting() };
        Measuring { benchmark, name, program, words, machine, timeout: self.timeout }
    }

    /// What a program says on the kernel's log. What it measures at no size is measured at so many
    /// cores.
    fn boot(&self, run: &Run) -> Result<Vec<Measurement>> {
        let mut measured = self.measuring(run, &run.name()).boot(self.context)?.measured;
        for measurement in &mut measured {
            let size = || Size { value: f64::from(run.cores), unit: "cores".into() };
            measurement.question.at.get_or_insert_with(size);
        }
        Ok(measured)
    }
}

/// The unit of interrupts that cores sent each other.
const INTERRUPTS: &str = "interrupts";

/// A case's median in a unit.
fn value(measured: &[Measurement], case: &str, unit: &str) -> Option<f64> {
    let own = measured.iter().find(|m| m.question.case == case && m.question.unit == unit);
    own.and_then(Measurement::median)
}

/// A number of interrupts, without decimals that say nothing.
fn plain(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.2}")
    }
}
