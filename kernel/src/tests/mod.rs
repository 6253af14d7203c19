//! Tests on a pretended machine: whole invocations, with all invariants checked after each.

mod attacks;
mod deletion;
mod machine;
mod mappings;
mod messages;
mod random;
mod upcalls;
