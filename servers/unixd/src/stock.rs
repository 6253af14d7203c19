//! The server's own memory: what is set aside so that no request finds none, which requests are refused
//! before that, and when memory goes back to the memory server.
//!
//! Rust ends a program where an allocation fails, and with this one everything ends. So a request that
//! would make the server keep more is refused while memory is scarce, before it changes anything. What
//! other requests need for a moment, and what those need that come in before the next look, is set
//! aside in the heap and, for the capability system, in the memory server's reserve. Tables that users
//! fill grow in pieces, and everything larger than `heap::SMALL` is asked for by functions that can
//! refuse. (Decision 39.)

use crate::caps::errno;
use crate::clock::{Clock, Due};
use crate::frames::Files;
use crate::volatile::to_give_back;
use abi::slots::MEMD;
use libos::{domain, heap, memd, Status};
use unixproto::{Any, Errno};

/// Memory that users leave to everything else, in bytes, beyond the memory server's own reserve.
const LEFT_BY_USERS: u64 = 3 << 20;
/// Memory that root leaves.
const LEFT_BY_ROOT: u64 = 2 << 20;
/// Heap set aside: more than one request needs. The most that one needs is for a path over forty links,
/// each with a text of the greatest length before the rest of the path: half of this.
const SET_ASIDE: usize = 1 << 20;
/// Heap that the server takes before it says what it needs for good, and keeps.
const HEAP_KEPT: u64 = 3 << 20;
/// Free memory is asked for at every so many requests that keep more. In between they keep far less
/// than what is left.
const EVERY: u32 = 32;
const _: () = assert!(EVERY.is_power_of_two());
/// Free memory below which there are no new processes, beyond the memory server's own reserve.
const FREE_MIN: u64 = 256 << 10;
/// Below this many processes free memory is not asked for: the reserve is enough for them.
const FEW: usize = 16;
/// So many processes are made without asking again, where there is memory for all of them.
const AT_ONCE: u64 = 16;
/// More than a new process needs, in bytes.
const PROCESS_BYTES: u64 = 512 << 10;
/// More than a name needs together with what it stands for, while a snapshot is made.
const NAME_BYTES: u64 = 1 << 10;
/// So many nodes of slots are left to what does not keep more.
const NODES_LEFT: u64 = 8;
/// How long after a request empty pieces of the heap are looked for, and for the next ones.
const TIDY_AFTER_NS: u64 = 500_000_000;
const TIDY_MORE_NS: u64 = 1_000_000;
/// So much memory of files is given back at once.
const MUCH: u64 = 2 << 20;
/// How many pieces go back in one event.
const TIDY_MAX: usize = 8;

/// How much memory files of a user leave.
pub fn left_by(uid: u32) -> u64 {
    match uid {
        0 => LEFT_BY_ROOT,
        _ => LEFT_BY_USERS,
    }
}

/// Takes and sets aside what this server keeps for good.
pub fn prepare() -> Result<(), Status> {
    heap::grow_to(HEAP_KEPT)?;
    heap::set_aside(SET_ASIDE)
}

/// What is known about memory.
#[derive(Default)]
pub struct Stock {
    /// Requests that keep more.
    requests: u32,
    /// Memory was scarce for users, and for root, when it was looked for last.
    scarce: [bool; 2],
    /// The heap is to be looked at.
    tidies: bool,
    /// Processes that can be made before free memory is asked for.
    admitted: u64,
}

impl Stock {
    /// Is there so little memory that this user can have no more names? Asked for in earnest now and
    /// then, and always while there is.
    fn is_scarce(&mut self, uid: u32) -> bool {
        let root = usize::from(uid == 0);
        if self.scarce[root] || self.requests & (EVERY - 1) == 0 {
            let has = |uid| memd::has(MEMD, left_by(uid)).unwrap_or(false);
            self.scarce = [!has(1), !has(0)];
        }
        self.requests = self.requests.wrapping_add(1);
        self.scarce[root]
    }
}

impl Stock {
    /// Is there memory for a new process, or thread, beside `others`?
    pub fn admits(&mut self, others: usize) -> Result<bool, Errno> {
        if others <= FEW {
            return Ok(true);
        }
        if self.admitted == 0 {
            let has = |bytes| memd::has(MEMD, FREE_MIN + bytes).map_err(errno);
            self.admitted = match () {
                () if has(AT_ONCE * PROCESS_BYTES)? => AT_ONCE,
                () if has(0)? => 1,
                () => return Ok(false),
            };
        }
        self.admitted -= 1;
        Ok(true)
    }
}

/// Are nearly all slots of the own CSpace in nodes that were made already?
fn slots_are_scarce() -> bool {
    let made = domain::with(|domain| Ok(domain.slots.made())).unwrap_or(u64::MAX);
    made + NODES_LEFT >= libos::slots::MAX_NODES as u64
}

impl Stock {
    /// Refuses a request of a user that would make the server keep more than it can.
    #[inline]
    pub fn check(&mut self, any: &Any, uid: impl FnOnce() -> u32) -> Result<(), Errno> {
        match refusal(any) {
            Some(error) if self.lacks_memory(error, uid) => Err(error),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn lacks_memory(&mut self, error: Errno, uid: impl FnOnce() -> u32) -> bool {
        heap::is_short() || error == Errno::ENOSPC && self.has_no_names(uid())
    }

    /// Is there too little memory for a new name of a user, or slots for what it stands for?
    pub fn has_no_names(&mut self, uid: u32) -> bool {
        slots_are_scarce() || self.is_scarce(uid)
    }

    /// Is there memory for so many new names of a user at once, each of a file?
    pub fn has_names(&mut self, count: usize, uid: u32) -> bool {
        let bytes = left_by(uid).saturating_add(NAME_BYTES.saturating_mul(count as u64));
        !slots_are_scarce() && memd::has(MEMD, bytes).unwrap_or(false)
    }

    /// Has the heap looked at in a while, if it is larger than what is kept, and memory of files given back: much at once.
    #[inline]
    pub fn tidy_later(&mut self, clock: &mut Clock, files: &mut Files) {
        let of_files = to_give_back();
        if of_files >= MUCH {
            files.memory().volatile.give_back();
        }
        if !self.tidies && (heap::bytes() > HEAP_KEPT || of_files > 0) {
            self.tidies = true;
            clock.add(clock.now() + TIDY_AFTER_NS, Due::Tidy);
        }
    }

    /// Gives memory back that nothing is in.
    pub fn tidy(&mut self, clock: &mut Clock, files: &mut Files) {
        files.memory().volatile.give_back();
        let more = heap::release(HEAP_KEPT, TIDY_MAX) || release_nodes(TIDY_MAX);
        self.tidies = more;
        if more {
            clock.add(clock.now() + TIDY_MORE_NS, Due::Tidy);
        }
    }
}

/// Gives all memory back at once that nothing is in.
pub fn tidy_all() {
    while heap::release(HEAP_KEPT, usize::MAX) {}
    release_nodes(usize::MAX);
}

/// Gives back CNodes that nothing is in; `true`: there may be more. After an error there is nothing to be
/// done but to go on without.
fn release_nodes(most: usize) -> bool {
    domain::with(|domain| domain.release_nodes(most)).unwrap_or(false)
}

/// What a request is answered that would make the server keep more, where memory is scarce.
fn refusal(any: &Any) -> Option<Errno> {
    match any {
        Any::Mkdir(_) | Any::Mknod(_) | Any::Link(_) | Any::Symlink(_) => Some(Errno::ENOSPC),
        // Much memory goes to the disk through it.
        Any::OwnMemory(op) if op.relieves => Some(Errno::ENOMEM),
        Any::MemFile(_) | Any::MemFd(_) | Any::OwnMemory(_) | Any::OwnMore(_) | Any::Heir(_) => {
            Some(Errno::ENOSPC)
        }
        Any::PassMemory(_) => Some(Errno::ENOSPC),
        Any::MapSealable(_) | Any::OpenMessages(_) | Any::QueueSend(_) => Some(Errno::ENOMEM),
        Any::Open(_) | Any::Pipe(_) => Some(Errno::ENFILE),
        Any::SetLock(_) => Some(Errno::ENOLCK),
        Any::Fork(_) | Any::ForkBeside(_) | Any::Thread(_) => Some(Errno::EAGAIN),
        Any::Watch(_) | Any::SetGroups(_) | Any::Bequeath(_) | Any::Succeed(_) => {
            Some(Errno::ENOMEM)
        }
        Any::FileExtent(op) if op.write => Some(Errno::ENOMEM),
        _ => None,
    }
}
