//! The workloads of G18's evaluation, access by access, through the models.

use crate::cache::{self, Cache};
use crate::tlb::{Counts, Description, Model, PageSize};
use workloads::graph::{Graph, Parameters};
use workloads::page_rank::{self, array, Outcome};
use workloads::{random_access, Observer};

/// Where an array lies, and in pages of which size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    pub va: u64,
    pub pages: PageSize,
}

/// Shows a model the addresses of accesses to arrays.
struct Translated<const ARRAYS: usize> {
    model: Model,
    arrays: [(Placement, u64); ARRAYS],
}

impl<const ARRAYS: usize> Observer for Translated<ARRAYS> {
    #[inline]
    fn access(&mut self, array: usize, index: usize) {
        let (place, bytes) = self.arrays[array];
        self.model.access(place.va + index as u64 * bytes, place.pages);
    }
}

/// RandomAccess with a table of `bytes`, a power of two, of which the model sees `updates`.
pub fn random_access(machine: &Description, bytes: u64, place: Placement, updates: u64) -> Counts {
    let mut observer = Translated { model: Model::new(machine), arrays: [(place, 8)] };
    random_access::trace((bytes / 8) as usize, updates, &mut observer);
    observer.model.counts()
}

/// The arrays of PageRank over a graph, on the host.
pub struct PageRank {
    rows: Vec<u32>,
    sources: Vec<u32>,
    out_degrees: Vec<u32>,
}

impl PageRank {
    /// Generates the graph.
    pub fn new(parameters: &Parameters) -> Self {
        let vertices = parameters.vertices();
        let mut own = PageRank {
            rows: vec![0; vertices + 1],
            sources: vec![0; parameters.edges()],
            out_degrees: vec![0; vertices],
        };
        own.graph().build(parameters);
        own
    }

    fn graph(&mut self) -> Graph<'_> {
        Graph {
            rows: &mut self.rows,
            sources: &mut self.sources,
            out_degrees: &mut self.out_degrees,
        }
    }

    fn run_with(&mut self, most_iterations: u32, observer: &mut impl Observer) -> Outcome {
        let vertices = self.out_degrees.len();
        let (mut ranks, mut next) = (vec![0; vertices], vec![0; vertices]);
        page_rank::run(&self.graph(), &mut ranks, &mut next, most_iterations, observer)
    }

    /// The result that the machine must find too.
    pub fn run(&mut self, most_iterations: u32) -> Outcome {
        self.run_with(most_iterations, &mut workloads::Unobserved)
    }

    /// What `machine` misses in `iterations` iterations with the arrays at these places.
    pub fn misses(
        &mut self,
        machine: &Description,
        places: [Placement; array::COUNT],
        iterations: u32,
    ) -> Counts {
        let arrays: [_; array::COUNT] =
            std::array::from_fn(|i| (places[i], array::ELEMENT_BYTES[i] as u64));
        let mut observer = Translated { model: Model::new(machine), arrays };
        self.run_with(iterations, &mut observer);
        observer.model.counts()
    }
}

/// A table of RandomAccess in physical memory: the address of each of its pages of 4 KiB.
pub struct PhysicalTable {
    pub pages: Vec<u64>,
}

impl PhysicalTable {
    fn address(&self, word: usize) -> u64 {
        let byte = word as u64 * 8;
        self.pages[(byte >> 12) as usize] | byte & 0xfff
    }

    fn words(&self) -> usize {
        self.pages.len() * 512
    }
}

/// What instances of RandomAccess that take turns after each update miss in a shared cache, from the
/// second half of `updates` updates of each: the first half warms the cache.
pub fn shared_cache(
    description: &cache::Description,
    tables: &[&PhysicalTable],
    updates: u64,
) -> Vec<cache::Counts> {
    let mut cache = Cache::new(description);
    let mut streams: Vec<_> = tables.iter().map(|_| random_access::Streams::new(updates)).collect();
    let mut counts = vec![cache::Counts::default(); tables.len()];
    let rounds = updates / random_access::STREAMS as u64;
    for round in 0..rounds {
        if round == rounds / 2 {
            counts.fill(cache::Counts::default());
        }
        let mut numbers = vec![[0; random_access::STREAMS]; tables.len()];
        for (stream, numbers) in streams.iter_mut().zip(&mut numbers) {
            let mut at = 0;
            stream.round(|number| {
                numbers[at] = number;
                at += 1;
            });
        }
        for turn in 0..random_access::STREAMS {
            for ((table, numbers), count) in tables.iter().zip(&numbers).zip(&mut counts) {
                let word = random_access::place(numbers[turn], table.words());
                cache.access(table.address(word), count);
            }
        }
    }
    counts
}
