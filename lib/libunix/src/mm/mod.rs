//! Program memory: the process pages itself.

pub mod user;

/// The address space of the program.
pub struct Mm {}

impl Mm {
    /// An empty address space.
    pub const fn new() -> Self {
        Mm {}
    }
}
