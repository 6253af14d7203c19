//! Signal masks that hold for one system call.

pub use crate::signal::mask::{end_temporary, set_temporary};
