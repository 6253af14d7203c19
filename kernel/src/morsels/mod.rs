//! Pools, and objects that are subtrees of page tables: what the algorithms of [`morsel`] and [`pool`] need of
//! the machine, and how capabilities name objects.
//!
//! | file | what |
//! |---|---|
//! | `machine` | words of frames, the allocator, and the other cores |
//! | `name` | how capabilities and entries name objects |
//! | `fault` | from an address to the object that is to be shown there |
//! | `forming` | pools that are formatted or recovered, step by step |
//!
//! Everything here but the forming of a pool may be done by any core at any time. Only what takes pages away must be
//! done where the capabilities are, since it may have to clear entries that show pages of an object one by one.

pub mod fault;
pub mod forming;
mod machine;
mod name;

pub use machine::{note, open_pool, recent, settle, with, Machine, Objects, Unmap, Waiting};
pub use name::{
    apart, around, first_page, in_one_piece, is_whole, key, object, object_of, pool_of, record_of,
    shown_by, whole, MOST_PAGES,
};

use ::morsel::Refused;
use captypes::Status;

pub use crate::object::table::MORSEL;

/// What an invocation answers if an object refuses something.
pub fn status(refused: Refused) -> Status {
    match refused {
        Refused::Again => Status::Again,
        Refused::Gone => Status::Empty,
        Refused::Beyond => Status::OutOfRange,
        Refused::NoMemory => Status::NoMemory,
        Refused::Exists => Status::Occupied,
        Refused::Invalid => Status::Unsupported,
        Refused::Damaged => Status::Invalid,
    }
}
