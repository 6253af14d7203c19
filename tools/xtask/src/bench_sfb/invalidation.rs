//! SFB §3: what forgetting a translation costs. The kernel zeroes a page that it retypes to a Frame; what that
//! costs more where the page is mapped for it, and forgotten by more and more cores, is what the paper measures.
//! An emulator counts instructions, and `invlpg` is one.

use super::{Lab, Point};
use crate::bench::{counting, Measuring};
use crate::machine::MachineOptions;
use crate::map::Map;
use crate::results::{Direction, Measurement};
use crate::testing::guest::Extras;
use anyhow::{Context as _, Result};

const FIGURE: &str = "s3";
/// The operation, in the command line and as it is named in what comes of it.
const OPERATION: (&str, &str) = ("retype_frame", "retype frame");
/// Kernels, and cores of the machine.
const BOOTS: [(Map, u32); 7] = [
    (Map::Direct, 1),
    (Map::Direct, 4),
    (Map::Cache, 1),
    (Map::Cache, 4),
    (Map::Uncached, 1),
    (Map::Uncached, 2),
    (Map::Uncached, 4),
];

pub(super) fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mut all = Vec::new();
    let mut costs = Vec::new();
    for (map, cores) in BOOTS {
        let name = format!("sfb-{}-{cores}", map.name());
        let words = format!("only={}", OPERATION.0);
        let program = Measuring {
            benchmark: "sfb",
            name: &name,
            program: "capbench",
            words: &words,
            machine: MachineOptions { cores, ..counting() },
            timeout: lab.timeout,
        };
        let kernel = Some(lab.kernel(map)?);
        let said = program.boot_with(lab.context, Extras { kernel, ..Extras::default() })?;
        let cost = said
            .measured
            .iter()
            .find(|one| one.question.case == OPERATION.1 && one.question.unit == "instructions");
        let value = cost.and_then(Measurement::median).context("nothing was measured")?;
        let case = format!("a page zeroed, {}", map.name());
        all.push(point(case, cores, value).keep(&said.provenance));
        costs.push((map, cores, value));
        // What each core more adds.
        let cost = |map, cores| {
            let own = costs.iter().find(|own| (own.0, own.1) == (map, cores))?;
            Some(own.2)
        };
        let difference = match (map, cores) {
            (Map::Uncached, 1) => cost(Map::Direct, 1).map(|before| ("local", before)),
            (Map::Uncached, _) => cost(Map::Uncached, 1).map(|before| ("remote", before)),
            _ => None,
        };
        if let Some((what, before)) = difference {
            let case = format!("{what} invalidation");
            all.push(point(case, cores, value - before).keep(&said.provenance));
        }
    }
    Ok(all)
}

fn point(case: String, cores: u32, value: f64) -> Point<'static> {
    let (unit, better) = ("instructions", Direction::Lower);
    Point { figure: FIGURE, case, cores, value, unit, better }
}
