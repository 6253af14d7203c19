//! `./x report`: one page with everything that was measured, and pictures of a running system.

mod breakdown;
mod chart;
mod comparison;
mod live;
mod memory;
mod page;
mod papers;
pub mod svg;
mod table;
mod tree;

use crate::compare::session::Session;
use crate::machine::{MachineOptions, MemorySize};
use crate::project::Project;
use crate::results::{self, Clock, Measurement};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Write a page with figures of what ./x compare measured, to be opened in a browser
///
/// It is one file that needs no network, for a desk, a phone and paper. Tessera is booted once, for the map
/// of a process's memory, its capabilities, and counts of events. With --compare it is a page of
/// what changed between two measurements, and nothing is booted.
#[derive(clap::Args, Debug)]
pub struct ReportOptions {
    /// Results to show, of ./x compare or ./x bench --json (may be repeated) [default:
    /// target/tessera/compare.json]
    #[arg(long, value_name = "FILE")]
    json: Vec<PathBuf>,
    /// Show what changed from one file of results to another, such as before and after a change:
    /// first what differs by more than the noise
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    #[arg(conflicts_with_all = ["json", "trace", "figures"])]
    compare: Vec<PathBuf>,
    /// Where to write the page [default: target/tessera/report.html, or comparison.html beside it]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show where the instructions go in this trace, of ./x run --icount --trace FILE
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Also write every figure as an SVG file to FOLDER
    #[arg(long, value_name = "FOLDER")]
    figures: Option<PathBuf>,
}

pub fn report(project: &Project, options: &ReportOptions) -> Result<i32> {
    if let [before, after] = &options.compare[..] {
        let page = comparison::page(&results::read(before)?, &results::read(after)?)?;
        return write(project, options, "comparison.html", page);
    }
    let all = measurements(project, options)?;
    if let Some(folder) = &options.figures {
        write_figures(&all, folder)?;
    }
    let machine = MachineOptions { mem: MemorySize { mib: 512 }, ..MachineOptions::default() };
    let session = Session::prepare(project, &machine, Duration::from_secs(120), None)?;
    let live = live::ask(&session)?;
    let breakdown = options.trace.as_deref().map(breakdown::read).transpose()?.unwrap_or_default();
    write(project, options, "report.html", page::page(&all, &live, &breakdown))
}

/// Writes a page to where it was asked for, else to `usual`, and says where that is.
fn write(
    project: &Project,
    options: &ReportOptions,
    usual: &str,
    page: maud::Markup,
) -> Result<i32> {
    let output = options.output.clone().unwrap_or_else(|| project.state().join(usual));
    fs::write(&output, page.into_string())
        .with_context(|| format!("cannot write {}", output.display()))?;
    println!("{}", output.display());
    Ok(0)
}

fn measurements(project: &Project, options: &ReportOptions) -> Result<Vec<Measurement>> {
    let usual = project.state().join("compare.json");
    let files: Vec<&Path> = match options.json.is_empty() {
        true => vec![&usual],
        false => options.json.iter().map(PathBuf::as_path).collect(),
    };
    let mut all = Vec::new();
    for file in files {
        all.extend(results::read(file).context("first: ./x compare")?);
    }
    ensure!(!all.is_empty(), "nothing was measured; first: ./x compare");
    papers::add(project, &mut all)?;
    Ok(all)
}

/// A file for each figure, named after its title.
fn write_figures(all: &[Measurement], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (clock, suffix) in [(Clock::Instructions, ""), (Clock::Wall, "-wall")] {
        let own: Vec<&Measurement> = all.iter().filter(|one| one.question.clock == clock).collect();
        for figure in page::figures(&own, chart::WIDE) {
            let words: Vec<String> = figure
                .title
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect();
            let file = folder.join(format!("{}{suffix}.svg", words.join("-")));
            fs::write(&file, figure.standalone().into_string())
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    Ok(())
}
