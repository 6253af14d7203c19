//! Capability types and invocations, declared once.
//!
//! Two tables say everything that the CPU driver, the libraries and the monitors must agree about:
//!
//! * [`types`]: what kinds of capability exist, which tree of the forest each belongs to, what it
//!   may be retyped from, how large its object is, which rights it can have, what tells objects apart, what
//!   other cores may have of it, what happens when it is made and when the last one goes. The Rust types,
//!   the retype rules, the order of the mapping database and the sets of types all come from this table
//!   (G18 §2.6, §4.4.2 asks for such a language). `schema` says what can stand in it.
//! * [`invocations`]: every operation, the types on which it is invoked, its arguments and its results. The
//!   table generates a struct for each side of the system call, so that marshalling cannot disagree, and
//!   enumerations for the kernel to dispatch by, so that no operation can be forgotten. `marshal` has the
//!   generator.
//!
//! How to add a row: `docs/questions/adding-a-capability-type.md`. Nothing here touches memory or hardware.
#![no_std]
#![forbid(unsafe_code)]

pub mod counters;
pub mod invocations;
mod marshal;
pub mod place;
mod replies;
mod rights;
mod schema;
pub mod status;
pub mod types;
mod wire;
pub mod words;

pub use invocations::{op, Invocation, Label};
pub use place::{CapAddr, Level, Place};
pub use status::Status;
pub use types::{CapType, ObjectKind, RamAttrs, Rights, Tree, TypeSet};
pub use wire::{WireCap, MOST_POOLS, PAGES_OF_MORSEL, PAGES_OF_POOL};
