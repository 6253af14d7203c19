//! What is done when memory is short: small private memory goes aside, into an object that can leave memory.
//!
//! Whose memory does so is said by `unixd` ([`Relieve`](unixproto::op::Relieve)), which knows how much everybody has: the process's that needs some, or
//! another's, that is asked for it as a tracer asks its tracee. It is asked when memory comes in smaller pieces than it
//! was wanted in, so before there is none; and again, a bounded number of times, by who has got none.

use super::Mm;
use crate::errno::Errno;
use crate::server::{self, op};
use uvm::{Access, FaultError};

/// Pages that go aside for who needs few, so that it does not have to ask for each.
const SOME: u64 = 512;
/// Small memory in bytes that a process has whose objects have too little, at least.
const LITTLE: u64 = 2 << 20;
/// How often who has found no memory tries again.
const TRIES: u32 = 64;

/// Makes the page at an address usable, if need be after others have made room.
#[inline(always)]
pub fn fault(mm: &mut Mm, address: u64, access: Access) -> Result<(), FaultError> {
    let Mm { space, caps, .. } = mm;
    let result = space.fault(caps, address, access);
    let is_short = mm.caps.arena.is_low() | mm.caps.objects.want_much();
    match is_short || result == Err(FaultError::NoMemory) {
        true => settle(mm, address, access, result),
        false => result,
    }
}

#[cold]
#[inline(never)]
fn settle(
    mm: &mut Mm,
    address: u64,
    access: Access,
    mut result: Result<(), FaultError>,
) -> Result<(), FaultError> {
    for tries in 1..=TRIES {
        if result != Err(FaultError::NoMemory) {
            if mm.caps.objects.want_much() {
                mm.caps.objects.want_no_more();
                balance(mm);
            }
            if mm.caps.arena.take_low() {
                // It is for the next time; if there is none then, that is said then.
                let _ = make_room(mm, 0);
            }
            return result;
        }
        if !make_room(mm, tries) {
            return result;
        }
        let Mm { space, caps, .. } = mm;
        result = space.fault(caps, address, access);
    }
    result
}

/// Memory is short: that often none was found. `false`: there will be none either.
#[cold]
pub fn make_room(mm: &mut Mm, tries: u32) -> bool {
    if !mm.caps.objects.may_own || mm.caps.objects.pages_can_leave == Some(false) {
        return false;
    }
    super::usage::tell(mm);
    match server::call(op::Relieve { pages: SOME, tries }) {
        // Its own memory is what there is much of.
        Ok(found) if found.count > 0 => {
            give(mm, found.count, tries > 0) > 0 || tries == 0 || insist(tries)
        }
        Ok(_) | Err(Errno::EINTR) => true,
        Err(Errno::ENOSYS) => {
            mm.caps.objects.pages_can_leave = Some(false);
            false
        }
        Err(_) => false,
    }
}

/// What is aside comes and goes, while Frames stay: some of them are to take part.
#[cold]
fn balance(mm: &mut Mm) {
    if mm.caps.objects.can_leave() && mm.space.small_bytes() > LITTLE {
        give(mm, SOME / 4, false);
    }
}

/// The process has nothing more to give: others have to.
fn insist(tries: u32) -> bool {
    let answer = server::call(op::Relieve { pages: 0, tries });
    matches!(answer, Ok(_) | Err(Errno::EINTR))
}

/// Moves so many pages aside, if there are so many. Answers how many went.
pub fn give(mm: &mut Mm, pages: u64, needed: bool) -> u64 {
    if !mm.caps.objects.may_own {
        return 0;
    }
    let Mm { space, caps, .. } = mm;
    let gone = space.relieve(caps, pages, needed);
    caps.arena.take_low();
    super::usage::tell(mm);
    gone
}
