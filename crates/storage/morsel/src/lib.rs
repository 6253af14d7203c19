//! Morsels: memory objects that are subtrees of page tables.
//!
//! An object is a root and what can be reached from it. It is mapped by one entry of a table above, in as many
//! address spaces as one likes, each with rights of its own in that entry; what is below belongs to no core and no address
//! space, but to the algorithms here, which any core may run at any time on any object.
//!
//! ```text
//!  address space a        address space b              order   root             size
//!  ┌───┐                  ┌───┐                        0       the page         4 KiB
//!  │rw ├─────┐      ┌─────┤r  │                        1       a page table     2 MiB
//!  └───┘     ▼      ▼     └───┘                        2       a directory      1 GiB
//!           ┌────────┐                                 3       …                512 GiB
//!           │  root  │◄── anchor of the record         4       …                256 TiB
//!           └─┬────┬─┘
//!             ▼    ▼
//!          tables  holes        read: constant zeros; written: a page
//!             ▼
//!           pages
//! ```
//!
//! | operation | | where |
//! |---|---|---|
//! | [`create`](Morsels::create), [`open`](Morsels::open) | a root and a record of 64 bytes | `record` |
//! | [`fault`](Morsels::fault), [`populate`](Morsels::populate) | without a lock: take, zero, exchange; the loser gives back | `walk` |
//! | [`grow`](Morsels::grow), [`part`](Morsels::part), [`snapshot`](Morsels::snapshot) | one table | `shape` |
//! | [`discard`](Morsels::discard), [`limit`](Morsels::limit), [`destroy`](Morsels::destroy) | in steps | `take` |
//! | [`create_meta`](Morsels::create_meta) | a page that says where another object is to be mapped | `meta` |
//! | [`commit`](Morsels::commit) | what is found after a power failure, whatever was stored since | `commit` |
//! | [`own_page`](Morsels::own_page), [`look_at`](Morsels::look_at), [`write_back_pages`](Morsels::write_back_pages) | pages by themselves | `pages` |
//! | [`own_pages`](Morsels::own_pages), [`fill_ahead`](Morsels::fill_ahead) | many pages of one table | `run` |
//! | [`survey`](Morsels::survey) | which pages are there | `survey` |
//! | [`page_out`](Morsels::page_out), [`page_in`](Morsels::page_in), [`look_over`](Morsels::look_over) | to a store and back | `out` |
//! | [`Inspection`] | finds out whether recovery would accept what is there, and cannot store anything | `inspection` |
//! | [`Recovery`] | finds out what is in use, and ends what was begun | `recover` |
//!
//! # When the power fails
//!
//! What must be found again are the frames that can be reached from the pool's first page, and nothing else: which
//! frames are free, and how many entries lead to one, is counted again. So only the order of a few stores matters:
//!
//! * what an entry leads to is written back before the entry is stored;
//! * an entry is written back before anybody can use it: it is *claimed* first, and whoever meets the claim writes it
//!   back, too. So what a program has written back is found again, whoever populated the page;
//! * an entry that was cleared is written back before what it led to is given away;
//! * a record is created, changed and ended by the store of one word.
//!
//! Where caches are in the domain of persistence ([`Domain::Caches`]) nothing is written back, and there are claims only
//! where something is replaced.
//!
//! # Who waits for whom
//!
//! Whoever walks says so ([`Cores::enter`]). Three things wait: what replaces a translation, for all cores to forget it
//! ([`Cores::invalidate`]); what gives a frame back, for all walks that may be in it ([`Cores::grace`]); and a write during
//! [`snapshot`](Morsels::snapshot), by [`Refused::Again`]. Nobody who walks waits for a walk.
//!
//! Nothing here allocates or loops over an object: what is long is done in steps, at most some 64 pages or 512 entries each.
#![no_std]
#![forbid(unsafe_code)]

mod commit;
mod durable;
mod inspection;
mod link;
mod mark;
mod memory;
mod meta;
mod out;
mod pages;
mod raise;
mod record;
mod recover;
mod run;
mod shape;
mod survey;
mod take;
mod walk;

pub use durable::State;
pub use inspection::{inspected, inspected_page, Extent, Inspected, Inspection};
pub use link::{index, pages_of, span, Child, Kind, Link};
pub use memory::{runs, At, Cores, Domain, Frame, Look, Memory, Pages, Reserved, LINES, WORDS};
pub use meta::Described;
pub use out::{Seen, TOGETHER};
pub use raise::MOST_MORE;
pub use record::{Anchor, Record, MAGIC, RECORDS};
pub use recover::Recovery;
pub use run::Entered;
pub use survey::{Survey, Until};
pub use walk::Hole;

/// What a program wants of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

/// What it now finds there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The page of the object.
    Page,
    /// Constant zeros.
    Zeros,
}

/// Why something was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Something else is being done that must end first: to be tried again.
    Again,
    /// There is no such object any more.
    Gone,
    /// Behind the limit.
    Beyond,
    /// The pool is empty.
    NoMemory,
    /// The page is in a store.
    Out,
    /// There is an object with this number.
    Exists,
    /// It cannot be asked of this object.
    Invalid,
    /// What is in memory was not written by these algorithms.
    Damaged,
}

/// The objects of a pool.
pub struct Morsels<'a, M, P, C> {
    pub memory: &'a M,
    pub pages: &'a P,
    pub cores: &'a C,
    /// The page by which everything in the pool is found.
    pub head: Frame,
    /// What shows zeros: the constant page, and constant tables of levels 1 to 3 of it. They are in no pool.
    pub zeros: [Frame; 4],
}
