//! Where pages are that have no memory at the moment.

use super::OneFrame;
use crate::local::Local;
use crate::memory::{self, Error, Map, Object, PageSize, VRegion};
use alloc::sync::Arc;

/// A backing store. It is asked from the page-fault handler: its own memory is always mapped.
pub trait Store: Send {
    /// Its bytes.
    fn bytes(&self) -> u64;
    /// Fills `into` with what is at `offset`.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error>;
    /// Keeps `from` at `offset`.
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error>;
}

/// A store that others look at as well.
impl<S: Store + ?Sized> Store for Arc<Local<S>> {
    fn bytes(&self) -> u64 {
        self.try_with(|store| store.bytes()).unwrap_or(0)
    }
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.try_with(|store| store.read(offset, into)).unwrap_or(Err(Error::Busy))
    }
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.try_with(|store| store.write(offset, from)).unwrap_or(Err(Error::Busy))
    }
}

/// A disk in memory.
pub struct RamDisk {
    memory: VRegion,
}

impl RamDisk {
    /// `bytes` of zeroes.
    pub fn new(bytes: u64) -> Result<Self, Error> {
        let object = Object::new(OneFrame::new(bytes, PageSize::Base)?);
        Ok(RamDisk { memory: memory::map(&object, Map::default())? })
    }

    /// All of it.
    pub fn contents(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.memory.as_ptr(), self.memory.bytes() as usize);
        // SAFETY: the region is mapped readable and writable as long as it exists, and is known to
        // this disk only.
        unsafe { core::slice::from_raw_parts_mut(start, bytes) }
    }

    fn part(&mut self, offset: u64, bytes: usize) -> Result<&mut [u8], Error> {
        let first = usize::try_from(offset).map_err(|_| Error::Store)?;
        let end = first.checked_add(bytes).ok_or(Error::Store)?;
        self.contents().get_mut(first..end).ok_or(Error::Store)
    }
}

impl Store for RamDisk {
    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        into.copy_from_slice(self.part(offset, into.len())?);
        Ok(())
    }
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.part(offset, from.len())?.copy_from_slice(from);
        Ok(())
    }
}
