//! Requests about what is lent of pipes and of streams of local sockets ([`crate::peers`]).

use crate::descs::Object;
use crate::peers::{Ring, Watched};
use crate::procs::Pid;
use crate::ring::{READ, WRITE};
use crate::server::Unixd;
use crate::voices::Speaker;
use crate::wait::{done, Tried};
use crate::watches::{Audience, Source};
use alloc::boxed::Box;
use sockets::Number;
use unixproto::ops::LentEnd;
use unixproto::session::lent_end;
use unixproto::{op, Errno, Reply};

/// What bytes go by from one end to the other.
#[derive(Clone, Copy)]
enum Way {
    /// A pipe.
    Pipe(u32),
    /// The queue of a stream socket.
    Queue(Number),
}

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

    /// A request for a stream has been served: the same of both of its directions.
    pub(super) fn let_stream_rest(&mut self, desc: u32) {
        if !self.sockets.all.has_loans() {
            return;
        }
        let Ok(Object::Socket(number)) =
            self.descs.of(self.caller.pid, desc).map(|desc| &desc.object)
        else {
            return;
        };
        let number = *number;
        let peer = self.sockets.all.peer(number);
        core::iter::once(number).chain(peer).for_each(|number| self.let_queue_rest(number));
    }

    #[inline(never)]
    fn let_queue_rest(&mut self, number: Number) {
        if self.sockets.is_at_rest(number) {
            match self.may_be_used(number) {
                Some(true) => self.sockets.all.open_ring(number),
                Some(false) => {}
                None => self.sockets.all.end_loan(number),
            }
        }
    }

    /// Does everybody who watches what comes to a stream look into its ring? `Some(false)`: not now. `None`: nothing is lent of it any more.
    fn may_be_used(&self, number: Number) -> Option<bool> {
        let watched = match self.audience(number).ok()? {
            Audience::Nobody => return Some(true),
            Audience::One(watched) => watched,
            Audience::Many => return None,
        };
        match self.sockets.all.ring(number).ok()?.is_watched_since(watched) {
            Some(false) => None,
            Some(true) => Some(!self.watches.is_waiting(watched.pid, &self.procs)),
            None => Some(false),
        }
    }

    /// Processes that watch what comes to a stream.
    ///
    /// # Errors
    /// `EBUSY`: others are told, too.
    fn audience(&self, number: Number) -> Result<Audience, Errno> {
        let source = Source::Socket(number);
        match self.sets.has(source) || self.readiness.has(source) {
            true => Err(Errno::EBUSY),
            false => Ok(self.watches.audience(source)),
        }
    }

    /// Those whose streams are not lent for the moment, and who watch them, are told what is there.
    #[inline]
    pub(super) fn tell_closed(&mut self) {
        if self.sockets.has_closed() {
            for number in self.sockets.take_closed() {
                self.fx.changed(Source::Socket(number), true);
            }
        }
    }

    /// Since when the caller watches what it wants to be lent.
    ///
    /// # Errors
    /// `EBUSY`: it is not the only one.
    fn watched(&self, way: Way, op: op::LendEnd) -> Result<Option<Watched>, Errno> {
        let number = match way {
            Way::Queue(number) => number,
            Way::Pipe(pipe) if self.is_watched(Source::Pipe(pipe)) => return Err(Errno::EBUSY),
            Way::Pipe(_) => return Ok(None),
        };
        match self.audience(number)? {
            Audience::Nobody => Ok(None),
            // Who reads decides whether that can be.
            Audience::One(_) if op.writes => Ok(None),
            Audience::One(watched) if (watched.pid, watched.desc) == (self.caller.pid, op.desc) => {
                Ok(Some(watched))
            }
            Audience::One(_) | Audience::Many => Err(Errno::EBUSY),
        }
    }

    /// An end of a description: what it is an end of, and which.
    fn end_of(&self, pid: Pid, desc: u32, writes: bool) -> Result<(Way, usize), Errno> {
        let desc = self.descs.of(pid, desc)?;
        if writes { desc.writable() } else { desc.readable() }.map_err(|_| Errno::EINVAL)?;
        let which = if writes { WRITE } else { READ };
        let way = match desc.object {
            // Who has both ends by one description is lent none.
            Object::Pipe(..) if desc.readable().is_ok() && desc.writable().is_ok() => {
                return Err(Errno::EINVAL);
            }
            Object::Pipe(pipe, _) => Way::Pipe(pipe),
            Object::Socket(number) if !writes => Way::Queue(number),
            Object::Socket(number) => {
                Way::Queue(self.sockets.all.peer(number).ok_or(Errno::EOPNOTSUPP)?)
            }
            _ => return Err(Errno::EOPNOTSUPP),
        };
        Ok((way, which))
    }

    fn ring(&self, way: Way) -> Result<&Ring, Errno> {
        match way {
            Way::Pipe(pipe) => self.pipes.ring(pipe),
            Way::Queue(number) => self.sockets.all.ring(number).map(|ring| &**ring),
        }
    }

    /// What who finds nothing to do at an end does.
    fn idle(&self, pid: Pid, op: op::LendEnd) -> Result<u32, Errno> {
        let desc = self.descs.of(pid, op.desc)?;
        let waits_so_long = match desc.object {
            // As much may be written to it as to one that is not lent, which is more than goes into the ring.
            Object::Socket(_) if op.writes => true,
            Object::Socket(number) => self.sockets.all.options(number)?.receive_ns != 0,
            _ => op.writes && desc.nonblocking(),
        };
        Ok(match desc.nonblocking() {
            _ if waits_so_long => lent_end::ASKS,
            true => lent_end::FAILS,
            false => lent_end::SLEEPS,
        })
    }

    /// Lends the caller an end.
    pub(super) fn lend_end(&mut self, op: op::LendEnd) -> Tried {
        let Speaker { pid, tid } = self.caller;
        // What is lent does not go to other cores; and who has the memory of another process has not what he holds for himself.
        if self.procs.unit_of(tid).is_some() || self.descs.is_beside(pid) {
            return Err(Errno::EOPNOTSUPP);
        }
        let (way, which) = self.end_of(pid, op.desc, op.writes)?;
        let watched = self.watched(way, op)?;
        let who = (pid, op.desc);
        match way {
            Way::Pipe(pipe) => self.pipes.lend(pipe, which, who)?,
            Way::Queue(number) => {
                let closed = self.sockets.closings();
                let make = || Ok(Box::new(Ring::of_stream(number, closed)?));
                let ring = self.sockets.all.lend(number, make)?;
                ring.lend(which, who)?;
                if !op.writes {
                    ring.set_watched(watched);
                }
            }
        }
        let answer = LentEnd { idle: self.idle(pid, op)? };
        let lent = self.ring(way)?.end(which, answer.encode());
        match way {
            Way::Pipe(pipe) => self.let_rest(pipe),
            Way::Queue(number) => self.let_queue_rest(number),
        }
        lent
    }

    /// Gives the caller what notifies the other end of one that it has lent.
    pub(super) fn peer_bell(&mut self, op: op::PeerBell) -> Tried {
        let pid = self.caller.pid;
        let (way, which) = self.end_of(pid, op.desc, op.writes)?;
        self.ring(way)?.bell(which, pid, ().encode())
    }

    /// The caller gives an end back.
    pub(super) fn return_end(&mut self, op: op::ReturnEnd) -> Tried {
        match self.end_of(self.caller.pid, op.desc, op.writes)?.0 {
            Way::Pipe(pipe) => self.pipes.end_loan(pipe),
            Way::Queue(number) => self.sockets.all.end_loan(number),
        }
        done(())
    }

    /// Has whoever sleeps at the other end look.
    pub(super) fn wake_peer(&mut self, op: op::WakePeer) -> Tried {
        let (way, _) = self.end_of(self.caller.pid, op.desc, op.writes)?;
        // Closed, which wakes whoever sleeps.
        self.ring(way)?.close();
        done(())
    }
}
