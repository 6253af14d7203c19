//! What is lent of a stream: bytes that go from the process at its one end to that at the other, without this queue.
//!
//! While the [ring](Ring) of a queue is open, there is nothing else in that. Whoever looks at what is in the queue, or
//! changes it, has what is in the ring first ([`Queue::settled`](crate::queue::Queue::settled)).

use crate::message::{Outgoing, User};
use crate::socket::{Kind, Number, Peer, Socket, Sockets};
use alloc::vec::Vec;
use piecewise::Shares;
use unixproto::Errno;

/// Bytes that a ring holds, at most.
pub const RING_BYTES: usize = 64 * 1024;
/// What a loan counts for: the ring, and as much where to put what is in it.
const LOAN_BYTES: usize = 2 * RING_BYTES;
/// Who has written what is in a ring nobody says, as Linux does of what was sent before somebody wanted to be told (`SO_PASSCRED`).
const NOBODY: User = User { pid: 0, uid: 65534, gid: 65534 };

/// A ring that is lent to both ends.
pub trait Ring {
    /// Is it open, or is something in it that was not taken?
    fn is_in_use(&self) -> bool;
    /// Closes it: from now on nothing comes into it, or goes out. Answers how many bytes are in it.
    fn close(&self) -> usize;
    /// Is it open?
    fn is_open(&self) -> bool;
    /// How many bytes are in it, as its ends say. It stays as it is.
    fn bytes(&self) -> usize;
    /// Takes what is in it, which is closed, to the end of `to`, where there is room.
    fn take(&self, to: &mut Vec<u8>);
    /// Opens it, if it is lent to both, and empty.
    fn open(&self);
    /// Is it of no use any more?
    fn is_bad(&self) -> bool;
}

/// A ring that is lent, and what is needed to have what is in it.
#[derive(Debug)]
pub(crate) struct Loan<R> {
    pub ring: R,
    /// Where that goes: no memory is needed to take the ring back.
    spare: Vec<u8>,
    /// Who is charged: the user of the socket that writes.
    uid: u32,
    /// Where what is not taken counts.
    outgoing: Outgoing,
}

impl<R: Ring> Loan<R> {
    /// What is in the ring: bytes, who is charged for them, and where they count.
    pub fn take(&mut self, charged: &mut Shares) -> Option<(Vec<u8>, User, u32, Outgoing)> {
        let bytes = self.ring.close();
        if bytes == 0 {
            return None;
        }
        let mut all = core::mem::take(&mut self.spare);
        self.ring.take(&mut all);
        charged.take(self.uid, all.len());
        Some((all, NOBODY, self.uid, self.outgoing.clone()))
    }

    /// Is there memory to take back what is in it?
    fn is_prepared(&mut self) -> bool {
        self.spare.capacity() >= RING_BYTES || self.spare.try_reserve_exact(RING_BYTES).is_ok()
    }
}

impl<R> Socket<R> {
    /// Is it one end of a stream of which nothing is to be told but bytes?
    fn is_plain(&self) -> bool {
        let is_whole = !self.is_over && !self.is_mute && self.error.is_none();
        self.kind == Kind::Stream && is_whole && !self.options.tells_user
    }
}

impl<R: Ring> Sockets<R> {
    /// The other end of a stream.
    pub fn peer(&self, number: Number) -> Option<Number> {
        match self.get(number).ok()?.peer {
            Peer::One(peer) => Some(peer),
            _ => None,
        }
    }

    /// Is anything lent of any?
    #[inline]
    pub fn has_loans(&self) -> bool {
        self.loans > 0
    }

    /// What is lent of what comes to a socket.
    ///
    /// # Errors
    /// `EBADF`: nothing is.
    pub fn ring(&self, number: Number) -> Result<&R, Errno> {
        self.get(number)?.queue.ring().ok_or(Errno::EBADF)
    }

    /// The same, to be changed; what `make` makes if nothing is lent yet.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is not one end of a stream, or there is more to tell than bytes. `ENOBUFS`: its user has enough.
    pub fn lend(
        &mut self,
        number: Number,
        make: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<&mut R, Errno> {
        let peer = self.peer(number).ok_or(Errno::EOPNOTSUPP)?;
        let writer = self.get(peer)?;
        let (uid, outgoing) = (writer.user.uid, writer.outgoing.clone());
        if !writer.is_plain() || !self.get(number)?.is_plain() {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.ring(number).is_err() {
            if !self.bytes.has_room(uid, LOAN_BYTES) {
                return Err(Errno::ENOBUFS);
            }
            let loan = Loan { ring: make()?, spare: Vec::new(), uid, outgoing };
            self.get_mut(number)?.queue.begin_loan(loan);
            self.bytes.take(uid, LOAN_BYTES);
            self.loans += 1;
        }
        self.get_mut(number)?.queue.ring_mut().ok_or(Errno::EBADF)
    }

    /// Nothing that comes to a socket is lent any more.
    pub fn end_loan(&mut self, number: Number) {
        let Some(socket) = self.table.get_mut(number as usize) else { return };
        let Some(loan) = socket.queue.end_loan(&mut self.bytes) else { return };
        self.bytes.give_back(loan.uid, LOAN_BYTES);
        self.loans -= 1;
    }

    /// The same of both directions of a stream.
    pub fn end_loans(&mut self, number: Number) {
        if self.has_loans() {
            let peer = self.peer(number);
            core::iter::once(number).chain(peer).for_each(|number| self.end_loan(number));
        }
    }

    /// Could what is lent of what comes to a socket be used, if nobody waits for it or watches it? What cannot be used any more goes.
    pub fn is_at_rest(&mut self, number: Number) -> bool {
        match self.ring(number).map(Ring::is_bad) {
            Ok(true) => self.end_loan(number),
            Ok(false) => {}
            Err(_) => return false,
        }
        let Some(peer) = self.peer(number) else { return false };
        let is_plain = |number| self.get(number).is_ok_and(Socket::is_plain);
        let are_plain = is_plain(number) && is_plain(peer);
        are_plain && self.get(number).is_ok_and(|socket| socket.queue.is_at_rest())
    }

    /// It is used from now on.
    pub fn open_ring(&mut self, number: Number) {
        let Ok(socket) = self.get_mut(number) else { return };
        let Some(loan) = socket.queue.loan_mut() else { return };
        if loan.is_prepared() {
            loan.ring.open();
        }
    }
}
