//! Ephemeral mappings: whoever has to look at a page that is not in its address space asks here for an
//! address, and gives it back.
//!
//! One interface, [`Ephemeral`]; what it gives out is a [`Buf`], which knows its address and its page and
//! ends when it is dropped. Four implementations of it:
//!
//! | | when | what a mapping costs |
//! |---|---|---|
//! | [`Direct`] | all memory is mapped for ever | an addition |
//! | [`Cache`] | it is not | nothing if the page was mapped lately; else the change of an entry |
//! | [`Coloured`] | it is, but the processor's caches are indexed by virtual addresses | as `Direct` or as `Cache`, by colour |
//! | [`Uncached`] | never: to compare with | the change of two entries, and an invalidation everywhere |
//!
//! What they need of the machine is a [`Machine`]. `Cache`, `Coloured` and `Uncached` are plain data that
//! one owner changes ([`Windows`]); [`Guarded`] makes one of them an [`Ephemeral`], by a [`Lock`] that says
//! how those who share it keep out of each other's way, and how they sleep: the kernel on its core
//! with [`Alone`], a library with threads by its own.
//!
//! A domain, whose entries are changed by invocations that may fail, has the cache by [`Looks`].
//!
//! Nothing here allocates, and nothing here is unsafe: it hands out numbers, and what is read through them is
//! the business of whoever asks.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod buffers;
mod cache;
mod coloured;
mod cores;
mod direct;
mod guarded;
mod library;
mod machine;
mod uncached;

pub use buffers::{Broken, Run, RUN};
pub use cache::Cache;
pub use coloured::{Coloured, Colours};
pub use cores::Cores;
pub use direct::{Direct, DirectMap};
pub use guarded::{Alone, Guarded, Lock, State};
pub use library::{Look, Looks, NoLook, Places};
pub use machine::{Action, Machine};
pub use uncached::Uncached;

use core::marker::PhantomData;

/// How a mapping is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(u8);

impl Flags {
    /// Only the core that asks uses it.
    pub const PRIVATE: Flags = Flags(1);
    /// Fails at once where it would have to wait.
    pub const NO_WAIT: Flags = Flags(2);
    /// Waiting may be interrupted. Without effect beside [`NO_WAIT`](Self::NO_WAIT).
    pub const INTERRUPTIBLE: Flags = Flags(4);

    /// Both.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// Are all of `other` among them?
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Why there is no mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// All addresses are in use, and the caller does not wait, or cannot.
    Busy,
    /// It waited, and was interrupted.
    Interrupted,
    /// These pages cannot be seen at neighbouring addresses here, or are none, or more than [`RUN`]: to
    /// be asked for one by one.
    Scattered,
}

/// What was asked for so far, and what it took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Mappings that were there.
    pub hits: u64,
    /// Mappings that were made.
    pub misses: u64,
    /// Invalidations on the core that asked.
    pub local: u64,
    /// Invalidations on others that were asked for, of however many cores at once.
    pub remote: u64,
}

impl Counters {
    /// Nothing yet.
    pub const NONE: Counters = Counters { hits: 0, misses: 0, local: 0, remote: 0 };
}

/// Data that gives out addresses, changed by one at a time.
pub trait Windows {
    /// What a page is known by.
    type Page: Copy + Eq;

    /// An address that shows the page until it is [released](Self::release). `None`: all are in use.
    fn claim(&mut self, page: Self::Page, flags: Flags) -> Option<Mapping<Self::Page>>;

    /// The same for up to [`RUN`] pages at neighbouring addresses, by one change.
    ///
    /// # Errors
    /// [`AllocError::Busy`] if all are in use, or [`AllocError::Scattered`].
    fn claim_run(
        &mut self,
        pages: &[Self::Page],
        flags: Flags,
    ) -> Result<Mapping<Self::Page>, AllocError>;

    /// Takes an address back. Returns whether it is free for other pages now.
    fn release(&mut self, mapping: &Mapping<Self::Page>) -> bool;

    /// What it has done.
    fn counters(&self) -> Counters;
}

/// An address that was [claimed](Windows::claim).
#[derive(Debug)]
pub struct Mapping<P> {
    address: usize,
    page: P,
    holder: Holder,
}

/// What has an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    /// A buffer for single pages.
    Single(u32),
    /// A buffer for runs.
    Run(u32),
    /// It is in the direct map.
    Nobody,
}

/// Who gives out addresses of pages.
pub trait Ephemeral {
    /// What a page is known by.
    type Page: Copy;
    /// What it remembers of a [`Buf`].
    type Held;

    /// An address of the page.
    ///
    /// # Errors
    /// [`AllocError::Busy`] with [`Flags::NO_WAIT`], [`AllocError::Interrupted`] with
    /// [`Flags::INTERRUPTIBLE`]; neither without them, where one can wait.
    fn alloc(&self, page: Self::Page, flags: Flags) -> Result<Buf<'_, Self>, AllocError>;

    /// Neighbouring addresses of 1 to [`RUN`] pages, in their order, by one change.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc), or [`AllocError::Scattered`].
    fn alloc_run(&self, pages: &[Self::Page], flags: Flags) -> Result<Buf<'_, Self>, AllocError>;

    /// What it has done.
    fn counters(&self) -> Counters;

    /// The address of a [`Buf`].
    fn address(held: &Self::Held) -> usize;
    /// Its page.
    fn page(held: &Self::Held) -> Self::Page;
    /// It is dropped.
    fn free(&self, held: &Self::Held);
}

/// An address of a page, until this is dropped.
///
/// Stays with the thread that asked for it. What it shows may be used by the others too, but if it was asked
/// for as [`Flags::PRIVATE`].
#[must_use = "the address is valid until this is dropped"]
pub struct Buf<'a, E: Ephemeral + ?Sized> {
    of: &'a E,
    held: E::Held,
    on_this_core: PhantomData<*const ()>,
}

impl<'a, E: Ephemeral + ?Sized> Buf<'a, E> {
    #[inline(always)]
    fn new(of: &'a E, held: E::Held) -> Self {
        Buf { of, held, on_this_core: PhantomData }
    }
    /// The address.
    #[inline(always)]
    pub fn address(&self) -> usize {
        E::address(&self.held)
    }
    /// The page, of a run the first one.
    #[inline(always)]
    pub fn page(&self) -> E::Page {
        E::page(&self.held)
    }
}

impl<E: Ephemeral + ?Sized> Drop for Buf<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        self.of.free(&self.held);
    }
}

impl<E: Ephemeral + ?Sized> core::fmt::Debug for Buf<'_, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buf({:#x})", self.address())
    }
}
