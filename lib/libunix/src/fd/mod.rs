//! File descriptors.

/// The table of file descriptors.
pub struct Fds {}

impl Fds {
    /// An empty table.
    pub const fn new() -> Self {
        Fds {}
    }
}
