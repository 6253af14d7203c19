#![no_std]
#![no_main]
libos::program!(main);
fn main(_: libos::runtime::Start) {}
