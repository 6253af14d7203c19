//! What models of the papers' machines count on the access streams of the workloads that ran.

use crate::log::Record;
use crate::results::{Clock, Direction, Measurement, Provenance, Question, Size, System};
use anyhow::{bail, ensure, Context, Result};
use std::array::from_fn;
use tlbmodel::machines::{IVY_BRIDGE, IVY_BRIDGE_LLC, PILEDRIVER};
use tlbmodel::replay::{self, PageRank, PhysicalTable, Placement};
use tlbmodel::tlb::{Counts, PageSize};
use workloads::colouring::{COLOURS, UPDATES};
use workloads::page_rank::{layout, CONFIGURATIONS, MEASURED_GRAPH, MOST_ITERATIONS};
use workloads::random_access::{measured_updates, MEASURED_LARGE_MIB, MEASURED_MIB};
use workloads::ARRAYS_VA;

/// The table of G18 table 3.1, in MiB.
const PAPERS_MIB: u64 = 32 << 10;
/// Sizes beyond memory that figure 3.4 has too, in MiB.
const BEYOND_MIB: [u64; 4] = [2, 8, 32, 128];
/// Iterations of PageRank that the model sees: they are all alike.
const ITERATIONS: u32 = 2;

/// Makes measurements of counts.
pub struct Counted<'a> {
    pub provenance: &'a Provenance,
}

impl Counted<'_> {
    fn one(
        &self,
        figure: &str,
        case: String,
        mib: Option<u64>,
        value: f64,
        unit: &str,
    ) -> Measurement {
        Measurement {
            question: Question {
                benchmark: figure.to_owned(),
                case,
                at: mib.map(|mib| Size { value: mib as f64, unit: "MiB".to_owned() }),
                clock: Clock::Instructions,
                unit: unit.to_owned(),
                better: Direction::Lower,
            },
            system: System::Tessera,
            samples: vec![value],
            provenance: self.provenance.clone(),
        }
    }

    /// RandomAccess: walks for each update by size of the table, and more about the large tables.
    pub fn random_access(&self) -> Vec<Measurement> {
        let mut all = Vec::new();
        let mut sizes: Vec<_> = MEASURED_MIB.into_iter().chain(BEYOND_MIB).collect();
        sizes.sort();
        for pages in PageSize::ALL {
            let name = pages.name();
            for &mib in &sizes {
                let counts = random_access(mib, pages);
                let case = format!("walks, {name} pages");
                let rate = round(counts.rate(counts.walks));
                all.push(self.one("G18-figure-3.4", case, Some(mib), rate, "walks an update"));
            }
            for mib in [MEASURED_LARGE_MIB, PAPERS_MIB] {
                let counts = random_access(mib, pages);
                all.extend(self.large("G18-table-3.1", name, Some(mib), &counts, "an update"));
            }
        }
        all
    }

    /// Misses, walks and references for each access.
    fn large(
        &self,
        figure: &str,
        name: &str,
        mib: Option<u64>,
        counts: &Counts,
        each: &str,
    ) -> [Measurement; 4] {
        let one = |what: &str, value: u64, unit: &str| {
            let (case, unit) = (format!("{what} {name} pages"), format!("{unit} {each}"));
            self.one(figure, case, mib, round(counts.rate(value)), &unit)
        };
        [
            one("model: L1 TLB misses,", counts.first_misses, "misses"),
            one("model: walks,", counts.walks, "walks"),
            one("model: walk references,", counts.references, "reads"),
            one("model: without walk caches,", counts.references_uncached, "reads"),
        ]
    }

    /// Page colouring: misses in the shared cache, with the physical pages that the machine told.
    pub fn colours(&self, records: &[Record]) -> Result<Vec<Measurement>> {
        let [parallel, colours] = ["parallel", "colours"].map(|name| tables_of(records, name));
        let (parallel, colours) = (parallel?, colours?);
        ensure!(IVY_BRIDGE_LLC.colours() == COLOURS, "another number of colours");
        let [small, large] = &parallel;
        let mut all = Vec::new();
        for (scenario, tables) in [
            ("in isolation", vec![small]),
            ("in isolation", vec![large]),
            ("in parallel", vec![small, large]),
            ("in parallel, colours", colours.iter().collect()),
        ] {
            let counts = replay::shared_cache(&IVY_BRIDGE_LLC, &tables, UPDATES);
            for (table, counts) in tables.iter().zip(counts) {
                let mib = table.pages.len() / 256;
                let rate = round(counts.miss_rate());
                let case = format!("model: misses, {mib} MiB {scenario}");
                all.push(self.one("G18-table-3.6", case, None, rate, "misses an update"));
            }
        }
        Ok(all)
    }

    /// PageRank: checks the results that the machine told against the host's, and counts misses.
    pub fn page_rank(&self, records: &[Record]) -> Result<Vec<Measurement>> {
        let mut host = PageRank::new(&MEASURED_GRAPH);
        let expected = host.run(MOST_ITERATIONS);
        ensure!(expected.converged, "PageRank does not converge on the host");
        let mut all = Vec::new();
        for record in records.iter().filter(|record| record.kind == "pagerank") {
            let [name, iterations, digest] = record.words.as_slice() else { continue };
            let got: (u32, u64) = (iterations.parse()?, digest.parse()?);
            let wanted = (expected.iterations, expected.digest);
            ensure!(got == wanted, "PageRank with {name} pages: {got:?}, on the host {wanted:?}");
            let configuration = CONFIGURATIONS.iter().find(|(own, _)| own == name);
            let (_, levels) = configuration.context("an unknown configuration of PageRank")?;
            let offsets = layout(&MEASURED_GRAPH, *levels);
            let places = from_fn(|i| Placement {
                va: ARRAYS_VA + offsets[i],
                pages: PageSize::ALL[levels[i] as usize - 1],
            });
            let counts = host.misses(&PILEDRIVER, places, ITERATIONS);
            all.extend(self.large("G18-table-3.3", name, None, &counts, "an access"));
        }
        ensure!(!all.is_empty(), "PageRank told no result");
        Ok(all)
    }
}

/// The small and the large table of `@pages SCENARIO NAME BYTES FIRST RUN STRIDE` records.
fn tables_of(records: &[Record], scenario: &str) -> Result<[PhysicalTable; 2]> {
    let table = |name: &str| {
        let mut words = records.iter().filter(|record| record.kind == "pages");
        let record = words.find(|record| record.words.starts_with(&[scenario.into(), name.into()]));
        let record = record.with_context(|| format!("no pages of {scenario} {name}"))?;
        let numbers: Vec<u64> =
            record.words[2..].iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        let [bytes, first, run, stride] = numbers[..] else { bail!("@pages with other words") };
        let page = |n: u64| first + n / run * stride + n % run * 4096;
        Ok(PhysicalTable { pages: (0..bytes / 4096).map(page).collect() })
    };
    Ok([table("small")?, table("large")?])
}

fn random_access(mib: u64, pages: PageSize) -> Counts {
    let place = Placement { va: ARRAYS_VA, pages };
    replay::random_access(&IVY_BRIDGE, mib << 20, place, measured_updates(mib << 20))
}

/// To four places, which is what tables show.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
