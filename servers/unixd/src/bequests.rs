//! What a process leaves to a program that runs as somebody else: its descriptions, arguments, environment and the like, as one
//! string of bytes that this server does not look into, but for the descriptions at its start.
//!
//! It comes and goes in parts, and counts for the user whose process it is.

use crate::procs::{Pid, Procs};
use crate::voices::Speaker;
use crate::wait::{done, Call, Tried};
use alloc::boxed::Box;
use alloc::vec::Vec;
use unixproto::Errno;

/// Bytes of all at a time.
pub const ALL_MAX: usize = 16 << 20;
/// Bytes of one: all arguments that a program may have, and 64 Ki descriptors.
const BYTES_MAX: usize = 3 << 20;

/// See the head of this file.
pub struct Bequest {
    /// What is left.
    pub bytes: Vec<u8>,
    /// For whom it counts.
    user: u32,
    /// The program that gets it, once that has taken over.
    pub heir: Option<Heir>,
}

/// A program that begins with a bequest.
#[derive(Clone, Copy)]
pub struct Heir {
    /// Description of its file.
    pub program: u32,
    /// Inode number of that.
    pub inode: u64,
    /// It must not trust what it is given.
    pub secure: bool,
}

impl Procs {
    /// Adds the bytes of a request at the end of what a process leaves, or begins anew.
    pub fn bequeath(&mut self, caller: Speaker, call: &Call, from: u32) -> Tried {
        let bytes = self.a(caller, call)?;
        let user = self.get(caller.pid)?.who.users.real;
        if self.get(caller.pid)?.bequest.as_ref().is_some_and(|bequest| bequest.heir.is_some()) {
            return Err(Errno::EBUSY);
        }
        if from == 0 {
            self.drop_bequest(caller.pid);
            let bequest = Bequest { bytes: Vec::new(), user, heir: None };
            self.get_mut(caller.pid)?.bequest = Some(Box::new(bequest));
        }
        let has_room = |user| self.bequests.has_room(user, bytes.len());
        let bequest = self.get(caller.pid)?.bequest.as_ref().ok_or(Errno::EINVAL)?;
        let (user, had) = (bequest.user, bequest.bytes.len());
        if had != from as usize {
            return Err(Errno::EINVAL);
        }
        if had + bytes.len() > BYTES_MAX {
            return Err(Errno::E2BIG);
        }
        if !has_room(user) {
            return Err(Errno::ENOMEM);
        }
        let bequest = self.get_mut(caller.pid)?.bequest.as_mut().ok_or(Errno::EINVAL)?;
        bequest.bytes.try_reserve_exact(bytes.len()).map_err(|_| Errno::ENOMEM)?;
        bequest.bytes.extend_from_slice(&bytes);
        self.bequests.take(user, bytes.len());
        done(())
    }

    /// What a process leaves, or was left, is not needed any more.
    pub fn drop_bequest(&mut self, pid: Pid) {
        let Ok(proc) = self.get_mut(pid) else { return };
        if let Some(bequest) = proc.bequest.take() {
            self.bequests.give_back(bequest.user, bequest.bytes.len());
        }
    }
}
