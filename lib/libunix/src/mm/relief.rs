//! What is done when memory is short: small private memory goes aside, into an object that can leave memory.
//!
//! Whose memory does so is said by `unixd` ([`Relieve`](unixproto::op::Relieve)), which knows how much everybody has: the process's that needs some, or
//! another's, that is asked for it as a tracer asks its tracee. It is asked when memory comes in smaller pieces than it
//! was wanted in, so before there is none; and again, a bounded number of times, by who has got none.

use super::Mm;
use crate::errno::{Errno, Result};
use crate::process::Task;
use crate::server::{self, op};
use abi::slots::MEMD;
use libos::memd;
use uvm::{Access, FaultError};

/// What comes of a fault.
type Faulted = core::result::Result<(), FaultError>;

/// Pages that go aside for who needs few, so that it does not have to ask for each.
const SOME: u64 = 512;
/// Small memory in bytes that a process has whose objects have too little, at least.
const LITTLE: u64 = 2 << 20;
/// How often who has found no memory tries again.
const TRIES: u32 = 64;
/// Whoever makes a process has found no memory if there was less than this, in bytes.
const ENOUGH: u64 = 4 << 20;
/// How long a call waits before it tries again.
const PAUSE_NS: u64 = 2_000_000;

/// Makes the page at an address usable, if need be after others have made room.
#[inline(always)]
pub fn fault(mm: &mut Mm, address: u64, access: Access) -> Faulted {
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
fn settle(mm: &mut Mm, address: u64, access: Access, mut result: Faulted) -> Faulted {
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
    match ask(mm, SOME, tries) {
        // Its own memory is what there is much of.
        Ok(count) if count > 0 => give(mm, count, tries > 0) > 0 || tries == 0 || insist(tries),
        Ok(_) | Err(Errno::EINTR) => true,
        Err(_) => false,
    }
}

/// Asks who is to make room: answers how many pages are to be moved here, of at most so many. It is tried `tries` times already.
///
/// # Errors
///
/// `EINTR`: a signal has come meanwhile. Others: nobody can, as where there is no disk, which is noted.
fn ask(mm: &mut Mm, pages: u64, tries: u32) -> Result<u64> {
    super::usage::tell(mm);
    // What was missing is seen to.
    mm.caps.arena.take_none();
    let answer = server::call(op::Relieve { pages, tries });
    if matches!(answer, Err(Errno::ENOSYS)) {
        mm.caps.objects.pages_can_leave = Some(false);
    }
    Ok(answer?.count)
}

/// Calls that are made once more when they have found no memory: they have changed nothing then, or what they change again is the same.
const fn is_repeated(number: u64) -> bool {
    // mmap, mprotect, munmap, mremap, madvise, shmat, clone, fork, vfork, execve, and mlock, mlockall, execveat, mlock2, clone3.
    matches!(number, 9..=11 | 25 | 28 | 30 | 56..=59 | 149 | 151 | 322 | 325 | 435)
}

/// Is memory of `unixd`'s wanted for these, too, so that it does not show here that there was none? They make and execute processes.
const fn makes_processes(number: u64) -> bool {
    matches!(number, 56..=59 | 322 | 435)
}

/// A call has answered that there is no memory. Others make room, if it is that and there is a disk: `true`, and it is made once more. Nobody
/// is killed for it: who is about to execute a program in another's memory has nothing to give, and it is over soon.
#[cold]
#[inline(never)]
pub fn again(p: &mut Task, number: u64, tries: &mut u32) -> bool {
    let objects = &p.mm.caps.objects;
    let (may_give, can_leave) = (objects.may_own, objects.pages_can_leave != Some(false));
    let had_none = p.mm.caps.arena.take_none();
    if !is_repeated(number) || !can_leave || *tries == TRIES {
        return false;
    }
    // There are more reasons to make no process.
    let is_short = had_none || makes_processes(number) && memd::has(MEMD, ENOUGH) != Ok(true);
    if !is_short {
        return false;
    }
    *tries += 1;
    match ask(&mut p.mm, if may_give { SOME } else { 0 }, 0) {
        Ok(count) if count > 0 && may_give => _ = give(&mut p.mm, count, true),
        Ok(_) | Err(Errno::EINTR) => {}
        Err(_) => return false,
    }
    // What comes of it is seen when the call is made.
    *tries == 1 || server::wait(p, op::Sleep { ns: PAUSE_NS }).is_ok()
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
