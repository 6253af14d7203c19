//! The direct map: all memory is mapped for ever (SFB §4.3).

use crate::{AllocError, Buf, Counters, Ephemeral, Flags};
use core::marker::PhantomData;

/// Where all memory is.
pub trait DirectMap {
    /// What a page is known by.
    type Page: Copy;
    /// Where it is.
    fn address(page: Self::Page) -> usize;
    /// Is `next` at the address behind that of `page`?
    fn are_neighbours(page: Self::Page, next: Self::Page) -> bool;
}

/// See the head of this file. Takes no room, and what it does is an addition: `alloc` and `free` are nothing.
pub struct Direct<D>(PhantomData<D>);

impl<D> Direct<D> {
    /// The direct map.
    pub const fn new() -> Self {
        Direct(PhantomData)
    }
}

impl<D> Default for Direct<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: DirectMap> Ephemeral for Direct<D> {
    type Page = D::Page;
    type Held = D::Page;

    #[inline(always)]
    fn alloc(&self, page: D::Page, _: Flags) -> Result<Buf<'_, Self>, AllocError> {
        Ok(Buf::new(self, page))
    }

    #[inline(always)]
    fn alloc_run(&self, pages: &[D::Page], _: Flags) -> Result<Buf<'_, Self>, AllocError> {
        let mut pairs = pages.iter().zip(pages.iter().skip(1));
        match pages.first() {
            Some(&first)
                if pages.len() <= crate::RUN && pairs.all(|(&a, &b)| D::are_neighbours(a, b)) =>
            {
                Ok(Buf::new(self, first))
            }
            _ => Err(AllocError::Scattered),
        }
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
    #[inline(always)]
    fn address(held: &D::Page) -> usize {
        D::address(*held)
    }
    #[inline(always)]
    fn page(held: &D::Page) -> D::Page {
        *held
    }
    #[inline(always)]
    fn free(&self, _: &D::Page) {}
}
