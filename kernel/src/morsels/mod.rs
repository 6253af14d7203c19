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
//! done where the pool's capability is, since it may have to clear entries that show pages of an object one by one, which are
//! only there. (Where there are none it may be done [anywhere](crate::operations::hiding).)

pub mod fault;
pub mod forming;
mod machine;
mod name;

pub use machine::{
    forget_everything, is_at_home, note, open_pool, recent, settle, while_walking, with,
    with_shared, Machine, Objects, Unmap, Waiting,
};
pub use name::{
    all_of_pool, apart, around, first_page, in_one_piece, is_all_of_pool, is_whole, key, object,
    object_at, object_of, page_at, pool_bits, pool_of, record_of, shown_page, shown_table, whole,
    ALL_POOL_BITS, MOST_PAGES,
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
        Refused::Out => Status::Out,
        Refused::Exists => Status::Occupied,
        Refused::Invalid => Status::Unsupported,
        Refused::Damaged => Status::Invalid,
    }
}
