//! PageRank (Page et al., 1999) as Green-Marl writes it and G18 §3.6.4 measures it: each vertex
//! pulls from its incoming neighbours their rank over their out-degree.
//!
//! Ranks are fixed-point numbers with [`ONE`] for 1: native programs are compiled without vector
//! registers, so floating point would measure the library that imitates it. The arrays and the order
//! of the accesses to them are those of the program with doubles, and the result is the same on
//! every machine, to the last bit.

use crate::graph::{Graph, Parameters};
use crate::Observer;

/// The fixed-point number 1.
pub const ONE: u64 = 1 << 56;
/// Damping, 0.85, in 1/65536.
const DAMPING: u64 = 55_706;
/// Iteration ends when ranks change by less than this in sum: Green-Marl's 0.001.
pub const TOLERANCE: u64 = ONE / 1000;

/// Most iterations of the measured run; it converges before.
pub const MOST_ITERATIONS: u32 = 100;
/// The measured graph: 1,048,576 vertices, 4,194,304 edges; 40 MiB in five arrays.
pub const MEASURED_GRAPH: Parameters = Parameters { scale: 20, edge_factor: 4, seed: 0x7e55_e7a5 };

/// The measured configurations: a name, and for each array the level of the page tables that map it
/// (1: pages of 4 KiB, 2: 2 MiB, 3: 1 GiB).
pub const CONFIGURATIONS: [(&str, [u8; array::COUNT]); 4] = [
    ("4k", [1; array::COUNT]),
    ("2M", [2; array::COUNT]),
    ("1G", [3; array::COUNT]),
    // What is read in order in small pages, what is read at random in larger ones.
    ("mixed", [1, 1, 2, 2, 1]),
];

/// Where the arrays of a configuration lie, as offsets from the first address: those with pages of
/// one size together, each at the start of a page (but of 1 GiB), 64 GiB for each size.
pub fn layout(graph: &Parameters, levels: [u8; array::COUNT]) -> [u64; array::COUNT] {
    let elements = array::elements(graph);
    let mut next = [0; 4];
    core::array::from_fn(|number| {
        let level = levels[number] as usize;
        let at = next[level];
        let alignment = [0, paging::PAGE, 2 << 20, 2 << 20][level];
        let bytes = (elements[number] * array::ELEMENT_BYTES[number]) as u64;
        next[level] = (at + bytes).next_multiple_of(alignment);
        at + ((level as u64 - 1) << 36)
    })
}

/// Numbers of the arrays, for the observer.
pub mod array {
    use crate::graph::Parameters;

    /// Rows of the graph, 4 bytes each.
    pub const ROWS: usize = 0;
    /// Incoming neighbours, 4 bytes each.
    pub const SOURCES: usize = 1;
    /// Out-degrees, 4 bytes each.
    pub const OUT_DEGREES: usize = 2;
    /// Ranks, 8 bytes each.
    pub const RANKS: usize = 3;
    /// Ranks of the next iteration, 8 bytes each.
    pub const NEXT: usize = 4;
    /// How many there are.
    pub const COUNT: usize = 5;
    /// Bytes of an element of each.
    pub const ELEMENT_BYTES: [usize; COUNT] = [4, 4, 4, 8, 8];

    /// Elements of each.
    pub const fn elements(graph: &Parameters) -> [usize; COUNT] {
        let (vertices, edges) = (graph.vertices(), graph.edges());
        [vertices + 1, edges, vertices, vertices, vertices]
    }
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Iterations until the ranks stayed.
    pub iterations: u32,
    /// Did they, before the most iterations were done?
    pub converged: bool,
    /// Sum of the absolute changes in the last iteration.
    pub change: u64,
    /// The sum of all ranks.
    pub sum: u64,
    /// A digest of all ranks in order.
    pub digest: u64,
}

/// Computes the ranks of all vertices of `graph` in `ranks`, with `next` as scratch.
#[inline(always)]
pub fn run(
    graph: &Graph,
    ranks: &mut [u64],
    next: &mut [u64],
    most_iterations: u32,
    observer: &mut impl Observer,
) -> Outcome {
    ranks.fill(ONE / ranks.len() as u64);
    let mut outcome = Outcome { iterations: 0, converged: false, change: 0, sum: 0, digest: 0 };
    while outcome.iterations < most_iterations && !outcome.converged {
        outcome.iterations += 1;
        outcome.change = iteration(graph, ranks, next, observer);
        outcome.converged = outcome.change < TOLERANCE;
    }
    outcome.sum = ranks.iter().sum();
    outcome.digest = digest(ranks);
    outcome
}

/// One iteration; answers how much ranks changed in sum.
#[inline(always)]
fn iteration(
    graph: &Graph,
    ranks: &mut [u64],
    next: &mut [u64],
    observer: &mut impl Observer,
) -> u64 {
    let base = (ONE - scaled(ONE)) / ranks.len() as u64;
    for (v, new) in next.iter_mut().enumerate() {
        observer.access(array::ROWS, v + 1);
        let row = graph.rows[v] as usize..graph.rows[v + 1] as usize;
        let mut sum = 0;
        for edge in row {
            observer.access(array::SOURCES, edge);
            let from = graph.sources[edge] as usize;
            observer.access(array::RANKS, from);
            observer.access(array::OUT_DEGREES, from);
            sum += ranks[from] / u64::from(graph.out_degrees[from]);
        }
        observer.access(array::NEXT, v);
        *new = base + scaled(sum);
    }
    let mut change = 0;
    for (v, (rank, &mut new)) in ranks.iter_mut().zip(next).enumerate() {
        observer.access(array::RANKS, v);
        observer.access(array::NEXT, v);
        change += rank.abs_diff(new);
        *rank = new;
    }
    change
}

/// Damped.
#[inline(always)]
const fn scaled(rank: u64) -> u64 {
    (rank >> 16) * DAMPING + (((rank & 0xffff) * DAMPING) >> 16)
}

/// FNV-1a over the words.
pub fn digest(ranks: &[u64]) -> u64 {
    ranks.iter().fold(0xcbf2_9ce4_8422_2325, |digest: u64, rank| {
        (digest ^ rank).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::graph::Parameters;
    use crate::Unobserved;
    use std::vec;

    /// The same ranks as the textbook's formula over the list of edges in floating point.
    #[test]
    fn agrees_with_floating_point() {
        let parameters = Parameters { scale: 10, edge_factor: 8, seed: 77 };
        let n = parameters.vertices();
        let (mut rows, mut sources, mut out_degrees) =
            (vec![0; n + 1], vec![0; parameters.edges()], vec![0; n]);
        let mut graph =
            Graph { rows: &mut rows, sources: &mut sources, out_degrees: &mut out_degrees };
        graph.build(&parameters);
        let (mut ranks, mut next) = (vec![0; n], vec![0; n]);
        let outcome = run(&graph, &mut ranks, &mut next, 100, &mut Unobserved);
        assert!(outcome.converged && outcome.iterations > 5);

        let mut edges = vec![];
        parameters.for_each_edge(|from, to| edges.push((from as usize, to as usize)));
        let mut degree = vec![0.0; n];
        edges.iter().for_each(|&(from, _)| degree[from] += 1.0);
        let damping = DAMPING as f64 / 65536.0;
        let mut expected = vec![1.0 / n as f64; n];
        for _ in 0..outcome.iterations {
            let mut new = vec![(1.0 - damping) / n as f64; n];
            for &(from, to) in &edges {
                new[to] += damping * expected[from] / degree[from];
            }
            expected = new;
        }
        for (v, (&got, want)) in ranks.iter().zip(expected).enumerate() {
            let got = got as f64 / ONE as f64;
            assert!((got - want).abs() < 1e-11, "vertex {v}: {got} and {want}");
        }
    }

    #[test]
    fn a_star_ranks_its_centre_highest() {
        // 1, 2 and 3 point to 0; 0 points to 1.
        let (mut rows, mut sources, mut out_degrees) =
            ([0, 3, 4, 4, 4], [1, 2, 3, 0], [1, 1, 1, 1]);
        let graph = Graph { rows: &mut rows, sources: &mut sources, out_degrees: &mut out_degrees };
        let (mut ranks, mut next) = ([0; 4], [0; 4]);
        let outcome = run(&graph, &mut ranks, &mut next, 200, &mut Unobserved);
        assert!(outcome.converged);
        assert!(ranks[0] > ranks[1] && ranks[1] > ranks[2] && ranks[2] == ranks[3]);
        assert!(outcome.sum.abs_diff(ONE) < ONE / 1_000_000);
    }

    #[test]
    fn arrays_do_not_overlap() {
        for (name, levels) in CONFIGURATIONS {
            let places = layout(&MEASURED_GRAPH, levels);
            let elements = array::elements(&MEASURED_GRAPH);
            let mut ranges: std::vec::Vec<_> = (0..array::COUNT)
                .map(|i| (places[i], places[i] + (elements[i] * array::ELEMENT_BYTES[i]) as u64))
                .collect();
            ranges.sort();
            assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{name}: {ranges:x?}");
        }
    }
}
