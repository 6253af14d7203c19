//! Waiting for several descriptions at once.

use crate::descs::Object;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::wait::{count, Call, Outcome, Tried};
use alloc::vec::Vec;
use unixproto::files::*;
use unixproto::{op, Errno};

impl Unixd {
    /// `poll`.
    pub fn poll(&mut self, pid: Pid, call: &Call, op: op::Poll) -> Tried {
        let bytes = self.a(pid, call)?;
        let mut set: Vec<PollEntry> = Vec::with_capacity(bytes.len() / 8);
        for chunk in bytes.chunks_exact(8) {
            let chunk = chunk.try_into().map_err(|_| Errno::EINVAL)?;
            set.push(PollEntry::from_bytes(chunk));
        }
        let mut ready = 0;
        for entry in set.iter_mut().filter(|entry| entry.desc != 0) {
            let mask = entry.events | POLLERR | POLLHUP | POLLNVAL;
            entry.revents = self.ready(pid, entry.desc) & mask;
            ready += (entry.revents != 0) as usize;
        }
        if self.stirred.contains(&self.speaker) {
            self.stirred.retain(|tid| *tid != self.speaker);
            return Err(Errno::EINTR);
        }
        let has_changes = op.watching && self.procs.get(pid)?.watching.has_notes();
        if ready == 0 && !has_changes && op.ns != 0 && !call.late {
            set.iter().for_each(|entry| self.wait_for(pid, entry.desc));
            if op.watching {
                self.wait_for_change(pid);
            }
            return Ok(Outcome::Block(self.deadline(op.ns)));
        }
        let answer: Vec<u8> = set.iter().flat_map(|entry| entry.to_bytes()).collect();
        self.put(pid, &answer)?;
        count(ready)
    }

    /// `POLL*` bits of a description.
    pub fn ready(&self, pid: Pid, id: u32) -> u16 {
        let Ok(desc) = self.desc(pid, id) else { return POLLNVAL };
        match desc.object {
            Object::Pipe(pipe, _) => self.pipes.ready(pipe, desc.flags),
            Object::Tty(_) => self.terminal.tty_ready(),
            Object::Stream => self.terminal.stream_ready(),
            _ => POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM,
        }
    }

    fn wait_for(&mut self, pid: Pid, id: u32) {
        let Ok(desc) = self.desc(pid, id) else { return };
        match desc.object {
            Object::Pipe(pipe, _) => self.pipes.wait(pipe, self.speaker),
            Object::Tty(_) | Object::Stream => self.terminal.wait(self.speaker),
            _ => {}
        }
    }
}
