//! How capabilities and entries name objects.
//!
//! ```text
//! address of a capability    pool (4) | record (24) | first page (36)
//! its length                 pages: 2^36 of a whole object, 512 to the power of its order of a part
//! ```
//!
//! So a part lies in its object, and what shows it lies in both. An entry that shows a table of an object says so by a bit that
//! entries of other Mappings do not use; the descriptor of the table says which part of which object it is.

use crate::cap::CapExt;
use crate::cores::{Extent, PoolState, Pools, SharedPool};
use crate::object::mem::PoolWord;
use ::morsel::State;
use captypes::place::POOL_BYTES;
use captypes::{CapType, Status};
use core::sync::atomic::Ordering;
use mdb::RawCap;
use paging::PAGE;
use pool::{Child, Geometry, CHILD};

const PAGE_BITS: u32 = 36;
const RECORD_BITS: u32 = 24;

/// Pages that a capability to all of an object covers, whatever its order is.
pub const MOST_PAGES: u64 = 1 << PAGE_BITS;

/// Frames at the beginning of a pool that are not the allocator's: one names all others.
pub(super) const HEAD_FRAMES: usize = 1;

/// The address of a page of an object.
#[inline]
pub fn key(object: u64, page: u64) -> u64 {
    object << PAGE_BITS | page
}

/// The capability to all of an object.
pub fn whole(object: u64, rights: u8, attrs: u16) -> RawCap {
    let (base, word) = (key(object, 0), MOST_PAGES);
    RawCap { ty: CapType::Morsel as u8, rights, attrs, aux: 0, base, word }
}

/// The number of an object.
#[inline]
pub fn object(pool: usize, record: u32) -> u64 {
    (pool as u64) << RECORD_BITS | u64::from(record)
}

/// The object of a capability.
#[inline]
pub fn object_of(cap: &RawCap) -> u64 {
    cap.base >> PAGE_BITS
}

/// The number of the pool of an object.
#[inline]
pub fn pool_of(object: u64) -> usize {
    (object >> RECORD_BITS) as usize
}

/// The record of an object.
#[inline]
pub fn record_of(object: u64) -> u32 {
    (object & ((1 << RECORD_BITS) - 1)) as u32
}

/// The first page of an object that a capability covers.
#[inline]
pub fn first_page(cap: &RawCap) -> u64 {
    cap.base & (MOST_PAGES - 1)
}

/// Does a capability cover all of its object?
#[inline]
pub fn is_whole(cap: &RawCap) -> bool {
    cap.is(CapType::Morsel) && cap.word == MOST_PAGES
}

/// The pool to which the byte at `pa` belongs, with its number.
#[inline]
pub fn around(pools: &Pools, pa: u64) -> Option<(usize, &SharedPool)> {
    pools.around(pa, has_got)
}

/// Has a pool whose pages come and go got the one at `pa`?
#[inline(never)]
fn has_got(shared: &SharedPool, pa: u64) -> bool {
    if matches!(shared.state(), PoolState::None | PoolState::Forming) {
        return false;
    }
    let child = ((pa - shared.base()) / POOL_BYTES) as usize;
    let at = allocator_word(shared.words(), geometry(shared).child(child));
    !Child(PoolWord::at(at).cell().load(Ordering::Acquire)).is_absent()
}

/// Which object the table (or page) at `pa` belongs to that an entry shows, and its first page there.
#[inline]
pub fn shown_by(pools: &Pools, pa: u64) -> Option<(u64, u64)> {
    let (number, shared) = around(pools, pa)?;
    let at = shared.descriptor((pa - shared.base()) >> 12);
    let word = PoolWord::at(at).cell().load(Ordering::Acquire);
    let (record, first) = State(word).entered()?;
    Some((object(number, record), first))
}

/// The memory of a pool that has all of its pages.
pub fn in_one_piece(base: u64, bytes: u64) -> Extent {
    Extent { head: base, base, frames: bytes / PAGE, is_apart: false }
}

/// The memory of a pool whose pages come and go, in `pages` from `first` on; 0: as many as its own memory can describe.
///
/// # Errors
/// [`Status::OutOfRange`].
pub fn apart(head: u64, bytes: u64, first: u64, pages: u64) -> Result<Extent, Status> {
    let most = Geometry::most_apart((bytes / PAGE) as usize - HEAD_FRAMES) as u64;
    let frames = if pages == 0 { most } else { pages & !(CHILD as u64 - 1) };
    let end = first.checked_add(frames.min(most) * PAGE);
    let inside = end.is_some_and(|end| end <= 1 << 52);
    if first & (POOL_BYTES - 1) != 0 || frames == 0 || frames > most || !inside {
        return Err(Status::OutOfRange);
    }
    Ok(Extent { head, base: first, frames, is_apart: true })
}

/// Where the words of the allocator of a pool are, which was found to be large enough when it was formed.
#[inline(always)]
pub(super) fn geometry(shared: &SharedPool) -> Geometry {
    Geometry::known(shared.frames() as usize, HEAD_FRAMES, shared.is_apart())
}

/// Physical address of a word of the allocator of a pool whose words begin at `words`.
#[inline(always)]
pub(super) fn allocator_word(words: u64, word: usize) -> u64 {
    words + 8 * word as u64
}
