//! `pool-bench [small]`: measures both allocators.

use pool_bench::{workload, Allocator, LockedBuddy, Ours};

/// Frames of the memory: 2 GiB, or 64 MiB.
const FRAMES: usize = 1 << 19;
const SMALL_FRAMES: usize = 1 << 14;
const ROUNDS: usize = 7;
/// Sizes, by their names.
const ORDERS: [(usize, &str); 2] = [(0, "4 KiB"), (9, "2 MiB")];

/// What is published of LLFree, whose design the pool has.
const PUBLISHED: &str = "\
Published of LLFree (Wrenger, Rommel, Halbuer, Dietrich, Lohmann: \"LLFree: Scalable and Optionally-Persistent Page-Frame
Allocation\", USENIX ATC 2023): up to 88 % less time than Linux's allocator for a page on many cores. That is another
machine, with more cores than two, beside an allocator with lists of its own for each core: the ratios cannot be compared.
";

fn main() {
    let small = std::env::args().any(|word| word == "small");
    let frames = if small { SMALL_FRAMES } else { FRAMES };
    println!(
        "{:<22}{:>8}{:>14}{:>14}{:>8}",
        "ns to take and give", "threads", "pool", "locked buddy", "ratio"
    );
    for (order, size) in ORDERS {
        for (name, run) in workload::ALL {
            for threads in [1, 2] {
                let ours = median::<Ours>(run, order, threads, frames);
                let buddy = median::<LockedBuddy>(run, order, threads, frames);
                let case = format!("{name}, {size}");
                println!("{case:<22}{threads:>8}{ours:>14.1}{buddy:>14.1}{:>8.2}", ours / buddy);
                let word = case.replace(' ', "_");
                println!("bench {word} {ours:.2} at={threads}:threads unit=ns");
                println!("bench {word},_locked_buddy {buddy:.2} at={threads}:threads unit=ns");
            }
        }
    }
    println!("\n{PUBLISHED}");
}

/// The median of some rounds. Three quarters of the memory are used.
fn median<A: Allocator>(run: workload::Run, order: usize, threads: usize, frames: usize) -> f64 {
    let blocks = ((frames / 4 * 3) >> order) / threads;
    let mut rounds: Vec<f64> =
        (0..ROUNDS).map(|_| run(&A::new(frames, threads), order, threads, blocks)).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
