//! How far the deletion of the last capability to a morsel has come: it stands in its `aux`, beside the core of its pool.

use super::db::Db;
use super::CapExt;
use crate::object::SlotRef;
use captypes::{CapType, PAGES_OF_MORSEL};
use mdb::RawCap;

/// `aux` of a capability: the core of its pool.
const HOME_BITS: u32 = 6;
/// Pages of a span: so far a deletion comes in one event at least.
const SPAN: u64 = 1 << 10;
const _: () = assert!(PAGES_OF_MORSEL / SPAN == 1 << (u32::BITS - HOME_BITS));

/// The first page address of a capability that its deletion has not come to: its own first one, if that has not begun.
#[inline]
pub fn not_passed(cap: &RawCap) -> u64 {
    cap.base + u64::from(cap.aux >> HOME_BITS) * SPAN
}

/// `aux` of a capability whose deletion has come to the page with this address.
#[inline]
pub fn with_passed(cap: &RawCap, key: u64) -> u32 {
    (((key - cap.base) / SPAN) as u32) << HOME_BITS | unpassed(cap.aux)
}

/// `aux` of one whose deletion has not begun.
#[inline]
pub fn unpassed(aux: u32) -> u32 {
    aux & ((1 << HOME_BITS) - 1)
}

/// There is to be a copy of what `like` holds that may map. If the deletion of that has begun, it would pass over what the copy maps.
/// So it has of Frames, which have nothing else in `aux`.
pub fn begin_deletion_anew(db: &Db, like: SlotRef) {
    let own = like.cap();
    let aux = match own.is(CapType::Morsel) {
        true => unpassed(own.aux),
        false if own.is_frame() => 0,
        false => return,
    };
    if own.aux != aux {
        for copy in db.copies(like).chain([like]) {
            copy.set_aux(aux);
        }
    }
}
