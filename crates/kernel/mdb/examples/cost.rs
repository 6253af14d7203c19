//! Prints nanoseconds per operation, the median over chunks of 64, for several sizes:
//! `cargo run --release -p mdb --example cost`.
//!
//! The database holds one RAM capability and, for each page of it, a Frame; half of the Frames have
//! a Mapping. Slots are visited in a random order, as those of a CSpace are. The operations are those
//! of G18 §4.6.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::*;
use mdb::{Class, Mdb};

/// Operations between two looks at the clock.
const CHUNK: usize = 64;

struct Bench {
    mdb: Mdb<Types>,
    arena: Arena,
    /// Slots 0..frames are Frames, frames..2*frames Mappings, then spare slots, then the RAM.
    frames: usize,
    /// The Frames in a random order.
    order: Vec<usize>,
}

impl Bench {
    fn new(caps: usize) -> Self {
        let frames = caps * 2 / 3;
        let mut bench = Self {
            mdb: Mdb::new(),
            arena: Arena::new(3 * frames + 1),
            frames,
            order: (0..frames).collect(),
        };
        fastrand::Rng::with_seed(0x9e37_79b9_7f4a_7c15).shuffle(&mut bench.order);
        bench.arena.put(3 * frames, object(RAM, 0, frames as u64 * PAGE));
        // SAFETY: the slots of the arena stay in place and outlive the database.
        unsafe { bench.mdb.insert(bench.arena.at(3 * frames)) };
        bench
    }

    #[inline(never)]
    fn time(&mut self, name: &str, indices: &[usize], mut op: impl FnMut(&mut Self, usize)) {
        let mut times = Vec::new();
        for chunk in indices.chunks(CHUNK) {
            let start = Instant::now();
            for &i in chunk {
                step(&mut op, self, i);
            }
            times.push(start.elapsed().as_nanos() as f64 / chunk.len() as f64);
        }
        times.sort_by(f64::total_cmp);
        println!("{:>8} {name:<34} {:>8.1} ns", self.frames * 3 / 2, times[times.len() / 2]);
    }

    fn frame(&self, i: usize) -> mdb::RawCap {
        object(FRAME, i as u64 * PAGE, PAGE)
    }

    fn map(&self, i: usize) -> mdb::RawCap {
        mapping(i as u64 * PAGE, 1, 1 << 40, 0)
    }
}

/// Keeps the operation out of line, so that a profiler can count its instructions.
#[inline(never)]
fn step(op: &mut impl FnMut(&mut Bench, usize), bench: &mut Bench, i: usize) {
    op(bench, i);
}

fn run(caps: usize) {
    let mut b = Bench::new(caps);
    let (n, order) = (b.frames, b.order.clone());
    let (mapped, rest) = order.split_at(n / 2);
    let ascending: Vec<usize> = (0..n).collect();

    // SAFETY, for every closure: slots of the arena stay in place; each list holds a Frame once, so
    // that what is put in was not there, and what is removed or asked about was.
    b.time("retype RAM to 64 frames, per frame", &ascending, |b, i| {
        b.arena.put(i, b.frame(i));
        if i % CHUNK == CHUNK - 1 || i == n - 1 {
            let first = i / CHUNK * CHUNK;
            // SAFETY: as above.
            unsafe {
                b.mdb.insert_run(i + 1 - first, |n| b.arena.at(first + n), b.arena.at(3 * n));
            }
        }
    });
    b.time("map (insert_near)", mapped, |b, i| {
        b.arena.put(n + i, b.map(i));
        // SAFETY: as above.
        unsafe { b.mdb.insert_near(b.arena.at(n + i), b.arena.at(i)) };
    });
    b.time("has_copies", &order, |b, i| {
        // SAFETY: as above.
        black_box(unsafe { b.mdb.has_copies(b.arena.at(i)) });
    });
    b.time("has_descendants", &order, |b, i| {
        // SAFETY: as above.
        black_box(unsafe { b.mdb.has_descendants(b.arena.at(i)) });
    });
    b.time("nearest_ancestor of a Mapping", mapped, |b, i| {
        // SAFETY: as above.
        black_box(unsafe { b.mdb.nearest_ancestor(b.arena.at(n + i)) });
    });
    b.time("find a Mapping", mapped, |b, i| {
        black_box(b.mdb.find(&b.map(i)));
    });
    b.time("surrounding one page", &order, |b, i| {
        black_box(b.mdb.surrounding(0, i as u64 * PAGE, PAGE, 255));
    });
    b.time("surrounding, RAM only", &order, |b, i| {
        black_box(b.mdb.surrounding(0, i as u64 * PAGE, PAGE, 1));
    });
    b.time("overlapping Mappings of one page", &order, |b, i| {
        black_box(b.mdb.overlapping(0, i as u64 * PAGE, PAGE, Class::Leaves).next());
    });
    b.time("insert_copy", &order, |b, i| {
        b.arena.put(2 * n + i, b.frame(i));
        // SAFETY: as above.
        unsafe { b.mdb.insert_copy(b.arena.at(i), b.arena.at(2 * n + i)) };
    });
    b.time("remove the first of two copies", &order, |b, i| {
        // SAFETY: as above.
        unsafe { b.mdb.remove(b.arena.at(i)) };
    });
    b.time("relocate", &order, |b, i| {
        // SAFETY: as above.
        unsafe { b.mdb.relocate(b.arena.at(2 * n + i), b.arena.at(i)) };
    });
    b.time("unmap (remove)", mapped, |b, i| {
        // SAFETY: as above.
        unsafe { b.mdb.remove(b.arena.at(n + i)) };
    });
    b.time("remove", mapped, |b, i| {
        // SAFETY: as above.
        unsafe { b.mdb.remove(b.arena.at(i)) };
    });
    b.time("insert", mapped, |b, i| {
        b.arena.put(i, b.frame(i));
        // SAFETY: as above.
        unsafe { b.mdb.insert(b.arena.at(i)) };
    });
    b.time("last delete (remove, gap)", rest, |b, i| {
        // SAFETY: as above.
        let cap = unsafe { b.mdb.remove(b.arena.at(i)) };
        b.mdb.for_each_gap(
            0,
            cap.base,
            cap.word,
            |c| c.ty == RAM,
            |base, len| {
                black_box((base, len));
            },
        );
    });
    assert_eq!(b.mdb.check(), Ok(()));
    println!();
}

fn main() {
    for caps in [4096, 16384, 65536] {
        run(caps);
    }
}
