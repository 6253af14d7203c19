//! What is needed of the machine: entries of page tables, and translations that must be forgotten.

use crate::Cores;

/// A range of virtual pages, the *windows*, whose entries can be changed, as the core sees it that asks.
///
/// Windows have numbers from 0 on, and those with neighbouring numbers are neighbours.
pub trait Machine {
    /// What a page is known by: a physical address, or a capability and a number.
    type Page: Copy + Eq;

    /// A number that differs for most pages.
    fn number(page: &Self::Page) -> u64;

    /// Where window `window` is.
    fn address(&self, window: usize) -> usize;

    /// Lets windows `first`, `first + 1`, … show these pages, one each. Returns whether one of the entries that
    /// were there had been used by the processor: its accessed bit.
    fn point(&mut self, first: usize, pages: &[Self::Page]) -> bool;

    /// Lets windows `first..first + count` show nothing.
    fn clear(&mut self, first: usize, count: usize);

    /// This core forgets the translations of windows `first..first + count`.
    fn invalidate_here(&mut self, first: usize, count: usize);

    /// Those cores forget them, before this returns.
    fn invalidate_on(&mut self, cores: Cores, first: usize, count: usize);

    /// Which core this is.
    fn here(&self) -> u32;

    /// All cores that might ever use a window.
    fn cores(&self) -> Cores;

    /// Is told what is done, in its order. For tests.
    #[inline(always)]
    fn note(&mut self, action: Action) {
        let _: Action = action;
    }
}

/// What an [`alloc`](crate::Ephemeral::alloc) of a [`Cache`](crate::Cache) consists of, beside what the machine
/// is asked for: see §4.2 of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Has taken the buffer that was used the longest time ago from the inactive list.
    TakeOldest,
    /// Has taken what it mapped from the hash table.
    Unhash,
    /// Page, count and place in the hash table are the new ones.
    Assign,
    /// The set of cores that may use it as it is was emptied, as the old entry had been used.
    EmptyCores,
    /// This core has been added to them.
    AddHere,
    /// All others have been added to them.
    AddOthers,
    /// Has been taken from the inactive list.
    Unlist,
    /// Has been counted.
    Count,
    /// The caller has its buffer.
    Return,
}
