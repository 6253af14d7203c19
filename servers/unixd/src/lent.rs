//! What a thread lends with its request: bytes of its own memory, until it is answered.

use crate::procs::Procs;
use crate::threads::Tid;
use libos::{invoke, op, CapAddr};
use unixproto::Errno;

/// What a thread has lent that waits for an answer. It may have lent less than it says, or nothing; then less is
/// copied.
#[derive(Clone, Copy)]
pub struct Lent(CapAddr);

impl Lent {
    /// Of a thread.
    pub fn by(procs: &Procs, tid: Tid) -> Result<Lent, Errno> {
        procs.dispatcher_of(tid).map(Lent).ok_or(Errno::ESRCH)
    }

    /// Copies bytes that are here to the lent ones from `offset` on. Returns how many.
    pub fn put(self, offset: usize, from: u64, bytes: usize) -> usize {
        let (offset, bytes) = (offset as u64, bytes as u64);
        let copied = invoke(self.0, op::CopyToCaller { offset, from, bytes });
        // Whoever does not wait, or has lent nothing, gets nothing.
        copied.map_or(0, |copied| copied.bytes as usize)
    }

    /// Copies lent bytes, from `offset` on, to here. Returns how many.
    pub fn get(self, offset: usize, to: u64, bytes: usize) -> usize {
        let (offset, bytes) = (offset as u64, bytes as u64);
        let copied = invoke(self.0, op::CopyFromCaller { offset, to, bytes });
        copied.map_or(0, |copied| copied.bytes as usize)
    }

    /// Copies from one thread to another. Returns how many bytes, and whether it is for want of the other's that it is
    /// not more.
    pub fn pass(
        self,
        offset: usize,
        (to, to_offset): (Lent, usize),
        bytes: usize,
    ) -> (usize, bool) {
        let (offset, to_offset, bytes) = (offset as u64, to_offset as u64, bytes as u64);
        let copied = invoke(self.0, op::CopyBetween { offset, to: to.0.into(), to_offset, bytes });
        match copied {
            Ok(copied) => (copied.bytes as usize, copied.short == 2),
            // Which of them it is: whoever has lent something to be read.
            Err(_) => (0, self.lends_to_read()),
        }
    }

    /// Could anything be copied from it?
    fn lends_to_read(self) -> bool {
        invoke(self.0, op::CopyFromCaller { offset: 0, to: 0, bytes: 0 }).is_ok()
    }
}
