//! The memory objects.
//!
//! | object | memory | when it is mapped |
//! |---|---|---|
//! | [`Fixed`] | a Frame or DevFrame whose physical address matters | at once |
//! | [`OneFrame`] | one Frame, in any number of regions | at once |
//! | [`OneMap`] | one Frame, in one region at most | at once |
//! | [`LazyFrame`] | one Frame | page by page, at the fault |
//! | [`Anonymous`] | a Frame for each page, made when it is first touched | at the fault |
//! | [`Append`] | Frames appended while it is visible | at once |
//! | [`Numa`] | a Frame of each NUMA node in turn | at once |
//! | [`Reserved`] | none | by the program |
//! | [`SharedFrame`] | one Frame that other domains see, until it is revoked | at once |
//! | [`SharedTable`] | pages below a table that other domains see | as the owner puts them in |
//! | [`ForeignTable`] | another domain's table | as its owner puts them in |
//! | [`Served`] | Frames that another domain, the pager, answers faults with | at the fault |
//! | [`Paged`] | a pool of pages that show the contents of a [`Store`] | at the fault |

mod anonymous;
mod frames;
mod paged;
mod pieces;
mod served;
mod shared;
mod single;
mod store;

pub use anonymous::Anonymous;
pub use frames::FrameTable;
pub use paged::{Paged, PagedStats};
pub use pieces::{Append, Numa};
pub use served::{pager, Served};
pub use shared::{ForeignTable, SharedFrame, SharedTable};
pub use single::{Fixed, LazyFrame, OneFrame, OneMap, Reserved};
pub use store::{RamDisk, Store};
