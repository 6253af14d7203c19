//! Power-law graphs: R-MAT (Chakrabarti, Zhan and Faloutsos, SDM 2004) with the parameters of
//! Graph 500, kept as lists of incoming neighbours in compressed rows.
//!
//! R-MAT gives its high degrees to low numbers; vertices are renumbered by a bijection, as Graph
//! 500 asks, so that the popular ones do not share pages.

use fastrand::Rng;

/// Which graph: 2^`scale` vertices and `edge_factor` edges for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub scale: u32,
    pub edge_factor: u32,
    pub seed: u64,
}

impl Parameters {
    /// Number of vertices.
    pub const fn vertices(&self) -> usize {
        1 << self.scale
    }
    /// Number of edges; some may be the same.
    pub const fn edges(&self) -> usize {
        self.vertices() * self.edge_factor as usize
    }

    /// Calls `edge` with source and target of every edge, always the same ones.
    pub fn for_each_edge(&self, mut edge: impl FnMut(u32, u32)) {
        let mut random = Rng::with_seed(self.seed);
        for _ in 0..self.edges() {
            let (from, to) = self.one(&mut random);
            edge(self.renumber(from), self.renumber(to));
        }
    }

    /// One edge: at each level into one of the four quadrants of the adjacency matrix, with the
    /// probabilities 0.57, 0.19, 0.19 and 0.05.
    fn one(&self, random: &mut Rng) -> (u32, u32) {
        const A: u64 = 57 * 0x1_0000 / 100;
        const B: u64 = A + 19 * 0x1_0000 / 100;
        const C: u64 = B + 19 * 0x1_0000 / 100;
        let (mut from, mut to) = (0, 0);
        let mut bits = 0;
        for level in 0..self.scale {
            // Sixteen random bits for each level.
            bits = if level % 4 == 0 { random.u64(..) } else { bits >> 16 };
            let choice = bits & 0xffff;
            let down = u32::from(choice >= B);
            let right = u32::from(choice >= C) | u32::from(choice >= A) & !down;
            from = from << 1 | down;
            to = to << 1 | right;
        }
        (from, to)
    }

    /// A bijection of the vertices: both steps are ones modulo a power of two.
    fn renumber(&self, vertex: u32) -> u32 {
        let mask = self.vertices() as u32 - 1;
        let mixed = vertex.wrapping_mul(0x9e37_79b1) & mask;
        let shifted = mixed ^ mixed >> (self.scale / 2 + 1);
        shifted.wrapping_mul(0x85eb_ca6b) & mask
    }
}

/// The graph in memory that the caller provides.
#[derive(Debug)]
pub struct Graph<'a> {
    /// `rows[v]..rows[v + 1]` are the places of `v`'s incoming neighbours in `sources`.
    pub rows: &'a mut [u32],
    /// Incoming neighbours.
    pub sources: &'a mut [u32],
    /// How many edges leave each vertex.
    pub out_degrees: &'a mut [u32],
}

impl Graph<'_> {
    /// Fills the arrays, of `vertices + 1`, `edges` and `vertices` elements, by counting sort.
    pub fn build(&mut self, parameters: &Parameters) {
        self.rows.fill(0);
        self.out_degrees.fill(0);
        parameters.for_each_edge(|from, to| {
            self.out_degrees[from as usize] += 1;
            self.rows[to as usize] += 1;
        });
        // Ends of the rows, which the second pass moves down to their beginnings.
        let mut sum = 0;
        for row in self.rows.iter_mut() {
            sum += *row;
            *row = sum;
        }
        parameters.for_each_edge(|from, to| {
            let row = &mut self.rows[to as usize];
            *row -= 1;
            self.sources[*row as usize] = from;
        });
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashSet;
    use std::vec;
    use std::vec::Vec;

    const SMALL: Parameters = Parameters { scale: 10, edge_factor: 8, seed: 5 };

    #[test]
    fn rows_hold_the_edges() {
        let (mut rows, mut sources, mut out_degrees) =
            (vec![9; SMALL.vertices() + 1], vec![9; SMALL.edges()], vec![9; SMALL.vertices()]);
        let mut graph =
            Graph { rows: &mut rows, sources: &mut sources, out_degrees: &mut out_degrees };
        graph.build(&SMALL);
        let mut expected = vec![];
        SMALL.for_each_edge(|from, to| expected.push((to, from)));
        let mut got: Vec<(u32, u32)> = vec![];
        for v in 0..SMALL.vertices() {
            let row = graph.rows[v] as usize..graph.rows[v + 1] as usize;
            got.extend(graph.sources[row].iter().map(|&from| (v as u32, from)));
        }
        expected.sort();
        got.sort();
        assert_eq!(got, expected);
        assert_eq!(graph.out_degrees.iter().sum::<u32>() as usize, SMALL.edges());
    }

    #[test]
    fn renumbering_is_a_bijection() {
        for scale in [1, 2, 7, 10, 13] {
            let graph = Parameters { scale, ..SMALL };
            let all: HashSet<_> = (0..graph.vertices() as u32).map(|v| graph.renumber(v)).collect();
            assert_eq!(all.len(), graph.vertices());
        }
    }

    /// A few vertices have a large part of the edges, most have few.
    #[test]
    fn degrees_are_skewed() {
        let mut degrees = vec![0; SMALL.vertices()];
        SMALL.for_each_edge(|from, _| degrees[from as usize] += 1);
        degrees.sort_by(|a, b| b.cmp(a));
        let top: u32 = degrees[..SMALL.vertices() / 100].iter().sum();
        assert!(top as usize > SMALL.edges() / 8, "{top} edges leave the first percent");
        assert!(degrees[SMALL.vertices() / 2] < SMALL.edge_factor);
    }
}
