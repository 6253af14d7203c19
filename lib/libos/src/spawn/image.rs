//! Native programs in ELF files.

use abi::layout::{NATIVE_HEAP, NATIVE_IMAGE};
use core::ops::Deref;

pub use elfimage::{Access, ImageError, Segment};

/// A native program that can be started: all of it lies where native programs may.
pub struct Image<'a>(elfimage::Image<'a>);

impl<'a> Image<'a> {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// Those of [`elfimage::Image::parse`].
    pub fn parse(file: &'a [u8]) -> Result<Self, ImageError> {
        elfimage::Image::parse(file, NATIVE_IMAGE..NATIVE_HEAP).map(Image)
    }
}

impl<'a> Deref for Image<'a> {
    type Target = elfimage::Image<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
