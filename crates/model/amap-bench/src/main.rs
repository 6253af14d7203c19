//! `amap-bench [small]`: measures the four layouts.

use amap_bench::measure::{Table, SHAPES};

/// Shapes that are soon measured.
const FIRST: usize = 3;

fn main() {
    let small = std::env::args().any(|word| word == "small");
    let shapes = if small { &SHAPES[..FIRST] } else { &SHAPES };
    for &shape in shapes {
        let table = Table::measure(shape);
        println!("{}", table.text());
        print!("{}", table.lines());
    }
}
