//! `./x bench roots`: what the start costs by the size of the root image.

use crate::bench_group::{Group, Lab};
use crate::compare::harness;
use crate::results::line::{self, Defaults};
use crate::results::{grouped, Clock, Measurement, Provenance, System};
use crate::rootfs;
use crate::testing::{feed, this_tool};
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::Path;
use std::time::Instant;

pub const ROOTS: Group = Group { name: "roots", parts: &[("roots", measure)] };

/// Files of 20 KiB in the images: 10 MiB and 1 GiB.
const FILES: [usize; 2] = [512, 52_429];
/// The same where it is only to be seen that it works.
const FEW: [usize; 2] = [100, 5_243];
/// How often the time is taken.
const RUNS: usize = 5;

/// What a start has cost.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// From the machine's first instruction to the program's.
    pub instructions: f64,
    /// Memory in use then, in KiB.
    pub memory: f64,
}

/// Starts a machine with an image of so many files.
pub fn start(lab: &Lab, image: &Path, count: usize) -> Result<Start> {
    let (context, folder) = (lab.context, lab.context.folder("roots")?);
    if !image.exists() {
        rootfs::make_of_zeros(image, &context.built, count)?;
    }
    let said = run(lab, &folder, image, &["--icount"])?;
    let words: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match words[..] {
        [instructions, memory] => Ok(Start { instructions, memory }),
        _ => anyhow::bail!("the program says {said:?}"),
    }
}

fn run(lab: &Lab, folder: &Path, image: &Path, more: &[&str]) -> Result<String> {
    let program = harness(&lab.context.project, "start")?;
    let mut command = this_tool(lab.context, folder)?;
    command.args(["run", "--root-image"]).arg(image).args(more).arg("--").arg(program);
    let output = feed(&mut command, b"")?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(said)
}

fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let folder = lab.context.folder("roots")?;
    let mut text = String::new();
    println!("roots, by the size of the image\n");
    println!("{:<12}{:>16}{:>14}{:>10}", "MiB", "instructions", "memory, KiB", "ms");
    for count in if lab.small { FEW } else { FILES } {
        let image = folder.join(format!("{count}.img"));
        let Start { instructions, memory } = start(lab, &image, count)?;
        let mib = fs::metadata(&image).context("the image")?.len() >> 20;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let begin = Instant::now();
            run(lab, &folder, &image, &[])?;
            times.push(begin.elapsed().as_nanos() as f64);
        }
        times.sort_by(f64::total_cmp);
        let middle = times[RUNS / 2];
        println!(
            "{:<12}{:>16}{:>14}{:>10}",
            grouped(mib as f64),
            grouped(instructions),
            grouped(memory),
            grouped(middle / 1e6)
        );
        let times: String = times.iter().map(|time| format!(" {time}")).collect();
        text += &format!("bench start {instructions} at={mib}:MiB\n");
        text += &format!("bench memory_at_the_start {memory} unit=KiB at={mib}:MiB\n");
        text += &format!("bench start_to_end{times} clock=wall at={mib}:MiB\n");
        fs::remove_file(image)?;
    }
    println!();
    let defaults = Defaults {
        benchmark: ROOTS.name.to_owned(),
        clock: Clock::Instructions,
        system: System::Tessera,
        provenance: Provenance::host(&lab.context.project),
    };
    line::parse_output(&text, &defaults)
}
