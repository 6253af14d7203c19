//! Tests on a pretended machine: whole invocations, with all invariants checked after each.

mod attacks;
mod deletion;
mod flushing;
mod machine;
mod mappings;
mod messages;
mod processor;
mod random;
mod upcalls;
