//! What a disk does.

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// The disk has not done it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed;

/// A disk. Each function returns when it is done.
pub trait Disk {
    /// Its size.
    fn sectors(&self) -> u64;
    /// Is it never written?
    fn is_read_only(&self) -> bool;
    /// Reads whole sectors, from `first` on.
    ///
    /// # Errors
    /// The buffer has anything then.
    fn read(&mut self, first: u64, to: &mut [u8]) -> Result<(), Failed>;
    /// Writes whole sectors.
    ///
    /// # Errors
    /// Any of them may have been written.
    fn write(&mut self, first: u64, from: &[u8]) -> Result<(), Failed>;
    /// Makes lasting what was written before.
    ///
    /// # Errors
    /// Nothing is known of it.
    fn flush(&mut self) -> Result<(), Failed>;
}
