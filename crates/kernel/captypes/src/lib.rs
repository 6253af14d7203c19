//! Capability types and invocations, declared once.
//!
//! Two tables say everything that the CPU driver, the libraries and (later) the monitors must
//! agree about:
//!
//! * [`types`]: what kinds of capability exist, which tree of the forest each belongs to, what it
//!   may be retyped from, how large its object is. The Rust types, the retype rules and the order
//!   of the mapping database all come from this table (G18 §2.6, §4.4.2 asks for such a language).
//! * [`invocations`]: every operation, its arguments and its results. The table generates a
//!   struct for each side of the system call, so that marshalling cannot disagree.
//!
//! Nothing here touches memory or hardware.
#![no_std]
#![forbid(unsafe_code)]

pub mod counters;
pub mod invocations;
pub mod place;
pub mod status;
pub mod types;
pub mod words;

pub use invocations::{op, Invocation, Label};
pub use place::{CapAddr, Level, Place};
pub use status::Status;
pub use types::{CapType, ObjectKind, RamAttrs, Rights, Tree};
