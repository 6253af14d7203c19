//! The memory server: its protocol, and asking it.
//!
//! | operation | words | answer |
//! |---|---|---|
//! | [`ALLOC`] | bytes, alignment, attributes, least bytes | status, bytes; one RAM capability |
//! | [`STATS`] | | status, free, total, largest, reserve, colours |
//! | [`ALLOC_COLOURED`] | set of colours, attributes | status; RAM of one page |
//! | [`HAS`] | bytes | status, 1 if so much is free besides the reserve |
//!
//! The NUMA node in the attributes is a wish: where it has none, any other's is given. Who has no
//! other wish asks for memory [`near`] itself.
//!
//! There is no operation to free: memory comes back when the last capability to it is deleted.

use crate::ipc::{call, Caps};
use abi::DispatcherFrame;
use captypes::{CapAddr, Place, RamAttrs, Status};
use core::sync::atomic::Ordering;

/// Word 0 of a request for memory.
pub const ALLOC: u64 = 1;
/// Word 0 of a request for numbers.
pub const STATS: u64 = 2;

/// Word 0 of a request for a page of a certain colour ([`crate::colour`]).
pub const ALLOC_COLOURED: u64 = 3;

/// Word 0 of the question whether there is memory.
pub const HAS: u64 = 4;

/// What the server says about memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Free.
    pub free: u64,
    /// All.
    pub total: u64,
    /// The largest piece that one request could get.
    pub largest: u64,
    /// What only trusted servers can get.
    pub reserve: u64,
    /// Page colours that it tells apart, a power of two up to 64.
    pub colours: u64,
}

/// Attributes of memory of the NUMA node on which the dispatcher with this frame runs.
#[inline]
pub fn near(frame: &DispatcherFrame) -> RamAttrs {
    RamAttrs(frame.node.load(Ordering::Relaxed) as u16 & RamAttrs::NODE)
}

/// Asks for `bytes` (a multiple of a page) of RAM at a multiple of `alignment` (a power of two, or
/// zero for a page) with `attrs`, into the empty slot `dst`.
#[inline]
pub fn alloc(
    server: CapAddr,
    bytes: u64,
    alignment: u64,
    attrs: RamAttrs,
    dst: CapAddr,
) -> Result<(), Status> {
    request(server, [ALLOC, bytes, alignment, attrs.0 as u64, bytes, 0], dst).map(|_| ())
}

/// Asks for `bytes` of RAM, or for as many of them as there are, if these are at least `least` (both
/// multiples of a page). Where not even that can be had at once, all that could come back is looked for
/// before the answer is [`Status::NoMemory`], and once. How many bytes it is.
#[inline]
pub fn alloc_between(
    server: CapAddr,
    least: u64,
    bytes: u64,
    attrs: RamAttrs,
    dst: CapAddr,
) -> Result<u64, Status> {
    request(server, [ALLOC, bytes, 0, attrs.0 as u64, least, 0], dst)
}

/// Asks for a page of RAM whose colour is in the set `wanted` of bits, with `attrs`, into the empty
/// slot `dst`.
pub fn alloc_coloured(
    server: CapAddr,
    wanted: u64,
    attrs: RamAttrs,
    dst: CapAddr,
) -> Result<(), Status> {
    request(server, [ALLOC_COLOURED, wanted, attrs.0 as u64, 0, 0, 0], dst).map(|_| ())
}

#[inline]
fn request(server: CapAddr, words: [u64; 6], dst: CapAddr) -> Result<u64, Status> {
    let answer = call(server, words, Caps::NONE, dst)?;
    Status::from_word(answer.words[0])?;
    // An answer without a capability would leave the caller with an empty slot.
    if answer.caps() == 1 {
        Ok(answer.words[1])
    } else {
        Err(Status::NoSlot)
    }
}

/// Returns `true` if `bytes` are free besides the reserve. All that could come back is looked for
/// before the answer is `false`; while there is enough, the question is cheap.
pub fn has(server: CapAddr, bytes: u64) -> Result<bool, Status> {
    let answer = call(server, [HAS, bytes, 0, 0, 0, 0], Caps::NONE, Place::NULL)?;
    Status::from_word(answer.words[0])?;
    Ok(answer.words[1] == 1)
}

/// Asks for numbers, exact ones: all that could come back is looked for.
pub fn stats(server: CapAddr) -> Result<Stats, Status> {
    let answer = call(server, [STATS, 0, 0, 0, 0, 0], Caps::NONE, Place::NULL)?;
    Status::from_word(answer.words[0])?;
    let [_, free, total, largest, reserve, colours] = answer.words;
    Ok(Stats { free, total, largest, reserve, colours })
}
