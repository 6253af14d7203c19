//! The memory objects.
//!
//! | object | memory | when it is mapped |
//! |---|---|---|
//! | [`Anonymous`] | a Frame for each page, made when it is first touched | at the fault |

mod anonymous;
mod frames;

pub use anonymous::Anonymous;
pub use frames::FrameTable;
