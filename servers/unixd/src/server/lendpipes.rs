//! Requests about what is lent of pipes ([`crate::peers`]).

use crate::pipes::pipe_of;
use crate::procs::Pid;
use crate::ring::{READ, WRITE};
use crate::server::Unixd;
use crate::voices::Speaker;
use crate::wait::{done, Tried};
use crate::watches::Source;
use unixproto::ops::LentEnd;
use unixproto::{Errno, Reply};

impl Unixd {
    /// A request for a pipe has been served: from now on its ends need not ask, if it is lent to them and nobody else looks at it.
    #[inline(always)]
    pub(super) fn let_rest(&mut self, pipe: u32) {
        if self.pipes.is_lent(pipe) {
            self.let_lent_rest(pipe);
        }
    }

    #[inline(never)]
    fn let_lent_rest(&mut self, pipe: u32) {
        if self.pipes.is_at_rest(pipe) {
            match self.is_watched(Source::Pipe(pipe)) {
                // That lasts, mostly as long as the pipe does.
                true => self.pipes.end_loan(pipe),
                false => self.pipes.open_ring(pipe),
            }
        }
    }

    fn is_watched(&self, source: Source) -> bool {
        self.watches.has(source) || self.sets.has(source) || self.readiness.has(source)
    }

    /// The pipe of a description, and which of its ends that is.
    fn end_of(&self, pid: Pid, desc: u32) -> Result<(u32, usize), Errno> {
        let desc = self.descs.of(pid, desc)?;
        let which = match (desc.readable(), desc.writable()) {
            (Ok(()), Err(_)) => READ,
            (Err(_), Ok(())) => WRITE,
            _ => return Err(Errno::EINVAL),
        };
        Ok((pipe_of(desc)?, which))
    }

    /// Lends the caller an end of a pipe.
    pub(super) fn lend_pipe(&mut self, desc: u32) -> Tried {
        let Speaker { pid, tid } = self.caller;
        // What is lent does not go to other cores; and who has the memory of another process has not what he holds for himself.
        if self.procs.unit_of(tid).is_some() || self.descs.is_beside(pid) {
            return Err(Errno::EOPNOTSUPP);
        }
        let (pipe, which) = self.end_of(pid, desc)?;
        if self.is_watched(Source::Pipe(pipe)) {
            return Err(Errno::EBUSY);
        }
        self.pipes.lend(pipe, which, (pid, desc))?;
        let waits = !self.descs.of(pid, desc)?.nonblocking();
        let answer = LentEnd { writes: which == WRITE, waits };
        let lent = self.pipes.ring(pipe)?.end(which, answer.encode());
        self.let_rest(pipe);
        lent
    }

    /// Gives the caller what notifies the other end of a pipe of which it has one lent.
    pub(super) fn pipe_bell(&mut self, desc: u32) -> Tried {
        let pid = self.caller.pid;
        let (pipe, which) = self.end_of(pid, desc)?;
        self.pipes.ring(pipe)?.bell(which, pid, ().encode())
    }

    /// Has whoever sleeps at the other end of a pipe look at it.
    pub(super) fn wake_peer(&mut self, desc: u32) -> Tried {
        let (pipe, _) = self.end_of(self.caller.pid, desc)?;
        // Closed, which wakes whoever sleeps.
        self.pipes.length(pipe);
        done(())
    }
}
