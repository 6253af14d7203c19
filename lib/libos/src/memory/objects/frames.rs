//! Which Frame is behind each page of an object.

use crate::frame::Frame;
use crate::memory::Error;
use alloc::vec::Vec;

/// Pages of one chunk: what an object without pages there does not pay for.
const CHUNK: u64 = 512;

/// A Frame for some of the pages of an object, by page number.
#[derive(Debug, Default)]
pub struct FrameTable {
    chunks: Vec<Vec<Option<Frame>>>,
    pages: u64,
    filled: u64,
}

impl FrameTable {
    /// For an object of `pages` pages, of which none has a Frame.
    pub fn new(pages: u64) -> Result<Self, Error> {
        let mut table = FrameTable::default();
        table.grow(pages)?;
        Ok(table)
    }

    /// Pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages that have a Frame.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// Makes room for more pages.
    pub fn grow(&mut self, pages: u64) -> Result<(), Error> {
        let chunks = pages.div_ceil(CHUNK) as usize;
        self.chunks.try_reserve(chunks.saturating_sub(self.chunks.len()))?;
        self.chunks.resize_with(chunks.max(self.chunks.len()), Vec::new);
        self.pages = self.pages.max(pages);
        Ok(())
    }

    /// The Frame of a page.
    pub fn get(&self, page: u64) -> Option<&Frame> {
        self.chunks.get((page / CHUNK) as usize)?.get((page % CHUNK) as usize)?.as_ref()
    }

    /// The Frame of a page, made if there is none.
    pub fn get_or_make(
        &mut self,
        page: u64,
        make: impl FnOnce() -> Result<Frame, Error>,
    ) -> Result<&Frame, Error> {
        if page >= self.pages {
            return Err(Error::OutOfRange);
        }
        let chunk = self.chunks.get_mut((page / CHUNK) as usize).ok_or(Error::OutOfRange)?;
        if chunk.is_empty() {
            chunk.try_reserve_exact(CHUNK as usize)?;
            chunk.resize_with(CHUNK as usize, || None);
        }
        let place = &mut chunk[(page % CHUNK) as usize];
        if place.is_none() {
            *place = Some(make()?);
            self.filled += 1;
        }
        place.as_ref().ok_or(Error::NoPage)
    }

    /// Takes the Frame of a page out.
    pub fn take(&mut self, page: u64) -> Option<Frame> {
        let chunk = self.chunks.get_mut((page / CHUNK) as usize)?;
        let frame = chunk.get_mut((page % CHUNK) as usize)?.take()?;
        self.filled -= 1;
        Some(frame)
    }
}
