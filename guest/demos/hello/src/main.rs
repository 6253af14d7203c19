//! The smallest native program: `./x run -- hello [NAME…]`.
#![no_std]
#![no_main]

use tessera::env::Args;
use tessera::println;

#[tessera::main]
fn main(args: Args) {
    if args.len() < 2 {
        println!("Hello, world!");
    }
    for name in args.iter().skip(1) {
        println!("Hello, {name}!");
    }
}
