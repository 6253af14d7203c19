//! Error numbers of Linux.

pub use linuxabi::errno::*;
