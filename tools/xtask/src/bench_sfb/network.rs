//! SFB §6.5: a stream over the loopback interface, with packets of two sizes, and a web server that answers with `sendfile`, out of a set of files that the
//! kernel's mapping cache could show and one that it could not. `./x bench net/sfb`.

use super::programs::{boot, environment, figure, Program};
use super::{table, Lab, Scale, MACHINES};
use crate::bench_group;
use crate::image::Addition;
use crate::map::Map;
use crate::papers::facts::Facts;
use crate::progress::Progress;
use crate::results::Measurement;
use crate::setup;
use crate::testing::linux::compile;
use anyhow::{Context as _, Result};
use std::fs;

/// Bytes of packets of the loopback interface, and the figures: times, and mappings and invalidations.
const STREAMS: [(u32, [&str; 2]); 2] = [(1500, ["f11", "f12"]), (16_384, ["f13", "f14"])];
const SETS: [[&str; 2]; 2] = [["f15", "f16"], ["f17", "f18"]];

/// How much is done.
struct Amounts {
    /// Bytes of a stream.
    stream: u64,
    /// MiB of both sets of files.
    sets: [u64; 2],
    /// Of each set.
    requests: u64,
}

const USUAL: Amounts = Amounts { stream: 50 << 20, sets: [16, 64], requests: 1_000 };
const SMALL: Amounts = Amounts { stream: 1 << 20, sets: [1, 2], requests: 20 };

/// Measures all of it and prints it beside the paper.
pub fn measure(lab: &bench_group::Lab) -> Result<Vec<Measurement>> {
    let scale = if lab.small { Scale::Small } else { Scale::Usual };
    let own = Lab { context: lab.context, timeout: lab.timeout, scale };
    let amounts = if lab.small { SMALL } else { USUAL };
    let additions = prepare(&own)?;
    let mut all = Vec::new();
    let progress = Progress::new("streams, web server", (MACHINES.len() * Map::ALL.len()) as u64);
    for cores in MACHINES {
        let mut columns = Vec::new();
        for map in Map::ALL {
            progress.at(&format!("{} on {cores}", map.name()));
            let script = script(&amounts, map);
            columns.push(boot(&own, (map, cores, None), (&script, &additions))?);
            progress.advance();
        }
        for program in programs(&amounts) {
            let case = program.case.clone();
            let (each, figures) = (program.each, program.figures);
            let program = Program { case: &case, base: None, figures, each, unit: program.unit };
            all.extend(figure(&columns, &program)?);
        }
    }
    drop(progress);
    let facts = fs::read_to_string(lab.context.project.path("guest/bench/papers.tsv"))?;
    let facts = Facts::parse(&facts).context("guest/bench/papers.tsv")?;
    println!("{}", table::render(&facts, &all));
    Ok(all)
}

fn prepare(lab: &Lab) -> Result<Vec<Addition>> {
    let project = &lab.context.project;
    let folder = project.state().join("sfb.net");
    fs::create_dir_all(&folder)?;
    setup::c_compiler()?;
    let mut all = Vec::new();
    for name in ["net_stream", "web_set"] {
        let host = folder.join(name);
        compile(&project.path(&format!("guest/bench/sfb/{name}.c")), &host, "gcc")?;
        all.push(Addition { host, guest: format!("/root/{name}") });
    }
    Ok(all)
}

/// What the guest runs.
fn script(amounts: &Amounts, map: Map) -> String {
    let mut lines = vec!["cd /root".to_owned()];
    lines.extend(environment(map));
    lines.extend(STREAMS.map(|(bytes, _)| format!("./net_stream {bytes} {}", amounts.stream)));
    lines.extend(amounts.sets.map(|mib| format!("./web_set {mib} {}", amounts.requests)));
    lines.join(" && ")
}

/// A program with the name that its times have.
struct Named {
    case: String,
    figures: [&'static str; 2],
    each: f64,
    unit: &'static str,
}

fn programs(amounts: &Amounts) -> Vec<Named> {
    let streams = STREAMS.map(|(bytes, figures)| Named {
        case: format!("net stream {bytes}"),
        figures,
        each: amounts.stream as f64 / 1e6,
        unit: "instructions per MB",
    });
    let sets = amounts.sets.into_iter().zip(SETS).map(|(mib, figures)| Named {
        case: format!("web set {mib}"),
        figures,
        each: amounts.requests as f64,
        unit: "instructions per request",
    });
    streams.into_iter().chain(sets).collect()
}
