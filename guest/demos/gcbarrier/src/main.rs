//! A garbage collector and its write barrier: `./x run -- gcbarrier [ROUNDS]`.
//!
//! Most objects die young, so a collector looks at the young ones often and at the old ones seldom.
//! But an old object may be made to point to a young one, and the collector must hear of it. Here it
//! hears of *pages* that were written to, in two ways ([`barrier`]):
//!
//! * the processor's **dirty bits**, read from the page table itself, which is mapped read-only: the
//!   program runs at full speed, a collection reads 512 words and makes one system call;
//! * **protection faults**: old pages are read-only, the first write to each is a fault.
//!
//! A third run without a barrier shows what the barrier is for.
#![no_std]
#![no_main]

extern crate alloc;

mod barrier;
mod heap;

use alloc::collections::BTreeMap;
use barrier::{Barrier, DirtyBits, NoBarrier, Protection};
use fastrand::Rng;
use heap::{Heap, Ref};
use tessera::env::Args;
use tessera::{println, Status};

/// Depth of the tree that lives all the time: 4,095 objects.
const OLD_DEPTH: u32 = 12;
/// Depth of the trees that die young.
const YOUNG_DEPTH: u32 = 6;

/// A tree whose node values are their positions, of which the root has the first.
fn tree<B: Barrier>(heap: &mut Heap<B>, position: u64, depth: u32) -> Ref {
    if depth == 0 {
        return Ref::NONE;
    }
    let left = tree(heap, 2 * position, depth - 1);
    heap.roots.push(left);
    let right = tree(heap, 2 * position + 1, depth - 1);
    heap.roots.push(right);
    let node = heap.allocate(position, left, right);
    heap.roots.truncate(heap.roots.len() - 2);
    node
}

/// Is this still the tree that was built there?
fn is_tree<B: Barrier>(heap: &Heap<B>, node: Ref, position: u64, depth: u32) -> bool {
    match heap.get(node) {
        None => depth == 0,
        Some(cell) => {
            depth > 0
                && cell.value == position
                && is_tree(heap, cell.left, 2 * position, depth - 1)
                && is_tree(heap, cell.right, 2 * position + 1, depth - 1)
        }
    }
}

/// Builds an old tree, then many young ones, some of which replace children of old nodes.
fn run<B: Barrier>(name: &str, rounds: u64) -> Result<(), Status> {
    let mut heap = Heap::<B>::new()?;
    let old = tree(&mut heap, 1, OLD_DEPTH);
    heap.roots.push(old);
    heap.collect_all();
    let mut random = Rng::with_seed(42);
    let mut changed = BTreeMap::new();
    for round in 1..=rounds {
        let young = tree(&mut heap, round, YOUNG_DEPTH);
        // Down the old tree to a node, whose left child becomes a young tree.
        let mut at = old;
        for _ in 0..OLD_DEPTH - YOUNG_DEPTH - 2 {
            let cell = heap.get(at).ok_or(Status::Invalid)?;
            at = if random.u64(..2) == 0 { cell.left } else { cell.right };
        }
        heap.set_left(at, young);
        changed.insert(at, round);
        heap.collect_young();
        // Whoever was forgotten is overwritten some time.
        tree(&mut heap, round, YOUNG_DEPTH + 1);
    }
    let child = |node: Ref| heap.get(node).map_or(Ref::NONE, |cell| cell.left);
    let is_whole = |(&node, &round)| is_tree(&heap, child(node), round, YOUNG_DEPTH);
    let whole = changed.iter().filter(|&entry| is_whole(entry)).count();
    let kept = heap.live();
    heap.collect_all();
    let live = heap.live();
    println!(
        "{name:15} {:4} collections {:5} dirty pages {:5} faults {:5} system calls {kept:6} kept \
         {live:5} live  {whole} of {} trees whole",
        heap.collections,
        heap.dirty_pages,
        heap.barrier.faults(),
        heap.barrier.system_calls(),
        changed.len(),
    );
    Ok(())
}

#[tessera::main]
fn main(args: Args) -> Result<(), Status> {
    let rounds = args.number(1).unwrap_or(200);
    run::<DirtyBits>("dirty bits", rounds)?;
    run::<Protection>("protection", rounds)?;
    run::<NoBarrier>("without barrier", rounds)
}
