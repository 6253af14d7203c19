//! `./x bench papers`: the figures and tables of the papers, measured in the emulator, beside what the
//! papers print.
//!
//! The native program `guest/bench/papers` measures, one boot for each of its sections; models of the
//! papers' machines count on the host what its workloads would have missed there ([`models`]). The
//! papers' numbers and the aims are in `guest/bench/papers.tsv` ([`facts`]).

pub mod facts;
mod models;
mod tables;

use crate::bench::{Kept, Measuring, Said};
use crate::log::Record;
use crate::machine::{MachineOptions, MemorySize};
use crate::results::{self, Measurement, Provenance};
use crate::testing::Context;
use anyhow::{Context as _, Result};
use facts::Facts;
use models::Counted;
use std::fs;
use std::time::Duration;

/// Sections of the program, with the memory that each needs, in MiB.
const SECTIONS: [(&str, u64); 9] = [
    ("interface", 1024),
    ("flushing", 1024),
    ("capabilities", 1024),
    ("appel_li", 1024),
    ("gc_bench", 1024),
    ("colours", 1024),
    ("sizes", 6144),
    ("random_access", 6144),
    ("page_rank", 6144),
];

/// Measures everything and prints it. A section that fails is left out.
pub fn measure(context: &Context, timeout: u64, kept: &mut Kept) -> Result<()> {
    let text = fs::read_to_string(context.project.path("guest/bench/papers.tsv"))?;
    let facts = Facts::parse(&text).context("guest/bench/papers.tsv")?;
    let linux = results::read(&context.project.path("guest/bench/linux.json"))?;
    let mut all = Vec::new();
    for (section, mib) in SECTIONS {
        let name = format!("papers, {section}");
        all.extend(kept.keep(&name, measure_section(context, section, mib, timeout, ""))?);
    }
    for (figure, title) in &facts.titles {
        let text = tables::figure(&facts, &linux, figure, title, &all);
        if !text.is_empty() {
            println!("{text}");
        }
    }
    println!("{}", tables::aims(&facts, &all));
    Ok(())
}

/// The names of all sections.
pub fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS.into_iter().map(|(section, _)| section)
}

/// A section with little work in it, and little memory: that it comes to its end, and measures something.
pub fn try_section(context: &Context, section: &str, timeout: u64) -> Result<Vec<Measurement>> {
    const MIB: u64 = 1024;
    measure_section(context, section, MIB, timeout, "small")
}

/// Boots the program for one section.
fn measure_section(
    context: &Context,
    section: &str,
    mib: u64,
    timeout: u64,
    words: &str,
) -> Result<Vec<Measurement>> {
    let mem = MemorySize { mib };
    let machine = MachineOptions { mem, icount: true, ..MachineOptions::default() };
    let program = Measuring {
        benchmark: section,
        name: &format!("papers-{section}"),
        program: "papers",
        words: &format!("only={section} {words}"),
        machine,
        timeout: Duration::from_secs(timeout),
    };
    let Said { mut measured, records, provenance } = program.boot(context)?;
    if words.is_empty() {
        measured.extend(modelled(section, &records, &provenance)?);
    }
    Ok(measured)
}

/// What models say about a section.
fn modelled(
    section: &str,
    records: &[Record],
    provenance: &Provenance,
) -> Result<Vec<Measurement>> {
    let counted = Counted { provenance };
    match section {
        "random_access" => Ok(counted.random_access()),
        "page_rank" => counted.page_rank(records),
        "colours" => counted.colours(records),
        _ => Ok(Vec::new()),
    }
}
