//! The life of what a server gives to a client.
//!
//! A client is known by the *badge* of its endpoint capability. The kernel says with each message under
//! which badge it came; it does not say who holds such a capability by now, since whoever has one may
//! have given copies to others. Two rules follow:
//!
//! * A badge is given once and never again ([`Badges`]): a message that was sent before its client ended
//!   may arrive after that, and must be nobody's.
//! * What a client was given ends with it, with all copies, wherever they are ([`Teardown`]): dispatcher,
//!   CSpace, shared memory, endpoint. Only then its parts may be used for somebody else, and only then
//!   others are told that it has ended.
//!
//! ```text
//!  give            end                      step, step, …            finish
//! ──────► Speaks ──────► Ending: Teardown ──────────────────► all ──────────► the place is free
//!         who?  ─► who   who? ─► nobody                       revoked         for the next badge
//! ```
//!
//! `tests/model.rs` checks the code of this crate in every interleaving with clients that copy
//! whatever they have: no capability with a badge outlives the teardown of its client, and no message is
//! taken for another client's.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod badges;
mod teardown;

pub use badges::{Badge, Badges};
pub use teardown::{Part, Parts, Step, Teardown};
