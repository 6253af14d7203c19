//! Processes in one memory (`clone` with `CLONE_VM` and without `CLONE_THREAD`): who is a thread of which.
//!
//! All that run in a domain share its memory and this library. The process that the domain was made for is the *host*; each
//! other one is a *guest*: a thread, with an area as threads have, that is a process of its own for `unixd`. Here is what can
//! be asked without the lock; what a process has of its own is in [`crate::beside`].

use super::area;
use crate::server::Header;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Numbers of what a thread has in common with others: who have the same number have the same. All of the host are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The process.
    pub process: u32,
    /// Descriptors (`CLONE_FILES`).
    pub files: u32,
    /// Signal actions (`CLONE_SIGHAND`).
    pub hands: u32,
    /// Root and working directory, and the mask of modes (`CLONE_FS`).
    pub stands: u32,
}

impl Membership {
    /// The host's.
    pub const HOST: Membership = Membership { process: 0, files: 0, hands: 0, stands: 0 };
}

/// There is or was a guest.
static ARE_THERE: AtomicBool = AtomicBool::new(false);
/// What threads are, by area. Written with the lock held, before a thread starts.
static OF: [[AtomicU32; 4]; area::AREAS as usize + 1] =
    [const { [const { AtomicU32::new(0) }; 4] }; area::AREAS as usize + 1];

/// Is there any guest, or has there been one?
#[inline(always)]
pub fn is_there() -> bool {
    ARE_THERE.load(Relaxed)
}

/// What the thread of an area is.
pub fn of(index: u32) -> Membership {
    let Some(words) = OF.get(index as usize) else { return Membership::HOST };
    let [process, files, hands, stands] = words.each_ref().map(|word| word.load(Relaxed));
    Membership { process, files, hands, stands }
}

/// What the thread is that runs here.
pub fn own() -> Membership {
    of(area::own_index())
}

/// A thread begins, and is this.
pub fn set(index: u32, what: Membership) {
    let Membership { process, files, hands, stands } = what;
    if what != Membership::HOST {
        ARE_THERE.store(true, Relaxed);
    }
    if let Some(words) = OF.get(index as usize) {
        words
            .iter()
            .zip([process, files, hands, stands])
            .for_each(|(word, it)| word.store(it, Relaxed));
    }
}

/// In a forked child, which is alone.
pub fn after_fork() {
    if ARE_THERE.swap(false, Relaxed) {
        OF.as_flattened().iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// Does a guest run here?
#[inline(always)]
pub fn is_guest() -> bool {
    is_there() && own().process != 0
}

/// Is the thread of an area one of the process that runs here?
#[inline]
pub fn is_of_own_process(index: u32) -> bool {
    !is_there() || of(index).process == own().process
}

/// Calls `f` with the headers of the other processes that have something in common with the one that runs here, as `what` says.
#[inline]
pub fn each_sharing(what: fn(Membership) -> u32, f: impl FnMut(&Header)) {
    if is_there() {
        each_main_header(what, f);
    }
}

#[cold]
fn each_main_header(what: fn(Membership) -> u32, mut f: impl FnMut(&Header)) {
    let own = own();
    area::each_session(|index, header| {
        let other = of(index);
        let is_first = index == 0 || other.process != 0;
        if is_first && other.process != own.process && what(other) == what(own) {
            f(header);
        }
    });
}
