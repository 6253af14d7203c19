//! How capabilities and entries name objects.
//!
//! ```text
//! address of a capability    pool (4) | record (24) | first page (36)
//! its length                 pages: 2^36 of a whole object, 512 to the power of its order of a part
//! `aux`                      how many spans are passed, of one that is being deleted (26) | the core of the pool (6)
//! ```
//!
//! So a part lies in its object, and what shows it lies in both. An entry that shows a table of an object says so by a bit that
//! entries of other Mappings do not use; the descriptor of the table says which part of which object it is.

use crate::cap::{attr, CapExt};
use crate::cores::{CoreId, Extent, PoolState, Pools, SharedPool, Standing, MOST_POOLS};
use crate::object::mem::PoolWord;
use ::morsel::State;
use captypes::place::POOL_BYTES;
use captypes::{CapType, Rights, Status, PAGES_OF_MORSEL, PAGES_OF_POOL};
use core::sync::atomic::Ordering;
use mdb::RawCap;
use paging::{Entry, PAGE};
use pool::{Child, Geometry, CHILD};

const PAGE_BITS: u32 = 36;
const RECORD_BITS: u32 = 24;

/// Pages that a capability to all of an object covers, whatever its order is.
pub const MOST_PAGES: u64 = PAGES_OF_MORSEL;
const _: () = assert!(MOST_PAGES == 1 << PAGE_BITS);
const _: () = assert!(PAGES_OF_POOL == 1 << (PAGE_BITS + RECORD_BITS));

/// Frames at the beginning of a pool that are not the allocator's: one names all others.
pub(super) const HEAD_FRAMES: usize = 1;

/// The address of a page of an object.
#[inline]
pub fn key(object: u64, page: u64) -> u64 {
    object << PAGE_BITS | page
}

/// The capability to all of an object, whose pool is at `home`.
pub fn whole(object: u64, home: CoreId, rights: u8, attrs: u16) -> RawCap {
    let (base, word) = (key(object, 0), MOST_PAGES);
    RawCap { ty: CapType::Morsel as u8, rights, attrs, aux: home.0.into(), base, word }
}

/// All objects of a pool at `home`: what the monitors delete on all cores before the pool goes.
pub fn all_of_pool(number: usize, home: CoreId) -> RawCap {
    let base = key(object(number, 0), 0);
    RawCap { base, word: PAGES_OF_POOL, ..whole(0, home, Rights::ALL.0, attr::REMOTE) }
}

/// Is it that?
#[inline]
pub fn is_all_of_pool(cap: &RawCap) -> bool {
    cap.is(CapType::Morsel) && cap.word == PAGES_OF_POOL
}

/// The number of an object.
#[inline]
pub fn object(pool: usize, record: u32) -> u64 {
    (pool as u64) << RECORD_BITS | u64::from(record)
}

/// The object with this address.
#[inline]
pub fn object_at(key: u64) -> u64 {
    key >> PAGE_BITS
}

/// The object of a capability.
#[inline]
pub fn object_of(cap: &RawCap) -> u64 {
    object_at(cap.base)
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

/// The page of it.
#[inline]
pub fn page_at(key: u64) -> u64 {
    key & (MOST_PAGES - 1)
}

/// The first page of an object that a capability covers.
#[inline]
pub fn first_page(cap: &RawCap) -> u64 {
    page_at(cap.base)
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
    let at =
        allocator_word(shared.words(), geometry(shared.frames(), shared.standing()).child(child));
    !Child(PoolWord::at(at).cell().load(Ordering::Acquire)).is_absent()
}

/// Where an entry that shows a table of an object has the number of its pool. (An entry of a page may need these bits for the
/// count of its Mapping.)
const POOL: u32 = 52;
const POOL_BITS: u32 = 4;
const _: () = assert!(MOST_POOLS < 1 << POOL_BITS);

/// The bits by which an entry that shows a table says whose.
#[inline]
pub fn pool_bits(object: u64) -> u64 {
    (pool_of(object) as u64 & ((1 << POOL_BITS) - 1)) << POOL
}

/// All of these bits.
pub const ALL_POOL_BITS: u64 = ((1 << POOL_BITS) - 1) << POOL;

/// The number of the pool of the table that an entry shows.
#[inline]
fn pool_in(entry: u64) -> usize {
    (entry >> POOL & ((1 << POOL_BITS) - 1)) as usize
}

/// Whose the table is that an entry shows: the numbers of the pool and of the object there, and its first page. However many pools
/// there are, it is one look.
#[inline(always)]
pub fn shown_table(pools: &Pools, entry: u64) -> Option<(usize, u32, u64)> {
    let number = pool_in(entry);
    shown(number, pools.numbered(number), Entry::from_bits(entry).address())
}

/// The same of the page at `pa`.
pub fn shown_page(pools: &Pools, pa: u64) -> Option<(usize, u32, u64)> {
    let (number, shared) = around(pools, pa)?;
    shown(number, shared, pa)
}

#[inline(always)]
fn shown(number: usize, shared: &SharedPool, pa: u64) -> Option<(usize, u32, u64)> {
    let page = pa.wrapping_sub(shared.base()) >> 12;
    debug_assert!(page < shared.frames(), "an entry shows what is of its pool");
    let word = PoolWord::at(shared.descriptor(page)).cell().load(Ordering::Acquire);
    let (record, first) = State(word).entered()?;
    Some((number, record, first))
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
pub(super) fn geometry(frames: u64, standing: Standing) -> Geometry {
    Geometry::known(frames as usize, HEAD_FRAMES, standing.is_apart())
}

/// Physical address of a word of the allocator of a pool whose words begin at `words`.
#[inline(always)]
pub(super) fn allocator_word(words: u64, word: usize) -> u64 {
    words + 8 * word as u64
}
