//! Tables of a server that others fill.
//!
//! A vector that doubles asks for much memory at once, just when there is most in it, and never gives
//! any back. A [`Table`] grows by pieces of 64 values, tells when there is no memory for one, and gives
//! a piece back when nothing is left in it; so does [`ByNumber`], whose numbers somebody else gives. [`Shares`] sees to it that no user takes a whole table,
//! and [`Holdings`] that none holds what is in it too often.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod by_number;
mod holdings;
mod shares;
mod table;

pub use by_number::ByNumber;
pub use holdings::{Bounds, Holdings, NoRoom};
pub use shares::{Limits, Shares};
pub use table::Table;
