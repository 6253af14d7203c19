//! `mdb-bench [COUNT…]`: measures the four databases with so many capabilities (powers of two).

use mdb_bench::report::Table;

/// From the paper's smallest to its largest.
const COUNTS: [usize; 5] = [4096, 8192, 16384, 32768, 65536];

fn main() {
    let chosen: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let counts = if chosen.is_empty() { &COUNTS[..] } else { &chosen };
    for &count in counts {
        let table = Table::measure(count);
        println!("{}", table.text());
        print!("{}", table.lines());
    }
}
