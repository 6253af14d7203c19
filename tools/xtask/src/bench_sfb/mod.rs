//! `./x bench sfb`: the figures of SFB, each by its name: what ephemeral mappings cost in a kernel that makes one for each
//! look (*uncached*, the paper's original), with a mapping cache, and with a direct map; on 1 core and on 4.
//!
//! | part | figures |
//! |---|---|
//! | [`invalidation`] | §3: a look at a page, by the cores that must forget it |
//! | [`programs`] | 2 and 3 (a pipe), 4 to 7 (reading memory disks), 8 to 10 (PostMark), in one boot for each kernel and number of cores |
//! | [`table`] | the columns side by side, with the paper's gains |
//! | [`network`] | 11 to 18: a stream and a web server inside of the machine (`./x bench net/sfb`) |

mod invalidation;
pub mod network;
mod postmark;
mod programs;
mod table;

use crate::bench::Kept;
use crate::compile;
use crate::map::Map;
use crate::papers::facts::Facts;
use crate::results::{Clock, Direction, Measurement, Provenance, Question, Size, System};
use crate::testing::Context;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The benchmark.
pub const SFB: &str = "sfb";
/// Machines, by their cores.
const MACHINES: [u32; 2] = [1, 4];

/// How much of what the paper measures is done.
#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    /// As much as an emulator does in minutes.
    Usual,
    /// So little that it shows only that everything works.
    Small,
}

/// Where the kernels are booted.
struct Lab<'a> {
    context: &'a Context,
    timeout: Duration,
    scale: Scale,
}

impl Lab<'_> {
    /// The file of a kernel.
    fn kernel(&self, map: Map) -> Result<PathBuf> {
        compile::build_kernel(&self.context.project, map.variant())
    }
}

/// One number of a figure.
struct Point<'a> {
    figure: &'a str,
    case: String,
    cores: u32,
    value: f64,
    unit: &'a str,
    better: Direction,
}

impl Point<'_> {
    fn keep(self, provenance: &Provenance) -> Measurement {
        Measurement {
            question: Question {
                benchmark: format!("SFB-{}", self.figure),
                case: self.case,
                at: Some(Size { value: f64::from(self.cores), unit: "cores".into() }),
                clock: Clock::Instructions,
                unit: self.unit.into(),
                better: self.better,
            },
            system: System::Tessera,
            samples: vec![self.value],
            provenance: provenance.clone(),
        }
    }
}

/// How many percent more is done in the same time if it costs `cost` instead of `before`.
fn gain(before: f64, cost: f64) -> f64 {
    (before / cost - 1.0) * 100.0
}

/// The name of the case that has that, of a kernel.
fn gain_of(map: Map) -> String {
    format!("{}, gain", map.name())
}

/// The two kernels that gain.
const GAINING: [Map; 2] = [Map::Cache, Map::Direct];

/// The gains of the other kernels over the first, from what each costs.
fn gains<'a>(figure: &'a str, cores: u32, costs: &[(Map, f64)]) -> Vec<Point<'a>> {
    let cost = |map| costs.iter().find(|(own, _)| *own == map).map(|(_, cost)| *cost);
    let Some(before) = cost(Map::Uncached) else { return Vec::new() };
    let of = |map| {
        let value = gain(before, cost(map)?);
        let (case, better) = (gain_of(map), Direction::Higher);
        Some(Point { figure, case, cores, value, unit: "percent", better })
    };
    GAINING.into_iter().filter_map(of).collect()
}

/// Measures everything and prints it.
pub fn measure(context: &Context, timeout: Duration, kept: &mut Kept) -> Result<()> {
    let facts = fs::read_to_string(context.project.path("guest/bench/papers.tsv"))?;
    let facts = Facts::parse(&facts).context("guest/bench/papers.tsv")?;
    let lab = Lab { context, timeout, scale: Scale::Usual };
    let mut all = kept.keep("sfb, section 3", invalidation::measure(&lab))?;
    all.extend(kept.keep("sfb, figures 2 to 10", programs::measure(&lab))?);
    println!("{}", table::render(&facts, &all));
    Ok(())
}

/// The same in small.
pub fn try_all(context: &Context, timeout: Duration) -> Result<Vec<Measurement>> {
    let lab = Lab { context, timeout, scale: Scale::Small };
    let mut all = invalidation::measure(&lab)?;
    all.extend(programs::measure(&lab)?);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_of_rates() {
        let points = gains("f2", 4, &[(Map::Uncached, 300.0), (Map::Cache, 150.0)]);
        let shown: Vec<_> = points.iter().map(|one| (one.case.as_str(), one.value)).collect();
        assert_eq!(shown, [("cache, gain", 100.0)]);
        assert!(gains("f2", 4, &[(Map::Direct, 1.0)]).is_empty());
    }
}
