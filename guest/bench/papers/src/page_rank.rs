//! G18 table 3.3: PageRank on a power-law graph, with arrays in pages of one size and of several.

use crate::lab::{Lab, PLAY_VA};
use crate::region::{view, Region};
use crate::report::{time, Case};
use libos::vspace::{entry_bytes, RW};
use libos::{log, Status};
use workloads::graph::{Graph, Parameters};
use workloads::page_rank::{array, layout, run, CONFIGURATIONS, MEASURED_GRAPH, MOST_ITERATIONS};
use workloads::Unobserved;

/// To see that it works.
const SMALL_GRAPH: Parameters = Parameters { scale: 10, ..MEASURED_GRAPH };

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    for (name, levels) in CONFIGURATIONS {
        match configuration(lab, name, levels) {
            Err(Status::NoMemory) => log!("papers: no memory for PageRank with {name} pages"),
            result => result?,
        }
        lab.clean()?;
    }
    Ok(())
}

fn configuration(lab: &mut Lab, name: &str, levels: [u8; array::COUNT]) -> Result<(), Status> {
    let graph_of = if lab.small { SMALL_GRAPH } else { MEASURED_GRAPH };
    let elements = array::elements(&graph_of);
    let places = layout(&graph_of, levels);
    for level in 1..=3 {
        let own = (0..array::COUNT).filter(|&number| levels[number] == level);
        let ends = own.map(|number| {
            places[number] + (elements[number] * array::ELEMENT_BYTES[number]) as u64
        });
        let start = (u64::from(level) - 1) << 36;
        if let Some(end) = ends.max() {
            let bytes = (end - start).next_multiple_of(entry_bytes(level));
            Region::make(lab, PLAY_VA + start, bytes, level, RW)?;
        }
    }
    let va = |number: usize| PLAY_VA + places[number];
    // SAFETY: all just mapped, at addresses of their own, until the lab is cleaned.
    let (mut graph, ranks, next) = unsafe {
        let rows = view(va(array::ROWS), elements[array::ROWS]);
        let sources = view(va(array::SOURCES), elements[array::SOURCES]);
        let out_degrees = view(va(array::OUT_DEGREES), elements[array::OUT_DEGREES]);
        let ranks = view(va(array::RANKS), elements[array::RANKS]);
        let next = view(va(array::NEXT), elements[array::NEXT]);
        (Graph { rows, sources, out_degrees }, ranks, next)
    };
    graph.build(&graph_of);
    let mut outcome = None;
    let cost = time(|| {
        outcome = Some(run(&graph, ranks, next, MOST_ITERATIONS, &mut Unobserved));
        Ok(())
    })?;
    let outcome = outcome.filter(|outcome| outcome.converged).ok_or(Status::Invalid)?;
    Case::new("G18-table-3.3", &alloc::format!("{name}_pages")).samples(&[cost]);
    // The host compares this with its own.
    log!("@pagerank {name} {} {}", outcome.iterations, outcome.digest);
    Ok(())
}
