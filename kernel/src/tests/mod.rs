//! Tests on a pretended machine: whole invocations, with all invariants checked after each.

mod ahead;
mod alone;
mod attacks;
mod badges;
mod calls;
mod chunks;
mod cycles;
mod deletion;
mod devices;
mod flushing;
mod loans;
mod machine;
mod map;
mod mappings;
mod messages;
mod morsels;
mod operations;
mod persistent;
mod preemption;
mod processor;
mod protocol;
pub mod random;
mod shootdown;
mod store;
mod timers;
mod upcalls;
mod visiting;
